#!/usr/bin/env python3
"""Plans many models on several clusters with every objective and strategy; compares two such tables, or checks one.

    strategies.py --out FILE.json [--program PATH] [--jobs N] [--only REGEX] [--timeout S] [--inputs DIR]
                  [--like FILE.json]
    strategies.py --compare BEFORE.json AFTER.json
    strategies.py --consistent FILE.json

--out runs `shardplan plan` for every row MODEL/CLUSTER/OBJECTIVE/STRATEGY (--only searches these names) and records the
exit status, the value of the objective, latency, interval, memory of the fullest device, stages and seconds. Compare
user CPU time: wall time is noisy. Models and clusters stay in --inputs, so each row's command can be repeated. All rows
take about 5 minutes of one core.

Clusters: `equal`, 8 equal devices; `tight`, 4 devices, each with 0.45 to 0.75 of what the model needs on one;
`generations`, 2 new devices and 4 old ones; `mesh`, 2 nodes of 4. Small models get slower devices; on fast ones only
launches would count. --like takes the memory of `tight` from an earlier table, in case the builds count it differently.

--compare lists the rows that became worse or better by more than 0.1 %, were refused or newly planned, and the seconds.
--consistent lists contradictions within one table:

    auto       auto is refused where another strategy finds a plan, or is worse than it
    pipeline   the same, for pipeline and a plan of grouping whose stages have one device each
    objective  the same, for a strategy and its own plan for another objective
    broken     exit status 4, a signal, or a timeout

The models are those of ../shared/data (or SHARDPLAN_TEST_DATA) and of models.py. Nothing is asserted.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DATA = os.path.normpath(os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(ROOT, "..", "shared", "data")))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import models  # noqa: E402

OBJECTIVES = {"latency": "latency_seconds", "throughput": "throughput_per_second", "devices": "devices_used"}
STRATEGIES = ("auto", "grouping", "pipeline", "tensor")
TOLERANCE = 0.001
TIGHT_COUNT = 4
BROKEN = 4  # exit status of an internal failure

# Name, source (a file below DATA, or arguments of models.py), kind of devices, dimensions, and the share of its memory
# on one device that each device of `tight` has: 0.45, or 4/3 or 5/3 of that where whole operators fit only then. For
# some models only split operators fit. llama_tiny_dyn has a table of 64 positions.
MODELS = (
    ("bert_base", "models/bert_base.onnx", "server", {}, 0.45),
    ("resnet50", "models/resnet50.onnx", "server", {}, 0.6),
    ("swin_t", "models/swin_t.onnx", "server", {}, 0.6),
    ("vit_b_16", "models/vit_b_16.onnx", "server", {}, 0.45),
    ("bert_tiny", "models/bert_tiny.onnx", "edge", {}, 0.6),
    ("gpt2_tiny", "models/gpt2_tiny.onnx", "edge", {}, 0.45),
    ("llama_tiny", "models/llama_tiny.onnx", "edge", {}, 0.6),
    ("llama_tiny_dyn", "models/llama_tiny_dyn.onnx", "edge", {"batch": 8, "seq": 64}, 0.45),
    ("lstm_tiny", "models/lstm_tiny.onnx", "edge", {}, 0.75),
    ("moe_tiny", "models/moe_tiny.onnx", "edge", {}, 0.6),
    ("unet_tiny", "models/unet_tiny.onnx", "edge", {}, 0.75),
    ("alexnet", "onnx-light/light_bvlc_alexnet.onnx", "server", {}, 0.75),
    ("densenet121", "onnx-light/light_densenet121.onnx", "server", {}, 0.45),
    ("shufflenet", "onnx-light/light_shufflenet.onnx", "edge", {}, 0.45),
    ("squeezenet", "onnx-light/light_squeezenet.onnx", "edge", {}, 0.6),
    ("gpt2_megatron", "real/008-gpt2_megatron.onnx", "edge", {"batch_size": 8, "seq_len": 32, "past_seq_len": 32},
     0.75),
    ("random_decoder", "real/010-random_decoder.onnx", "edge", {"batch": 8, "target_tokens": 8, "source_tokens": 32},
     0.45),
    ("image_classifier32", "real/082-image_classifier32.onnx", "edge", {"batch_size": 16}, 0.45),
    ("nmp", "real/084-nmp.onnx", "edge", {"unk__749": 8}, 0.45),
    ("gpt2_past", "real/087-past.onnx", "edge",
     {"batch_size": 8, "seq_len": 32, "past_seq_len": 32, "total_seq_len": 64}, 0.6),
    ("mobilenet_v3", ("--model", "mobilenet-v3", "--dtype", "float32", "--batch", "8"), "server", {}, 0.45),
    ("mixtral_4", ("--model", "mixtral-8x7b", "--style", "fused", "--layers", "4", "--dtype", "float16", "--sequence",
                   "1024"), "server", {}, 0.45),
    ("irregular_300", ("--model", "irregular", "--nodes", "300", "--dtype", "float32", "--batch", "8", "--sequence",
                       "128"), "server", {}, 0.6),
)

EDGE = {"name": "edge", "memory_bytes": 8e9, "memory_bandwidth": 60e9, "flops": {"float32": 1e12, "float16": 4e12}}
OLD_EDGE = {"name": "old-edge", "memory_bytes": 4e9, "memory_bandwidth": 25e9,
            "flops": {"float32": 4e11, "float16": 1e12}}
# Devices new and old; links (bandwidth, latency) in a node, between nodes, in a mixed cluster; the rest of a cluster.
KINDS = {
    "server": {"new": "a100-sxm4-80gb", "old": "v100-sxm2-32gb", "inner": (300e9, 1.9e-6), "outer": (25e9, 4e-6),
               "mixed": (25e9, 5e-6), "more": {}},
    "edge": {"new": EDGE, "old": OLD_EDGE, "inner": (4e9, 2e-6), "outer": (1e9, 10e-6), "mixed": (2e9, 5e-6),
             "more": {"launch_seconds": 1e-6}},
}
# Fixed tight clusters. On this one a 25.7 MB tensor and its copy are alive together in every plan of whole operators.
OWN_TIGHT = {
    "mobilenet_v3": {"count": 4, "device": {"name": "small", "memory_bytes": 60e6, "memory_bandwidth": 900e9,
                                            "flops": {"float32": 40e12}, "link_bandwidth": 50e9}},
}


def stop(message):
    print(f"strategies.py: {message}", file=sys.stderr)
    sys.exit(2)


# ---- what is planned ----


def level(name, size, link):
    return {"name": name, "size": size, "bandwidth": link[0], "latency": link[1]}


def cluster(groups, mesh, more):
    return {"groups": [{"name": f"group{i}", "count": count, "device": device}
                       for i, (count, device) in enumerate(groups)], "mesh": mesh, **more}


def clusters(model, kind, tight_bytes):
    """Clusters by name; without `tight` if its bytes are None."""
    new, old, more = (KINDS[kind][key] for key in ("new", "old", "more"))
    inner, outer, mixed = (KINDS[kind][key] for key in ("inner", "outer", "mixed"))
    result = {"equal": cluster([(8, new)], [level("gpu", 8, inner)], more),
              "generations": cluster([(2, new), (4, old)], [level("gpu", 6, mixed)], more),
              "mesh": cluster([(8, new)], [level("node", 2, outer), level("gpu", 4, inner)], more)}
    if model in OWN_TIGHT:
        result["tight"] = OWN_TIGHT[model]
    elif tight_bytes is not None:
        result["tight"] = cluster([(TIGHT_COUNT, new)], [level("gpu", TIGHT_COUNT, inner)],
                                  {**more, "memory_limit_bytes": tight_bytes})
    return result


def write_json(path, value):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


class Run:
    """Runs the program, several at a time; stop() kills all that run."""

    def __init__(self, program, inputs, timeout):
        self.program, self.inputs, self.timeout = program, inputs, timeout
        self.lock, self.children, self.is_stopped = threading.Lock(), set(), False
        # The best plan that is found, not one that is nearly as good. Builds that know no tolerance always give that.
        told = subprocess.run([program, "plan", "--help"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self.exactly = ["--tolerance", "0"] if b"--tolerance" in told.stdout else []

    def stop(self):
        self.is_stopped = True  # first: start() looks at it after it has added a child
        for child in list(self.children):
            child.kill()

    def start(self, command):
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.children.add(child)
        if self.is_stopped:
            child.kill()
        return child

    def execute(self, command):
        """Exit status (None: it did not end in time; negative: a signal), wall and user seconds, standard error."""
        began = time.monotonic()
        child = self.start(command)
        late = threading.Event()
        timer = threading.Timer(self.timeout, lambda: (late.set(), child.kill()))
        timer.start()
        said = child.stderr.read().decode("utf-8", "replace")
        _, status, usage = os.wait4(child.pid, 0)
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        child.stderr.close()
        self.children.discard(child)
        late_status = None if late.is_set() else child.returncode
        return late_status, time.monotonic() - began, usage.ru_utime, said

    def plan(self, name, arguments):
        """Figures of one plan."""
        path = os.path.join(self.inputs, "plans", name.replace("/", "-") + ".json")
        command = [self.program, "plan", *arguments]
        if self.is_stopped:
            return {"status": None}
        status, wall, user, said = self.execute([*command, "--plan", path])
        figures = {"status": status, "wall_seconds": round(wall, 4), "user_seconds": round(user, 4),
                   "command": shlex.join(command)}
        if status == 0:
            with open(path, encoding="utf-8") as file:
                figures.update(read_plan(json.load(file)))
            os.remove(path)
        else:
            lines = [line for line in said.splitlines() if "note:" not in line]
            figures["error"] = lines[0].removeprefix("shardplan: ") if lines else ""
        return figures

    def whole_bytes(self, name, arguments, kind):
        """The memory that the model needs on one device."""
        path = os.path.join(self.inputs, f"huge-{kind}.json")
        write_json(path, {"count": 1, "device": {**EDGE, "memory_bytes": 1e15}, **KINDS[kind]["more"]})
        figures = self.plan(name + "-whole", [*arguments, "--cluster", path])
        if figures["status"] != 0 and not self.is_stopped:
            print(f"# {name} has no plan on one device: {figures.get('error')}", file=sys.stderr)
        return figures.get("fullest_bytes")


def read_plan(plan):
    estimate = plan["estimate"]
    return {"latency_seconds": estimate["latency_seconds"], "interval_seconds": estimate["interval_seconds"],
            "throughput_per_second": estimate["throughput_per_second"], "devices_used": estimate["devices_used"],
            "fullest_bytes": max(device["memory"]["total_bytes"] for device in plan["devices"]),
            "stages": len(plan["stages"]), "stage_devices": [len(stage["devices"]) for stage in plan["stages"]],
            "search_seconds": round(plan["search"]["seconds"], 4)}


def model_arguments(name, source, dims, inputs):
    """The model on the command line; writes JSON graphs."""
    if isinstance(source, str):
        path = os.path.join(DATA, source)
        if not os.path.exists(path):
            stop(f"Model {path} not found; set SHARDPLAN_TEST_DATA to the folder of the test data.")
    else:
        path = os.path.join(inputs, name + ".json")
        models.main([*source, "-o", path])
    return [path, *(text for dim, size in dims.items() for text in ("--dim", f"{dim}={size}"))]


def make_rows(run, only, like):
    """(name, arguments) of every row, and the device memory of `tight` for each model."""
    rows, memory = [], {}
    for name, source, kind, dims, share in MODELS:
        wanted = [f"{name}/{place}/{objective}/{strategy}" for place in ("equal", "tight", "generations", "mesh")
                  for objective in OBJECTIVES for strategy in STRATEGIES]
        wanted = [row for row in wanted if only.search(row)]
        if not wanted:
            continue
        arguments = model_arguments(name, source, dims, run.inputs)
        if name in like:
            memory[name] = like[name]
        elif name not in OWN_TIGHT and any("/tight/" in row for row in wanted):
            whole = run.whole_bytes(name, arguments, kind)
            memory[name] = int(share * whole) if whole else None
        places = clusters(name, kind, memory.get(name))
        for place, described in places.items():
            write_json(os.path.join(run.inputs, f"{name}-{place}.json"), described)
        for row in wanted:
            _, place, objective, strategy = row.split("/")
            if place in places:
                rows.append((row, [*arguments, "--cluster", os.path.join(run.inputs, f"{name}-{place}.json"),
                                   "--objective", objective, "--strategy", strategy, *run.exactly]))
    return rows, memory


def finish(row, figures):
    model, place, objective, strategy = row.split("/")
    value = figures.get(OBJECTIVES[objective])
    return {"row": row, "model": model, "cluster": place, "objective": objective, "strategy": strategy, "value": value,
            **figures}


def make_table(options):
    if not os.access(options.program, os.X_OK):
        stop(f"Program {options.program} not found; build it (meson setup build && ninja -C build) or use --program.")
    if not os.path.isdir(DATA):
        stop(f"Test data not found in {DATA}; set SHARDPLAN_TEST_DATA to their folder.")
    if not os.path.isdir(os.path.dirname(os.path.abspath(options.out))):
        stop(f"{options.out} cannot be written: its folder does not exist.")
    os.makedirs(os.path.join(options.inputs, "plans"), exist_ok=True)
    run = Run(os.path.abspath(options.program), os.path.abspath(options.inputs), options.timeout)

    def end(number, _):
        run.stop()
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    rows, memory = make_rows(run, options.only, load(options.like)["memory"] if options.like else {})
    if not rows:
        stop(f"No row matches '{options.only.pattern}'.")
    done = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(run.plan, row, arguments): row for row, arguments in rows}
        for future in concurrent.futures.as_completed(futures):
            done[futures[future]] = finish(futures[future], future.result())
            if len(done) % 100 == 0:
                print(f"# {len(done)} of {len(rows)} rows", file=sys.stderr, flush=True)
    table = [done[row] for row, _ in rows]
    write_json(options.out, {"memory": memory, "rows": table})
    made = sum(row["status"] == 0 for row in table)
    print(f"{len(table)} rows, {made} plans, {total(table, 'user_seconds'):.1f} s of user CPU time, "
          f"{total(table, 'wall_seconds'):.1f} s of wall time")


# ---- what a table says ----


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        stop(f"Cannot read the table {path}: {error}")


def total(rows, figure):
    return sum(row.get(figure) or 0 for row in rows)


def is_made(row):
    return row["status"] == 0


def loss(value, other, objective):
    """How much worse the value is than the other: 0.02 is 2 % worse, negative is better."""
    if objective == "throughput":
        value, other = other, value
    return value / other - 1 if other > 0 else float(value > 0)


def short(value, objective):
    if objective == "devices":
        return f"{value} device{'s' * (value != 1)}"
    return f"{value:.6g}/s" if objective == "throughput" else f"{1e6 * value:.2f} us"


def describe(row, objective=None):
    """A row's plan in a few words, with its value for its own objective or another."""
    if not is_made(row):
        status = row["status"]
        how = "did not end" if status is None else f"signal {-status}" if status < 0 else f"status {status}"
        return f"{how}: {row.get('error', '')[:160]}"
    objective = objective or row["objective"]
    sizes = "+".join(map(str, row["stage_devices"]))
    return f"{short(row[OBJECTIVES[objective]], objective)} (stages of {sizes})"


