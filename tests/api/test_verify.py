"""POST /v1/verify: stored ranks' models, manifests, simulations and annotated models against what they are made of."""

import json
import os
import struct
import subprocess
import tempfile

from cases import DaemonCase
from test_checks import CLI, annotated
import onnx_make as make

MS = "com.microsoft"
NOBODY = "0" * 64
HIDDEN, INNER, ROWS = 4, 6, 3


def matrix(name, rows, columns, first=0.5):
    """A weight whose elements differ; rows and columns are lists of indices of one large matrix."""
    items = [first + 0.37 * r + 0.011 * c * (r + 1) for r in rows for c in columns]
    return make.delimited(5, make.integer(1, len(rows)), make.integer(1, len(columns)), make.integer(2, make.FLOAT),
                          make.delimited(8, name), make.delimited(9, struct.pack(f"<{len(items)}f", *items)))


def model(*graph):
    imports = [make.integer(1, 8), make.delimited(8, make.delimited(1, ""), make.integer(2, 17)),
               make.delimited(8, make.delimited(1, MS), make.integer(2, 1))]
    return make.encode([*imports, make.delimited(7, *graph, make.delimited(2, "made"))])


def mlp(columns, reduces, negates=False, wait=False):
    """Two products; of all columns of the first, or of a rank's."""
    last = "sum" if reduces else "y"
    nodes = [make.node("MatMul", ["x", "up"], ["a"]), make.node("Neg" if negates else "Tanh", ["a"], ["t"]),
             make.node("MatMul", ["t", "down"], ["p"] if reduces else ["y"])]
    if reduces and not wait:
        nodes += [make.node("AllReduce", ["p"], [last], domain=MS), make.node("Identity", [last], ["y"])]
    elif reduces:
        nodes += [make.node("Identity", ["p"], ["y"])]
    return model(make.graph_input("x", [ROWS, HIDDEN]), matrix("up", range(HIDDEN), columns),
                 matrix("down", columns, range(HIDDEN)), *nodes, make.graph_output("y", [ROWS, HIDDEN]))


ORIGINAL = mlp(range(INNER), False)
RANKS = [mlp(range(0, 3), True), mlp(range(3, 6), True)]
WRONG = mlp(range(3, 6), True, negates=True)
LONE = mlp(range(3, 6), True, wait=True)


