"""Models: upload, inspect, fetch, delete."""

import hashlib
import http.client
import os
import socket
import threading

from cases import CLUSTER, MODELS, SANITIZED, TINY, DaemonCase, model
from daemon import Daemon
import onnx_make


class Models(DaemonCase):
    options = ("--workers", "2")

    def test_upload_twice(self):
        data = model(100)
        answer = self.ask("POST", "/v1/models?name=my%20model.onnx", data, 201)
        digest = hashlib.sha256(data).hexdigest()
        self.assertEqual(answer.json["id"], digest)
        self.assertEqual(answer.headers["Location"], f"/v1/models/{digest}")
        self.assertEqual(answer.json["node_count"], 108)
        self.assertEqual(answer.json["bytes"], len(data))
        self.assertEqual(self.ask("POST", "/v1/models", data, 200).json, answer.json)
        self.assertEqual(self.ask("GET", f"/v1/models/{digest}").json, answer.json)
        self.no_temporary_files()
        listed = [item for item in self.ask("GET", "/v1/models").json["models"] if item["id"] == digest]
        self.assertEqual([item["name"] for item in listed], ["my model.onnx"])

    def test_real_models(self):
        for name, nodes in (("resnet50.onnx", 169), ("transformer_tiny.onnx", 140), ("vit_l_16.onnx", 2020)):
            with open(os.path.join(MODELS, name), "rb") as file:
                self.assertEqual(self.ask("POST", "/v1/models", file.read(), (200, 201)).json["node_count"], nodes)

    def test_chunked_upload(self):
        data = model(101)
        pieces = (data[at : at + 100] for at in range(0, len(data), 100))
        answer = self.daemon.request(
            "POST", "/v1/models", pieces, {"Transfer-Encoding": "chunked", "Content-Type": "application/x-protobuf"},
            chunked=True,
        )
        self.assertEqual(answer.status, 201, answer)
        self.assertEqual(answer.json["id"], hashlib.sha256(data).hexdigest())

    def test_upload_without_type_as_curl_does(self):
        data = model(102)
        connection = self.daemon.connect()
        connection.putrequest("POST", "/v1/models")
        connection.putheader("Content-Length", str(len(data)))
        connection.putheader("Expect", "100-continue")
        connection.endheaders(data)
        self.assertEqual(connection.getresponse().status, 201)
        connection.close()

    def test_content(self):
        name = self.store()
        path = f"/v1/models/{name}/content"
        answer = self.ask("GET", path)
        self.assertEqual(answer.body, TINY)
        self.assertEqual(answer.headers["ETag"], f'"{name}"')
        self.ask("GET", path, expect=304, If_None_Match=f'"{name}"')
        self.ask("GET", path, If_None_Match='"other"')
        self.assertEqual(int(self.ask("HEAD", path).headers["Content-Length"]), len(TINY))
        for spec, part in (("0-9", TINY[:10]), ("5-", TINY[5:]), ("-7", TINY[-7:]), ("10-99999999", TINY[10:])):
            answer = self.ask("GET", path, expect=206, Range=f"bytes={spec}")
            self.assertEqual(answer.body, part, spec)
        first = len(TINY) - len(TINY[5:])
        self.assertEqual(
            self.ask("GET", path, expect=206, Range="bytes=5-").headers["Content-Range"],
            f"bytes {first}-{len(TINY) - 1}/{len(TINY)}",
        )
        self.problem("GET", path, status=416, code="RANGE_NOT_SATISFIABLE", Range=f"bytes={len(TINY)}-")
        for spec in ("bytes=", "bytes=9-3", "lines=1-2", "bytes=0-1,4-5"):
            self.assertEqual(self.ask("GET", path, Range=spec).body, TINY, spec)

    def test_inspect(self):
        path = f"/v1/models/{self.store()}/inspect"
        plain = self.ask("POST", path, {}).json
        self.assertNotIn("values", plain)
        values = self.ask("POST", path, {"values": True}).json["values"]
        self.assertEqual(values["v3"], {"dtype": "float32", "shape": [8, 64]})
        self.assertIn("Relu", self.ask("POST", path, {"values": True}, Accept="text/plain").text)
        self.assertEqual(self.ask("POST", path).json["id"], plain["id"])
        self.problem("POST", path, {"value": True}, pointer="/value")
        self.problem("POST", path, {"values": 1}, pointer="/values")
        self.problem("POST", path, {"dims": {"n": -1}}, code="INVALID_OPTION", pointer="/dims/n")
        self.problem("POST", path, {"dims": 7}, code="INVALID_OPTION", pointer="/dims")
        self.problem("POST", path, {"dims": {"n": 3}}, code="UNKNOWN_DIMENSION")
        self.problem("POST", path, {"dims": {}, "options": {}}, code="BAD_REQUEST", pointer="/dims")
        self.problem("POST", path, {"options": {"batch": 3}}, pointer="/options/batch")
        self.problem("POST", path, {"options": {"values": {"x": "a"}}}, code="INVALID_OPTION", pointer="/options/values/x")
        self.problem("POST", path, {"options": {"values": {"none": 1}}}, code="UNKNOWN_INPUT")
        self.problem("POST", path, {"options": {"shapes": {"none": [1]}}}, code="UNKNOWN_TENSOR")
        self.problem("POST", path, {"options": {"shapes": {"v3": [8, 65]}}}, code="SHAPE_CONTRADICTED")
        self.problem("POST", path, [], code="BAD_REQUEST")
        self.problem("POST", path, b"{", 400, "MALFORMED_JSON", Content_Type="application/json")
        self.problem("POST", path, b'{"values":true,"values":false}', 400, Content_Type="application/json")
        self.problem("POST", path, b"[" * 3000, 400, "MALFORMED_JSON", Content_Type="application/json")
        self.problem("POST", path, b" " * 300000, 413, "BODY_TOO_LARGE", Content_Type="application/json")
        self.problem("POST", f"/v1/models/{'0' * 64}/inspect", {}, 404, "MODEL_NOT_FOUND")
        self.no_temporary_files()

    def test_private_operators(self):
        """An operator of one's own is placed whole; with its rule it is split, costed, and its shapes are known."""
        graph = {"name": "own", "opset": 21, "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 64]}],
                 "initializers": [{"name": "w", "dtype": "float32", "shape": [64, 128]}], "outputs": ["y"],
                 "nodes": [{"name": "n", "op": "Fused", "domain": "com.example", "inputs": ["x", "w"], "outputs": ["y"]}]}
        model_id = self.ask("POST", "/v1/models", graph, (200, 201)).json["id"]
        told = {"operators": [{"domain": "com.example", "name": "Fused", "rule": "[b.., k] [k, n] -> [b.., n]; k sum",
                               "types": [0], "flops": "2*b..*k*n"}]}
        inspected = self.ask("POST", f"/v1/models/{model_id}/inspect", {"values": True, "options": told}).json
        self.assertEqual(inspected["values"]["y"], {"dtype": "float32", "shape": [8, 128]})
        self.assertEqual(inspected["flops"], 2 * 8 * 64 * 128)
        carrying = self.ask("POST", "/v1/models", {**graph, "name": "carrying", **told}, (200, 201)).json
        self.assertEqual(carrying["flops"], 2 * 8 * 64 * 128, "the model has its rules with it")
        self.assertEqual(carrying["outputs"], [{"name": "y", "dtype": "float32", "shape": [8, 128]}])
        cluster = {"device": {"name": "slow", "memory_bytes": 1e9, "memory_bandwidth": 1e9, "flops": {"float32": 1e7}, "link_bandwidth": 1e9}, "count": 2}
        request = {"model": model_id, "cluster": cluster, "objective": "latency"}
        seconds = [self.ask("POST", "/v1/plans", {**request, "options": options}, Prefer="wait=30").json["plan"]["estimate"]["latency_seconds"]
                   for options in ({"strategy": "tensor", **told}, {"strategy": "tensor"})]
        self.assertLess(0.9 * 8 * 64 * 128 / 1e7, seconds[0], "half of the operations on each device")
        self.assertLess(seconds[1], seconds[0], "what nobody knows of has no operations")
        self.problem("POST", f"/v1/models/{model_id}/inspect", {"options": {"operators": [{"domain": "", "name": "Relu"}]}},
                     pointer="/options/operators/0/domain")
        self.problem("POST", f"/v1/models/{model_id}/inspect",
                     {"options": {"operators": [{**told["operators"][0], "rule": "[b.., k] [k, n [n]"}]}},
                     code="INVALID_RULE", pointer="/options/operators/0/rule")

    def test_delete(self):
        name = self.store(model(103))
        self.ask("DELETE", f"/v1/models/{name}", expect=204)
        for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", ""), ("HEAD", "")):
            self.ask(method, f"/v1/models/{name}{path}", expect=404)
        blobs = os.path.join(self.daemon.data, "blobs", name[:2])
        self.assertEqual([file for file in os.listdir(blobs) if file.startswith(name[2:])], [])

    def test_delete_in_use(self):
        plan = self.submit(model(104))
        name = self.daemon.finished(plan)["model"]
        self.problem("DELETE", f"/v1/models/{name}", status=409, code="MODEL_IN_USE")
        self.ask("DELETE", f"/v1/plans/{plan}", expect=204)
        self.ask("DELETE", f"/v1/models/{name}", expect=204)

    def test_paging(self):
        for number in range(110, 117):
            self.store(model(number))
        seen, token = [], ""
        while True:
            page = self.ask("GET", "/v1/models?page_size=3" + token).json
            self.assertLessEqual(len(page["models"]), 3)
            seen += [item["id"] for item in page["models"]]
            if "next_page_token" not in page:
                break
            token = "&page_token=" + page["next_page_token"]
        self.assertEqual(len(seen), len(set(seen)))
        self.assertEqual(seen, [item["id"] for item in self.ask("GET", "/v1/models?page_size=9999").json["models"]])
        for wrong in ("page_size=0", "page_size=x", "page_token=x", "page_token=-1"):
            self.problem("GET", "/v1/models?" + wrong, status=400)

    def test_wrong_types(self):
        for kind, code in (
            ("application/jsonp", "UNSUPPORTED_MEDIA_TYPE"),
            ("application/x-www-form-urlencoded", "UNSUPPORTED_MEDIA_TYPE"),
            ("multipart/form-data; boundary=x", "UNSUPPORTED_MEDIA_TYPE"),
        ):
            self.problem("POST", "/v1/models", TINY, 415, code, Content_Type=kind)

    def test_no_body(self):
        connection = self.daemon.connect()
        connection.putrequest("POST", "/v1/models")
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 411)
        connection.close()
        self.problem("POST", "/v1/models", b"", 400)

    def test_wrong_name(self):
        self.problem("POST", "/v1/models?name=" + "x" * 256, TINY, 422, "BAD_NAME")
        self.problem("POST", "/v1/models?name=a%0ab", TINY, 400, "BAD_QUERY")

    def test_client_leaves(self):
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20) as connection:
                connection.sendall(b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + bytes(5000))
                self.daemon.wait_for(self.temporary_files, "the beginning of an upload")
        self.no_temporary_files()

    def test_the_same_model_from_many_at_once(self):
        data = model(120)
        statuses = []

        def upload():
            statuses.append(self.daemon.upload(data).status)

        threads = [threading.Thread(target=upload) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertLessEqual(set(statuses), {200, 201})
        self.assertIn(201, statuses)
        listed = [item["id"] for item in self.ask("GET", "/v1/models?page_size=500").json["models"]]
        self.assertEqual(listed.count(hashlib.sha256(data).hexdigest()), 1)
        self.no_temporary_files()

    def test_upload_and_delete_race(self):
        """Whatever wins, a listed model has its bytes, and an unlisted one has none."""
        data = model(121)
        name = hashlib.sha256(data).hexdigest()

        def repeat(method, path, body):
            for _ in range(15):
                self.daemon.request(method, path, body)

        threads = [threading.Thread(target=repeat, args=("POST", "/v1/models", data)) for _ in range(3)]
        threads += [threading.Thread(target=repeat, args=("DELETE", f"/v1/models/{name}", None)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        known = self.ask("GET", f"/v1/models/{name}", expect=(200, 404)).status
        self.assertEqual(self.ask("GET", f"/v1/models/{name}/content", expect=(200, 404)).status, known)


class TooLarge(DaemonCase):
    options = ("--workers", "1", "--max-upload", "1M")

    def test_too_large_by_length(self):
        """The answer must arrive although the client goes on sending."""
        for _ in range(10):
            answer = self.problem("POST", "/v1/models", bytes(8 << 20), 413, "MODEL_TOO_LARGE")
            self.assertEqual((answer.json["limit_value"], answer.json["actual"]), (1 << 20, 8 << 20))

    def test_too_large_with_expect(self):
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20) as connection:
            connection.sendall(
                b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n"
            )
            self.assertTrue(connection.recv(65536).startswith(b"HTTP/1.1 413 "))

    def test_too_large_chunked(self):
        pieces = (bytes(1 << 20) for _ in range(8))
        answer = self.daemon.request("POST", "/v1/models", pieces, {"Transfer-Encoding": "chunked"}, chunked=True)
        self.assertEqual(answer.status, 413, answer)
        self.no_temporary_files()


class Large(DaemonCase):
    """Memory does not grow with the model."""

    def test_memory(self):
        if SANITIZED:
            self.skipTest("the sanitizers' own memory is much larger")
        path = os.path.join(self.daemon.data, "large.onnx")
        size = onnx_make.write(path, onnx_make.big(300 << 20, "pattern"))
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=120)
        with open(path, "rb") as file:
            connection.request(
                "POST", "/v1/plans?devices=2&device=a100-sxm4-80gb", file,
                {"Content-Length": str(size), "Content-Type": "application/octet-stream", "Prefer": "wait=60"},
            )
            answer = connection.getresponse()
            plan = answer.headers["Location"]
            self.assertEqual(answer.status, 200, answer.read())
            answer.read()
        connection.request("GET", plan + "/model")
        answer = connection.getresponse()
        received = 0
        while piece := answer.read(1 << 20):
            received += len(piece)
        connection.close()
        self.assertEqual(received, int(answer.headers["Content-Length"]))
        self.assertGreater(received, size)
        for pid, peak in self.daemon.peak_memory().items():
            self.assertLess(peak, 64 << 20, pid)


class FullDisk(DaemonCase):
    """A worker that cannot write and an upload that does not fit."""

    def test_more_than_the_disk_has(self):
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20) as connection:
            free = os.statvfs(self.daemon.data)
            length = free.f_bavail * free.f_frsize + (1 << 40)
            connection.sendall(f"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode())
            self.assertIn(b"HTTP/1.1 413 " if length > 16 << 30 else b"HTTP/1.1 507 ", connection.recv(65536))


class Cluster(DaemonCase):
    def test_nothing_is_stored_by_a_refused_plan(self):
        self.problem("POST", "/v1/plans", {"model": "0" * 64, "cluster": CLUSTER}, 404, "MODEL_NOT_FOUND")
        self.assertEqual(self.ask("GET", "/v1/plans").json["plans"], [])
        with Daemon("--workers", "1") as other:
            self.assertEqual(other.get("/v1/plans").json["plans"], [])
