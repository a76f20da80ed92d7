#!/usr/bin/env python3
"""`shardplan verify` of mixtures of experts: the operators of ONNX Runtime against the same computation spelt out in
plain ONNX, ranks that hold some of the experts or a part of each, and their broken twins; and of softmaxes of which each
rank subtracts a largest number of its own."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
sys.dont_write_bytecode = True

import onnx_make as make  # noqa: E402
import test_verify as ranks_of  # noqa: E402
from test_verify import MS, Weight, bytes_of, ints, number  # noqa: E402

TOKENS, HIDDEN, INNER, EXPERTS = 5, 8, 12, 4
LOWEST = -3.4028234663852886e38


class Mixture(ranks_of.Verify):
    def weights(self, first=0, limit=EXPERTS, inner=(0, INNER)):
        """fc1 [x, i, h] and its bias, fc2 [x, h, i] and its bias: of some experts, and a part of the inner size."""
        fc1, fc2 = Weight(EXPERTS, INNER, HIDDEN, seed="1"), Weight(EXPERTS, HIDDEN, INNER, seed="2")
        b1, b2 = Weight(EXPERTS, INNER, seed="3"), Weight(EXPERTS, HIDDEN, seed="4")
        width = inner[1] - inner[0]
        rows = [fc1.items[(x * INNER + i) * HIDDEN + h] for x in range(EXPERTS) for i in range(*inner) for h in range(HIDDEN)]
        fc1 = Weight.of([EXPERTS, width, HIDDEN], rows)
        parts = [fc1, b1.columns(*inner), fc2.columns(*inner), b2]
        return [part.rows(first, limit).proto(name) for part, name in zip(parts, ("fc1", "b1", "fc2", "b2"))]

    def mixture(self, router, result, bias="b2", **changes):
        settings = {"k": 2, "activation_type": "relu", "normalize_routing_weights": 1, **changes}
        return make.node("MoE", ["x", router, "fc1", "b1", "fc2", bias], [result], domain=MS, **settings)

    def scores(self):
        return [make.graph_input("x", [TOKENS, HIDDEN]), Weight(HIDDEN, EXPERTS, seed="r").proto("router"),
                make.node("MatMul", ["x", "router"], ["s"])]

    def original(self, **changes):
        return bytes_of(*self.scores(), *self.weights(), self.mixture("s", "y", **changes),
                        make.graph_output("y", [TOKENS, HIDDEN]))

    def choice(self, k):
        """p.k: the weights of the k experts that are chosen of each token, e.k which they are."""
        return [make.node("Softmax", ["s"], ["p"], axis=-1), ints("k", k), make.node("TopK", ["s", "k"], ["s.k", "e.k"]),
                make.node("GatherElements", ["p", "e.k"], ["p.k"], axis=1)]

    def spelt_out(self, k=2, normalises=True, activation="relu", scale=1.0):
        """Every expert for every token, and a matrix of weights that is 0 where none was chosen."""
        nodes = self.choice(k) + [ints("1", 1), make.node("ReduceSum", ["p.k", "1"], ["sum"], keepdims=1)]
        act = {"relu": [make.node("Relu", ["h"], ["a"])],
               "silu": [make.node("Sigmoid", ["h"], ["g"]), make.node("Mul", ["h", "g"], ["a"])],
               "identity": [make.node("Identity", ["h"], ["a"])]}[activation]
        nodes += [make.node("Div", ["p.k", "sum"], ["w.k"])] if normalises else [make.node("Identity", ["p.k"], ["w.k"])]
        nodes += [number("0", 0), make.node("Mul", ["s", "0"], ["none"]), number("scale", scale),
                  make.node("ScatterElements", ["none", "e.k", "w.k"], ["w.0"], axis=1),
                  make.node("Mul", ["w.0", "scale"], ["w"]),
                  make.node("Einsum", ["x", "fc1"], ["h.0"], equation="th,xih->txi"), make.node("Add", ["h.0", "b1"], ["h"]),
                  *act, make.node("Einsum", ["a", "fc2"], ["o.0"], equation="txi,xhi->txh"),
                  make.node("Add", ["o.0", "b2"], ["o"]), make.node("Einsum", ["w", "o"], ["y"], equation="tx,txh->th")]
        return bytes_of(*self.scores(), *self.weights(), *nodes, make.graph_output("y", [TOKENS, HIDDEN]))

    def test_the_operator_is_what_it_is_spelt_out(self):
        for k in 1, 2, 3:
            for normalises in True, False:
                for activation in "relu", "silu", "identity":
                    original = self.original(k=k, normalize_routing_weights=int(normalises), activation_type=activation)
                    self.proved(original, [self.spelt_out(k, normalises, activation)])
                    self.proved(self.spelt_out(k, normalises, activation), [original])

    def test_what_is_spelt_out_otherwise(self):
        original = self.original()
        self.refuted(original, [self.spelt_out(k=3)])
        self.refuted(original, [self.spelt_out(normalises=False)])
        self.refuted(original, [self.spelt_out(activation="silu")])
        self.refuted(original, [self.spelt_out(scale=1.0001)])
        self.refuted(self.original(activation_type="gelu"), [original])
        self.refuted(original, [self.original(k=1)])

    def by_experts(self, rank, ranks, shift=0, shares=True, normalises=True, k=2, reduces=True):
        """The operator sees the experts of its rank that were chosen; its own weights sum to 1, so what it gives is taken
        times the weights that these have among all."""
        size = EXPERTS // ranks
        first = rank * size
        own = [(first + shift + i) % EXPERTS for i in range(size)]
        nodes = self.choice(k) + [
            make.ints("own", own), ints("-1", -1), ints("1", 1), number("lowest", LOWEST),
            make.node("Unsqueeze", ["e.k", "-1"], ["e.u"]), make.node("Equal", ["e.u", "own"], ["same"]),
            make.node("Cast", ["same"], ["same.f"], to=make.FLOAT),
            make.node("ReduceMax", ["same.f"], ["chosen"], axes=[1], keepdims=0), # [tokens, own]
            make.node("ReduceMax", ["same.f"], ["here"], axes=[2], keepdims=0),   # [tokens, k]
            make.node("Cast", ["chosen"], ["is.chosen"], to=9),
            make.node("Gather", ["s", "own"], ["s.own"], axis=1), make.node("Where", ["is.chosen", "s.own", "lowest"], ["shown"]),
            self.mixture("shown", "m", k=min(k, size), normalize_routing_weights=int(normalises)),
            make.node("Mul", ["p.k", "here"], ["p.here"]), make.node("ReduceSum", ["p.here", "1"], ["share.0"], keepdims=1),
            make.node("ReduceSum", ["p.k", "1"], ["sum"], keepdims=1),
            make.node("Div", ["share.0", "sum"], ["share"]) if normalises else make.node("Identity", ["share.0"], ["share"]),
            make.node("Mul", ["m", "share"], ["part"]) if shares else make.node("Identity", ["m"], ["part"]),
            make.node("AllReduce", ["part"], ["y"], domain=MS) if reduces else make.node("Identity", ["part"], ["y"])]
        return bytes_of(*self.scores(), *self.weights(first, first + size), *nodes, make.graph_output("y", [TOKENS, HIDDEN]))

    def test_experts_of_ranks(self):
        for ranks in 2, 4:
            for normalises in True, False:
                for k in 1, 2, 3:
                    self.proved(self.original(k=k, normalize_routing_weights=int(normalises)),
                                [self.by_experts(rank, ranks, normalises=normalises, k=k) for rank in range(ranks)])

    def test_twins_by_experts(self):
        original = self.original()
        for broken in ({"shift": 1}, {"shares": False}, {"normalises": False}, {"k": 3}, {"k": 1}, {"reduces": False}):
            self.refuted(original, [self.by_experts(rank, 2, **broken) for rank in range(2)])
        self.refuted(original, [self.by_experts(rank, 4, **({"shift": 2} if rank == 1 else {})) for rank in range(4)])

    def by_inner(self, rank, ranks, twice=False, shift=0, reduces=True):
        size = INNER // ranks
        first = rank * size + shift
        once = 1 if rank == 0 or twice else 0
        nodes = [number("once", once), make.node("Mul", ["b2", "once"], ["b2.once"]), self.mixture("s", "part", "b2.once"),
                 make.node("AllReduce", ["part"], ["y"], domain=MS) if reduces else make.node("Identity", ["part"], ["y"])]
        return bytes_of(*self.scores(), *self.weights(inner=(first, first + size)), *nodes,
                        make.graph_output("y", [TOKENS, HIDDEN]))

    def test_parts_of_experts(self):
        for ranks in 2, 3:
            self.proved(self.original(), [self.by_inner(rank, ranks) for rank in range(ranks)])

    def test_twins_of_parts(self):
        self.refuted(self.original(), [self.by_inner(rank, 2, twice=True) for rank in range(2)])
        self.refuted(self.original(), [self.by_inner(rank, 3, shift=-1 if rank == 2 else 0) for rank in range(3)])
        self.refuted(self.original(), [self.by_inner(rank, 2, reduces=False) for rank in range(2)])

    def test_operands_of_other_ranks(self):
        """A third layer that is no stack of matrices is refused, and nothing is read beyond its axes."""
        for dims in [EXPERTS], [EXPERTS, INNER], [1, 1, 1, 1]:
            node = make.node("MoE", ["x", "s", "fc1", "b1", "fc2", "b2", "fc3"], ["y"], domain=MS, k=2)
            model = bytes_of(*self.scores(), *self.weights(), Weight(*dims).proto("fc3"), node,
                             make.graph_output("y", [TOKENS, HIDDEN]))
            answer = self.answer(model, [model], ranks_of.UNDECIDED)
            self.assertEqual(answer["verdict"], "undecided")

    def test_an_open_choice_is_the_same_on_all(self):
        """Which expert a sparse mixer takes second is its own affair: parts of each are proved, parts of them are not."""
        original = self.original(use_sparse_mixer=1)
        self.proved(original, [self.original(use_sparse_mixer=1)])
        answer = self.answer(original, [self.original()], ranks_of.UNDECIDED)
        self.assertEqual(answer["verdict"], "undecided")


class Shifted(ranks_of.Verify):
    """The values of keys that ranks hold some of, by a softmax over all of them: each rank takes off the largest score of
    its own keys, and what it gives is put right by how far that is below the largest of all."""

    KEYS, WIDTH = 8, 6

    def original(self):
        nodes = [make.graph_input("q", [3, self.WIDTH]), Weight(self.WIDTH, self.KEYS, seed="k").proto("k"),
                 Weight(self.KEYS, self.WIDTH, seed="v").proto("v"), make.node("MatMul", ["q", "k"], ["s"]),
                 make.node("Softmax", ["s"], ["p"], axis=-1), make.node("MatMul", ["p", "v"], ["y"])]
        return bytes_of(*nodes, make.graph_output("y", [3, self.WIDTH]))

    def rank(self, rank, ranks, rights=("sum", "values"), turned=False):
        size = self.KEYS // ranks
        part = (rank * size, (rank + 1) * size)
        far = ["most", "most.all"] if turned else ["most.all", "most"]
        nodes = [make.graph_input("q", [3, self.WIDTH]), Weight(self.WIDTH, self.KEYS, seed="k").columns(*part).proto("k"),
                 Weight(self.KEYS, self.WIDTH, seed="v").rows(*part).proto("v"), ints("1", 1), number("none", 0),
                 make.node("MatMul", ["q", "k"], ["s"]), make.node("ReduceMax", ["s"], ["most"], axes=[1]),
                 make.node("Sub", ["s", "most"], ["d"]), make.node("Exp", ["d"], ["e"]),
                 make.node("ReduceSum", ["e", "1"], ["sum"], keepdims=1), make.node("MatMul", ["e", "v"], ["values"]),
                 # the largest of all, by gathering, as collectives of ONNX Runtime add
                 make.node("AllGather", ["most"], ["mosts"], domain=MS, group_size=ranks, axis=1),
                 make.node("ReduceMax", ["mosts"], ["most.all"], axes=[1]),
                 make.node("Sub", far[::-1], ["below"]), make.node("Exp", ["below"], ["factor"])]
        for name in "sum", "values":
            right = make.node("Mul", [name, "factor"], [f"{name}.r"]) if name in rights else make.node("Identity", [name], [f"{name}.r"])
            nodes += [right, make.node("AllReduce", [f"{name}.r"], [f"{name}.all"], domain=MS)]
        return bytes_of(*nodes, make.node("Div", ["values.all", "sum.all"], ["y"]), make.graph_output("y", [3, self.WIDTH]))

    def test_each_its_own_largest(self):
        for ranks in 2, 4:
            self.proved(self.original(), [self.rank(rank, ranks) for rank in range(ranks)])

    def test_twins(self):
        for broken in ({"rights": ()}, {"rights": ("sum",)}, {"rights": ("values",)}, {"turned": True}):
            self.refuted(self.original(), [self.rank(rank, 2, **broken) for rank in range(2)])

    def one(self, *nodes, weights=()):
        return bytes_of(make.graph_input("x", [2, 4]), *weights, *nodes, make.graph_output("y", [2, 4]))

    def test_shifts_cancel_and_nothing_else_does(self):
        exp = self.one(make.node("Softmax", ["x"], ["y"], axis=-1))

        def shifted(*shift, by="m", weights=()):
            return self.one(*shift, make.node("Sub", ["x", by], ["d"]), make.node("Exp", ["d"], ["e"]), ints("1", 1),
                            make.node("ReduceSum", ["e", "1"], ["sum"], keepdims=1), make.node("Div", ["e", "sum"], ["y"]),
                            weights=weights)

        self.proved(exp, [shifted(make.node("ReduceMin", ["x"], ["m"], axes=[1]))])
        self.proved(exp, [shifted(make.node("ReduceMean", ["x"], ["m"], axes=[1]))])
        self.proved(exp, [shifted(weights=[number("m", 0.25)])])
        self.refuted(exp, [shifted(make.node("ReduceMax", ["x"], ["m"], axes=[0]))])
        self.refuted(exp, [shifted(make.node("Sin", ["x"], ["m"]))])


if __name__ == "__main__":
    unittest.main()
