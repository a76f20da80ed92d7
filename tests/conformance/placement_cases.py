#!/usr/bin/env python3
"""The device placement workloads of Tarnawski et al. (NeurIPS 2020); TAP on standard output.

Contiguous stages are proved optima of the authors' dynamic program, and must be equal to them and proved here, too. Any
sets of nodes and single-sample latency have no proved values: the result must hold by the data's own checker, be no
better than the bound, and no worse than what the authors' simpler methods found. Needs ../shared/data.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(TOP, "../shared/data"))
DATA = os.path.join(SHARED, "dnn-partitioning")
PROGRAM = os.environ.get("BENCH_PLACEMENT", os.path.join(TOP, "build/sanitized/tests/bench/bench_placement"))
CLOSE = 1e-4  # relative; the published values have six digits

failures = 0


def report(name, problems):
    global failures
    print(f"{'not ok' if problems else 'ok'} placement/{name}")
    for problem in problems:
        print(f"  {problem}")
    failures += bool(problems)


def solve(kind, instance, split, *options):
    """What the program printed, and what the checker says of its split."""
    text = subprocess.run([PROGRAM, kind, instance, "-o", split, *options], check=True, capture_output=True,
                          text=True).stdout
    found = re.search(r"value ([\d.]+), bound ([\d.]+), gap \S+ %, (not proved|proved)", text)
    if not found:
        raise ValueError(text.strip())
    checked = subprocess.run([sys.executable, os.path.join(DATA, "check.py"), kind, instance, split], check=True,
                             capture_output=True, text=True).stdout
    return float(found[1]), float(found[2]), found[3] == "proved", json.loads(checked)


def differs(a, b):
    return abs(a - b) > CLOSE * max(abs(a), abs(b))


def common_problems(value, bound, checked, measure):
    problems = []
    if not checked.get("feasible"):
        problems.append(f"the checker says {checked.get('error', checked.get('errors'))}")
    elif differs(checked[measure], value):
        problems.append(f"the checker says {checked[measure]}, not {value}")
    if bound > value * (1 + CLOSE):
        problems.append(f"the bound {bound} is above the value {value}")
    return problems


def contiguous(name, expected, split):
    value, bound, proved, checked = solve("throughput", os.path.join(DATA, f"throughput-{name}.json"), split)
    problems = common_problems(value, bound, checked, "max_load")
    problems += [f"{flag} is false" for flag in ("contiguous_fw", "acyclic_fw", "contiguous_bw", "acyclic_bw")
                 if not checked.get(flag, True)]
    if differs(value, expected["contiguous_optimum"]):
        problems.append(f"{value} instead of the optimum {expected['contiguous_optimum']}")
    if not proved:
        problems.append(f"not proved: bound {bound}")
    report(f"contiguous/{name}", problems)


def any_sets(name, expected, split):
    value, bound, _, checked = solve("throughput", os.path.join(DATA, f"throughput-{name}.json"), split,
                                     "--non-contiguous", "--work", "100000000")
    problems = common_problems(value, bound, checked, "max_load")
    best = min([expected["contiguous_optimum"], expected["scotch"]])
    if value > best * (1 + CLOSE):
        problems.append(f"{value} is worse than {best}, which is known")
    report(f"any-sets/{name}", problems)


def latency(name, expected, split):
    value, bound, _, checked = solve("latency", os.path.join(DATA, f"latency-{name}.json"), split,
                                     "--work", "600000000")
    problems = common_problems(value, bound, checked, "latency")
    best = expected["greedy"]  # of the authors' methods the one that is made for latency
    if value > best * (1 + CLOSE):
        problems.append(f"{value} is worse than {best}, which is known")
    report(f"latency/{name}", problems)


def main():
    if not os.path.exists(os.path.join(DATA, "expected.json")):
        print("ok placement # SKIP no ../shared/data")
        return 0
    with open(os.path.join(DATA, "expected.json"), encoding="utf-8") as file:
        expected = json.load(file)
    with tempfile.TemporaryDirectory() as folder:
        split = os.path.join(folder, "split.json")
        for test, kind in ((contiguous, "throughput"), (any_sets, "throughput"), (latency, "latency")):
            for name, values in expected[kind].items():
                try:
                    test(name, values, split)
                except (subprocess.CalledProcessError, ValueError) as error:
                    report(f"{test.__name__}/{name}", [str(error), getattr(error, "stderr", "")[-2000:]])
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
