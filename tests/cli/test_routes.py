#!/usr/bin/env python3
"""`shardplan plan --strategy routes`: requests that take several routes through devices whose intervals overlap."""

import copy
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402
from test_variants import valid  # noqa: E402

DEVICE = {"memory_bytes": 1e9, "memory_bandwidth": 1e12, "link_bandwidth": 1e11}


class Routes(test_cli.Case):
    """One device that is twice as fast as the two others: it takes a half of the work, in two routes."""

    def setUp(self):
        super().setUp()
        self.model = self.mlp(4, 512, 512)
        self.cluster = self.of_speed(4e11)

    def of_speed(self, fast):
        groups = [{"name": name, "count": count, "device": {**DEVICE, "name": name, "flops": {"float32": flops}}}
                  for name, count, flops in (("fast", 1, fast), ("slow", 2, 2e11))]
        return self.file("cluster.json", json.dumps({"groups": groups}).encode())

    def plan(self, *options):
        return self.json("plan", self.model, "--cluster", self.cluster, *options)

    def routes(self, *options):
        return self.plan("--strategy", "routes", *options)

    def test_unequal_devices_have_them_without_asking(self):
        self.cluster = self.of_speed(6e11)
        plan, asked = valid(self.plan()), self.routes()
        self.assertEqual(plan["routes"], asked["routes"])
        self.assertIn("FIRST_ROUTE", [note["code"] for note in plan["diagnostics"]])
        self.assertLessEqual(plan["estimate"]["lower_bound_seconds"], plan["estimate"]["interval_seconds"] * (1 + 1e-9))
        others = [one for one in plan["search"]["alternatives"] if not one["chosen"]]
        self.assertTrue(others)
        for one in others:
            self.assertGreaterEqual(one["interval_seconds"], plan["estimate"]["interval_seconds"])
        for options in (["--objective", "latency"], ["--replicas", "2"], ["--strategy", "pipeline"], ["--first-fit"],
                        ["--constraints", self.file("two.json", b'{"max_stages": 2}')]):
            with self.subTest(options=options):
                self.assertNotIn("routes", self.plan(*options))

    def test_one_route_is_taken_where_it_is_within_the_tolerance(self):
        self.cluster = self.of_speed(6e11)
        one = min(plan["interval_seconds"] for plan in self.plan("--tolerance", "0")["search"]["alternatives"]
                  if "routes" not in plan["description"])
        gain = one / self.routes()["estimate"]["interval_seconds"] - 1
        self.assertGreater(gain, 0)
        self.assertIn("routes", self.plan("--tolerance", str(gain * 0.9)))
        plan = self.plan("--tolerance", str(gain * 1.1))
        self.assertNotIn("routes", plan)
        self.assertLessEqual(plan["estimate"]["interval_seconds"], one * (1 + gain * 1.1))

    def test_shares_and_figures(self):
        plan = valid(self.routes())
        paths, holders = plan["routes"]["paths"], {one["device"]: one for one in plan["routes"]["holders"]}
        self.assertGreater(len(paths), 1)
        self.assertAlmostEqual(sum(path["share"] for path in paths), 1)
        self.assertEqual(paths, sorted(paths, key=lambda path: -path["share"]))
        self.assertEqual([stage["devices"][0] for stage in plan["stages"]], paths[0]["devices"])
        names = [device["nodes"] for device in plan["devices"]]
        every = sum((stage["nodes"] for stage in plan["stages"]), [])
        for path in paths:
            self.assertEqual(sum((names[device] for device in path["devices"]), []), every)
        for device, holder in holders.items():
            self.assertAlmostEqual(holder["share"], sum(path["share"] for path in paths if device in path["devices"]))
            busy = plan["devices"][device]["compute_seconds"] * holder["share"]
            self.assertGreaterEqual(holder["busy_seconds"], busy * (1 - 1e-9))
            self.assertEqual((holder["first"], holder["last"]), (names[device][0], names[device][-1]))
        interval = plan["estimate"]["interval_seconds"]
        self.assertAlmostEqual(interval, max(holder["busy_seconds"] for holder in holders.values()))
        self.assertLessEqual(plan["routes"]["interval_bound_seconds"], interval * (1 + 1e-9))
        self.assertEqual(plan["estimate"]["devices_used"], len(holders))

    def test_it_is_better_than_one_route_or_the_same(self):
        pipeline = self.json("plan", self.model, "--cluster", self.cluster, "--strategy", "pipeline", "--tolerance", "0")
        self.assertLess(self.routes()["estimate"]["interval_seconds"], pipeline["estimate"]["interval_seconds"])
        alone = self.json("plan", self.model, "--devices", "1", "--strategy", "routes")
        self.assertNotIn("routes", alone)

    def test_text(self):
        text = self.done("plan", self.model, "--cluster", self.cluster, "--strategy", "routes").stdout.decode()
        for part in ("Holder", "Route", "routes through 3 devices", "[FIRST_ROUTE]"):
            self.assertIn(part, text)
        self.assertNotIn("Stage ", text)

    def test_the_timeline_says_which_route_it_shows(self):
        folder = os.path.join(self.folder, "emitted")
        plan = self.plan("--strategy", "routes", "--emit", folder)
        with open(os.path.join(folder, "timeline.pftrace"), "rb") as file:
            trace = file.read()
        paths = plan["routes"]["paths"]
        said = f"route 1 of {len(paths)} ({100 * paths[0]['share']:.3g} %), stage 0 on ".encode()
        self.assertEqual(trace.count(said), 2)  # a track and its process

    def test_files_are_made_of_it(self):
        plan = self.routes()
        path = self.file("plan.json", json.dumps(plan).encode())
        rows = self.done("export", path, "--model", self.model, "--format", "csv-devices").stdout.splitlines()
        self.assertEqual(len(rows), 4)
        manifest = json.loads(self.sessions(path))
        self.assertEqual([device["id"] for device in manifest["devices"]], [0, 1, 2])
        models = {device["id"]: device["parts"][0] for device in manifest["devices"]}
        for route, told in zip(manifest["routes"], plan["routes"]["paths"]):
            self.assertEqual((route["share"], route["devices"]), (told["share"], told["devices"]))
            for one in route["inputs"]:
                self.assertIn(one["input"], [port["name"] for port in models[one["device"]]["inputs"]])
                self.assertIn(one["output"], [port["name"] for port in models[one["from"]]["outputs"]])
            fed = [port["name"] for device in route["devices"] for port in models[device]["inputs"]
                   if port["from"] == "device"]
            self.assertCountEqual(fed, [one["input"] for one in route["inputs"]])

    def sessions(self, plan):
        folder = self.path("sessions")
        self.done("export", plan, "--model", self.model, "--format", "sessions", "-o", folder)
        for device in range(3):
            self.assertTrue(os.path.getsize(os.path.join(folder, f"device-{device}.onnx")) > 0)
        with open(os.path.join(folder, "manifest.json"), "rb") as file:
            return file.read()

    def test_a_plan_whose_routes_were_edited_is_refused(self):
        plan = self.routes()
        for change in ({"share": 0.9}, {"devices": [0, 0]}, {"devices": [7]}, {"ends": [1]}, {"ends": "x"}):
            with self.subTest(change=change):
                wrong = copy.deepcopy(plan)
                wrong["outline"]["routes"][0].update(change)
                path = self.file("wrong.json", json.dumps(wrong).encode())
                said = self.done("export", path, "--model", self.model, "--format", "simulation", "-o", self.path("x"),
                                 status=2).stderr
                self.assertIn(b"[OTHER_PLAN]", said)

    def test_every_device_counts_for_what_if(self):
        plan = self.routes("--what-if")
        gains = {row["change"]: row for row in plan["what_if"]}
        fewer = [row for name, row in gains.items() if "fewer" in name]
        self.assertEqual(len(fewer), 2)
        for row in fewer:
            self.assertGreater(row["interval_seconds"], plan["estimate"]["interval_seconds"] * 1.01)

    def test_it_can_be_followed(self):
        path = self.file("plan.json", json.dumps(self.routes()).encode())
        plan = self.json("replan", self.model, "--from", path, "--cluster", self.cluster)
        self.assertEqual((plan["replan"]["choice"], plan["moves"]), ("stay", []))
        self.assertGreater(len(plan["routes"]["paths"]), 1)

    def test_what_it_is_not_for(self):
        constraints = self.file("constraints.json", b'{"max_stages": 2}')
        for options in (["--objective", "latency"], ["--replicas", "2"], ["--constraints", constraints]):
            with self.subTest(options=options):
                said = self.done("plan", self.model, "--cluster", self.cluster, "--strategy", "routes", *options,
                                 status=2).stderr
                self.assertIn(b"[ROUTES_UNSUPPORTED]", said)


if __name__ == "__main__":
    unittest.main()
