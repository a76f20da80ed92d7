"""What workers have given up: seen from outside, and tried from inside by a program that enters the same sandbox."""

import functools
import json
import os
import signal
import socket
import subprocess
import tempfile
import unittest
from unittest import mock

import daemon as harness
from cases import CLUSTER, TINY
from daemon import Daemon

PROBE = os.environ.get("SANDBOX_PROBE", os.path.join(harness.TOP, "build/sanitized/tests/api/sandbox_probe"))

WITHOUT_CALL = os.environ.get("WITHOUT_CALL", os.path.join(harness.TOP, "build/sanitized/tests/api/without_call"))

# What the kernel kills for, and what it refuses with which error (landlock(7), seccomp(2), write(2), open(2)).
KILLED = ["socket", "unix_socket", "execve", "fork", "thread", "ptrace", "mount", "kill_other", "kill_all", "code",
          "make_code", "memory_file", "shared_memory", "bpf", "remove_input", "receive_elsewhere"]
REFUSED = {"limits": "EPERM", "memory": "ENOMEM", "made_writable": "ENOMEM", "passwd": "EPERM", "environment": "EPERM",
           "root": "EPERM", "above": "EPERM", "link": "EPERM", "write_outside": "EPERM", "write_input": "EPERM",
           "change_input": "EPERM", "move_out": "EPERM", "look_at_names": "EPERM", "open_again": "EPERM",
           "change_model": "EBADF", "read_result": "EBADF", "inherited": "EBADF", "descriptors": "EMFILE",
           "large_file": "EFBIG", "harmless": "EPERM"}


WALLS = ["no_new_privs", "limits", "landlock", "seccomp"]


def is_sanitized():
    with open(harness.PROGRAM, "rb") as file:
        program = file.read()
    return b"__asan_init" in program or b"__tsan_init" in program


def fields(pid, name):
    with open(f"/proc/{pid}/{name}", encoding="ascii", errors="replace") as file:
        return dict(line.rstrip("\n").split(":", 1) for line in file if ":" in line)


def limits(pid):
    with open(f"/proc/{pid}/limits", encoding="ascii") as file:
        return {line[:26].strip(): line[26:].split()[:2] for line in file}


