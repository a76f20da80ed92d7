"""Disaggregated rows of serving.json: the requests a second of workers for prompts and of workers for steps.

The table has the batch of one worker, of layouts with data parallelism of one of its parts. In flight are as many requests
as the steps' workers have places for. Measured is what these make of the published times: C / (TTFT + (L - 1) TPOT). We
predict what both pools can do by themselves, and of both the smaller (core/service/pools.h):

    prompts   workers x batch / seconds of the prefill
    steps     C / ((L - 1) x seconds of a step + seconds of a prefill)
"""

import json
import os

from .asking import DEVICES, Layout, members
from .passes import ask_pass
from .servings import EXPERTS, SERVED, precision_of


def worker(item, phase):
    """(workers, sequences of all parts of one, layout)."""
    tensor, whole = item[f"{phase}_tp_size"] or 1, item[f"{phase}_moe_ep_size"] or 1
    stages = item[f"{phase}_pp_size"] or 1
    parts = max(tensor, whole) // tensor
    return item[f"{phase}_num_workers"], item[f"{phase}_batch_size"] * parts, Layout(tensor, stages, parts, whole > 1)


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
    prefill = ask_pass(ask, (device, item["backend"], prompts[2]), model, precision, (prompts[1], given, 0))
    step = ask_pass(ask, (device, item["backend"], steps[2]), model, precision,
                    (steps[1], 1, given + made // 2), is_step=True)
    flying = steps[0] * steps[1]
    measured = flying / (1e-3 * item["silicon_ttft_ms"] + (made - 1) * 1e-3 * item["silicon_tpot_ms"])
    answer = None
    if prefill is not None and step is not None:
        rates = [min(prompts[0] * prompts[1] / long, flying / ((made - 1) * short + long))
                 for long, short in zip(prefill[0], step[0])]
        answer = (rates[0], rates[2], rates[1])  # the longest times are the lowest rate
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
