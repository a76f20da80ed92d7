#!/usr/bin/env python3
"""Experts that are not chosen alike: what a plan says of them, computed a second time, and what it leaves as it is."""

import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import jsonschema  # noqa: E402
import test_cli  # noqa: E402

sys.path.insert(0, os.path.join(test_cli.TOP, "tests/tools"))

import decoder_graph  # noqa: E402

EXPERTS, CHOSEN, LAYERS, DEVICES = 16, 2, 2, 4
ZIPF = 1.2
# No inner size that devices could share: it is a prime number.
SIZES = {"layers": LAYERS, "hidden": 4096, "heads": 32, "kv_heads": 8, "inner": 14327, "vocabulary": 4096,
         "experts": EXPERTS, "chosen": CHOSEN}
DIMS = {"batch_size": 32, "sequence_length": 1, "past_sequence_length": 256, "total_sequence_length": 257}
LAYER = "layers.{}.experts"
# So slow that even small layers are divided.
SLOW = {"groups": [{"count": DEVICES, "device": {"name": "slow", "memory_bytes": 1e9, "memory_bandwidth": 1e7,
                                                 "flops": {"float32": 1e8}}}],
        "mesh": [{"size": DEVICES, "bandwidth": 1e10, "latency": 1e-8}], "launch_seconds": 1e-9, "runtime": "generic"}


def schema(name):
    with open(os.path.join(test_cli.TOP, f"api/schema/{name}.schema.json"), encoding="utf-8") as file:
        return jsonschema.Draft202012Validator(json.load(file))


def chances(shares):
    """Of each expert, that a token is sent there: none of these shares is above what one token can take."""
    return [CHOSEN * share / sum(shares) for share in shares]


def most(of, shards):
    """What the shard with most is sent, over the mean."""
    size = len(of) // shards
    return max(sum(of[i:i + size]) for i in range(0, len(of), size)) * shards / sum(of)


def small_experts(tokens=23, hidden=16, inner=251):
    """Two layers of experts alone, whose files are small; tokens and the inner size cannot be divided evenly."""
    weights, nodes = [], []
    for layer in range(2):
        x = f"y{layer - 1}" if layer else "x"
        for name, shape in ((f"router{layer}", [hidden, EXPERTS]), (f"fc1.{layer}", [EXPERTS, inner, hidden]),
                            (f"fc2.{layer}", [EXPERTS, hidden, inner])):
            count = shape[0] * shape[1] * (shape[2] if len(shape) > 2 else 1)
            weights.append({"name": name, "dtype": "float32", "shape": shape, "data": [1.0] * count})
        nodes.append({"name": f"router{layer}.product", "op": "MatMul", "inputs": [x, f"router{layer}"],
                      "outputs": [f"scores{layer}"]})
        nodes.append({"name": f"experts{layer}", "op": "MoE", "domain": "com.microsoft",
                      "inputs": [x, f"scores{layer}", f"fc1.{layer}", "", f"fc2.{layer}"], "outputs": [f"y{layer}"],
                      "attributes": {"k": CHOSEN, "normalize_routing_weights": 1, "activation_type": "relu"}})
    return {"name": "experts", "opset": {"ai.onnx": 18, "com.microsoft": 1},
            "inputs": [{"name": "x", "dtype": "float32", "shape": [tokens, hidden]}], "outputs": ["y1"],
            "initializers": weights, "nodes": nodes}


