#!/usr/bin/env python3
"""Files in which other tools say where nodes run: `check --placement-file`, `plan --placement-file`, and pipelines of models as
a manifest of `verify`. The files are written by hand, as QEfficient, ONNX Runtime, PopRT, onnxruntime-genai and Polygraphy
have them."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
sys.dont_write_bytecode = True

import onnx_make as make  # noqa: E402
import test_cli  # noqa: E402
import test_verify  # noqa: E402

MODELS = os.path.join(os.environ.get("SHARDPLAN_TEST_DATA", ""), "models")
NAMES, LAYERS = "session.name_based_layer_assignment", "session.layer_assignment_settings"


def chain(count=6, named=True):
    """relu0 .. of a row, with a folded Transpose of a weight in front of the third."""
    nodes = [make.graph_input("x", [4, 4]), test_verify.Weight(4, 4).proto("w"), make.node("Transpose", ["w"], ["wt"], "fold", perm=[1, 0])]
    for i in range(count):
        source, result = f"t{i}" if i else "x", f"t{i + 1}" if i + 1 < count else "y"
        name = f"block{i // 2}/op{i}" if named else ""
        if i == 2:
            nodes.append(make.node("MatMul", [source, "wt"], [result], name))
        else:
            nodes.append(make.node("Relu", [source], [result], name))
    return make.model(*nodes, make.graph_output("y", [4, 4]))


def partition(number, nodes, devices):
    return {"name": f"Partition{number}", **({} if nodes is None else {"nodeList": nodes}),
            "devices": [{"deviceId": device, "numCores": 16} for device in devices]}


def mdp(*partitions, devices=(0, 1)):
    return {"connections": [{"devices": list(devices), "type": "p2p"}], "partitions": list(partitions)}


OPS = [f"block{i // 2}/op{i}" for i in range(6)]


class Files(test_cli.Case):
    def setUp(self):
        super().setUp()
        self.model = self.file("chain.onnx", make.encode(chain()))

    def check(self, placement, model=None, valid=True):
        """{code: [message, ..]} of what is said of the placement."""
        text = placement if isinstance(placement, str) else json.dumps(placement)
        result = test_cli.run("check", model or self.model, "--placement-file", self.file("placement", text.encode()), "--json")
        self.assertEqual(result.returncode, 0 if valid else 1, result.stdout + result.stderr)
        found = {}
        for item in json.loads(result.stdout)["diagnostics"]:
            found.setdefault(item["code"], []).append(item["message"])
        return found

    def refused(self, placement, words, model=None):
        text = placement if isinstance(placement, (str, bytes)) else json.dumps(placement)
        data = text if isinstance(text, bytes) else text.encode()
        answer = self.done("check", model or self.model, "--placement-file", self.file("placement", data), status=2)
        self.assertIn(words, answer.stderr.decode())

    def planned(self, placement, devices, *options, model=None):
        """{node: (stage, devices)} of the plan that keeps it."""
        text = placement if isinstance(placement, str) else json.dumps(placement)
        plan = self.plan(model or self.model, devices, "--placement-file", self.file("placement", text.encode()), *options)
        return {node: (stage["index"], tuple(stage["devices"])) for stage in plan["stages"] for node in stage["nodes"]}


class Qualcomm(Files):
    def test_stages(self):
        found = self.check(mdp(partition(0, OPS[:3], [0]), partition(1, OPS[3:], [1])))
        self.assertEqual(found["PLACED"], [
            "'Partition0' (stage 0, device 0) has 3 nodes, from 'block0/op0' (Relu) to 'block1/op2' (MatMul).",
            "'Partition1' (stage 1, device 1) has 3 nodes, from 'block1/op3' (Relu) to 'block2/op5' (Relu)."])
        self.assertEqual(len(found["RESHARD"]), 1)
        self.assertNotIn("STAGE_MISSING", found)  # what the compiler folds is in no list

    def test_tensor_slicing_has_no_list(self):
        found = self.check(mdp(partition(0, None, [0, 1, 2, 3]), devices=range(4)))
        self.assertIn("'Partition0' (stage 0, devices 0 to 3) has 7 nodes", found["PLACED"][0])
        self.refused(mdp(partition(0, None, [0]), partition(1, None, [1])), "At most one partition is without a list")

    def test_what_is_wrong(self):
        found = self.check(mdp(partition(0, OPS[3:], [0]), partition(1, OPS[:3], [1])))
        self.assertIn("'block1/op3' (Relu) is in pipeline stage 0, but uses 't3' of 'block1/op2' (MatMul), which is in the later "
                      "stage 1.", found["STAGE_BACKWARDS"])
        found = self.check(mdp(partition(0, OPS[:2] + ["gone", "lost"], [0]), partition(1, OPS[3:], [0])))
        self.assertEqual(found["PLACED_NAME_IGNORED"],
                         ["'Partition0' lists 2 names that no node of the model has; the first is 'gone'."])
        self.assertEqual(found["PLACED_DEVICE_SHARED"], ["Device 0 runs 'Partition0' and 'Partition1'."])
        self.assertIn("1 have none; the first of these is 'block1/op2' (MatMul)", found["STAGE_MISSING"][0])
        found = self.check(mdp(partition(0, OPS[:3], [0]), partition(1, OPS[2:], [1])), valid=False)
        self.assertIn("'block1/op2' (MatMul) is in 'Partition0' and in 'Partition1'; the first counts.", found["PLACED_TWICE"])
        found = self.check(mdp(partition(0, OPS[:3], [0]), partition(1, OPS[3:], [5])), valid=False)
        self.assertIn("'Partition1' runs on device 5, which no connection of the file lists.", found["PLACED_DEVICE_UNKNOWN"])

    def test_functions_are_inlined(self):
        first = make.delimited(7, *_node_fields("Relu", ["a"], ["m"], "inner_relu"))
        second = make.delimited(7, *_node_fields("Exp", ["m"], ["b"], "inner_exp"))
        function = make.delimited(25, make.delimited(1, "Twice"), make.delimited(4, "a"), make.delimited(5, "b"), first, second,
                                  make.delimited(9, make.delimited(1, ""), make.integer(2, 17)), make.delimited(10, "own"))
        graph = make.model(make.graph_input("x", [4, 4]), make.node("Twice", ["x"], ["h"], "L0", domain="own"),
                           make.node("Relu", ["h"], ["y"], "last"), make.graph_output("y", [4, 4]))
        imports = make.delimited(8, make.delimited(1, "own"), make.integer(2, 1))
        model = self.file("calls.onnx", make.encode([graph, imports, function]))
        found = self.check(mdp(partition(0, ["L0/inner_relu", "L0/inner_exp"], [0]), partition(1, ["last"], [1])), model)
        self.assertNotIn("PLACED_NAME_IGNORED", found)
        self.assertIn("has 1 node, from 'L0' (Twice) to 'L0' (Twice)", found["PLACED"][0])
        found = self.check(mdp(partition(0, ["L0/inner_relu"], [0]), partition(1, ["L0/inner_exp", "last"], [1])), model, valid=False)
        self.assertIn("'L0' (Twice) is in 'Partition0' and in 'Partition1'", found["PLACED_TWICE"][0])

    def test_a_plan_keeps_it(self):
        placed = self.planned(mdp(partition(0, OPS[:1], [1]), partition(1, OPS[1:], [0])), 2)
        self.assertEqual([placed[name] for name in OPS], [(0, (1,))] + [(1, (0,))] * 5)
        several = self.planned(mdp(partition(0, OPS[:4], [0, 1]), partition(1, OPS[4:], [2, 3]), devices=range(4)), 4)
        self.assertEqual([several[name][0] for name in OPS], [0] * 4 + [1] * 2)

    def test_a_model_of_many_nodes(self):
        """All of 3,000 names are pinned."""
        model = self.file("long.onnx", make.encode(make.chain(3000)))
        names = [("add" if i % 4 == 3 else "relu") + str(i) for i in range(3000)]
        placed = self.planned(mdp(partition(0, names[:2000], [0]), partition(1, names[2000:], [1])), 2, "--no-proof", model=model)
        self.assertEqual([placed[name][0] for name in names], [0] * 2000 + [1] * 1000)

    def test_what_a_plan_cannot_keep(self):
        placement = self.file("mdp.json", json.dumps(mdp(partition(0, OPS, [7]), devices=[7])).encode())
        answer = self.done("plan", self.model, "--devices", "2", *test_cli.DEVICE, "--placement-file", placement, status=2)
        self.assertIn("is on device 7, and the cluster has 2 devices", answer.stderr.decode())
        twice = self.file("twice.json", json.dumps(mdp(partition(0, OPS, [0]), partition(1, OPS[:1], [1]))).encode())
        answer = self.done("plan", self.model, "--devices", "2", *test_cli.DEVICE, "--placement-file", twice, status=2)
        self.assertIn("'block0/op0' (Relu) is in 'Partition0' and in 'Partition1'", answer.stderr.decode())


def _node_fields(op, inputs, outputs, name):
    return (*(make.delimited(1, one) for one in inputs), *(make.delimited(2, one) for one in outputs), make.delimited(3, name),
            make.delimited(4, op))


class OnnxRuntime(Files):
    def test_the_longest_part_counts(self):
        found = self.check({NAMES: "gpu:0(block0, block1, fold) ; gpu:1( block1/op3,block2 )"})
        self.assertEqual([line.split(" has ")[0] for line in found["PLACED"]],
                         ["'gpu:0' (stage 0, device 0)", "'gpu:1' (stage 1, device 1)"])
        self.assertIn("from 'block1/op3' (Relu) to 'block2/op5' (Relu)", found["PLACED"][1])
        self.assertNotIn("STAGE_MISSING", found)

    def test_what_no_rule_fits(self):
        found = self.check({NAMES: "gpu:0(block0); gpu:1(block2, nothing)"})
        self.assertEqual(found["PLACED_NAME_IGNORED"], ["1 rules place no node of the model; the first is 'nothing' of 'gpu:1'."])
        self.assertIn("2 have none; the first of these is 'block1/op2' (MatMul)", found["STAGE_MISSING"][0])

    def test_a_device_that_is_come_back_to(self):
        found = self.check({NAMES: "gpu:0(block0, block2); gpu:1(block1)"})
        self.assertIn("'block2/op4' (Relu) is in pipeline stage 0, but uses 't4'", found["STAGE_BACKWARDS"][0])

    def test_layers_by_their_metadata(self):
        parts = [make.graph_input("x", [4])]
        for i, layer in enumerate(("embed", "layer_1", "layer_10", "head")):
            entry = make.delimited(9, make.delimited(1, "layer_ann"), make.delimited(2, layer))
            fields = _node_fields("Relu", [f"t{i}" if i else "x"], ["y" if i == 3 else f"t{i + 1}"], f"n{i}")
            parts.append(make.delimited(1, *fields, entry))
        model = self.file("layers.onnx", make.encode(make.model(*parts, make.graph_output("y", [4]), ir_version=10)))
        found = self.check({LAYERS: "gpu:0(=embed, =layer_1); gpu:1(layer_, head)"}, model)
        # a prefix comes before a whole name
        self.assertIn("'gpu:0' (stage 0, device 0) has 1 node, from 'n0' (Relu) to 'n0' (Relu).", found["PLACED"])
        self.assertIn("'gpu:1' (stage 1, device 1) has 3 nodes, from 'n1' (Relu) to 'n3' (Relu).", found["PLACED"])
        self.assertEqual(found["PLACED_NAME_IGNORED"], ["1 rules place no node of the model; the first is 'layer_1' of 'gpu:0'."])

    def test_what_is_refused(self):
        self.refused({NAMES: "gpu:0(=block0)"}, "Rules by names have no '='")
        self.refused({NAMES: "gpu:0(block0)", LAYERS: "gpu:0(a)"}, "takes one of the two layer assignments")
        self.refused({NAMES: "gpu:0(block0); gpu:1(block0)"}, "The rule 'block0' is there twice")
        for text in "gpu:0", "gpu:0(", "(block0)", "gpu:0(block0) gpu:1(block1)", "gpu:0(block0,)", "gpu:0()", "", " ; ":
            with self.subTest(text):
                self.refused({NAMES: text}, "[PLACEMENT_FILE]")

    def test_a_plan_keeps_it(self):
        placed = self.planned({NAMES: "gpu:1(block0); gpu:0(block)"}, 2)
        self.assertEqual([placed[name][1] for name in OPS], [(1,)] * 2 + [(0,)] * 4)
        names = self.file("names.json", json.dumps({NAMES: "cpu(block0); gpu:0(block)"}).encode())
        answer = self.done("plan", self.model, "--devices", "2", *test_cli.DEVICE, "--placement-file", names, status=2)
        self.assertIn("The file does not number this device, as \"gpu:0\" would: 'cpu'.", answer.stderr.decode())


class Poprt(Files):
    POINTS = """# two points; the rest follows
