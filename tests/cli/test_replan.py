#!/usr/bin/env python3
"""`shardplan replan`: what it says has to be moved, against the weights in the models of devices before and after."""

import hashlib
import itertools
import json
import os
import resource
import struct
import subprocess
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402
from test_cli import onnx_make  # noqa: E402
from wire_fields import fields, integers  # noqa: E402

FLOAT = 1
SLOW = {"name": "slow", "memory_bytes": 1e9, "memory_bandwidth": 1e8, "flops": {"float32": 1e6}}


class Counted(onnx_make.Weights):
    """Float weights of which no two elements are alike: they are numbered through the model."""

    tensors = {}
    next = 1

    def tensor(self, name, dims):
        count = onnx_make.element_count(dims)
        first, Counted.next = Counted.next, Counted.next + count
        Counted.tensors[name] = (list(dims), first)
        raw = struct.pack(f"<{count}f", *range(first, first + count))
        return onnx_make.delimited(5, *(onnx_make.integer(1, dim) for dim in dims), onnx_make.integer(2, FLOAT),
                                   onnx_make.delimited(8, name), onnx_make.delimited(9, raw))


def counted(make, *arguments, **options):
    """A model's bytes, and for each of its weights the shape and the number of the first element."""
    Counted.tensors, Counted.next = {}, 1
    with mock.patch.object(onnx_make, "Weights", Counted):
        data = onnx_make.encode(make(*arguments, **options))
    assert Counted.next < 1 << 24  # each number is a float of its own
    return data, Counted.tensors


def initializers(path):
    """The float weights of a model: the bytes of each."""
    with open(path, "rb") as file:
        graph = next(value for number, value in fields(file.read()) if number == 7)
    for number, tensor in fields(graph):
        if number != 5:
            continue
        parts, places = {}, {}
        for key, value in fields(tensor):
            if key == 13:
                entry = dict(fields(value))
                places[entry[1].decode()] = entry[2].decode()
            elif key == 4:
                parts[4] = parts.get(4, b"") + (value if isinstance(value, bytes) and len(value) != 4 else value)
            else:
                parts[key] = value
        if parts.get(2) != FLOAT:
            continue
        if places:
            with open(os.path.join(os.path.dirname(path), places["location"]), "rb") as file:
                file.seek(int(places.get("offset", 0)))
                yield file.read(int(places["length"]))
        else:
            yield parts.get(9, parts.get(4, b""))


def loop(layers, width):
    """Each layer appends to a cache, which the caller hands on from step to step, and goes on with the mean of it."""
    maker = onnx_make.Weights()
    graph = [onnx_make.graph_input("x", [1, 1, width])]
    previous = "x"
    for index in range(layers):
        past, present = f"past_key_values.{index}.key", f"present.{index}.key"
        graph += [onnx_make.graph_input(past, [1, 7, width]), maker.tensor(f"w{index}", [width, width]),
                  onnx_make.node("MatMul", [previous, f"w{index}"], [f"m{index}"], f"matmul{index}"),
                  onnx_make.node("Concat", [past, f"m{index}"], [present], f"append{index}", axis=1),
                  onnx_make.node("ReduceMean", [present], [f"h{index}"], f"mean{index}", axes=[1], keepdims=1),
                  onnx_make.graph_output(present, [1, 8, width])]
        previous = f"h{index}"
    return onnx_make.model(*graph, onnx_make.graph_output(previous, [1, 1, width]), opset=13)


