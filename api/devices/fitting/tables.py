"""Reads the measured tables (data/measured) as rows (shape, features, seconds) of one device and one class."""

import collections
import json
import os
import re

from . import forms

# What the data call a device's tables of kernels and collectives, and of the operators of a layer.
TABLE_NAMES = {
    "a100-sxm4-80gb": ("a100_sxm", "a100-sxm-80gb"),
    "h100-sxm-80gb": ("h100_sxm", "h100-sxm-80gb"),
    "h200-sxm-141gb": ("h200_sxm", None),
    "b200-180gb": ("b200_sxm", None),
    "l40s-48gb": ("l40s", None),
}
# A library of collectives as devices' files call it. "eager" tables, whose kernels the host starts one by one, measure
# the host: a captured graph of a decode step does not wait for it.
LIBRARIES = {
    "NCCL": "nccl",
    "TRTLLM": "tensorrt_llm",
    "vLLM_custom_graph": "vllm",
}
# The same without a captured graph, on whichever machine of these devices.
EAGER_LIBRARIES = {"NCCL (PyTorch, eager)": "nccl", "vLLM_custom_eager": "vllm"}
OPERATIONS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
              "alltoall": "all_to_all"}
# Times of a layer's operators are medians of what the profiler of PyTorch says that a kernel took, in microseconds: it
# drops what is not a whole one (libkineto, nsToUs(): "No rounding!"), half of one on average.
DROPPED = 0.5e-6
RUNTIMES = {"vllm": "vllm", "trtllm": "tensorrt", "sglang": "sglang"}


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)["tables"]


def version_key(text):
    return [int(part) for part in re.findall(r"\d+", text)]


def products(folder, names, dtype, features):
    """Rows of matrix products of DTYPE with FEATURES (row, runtime) of each, and the runtimes that they are of."""
    rows, runtimes = [], []
    for table in read(folder, "kernels_gemm.json"):
        if table["device"] == names[0] and table["dtype"] == dtype:
            runtime = RUNTIMES[table["backend"]]
            if runtime not in runtimes:
                runtimes.append(runtime)
            # Two runtimes have the same shapes: both are held back or neither.
            rows += [(tuple(row[:3]), features(row, runtimes.index(runtime)), row[3]) for row in table["rows"]]
    return rows, runtimes


def attention(folder, names, device, phase):
    features = forms.prefill_features if phase == "prefill" else forms.decode_features
    return [(tuple(row[:6]), features(row, device), row[6])
            for table in read(folder, "kernels_attention.json")
            if table["device"] == names[0] and table["phase"].startswith(phase) for row in table["rows"]]


def other(folder, names, device, part):
    """PART "norm": normalisations, rotary positions and gates, kernels of a block for each row; "other": residual sums.
    The table's embedding is one that is split over a vocabulary, five kernels, and is left out."""
    rows = []
    for table in read(folder, "kernels_layer_ops.json"):
        if table["device"] != names[1]:
            continue
        hidden, inner, heads = table["hidden"], table["inner"], table["heads"]
        head = hidden // heads
        column = {name: index for index, name in enumerate(table["columns"])}
        for row in table["rows"]:
            tokens, ranks = row[0], row[1]
            elements = {
                "input_layernorm": 2 * hidden,
                "post_attention_layernorm": 2 * hidden,
                "attn_rope": 2 * (heads + table["kv_heads"]) * head / ranks,
                "mlp_act": 3 * inner / ranks,
                "add": 3 * hidden,
            }
            for name, count in elements.items():
                seconds = row[column[name + "_seconds"]]
                if seconds and (name == "add") == (part == "other"):
                    rows.append(((name, tokens, ranks, hidden), 2 * tokens * count / device["bandwidth"],
                                 seconds + DROPPED))
    return rows


def collectives(folder, names, device, libraries=None):
    """By (library, operation): rows of groups in one node, of the newest version of the library."""
    libraries = libraries or LIBRARIES
    machines = (names[0], names[0].replace("_sxm", "_dgx"))
    tables = collections.defaultdict(list)
    for table in read(folder, "collectives.json"):
        if (table["device"] in machines and table["library"] in libraries and table["nodes"] == 1
                and table["devices"] in forms.GROUPS and table["operation"] in OPERATIONS):
            tables[libraries[table["library"]], OPERATIONS[table["operation"]]].append(table)
    rows = {}
    for key, some in sorted(tables.items()):
        newest = max((table.get("version", "0") for table in some), key=version_key)
        rows[key] = [((table["devices"], size), forms.collective_features(table["devices"], size, key[1], device),
                      seconds)
                     for table in some if table.get("version", "0") == newest for size, seconds in table["rows"]]
    return rows
