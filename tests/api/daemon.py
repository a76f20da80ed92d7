"""The real daemon in a folder of its own, for tests: start, ask, kill, start again.

Every answer that goes through Daemon.request() is held to the contract (contract.py) that the daemon itself serves.
"""

import atexit
import contextlib
import glob
import gzip
import http.client
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/tools"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import contract  # noqa: E402
import postgres  # noqa: E402
import recount  # noqa: E402
import s3  # noqa: E402
import zstd  # noqa: E402

PROGRAM = os.environ.get("SHARDPLAND", os.path.join(TOP, "build/server/shardpland"))
PATIENCE = int(os.environ.get("SHARDPLAN_TEST_PATIENCE", "60"))  # seconds until something that must happen counts as hanging
STORE = os.environ.get("SHARDPLAN_TEST_STORE", "sqlite")  # or postgres: what daemons use that are not told
BLOBS = os.environ.get("SHARDPLAN_TEST_BLOBS", "folder")  # or s3: where files of daemons are that are not told
LEASE = 3  # seconds, the least; those of a daemon that was killed end before anybody wonders

_server = None  # of PostgreSQL


def postgres_server():
    """The PostgreSQL server that all tests share: of the process, or of several where the environment tells of one."""
    global _server
    if _server is None and "SHARDPLAN_TEST_POSTGRES" in os.environ:
        _server = postgres.Running()
    elif _server is None:
        _server = postgres.Server()
        _server.start()
        atexit.register(_server.close)
    return _server


_objects = None  # the service of S3
_buckets = {}  # of databases and data folders


def object_server():
    """The S3 service that all tests share: of the process, or of several where the environment tells of one."""
    global _objects
    if _objects is None and "SHARDPLAN_TEST_S3" in os.environ:
        _objects = s3.Running()
    elif _objects is None:
        _objects = s3.Server()
        _objects.start()
        atexit.register(_objects.close)
    return _objects


def object_options(belongs_to):
    """Options of a daemon whose files are in S3. Daemons of one database, or of one folder with SQLite, have one bucket."""
    if belongs_to not in _buckets:
        _buckets[belongs_to] = object_server().make_bucket()
    return ["--blobs", f"s3://{_buckets[belongs_to]}/files", "--blobs-endpoint", object_server().endpoint]


CODINGS = {None: bytes, "gzip": gzip.decompress, "zstd": zstd.decompress}


def blob_of(data, sha256):
    """The file of a model in a data folder: the newest, whose name ends in the highest number; or None."""
    paths = [path for path in glob.glob(os.path.join(data, "blobs", sha256[:2], sha256[2:] + "*")) if not path.endswith((".json", ".sums"))]
    return max(paths, key=lambda path: int(path.partition(sha256[2:] + ".")[2] or 0), default=None)


def model_of_file(folder, name):
    """The model that a file below blobs belongs to."""
    return folder + name.partition(".")[0]


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.wire = body  # as it came
        self.body = CODINGS[headers.get("Content-Encoding")](body) if body else body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode()

    def __repr__(self):
        return f"{self.status} {self.body[:600]!r}"


