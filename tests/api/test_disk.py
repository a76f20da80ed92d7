"""A disk that is full, a clock that jumps: clear answers, nothing lost, and no restart."""

import datetime
import errno
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

import daemon as harness
from cases import CLUSTER, TINY, model
from daemon import Daemon, model_of_file
from test_sandbox import is_sanitized

DISK = 112 << 20  # more than a daemon wants to be ready (SPD_MIN_FREE_BYTES), small enough to fill quickly
PAGE = 4096
CLOCK = os.environ.get("CLOCK_SHIM", os.path.join(harness.TOP, "build/sanitized/tests/api/libclock_shim.so"))
DAY = 86400


class SmallDisk:
    """A tmpfs, for root in a mount namespace that allows it."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="shardpland-disk-")
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", self.path],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            os.rmdir(self.path)
            raise unittest.SkipTest("only root can mount a small disk")
        self.filler = os.path.join(self.path, "filler")

    def fill(self, pages):
        """Leaves so many free pages."""
        with open(self.filler, "wb") as file:
            while True:
                free = os.statvfs(self.path)
                try:
                    os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail - pages) * free.f_bsize)
                    return
                except OSError as error:  # a plan that runs was faster
                    if error.errno != errno.ENOSPC:
                        raise
                    os.ftruncate(file.fileno(), 0)

    def free(self):
        if os.path.exists(self.filler):
            os.unlink(self.filler)

    def close(self):
        subprocess.run(["umount", self.path], check=True)
        shutil.rmtree(self.path)


class Full(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.disk = SmallDisk()
        cls.addClassCleanup(cls.disk.close)
        cls.daemon = Daemon("--workers", "1", data=os.path.join(cls.disk.path, "data"))
        cls.addClassCleanup(cls.daemon.close)
        cls.daemon.start()
        cls.known = cls.daemon.upload(TINY).json["id"]

    def tearDown(self):
        self.disk.free()

    def submit(self, name, seed):
        return self.daemon.request(
            "POST", "/v1/plans", {"model": name, "cluster": CLUSTER, "options": {"seed": seed}})

    def listed(self):
        return {entry["id"] for entry in self.daemon.get("/v1/models?page_size=500").json["models"]}

    def left_behind(self):
        """Models that have files and are not listed."""
        top = os.path.join(self.daemon.data, "blobs")
        blobs = [model_of_file(folder, name) for folder in os.listdir(top) for name in os.listdir(os.path.join(top, folder))
                 if not name.endswith((".json", ".sums"))]
        self.assertEqual(len(blobs), len(set(blobs)))
        return set(blobs) - self.listed()

    def check_stored(self, leaves=False):
        """What is listed is there, and what is there is listed; or it is left for a while, where the store could not even be
        told that an upload has failed."""
        for name in self.listed():
            self.assertEqual(self.daemon.get(f"/v1/models/{name}/content").status, 200)
        if not leaves:
            self.assertEqual(self.left_behind(), set())

    def test_full(self):
        self.disk.fill(0)
        answer = self.daemon.upload(model(1))
        self.assertEqual((answer.status, answer.json["code"]), (507, "DISK_FULL"), answer)
        self.assertEqual(self.daemon.get(f"/v1/models/{self.known}/content").body, TINY, "reading goes on")
        self.assertEqual(self.daemon.get("/readyz").status, 503)
        self.assertEqual(self.daemon.get("/livez").status, 200)
        self.disk.free()
        self.assertEqual(self.daemon.get("/readyz").status, 200)
        self.assertEqual(self.daemon.upload(model(1)).status, 201)
        self.check_stored()

    def test_full_at_each_write(self):
        """A few pages more each time: another write is the first that fails."""
        statuses = set()
        plans = []
        for pages in range(24):
            self.disk.fill(pages)
            answer = self.daemon.upload(model(100 + pages))
            statuses.add(answer.status)
            self.assertIn(answer.status, (201, 503, 507), answer)
            answer = self.submit(self.known, pages)
            statuses.add(answer.status)
            self.assertIn(answer.status, (200, 202, 503, 507), answer)
            if answer.status < 300:
                plans.append(answer.json["id"])
            self.disk.free()
            self.check_stored(leaves=True)
        for plan in plans:
            done = self.daemon.finished(plan)
            # A plan whose results did not fit has failed for that; what the store could not be told is tried again.
            self.assertTrue(done["state"] == "succeeded" or done["error"]["code"] == "DISK_FULL", done)
        self.assertIn(507, statuses)
        self.assertTrue(plans)
        self.assertEqual(self.daemon.upload(model(200)).status, 201)
        done = self.daemon.finished(self.submit(self.known, 1000).json["id"])
        self.assertEqual(done["state"], "succeeded", done)
        self.daemon.wait_for(lambda: not self.left_behind(), "files of uploads whose failure the store could not be told")
        self.check_stored()


@unittest.skipIf(is_sanitized(), "the sanitizers' run-time must be loaded first")
class Clock(unittest.TestCase):
    """A library that is loaded first shifts CLOCK_REALTIME by the seconds in a file."""

    def setUp(self):
        if not os.path.exists(CLOCK):
            self.skipTest(f"{CLOCK} is not built")
        folder = tempfile.TemporaryDirectory(prefix="shardpland-clock-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "shift")
        self.shift(0)
        for name, value in (("LD_PRELOAD", CLOCK), ("CLOCK_SHIFT", self.path)):
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)

    def shift(self, seconds):
        with open(self.path, "r+b" if os.path.exists(self.path) else "wb") as file:
            file.write(struct.pack("=q", seconds))

    def test_jumps(self):
        for days in (1, -1):
            with self.subTest(days=days), Daemon(
                "--workers", "1", "--keep-plans", "40d", store=""  # whose clock is the daemon's
            ) as daemon:
                self.shift(0)
                name = daemon.upload(TINY).json["id"]
                first = daemon.request("POST", "/v1/plans", {"model": name, "cluster": CLUSTER}).json["id"]
                daemon.finished(first)
                workers = daemon.freeze()
                body = {"model": name, "cluster": CLUSTER, "options": {"seed": 1}}
                plan = daemon.request("POST", "/v1/plans", body, {"Idempotency-Key": "k"}).json["id"]
                self.shift(days * DAY)
                self.assertEqual(daemon.get("/livez").status, 200)
                self.assertEqual(daemon.get("/readyz").status, 200)
                daemon.thaw(workers)
                done = daemon.finished(plan)
                self.assertEqual((done["state"], done["attempts"]), ("succeeded", 1), done)
                self.assertEqual(daemon.get(f"/v1/plans/{first}").status, 200, "nothing expires")
                again = daemon.request("POST", "/v1/plans", body, {"Idempotency-Key": "k2"})
                self.assertIn(again.status, (200, 202), again)
                finished = datetime.datetime.fromisoformat(done["finished_at"].replace("Z", "+00:00"))
                away = abs((finished - datetime.datetime.now(datetime.timezone.utc)).total_seconds())
                self.assertLess(abs(away - DAY), 120, "the clock did jump in the daemon")
                self.assertEqual(daemon.upload(model(1)).status, 201)
