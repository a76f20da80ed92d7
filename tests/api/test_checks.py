"""Checks and completed shardings: POST /v1/check, /v1/models/{id}/check and /infer, GET /v1/operators."""

import hashlib
import http.client
import json
import os
import subprocess
import tempfile
import threading

from cases import MODELS, SANITIZED, TINY, DaemonCase
from daemon import PROGRAM
import onnx_make

CLI = os.environ.get("SHARDPLAN", os.path.join(os.path.dirname(PROGRAM), "../api/cli/shardplan"))
JSON = {"Content_Type": "application/json"}
BYTES = {"Accept": "application/octet-stream"}
COLUMNS, ROWS = "{devices=[1,2]0,1}", "{devices=[2,1]0,1}"
NOBODY = "0" * 64


def annotated(*arguments, **options):
    return onnx_make.encode(onnx_make.annotated(*arguments, **options))


VALID, UNEVEN, WRONG_AXIS = annotated(), annotated(7), annotated(axis=5)
CONTRADICTION = annotated(more=[onnx_make.node("Relu", ["nothing"], ["z"], "lost")])
PLAIN = onnx_make.encode(onnx_make.mlp(2, 64, weights="external"))
SPLIT = {"devices": 2, "set": {"w0": COLUMNS}}


class CheckCase(DaemonCase):
    def codes(self, answer, severity=None):
        return [item["code"] for item in answer["diagnostics"] if severity in (None, item["severity"])]

    def tearDown(self):
        self.assertNotIn('shardplan_workers_ended_total{reason="crashed"}', self.ask("GET", "/metrics").text)
        self.no_temporary_files()


