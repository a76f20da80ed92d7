#!/usr/bin/env python3
"""`shardplan plan --emit` and what `export` writes of devices: files, weights, folders, and the same from a server."""

import itertools
import json
import os
import re
import socket
import struct
import sys
import threading
import unittest

import jsonschema

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402
import hostile  # noqa: E402
from test_cli import onnx_make  # noqa: E402

FILES = {"plan.json", "annotated.onnx", "simulation.onnx", "manifest.json", "timeline.pftrace", "device-0.onnx",
         "device-1.onnx"}
OF_DEVICES = ("ort-collectives", "tensorrt", "sessions")
LAYERS, WIDTH = 4, 64
WEIGHT = WIDTH * WIDTH * 4  # bytes
NOTE = b"are not all beside it; what is written refers to them"


def layered(location):
    """MatMul and Relu by turns; the weights lie at a location, one behind the other."""
    maker = onnx_make.Weights("external", location)
    graph = [onnx_make.graph_input("x", [1024, WIDTH])]
    for index in range(LAYERS):
        output = "y" if index == LAYERS - 1 else f"h{index}"
        graph += [maker.tensor(f"w{index}", [WIDTH, WIDTH]),
                  onnx_make.node("MatMul", [f"h{index - 1}" if index else "x", f"w{index}"], [f"m{index}"]),
                  onnx_make.node("Relu", [f"m{index}"], [output])]
    return onnx_make.encode(onnx_make.model(*graph, onnx_make.graph_output("y", [1024, WIDTH])))


def weight(index):
    """The bytes of a weight; no two are alike anywhere."""
    return b"".join(struct.pack("<f", index * WIDTH * WIDTH + element) for element in range(WIDTH * WIDTH))


class Emits:
    """What tests here share."""

    def read(self, *names):
        with open(os.path.join(self.folder, *names), "rb") as file:
            return file.read()

    def model(self):
        return self.file("model.onnx", onnx_make.encode(onnx_make.mlp(LAYERS, WIDTH, 1024, weights="pattern")))

    def emit(self, model, *arguments, folder="out", **more):
        return self.done("plan", model, "--devices", "2", *test_cli.ALONE, "--replicas", "1", "--emit",
                         self.path(folder), *arguments, **more)

    def sound(self, path, known=()):
        """The inspection of a model in which nothing is wrong, but for what is known."""
        found = json.loads(test_cli.run("check", path, "--json").stdout)
        codes = {item["code"] for item in found["diagnostics"] if item["severity"] != "note"}
        self.assertLessEqual(codes, set(known), path)
        return self.json("inspect", path)

    def consistent(self, folder):
        """The manifest names the models that are there, their inputs and outputs, and nothing else. TensorRT's
        collective is an operator without a domain that ONNX does not have."""
        manifest = json.loads(self.read(folder, "manifest.json"))
        known = ("UNKNOWN_OPERATOR",) if manifest["target"] == "tensorrt" else ()
        models = {part["model"]: part for device in manifest["devices"] for part in device["parts"]}
        with open(os.path.join(test_cli.TOP, "api/schema/manifest.schema.json"), encoding="utf-8") as file:
            jsonschema.Draft202012Validator(json.load(file)).validate(manifest)
        for device in manifest["devices"]:
            self.assertRegex(device["fingerprint"], "^[0-9a-f]{32}$")
            for part in device["parts"]:
                model = self.read(folder, part["model"])
                self.assertEqual(model.count(b"shardplan.manifest\x12 " + device["fingerprint"].encode()), 1)
        there = {name for name in os.listdir(self.path(folder)) if re.fullmatch(r"device-.*\.onnx", name)}
        self.assertEqual(there, set(models))
        self.assertEqual(sorted(sum(manifest["order"], [])), sorted(models))
        for name, part in models.items():
            inspection = self.sound(os.path.join(self.path(folder), name), known)
            for member in ("inputs", "outputs"):
                self.assertEqual([item["name"] for item in inspection[member]], [item["name"] for item in part[member]])
        return manifest


