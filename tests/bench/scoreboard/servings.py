"""Rows of serving.json, with predictions: deployments of dense models and of models with experts, continuous batching.

Layouts. The table converts what was started into degrees, and some rows have them twice. Where both degrees of the
experts are m and the others multiply to m x m, m devices were meant (vLLM's and TensorRT-LLM's "TP8 EP8"): rows that are
there with either way of writing have the same times to the microsecond. So had attention on parts of the sequences, with
m x m experts' parts on m devices. Else a worker has as many devices as the larger of both products of degrees, and what
tensor parallelism does not take is data parallelism of the attention.

Sequences in flight. The table has the batch of one part of the attention's data parallelism, as often as it says that there
are parts, also where that is twice: rows that are there in two ways (16 sequences in each of 8 parts, 2 in each of 64) agree
in the product, and it is the concurrency that the benchmark asks for (SemiAnalysisAI/InferenceX, nvidia-master.yaml: 64
of gpt-oss on 4 devices, 256 of DeepSeek on 8).

Speculation. The benchmark runs some servers with the next tokens guessed by the model (its "mtp"), and the table does not
say so. Versions that the same file has for such runs of DeepSeek, alone or beside others, are left out.
"""

import json
import os

from .asking import DEVICES, Layout
from .passes import served
from .whole import row_of

LOW_LOAD = 16  # sequences in flight: above it times to the first token are those of queues, as the benchmark makes them
SERVED = {"meta-llama/Llama-3.1-70B": "llama31-70b", "meta-llama/Llama-3.1-8B-Instruct": "llama31-8b",
          "nvidia/Llama-3.1-8B-Instruct-FP8": "llama31-8b", "Qwen/Qwen3-32B": "qwen3-32b"}
EXPERTS = {"Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b", "MiniMaxAI/MiniMax-M2.5": "minimax-m2",
           "openai/gpt-oss-120b": "gpt-oss-120b", "deepseek-ai/DeepSeek-R1": "deepseek-v3",
           "deepseek-ai/DeepSeek-V3": "deepseek-v3", "nvidia/DeepSeek-R1-NVFP4": "deepseek-v3",
           "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-v3", "moonshotai/Kimi-K2.5": "kimi-k2"}
# What the published weights of four bits are: the experts alone are narrow.
NARROW_EXPERTS = {"fp4": "nvfp4 experts", "int4": "int4 experts"}
NARROW_OF_MODEL = {("gpt-oss-120b", "fp4"): "mxfp4 experts"}
SPECULATIVE = {("trtllm", "1.2.0rc6.post3", "deepseek-v3"), ("trtllm", "1.1.0rc2.post2", "deepseek-v3")}


def precision_of(model, item):
    """As PRODUCTS of models.py has it; None: not known."""
    stated = item["precision"] or "bf16"
    if item["model_path"] in SERVED:
        return stated if stated in ("bf16", "fp8") else None
    if (model, stated) in NARROW_OF_MODEL:
        return NARROW_OF_MODEL[model, stated]
    return NARROW_EXPERTS.get(stated, stated if stated == "fp8" and model != "gpt-oss-120b" else None)


def layout_of(item):
    tensor, data = item["tp_size"], item["attention_dp_size"] or 1
    inner, whole = item["moe_tp_size"] or 1, item["moe_ep_size"] or 1
    if inner == whole > 1 and inner * whole == tensor * data:
        tensor, data, inner = (inner, 1, 1) if data == 1 else (1, inner, 1)
    elif tensor == data > 1 and whole == tensor * data:
        tensor, whole = 1, data
    devices = max(tensor * data, inner * whole)
    return Layout(tensor, item["pp_size"] or 1, devices // tensor, whole > 1)


def rows_of(item, source, ask, chosen):
    """Of one row of the table: the time of a token and, at a low load, the time to the first one."""
    dense, model = SERVED.get(item["model_path"]), EXPERTS.get(item["model_path"])
    model, device, kind = dense or model, DEVICES.get(item["system"]), "serving" if dense else "experts"
    precision = model and precision_of(model, item)
    if precision is None or device is None or (item["backend"], item["backend_version"], model) in SPECULATIVE:
        return []
    name = f"{kind} {item['backend']} {item['precision'] or 'bf16'} {device}"
    sizes = (item["batch_size"] * (item["attention_dp_size"] or 1), item["isl"], item["osl"])
    if not chosen(name, [model, *sizes]):
        return []
    place = (device, item["backend"], layout_of(item))
    answer = served(ask, place, model, precision, sizes)
    called = "{} {}x{}+{}".format(model, *sizes)
    rows = [row_of(name, source, called, place, item["silicon_tpot_ms"] / 1000, answer and answer[1:])]
    rows[0]["question"] = [model, *sizes[1:], item["backend_version"]]
    rows[0]["concurrency"] = sizes[0]
    if item["silicon_ttft_ms"] and sizes[0] <= LOW_LOAD:
        name = "first token " + name.removeprefix("serving ")
        rows.append(row_of(name, source, called, place, item["silicon_ttft_ms"] / 1000,
                           answer and (answer[0], answer[2])))
        rows[1].pop("devices")  # layouts are compared by what a token takes
    return rows


def all_rows(folder, ask, chosen):
    with open(os.path.join(folder, "serving.json"), encoding="utf-8") as file:
        data = json.load(file)
    items = [dict(zip(data["columns"], values)) for values in data["rows"]]
    items = [item for item in items if item["mode"] == "agg"]
    return sum((rows_of(item, data["source"], ask, chosen) for item in items), [])
