#!/usr/bin/env python3
"""Kills the daemon and its workers in the middle of work, again and again; TAP on standard output.

    crash.py [--runs 10] [--plans 10] [--nodes 20000]

Each run, on one data folder that lives through all of them:
  worker   plans a real-sized model, kills -9 the worker that has it; the plan must succeed on the second attempt
  daemon   has ten plans accepted, kills -9 the daemon while they run, starts it again; all must succeed
  both     the same, with the workers killed just before the daemon
After the last run every plan that was ever accepted must have its plan and its annotated model.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time

from daemon import Daemon
import onnx_make

CLUSTER = {"device": "a100-sxm4-80gb", "count": 4}


class Run:
    def __init__(self, daemon, arguments, rng):
        self.daemon = daemon
        self.arguments = arguments
        self.rng = rng
        self.model = daemon.upload(onnx_make.encode(onnx_make.diamonds(arguments.nodes))).json["id"]
        self.accepted = []

    def accept(self, count, number):
        """Different objectives, so that not every plan is the same work."""
        plans = []
        for index in range(count):
            body = {"model": self.model, "cluster": CLUSTER, "objective": ("throughput", "latency")[(index + number) % 2]}
            answer = self.daemon.request("POST", "/v1/plans", body)
            if answer.status != 202:
                raise AssertionError(answer)
            plans.append(answer.json["id"])
        self.accepted += plans
        return plans

    def check(self, plans):
        attempts = []
        for plan in plans:
            done = self.daemon.finished(plan, patience=300)
            if done["state"] != "succeeded":
                raise AssertionError(f"{plan}: {done['state']} {done.get('error')}")
            attempts.append(done["attempts"])
        return attempts

    def worker(self, number):
        look = self.daemon.busy_worker()
        plans = self.accept(1, number)
        pid = self.daemon.wait_for(look, "a busy worker")
        time.sleep(self.rng.random() * 0.05)
        state = self.daemon.get(f"/v1/plans/{plans[0]}").json["state"]
        os.kill(pid, signal.SIGKILL)
        attempts = self.check(plans)
        return f"was {state}, attempts {attempts}"

    def kill_daemon(self, number, with_workers):
        look = self.daemon.busy_worker()
        plans = self.accept(self.arguments.plans, number)
        self.daemon.wait_for(look, "a busy worker")
        time.sleep(self.rng.random() * 0.3)
        open_before = [plan for plan in self.daemon.get("/v1/plans").json["plans"]
                       if plan["state"] in ("queued", "running")]
        if with_workers:
            for pid in self.daemon.workers():
                os.kill(pid, signal.SIGKILL)
        self.daemon.kill()
        self.daemon.start()
        attempts = self.check(plans)
        return f"{len(plans)} accepted, {len(open_before)} open when killed, attempts {attempts}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--plans", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=20000)
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="shardpland-crash-") as folder:
        daemon = Daemon("--workers", "2", data=os.path.join(folder, "data"))
        daemon.start()
        run = Run(daemon, arguments, random.Random(1))
        for number in range(arguments.runs):
            for name, action in (
                ("worker", lambda: run.worker(number)),
                ("daemon", lambda: run.kill_daemon(number, False)),
                ("both", lambda: run.kill_daemon(number, True)),
            ):
                try:
                    print(f"ok crash: run {number + 1}, kill {name} ({action()})")
                except AssertionError as error:
                    failed += 1
                    print(f"not ok crash: run {number + 1}, kill {name}\n  {error}")
                sys.stdout.flush()
        sizes = {len(daemon.get(f"/v1/plans/{plan}/model").body) for plan in run.accepted[:3] + run.accepted[-3:]}
        complete = all(daemon.get(f"/v1/plans/{plan}").json["state"] == "succeeded" for plan in run.accepted)
        print(f"{'ok' if complete and 0 not in sizes else 'not ok'} crash: all {len(run.accepted)} accepted plans are there")
        daemon.close()
    sys.exit(1 if failed or not complete else 0)


if __name__ == "__main__":
    main()
