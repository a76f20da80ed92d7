#!/usr/bin/env python3
"""A model of gigabytes through the daemon: upload, plan, download; TAP on standard output.

    big.py [--bytes 1.5G]

No process may ever hold 64 MB, and every weight must come back unchanged: the annotated file, with its insertions
cut out by the model's own structure, is compared with the original by hash, tensor by tensor.
"""

import argparse
import hashlib
import http.client
import os
import sys
import tempfile

from daemon import Daemon
import onnx_make

LIMIT = 64_000_000


def varint(file):
    value = shift = 0
    while True:
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
        shift += 7


def tensor_hashes(path):
    """SHA-256 of each initializer's whole record, in order; reads the file once, a piece at a time."""
    hashes = []
    with open(path, "rb") as file:
        end = os.fstat(file.fileno()).st_size
        stack = [end]
        while True:
            while stack and file.tell() >= stack[-1]:
                stack.pop()
            if not stack:
                return hashes
            tag = varint(file)
            if tag & 7 == 0:
                varint(file)
                continue
            size = varint(file)
            if len(stack) == 1 and tag >> 3 == 7:  # graph
                stack.append(file.tell() + size)
            elif len(stack) == 2 and tag >> 3 == 5:  # initializer
                digest = hashlib.sha256()
                while size > 0:
                    piece = file.read(min(size, 1 << 20))
                    digest.update(piece)
                    size -= len(piece)
                hashes.append(digest.hexdigest())
            else:
                file.seek(size, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", default="1.5G")
    arguments = parser.parse_args()
    fine = True

    def say(ok, text):
        nonlocal fine
        fine = fine and ok
        print(f"{'ok' if ok else 'not ok'} big: {text}")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="shardpland-big-") as folder:
        original, annotated = os.path.join(folder, "original.onnx"), os.path.join(folder, "annotated.onnx")
        size = onnx_make.write(original, onnx_make.big(onnx_make.parse_bytes(arguments.bytes), "pattern"))
        daemon = Daemon("--workers", "2", data=os.path.join(folder, "data"))
        daemon.start()
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=600)
        with open(original, "rb") as file:
            connection.request(
                "POST", "/v1/plans?devices=4&device=a100-sxm4-80gb", file,
                {"Content-Length": str(size), "Content-Type": "application/octet-stream", "Prefer": "wait=60"},
            )
            answer = connection.getresponse()
            location, body = answer.headers.get("Location"), answer.read()
        say(answer.status == 200, f"{size} bytes uploaded and planned: {answer.status} {body[:80]!r}")
        connection.request("GET", location + "/model")
        answer = connection.getresponse()
        with open(annotated, "wb") as file:
            while piece := answer.read(1 << 20):
                file.write(piece)
        connection.close()
        say(os.path.getsize(annotated) == int(answer.headers["Content-Length"]) > size, "annotated model downloaded")
        peaks = daemon.peak_memory()
        say(max(peaks.values()) < LIMIT, f"peak memory of the daemon and its workers: {sorted(peaks.values())} bytes")
        before, after = tensor_hashes(original), tensor_hashes(annotated)
        say(before == after and len(before) > 0, f"{len(before)} weights came back unchanged")
        daemon.close()
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
