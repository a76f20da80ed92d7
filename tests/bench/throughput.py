#!/usr/bin/env python3
"""How many plans per second a service finishes, with more workers and with more daemons; prints, and decides nothing.

    throughput.py [--plans 60] [--nodes 400] [--program FILE]
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, "tests/tools"), os.path.join(TOP, "tests/api")]
sys.dont_write_bytecode = True

import daemon as harness  # noqa: E402
import lacking  # noqa: E402
import onnx_make  # noqa: E402
import postgres  # noqa: E402


def measure(arguments, workers, urls):
    """Plans per second of one daemon for each URL (None: SQLite), each with so many workers."""
    with tempfile.TemporaryDirectory(prefix="shardpland-throughput-") as folder, contextlib.ExitStack() as stack:
        data = os.path.join(folder, "data")
        daemons = [stack.enter_context(harness.Daemon("--workers", str(workers), data=data, store=url)) for url in urls]
        first = daemons[0]
        model = first.upload(onnx_make.encode(onnx_make.diamonds(arguments.nodes))).json["id"]
        body = {"model": model, "cluster": {"device": "a100-sxm4-80gb", "count": 4}}
        began = time.monotonic()
        for _ in range(arguments.plans):
            answer = first.request("POST", "/v1/plans", body, {"Cache-Control": "no-cache"}, check=False)
            if answer.status != 202:
                raise SystemExit(f"not accepted: {answer}")
        accepted = time.monotonic()
        first.wait_for(lambda: first.metric('shardplan_plans{state="succeeded"}') == arguments.plans, "the last plan", 600)
        ended = time.monotonic()
        return arguments.plans / (ended - began), (accepted - began) / arguments.plans


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--program")
    arguments = parser.parse_args()
    if arguments.program:
        harness.PROGRAM = arguments.program
    lacking.need_built(harness.PROGRAM)
    print(f"{os.cpu_count()} processors, {arguments.plans} plans of a model of {arguments.nodes} nodes")
    cases = [("SQLite, 1 daemon, 1 worker", 1, [""]), ("SQLite, 1 daemon, 2 workers", 2, [""])]
    with contextlib.ExitStack() as stack:
        if postgres.missing():
            print(postgres.missing())
        else:
            server = stack.enter_context(postgres.Server(durable=True))
            for daemons, workers in ((1, 1), (1, 2), (2, 1), (4, 1)):
                url = server.url(server.new_database())
                cases.append((f"PostgreSQL, {daemons} daemon{'s' * (daemons > 1)}, {workers} worker{'s' * (workers > 1)}", workers,
                              [url] * daemons))
        for name, workers, urls in cases:
            rate, seconds = measure(arguments, workers, urls)
            print(f"{name:34} {rate:6.1f} plans/s, {seconds * 1000:5.1f} ms for each submission", flush=True)


if __name__ == "__main__":
    lacking.run(main)
