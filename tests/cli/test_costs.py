#!/usr/bin/env python3
"""Graphs of costs and measured times, on the command line."""

import csv
import io
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402
from test_cli import onnx_make  # noqa: E402

EXAMPLE = os.path.join(test_cli.TOP, "api/examples/costs.json")
PROFILE = os.path.join(test_cli.TOP, "tests/data/chain_6_profile.json")


class Costs(test_cli.Case):
    def setUp(self):
        super().setUp()
        self.cluster = os.path.join(test_cli.TOP, "api/examples/costs-cluster.json")

    def plan_example(self, *arguments, **more):
        return self.json("plan", EXAMPLE, "--cluster", self.cluster, *arguments, **more)

    def table(self, plan, form):
        text = self.done("export", plan, "--model", EXAMPLE, "--format", form).stdout.decode()
        return list(csv.DictReader(io.StringIO(text)))

    def test_inspect(self):
        answer = self.json("inspect", EXAMPLE, "--values")
        self.assertEqual(
            {name: answer[name] for name in ("name", "graph", "format", "node_count", "edge_count", "group_count")},
            {"name": "costs.json", "graph": "two towers", "format": "costs", "node_count": 7, "edge_count": 6,
             "group_count": 1})
        self.assertEqual(answer["memory_bytes"], 200e6 + 900e6 + 600e6 + 10e6)
        self.assertEqual(answer["devices"]["cpu-core"]["nodes"], 7)
        self.assertAlmostEqual(answer["devices"]["a100-sxm4-80gb"]["seconds"], 0.0127)
        self.assertIn({"name": "pooled", "from": "image.0", "bytes": 1000000, "seconds": None}, answer["tensors"])
        text = self.done("inspect", EXAMPLE).stdout.decode()
        self.assertIn("a graph of costs, without operators", text)

    def test_check(self):
        answer = self.json("check", EXAMPLE)
        self.assertEqual((answer["valid"], answer["diagnostics"]), (True, []))
        self.done("check", EXAMPLE, "--configuration", "c", status=2)

    def test_plan(self):
        """The decoder runs on the processor only; the two layers of text are one group; 6.2 ms is what they take."""
        path = self.path("plan.json")
        plan = self.plan_example("--plan", path)
        self.assertAlmostEqual(plan["estimate"]["interval_seconds"], 0.0062)
        self.assertEqual(plan["model"]["ir_version"], None)
        stage = {node: item["index"] for item in plan["stages"] for node in item["nodes"]}
        self.assertEqual(plan["stages"][stage["jpeg decoder"]]["devices"], [0])
        self.assertEqual(stage["text.0"], stage["text.1"])
        sent = {item["tensor"]: item for item in plan["collectives"]}
        self.assertEqual(sent["jpeg decoder"]["seconds"], 0.0003)
        nodes = self.table(path, "csv")
        self.assertEqual({row["node"]: int(row["stage"]) for row in nodes}, stage)
        self.assertEqual([float(row["seconds"]) for row in nodes if row["node"] == "jpeg decoder"], [0.0022])
        of_device = {device: len(item["nodes"]) for item in plan["stages"] for device in item["devices"]}
        self.assertEqual({int(row["device"]): int(row["nodes"]) for row in self.table(path, "csv-devices")}, of_device)
        self.assertEqual({row["tensor"] for row in self.table(path, "csv-collectives")}, set(sent))
        self.assertEqual(len(self.table(path, "csv-tensors")), 7)

    def test_text(self):
        text = self.done("plan", EXAMPLE, "--cluster", self.cluster).stdout.decode()
        self.assertIn("7 nodes of a graph of costs, 1.7 GB of memory", text)

    def test_emit_has_no_models(self):
        folder = self.path("out")
        done = self.done("plan", EXAMPLE, "--cluster", self.cluster, "--emit", folder)
        self.assertEqual(sorted(os.listdir(folder)), ["plan.json", "timeline.pftrace"])
        self.assertIn(b"no operators", done.stderr)

    def test_what_needs_operators_is_refused(self):
        path = self.path("plan.json")
        self.plan_example("--plan", path)
        out = self.path("out")
        for arguments in (
            ("plan", EXAMPLE, "--cluster", self.cluster, "-o", out),
            ("strip", EXAMPLE, "-o", out),
            ("infer", EXAMPLE, "-o", out),
            ("export", EXAMPLE, "--format", "csv"),
            *(("export", path, "--model", EXAMPLE, "--format", form, "-o", out)
              for form in ("simulation", "ort", "ort-collectives", "tensorrt", "sessions", "poprt", "qualcomm-mdp",
                           "op-sharding", "shardy", "ort-layers", "model-explorer", "model-explorer-seconds")),
        ):
            with self.subTest(arguments[:2] + arguments[-3:-2]):
                self.assertIn(b"[NO_OPERATORS]", self.done(*arguments, status=1).stderr)
                self.assertFalse(os.path.exists(out))

    def test_what_is_wrong_is_told_with_its_place(self):
        for text, status, code, where in (
            ({"nodes": [{"id": 1, "seconds": 1}, {"id": "1", "seconds": 1}]}, 2, b"[ID_TWICE]", b"/nodes/1/id"),
            ({"nodes": [{"id": 1, "seconds": {"Z": 1}}]}, 1, b"[DEVICE_WITHOUT_SECONDS]", b"'Z'"),
            ({"nodes": [{"id": 1, "seconds": 1}, {"id": 2, "seconds": 1}],
              "edges": [{"from": 1, "to": 2}, {"from": 2, "to": 1}]}, 2, b"[CYCLE]", b"'1' -> '2' -> '1'"),
            ({"nodes": [{"id": 1, "seconds": 1, "memory_bytes": 1e17}]}, 3, b"[NODE_TOO_LARGE]", b'"1"'),
        ):
            said = self.done("plan", "-", "--devices", "2", *test_cli.DEVICE, stdin=json.dumps(text).encode(),
                             status=status).stderr
            self.assertIn(code, said)
            self.assertIn(where, said)
        self.done("plan", EXAMPLE, "--cluster", self.cluster, "--batch", "2", status=2)
        self.done("inspect", EXAMPLE, "--dim", "n=2", status=2)

    def test_equal_questions_have_equal_plans(self):
        first, second = self.plan_example(), self.plan_example()
        first["search"].pop("seconds"), second["search"].pop("seconds")
        self.assertEqual(first, second)