class Emit(Emits, test_cli.Case):
    def test_all_files_are_there(self):
        model, plan, annotated = self.model(), self.path("plan.json"), self.path("annotated.onnx")
        result = self.emit(model, "--plan", plan, "-o", annotated)
        self.assertEqual(result.stderr, b"")
        self.assertEqual(set(os.listdir(self.path("out"))), FILES)
        self.assertEqual(self.read("out", "plan.json"), self.read("plan.json"))
        self.assertEqual(self.read("out", "annotated.onnx"), self.read("annotated.onnx"))
        manifest = self.consistent("out")
        self.assertEqual([device["id"] for device in manifest["devices"]], [0, 1])
        simulation, original = self.sound(self.path("out/simulation.onnx")), self.sound(model)
        for member in ("inputs", "outputs", "parameters"):
            self.assertEqual(simulation[member], original[member])
        self.assertEqual(simulation["configurations"], [])
        stages = json.loads(self.read("plan.json"))["stages"]
        for stage in stages:
            operators = self.sound(self.path(f"out/device-{stage['devices'][0]}.onnx"))["operators"]
            self.assertEqual(operators["MatMul"], sum("matmul" in name for name in stage["nodes"]))

    def test_with_the_default_runtime(self):
        """A model that is worth two devices although what starts kernels and sends costs what it does there."""
        model = self.file("wide.onnx", onnx_make.encode(onnx_make.mlp(LAYERS, 512, 8192, weights="pattern")))
        self.done("plan", model, "--devices", "2", *test_cli.DEVICE, "--emit", self.path("out"))
        self.assertEqual(set(os.listdir(self.path("out"))), FILES)
        self.consistent("out")
        plan = json.loads(self.read("out", "plan.json"))
        texts = {item["member"]: item["text"] for item in plan["assumptions"]}
        self.assertIn("onnxruntime, the default", texts["runtime"])
        self.assertIn("TF32, as is the default of onnxruntime", texts["device.flops_tf32"])
        alone = self.json("plan", model, "--devices", "2", *test_cli.ALONE)
        self.assertLess(plan["estimate"]["interval_seconds"], 0.5 * alone["estimate"]["interval_seconds"])

    def test_the_time_limit_is_the_search_s(self):
        """A limit that runs out as the files are written ends nothing; before a plan is found it says so."""
        model = self.file("long.onnx", onnx_make.encode(onnx_make.mlp(400, 64, 64)))
        written = 0
        for limit in ("0.2", "0.8", "3", "100"):
            if limit == "100" and written > 0:  # it is for a machine that had no time for this
                break
            result = test_cli.run("plan", model, "--devices", "4", *test_cli.ALONE, "--time-limit", limit, "--emit",
                                  self.path(limit))
            if result.returncode != 0:
                self.assertIn(b"[TIME_LIMIT]", result.stderr)
                continue
            written += 1
            self.assertLessEqual({"manifest.json", "simulation.onnx", "timeline.pftrace"}, set(os.listdir(self.path(limit))))
        self.assertGreater(written, 0)

    def test_again_into_the_same_folder(self):
        model = self.model()
        self.emit(model)
        before = {name: self.read("out", name) for name in FILES - {"plan.json"}}
        self.emit(model)
        self.assertEqual(set(os.listdir(self.path("out"))), FILES)
        for name, data in before.items():
            self.assertEqual(self.read("out", name), data)

    def test_folders(self):
        model = self.model()
        self.file("taken", b"")
        for folder in ("taken", "taken/below", "absent/below"):
            with self.subTest(folder):
                self.assertIn(b"[FOLDER_NOT_WRITABLE]", self.emit(model, folder=folder, status=4).stderr)
        self.assertFalse(os.path.exists(self.path("absent")))
        os.makedirs(self.path("out/simulation.onnx"))
        self.assertIn(b"[FILE_NOT_WRITABLE]", self.emit(model, status=4).stderr)
        self.assertIn(b"[USAGE]", self.done("plan", model, "--devices", "2", "--emit", status=2).stderr)

    def test_weights_that_are_absent(self):
        model = self.file("model.onnx", layered("weights.bin"))
        result = self.emit(model)
        self.assertEqual(result.stderr.count(NOTE), 1)
        self.assertEqual(set(os.listdir(self.path("out"))), FILES)
        self.consistent("out")
        for name in ("simulation.onnx", "device-0.onnx", "device-1.onnx"):
            self.assertIn(b"weights.bin", self.read("out", name))
        self.assertEqual(self.sound(self.path("out/simulation.onnx"))["external_data"],
                         {"bytes": LAYERS * WEIGHT, "files": 1, "locations": ["weights.bin"]})

    def refers(self, *names):
        """What is said of annotated models that leave the folder of their weights."""
        return b"".join(b"shardplan: note: %b refers to the files that the model's weights lie in ('more/./weights.bin');"
                        b" they must come to lie beside it\n" % os.path.realpath(self.path(name)).encode() for name in names)

    def test_annotated_models_that_leave_their_weights(self):
        model = self.file("model.onnx", layered("more/./weights.bin"))
        os.mkdir(self.path("more"))
        self.file("more/weights.bin", b"".join(weight(index) for index in range(LAYERS)))
        os.mkdir(self.path("away"))
        for command in (("plan", model, "--devices", "2", *test_cli.ALONE), ("strip", model),
                        ("infer", model, "--devices", "2")):
            with self.subTest(command[0]):
                self.assertEqual(self.done(*command, "-o", self.path("beside.onnx")).stderr, b"")
                self.assertEqual(self.done(*command, "-o", self.path("away/model.onnx")).stderr,
                                 self.refers("away/model.onnx"))

    def test_weights_that_are_there(self):
        model = self.file("model.onnx", layered("more/./weights.bin"))
        os.mkdir(self.path("more"))
        self.file("more/weights.bin", b"".join(weight(index) for index in range(LAYERS)))
        self.assertEqual(self.emit(model).stderr, self.refers("out/annotated.onnx"))
        data = {name for name in os.listdir(self.path("out")) if name.endswith(".data")}
        self.assertEqual(data, {"device-0.onnx.data", "device-1.onnx.data"})
        simulation = self.read("out", "simulation.onnx")
        self.assertEqual(self.sound(self.path("out/simulation.onnx"))["external_data"],
                         {"files": 2, "bytes": LAYERS * WEIGHT, "locations": ["device-0.onnx.data", "device-1.onnx.data"]})
        self.assertNotIn(b"weights.bin", simulation)
        for index in range(LAYERS):
            self.assertNotIn(weight(index), simulation)
            there = [device for device in (0, 1) if weight(index) in self.read("out", f"device-{device}.onnx.data")]
            self.assertEqual(len(there), 1, index)
        for name in data:
            model_name = name.removesuffix(".data")
            self.assertIn(name.encode(), self.read("out", model_name))
            self.assertNotIn(b"weights.bin", self.read("out", model_name))
            self.assertEqual(self.sound(self.path("out/" + model_name))["external_data"]["files"], 1)
        self.consistent("out")
        # On standard output there is no place beside it: the weights are in the model.
        data = self.done("export", self.path("out/plan.json"), "--model", model, "--format", "simulation").stdout
        self.assertTrue(all(weight(index) in data for index in range(LAYERS)))
        self.assertNotIn("external_data", self.sound(self.file("whole.onnx", data)))

    def test_a_simulation_of_many_weights(self):
        """It refers to the weights that the files of devices hold, and goes where these are written anew without it."""
        model, out, large = self.path("large.onnx"), self.path("out"), 80 << 20
        onnx_make.write(model, onnx_make.big(large))
        self.emit(model)
        size = {name: os.path.getsize(os.path.join(out, name)) for name in os.listdir(out)}
        self.assertLess(size["simulation.onnx"], large // 10)
        self.assertNotIn("simulation.onnx.data", size)
        self.assertLess(sum(size.values()), 2.2 * large)
        self.assertIn(b"device-0.onnx.data", self.read("out", "simulation.onnx"))
        result = self.emit(model, "--no-simulation")
        self.assertNotIn(b"was removed", result.stderr, "the models hold their weights: nothing is written over")
        self.file("weights.bin", b"".join(weight(index) for index in range(LAYERS)))
        self.file("small.onnx", layered("weights.bin"))
        result = self.emit(self.path("small.onnx"), "--no-simulation")
        self.assertIn(b"simulation.onnx' of an earlier plan was removed", result.stderr)
        self.assertNotIn("simulation.onnx", os.listdir(out))

    def test_locations_that_are_not_opened(self):
        """Outside of the model's folder, or no regular file. What would be read is there."""
        weights = self.file("weights.bin", b"".join(weight(index) for index in range(LAYERS)))
        os.mkdir(self.path("inner"))
        os.mkfifo(self.path("inner/pipe"))
        os.mkdir(self.path("inner/folder"))
        for location in ("../weights.bin", weights, "folder/../../weights.bin", "./../weights.bin", "pipe", "folder",
                         "folder/..", "nothing"):
            with self.subTest(location):
                model = self.file("inner/model.onnx", layered(location))
                result = self.emit(model)
                self.assertEqual(result.stderr.count(NOTE), 1)
                self.assertEqual(set(os.listdir(self.path("out"))), FILES)
                self.assertIn(location.encode(), self.read("out", "simulation.onnx"))
                for name in FILES:
                    self.assertLess(len(self.read("out", name)), WEIGHT)

    def test_symbolic_links_that_leave_the_folder(self):
        """They are not followed: who packed the model may have packed links beside it. Links within the folder are."""
        self.file("secret.bin", b"".join(weight(index) for index in range(LAYERS)))
        os.makedirs(self.path("inner/deep"))
        self.file("inner/deep/weights.bin", b"".join(weight(index) for index in range(LAYERS)))
        os.symlink("../secret.bin", self.path("inner/up.bin"))
        os.symlink(self.path("secret.bin"), self.path("inner/absolute.bin"))
        os.symlink("..", self.path("inner/parent"))
        os.symlink("up.bin", self.path("inner/twice.bin"))
        os.symlink("/proc/self/cwd", self.path("inner/magic"))
        for location in ("up.bin", "absolute.bin", "parent/secret.bin", "twice.bin", "magic/secret.bin"):
            with self.subTest(location):
                model = self.file("inner/model.onnx", layered(location))
                result = self.emit(model)
                self.assertEqual(result.stderr.count(NOTE), 1)
                self.assertIn(b"leads out of the model's folder by a symbolic link", self.done("check", model).stderr)
                for name in FILES:
                    self.assertLess(len(self.read("out", name)), WEIGHT)
        os.symlink("deep", self.path("inner/near"))
        os.symlink("deep/weights.bin", self.path("inner/within.bin"))
        for location in ("deep/weights.bin", "near/weights.bin", "within.bin"):
            with self.subTest(location):
                result = self.emit(self.file("inner/model.onnx", layered(location)))
                self.assertEqual(result.stderr.count(NOTE), 0)

    def test_a_file_that_ends_before_a_weight_does(self):
        """It is cut off, or another model's: said before anything is written, and by whoever looks at the model."""
        self.file("weights.bin", b"".join(weight(index) for index in range(LAYERS))[:-1])
        model = self.file("model.onnx", layered("weights.bin"))
        for verb in (["check", model], ["plan", model, "--devices", "2", *test_cli.ALONE],
                     ["plan", model, "--devices", "2", *test_cli.ALONE, "--emit", self.path("out")]):
            with self.subTest(verb[0]):
                self.assertIn(b"[EXTERNAL_DATA_SHORT]", self.done(*verb, status=1).stderr)
        self.assertIn(b"note: The file 'weights.bin' has", self.done("inspect", model).stderr)
        self.assertNotIn("device-0.onnx", os.listdir(self.path("out")))

    def test_files_of_weights_that_are_not_there(self):
        """Nothing here needs them, and a note says so once."""
        for verb in ("inspect", "check", "plan"):
            options = ["--devices", "2", *test_cli.ALONE] if verb == "plan" else []
            told = self.done(verb, self.file("model.onnx", layered("elsewhere.bin")), *options).stderr
            self.assertEqual(told.count(b"note:"), 1, told)
            self.assertIn(b"'elsewhere.bin', where weights of the model lie, is not beside it", told)
            self.file("weights.bin", b"".join(weight(index) for index in range(LAYERS)))
            self.assertEqual(self.done(verb, self.file("whole.onnx", layered("weights.bin")), *options).stderr, b"")

    def test_what_an_earlier_plan_left(self):
        """Models of more devices go, and nothing else that lies there; a simulation is left out where nobody wants it."""
        model = self.model()
        self.emit(model)
        self.file("out/device-7.onnx", b"somebody's")
        manifest = json.loads(self.read("out", "manifest.json"))
        manifest["devices"][0]["parts"].append({"model": "../model.onnx"})
        self.file("out/manifest.json", json.dumps(manifest).encode())
        result = self.done("plan", model, "--devices", "1", *test_cli.ALONE, "--emit", self.path("out"), "--no-simulation")
        self.assertIn(b"1 models of devices that an earlier plan left", result.stderr)
        self.assertIn(b"simulation.onnx' is of an earlier plan", result.stderr)
        self.assertEqual(set(os.listdir(self.path("out"))), FILES - {"device-1.onnx"} | {"device-7.onnx"})
        self.assertTrue(os.path.exists(model))
        self.done("plan", model, "--devices", "1", *test_cli.ALONE, "--emit", self.path("new"), "--no-simulation")
        self.assertEqual(set(os.listdir(self.path("new"))), FILES - {"device-1.onnx", "simulation.onnx"})
        self.done("plan", model, "--devices", "1", "--no-simulation", status=2)

    def test_ir_version(self):
        """Files without annotations have the original's, whatever they are made of."""
        model = self.model()
        self.emit(model)
        for source in ([self.path("out/annotated.onnx")], [self.path("out/plan.json"), "--model", model]):
            for name in (*OF_DEVICES, "simulation"):
                folder = f"{name}-{len(source)}"
                self.done("export", *source, "--format", name, "-o", self.path(folder))
                path = os.path.join(self.path(folder), "device-0.onnx") if name in OF_DEVICES else self.path(folder)
                self.assertEqual(self.json("inspect", path)["ir_version"], 8, (name, source))
        self.assertEqual(self.json("inspect", self.path("out/annotated.onnx"))["ir_version"], 11)
        self.done("infer", model, "--devices", "2", "--mode", "propagate", "--mesh", '<["x"=2]>', "--set",
                  "w0={devices=[1,2]0,1}", "-o", self.path("split.onnx"))
        self.done("export", self.path("split.onnx"), "--format", "ort", "-o", self.path("ort.onnx"))
        self.assertEqual(self.json("inspect", self.path("ort.onnx"))["ir_version"], 8)

    def test_what_models_need(self):
        """Collectives need a build of the runtime with them; sizes that were bound are numbers in what devices run."""
        graph = [onnx_make.graph_input("x", ["batch", WIDTH]), onnx_make.node("Relu", ["x"], ["y"]),
                 onnx_make.graph_output("y", ["batch", WIDTH])]
        dynamic = self.file("dynamic.onnx", onnx_make.encode(onnx_make.model(*graph)))
        self.emit(dynamic, "--dim", "batch=4", folder="dynamic")
        codes = [note["code"] for note in json.loads(self.read("dynamic", "manifest.json"))["notes"]]
        self.assertIn("SIZES_FIXED", codes)
        model, split = self.model(), self.path("split.onnx")
        self.done("infer", model, "--devices", "2", "--mode", "propagate", "--mesh", '<["x"=2]>', "--set",
                  "w0={devices=[1,2]0,1}", "-o", split)
        for name in OF_DEVICES:
            codes = [note["code"] for note in self.json("export", split, "--format", name, "-o", self.path(name))["notes"]]
            self.assertEqual("NEEDS_COLLECTIVES" in codes, name == "ort-collectives", name)
            self.assertNotIn("SIZES_FIXED", codes)

    def test_sizes_that_depend_on_data(self):
        """No collective exchanges what nobody knows the size of: the models are cut there, and a note says why."""
        model, cluster = self.file("found.onnx", test_cli.found()), self.file("slow.json", test_cli.SLOW)
        why = b"instead of by a collective, because its size is not known."
        result = self.done("plan", model, "--cluster", cluster, "--emit", self.path("out"))
        self.assertIn(why, result.stderr)
        for name, has_ports, is_told in (("out", True, True), ("ort-collectives", True, True), ("sessions", True, False),
                                         ("tensorrt", False, False)):  # which has a collective for the largest of all
            if name != "out":
                self.done("export", self.path("out/annotated.onnx"), "--format", name, "-o", self.path(name))
            manifest = self.consistent(name)
            sources = {port["from"] for device in manifest["devices"] for part in device["parts"] for port in part["inputs"]}
            self.assertEqual("device" in sources, has_ports, name)
            self.assertEqual("COLLECTIVE_CUT" in [note["code"] for note in manifest["notes"]], is_told, name)

    def test_a_description(self):
        values = [element + 0.5 for element in range(WIDTH * WIDTH)]
        text = {"opset": 21, "inputs": [{"name": "x", "dtype": "float32", "shape": [8, WIDTH]}],
                "initializers": [{"name": "w", "dtype": "float32", "shape": [WIDTH, WIDTH], "data": values}],
                "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["h"]},
                          {"op": "MatMul", "inputs": ["h", "w"], "outputs": ["y"]}], "outputs": ["y"]}
        model = self.file("model.json", json.dumps(text).encode())
        self.emit(model)
        for name in ("annotated.onnx", "simulation.onnx", "device-0.onnx", "device-1.onnx"):
            self.assertIn(struct.pack(f"<{len(values)}f", *values), self.read("out", name), name)
        self.consistent("out")

    def test_from_standard_input(self):
        """A model from a pipe has no folder: weights in other files are not looked for."""
        self.file("weights.bin", b"".join(weight(index) for index in range(LAYERS)))
        result = self.emit("-", stdin=layered("weights.bin"), cwd=self.folder)
        self.assertEqual(result.stderr.count(NOTE), 1)
        self.emit("-", stdin=self.read_model(), folder="same")
        self.emit(self.model(), folder="other")
        for name in FILES - {"plan.json", "annotated.onnx"}:
            if name != "timeline.pftrace":  # names the model
                self.assertEqual(self.read("same", name), self.read("other", name), name)

    def read_model(self):
        with open(self.model(), "rb") as file:
            return file.read()


