#!/usr/bin/env python3
"""How long `shardplan verify` takes, and how much memory, beside its bounds; fails beyond them.

    verify.py [--layers N] [--nodes N]

Two questions: a decoder of Llama-3 405B's size on 8 x 16 devices, 128 files without weights (made by tests/cli/test_verify.py);
and 100,000 nodes without any repetition on 4 ranks, elementwise ones and pairs of products with a sum over the ranks. Both have
to be proved in under 60 seconds of processor and 1 GB. SHARDPLAN is the program.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "../cli"), os.path.join(HERE, "../tools")]
os.environ.setdefault("SHARDPLAN", os.path.join(HERE, "../../build/api/cli/shardplan"))

import onnx_make as make  # noqa: E402
import test_verify  # noqa: E402

SECONDS, GIGABYTES = 60, 1
ROWS, WIDTH, INNER, RANKS, WEIGHTS = 8, 64, 32, 4, 64


def irregular(nodes, ranks, seed=1):
    """A graph of so many nodes: each takes one or two of the last values, which are of one shape."""
    made, values, graph = random.Random(seed), ["x"], []
    for i in range(WEIGHTS):
        graph += [weights.tensor(f"up.{i}", [WIDTH, INNER // ranks]), weights.tensor(f"down.{i}", [INNER // ranks, WIDTH])]
    count = 0
    while count < nodes:
        a, b, value = made.choice(values[-40:]), made.choice(values[-40:]), f"v.{count}"
        kind = made.random()
        if kind < 0.08:
            i = made.randrange(WEIGHTS)
            graph += [make.node("MatMul", [a, f"up.{i}"], [f"{value}.h"]), make.node("Relu", [f"{value}.h"], [f"{value}.r"]),
                      make.node("MatMul", [f"{value}.r", f"down.{i}"], [f"{value}.p"]),
                      make.node("AllReduce", [f"{value}.p"], [value], domain=test_verify.MS) if ranks > 1 else
                      make.node("Identity", [f"{value}.p"], [value])]
            count += 4
        else:
            graph.append(make.node(made.choice(["Add", "Mul", "Sub"]), [a, b], [value]) if kind < 0.6 else
                         make.node(made.choice(["Tanh", "Sigmoid", "Softplus", "Erf"]), [a], [value]))
            count += 1
        values.append(value)
    return test_verify.bytes_of(make.graph_input("x", [ROWS, WIDTH]), *graph, make.graph_output(values[-1], [ROWS, WIDTH]))


def ask(what, programs, *arguments):
    """A line for one question; whether it kept its bounds."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([os.environ["SHARDPLAN"], "verify", *arguments, "--json"], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = json.loads(done.stdout)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    gigabytes = after.ru_maxrss / 1e6
    is_fine = answer.get("verdict") == "proved" and seconds < SECONDS and gigabytes < GIGABYTES and answer["programs"] == programs
    print(f"{'ok' if is_fine else 'not ok'} {what}: {answer.get('verdict', answer)}, {answer.get('nodes')} nodes, {seconds:.1f} s of "
          f"processor of {SECONDS}, {time.monotonic() - began:.1f} s by the clock, {gigabytes:.2f} GB of {GIGABYTES}", flush=True)
    return is_fine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=128)
    parser.add_argument("--nodes", type=int, default=100000)
    asked = parser.parse_args()
    case = test_verify.Large("test_stages_of_eight")
    case.setUp()
    global weights
    weights = make.Weights("external")
    try:
        x, graph = "x.in", case.embedding()
        for i in range(asked.layers):
            graph += case.layer(i, x, 1)
            x = f"x.{i}"
        original = case.file("original.onnx", case.bytes_of(*graph, *case.head(x, 1)))
        is_fine = ask("405B on 8 x 16 devices", 128, original, "--manifest", case.write(8, 16, asked.layers))
        original = case.file("irregular.onnx", irregular(asked.nodes, 1))
        ranks = [case.file(f"irregular-{rank}.onnx", irregular(asked.nodes, RANKS)) for rank in range(RANKS)]
        is_fine = ask("irregular nodes on 4 ranks", RANKS, original, *ranks) and is_fine
    finally:
        case.doCleanups()
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
