"""Models by reference: fetched from a bucket, with the files beside them, and from nowhere else. The store is real (tools/s3.py);
before it stands a proxy (tools/s3_proxy.py) that checks every signature and fails as it is told."""

import os
import tempfile
import unittest

from cases import CLUSTER, DaemonCase
from daemon import BLOBS
from test_auth import Tokens
import test_model_files
from test_model_files import layered, weights, digest
import test_blobs
from test_blobs import setUpModule, tearDownModule  # noqa: F401


def put(bucket, key, data):
    status, body = test_blobs.server.request("PUT", f"{bucket}/{key}", "", data)
    assert status == 200, (status, body)


@unittest.skipIf(BLOBS == "s3", "the daemon is given another object store than that of this test")
class Fetched(test_model_files.Files):
    more = ()
    with_objects = False  # whether files are kept as objects, too

    @classmethod
    def setUpClass(cls):
        cls.bucket = test_blobs.server.make_bucket()
        cls.options = ("--workers", "2", "--blobs-endpoint", test_blobs.proxy.endpoint,
                       "--model-sources", f"s3://{cls.bucket}/models/ s3://{cls.bucket}/of/{{tenant}}/")
        if cls.with_objects:
            cls.options += ("--blobs", f"s3://{cls.bucket}/kept")
        cls.options += cls.more
        super().setUpClass()

    def tearDown(self):
        left, test_blobs.proxy.fail = test_blobs.proxy.fail, []
        self.assertEqual(left, [], "a failure that no request met")
        self.assertEqual(self.ask("GET", "/v1/uploads").json["uploads"], [], "nothing of a reference is left")
        self.assertEqual(os.listdir(os.path.join(self.daemon.data, "uploads")), [])

    def put(self, key, data):
        put(self.bucket, key, data)

    def url(self, key):
        return f"s3://{self.bucket}/{key}"

    def fetch(self, key, expect=201):
        return self.ask("POST", "/v1/models", {"model": {"url": self.url(key)}}, expect)

    def refused(self, key, status, code):
        return self.problem("POST", "/v1/models", {"model": {"url": self.url(key)}}, status, code)

    def test_a_model_and_its_weights(self):
        model, data, more = layered("a/weights.bin", "by reference", 6, "./b.data"), weights(31), weights(32)
        self.put("models/one/model.onnx", model)
        self.put("models/one/a/weights.bin", data)
        self.put("models/one/b.data", more)
        stored = self.fetch("models/one/model.onnx")
        self.assertEqual(stored.json["id"], digest(model))
        self.assertEqual(stored.json["external_data"]["locations"], ["a/weights.bin", "./b.data"])
        files = self.ask("GET", f"/v1/models/{digest(model)}/files").json["files"]
        self.assertEqual({file["location"]: file["sha256"] for file in files},
                         {"a/weights.bin": digest(data), "./b.data": digest(more)})
        again = self.fetch("models/one/model.onnx", 200)
        self.assertEqual(again.json["id"], digest(model))
        for content in (model, data, more):
            self.assertEqual(self.blobs(content), 1, "no second copy")
        plan = self.plan(digest(model))
        self.assertNotIn(b"weights.bin", self.ask("GET", f"/v1/plans/{plan}/devices/0/model").body)

    def test_a_plan_of_a_reference(self):
        model = layered(name="planned by reference")
        self.put("models/two/model.onnx", model)
        self.put("models/two/weights.bin", weights(33))
        body = {"model": {"url": self.url("models/two/model.onnx")}, "cluster": CLUSTER}
        answer = self.ask("POST", "/v1/plans", {**body, "validate_only": True}, 200)
        self.assertEqual(answer.json["model"], digest(model))
        self.ask("GET", f"/v1/models/{digest(model)}", expect=404)
        answer = self.ask("POST", "/v1/plans", body, 200, Prefer="wait=60")
        self.assertEqual((answer.json["state"], answer.json["model"]), ("succeeded", digest(model)))
        self.assertIn(b"device-0.onnx.data", self.ask("GET", f"/v1/plans/{answer.json['id']}/devices/0/model").body)

    def test_addresses_that_are_refused(self):
        self.put("private/model.onnx", layered(name="private"))
        self.put("of/other/model.onnx", layered(name="of another tenant"))
        for key in ("private/model.onnx", "of/other/model.onnx", "of//model.onnx", "models-/x", "models"):
            self.problem("POST", "/v1/models", {"model": {"url": self.url(key)}}, (403, 422))
        for key in ("private/model.onnx", "of/other/model.onnx"):
            self.refused(key, 403, "SOURCE_NOT_ALLOWED")
        for key in ("models/../private/model.onnx", "models/./x", "models//x", "models/%2e%2e/private/model.onnx", "models/x?y",
                    "models/", "models/x" * 200):
            self.refused(key, 422, "BAD_REFERENCE")
        for url in ("https://127.0.0.1/model.onnx", "http://169.254.169.254/", "file:///etc/passwd", ""):
            self.problem("POST", "/v1/models", {"model": {"url": url}}, 422, "BAD_REFERENCE")
        self.problem("POST", "/v1/models", {"model": {"url": self.url("models/x"), "more": 1}}, 422, "BAD_REFERENCE")

    def test_weights_that_lead_out_of_the_folder(self):
        self.put("models/secret.bin", weights(34))
        model = layered("../secret.bin", "leads out")
        self.put("models/three/model.onnx", model)
        answer = self.problem("POST", "/v1/models", {"model": {"url": self.url("models/three/model.onnx")}}, 422)
        self.assertIn(answer.json["code"], ("BAD_LOCATION", "EXTERNAL_DATA_LOCATION"), answer.json)
        self.ask("GET", f"/v1/models/{digest(model)}", expect=404)

    def test_what_is_not_there(self):
        self.refused("models/none.onnx", 422, "SOURCE_NOT_FOUND")
        model = layered("absent.bin", "without its weights")
        self.put("models/four/model.onnx", model)
        self.refused("models/four/model.onnx", 422, "SOURCE_NOT_FOUND")
        self.ask("GET", f"/v1/models/{digest(model)}", expect=404)
        self.put("models/empty.onnx", b"")
        self.refused("models/empty.onnx", 422, "SOURCE_EMPTY")
        self.put("models/wrong.onnx", b"this is no model")
        self.fetch("models/wrong.onnx", (400, 422))


