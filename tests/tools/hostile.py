#!/usr/bin/env python3
"""Model files that want to hurt, each of which must be refused with a clear error; (name, bytes) from

    cases()          not ONNX, broken, or beyond a limit: exit status 2, HTTP 400 or 422
    wrong_models()   well-formed protobuf that is no valid model: exit status 1 or 2, HTTP 422
    unplannable()    valid, but of a size that nothing can hold: may be inspected, not planned
    truncated()      a real model cut at every so many bytes: exit status 2

    hostile.py FOLDER       writes the first three there

Encoded by hand, since no library would write them. The numbers of fields are those of onnx.proto.
"""
import itertools
import os
import sys

from onnx_make import delimited as message, integer as number, varint

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")
FLOAT, INT64, BOOL = 1, 7, 9


def attribute_graph(name, graph):
    return message(5, message(1, name), message(6, graph), number(20, 5))


def node(op, inputs, outputs, *extra, name="", domain=""):
    return message(1, *(message(1, item) for item in inputs), *(message(2, item) for item in outputs),
                   message(3, name), message(4, op), message(7, domain) if domain else b"", *extra)


def value(field, name, dims, dtype=FLOAT):
    shape = b"".join(message(1, number(1, dim) if isinstance(dim, int) else message(2, dim)) for dim in dims)
    return message(field, message(1, name), message(2, message(1, number(1, dtype), message(2, shape))))


def tensor(name, dims, dtype=FLOAT, *rest):
    return message(5, *(number(1, dim) for dim in dims), number(2, dtype), message(8, name), *rest)


def model(*graph, opset=16, ir_version=8, rest=b""):
    return (number(1, ir_version) + message(7, *graph, message(2, "g")) +
            message(8, message(1, ""), number(2, opset)) + rest)


def function(name, calls):
    body = b"".join(message(7, message(1, "x" if i == 0 else f"t{i - 1}"), message(2, "y" if i == len(calls) - 1 else f"t{i}"),
                            message(4, call), message(7, "f")) for i, call in enumerate(calls))
    return message(25, message(1, name), message(4, "x"), message(5, "y"), body,
                   message(9, message(1, "f"), number(2, 1)), message(10, "f"))


def calling(op, functions):
    return model(node(op, ["x"], ["y"], domain="f"), value(11, "x", [2]), value(12, "y", [2]),
                 rest=message(8, message(1, "f"), number(2, 1)) + b"".join(functions))


def nested(levels):
    """A graph in an attribute of a node in a graph in ..., built from the inside."""
    graph = b""
    for _ in range(levels):
        graph = node("If", ["c"], ["y"], attribute_graph("then_branch", graph + message(12, message(1, "y"))))
    return model(graph, value(11, "c", [], BOOL))


def relu(*rest, x=(2, 3)):
    return model(node("Relu", ["x"], ["y"], name="r"), value(11, "x", x), value(12, "y", x), *rest)