class Check(CheckCase):
    def check(self, data, query=""):
        """Both routes say the same of a model that can be stored."""
        answer = self.ask("POST", "/v1/check" + query, data).json
        self.assertEqual(self.ask("POST", f"/v1/models/{self.store(data)}/check").json, answer)
        return answer

    def test_a_valid_model(self):
        answer = self.check(VALID)
        self.assertEqual((answer["valid"], answer["errors"], answer["warnings"]), (True, 0, 0))
        # The reduction of mm1 runs over the split columns of h0: 4 x 8 floats are made whole among two devices.
        reduction = next(item for item in answer["diagnostics"] if item["code"] == "REDUCTION")
        self.assertEqual((reduction["severity"], reduction["configuration"], reduction["bytes"]), ("note", "two", 128))
        self.assertIn("mm1", reduction["node"])
        self.assertEqual(self.check(TINY), {"valid": True, "errors": 0, "warnings": 0, "notes": 0, "diagnostics": []})

    def test_a_file_that_places_nodes(self):
        """The text of another tool's file is a member of the request; the command says the same of the file."""
        nodes = ["matmul0", "bias0", "relu0", "matmul1", "bias1", "relu1"]
        files = [json.dumps({"partitions": [{"name": f"Partition{i}", "nodeList": nodes[3 * i:3 * i + 3],
                                             "devices": [{"deviceId": i, "numCores": 16}]} for i in range(2)]}),
                 "- {node: relu0, device: 0, stage: 1}\n- {node: relu1, device: 1, stage: 0}\n",
                 json.dumps({"session.name_based_layer_assignment": "gpu:0(matmul); gpu:1(relu)"})]
        identity = self.store(PLAIN)
        with tempfile.TemporaryDirectory() as folder:
            model, path = os.path.join(folder, "m.onnx"), os.path.join(folder, "file")
            with open(model, "wb") as file:
                file.write(PLAIN)
            for text in files:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                done = subprocess.run([CLI, "check", model, "--placement-file", path, "--json"], capture_output=True, check=False)
                answer = self.ask("POST", f"/v1/models/{identity}/check", {"placement": text}).json
                self.assertEqual(answer, json.loads(done.stdout))
                self.assertIn("PLACED", self.codes(answer, "note"))
        self.assertIn("STAGE_BACKWARDS", self.codes(answer, "warning"))
        for text in ("{}", "[", "- &a 1", "- {node: relu0, device: -1}"):
            self.problem("POST", f"/v1/models/{identity}/check", {"placement": text}, code="PLACEMENT_FILE")
        for wrong in ("", 3, ["a"]):
            self.problem("POST", f"/v1/models/{identity}/check", {"placement": wrong}, code="MEMBER_TEXT")

    def test_a_model_with_warnings(self):
        answer = self.check(UNEVEN)
        self.assertTrue(answer["valid"])
        self.assertIn("SHARDS_UNEVEN", self.codes(answer, "warning"))
        self.assertEqual(answer["warnings"], len(self.codes(answer, "warning")))

    def test_wrong_annotations(self):
        answer = self.check(WRONG_AXIS)
        self.assertEqual((answer["valid"], answer["errors"]), (False, 1))
        finding = answer["diagnostics"][0]
        self.assertEqual((finding["code"], finding["tensor"]), ("AXIS_OUT_OF_RANGE", "w0"))
        self.assertIn("5", finding["message"])
        self.assertEqual(self.codes(self.check(annotated(ir_version=8)), "error"), ["IR_VERSION_TOO_LOW"])

    def test_a_model_that_cannot_be_stored(self):
        answer = self.ask("POST", "/v1/check", CONTRADICTION).json
        self.assertFalse(answer["valid"])
        self.assertIn("UNDEFINED_INPUT", self.codes(answer, "error"))
        refused = self.problem("POST", "/v1/models", CONTRADICTION, code="UNDEFINED_INPUT").json
        self.assertEqual(refused["kind"], "model")
        self.assertIn("POST /v1/check", refused["hint"])
        self.assertNotIn("hint", self.problem("POST", "/v1/models", b"hello, world", 400).json)

    def test_nothing_is_stored(self):
        data = annotated(12)
        self.ask("POST", "/v1/check?name=unseen", data)
        self.problem("GET", f"/v1/models/{hashlib.sha256(data).hexdigest()}", status=404)
        self.assertNotIn("unseen", self.ask("GET", "/v1/models?page_size=500").text)

    def test_text(self):
        answer = self.ask("POST", "/v1/check?name=m.onnx", VALID, Accept="text/plain")
        self.assertEqual(answer.headers["Content-Type"], "text/plain; charset=utf-8")
        self.assertRegex(answer.text.splitlines()[-1], r"^m\.onnx is valid: 0 errors, 0 warnings, \d+ notes?$")
        answer = self.ask("POST", "/v1/check?name=w.onnx", WRONG_AXIS, Accept="text/plain")
        self.assertIn("error AXIS_OUT_OF_RANGE\n", answer.text)
        self.assertIn("w.onnx is not valid: 1 error, ", answer.text.splitlines()[-1])
        stored = self.ask("POST", "/v1/models?name=s.onnx", annotated(16), 201).json["id"]
        self.assertIn("s.onnx is valid", self.ask("POST", f"/v1/models/{stored}/check", {}, Accept="text/plain").text)

    def test_memory(self):
        path = f"/v1/models/{self.store(VALID)}/check"
        # Two weights of 8 x 8 floats, one of them halved, are 384 bytes.
        for answer in (self.ask("POST", "/v1/check?memory_bytes=383", VALID), self.ask("POST", path, {"memory_bytes": 383})):
            self.assertEqual(self.codes(answer.json, "error"), ["MEMORY_TOO_SMALL"])
        for members in ({"memory_bytes": 1e9}, {"device": "a100-sxm4-80gb"}, {"device": "a100-sxm4-80gb", "memory_bytes": 1e9}):
            query = "&".join(f"{name}={value}" for name, value in members.items())
            self.assertTrue(self.ask("POST", "/v1/check?" + query, VALID).json["valid"])
            self.assertTrue(self.ask("POST", path, members).json["valid"])

    def test_one_configuration(self):
        path = f"/v1/models/{self.store(WRONG_AXIS)}/check"
        self.assertFalse(self.ask("POST", path, {"configuration": "two"}).json["valid"])
        self.problem("POST", path, {"configuration": "three"}, code="UNKNOWN_CONFIGURATION")
        self.problem("POST", "/v1/check?configuration=three", WRONG_AXIS, code="UNKNOWN_CONFIGURATION")

    def test_real_models(self):
        for name in ("resnet50.onnx", "transformer_tiny.onnx", "vit_l_16.onnx"):
            with open(os.path.join(MODELS, name), "rb") as file:
                answer = self.check(file.read())
            self.assertEqual((answer["valid"], answer["errors"]), (True, 0), answer)

    def test_what_is_no_model(self):
        for data, code in ((b"hello, world\n", "NOT_ONNX"), (b"", "EMPTY_INPUT"), (VALID[:-3], None)):
            self.problem("POST", "/v1/check", data, 400, code)

    def test_a_wrong_query(self):
        for query, pointer in (("device=abacus", "/device"), ("device=", "/device"), ("configuration=", "/configuration"),
                               ("memory_bytes=", "/memory_bytes"), ("memory_bytes=0", "/memory_bytes"),
                               ("memory_bytes=much", "/memory_bytes"), ("memory_bytes=1e9x", "/memory_bytes"),
                               ("memory_bytes=inf", "/memory_bytes"), ("memory_bytes=1e999", "/memory_bytes"),
                               ("memory_bytes=-1", "/memory_bytes")):
            with self.subTest(query):
                self.problem("POST", "/v1/check?" + query, VALID, pointer=pointer)
        self.problem("POST", "/v1/check?verbose=1", VALID, 400, "UNKNOWN_PARAMETER")
        self.problem("POST", "/v1/check?name=" + "x" * 256, VALID, 422, "BAD_NAME")

    def test_a_wrong_query_is_told_before_the_model_is_sent(self):
        connection = self.daemon.connect()
        connection.putrequest("POST", "/v1/check?device=abacus")
        connection.putheader("Content-Length", "99999999")
        connection.putheader("Expect", "100-continue")
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 422)
        connection.close()

    def test_wrong_headers(self):
        self.problem("POST", "/v1/check", TINY, 415, "UNSUPPORTED_MEDIA_TYPE", Content_Type="text/plain")
        self.problem("POST", "/v1/check", TINY, 415, "UNSUPPORTED_CONTENT_ENCODING", Content_Encoding="br")
        self.problem("POST", "/v1/check", TINY, 406, "NOT_ACCEPTABLE", Accept="image/png")
        self.problem("POST", "/v1/check", TINY, 406, "NOT_ACCEPTABLE", **BYTES)
        for method in ("GET", "PUT", "DELETE", "HEAD"):
            answer = self.ask(method, "/v1/check", expect=405)
            self.assertEqual(answer.headers["Allow"], "POST, OPTIONS")
        connection = self.daemon.connect()
        connection.putrequest("POST", "/v1/check")
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 411)
        connection.close()

    def test_chunked(self):
        pieces = (VALID[at : at + 50] for at in range(0, len(VALID), 50))
        answer = self.daemon.request("POST", "/v1/check", pieces, {"Transfer-Encoding": "chunked"}, chunked=True)
        self.assertTrue(answer.json["valid"])


