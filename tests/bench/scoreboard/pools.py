"""Disaggregated rows of serving.json: the requests a second of workers for prompts and of workers for steps.

The table has the batch of one worker, of layouts with data parallelism of one of its parts: so many requests are sent at
once, C. No more than max_batch_size of the published recipes can make tokens in a part of a worker (srt-slurm,
recipes/trtllm/), so that of the C requests K do and the others wait for a place, in the time to the first token. Prompts
that wait are computed together, as many as the recipes' max_batch_size and max_num_tokens of the prompts' workers allow.
Where not all K caches fit in memory, K are as many as do.
Measured is what the published times make of C: C / (TTFT + (L - 1) TPOT). We predict what both pools can do by
themselves, and of both the smaller (core/service/pools.h):

    prompts   workers x batch / seconds of the prefill of a batch
    steps     K / ((L - 1) x seconds of a step of K), or C / (that + seconds of a prefill) where that is less
"""

import json
import os

from .asking import DEVICES, Layout, members
from .passes import ask_pass
from .servings import EXPERTS, SERVED, precision_of

# By the table's name of the device and the requests that are sent at once: the places of a part of a worker for steps, where
# these are fewer than the requests; by device and length: the prompts in a pass of a part of a worker.
PLACES = {("h100_sxm", 6): 1, ("h100_sxm", 9): 2, ("h100_sxm", 30): 8, ("h100_sxm", 60): 16, ("h100_sxm", 154): 64,
          ("b200_sxm", 180): 32, ("b200_sxm", 450): 64, ("b200_sxm", 2192): 128}
PROMPTS = {("h100_sxm", 1024): 2, ("h200_sxm", 8192): 2, ("b200_sxm", 1024): 8}


def worker(item, phase):
    """(workers, sequences of all parts of one, layout)."""
    tensor, whole = item[f"{phase}_tp_size"] or 1, item[f"{phase}_moe_ep_size"] or 1
    stages = item[f"{phase}_pp_size"] or 1
    parts = max(tensor, whole) // tensor
    return item[f"{phase}_num_workers"], item[f"{phase}_batch_size"] * parts, Layout(tensor, stages, parts, whole > 1)


def fitting_step(ask, place, what, places, past):
    """(sequences, their step) of the most sequences, up to PLACES, whose caches fit: the others wait; (0, None): none."""
    found, step, refused = 0, ask_pass(ask, place, *what, (places, 1, past), is_step=True), places
    if step is not None:
        return places, step
    parts = place[2].data
    while refused - found > parts:
        middle = (found + refused) // 2 // parts * parts or parts
        answer = ask_pass(ask, place, *what, (middle, 1, past), is_step=True)
        found, step, refused = (found, step, middle) if answer is None else (middle, answer, refused)
    return found, step


def rate_of(item, ask, where, what, pools):
    """(requests a second, low, high) of the workers, or None; WHERE is (device, runtime), WHAT (model, precision)."""
    prompts, steps = pools
    given, made = item["isl"], item["osl"]
    is_known = item["backend"] == "trtllm"
    together = prompts[1] * (PROMPTS.get((item["system"], given), 1) if is_known else 1)
    flying = steps[0] * steps[1]
    places = PLACES.get((item["system"], flying)) if is_known else None
    places = steps[1] if places is None else min(places * steps[2].data, steps[1])
    passes = [ask_pass(ask, (*where, prompts[2]), *what, (count, given, 0)) for count in (prompts[1], together)]
    places, step = fitting_step(ask, (*where, steps[2]), what, places, given + made // 2)
    if None in passes or step is None:
        return None
    rates = [min(prompts[0] * together / joint, steps[0] * places / ((made - 1) * short), flying / ((made - 1) * short + alone))
             for alone, joint, short in zip(passes[0][0], passes[1][0], step[0])]
    return rates[0], rates[2], rates[1]  # the longest times are the lowest rate


def row_of(item, source, ask, chosen):
    model = SERVED.get(item["model_path"]) or EXPERTS.get(item["model_path"])
    device, precision = DEVICES.get(item["system"]), model and precision_of(model, item)
    if device is None or precision is None or item["decode_batch_size"] is None:
        return None
    name = f"pools {item['backend']} {item['precision'] or 'bf16'} {device}"
    prompts, steps = worker(item, "prefill"), worker(item, "decode")
    given, made = item["isl"], item["osl"]
    if not chosen(name, [model, given, made, *prompts[:2], *steps[:2]]):
        return None
    flying = steps[0] * steps[1]
    answer = rate_of(item, ask, (device, item["backend"]), (model, precision), (prompts, steps))
    measured = flying / (1e-3 * item["silicon_ttft_ms"] + (made - 1) * 1e-3 * item["silicon_tpot_ms"])
    return {"table": name, "source": source, "model": f"{model} {flying}x{given}+{made}", "hardware": device,
            "layout": f"{prompts[0]} x {prompts[2]}, {steps[0]} x {steps[2]}", "measured": measured, **members(answer)}


def all_rows(folder, ask, chosen):
    with open(os.path.join(folder, "serving.json"), encoding="utf-8") as file:
        data = json.load(file)
    items = [dict(zip(data["columns"], values)) for values in data["rows"]]
    rows = [row_of(item, data["source"], ask, chosen) for item in items if item["mode"] != "agg"]
    return [row for row in rows if row is not None]


MATCHED = 0.2


def print_pools(rows):
    """In how many rows the rate is within MATCHED of the measured one."""
    rows = [row for row in rows if row["table"].startswith("pools") and row["predicted"]]
    near = sum(abs(row["predicted"] / row["measured"] - 1) <= MATCHED for row in rows)
    if rows:
        print(f"\nThe rate of workers for prompts and for steps is within {100 * MATCHED:.0f} % in {near} of {len(rows)} "
              "disaggregated rows.")
