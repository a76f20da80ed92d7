"""What operators see of the daemon: logs, traces, metrics, readiness, signals, the service manager, too few descriptors."""

import ctypes
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest
from unittest import mock

from cases import CLUSTER, TINY, DaemonCase, model as model_of
from daemon import TOP, Daemon
from exposition import Exposition
from test_auth import UNKNOWN, Tokens

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


def events(daemon, name):
    return [event for event in map(json.loads, daemon.log) if event["event"] == name]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Logs(DaemonCase):
    def line(self, name, **members):
        """The event with these members, when it has been logged."""

        def look():
            found = [event for event in events(self.daemon, name)
                     if all(event.get(key) == value for key, value in members.items())]
            return found[-1] if found else None

        return self.daemon.wait_for(look, f"the event {name} with {members}")

    def test_a_request(self):
        self.ask("GET", "/v1/models?page_size=1", X_Request_Id="logs-1")
        line = self.line("request", request_id="logs-1")
        self.assertEqual((line["level"], line["method"], line["route"]), ("info", "GET", "/v1/models"))
        self.assertEqual((line["path"], line["status"], line["principal"]), ("/v1/models", 200, "local"))
        self.assertRegex(line["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
        self.assertRegex(line["trace_id"], "^[0-9a-f]{32}$")
        self.assertRegex(line["span_id"], "^[0-9a-f]{16}$")
        self.assertGreaterEqual(line["ms"], 0)

    def traced(self, value):
        """What the log says of a request with this traceparent."""
        name = f"trace-{time.monotonic_ns()}"
        self.ask("GET", "/version", X_Request_Id=name, traceparent=value)
        return self.line("request", request_id=name)

    def test_a_trace_goes_on_with_a_span_of_its_own(self):
        for value in (f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00", f"cc-{TRACE}-{PARENT}-01-what-comes"):
            with self.subTest(value):
                line = self.traced(value)
                self.assertEqual(line["trace_id"], TRACE)
                self.assertNotEqual(line["span_id"], PARENT)

    def test_a_wrong_trace_is_replaced(self):
        wrong = (
            f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE.upper()}-{PARENT}-01",
            f"00-{TRACE}-{PARENT}-01-more", f"00-{TRACE}-{PARENT}", f"00-{TRACE[:-1]}-{PARENT}-01", f"00-{TRACE}-{PARENT}-0x",
            f"00_{TRACE}_{PARENT}_01", f"cc-{TRACE}-{PARENT}-01x", f"0-{TRACE}-{PARENT}-01", "",
        )
        for value in wrong:
            with self.subTest(value):
                line = self.traced(value)
                self.assertRegex(line["trace_id"], "^(?!0{32})[0-9a-f]{32}$")
                self.assertNotEqual(line["trace_id"], TRACE)

    def test_probes_that_go_well_are_silent(self):
        self.ask("GET", "/readyz", X_Request_Id="probe-1")
        self.ask("GET", "/metrics", X_Request_Id="probe-2")
        self.problem("GET", "/livez?x=1", status=400, X_Request_Id="probe-3")
        self.line("request", request_id="probe-3")
        self.assertEqual([e for e in events(self.daemon, "request") if e["request_id"] in ("probe-1", "probe-2")], [])

    def test_two_traces_are_none(self):
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20) as connection:
            connection.sendall(
                f"GET /version HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: two\r\ntraceparent: 00-{TRACE}-{PARENT}-01\r\n"
                f"Traceparent: 00-{TRACE}-{PARENT}-01\r\nConnection: close\r\n\r\n".encode()
            )
            self.assertIn(b" 200 ", connection.recv(65536))
        self.assertNotEqual(self.line("request", request_id="two")["trace_id"], TRACE)

    def test_problems_have_the_trace(self):
        answer = self.problem("GET", "/nothing", status=404, traceparent=f"00-{TRACE}-{PARENT}-01")
        self.assertEqual(answer.json["trace_id"], TRACE)
        other = self.problem("GET", "/nothing", status=404)
        self.assertRegex(other.json["trace_id"], "^[0-9a-f]{32}$")
        self.assertNotEqual(other.json["trace_id"], self.problem("GET", "/nothing", status=404).json["trace_id"])

    def test_a_plan_can_be_followed(self):
        model = self.store()
        answer = self.ask("POST", "/v1/plans", {"model": model, "cluster": CLUSTER}, 202, X_Request_Id="follow",
                          traceparent=f"00-{TRACE}-{PARENT}-01", Cache_Control="no-cache")
        line = self.line("plan submitted", plan=answer.json["id"])
        self.assertEqual((line["trace_id"], line["request_id"], line["model"]), (TRACE, "follow", model))
        self.assertEqual(line["span_id"], self.line("request", request_id="follow")["span_id"])
        self.daemon.finished(answer.json["id"])
        self.line("plan finished", plan=answer.json["id"])

    def test_input_cannot_forge_a_line(self):
        path = '/"},{"event":"forged' + "x" * 5000
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: forge\r\nConnection: close\r\n\r\n".encode())
            while connection.recv(65536):
                pass
        line = self.line("request", request_id="forge")  # the harness has parsed every line
        self.assertTrue(line["path"].startswith('/"},{"event":"forged'), line["path"][:100])
        self.assertIn("status", line)


class Levels(unittest.TestCase):
    def test_only_what_is_bad_enough(self):
        daemon = Daemon("--workers", "1", "--log-level", "warning")
        try:
            daemon.log, daemon.port = [], free_port()
            process = daemon.spawn("--listen", f"127.0.0.1:{daemon.port}", "--admin-listen", "127.0.0.1:0")
            daemon.wait_for(lambda: daemon.raw_status("/livez") == 200, "life")
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
            # A sanitized worker lacks some of the walls, which is a warning.
            lines = [line for line in errors.splitlines() if json.loads(line)["event"] != "sandbox"]
            self.assertEqual((process.returncode, lines), (0, []))
        finally:
            daemon.folder.cleanup()

    def test_text(self):
        daemon = Daemon("--workers", "1")
        try:
            process = daemon.spawn("--log-format", "text", "--listen", "127.0.0.1:0")
            line = process.stderr.readline().decode()
            self.assertRegex(line, r"^\S+Z info    listening url=http://127\.0\.0\.1:\d+\n$")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0)
        finally:
            daemon.folder.cleanup()


