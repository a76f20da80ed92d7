#!/usr/bin/env python3
"""Kills what serves while clients work, again and again, and looks at what is left; TAP on standard output.

    crashes.py [--rounds 200] [--store sqlite|postgres|both] [--blobs folder|s3|both] [--clients 10] [--seed N] [--program FILE]

Clients submit plans of small models all the time: some with an Idempotency-Key, which they send again until they know the answer,
some that ask what others ask, some for a plan of their own; they cancel some and delete some, and models come and go. In each round
something dies by kill -9 at a random moment and is started again: a worker, the daemon, the daemon and its workers, or PostgreSQL
(which two daemons share). With `--blobs s3` models are in an object store, of which the folder keeps few copies, and some rounds are
bad weather there instead, which goes on while others die: its server is killed and started again, answers late, says that it is full,
answers 500 and 503, loses answers or cuts them off. At the end, and every --look rounds:

  every plan that was accepted has ended: it succeeded, or it failed because its worker was killed too often, or it was cancelled
  because somebody asked for that; nothing waits or runs any more, also of what nobody was told of
  one key has one plan, one question one computation
  after a restart each plan has the files of its last attempt and nothing else, complete; each model has its file, with the right
  hash, sums of files lie beside these, and nothing lies about that no row knows; the object store has the objects of the models, and no part of an upload
"""

import argparse
import collections
import concurrent.futures
import hashlib
import http.client
import itertools
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, "tests/tools"), os.path.join(TOP, "tests/api")]
sys.dont_write_bytecode = True

import daemon as harness  # noqa: E402
import lacking  # noqa: E402
import onnx_make  # noqa: E402
import postgres  # noqa: E402
import s3  # noqa: E402
import s3_proxy  # noqa: E402

OPEN_AT_A_TIME = 5  # plans of one client that it knows not to have ended
KEPT_MODELS, FLEETING_MODELS = 8, 6
HONEST = {"WORKER_CRASHED", "INTERRUPTED_TOO_OFTEN"}
PATIENCE = 120
PREFIX = "some/prefix/"
CACHE = 20000  # bytes of copies: less than the models have
LONGEST_WEATHER = 4  # seconds


