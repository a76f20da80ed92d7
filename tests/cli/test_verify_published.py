#!/usr/bin/env python3
"""`shardplan verify` on published test cases: those of ONNX Runtime's Distributed operators as pairs of an operator and the
models of its ranks, and what our own writer makes of plans with such operators; Shardy's reshards as pairs of a tensor and what
devices do to have it in other parts."""

import copy
import itertools
import json
import os
import re
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
sys.dont_write_bytecode = True

import onnx_make as make  # noqa: E402
import test_cli  # noqa: E402
from test_verify import MS, PROVED, REFUTED, UNDECIDED  # noqa: E402

CASES = os.path.join(os.environ.get("SHARDPLAN_TEST_DATA", ""), "ort_distributed_cases.json")
TYPES = {"float32": make.FLOAT, "int64": make.INT64}


def strings(name, values):
    return make.delimited(5, make.delimited(1, name), *(make.delimited(9, value) for value in values), make.integer(20, 8))


def integers(name, values):
    return make.delimited(5, make.integer(1, len(values)), make.integer(2, make.INT64), make.delimited(8, name),
                          make.delimited(9, struct.pack(f"<{len(values)}q", *values)))


def node(op, domain, inputs, outputs, *attributes):
    return make.delimited(1, *(make.delimited(1, name) for name in inputs), *(make.delimited(2, name) for name in outputs),
                          make.delimited(3, "it"), make.delimited(4, op), *attributes, make.delimited(7, domain))


def model(*graph):
    imports = [make.integer(1, 8), make.delimited(8, make.delimited(1, ""), make.integer(2, 18)),
               make.delimited(8, make.delimited(1, MS), make.integer(2, 1))]
    return make.encode([*imports, make.delimited(7, *graph, make.delimited(2, "made"))])


def cut_axis(tensor):
    """The axis that is cut, or None."""
    spec = tensor["shard_spec"].replace("S[0]", "S")
    return spec.index("S") if "S" in spec else None


def box(tensor, rank):
    """What a rank has of a tensor, as a manifest says it: the pieces of its axis that go to the rank, in their order."""
    axis, elements = cut_axis(tensor), tensor["device_mesh_elements"]
    ranges = [[0, extent] for extent in tensor["global_shape"]]
    if axis is None:
        return ranges
    length = tensor["global_shape"][axis] // len(elements)
    ranges[axis] = [[i * length, (i + 1) * length] for i, owner in enumerate(elements) if owner == rank]
    return ranges


