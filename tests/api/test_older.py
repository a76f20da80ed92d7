"""A database that an older version wrote is brought up to date when the daemon starts, and nothing in it is lost."""

import contextlib
import glob
import os
import re
import sqlite3
import unittest

import daemon as harness
from cases import CLUSTER, TINY
from daemon import Daemon

# The schemas as they were; what is written here never changes.
FIRST = """
CREATE TABLE models (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
    bytes INTEGER NOT NULL, created_at INTEGER NOT NULL) STRICT;
CREATE TABLE plans (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, model TEXT NOT NULL REFERENCES models (id),
    request TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    attempts INTEGER NOT NULL DEFAULT 0, crashes INTEGER NOT NULL DEFAULT 0, error TEXT, idempotency_key TEXT UNIQUE,
    fingerprint TEXT NOT NULL, created_at INTEGER NOT NULL, started_at INTEGER NOT NULL DEFAULT 0,
    finished_at INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX plans_by_state ON plans (state, seq);
CREATE INDEX plans_by_model ON plans (model);
PRAGMA user_version = 1;
"""
FOURTH = ("DROP INDEX plans_waiting; CREATE INDEX plans_by_start ON plans (tenant, started_at); DROP TABLE files; "
          "DROP TABLE uploads; DROP TABLE settings; DROP TABLE reservations; ALTER TABLE plans DROP COLUMN files; "
          "ALTER TABLE models DROP COLUMN inspection_sha256; ALTER TABLE models DROP COLUMN inspection; "
          "ALTER TABLE models DROP COLUMN blob; PRAGMA user_version = 4;")
THIRD = f"{FOURTH} DROP INDEX plans_by_start; PRAGMA user_version = 3;"
SECOND = f"{THIRD} DROP INDEX models_by_id; CREATE INDEX models_by_id ON models (id); PRAGMA user_version = 2;"


@unittest.skipIf(harness.STORE == "postgres", "of SQLite")
class OlderDatabases(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("--workers", "1")
        self.addCleanup(self.daemon.close)
        self.daemon.start()
        self.model = self.daemon.upload(TINY).json["id"]
        self.done = self.submit(1)
        self.daemon.finished(self.done)
        self.daemon.freeze()
        self.queued = [self.submit(2), self.submit(3)]
        self.daemon.kill()
        self.path = os.path.join(self.daemon.data, "shardplan.db")

    def submit(self, seed):
        body = {"model": self.model, "cluster": CLUSTER, "options": {"seed": seed}}
        return self.daemon.request("POST", "/v1/plans", body, {"Idempotency-Key": f"\"key-{seed}\""}).json["id"]

    def schema(self):
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            version = database.execute("PRAGMA user_version").fetchone()
            return version, sorted(row for row in database.execute("SELECT type, name, sql FROM sqlite_master"))

    def check(self, schema):
        self.daemon.start()
        self.assertEqual(self.schema(), schema)
        self.assertEqual([entry["id"] for entry in self.daemon.get("/v1/models").json["models"]], [self.model])
        self.assertEqual(self.daemon.get(f"/v1/models/{self.model}/content").body, TINY)
        self.assertEqual({entry["id"] for entry in self.daemon.get("/v1/plans").json["plans"]}, {self.done, *self.queued})
        for plan in (self.done, *self.queued):
            self.assertEqual(self.daemon.finished(plan)["state"], "succeeded")
            self.assertEqual(self.daemon.get(f"/v1/plans/{plan}/model").status, 200)
        self.assertEqual(self.daemon.get(f"/v1/plans/{self.done}").json["attempts"], 1)
        self.assertEqual(self.daemon.request("DELETE", f"/v1/plans/{self.done}").status, 204)

    def test_the_first(self):
        schema = self.schema()
        self.take_numbers_off()
        with contextlib.closing(sqlite3.connect(self.path)) as now:
            models = now.execute("SELECT seq, id, name, bytes, created_at FROM models").fetchall()
            plans = now.execute("SELECT p.seq, p.id, model, request, state, attempts, crashes, error, key, fingerprint, "
                                "p.created_at, started_at, finished_at FROM plans p JOIN keys k ON k.plan = p.id").fetchall()
        self.assertEqual((len(models), len(plans)), (1, 3))
        for name in glob.glob(f"{self.path}*"):  # the log, too, if it is there
            os.unlink(name)
        with contextlib.closing(sqlite3.connect(self.path)) as first:
            first.executescript(FIRST)
            first.executemany(f"INSERT INTO models VALUES ({', '.join('?' * 5)})", models)
            first.executemany(f"INSERT INTO plans VALUES ({', '.join('?' * 13)})", plans)
            first.commit()
        self.check(schema)

    def test_the_second(self):
        self.go_back_to(SECOND)

    def test_the_fourth(self):
        self.go_back_to(FOURTH)

    def test_the_third(self):
        self.go_back_to(THIRD)

    def take_numbers_off(self):
        """Of the names of files, which had none."""
        for path in glob.glob(f"{self.daemon.data}/blobs/*/*"):
            folder, name = os.path.split(path)
            os.rename(path, os.path.join(folder, re.sub(r"^([0-9a-f]+)[.][0-9]+", r"\1", name)))

    def go_back_to(self, script):
        schema = self.schema()
        self.take_numbers_off()
        with contextlib.closing(sqlite3.connect(self.path)) as older:
            older.executescript(script)
        self.assertNotEqual(self.schema(), schema)
        self.check(schema)
