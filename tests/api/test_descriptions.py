"""Models described in JSON: stored as the text, and worked on as any model."""

import hashlib
import json
import os

from cases import CLUSTER, TOP, DaemonCase
import onnx_make

JSON = {"Content_Type": "application/json"}

with open(os.path.join(TOP, "api/examples/attention.json"), "rb") as example:
    ATTENTION = example.read()


class Descriptions(DaemonCase):
    options = ("--workers", "2")

    def upload(self, text=ATTENTION):
        return self.ask("POST", "/v1/models?name=attention.json", text, (200, 201), **JSON).json

    def test_the_text_is_stored(self):
        inspection = self.upload()
        self.assertEqual(inspection["id"], hashlib.sha256(ATTENTION).hexdigest())
        self.assertEqual(inspection["bytes"], len(ATTENTION))
        self.assertEqual(inspection["node_count"], 17)
        self.assertEqual(inspection["operators"]["MatMul"], 6)
        self.assertEqual(self.ask("GET", f"/v1/models/{inspection['id']}/content").body, ATTENTION)

    def test_the_type_does_not_decide(self):
        """Bytes say what they are: an ONNX file under the type of JSON, and JSON under the type of files."""
        text = b'{"opset": 17, "nodes": [], "doc": "as bytes"}'
        self.ask("POST", "/v1/models", text, 201, Content_Type="application/octet-stream")
        self.ask("POST", "/v1/models", onnx_make.encode(onnx_make.chain(77)), 201, **JSON)

    def test_values_are_inferred(self):
        name = self.upload()["id"]
        answer = self.ask("POST", f"/v1/models/{name}/inspect", {"values": True, "dims": {"seq": 128}}).json
        self.assertEqual(answer["values"]["s"], {"dtype": "float32", "shape": ["batch", 4, 128, 128]})

    def test_check(self):
        answer = self.ask("POST", "/v1/check", ATTENTION, **JSON).json
        self.assertEqual((answer["valid"], answer["diagnostics"]), (True, []), answer)

    def test_plan_and_annotated_model(self):
        name = self.upload()["id"]
        body = {"model": name, "cluster": CLUSTER, "options": {"batch": 8, "dims": {"seq": 512}}}
        plan = self.ask("POST", "/v1/plans", body, (200, 202), Prefer="wait=60").json
        self.assertEqual(plan["state"], "succeeded", plan)
        self.assertEqual(plan["plan"]["model"]["size_bytes"], len(ATTENTION))
        annotated = self.ask("GET", f"/v1/plans/{plan['id']}/model").body
        # The download is an ONNX file: uploaded again, it has the plan's configuration.
        again = self.ask("POST", "/v1/models", annotated, 201).json
        self.assertEqual((again["node_count"], again["ir_version"]), (17, 11))
        self.assertEqual([item["name"] for item in again["configurations"]], ["shardplan"])
        part = self.daemon.request("GET", f"/v1/plans/{plan['id']}/model", None, {"Range": "bytes=100-199"})
        self.assertEqual((part.status, part.body), (206, annotated[100:200]))

    def test_what_is_wrong_is_told_with_its_place(self):
        wrong = json.loads(ATTENTION)
        del wrong["nodes"][5]["op"]
        for text, status, code, pointer in (
            (json.dumps(wrong).encode(), 400, "MEMBER_MISSING", "/nodes/5"),
            (b'{"opset": 17, "nodes": [}', 400, "MALFORMED_JSON", None),
            (b'{"layers": []}', 400, "DESCRIPTION_UNKNOWN", None),
            (b'{"nodes": [{"id": 1, "seconds": 1}], "edges": [{"from": 1, "to": 1}]}', 400, "SELF_EDGE", "/edges/0"),
            (b'{"opset": 17, "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}]}', 422, None, None),
        ):
            answer = self.problem("POST", "/v1/models", text, status, code, **JSON)
            if pointer is not None:
                self.assertIn(pointer, json.dumps(answer.json["errors"]))
        self.no_temporary_files()
