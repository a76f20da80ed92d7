#!/usr/bin/env python3
"""`calibrate`: what --emit writes, and the device that --from makes of times by known figures, which `plan` takes."""
import csv
import json
import os
import py_compile
import subprocess
import sys
import unittest

from test_cli import Case, TOP

FLOPS, BANDWIDTH, START = 8e10, 2e10, 1e-6

# In place of ONNX Runtime and NumPy: runs of longer chains take longer, the profile says 40 us for each node.
FAKE_NUMPY = """
class dtype:
    def __init__(self, name): self.kind = "i" if "int" in name else "f"
class Array:
    def __mod__(self, other): return self
    def __truediv__(self, other): return self
    def __radd__(self, other): return self
    def astype(self, kind): return self
    def reshape(self, shape): return self
def arange(size): return Array()
"""
FAKE_RUNTIME = """
import json, os, time
__version__ = "9.9"
clock = [0]
time.perf_counter = lambda: clock[0]
class SessionOptions:
    enable_profiling = False
    def add_session_config_entry(self, key, value): assert (key, value) == ("session.disable_cpu_ep_fallback", "1")
class OrtValue:
    @staticmethod
    def ortvalue_from_numpy(array, device, number): return device
class Value:
    name, type, shape = "x", "tensor(float)", [4, 4]
class Binding:
    def bind_ortvalue_input(self, name, value): pass
    def bind_output(self, name, device, number): pass
class InferenceSession:
    def __init__(self, model, options, providers):
        self.model, self.options = model, options
        if "softmax" in model: raise RuntimeError("no such kernel")
    def get_inputs(self): return [Value]
    def get_outputs(self): return [Value]
    def io_binding(self): return Binding()
    def run_with_iobinding(self, binding): clock[0] += 1e-4 + os.path.getsize(self.model) / 1e7
    def end_profiling(self):
        name = os.path.basename(self.model)[:-5]
        event = {"cat": "Node", "name": name + "#0_kernel_time", "dur": 40}
        with open(self.options.profile_file_prefix + "_x.json", "w") as file: json.dump([event] * 6, file)
        return file.name
"""


def seconds(kernel, sizes):
    """A device that computes, or moves float32, without hiding the one behind the other."""
    if kernel == "product":
        m, k, n = sizes
        return START + 2 * m * k * n / FLOPS + 4 * (m * k + k * n + m * n) / BANDWIDTH
    return START + 12 * sizes[0] / BANDWIDTH + sizes[0] / FLOPS


