"""Rows of kernels_gemm.json, kernels_attention.json, kernels_layer_ops.json and collectives.json, with predictions.

A table becomes one graph, a scope for each row: what a row takes is the sum over its scope, as the product has it for
the same operators in a model.
"""

import json
import os

from fitting.tables import DROPPED
from model_graph import Graph

from .asking import DEVICES, members

OPSET = 23
DTYPES = {"bfloat16": "bfloat16", "float16": "float16", "fp8": "float8e4m3fn"}
# Whose collectives they are: a runtime as .asking has it.
LIBRARIES = {"NCCL": None, "TRTLLM": "trtllm", "vLLM": "vllm", "SGLang": "sglang"}
OPERATIONS = {"all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter",
              "alltoall": "all-to-all", "send_recv": "send-receive"}
GROUP = 1000  # rows of one graph


def tables(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)["tables"]


def text_of(graph):
    """What graph.write() writes, on one line, which takes a fifth of the time: nobody reads it."""
    return json.dumps({"name": graph.name, "opset": graph.opsets, "inputs": graph.inputs,
                       "initializers": graph.initializers, "nodes": graph.nodes, "outputs": graph.outputs})


def product(graph, index, row, dtype):
    """[m, k] x [k, n]; of one-byte elements with activations that are narrowed first, as models write it."""
    m, n, k = row[:3]
    if dtype != "fp8":
        x = graph.input(f"r{index}.x", [m, k])
        graph.output(graph.node("MatMul", [x, graph.weight("w", [k, n])]))
        return
    x = graph.input(f"r{index}.x", [m, k])
    narrow, scale = DTYPES[dtype], graph.constant(1.0, graph.dtype)
    zero = graph.constant(0.0, narrow)
    x = graph.node("DequantizeLinear", [graph.node("QuantizeLinear", [x, scale, zero]), scale, zero])
    w = graph.node("DequantizeLinear", [graph.weight("w", [k, n], narrow), scale, zero])
    graph.output(graph.node("MatMul", [x, w]))


def attention(graph, index, row, _):
    batch, heads, kv_heads, size, queries, keys = row[:6]
    q = graph.input(f"r{index}.q", [batch, heads, queries, size])
    k, v = (graph.input(f"r{index}.{name}", [batch, kv_heads, keys, size]) for name in "kv")
    graph.output(graph.node("Attention", [q, k, v], is_causal=int(queries > 1), scale=size**-0.5))


