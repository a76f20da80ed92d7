#!/usr/bin/env python3
"""The command as a client: credentials, retries, lists, events and interrupts, against a server that does what a test
says. What a real daemon answers is in test_server.py."""

import json
import os
import pty
import signal
import ssl
import subprocess
import time
import unittest

from fake import Close, Fake, problem
from test_cli import CLI, PATIENCE, Case, clean_environment, run
import onnx_make

SECRET = "tok-3f9a8c6b1d2e4f70"
PLAN = "0123456789abcdef0123456789abcdef"
DEVICES = (200, {"Content-Type": "text/plain"}, b"none\n")
BAD_TOKEN = problem(401, "UNAUTHORIZED", "The credentials are not known here.")


class ClientCase(Case):
    def ask(self, fake, *arguments, status=0, **more):
        """Runs the command; it must never print the token."""
        done = run(*arguments, "--server", fake.url, environment=clean_environment(**more))
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertNotIn(SECRET.encode(), done.stdout + done.stderr)
        self.assertNotIn(b"Sanitizer", done.stderr)
        return done

    def code(self, done):
        return done.stderr.decode().rsplit("[", 1)[1].split("]")[0]

    def token_file(self, text=SECRET + "\n"):
        return self.file("token", text.encode())


class Credentials(ClientCase):
    def test_where_a_token_comes_from(self):
        file, other = self.token_file(), self.file("other", b"  another-token\r\n")
        for arguments, variables, expected in (
            ([], {}, None),
            (["--token-file", file], {}, SECRET),
            ([], {"SHARDPLAN_TOKEN_FILE": file}, SECRET),
            ([], {"SHARDPLAN_TOKEN": SECRET}, SECRET),
            (["--token-file", other], {"SHARDPLAN_TOKEN_FILE": file, "SHARDPLAN_TOKEN": SECRET}, "another-token"),
            ([], {"SHARDPLAN_TOKEN": ""}, None),
        ):
            with self.subTest(arguments=arguments, variables=variables), Fake(lambda _: DEVICES) as fake:
                self.ask(fake, "devices", *arguments, **variables)
                expected = None if expected is None else "Bearer " + expected
                self.assertEqual(fake.requests[0].headers.get("authorization"), expected)

    def test_files_without_a_token(self):
        with Fake(lambda _: DEVICES) as fake:
            for text in ("", "\n", "two words\n", "two\nlines\n", "umlaut-\u00e4\n", "x" * 5000):
                with self.subTest(text=text[:20]):
                    done = self.ask(fake, "devices", "--token-file", self.token_file(text), status=2)
                    self.assertIn(self.code(done), ("BAD_TOKEN", "FILE_TOO_LARGE"))
            self.ask(fake, "devices", "--token-file", self.path("absent"), status=2)
            self.ask(fake, "devices", status=2, SHARDPLAN_TOKEN="a\nb")
            self.assertEqual(fake.requests, [])

    def test_who_is_refused_is_told_what_to_do(self):
        for status, given, expected in ((401, False, "--token-file"), (401, True, "wrong, expired"),
                                        (403, True, "more rights")):
            with self.subTest(status=status, given=given), \
                    Fake(lambda _, status=status: (status, {}, problem(status, "REFUSED", "No."))) as fake:
                done = self.ask(fake, "devices", status=4, **({"SHARDPLAN_TOKEN": SECRET} if given else {}))
                self.assertIn(expected, done.stderr.decode())
                self.assertEqual(self.code(done), "REFUSED")
                self.assertEqual(len(fake.requests), 1)

    def test_redirects_are_not_followed(self):
        with Fake(lambda _: DEVICES) as other, \
                Fake(lambda _: (307, {"Location": other.url + "/v1/devices"}, b"")) as fake:
            done = self.ask(fake, "devices", status=4, SHARDPLAN_TOKEN=SECRET)
            self.assertEqual(self.code(done), "REDIRECTED")
            self.assertIn(other.url, done.stderr.decode())
            self.assertEqual((len(fake.requests), other.requests), (1, []))

    def test_a_token_in_the_open_is_warned_of(self):
        with Fake(lambda _: DEVICES) as proxy:
            for host, warned in (("planner.example", True), ("127.0.0.1.example", True)):
                done = run("devices", "--server", f"http://{host}", environment=clean_environment(
                    http_proxy=proxy.url, SHARDPLAN_TOKEN=SECRET))
                self.assertEqual((done.returncode, b"warning: the token" in done.stderr), (0, warned), done.stderr)
                self.assertNotIn(SECRET.encode(), done.stderr)
            self.assertEqual(proxy.requests[0].path, "http://planner.example/v1/devices")
            done = run("devices", "--server", "http://planner.example", environment=clean_environment(
                http_proxy=proxy.url))
            self.assertNotIn(b"warning", done.stderr)
            self.assertNotIn(b"warning", self.ask(proxy, "devices", SHARDPLAN_TOKEN=SECRET).stderr)


