#!/usr/bin/env python3
"""Quantised weights keep the memory of their narrow type: the models of ../shared/data/faults."""

import os
import unittest

import test_cli

DATA = os.path.join(os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(test_cli.TOP, "../shared/data")),
                    "faults/qdq-weight-memory")
STORED = 4096 * 4096 // 2 + 131072 * 2  # int4 elements and float16 scales


@unittest.skipUnless(os.path.isdir(DATA), "no ../shared/data")
class Weights(test_cli.Case):
    def test_dequantised_and_packed_ones_are_alike(self):
        seconds = []
        for name in ("int4_qdq", "int4_nbits"):
            plan = self.json("plan", os.path.join(DATA, name + ".json"), "--devices", "1", "--device", "l4-24gb")
            self.assertAlmostEqual(plan["devices"][0]["memory"]["weights_bytes"], STORED, delta=0.02 * STORED)
            seconds.append(plan["estimate"]["latency_seconds"])
        self.assertAlmostEqual(seconds[0], seconds[1], delta=0.02 * seconds[1])

    def test_parts(self):
        for count in (2, 4, 8):
            plan = self.json("plan", os.path.join(DATA, "int4_qdq.json"), "--devices", str(count), "--device", "l4-24gb",
                             "--strategy", "tensor")
            for device in plan["devices"]:
                self.assertAlmostEqual(device["memory"]["weights_bytes"], STORED / count, delta=0.02 * STORED / count)

    def test_they_fit_where_floats_would_not(self):
        for name in ("int4_qdq", "int4_nbits"):
            plan = self.json("plan", os.path.join(DATA, name + ".json"), "--cluster", os.path.join(DATA, "d20mb.json"))
            self.assertLess(plan["devices"][0]["memory"]["total_bytes"], 20e6)


if __name__ == "__main__":
    unittest.main()
