"""Two tenants: whatever one of them holds, the other gets what it needs, and hears nothing of it.

One tenant takes all that it gets of a thing: compressed bodies that do not end, connections that say nothing, streams,
bodies, uploads. The refusal must be 429 with Retry-After before anything of the next body was sent, the other tenant's
requests must be answered as if it were alone, and the daemon must not hold more descriptors or memory than the shares are.
"""

import contextlib
import gzip
import http.client
import json
import os
import re
import resource
import socket
import tempfile
import time
import unittest

from cases import CLUSTER, SANITIZED, TINY, model
from daemon import Daemon, status_bytes
from test_auth import make_token

CONNECTIONS = 2000
JSON_BYTES = 250 * 1024
OF_TENANTS = CONNECTIONS // 2  # the other half is of connections on which nobody has said who it is
DECODERS, FILES_SPARE, OWN_FILES, BODIES = 48, 1024, 256, 128 << 20  # server_limits.h


class Slow:
    """A request of which only the beginning is sent."""

    def __init__(self, daemon, token, head, body=b""):
        self.socket = socket.create_connection(("127.0.0.1", daemon.port), timeout=60)
        self.socket.sendall(f"{head}\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode() + body)

    def answer(self):
        """What came: status, headers and the problem. Only for one that is answered early."""
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        return response.status, response.headers, json.loads(response.read())

    def is_silent(self, seconds=0.05):
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1, socket.MSG_PEEK) is None
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(60)

    def close(self):
        self.socket.close()


def upload_head(coding=None, size=1 << 20):
    return (f"POST /v1/models HTTP/1.1\r\nContent-Type: application/octet-stream\r\nContent-Length: {size}" +
            (f"\r\nContent-Encoding: {coding}" if coding else ""))


JSON_HEAD = f"POST /v1/plans HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {JSON_BYTES}"


@contextlib.contextmanager
def closing(things):
    try:
        yield things
    finally:
        for thing in things:
            thing.close()


