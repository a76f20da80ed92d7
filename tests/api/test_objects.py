"""Daemons that share a PostgreSQL and a bucket, and no disk: what one of them made, each of them has."""

import glob
import json
import os
import shutil
import signal
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import postgres
import s3
import s3_proxy
from cases import CLUSTER, model
from daemon import PATIENCE, Daemon, postgres_server

KEYS = {"AWS_ACCESS_KEY_ID": s3.Server.key, "AWS_SECRET_ACCESS_KEY": s3.Server.secret}
SLICES = ("summary", "graph", "memory", "nodes", "tensors", "collectives", "diagnostics", "timeline?from=0")
FILES = {"annotated.splice", "plan.json", "plan.sheet", "plan.txt"}
server = None
proxy = None


def setUpModule():
    global server, proxy
    missing = s3.missing() or postgres.missing()
    if missing:
        if os.environ.get("CI"):
            raise AssertionError(missing)
        raise unittest.SkipTest(missing)
    server = s3.Server()
    server.start()
    proxy = s3_proxy.Proxy(server)
    os.environ.update(KEYS)


def tearDownModule():
    for name in KEYS:
        os.environ.pop(name, None)
    if proxy is not None:
        proxy.close()
    if server is not None:
        server.close()


class TwoFolders(unittest.TestCase):
    """Two daemons, each with a data folder of its own."""

    more = ()

    @classmethod
    def setUpClass(cls):
        cls.bucket = server.make_bucket()
        cls.database = postgres_server().new_database()
        cls.first, cls.second = (cls.daemon() for _ in range(2))
        cls.first.start()
        cls.second.start()

    @classmethod
    def daemon(cls, *options, bucket=None):
        return Daemon("--workers", "1", "--blobs", f"s3://{bucket or cls.bucket}/p", "--blobs-endpoint", proxy.endpoint, *cls.more,
                      *options, store=postgres_server().url(cls.database))

    @classmethod
    def tearDownClass(cls):
        for daemon in (cls.first, cls.second):
            daemon.close()
        postgres_server().drop_database(cls.database)
        wrong, proxy.wrong = proxy.wrong, []
        assert not wrong, f"requests that are not signed as they should be: {wrong}"

    def query(self, sql):
        return postgres_server().query(sql, self.database)

    def ask(self, daemon, method, path, body=None, expect=200, **headers):
        answer = daemon.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
        self.assertEqual(answer.status, expect, answer)
        return answer

    def plan_by(self, daemon, number):
        """The id of a finished plan that this daemon has made, since the other one stood still meanwhile."""
        other = self.second if daemon is self.first else self.first
        os.kill(other.process.pid, signal.SIGSTOP)
        try:
            plan = self.submit(daemon, number)
            self.assertEqual(daemon.finished(plan)["state"], "succeeded")
        finally:
            os.kill(other.process.pid, signal.SIGCONT)
        return plan

    def submit(self, daemon, number):
        sent = self.ask(daemon, "POST", "/v1/models", model(number), expect=201).json["id"]
        return self.ask(daemon, "POST", "/v1/plans", {"model": sent, "cluster": CLUSTER}, 202, Cache_Control="no-cache").json["id"]

    def owner(self, plan):
        return self.query(f"SELECT owner FROM shardplan.plans WHERE id = '{plan}'")[0]

    def keys(self, plan):
        return {key.rsplit("/", 1)[1] for key in server.keys(self.bucket, f"p/plans/{plan}/")}

    @staticmethod
    def copies(daemon, plan):
        paths = glob.glob(os.path.join(daemon.data, "plans", plan, "*/*"))
        return {os.path.basename(path) for path in paths if not path.endswith(".sums")}

    @staticmethod
    def drop_copies(daemon):
        for path in glob.glob(os.path.join(daemon.data, "plans/*")) + glob.glob(os.path.join(daemon.data, "blobs/*")):
            shutil.rmtree(path)


