"""Files that are made of a plan: the simulation, the devices' models, the trace, and the notations of other tools."""

import csv
import io
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile

from cases import CLUSTER, MODELS, TOP, DaemonCase, model
from running import SWEEP, made
from test_checks import CLI
import onnx_make

FILE = "application/octet-stream"
REFUSED = {"polygraphy-hints": "NOT_BY_SEQUENCE", "genai": "NOT_A_DECODER", "triton-tensorrt": "SEVERAL_WORLDS"}  # of plans of stages of no language model
OF_SERVERS = ("vllm-args", "sglang-args", "trtllm-args", "llamacpp-args", "mlx", "exo")  # of models with layers
OF_DEVICES = ("ort-collectives", "tensorrt", "sessions")

# Weights with data of their own, more than what is copied into small records: 16 KiB.
WEIGHTS = [float(index % 97) + 0.5 for index in range(64 * 64)]
DESCRIBED = json.dumps({
    "opset": 21,
    "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 64]}],
    "initializers": [{"name": "w", "dtype": "float32", "shape": [64, 64], "data": WEIGHTS}],
    "nodes": [{"name": "first", "op": "MatMul", "inputs": ["x", "w"], "outputs": ["h"]},
              {"name": "second", "op": "MatMul", "inputs": ["h", "w"], "outputs": ["y"]}],
    "outputs": ["y"],
}).encode()

# Each operator is a kernel, so that even small models have something for the second device.
ALONE = {**CLUSTER, "runtime": "generic"}


def protobuf_text(data):
    """A trace as protoc shows it."""
    return subprocess.run(
        ["protoc", f"--proto_path={TOP}/proto", "--decode=perfetto.protos.Trace", "perfetto_trace.proto"],
        input=data, capture_output=True, check=True).stdout.decode()


class Manifests(DaemonCase):
    def sound(self, data):
        """The inspection of an ONNX file without findings."""
        found = self.ask("POST", "/v1/check", data, Content_Type=FILE).json
        self.assertEqual((found["valid"], [item for item in found["diagnostics"] if item["severity"] == "error"]),
                         (True, []))
        return self.ask("POST", "/v1/models", data, (200, 201)).json

    def exchanges_fit(self, models, order):
        """Whatever comes from a device is an output of it, in a model that is run before."""
        place = {name: index for index, names in enumerate(order) for name in names}
        for name, (_, part) in models.items():
            for port in part["inputs"]:
                if port["from"] != "device":
                    continue
                source = [other for other, (device, made) in models.items()
                          if (device, made["part"]) == (port["device"], port["part"])]
                self.assertEqual(len(source), 1)
                self.assertIn(port["output"], [output["name"] for output in models[source[0]][1]["outputs"]])
                self.assertLess(place[source[0]], place[name])


