#!/usr/bin/env python3
"""The command against the real daemon, which asks for a token over TLS: every verb, with the output that it has offline,
and those that only a daemon can do. What other servers may answer is in test_client.py."""

import hashlib
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

from test_cli import ALONE, CLI, DAEMON, DEVICE, PATIENCE, RESNET, SLOW, TOP, Case, clean_environment, found, run
import onnx_make

sys.path.insert(0, os.path.join(TOP, "tests/api"))
os.environ.setdefault("SHARDPLAND", DAEMON)

import daemon  # noqa: E402

COSTS = os.path.join(TOP, "api/examples/costs.json")
CLUSTER = os.path.join(TOP, "api/examples/costs-cluster.json")
ATTENTION = os.path.join(TOP, "api/examples/attention.json")


class ServerCase(Case):
    """One daemon for the tests of a class. Everything that says who asks is in the environment."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not os.access(DAEMON, os.X_OK):
            raise unittest.SkipTest(f"{DAEMON} is not built")
        keep = tempfile.TemporaryDirectory(prefix="shardplan-cli-server-")
        cls.addClassCleanup(keep.cleanup)
        path = lambda name: os.path.join(keep.name, name)  # noqa: E731
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "1", "-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                        path("key.pem"), "-out", path("certificate.pem")], check=True, capture_output=True)
        entries = []
        for name, scopes in (("viewer", "read"), ("ci", "read,plan"), ("operator", "read,admin")):
            made = subprocess.run([DAEMON, "token", name, "--tenant", "t", "--scopes", scopes], check=True,
                                  capture_output=True, text=True).stdout
            entries.append(json.loads(made[made.index("{"):]))
            token = next(word for word in made.split()
                         if hashlib.sha256(word.encode()).hexdigest() == entries[-1]["token_sha256"])
            with open(path(name + ".token"), "w", encoding="utf-8") as file:
                file.write(token + "\n")
        with open(path("tokens.json"), "w", encoding="utf-8") as file:
            json.dump({"principals": entries}, file)
        cls.daemon = daemon.Daemon("--workers", "1", "--tls-certificate", path("certificate.pem"), "--tls-key",
                                   path("key.pem"), "--tokens", path("tokens.json"))
        cls.daemon.tls = ssl.create_default_context(cafile=path("certificate.pem"))
        cls.daemon.token = token
        cls.daemon.start()
        cls.addClassCleanup(cls.daemon.close)
        cls.variables = {"SHARDPLAN_SERVER": f"https://127.0.0.1:{cls.daemon.port}",
                         "SHARDPLAN_CA_FILE": path("certificate.pem"), "SHARDPLAN_TOKEN_FILE": path("ci.token")}
        cls.viewer = path("viewer.token")

    def there(self, *arguments, status=0, **more):
        return self.done(*arguments, status=status, environment=clean_environment(**self.variables), **more)

    def there_json(self, *arguments, **more):
        return json.loads(self.there(*arguments, "--json", **more).stdout)

    def read(self, *names):
        with open(os.path.join(self.folder, *names), "rb") as file:
            return file.read()

    def submit(self, model):
        """Plans a model on the daemon; the plan's id there."""
        done = self.there("plan", model, "--devices", "2", *ALONE, "--json")
        return re.search(rb"keeps the plan as ([0-9a-f]{32})", done.stderr)[1].decode()


