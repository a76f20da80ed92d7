"""What the daemon's web page has of others: the texts of its licences, and the page's packages in the list of parts."""
import base64
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import common

PAGE = "server/dashboard"
TEXTS = f"{PAGE}/THIRD_PARTY.txt"
SECTION = re.compile(r"^={100}\n(\S+) (\S+)\nLicence: (.+)\nHome: (.+)\n\n", re.M)
# A statement or a call; the package is the first part of what it names, or the first two with a scope.
IMPORT = re.compile(r"""(?:^(?:import|export|\})[^'"\n]*\bfrom\s*|^import\s*|\bimport\(\s*)['"]((?:@[\w.-]+/)?[\w-][\w.-]*)[/'"]""", re.M)
# What a licence's text says and no other's of these does, and what it must not say.
SAYS = {
    "MIT": ("the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell", None),
    "ISC": ("with or without fee is hereby granted, provided that the above copyright notice", None),
    "0BSD": ("with or without fee is hereby granted.", "provided that"),
    "BSD-2-Clause": ("Redistributions in binary form must reproduce the above copyright notice", "Neither the name"),
    "BSD-3-Clause": ("Neither the name", "All advertising materials"),
    "Apache-2.0": ("Apache License Version 2.0, January 2004", None),
}


def licence_of(text):
    """The licences that the words are those of."""
    words = re.sub(r"\s+", " ", text)
    return [name for name, (says, not_this) in SAYS.items() if says in words and not (not_this and not_this in words)]


def sections():
    """{name and version: (licence, text)} of the file of licences."""
    head, *pieces = SECTION.split(common.text_of(TEXTS))
    assert head.strip(), "the file says nothing of itself"
    return {(pieces[at], pieces[at + 1]): (pieces[at + 2], pieces[at + 4]) for at in range(0, len(pieces), 5)}


def reached():
    """{name and version: entry of the lock file} of the packages that the page asks for, those that they ask for, and so on;
    what is there for development is not reached."""
    places = json.loads(common.text_of(PAGE, "package-lock.json"))["packages"]
    found, waiting = {}, [("", name) for name in places[""]["dependencies"]]
    while waiting:
        place, name = waiting.pop()
        # As Node looks for it: in the folder of the one that asks, and then further out.
        while f"{place}node_modules/{name}" not in places:
            assert place, f"{name} is not in the lock file"
            place = place[: place.rstrip("/").rfind("node_modules/")]
        inner = f"{place}node_modules/{name}"
        about = places[inner]
        if (name, about["version"]) not in found:
            found[name, about["version"]] = about
            waiting += [(inner + "/", other) for other in about.get("dependencies", {})]
    return found


class Licences(unittest.TestCase):
    """THIRD_PARTY.txt; tests/dashboard has it made anew and compares."""

    def test_every_package(self):
        self.assertEqual(set(reached()), set(sections()))
        self.assertIn("preact", {name for name, _ in sections()})

    def test_texts(self):
        """Each text is that of the licence that is told, and says whose the copyright is."""
        for (name, version), (licence, text) in sections().items():
            with self.subTest(name):
                self.assertEqual([licence], licence_of(text))
                self.assertEqual(licence, reached()[name, version]["license"])
                self.assertRegex(text, r"Copyright (\(c\)|©)? ?\d{4}")
                self.assertIn("AS IS", text)

    def test_sources_ask_for_nothing_else(self):
        """What the page's sources import are packages that are told, not those for development."""
        asked = set()
        for path in glob.glob(os.path.join(common.TOP, PAGE, "src/**/*.ts*"), recursive=True):
            asked |= {match[1] for match in IMPORT.finditer(common.text_of(path))}
        self.assertLessEqual({"preact", "uplot", "@dagrejs/dagre"}, asked)
        self.assertLessEqual(asked, {name for name, _ in sections()})

    def test_installed(self):
        """`meson install` takes the texts along with the daemon."""
        build = os.path.dirname(os.path.dirname(common.PROGRAM))
        if not shutil.which("meson") or not os.path.exists(build + "/build.ninja"):
            self.skipTest("the daemon was not built by Meson here")
        with tempfile.TemporaryDirectory(prefix="shardplan-installed-") as folder:
            done = common.run("meson", "install", "-C", build, "--no-rebuild", "--destdir", folder)
            self.assertEqual(0, done.returncode, done.stdout)
            found = glob.glob(folder + "/**/share/doc/shardplan/THIRD_PARTY.txt", recursive=True)
            self.assertEqual(1, len(found), done.stdout)
            self.assertEqual(common.text_of(TEXTS), common.text_of(found[0]))
            self.assertTrue(glob.glob(folder + "/**/bin/shardpland", recursive=True))


