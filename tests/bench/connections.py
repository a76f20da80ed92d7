#!/usr/bin/env python3
"""connections.py [--idle N] [--uploads N] [--readers N] [--tls] [--limit MS]: how the daemon answers while many hold connections.

Opens idle connections, uploads that have stopped halfway, and downloads that nobody reads, then asks for /livez again and
again, over new connections and over one that is kept, and prints the times and what the daemon uses. Exit status 1 when
the slowest one in a hundred is beyond the limit.

SHARDPLAND names the program (default: build/server/shardpland).
"""
import argparse
import os
import resource
import socket
import ssl
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../api"))
sys.dont_write_bytecode = True

import lacking  # noqa: E402
from certificates import Authority  # noqa: E402
from daemon import PROGRAM, Daemon, processor_ticks, status_bytes  # noqa: E402

UPLOAD = b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\n" + b"y" * 1000
GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def ask(connection):
    """Head and body may come one after the other."""
    connection.sendall(GET)
    answer = b""
    while not answer.endswith(b"ok\n"):
        piece = connection.recv(4096)
        if not piece:
            break
        answer += piece
    return answer


def percentile(times, part):
    return sorted(times)[min(len(times) - 1, int(len(times) * part))] * 1000


def measure(name, request, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        answer = request()
        times.append(time.perf_counter() - begin)
        assert answer.startswith(b"HTTP/1.1 200 "), answer[:200]
    print(f"{name:<40} median {percentile(times, 0.5):7.2f} ms   99 % {percentile(times, 0.99):7.2f} ms   most {max(times) * 1000:7.2f} ms")
    return percentile(times, 0.99)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--uploads", type=int, default=500)
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--limit", type=float, default=50)
    parser.add_argument("--tls", action="store_true")
    options = parser.parse_args()
    lacking.need_built(PROGRAM)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    daemon = Daemon("--workers", "1", "--max-connections", str(options.idle + options.uploads + options.readers + 100))
    if options.tls:
        authority = Authority(os.path.dirname(daemon.data))
        certificate, key = authority.make("server")
        daemon.options += ("--tls-certificate", certificate, "--tls-key", key)
        daemon.tls = ssl.create_default_context(cafile=authority.path("ca"))
    with daemon:
        sys.exit(1 if run(daemon, options) > options.limit else 0)


def run(daemon, options):
    def connect():
        plain = socket.create_connection(("127.0.0.1", daemon.port), timeout=30)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return daemon.tls.wrap_socket(plain, server_hostname="127.0.0.1") if daemon.tls else plain

    def once():
        with connect() as connection:
            return ask(connection)

    kept = connect()

    def again():
        return ask(kept)

    measure("alone, a new connection each", once, options.count)
    held = []
    begin = time.perf_counter()
    for data, number in ((b"", options.idle), (UPLOAD, options.uploads), (b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200, options.readers)):
        for _ in range(number):
            connection = connect()
            connection.sendall(data)
            held.append(connection)
    print(f"{len(held)} connections opened in {time.perf_counter() - begin:.2f} s")
    kept = connect()
    worst = measure("among them, a new connection each", once, options.count)
    worst = max(worst, measure("among them, one that is kept", again, options.count))
    pid = daemon.process.pid
    before = processor_ticks(pid)
    time.sleep(3)
    print(f"processor while they are held: {(processor_ticks(pid) - before) / 3:.1f} % of one; memory {status_bytes(pid, 'VmRSS') >> 20} MiB")
    for connection in held:
        connection.close()
    return worst


if __name__ == "__main__":
    lacking.run(main)
