#!/usr/bin/env python3
"""What it costs that no worker serves two tenants: processor time and plans per second, with one tenant and with several in turn.

    tenants.py [--tenants 10] [--plans 200] [--nodes 20] [--workers 2] [--rounds 3] [--program FILE]..

Processor time is that of the daemon and of all its workers, those that have ended too. The programs take turns. Prints, and
decides nothing.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, "tests/tools"), os.path.join(TOP, "tests/api")]
sys.dont_write_bytecode = True

import daemon as harness  # noqa: E402
import lacking  # noqa: E402
import onnx_make  # noqa: E402
from test_auth import Tokens  # noqa: E402

CLUSTER = {"device": "a100-sxm4-80gb", "count": 2}


def seconds_of(daemon):
    """Of the daemon, of its children that have ended, and of those that are there."""
    ticks = 0
    for pid, count in [(daemon.process.pid, 4), *((pid, 2) for pid in daemon.workers())]:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:11 + count]))
    return ticks / os.sysconf("SC_CLK_TCK")


def ask(daemon, token, method, path, body):
    headers = {"Cache-Control": "no-cache", **({"Authorization": f"Bearer {token}"} if token else {})}
    answer = daemon.request(method, path, body, headers, check=False)
    if answer.status not in (200, 201, 202):
        raise SystemExit(f"{method} {path}: {answer}")
    return answer.json


def ended(daemon, reason):
    return daemon.metric(f'shardplan_workers_ended_total{{reason="{reason}"}}')


def measure(arguments, program, tenants):
    """Processor milliseconds a plan, plans per second, workers that were replaced for each plan."""
    harness.PROGRAM = program
    with tempfile.TemporaryDirectory(prefix="shardpland-tenants-") as folder:
        tokens = Tokens(folder)
        names = [tokens.add(f"tenant-{number}", "--tenant", f"tenant-{number}") for number in range(tenants)]
        tokens.write()
        daemon = harness.Daemon("--workers", str(arguments.workers), "--tokens", tokens.path)
        daemon.token = tokens.chief
        with daemon:
            model = onnx_make.encode(onnx_make.diamonds(arguments.nodes))
            ids = [ask(daemon, name, "POST", "/v1/models", model)["id"] for name in names]
            before, began, old = seconds_of(daemon), time.monotonic(), ended(daemon, "recycled")
            for number in range(arguments.plans):
                ask(daemon, names[number % tenants], "POST", "/v1/plans", {"model": ids[number % tenants], "cluster": CLUSTER})
            daemon.wait_for(lambda: daemon.metric('shardplan_plans{state="succeeded"}') == arguments.plans, "the last plan", 600)
            took = time.monotonic() - began
            return ((seconds_of(daemon) - before) * 1000 / arguments.plans, arguments.plans / took,
                    (ended(daemon, "recycled") - old) / arguments.plans)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenants", type=int, default=10)
    parser.add_argument("--plans", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", action="append")
    arguments = parser.parse_args()
    programs = arguments.program or [harness.PROGRAM]
    for program in programs:
        lacking.need_built(program)
    print(f"{os.cpu_count()} processors, {arguments.workers} workers, {arguments.plans} plans of {arguments.nodes} nodes")
    cases = [(program, tenants) for tenants in (1, arguments.tenants) for program in programs]
    results = {case: [] for case in cases}
    for _ in range(arguments.rounds):
        for case in cases:
            results[case].append(measure(arguments, *case))
    for (program, tenants), rounds in results.items():
        cost, rate, replaced = (statistics.median(values) for values in zip(*rounds))
        print(f"{tenants:3} tenants: {cost:6.1f} ms of processor a plan, {rate:6.1f} plans/s, {replaced:.2f} workers replaced a plan  {program}")


if __name__ == "__main__":
    lacking.run(main)
