#!/usr/bin/env python3
"""Folders that servers load. Triton: protoc reads the configurations back, they agree with the models, and the models with
the original. GenAI: the pipeline of its config, by its documented members."""

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

sys.path.insert(1, os.path.join(test_cli.TOP, "tests", "tools"))
import decoder_graph  # noqa: E402

TYPES = {"float32": "TYPE_FP32", "float16": "TYPE_FP16", "int64": "TYPE_INT64", "int32": "TYPE_INT32", "bool": "TYPE_BOOL"}
TINY = os.path.join(test_cli.TOP, "tests", "data", "transformer_tiny.onnx")


def blocks(text, name):
    """What stands inside of each `name { .. }`, nested ones apart."""
    found = []
    for head in re.finditer(rf"(?m)^( *){name} \{{$", text):
        end = text.index(f"\n{head.group(1)}}}", head.end())
        found.append(text[head.end():end])
    return found


def word(text, name):
    found = re.search(rf'(?m)^ *{name}: "?([^"\n]*)"?$', text)
    return found and found.group(1)


def tensors(text, field):
    return {word(block, "name"): (word(block, "data_type"), [int(x) for x in re.findall(r"dims: (-?\d+)", block)])
            for block in blocks(text, field)}


def maps(step, field):
    return {word(block, "key"): word(block, "value") for block in blocks(step, field)}


