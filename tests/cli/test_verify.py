#!/usr/bin/env python3
"""`shardplan verify`: ranks' models that this script writes by itself, as Megatron-LM and others split theirs, and their
broken twins."""

import json
import os
import random
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
sys.dont_write_bytecode = True

import decoder_graph  # noqa: E402
import onnx_make as make  # noqa: E402
import test_cli  # noqa: E402

MS = "com.microsoft"
PROVED, REFUTED, UNDECIDED = 0, 1, 3


class Weight:
    """A matrix or vector as nested lists; cut by rows and columns as a person would cut it."""

    def __init__(self, *dims, seed=0):
        made = random.Random(repr((dims, seed)))
        count = 1
        for dim in dims:
            count *= dim
        self.dims, self.items = list(dims), [made.uniform(-1, 1) for _ in range(count)]

    @classmethod
    def of(cls, dims, items):
        self = cls.__new__(cls)
        self.dims, self.items = list(dims), list(items)
        return self

    def columns(self, start, limit):
        width = self.dims[-1]
        rows = len(self.items) // width
        return Weight.of(self.dims[:-1] + [limit - start],
                         [x for r in range(rows) for x in self.items[r * width + start:r * width + limit]])

    def rows(self, start, limit):
        inner = len(self.items) // self.dims[0]
        return Weight.of([limit - start] + self.dims[1:], self.items[start * inner:limit * inner])

    def times(self, factor):
        return Weight.of(self.dims, [x * factor for x in self.items])

    def proto(self, name):
        return make.delimited(5, *(make.integer(1, dim) for dim in self.dims), make.integer(2, make.FLOAT),
                              make.delimited(8, name),
                              make.delimited(9, struct.pack(f"<{len(self.items)}f", *self.items)))


def beside(*weights):
    """Columns of several one behind the other."""
    rows = len(weights[0].items) // weights[0].dims[-1]
    items = []
    for r in range(rows):
        for weight in weights:
            width = weight.dims[-1]
            items += weight.items[r * width:(r + 1) * width]
    return Weight.of(weights[0].dims[:-1] + [sum(weight.dims[-1] for weight in weights)], items)


def ints(name, *values):
    return make.ints(name, values)


def number(name, value):
    return make.delimited(5, make.integer(2, make.FLOAT), make.delimited(8, name),
                          make.delimited(9, struct.pack("<f", value)))


def whole(name, value):
    return make.delimited(5, make.integer(2, make.INT64), make.delimited(8, name),
                          make.delimited(9, struct.pack("<q", value)))


def bytes_of(*graph):
    imports = [make.integer(1, 8), make.delimited(8, make.delimited(1, ""), make.integer(2, 17)),
               make.delimited(8, make.delimited(1, MS), make.integer(2, 1))]
    return make.encode([*imports, make.delimited(7, *graph, make.delimited(2, "made"))])


class Verify(test_cli.Case):
    def answer(self, original, ranks, status, *options):
        paths = [self.file(f"rank-{i}.onnx", rank) for i, rank in enumerate(ranks)]
        result = test_cli.run("verify", self.file("original.onnx", original), *paths, "--json", *options)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def proved(self, original, ranks):
        answer = self.answer(original, ranks, PROVED)
        self.assertEqual(answer["verdict"], "proved")
        self.assertEqual(answer["failures"], [])
        self.assertGreater(answer["compared_elements"], 0)
        return answer

    def refuted(self, original, ranks, *nodes):
        """The node that is named first is one of these."""
        answer = self.answer(original, ranks, REFUTED)
        self.assertEqual(answer["verdict"], "refuted")
        if nodes:
            self.assertTrue(any(f"'{node}'" in (answer["failures"][0]["node"] or "") for node in nodes),
                            answer["failures"][0])
        return answer["failures"]


class Plans(Verify):
    """What a plan says of its own proof."""

    def plan(self, model, *options):
        """Operators are split over both devices."""
        return self.json("plan", model, "--devices", "2", "--device", "a100-sxm4-80gb", "--strategy", "tensor", "--objective",
                         "latency", *options)

    def test_a_plan_is_proved(self):
        model = self.mlp(4, 4096, 512)
        plan = self.plan(model)
        proof = plan["proof"]
        self.assertEqual((proof["state"], proof["undecided"]), ("proved", []))
        self.assertGreater(proof["compared_elements"], 0)
        self.assertGreater(proof["nodes"], plan["model"]["node_count"])  # on two devices
        self.assertGreaterEqual(proof["seconds"], 0)
        text = self.done("plan", model, "--devices", "2", "--device", "a100-sxm4-80gb").stdout.decode()
        self.assertIn("\nProof       the devices compute what the model computes, up to the order of sums\n", text)

    def test_none_is_asked_for(self):
        model = self.mlp(8, 64, 16)
        plan = self.plan(model, "--no-proof")
        self.assertNotIn("proof", plan)
        proved = self.plan(model)
        self.assertEqual(proved["id"], plan["id"])
        del proved["proof"], proved["search"]["seconds"], plan["search"]["seconds"]
        self.assertEqual(proved, plan)
        self.assertNotIn(b"Proof", self.done("plan", model, "--devices", "2", "--no-proof").stdout)

    def test_a_time_limit_leaves_time_for_some_nodes(self):
        maker, graph = os.path.join(test_cli.TOP, "tests/bench/models.py"), self.path("graph.json")
        subprocess.run([sys.executable, maker, "--model", "irregular", "--nodes", "1500", "-o", graph], check=True)
        plan = ("plan", graph, "--devices", "1", "--device", "a100-sxm4-80gb", "--time-limit", "0.2")
        proof = self.json(*plan)["proof"]
        self.assertEqual((proof["state"], proof["compared_elements"]), ("undecided", 0))
        self.assertIn("in the time that is left", proof["undecided"][0])
        self.assertEqual(self.plan(self.mlp(2, 64, 16), "--time-limit", "0.2")["proof"]["state"], "proved")

    def test_open_dimensions_are_bound(self):
        for options in (), ("--batch", "16"), ("--dim", "batch=5"):
            self.assertEqual(self.plan(self.mlp(2, 64, "batch"), *options)["proof"]["state"], "proved", options)

    def test_a_manifest_says_what_open_dimensions_were(self):
        """Models of devices are made for the sizes of the plan; the original's sizes are those, unless told."""
        model, out = self.mlp(2, 64, "batch"), self.path("emitted")
        manifest = os.path.join(out, "manifest.json")
        self.plan(model, "--dim", "batch=8", "--replicas", "1", "--emit", out)
        self.assertEqual(self.json("verify", model, "--manifest", manifest)["verdict"], "proved")
        self.assertEqual(self.json("verify", model, "--manifest", manifest, "--dim", "batch=8")["verdict"], "proved")
        self.assertEqual(test_cli.run("verify", model, "--manifest", manifest, "--dim", "batch=6").returncode, REFUTED)

    def test_what_is_undecided_says_why(self):
        graph = [make.graph_input("x", [4, 8]), make.node("Bernoulli", ["x"], ["y"]), make.graph_output("y", [4, 8])]
        path = self.file("random.onnx", bytes_of(*graph))
        proof = self.plan(path)["proof"]
        self.assertEqual(proof["state"], "undecided")
        self.assertIn("Bernoulli", proof["undecided"][0])
        text = self.done("plan", path, "--devices", "2").stdout.decode()
        self.assertIn("\nProof       undecided: ", text)

    def test_fused_attention_of_large_decoders(self):
        """GroupQueryAttention takes heads apart and gives caches, of which some places are looked at."""
        graph = self.path("decoder.json")
        with open(graph, "w", encoding="utf-8") as file:
            json.dump(decoder_graph.decoder(**decoder_graph.LLAMA3_8B), file)
        dims = {"batch_size": 16, "sequence_length": 1, "past_sequence_length": 256, "total_sequence_length": 257}
        bound = [part for name, value in dims.items() for part in ("--dim", f"{name}={value}")]
        for options in ("1",), ("4", "--strategy", "tensor"), ("4", "--strategy", "pipeline"):
            plan = self.json("plan", graph, "--device", "a100-sxm4-80gb", "--devices", *options, *bound)
            self.assertEqual(plan["proof"]["state"], "proved", plan["proof"])

    def test_convolutions_take_few_places(self):
        """Around the borders of parts: a whole image would take a hundred times the numbers."""
        for devices in "2", "8":
            plan = self.json("plan", test_cli.RESNET, "--devices", devices, "--device",
                             "h100-sxm-80gb", "--objective", "latency")
            self.assertEqual(plan["proof"]["state"], "proved", plan["proof"])
            self.assertLess(plan["proof"]["seconds"], 10)  # some hundredths on a free machine