class Experts(test_cli.Case):
    def model(self):
        self.external_weights()
        return self.file("decoder.json", json.dumps(decoder_graph.decoder(**SIZES)).encode())

    def workload(self, **members):
        workload = {"phases": [{"name": "decode", "dims": DIMS}], **members}
        schema("workload").validate(workload)
        return self.file("workload.json", json.dumps(workload).encode())

    arguments = ("--devices", str(DEVICES), "--device", "h100-sxm-80gb", "--objective", "latency", "--no-proof")

    def service(self, *more, **members):
        plan = self.json("plan", self.model(), *self.arguments, "--workload", self.workload(**members), *more)
        schema("plan").validate(plan)
        return plan

    def test_a_balanced_order_takes_less_time_than_the_models(self):
        shares = [(e + 1) ** -ZIPF for e in range(EXPERTS)]
        of = chances(shares)
        plans = {order: self.service(expert_load={"zipf": ZIPF}, expert_order=order)
                 for order in ("model", "balanced")}
        seconds = {}
        for order, plan in plans.items():
            seconds[order] = plan["estimate"]["latency_seconds"]
            layers = [layer for stage in plan["stages"] for layer in stage["experts"]]
            self.assertEqual([layer["node"] for layer in layers], [LAYER.format(i) for i in range(LAYERS)])
            for layer in layers:
                balanced = layer["expert_order"]
                self.assertEqual(sorted(balanced), list(range(EXPERTS)))
                self.assertAlmostEqual(layer["model_load"], most(of, layer["shards"]))
                self.assertAlmostEqual(layer["balanced_load"], most([of[e] for e in balanced], layer["shards"]))
                self.assertLess(layer["balanced_load"], layer["model_load"])
                self.assertEqual(layer["load"], layer[f"{order}_load"])
            notes = [note["code"] for note in plan["diagnostics"] if note["code"].startswith("EXPERTS")]
            self.assertEqual(notes, ["EXPERTS_UNEQUAL" if order == "model" else "EXPERTS_ORDERED"])
        self.assertLess(seconds["balanced"], 0.97 * seconds["model"])
        # The same shares as a list, in another order: what is balanced stays as it was.
        turned = self.service(expert_load=[1000 * share for share in reversed(shares)], expert_order="balanced")
        self.assertAlmostEqual(turned["estimate"]["latency_seconds"], seconds["balanced"])

    def test_text_says_it(self):
        text = self.done("plan", self.model(), *self.arguments, "--workload",
                         self.workload(expert_load={"zipf": ZIPF}, expert_order="balanced")).stdout.decode()
        words = re.sub(r"\s+", " ", text)
        self.assertRegex(words, rf"of {LAYERS} layers of experts the device with most is sent 1\.\d\d times the mean")
        self.assertIn("EXPERTS_ORDERED", text)

    def test_equal_shares_change_nothing(self):
        """Neither the plan nor what is made of it, byte for byte, but for the workload itself and what its name follows."""
        made = []
        for number, members in enumerate(({}, {"expert_load": [7] * EXPERTS}, {"expert_load": {"zipf": 0}},
                                          {"expert_load": {LAYER.format(1): [0.5] * EXPERTS}})):
            plan = self.service("-o", self.path(f"annotated-{number}.onnx"), **members)
            self.assertNotIn("experts", json.dumps([list(stage) for stage in plan["stages"]]))
            del plan["id"], plan["options"]["workload"], plan["search"]["seconds"]
            with open(self.path(f"annotated-{number}.onnx"), "rb") as file:
                made.append((json.dumps(plan), re.sub(rb"[0-9a-f]{32}", b"", file.read())))
        for other in made[1:]:
            self.assertEqual(made[0], other)

    def test_files_made_later_say_the_same(self):
        """A plan is made again of its JSON, with its load, and the manifest says which order its estimate is of."""
        graph = self.file("small.json", json.dumps(small_experts()).encode())
        cluster = self.file("slow.json", json.dumps(SLOW).encode())
        for order in ("model", "balanced"):
            workload = {"phases": [{"name": "all", "dims": {}}], "expert_load": {"zipf": ZIPF}, "expert_order": order}
            plan = self.json("plan", graph, "--cluster", cluster, "--objective", "latency", "--strategy", "tensor", "--workload",
                             self.file("workload.json", json.dumps(workload).encode()))
            self.assertTrue(any(stage["experts"] for stage in plan["stages"]))
            self.done("export", self.file("plan.json", json.dumps(plan).encode()), "--model", graph, "--format", "sessions", "-o", self.path(order))
            with open(self.path(f"{order}/manifest.json"), encoding="utf-8") as file:
                manifest = json.load(file)
            schema("manifest").validate(manifest)
            self.assertEqual(manifest["experts"], [layer for stage in plan["stages"] for layer in stage["experts"]])
            self.assertEqual(manifest["estimate"]["latency_seconds"], plan["estimate"]["latency_seconds"])

    def test_layers_may_differ(self):
        """Half of the experts of one layer do all: it is as if the other layer alone were balanced."""
        halves = [1] * (EXPERTS // 2) + [0] * (EXPERTS // 2)
        plan = self.service(expert_load={LAYER.format(0): halves})
        layers = [layer for stage in plan["stages"] for layer in stage.get("experts", [])]
        self.assertLessEqual({layer["node"] for layer in layers}, {LAYER.format(0)})
        for layer in layers:
            self.assertAlmostEqual(layer["model_load"], 2)
            self.assertAlmostEqual(layer["balanced_load"], 1)

    def test_what_is_no_load_is_refused(self):
        model = self.model()
        for members, code in (
                ({"expert_load": [1, 2]}, "EXPERT_LOAD_COUNT"), ({"expert_load": {"layers.9": [1]}}, "UNKNOWN_EXPERTS"),
                ({"expert_load": []}, "EXPERT_LOAD_FORM"), ({"expert_load": [0] * EXPERTS}, "EXPERT_LOAD_FORM"),
                ({"expert_load": [-1] * EXPERTS}, "EXPERT_LOAD_FORM"), ({"expert_load": "zipf"}, "EXPERT_LOAD_FORM"),
                ({"expert_load": {}}, "EXPERT_LOAD_FORM"), ({"expert_load": {"a": {"b": 1}}}, "EXPERT_LOAD_FORM"),
                ({"expert_load": {"zipf": 17}}, "MEMBER_NUMBER"), ({"expert_load": [1] * 4097}, "TOO_MANY_EXPERTS"),
                ({"expert_order": "balanced"}, "EXPERT_ORDER"),
                ({"expert_load": {"zipf": 1}, "expert_order": "best"}, "EXPERT_ORDER")):
            workload = self.file("bad.json", json.dumps(
                {"phases": [{"name": "decode", "dims": DIMS}], **members}).encode())
            result = self.done("plan", model, *self.arguments, "--workload", workload, status=2)
            self.assertIn(f"[{code}]", result.stderr.decode(), members)
        dense = self.file("dense.json", json.dumps(decoder_graph.decoder(**decoder_graph.TINY)).encode())
        result = self.done("plan", dense, *self.arguments, "--workload", self.workload(expert_load={"zipf": 1}), status=2)
        self.assertIn("[NO_EXPERTS]", result.stderr.decode())


if __name__ == "__main__":
    unittest.main()
