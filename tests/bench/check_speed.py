#!/usr/bin/env python3
"""How fast models are checked, their shapes inferred and shardings completed, beside ONNX's own C++ library.

Both programs get the same files in the same run, several times in turns; the best time of each step counts (processor
time of the process, not the clock's) and the smallest peak of resident memory. The models: a chain with branches and a
transformer, each of about 100,000 nodes, and swin_t where the published models are (../shared/data, or
SHARDPLAN_TEST_DATA). External data are holes.

What is compared: from the file to the answer, and the same without reading.
  ours    read, check of the graph, shapes, check of annotations and their meaning, completion of shardings
  onnx    parse, checker, shape inference; it knows nothing of shardings, so it does less
With --set nothing is compared, but shown: what completion takes when the weights of a transformer are split.

The peer needs Debian's libonnx-dev, which this project does not depend on: apt-get install libonnx-dev libprotobuf-dev.
Without it only our times are shown. Nothing is asserted; times are of this machine.

    meson setup build/bench --buildtype=release -Db_lto=true && ninja -C build/bench   # built as the image is
    tests/bench/check_speed.py [--build build/bench] [--runs 8] [--nodes 100000]
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

import lacking

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DATA = os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(ROOT, "..", "shared", "data"))

NODES_PER_LAYER = 33  # of onnx_make's transformer
STEPS = ("read", "graph", "check", "shapes", "meaning", "infer")
SPLIT = ("--set", "*.mlp.up.weight={devices=[1,8]<=[8]}")


def make(folder, kind, nodes):
    path = os.path.join(folder, kind + ".onnx")
    size = max(1, nodes // NODES_PER_LAYER) if kind == "transformer" else nodes
    more = ["--hidden", "256", "--heads", "4", "--weights", "external"] if kind == "transformer" else []
    maker = os.path.join(ROOT, "tests", "tools", "onnx_make.py")
    subprocess.run([sys.executable, maker, kind, str(size), path, *more], check=True, stdout=subprocess.DEVNULL)
    hole(os.path.join(folder, "weights.bin"), 2 << 30)
    return path


def hole(path, size):
    """A file that takes no disk: the checker looks whether external data are there."""
    with open(path, "wb") as file:
        file.truncate(size)


def published(folder, name):
    source = os.path.join(DATA, "models", name)
    if not os.path.exists(source):
        return None
    path = os.path.join(folder, name)
    shutil.copy(source, path)
    hole(path + ".data", 1 << 30)
    return path


def compile_peer(folder):
    program = os.path.join(folder, "onnx_peer")
    command = ["g++", "-O2", "-std=c++17", "-DONNX_NAMESPACE=onnx", "-DONNX_ML=1", os.path.join(HERE, "onnx_peer.cc")]
    done = subprocess.run([*command, "-o", program, "-lonnx", "-lonnx_proto", "-lprotobuf"], capture_output=True,
                          text=True, check=False)
    if done.returncode == 0:
        return program
    print("ONNX's library is not there: apt-get install libonnx-dev libprotobuf-dev shows its times too.\n")
    return None


def measure(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return {name: float(number) for name, number in re.findall(r"(\w+) ([\d.]+)", done.stdout)}


def best(commands, runs):
    """The least of every figure of each command, which take turns."""
    least = [{} for _ in commands]
    for _ in range(runs):
        for known, command in zip(least, commands):
            for name, number in measure(command).items():
                known[name] = min(number, known.get(name, number))
    return least


def total(figures, without=()):
    return sum(figures.get(step, 0) for step in STEPS if step not in without)


def show(model, who, figures):
    steps = " ".join(f"{1e3 * figures[step]:8.2f}" if step in figures else f"{'-':>8}" for step in STEPS)
    print(f"{model:14} {who:5} {steps} {1e3 * total(figures):9.2f} {1e3 * total(figures, ('read',)):9.2f} "
          f"{figures['peak'] / 1024:8.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "bench"))
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--nodes", type=int, default=100000)
    options = parser.parse_args()
    ours = os.path.join(options.build, "tests", "bench", "bench_check")
    lacking.need_built(ours, "--buildtype=release -Dtests=true")
    print(f"{'milliseconds':14} {'':5} " + " ".join(f"{step:>8}" for step in STEPS) +
          f" {'total':>9} {'no read':>9} {'peak MB':>8}")
    with tempfile.TemporaryDirectory() as folder:
        peer = compile_peer(folder)
        models = [published(folder, "swin_t.onnx")]
        models += [make(folder, kind, options.nodes) for kind in ("diamonds", "transformer")]
        for path in filter(None, models):
            name = os.path.basename(path)[:-5]
            figures = best([[ours, path]] + ([[peer, path]] if peer else []), options.runs)
            show(name, "ours", figures[0])
            if peer:
                show(name, "onnx", figures[1])
                print(f"{'':14} ratio {total(figures[1]) / total(figures[0]):5.1f} from file to answer, "
                      f"{total(figures[1], ('read',)) / total(figures[0], ('read',)):.1f} without reading, "
                      f"{figures[1]['peak'] / figures[0]['peak']:.2f} in peak memory")
        (split,) = best([[ours, models[-1], *SPLIT]], options.runs)
        show(f"split ({split['sets']:.0f})", "ours", split)
        print(f"{'':14} {split['specs']:.0f} operands have a spec then")


if __name__ == "__main__":
    lacking.run(main)
