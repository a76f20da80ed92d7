"""Every allocation of the daemon, and every call of its store, fails once: answers stay clean, nothing is lost.

    tests/api/run             one failure at every place in the program that allocates, and at each call of the store
    python3 test_faults.py    at every single allocation too, once and in rows (an hour)

Needs a daemon that is built with -Dfaults=true (server/faults/faults.h).
"""

import http.client
import json
import mmap
import os
import struct
import tempfile
import unittest

import daemon as harness
from cases import CLUSTER, model
from daemon import Daemon

MEMORY, STORE = 1, 2
ONCE, FROM, NEW_SITE = 0, 1, 2
LIMIT = 5000  # places in the program: more would mean that the count never ends


class Faults:
    """struct faults of the daemon: kind, mode, at, seen, fired."""

    def __init__(self, path):
        with open(path, "wb") as file:
            file.write(bytes(4096))
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 4096)

    def arm(self, kind, mode, at):
        self.page[8:40] = struct.pack("=4Q", mode, at, 0, 0)
        self.page[0:8] = struct.pack("=Q", kind)

    def disarm(self):
        """How many calls there were, and how many failed."""
        self.page[0:8] = bytes(8)
        return struct.unpack("=2Q", self.page[24:40])


def has_faults():
    with open(harness.PROGRAM, "rb") as file:
        return b"SHARDPLAN_FAULTS" in file.read()


class Scenario:
    """Upload, plan, wait and download, while something fails."""

    def __init__(self, daemon, faults):
        self.daemon = daemon
        self.faults = faults
        self.number = 0
        self.answers = {}
        self.wrong = []  # what no client should see
        self.armed = None

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
        self.count(answer.status)
        if answer.status >= 300:
            problem = answer.json if answer.body.startswith(b"{") else {}
            is_clean = answer.status >= 500 and problem.get("status") == answer.status and problem.get("detail")
            if not is_clean:
                self.wrong.append(f"{method} {path.split('?')[0]}: {answer}")
        elif "json" in answer.headers.get("Content-Type", ""):
            try:
                json.loads(answer.body)
            except ValueError as error:
                self.wrong.append(f"{method} {path.split('?')[0]}: {error} in {answer.body}")
                return None
        return answer

    def count(self, what):
        self.answers[what] = self.answers.get(what, 0) + 1

    def run(self):
        """The id of the plan that was accepted, or None."""
        self.number += 1
        upload = self.ask("POST", "/v1/models", model(self.number))
        if upload is None or upload.status >= 300:
            return None
        body = {"model": upload.json["id"], "cluster": CLUSTER, "options": {"seed": self.number}}
        submitted = self.ask("POST", "/v1/plans", body, {"Prefer": "wait=3"})
        if submitted is None or submitted.status >= 300:
            return None
        plan = submitted.json["id"]
        if submitted.status == 200:
            self.ask("GET", f"/v1/plans/{plan}")
            self.ask("GET", f"/v1/plans/{plan}/model")
            self.ask("GET", f"/v1/plans/{plan}/exports/perfetto")
            self.ask("GET", "/v1/plans")
            self.ask("GET", "/metrics")
        return plan

    def round(self, kind, mode, at):
        """How many calls there were and how many failed; whatever was accepted is finished when nothing fails."""
        self.armed = kind, mode, at
        self.faults.arm(kind, mode, at)
        try:
            plan = self.run()
        finally:
            seen, fired = self.faults.disarm()
        if self.daemon.process.poll() is not None:  # the report of a sanitizer, if there is one, says where
            self.daemon.check_reports()
            raise AssertionError(f"the daemon died: {''.join(self.daemon.log[-10:])}")
        if plan is not None:
            done = self.daemon.finished(plan)
            if done["state"] != "succeeded":
                self.wrong.append(f"kind {kind}, mode {mode}, at {at}: {done}")
        return seen, fired

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
        blobs = {folder + name for folder in os.listdir(os.path.join(self.daemon.data, "blobs"))
                 for name in os.listdir(os.path.join(self.daemon.data, "blobs", folder)) if not name.endswith(".json")}
        if blobs != listed:
            raise AssertionError(f"files without a model: {blobs - listed}; models without a file: {listed - blobs}")
        self.faults.disarm()
        plan = self.run()
        if plan is None or self.daemon.finished(plan)["state"] != "succeeded":
            raise AssertionError("the daemon does not work any more")


@unittest.skipUnless(has_faults(), "the daemon is built without faults")
class FaultsOfTheDaemon(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="shardpland-faults-")
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "faults")
        self.faults = Faults(path)
        os.environ["SHARDPLAN_FAULTS"] = path
        self.addCleanup(os.environ.pop, "SHARDPLAN_FAULTS")
        self.daemon = Daemon("--workers", "1")
        self.addCleanup(self.daemon.close)
        self.daemon.start()
        self.scenario = Scenario(self.daemon, self.faults)
        self.scenario.round(0, ONCE, 0)

    def say(self, text):
        print(f"# {text}; answers {dict(sorted(self.scenario.answers.items(), key=str))}", flush=True)

    def test_each_place_that_allocates(self):
        places = quiet = 0
        while quiet < 3:  # what runs by itself, every second or so, is found a little later
            _, fired = self.scenario.round(MEMORY, NEW_SITE, 0)
            places += fired
            quiet = 0 if fired else quiet + 1
            self.assertLess(places, LIMIT)
        self.assertGreater(places, 100)
        self.scenario.check_stored()
        self.say(f"{places} places that allocate failed once each")

    def test_no_memory_for_a_while(self):
        """From one allocation on, all fail until the request is over."""
        seen, _ = self.scenario.round(MEMORY, ONCE, 2**62)
        failed = 0
        for at in range(1, seen + 1, max(1, seen // 12)):
            failed += self.scenario.round(MEMORY, FROM, at)[1]
        self.assertGreater(failed, 40)
        self.scenario.check_stored()
        self.say(f"{failed} allocations failed in rows, of {seen} in a round")

    def test_each_call_of_the_store(self):
        seen, _ = self.scenario.round(STORE, ONCE, 2**62)
        self.assertGreater(seen, 10)
        failed = 0
        for mode in (ONCE, FROM):
            for at in range(1, seen + 1):
                failed += self.scenario.round(STORE, mode, at)[1]
        self.assertGreater(failed, seen)
        self.scenario.check_stored()
        self.say(f"{failed} calls of the store failed, of {seen} in a round")

    @unittest.skipUnless(__name__ == "__main__", "takes an hour")
    def test_every_allocation(self):
        seen, _ = self.scenario.round(MEMORY, ONCE, 2**62)
        failed = 0
        for mode in (ONCE, FROM):
            for at in range(1, seen + 1):
                failed += self.scenario.round(MEMORY, mode, at)[1]
        self.scenario.check_stored()
        self.say(f"{failed} allocations failed, of {seen} in a round")


if __name__ == "__main__":
    unittest.main()
