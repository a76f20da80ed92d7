#!/usr/bin/env python3
"""Writes models whose weights are several in one, and what must be split of them: FOLDER/NAME.onnx and FOLDER/cases.json.

    fused_models.py FOLDER

Each is one step of one sequence, so that only weights can be split. Queries, keys and values are one product with a bias,
taken apart in each of the ways that exporters know; gated feed-forward layers are one product, or convolution, of twice
the width; `joined` is put together. `separate` has a product each. Values are the same every time.
"""

import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))

import onnx_make as make  # noqa: E402

FLOAT, UINT8, INT8, INT64 = 1, 2, 3, 7
HEADS, HEAD = 12, 4
WIDTH, INNER = HEADS * HEAD, 96
MICROSOFT = "com.microsoft"


class Model:
    def __init__(self):
        self.random = random.Random(11)
        self.nodes, self.weights, self.values = [], [], []

    def weight(self, name, dtype, dims, code, values):
        fields = b"".join(make.integer(1, dim) for dim in dims) + make.integer(2, dtype)
        data = struct.pack(f"<{len(values)}{code}", *values)
        self.weights.append(make.delimited(5, fields + make.delimited(8, name) + make.delimited(9, data)))
        return name

    def reals(self, name, *dims, low=-0.5, high=0.5):
        count = make.element_count(dims)
        return self.weight(name, FLOAT, dims, "f", [self.random.uniform(low, high) for _ in range(count)])

    def bytes(self, name, dtype, *dims):
        count = make.element_count(dims)
        code, least = ("B", 0) if dtype == UINT8 else ("b", -128)
        return self.weight(name, dtype, dims, code, [self.random.randrange(256) + least for _ in range(count)])

    def ints(self, name, *values):
        return self.weight(name, INT64, [len(values)], "q", values)

    def node(self, op, inputs, outputs, domain="", **attributes):
        outputs = [outputs] if isinstance(outputs, str) else outputs
        self.nodes.append(make.node(op, inputs, outputs, outputs[0] + "/" + op, domain, **attributes))
        return outputs[0]

    # ---- products ----

    def product(self, x, width, name, bias=True):
        y = self.node("MatMul", [x, self.reals(name + ".weight", WIDTH, width)], name + ".product")
        return self.node("Add", [self.reals(name + ".bias", width), y], name + ".out") if bias else y

    def gemm(self, x, width, name):
        flat = self.node("Reshape", [x, self.ints(name + ".flat", 1, WIDTH)], name + ".rows")
        y = self.node("Gemm", [flat, self.reals(name + ".weight", width, WIDTH), self.reals(name + ".bias", width)],
                      name + ".product", transB=1)
        return self.node("Reshape", [y, self.ints(name + ".shape", 1, 1, width)], name + ".out")

    def packed(self, x, width, name, flat):
        """4 bits; scales in one row, or in rows."""
        blocks = WIDTH // 16
        dims = [width * blocks] if flat else [width, blocks]
        return self.node("MatMulNBits", [x, self.bytes(name + ".weight", UINT8, width, blocks, 8),
                                         self.reals(name + ".scales", *dims, low=0.01, high=0.05)], name + ".out",
                         MICROSOFT, K=WIDTH, N=width, bits=4, block_size=16)

    def dequantised(self, x, width, name):
        weight = self.node("DequantizeLinear", [self.bytes(name + ".weight", INT8, WIDTH, width),
                                                self.reals(name + ".scales", width, low=0.001, high=0.004)],
                           name + ".real", axis=1)
        return self.node("MatMul", [x, weight], name + ".out")

    # ---- queries, keys and values ----

    def by_split(self, qkv):
        self.node("Split", [qkv, self.ints("parts", WIDTH, WIDTH, WIDTH)], ["q", "k", "v"], axis=-1)
        return [self.heads(part) for part in "qkv"]

    def by_slices(self, qkv):
        for i, part in enumerate("qkv"):
            self.node("Slice", [qkv, self.ints(part + ".start", i * WIDTH), self.ints(part + ".end", i * WIDTH + WIDTH),
                                self.ints(part + ".axis", 2)], part)
        return [self.heads(part) for part in "qkv"]

    def by_gather(self, qkv):
        parts = self.node("Reshape", [qkv, self.ints("parts", 1, 1, 3, HEADS, HEAD)], "parts.out")
        parts = self.node("Transpose", [parts], "parts.first", perm=[2, 0, 3, 1, 4])
        return [self.node("Gather", [parts, self.weight(part + ".number", INT64, [], "q", [i])], part + ".heads", axis=0)
                for i, part in enumerate("qkv")]

    def by_squeeze(self, qkv):
        parts = self.node("Reshape", [qkv, self.ints("parts", 1, 1, 3, HEADS, HEAD)], "parts.out")
        self.node("Split", [parts, self.ints("ones", 1, 1, 1)], ["q", "k", "v"], axis=2)
        axis = self.ints("axis", 2)
        return [self.node("Transpose", [self.node("Squeeze", [part, axis], part + ".rows")], part + ".heads",
                          perm=[0, 2, 1, 3]) for part in "qkv"]

    def interleaved(self, qkv):
        """Each head has its query, key and value together: the heads are the major part."""
        parts = self.node("Reshape", [qkv, self.ints("parts", 1, 1, HEADS, 3 * HEAD)], "parts.out")
        self.node("Split", [parts, self.ints("thirds", HEAD, HEAD, HEAD)], ["q", "k", "v"], axis=-1)
        return [self.node("Transpose", [part], part + ".heads", perm=[0, 2, 1, 3]) for part in "qkv"]

    def heads(self, part):
        shape = self.ints(part + ".shape", 1, 1, HEADS, HEAD)
        return self.node("Transpose", [self.node("Reshape", [part, shape], part + ".rows")], part + ".heads",
                         perm=[0, 2, 1, 3])

    def attention(self, product, apart):
        qkv = product(self, "x", 3 * WIDTH, "qkv")
        q, k, v = apart(self, qkv)
        return self.attend(q, k, v)

    def separate(self):
        return self.attend(*(self.heads(self.product("x", WIDTH, part)) for part in "qkv"))

    def attend(self, q, k, v):
        # Keys are laid over each other with what was before, so that there is something to choose from.
        keys = self.node("Concat", [self.reals("past.keys", 1, HEADS, 3, HEAD), k], "keys", axis=2)
        values = self.node("Concat", [self.reals("past.values", 1, HEADS, 3, HEAD), v], "values", axis=2)
        turned = self.node("Transpose", [keys], "keys.turned", perm=[0, 1, 3, 2])
        scores = self.node("Softmax", [self.node("MatMul", [q, turned], "scores")], "shares", axis=-1)
        mixed = self.node("MatMul", [scores, values], "mixed")
        rows = self.node("Transpose", [mixed], "mixed.rows", perm=[0, 2, 1, 3])
        flat = self.node("Reshape", [rows, self.ints("flat", 1, 1, WIDTH)], "mixed.flat")
        return self.node("MatMul", [flat, self.reals("o.weight", WIDTH, WIDTH)], "y")

    def packed_attention(self):
        y = self.node("Attention", ["x", self.reals("qkv.weight", WIDTH, 3 * WIDTH), self.reals("qkv.bias", 3 * WIDTH)],
                      "attended", MICROSOFT, num_heads=HEADS)
        return self.node("MatMul", [y, self.reals("o.weight", WIDTH, WIDTH)], "y")

    # ---- gated layers ----

    def gated(self, product=None):
        both = (product or Model.product)(self, "x", 2 * INNER, "both")
        self.node("Split", [both], ["gate", "up"], axis=-1, num_outputs=2)
        return self.node("MatMul", [self.gate(), self.reals("down.weight", INNER, WIDTH)], "y")

    def gate(self):
        active = self.node("Mul", ["gate", self.node("Sigmoid", ["gate"], "open")], "active")
        return self.node("Mul", [active, "up"], "inner")

    def convolved(self):
        self.node("Conv", ["x", self.reals("both.weight", 2 * INNER, WIDTH, 1, 1), self.reals("both.bias", 2 * INNER)],
                  "both.out")
        self.node("Split", ["both.out"], ["gate", "up"], axis=1, num_outputs=2)
        return self.node("Conv", [self.gate(), self.reals("down.weight", WIDTH, INNER, 1, 1)], "y")

    def joined(self):
        """The other way round: what several make is one operand of the next."""
        parts = [self.node("Relu", [self.product("x", INNER, part)], part + ".active") for part in ("left", "right")]
        both = self.node("Concat", parts, "both", axis=-1)
        return self.node("MatMul", [both, self.reals("down.weight", 2 * INNER, WIDTH)], "y")

    def encode(self, dims):
        self.values = [make.graph_input("x", dims), make.graph_output("y", dims)]
        graph = b"".join(self.nodes) + make.delimited(2, "fused") + b"".join(self.weights + self.values)
        opsets = b"".join(make.delimited(8, make.delimited(1, domain) + make.integer(2, version))
                          for domain, version in (("", 21), (MICROSOFT, 1)))
        return make.integer(1, 10) + make.delimited(7, graph) + opsets


