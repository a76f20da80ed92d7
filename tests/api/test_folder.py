"""A data folder that turns read-only, goes away, is replaced or refuses a write: clear answers, nothing lost, no restart."""

import itertools
import os
import resource
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

from cases import CLUSTER, TINY, model
from daemon import BLOBS, Daemon, blob_of, model_of_file
from exposition import Exposition

ANEW = {"Cache-Control": "no-cache"}


def mount(*arguments):
    """Mounts, for root in a namespace that allows it."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise unittest.SkipTest(f"nothing can be mounted here: {done.stderr.strip()}")


class FolderCase(unittest.TestCase):
    options = ("--workers", "1")

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(*cls.options)
        cls.addClassCleanup(cls.daemon.close)
        cls.daemon.start()
        cls.numbers = itertools.count(1)  # of models that are new

    def setUp(self):
        self.known = self.daemon.upload(TINY).json["id"]
        self.done = self.submit().json["id"]
        self.daemon.finished(self.done)
        self.seen = len(self.daemon.log)

    def said(self, event):
        """Whether the log has had it since the test began."""
        return any(f'"{event}"' in line for line in self.daemon.log[self.seen:])

    def submit(self, name=None, **headers):
        return self.daemon.request("POST", "/v1/plans", {"model": name or self.known, "cluster": CLUSTER}, {**ANEW, **headers})

    def upload_new(self):
        return self.daemon.upload(model(next(self.numbers)))

    def path(self, *names):
        return os.path.join(self.daemon.data, *names)

    def usable(self):
        return Exposition(self.daemon.get("/metrics").text).value("shardplan_data_folder_usable")

    def check_refused(self, answer, *codes):
        self.assertEqual(answer.status, 503, answer)
        self.assertIn(answer.json["code"], codes, answer)
        self.assertIn("Retry-After", answer.headers)

    def check_not_ready(self, *codes):
        """The reason is said, and a restart is not asked for."""
        answer = self.daemon.wait_for(lambda: (a := self.daemon.get("/readyz")).status == 503 and a, "the end of readiness")
        self.assertIn(answer.json["code"], codes, answer)
        self.assertEqual(self.daemon.get("/livez").status, 200)
        return answer.json["detail"]

    def check_back(self, *plans):
        """Everything works in the same process, and what was accepted is finished."""
        self.daemon.wait_for(lambda: self.daemon.get("/v1/models").status == 200, "the store")
        self.daemon.wait_for(lambda: self.daemon.get("/readyz").status == 200, "readiness")
        self.assertEqual(self.usable(), 1)
        self.assertEqual(self.daemon.get(f"/v1/models/{self.known}/content").body, TINY)
        self.assertEqual(self.upload_new().status, 201)
        answer = self.submit()
        self.assertEqual(answer.status, 202, answer)
        for plan in (self.done, answer.json["id"], *plans):
            done = self.daemon.finished(plan)
            self.assertEqual(done["state"], "succeeded", done)
            self.assertEqual(self.daemon.get(f"/v1/plans/{plan}/model").status, 200)
        blobs = {model_of_file(folder, name) for folder in os.listdir(self.path("blobs"))
                 for name in os.listdir(self.path("blobs", folder))}
        listed = {entry["id"] for entry in self.daemon.get("/v1/models").json["models"]}
        there = {name for name in blobs if len(name) == 64}
        self.assertEqual(there if BLOBS == "folder" else there | listed, listed)  # with an object store the folder has copies

    def start_frozen(self):
        """A plan that a stopped worker has, and one that is queued."""
        workers = self.daemon.freeze()
        running, queued = self.submit().json["id"], self.submit().json["id"]
        self.daemon.wait_for(lambda: self.daemon.get(f"/v1/plans/{running}").json["state"] == "running", "a running plan")
        return workers, running, queued


class ReadOnly(FolderCase):
    """Mounted over itself, read-only: nothing can be made, renamed or removed, and what is open stays open."""

    def setUp(self):
        super().setUp()
        self.mounted = False
        self.addCleanup(self.make_writable)

    def make_read_only(self):
        mount("--bind", "-o", "ro", self.daemon.data, self.daemon.data)
        self.mounted = True

    def make_writable(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.daemon.data], check=True)
        self.mounted = False

    def test_read_only(self):
        workers, running, queued = self.start_frozen()
        self.make_read_only()
        self.check_refused(self.upload_new(), "DATA_FOLDER_READ_ONLY")
        self.check_refused(self.submit(), "DATA_FOLDER_READ_ONLY")
        self.assertIn("cannot be written", self.check_not_ready("DATA_FOLDER_READ_ONLY"))
        self.assertEqual(self.usable(), 0)
        self.daemon.thaw(workers)
        # The worker finds that it cannot write: the plan waits, as the queued one does.
        self.daemon.wait_for(lambda: self.said("plan queued again"), "the plan in the queue")
        self.assertEqual(self.daemon.get(f"/v1/models/{self.known}/content").body, TINY, "reading goes on")
        self.assertEqual(self.daemon.get(f"/v1/models/{self.known}").status, 200)
        self.assertEqual(self.daemon.get(f"/v1/plans/{self.done}/model").status, 200)
        self.assertEqual(self.daemon.get("/v1/plans").status, 200)
        for plan in (running, queued):
            self.assertEqual(self.daemon.get(f"/v1/plans/{plan}").json["state"], "queued")
        self.check_refused(self.daemon.request("POST", f"/v1/models/{self.known}/inspect", {"values": True}),
                           "DATA_FOLDER_READ_ONLY")
        self.make_writable()
        self.check_back(running, queued)
        self.assertEqual(self.daemon.get(f"/v1/plans/{running}").json["attempts"], 2, "tried again when it could be")

    def test_a_file_system_that_stopped_after_an_error(self):
        """Its files stay open, and it does not say that it is read-only. It has to be repaired, so the daemon is started again."""
        with tempfile.TemporaryDirectory(prefix="shardpland-ext4-") as folder:
            image, disk = os.path.join(folder, "image"), os.path.join(folder, "disk")
            os.mkdir(disk)
            with open(image, "wb") as file:
                file.truncate(200 << 20)
            if subprocess.run(["mkfs.ext4", "-q", image], check=False, capture_output=True).returncode != 0:
                self.skipTest("there is no ext4")
            mount("-o", "loop", image, disk)
            try:
                with Daemon("--workers", "1", "--drain", "1", data=os.path.join(disk, "data")) as daemon:
                    self.check_error(daemon, image, disk)
            finally:
                subprocess.run(["umount", "-l", disk], check=True)

    def check_error(self, daemon, image, disk):
        name = daemon.upload(TINY).json["id"]
        workers = daemon.freeze()
        body = {"model": name, "cluster": CLUSTER}
        plans = [daemon.request("POST", "/v1/plans", body, ANEW).json["id"] for _ in range(2)]
        daemon.wait_for(lambda: daemon.get(f"/v1/plans/{plans[0]}").json["state"] == "running", "a running plan")
        mount("-o", "remount,abort", disk)
        daemon.thaw(workers)
        daemon.wait_for(lambda: any("plan queued again" in line for line in daemon.log), "the plan in the queue")
        self.check_refused(daemon.upload(model(1)), "DATA_FOLDER_READ_ONLY")
        self.check_refused(daemon.request("POST", "/v1/plans", body), "DATA_FOLDER_READ_ONLY")
        self.assertEqual(daemon.get("/readyz").status, 503)
        self.assertEqual(daemon.get("/livez").status, 200)
        self.assertEqual(daemon.get(f"/v1/models/{name}/content").body, TINY, "reading goes on")
        daemon.stop()
        subprocess.run(["umount", disk], check=True)
        subprocess.run(["e2fsck", "-fy", image], check=False, capture_output=True)
        mount("-o", "loop", image, disk)
        daemon.start()
        for plan in plans:
            self.assertEqual(daemon.finished(plan)["state"], "succeeded")

    def test_read_only_in_the_middle_of_an_upload(self):
        connection = self.daemon.connect()
        data = model(901)
        connection.putrequest("POST", "/v1/models")
        connection.putheader("Content-Length", str(len(data)))
        connection.putheader("Content-Type", "application/octet-stream")
        connection.endheaders(data[:100])
        own = self.path("tmp")
        self.daemon.wait_for(lambda: any(os.listdir(os.path.join(own, name)) for name in os.listdir(own)), "the upload")
        self.make_read_only()
        connection.send(data[100:])
        answer = connection.getresponse()
        self.assertEqual(answer.status, 503)
        self.assertIn(b"DATA_FOLDER_READ_ONLY", answer.read())
        connection.close()
        self.make_writable()
        self.check_back()


class Away(FolderCase):
    def hide(self, *names):
        """Renames it away; returns how to bring it back."""
        path, aside = self.path(*names), self.path(*names) + ".aside"
        os.rename(path, aside)

        def bring_back():
            if os.path.exists(aside):
                self.assertFalse(os.path.exists(path), "something was made in its place")
                os.rename(aside, path)

        self.addCleanup(bring_back)
        return bring_back

    def check_away(self):
        codes = "DATA_FOLDER_AWAY", "STORE_AWAY"
        self.check_not_ready(*codes)
        self.assertEqual(self.usable(), 0)
        self.check_refused(self.upload_new(), *codes)
        self.check_refused(self.submit(), *codes)
        for path in (f"/v1/models/{self.known}/content", f"/v1/models/{self.known}", f"/v1/plans/{self.done}/model"):
            answer = self.daemon.get(path)
            self.check_refused(answer, *codes)

    def test_the_folder(self):
        workers, running, queued = self.start_frozen()
        bring_back = self.hide()
        self.check_away()
        self.daemon.thaw(workers)
        self.daemon.wait_for(lambda: self.daemon.metric("shardplan_workers_busy") == 0, "the end of the job")
        self.check_refused(self.daemon.get(f"/v1/plans/{self.done}/timeline"), "DATA_FOLDER_AWAY", "STORE_AWAY", "STORE_UNAVAILABLE")
        bring_back()
        self.check_back(running, queued)

    def test_a_part_of_the_folder(self):
        needed = {"blobs": f"/v1/models/{self.known}/content", "plans": f"/v1/plans/{self.done}/model",
                  "tmp": f"/v1/plans/{self.done}/timeline"}
        for name, path in needed.items():
            with self.subTest(name):
                bring_back = self.hide(name)
                self.check_refused(self.daemon.get(path), "DATA_FOLDER_AWAY")
                self.assertIn(name, self.check_not_ready("DATA_FOLDER_AWAY"))
                self.check_refused(self.upload_new(), "DATA_FOLDER_AWAY")
                self.check_refused(self.submit(), "DATA_FOLDER_AWAY")
                bring_back()
                self.check_back()

    def test_something_else_is_mounted_there(self):
        """An empty folder shows, as under a volume that was unmounted."""
        workers, running, queued = self.start_frozen()
        mount("-t", "tmpfs", "none", self.daemon.data)
        try:
            self.check_away()
            self.daemon.thaw(workers)
            self.daemon.wait_for(lambda: self.daemon.metric("shardplan_workers_busy") == 0, "the end of the job")
            self.assertEqual(os.listdir(self.daemon.data), [], "nothing was made in a folder that is not the daemon's")
        finally:
            subprocess.run(["umount", "-l", self.daemon.data], check=True)
        self.check_back(running, queued)

    def test_another_folder_in_its_place(self):
        """A copy, as after a volume was mounted from another disk: other files of the same names. What the stopped worker
        has open is in the old one."""
        workers, *plans = self.start_frozen()
        self.hide()
        self.check_away()
        shutil.copytree(self.daemon.data + ".aside", self.daemon.data + ".copy")
        os.rename(self.daemon.data + ".copy", self.daemon.data)
        self.addCleanup(shutil.rmtree, self.daemon.data + ".aside")
        self.daemon.thaw(workers)
        self.check_back(*plans)
        self.assertTrue(self.said("another data folder is in the place of the old one"))
        self.daemon.stop()  # what is written was written into the new one
        self.daemon.start()
        self.check_back(*plans)

    def test_another_folder_that_is_in_use(self):
        with Daemon(*self.options) as other:
            bring_back = self.hide()
            os.symlink(other.data, self.daemon.data)
            if self.daemon.store:  # all daemons of PostgreSQL share a folder
                self.daemon.wait_for(lambda: self.daemon.get("/readyz").status == 200, "readiness")
            else:
                self.check_not_ready("DATA_FOLDER_IN_USE")
                self.check_refused(self.upload_new(), "DATA_FOLDER_IN_USE")
            os.unlink(self.daemon.data)
            bring_back()
        self.check_back()

    def test_a_blob_that_is_gone(self):
        """The folder is as it should be: what needs the blob says that it is damaged, everything else works."""
        name = self.daemon.upload(model(900)).json["id"]
        shutil.rmtree(self.path("blobs", name[:2]))
        if BLOBS == "s3":  # which has it
            self.assertEqual(self.daemon.get(f"/v1/models/{name}/content").body, model(900))
            self.assertEqual(self.daemon.finished(self.submit(name).json["id"])["state"], "succeeded")
            return
        for path, code in ((f"/v1/models/{name}/content", "MODEL_DAMAGED"), (f"/v1/models/{name}", "MODEL_DAMAGED")):
            answer = self.daemon.get(path)
            self.assertEqual((answer.status, answer.json["code"]), (500, code), answer)
        done = self.daemon.finished(self.submit(name).json["id"])
        self.assertEqual((done["state"], done["error"]["code"], done["attempts"]), ("failed", "MODEL_DAMAGED", 1), done)
        answer = self.submit(name, Prefer="wait=50")
        self.assertEqual(answer.json["code"], "MODEL_DAMAGED", answer)
        self.assertEqual(self.daemon.get("/readyz").status, 200)
        for row in self.daemon.get(f"/v1/plans?model={name}").json["plans"]:
            self.assertEqual(self.daemon.request("DELETE", f"/v1/plans/{row['id']}").status, 204)
        self.assertEqual(self.daemon.request("DELETE", f"/v1/models/{name}").status, 204)
        self.assertEqual(self.daemon.upload(model(900)).status, 201)
        self.check_back()

    def test_the_same_model_sent_again_repairs_its_file(self):
        """One that is gone or was cut off, also where plans refer to the model."""
        data = model(901)
        name = self.daemon.upload(data).json["id"]
        plan = self.submit(name, Prefer="wait=50").json["id"]

        def path():
            return blob_of(self.daemon.data, name)

        def cut():
            os.truncate(path(), len(data) - 1)

        for damage in (lambda: os.unlink(path()), cut, lambda: shutil.rmtree(self.path("blobs", name[:2]))):
            damage()
            self.assertEqual(self.daemon.upload(data).status, 200)
            self.assertEqual(self.daemon.get(f"/v1/models/{name}/content").body, data)
            self.assertEqual(self.daemon.get(f"/v1/models/{name}").status, 200)
        self.assertEqual(self.daemon.get(f"/v1/plans/{plan}/model").status, 200)
        self.assertEqual(self.daemon.request("DELETE", f"/v1/plans/{plan}").status, 204)
        self.assertEqual(self.daemon.request("DELETE", f"/v1/models/{name}").status, 204)
        self.check_back()


class Database(FolderCase):
    """The file of SQLite."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if cls.daemon.store:
            raise unittest.SkipTest("the database is not a file of the data folder")
        cls.database = os.path.join(cls.daemon.data, "shardplan.db")

    def check_away(self, code):
        self.check_not_ready("STORE_UNAVAILABLE")
        self.check_refused(self.submit(), code)
        self.check_refused(self.upload_new(), "STORE_UNAVAILABLE")
        for path in ("/v1/models", f"/v1/models/{self.known}", "/v1/plans"):
            answer = self.daemon.get(path)
            self.check_refused(answer, "STORE_UNAVAILABLE")

    def test_gone_and_back(self):
        workers, running, queued = self.start_frozen()
        os.rename(self.database, self.database + ".aside")
        self.check_away("STORE_AWAY")
        self.daemon.thaw(workers)
        self.daemon.wait_for(lambda: self.daemon.metric("shardplan_workers_busy") == 0, "the end of the job")
        self.assertFalse(os.path.exists(self.database))
        os.rename(self.database + ".aside", self.database)
        self.check_back(running, queued)

    def test_a_log_that_is_removed(self):
        """Nothing of it is lost: the daemon still has it."""
        plans = [self.submit().json["id"] for _ in range(3)]
        os.unlink(self.database + "-wal")
        self.check_back(*plans)
        self.daemon.kill()
        self.daemon.start()
        self.check_back(*plans)

    def test_an_older_one(self):
        """A backup that is put back while the daemon runs, beside the log of the newer one."""
        backup = self.path("backup")
        workers = self.daemon.freeze()
        running = self.submit().json["id"]
        self.daemon.wait_for(lambda: self.daemon.get(f"/v1/plans/{running}").json["state"] == "running", "a running plan")
        with sqlite3.connect(self.database) as source, sqlite3.connect(backup) as target:
            source.backup(target)
        source.close()
        target.close()
        self.daemon.thaw(workers)
        self.assertEqual(self.daemon.finished(running)["attempts"], 1)
        later = self.submit().json["id"]
        self.daemon.finished(later)
        name = self.upload_new().json["id"]
        os.rename(backup, self.database)
        self.assertEqual(self.daemon.get(f"/v1/models/{name}").status, 404)
        self.assertEqual(self.daemon.get(f"/v1/plans/{later}").status, 404, "also what was kept in memory")
        self.assertEqual(self.upload_new().status, 201)
        self.assertEqual(self.daemon.finished(self.submit().json["id"])["state"], "succeeded")
        self.assertEqual(self.daemon.finished(running)["attempts"], 2, "nobody runs it any more: it is queued again")
        self.daemon.stop()
        self.daemon.start()  # which sweeps, and checks the integrity
        self.check_back()

    def test_a_damaged_one(self):
        os.rename(self.database, self.database + ".aside")
        with open(self.database, "wb") as file:
            file.write(b"This is not a database, by any means." * 200)
        self.check_not_ready("STORE_UNAVAILABLE")
        self.assertEqual(self.submit().status, 503)
        os.rename(self.database + ".aside", self.database)
        self.check_back()


