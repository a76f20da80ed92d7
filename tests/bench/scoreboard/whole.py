"""Rows of end_to_end.json and serving.json, with predictions: whole models, and deployments under continuous batching.

A model is a graph of model_layers.py, one operator for a norm or an attention, its cache in place, the head on the last
position. What a request takes is its prefill and then, for each further token, a decode step at the middle of the
output; the times to the first and per output token of C concurrent requests follow from a prefill and a step of C by the
product's own arithmetic (core/service/generation.h).
"""

import functools
import json
import os

import model_layers
import model_resnet
from model_graph import Graph

from .asking import DEVICES, RUNTIMES, add, members
from .kernels import text_of

# Sizes: NVIDIA/FasterTransformer docs/gpt_guide.md; Megatron-Turing NLG 530B (arXiv 2201.11990); Llama 2 (arXiv
# 2307.09288); config.json of meta-llama/Llama-3.1-8B and -70B and of Qwen/Qwen3-32B; BERT (arXiv 1810.04805).


def gpt(layers, hidden, heads):
    return {"make": model_layers.gpt, "vocabulary": 51200, "positions": 2048, "layers": layers, "hidden": hidden,
            "heads": heads, "head": hidden // heads, "inner": 4 * hidden}


def llama(layers, hidden, kv_heads, inner, vocabulary, **more):
    return {"make": model_layers.llama, "vocabulary": vocabulary, "layers": layers, "hidden": hidden,
            "heads": more.pop("heads", hidden // 128), "kv_heads": kv_heads, "head": 128, "inner": inner,
            "rotary_base": 5e5, **more}


MODELS = {
    "gpt-1.3b": gpt(24, 2048, 32), "gpt-6.7b": gpt(32, 4096, 32), "gpt-20b": gpt(44, 6144, 64),
    "gpt-89b": gpt(48, 12288, 96), "gpt-175b": gpt(96, 12288, 96), "mt-530b": gpt(105, 20480, 128),
    "llama2-7b": llama(32, 4096, 32, 11008, 32000), "llama2-70b": llama(80, 8192, 8, 28672, 32000),
    "llama31-8b": llama(32, 4096, 8, 14336, 128256), "llama31-70b": llama(80, 8192, 8, 28672, 128256),
    "qwen3-32b": llama(64, 5120, 8, 25600, 151936, heads=64, head_norms=True),
    "bert-base": {"make": model_layers.bert, "vocabulary": 30522, "positions": 512, "layers": 12, "hidden": 768,
                  "heads": 12, "head": 64, "inner": 3072},
    "bert-large": {"make": model_layers.bert, "vocabulary": 30522, "positions": 512, "layers": 24, "hidden": 1024,
                   "heads": 16, "head": 64, "inner": 4096},
    "resnet50": {"make": model_resnet.resnet, "image": 224, "classes": 1000},
}
LOW_LOAD = 16  # sequences in flight: above it times to the first token are those of queues, as the benchmark makes them
SERVED = {"meta-llama/Llama-3.1-70B": "llama31-70b", "meta-llama/Llama-3.1-8B-Instruct": "llama31-8b",
          "nvidia/Llama-3.1-8B-Instruct-FP8": "llama31-8b", "Qwen/Qwen3-32B": "qwen3-32b"}
DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp8": "bfloat16", "fp32": "float32"}
ENCODERS = ("bert-base", "bert-large")  # written out, as exported


@functools.lru_cache(maxsize=64)  # layouts of one request follow each other
def graph_of(model, precision, batch, sequence, past):
    """The text of a graph; fp8 narrows the activations and weights of each product, with the head in bfloat16."""
    style = "decomposed" if model in ENCODERS else "fused"
    graph = Graph(model, DTYPES[precision], 23)
    run = model_layers.Run(graph, batch, sequence, past, style)
    run.last_only = True
    graph.narrow = "float8e4m3fn" if precision == "fp8" else None
    MODELS[model]["make"](run, MODELS[model])
    return text_of(graph)


def degrees(layout):
    """(tensor, stages) of "TP8 PP3" or "1 device"."""
    found = {"TP": 1, "PP": 1}
    for word in layout.split():
        if word[:2] in found and word[2:].isdigit():
            found[word[:2]] = int(word[2:])
    return found["TP"], found["PP"]


MICRO_BATCHES = (2, 4, 8, 16)  # that a batch is cut into for several stages


def cuts_of(place, batch, positions):
    """The numbers of micro-batches, of which the fastest counts, of a batch with so many positions on PLACE (device,
    runtime, layout). FasterTransformer takes one of its own: getLocalBatchSize in utils/nccl_utils.cc."""
    stages = place[2][1]
    if stages == 1:
        return [1]
    if place[1] != "FasterTransformer":
        return [count for count in (1, *MICRO_BATCHES) if batch % count == 0]
    part = batch // stages if batch % stages == 0 else batch
    while part * positions > 1024 and part % 2 == 0:
        part //= 2
    return [batch // part]


def ask_pass(ask, place, model, precision, request, is_step=False):
    """(seconds, bytes of the fullest device) of one pass on PLACE, each (value, low, high): REQUEST is (sequences, new
    positions, past positions). None where the plan does not fit. Stages take micro-batches behind each other: the first
    one takes its latency, each other one an interval more. In a loop of steps, IS_STEP, each may begin its next step when
    it is through this one (core/cost/micro_batches.h); FasterTransformer waits for all of them."""
    whole = ask.layout(graph_of(model, precision, *request), *place)
    if whole is None:
        return None
    times = []
    for count in cuts_of(place, *request[:2]):
        part = ask.layout(graph_of(model, precision, request[0] // count, *request[1:]), *place)
        if is_step and place[1] != "FasterTransformer":
            times.append(tuple(max(latency, count * interval) for latency, interval in zip(*part[:2])))
        else:
            times.append(add(*part[:2], factors=(1, count - 1)))
    return min(times), whole[2]


# Caches have all their positions while the prompt runs: FasterTransformer allocates them for the whole request
# (ParallelGpt.cc, allocateBuffer), others have pages before anything runs. Where these do not suffice, sequences wait;
# FasterTransformer fails.
AT_ONCE = ("FasterTransformer",)


def whole_batch(ask, place, model, precision, sizes):
    """(seconds, bytes) of a batch from its prompt to its last token, or None."""
    batch, given, made = sizes
    prefill = ask_pass(ask, place, model, precision, (batch, given, 0))
    if made <= 1 or prefill is None:
        return prefill
    step = ask_pass(ask, place, model, precision, (batch, 1, given + made // 2), is_step=True)
    whole = ask.layout(graph_of(model, precision, batch, given, made - 1), *place)
    if step is None or (whole is None and place[1] in AT_ONCE):
        return None
    return add(prefill[0], step[0], factors=(1, made - 1)), max(prefill[1], whole[2] if whole else step[1])


ROUNDS = 10  # requests of a benchmark by its concurrency, which all begin at once: InferenceMAX's --num-prompts


def served(ask, place, model, precision, sizes):
    """((TTFT, low, high), (TPOT, low, high), bytes) of (concurrency, input, output), or None."""
    concurrency, given, made = sizes
    prefill = ask_pass(ask, place, model, precision, (1, given, 0))
    step = ask_pass(ask, place, model, precision, (concurrency, 1, given + made // 2), is_step=True)
    if prefill is None or step is None:
        return None
    figures = ask.service(place[0], place[1], (concurrency, made, ROUNDS), (step[0], prefill[0]))
    return *figures, max(prefill[1], step[1])


def output_token(ask, place, model, precision, sizes):
    """(seconds of an output token, bytes) or None."""
    figures = served(ask, place, model, precision, sizes)
    return figures and figures[1:]


def row_of(name, source, called, place, measured, answer):
    """A row of the report; ANSWER is (seconds, bytes) or None."""
    device, _, (tensor, stages) = place
    return {"table": name, "source": source, "model": called, "hardware": device, "layout": f"TP{tensor} PP{stages}",
            "measured": measured, **members(answer and answer[0]),
            "memory": answer[1] if answer else None, "devices": tensor * stages}


def runtime_of(row):
    """What was measured, "vllm" of "vllm 0.12.0" or "FasterTransformer" of "NVIDIA/FasterTransformer docs/..."."""
    words = row.get("runtime", row["source"]).replace("/", " ").split()
    return next((word for word in words if word in RUNTIMES), words[0])


def end_to_end_rows(folder, ask, chosen):
    with open(os.path.join(folder, "end_to_end.json"), encoding="utf-8") as file:
        items = json.load(file)["rows"]
    rows = []
    for item in items:
        model, device, layout = item["model"].split(" ")[0], DEVICES.get(item["hardware"]), item["layout"]
        measured = item.get("measured_s") or item.get("measured_tpot_s")
        if model not in MODELS or device is None or item["precision"] not in DTYPES:
            continue
        batch = item.get("batch") or item["concurrency"]
        given, made = item.get("sequence") or item.get("input") or 1, item.get("output") or 1
        runtime = runtime_of(item)
        name = f"whole {runtime} {item['precision']} {device}"
        if not chosen(name, [model, batch, given, made]):  # with all of its layouts, or not at all
            continue
        ask_for = output_token if "concurrency" in item else whole_batch
        place = (device, runtime, degrees(layout))
        answer = ask_for(ask, place, model, item["precision"], (batch, given, made))
        rows.append(row_of(name, item["source"], f"{model} {batch}x{given}+{made}", place, measured, answer))
        if item.get("measured_memory_gb"):
            rows[-1]["measured_memory"] = 1e9 * item["measured_memory_gb"]
    return rows


def serving_rows(folder, ask, chosen):
    """Dense models in one deployment: no experts, no split between prefill and decode."""
    with open(os.path.join(folder, "serving.json"), encoding="utf-8") as file:
        data = json.load(file)
    rows = []
    for values in data["rows"]:
        item = dict(zip(data["columns"], values))
        model, device = SERVED.get(item["model_path"]), DEVICES.get(item["system"])
        precision = item["precision"] or "bf16"
        if model is None or device is None or item["mode"] != "agg" or precision not in DTYPES:
            continue
        name = f"serving {item['backend']} {precision} {device}"
        sizes = (item["batch_size"], item["isl"], item["osl"])
        tensor, stages = item["tp_size"], item["pp_size"] or 1
        if not chosen(name, [model, *sizes]):
            continue
        place = (device, item["backend"], (tensor, stages))
        answer = served(ask, place, model, precision, sizes)
        called = "{} {}x{}+{}".format(model, *sizes)
        rows.append(row_of(name, data["source"], called, place, item["silicon_tpot_ms"] / 1000, answer and answer[1:]))
        if item["silicon_ttft_ms"] and sizes[0] <= LOW_LOAD:
            first = row_of(name.replace("serving", "first token"), data["source"], called, place,
                           item["silicon_ttft_ms"] / 1000, answer and (answer[0], answer[2]))
            first.pop("devices")  # layouts are compared by what a token takes
            rows.append(first)
    return rows


def all_rows(folder, ask, chosen):
    return end_to_end_rows(folder, ask, chosen) + serving_rows(folder, ask, chosen)
