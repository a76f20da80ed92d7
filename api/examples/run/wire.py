"""Messages between processes, and tensors in them: as wire.mjs, and either talks to the other.

A message is the size of a head (4 bytes, little-endian), the head (JSON), and as many bytes as the head's `bytes` says.
The bytes are a tensor's elements, little-endian and row by row; of strings a JSON array.
"""
import json
import socket
import struct
import threading

import numpy

PROTOCOL = 1
MAX_HEAD, MAX_BODY = 1 << 20, 1 << 32


def dtype_of(array):
    return "string" if array.dtype.kind in "OUS" else array.dtype.name


def bytes_of(array):
    if dtype_of(array) == "string":
        return json.dumps(array.ravel().tolist()).encode()
    return numpy.ascontiguousarray(array).tobytes()


def array_of(head, data):
    if head["dtype"] == "string":
        return numpy.array(json.loads(bytes(data)), dtype=object).reshape(head["shape"])
    return numpy.frombuffer(data, dtype=numpy.dtype(head["dtype"])).reshape(head["shape"])


def parse_address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


class Channel:
    """One connection. A thread calls on_message(channel, head, bytes) for each message, and on_end(reason) once."""

    def __init__(self, connection, on_message, on_end):
        self.connection, self.on_message, self.on_end = connection, on_message, on_end
        self.max_body = 0  # until the other side has said what it is
        self.lock = threading.Lock()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # notices a machine that is gone
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), 1)
        threading.Thread(target=self._run, daemon=True).start()

    def accept(self):
        self.max_body = MAX_BODY

    def send(self, head, array=None):
        data = b""
        if array is not None:
            data = bytes_of(array)
            head = {**head, "dtype": dtype_of(array), "shape": list(array.shape), "bytes": len(data)}
        text = json.dumps(head).encode()
        with self.lock:
            try:
                self.connection.sendall(struct.pack("<I", len(text)) + text)
                if data:
                    self.connection.sendall(data)
            except OSError:
                pass  # on_end says it

    def close(self):
        try:
            self.connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _read(self, size):
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            count = self.connection.recv_into(view[at:])
            if count == 0:
                raise EOFError
            at += count
        return data

    def _run(self):
        why = None
        try:
            while True:
                (size,) = struct.unpack("<I", self._read(4))
                if not 0 < size <= MAX_HEAD:
                    raise ValueError(f"a message begins with the size {size}")
                head = json.loads(self._read(size))
                count = head.get("bytes", 0)
                if not isinstance(count, int) or not 0 <= count <= self.max_body:
                    raise ValueError(f"a message of {count} bytes is not expected")
                self.on_message(self, head, self._read(count))
        except EOFError:
            pass
        except (OSError, ValueError) as error:
            why = str(error)
        self.connection.close()
        self.on_end(why)


class Mailbox:
    """What has come for each request, and who waits for it."""

    def __init__(self):
        self.requests, self.failure, self.changed = {}, None, threading.Condition()

    def put(self, request, key, value):
        with self.changed:
            self.requests.setdefault(request, {})[key] = value
            self.changed.notify_all()

    def take(self, request, key):
        with self.changed:
            self.changed.wait_for(lambda: self.failure or key in self.requests.get(request, {}))
            if self.failure:
                raise RuntimeError(self.failure)
            return self.requests[request][key]

    def forget(self, request):
        with self.changed:
            self.requests.pop(request, None)

    def fail(self, message):
        with self.changed:
            self.failure = self.failure or message
            self.changed.notify_all()
