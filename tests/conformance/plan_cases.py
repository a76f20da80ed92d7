#!/usr/bin/env python3
"""What `shardplan inspect` and `shardplan plan` say about real exported models; TAP on standard output.

The graph is read from the files by code of its own (onnx_wire.py), so that the product is not its own witness.
Full-size models and ONNX's own inferred shapes come from ../shared/data where that folder is.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from onnx_wire import Graph

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/tools"))
sys.dont_write_bytecode = True

import recount  # noqa: E402

CLI = os.environ.get("SHARDPLAN", os.path.join(TOP, "build/api/cli/shardplan"))
SHARED = os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(TOP, "../shared/data"))
DEVICE = "a100-sxm4-80gb"
DEEP_REGULAR = ("resnet50", "bert_base", "vit_b_16", "vit_l_16", "swin_t")
ONNX_TYPES = {"1": "float32", "6": "int32", "7": "int64"}

# Published counts per sample, in multiply-adds; the product counts 1 multiply-add = 2 FLOP, so twice that times the
# batch. resnet50 and vit_b_16: torchvision's model pages (4.09 and 17.56 "GFLOPS", one per multiply-add). bert_base:
# 22.5e9 FLOP for 128 tokens at 2 per multiply-add (Jiao et al., TinyBERT, 2020, table 1).
PUBLISHED_FLOPS = {"models/resnet50": 2 * 4.09e9 * 8, "models/vit_b_16": 2 * 17.56e9 * 2, "models/bert_base": 22.5e9 * 8,
                   "resnet50": 2 * 4.09e9 * 8}

# Devices, the part of the memory of one that each has, and how it is asked: stages, blocks, replicas, whole operators
# that are split. Of models that are planned in a moment.
TIGHT = ((4, 0.8, ("--objective", "latency")), (4, 0.45, ("--strategy", "tensor")), (8, 0.25, ()),
         (8, 0.5, ("--objective", "latency", "--replicas", "2")))
NOT_FITTING = 3
SMALL = re.compile("(transformer|bert|moe|unet)_tiny")

failures = 0


def report(name, problems):
    global failures
    if problems:
        failures += 1
        print(f"not ok {name}")
        for problem in problems[:8]:
            print(f"  {problem}")
        if len(problems) > 8:
            print(f"  and {len(problems) - 8} more")
    else:
        print(f"ok {name}")
    sys.stdout.flush()


def shardplan(*arguments):
    done = subprocess.run([CLI, *arguments], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr.strip()


def models():
    folders = (("", os.path.join(TOP, "tests/data")), ("models/", os.path.join(SHARED, "models")),
               ("onnx-light/", os.path.join(SHARED, "onnx-light")))
    for prefix, folder in folders:
        if os.path.isdir(folder):
            for name in sorted(os.listdir(folder)):
                if name.endswith(".onnx"):
                    yield prefix + name[:-5], os.path.join(folder, name)


def reference_shapes():
    """model file -> value -> (dtype, shape), as ONNX's own shape inference has them."""
    path = os.path.join(SHARED, "onnx-light-shapes.tsv")
    result = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                row = line.rstrip("\n").split("\t")
                if row[0] == "MODEL":
                    values = result.setdefault(row[1], {})
                elif row[0] == "V":
                    dims = [int(dim) for dim in row[3].split(",")] if row[3] else []
                    values[row[1]] = (ONNX_TYPES[row[2]], dims)
    return result


def check_inspection(label, path, graph, references):
    status, out, err = shardplan("inspect", path, "--values", "--json")
    if status != 0:
        report(f"inspect: {label}", [f"status {status}: {err}"])
        return
    inspection = json.loads(out)
    values = inspection["values"]
    wanted = set(graph.inputs) | {name for node in graph.nodes for name in node.outputs if name}
    problems = [f"{name}: missing" for name in sorted(wanted - set(values))]
    for name, value in values.items():
        shape = value.get("shape")
        if not value.get("dtype") or not isinstance(shape, list) or any(dim is None for dim in shape):
            problems.append(f"{name}: {value}")
    report(f"every value has its full shape: {label}", problems)

    expected = references.get(os.path.basename(path))
    if expected:
        found = {name: (value["dtype"], value["shape"]) for name, value in values.items()}
        report(f"the shapes are ONNX's own: {label}",
               [f"{name}: {found.get(name)}, not {value}" for name, value in expected.items() if found.get(name) != value])
    if label in PUBLISHED_FLOPS:
        ratio = inspection["flops"] / PUBLISHED_FLOPS[label]
        report(f"the FLOPs are the published ones: {label}",
               [] if abs(ratio - 1) <= 0.02 else [f"{inspection['flops']:.4g} is {ratio:.3f} of the published count"])


