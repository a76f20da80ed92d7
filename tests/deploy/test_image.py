"""The image and the list of parts, as far as they can be seen without building one (tests/deploy/image does)."""
import copy
import glob
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

import common
import libraries  # of deploy/
import spdx

PROGRAMS = [common.PROGRAM, common.CLIENT]


class Dockerfile(unittest.TestCase):
    def setUp(self):
        self.text = common.text_of("Dockerfile")
        self.last = self.text[self.text.rindex("\nFROM ") :]

    def test_what_runs(self):
        self.assertIn("\nFROM scratch\n", self.last)
        self.assertIn("\nUSER 65532:65532\n", self.last)
        self.assertNotIn("\nRUN ", self.last)
        self.assertIn('CMD ["shardpland", "--healthcheck"]', self.last)
        self.assertIn(f"\nARG VERSION={common.version()}\n", self.last)
        self.assertIn("-Db_lto=true", self.text)
        self.assertNotIn("curl", self.text)

    def test_needs_nothing_else(self):
        """What is copied in one by one is there, and .dockerignore lets through what the build needs."""
        allowed = re.findall(r"^!(\S+)$", common.text_of(".dockerignore"), re.M)
        for name in allowed:
            self.assertTrue(os.path.exists(os.path.join(common.TOP, name)), name)
        needed = {word for line in re.findall(r"^COPY (?!--from)(.+) \S+$", self.text, re.M) for word in line.split()} - {"."}
        needed |= {"deploy/image-root", "deploy/sbom", "deploy/libraries.py", "LICENSE", "meson.build", "meson_options.txt"}
        needed |= {f"{name}" for name in re.findall(r"^ *subdir\('(\w+)", common.text_of("meson.build"), re.M)} - {"tests"}
        self.assertLessEqual(needed, set(allowed))


class Packages(unittest.TestCase):
    def test_listed_once(self):
        lines = [line.split("#")[0].strip() for line in common.text_of("deploy/packages").splitlines()]
        names = [line for line in lines if line and not line.startswith("[")]
        self.assertEqual(len(names), len(set(names)), names)

    def test_sections_that_are_installed(self):
        sections = set(re.findall(r"^\[(\w+)\]", common.text_of("deploy/packages"), re.M))
        for path in ("Dockerfile", "deploy/quickstart", "tests/run"):
            for line in re.findall(r"install-packages ([a-z ]+)$", common.text_of(path), re.M):
                self.assertLessEqual(set(line.split()), sections, path)


