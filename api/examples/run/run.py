#!/usr/bin/env python3
"""Runs the devices' models of a plan, a process for each device, with ONNX Runtime on processors.

    pip install onnxruntime numpy && python3 run.py DIR [OPTIONS]

DIR is what `shardplan export PLAN.json --model MODEL --format sessions -o DIR` wrote; README.md has the options; tensors of
--inputs and --outputs are .npz files. Or from a program of your own:

    with Processes(DIR) as processes:
        outputs = processes.run({"ids": numpy.zeros((1, 16), numpy.int64)})
"""
import argparse
import concurrent.futures
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time

import numpy

from manifest import Manifest, join_boxes, take_box
from wire import PROTOCOL, Channel, Mailbox, array_of, parse_address

SAME = 1e-3  # sums are added up in another order
RANK = (sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "rank.py"))


class Copy:
    def __init__(self):
        self.mailbox, self.next, self.in_flight, self.ranks = Mailbox(), 0, 0, []


class Rank:
    def __init__(self, device):
        self.device, self.channel, self.models, self.seconds, self.spent = device, None, 0, 0.0, 0.0


class Loop:
    """The states stay on the devices that made them: run() gives the outputs but for these, and the first step takes them
    as they are at the beginning. The models have to be for the sizes of all steps. end() lets the states go."""

    def __init__(self, processes, number, copy, route):
        self.processes, self.number, self.copy, self.route, self.steps = processes, number, copy, route, 0

    def run(self, feeds):
        self.steps += 1
        return self.processes._run(feeds, self.copy, self.route, {"loop": self.number, "step": self.steps - 1})

    def end(self):
        for rank in self.copy.ranks:
            rank.channel.send({"type": "end", "loop": self.number})


