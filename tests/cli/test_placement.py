#!/usr/bin/env python3
"""`plan --placement any` of the device placement workloads of Tarnawski et al. (NeurIPS 2020), whose values others
published. Their pipeline adds a device's transfers to its computing, where ours overlaps them, so what their sets reach
a plan has to reach, too. What a plan says is worked out once more, from the instance and the nodes of each device.

Only accelerators are used here, and edges say the seconds of the instance, so that memory is that of the nodes alone.
Needs ../shared/data."""

import collections
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402

DATA = os.path.join(os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(test_cli.TOP, "../shared/data")),
                    "dnn-partitioning")
MILLISECOND = 1e-3


def load(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as file:
        return json.load(file)


def costs_of(instance):
    """The instance as a graph of costs."""
    colors = collections.Counter(node.get("colorClass") for node in instance["nodes"])
    nodes = [{"id": node["id"], "seconds": {"accelerator": node["fpgaLatency"] * MILLISECOND},
              "memory_bytes": node["size"],
              **({"group": node["colorClass"]} if "colorClass" in node and colors[node["colorClass"]] > 1 else {})}
             for node in instance["nodes"]]
    edges = [{"from": edge["sourceId"], "to": edge["destId"], "seconds": edge["cost"] * MILLISECOND}
             for edge in instance["edges"]]
    return {"nodes": nodes, "edges": edges}


@unittest.skipUnless(os.path.isdir(DATA), "no ../shared/data")
class Published(test_cli.Case):
    def plan(self, instance, *options):
        graph = self.file("graph.json", json.dumps(costs_of(instance)).encode())
        cluster = self.file("cluster.json", json.dumps({
            "count": instance["maxFPGAs"],
            "device": {"name": "accelerator", "memory_bytes": instance["maxSizePerFPGA"], "memory_bandwidth": 1e12,
                       "flops": {"float32": 1e12}, "link_bandwidth": 1e12}}).encode())
        return self.json("plan", graph, "--cluster", cluster, *options)

    def check_figures(self, plan, instance):
        nodes = {str(node["id"]): node for node in instance["nodes"]}
        device_of = {name: device["id"] for device in plan["devices"] for name in device["nodes"]}
        self.assertEqual(set(device_of), set(nodes))
        busy, size = collections.Counter(), collections.Counter()
        for name, device in device_of.items():
            busy["compute", device] += nodes[name]["fpgaLatency"]
            size[device] += nodes[name]["size"]
        for source, cost, target in {(edge["sourceId"], edge["cost"], device_of[str(edge["destId"])])
                                     for edge in instance["edges"]}:
            if target != device_of[str(source)]:
                busy["send", device_of[str(source)]] += cost
                busy["receive", target] += cost
        self.assertAlmostEqual(plan["estimate"]["interval_seconds"], max(busy.values()) * MILLISECOND, delta=1e-9)
        self.assertLessEqual(max(size.values()), instance["maxSizePerFPGA"])

    def check_instance(self, name):
        known = load("expected.json")["throughput"][name]
        instance = load(f"throughput-{name}.json")
        plan = self.plan(instance, "--placement", "any", "--tolerance", "0")
        contiguous = self.plan(instance, "--tolerance", "0", "--replicas", "1")
        self.check_figures(plan, instance)
        estimate = plan["estimate"]
        self.assertLessEqual(estimate["interval_seconds"], contiguous["estimate"]["interval_seconds"])
        self.assertLessEqual(estimate["lower_bound_seconds"], estimate["interval_seconds"])
        best = known.get("best_noncontiguous_known", known["contiguous_optimum"])
        self.assertLessEqual(estimate["interval_seconds"], best * MILLISECOND)
        return plan

    def expect_shared(self, plan):
        self.assertTrue(any(len(device["stages"]) > 1 for device in plan["devices"]))

    def test_bert_layers(self):
        self.expect_shared(self.check_instance("layer-bert24_inference"))

    def test_gnmt_layers(self):
        self.expect_shared(self.check_instance("layer-gnmt_inference"))

    def test_bert_operators(self):
        self.check_instance("op-bert_l-3_inference")

    def test_resnet_operators(self):
        self.expect_shared(self.check_instance("op-resnet50_inference"))


if __name__ == "__main__":
    unittest.main()
