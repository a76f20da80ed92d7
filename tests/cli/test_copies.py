"""Copies of a whole plan, which take requests in turn."""
import json
import os
import unittest

import test_cli

ANSWERS = r"(?ms)^Fastest     one request in .*^Most        "


def without(plan):
    """A plan's interval, and how many copies it has."""
    return plan["estimate"]["interval_seconds"], plan.get("copies", {"count": 1})["count"]


class Copies(test_cli.Case):
    def cluster(self, count, memory=80e9, **members):
        device = {"name": "d", "memory_bytes": memory, "memory_bandwidth": 1e12, "flops": {"float32": 1e13}}
        text = {"groups": [{"count": count, "device": device}],
                "mesh": [{"name": "node", "size": 2, "bandwidth": 1e9, "latency": 1e-5},
                         {"name": "gpu", "size": count // 2, "bandwidth": 1e11, "latency": 1e-6}], **members}
        return self.file(f"{len(os.listdir(self.folder))}.json", json.dumps(text).encode())

    def planned(self, cluster, *arguments, layers=8, width=512):
        return self.json("plan", self.mlp(layers, width), "--cluster", cluster, *arguments)

    def test_a_model_that_fits_is_on_each_device(self):
        cluster = self.cluster(8)
        plan, one = self.planned(cluster), self.planned(cluster, "--devices", "1")
        self.assertEqual(plan["copies"], {"count": 8, "devices": [[device] for device in range(8)]})
        self.assertAlmostEqual(plan["estimate"]["interval_seconds"], one["estimate"]["interval_seconds"] / 8)
        self.assertEqual(plan["estimate"]["latency_seconds"], one["estimate"]["latency_seconds"])
        self.assertEqual(plan["estimate"]["communication_bytes"], 0)
        self.assertEqual(plan["estimate"]["devices_used"], 8)
        self.assertIn("FIRST_COPY", [note["code"] for note in plan["diagnostics"]])
        for device in plan["devices"]:
            self.assertEqual((device["stage"], device["memory"]), (0, plan["devices"][0]["memory"]))
            self.assertEqual(device["idle_seconds"], 0)
        self.assertEqual([item["copies"] for item in plan["search"]["alternatives"] if item["chosen"]], [8])
        alone = self.planned(cluster, "--replicas", "1")
        self.assertNotIn("copies", alone)
        self.assertGreater(alone["estimate"]["interval_seconds"], plan["estimate"]["interval_seconds"] * 1.02)
        at_most = self.planned(cluster, "--replicas", "2", "--tolerance", "0")
        self.assertLessEqual(without(at_most)[1], 2)

    def test_what_one_device_lacks_memory_for_is_copied_in_pipelines(self):
        """8 layers of 1 MB on devices of 6 MB: two at least, next to each other, as the nodes' links are slow."""
        plan = self.planned(self.cluster(8, 6.5e6, memory_limit_bytes=6.5e6))
        devices = plan["copies"]["devices"]
        self.assertGreater(len(devices), 1)
        self.assertGreater(len(devices[0]), 1)
        for copy in devices:
            self.assertEqual(len({device // 4 for device in copy}), 1)
        self.assertEqual(sorted(device for copy in devices for device in copy), sorted(set(sum(devices, []))))
        self.assertEqual([device for stage in plan["stages"] for device in stage["devices"]], devices[0])

    def test_never_worse_than_without(self):
        for layers, width, count, memory in ((3, 256, 2, 80e9), (5, 1024, 6, 9e6), (8, 512, 8, 5e6), (12, 256, 4, 3e6)):
            cluster = self.cluster(count, memory, memory_limit_bytes=memory)
            with self.subTest(layers=layers, count=count, memory=memory):
                many, _ = without(self.planned(cluster, "--tolerance", "0", layers=layers, width=width))
                one, copies = without(self.planned(cluster, "--tolerance", "0", "--replicas", "1", layers=layers,
                                                   width=width))
                self.assertEqual(copies, 1)
                self.assertLessEqual(many, one * (1 + 1e-9))

    def test_what_is_within_the_tolerance_is_named(self):
        text = self.done("plan", test_cli.RESNET, "--devices", "4", *test_cli.DEVICE).stdout.decode()
        self.assertRegex(text, ANSWERS)
        self.assertIn("4 copies of 1 stage of 1 device", text)
        best = self.plan(test_cli.RESNET, 4, "--tolerance", "0")
        self.assertEqual(best["copies"]["count"], 4)

    def test_files_are_those_of_the_first_copy(self):
        folder = self.path("emitted")
        cluster = self.cluster(4, 2.6e6, memory_limit_bytes=2.6e6)
        model = self.mlp(4, 512)
        self.done("plan", model, "--cluster", cluster, "--emit", folder, "--plan", self.path("plan.json"))
        with open(self.path("plan.json"), encoding="utf-8") as file:
            plan = json.load(file)
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        self.assertEqual(manifest["copies"], plan["copies"]["devices"])
        self.assertEqual(len(manifest["devices"]), len(plan["copies"]["devices"][0]))
        annotated = self.json("inspect", os.path.join(folder, "annotated.onnx"))
        self.assertEqual(annotated["configurations"][0]["num_devices"], len(manifest["devices"]))
        again = self.path("again")
        self.done("export", self.path("plan.json"), "--model", model, "--format", "sessions", "-o", again)
        with open(os.path.join(again, "manifest.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["copies"], manifest["copies"])

    def test_a_lost_device_takes_its_copy(self):
        cluster, model = self.cluster(4), self.mlp(8, 512)
        self.done("plan", model, "--cluster", cluster, "--plan", self.path("plan.json"))
        with open(cluster, encoding="utf-8") as file:
            text = json.load(file)
        text["exclude"] = [1]
        now = self.file("now.json", json.dumps(text).encode())
        plan = self.json("replan", model, "--from", self.path("plan.json"), "--cluster", now)
        self.assertEqual(plan["copies"], {"count": 3, "devices": [[0], [2], [3]]})
        self.assertEqual(plan["moved_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