class Exports(Manifests):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(os.path.join(MODELS, "transformer_tiny.onnx"), "rb") as file:
            cls.bundled = cls.planned(file.read(), "tiny")
        cls.described = cls.planned(DESCRIBED, "described", "application/json")
        cls.absent = cls.planned(onnx_make.encode(onnx_make.mlp(4, 512, 64, weights="external")), "absent")

    @classmethod
    def planned(cls, data, name, kind=FILE):
        """The path of the finished plan."""
        stored = cls.daemon.upload(data, f"/v1/models?name={name}", Content_Type=kind).json["id"]
        answer = cls.daemon.request("POST", "/v1/plans", {"model": stored, "cluster": ALONE, "options": {"replicas": 1}},
                                    {"Prefer": "wait=60"})
        assert answer.status == 200 and answer.json["state"] == "succeeded", answer
        return "/v1/plans/" + answer.json["id"]

    def plans(self):
        return self.bundled, self.described, self.absent

    def formats(self):
        item = self.daemon.contract.document["paths"]["/v1/plans/{id}/exports/{format}"]
        return item["parameters"][1]["schema"]["enum"]

    def test_every_route_of_a_plan(self):
        for plan in self.plans():
            stored = self.ask("GET", "/v1/models/" + self.ask("GET", plan).json["model"]).json
            simulation = self.sound(self.ask("GET", f"{plan}/simulation").body)
            for member in ("inputs", "outputs"):
                self.assertEqual(simulation[member], stored[member])
            self.assertNotIn("metadata_props", simulation)
            self.assertEqual(self.ask("GET", f"{plan}/exports/simulation").body,
                             self.ask("GET", f"{plan}/simulation").body)
            for device in (0, 1):
                self.sound(self.ask("GET", f"{plan}/devices/{device}/model").body)
            timeline = self.ask("GET", f"{plan}/timeline")
            self.assertEqual(timeline.headers["Content-Type"], "application/x-protobuf")
            self.assertEqual(self.ask("GET", f"{plan}/exports/perfetto").body, timeline.body)

    def test_every_format(self):
        """Stages hold whole nodes, which ONNX Runtime's Distributed operators do not have: 422, and why."""
        self.assertGreaterEqual(len(self.formats()), 21)
        statuses = {name: set() for name in OF_SERVERS}
        for plan in self.plans():
            for name in self.formats():
                with self.subTest(name):
                    if name == "ort":
                        self.problem("GET", f"{plan}/exports/ort", status=422, code="PART_OF_THE_DEVICES")
                    elif name in REFUSED:
                        self.problem("GET", f"{plan}/exports/{name}", status=422, code=REFUSED[name])
                    elif name in OF_SERVERS:
                        answer = self.ask("GET", f"{plan}/exports/{name}", None, (200, 422))
                        self.assertTrue(answer.status == 200 or answer.json["code"] == "LAYERS_UNKNOWN", answer.body)
                        statuses[name].add(answer.status)
                    else:
                        self.assertGreater(len(self.ask("GET", f"{plan}/exports/{name}").body), 0)
        self.assertIn({200, 422}, statuses.values())

    def test_a_plan_of_several_routes(self):
        """Each device has its model, the summary has the shares, and what is not for routes is refused."""
        figures = {"memory_bytes": 1e9, "memory_bandwidth": 1e12, "link_bandwidth": 1e11}
        cluster = {"groups": [{"count": count, "device": {**figures, "name": name, "flops": {"float32": flops}}}
                              for name, count, flops in (("fast", 1, 4e11), ("slow", 2, 2e11))]}
        stored = self.daemon.upload(onnx_make.encode(onnx_make.mlp(4, 512, 512)), "/v1/models", Content_Type=FILE).json["id"]
        wanted = {"model": stored, "cluster": cluster, "options": {"strategy": "routes"}}
        answer = self.daemon.request("POST", "/v1/plans", wanted, {"Prefer": "wait=60"}).json
        plan = f"/v1/plans/{answer['id']}"
        routes = self.ask("GET", f"{plan}/summary").json["routes"]
        self.assertGreater(len(routes["paths"]), 1)
        self.assertAlmostEqual(sum(path["share"] for path in routes["paths"]), 1)
        manifest = self.ask("GET", f"{plan}/exports/sessions").json
        self.assertEqual([route["share"] for route in manifest["routes"]], [path["share"] for path in routes["paths"]])
        for device in range(3):
            inspection = self.sound(self.ask("GET", f"{plan}/devices/{device}/model?format=sessions").body)
            self.assertEqual([one["name"] for one in inspection["inputs"]],
                             [port["name"] for port in manifest["devices"][device]["parts"][0]["inputs"]])
        refused = self.daemon.request("POST", "/v1/plans", {**wanted, "objective": "latency"}, {"Prefer": "wait=60"})
        self.assertEqual((refused.status, refused.json["code"]), (422, "ROUTES_UNSUPPORTED"))

    def test_what_a_notation_cannot_say(self):
        unnamed = self.planned(DESCRIBED.replace(b'"name": "first", ', b""), "unnamed", "application/json")
        for name in ("poprt", "poprt-model", "qualcomm-mdp"):
            status = 422 if name == "poprt" else 200
            answer = self.ask("GET", f"{unnamed}/exports/{name}", expect=status)
            if status == 422:
                self.assertEqual(answer.json["code"], "NODE_NAMES")

    def test_the_contract_has_every_format(self):
        """What the program knows, as its sources list it, and what the contract says."""
        listed = set()
        for name in ("core/export/files.c", "core/export/export.c"):
            with open(os.path.join(TOP, name), encoding="utf-8") as file:
                listed |= set(re.findall(r'(?m)^    \{\{?"([a-z-]+)", ', file.read()))
        self.assertEqual(set(self.formats()), listed)

    def test_the_manifest_names_what_is_there(self):
        for plan in self.plans():
            for name in OF_DEVICES:
                manifest = self.ask("GET", f"{plan}/exports/{name}")
                self.assertEqual(manifest.headers["Content-Type"], "application/json")
                models = {}
                for device in manifest.json["devices"]:
                    for part in device["parts"]:
                        path = f"{plan}/devices/{device['id']}/model?format={name}&part={part['part']}"
                        inspection = self.sound(self.ask("GET", path).body)
                        for member in ("inputs", "outputs"):
                            self.assertEqual([item["name"] for item in inspection[member]],
                                             [item["name"] for item in part[member]])
                        models[part["model"]] = device["id"], part
                self.assertEqual(sorted(models), sorted(sum(manifest.json["order"], [])))
                self.exchanges_fit(models, manifest.json["order"])

    def test_weights(self):
        """Those of a description are in the files byte for byte; external ones are referred to, not invented."""
        weights = struct.pack(f"<{len(WEIGHTS)}f", *WEIGHTS)
        for route in ("model", "simulation", "devices/0/model", "devices/1/model"):
            with self.subTest(route):
                self.assertIn(weights, self.ask("GET", f"{self.described}/{route}").body)
        original = self.ask("GET", "/v1/models/" + self.ask("GET", self.absent).json["model"]).json["external_data"]
        total = 0
        for route in ("devices/0/model", "devices/1/model"):
            data = self.ask("GET", f"{self.absent}/{route}").body
            self.assertIn(b"weights.bin", data)
            self.assertLess(len(data), 10000)
            total += self.sound(data)["external_data"]["bytes"]
        self.assertEqual(total, original["bytes"])
        self.assertEqual(self.sound(self.ask("GET", f"{self.absent}/simulation").body)["external_data"], original)

    def test_a_trace_is_read_by_protoc(self):
        if shutil.which("protoc") is None:
            self.skipTest("protoc is not installed")
        for plan in self.plans():
            text = protobuf_text(self.ask("GET", f"{plan}/timeline").body)
            self.assertNotRegex(text, r"(?m)^ *\d+:")  # a field that the schema does not know
            self.assertIn("a100-sxm4-80gb:1", text)
            begins, ends = text.count("TYPE_SLICE_BEGIN"), text.count("TYPE_SLICE_END")
            self.assertEqual(begins, ends)
            self.assertGreater(begins, 0)

    def test_ranges_and_validators(self):
        for route in ("simulation", "timeline", "devices/1/model", "devices/0/model?format=sessions",
                      "exports/csv", "exports/ort-collectives", "exports/poprt-model"):
            with self.subTest(route):
                path = f"{self.described}/{route}"
                whole = self.ask("GET", path)
                size = len(whole.body)
                self.assertEqual(int(whole.headers["Content-Length"]), size)
                head = self.ask("HEAD", path)
                self.assertEqual(head.body, b"")
                for name in ("Content-Length", "Content-Type", "ETag"):
                    self.assertEqual(head.headers[name], whole.headers[name])
                self.assertEqual(self.ask("GET", path, expect=304, If_None_Match=whole.headers["ETag"]).body, b"")
                self.assertEqual(self.ask("GET", path, If_None_Match='"other"').body, whole.body)
                for first, last in ((0, 0), (3, 40), (size // 2, size // 2 + 33), (size - 5, size - 1)):
                    part = self.ask("GET", path, expect=206, Range=f"bytes={first}-{last}")
                    self.assertEqual(part.body, whole.body[first : last + 1])
                    self.assertEqual(part.headers["Content-Range"], f"bytes {first}-{last}/{size}")
                self.problem("GET", path, status=416, code="RANGE_NOT_SATISFIABLE", Range=f"bytes={size}-")
        tags = {self.ask("HEAD", f"{self.described}/devices/{device}/model").headers["ETag"] for device in (0, 1)}
        self.assertEqual(len(tags), 2)

    def test_what_is_not_there(self):
        none = "/v1/plans/" + "0" * 32
        for route in ("simulation", "timeline", "devices/0/model", "exports/csv"):
            self.problem("GET", f"{none}/{route}", status=404, code="PLAN_NOT_FOUND")
        plan = self.bundled
        for route, code in (("exports/word", "UNKNOWN_FORMAT"), ("exports/csv-", "UNKNOWN_FORMAT"),
                            ("exports/CSV", "UNKNOWN_FORMAT"), ("exports/", "NOT_FOUND"), ("exports/csv/x", "NOT_FOUND"),
                            ("exports/" + "x" * 200, "NOT_FOUND"), ("devices/2/model", "NO_SUCH_DEVICE"),
                            ("devices/999999999/model?format=tensorrt", "NO_SUCH_DEVICE"),
                            ("devices/9999999999/model", "NO_SUCH_DEVICE"), ("devices/gpu/model", "NO_SUCH_DEVICE"),
                            ("devices/-1/model", "NO_SUCH_DEVICE"), ("devices/0/model?part=1", "NO_SUCH_PART"),
                            ("devices/0/model?part=999999999&format=sessions", "NO_SUCH_PART"),
                            ("devices/0/model?format=ort&part=1", "NO_SUCH_PART"), ("devices/0", "NOT_FOUND")):
            with self.subTest(route):
                self.problem("GET", f"{plan}/{route}", status=404, code=code)

    def test_bad_queries(self):
        for query in ("part=-1", "part=x", "part=", "part=1e3", "part=0x1", "part=9999999999", "part=%201",
                      "format=csv", "format=", "format=simulation", "format=TENSORRT"):
            with self.subTest(query):
                self.problem("GET", f"{self.bundled}/devices/0/model?{query}", status=400, code="BAD_PARAMETER")
        for route in ("devices/0/model?color=red", "simulation?part=0", "timeline?x=1", "exports/csv?format=csv"):
            with self.subTest(route):
                self.problem("GET", f"{self.bundled}/{route}", status=400, code="UNKNOWN_PARAMETER")

    def test_types(self):
        for route, kind in (("simulation", FILE), ("timeline", "application/x-protobuf"), ("devices/0/model", FILE),
                            ("exports/csv", "text/csv"), ("exports/sessions", "application/json")):
            with self.subTest(route):
                path = f"{self.bundled}/{route}"
                self.ask("GET", path, Accept=kind)
                self.ask("GET", path, Accept="*/*")
                self.problem("GET", path, status=406, code="NOT_ACCEPTABLE", Accept="image/png")
        self.problem("POST", f"{self.bundled}/simulation", b"", 405, "METHOD_NOT_ALLOWED")

    def test_the_index_lists_them(self):
        listed = self.ask("GET", "/", Accept="application/json").text
        for route in ("simulation", "timeline", "devices/", "exports/"):
            self.assertIn("/v1/plans/{id}/" + route, listed)

    def test_a_plan_that_failed(self):
        """10 GiB of weights on devices of a gigabyte."""
        big = onnx_make.encode(onnx_make.mlp(40, 8192, weights="external"))
        small = {"name": "small", "memory_bytes": 1e9, "memory_bandwidth": 1e12, "link_bandwidth": 1e10,
                 "flops": {"float32": 1e13}}
        cluster = {"groups": [{"count": 2, "device": small}]}
        answer = self.ask("POST", "/v1/plans", {"model": self.store(big), "cluster": cluster}, 422, Prefer="wait=60")
        for route in ("simulation", "timeline", "devices/0/model", "exports/csv"):
            self.problem("GET", f"{answer.headers['Location']}/{route}", status=409, code="PLAN_NOT_READY")

    def test_nothing_is_left_behind(self):
        plan = self.planned(model(40), "gone")
        self.ask("GET", f"{plan}/simulation")
        self.ask("DELETE", plan, expect=204)
        self.problem("GET", f"{plan}/simulation", status=404, code="PLAN_NOT_FOUND")
        self.no_temporary_files()


class Stopped(Manifests):
    """Of a plan that was cancelled, or out of time, files are made as of any other."""

    options = ("--workers", "1", "--job-seconds", "120")
    NOTATIONS = ("simulation", "timeline", "exports/csv", "exports/csv-devices", "exports/csv-tensors", "exports/csv-collectives",
                 "exports/op-sharding", "exports/shardy", "exports/ort-collectives")

    def cancelled(self, **question):
        """A plan that was cancelled when something had been found."""
        body = {"model": self.store(made("llama3-8b")), **question}
        path = self.ask("POST", "/v1/plans", body, 202, Cache_Control="no-cache").headers["Location"]

        def look():
            row = self.ask("GET", path).json
            return row["state"] not in ("queued", "running") or row["progress"].get("best_seconds", 0) > 0

        self.daemon.wait_for(look, "a first plan")
        done = self.ask("POST", f"{path}/cancel", Prefer="wait=60").json
        self.assertTrue(done["has_result"], done)
        return path, done

    def files(self, plan):
        """What is made of a plan, by its path: all notations, and what the first and the last device run."""
        found = {path: self.ask("GET", f"{plan}/{path}").body for path in self.NOTATIONS}
        devices = json.loads(found["exports/ort-collectives"])["devices"]
        for device in (devices[0], devices[-1]):
            for part in device["parts"]:
                path = f"devices/{device['id']}/model?part={part['part']}"
                found[path] = self.ask("GET", f"{plan}/{path}").body
                inspection = self.sound(found[path])
                for member in ("inputs", "outputs"):
                    self.assertEqual([item["name"] for item in inspection[member]], [item["name"] for item in part[member]])
        manifest = json.loads(found["exports/ort-collectives"])
        self.exchanges_fit({part["model"]: (device["id"], part) for device in manifest["devices"] for part in device["parts"]},
                           manifest["order"])
        self.sound(found["simulation"])
        return found

    def figures_fit(self, plan, files):
        """The tables have the figures of the plan that was shown."""
        rows = list(csv.DictReader(io.StringIO(files["exports/csv-devices"].decode())))
        of_stages = {device for stage in plan["stages"] for device in stage["devices"]}  # of the first copy
        used = [device for device in plan["devices"] if device["id"] in of_stages]
        self.assertEqual([float(row["compute_seconds"]) for row in rows if row["stage"] != ""],
                         [device["compute_seconds"] for device in used])

    def annotated_says_the_same(self, path, files):
        """The annotated model was written by the search itself: what it says of shardings is what files are made of."""
        with tempfile.TemporaryDirectory() as folder:
            annotated, written = os.path.join(folder, "annotated.onnx"), os.path.join(folder, "written")
            with open(annotated, "wb") as file:
                file.write(self.ask("GET", f"{path}/model").body)
            for name in ("op-sharding", "shardy"):
                subprocess.run([CLI, "export", annotated, "--format", name, "-o", written], check=True,
                               capture_output=True)
                with open(written, "rb") as file:
                    self.assertEqual(file.read(), files[f"exports/{name}"])

    def test_one_search_that_was_ended(self):
        for _ in range(20):  # it may have come to its end before it was told to
            path, done = self.cancelled(cluster={"device": "a100-sxm4-80gb", "count": 64})
            if "SEARCH_STOPPED" in [note["code"] for note in done["plan"]["diagnostics"]]:
                break
        self.assertEqual(done["state"], "cancelled")
        self.assertIn("SEARCH_STOPPED", [note["code"] for note in done["plan"]["diagnostics"]])
        files = self.files(path)
        self.figures_fit(done["plan"], files)
        self.annotated_says_the_same(path, files)

    def test_a_sweep_that_was_ended(self):
        path, done = self.cancelled(sweep=SWEEP)
        self.assertEqual(done["state"], "cancelled")
        files = self.files(path)
        self.figures_fit(done["plan"], files)
        self.annotated_says_the_same(path, files)


class Frozen(DaemonCase):
    def test_a_plan_that_waits(self):
        body = {"model": self.store(), "cluster": ALONE}
        workers = self.daemon.freeze()
        plan = self.ask("POST", "/v1/plans", body, 202).json["id"]
        for route in ("simulation", "timeline", "devices/0/model", "exports/csv", "exports/sessions"):
            self.problem("GET", f"/v1/plans/{plan}/{route}", status=409, code="PLAN_NOT_READY")
        self.daemon.thaw(workers)
        self.daemon.finished(plan)
        self.ask("GET", f"/v1/plans/{plan}/simulation")
