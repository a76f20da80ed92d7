"""What is stored is read in the background: damage that no request meets is found, told and mended, at no more than the rate
that was asked for, each file once while it is fresh, whatever else fails meanwhile."""

import glob
import json
import os
import random
import tempfile
import time
import unittest

from cases import model
from daemon import BLOBS, STORE, Daemon
from faulty import MEMORY, NEW_SITE, Faults, has_faults
import onnx_make
import test_model_files
from test_integrity import Stored, damage

IS_COPY = BLOBS == "s3"
LONG_AGO = 3 * 86400  # seconds


class Scrubbed(Stored):
    """A daemon that begins its round when a test starts it again."""

    options = ("--workers", "2", "--scrub-rate", "64M")

    @classmethod
    def setUpClass(cls):
        """Each test has one of its own."""

    @classmethod
    def tearDownClass(cls):
        pass

    def setUp(self):
        self.daemon = Daemon(*self.options)
        self.daemon.start()

    def tearDown(self):
        self.daemon.close()

    def age(self):
        """Everything was written, and read last, long ago."""
        at = time.time() - LONG_AGO
        for top in ("blobs", "plans"):
            for path in glob.glob(self.path(top, "**"), recursive=True):
                if os.path.isfile(path):
                    os.utime(path, (at, at))

    def again(self, *options):
        """Starts it again, and waits for its round, if there are no options."""
        self.daemon.stop()
        kept, self.daemon.options = self.daemon.options, [*self.daemon.options, *options]
        self.daemon.start()
        self.daemon.options = kept
        if not options:
            self.round()

    def round(self):
        self.daemon.wait_for(lambda: self.daemon.metric("shardplan_scrub_round_time_seconds") > 0, "a round")
        self.daemon.wait_for(lambda: self.events("stored files read"), "its line")
        return self.events("stored files read")[-1]

    def events(self, name):
        found = [json.loads(line) for line in list(self.daemon.log) if name in line]
        return [event for event in found if event["event"] == name]

    def read(self):
        return int(self.daemon.metric("shardplan_scrub_bytes_total"))


class Unasked(Scrubbed):
    def test_bits_that_nobody_reads(self):
        rng = random.Random(27)
        kept, data = model(600), model(601)
        self.store(kept)
        digest = self.store(data)
        plans = [self.finished(kept) for _ in range(2)]
        damage(self.blob(digest), "flipped", rng)
        damage(self.result(plans[0], "annotated.splice"), "flipped", rng)
        self.age()
        self.again()
        told = sorted((event["what"], event["id"], event["how"]) for event in self.events("stored file wrong"))
        self.assertEqual(told, sorted([("copy" if IS_COPY else "model", digest, "changed"),
                                       ("copy" if IS_COPY else "result", plans[0], "changed")]))
        self.assertEqual(self.daemon.metric("shardplan_scrub_wrong_total"), 2)
        self.assertEqual(self.wrong(), 2)
        self.assertEqual(self.events("stored files read")[-1]["wrong"], 2)
        if IS_COPY:  # they are fetched again
            self.assertEqual(self.content(digest, 200).body, data)
            self.ask("GET", f"/v1/plans/{plans[0]}/model")
        else:
            self.problem("GET", f"/v1/models/{digest}/content", None, 500, "MODEL_DAMAGED")
            lost = self.ask("GET", f"/v1/plans/{plans[0]}").json
            self.assertEqual((lost["state"], lost["has_result"], lost["error"]["code"]), ("failed", False, "PLAN_DAMAGED"))
            self.assertEqual(self.store(data), digest)
            self.assertEqual(self.content(digest, 200).body, data)
        self.assertEqual(self.ask("GET", f"/v1/plans/{plans[1]}").json["state"], "succeeded")

    def test_a_file_beside_a_model(self):
        data = test_model_files.weights()
        digest = self.store(test_model_files.layered())
        name = test_model_files.digest(data)

        def place():
            upload = self.ask("POST", "/v1/uploads", {"bytes": len(data), "sha256": name}, 201).json["id"]
            self.ask("PATCH", f"/v1/uploads/{upload}", data, 200, Upload_Offset="0")
            self.ask("POST", f"/v1/models/{digest}/files", {"location": "weights.bin", "upload": upload}, (200, 201))

        place()
        damage(self.blob(name), "cut", random.Random(3))
        self.age()
        self.again()
        told = [(event["what"], event["id"], event["how"]) for event in self.events("stored file wrong")]
        self.assertEqual(told, [("copy" if IS_COPY else "model", name, "changed")])
        place()
        if not IS_COPY:
            with open(self.blob(name), "rb") as file:
                self.assertEqual(file.read(), data)

    def test_fresh_files_are_left_alone(self):
        data = model(602)
        digest = self.store(data)
        plan = self.finished(data)
        self.age()
        self.again()
        first = self.read()
        size = os.path.getsize
        names = ("annotated.splice", "plan.json", "plan.txt") + (("plan.sheet",) if IS_COPY else ())
        paths = [self.blob(digest), *(self.result(plan, name) for name in names)]
        self.assertEqual(first, sum(size(path) for path in paths if os.path.exists(path)))
        self.again()  # the times of the sums outlive the daemon
        self.assertEqual(self.read(), 0)
        os.unlink(self.blob(digest, ".sums"))  # nothing says that it was read
        self.again()
        self.assertEqual(self.read(), size(paths[0]))
        self.assertTrue(self.blob(digest, ".sums"))
        self.assertEqual(self.wrong(), 0)

    def test_not_wanted(self):
        digest = self.store(model(603))
        damage(self.blob(digest), "flipped", random.Random(1))
        self.age()
        self.again("--scrub-rate", "0")
        time.sleep(0.5)
        self.assertNotIn("shardplan_scrub_", self.daemon.get("/metrics").text)
        self.assertEqual(self.wrong(), 0)