class Devices(Emits, test_cli.Case):
    """`export` of what devices run."""

    def test_what_a_plan_emits_is_exported(self):
        model = self.model()
        self.emit(model)
        plan, out = self.path("out/plan.json"), self.path("exported")
        self.done("export", plan, "--model", model, "--format", "ort-collectives", "-o", out)
        self.assertEqual(set(os.listdir(out)), {"manifest.json", "device-0.onnx", "device-1.onnx"})
        for name in os.listdir(out):
            self.assertEqual(self.read("exported", name), self.read("out", name))
        self.assertEqual(self.done("export", plan, "--model", model, "--format", "simulation").stdout,
                         self.read("out", "simulation.onnx"))
        self.assertEqual(self.done("export", plan, "--model", model, "--format", "perfetto").stdout,
                         self.read("out", "timeline.pftrace"))

    def test_results_of_unknown_operators_inside_functions_and_branches(self):
        """Inside nothing is known of them; the model declares the shape of what it calls."""
        unknown = [hostile.node("u", ["x"], [name], domain="f") for name in "pq"]
        branches = [hostile.attribute_graph(f"{branch}_branch", made + hostile.message(12, hostile.message(1, name)))
                    for branch, made, name in zip(("then", "else"), unknown, "pq")]
        branching = hostile.model(hostile.node("If", ["c"], ["y"], *branches), hostile.value(11, "c", [], hostile.BOOL),
                                  hostile.value(11, "x", [2]), hostile.value(12, "y", [2]),
                                  rest=hostile.message(8, hostile.message(1, "f"), hostile.number(2, 1)))
        body = hostile.function
        cases = {"one": hostile.calling("a", [body("a", ["u"])]), "two": hostile.calling("a", [body("a", ["u", "v"])]),
                 "nested": hostile.calling("a", [body("a", ["b"]), body("b", ["u"])]), "branches": branching}
        for (name, data), devices, target in itertools.product(cases.items(), ("2", "4"), (*OF_DEVICES, "simulation")):
            with self.subTest((name, devices, target)):
                model, out = self.file(f"{name}.onnx", data), self.path(f"{name}-{devices}")
                self.done("plan", model, "--devices", devices, *test_cli.ALONE, "--emit", out)
                self.done("export", os.path.join(out, "plan.json"), "--model", model, "--format", target, "-o",
                          self.path(f"{name}-{devices}-{target}"))

    def test_every_kind_from_plans_and_annotated_models(self):
        model = self.model()
        self.emit(model)
        for name in OF_DEVICES:
            for kind, arguments in (("plan", [self.path("out/plan.json"), "--model", model]),
                                    ("model", [self.path("out/annotated.onnx")])):
                with self.subTest((name, kind)):
                    folder = f"{name}-{kind}"
                    answer = self.json("export", *arguments, "--format", name, "-o", self.path(folder))
                    self.assertEqual((answer["format"], answer["notes"]), (name, []))
                    self.consistent(folder)
            planned, annotated = (json.loads(self.read(f"{name}-{kind}", "manifest.json")) for kind in ("plan", "model"))
            estimate = json.loads(self.read("out", "plan.json"))["estimate"]
            self.assertEqual(planned.pop("estimate"), {key: estimate[key] for key in (
                "latency_seconds", "interval_seconds", "throughput_per_second")})
            self.assertEqual(planned, annotated)

    def test_devices_that_exchange(self):
        """A weight split by columns, the next by rows: partial sums, which each kind brings together in its own way."""
        model, split = self.model(), self.path("split.onnx")
        self.done("infer", model, "--devices", "2", "--mode", "propagate", "--mesh", '<["x"=2]>', "--set",
                  "w0={devices=[1,2]0,1}", "-o", split)
        for name, operator in (("ort-collectives", "com.microsoft.AllReduce"), ("tensorrt", "DistCollective"),
                               ("sessions", None)):
            with self.subTest(name):
                self.done("export", split, "--format", name, "-o", self.path(name))
                manifest = self.consistent(name)
                operators = set()
                for entry in manifest["order"]:
                    for model_name in entry:
                        operators |= set(self.json("inspect", os.path.join(self.path(name), model_name))["operators"])
                worlds = {device["world"] for device in manifest["devices"]}
                if operator is None:
                    self.assertEqual(len(worlds), 2)
                    self.assertGreater(len(manifest["order"]), 1)
                    self.assertFalse({"com.microsoft.AllReduce", "DistCollective"} & operators)
                else:
                    self.assertEqual(len(worlds), 1)
                    self.assertTrue(any(other.endswith(operator) for other in operators), operators)
        simulation = self.path("simulation.onnx")
        self.done("export", split, "--format", "simulation", "-o", simulation)
        self.assertIn("Add", self.sound(simulation)["operators"])

    def test_a_part_that_nobody_needs(self):
        """Device 0 gives a value to device 2 and gets its result back for a split MatMul with device 1, which has nothing
        to do before that: its first part has no model."""
        maker = onnx_make.Weights("pattern")

        def at(*shardings):
            return [onnx_make.placement("three", *(onnx_make.sharding(*item) for item in shardings))]

        graph = [onnx_make.graph_input("x", [4, 8]), maker.tensor("w", [8, 8]),
                 onnx_make.node("Relu", ["x"], ["a"], placements=at(("x", (0,)), ("a", (0,)))),
                 onnx_make.node("Relu", ["a"], ["b"], placements=at(("a", (2,)), ("b", (2,)))),
                 onnx_make.node("MatMul", ["b", "w"], ["y"],
                                placements=at(("b", (0, 1), (1, 2)), ("w", (0, 1), (0, 2)), ("y", (0, 1)))),
                 onnx_make.graph_output("y", [4, 8])]
        three = [onnx_make.configuration("three", 3)]
        model = self.file("three.onnx", onnx_make.encode(onnx_make.model(*graph, ir_version=11, configurations=three)))
        self.done("export", model, "--format", "ort-collectives", "-o", self.path("out"))
        manifest = self.consistent("out")
        self.assertEqual(manifest["order"],
                         [["device-0.onnx"], ["device-2.onnx"], ["device-0.part-1.onnx", "device-1.part-1.onnx"]])

    def test_wrong_usage(self):
        model = self.model()
        self.emit(model)
        plan, annotated = self.path("out/plan.json"), self.path("out/annotated.onnx")
        for name in OF_DEVICES:
            self.assertIn(b"-o DIR", self.done("export", annotated, "--format", name, status=2).stderr)
            result = self.done("export", annotated, "--format", name, "-o", self.file("taken", b""), status=4)
            self.assertIn(b"[FOLDER_NOT_WRITABLE]", result.stderr)
        other = self.file("other.onnx", onnx_make.encode(onnx_make.mlp(2, 64)))
        for name in ("simulation", *OF_DEVICES):
            result = self.done("export", plan, "--model", other, "--format", name, "-o", self.path("x"), status=2)
            self.assertIn(b"[OTHER_MODEL]", result.stderr)
            self.assertFalse(os.path.exists(self.path("x")))
        self.assertIn(b"[FILE_NOT_WRITABLE]",
                      self.done("export", annotated, "--format", "csv", "-o", self.path("no/x"), status=4).stderr)
        self.assertIn(b"[USAGE]", self.done("export", annotated, "--format", "word", status=2).stderr)

    def test_notes_are_told_where_weights_are_written(self):
        model = self.file("model.onnx", layered("weights.bin"))
        self.emit(model)
        annotated = self.path("out/annotated.onnx")
        for name, count in (("simulation", 1), ("csv", 0), ("shardy", 0), ("sessions", 1)):
            result = self.done("export", annotated, "--format", name, "-o", self.path(name))
            self.assertEqual(result.stderr.count(NOTE), count, name)


