"""A worker that dies over a job: tried again, then a clear failure, a report, and the job once more by hand."""

import json
import os
import signal
import subprocess
import threading
import time
import unittest

import daemon as harness
import onnx_make
from cases import CLUSTER
from daemon import Daemon, blob_of
from test_sandbox import is_sanitized

LARGE = onnx_make.encode(onnx_make.diamonds(20000))  # a plan of it takes about a second

# A check of it takes some tenths of a second.
LONG = json.dumps({
    "name": "long", "inputs": [{"name": "t0", "dtype": "float32", "shape": [2, 2]}], "outputs": ["t100000"], "opset": 21,
    "nodes": [{"op": "Relu", "inputs": [f"t{number}"], "outputs": [f"t{number + 1}"]} for number in range(100000)],
}).encode()
REPORTS = 20  # SPD_MAX_CRASH_REPORTS

# The sanitizers have a handler of SIGSEGV of their own, which ends the process without a signal.
FAULT = signal.SIGABRT if is_sanitized() else signal.SIGSEGV


class Crashes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--workers", "1")
        cls.daemon.start()
        cls.model = cls.daemon.upload(LARGE).json["id"]

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def crash(self):
        """Waits for a worker that works and sends it a signal."""
        look = self.daemon.busy_worker(ticks=8)
        os.kill(self.daemon.wait_for(look, "a busy worker"), FAULT)

    def submit(self):
        body = {"model": self.model, "cluster": CLUSTER, "options": {"seed": time.monotonic_ns() % 2**31}}
        answer = self.daemon.request("POST", "/v1/plans", body)
        self.assertEqual(answer.status, 202, answer)
        return answer.json["id"]

    def events(self, name):
        return [event for event in map(json.loads, list(self.daemon.log)) if event["event"] == name]

    def folder(self, job):
        return os.path.join(self.daemon.data, "crashes", job)

    def report(self, job):
        with open(os.path.join(self.folder(job), "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def replay(self, job, **options):
        return subprocess.run([harness.PROGRAM, "--replay", job, "--data", self.daemon.data], capture_output=True,
                              timeout=120, check=False, **options)

    def test_once(self):
        plan = self.submit()
        self.crash()
        done = self.daemon.finished(plan)
        self.assertEqual((done["state"], done["attempts"]), ("succeeded", 2), done)
        report = self.report(plan)
        self.assertEqual((report["kind"], report["signal"], report["attempt"]), ("plan", FAULT, 1))
        self.assertEqual(report["model"], self.model)
        event = [event for event in self.events("worker died over a job") if event["job"] == plan][0]
        self.assertEqual((event["kind"], event["model"], event["signal"], event["attempt"]),
                         ("plan", self.model, FAULT, 1))
        self.assertTrue(event["phase"])
        self.assertEqual(event["report"], self.folder(plan))

    @unittest.skipIf(is_sanitized(), "the sanitizers write reports of their own")
    def test_last_words(self):
        plan = self.submit()
        self.crash()
        self.daemon.finished(plan)
        words = self.report(plan)["words"]
        self.assertTrue(words.startswith(f"died of signal {int(FAULT)} that a process sent\n"), words)
        self.assertGreater(words.count("shardpland"), 3, "frames of the program")
        self.assertTrue(any("died of signal" in event["text"] for event in self.events("worker wrote")))

    def test_twice_and_again_by_hand(self):
        plan = self.submit()
        self.crash()
        self.daemon.wait_for(lambda: self.daemon.get(f"/v1/plans/{plan}").json["attempts"] == 2, "another attempt")
        self.crash()
        done = self.daemon.finished(plan)
        self.assertEqual(done["state"], "failed", done)
        self.assertEqual(done["error"]["code"], "WORKER_CRASHED")
        self.assertIn(plan, done["error"]["detail"])
        self.assertIn(f"signal {int(FAULT)}", done["error"]["detail"])
        self.assertEqual(self.report(plan)["attempt"], 2)
        blob = blob_of(self.daemon.data, self.model)
        self.assertTrue(os.path.samefile(os.path.join(self.folder(plan), "model"), blob))

        ended = self.replay(plan)
        self.assertEqual(ended.returncode, 0, ended)
        last = json.loads(ended.stdout.splitlines()[-1])
        self.assertEqual((last["job"], last["event"]), (plan, "done"))
        with open(os.path.join(self.folder(plan), "replay/plan.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["model"]["sha256"], self.model)

        path = os.path.join(self.folder(plan), "line.json")
        with open(path, encoding="utf-8") as file:
            line = json.load(file)
        line["memory"] = 1 << 20  # what a graph of 20,000 nodes does not fit in
        with open(path, "w", encoding="utf-8") as file:
            json.dump(line, file)
        ended = self.replay(plan)
        self.assertEqual(ended.returncode, 1, ended)
        self.assertEqual(json.loads(ended.stdout.splitlines()[-1])["event"], "error")

    @unittest.skipIf(is_sanitized(), "the sanitizers end a process without the signal")
    def test_replay_dies_of_the_same(self):
        plan = self.submit()
        self.crash()
        self.daemon.finished(plan)
        process = subprocess.Popen([harness.PROGRAM, "--replay", plan, "--data", self.daemon.data],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertIn(b'"started"', process.stdout.readline())
        process.send_signal(signal.SIGSEGV)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGSEGV)
        self.assertIn(b"died of signal 11", errors)

    def test_errand(self):
        """A request that waits for a worker: named by its id, also when a client chose that."""
        answers = []
        for turn in range(2):
            name = f"check-{turn}.x"
            thread = threading.Thread(target=lambda: answers.append(self.daemon.request(
                "POST", "/v1/check", LONG, {"X-Request-Id": name, "Content-Type": "application/json"})))
            look = self.daemon.busy_worker(8)
            thread.start()
            os.kill(self.daemon.wait_for(look, "a busy worker"), FAULT)
            if turn == 1:
                self.daemon.wait_for(
                    lambda: self.report_or_none(name) is not None and self.report_or_none(name)["attempt"] == 1,
                    "the first report")
                self.crash()
            thread.join()
        self.assertEqual(answers[0].status, 200, answers[0])
        self.assertEqual(answers[1].status, 500, answers[1])
        self.assertEqual(answers[1].json["code"], "WORKER_CRASHED")
        report = self.report("check-1_x")
        self.assertEqual((report["job"], report["kind"], report["attempt"]), ("check-1.x", "check", 2))
        with open(os.path.join(self.folder("check-1_x"), "model"), "rb") as file:
            self.assertEqual(file.read(), LONG, "what was uploaded")
        self.assertEqual(self.replay("check-1_x").returncode, 0)

    def test_models_that_are_verified_together(self):
        """All are kept: the original as the model of the report, the ranks' by their ids."""
        rank = self.daemon.upload(onnx_make.encode(onnx_make.diamonds(20000, name="rank"))).json["id"]
        self.assertNotEqual(rank, self.model)
        answers = []
        body = {"original": self.model, "ranks": [rank] * 40}
        thread = threading.Thread(target=lambda: answers.append(self.daemon.request(
            "POST", "/v1/verify", body, {"X-Request-Id": "verify"})))
        thread.start()
        self.crash()
        self.daemon.wait_for(lambda: (self.report_or_none("verify") or {}).get("attempt") == 1, "the first report")
        self.crash()
        thread.join()
        self.assertEqual((answers[0].status, answers[0].json["code"]), (500, "WORKER_CRASHED"), answers[0])
        self.assertEqual((self.report("verify")["kind"], self.report("verify")["model"]), ("verify", self.model))
        for name, of in (("model", self.model), (rank, rank)):
            blob = blob_of(self.daemon.data, of)
            self.assertTrue(os.path.samefile(os.path.join(self.folder("verify"), name), blob))
        self.daemon.request("DELETE", f"/v1/models/{rank}")
        ended = self.replay("verify")
        self.assertEqual(ended.returncode, 0, ended)
        with open(os.path.join(self.folder("verify"), "replay/result"), encoding="utf-8") as file:
            answer = json.load(file)
        self.assertEqual((answer["verdict"], answer["programs"]), ("proved", 40))

    def report_or_none(self, name):
        try:
            return self.report("".join(c if c.isalnum() or c == "-" else "_" for c in name))
        except (OSError, ValueError):
            return None

    def test_what_the_daemon_kills_is_no_crash(self):
        plan = self.submit()
        look = self.daemon.busy_worker()
        self.daemon.wait_for(look, "a busy worker")
        self.daemon.request("DELETE", f"/v1/plans/{plan}")
        self.daemon.wait_for(lambda: self.daemon.metric("shardplan_workers_busy") == 0, "an idle worker")
        self.assertFalse(os.path.exists(self.folder(plan)))

    def test_z_the_oldest_report_goes(self):
        names = [f"old{number:02}" for number in range(REPORTS)]
        for age, name in enumerate(names):
            os.makedirs(self.folder(name))
            os.utime(self.folder(name), (1e9 + age, 1e9 + age))
        plan = self.submit()
        self.crash()
        self.daemon.finished(plan)
        left = os.listdir(os.path.join(self.daemon.data, "crashes"))
        self.assertEqual(len(left), REPORTS)
        self.assertIn(plan, left)
        self.assertNotIn(names[0], left)
        self.assertIn(names[-1], left)

    def test_unknown_job(self):
        ended = self.replay("nothing")
        self.assertEqual(ended.returncode, 2)
        self.assertIn(b"no report", ended.stderr)
