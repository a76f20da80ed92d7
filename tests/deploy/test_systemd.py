"""The units: systemd takes them, they leave little exposed, and the daemon works with what they allow."""
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import unittest

import common
from daemon import Daemon

UNITS = os.path.join(common.DEPLOY, "systemd")
EXPOSURE = 2.0  # what `systemd-analyze security` may say at most


def unit(name="shardpland.service"):
    """{key: [values]} of all sections."""
    found = {}
    for line in common.text_of("deploy/systemd", name).splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


def seconds(text):
    """Times in units, as the daemon's options have them too."""
    number, scale = re.fullmatch(r"(\d+)([smhd]?)", text).groups()
    return int(number) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[scale]


class Units(unittest.TestCase):
    def setUp(self):
        self.analyze = common.tool("systemd-analyze")
        if self.analyze is None:
            self.skipTest("systemd-analyze is not installed")
        folder = tempfile.TemporaryDirectory(prefix="shardplan-units-")
        self.addCleanup(folder.cleanup)
        self.paths = []
        for name in ("shardpland.service", "shardpland.socket"):
            text = common.text_of("deploy/systemd", name).replace("/usr/local/bin/shardpland", common.PROGRAM)
            self.paths.append(os.path.join(folder.name, name))
            with open(self.paths[-1], "w", encoding="utf-8") as file:
                file.write(text)

    def test_verify(self):
        done = common.run(self.analyze, "verify", "--man=no", *self.paths)
        self.assertEqual((0, ""), (done.returncode, done.stdout))

    def test_exposure(self):
        done = common.run(self.analyze, "security", "--offline=yes", "--no-pager", self.paths[0])
        self.assertEqual(0, done.returncode, done.stdout)
        level = float(re.search(r"Overall exposure level for .*?: ([0-9.]+)", done.stdout)[1])
        self.assertLessEqual(level, EXPOSURE, done.stdout)


class Times(unittest.TestCase):
    def test_stop(self):
        """systemd waits longer than the daemon takes."""
        keys = unit()
        given = dict(value.split("=", 1) for value in keys["Environment"])
        takes = seconds(given["SHARDPLAND_DRAIN"]) + seconds(given.get("SHARDPLAND_SHUTDOWN_DELAY", "0"))
        self.assertGreaterEqual(seconds(keys["TimeoutStopSec"][0]), takes + 15)
        self.assertEqual(["mixed"], keys["KillMode"])


def allowed(analyze, lines):
    """The system calls of SystemCallFilter lines, as systemd expands them."""
    calls = set()

    def expand(name):
        if not name.startswith("@"):
            return {name}
        listed = common.run(analyze, "syscall-filter", "--no-pager", name).stdout
        words = re.findall(r"^    (@?\w[\w-]*)", listed, re.M)
        return set().union(*(expand(word) for word in words))

    for line in lines:
        names = set().union(*(expand(name) for name in line.lstrip("~").split()))
        calls = calls - names if line.startswith("~") else calls | names
    return calls