class Readme(test_cli.Readme):
    SECTION = "What the devices run"

    def test_what_it_prints_is_true(self):
        self.assertEqual(self.check(self.SECTION), 1)
        self.assertEqual(set(os.listdir(self.path("out"))), FILES)

    def test_it_lists_every_format_and_file(self):
        with open(os.path.join(test_cli.TOP, "README.md"), encoding="utf-8") as file:
            section = file.read().split(f"\n## {self.SECTION}\n")[1].split("\n## ")[0]
        tables = [set(), set()]
        for line in section.splitlines():
            names = re.findall(r"`([^`]+)`", line.split("|")[1]) if line.startswith("| `") else []
            family = names[0] if names else ""
            tables["." not in family] |= {family + name if name.startswith("-") else name for name in names}
        self.assertEqual({name.replace("-K", "-0") for name in tables[0]}, FILES - {"device-1.onnx"})
        listed = set(re.findall(r"(?m)^  ([a-z][a-z-]+) {2,}", self.done("export", "--help").stdout.decode()))
        self.assertEqual(tables[1], listed)


class Cutting:
    """A proxy that breaks each connection on which a part is sent, in the middle of the part: after so many bytes of its body more
    than of the one before."""

    def __init__(self, port, step):
        self.port, self.step = port, step
        self.parts = []  # (offset, bytes, bytes that were passed on) of each

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            threading.Thread(target=self.answers, args=(server, client), daemon=True).start()
            threading.Thread(target=self.serve, args=(client, server), daemon=True).start()

    def serve(self, client, server):
        try:
            self.requests(client, server)
        except OSError:
            pass
        for end, how in ((client, socket.SHUT_RDWR), (server, socket.SHUT_WR)):  # a reset would take away what is not read yet
            try:
                end.shutdown(how)
            except OSError:
                pass

    @staticmethod
    def answers(server, client):
        with server, client:
            try:
                while data := server.recv(4096):
                    client.sendall(data)
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def requests(self, client, server):
        with client.makefile("rb") as file:
            while line := file.readline():
                head = [line]
                while head[-1] not in (b"\r\n", b""):
                    head.append(file.readline())
                server.sendall(b"".join(head))
                headers = dict(item.lower().strip().split(b": ", 1) for item in head[1:-1])
                length = left = int(headers.get(b"content-length", 0))
                if line.startswith(b"PATCH /v1/uploads/"):
                    left = min(length, self.step * (len(self.parts) + 1))
                    self.parts.append((int(headers[b"upload-offset"]), length, left))
                is_cut = left < length
                while left > 0 and (data := file.read1(min(left, 4096))):
                    server.sendall(data)
                    left -= len(data)
                if is_cut:
                    return


