"""Bodies that are compressed, digests, and answers that are compressed."""

import base64
import gzip
import hashlib
import json
import os
import struct
import threading
import zlib

from cases import CLUSTER, MODELS, SANITIZED, TINY, DaemonCase, model
import onnx_make
import zstd

MIB = 1 << 20
QUERY = "/v1/plans?devices=2&device=a100-sxm4-80gb"
CODERS = {"zstd": zstd.compress, "gzip": gzip.compress, "x-gzip": gzip.compress}


def digest(data):
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


class Requests(DaemonCase):
    options = ("--workers", "1", "--max-upload", "96M")

    def test_models(self):
        for number, (coding, code) in enumerate(CODERS.items()):
            data = model(300 + number)
            answer = self.ask("POST", "/v1/models", code(data), 201, Content_Encoding=coding)
            self.assertEqual(answer.json["id"], hashlib.sha256(data).hexdigest())
            self.assertEqual(self.ask("GET", answer.headers["Location"] + "/content").body, data)
        self.no_temporary_files()

    def test_real_model(self):
        with open(os.path.join(MODELS, "resnet50.onnx"), "rb") as file:
            data = file.read()
        answer = self.ask("POST", QUERY, zstd.compress(data, 19), 200, Content_Encoding="zstd", Prefer="wait=60")
        self.assertEqual(answer.json["model"], hashlib.sha256(data).hexdigest())
        self.assertTrue(self.ask("POST", "/v1/check", gzip.compress(data), Content_Encoding="gzip").json["valid"])

    def test_several_and_none(self):
        data = model(305)
        for codings, body in (
            ("gzip, zstd", zstd.compress(gzip.compress(data))),
            ("zstd,gzip", gzip.compress(zstd.compress(data))),
            ("GZIP , gzip", gzip.compress(gzip.compress(data))),
            ("identity", data), ("identity, zstd", zstd.compress(data)), ("", data),
        ):
            with self.subTest(codings):
                answer = self.ask("POST", "/v1/models", body, (200, 201), Content_Encoding=codings)
                self.assertEqual(answer.json["id"], hashlib.sha256(data).hexdigest())

    def test_members_and_frames_one_behind_the_other(self):
        data = model(306)
        half = len(data) // 2
        skippable = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"
        for coding, body in (
            ("gzip", gzip.compress(data[:half]) + gzip.compress(b"") + gzip.compress(data[half:])),
            ("zstd", zstd.compress(data[:half]) + skippable + zstd.compress(data[half:])),
        ):
            answer = self.ask("POST", "/v1/models", body, (200, 201), Content_Encoding=coding)
            self.assertEqual(answer.json["id"], hashlib.sha256(data).hexdigest())

    def test_byte_by_byte(self):
        data = model(307)
        for coding in ("zstd", "gzip"):
            body = CODERS[coding](data)
            answer = self.daemon.request(
                "POST", "/v1/models", (body[at : at + 1] for at in range(len(body))),
                {"Transfer-Encoding": "chunked", "Content-Type": "application/octet-stream", "Content-Encoding": coding},
                chunked=True)
            self.assertIn(answer.status, (200, 201), answer)
            self.assertEqual(answer.json["id"], hashlib.sha256(data).hexdigest())

    def test_json(self):
        body = json.dumps({"model": self.store(), "cluster": CLUSTER}).encode()
        for coding in ("zstd", "gzip"):
            self.ask("POST", "/v1/plans", CODERS[coding](body), 202, Content_Encoding=coding, Content_Type="application/json")
        reshard = json.dumps({"shape": [4, 4], "dtype": "float32", "from": "{devices=[2,1]0,1}", "to": "{devices=[1,2]0,1}"})
        plain = self.ask("POST", "/v1/reshard", reshard.encode(), Content_Type="application/json")
        coded = self.ask("POST", "/v1/reshard", gzip.compress(reshard.encode()), Content_Encoding="gzip",
                         Content_Type="application/json")
        self.assertEqual(coded.json, plain.json)

    def test_unknown(self):
        for path in ("/v1/models", "/v1/check", QUERY):
            for coding in ("br", "deflate", "zstd, br", "gzip, gzip, gzip", "compress", "gzip;q=1"):
                answer = self.problem("POST", path, TINY, 415, "UNSUPPORTED_CONTENT_ENCODING", Content_Encoding=coding)
                self.assertEqual(answer.headers["Accept-Encoding"], "zstd, gzip")
        self.no_temporary_files()

    def test_damaged(self):
        data = model(308)
        for coding in ("zstd", "gzip"):
            body = CODERS[coding](data)
            broken = {"cut": body[:-1], "half": body[: len(body) // 2], "one byte": body[:1], "garbage behind": body + b"x",
                      "more garbage": body + bytes(100), "not coded": data, "another coding": CODERS["gzip" if coding == "zstd" else "zstd"](data)}
            if coding == "gzip":
                broken["checksum"] = body[:-8] + bytes(4) + body[-4:]
                broken["size"] = body[:-4] + bytes(4)
            else:
                broken["reserved block"] = zstd.frame([zstd.block(3, 1, b"x", True)])
            for name, bad in broken.items():
                with self.subTest(f"{coding}: {name}"):
                    self.problem("POST", "/v1/models", bad, 400, "MALFORMED_CONTENT_ENCODING", Content_Encoding=coding)
                    self.problem("POST", "/v1/plans", bad, 400, "MALFORMED_CONTENT_ENCODING", Content_Encoding=coding,
                                 Content_Type="application/json")
        self.assertEqual(self.ask("GET", f"/v1/models/{hashlib.sha256(data).hexdigest()}", expect=404).status, 404)
        self.no_temporary_files()

    def test_bombs(self):
        """More than is accepted, more than 250 times the size, and both through two codings, or between them."""
        before = self.daemon.peak_memory()[self.daemon.process.pid]
        zeros = zlib.compressobj(9, zlib.DEFLATED, 31)
        ten = b"".join(zeros.compress(bytes(10 * MIB)) for _ in range(20)) + zeros.flush()
        # What the second coding passes over is never a body, and still has to come out of the first one.
        skipped = zstd.frame([zstd.block(0, 8, struct.pack("<II", 0x184D2A50, 0xFFFFFFFF))]
                             + [zstd.block(1, 128 << 10, b" ")] * (1 << 15))
        for name, coding, body, limit in (
            ("skipped within", "zstd, zstd", skipped, ("SPD_MAX_RATIO",)),
            ("zstd", "zstd", zstd.bomb(1 << 30), ("SPD_MAX_RATIO", "--max-upload")),
            ("gzip", "gzip", ten, ("SPD_MAX_RATIO", "--max-upload")),
            ("zstd in gzip", "zstd, gzip", gzip.compress(zstd.bomb(1 << 30)), ("SPD_MAX_RATIO",)),
            ("no zeros", "gzip", gzip.compress(os.urandom(97 * MIB), 0), ("--max-upload",)),
        ):
            with self.subTest(name):
                answer = self.problem("POST", "/v1/models", body, 413, None, Content_Encoding=coding)
                self.assertIn(answer.json["limit"], limit)
                self.assertIn(answer.json["code"], ("DECOMPRESSED_TOO_LARGE", "MODEL_TOO_LARGE"))
        for path in ("/v1/plans", "/v1/convert"):
            answer = self.problem("POST", path, zstd.bomb(16 * MIB, b" "), 413, "DECOMPRESSED_TOO_LARGE",
                                  Content_Encoding="zstd", Content_Type="application/json")
            self.assertEqual(answer.json["limit_value"], 256 << 10 if path == "/v1/plans" else MIB)
        if not SANITIZED:
            self.assertLess(self.daemon.peak_memory()[self.daemon.process.pid] - before, 48 * MIB)
        self.no_temporary_files()

    def test_windows(self):
        data = model(309)
        for log in (14, 20, 23):
            body = zstd.frame([zstd.block(0, len(data), data, True)], log)
            self.ask("POST", "/v1/models", body, (200, 201), Content_Encoding="zstd")
        for log in (24, 27, 31, 41):
            body = zstd.frame([zstd.block(0, len(data), data, True)], log)
            self.problem("POST", "/v1/models", body, 413, "WINDOW_TOO_LARGE", Content_Encoding="zstd")

    def test_digests(self):
        data = model(310)
        body = zstd.compress(data)
        other = digest(b"other")
        for name in ("Repr-Digest", "Content-Digest"):
            answer = self.problem("POST", "/v1/models", data, 400, "DIGEST_MISMATCH", **{name: other})
            self.assertIn(other, answer.json["detail"])
            self.assertIn(digest(data), answer.json["detail"])
        self.problem("POST", "/v1/models", body, 400, "DIGEST_MISMATCH", Repr_Digest=digest(data), Content_Encoding="zstd")
        self.problem("POST", "/v1/models", data, 400, "DIGEST_MISMATCH", Repr_Digest=digest(data), Content_Digest=other)
        for wrong in ("sha-256=x", "sha-256=:AAAA:", f"sha-256={digest(data)[9:-1]}", "sha-256=:" + "?" * 44 + ":", "sha-256="):
            self.problem("POST", "/v1/models", data, 400, "BAD_DIGEST", Repr_Digest=wrong)
        self.ask("GET", f"/v1/models/{hashlib.sha256(data).hexdigest()}", expect=404)
        self.no_temporary_files()
        self.ask("POST", "/v1/models", body, 201, Repr_Digest=f"sha-512=:AAAA:, {digest(body)}", Content_Encoding="zstd")
        self.ask("POST", "/v1/models", data, 200, Repr_Digest=digest(data), Content_Digest=digest(data))
        self.ask("POST", "/v1/models", data, 200, Repr_Digest="sha-512=:AAAA:, unixsum=3")
        content = self.ask("GET", f"/v1/models/{hashlib.sha256(data).hexdigest()}/content", Range="bytes=0-9", expect=206)
        self.assertEqual(content.headers["Repr-Digest"], digest(data))
        question = json.dumps({"model": self.store(), "cluster": CLUSTER}).encode()
        self.ask("POST", "/v1/plans", question, 202, Content_Type="application/json", Content_Digest=digest(question))
        self.problem("POST", "/v1/plans", question, 400, "DIGEST_MISMATCH", Content_Type="application/json", Content_Digest=other)


class Answers(DaemonCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        data = onnx_make.encode(onnx_make.chain(600, name="long"))
        answer = cls.daemon.upload(data, QUERY, Prefer="wait=60")
        assert answer.status == 200, answer
        cls.plan, cls.model = answer.json["id"], answer.json["model"]
        cls.paths = [f"/v1/plans/{cls.plan}", "/v1/devices", "/v1/operators", "/openapi.json",
                     f"/v1/plans/{cls.plan}/timeline", f"/v1/plans/{cls.plan}/exports/csv"]

    def test_every_kind(self):
        for path in self.paths:
            plain = self.ask("GET", path)
            self.assertIsNone(plain.headers["Content-Encoding"])
            for coding in ("zstd", "gzip"):
                with self.subTest(path=path, coding=coding):
                    coded = self.ask("GET", path, Accept_Encoding=coding)
                    self.assertEqual(coded.headers["Content-Encoding"], coding, len(plain.body))
                    self.assertLess(len(coded.wire), len(plain.body))
                    self.assertEqual(coded.body, plain.body)
                    self.assertEqual(self.ask("HEAD", path, Accept_Encoding=coding).headers["Content-Encoding"], coding)

    def test_what_is_wanted(self):
        for accepted, coding in (
            ("zstd, gzip", "zstd"), ("gzip, zstd", "zstd"), ("gzip;q=1.0, zstd;q=0.5", "gzip"), ("gzip, deflate, br", "gzip"),
            ("*", "zstd"), ("*;q=0.1, zstd;q=0", "gzip"), ("zstd;q=0, gzip;q=0", None), ("br", None), ("", None), ("identity", None),
            ("identity;q=1, gzip;q=0.5", None), ("identity;q=0.5, gzip;q=1", "gzip"), ("zstd;q=0.001", "zstd"), ("ZSTD", "zstd"),
            ("x-gzip", "gzip"), ("zstd ; q=0.2 , gzip; q=0.3", "gzip"), ("zstd;q=x", None), (",,,", None), ("zstdx", None),
        ):
            with self.subTest(accepted):
                self.assertEqual(self.ask("GET", "/v1/operators", Accept_Encoding=accepted).headers["Content-Encoding"], coding)

    def test_what_is_left_alone(self):
        for path in ("/version", "/livez", f"/v1/models/{self.model}/content", f"/v1/plans/{self.plan}/model",
                     f"/v1/plans/{self.plan}/simulation"):
            self.assertIsNone(self.ask("GET", path, Accept_Encoding="zstd, gzip").headers["Content-Encoding"], path)
        self.assertIsNone(self.problem("GET", "/nothing", status=404, Accept_Encoding="zstd").headers["Content-Encoding"])

    def test_tags_and_ranges(self):
        for path in (f"/v1/plans/{self.plan}", f"/v1/plans/{self.plan}/exports/csv", "/v1/devices"):
            with self.subTest(path):
                plain = self.ask("GET", path)
                tag = plain.headers["ETag"]
                coded = self.ask("GET", path, Accept_Encoding="gzip").headers["ETag"]
                self.assertEqual(coded, tag[:-1] + '-gzip"')
                self.assertEqual(self.ask("GET", path, expect=304, Accept_Encoding="gzip", If_None_Match=coded).headers["ETag"], coded)
                self.ask("GET", path, Accept_Encoding="gzip", If_None_Match=tag)
                self.ask("GET", path, If_None_Match=coded)
                self.problem("GET", path, status=412, code="PRECONDITION_FAILED", Accept_Encoding="gzip", If_Match=tag)
                part = self.ask("GET", path, expect=206, Accept_Encoding="gzip", Range="bytes=10-29")
                self.assertEqual(part.body, plain.body[10:30])
                self.assertIsNone(part.headers["Content-Encoding"])
                self.assertEqual(part.headers["ETag"], tag)
                whole = self.ask("GET", path, Accept_Encoding="gzip", Range="bytes=10-29", If_Range=coded)
                self.assertEqual(whole.body, plain.body)
        self.assertIn("Accept-Encoding", self.ask("GET", "/v1/operators").headers["Vary"])

    def test_lists_and_metrics(self):
        for _ in range(12):
            self.submit(model(330))
        plain = self.ask("GET", "/v1/plans?page_size=10")
        coded = self.ask("GET", "/v1/plans?page_size=10", Accept_Encoding="zstd")
        self.assertEqual(coded.headers["Content-Encoding"], "zstd")
        self.assertEqual([plan["id"] for plan in coded.json["plans"]], [plan["id"] for plan in plain.json["plans"]])
        self.assertIn(b"shardplan_", self.ask("GET", "/metrics", Accept_Encoding="gzip").body)

    def test_many_at_once(self):
        """More encoders than there may be: all are answered, in one form or another."""
        wanted, wrong = self.ask("GET", f"/v1/plans/{self.plan}").json["plan"], []

        def fetch():
            answer = self.daemon.request("GET", f"/v1/plans/{self.plan}", headers={"Accept-Encoding": "zstd"}, check=False)
            if answer.json["plan"] != wanted:
                wrong.append(answer)

        threads = [threading.Thread(target=fetch) for _ in range(80)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
