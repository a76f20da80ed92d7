"""What was accepted is finished, whoever dies; what was not is gone without a trace."""

import os
import signal
import threading
import time
import unittest

from cases import CLUSTER, TINY, model
from daemon import Daemon


class Durability(unittest.TestCase):
    def accept(self, daemon, count):
        """Plans that are accepted and stay unfinished, because the workers are stopped."""
        models = [daemon.upload(model(number)).json["id"] for number in range(3)]
        daemon.freeze()
        plans = []
        for number in range(count):
            body = {"model": models[number % 3], "cluster": CLUSTER}
            answer = daemon.request("POST", "/v1/plans", body, {"Cache-Control": "no-cache"})
            self.assertEqual(answer.status, 202, answer)
            plans.append(answer.json["id"])
        return plans

    def check_all(self, daemon, plans):
        for plan in plans:
            done = daemon.finished(plan)
            self.assertEqual(done["state"], "succeeded", done)
            self.assertEqual(daemon.get(f"/v1/plans/{plan}/model").status, 200)

    def test_kill_daemon(self):
        with Daemon("--workers", "2") as daemon:
            plans = self.accept(daemon, 10)
            daemon.kill()
            daemon.start()
            self.check_all(daemon, plans)

    def test_kill_daemon_while_plans_run(self):
        with Daemon("--workers", "2") as daemon:
            model_id = daemon.upload(TINY).json["id"]
            accepted = []

            def submit():
                while True:
                    try:
                        answer = daemon.request("POST", "/v1/plans", {"model": model_id, "cluster": CLUSTER}, check=False)
                    except OSError:
                        return
                    except Exception:  # a connection that broke in the middle of an answer
                        return
                    if answer.status == 202:
                        accepted.append(answer.json["id"])

            threads = [threading.Thread(target=submit) for _ in range(3)]
            for thread in threads:
                thread.start()
            daemon.wait_for(lambda: len(accepted) > 20, "accepted plans")
            daemon.kill()
            for thread in threads:
                thread.join()
            daemon.start()
            for plan in accepted:
                self.assertEqual(daemon.finished(plan)["state"], "succeeded")

    def test_orphans_are_removed(self):
        with Daemon("--workers", "1") as daemon:
            name = daemon.upload(TINY).json["id"]
            daemon.stop()
            orphans = ["tmp/upload", "tmp/folder/file", "blobs/ab/" + "c" * 62, "blobs/ab/" + "c" * 62 + ".json",
                       "plans/" + "d" * 32 + "/plan.json"]
            for path in orphans:
                full = os.path.join(daemon.data, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="ascii") as file:
                    file.write("x")
            daemon.start()
            for path in orphans:
                self.assertFalse(os.path.exists(os.path.join(daemon.data, path)), path)
            self.assertEqual(daemon.get(f"/v1/models/{name}/content").body, TINY)

    def test_one_daemon_per_folder(self):
        """Those of one PostgreSQL share it (test_shared), but with nobody else."""
        with Daemon("--workers", "1") as daemon:
            second = Daemon("--workers", "1", data=daemon.data, store="").spawn()
            _, errors = second.communicate(timeout=30)
            self.assertEqual(second.returncode, 4)
            self.assertIn(b"DATA_FOLDER_IN_USE", errors)
            self.assertEqual(daemon.get("/livez").status, 200)

    def test_stop_with_plans(self):
        """SIGTERM twice: what runs is queued again, a waiting client gets its 202, the status is 0."""
        with Daemon("--workers", "1") as daemon:
            plans = self.accept(daemon, 3)
            answers = []

            def wait():
                body = {"model": daemon.get(f"/v1/plans/{plans[0]}").json["model"], "cluster": CLUSTER}
                answers.append(daemon.request("POST", "/v1/plans", body, {"Prefer": "wait=50", "Cache-Control": "no-cache"}))

            thread = threading.Thread(target=wait)
            thread.start()
            daemon.wait_for(lambda: len(daemon.get("/v1/plans").json["plans"]) == 4, "four plans")
            time.sleep(0.3)
            daemon.stop(signals=2)
            thread.join()
            self.assertEqual(answers[0].status, 202, answers[0])
            daemon.start()
            self.check_all(daemon, plans + [answers[0].json["id"]])

    def test_stop_while_an_upload_waits(self):
        with Daemon("--workers", "1") as daemon:
            daemon.freeze()
            answers = []
            thread = threading.Thread(target=lambda: answers.append(daemon.upload(TINY)))
            thread.start()
            daemon.wait_for(lambda: daemon.metric("shardplan_workers_busy") == 1, "a busy worker")
            daemon.stop(signals=2)
            thread.join()
            self.assertEqual(answers[0].status, 503, answers[0])
            self.assertIn("Retry-After", answers[0].headers)
            daemon.start()
            self.assertEqual(daemon.get("/v1/models").json["models"], [])

    def test_stop_finishes_what_runs(self):
        with Daemon("--workers", "1") as daemon:
            plans = self.accept(daemon, 1)
            daemon.wait_for(lambda: daemon.get(f"/v1/plans/{plans[0]}").json["state"] == "running", "a running plan")
            workers = daemon.workers()
            daemon.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            daemon.thaw(workers)
            self.assertEqual(daemon.process.wait(30), 0)
            daemon.process = None
            daemon.start()
            done = daemon.get(f"/v1/plans/{plans[0]}").json
            self.assertEqual((done["state"], done["attempts"]), ("succeeded", 1), done)

    def test_wrong_options(self):
        for options in (["--listen", "nowhere"], ["--workers", "0"], ["--max-upload", "1X"], ["--bogus"], ["file"],
                        ["--log-format", "xml"], ["--job-seconds", "-1"]):
            process = Daemon.spawn(self.scratch, *options)
            _, errors = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 2, options)
            self.assertTrue(errors, options)

    @classmethod
    def setUpClass(cls):
        cls.scratch = Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.scratch.folder.cleanup()
