#!/usr/bin/env python3
"""`shardplan check`, `infer` and `operators` as people use them, offline and through a daemon."""

import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402
from test_cli import onnx_make, run  # noqa: E402

TRANSFORMER = os.path.join(test_cli.TOP, "tests/data/transformer_tiny.onnx")
COLUMNS = "{devices=[1,2]0,1}"
SPLIT = ["--devices", "2", "--set", f"w0={COLUMNS}"]
COMMUNICATION = ("RESHARD", "OUTPUT_RESHARD", "REDUCTION", "GATHER", "HALO_EXCHANGE")
PROPAGATE = ["--mode", "propagate", "--mesh", '<["x"=2]>', "--set", f"w0={COLUMNS}"]


class Models(test_cli.Case):
    def annotated(self, name="annotated.onnx", **options):
        self.external_weights()
        return self.file(name, onnx_make.encode(onnx_make.annotated(**options)))

    def contradiction(self):
        return self.annotated("contradiction.onnx", more=[onnx_make.node("Relu", ["nothing"], ["z"], "lost")])

    def bytes(self, path):
        with open(path, "rb") as file:
            return file.read()

    def same_bytes(self, one, other):
        self.assertEqual(self.bytes(one), self.bytes(other))


class Check(Models):
    def test_valid(self):
        text = self.done("check", self.annotated()).stdout.decode()
        self.assertIn("note REDUCTION\n", text)
        self.assertRegex(text.splitlines()[-1], r"^annotated\.onnx is valid: 0 errors, 0 warnings, \d+ notes?$")
        for model in (test_cli.RESNET, TRANSFORMER, self.mlp(1)):
            self.assertTrue(self.done("check", model).stdout.endswith(b" is valid: 0 errors, 0 warnings, 0 notes\n"))

    def test_many_configurations_of_many_nodes(self):
        """Each is looked at for itself; what comes after more than the file accounts for is told and passed over."""
        graph = [onnx_make.graph_input("0", [8])]
        graph += [onnx_make.node("Relu", [str(i)], [str(i + 1)]) for i in range(600)]
        graph.append(onnx_make.graph_output("600", [8]))
        for count, is_passed_over in ((10, False), (600, True)):
            named = [onnx_make.configuration(f"c{i}", 2) for i in range(count)]
            model = self.file("many.onnx", onnx_make.encode(
                onnx_make.model(*graph, ir_version=11, configurations=named)))
            codes = [item["code"] for item in self.json("check", model)["diagnostics"]]
            self.assertEqual("NOT_LOOKED_AT" in codes, is_passed_over)

    def test_json(self):
        answer = self.json("check", self.annotated(width=7))
        self.assertEqual((answer["valid"], answer["errors"]), (True, 0))
        self.assertIn("SHARDS_UNEVEN", [item["code"] for item in answer["diagnostics"]])

    def test_what_is_wrong_is_the_result(self):
        """Not an error of the command: the findings are on standard output, and the status says it."""
        for model, code in ((self.annotated(axis=5), "AXIS_OUT_OF_RANGE"), (self.contradiction(), "UNDEFINED_INPUT"),
                            (self.annotated("old.onnx", ir_version=8), "IR_VERSION_TOO_LOW")):
            with self.subTest(code):
                text = run("check", model)
                self.assertEqual((text.returncode, text.stderr), (1, b""))
                self.assertIn(f"error {code}\n", text.stdout.decode())
                self.assertIn(" is not valid: 1 error, ", text.stdout.decode().splitlines()[-1])
                answer = run("check", model, "--json")
                self.assertEqual((answer.returncode, answer.stderr), (1, b""))
                self.assertEqual([item["code"] for item in json.loads(answer.stdout)["diagnostics"]
                                  if item["severity"] == "error"], [code])

    def test_memory(self):
        model = self.annotated()
        # Two weights of 8 x 8 floats, one of them halved, are 384 bytes.
        self.assertEqual(run("check", model, "--memory", "383").returncode, 1)
        self.done("check", model, "--memory", "80e9")
        self.done("check", model, "--device", "a100-sxm4-80gb")
        for bytes_, status in ((383, 1), (1000, 0)):
            described = json.dumps({"name": "mine", "memory_bytes": bytes_, "memory_bandwidth": 1e9, "flops": {"float32": 1e9}})
            self.assertEqual(run("check", model, "--device", self.file("mine.json", described.encode())).returncode, status)

    def test_standard_input(self):
        with open(self.annotated(), "rb") as file:
            self.assertIn(b"stdin is valid", self.done("check", "-", stdin=file.read()).stdout)

    def test_wrong_usage_and_unreadable_files_end_with_2(self):
        model = self.annotated()
        for arguments in ([], [model, model], [model, "--memory", "0"], [model, "--memory", "much"], [model, "--memory"],
                          [model, "--device", "abacus"], [model, "--device", self.file("not.json", b"{}")],
                          [model, "--device", self.path("absent.json")], [model, "--configuration", "three"],
                          [model, "--configuration", ""],
                          [model, "--verbose"], [self.path("absent.onnx")], [self.file("text", b"hello, world\n")],
                          [self.file("empty", b"")]):
            with self.subTest(arguments):
                self.done("check", *arguments, status=2)

    def test_help_names_every_option(self):
        for command, options in (("check", ("configuration", "device", "memory", "json", "server")),
                                 ("infer", ("mode", "set", "set-weight", "all", "mesh", "devices", "configuration", "output", "json", "server")),
                                 ("operators", ("json", "server"))):
            text = self.done(command, "--help").stdout.decode()
            for option in options:
                self.assertIn(f"--{option}", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 115)


