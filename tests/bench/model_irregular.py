"""Random DAGs of real operators: matrices and feature maps that are multiplied, joined, added and bent.

What a node reads is mostly what nothing has read yet, sometimes something recent, and now and then something from long
ago: long chains, branches that meet again, and skip connections, without any repetition. The same seed gives the same
graph on every machine.
"""

import random

WIDTHS = (64, 96, 128, 192, 256, 384, 512)  # columns of matrices, channels of maps
WIDEST = 2048
OPEN = 24  # values that wait for a first use; the outputs in the end
RECENT = 400


class Value:
    def __init__(self, name, kind, width):
        self.name, self.kind, self.width = name, kind, width


class Irregular:
    def __init__(self, graph, seed, batch, rows):
        self.graph, self.random = graph, random.Random(seed)
        self.batch, self.rows = batch, rows
        self.all, self.waiting, self.alike = [], [], {}
        for i in range(4):
            for kind in ("matrix", "map"):
                width = WIDTHS[i]
                self.add(graph.input(f"{kind}_{i}", self.shape(kind, width)), kind, width)

    def shape(self, kind, width):
        return [self.batch, self.rows, width] if kind == "matrix" else [self.batch, width, 14, 14]

    def add(self, name, kind, width):
        value = Value(name, kind, width)
        self.all.append(value)
        self.waiting.append(value)
        self.alike.setdefault((kind, width), []).append(value)
        return value

    def take(self):
        """Something to read: the more values wait, the more likely one of them."""
        if self.random.random() < len(self.waiting) / OPEN:
            return self.waiting.pop(self.random.randrange(len(self.waiting)))
        if self.random.random() < 0.03:
            return self.random.choice(self.all)
        return self.all[-1 - self.random.randrange(min(len(self.all), RECENT))]

    def partner(self, value):
        """Another value of the same shape, a recent one, or None."""
        others = self.alike[value.kind, value.width]
        other = others[-1 - self.random.randrange(min(len(others), 40))]
        if other is value:
            return None
        if other in self.waiting:
            self.waiting.remove(other)
        return other

    # ---- one node each ----

    def multiply(self, value, index):
        width = self.random.choice(WIDTHS)
        weight = self.graph.weight(f"weight_{index}", [value.width, width])
        self.add(self.graph.node("MatMul", [value.name, weight]), "matrix", width)

    def convolve(self, value, index):
        width, size = self.random.choice(WIDTHS), self.random.choice((1, 1, 3, 5))
        weight = self.graph.weight(f"weight_{index}", [width, value.width, size, size])
        pad = size // 2
        name = self.graph.node("Conv", [value.name, weight], kernel_shape=[size, size], pads=[pad] * 4)
        self.add(name, "map", width)

    def bend(self, value):
        name = self.random.choice(("Gelu", "Relu", "Sigmoid", "Tanh"))
        self.add(self.graph.node(name, [value.name]), value.kind, value.width)

    def normalize(self, value):
        if value.kind == "matrix":
            name = self.graph.node("Softmax", [value.name], axis=-1)
        else:
            name = self.graph.node("AveragePool", [value.name], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        self.add(name, value.kind, value.width)

    def join(self, value):
        fits = [other for other in self.waiting if other.kind == value.kind and value.width + other.width <= WIDEST]
        if not fits:
            return self.bend(value)
        other = self.random.choice(fits)
        self.waiting.remove(other)
        name = self.graph.node("Concat", [value.name, other.name], axis=2 if value.kind == "matrix" else 1)
        return self.add(name, value.kind, value.width + other.width)

    def combine(self, value):
        other = self.partner(value)
        if other is None:
            return self.bend(value)
        op = self.random.choice(("Add", "Add", "Add", "Mul"))
        return self.add(self.graph.node(op, [value.name, other.name]), value.kind, value.width)

    def step(self, index):
        value, dice = self.take(), self.random.random()
        if dice < 0.3:
            (self.multiply if value.kind == "matrix" else self.convolve)(value, index)
        elif dice < 0.6:
            self.combine(value)
        elif dice < 0.85:
            self.bend(value)
        elif dice < 0.92:
            self.normalize(value)
        else:
            self.join(value)


def irregular(graph, seed, nodes, batch, rows):
    """`nodes` nodes; what nothing reads in the end are the outputs."""
    state = Irregular(graph, seed, batch, rows)
    for index in range(nodes):
        state.step(index)
    made = {node["outputs"][0] for node in graph.nodes}
    read = {name for node in graph.nodes for name in node["inputs"]}
    for value in state.all:
        if value.name in made and value.name not in read:
            graph.output(value.name)