class Kept(Fetched):
    """The same, with files of models as objects."""

    with_objects = True


class Small(Fetched):
    more = ("--max-upload", "60000")

    def test_a_file_that_is_too_large(self):
        model = layered(name="with large weights")
        self.put("models/large/model.onnx", model)
        self.put("models/large/weights.bin", weights(35))
        self.refused("models/large/model.onnx", 413, "UPLOAD_TOO_LARGE")
        self.ask("GET", f"/v1/models/{digest(model)}", expect=404)


@unittest.skipIf(BLOBS == "s3", "the daemon is given another object store than that of this test")
class Tenants(DaemonCase):
    """Two tenants with a bucket in common, and the daemon's keys for all of it."""

    @classmethod
    def setUpClass(cls):
        cls.bucket = test_blobs.server.make_bucket()
        cls.folder = tempfile.TemporaryDirectory()
        cls.tokens = Tokens(cls.folder.name)
        cls.options = ("--workers", "1", "--tokens", cls.tokens.path, "--blobs-endpoint", test_blobs.proxy.endpoint,
                       "--model-sources", f"s3://{cls.bucket}/of/{{tenant}}/")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_each_has_its_own(self):
        model = layered(name="of one")
        put(self.bucket, "of/vision/model.onnx", model)
        put(self.bucket, "of/vision/weights.bin", weights(36))
        body = {"model": {"url": f"s3://{self.bucket}/of/vision/model.onnx"}}
        self.ask("POST", "/v1/models", body, 201, Authorization=f"Bearer {self.tokens.planner}")
        self.problem("POST", "/v1/models", body, 403, "SOURCE_NOT_ALLOWED", Authorization=f"Bearer {self.tokens.chief}")
        body["model"]["url"] = f"s3://{self.bucket}/of/chief/../vision/model.onnx"
        self.problem("POST", "/v1/models", body, 422, "BAD_REFERENCE", Authorization=f"Bearer {self.tokens.chief}")


class Without(DaemonCase):
    options = ("--workers", "1")

    def test_no_source(self):
        self.problem("POST", "/v1/models", {"model": {"url": "s3://bucket/model.onnx"}}, 403, "SOURCE_NOT_ALLOWED")


# The suites of others are run where they stand.
for suite in (Fetched, Kept, Small):
    for name in [name for name in dir(test_model_files.Files) if name.startswith("test_")]:
        setattr(suite, name, None)
for name in [name for name in vars(Fetched) if name.startswith("test_") and getattr(Fetched, name)]:
    setattr(Small, name, None)

if __name__ == "__main__":
    unittest.main()
