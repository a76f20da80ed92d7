"""ResNet-50 (arXiv 1512.03385), as exporters write it: batch norms folded into the convolutions.

The stride of a block lies in its 3x3 convolution, as in the implementations that were measured (v1.5).
"""

from model_mobile import connect, convolve, pool

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of the first
WIDENING = 4


def bottleneck(graph, x, width_in, width, stride):
    """1x1, 3x3 and 1x1 beside the identity, or beside a 1x1 where the size changes."""
    shortcut = x
    with graph.scope("conv1"):
        y = convolve(graph, x, (width_in, width), activation="Relu")
    with graph.scope("conv2"):
        y = convolve(graph, y, (width, width), 3, stride, activation="Relu")
    with graph.scope("conv3"):
        y = convolve(graph, y, (width, WIDENING * width))
    if stride != 1 or width_in != WIDENING * width:
        with graph.scope("downsample"):
            shortcut = convolve(graph, x, (width_in, WIDENING * width), stride=stride)
    return graph.node("Relu", [graph.node("Add", [y, shortcut])])


def resnet(run, config):
    g, width_in = run.graph, 64
    x = g.input("image", [run.batch, 3, config["image"], config["image"]])
    with g.scope("stem"):
        x = convolve(g, x, (3, width_in), 7, 2, activation="Relu")
        x = g.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, (width, blocks, first) in enumerate(STAGES):
        for block in range(blocks):
            with g.scope(f"layer{stage + 1}.{block}"):
                x = bottleneck(g, x, width_in, width, first if block == 0 else 1)
            width_in = WIDENING * width
    g.output(connect(g, pool(g, x), (width_in, config["classes"])), "logits")