class Verify(DaemonCase):
    def tearDown(self):
        self.assertNotIn('shardplan_workers_ended_total{reason="crashed"}', self.ask("GET", "/metrics").text)
        self.no_temporary_files()

    def verify(self, **body):
        return self.ask("POST", "/v1/verify", body).json

    def command(self, files, *arguments):
        """What the command says of the same files, with the names of files that the daemon calls by ids."""
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(data)
            done = subprocess.run([CLI, "verify", *arguments, "--json"], cwd=folder, capture_output=True, text=True,
                                  check=False)
        return json.loads(done.stdout)

    def test_ranks(self):
        original, ranks = self.store(ORIGINAL), [self.store(rank) for rank in RANKS]
        answer = self.verify(original=original, ranks=ranks)
        self.assertEqual((answer["verdict"], answer["programs"], answer["failures"]), ("proved", 2, []))
        self.assertEqual([reason["collective"] for reason in answer["reasons"]], ["AllReduce"])
        self.assertEqual(answer, self.command({"o": ORIGINAL, "0": RANKS[0], "1": RANKS[1]}, "o", "0", "1"))
        text = self.ask("POST", "/v1/verify", {"original": original, "ranks": ranks}, Accept="text/plain")
        self.assertEqual(text.headers["Content-Type"], "text/plain; charset=utf-8")
        self.assertTrue(text.text.startswith("Proved: "), text.text)

    def test_what_is_refuted(self):
        original, right, wrong = self.store(ORIGINAL), self.store(RANKS[0]), self.store(WRONG)
        answer = self.verify(original=original, ranks=[right, wrong])
        self.assertEqual(answer["verdict"], "refuted")
        self.assertIn(answer["failures"][0]["program"], (right, wrong))
        local = self.command({"o": ORIGINAL, right: RANKS[0], wrong: WRONG}, "o", right, wrong)
        self.assertEqual(answer, local)
        self.assertEqual(self.verify(original=original, ranks=[right])["verdict"], "refuted")
        self.assertEqual(self.verify(original=original, ranks=[right, right])["verdict"], "refuted")

    def test_ranks_that_wait_for_ever(self):
        answer = self.verify(original=self.store(ORIGINAL), ranks=[self.store(RANKS[0]), self.store(LONE)])
        self.assertEqual(answer["verdict"], "refuted")
        self.assertIn("never carried out", answer["failures"][0]["message"])

    def test_a_simulation(self):
        original = self.store(ORIGINAL)
        self.assertEqual(self.verify(original=original, simulation=original)["verdict"], "proved")
        wrong = self.store(mlp(range(INNER), False, negates=True))
        self.assertEqual(self.verify(original=original, simulation=wrong)["verdict"], "refuted")

    def test_an_annotated_model(self):
        answer = self.verify(annotated=self.store(annotated(8)))
        self.assertEqual(answer["verdict"], "proved")
        self.assertEqual(self.command({"a": annotated(8)}, "--annotated", "a"), answer)
        self.problem("POST", "/v1/verify", {"annotated": self.store(annotated(8, axis=5))}, code="AXIS_OUT_OF_RANGE")

    def test_a_manifest(self):
        with tempfile.TemporaryDirectory() as folder:
            path, out = os.path.join(folder, "m.onnx"), os.path.join(folder, "out")
            with open(path, "wb") as file:
                file.write(ORIGINAL)
            subprocess.run([CLI, "plan", path, "--devices", "2", "--device", "a100-sxm4-80gb", "--strategy", "tensor",
                            "--emit", out], check=True, capture_output=True)
            with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
                manifest = json.load(file)
            names = [part["model"] for device in manifest["devices"] for part in device["parts"]]
            ranks = {}
            for name in names:
                with open(os.path.join(out, name), "rb") as file:
                    ranks[name] = self.store(file.read())
            local = subprocess.run([CLI, "verify", path, "--manifest", os.path.join(out, "manifest.json"), "--json"],
                                   capture_output=True, check=True)
        original = self.store(ORIGINAL)
        answer = self.verify(original=original, manifest=manifest, ranks=ranks)
        self.assertEqual(answer["verdict"], "proved")
        self.assertEqual(answer, json.loads(local.stdout))
        del ranks[names[-1]]
        body = {"original": original, "manifest": manifest, "ranks": ranks or {"other": original}}
        self.problem("POST", "/v1/verify", body, code="RANK_MISSING", pointer="/ranks")
        for wrong in ({}, {"devices": 3}, {"devices": [{"parts": [{"model": "x"}]}]}):
            self.problem("POST", "/v1/verify", {"original": original, "manifest": wrong, "ranks": {"x": original}}, 400,
                         code="BAD_MANIFEST")

    def test_a_pipeline(self):
        """The models of a genai_config.json, which is the manifest."""
        def stage(name, inputs, outputs, **more):
            return {"filename": name, "inputs": inputs, "outputs": outputs, **more}

        def product(name, weight, last):
            return model(make.graph_input(name, [ROWS, HIDDEN]), matrix(weight, range(HIDDEN), range(HIDDEN), first=len(weight)),
                         make.node("MatMul", [name, weight], [last]), make.graph_output(last, [ROWS, HIDDEN]))

        def config(**more):
            stages = {"first": stage("a.onnx", ["x"], ["h"], **more), "last": stage("b.onnx", ["h"], ["y"])}
            return {"model": {"decoder": {"pipeline": [stages]}}}

        original = self.store(model(
            make.graph_input("x", [ROWS, HIDDEN]), matrix("v", range(HIDDEN), range(HIDDEN), first=1),
            matrix("ww", range(HIDDEN), range(HIDDEN), first=2), make.node("MatMul", ["x", "v"], ["h"]),
            make.node("MatMul", ["h", "ww"], ["y"]), make.graph_output("y", [ROWS, HIDDEN])))
        ranks = {"a.onnx": self.store(product("x", "v", "h")), "b.onnx": self.store(product("h", "ww", "y"))}
        self.assertEqual(self.verify(original=original, manifest=config(), ranks=ranks)["verdict"], "proved")
        again = {**ranks, "b.onnx": self.store(product("h", "v", "y"))}
        self.assertEqual(self.verify(original=original, manifest=config(), ranks=again)["verdict"], "refuted")
        body = {"original": original, "manifest": config(run_on_token_gen=False), "ranks": ranks}
        self.problem("POST", "/v1/verify", body, code="PLACEMENT_FILE")
        self.assertEqual(self.verify(**body, phase="prompt")["verdict"], "proved")
        self.problem("POST", "/v1/verify", {**body, "phase": "night"}, code="MEMBER_TEXT", pointer="/phase")
        self.problem("POST", "/v1/verify", {**body, "manifest": {"devices": []}, "phase": "token"}, code="BAD_MANIFEST")

    def test_dimensions_and_values(self):
        open_rows = model(make.graph_input("x", ["n", HIDDEN]), matrix("up", range(HIDDEN), range(HIDDEN)),
                          make.node("MatMul", ["x", "up"], ["y"]), make.graph_output("y", ["n", HIDDEN]))
        identity = self.store(open_rows)
        few, many = (self.verify(original=identity, ranks=[identity], dims={"n": n})["compared_elements"] for n in (2, 5))
        self.assertEqual((few, many), (2 * HIDDEN, 5 * HIDDEN))
        self.problem("POST", "/v1/verify", {"original": identity, "ranks": [identity], "dims": {"n": -1}}, pointer="/dims/n")

    def test_weights(self):
        """In large models, which are evaluated at some indices only; weights beside them are not stored."""
        def product(columns, damage=None, outside=False):
            weight = [0.5 + 0.37 * r + 0.0011 * c for r in range(300) for c in columns]
            if damage is not None:
                weight[damage] += 1
            data = make.delimited(9, struct.pack(f"<{len(weight)}f", *weight))
            if outside:
                data = [make.integer(14, 1), make.delimited(13, make.delimited(1, "location"), make.delimited(2, "w.bin"))]
            tensor = make.delimited(5, make.integer(1, 300), make.integer(1, len(columns)), make.integer(2, make.FLOAT),
                                    make.delimited(8, "W"), *(data if outside else [data]))
            return self.store(model(make.graph_input("x", [1 << 16, 300]), tensor, make.node("MatMul", ["x", "W"], ["y"]),
                                    make.graph_output("y", [1 << 16, len(columns)])))
        original, first = product(range(400)), product(range(200))
        right, damaged = product(range(200, 400)), product(range(200, 400), damage=200 * 299 - 3)
        self.assertEqual(self.verify(original=original, ranks=[first, right], weights=True)["verdict"], "proved")
        self.assertEqual(self.verify(original=original, ranks=[first, damaged])["verdict"], "proved")
        answer = self.verify(original=original, ranks=[first, damaged], weights=True)
        self.assertEqual((answer["verdict"], answer["indices"]), ("refuted", "some"))
        self.assertEqual(answer["failures"][0]["program"], damaged)
        self.assertIn("(element [298, 197])", answer["failures"][0]["message"])
        answer = self.verify(original=original, ranks=[first, product(range(200, 400), outside=True)], weights=True)
        self.assertEqual(answer["verdict"], "undecided")
        self.assertIn("'w.bin'", answer["failures"][0]["message"])
        self.problem("POST", "/v1/verify", {"original": original, "ranks": [first], "weights": 1}, pointer="/weights")
        self.problem("POST", "/v1/verify", {"annotated": original, "weights": True}, code="NO_WEIGHTS", pointer="/weights")

    def test_what_makes_no_sense(self):
        original = self.store(ORIGINAL)
        for body in ({}, {"original": original}, {"annotated": original, "ranks": [original]},
                     {"original": original, "annotated": original},
                     {"original": original, "ranks": [original], "simulation": original},
                     {"original": original, "manifest": {"devices": []}}):
            self.problem("POST", "/v1/verify", body, code="VERIFY_WHAT")
        for ranks, pointer in (([], "/ranks"), (3, "/ranks"), ([3], "/ranks/0"), ({"a": original}, "/ranks")):
            self.problem("POST", "/v1/verify", {"original": original, "ranks": ranks}, pointer=pointer)
        self.problem("POST", "/v1/verify", {"original": original, "ranks": ["../../x"]}, code="BAD_REQUEST")
        self.problem("POST", "/v1/verify", {"original": "x", "ranks": [original]}, code="BAD_REQUEST")
        self.problem("POST", "/v1/verify", {"original": original, "rank": []}, code="MEMBER_UNKNOWN", pointer="/rank")
        self.problem("POST", "/v1/verify", b"{", 400, code="MALFORMED_JSON", Content_Type="application/json")
        self.problem("POST", "/v1/verify", b"", 415)
        self.problem("POST", "/v1/verify", {"original": original, "ranks": [original]}, 406, Accept="image/png")
        many = self.problem("POST", "/v1/verify", {"original": original, "ranks": [original] * 513}, code="TOO_MANY_RANKS")
        self.assertEqual(many.json["limit"], "SP_MAX_VERIFY_MODELS")

    def test_models_that_are_not_there(self):
        original = self.store(ORIGINAL)
        for body in ({"original": NOBODY, "ranks": [original]}, {"original": original, "ranks": [original, NOBODY]},
                     {"original": original, "simulation": NOBODY}, {"annotated": NOBODY}):
            self.problem("POST", "/v1/verify", body, 404, code="MODEL_NOT_FOUND")

    def test_hostile_ranks(self):
        """What can be stored and is no rank of it gets a verdict or a problem of the request."""
        original = self.store(ORIGINAL)
        graph = make.graph_input("x", [1 << 40, 1 << 20])
        huge = model(graph, make.node("MatMul", ["x", "x2"], ["y"]), make.graph_input("x2", [1 << 20, 1 << 40]),
                     make.graph_output("y", [1 << 40, 1 << 40]))
        other = model(make.graph_input("z", [2, 2]), make.node("Neg", ["z"], ["w"]), make.graph_output("w", [2, 2]))
        description = {"name": "d", "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [3, 4]}], "outputs": ["y"],
                       "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}]}
        costs = {"name": "c", "nodes": [{"id": 0, "seconds": 1}], "edges": []}
        stored = [self.store(huge), self.store(other)]
        for data in (description, costs):
            stored.append(self.ask("POST", "/v1/models", data, (200, 201)).json["id"])
        for rank in stored:
            for body in ({"original": original, "ranks": [rank]}, {"original": rank, "ranks": [original]},
                         {"original": rank, "ranks": [rank]}, {"annotated": rank}):
                answer = self.ask("POST", "/v1/verify", body, (200, 400, 422))
                if answer.status == 200 and rank != body.get("original") and "ranks" in body:
                    self.assertNotEqual(answer.json["verdict"], "proved", body)
        self.ask("GET", "/readyz")


GRAPH = make.encode(make.diamonds(20000, name="limits"))


class LimitOfTime(DaemonCase):
    options = ("--workers", "1", "--job-seconds", "1")

    def test_many_ranks_of_a_large_graph(self):
        original, small = self.store(GRAPH), self.store(ORIGINAL)
        answer = self.problem("POST", "/v1/verify", {"original": original, "ranks": [original] * 512}, 422, "TIME_LIMIT")
        self.assertEqual(answer.json["limit"], "--job-seconds")
        self.assertEqual(self.ask("POST", "/v1/verify", {"original": small, "ranks": [small]}).json["verdict"], "proved")


class LimitOfMemory(DaemonCase):
    options = ("--workers", "1", "--job-memory", "64M")

    def test_a_graph_that_does_not_fit(self):
        original, small = self.store(GRAPH), self.store(ORIGINAL)
        answer = self.problem("POST", "/v1/verify", {"original": original, "ranks": [original] * 8}, 422, "MODEL_TOO_DEMANDING")
        self.assertEqual((answer.json["limit"], answer.json["limit_value"]), ("--job-memory", 64 << 20))
        self.assertEqual(self.ask("POST", "/v1/verify", {"original": small, "ranks": [small]}).json["verdict"], "proved")
