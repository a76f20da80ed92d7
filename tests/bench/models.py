#!/usr/bin/env python3
"""Writes well-known models, and graphs of any size, as tensor graphs in JSON: all shapes, no weights.

    models.py --model llama3-8b|llama3-70b|llama3-405b|mixtral-8x7b|gpt3-175b|palm-540b|vit-22b [-o FILE]
    models.py --model mobilenet|mobilenet-v3       only --batch and --dtype apply
    models.py --model blocks --nodes 100000        a small decoder of so many layers
    models.py --model irregular --nodes 100000     a random DAG; --seed

    --style fused|decomposed    one operator for a norm, a rotation, an attention, the experts; or their parts
    --batch N --sequence N      of a request; ViT-22B has the tokens of its image
    --kv-cache N                so many positions were computed before: a decode step, with the cache as inputs
    --dtype float16|bfloat16|float32, --layers N

The graph has weights in its own dtype, the head of every position, and no sampling. `shardplan check`, `inspect` and
`plan` read it; tests/cli/test_models.py compares parameters and FLOPs with the published ones.
"""

import argparse
import sys

sys.dont_write_bytecode = True

import model_irregular  # noqa: E402
import model_layers  # noqa: E402
import model_mobile  # noqa: E402
from model_graph import Graph  # noqa: E402

# "The Llama 3 Herd of Models" (arXiv 2407.21783), table 3, and config.json of meta-llama/Meta-Llama-3-8B and -70B and
# Llama-3.1-405B (the release with 8 key-value heads): 8,030,261,248, 70,553,706,496 and 405,853,388,800 parameters.
LLAMA = {"make": model_layers.llama, "vocabulary": 128256, "kv_heads": 8, "head": 128, "rotary_base": 5e5}

MODELS = {
    "llama3-8b": {**LLAMA, "layers": 32, "hidden": 4096, "heads": 32, "inner": 14336},
    "llama3-70b": {**LLAMA, "layers": 80, "hidden": 8192, "heads": 64, "inner": 28672},
    "llama3-405b": {**LLAMA, "layers": 126, "hidden": 16384, "heads": 128, "inner": 53248},
    # "Mixtral of Experts" (arXiv 2401.04088), table 1, and config.json of mistralai/Mixtral-8x7B-v0.1: 46,702,792,704
    # parameters, of which a token uses 12.9 billion.
    "mixtral-8x7b": {"make": model_layers.llama, "vocabulary": 32000, "layers": 32, "hidden": 4096, "heads": 32,
                     "kv_heads": 8, "head": 128, "rotary_base": 1e6, "inner": 14336, "experts": 8, "chosen": 2},
    # "Language Models are Few-Shot Learners" (arXiv 2005.14165), table 2.1: 174.6 billion parameters (table D.1) of
    # width 12288, a vocabulary of 50257 and 2048 positions. Half of its layers attend to bands; here all are dense.
    "gpt3-175b": {"make": model_layers.gpt, "vocabulary": 50257, "positions": 2048, "layers": 96, "hidden": 12288,
                  "heads": 96, "head": 128, "inner": 49152},
    # "PaLM" (arXiv 2204.02311), table 1: 540.35 billion parameters; a vocabulary of 256,000.
    "palm-540b": {"make": model_layers.palm, "vocabulary": 256000, "layers": 118, "hidden": 18432, "heads": 48,
                  "head": 256, "inner": 73728},
    # "Scaling Vision Transformers to 22 Billion Parameters" (arXiv 2302.05442), table 1: 21,743 million, which is the
    # matrices of the layers. The head has the classes of ImageNet.
    "vit-22b": {"make": model_layers.vit, "layers": 48, "hidden": 6144, "heads": 48, "head": 128, "inner": 24576,
                "patch": 14, "image": 224, "classes": 1000},
    # "MobileNets" (arXiv 1704.04861), table 1: 4.2 million parameters and 569 million multiply-adds (table 4).
    "mobilenet": {"make": model_mobile.mobilenet, "image": 224, "classes": 1000, "first": 32,
                  "blocks": [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2),
                             (1024, 1)]},
    # "Searching for MobileNetV3" (arXiv 1905.02244), table 1 (Large): 5.4 million parameters and 219 million
    # multiply-adds (table 3). The squeezes have a quarter of the expanded channels, as multiples of 8.
    "mobilenet-v3": {"make": model_mobile.mobilenet_v3, "image": 224, "classes": 1000, "first": 16, "wide": 960,
                     "hidden": 1280,
                     "blocks": [(16, 3, 16, 0, "Relu", 1), (64, 3, 24, 0, "Relu", 2), (72, 3, 24, 0, "Relu", 1),
                                (72, 5, 40, 24, "Relu", 2), *[(120, 5, 40, 32, "Relu", 1)] * 2,
                                (240, 3, 80, 0, "HardSwish", 2), (200, 3, 80, 0, "HardSwish", 1),
                                *[(184, 3, 80, 0, "HardSwish", 1)] * 2, (480, 3, 112, 120, "HardSwish", 1),
                                (672, 3, 112, 168, "HardSwish", 1), (672, 5, 160, 168, "HardSwish", 2),
                                *[(960, 5, 160, 240, "HardSwish", 1)] * 2]},
    # A decoder so narrow that the number of its nodes is all that counts.
    "blocks": {"make": model_layers.llama, "vocabulary": 1024, "hidden": 256, "heads": 8, "kv_heads": 2, "head": 32,
               "rotary_base": 1e4, "inner": 688},
}


def make_known(name, options, layers):
    config = {**MODELS[name]}
    config["layers"] = layers or config.get("layers", 1)
    domains = {model_layers.MICROSOFT: 1} if "experts" in config and options.style == "fused" else {}
    graph = Graph(name, options.dtype, 23 if options.style == "fused" else 22, domains)
    run = model_layers.Run(graph, options.batch, options.sequence, options.kv_cache, options.style)
    if config["make"] is model_layers.vit:
        run = model_layers.Run(graph, options.batch, (config["image"] // config["patch"]) ** 2, 0, options.style)
    config["make"](run, config)
    return graph


def make_blocks(options):
    """As many layers as come nearest to the number of nodes, and one at least."""
    one, two = (len(make_known("blocks", options, layers).nodes) for layers in (1, 2))
    return make_known("blocks", options, max(1, round((options.nodes - one) / (two - one)) + 1))


def make(options):
    if options.model == "irregular":
        graph = Graph("irregular", options.dtype, 22)
        model_irregular.irregular(graph, options.seed, options.nodes, options.batch, options.sequence)
        return graph
    if options.model == "blocks" and options.layers is None:
        return make_blocks(options)
    return make_known(options.model, options, options.layers)


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, choices=[*MODELS, "irregular"])
    parser.add_argument("--style", choices=["fused", "decomposed"], default="decomposed")
    parser.add_argument("--batch", type=positive, default=1)
    parser.add_argument("--sequence", type=positive, default=2048)
    parser.add_argument("--kv-cache", type=positive, default=0)
    parser.add_argument("--dtype", choices=["float16", "bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--layers", type=positive)
    parser.add_argument("--nodes", type=positive, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", default="-")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    graph = make(options)
    if options.output == "-":
        graph.write(sys.stdout)
    else:
        with open(options.output, "w", encoding="utf-8") as file:
            graph.write(file)


if __name__ == "__main__":
    main()