class Processes:
    """Starts a process for each device of each copy of the plan, or takes those that are at the addresses `at`."""

    def __init__(self, folder, threads=1, at=None, command=RANK):
        self.manifest, self.children, self.failure, self.is_over = Manifest(folder), [], None, False
        self.copies = [Copy() for _ in self.manifest.copies]
        self.wiring = [(self.manifest.feeds(route), self.manifest.results(route),
                        {device["id"] for device in self.manifest.on(route)}) for route in range(len(self.manifest.routes))]
        self.loops = 0
        self.taken, self.lock = [0] * len(self.manifest.routes), threading.Lock()
        needed = len(self.copies) * len(self.manifest.devices)
        if at is not None and len(at) < needed:
            raise ValueError(f"The plan needs {needed} processes, and {len(at)} addresses are given.")
        try:
            addresses = list(at or self._launch(needed, [*command, folder, "--threads", str(threads)]))
            ready = []
            for copy in self.copies:
                own = {device: addresses.pop(0) for device in self.manifest.devices}
                copy.ranks = [Rank(device) for device in own]
                ready += [self._connect(copy, rank, own) for rank in copy.ranks]
            for answer in ready:
                said = answer.get()
                if said is not None:
                    raise RuntimeError(said)
        except BaseException:
            for child in self.children:
                child.kill()
            raise

    def _launch(self, count, command):
        self.children += [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        for child in self.children:
            line = child.stdout.readline()
            if not line:
                raise RuntimeError(f"A process ended with status {child.wait()} before it was ready.")
            yield json.loads(line)["listen"]

    def _connect(self, copy, rank, addresses):
        ready = queue.Queue()

        def gone(message):
            ready.put(message)
            if not self.is_over:
                self._fail(message)

        def receive(_, head, data):
            if head["type"] == "error":
                gone(head["message"] if " is gone: " in head["message"] else f"Device {rank.device}: {head['message']}")
            elif head["type"] == "ready":
                rank.models = head["models"]
                ready.put(None)
            elif head["type"] == "tensor":
                copy.mailbox.put(head["request"], head["key"], array_of(head, data))
            elif head["type"] == "done":
                rank.seconds, rank.spent = rank.seconds + head["seconds"], head["spent"]
                copy.mailbox.put(head["request"], f"done {rank.device}", True)

        rank.channel = Channel(socket.create_connection(parse_address(addresses[rank.device])), receive,
                               lambda why: gone(f"Device {rank.device} is gone: {why or 'its connection closed'}."))
        rank.channel.accept()
        rank.channel.send({"type": "hello", "role": "driver", "protocol": PROTOCOL, "manifest": self.manifest.digest,
                           "device": rank.device, "addresses": addresses})
        return ready

    def _fail(self, message):
        with self.lock:
            if self.failure is not None:
                return
            self.failure = message
        for copy in self.copies:
            copy.mailbox.fail(message)
            for rank in copy.ranks:
                if rank.channel is not None:
                    rank.channel.send({"type": "stop", "message": message})

    def ranks(self):
        return [(number, rank) for number, copy in enumerate(self.copies) for rank in copy.ranks]

    def run(self, feeds):
        """The outputs of one request by name; several threads may ask. The copy with the fewest requests takes it, on the
        route that has had the least of its share."""
        with self.lock:
            copy, route = self._choose()
        return self._run(feeds, copy, route)

    def loop(self):
        """Steps that hand states on, such as the keys and values of a decoder."""
        with self.lock:
            self.loops += 1
            return Loop(self, self.loops, *self._choose())

    def _choose(self):
        shares = [(route or {}).get("share", 1) for route in self.manifest.routes]
        route = min(range(len(shares)), key=lambda i: (self.taken[i] + 1) / shares[i])
        self.taken[route] += 1
        return min(self.copies, key=lambda each: each.in_flight), route

    def _run(self, feeds, copy, route, loop=None):
        if self.failure is not None:
            raise RuntimeError(self.failure)
        needed, results, devices = self.wiring[route]
        ranks = [rank for rank in copy.ranks if rank.device in devices]
        with self.lock:  # all devices get requests in one order
            request, copy.next, copy.in_flight = copy.next, copy.next + 1, copy.in_flight + 1
            for rank in ranks:
                rank.channel.send({"type": "request", "request": request, "route": route, **(loop or {})})
        pasts = set(self.manifest.states.values()) if loop and loop["step"] > 0 else ()
        presents = self.manifest.states if loop else ()
        try:
            channels, pieces = {rank.device: rank.channel for rank in ranks}, {}
            for device, key, tensor, box in needed:
                if tensor in pasts:
                    continue
                if tensor not in feeds:
                    raise ValueError(f"The input '{tensor}' is missing.")
                channels[device].send({"type": "tensor", "request": request, "key": key}, take_box(feeds[tensor], box))
            for key, tensor, box in results:
                if tensor not in presents:
                    pieces.setdefault(tensor, []).append((copy.mailbox.take(request, key), box))
            for device in devices:
                copy.mailbox.take(request, f"done {device}")
            return {tensor: join_boxes(list_of) for tensor, list_of in pieces.items()}
        finally:
            with self.lock:
                copy.in_flight -= 1
            copy.mailbox.forget(request)

    def stop(self):
        self.is_over = True
        for _, rank in self.ranks():
            rank.channel.send({"type": "stop", **({"message": self.failure} if self.failure else {})})
            rank.channel.close()
        for child in self.children:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def make_up(manifest):
    """Inputs of the plan's sizes: integers are 0 or 1, which every table of a vocabulary has."""
    feeds = {}
    for tensor in manifest.inputs:
        if tensor["shape"] is None or tensor["dtype"] in (None, "string"):
            raise ValueError(f"Say the input '{tensor['name']}' with --inputs: none is made up for it.")
        shape, dtype = [1 if extent is None else extent for extent in tensor["shape"]], numpy.dtype(tensor["dtype"])
        numbers = numpy.arange(int(numpy.prod(shape)))
        feeds[tensor["name"]] = (numpy.sin(numbers) if dtype.kind == "f" else numbers & 1).astype(dtype).reshape(shape)
    return feeds


def measure(processes, feeds, requests, in_flight):
    """Latency of requests one by one, then throughput with several on their way."""
    for _ in range(2):
        processes.run(feeds)
    latencies = []
    for _ in range(requests):
        start = time.perf_counter()
        processes.run(feeds)
        latencies.append(time.perf_counter() - start)
    before, start = [rank.seconds for _, rank in processes.ranks()], time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(in_flight) as threads:
        list(threads.map(lambda _: processes.run(feeds), range(requests)))
    total = time.perf_counter() - start
    devices = [(copy, rank, (rank.seconds - old) / requests) for (copy, rank), old in zip(processes.ranks(), before)]
    return sorted(latencies)[requests // 2], requests / total, devices, total


def compare(model, feeds, outputs):
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names, off = [output.name for output in session.get_outputs()], 0.0
    for name, expected in zip(names, session.run(names, feeds)):
        gap = numpy.max(numpy.abs(outputs[name].astype(numpy.float64) - expected)) if expected.size else 0
        off = max(off, float(gap / max(numpy.max(numpy.abs(expected), initial=0), 1e-30)))
    return off


def report(processes, measured, csv):
    latency, throughput, devices, total = measured
    estimate = processes.manifest.estimate
    rows = [("latency", "s", latency, estimate.get("latency_seconds")),
            ("throughput", "1/s", throughput, estimate.get("throughput_per_second"))]
    print(f"{'':12}{'measured':>16}{'plan':>16}")
    for name, unit, own, planned in rows:
        print(f"{name:12}{own:12.4g} {unit:3}" + (f"{planned:12.4g} {unit:3}" if planned is not None else ""))
    for copy, rank, seconds in devices:
        of = f" of copy {copy}" if len(processes.copies) > 1 else ""
        print(f"device {rank.device}{of}: {rank.models} models, computes {seconds:.4g} s per request")
    if csv:
        with open(csv, "w", encoding="utf-8") as file:
            file.write("figure,unit,measured,plan\n")
            for name, unit, own, planned in rows:
                file.write(f"{name},{unit},{own},{'' if planned is None else planned}\n")
            for copy, rank, seconds in devices:
                file.write(f"compute of device {rank.device} of copy {copy},s,{seconds},\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    for name in ("inputs", "outputs", "compare", "csv", "at"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--in-flight", type=int)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with Processes(options.folder, options.threads, options.at.split(",") if options.at else None) as processes:
        feeds = dict(numpy.load(options.inputs)) if options.inputs else make_up(processes.manifest)
        outputs = processes.run(feeds)
        print(f"{len(processes.ranks())} processes are ready.")
        if options.outputs:
            numpy.savez(options.outputs, **outputs)
        if options.compare:
            off, name = compare(options.compare, feeds, outputs), os.path.basename(options.compare)
            if not off < SAME:
                raise ValueError(f"The results are not those of {name}: they differ by {off:.2g} of the largest element.")
            print(f"The results are those of {name}.")
        if options.requests > 0:
            in_flight = options.in_flight or len(processes.ranks()) + len(processes.copies)
            report(processes, measure(processes, feeds, options.requests, in_flight), options.csv)


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
