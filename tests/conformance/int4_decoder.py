#!/usr/bin/env python3
"""Writes a small decoder as exporters of quantized language models do, with nothing but the standard library.

    int4_decoder.py OUT [--layers N]

The embedding is GatherBlockQuantized, the products are MatMulNBits (4 bits, one of them with zero points), attention is
GroupQueryAttention with rotary embeddings and a cache, norms are (Skip)SimplifiedLayerNormalization. Values are the same
every time. One step: 1 sequence, 1 new token, 3 positions in the cache (`past`, and with the new one `total`).
"""

import argparse
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))

import onnx_make as make  # noqa: E402

FLOAT, UINT8, INT32, INT64 = 1, 2, 6, 7
BATCH, PAST, HIDDEN, INNER, VOCABULARY, HEADS, KV, HEAD, BLOCK = 1, 3, 64, 128, 96, 8, 4, 16, 16
MICROSOFT = "com.microsoft"


class Decoder:
    def __init__(self):
        self.random = random.Random(7)
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []

    def weight(self, name, dtype, dims, code, values):
        data = struct.pack(f"<{len(values)}{code}", *values)
        fields = b"".join(make.integer(1, dim) for dim in dims) + make.integer(2, dtype)
        self.weights.append(make.delimited(5, fields + make.delimited(8, name) + make.delimited(9, data)))
        return name

    def reals(self, name, dims, low=-1.0, high=1.0):
        count = 1
        for dim in dims:
            count *= dim
        return self.weight(name, FLOAT, dims, "f", [self.random.uniform(low, high) for _ in range(count)])

    def bytes(self, name, dims):
        count = 1
        for dim in dims:
            count *= dim
        return self.weight(name, UINT8, dims, "B", [self.random.randrange(256) for _ in range(count)])

    def node(self, op, inputs, outputs, domain="", **attributes):
        self.nodes.append(make.node(op, inputs, outputs, outputs[0] + "/" + op, domain, **attributes))
        return outputs[0]

    def product(self, name, x, rows, columns, zero_points=False):
        blocks = rows // BLOCK
        inputs = [x, self.bytes(name + ".weight", [columns, blocks, BLOCK // 2]),
                  self.reals(name + ".scales", [columns, blocks], 0.005, 0.02)]
        if zero_points:
            inputs.append(self.bytes(name + ".zeros", [columns, blocks // 2]))
        return self.node("MatMulNBits", inputs, [name], MICROSOFT, K=rows, N=columns, bits=4, block_size=BLOCK)

    def layer(self, index, x, skip):
        name = f"layer{index}"
        if skip is None:
            normed = self.node("SimplifiedLayerNormalization", [x, self.reals(name + ".norm", [HIDDEN], 0.5, 1.5)],
                               [name + ".normed"], axis=-1, epsilon=1e-5)
        else:
            normed, x = self.skip(name + ".first", x, skip)
        heads = [self.product(f"{name}.{part}", normed, HIDDEN, count * HEAD)
                 for part, count in (("q", HEADS), ("k", KV), ("v", KV))]
        cache = [f"past.{index}.key", f"past.{index}.value"]
        present = [f"present.{index}.key", f"present.{index}.value"]
        for past, new in zip(cache, present):
            self.inputs.append(make.graph_input(past, [BATCH, KV, "past", HEAD]))
            self.outputs.append(make.graph_output(new, [BATCH, KV, "total", HEAD]))
        attended = self.node("GroupQueryAttention", [*heads, *cache, "seqlens_k", "total", "cos", "sin"],
                             [name + ".attended", *present], MICROSOFT, num_heads=HEADS, kv_num_heads=KV, do_rotary=1)
        attended = self.product(name + ".o", attended, HEADS * HEAD, HIDDEN)
        normed, x = self.skip(name + ".second", x, attended)
        gate = self.product(name + ".gate", normed, HIDDEN, INNER)
        up = self.product(name + ".up", normed, HIDDEN, INNER)
        sigmoid = self.node("Sigmoid", [gate], [name + ".sigmoid"])
        active = self.node("Mul", [gate, sigmoid], [name + ".silu"])
        inner = self.node("Mul", [active, up], [name + ".inner"])
        return x, self.product(name + ".down", inner, INNER, HIDDEN, zero_points=True)

    def skip(self, name, x, skip):
        self.node("SkipSimplifiedLayerNormalization", [x, skip, self.reals(name + ".norm", [HIDDEN], 0.5, 1.5)],
                  [name + ".normed", "", "", name + ".sum"], MICROSOFT, epsilon=1e-5)
        return name + ".normed", name + ".sum"

    def build(self, layers):
        self.inputs.append(make.graph_input("input_ids", [BATCH, 1], INT64))
        self.weight("seqlens_k", INT32, [BATCH], "i", [PAST] * BATCH)
        # As exporters have it: sizes are symbols, and the length of the cache is that of the mask.
        self.inputs.append(make.graph_input("attention_mask", [BATCH, "total"], INT64))
        self.node("Shape", ["attention_mask"], ["mask.shape"])
        self.node("Gather", ["mask.shape", self.weight("one", INT64, [], "q", [1])], ["mask.length"])
        self.node("Cast", ["mask.length"], ["total"], to=INT32)
        self.reals("cos", [16, HEAD // 2])
        self.reals("sin", [16, HEAD // 2])
        blocks = HIDDEN // BLOCK
        x = self.node("GatherBlockQuantized",
                      [self.bytes("embedding", [VOCABULARY, HIDDEN // 2]), "input_ids",
                       self.reals("embedding.scales", [VOCABULARY, blocks], 0.05, 0.2),
                       self.bytes("embedding.zeros", [VOCABULARY, blocks // 2])],
                      ["embedded"], MICROSOFT, bits=4, block_size=BLOCK, gather_axis=0, quantize_axis=1)
        skip = None
        for index in range(layers):
            x, skip = self.layer(index, x, skip)
        normed, _ = self.skip("last", x, skip)
        self.product("logits", normed, HIDDEN, VOCABULARY)
        self.outputs.append(make.graph_output("logits", [BATCH, 1, VOCABULARY]))
        graph = b"".join(self.nodes) + make.delimited(2, "decoder") + b"".join(
            self.weights + self.inputs + self.outputs)
        opsets = b"".join(make.delimited(8, make.delimited(1, domain) + make.integer(2, version))
                          for domain, version in (("", 21), (MICROSOFT, 1)))
        return make.integer(1, 10) + make.delimited(7, graph) + opsets


parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--layers", type=int, default=2)
arguments = parser.parse_args()
with open(arguments.out, "wb") as file:
    file.write(Decoder().build(arguments.layers))
