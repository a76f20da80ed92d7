"""Uploads by parts: broken connections, restarts, digests, quotas, and the models that come of them."""

import base64
import concurrent.futures
import hashlib
import os
import random
import socket
import tempfile

from cases import TINY, DaemonCase, model
import onnx_make
from test_auth import Tokens


def digest(data):
    return hashlib.sha256(data).hexdigest()


def content_digest(data):
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


def large(number, size):
    """A model of about `size` bytes, most of it one weight."""
    return onnx_make.encode(onnx_make.chain(3, name=f"large{number}")) + padding(number, size)


def padding(number, size):
    """A field that readers of ONNX skip: documentation of the model, of this size."""
    text = random.Random(number).randbytes(size).hex()[:size].encode()
    length, count = b"", len(text)
    while count > 127:
        length += bytes([count & 127 | 128])
        count >>= 7
    return b"\x32" + length + bytes([count]) + text


class Uploads(DaemonCase):
    options = ("--workers", "2")

    def begin(self, data, **members):
        return self.ask("POST", "/v1/uploads", {"bytes": len(data), **members}, 201).json["id"]

    def send(self, name, data, offset, expect=200, **headers):
        return self.ask("PATCH", f"/v1/uploads/{name}", data, expect, Upload_Offset=str(offset), **headers)

    def offset(self, name):
        return int(self.ask("HEAD", f"/v1/uploads/{name}").headers["Upload-Offset"])

    def files(self):
        return os.listdir(os.path.join(self.daemon.data, "uploads"))

    def test_parts_become_a_model(self):
        data = large(1, 100000)
        answer = self.ask("POST", "/v1/uploads", {"bytes": len(data), "sha256": digest(data)}, 201)
        name = answer.json["id"]
        self.assertEqual(answer.headers["Location"], f"/v1/uploads/{name}")
        self.assertEqual((answer.json["offset"], answer.json["complete"]), (0, False))
        at = 0
        for size in (1, 70000, 10, len(data) - 70011):
            answer = self.send(name, data[at : at + size], at)
            at += size
            self.assertEqual((answer.json["offset"], int(answer.headers["Upload-Offset"])), (at, at))
            self.assertEqual(answer.json["complete"], at == len(data))
            self.assertEqual(self.offset(name), at)
        self.assertEqual(self.ask("GET", "/v1/uploads?page_size=1").json["uploads"][0]["id"], name)
        self.send(name, b"", at)
        self.problem("PATCH", f"/v1/uploads/{name}", b"x", 413, "UPLOAD_TOO_LARGE", Upload_Offset=str(at))
        answer = self.ask("POST", "/v1/models?name=by%20parts", {"upload": name}, 201)
        self.assertEqual(answer.json["id"], digest(data))
        self.assertEqual(self.ask("GET", f"/v1/models/{digest(data)}/content").body, data)
        self.problem("GET", f"/v1/uploads/{name}", None, 404, "UPLOAD_NOT_FOUND")
        self.problem("POST", "/v1/models", {"upload": name}, 404, "UPLOAD_NOT_FOUND")
        self.assertNotIn(name, self.files())
        self.no_temporary_files()

    def test_a_known_model(self):
        self.store()
        name = self.begin(TINY)
        self.send(name, TINY, 0)
        self.ask("POST", "/v1/models", {"upload": name}, 200)
        self.problem("GET", f"/v1/uploads/{name}", None, 404, "UPLOAD_NOT_FOUND")
        self.assertNotIn(name, self.files())

    def test_what_is_no_model_stays_an_upload(self):
        name = self.begin(b"no model")
        self.send(name, b"no model", 0)
        self.problem("POST", "/v1/models", {"upload": name}, 400, "NOT_ONNX")
        self.assertTrue(self.ask("GET", f"/v1/uploads/{name}").json["complete"])
        self.ask("DELETE", f"/v1/uploads/{name}", expect=204)
        self.problem("DELETE", f"/v1/uploads/{name}", None, 404, "UPLOAD_NOT_FOUND")
        self.assertNotIn(name, self.files())
        self.no_temporary_files()

    def test_wrong_offsets(self):
        data = model(3)
        name = self.begin(data)
        self.problem("PATCH", f"/v1/uploads/{name}", data, 400, "BAD_OFFSET")
        for text in ("-1", "x", "1.0", "99999999999999999999"):
            self.problem("PATCH", f"/v1/uploads/{name}", data, 400, "BAD_OFFSET", Upload_Offset=text)
        self.send(name, data[:10], 0)
        for offset in (0, 9, 11, len(data), len(data) + 5):
            answer = self.problem("PATCH", f"/v1/uploads/{name}", data[offset:][:3], 409, "OFFSET_MISMATCH", Upload_Offset=str(offset))
            self.assertEqual(answer.headers["Upload-Offset"], "10")
        self.problem("PATCH", f"/v1/uploads/{name}", data, 413, "UPLOAD_TOO_LARGE", Upload_Offset="10")
        self.assertEqual(self.offset(name), 10)
        self.problem("POST", "/v1/models", {"upload": name}, 409, "UPLOAD_INCOMPLETE")
        self.problem("PATCH", f"/v1/uploads/{'0' * 32}", b"x", 404, "UPLOAD_NOT_FOUND", Upload_Offset="0")

    def test_more_than_announced_without_a_length(self):
        name = self.begin(b"12345")
        answer = self.daemon.request("PATCH", f"/v1/uploads/{name}", iter([b"123", b"45", b"6"]),
                                     {"Upload-Offset": "0", "Transfer-Encoding": "chunked"}, chunked=True)
        self.assertEqual((answer.status, answer.json["code"]), (413, "UPLOAD_TOO_LARGE"), answer)
        self.assertLessEqual(self.offset(name), 5)

    def test_digests(self):
        data = model(4)
        name = self.begin(data, sha256=digest(b"another"))
        self.send(name, data[:-1], 0)
        self.problem("PATCH", f"/v1/uploads/{name}", data[-1:], 400, "DIGEST_MISMATCH", Upload_Offset=str(len(data) - 1))
        self.problem("GET", f"/v1/uploads/{name}", None, 404)
        self.assertNotIn(name, self.files())
        name = self.begin(data, sha256=digest(data))
        self.problem("PATCH", f"/v1/uploads/{name}", data[:50], 400, "DIGEST_MISMATCH", Upload_Offset="0",
                     Content_Digest=content_digest(b"broken"))
        self.assertEqual(self.offset(name), 0)
        self.send(name, data[:50], 0, Content_Digest=content_digest(data[:50]))
        self.problem("PATCH", f"/v1/uploads/{name}", data[50:], 400, "BAD_DIGEST", Upload_Offset="50", Repr_Digest=content_digest(data))
        self.problem("PATCH", f"/v1/uploads/{name}", data[50:], 415, "UNSUPPORTED_CODING", Upload_Offset="50", Content_Encoding="gzip")
        self.assertTrue(self.send(name, data[50:], 50).json["complete"])

    def test_wrong_announcements(self):
        for body in ({}, {"bytes": 0}, {"bytes": -1}, {"bytes": "5"}, {"bytes": 5, "sha256": "AA"}, {"bytes": 5, "other": 1}, []):
            self.problem("POST", "/v1/uploads", body, 422, "BAD_UPLOAD")
        self.problem("POST", "/v1/uploads", b"{", 400, "MALFORMED_JSON")
        self.problem("POST", "/v1/uploads", {"bytes": 1 << 60}, 413, "UPLOAD_TOO_LARGE")
        for body in ({"upload": 5}, {"upload": "0" * 32, "name": "x"}):
            self.problem("POST", "/v1/models", body, 422, "BAD_UPLOAD")
        for name in ("x", "", "A" * 32, "0" * 31):
            self.problem("POST", "/v1/models", {"upload": name}, 404, "UPLOAD_NOT_FOUND")

    def cut(self, name, data, offset, count, abruptly):
        """Sends `count` bytes of a part that says it has all the rest, and breaks the connection."""
        with socket.create_connection(("127.0.0.1", self.daemon.port)) as connection:
            if abruptly:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            head = f"PATCH /v1/uploads/{name} HTTP/1.1\r\nHost: localhost\r\nUpload-Offset: {offset}\r\nContent-Length: {len(data) - offset}\r\n\r\n"
            connection.sendall(head.encode() + data[offset : offset + count])
            if not abruptly:
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1000)

    def free_offset(self, name):
        """How far it has come, when the request that was cut off is over."""
        def look():
            at = self.offset(name)
            answer = self.ask("PATCH", f"/v1/uploads/{name}", b"", (200, 409), Upload_Offset=str(at))
            return (at,) if answer.status == 200 else None
        return self.daemon.wait_for(look, "the end of a request that was cut off")[0]

    def test_connections_that_break(self):
        random_number = random.Random(27)
        data = large(5, 3000000)
        for abruptly in (False, True):
            name = self.begin(data, sha256=digest(data))
            cuts = kept = at = 0
            while at < len(data):
                count = random_number.randrange(0, 500000)
                if cuts < 15 and count < len(data) - at:
                    self.cut(name, data, at, count, abruptly)
                    now = self.free_offset(name)
                    self.assertTrue(at <= now <= at + count, (at, now, count))
                    kept += now - at
                    at = now
                    cuts += 1
                else:
                    at = self.send(name, data[at:], at).json["offset"]
            self.assertGreater(cuts, 5)
            if not abruptly:
                self.assertGreater(kept, 100000, "what has come stays")
            upload = self.ask("GET", f"/v1/uploads/{name}").json
            self.assertEqual((upload["complete"], upload["sha256"]), (True, digest(data)))
            self.ask("POST", "/v1/models", {"upload": name}, (200, 201))

    def test_two_at_a_time(self):
        """Of many requests for one place each time one is taken, and nothing is mixed."""
        data = large(6, 200000)
        name = self.begin(data, sha256=digest(data))

        def push(number):
            mine = random.Random(number)
            while True:
                upload = self.daemon.request("GET", f"/v1/uploads/{name}").json
                at = upload["offset"]
                if upload["complete"]:
                    return
                self.ask("PATCH", f"/v1/uploads/{name}", data[at : at + mine.randrange(1, 40000)], (200, 409), Upload_Offset=str(at))

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(push, number) for number in range(4)]:
                done.result()
        self.assertEqual(self.ask("GET", f"/v1/uploads/{name}").json["sha256"], digest(data))

    def test_deleted_while_a_part_comes(self):
        name = self.begin(b"1234567890")
        with socket.create_connection(("127.0.0.1", self.daemon.port)) as connection:
            head = f"PATCH /v1/uploads/{name} HTTP/1.1\r\nHost: localhost\r\nUpload-Offset: 0\r\nContent-Length: 10\r\n\r\n"
            connection.sendall(head.encode() + b"12345")
            self.daemon.wait_for(lambda: self.offset(name) == 5, "half of the part")
            self.problem("PATCH", f"/v1/uploads/{name}", b"67890", 409, "UPLOAD_BUSY", Upload_Offset="5")
            self.ask("DELETE", f"/v1/uploads/{name}", expect=204)
            connection.sendall(b"67890")
            self.assertIn(b" 404 ", connection.recv(1000))
        self.assertNotIn(name, self.files())