class Metrics(DaemonCase):
    options = ("--workers", "2", "--max-upload", "100K")

    def exposition(self):
        return Exposition(self.ask("GET", "/metrics").text)

    def test_the_format(self):
        self.submit()
        self.ask("GET", "/nothing", expect=404)
        text = self.ask("GET", "/metrics").text
        Exposition(text)
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_the_checker_finds_mistakes(self):
        head = "# HELP a_total A.\n# TYPE a_total counter\n"
        for text in ("a_total 1\n", head + "a_total 1", head + "a_total one\n", head + "a_total 1\na_total 2\n",
                     head + 'a_total{x="1",x="2"} 1\n', head + 'a_total{x="1} 1\n', head + head + "a_total 1\n",
                     head + "a_total -1\n", "# TYPE a_total counter\na_total 1\n", "# HELP a A.\n# TYPE a counter\na 1\n",
                     "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n",
                     "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n",
                     "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum 1\nh_count 1\n"):
            with self.subTest(text), self.assertRaises(AssertionError):
                Exposition(text)

    def test_the_readme_names_every_one(self):
        with open(os.path.join(TOP, "README.md"), encoding="utf-8") as file:
            text = file.read()
        named = set(re.findall(r"`([a-z_]+)`", text[text.index("### Metrics"):]))
        families = {family.removeprefix("shardplan_") for family in self.exposition().kinds if family.startswith("shardplan_")}
        self.assertEqual(families - named, set())

    def test_requests(self):
        before = self.exposition()
        labels = {"method": "GET", "route": "/version"}
        for _ in range(3):
            self.ask("GET", "/version")
        self.ask("GET", "/version?x=1", expect=400)
        after = self.daemon.wait_for(
            lambda: (e := self.exposition()).value("shardplan_http_requests_total", **labels, code="400")
            > before.value("shardplan_http_requests_total", **labels, code="400") and e, "the last request")
        for name in ("shardplan_http_requests_total", "shardplan_http_request_duration_seconds_count"):
            self.assertEqual(after.value(name, **labels, code="200") - before.value(name, **labels, code="200"), 3)
        self.assertEqual(after.value("shardplan_http_requests_in_flight", **labels), 0)
        self.assertEqual(after.value("shardplan_http_requests_in_flight", method="GET", route="/metrics"), 1)
        self.assertGreaterEqual(after.value("shardplan_http_connections"), 1)
        self.assertEqual(after.value("shardplan_http_connections_max"), 2048)

    def test_a_request_in_flight(self):
        labels = {"method": "POST", "route": "/v1/models"}
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20) as connection:
            connection.sendall(b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
                               b"Content-Type: application/octet-stream\r\n\r\nabc")
            self.daemon.wait_for(lambda: self.exposition().value("shardplan_http_requests_in_flight", **labels) == 1, "a request")
        self.daemon.wait_for(lambda: self.exposition().value("shardplan_http_requests_in_flight", **labels) == 0, "its end")

    def test_uploads(self):
        before = self.exposition()
        self.ask("POST", "/v1/models", TINY, (200, 201))
        self.ask("POST", "/v1/models", b"\xff" * 1000, expect=400)
        self.ask("POST", "/v1/models", b"x" * 200000, expect=413)
        after = self.exposition()
        self.assertEqual(after.value("shardplan_uploads_total") - before.value("shardplan_uploads_total"), 2)
        self.assertEqual(after.value("shardplan_upload_bytes_total") - before.value("shardplan_upload_bytes_total"),
                         len(TINY) + 1000)
        refused = {labels["code"]: value for labels, value in after.series("shardplan_uploads_refused_total")}
        self.assertGreaterEqual(len(refused), 2, refused)

    def test_jobs(self):
        before = self.exposition()
        plan = self.submit()
        self.daemon.finished(plan)
        after = self.exposition()

        def grown(name, **labels):
            return after.value(name, **labels) - before.value(name, **labels)

        done = {"kind": "plan", "outcome": "succeeded"}
        self.assertEqual(grown("shardplan_jobs_total", **done), 1)
        self.assertEqual(grown("shardplan_job_attempts_total", kind="plan"), 1)
        self.assertEqual(grown("shardplan_job_duration_seconds_count", **done), 1)
        self.assertEqual(grown("shardplan_job_wait_seconds_count", **done), 1)
        self.assertLess(grown("shardplan_job_wait_seconds_sum", **done), 60)
        phases = [phase for phase in ("start", "read", "shapes", "search", "write")
                  if grown("shardplan_plan_phase_duration_seconds_count", phase=phase) == 1]
        self.assertEqual(phases, ["start", "read", "shapes", "search", "write"])
        spent = sum(grown("shardplan_plan_phase_duration_seconds_sum", phase=phase) for phase in phases)
        self.assertAlmostEqual(spent, grown("shardplan_job_duration_seconds_sum", **done), delta=0.05)

    def test_a_plan_that_fails(self):
        before = self.exposition()
        cluster = {"device": {"name": "tiny", "memory_bytes": 1000, "memory_bandwidth": 1e9, "flops": {"float32": 1e9},
                              "link_bandwidth": 1e9}, "count": 1}
        plan = self.submit(cluster=cluster)
        self.assertEqual(self.daemon.finished(plan)["state"], "failed")
        failed = {"kind": "plan", "outcome": "failed"}
        self.assertEqual(self.exposition().value("shardplan_jobs_total", **failed)
                         - before.value("shardplan_jobs_total", **failed), 1)

    def test_store_and_disk(self):
        self.store()
        self.daemon.finished(self.submit())
        exposition = self.exposition()
        self.assertGreaterEqual(exposition.value("shardplan_store_bytes"), len(TINY))
        self.assertGreaterEqual(exposition.value("shardplan_store_objects"), 1)
        self.assertGreater(exposition.value("shardplan_disk_free_bytes"), 1 << 20)
        self.assertGreaterEqual(exposition.value("shardplan_plans", state="succeeded"), 1)
        calls = {labels["call"]: value for labels, value in exposition.series("shardplan_store_calls_total")}
        self.assertGreater(sum(calls.values()), 3, calls)
        for call, count in calls.items():
            self.assertEqual(exposition.value("shardplan_store_call_duration_seconds_count", call=call), count)
            self.assertEqual(exposition.value("shardplan_store_errors_total", call=call), 0)

    def test_the_process(self):
        exposition, process = self.exposition(), self.daemon.process.pid
        self.assertAlmostEqual(exposition.value("process_start_time_seconds"), time.time(), delta=600)
        self.assertGreater(exposition.value("process_cpu_seconds_total"), 0)
        self.assertGreater(exposition.value("process_resident_memory_bytes"), 1 << 20)
        self.assertGreater(exposition.value("process_virtual_memory_bytes"),
                           exposition.value("process_resident_memory_bytes"))
        for _ in range(20):  # workers may be starting meanwhile, each with pipes of its own
            told, there = self.exposition().value("process_open_fds"), len(os.listdir(f"/proc/{process}/fd"))
            if abs(told - there) <= 3:
                break
            time.sleep(0.1)
        self.assertAlmostEqual(told, there, delta=3)
        self.assertEqual(exposition.value("process_max_fds"), resource.prlimit(process, resource.RLIMIT_NOFILE)[0])
        self.assertEqual([labels["version"] for labels, _ in exposition.series("shardplan_build_info")],
                         [self.ask("GET", "/version").json["version"]])
        self.assertEqual(exposition.value("shardplan_workers_wanted"), 4)

    def test_workers_that_die(self):
        workers = self.daemon.freeze()
        plan = self.submit()
        # The store says "running" a moment before the plan is handed to a worker.
        self.daemon.wait_for(lambda: self.exposition().value("shardplan_workers_busy") == 1, "a busy worker")
        self.assertEqual(self.ask("GET", f"/v1/plans/{plan}").json["state"], "running")
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        self.daemon.finished(plan)
        self.daemon.wait_for(lambda: self.exposition().value("shardplan_workers_ended_total", reason="crashed")
                             == len(workers), "the ends of all workers")


