"""Who may ask: tokens, scopes, tenants' names, and what a browser may be made to do where nobody is asked."""

import datetime
import json
import os
import signal
import socket
import subprocess
import tempfile
import unittest

from cases import CLUSTER, TINY, DaemonCase
from daemon import PROGRAM, Daemon

UNKNOWN = "spl_" + "A" * 43


def make_token(name, *options):
    """What `shardpland token` prints: a token, and its entry for the file."""
    lines = subprocess.run([PROGRAM, "token", name, *options], capture_output=True, text=True, check=True).stdout.split("\n")
    return lines[0], json.loads(lines[1])


class Tokens:
    """A file of tokens with three principals."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "tokens.json")
        self.entries = []
        self.reader = self.add("reader", "--tenant", "vision", "--scopes", "read")
        self.planner = self.add("planner", "--tenant", "vision")
        self.chief = self.add("chief", "--scopes", "read,plan,admin", "--days", "0")
        self.old = self.add("old")
        self.entries[-1]["expires_at"] = "2020-01-01T00:00:00Z"
        self.write()

    def add(self, name, *options):
        token, entry = make_token(name, *options)
        self.entries.append(entry)
        return token

    def write(self):
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump({"principals": self.entries}, file)


class Command(unittest.TestCase):
    def test_a_token_is_not_in_its_entry(self):
        token, entry = make_token("ci", "--tenant", "vision", "--scopes", "read,plan", "--days", "90")
        self.assertRegex(token, r"^spl_[A-Za-z0-9_-]{43}$")
        self.assertEqual(entry["name"], "ci")
        self.assertEqual(entry["tenant"], "vision")
        self.assertEqual(entry["scopes"], ["read", "plan"])
        self.assertNotIn(token[4:], json.dumps(entry))
        left = datetime.datetime.fromisoformat(entry["expires_at"]) - datetime.datetime.now(datetime.timezone.utc)
        self.assertTrue(89 <= left.days <= 90, left)

    def test_no_two_are_the_same(self):
        self.assertEqual(len({make_token("x")[0] for _ in range(20)}), 20)

    def test_wrong_usage(self):
        for arguments in ([], ["a", "b"], ["a b"], ["a", "--scopes", "write"], ["a", "--days", "x"], ["a", "--secret", "x"]):
            with self.subTest(arguments):
                done = subprocess.run([PROGRAM, "token", *arguments], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("shardpland token", done.stderr)


class Start(unittest.TestCase):
    def refused(self, *options):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [PROGRAM, "--data", os.path.join(folder, "data"), "--log-format", "json", *options],
                capture_output=True, text=True, timeout=60, check=False,
            )
        self.assertEqual(done.returncode, 4, done.stderr)
        return next(event for event in map(json.loads, done.stderr.splitlines()) if event["event"] == "not started")

    def test_strangers_are_not_let_in(self):
        for address in ("0.0.0.0:0", "[::]:0"):
            with self.subTest(address):
                event = self.refused("--listen", address)
                self.assertEqual(event["code"], "OPEN_TO_ALL")
                self.assertIn("--tokens FILE", event["detail"])

    def test_a_passed_socket_of_all_addresses_is_not_served_without_credentials(self):
        with socket.create_server(("0.0.0.0", 0)) as listener, tempfile.TemporaryDirectory() as folder:
            done = activated(listener, os.path.join(folder, "data"), subprocess.PIPE)
            output = done.communicate(timeout=60)[1].decode()
            self.assertEqual(done.returncode, 4, output)
            self.assertIn("OPEN_TO_ALL", output)

    def test_a_bad_file(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = Tokens(folder)
            tokens.entries[1]["scopes"] = ["everything"]
            tokens.write()
            event = self.refused("--listen", "127.0.0.1:0", "--tokens", tokens.path)
            self.assertEqual(event["code"], "BAD_TOKENS")
            self.assertIn("'planner'", event["detail"])
            event = self.refused("--listen", "127.0.0.1:0", "--tokens", "/nonexistent")
            self.assertIn("/nonexistent", event["detail"])


def activated(listener, data, pipe, *options):
    """Starts the daemon as a service manager does that has the socket already."""
    code = ("import os, sys; fd = int(sys.argv[1]); os.dup2(fd, 3); os.set_inheritable(3, True); "
            "os.environ['LISTEN_PID'] = str(os.getpid()); os.environ['LISTEN_FDS'] = '1'; "
            "os.execv(sys.argv[2], sys.argv[2:])")
    return subprocess.Popen(
        ["python3", "-c", code, str(listener.fileno()), PROGRAM, "--data", data, "--log-format", "json", *options],
        pass_fds=[listener.fileno()], stderr=pipe, stdout=subprocess.DEVNULL,
    )


class Activation(unittest.TestCase):
    def test_the_given_socket_is_served(self):
        with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryDirectory() as folder:
            port = listener.getsockname()[1]
            process = activated(listener, os.path.join(folder, "data"), subprocess.PIPE, "--listen", "127.0.0.1:1")
            try:
                for line in process.stderr:
                    event = json.loads(line)
                    if event["event"] == "listening":
                        break
                self.assertEqual(event["url"], f"http://127.0.0.1:{port}")
                with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                    connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    self.assertTrue(connection.recv(65536).startswith(b"HTTP/1.1 200 "))
            finally:
                process.terminate()
                process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0)


class Scopes(DaemonCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.tokens = Tokens(cls.folder.name)
        cls.daemon = Daemon("--workers", "1", "--tokens", cls.tokens.path)
        cls.daemon.start()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()
        cls.folder.cleanup()

    def by(self, token, method, path, body=None, expect=200, **headers):
        return self.ask(method, path, body, expect, Authorization=f"Bearer {token}", **headers)

    def test_public_routes_need_nothing(self):
        for path in ("/", "/livez", "/readyz", "/version", "/openapi.json"):
            with self.subTest(path):
                self.ask("GET", path)
                self.by(UNKNOWN, "GET", path)

    def test_missing(self):
        answer = self.problem("GET", "/v1/models", status=401, code="UNAUTHENTICATED")
        self.assertEqual(answer.headers["WWW-Authenticate"], 'Bearer realm="shardplan"')

    def test_wrong_ones_are_all_answered_the_same(self):
        answers = []
        for value in (f"Bearer {UNKNOWN}", f"Bearer {self.tokens.old}", "Bearer x", "Bearer", "Basic YTpi", f"Bearer {UNKNOWN} x",
                      "", f"Bearer {self.tokens.reader}x", f"Bearer {self.tokens.reader[:-1]}"):
            answer = self.problem("GET", "/v1/models", status=401, code="UNAUTHENTICATED", Authorization=value)
            body = {key: value for key, value in answer.json.items() if key not in ("request_id", "trace_id")}
            headers = {key: value for key, value in answer.headers.items() if key not in ("X-Request-Id", "Date")}
            answers.append((body, headers))
        self.assertTrue(all(answer == answers[0] for answer in answers), answers)
        self.assertIn('error="invalid_token"', answers[0][1]["WWW-Authenticate"])

    def test_scopes(self):
        self.by(self.tokens.reader, "GET", "/v1/models")
        self.by(self.tokens.reader, "GET", "/v1/devices")
        for method, path, body in (("POST", "/v1/models", TINY), ("DELETE", "/v1/plans/" + "0" * 32, None),
                                   ("POST", "/v1/plans", {"model": "0" * 64, "cluster": CLUSTER})):
            answer = self.by(self.tokens.reader, method, path, body, 403)
            self.assertEqual(answer.json["code"], "INSUFFICIENT_SCOPE")
            self.assertIn("'plan'", answer.json["detail"])
            self.assertIn('scope="plan"', answer.headers["WWW-Authenticate"])
        self.by(self.tokens.planner, "POST", "/v1/models", TINY, (200, 201))
        answer = self.by(self.tokens.planner, "GET", "/metrics", expect=403)
        self.assertIn('scope="admin"', answer.headers["WWW-Authenticate"])
        self.by(self.tokens.chief, "GET", "/metrics")

    def test_what_is_not_there_needs_no_credentials(self):
        """The table of routes is public, so 404 and 405 come first and tell nothing."""
        self.problem("GET", "/nothing", status=404)
        self.problem("PUT", "/v1/models", b"x", 405)
        self.assertEqual(self.ask("OPTIONS", "/v1/models", expect=204).headers["Allow"], "POST, GET, HEAD, OPTIONS")

    def test_strangers_are_told_before_they_send(self):
        """Expect: 100-continue is refused without 100, and the body is never read."""
        for credentials in ("", f"Authorization: Bearer {UNKNOWN}\r\n", f"Authorization: Bearer {self.tokens.reader}\r\n"):
            with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20) as connection:
                connection.sendall((f"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n{credentials}"
                                    "Expect: 100-continue\r\n\r\n").encode())
                answer = b""
                while piece := connection.recv(65536):
                    answer += piece
            self.assertRegex(answer.decode(), r"^HTTP/1.1 40[13] ")
            self.assertNotIn(b"100 Continue", answer)

    def test_a_refused_upload_gets_its_answer(self):
        """Also when it was sent without asking, and however large it is."""
        self.problem("POST", "/v1/models", b"x" * (8 << 20), 401)

    def test_two_credentials_are_ambiguous(self):
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20) as connection:
            connection.sendall((f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.tokens.reader}\r\n"
                                f"Authorization: Bearer {UNKNOWN}\r\n\r\n").encode())
            self.assertIn(b"REPEATED_HEADER", connection.recv(65536))

    def test_cross_site_requests_are_no_matter_with_tokens(self):
        self.by(self.tokens.reader, "GET", "/v1/models", Origin="http://evil.example", Host="evil.example")


class Reload(DaemonCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.tokens = Tokens(cls.folder.name)
        cls.daemon = Daemon("--workers", "1", "--tokens", cls.tokens.path, "--log-level", "debug")
        cls.daemon.start()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()
        cls.folder.cleanup()

    def status(self, token):
        return self.daemon.request("GET", "/v1/models", headers={"Authorization": f"Bearer {token}"}).status

    def reload(self, event):
        seen = len(self.daemon.log)
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.wait_for(lambda: any(event in line for line in self.daemon.log[seen:]), event)

    def test_added_revoked_and_broken(self):
        new = self.tokens.add("new")
        self.assertEqual(self.status(new), 401)
        self.tokens.write()
        self.reload("tokens reloaded")
        self.assertEqual(self.status(new), 200)
        with open(self.tokens.path, "w", encoding="utf-8") as file:
            file.write('{"principals": [')
        self.reload("tokens not reloaded")
        self.assertEqual(self.status(new), 200)
        self.tokens.entries.pop()
        self.tokens.write()
        self.reload("tokens reloaded")
        self.assertEqual(self.status(new), 401)
        self.assertEqual(self.status(self.tokens.reader), 200)

    def test_the_log_has_no_secrets(self):
        for token in (self.tokens.reader, UNKNOWN):
            self.status(token)
            self.daemon.request("GET", f"/v1/models?token={token}", headers={"Authorization": f"Bearer {token}"})
            self.daemon.request("GET", f"/nothing?token={token}")
            with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20) as connection:
                connection.sendall(f"GET /v1/models?token={token} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
                connection.recv(65536)
            with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20) as connection:  # the library itself refuses it
                connection.sendall(f"GET /v1/models?token={token} HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n".encode())
                while connection.recv(65536):
                    pass
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.wait_for(lambda: any("MISSING_HOST" in line or '"status":400' in line for line in self.daemon.log), "the log")
        log = "".join(self.daemon.log)
        self.assertIn('"principal":"reader"', log)
        for secret in (self.tokens.reader, self.tokens.reader[4:24], UNKNOWN, *(entry["token_sha256"] for entry in self.tokens.entries)):
            self.assertNotIn(secret, log)


class Pages(DaemonCase):
    """Without credentials: a browser on this machine asks on behalf of any page."""

    options = ("--workers", "1", "--cors-origins", "https://ui.example http://127.0.0.1:3000")

    def test_other_sites_are_refused(self):
        for origin in ("http://evil.example", "null", "https://ui.example.evil.example", "https://ui.example:8443", "http://ui.example"):
            with self.subTest(origin):
                answer = self.problem("POST", "/v1/models", TINY, 403, "ORIGIN_REFUSED", Origin=origin)
                self.assertIsNone(answer.headers["Access-Control-Allow-Origin"])

    def test_names_that_are_not_near_are_refused(self):
        for host in ("evil.example", f"evil.example:{self.daemon.port}", "127.0.0.1.evil.example", "shardpland", "x:80",
                     "localhost.evil.example", "localhostx"):
            with self.subTest(host):
                self.problem("GET", "/v1/models", status=421, code="HOST_REFUSED", Host=host)
        for host in ("localhost", "127.0.0.1:1", "[::1]:8080", "LocalHost:3000", "a.localhost", "ui.example"):
            with self.subTest(host):
                self.ask("GET", "/v1/models", Host=host)

    def test_allowed_sites(self):
        answer = self.ask("GET", "/v1/models", Origin="https://ui.example")
        self.assertEqual(answer.headers["Access-Control-Allow-Origin"], "https://ui.example")
        self.assertIn("Origin", answer.headers.get_all("Vary"))
        self.assertIn("X-Request-Id", answer.headers["Access-Control-Expose-Headers"])
        self.assertIsNone(answer.headers["Access-Control-Allow-Credentials"])
        answer = self.problem("GET", "/nothing", status=404, Origin="https://ui.example")
        self.assertEqual(answer.headers["Access-Control-Allow-Origin"], "https://ui.example")
        self.assertIn("Origin", self.ask("GET", "/livez").headers.get_all("Vary"))

    def test_own_pages(self):
        here = f"127.0.0.1:{self.daemon.port}"
        self.ask("GET", "/v1/models", Origin=f"http://{here}", Host=here)

    def test_preflight(self):
        answer = self.ask("OPTIONS", "/v1/plans", expect=204, Origin="https://ui.example",
                          Access_Control_Request_Method="POST", Access_Control_Request_Headers="authorization")
        self.assertEqual(answer.headers["Access-Control-Allow-Origin"], "https://ui.example")
        self.assertEqual(answer.headers["Access-Control-Allow-Methods"], "POST, GET, HEAD")
        self.assertIn("Authorization", answer.headers["Access-Control-Allow-Headers"])
        answer = self.ask("OPTIONS", "/v1/plans", expect=204, Origin="http://evil.example", Access_Control_Request_Method="POST")
        for name in answer.headers:
            self.assertFalse(name.startswith("Access-Control"), name)
        self.problem("OPTIONS", "/nothing", status=404, Origin="https://ui.example", Access_Control_Request_Method="POST")

    def test_strict_headers(self):
        for method, path, expect in (("GET", "/livez", 200), ("GET", "/nothing", 404), ("GET", "/v1/models", 200), ("OPTIONS", "/", 204)):
            headers = self.ask(method, path, expect=expect).headers
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Referrer-Policy"], "no-referrer")
            self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertEqual(headers["Cache-Control"], "no-store")


class NoPages(DaemonCase):
    options = ("--workers", "1")

    def test_cors_is_off(self):
        self.problem("GET", "/v1/models", status=403, code="ORIGIN_REFUSED", Origin="https://ui.example")
        answer = self.ask("OPTIONS", "/v1/models", expect=204, Origin="https://ui.example", Access_Control_Request_Method="POST")
        self.assertEqual(answer.headers["Allow"], "POST, GET, HEAD, OPTIONS")
        for headers in (answer.headers, self.ask("GET", "/v1/models").headers):
            self.assertNotIn("Origin", headers.get_all("Vary", []))
            self.assertFalse([name for name in headers if name.startswith("Access-Control")])


def own_address():
    """An address of this machine that is not of the loopback; None without a network. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return probe.getsockname()[0]