@unittest.skipUnless(shutil.which("node"), "Node is not installed")
class Script(unittest.TestCase):
    """server/dashboard/third_party.mjs, on packages that are made up."""

    def write(self, pinned, **packages):
        """What it prints for these {place: (package.json, {file: text})}, and its status."""
        with tempfile.TemporaryDirectory(prefix="shardplan-licences-") as folder:
            shutil.copy(os.path.join(common.TOP, PAGE, "third_party.mjs"), folder)
            for name, (about, files) in packages.items():
                place = f"{folder}/node_modules/{name}"
                os.makedirs(place)
                for file_name, text in {"package.json": json.dumps({"name": name, **about}), **files}.items():
                    with open(f"{place}/{file_name}", "w", encoding="utf-8", newline="") as file:
                        file.write(text)
            with open(folder + "/package-lock.json", "w", encoding="utf-8") as file:
                json.dump({"packages": {"": {}, **{f"node_modules/{name}": entry for name, entry in pinned.items()}}}, file)
            return common.run("node", folder + "/third_party.mjs")

    def test_refuses(self):
        about, files = {"version": "1.0.0", "license": "MIT"}, {"LICENSE": "words"}
        for what, given, expected in (
            ("no text", (about, {"README.md": "MIT"}), "one 1.0.0 has no file with the text of its licence"),
            ("empty text", (about, {"LICENSE": "\n"}), "one 1.0.0 has no file with the text of its licence"),
            ("only a notice", (about, {"NOTICE": "words"}), "one 1.0.0 has no file with the text of its licence"),
            ("licence", ({**about, "license": "GPL-3.0-only"}, files), 'one 1.0.0 has the licence "GPL-3.0-only"'),
            ("no licence", ({"version": "1.0.0"}, files), "one 1.0.0 has the licence undefined"),
            ("version", ({**about, "version": "1.0.1"}, files), "one is there in version 1.0.1, and 1.0.0 is pinned"),
        ):
            with self.subTest(what):
                done = self.write({"one": {"version": "1.0.0"}}, one=given)
                self.assertEqual(1, done.returncode)
                self.assertIn(f"third_party: {expected}", done.stdout)
        done = self.write({"one": {"version": "1.0.0"}})
        self.assertIn("third_party: node_modules/one is not there", done.stdout)

    def test_writes(self):
        """Sorted by name, without what is for development, each text with every file that belongs to it."""
        done = self.write({"two": {"version": "2.0.0"}, "one": {"version": "1.0.0"}, "tool": {"version": "3.0.0", "dev": True}},
                          one=({"version": "1.0.0", "license": "ISC", "repository": "a/b"}, {"LICENCE.md": "\r\nfirst \r\n"}),
                          two=({"version": "2.0.0", "license": "Apache-2.0", "homepage": "https://two.example"},
                               {"NOTICE": "second\n", "LICENSE": "third\n", "licenses.js": "code"}))  # fmt: skip
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertEqual(["", "one", "1.0.0", "ISC", "https://github.com/a/b", "first\n\n",
                          "two", "2.0.0", "Apache-2.0", "https://two.example", "third\n\nsecond\n"],
                         ["", *SECTION.split(done.stdout)[1:]])  # fmt: skip


@unittest.skipUnless(shutil.which("dpkg-query") and shutil.which("readelf"), "not a Debian system")
class Parts(unittest.TestCase):
    """deploy/sbom: the packages that the page has code of."""

    @staticmethod
    def write(*programs):
        done = subprocess.run([os.path.join(common.DEPLOY, "sbom"), *programs], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    @staticmethod
    def of_npm(document):
        """{name and version: entry}"""
        return {(entry["name"], entry["versionInfo"]): entry for entry in document["packages"]
                if any("pkg:npm/" in one["referenceLocator"] for one in entry.get("externalRefs", []))}  # fmt: skip

    @classmethod
    def setUpClass(cls):
        cls.document = cls.write(common.PROGRAM, common.CLIENT)
        cls.found = cls.of_npm(cls.document)

    def test_every_package(self):
        """Those of the lock file, from where and with the bytes that it pins, and the licences that their texts are of."""
        self.assertEqual(set(reached()), set(self.found))
        for (name, version), about in reached().items():
            entry = self.found[name, version]
            with self.subTest(name):
                sums = {one["algorithm"]: bytes.fromhex(one["checksumValue"]) for one in entry["checksums"]}
                self.assertEqual(about["integrity"], "sha512-" + base64.b64encode(sums["SHA512"]).decode())
                text = licence_of(sections()[name, version][1])
                self.assertEqual(text * 2, [entry["licenseDeclared"], entry["licenseConcluded"]])
                self.assertRegex(entry["downloadLocation"], rf"^https://\S+/{name}/-/[^/@]+-{re.escape(version)}\.tgz$")
                purl = "pkg:npm/" + name.replace("@", "%40") + "@" + version
                self.assertEqual([purl], [one["referenceLocator"] for one in entry["externalRefs"]])

    def holders(self, document):
        """{identifier of a package: identifiers of what contains it}"""
        found = {}
        for one in document["relationships"]:
            if one["relationshipType"] == "CONTAINS":
                found.setdefault(one["relatedSpdxElement"], set()).add(one["spdxElementId"])
        return found

    def test_the_daemon_contains_them(self):
        holders = self.holders(self.document)
        for entry in self.found.values():
            self.assertEqual({"SPDXRef-Package-shardplan", "SPDXRef-File-shardpland"}, holders.get(entry["SPDXID"]), entry["name"])

    def test_who_has_the_page(self):
        """The program that the list says has the page is the one with the names of the page's files in it."""
        names = os.listdir(os.path.join(common.TOP, PAGE, "dist/assets"))
        self.assertTrue(names)
        holders = self.holders(self.document)
        for program in (common.PROGRAM, common.CLIENT):
            with open(program, "rb") as file:
                content = file.read()
            has = {f"SPDXRef-File-{os.path.basename(program)}" in holders[entry["SPDXID"]] for entry in self.found.values()}
            self.assertEqual({b"./assets/" in content}, has, program)
            self.assertEqual({}, {} if has == {True} else self.of_npm(self.write(program)), program)


if __name__ == "__main__":
    unittest.main()
