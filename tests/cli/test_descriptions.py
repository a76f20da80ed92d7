#!/usr/bin/env python3
"""Models described in JSON, on the command line."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402

EXAMPLE = os.path.join(test_cli.TOP, "api/examples/attention.json")


class Descriptions(test_cli.Case):
    def setUp(self):
        super().setUp()
        with open(EXAMPLE, "rb") as file:
            self.text = file.read()

    def test_inspect_a_file_and_standard_input(self):
        inspection = self.json("inspect", EXAMPLE, "--values")
        self.assertEqual((inspection["node_count"], inspection["size_bytes"]), (17, len(self.text)))
        self.assertEqual(inspection["values"]["s"]["shape"], ["batch", 4, "seq", "seq"])
        piped = self.json("inspect", "-", "--values", stdin=self.text)
        self.assertEqual({**piped, "name": ""}, {**inspection, "name": ""})

    def test_check(self):
        answer = self.json("check", EXAMPLE)
        self.assertEqual((answer["valid"], answer["diagnostics"]), (True, []))

    def test_plan_writes_an_onnx_file(self):
        annotated, stripped, plain = self.path("annotated.onnx"), self.path("stripped.onnx"), self.path("plain.onnx")
        plan = self.plan(EXAMPLE, 2, "--batch", "8", "--dim", "seq=512", "-o", annotated)
        self.assertEqual(plan["model"]["size_bytes"], len(self.text))
        inspection = self.json("inspect", annotated)
        self.assertEqual((inspection["node_count"], inspection["ir_version"]), (17, 11))
        self.assertEqual([item["name"] for item in inspection["configurations"]], ["shardplan"])
        # Without the annotations it is the file that the description stands for.
        self.done("strip", annotated, "-o", stripped)
        self.done("strip", EXAMPLE, "-o", plain)
        with open(stripped, "rb") as left, open(plain, "rb") as right:
            self.assertEqual(left.read(), right.read())

    def test_infer_writes_an_onnx_file(self):
        completed = self.path("completed.onnx")
        spec = '{"device":[0,1],"shardedDim":[{"axis":0,"simpleSharding":[{"numShards":2}]}]}'
        answer = self.json("infer", EXAMPLE, "--set", "x=" + spec, "-o", completed)
        self.assertGreater(answer["added"], 10)
        self.assertTrue(self.json("check", completed)["valid"])

    def test_annotations_can_be_described(self):
        graph = json.loads(self.text)
        sharded = {"device": [0, 1], "shardedDim": [{"axis": 2, "simpleSharding": [{"numShards": 2}]}]}
        graph["configurations"] = [{"name": "pair", "numDevices": 2}]
        graph["nodes"][0]["configurations"] = [
            {"configuration": "pair", "stage": 0, "specs": [{"tensorName": "q", **sharded}]}
        ]
        inspection = self.json("inspect", self.file("annotated.json", json.dumps(graph).encode()))
        self.assertEqual(inspection["ir_version"], 11)
        self.assertEqual([item["name"] for item in inspection["configurations"]], ["pair"])

    def test_what_is_wrong_is_told_with_its_place(self):
        graph = json.loads(self.text)
        graph["nodes"][6]["attributes"] = {"perm": [0, "a"]}
        for text, status, code, where in (
            (json.dumps(graph).encode(), 2, b"[INTEGER_EXPECTED]", b"/nodes/6/attributes/perm/1"),
            (b'{"opset": 17, "nodes": [}', 2, b"[MALFORMED_JSON]", b"byte 24"),
            (b'{"nodes": [{"id": 1, "seconds": 1}], "edges": [{"from": 1, "to": 1}]}', 2, b"[SELF_EDGE]", b"/edges/0"),
            (b'{"opset": 17, "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}]}', 1, b"", b""),
        ):
            said = self.done("inspect", "-", stdin=text, status=status).stderr
            self.assertIn(code, said)
            self.assertIn(where, said)


class Readme(test_cli.Readme):
    def test_models_in_json(self):
        os.symlink(os.path.join(test_cli.TOP, "api"), self.path("api"))
        self.assertEqual(self.check("Models in JSON"), 1)


if __name__ == "__main__":
    unittest.main()
