"""Allocations and calls of the store that fail on purpose in a daemon built with -Dfaults=true (server/faults/faults.h).

A Scenario is one daemon, told through a page of memory what fails, and what clients ask it meanwhile.
"""

import contextlib
import http.client
import json
import mmap
import os
import struct
import tempfile

import daemon as harness
import onnx_make
from cases import CLUSTER, MODELS
from daemon import Daemon, model_of_file

MEMORY, STORE, WORKER = 1, 2, 3
ONCE, FROM, NEW_SITE = 0, 1, 2
HONEST = {ONCE: {"OUT_OF_MEMORY"}, NEW_SITE: {"OUT_OF_MEMORY"}, FROM: {"OUT_OF_MEMORY", "WORKER_CRASHED"}}
NEVER = 2**62  # the number of a call that there is not
PAGE = 40 + 65536 * 8


def has_faults():
    with open(harness.PROGRAM, "rb") as file:
        return b"SHARDPLAN_FAULTS" in file.read()


class Faults:
    """struct faults of the daemon: kind, mode, at, seen, fired, and places that failed already."""

    def __init__(self, path):
        with open(path, "wb") as file:
            file.truncate(PAGE)
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), PAGE)

    def arm(self, kind, mode, at):
        self.page[8:40] = struct.pack("=4Q", mode, at, 0, 0)
        self.page[0:8] = struct.pack("=Q", kind)

    def seen(self):
        """How many calls there were so far."""
        return struct.unpack("=Q", self.page[24:32])[0]

    def disarm(self):
        """How many calls there were, and how many failed."""
        self.page[0:8] = bytes(8)
        return struct.unpack("=2Q", self.page[24:40])


