#!/usr/bin/env python3
"""Operators of one's own domains: opaque without a rule, planned, split and costed with --operators."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402
from test_cli import onnx_make  # noqa: E402

RULE = {
    "domain": "com.example",
    "name": "FusedGate",
    "rule": "[b.., k] [k, n] [n] -> [b.., n]; k sum",
    "flops": "2*b..*k*n",
}
# So slow that splitting pays.
SLOW = {
    "groups": [{"name": "slow", "count": 4, "device": {"name": "slow", "memory_bytes": 1e9, "memory_bandwidth": 1e9,
                                                       "flops": {"float32": 1e7}}}],
    "mesh": [{"name": "link", "size": 4, "bandwidth": 1e10, "latency": 1e-6}],
}


class Operators(test_cli.Case):
    def setUp(self):
        super().setUp()
        weights = onnx_make.Weights("pattern")
        graph = [
            onnx_make.node("FusedGate", ["x", "w", "v"], ["h"], domain="com.example"),
            onnx_make.node("Relu", ["h"], ["y"]),
            weights.tensor("w", [64, 128]),
            weights.tensor("v", [128]),
            onnx_make.graph_input("x", [8, 64]),
            onnx_make.graph_output("y", [8, 128]),
        ]
        own = onnx_make.delimited(8, onnx_make.delimited(1, "com.example"), onnx_make.integer(2, 3))
        self.model = self.file("own.onnx", onnx_make.encode([onnx_make.model(*graph), own]))

    def operators(self, *rules, name="operators.json"):
        return self.file(name, json.dumps({"operators": rules}).encode())

    def test_a_rule_tells_shapes_flops_and_splits(self):
        rules = self.operators(RULE)
        values = self.json("inspect", self.model, "--values")["values"]
        self.assertIsNone(values["h"]["shape"])
        seen = self.json("inspect", self.model, "--values", "--operators", rules)
        self.assertEqual(seen["values"]["h"], {"dtype": "float32", "shape": [8, 128]})
        self.assertEqual(seen["flops"], 2 * 8 * 64 * 128 + 8 * 128)
        self.assertEqual(seen["unknown_operators"], [])
        cluster = self.file("cluster.json", json.dumps(SLOW).encode())
        plan = self.json("plan", self.model, "--cluster", cluster, "--strategy", "tensor", "--objective", "latency",
                         "--operators", rules)
        specs = {tensor["name"]: tensor["spec"]["text"] for tensor in plan["tensors"]}
        self.assertIn("S[", specs["h"])
        self.assertEqual([rule["name"] for rule in plan["options"]["operators"]], ["FusedGate"])

    def test_check_and_infer_and_export_take_it(self):
        rules = self.operators(RULE)
        codes = {item["code"] for item in self.json("check", self.model)["diagnostics"]}
        self.assertIn("UNKNOWN_CUSTOM_OPERATOR", codes)
        codes = {item["code"] for item in self.json("check", self.model, "--operators", rules)["diagnostics"]}
        self.assertNotIn("UNKNOWN_CUSTOM_OPERATOR", codes)
        out = self.path("completed.onnx")
        answer = self.json("infer", self.model, "--mode", "propagate", "--mesh", '<["x"=2]>', "--set",
                           'w=<@mesh, [{}, {"x"}]>', "--operators", rules, "-o", out)
        specs = {item["tensor"]: item["spec"]["text"] for item in answer["specs"]}
        self.assertIn("S[", specs["h"])
        self.done("export", out, "--format", "shardy", "--operators", rules)

    def test_what_is_wrong_says_where(self):
        for rule, where in [
            ({**RULE, "rule": "[b.., k] [k"}, "/operators/0/rule"),
            ({**RULE, "domain": "ai.onnx"}, "/operators/0/domain"),
            ({**RULE, "flop": 3}, "/operators/0/flop"),
        ]:
            result = self.done("plan", self.model, "--devices", "2", *test_cli.DEVICE, "--operators",
                               self.operators(rule), status=2)
            self.assertIn(where, result.stderr.decode())
        bad = self.file("bad.json", b"[")
        self.assertIn("line 1", self.done("inspect", self.model, "--operators", bad, status=2).stderr.decode())
        other = self.file("other.json", b"[]")
        self.done("inspect", self.model, "--operators", other, status=2)

    def test_inputs_that_contradict_the_rule_are_the_models_error(self):
        rules = self.operators({**RULE, "rule": "[b, n] [n, k] [n] -> [b, n]"})
        result = self.done("inspect", self.model, "--operators", rules, status=1)
        self.assertIn("OPERAND_SHAPE", result.stderr.decode())


if __name__ == "__main__":
    unittest.main()