class Uploads(TwoFolders):
    """Parts lie in the folder of the daemon that an upload began with."""

    def test_another_daemon_says_where_they_are(self):
        data = model(77)
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        upload = self.ask(self.first, "POST", "/v1/uploads", {"bytes": len(data)}, 201).json["id"]
        path = f"/v1/uploads/{upload}"
        elsewhere = [("GET", path, None, {}), ("HEAD", path, None, {}), ("PATCH", path, data[:10], {"Upload_Offset": "0"}),
                     ("POST", "/v1/models", {"upload": upload}, {})]

        def refused(requests):
            for method, target, body, headers in requests:
                answer = self.ask(self.second, method, target, body, 409, **headers)
                if method != "HEAD":
                    self.assertEqual(answer.json["code"], "UPLOAD_ELSEWHERE")
            self.assertFalse(os.path.exists(os.path.join(self.second.data, "uploads", upload)))

        refused(elsewhere[:3])
        self.ask(self.first, "PATCH", path, data[:10], Upload_Offset="0")
        refused(elsewhere[:3])
        self.assertEqual(self.ask(self.first, "GET", "/v1/uploads").json["uploads"][0]["offset"], 10)
        self.assertNotIn("offset", self.ask(self.second, "GET", "/v1/uploads").json["uploads"][0])
        self.first.stop()
        self.first.start()
        self.ask(self.first, "PATCH", path, data[10:], Upload_Offset="10")
        refused(elsewhere)
        self.assertEqual(self.ask(self.second, "GET", "/v1/uploads").json["uploads"][0]["offset"], len(data))
        stored = self.ask(self.first, "POST", "/v1/models", {"upload": upload}, 201).json["id"]
        self.assertEqual(self.ask(self.second, "GET", f"/v1/models/{stored}").json["bytes"], len(data))
        self.ask(self.second, "GET", path, expect=404)

    def test_any_daemon_gives_one_up(self):
        upload = self.ask(self.first, "POST", "/v1/uploads", {"bytes": 100}, 201).json["id"]
        self.ask(self.first, "PATCH", f"/v1/uploads/{upload}", b"x" * 50, Upload_Offset="0")
        self.ask(self.second, "DELETE", f"/v1/uploads/{upload}", expect=204)
        self.ask(self.first, "GET", f"/v1/uploads/{upload}", expect=404)
        self.ask(self.first, "PATCH", f"/v1/uploads/{upload}", b"x" * 50, 404, Upload_Offset="50")

    def test_weights_that_the_other_has_stored(self):
        """Verified where there are no copies."""
        import test_model_files
        weights = test_model_files.weights(30)
        stored = self.ask(self.first, "POST", "/v1/models", test_model_files.layered(name="far"), 201).json["id"]
        upload = self.ask(self.first, "POST", "/v1/uploads", {"bytes": len(weights)}, 201).json["id"]
        self.ask(self.first, "PATCH", f"/v1/uploads/{upload}", weights, Upload_Offset="0")
        self.ask(self.first, "POST", f"/v1/models/{stored}/files", {"location": "weights.bin", "upload": upload}, 201)
        answer = self.ask(self.second, "POST", "/v1/verify", {"original": stored, "simulation": stored, "weights": True}).json
        self.assertEqual(answer["verdict"], "proved", answer)