class Scenario:
    """A daemon; answers are clean, and what was accepted is finished, whatever fails."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="shardpland-faults-")
        path = os.path.join(self.folder.name, "faults")
        self.faults = Faults(path)
        os.environ["SHARDPLAN_FAULTS"] = path
        self.daemon = Daemon("--workers", "1")
        self.number = 0
        self.answers = {}
        self.accepted = []  # plans of the round
        self.fired = 0  # calls that failed in the round, before it was armed again
        self.wrong = []  # what no client should see
        self.armed = None
        self.planned_at = {}  # by kind: so many calls a round has until its plan is there
        self.daemon.start()

    def close(self):
        self.daemon.close()
        os.environ.pop("SHARDPLAN_FAULTS", None)
        self.folder.cleanup()

    def ask(self, method, path, body=None, headers=None):
        """The answer, or None when the connection was closed without one."""
        try:
            answer = self.daemon.request(method, path, body, headers, check=False)
        except TimeoutError:
            self.wrong.append(f"{method} {path}: no answer when armed with {self.armed}")
            return None
        except (OSError, http.client.HTTPException):
            self.count("closed")
            return None
        if answer.status >= 300:
            problem = answer.json if answer.body.startswith(b"{") else {}
            self.count(f"{answer.status} {problem.get('code')}")
            # What is lacking for a moment is no damage (500).
            is_clean = answer.status == 503 and problem.get("status") == answer.status and problem.get("detail")
            if not is_clean:
                self.wrong.append(f"{method} {path.split('?')[0]} when armed with {self.armed}: {answer}")
            return answer
        self.count(answer.status)
        if "json" in answer.headers.get("Content-Type", ""):
            try:
                json.loads(answer.body)
            except ValueError as error:
                self.wrong.append(f"{method} {path.split('?')[0]}: {error} in {answer.body}")
                return None
        return answer

    def count(self, what):
        self.answers[what] = self.answers.get(what, 0) + 1

    def repeated(self, request):
        """The answer. In NEW_SITE one place fails at most, which the answer need not show: again, until no other one does."""
        while True:
            answer = request()
            if self.armed[1] != NEW_SITE:
                return answer
            fired = self.faults.disarm()[1]
            self.fired += fired
            self.arm()
            if not fired:
                return answer

    def arm(self):
        # The failure before may have left it without its store for a moment; refused at once, nothing would fail.
        self.daemon.wait_for(lambda: self.daemon.raw_status("/readyz") == 200, "readiness")
        self.faults.arm(*self.armed)

    def upload_new(self):
        self.number += 1
        return self.ask("POST", "/v1/models", onnx_make.encode(onnx_make.chain(8, name=f"fault{self.number}")))

    def submit_new(self, model):
        """Asks for a plan that nobody asked for before."""
        self.number += 1
        # When all fails before the plan is there nothing comes of waiting, and the answer cannot be given before it is over.
        kind, mode, at = self.armed
        is_futile = mode == FROM and at < self.planned_at.get(kind, 0)
        body = {"model": model, "cluster": CLUSTER, "options": {"seed": self.number}}
        answer = self.ask("POST", "/v1/plans", body, {"Prefer": f"wait={1 if is_futile else 3}"})
        if answer is not None and answer.status < 300:
            self.accepted.append(answer.json["id"])
        return answer

    def summary_of_old(self, plan):
        """As of an older version's plan: a worker makes its index, which is read and kept then."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.daemon.data, "plans", plan["id"], str(plan["attempts"]), "plan.sheet"))
        return self.ask("GET", f"/v1/plans/{plan['id']}/summary")

    def run(self):
        """Upload, plan, wait and download. Plans that were accepted are in `accepted`."""
        upload = self.repeated(self.upload_new)
        if upload is None or upload.status >= 300:
            return
        submitted = self.repeated(lambda: self.submit_new(upload.json["id"]))
        if submitted is None or submitted.status != 200:
            return
        kind = self.armed[0]
        self.planned_at[kind] = max(self.planned_at.get(kind, 0), self.faults.seen())
        plan = submitted.json["id"]
        self.read("", "/model", "/exports/perfetto", of=plan)
        self.repeated(lambda: self.summary_of_old(submitted.json))
        self.read("/graph", "/timeline?lanes=1", "/memory", "/nodes", "/tensors", f"/tensors?differs_from={plan}", of=plan)
        for path in ("/v1/summary?page_size=2", "/v1/plans?page_size=2", "/metrics"):  # the same work however many there are
            self.repeated(lambda path=path: self.ask("GET", path))

    def read(self, *paths, of):
        for path in paths:
            self.repeated(lambda path=path: self.ask("GET", f"/v1/plans/{of}{path}"))

    def round(self, kind, mode, at):
        """How many calls there were and how many failed; whatever was accepted is finished when nothing fails."""
        self.armed = kind, mode, at
        self.accepted, self.fired = [], 0
        self.arm()
        try:
            self.run()
        finally:
            seen, fired = self.faults.disarm()
        self.check_alive()
        for plan in self.accepted:
            try:
                done = self.daemon.finished(plan)
            except AssertionError as error:
                raise AssertionError(f"lost when armed with {self.armed}: {self.daemon.get('/v1/plans/' + plan).json}") from error
            if done["state"] != "succeeded":
                self.wrong.append(f"kind {kind}, mode {mode}, at {at}: {done}")
        return seen, self.fired + fired

    def check_alive(self):
        """The report of a sanitizer, if there is one, says where it died."""
        self.daemon.check_reports()
        if self.daemon.process.poll() is not None:
            raise AssertionError(f"the daemon died when armed with {self.armed}: {''.join(self.daemon.log[-10:])}")

    def check_stored(self):
        """Answers were clean; models that are listed have their files; after a sweep there are no others."""
        if self.wrong:
            raise AssertionError(f"{len(self.wrong)} answers: " + "\n".join(self.wrong[:20]))
        listed = set()
        path = "/v1/models?page_size=500"
        token = ""
        while token is not None:
            page = self.daemon.get(path + token).json
            listed |= {entry["id"] for entry in page["models"]}
            token = f"&page_token={page['next_page_token']}" if page.get("next_page_token") else None
        for name in listed:
            answer = self.daemon.request("GET", f"/v1/models/{name}/content", check=False)
            if answer.status != 200:
                raise AssertionError(answer)
        self.daemon.stop()  # looks for leaks, too
        self.daemon.start()
        blobs = {model_of_file(folder, name) for folder in os.listdir(os.path.join(self.daemon.data, "blobs"))
                 for name in os.listdir(os.path.join(self.daemon.data, "blobs", folder)) if not name.endswith((".json", ".sums"))}
        if blobs != listed:
            raise AssertionError(f"files without a model: {blobs - listed}; models without a file: {listed - blobs}")
        self.armed, self.accepted = (MEMORY, ONCE, NEVER), []
        self.run()
        if [self.daemon.finished(plan)["state"] for plan in self.accepted] != ["succeeded"]:
            raise AssertionError("the daemon does not work any more")

    def summary(self):
        return f"answers {dict(sorted(self.answers.items(), key=str))}"


