#!/usr/bin/env python3
"""The well-known models that tests/bench/models.py writes: they are valid, and as large as those who made them say."""

import glob
import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402

sys.path.insert(0, os.path.join(test_cli.TOP, "tests/bench"))

import models  # noqa: E402

STYLES = ("decomposed", "fused")
TOKENS = 2048
SEEN = {"decomposed": 1.0, "fused": 0.5}  # a mask that is added leaves all scores to be computed

# Published parameters (sources in models.py), and what of them a token is not multiplied with: the tables that it only
# looks up in, and the experts that it is not sent to.
LLAMA_TABLE = {"llama3-8b": 128256 * 4096, "llama3-70b": 128256 * 8192, "llama3-405b": 128256 * 16384}
PUBLISHED = {"llama3-8b": 8030261248, "llama3-70b": 70553706496, "llama3-405b": 405853388800,
             "mixtral-8x7b": 46702792704, "gpt3-175b": 174604259328}
EXPERT = 3 * 4096 * 14336
# Trainable parameters of Keras' MobileNet and torchvision's mobilenet_v3_large, channels that have a norm, multiply-adds
# of the papers (sources in models.py).
MOBILE = {"mobilenet": (4231976, 10944, 569e6), "mobilenet-v3": (5483032, 12200, 219e6)}


class Made(test_cli.Case):
    def make(self, *arguments):
        path = self.path("model.json")
        models.main([*arguments, "-o", path])
        return path


class Models(Made):
    def inspect(self, *arguments):
        return self.json("inspect", self.make(*arguments))

    def test_all_are_valid(self):
        for name in (*models.MODELS, "irregular"):
            for style in STYLES if name != "irregular" else ("decomposed",):
                for more in ([], ["--kv-cache", "9", "--sequence", "3", "--dtype", "float16"]):
                    with self.subTest(name, style=style, more=more):
                        path = self.make("--model", name, "--style", style, "--layers", "2", "--batch", "2", *more)
                        answer = self.json("check", path)
                        self.assertEqual((answer["valid"], answer["diagnostics"]), (True, []))

    def expect_flops(self, answer, multiplied, layers, width, tokens=TOKENS, seen=1.0):
        """2 for each parameter and token, and for each layer 4 n^2 d of attention, of which a causal operator computes
        half; elementwise work is a few percent of that (Kaplan et al., arXiv 2001.08361, table 1: 2 N + 2 n_layer
        n_ctx d_attn for a token, where a multiply-add counts 2 and only half of the square)."""
        expected = 2 * multiplied * tokens + 4 * seen * layers * tokens**2 * width
        self.assertLess(abs(answer["flops"] / expected - 1), 0.02)

    def test_llama(self):
        for name, table in LLAMA_TABLE.items():
            for style in STYLES:
                with self.subTest(name, style=style):
                    answer = self.inspect("--model", name, "--style", style)
                    # The positions that the mask compares with are constants, too.
                    self.assertIn(answer["parameters"] - PUBLISHED[name], range(0, TOKENS + 128))
                    config = models.MODELS[name]
                    self.expect_flops(answer, PUBLISHED[name] - table, config["layers"], config["hidden"],
                                      seen=SEEN[style])

    def test_mixtral(self):
        """An expert's parameters are in the batched products of all; the fused operator computes two of the eight."""
        for style, idle in zip(STYLES, (0, 6)):
            with self.subTest(style):
                answer = self.inspect("--model", "mixtral-8x7b", "--style", style)
                folded = 32 * TOKENS * 8 if style == "decomposed" else 0  # the zeros that shares are scattered into
                beyond = answer["parameters"] - PUBLISHED["mixtral-8x7b"] - folded
                self.assertIn(beyond, range(0, TOKENS + 128))
                multiplied = PUBLISHED["mixtral-8x7b"] - 32000 * 4096 - 32 * idle * EXPERT
                self.expect_flops(answer, multiplied, 32, 4096, seen=SEEN[style])

    def test_gpt3(self):
        for style in STYLES:
            with self.subTest(style):
                answer = self.inspect("--model", "gpt3-175b", "--style", style)
                self.assertIn(answer["parameters"] - PUBLISHED["gpt3-175b"], range(0, TOKENS + 128))
                self.assertAlmostEqual(answer["parameters"] / 174600e6, 1, 4)
                # The table of tokens is the head, too: only that of positions is not multiplied with.
                self.expect_flops(answer, PUBLISHED["gpt3-175b"] - 2048 * 12288, 96, 12288, seen=SEEN[style])

    def test_vit_22b(self):
        for style in STYLES:
            with self.subTest(style):
                answer = self.inspect("--model", "vit-22b", "--style", style)
                # Published are the matrices of the layers; the patches, positions, biases and the head add 0.06 %.
                self.assertLess(abs(answer["parameters"] / 21743e6 - 1), 1e-3)
                self.expect_flops(answer, 21743e6, 48, 6144, tokens=256)

    def test_mobilenet(self):
        """Of the two parameters that a norm has for each channel, folding leaves one. The published multiply-adds are
        those of products; activations and pooling add up to 3 %."""
        for name, (parameters, channels, multiplied) in MOBILE.items():
            with self.subTest(name):
                answer = self.inspect("--model", name)
                self.assertEqual(answer["parameters"], parameters - channels)
                self.assertLess(abs(answer["flops"] / (2 * multiplied) - 1), 0.03)

    def test_decode_step(self):
        """Of one new token the products are those of one row; each layer has its cache in and out."""
        for name, style in (("llama3-8b", "decomposed"), ("llama3-8b", "fused"), ("gpt3-175b", "fused")):
            with self.subTest(name, style=style):
                arguments = ["--style", style, "--kv-cache", "1000", "--sequence", "1", "--dtype", "float16"]
                answer = self.inspect("--model", name, *arguments)
                layers = models.MODELS[name]["layers"]
                self.assertEqual((len(answer["inputs"]), len(answer["outputs"])), (3 + 2 * layers, 1 + 2 * layers))
                shapes = {item["name"]: item["shape"] for item in answer["inputs"] + answer["outputs"]}
                self.assertEqual(shapes["past_key_values.0.key"][2], 1000)
                self.assertEqual(shapes[f"present.{layers - 1}.value"][2], 1001)
                self.assertLess(abs(answer["flops"] / (2 * PUBLISHED[name]) - 1), 0.1)

    def test_options(self):
        small = self.inspect("--model", "mixtral-8x7b", "--layers", "1", "--batch", "3", "--sequence", "16")
        self.assertEqual(small["outputs"][0]["shape"], [3, 16, 32000])
        self.assertEqual(small["operators"]["TopK"], 1)

    def test_any_number_of_nodes(self):
        for nodes in (300, 3000):
            self.assertEqual(self.inspect("--model", "irregular", "--nodes", str(nodes))["node_count"], nodes)
            blocks = self.inspect("--model", "blocks", "--nodes", str(nodes))
            self.assertLess(abs(blocks["node_count"] - nodes), 36)  # half a layer

    def test_the_same_seed_gives_the_same_graph(self):
        texts = []
        for seed in ("7", "7", "8"):
            with open(self.make("--model", "irregular", "--nodes", "500", "--seed", seed), encoding="utf-8") as file:
                texts.append(file.read())
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])