class Infer(Models):
    def test_weights_by_their_nodes(self):
        """The weight and not the bias; a pattern names several; what is whole is counted, or listed."""
        model, spec = self.mlp(2, 64, 8), "={devices=[1,2]0,1}"
        options = ("--mode", "propagate", "--mesh", '<["x"=2]>')
        by_name = self.json("infer", model, *options, "--set", "w0" + spec)
        self.assertEqual(self.json("infer", model, *options, "--set-weight", "matmul0" + spec), by_name)
        self.assertEqual(self.json("infer", model, *options, "--set-weight", "*mul0" + spec), by_name)
        both = self.json("infer", model, "--devices", "2", "--set-weight", "matmul*" + spec)["specs"]
        self.assertEqual({item["tensor"] for item in both if item["origin"] == "set"}, {"w0", "w1"})
        self.done("infer", model, *options, "--set-weight", "relu0" + spec, status=2)
        self.done("infer", model, *options, "--set-weight", "nobody" + spec, status=2)
        short = self.done("infer", model, *options, "--set", "w0" + spec).stdout.decode()
        long = self.done("infer", model, *options, "--set", "w0" + spec, "--all").stdout.decode()
        count = int(re.search(r"(?m)^(\d+) more specs? of tensors that are whole", short)[1])
        self.assertEqual(long.count("  RR device_mesh") + long.count("  R device_mesh"), count)
        self.assertNotIn("  RR device_mesh", short)

    def test_an_input_that_is_a_result(self):
        """What the devices hold of it split is sent for no node, but for a result of the model."""
        graph = [onnx_make.graph_input("x", [4, 2]), onnx_make.graph_input("axes", [1], onnx_make.INT64),
                 onnx_make.node("ReduceMin", ["x", "axes"], ["unused"], keepdims=0), onnx_make.graph_output("x", [4, 2])]
        model = self.file("result.onnx", onnx_make.encode(onnx_make.model(*graph, opset=18)))
        split = ["--devices", "2", "--set", "x={devices=[2,1]0,1}"]
        answer = self.json("infer", model, *split)
        self.assertEqual([(item["tensor"], item["node"]) for item in answer["communication"]], [("x", None)])
        self.assertIn("1 communication\n", self.done("infer", model, *split).stdout.decode())

    def test_text_and_json(self):
        model = self.mlp(2, 64, 8)
        text = self.done("infer", model, *SPLIT).stdout.decode()
        self.assertIn("m0  RS[0] device_mesh_shape=[2] device_mesh_elements=[0,1]\n", text)
        self.assertIn("\nall-reduce: 2.0 kB\n", text)  # [8, 64] floats, a ring of two: each sends all of them once
        answer = self.json("infer", model, *PROPAGATE)
        self.assertEqual((answer["mode"], answer["devices"]), ("propagate", 2))
        [split] = [item for item in answer["specs"] if item["tensor"] == "w1"]
        self.assertEqual((split["origin"], split["spec"]["text"].split(" ")[0]), ("inferred", "S[0]R"))

    def test_the_completed_model(self):
        for model, options in ((self.mlp(2, 64, 8), SPLIT), (self.mlp(2, 64, 8), PROPAGATE), (self.annotated(), []),
                               (TRANSFORMER, ["--devices", "4"])):
            with self.subTest(options=options):
                out, back = self.path("out.onnx"), self.path("back.onnx")
                printed = self.done("infer", model, *options, "-o", out).stdout
                self.assertEqual(printed, self.done("infer", model, *options).stdout)
                self.done("check", out)
                self.assertEqual(self.json("infer", out)["added"], 0)
                self.done("strip", out, "-o", back)
                self.same_bytes(model, back)
                self.assertEqual(self.done("infer", model, *options, "-o", "-").stdout, self.bytes(out))

    def test_a_weight_of_three_that_are_split_each(self):
        """Megatron-LM's layout: queries, keys and values are one weight of three parts, each split by heads."""
        third = {"device": [0, 1], "shardedDim": [{"axis": 1, "simpleSharding": [{"dimValue": 3, "numShards": 1},
                                                                                  {"dimValue": 32, "numShards": 2}]}]}
        repeated = "RS[0] device_mesh_shape=[6] device_mesh_elements=[0,1,0,1,0,1]"  # the same for ONNX Runtime
        columns = [argument for weight in (226, 240) for argument in ("--set", f"onnx::MatMul_{weight}={COLUMNS}")]
        for spec in (json.dumps(third), repeated):
            options = ["--devices", "2", "--mode", "propagate", *columns]
            for weight in (214, 228):
                options += ["--set", f"onnx::MatMul_{weight}={spec}"]
            answer = self.json("infer", TRANSFORMER, *options)
            self.assertEqual([(item["steps"], item["tensor"]) for item in answer["communication"]],
                             [("all-reduce", f"/{name}/MatMul_output_0") for name in ("out", "down", "out_1", "down_1")])
            found = {item["tensor"]: item["spec"]["onnx"] for item in answer["specs"]}
            for name, axis in (("onnx::MatMul_214", 1), ("layers.0.qkv.bias", 0), ("layers.1.qkv.bias", 0),
                               ("/qkv_1/Add_output_0", 2)):
                self.assertEqual(found[name]["device"], [0, 1])
                self.assertEqual(found[name]["shardedDim"], [{**third["shardedDim"][0], "axis": axis}])
            for name, axis, extent in (("onnx::MatMul_225", 0, 32), ("onnx::MatMul_241", 0, 128),
                                       ("/Softmax_output_0", 1, 4)):
                self.assertEqual(found[name]["shardedDim"],
                                 [{"axis": axis, "simpleSharding": [{"dimValue": extent, "numShards": 2}]}])
            out, back = self.path("out.onnx"), self.path("back.onnx")
            self.done("infer", TRANSFORMER, *options, "-o", out)
            self.assertIn(b" 0 errors, 0 warnings, ", self.done("check", out).stdout)
            again = self.json("infer", out)
            self.assertEqual((again["added"], again["communication"]), (0, answer["communication"]))
            self.done("strip", out, "-o", back)
            self.same_bytes(TRANSFORMER, back)

    def test_operands_that_contradict_each_other(self):
        """The one that loses is stated as its node needs it, with a reshard: a weight before an activation. A check of
        what is written finds no error, and says the same to be communicated."""
        weights = {"w": [16, 64], "w1": [16, 64], "w2": [64, 16], "t": [64, 16]}
        split0, split1 = "{devices=[2,1]<=[2]}", "{devices=[1,2]<=[2]}"
        matmul = [{"name": "m", "op": "MatMul", "inputs": ["a", "w"], "outputs": ["y"]}]
        two = [{"name": "m1", "op": "MatMul", "inputs": ["a", "w1"], "outputs": ["h"]},
               {"name": "g", "op": "Relu", "inputs": ["h"], "outputs": ["r"]},
               {"name": "m2", "op": "MatMul", "inputs": ["r", "w2"], "outputs": ["y"]}]
        gather = [{"name": "g", "op": "Gather", "inputs": ["t", "i"], "outputs": ["y"]}]
        same = [{"name": "p", "op": "MatMul", "inputs": ["s", "s"], "outputs": ["y"]}]
        for nodes, sets, found, whole in (
                (matmul, {"a": split0, "w": split1}, [("all-gather", "w")], ("m", "w")),
                (gather, {"t": split0, "i": split0}, [("all-gather", "t")], ("g", "t")),
                (two, {"a": split0, "w1": split0}, [("all-gather", "w1")], ("m1", "w1")),
                (same, {"s": split0}, [("all-gather", "s")], ("p", "s"))):
            used = {name for node in nodes for name in node["inputs"]}
            model = self.file("model.json", json.dumps({
                "opset": 21, "nodes": nodes, "outputs": ["y"],
                "inputs": [{"name": name, "dtype": dtype, "shape": shape} for name, dtype, shape in
                           (("a", "float32", [8, 16]), ("i", "int64", [8, 4]), ("s", "float32", [8, 8])) if name in used],
                "initializers": [{"name": name, "dtype": "float32", "shape": shape}
                                 for name, shape in weights.items() if name in used]}).encode())
            for mode in ("propagate", "forward"):
                with self.subTest(nodes=nodes[0]["name"], mode=mode):
                    out = self.path("out.onnx")
                    answer = self.json("infer", model, "--mode", mode, "--mesh", '<["x"=2]>', "-o", out,
                                       *[part for name, spec in sets.items() for part in ("--set", f"{name}={spec}")])
                    self.assertEqual([(one["steps"], one["tensor"]) for one in answer["communication"]], found)
                    [stated] = [one["spec"]["onnx"].get("shardedDim", []) for one in answer["specs"]
                                if (one["tensor"], one["operand"][:5]) == (whole[1], "input") and whole[0] in one["node"]][:1]
                    self.assertEqual(stated, [])
                    check = self.json("check", out)
                    self.assertTrue(check["valid"])
                    told = [one for one in check["diagnostics"] if one["code"] in COMMUNICATION]
                    self.assertEqual([one["tensor"] for one in told], [one[1] for one in found])
                    self.assertEqual(self.json("infer", out)["communication"][0]["steps"], found[0][0])

    def test_an_answer_without_end(self):
        chain = self.file("chain.onnx", onnx_make.encode(onnx_make.chain(240)))  # more than 512 operands
        out, asked = self.path("out.onnx"), ("infer", chain, "--devices", "65536", "--set", "*={replicated}")
        for more in ([], ["--json"], ["-o", out, "--json"]):
            result = self.done(*asked, *more, status=2)
            self.assertIn(b"[ANSWER_TOO_LARGE]", result.stderr)
            self.assertFalse(os.path.exists(out))
        # For people the model is the answer then.
        result = self.done(*asked, "-o", out)
        self.assertIn(b"[ANSWER_TOO_LARGE]", result.stderr)
        self.assertEqual(result.stdout, b"")
        self.done("check", out)

    def test_more_spec_devices_than_a_file_accounts_for(self):
        """Specs of 65,536 devices each, no two in the same order: each is walked over, unlike equal ones."""
        chain = self.file("chain.onnx", onnx_make.encode(onnx_make.chain(40, dims=(65536, 2))))
        orders = [f"[{1 << k},{1 << (16 - k)}]T(1,0)" for k in range(1, 16)]
        orders += [f"[2,{1 << k},{1 << (15 - k)}]T(2,1,0)" for k in range(1, 15)]
        sets = [text for i, order in enumerate(orders)
                for text in ("--set", f"v{i}={{devices=[65536,1]<={order}}}")]
        asked = ("infer", chain, "--devices", "65536", "--mode", "propagate", "-o", self.path("out.onnx"))
        self.assertIn(b"[TOO_MANY_SPEC_DEVICES]", self.done(*asked, *sets, status=2).stderr)
        # One order on all of them is not more than one.
        equal = [text for i in range(len(orders)) for text in ("--set", f"v{i}={{devices=[65536,1]<=[65536]}}")]
        self.done(*asked, *equal)

    def test_over_the_input_itself(self):
        model, other = self.annotated(), self.path("other.onnx")
        self.done("infer", model, "-o", other)
        self.done("infer", model, "-o", model)
        self.same_bytes(model, other)

    def test_nothing_is_left_behind_by_a_failure(self):
        self.done("infer", self.annotated(axis=5), "-o", self.path("out.onnx"), status=1)
        self.done("infer", self.mlp(), "-o", self.path("out.onnx"), status=2)
        self.done("infer", self.annotated(), "-o", os.path.join(self.folder, "no", "out.onnx"), status=4)
        self.assertEqual(sorted(os.listdir(self.folder)), ["annotated.onnx", "mlp.onnx", "weights.bin"])

    def test_annotations_that_make_no_sense_end_with_1(self):
        for model in (self.annotated(axis=5), self.contradiction()):
            self.done("infer", model, status=1)

    def test_wrong_usage_ends_with_2(self):
        model = self.mlp(2, 64)
        for arguments in ([], [model, model], [model], [model, "--devices", "0"], [model, "--devices", "two"],
                          [model, "--set"], [model, "--set", "w0"], [model, "--set", f"={COLUMNS}"],
                          [model, *SPLIT, "--set", f"w0={COLUMNS}"], [model, "--devices", "2", "--set", "w0=??"],
                          [model, "--devices", "2", "--set", f"w9={COLUMNS}"], [model, *SPLIT, "--mode", "backward"],
                          [model, *SPLIT, "--mesh", "<["], [model, *SPLIT, "-o"], [model, *SPLIT, "-o", "-", "--json"],
                          [self.annotated(), "--devices", "3"], [self.file("text", b"hello, world\n"), *SPLIT]):
            with self.subTest(arguments):
                self.done("infer", *arguments, status=2)