class Work(Scenario):
    """A daemon whose workers lack memory. Each request is a job of one, and has the answer that it has with enough memory, or an
    honest one. A worker that cannot even say so ends, which may happen twice when memory stays short."""

    FORMATS = 21  # that plans are exported in, at least

    def __init__(self):
        super().__init__()
        self.armed = WORKER, ONCE, NEVER
        self.annotated = onnx_make.encode(onnx_make.annotated())
        with open(os.path.join(MODELS, "transformer_tiny.onnx"), "rb") as file:
            data = file.read()
        self.model = f"/v1/models/{self.daemon.upload(data).json['id']}"
        self.submission = {"model": self.model.rsplit("/", 1)[1], "cluster": dict(CLUSTER, count=4)}
        plan = self.daemon.request("POST", "/v1/plans", self.submission, {"Prefer": "wait=60"})
        self.plan = f"/v1/plans/{plan.json['id']}"
        self.expected = {}

    def jobs(self):
        """The requests by name: a function that asks, for (status, what the answer says). Those that a plan's export needs are
        the same for all formats, but for what makes the format: in every_job() all are there."""
        infer = {"devices": 2, "mode": "propagate"}
        notations = {"spec": "{devices=[2,2]0,1,2,3}", "to": "onnx", "shape": [4, 3], "holdings": True}
        layouts = {"shape": [1024, 1024], "dtype": "float32", "from": "{devices=[4,1]0,1,2,3}", "to": "{devices=[1,4]0,1,2,3}"}
        return {
            "upload": lambda: self.upload(),
            "inspect": lambda: self.job("POST", self.model + "/inspect", {"values": True, "dims": {}}),
            "check": lambda: self.job("POST", "/v1/check", self.annotated),
            "infer": lambda: self.job("POST", self.model + "/infer", infer),
            "completed model": lambda: self.job("POST", self.model + "/infer", infer, {"Accept": "application/octet-stream"}),
            "convert": lambda: self.job("POST", "/v1/convert", notations),
            "reshard": lambda: self.job("POST", "/v1/reshard", layouts),
            "plan": lambda: self.planned(self.submission),
            "simulation": lambda: self.job("GET", self.plan + "/exports/simulation"),
        }

    def every_job(self):
        sweep = {"model": self.submission["model"], "sweep": {"devices": [2, 1], "types": ["a100-sxm4-80gb"], "choose": "best"}}
        item = self.daemon.contract.document["paths"]["/v1/plans/{id}/exports/{format}"]
        formats = item["parameters"][1]["schema"]["enum"]
        assert len(formats) >= self.FORMATS, formats
        jobs = self.jobs()
        jobs["sweep"] = lambda: self.planned(sweep)
        jobs["text"] = lambda: self.job("POST", self.model + "/inspect", None, {"Accept": "text/plain"})
        jobs["device's model"] = lambda: self.job("GET", self.plan + "/devices/0/model")
        for name in formats:
            jobs[name] = lambda name=name: self.job("GET", f"{self.plan}/exports/{name}")
        return jobs

    def job(self, method, path, body=None, headers=None):
        answer = self.daemon.request(method, path, body, headers, check=False)
        self.count(answer.status)
        return answer.status, answer.body if answer.status < 300 else answer.json

    def upload(self):
        """Of a model that was not there before."""
        self.number += 1
        status, body = self.job("POST", "/v1/models", onnx_make.encode(onnx_make.chain(8, name=f"fault{self.number:09}")))
        if status >= 300:
            return status, body
        answer = json.loads(body)
        self.daemon.request("DELETE", f"/v1/models/{answer['id']}")
        return status, {key: answer[key] for key in answer if key not in ("id", "sha256", "uploaded_at", "graph", "name")}

    def planned(self, body):
        """As a new question. A plan that was accepted has an end; where memory stays short, when the test gives it back."""
        headers = {"Prefer": f"wait={1 if self.armed[1] == FROM else 60}", "Cache-Control": "no-cache"}
        answer = self.daemon.request("POST", "/v1/plans", body, headers, check=False)
        if answer.status not in (200, 202):
            return answer.status, answer.json
        if answer.status == 202:
            self.counts = self.faults.disarm()
        done = self.daemon.finished(answer.json["id"])
        self.count(f"plan {done['state']}")
        self.daemon.request("DELETE", f"/v1/plans/{answer.json['id']}")
        if done["state"] != "succeeded":
            return 503, done["error"]
        done["plan"]["search"]["seconds"] = 0
        done["plan"].pop("proof", None)  # undecided where memory is missing
        return 200, done["plan"]

    def round(self, kind, mode, at, name="plan"):
        """How many allocations there were in one job, and how many failed."""
        job = self.every_job()[name]
        if name not in self.expected:
            self.armed = WORKER, ONCE, NEVER
            self.expected[name] = job()
        self.armed = kind, mode, at
        self.counts = None
        self.faults.arm(kind, mode, at)
        try:
            status, said = job()
        finally:
            counts = self.faults.disarm()
        self.check_alive()
        if (status, said) != self.expected[name] and not (status >= 500 and said.get("code") in HONEST[mode]):
            self.wrong.append(f"{name} when armed with {self.armed}: {status} {str(said)[:600]}")
        return self.counts or counts

    def check_stored(self):
        """Every job has its answer again."""
        self.armed = WORKER, ONCE, NEVER
        for name, expected in self.expected.items():
            got = self.every_job()[name]()
            if got != expected:
                self.wrong.append(f"{name} afterwards: {got}")
        super().check_stored()


PLACES_LIMIT = 5000  # places in the program: more would mean that the count never ends