def check_stages(graph, plan):
    """Stages never fall along an edge, through nodes without a stage too (what is computed at load): convex."""
    problems, stage_of = [], {}
    used = set()
    for index, node in enumerate(graph.nodes):
        label = f"node {index} {node.op} {node.name}"
        before = max((stage_of.get(name, -1) for name in node.inputs), default=-1)
        if len(node.stages) > 1:
            problems.append(f"{label} has {len(node.stages)} stages")
        stage = node.stages[0] if node.stages else before
        if stage < before:
            problems.append(f"{label} is in stage {stage}, an operand comes from stage {before}")
        if node.stages:
            used.add(stage)
        for name in node.outputs:
            stage_of[name] = stage
    stages = plan["stages"]
    if used != set(range(len(stages))):
        problems.append(f"annotated stages {sorted(used)}, the plan has {len(stages)}")
    by_name = {node.name: node for node in graph.nodes if node.name}
    for stage in stages:
        for name in stage["nodes"]:
            if name in by_name and by_name[name].stages not in ([], [stage["index"]]):
                problems.append(f"{name}: stage {by_name[name].stages} in the model, {stage['index']} in the plan")
    return problems


def check_memory(plan, path):
    """Counted again from the model and the plan's shardings."""
    try:
        recount.check(plan, recount.mapped(path))
        return []
    except recount.Wrong as wrong:
        return [str(wrong)]


def check_plans(label, path, folder):
    throughput = {}
    for count in (1, 2, 4, 8):
        name = f"{label} on {count}"
        annotated, plan_file = os.path.join(folder, "annotated.onnx"), os.path.join(folder, "plan.json")
        for old in (annotated, plan_file):
            if os.path.exists(old):
                os.remove(old)
        status, _, err = shardplan("plan", path, "--device", DEVICE, "--devices", str(count), "--replicas", "1", "-o", annotated,
                                   "--plan", plan_file)
        written = status == 0 and os.path.exists(annotated) and os.path.exists(plan_file)
        report(f"plan: {name}", [] if written else [f"status {status}: {err}"])
        if not written:
            continue
        with open(plan_file, encoding="utf-8") as file:
            plan = json.load(file)
        graph = Graph.of_model(annotated)
        problems = check_stages(graph, plan)
        if not any(node.stages for node in graph.nodes):
            problems.append("no node has a stage")
        report(f"stages are convex: {name}", problems)
        report(f"no device exceeds its memory: {name}", check_memory(plan, path))
        throughput[count] = plan["estimate"]["throughput_per_second"]
    if os.path.basename(label) in DEEP_REGULAR and 1 in throughput and 4 in throughput:
        ratio = throughput[4] / throughput[1]
        report(f"4 devices have 3 times the throughput of 1: {label}", [] if ratio >= 3 else [f"{ratio:.2f} times"])


def check_tight(label, path, folder):
    """With devices that have a part of what one needs the model is split or does not fit; what is claimed to fit does."""
    status, out, err = shardplan("plan", path, "--device", DEVICE, "--devices", "1", "--json")
    if status != 0:
        report(f"plan: {label} on 1", [f"status {status}: {err}"])
        return
    whole = json.loads(out)["devices"][0]["memory"]["total_bytes"]
    cluster, planned, problems = os.path.join(folder, "cluster.json"), 0, []
    for count, share, options in TIGHT:
        with open(cluster, "w", encoding="utf-8") as file:
            json.dump({"groups": [{"count": count, "device": DEVICE}], "memory_limit_bytes": max(1, int(whole * share)),
                       "mesh": [{"name": "far", "size": 2, "bandwidth": 25e9, "latency": 5e-6},
                                {"name": "near", "size": count // 2, "bandwidth": 300e9, "latency": 2e-6}]}, file)
        status, out, err = shardplan("plan", path, "--cluster", cluster, "--json", *options)
        if status == 0:
            planned += 1
            problems += [f"{count} devices, {share} of {whole} bytes, {options}: {problem}"
                         for problem in check_memory(json.loads(out), path)]
        elif status != NOT_FITTING:
            problems.append(f"{count} devices, {share} of {whole} bytes, {options}: status {status}: {err}")
    if planned == 0:
        problems.append("nothing was planned")
    report(f"no device exceeds little memory: {label}", problems)


def check_middle(folder):
    """A uniform stack of 24 layers on 2 devices is cut between layer 12 and 13, give or take one layer."""
    path = os.path.join(TOP, "tests/data/vit_l_16.onnx")
    annotated = os.path.join(folder, "vit.onnx")
    status, _, err = shardplan("plan", path, "--device", DEVICE, "--devices", "2", "--replicas", "1", "-o", annotated)
    if status != 0:
        report("24 layers on 2 devices are cut in the middle", [f"status {status}: {err}"])
        return
    layers = {0: set(), 1: set()}
    for node in Graph.of_model(annotated).nodes:
        if "encoder_layer_" in node.name and node.stages:
            layers[node.stages[0]].add(int(node.name.split("encoder_layer_")[1].split("/")[0]))
    last, first = max(layers[0], default=-1), min(layers[1], default=99)
    fine = last in (10, 11, 12) and first in (last, last + 1)
    report("24 layers on 2 devices are cut in the middle", [] if fine else [f"stage 0 ends in layer {last}, stage 1 begins "
                                                                         f"in layer {first} (of 0..23)"])


def main():
    references = reference_shapes()
    with tempfile.TemporaryDirectory() as folder:
        for label, path in models():
            check_inspection(label, path, Graph.of_model(path), references)
            check_plans(label, path, folder)
            if SMALL.search(label):
                check_tight(label, path, folder)
        check_middle(folder)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
