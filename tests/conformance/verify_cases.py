#!/usr/bin/env python3
"""What `shardplan verify` says of the models of devices of every operator's cases; TAP on standard output.

    verify_cases.py [--program PATH] [--folder FOLDER] [--only OPERATOR] [--every N] [--devices N] [--bound PERCENT]

PATH is the built simulate_cases, which splits the operators; FOLDER holds what it wrote before, else it is called: one of
N ways, and the models of the devices of one of N of these. None may be refuted, as all of them compute what the
original does (simulate_cases.mjs runs them in ONNX Runtime), and of single operators at most PERCENT may be undecided:
a table says of which operators, and why. Models of several nodes are told apart. Inputs that are read as shapes have the
values that the models are made for.
"""

import argparse
import collections
import json
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../tools"))

from wire_fields import fields, integers  # noqa: E402

PROGRAM = os.environ.get("SHARDPLAN", os.path.join(HERE, "../../build/api/cli/shardplan"))
DATA = os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(HERE, "../../../shared/data"))
THOROUGH = bool(os.environ.get("SHARDPLAN_TEST_THOROUGH"))
TARGETS = ("ort", "tensorrt", "sessions")
SEVERAL = "(several nodes)"
MOST_VALUES = 64
INTS = {"int64": 7, "int32": 6}
FORMATS = {7: "q", 6: "i", 1: "f"}


def given_values(path):
    """The extents of a file of one tensor, and its integers (or numbers that may be scales) where they are few."""
    dims, dtype, raw, listed = [], 0, None, []
    with open(path, "rb") as file:
        for number, value in fields(memoryview(file.read())):
            if number == 1:
                dims += integers(value)
            elif number == 2:
                dtype = value
            elif number == 9:
                raw = bytes(value)
            elif number in (5, 7):
                listed += integers(value)
    form = FORMATS.get(dtype)
    if raw is not None and form:
        listed = list(struct.unpack(f"<{len(raw) // struct.calcsize(form)}{form}", raw))
    return dims, dtype, listed


def open_dimensions(path):
    """The names of extents in the model's inputs: {input: [name or None, ..]}; and which inputs are read as sizes."""
    with open(path, "rb") as file:
        model = memoryview(file.read())
    names, sizes = {}, set()
    graph = next(value for number, value in fields(model) if number == 7)
    for number, value in fields(graph):
        if number == 1:
            parts = list(fields(value))
            op = next((bytes(item).decode() for part, item in parts if part == 4), "")
            inputs = [bytes(item).decode() for part, item in parts if part == 1]
            sizes |= set(inputs[1:] if op in ("Resize", "Upsample") else inputs[1:2] if op == "OneHot" else [])
        if number != 11:
            continue
        name, dims = "", []
        for part, item in fields(value):
            if part == 1:
                name = bytes(item).decode()
            elif part == 2:
                shape = [shape for kind, tensor in fields(item) if kind == 1 for field, shape in fields(tensor) if field == 2]
                for field, dim in fields(shape[0]) if shape else ():
                    dims.append(next((bytes(text).decode() for kind, text in fields(dim) if kind == 2), None))
        names[name] = dims
    return names, sizes


def options_for(line):
    """--dim and --value for what the case feeds."""
    names, sizes = open_dimensions(line["original"])
    options = []
    fed = {name: (feed["dims"], None, []) for name, feed in line.get("feeds", {}).items()}
    fed.update({name: given_values(path) for name, path in zip(line.get("inputNames", ()), line.get("inputs", ()))})
    for name, (dims, dtype, values) in fed.items():
        for extent, symbol in zip(dims, names.get(name, ())):
            if symbol and f"{symbol}={extent}" not in options:
                options += ["--dim", f"{symbol}={extent}"]
        is_size = dtype in INTS.values() or (dtype == 1 and name in sizes)
        if is_size and 0 < len(values) <= MOST_VALUES and len(dims) <= 1:
            options += ["--value", f"{name}={values[0] if not dims else json.dumps(values)}"]
    return options