class Restarts(DaemonCase):
    options = ("--workers", "1")

    def test_an_upload_survives_restarts(self):
        data = large(7, 500000)
        name = self.ask("POST", "/v1/uploads", {"bytes": len(data), "sha256": digest(data)}, 201).json["id"]
        at = 0
        for round_number in range(4):
            count = len(data) // 4 if round_number < 3 else len(data) - at
            self.ask("PATCH", f"/v1/uploads/{name}", data[at : at + count], 200, Upload_Offset=str(at))
            at += count
            (self.daemon.kill if round_number % 2 == 0 else self.daemon.stop)()
            self.daemon.start()
            self.assertEqual(int(self.ask("HEAD", f"/v1/uploads/{name}").headers["Upload-Offset"]), at)
        self.assertEqual(self.ask("POST", "/v1/models", {"upload": name}, 201).json["id"], digest(data))

    def test_killed_in_the_middle_of_parts(self):
        data = large(8, 4000000)
        name = self.ask("POST", "/v1/uploads", {"bytes": len(data), "sha256": digest(data)}, 201).json["id"]
        for number in range(3):
            at = int(self.ask("HEAD", f"/v1/uploads/{name}").headers["Upload-Offset"])
            with socket.create_connection(("127.0.0.1", self.daemon.port)) as connection:
                head = f"PATCH /v1/uploads/{name} HTTP/1.1\r\nHost: localhost\r\nUpload-Offset: {at}\r\nContent-Length: {len(data) - at}\r\n\r\n"
                connection.sendall(head.encode() + data[at : at + 300000 * (number + 1)])
                self.daemon.kill()
            self.daemon.start()
        at = int(self.ask("HEAD", f"/v1/uploads/{name}").headers["Upload-Offset"])
        answer = self.ask("PATCH", f"/v1/uploads/{name}", data[at:], 200, Upload_Offset=str(at))
        self.assertTrue(answer.json["complete"])
        self.ask("DELETE", f"/v1/uploads/{name}", expect=204)

    def test_orphans_are_swept(self):
        path = os.path.join(self.daemon.data, "uploads", "0" * 32)
        with open(path, "wb") as file:
            file.write(b"left over")
        name = self.ask("POST", "/v1/uploads", {"bytes": 9}, 201).json["id"]
        self.ask("PATCH", f"/v1/uploads/{name}", b"123", 200, Upload_Offset="0")
        self.daemon.stop()
        self.daemon.start()
        self.assertFalse(os.path.exists(path))
        self.assertEqual(int(self.ask("HEAD", f"/v1/uploads/{name}").headers["Upload-Offset"]), 3)


