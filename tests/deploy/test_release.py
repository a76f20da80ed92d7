"""Pinning of images and the example of a pipeline, with tools that only write down how they were called."""
import os
import shutil
import stat
import subprocess
import tempfile
import unittest

import common

DIGEST = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32
FILES = ("Dockerfile", "deploy/pin-images", "deploy/ci/release", "deploy/compose/compose.yaml", "deploy/compose/compose.postgres.yaml",
         "deploy/compose/compose.s3.yaml", "deploy/helm/shardplan/values.yaml")


class Copy(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.top = os.path.join(self.folder.name, "top")
        for name in FILES:
            os.makedirs(os.path.dirname(os.path.join(self.top, name)), exist_ok=True)
            shutil.copy(os.path.join(common.TOP, name), os.path.join(self.top, name))
        self.calls = os.path.join(self.folder.name, "calls")

    def tool(self, name, body):
        path = os.path.join(self.folder.name, "bin", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\necho "{name} $*" >> {self.calls}\n{body}\n')
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def run_script(self, *command, **more):
        environment = dict(os.environ, PATH=os.path.join(self.folder.name, "bin") + ":/usr/bin:/bin", **more)
        return subprocess.run(command, cwd=self.top, env=environment, capture_output=True, text=True, check=False)

    def called(self):
        with open(self.calls, encoding="utf-8") as file:
            return file.read().splitlines()

    def text(self, name):
        with open(os.path.join(self.top, name), encoding="utf-8") as file:
            return file.read()


class Pins(Copy):
    def test_every_image_gets_its_digest_and_no_other_line_changes(self):
        self.tool("skopeo", f"echo {DIGEST}")
        before = {name: self.text(name) for name in FILES}
        self.assertEqual(self.run_script("deploy/pin-images", "--check").returncode, 1)
        self.assertEqual({name: self.text(name) for name in FILES}, before)
        done = self.run_script("deploy/pin-images")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"ARG BASE=docker.io/library/debian:bookworm-slim@{DIGEST}\n", self.text("Dockerfile"))
        images = [line for name in FILES[3:] for line in self.text(name).splitlines() if "docker.io/" in line]
        self.assertGreater(len(images), 2)
        for line in images:
            self.assertIn(f"@{DIGEST}", line)
        for name, text in before.items():
            self.assertEqual(self.text(name).replace(f"@{DIGEST}", ""), text.replace(f"@{DIGEST}", ""))
        self.assertEqual(self.run_script("deploy/pin-images", "--check").returncode, 0)
        self.tool("skopeo", f"echo {OTHER}")
        self.assertEqual(self.run_script("deploy/pin-images", "--check").returncode, 1)
        self.assertEqual(self.run_script("deploy/pin-images").returncode, 0)
        self.assertNotIn(DIGEST, self.text("Dockerfile"))
        self.assertEqual(self.text("Dockerfile").count(OTHER), 1)

    def test_what_is_no_digest_is_not_written(self):
        self.tool("skopeo", "echo latest")
        before = self.text("Dockerfile")
        self.assertNotEqual(self.run_script("deploy/pin-images").returncode, 0)
        self.assertEqual(self.text("Dockerfile"), before)


class Release(Copy):
    def setUp(self):
        super().setUp()
        self.tool("skopeo", f"echo {DIGEST}")
        self.tool("git", 'case "$1" in log) echo 1700000000;; *) echo 0123abcd;; esac')
        self.tool("docker", f'case "$1" in create) echo c1;; inspect) echo r.example/s@{OTHER};; esac')
        self.tool("cosign", "")

    def test_nothing_is_pushed_without_a_pinned_base(self):
        self.tool("trivy", "")
        before = self.text("Dockerfile").replace("@" + DIGEST, "")
        with open(os.path.join(self.top, "Dockerfile"), "w", encoding="utf-8") as file:
            file.write(before.split("@sha256:")[0] + "".join(part[64:] for part in before.split("@sha256:")[1:]))
        done = self.run_script("deploy/ci/release", "r.example/s:1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("deploy/pin-images", done.stderr)
        self.assertFalse(os.path.exists(self.calls))

    def test_what_is_scanned_is_signed_by_its_digest(self):
        self.tool("trivy", "")
        self.assertEqual(self.run_script("deploy/pin-images").returncode, 0)
        done = self.run_script("deploy/ci/release", "r.example/s:1", COSIGN_KEY="k.key")
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = self.called()
        order = [next(at for at, call in enumerate(calls) if call.startswith(start))
                 for start in ("docker build", "trivy image --exit-code 1", "docker push r.example/s:1", "cosign sign", "cosign attest")]
        self.assertEqual(order, sorted(order))
        for call in calls:
            if call.startswith("cosign"):
                self.assertIn("--key k.key", call)
                self.assertTrue(call.endswith(f"r.example/s@{OTHER}"), call)
        self.assertEqual(done.stdout.splitlines()[-1], f"r.example/s@{OTHER}")

    def test_a_finding_ends_it_before_the_push(self):
        self.tool("trivy", '[ "$1" != image ]')
        self.assertEqual(self.run_script("deploy/pin-images").returncode, 0)
        self.assertNotEqual(self.run_script("deploy/ci/release", "r.example/s:1").returncode, 0)
        self.assertFalse([call for call in self.called() if call.startswith(("docker push", "cosign"))])


if __name__ == "__main__":
    unittest.main()