class Blocks(Made):
    """Searches solve one layer for all: each layer must be found to be the same as the first."""

    program = os.path.join(os.path.dirname(test_cli.CLI), "../../tests/bench/bench_blocks")

    def setUp(self):
        super().setUp()
        if not os.access(self.program, os.X_OK):
            self.skipTest(f"{self.program} is not built")

    def expect_layers(self, layers, *arguments):
        path = self.make(*arguments)
        said = self.done(path, program=self.program).stdout.decode()
        nodes = int(re.search(r"(?m)^  (\d+) nodes", said)[1])
        runs = [(int(blocks), int(length)) for blocks, length in re.findall(r"(?m)^  (\d+) x (\d+) from", said)]
        self.assertEqual([blocks for blocks, _ in runs], [layers], said)
        self.assertLess(nodes - layers * runs[0][1], 30, said)  # embeddings, tables, the head

    def test_every_layer_is_found(self):
        for name in ("llama3-8b", "mixtral-8x7b", "gpt3-175b", "vit-22b"):
            for style in STYLES:
                with self.subTest(name, style=style):
                    self.expect_layers(20, "--model", name, "--style", style, "--layers", "20")

    def test_with_a_cache(self):
        for style in STYLES:
            with self.subTest(style):
                arguments = ["--layers", "20", "--style", style, "--kv-cache", "64", "--sequence", "1"]
                self.expect_layers(20, "--model", "llama3-8b", *arguments)

    def test_nothing_repeats_in_random_graphs(self):
        said = self.done(self.make("--model", "irregular", "--nodes", "3000"), program=self.program).stdout.decode()
        self.assertNotIn(" from node ", said)


class Clusters(Made):
    def plan(self, model, cluster, *options):
        file = os.path.join(test_cli.TOP, "tests/bench/clusters", f"{cluster}.json")
        return self.json("plan", model, "--cluster", file, "--tolerance", "0", *options)

    def test_unequal_shares_are_near_the_bound(self):
        """70B on two devices that have 115 and 43 GB, the larger one twice as fast: a step within a tenth of the bound,
        where a pipeline takes half as long again; the devices share all operators but few, and fill their memory."""
        model = self.make("--model", "llama3-70b", "--style", "fused", "--dtype", "float16", "--sequence", "1",
                          "--kv-cache", "2048")
        plan = self.plan(model, "unequal-115-43", "--objective", "latency")
        estimate = plan["estimate"]
        self.assertLess(estimate["latency_seconds"], 1.1 * estimate["lower_bound_seconds"])
        pipeline = self.plan(model, "unequal-115-43", "--objective", "latency", "--strategy", "pipeline")
        self.assertGreater(pipeline["estimate"]["latency_seconds"], 1.5 * estimate["latency_seconds"])
        self.assertEqual(plan["stages"][0]["devices"], [0, 1])
        large, small = plan["outline"]["stages"][0]["shares"]
        self.assertGreater(large, 2 * small)
        # Both together compute little more than the model is: a share of an operator is no multiple of what is whole.
        flops = sum(device["flops"] for device in plan["devices"])
        self.assertLess(flops, 1.1 * plan["model"]["flops"])

    def test_each_is_planned_on(self):
        model = self.mlp(2)
        files = sorted(glob.glob(os.path.join(test_cli.TOP, "tests/bench/clusters/*.json")))
        self.assertGreaterEqual(len(files), 6)
        for file in files:
            with self.subTest(os.path.basename(file)):
                with open(file, encoding="utf-8") as text:
                    cluster = json.load(text)
                count = sum(group["count"] for group in cluster.get("groups", [cluster]))
                planned = self.json("plan", model, "--cluster", file)
                self.assertEqual(sum(group["count"] for group in planned["cluster"]["groups"]), count)


if __name__ == "__main__":
    unittest.main()
