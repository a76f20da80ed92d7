#!/usr/bin/env python3
"""`shardplan export` as people use it: plans, annotated models, formats, and traces read by protoc."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402
from test_cli import onnx_make  # noqa: E402

REQUESTS = 3  # that a trace shows
OF_SERVERS = ("polygraphy-hints", "vllm-args", "sglang-args", "trtllm-args", "llamacpp-args", "mlx", "exo")  # of models with layers
OF_DEVICES = ("ort-collectives", "tensorrt", "sessions", "genai", "triton", "triton-tensorrt")  # several files


class Export(test_cli.Case):
    def planned(self, devices=2):
        """Stages of one device each: some formats take whole operators only. The weights are not there, as a simulation on
        standard output would have all of them in it."""
        model = self.mlp(8, 4096, 512)
        os.remove(self.path("weights.bin"))
        plan, annotated = self.path("plan.json"), self.path("annotated.onnx")
        self.done("plan", model, "--devices", str(devices), *test_cli.DEVICE, "--strategy", "grouping", "--plan", plan,
                  "-o", annotated)
        return model, plan, annotated

    def formats(self):
        text = self.done("export", "--help").stdout.decode()
        return re.findall(r"(?m)^  ([a-z][a-z-]+) {2,}", text)

    def export(self, *arguments):
        out = self.path("exported")
        answer = self.json("export", *arguments, "-o", out)
        with open(out, "rb") as file:
            return file.read(), answer

    def test_every_format_from_a_plan(self):
        model, plan, annotated = self.planned()
        formats = [name for name in self.formats() if name not in (*OF_DEVICES, *OF_SERVERS, "ort")]
        self.assertGreaterEqual(len(formats), 16)
        for name in formats:
            with self.subTest(name):
                data, answer = self.export(plan, "--model", model, "--format", name)
                self.assertGreater(len(data), 0)
                self.assertEqual(answer["format"], name)
                self.assertEqual(self.done("export", plan, "--model", model, "--format", name).stdout, data)
                for note in answer["notes"]:
                    self.assertTrue(note["message"].endswith("."))

    def test_a_plan_and_the_model_annotated_with_it_give_the_same(self):
        model, plan, annotated = self.planned(3)
        for name in ("op-sharding", "shardy", "poprt", "qualcomm-mdp", "ort-layers-options", "model-explorer",
                     "csv-tensors"):
            with self.subTest(name):
                self.assertEqual(self.export(plan, "--model", model, "--format", name)[0],
                                 self.export(annotated, "--format", name)[0])

    def test_models_are_still_models(self):
        model, plan, annotated = self.planned()
        for name in ("poprt-model", "ort-layers"):
            data, _ = self.export(annotated, "--format", name)
            out = self.file("again.onnx", data)
            self.done("check", out)
            before, after = self.json("inspect", annotated), self.json("inspect", out)
            for member in ("node_count", "operators", "parameters", "inputs", "outputs", "configurations"):
                self.assertEqual(before[member], after[member])

    def test_rank_models(self):
        """Columns of the first weight, rows of the second: what ONNX Runtime's kernels take, as the check reads it."""
        model, split = self.mlp(2, 8, 4), self.path("split.onnx")
        self.done("infer", model, "--devices", "2", "--mode", "propagate", "--mesh", '<["x"=2]>', "--set",
                  "w0={devices=[1,2]0,1}", "-o", split)
        ranks = [self.export(split, "--format", "ort", "--device", str(device))[0] for device in range(2)]
        self.assertNotEqual(ranks[0], ranks[1])
        self.assertEqual(self.export(split, "--format", "ort")[0], ranks[0])
        rank = self.file("rank.onnx", ranks[1])
        self.assertEqual({item["code"] for item in self.json("check", rank)["diagnostics"]}, {"ORT_COMMUNICATION"})
        self.assertEqual(self.json("inspect", rank)["operators"]["com.microsoft.DistributedMatMul"], 2)
        self.assertIn(b"[NO_DEVICE]", self.done("export", split, "--format", "ort", "--device", "2", status=2).stderr)

    def test_what_kernels_refuse_is_told_node_by_node(self):
        model, plan, annotated = self.planned()
        result = self.done("export", annotated, "--format", "ort", status=1)
        self.assertIn(b"[PART_OF_THE_DEVICES]", result.stderr)
        self.assertGreater(result.stderr.count(b"note: 'matmul"), 1)

    def test_csv_is_read_by_others(self):
        model, plan, annotated = self.planned()
        rows = list(csv.DictReader(io.StringIO(self.export(plan, "--model", model, "--format", "csv")[0].decode())))
        with open(plan, encoding="utf-8") as file:
            stages = json.load(file)["stages"]
        for stage in stages:
            self.assertEqual([row["node"] for row in rows if row["stage"] == str(stage["index"])], stage["nodes"])

    def test_a_trace_is_read_by_protoc(self):
        """Busy time of each device, as protoc decodes it, against the plan's JSON."""
        protoc = shutil.which("protoc")
        if protoc is None:
            self.skipTest("protoc is not installed")
        model, plan, annotated = self.planned()
        data, _ = self.export(plan, "--model", model, "--format", "perfetto")
        folder = os.path.join(test_cli.TOP, "proto")
        text = subprocess.run([protoc, f"--proto_path={folder}", "--decode=perfetto.protos.Trace", "perfetto_trace.proto"],
                              input=data, capture_output=True, check=True).stdout.decode()
        self.assertNotRegex(text, r"(?m)^ *\d+:")  # a field that the schema does not know
        owners, names, opened, busy = {}, {}, {}, {}
        for packet in text.split("\npacket {"):
            number = {key: int(value) for key, value in re.findall(r"(\w+): (\d+)", packet)}
            if "track_descriptor" in packet:
                names[number["uuid"]] = re.search(r'\n    name: "([^"]*)"', packet).group(1)
                owners[number["uuid"]] = number.get("parent_uuid")
            elif "TYPE_SLICE_BEGIN" in packet:
                category = re.search(r'categories: "(\w+)"', packet).group(1)
                opened[number["track_uuid"]] = (number["timestamp"], category)
            elif "TYPE_SLICE_END" in packet:
                begin, category = opened.pop(number["track_uuid"])
                key = (names[owners[number["track_uuid"]]], category)
                busy[key] = busy.get(key, 0) + number["timestamp"] - begin
        self.assertFalse(opened)
        with open(plan, encoding="utf-8") as file:
            devices = json.load(file)["devices"]
        for device in devices:
            row = f"stage {device['stage']} on {device['name']}:{device['id']}"
            self.assertAlmostEqual(busy[row, "compute"], REQUESTS * device["compute_seconds"] * 1e9, delta=REQUESTS)
            links = busy.get((row, "send"), 0) + busy.get((row, "receive"), 0)
            self.assertAlmostEqual(links, REQUESTS * device["communication_seconds"] * 1e9, delta=2 * REQUESTS)

    def test_wrong_usage_ends_with_2(self):
        model, plan, annotated = self.planned()
        other = self.file("other.onnx", onnx_make.encode(onnx_make.mlp(2, 64)))
        edited = self.path("edited.json")
        with open(plan, encoding="utf-8") as file:
            text = file.read()
        self.assertIn('"seed":0', text)
        with open(edited, "w", encoding="utf-8") as file:
            file.write(text.replace('"seed":0', '"seed":1', 1))
        for code, arguments in (("USAGE", []), ("USAGE", [annotated]), ("USAGE", [annotated, "--format", "word"]),
                                ("USAGE", [annotated, annotated, "--format", "csv"]),
                                ("USAGE", ["0" * 32, "--model", model, "--format", "csv", "--server",
                                           "http://127.0.0.1:1"]),
                                ("USAGE", [annotated, "--format", "csv", "--json"]),
                                ("USAGE", ["-", "--model", "-", "--format", "csv"]),
                                ("USAGE", [plan, "--model", model, "--configuration", "a", "--format", "csv"]),
                                ("MODEL_MISSING", [plan, "--format", "csv"]),
                                ("OTHER_MODEL", [plan, "--model", other, "--format", "csv"]),
                                ("OTHER_PLAN", [edited, "--model", model, "--format", "csv"]),
                                ("PLAN_NOT_JSON", [annotated, "--model", model, "--format", "csv"]),
                                ("NO_CONFIGURATION", [model, "--format", "csv"]),
                                ("NO_CONFIGURATION", [annotated, "--configuration", "b", "--format", "csv"]),
                                ("NEEDS_PLAN", [annotated, "--format", "perfetto"]),
                                ("FILE_NOT_READABLE", [self.path("absent"), "--format", "csv"])):
            with self.subTest(arguments):
                self.assertIn(f"[{code}]", self.done("export", *arguments, status=2).stderr.decode())

    def test_nothing_is_written_when_it_fails(self):
        out = self.path("out.yaml")
        model = self.file("split.onnx", onnx_make.encode(onnx_make.annotated()))
        self.assertIn(b"[NODE_IS_SPLIT]",
                      self.done("export", model, "--format", "poprt", "-o", out, status=1).stderr)
        self.assertFalse(os.path.exists(out))

    def test_standard_input(self):
        model, plan, annotated = self.planned()
        with open(annotated, "rb") as file:
            text = self.done("export", "-", "--format", "csv", stdin=file.read()).stdout
        self.assertEqual(text, self.export(annotated, "--format", "csv")[0])
        with open(plan, "rb") as file:
            self.done("export", "-", "--model", model, "--format", "csv", stdin=file.read())


if __name__ == "__main__":
    unittest.main()
