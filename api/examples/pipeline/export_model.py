#!/usr/bin/env python3
"""export_model.py OUT [--layers N] [--width N] [--batch N]: writes a small model as ONNX.

Stands for the step of a pipeline that has a model to plan; there it is torch.onnx.export() or whatever your framework has.
This one needs Python alone: it writes the protobuf records of ONNX itself, a chain of MatMul and Relu.
"""

import argparse
import random
import struct

FLOAT = 1  # TensorProto.DataType


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def record(field, *parts):
    """A record, or text, as a member of another one."""
    body = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def value(field, name, dims):
    """A ValueInfoProto: an input or output of the graph."""
    shape = b"".join(record(1, number(1, dim)) for dim in dims)
    return record(field, record(1, name), record(2, record(1, number(1, FLOAT), record(2, shape))))


def weight(name, dims, seed):
    """A TensorProto with small numbers, the same in each run."""
    numbers = random.Random(seed)
    count = dims[0] * dims[1]
    data = struct.pack(f"<{count}f", *(numbers.gauss(0, 0.02) for _ in range(count)))
    return record(5, *(number(1, dim) for dim in dims), number(2, FLOAT), record(8, name), record(9, data))


def node(operator, name, inputs, output):
    return record(1, *(record(1, each) for each in inputs), record(2, output), record(3, name), record(4, operator))


def model(layers, width, batch):
    nodes, weights, last = [], [], "x"
    for layer in range(layers):
        weights.append(weight(f"w{layer}", (width, width), layer))
        nodes.append(node("MatMul", f"layer{layer}/matmul", (last, f"w{layer}"), f"h{layer}"))
        nodes.append(node("Relu", f"layer{layer}/relu", (f"h{layer}",), f"a{layer}"))
        last = f"a{layer}"
    graph = record(7, *nodes, record(2, "chain"), *weights, value(11, "x", (batch, width)), value(12, last, (batch, width)))
    return number(1, 10) + record(2, "export_model.py") + graph + record(8, record(1, ""), number(2, 21))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=32)
    arguments = parser.parse_args()
    with open(arguments.out, "wb") as file:
        file.write(model(arguments.layers, arguments.width, arguments.batch))


if __name__ == "__main__":
    main()
