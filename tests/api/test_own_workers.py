"""No process ever works for two tenants: read from /proc, where a job's files are those of its worker."""

import hashlib
import os
import tempfile
import threading
import unittest

from cases import CLUSTER, model
from daemon import Daemon
import onnx_make
from test_auth import Tokens
from test_sandbox import is_sanitized

ANEW = {"Cache-Control": "no-cache"}
KEPT = 12  # idle processes beside those that work


def start_of(pid):
    """With the number it names a process for ever."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return int(file.read().rsplit(")", 1)[1].split()[19])


def is_worker(pid):
    """A child that has not become a worker yet still has the daemon's files."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return b"--worker" in file.read().split(b"\0")


class Watch:
    """Which contents each worker has open, all the time."""

    def __init__(self, daemon, owners):
        self.daemon = daemon
        self.owners = owners  # of contents, by SHA-256
        self.seen = {}  # (pid, its start): tenants
        self.most = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def owners_of(self, pid):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{fd}"
            if not os.readlink(path).startswith("/"):
                continue
            try:
                with open(path, "rb") as file:
                    owner = self.owners.get(hashlib.sha256(file.read()).hexdigest())
            except OSError:
                continue
            if owner is not None:
                yield owner

    def run(self):
        while not self.over.is_set():
            pids = self.daemon.workers()
            self.most = max(self.most, len(pids))
            for pid in pids:
                try:
                    if not is_worker(pid):
                        continue
                    key = pid, start_of(pid)
                    self.seen.setdefault(key, set()).update(self.owners_of(pid))
                except OSError:
                    continue  # it has ended

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Served(unittest.TestCase):
    names = tuple(f"tenant-{number}" for number in range(KEPT + 8))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tokens = Tokens(folder.name)
        self.tokens = {name: tokens.add(name, "--tenant", name) for name in self.names}
        self.tokens["admin"] = tokens.chief
        tokens.write()
        self.daemon = Daemon("--tokens", tokens.path, "--workers", "2")
        self.addCleanup(self.daemon.close)
        self.daemon.token = tokens.chief
        self.daemon.start()
        self.models = {name: onnx_make.encode(onnx_make.chain(1500 + number)) for number, name in enumerate(self.names)}
        self.owners = {hashlib.sha256(data).hexdigest(): name for name, data in self.models.items()}

    def ask(self, name, method, path, body=None):
        answer = self.daemon.request(method, path, body, {"Authorization": f"Bearer {self.tokens[name]}", **ANEW})
        self.assertIn(answer.status, (200, 201, 202), answer)
        return answer

    def work(self, name, rounds):
        """Every kind of job."""
        path = f"/v1/models/{self.ask(name, 'POST', '/v1/models', self.models[name]).json['id']}"
        for _ in range(rounds):
            self.ask(name, "POST", f"{path}/check")
            plan = self.ask(name, "POST", "/v1/plans", {"model": path.rsplit("/", 1)[1], "cluster": CLUSTER}).json["id"]
            self.daemon.wait_for(lambda: self.ask(name, "GET", f"/v1/plans/{plan}").json["state"] == "succeeded", "the plan")
            self.ask(name, "GET", f"/v1/plans/{plan}/simulation")
            self.ask(name, "POST", f"{path}/infer", {"devices": 2})
        return path

    def replaced(self):
        return self.daemon.metric('shardplan_workers_ended_total{reason="recycled"}')

    def test_more_tenants_than_processes(self):
        def run(name):
            self.work(name, 2)

        with Watch(self.daemon, self.owners) as watch:
            threads = [threading.Thread(target=run, args=(name,)) for name in self.names]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual({name for names in watch.seen.values() for name in names}, set(self.names), "each was seen at work")
        self.assertEqual([names for names in watch.seen.values() if len(names) > 1], [])
        self.assertGreater(self.replaced(), 0)
        # Some that were killed may still be there when the list is read.
        self.assertLessEqual(self.daemon.metric("shardplan_workers"), 4 + KEPT)
        self.assertEqual(self.daemon.metric('shardplan_workers_ended_total{reason="crashed"}'), 0)

    @unittest.skipIf(is_sanitized(), "their workers are larger than those that stay")
    def test_one_tenant(self):
        """Nothing is started and nothing ends."""
        before = self.daemon.workers()
        self.work(self.names[0], 3)
        self.assertEqual(self.daemon.workers(), before)
        self.assertEqual(self.replaced(), 0)

    def test_who_sees_all(self):
        """What an administrator asks about somebody's model is the work of a process that does nothing else."""
        first, second = (f"/v1/models/{self.ask(name, 'POST', '/v1/models', self.models[name]).json['id']}"
                         for name in self.names[:2])
        with Watch(self.daemon, self.owners) as watch:
            for path in (first, second, first, second):
                before = self.replaced()
                self.ask("admin", "POST", f"{path}/check")
                self.daemon.wait_for(lambda: self.replaced() == before + 1, "the end of the worker")  # pylint: disable=cell-var-from-loop
                self.ask(self.names[0], "POST", f"{first}/check")
                self.ask(self.names[1], "POST", f"{second}/check")
        self.assertEqual([names for names in watch.seen.values() if len(names) > 1], [])


class WithoutCredentials(unittest.TestCase):
    def test_nothing_changes(self):
        """The local principal may do everything, and is the only one."""
        with Daemon("--workers", "1") as daemon:
            before = daemon.workers()
            path = f"/v1/models/{daemon.upload(model(1)).json['id']}"
            for _ in range(5):
                self.assertEqual(daemon.request("POST", f"{path}/check", None, ANEW).status, 200)
            self.assertEqual(daemon.workers(), before)


if __name__ == "__main__":
    unittest.main()
