#!/usr/bin/env python3
"""sizes_models.py FOLDER: writes models whose sizes their files do not say, as exporters do, and cases.json: for each the
options that say the rest, and the shapes and values of inputs to run it with.

    detector   boxes and scores, NonMaxSuppression, TopK of what is left: sizes that depend on data
    found      places by NonZero, as many as there are, and what a split network makes of each
    vad        a voice detector: axes without names, a scalar that chooses between front ends by an If
    merged     a decoder in one If around two bodies, with and without a past; the past may be empty
    masked     a sum of dimensions, as a dimension of its own and as arithmetic
    picture    convolutions and pools of as many pictures as come; ONNX Runtime puts its channels into blocks
"""

import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))

from onnx_make import delimited, encode, found, graph_input, graph_output, integer, model, node  # noqa: E402

FLOAT, INT64, BOOL = 1, 7, 9


def weight(name, *dims):
    count = 1
    for dim in dims:
        count *= dim
    random.seed(name)
    data = struct.pack(f"<{count}f", *(random.uniform(-0.5, 0.5) for _ in range(count)))
    return tensor(name, FLOAT, dims, data)


def numbers(name, *values, scalar=False):
    return tensor(name, INT64, () if scalar else (len(values),), struct.pack(f"<{len(values)}q", *values))


def real(name, value):
    return tensor(name, FLOAT, (1,), struct.pack("<f", value))


def tensor(name, dtype, dims, data):
    return delimited(5, *(integer(1, dim) for dim in dims), integer(2, dtype), delimited(8, name), delimited(9, data))


def branch(name, *parts):
    """A graph as an attribute of a node, to be put behind its other fields."""
    return delimited(5, delimited(1, name), delimited(6, delimited(2, name), *parts), integer(20, 5))


def result(name):
    return delimited(12, delimited(1, name))


def chosen(condition, outputs, then_branch, else_branch, name):
    return delimited(1, delimited(1, condition), *(delimited(2, item) for item in outputs), delimited(3, name),
                     delimited(4, "If"), branch("then_branch", *then_branch), branch("else_branch", *else_branch))


def detector():
    return [
        graph_input("image", [1, 3, 24, 24]),
        weight("w_boxes", 8, 3, 3, 3), weight("w_head", 8, 16), weight("w_out", 4, 32), numbers("flat", 1, 576, 8),
        numbers("box_columns", 0, 1, 2, 3), numbers("most", 40), real("overlap", 0.4), real("least", 0.3),
        numbers("two", 2, scalar=True), numbers("zero", 0), numbers("ten", 10), numbers("first", 0, scalar=True),
        node("Conv", ["image", "w_boxes"], ["features"], pads=[1, 1, 1, 1]),
        node("Transpose", ["features"], ["channels_last"], perm=[0, 2, 3, 1]),
        node("Reshape", ["channels_last", "flat"], ["anchors"]),
        node("Gather", ["anchors", "box_columns"], ["raw_boxes"], axis=2),
        node("Abs", ["raw_boxes"], ["boxes"]),
        node("ReduceMax", ["anchors"], ["best"], axes=[2], keepdims=1),
        node("Sigmoid", ["best"], ["sure"]),
        node("Transpose", ["sure"], ["scores"], perm=[0, 2, 1]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["selected"], center_point_box=1),
        node("Gather", ["selected", "two"], ["index"], axis=1),
        node("Squeeze", ["boxes"], ["all_boxes"], axes=[0]),
        node("Squeeze", ["sure"], ["all_scores"], axes=[0, 2]),
        node("Gather", ["all_boxes", "index"], ["kept_boxes"], axis=0),
        node("Gather", ["all_scores", "index"], ["kept_scores"], axis=0),
        node("Shape", ["kept_scores"], ["found"]),
        node("Min", ["found", "ten"], ["k"]),
        node("TopK", ["kept_scores", "k"], ["top_scores", "top"], axis=0),
        node("Gather", ["kept_boxes", "top"], ["top_boxes"], axis=0),
        node("MatMul", ["top_boxes", "w_out"], ["embedding"]),
        node("Relu", ["embedding"], ["out"]),
        graph_output("out", ["num", 32]), graph_output("top_scores", ["num"]), graph_output("index", ["kept"], INT64),
    ]


def vad():
    def front(prefix, width):
        return [weight(prefix + "w", 16, 1, width), node("Conv", ["frames", prefix + "w"], [prefix + "c"], strides=[16]),
                node("Relu", [prefix + "c"], [prefix + "y"]), result(prefix + "y")]

    return [
        graph_input("audio", ["", ""]), graph_input("sr", [], INT64), graph_input("state", ["", 32]),
        numbers("rate", 16000, scalar=True), numbers("one", 1), weight("u", 16, 32), weight("v", 32, 32), weight("o", 32, 1),
        numbers("two", 2),
        node("Equal", ["sr", "rate"], ["is_wide"]),
        node("Unsqueeze", ["audio"], ["frames"], axes=[1]),
        chosen("is_wide", ["spectrum"], front("wide_", 64), front("narrow_", 32), "front"),
        node("ReduceMean", ["spectrum"], ["frame"], axes=[2], keepdims=0),
        node("MatMul", ["frame", "u"], ["in"]), node("MatMul", ["state", "v"], ["carried"]),
        node("Add", ["in", "carried"], ["sum"]), node("Tanh", ["sum"], ["new_state"]),
        node("MatMul", ["new_state", "o"], ["logit"]), node("Sigmoid", ["logit"], ["speech"]),
        graph_output("speech", ["", 1]), graph_output("new_state", ["", 32]),
    ]