class Weights(Verify):
    """--weights: the bytes of weights, in the models' files and beside them, small models and large ones."""

    def floats(self, count, seed):
        made = random.Random(seed)
        return struct.pack(f"<{count}f", *(made.uniform(-1, 1) for _ in range(count)))

    LARGE = 1 << 16  # rows of inputs with which a model is evaluated at some indices only

    def product(self, rows, inner, weight, name="model"):
        """y = x W; the weight in a file beside the model, from byte 8 on, where it is bytes, and else as it is."""
        folder = self.path(name)
        os.mkdir(folder)
        if isinstance(weight, tuple):
            dims, data = weight
            with open(os.path.join(folder, "weights.bin"), "wb") as file:
                file.write(bytes(8) + data)
            entries = {"location": "weights.bin", "offset": "8", "length": str(len(data))}
            tensor = make.delimited(5, *(make.integer(1, dim) for dim in dims), make.integer(2, make.FLOAT),
                                    make.delimited(8, "W"), make.integer(14, 1),
                                    *(make.delimited(13, make.delimited(1, key), make.delimited(2, value))
                                      for key, value in entries.items()))
        else:
            tensor, dims = weight.proto("W"), weight.dims
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(bytes_of(make.graph_input("x", [rows, inner]), tensor, make.node("MatMul", ["x", "W"], ["y"]),
                                make.graph_output("y", [rows, dims[1]])))
        return path

    def columns(self, dims, data, start, limit):
        width = dims[1] * 4
        return b"".join(data[r * width + 4 * start:r * width + 4 * limit] for r in range(dims[0]))

    def verify(self, status, original, *ranks, options=("--weights",)):
        result = test_cli.run("verify", original, *ranks, "--json", *options)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def cut(self, dims, parts=2, rows=LARGE):
        """The original and its ranks, with columns of the weight each."""
        data = self.floats(dims[0] * dims[1], repr(dims))
        size = dims[1] // parts
        original = self.product(rows, dims[0], (dims, data), "original")
        ranks = [self.product(rows, dims[0], ([dims[0], size], self.columns(dims, data, i * size, (i + 1) * size)), f"rank{i}")
                 for i in range(parts)]
        return original, ranks

    def damage(self, rank, offset, change=1):
        path = os.path.join(os.path.dirname(rank), "weights.bin")
        with open(path, "r+b") as file:
            file.seek(8 + offset)
            byte = file.read(1)[0]
            file.seek(8 + offset)
            file.write(bytes([byte ^ change]))

    def test_beside_the_models(self):
        for dims, rows, indices in (([16, 24], 4, "all"), ([300, 512], self.LARGE, "some")):
            original, ranks = self.cut(dims, rows=rows)
            answer = self.verify(PROVED, original, *ranks)
            self.assertEqual((answer["indices"], answer["failures"]), (indices, []))
            self.verify(PROVED, original, *ranks, options=())
            # One bit of the last element but one of the second rank: at none of the indices of a large model.
            offset = dims[0] * dims[1] // 2 * 4 - 7
            self.damage(ranks[1], offset)
            self.verify(PROVED, original, *ranks, options=())  # as declared
            failures = self.verify(REFUTED, original, *ranks)["failures"]
            said = [failure for failure in failures if "'W'" in failure["message"]]
            self.assertEqual((len(said), said[0]["rank"], said[0]["program"]), (1, 1, ranks[1]))
            self.assertIn(f"from byte {offset} on (element [{dims[0] - 1}, {dims[1] // 2 - 2}])", said[0]["message"])
            self.assertEqual(said[0]["expected"], f"'W'[0:{dims[0]}, {dims[1] // 2}:{dims[1]}]")
            self.damage(ranks[1], offset)
            self.verify(PROVED, original, *ranks)
            # Swapped files: each has a slice, but of the other's results.
            self.assertEqual(self.verify(REFUTED, original, *ranks[::-1])["verdict"], "refuted")
            self.verify(PROVED, original, *ranks[::-1], options=())  # names alone do not tell
            for path in original, *ranks:
                os.remove(os.path.join(os.path.dirname(path), "weights.bin"))
                os.remove(path)
                os.rmdir(os.path.dirname(path))

    def test_every_byte_is_compared(self):
        dims = [300, 1024]
        original, ranks = self.cut(dims, 4)
        made = random.Random(4)
        for _ in range(12):
            rank, offset = made.randrange(4), made.randrange(dims[0] * dims[1])
            self.damage(ranks[rank], offset, 1 << made.randrange(8))
            failures = self.verify(REFUTED, original, *ranks)["failures"]
            said = [failure for failure in failures if "'W'" in failure["message"]]
            self.assertEqual([failure["rank"] for failure in said], [rank])
            self.assertIn(f"from byte {offset} on", said[0]["message"])
            with open(os.path.join(os.path.dirname(ranks[rank]), "weights.bin"), "r+b") as file:
                file.write(bytes(8) + self.columns(dims, self.floats(dims[0] * dims[1], repr(dims)), rank * 256, rank * 256 + 256))
        self.verify(PROVED, original, *ranks)

    def test_files_that_are_not_there(self):
        original, ranks = self.cut([300, 512])
        for path, whose in ((ranks[1], "its"), (original, "the original's")):
            data = os.path.join(os.path.dirname(path), "weights.bin")
            os.rename(data, data + ".away")
            failures = self.verify(UNDECIDED, original, *ranks)["failures"]
            self.assertIn(f"The weight 'W' is not compared: {whose} data are not there", failures[0]["message"])
            self.assertIn("'weights.bin'", failures[0]["message"])
            self.verify(PROVED, original, *ranks, options=())
            with open(data, "wb") as file:
                file.write(bytes(100))  # cut off
            self.verify(UNDECIDED, original, *ranks)
            os.rename(data + ".away", data)
        self.verify(PROVED, original, *ranks)

    def test_locations_stay_below_the_model(self):
        original, ranks = self.cut([16, 24], rows=4)
        with open(ranks[0], "rb") as file:
            model = file.read()
        outside = os.path.join(os.path.dirname(os.path.dirname(ranks[0])), "rank0/weights.bin")
        self.assertTrue(os.path.exists(outside))
        for location in (b"../rank.bin", b"/tmp/xx.bin"):
            self.assertEqual(len(location), len(b"weights.bin"))
            with open(ranks[0], "wb") as file:
                file.write(model.replace(b"weights.bin", location))
            with open(self.path("rank.bin"), "wb") as file:
                file.write(bytes(8) + self.columns([16, 24], self.floats(16 * 24, repr([16, 24])), 0, 12))
            self.verify(UNDECIDED, original, *ranks)

    def test_in_the_models_files(self):
        whole = Weight(300, 1024, seed="W")
        for wrong, status in ((None, PROVED), (7, REFUTED), (300 * 512 - 2, REFUTED)):
            parts = [whole.columns(0, 512), whole.columns(512, 1024)]
            if wrong is not None:
                parts[1].items[wrong] += 1
            name = f"in{wrong}"
            os.mkdir(self.path(name))
            original = self.product(self.LARGE, 300, whole, f"{name}/o")
            ranks = [self.product(self.LARGE, 300, part, f"{name}/{i}") for i, part in enumerate(parts)]
            answer = self.verify(status, original, *ranks)
            if wrong is not None:
                said = [failure for failure in answer["failures"] if "'W'" in failure["message"]]
                self.assertIn(f"(element [{wrong // 512}, {wrong % 512}])", said[0]["message"])

    def test_an_original_without_its_data(self):
        """Ranks that have theirs are taken for what they declare."""
        for dims, rows in (([16, 24], 4), ([300, 512], self.LARGE)):
            original, _ = self.cut(dims, rows=rows)
            os.remove(os.path.join(os.path.dirname(original), "weights.bin"))
            half = dims[1] // 2
            ranks = [self.product(rows, dims[0], Weight(dims[0], half, seed=i), f"own{i}") for i in range(2)]
            self.verify(PROVED, original, *ranks, options=())
            answer = self.verify(UNDECIDED, original, *ranks)
            self.assertIn("the original's data are not there", answer["failures"][0]["message"])
            for name in "original", "rank0", "rank1", "own0", "own1":
                for file in os.listdir(self.path(name)):
                    os.remove(os.path.join(self.path(name), file))
                os.rmdir(self.path(name))

    def test_biases_of_zeros(self):
        """One rank adds the bias of a large layer; under its name the other has zeros, or as many of another number."""
        whole, bias = Weight(600, 300, seed="W"), Weight(300, seed="b")

        def layer(weight, added, *nodes):
            return bytes_of(make.graph_input("x", [self.LARGE, weight.dims[0]]), weight.proto("W"), added.proto("b"),
                            make.node("MatMul", ["x", "W"], ["p"]), *nodes, make.graph_output("y", [self.LARGE, 300]))
        original = self.file("o.onnx", layer(whole, bias, make.node("Add", ["p", "b"], ["y"])))
        reduced = make.node("Add", ["p", "b"], ["q"]), make.node("AllReduce", ["q"], ["y"], domain=MS)
        first = self.file("r0.onnx", layer(whole.rows(0, 300), bias, *reduced))
        for number, last, status in ((0.0, 0.0, PROVED), (1.0, 1.0, REFUTED)):
            items = [number] * 299 + [last]
            second = self.file("r1.onnx", layer(whole.rows(300, 600), Weight.of([300], items), *reduced))
            for options in ((), ("--weights",)):
                answer = self.verify(status, original, first, second, options=options)
                self.assertEqual(answer["indices"], "some")

    def test_no_annotated_model(self):
        result = test_cli.run("verify", "--annotated", self.file("a.onnx", b""), "--weights")
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"--weights is for ranks' models", result.stderr)


class Windows(Verify):
    """A convolution whose places are cut: each rank has a halo of its neighbour's."""

    PLACES, CHANNELS = 4096, 600  # large enough to be evaluated at some indices only

    def rank(self, rank, ranks, before=1, after=1):
        size = self.PLACES // ranks
        first, last = rank == 0, rank == ranks - 1
        begin = rank * size - (0 if first else before)
        end = (rank + 1) * size + (0 if last else after)
        pads = [1 if first else 0, 1 if last else 0]
        return bytes_of(make.graph_input("x", [1, self.CHANNELS, self.PLACES]), ints("b", begin), ints("e", end),
                        ints("axis", 2), Weight(4, self.CHANNELS, 3).proto("w"),
                        make.node("Slice", ["x", "b", "e", "axis"], ["part"]),
                        make.node("Conv", ["part", "w"], ["y"], pads=pads), make.graph_output("y", [1, 4, size]))

    def test_halos(self):
        original = bytes_of(make.graph_input("x", [1, self.CHANNELS, self.PLACES]),
                            Weight(4, self.CHANNELS, 3).proto("w"),
                            make.node("Conv", ["x", "w"], ["c"], pads=[1, 1]),
                            make.node("Expand", ["c", "s"], ["large"]), ints("s", 2048, 4, self.PLACES),
                            make.node("ReduceMax", ["large"], ["y"], axes=[0], keepdims=1),
                            make.graph_output("y", [1, 4, self.PLACES]))
        answer = self.answer(original, [self.rank(rank, 2) for rank in range(2)], PROVED)
        self.assertEqual(answer["indices"], "some")
        for wrong in ({"before": 2, "after": 0}, {"before": 0, "after": 2}):
            self.answer(original, [self.rank(rank, 2, **wrong) for rank in range(2)], REFUTED)


