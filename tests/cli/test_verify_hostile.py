#!/usr/bin/env python3
"""`shardplan verify` on ranks' models and manifests that somebody sends to break it."""

import json
import os
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
sys.dont_write_bytecode = True

import onnx_make as make  # noqa: E402
import test_cli  # noqa: E402
from test_verify import MS, Weight, bytes_of  # noqa: E402


class Hostile(test_cli.Case):
    """Ranks that nobody would make, and that somebody sends: each is refused, or refuted or undecided, with a sentence; none is
    proved, and none is an error of ours."""

    DOUBLE = "Add", ["x", "x"], ["y"]

    def rank(self, *nodes, rows=4, dtype=make.FLOAT, out=None, more=()):
        return bytes_of(make.graph_input("x", [rows, 4], dtype), *more, *nodes, make.graph_output("y", out or [rows, 4], dtype))

    def said(self, *ranks, manifest=None):
        """What is said of them; an exit code of 1, 2 or 3."""
        original = self.file("original.onnx", self.rank(make.node(*self.DOUBLE)))
        paths = [self.file(f"rank-{i}.onnx", rank) for i, rank in enumerate(ranks)]
        if manifest is not None:
            paths = ["--manifest", self.file("manifest.json", json.dumps(manifest).encode())]
        result = test_cli.run("verify", original, *paths)
        self.assertIn(result.returncode, (1, 2, 3), result.stdout + result.stderr)
        text = (result.stdout + result.stderr).decode()
        self.assertRegex(text, r"[A-Z][^.]{10,}\.")
        self.assertNotIn("INTERNAL", text)
        return text

    def dist(self, **attributes):
        return make.node("DistCollective", ["x"], ["y"], "sum", collective_operation="all_reduce", reduce_op="sum", root=-1, nb_rank=2,
                         **attributes)

    def test_cycles(self):
        self.assertIn("cycle", self.said(self.rank(make.node("Add", ["x", "b"], ["a"]), make.node("Add", ["a", "x"], ["b"]),
                                                   make.node("Add", ["a", "b"], ["y"]))))
        self.said(self.rank(make.node("Add", ["x", "y"], ["y"])))
        stage = {"name": "y", "to": "device"}
        last = bytes_of(make.graph_input("h", [4, 4]), make.node("Identity", ["h"], ["y"]), make.graph_output("y", [4, 4]))
        self.file("circle.onnx", last)
        devices = [{"id": i, "world": i, "rank": 0, "parts": [
            {"part": 0, "model": "circle.onnx", "outputs": [stage],
             "inputs": [{"name": "h", "from": "device", "device": 1 - i, "part": 0, "output": "y"}]}]} for i in range(2)]
        self.assertIn("never", self.said(manifest={"devices": devices}))

    def test_huge_dimensions(self):
        large = make.delimited(5, make.integer(1, 1 << 40), make.integer(1, 1 << 20), make.integer(2, make.FLOAT), make.delimited(8, "w"))
        self.said(self.rank(make.node("Add", ["x", "w"], ["y"]), more=[large]))
        shape = make.delimited(5, make.integer(1, 4), make.integer(2, make.INT64), make.delimited(8, "to"),
                               make.delimited(9, struct.pack("<4q", 1 << 30, 1 << 30, 4, 4)))
        self.said(self.rank(make.node("Expand", ["x", "to"], ["y"]), more=[shape]))
        self.said(self.rank(make.node("AllGather", ["x"], ["y"], domain=MS, group_size=1 << 40, axis=0)))
        self.said(self.rank(make.node("Add", ["x", "x"], ["y"]), rows=(1 << 62)))
        self.said(self.rank(make.node("DistCollective", ["x"], ["y"], collective_operation="all_gather", nb_rank=1 << 62)))

    def test_types_that_do_not_match(self):
        reduce = make.node("AllReduce", ["x"], ["y"], domain=MS)
        self.said(self.rank(reduce), self.rank(reduce, dtype=make.INT64))
        self.said(self.rank(make.node("Add", ["x", "x"], ["y"]), dtype=8))  # of text
        self.said(self.rank(make.node("Add", ["x", "x"], ["y"]), dtype=99))
        self.said(self.rank(reduce), self.rank(reduce, rows=3))
        self.said(self.rank(reduce), self.rank(make.node("AllGather", ["x"], ["y"], domain=MS, group_size=2, axis=7)))

    def test_groups_that_are_missing(self):
        self.said(*[self.rank(self.dist(groups=[0, 1], group_size=2))] * 3)  # rank 2 is in none
        self.said(*[self.rank(self.dist(groups=[0, 9], group_size=2))] * 2)
        self.said(*[self.rank(self.dist(groups=[0, 0], group_size=2))] * 2)
        self.said(*[self.rank(self.dist(groups=[-1, 1], group_size=2))] * 2)
        self.said(*[self.rank(self.dist(groups=[0, 1, 0], group_size=7))] * 2)
        self.said(self.rank(self.dist(groups=[0, 1], group_size=2)), self.rank(self.dist(groups=[1], group_size=1)))

    def test_names_that_are_there_twice(self):
        self.said(self.rank(make.node("Relu", ["x"], ["y"]), make.node("Add", ["x", "x"], ["y"])))
        self.said(self.rank(make.node("Relu", ["x"], ["x"]), make.node("Add", ["x", "x"], ["y"])))
        self.said(self.rank(make.node("Add", ["x", "w"], ["y"]), more=[Weight(4, 4).proto("w"), Weight(4, 4, seed=1).proto("w")]))
        self.said(self.rank(make.node(*self.DOUBLE), more=[make.graph_input("x", [4, 4])]))
        device = {"id": 0, "world": 0, "rank": 0, "parts": [{"part": 0, "model": "rank-0.onnx", "inputs": [], "outputs": []}]}
        self.file("rank-0.onnx", self.rank(make.node(*self.DOUBLE)))
        self.said(manifest={"devices": [device, device]})
        lost = {**device, "parts": [{**device["parts"][0], "inputs": [{"name": "z", "from": "input", "tensor": "x", "box": None}]}]}
        self.assertIn("lists the input 'z' of 'rank-0.onnx', which has none of that name", self.said(manifest={"devices": [lost]}))


if __name__ == "__main__":
    unittest.main()
