#!/usr/bin/env python3
"""The daemon among clients that do little for a long time.

    tests/bench/soak.py [--build build] [--minutes 15] [--streams 300] [--uploads 100] [--slow 20]

For all that time there are streams of events about a plan that does not move, uploads of which only the beginning
comes, readers that take a download by drops and writers that send one by drops; who is cut off comes again. Meanwhile
one client asks /livez twenty times a second, and two tenants upload, plan, check, download, read pages and delete. A
third one floods: it holds more connections, compressed bodies and requests than its share, is refused and comes again.
Printed: how long /livez took, and each minute descriptors, resident and proportional memory of the daemon and all its
workers, and open connections; at the end the slope of each over the time (least squares), and whether it is flat: it
rises by less than a hundredth of its mean in an hour, or by not more than twice the error of the slope. An answer that is wrong ends the program.
"""

import argparse
import contextlib
import http.client
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
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


class Flood(threading.Thread):
    """A tenant that asks for more than its share, as fast as it can: most of it is refused."""

    def __init__(self, port, token):
        super().__init__(daemon=True)
        self.port = port
        self.head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\n".encode()
        self.statuses = {}
        self.stopping = False

    def requests(self):
        json_body = b'{"model":"' + b"0" * 64 + b'","other":[' + b"{}," * 20000 + b"{}]}"
        json_head = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(json_body)
        yield b"POST /v1/plans HTTP/1.1\r\n" + self.head + json_head + json_body
        yield b"POST /v1/models HTTP/1.1\r\n" + self.head + b"Content-Length: 5\r\n\r\nwrong"
        yield (b"POST /v1/models HTTP/1.1\r\n" + self.head + b"Content-Encoding: gzip\r\nContent-Length: 1000000\r\n\r\n" +
               b"\x1f\x8b\x08\x00" + b"\0" * 40)
        yield b"POST /v1/plans HTTP/1.1\r\n" + self.head + json_head + json_body[:1000]
        yield b"GET /v1/plans?page_size=500 HTTP/1.1\r\n" + self.head + b"\r\n"
        yield b"GET /v1/models HTTP/1.1\r\n" + self.head.replace(b"Bearer ", b"Bearer wrong") + b"\r\n"
        yield b"GET / HTTP/1.1\r\nX-Half: "

    def run(self):
        held = []
        requests = list(self.requests())
        number = 0
        while not self.stopping:
            try:
                connection = socket.create_connection(("127.0.0.1", self.port), timeout=5)
                connection.sendall(requests[number % len(requests)])
                connection.settimeout(0.02)
                status = connection.recv(65536)[9:12].decode(errors="replace")
            except TimeoutError:
                status = "none yet"
            except OSError:
                status = "closed"
            self.statuses[status] = self.statuses.get(status, 0) + 1
            held.append(connection)
            number += 1
            if len(held) > 700:
                held.pop(0).close()
        for connection in held:
            connection.close()


class Worker(threading.Thread):
    """Uploads, plans, checks, downloads and deletes, over and over."""

    def __init__(self, daemon, number, model, token):
        super().__init__(daemon=True)
        self.daemon_process = daemon
        self.number = number
        self.model = model
        self.token = {"Authorization": f"Bearer {token}"}
        self.rounds = 0
        self.stopping = False

    def run(self):
        while not self.stopping:
            def ask(method, path, body=None, headers=None, **more):
                return self.daemon_process.request(method, path, body, {**self.token, **(headers or {})}, **more)

            body = self.model(self.number * 1000 + self.rounds % 500)
            options = {"Prefer": "wait=60", "Cache-Control": "no-cache"}
            answer = ask("POST", "/v1/plans?devices=2&device=a100-sxm4-80gb", body, options, check=False)
            if answer.status != 200 or answer.json["state"] != "succeeded":
                return lacking.fail(f"planning was answered with {answer}")
            plan, model = answer.json["id"], answer.json["model"]
            if ask("POST", f"/v1/models/{model}/check", {}, check=False).status != 200 or \
                    any(ask("GET", page, check=False).status != 200 for page in ("/v1/plans", "/v1/models", "/")):
                return lacking.fail("a check or a page cannot be had")
            for path in ("", "/model", "/timeline"):
                if ask("GET", f"/v1/plans/{plan}{path}", check=False).status != 200:
                    return lacking.fail(f"/v1/plans/{plan}{path} cannot be had")
            ask("DELETE", f"/v1/plans/{plan}", check=False)
            ask("DELETE", f"/v1/models/{model}", check=False)
            self.rounds += 1


FIGURES = ("descriptors", "resident MB", "proportional MB", "connections")