HIDDEN, INNER, ROWS = 8, 16, 3


def normalized(x, y, scale, tag, epsilon=1e-5):
    return [make.node("Mul", [x, x], [f"square{tag}"]),
            make.node("ReduceMean", [f"square{tag}"], [f"mean{tag}"], axes=[-1]), number(f"epsilon{tag}", epsilon),
            make.node("Add", [f"mean{tag}", f"epsilon{tag}"], [f"sum{tag}"]),
            make.node("Sqrt", [f"sum{tag}"], [f"root{tag}"]),
            make.node("Div", [x, f"root{tag}"], [f"quotient{tag}"]),
            make.node("Mul", [f"quotient{tag}", scale], [y])]


class Named(Verify):
    """Which node is named where ranks compute in parts what the original computes at once, and one of them is wrong."""

    def setUp(self):
        super().setUp()
        self.scale, self.up = Weight(HIDDEN, seed="scale"), Weight(HIDDEN, HIDDEN, seed="up")

    def norm(self):
        return bytes_of(make.graph_input("x", [ROWS, HIDDEN]), self.scale.proto("scale"),
                        make.node("LayerNormalization", ["x", "scale"], ["y"], axis=-1, epsilon=1e-5),
                        make.graph_output("y", [ROWS, HIDDEN]))

    def norm_of(self, rank, ranks, reduces=True, square="Mul"):
        """A mean and a variance by sums over the ranks."""
        size = HIDDEN // ranks
        last = "AllReduce" if reduces else "Identity"
        domain = MS if reduces else ""
        return bytes_of(
            make.graph_input("x", [ROWS, size]), self.scale.columns(rank * size, (rank + 1) * size).proto("scale"),
            number("count", HIDDEN), number("epsilon", 1e-5), ints("axes", -1),
            make.node("ReduceSum", ["x", "axes"], ["part"]), make.node("AllReduce", ["part"], ["sum"], domain=MS),
            make.node("Div", ["sum", "count"], ["mean"]), make.node("Sub", ["x", "mean"], ["distance"]),
            make.node(square, ["distance", "distance"], ["square"]),
            make.node("ReduceSum", ["square", "axes"], ["squares"]),
            make.node(last, ["squares"], ["all"], domain=domain), make.node("Div", ["all", "count"], ["variance"]),
            make.node("Add", ["variance", "epsilon"], ["under"]), make.node("Sqrt", ["under"], ["root"]),
            make.node("Div", ["distance", "root"], ["quotient"]), make.node("Mul", ["quotient", "scale"], ["y"]),
            make.graph_output("y", [ROWS, size]))

    def test_a_norm_in_steps(self):
        for ranks in 2, 4:
            self.proved(self.norm(), [self.norm_of(rank, ranks) for rank in range(ranks)])

    def test_a_term_is_not_to_blame_for_another_one(self):
        for odd in range(3):
            failures = self.refuted(self.norm(), [self.norm_of(rank, 4, square="Add" if rank == odd else "Mul")
                                                  for rank in range(4)], "square")
            self.assertEqual(failures[0]["rank"], odd)

    def test_a_sum_that_is_missing(self):
        failures = self.refuted(self.norm(), [self.norm_of(rank, 4, reduces=False) for rank in range(4)], "all")
        self.assertIn("partial sum", failures[0]["message"])

    def gated(self, first=None):
        """Products of four projections, element by element; of a rank that has HIDDEN / 4 columns of each."""
        size = HIDDEN if first is None else HIDDEN // 4
        names = "qkvg"
        weights = [Weight(HIDDEN, HIDDEN, seed=n) for n in names]
        if first is not None:
            weights = [weight.columns(at * size, (at + 1) * size) for weight, at in zip(weights, first)]
        return bytes_of(make.graph_input("x", [ROWS, HIDDEN]), *(w.proto(n) for w, n in zip(weights, names)),
                        *(make.node("MatMul", ["x", n], [f"x{n}"]) for n in names),
                        make.node("Mul", ["xq", "xk"], ["qk"]), make.node("Tanh", ["qk"], ["scores"]),
                        make.node("Mul", ["scores", "xv"], ["some"]), make.node("Mul", ["some", "xg"], ["y"]),
                        make.graph_output("y", [ROWS, size]))

    def test_weights_in_another_order(self):
        self.proved(self.gated(), [self.gated([rank] * 4) for rank in range(4)])
        for swapped in range(4):
            ranks = [[rank ^ 1 if i == swapped else rank for i in range(4)] for rank in range(4)]
            failures = self.refuted(self.gated(), [self.gated(first) for first in ranks], "x" + "qkvg"[swapped])
            self.assertIn("in another order", failures[0]["message"])

    def test_an_order_of_all_weights_is_no_mistake_of_one(self):
        failures = self.refuted(self.gated(), [self.gated([rank ^ 1] * 4) for rank in range(4)])
        self.assertNotIn("in another order", json.dumps(failures))

class Mlp(Verify):
    """Two layers: columns, then rows, an all-reduce, the bias, the residual, an RMS norm."""

    def setUp(self):
        super().setUp()
        self.weights = [{"up": Weight(HIDDEN, INNER, seed=f"u{i}"), "down": Weight(INNER, HIDDEN, seed=f"d{i}"),
                         "bias": Weight(HIDDEN, seed=f"b{i}"), "scale": Weight(HIDDEN, seed=f"s{i}")} for i in range(2)]

    def original(self):
        graph, x = [make.graph_input("x", [ROWS, HIDDEN])], "x"
        for i, weight in enumerate(self.weights):
            graph += [tensor.proto(f"{name}.{i}") for name, tensor in weight.items()]
            graph += [make.node("MatMul", [x, f"up.{i}"], [f"a{i}"]), make.node("Tanh", [f"a{i}"], [f"t{i}"]),
                      make.node("MatMul", [f"t{i}", f"down.{i}"], [f"p{i}"]),
                      make.node("Add", [f"p{i}", f"bias.{i}"], [f"c{i}"]), make.node("Add", [f"c{i}", x], [f"r{i}"]),
                      *normalized(f"r{i}", f"y{i}", f"scale.{i}", i)]
            x = f"y{i}"
        return bytes_of(*graph, make.graph_output(x, [ROWS, HIDDEN]))

    def rank(self, rank, ranks, **wrong):
        graph, x = [make.graph_input("x", [ROWS, HIDDEN])], "x"
        size = INNER // ranks
        for i, weight in enumerate(self.weights):
            here = wrong if i == wrong.get("layer", 1) else {}
            if here.get("drop"):
                continue
            up = rank + here.get("swap", 0) * (1 if rank % 2 == 0 else -1)
            first = up * size + (here.get("shift", 0) if rank == 1 else 0)
            graph += [weight["up"].columns(first, first + size).proto(f"w1.{i}"),
                      weight["down"].rows(rank * size, (rank + 1) * size).proto(f"w2.{i}"),
                      weight["bias"].proto(f"b.{i}"), weight["scale"].proto(f"g.{i}")]
            graph += [make.node("MatMul", [x, f"w1.{i}"], [f"a{i}"]), make.node("Tanh", [f"a{i}"], [f"t{i}"]),
                      make.node("MatMul", [f"t{i}", f"w2.{i}"], [f"p{i}"])]
            part = f"p{i}"
            if here.get("early_bias") == "all" or (here.get("early_bias") == "first" and rank == 0):
                graph.append(make.node("Add", [part, f"b.{i}"], [f"e{i}"]))
                part = f"e{i}"
            for turn in range(here.get("reduces", 1)):
                graph.append(make.node("AllReduce", [part], [f"sum{i}.{turn}"], domain=MS))
                part = f"sum{i}.{turn}"
            if not here.get("early_bias"):
                graph.append(make.node("Add", [part, f"b.{i}"], [f"c{i}"]))
                part = f"c{i}"
            order = [x, part] if here.get("turned") else [part, x]
            graph += [make.node("Sub" if here.get("subtracts") else "Add", order, [f"r{i}"]),
                      *normalized(f"r{i}", f"y{i}", f"g.{i}", i, here.get("epsilon", 1e-5))]
            x = f"y{i}"
        graph.append(make.node("Identity", [x], [f"y{len(self.weights) - 1}"]) if x != "y1" else b"")
        return bytes_of(*graph, make.graph_output("y1", [ROWS, HIDDEN]))

    def ranks(self, ranks, **wrong):
        return [self.rank(rank, ranks, **wrong) for rank in range(ranks)]

    def test_columns_and_rows(self):
        for ranks in 1, 2, 4, 8:
            answer = self.proved(self.original(), self.ranks(ranks))
            if ranks > 1:
                self.assertEqual([reason["of"] for reason in answer["reasons"]], ["p0", "p1"])

    def test_what_is_equal_for_other_reasons(self):
        self.proved(self.original(), self.ranks(4, early_bias="first"))
        self.proved(self.original(), self.ranks(4, turned=True))

    def test_reduces(self):
        self.refuted(self.original(), self.ranks(4, reduces=0), "c1")
        self.refuted(self.original(), self.ranks(4, reduces=2), "sum1.1")
        self.refuted(self.original(), self.ranks(4, early_bias="all"), "e1", "sum1.0")

    def test_shards(self):
        self.refuted(self.original(), self.ranks(4, swap=1), "p1", "sum1.0")
        self.refuted(self.original(), self.ranks(4, shift=1), "p1", "sum1.0")

    def test_operators(self):
        failures = self.refuted(self.original(), self.ranks(4, epsilon=1e-3), "sum1")
        self.assertIn("Add of 'mean1'", failures[0]["nearest"])
        self.refuted(self.original(), self.ranks(4, subtracts=True), "r1")
        self.refuted(self.original(), self.ranks(4, drop=True))

    def test_ranks_that_wait_for_each_other(self):
        ranks = self.ranks(2)
        ranks[1] = self.rank(1, 2, reduces=0)
        failures = self.refuted(self.original(), ranks)
        self.assertIn("never carried out", failures[0]["message"])

    def test_a_rank_too_few(self):
        self.refuted(self.original(), self.ranks(4)[:3], "p0")

    def test_text(self):
        path = self.file("original.onnx", self.original())
        ranks = [self.file(f"rank-{i}.onnx", rank) for i, rank in enumerate(self.ranks(2))]
        self.assertIn(b"Proved", test_cli.run("verify", path, *ranks).stdout)
        ranks[1] = self.file("rank-1.onnx", self.rank(1, 2, epsilon=0.5))
        self.assertIn(b"expected: Add of", test_cli.run("verify", path, *ranks).stdout)