class Tls(ClientCase):
    def certificate(self, name, subject, *more):
        """A key and a certificate, in one file each; signed by itself, or by what `more` says."""
        key, certificate = self.path(name + ".key"), self.path(name + ".pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "1", "-subj", "/CN=" + subject, "-keyout", key, "-out", certificate, *more],
                       check=True, capture_output=True)
        return certificate, key

    def serve(self, certificate, key, clients=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients)
        return Fake(lambda _: DEVICES, context)

    def test_authorities(self):
        here = self.certificate("here", "here", "-addext", "subjectAltName=IP:127.0.0.1")
        other = self.certificate("other", "other", "-addext", "subjectAltName=DNS:other.example")
        with self.serve(*here) as fake, self.serve(*other) as foreign:
            self.ask(fake, "devices", "--ca-file", here[0], SHARDPLAN_TOKEN=SECRET)
            self.ask(fake, "devices", SHARDPLAN_CA_FILE=here[0])
            self.assertEqual(fake.requests[0].headers["authorization"], "Bearer " + SECRET)
            for server, arguments in ((fake, []), (fake, ["--ca-file", other[0]]), (foreign, ["--ca-file", other[0]]),
                                      (fake, ["--ca-file", self.path("absent.pem")])):
                with self.subTest(arguments=arguments):
                    done = self.ask(server, "devices", *arguments, status=4, SHARDPLAN_TOKEN=SECRET)
                    self.assertEqual(self.code(done).split()[0], "TLS_FAILED")
            self.assertEqual((len(fake.requests), foreign.requests), (2, []))

    def test_certificates_of_clients(self):
        here = self.certificate("here", "here", "-addext", "subjectAltName=IP:127.0.0.1")
        client = self.certificate("client", "client")
        with self.serve(*here, clients=client[0]) as fake:
            self.ask(fake, "devices", "--ca-file", here[0], "--client-certificate", client[0], "--client-key", client[1])
            both = self.file("both.pem", b"".join(open(name, "rb").read() for name in client))
            self.ask(fake, "devices", SHARDPLAN_CA_FILE=here[0], SHARDPLAN_CLIENT_CERTIFICATE=both)
            for arguments in ([], ["--client-certificate", self.path("absent.pem")]):
                with self.subTest(arguments=arguments):
                    self.ask(fake, "devices", "--ca-file", here[0], *arguments, status=4)
            self.assertEqual(len(fake.requests), 2)


