"""What an object store has, and the copies of it, is checked: bits that flip, files and objects that are cut or lost. A copy is thrown
away and fetched again; an object that is wrong is told, never served, and fetched no more, until an upload or a plan puts a new one there."""

import glob
import os
import random
import shutil
import unittest

import s3
import onnx_make
from cases import CLUSTER, DaemonCase
from daemon import Daemon, object_server
from test_integrity import SEED, Stored, damage

FAULTS = int(os.environ.get("SHARDPLAN_FAULTS", "500" if os.environ.get("SHARDPLAN_TEST_THOROUGH") else "30"))
KINDS = ("flipped", "cut", "lost")
RESULTS = {"plan.json": "simulation", "plan.txt": "", "annotated.splice": "model", "plan.sheet": "tensors"}


def setUpModule():
    missing = s3.missing()
    if missing and os.environ.get("CI"):
        raise AssertionError(missing)
    if missing:
        raise unittest.SkipTest(missing)


class Faults(Stored):
    @classmethod
    def setUpClass(cls):
        cls.bucket = object_server().make_bucket()
        cls.daemon = Daemon("--workers", "2", "--quarantine-bytes", "1M", "--blobs", f"s3://{cls.bucket}/p", "--blobs-endpoint",
                            object_server().endpoint)
        cls.daemon.keys = {"AWS_ACCESS_KEY_ID": s3.Buckets.key, "AWS_SECRET_ACCESS_KEY": s3.Buckets.secret}
        cls.daemon.start()

    @classmethod
    def tearDownClass(cls):
        DaemonCase.tearDownClass.__func__(cls)

    def setUp(self):
        self.number = 0
        self.counts = {}

    def begin(self):
        """A model of its own."""
        self.number += 1
        self.data = onnx_make.encode(onnx_make.chain(8 + self.number % 100, name=f"chain{self.number}"))
        self.digest = self.store(self.data)
        self.inspection = self.ask("GET", f"/v1/models/{self.digest}").body

    # ---- objects ----

    def object(self, key, method="GET", body=b""):
        return object_server().request(method, f"{self.bucket}/p/{key}", body=body)

    def keys(self, folder):
        return [key[2:] for key in object_server().keys(self.bucket, f"p/{folder}")]

    def key(self, behind=""):
        """Of the model's object, or of its inspection's."""
        found = [key for key in self.keys(f"blobs/{self.digest[:2]}/{self.digest[2:]}") if key.endswith(".json") == (behind != "")]
        self.assertEqual(len(found), 1, "objects of the model")
        return found[0]

    def damage_object(self, key, kind, rng):
        """Damages the object, and drops all copies."""
        status, body = self.object(key)
        self.assertEqual(status, 200)
        if kind == "lost":
            status, _ = self.object(key, "DELETE")
            self.assertEqual(status, 204)
        else:
            at = rng.randrange(len(body))
            body = body[:at] + (bytes([body[at] ^ (1 << rng.randrange(8))]) + body[at + 1:] if kind == "flipped" else b"")
            status, _ = self.object(key, "PUT", body)
            self.assertEqual(status, 200)
        self.drop_copies()

    def drop_copies(self):
        for path in glob.glob(self.path("plans/*")) + glob.glob(self.path("blobs/*")):
            shutil.rmtree(path)

    def is_fetched_no_more(self, key):
        self.assertEqual(self.object(key)[0], 404, "the object is where daemons would fetch it")

    # ---- copies ----

    def model_copy(self, kind, rng):
        damage(self.blob(self.digest), kind, rng)
        if rng.randrange(2):
            self.ask("POST", f"/v1/models/{self.digest}/check", b"")
        self.assertEqual(self.content(self.digest, 200).body, self.data)
        return "fetched again"

    def model_copy_of_a_plan(self, kind, rng):
        damage(self.blob(self.digest), kind, rng)
        plan = self.ask("POST", "/v1/plans", {"model": self.digest, "cluster": CLUSTER}, 202, Cache_Control="no-cache").json["id"]
        self.assertEqual(self.daemon.finished(plan)["state"], "succeeded")
        self.assertEqual(self.content(self.digest, 200).body, self.data)
        return "fetched again"

    def model_copy_sums(self, kind, rng):
        damage(self.blob(self.digest, ".sums"), kind, rng)
        self.assertEqual(self.content(self.digest, 200).body, self.data)
        return "made again"

    def inspection_copy(self, kind, rng):
        damage(self.blob(self.digest, ".json"), kind, rng)
        self.assertEqual(self.ask("GET", f"/v1/models/{self.digest}").body, self.inspection)
        return "fetched again"

    def result_copy(self, kind, rng):
        plan = self.finished(self.data)
        name = rng.choice(sorted(RESULTS))
        right = self.read(plan, name).body
        damage(self.result(plan, name), kind, rng)
        if name == "plan.sheet":
            self.daemon.stop()  # what is kept in memory is right
            self.daemon.start()
        self.assertEqual(self.read(plan, name).body, right)
        return "fetched again"

    def read(self, plan, name, expect=200):
        if name == "plan.txt":
            return self.ask("GET", f"/v1/plans/{plan}", None, expect, Accept="text/plain")
        return self.ask("GET", f"/v1/plans/{plan}/{RESULTS[name]}", None, expect)

    # ---- objects ----

    def model_object(self, kind, rng):
        key, before = self.key(), self.wrong("model")
        self.damage_object(key, kind, rng)
        for _ in range(2):
            if rng.randrange(2):
                self.problem("GET", f"/v1/models/{self.digest}/content", None, 500, "MODEL_DAMAGED")
            else:
                self.problem("POST", f"/v1/models/{self.digest}/check", b"", 500, "MODEL_DAMAGED")
            self.is_fetched_no_more(key)
        self.assertGreater(self.wrong("model"), before)
        return self.sent_again()

    def model_object_of_a_plan(self, kind, rng):
        key = self.key()
        self.damage_object(key, kind, rng)
        plan = self.ask("POST", "/v1/plans", {"model": self.digest, "cluster": CLUSTER}, 202, Cache_Control="no-cache").json["id"]
        told = self.daemon.finished(plan)
        self.assertEqual((told["state"], told["error"]["code"]), ("failed", "MODEL_DAMAGED"))
        self.is_fetched_no_more(key)
        became = self.sent_again()
        self.finished(self.data)
        return became

    def sent_again(self):
        self.assertEqual(self.store(self.data), self.digest)
        self.drop_copies()
        self.assertEqual(self.content(self.digest, 200).body, self.data)
        self.assertEqual(self.ask("GET", f"/v1/models/{self.digest}").body, self.inspection)
        return "told, and repaired by an upload"

    def inspection_object(self, kind, rng):
        key, before = self.key(".json"), self.wrong("inspection")
        self.damage_object(key, kind, rng)
        for _ in range(2):
            self.problem("GET", f"/v1/models/{self.digest}", None, 500, "MODEL_DAMAGED")
            self.is_fetched_no_more(key)
        self.assertGreater(self.wrong("inspection"), before)
        return self.sent_again()

    def result_object(self, kind, rng):
        plan, before = self.finished(self.data), self.wrong("result")
        name = rng.choice(sorted(RESULTS))
        if name == "plan.sheet":
            self.daemon.stop()
            self.daemon.start()
            before = 0
        self.damage_object(f"plans/{plan}/1/{name}", kind, rng)
        self.assertEqual(self.read(plan, name, 500).json["code"], "PLAN_DAMAGED")
        self.assertEqual(self.wrong("result"), before + 1)
        told = self.ask("GET", f"/v1/plans/{plan}").json
        self.assertEqual((told["state"], told["has_result"], told["error"]["code"]), ("failed", False, "PLAN_DAMAGED"))
        self.daemon.wait_for(lambda: not self.keys(f"plans/{plan}/"), "the removal of its objects")
        # The same question is planned anew, and not answered by the plan that was lost.
        again = self.ask("POST", "/v1/plans", {"model": self.digest, "cluster": CLUSTER}, 202).json["id"]
        self.assertNotEqual(again, plan)
        self.assertEqual(self.daemon.finished(again)["state"], "succeeded")
        self.drop_copies()
        self.read(again, name)
        return "told, and planned again"

    def test_faults(self):
        rng = random.Random(SEED)
        targets = (self.model_copy, self.model_copy_of_a_plan, self.model_copy_sums, self.inspection_copy, self.result_copy, self.result_copy,
                   self.model_object, self.model_object, self.model_object_of_a_plan, self.inspection_object, self.result_object,
                   self.result_object)
        for _ in range(FAULTS):
            self.begin()
            target, kind = rng.choice(targets), rng.choice(KINDS)
            with self.subTest(number=self.number, target=target.__name__, kind=kind):
                became = f"{target.__name__} {kind}: {target(kind, rng)}"
                self.counts[became] = self.counts.get(became, 0) + 1
        self.assertEqual(sum(self.counts.values()), FAULTS)
        for became, count in sorted(self.counts.items()):
            print(f"# {count} x {became}")
        print(f"# {FAULTS} faults with seed {SEED}: all of them found, repaired or told")
        kept = [os.path.getsize(path) for path in glob.glob(self.path("quarantine", "**"), recursive=True) if os.path.isfile(path)]
        self.assertLessEqual(sum(kept), 1 << 20, "what is kept has a limit")
        self.assertGreater(len(kept), 0)
        self.no_temporary_files()

    def test_bucket_that_was_emptied(self):
        """Nothing is condemned below a prefix that is not this database's any more."""
        self.number = FAULTS  # not one of the others' models, which have an object each
        self.begin()
        plan, before = self.finished(self.data), self.wrong()
        key = self.keys("owner/")[0]
        self.assertEqual(self.object(key, "DELETE")[0], 204)
        try:
            taken = {key: self.object(key)[1] for key in self.keys(f"plans/{plan}/") + self.keys("blobs/")}
            for name in taken:
                self.object(name, "DELETE")
            self.drop_copies()
            self.problem("GET", f"/v1/models/{self.digest}/content", None, 503, "BLOBS_UNAVAILABLE")
            self.problem("GET", f"/v1/plans/{plan}/simulation", None, 503, "BLOBS_UNAVAILABLE")
            for name, body in taken.items():
                self.object(name, "PUT", body)
        finally:
            self.object(key, "PUT")
        self.assertEqual(self.wrong(), before)
        self.assertEqual(self.content(self.digest, 200).body, self.data)
        self.ask("GET", f"/v1/plans/{plan}/simulation")


if __name__ == "__main__":
    unittest.main()