class TwoTenants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = os.path.join(cls.folder.name, "tokens.json")
        made = {"a": make_token("a"), "b": make_token("b"), "chief": make_token("chief", "--tenant", "b", "--scopes", "admin")}
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"principals": [entry for _, entry in made.values()]}, file)
        cls.tokens = {name: token for name, (token, _) in made.items()}
        # The limit of descriptors that the daemon asks for itself, so that what is left beside connections is known.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = CONNECTIONS + FILES_SPARE + 64
        if hard != resource.RLIM_INFINITY and hard < 2 * wanted:
            raise unittest.SkipTest("too few descriptors (ulimit -n)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        try:
            cls.daemon = Daemon("--workers", "1", "--tokens", path, "--max-connections", str(CONNECTIONS))
            cls.daemon.token = cls.tokens["chief"]
            cls.daemon.start()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * wanted), hard))
        cls.idle_files = cls.files()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()
        cls.folder.cleanup()

    @classmethod
    def files(cls):
        return len(os.listdir(f"/proc/{cls.daemon.process.pid}/fd"))

    def setUp(self):
        self.daemon.wait_for(lambda: self.files() < self.idle_files + 20, "the end of earlier connections")

    def ask(self, tenant, method, path, body=None, **headers):
        headers = {"Authorization": f"Bearer {self.tokens[tenant]}", **{k.replace("_", "-"): v for k, v in headers.items()}}
        return self.daemon.request(method, path, body, headers)

    def take_until_refused(self, start, most):
        """Starts one after the other until one is refused: those that were taken, and the refusal."""
        taken = []
        for _ in range(most):
            one = start()
            if not one.is_silent(0.003):
                break
            taken.append(one)
        else:
            # What was refused later than the look at it took.
            late = [one for one in taken if not one.is_silent(0.001)]
            self.assertTrue(late, f"{most} were taken")
            one = late[0]
        refusal = one.answer()
        one.close()
        for other in [other for other in taken if other is not one and not other.is_silent(0.001)]:
            other.close()
            taken.remove(other)
        if one in taken:
            taken.remove(one)
        return taken, refusal

    def check_refusal(self, refusal, code, limit):
        status, headers, problem = refusal
        self.assertEqual((status, problem["code"], problem["limit_value"]), (429, code, limit), problem)
        self.assertGreaterEqual(int(headers["Retry-After"]), 1)

    def check_other(self, number):
        """Everything that the other tenant may want, at once and in time."""
        began = time.monotonic()
        data = model(number)
        answer = self.ask("b", "POST", "/v1/models", gzip.compress(data), Content_Encoding="gzip")
        self.assertIn(answer.status, (200, 201), answer)
        name = answer.json["id"]
        planned = self.ask("b", "POST", "/v1/plans", {"model": name, "cluster": CLUSTER}, Prefer="wait=60", Cache_Control="no-cache")
        self.assertEqual((planned.status, planned.json["state"]), (200, "succeeded"), planned)
        content = self.ask("b", "GET", f"/v1/models/{name}/content", Accept_Encoding="gzip")
        self.assertEqual((content.status, content.body), (200, data))
        checked = self.ask("b", "POST", f"/v1/models/{name}/check", {})
        self.assertEqual(checked.status, 200, checked)
        self.assertLess(time.monotonic() - began, 30)

    def test_compressed_bodies_that_do_not_end(self):
        head, begun = upload_head("gzip"), gzip.compress(TINY)[:40]
        share = DECODERS // 2
        taken, refusal = self.take_until_refused(lambda: Slow(self.daemon, self.tokens["a"], head, begun), share + 20)
        with closing(taken):
            self.check_refusal(refusal, "QUOTA_DECODERS", share)
            self.assertEqual(len(taken), share)
            self.check_other(101)
            again = self.ask("a", "POST", "/v1/models", gzip.compress(TINY), Content_Encoding="gzip")
            self.assertEqual(again.status, 429, again)
            self.assertIn(self.ask("a", "POST", "/v1/models", TINY).status, (200, 201))  # uncompressed
        self.daemon.wait_for(lambda: self.ask("a", "POST", "/v1/models", gzip.compress(TINY), Content_Encoding="gzip").status < 300,
                             "decoders that are given back")

    def test_uploads_that_do_not_end(self):
        share = (FILES_SPARE + 64 - OWN_FILES) // 3  # two tenants, and those who are not identified
        taken, refusal = self.take_until_refused(lambda: Slow(self.daemon, self.tokens["a"], upload_head(), b"x" * 10), share + 50)
        with closing(taken):
            self.check_refusal(refusal, "QUOTA_FILES", share)
            self.assertEqual(len(taken), share)
            self.assertLess(self.files(), self.idle_files + 2 * share + 60)
            self.check_other(102)

    @unittest.skipIf(SANITIZED, "the sanitizers take more memory")
    def test_bodies_that_do_not_end(self):
        share = BODIES // 2
        before = status_bytes(self.daemon.process.pid, "VmRSS")
        most = share // JSON_BYTES
        body = b"[" + b" " * (JSON_BYTES - 100)
        taken, refusal = self.take_until_refused(lambda: Slow(self.daemon, self.tokens["a"], JSON_HEAD, body), most + 40)
        with closing(taken):
            self.check_refusal(refusal, "QUOTA_BODIES", share)
            self.assertEqual(len(taken), most)
            # A buffer doubles as it grows, and the library has a buffer of its own for each connection.
            self.assertLess(status_bytes(self.daemon.process.pid, "VmRSS"), before + 4 * share)
            self.check_other(103)

    def test_chunks_are_charged_as_they_come(self):
        """A body without a length is refused when it has grown beyond what is left, and not before."""
        share = BODIES // 2
        chunk = b"%x\r\n%b\r\n" % (JSON_BYTES, b"[" + b" " * (JSON_BYTES - 1))
        head = "POST /v1/plans HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked"
        taken = [Slow(self.daemon, self.tokens["a"], JSON_HEAD) for _ in range(share // JSON_BYTES - 1)]
        with closing(taken):
            self.assertTrue(all(one.is_silent(0.001) for one in taken[:5]))
            with closing([Slow(self.daemon, self.tokens["a"], head, chunk) for _ in range(3)]) as chunked:
                self.daemon.wait_for(lambda: sum(not one.is_silent() for one in chunked) >= 1, "a refusal")
                refusal = next(one for one in chunked if not one.is_silent()).answer()
                self.check_refusal(refusal, "QUOTA_BODIES", share)

    def keep_alive(self, tenant):
        """A connection on which one request was answered, and the answer's status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=60)
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {self.tokens[tenant]}"})
        answer = connection.getresponse()
        return connection, answer, json.loads(answer.read())

    def test_idle_connections(self):
        share = OF_TENANTS // 2
        with closing([]) as open_ones:
            refused = None
            for _ in range(share + 30):
                connection, answer, body = self.keep_alive("a")
                if answer.status != 200:
                    refused = answer.status, answer.headers, body
                    self.assertEqual(answer.headers["Connection"].lower(), "close")
                    connection.close()
                    break
                open_ones.append(connection)
            self.check_refusal(refused, "QUOTA_CONNECTIONS", share)
            self.assertEqual(len(open_ones), share)
            self.assertLess(self.files(), self.idle_files + share + 40)
            with closing([]) as others:
                for _ in range(50):
                    connection, answer, _ = self.keep_alive("b")
                    others.append(connection)
                    self.assertEqual(answer.status, 200)
            self.check_other(104)
            open_ones.pop().close()
            self.daemon.wait_for(lambda: self.ask("a", "GET", "/v1/models").status == 200, "room for one more")

    def test_connections_on_which_nothing_is_said(self):
        """Nobody knows whose they are: they push each other out, and whoever says who it is gets in."""
        most = CONNECTIONS // 2
        with closing([]) as silent:
            for number in range(most + 300):
                silent.append(socket.create_connection(("127.0.0.1", self.daemon.port), timeout=60))
                if number % 3 == 0:
                    silent[-1].sendall(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: ")
            self.daemon.wait_for(lambda: self.files() < self.idle_files + most + 40, "the end of the oldest")
            self.check_other(105)
            with closing([]) as others:
                for _ in range(50):
                    connection, answer, _ = self.keep_alive("b")
                    others.append(connection)
                    self.assertEqual(answer.status, 200)
            pushed = 0
            for connection in silent:
                connection.setblocking(False)
                try:
                    pushed += connection.recv(1) == b""
                except BlockingIOError:
                    pass
                except ConnectionResetError:
                    pushed += 1
            self.assertGreaterEqual(pushed, 300)

    def test_streams_of_events(self):
        names = {tenant: self.ask(tenant, "POST", "/v1/models", model(106)).json["id"] for tenant in "ab"}
        self.daemon.freeze()
        plans = {tenant: self.ask(tenant, "POST", "/v1/plans", {"model": names[tenant], "cluster": CLUSTER},
                                  Cache_Control="no-cache").json["id"] for tenant in "ab"}
        share = OF_TENANTS // 2 // 2

        def follow(tenant):
            stream = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=60)
            stream.request("GET", f"/v1/plans/{plans[tenant]}/events", headers={"Authorization": f"Bearer {self.tokens[tenant]}"})
            return stream, stream.getresponse()

        try:
            with closing([]) as streams:
                for _ in range(share):
                    streams.append(follow("a")[0])
                stream, answer = follow("a")
                self.check_refusal((answer.status, answer.headers, json.loads(answer.read())), "QUOTA_STREAMS", share)
                stream.close()
                for _ in range(20):
                    stream, answer = follow("b")
                    streams.append(stream)
                    self.assertEqual(answer.status, 200)
        finally:
            for tenant, plan in plans.items():
                self.ask(tenant, "DELETE", f"/v1/plans/{plan}")
            self.daemon.thaw()
        self.check_other(107)

    def test_refusals_tell_nothing_of_others(self):
        """What one tenant hears at its limit is the same, whether the other holds nothing or all that it may."""

        def refusal_of(tenant):
            share = DECODERS // 2
            taken, refusal = self.take_until_refused(
                lambda: Slow(self.daemon, self.tokens[tenant], upload_head("gzip"), gzip.compress(TINY)[:40]), share + 20)
            status, headers, problem = refusal
            headers = sorted((key, value) for key, value in headers.items() if key not in ("Date", "X-Request-Id"))
            return taken, (len(taken), status, headers, re.sub(r'"(request|trace)_id": "[^"]*"', "", json.dumps(problem)))

        taken_a, alone = refusal_of("a")
        with closing(taken_a):
            taken_b, beside = refusal_of("b")
            with closing(taken_b):
                self.assertEqual(alone, beside)


if __name__ == "__main__":
    unittest.main()