def layer_operator(graph, index, row, _):
    name, tokens, ranks, table = row[:4]
    hidden, heads, kv_heads = table["hidden"], table["heads"], table["kv_heads"]
    if name == "mlp_act":
        inner = table["inner"] // ranks
        gate, up = (graph.input(f"r{index}.{part}", [tokens, inner]) for part in ("gate", "up"))
        silu = graph.node("Mul", [gate, graph.node("Sigmoid", [gate])])
        graph.output(graph.node("Mul", [silu, up]))
    elif name == "attn_rope":
        turned = max(1, (heads + kv_heads) // ranks)
        x = graph.input(f"r{index}.x", [1, turned, tokens, hidden // heads])
        cos, sin = (graph.input(f"r{index}.{part}", [1, tokens, hidden // heads // 2]) for part in ("cos", "sin"))
        graph.output(graph.node("RotaryEmbedding", [x, cos, sin]))
    elif name == "add":
        a, b = (graph.input(f"r{index}.{part}", [tokens, hidden]) for part in "ab")
        graph.output(graph.node("Add", [a, b]))
    else:
        x = graph.input(f"r{index}.x", [tokens, hidden])
        graph.output(graph.node("RMSNormalization", [x, graph.weight("weight", [hidden])], axis=-1, epsilon=1e-5))


LAYER_OPERATORS = ("input_layernorm", "attn_rope", "mlp_act", "add")


def predict(ask, rows, make, dtype, place):
    """(seconds, low, high) of each row of a table by the graph that MAKE makes of it, on PLACE (device, runtime); None
    where the product has none."""
    predicted = []
    for first in range(0, len(rows), GROUP):
        part = rows[first:first + GROUP]
        graph = Graph("measured", "bfloat16" if dtype == "fp8" else dtype, OPSET)
        for index, row in enumerate(part):
            with graph.scope(f"r{index}"):
                make(graph, index, row, dtype)
        seconds = ask.nodes(text_of(graph), *place)
        predicted += [seconds.get(index) for index in range(len(part))]
    return predicted


def kernel_rows(ask, table, name, shapes, make, dtype):
    """SHAPES: (row for MAKE, its shape, what the row is called, measured seconds)."""
    device = DEVICES.get(table["device"])
    if device is None or not shapes:
        return []
    predicted = predict(ask, [row for row, *_ in shapes], make, dtype, (device, table.get("backend")))
    return [{"table": name, "source": table["source"], "model": called, "hardware": device, "layout": "1 device",
             "measured": measured, **members(seconds), "shape": shape}
            for (_, shape, called, measured), seconds in zip(shapes, predicted)]


def all_rows(folder, ask, chosen):
    """Every row that CHOSEN (table, shape) takes, table by table."""
    rows = []
    for table in tables(folder, "kernels_gemm.json"):
        name = f"products {table['dtype']} {table['device']}" + (f" {table['backend']}" * (table["dtype"] == "fp8"))
        shapes = [(row, row[:3], "{}x{}x{}".format(*row[:3]), row[3]) for row in table["rows"]
                  if chosen(name, row[:3])]
        rows += kernel_rows(ask, table, name, shapes, product, table["dtype"])
    for table in tables(folder, "kernels_attention.json"):
        name = f"attention {table['phase'].split(',')[0]} {table['device']}"
        shapes = [(row, row[:6], "x".join(map(str, row[:6])), row[6]) for row in table["rows"]
                  if chosen(name, row[:6])]
        rows += kernel_rows(ask, table, name, shapes, attention, table["dtype"])
    for table in tables(folder, "kernels_layer_ops.json"):
        name = f"other {table['device']}"
        column = {title: index for index, title in enumerate(table["columns"])}
        shapes = [((part, row[0], row[1], table), [part, *row[:2], table["hidden"]],
                   f"{part} {row[0]} tokens / {row[1]}", row[column[part + "_seconds"]] + DROPPED)
                  for row in table["rows"] for part in LAYER_OPERATORS
                  if row[column[part + "_seconds"]] and chosen(name, [part, *row[:2], table["hidden"]])]
        # Vidur times the kernels of Sarathi-Serve, which is vLLM: a gate and its product are one.
        rows += kernel_rows(ask, {"backend": "vllm", **table}, name, shapes, layer_operator, table["dtype"])
    return rows + collective_rows(folder, ask, chosen)


def collective_rows(folder, ask, chosen):
    rows = []
    for table in tables(folder, "collectives.json"):
        device, count = DEVICES.get(table["device"]), table["devices"]
        name = f"{table['operation']} {table['library']} {table['device']}" + " across nodes" * (table["nodes"] > 1)
        if device is None or (table["nodes"] > 1 and count <= 8):
            continue
        some = [row for row in table["rows"] if chosen(name, [count, row[0]])]
        if not some:
            continue
        # Of an all-to-all the rows say what one device has, the product is asked for what all have.
        parts = count if table["operation"] == "alltoall" else 1
        questions = [(OPERATIONS[table["operation"]], count, parts * size) for size, _ in some]
        runtime = LIBRARIES[table["library"].split("_")[0].split(" ")[0]]
        if "eager" in table["library"]:
            runtime = "nccl eager" if runtime is None else "vllm eager"
        for (size, measured), seconds in zip(some, ask.collectives(device, count, runtime, questions)):
            rows.append({"table": name, "source": table["source"], "model": f"{size} bytes", "hardware": device,
                         "layout": f"{count} devices", "measured": measured, **members(seconds),
                         "shape": [count, size]})
    return rows
