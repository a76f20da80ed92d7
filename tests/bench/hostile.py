#!/usr/bin/env python3
"""What the worst inputs of about a megabyte cost to read, check and infer.

Each case is a model that is made to be expensive for its size. bench_check runs it, and seconds of processor time and
resident megabytes are printed; more than a second or 100 MB is marked. Nothing is asserted.

    tests/bench/hostile.py [--build build/bench] [case..]    # built as check_speed.py says
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import lacking  # noqa: E402
import onnx_make as make  # noqa: E402

MEGABYTE = 1 << 20


def tiny(op, inputs, outputs, *more):
    """A node without a name."""
    return make.delimited(
        1,
        *(make.delimited(1, item) for item in inputs),
        *(make.delimited(2, item) for item in outputs),
        make.delimited(4, op),
        *more,
    )


def graph_of(field, *parts):
    return make.delimited(field, *parts, make.delimited(2, "g"))


def subgraph(name, *parts):
    return make.delimited(5, make.delimited(1, name), graph_of(6, *parts), make.integer(20, 5))


def fill(start, each, budget=MEGABYTE):
    """`start`, and each(0), each(1), .. while they fit."""
    parts, size = list(start), sum(map(make.size_of, start))
    for index in range(10**7):
        part = each(index)
        size += make.size_of(part)
        if size > budget:
            return parts, index
        parts.append(part)


def chain(op, start, *more):
    parts, count = fill(start, lambda i: tiny(op, [f"{i:x}"], [f"{i + 1:x}"], *more), MEGABYTE - 200)
    return make.model(*parts, make.graph_output(f"{count:x}", []) if op == "-" else b"")


def tiny_nodes():
    return chain("Relu", [make.graph_input("0", ["n", 4])])


def tall_transposes():
    return chain("Transpose", [make.graph_input("0", list(range(1, 65)))])


def tall_unsqueezes():
    parts, _ = fill(
        [make.graph_input("x", list(range(1, 64))), make.ints("axis", [0])],
        lambda i: tiny("Unsqueeze", ["x", "axis"], [f"{i:x}"]),
    )
    return make.model(*parts)


def data_chain(op, arity):
    def case():
        parts, _ = fill(
            [make.ints("0", list(range(4096)))],
            lambda i: tiny(op, [f"{i:x}"] * arity, [f"{i + 1:x}"]),
        )
        return make.model(*parts)

    return case


def data_concats():
    half = make.ints("h", list(range(2048)))
    axis = make.attribute("axis", 0)
    parts, _ = fill([half], lambda i: tiny("Concat", ["h", "h"], [f"{i:x}"], axis))
    return make.model(*parts)


def data_ranges():
    start = [make.ints("z", [0]), make.ints("n", [4096]), make.ints("o", [1]), make.ints("s", [])]
    scalars = [tiny("Squeeze", [name], [name + "s"]) for name in "zno"]
    parts, _ = fill(start[:3] + scalars, lambda i: tiny("Range", ["zs", "ns", "os"], [f"{i:x}"]))
    return make.model(*parts)


def data_expands():
    parts, _ = fill(
        [make.ints("v", [7]), make.ints("t", [4096])], lambda i: tiny("Expand", ["v", "t"], [f"{i:x}"])
    )
    return make.model(*parts)


def wide_nodes(op, count=65536):
    def case():
        parts, _ = fill(
            [make.graph_input("v", ["n", 4])],
            lambda i: tiny(op, ["v"] * count, [f"{i:x}"], make.attribute("axis", 0) if op == "Concat" else b""),
        )
        return make.model(*parts)

    return case


def configurations():
    parts, _ = fill([], lambda i: make.configuration(f"{i:x}", 8), 600000)
    return make.model(
        make.graph_input("x", [8]), tiny("Relu", ["x"], ["y"]), ir_version=11, configurations=parts
    )


def many_records():
    """One node with as many records as fit, for as many configurations."""
    names = 20000
    listed = [make.configuration(f"{i:x}", 8) for i in range(names)]
    records = [make.placement(f"{i:x}", make.sharding("x", [0, 1], (0, 2))) for i in range(names)]
    return make.model(
        make.graph_input("x", [8]),
        tiny("Relu", ["x"], ["y"], *records),
        ir_version=11,
        configurations=listed,
    )


def long_lists(each=100000):
    def case():
        devices = [i % 65536 for i in range(each)]
        spec = lambda tensor: make.sharding(tensor, devices, (0, each))
        parts, _ = fill(
            [make.graph_input("0", [each * 8])],
            lambda i: tiny("Relu", [f"{i:x}"], [f"{i + 1:x}"], make.placement("c", spec(f"{i:x}"), spec(f"{i + 1:x}"))),
        )
        return make.model(*parts, ir_version=11, configurations=[make.configuration("c", 65536)])

    return case


def many_shards(shards):
    """Every node cuts its operands in so many shards on named devices."""

    def case():
        devices = list(range(shards))
        parts, _ = fill(
            [make.graph_input("0", [shards * 8, shards * 8])],
            lambda i: tiny(
                "Relu",
                [f"{i:x}"],
                [f"{i + 1:x}"],
                make.placement(
                    "c",
                    make.sharding(f"{i:x}", devices, (i % 2, shards)),
                    make.sharding(f"{i + 1:x}", devices, ((i + 1) % 2, shards)),
                ),
            ),
        )
        return make.model(*parts, ir_version=11, configurations=[make.configuration("c", shards)])

    return case


def open_shards(shards):
    """Short specs of many shards: the device list is left out."""

    def case():
        parts, _ = fill(
            [make.graph_input("0", [shards * 8, shards * 8])],
            lambda i: tiny(
                "Relu", [f"{i:x}"], [f"{i + 1:x}"],
                make.placement("c", make.sharding(f"{i:x}", [], (i % 2, shards))),
            ),
        )
        return make.model(*parts, ir_version=11, configurations=[make.configuration("c", shards)])

    return case


def relu_chain(shape, devices, specs):
    """Relu after Relu; specs(i) are those of node i, given the names of its input and output."""
    parts, _ = fill(
        [make.graph_input("0", shape)],
        lambda i: tiny("Relu", [f"{i:x}"], [f"{i + 1:x}"], make.placement("c", *specs(i, f"{i:x}", f"{i + 1:x}"))),
    )
    return make.model(*parts, ir_version=11, configurations=[make.configuration("c", devices)])


def open_counts(most, uneven=False):
    """Another number of shards in every node, on devices that are left open."""

    def case():
        extent = 65537 * 7 if uneven else 720720 * 2
        return relu_chain(
            [extent, extent], most,
            lambda i, x, y: [make.sharding(x, [], (i % 2, 2 + (i * 7919) % (most - 1)))],
        )

    return case


def open_grids(most):
    """Two axes cut in another way in every node."""

    def case():
        def specs(i, x, y):
            rows = 1 + i % 250
            return [make.sharding(x, [], (0, rows), (1, max(1, most // rows - i // 250)))]

        return relu_chain([720720, 720720], most, specs)

    return case


def permutations(count, devices=65536):
    """The same cut on other devices, in another order, in every node."""

    def case():
        def order(seed):
            step = 2 * seed + 1
            return [(seed * 31 + k * step) % devices for k in range(count)]

        return relu_chain(
            [count * 8, count * 8], devices,
            lambda i, x, y: [
                make.sharding(x, order(2 * i), (0, count)), make.sharding(y, order(2 * i + 1), (i % 2, count))
            ],
        )

    return case


def groups(members, entries):
    """Few bytes that list many devices: every entry is one large group."""

    def case():
        def specs(i, x, y):
            return [
                make.sharding(x, [-1] * entries, *([(0, entries)] if entries > 1 else []),
                              groups=[(-1, [(i + k) % 65536 for k in range(members)])])
            ]

        return relu_chain([720720, 4], 65536, specs)

    return case


def many_groups(count):
    """As many groups as entries, each of two devices."""

    def case():
        def specs(i, x, y):
            keys = [-1 - k for k in range(count)]
            return [make.sharding(x, keys, (0, count), groups=[(key, [(i - 2 * key) % 65536, (i - 2 * key + 1) % 65536]) for key in keys])]

        return relu_chain([count * 8, 4], 65536, specs)

    return case


def contradictions(shards):
    """Three operands that are cut in three ways, and an output that is stated in a fourth."""

    def case():
        parts, _ = fill(
            [make.graph_input(name, [shards * 8, shards * 8, shards * 8]) for name in "ABC"],
            lambda i: tiny(
                "Sum", ["A", "B", "C"], [f"{i:x}"],
                make.placement(
                    "c",
                    make.sharding("A", [], (0, shards)), make.sharding("B", [], (1, shards + i % 5)),
                    make.sharding("C", [], (2, shards)), make.sharding(f"{i:x}", [], (0, 2 + i % shards)),
                ),
            ),
        )
        return make.model(*parts, ir_version=11, configurations=[make.configuration("c", 2 * shards)])

    return case


def partial_sums(shards, lists=False):
    """Matrix products whose contracted axis is cut, and outputs that are stated cut as well."""

    def case():
        def devices(i):
            return [(i + k * 3) % 65536 for k in range(shards)] if lists else []

        parts, _ = fill(
            [make.graph_input("A", [shards * 8, shards * 8]), make.graph_input("B", [shards * 8, shards * 8])],
            lambda i: tiny(
                "MatMul", ["A", "B"], [f"{i:x}"],
                make.placement(
                    "c",
                    make.sharding("A", devices(i), (1, shards if lists else 2 + i % (shards - 1))),
                    make.sharding("B", devices(i), (0, shards if lists else 2 + i % (shards - 1))),
                    make.sharding(f"{i:x}", devices(i), (i % 2, shards if lists else 2 + i % (shards - 1))),
                ),
            ),
        )
        return make.model(
            *parts, ir_version=11, configurations=[make.configuration("c", 65536 if lists else shards)]
        )

    return case


def attention_heads(shards):
    """Softmax over a cut axis, windows over cut axes: statistics and halos."""

    def case():
        weight = make.graph_input("w", [8, 8, 3])
        pads = make.delimited(5, make.delimited(1, "pads"), make.integer(20, 7), make.integer(8, 1), make.integer(8, 1))
        parts, _ = fill(
            [make.graph_input("x", [8, 8, shards * 64]), weight],
            lambda i: tiny(
                "Softmax" if i % 2 else "Conv", ["x"] if i % 2 else ["x", "w"], [f"{i:x}"],
                make.placement("c", make.sharding("x", [], (2, 2 + i % (shards - 1)))), b"" if i % 2 else pads,
            ),
        )
        return make.model(*parts, ir_version=11, configurations=[make.configuration("c", shards)])

    return case


def configurations_and_nodes():
    """Thousands of configurations, each for one of thousands of nodes."""
    count = 12000
    parts = [make.graph_input("0", [8])]
    parts += [
        tiny("Relu", [f"{i:x}"], [f"{i + 1:x}"], make.placement(f"{i:x}", make.sharding(f"{i:x}", [0, 1], (0, 2))))
        for i in range(count)
    ]
    return make.model(*parts, ir_version=11, configurations=[make.configuration(f"{i:x}", 8) for i in range(count)])


def deep_ifs():
    """If in If, as deep as allowed, many times; the innermost uses everything outside."""

    def nest(depth, tag):
        inner = [tiny("Relu", ["x"], [f"r{tag}.{depth}"])]
        result = f"r{tag}.{depth}"
        for level in range(depth, 0, -1):
            output = f"o{tag}.{level}"
            leaf = [tiny("Relu", ["x"], [f"e{tag}.{level}"]), make.delimited(12, make.delimited(1, f"e{tag}.{level}"))]
            branch = [*inner, make.delimited(12, make.delimited(1, result))]
            inner = [tiny("If", ["c"], [output], subgraph("then_branch", *branch), subgraph("else_branch", *leaf))]
            result = output
        return inner[0]

    parts, _ = fill(
        [make.graph_input("x", ["n", 4]), make.graph_input("c", [], 9)], lambda i: nest(28, i)
    )
    return make.model(*parts)


def nested_loops(depth, grows, width=1):
    """Loop in Loop; what is carried changes its extent in each turn, so that passes multiply."""

    def case():
        def nest(level, tag):
            state = [f"s{tag}.{level}.{k}" for k in range(width)]
            body = [make.graph_input(f"i{tag}.{level}", [], 7), make.graph_input(f"c{tag}.{level}", [], 9)]
            body += [make.graph_input(name, [f"d{level}"]) for name in state]
            if level == depth:
                work = [
                    tiny("Concat" if grows else "Relu", [name, name] if grows else [name], [f"w{name}"],
                         make.attribute("axis", 0) if grows else b"")
                    for name in state
                ]
            else:
                work = [nest(level + 1, tag)]
            results = [f"w{name}" for name in state] if level == depth else [f"o{tag}.{level + 1}.{k}" for k in range(width)]
            body += work
            body.append(tiny("Identity", [f"c{tag}.{level}"], [f"k{tag}.{level}"]))
            body.append(make.delimited(12, make.delimited(1, f"k{tag}.{level}")))
            body += [make.delimited(12, make.delimited(1, name)) for name in results]
            outer = [f"s{tag}.{level - 1}.{k}" for k in range(width)] if level > 1 else ["x"] * width
            return tiny("Loop", ["", "c", *outer], [f"o{tag}.{level}.{k}" for k in range(width)], subgraph("body", *body))

        parts, _ = fill(
            [make.graph_input("x", ["n"]), make.graph_input("c", [], 9)], lambda i: nest(1, i)
        )
        return make.model(*parts)

    return case


def calls():
    """Functions that each call the next twice, so that bodies multiply, and a graph that calls the first."""

    def function(index, last):
        target = f"f{index + 1}"
        body = (
            [tiny("Relu", ["a"], ["b"])] if last
            else [tiny(target, ["a"], ["t"], make.delimited(7, "d")), tiny(target, ["t"], ["b"], make.delimited(7, "d"))]
        )
        body = [b"".join([bytes([0x3A]), part[1:]]) for part in body]
        return make.delimited(
            25,
            make.delimited(1, f"f{index}"), make.delimited(4, "a"), make.delimited(5, "b"), *body,
            make.delimited(9, make.delimited(1, ""), make.integer(2, 17)),
            make.delimited(9, make.delimited(1, "d"), make.integer(2, 1)),
            make.delimited(10, "d"),
        )

    functions = [function(i, i == 12) for i in range(13)]
    parts, _ = fill(
        [make.graph_input("0", ["n", 4])],
        lambda i: tiny("f12" if i > 8 else "f0" if i == 0 else "f12", [f"{i:x}"], [f"{i + 1:x}"], make.delimited(7, "d")),
        MEGABYTE - 4096,
    )
    return make.model(*parts) + functions + [make.delimited(8, make.delimited(1, "d"), make.integer(2, 1))]


def symbols():
    """Reshapes by products and sums of many symbols."""
    count = 3000
    start = [make.graph_input(f"x{i:x}", [f"s{i}"]) for i in range(count)]
    axis = make.attribute("axis", 0)
    start.append(tiny("Concat", ["x0", "x1"], ["0"], axis))
    parts, _ = fill(start, lambda i: tiny("Concat", [f"{i:x}", f"x{(i + 2) % count:x}"], [f"{i + 1:x}"], axis))
    return make.model(*parts)


def products():
    """Polynomials: each turn multiplies sums of symbols."""
    names = [f"s{i}" for i in range(8)]
    start = [make.graph_input("x", names), make.ints("m", [-1, 1])]
    start.append(tiny("Shape", ["x"], ["0"]))
    parts, _ = fill(
        start,
        lambda i: tiny(("Add", "Mul", "Sub", "Div", "Mod", "Max", "Min")[i % 7], [f"{i:x}", f"{max(0, i - 3):x}"], [f"{i + 1:x}"]),
    )
    return make.model(*parts)


def broadcasts():
    """Extents that only a proof about min and max can compare."""
    start = [make.graph_input(f"x{i}", [f"s{i}", 1]) for i in range(64)]
    parts, _ = fill(start, lambda i: tiny("Add", [f"x{i % 64}" if i < 2 else f"{i - 1:x}", f"x{(i * 7) % 64}"], [f"{i:x}"]))
    return make.model(*parts)


TWO = [make.configuration("c", 2)]


def halved(tensor, axis=0):
    """A record that states a tensor in two along an axis."""
    return make.placement("c", make.sharding(tensor, [0, 1], (axis, 2)))


def split_model(parts):
    return make.model(*parts, ir_version=11, configurations=TWO)


def split_chain(op, shape):
    """A split at the beginning that goes through all of it."""

    def case():
        start = [make.graph_input("0", shape), tiny(op, ["0"], ["1"], halved("0"))]
        parts, _ = fill(start, lambda i: tiny(op, [f"{i + 1:x}"], [f"{i + 2:x}"]), MEGABYTE - 200)
        return split_model(parts)

    return case


def split_reshapes():
    """Axes that are seen in other pieces at each node."""
    start = [make.graph_input("x", [64, 6]), tiny("Relu", ["x"], ["0"], halved("x"))]
    start += [make.ints(f"z{i}", shape) for i, shape in enumerate(([2, 32, 6], [64, 2, 3], [64, 6], [4, 4, 4, 6]))]
    parts, _ = fill(start, lambda i: tiny("Reshape", [f"{i:x}", f"z{i % 4}"], [f"{i + 1:x}"]), MEGABYTE - 200)
    return split_model(parts)


def split_wide(op, count):
    def case():
        axis = make.attribute("axis", 0) if op == "Concat" else b""
        parts, _ = fill(
            [make.graph_input("v", [8, 4])],
            lambda i: tiny(op, ["v"] * count, [f"{i:x}"], axis, halved("v", 1)),
        )
        return split_model(parts)

    return case


def fans(width, nodes):
    """What comes to operations of many operands comes one after the other, and they carry none of it."""

    def case():
        parts = [make.graph_input("x", [8, 4])]
        for i in range(width):
            parts += [tiny("Relu", ["x"], [f"{i:x}"], halved(f"{i:x}")), tiny("Relu", [f"{i:x}"], [f"z{i:x}"])]
        operands, axis = [f"z{i:x}" for i in range(width)], make.attribute("axis", 0)
        parts += [tiny("Concat", operands, [f"o{i:x}"], axis) for i in range(nodes)]
        return split_model(parts)

    return case


def splits(count):
    parts, _ = fill(
        [make.graph_input("x", [count * 4, 4])], lambda i: tiny("Split", ["x"], [f"{i:x}.{k:x}" for k in range(count)])
    )
    parts.insert(1, tiny("Relu", ["x"], ["r"], halved("x", 1)))
    return split_model(parts)


def split_ifs():
    """Many results of branches that do little."""

    def branch(tag):
        return tiny("Relu", ["x"], [tag]), *([make.delimited(12, make.delimited(1, tag))] * 2000)

    parts, _ = fill(
        [make.graph_input("x", [8, 4]), make.graph_input("c", [], 9), tiny("Relu", ["x"], ["r"], halved("x"))],
        lambda i: tiny("If", ["c"], [f"{i:x}.{k:x}" for k in range(2000)],
                       subgraph("then_branch", *branch(f"a{i:x}")), subgraph("else_branch", *branch(f"b{i:x}"))),
    )
    return split_model(parts)


def einsums():
    """Each with a rule of its own, of 52 factors."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    chance = random.Random(1)

    def node(i):
        equation = f"{letters[:26]},{letters[26:]}->{''.join(chance.sample(letters, 52))}"
        text = (make.delimited(1, "equation"), make.delimited(4, equation.encode()), make.integer(20, 3))
        return tiny("Einsum", ["x", "y"], [f"{i:x}"], make.delimited(5, *text))

    start = [make.graph_input("x", [2] * 26), make.graph_input("y", [3] * 26), tiny("Relu", ["x"], ["r"], halved("x"))]
    parts, _ = fill(start, node, MEGABYTE - 200)
    return split_model(parts)


