#!/usr/bin/env python3
"""How much the daemon carries, beside the least that its HTTP library can do.

    tests/bench/load.py [--build build] [--seconds 5] [--upload-bytes 2000000000] [--plans 1000] [reads] [upload] [plans]

reads   requests per second of GET /v1/plans/{id} of a large and a small plan by wrk, beside bare_http answering as many constant bytes
upload  bytes per second of one large model, beside bare_http hashing and writing the same file
plans   small plans of 50 nodes each, submitted with 16 connections: plans per second, and how long one takes

Both sides of a ratio run in turn, several times, in the same minutes; medians are printed. Nothing is asserted.
"""

import argparse
import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))

import lacking  # noqa: E402
import onnx_make  # noqa: E402

ROUNDS = 3


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Peer:
    """A server that ends with the `with` that it is in."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Bare(Peer):
    """The peer."""

    def __init__(self, build, size, folder):
        self.port = free_port()
        self.process = subprocess.Popen(
            [os.path.join(build, "tests/bench/bare_http"), str(self.port), str(size), folder], stdout=subprocess.PIPE
        )
        if not self.process.stdout.readline():
            sys.exit(f"bare_http ended with {self.process.wait()}")

    def close(self):
        self.process.kill()
        self.process.wait()


class Served(Peer):
    """The daemon in a folder of its own."""

    def __init__(self, build, folder, *options):
        self.port = free_port()
        self.log = open(os.path.join(folder, "log"), "wb")
        self.process = subprocess.Popen(
            [
                os.path.join(build, "server/shardpland"),
                *("--listen", f"127.0.0.1:{self.port}", "--data", os.path.join(folder, "data"), *options),
            ],
            stderr=self.log,
        )
        deadline = time.monotonic() + 30
        while self.ask("GET", "/readyz")[0] != 200:
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.process.kill()
                sys.exit("the daemon is not ready after 30 seconds, or has ended")
            time.sleep(0.05)

    def ask(self, method, path, body=None, **headers):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
            answer = connection.getresponse()
            result = answer.status, answer.read()
            connection.close()
            return result
        except OSError:
            return 0, b""

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def small_model(index):
    """A chain of 50 nodes; the index makes its shapes, and so the model, another one."""
    return onnx_make.encode(onnx_make.chain(50, (8, 64 + index)))


def wrk(port, path, seconds, connections):
    output = subprocess.run(
        ["wrk", "-t2", f"-c{connections}", f"-d{seconds}s", "--latency", f"http://127.0.0.1:{port}{path}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        print(output)
    return float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1)), re.search(r"99%\s+(\S+)", output).group(1)


def reads(arguments, folder):
    with Served(arguments.build, folder) as served:
        for name in ("vit_l_16.onnx", "transformer_tiny.onnx"):
            with open(os.path.join(ROOT, "tests/data", name), "rb") as file:
                model = file.read()
            options = {"Content_Type": "application/octet-stream", "Prefer": "wait=60"}
            status, body = served.ask("POST", "/v1/plans?devices=4&device=a100-sxm4-80gb", model, **options)
            if status != 200:
                sys.exit(f"planning failed: {body!r}")
            read(arguments, folder, served, "/v1/plans/" + json.loads(body)["id"])


def read(arguments, folder, served, path):
    size = len(served.ask("GET", path)[1])
    with Bare(arguments.build, size, folder) as bare:
        for connections in (16, 64):
            ours, theirs = [], []
            for _ in range(ROUNDS):
                theirs.append(wrk(bare.port, "/", arguments.seconds, connections))
                ours.append(wrk(served.port, path, arguments.seconds, connections))
            mine, peer = statistics.median(x[0] for x in ours), statistics.median(x[0] for x in theirs)
            print(
                f"GET {size} bytes, {connections} connections: {mine:.0f}/s (99 % within {ours[-1][1]}), "
                f"bare {peer:.0f}/s, ratio {mine / peer:.2f}"
            )


def send(port, path, source):
    """Seconds until curl has the answer to an upload."""
    start = time.monotonic()
    output = subprocess.run(
        ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-T", source, "-X", "POST"]
        + ["-H", "Content-Type: application/octet-stream", f"http://127.0.0.1:{port}{path}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    if output not in ("200", "201"):
        sys.exit(f"the upload was answered with {output}")
    return time.monotonic() - start


def upload(arguments, folder):
    source = os.path.join(folder, "large.onnx")
    onnx_make.write(source, onnx_make.big(arguments.upload_bytes))
    size = os.path.getsize(source)
    with Served(arguments.build, folder) as served, Bare(arguments.build, 1, folder) as bare:
        with open(source, "rb") as file:  # into the page cache
            while file.read(1 << 24):
                pass
        ours, theirs = [], []
        for _ in range(ROUNDS):
            theirs.append(size / send(bare.port, "/", source))
            ours.append(size / send(served.port, "/v1/models", source))
            identifier = json.loads(served.ask("GET", "/v1/models")[1])["models"][0]["id"]
            served.ask("DELETE", "/v1/models/" + identifier)
        mine, peer = statistics.median(ours), statistics.median(theirs)
        print(
            f"upload of {size} bytes: {mine / 1e6:.0f} MB/s stored and inspected, bare {peer / 1e6:.0f} MB/s, "
            f"ratio {mine / peer:.2f}"
        )


def plans(arguments, folder):
    with Served(arguments.build, folder) as served:
        bodies = [small_model(index) for index in range(arguments.plans)]
        todo, times, lock = list(range(arguments.plans)), [], threading.Lock()

        def client():
            connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)
            while True:
                with lock:
                    if not todo:
                        return
                    index = todo.pop()
                start = time.monotonic()
                connection.request(
                    "POST",
                    "/v1/plans?devices=4&device=a100-sxm4-80gb",
                    bodies[index],
                    {"Content-Type": "application/octet-stream", "Prefer": "wait=60"},
                )
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200:
                    raise SystemExit(f"{answer.status}: {body[:300]!r}")
                with lock:
                    times.append(time.monotonic() - start)

        start = time.monotonic()
        threads = [threading.Thread(target=client, daemon=True) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        elapsed = time.monotonic() - start
        times.sort()
        print(
            f"{len(times)} plans of 50 nodes, 16 connections: {len(times) / elapsed:.0f} plans/s; one takes "
            f"p50 {times[len(times) // 2] * 1e3:.0f} ms, p99 {times[len(times) * 99 // 100] * 1e3:.0f} ms"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--upload-bytes", type=int, default=2_000_000_000)
    parser.add_argument("--plans", type=int, default=1000)
    parser.add_argument("what", nargs="*", choices=["reads", "upload", "plans", []])
    arguments = parser.parse_args()
    lacking.need_built(os.path.join(arguments.build, "server/shardpland"))
    if set(arguments.what or ["reads", "upload"]) & {"reads", "upload"}:
        lacking.need_built(os.path.join(arguments.build, "tests/bench/bare_http"), "-Dtests=true")
    for name, program in (("reads", "wrk"), ("upload", "curl")):
        if name in (arguments.what or ["reads", "upload"]):
            lacking.need_program(program)
    for name in arguments.what or ["reads", "upload", "plans"]:
        with tempfile.TemporaryDirectory(prefix="shardplan-load-") as folder:
            {"reads": reads, "upload": upload, "plans": plans}[name](arguments, folder)


if __name__ == "__main__":
    lacking.run(main)