class Quotas(DaemonCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="shardpland-tokens-")
        tokens = Tokens(cls.folder.name)
        cls.secrets = {name: tokens.add(name, "--tenant", name) for name in ("a", "b")}
        tokens.write()
        cls.options = ("--workers", "1", "--tokens", tokens.path, "--tenant-bytes", "100000", "--max-store", "300000")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def as_tenant(self, name):
        self.daemon.token = self.secrets[name]

    def test_uploads_count_from_the_first_byte(self):
        self.as_tenant("a")
        first = self.ask("POST", "/v1/uploads", {"bytes": 60000}, 201).json["id"]
        self.problem("POST", "/v1/uploads", {"bytes": 60000}, 429, "QUOTA_BYTES")
        self.problem("POST", "/v1/models", large(9, 60000), 429, "QUOTA_BYTES")
        self.as_tenant("b")
        self.assertEqual(self.ask("GET", "/v1/uploads").json["uploads"], [])
        for method in ("GET", "DELETE"):
            self.problem(method, f"/v1/uploads/{first}", None, 404, "UPLOAD_NOT_FOUND")
        self.problem("PATCH", f"/v1/uploads/{first}", b"x", 404, "UPLOAD_NOT_FOUND", Upload_Offset="0")
        self.problem("POST", "/v1/models", {"upload": first}, 404, "UPLOAD_NOT_FOUND")
        second = self.ask("POST", "/v1/uploads", {"bytes": 60000}, 201).json["id"]
        self.ask("DELETE", f"/v1/uploads/{second}", expect=204)
        self.as_tenant("a")
        self.ask("DELETE", f"/v1/uploads/{first}", expect=204)
        data = large(10, 80000)
        name = self.ask("POST", "/v1/uploads", {"bytes": len(data)}, 201).json["id"]
        self.ask("PATCH", f"/v1/uploads/{name}", data, 200, Upload_Offset="0")
        self.assertEqual(self.ask("POST", "/v1/models", {"upload": name}, 201).json["id"], digest(data), "it does not count twice")
        self.problem("POST", "/v1/uploads", {"bytes": 60000}, 429, "QUOTA_BYTES")
        self.ask("DELETE", f"/v1/models/{digest(data)}", expect=204)
        self.ask("DELETE", f"/v1/uploads/{self.ask('POST', '/v1/uploads', {'bytes': 60000}, 201).json['id']}", expect=204)

    def test_the_number_of_uploads_is_limited(self):
        self.as_tenant("b")
        names = [self.ask("POST", "/v1/uploads", {"bytes": 1}, 201).json["id"] for _ in range(256)]
        answer = self.problem("POST", "/v1/uploads", {"bytes": 1}, 429, "QUOTA_UPLOADS")
        self.assertIn("Retry-After", answer.headers)
        for name in names:
            self.ask("DELETE", f"/v1/uploads/{name}", expect=204)
