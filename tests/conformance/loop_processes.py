#!/usr/bin/env python3
"""loop_processes.py MODEL DIR: a loop of the recurrent network of loop_recurrent.py by api/examples/run/run.py, beside one
of the original; run_processes.mjs calls it."""
import os
import sys

import numpy
import onnxruntime

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../api/examples/run"))
sys.dont_write_bytecode = True

from run import Processes  # noqa: E402

STEPS = 4


def main(model, folder):
    original = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in original.get_outputs()]
    with Processes(folder) as processes:
        states = processes.manifest.states  # present -> past
        shapes = {tensor["name"]: tensor["shape"] for tensor in processes.manifest.inputs}
        own, loop = {past: numpy.zeros(shapes[past], numpy.float32) for past in states.values()}, processes.loop()
        for step in range(STEPS):
            feeds = {"x": numpy.sin(numpy.arange(192, dtype=numpy.float32) * 7 + step).reshape(3, 64)}
            expected = dict(zip(names, original.run(names, {**feeds, **own})))
            given = loop.run({**feeds, **own} if step == 0 else feeds)
            if set(given) != set(names) - set(states):
                raise AssertionError(f"the outputs are {sorted(given)}")
            for name, array in given.items():
                numpy.testing.assert_allclose(array, expected[name], rtol=1e-3, atol=1e-5)
            own = {past: expected[present] for present, past in states.items()}
        loop.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
