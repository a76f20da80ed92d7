#!/usr/bin/env python3
"""The sanitized command line against hostile files; TAP on standard output.

Each file must end with the status of its kind and a message on standard error (of a check, its findings on standard
output), without a crash, a leak or a report of the sanitizers.
"""
import os
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/tools"))
import hostile  # noqa: E402

CLI = os.environ.get("SHARDPLAN_SANITIZED", os.path.join(TOP, "build/sanitized/api/cli/shardplan"))
INSPECT, PLAN = ["inspect"], ["plan", "--device", "a100-sxm4-80gb", "--devices", "4"]
CHECK, INFER = ["check"], ["infer", "--devices", "2", "--mode", "propagate"]
EXPORT = ["export", "--format", "csv-tensors"]


def run(command, path, reports, statuses):
    environment = dict(os.environ, ASAN_OPTIONS=f"detect_leaks=1:handle_sigill=1:log_path={reports}/asan",
                       UBSAN_OPTIONS=f"print_stacktrace=1:log_path={reports}/ubsan")
    done = subprocess.run([CLI, command[0], path, *command[1:]], capture_output=True, timeout=60, env=environment)
    problems = []
    if done.returncode not in statuses:
        message = done.stderr.decode(errors="replace")[:300]
        problems.append(f"{command[0]}: status {done.returncode}, not {statuses}: {message}")
    elif not (done.stdout if command is CHECK and done.returncode == 1 else done.stderr).strip():
        problems.append(f"{command[0]}: no message")
    for name in os.listdir(reports):
        with open(os.path.join(reports, name), encoding="utf-8", errors="replace") as file:
            problems += file.read().splitlines()[:25]
        os.remove(os.path.join(reports, name))
    return problems


def check(name, data, folder, commands, statuses):
    path = os.path.join(folder, "model.onnx")
    with open(path, "wb") as file:
        file.write(data)
    reports = os.path.join(folder, "reports")
    os.makedirs(reports, exist_ok=True)
    problems = [problem for command in commands for problem in run(command, path, reports, statuses)]
    print(f"{'not ok' if problems else 'ok'} refused: {name}", *(f"\n  {problem}" for problem in problems), sep="")
    sys.stdout.flush()
    return not problems


def main():
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        for name, data in hostile.cases():
            fine &= check(name, data, folder, (INSPECT, PLAN, CHECK, INFER, EXPORT), (2,))
        for name, data in hostile.wrong_models():
            fine &= check(name, data, folder, (INSPECT, PLAN, CHECK, INFER, EXPORT), (1, 2))
        for name, data in hostile.unplannable():
            fine &= check(name, data, folder, (PLAN,), (1, 2, 3))
        for model in ("resnet50.onnx", "transformer_tiny.onnx"):
            for name, data in hostile.truncated(os.path.join(TOP, "tests/data", model)):
                fine &= check(name, data, folder, (INSPECT, CHECK), (2,))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