class Sequence(Verify):
    """Sequence parallel norms: rows of the ranks, gathered before the product and scattered behind it."""

    def parts(self):
        return Weight(HIDDEN, INNER, seed="u"), Weight(INNER, HIDDEN, seed="d"), Weight(HIDDEN, seed="g")

    def original(self):
        up, down, scale = self.parts()
        return bytes_of(make.graph_input("x", [4, HIDDEN]), up.proto("up"), down.proto("down"), scale.proto("scale"),
                        *normalized("x", "n", "scale", 0), make.node("MatMul", ["n", "up"], ["a"]),
                        make.node("Sigmoid", ["a"], ["t"]), make.node("MatMul", ["t", "down"], ["p"]),
                        make.node("Add", ["p", "x"], ["y"]), make.graph_output("y", [4, HIDDEN]))

    def rank(self, rank, ranks, scatters=True, axis=0):
        up, down, scale = self.parts()
        size, rows = INNER // ranks, 4 // ranks
        graph = [make.graph_input("x", [rows, HIDDEN]), up.columns(rank * size, (rank + 1) * size).proto("w1"),
                 down.rows(rank * size, (rank + 1) * size).proto("w2"), scale.proto("g"),
                 *normalized("x", "n", "g", 0),
                 make.node("AllGather", ["n"], ["whole"], domain=MS, group_size=ranks, axis=axis),
                 make.node("MatMul", ["whole", "w1"], ["a"]), make.node("Sigmoid", ["a"], ["t"]),
                 make.node("MatMul", ["t", "w2"], ["p"])]
        if scatters:
            graph.append(make.node("ReduceScatter", ["p"], ["own"], domain=MS, group_size=ranks))
        else:
            graph += [ints("from", 0), ints("to", rows), make.node("Slice", ["p", "from", "to"], ["own"])]
        return bytes_of(*graph, make.node("Add", ["own", "x"], ["y"]), make.graph_output("y", [rows, HIDDEN]))

    def test_gather_and_scatter(self):
        for ranks in 2, 4:
            self.proved(self.original(), [self.rank(rank, ranks) for rank in range(ranks)])

    def test_twins(self):
        self.refuted(self.original(), [self.rank(rank, 2, scatters=False) for rank in range(2)])
        self.refuted(self.original(), [self.rank(rank, 2, axis=1) for rank in range(2)])


VOCABULARY = 12


class Vocabulary(Verify):
    """An embedding whose rows the ranks share, and a head whose columns they share."""

    def original(self):
        table, head = Weight(VOCABULARY, HIDDEN, seed="t"), Weight(HIDDEN, VOCABULARY, seed="h")
        return bytes_of(make.graph_input("ids", [1, 5], make.INT64), table.proto("table"), head.proto("head"),
                        make.node("Gather", ["table", "ids"], ["e"]), make.node("Tanh", ["e"], ["t"]),
                        make.node("MatMul", ["t", "head"], ["logits"]),
                        make.graph_output("logits", [1, 5, VOCABULARY]))

    def rank(self, rank, ranks, masks=True, start=0):
        table, head = Weight(VOCABULARY, HIDDEN, seed="t"), Weight(HIDDEN, VOCABULARY, seed="h")
        size = VOCABULARY // ranks
        graph = [make.graph_input("ids", [1, 5], make.INT64), table.rows(rank * size, (rank + 1) * size).proto("t.part"),
                 head.columns(rank * size, (rank + 1) * size).proto("h.part"),
                 whole("start", rank * size + start), whole("zero", 0), whole("last", size - 1), number("none", 0),
                 ints("axes", 2), make.node("Sub", ["ids", "start"], ["place"]),
                 make.node("Clip", ["place", "zero", "last"], ["near"]),
                 make.node("Equal", ["place", "near"], ["is.here"]),
                 make.node("Unsqueeze", ["is.here", "axes"], ["mask"]),
                 make.node("Gather", ["t.part", "near"], ["row"])]
        if masks:
            graph.append(make.node("Where", ["mask", "row", "none"], ["own"]))
        graph += [make.node("AllReduce", ["own" if masks else "row"], ["e"], domain=MS),
                  make.node("Tanh", ["e"], ["t"]), make.node("MatMul", ["t", "h.part"], ["part"]),
                  make.node("AllGather", ["part"], ["logits"], domain=MS, group_size=ranks, axis=2)]
        return bytes_of(*graph, make.graph_output("logits", [1, 5, VOCABULARY]))

    def test_parallel_embedding_and_head(self):
        for ranks in 2, 3:
            self.proved(self.original(), [self.rank(rank, ranks) for rank in range(ranks)])

    def test_twins(self):
        self.refuted(self.original(), [self.rank(rank, 2, masks=False) for rank in range(2)])
        self.refuted(self.original(), [self.rank(rank, 2, start=rank) for rank in range(2)])


class Polygraphy(Verify):
    """One model for all ranks, as Polygraphy writes them: whole inputs are scattered by their largest, keys and values are
    gathered, each by a DistCollective in lower case."""

    RANKS, TOKENS = 2, 4

    def collective(self, x, y, operation, reduce, axis=0, **more):
        """Along another axis than the first one between two Transposes, as shard.py puts them."""
        attributes = {"collective_operation": operation, "reduce_op": reduce, "root": -1, "group_size": 0, **more}
        if axis == 0:
            return [make.node("DistCollective", [x], [y], **attributes)]
        perm = [axis if i == 0 else 0 if i == axis else i for i in range(2)]
        return [make.node("Transpose", [x], [y + ".pre"], perm=perm),
                make.node("DistCollective", [y + ".pre"], [y + ".post"], **attributes),
                make.node("Transpose", [y + ".post"], [y], perm=perm)]

    def attention(self, q, k, v):
        return [make.node("MatMul", [q, k], ["s"]), make.node("Softmax", ["s"], ["p"], axis=-1),
                make.node("MatMul", ["p", v], ["mix"])]

    def original(self):
        return bytes_of(make.graph_input("x", [self.TOKENS, HIDDEN]), make.node("Transpose", ["x"], ["k"], perm=[1, 0]),
                        *self.attention("x", "k", "x"), make.node("Identity", ["mix"], ["y"]),
                        make.graph_output("y", [self.TOKENS, HIDDEN]))

    def rank(self, scatter=("reduce_scatter", "max"), gather=("all_gather", "sum"), axis=1, **more):
        return bytes_of(make.graph_input("x", [self.TOKENS, HIDDEN]), *self.collective("x", "x_md", *scatter, **more),
                        make.node("Transpose", ["x_md"], ["k"], perm=[1, 0]),
                        *self.collective("k", "k_md", *gather, axis=axis, **more),
                        *self.collective("x_md", "v_md", *gather, **more), *self.attention("x_md", "k_md", "v_md"),
                        *self.collective("mix", "y", *gather, **more), make.graph_output("y", [self.TOKENS, HIDDEN]))

    def test_context_parallel_attention(self):
        self.proved(self.original(), [self.rank()] * self.RANKS)

    def test_either_case_and_either_group(self):
        upper = {"scatter": ("REDUCE_SCATTER", "MAX"), "gather": ("ALL_GATHER", "NONE")}
        self.proved(self.original(), [self.rank(**upper)] * self.RANKS)
        self.proved(self.original(), [self.rank(groups=[0, 1], group_size=2, nb_rank=2)] * self.RANKS)
        self.proved(self.original(), [self.rank(groups=[1, 0], group_size=2, nb_rank=2)] * self.RANKS)
        self.proved(self.original(), [self.rank(scatter=("scatter", "none"), root=0)] * self.RANKS)

    def test_broken_twins(self):
        self.refuted(self.original(), [self.rank(scatter=("reduce_scatter", "sum"))] * self.RANKS)
        self.refuted(self.original(), [self.rank(axis=0)] * self.RANKS)
        self.refuted(self.original(), [self.rank(gather=("all_reduce", "sum"), axis=0)] * self.RANKS)


HEADS, WIDTH, TOKENS = 4, 2, 3


