"""Asks the product, through bench_measured, what kernels, collectives and layouts take."""

import collections
import hashlib
import json
import os
import re
import subprocess
import typing

# What the tables call a device: its name in the catalog. Rows of other devices are left out.
DEVICES = {
    "a100_sxm": "a100-sxm4-80gb", "a100-sxm-80gb": "a100-sxm4-80gb", "A100-80GB": "a100-sxm4-80gb",
    "a100-sxm4-80gb": "a100-sxm4-80gb", "a100-sxm4-40gb": "a100-sxm4-40gb", "a100_dgx": "a100-sxm4-80gb",
    "h100_sxm": "h100-sxm-80gb", "h100-sxm-80gb": "h100-sxm-80gb", "h100_dgx": "h100-sxm-80gb",
    "h200_sxm": "h200-sxm-141gb", "h200-sxm": "h200-sxm-141gb", "b200_sxm": "b200-180gb", "b300_sxm": "b300-270gb",
    "l40s": "l40s-48gb",
    "t4-16gb": "t4-16gb", "t4": "t4-16gb", "v100": "v100-sxm2-16gb",
}
NODE = 8             # GPUs of one node
ADAPTER = 25e9       # bytes per second of a GPU's own adapter: 8 x 200 Gb/s InfiniBand in a node, as the tables say
ADAPTER_LATENCY = 4e-6  # of a message over InfiniBand, as tests/bench/clusters has it
INSIDE, INSIDE_LATENCY = 300e9, 1.9e-6  # NVLink 3: what was measured across nodes are DGX A100
# Which of the product's runtimes does what a measured one does: SGLang and vLLM capture graphs and join the same
# chains, TensorRT-LLM has FasterTransformer's kernels, eager PyTorch starts each operator from the host as ONNX Runtime
# does. FasterTransformer starts NCCL from a stream, without a graph: EAGER more for each collective (NCCL on DGX A100
# in collectives.json, PyTorch eager against graphs). So does ONNX Runtime.
RUNTIMES = {"vllm": "vllm", "sglang": "vllm", "trtllm": "tensorrt", "TensorRT": "tensorrt", "TensorRT-LLM": "tensorrt",
            "FasterTransformer": "tensorrt", "vllm eager": "vllm", "nccl eager": "onnxruntime",
            "PyTorch": "onnxruntime"}
EAGER = 30e-6
EAGER_RUNTIMES = {"FasterTransformer": ("nccl",), "vllm eager": None}
CATALOG = os.path.join(os.path.dirname(__file__), "..", "..", "..", "api", "devices")
SCOPE = re.compile(r"^/r(\d+)/")


def add(*bars, factors=None):
    """The sum of (value, low, high), each times its factor: errors do not cancel."""
    factors = factors or [1] * len(bars)
    return tuple(sum(factor * number for factor, number in zip(factors, numbers)) for numbers in zip(*bars))


def members(bar):
    """What a row has of a prediction; None: there is none."""
    return dict(zip(("predicted", "low", "high"), bar or (None, None, None)))


def eager_device(name, libraries):
    """A device of the catalog whose collectives are started from a stream, those of LIBRARIES alone (None: all)."""
    with open(os.path.join(CATALOG, name + ".json"), encoding="utf-8") as file:
        device = json.load(file)
    known = {library: members for library, members in device["collectives"].items()
             if libraries is None or library in libraries}
    for members_of in known.values():
        members_of.pop("residual", None)
        for figures in members_of.values():
            figures["start_seconds"] += EAGER
    residuals = {**device["residuals"], "collectives": device["residuals"]["eager_collectives"]}
    return {**device, "collectives": known, "residuals": residuals}


class Layout(typing.NamedTuple):
    """Degrees of a layout that was measured; experts whole on devices, or each of them cut."""
    tensor: int
    stages: int = 1
    data: int = 1
    splits_experts: bool = False

    @property
    def devices(self):
        return self.tensor * self.stages * self.data

    def words(self):
        """As bench_measured takes it."""
        return *map(str, (self.tensor, self.stages, self.data)), "experts" if self.splits_experts else "inner"

    def __str__(self):
        return f"TP{self.tensor} PP{self.stages}" + f" DP{self.data}" * (self.data > 1) + " EP" * self.splits_experts