class Daemon:
    def __init__(self, *options, data=None, store=None):
        self.folder = None
        if data is None:
            self.folder = tempfile.TemporaryDirectory(prefix="shardpland-")
            data = os.path.join(self.folder.name, "data")
        self.data = data
        self.store = store  # the URL of a database; None: as SHARDPLAN_TEST_STORE says, "": SQLite
        self.database = None  # of its own, which goes with it
        if store is None and STORE == "postgres":
            self.database = postgres_server().new_database()
            self.store = postgres_server().url(self.database)
        self.options = [*(["--store", self.store, "--lease-seconds", str(LEASE)] if self.store else []), *options]
        self.keys = {}  # what the environment gives of an object store
        if BLOBS == "s3" and "--blobs" not in options:
            self.options += object_options(self.store or self.data)
            self.keys = {"AWS_ACCESS_KEY_ID": s3.Buckets.key, "AWS_SECRET_ACCESS_KEY": s3.Buckets.secret}
        self.token = None  # sent with each request
        self.tls = None  # an ssl.SSLContext: the daemon is asked through it
        self.process = None
        self.contract = None
        self.recounted = set()  # ids of plans whose memory was counted again
        self.reports = os.path.join(os.path.dirname(data), "reports")
        os.makedirs(self.reports, exist_ok=True)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Stops the daemon, checks how it ended, and removes its folder."""
        try:
            if self.process is not None:
                self.stop()
        finally:
            self.kill()
            if self.folder is not None:
                self.folder.cleanup()
            if self.database is not None:
                postgres_server().drop_database(self.database)
                self.database = None

    # ---- the process ----

    def spawn(self, *options):
        environment = dict(
            os.environ,
            **self.keys,
            ASAN_OPTIONS=f"detect_leaks=1:handle_sigill=1:log_path={self.reports}/asan",
            UBSAN_OPTIONS=f"print_stacktrace=1:log_path={self.reports}/ubsan",
            TSAN_OPTIONS=f"log_path={self.reports}/tsan:exitcode=0:report_signal_unsafe=0:suppressions={TOP}/tests/api/tsan.supp"
            f":{os.environ.get('TSAN_OPTIONS', '')}",
        )
        return subprocess.Popen(
            [PROGRAM, "--listen", "127.0.0.1:0", "--data", self.data, "--log-format", "json", *self.options, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
        )

    def start(self, ready=200):
        """`ready` is what /readyz is to say before the daemon counts as started."""
        self.process = self.spawn()
        atexit.register(self.process.kill)  # also when the tests are stopped from outside
        self.log = []
        for line in self.process.stderr:
            self.log.append(line.decode(errors="replace"))
            event = json.loads(line)
            if event["event"] == "listening":
                self.port = int(event["url"].rsplit(":", 1)[1])
                break
        else:
            raise AssertionError(f"the daemon did not start: {self.log}")
        self.reader = threading.Thread(target=self._read_log, args=(self.process.stderr,), daemon=True)
        self.reader.start()
        self.wait_for(lambda: self.raw_status("/readyz") == ready, "readiness")
        if self.contract is None:
            self.contract = contract.Contract(self.request("GET", "/openapi.json", check=False).json)

    def _read_log(self, pipe):
        for line in pipe:
            self.log.append(line.decode(errors="replace"))
            json.loads(line)

    def change_store(self, sql):
        """Runs SQL in the store, whichever it is."""
        if self.store:
            postgres_server().query(f"SET search_path = shardplan; {sql}", self.database)
            return
        with contextlib.closing(sqlite3.connect(os.path.join(self.data, "shardplan.db"))) as database:
            database.execute(sql)
            database.commit()

    def stop(self, signals=1):
        """SIGTERM; the daemon must end with 0 and without a report of the sanitizers."""
        for number in range(signals):
            time.sleep(0.2 if number > 0 else 0)
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        self.process = None
        if status != 0:
            raise AssertionError(f"the daemon ended with {status}: {''.join(self.log[-20:])}")
        self.check_reports()

    def check_reports(self):
        for name in os.listdir(self.reports):
            with open(os.path.join(self.reports, name), encoding="utf-8", errors="replace") as file:
                raise AssertionError(file.read()[:4000])

    def kill(self):
        """kill -9, and nothing else: what the daemon started must end by itself."""
        if self.process is None:
            return
        workers = self.workers()
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process = None
        self.wait_for(lambda: not any(alive(pid) for pid in workers), "the end of orphaned workers")

    def workers(self):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path, encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]

    def busy_worker(self, ticks=2):
        """A function that tells which worker has burned processor time since now, or None. A new one burns a few ticks
        before it takes a job."""
        before = {pid: processor_ticks(pid) for pid in self.workers()}

        def look():
            for pid in self.workers():
                if processor_ticks(pid) - before.get(pid, 0) >= ticks:
                    return pid
            return None

        return look

    def freeze(self):
        """Stops all workers, so that the next jobs stay in them; returns their ids."""
        self.wait_for(lambda: self.metric("shardplan_workers") >= self.metric("shardplan_workers_wanted"), "workers")

        def idle():
            """One that still starts has not asked yet to die with the daemon; one that was ended is replaced."""
            workers = self.workers()
            enough = len(workers) == self.metric("shardplan_workers") >= self.metric("shardplan_workers_wanted")
            enough = enough and self.metric("shardplan_workers_busy") == 0
            return workers if enough and all(state(pid) == "S" for pid in workers) else None

        def stay():
            """Stopped workers that are still there a moment later: one that the daemon was about to replace is not."""
            workers = self.wait_for(idle, "idle workers")
            for pid in workers:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(0.2)
            if self.workers() == workers and all(state(pid) == "T" for pid in workers):
                return workers
            self.thaw()
            return None

        return self.wait_for(stay, "workers that stay")

    def thaw(self, workers=None):
        """Lets stopped workers go on: these, or all. One that the daemon has ended meanwhile is no matter."""
        for pid in self.workers() if workers is None else workers:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def wait_for(self, condition, what, patience=PATIENCE):
        """What the condition gives once it holds. It is asked ever more seldom, as each time costs the daemon something, too."""
        began = time.monotonic()
        while True:
            result = condition()
            if result:
                return result
            waited = time.monotonic() - began
            if waited > patience:
                raise AssertionError(f"waited {patience} s for {what}; log: {''.join(self.log[-10:])}")
            time.sleep(min(max(0.02, waited / 10), 0.1))

    def peak_memory(self):
        """The largest resident size that each of the processes ever had, in bytes."""
        return {pid: status_bytes(pid, "VmHWM") for pid in [self.process.pid, *self.workers()]}

    # ---- requests ----

    def connect(self):
        if self.tls is not None:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=self.tls)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def raw_status(self, path):
        try:
            connection = self.connect()
            connection.request("GET", path)
            status = connection.getresponse().status
            connection.close()
            return status
        except OSError:
            return 0

    def request(self, method, path, body=None, headers=None, check=True, chunked=False):
        headers = dict(headers or {})
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        elif isinstance(body, bytes):
            headers.setdefault("Content-Type", "application/octet-stream")
        connection = self.connect()
        try:
            connection.request(method, path, body, headers, encode_chunked=chunked)
            response = connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        finally:
            connection.close()
        if check:
            self.contract.check(method, path, answer)
        if answer.status < 300 and b'"stages"' in answer.body and path != "/openapi.json":
            self.count_again(answer)
        return answer

    def count_again(self, answer):
        """Counts the memory of each plan in an answer again, from its model; one that is gone meanwhile says nothing."""
        if answer.headers.get("Content-Type", "").split(";")[0] != "application/json":
            return
        for plan in recount.plans_in(answer.json):
            sha256 = plan["model"]["sha256"] or ""
            blob = blob_of(self.data, sha256)
            if plan["id"] not in self.recounted and sha256 and blob:
                recount.check(plan, recount.mapped(blob))
                self.recounted.add(plan["id"])

    def get(self, path, **headers):
        return self.request("GET", path, headers={key.replace("_", "-"): value for key, value in headers.items()})

    def upload(self, model, path="/v1/models", **headers):
        return self.request("POST", path, model, {key.replace("_", "-"): value for key, value in headers.items()})

    def finished(self, plan, patience=PATIENCE):
        """The plan when it is finished."""

        def look():
            answer = self.get(f"/v1/plans/{plan}")
            return answer if answer.json["state"] not in ("queued", "running") else None

        return self.wait_for(look, f"plan {plan}", patience).json

    def metric(self, name):
        """The value of a metric without labels, or the text of one series given with labels."""
        match = re.search(rf"^{re.escape(name)} (\S+)$", self.get("/metrics").text, re.MULTILINE)
        return float(match.group(1)) if match else 0.0


def state(pid):
    """The letter of the process's state, "Z" also when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def alive(pid):
    return state(pid) != "Z"


def processor_ticks(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])
    except OSError:
        return 0


def status_bytes(pid, key):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(key + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