class Allowed(unittest.TestCase):
    """Everything that the daemon and its workers ask the kernel for while they serve, against what the unit allows."""

    @classmethod
    def setUpClass(cls):
        cls.analyze, strace = common.tool("systemd-analyze"), common.tool("strace")
        if cls.analyze is None or strace is None:
            raise unittest.SkipTest("strace or systemd-analyze is not installed")
        with tempfile.TemporaryDirectory(prefix="shardplan-traced-") as folder:
            cls.trace = cls.traced(strace, folder)

    @staticmethod
    def traced(strace, folder):
        """The lines of a trace of a daemon that uploads, plans, checks, reads its files again, and stops."""
        path = os.path.join(folder, "trace")
        daemon = Daemon("--workers", "1", data=os.path.join(folder, "data"))
        spawn = daemon.spawn

        def spawn_traced():
            program = spawn()  # to have its arguments
            program.kill()
            program.wait()
            program.stderr.close()
            return subprocess.Popen([strace, "-f", "-qq", "-o", path, *program.args], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip

        daemon.spawn = spawn_traced
        daemon.start()
        try:
            with open(os.path.join(common.TOP, "tests/data/resnet50.onnx"), "rb") as file:
                model = file.read()
            answer = daemon.request("POST", "/v1/plans?devices=2&device=a100-sxm4-80gb", model,
                                    {"Content-Type": "application/octet-stream", "Prefer": "wait=60"})  # fmt: skip
            assert answer.status == 200 and answer.json["state"] == "succeeded", answer
            assert daemon.request("POST", "/v1/check", model).status == 200
            assert daemon.get(f"/v1/plans/{answer.json['id']}/simulation").status == 200
            assert daemon.get("/metrics").status == 200
            with open(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children", encoding="ascii") as file:
                child = int(file.read().split()[0])
            os.kill(child, signal.SIGHUP)
            os.kill(child, signal.SIGTERM)
            daemon.process.wait(60)
        finally:
            daemon.process.kill()
            daemon.process.wait()
            daemon.process.stderr.close()
        with open(path, encoding="utf-8", errors="replace") as file:
            return [line.split(maxsplit=1)[1] for line in file if " " in line]

    def test_calls(self):
        used = {match[1] for match in (re.match(r"(\w+)\(", line) for line in self.trace) if match}
        self.assertGreater(len(used), 40)
        if os.geteuid() == 0:
            used.discard("fchown")  # SQLite gives its files to the database's owner, but only as root
        calls = allowed(self.analyze, unit()["SystemCallFilter"])
        self.assertNotIn("mount", calls)
        self.assertEqual(set(), used - calls)

    def test_memory(self):
        """MemoryDenyWriteExecute: nothing is writable and executable."""
        self.assertTrue(any(line.startswith("mprotect(") for line in self.trace))
        wrong = [line for line in self.trace if re.match(r"(mmap|mprotect|pkey_mprotect)\(", line)
                 and "PROT_EXEC" in line and ("PROT_WRITE" in line or line.startswith("mprotect"))]  # fmt: skip
        self.assertEqual([], wrong)

    def test_sockets(self):
        families = {match[1] for match in (re.match(r"socket(?:pair)?\((\w+)", line) for line in self.trace) if match}
        self.assertIn("AF_INET", families)
        self.assertLessEqual(families, set(unit()["RestrictAddressFamilies"][0].split()))

    def test_files(self):
        """Nothing but the data folder is written, and no device but the harmless ones is opened."""
        opened = [re.match(r'openat\([^,]+, "([^"]+)", ([A-Z_|]+)', line) for line in self.trace]
        written = {match[1] for match in opened if match and re.search("O_WRONLY|O_RDWR|O_CREAT", match[2])}
        self.assertTrue(written)
        self.assertEqual(set(), {path for path in written if "/data/" not in path and path != "/dev/null"})
        devices = {match[1] for match in opened if match and match[1].startswith("/dev/")}
        self.assertLessEqual(devices, {"/dev/null", "/dev/urandom", "/dev/random"})


class SocketActivation(unittest.TestCase):
    def test_takes_the_socket(self):
        activate = common.tool("systemd-socket-activate")
        if activate is None:
            self.skipTest("systemd-socket-activate is not installed")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with tempfile.TemporaryDirectory(prefix="shardplan-activated-") as folder:
            process = subprocess.Popen([activate, "-l", f"127.0.0.1:{port}", common.PROGRAM, "--log-format", "json", "--data",
                                        folder + "/data"], stderr=subprocess.PIPE)  # fmt: skip
            try:
                for line in process.stderr:
                    if b"Listening on" in line:
                        break
                with socket.create_connection(("127.0.0.1", port), timeout=60) as client:  # which starts the daemon
                    client.settimeout(60)
                    client.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    answer = b"".join(iter(lambda: client.recv(4096), b""))
                self.assertIn(b" 200 ", answer.split(b"\r\n")[0])
            finally:
                process.terminate()
                rest = process.stderr.read().decode()
                process.stderr.close()
                self.assertEqual(0, process.wait(60), rest)
            urls = [json.loads(line).get("url") for line in rest.splitlines() if line.startswith("{")]
            self.assertIn(f"http://127.0.0.1:{port}", urls)


if __name__ == "__main__":
    unittest.main()