class Attention(Verify):
    """A fused product for queries, keys and values: each rank has its heads of all three."""

    def weights(self):
        size = HEADS * WIDTH
        return [Weight(HIDDEN, size, seed=name) for name in "qkv"] + [Weight(size, HIDDEN, seed="o")]

    def graph(self, heads, scale=WIDTH ** -0.5, axis=-1, order=(0, 2, 1, 3)):
        size = heads * WIDTH
        nodes = [make.node("MatMul", ["x", "qkv"], ["fused"]), ints("parts", size, size, size),
                 make.node("Split", ["fused", "parts"], ["q", "k", "v"], axis=2), number("scale", scale),
                 ints("shape", 1, TOKENS, heads, WIDTH), ints("back", 1, TOKENS, size)]
        for name in "qkv":
            nodes += [make.node("Reshape", [name, "shape"], [f"{name}.r"]),
                      make.node("Transpose", [f"{name}.r"], [f"{name}.h"], perm=list(order))]
        return nodes + [make.node("Transpose", ["k.h"], ["k.t"], perm=[0, 1, 3, 2]),
                        make.node("MatMul", ["q.h", "k.t"], ["s"]), make.node("Mul", ["s", "scale"], ["scaled"]),
                        make.node("Softmax", ["scaled"], ["p"], axis=axis), make.node("MatMul", ["p", "v.h"], ["c"]),
                        make.node("Transpose", ["c"], ["c.t"], perm=[0, 2, 1, 3]),
                        make.node("Reshape", ["c.t", "back"], ["merged"]),
                        make.node("MatMul", ["merged", "o"], ["product"])]

    def original(self):
        q, k, v, o = self.weights()
        return bytes_of(make.graph_input("x", [1, TOKENS, HIDDEN]), beside(q, k, v).proto("qkv"), o.proto("o"),
                        *self.graph(HEADS), make.node("Identity", ["product"], ["y"]),
                        make.graph_output("y", [1, TOKENS, HIDDEN]))

    def rank(self, rank, ranks, block=False, **wrong):
        q, k, v, o = self.weights()
        size = HEADS * WIDTH // ranks
        fused = beside(*(w.columns(rank * size, (rank + 1) * size) for w in (q, k, v)))
        if block: # the fused weight in one piece
            fused = beside(q, k, v).columns(rank * 3 * size, (rank + 1) * 3 * size)
        return bytes_of(make.graph_input("x", [1, TOKENS, HIDDEN]), fused.proto("w"),
                        o.rows(rank * size, (rank + 1) * size).proto("o"),
                        make.node("Identity", ["w"], ["qkv"]), *self.graph(HEADS // ranks, **wrong),
                        make.node("AllReduce", ["product"], ["y"], domain=MS),
                        make.graph_output("y", [1, TOKENS, HIDDEN]))

    def ranks(self, ranks, **wrong):
        return [self.rank(rank, ranks, **wrong) for rank in range(ranks)]

    def test_heads(self):
        for ranks in 2, 4:
            self.proved(self.original(), self.ranks(ranks))

    def test_twins(self):
        self.refuted(self.original(), self.ranks(2, block=True))
        self.refuted(self.original(), self.ranks(2, scale=0.5), "scaled")
        self.refuted(self.original(), self.ranks(2, axis=2), "p")


class Context(Attention):
    """Each rank has its tokens: the keys and values of all are gathered by TensorRT's collective along the first axis, as Polygraphy's
    hints ask for, and the mask of what lies ahead begins at the rank's first token."""

    LENGTH = 8

    def score(self, rows, first, heads, scale, keys):
        """What follows q.h, k.h and v.h: [1, heads, ...]."""
        return [number("scale", scale), make.node("Transpose", [f"k.{keys}"], ["k.t"], perm=[0, 1, 3, 2]),
                make.node("MatMul", ["q.h", "k.t"], ["s"]), make.node("Mul", ["s", "scale"], ["scaled"]),
                Weight.of([rows, self.LENGTH], [0.0 if k <= first + q else float("-inf") for q in range(rows)
                                                for k in range(self.LENGTH)]).proto("m"),
                make.node("Identity", ["m"], ["mask"]), make.node("Add", ["scaled", "mask"], ["hidden"]),
                make.node("Softmax", ["hidden"], ["p"], axis=-1), make.node("MatMul", ["p", f"v.{keys}"], ["c"]),
                make.node("Transpose", ["c"], ["c.t"], perm=[0, 2, 1, 3]), ints("back", 1, rows, heads * WIDTH),
                make.node("Reshape", ["c.t", "back"], ["merged"]), make.node("MatMul", ["merged", "o"], ["y"])]

    def apart(self, rows):
        q, k, v, o = self.weights()
        nodes = [w.proto(name) for w, name in zip((q, k, v, o), ("wq", "wk", "wv", "o"))] + [ints("shape", 1, rows, HEADS, WIDTH)]
        for name in "qkv":
            nodes += [make.node("MatMul", ["x", f"w{name}"], [name]), make.node("Reshape", [name, "shape"], [f"{name}.r"]),
                      make.node("Transpose", [f"{name}.r"], [f"{name}.h"], perm=[0, 2, 1, 3])]
        return nodes

    def original(self):
        return bytes_of(make.graph_input("x", [1, self.LENGTH, HIDDEN]), *self.apart(self.LENGTH),
                        *self.score(self.LENGTH, 0, HEADS, WIDTH ** -0.5, "h"),
                        make.graph_output("y", [1, self.LENGTH, HIDDEN]))

    def rank(self, rank, ranks, turned=False, late=0, scale=WIDTH ** -0.5):
        rows, group = self.LENGTH // ranks, list(range(ranks))
        nodes = self.apart(rows)
        for name in "kv":
            nodes += [make.node("Transpose", [f"{name}.h"], [f"{name}.first"], perm=[2, 0, 1, 3]),
                      make.node("DistCollective", [f"{name}.first"], [f"{name}.all"], domain="trt", collective_operation="ALL_GATHER",
                                reduce_op="NONE", root=-1, nb_rank=ranks, group_size=ranks,
                                groups=group[::-1] if turned and name == "v" else group),
                      make.node("Transpose", [f"{name}.all"], [f"{name}.g"], perm=[1, 2, 0, 3])]
        return bytes_of(make.graph_input("x", [1, rows, HIDDEN]), *nodes, *self.score(rows, rank * rows + late, HEADS, scale, "g"),
                        make.graph_output("y", [1, rows, HIDDEN]))

    def test_heads(self):
        for ranks in 2, 4:
            self.proved(self.original(), self.ranks(ranks))

    def test_twins(self):
        self.refuted(self.original(), self.ranks(2, turned=True))
        self.refuted(self.original(), self.ranks(4, late=1))
        self.refuted(self.original(), self.ranks(2, scale=0.5), "scaled")


class Pipeline(Verify):
    """Models that run one after the other, as a decoder's pipeline in genai_config.json lists them: an embedding, layers, a head; each
    reads what the one before it gives, by name."""

    LAYERS = 4

    def layer(self, i, of=None):
        return [Weight(HIDDEN, HIDDEN, seed=f"w{i if of is None else of}").proto(f"w.{i}"),
                make.node("MatMul", [f"x.{i}", f"w.{i}"], [f"h.{i}"]), make.node("Tanh", [f"h.{i}"], [f"t.{i}"]),
                make.node("Add", [f"t.{i}", f"x.{i}"], [f"x.{i + 1}"])]

    def embedding(self):
        return [make.graph_input("ids", [1, TOKENS], make.INT64), Weight(16, HIDDEN, seed="table").proto("table"),
                make.node("Gather", ["table", "ids"], ["x.0"])]

    def head(self):
        return [Weight(HIDDEN, 16, seed="head").proto("head"), make.node("MatMul", [f"x.{self.LAYERS}", "head"], ["logits"]),
                make.graph_output("logits", [1, TOKENS, 16])]

    def original(self):
        return bytes_of(*self.embedding(), *(part for i in range(self.LAYERS) for part in self.layer(i)), *self.head())

    def stages(self, layers=((0, 1), (2, 3)), of=None, last=None):
        def ports(i, *nodes):
            return make.graph_input(f"x.{i}", [1, TOKENS, HIDDEN]), *nodes

        models = [bytes_of(*self.embedding(), make.graph_output("x.0", [1, TOKENS, HIDDEN]))]
        for own in layers:
            nodes = [part for i in own for part in self.layer(i, of if i == last else None)]
            models.append(bytes_of(*ports(own[0], *nodes), make.graph_output(f"x.{own[-1] + 1}", [1, TOKENS, HIDDEN])))
        return [*models, bytes_of(*ports(self.LAYERS, *self.head()))]

    def test_stages(self):
        self.proved(self.original(), self.stages())
        self.proved(self.original(), self.stages(layers=((0,), (1, 2, 3))))

    def test_twins(self):
        self.refuted(self.original(), self.stages(of=1, last=2))  # a layer with the weights of the one before it
        models = self.stages()
        answer = self.answer(self.original(), [models[0], models[2], models[3]], UNDECIDED)  # a stage that is not there
        self.assertIn("'x.2' is none of the original model's", answer["failures"][0]["message"])


EXPERTS = 4


class Experts(Verify):
    """Each rank has some of the experts; what they give is weighted by the router and added up."""

    def original(self):
        graph = [make.graph_input("x", [TOKENS, HIDDEN]), Weight(HIDDEN, EXPERTS, seed="r").proto("router"),
                 Weight(EXPERTS, HIDDEN, HIDDEN, seed="e").proto("experts"),
                 make.node("MatMul", ["x", "router"], ["s"]), make.node("Softmax", ["s"], ["p"], axis=-1),
                 make.node("Einsum", ["x", "experts"], ["h"], equation="th,ehf->etf"), make.node("Relu", ["h"], ["a"]),
                 make.node("Einsum", ["p", "a"], ["y"], equation="te,etf->tf")]
        return bytes_of(*graph, make.graph_output("y", [TOKENS, HIDDEN]))

    def rank(self, rank, ranks, shift=0, local=False):
        size = EXPERTS // ranks
        first = rank * size
        own = Weight(EXPERTS, HIDDEN, HIDDEN, seed="e").rows(first, first + size)
        router = Weight(HIDDEN, EXPERTS, seed="r")
        if local: # the router's probabilities over the rank's own experts
            router = router.columns(first, first + size)
        place = (first + shift) % EXPERTS
        graph = [make.graph_input("x", [TOKENS, HIDDEN]), router.proto("router"), own.proto("own"),
                 ints("from", 0 if local else place), ints("to", size if local else place + size), ints("axes", 1),
                 make.node("MatMul", ["x", "router"], ["s"]), make.node("Softmax", ["s"], ["p"], axis=-1),
                 make.node("Slice", ["p", "from", "to", "axes"], ["p.own"]),
                 make.node("Einsum", ["x", "own"], ["h"], equation="th,ehf->etf"), make.node("Relu", ["h"], ["a"]),
                 make.node("Einsum", ["p.own", "a"], ["part"], equation="te,etf->tf"),
                 make.node("AllReduce", ["part"], ["y"], domain=MS)]
        return bytes_of(*graph, make.graph_output("y", [TOKENS, HIDDEN]))

    def test_experts(self):
        for ranks in 2, 4:
            self.proved(self.original(), [self.rank(rank, ranks) for rank in range(ranks)])

    def test_twins(self):
        self.refuted(self.original(), [self.rank(rank, 2, shift=2) for rank in range(2)])
        self.refuted(self.original(), [self.rank(rank, 2, local=True) for rank in range(2)])


class Large(Verify):
    """Layers of a decoder of 405 billion parameters, whose weights are nowhere: the ranks' are taken to be the parts that their
    names, shapes and order say."""

    HIDDEN, INNER, HEADS, KV, WIDTH, VOCABULARY = 16384, 53248, 128, 8, 128, 128256

    def setUp(self):
        super().setUp()
        self.weights = make.Weights("external")

    def norm(self, x, y, scale, tag):
        return [make.node("Mul", [x, x], [f"square{tag}"]),
                make.node("ReduceMean", [f"square{tag}"], [f"mean{tag}"], axes=[-1]),
                make.node("Add", [f"mean{tag}", "eps"], [f"sum{tag}"]), make.node("Sqrt", [f"sum{tag}"], [f"root{tag}"]),
                make.node("Div", [x, f"root{tag}"], [f"quotient{tag}"]), make.node("Mul", [f"quotient{tag}", scale], [y])]

    def attention(self, i, ranks):
        heads, groups = self.HEADS // ranks, self.KV // ranks
        size, small, each = heads * self.WIDTH, groups * self.WIDTH, heads // groups
        tensor = self.weights.tensor
        return [tensor(f"wq.{i}", [self.HIDDEN, size]), tensor(f"wk.{i}", [self.HIDDEN, small]),
                tensor(f"wv.{i}", [self.HIDDEN, small]), tensor(f"wo.{i}", [size, self.HIDDEN]),
                ints(f"of.q.{i}", 1, TOKENS, groups, each, self.WIDTH), ints(f"of.k.{i}", 1, TOKENS, groups, 1, self.WIDTH),
                ints(f"back.{i}", 1, TOKENS, size),
                *(make.node("MatMul", [f"h.{i}", f"w{name}.{i}"], [f"{name}.{i}"]) for name in "qkv"),
                make.node("Reshape", [f"q.{i}", f"of.q.{i}"], [f"q5.{i}"]),
                make.node("Reshape", [f"k.{i}", f"of.k.{i}"], [f"k5.{i}"]),
                make.node("Reshape", [f"v.{i}", f"of.k.{i}"], [f"v5.{i}"]),
                make.node("Transpose", [f"q5.{i}"], [f"qt.{i}"], perm=[0, 2, 3, 1, 4]),
                make.node("Transpose", [f"k5.{i}"], [f"kt.{i}"], perm=[0, 2, 3, 4, 1]),
                make.node("Transpose", [f"v5.{i}"], [f"vt.{i}"], perm=[0, 2, 3, 1, 4]),
                make.node("MatMul", [f"qt.{i}", f"kt.{i}"], [f"s.{i}"]), make.node("Mul", [f"s.{i}", "scale"], [f"ss.{i}"]),
                make.node("Softmax", [f"ss.{i}"], [f"p.{i}"], axis=-1),
                make.node("MatMul", [f"p.{i}", f"vt.{i}"], [f"c.{i}"]),
                make.node("Transpose", [f"c.{i}"], [f"ct.{i}"], perm=[0, 3, 1, 2, 4]),
                make.node("Reshape", [f"ct.{i}", f"back.{i}"], [f"m.{i}"]),
                make.node("MatMul", [f"m.{i}", f"wo.{i}"], [f"o.{i}"])]

    def layer(self, i, x, ranks, gate="Sigmoid"):
        size, tensor = self.INNER // ranks, self.weights.tensor
        summed = [make.node("AllReduce", [f"{name}.{i}"], [f"{name}.sum.{i}"], domain=MS) if ranks > 1 else
                  make.node("Identity", [f"{name}.{i}"], [f"{name}.sum.{i}"]) for name in "od"]
        return [tensor(f"g1.{i}", [self.HIDDEN]), tensor(f"g2.{i}", [self.HIDDEN]), tensor(f"wg.{i}", [self.HIDDEN, size]),
                tensor(f"wu.{i}", [self.HIDDEN, size]), tensor(f"wd.{i}", [size, self.HIDDEN]),
                *self.norm(x, f"h.{i}", f"g1.{i}", f".a{i}"), *self.attention(i, ranks), summed[0],
                make.node("Add", [f"o.sum.{i}", x], [f"r.{i}"]), *self.norm(f"r.{i}", f"h2.{i}", f"g2.{i}", f".b{i}"),
                make.node("MatMul", [f"h2.{i}", f"wg.{i}"], [f"gate.{i}"]), make.node(gate, [f"gate.{i}"], [f"gated.{i}"]),
                make.node("MatMul", [f"h2.{i}", f"wu.{i}"], [f"up.{i}"]),
                make.node("Mul", [f"gated.{i}", f"up.{i}"], [f"act.{i}"]),
                make.node("MatMul", [f"act.{i}", f"wd.{i}"], [f"d.{i}"]), summed[1],
                make.node("Add", [f"d.sum.{i}", f"r.{i}"], [f"x.{i}"])]

    def head(self, x, ranks):
        size = self.VOCABULARY // ranks
        return [self.weights.tensor("head", [self.HIDDEN, size]), make.node("MatMul", [x, "head"], ["logits"]),
                make.graph_output("logits", [1, TOKENS, size])]

    def embedding(self):
        return [make.graph_input("ids", [1, TOKENS], make.INT64), self.weights.tensor("table", [self.VOCABULARY, self.HIDDEN]),
                make.node("Gather", ["table", "ids"], ["x.in"])]

    def bytes_of(self, *graph):
        return bytes_of(number("eps", 1e-5), number("scale", self.WIDTH ** -0.5), *graph)

    def write(self, ranks, stages, layers, wrong=None):
        """The manifest, and what it lists; `wrong` is a rank whose last layer has another gate."""
        devices, each = [], layers // stages
        for stage in range(stages):
            for rank in range(ranks):
                x, number_ = f"x.{stage * each - 1}", stage * ranks + rank
                graph, inputs = ([make.graph_input(x, [1, TOKENS, self.HIDDEN])],
                                 {"name": x, "from": "device", "device": number_ - ranks, "part": 0, "output": x})
                if stage == 0:
                    x, graph = "x.in", self.embedding()
                    inputs = {"name": "ids", "from": "input", "tensor": "ids", "box": None}
                for i in range(stage * each, (stage + 1) * each):
                    last = number_ == wrong and i == (stage + 1) * each - 1
                    graph += self.layer(i, x, ranks, "Tanh" if last else "Sigmoid")
                    x = f"x.{i}"
                size = self.VOCABULARY // ranks
                outputs = {"name": "logits", "to": "output", "tensor": "logits",
                           "box": [[0, 1], [0, TOKENS], [rank * size, (rank + 1) * size]]}
                if stage == stages - 1:
                    graph += self.head(x, ranks)
                else:
                    graph.append(make.graph_output(x, [1, TOKENS, self.HIDDEN]))
                    outputs = {"name": x, "to": "device"}
                self.file(f"device-{number_}.onnx", self.bytes_of(*graph))
                devices.append({"id": number_, "world": stage, "rank": rank, "parts": [
                    {"part": 0, "model": f"device-{number_}.onnx", "inputs": [inputs], "outputs": [outputs]}]})
        return self.file("manifest.json", json.dumps({"devices": devices}).encode())

    def test_stages_of_eight(self):
        layers, x, graph = 8, "x.in", self.embedding()
        for i in range(layers):
            graph += self.layer(i, x, 1)
            x = f"x.{i}"
        original = self.file("original.onnx", self.bytes_of(*graph, *self.head(x, 1)))
        answer = self.json("verify", original, "--manifest", self.write(8, 2, layers))
        self.assertEqual((answer["verdict"], answer["programs"], len(answer["reasons"])), ("proved", 16, 2 * layers))
        result = test_cli.run("verify", original, "--manifest", self.write(8, 2, layers, wrong=13), "--json")
        answer = json.loads(result.stdout)
        self.assertEqual((result.returncode, answer["verdict"]), (REFUTED, "refuted"))
        self.assertEqual((answer["failures"][0]["rank"], answer["failures"][0]["operator"]), (13, "Tanh"))


class Signal(Verify):
    """The transform of frames against the same spelt out: frames by Gather, and products with cosines and sines."""

    LENGTH, SIZE = 12, 4

    def original(self, step=2, onesided=1):
        nodes = [make.graph_input("x", [2, self.LENGTH, 1]), Weight(self.SIZE, seed="w").proto("window"), whole("step", step),
                 make.node("STFT", ["x", "step", "window"], ["y"], onesided=onesided)]
        return bytes_of(*nodes, make.graph_output("y", [2, 5, 3 if onesided else self.SIZE, 2]))

    def rank(self, step=2, onesided=1, windowed=True, sign=-1.0):
        bins = 3 if onesided else self.SIZE
        cosines, sines = [1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, -1.0]
        turned = [table[n * k % 4] * factor for table, factor in ((cosines, 1.0), (sines, sign)) for n in range(4) for k in range(bins)]
        places = [frame * step + n for frame in range(5) for n in range(4)]
        nodes = [make.graph_input("x", [2, self.LENGTH, 1]), Weight(self.SIZE, seed="w").proto("window"), ints("places", *places),
                 Weight.of([4, bins], turned[:4 * bins]).proto("c"), Weight.of([4, bins], turned[4 * bins:]).proto("s"),
                 ints("shape", 2, 5, 4), ints("-1", -1), make.node("Gather", ["x", "places"], ["g"], axis=1),
                 make.node("Reshape", ["g", "shape"], ["f"]),
                 make.node("Mul", ["f", "window"], ["w"]) if windowed else make.node("Identity", ["f"], ["w"]),
                 make.node("MatMul", ["w", "c"], ["re"]), make.node("MatMul", ["w", "s"], ["im"]),
                 make.node("Unsqueeze", ["re", "-1"], ["re.u"]), make.node("Unsqueeze", ["im", "-1"], ["im.u"]),
                 make.node("Concat", ["re.u", "im.u"], ["part"], axis=3)]
        return bytes_of(*nodes, make.node("Identity", ["part"], ["y"]), make.graph_output("y", [2, 5, bins, 2]))

    def test_spelt_out(self):
        for onesided in 0, 1:
            self.proved(self.original(onesided=onesided), [self.rank(onesided=onesided)])

    def test_twins(self):
        self.refuted(self.original(), [self.rank(windowed=False)])
        self.refuted(self.original(), [self.rank(sign=1.0)])
        self.refuted(self.original(), [self.rank(step=1)])


class Padded(Verify):
    """Attention of com.microsoft with a mask of padding, against the same spelt out; a sum of no key is taken for 1."""

    def inputs(self):
        return [make.graph_input("q", [2, 2, 4]), make.graph_input("k", [2, 3, 4]), make.graph_input("v", [2, 3, 4]),
                make.graph_input("m", [2, 3], 6)]

    def original(self, **more):
        return bytes_of(*self.inputs(), make.node("MultiHeadAttention", ["q", "k", "v", "", "m"], ["y"], domain=MS, num_heads=1, **more),
                        make.graph_output("y", [2, 2, 4]))

    def rank(self, value=-10000.0, kept=0, axis=1):
        nodes = [number("scale", 0.5), number("none", 0), number("hidden", value), number("one", 1), ints("axis", axis), ints("-1", -1),
                 make.delimited(5, make.integer(2, 6), make.delimited(8, "zero"), make.delimited(9, struct.pack("<i", kept))),
                 make.node("Transpose", ["k"], ["k.t"], perm=[0, 2, 1]), make.node("MatMul", ["q", "k.t"], ["s"]),
                 make.node("Mul", ["s", "scale"], ["scaled"]), make.node("Greater", ["m", "zero"], ["kept"]),
                 make.node("Where", ["kept", "none", "hidden"], ["f"]), make.node("Unsqueeze", ["f", "axis"], ["f.u"]),
                 make.node("Add", ["scaled", "f.u"], ["b"]), make.node("ReduceMax", ["b"], ["most"], axes=[2]),
                 make.node("Sub", ["b", "most"], ["d"]), make.node("Exp", ["d"], ["e"]),
                 make.node("ReduceSum", ["e", "-1"], ["sum"], keepdims=1), make.node("Max", ["sum", "one"], ["least"]),
                 make.node("Div", ["e", "least"], ["p"]), make.node("MatMul", ["p", "v"], ["y"])]
        return bytes_of(*self.inputs(), *nodes, make.graph_output("y", [2, 2, 4]))

    def test_spelt_out(self):
        self.proved(self.original(), [self.rank()])
        self.proved(self.original(mask_filter_value=-7.0), [self.rank(value=-7.0)])

    def test_twins(self):
        for value, broken in (-7.0, {"value": -7.5}), (-0.5, {"value": -0.5, "kept": 1}), (-0.5, {"value": 0.5}):
            answer = self.answer(self.original(mask_filter_value=value), [self.rank(**broken)], REFUTED)
            self.assertEqual(answer["verdict"], "refuted")


class Decided(Verify):
    def one(self, *nodes, weights=()):
        return bytes_of(make.graph_input("x", [2, 4]), *weights, *nodes, make.graph_output("y", [2, 4]))

    def test_twice_is_two_times(self):
        twice = self.one(make.node("Add", ["x", "x"], ["y"]))
        product = self.one(make.node("Mul", ["x", "two"], ["y"]), weights=[number("two", 2)])
        self.proved(twice, [product])
        self.proved(product, [twice])

    def test_a_law_of_a_function_is_undecided(self):
        one = self.one(make.node("Neg", ["x"], ["n"]), make.node("Exp", ["n"], ["e"]),
                       make.node("Reciprocal", ["e"], ["y"]))
        self.assertEqual(self.answer(one, [self.one(make.node("Exp", ["x"], ["y"]))], UNDECIDED)["verdict"], "undecided")

    def test_an_operator_that_cannot_be_evaluated(self):
        noise = self.one(make.node("RandomNormalLike", ["x"], ["y"]))
        answer = self.answer(noise, [noise], UNDECIDED)
        self.assertIn("RandomNormalLike", answer["failures"][0]["message"])

    def test_operands_that_do_not_fit(self):
        """A mean with an omitted term, and channels that are no multiple of the groups."""
        mean = self.one(make.node("Mean", ["x", ""], ["y"]))
        answer = self.answer(mean, [mean], UNDECIDED)
        self.assertIn("an operand is missing", answer["failures"][0]["message"])
        norm = make.encode(make.model(
            make.graph_input("x", [2, 3, 5]), make.graph_input("s", [3]), make.graph_input("b", [3]),
            make.node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2), make.graph_output("y", [2, 3, 5]),
            opset=21))
        answer = self.answer(norm, [norm], UNDECIDED)
        self.assertIn("GroupNormalization", answer["failures"][0]["message"])

    def test_branches_inside_branches(self):
        """Each level negates what the one inside it gives: an even number of them is none, an odd one is not."""
        def branch(level, node):
            return [node, make.delimited(2, f"g{level}"), make.delimited(12, make.delimited(1, f"y{level}"))]

        def choice(level, then_branch, else_branch):
            return make.delimited(1, make.delimited(1, "c"), make.delimited(2, f"t{level}"), make.delimited(4, "If"), *[
                make.delimited(5, make.delimited(1, name), make.delimited(6, *graph), make.integer(20, 5))
                for name, graph in (("then_branch", then_branch), ("else_branch", else_branch))])

        condition = make.delimited(5, make.integer(2, 9), make.delimited(8, "c"), make.delimited(9, b"\x01"))
        for levels in 1, 2, 7, 40:
            inner = branch(0, make.node("Tanh", ["x"], ["y0"]))
            for level in range(1, levels + 1):
                other = [make.node("Exp", ["x"], [f"e{level}"]), make.delimited(2, "other"),
                         make.delimited(12, make.delimited(1, f"e{level}"))]
                chosen = choice(level, inner, other)
                inner = branch(level, [chosen, make.node("Neg", [f"t{level}"], [f"y{level}"])])
            original = self.one(chosen, make.node("Neg", [f"t{levels}"], ["y"]), weights=[condition])
            flat = [self.one(make.node("Tanh", ["x"], ["y"])),
                    self.one(make.node("Tanh", ["x"], ["a"]), make.node("Neg", ["a"], ["y"]))]
            self.proved(original, [flat[levels % 2]])
            self.refuted(original, [flat[1 - levels % 2]])

    def test_an_output_of_which_a_part_is_nowhere(self):
        original = self.one(make.node("Tanh", ["x"], ["y"]))
        part = bytes_of(make.graph_input("x", [1, 4]), make.node("Tanh", ["x"], ["y"]), make.graph_output("y", [1, 4]))
        self.proved(original, [part, part])
        self.assertIn("has all of", self.refuted(original, [part])[0]["message"])

    def test_a_mean_of_parts(self):
        """Thirds are rounded in the file; the sum of the parts' shares is the mean for all that."""
        def graph(rows, *nodes, weights=()):
            return bytes_of(make.graph_input("x", [rows, 4]), *weights, *nodes, make.graph_output("y", [1, 4]))

        mean = make.node("ReduceMean", ["x"], ["y"], axes=[0], keepdims=1)
        for share, verdict in (1 / 3, "proved"), (1 / 2, "refuted"):
            ranks = [graph(2, make.node("ReduceMean", ["x"], ["m"], axes=[0], keepdims=1), make.node("Mul", ["m", "share"], ["p"]),
                           make.node("AllReduce", ["p"], ["y"], domain=MS), weights=[number("share", share)])] * 3
            self.assertEqual(self.answer(graph(6, mean), ranks, 0 if verdict == "proved" else REFUTED)["verdict"], verdict)

    def test_numbers_beside_each_other(self):
        """A scale or an epsilon that is the next number of its type is another one, however near both are to a fraction."""
        def scaled(value):
            return self.one(make.node("Mul", ["x", "scale"], ["y"]), weights=[number("scale", value)])

        def norm(value):
            return self.one(make.node("LayerNormalization", ["x", "w"], ["y"], epsilon=value), weights=[Weight(4).proto("w")])

        for form, value in (scaled, 0.125), (scaled, 0.1), (scaled, 64 ** -0.5), (scaled, 80 ** -0.5), (norm, 1e-5), (norm, 0.125):
            for step in -1, 1:
                bits = struct.unpack("<i", struct.pack("<f", value))[0] + step
                beside = struct.unpack("<f", struct.pack("<i", bits))[0]
                self.assertEqual(self.answer(form(value), [form(beside)], UNDECIDED)["verdict"], "undecided")
            self.proved(form(value), [form(value)])
        self.refuted(norm(1e-5), [norm(1.0001e-5)])
        self.refuted(scaled(0.125), [scaled(0.12501)])

    def test_fewer_rows_of_an_image(self):
        """Before operator set 11 the nearest row is the next one where fewer are made: places 0, 1 2/3, 3 1/3, 5."""
        def graph(*nodes):
            return make.encode(make.model(make.graph_input("x", [1, 1, 7, 2]), make.delimited(
                5, make.integer(1, 4), make.integer(2, make.FLOAT), make.delimited(8, "scales"),
                make.delimited(9, struct.pack("<4f", 1, 1, 0.6, 1))), ints("right", 0, 2, 4, 5), ints("wrong", 0, 1, 3, 5), *nodes,
                make.graph_output("y", [1, 1, 4, 2]), opset=10))

        original = graph(make.node("Resize", ["x", "scales"], ["y"]))
        self.proved(original, [graph(make.node("Gather", ["x", "right"], ["y"], axis=2))])
        self.refuted(original, [graph(make.node("Gather", ["x", "wrong"], ["y"], axis=2))])

    def test_linear_attention(self):
        """Rows of the state are added up over ranks, with the whole head's scale; a delta rule reads all rows in each step."""
        def graph(size, output, rule, *nodes, **attributes):
            shapes = {"q": size, "k": size, "v": 6, "decay": size, "beta": 1}
            names = ["q", "k", "v", "", "decay" if "gated" in rule else "", "beta" if "delta" in rule else ""]
            return bytes_of(*(make.graph_input(name, [1, 3, shapes[name]]) for name in names if name),
                            make.node("LinearAttention", names, [output, ""], domain=MS, q_num_heads=1, kv_num_heads=1,
                                      update_rule=rule, **attributes), *nodes, make.graph_output("y", [1, 3, 6]))

        reduce = make.node("AllReduce", ["p"], ["y"], domain=MS)
        for rule in "linear", "gated":
            original = graph(8, "y", rule)
            self.proved(original, [graph(4, "p", rule, reduce, scale=8 ** -0.5)] * 2)
            self.refuted(original, [graph(4, "p", rule, reduce)] * 2)
        original = graph(8, "y", "gated_delta")
        self.proved(original, [original])
        self.refuted(original, [graph(4, "p", "gated_delta", reduce, scale=8 ** -0.5)] * 2)

    def test_roots_of_parts(self):
        """Pools of powers of the rows of each rank: roots that are taken back, added up, and taken again."""
        def graph(rows, *nodes, weights=()):
            return bytes_of(make.graph_input("x", [1, 2, rows, 3]), *weights, *nodes, make.graph_output("y", [1, 2, 1, 1]))

        for power in 2, 3:
            original = graph(6, make.node("GlobalLpPool", ["x"], ["y"], p=power))
            for back, root, verdict in (power, 1 / power, self.proved), (power + 1, 1 / power, self.refuted), (power, 1, self.refuted):
                rank = graph(3, make.node("LpPool", ["x"], ["own"], kernel_shape=[3, 3], p=power), make.node("Pow", ["own", "back"], ["p"]),
                             make.node("AllReduce", ["p"], ["sum"], domain=MS), make.node("Pow", ["sum", "root"], ["y"]),
                             weights=[number("back", back), number("root", root)])
                verdict(original, [rank] * 2)

    def test_channels_around(self):
        """LRN of the channels of a rank and those beside them, and without these."""
        def graph(channels, *nodes, weights=()):
            return bytes_of(make.graph_input("x", [1, 8, 3]), *weights, *nodes, make.graph_output("y", [1, channels, 3]))

        def rank(start, limit, keep):
            return graph(4, make.node("Slice", ["x", "start", "limit", "one"], ["own"]),
                         make.node("LRN", ["own"], ["n"], size=3, alpha=0.5, beta=0.5),
                         make.node("Slice", ["n", "from", "to", "one"], ["y"]),
                         weights=[ints("start", start), ints("limit", limit), ints("one", 1), ints("from", keep), ints("to", keep + 4)])

        original = graph(8, make.node("LRN", ["x"], ["y"], size=3, alpha=0.5, beta=0.5))
        self.proved(original, [rank(0, 5, 0), rank(3, 8, 1)])
        self.refuted(original, [rank(0, 4, 0), rank(3, 8, 1)])

    def test_a_folded_scale(self):
        """Scores by sqrt(d), and times what was folded of it: in double precision, or in float32 at each step."""
        def single(value):
            return struct.unpack("<f", struct.pack("<f", value))[0]

        for size in 8, 48, 80, 96, 112, 192:
            original = self.one(make.node("Sqrt", ["d"], ["root"]), make.node("Div", ["x", "root"], ["y"]), weights=[number("d", size)])
            for scale in size ** -0.5, single(1 / single(size ** 0.5)):
                self.proved(original, [self.one(make.node("Mul", ["x", "scale"], ["y"]), weights=[number("scale", scale)])])

    def test_a_value_that_ranks_are_made_for(self):
        """A shape that an input says: undecided without its value, then proved or not."""
        original = make.encode(make.model(make.graph_input("x", [6, 4]), make.graph_input("to", [2], make.INT64),
                                          make.node("Reshape", ["x", "to"], ["y"]), make.graph_output("y", ["r", "c"])))
        rank = make.encode(make.model(make.graph_input("x", [6, 4]), ints("own", 3, 8), make.node("Reshape", ["x", "own"], ["y"]),
                                      make.graph_output("y", [3, 8])))
        self.assertEqual(self.answer(original, [rank], UNDECIDED)["verdict"], "undecided")
        self.assertEqual(self.answer(original, [rank], 0, "--value", "to=3,8")["verdict"], "proved")
        files = self.file("original.onnx", original), self.file("rank.onnx", rank)
        self.json("verify", *files, "--value", "to", status=2)
        self.json("verify", *files, "--value", "nothing=1", status=2)

    def test_a_recurrent_operator_spelt_out(self):
        """One step of a GRU and of an RNN, and the same in products and functions; with the gates the other way round it differs."""
        def graph(cell, *nodes):
            gates = {"GRU": 3, "RNN": 1}[cell]
            return bytes_of(make.graph_input("x", [1, 1, 4]), make.graph_input("h", [1, 1, 4]), Weight(1, gates * 4, 4, seed="w").proto("w"),
                            Weight(1, gates * 4, 4, seed="r").proto("r"), *nodes, make.graph_output("y", [1, 1, 4]))

        def turned(name, parts):
            return [make.node("Transpose", [name], [f"{name}.t"], perm=[0, 2, 1]),
                    *([make.node("Split", [f"{name}.t", "parts"], [f"{name}.{i}" for i in range(parts)], axis=2)] if parts > 1 else
                      [make.node("Identity", [f"{name}.t"], [f"{name}.0"])])]

        def gate(i, state="h"):
            return [make.node("MatMul", ["x", f"w.{i}"], [f"a.{i}"]), make.node("MatMul", [state, f"r.{i}"], [f"b.{i}"]),
                    make.node("Add", [f"a.{i}", f"b.{i}"], [f"g.{i}"])]

        rnn = graph("RNN", make.node("RNN", ["x", "w", "r", "", "", "h"], ["", "y"], hidden_size=4))
        self.proved(rnn, [graph("RNN", *turned("w", 1), *turned("r", 1), *gate(0), make.node("Tanh", ["g.0"], ["y"]))])
        gru = graph("GRU", make.node("GRU", ["x", "w", "r", "", "", "h"], ["", "y"], hidden_size=4))
        for update, reset in (0, 1), (1, 0):
            spelt = graph("GRU", ints("parts", 4, 4, 4), number("one", 1), *turned("w", 3), *turned("r", 3), *gate(update), *gate(reset),
                          make.node("Sigmoid", [f"g.{update}"], ["z"]), make.node("Sigmoid", [f"g.{reset}"], ["reset"]),
                          make.node("Mul", ["reset", "h"], ["kept"]), *gate(2, "kept"), make.node("Tanh", ["g.2"], ["new"]),
                          make.node("Sub", ["one", "z"], ["rest"]), make.node("Mul", ["rest", "new"], ["p"]),
                          make.node("Mul", ["z", "h"], ["q"]), make.node("Add", ["p", "q"], ["y"]))
            (self.proved if update == 0 else self.refuted)(gru, [spelt])

    def test_usage(self):
        path = self.file("x.onnx", self.one(make.node("Tanh", ["x"], ["y"])))
        self.json("verify", path, status=2)
        self.json("verify", path, path, "--simulation", path, status=2)
        self.json("verify", path, "--manifest", self.path("nothing.json"), status=2)
        self.json("verify", path, "--manifest", self.file("m.json", b"{}"), status=2)
        self.json("verify", path, self.file("n.onnx", b"no model"), status=2)

    def test_what_plan_writes(self):
        model = self.file("mlp.onnx", make.encode(make.mlp(2, 16, 4, weights="pattern")))
        folder = self.path("out")
        self.done("plan", model, "--devices", "2", "--strategy", "tensor", "--tolerance", "0", "--emit", folder)
        for what in ["--manifest", os.path.join(folder, "manifest.json")], [
                "--simulation", os.path.join(folder, "simulation.onnx")]:
            answer = self.json("verify", model, *what)
            self.assertEqual((answer["verdict"], answer["failures"]), ("proved", []))
            self.assertGreater(answer["nodes"], 0)

    def test_an_annotated_model(self):
        """Weights that are nowhere, too: the simulation in memory declares their boxes."""
        for layers, width, weights in (2, 16, "pattern"), (2, 16, "external"), (4, 4096, "external"):
            model = self.file("mlp.onnx", make.encode(make.mlp(layers, width, 8, weights=weights)))
            annotated = self.path("annotated.onnx")
            self.done("plan", model, "--devices", "2", "--strategy", "tensor", "--tolerance", "0", "-o", annotated)
            answer = self.json("verify", "--annotated", annotated)
            self.assertEqual((answer["verdict"], answer["failures"]), ("proved", []))
            self.assertEqual(answer["indices"], "some" if width > 16 else "all")
        self.json("verify", model, "--annotated", annotated, status=2)


if __name__ == "__main__":
    unittest.main()
