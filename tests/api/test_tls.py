"""TLS: what is served, who is let in by a certificate, reloading, and what happens to those who never finish."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

from cases import TINY, DaemonCase
from certificates import Authority
from daemon import PROGRAM, Daemon
from test_auth import Tokens


def context(authority, certificate=None, key=None, least=None, most=None):
    """A client that trusts the authority and may show a certificate."""
    made = ssl.create_default_context(cafile=authority.path(authority.name))
    if certificate is not None:
        made.load_cert_chain(certificate, key)
    if least is not None:
        made.minimum_version = least
    if most is not None:
        made.maximum_version = most
    return made


class TlsCase(DaemonCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.authority = Authority(cls.folder.name)
        cls.certificate, cls.key = cls.authority.make("server")
        cls.daemon = Daemon("--workers", "1", "--tls-certificate", cls.certificate, "--tls-key", cls.key, *cls.more())
        cls.prepare()
        cls.daemon.start()

    @classmethod
    def more(cls):
        return ()

    @classmethod
    def prepare(cls):
        cls.daemon.tls = context(cls.authority)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()
        cls.folder.cleanup()

    def connect(self, client=None):
        plain = socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20)
        return (client or self.daemon.tls).wrap_socket(plain, server_hostname="127.0.0.1")

    def talk(self, data, client=None):
        """Everything that is answered, to the end of the stream."""
        with self.connect(client) as connection:
            connection.sendall(data)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        return answer

    def seen(self):
        """The certificate that is served at this moment."""
        with self.connect() as connection:
            return connection.getpeercert(binary_form=True)


class Serving(TlsCase):
    @classmethod
    def more(cls):
        return ("--tokens", Tokens(cls.folder.name).path)

    @classmethod
    def prepare(cls):
        super().prepare()
        tokens = Tokens(cls.folder.name)
        cls.daemon.token = tokens.chief

    def test_the_url_says_https(self):
        events = [json.loads(line) for line in self.daemon.log]
        self.assertEqual([event["url"][:8] for event in events if event["event"] == "listening"], ["https://"])

    def test_versions(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.connect(context(self.authority, least=version, most=version)) as connection:
                self.assertEqual(connection.version(), {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version])
        old = context(self.authority)
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises((ssl.SSLError, OSError)):
            self.connect(old)
        weak = context(self.authority, most=ssl.TLSVersion.TLSv1_2)
        weak.set_ciphers("AES128-SHA:AES256-SHA:ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")
        with self.assertRaises((ssl.SSLError, OSError)):
            self.connect(weak)

    def test_models_and_plans(self):
        identifier = self.ask("POST", "/v1/models", TINY, (200, 201)).json["id"]
        self.assertEqual(self.ask("GET", f"/v1/models/{identifier}/content").body, TINY)
        answer = self.ask("POST", "/v1/plans", {"model": identifier, "cluster": {"device": "a100-sxm4-80gb", "count": 2}}, 202)
        self.assertEqual(self.daemon.finished(answer.json["id"])["state"], "succeeded")

    def test_an_upload_that_is_refused_gets_its_answer(self):
        """Before the body is read, and in the middle of one, where the answer goes past the HTTP library."""
        self.daemon.token, token = None, self.daemon.token
        try:
            self.problem("POST", "/v1/models", b"x" * (8 << 20), 401)
        finally:
            self.daemon.token = token
        self.problem("POST", "/v1/plans/" + "0" * 32 + "/cancel", b"x" * (1 << 20), 413, "BODY_TOO_LARGE")
        for _ in range(5):
            answer = self.talk(b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                               b"Authorization: Bearer " + token.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
                               b"80000\r\n" + b"x" * 0x80000 + b"\r\n0\r\n\r\n")
            head, body = answer.split(b"\r\n\r\n", 1)
            self.assertTrue(head.startswith(b"HTTP/1.1 413 "), head)
            self.assertEqual(json.loads(body)["code"], "BODY_TOO_LARGE")

    def test_a_bare_line_feed_is_seen_within_tls(self):
        self.assertIn(b"BAD_LINE", self.talk(b"GET /livez HTTP/1.1\nHost: localhost\r\n\r\n"))

    def test_plain_text_on_a_port_with_tls(self):
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=30) as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                answer = connection.recv(65536)
            except ConnectionError:
                answer = b""
            self.assertNotIn(b"HTTP/", answer)

    def test_handshakes_that_never_finish_are_cut_off(self):
        """The deadline of the header is the one of the handshake too: 15 seconds, whatever drips in meanwhile."""
        hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
        silent, dripping = (socket.create_connection(("127.0.0.1", self.daemon.port), timeout=30) for _ in range(2))
        begin = time.monotonic()
        for byte in hello * 30:
            try:
                dripping.sendall(bytes([byte]))
            except OSError:
                break
            self.assertEqual(self.ask("GET", "/livez").status, 200)
            time.sleep(0.2)
        self.assertLess(time.monotonic() - begin, 40)  # dripping all of it takes 66
        for connection in (silent, dripping):
            try:
                self.assertEqual(connection.recv(1), b"")
            except ConnectionError:
                pass
            connection.close()


class Reload(TlsCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.second = cls.authority.make("second", rsa=True)
        cls.stranger = Authority(cls.folder.name, "other").make("stranger")

    def put(self, certificate, key, *, hang_up):
        """Puts a pair in place, and waits until the daemon has said something about it."""
        seen = len(self.daemon.log)
        for source, target in ((certificate, self.certificate), (key, self.key)):
            if source is not None:
                shutil.copy(source, target + ".new")
                os.replace(target + ".new", target)
        if hang_up:
            self.daemon.process.send_signal(signal.SIGHUP)
        return self.daemon.wait_for(
            lambda: [json.loads(line)["event"] for line in self.daemon.log[seen:] if "certificate " in line], "the reload")

    def test_reload(self):
        with open(self.certificate, "rb") as file:
            first = ssl.PEM_cert_to_DER_cert(file.read().decode())
        with open(self.second[0], "rb") as file:
            second = ssl.PEM_cert_to_DER_cert(file.read().decode())
        self.assertEqual(self.seen(), first)
        with self.connect() as held:
            # Half of a pair, and nonsense: the old one stays.
            self.assertIn("certificate not reloaded, the old one stays", self.put(self.second[0], None, hang_up=True))
            self.assertEqual(self.seen(), first)
            # The other half, found without being told.
            self.assertIn("certificate reloaded", self.put(None, self.second[1], hang_up=False))
            self.assertEqual(self.seen(), second)
            garbage = os.path.join(self.folder.name, "garbage")
            with open(garbage, "w", encoding="ascii") as file:
                file.write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            self.assertIn("certificate not reloaded, the old one stays", self.put(garbage, None, hang_up=False))
            self.assertEqual(self.seen(), second)
            # What was open goes on.
            held.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertTrue(held.recv(65536).startswith(b"HTTP/1.1 200 "))
        self.assertIn("certificate reloaded", self.put(*self.stranger, hang_up=True))
        with self.assertRaises(ssl.SSLCertVerificationError):
            self.connect()


class Certificates(TlsCase):
    """Client certificates, and no tokens: each client needs one."""

    @classmethod
    def more(cls):
        return ("--tls-client-ca", cls.authority.path("ca"))

    @classmethod
    def prepare(cls):
        cls.daemon.tls = context(cls.authority, *cls.authority.make("trainer-7", purpose="clientAuth"))

    def refused(self, client):
        """In TLS 1.3 a client learns that it was refused when it reads."""
        with self.assertRaises((ssl.SSLError, OSError)):
            answer = self.talk(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", client)
            if not answer:
                raise ConnectionResetError
            self.fail(answer)

    def test_a_certificate_is_a_principal(self):
        self.ask("POST", "/v1/models", TINY, (200, 201))
        self.assertTrue(any('"principal":"trainer-7"' in line and '"tenant":"trainer-7"' in line for line in self.daemon.log))
        self.assertEqual(self.problem("GET", "/metrics", status=403).json["code"], "INSUFFICIENT_SCOPE")

    def test_others_are_not_let_in(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            self.refused(context(self.authority, least=version, most=version))
            stranger = Authority(self.folder.name, "forger").make("trainer-7-forged", "/CN=trainer-7", "clientAuth")
            self.refused(context(self.authority, *stranger, least=version, most=version))
            self.refused(context(self.authority, self.certificate, self.key, least=version, most=version))  # of a server
            expired = self.authority.make("late", "/CN=trainer-7", "clientAuth", days=-1)
            self.refused(context(self.authority, *expired, least=version, most=version))

    def test_odd_names_are_nobody(self):
        for number, subject in enumerate(("/O=nobody", "/CN=trainer-7/CN=chief", "/CN=a b", "/CN=" + "x" * 64)):
            with self.subTest(subject):
                pair = self.authority.make(f"odd{number}", subject, "clientAuth")
                answer = self.talk(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", context(self.authority, *pair))
                expected = b"HTTP/1.1 200 " if subject.endswith("x") else b"HTTP/1.1 401 "
                self.assertTrue(answer.startswith(expected), answer)


class Both(TlsCase):
    """Tokens and client certificates: a client may have either."""

    @classmethod
    def more(cls):
        tokens = Tokens(cls.folder.name)
        tokens.entries.append({"name": "seven", "tenant": "vision", "scopes": ["read"], "certificate": "trainer-7"})
        tokens.write()
        cls.tokens = tokens
        return ("--tls-client-ca", cls.authority.path("ca"), "--tokens", tokens.path)

    def by(self, client, token, status):
        header = b"Authorization: Bearer " + token.encode() + b"\r\n" if token else b""
        answer = self.talk(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + header + b"Connection: close\r\n\r\n", client)
        self.assertTrue(answer.startswith(f"HTTP/1.1 {status} ".encode()), answer)
        return answer

    def test_either(self):
        known = context(self.authority, *self.authority.make("trainer-7", purpose="clientAuth"))
        unknown = context(self.authority, *self.authority.make("trainer-8", purpose="clientAuth"))
        self.by(None, "", 401)
        self.by(None, self.tokens.reader, 200)
        self.by(known, "", 200)
        self.by(unknown, "", 401)
        self.by(unknown, self.tokens.reader, 200)
        seen = len(self.daemon.log)
        self.by(known, self.tokens.chief, 200)
        self.daemon.wait_for(lambda: any('"principal":"seven"' in line for line in self.daemon.log[seen:]), "the certificate's principal")


class Start(unittest.TestCase):
    def refused(self, *options):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([PROGRAM, "--listen", "127.0.0.1:0", "--data", os.path.join(folder, "data"), "--log-format", "json", *options],
                                  capture_output=True, text=True, timeout=60, check=False)
        self.assertIn(done.returncode, (2, 4), done.stderr)
        return next((line for line in done.stderr.splitlines() if "not started" in line), done.stderr)

    def test_what_does_not_fit(self):
        with tempfile.TemporaryDirectory() as folder:
            authority = Authority(folder)
            certificate, key = authority.make("server")
            other = authority.make("other")[1]
            self.assertIn("--tls-key", self.refused("--tls-certificate", certificate))
            self.assertIn("--tls-certificate", self.refused("--tls-client-ca", authority.path("ca")))
            self.assertIn("does not belong", self.refused("--tls-certificate", certificate, "--tls-key", other))
            self.assertIn("cannot be read", self.refused("--tls-certificate", "/nonexistent", "--tls-key", key))
            self.assertIn("cannot be used", self.refused("--tls-certificate", key, "--tls-key", key))
            self.assertIn("client authority", self.refused("--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca", key))