class TooLarge(CheckCase):
    options = ("--workers", "1", "--max-upload", "1M")

    def test_too_large(self):
        answer = self.problem("POST", "/v1/check", bytes(8 << 20), 413, "MODEL_TOO_LARGE")
        self.assertEqual((answer.json["limit_value"], answer.json["actual"]), (1 << 20, 8 << 20))
        pieces = (bytes(1 << 20) for _ in range(8))
        answer = self.daemon.request("POST", "/v1/check", pieces, {"Transfer-Encoding": "chunked"}, chunked=True)
        self.assertEqual(answer.status, 413, answer)


class Requests(CheckCase):
    """What the two routes of a stored model have in common."""

    def test_wrong_members(self):
        model = self.store(PLAIN)
        for verb, members, pointer in (
            ("check", {"devices": 2}, "/devices"), ("check", {"a/b~": 1}, "/a~1b~0"), ("check", {"device": 1}, "/device"),
            ("check", {"device": "abacus"}, "/device"), ("check", {"configuration": ""}, "/configuration"),
            ("check", {"memory_bytes": "80e9"}, "/memory_bytes"), ("check", {"memory_bytes": 0}, "/memory_bytes"),
            ("check", {"memory_bytes": True}, "/memory_bytes"), ("check", {"configuration": None}, "/configuration"),
            ("infer", {**SPLIT, "sets": {}}, "/sets"), ("infer", {**SPLIT, "mode": "backward"}, "/mode"),
            ("infer", {**SPLIT, "mode": 1}, "/mode"), ("infer", {**SPLIT, "devices": 0}, "/devices"),
            ("infer", {**SPLIT, "devices": "2"}, "/devices"), ("infer", {**SPLIT, "mesh": "<["}, "/mesh"),
            ("infer", {**SPLIT, "set": []}, "/set"), ("infer", {**SPLIT, "set": {"w9": COLUMNS}}, "/set/w9"),
            ("infer", {**SPLIT, "set": {"q*": COLUMNS}}, "/set/q*"), ("infer", {**SPLIT, "set": {"w0": 7}}, "/set/w0"),
            ("infer", {**SPLIT, "set": {"w0": "{devices=[2]0,1}"}}, "/set/w0"),
            ("infer", {**SPLIT, "set": {"a/b": COLUMNS}}, "/set/a~1b"), ("infer", {}, "/devices"),
        ):
            with self.subTest(verb=verb, members=members):
                self.problem("POST", f"/v1/models/{model}/{verb}", members, pointer=pointer)

    def test_bodies_that_are_no_request(self):
        model = self.store(PLAIN)
        for verb in ("check", "infer"):
            path = f"/v1/models/{model}/{verb}"
            for body in (b"{", b"{}}", b'{"mode": "\xff"}', b'{"device": "\\u0000"}', b"\x00" * 100, b"[" * 100000,
                         b'{"devices": 2, "devices": 2}', b'{"set":' * 5000):
                with self.subTest(verb=verb, body=body[:20]):
                    self.problem("POST", path, body, 400, "MALFORMED_JSON", **JSON)
            for body in (b"1", b"null", b"[]", b'"text"'):
                self.problem("POST", path, body, 422, "MEMBER_TYPE", **JSON)
            self.problem("POST", path, b"{}", 415, "UNSUPPORTED_MEDIA_TYPE", Content_Type="text/plain")
            self.problem("POST", path, b"{}", 415, "UNSUPPORTED_CONTENT_ENCODING", Content_Encoding="br", **JSON)
            self.problem("POST", path, {}, 406, "NOT_ACCEPTABLE", Accept="image/png")
            answer = self.problem("POST", path, b" " * ((1 << 20) + 1), 413, "BODY_TOO_LARGE", **JSON)
            self.assertEqual(answer.json["limit_value"], 1 << 20)
            answer = self.daemon.request("POST", path, iter([b" " * 65536] * 17), {"Content-Type": "application/json"},
                                         chunked=True)
            self.assertEqual(answer.status, 413, answer)
            self.assertEqual(self.problem("GET", path, status=405).headers["Allow"], "POST, OPTIONS")
            self.ask("HEAD", path, expect=405)
            self.problem("POST", path + "?x=1", {}, 400, "UNKNOWN_PARAMETER")

    def test_an_unknown_model(self):
        for verb in ("check", "infer"):
            self.problem("POST", f"/v1/models/{NOBODY}/{verb}", {}, 404, "MODEL_NOT_FOUND")
            self.problem("POST", f"/v1/models/nothing/{verb}", {}, 404, "NOT_FOUND")

    def test_a_model_that_is_deleted_meanwhile(self):
        for number, verb in enumerate(("check", "infer")):
            model = self.store(annotated(20 + number))
            answers = []
            workers = self.daemon.freeze()
            asking = threading.Thread(
                target=lambda: answers.append(self.daemon.request("POST", f"/v1/models/{model}/{verb}", {})))
            asking.start()
            self.daemon.wait_for(lambda: self.daemon.metric("shardplan_workers_busy") > 0, "the errand")
            self.ask("DELETE", f"/v1/models/{model}", expect=204)
            self.daemon.thaw(workers)
            asking.join()
            self.assertEqual(answers[0].status, 200, f"the worker has the file: {answers}")

    def test_the_examples_of_the_contract(self):
        paths = self.daemon.contract.document["paths"]
        model = self.store(PLAIN)
        for path in ("/v1/models/{id}/check", "/v1/models/{id}/infer"):
            operation = paths[path]["post"]
            body = operation["requestBody"]["content"]["application/json"]["example"]
            answer = self.ask("POST", path.format(id=model), body).json
            example = operation["responses"]["200"]["content"]["application/json"].get("example")
            if example is not None:
                self.assertEqual(answer, example)
        example = paths["/v1/operators"]["get"]["responses"]["200"]["content"]["application/json"]["example"]
        self.assertEqual(self.ask("GET", "/v1/operators?name=MatMul").json, example)


