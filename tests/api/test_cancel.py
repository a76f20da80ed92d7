"""Cancelling: at every moment of a plan's life, once and twice, with what was found until then."""

import os
import signal
import threading
import time

from cases import CLUSTER, TINY, DaemonCase, model
from daemon import processor_ticks
from running import CLUSTER as LARGE_CLUSTER
from running import SWEEP, made


class Running(DaemonCase):
    options = ("--workers", "1", "--job-seconds", "120")

    def setUp(self):
        self.name = self.store(made("llama3-8b"))

    def start(self):
        """A plan for which something has been found already, and that is far from its end."""
        body = {"model": self.name, "sweep": SWEEP}
        plan = self.ask("POST", "/v1/plans", body, 202, Cache_Control="no-cache").json["id"]

        def look():
            row = self.ask("GET", f"/v1/plans/{plan}").json
            self.assertIn(row["state"], ("queued", "running"), row)
            return row["progress"].get("best_seconds", 0) > 0

        self.daemon.wait_for(look, "a first plan")
        return plan

    def check_plan(self, plan):
        self.daemon.contract.validate(plan, {"$ref": "#/components/schemas/PlanDocument"}, "plan")
        nodes = [node for stage in plan["stages"] for node in stage["nodes"]]
        self.assertGreater(len(nodes), 1000)

    def cancelled(self, plan, **headers):
        return self.ask("POST", f"/v1/plans/{plan}/cancel", **headers).json

    def test_the_best_so_far(self):
        plan = self.start()
        first = self.cancelled(plan)
        self.assertEqual((first["state"], first["cancel_requested"], first["has_result"]), ("running", True, False))
        self.assertNotIn("plan", first)
        done = self.cancelled(plan, Prefer="wait=30")
        self.assertEqual((done["state"], done["has_result"]), ("cancelled", True), done.get("error"))
        self.assertNotIn("cancel_requested", done)
        self.assertIn("finished_at", done)
        self.check_plan(done["plan"])
        # What was not looked at says so, and what was has figures.
        rows = done["plan"]["sweep"]
        self.assertEqual(len(rows), 2 * len(SWEEP["devices"]))
        self.assertEqual({row["fits"] for row in rows}, {True, None})
        # It stays so, and the results can be had.
        again = self.cancelled(plan)
        self.assertEqual({**again, "plan": None}, {**done, "plan": None})
        self.assertEqual(self.ask("GET", f"/v1/plans/{plan}").json["plan"], done["plan"])
        self.assertIn("a100-sxm4-80gb", self.ask("GET", f"/v1/plans/{plan}", Accept="text/plain").text)
        self.assertGreater(len(self.ask("GET", f"/v1/plans/{plan}/model").body), len(made("llama3-8b")))
        # An equal question is not answered with it.
        anew = self.ask("POST", "/v1/plans", {"model": self.name, "sweep": SWEEP}, 202).json["id"]
        self.assertNotEqual(anew, plan)
        self.ask("DELETE", f"/v1/plans/{anew}", expect=204)

    def test_one_search(self):
        """Of one cluster: the note says that the search was ended."""
        body = {"model": self.name, "cluster": LARGE_CLUSTER}
        plan = self.ask("POST", "/v1/plans", body, 202, Cache_Control="no-cache").json["id"]
        self.daemon.wait_for(lambda: self.ask("GET", f"/v1/plans/{plan}").json["progress"].get("best_seconds", 0) > 0, "a plan")
        done = self.cancelled(plan, Prefer="wait=30")
        self.assertEqual((done["state"], done["has_result"]), ("cancelled", True))
        self.assertIn("SEARCH_STOPPED", [note["code"] for note in done["plan"]["diagnostics"]])
        self.assertGreaterEqual(done["plan"]["estimate"]["gap"], 0)

    def test_cancel_then_delete(self):
        plan = self.start()
        self.cancelled(plan)
        self.ask("DELETE", f"/v1/plans/{plan}", expect=204)
        self.problem("POST", f"/v1/plans/{plan}/cancel", status=404, code="PLAN_NOT_FOUND")
        self.gone(plan)

    def test_delete_while_running(self):
        plan = self.start()
        self.ask("DELETE", f"/v1/plans/{plan}", expect=204)
        self.problem("DELETE", f"/v1/plans/{plan}", status=404, code="PLAN_NOT_FOUND")
        self.gone(plan)

    def gone(self, plan):
        """Its worker goes, its folder goes, and the next plan gets a worker."""
        self.daemon.wait_for(lambda: self.daemon.metric("shardplan_workers_busy") == 0, "the end of its worker")
        self.daemon.wait_for(lambda: not os.path.exists(os.path.join(self.daemon.data, "plans", plan)), "the end of its folder")
        self.assertEqual(self.daemon.finished(self.submit(TINY))["state"], "succeeded")

    def test_a_worker_that_does_not_react(self):
        plan = self.start()
        workers = self.daemon.workers()
        busy = max(workers, key=processor_ticks)
        os.kill(busy, signal.SIGSTOP)
        started = time.monotonic()
        done = self.cancelled(plan, Prefer="wait=30")
        self.assertEqual((done["state"], done["has_result"]), ("cancelled", False), done)
        self.assertNotIn("plan", done)
        self.assertGreater(time.monotonic() - started, 4)
        self.problem("GET", f"/v1/plans/{plan}/model", status=409, code="PLAN_NOT_READY")
        self.daemon.wait_for(lambda: busy not in self.daemon.workers(), "the end of the worker")
        self.assertFalse(os.path.exists(os.path.join(self.daemon.data, "plans", plan)))

    def test_from_many_at_once(self):
        plan = self.start()
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.cancelled(plan, Prefer="wait=30"))) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({(answer["state"], answer["has_result"]) for answer in answers}, {("cancelled", True)})

    def test_at_every_moment(self):
        """Whatever a plan is doing when the wish comes, it ends, and what it says of itself is true."""
        small = self.store(model(77))
        for step in range(24):
            name, cluster = (small, CLUSTER) if step % 2 else (self.name, LARGE_CLUSTER)
            body = {"model": name, "cluster": cluster}
            plan = self.ask("POST", "/v1/plans", body, 202, Cache_Control="no-cache").json["id"]
            time.sleep(0.004 * 1.35**step if step % 2 == 0 else 0.002 * step)
            self.cancelled(plan)
            done = self.daemon.finished(plan)
            self.assertIn(done["state"], ("cancelled", "succeeded"), done.get("error"))
            self.assertEqual(done["has_result"], "plan" in done)
            self.assertTrue(done["has_result"] or done["state"] == "cancelled")


