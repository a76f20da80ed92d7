#!/usr/bin/env python3
"""Writes a decoder that no exporter made, and what a caller has to know of it, with nothing but the standard library.

    random_decoder.py SEED OUT        OUT and OUT.json: {"dims": {"batch", "positions", "past"}, "tokens": NAME,
                                      "states": [[PAST, PRESENT], ..], "is_known": whether names say what is a state,
                                      "axes": of a state, in letters, "shape": of it, numbers and names of dimensions}

Of the seed are: how many layers, heads and heads that share keys there are; in which order a cache has its axes (batch,
heads, positions, width), with or without a batch; names of tensors and dimensions; norms, activations, biases. One that
has no mask sees all positions of its prompt, which is nothing to a loop. Values are the same every time.
"""

import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import onnx_make as make  # noqa: E402

ORDERS = ("bhpd", "bphd", "hbpd", "pbhd", "bhdp", "hpd", "phd")
VOCABULARY = 50


class Decoder:
    def __init__(self, seed):
        self.random = source = random.Random(seed)
        self.order = ORDERS[seed % len(ORDERS)]
        self.has_batch = "b" in self.order
        self.groups, self.shared = source.choice([(4, 1), (4, 2), (8, 1), (4, 4)])
        self.width = source.choice([8, 16])
        self.hidden = self.groups * self.shared * self.width
        self.layers = source.choice([1, 2, 2, 3])
        self.is_known = source.random() < 0.5
        self.dims = dict(zip(("batch", "positions", "past"), source.sample(["n", "lanes", "u", "w_4", "tt", "len"], 3)))
        if not self.has_batch:
            del self.dims["batch"]
        self.word = source.choice(["tape", "rail", "q7", "blob"])
        self.tokens = source.choice(["words", "input_ids", "codes"])
        self.activation = source.choice(["Relu", "Sigmoid", "Tanh"])
        self.has_bias, self.has_norm = source.random() < 0.5, source.random() < 0.7
        self.parts, self.outputs, self.states, self.count = [], [], [], 0

    def weight(self, *dims):
        total = 1
        for dim in dims:
            total *= dim
        values = [self.random.uniform(-1, 1) / max(dims[0], 1) ** 0.5 for _ in range(total)]
        name = self.fresh("w")
        fields = b"".join(make.integer(1, dim) for dim in dims) + make.integer(2, make.FLOAT)
        self.parts.append(make.delimited(5, fields + make.delimited(8, name) +
                                         make.delimited(9, struct.pack(f"<{total}f", *values))))
        return name

    def numbers(self, values):
        name = self.fresh("i")
        fields = make.integer(1, len(values)) + make.integer(2, make.INT64)
        self.parts.append(make.delimited(5, fields + make.delimited(8, name) +
                                         make.delimited(9, struct.pack(f"<{len(values)}q", *values))))
        return name

    def fresh(self, head):
        self.count += 1
        return f"{head}_{self.count}"

    def node(self, operator, inputs, **attributes):
        output = attributes.pop("output", None) or self.fresh(operator.lower())
        self.parts.append(make.node(operator, inputs, [output], **attributes))
        return output

    def product(self, x, rows, columns):
        x = self.node("MatMul", [x, self.weight(rows, columns)])
        return self.node("Add", [x, self.weight(columns)]) if self.has_bias else x

    def norm(self, x):
        if not self.has_norm:
            return x
        return self.node("LayerNormalization", [x, self.weight(self.hidden), self.weight(self.hidden)])

    def lead(self):
        """Axes before those of a head: batch and positions, or positions alone."""
        return [0, 0] if self.has_batch else [0]

    def cached(self, x, layer, what):
        """What a layer has of a kind, behind what it had: [batch, heads, 1, all positions, width]."""
        made = "bphd" if self.has_batch else "phd"
        plain = "bhpd" if self.has_batch else "hpd"
        x = self.node("Reshape", [x, self.numbers([*self.lead(), self.groups, self.width])])
        x = self.node("Transpose", [x], perm=[made.index(axis) for axis in self.order])
        past, present = ((f"past_{self.word}_{what}_{layer}", f"present_{self.word}_{what}_{layer}") if self.is_known
                         else (f"{self.word}{layer}{what}", f"kept{what}{layer}"))
        sizes = {"b": self.dims.get("batch"), "h": self.groups, "p": self.dims["past"], "d": self.width}
        self.parts.append(make.graph_input(past, [sizes[axis] for axis in self.order]))
        sizes["p"] = "all"
        self.outputs.append(make.graph_output(present, [sizes[axis] for axis in self.order]))
        self.states.append([past, present])
        x = self.node("Concat", [past, x], axis=self.order.index("p"), output=present)
        x = self.node("Transpose", [x], perm=[self.order.index(axis) for axis in plain])
        return self.node("Unsqueeze", [x, self.numbers([len(plain) - 2])])

    def attention(self, x, layer):
        heads = self.groups * self.shared
        query, key, value = (self.product(x, self.hidden, count * self.width)
                             for count in (heads, self.groups, self.groups))
        query = self.node("Reshape", [query, self.numbers([*self.lead(), self.groups, self.shared, self.width])])
        forth = [0, 2, 3, 1, 4] if self.has_batch else [1, 2, 0, 3]
        query = self.node("Transpose", [query], perm=forth)
        key, value = self.cached(key, layer, "k"), self.cached(value, layer, "v")
        last = len(forth) - 1
        turned = self.node("Transpose", [key], perm=[*range(last - 1), last, last - 1])
        scores = self.node("Softmax", [self.node("MatMul", [query, turned])], axis=-1)
        x = self.node("Transpose", [self.node("MatMul", [scores, value])],
                      perm=[0, 3, 1, 2, 4] if self.has_batch else [2, 0, 1, 3])
        x = self.node("Reshape", [x, self.numbers([*self.lead(), self.hidden])])
        return self.product(x, self.hidden, self.hidden)

    def write(self, path):
        lead = [self.dims["batch"], self.dims["positions"]] if self.has_batch else [self.dims["positions"]]
        self.parts.append(make.graph_input(self.tokens, lead, make.INT64))
        x = self.node("Gather", [self.weight(VOCABULARY, self.hidden), self.tokens])
        for layer in range(self.layers):
            x = self.node("Add", [x, self.attention(self.norm(x), layer)])
            inner = self.node(self.activation, [self.product(self.norm(x), self.hidden, 2 * self.hidden)])
            x = self.node("Add", [x, self.product(inner, 2 * self.hidden, self.hidden)])
        self.node("MatMul", [x, self.weight(self.hidden, VOCABULARY)], output="scores")
        make.write(path, make.model(*self.parts, make.graph_output("scores", [*lead, VOCABULARY]), *self.outputs))
        sizes = {"b": "batch", "h": self.groups, "p": "past", "d": self.width}
        with open(path + ".json", "w", encoding="utf-8") as file:
            json.dump({"dims": self.dims, "tokens": self.tokens, "states": self.states, "is_known": self.is_known,
                       "axes": self.order, "shape": [sizes[axis] for axis in self.order]}, file)


if __name__ == "__main__":
    Decoder(int(sys.argv[1])).write(sys.argv[2])