class Verbs(ServerCase):
    def test_every_verb_says_what_it_says_offline(self):
        annotated, damaged = self.path("annotated.onnx"), self.file("damaged.onnx", b"\x08\x08\x3a\x02\x0a")
        self.done("plan", RESNET, "--devices", "2", *ALONE, "-o", annotated)
        plan = ["plan", RESNET, "--devices", "2", *ALONE]
        reshard = ["reshard", "--shape", "64,64", "--from", "{devices=[2,1]<=[2]}", "--to", "{devices=[1,2]<=[2]}"]
        for status, arguments in (
                (0, ["inspect", RESNET]), (0, ["inspect", RESNET, "--values", "--json"]), (0, ["inspect", COSTS]),
                (0, ["inspect", ATTENTION, "--dim", "batch=2", "--dim", "seq=8", "--json"]),
                (0, ["check", annotated]), (0, ["check", annotated, "--json", "--device", "l4-24gb"]),
                (2, ["check", damaged]), (2, ["inspect", damaged, "--json"]),
                (0, ["infer", annotated]), (0, ["infer", annotated, "--mode", "propagate", "--json"]),
                (0, plan), (0, [*plan, "--strategy", "grouping"]), (0, [*plan, "--first-fit", "--objective", "latency"]),
                (0, [*plan, "--what-if"]), (0, ["plan", RESNET, "--devices", "1,2", *ALONE]),
                (0, ["plan", RESNET, "--devices", "2", *DEVICE]),
                (0, ["plan", COSTS, "--cluster", CLUSTER]), (2, ["plan", RESNET, "--devices", "2", "--device", "abacus"]),
                (0, ["operators", "MatMul"]), (2, ["operators", "Nothing"]), (0, ["operators", "--json"]),
                (0, ["devices"]), (0, ["devices", "--json"]), (0, reshard), (0, [*reshard, "--json"]),
                (0, ["convert", "--to", "shardy", "{devices=[2,1]0,1}"]),
                (2, ["convert", "--to", "shardy", "{devices=[2,"]),
                (0, ["strip", annotated, "-o", "-"]), (0, ["export", annotated, "--format", "csv"])):
            with self.subTest(arguments=arguments):
                here, there = run(*arguments), self.there(*arguments, status=status)
                self.assertEqual(here.returncode, status, here.stderr)
                self.assertEqual(there.stdout, here.stdout)

    def test_files_of_plans(self):
        model, slow = self.file("found.onnx", found()), self.file("slow.json", SLOW)
        for name, arguments in (("model", [RESNET, "--devices", "2", *ALONE]),
                                ("found", [model, "--cluster", slow]),
                                ("costs", [COSTS, "--cluster", CLUSTER])):
            with self.subTest(name):
                self.done("plan", *arguments, "--emit", self.path(name + "-here"))
                self.there("plan", *arguments, "--emit", self.path(name + "-there"))
                files = sorted(os.listdir(self.path(name + "-here")))
                self.assertEqual(sorted(os.listdir(self.path(name + "-there"))), files)
                for file in files:
                    if file != "plan.json":
                        self.assertEqual(self.read(name + "-there", file), self.read(name + "-here", file), file)
        self.assertIn(b"COLLECTIVE_CUT", self.read("found-there", "manifest.json"))

    def test_who_may_not(self):
        variables = {**self.variables, "SHARDPLAN_TOKEN_FILE": self.viewer}
        model = self.file("m.onnx", onnx_make.encode(onnx_make.chain(5, name="who")))
        for variables, arguments, code, advice in (
                ({**variables, "SHARDPLAN_TOKEN_FILE": ""}, ["models"], "UNAUTHENTICATED", "--token-file"),
                ({**variables, "SHARDPLAN_TOKEN_FILE": "", "SHARDPLAN_TOKEN": "other"}, ["models"], "UNAUTHENTICATED",
                 "wrong, expired"),
                (variables, ["models", "upload", model], "INSUFFICIENT_SCOPE", "more rights"),
                ({**variables, "SHARDPLAN_CA_FILE": ""}, ["models"], "TLS_FAILED", "--ca-file")):
            with self.subTest(code=code):
                done = self.done(*arguments, status=4, environment=clean_environment(**variables))
                self.assertIn(f"[{code}]", done.stderr.decode())
                self.assertIn(advice, done.stderr.decode())
        self.done("models", environment=clean_environment(**variables | {"SHARDPLAN_CA_FILE": self.variables["SHARDPLAN_CA_FILE"]}))