class Infer(CheckCase):
    def infer(self, data, **members):
        return self.ask("POST", f"/v1/models/{self.store(data)}/infer", members).json

    def spec(self, answer, node, operand):
        """(notation, origin) of an operand of the node whose name the label holds."""
        found = [item for item in answer["specs"] if f"'{node}'" in item["node"] and item["operand"] == operand]
        self.assertEqual(len(found), 1, (node, operand))
        return found[0]["spec"]["text"].split(" ")[0], found[0]["origin"]

    def test_forward(self):
        answer = self.infer(PLAIN, **SPLIT)
        self.assertEqual((answer["mode"], answer["devices"], answer["configuration"]), ("forward", 2, "shardplan"))
        self.assertEqual(self.spec(answer, "matmul0", "input 1"), ("RS[0]", "set"))
        self.assertEqual(self.spec(answer, "matmul0", "output 0"), ("RS[0]", "inferred"))
        self.assertEqual(self.spec(answer, "relu0", "output 0"), ("RS[0]", "inferred"))
        self.assertEqual(self.spec(answer, "matmul1", "input 1"), ("RR", "assumed"))  # forward only
        self.assertEqual(self.spec(answer, "matmul1", "output 0"), ("RR", "inferred"))
        [reduction] = answer["communication"]
        self.assertEqual((reduction["kind"], reduction["tensor"], reduction["group_size"]), ("reduce", "m1", 2))
        self.assertEqual(reduction["bytes"], 8 * 64 * 4)  # a ring of two sends each element once

    def test_propagate(self):
        answer = self.infer(PLAIN, mode="propagate", mesh='<["x"=2]>', set={"w0": COLUMNS})
        self.assertEqual(answer, self.infer(PLAIN, mode="propagate", mesh='<["x"=2]>', set_weights={"*mul0": COLUMNS}))
        self.assertEqual(answer["notes"], [])
        self.assertEqual(self.spec(answer, "matmul1", "input 1"), ("S[0]R", "inferred"))
        self.assertEqual(self.spec(answer, "bias0", "input 1"), ("S[0]", "inferred"))
        self.assertEqual([item["kind"] for item in answer["communication"]], ["reduce"])

    def test_patterns_and_notations(self):
        for spec in (COLUMNS, "RS[0] device_mesh_shape=[2] device_mesh_elements=[0,1]",
                     {"device": [0, 1], "shardedDim": [{"axis": 1, "simpleSharding": [{"numShards": 2}]}]}):
            answer = self.infer(PLAIN, devices=2, set={"w*": spec})
            for node in ("matmul0", "matmul1"):
                self.assertEqual(self.spec(answer, node, "input 1"), ("RS[0]", "set"))

    def test_what_the_file_says(self):
        answer = self.infer(VALID)
        self.assertEqual((answer["configuration"], answer["devices"]), ("two", 2))
        self.assertEqual(self.spec(answer, "mm0", "input 1"), ("RS[0]", "given"))
        self.assertEqual(self.spec(answer, "mm0", "output 0"), ("RS[0]", "inferred"))
        self.assertEqual(answer["added"], sum(item["written"] and item["origin"] != "given" for item in answer["specs"]))
        self.assertGreater(answer["added"], 0)

    def test_where_it_stops(self):
        [stop] = self.infer(VALID, set={"w1": COLUMNS})["stops"]  # h0 comes in columns, which are w1's rows
        self.assertIn("mm1", stop["node"])
        self.assertIn("h0", stop["message"])

    def test_text(self):
        answer = self.ask("POST", f"/v1/models/{self.store(PLAIN)}/infer", SPLIT, Accept="text/plain")
        self.assertEqual(answer.headers["Content-Type"], "text/plain; charset=utf-8")
        self.assertRegex(answer.text.splitlines()[-1],
                         r"^\d+ specs added to configuration 'shardplan' of 2 devices, 1 communication$")

    def test_annotations_that_make_no_sense(self):
        answer = self.problem("POST", f"/v1/models/{self.store(WRONG_AXIS)}/infer", code="AXIS_OUT_OF_RANGE")
        self.assertEqual(answer.json["kind"], "model")
        self.problem("POST", f"/v1/models/{self.store(WRONG_AXIS)}/infer", {}, code="AXIS_OUT_OF_RANGE", **BYTES)
        self.problem("POST", f"/v1/models/{self.store(VALID)}/infer", {"devices": 3}, pointer="/devices")


