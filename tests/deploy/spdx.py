"""Holds a list of parts (SPDX 2.3, JSON) to the rules of its specification that concern what deploy/sbom writes.

Clause numbers are those of the SPDX specification 2.3.
"""
import re

ID = re.compile(r"SPDXRef-[A-Za-z0-9.-]+$")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
CREATOR = re.compile(r"(Tool: \S.*|(Person|Organization): \S.*)$")
ACTOR = re.compile(r"(NOASSERTION|(Person|Organization): \S.*)$")
LENGTHS = {"SHA1": 40, "SHA256": 64, "SHA512": 128, "MD5": 32}
PURPOSES = {"APPLICATION", "FRAMEWORK", "LIBRARY", "CONTAINER", "OPERATING-SYSTEM", "DEVICE", "FIRMWARE", "SOURCE", "ARCHIVE",
            "FILE", "INSTALL", "OTHER"}  # fmt: skip
KINDS = {"DESCRIBES", "CONTAINS", "DEPENDS_ON", "DYNAMIC_LINK"}  # of clause 11's, those that are written
# Of the list of licences, every identifier that deploy/sbom may write of itself; texts without one are LicenseRefs.
LICENCES = {"0BSD", "Apache-2.0", "Beerware", "BSD-2-Clause", "BSD-3-Clause", "BSD-4-Clause-UC", "CC0-1.0", "CC-BY-4.0", "curl",
            "FSFULLR", "ISC", "MIT", "MPL-1.1", "MPL-2.0", "OLDAP-2.8", "PostgreSQL", "TCL", "X11", "Zlib"}  # fmt: skip
LICENCES |= {f"{name}-{kind}" for kind in ("only", "or-later") for name in (
    "GPL-1.0", "GPL-2.0", "GPL-3.0", "LGPL-2.0", "LGPL-2.1", "LGPL-3.0", "AGPL-3.0", "GFDL-1.1", "GFDL-1.2", "GFDL-1.3")}  # fmt: skip
PURL = re.compile(r"(pkg:deb/[a-z]+/[a-z0-9.+-]+@[A-Za-z0-9.~%+-]+\?arch=[a-z0-9]+&distro=[a-z]+-[a-z0-9.]+|"
                  r"pkg:npm/(%40[a-z0-9._~-]+/)?[a-z0-9._~-]+@\d[A-Za-z0-9.%-]*)$")  # fmt: skip


def expression_problem(text, known):
    """Annex D: identifiers joined by AND and OR, in brackets or not. `known` are the LicenseRefs that are explained."""
    tokens = re.findall(r"[()]|[^\s()]+", text)
    depth, want_name = 0, True
    for token in tokens:
        if token == "(":
            depth += 1
            wrong = not want_name
        elif token == ")":
            depth -= 1
            wrong = want_name or depth < 0
        elif token in ("AND", "OR"):
            wrong, want_name = want_name, True
        else:
            wrong, want_name = not want_name or token not in LICENCES and token not in known, False
        if wrong:
            return f"'{token}' is out of place or unknown in '{text}'"
    return f"'{text}' is not finished" if depth or want_name else None