class Results(TwoFolders):
    def everything(self, daemon, plan):
        """All that can be had of a plan, by path."""
        paths = ["", *("/" + name for name in ("model", "simulation", "devices/0/model", "exports/csv-devices", *SLICES))]
        answers = {path: self.ask(daemon, "GET", f"/v1/plans/{plan}{path}").body for path in paths}
        answers["text"] = self.ask(daemon, "GET", f"/v1/plans/{plan}", Accept="text/plain").body
        row = [row for row in self.ask(daemon, "GET", "/v1/summary").json["plans"] if row["id"] == plan]
        self.assertIsInstance(row[0]["latency_seconds"], float)
        answers["row"] = json.dumps(row).encode()
        return answers

    def test_what_one_has_made_the_other_gives(self):
        plan = self.plan_by(self.first, 1)
        self.assertEqual(self.keys(plan), FILES)
        self.assertEqual(self.copies(self.second, plan), set())
        here = self.everything(self.first, plan)
        self.assertEqual(self.everything(self.second, plan), here)
        self.assertEqual(self.copies(self.second, plan), FILES)
        # Each of them by itself, too.
        for path in here:
            with self.subTest(path):
                self.drop_copies(self.second)
                self.second.stop()  # with what it has in memory
                self.second.start()
                accept = {"Accept": "text/plain"} if path == "text" else {}
                target = "/v1/summary" if path == "row" else f"/v1/plans/{plan}{'' if path == 'text' else path}"
                body = self.ask(self.second, "GET", target, **accept).body
                if path != "row":
                    self.assertEqual(body, here[path])

    def test_what_is_said_of_a_model(self):
        here = self.ask(self.first, "POST", "/v1/models?name=some", model(10), expect=201).json
        self.assertEqual(len([key for key in server.keys(self.bucket, "p/blobs/") if key.endswith(".json") and here["id"][2:] in key]), 1)
        for _ in range(2):
            self.assertEqual(self.ask(self.second, "GET", f"/v1/models/{here['id']}").json, here)
            self.drop_copies(self.second)
        self.assertEqual(self.ask(self.second, "GET", f"/v1/models/{here['id']}/content").body, model(10))
        self.assertEqual(self.ask(self.second, "POST", "/v1/models?name=some", model(10)).json, here)  # it has the file
        self.drop_copies(self.second)
        # Sent again it is called what it was called, whether or not the daemon has a copy.
        self.assertEqual(self.ask(self.second, "POST", "/v1/models?name=other", model(10)).json["name"], "some")
        self.assertEqual(self.ask(self.first, "GET", f"/v1/models/{here['id']}").json["name"], "some")
        self.ask(self.first, "DELETE", f"/v1/models/{here['id']}", expect=204)
        self.first.wait_for(lambda: not [key for key in server.keys(self.bucket, "p/blobs/") if here["id"][2:] in key], "objects")
        self.ask(self.second, "GET", f"/v1/models/{here['id']}", expect=404)

    def test_a_plan_is_followed_elsewhere(self):
        plan = self.plan_by(self.first, 2)
        body = {"from": plan, "cluster": {**CLUSTER, "count": 1}}
        for daemon in (self.second, self.first):
            self.drop_copies(self.first)
            self.drop_copies(self.second)
            answer = self.ask(daemon, "POST", "/v1/replan", body, Prefer=f"wait={PATIENCE}", Cache_Control="no-cache").json
            self.assertEqual(answer["plan"]["replan"]["from"], json.loads(self.everything(daemon, plan)[""])["plan"]["id"])

    def test_the_folder_is_gone(self):
        plan = self.plan_by(self.first, 3)
        here = self.everything(self.first, plan)
        self.first.stop()
        shutil.rmtree(self.first.data)
        self.drop_copies(self.second)
        self.assertEqual(self.everything(self.second, plan), here)
        self.first.start()  # in a new folder, with the same bucket
        self.assertEqual(self.everything(self.first, plan), here)

    def test_files_go_with_the_plan(self):
        plan = self.plan_by(self.first, 4)
        self.everything(self.second, plan)
        self.ask(self.second, "DELETE", f"/v1/plans/{plan}", expect=204)
        self.second.wait_for(lambda: not self.keys(plan), "the removal of objects")
        for daemon in (self.first, self.second):
            daemon.wait_for(lambda daemon=daemon: not self.copies(daemon, plan), "the removal of copies")
            self.assertEqual(daemon.get(f"/v1/plans/{plan}").status, 404)

    def test_object_that_somebody_changed(self):
        for number, (name, path) in enumerate((("plan.json", ""), ("plan.sheet", "/nodes"), ("annotated.splice", "/model"))):
            plan = self.plan_by(self.first, 50 + number)
            attempt = os.listdir(os.path.join(self.first.data, "plans", plan))[0]
            key = f"{self.bucket}/p/plans/{plan}/{attempt}/{name}"
            whole = server.request("GET", key)[1]
            self.assertEqual(server.request("PUT", key, body=whole[:-1] + bytes([whole[-1] ^ 1]))[0], 200)
            self.ask(self.first, "GET", f"/v1/plans/{plan}{path}")  # which has its copies
            answer = self.ask(self.second, "GET", f"/v1/plans/{plan}{path}", expect=500)
            self.assertEqual(answer.json["code"], "PLAN_DAMAGED")
            for daemon in (self.first, self.second):
                told = self.ask(daemon, "GET", f"/v1/plans/{plan}").json
                self.assertEqual((told["state"], told["has_result"], told["error"]["code"]), ("failed", False, "PLAN_DAMAGED"))
            self.second.wait_for(lambda plan=plan: not self.keys(plan), "the removal of objects")

    def test_the_end_waits_for_the_store(self):
        """Nobody is told of a result before it is in the bucket; who does not want to wait for that may cancel the plan."""
        self.second.stop()
        try:
            for number, cancels in ((6, True), (7, False)):
                sent = self.ask(self.first, "POST", "/v1/models", model(number), expect=201).json["id"]
                self.first.freeze()
                plan = self.ask(self.first, "POST", "/v1/plans", {"model": sent, "cluster": CLUSTER}, 202).json["id"]
                server.kill_gateway()
                try:
                    self.first.thaw()

                    def looked(plan=plan):
                        return self.ask(self.first, "GET", f"/v1/plans/{plan}").json

                    self.first.wait_for(lambda: looked()["progress"]["phase"] == "store", "a result")
                    self.first.wait_for(lambda plan=plan: self.copies(self.first, plan) == FILES, "its files")
                    time.sleep(1)
                    self.assertEqual((looked()["state"], looked()["has_result"]), ("running", False))
                    if cancels:
                        self.ask(self.first, "POST", f"/v1/plans/{plan}/cancel")
                        self.assertEqual(self.first.finished(plan)["state"], "cancelled")
                finally:
                    server.start_gateway()
                if not cancels:
                    self.assertEqual(self.first.finished(plan)["state"], "succeeded")
                self.first.wait_for(lambda plan=plan, cancels=cancels: self.keys(plan) == (set() if cancels else FILES), "objects")
        finally:
            self.second.start()
        self.everything(self.second, plan)

    def test_orphans_are_swept(self):
        kept = self.plan_by(self.first, 8)
        orphans = [f"p/plans/{'0' * 32}/1/plan.json", f"p/plans/{kept}/0/plan.json"]
        others = ["p/plans/else", f"p/plans/{'0' * 32}/x/plan.json"]
        for key in orphans + others:
            self.assertEqual(server.request("PUT", f"{self.bucket}/{key}", body=b"x")[0], 200)
        self.second.stop()
        self.second.start()
        self.second.wait_for(lambda: not set(orphans) & set(server.keys(self.bucket, "p/plans/")), "the sweep")
        self.assertEqual(set(others) - set(server.keys(self.bucket, "p/plans/")), set())
        self.assertEqual(self.keys(kept), FILES)


