#!/usr/bin/env python3
"""The daemon among clients that do little for a long time.

    tests/bench/soak.py [--build build] [--minutes 15] [--streams 1000] [--uploads 500] [--slow 20]

For all that time there are streams of events about a plan that does not move, uploads of which only the beginning
comes, readers that take a download by drops and writers that send one by drops; who is cut off comes again. Meanwhile
one client asks /livez twenty times a second, and two upload, plan, download and delete. Printed: how long /livez took,
and each minute descriptors, resident memory and open connections of the daemon; the first and the last line are to be
compared. Nothing is asserted, but an answer that is wrong ends the program.
"""

import argparse
import contextlib
import http.client
import os
import re
import selectors
import socket
import sys
import threading
import time

import lacking

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

WARM_UP = 30  # seconds before the first figures
DROP = 0.2  # seconds between what slow clients do


class Crowd(threading.Thread):
    """Clients that do little, in one thread. A kind is what it says first, and what it does at each drop."""

    def __init__(self, port, kinds):
        super().__init__(daemon=True)
        self.port = port
        self.kinds = kinds  # (name, number, first bytes, bytes at each drop, whether it reads at all)
        self.selector = selectors.DefaultSelector()
        self.stopping = False
        self.came_again = {name: 0 for name, *_ in kinds}
        self.heard = {name: 0 for name, *_ in kinds}
        self.slow = []

    def open(self, kind):
        name, _, first, drop, reads = kind
        connection = socket.socket()
        if drop is not None or not reads:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", self.port))
        connection.sendall(first)
        connection.setblocking(False)
        if reads:
            self.selector.register(connection, selectors.EVENT_READ, kind)
        if drop is not None or not reads:
            self.slow.append((connection, kind))

    def again(self, connection, kind):
        try:
            self.selector.unregister(connection)
        except KeyError:
            pass
        self.slow = [entry for entry in self.slow if entry[0] is not connection]
        connection.close()
        self.came_again[kind[0]] += 1
        try:
            self.open(kind)
        except OSError:
            time.sleep(0.05)

    def drops(self):
        for connection, kind in list(self.slow):
            try:
                if kind[3]:
                    connection.send(kind[3])
                elif not kind[4] and not connection.recv(512):
                    self.again(connection, kind)
            except BlockingIOError:
                pass
            except OSError:
                self.again(connection, kind)

    def run(self):
        for kind in self.kinds:
            for _ in range(kind[1]):
                self.open(kind)
        due = time.monotonic()
        while not self.stopping:
            for key, _ in self.selector.select(0.05):
                try:
                    data = key.fileobj.recv(65536)
                except OSError:
                    data = b""
                self.heard[key.data[0]] += len(data)
                if not data:
                    self.again(key.fileobj, key.data)
            if time.monotonic() >= due:
                self.drops()
                due = time.monotonic() + DROP