@unittest.skipUnless(shutil.which("protoc"), "protoc is not installed")
class Triton(test_cli.Case):
    def config(self, *path):
        """The configuration as protoc understands it, one field a line."""
        with open(os.path.join(self.path("repository"), *path, "config.pbtxt"), "rb") as file:
            data = file.read()
        command = ["protoc", f"--proto_path={os.path.dirname(os.path.abspath(__file__))}"]
        schema = "triton_config.proto"
        coded = subprocess.run([*command, "--encode=inference.ModelConfig", schema], input=data, check=True,
                               capture_output=True).stdout
        return subprocess.run([*command, "--decode=inference.ModelConfig", schema], input=coded, check=True,
                              capture_output=True).stdout.decode()

    def exported(self, *options, name="triton", devices=2):
        annotated = self.path("annotated.onnx")
        self.done("plan", TINY, "--devices", str(devices), *test_cli.ALONE, "--replicas", "1", *options, "-o", annotated)
        self.done("export", annotated, "--format", name, "-o", self.path("repository"))
        with open(os.path.join(self.path("repository"), "manifest.json"), encoding="utf-8") as file:
            return json.load(file)

    def inspected(self, path):
        if os.path.isdir(path):  # a model with files beside it
            path = os.path.join(path, "model.onnx")
        found = self.json("inspect", path)
        return [{item["name"]: (TYPES[item["dtype"]], [x if isinstance(x, int) else -1 for x in item["shape"]] or [1])
                 for item in found[member]} for member in ("inputs", "outputs")]

    def models(self, manifest):
        return {item["path"]: item["model"] for item in manifest["repository"] if "model" in item}

    def proved(self, manifest):
        """The models under the names that the manifest has."""
        for path, name in self.models(manifest).items():
            shutil.copyfile(os.path.join(self.path("repository"), path), os.path.join(self.path("repository"), name))
        answer = self.json("verify", TINY, "--manifest", os.path.join(self.path("repository"), "manifest.json"))
        self.assertEqual(answer["verdict"], "proved", answer.get("failures"))

    def check_ensemble(self, manifest):
        """Triton's own rules: every input mapped once, nothing made twice, all that is mapped read, types and shapes equal."""
        ensemble = self.config("annotated")
        self.assertEqual((word(ensemble, "name"), word(ensemble, "platform")), ("annotated", "ensemble"))
        self.assertEqual(blocks(ensemble, "instance_group"), [])
        self.assertTrue(os.path.isdir(os.path.join(self.path("repository"), "annotated", "1")))
        known, read = dict(tensors(ensemble, "input")), set()
        results = tensors(ensemble, "output")
        steps = blocks(blocks(ensemble, "ensemble_scheduling")[0], "step")
        self.assertEqual({word(step, "model_name") for step in steps},
                         {path.split("/")[0] for path in self.models(manifest)})
        configs = {word(step, "model_name"): self.config(word(step, "model_name")) for step in steps}
        for step in steps:
            config, made = configs[word(step, "model_name")], maps(step, "output_map")
            outputs = tensors(config, "output")
            self.assertLessEqual(set(made), set(outputs))
            for name, tensor in made.items():
                self.assertNotIn(tensor, known)
                known[tensor] = outputs[name]
        for step in steps:
            inputs = tensors(configs[word(step, "model_name")], "input")
            taken = maps(step, "input_map")
            self.assertEqual(set(taken), set(inputs))
            for name, tensor in taken.items():
                self.assertEqual(known[tensor], inputs[name])
                read.add(tensor)
        self.assertEqual(set(known) - read, set(results))
        for name, tensor in results.items():
            self.assertEqual(known[name], tensor)
        self.assertEqual(self.inspected(TINY)[1].keys(), results.keys())
        return configs

    def check_stages(self, manifest):
        for path in self.models(manifest):
            config = self.config(path.split("/")[0])
            self.assertEqual((word(config, "backend"), word(config, "name")), ("onnxruntime", path.split("/")[0]))
            inputs, outputs = self.inspected(os.path.join(self.path("repository"), path))
            self.assertEqual((tensors(config, "input"), tensors(config, "output")), (inputs, outputs))

    def test_stages_are_an_ensemble(self):
        manifest = self.exported("--strategy", "pipeline")
        self.check_stages(manifest)
        configs = self.check_ensemble(manifest)
        groups = {name: blocks(config, "instance_group")[0] for name, config in configs.items()}
        self.assertEqual({(word(group, "kind"), word(group, "count"), word(group, "gpus")) for group in groups.values()},
                         {("KIND_GPU", "1", "0"), ("KIND_GPU", "1", "1")})
        self.proved(manifest)

    def test_split_operators_are_an_ensemble(self):
        """Inputs and outputs are whole, whatever part of them a device has."""
        annotated = self.path("split.onnx")
        self.done("infer", self.mlp(2, 8, 4), "--devices", "2", "--mode", "propagate", "--mesh", '<["x"=2]>', "--set",
                  "x={devices=[2,1]0,1}", "-o", annotated)
        self.done("export", annotated, "--format", "triton", "-o", self.path("repository"))
        with open(os.path.join(self.path("repository"), "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        self.check_stages(manifest)
        ports = [port for device in manifest["devices"] for part in device["parts"]
                 for port in (*part["inputs"], *part["outputs"])]
        self.assertTrue(all(port.get("box") is None for port in ports))

    def test_ranks_are_engines(self):
        """One world: the same inputs and outputs on each rank, all of them whole."""
        annotated = self.path("split.onnx")
        self.done("infer", self.mlp(2, 8, 4), "--devices", "2", "--mode", "propagate", "--mesh", '<["x"=2]>', "--set",
                  "w0={devices=[1,2]0,1}", "-o", annotated)
        self.done("export", annotated, "--format", "triton-tensorrt", "-o", self.path("repository"))
        config = self.config("split")
        self.assertEqual((word(config, "backend"), word(config, "max_batch_size")), ("tensorrt", None))
        self.assertEqual(word(blocks(config, "instance_group")[0], "kind"), "KIND_MODEL")
        parameters = {word(block, "key"): word(block, "string_value") for block in blocks(config, "parameters")}
        self.assertEqual(parameters, {"enable_multi_device": "true", "multi_device_gpus": "0,1",
                                      "multi_device_per_rank_engines": "true"})
        for rank in range(2):
            inputs, outputs = self.inspected(os.path.join(self.path("repository"), "split", "1", f"model.rank{rank}.onnx"))
            self.assertEqual((inputs, outputs), self.inspected_pair(annotated))
            self.assertEqual((tensors(config, "input"), tensors(config, "output")), (inputs, outputs))

    def inspected_pair(self, path):
        return tuple(self.inspected(path))

    def test_engines_of_stages_are_refused(self):
        annotated = self.path("annotated.onnx")
        self.done("plan", TINY, "--devices", "2", *test_cli.ALONE, "--replicas", "1", "--strategy", "pipeline", "-o", annotated)
        answer = self.done("export", annotated, "--format", "triton-tensorrt", "-o", self.path("repository"), "--json",
                           status=1)
        self.assertIn(b"SEVERAL_WORLDS", answer.stdout + answer.stderr)


class Genai(test_cli.Case):
    def test_stages_are_the_pipeline_of_a_config(self):
        model = self.file("decoder.json", json.dumps(decoder_graph.decoder(**decoder_graph.TINY)).encode())
        plan, folder = self.path("plan.json"), self.path("genai")
        self.done("plan", model, "--devices", "2", *test_cli.ALONE, "--replicas", "1", "--strategy", "pipeline", "--dim",
                  "past_sequence_length=8", "--dim", "total_sequence_length=9", "--dim", "sequence_length=1", "--plan", plan)
        self.done("export", plan, "--model", model, "--format", "genai", "-o", folder)
        with open(os.path.join(folder, "genai_config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.assertEqual(set(config), {"model"})
        self.assertEqual(set(config["model"]), {"type", "decoder"})
        self.assertEqual(config["model"]["type"], "decoder-pipeline")
        decoder = config["model"]["decoder"]
        pipeline = decoder.pop("pipeline")
        self.assertEqual(decoder, {
            "num_hidden_layers": 2, "num_key_value_heads": 2, "head_size": 16,
            "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask",
                       "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
            "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}})
        self.assertEqual(len(pipeline), 1)
        stages = list(pipeline[0].values())
        self.assertEqual(len(stages), 2)
        known = {"input_ids", "attention_mask", *(f"past_key_values.{i}.{side}" for i in range(2) for side in ("key", "value"))}
        caches = []
        for index, stage in enumerate(stages):
            self.assertEqual(set(stage), {"filename", "inputs", "outputs", "session_options"})
            self.assertEqual(stage["session_options"], {"provider_options": [{"cuda": {"device_id": str(index)}}]})
            found = self.json("inspect", os.path.join(folder, stage["filename"]))
            self.assertEqual(stage["inputs"], [item["name"] for item in found["inputs"]])
            self.assertEqual(stage["outputs"], [item["name"] for item in found["outputs"]])
            self.assertLessEqual(set(stage["inputs"]), known)
            known |= set(stage["outputs"])
            caches.append({name for name in stage["inputs"] if name.startswith("past_key_values")})
        self.assertFalse(caches[0] & caches[1])
        self.assertIn("logits", stages[-1]["outputs"])

    def test_what_is_no_decoder_is_refused(self):
        annotated = self.path("annotated.onnx")
        self.done("plan", TINY, "--devices", "2", *test_cli.ALONE, "--replicas", "1", "-o", annotated)
        answer = self.done("export", annotated, "--format", "genai", "-o", self.path("genai"), "--json", status=1)
        self.assertIn(b"NOT_A_DECODER", answer.stdout + answer.stderr)


if __name__ == "__main__":
    unittest.main()
