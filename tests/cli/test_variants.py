#!/usr/bin/env python3
"""`shardplan plan` on several clusters (--devices 1,2,4), and what changes of one would bring (--what-if)."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402

sys.path.insert(0, os.path.join(test_cli.TOP, "tests/api"))

from contract import Contract  # noqa: E402

WEIGHTS = 4 * 512 * 512 * 4  # bytes: four layers of 512 x 512 float32
FIGURES = ("latency_seconds", "interval_seconds", "throughput_per_second", "devices_used")
DEVICE = {"name": "small", "memory_bytes": 1e9, "memory_bandwidth": 1e11, "link_bandwidth": 1e10,
          "flops": {"float32": 1e12}}


def valid(plan):
    with open(os.path.join(test_cli.TOP, "api/schema/plan.schema.json"), encoding="utf-8") as file:
        Contract.hold(plan, json.load(file), "plan")
    return plan


class Variants(test_cli.Case):
    def cluster(self, name="cluster.json", count=4, **device):
        value = {"count": count, "device": {**DEVICE, **device}}
        return self.file(name, json.dumps(value).encode())

    def expect_rows(self, plan, alone):
        """Each row has what a plan for that cluster alone has; alone(row) makes one, or gives None where none fits."""
        for row in plan["sweep"]:
            with self.subTest(row=row):
                other = alone(row)
                self.assertEqual(row["fits"], other is not None)
                if other is None:
                    self.assertIn("No plan fits", row["message"])
                    self.assertEqual([row[name] for name in FIGURES], [None] * len(FIGURES))
                    continue
                self.assertEqual([row[name] for name in FIGURES], [other["estimate"][name] for name in FIGURES])
                self.assertEqual(row["stages"], len(other["stages"]))
                self.assertEqual(row["memory_bytes"],
                                 max(device["memory"]["total_bytes"] for device in other["devices"]))
                if row["chosen"]:
                    other["search"]["seconds"] = plan["search"]["seconds"]
                    other["proof"]["seconds"] = plan["proof"]["seconds"]
                    self.assertEqual({key: value for key, value in plan.items() if key != "sweep"}, other)

    def test_numbers_and_types(self):
        path = self.mlp()
        types = ["a100-sxm4-80gb", "l4-24gb"]
        for choose, objective in (("best", "throughput"), ("best", "latency"), ("smallest", "throughput")):
            with self.subTest(choose, objective=objective):
                options = ["--objective", objective]
                plan = valid(self.json("plan", path, "--devices", "2,1,3", "--device", ",".join(types), "--choose",
                                       choose, *options))
                self.assertEqual([(row["device"], row["devices_available"]) for row in plan["sweep"]],
                                 [(name, count) for name in types for count in (2, 1, 3)])
                self.expect_rows(plan, lambda row: self.json("plan", path, "--devices", str(row["devices_available"]),
                                                             "--device", row["device"], *options))
                chosen, = (row for row in plan["sweep"] if row["chosen"])
                member = "latency_seconds" if objective == "latency" else "interval_seconds"
                rows = [row for row in plan["sweep"]
                        if choose == "best" or row["devices_available"] == 1]
                self.assertLessEqual(chosen[member], min(row[member] for row in rows) * (1 + 1e-8))
                if choose == "smallest":
                    self.assertEqual(chosen["devices_available"], 1)

    def test_first_devices_of_a_cluster(self):
        """The smallest that fits: so many that their memory together is more than the weights."""
        path = self.mlp()
        cluster = self.cluster(memory_bytes=0.45 * WEIGHTS)
        plan = valid(self.json("plan", path, "--cluster", cluster, "--devices", "4,1,2,3"))

        def alone(row):
            count = row["devices_available"]
            one = self.cluster(f"{count}.json", count, memory_bytes=0.45 * WEIGHTS)
            done = test_cli.run("plan", path, "--cluster", one, "--json")
            self.assertIn(done.returncode, (0, 3))
            return json.loads(done.stdout) if done.returncode == 0 else None

        self.expect_rows(plan, alone)
        self.assertEqual(len(plan["devices"]), min(row["devices_available"] for row in plan["sweep"] if row["fits"]))
        self.assertGreater(len(plan["devices"]), 2)
        # One number is a sweep, too, of one cluster.
        self.assertEqual(len(self.json("plan", path, "--cluster", cluster, "--devices", "4")["sweep"]), 1)

    def test_none_fits(self):
        path = self.mlp()
        done = self.done("plan", path, "--cluster", self.cluster(memory_bytes=1e5), "--devices", "1,2", "--json",
                         status=3)
        error = json.loads(done.stdout)["error"]
        self.assertEqual((error["status"], error["code"]), ("nofit", "NO_PLAN_FITS"))
        self.assertIn("None of the 2 clusters fits.", error["message"])

    def test_what_if(self):
        path = self.mlp()
        cluster = self.cluster(count=2)
        plan = valid(self.json("plan", path, "--cluster", cluster, "--what-if"))
        rows = {row["change"]: row for row in plan["what_if"]}
        self.assertEqual(list(rows), ["one more small", "one small fewer", "links twice as fast",
                                      "half the memory on every device", "twice the memory on every device",
                                      "twice the compute speed of every device",
                                      "twice the memory bandwidth of every device"])
        self.assertTrue(plan["options"]["what_if"])
        before = plan["estimate"]["throughput_per_second"]
        changed = {
            "one more small": self.cluster("more.json", 3), "one small fewer": self.cluster("fewer.json", 1),
            "links twice as fast": self.cluster("links.json", 2, link_bandwidth=2e10),
            "half the memory on every device": self.cluster("half.json", 2, memory_bytes=5e8),
            "twice the memory on every device": self.cluster("twice.json", 2, memory_bytes=2e9),
            "twice the compute speed of every device": self.cluster("fast.json", 2, flops={"float32": 2e12}),
            "twice the memory bandwidth of every device": self.cluster("wide.json", 2, memory_bandwidth=2e11),
        }
        for name, row in rows.items():
            with self.subTest(name):
                self.assertTrue(row["fits"])
                self.assertAlmostEqual(row["gain"], row["throughput_per_second"] / before - 1)
                if "fewer" not in name:
                    self.assertGreaterEqual(row["gain"], 0)
                other = self.json("plan", path, "--cluster", changed[name])["estimate"]
                expected = plan["estimate"] if row["kept"] else other
                self.assertEqual(row["interval_seconds"], expected["interval_seconds"])
                self.assertEqual(row["latency_seconds"], expected["latency_seconds"])
                self.assertLessEqual(row["interval_seconds"], other["interval_seconds"] * (1 + 1e-8))
        # Without the question the plan is the same, and says nothing of this.
        without = self.json("plan", path, "--cluster", cluster)
        self.assertNotIn("what_if", without)
        self.assertEqual(without["stages"], plan["stages"])
        self.assertNotEqual(without["id"], plan["id"])

    def test_what_if_nothing_fits(self):
        cluster = self.cluster(memory_bytes=0.45 * WEIGHTS, count=2)
        done = self.done("plan", self.mlp(), "--cluster", cluster, "--what-if", status=3)
        self.assertRegex(done.stderr.decode(), r"It fits with .*twice the memory on every device\.")

    def test_measured_times_say_nothing_of_faster_devices(self):
        profile = self.file("profile.json", json.dumps({"nodes": {"matmul0": 0.001}}).encode())
        plan = self.json("plan", self.mlp(), "--cluster", self.cluster(), "--what-if", "--profile", profile)
        self.assertFalse([row for row in plan["what_if"] if "speed" in row["change"]])
        self.assertTrue([row for row in plan["what_if"] if "links" in row["change"]])

    def test_graphs_of_costs(self):
        """The decoder runs on the processor alone, which is the first device; times are given, so that none is faster."""
        examples = os.path.join(test_cli.TOP, "api/examples")
        plan = valid(self.json("plan", os.path.join(examples, "costs.json"), "--cluster",
                               os.path.join(examples, "costs-cluster.json"), "--devices", "1,3", "--choose", "best",
                               "--what-if"))
        self.assertEqual([row["devices_available"] for row in plan["sweep"]], [1, 3])
        self.assertTrue(all(row["fits"] for row in plan["sweep"]))
        self.assertFalse([row for row in plan["what_if"] if "speed" in row["change"]])
        self.assertTrue(all(row["gain"] >= 0 for row in plan["what_if"] if "twice" in row["change"]))

    def test_a_plan_of_a_sweep_is_exported_again(self):
        path, saved = self.mlp(), self.path("plan.json")
        plan = self.plan(path, "1,2", "--choose", "best", "--what-if", "--plan", saved)
        self.assertEqual(len(plan["sweep"]), 2)
        rows = self.done("export", saved, "--model", path, "--format", "csv-devices").stdout.decode().splitlines()
        self.assertEqual(len(rows), 1 + len(plan["devices"]))

    def test_text(self):
        done = self.done("plan", self.mlp(), "--devices", "1,2", *test_cli.DEVICE, "--what-if").stdout.decode()
        table = done.split("\nClusters that were asked about")[1].split("\nWhat if")[0]
        self.assertEqual(table.count("this plan"), 1)
        self.assertIn("2 devices: a100-sxm4-80gb", table)
        self.assertIn("\none more a100-sxm4-80gb", done)
        self.assertTrue(all(len(line) <= 110 for line in done.splitlines()))

    def test_wrong_usage(self):
        path, cluster = self.mlp(), self.cluster()
        for arguments in (
            ["--devices", "2,,4"], ["--devices", "2,"], ["--devices", ",2"], ["--devices", "2,2"], ["--devices", "1,0"],
            ["--devices", "1,x"], ["--devices", "2", "--device", "l4-24gb,"], ["--devices", "2", "--choose", "any"],
            ["--devices", "2", "--device", "l4-24gb,L4-24gb"], ["--devices", "2", "--device", "l4-24gb,abacus"],
            ["--cluster", cluster, "--device", "l4-24gb"], ["--cluster", cluster, "--choose", "best"],
            ["--cluster", cluster, "--devices", "5"], ["--devices", ",".join(str(n) for n in range(1, 66))],
            ["--cluster", cluster, "--what-if=yes"],
        ):
            with self.subTest(arguments):
                self.done("plan", path, *arguments, status=2)

    def test_a_time_limit_covers_all(self):
        """Much is asked in little time: what was not looked at says so, and the answer is there."""
        path = test_cli.RESNET
        done = test_cli.run("plan", path, "--devices", ",".join(str(n) for n in range(1, 33)), *test_cli.DEVICE,
                            "--objective", "latency", "--time-limit", "2", "--json")
        if done.returncode == 4:
            self.assertEqual(json.loads(done.stdout)["error"]["code"], "TIME_LIMIT")
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = valid(json.loads(done.stdout))["sweep"]
        looked = [row["fits"] is not None for row in rows]
        self.assertEqual(looked, sorted(looked, reverse=True))
        for row in rows:
            if row["fits"] is None:
                self.assertIn("stopped before", row["message"])


class Remote(test_cli.DaemonCase):
    def test_the_answers_of_a_daemon_are_the_same(self):
        path = self.mlp()
        cluster = self.file("cluster.json", json.dumps({"count": 3, "device": DEVICE}).encode())
        for arguments in (["--devices", "1,2", "--device", "l4-24gb,a100-sxm4-80gb", "--choose", "best"],
                          ["--cluster", cluster, "--devices", "3,1", "--what-if"],
                          ["--cluster", cluster, "--what-if", "--objective", "devices"]):
            with self.subTest(arguments):
                local, remote = (self.json("plan", path, *arguments, *more) for more in ([], ["--server", self.url]))
                for plan in (local, remote):
                    del plan["search"]["seconds"], plan["proof"]["seconds"]
                self.assertEqual(remote, local)
                self.assertEqual(self.remote("plan", path, *arguments).stdout,
                                 self.done("plan", path, *arguments).stdout)

    def test_errors_of_a_daemon_are_the_same(self):
        path = self.mlp()
        tiny = self.file("tiny.json", json.dumps({"count": 2, "device": {**DEVICE, "memory_bytes": 1e5}}).encode())
        for arguments, status in ((["--devices", "1,1"], 2), (["--devices", "1,2", "--device", "abacus"], 2),
                                  (["--cluster", tiny, "--devices", "1,2"], 3)):
            with self.subTest(arguments):
                done = [self.done("plan", path, *arguments, "--json", *more, status=status).stdout
                        for more in ([], ["--server", self.url])]
                local, remote = (json.loads(text)["error"] for text in done)
                self.assertEqual((remote["code"], remote["message"]), (local["code"], local["message"]))


class Readme(test_cli.Readme):
    def test_questions_around_a_plan(self):
        self.assertEqual(self.check("Questions around a plan"), 2)


if __name__ == "__main__":
    unittest.main()