def section(title, lines):
    print(f"{title}: {len(lines)}")
    for line in lines:
        print(f"  {line}")
    print()


def compare(before, after):
    old, new = ({row["row"]: row for row in table["rows"]} for table in (before, after))
    both = [name for name in old if name in new]
    moved = sorted(name for name in before["memory"] if after["memory"].get(name) not in (None, before["memory"][name]))
    found = {"worse": [], "refused": [], "new": [], "better": []}
    for name in both:
        one, two = old[name], new[name]
        if not is_made(two):
            if is_made(one):
                found["refused"].append((0, f"{name}: {describe(one)}, now {describe(two)}"))
            continue
        if not is_made(one):
            found["new"].append((0, f"{name}: {describe(two)}, was {describe(one)}"))
            continue
        lost = loss(two["value"], one["value"], one["objective"])
        if abs(lost) > TOLERANCE:
            found["worse" if lost > 0 else "better"].append(
                (-abs(lost), f"{name}: {100 * lost:+.2f} % ({describe(one)}, now {describe(two)})"))
    for key, title in (("worse", "Worse by more than 0.1 %"), ("refused", "Refused, planned before"),
                       ("new", "Newly planned"), ("better", "Better by more than 0.1 %")):
        section(title, [line for _, line in sorted(found[key], key=lambda item: item[0])])
    if moved:
        section("Not comparable in 'tight': its devices have other memory (--like keeps it)", moved)
    print(f"{len(both)} rows in both, {len(old) - len(both)} only before, {len(new) - len(both)} only after")
    for strategy in (*STRATEGIES, "all"):
        sides = [[rows[name] for name in both if strategy in ("all", rows[name]["strategy"])] for rows in (old, new)]
        times = (f"{what} {total(sides[0], figure):7.1f} s -> {total(sides[1], figure):7.1f} s" for what, figure in
                 (("user CPU", "user_seconds"), ("wall", "wall_seconds"), ("search of plans", "search_seconds")))
        print(f"{strategy:9} {', '.join(times)}")


