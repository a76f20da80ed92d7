#!/usr/bin/env python3
"""Writes models whose memory ONNX Runtime counts exactly as a plan does, if both have the same tensors alive.

    held_memory.py FOLDER COUNT

decoder.onnx copies past keys and values to present ones, layer by layer. random-N.onnx are rows of Concat, Slice and
Transpose, with Reshape between them: each node takes what the one before it made, so that there is one order, and
anything else that was there before. No operator runs in place, and hardly two tensors have the same extents, so that no
runtime keeps the memory of one for another one.
"""

import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))

import onnx_make as make  # noqa: E402

WIDTH = 64


def decoder(layers, past):
    parts, at = [make.graph_input("x", [1, 1, WIDTH])], "x"
    for layer in range(layers):
        rows = past + 10 * layer  # else the memory of a layer's tensors is kept for those of the next one
        old, new, turned, scores, mixed = (f"{name}{layer}" for name in ("past", "present", "turned", "scores", "mixed"))
        parts += [make.graph_input(old, [1, rows, WIDTH]), make.node("Concat", [old, at], [new], axis=1),
                  make.node("Transpose", [new], [turned], perm=[0, 2, 1]), make.node("MatMul", [at, turned], [scores]),
                  make.node("MatMul", [scores, new], [mixed]), make.graph_output(new, [1, rows + 1, WIDTH])]
        at = mixed
    return [*parts, make.graph_output(at, [1, 1, WIDTH])]


class Row:
    """Tensors are [rows, WIDTH], or views of that, or that turned."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.free = self.random.sample(range(500, 4000), 100)
        self.parts, self.rows, self.results = [make.ints("zero", [0])], {}, []
        for i in range(self.random.randint(1, 4)):
            self.rows[f"x{i}"] = self.free.pop()
            self.parts.append(make.graph_input(f"x{i}", [self.rows[f"x{i}"], WIDTH]))
        at, *others = list(self.rows)
        for name in others:  # every one is used, the most of them early for the last time
            at = self.cut(self.concat(at, name, f"{name}.and"), f"{name}.cut")
        for i in range(self.random.randint(6, 24)):
            if i == 4:
                for name in others:
                    del self.rows[name]
            at = self.add(at, f"t{i}")
        self.result(at)

    def node(self, op, inputs, name, rows, **attributes):
        self.parts.append(make.node(op, inputs, [name], name, **attributes))
        self.rows[name] = rows
        return name

    def cut(self, source, name):
        rows = self.free.pop()
        while rows >= self.rows[source]:
            rows = rows // 2 + self.random.randint(1, 50)
        self.parts.append(make.ints(name + ".end", [rows]))
        return self.node("Slice", [source, "zero", name + ".end", "zero"], name, rows)

    def concat(self, source, other, name):
        return self.node("Concat", [source, other], name, self.rows[source] + self.rows[other], axis=0)

    def result(self, name):
        if name not in self.results:
            self.results.append(name)
            self.parts.append(make.graph_output(name, [self.rows[name], WIDTH]))

    def add(self, at, name):
        kind = self.random.randrange(4)
        if kind == 0:  # two views
            self.parts += [make.ints(name + ".all", [-1]), make.ints(name + ".rows", [-1, WIDTH])]
            self.node("Reshape", [at, name + ".all"], name + ".flat", 1)
            self.node("Reshape", [name + ".flat", name + ".rows"], name + ".view", self.rows[at])
            del self.rows[name + ".flat"]
            at = name + ".view"
        elif kind == 1:
            self.node("Transpose", [at], name + ".turned", WIDTH, perm=[1, 0])
            self.node("Transpose", [name + ".turned"], name + ".back", self.rows[at], perm=[1, 0])
            del self.rows[name + ".turned"]
            at = name + ".back"
        at = self.concat(at, self.random.choice(list(self.rows)), name)
        if self.rows[at] > 10000 or self.random.random() < 0.7:
            at = self.cut(at, name + ".cut")
        if self.random.random() < 0.3:
            self.result(at)
        return at


def main(folder, count):
    models = {"decoder": decoder(4, 4000), **{f"random-{seed}": Row(seed).parts for seed in range(count)}}
    for name, parts in models.items():
        with open(os.path.join(folder, name + ".onnx"), "wb") as file:
            file.write(make.encode(make.model(*parts)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
