#!/usr/bin/env python3
"""Measures the models of `shardplan calibrate --emit DIR` with ONNX Runtime for Python.

    pip install onnxruntime numpy && python3 calibrate.py DIR [--threads 1] [--processes 1] [--provider CUDAExecutionProvider]

Writes DIR/times.csv, and a profile of ONNX Runtime for each kernel that is timed by itself (of processors; on other devices
all kernels are timed by whole runs, since a profile only tells what the host did). A kernel is repeated until its three
shortest times agree within 10 %, or a while that grows with --seconds is over. With --processes N it is one of N processes that run each kernel at the
same time, on --threads cores each (on Linux bound to them): what a device takes whose neighbours share memory, caches and clock
with it. Collectives: mpirun -n RANKS python3 ...
"""
import argparse
import csv
import datetime
import glob
import json
import os
import subprocess
import sys
import threading
import time

AGREE, LEAST, ROUNDS = 0.1, 5, 8


def agree(times):
    times = sorted(times)
    return len(times) >= LEAST and times[0] > 0 and times[2] <= times[0] * (1 + AGREE)


def bind(options, number):
    """To cores of its own, where the system can."""
    cores = range(number * options.threads, (number + 1) * options.threads)
    try:
        os.sched_setaffinity(0, cores)
    except (AttributeError, OSError):
        print(f"process {number} is not bound to cores {cores.start}-{cores.stop - 1}", file=sys.stderr)


class Others:
    """Processes that run what is measured at the same time."""

    def __init__(self, options):
        self.processes = []
        if options.processes > 1:
            bind(options, 0)
        for number in range(1, options.processes):
            command = [sys.executable, os.path.abspath(__file__), options.folder, "--threads", str(options.threads), "--provider",
                       options.provider, "--companion", str(number)]
            self.processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))

    def run(self, model):
        """Comes back when all run the model."""
        for process in self.processes:
            process.stdin.write(model + "\n")
            process.stdin.flush()
        for process in self.processes:
            if process.stdout.readline() == "":
                sys.exit("a process that runs beside the measured one has ended")

    def end(self):
        for process in self.processes:
            process.stdin.close()
            process.wait()


def accompany(runner):
    """Runs the model that was last asked for, over and over, and says when it has begun."""
    bind(runner.options, runner.options.companion)
    lines, model, session = [""], "", None

    def read():
        for line in sys.stdin:
            lines.append(line.rstrip("\n"))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        if lines[-1] != model:
            model, session = lines[-1], None
            try:
                session = runner.session(model)
                binding = runner.bound(session)
            except Exception:  # whoever measures tells it
                session = None
            print(model, flush=True)
        if session is not None:
            session.run_with_iobinding(binding)
        else:
            time.sleep(0.001)