class Retries(ClientCase):
    def script(self, *answers):
        """Answers one after the other; the last one stays."""
        left = list(answers)

        def answer(_):
            given = left.pop(0) if len(left) > 1 else left[0]
            if given is None:
                raise Close
            return given
        return Fake(answer)

    def busy(self, seconds, status=503, **members):
        return status, {"Retry-After": seconds}, problem(status, "BUSY", "Too much is asked.", **members)

    def test_a_busy_server_is_asked_again(self):
        for status in (503, 429):
            with self.subTest(status=status), self.script(self.busy(1, status), DEVICES) as fake:
                started = time.monotonic()
                done = self.ask(fake, "devices")
                self.assertGreaterEqual(time.monotonic() - started, 1)
                self.assertEqual((done.stdout, len(fake.requests)), (b"none\n", 2))
                self.assertIn(b"trying again", done.stderr)

    def test_but_not_for_ever(self):
        with self.script(self.busy(1)) as fake:
            self.assertEqual(self.code(self.ask(fake, "devices", status=4)), "BUSY")
            self.assertEqual(len(fake.requests), 6)
        for answer in (self.busy(3600), (503, {}, b"<html>"), self.busy(1, kind="memory")):
            with self.subTest(answer=answer), self.script(answer, DEVICES) as fake:
                done = self.ask(fake, "devices", status=4)
                self.assertEqual((self.code(done).split()[0], len(fake.requests)), ("BUSY", 1))
        self.assertIn(b"in 1 s", done.stderr)

    def test_a_broken_connection_is_tried_once_more(self):
        with self.script(None, DEVICES) as fake:
            self.assertEqual(self.ask(fake, "devices").stdout, b"none\n")
            self.assertEqual(len(fake.requests), 2)
        with self.script(None) as fake:
            self.assertEqual(self.code(self.ask(fake, "devices", status=4)).split()[0], "SERVER_UNREACHABLE")
            self.assertEqual(len(fake.requests), 2)

    def test_a_download_that_broke_begins_anew(self):
        content = os.urandom(100000)
        with self.script((200, {"Content-Length": "100000"}, content[:60000]), (200, {}, content)) as fake:
            self.ask(fake, "plans", "fetch", PLAN, "--annotated", "-o", self.path("out.onnx"))
            self.assertEqual(len(fake.requests), 2)
        with open(self.path("out.onnx"), "rb") as file:
            self.assertEqual(file.read(), content)
        with self.script((200, {"Content-Length": "100000"}, content[:60000])) as fake:
            self.ask(fake, "plans", "fetch", PLAN, "--annotated", "-o", self.path("none.onnx"), status=4)
            self.ask(fake, "plans", "fetch", PLAN, "--annotated", "-o", "-", status=4)
            self.assertEqual(len(fake.requests), 3, "what is on standard output cannot be taken back")
        self.assertFalse(os.path.exists(self.path("none.onnx")))

    def test_what_was_deleted_by_the_first_try(self):
        with self.script(None, (404, {}, problem(404, "PLAN_NOT_FOUND", "There is no plan with this id."))) as fake:
            self.ask(fake, "plans", "delete", PLAN)
            self.ask(fake, "plans", "delete", PLAN, status=4)

    def test_what_else_goes_wrong_at_a_server(self):
        for status, body, code in ((507, problem(507, "DISK_FULL", "The disk is full."), "DISK_FULL"),
                                   (507, b"", "DISK_FULL"), (502, b"<html>", "PROXY"), (401, b"", "UNAUTHORIZED"),
                                   (418, b"tea", "SERVER_ERROR")):
            with self.subTest(status=status, body=body), self.script((status, {}, body)) as fake:
                done = self.ask(fake, "devices", status=4)
                self.assertEqual(self.code(done).split()[0], code)
                self.assertEqual(len(fake.requests), 1)

    def test_large_uploads_ask_first(self):
        model = self.file("large.onnx", onnx_make.encode(onnx_make.chain(4)) + bytes(3 << 20))
        with Fake(lambda request: (404 if request.method == "HEAD" else 422, {},
                                   problem(422, "BAD_MODEL", "No."))) as fake:
            self.ask(fake, "models", "upload", model, status=2)
            self.assertEqual(fake.requests[-1].headers.get("expect"), "100-continue")
            self.assertEqual(len(fake.requests[-1].body), os.path.getsize(model))

    def test_a_model_that_comes_damaged_is_not_kept(self):
        with self.script((200, {}, b"not these bytes")) as fake:
            done = self.ask(fake, "models", "fetch", "ab" * 32, "-o", self.path("out.onnx"), status=4)
            self.assertEqual(self.code(done), "MODEL_DAMAGED")
        self.assertEqual(os.listdir(self.folder), [])