@unittest.skipUnless(shutil.which("dpkg-query") and shutil.which("readelf"), "not a Debian system")
class Root(unittest.TestCase):
    """The file system that deploy/image-root makes of the built programs."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="shardplan-root-")
        cls.addClassCleanup(folder.cleanup)
        stage, cls.root = folder.name + "/stage", folder.name + "/root"
        os.makedirs(stage + "/usr/local/bin")
        for program, name in zip(PROGRAMS, ("shardpland", "shardplan")):
            shutil.copy(program, f"{stage}/usr/local/bin/{name}")
        done = common.run(os.path.join(common.DEPLOY, "image-root"), stage, cls.root)
        assert done.returncode == 0, done.stdout

    def test_programs_find_their_libraries(self):
        """Every library that the loader of the image maps is in the image."""
        loader = next(path for path in glob.glob(self.root + "/usr/lib*/**/ld-*.so*", recursive=True))
        folders = {os.path.dirname(path) for path in glob.glob(self.root + "/usr/lib/**/*.so*", recursive=True)}
        for name in ("shardpland", "shardplan"):
            done = subprocess.run([loader, "--library-path", ":".join(folders), "--list", f"{self.root}/usr/local/bin/{name}"],
                                  capture_output=True, text=True, check=True)  # fmt: skip
            mapped = re.findall(r"=> (\S+)", done.stdout)
            self.assertGreater(len(mapped), 3)
            self.assertEqual([], [path for path in mapped if not os.path.realpath(path).startswith(os.path.realpath(self.root))])
        links = {name: os.readlink(f"{self.root}/{name}") for name in ("lib", "lib64") if os.path.islink(f"{self.root}/{name}")}
        self.assertEqual("usr/lib", links["lib"])

    def test_nothing_changes_its_user_or_can_be_written(self):
        for folder, folders, names in os.walk(self.root):
            for name in folders + names:
                status = os.lstat(os.path.join(folder, name))
                if not stat.S_ISLNK(status.st_mode):
                    self.assertEqual(0, status.st_mode & (stat.S_ISUID | stat.S_ISGID | 0o022), name)

    def test_runs_there(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        done = common.run("chroot", "--userspec=65532:65532", self.root, "/usr/local/bin/shardpland", "--version")
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertIn(common.version(), done.stdout)

    def test_papers(self):
        packages = set(os.listdir(self.root + "/var/lib/dpkg/status.d"))
        for package in packages:
            self.assertTrue(os.path.getsize(f"{self.root}/usr/share/doc/{package}/copyright"))
        with open(self.root + "/usr/share/doc/shardplan/sbom.spdx.json", encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual(packages, spdx.of_debian(document))
        for path in ("LICENSE", "server/dashboard/THIRD_PARTY.txt"):
            there = f"{self.root}/usr/share/doc/shardplan/{os.path.basename(path)}"
            self.assertTrue(os.path.exists(there), there)
            self.assertEqual(common.text_of(path), common.text_of(there))


@unittest.skipUnless(shutil.which("dpkg-query") and shutil.which("readelf"), "not a Debian system")
class Parts(unittest.TestCase):
    """deploy/sbom."""

    @classmethod
    def setUpClass(cls):
        cls.text = cls.write()
        cls.document = json.loads(cls.text)

    @staticmethod
    def write():
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        return subprocess.run([os.path.join(common.DEPLOY, "sbom"), *PROGRAMS], capture_output=True, text=True, check=True, env=environment).stdout

    def test_rules_of_spdx(self):
        self.assertEqual([], spdx.problems(self.document))
        self.assertEqual("2023-11-14T22:13:20Z", self.document["creationInfo"]["created"])

    def test_says_the_same_again(self):
        self.assertEqual(self.text, self.write())

    def test_every_library(self):
        """Each library that a program asks for belongs to a package of the list, in the version that is installed."""
        packages = {entry["name"]: entry for entry in self.document["packages"]}
        mapped = libraries.closure(*PROGRAMS)
        owners = libraries.owners(mapped)
        asked = {name for program in PROGRAMS for name in libraries.needed(program)}
        self.assertGreater(len(asked), 8)
        self.assertLessEqual(asked, set(owners))
        for name, package in owners.items():
            self.assertIn(package, packages, name)
            self.assertEqual(libraries.describe(package)["Version"], packages[package]["versionInfo"])
        links = {(one["spdxElementId"], one["relatedSpdxElement"]) for one in self.document["relationships"]
                 if one["relationshipType"] == "DYNAMIC_LINK"}  # fmt: skip
        for program in PROGRAMS:
            for name in libraries.needed(program):
                self.assertIn((f"SPDXRef-File-{os.path.basename(program)}", packages[owners[name]]["SPDXID"]), links)

    def test_checksums(self):
        for program, entry in zip(sorted(PROGRAMS, key=os.path.basename), self.document["files"]):
            done = common.run("sha256sum", program)
            self.assertIn({"algorithm": "SHA256", "checksumValue": done.stdout.split()[0]}, entry["checksums"])

    def test_licences(self):
        """Most libraries say their licence so that machines can read it; one that is known, as known."""
        declared = {entry["name"]: entry["licenseDeclared"] for entry in self.document["packages"]}
        known = [name for name, licence in declared.items() if licence != "NOASSERTION"]
        self.assertGreater(len(known), len(declared) / 2)
        self.assertEqual("MIT", declared["libjansson4"])
        self.assertEqual("Apache-2.0", declared["shardplan"])
        self.assertIn("LGPL-2.1-or-later", declared[next(name for name in declared if name.startswith("libmicrohttpd"))])

    def test_the_rules_find_what_is_wrong(self):
        def damaged(change):
            document = copy.deepcopy(self.document)
            change(document)
            return spdx.problems(document)

        for name, change in {
            "version": lambda d: d.update(spdxVersion="SPDX-2.2"),
            "date": lambda d: d["creationInfo"].update(created="today"),
            "namespace": lambda d: d.update(documentNamespace="shardplan#1"),
            "identifier": lambda d: d["packages"][1].update(SPDXID="libc6"),
            "twice": lambda d: d["packages"].append(d["packages"][1]),
            "licence": lambda d: d["packages"][1].update(licenseDeclared="MIT OR"),
            "unknown licence": lambda d: d["packages"][1].update(licenseDeclared="Mine-1.0"),
            "text": lambda d: d.pop("hasExtractedLicensingInfos"),
            "checksum": lambda d: d["files"][0]["checksums"][0].update(checksumValue="0"),
            "code": lambda d: d["packages"][0].pop("packageVerificationCode"),
            "relationship": lambda d: d["relationships"][0].update(relatedSpdxElement="SPDXRef-gone"),
            "describes": lambda d: d["relationships"].pop(0),
            "purl": lambda d: d["packages"][1]["externalRefs"][0].update(referenceLocator="pkg:deb/x"),
            "supplier": lambda d: d["packages"][1].update(supplier="Debian"),
            "checksum of a package": lambda d: d["packages"][-1]["checksums"][0].update(checksumValue="0"),
            "unknown checksum": lambda d: d["packages"][-1]["checksums"][0].update(algorithm="SHA-512"),
            "purl of npm": lambda d: d["packages"][-1]["externalRefs"][0].update(referenceLocator="pkg:npm/@a/b@1"),
        }.items():
            with self.subTest(name):
                self.assertNotEqual([], damaged(change))


if __name__ == "__main__":
    unittest.main()
