"""A server that answers as a test says, and remembers what it was asked: what no real daemon can be made to do in time."""

import json
import socket
import ssl
import threading


class Request:
    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body

    def __repr__(self):
        return f"{self.method} {self.path}"


class Close(Exception):
    """Raised by an answer: the connection ends without a word."""


class Fake:
    """`answer(request)` gives (status, headers, body); a body that is no bytes, text or JSON is sent piece by piece."""

    def __init__(self, answer, context=None, seconds=60):
        self.answer, self.context, self.seconds = answer, context, seconds
        self.requests = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        self.open = set()
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        for connection in list(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def asked(self, method=None):
        return [repr(request) for request in self.requests if method in (None, request.method)]

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        self.open.add(connection)
        try:
            connection.settimeout(self.seconds)
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as file:
                while self._one(connection, file):
                    pass
        except (OSError, ssl.SSLError, Close, ValueError):
            pass
        finally:
            self.open.discard(connection)
            connection.close()

    def _one(self, connection, file):
        line = file.readline().decode()
        if not line:
            return False
        method, path, _ = line.split()
        headers = {}
        while line := file.readline().decode().strip():
            name, value = line.split(":", 1)
            headers[name.lower()] = value.strip()
        if headers.get("expect") == "100-continue":
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        request = Request(method, path, headers, file.read(int(headers.get("content-length", "0"))))
        self.requests.append(request)
        status, more, body = self.answer(request)
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            more = {"Content-Type": "application/json", **more}
        head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in more.items())
        if isinstance(body, bytes):
            if not any(name.lower() == "content-length" for name in more):
                head += f"Content-Length: {len(body)}\r\n"
            connection.sendall(head.encode() + b"\r\n" + (b"" if method == "HEAD" else body))
            return not ("Content-Length" in more and int(more["Content-Length"]) != len(body))
        connection.sendall(head.encode() + b"Connection: close\r\n\r\n")
        for piece in body:
            connection.sendall(piece)
        return False


def problem(status, code, detail, **members):
    """The body and type of a problem, as the daemon writes them."""
    body = {"type": "about:blank", "title": "X", "status": status, "code": code, "detail": detail, "errors": [],
            "request_id": "r", **members}
    return json.dumps(body).encode()