def cases():
    top = number(1, 8)
    # Not models at all.
    yield "empty", b""
    yield "png", PNG
    yield "zeros", bytes(4096)
    yield "gzip", bytes.fromhex("1f8b0800000000000003") + bytes(100)
    yield "html", b"<!doctype html><html><body>not found</body></html>"
    yield "text", b"ir_version: 8\ngraph { node { op_type: \"Relu\" } }\n"
    yield "pickle", b"\x80\x02}q\x00(X\x05\x00\x00\x00stateq\x01K\x01u."
    # Broken encodings.
    yield "varint-without-end", top + b"\xff" * 64
    yield "tag-zero", top + b"\x00\x00" + relu()
    yield "group", top + b"\x3b\x3c" + relu()
    yield "wire-type-7", top + b"\x3f" + relu()
    yield "length-past-end", top + varint(7 << 3 | 2) + varint(1 << 40) + b"abc"
    yield "length-of-2^64-1", top + varint(7 << 3 | 2) + b"\xff" * 9 + b"\x01"
    yield "no-graph", top + message(8, message(1, ""), number(2, 16))
    yield "two-graphs", relu() + message(7, message(2, "other"))
    yield "80000-graphs", top + message(7, message(2, "g")) * 80000
    # Amplification and depth.
    yield "nested-5000", nested(5000)
    yield "nested-100", nested(100)
    yield "nested-types", top + message(7, message(11, message(1, "x"), message(2, _nested_type(2000))))
    yield "million-empty-nodes", top + message(7, b"\x0a\x00" * 1000000)
    yield "million-empty-tensors", top + message(7, b"\x2a\x00" * 1000000)
    yield "million-empty-attributes", top + message(7, message(1, b"\x2a\x00" * 1000000))
    yield "million-empty-values", top + message(7, b"\x6a\x00" * 1000000)
    yield "unknown-fields", relu() + number(99, 1) * 2000000
    # Functions.
    yield "function-calls-itself", calling("a", [function("a", ["a"])])
    yield "functions-in-a-circle", calling("a", [function("a", ["b"]), function("b", ["c"]), function("c", ["a"])])
    yield "functions-2^40", calling("f40", [function("f0", ["f0x"])] + [function(f"f{i}", [f"f{i - 1}"] * 2)
                                                                        for i in range(1, 41)])
    yield "functions-200-deep", calling("f200", [function(f"f{i}", [f"f{i - 1}"]) for i in range(1, 201)])
    # Sizes.
    yield "dims-overflow", relu(tensor("w", [1 << 40, 1 << 40]))
    yield "dims-int64-max", relu(tensor("w", [(1 << 63) - 1], INT64))
    yield "rank-1000", relu(tensor("w", [1] * 1000))
    # Names.
    yield "name-of-1-mib", relu(node("Relu", ["y"], ["n" * (1 << 20)]))
    yield "name-not-utf-8", relu(node("Relu", ["y"], [b"\xff\xfe"]))
    yield "name-overlong-utf-8", relu(node("Relu", ["y"], [b"\xc0\xaf"]))
    yield "name-with-nul", relu(node("Relu", ["y"], [b"a\x00b"]))


def wrong_models():
    yield "function-twice", calling("a", [function("a", ["b"]), function("a", ["b"])])
    yield "dims-negative", relu(tensor("w", [-5]))
    yield "raw-data-too-short", relu(tensor("w", [100], FLOAT, message(9, b"\x00" * 12)))
    yield "unknown-dtype", relu(tensor("w", [1], 99, message(9, b"\x00" * 4)))
    yield "circle", model(node("Relu", ["b"], ["a"]), node("Relu", ["a"], ["b"]), value(12, "b", [2]))
    yield "output-twice", relu(node("Relu", ["x"], ["y"]))
    yield "operand-from-nowhere", relu(node("Add", ["x", "nothing"], ["z"]))
    yield "external-without-location", relu(tensor("w", [4], FLOAT, message(13, message(1, "offset"), message(2, "0")),
                                                   number(14, 1)))
    yield "external-negative-offset", relu(tensor(
        "w", [4], FLOAT, message(13, message(1, "location"), message(2, "w")),
        message(13, message(1, "offset"), message(2, "-16")), number(14, 1)))


def unplannable():
    yield "input-dims-overflow", relu(x=(1 << 40, 1 << 40))
    yield "reshape-to-2^124", model(
        node("Reshape", ["x", "s"], ["y"]), value(11, "x", [2, 3]), value(12, "y", ["a", "b"]),
        tensor("s", [2], INT64, message(7, varint(1 << 62), varint(1 << 62))))


def _nested_type(levels):
    inner = message(1, number(1, FLOAT))
    for _ in range(levels):
        inner = message(4, message(1, inner))
    return inner


def truncated(path, step=1000):
    """(name, bytes) of the model cut at every `step`th byte."""
    with open(path, "rb") as file:
        data = file.read()
    for size in range(step, len(data), step):
        yield f"{os.path.basename(path)} cut at {size}", data[:size]


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for case, data in itertools.chain(cases(), wrong_models(), unplannable()):
        with open(os.path.join(sys.argv[1], case + ".onnx"), "wb") as out:
            out.write(data)
