#!/usr/bin/env python3
"""States of models on the command line: what a step hands to the next, by names, options and a genai_config.json."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402


def tensor(name, *shape):
    return {"name": name, "dtype": "float32", "shape": list(shape)}


# Caches of 4 positions and one more: one with names that are known, one with names of its own.
MODEL = {
    "opset": 17,
    "inputs": [tensor("x", 1, 8), tensor("past_key_values.0.key", 4, 8), tensor("own.0.before", 4, 8)],
    "nodes": [
        {"op": "Concat", "inputs": ["past_key_values.0.key", "x"], "outputs": ["present.0.key"], "attributes": {"axis": 0}},
        {"op": "Concat", "inputs": ["own.0.before", "x"], "outputs": ["own.0.after"], "attributes": {"axis": 0}},
    ],
    "outputs": ["present.0.key", "own.0.after"],
}
NAMED = {"past": "past_key_values.0.key", "present": "present.0.key", "grows": 0, "from": "names"}
OWN = {"past": "own.0.before", "present": "own.0.after", "grows": 0, "from": "given"}
CONFIG = {"model": {"decoder": {"filename": "model.json", "inputs": {"past_names": "own.%d.before"},
                                "outputs": {"present_names": "own.%d.after"}}}}


class States(test_cli.Case):
    def setUp(self):
        super().setUp()
        self.model = self.write("model.json", MODEL)

    def write(self, name, content):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return self.path(name)

    def states(self, *options):
        return self.json("inspect", self.model, *options)["states"]

    def test_names_and_options(self):
        self.assertEqual(self.states(), [NAMED])
        self.assertEqual(self.states("--state", "own.*.before=own.*.after"), [OWN])
        both = self.states("--state", "own.0.before=own.0.after", "--state", "past_key_values.*=present.*")
        self.assertEqual(both, [{**NAMED, "from": "given"}, OWN])
        text = self.done("inspect", self.model).stdout.decode()
        self.assertIn("present.0.key -> past_key_values.0.key, grows along axis 0", text)

    def test_what_is_not_there_is_refused(self):
        for option in ("nothing=own.0.after", "own.0.before=nothing", "own.*.before=own.0.after", "own"):
            self.done("inspect", self.model, "--state", option, status=2)

    def test_the_configuration_beside_a_model(self):
        self.write("genai_config.json", CONFIG)
        self.assertEqual(self.states(), [NAMED, OWN])
        self.assertEqual(self.states("--state", "own.0.before=own.0.after"), [OWN])
        codes = [item["code"] for item in self.json("plan", self.model, "--devices", "1")["diagnostics"]]
        self.assertIn("STATES_FOUND", codes)
        other = {"model": {"decoder": {**CONFIG["model"]["decoder"], "filename": "other.onnx"}}}
        for content in (other, {}, [], {"model": 7}, "no JSON"):
            self.write("genai_config.json", content)
            self.assertEqual(self.states(), [NAMED], content)


if __name__ == "__main__":
    unittest.main()