class Operators(test_cli.Case):
    def test_all(self):
        text = self.done("operators").stdout.decode()
        self.assertIn("\nMatMul, from version 1\n  [b.., m, k] [b.., k, n] -> [b.., m, n]; k sum\n", text)
        listed = self.json("operators")["operators"]
        self.assertEqual(len(text.splitlines()), 2 * sum(len(operator["rules"]) for operator in listed))

    def test_one(self):
        self.assertTrue(self.done("operators", "Softmax").stdout.startswith(b"Softmax, "))
        [operator] = self.json("operators", "com.microsoft.Attention")["operators"]
        self.assertEqual((operator["domain"], operator["name"]), ("com.microsoft", "Attention"))

    def test_wrong_names_end_with_2(self):
        self.assertIn(b"'MatMul'", self.done("operators", "matmul", status=2).stderr)
        for arguments in (["Dance"], [""], ["MatMul", "Add"], ["--verbose"]):
            self.done("operators", *arguments, status=2)


class Readme(test_cli.Readme):
    def test_what_it_prints_is_true(self):
        self.assertEqual(self.check("Checking and completing shardings"), 4)


class Server(test_cli.DaemonCase, Models):
    """The same through a daemon: every byte of standard output and standard error, and the status."""

    def test_the_output_is_the_same(self):
        model, good, wrong = self.mlp(2, 64, 8), self.annotated(), self.annotated("axis.onnx", axis=5)
        contradiction, text = self.contradiction(), self.file("text", b"hello, world\n")
        for arguments, status in (
            (["check", good], 0), (["check", good, "--device", "a100-sxm4-80gb"], 0), (["check", good, "--memory", "383"], 1),
            (["check", good, "--memory", "80.5e9", "--configuration", "two"], 0), (["check", wrong], 1),
            (["check", contradiction], 1), (["check", self.annotated("7.onnx", width=7)], 0), (["check", TRANSFORMER], 0),
            (["check", self.file("a name & more.onnx", self.bytes(model))], 0), (["check", text], 2),
            (["check", self.file("empty", b"")], 2), (["check", good, "--device", "abacus"], 2),
            (["check", good, "--configuration", "three"], 2),
            (["infer", good], 0), (["infer", model, *SPLIT], 0), (["infer", model, *PROPAGATE], 0),
            (["infer", TRANSFORMER, "--devices", "2", "--set", f"onnx::MatMul_2*={COLUMNS}"], 0),
            (["infer", wrong], 1), (["infer", contradiction], 1), (["infer", text], 2), (["infer", model], 2),
            (["infer", model, *SPLIT, "--mode", "backward"], 2), (["infer", model, "--devices", "2", "--set", f"a/b={COLUMNS}"], 2),
            (["operators"], 0), (["operators", "MatMul"], 0), (["operators", "com.microsoft.Attention"], 0),
            (["operators", "matmul"], 2), (["operators", "no \u20ac"], 2),
        ):
            for form in ([], ["--json"]):
                with self.subTest(arguments=arguments, form=form):
                    local = run(*arguments, *form)
                    remote = run(*arguments, *form, "--server", self.url)
                    self.assertEqual(local.returncode, status, local.stderr)
                    self.assertEqual((remote.returncode, remote.stdout, remote.stderr),
                                     (local.returncode, local.stdout, local.stderr))

    def test_files_are_the_same(self):
        for model, options in ((self.mlp(2, 64, 8), SPLIT), (self.mlp(2, 64, 8), PROPAGATE), (self.annotated(), []),
                               (TRANSFORMER, ["--devices", "2", "--mode", "propagate"])):
            with self.subTest(options=options):
                local, remote = self.path("local.onnx"), self.path("remote.onnx")
                here = self.done("infer", model, *options, "-o", local)
                there = self.remote("infer", model, *options, "-o", remote)
                self.same_bytes(local, remote)
                self.assertEqual(here.stdout, there.stdout)
                self.assertEqual(self.remote("infer", model, *options, "-o", "-").stdout, self.bytes(local))

    def test_nothing_is_left_behind_by_a_failure(self):
        self.remote("infer", self.annotated(axis=5), "-o", self.path("out.onnx"), status=1)
        self.assertEqual(sorted(os.listdir(self.folder)), ["annotated.onnx", "weights.bin"])


if __name__ == "__main__":
    unittest.main()