class Lists(ClientCase):
    IDS = [f"{number:032x}" for number in (0xaaaa << 112, 0xaaab << 112, 0xcccc << 112, 0xdddd << 112)]

    def pages(self, request):
        states = dict(zip(self.IDS, ("succeeded", "running", "queued", "failed", "failed")))
        at = int(request.path.partition("page_token=")[2].partition("&")[0] or 0)
        wanted = request.path.partition("state=")[2].partition("&")[0]
        plans = [{"id": name, "state": states[name], "model": "ab" * 32, "attempts": 1,
                  "created_at": "2026-11-22T18:30:05.123Z"} for name in self.IDS[at:at + 2]
                 if wanted in ("", states[name])]
        page = {"plans": plans}
        if at + 2 < len(self.IDS):
            page["next_page_token"] = str(at + 2)
        return 200, {}, page

    def test_all_pages_are_read(self):
        with Fake(self.pages) as fake:
            listed = json.loads(self.ask(fake, "plans", "--json").stdout)["plans"]
            self.assertEqual([plan["id"] for plan in listed], self.IDS)
            self.assertEqual(len(fake.requests), 2)
            text = self.ask(fake, "plans", "list").stdout.decode().splitlines()
            self.assertEqual([line.split()[0] for line in text], ["ID", *self.IDS])
            self.assertIn("2026-11-22 18:30:05", text[1])
            jobs = json.loads(self.ask(fake, "jobs", "--json").stdout)["plans"]
            self.assertEqual([plan["state"] for plan in jobs], ["queued", "running"])
            self.assertEqual(len(self.ask(fake, "jobs").stdout.splitlines()), 3)

    def test_a_plan_that_begins_to_run_between_two_lists(self):
        def answer(request):
            state = request.path.partition("state=")[2]
            return 200, {}, {"plans": [{"id": PLAN, "state": state, "model": "ab" * 32, "created_at": "2026"}]}

        with Fake(answer) as fake:
            jobs = json.loads(self.ask(fake, "jobs", "--json").stdout)["plans"]
            self.assertEqual([plan["state"] for plan in jobs], ["running"])

    def test_the_first_digits_of_an_id(self):
        def answer(request):
            return self.pages(request) if "page_size" in request.path else (200, {}, b"a plan\n")

        with Fake(answer) as fake:
            for given, number in (("aaab", 1), ("cccc00", 2), (self.IDS[3], 3)):
                self.assertEqual(self.ask(fake, "plans", "show", given).stdout, b"a plan\n")
                self.assertEqual(fake.asked()[-1], f"GET /v1/plans/{self.IDS[number]}")
            for given, code, status in (("aaa", "BAD_ID", 2), ("aaaa" * 9, "BAD_ID", 2), ("ABCD", "BAD_ID", 2),
                                        ("../x", "BAD_ID", 2), ("eeee", "PLAN_NOT_FOUND", 4)):
                self.assertEqual(self.code(self.ask(fake, "plans", "show", given, status=status)), code)
            self.IDS.append("cccc1" + "0" * 27)
            self.addCleanup(self.IDS.pop)
            self.assertEqual(self.code(self.ask(fake, "plans", "show", "cccc", status=2)), "AMBIGUOUS_ID")

    def test_lists_that_make_no_sense(self):
        for page in ([], {"plans": 3}, {"plans": [], "next_page_token": 3}, {"plans": [], "next_page_token": "a&b=c"}, {}):
            with self.subTest(page=page), Fake(lambda _, page=page: (200, {}, page)) as fake:
                self.assertEqual(self.code(self.ask(fake, "plans", status=4)), "SERVER_ERROR")

    def test_names_do_not_reach_the_terminal_as_they_are(self):
        item = {"id": "ab" * 32, "name": "a\x1b[2J\nb", "bytes": 1, "created_at": "\x1b"}
        with Fake(lambda _: (200, {}, {"models": [item]})) as fake:
            lines = self.ask(fake, "models").stdout
            self.assertNotIn(b"\x1b", lines)
            self.assertEqual(len(lines.splitlines()), 2)


class PlanServer:
    """A plan that takes its time. `answers` are for requests that a test wants answered otherwise, by method and end of
    the path."""

    def __init__(self, **answers):
        self.state, self.plan, self.on_cancel, self.events = "running", None, "cancelled", None
        self.answers = answers

    def __call__(self, request):
        path = request.path.split("?")[0]
        if path.endswith("/events"):
            return self.events(request) if self.events else (404, {}, problem(404, "NOT_FOUND", "Nothing."))
        if path.endswith("/cancel"):
            self.state = self.on_cancel
        if request.method == "HEAD":
            return 200, {}, b""
        if request.headers.get("accept") == "text/plain":
            return 200, {}, b"the plan\n"
        body = {"id": PLAN, "state": self.state, "progress": {"phase": "search", "fraction": 0.25, "best_seconds": 0.5,
                                                              "lower_bound_seconds": 0.25}}
        if self.plan is not None and self.state == "succeeded":
            body["plan"] = self.plan
        return 202 if request.method == "POST" and path == "/v1/plans" else 200, {}, body


