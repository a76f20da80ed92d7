#!/usr/bin/env python3
"""Writes a model of two operators of nobody's domain, how a file tells them, and what they are as functions.

    private_operator.py MODEL OPERATORS FUNCTIONS

FusedGate is (x @ w) * v, SplitHeads a transposition that has its number of heads as an attribute. The functions, behind
the bytes of a model, let a runtime compute it.
"""

import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))

import onnx_make as make  # noqa: E402

DOMAIN = "com.example"
RULES = [
    {"domain": DOMAIN, "name": "FusedGate", "rule": "[b.., k] [k, n] [n] -> [b.., n]; k sum", "flops": "2*b..*k*n"},
    {"domain": DOMAIN, "name": "SplitHeads", "rule": "[b, s, h*d] -> [b, h, s, d]; h = heads"},
]


def names(field, values):
    return b"".join(make.delimited(field, value) for value in values)


def function(name, inputs, outputs, attributes, *nodes):
    """A model's function; a graph's node is its field 1, a function's its field 7."""
    return make.delimited(
        25,
        make.delimited(1, name),
        names(4, inputs),
        names(5, outputs),
        names(6, attributes),
        *(make.varint(7 << 3 | 2) + node[1:] for node in nodes),
        make.delimited(9, make.delimited(1, ""), make.integer(2, 17)),
        make.delimited(10, DOMAIN),
    )


def weight(name, dims):
    count = make.element_count(dims)
    data = struct.pack(f"<{count}f", *((i * 37 + 11) % 64 / 32 - 1 for i in range(count)))
    fields = b"".join(make.integer(1, dim) for dim in dims) + make.integer(2, make.FLOAT)
    return make.delimited(5, fields, make.delimited(8, name), make.delimited(9, data))


def main():
    graph = [
        make.node("FusedGate", ["x", "w", "v"], ["gated"], domain=DOMAIN),
        make.node("SplitHeads", ["gated"], ["heads"], domain=DOMAIN, heads=8),
        make.node("Relu", ["heads"], ["y"]),
        weight("w", [64, 128]),
        weight("v", [128]),
        make.graph_input("x", [2, 4, 64]),
        make.graph_output("y", [2, 8, 4, 16]),
    ]
    own = make.delimited(8, make.delimited(1, DOMAIN), make.integer(2, 1))
    with open(sys.argv[1], "wb") as out:
        out.write(make.encode([make.model(*graph), own]))
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        json.dump({"operators": RULES}, out)
    # Constant's value_int is the function's attribute: its name, ref_attr_name and type.
    reference = make.delimited(5, make.delimited(1, "value_int"), make.integer(20, 2), make.delimited(21, "heads"))
    heads = make.delimited(1, make.delimited(2, "h"), make.delimited(4, "Constant"), reference)
    with open(sys.argv[3], "wb") as out:
        out.write(function("FusedGate", ["x", "w", "v"], ["y"], [], make.node("MatMul", ["x", "w"], ["p"]),
                           make.node("Mul", ["p", "v"], ["y"])))
        out.write(function("SplitHeads", ["x"], ["y"], ["heads"], heads,
                           make.node("Constant", [], ["zeros"], value_ints=[0, 0]),
                           make.node("Constant", [], ["rest"], value_ints=[-1]),
                           make.node("Constant", [], ["one"], value_ints=[1]),
                           make.node("Reshape", ["h", "one"], ["hs"]),
                           make.node("Concat", ["zeros", "hs", "rest"], ["shape"], axis=0),
                           make.node("Reshape", ["x", "shape"], ["split"]),
                           make.node("Transpose", ["split"], ["y"], perm=[0, 2, 1, 3])))


if __name__ == "__main__":
    main()