class Limited(DaemonCase):
    """Time limits end a search as a cancellation does, but the plan counts."""

    options = ("--workers", "1", "--job-seconds", "4")

    def test_of_the_client(self):
        body = {"model": self.store(made("llama3-8b")), "sweep": SWEEP, "options": {"time_limit_seconds": 1.5}}
        done = self.ask("POST", "/v1/plans", body, 200, Prefer="wait=30").json
        self.assertEqual((done["state"], done["has_result"]), ("succeeded", True), done)
        self.assertEqual({row["fits"] for row in done["plan"]["sweep"]}, {True, None})

    def test_of_the_service(self):
        """Time is left for writing the results: the worker is not killed over them."""
        body = {"model": self.store(made("llama3-8b")), "sweep": SWEEP}
        done = self.ask("POST", "/v1/plans", body, 200, Prefer="wait=30").json
        self.assertEqual((done["state"], done["attempts"]), ("succeeded", 1), done)
        self.assertEqual({row["fits"] for row in done["plan"]["sweep"]}, {True, None})

    def test_nothing_found(self):
        body = {"model": self.store(made("llama3-8b")), "cluster": LARGE_CLUSTER, "options": {"time_limit_seconds": 0.001}}
        answer = self.problem("POST", "/v1/plans", body, 422, "TIME_LIMIT", Prefer="wait=30")
        self.assertEqual(answer.json["limit"], "options.time_limit_seconds")