class Product:
    """Runs bench_measured of a build on files in a folder; what was asked once is not asked again. Models are named by what
    GRAPH_OF makes their text of, as that takes as long as an answer."""

    def __init__(self, program, folder, graph_of):
        self.program, self.folder, self.known, self.refusals = program, folder, {}, collections.Counter()
        self.graph_of, self.models, self.layouts = graph_of, {}, {}
        # A build that is compared may be older than runtimes.
        named = self.write(json.dumps({"device": "h100-sxm-80gb", "count": 2, "runtime": "vllm"}))
        self.has_runtimes = self.run("collectives", named) is not None
        self.refusals.clear()

    def run(self, *arguments, text=""):
        """Its output, or None where it says no; what it says is counted."""
        key = (arguments, text)
        if key not in self.known:
            done = subprocess.run([self.program, *arguments], input=text, capture_output=True, text=True, check=False)
            self.known[key] = done.stdout if done.returncode == 0 else None
            if done.returncode != 0:
                self.refusals[done.stderr.replace(self.folder + "/", "").strip().split(": ", 1)[-1]] += 1
        return self.known[key]

    def write(self, content):
        """A file of this content, called by its hash."""
        path = os.path.join(self.folder, hashlib.sha256(content.encode()).hexdigest()[:16] + ".json")
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
        return path

    def cluster(self, device, count, runtime):
        """So many devices of the catalog, in nodes of NODE; RUNTIME as the tables call it, or None: kernels alone."""
        if runtime in EAGER_RUNTIMES:
            device = eager_device(device, EAGER_RUNTIMES[runtime])
        cluster = {"device": device, "count": count}
        if self.has_runtimes:
            cluster["runtime"] = RUNTIMES.get(runtime, "generic")
        if count > NODE:
            cluster["mesh"] = [
                {"name": "node", "size": count // NODE, "bandwidth": ADAPTER, "latency": ADAPTER_LATENCY},
                {"name": "gpu", "size": NODE, "bandwidth": INSIDE, "latency": INSIDE_LATENCY}]
        return self.write(json.dumps(cluster))

    def nodes(self, graph, device, runtime):
        """Seconds of the kernels of a graph whose node names begin with "/rN/": {N: (seconds, low, high)}."""
        seconds = {}
        output = self.run("nodes", self.write(graph), self.cluster(device, 1, runtime))
        for line in (output or "").splitlines():
            name, *times = line.rsplit(" ", 3)
            found = SCOPE.match(name)
            if found:
                row = int(found.group(1))
                seconds[row] = add(seconds.get(row, (0, 0, 0)), tuple(map(float, times)))
        return seconds

    def service(self, device, runtime, sizes, times):
        """((TTFT, low, high), (TPOT, low, high)) of SIZES (concurrency, output, rounds) with TIMES, (seconds, low, high)
        of a decode step, for which a prefill keeps others waiting, and of a prefill: core/service/generation.h."""
        line = " ".join(f"{number:.9g}" for number in (*sizes, *times[0], *times[1], *times[2]))
        output = self.run("service", self.cluster(device, 1, runtime), text=line + "\n")
        numbers = [float(word) for word in output.split()]
        return tuple(numbers[:3]), tuple(numbers[3:])

    def collectives(self, device, count, runtime, questions):
        """(seconds, low, high) of each (operation, devices, bytes); None where the product has no answer."""
        text = "".join(f"{operation} {devices} {size}\n" for operation, devices, size in questions)
        output = self.run("collectives", self.cluster(device, count, runtime), text=text)
        if not output:
            return [None] * len(questions)
        return [tuple(map(float, line.split())) for line in output.splitlines()]

    def model(self, sizes):
        """The file of the model that GRAPH_OF makes of SIZES."""
        if sizes not in self.models:
            self.models[sizes] = self.write(self.graph_of(*sizes))
        return self.models[sizes]

    def layout(self, sizes, device, runtime, layout):
        """(latency, interval, bytes) of a Layout of the model of SIZES, each (value, low, high); None where it does not
        fit."""
        key = (sizes, device, runtime, layout)
        if key not in self.layouts:
            cluster = self.cluster(device, layout.devices, runtime)
            numbers = [float(word) for word in (self.run("layout", self.model(sizes), cluster, *layout.words()) or "").split()]
            self.layouts[key] = tuple((numbers[i], *numbers[3 + 2 * i:5 + 2 * i]) for i in range(3)) if numbers else None
        return self.layouts[key]