def model(number):
    return onnx_make.encode(onnx_make.chain(6 + number % 12, dims=(8, 32 + 8 * (number // 12)), name=f"crash{number}"))


def ask(port, method, path, body=None, headers=None):
    """(status, JSON or bytes), or (0, None) when nobody answered, or not to the end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = dict(headers or {})
    if isinstance(body, dict):
        body = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    elif body is not None:
        headers["Content-Type"] = "application/octet-stream"
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        data = response.read()
        kind = response.headers.get("Content-Type", "").split(";")[0]
        return response.status, json.loads(data) if kind.endswith("json") else data
    except (OSError, http.client.HTTPException):
        return 0, None
    finally:
        connection.close()


class Plan:
    def __init__(self):
        self.cancelled = self.deleted = self.perhaps_deleted = False


class Client(threading.Thread):
    def __init__(self, world, number):
        super().__init__(daemon=True)
        self.world = world
        self.rng = random.Random(f"{world.seed} {number}")
        self.number = number
        self.open = collections.deque()
        self.keys = 0

    def ask(self, *arguments):
        status, answer = ask(self.rng.choice(self.world.daemons).port, *arguments)
        self.world.count(f"answers {status}" if status else "no answer")
        if status == 0:
            time.sleep(0.02)  # it is being started again
        return status, answer

    def run(self):
        while not self.world.ended:
            try:
                self.world.wait_until_open()
                self.step()
            except Exception as error:  # whatever it is, it is a finding
                self.world.fail(f"client {self.number}: {type(error).__name__} {error}")
                return

    def step(self):
        choice = self.rng.random()
        if choice < 0.08:
            self.come_and_go()
        elif choice < 0.30 and self.open:
            self.meddle(self.rng.choice(self.open))
        elif len(self.open) >= OPEN_AT_A_TIME:
            self.look()
        else:
            self.submit()

    def body(self):
        """Those who ask what others ask choose among few questions."""
        number = self.rng.randrange(KEPT_MODELS)
        return {"model": self.world.models[number], "cluster": {"device": "a100-sxm4-80gb", "count": 2}}

    def submit(self):
        kind = self.rng.choice(("key", "equal", "own"))
        headers, body = {}, self.body()
        if kind == "key":
            self.keys += 1
            headers["Idempotency-Key"] = f"client-{self.number}-{self.keys}"
        elif kind == "own":  # a question that only such submissions have
            headers["Cache-Control"] = "no-cache"
            body["cluster"]["count"] = 4
        while not self.world.ended:
            status, answer = self.ask("POST", "/v1/plans", body, headers)
            if status in (200, 202):
                self.world.accepted(answer["id"], headers.get("Idempotency-Key"), kind)
                if answer["id"] not in self.open:
                    self.open.append(answer["id"])
                if kind == "key" and self.rng.random() < 0.5:
                    continue  # the same again: the same plan
                return
            deleted = status == 404 and answer["code"] == "PLAN_NOT_FOUND"  # by another client, before this one was told
            self.world.count("deleted before the answer", deleted)
            if status not in (0, 429, 503) and not deleted:
                raise AssertionError(f"{status} {answer}")
            if kind != "key":  # whether there is a plan is not known
                return
            time.sleep(0.05)

    def look(self):
        plan = self.open.popleft()
        status, answer = self.ask("GET", f"/v1/plans/{plan}")
        if status == 200 and answer["state"] in ("queued", "running") or status in (0, 503):
            self.open.append(plan)
            time.sleep(0.02)
        elif status not in (200, 404):
            raise AssertionError(f"{status} {answer}")

    def meddle(self, plan):
        entry = self.world.plans[plan]
        if self.rng.random() < 0.5:
            entry.cancelled = True
            status, answer = self.ask("POST", f"/v1/plans/{plan}/cancel")
        else:
            entry.perhaps_deleted = True
            status, answer = self.ask("DELETE", f"/v1/plans/{plan}")
            if status in (204, 404):
                entry.deleted = True
                self.open.remove(plan)
        if status not in (0, 200, 202, 204, 404, 503):
            raise AssertionError(f"{status} {answer}")

    def come_and_go(self):
        """A model that others may upload, use and delete meanwhile."""
        large = self.world.objects is not None and self.rng.random() < 0.05
        data = self.world.large if large else model(100 + self.rng.randrange(FLEETING_MODELS))
        status, answer = self.ask("POST", "/v1/models", data)
        if status in (200, 201):
            self.ask("POST", "/v1/plans", {"model": answer["id"], "cluster": {"device": "h100-sxm-80gb", "count": 2}})
            status, answer = self.ask("DELETE", f"/v1/models/{answer['id']}")
            if status not in (0, 204, 404, 409, 503):
                raise AssertionError(f"{status} {answer}")
        elif status not in (0, 429, 503):
            raise AssertionError(f"{status} {answer}")


class Objects:
    """An object store with its weather."""

    KINDS = ("away", "slow", "full", "errors", "lost answers")

    def __init__(self, rng):
        self.rng = rng
        self.server = s3.Server()
        self.server.start()
        self.bucket = self.server.make_bucket()
        self.proxy = s3_proxy.Proxy(self.server)
        self.pool = concurrent.futures.ThreadPoolExecutor(1)  # whose thread stays: its processes die with it
        self.passing = None

    def options(self):
        os.environ.update(AWS_ACCESS_KEY_ID=self.server.key, AWS_SECRET_ACCESS_KEY=self.server.secret)
        return ["--blobs", f"s3://{self.bucket}/{PREFIX}", "--blobs-endpoint", self.proxy.endpoint, "--blob-cache-bytes", str(CACHE)]

    def worsen(self):
        """What it is now; what was before ends first."""
        self.calm()
        kind = self.rng.choice(self.KINDS)
        self.passing = self.pool.submit(self.pass_over, kind, self.rng.random() * LONGEST_WEATHER)
        return kind

    def pass_over(self, kind, seconds):
        if kind == "away":
            self.server.kill_gateway()
            time.sleep(seconds)
            self.server.start_gateway()
            return
        self.proxy.weather = getattr(self, "when_" + kind.replace(" ", "_"))
        time.sleep(seconds)
        self.proxy.weather = None

    def when_slow(self, *_):
        time.sleep(random.random() * 2)

    def when_full(self, method, _):
        return random.choice(((507, "InsufficientCapacity"), (403, "QuotaExceeded"))) if method in ("PUT", "POST") else None

    def when_errors(self, *_):
        return random.choice(((500, "InternalError"), (503, "SlowDown"), (503, "ServiceUnavailable"), None))

    def when_lost_answers(self, *_):
        return random.choice(("lost", "cut", None))

    def calm(self):
        if self.passing is not None:
            self.passing.result()
            self.passing = None

    def close(self):
        self.calm()
        self.proxy.close()
        self.server.close()
        self.pool.shutdown()


class World:
    def __init__(self, arguments, folder):
        self.seed = arguments.seed
        self.rng = random.Random(self.seed)
        self.lock = threading.Lock()
        self.ended = False
        self.gate = threading.Event()
        self.plans, self.keys = {}, {}
        self.counts = collections.Counter()
        self.failures = []
        self.server = None
        self.objects = None
        self.daemons = []
        self.data = os.path.join(folder, "data")

    def start(self, arguments, store, blobs):
        if blobs == "s3":
            self.objects = Objects(self.rng)
            self.large = onnx_make.encode(onnx_make.mlp(2, 1600, name="large"))  # in parts
        if store == "postgres":
            self.server = postgres.Server()
            self.server.start()
            self.database = self.server.new_database()
        url = self.server.url(self.database) if self.server else None
        options = self.objects.options() if self.objects else []
        self.daemons = [harness.Daemon("--workers", "2", *options, data=self.data, store=url) for _ in range(2 if self.server else 1)]
        for one in self.daemons:
            one.start()
        self.models = [one[1]["id"] for one in
                       (ask(self.daemons[0].port, "POST", "/v1/models", model(number)) for number in range(KEPT_MODELS))]
        self.clients = [Client(self, number) for number in range(arguments.clients)]
        self.gate.set()
        for client in self.clients:
            client.start()

    # ---- what clients say ----

    def wait_until_open(self):
        self.gate.wait()

    def count(self, what, by=1):
        with self.lock:
            self.counts[what] += by

    def accepted(self, plan, key, kind):
        with self.lock:
            self.counts[f"accepted ({kind})"] += 1
            self.plans.setdefault(plan, Plan())
            before = self.keys.get(key)
            if before not in (None, plan) and not self.plans[before].perhaps_deleted:  # keys go with their plans
                self.failures.append(f"key {key} has the plans {before} and {plan}")
            if key is not None:
                self.keys[key] = plan

    def fail(self, what):
        with self.lock:
            self.failures.append(what)

    # ---- death ----

    def die(self):
        victims = ["worker", "daemon", "daemon and workers"] + (["PostgreSQL"] * 2 if self.server else [])
        victim = self.rng.choice(victims + (["object store"] * 3 if self.objects else []))
        if victim == "object store":
            self.counts[f"object store: {self.objects.worsen()}"] += 1
            return
        one = self.rng.choice(self.daemons)
        self.counts[f"killed: {victim}"] += 1
        if victim == "PostgreSQL":
            self.server.kill()
            time.sleep(self.rng.random() * 0.3)
            self.server.start()
        elif victim == "worker":
            self.kill_worker(one)
        else:
            if victim == "daemon and workers":
                self.kill_worker(one)
            one.kill()
            time.sleep(self.rng.random() * 0.1)
            one.start()

    def kill_worker(self, one):
        workers = one.workers()
        if workers:
            try:
                os.kill(self.rng.choice(workers), signal.SIGKILL)
            except ProcessLookupError:
                pass

    # ---- looking ----

    def rows(self, sql):
        if self.server:
            return [line.split("|") for line in self.server.query(sql.replace(" FROM ", " FROM shardplan."), self.database)]
        connection = sqlite3.connect(f"file:{self.data}/shardplan.db?mode=ro", uri=True, timeout=30)
        try:
            return [[str(value) for value in row] for row in connection.execute(sql)]
        finally:
            connection.close()

    def look(self):
        """Lets everything end, then looks at all of it."""
        self.gate.clear()
        if self.objects:
            self.objects.calm()
        deadline = time.monotonic() + PATIENCE
        while True:
            left = self.rows("SELECT id, state FROM plans WHERE state IN ('queued', 'running')")
            if not left:
                break
            if time.monotonic() > deadline:
                self.fail(f"{len(left)} plans do not end: {left[:3]}")
                break
            time.sleep(0.1)
        self.check_plans()
        self.check_questions()
        self.gate.set()

    def ask_until_known(self, path):
        """The last death may be a moment ago: until the store is known to be back, nobody knows."""
        deadline = time.monotonic() + PATIENCE
        while True:
            status, answer = ask(self.daemons[0].port, "GET", path)
            if status not in (0, 503) or time.monotonic() > deadline:
                return status, answer
            time.sleep(0.05)

    def check_plans(self):
        for plan, entry in list(self.plans.items()):
            status, answer = self.ask_until_known(f"/v1/plans/{plan}")
            if status == 404:
                if not entry.perhaps_deleted:
                    self.fail(f"plan {plan} is lost")
                continue
            if status != 200 or entry.deleted:
                self.fail(f"plan {plan}: {status}, {'deleted' if entry.deleted else 'not deleted'}")
                continue
            state = answer["state"]
            code = (answer.get("error") or {}).get("code")
            if state == "failed" and code not in HONEST:
                self.fail(f"plan {plan} failed: {answer.get('error')}")
            elif state == "cancelled" and not entry.cancelled:
                self.fail(f"nobody cancelled plan {plan}")
            elif state not in ("succeeded", "failed", "cancelled"):
                self.fail(f"plan {plan} is {state}")

    def check_questions(self):
        """Only submissions for plans of their own may have a question computed twice. They have four devices."""
        seen = collections.Counter()
        for question, request in self.rows("SELECT question, request FROM plans WHERE state = 'succeeded' AND NOT cancel_requested"):
            if '"count":4' not in request.replace(" ", ""):
                seen[question] += 1
        twice = [question for question, count in seen.items() if count > 1]
        if twice:
            self.fail(f"{len(twice)} questions were computed more than once")

    def end(self):
        self.look()
        self.ended = True
        self.gate.set()
        for client in self.clients:
            client.join(60)
            if client.is_alive():
                self.fail(f"client {client.number} hangs")
        self.look()
        for one in self.daemons:
            one.stop()
        if self.server:  # as when ten leases have passed: daemons that died are known to be dead
            self.server.query("UPDATE shardplan.daemons SET beat_at = beat_at - 11 * lease_ms", self.database)
        self.daemons[0].start()  # sweeps
        if self.objects:
            self.check_objects()
        self.check_files()
        self.daemons[0].stop()
        if self.server:
            self.server.close()

    def abandon(self):
        """Ends what still runs, wherever the test has come to."""
        self.ended = True
        self.gate.set()
        for one in self.daemons:
            one.kill()
        if self.server and self.server.process is not None:  # not closed yet
            self.server.close()
        if self.objects:
            self.objects.close()

    def check_files(self):
        rows = {row[0]: row for row in self.rows("SELECT id, state, attempts, has_result FROM plans")}
        for plan in os.listdir(os.path.join(self.data, "plans")):
            if plan not in rows:
                self.fail(f"the folder of plan {plan} is an orphan")
        for plan, state, attempts, has_result in rows.values():
            self.counts[f"plans that {state}" if state != "cancelled" else "plans cancelled"] += 1
            self.check_plan_folder(plan, state, attempts, has_result in ("1", "t"))
        models = set(map(tuple, self.rows("SELECT id, blob, inspection FROM models")))
        named = {f"{name}.{blob}" for name, blob, _ in models} | {f"{name}.{inspection}.json" for name, _, inspection in models}
        there = set()
        for prefix in os.listdir(os.path.join(self.data, "blobs")):
            for name in os.listdir(os.path.join(self.data, "blobs", prefix)):
                path = os.path.join(self.data, "blobs", prefix, name)
                if name.endswith(".sums"):
                    self.check_sums(path, prefix + name, named)
                    continue
                self.check_blob(path, prefix + name, named)
                there.add(prefix + name)
        lacking = named - there if not self.objects else set()  # there, the folder has copies
        if lacking:
            self.fail(f"{len(lacking)} files of models are not there")
        self.counts["models at the end"] = len(models)
        tmp = os.path.join(self.data, "tmp")
        left = [os.path.join(owner, name) for owner in os.listdir(tmp) for name in os.listdir(os.path.join(tmp, owner))]
        if left or len(os.listdir(tmp)) > 1:
            self.fail(f"temporary files are left: {left[:3]} in {len(os.listdir(tmp))} folders")

    def check_objects(self):
        """The sweep is under way."""
        server, bucket = self.objects.server, self.objects.bucket
        wanted = {}  # the hash of each object
        for name, blob, inspection, sha256 in self.rows("SELECT id, blob, inspection, inspection_sha256 FROM models"):
            wanted[f"{PREFIX}blobs/{name[:2]}/{name[2:]}.{blob}"] = name
            wanted[f"{PREFIX}blobs/{name[:2]}/{name[2:]}.{inspection}.json"] = sha256
        for plan, attempts, files in self.rows("SELECT id, attempts, replace(files, chr(10), ' ') FROM plans WHERE has_result"
                                               if self.server else
                                               "SELECT id, attempts, replace(files, char(10), ' ') FROM plans WHERE has_result"):
            words = files.split()
            for sha256, name in zip(words[::3], words[2::3]):
                wanted[f"{PREFIX}plans/{plan}/{attempts}/{name}"] = sha256
        deadline = time.monotonic() + PATIENCE
        while True:
            keys = {key for key in server.keys(bucket) if not key.startswith(PREFIX + "owner/")}
            unfinished = server.unfinished(bucket)
            if (keys == set(wanted) and not unfinished) or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        lacking = set(wanted) - keys
        if lacking:
            self.fail(f"{len(lacking)} objects are not there: {sorted(lacking)[:3]}")
        if keys - set(wanted) or unfinished:
            self.fail(f"objects are orphans: {sorted(keys - set(wanted))[:3]}, unfinished uploads {unfinished[:3]}")
        for key in keys & set(wanted):
            if hashlib.sha256(server.request("GET", f"{bucket}/{key}")[1]).hexdigest() != wanted[key]:
                self.fail(f"object {key} has other bytes")
        if self.objects.proxy.wrong:
            self.fail(f"requests are not signed as they should be: {self.objects.proxy.wrong[:3]}")
        self.counts["requests to the object store"] = len(self.objects.proxy.seen)

    def check_plan_folder(self, plan, state, attempts, has_result):
        folder = os.path.join(self.data, "plans", plan)
        found = os.listdir(folder) if os.path.exists(folder) else []
        if [name for name in found if name != attempts] or (has_result and found != [attempts] and not self.objects):
            self.fail(f"plan {plan} ({state}, attempt {attempts}) has the folders {found}")
            return
        if state == "succeeded" and not has_result:
            self.fail(f"plan {plan} succeeded without files")
        if not has_result:
            return
        if not self.objects:
            self.check_plan_file(plan, os.path.join(folder, attempts, "plan.json"))
        if self.rng.random() < 0.05:
            status, data = ask(self.daemons[0].port, "GET", f"/v1/plans/{plan}/model")
            if status != 200 or not data:
                self.fail(f"the model of plan {plan}: {status}")
            self.counts["annotated models read"] += 1

    def check_plan_file(self, plan, path):
        try:
            with open(path, encoding="utf-8") as file:
                json.load(file)
        except (OSError, ValueError) as error:
            self.fail(f"plan {plan}: {error}")

    def check_sums(self, path, name, named):
        """They belong to a file that is there."""
        of = name.removesuffix(".sums")
        if of not in named or not os.path.exists(path.removesuffix(".sums")):
            self.fail(f"sums {name} are an orphan")
        with open(path, "rb") as file:
            if file.read(8) != b"SPSUMS1\n":
                self.fail(f"sums {name} are damaged")
        self.counts["sums at the end"] += 1

    def check_blob(self, path, name, named):
        with open(path, "rb") as file:
            data = file.read()
        if name not in named:
            self.fail(f"blob {name} is an orphan")
        if not name.endswith(".json"):
            if hashlib.sha256(data).hexdigest() != name[:64]:
                self.fail(f"blob {name} has other bytes")
        else:
            try:
                json.loads(data)
            except ValueError as error:
                self.fail(f"inspection {name}: {error}")


def run(arguments, store, blobs):
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardpland-crashes-", ignore_cleanup_errors=True) as folder:
        world = World(arguments, folder)
        try:
            world.start(arguments, store, blobs)
            return rounds_of(world, arguments, f"{store}, {blobs}", started)
        finally:
            world.abandon()


def rounds_of(world, arguments, store, started):
    rounds = 0
    for rounds in range(1, arguments.rounds + 1):
        time.sleep(world.rng.random() * arguments.pause)
        world.die()
        if rounds % arguments.look == 0 and rounds < arguments.rounds:
            world.look()
            print(f"# {store}: {rounds} rounds, {len(world.plans)} plans, {time.monotonic() - started:.0f} s", flush=True)
        if world.failures:
            break
    world.end()
    counts = ", ".join(f"{what} {count}" for what, count in sorted(world.counts.items()))
    print(f"# {store}: {counts}, keys {len(world.keys)}, plans known to clients {len(world.plans)}")
    verdict = "not ok" if world.failures else "ok"
    print(f"{verdict} crashes: {rounds} rounds on {store}, seed {arguments.seed}, {time.monotonic() - started:.0f} s")
    for failure in world.failures[:20]:
        print(f"  {failure}")
    sys.stdout.flush()
    return not world.failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--store", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--blobs", choices=("folder", "s3", "both"), default="folder")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.6, help="most seconds between deaths")
    parser.add_argument("--look", type=int, default=25, help="rounds between looks")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--program")
    arguments = parser.parse_args()
    if arguments.program:
        harness.PROGRAM = arguments.program
    lacking.need_built(harness.PROGRAM)
    harness.STORE = "sqlite"  # the others are told
    good = True
    lacks = {"postgres": postgres.missing(), "s3": s3.missing()}
    for store, blobs in itertools.product(("sqlite", "postgres"), ("folder", "s3")):
        if arguments.store in (store, "both") and arguments.blobs in (blobs, "both"):
            lack = lacks.get(store) or lacks.get(blobs)
            if lack:
                print(f"ok crashes: {store}, {blobs} # SKIP {lack}")
            else:
                good = run(arguments, store, blobs) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    lacking.run(main)