def orders():
    """Each with a rule of its own, of 64 axes."""
    chance = random.Random(1)

    def node(i):
        order = bytes(chance.sample(range(64), 64))
        perm = (make.delimited(1, "perm"), make.delimited(8, order), make.integer(20, 7))
        return tiny("Transpose", [f"{i:x}"], [f"{i + 1:x}"], make.delimited(5, *perm))

    start = [make.graph_input("x", [2] * 40 + [1] * 24), tiny("Relu", ["x"], ["0"], halved("x"))]
    parts, _ = fill(start, node, MEGABYTE - 200)
    return split_model(parts)


def unknown_fields():
    parts, _ = fill([make.graph_input("x", [1]), tiny("Relu", ["x"], ["y"])], lambda i: make.integer(99, 1))
    return make.model(*parts)


def attributes():
    listed = [make.attribute(f"a{i:x}", 1) for i in range(1000)]
    parts, _ = fill([make.graph_input("x", [1])], lambda i: tiny("Relu", ["x"], [f"{i:x}"], *listed))
    return make.model(*parts)


def wrong_nodes():
    """Every node is wrong in several ways: messages cost more than what is right."""
    parts, _ = fill([make.graph_input("x", [1])], lambda i: tiny("Conv", ["x"] * 9, [f"{i:x}"], make.attribute("q", 1)))
    return make.model(*parts)


