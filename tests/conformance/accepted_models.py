#!/usr/bin/env python3
"""accepted_models.py FOLDER: models that ONNX Runtime runs although the standard forbids something in them."""

import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
sys.dont_write_bytecode = True

from onnx_make import (  # noqa: E402
    delimited, encode, graph_input, graph_output, integer, ints, node, Weights, _value,
)


def model(*graph, imports=(("", 17),)):
    opsets = [delimited(8, delimited(1, domain), integer(2, version)) for domain, version in imports]
    return [integer(1, 8), *opsets, delimited(7, *graph, delimited(2, "made"))]


def declared(name, dims):
    return _value(13, name, dims, 1)


def graph_attribute(name, *graph):
    return delimited(5, delimited(1, name), delimited(6, *graph, delimited(2, name)), integer(20, 5))


def inner(op, inputs, outputs, *attributes):
    """A node with attributes that are graphs."""
    return delimited(1, *(delimited(1, item) for item in inputs), *(delimited(2, item) for item in outputs),
                     delimited(3, outputs[0]), delimited(4, op), *attributes)


def chain(*declarations, output=(4, 8)):
    weights = Weights("pattern")
    return [graph_input("x", [4, 8]), weights.tensor("w", [8, 8]), node("MatMul", ["x", "w"], ["m"]),
            node("Relu", ["m"], ["h"]), node("MatMul", ["h", "w"], ["y"]), *declarations, graph_output("y", output)]


def loop(state, result):
    """Three turns of Relu; the body declares its state and result so."""
    body = [graph_input("i", [], 7), graph_input("go", [], 9), graph_input("s", state),
            node("Identity", ["go"], ["on"]), node("Relu", ["s"], ["t"]), graph_output("on", [], 9),
            graph_output("t", result)]
    return [graph_input("x", [4, 8]), ints("turns", [3]), node("Squeeze", ["turns"], ["n"]),
            inner("Loop", ["n", "", "x"], ["y"], graph_attribute("body", *body)), graph_output("y", [4, 8])]


def branches(result, order=1):
    """An If whose branches use a value of the graph around it, which stands first or behind it."""
    parts = [inner("If", ["c"], ["r"],
                   graph_attribute("then_branch", node("Relu", ["h"], ["a"]), graph_output("a", result)),
                   graph_attribute("else_branch", node("Neg", ["h"], ["b"]), graph_output("b", result))),
             node("Tanh", ["x"], ["h"])]
    return [graph_input("x", [4, 8]), graph_input("c", [], 9), *parts[::order], node("Relu", ["r"], ["y"]),
            graph_output("y", [4, 8])]


def again(name, value=None):
    """Another initializer of this name: the same, or a small one."""
    if value is None:
        return Weights("pattern").tensor(name, [8, 8])
    return delimited(5, integer(1, 8), integer(2, 1), delimited(8, name), delimited(9, struct.pack("<8f", *([value] * 8))))


def stft(*dims):
    window = delimited(5, integer(1, 32), integer(2, 1), delimited(8, "window"),
                       delimited(9, struct.pack("<32f", *([1.0] * 32))))
    hop = delimited(5, integer(2, 7), delimited(8, "hop"), delimited(9, struct.pack("<q", 16)))
    return [graph_input("x", [4, 256, *dims]), window, hop, node("STFT", ["x", "hop", "window"], ["y"], onesided=1),
            graph_output("y", [4, 15, 17, 2])]


MODELS = {
    "extent": model(*chain(declared("h", [4, 9]))),
    "rank": model(*chain(declared("h", [32]))),
    "rank-0": model(*chain(declared("m", []), output=())),
    "output-rank": model(*chain(output=[2, 2, 8])),
    "initializer": model(*chain(declared("w", [3, 8]))),
    "initializer-twice": model(*chain(again("w"))),
    "initializer-twice-input": model(*chain(again("w"), graph_input("w", [8, 8]))),
    "initializer-thrice-small": model(graph_input("x", [4, 8]), again("v", 7), again("v", 5), again("v", 3),
                                      node("Add", ["x", "v"], ["y"]), graph_output("y", [4, 8])),
    "symbol": model(graph_input("x", ["batch", 8]), node("Concat", ["x", "x"], ["y"], axis=0),
                    graph_output("y", ["batch", 8])),
    "loop-extent": model(*loop([4, 7], [4, 8])),
    "loop-rank": model(*loop([4, 8], [32])),
    "branch-rank": model(*branches([32])),
    "unsorted": model(*(chain()[index] for index in (0, 1, 4, 3, 2, 5))),
    "unsorted-capture": model(*branches([4, 8])),
    "unsorted-branch": model(*branches([4, 8], -1)[:-2], node("Abs", ["q"], ["z"]), node("Relu", ["r"], ["q"]),
                             graph_output("z", [4, 8])),
    "no-import": model(graph_input("x", [4, 8]), node("Gelu", ["x"], ["h"], domain="com.microsoft"),
                       node("Relu", ["h"], ["y"]), graph_output("y", [4, 8])),
    "no-import-ml": model(graph_input("x", [4, 8]), node("Normalizer", ["x"], ["y"], domain="ai.onnx.ml", norm="L1"),
                          graph_output("y", [4, 8])),
    "no-import-onnx": model(graph_input("x", [4, 8]), ints("axes", [0]), node("Unsqueeze", ["x", "axes"], ["h"]),
                            node("ReduceSum", ["h", "axes"], ["s"], keepdims=0), node("Relu", ["s"], ["y"]),
                            graph_output("y", [4, 8]), imports=(("com.microsoft", 1),)),
    "stft": model(*stft()),
    "output-twice": model(*chain(), graph_output("y", [4, 8])),
    "no-nodes": model(graph_input("x", [4, 8]), Weights("pattern").tensor("y", [4, 8]), graph_output("y", [4, 8])),
    "input-is-output": model(graph_input("x", [4, 8]), graph_output("x", [4, 8])),
}

if __name__ == "__main__":
    for title, made in MODELS.items():
        with open(os.path.join(sys.argv[1], f"{title}.onnx"), "wb") as file:
            file.write(encode(made))