class Distributed(test_cli.Case):
    def cases(self):
        if not os.path.exists(CASES):
            self.skipTest("the cases of SHARDPLAN_TEST_DATA are not there")
        with open(CASES, encoding="utf-8") as file:
            return json.load(file)["cases"]

    def attributes(self, case):
        return [make.attribute(name, value) for name, value in case["attributes"].items()]

    def original(self, case):
        parts = [make.graph_input(item["name"], item["global_shape"]) if item["dtype"] == "float32" else
                 integers(item["name"], item["global_values"]) for item in case["inputs"]]
        outputs = [make.graph_output(item["name"], item["global_shape"]) for item in case["outputs"]]
        return model(*parts, node(case["op"].removeprefix("Distributed"), "", [item["name"] for item in case["inputs"]],
                                  [item["name"] for item in case["outputs"]], *self.attributes(case)), *outputs)

    def specs(self, case):
        """{name: texts} of the six attributes."""
        made = {}
        for side in "input", "output":
            items = case[side + "s"]
            made[f"{side}_shard_specs"] = [item["shard_spec"] for item in items]
            made[f"{side}_device_mesh_shapes"] = [f"[{item['device_mesh_shape'][0]}]" for item in items]
            made[f"{side}_device_mesh_elements"] = [json.dumps(item["device_mesh_elements"]).replace(" ", "") for item in items]
        return made

    def distributed(self, case, inputs, outputs, specs=None):
        texts = [strings(name, values) for name, values in (specs or self.specs(case)).items()]
        return node(case["op"], MS, inputs, outputs, *self.attributes(case), *texts)

    def rank(self, case, rank):
        def shape(item):
            return item["local_shapes"][str(rank)] if "local_shapes" in item else item["global_shape"]

        parts = [make.graph_input(item["name"], shape(item)) if item["dtype"] == "float32" else
                 integers(item["name"], item["global_values"]) for item in case["inputs"]]
        return model(*parts, self.distributed(case, [item["name"] for item in case["inputs"]],
                                              [item["name"] for item in case["outputs"]]),
                     *(make.graph_output(item["name"], shape(item)) for item in case["outputs"]))

    def verify(self, case, ranks, said=None):
        """The verdict; `said` is the case by which the manifest has its boxes."""
        said = said or case
        manifest = {"devices": [{"id": rank, "world": 0, "rank": rank, "parts": [{
            "part": 0, "model": f"rank-{rank}.onnx",
            "inputs": [{"name": item["name"], "from": "input", "tensor": item["name"], "box": box(item, rank)}
                       for item in said["inputs"] if item["dtype"] == "float32"],
            "outputs": [{"name": item["name"], "to": "output", "tensor": item["name"], "box": box(item, rank)}
                        for item in said["outputs"]]}]} for rank in range(len(ranks))]}
        for number, made in enumerate(ranks):
            self.file(f"rank-{number}.onnx", made)
        result = test_cli.run("verify", self.file("original.onnx", self.original(case)), "--manifest",
                              self.file("manifest.json", json.dumps(manifest).encode()), "--json")
        self.assertIn(result.returncode, (PROVED, REFUTED, UNDECIDED), result.stderr)
        return json.loads(result.stdout)

    def ranks(self, case):
        return [self.rank(case, rank) for rank in range(case["world_size"])]

    def test_published_cases(self):
        for case in self.cases():
            with self.subTest(case["id"]):
                answer = self.verify(case, self.ranks(case))
                self.assertEqual((answer["verdict"], answer["failures"]), ("proved", []))

    def test_twins(self):
        """The same with the pieces of a result, or of an operand, in another order of ranks, and an axis too far."""
        count = 0
        for case in self.cases():
            twins = []
            for side in "inputs", "outputs":
                for i, item in enumerate(case[side]):
                    if cut_axis(item) is None:
                        continue
                    turned = copy.deepcopy(case)
                    turned[side][i]["device_mesh_elements"] = [1 - owner for owner in item["device_mesh_elements"]]
                    twins.append(turned)
            for twin in twins:
                count += 1
                with self.subTest(case["id"], count=count):
                    answer = self.verify(case, [self.rank(twin, rank) for rank in range(2)], said=case)
                    self.assertEqual(answer["verdict"], "refuted", answer)
                    self.assertIn("'it'", answer["failures"][0]["node"])
        self.assertGreater(count, 30)

    def test_one_mesh_of_a_node(self):
        """The first form of these operators: one mesh, as integers."""
        case = next(case for case in self.cases() if case["id"] == "test_matmul_rs_sr_rr")
        for elements, verdict in ([0, 1], "proved"), ([0, 0], "refuted"):
            first = [strings("input_shard_specs", ["RS[0]", "S[0]R"]), strings("output_shard_specs", ["RR"]),
                     make.attribute("device_mesh_shape", [2]), make.attribute("device_mesh_elements", elements)]
            made = model(make.graph_input("A", [2, 2]), make.graph_input("B", [2, 2]), node(case["op"], MS, ["A", "B"], ["Y"], *first),
                         make.graph_output("Y", [2, 2]))
            self.assertEqual(self.verify(case, [made, made])["verdict"], verdict)

    def test_copies_that_differ(self):
        """An operand that is said to be whole on each rank, of which the second has another one."""
        case = next(case for case in self.cases() if case["id"] == "test_matmul_rr_rs_rs")
        ranks = self.ranks(case)
        graph = [make.graph_input("A", [4, 2]), make.graph_input("B", [2, 2]), make.node("Add", ["A", "A"], ["A2"], "twice"),
                 self.distributed(case, ["A2", "B"], ["Y"]), make.graph_output("Y", [4, 2])]
        answer = self.verify(case, [ranks[0], model(*graph)])
        self.assertEqual(answer["verdict"], "refuted")
        self.assertIn("different copies of an operand", json.dumps(answer["failures"]))

    def test_specs_that_are_none(self):
        case = next(case for case in self.cases() if case["id"] == "test_matmul_rs_sr_rr")
        for name, value in (("input_shard_specs", ["X", "RR"]), ("input_shard_specs", ["S[0]S[0]", "RR"]),
                            ("input_shard_specs", ["RRRS[0]", "RRRRR"]), ("input_device_mesh_elements", ["[0,7]", "[0,7]"]),
                            ("input_device_mesh_elements", ["", ""]), ("input_device_mesh_elements", ["[0,", "[0,1]"]),
                            ("input_device_mesh_elements", ["[]", "[]"]), ("output_device_mesh_elements", ["[1]"]),
                            ("input_device_mesh_shapes", ["[1,2]", "[1,2]"]), ("output_shard_specs", ["RRRS[0]"])):
            with self.subTest(name, value=value):
                made = {**self.specs(case), name: value}
                answer = self.verify(case, [model(
                    make.graph_input("A", [2, 2]), make.graph_input("B", [2, 2]),
                    self.distributed(case, ["A", "B"], ["Y"], made), make.graph_output("Y", [2, 2]))] * 2)
                self.assertIn(answer.get("verdict"), ("refuted", "undecided"), answer)
                self.assertRegex(answer["failures"][0]["message"], "It cannot run: a|its? mesh|a mesh")


