"""Our own measurements, tests/bench/gpu/*.json, with predictions: no fit has seen a row of them.

Products, attention, experts and operators are one node each, of a runtime that joins nothing, as PyTorch calls them, but
experts, which are six kernels in vLLM. Products of one-byte elements have their operands narrow already. A decoder whose
layer torch.compile has made is predicted as vLLM's, which compiles it so, and one written out as if nothing was joined;
networks in a CUDA graph as vLLM's, since attention and activations are one kernel each in both. What the host starts,
operator by operator ("eager"), is predicted as ONNX Runtime's.
"""

import json
import os

from .asking import Layout, members
from .kernels import OPSET, text_of
from .passes import ask_pass
from model_graph import Graph
from model_layers import MICROSOFT

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gpu")
MEASURED = {"h100.json": "h100-sxm-80gb", "h200.json": "h200-sxm-141gb"}
DECODER = "llama3-8b/4"  # a quarter of its layers
NETWORKS = {"resnet50": "resnet50", "resnet50, channels last": "resnet50", "bert_base": "bert-base"}
PRECISIONS = {"float16": "fp16", "float32": "fp32", "bfloat16": "bf16"}
SEQUENCE = {"bert_base": 128}
FORMS = {"compiled": "vllm", "written out": None, "eager": "PyTorch"}
OPERATORS = {"add": "Add", "gelu": "Gelu", "sigmoid": "Sigmoid", "softmax": "Softmax", "rms_norm": "RMSNormalization",
             "layer_norm": "LayerNormalization", "transpose": "Transpose"}


def product(graph, called, row):
    m, n, k = row["m"], row["n"], row["k"]
    if row["dtype"] != "float8e4m3fn":
        return graph.node("MatMul", [graph.input(called + ".x", [m, k]), graph.weight("w", [k, n])])
    x = graph.dequantized(graph.input(called + ".x", [m, k], row["dtype"]), row["dtype"])
    return graph.node("MatMul", [x, graph.stored_weight("w", [k, n], row["dtype"])])


def attention(graph, called, row):
    batch, size = row["batch"], row["head_dim"]
    q = graph.input(called + ".q", [batch, row["heads"], row["queries"], size])
    k, v = (graph.input(f"{called}.{name}", [batch, row["kv_heads"], row["keys"], size]) for name in "kv")
    return graph.node("Attention", [q, k, v], is_causal=int(row["queries"] > 1), scale=size**-0.5)


def experts(graph, called, row):
    count, hidden, inner = row["experts"], row["hidden"], row["inner"]
    x = graph.input(called + ".x", [row["tokens"], hidden])
    logits = graph.input(called + ".logits", [row["tokens"], count])
    up, down, gate = (graph.weight(name, [count, *sizes]) for name, sizes in
                      (("up", (inner, hidden)), ("down", (hidden, inner)), ("gate", (inner, hidden))))
    return graph.node("MoE", [x, logits, up, None, down, None, gate], domain=MICROSOFT, k=row["per_token"],
                      activation_type="silu", normalize_routing_weights=1)


def operator(graph, called, row):
    sizes = [row["tokens"], row["width"]]
    inputs = [graph.input(f"{called}.x{index}", sizes) for index in range(1 + (row["name"] == "add"))]
    if "norm" in row["name"]:
        inputs += [graph.weight(name, sizes[1:]) for name in ("scale", "bias")[:1 + (row["name"] == "layer_norm")]]
    attributes = {"perm": [1, 0]} if row["name"] == "transpose" else {}
    return graph.node(OPERATORS[row["name"]], inputs, **attributes)


KINDS = {"products": product, "attention": attention, "experts": experts, "operators": operator}


def is_known(row):
    """Launches and copies are no nodes; a transpose of one row moves nothing; TF32 and gates of two kernels have no node of
    their own."""
    if row["part"] == "operators":
        return row["name"] in OPERATORS and (row["name"], row["tokens"]) != ("transpose", 1)
    if row["part"] == "networks":
        return row["name"] in NETWORKS and row["dtype"] in PRECISIONS
    return row["part"] in ("decoder", "attention") or (row["part"] == "products" and row["dtype"] != "tf32") or \
        (row["part"] == "experts" and row["name"] == "experts")


def table_of(row, device):
    what = {"products": row["dtype"], "attention": f"{row['name']} {row.get('kernel')}", "experts": "",
            "operators": "norms" if "norm" in row["name"] or row["name"] == "softmax" else "elementwise"}
    return f"ours {row['part']} {what.get(row['part'], row.get('form'))} {device}".replace("  ", " ")


def kernel_rows(ask, device, rows):
    """Of the rows of one type: one graph, a scope for each."""
    dtype = rows[0]["dtype"]
    graph = Graph("measured", "bfloat16" if dtype == "float8e4m3fn" else dtype, OPSET, {MICROSOFT: 1})
    for index, row in enumerate(rows):
        with graph.scope(f"r{index}"):
            graph.output(KINDS[row["part"]](graph, f"r{index}", row))
    seconds = ask.nodes(text_of(graph), device, "vllm" if rows[0]["part"] == "experts" else None)
    return [seconds.get(index) for index in range(len(rows))]


def whole(ask, device, row):
    """Of a decoder or a network."""
    runtime = "vllm" if row["part"] == "networks" and not row.get("eager") else FORMS[row["form"]]
    place = (device, runtime, Layout(1))
    if row["part"] == "decoder":
        sizes = (row["batch"], row["tokens"], row["keys"] - row["tokens"])
        return ask_pass(ask, place, DECODER, "bf16", sizes, is_step=row["tokens"] == 1)
    return ask_pass(ask, place, NETWORKS[row["name"]], PRECISIONS[row["dtype"]],
                    (row["batch"], SEQUENCE.get(row["name"], 1), 0))


def rows_of(data, device, ask, chosen):
    """Tables are small: each is taken whole or not at all."""
    rows = [row for row in data["rows"] if is_known(row) and chosen(table_of(row, device), [row["part"]])]
    predicted = {}
    for part, dtype in sorted({(row["part"], row["dtype"]) for row in rows if row["part"] in KINDS}):
        some = [row for row in rows if (row["part"], row["dtype"]) == (part, dtype)]
        predicted.update(zip(map(id, some), kernel_rows(ask, device, some)))
    found = []
    for row in rows:
        answer = predicted.get(id(row))
        if row["part"] not in KINDS:
            figures = whole(ask, device, row)
            answer = figures and figures[0]
        called = " ".join(str(value) for key, value in row.items() if key not in ("part", "seconds", "eager"))
        found.append({"table": table_of(row, device), "source": data["source"], "model": called, "hardware": device,
                      "layout": "1 device", "measured": row["seconds"], **members(answer)})
    return sorted(found, key=lambda row: row["table"])


def all_rows(_, ask, chosen):
    found = []
    for name, device in MEASURED.items():
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            found += rows_of(json.load(file), device, ask, chosen)
    return found
