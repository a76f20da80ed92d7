"""Files beside models, in which their weights lie: stored, counted, removed, and in what is made of plans."""

import hashlib
import json
import os
import random
import subprocess
import tempfile
import unittest

from cases import CLUSTER, DaemonCase
from daemon import STORE, TOP
import onnx_make
from test_auth import Tokens

PROGRAM = os.environ.get("SHARDPLAN", os.path.join(TOP, "build/api/cli/shardplan"))
LAYERS, WIDTH = 4, 64
SIZE = LAYERS * WIDTH * WIDTH * 4
ROUTE = "/v1/plans/{}/devices/{}/{}"


def digest(data):
    return hashlib.sha256(data).hexdigest()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def layered(location="weights.bin", name="layered", layers=LAYERS, more=None):
    """MatMul and Relu by turns; the weights lie at a location, one behind the other, or by turns at another one."""
    makers = [onnx_make.Weights("external", where) for where in (location, more or location)]
    makers = makers if more else makers[:1]
    graph = [onnx_make.graph_input("x", [1024, WIDTH])]
    for index in range(layers):
        output = "y" if index == layers - 1 else f"h{index}"
        graph += [makers[index % len(makers)].tensor(f"w{index}", [WIDTH, WIDTH]),
                  onnx_make.node("MatMul", [f"h{index - 1}" if index else "x", f"w{index}"], [f"m{index}"]),
                  onnx_make.node("Relu", [f"m{index}"], [output])]
    return onnx_make.encode(onnx_make.model(*graph, onnx_make.graph_output("y", [1024, WIDTH]), name=name))


