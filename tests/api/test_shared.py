"""Several daemons on one PostgreSQL and one data folder: what one accepts any of them does, whoever dies meanwhile."""

import json
import os
import shutil
import socket
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import postgres
from cases import CLUSTER, SANITIZED, TINY, model
from daemon import BLOBS, LEASE, Daemon
from running import SWEEP, Stream, made

COUNT = 3
ANEW = {"Cache-Control": "no-cache"}


class Pooler(threading.Thread):
    """Between a daemon and PostgreSQL: tells each client a made-up number of its process, as PgBouncer does."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.folder = tempfile.TemporaryDirectory(prefix="shardpland-pooler-")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"{self.folder.name}/.s.PGSQL.{server.port}")
        self.listener.listen()
        self.start()

    def run(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self.server.folder.name}/.s.PGSQL.{self.server.port}")
        threading.Thread(target=self.pass_on, args=(client, server), daemon=True).start()
        started = b""
        while b"K\0\0\0\x0c" not in started or len(started.partition(b"K\0\0\0\x0c")[2]) < 8:
            started += server.recv(65536)
        before, key, after = started.partition(b"K\0\0\0\x0c")
        client.sendall(before + key + b"\x01\x02\x03\x04" + after[4:])
        self.pass_on(server, client)

    @staticmethod
    def pass_on(source, target):
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.folder.cleanup()


@unittest.skipIf(postgres.missing(), postgres.missing())
class Shared(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = postgres.Server()
        cls.server.start()
        cls.folder = tempfile.TemporaryDirectory(prefix="shardpland-shared-")
        cls.database = cls.server.new_database()
        cls.daemons = [Daemon("--workers", "1", data=os.path.join(cls.folder.name, "data"), store=cls.server.url(cls.database))
                       for _ in range(COUNT)]
        with ThreadPoolExecutor(COUNT) as pool:  # all of them make the schema
            list(pool.map(lambda daemon: daemon.start(), cls.daemons))
        cls.model = cls.daemons[0].upload(TINY).json["id"]

    @classmethod
    def tearDownClass(cls):
        for daemon in cls.daemons:
            daemon.close()
        cls.server.close()
        cls.folder.cleanup()

    def query(self, sql):
        return self.server.query(sql, self.database)

    def running(self):
        """Which daemons run plans."""
        return set(self.query("SELECT DISTINCT owner FROM shardplan.plans WHERE state = 'running'"))

    def submit(self, daemon, count=1, number=None):
        plans = []
        for _ in range(count):
            body = {"model": self.model if number is None else daemon.upload(model(number)).json["id"], "cluster": CLUSTER}
            answer = daemon.request("POST", "/v1/plans", body, ANEW)
            self.assertEqual(answer.status, 202, answer)
            plans.append(answer.json["id"])
        return plans

    def check_results(self, plans):
        """Each has succeeded, has one folder of results, and its files can be had from every daemon."""
        for number, plan in enumerate(plans):
            done = self.daemons[number % COUNT].finished(plan)
            self.assertEqual(done["state"], "succeeded", done)
            attempts = [name for name in os.listdir(os.path.join(self.daemons[0].data, "plans", plan)) if name.isdigit()]
            self.assertEqual(attempts, [str(done["attempts"])])
            self.assertEqual(self.daemons[(number + 1) % COUNT].get(f"/v1/plans/{plan}/model").status, 200)

    def finished_count(self, daemon, plans=None):
        """How many plans this daemon has finished, of these or of all: the log tells of a plan a moment after its state."""
        lines = [json.loads(line) for line in list(daemon.log)]
        return sum(line["event"] == "plan finished" and (plans is None or line["plan"] in plans) for line in lines)

    def test_plans_spread_over_all_daemons(self):
        for daemon in self.daemons:
            daemon.freeze()
        plans = self.submit(self.daemons[0], 3 * COUNT)
        self.daemons[0].wait_for(lambda: len(self.running()) == COUNT, "plans that run everywhere")
        for daemon in self.daemons:
            daemon.thaw()
        self.check_results(plans)

        def counts():
            return [self.finished_count(daemon, plans) for daemon in self.daemons]

        self.daemons[0].wait_for(lambda: sum(counts()) >= len(plans), "logs of all plans")
        self.assertEqual(sum(counts()), len(plans), "each was done once")
        self.assertGreater(min(counts()), 0)

    def test_a_plan_belongs_to_all(self):
        first, second, third = self.daemons
        plan = self.submit(first)[0]
        self.assertEqual(second.finished(plan)["state"], "succeeded")
        self.assertIn(plan, [row["id"] for row in third.get("/v1/plans").json["plans"]])
        self.assertEqual(third.get(f"/v1/plans/{plan}/model").body, first.get(f"/v1/plans/{plan}/model").body)
        self.assertEqual(third.request("DELETE", f"/v1/plans/{plan}").status, 204)
        self.assertEqual(third.get(f"/v1/plans/{plan}").status, 404)
        for daemon in (first, second):  # which may keep its answer until the news arrive
            daemon.wait_for(lambda: daemon.get(f"/v1/plans/{plan}").status == 404, "the news", 5)  # pylint: disable=cell-var-from-loop
        folder = os.path.join(first.data, "plans", plan)
        first.wait_for(lambda: not os.path.exists(folder), "the removal of the folder")

    def test_a_model_belongs_to_all(self):
        first, second, third = self.daemons
        data = model(77)
        name = first.upload(data).json["id"]
        self.assertEqual(second.get(f"/v1/models/{name}/content").body, data)
        self.assertEqual(second.upload(data).status, 200)
        self.assertEqual(third.request("DELETE", f"/v1/models/{name}").status, 204)
        self.assertEqual(first.get(f"/v1/models/{name}").status, 404)
        self.assertEqual(second.upload(data).status, 201)

    def test_a_page_of_one_daemon_goes_on_at_another(self):
        first, second, _ = self.daemons
        for number in range(3):
            first.upload(model(80 + number))
        page = first.get("/v1/models?page_size=1").json
        following = first.get(f"/v1/models?page_size=1&page_token={page['next_page_token']}").json
        self.assertEqual(second.get(f"/v1/models?page_size=1&page_token={page['next_page_token']}").json, following)

    @unittest.skipIf(BLOBS == "s3", "with an object store every folder is welcome: test_objects")
    def test_another_folder_is_not_taken_for_that_of_the_database(self):
        """A daemon with it would take plans whose models it does not have."""
        with tempfile.TemporaryDirectory(prefix="shardpland-other-") as folder:
            other = Daemon("--workers", "1", data=os.path.join(folder, "data"), store=self.daemons[0].store)
            process = other.spawn()
            said = [json.loads(line) for line in process.stderr.read().decode().splitlines()]
            self.assertNotEqual(process.wait(), 0)
            self.assertIn("OTHER_FOLDER", [line.get("code") for line in said])
            self.assertIn(other.data, "".join(line.get("detail", "") for line in said))
            # Files that were moved here bring the identity with them.
            shutil.copy(os.path.join(self.daemons[0].data, "identity"), other.data)
            other.start()
            other.close()

    def test_cancelled_at_another_daemon(self):
        for daemon in self.daemons:
            daemon.freeze()
        plan = self.submit(self.daemons[0])[0]
        owner = self.daemons[0].wait_for(self.running, "a running plan")
        self.assertEqual(len(owner), 1)
        for daemon in self.daemons:  # only one of them runs it
            self.assertEqual(daemon.request("POST", f"/v1/plans/{plan}/cancel").status, 200)
        for daemon in self.daemons:  # its worker would be done with so small a plan before it hears of that
            self.assertEqual(daemon.finished(plan)["state"], "cancelled")
        for daemon in self.daemons:
            daemon.thaw()

    def test_watched_at_another_daemon(self):
        """What the daemon that runs a plan says of it the others tell, too, and whoever is asked can end it."""
        name = self.daemons[0].upload(made("llama3-8b")).json["id"]
        plan = self.daemons[0].request("POST", "/v1/plans", {"model": name, "sweep": SWEEP}, ANEW).json["id"]
        streams = [Stream(daemon, plan) for daemon in self.daemons]
        seen = [stream.until("improved") for stream in streams]
        for daemon in self.daemons:
            progress = daemon.get(f"/v1/plans/{plan}").json["progress"]
            self.assertGreater(progress["best_seconds"], 0)
            self.assertEqual(progress["phase"], "sweep")
        for daemon in self.daemons:
            answer = daemon.request("POST", f"/v1/plans/{plan}/cancel", headers={"Prefer": "wait=20"}).json
            self.assertEqual((answer["state"], answer["has_result"]), ("cancelled", True))
        for stream, events in zip(streams, seen):
            events.extend(stream)
            ids = [event[0] for event in events]
            self.assertEqual(ids, sorted(set(ids)))
            self.assertEqual(events[-1][1:], ("done", {"state": "cancelled", "has_result": True}))
            self.assertGreater(len(events), 3)

    def test_waiting_for_a_plan_of_another_daemon(self):
        first, second, third = self.daemons
        frozen = {daemon: daemon.freeze() for daemon in (first, second)}
        held = []
        while len(held) < 10:  # until the two that cannot work have one each, and the third finishes the others
            answer = first.request("POST", "/v1/plans", {"model": self.model, "cluster": CLUSTER}, {**ANEW, "Prefer": "wait=2"})
            if answer.status != 202:
                break
            held.append(answer.json["id"])
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.json["state"], "succeeded")
        for daemon, workers in frozen.items():
            daemon.thaw(workers)
        self.check_results(held)
        self.assertGreater(self.finished_count(third), 0)

    def test_identical_submissions_are_one_plan(self):
        """1,000 at once through all daemons."""
        name = self.daemons[0].upload(model(5)).json["id"]
        body = {"model": name, "cluster": CLUSTER, "objective": "latency"}

        def submit(number):
            answer = self.daemons[number % COUNT].request("POST", "/v1/plans", body, check=number < COUNT)
            return (answer.status, answer.json["id"]) if answer.status in (200, 202) else (answer.status, None)

        with ThreadPoolExecutor(30) as pool:
            answers = list(pool.map(submit, range(300 if SANITIZED else 1000)))
        self.assertEqual(len({plan for _, plan in answers}), 1, set(answers))
        self.assertEqual(self.query(f"SELECT count(*) FROM shardplan.plans WHERE model = '{name}'"), ["1"])

    def test_one_key_through_all_daemons(self):
        body = {"model": self.model, "cluster": CLUSTER}
        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda number: self.daemons[number % COUNT].request(
                "POST", "/v1/plans", body, {**ANEW, "Idempotency-Key": "one-and-the-same"}), range(60)))
        self.assertEqual(len({answer.json["id"] for answer in answers}), 1)

    def test_a_daemon_that_dies_is_replaced(self):
        first, second, third = self.daemons
        for daemon in self.daemons:
            daemon.freeze()
        plans = self.submit(second, 2 * COUNT)
        second.wait_for(lambda: len(self.running()) == COUNT, "plans that run everywhere")
        first.kill()
        killed = time.monotonic()
        try:
            second.wait_for(lambda: len(self.running()) == COUNT - 1, "the end of the lease")
            self.assertLess(time.monotonic() - killed, 10 * LEASE, "it is a lease that ends")
            for daemon in (second, third):
                daemon.thaw()
            for plan in plans:
                second.finished(plan)
        finally:
            first.start()
        self.check_results(plans)
        attempts = sorted(self.daemons[0].get(f"/v1/plans/{plan}").json["attempts"] for plan in plans)
        self.assertEqual(attempts, [1] * (2 * COUNT - 1) + [2])

    def test_a_pooler_is_told_of_once(self):
        self.assertFalse([line for daemon in self.daemons for line in daemon.log if "behind a pooler" in line])
        pooler = Pooler(self.server)
        url = self.server.url(self.server.new_database()).replace(self.server.folder.name, pooler.folder.name)
        with Daemon("--workers", "1", store=url) as daemon:
            self.assertEqual(daemon.upload(TINY).status, 201)
            told = [json.loads(line) for line in daemon.log if "behind a pooler" in line]
            self.assertEqual([line["level"] for line in told], ["warning"])
        pooler.close()

    # ---- PostgreSQL goes away ----

    def check_away(self):
        def refuses(daemon):
            answer = daemon.get("/readyz")
            return answer if answer.status == 503 else None

        for daemon in self.daemons:
            answer = daemon.wait_for(lambda: refuses(daemon), "the news")  # pylint: disable=cell-var-from-loop
            self.assertIn("The store cannot be written.", answer.json["detail"])
            self.assertNotIn(self.server.folder.name, answer.text)  # where the server is, as libpq says, is for operators
            why = daemon.wait_for(lambda: "PostgreSQL cannot be reached" in (a := daemon.get("/readyz?verbose")).text and a, "why")  # pylint: disable=cell-var-from-loop
            self.assertIn(self.server.folder.name, why.json["detail"])
            self.assertEqual(daemon.get("/livez").status, 200)
            answer = daemon.request("POST", "/v1/plans", {"model": self.model, "cluster": CLUSTER})
            self.assertEqual(answer.status, 503, answer)
            self.assertIn("Retry-After", answer.headers)
            for path in ("/v1/plans", "/v1/models", f"/v1/models/{self.model}"):
                self.assertEqual(daemon.get(path).status, 503, path)

    def wait_until_back(self):
        for daemon in self.daemons:
            daemon.wait_for(lambda: daemon.raw_status("/readyz") == 200, "readiness")  # pylint: disable=cell-var-from-loop

    def check_back(self):
        self.wait_until_back()
        self.check_results(self.submit(self.daemons[1], 2))

    def test_postgres_stops(self):
        """Also with plans that run: what they found while it was away is kept."""
        for daemon in self.daemons:
            daemon.freeze()
        plans = self.submit(self.daemons[2], COUNT)
        self.daemons[0].wait_for(lambda: len(self.running()) == COUNT, "plans that run everywhere")
        self.server.stop()
        for daemon in self.daemons:
            daemon.thaw()
        try:
            self.check_away()
        finally:
            self.server.start()
        self.check_back()
        self.check_results(plans)

    def test_postgres_hangs(self):
        self.server.freeze()
        try:
            for daemon in self.daemons:
                began = time.monotonic()
                self.assertEqual(daemon.get("/v1/plans").status, 503)
                self.assertLess(time.monotonic() - began, 20, "the store's patience ends")
                daemon.wait_for(lambda: daemon.get("/readyz").status == 503, "the news")  # pylint: disable=cell-var-from-loop
                began = time.monotonic()
                for _ in range(5):
                    self.assertEqual(daemon.get("/v1/plans").status, 503)
                    self.assertEqual(daemon.get("/livez").status, 200)
                self.assertLess(time.monotonic() - began, 5, "once it is known, nobody waits: five would for 10 s")
        finally:
            self.server.thaw()
        self.check_back()

    def test_postgres_is_killed_under_load(self):
        accepted, refused, ended = {}, [], threading.Event()

        def submit(thread):
            number = 0
            while not ended.is_set():
                number += 1
                key = f"load-{thread}-{number}"
                for attempt in range(200):  # as a client does that heeds Retry-After, but more eagerly
                    answer = self.daemons[(thread + attempt) % COUNT].request(
                        "POST", "/v1/plans", {"model": self.model, "cluster": CLUSTER}, {**ANEW, "Idempotency-Key": key})
                    if answer.status == 202:
                        accepted[key] = answer.json["id"]
                        break
                    refused.append(answer.status)
                    time.sleep(0.05)

        threads = [threading.Thread(target=submit, args=(thread,)) for thread in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(2):
                seen = len(accepted)
                self.daemons[0].wait_for(lambda: len(accepted) > seen + 5, "accepted plans")  # pylint: disable=cell-var-from-loop
                self.server.kill()
                time.sleep(0.1)
                self.server.start()
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        self.assertLessEqual(set(refused), {503})
        self.wait_until_back()
        self.check_results(list(accepted.values()))
        self.assertEqual(len(set(accepted.values())), len(accepted), "a key, a plan")
        self.assertEqual(self.query("SELECT count(*) FROM shardplan.keys WHERE key LIKE 'load-%'"), [str(len(accepted))])


@unittest.skipIf(postgres.missing(), postgres.missing())
class Passwords(unittest.TestCase):
    def test_password_file(self):
        with postgres.Server() as server:
            right, wrong = (os.path.join(server.folder.name, name) for name in ("right", "wrong"))
            for path, text in ((right, server.password + "\n"), (wrong, "not the password\n")):
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
            url = server.tcp_url(server.new_database())
            with Daemon("--workers", "1", "--store-password-file", right, store=url) as daemon:
                self.assertEqual(daemon.upload(TINY).status, 201)
                self.assertNotIn(server.password, "".join(daemon.log))
            daemon = Daemon("--store-password-file", wrong, store=url)
            process = daemon.spawn()
            _, errors = process.communicate(timeout=60)
            daemon.folder.cleanup()
            self.assertEqual(process.returncode, 4)
            self.assertIn(b"password authentication failed", errors)
            self.assertNotIn(b"not the password", errors)
