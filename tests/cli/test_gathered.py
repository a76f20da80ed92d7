#!/usr/bin/env python3
"""Plans whose weights lie in shards and are gathered for each request: what they say, what their files compute, and a
published time."""

import json
import os
import random
import struct
import subprocess
import sys
import unittest

import jsonschema

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402
from test_cli import onnx_make  # noqa: E402

LAYERS, WIDTH, ROWS, DEVICES = 8, 64, 512, 4
WEIGHT = WIDTH * WIDTH * 4  # bytes


def product(index):
    """A weight of which no two parts are alike, and its MatMul."""
    numbers = random.Random(index)
    data = struct.pack(f"<{WIDTH * WIDTH}f", *(numbers.uniform(-0.1, 0.1) for _ in range(WIDTH * WIDTH)))
    weight = onnx_make.delimited(5, *(onnx_make.integer(1, WIDTH) for _ in range(2)), onnx_make.integer(2, 1),
                                 onnx_make.delimited(8, f"w{index}"), onnx_make.delimited(9, data))
    output = "y" if index == LAYERS - 1 else f"h{index}"
    return [weight, onnx_make.node("MatMul", [f"h{index - 1}" if index else "x", f"w{index}"], [output], f"n{index}")]


class Gathered(test_cli.Case):
    def model(self):
        graph = sum((product(index) for index in range(LAYERS)), [onnx_make.graph_input("x", [ROWS, WIDTH])])
        return self.file("model.onnx", onnx_make.encode(
            onnx_make.model(*graph, onnx_make.graph_output("y", [ROWS, WIDTH]))))

    def cluster(self, memory):
        """Devices that compute slowly beside their links."""
        device = {"name": "slow", "memory_bytes": memory, "memory_bandwidth": 1e11, "flops": {"float32": 1e10}}
        return self.file("cluster.json", json.dumps(
            {"groups": [{"count": DEVICES, "device": device}], "launch_seconds": 1e-6, "runtime": "generic",
             "mesh": [{"size": DEVICES, "bandwidth": 5e10, "latency": 1e-6}]}).encode())

    # Rows in parts: x, what a product reads and what it makes; two buffers; the weights in parts.
    least = 3 * ROWS // DEVICES * WIDTH * 4 + 2 * WEIGHT + LAYERS * WEIGHT // DEVICES

    def plan(self, memory, *arguments):
        return self.json("plan", self.model(), "--cluster", self.cluster(memory), "--objective", "latency", *arguments)

    def test_a_plan_gathers_where_the_weights_have_no_room(self):
        roomy = self.plan(2.1 * LAYERS * WEIGHT)
        self.assertNotIn("gathered", roomy["stages"][0])
        plan = self.plan(self.least * 1.01)
        gathered = plan["stages"][0]["gathered"]
        self.assertEqual([item["name"] for item in gathered["tensors"]], [f"w{index}" for index in range(LAYERS)])
        self.assertEqual({(item["axis"], item["shards"]) for item in gathered["tensors"]}, {(0, DEVICES)})
        self.assertEqual(gathered["bytes"], LAYERS * WEIGHT * (DEVICES - 1) / DEVICES)
        self.assertEqual(gathered["buffer_bytes"], 2 * WEIGHT)
        self.assertEqual(gathered["waiting_seconds"], 0)
        self.assertAlmostEqual(plan["estimate"]["latency_seconds"], roomy["estimate"]["latency_seconds"])
        for device in plan["devices"]:
            self.assertEqual(device["memory"]["weights_bytes"], LAYERS * WEIGHT / DEVICES)
        gathers = [item for item in plan["collectives"] if item["kind"] == "all-gather"]
        self.assertEqual(sum(item["bytes_per_device"] for item in gathers), gathered["bytes"])
        self.assertAlmostEqual(sum(item["overlapped_seconds"] for item in gathers), gathered["seconds"])
        self.assertIn("WEIGHTS_GATHERED", [note["code"] for note in plan["diagnostics"]])
        with open(os.path.join(test_cli.TOP, "api/schema/plan.schema.json"), encoding="utf-8") as file:
            jsonschema.Draft202012Validator(json.load(file)).validate(plan)

    def test_its_files_compute_what_the_model_does(self):
        self.plan(self.least * 1.01, "--emit", self.path("out"))
        model, annotated = self.path("model.onnx"), self.path("out/annotated.onnx")
        with open(self.path("out/manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        self.assertEqual(manifest["gathered"][0]["devices"], list(range(DEVICES)))
        self.assertEqual(len(manifest["gathered"][0]["tensors"]), LAYERS)
        self.done("export", self.path("out/plan.json"), "--model", model, "--format", "sessions", "-o",
                  self.path("sessions"))
        self.done("export", annotated, "--format", "ort-collectives", "-o", self.path("again"))
        for folder in ("out", "sessions", "again"):
            self.done("verify", model, "--manifest", self.path(f"{folder}/manifest.json"))
            size = sum(os.path.getsize(self.path(f"{folder}/device-{rank}.onnx")) for rank in range(DEVICES))
            if folder != "sessions":
                self.assertLess(size, 1.3 * LAYERS * WEIGHT, folder)
        self.done("verify", model, "--simulation", self.path("out/simulation.onnx"))
        self.done("verify", "--annotated", annotated)
        self.done("strip", annotated, "-o", self.path("stripped.onnx"))
        with open(model, "rb") as one, open(self.path("stripped.onnx"), "rb") as other:
            self.assertEqual(one.read(), other.read())

    def test_a_published_prefill(self):
        """PaLM 540B on 64 TPU v4, 512 prompts of 2048 tokens: weights gathered, 85.2 s (Pope et al., Efficiently Scaling
        Transformer Inference, 2023, table 2)."""
        graph = self.path("palm.json")
        subprocess.run([sys.executable, os.path.join(test_cli.TOP, "tests/bench/models.py"), "--model", "palm-540b",
                        "--style", "fused", "--batch", "512", "--sequence", "2048", "-o", graph], check=True)
        plan = self.json("plan", graph, "--devices", "64", "--device", "tpu-v4", "--objective", "latency", "--no-proof")
        ratio = plan["estimate"]["latency_seconds"] / 85.2
        self.assertTrue(0.6 <= ratio <= 1.4, ratio)
        gathered = sum(stage["gathered"]["bytes"] for stage in plan["stages"] if "gathered" in stage)
        self.assertGreater(gathered, 0.9 * plan["model"]["weight_bytes"])


if __name__ == "__main__":
    unittest.main()
