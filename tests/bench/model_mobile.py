"""MobileNet and MobileNetV3: chains of depthwise separable convolutions.

As exporters write them: batch norms are folded into the convolutions, activations are separate nodes. Feature maps are
[batch, channels, rows, columns].
"""


def convolve(graph, x, sizes, size=1, stride=1, is_depthwise=False, activation=None):
    """A convolution with `sizes` = (channels in, channels out); with stride 1 the map keeps its size."""
    width_in, width_out = sizes
    weight = graph.weight("weight", [width_out, 1 if is_depthwise else width_in, size, size])
    y = graph.node("Conv", [x, weight, graph.weight("bias", [width_out])], kernel_shape=[size, size],
                   pads=[size // 2] * 4, strides=[stride] * 2, group=width_in if is_depthwise else 1)
    return y if activation is None else graph.node(activation, [y])


def connect(graph, x, sizes):
    """A fully connected layer, [batch, in] to [batch, out]."""
    width_in, width_out = sizes
    return graph.node("Gemm", [x, graph.weight("weight", [width_out, width_in]), graph.weight("bias", [width_out])],
                      transB=1)


def pool(graph, x):
    return graph.node("Flatten", [graph.node("GlobalAveragePool", [x])], axis=1)


def read_image(run, config, activation):
    """The input, and the first convolution."""
    g = run.graph
    x = g.input("image", [run.batch, 3, config["image"], config["image"]])
    with g.scope("features.0"):
        return convolve(g, x, (3, config["first"]), 3, 2, activation=activation)


def mobilenet(run, config):
    """A depthwise 3x3 and a 1x1 convolution per block; blocks are (channels, stride)."""
    g, width = run.graph, config["first"]
    x = read_image(run, config, "Relu")
    for layer, (channels, stride) in enumerate(config["blocks"], 1):
        with g.scope(f"features.{layer}"):
            with g.scope("depthwise"):
                x = convolve(g, x, (width, width), 3, stride, True, "Relu")
            with g.scope("pointwise"):
                x = convolve(g, x, (width, channels), activation="Relu")
        width = channels
    x = pool(g, x)
    with g.scope("classifier"):
        g.output(connect(g, x, (width, config["classes"])), "logits")


def squeeze(graph, x, width, inner):
    """Squeeze-and-excitation: scales the channels by a function of their means."""
    with graph.scope("squeeze"):
        y = graph.node("GlobalAveragePool", [x])
        with graph.scope("reduce"):
            y = convolve(graph, y, (width, inner), activation="Relu")
        with graph.scope("restore"):
            y = convolve(graph, y, (inner, width), activation="HardSigmoid")
        return graph.node("Mul", [x, y])


def bottleneck(graph, x, width, block):
    """An inverted residual block: expand, depthwise, project; with a skip connection if the shapes match."""
    wide, size, channels, inner, activation, stride = block
    y = x
    if wide != width:
        with graph.scope("expand"):
            y = convolve(graph, y, (width, wide), activation=activation)
    with graph.scope("depthwise"):
        y = convolve(graph, y, (wide, wide), size, stride, True, activation)
    if inner > 0:
        y = squeeze(graph, y, wide, inner)
    with graph.scope("project"):
        y = convolve(graph, y, (wide, channels))
    return graph.node("Add", [x, y]) if stride == 1 and width == channels else y


def mobilenet_v3(run, config):
    """Blocks are (expanded channels, kernel size, channels, channels of the squeeze or 0, activation, stride)."""
    g, width = run.graph, config["first"]
    x = read_image(run, config, "HardSwish")
    for layer, block in enumerate(config["blocks"], 1):
        with g.scope(f"features.{layer}"):
            x = bottleneck(g, x, width, block)
        width = block[2]
    with g.scope("features.last"):
        x = convolve(g, x, (width, config["wide"]), activation="HardSwish")
    x = pool(g, x)
    with g.scope("hidden"):
        x = g.node("HardSwish", [connect(g, x, (config["wide"], config["hidden"]))])
    with g.scope("classifier"):
        g.output(connect(g, x, (config["hidden"], config["classes"])), "logits")