def weights(seed=1, size=SIZE):
    """Small floats, so that what is computed of them stays finite."""
    import array
    numbers = random.Random(seed)
    return array.array("f", (numbers.uniform(-0.2, 0.2) for _ in range(size // 4))).tobytes()


class Files(DaemonCase):
    options = ("--workers", "2")

    def send(self, data):
        name = self.ask("POST", "/v1/uploads", {"bytes": len(data), "sha256": digest(data)}, 201).json["id"]
        self.ask("PATCH", f"/v1/uploads/{name}", data, 200, Upload_Offset="0")
        return name

    def place(self, model, location, data, expect=201):
        return self.ask("POST", f"/v1/models/{model}/files", {"location": location, "upload": self.send(data)}, expect)

    def blobs(self, data):
        """How many files with these bytes the daemon has."""
        name = digest(data)
        folder = os.path.join(self.daemon.data, "blobs", name[:2])
        return len([item for item in os.listdir(folder) if item.startswith(name[2:]) and not item.endswith((".json", ".sums"))]) if os.path.isdir(folder) else 0

    def plan(self, model):
        answer = self.ask("POST", "/v1/plans", {"model": model, "cluster": CLUSTER}, 200, Prefer="wait=60", Cache_Control="no-cache")
        self.assertEqual(answer.json["state"], "succeeded", answer)
        return answer.json["id"]

    def command_line(self, model, files, folder):
        """What the command writes of the same plan, offline."""
        path = os.path.join(folder, "model.onnx")
        for location, data in {"model.onnx": model, **files}.items():
            os.makedirs(os.path.dirname(os.path.join(folder, location)), exist_ok=True)
            with open(os.path.join(folder, location), "wb") as file:
                file.write(data)
        out = os.path.join(folder, "out")
        subprocess.run([PROGRAM, "plan", path, "--devices", str(CLUSTER["count"]), "--device", CLUSTER["device"], "--emit", out],
                       check=True, capture_output=True)
        return {name: read(os.path.join(out, name)) for name in os.listdir(out)}

    def compare(self, model, files):
        """Everything of the devices' models that the daemon makes is what the command line makes."""
        name = self.store(model)
        for location, data in files.items():
            self.place(name, location, data, (200, 201))
        plan = self.plan(name)
        with tempfile.TemporaryDirectory() as folder:
            local = self.command_line(model, files, folder)
        self.assertEqual(self.ask("GET", f"/v1/plans/{plan}/exports/ort-collectives").body, local["manifest.json"])
        seen = 0
        for device in range(CLUSTER["count"]):
            for kind, file in (("model", f"device-{device}.onnx"), ("data", f"device-{device}.onnx.data")):
                if file in local:
                    self.assertEqual(self.ask("GET", ROUTE.format(plan, device, kind)).body, local[file], file)
                    seen += len(local[file])
                else:
                    self.problem("GET", ROUTE.format(plan, device, kind), None, (400, 404))
        return plan, seen

    def test_device_models_are_complete(self):
        plan, seen = self.compare(layered(), {"weights.bin": weights()})
        self.assertGreater(seen, SIZE // 2, "the weights are in them")
        again = self.ask("GET", ROUTE.format(plan, 0, "data"))
        self.ask("GET", ROUTE.format(plan, 0, "data"), expect=304, If_None_Match=again.headers["ETag"])
        self.assertEqual(self.ask("GET", ROUTE.format(plan, 0, "data"), expect=206, Range="bytes=100-199").body, again.body[100:200])
        self.ask("GET", ROUTE.format(plan, 0, "data"), expect=412, If_Match='"x"')
        self.problem("GET", ROUTE.format(plan, 0, "data"), None, 416, "RANGE_NOT_SATISFIABLE", Range=f"bytes={len(again.body)}-")

    def test_a_plan_that_is_not_finished_has_none(self):
        model = layered(name="later")
        name = self.store(model)
        workers = self.daemon.freeze()
        plan = self.ask("POST", "/v1/plans", {"model": name, "cluster": CLUSTER}, 202, Cache_Control="no-cache").json["id"]
        self.ask("GET", ROUTE.format(plan, 0, "data"), expect=409)
        self.daemon.thaw(workers)
        self.daemon.finished(plan)

    def test_several_files_and_folders(self):
        self.compare(layered("a/weights.bin", "folders", 6, "b.data"), {"a/weights.bin": weights(2), "b.data": weights(3)})

    def test_without_files_what_is_made_refers_to_them(self):
        model = layered(name="without")
        name = self.store(model)
        plan = self.plan(name)
        self.problem("GET", ROUTE.format(plan, 0, "data"), None, 404, "NO_DATA")
        before = self.ask("GET", ROUTE.format(plan, 0, "model"))
        self.assertIn(b"weights.bin", before.body)
        self.place(name, "other.bin", weights(4))
        self.assertEqual(self.ask("GET", ROUTE.format(plan, 0, "model")).body, before.body)
        self.place(name, "weights.bin", weights(5))
        after = self.ask("GET", ROUTE.format(plan, 0, "model"))
        self.assertNotIn(b"weights.bin", after.body)
        self.assertIn(b"device-0.onnx.data", after.body)
        self.assertNotEqual(after.headers["ETag"], before.headers["ETag"])
        self.assertGreater(len(self.ask("GET", f"/v1/plans/{plan}/simulation").body), SIZE)

    def test_a_file_that_is_too_short(self):
        name = self.store(layered(name="short"))
        self.place(name, "weights.bin", weights(6, SIZE - 4))
        plan = self.plan(name)
        for kind in ("model", "data"):
            self.problem("GET", ROUTE.format(plan, 0, kind), None, 422, "EXTERNAL_DATA_SHORT")

    def test_what_is_refused(self):
        name = self.store(layered(name="refused"))
        path = f"/v1/models/{name}/files"
        upload = self.send(b"some bytes")
        for location in ("", "/weights.bin", "../weights.bin", "a/../b", "a/..", "..", "x" * 1025, "a\nb"):
            self.problem("POST", path, {"location": location, "upload": upload}, 422, "BAD_LOCATION")
        for body in ({}, {"location": "x"}, {"location": 5, "upload": upload}, {"location": "x", "upload": upload, "more": 1}):
            self.problem("POST", path, body, 422, "BAD_FILE")
        self.problem("POST", path, b"[", 400, "MALFORMED_JSON")
        self.problem("POST", path, {"location": "x", "upload": "0" * 32}, 404, "UPLOAD_NOT_FOUND")
        self.problem("POST", f"/v1/models/{'0' * 64}/files", {"location": "x", "upload": upload}, 404, "MODEL_NOT_FOUND")
        self.problem("GET", f"/v1/models/{'0' * 64}/files", None, 404, "MODEL_NOT_FOUND")
        half = self.ask("POST", "/v1/uploads", {"bytes": 5}, 201).json["id"]
        self.problem("POST", path, {"location": "x", "upload": half}, 409, "UPLOAD_INCOMPLETE")
        self.assertEqual(self.ask("GET", path).json, {"files": []})
        self.ask("DELETE", f"/v1/uploads/{half}", expect=204)
        self.ask("DELETE", f"/v1/uploads/{upload}", expect=204)

    def test_files_go_with_their_model(self):
        """Equal files are kept once, until the last model that has one goes."""
        first, second = self.store(layered(name="first")), self.store(layered(name="second"))
        data, other = weights(7), weights(8)
        self.assertEqual(self.place(first, "weights.bin", data).json, {"location": "weights.bin", "bytes": SIZE, "sha256": digest(data)})
        self.place(first, "weights.bin", data, 200)
        self.problem("POST", f"/v1/models/{first}/files", {"location": "weights.bin", "upload": self.send(other)}, 409, "FILE_EXISTS")
        self.assertEqual(self.blobs(other), 0)
        self.place(second, "weights.bin", data)
        self.place(second, "more.bin", other)
        self.assertEqual([item["location"] for item in self.ask("GET", f"/v1/models/{second}/files").json["files"]], ["more.bin", "weights.bin"])
        self.ask("DELETE", f"/v1/models/{first}", expect=204)
        self.assertEqual(self.blobs(data), 1)
        self.daemon.stop()
        self.daemon.start()
        self.assertEqual(self.blobs(data), 1, "it is no orphan")
        self.ask("DELETE", f"/v1/models/{second}", expect=204)
        for blob in (data, other):
            self.assertEqual(self.blobs(blob), 0)
        self.problem("GET", f"/v1/models/{second}/files", None, 404, "MODEL_NOT_FOUND")

    def test_a_file_that_is_a_model_too(self):
        inner = layered(name="inner")
        outer = self.store(layered(name="outer"))
        self.place(outer, "weights.bin", inner)
        name = self.store(inner)
        self.ask("DELETE", f"/v1/models/{name}", expect=204)
        self.assertEqual(self.blobs(inner), 1)
        self.ask("DELETE", f"/v1/models/{outer}", expect=204)
        self.assertEqual(self.blobs(inner), 0)


class Verified(DaemonCase):
    """Weights beside original and ranks, as the command finds them in a folder."""

    options = ("--workers", "2")
    send, place = Files.send, Files.place

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory(prefix="shardpland-ranks-")
        cls.path, out = os.path.join(cls.folder.name, "model.onnx"), os.path.join(cls.folder.name, "out")
        cls.manifest = os.path.join(out, "manifest.json")
        for path, data in ((cls.path, layered(name="verified")), (os.path.join(cls.folder.name, "weights.bin"), weights(20))):
            with open(path, "wb") as file:
                file.write(data)
        subprocess.run([PROGRAM, "plan", cls.path, "--devices", "2", "--device", CLUSTER["device"], "--strategy", "tensor", "--emit", out],
                       check=True, capture_output=True)
        cls.files = {name: read(os.path.join(out, name)) for name in os.listdir(out)}

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def command(self):
        done = subprocess.run([PROGRAM, "verify", self.path, "--manifest", self.manifest, "--weights", "--json"], capture_output=True,
                              check=False)
        return json.loads(done.stdout)

    def store_ranks(self):
        """The ids of the models of the devices, without what lies beside them."""
        return {name: self.store(data) for name, data in self.files.items() if name + ".data" in self.files}

    def tearDown(self):
        for model in self.ask("GET", "/v1/models").json["models"]:
            self.ask("DELETE", f"/v1/models/{model['id']}", expect=204)
        super().tearDown()

    def verify(self, original, ranks, **more):
        return self.ask("POST", "/v1/verify", {"original": original, "manifest": json.loads(self.files["manifest.json"]), "ranks": ranks,
                                               "weights": True, **more}).json

    def test_all_are_there(self):
        original, ranks = self.store(read(self.path)), self.store_ranks()
        self.assertEqual(len(ranks), 2)
        self.assertEqual(self.verify(original, ranks)["verdict"], "undecided")
        self.place(original, "weights.bin", weights(20))
        for name, model in ranks.items():
            self.assertEqual(self.verify(original, ranks)["verdict"], "undecided", name)
            self.place(model, name + ".data", self.files[name + ".data"])
        answer = self.verify(original, ranks)
        self.assertEqual(answer["verdict"], "proved", answer)
        self.assertEqual(answer, self.command())
        text = self.ask("POST", "/v1/verify", {"original": original, "simulation": original, "weights": True}, Accept="text/plain").text
        self.assertTrue(text.startswith("Proved: "), text)

    def test_a_wrong_byte(self):
        """In each file by itself."""
        for wrong in ("weights.bin", "device-0.onnx.data", "device-1.onnx.data"):
            with self.subTest(wrong):
                original, ranks = self.store(read(self.path)), self.store_ranks()
                beside = {(original, "weights.bin"): weights(20), **{(ranks[name], name + ".data"): self.files[name + ".data"] for name in ranks}}
                path = os.path.join(self.folder.name, "" if wrong == "weights.bin" else "out", wrong)
                for (model, location), data in beside.items():
                    if location == wrong:
                        right, data = data, data[:-5] + bytes([data[-5] ^ 0x40]) + data[-4:]
                        with open(path, "wb") as file:
                            file.write(data)
                    self.place(model, location, data)
                answer, local = self.verify(original, ranks), self.command()
                with open(path, "wb") as file:
                    file.write(right)
                self.assertEqual((answer["verdict"], local["verdict"]), ("refuted", "refuted"))
                self.assertEqual(answer, local)
                self.tearDown()

    def test_a_short_file_and_another_location(self):
        original = self.store(read(self.path))
        question = {"original": original, "simulation": original, "weights": True}
        self.place(original, "weights", weights(20))
        self.place(original, "weights.bin", weights(20)[:-4])
        answer = self.ask("POST", "/v1/verify", question).json
        self.assertEqual(answer["verdict"], "undecided")
        self.assertIn("'weights.bin'", answer["failures"][0]["message"])

    @unittest.skipIf(STORE == "postgres" or os.environ.get("SHARDPLAN_TEST_BLOBS") == "s3", "514 uploads, and no store counts these files")
    def test_too_many(self):
        """The same bytes at 513 locations, of two models."""
        model, other = self.store(read(self.path)), self.store(layered(name="other"))
        for index in range(257):
            for name in (model, other):
                self.place(name, f"{index:03}", b"same")
        answer = self.problem("POST", "/v1/verify", {"original": model, "ranks": [other], "weights": True}, 422, "TOO_MANY_FILES")
        self.assertEqual((answer.json["limit"], answer.json["actual"] > 512), ("SPD_MAX_VERIFY_FILES", True))
        self.assertEqual(self.ask("POST", "/v1/verify", {"original": model, "ranks": [other]}).json["verdict"], "proved")
        for name in (model, other):
            self.place(name, "weights.bin", weights(21))
        self.ask("DELETE", f"/v1/models/{other}", expect=204)
        self.assertEqual(self.ask("POST", "/v1/verify", {"original": model, "simulation": model, "weights": True}).json["verdict"], "proved")


class Tenants(DaemonCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="shardpland-tokens-")
        tokens = Tokens(cls.folder.name)
        cls.secrets = {name: tokens.add(name, "--tenant", name) for name in ("a", "b")}
        tokens.write()
        cls.options = ("--workers", "1", "--tokens", tokens.path, "--tenant-bytes", str(SIZE * 2), "--max-store", str(SIZE * 4))
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    send, place, blobs = Files.send, Files.place, Files.blobs

    def test_files_count(self):
        self.daemon.token = self.secrets["a"]
        name = self.store(layered(name="counted"))
        self.place(name, "weights.bin", weights(9))
        self.problem("POST", "/v1/uploads", {"bytes": SIZE}, 429, "QUOTA_BYTES")
        self.daemon.token = self.secrets["b"]
        self.problem("GET", f"/v1/models/{name}/files", None, 404, "MODEL_NOT_FOUND")
        upload = self.send(weights(9))
        self.problem("POST", f"/v1/models/{name}/files", {"location": "weights.bin", "upload": upload}, 404, "MODEL_NOT_FOUND")
        self.store(layered(name="counted"))
        self.assertEqual(self.ask("GET", f"/v1/models/{name}/files").json, {"files": []}, "they are the other tenant's")
        self.ask("POST", f"/v1/models/{name}/files", {"location": "weights.bin", "upload": upload}, 201)
        self.daemon.token = self.secrets["a"]
        self.ask("DELETE", f"/v1/models/{name}", expect=204)
        self.assertEqual(self.blobs(weights(9)), 1)
        # What no plan needs is evicted with its files.
        self.ask("DELETE", f"/v1/uploads/{self.send(weights(10))}", expect=204)
        self.daemon.token = self.secrets["b"]
        self.assertEqual(len(self.ask("GET", f"/v1/models/{name}/files").json["files"]), 1)
        self.ask("DELETE", f"/v1/models/{name}", expect=204)
        self.assertEqual(self.blobs(weights(9)), 0)

    def test_nobody_compares_with_the_files_of_others(self):
        model = layered(name="compared")
        question = {"weights": True}
        for tenant, verdict in (("a", "proved"), ("b", "undecided"), ("a", "proved")):
            self.daemon.token = self.secrets[tenant]
            name = self.store(model)
            question["original"] = question["simulation"] = name
            if verdict == "proved" and not self.ask("GET", f"/v1/models/{name}/files").json["files"]:
                self.place(name, "weights.bin", weights(11))
            self.assertEqual(self.ask("POST", "/v1/verify", question).json["verdict"], verdict, tenant)
        for tenant in ("a", "b"):
            self.daemon.token = self.secrets[tenant]
            self.ask("DELETE", f"/v1/models/{name}", expect=204)
