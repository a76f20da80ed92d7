#!/usr/bin/env python3
"""Makes a small residual network in the forms in which quantizers write theirs.

    quantised_resnet.py FORM BATCH OUT

FORM is what ONNX Runtime's quantize_static writes of an 8-bit model (qoperator, qdq), of one with 16-bit activations
before operator set 21 (qdq16: QuantizeLinear and DequantizeLinear of com.microsoft), or what Brevitas exports (qcdq:
Clip between QuantizeLinear and DequantizeLinear, for weights of 4 bits too). Activations are asymmetric, weights have a
scale for each output channel, biases are int32 by the product of both scales.
"""

import random
import struct
import sys

import onnx_make as om

UINT8, INT8, UINT16, INT32 = 2, 3, 4, 6
FORMATS = {om.FLOAT: "f", UINT8: "B", INT8: "b", UINT16: "H", INT32: "i"}
CLASSES = 12
MS = "com.microsoft"


def tensor(name, dims, dtype, values):
    raw = struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)
    return om.delimited(5, *(om.integer(1, dim) for dim in dims), om.integer(2, dtype), om.delimited(8, name),
                        om.delimited(9, raw))


class Network:
    """Nodes and initializers; a tensor in the making is (name, scale, name of its zero point)."""

    def __init__(self, form):
        self.form = form
        self.parts = []
        self.count = 0
        self.random = random.Random(7)
        self.wide = UINT16 if form == "qdq16" else UINT8
        self.levels = 65535 if form == "qdq16" else 255
        self.domain = MS if form == "qdq16" else ""

    def new(self, hint):
        self.count += 1
        return f"{hint}_{self.count}"

    def constant(self, hint, dims, dtype, values):
        name = self.new(hint)
        self.parts.append(tensor(name, dims, dtype, values))
        return name

    def node(self, op, inputs, hint, domain="", **attributes):
        name = self.new(hint)
        self.parts.append(om.node(op, inputs, [name], domain=domain, **attributes))
        return name

    # ---- scales ----

    def grid(self, low, high):
        """(scale, its name, the name of the zero point) for activations in [low, high]."""
        scale = (high - low) / self.levels
        zero = min(self.levels, max(0, round(-low / scale)))
        return (scale, self.constant("scale", [], om.FLOAT, [scale]), self.constant("zero", [], self.wide, [zero]))

    def weights(self, dims):
        """int8 values and a scale for each output channel, with zero points of 0."""
        most = 7 if self.form == "qcdq" else 127
        count = om.element_count(dims)
        values = [self.random.randint(-most, most) for _ in range(count)]
        gain = (3.0 / (count / dims[0])) ** 0.5 / most
        scales = [gain * self.random.uniform(0.5, 1.5) for _ in range(dims[0])]
        return (self.constant("weight", dims, INT8, values), scales, self.constant("scale", [dims[0]], om.FLOAT, scales),
                self.constant("zero", [dims[0]], INT8, [0] * dims[0]))

    def bias(self, scale, scales):
        count = len(scales)
        values = [round(self.random.uniform(-0.2, 0.2) / (scale * own)) for own in scales]
        return (self.constant("bias", [count], INT32, values),
                self.constant("scale", [count], om.FLOAT, [scale * own for own in scales]),
                self.constant("zero", [count], INT32, [0] * count))

    # ---- the forms ----

    def quantize(self, x, grid):
        """To integers in the QOperator form, else there and back."""
        q = self.node("QuantizeLinear", [x, grid[1], grid[2]], "q", self.domain)
        if self.form == "qoperator":
            return q
        if self.form == "qcdq":
            low, high = self.constant("low", [], UINT8, [0]), self.constant("high", [], UINT8, [250])
            q = self.node("Clip", [q, low, high], "clip")
        return self.node("DequantizeLinear", [q, grid[1], grid[2]], "dq", self.domain)

    def real_weights(self, weight):
        values = weight[0]
        if self.form == "qcdq":
            low, high = self.constant("low", [], INT8, [-7]), self.constant("high", [], INT8, [7])
            values = self.node("Clip", [values, low, high], "clip")
        return self.node("DequantizeLinear", [values, weight[2], weight[3]], "w", self.domain, axis=0)

    def conv(self, x, grid, dims, to, relu=True, **attributes):
        weight = self.weights(dims)
        bias = self.bias(grid[0], weight[1])
        if self.form == "qoperator":  # the zero point of `to` is that of a Relu
            return self.node("QLinearConv", [x, grid[1], grid[2], weight[0], weight[2], weight[3], to[1], to[2], bias[0]],
                             "conv", **attributes)
        real_bias = self.node("DequantizeLinear", list(bias), "b", self.domain, axis=0)
        y = self.node("Conv", [x, self.real_weights(weight), real_bias], "conv", **attributes)
        return self.quantize(self.node("Relu", [y], "relu") if relu else y, to)

    def add(self, a, grid_a, b, grid_b, to):
        if self.form == "qoperator":
            return self.node("QLinearAdd", [a, grid_a[1], grid_a[2], b, grid_b[1], grid_b[2], to[1], to[2]], "add", MS)
        return self.quantize(self.node("Relu", [self.node("Add", [a, b], "add")], "relu"), to)

    def pool(self, x, grid, to):
        if self.form == "qoperator":
            x = self.node("QLinearGlobalAveragePool", [x, grid[1], grid[2], to[1], to[2]], "gap", MS)
        else:
            x = self.quantize(self.node("GlobalAveragePool", [x], "gap"), to)
        return self.node("Flatten", [x], "flat", axis=1)

    def classify(self, x, grid, features, to):
        weight = self.weights([CLASSES, features])
        bias = self.bias(grid[0], weight[1])
        if self.form == "qoperator":
            inputs = [x, grid[1], grid[2], weight[0], weight[2], weight[3], bias[0], to[1], to[2]]
            y = self.node("QGemm", inputs, "fc", MS, alpha=1.0, transB=1)
            return self.node("DequantizeLinear", [y, to[1], to[2]], "logits")
        real_bias = self.node("DequantizeLinear", list(bias), "b", self.domain, axis=0)
        y = self.node("Gemm", [x, self.real_weights(weight), real_bias], "fc", transB=1)
        return self.quantize(y, to)


