#!/usr/bin/env python3
"""Clusters as they are: devices left out, groups in any order, memory for others, prices. Numbers are those of the file."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402
from test_variants import DEVICE, valid  # noqa: E402


class Clusters(test_cli.Case):
    def cluster(self, **members):
        return self.file("cluster.json", json.dumps({"count": 4, "device": DEVICE, **members}).encode())

    def planned(self, *options, **members):
        return valid(self.json("plan", self.mlp(), "--cluster", self.cluster(**members), *options))

    def test_devices_that_are_left_out(self):
        plan = self.planned("--objective", "latency", "--strategy", "tensor", exclude=[1])
        self.assertEqual([device["id"] for device in plan["devices"]], [0, 2, 3])
        self.assertEqual(plan["cluster"]["exclude"], [1])
        for stage in plan["stages"]:
            self.assertLessEqual(set(stage["devices"]), {0, 2, 3})
        used = {device for stage in plan["stages"] for device in stage["devices"]}
        for tensor in plan["tensors"]:
            spec = tensor["spec"]["onnx"]
            self.assertLessEqual({int(d) for d in spec["device"]}, used)
        self.assertEqual({device["id"] for device in plan["devices"] if device["stage"] is not None}, used)

    def test_the_same_devices_cost_the_same_wherever_they_stand(self):
        alone = self.planned(count=3)
        for exclude in ([0], [1], [3]):
            with self.subTest(exclude=exclude):
                other = self.planned(exclude=exclude)
                self.assertEqual(other["estimate"]["interval_seconds"], alone["estimate"]["interval_seconds"])
        group = {"count": 1, "device": DEVICE}
        slow = {"count": 1, "device": {**DEVICE, "name": "slow", "flops": {"float32": 1e11}}}
        path = self.file("mixed.json", json.dumps({"groups": [group, slow, {**group, "count": 2}]}).encode())
        last = self.file("last.json", json.dumps({"groups": [{**group, "count": 3}, slow]}).encode())
        for objective in ("latency", "throughput"):
            plans = [self.json("plan", self.mlp(), "--cluster", cluster, "--objective", objective)
                     for cluster in (path, last)]
            self.assertEqual(*(plan["estimate"]["latency_seconds"] for plan in plans))
            names = [[device["name"] for device in plan["devices"]] for plan in plans]
            self.assertEqual(names, [["small", "slow", "small", "small"], ["small", "small", "small", "slow"]])

    def test_pins_name_devices_by_their_numbers(self):
        pins = self.file("pins.json", json.dumps({"pins": [{"nodes": "*", "device": 3}], "max_stages": 1}).encode())
        plan = self.planned("--constraints", pins, "--strategy", "pipeline", exclude=[0, 1])
        self.assertEqual([stage["devices"] for stage in plan["stages"]], [[3]])
        error = self.done("plan", self.mlp(), "--cluster", self.cluster(exclude=[3]), "--constraints", pins, status=2)
        self.assertIn("device 3, which the cluster leaves out", error.stderr.decode())

    def test_files_of_such_a_plan(self):
        folder = os.path.join(self.folder, "out")
        self.planned("--objective", "latency", "--strategy", "tensor", "--emit", folder, exclude=[0])
        annotated = os.path.join(folder, "annotated.onnx")
        names = self.json("inspect", annotated)["configurations"][0]["devices"]
        self.assertTrue(names)
        self.assertLessEqual(set(names), {"small:1", "small:2", "small:3"})
        text = self.done("export", os.path.join(folder, "plan.json"), "--model", self.mlp(), "--format", "csv-devices")
        rows = [line.split(",") for line in text.stdout.decode().splitlines()]
        numbers = [row[rows[0].index("cluster_device")] for row in rows[1:]]
        self.assertEqual(["small:" + number for number in numbers], [row[1] for row in rows[1:]])

    def test_memory_for_others(self):
        whole = self.planned(count=1)["devices"][0]["memory"]
        self.assertEqual(self.planned(count=1, reserved_bytes=4e8)["devices"][0]["memory"]["capacity_bytes"],
                         whole["capacity_bytes"] - 4e8)
        self.done("plan", self.mlp(), "--cluster", self.cluster(count=1, reserved_bytes=0.9999e9), status=3)

    def test_weights_in_host_memory(self):
        """A model of 1.5 times the devices' memory: refused without a host, planned with one, and every figure adds up."""
        model = self.mlp(layers=24, width=1024, batch=8)
        weights = 24 * 1024 * 1024 * 4
        cluster = {"count": 2, "device": {**DEVICE, "memory_bytes": weights / 3}}
        host = {"memory_bytes": 4e9, "bandwidth": 1e10}
        path = self.file("bare.json", json.dumps(cluster).encode())
        self.done("plan", model, "--cluster", path, status=3)
        self.done("plan", model, "--cluster", self.file(
            "little.json", json.dumps({**cluster, "host": {**host, "memory_bytes": 1e6}}).encode()), status=3)
        path = self.file("host.json", json.dumps({**cluster, "host": host}).encode())
        for objective in ("throughput", "latency"):
            with self.subTest(objective=objective):
                folder = os.path.join(self.folder, objective)
                plan = valid(self.json("plan", model, "--cluster", path, "--objective", objective, "--emit", folder))
                self.check_streams(plan, weights, host)
                with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
                    streamed = json.load(file)["streamed"]
                self.assertEqual({row["device"] for row in streamed},
                                 {device["id"] for device in plan["devices"] if "streamed_bytes" in device["memory"]})
                again = self.done("export", os.path.join(folder, "plan.json"), "--model", model, "--format", "csv-devices")
                self.assertGreater(len(again.stdout.splitlines()), 1)
        limited = self.json("plan", model, "--cluster", self.file("limited.json", json.dumps(
            {**cluster, "host": host, "memory_limit_bytes": weights / 6}).encode()))
        self.check_streams(limited, weights, host)
        text = self.done("plan", model, "--cluster", path).stdout.decode()
        self.assertIn("of its weights stay in host memory and are copied", " ".join(text.split()))

    def check_streams(self, plan, weights, host):
        copied = held = 0
        for stage in plan["stages"]:
            streamed, share = stage.get("streamed", {"bytes": 0, "seconds": 0}), len(stage["devices"])
            rate = min(host["bandwidth"] / (share / stage["replicas"]), 1e11)
            self.assertAlmostEqual(streamed["seconds"], streamed["bytes"] / rate)
            self.assertGreaterEqual(stage["compute_seconds"], streamed["seconds"])
            copied += streamed["bytes"] * share / stage["replicas"]
            if streamed["bytes"] > 0:
                self.assertTrue(streamed["tensors"] and streamed["nodes"])
        for device in plan["devices"]:
            memory = device["memory"]
            self.assertLessEqual(memory["total_bytes"], memory["capacity_bytes"])
            held += memory["weights_bytes"] - memory.get("stream_buffer_bytes", 0) + memory.get("streamed_bytes", 0)
        estimate, capacity = plan["estimate"], sum(device["memory"]["capacity_bytes"] for device in plan["devices"])
        self.assertGreaterEqual(held, weights)
        self.assertGreaterEqual(copied, weights - capacity)
        self.assertGreaterEqual(estimate["interval_seconds"] * (1 + 1e-9), copied / host["bandwidth"])
        self.assertGreaterEqual(estimate["lower_bound_seconds"] * (1 + 1e-9), (weights - capacity) / host["bandwidth"])
        self.assertIn("WEIGHTS_STREAMED", [note["code"] for note in plan["diagnostics"]])
        self.assertEqual(plan["cluster"]["host"], host)

    def test_processors_that_compute(self):
        """A processor is a device of its own kind: it takes what the others have no room for."""
        model = self.mlp(layers=24, width=1024, batch=8)
        small = {**DEVICE, "memory_bytes": 24 * 1024 * 1024}
        path = self.file("mixed.json", json.dumps({
            "groups": [{"count": 2, "device": small}, {"count": 1, "device": "epyc-9654"}],
            "mesh": [{"size": 3, "bandwidth": 3.2e10}]}).encode())
        plan = valid(self.json("plan", model, "--cluster", path))
        processor = plan["devices"][2]
        self.assertEqual(processor["name"], "epyc-9654")
        self.assertGreater(processor["memory"]["weights_bytes"], 50e6)

    def test_prices(self):
        self.assertNotIn("price_per_hour", self.planned()["estimate"])
        plan = self.planned(price_per_hour=1.5)
        self.assertEqual(plan["estimate"]["price_per_hour"], 1.5 * plan["estimate"]["devices_used"])
        text = self.done("plan", self.mlp(), "--cluster", self.cluster(price_per_hour=1.5)).stdout
        self.assertIn(b"US dollars an hour", text)

    def test_what_would_help(self):
        plan = self.planned("--what-if", exclude=[1])
        changes = [row["change"] for row in plan["what_if"]]
        self.assertIn("one more small", changes)
        self.assertIn("one small fewer", changes)

    def test_blocks_follow_the_links(self):
        """Pairs 0-2 and 1-3: two devices are such a pair, four cost what they cost renumbered along a mesh."""
        links = [{"between": [0, 2], "bandwidth": 4e10}, {"between": [1, 3], "bandwidth": 4e10}]
        pcie = {"name": "pcie", "members": [0, 1, 2, 3], "bandwidth": 4e10}
        latency = ["--objective", "latency", "--strategy", "tensor", "--tolerance", "0"]
        wired = self.planned(*latency, links=links, switches=[pcie])
        mesh = self.planned(*latency, mesh=[{"name": "pcie", "size": 2, "bandwidth": 1e10},
                                            {"name": "pair", "size": 2, "bandwidth": 4e10, "latency": 2e-6}])
        self.assertEqual(wired["estimate"]["latency_seconds"], mesh["estimate"]["latency_seconds"])
        self.assertEqual([stage["devices"] for stage in wired["stages"]], [[0, 2, 1, 3]])
        pins = self.file("two.json", json.dumps({"forbid": [{"level": "pcie"}]}).encode())
        pair = self.planned(*latency, "--constraints", pins, links=links, switches=[pcie])
        self.assertEqual([stage["devices"] for stage in pair["stages"]], [[0, 2]])
        self.assertEqual(pair["cluster"]["links"][0]["between"], [0, 2])

    def test_each_of_unequal_devices_is_told(self):
        groups = [{"count": 1, "device": {"name": name, "memory_bytes": 4e9, "memory_bandwidth": speed * 1e8,
                                          "flops": {"float32": speed * 1e8}}}
                  for name, speed in (("big", 3), ("small", 1))]
        mesh = [{"name": "net", "size": 2, "bandwidth": 1e12, "latency": 1e-7}]
        cluster = self.file("unequal.json", json.dumps({"groups": groups, "mesh": mesh}).encode())
        asked = ("plan", self.mlp(), "--cluster", cluster, "--objective", "latency")
        plan, text = valid(self.json(*asked)), self.done(*asked).stdout.decode()
        big, small = plan["devices"]
        self.assertAlmostEqual(big["flops"] / small["flops"], 3, 2)
        self.assertGreater(big["memory"]["total_bytes"], small["memory"]["total_bytes"])
        self.assertRegex(text, r"(?m)^    0  0-1 big \+ 1 more ")
        for device, share in ((big, 3), (small, 1)):
            held = f"{device['memory']['total_bytes'] / 1e6:.1f} MB"
            self.assertRegex(
                text, rf"(?m)^ +{device['id']} {device['name']}: share {share} of 4, .*FLOP, {held} of 4.0 GB$")

    def test_blocks_of_shares_that_do_not_divide(self):
        """Products of width 1001 beside others of width 800: no number of blocks divides both. Which axis, of what, and
        which numbers would do is said as of equal devices, with the tensor as a member of its own."""
        widths, nodes, before = [1001] * 4 + [800], [], "x"
        for i, width in enumerate(widths):
            nodes.append({"name": f"m{i}", "op": "MatMul", "inputs": [before, f"w{i}"], "outputs": [f"t{i}"]})
            before = f"t{i}"
        shapes = [[before, width] for before, width in zip([1001] + widths, widths)]
        model = self.file("model.json", json.dumps({
            "opset": 21, "nodes": nodes, "outputs": [before],
            "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 1001]}],
            "initializers": [{"name": f"w{i}", "dtype": "float32", "shape": shape} for i, shape in enumerate(shapes)]
        }).encode())
        groups = [{"count": 1, "device": {"name": name, "memory_bytes": 1e9, "memory_bandwidth": speed * 1e8,
                                          "flops": {"float32": speed * 1e9}}} for name, speed in (("fast", 2), ("slow", 1))]
        cluster = self.file("cluster.json", json.dumps({
            "groups": groups, "mesh": [{"name": "net", "size": 2, "bandwidth": 1e10, "latency": 1e-8}],
            "launch_seconds": 1e-9, "runtime": "generic"}).encode())
        plan = self.json("plan", model, "--cluster", cluster, "--objective", "latency")
        blocks = sum(plan["outline"]["stages"][0]["shares"])
        [note] = [one for one in plan["diagnostics"] if one["code"] == "AXIS_NOT_DIVISIBLE"]
        self.assertEqual(note["tensor"], "w0")
        self.assertRegex(note["message"], f"^[0-9]+ % of the FLOPs are in operators that shares of {blocks} blocks do not divide "
                                          r"\(axis 0 of 'w0': 1001[,)].*; .* could\.$")
        text = self.done("plan", model, "--cluster", cluster, "--objective", "latency").stdout.decode()
        self.assertIn(note["message"], text)

    def test_what_nvidia_smi_prints(self):
        folder = os.path.join(test_cli.TOP, "tests/fuzz/corpus/topology")
        out = self.path("pairs.json")
        with open(os.path.join(folder, "pairs-4"), "rb") as file:
            text = file.read()
        self.done("cluster", "--from-nvidia-smi", "-", "--device", "rtx-3090-24gb", "-o", out, stdin=text)
        plan = self.json("plan", self.mlp(), "--cluster", out, "--objective", "latency", "--strategy", "tensor")
        self.assertIn([0, 2], [stage["devices"][:2] for stage in plan["stages"]])
        for arguments in (["--from-nvidia-smi", "-"], ["--device", "l4-24gb"],
                          ["--from-nvidia-smi", "-", "--device", "gpu"],
                          ["--from-nvidia-smi", os.path.join(folder, "no-matrix"), "--device", "l4-24gb"]):
            self.done("cluster", *arguments, stdin=text, status=2)

    def test_plans_of_such_clusters_are_made_again(self):
        folder = os.path.join(self.folder, "out")
        nodes = [{"name": "a", "members": [0, 4], "bandwidth": 8e10},
                 {"name": "b", "members": [1, 2, 3], "bandwidth": 8e10},
                 {"name": "net", "members": ["a", "b"], "bandwidth": 4e9}]
        plan = self.planned("--emit", folder, count=5, switches=nodes)
        used = [device for stage in plan["stages"] for device in stage["devices"]]
        self.assertEqual(len(used), len(set(used)))
        for stage in plan["stages"]:
            self.assertTrue(set(stage["devices"]) <= {0, 4} or set(stage["devices"]) <= {1, 2, 3}, stage["devices"])
        self.done("export", os.path.join(folder, "plan.json"), "--model", self.mlp(), "--format", "csv-devices")
        changes = [row["change"] for row in self.planned("--what-if", count=5, switches=nodes)["what_if"]]
        self.assertIn("links of 'net' twice as fast", changes)
        self.assertNotIn("one more small", changes)


if __name__ == "__main__":
    unittest.main()