class Findings:
    def __init__(self):
        self.kinds = {"auto": [], "pipeline": [], "objective": [], "broken": []}

    def challenge(self, kind, row, others):
        """Notes the row if one of the others is better for its objective, with the best of them."""
        objective = row["objective"]
        others = [other for other in others if other and is_made(other)]
        if not others:
            return
        best = min(others, key=lambda other: loss(other[OBJECTIVES[objective]], 1, objective))
        lost = loss(row["value"], best[OBJECTIVES[objective]], objective) if is_made(row) else None
        if lost is None or lost > TOLERANCE:
            how = "refused" if lost is None else f"{100 * lost:+.2f} %"
            text = f"{row['row']}: {how}: {describe(row)}; {best['objective']}/{best['strategy']} has " \
                   f"{describe(best, objective)}"
            self.kinds[kind].append((lost or 0, text, (row, best)))

    def show(self):
        for kind, items in self.kinds.items():
            refused = sum(lost == 0 for lost, _, _ in items)
            print(f"{kind}: {len(items)}" + (f", {refused} of them refused" if refused and kind != "broken" else ""))
        for kind, items in self.kinds.items():
            if items:
                print(f"\n{kind}")
            for _, text, rows in sorted(items, key=lambda item: (item[0] > 0, -item[0])):
                print(f"  {text}")
                for row in rows:
                    print(f"      {row['command']}")


