"""Whose turn it is at the workers: what a flood of one tenant costs the others, who may wait, and how that shows."""

import tempfile
import threading
import time
import unittest

from cases import CLUSTER, SANITIZED, DaemonCase, model
from daemon import Daemon
from exposition import Exposition
import onnx_make
from test_auth import Tokens

ANEW = {"Cache-Control": "no-cache"}
LARGE = onnx_make.encode(onnx_make.chain(2500 if SANITIZED else 8000))  # either takes a worker as long
MOST_WAITING = 64
PATIENCE = 60


class Served(unittest.TestCase):
    """A daemon with tenants who have a large model each."""

    names = ()
    options = ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tokens = Tokens(folder.name)
        self.tokens = {name: tokens.add(name, "--tenant", name) for name in self.names}
        tokens.write()
        self.daemon = Daemon("--tokens", tokens.path, *self.options)
        self.addCleanup(self.daemon.close)
        self.daemon.token = tokens.chief
        self.daemon.start()
        self.over = threading.Event()
        self.threads = []
        self.addCleanup(self.end_floods)
        self.done = {name: 0 for name in self.names}
        self.seconds = []  # of the requests of floods
        self.lock = threading.Lock()

    def end_floods(self):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def ask(self, name, method, path, body=None, **headers):
        return self.daemon.request(method, path, body, {"Authorization": f"Bearer {self.tokens[name]}", **ANEW, **headers})

    def store(self, name, data=LARGE):
        answer = self.ask(name, "POST", "/v1/models", data)
        self.assertIn(answer.status, (200, 201), answer)
        return answer.json["id"]

    def flood(self, name, path, requests, method="POST"):
        """Keeps so many requests of the tenant under way, until the end of the test."""
        def run():
            while not self.over.is_set():
                begin = time.monotonic()
                answer = self.ask(name, method, path)
                with self.lock:
                    self.done[name] += answer.status == 200
                    self.seconds.append(time.monotonic() - begin)

        for _ in range(requests):
            self.threads.append(threading.Thread(target=run))
            self.threads[-1].start()

    def job_seconds(self, *kinds):
        """The mean time in a worker, of the kind that takes longest."""
        total = lambda name, kind: sum(value for labels, value in self.exposition().series(name)  # noqa: E731
                                       if labels["kind"] == kind)
        return max(total("shardplan_job_duration_seconds_sum", kind) / max(1, total("shardplan_job_duration_seconds_count", kind))
                   for kind in kinds)

    def exposition(self):
        return Exposition(self.daemon.get("/metrics").text)

    def plan_takes(self, name, plan):
        begin = time.monotonic()
        answer = self.ask(name, "POST", "/v1/plans", plan)
        self.assertEqual(answer.status, 202, answer)
        path = f"/v1/plans/{answer.json['id']}"
        while self.ask(name, "GET", path).json["state"] in ("queued", "running"):
            self.assertLess(time.monotonic() - begin, PATIENCE, "the plan waits")
            time.sleep(0.02)
        self.assertEqual(self.ask(name, "GET", path).json["state"], "succeeded")
        return time.monotonic() - begin


class Floods(Served):
    """One tenant keeps more requests under way than there are workers; another one plans and uploads."""

    names = ("greedy", "modest")
    options = ("--workers", "2")

    def check_others(self, path, method, kind):
        plan = {"model": self.store("modest", model(1)), "cluster": CLUSTER}
        alone = self.plan_takes("modest", plan)
        self.flood("greedy", path, 12, method)
        self.daemon.wait_for(lambda: self.done["greedy"] >= 12, "the flood")
        beside = min(self.plan_takes("modest", plan) for _ in range(3))
        begin = time.monotonic()
        self.store("modest", model(2))
        upload = time.monotonic() - begin
        # One job and 100 ms for each worker; twice the job, since the processors are shared, too.
        allowed = 2 * self.job_seconds(kind) + 4 * 0.1 + 0.5
        self.assertLess(beside, 3 * alone + allowed)
        self.assertLess(upload, allowed)

    def test_fast_ones(self):
        self.check_others(f"/v1/models/{self.store('greedy')}/check", "POST", "check")

    def test_slow_ones(self):
        body = {"model": self.store("greedy"), "cluster": {"device": "a100-sxm4-80gb", "count": 8}}
        plan = self.ask("greedy", "POST", "/v1/plans", body).json["id"]
        self.daemon.wait_for(lambda: self.ask("greedy", "GET", f"/v1/plans/{plan}").json["state"] == "succeeded", "the plan")
        self.check_others(f"/v1/plans/{plan}/simulation", "GET", "export")