class Replan(test_cli.Case):
    def cluster(self, name, count, **more):
        return self.file(name, json.dumps({"groups": [{"count": count, "device": {**SLOW, **more.pop("device", {})}}],
                                           "mesh": [{"name": "net", "size": count, "bandwidth": 1e10, "latency": 1e-7}],
                                           **more}).encode())

    def devices(self, folder):
        """For each device of the plan's cluster the weights of its models, as bytes."""
        with open(self.path(f"{folder}/plan.json"), encoding="utf-8") as file:
            plan = json.load(file)
        with open(self.path(f"{folder}/manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        used = [device["id"] for device in plan["devices"] if device["stage"] is not None]
        copies = manifest.get("copies", [used])
        weights = {device["id"]: [] for device in plan["devices"]}
        for device in manifest["devices"]:
            for part in device["parts"]:
                for copy in copies:
                    weights[copy[device["id"]]] += initializers(self.path(f"{folder}/{part['model']}"))
        return plan, weights

    def elements(self, tensors, move):
        """The numbers of the elements of a box."""
        dims, first = tensors[move["tensor"]]
        box = move["box"] if move["box"] is not None else [[0, dim] for dim in dims]
        for at in itertools.product(*(range(start, limit) for start, limit in box)):
            index = 0
            for dim, i in zip(dims, at):
                index = index * dim + i
            yield first + index

    def expect_moves(self, tensors, before, after, integer_bytes=0):
        """The moves make exactly what the new models have of what the old ones had. Shapes of so many bytes are weights
        of the plan, and part of each device's program."""
        plan, weights = after
        stored = set(range(1, sum(onnx_make.element_count(dims) for dims, _ in tensors.values()) + 1))
        held = {device: {number for blob in blobs for number in struct.unpack(f"<{len(blob) // 4}f", blob)} & stored
                for device, blobs in before[1].items()}
        memory = {device["id"]: set(held[device["was"]]) if device["was"] is not None else set()
                  for device in plan["replan"]["devices"]}
        there = {device: set(numbers) for device, numbers in memory.items()}
        moved = bytes_moved = 0
        for move in plan["moves"]:
            bytes_moved += move["bytes"]
            if move["tensor"] not in tensors:
                continue
            numbers = set(self.elements(tensors, move))
            self.assertEqual(len(numbers) * 4, move["bytes"], move)
            if move["from"] == "store":
                self.assertTrue(numbers.isdisjoint(set().union(*there.values())), move)
            else:
                self.assertTrue(numbers <= there[move["from"]], move)
            self.assertTrue(numbers.isdisjoint(memory[move["to"]]), move)
            memory[move["to"]] |= numbers
            moved += len(numbers)
        self.assertEqual(bytes_moved, plan["moved_bytes"])
        self.assertGreaterEqual(plan["moved_bytes"], plan["moved_bytes_bound"])
        needed = 0
        for device in plan["replan"]["devices"]:
            need = set()
            for blob in weights[device["id"]]:
                numbers = struct.unpack(f"<{len(blob) // 4}f", blob)
                if not stored.issuperset(numbers):
                    continue  # a constant that the device's own program needs
                self.assertTrue(memory[device["id"]].issuperset(numbers), device)
                made = struct.pack(f"<{len(numbers)}f", *numbers)
                self.assertEqual(hashlib.sha256(made).digest(), hashlib.sha256(blob).digest())
                need |= set(numbers)
            kept = need & there[device["id"]]
            for name, numbers in (("kept_bytes", kept), ("received_bytes", need - kept),
                                  ("freed_bytes", there[device["id"]] - need)):
                self.assertIn(device[name] - 4 * len(numbers), range(integer_bytes + 1), name)
            needed += len(need - kept)
        self.assertEqual(needed, moved)  # nothing is moved that nobody needs
        return moved

    def test_moves_make_the_new_models_of_the_old_ones(self):
        """Plans of all forms; devices lost, added, and others."""
        data, tensors = counted(onnx_make.mlp, 4, 48, 96)
        model = self.file("mlp.onnx", data)
        self.cluster("4.json", 4)
        self.cluster("3.json", 3)
        self.cluster("small.json", 4, memory_limit_bytes=50000)
        moved = split = copied = 0
        throughput = (("3.json", "--horizon", "0"), ("3.json", "--lost", "1"), ("small.json",))
        for objective, first, follow, *more in (
            ("throughput", "4.json", throughput),
            ("throughput", "4.json", throughput, "--replicas", "1"),
            ("latency", "4.json", (("3.json", "--horizon", "0"), ("3.json", "--lost", "1"), ("small.json",))),
            ("latency", "3.json", (("4.json", "--horizon", "1000d"),)),
        ):
            self.done("plan", model, "--cluster", self.path(first), "--objective", objective, "--emit",
                      self.path("before"), "--no-simulation", "--tolerance", "0", *more)
            before = self.devices("before")
            copied += "copies" in before[0]
            for cluster, *options in follow:
                with self.subTest(objective, first=first, cluster=cluster, options=options):
                    self.done("replan", model, "--from", self.path("before/plan.json"), "--cluster", self.path(cluster),
                              *options, "--emit", self.path("after"), "--no-simulation")
                    after = self.devices("after")
                    moved += self.expect_moves(tensors, before, after) > 0
                    split += any(len(stage["mesh"]) > 0 for stage in after[0]["stages"])
        self.assertGreater(moved, 3)
        self.assertGreater(split, 1)
        self.assertEqual(copied, 1)

    def test_a_transformer(self):
        """Attention, norms, a convolution: every weight is where the plan says."""
        data, tensors = counted(onnx_make.transformer, 2, 48, 4, 16)
        model = self.file("vit.onnx", data)
        self.cluster("4.json", 4)
        self.cluster("3.json", 3)
        for objective in ("throughput", "latency"):
            self.done("plan", model, "--cluster", self.path("4.json"), "--objective", objective, "--emit",
                      self.path("before"), "--no-simulation")
            self.done("replan", model, "--from", self.path("before/plan.json"), "--cluster", self.path("3.json"),
                      "--lost", "2", "--emit", self.path("after"), "--no-simulation")
            self.assertGreater(self.expect_moves(tensors, self.devices("before"), self.devices("after"), 10 * 8), 0)

    def test_caches_of_a_loop(self):
        """Weights are moved to where they are needed, caches are not, and a note says so."""
        data, tensors = counted(loop, 4, 64)
        model = self.file("loop.onnx", data)
        for count in (4, 3):
            self.cluster(f"{count}.json", count)
        self.done("plan", model, "--cluster", self.path("4.json"), "--emit", self.path("before"), "--no-simulation")
        for count, moves in ((3, True), (4, False)):
            self.done("replan", model, "--from", self.path("before/plan.json"), "--cluster", self.path(f"{count}.json"),
                      "--emit", self.path("after"), "--no-simulation")
            before, after = self.devices("before"), self.devices("after")
            self.assertEqual(self.expect_moves(tensors, before, after) > 0, moves)
            told = [note["code"] for note in after[0]["diagnostics"]]
            self.assertEqual("CACHES_NOT_MOVED" in told, moves)
            self.assertTrue(all(move["tensor"] in tensors for move in after[0]["moves"]))

    def test_constraints_where_nodes_are_kept_together(self):
        """What runs stays, and what is repaired keeps the constraints, where a graph of costs has groups of nodes."""
        examples = os.path.join(test_cli.TOP, "api/examples")
        model, cluster = os.path.join(examples, "costs.json"), os.path.join(examples, "costs-cluster.json")
        constraints = self.file("constraints.json", b'{"max_stages": 2}')
        self.done("plan", model, "--cluster", cluster, "--constraints", constraints, "--plan", self.path("plan.json"))
        plan = self.json("replan", model, "--from", self.path("plan.json"), "--cluster", cluster)
        self.assertEqual((plan["replan"]["choice"], plan["moves"]), ("stay", []))
        with open(cluster, encoding="utf-8") as file:
            fewer = self.file("fewer.json", json.dumps({**json.load(file), "exclude": [1]}).encode())
        plan = self.json("replan", model, "--from", self.path("plan.json"), "--cluster", fewer)
        self.assertLessEqual(len(plan["stages"]), 2)

    def test_shares_of_unequal_devices(self):
        data, tensors = counted(onnx_make.mlp, 4, 128, 128)
        model = self.file("mlp.onnx", data)
        kinds = [{"count": 1, "device": {"name": name, "memory_bytes": 4e9, "memory_bandwidth": speed * 1e8,
                                         "flops": {"float32": speed * 1e8}}}
                 for name, speed in (("big", 3), ("small", 1))]
        mesh = [{"name": "net", "size": 2, "bandwidth": 1e12, "latency": 1e-7}]
        two = self.file("two.json", json.dumps({"groups": kinds, "mesh": mesh}).encode())
        one = self.file("one.json", json.dumps({"groups": kinds, "mesh": mesh, "exclude": [0]}).encode())
        self.done("plan", model, "--cluster", two, "--objective", "latency", "--emit", self.path("before"),
                  "--no-simulation")
        before = self.devices("before")
        self.assertIn("shares", before[0]["outline"]["stages"][0])
        for cluster, moves in ((two, False), (one, True)):
            self.done("replan", model, "--from", self.path("before/plan.json"), "--cluster", cluster, "--emit",
                      self.path("after"), "--no-simulation")
            self.assertEqual(self.expect_moves(tensors, before, self.devices("after")) > 0, moves)


class Large(test_cli.Case):
    def test_one_of_eight_devices_of_a_large_model_is_lost(self):
        maker = os.path.join(test_cli.TOP, "tests/bench/models.py")
        model, devices = self.path("70b.json"), ["--device", "h100-sxm-80gb"]
        subprocess.run([sys.executable, maker, "--model", "llama3-70b", "--style", "fused", "--dtype", "bfloat16",
                        "--sequence", "4096", "-o", model], check=True)
        self.done("plan", model, "--devices", "8", *devices, "--plan", self.path("plan.json"))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.done("replan", model, "--from", self.path("plan.json"), "--devices", "7", *devices, "--lost", "3",
                  "--plan", self.path("new.json"))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if "sanitized" not in test_cli.CLI:
            self.assertLess(seconds, 1)  # of processors: others may run beside it
        with open(self.path("new.json"), encoding="utf-8") as file:
            plan = json.load(file)
        self.assertEqual([device["was"] for device in plan["replan"]["devices"]], [0, 1, 2, 4, 5, 6, 7])
        self.assertEqual(sum(move["bytes"] for move in plan["moves"]), plan["moved_bytes"])
        self.assertGreaterEqual(plan["moved_bytes"], plan["moved_bytes_bound"])
        # What only the lost device had comes from the store, and nothing else does.
        stored = sum(move["bytes"] for move in plan["moves"] if move["from"] == "store")
        self.assertEqual(stored, plan["replan"]["store_bytes"])
        self.assertGreater(stored, 1e10)


class Usage(test_cli.Case):
    def test_the_model_is_found_by_its_name(self):
        model = self.mlp(2, 64, 64, name="found.onnx")
        self.done("plan", model, "--devices", "2", *test_cli.DEVICE, "--plan", self.path("plan.json"))
        plan = self.json("replan", "--from", self.path("plan.json"), "--devices", "2", *test_cli.DEVICE)
        self.assertEqual((plan["moves"], plan["moved_bytes"], plan["replan"]["choice"]), ([], 0, "stay"))
        os.rename(model, self.path("other.onnx"))
        self.done("replan", "--from", self.path("plan.json"), "--devices", "2", status=2)
        self.done("replan", self.path("other.onnx"), "--from", self.path("plan.json"), "--devices", "2",
                  *test_cli.DEVICE)

    def test_wrong_usage(self):
        model = self.mlp(2, 64, 64)
        plan = ["--from", self.path("plan.json")]
        self.done("plan", model, "--devices", "2", *test_cli.DEVICE, "--plan", self.path("plan.json"))
        for arguments in (
            [model, "--devices", "1"], [model, *plan], [model, model, *plan, "--devices", "1"],
            [model, *plan, "--devices", "1,2"], [model, *plan, "--devices", "1", "--horizon", "long"],
            [model, *plan, "--devices", "1", "--horizon", "-1"], [model, *plan, "--devices", "1", "--lost", "2"],
            [model, *plan, "--devices", "1", "--cluster", "-"], [model, *plan, "--devices", "1", "--lost", "x"],
            [model, *plan, "--devices", "1", "--map", "0,"], [model, *plan, "--devices", "1", "--map", "0,1"],
            [model, *plan, "--devices", "1", "--map", "0,-", "--lost", "1"], [model, "--from", model, "--devices", "1"],
            [model, *plan, "--devices", "1", "--cluster", "-", "--device", "a100-sxm4-80gb"],
        ):
            with self.subTest(arguments):
                self.done("replan", *arguments, status=2)
        other = self.mlp(3, 64, 64, name="other.onnx")
        self.done("replan", other, *plan, "--devices", "1", status=2)


class Readme(test_cli.Readme):
    def test_what_it_prints_is_true(self):
        os.symlink(os.path.join(test_cli.TOP, "api"), self.path("api"))
        self.assertEqual(self.check("A new plan when devices come or go"), 2)


class Server(test_cli.DaemonCase):
    def test_a_plan_of_the_server(self):
        model = self.mlp(4, 64, 64)
        slow = self.file("slow.json", json.dumps({"device": {**SLOW, "link_bandwidth": 1e10}, "count": 3}).encode())
        two = self.file("two.json", json.dumps({"device": {**SLOW, "link_bandwidth": 1e10}, "count": 2}).encode())
        self.remote("plan", model, "--cluster", slow, "--plan", self.path("plan.json"))
        listed = json.loads(self.remote("plans", "--json").stdout)["plans"]
        here = self.done("replan", model, "--from", self.path("plan.json"), "--cluster", two, "--map", "1,-,0",
                         "--horizon", "90")
        there = self.remote("replan", "--from", listed[0]["id"], "--cluster", two, "--map", "1,-,0", "--horizon", "90",
                            "--emit", self.path("out"))
        self.assertEqual(there.stdout, here.stdout)
        self.assertIn("manifest.json", os.listdir(self.path("out")))
        self.remote("replan", "--from", "0" * 32, "--cluster", slow, status=4)


if __name__ == "__main__":
    unittest.main()
