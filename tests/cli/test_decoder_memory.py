#!/usr/bin/env python3
"""A decoder whose past and present keys and values leave little room: the model of ../shared/data/faults."""

import os
import unittest

import test_cli

DATA = os.path.join(os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(test_cli.TOP, "../shared/data")),
                    "faults/pipeline-kv-nofit")
LIMIT = 35.8e6  # bytes of a device of two.json


@unittest.skipUnless(os.path.isdir(DATA), "no ../shared/data")
class Decoder(test_cli.Case):
    def test_two_stages_fit_for_every_objective(self):
        """One device would need 44.8 MB, so that the fewest devices are two."""
        for objective in ("latency", "throughput", "devices"):
            plan = self.json("plan", os.path.join(DATA, "kv_L2.json"), "--cluster", os.path.join(DATA, "two.json"),
                             "--strategy", "pipeline", "--objective", objective)
            self.assertEqual(len([device for device in plan["devices"] if device["memory"]["weights_bytes"]]), 2)
            for device in plan["devices"]:
                self.assertLess(device["memory"]["total_bytes"], LIMIT)


if __name__ == "__main__":
    unittest.main()