class Watching(ClientCase):
    def stream(self, *pieces):
        return 200, {"Content-Type": "text/event-stream"}, pieces

    def watched(self, fake):
        return [json.loads(line) for line in self.ask(fake, "plans", "watch", PLAN, "--json").stdout.splitlines()]

    def test_events_in_any_pieces(self):
        server = PlanServer()
        text = (": hello\r\nretry: 100\r\nid: 1\r\nevent: progress\r\ndata: {\"phase\": \"search\",\r\n"
                "data:  \"fraction\": 0.5}\r\n\r\nevent: unknown\ndata: {}\n\n\n:\nevent: improved\rid: 2\r"
                "data:{\"phase\": \"search\", \"fraction\": 0.75, \"best_seconds\": 0.5}\r\revent: done\ndata: {}\n\n")

        def events(_):
            server.state = "succeeded"
            return self.stream(*(text[at:at + size].encode() for at in range(0, len(text), size)))
        server.events = events
        for size in (1, 2, 7, 4096):
            with self.subTest(size=size), Fake(server) as fake:
                server.state = "running"
                self.assertEqual(self.watched(fake), [
                    {"event": "progress", "data": {"phase": "search", "fraction": 0.5}},
                    {"event": "improved", "data": {"phase": "search", "fraction": 0.75, "best_seconds": 0.5}},
                    {"event": "done", "data": {"id": PLAN, "state": "succeeded"}}])
                self.assertEqual(fake.asked(), [f"GET /v1/plans/{PLAN}/events", f"GET /v1/plans/{PLAN}"])
                server.state = "running"
                text_lines = self.ask(fake, "plans", "watch", PLAN).stdout.decode().splitlines()
                self.assertEqual(text_lines[0].split(), ["search", "50%"])
                self.assertEqual(text_lines[-1], PLAN + " succeeded")

    def test_a_stream_that_broke_goes_on_where_it_was(self):
        server = PlanServer()

        def events(request):
            if request.headers.get("last-event-id") == "7":
                server.state = "succeeded"
                return self.stream(b"event: done\ndata: {}\n\n")
            return self.stream(b"id: 7\nevent: progress\ndata: {\"phase\": \"read\", \"fraction\": 0}\n\nid: 8\nevent: pro")
        server.events = events
        with Fake(server) as fake:
            told = self.watched(fake)
            self.assertEqual(told[0]["data"]["phase"], "read")
            self.assertEqual([request.headers.get("last-event-id") for request in fake.requests
                              if request.path.endswith("/events")], [None, "7"])

    def test_the_last_event_came_before(self):
        server = PlanServer()

        def events(_):
            server.state = "succeeded"
            return 204, {}, b""
        server.events = events
        with Fake(server) as fake:
            self.assertEqual(self.watched(fake), [{"event": "done", "data": {"id": PLAN, "state": "succeeded"}}])

    def test_without_events_it_is_asked_again_and_again(self):
        server = PlanServer()
        asked = []

        def answer(request):
            asked.append(request)
            if len(asked) == 4:
                server.state = "failed"
            status, headers, body = server(request)
            if server.state == "failed":
                body["error"] = {"status": 422, "code": "NO_PLAN_FITS", "detail": "Too small.", "kind": "nofit"}
            return status, headers, body
        with Fake(answer) as fake:
            done = self.ask(fake, "plans", "watch", PLAN, status=3)
            self.assertEqual(done.stdout.decode(), "search    25%  best 500 ms, bound 250 ms\n")
            self.assertEqual(self.code(done), "NO_PLAN_FITS")
            self.assertEqual(len([path for path in fake.asked() if path.endswith("/events")]), 1)

    def test_streams_that_make_no_sense(self):
        server = PlanServer()

        def events(_):
            server.state = "succeeded"
            return self.stream(b"data: " + b"x" * (3 << 20))
        server.events = events
        with Fake(server) as fake:
            self.assertEqual(self.watched(fake)[-1]["data"]["state"], "succeeded")
        for body in (b"", b"{}", b'{"state": 3}', b"<html>"):
            with self.subTest(body=body), Fake(lambda _, body=body: (200, {}, body)) as fake:
                self.ask(fake, "plans", "wait", PLAN, status=4)