class Shares(Served):
    """Ten tenants ask for the same work; one has ten times as many requests under way as each of the others."""

    names = tuple(f"tenant-{number}" for number in range(10))
    options = ("--workers", "2")

    def measure(self):
        for number, name in enumerate(self.names):
            self.flood(name, f"/v1/models/{self.store(name)}/check", 30 if number == 0 else 3)
        self.daemon.wait_for(lambda: min(self.done.values()) > 0, "everybody's first answer")
        begin = dict(self.done)
        # What counts is the time at a worker, with what others on the machine take of it: a job that had to wait for a processor is
        # made up for by its tenant's next turns, so the more answers, the closer are the shares. Unfair ones never are.
        for answers in (40, 100, 200, 400):
            self.daemon.wait_for(lambda: sum(self.done.values()) - sum(begin.values()) >= answers * len(self.names), "many answers",
                                 4 * PATIENCE)  # pylint: disable=cell-var-from-loop
            done = {name: self.done[name] - begin[name] for name in self.names}
            if self.is_as_it_should_be(done):
                break
        print("# " + " ".join(map(str, done.values())), flush=True)
        return done

    def is_as_it_should_be(self, done):
        return all(done[name] >= 0.8 * sum(done.values()) / len(done) for name in self.names[1:])

    def test_shares(self):
        done = self.measure()
        self.assertTrue(self.is_as_it_should_be(done), done)


class Weights(Shares):
    options = ("--workers", "2", "--tenant-weights", "tenant-0=5 tenant-9=2")

    def is_as_it_should_be(self, done):
        share = sum(done.values()) / (8 + 5 + 2)
        return abs(done["tenant-0"] / share - 5) <= 1 and abs(sum(done[name] for name in self.names[1:9]) / 8 / share - 1) <= 0.2


class Waiting(Served):
    names = ("greedy", "modest")
    options = ("--workers", "1")

    def send(self, name, path, answers):
        thread = threading.Thread(target=lambda: answers.append(self.ask(name, "POST", path)))
        self.threads.append(thread)
        thread.start()
        return thread

    def waiting(self):
        now = self.exposition()
        return {kind: now.value("shardplan_requests_waiting", **{"class": kind}) for kind in ("short", "long")}

    def test_so_many_of_one_tenant(self):
        paths = {name: f"/v1/models/{self.store(name, model(3))}/check" for name in self.names}
        workers = self.daemon.freeze()
        answers = {name: [] for name in self.names}
        for _ in range(MOST_WAITING + 1):  # one is with a worker: short errands may have one of three
            self.send("greedy", paths["greedy"], answers["greedy"])
        self.daemon.wait_for(lambda: self.waiting()["short"] == MOST_WAITING, "the requests")
        refused = self.ask("greedy", "POST", paths["greedy"])
        self.assertEqual((refused.status, refused.json["code"], refused.json["limit_value"]), (429, "QUOTA_REQUESTS", MOST_WAITING))
        self.assertIn("Retry-After", refused.headers)
        other = self.send("modest", paths["modest"], answers["modest"])
        self.daemon.wait_for(lambda: self.waiting()["short"] == MOST_WAITING + 1, "the other tenant's request")
        self.assertGreater(self.exposition().value("shardplan_requests_oldest_seconds", **{"class": "short"}), 0)
        self.assertEqual(self.waiting()["long"], 0)
        self.daemon.thaw(workers)
        other.join()
        self.assertEqual([answer.status for answer in answers["modest"]], [200])
        self.end_floods()
        self.assertEqual({answer.status for answer in answers["greedy"]}, {200})
        self.assertEqual(self.waiting(), {"short": 0, "long": 0})


class Turns(DaemonCase):
    """Of one tenant requests that somebody waits for go first, but its own plans have their turn."""

    options = ("--workers", "1")

    def test_own_plans_beside_own_checks(self):
        path = f"/v1/models/{self.store(LARGE)}/check"
        over = threading.Event()

        def run():
            while not over.is_set():
                self.daemon.request("POST", path)

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        try:
            for number in range(3):
                self.daemon.finished(self.submit(model(number)))
        finally:
            over.set()
            for thread in threads:
                thread.join()