def verify(job):
    line, target, path = job
    with open(path, encoding="utf-8") as file:
        manifest = json.load(file)
    for device in manifest.get("devices", ()):
        for part in device["parts"]:
            part["model"] = f"{os.path.basename(line['model'])}.{target}.{part['model']}"
    with open(path + ".own", "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    done = subprocess.run([PROGRAM, "verify", line["original"], "--manifest", path + ".own", *options_for(line), "--json"],
                          capture_output=True, text=True, timeout=300, check=False)
    os.unlink(path + ".own")
    answer = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    if "verdict" not in answer:
        return line, target, "failed", answer.get("error", {}).get("message") or done.stderr.strip()[:200]
    failures = answer["failures"]
    return line, target, answer["verdict"], failures[0]["message"] if failures else ""


def read_jobs(folder, only):
    jobs = []
    with open(os.path.join(folder, "list.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if line.endswith("}\n")]
    for line in lines:
        if not line.get("cuts") or line.get("failure") or (only and only != line["op"].rsplit(".", 1)[-1]):
            continue
        for target in TARGETS:
            path = f"{line['model']}.{target}.json"
            if os.path.exists(path) and os.path.getsize(path) > 0:
                with open(path, encoding="utf-8") as file:
                    if json.load(file).get("devices"):
                        jobs.append((line, target, path))
    return jobs


def report(results, bound):
    """Lines of TAP, and the table behind them; how many failed."""
    groups = {"single operators": [r for r in results if r[0]["op"] != SEVERAL],
              "models of several nodes": [r for r in results if r[0]["op"] == SEVERAL]}
    failed = 0
    for name, rows in groups.items():
        count = collections.Counter(verdict for _, _, verdict, _ in rows)
        open_share = 100 * (count["undecided"] + count["failed"]) / max(1, len(rows))
        is_fine = count["refuted"] == 0 and (name != "single operators" or open_share <= bound)
        failed += not is_fine
        print(f"{'ok' if is_fine else 'not ok'} verify: {len(rows)} devices' models of {name}: {count['proved']} proved, "
              f"{count['undecided'] + count['failed']} undecided ({open_share:.1f} %), {count['refuted']} refuted")
        table = collections.defaultdict(list)
        for line, target, verdict, why in rows:
            if verdict != "proved":
                table[line["op"], "refuted" if verdict == "refuted" else "undecided", why].append(f"{line['name']} {target}")
        for (op, verdict, why), cases in sorted(table.items(), key=lambda item: (-len(item[1]), item[0])):
            print(f"# {len(cases):4} {verdict} {op}: {why} ({cases[0]})")
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=os.path.join(HERE, "../../build/sanitized/tests/conformance/simulate_cases"))
    parser.add_argument("--folder")
    parser.add_argument("--only")
    parser.add_argument("--every", default="1" if THOROUGH else "24")
    parser.add_argument("--devices", default="1" if THOROUGH else "5")
    parser.add_argument("--bound", type=float, default=5 if THOROUGH else 9)  # a sample has more of the rare operators
    asked = parser.parse_args()
    archive = os.path.join(DATA, "onnx-backend-tests.tar.gz")
    if not os.path.exists(archive):
        print(f"ok verify_cases # SKIP {archive} is not there")
        return 0
    with tempfile.TemporaryDirectory(prefix="shardplan-verify-") as own:
        if asked.folder is None:
            with tarfile.open(archive) as tar:
                tar.extractall(own, filter="data")
            only = ["--only", asked.only] if asked.only else []
            subprocess.run([asked.program, own, "--every", asked.every, "--shares", asked.every, "--devices", asked.devices,
                            "--targets", "turn", *only], stdout=subprocess.DEVNULL, check=True)
        jobs = read_jobs(asked.folder or own, asked.only)
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(verify, jobs))
    if not results:
        print("not ok verify: no models of devices are there")
        return 1
    return 1 if report(results, asked.bound) else 0


if __name__ == "__main__":
    sys.exit(main())