class CompletedModel(CheckCase):
    """The answer as application/octet-stream."""

    def completed(self, data, body=None, expect=200, **headers):
        return self.ask("POST", f"/v1/models/{self.store(data)}/infer", body, expect, **BYTES, **headers)

    def test_it_is_what_the_command_writes_and_can_be_stripped(self):
        with open(os.path.join(MODELS, "transformer_tiny.onnx"), "rb") as file:
            real = file.read()
        for data, body, options in (
            (PLAIN, SPLIT, ["--devices", "2", "--set", f"w0={COLUMNS}"]),
            (PLAIN, {"mode": "propagate", "mesh": '<["x"=2]>', "set": {"w0": COLUMNS}},
             ["--mode", "propagate", "--mesh", '<["x"=2]>', "--set", f"w0={COLUMNS}"]),
            (VALID, None, []),  # specs are added to a configuration of the file
            (VALID, {"set": {"w1": ROWS}}, ["--set", f"w1={ROWS}"]),
            (VALID, {"mode": "propagate", "set": {"w1": COLUMNS}}, ["--mode", "propagate", "--set", f"w1={COLUMNS}"]),
            (real, {"devices": 2}, ["--devices", "2"]),
        ):
            with self.subTest(body=body), tempfile.TemporaryDirectory() as folder:
                remote = self.completed(data, body).body
                before, after, back = (os.path.join(folder, name) for name in ("in.onnx", "out.onnx", "back.onnx"))
                with open(before, "wb") as file:
                    file.write(data)
                subprocess.run([CLI, "infer", before, *options, "-o", after], check=True, capture_output=True)
                with open(after, "rb") as file:
                    self.assertEqual(file.read(), remote)
                subprocess.run([CLI, "strip", after, "-o", back], check=True, capture_output=True)
                with open(back, "rb") as file:
                    self.assertEqual(file.read(), data)
                answer = self.ask("POST", "/v1/check", remote).json
                self.assertTrue(answer["valid"], answer)

    def test_it_is_complete(self):
        again = self.store(self.completed(PLAIN, SPLIT).body)
        answer = self.ask("POST", f"/v1/models/{again}/infer").json
        self.assertEqual((answer["added"], answer["configuration"]), (0, "shardplan"))
        self.assertEqual(len(answer["communication"]), 1)

    def test_ranges_and_tags(self):
        whole = self.completed(PLAIN, SPLIT)
        tag = whole.headers["ETag"]
        self.assertEqual(int(whole.headers["Content-Length"]), len(whole.body))
        self.assertRegex(tag, r'^"[0-9a-f]{64}"$')
        self.assertEqual(self.completed(PLAIN, SPLIT).headers["ETag"], tag)
        self.assertNotEqual(self.completed(PLAIN, {**SPLIT, "devices": 4}).headers["ETag"], tag)
        for spec, part in (("0-9", whole.body[:10]), ("100-", whole.body[100:]), ("-7", whole.body[-7:])):
            answer = self.completed(PLAIN, SPLIT, 206, Range=f"bytes={spec}", If_Range=tag)
            self.assertEqual(answer.body, part, spec)
        self.assertEqual(self.completed(PLAIN, SPLIT, Range="bytes=0-9", If_Range='"other"').body, whole.body)
        self.assertEqual(self.completed(PLAIN, SPLIT, 416, Range=f"bytes={len(whole.body)}-").json["code"],
                         "RANGE_NOT_SATISFIABLE")
        self.assertEqual(self.completed(PLAIN, SPLIT, 412, If_None_Match=tag).json["code"], "PRECONDITION_FAILED")
        self.completed(PLAIN, SPLIT, If_None_Match='"other"')

    def test_json_unless_the_model_is_preferred(self):
        path = f"/v1/models/{self.store(PLAIN)}/infer"
        for accept, kind in (("*/*", "application/json"), ("application/*", "application/json"),
                             ("text/plain;q=0.5, application/octet-stream", "application/octet-stream"),
                             ("application/octet-stream;q=0.1, application/json", "application/json")):
            self.assertEqual(self.ask("POST", path, SPLIT, Accept=accept).headers["Content-Type"], kind)

    def test_memory(self):
        if SANITIZED:
            self.skipTest("the sanitizers' own memory is much larger")
        path = os.path.join(self.daemon.data, "large.onnx")
        size = onnx_make.write(path, onnx_make.big(200 << 20, "pattern"))
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=120)
        for target in ("/v1/check", "/v1/models"):
            with open(path, "rb") as file:
                connection.request("POST", target, file,
                                   {"Content-Length": str(size), "Content-Type": "application/octet-stream"})
                answer = connection.getresponse()
                model = answer.headers.get("Location")
                self.assertIn(answer.status, (200, 201), answer.read())
                answer.read()
        connection.request("POST", model + "/infer", '{"devices": 2, "set": {"w0": "%s"}}' % COLUMNS,
                           {"Content-Type": "application/json", "Accept": "application/octet-stream"})
        answer = connection.getresponse()
        received = 0
        while piece := answer.read(1 << 20):
            received += len(piece)
        connection.close()
        os.unlink(path)
        self.assertEqual(received, int(answer.headers["Content-Length"]))
        self.assertGreater(received, size)
        for pid, peak in self.daemon.peak_memory().items():
            self.assertLess(peak, 64 << 20, pid)


