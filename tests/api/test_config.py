"""What the daemon can be told, as a program: flags, environment, file; what it says of that; the check of its health."""

import os
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest

from certificates import Authority
from daemon import PROGRAM, TOP, Daemon
from test_auth import Tokens


def run(*arguments, **environment):
    """The program with these arguments and this environment and nothing of ours; (status, output, errors)."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SHARDPLAND_")}
    done = subprocess.run(
        [PROGRAM, *arguments], env={**clean, **environment}, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def parse(output):
    """--print-config as {name: (value, origin)}."""
    result = {}
    for line in output.splitlines():
        setting, origin = line.removeprefix("# ").rsplit("# ", 1)
        name, value = setting.split(" = ", 1)
        result[name] = (value.strip(), origin)
    return result


class Config(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="shardpland-")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def refused(self, *arguments, **environment):
        """The sentences that the program says."""
        status, output, errors = run(*arguments, **environment)
        self.assertEqual((status, output), (2, ""), errors)
        lines = errors.splitlines()
        self.assertTrue(lines)
        for line in lines:
            self.assertRegex(line, r"^shardpland: .*\.$")
        return lines

    def test_each_value_says_where_it_comes_from(self):
        path = self.write("a.conf", "# ours\nworkers = 2\n\njob-seconds = 2m\ndrain = 7\n")
        status, output, errors = run(
            "--print-config", "--config", path, "--workers=5", SHARDPLAND_JOB_SECONDS="90", SHARDPLAND_WORKERS="4"
        )
        self.assertEqual((status, errors), (0, ""))
        values = parse(output)
        self.assertEqual(values["workers"], ("5", "flag --workers"))
        self.assertEqual(values["job-seconds"], ("90", "environment SHARDPLAND_JOB_SECONDS"))
        self.assertEqual(values["drain"], ("7", f"{path}:5"))
        self.assertEqual(values["max-upload"], ("16G", "default"))
        self.assertEqual(values["config"], (path, "flag --config"))

    def test_the_example_of_the_readme(self):
        with open(os.path.join(TOP, "README.md"), encoding="utf-8") as file:
            text = file.read()
        start = text.index("    $ SHARDPLAND_WORKERS=3")
        command, *lines = text[start:text.index("\n\n", start)].replace("    ", "", 1).split("\n    ")
        status, output, _ = run(*command.split(" | ")[0].split()[3:], SHARDPLAND_WORKERS="3")
        self.assertEqual(status, 0)
        wanted = [line for line in output.splitlines() if line.split(" ")[0] in ("data", "drain", "workers", "listen")]
        self.assertEqual(wanted, lines)

    def test_help_and_print_know_the_same_options(self):
        _, text, _ = run("--help")
        options = text[:text.index("\nInstead of serving\n")].splitlines()
        flags = {line.split()[0][2:] for line in options if line.startswith("  --")}
        _, output, _ = run("--print-config")
        self.assertEqual(flags, set(parse(output)))

    def test_what_is_unknown_is_refused(self):
        path = self.write("b.conf", "workers = 2\nworker = 3\nport = 80\n")
        lines = self.refused("--config", path, SHARDPLAND_WORKER="1")
        self.assertEqual(len(lines), 3, lines)
        self.assertIn(f"{path}:2: there is no option 'worker'", lines[0])
        self.assertIn(f"{path}:3: there is no option 'port'", lines[1])
        self.assertIn("environment SHARDPLAND_WORKER", lines[2])

    def test_secrets_are_not_repeated(self):
        lines = self.refused("--print-config", "--store", "postgresql://plans:hunter2@db/plans")
        self.assertNotIn("hunter2", "".join(lines))
        password = self.write("password", "hunter2\n")
        status, output, _ = run("--print-config", "--store", "host=db", "--store-password-file", password)
        self.assertEqual(status, 0)
        self.assertNotIn("hunter2", output)

    def test_a_flag_decides_over_a_good_file_only(self):
        path = self.write("c.conf", "workers = none\n")
        self.assertIn(f"{path}:1: 'none' is wrong", self.refused("--config", path, "--workers", "2")[0])

    def test_check(self):
        tokens = Tokens(self.folder.name)
        authority = Authority(self.folder.name)
        certificate, key = authority.make("server")
        _, other_key = authority.make("other")
        good = ["--check-config", "--data", self.folder.name, "--tokens", tokens.path, "--tls-certificate", certificate,
                "--tls-client-ca", authority.path("ca"), "--listen", "0.0.0.0:0"]
        self.assertEqual(run(*good, "--tls-key", key), (0, "OK\n", ""))
        self.assertIn("ey", self.refused(*good, "--tls-key", other_key)[0])
        missing = os.path.join(self.folder.name, "missing")
        for name in ("tokens", "tls-client-ca", "tls-certificate"):
            with self.subTest(name):
                self.assertIn(missing, self.refused(*good, "--tls-key", key, f"--{name}", missing)[0])
        for name in ("tokens", "tls-client-ca", "tls-certificate", "tls-key"):
            with self.subTest(name):
                self.refused(*good, "--tls-key", key, f"--{name}", self.write("empty", ""))
        lines = self.refused(*good, "--tls-key", other_key, "--tokens", missing, "--data", certificate)
        self.assertEqual(len(lines), 3, lines)
        self.assertIn(f"--data {certificate}: it is no folder", lines[2])

    def test_check_of_the_store(self):
        empty, missing = self.write("none", ""), os.path.join(self.folder.name, "missing")
        common = ["--check-config", "--data", os.path.join(self.folder.name, "new"), "--store", "host=db"]
        self.assertEqual(run(*common, "--store-password-file", self.write("good", "x\n")), (0, "OK\n", ""))
        self.assertIn("no password in it", self.refused(*common, "--store-password-file", empty)[0])
        self.assertIn("No such file", self.refused(*common, "--store-password-file", missing)[0])
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "new")), "checking makes nothing")

    def test_check_refuses_to_be_open_to_all(self):
        self.assertIn("--tokens", self.refused("--check-config", "--listen", "0.0.0.0:0")[0])

    def test_the_daemon_takes_file_and_environment(self):
        path = self.write("d.conf", "workers = 2\nmax-queued-plans = 3\n")
        os.environ["SHARDPLAND_WORKERS"] = "1"
        try:
            with Daemon("--config", path) as daemon:
                self.assertEqual(daemon.metric("shardplan_workers_wanted"), 3)  # and two for requests
        finally:
            del os.environ["SHARDPLAND_WORKERS"]


class Health(unittest.TestCase):
    """shardpland --healthcheck, as a container runs it."""

    def asked(self, status, *arguments):
        done = run("--healthcheck", *arguments)
        self.assertEqual((done[0], done[1]), (status, ""), done)
        return done[2]

    def test_by_url_and_by_configuration(self):
        with Daemon("--workers", "1") as daemon:
            self.asked(0, f"http://127.0.0.1:{daemon.port}")
            self.asked(0, f"http://localhost:{daemon.port}/livez")
            self.asked(0, "--listen", f"127.0.0.1:{daemon.port}")
            self.assertIn("404", self.asked(1, f"http://127.0.0.1:{daemon.port}/nothing"))
            port = daemon.port
        self.assertIn("no connection", self.asked(1, f"http://127.0.0.1:{port}"))

    def test_the_admin_listener_is_asked_when_there_is_one(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with Daemon("--workers", "1", "--admin-listen", f"127.0.0.1:{port}") as daemon:
            self.asked(0, "--admin-listen", f"127.0.0.1:{port}", "--listen", "127.0.0.1:1")
            self.assertGreater(daemon.metric('shardplan_http_requests_total{method="GET",route="/readyz",code="200"}'), 0)

    def test_with_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            authority = Authority(folder)
            certificate, key = authority.make("server")
            files = ["--tls-certificate", certificate, "--tls-key", key]
            daemon = Daemon("--workers", "1", *files)
            daemon.tls = ssl.create_default_context(cafile=authority.path("ca"))
            with daemon:
                self.asked(0, "--listen", f"127.0.0.1:{daemon.port}", *files)
                # Of a URL nobody has said that this authority may be trusted.
                self.assertIn("TLS", self.asked(1, f"https://127.0.0.1:{daemon.port}"))
                self.asked(1, f"http://127.0.0.1:{daemon.port}")

    def test_an_answer_is_not_health(self):
        """Something that takes connections and answers, but not as one that is ready."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            errors = []

            def ask():
                errors.append(self.asked(1, f"http://127.0.0.1:{server.getsockname()[1]}"))

            thread = threading.Thread(target=ask)
            thread.start()
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 500 Oh\r\n")
                thread.join()
        self.assertIn("500", errors[0])

    def test_wrong_urls(self):
        for url in ("ftp://127.0.0.1", "127.0.0.1:8080", "http://", "http://:80", "http://h:", "http://h:x", "http://h:1x/",
                    "http://u@h", "http://[::1", "http://h:123456", "http://h/a b"):
            with self.subTest(url):
                self.assertIn("URL", self.asked(2, url))
        self.assertIn("any free port", self.asked(2, "--listen", "127.0.0.1:0"))