class Asker(threading.Thread):
    """Asks /livez twenty times a second, each time over a connection of its own."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.times = []
        self.stopping = False

    def run(self):
        while not self.stopping:
            start = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            connection.request("GET", "/livez")
            status = connection.getresponse().status
            connection.close()
            if status != 200:
                sys.exit(f"/livez answered {status}")
            self.times.append(time.monotonic() - start)
            time.sleep(0.05)


class Worker(threading.Thread):
    """Uploads, plans, downloads and deletes, over and over."""

    def __init__(self, daemon, number, model):
        super().__init__(daemon=True)
        self.daemon_process = daemon
        self.number = number
        self.model = model
        self.rounds = 0
        self.stopping = False

    def run(self):
        while not self.stopping:
            ask = self.daemon_process.request
            body = self.model(self.number * 1000 + self.rounds % 500)
            options = {"Prefer": "wait=60", "Cache-Control": "no-cache"}
            answer = ask("POST", "/v1/plans?devices=2&device=a100-sxm4-80gb", body, options, check=False)
            if answer.status != 200 or answer.json["state"] != "succeeded":
                return lacking.fail(f"planning was answered with {answer}")
            plan, model = answer.json["id"], answer.json["model"]
            for path in ("", "/model", "/timeline"):
                if ask("GET", f"/v1/plans/{plan}{path}", check=False).status != 200:
                    return lacking.fail(f"/v1/plans/{plan}{path} cannot be had")
            ask("DELETE", f"/v1/plans/{plan}", check=False)
            ask("DELETE", f"/v1/models/{model}", check=False)
            self.rounds += 1


def figures(daemon):
    pid = daemon.process.pid
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        resident = int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))
    return len(os.listdir(f"/proc/{pid}/fd")), resident / 1024, daemon.metric("shardplan_http_connections")


def start_crowd(daemon, arguments, big):
    """A worker that is stopped holds the plan that the streams are about."""
    workers = daemon.freeze()
    body = {"model": big, "cluster": {"device": "a100-sxm4-80gb", "count": 2}}
    plan = daemon.request("POST", "/v1/plans", body, check=False).json["id"]
    daemon.wait_for(lambda: daemon.get(f"/v1/plans/{plan}").json["state"] == "running", "a running plan")
    daemon.thaw(workers[1:])
    host = b"Host: localhost\r\n"
    upload = b"POST /v1/models HTTP/1.1\r\n" + host + b"Content-Type: application/octet-stream\r\n"
    upload += b"Content-Length: 100000000\r\n\r\n" + b"\x08" * 1000
    stream = f"GET /v1/plans/{plan}/events HTTP/1.1\r\n".encode() + host + b"\r\n"
    download = f"GET /v1/models/{big}/content HTTP/1.1\r\n".encode() + host + b"\r\n"
    crowd = Crowd(
        daemon.port,
        [
            ("streams", arguments.streams, stream, None, True),
            ("half-open uploads", arguments.uploads, upload, None, True),
            ("slow writers", arguments.slow, upload, b"\x08" * 10, True),
            ("slow readers", arguments.slow, download, None, False),
        ],
    )
    crowd.start()
    return crowd


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--uploads", type=int, default=500)
    parser.add_argument("--slow", type=int, default=20)
    arguments = parser.parse_args()
    lacking.need_built(os.environ.get("SHARDPLAND", os.path.join(arguments.build, "server/shardpland")))
    os.environ.setdefault("SHARDPLAND", os.path.join(arguments.build, "server/shardpland"))
    sys.path[:0] = [os.path.join(ROOT, "tests/api"), os.path.join(ROOT, "tests/tools")]
    import daemon as harness  # noqa: PLC0415 (needs the path)
    import onnx_make  # noqa: PLC0415

    def model(index):
        return onnx_make.encode(onnx_make.chain(50, (8, 64 + index)))

    with harness.Daemon("--workers", "2", "--job-seconds", "86400", "--tenant-plans", "0") as daemon, contextlib.ExitStack() as stack:
        stack.callback(daemon.kill)  # the stopped worker would only be waited for
        big = daemon.upload(onnx_make.encode(onnx_make.big(100_000_000))).json["id"]
        crowd = start_crowd(daemon, arguments, big)
        asker = Asker(daemon.port)
        workers = [Worker(daemon, number, model) for number in range(2)]
        for thread in (asker, *workers):
            thread.start()
        start = time.monotonic()
        time.sleep(min(WARM_UP, arguments.minutes * 20))
        first = figures(daemon)
        asker.times.clear()
        print("minute  descriptors  resident MB  connections  rounds of work")
        while True:
            descriptors, resident, connections = figures(daemon)
            minute = (time.monotonic() - start) / 60
            rounds = sum(worker.rounds for worker in workers)
            print(f"{minute:6.1f}  {descriptors:11d}  {resident:11.1f}  {connections:11.0f}  {rounds:14d}", flush=True)
            if minute >= arguments.minutes:
                break
            time.sleep(min(60, max(1, (arguments.minutes - minute) * 60)))
        last = figures(daemon)
        times = sorted(asker.times)
        for thread in (asker, crowd, *workers):
            thread.stopping = True
        print(f"first {first[0]} descriptors, {first[1]:.1f} MB; last {last[0]} descriptors, {last[1]:.1f} MB")
        print(
            f"/livez asked {len(times)} times: p50 {times[len(times) // 2] * 1e3:.1f} ms, "
            f"p99 {times[len(times) * 99 // 100] * 1e3:.1f} ms, longest {times[-1] * 1e3:.1f} ms"
        )
        for name, count in crowd.came_again.items():
            print(f"{name}: cut off and came again {count} times, heard {crowd.heard[name]} bytes")
        for worker in workers:
            worker.join(70)


if __name__ == "__main__":
    lacking.run(main)