class Paced(Scrubbed):
    RATE = 1 << 20

    def test_rate(self):
        self.store(onnx_make.encode(onnx_make.mlp(1, 1100, weights="pattern")))  # some 4.8 MB
        self.age()
        before = time.monotonic()
        self.again("--scrub-rate", "1M")
        total, looks = os.path.getsize(glob.glob(self.path("blobs", "*", "*"))[0]), []
        while time.monotonic() - before < 3:
            looks.append((self.read(), time.monotonic() - before))
            time.sleep(0.2)
        for read, seconds in looks:
            self.assertLessEqual(read, self.RATE * seconds + 256 * 1024)
        self.assertLess(looks[0][0], looks[-1][0])
        self.round()
        self.assertGreater(time.monotonic() - before, total / self.RATE * 0.8)
        self.assertLess(time.monotonic() - before, total / self.RATE * 4 + 10)

    def test_ends_at_once(self):
        """A chunk that would take minutes is not waited for, and what was read in part was not read."""
        digest = self.store(onnx_make.encode(onnx_make.mlp(1, 600, weights="pattern")))
        self.age()
        old = os.path.getmtime(self.blob(digest, ".sums"))
        self.again("--scrub-rate", "1K")
        began = time.monotonic()
        self.daemon.stop()
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(os.path.getmtime(self.blob(digest, ".sums")), old)
        self.daemon.start()
        self.round()
        self.assertGreater(os.path.getmtime(self.blob(digest, ".sums")), old)


@unittest.skipUnless(STORE == "postgres" and not IS_COPY, "daemons share a folder")
class Two(Scrubbed):
    def test_one_of_them_reads(self):
        digests = [self.store(model(number)) for number in range(610, 620)]
        self.age()
        self.daemon.stop()
        self.daemon.start()
        with Daemon(*self.options, data=self.daemon.data, store=self.daemon.store) as other:
            self.round()
            read = [daemon.metric("shardplan_scrub_bytes_total") for daemon in (self.daemon, other)]
            self.assertEqual(sum(read), sum(os.path.getsize(self.blob(digest)) for digest in digests))


@unittest.skipUnless(has_faults(), "the daemon is built without faults")
class ShortOfMemory(Scrubbed):
    options = ("--workers", "1", "--scrub-rate", "16K")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="shardpland-faults-")
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "faults")
        self.faults = Faults(path)
        os.environ["SHARDPLAN_FAULTS"] = path
        self.addCleanup(os.environ.pop, "SHARDPLAN_FAULTS", None)
        super().setUp()

    def test_nothing_is_condemned(self):
        datas = [model(number) for number in range(620, 640)]
        digests = [self.store(data) for data in datas]
        plans = [self.finished(datas[number]) for number in range(3)]
        self.age()
        for digest in digests[::2]:
            os.unlink(self.blob(digest, ".sums"))
        self.again("--scrub-rate", "80K")
        fired, deadline = 0, time.monotonic() + 40
        while time.monotonic() < deadline and not self.events("stored files read"):
            self.faults.arm(MEMORY, NEW_SITE, 0)  # one more place, which did not fail before
            time.sleep(0.1)
            fired += self.faults.disarm()[1]
        self.assertGreater(fired, 5)
        self.assertEqual(self.wrong(), 0)
        self.assertEqual(self.events("stored file wrong"), [])
        for data, digest in zip(datas, digests):
            self.assertEqual(self.content(digest, 200).body, data)
        for plan in plans:
            self.assertEqual(self.daemon.finished(plan)["state"], "succeeded")
        print(f"# {fired} allocations failed while stored files were read: none was condemned")


if __name__ == "__main__":
    unittest.main()