class Copies(TwoFolders):
    more = ("--blob-cache-bytes", "100000")

    def test_copies_that_are_too_many_go(self):
        plans = [self.submit(self.first, 20 + number) for number in range(8)]
        for plan in plans:
            self.assertEqual(self.first.finished(plan)["state"], "succeeded")
        for daemon in (self.first, self.second):
            for _ in range(2):
                for plan in plans:
                    self.assertIn("plan", self.ask(daemon, "GET", f"/v1/plans/{plan}").json)
                    self.ask(daemon, "GET", f"/v1/plans/{plan}/model")
                    self.ask(daemon, "GET", f"/v1/plans/{plan}/tensors")

            def size(daemon=daemon):
                files = glob.glob(os.path.join(daemon.data, "plans/*/*/*")) + glob.glob(os.path.join(daemon.data, "blobs/*/" + "?" * 62))
                return sum(map(os.path.getsize, files))

            daemon.wait_for(lambda: size() <= 100000 + 40000, "the removal of copies")  # what is read at the moment stays


class Identity(TwoFolders):
    def refuses(self, daemon, code):
        process = daemon.spawn()
        try:
            log = process.communicate(timeout=PATIENCE)[1].decode()
        finally:
            process.kill()
            daemon.close()
        self.assertEqual(process.returncode, 4, log)
        self.assertIn(code, log)

    def test_another_bucket(self):
        other = server.make_bucket()
        self.refuses(self.daemon(bucket=other), "OTHER_BLOBS")
        self.assertEqual(server.keys(other), [])

    def test_no_bucket(self):
        self.refuses(Daemon("--workers", "1", store=postgres_server().url(self.database)), "OTHER_BLOBS")

    def test_another_database(self):
        database = postgres_server().new_database()
        self.addCleanup(postgres_server().drop_database, database)
        before = server.keys(self.bucket)
        self.refuses(Daemon(*self.first.options[4:], store=postgres_server().url(database)), "BLOBS_IN_USE")
        self.assertEqual(server.keys(self.bucket), before)

    def test_a_bucket_that_was_moved(self):
        other = server.make_bucket()
        for key in server.keys(self.bucket):
            server.request("PUT", f"{other}/{key}", body=server.request("GET", f"{self.bucket}/{key}")[1])
        with self.daemon(bucket=other) as third:
            self.assertEqual(third.get("/v1/plans").status, 200)

    def test_many_begin_together(self):
        """Whoever comes first names the prefix, and the others are welcome."""
        database, bucket = postgres_server().new_database(), server.make_bucket()
        self.addCleanup(postgres_server().drop_database, database)
        daemons = [Daemon("--workers", "1", "--blobs", f"s3://{bucket}/p", "--blobs-endpoint", proxy.endpoint,
                          store=postgres_server().url(database)) for _ in range(3)]
        for daemon in daemons:
            self.addCleanup(daemon.close)
        with ThreadPoolExecutor(len(daemons)) as pool:
            list(pool.map(lambda daemon: daemon.start(), daemons))
        self.assertEqual(len(server.keys(bucket, "p/owner/")), 1)


if __name__ == "__main__":
    unittest.main()
