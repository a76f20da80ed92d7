"""What is stored is checked: bits that flip, files that are cut or lost, of models, inspections, results and their sums. Whatever
is done to them, no wrong byte is served, what was done is told, and the same upload or plan mends it."""

import glob
import json
import os
import random
import re
import tempfile
import unittest

from cases import CLUSTER, DaemonCase, model
from daemon import BLOBS, Daemon
import onnx_make
from test_auth import Tokens

FAULTS = int(os.environ.get("SHARDPLAN_FAULTS", "500" if os.environ.get("SHARDPLAN_TEST_THOROUGH") else "45"))
SEED = int(os.environ.get("SHARDPLAN_SEED", "27"))
CHUNK = 256 * 1024


def damage(path, kind, rng):
    """Flips a bit of the file, cuts it, or removes it."""
    size = os.path.getsize(path)
    if kind == "lost":
        os.unlink(path)
    elif kind == "cut":
        os.truncate(path, rng.randrange(size))
    else:
        with open(path, "r+b") as file:
            at = rng.randrange(size)
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ (1 << rng.randrange(8))]))


class Stored(DaemonCase):
    """A model with a plan, and where their files are."""

    def path(self, *names):
        return os.path.join(self.daemon.data, *names)

    def blob(self, digest, behind=""):
        """The file of the model, of its sums (".sums"), of its inspection (".json"), or of that one's sums."""
        names = [name for name in os.listdir(self.path("blobs", digest[:2])) if name.startswith(digest[2:])]
        kind = re.compile(r"(\.\d+)?" + re.escape(behind) + "$")
        found = [name for name in names if kind.fullmatch(name[62:])]
        assert len(found) == 1, (behind, names)
        return self.path("blobs", digest[:2], found[0])

    def result(self, plan, name):
        return self.path("plans", plan, "1", name)

    def content(self, digest, expect=(200, 500)):
        return self.ask("GET", f"/v1/models/{digest}/content", None, expect)

    def wrong(self, what=None):
        """How many wrong files were counted."""
        text = self.daemon.get("/metrics").text
        return sum(int(float(line.split()[-1])) for line in text.splitlines()
                   if line.startswith("shardplan_stored_wrong_total{") and (what is None or f'what="{what}"' in line))

    def finished(self, data, **members):
        plan = self.submit(data, **members)
        self.assertEqual(self.daemon.finished(plan)["state"], "succeeded")
        return plan


