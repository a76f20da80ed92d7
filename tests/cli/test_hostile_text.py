#!/usr/bin/env python3
"""Text out of a model that would turn or break the text around it is shown escaped, wherever it is shown."""

import json
import re
import unittest

import test_cli
from test_cli import ALONE, Case
from hostile import message, node, number, tensor, value, FLOAT, model

# What turns text round, ends lines, moves a terminal's cursor (C0, C1, DEL).
TURNS = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
MOVES = "\x1b\x07\x7f\x9b"
RAW = re.compile(f"[{TURNS}\x00-\x09\x0b-\x1f\x7f-\x9f]")
NAME = "pay\u202etxt.exe" + "".join(sorted(set(TURNS))) + MOVES


def named(name):
    return model(node("MatMul", ["x", "w"], ["y"], name=name), node("Relu", ["y"], [name + "out"], name=name + "2"),
                 tensor("w", [4, 4], FLOAT, message(9, b"\0" * 64)), value(11, "x", (2, 4)), value(12, name + "out", (2, 4)))


class HostileText(Case):
    def clean(self, text, *also):
        text = text.decode()
        self.assertIsNone(RAW.search(text), repr(text[:400]))
        for one in also:
            self.assertIn(one, text)
        return text

    def test_text_and_json(self):
        path = self.file("model.onnx", named(NAME))
        for verb in (["inspect", path, "--values"], ["check", path], ["plan", path, "--devices", "2", *ALONE]):
            with self.subTest(verb):
                done = test_cli.run(*verb)
                self.clean(done.stdout)
                self.clean(done.stderr)
        text = self.clean(self.done("inspect", path, "--values", "--json").stdout, "\\u202e", "\\u2067", "\\u009b")
        self.assertIn(NAME + "out", [item["name"] for item in json.loads(text)["outputs"]])

    def test_errors(self):
        broken = self.file("broken.onnx", model(node("Relu", ["missing" + NAME], ["y"], name=NAME), value(12, "y", (2,))))
        done = test_cli.run("plan", broken, "--devices", "2", *ALONE)
        self.assertEqual(done.returncode, 1)
        self.clean(done.stderr, "\\u202e")


if __name__ == "__main__":
    unittest.main()
