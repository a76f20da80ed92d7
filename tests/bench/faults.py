#!/usr/bin/env python3
"""Fails every single allocation in turn, and all from each one on, while clients upload, plan, wait and download; TAP.

    faults.py [--what daemon|workers|both] [--store sqlite|postgres] [--processes 4] [--stride 1] [--program FILE]

Needs a daemon that is built with -Dfaults=true and the sanitizers (server/faults/faults.h); tests/api/test_faults_*.py have every
place in the program fail once, this every call. Each process has a daemon of its own and takes each so manieth number; it goes
on until numbers are larger than what there is to fail. After each failure the daemon must work, and what was accepted must be
finished; at the end nothing may be lost or left. Minutes.
"""

import argparse
import multiprocessing
import os
import signal
import statistics
import sys
import time
import traceback

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, "tests/tools"), os.path.join(TOP, "tests/api")]
sys.dont_write_bytecode = True

import daemon as harness  # noqa: E402
import faulty  # noqa: E402
import lacking  # noqa: E402
import postgres  # noqa: E402

QUIET = 5  # numbers in a row that were too large for anything to fail: how many calls a round has varies
ROWS = 8  # of so many numbers one has all fail from there on, in workers
MODES = {"once": faulty.ONCE, "from there on": faulty.FROM}


def fail_all(round_at, first, stride):
    """Calls round_at(number) for each of the process's numbers; how many calls failed, and the largest number of one."""
    failed = largest = quiet = 0
    at = first
    there_are = statistics.median_low(round_at(faulty.NEVER)[0] for _ in range(3))  # one may have come upon a sweep
    while at <= there_are or quiet < QUIET:  # a round that is refused early has fewer
        _, fired = round_at(at)
        failed += fired
        largest = at if fired else largest
        quiet = 0 if fired else quiet + 1
        at += stride
    return failed, largest


def fail_daemon(first, stride, say):
    """Allocations of the daemon in whole rounds."""
    scenario = faulty.Scenario()
    try:
        scenario.round(faulty.MEMORY, faulty.ONCE, faulty.NEVER)  # the first one differs
        for name, mode in MODES.items():
            failed, largest = fail_all(lambda at, mode=mode: scenario.round(faulty.MEMORY, mode, at), first, stride)
            say(f"daemon, {name}: {failed} allocations failed, up to number {largest}")
        scenario.check_stored()
        say(f"daemon: {scenario.summary()}")
    finally:
        scenario.close()


def fail_workers(first, stride, say):
    """Allocations of workers, job by job. From each one on, only some of them: a worker that cannot go on dies twice then."""
    work = faulty.Work()
    try:
        for name in work.jobs():
            for how, mode, factor in (("once", faulty.ONCE, 1), ("from there on", faulty.FROM, ROWS)):
                failed, largest = fail_all(lambda at, mode=mode, name=name: work.round(faulty.WORKER, mode, at, name),
                                           (first - 1) * factor + 1, stride * factor)
                say(f"{name}, {how}: {failed} allocations failed, up to number {largest}")
        work.check_stored()
        say(f"workers: {work.summary()}")
    finally:
        work.close()


WORK = {"daemon": fail_daemon, "workers": fail_workers}


def end(*_):
    sys.exit(1)


def process(work, first, stride, results):
    started = time.monotonic()

    def say(text):
        print(f"# {time.monotonic() - started:4.0f} s, process {first}: {text}", flush=True)

    try:
        WORK[work](first, stride, say)
        results.put(None)
    except BaseException:  # pylint: disable=broad-except; whatever it is, the parent reports it
        results.put(traceback.format_exc())


def run(work, arguments):
    results = multiprocessing.Queue()
    started = time.monotonic()
    processes = [multiprocessing.Process(target=process, args=(work, number * arguments.stride + 1,
                                                               arguments.processes * arguments.stride, results), daemon=True)
                 for number in range(arguments.processes)]
    for one in processes:
        one.start()
    failures = [failure for failure in (results.get() for _ in processes) if failure]
    for one in processes:
        one.join()
    print(f"{'not ok' if failures else 'ok'} faults: {work}, {harness.STORE}, every {arguments.stride}. allocation, "
          f"{time.monotonic() - started:.0f} s")
    for failure in failures:
        print("  " + failure.replace("\n", "\n  "))
    sys.stdout.flush()
    return not failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=(*WORK, "both"), default="both")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--processes", type=int, default=2 * (os.cpu_count() or 1), help="much of the time they wait")
    parser.add_argument("--stride", type=int, default=1, help="only every so manieth number")
    parser.add_argument("--program", default=os.path.join(TOP, "build/sanitized/server/shardpland"))
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, end)  # so that daemons are ended, too
    harness.PROGRAM = arguments.program
    harness.STORE = arguments.store
    lacking.need_built(arguments.program, "-Db_sanitize=address,undefined -Db_lundef=false -Dfaults=true")
    if not faulty.has_faults():
        lacking.leave(f"{arguments.program} is built without faults; build it with -Dfaults=true")
    if arguments.store == "postgres" and postgres.missing():
        lacking.leave(postgres.missing())
    good = [run(work, arguments) for work in WORK if arguments.what in (work, "both")]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
