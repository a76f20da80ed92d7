#!/usr/bin/env python3
"""Shardy's published cases of propagation and of explicit reshards as ONNX models, completed; TAP on standard output.

Each function that ONNX's operators can say becomes a model (shardy_model.py). All shardings that the case gives are set, on
arguments, on values and on results, whatever contradicts there.
`infer` completes them in both modes, `check` must find no error in what is written, and the communications that both tell
must be as many as the nodes of collectives in the exported model of a device.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from shardy_model import Model, Unsayable, load

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLI = os.environ.get("SHARDPLAN", os.path.join(TOP, "build/api/cli/shardplan"))
SHARED = os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(TOP, "../shared/data"))
COMMUNICATION = ("RESHARD", "OUTPUT_RESHARD", "REDUCTION", "GATHER", "HALO_EXCHANGE")
# The wire form of a node's op_type: field 4, its length, the name.
COLLECTIVE = re.compile(rb"\x22(?:\x09AllReduce|\x09AllGather|\x08AllToAll)")
MODES = ("propagate", "forward")
THOROUGH = bool(os.environ.get("SHARDPLAN_TEST_THOROUGH"))  # both modes of each case; else in turn
MOST_DEVICES = 64 if THOROUGH else 16  # models of more are not exported: each holds what all devices exchange


def run(*arguments):
    return subprocess.run([CLI, *arguments], capture_output=True, text=True, timeout=300)


def complete(model, mode, folder):
    """What is wrong, or None; how many communications."""
    options, devices = model.options()
    source, out, exported = (os.path.join(folder, name) for name in ("model.json", "out.onnx", "devices"))
    with open(source, "w", encoding="utf-8") as file:
        file.write(model.text())
    done = run("infer", source, "--mode", mode, *options, "-o", out, "--json")
    if done.returncode != 0:
        return f"infer ends with {done.returncode}: {done.stderr.strip()[:500]}", 0
    told = json.loads(done.stdout)["communication"]
    check = json.loads(run("check", out, "--json").stdout)
    errors = [one for one in check["diagnostics"] if one["severity"] == "error"]
    if errors:
        return f"check: {errors[0]['code']}: {errors[0]['message'][:400]}", 0
    found = sum(one["code"] in COMMUNICATION for one in check["diagnostics"])
    if found != len(told):
        return f"check tells {found} communications, infer {len(told)}", 0
    if devices > MOST_DEVICES:
        return None, len(told)
    shutil.rmtree(exported, ignore_errors=True)
    done = run("export", out, "--format", "ort-collectives", "-o", exported)
    if done.returncode != 0:
        return f"export ends with {done.returncode}: {done.stderr.strip()[:300]}", 0
    models = [name for name in os.listdir(exported) if name.endswith(".onnx")]
    counts = {}
    for name in models:
        with open(os.path.join(exported, name), "rb") as file:
            device = name.split(".")[0]
            counts[device] = counts.get(device, 0) + len(COLLECTIVE.findall(file.read()))
    sent = sum(one["steps"] == "send-receive" for one in told)
    most = max(counts.values(), default=0)
    if not len(told) - sent <= most <= len(told):
        return f"{most} collectives in an exported model, not {[(one['steps'], one['tensor']) for one in told]}", 0
    return None, len(told)


def main():
    failed = compared = skipped = communications = number = 0
    for name in ("sdy_propagation_cases.json", "sdy_explicit_reshard_cases.json"):
        path = os.path.join(SHARED, name)
        if not os.path.exists(path):
            print(f"ok {number + 1} # SKIP {path} is not there")
            number += 1
            continue
        for case in load(path):
            if case.get("kind", "graph") != "graph":
                continue
            number += 1
            try:
                model = Model(case)
                model.options()
            except Unsayable as why:
                print(f"ok {number} {case['name']} # SKIP ONNX cannot say it: {why}")
                skipped += 1
                continue
            with tempfile.TemporaryDirectory() as folder:
                problem = None
                # Meshes that one mesh does not explain are for the pass that needs none.
                modes = MODES if THOROUGH else MODES[number % 2:][:1]
                for mode in modes if len(model.meshes) == 1 else MODES[1:]:
                    problem, count = complete(model, mode, folder)
                    communications += count
                    compared += problem is None
                    failed += problem is not None
                    if problem:
                        print(f"not ok {number} {case['name']} ({mode}): {problem}")
                    if not problem:
                        print(f"ok {number} {case['name']} ({mode})")
            sys.stdout.flush()
    print(f"1..{number}\n# shardy_completions: {compared} completions check clean, with {communications} communications; "
          f"{skipped} cases that ONNX cannot say; {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