def attention(product, apart):
    return lambda model: model.attention(product, apart)


QKV = ["qkv.weight", "qkv.bias"]
CASES = {  # how it is made; what must be split, and the axis that is cut behind its major part, with the parts there
    "separate": (Model.separate, ["q.weight", "k.weight", "v.weight"], 1),
    "split": (attention(Model.product, Model.by_split), QKV, 3),
    "slices": (attention(Model.product, Model.by_slices), QKV, 3),
    "gather": (attention(Model.product, Model.by_gather), QKV, 3),
    "squeeze": (attention(Model.product, Model.by_squeeze), QKV, 3),
    "interleaved": (attention(Model.product, Model.interleaved), QKV, 1),
    "gemm": (attention(Model.gemm, Model.by_split), QKV, 3),
    "packed rows": (attention(lambda *a: Model.packed(*a, False), Model.by_split), ["qkv.weight", "qkv.scales"], 3),
    "packed flat": (attention(lambda *a: Model.packed(*a, True), Model.by_gather), ["qkv.weight", "qkv.scales"], 3),
    "dequantised": (attention(Model.dequantised, Model.by_split), ["qkv.real"], 3),
    "attention": (Model.packed_attention, QKV, 3),
    "gated": (Model.gated, ["both.weight", "both.bias"], 2),
    "gated packed": (lambda m: m.gated(lambda *a: Model.packed(*a, True)), ["both.weight", "both.scales"], 2),
    "joined": (Model.joined, ["down.weight"], 2),
    "convolved": (Model.convolved, ["both.weight", "both.bias"], 2),
}

folder = sys.argv[1]
for name, (build, _, _) in CASES.items():
    model = Model()
    build(model)
    dims = [1, WIDTH, 1, 1] if name == "convolved" else [1, 1, WIDTH]
    with open(os.path.join(folder, name + ".onnx"), "wb") as file:
        file.write(model.encode(dims))
with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
    json.dump([{"name": name, "split": split, "parts": parts} for name, (_, split, parts) in CASES.items()], file)