class Readiness(unittest.TestCase):
    def test_who_may_have_the_list(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = Tokens(folder)
            admin = free_port()
            daemon = Daemon("--workers", "1", "--tokens", tokens.path, "--admin-listen", f"127.0.0.1:{admin}")
            with daemon:
                for token, status in ((None, 403), (UNKNOWN, 403), (tokens.planner, 403), (tokens.chief, 200)):
                    with self.subTest(token):
                        daemon.token = token
                        self.assertEqual(daemon.get("/readyz").text, "ok\n")
                        self.assertEqual(daemon.get("/readyz?verbose").status, status)
                lines = daemon.get("/readyz?verbose").text.splitlines()
                self.assertEqual([line.split(":")[0] for line in lines],
                                 ["[+] life", "[+] workers", "[+] sandbox", "[+] disk", "[+] store", "[+] queue"])
                public, daemon.port, daemon.token = daemon.port, admin, None
                self.assertEqual(daemon.get("/readyz?verbose").text.splitlines()[0], lines[0])
                exposition = Exposition(daemon.get("/metrics").text)
                daemon.port = public
                reasons = {labels["reason"]: value for labels, value in exposition.series("shardplan_auth_failures_total")}
                self.assertEqual(reasons, {"scope": 3})
                daemon.request("GET", "/v1/models")
                daemon.token = UNKNOWN
                daemon.request("GET", "/v1/models")
                daemon.port, daemon.token = admin, None
                exposition = Exposition(daemon.get("/metrics").text)
                daemon.port = public
                self.assertEqual(exposition.value("shardplan_auth_failures_total", reason="missing"), 1)
                self.assertEqual(exposition.value("shardplan_auth_failures_total", reason="wrong"), 1)
                daemon.token = tokens.chief
                self.assertEqual(daemon.get("/v1/models").status, 200)
                line = daemon.wait_for(lambda: [e for e in events(daemon, "request") if e.get("principal") == "chief"],
                                       "the chief's request")[0]
                self.assertEqual(line["tenant"], "chief")

    def test_each_condition_is_named(self):
        with Daemon("--workers", "1", "--max-queued-plans", "1", store="") as daemon:
            model = daemon.upload(TINY).json["id"]
            workers = daemon.freeze()
            body = {"model": model, "cluster": CLUSTER}
            for _ in range(2):
                answer = daemon.request("POST", "/v1/plans", body, {"Cache-Control": "no-cache"})
                self.assertEqual(answer.status, 202, answer)
                daemon.wait_for(lambda: daemon.get(answer.headers["Location"]).json["state"] == "running" or _ == 1, "a start")
            full = daemon.wait_for(lambda: (a := daemon.get("/readyz")).status == 503 and a, "a full queue")
            self.assertEqual(full.json["code"], "QUEUE_FULL", full)
            self.assertIn("1 of 1 plans", full.json["detail"])
            self.assertNotIn("worker", full.json["detail"])
            listed = daemon.get("/readyz?verbose").json["detail"].splitlines()
            self.assertEqual([line[:3] for line in listed], ["[+]"] * 5 + ["[-]"], listed)
            daemon.thaw(workers)
            daemon.wait_for(lambda: daemon.get("/readyz").status == 200, "readiness")
            other = sqlite3.connect(os.path.join(daemon.data, "shardplan.db"), isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            away = daemon.wait_for(lambda: (a := daemon.get("/readyz")).status == 503 and a, "a store that cannot be written")
            self.assertEqual(away.json["code"], "STORE_UNAVAILABLE", away)
            self.assertEqual(daemon.get("/livez").status, 200, "what a restart would not mend is no reason for one")
            other.execute("ROLLBACK")
            other.close()
            daemon.wait_for(lambda: daemon.get("/readyz").status == 200, "readiness")
            self.assertGreater(Exposition(daemon.get("/metrics").text).value("shardplan_store_errors_total", call="ping"), 0)


class Life(unittest.TestCase):
    def test_leaving_takes_its_time(self):
        """Not ready at once, but serving for the delay, and then gone."""
        daemon = Daemon("--workers", "1", "--shutdown-delay", "2", "--drain", "60")
        with daemon:
            model = daemon.upload(TINY).json["id"]
            began = time.monotonic()
            daemon.process.send_signal(signal.SIGTERM)
            answer = daemon.wait_for(lambda: (a := daemon.get("/readyz")).status == 503 and a, "the end of readiness")
            self.assertEqual(answer.json["code"], "STOPPING")
            self.assertEqual(daemon.get("/livez").status, 200)
            taken = daemon.request("POST", "/v1/plans", {"model": model, "cluster": CLUSTER}, {"Prefer": "wait=1"})
            self.assertIn(taken.status, (200, 202), taken)
            self.assertEqual(daemon.process.wait(30), 0)
            self.assertGreater(time.monotonic() - began, 1.9)
            daemon.process = None
            daemon.check_reports()

    def test_the_second_signal_ends_it_at_once(self):
        daemon = Daemon("--workers", "1", "--shutdown-delay", "60", "--drain", "60")
        with daemon:
            model = daemon.upload(TINY).json["id"]
            daemon.freeze()
            plan = daemon.request("POST", "/v1/plans", {"model": model, "cluster": CLUSTER})
            daemon.wait_for(lambda: daemon.get(plan.headers["Location"]).json["state"] == "running", "a running plan")
            began = time.monotonic()
            daemon.process.send_signal(signal.SIGTERM)
            daemon.wait_for(lambda: daemon.get("/readyz").status == 503, "the end of readiness")
            daemon.process.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.process.wait(30), 0)
            self.assertLess(time.monotonic() - began, 30, "less than either delay")
            daemon.process = None
            daemon.start()
            self.assertEqual(daemon.finished(plan.json["id"])["state"], "succeeded")
            daemon.stop(signals=2)

    def test_reload_of_tokens(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = Tokens(folder)
            with Daemon("--workers", "1", "--tokens", tokens.path) as daemon:
                daemon.token = tokens.planner
                self.assertEqual(daemon.get("/v1/models").status, 200)
                with open(tokens.path, "w", encoding="ascii") as file:
                    file.write("{")
                daemon.process.send_signal(signal.SIGHUP)
                line = daemon.wait_for(lambda: events(daemon, "tokens not reloaded, the old ones stay"), "the refusal")[0]
                self.assertEqual(line["level"], "error")
                self.assertIn("not JSON", line["detail"])
                self.assertEqual(daemon.get("/v1/models").status, 200)
                tokens.entries = []
                daemon.token = tokens.add("new")
                tokens.write()
                daemon.process.send_signal(signal.SIGHUP)
                daemon.wait_for(lambda: events(daemon, "tokens reloaded"), "the reload")
                self.assertEqual(daemon.get("/v1/models").status, 200)
                daemon.token = tokens.planner
                self.assertEqual(daemon.get("/v1/models").status, 401)

    def test_a_stuck_main_loop_is_not_alive(self):
        """Only the main thread is stopped; those of HTTP answer."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        seize, interrupt, detach = 0x4206, 0x4207, 17
        with Daemon("--workers", "1") as daemon:
            pid = daemon.process.pid
            if libc.ptrace(seize, pid, None, None) != 0:
                self.skipTest("processes may not be traced here")
            self.assertEqual(libc.ptrace(interrupt, pid, None, None), 0)
            os.waitpid(pid, 0x40000000)  # __WALL
            try:
                self.assertEqual(daemon.get("/livez").status, 200)
                began = time.monotonic()
                answer = daemon.wait_for(lambda: (a := daemon.get("/livez")).status == 503 and a, "the end of life", 20)
                self.assertEqual(answer.json["code"], "STUCK")
                self.assertGreater(time.monotonic() - began, 8)
            finally:
                libc.ptrace(detach, pid, None, None)
            daemon.wait_for(lambda: daemon.get("/livez").status == 200, "life")


class Manager(unittest.TestCase):
    """What the service manager is told, by systemd's protocol."""

    def talk(self, address):
        """The messages of one life with a reload."""
        received = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(address)
            manager.settimeout(0.2)
            shown = address if isinstance(address, str) else "@" + address[1:].decode()
            done = threading.Event()

            def listen():
                while not done.is_set():
                    try:
                        received.append(manager.recv(4096).decode())
                    except TimeoutError:
                        pass

            listener = threading.Thread(target=listen)
            listener.start()
            try:
                with mock.patch.dict(os.environ, {"NOTIFY_SOCKET": shown, "WATCHDOG_USEC": "400000"}):
                    daemon = Daemon("--workers", "1")
                    daemon.start()
                try:
                    daemon.wait_for(lambda: received.count("WATCHDOG=1") >= 3, "signs of life")
                    reloads = received.count("READY=1")
                    daemon.process.send_signal(signal.SIGHUP)
                    daemon.wait_for(lambda: received.count("READY=1") > reloads, "the end of the reload")
                    with open(f"/proc/{daemon.workers()[0]}/environ", encoding="ascii", errors="replace") as file:
                        self.assertNotIn("NOTIFY_SOCKET", file.read())
                finally:
                    daemon.close()
            finally:
                done.set()
                listener.join()
        return received

    def check(self, received):
        kinds = [re.split("[=\n]", message)[0] for message in received]
        self.assertEqual(kinds[0], "STATUS" if kinds[0] == "STATUS" else "READY", received)
        self.assertLess(kinds.index("READY"), kinds.index("RELOADING"))
        self.assertLess(kinds.index("RELOADING"), kinds.index("STOPPING"))
        self.assertEqual(kinds.count("READY"), 2)
        reloading = received[kinds.index("RELOADING")]
        match = re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", reloading)
        self.assertTrue(match, reloading)
        self.assertAlmostEqual(int(match.group(1)) / 1e6, time.monotonic(), delta=60)
        self.assertIn("STOPPING=1", received)
        self.assertTrue(any(re.match(r"STATUS=Serving; 0 of [123] workers busy, 0 requests", message) for message in received), received)

    def test_a_path(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check(self.talk(os.path.join(folder, "notify")))

    def test_an_abstract_name(self):
        self.check(self.talk(b"\0shardplan-test-%d" % os.getpid()))

    def test_the_watchdog_of_somebody_else(self):
        with mock.patch.dict(os.environ, {"NOTIFY_SOCKET": "relative", "WATCHDOG_USEC": "x", "WATCHDOG_PID": "1"}):
            daemon = Daemon("--workers", "1")
            daemon.start()
        try:
            self.assertEqual(daemon.get("/livez").status, 200)
            self.assertEqual(len(events(daemon, "service manager not told: NOTIFY_SOCKET is not usable")), 1)
        finally:
            daemon.close()


class Descriptors(unittest.TestCase):
    def test_too_few_are_not_the_end(self):
        """The daemon sheds, says so, and takes connections again without a restart."""
        with Daemon("--workers", "1") as daemon:
            pid = daemon.process.pid
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            ticks = self.ticks(pid)
            used = len(os.listdir(f"/proc/{pid}/fd"))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 2, before[1]))
            began = time.monotonic()
            waiting = []
            try:
                for _ in range(40):
                    waiting.append(socket.create_connection(("127.0.0.1", daemon.port), timeout=20))
                daemon.wait_for(lambda: [e for e in map(json.loads, list(daemon.log)) if "descriptors" in e["event"]], "a word")
                self.assertGreaterEqual(self.closed(waiting), 20)
            finally:
                for connection in waiting:
                    connection.close()
                resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            daemon.wait_for(lambda: daemon.raw_status("/readyz") == 200, "recovery")
            seconds = time.monotonic() - began
            said = [e for e in map(json.loads, daemon.log) if "descriptors" in e["event"]]
            self.assertLess(len(said), 3 + seconds, said)
            self.assertLess(self.ticks(pid) - ticks, 100 * max(1, seconds), "it spins")
            self.assertEqual(daemon.upload(TINY).status, 201)
            came = {labels["outcome"]: value
                    for labels, value in Exposition(daemon.get("/metrics").text).series("shardplan_http_connections_total")}
            self.assertGreaterEqual(came["descriptors"], 20)
            self.assertGreaterEqual(came["accepted"], 3)

    def test_files_that_cannot_be_opened_are_not_damaged(self):
        with Daemon("--workers", "1") as daemon:
            model = daemon.upload(TINY).json["id"]
            plan = daemon.request("POST", "/v1/plans", {"model": model, "cluster": CLUSTER}, {"Prefer": "wait=60"}).json["id"]
            paths = f"/v1/models/{model}/content", f"/v1/models/{model}", f"/v1/plans/{plan}/model", f"/v1/plans/{plan}"
            connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=20)

            def ask(method, path, body=None):
                connection.request(method, path, body, {"Accept": "text/plain, application/octet-stream, application/json;q=0.1"})
                answer = connection.getresponse()
                return answer, answer.read()

            ask("GET", "/livez")
            before = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (8, before[1]))  # those are open
            try:
                refused = [ask("GET", path) for path in paths] + [ask("POST", "/v1/models", model_of(7))]
            finally:
                resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, before)
            for answer, body in refused:
                self.assertEqual((answer.status, json.loads(body)["code"]), (503, "TOO_MANY_OPEN_FILES"), body)
                self.assertIsNotNone(answer.headers["Retry-After"])
            for path in paths:
                self.assertEqual(ask("GET", path)[0].status, 200, path)
            self.assertEqual(ask("POST", "/v1/models", model_of(7))[0].status, 201)
            connection.close()

    def closed(self, connections):
        """How many the daemon closes within a moment."""
        count = 0
        for connection in connections:
            connection.settimeout(1)
            try:
                count += connection.recv(1) == b""
            except TimeoutError:
                pass
            except ConnectionResetError:
                count += 1
        return count

    def ticks(self, pid):
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])
