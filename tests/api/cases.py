"""What the test cases share: one daemon per class, and small models."""

import os
import unittest

from daemon import TOP, Daemon
import onnx_make

CLUSTER = {"device": "a100-sxm4-80gb", "count": 2}
TINY = onnx_make.encode(onnx_make.chain(8))
MODELS = os.path.join(TOP, "tests/data")
SANITIZED = "sanitized" in os.environ.get("SHARDPLAND", "")


def model(number):
    """A small model, a different one for each number."""
    return onnx_make.encode(onnx_make.chain(8 + number, name=f"chain{number}"))


class DaemonCase(unittest.TestCase):
    options = ("--workers", "2")
    where = None  # as Daemon's `store`

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(*cls.options, store=cls.where)
        cls.daemon.start()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def ask(self, method, path, body=None, expect=200, **headers):
        """Asks, and requires the status (one, or several)."""
        names = {key.replace("_", "-"): value for key, value in headers.items()}
        answer = self.daemon.request(method, path, body, names)
        self.assertIn(answer.status, expect if isinstance(expect, tuple) else (expect,), answer)
        return answer

    def problem(self, method, path, body=None, status=422, code=None, pointer=None, **headers):
        answer = self.ask(method, path, body, status, **headers)
        if code is not None:
            self.assertEqual(answer.json["code"], code, answer)
        if pointer is not None:
            self.assertEqual([error.get("pointer") for error in answer.json["errors"]], [pointer], answer)
        self.assertTrue(answer.json["detail"].endswith((".", ")")), answer)
        return answer

    def store(self, data=TINY):
        return self.ask("POST", "/v1/models", data, (200, 201)).json["id"]

    def submit(self, data=TINY, **members):
        """Stores the model and asks for a plan of its own, also of an old question; the plan's id."""
        body = {"model": self.store(data), "cluster": CLUSTER, **members}
        return self.ask("POST", "/v1/plans", body, 202, Cache_Control="no-cache").json["id"]

    def no_temporary_files(self, patience=10):
        """Files go when the connection is done with, a moment after the answer."""
        self.daemon.wait_for(lambda: not self.temporary_files(), "the removal of temporary files", patience)

    def temporary_files(self):
        """In the folders of all daemons that used the data folder."""
        tmp = os.path.join(self.daemon.data, "tmp")
        return [name for owner in os.listdir(tmp) for name in os.listdir(os.path.join(tmp, owner))]
