"""A proxy before an S3 server, which checks every signature and fails as it is told: `fail` is a list of functions, each of which
is asked (method, target) and says how the request fails, or None. The first that says something is removed.

    (503, "SlowDown")    is answered instead of the server, which never sees the request
    "lost"               the server does it, and its answer is lost
    "cut"                the server's answer ends in the middle
    "error in 200"       an <Error> with the status 200, which completing an upload may have

`weather` is a function like these that stays, asked for each request that none of them fails; it may wait before it says something.
"""

import http.client
import http.server
import threading

import s3


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(self, status, headers, body, cut=False):
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                self.send_header(name, value)
        length = dict((name.lower(), value) for name, value in headers).get("content-length", str(len(body)))
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.close_connection = True

    def error(self, status, code):
        body = f"<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as the test wants it</Message></Error>".encode()
        self.answer(status, [("Content-Type", "application/xml")], body)

    def forward(self):
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not proxy.signer.is_right(self.command, self.path, headers, body, proxy.is_local):
            proxy.wrong.append((self.command, self.path))
        how = proxy.how(self.command, self.path, headers)
        if isinstance(how, tuple):
            self.error(*how)
            return
        if how == "error in 200":
            self.error(200, "InternalError")
            return
        connection = http.client.HTTPConnection("127.0.0.1", proxy.server.port, timeout=s3.PATIENCE)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "expect":
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):  # the server was killed over it
            self.close_connection = True
            return
        finally:
            connection.close()
        if how == "lost":
            self.close_connection = True
            return
        self.answer(answer.status, answer.getheaders(), content, how == "cut")

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = forward


class Proxy:
    def __init__(self, server, address="127.0.0.1"):
        """The daemon takes another address of this machine for one of another machine: there bodies must be signed."""
        self.server = server
        self.is_local = address == "127.0.0.1"
        self.signer = s3.Signer(server.key, server.secret)
        self.lock = threading.Lock()
        self.fail = []
        self.weather = None
        self.seen = []  # (method, target, headers) of all requests
        self.wrong = []  # those that were not signed as they should be
        self.http = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.http.daemon_threads = True
        self.http.proxy = self
        self.endpoint = f"http://{address}:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def how(self, method, target, headers):
        with self.lock:
            self.seen.append((method, target, headers))
            for rule in self.fail:
                said = rule(method, target)
                if said is not None:
                    self.fail.remove(rule)
                    return said
            weather = self.weather
        return weather(method, target) if weather is not None else None

    def close(self):
        self.http.shutdown()
        self.http.server_close()