- node: "block0/op1"
  device: 0
  stage: 0
- {node: block1/op3, device: 1, stage: 1}
"""

    def test_points(self):
        found = self.check(self.POINTS)
        self.assertEqual([line.split(", from")[0] for line in found["PLACED"]],
                         ["'device 0, stage 0' (stage 0, device 0) has 2 nodes",
                          "'device 1, stage 1' (stage 1, device 1) has 3 nodes",
                          "'device 2, stage 2' (stage 2, device 2) has 2 nodes"])
        placed = self.planned(self.POINTS, 3)
        self.assertEqual([placed[name] for name in OPS], [(0, (0,))] * 2 + [(1, (1,))] * 2 + [(2, (2,))] * 2)

    def test_points_without_stages(self):
        found = self.check("- node: block0/op1\n  device: 1\n- node: block2/op5\n  device: 0\n")
        self.assertEqual([line.split(", from")[0] for line in found["PLACED"]],
                         ["'device 1' (stage 0, device 1) has 2 nodes", "'device 0' (stage 1, device 0) has 5 nodes"])

    def test_what_is_wrong(self):
        found = self.check("- {node: nowhere, device: 0, stage: 0}\n", valid=False)
        self.assertEqual(found["PLACED_NAME_UNKNOWN"], ["The model has no node 'nowhere' (at /0)."])
        found = self.check("- {node: block0/op1, device: 1, stage: 1}\n- {node: block1/op3, device: 0, stage: 0}\n")
        self.assertIn("STAGE_BACKWARDS", found)
        found = self.check("- {node: block0/op1, device: 1}\n- {node: block0/op1, device: 0}\n", valid=False)
        self.assertIn("PLACED_TWICE", found)

    def test_what_is_no_file(self):
        for text, words in (("- node: a\n  device: -1\n", '"device" must be an integer'),
                            ("- node: block0/op1\n  device: 0\n  stage: 0\n- node: block0/op0\n  device: 0\n", "Either each point has a stage"),
                            ("- &a {node: block0/op0, device: 0}\n- *a\n", "it has an anchor"),
                            ("- *a\n", "it has an alias"), ("- {node: b, node: c}\n", "a key is there twice"),
                            ("- {[a]: b}\n", "a key is no text"), ("[" * 40, "SP_MAX_YAML_DEPTH"), ("- a\n--- \n- b\n", "several documents"),
                            ("- {node: [\n", "is not read"), ("", "is empty"), ("# nothing\n", "it is empty"),
                            ("- 'a\n", "is not read"), ("node: a\n", "The file is none that says where nodes run"),
                            ("- {device: 0}\n", 'The member "node" is missing'), ("17\n", "none that says"),
                            ("- node: block0/op0\n  device: 0x10\n", '"device" must be an integer')):
            with self.subTest(text):
                answer = test_cli.run("check", self.model, "--placement-file", self.file("p", text.encode()))
                self.assertEqual(answer.returncode, 2, answer.stdout)
                self.assertIn(words, answer.stderr.decode())
        self.refused(b"\xff\xfe", "is no text in UTF-8")
        self.refused('{"partitions": [}', "The file is not valid JSON")


class Usage(Files):
    def test_options(self):
        points = self.file("points.yaml", Poprt.POINTS.encode())
        answer = self.done("check", self.model, "--placement-file", points, "--placement-file", points, status=2)
        self.assertIn("One --placement-file is enough", answer.stderr.decode())
        answer = self.done("check", self.model, "--placement-file", points, "--server", "http://127.0.0.1:1", status=2)
        self.assertIn("--placement-file is not sent to a daemon", answer.stderr.decode())
        self.done("check", self.model, "--placement-file", self.path("nowhere"), status=2)
        sweep = ("plan", self.model, "--devices", "2,4", "--device", "a100-sxm4-80gb", "--placement-file", points)
        self.assertIn("is for one plan", self.done(*sweep, status=2).stderr.decode())
        costs = self.file("costs.json", json.dumps({"nodes": [{"id": "a", "seconds": 1}], "edges": []}).encode())
        self.assertIn("A graph of costs", self.done("check", costs, "--placement-file", points, status=2).stderr.decode())
        plan = self.done("plan", costs, "--devices", "2", "--device", "a100-sxm4-80gb", "--placement-file", points, status=2)
        self.assertIn("A graph of costs", plan.stderr.decode())

    def test_beside_constraints(self):
        """Pins of both count, and exclude each other."""
        points = self.file("points.yaml", Poprt.POINTS.encode())
        fits = self.file("fits.json", b'{"max_stages": 3, "pins": [{"nodes": "block2/op5", "stage": 2}]}')
        clash = self.file("clash.json", b'{"pins": [{"nodes": "block2/op5", "stage": 1}]}')
        plan = self.plan(self.model, 3, "--placement-file", points, "--constraints", fits)
        self.assertEqual(len(plan["stages"]), 3)
        answer = self.done("plan", self.model, "--devices", "3", *test_cli.DEVICE, "--placement-file", points, "--constraints", clash,
                           status=2)
        self.assertIn("[CONSTRAINT_CONFLICT]", answer.stderr.decode())

    def test_memory(self):
        """What a device cannot hold, as the check of annotations says it."""
        points = self.file("points.yaml", Poprt.POINTS.encode())
        answer = test_cli.run("check", self.model, "--placement-file", points, "--memory", "100", "--json")
        codes = {item["code"] for item in json.loads(answer.stdout)["diagnostics"]}
        self.assertIn("MEMORY_TOO_SMALL", codes)


class Rows(Files):
    """What our writers write is read back as what was planned."""

    def test_round_trips(self):
        model = os.path.join(MODELS, "llama_tiny.onnx")
        if not os.path.exists(model):
            self.skipTest("the models of SHARDPLAN_TEST_DATA are not there")
        first, again = self.path("first.onnx"), self.path("again.onnx")
        options = ("--devices", "3", *test_cli.DEVICE, "--strategy", "pipeline", "--replicas", "1")
        self.done("plan", model, *options, "-o", first)
        for name in "qualcomm-mdp", "ort-layers-names", "poprt":
            with self.subTest(name):
                one, two = self.path("one"), self.path("two")
                self.done("export", first, "--format", name, "-o", one)
                found = self.json("check", model, "--placement-file", one)
                self.assertEqual((found["errors"], found["warnings"]), (0, 0), found)
                self.assertEqual(sum(item["code"] == "PLACED" for item in found["diagnostics"]), 3)
                self.done("plan", model, "--devices", "3", *test_cli.DEVICE, "--placement-file", one, "-o", again)
                self.done("export", again, "--format", name, "-o", two)
                with open(one, "rb") as left, open(two, "rb") as right:
                    self.assertEqual(left.read(), right.read())


class Hints(Files):
    """Context parallelism: the sequence is split over all devices, keys and values are gathered."""

    def setUp(self):
        super().setUp()
        tokens, width = 64, 32
        self.model = self.file("attention.onnx", make.encode(make.model(
            make.graph_input("x", [1, tokens, width]), make.graph_input("xt", [1, width, tokens]), *(test_verify.Weight(width, width, seed=name).proto(f"w{name}") for name in "qkv"),
            *(make.node("MatMul", ["x", f"w{name}"], [name], f"to_{name}") for name in "qv"),
            make.node("MatMul", ["wk", "xt"], ["k"], "to_k"), make.node("MatMul", ["q", "k"], ["s"], "scores"), make.node("Softmax", ["s"], ["p"], "softmax", axis=-1),
            make.node("MatMul", ["p", "v"], ["y"], "mix"), make.graph_output("y", [1, tokens, width]))))

    def hints(self, **more):
        tensors = [{"name": name, "seq_len_idx": axis, "rank": 3, "polygraphy_class": "ShardTensor"}
                   for name, axis in (("x", 1), ("xt", 2))]
        return {"parallelism": "CP", "group_size": 0, "root": -1, "groups": [],
                "attention_layers": [{"q": "q", "gather_kv": True, "gather_q": False, "polygraphy_class": "AttentionLayerHint"}],
                "inputs": tensors, "outputs": [{"name": "y", "seq_len_idx": 1, "rank": 3, "polygraphy_class": "ShardTensor"}],
                "k_seq_len_idx": 2, "v_seq_len_idx": 1, "kv_rank": 3, "reduce_scatter_reduce_op": "max",
                "polygraphy_class": "ShardHints", **more}

    def test_check(self):
        found = self.check(self.hints(groups=[0, 1, 2, 3], group_size=4))
        self.assertEqual(found["PLACED"], ["All nodes run on all devices."])
        moved = " ".join(found["RESHARD"])
        self.assertIn("'k' is axis 2 in 4 on devices 0..3", moved)
        self.assertIn("'v' is axis 1 in 4 on devices 0..3", moved)
        self.assertNotIn("OPERANDS_SPLIT_DIFFERENTLY", found)
        self.assertIn("2 are assumed", self.check(self.hints())["PLACED"][0])

    def test_what_is_not_gathered(self):
        layers = [{"q": "q", "gather_kv": False, "gather_q": False}]
        found = self.check(self.hints(attention_layers=layers, groups=[0, 1]), valid=False)
        self.assertTrue({"OPERANDS_SPLIT_DIFFERENTLY", "OPERAND_NOT_SPLIT", "DEVICES_DO_NOT_MEET"} & set(found), found)

    def test_what_is_wrong(self):
        found = self.check(self.hints(inputs=[{"name": "ids", "seq_len_idx": 1, "rank": 2}]), valid=False)
        self.assertEqual(found["PLACED_NAME_UNKNOWN"], ["The model has no tensor 'ids' (at /inputs/0)."])
        found = self.check(self.hints(inputs=[{"name": "x", "seq_len_idx": 3, "rank": 3}]), valid=False)
        self.assertEqual(found["PLACED_AXIS_UNKNOWN"], ["'x' has 3 axes, and the hints split axis 3 of 3."])
        found = self.check(self.hints(attention_layers=[{"q": "v", "gather_kv": True}]), valid=False)
        self.assertIn("PLACED_NO_ATTENTION", found)
        self.refused(self.hints(parallelism="TP"), "The only parallelism of the hints is \"CP\"")

    def test_a_plan_splits_so_and_gives_the_hints_again(self):
        hints, annotated = self.file("hints.json", json.dumps(self.hints()).encode()), self.path("annotated.onnx")
        self.done("plan", self.model, "--devices", "4", *test_cli.DEVICE, "--strategy", "tensor", "--placement-file", hints, "-o",
                  annotated)
        self.done("verify", "--annotated", annotated)
        said = json.loads(self.done("export", annotated, "--format", "polygraphy-hints").stdout)
        self.assertEqual({item["name"]: item["seq_len_idx"] for item in said["inputs"]}, {"x": 1, "xt": 2})
        self.assertEqual([item["seq_len_idx"] for item in said["outputs"]], [1])
        self.assertEqual([(item["q"], item["gather_kv"], item["gather_q"]) for item in said["attention_layers"]], [("q", True, False)])
        for_four = self.file("four.json", json.dumps(self.hints(groups=[0, 1, 2, 3], group_size=4)).encode())
        answer = self.done("plan", self.model, "--devices", "2", *test_cli.DEVICE, "--placement-file", for_four, status=2)
        self.assertIn("are for 4 devices, and the cluster has 2", answer.stderr.decode())


class Genai(test_verify.Pipeline):
    """The pipeline of test_verify, listed by a genai_config.json."""

    def config(self, names=("embeddings", "decoder_0", "decoder_1", "lm_head"), order=None, **changes):
        ports = [(["ids"], ["x.0"]), (["x.0"], ["x.2"]), (["x.2"], ["x.4"]), (["x.4"], ["logits"])]
        stages = {}
        for i in order or range(4):
            inputs, outputs = ports[i]
            stages[names[i]] = {"filename": f"{names[i]}.onnx", "inputs": inputs, "outputs": outputs,
                                "session_options": {"provider_options": [{"cuda": {"device_id": str(i // 2)}}]},
                                **changes.get(names[i], {})}
        stages["lm_head"]["is_lm_head"] = True
        return {"model": {"type": "decoder-pipeline", "context_length": 64, "vocab_size": 16,
                          "decoder": {"num_hidden_layers": 4, "inputs": {"input_ids": "ids"}, "outputs": {"logits": "logits"},
                                      "pipeline": [stages]}}, "search": {"max_length": 64}}

    def write(self, config, stages=None):
        for name, model in zip(("embeddings", "decoder_0", "decoder_1", "lm_head"), stages or self.stages()):
            self.file(f"{name}.onnx", model)
        return self.file("genai_config.json", json.dumps(config).encode()), self.file("original.onnx", self.original())

    def verify(self, config, status, *options, stages=None):
        path, original = self.write(config, stages)
        result = test_cli.run("verify", original, "--manifest", path, "--json", *options)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return json.loads(result.stdout) if status in (0, 1, 3) else result.stderr.decode()

    def test_a_pipeline_is_proved(self):
        answer = self.verify(self.config(), test_verify.PROVED)
        self.assertEqual((answer["verdict"], answer["programs"]), ("proved", 4))

    def test_broken_twins(self):
        answer = self.verify(self.config(), test_verify.REFUTED, stages=self.stages(of=1, last=2))
        self.assertIn("decoder_1.onnx", json.dumps(answer["failures"][0]))
        swapped = self.config(decoder_1={"inputs": ["x.0"]})
        stages = self.stages()
        self.assertIn("lists the input 'x.0' of 'decoder_1.onnx'", self.verify(swapped, 2, stages=stages))

    def test_the_order_counts(self):
        self.assertIn("The stage 'decoder_1' takes 'x.2', which the stage 'decoder_0' gives: that runs no earlier.",
                      self.verify(self.config(order=(0, 2, 1, 3)), 2))
        self.assertIn("takes 'nothing', which is no input of the model and which no stage gives",
                      self.verify(self.config(decoder_0={"inputs": ["nothing"]}), 2))

    def test_names_are_forwarded(self):
        forwarded = self.config(decoder_0={"output_names_forwarder": {"x.2": "h"}}, decoder_1={"inputs": ["x.2"]})
        self.assertIn("The stage 'decoder_1' takes 'x.2'", self.verify(forwarded, 2))
        again = self.config(decoder_0={"output_names_forwarder": {"x.2": "h"}, "outputs": ["x.2"]}, decoder_1={"inputs": ["h"]})
        stages = self.stages()
        stages[2] = self.renamed()
        self.assertEqual(self.verify(again, test_verify.PROVED, stages=stages)["verdict"], "proved")

    def renamed(self):
        """The second half of the layers, which reads 'h'."""
        return test_verify.bytes_of(make.graph_input("h", [1, test_verify.TOKENS, test_verify.HIDDEN]),
                                    make.node("Identity", ["h"], ["x.2"]),
                                    *(part for i in (2, 3) for part in self.layer(i)),
                                    make.graph_output("x.4", [1, test_verify.TOKENS, test_verify.HIDDEN]))

    def test_prompts_and_tokens(self):
        """Two stages for the same layers, one of which runs for prompts: each pipeline is proved by itself."""
        config = self.config(decoder_0={"run_on_token_gen": False})
        stages = config["model"]["decoder"]["pipeline"][0]
        stages = {name: stage for name, stage in stages.items() if name != "lm_head"}
        stages["iterator_0"] = {**stages["decoder_0"], "run_on_token_gen": True, "run_on_prompt": False, "filename": "iterator_0.onnx"}
        order = ("embeddings", "decoder_0", "iterator_0", "decoder_1")
        last = config["model"]["decoder"]["pipeline"][0]["lm_head"]
        config["model"]["decoder"]["pipeline"] = [{**{name: stages[name] for name in order}, "lm_head": last}]
        self.file("iterator_0.onnx", self.stages()[1])
        self.assertIn("choose the phase, prompt or token", self.verify(config, 2))
        self.verify(config, test_verify.PROVED, "--phase", "prompt")
        self.verify(config, test_verify.PROVED, "--phase", "token")
        self.file("iterator_0.onnx", self.stages(of=3, last=0)[1])
        self.verify(config, test_verify.PROVED, "--phase", "prompt")
        answer = self.verify(config, test_verify.REFUTED, "--phase", "token")
        self.assertIn("iterator_0.onnx", json.dumps(answer["failures"]))

    def test_usage(self):
        path, original = self.write(self.config())
        self.done("verify", original, "--manifest", path, "--phase", "night", status=2)
        self.done("verify", original, original, "--phase", "prompt", status=2)
        unknown = self.config(decoder_0={"filenam": "x"})
        self.assertIn("A stage of the pipeline has the unknown member 'filenam'", self.verify(unknown, 2))
        several = self.config()
        several["model"]["decoder"]["pipeline"] = [{}, {}]
        self.assertIn("a list of one object", self.verify(several, 2))

    def test_a_plan_keeps_stages(self):
        """Two stages on each device are one stage of a plan."""
        path, original = self.write(self.config())
        plan = self.plan(original, 2, "--placement-file", path)
        self.assertEqual([stage["devices"] for stage in plan["stages"]], [[0], [1]])
        self.assertIn("h.1", json.dumps(plan["stages"][0]["nodes"]))
        self.assertIn("logits", json.dumps(plan["stages"][1]["nodes"]))

    def test_check_says_which_nodes_a_stage_has(self):
        path, original = self.write(self.config())
        found = self.json("check", original, "--placement-file", path)
        placed = [item["message"] for item in found["diagnostics"] if item["code"] == "PLACED"]
        self.assertEqual([line.split(", from")[0] for line in placed],
                         ["'embeddings' (stage 0, device 0) has 1 node", "'decoder_0' (stage 1, device 0) has 6 nodes",
                          "'decoder_1' (stage 2, device 1) has 6 nodes", "'lm_head' (stage 3, device 1) has 1 node"])
        path, original = self.write(self.config(decoder_0={"outputs": ["x.9"]}))
        answer = json.loads(test_cli.run("check", original, "--placement-file", path, "--json").stdout)
        self.assertFalse(answer["valid"])
        self.assertIn("The stage 'decoder_0' names 1 tensors that the model does not have; the first is 'x.9'.",
                      [item["message"] for item in answer["diagnostics"]])


if __name__ == "__main__":
    unittest.main()
