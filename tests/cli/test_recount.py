#!/usr/bin/env python3
"""That the memory of plans is counted again at all: plans that are wrong in one place are found (tests/tools/recount.py)."""

import copy
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402
from test_cli import recount  # noqa: E402


class Recount(test_cli.Case):
    def setUp(self):
        super().setUp()
        self.model = self.mlp(6, 1024, 256)
        with open(self.model, "rb") as file:
            self.bytes = file.read()

    def refuse(self, plan, change):
        """The plan is right, and not after the change."""
        wrong = copy.deepcopy(plan)
        change(wrong)
        self.assertTrue(recount.check(plan, self.bytes))
        with self.assertRaises(recount.Wrong):
            recount.check(wrong, self.bytes)

    def refuse_figures(self, plan):
        for member in ("weights_bytes", "activations_peak_bytes", "communication_bytes", "total_bytes"):
            for by in (-1, 1):
                with self.subTest(member, by=by):
                    self.refuse(plan, lambda wrong: wrong["devices"][1]["memory"].update(
                        {member: wrong["devices"][1]["memory"][member] + by}))  # noqa: B023
        for device in range(len(plan["devices"])):
            self.refuse(plan, lambda wrong: wrong["devices"][device]["memory"].update(  # noqa: B023
                capacity_bytes=wrong["devices"][device]["memory"]["total_bytes"] - 1))  # noqa: B023

    def test_stages(self):
        plan = self.plan(self.model, 3, "--strategy", "pipeline")
        self.assertEqual(len(plan["stages"]), 3)
        self.refuse_figures(plan)

        def move(wrong):
            wrong["stages"][1]["nodes"].insert(0, wrong["stages"][0]["nodes"].pop())

        def place(wrong):
            next(tensor for tensor in wrong["tensors"] if tensor["kind"] == "weight")["spec"]["onnx"]["device"] = [2]

        self.refuse(plan, move)
        self.refuse(plan, place)
        self.refuse(plan, lambda wrong: wrong["collectives"].pop())
        self.refuse(plan, lambda wrong: wrong["devices"][0].update(stage=1))
        self.refuse(plan, lambda wrong: wrong["tensors"][0].update(bytes=wrong["tensors"][0]["bytes"] / 2))

    def test_splits(self):
        cluster = self.file("c.json", json.dumps(
            {"device": "a100-sxm4-80gb", "count": 2, "memory_limit_bytes": 18 << 20}).encode())
        plan = self.json("plan", self.model, "--cluster", cluster, "--strategy", "tensor")
        self.assertEqual([len(stage["devices"]) for stage in plan["stages"]], [2])
        self.refuse_figures(plan)
        split = [place for place, tensor in enumerate(plan["tensors"])
                 if tensor["kind"] == "weight" and "bytes_per_device" in tensor]
        self.assertGreater(len(split), 0)

        def whole(wrong):
            tensor = wrong["tensors"][split[0]]
            tensor["spec"]["text"] = "R" * len(tensor["shape"])
            del tensor["spec"]["onnx"]["sharded_dim"]
            tensor["bytes_per_device"] = tensor["bytes"]

        self.refuse(plan, whole)
        self.refuse(plan, lambda wrong: wrong["tensors"][split[0]].update(bytes_per_device=1))

    def test_shares(self):
        groups = [{"count": 1, "device": {"name": name, "memory_bytes": 4e9, "memory_bandwidth": speed * 1e8,
                                          "flops": {"float32": speed * 1e8}}}
                  for name, speed in (("big", 3), ("small", 1))]
        mesh = [{"name": "net", "size": 2, "bandwidth": 1e12, "latency": 1e-7}]
        cluster = self.file("c.json", json.dumps({"groups": groups, "mesh": mesh}).encode())
        plan = self.json("plan", self.model, "--cluster", cluster, "--objective", "latency")
        self.assertEqual(plan["outline"]["stages"][0]["shares"], [3, 1])
        self.refuse_figures(plan)
        first = next(tensor for tensor in plan["tensors"] if tensor["kind"] == "weight" and "bytes_per_device" in tensor)

        def list_other(wrong):
            next(tensor for tensor in wrong["tensors"] if tensor == first)["spec"]["onnx"]["device"] = [0, 0, 1, 1]

        self.refuse(plan, list_other)
        self.refuse(plan, lambda wrong: wrong["outline"]["stages"][0].update(shares=[2, 2]))

    def test_shares_of_nodes(self):
        """Two nodes of a quick device and a slow one, with slow links between: a stage each, or replicas of one."""
        groups = [{"count": 1, "device": {"name": name, "memory_bytes": memory, "memory_bandwidth": speed * 1e8,
                                          "flops": {"float32": speed * 1e8}}}
                  for name, speed, memory in (("big", 3, 48e6), ("small", 1, 16e6)) * 2]
        mesh = [{"name": "out", "size": 2, "bandwidth": 1e4, "latency": 1e-3},
                {"name": "in", "size": 2, "bandwidth": 1e12, "latency": 1e-7}]
        cluster = self.file("c.json", json.dumps({"groups": groups, "mesh": mesh}).encode())
        plan = self.json("plan", self.model, "--cluster", cluster, "--replicas", "2")
        self.assertEqual([stage["replicas"] for stage in plan["outline"]["stages"]], [2])
        self.assertEqual(plan["outline"]["stages"][0]["shares"], [3, 1])
        self.refuse_figures(plan)
        for group in groups:
            group["device"]["memory_bytes"] /= 2.2
        mesh[0]["bandwidth"] = 1e5
        cluster = self.file("c.json", json.dumps({"groups": groups, "mesh": mesh}).encode())
        plan = self.json("plan", self.model, "--cluster", cluster, "--objective", "latency")
        self.assertEqual([stage.get("shares") for stage in plan["outline"]["stages"]], [[3, 1], [3, 1]])
        self.refuse_figures(plan)

    def test_costs(self):
        with open(os.path.join(test_cli.TOP, "api/examples/costs.json"), "rb") as file:
            self.bytes = file.read()
        plan = self.json("plan", os.path.join(test_cli.TOP, "api/examples/costs.json"), "--cluster",
                         os.path.join(test_cli.TOP, "api/examples/costs-cluster.json"))
        self.refuse_figures(plan)


if __name__ == "__main__":
    unittest.main()