def consistent(table):
    by_name = {row["row"]: row for row in table["rows"]}
    found = Findings()
    for row in table["rows"]:
        model, place, objective, strategy = row["row"].split("/")

        others = [by_name.get(f"{model}/{place}/{objective}/{name}") for name in STRATEGIES if name != strategy]
        if strategy == "auto":
            found.challenge("auto", row, others)
        grouping = by_name.get(f"{model}/{place}/{objective}/grouping")
        if strategy == "pipeline" and grouping and set(grouping.get("stage_devices", ())) == {1}:
            found.challenge("pipeline", row, [grouping])
        found.challenge("objective", row, [by_name.get(f"{model}/{place}/{name}/{strategy}") for name in OBJECTIVES
                                           if name != objective])
        if row["status"] is None or row["status"] < 0 or row["status"] == BROKEN:
            found.kinds["broken"].append((0, f"{row['row']}: {describe(row)}", (row,)))
    found.show()
    rows = table["rows"]
    print(f"\n{len(rows)} rows, {sum(map(is_made, rows))} plans, {total(rows, 'user_seconds'):.1f} s of user CPU time, "
          f"{total(rows, 'wall_seconds'):.1f} s of wall time")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", metavar="FILE")
    what.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"))
    what.add_argument("--consistent", metavar="FILE")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "api", "cli", "shardplan"))
    parser.add_argument("--inputs", default=os.path.join(ROOT, "build", "strategies"))
    parser.add_argument("--jobs", type=models.positive, default=1)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--timeout", type=float, default=120, help="seconds of one plan")
    parser.add_argument("--like", metavar="FILE", help="an earlier table: memory of the tight devices as there")
    return parser.parse_args()


def main():
    options = parse()
    if options.compare:
        compare(*map(load, options.compare))
    elif options.consistent:
        consistent(load(options.consistent))
    else:
        make_table(options)


if __name__ == "__main__":
    main()