class Collectives(test_cli.Case):
    """ONNX Runtime's published cases of collectives, for any input: each rank has one of its own, and the original all of them."""

    def cases(self):
        if not os.path.exists(CASES):
            self.skipTest("the cases of SHARDPLAN_TEST_DATA are not there")
        with open(CASES, encoding="utf-8") as file:
            cases = json.load(file)["collective_cases"]
        return [case for case in cases if case["op"] in ("AllReduce", "AllGather", "AllToAll")]

    def whole(self, case, ranks):
        """Nodes of what each rank has in the end, by the name that it has there."""
        names = [f"x{rank}" for rank in range(ranks)]
        if case["op"] == "AllReduce":
            return [make.node("Sum", names, ["y"])], ["y"] * ranks
        if case["op"] == "AllGather":
            return [make.node("Concat", names, ["y"], axis=case["attributes"]["axis"])], ["y"] * ranks
        blocks = [[f"x{source}.{target}" for source in range(ranks)] for target in range(ranks)]
        cuts = [make.node("Split", [name], [blocks[target][source] for target in range(ranks)], axis=0, num_outputs=ranks)
                for source, name in enumerate(names)]
        return [*cuts, *(make.node("Concat", blocks[rank], [f"y{rank}"], axis=0) for rank in range(ranks))], \
               [f"y{rank}" for rank in range(ranks)]

    def verify(self, case, ranks, **changed):
        kind, shape = TYPES[case["dtype"].split(" ")[0]], case["local_input_shape"]
        nodes, results = self.whole(case, ranks)
        large = [extent * ranks if axis == case["attributes"].get("axis") else extent for axis, extent in enumerate(shape)]
        original = model(*(make.graph_input(f"x{rank}", shape, kind) for rank in range(ranks)), *nodes,
                         *(make.graph_output(name, large, kind) for name in dict.fromkeys(results)))
        attributes = {name: ranks if value == "N" else value for name, value in case["attributes"].items()}
        paths = [self.file(f"rank-{rank}.onnx", model(
            make.graph_input(f"x{rank}", shape, kind), make.node(case["op"], [f"x{rank}"], [results[rank]], domain=MS, **{**attributes, **changed}),
            make.graph_output(results[rank], large, kind))) for rank in range(ranks)]
        result = test_cli.run("verify", self.file("original.onnx", original), *paths, "--json")
        self.assertIn(result.returncode, (PROVED, REFUTED, UNDECIDED), result.stderr)
        return json.loads(result.stdout)

    def test_published_cases(self):
        cases = self.cases()
        self.assertEqual(len(cases), 6)
        for case in cases:
            for ranks in (2, 4):
                with self.subTest(case["id"], ranks=ranks):
                    answer = self.verify(case, ranks)
                    self.assertEqual((answer["verdict"], answer["failures"]), ("proved", []))

    def test_twins(self):
        for case in self.cases():
            if case["op"] != "AllReduce":
                with self.subTest(case["id"]):
                    self.assertEqual(self.verify(case, 4, group_size=2)["verdict"], "refuted")
            if case["op"] == "AllGather" and len(case["local_input_shape"]) == 2:
                self.assertEqual(self.verify(case, 2, axis=1 - case["attributes"]["axis"])["verdict"], "refuted")