CASES = {
    "tiny nodes": tiny_nodes,
    "transposes of 64 axes": tall_transposes,
    "unsqueezes of 63 axes": tall_unsqueezes,
    "data: Add chain": data_chain("Add", 2),
    "data: Neg chain": data_chain("Neg", 1),
    "data: Identity chain": data_chain("Identity", 1),
    "data: Concat": data_concats,
    "data: Range": data_ranges,
    "data: Expand": data_expands,
    "Sum of 65536": wide_nodes("Sum"),
    "Concat of 65536": wide_nodes("Concat"),
    "Sum of 2000": wide_nodes("Sum", 2000),
    "configurations": configurations,
    "records of one node": many_records,
    "lists of 100000": long_lists(100000),
    "lists of 60000": long_lists(60000),
    "shards 4096": many_shards(4096),
    "shards 256": many_shards(256),
    "shards 16": many_shards(16),
    "open shards 65536": open_shards(65536),
    "open shards 1024": open_shards(1024),
    "counts to 16": open_counts(16),
    "counts to 1024": open_counts(1024),
    "counts to 65536": open_counts(65536),
    "uneven counts to 1024": open_counts(1024, True),
    "uneven counts to 65536": open_counts(65536, True),
    "grids to 1024": open_grids(1024),
    "grids to 65536": open_grids(65536),
    "permutations of 8": permutations(8),
    "permutations of 128": permutations(128),
    "permutations of 1024": permutations(1024),
    "permutations of 16384": permutations(16384),
    "groups of 512 in 512": groups(512, 512),
    "groups of 4096 whole": groups(4096, 1),
    "groups of 8 in 1024": groups(8, 1024),
    "many groups": many_groups(2048),
    "contradictions of 8": contradictions(8),
    "contradictions of 1024": contradictions(1024),
    "contradictions of 30000": contradictions(30000),
    "partial sums of 16": partial_sums(16),
    "partial sums of 1024": partial_sums(1024),
    "partial sums of 65536": partial_sums(65536),
    "partial sums, lists of 8": partial_sums(8, True),
    "partial sums, lists of 256": partial_sums(256, True),
    "statistics of 1024": attention_heads(1024),
    "statistics of 65536": attention_heads(65536),
    "configurations and nodes": configurations_and_nodes,
    "deep If": deep_ifs,
    "Loops 20 deep": nested_loops(20, True),
    "Loops 20 deep, 16 states": nested_loops(20, True, 16),
    "Loops 3 deep": nested_loops(3, True),
    "Loops 20 deep, still": nested_loops(20, False),
    "calls": calls,
    "symbols": symbols,
    "products": products,
    "broadcasts": broadcasts,
    "split: tiny nodes": split_chain("Relu", [8, 4]),
    "split: nodes of 64 axes": split_chain("Relu", [2] * 40 + [1] * 24),
    "split: reshapes": split_reshapes,
    "split: Sum of 65536": split_wide("Sum", 65536),
    "split: Sum of 2000": split_wide("Sum", 2000),
    "split: Concat of 2000": split_wide("Concat", 2000),
    "split: fan of 10000": fans(10000, 1),
    "split: fans of 250": fans(250, 800),
    "split: Split of 2000": lambda: splits(2000),
    "split: Split of 65536": lambda: splits(65536),
    "split: If of 2000": split_ifs,
    "split: Einsum of 52": einsums,
    "split: orders of 64": orders,
    "unknown fields": unknown_fields,
    "attributes": attributes,
    "wrong nodes": wrong_nodes,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "bench"))
    parser.add_argument("case", nargs="*")
    options = parser.parse_args()
    program = os.path.join(options.build, "tests", "bench", "bench_check")
    lacking.need_built(program, "--buildtype=release -Dtests=true")
    steps = ("read", "graph", "shapes", "meaning", "infer")
    print(f"{'case':26} {'kB':>6} " + " ".join(f"{step:>8}" for step in steps) + f" {'seconds':>8} {'MB':>7}")
    for name in options.case or CASES:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            size = make.write(path, CASES[name]())
            done = subprocess.run(
                ["timeout", "60", program, path, "--set", "?={replicated}"],
                capture_output=True, text=True, check=False,
            )
        figures = {key: float(number) for key, number in re.findall(r"(\w+) ([\d.]+)", done.stdout)}
        if not figures:
            print(f"{name:26} {size >> 10:6} ended with {done.returncode}: {done.stderr.strip()[:100]}", flush=True)
            continue
        seconds = sum(figures[step] for step in steps)
        peak = figures["peak"] / 1024
        mark = " <--" if seconds > 1 or peak > 100 else ""
        print(f"{name:26} {size >> 10:6} " + " ".join(f"{figures[step]:8.3f}" for step in steps) +
              f" {seconds:8.3f} {peak:7.1f}{mark} {done.stderr.strip()[13:90]}", flush=True)


if __name__ == "__main__":
    lacking.run(main)
