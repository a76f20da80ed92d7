"""A daemon that is frozen in the middle of a change of files has no power over them when it goes on.

Two daemons share PostgreSQL and a folder. One stops right before a call that removes or moves a file of a model; its session
ends, others take it for dead, the other daemon stores the same model; then it goes on. What was answered with 201 stays.
"""

import os
import struct
import tempfile
import threading
import time
import unittest

import daemon as harness
import postgres
from cases import CLUSTER, model
from daemon import Daemon, blob_of
from test_sandbox import is_sanitized

SHIM = os.environ.get("STOP_SHIM", os.path.join(harness.TOP, "build/sanitized/tests/api/libstop_shim.so"))


@unittest.skipIf(postgres.missing(), postgres.missing())
@unittest.skipIf(is_sanitized(), "the sanitizers' run-time must be loaded first")
class Fenced(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.path.exists(SHIM):
            raise unittest.SkipTest(f"{SHIM} is not built")
        cls.server = postgres.Server()
        cls.server.start()
        cls.number = 700

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="shardpland-fenced-")
        self.addCleanup(folder.cleanup)
        self.count = os.path.join(folder.name, "count")
        with open(self.count, "wb") as file:
            file.write(struct.pack("=q", -1))
        self.database = self.server.new_database()
        self.addCleanup(self.server.drop_database, self.database)
        store, data = self.server.url(self.database), os.path.join(folder.name, "data")
        self.awake = Daemon("--workers", "1", data=data, store=store)
        self.sleeper = Daemon("--workers", "1", data=data, store=store)
        for one in (self.awake, self.sleeper):
            self.addCleanup(one.close)
        self.data = model(self.next_number())

    @classmethod
    def next_number(cls):
        cls.number += 1
        return cls.number

    def start(self, call):
        preload = {"LD_PRELOAD": SHIM, "STOP_AT": call, "STOP_COUNT": self.count}
        os.environ.update(preload)
        try:
            self.sleeper.start()
        finally:
            for name in preload:
                os.environ.pop(name)
        self.awake.start()

    def query(self, sql):
        return self.server.query(sql, self.database)

    def put_to_sleep(self, before, ask):
        """The sleeper is asked for something, and stops before that call; the thread ends with what it answers."""
        with open(self.count, "r+b") as file:
            file.write(struct.pack("=q", before))
        answers = []
        thread = threading.Thread(target=lambda: answers.append(ask()))
        thread.start()
        state = f"/proc/{self.sleeper.process.pid}/stat"

        def is_stopped():
            with open(state, encoding="utf-8") as file:
                return file.read().rpartition(")")[2].split()[0] == "T"

        self.awake.wait_for(is_stopped, "the sleeper's stop")
        return thread, answers

    def lose_session(self, how):
        """As it is after ten leases without a beat."""
        if how == "restart":
            self.server.stop()
            self.server.start()
        else:
            self.query("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
                       f"datname = '{self.database}'")
        deadline = time.monotonic() + harness.PATIENCE
        while self.awake.get("/readyz").status != 200:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.query("UPDATE shardplan.daemons SET beat_at = beat_at - 11 * lease_ms WHERE owner NOT IN (SELECT owner FROM "
                   "shardplan.daemons ORDER BY started_at DESC LIMIT 1)")

    def wake(self, thread):
        os.kill(self.sleeper.process.pid, 18)
        thread.join()

    def check_stored(self, name):
        """All that a client was told of is there, at both daemons; and nothing is left over."""
        for one in (self.awake, self.sleeper):
            one.wait_for(lambda: one.get("/readyz").status == 200, "readiness")  # pylint: disable=cell-var-from-loop
            self.assertEqual(one.get(f"/v1/models/{name}/content").body, self.data)
            self.assertEqual(one.get(f"/v1/models/{name}").status, 200)
        plan = self.awake.request("POST", "/v1/plans", {"model": name, "cluster": CLUSTER}).json["id"]
        self.assertEqual(self.awake.finished(plan)["state"], "succeeded")
        self.assertEqual(self.sleeper.get(f"/v1/plans/{plan}/model").status, 200)
        self.awake.stop()
        self.awake.start()
        folder = os.path.dirname(blob_of(self.awake.data, name))
        files = [file for file in os.listdir(folder) if file.startswith(name[2:])]
        self.assertEqual(len(files), 4, files)  # the model, its inspection, and the sums of both

    def test_asleep_while_it_deletes(self):
        """Before it removes the blob, and before it removes the inspection."""
        for how in ("restart", "terminate"):
            for before in (0, 1):
                with self.subTest(how=how, before=before):
                    self.setUp()
                    self.start("unlink")
                    name = self.sleeper.upload(self.data).json["id"]
                    thread, answers = self.put_to_sleep(before, lambda: self.sleeper.request("DELETE", f"/v1/models/{name}"))  # pylint: disable=cell-var-from-loop
                    self.assertEqual(self.awake.upload(self.data).status, 201, "nobody waits for who sleeps")
                    self.lose_session(how)
                    self.assertEqual(self.awake.upload(self.data).status, 200)
                    self.wake(thread)
                    self.assertEqual(answers[0].status, 204, answers)
                    self.check_stored(name)

    def test_asleep_while_it_stores(self):
        """Before it moves the inspection, and before it moves the blob: others end its upload, and it is told so."""
        for before in (0, 1):
            with self.subTest(before=before):
                self.setUp()
                self.start("rename")
                thread, answers = self.put_to_sleep(before, lambda: self.sleeper.upload(self.data))
                self.lose_session("terminate")
                self.query("DELETE FROM shardplan.reservations")  # as the sweep of the other daemon does each hour
                name = self.awake.upload(self.data).json["id"]
                self.wake(thread)
                self.assertEqual(answers[0].status, 503, answers)
                self.check_stored(name)


if __name__ == "__main__":
    unittest.main()
