"""The dashboard as the daemon serves it: its files, their headers, who gets them, and what stays as it was at "/"."""

import os
import re
import tempfile
import unittest

from cases import DaemonCase
from daemon import TOP, Daemon
from test_auth import UNKNOWN, Tokens
from test_operation import free_port
from test_tls import TlsCase

DIST = os.path.join(TOP, "server/dashboard/dist")
ASSETS = os.path.join(DIST, "assets")
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
CODINGS = "gzip, deflate, br, zstd"
TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
POLICY = {
    "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self' data: blob:", "connect-src": "'self'",
    "worker-src": "'self'", "font-src": "'self'", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
}


def content(*path):
    with open(os.path.join(DIST, *path), "rb") as file:
        return file.read()


class Dashboard(DaemonCase):
    options = ("--workers", "1")

    def everything(self):
        """(target, headers of the request, what must come)."""
        yield "/", {"Accept": BROWSER}, content("index.html")
        for name in os.listdir(ASSETS):
            yield f"/assets/{name}", {}, content("assets", name)

    def policies(self, answer):
        given = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
        self.assertEqual(given, POLICY)
        for name, value in (("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "DENY"),
                            ("Cross-Origin-Opener-Policy", "same-origin"), ("Cross-Origin-Resource-Policy", "same-origin")):
            self.assertEqual(answer.headers.get_all(name), [value], name)
        for feature in ("camera", "microphone", "geolocation", "usb"):
            self.assertIn(f"{feature}=()", answer.headers["Permissions-Policy"])
        self.assertEqual(len(answer.headers.get_all("Cache-Control")), 1)

    def test_the_page(self):
        page = self.ask("GET", "/", Accept=BROWSER)
        self.assertEqual(page.body, content("index.html"))
        self.assertEqual(page.headers["Content-Type"], "text/html; charset=utf-8")
        self.assertEqual(page.headers["Cache-Control"], "no-cache")
        self.assertEqual(page.headers["Vary"], "Accept, Accept-Encoding")
        self.policies(page)

    def test_what_it_loads_is_there_and_allowed(self):
        """Each script and style of the page is a file that is served, and the policy has no place for what is in the page."""
        page = self.ask("GET", "/", Accept=BROWSER).text
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
        self.assertGreaterEqual(len(loaded), 2)
        for path in loaded:
            self.assertRegex(path, r"^\./assets/[^/]+$")
            answer = self.ask("GET", path[1:])
            self.assertEqual(answer.body, content("assets", os.path.basename(path)))
        for script in re.findall(r"<script[^>]*>", page):
            self.assertIn(" src=", script)
        self.assertNotIn("<style", page)
        self.assertNotRegex(page, r' (style|on\w+)="')

    def test_assets(self):
        for name in os.listdir(ASSETS):
            with self.subTest(name):
                answer = self.ask("GET", f"/assets/{name}")
                self.assertEqual(answer.body, content("assets", name))
                self.assertEqual(answer.headers["Content-Type"], TYPES[os.path.splitext(name)[1]])
                self.assertEqual(answer.headers["Cache-Control"], "public, max-age=31536000, immutable")
                self.assertEqual(answer.headers["Vary"], "Accept-Encoding")
                self.policies(answer)

    def test_who_gets_what_at_the_root(self):
        for accept, kind in ((BROWSER, "text/html"), ("text/html", "text/html"), ("*/*", "application/json"), (None, "application/json"),
                             ("application/json", "application/json"), ("text/html, application/json", "application/json"),
                             ("text/plain", "text/plain"), ("text/html;q=0.5, text/plain", "text/plain"),
                             ("text/html;q=0.5, */*", "application/json"), ("text/*", "text/plain")):
            with self.subTest(accept):
                answer = self.ask("GET", "/", **({"Accept": accept} if accept else {}))
                self.assertEqual(answer.headers["Content-Type"].split(";")[0], kind)
                self.assertEqual(answer.headers["Vary"], "Accept, Accept-Encoding")
                if kind == "application/json":
                    self.assertIn("/v1/plans/{id}", [route["path"] for route in answer.json["routes"]])

    def test_compressed(self):
        packed = 0
        for target, headers, expected in self.everything():
            for accepted, coding in ((CODINGS, "gzip"), ("gzip", "gzip"), ("*", "gzip"), ("zstd, gzip;q=0.1", "gzip"), ("br, zstd", None),
                                     ("identity", None), ("gzip;q=0", None), ("gzip;q=0.5, identity", None), ("", None)):
                with self.subTest(target=target, accepted=accepted):
                    answer = self.ask("GET", target, **headers, Accept_Encoding=accepted)
                    self.assertEqual(answer.body, expected)
                    self.assertEqual(int(answer.headers["Content-Length"]), len(answer.wire))
                    given = answer.headers["Content-Encoding"]
                    self.assertIn(given, (coding, None))
                    self.assertEqual(given is not None, coding is not None and len(answer.wire) < len(expected))
                    packed += given is not None
            if len(expected) > 2000:
                self.assertLess(len(self.ask("GET", target, **headers, Accept_Encoding="gzip").wire), len(expected) / 2)
        self.assertGreaterEqual(packed, 3 * 4)

    def test_tags(self):
        seen = set()
        for target, headers, expected in self.everything():
            plain = self.ask("GET", target, **headers)
            packed = self.ask("GET", target, **headers, Accept_Encoding="gzip")
            for answer, coding in ((plain, "identity"), (packed, "gzip")):
                with self.subTest(target=target, coding=coding):
                    tag = answer.headers["ETag"]
                    same = self.ask("GET", target, expect=304, **headers, Accept_Encoding=coding, If_None_Match=f'"x", W/{tag}')
                    self.assertEqual((same.body, same.headers["ETag"]), (b"", tag))
                    self.policies(same)
                    for name in ("Cache-Control", "Vary"):
                        self.assertEqual(same.headers[name], answer.headers[name])
                    self.assertEqual(self.ask("GET", target, **headers, Accept_Encoding=coding, If_None_Match='"x"').body, expected)
                    self.ask("GET", target, expect=412, **headers, Accept_Encoding=coding, If_Match='"x"')
            if packed.headers["Content-Encoding"] == "gzip":
                self.assertNotEqual(plain.headers["ETag"], packed.headers["ETag"])
            self.assertNotIn(plain.headers["ETag"], seen)
            seen.add(plain.headers["ETag"])

    def test_head(self):
        for target, headers, expected in self.everything():
            head, got = self.ask("HEAD", target, **headers), self.ask("GET", target, **headers)
            self.assertEqual((head.body, int(head.headers["Content-Length"])), (b"", len(expected)))
            for name in ("Content-Type", "ETag", "Cache-Control", "Vary", "Content-Security-Policy"):
                self.assertEqual(head.headers[name], got.headers[name])

    def test_what_is_not_there(self):
        name = next(name for name in os.listdir(ASSETS) if name.endswith(".js"))
        for path in ("/assets/nothing.js", f"/assets/{name}x", f"/assets/{name.swapcase()}", "/assets/index.html", "/assets/" + "a" * 47,
                     "/assets/" + "a" * 48, "/assets/a..b", "/assets/a.", "/assets/", "/assets", f"/assets/{name}/", "/index.html",
                     f"/assets/x/{name}", "/assets/a~b", "/Assets/" + name):
            with self.subTest(path):
                answer = self.problem("GET", path, status=404, code="NOT_FOUND")
                self.assertEqual(answer.headers["Cache-Control"], "no-store")
        for path in ("/assets/.hidden", "/assets/../index.html", "/assets/%2e%2e", f"/assets/{name}%00"):
            self.problem("GET", path, status=400, code="BAD_TARGET")
        self.problem("GET", f"/assets/{name}?v=1", status=400, code="UNKNOWN_PARAMETER")
        self.problem("GET", "/?x=1", status=400, code="UNKNOWN_PARAMETER", Accept=BROWSER)
        for target in ("/", f"/assets/{name}"):
            answer = self.problem("POST", target, b"x", 405, "METHOD_NOT_ALLOWED")
            self.assertEqual(answer.headers["Allow"], "GET, HEAD, OPTIONS")


class Guarded(unittest.TestCase):
    def test_it_needs_no_credentials_and_is_not_on_the_other_listener(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = Tokens(folder)
            admin = free_port()
            with Daemon("--workers", "1", "--tokens", tokens.path, "--admin-listen", f"127.0.0.1:{admin}") as daemon:
                name = os.listdir(ASSETS)[0]
                for daemon.token in (None, UNKNOWN, tokens.reader):
                    self.assertEqual(daemon.get("/", Accept=BROWSER).body, content("index.html"))
                    self.assertEqual(daemon.get(f"/assets/{name}").body, content("assets", name))
                public, daemon.port, daemon.token = daemon.port, admin, None
                answers = [daemon.get("/", Accept=BROWSER).status, daemon.get(f"/assets/{name}").status, daemon.get("/livez").status]
                daemon.port = public
                self.assertEqual(answers, [404, 404, 200])

    def test_a_page_of_another_name_gets_nothing(self):
        """Without credentials a name that somebody else has given this address (DNS rebinding) shows no dashboard."""
        with Daemon("--workers", "1") as daemon:
            for headers, status in (({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403), ({"Host": "localhost"}, 200)):
                answer = daemon.request("GET", "/", headers={"Accept": BROWSER, **headers})
                self.assertEqual(answer.status, status)


class Secure(TlsCase):
    def test_over_tls(self):
        page = self.ask("GET", "/", Accept=BROWSER, Accept_Encoding=CODINGS)
        self.assertEqual(page.body, content("index.html"))
        for name in os.listdir(ASSETS):
            self.assertEqual(self.ask("GET", f"/assets/{name}", Accept_Encoding=CODINGS).body, content("assets", name))