class Submitting(ClientCase):
    def command(self, fake):
        model = self.file("m.onnx", onnx_make.encode(onnx_make.chain(4)))
        return [CLI, "plan", model, "--devices", "2", "--device", "a100-sxm4-80gb", "--server", fake.url]

    def run_plan(self, fake):
        return subprocess.run(self.command(fake), capture_output=True, timeout=PATIENCE, env=clean_environment(),
                              check=False)

    def test_a_submission_that_is_sent_twice_has_one_key(self):
        server = PlanServer()
        server.state, server.plan = "succeeded", {}
        posts = []

        def answer(request):
            if request.method == "POST":
                posts.append(request.headers["idempotency-key"])
                if len(posts) == 1:
                    raise Close
            return server(request)
        with Fake(answer) as fake:
            self.assertEqual(self.run_plan(fake).returncode, 0)
            self.assertEqual(self.run_plan(fake).returncode, 0)
        self.assertEqual(len(posts), 3)
        self.assertEqual(posts[0], posts[1])
        self.assertNotEqual(posts[1], posts[2])
        self.assertRegex(posts[0], "^[0-9a-f]{32}$")

    def test_a_large_upload_shows_how_it_goes(self):
        def answer(request):
            if request.method == "POST" and request.path.startswith("/v1/models"):
                time.sleep(1.5)
            return (404, {}, problem(404, "X_Y", "No.")) if request.method == "HEAD" else server(request)
        server = PlanServer()
        server.state, server.plan = "succeeded", {}
        with Fake(answer) as fake:
            master, slave = pty.openpty()
            process = subprocess.Popen([*self.command(fake), "--priority", "low"], stderr=slave,
                                       stdout=subprocess.PIPE, env=clean_environment(TERM="xterm"))
            os.close(slave)
            drawn = b""
            try:
                while piece := os.read(master, 4096):
                    drawn += piece
            except OSError:  # its end, on Linux
                pass
            os.close(master)
            process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0, drawn)
            self.assertRegex(drawn, rb"upload +\[#*\.*\] +\d+%")
            self.assertEqual(json.loads(fake.requests[-2].body)["priority"], "low")

    def interrupted(self, fake, until, times=1):
        """Runs the command and interrupts it when `until` was asked for."""
        process = subprocess.Popen(self.command(fake), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=clean_environment())
        for _ in range(times):
            deadline = time.monotonic() + PATIENCE
            while not until(fake) and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            until = lambda fake: any(path.endswith("/cancel") for path in fake.asked("POST"))  # noqa: E731
        stdout, stderr = process.communicate(timeout=PATIENCE)
        self.assertNotIn(b"Sanitizer", stderr)
        return process.returncode, stdout, stderr

    @staticmethod
    def waits(fake):
        return f"GET /v1/plans/{PLAN}" in fake.asked()

    def test_an_interrupt_takes_the_best_plan(self):
        server = PlanServer()
        server.on_cancel, server.plan = "succeeded", {}
        with Fake(server) as fake:
            status, stdout, stderr = self.interrupted(fake, self.waits)
            self.assertEqual((status, stdout), (0, b"the plan\n"), stderr)
            self.assertIn(b"the best plan that it had found", stderr)
            self.assertEqual(len([path for path in fake.asked("POST") if path.endswith("/cancel")]), 1)

    def test_an_interrupt_that_leaves_nothing(self):
        with Fake(PlanServer()) as fake:
            status, stdout, stderr = self.interrupted(fake, self.waits)
            self.assertEqual((status, stdout), (-signal.SIGINT, b""), stderr)
            self.assertIn(b"[CANCELLED]", stderr)

    def test_a_second_interrupt_leaves(self):
        server = PlanServer()
        server.on_cancel = "running"
        with Fake(server) as fake:
            status, _, stderr = self.interrupted(fake, self.waits, times=2)
            self.assertEqual(status, -signal.SIGINT, stderr)

    def test_an_interrupt_before_the_plan_has_a_name(self):
        server = PlanServer()

        def answer(request):
            if request.method == "POST" and request.headers.get("prefer"):
                deadline = time.monotonic() + PATIENCE
                while len(fake.asked("POST")) < 2 and time.monotonic() < deadline:
                    time.sleep(0.01)
            return server(request)
        with Fake(answer) as fake:
            status, _, stderr = self.interrupted(fake, lambda fake: fake.asked("POST"))
            self.assertEqual(status, -signal.SIGINT, stderr)
            posts = [request for request in fake.requests if request.method == "POST"]
            self.assertEqual([request.path for request in posts], ["/v1/plans", "/v1/plans", f"/v1/plans/{PLAN}/cancel"])
            self.assertEqual(posts[0].headers["idempotency-key"], posts[1].headers["idempotency-key"])


if __name__ == "__main__":
    unittest.main()