class OneAddress(unittest.TestCase):
    @unittest.skipIf(own_address() is None, "this machine has no network")
    def test_nobody_takes_all_connections(self):
        """One address may have half of them; this machine's own, where a proxy may be, all."""
        with tempfile.TemporaryDirectory() as folder:
            tokens = Tokens(folder)
            with Daemon("--workers", "1", "--tokens", tokens.path, "--max-connections", "8", "--listen", "0.0.0.0:0") as daemon:

                def ask(host):
                    with socket.create_connection((host, daemon.port), timeout=20) as connection:
                        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                        return connection.recv(65536)

                taken = [socket.create_connection((own_address(), daemon.port), timeout=20) for _ in range(4)]
                answer = ask(own_address())
                self.assertTrue(answer.startswith(b"HTTP/1.1 503 "), answer)
                self.assertIn(b"TOO_MANY_CONNECTIONS", answer)
                self.assertIn(b"Retry-After: ", answer)
                self.assertTrue(ask("127.0.0.1").startswith(b"HTTP/1.1 200 "))
                taken.pop().close()
                daemon.wait_for(lambda: ask(own_address()).startswith(b"HTTP/1.1 200 "), "room for this address")
                for connection in taken:
                    connection.close()


class Admin(unittest.TestCase):
    def test_health_and_metrics_without_credentials_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = Tokens(folder)
            with Daemon("--workers", "1", "--tokens", tokens.path, "--admin-listen", "127.0.0.1:0", "--max-connections", "8") as daemon:
                event = next(json.loads(line) for line in daemon.log if "admin listening" in line)
                port = int(event["url"].rsplit(":", 1)[1])

                def ask(target, method="GET"):
                    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                        connection.sendall(f"{method} {target} HTTP/1.1\r\nHost: a.b\r\nOrigin: http://x.y\r\nConnection: close\r\n\r\n".encode())
                        answer = b""
                        while piece := connection.recv(65536):
                            answer += piece
                    return answer.decode()

                def check():
                    for target in ("/livez", "/readyz", "/metrics", "/version"):
                        self.assertTrue(ask(target).startswith("HTTP/1.1 200 "), target)
                    for target in ("/", "/v1/models", "/openapi.json", "/v1/devices"):
                        self.assertTrue(ask(target).startswith("HTTP/1.1 404 "), target)

                check()
                self.assertTrue(ask("/livez", "POST").startswith("HTTP/1.1 405 "))
                # More connections than there may be, on which nothing is said: who comes next takes the place of the one that
                # has been silent longest, and the admin listener goes on.
                taken = [socket.create_connection(("127.0.0.1", daemon.port), timeout=20) for _ in range(30)]
                self.assertEqual(daemon.raw_status("/livez"), 200)
                check()
                taken[-1].sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertTrue(taken[-1].recv(65536).startswith(b"HTTP/1.1 200 "), "those that are open go on")
                for connection in taken:
                    connection.close()
                daemon.wait_for(lambda: daemon.raw_status("/livez") == 200, "room for connections")