class Checker:
    def __init__(self, document):
        self.document = document
        self.found = []
        self.known = {entry.get("licenseId") for entry in document.get("hasExtractedLicensingInfos", [])}
        elements = [*document.get("packages", []), *document.get("files", [])]
        self.ids = [document.get("SPDXID"), *(entry.get("SPDXID") for entry in elements)]

    def expect(self, condition, what):
        if not condition:
            self.found.append(what)

    def fields(self, entry, where, **patterns):
        for name, pattern in patterns.items():
            value = entry.get(name)
            ok = isinstance(value, str) and re.match(pattern, value)
            self.expect(ok, f"{where}: {name} is {value!r}")

    def licence(self, entry, name, where):
        value = entry.get(name)
        if value not in ("NOASSERTION", "NONE"):
            problem = expression_problem(value, self.known) if isinstance(value, str) else "missing"
            self.expect(problem is None, f"{where}: {name}: {problem}")

    def checksums(self, entry, where):
        """Those that there are (7.10, 8.4); returns them."""
        sums = {one["algorithm"]: one["checksumValue"] for one in entry.get("checksums", [])}
        for name, value in sums.items():
            length = LENGTHS.get(name)
            self.expect(length and re.fullmatch(r"[0-9a-f]+", value) and len(value) == length, f"{where}: {name} {value!r}")
        return sums

    def head(self):
        self.fields(self.document, "document", spdxVersion=r"SPDX-2\.3$", dataLicense=r"CC0-1\.0$",
                    SPDXID=r"SPDXRef-DOCUMENT$", name=r"\S", documentNamespace=r"https?://[^#\s]+$")  # fmt: skip
        info = self.document.get("creationInfo", {})
        self.fields(info, "creationInfo", created=TIME.pattern)
        creators = info.get("creators", [])
        self.expect(creators and all(CREATOR.match(one) for one in creators), f"creators {creators}")
        self.expect(len(self.ids) == len(set(self.ids)), "identifiers are not unique (6.3, 7.2, 8.2)")
        for one in self.ids:
            self.expect(isinstance(one, str) and ID.match(one), f"identifier {one!r}")

    def package(self, entry):
        where = f"package {entry.get('name')}"
        self.fields(entry, where, name=r"\S", versionInfo=r"\S", supplier=ACTOR.pattern, copyrightText=r"\S",
                    downloadLocation=r"(NOASSERTION|NONE|[a-z+]+://\S+)$")  # fmt: skip
        self.checksums(entry, where)
        self.expect(entry.get("primaryPackagePurpose") in PURPOSES, f"{where}: purpose (7.24)")
        self.licence(entry, "licenseDeclared", where)
        self.licence(entry, "licenseConcluded", where)
        analysed = entry.get("filesAnalyzed", True)
        code = entry.get("packageVerificationCode", {}).get("packageVerificationCodeValue", "")
        self.expect(bool(re.fullmatch(r"[0-9a-f]{40}", code)) == analysed, f"{where}: verification code (7.9)")
        self.expect(analysed or "hasFiles" not in entry and "licenseInfoFromFiles" not in entry, f"{where}: files (7.8)")
        self.expect(set(entry.get("hasFiles", [])) <= set(self.ids), f"{where}: hasFiles")
        for reference in entry.get("externalRefs", []):
            self.expect(reference.get("referenceCategory") == "PACKAGE-MANAGER" and reference.get("referenceType") == "purl"
                        and PURL.match(reference.get("referenceLocator", "")), f"{where}: {reference}")  # fmt: skip

    def file(self, entry):
        where = f"file {entry.get('fileName')}"
        self.fields(entry, where, fileName=r"\./\S", copyrightText=r"\S")
        self.licence(entry, "licenseConcluded", where)
        self.expect("SHA1" in self.checksums(entry, where), f"{where}: no SHA1 (8.4)")

    def relations(self):
        described = set()
        for one in self.document.get("relationships", []):
            ends = (one.get("spdxElementId"), one.get("relatedSpdxElement"))
            self.expect(set(ends) <= set(self.ids), f"relationship of unknown elements: {one}")
            self.expect(one.get("relationshipType") in KINDS, f"relationship: {one}")
            if one.get("relationshipType") == "DESCRIBES" and ends[0] == "SPDXRef-DOCUMENT":
                described.add(ends[1])
        self.expect(described, "the document describes nothing (11.1)")

    def texts(self):
        for entry in self.document.get("hasExtractedLicensingInfos", []):
            self.fields(entry, f"licence {entry.get('licenseId')}", licenseId=r"LicenseRef-[A-Za-z0-9.-]+$", extractedText=r"\s*\S")


def of_debian(document):
    """The names of Debian's packages."""
    return {entry["name"] for entry in document["packages"]
            if any(one["referenceLocator"].startswith("pkg:deb/") for one in entry.get("externalRefs", []))}  # fmt: skip


def problems(document):
    """Sentences; none when the document is right."""
    checker = Checker(document)
    checker.head()
    for entry in document.get("packages", []):
        checker.package(entry)
    for entry in document.get("files", []):
        checker.file(entry)
    checker.relations()
    checker.texts()
    return checker.found
