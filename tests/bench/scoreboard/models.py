"""The models of end_to_end.json and serving.json: graphs of model_layers.py and its like, one operator for a norm, an
attention or a layer of experts, the cache in place, the head on the last position."""

import model_deepseek
import model_layers
import model_resnet
from model_graph import Graph

from .kernels import text_of

# Sizes: NVIDIA/FasterTransformer docs/gpt_guide.md; Megatron-Turing NLG 530B (arXiv 2201.11990); Llama 2 (arXiv
# 2307.09288); config.json of meta-llama/Llama-3.1-8B and -70B, Qwen/Qwen3-32B and -235B-A22B, MiniMaxAI/MiniMax-M2,
# openai/gpt-oss-120b, deepseek-ai/DeepSeek-V3 (arXiv 2412.19437) and moonshotai/Kimi-K2; BERT (arXiv 1810.04805).


def gpt(layers, hidden, heads):
    return {"make": model_layers.gpt, "vocabulary": 51200, "positions": 2048, "layers": layers, "hidden": hidden,
            "heads": heads, "head": hidden // heads, "inner": 4 * hidden}


def llama(layers, hidden, kv_heads, inner, vocabulary, **more):
    return {"make": model_layers.llama, "vocabulary": vocabulary, "layers": layers, "hidden": hidden,
            "heads": more.pop("heads", hidden // 128), "kv_heads": kv_heads, "head": more.pop("head", 128),
            "inner": inner, "rotary_base": 5e5, **more}


def deepseek(heads, experts, vocabulary, dense_layers):
    return {"make": model_deepseek.deepseek, "vocabulary": vocabulary, "layers": 61, "hidden": 7168, "heads": heads,
            "head": 128, "rotary": 64, "q_b_proj_width": 1536, "kv_b_proj_width": 512, "inner": 2048,
            "experts": experts, "chosen": 8, "dense_layers": dense_layers, "dense_inner": 18432, "rotary_base": 1e4}


MODELS = {
    "gpt-1.3b": gpt(24, 2048, 32), "gpt-6.7b": gpt(32, 4096, 32), "gpt-20b": gpt(44, 6144, 64),
    "gpt-89b": gpt(48, 12288, 96), "gpt-175b": gpt(96, 12288, 96), "mt-530b": gpt(105, 20480, 128),
    "llama2-7b": llama(32, 4096, 32, 11008, 32000), "llama2-70b": llama(80, 8192, 8, 28672, 32000),
    "llama31-8b": llama(32, 4096, 8, 14336, 128256), "llama31-70b": llama(80, 8192, 8, 28672, 128256),
    "qwen3-32b": llama(64, 5120, 8, 25600, 151936, heads=64, head_norms=True),
    "qwen3-235b": llama(94, 4096, 4, 1536, 151936, heads=64, head_norms=True, experts=128, chosen=8),
    "minimax-m2": llama(62, 3072, 8, 1536, 200064, heads=48, head_norms=True, experts=256, chosen=8),
    "gpt-oss-120b": llama(36, 2880, 8, 2880, 201088, heads=64, head=64, window=128, experts=128, chosen=4),
    "deepseek-v3": deepseek(128, 256, 129280, 3), "kimi-k2": deepseek(64, 384, 163840, 1),
    "llama3-8b/4": llama(8, 4096, 8, 14336, 128256),
    "bert-base": {"make": model_layers.bert, "vocabulary": 30522, "positions": 512, "layers": 12, "hidden": 768,
                  "heads": 12, "head": 64, "inner": 3072},
    "bert-large": {"make": model_layers.bert, "vocabulary": 30522, "positions": 512, "layers": 24, "hidden": 1024,
                   "heads": 16, "head": 64, "inner": 4096},
    "resnet50": {"make": model_resnet.resnet, "image": 224, "classes": 1000},
}
FLOAT8, FLOAT4 = "float8e4m3fn", "float4e2m1"
# What products multiply: both operands of all, the weights of experts, and what these multiply; None: the graph's type.
PRODUCTS = {"fp8": (FLOAT8, FLOAT8, FLOAT8), "nvfp4": (FLOAT4, FLOAT4, FLOAT4),
            "nvfp4 experts": (None, FLOAT4, FLOAT4), "mxfp4 experts": (None, FLOAT4, None),
            "int4 experts": (None, "int4", None)}
DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", **dict.fromkeys(PRODUCTS, "bfloat16")}
ENCODERS = ("bert-base", "bert-large")  # written out, as exported


def graph_of(model, precision, batch, sequence, past):
    """The text of a graph; fp8 narrows the activations and weights of each product."""
    style = "decomposed" if model in ENCODERS else "fused"
    experts = {model_layers.MICROSOFT: 1} if "experts" in MODELS[model] else {}
    graph = Graph(model, DTYPES[precision], 23, experts)
    graph.narrow, graph.experts_are, graph.experts_take = PRODUCTS.get(precision, (None, None, None))
    run = model_layers.Run(graph, batch, sequence, past, style)
    run.last_only = True
    MODELS[model]["make"](run, MODELS[model])
    return text_of(graph)