@unittest.skipIf(BLOBS == "s3", "test_integrity_objects does this where files are in an object store")
class Faults(Stored):
    """Random faults, each found by the read that meets it."""

    options = ("--workers", "2", "--quarantine-bytes", "1M")

    def setUp(self):
        self.number = 0
        self.counts = {}

    def begin(self):
        """A model and a plan of its own."""
        self.number += 1
        self.data = model(self.number % 200)
        self.digest = self.store(self.data)
        self.inspection = self.ask("GET", f"/v1/models/{self.digest}").body

    def count(self, target, how):
        self.counts[target, how] = self.counts.get((target, how), 0) + 1

    # ---- models ----

    def model_file(self, kind, rng):
        damage(self.blob(self.digest), kind, rng)
        before = self.wrong()
        plan_or_read = rng.randrange(3)
        if plan_or_read == 0:
            self.problem("GET", f"/v1/models/{self.digest}/content", None, 500, "MODEL_DAMAGED")
        elif plan_or_read == 1:
            self.problem("POST", f"/v1/models/{self.digest}/check", b"", 500, "MODEL_DAMAGED")
        if plan_or_read < 2:
            self.assertGreater(self.wrong(), before)
        self.assertEqual(self.store(self.data), self.digest)
        self.assertEqual(self.content(self.digest, 200).body, self.data)
        return "repaired by an upload"

    def model_sums(self, kind, rng):
        damage(self.blob(self.digest, ".sums"), kind, rng)
        self.assertEqual(self.content(self.digest, 200).body, self.data)
        with open(self.blob(self.digest, ".sums"), "rb") as file:
            self.assertEqual(file.read(8), b"SPSUMS1\n")
        return "made again"

    # ---- inspections ----

    def look_and_send_again(self):
        answer = self.ask("GET", f"/v1/models/{self.digest}", None, (200, 500))
        if answer.status == 200:
            self.assertEqual(answer.body, self.inspection)
            return "made again"
        self.assertEqual(answer.json["code"], "MODEL_DAMAGED")
        self.assertEqual(self.store(self.data), self.digest)
        self.assertEqual(self.ask("GET", f"/v1/models/{self.digest}").body, self.inspection)
        return "repaired by an upload"

    def inspection_file(self, kind, rng):
        damage(self.blob(self.digest, ".json"), kind, rng)
        became = self.look_and_send_again()
        self.assertEqual(became, "repaired by an upload")
        return became

    def inspection_sums(self, kind, rng):
        damage(self.blob(self.digest, ".json.sums"), kind, rng)
        return self.look_and_send_again()

    # ---- results ----

    READS = {"plan.json": "simulation", "plan.txt": "", "annotated.splice": "model"}

    def result_file(self, kind, rng):
        plan = self.finished(self.data)
        name = rng.choice(sorted(self.READS))
        damage(self.result(plan, name), kind, rng)
        before = self.wrong("result")
        path = f"/v1/plans/{plan}"
        if name == "plan.txt":
            self.problem("GET", path, None, 500, "PLAN_DAMAGED", Accept="text/plain")
        else:
            self.problem("GET", f"{path}/{self.READS[name]}", None, 500, "PLAN_DAMAGED")
        self.assertEqual(self.wrong("result"), before + 1)
        told = self.ask("GET", path).json
        self.assertEqual((told["state"], told["has_result"], told["error"]["code"]), ("failed", False, "PLAN_DAMAGED"))
        self.assertFalse(os.path.exists(self.result(plan, "")), "the files are where nobody is sent them")
        # The same question is planned anew, and not answered by the plan that was lost.
        again = self.ask("POST", "/v1/plans", {"model": self.digest, "cluster": CLUSTER}, 202).json["id"]
        self.assertNotEqual(again, plan)
        self.assertEqual(self.daemon.finished(again)["state"], "succeeded")
        return "told, and planned again"

    def result_sums(self, kind, rng):
        plan = self.finished(self.data)
        text = self.ask("GET", f"/v1/plans/{plan}", Accept="text/plain").body
        damage(self.result(plan, "sums"), kind, rng)
        self.assertEqual(self.ask("GET", f"/v1/plans/{plan}", Accept="text/plain").body, text)
        self.ask("GET", f"/v1/plans/{plan}/simulation")
        self.assertEqual(self.daemon.finished(plan)["state"], "succeeded")
        return "made again"

    # ---- what slices of a plan are made of ----

    def sheet(self, kind, rng, name="plan.sheet"):
        plan = self.finished(self.data)
        paths = [f"/v1/plans/{plan}/{path}" for path in ("nodes", "tensors", "collectives", "summary")]
        right = [self.ask("GET", path).body for path in paths]
        damage(self.result(plan, name), kind, rng)
        self.daemon.stop()  # what is kept in memory is right
        self.daemon.start()
        self.assertEqual([self.ask("GET", path).body for path in paths], right)
        found = self.wrong("sheet")  # by this process
        self.assertEqual(found, int(kind != "lost"))
        return "made again"

    def sheet_sums(self, kind, rng):
        return self.sheet(kind, rng, "plan.sheet.sums")

    def quoted(self, kind, rng):
        """Entries of the plan's JSON, in an answer that is made of the sheet."""
        plan = self.finished(self.data)
        path = f"/v1/plans/{plan}/tensors"
        self.ask("GET", path)
        damage(self.result(plan, "plan.json"), kind, rng)
        self.problem("GET", path, None, 500, "PLAN_DAMAGED")
        self.assertEqual(self.ask("GET", f"/v1/plans/{plan}").json["error"]["code"], "PLAN_DAMAGED")
        return "told"

    def test_faults(self):
        rng = random.Random(SEED)
        targets = (self.model_file, self.model_file, self.model_sums, self.inspection_file, self.inspection_sums, self.result_file,
                   self.result_file, self.result_sums, self.sheet, self.sheet_sums, self.quoted)
        for _ in range(FAULTS):
            self.begin()
            target, kind = rng.choice(targets), rng.choice(("flipped", "cut", "lost"))
            with self.subTest(number=self.number, target=target.__name__, kind=kind):
                self.count(f"{target.__name__} {kind}", target(kind, rng))
        self.assertEqual(sum(self.counts.values()), FAULTS)
        for (target, how), count in sorted(self.counts.items()):
            print(f"# {count} x {target}: {how}")
        print(f"# {FAULTS} faults with seed {SEED}: all of them found, repaired or told")
        kept = [os.path.getsize(path) for path in glob.glob(self.path("quarantine", "**"), recursive=True) if os.path.isfile(path)]
        self.assertLessEqual(sum(kept), 1 << 20, "what is kept has a limit")
        self.assertGreater(len(kept), 0)
        self.no_temporary_files()