class Server(Emits, test_cli.DaemonCase):
    """The same through a daemon."""

    def kept(self, result):
        return re.search(rb"the server keeps the plan as ([0-9a-f]{32})", result.stderr).group(1).decode()

    def on_server(self, model, folder):
        return self.kept(self.emit(model, "--server", self.url, folder=folder))

    def test_files_are_the_same(self):
        with open(os.path.join(test_cli.TOP, "api/examples/attention.json"), "rb") as file:
            described = self.file("attention.json", file.read())
        for model in (self.model(), test_cli.RESNET, described):
            with self.subTest(model):
                name = os.path.basename(model)
                more = ("--dim", "batch=2", "--dim", "seq=16") if model == described else ()
                self.emit(model, *more, folder="local-" + name)
                self.emit(model, *more, "--server", self.url, folder="remote-" + name)
                self.assertEqual(sorted(os.listdir(self.path("local-" + name))),
                                 sorted(os.listdir(self.path("remote-" + name))))
                for file in FILES - {"plan.json"}:
                    self.assertEqual(self.read("local-" + name, file), self.read("remote-" + name, file), file)
                local, remote = (json.loads(self.read(f"{place}-{name}", "plan.json")) for place in ("local", "remote"))
                for plan in (local, remote):
                    del plan["search"]["seconds"], plan["proof"]["seconds"]
                self.assertEqual(local, remote)

    def external(self, name):
        """A model whose weights lie beside it, under a name that no other test has."""
        self.file(name, b"".join(weight(index) for index in range(LAYERS)))
        return self.file("model.onnx", layered(name))

    def same_devices(self, place):
        for file in ("manifest.json", "device-0.onnx", "device-1.onnx", "device-0.onnx.data", "device-1.onnx.data"):
            self.assertEqual(self.read("local", file), self.read(place, file), file)

    def test_weights_come_along(self):
        model = self.external("beside.bin")
        self.emit(model, folder="local")
        result = self.emit(model, "--server", self.url, folder="remote")
        self.assertNotIn(b"the server does not have the files", result.stderr)
        self.same_devices("remote")
        self.emit(model, "--server", self.url, folder="again")
        self.same_devices("again")

    def test_connections_that_break(self):
        model = self.external("cut.bin")
        self.emit(model, folder="local")
        with Cutting(int(self.url.rsplit(":", 1)[1]), 9000) as proxy:
            self.done("models", "upload", model, "--server", proxy.url)
        offsets, lengths, passed = zip(*proxy.parts)
        # 9,000, 18,000 and 27,000 bytes are less than all, and the daemon keeps no more of them than came.
        self.assertGreater(len(proxy.parts), 3)
        self.assertEqual([offset + length for offset, length in zip(offsets, lengths)], [LAYERS * WEIGHT] * len(proxy.parts))
        self.assertTrue(all(0 <= after - before <= came for before, after, came in zip(offsets, offsets[1:], passed)), proxy.parts)
        self.assertGreater(offsets[-1], 0, "what came is kept")
        self.assertEqual(passed[-1], lengths[-1])
        self.emit(model, "--server", self.url, folder="remote")
        self.same_devices("remote")

    def test_weights_that_are_not_there(self):
        result = self.emit(self.file("model.onnx", layered("weights.bin")), "--server", self.url)
        self.assertIn(b"the server does not have the files", result.stderr)
        self.assertEqual(set(os.listdir(self.path("out"))), FILES)
        self.assertIn(b"weights.bin", self.read("out", "device-1.onnx"))

    def test_exports_of_a_plan(self):
        model = self.model()
        plan = self.on_server(model, "out")
        for name in ("csv", "shardy", "perfetto", "simulation", "poprt-model"):
            with self.subTest(name):
                local = self.done("export", self.path("out/plan.json"), "--model", model, "--format", name).stdout
                self.assertEqual(self.remote("export", plan, "--format", name).stdout, local)
                self.remote("export", plan, "--format", name, "-o", self.path("file"))
                self.assertEqual(self.read("file"), local)
        for name in OF_DEVICES:
            with self.subTest(name):
                self.remote("export", plan, "--format", name, "-o", self.path("remote-" + name))
                self.done("export", self.path("out/plan.json"), "--model", model, "--format", name, "-o",
                          self.path("local-" + name))
                for file in os.listdir(self.path("local-" + name)):
                    self.assertEqual(self.read("remote-" + name, file), self.read("local-" + name, file))
                self.consistent("remote-" + name)
        answer = json.loads(self.remote("export", plan, "--format", "csv", "-o", self.path("x"), "--json").stdout)
        self.assertEqual(answer, {"format": "csv", "media_type": "text/csv; charset=utf-8"})

    def test_files_are_exported_here(self):
        model = self.model()
        self.emit(model)
        for arguments in ([self.path("out/annotated.onnx")], [self.path("out/plan.json"), "--model", model]):
            arguments = ["export", *arguments, "--format", "csv"]
            self.assertEqual(self.done(*arguments, "--server", "http://127.0.0.1:1").stdout, self.done(*arguments).stdout)

    def test_errors(self):
        model = self.model()
        plan = self.on_server(model, "out")
        for status, code, arguments in (
                (1, "PART_OF_THE_DEVICES", [plan, "--format", "ort"]),
                (2, "NO_DEVICE", [plan, "--format", "ort", "--device", "7"]),
                (2, "MODEL_MISSING", [self.path("out/plan.json"), "--format", "csv"]),
                (2, "USAGE", [plan, "--model", model, "--format", "csv"]),
                (2, "USAGE", [plan, "--format", "sessions"]),
                (4, "PLAN_NOT_FOUND", ["0" * 32, "--format", "csv"]),
                (4, "FOLDER_NOT_WRITABLE", [plan, "--format", "sessions", "-o", model]),
                (4, "FILE_NOT_WRITABLE", [plan, "--format", "csv", "-o", self.path("no/x")])):
            with self.subTest(arguments):
                self.assertIn(f"[{code}]", self.remote("export", *arguments, status=status).stderr.decode())
        self.assertIn(b"[FOLDER_NOT_WRITABLE]",
                      self.emit(model, "--server", self.url, folder="model.onnx", status=4).stderr)
        self.assertIn(b"[FILE_NOT_READABLE]", self.done("export", plan, "--format", "csv", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