def block(net, x, grid, channels, width, stride):
    """Two convolutions and what goes past them."""
    middle, behind, joined = net.grid(0, 4), net.grid(-4, 4), net.grid(0, 6)
    same = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    y = net.conv(x, grid, [width, channels, 3, 3], middle, strides=[stride, stride], **same)
    y = net.conv(y, middle, [width, width, 3, 3], behind, relu=False, **same)
    past, past_grid = x, grid
    if stride > 1 or channels != width:
        past_grid = net.grid(-4, 4)
        past = net.conv(x, grid, [width, channels, 1, 1], past_grid, relu=False, kernel_shape=[1, 1],
                        strides=[stride, stride])
    return net.add(y, behind, past, past_grid, joined), joined


def build(form, batch):
    net = Network(form)
    grid, stem = net.grid(-1, 1), net.grid(0, 4)
    x = net.quantize("image", grid)
    x = net.conv(x, grid, [16, 3, 3, 3], stem, pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    x = net.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    x, grid = block(net, x, stem, 16, 16, 1)
    x, grid = block(net, x, grid, 16, 32, 2)
    pooled = net.grid(0, 3)
    y = net.classify(net.pool(x, grid, pooled), pooled, 32, net.grid(-4, 4))
    parts = [om.graph_input("image", [batch, 3, 16, 16]), *net.parts, om.graph_output(y, [batch, CLASSES])]
    built = om.model(*parts, opset=17)
    return [*built, om.delimited(8, om.delimited(1, MS), om.integer(2, 1))] if form != "qcdq" else built


if __name__ == "__main__":
    om.write(sys.argv[3], build(sys.argv[1], int(sys.argv[2])))