class Operators(CheckCase):
    def test_all(self):
        listed = self.ask("GET", "/v1/operators").json["operators"]
        names = [(operator["domain"], operator["name"]) for operator in listed]
        self.assertEqual(len(names), len(set(names)))
        for name in (("ai.onnx", "Conv"), ("ai.onnx", "MatMul"), ("com.microsoft", "Attention")):
            self.assertIn(name, names)
        for operator in listed:
            self.assertGreater(len(operator["rules"]), 0, operator["name"])
        self.assertIn("\n  [b.., m, k] [b.., k, n] -> [b.., m, n]; k sum\n",
                      self.ask("GET", "/v1/operators", Accept="text/plain").text)

    def test_one(self):
        [operator] = self.ask("GET", "/v1/operators?name=Softmax").json["operators"]
        self.assertEqual((operator["name"], operator["versions"]), ("Softmax", [1, 11, 13]))
        [operator] = self.ask("GET", "/v1/operators?name=com.microsoft.Attention").json["operators"]
        self.assertEqual(operator["domain"], "com.microsoft")
        self.assertGreater(len(self.ask("GET", "/v1/operators?name=Attention").json["operators"]), 1)
        text = self.ask("GET", "/v1/operators?name=MatMul", Accept="text/plain").text
        self.assertTrue(text.startswith("MatMul, from version 1\n"), text)

    def test_unknown(self):
        answer = self.problem("GET", "/v1/operators?name=matmul", code="UNKNOWN_OPERATOR")
        self.assertIn("'MatMul'", answer.json["detail"])
        self.problem("GET", "/v1/operators?name=", code="UNKNOWN_OPERATOR")
        self.problem("GET", "/v1/operators?name=no%20%E2%82%AC", code="UNKNOWN_OPERATOR")
        self.problem("GET", "/v1/operators?domain=ai.onnx", status=400, code="UNKNOWN_PARAMETER")
        self.problem("GET", "/v1/operators", status=406, code="NOT_ACCEPTABLE", Accept="image/png")

    def test_methods(self):
        whole = self.ask("GET", "/v1/operators")
        answer = self.ask("HEAD", "/v1/operators")
        self.assertEqual((answer.body, int(answer.headers["Content-Length"])), (b"", len(whole.body)))
        self.assertEqual(self.problem("POST", "/v1/operators", {}, 405).headers["Allow"], "GET, HEAD, OPTIONS")