class Runner:
    def __init__(self, options, ort, numpy):
        self.options, self.ort, self.numpy = options, ort, numpy
        self.rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")))
        self.ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE", os.environ.get("PMI_SIZE", "1")))
        self.others = None
        self.device = "cpu" if options.provider == "CPUExecutionProvider" else "cuda"

    def session(self, model, profile=None):
        options = self.ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.options.threads, 1
        options.log_severity_level = 3
        if profile is not None:
            options.enable_profiling, options.profile_file_prefix = True, profile
        if self.device != "cpu":  # what the device cannot run must not be timed elsewhere
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        provider = self.options.provider
        settings = {"device_id": self.rank} if self.device == "cuda" else {}
        return self.ort.InferenceSession(model, options, providers=[(provider, settings)])

    def bound(self, session):
        """Inputs and results stay on the device."""
        binding = session.io_binding()
        for value in session.get_inputs():
            name = value.type[len("tensor("):-1]
            dtype = self.numpy.dtype({"float": "float32", "double": "float64"}.get(name, name))
            size = 1
            for extent in value.shape:
                size *= extent
            numbers = self.numpy.arange(size) % 64
            array = (numbers if dtype.kind in "iu" else 0.5 + numbers / 64).astype(dtype).reshape(value.shape)
            binding.bind_ortvalue_input(value.name, self.ort.OrtValue.ortvalue_from_numpy(array, self.device, self.rank))
        for value in session.get_outputs():
            binding.bind_output(value.name, self.device, self.rank)
        return binding

    def time_runs(self, model):
        session = self.session(model)
        binding, times = self.bound(session), []
        session.run_with_iobinding(binding)
        begin = time.perf_counter()
        while True:
            start = time.perf_counter()
            session.run_with_iobinding(binding)
            now = time.perf_counter()
            times.append(now - start)
            is_over, is_half = now > begin + self.options.seconds * ROUNDS, now > begin + self.options.seconds / 2
            if len(times) >= LEAST and (is_over or (is_half and agree(times))):
                return sorted(times)[:20]

    def profile_nodes(self, model, name):
        folder, seen = self.options.folder, {}
        for old in glob.glob(os.path.join(glob.escape(folder), name + ".profile*")):
            os.remove(old)
        for round_ in range(ROUNDS):
            session = self.session(model, os.path.join(folder, f"{name}.profile{round_}"))
            binding, begin, count = self.bound(session), time.perf_counter(), 0
            while count < LEAST or (count < 200 and time.perf_counter() < begin + self.options.seconds / 2):
                session.run_with_iobinding(binding)
                count += 1
            with open(session.end_profiling(), encoding="utf-8") as file:
                for event in json.load(file):
                    kernel = event.get("name", "").split("#")[0]
                    if event.get("cat") == "Node" and event["name"].endswith("_kernel_time") and kernel.count(".") == 2:
                        seen.setdefault(kernel, []).append(event["dur"])
            if seen and all(agree(times) for times in seen.values()):
                return

    def measure(self, entry, base):
        """Rows of CSV, and the seconds of a run itself."""
        model, copies = os.path.join(self.options.folder, entry["file"]), int(entry["copies"])
        self.others.run(model)
        if entry["timing"] == "node" and self.device == "cpu":
            self.profile_nodes(model, entry["file"][: -len(".onnx")])
            return [], base
        times = self.time_runs(model)
        if copies == 1 and entry["timing"] == "run" and int(entry["ranks"]) == 1:
            return [], times[0]
        parts = copies - 1 if entry["timing"] == "run" and int(entry["ranks"]) == 1 else copies
        return [[entry["kernel"], entry["dtype"], entry["shape"], max(seconds - base, 0) / parts] for seconds in times], base


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1, help="that run at the same time")
    parser.add_argument("--companion", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--provider", default="CPUExecutionProvider")
    parser.add_argument("--only", default="", help="models whose names have this text")
    options = parser.parse_args()
    import numpy
    import onnxruntime
    runner, base = Runner(options, onnxruntime, numpy), 0.0
    if options.companion > 0:
        accompany(runner)
    runner.others = Others(options)
    rows = [["kernel", "dtype", "shape", "seconds"]]
    with open(os.path.join(options.folder, "set.csv"), encoding="utf-8") as file:
        entries = list(csv.DictReader(file))
    for entry in entries:
        if options.only not in entry["file"] or int(entry["ranks"]) not in (1, runner.ranks):
            continue
        try:
            more, base = runner.measure(entry, base)
            rows += more
        except Exception as error:  # what a runtime cannot do is told and left out
            print(f"{entry['file']} is left out: {str(error).splitlines()[0]}", file=sys.stderr)
    runner.others.end()
    if runner.rank == 0:
        beside = f", {options.processes} processes at once" if options.processes > 1 else ""
        name = "times.csv" if runner.ranks == 1 else f"times-{runner.ranks}.csv"
        with open(os.path.join(options.folder, name), "w", encoding="utf-8", newline="") as file:
            file.write(f"# runtime: ONNX Runtime {onnxruntime.__version__}, {options.provider}{beside}\n")
            file.write(f"# date: {datetime.date.today().isoformat()}\n")
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
