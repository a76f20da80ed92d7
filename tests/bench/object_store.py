#!/usr/bin/env python3
"""How fast a large model comes and goes with an object store, beside the folder; prints, and decides nothing.

    object_store.py [--bytes 2G] [--rounds 2] [--program FILE]

The object store is a real one (tools/s3.py) on this machine, with its objects in memory, so it needs processors itself. Each round
uploads one model to a daemon with a folder, and to one with `--blobs`, and sends the same file to the store without a daemon: in
parts, four at a time, without looking at them, which is the most that a daemon could do. Then the model is read: from the daemon with the folder,
from the other one where the copy is there, and where it is not. For each: seconds, megabytes in a second, and seconds of processors
that the daemon and its workers took (`daemon`) and those of the store (`store`). The last line is the ratio that counts: what the
upload with the object store is of the one to the folder, in the best round.
"""

import argparse
import concurrent.futures
import contextlib
import glob
import http.client
import os
import shutil
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, "tests/tools"), os.path.join(TOP, "tests/api")]
sys.dont_write_bytecode = True

import daemon as harness  # noqa: E402
import lacking  # noqa: E402
import onnx_make  # noqa: E402
import s3  # noqa: E402

PART = 64 << 20
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid):
    """Of the process and of its children, those that ended included."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = file.read().split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15])) / TICKS + sum(map(processor_seconds, children))


class Watch:
    """Measures what is done inside."""

    def __init__(self, daemon, server):
        self.pids = {"daemon": [daemon.process.pid] if daemon else [], "store": [one.pid for one in server.processes.values()]}

    def read(self):
        return {name: sum(map(processor_seconds, pids)) for name, pids in self.pids.items()}

    def __enter__(self):
        self.before, self.began = self.read(), time.monotonic()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self.began
        self.used = {name: after - self.before[name] for name, after in self.read().items()}

    def tell(self, name, size):
        print(f"{name:28} {self.seconds:7.2f} s {size / 1e6 / self.seconds:7.0f} MB/s, "
              f"daemon {self.used['daemon']:6.2f} s, store {self.used['store']:6.2f} s", flush=True)


def upload(daemon, path):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=600)
    with contextlib.closing(connection), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        connection.putrequest("POST", "/v1/models")
        connection.putheader("Content-Type", "application/octet-stream")
        connection.putheader("Content-Length", str(size))
        connection.endheaders()
        connection.sock.sendfile(file)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 201:
            lacking.leave(f"the upload was answered with {answer.status} {body[:300]!r}")
        return answer.headers["Location"]


def download(daemon, location, size):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=600)
    with contextlib.closing(connection):
        connection.request("GET", location + "/content")
        answer = connection.getresponse()
        buffer, got = bytearray(1 << 20), 0
        while count := answer.readinto(buffer):
            got += count
        if (answer.status, got) != (200, size):
            lacking.leave(f"the download was answered with {answer.status} and {got} bytes")


def send_part(server, target, query, path, number):
    """The entity tag. Nothing of the body is looked at or copied here."""
    host = f"127.0.0.1:{server.port}"
    size = min(PART, os.path.getsize(path) - (number - 1) * PART)
    query = f"partNumber={number}&{query}"
    headers = s3.Signer(server.key, server.secret).sign("PUT", "/" + target, query, host, "UNSIGNED-PAYLOAD", {})
    connection = http.client.HTTPConnection(host, timeout=600)
    with contextlib.closing(connection), open(path, "rb") as file:
        connection.putrequest("PUT", f"/{target}?{query}", skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(size))
        connection.endheaders()
        connection.sock.sendfile(file, (number - 1) * PART, size)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            lacking.leave(f"a part was answered with {answer.status}")
        return answer.headers["ETag"]


def send_directly(server, bucket, path):
    target = f"{bucket}/direct"
    status, body = server.request("POST", target, "uploads=")
    query = "uploadId=" + body.decode().split("<UploadId>")[1].split("</UploadId>")[0]
    count = -(-os.path.getsize(path) // PART)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        tags = list(pool.map(lambda number: send_part(server, target, query, path, number), range(1, count + 1)))
    parts = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>" for number, tag in enumerate(tags, 1))
    status, body = server.request("POST", target, query, f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode())
    if status != 200 or b"<Error>" in body:
        lacking.leave(f"the object was answered with {status} {body[:300]!r}")


def one_round(path, size, folder):
    """(seconds of the upload to the folder, of the one with the object store)"""
    taken = []
    with contextlib.ExitStack() as stack:
        server = s3.Server(6 * size)
        stack.callback(server.close)
        server.start()
        bucket = server.make_bucket()
        os.environ.update(AWS_ACCESS_KEY_ID=server.key, AWS_SECRET_ACCESS_KEY=server.secret)
        for name, options in (("folder", ()), ("object store", ("--blobs", f"s3://{bucket}", "--blobs-endpoint", server.endpoint))):
            data = os.path.join(folder, name)
            with harness.Daemon("--workers", "1", "--max-upload", "100G", *options, data=data, store="") as daemon:
                with Watch(daemon, server) as watch:
                    location = upload(daemon, path)
                watch.tell(f"upload, {name}", size)
                taken.append(watch.seconds)
                with Watch(daemon, server) as watch:
                    download(daemon, location, size)
                watch.tell(f"download, {name}", size)
                if options:
                    digest = location.rsplit("/", 1)[1]
                    for copy in glob.glob(os.path.join(data, "blobs", digest[:2], digest[2:] + "*")):
                        os.unlink(copy)
                    with Watch(daemon, server) as watch:
                        download(daemon, location, size)
                    watch.tell("download, no copy there", size)
            shutil.rmtree(data)
        with Watch(None, server) as watch:
            send_directly(server, bucket, path)
        watch.tell("upload without a daemon", size)
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", default="2G")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--program")
    arguments = parser.parse_args()
    if arguments.program:
        harness.PROGRAM = arguments.program
    lacking.need_built(harness.PROGRAM)
    if s3.missing():
        lacking.leave(s3.missing())
    with tempfile.TemporaryDirectory(prefix="shardpland-objects-") as folder:
        path = os.path.join(folder, "model.onnx")
        size = onnx_make.write(path, onnx_make.big(onnx_make.parse_bytes(arguments.bytes), "pattern"))
        print(f"{os.cpu_count()} processors, a model of {size} bytes")
        ratios = [first / second for first, second in (one_round(path, size, folder) for _ in range(arguments.rounds))]
    print(f"an upload with the object store is {max(ratios):.2f}x as fast as one to the folder")


if __name__ == "__main__":
    lacking.run(main)