class Calibrate(Case):
    def emitted(self, *options):
        self.done("calibrate", "--emit", self.path("set"), *options)
        with open(self.path("set/set.csv"), encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def times(self, *rows):
        os.makedirs(self.path("times"), exist_ok=True)
        text = "kernel,dtype,shape,seconds\n" + "".join(row + "\n" for row in rows)
        self.file("times/times.csv", text.encode())
        return self.path("times")

    def rows(self, entries, repeats=3):
        for entry in entries:
            if entry["kernel"] in ("product", "add"):
                time = seconds(entry["kernel"], [int(size) for size in entry["shape"].split("x")])
                for i in range(repeats):
                    yield f"{entry['kernel']},{entry['dtype']},{entry['shape']},{time * (1 + 0.01 * i)}"

    def test_the_set_is_complete(self):
        entries = self.emitted("--dtypes", "float32,int8", "--devices", "4", "--size", "large")
        names = os.listdir(self.path("set"))
        self.assertGreater(len(entries), 100)
        for entry in entries:
            self.assertIn(entry["file"], names)
            self.assertEqual(entry["file"], f"{entry['kernel']}.{entry['dtype']}.{entry['shape']}.onnx")
            self.assertEqual(entry["ranks"], entry["shape"].split("x")[0] if entry["kernel"].startswith("all_") else "1")
        self.assertEqual({entry["dtype"] for entry in entries}, {"float32", "int8"})
        self.assertEqual(len({entry["file"] for entry in entries}), len(entries))
        with open(self.path("set/collectives.txt"), encoding="utf-8") as file:
            self.assertIn("all_reduce_perf -b 8K -e 256M -f 2 -g 4 > all_reduce_4.txt", file.read())
        for name in ("calibrate.py", "calibrate.mjs"):
            with open(self.path("set/" + name), "rb") as file, open(os.path.join(TOP, "api/examples", name), "rb") as source:
                self.assertEqual(file.read(), source.read())
        py_compile.compile(self.path("set/calibrate.py"), doraise=True)

    def test_models_are_sound(self):
        entries = self.emitted("--devices", "2")
        for entry in entries[::7] + entries[-1:]:
            self.done("check", os.path.join(self.path("set"), entry["file"]))

    def test_the_device_is_found_and_taken(self):
        folder, device = self.times(*self.rows(self.emitted())), self.path("mine.json")
        result = self.done("calibrate", "--from", folder, "--name", "mine", "--memory", "8e9", "--threads", "2", "-o", device)
        self.assertIn(b"not measured: attention", result.stderr)
        with open(device, encoding="utf-8") as file:
            figures = json.load(file)
        self.assertEqual((figures["name"], figures["kind"], figures["memory_bytes"]), ("mine", "cpu", 8e9))
        self.assertEqual(figures["measured"], {"products": True, "other": True})
        self.assertIn("2 threads", figures["source"])
        self.assertLess(abs(figures["flops"]["float32"] / FLOPS - 1), 0.03)
        self.assertLess(abs(figures["memory_bandwidth"] / BANDWIDTH - 1), 0.03)
        self.assertLess(abs(figures["products"]["float32"]["start_seconds"] / START - 1), 0.1)
        plan = self.json("plan", self.mlp(2, width=512, batch=64), "--devices", "1", "--device", device)
        least = 2 * 2 * 64 * 512 * 512 / FLOPS
        self.assertGreater(plan["estimate"]["latency_seconds"], least)
        self.assertLess(plan["estimate"]["latency_seconds"], 3 * least)
        again = self.path("again.json")
        self.done("calibrate", "--from", folder, "--name", "mine", "--memory", "8e9", "--threads", "2", "-o", again)
        with open(again, "rb") as file, open(device, "rb") as first:
            self.assertEqual(file.read(), first.read())
        self.done("calibrate", "--from", folder, "--name", "mine", "--device", device, "-o", again)  # as a data sheet

    def test_the_python_runner_writes_what_is_read(self):
        self.emitted()
        self.file("numpy.py", FAKE_NUMPY.encode())
        self.file("onnxruntime.py", FAKE_RUNTIME.encode())
        for provider, runs, processes in (("CPUExecutionProvider", False, 1), ("CUDAExecutionProvider", True, 1),
                                          ("CPUExecutionProvider", False, 2)):
            result = subprocess.run([sys.executable, self.path("set/calibrate.py"), self.path("set"), "--seconds", "0.001", "--provider",
                                     provider, "--processes", str(processes)], env=dict(os.environ, PYTHONPATH=self.folder), capture_output=True, check=True)
            self.assertIn(b"softmax.float32.64x16.onnx is left out: no such kernel", result.stderr)
            with open(self.path("set/times.csv"), encoding="utf-8") as file:
                text = file.read()
            beside = f", {processes} processes at once" if processes > 1 else ""
            self.assertIn(f"# runtime: ONNX Runtime 9.9, {provider}{beside}\n", text)
            self.assertIn("\nlaunch,float32,16x32,", text)
            self.assertEqual("\nadd,float32,98304," in text, runs)
            self.assertEqual(any(name.startswith("add.float32.98304.profile") for name in os.listdir(self.path("set"))), True)
            self.done("calibrate", "--from", self.path("set"), "--name", "mine", "--memory", "8e9", "-o", self.path("mine.json"))

    def test_what_is_wrong_is_said(self):
        good = list(self.rows(self.emitted()))
        folder = self.times(*good)
        noisy = [f"{row.rsplit(',', 1)[0]},{float(row.rsplit(',', 1)[1]) * (1 + i % 3)}" for i, row in enumerate(good)]
        for options, rows, code in (
                ([], good, b"CALIBRATION_MEMORY"), (["--memory", "8e9"], noisy, b"CALIBRATION_NOISE"),
                (["--memory", "lots"], good, b"CALIBRATION_MEMORY"), (["--memory", "8e9", "--kind", "abacus"], good, b"CALIBRATION_KIND"),
                (["--memory", "8e9", "--threads", "0"], good, b"CALIBRATION_THREADS"),
                (["--memory", "8e9"], good + ["product,float32,1x2,1"], b"CALIBRATION_KERNEL"),
                (["--memory", "8e9"], good + ["product"], b"CALIBRATION_FILE"), (["--device", "abacus"], good, b"UNKNOWN_DEVICE")):
            self.times(*rows)
            result = self.done("calibrate", "--from", folder, "--name", "mine", *options, status=2)
            self.assertIn(code, result.stderr)
        os.mkdir(self.path("empty"))
        for arguments in (["--from", self.path("empty"), "--name", "x"], ["--from", self.path("none"), "--name", "x"],
                          ["--from", folder], [], ["--emit", "a", "--from", "b"], ["--emit", self.path("set"), "--size", "vast"],
                          ["--emit", self.path("set"), "--dtypes", "float33"], ["--emit", self.path("set"), "--devices", "0"],
                          ["--emit", self.path("set"), "--dtypes", "int4"]):
            self.done("calibrate", *arguments, status=2)


if __name__ == "__main__":
    unittest.main()
