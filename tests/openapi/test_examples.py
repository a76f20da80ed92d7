#!/usr/bin/env python3
"""The examples for pipelines, run as they stand against the real daemon: the script, and the steps of the workflow."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/api"))
sys.dont_write_bytecode = True

import daemon  # noqa: E402

FOLDER = os.path.join(TOP, "api/examples/pipeline")
SCRIPT = os.path.join(FOLDER, "plan.sh")
LLAMA = os.path.join(os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(TOP, "../shared/data")), "models/llama_tiny_dyn.onnx")
SHARDPLAN = os.environ.get("SHARDPLAN", os.path.join(TOP, "build/sanitized/api/cli/shardplan"))
SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]


def make_token(folder):
    """A file of tokens with one principal, and the token."""
    made = subprocess.run([daemon.PROGRAM, "token", "ci", "--tenant", "ci", "--scopes", "read,plan"], check=True,
                          capture_output=True, text=True).stdout
    entry = json.loads(made[made.index("{"):made.rindex("}") + 1])
    digest = entry["token_sha256"]
    token = next(word for word in re.findall(r"\S+", made) if hashlib.sha256(word.encode()).hexdigest() == digest)
    path = os.path.join(folder, "tokens.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"principals": [entry]}, file)
    return path, token


class Examples(unittest.TestCase):
    """A daemon that asks for a token."""

    @classmethod
    def setUpClass(cls):
        cls.keep = tempfile.TemporaryDirectory(prefix="shardplan-examples-")
        cls.addClassCleanup(cls.keep.cleanup)
        tokens, cls.token = make_token(cls.keep.name)
        cls.daemon = daemon.Daemon("--workers", "1", "--tokens", tokens)
        cls.daemon.token = cls.token
        cls.daemon.start()
        cls.addClassCleanup(cls.daemon.close)
        cls.url = f"http://127.0.0.1:{cls.daemon.port}"
        cls.model = os.path.join(cls.keep.name, "model.onnx")
        subprocess.run([sys.executable, os.path.join(FOLDER, "export_model.py"), cls.model], check=True)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="shardplan-example-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SHARDPLAN")}
        return {**kept, "no_proxy": "127.0.0.1", "SHARDPLAN_SERVER": self.url, "SHARDPLAN_TOKEN": self.token,
                "RETRIES": "0", "TMPDIR": self.folder, **more}

    def plan(self, status=0, shell="dash", **more):
        done = subprocess.run([shell, SCRIPT, more.pop("model", self.model), os.path.join(self.folder, "out.onnx")],
                              capture_output=True, text=True, env=self.environment(**more), timeout=daemon.PATIENCE,
                              check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertNotIn(self.token, done.stdout + done.stderr)
        files = os.listdir(self.folder)
        self.assertEqual(sorted(files), ["out.onnx", "out.onnx.plan.json"] if status == 0 else [], "what is left behind")
        return done

    def good(self, path):
        """An annotated model and its plan, as the pipeline leaves them."""
        checked = subprocess.run([SHARDPLAN, "check", path], capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout)
        stripped = path + ".stripped"
        subprocess.run([SHARDPLAN, "strip", path, "-o", stripped], check=True)
        with open(stripped, "rb") as file, open(path + ".plan.json", encoding="utf-8") as plan:
            self.assertEqual(hashlib.sha256(file.read()).hexdigest(), json.load(plan)["model"]["sha256"])

    def test_lint(self):
        for shell in SHELLS:
            subprocess.run([shell, "-n", SCRIPT], check=True)
        done = subprocess.run(["shellcheck", "--shell=sh", SCRIPT], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_plan_that_is_good(self):
        for shell in SHELLS:
            with self.subTest(shell=shell):
                done = self.plan(shell=shell, MAX_LATENCY_SECONDS="1")
                self.assertIn("Estimate ", done.stdout)
                self.good(os.path.join(self.folder, "out.onnx"))
                for name in os.listdir(self.folder):
                    os.remove(os.path.join(self.folder, name))

    def test_what_stops_a_pipeline(self):
        text, small = os.path.join(self.keep.name, "text.onnx"), os.path.join(self.keep.name, "small.json")
        with open(text, "w", encoding="utf-8") as file:
            file.write("no model\n")
        with open(small, "w", encoding="utf-8") as file:
            json.dump({"device": {"name": "small", "memory_bytes": 1e5, "memory_bandwidth": 1e9,
                                  "flops": {"float32": 1e9}, "link_bandwidth": 1e9}, "count": 1}, file)
        for status, said, more in (
                (1, "the latency is ", {"MAX_LATENCY_SECONDS": "1e-9"}),
                (1, "device 0 would be full to 0 %", {"MAX_MEMORY_SHARE": "1e-9"}),
                (2, "must be numbers", {"MAX_MEMORY_SHARE": "half"}),
                (2, "[UNKNOWN_DEVICE]", {"DEVICE": "abacus"}),
                (2, "DEVICES must be a number", {"DEVICES": "some"}),
                (2, "[NOT_ONNX]", {"model": text}),
                (2, "cannot read", {"model": text + "x"}),
                (2, "SHARDPLAN_SERVER is not set", {"SHARDPLAN_SERVER": ""}),
                (3, "[", {"CLUSTER": small}),
                (4, "[UNAUTHENTICATED]", {"SHARDPLAN_TOKEN": ""}),
                (4, "[UNAUTHENTICATED]", {"SHARDPLAN_TOKEN": "another"}),
                (4, "no answer", {"SHARDPLAN_SERVER": "http://127.0.0.1:1"})):
            with self.subTest(more=more):
                self.assertIn(said, self.plan(status, **more).stderr)

    @unittest.skipUnless(os.path.isfile(LLAMA), "no ../shared/data")
    def test_a_service(self):
        workload = os.path.join(self.keep.name, "workload.json")
        with open(workload, "w", encoding="utf-8") as file:
            json.dump({"llm": {"input": 20, "output": 10}, "concurrency": 4}, file)
        asked = {"model": LLAMA, "WORKLOAD": workload}
        for name, said in (("MAX_TPOT_SECONDS", "the time per output token is "),
                           ("MAX_TTFT_SECONDS", "the time to the first token is ")):
            self.assertIn(said, self.plan(1, **asked, **{name: "1e-9"}).stderr)
            self.assertIn("need a WORKLOAD", self.plan(2, **{name: "1"}).stderr)
        self.assertIn("must be numbers", self.plan(2, **asked, MAX_TPOT_SECONDS="fast").stderr)
        self.assertIn("Users see", self.plan(**asked, MAX_TPOT_SECONDS="10", MAX_TTFT_SECONDS="10").stdout)

    def test_a_step_that_is_run_again(self):
        plans = []
        for devices in ("3", "3", "2"):
            done = self.plan(PIPELINE_RUN="7", DEVICES=devices)
            plans.append(re.search("^plan ([0-9a-f]+)$", done.stdout, re.MULTILINE)[1])
            for name in os.listdir(self.folder):
                os.remove(os.path.join(self.folder, name))
        self.assertEqual(plans[0], plans[1])
        self.assertNotEqual(plans[1], plans[2])

    def test_a_token_from_a_file(self):
        path = os.path.join(self.keep.name, "token")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.token + "\n")
        self.plan(SHARDPLAN_TOKEN="", SHARDPLAN_TOKEN_FILE=path)

    def test_the_workflow(self):
        path = os.path.join(FOLDER, "plan-model.yml")
        made = subprocess.run(["node", "yaml.mjs", path], capture_output=True, text=True, check=True,
                              cwd=os.path.dirname(os.path.abspath(__file__)))
        (job,) = json.loads(made.stdout)["jobs"].values()
        (service,) = job["services"].values()
        self.assertIn("/etc/shardplan/tokens.json", service["volumes"][0], "where the image looks for it")
        os.symlink(os.path.join(TOP, "api"), os.path.join(self.folder, "api"))  # what actions/checkout leaves there
        values = {"secrets.SHARDPLAN_TOKEN": self.token, "github.run_id": "4711"}
        variables = {name: re.sub(r"\$\{\{ *([\w.]+) *\}\}", lambda match: values[match[1]], str(value))
                     for name, value in job["env"].items()}
        # The service of the test in place of the one that the forge would start.
        self.assertIn("127.0.0.1:" + variables["SHARDPLAN_SERVER"].rsplit(":", 1)[1] + ":8080", service["ports"])
        environment = self.environment(**variables, GITHUB_STEP_SUMMARY=os.path.join(self.folder, "summary"))
        environment["SHARDPLAN_SERVER"] = self.url
        steps = [step["run"] for step in job["steps"] if "run" in step]
        self.assertEqual(len(steps), 4)
        for step in steps:
            done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", step], cwd=self.folder, env=environment,
                                  capture_output=True, text=True, timeout=daemon.PATIENCE, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn(self.token, done.stdout + done.stderr)
        for name in job["steps"][-1]["with"]["path"].split():
            self.assertTrue(os.path.getsize(os.path.join(self.folder, name)))
        self.good(os.path.join(self.folder, "annotated.onnx"))
        with open(os.path.join(self.folder, "summary"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"^stage 0: \d+ nodes on devices 0")


if __name__ == "__main__":
    unittest.main()
