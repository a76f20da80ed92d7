"""The queue: whose turn it is, and what happens to plans while the store is away."""

import contextlib
import json
import os
import sqlite3
import statistics
import tempfile
import threading
import time
import unittest

from cases import CLUSTER, TINY, DaemonCase, model
from daemon import Daemon
from running import Stream
from test_auth import Tokens

ANEW = {"Cache-Control": "no-cache"}


class Fairness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.tokens = Tokens(cls.folder.name)
        cls.greedy = cls.tokens.add("greedy", "--tenant", "greedy")
        cls.modest = cls.tokens.add("modest", "--tenant", "modest")
        cls.tokens.write()
        cls.daemon = Daemon("--workers", "1", "--tokens", cls.tokens.path, "--max-queued-plans", "2000")
        cls.daemon.token = cls.tokens.chief
        cls.daemon.start()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()
        cls.folder.cleanup()

    def ask(self, token, method, path, body=None, **headers):
        return self.daemon.request(method, path, body, {"Authorization": f"Bearer {token}", **ANEW, **headers})

    def test_a_thousand_plans_of_one_tenant(self):
        """They do not hold up the few plans of another, though there is one worker: the tenants take turns."""
        names = {token: self.ask(token, "POST", "/v1/models", TINY).json["id"] for token in (self.greedy, self.modest)}
        self.daemon.freeze()
        greedy = []

        def submit():
            for _ in range(250):
                answer = self.ask(self.greedy, "POST", "/v1/plans", {"model": names[self.greedy], "cluster": CLUSTER})
                self.assertEqual(answer.status, 202, answer)
                greedy.append(answer.json["id"])

        threads = [threading.Thread(target=submit) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(greedy)), 1000)
        few = [self.ask(self.modest, "POST", "/v1/plans", {"model": names[self.modest], "cluster": CLUSTER}).json["id"] for _ in range(5)]
        self.daemon.thaw()
        state = lambda: self.ask(self.modest, "GET", f"/v1/plans/{few[-1]}").json["state"]  # noqa: E731
        self.daemon.wait_for(lambda: state() == "succeeded", "the few plans")
        # Each waited for one plan of the other at most, after the one that ran already.
        started = [self.ask(self.modest, "GET", f"/v1/plans/{plan}").json["started_at"] for plan in few]
        others = [self.ask(self.greedy, "GET", f"/v1/plans/{plan}").json.get("started_at", "9") for plan in greedy[:60]]
        for turn, at in enumerate(started):
            self.assertLessEqual(sum(other < at for other in others), turn + 2)


class Priorities(DaemonCase):
    options = ("--workers", "1")

    def test_the_more_urgent_first(self):
        name = self.store(model(3))
        workers = self.daemon.freeze()
        plans = {}
        for priority in ("normal", "low", "normal", "high"):
            body = {"model": name, "cluster": CLUSTER, "priority": priority}
            plans.setdefault(priority, []).append(self.ask("POST", "/v1/plans", body, 202, Cache_Control="no-cache").json["id"])
        self.daemon.thaw(workers)
        started = {priority: [self.daemon.finished(plan)["started_at"] for plan in ids] for priority, ids in plans.items()}
        # The first one may have been taken before the others came.
        self.assertLess(started["high"][0], started["normal"][1])
        self.assertLess(started["normal"][1], started["low"][0])


class StoreTrouble(DaemonCase):
    """Somebody else holds the database: each call of the store fails after a while. (PostgreSQL's troubles: test_shared.)"""

    options = ("--workers", "1")
    where = ""

    @contextlib.contextmanager
    def held(self):
        other = sqlite3.connect(os.path.join(self.daemon.data, "shardplan.db"), isolation_level=None, timeout=10)
        try:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")
        finally:
            other.close()

    def test_an_end_is_told_later(self):
        """A plan that ends meanwhile is neither lost nor done twice, and the main loop turns all the time."""
        name = self.store(model(7))
        workers = self.daemon.freeze()
        plans = [self.ask("POST", "/v1/plans", {"model": name, "cluster": CLUSTER}, 202, Cache_Control="no-cache").json["id"]
                 for _ in range(3)]
        self.daemon.wait_for(lambda: self.ask("GET", f"/v1/plans/{plans[0]}").json["state"] == "running", "a running plan")
        with Stream(self.daemon, plans[0]) as stream, self.held():
            self.daemon.thaw(workers)
            phase = lambda: self.ask("GET", f"/v1/plans/{plans[0]}").json["progress"]["phase"]  # noqa: E731
            self.daemon.wait_for(lambda: phase() == "store", "the end of the work")
            self.assertEqual(self.ask("GET", f"/v1/plans/{plans[0]}").json["state"], "running")
            took, until = [], time.monotonic() + 5  # more than two patiences of the store
            while time.monotonic() < until:
                began = time.monotonic()
                self.assertEqual(self.ask("GET", "/livez").status, 200)
                # This goes through the main loop, to a worker and back.
                self.ask("POST", "/v1/convert", {"from": "onnx", "to": "onnx", "sharding": {}}, (200, 400, 422))
                took.append(time.monotonic() - began)
            # Behind a call of the store each would wait for the store's patience; one alone may wait for the machine.
            self.assertLess(statistics.median(took), 1.5)
            self.assertEqual(os.listdir(os.path.join(self.daemon.data, "plans")), [plans[0]])
            self.problem("POST", f"/v1/plans/{plans[1]}/cancel", status=503)
        for plan in plans:
            done = self.daemon.finished(plan)
            self.assertEqual((done["state"], done["attempts"]), ("succeeded", 1), done)

    def test_stopping_meanwhile(self):
        """A daemon that cannot tell the store how its plans ended stops all the same; the next one does them again."""
        with Daemon("--workers", "1", "--drain", "1") as daemon:
            name = daemon.upload(model(8)).json["id"]
            daemon.freeze()
            plan = daemon.request("POST", "/v1/plans", {"model": name, "cluster": CLUSTER}).json["id"]
            daemon.wait_for(lambda: daemon.get(f"/v1/plans/{plan}").json["state"] == "running", "a running plan")
            other = sqlite3.connect(os.path.join(daemon.data, "shardplan.db"), isolation_level=None, timeout=10)
            other.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            daemon.stop()
            self.assertLess(time.monotonic() - began, 25)
            other.close()
            daemon.start()
            done = daemon.finished(plan)
            self.assertEqual((done["state"], done["attempts"]), ("succeeded", 2), done)


class Keeping(unittest.TestCase):
    def test_old_plans_go(self):
        """With their folders, and their streams end."""
        with Daemon("--workers", "1", "--keep-plans", "1") as daemon:
            name = daemon.upload(TINY).json["id"]
            plan = daemon.request("POST", "/v1/plans", {"model": name, "cluster": CLUSTER}).json["id"]
            daemon.finished(plan)
            time.sleep(1.2)
            daemon.stop()
            daemon.start()  # one of the first things it does
            daemon.wait_for(lambda: daemon.get(f"/v1/plans/{plan}").status == 404, "the end of the plan")
            daemon.wait_for(lambda: not os.listdir(os.path.join(daemon.data, "plans")), "the end of its folder")
            daemon.wait_for(lambda: "old plans deleted" in [json.loads(line)["event"] for line in daemon.log], "the log of it")