class FileSize(FolderCase):
    """Writes that fail in the middle, as on a disk with errors: EFBIG, by a limit of the process that is running."""

    def limit(self, pid, size):
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, before[1]))
        self.addCleanup(lambda: os.path.exists(f"/proc/{pid}") and resource.prlimit(pid, resource.RLIMIT_FSIZE, before))
        return lambda: os.path.exists(f"/proc/{pid}") and resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

    def no_parts(self):
        found = [name for _, _, names in os.walk(self.path("plans")) for name in names if name.endswith(".part")]
        self.assertEqual(found, [])

    def test_the_daemon(self):
        big = model(4000)
        self.assertGreater(len(big), 100000)
        back = self.limit(self.daemon.process.pid, 65536)
        answer = self.daemon.upload(big)
        self.assertEqual((answer.status, answer.json["code"]), (507, "FILE_TOO_LARGE"), answer)
        refused = None
        if not self.daemon.store:  # the log of SQLite grows until it cannot
            for _ in range(60):
                answer = self.submit()
                if answer.status != 202:
                    refused = answer
                    break
            self.check_refused(refused, "STORE_ERROR")
            self.check_not_ready("STORE_UNAVAILABLE")
        self.assertEqual(self.daemon.get("/livez").status, 200)
        self.assertEqual(self.daemon.get(f"/v1/models/{self.known}/content").body, TINY)
        back()
        accepted = [row["id"] for row in self.daemon.get("/v1/plans?page_size=100").json["plans"]]
        self.check_back(*accepted)
        self.assertEqual(self.daemon.upload(big).status, 201)

    def limit_workers(self):
        """Those that are there now: each has one job before another takes its place, or more."""
        workers = self.daemon.freeze()
        backs = [self.limit(pid, 256) for pid in workers]
        self.daemon.thaw(workers)
        return lambda: [back() for back in backs]

    def test_the_workers(self):
        """An honest failure, and no half of a file."""
        name = self.daemon.upload(model(200)).json["id"]
        back = self.limit_workers()
        done = self.daemon.finished(self.submit(name).json["id"])
        self.assertEqual((done["state"], done.get("error", {}).get("code")), ("failed", "FILE_TOO_LARGE"), done)
        back()
        self.no_parts()
        for ask in (lambda: self.daemon.upload(model(201)),
                    lambda: self.daemon.request("POST", f"/v1/models/{name}/inspect", {"values": True})):
            back = self.limit_workers()
            answer = ask()
            self.assertEqual((answer.status, answer.json.get("code")), (507, "FILE_TOO_LARGE"), answer)
            back()
        self.check_back()
        self.assertEqual(self.daemon.finished(self.submit(name).json["id"])["state"], "succeeded")
        died = {labels["reason"]: value for labels, value
                in Exposition(self.daemon.get("/metrics").text).series("shardplan_workers_ended_total")}
        self.assertEqual(died.get("crashed", 0), 0, died)
