"""Rows of end_to_end.json, with predictions: whole models.

What a request takes is its prefill and then, for each further token, a decode step at the middle of the output; the time
per output token of C concurrent requests follows from a prefill and a step of C by the product's own arithmetic
(core/service/generation.h).
"""

import json
import os

from .asking import DEVICES, RUNTIMES, Layout, add, members
from .models import DTYPES, MODELS
from .passes import ask_pass, served


def layout_of(layout):
    """Of "TP8 PP3" or "1 device"."""
    found = {"TP": 1, "PP": 1}
    for word in layout.split():
        if word[:2] in found and word[2:].isdigit():
            found[word[:2]] = int(word[2:])
    return Layout(found["TP"], found["PP"])


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
    whole = ask.layout((model, precision, batch, given, made - 1), *place)
    if step is None or (whole is None and place[1] in AT_ONCE):
        return None
    return add(prefill[0], step[0], factors=(1, made - 1)), max(prefill[1], whole[2] if whole else step[1])


def output_token(ask, place, model, precision, sizes):
    """(seconds of an output token, bytes) or None."""
    figures = served(ask, place, model, precision, sizes)
    return figures and figures[1:]


def row_of(name, source, called, place, measured, answer):
    """A row of the report; ANSWER is (seconds, bytes) or None."""
    device, _, layout = place
    return {"table": name, "source": source, "model": called, "hardware": device, "layout": str(layout),
            "measured": measured, **members(answer and answer[0]),
            "memory": answer[1] if answer else None, "devices": layout.devices}


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
        place = (device, runtime, layout_of(layout))
        answer = ask_for(ask, place, model, item["precision"], (batch, given, made))
        rows.append(row_of(name, item["source"], f"{model} {batch}x{given}+{made}", place, measured, answer))
        if item.get("measured_memory_gb"):
            rows[-1]["measured_memory"] = 1e9 * item["measured_memory_gb"]
    return rows


def all_rows(folder, ask, chosen):
    return end_to_end_rows(folder, ask, chosen)
