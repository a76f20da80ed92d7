#!/usr/bin/env python3
"""Writes a recurrent network whose states several nodes make and take, with nothing but the standard library.

    loop_recurrent.py OUT

Two layers of new = tanh(x W + state U), of which the output goes on as x; a step takes three rows, which two devices
cannot share. A product takes the state, a Tanh two nodes later makes the next one: where U is split by its columns, a
step needs the state whole and makes it in parts, so only a search that knows of the loop gives both one sharding. Values
are the same every time.
"""

import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))

import onnx_make as make  # noqa: E402

ROWS, WIDTH, LAYERS = 3, 64, 2


def weight(source, name):
    values = [source.uniform(-0.2, 0.2) for _ in range(WIDTH * WIDTH)]
    fields = make.integer(1, WIDTH) * 2 + make.integer(2, make.FLOAT)
    data = struct.pack(f"<{len(values)}f", *values)
    return make.delimited(5, fields + make.delimited(8, name) + make.delimited(9, data))


def parts():
    source, below = random.Random(5), "x"
    yield make.graph_input("x", [ROWS, WIDTH])
    for layer in range(LAYERS):
        yield from (weight(source, f"{name}{layer}") for name in "WU")
        yield make.graph_input(f"state_{layer}", [ROWS, WIDTH])
        yield make.node("MatMul", [below, f"W{layer}"], [f"taken{layer}"])
        yield make.node("MatMul", [f"state_{layer}", f"U{layer}"], [f"kept{layer}"])
        yield make.node("Add", [f"taken{layer}", f"kept{layer}"], [f"sum{layer}"])
        yield make.node("Tanh", [f"sum{layer}"], [below := f"new_state_{layer}"])
    yield weight(source, "V")
    yield make.node("MatMul", [below, "V"], ["scores"])
    yield make.graph_output("scores", [ROWS, WIDTH])
    yield from (make.graph_output(f"new_state_{layer}", [ROWS, WIDTH]) for layer in range(LAYERS))


make.write(sys.argv[1], make.model(*parts()))