class Workers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--workers", "2")
        cls.daemon.start()
        cls.plan = cls.daemon.request(
            "POST", "/v1/plans", {"model": cls.daemon.upload(TINY).json["id"], "cluster": CLUSTER}).json["id"]
        cls.daemon.finished(cls.plan)
        cls.daemon.wait_for(lambda: len(cls.daemon.workers()) == 4, "two workers and the spare ones")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def each_worker(self, look, what):
        """Waits until `look` holds for all workers; one that is replaced after a job is gone in between."""

        def holds():
            try:
                workers = self.daemon.workers()
                return len(workers) == 4 and all(look(pid) for pid in workers)
            except (FileNotFoundError, ProcessLookupError, KeyError):
                return False

        self.daemon.wait_for(holds, what)

    def test_rights(self):
        def locked_up(pid):
            status = fields(pid, "status")
            return [status[name].strip() for name in ("Seccomp", "NoNewPrivs", "Threads")] == ["2", "1", "1"]

        self.each_worker(locked_up, "workers that are locked up")

    def test_descriptors(self):
        self.each_worker(lambda pid: sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2"], "few descriptors")

    def test_limits(self):
        memory = str((2 << 30) * 5 // 4 + (256 << 20))  # --job-memory, a quarter, SPD_ADDRESS_SPACE_SLACK
        wanted = {"Max core file size": ["0", "0"], "Max file size": [str(4 << 30)] * 2}  # SPD_MAX_RESULT_BYTES
        if not is_sanitized():
            wanted.update({"Max open files": ["1035", "1035"], "Max processes": ["0", "0"],
                           "Max data size": [memory] * 2, "Max stack size": [str(8 << 20)] * 2})
        self.each_worker(lambda pid: wanted.items() <= limits(pid).items(), f"the limits {wanted}")

    def test_log(self):
        events = [event for event in map(json.loads, self.daemon.log) if event["event"] == "sandbox"]
        self.assertEqual(len(events), 1, "one line, not one for each worker")
        walls = events[0]["walls"].split()
        for wall in ["no_new_privs", "limits", "seccomp"] + ([] if is_sanitized() else ["landlock"]):
            self.assertIn(wall, walls)

    def test_what_operators_see(self):
        """The same in the log, in the metrics and in /readyz?verbose."""
        missing = {"landlock"} if is_sanitized() else set()
        up = [wall for wall in WALLS if wall not in missing]
        event, = [event for event in map(json.loads, self.daemon.log) if event["event"] == "sandbox"]
        self.assertEqual((event["walls"].split(), event["missing"].split()), (up, sorted(missing)))
        self.assertEqual(event["level"], "warning" if missing else "info")
        lines = self.daemon.get("/metrics").text.splitlines()
        for wall in WALLS:
            self.assertIn(f'shardplan_sandbox_walls{{wall="{wall}"}} {int(wall not in missing)}', lines)
        conditions = self.daemon.get("/readyz?verbose").text.splitlines()
        self.assertIn("[+] sandbox: Workers lack walls that they should have: landlock." if missing else
                      "[+] sandbox: Workers are locked up: no_new_privs limits landlock seccomp.", conditions)

    def test_memory_and_time_of_a_job(self):
        """Whoever worked on something has limits of memory and processor time."""
        if is_sanitized():
            self.skipTest("the sanitizers' shadow takes terabytes of addresses")
        found = [limits(pid) for pid in self.daemon.workers()]
        self.assertTrue(any(entry["Max address space"][0] != "unlimited" for entry in found), found)
        self.assertTrue(any(entry["Max cpu time"][0] != "unlimited" for entry in found), found)


class Required(unittest.TestCase):
    """--require-sandbox, on this kernel and on one that lacks Landlock."""

    def ended(self, *before):
        """How a daemon ends that is told --require-sandbox, and the last event of its log. It is not left running."""
        with tempfile.TemporaryDirectory(prefix="shardpland-sandbox-") as folder:
            process = subprocess.Popen(
                [*before, harness.PROGRAM, "--listen", "127.0.0.1:0", "--data", os.path.join(folder, "data"),
                 "--log-format", "json", "--require-sandbox"], stderr=subprocess.PIPE)
            events = []
            for line in process.stderr:
                events.append(json.loads(line))
                if events[-1]["event"] == "listening":
                    process.terminate()
            process.stderr.close()
            return process.wait(timeout=60), events

    def test_all_walls(self):
        status, events = self.ended()
        if is_sanitized():
            self.assertEqual((status, events[-1]["code"]), (4, "SANDBOX_INCOMPLETE"))
        else:
            self.assertEqual((status, [event["event"] for event in events][-1]), (0, "stopped"))

    def test_a_missing_wall(self):
        if not os.path.exists(WITHOUT_CALL):
            self.skipTest(f"{WITHOUT_CALL} is not built")
        status, events = self.ended(WITHOUT_CALL, "landlock_create_ruleset")
        self.assertEqual((status, events[-1]["event"], events[-1]["code"]), (4, "not started", "SANDBOX_INCOMPLETE"))
        self.assertIn("(landlock)", events[-1]["detail"])
        self.assertNotIn("listening", [event["event"] for event in events])

    def test_a_warning_without_the_option(self):
        if not os.path.exists(WITHOUT_CALL):
            self.skipTest(f"{WITHOUT_CALL} is not built")
        with mock.patch.object(subprocess, "Popen", functools.partial(self.on_another_kernel, subprocess.Popen)), \
                Daemon() as daemon:
            event, = daemon.wait_for(lambda: [event for event in map(json.loads, list(daemon.log))
                                              if event["event"] == "sandbox"], "what the log says of walls")
            self.assertEqual((event["level"], event["missing"]), ("warning", "landlock"))
            self.assertIn('shardplan_sandbox_walls{wall="landlock"} 0', daemon.get("/metrics").text.splitlines())
            self.assertIn("[+] sandbox: Workers lack walls that they should have: landlock.",
                          daemon.get("/readyz?verbose").text)
            self.assertEqual(daemon.get("/readyz").status, 200)

    @staticmethod
    def on_another_kernel(start, words, **options):
        return start([WITHOUT_CALL, "landlock_create_ruleset", *words], **options)


class Tries(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(PROBE):
            self.skipTest(f"{PROBE} is not built")
        self.folder = tempfile.TemporaryDirectory(prefix="shardpland-sandbox-")
        self.addCleanup(self.folder.cleanup)
        for name in ("in", "out"):
            os.mkdir(os.path.join(self.folder.name, name))
        for name, text in (("in/file", "content\n"), ("secret", "x")):
            with open(os.path.join(self.folder.name, name), "w", encoding="ascii") as file:
                file.write(text)
        os.symlink("../secret", os.path.join(self.folder.name, "in/link"))

    def run_probe(self, name):
        """With a descriptor 9 that the sandbox must close, and twice the files that a job is handed."""
        source = os.open("/dev/null", os.O_WRONLY)
        os.dup2(source, 9)
        ours, theirs = socket.socketpair()
        with open(os.path.join(self.folder.name, "in/file"), "rb") as read, \
                open(os.path.join(self.folder.name, "out/file"), "wb") as written:
            for _ in range(2):
                socket.send_fds(ours, [b"\0"], [read.fileno(), written.fileno()])
        try:
            return subprocess.run([PROBE, self.folder.name, name], stdin=theirs, capture_output=True, pass_fds=[9],
                                  timeout=30, check=False)
        finally:
            ours.close()
            theirs.close()
            os.close(9)
            if source != 9:
                os.close(source)

    def test_walls(self):
        self.assertEqual(self.run_probe("walls").stdout.split(), [b"no_new_privs", b"limits", b"landlock", b"seccomp"])

    def test_killed(self):
        for name in KILLED:
            with self.subTest(name):
                self.assertEqual(self.run_probe(name).returncode, -signal.SIGSYS)

    def test_refused(self):
        for name, error in REFUSED.items():
            with self.subTest(name):
                ended = self.run_probe(name)
                self.assertEqual((ended.returncode, ended.stdout.decode().strip()), (1, error))
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["in", "out", "secret"])
        self.assertEqual(os.listdir(os.path.join(self.folder.name, "out")), ["file"])
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder.name, "in"))), ["file", "link"])

    def test_work_goes_on(self):
        ended = self.run_probe("work")
        self.assertEqual((ended.returncode, ended.stdout), (0, b""))

    def test_last_words(self):
        for name, number in (("abort", signal.SIGABRT), ("fault", signal.SIGSEGV)):
            ended = self.run_probe(name)
            self.assertEqual(ended.returncode, -number)
            self.assertIn(f"died of signal {int(number)}".encode(), ended.stderr)
            self.assertRegex(ended.stderr, os.path.basename(PROBE).encode() + rb"[(\[].*\]", "a frame of the program")
        self.assertIn(b"at address 0x0", self.run_probe("fault").stderr)