@unittest.skipIf(BLOBS == "s3", "a copy is fetched again")
class Large(Stored):
    """A model of many chunks: what was sent before the wrong one is right, and no more is sent."""

    @staticmethod
    def decay(path, at):
        """A bit of the disk changes, and no time of the file."""
        before = os.stat(path)
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 4]))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def test_a_file_that_was_written_to(self):
        """Its times say so: all of it is read before any of it is served."""
        data = onnx_make.encode(onnx_make.mlp(1, 1000, weights="pattern"))
        digest = self.store(data)
        damage(self.blob(digest), "flipped", random.Random(SEED))
        self.problem("GET", f"/v1/models/{digest}/content", None, 500, "MODEL_DAMAGED", Range="bytes=0-9")

    def test_wrong_chunk(self):
        data = onnx_make.encode(onnx_make.mlp(1, 1024, weights="pattern"))
        digest = self.store(data)
        path = self.blob(digest)
        self.decay(path, 5 * CHUNK + 17)
        part = self.ask("GET", f"/v1/models/{digest}/content", None, 206, Range=f"bytes=100-{CHUNK * 2}")
        self.assertEqual(part.body, data[100:CHUNK * 2 + 1], "parts that are right are served")
        got = b""
        try:
            got = self.daemon.get(f"/v1/models/{digest}/content").body
        except Exception as error:  # pylint: disable=broad-exception-caught
            got = getattr(error, "partial", b"")
        self.assertLess(len(got), len(data))
        self.assertEqual(got, data[:len(got)])
        self.problem("GET", f"/v1/models/{digest}/content", None, 500, "MODEL_DAMAGED")
        kept = glob.glob(self.path("quarantine", f"model-{digest}-*.json"))
        self.assertEqual(len(kept), 1)
        with open(kept[0], encoding="utf-8") as file:
            told = json.load(file)
        self.assertEqual((told["what"], told["id"], told["how"]), ("model", digest, "changed"))
        with open(kept[0][:-5], "rb") as file:
            self.assertEqual(len(file.read()), len(data))
        self.assertEqual(self.store(data), digest)
        self.assertEqual(self.content(digest, 200).body, data)


@unittest.skipIf(BLOBS == "s3", "a copy is fetched again")
class Tenants(Stored):
    """Two tenants with the same model are told alike, and who sends it again mends it for both."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        tokens = Tokens(cls.folder.name)
        cls.tokens = {name: tokens.add(name, "--tenant", name) for name in ("alpha", "beta")}
        tokens.write()
        cls.daemon = Daemon("--workers", "2", "--tokens", tokens.path)
        cls.daemon.start()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def by(self, tenant, method, path, body=None, expect=200, **headers):
        return self.ask(method, path, body, expect, Authorization=f"Bearer {self.tokens[tenant]}", **headers)

    def test_one_file_of_two(self):
        rng = random.Random(SEED)
        for number, kind in enumerate(("flipped", "cut", "lost")):
            data = model(400 + number)
            digest = self.by("alpha", "POST", "/v1/models", data, 201).json["id"]
            self.by("beta", "POST", "/v1/models", data, 201)
            damage(self.blob(digest), kind, rng)
            told = []
            for tenant in ("alpha", "beta"):
                answer = self.by(tenant, "GET", f"/v1/models/{digest}/content", None, 500).json
                self.assertEqual(answer["code"], "MODEL_DAMAGED")
                told.append({key: value for key, value in answer.items() if key not in ("request_id", "trace_id", "instance")})
            self.assertEqual(told[0], told[1])
            self.by("beta", "POST", "/v1/models", data, 200)
            for tenant in ("alpha", "beta"):
                self.assertEqual(self.by(tenant, "GET", f"/v1/models/{digest}/content").body, data)


if __name__ == "__main__":
    unittest.main()