class AnyPlacement(test_cli.Case):
    """A chain of 60 ms in all on three devices, of which no three intervals take 20 ms each, but sets of nodes do."""

    SECONDS = (9, 1, 1, 9, 1, 1, 9, 1, 1, 9, 1, 7, 2, 8)

    def setUp(self):
        super().setUp()
        self.graph = self.file("chain.json", json.dumps({
            "nodes": [{"id": f"n{at}", "seconds": seconds * 1e-3, "memory_bytes": 1e6 * at, "output_bytes": 1e6}
                      for at, seconds in enumerate(self.SECONDS)],
            "edges": [{"from": f"n{at}", "to": f"n{at + 1}"} for at in range(len(self.SECONDS) - 1)]
            + [{"from": "n0", "to": "n8"}, {"from": "n2", "to": "n13"}]}).encode())
        self.devices = ("--devices", "3", *test_cli.DEVICE)

    def plan(self, *arguments, **more):
        return self.json("plan", self.graph, *self.devices, *arguments, **more)

    def test_plan(self):
        path = self.path("plan.json")
        plan, contiguous = self.plan("--placement", "any", "--plan", path), self.plan("--replicas", "1")
        self.assertAlmostEqual(contiguous["estimate"]["interval_seconds"], 0.021)
        self.assertNotIn("placement", contiguous["options"])
        self.assertTrue(all("stages" not in device for device in contiguous["devices"]))
        estimate = plan["estimate"]
        self.assertAlmostEqual(estimate["interval_seconds"], 0.020)
        self.assertAlmostEqual(estimate["lower_bound_seconds"], 0.020)
        self.assertEqual((plan["options"]["placement"], estimate["devices_used"]), ("any", 3))
        self.assertRegex(estimate["bottleneck"], r"^Device \d \(.*\) limits the throughput: computing takes 20.0 ms")
        for device in plan["devices"]:
            stages = [plan["stages"][stage] for stage in device["stages"]]
            self.assertTrue(all(stage["devices"] == [device["id"]] for stage in stages))
            self.assertEqual(device["nodes"], [node for stage in stages for node in stage["nodes"]])
            self.assertAlmostEqual(device["compute_seconds"], sum(stage["compute_seconds"] for stage in stages))
            self.assertAlmostEqual(device["compute_seconds"], 0.020)
        for stage in plan["stages"]:
            self.assertRegex(stage["because"], f"device {stage['devices'][0]} .* takes? 20.0 ms of the interval")
        starts = {stage["index"]: stage["start_seconds"] for stage in plan["stages"]}
        for device in plan["devices"]:  # a device runs one stage at a time
            for before, after in zip(device["stages"], device["stages"][1:]):
                self.assertGreaterEqual(starts[after],
                                        starts[before] + plan["stages"][before]["compute_seconds"] - 1e-12)
        self.check_exports(plan, path)

    def check_exports(self, plan, path):
        def table(form):
            text = self.done("export", path, "--model", self.graph, "--format", form).stdout.decode()
            return list(csv.DictReader(io.StringIO(text)))

        self.assertEqual({row["node"]: int(row["devices"]) for row in table("csv")},
                         {node: device["id"] for device in plan["devices"] for node in device["nodes"]})
        self.assertEqual([float(row["compute_seconds"]) for row in table("csv-devices")],
                         [device["compute_seconds"] for device in plan["devices"]])
        self.assertEqual(len(table("csv-collectives")), len(plan["collectives"]))
        self.assertGreater(len(self.done("export", path, "--model", self.graph, "--format", "perfetto").stdout), 1000)
        self.assertIn(b"[NO_OPERATORS]", self.done("export", path, "--model", self.graph, "--format", "simulation",
                                                   "-o", self.path("out"), status=1).stderr)

    def test_text(self):
        text = self.done("plan", self.graph, *self.devices, "--placement", "any").stdout.decode()
        self.assertIn("stages on shared devices", text)
        self.assertIn("Device 0", text)
        self.assertIn("placement any", text)
        self.assertIn("no plan on these devices has an interval below 20.0 ms", text)

    def test_equal_questions_have_equal_plans(self):
        first, second = self.plan("--placement", "any"), self.plan("--placement", "any")
        first["search"].pop("seconds"), second["search"].pop("seconds")
        self.assertEqual(first, second)

    def test_from_a_device_to_another_and_back(self):
        """Stages of a pipeline cannot go back to a device; sets can."""
        graph = self.file("back.json", json.dumps({
            "nodes": [{"id": "a", "seconds": {"cpu-core": 1}}, {"id": "b", "seconds": {"a100-sxm4-80gb": 1}},
                      {"id": "c", "seconds": {"cpu-core": 1}}],
            "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]}).encode())
        cluster = self.file("cluster.json", json.dumps(
            {"groups": [{"count": 1, "device": "cpu-core"}, {"count": 1, "device": "a100-sxm4-80gb"}],
             "mesh": [{"name": "pcie", "size": 2, "bandwidth": 25e9, "latency": 5e-6}]}).encode())
        self.done("plan", graph, "--cluster", cluster, status=3)
        plan = self.json("plan", graph, "--cluster", cluster, "--placement", "any")
        self.assertEqual([stage["devices"] for stage in plan["stages"]], [[0], [1], [0]])
        self.assertEqual(plan["estimate"]["interval_seconds"], 2)

    def test_what_does_not_go_with_it_is_refused(self):
        model = self.file("chain.onnx", onnx_make.encode(onnx_make.chain(6, (64, 256))))
        constraints = self.file("constraints.json", b'{"max_stages": 2}')
        for arguments, says in (
            ((model,), b"for graphs of costs"),
            ((self.graph, "--objective", "latency"), b"for the objective throughput"),
            ((self.graph, "--objective", "devices"), b"for the objective throughput"),
            ((self.graph, "--strategy", "grouping"), b"leave the strategy out"),
            ((self.graph, "--replicas", "2"), b"leave out the replicas"),
            ((self.graph, "--constraints", constraints), b"leave them out"),
        ):
            said = self.done("plan", *arguments, *self.devices, "--placement", "any", status=2).stderr
            self.assertIn(b"[PLACEMENT_UNSUPPORTED]", said)
            self.assertIn(says, said)
        self.assertIn(b"must be contiguous or any",
                      self.done("plan", self.graph, *self.devices, "--placement", "some", status=2).stderr)


class Readme(test_cli.Readme):
    def test_examples(self):
        os.symlink(os.path.join(test_cli.TOP, "api"), self.path("api"))
        self.assertEqual(self.check("Measured times and graphs of costs"), 1)


class Profiles(test_cli.Case):
    """tests/unit/cost/test_profile.c says which figures the file has."""

    MEDIANS = {"relu0": 5e-6, "relu1": 3e-6, "relu2": 4e-6, "add3": 5e-6, "relu4": 3e-6, "relu5": 5e-6}

    def setUp(self):
        super().setUp()
        self.model = self.file("chain.onnx", onnx_make.encode(onnx_make.chain(6, (64, 256))))

    def seconds(self, plan):
        text = self.done("export", plan, "--model", self.model, "--format", "csv").stdout.decode()
        return {row["node"]: float(row["seconds"]) for row in csv.DictReader(io.StringIO(text))}

    def test_events_of_onnxruntime(self):
        path = self.path("plan.json")
        plan = self.plan(self.model, 2, "--profile", PROFILE, "--replicas", "1", "--plan", path)
        self.assertEqual([item["code"] for item in plan["diagnostics"]], ["PROFILE_USED"])
        self.assertEqual(plan["options"]["profile"], {"nodes": self.MEDIANS})
        self.assertEqual(self.seconds(path), self.MEDIANS)  # the plan is made again from what stands in it
        self.assertAlmostEqual(sum(item["compute_seconds"] for item in plan["stages"]), 25e-6)

    def test_seconds_by_node_and_device(self):
        path = self.path("plan.json")
        profile = {"nodes": {"relu0": 0.5, "v1": {"a100-sxm4-80gb": 0.25, "t4-16gb": 9}, "nobody": 1}}
        plan = self.plan(self.model, 2, "--profile", self.file("profile.json", json.dumps(profile).encode()),
                         "--replicas", "1", "--plan", path)
        self.assertEqual([item["code"] for item in plan["diagnostics"]], ["PROFILE_USED", "PROFILE_NAMES_UNKNOWN"])
        seconds, estimates = self.seconds(path), self.path("estimates.json")
        self.plan(self.model, 2, "--plan", estimates)
        self.assertEqual((seconds["relu0"], seconds["relu1"]), (0.5, 0.25))
        self.assertEqual(seconds["add3"], self.seconds(estimates)["add3"])

    def test_a_profile_of_a_graph_of_costs(self):
        graph = {"nodes": [{"id": "a", "seconds": 1}, {"id": "b", "seconds": 1}]}
        plan = self.plan(self.file("graph.json", json.dumps(graph).encode()), 1, "--profile",
                         self.file("profile.json", b'{"nodes": {"a": 3}}'))
        self.assertEqual(plan["estimate"]["interval_seconds"], 4)

    def test_what_is_wrong(self):
        profile = self.file("profile.json", b'{"nodes": {"relu0": 1}}')
        other = self.file("other.json", b'{"nodes": {"conv7": 1}}')
        wrong = self.file("wrong.json", b'{"nodes": {"relu0": "1"}}')
        broken = self.file("broken.json", b'{"nodes": ')
        plan = ("plan", self.model, "--devices", "2", *test_cli.DEVICE)
        for arguments, status, code in (
            ((*plan, "--profile", profile, "--profile-device", "t4-16gb"), 2, b"[PROFILE_DEVICE]"),
            ((*plan, "--profile", other), 2, b"[PROFILE_MATCHES_NOTHING]"),
            ((*plan, "--profile", wrong), 2, b"[PROFILE_SECONDS]"),
            ((*plan, "--profile", broken), 2, b"[PROFILE_NOT_JSON]"),
            ((*plan, "--profile", self.path("none")), 2, b"none"),
            ((*plan, "--profile-device", "t4-16gb"), 2, b"--profile FILE"),
        ):
            with self.subTest(arguments[-2:]):
                self.assertIn(code, self.done(*arguments, status=status).stderr)


if __name__ == "__main__":
    unittest.main()