class Kept(ServerCase):
    def test_models(self):
        content = onnx_make.encode(onnx_make.chain(6, name="kept"))
        path = self.file("kept.onnx", content)
        name = hashlib.sha256(content).hexdigest()
        self.assertEqual(self.there("models", "upload", path).stdout.decode().strip(), name)
        self.assertEqual(self.there_json("models", "upload", path, "--name", "again"),
                         {"id": name, "bytes": len(content), "stored": False})
        self.assertIn(name, [model["id"] for model in self.there_json("models")["models"]])
        self.assertRegex(self.there("models").stdout.decode(), rf"(?m)^{name[:16]} .* kept\.onnx$")
        self.assertEqual(self.there_json("models", "show", name[:12])["id"], name)
        self.assertIn(b"6", self.there("models", "show", name).stdout)
        self.there("models", "fetch", name, "-o", self.path("fetched.onnx"))
        self.assertEqual(self.read("fetched.onnx"), content)
        self.assertEqual(self.there("models", "fetch", name, "-o", "-").stdout, content)
        plan = self.submit(path)
        self.assertIn(b"[MODEL_IN_USE]", self.there("models", "delete", name, status=4).stderr)
        self.assertEqual(self.there_json("plans", "delete", plan), {"id": plan, "state": "deleted"})
        self.there("models", "delete", name)
        self.assertIn(b"[MODEL_NOT_FOUND]", self.there("models", "show", name, status=4).stderr)

    def test_plans(self):
        model = self.file("m.onnx", onnx_make.encode(onnx_make.mlp(4, 64)))
        plan = self.submit(model)
        self.assertIn(plan, [each["id"] for each in self.there_json("plans")["plans"]])
        self.assertNotIn(plan, [each["id"] for each in self.there_json("jobs")["plans"]])
        self.assertEqual(self.there_json("plans", "show", plan[:10])["state"], "succeeded")
        self.assertIn(b"Estimate", self.there("plans", "show", plan).stdout)
        for verb in ("wait", "watch", "cancel"):
            self.assertEqual(self.there("plans", verb, plan).stdout.decode().splitlines()[-1], f"{plan} succeeded")
        told = [json.loads(line) for line in self.there("jobs", "watch", plan, "--json").stdout.splitlines()]
        self.assertEqual(told[-1], {"event": "done", "data": {"id": plan, "state": "succeeded"}})
        self.there("plan", model, "--devices", "2", *ALONE, "--emit", self.path("emitted"))
        for what, file in ((["--annotated"], "annotated.onnx"), (["--simulation"], "simulation.onnx"),
                           (["--timeline"], "timeline.pftrace"), (["--plan"], "plan.json"),
                           (["--device", "1"], "device-1.onnx"),
                           (["--device", "1", "--export", "ort-collectives"], "device-1.onnx"),
                           (["--export", "simulation"], "simulation.onnx")):
            with self.subTest(what=what):
                self.there("plans", "fetch", plan, *what, "-o", self.path("fetched"))
                if file != "plan.json":
                    self.assertEqual(self.read("fetched"), self.read("emitted", file))
                else:
                    self.assertEqual(json.loads(self.read("fetched"))["id"],
                                     json.loads(self.read("emitted", file))["id"])
        self.there("plans", "fetch", plan, "--export", "ort-collectives", "-o", self.path("devices"))
        self.assertEqual(self.read("devices", "manifest.json"), self.read("emitted", "manifest.json"))
        self.there("plans", "delete", plan)
        self.assertIn(b"[PLAN_NOT_FOUND]", self.there("plans", "wait", plan, status=4).stderr)

    def test_wrong_usage_ends_with_2(self):
        plan = "0" * 32
        for arguments in (["plans", "dance"], ["plans", "show"], ["plans", "show", plan, plan], ["plans", "list", plan],
                          ["plans", "fetch", plan, "-o", "x"], ["plans", "fetch", plan, "--plan"],
                          ["plans", "fetch", plan, "--plan", "--timeline", "-o", "x"],
                          ["plans", "fetch", plan, "--export", "word", "-o", "x"],
                          ["plans", "fetch", plan, "--export", "sessions", "-o", "-"],
                          ["plans", "fetch", plan, "--export", "csv", "--device", "1", "-o", "x"],
                          ["plans", "fetch", plan, "--device", "one", "-o", "x"], ["plans", "show", plan, "--plan"],
                          ["plans", "fetch", plan, "--plan", "-o", "x", "--json"], ["jobs", "show", plan],
                          ["models", "fetch", "ab" * 32], ["models", "show", "ab" * 32, "-o", "x"],
                          ["models", "show", "ab" * 32, "--name", "x"], ["models", "upload"],
                          ["models", "upload", self.path("absent")]):
            with self.subTest(arguments=arguments):
                self.there(*arguments, status=2)
        for verb in ("models", "plans", "jobs"):
            done = self.done(verb, status=2)
            self.assertIn(b"--server", done.stderr)


class Running(ServerCase):
    """The workers are stopped, so that plans stay as they are."""

    def setUp(self):
        super().setUp()
        self.model = self.file("m.onnx", onnx_make.encode(onnx_make.mlp(4, 64, name=self.id())))
        self.there("models", "upload", self.model)  # a worker looks into it
        self.daemon.freeze()
        self.addCleanup(self.daemon.thaw)

    def started(self):
        """A command that waits for a plan, and the plan's id."""
        deadline = time.monotonic() + PATIENCE
        body = subprocess.Popen([CLI, "plan", self.model, "--devices", "2", *ALONE],
                                env=clean_environment(**self.variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lambda: (body.kill(), body.communicate()))
        while not (jobs := self.there_json("jobs")["plans"]) and time.monotonic() < deadline:
            time.sleep(0.05)
        return body, jobs[0]["id"]

    def test_an_interrupt_cancels(self):
        process, plan = self.started()
        self.assertIn(plan.encode(), self.there("jobs").stdout)
        events = 'shardplan_http_requests_in_flight{method="GET",route="/v1/plans/{id}/events"}'
        self.daemon.wait_for(lambda: self.daemon.metric(events) > 0, "the command that knows the plan's name")
        process.send_signal(signal.SIGINT)
        self.daemon.thaw()
        stdout, stderr = process.communicate(timeout=PATIENCE)
        self.assertIn(process.returncode, (0, -signal.SIGINT), stderr)
        self.assertIn(b"is being cancelled", stderr)
        # A plan that is cancelled may have found something by then, and that is shown.
        found = self.there_json("plans", "show", plan)["has_result"]
        self.assertEqual(found, process.returncode == 0 and b"Estimate" in stdout)

    def test_cancelled_by_another(self):
        process, plan = self.started()
        self.there("jobs", "cancel", plan[:8])
        self.daemon.thaw()
        _, stderr = process.communicate(timeout=PATIENCE)
        if process.returncode != 0:  # it may have been ready a moment before
            self.assertEqual(process.returncode, 4, stderr)
            self.assertIn(b"[CANCELLED]", stderr)
        self.assertEqual(self.there_json("jobs"), {"plans": []})


if __name__ == "__main__":
    unittest.main()