class Mesh:
    """Devices by their coordinates, row by row; an axis of a sharding is one of the mesh, or a part of one: "x":(2)2."""

    def __init__(self, axes):
        self.axes = dict(axes)
        self.devices = list(itertools.product(*(range(size) for size in self.axes.values())))

    def digit(self, device, axis):
        name, before, size = axis
        coordinate = self.devices[device][list(self.axes).index(name)]
        return coordinate // (self.axes[name] // (before * size)) % size

    def index(self, device, axes):
        """Which piece of those that these axes make, the first axis counting most; and how many there are."""
        index, count = 0, 1
        for axis in axes:
            index, count = index * axis[2] + self.digit(device, axis), count * axis[2]
        return index, count

    def group(self, device, axes):
        """The devices that differ from this one along these axes alone, in the order of their pieces."""
        def rest(other):
            return [coordinate for name, coordinate in zip(self.axes, self.devices[other])
                    if name not in {axis[0] for axis in axes}], self.others(other, axes)

        alike = [other for other in range(len(self.devices)) if rest(other) == rest(device)]
        return sorted(alike, key=lambda other: self.index(other, axes)[0])

    def others(self, device, axes):
        """Of axes of which these are parts, what is not of these parts."""
        left = []
        for name, before, size in axes:
            full = self.axes[name]
            mine = [axis for axis in axes if axis[0] == name]
            parts = sorted({1, full, *(b for _, b, _ in mine), *(b * s for _, b, s in mine)})
            left += [self.digit(device, (name, low, high // low)) for low, high in zip(parts, parts[1:])
                     if not any(b <= low and high <= b * s for _, b, s in mine)]
        return left

    def axis(self, name, part):
        before, size = (int(number) for number in re.findall(r"\d+", part)) if part else (1, self.axes[name])
        return name, before, size

    def dims(self, text):
        """The axes of each dimension of '[{"x", "y":(1)2}, {}]'."""
        return [[self.axis(*axis) for axis in re.findall(r'"(\w+)"(:\(\d+\)\d+)?', dim)] for dim in re.findall(r"{([^}]*)}", text)]


class Device:
    """The model of one device: what it does to its part of a tensor, step by step."""

    def __init__(self, mesh, device, shape, turned=False):
        self.mesh, self.device, self.shape, self.turned = mesh, device, list(shape), turned
        self.parts, self.name = [make.graph_input("x", shape)], "x"

    def put(self, op, *inputs, **attributes):
        result = f"{op}.{len(self.parts)}"
        self.parts.append(make.node(op, [self.name, *inputs], [result], **attributes))
        self.name = result

    def reshape(self, shape):
        name = f"to.{len(self.parts)}"
        self.parts.append(integers(name, shape))
        self.put("Reshape", name)

    def collective(self, operation, axes):
        group = self.mesh.group(self.device, axes)
        self.put("DistCollective", collective_operation=operation, reduce_op="none", root=-1, nb_rank=len(group), group_size=len(group),
                 groups=group[::-1] if self.turned else group)

    def gather(self, dim, axes):
        perm = [dim, *(d for d in range(len(self.shape)) if d != dim)]
        self.put("Transpose", perm=perm)
        self.collective("all_gather", axes)
        self.shape[dim] *= self.mesh.index(self.device, axes)[1]
        self.put("Transpose", perm=[perm.index(d) for d in range(len(self.shape))])

    def slice(self, dim, axes):
        index, count = self.mesh.index(self.device, axes)
        index = (index + 1) % count if self.turned else index
        length = self.shape[dim] // count
        names = [f"{what}.{len(self.parts)}" for what in ("from", "to", "along")]
        self.parts += [integers(name, [value]) for name, value in zip(names, (index * length, (index + 1) * length, dim))]
        self.put("Slice", *names)
        self.shape[dim] = length

    def all_to_all(self, source, target, axes):
        """The target's dimension in as many blocks as there are members, the first axis; what comes is the source's."""
        count = self.mesh.index(self.device, axes)[1]
        shape = self.shape
        shape[target] //= count
        self.reshape([*shape[:target], count, *shape[target:]])
        rank = len(shape) + 1
        self.put("Transpose", perm=[target, *(d for d in range(rank) if d != target)])
        self.collective("all_to_all", axes)
        left = list(range(1, rank))
        left.insert(source, 0)
        self.put("Transpose", perm=left)
        shape[source] *= count
        self.reshape(shape)

    def model(self):
        return model(*self.parts, make.node("Identity", [self.name], ["y"]), make.graph_output("y", self.shape))


class Reshards(test_cli.Case):
    """Steps that Shardy's reshard_to_collectives test expects, as every device carries them out in DistCollective."""

    def cases(self):
        path = os.path.join(os.path.dirname(CASES), "sdy_reshard_cases.json")
        if not os.path.exists(path):
            self.skipTest("the cases of SHARDPLAN_TEST_DATA are not there")
        with open(path, encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        known = {"all_gather", "all_slice", "all_to_all"}
        return [case for case in cases if case["steps"] and {step["op"] for step in case["steps"]} <= known]

    def box(self, mesh, device, shape, dims):
        ranges = []
        for extent, axes in zip(shape, dims):
            index, count = mesh.index(device, axes)
            ranges.append([index * (extent // count), (index + 1) * (extent // count)])
        return ranges

    def made(self, mesh, case, device, turned):
        local = [high - low for low, high in self.box(mesh, device, case["shape"], mesh.dims(case["in"]))]
        one = Device(mesh, device, local, turned)
        for step in case["steps"]:
            if step["op"] == "all_to_all":
                text, source, target = re.fullmatch(r"\[{(.*)}: (\d+)->(\d+)\]", step["arg"]).groups()
                one.all_to_all(int(source), int(target), mesh.dims("{" + text + "}")[0])
                continue
            for dim, axes in enumerate(mesh.dims(step["arg"])):
                if axes:
                    (one.gather if step["op"] == "all_gather" else one.slice)(dim, axes)
        return one.model()

    def verify(self, case, turned=False):
        mesh, shape = Mesh(case["mesh_def"]["axes"]), case["shape"]
        devices = []
        for device in range(len(mesh.devices)):
            name = f"rank-{device}.onnx"
            self.file(name, self.made(mesh, case, device, turned))
            boxes = [self.box(mesh, device, shape, mesh.dims(case[side])) for side in ("in", "out")]
            devices.append({"id": device, "world": 0, "rank": device, "parts": [{
                "part": 0, "model": name, "inputs": [{"name": "x", "from": "input", "tensor": "x", "box": boxes[0]}],
                "outputs": [{"name": "y", "to": "output", "tensor": "y", "box": boxes[1]}]}]})
        original = model(make.graph_input("x", shape), make.node("Identity", ["x"], ["y"]), make.graph_output("y", shape))
        result = test_cli.run("verify", self.file("original.onnx", original), "--manifest",
                              self.file("manifest.json", json.dumps({"devices": devices}).encode()), "--json")
        self.assertIn(result.returncode, (PROVED, REFUTED, UNDECIDED), result.stderr)
        return json.loads(result.stdout)

    def test_published_cases(self):
        cases = self.cases()
        self.assertGreaterEqual(len(cases), 12)
        for case in cases:
            with self.subTest(case["name"]):
                answer = self.verify(case)
                self.assertEqual((answer["verdict"], answer["failures"]), ("proved", []))

    def test_twins(self):
        """Groups in another order, and each device with the next one's slice."""
        for case in self.cases():
            with self.subTest(case["name"]):
                self.assertEqual(self.verify(case, turned=True)["verdict"], "refuted")


class Written(test_cli.Case):
    def test_a_plan_in_distributed_operators(self):
        """Columns of the first weight and rows of the second, as our writer has it; and with the second rank's model twice."""
        original, split = self.mlp(2, 8, 4), self.path("split.onnx")
        self.done("infer", original, "--devices", "2", "--mode", "propagate", "--mesh", '<["x"=2]>', "--set", "w0={devices=[1,2]0,1}",
                  "-o", split)
        ranks = [self.path(f"rank-{rank}.onnx") for rank in range(2)]
        for number, rank in enumerate(ranks):
            self.done("export", split, "--format", "ort", "--device", str(number), "-o", rank)
            self.assertEqual(self.json("inspect", rank)["operators"]["com.microsoft.DistributedMatMul"], 2)
        answer = self.json("verify", original, *ranks)
        self.assertEqual((answer["verdict"], answer["failures"]), ("proved", []))
        result = test_cli.run("verify", original, ranks[1], ranks[1], "--json")
        self.assertEqual((result.returncode, json.loads(result.stdout)["verdict"]), (REFUTED, "refuted"))


if __name__ == "__main__":
    unittest.main()