def merged():
    def body(prefix, with_past):
        keys = [node("Concat", ["past", prefix + "k"], [prefix + "keys"], axis=1)] if with_past else [
            node("Identity", [prefix + "k"], [prefix + "keys"])]
        return [
            node("Gather", ["table", "ids"], [prefix + "x"]),
            node("MatMul", [prefix + "x", "w_q"], [prefix + "q"]), node("MatMul", [prefix + "x", "w_k"], [prefix + "k"]),
            *keys,
            node("Transpose", [prefix + "keys"], [prefix + "t"], perm=[0, 2, 1]),
            node("MatMul", [prefix + "q", prefix + "t"], [prefix + "s"]), node("Softmax", [prefix + "s"], [prefix + "p"], axis=-1),
            node("MatMul", [prefix + "p", prefix + "keys"], [prefix + "c"]), node("MatMul", [prefix + "c", "w_o"], [prefix + "y"]),
            result(prefix + "y"), result(prefix + "keys"),
        ]

    return [
        graph_input("ids", ["batch", "seq"], INT64), graph_input("past", ["batch", "past_len", 32]),
        graph_input("use_cache", [1], BOOL),
        weight("table", 50, 32), weight("w_q", 32, 32), weight("w_k", 32, 32), weight("w_o", 32, 48),
        chosen("use_cache", ["logits", "present"], body("with_", True), body("no_", False), "decoder"),
        graph_output("logits", ["batch", "seq", 48]), graph_output("present", ["batch", "past_len + seq", 32]),
    ]


def masked():
    return [
        graph_input("past", ["batch", "past_len", 16]), graph_input("x", ["batch", "seq", 16]),
        graph_input("mask", ["batch", "total", 1]), graph_input("bias", ["past_len + seq"]), weight("w", 16, 24),
        numbers("one", 1),
        node("Concat", ["past", "x"], ["all"], axis=1), node("Mul", ["all", "mask"], ["seen"]),
        node("MatMul", ["seen", "w"], ["y"]), node("Unsqueeze", ["bias"], ["column"], axes=[1]),
        node("Add", ["y", "column"], ["out"]),
        graph_output("out", ["batch", "total", 24]),
    ]


def picture():
    def conv(x, name, out, into, size, **attributes):
        pads = [size // 2] * 4
        return [weight(f"{name}_w", out, into, size, size), weight(f"{name}_b", out),
                node("Conv", [x, f"{name}_w", f"{name}_b"], [name], kernel_shape=[size, size], pads=pads, **attributes)]

    return [
        graph_input("x", ["batch", 3, 12, 12]), *conv("x", "c0", 32, 3, 3), node("Relu", ["c0"], ["r0"]),
        *conv("r0", "c1", 32, 32, 3), node("Add", ["c1", "r0"], ["sum"]), node("Relu", ["sum"], ["r1"]),
        node("MaxPool", ["r1"], ["p0"], kernel_shape=[2, 2], strides=[2, 2]), *conv("p0", "c2", 32, 1, 3, group=32),
        node("AveragePool", ["c2"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        tensor("roi", FLOAT, (0,), b""), tensor("scales", FLOAT, (4,), struct.pack("<4f", 1, 1, 2, 2)),
        node("Resize", ["p1", "roi", "scales"], ["u"], mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric"),
        *conv("u", "c3", 48, 32, 1), node("GlobalAveragePool", ["c3"], ["mean"]),
        node("GlobalMaxPool", ["c3"], ["most"]), node("Concat", ["mean", "most"], ["both"], axis=1),
        node("Flatten", ["both"], ["flat"]), weight("w", 96, 8), node("MatMul", ["flat", "w"], ["y"]),
        graph_output("y", ["batch", 8]),
    ]


CASES = [
    ("detector", detector, [], {}),
    ("found", lambda: found(weight), [], {}),
    ("vad", vad, ["--dim", "audio:0=2", "--dim", "audio:1=512", "--dim", "state:0=2", "--value", "sr=16000"],
     {"audio": [[2, 512]], "sr": [[], 16000], "state": [[2, 32]]}),
    ("vad", vad, ["--dim", "audio:0=1", "--dim", "audio:1=256", "--dim", "state:0=1"],
     {"audio": [[1, 256]], "sr": [[], 8000], "state": [[1, 32]]}),
    ("merged", merged, ["--dim", "batch=2", "--dim", "seq=3", "--dim", "past_len=5", "--value", "use_cache=true"],
     {"ids": [[2, 3]], "past": [[2, 5, 32]], "use_cache": [[1], 1]}),
    ("merged", merged, ["--dim", "batch=2", "--dim", "seq=4", "--dim", "past_len=0", "--value", "use_cache=true"],
     {"ids": [[2, 4]], "past": [[2, 0, 32]], "use_cache": [[1], 1]}),
    ("masked", masked, ["--dim", "batch=2", "--dim", "total=6", "--dim", "past_len=4"],
     {"past": [[2, 4, 16]], "x": [[2, 2, 16]], "mask": [[2, 6, 1]], "bias": [[6]]}),
    ("masked", masked, ["--dim", "batch=2", "--dim", "past_len + seq=6", "--dim", "past_len=0"],
     {"past": [[2, 0, 16]], "x": [[2, 6, 16]], "mask": [[2, 6, 1]], "bias": [[6]]}),
    ("picture", picture, ["--dim", "batch=4"], {"x": [[4, 3, 12, 12]]}),
    ("picture", picture, ["--dim", "batch=1"], {"x": [[1, 3, 12, 12]]}),
]


def main(folder):
    cases = []
    for name, make, options, feeds in CASES:
        path = os.path.join(folder, name + ".onnx")
        with open(path, "wb") as file:
            file.write(encode(model(*make(), opset=12)))
        cases.append({"name": name, "path": path, "options": options, "feeds": feeds})
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
        json.dump(cases, file)


if __name__ == "__main__":
    main(sys.argv[1])
