"""Workers that somebody has taken over: they get the files of their job and nothing else, and what they answer with harms
nobody but who asked."""

import json
import os
import threading
import time
import unittest
from unittest import mock

import daemon as harness
from cases import CLUSTER, TINY
from daemon import Daemon
from test_sandbox import is_sanitized

EVIL_WORKER = os.environ.get("EVIL_WORKER", os.path.join(harness.TOP, "build/sanitized/tests/api/evil_worker.so"))
FLAT = 64 << 20  # what the daemon may grow by over a result of 1.5 GB


class Peak:
    """The largest size of a process meanwhile."""

    def __init__(self, pid):
        self.path = f"/proc/{pid}/statm"
        self.most = self.now()
        self.ended = False
        self.thread = threading.Thread(target=self.watch)

    def now(self):
        with open(self.path, encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def watch(self):
        while not self.ended:
            self.most = max(self.most, self.now())
            time.sleep(0.005)

    def __enter__(self):
        self.before = self.now()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended = True
        self.thread.join()


@unittest.skipIf(is_sanitized(), "the sanitizers' run-time must be loaded first")
class TakenOver(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(EVIL_WORKER):
            self.skipTest(f"{EVIL_WORKER} is not built")
        self.daemon = Daemon("--workers", "1")
        self.addCleanup(self.daemon.close)

    def start(self, evil, *paths):
        with mock.patch.dict(os.environ, LD_PRELOAD=EVIL_WORKER, EVIL=evil, EVIL_PATHS=":".join(paths)):
            self.daemon.start()

    def plan(self, count=2):
        body = {"model": self.model, "cluster": {**CLUSTER, "count": count}}
        return self.daemon.finished(self.daemon.request("POST", "/v1/plans", body).json["id"])

    def make_plan(self):
        """A stored model and a plan, by workers as they should be."""
        self.daemon.start()
        self.model = self.daemon.upload(TINY).json["id"]
        done = self.plan()
        self.assertEqual(done["state"], "succeeded", done)
        self.daemon.stop()
        return done

    def said(self):
        events = [json.loads(line) for line in list(self.daemon.log)]
        return [event["text"] for event in events if event["event"] == "worker wrote"]

    def ends(self, reason):
        events = [json.loads(line) for line in list(self.daemon.log)]
        return [event["pid"] for event in events if event["event"] == "worker ended" and event["reason"] == reason]

    def test_files_of_others(self):
        """Neither what is stored nor what is under way, and its own model only for reading."""
        plan = self.make_plan()["id"]
        stored = [os.path.join(folder, name) for folder, _, names in os.walk(self.daemon.data) for name in names]
        self.assertTrue(any("/blobs/" in path for path in stored) and any("/plans/" in path for path in stored), stored)
        self.start("look", *stored, "/etc/passwd", "/proc/self/mem")
        before = self.daemon.get(f"/v1/plans/{plan}").body
        self.assertEqual(self.plan(3)["state"], "succeeded")
        said = self.said()
        self.assertEqual(sum(text.startswith("read ") for text in said), len(stored) + 2, said)
        self.assertEqual({text for text in said if not text.startswith("change")}, {"read EPERM", "write EPERM"})
        self.assertEqual({text for text in said if text.startswith("change")}, {"change EBADF"})
        self.assertEqual(self.daemon.get(f"/v1/plans/{plan}").body, before)

    def test_huge_results(self):
        """They are refused by their size and head, and the daemon never has them in memory."""
        done = self.make_plan()
        sheet = os.path.join(self.daemon.data, "plans", done["id"], str(done["attempts"]), "plan.sheet")
        os.unlink(sheet)  # a worker makes it again
        self.start("huge")
        with Peak(self.daemon.process.pid) as peak:
            failed = self.plan(3)
            self.assertEqual((failed["state"], failed["error"]["code"]), ("failed", "RESULT_DAMAGED"), failed)
            sliced = self.daemon.get(f"/v1/plans/{done['id']}/nodes")
            self.assertEqual((sliced.status, sliced.json["code"]), (500, "PLAN_DAMAGED"), sliced)
            exported = self.daemon.get(f"/v1/plans/{done['id']}/simulation")
            self.assertEqual((exported.status, exported.json["code"]), (500, "RESULT_DAMAGED"), exported)
        self.assertGreaterEqual(self.said().count("huge yes"), 6)
        self.assertLess(peak.most - peak.before, FLAT)
        self.daemon.wait_for(lambda: len(self.ends("recycled")) == 3, "the end of each worker whose result was refused")
        self.assertFalse(os.path.exists(sheet), "what is no sheet is not kept as one")
        self.assertEqual(os.listdir(os.path.join(self.daemon.data, "plans")), [done["id"]])
        folder, = os.listdir(os.path.join(self.daemon.data, "tmp"))
        self.assertEqual(os.listdir(os.path.join(self.daemon.data, "tmp", folder)), [])

    def test_results_that_stay_open(self):
        """A worker that could still write to a result is made to end before that is taken."""
        self.make_plan()
        self.start("keep")
        done = self.plan(3)
        self.daemon.wait_for(lambda: self.ends("recycled"), "the end of the worker")
        first = self.daemon.get(f"/v1/plans/{done['id']}").body
        self.assertEqual(done["attempts"], 1)
        self.assertEqual(self.plan(4)["attempts"], 1)
        self.assertEqual(len(self.ends("recycled")), 2)
        self.assertEqual(self.daemon.get(f"/v1/plans/{done['id']}").body, first)
        self.assertEqual(self.ends("crashed"), [])


if __name__ == "__main__":
    unittest.main()