def memory(pid, name):
    """A sum of /proc/PID/smaps_rollup in MB; 0 for a process that is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return int(re.search(rf"^{name}:\s+(\d+)", file.read(), re.MULTILINE).group(1)) / 1024
    except (OSError, AttributeError):
        return 0


def figures(daemon):
    """As FIGURES: of the daemon; the third one of it and its workers together."""
    pid = daemon.process.pid
    together = sum(memory(one, "Pss") for one in [pid, *daemon.workers()])
    return len(os.listdir(f"/proc/{pid}/fd")), memory(pid, "Rss"), together, daemon.metric("shardplan_http_connections")


def slope(times, values):
    """Of the line through them, for an hour, and whether it does not rise."""
    middle, mean = sum(times) / len(times), sum(values) / len(values)
    spread = sum((time - middle) ** 2 for time in times)
    a_second = sum((time - middle) * (value - mean) for time, value in zip(times, values)) / spread if spread > 0 else 0
    rest = [value - mean - a_second * (time - middle) for time, value in zip(times, values)]
    error = (sum(one * one for one in rest) / max(1, len(rest) - 2) / spread) ** 0.5 if spread > 0 else 0
    return a_second * 3600, a_second * 3600 <= mean / 100 or a_second <= 2 * error


def make_tokens(program, path, names):
    """A file of tokens with a principal for each name; the tokens."""
    tokens, entries = {}, []
    for name, scopes in names.items():
        lines = subprocess.run([program, "token", name, "--scopes", scopes], capture_output=True, text=True, check=True).stdout.splitlines()
        tokens[name] = lines[0]
        entries.append(json.loads(lines[1]))
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"principals": entries}, file)
    return tokens


def start_crowd(daemon, arguments, big):
    """A worker that is stopped holds the plan that the streams are about."""
    workers = daemon.freeze()
    body = {"model": big, "cluster": {"device": "a100-sxm4-80gb", "count": 2}}
    plan = daemon.request("POST", "/v1/plans", body, check=False).json["id"]
    daemon.wait_for(lambda: daemon.get(f"/v1/plans/{plan}").json["state"] == "running", "a running plan")
    daemon.thaw(workers[1:])
    host = f"Host: localhost\r\nAuthorization: Bearer {daemon.token}\r\n".encode()
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
    parser.add_argument("--streams", type=int, default=300)
    parser.add_argument("--uploads", type=int, default=100)
    parser.add_argument("--slow", type=int, default=20)
    arguments = parser.parse_args()
    lacking.need_built(os.environ.get("SHARDPLAND", os.path.join(arguments.build, "server/shardpland")))
    os.environ.setdefault("SHARDPLAND", os.path.join(arguments.build, "server/shardpland"))
    sys.path[:0] = [os.path.join(ROOT, "tests/api"), os.path.join(ROOT, "tests/tools")]
    import daemon as harness  # noqa: PLC0415 (needs the path)
    import onnx_make  # noqa: PLC0415

    def model(index):
        return onnx_make.encode(onnx_make.chain(50, (8, 64 + index)))

    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        tokens = make_tokens(os.environ["SHARDPLAND"], os.path.join(folder, "tokens.json"),
                             {"chief": "read,plan,admin", "one": "read,plan", "two": "read,plan", "flood": "read,plan"})
        daemon = stack.enter_context(harness.Daemon("--workers", "2", "--job-seconds", "86400", "--tenant-plans", "0",
                                                    "--tokens", os.path.join(folder, "tokens.json"), "--max-connections", "6000"))
        daemon.token = tokens["chief"]
        stack.callback(daemon.kill)  # the stopped worker would only be waited for
        big = daemon.upload(onnx_make.encode(onnx_make.big(100_000_000))).json["id"]
        crowd = start_crowd(daemon, arguments, big)
        asker = Asker(daemon.port)
        workers = [Worker(daemon, number, model, tokens[name]) for number, name in enumerate(("one", "two"))]
        flood = Flood(daemon.port, tokens["flood"])
        for thread in (asker, flood, *workers):
            thread.start()
        start = time.monotonic()
        time.sleep(min(WARM_UP, arguments.minutes * 20))
        first = figures(daemon)
        asker.times.clear()
        print("minute  " + "  ".join(FIGURES) + "  rounds of work")
        times, sampled = [], []
        while True:
            sampled.append(figures(daemon))
            times.append(time.monotonic())
            minute = (time.monotonic() - start) / 60
            rounds = sum(worker.rounds for worker in workers)
            print(f"{minute:6.1f}  " + "  ".join(f"{value:{len(name)}.1f}" for name, value in zip(FIGURES, sampled[-1])) +
                  f"  {rounds:14d}", flush=True)
            if minute >= arguments.minutes:
                break
            time.sleep(min(20, max(1, (arguments.minutes - minute) * 60)))
        last = figures(daemon)
        asked = sorted(asker.times)
        for thread in (asker, crowd, flood, *workers):
            thread.stopping = True
        print(f"first {first[0]} descriptors, {first[1]:.1f} MB; last {last[0]} descriptors, {last[1]:.1f} MB")
        for at, name in enumerate(FIGURES):
            hourly, is_flat = slope(times, [values[at] for values in sampled])
            print(f"{name}: {hourly:+.2f} an hour, {'flat' if is_flat else 'NOT FLAT'}")
        print(f"answers to the flood: {flood.statuses}")
        print(
            f"/livez asked {len(asked)} times: p50 {asked[len(asked) // 2] * 1e3:.1f} ms, "
            f"p99 {asked[len(asked) * 99 // 100] * 1e3:.1f} ms, longest {asked[-1] * 1e3:.1f} ms"
        )
        for name, count in crowd.came_again.items():
            print(f"{name}: cut off and came again {count} times, heard {crowd.heard[name]} bytes")
        for worker in workers:
            worker.join(70)


if __name__ == "__main__":
    lacking.run(main)
