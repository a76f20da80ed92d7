#!/usr/bin/env python3
"""How planning grows with the model: the whole command on 1,000 to 100,000 nodes.

For each shape of model (a chain, branches that meet again, a transformer) and each size this runs `shardplan plan` as a
user would, and prints seconds and peak resident memory, each also per node and as a ratio to the smallest size: linear
growth keeps the per-node figures level. Nothing is asserted; times are of this machine.

    tests/bench/scale.py [--command build/api/cli/shardplan] [--devices 8] [--largest 100000]
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import lacking

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

NODES_PER_LAYER = 33  # of onnx_make's transformer; the table shows the real count, see count_nodes()


def make(kind, nodes, path):
    """Writes a model. In a process of its own: what this process holds when it starts a child counts as the child's."""
    size = max(1, nodes // NODES_PER_LAYER) if kind == "transformer" else nodes
    more = ["--hidden", "256", "--heads", "4", "--weights", "external"] if kind == "transformer" else []
    maker = os.path.join(ROOT, "tests", "tools", "onnx_make.py")
    subprocess.run([sys.executable, maker, kind, str(size), path, *more], check=True, stdout=subprocess.DEVNULL)


def measure(command):
    """Seconds, peak resident kB and output of one run."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
    except BaseException:
        child.kill()
        raise
    seconds = time.monotonic() - start
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{' '.join(command)} failed:\n{output}")
    return seconds, usage.ru_maxrss, output


def count_nodes(command, path):
    _, _, output = measure([command, "inspect", path])
    for line in output.splitlines():
        if line.startswith("Nodes"):
            return int(line.split()[1].replace(",", ""))
    sys.exit("inspect printed no node count")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default=os.path.join(ROOT, "build", "api", "cli", "shardplan"))
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--largest", type=int, default=100000)
    options = parser.parse_args()
    lacking.need_built(options.command)
    sizes = [size for size in (1000, 10000, 100000) if size <= options.largest]
    print(f"{'model':12} {'nodes':>8} {'seconds':>9} {'us/node':>9} {'ratio':>7} {'MB':>8} {'kB/node':>8} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("chain", "diamonds", "transformer"):
            first = None
            for size in sizes:
                path = os.path.join(folder, "model.onnx")
                make(kind, size, path)
                nodes = count_nodes(options.command, path)
                plan = [options.command, "plan", path, "--device", "a100-sxm4-80gb", "--devices", str(options.devices),
                        "--plan", os.path.join(folder, "plan.json"), "-o", os.path.join(folder, "annotated.onnx")]
                seconds, peak, _ = measure(plan)
                each = (seconds / nodes, peak / nodes)
                first = first or each
                print(f"{kind:12} {nodes:8} {seconds:9.2f} {1e6 * each[0]:9.1f} {each[0] / first[0]:7.2f} "
                      f"{peak / 1024:8.1f} {each[1]:8.2f} {each[1] / first[1]:7.2f}", flush=True)


if __name__ == "__main__":
    lacking.run(main)
