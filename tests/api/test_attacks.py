"""The catalogue of inputs that a service like this is attacked with, row by row, through HTTP: J containers and JSON, O
the structure of ONNX files, P planning and the service itself. What other tests here ask already is named, not repeated."""

import base64
import gzip
import itertools
import json
import os
import re

from cases import CLUSTER, TINY, DaemonCase, model
from daemon import TOP
import hostile
from hostile import BOOL, FLOAT, INT64, attribute_graph, message, node, number, relu, tensor, value, varint
import zstd

PLAN = "/v1/plans?devices=2&device=a100-sxm4-80gb"
TABLE = os.path.join(TOP, "tests/api/test_attacks.py")


def of(names, cases):
    """These of the named cases, which must all be there."""
    found = {name: data for name, data in cases if name in names}
    assert set(found) == set(names), set(names) - set(found)
    return [(name, found[name]) for name in names]


def known(*names):
    return of(names, itertools.chain(hostile.cases(), hostile.wrong_models(), hostile.unplannable()))


def attribute(name, *fields, kind):
    return message(5, message(1, name), *fields, number(20, kind))


def ints(name, *values):
    return attribute(name, *(number(8, item) for item in values), kind=7)


def integer(name, item):
    return attribute(name, number(3, item), kind=2)


def text(name, item):
    return attribute(name, message(4, item), kind=3)


def one(op, attributes=(), inputs=(("x", (2, 3)),), outputs=("y",), constants=(), opset=16, shape=("a", "b")):
    """A model of one node: inputs with their dims, tensors as they come, and outputs of any shape."""
    names = [name for name, _ in inputs] + [name for name, _ in constants]
    return hostile.model(node(op, names, outputs, *attributes), *(value(11, name, dims) for name, dims in inputs),
                         *(data for _, data in constants), *(value(12, name, shape) for name in outputs), opset=opset)


def longs(name, *values):
    return name, tensor(name, [len(values)], INT64, message(7, *(varint(item & (1 << 64) - 1) for item in values)))


def external(**entries):
    return relu(tensor("w", [4], FLOAT, *(message(13, message(1, key), message(2, item)) for key, item in entries.items()),
                       number(14, 1)))


def external_pairs(pairs):
    return relu(tensor("w", [4], FLOAT, *(message(13, message(1, key), message(2, item)) for key, item in pairs), number(14, 1)))


def chain_of(count, name="n"):
    nodes = [node("Relu", ["x" if at == 0 else f"{name}{at - 1}"], [f"{name}{at}"]) for at in range(count)]
    return hostile.model(*nodes, value(11, "x", [2]), value(12, f"{name}{count - 1}", [2]))


def body_of(op, *inner, inputs=("x",)):
    """A node with a graph in an attribute that calls what is given."""
    return node(op, list(inputs), ["y"], attribute_graph("body", b"".join(inner) + message(12, message(1, "y"))))


def configuration(name, devices, *names):
    return message(26, message(1, name), number(2, devices), *(message(3, item) for item in names))


# ---- the rows of ONNX structure: (name, file) that must be refused with 400 or 422 ----

def o1():
    yield from known("nested-5000", "nested-100", "nested-types")


def o2():
    yield from known("million-empty-nodes", "million-empty-tensors", "million-empty-attributes", "million-empty-values",
                     "unknown-fields")
    yield "million-ints", one("Transpose", [ints("perm", *[0] * 1000000)])


def o3():
    yield from known("80000-graphs", "two-graphs", "group", "wire-type-7", "varint-without-end", "length-past-end",
                     "length-of-2^64-1", "tag-zero")
    yield "wire-type-6", number(1, 8) + b"\x3e" + relu()
    yield "end-group-first", number(1, 8) + b"\x3c" + relu()
    yield "length-of-2^31", number(1, 8) + varint(7 << 3 | 2) + varint(1 << 31) + bytes(64)
    yield "varint-of-11-bytes", b"\x08" + b"\x80" * 10 + b"\x01" + relu()


def o4():
    yield from known("circle", "output-twice", "operand-from-nowhere")
    yield "self-loop", hostile.model(node("Relu", ["a"], ["a"]), value(12, "a", [2]))
    yield "circle-of-two", hostile.model(node("Relu", ["t"], ["y"]), node("Add", ["x", "y"], ["t"]), value(11, "x", [2]),
                                         value(12, "y", [2]))
    yield "shadowing", hostile.model(
        node("If", ["c"], ["y"], attribute_graph("then_branch", node("Relu", ["x"], ["x"]) + message(12, message(1, "x"))),
             attribute_graph("else_branch", node("Relu", ["x"], ["z"]) + message(12, message(1, "z")))),
        value(11, "c", [], BOOL), value(11, "x", [2]), value(12, "y", [2]))
    yield "input-twice", hostile.model(node("Relu", ["x"], ["y"]), value(11, "x", [2]), value(11, "x", [2]), value(12, "y", [2]))
    yield "output-of-nobody", hostile.model(node("Relu", ["x"], ["y"]), value(11, "x", [2]), value(12, "nobody", [2]))
    yield "empty-output", hostile.model(node("Relu", ["x"], ["y"]), value(11, "x", [2]), value(12, "", [2]))


def o5():
    yield from known("function-calls-itself", "functions-in-a-circle", "functions-2^40", "functions-200-deep", "function-twice")
    inner = message(7, message(1, "x"), message(2, "y"), message(4, "a"), message(7, "f"))
    branch = message(7, message(1, "x"), message(2, "y"), message(4, "If"),
                     message(5, message(1, "then_branch"), message(6, message(1, message(1, "x"), message(2, "z"), message(4, "a"),
                                                                             message(7, "f")), message(12, message(1, "z"))), number(20, 5)))
    for name, body in (("calls-itself-in-a-branch", branch), ("calls-itself", inner)):
        function = message(25, message(1, "a"), message(4, "x"), message(5, "y"), body, message(9, message(1, "f"), number(2, 1)),
                           message(9, message(1, ""), number(2, 16)), message(10, "f"))
        yield name, hostile.calling("a", [function])


def o6():
    yield from known("dims-overflow", "dims-int64-max", "rank-1000", "dims-negative")
    yield "dim-of-minus-2^63", relu(tensor("w", [-(1 << 63)]))
    yield "expand-to-2^62", one("Expand", constants=[longs("s", 1 << 62, 1 << 62)], shape=("a", "b"))


def o7():
    yield from known("raw-data-too-short", "unknown-dtype")
    yield "raw-data-too-long", relu(tensor("w", [2], FLOAT, message(9, bytes(12))))
    yield "two-fields", relu(tensor("w", [2], FLOAT, message(9, bytes(8)), message(4, bytes(8))))
    yield "strings-in-raw-data", relu(tensor("w", [2], 8, message(9, bytes(8))))
    yield "4-bit-too-short", relu(tensor("w", [5], 22, message(9, bytes(2))))
    yield "too-few-floats", relu(tensor("w", [5], FLOAT, message(4, bytes(8))))
    yield "segment", relu(tensor("w", [2], FLOAT, message(3, number(1, 0), number(2, 1)), message(9, bytes(8))))


def o8():
    yield from known("external-without-location", "external-negative-offset")
    yield "nul", external(location="w\0x")
    yield "empty", external(location="")
    yield "offset-2^64", external(location="w", offset=str(1 << 64))
    yield "offset-and-length-overflow", external(location="w", offset=str((1 << 63) - 1), length="16")
    yield "length-too-short", external(location="w", length="3")
    yield "offset-no-number", external(location="w", offset="1e3")
    yield "location-twice", external_pairs([("location", "w"), ("location", "v")])


def o9():
    yield "axes-out-of-range", one("Transpose", [ints("perm", 0, 9)])
    yield "perm-twice", one("Transpose", [ints("perm", 0, 0)])
    yield "perm-negative", one("Transpose", [ints("perm", -1, 0)])
    yield "axis-out-of-range", one("Softmax", [integer("axis", 99)])
    image, weight = ("x", (1, 4, 8, 8)), ("w", (4, 4, 3, 3))
    for name, attributes in (("stride-0", ints("strides", 0, 0)), ("dilation-0", ints("dilations", 0, 0)),
                             ("strides-of-another-rank", ints("strides", 1)), ("group-0", integer("group", 0)),
                             ("group-negative", integer("group", -1)), ("pads-negative", ints("pads", -9, -9, -9, -9)),
                             ("kernel-of-another-rank", ints("kernel_shape", 3, 3, 3))):
        yield name, one("Conv", [attributes], inputs=(image, weight))
    yield "scan-inputs", one("Scan", [integer("num_scan_inputs", 99), attribute_graph("body", message(12, message(1, "x")))])
    yield "reshape-minus-1-twice", one("Reshape", constants=[longs("s", -1, -1)])
    yield "reshape-minus-2", one("Reshape", constants=[longs("s", -2, 3)])
    yield "slice-step-0", one("Slice", constants=[longs("a", 0), longs("b", 1), longs("c", 0), longs("d", 0)])
    yield "split-sums", one("Split", constants=[longs("s", 1, 7)], outputs=("y", "z"))
    yield "einsum-of-another-rank", one("Einsum", [text("equation", "abc->cba")])
    yield "einsum-of-noise", one("Einsum", [text("equation", "a" * 100000 + "->b")])
    yield "einsum-unknown-letter", one("Einsum", [text("equation", "ab->abz")])
    yield "pad-of-another-rank", one("Pad", constants=[longs("p", 1, 1, 1)])
    yield "unsqueeze-twice", one("Unsqueeze", constants=[longs("a", 0, 0)])


def o10():
    yield "domain-twice", relu() + message(8, message(1, ""), number(2, 13))
    yield "opset-0", hostile.model(node("Relu", ["x"], ["y"]), value(11, "x", [2]), value(12, "y", [2]), opset=0)
    yield "opset-int64-max", hostile.model(node("Relu", ["x"], ["y"]), value(11, "x", [2]), value(12, "y", [2]), opset=(1 << 63) - 1)


def o11():
    def placed(*fields):
        """One node with a configuration for it: field 10 of a node, and 26 of the model."""
        return hostile.model(node("Relu", ["x"], ["y"], message(10, *fields)), value(11, "x", [4, 4]), value(12, "y", [4, 4]),
                             ir_version=11, rest=configuration("c", 2))

    def spec(*fields):
        return placed(message(1, "c"), message(2, message(1, "x"), *fields))

    axis = message(4, number(1, 0), message(2, number(3, 2)))
    yield "devices-int32-max", relu(), configuration("c", (1 << 31) - 1)
    yield "devices-negative", relu(), configuration("c", -1)
    yield "devices-0", relu(), configuration("c", 0)
    yield "names-of-others", relu(), configuration("c", 2, "a", "b", "c")
    yield "another-configuration", placed(message(1, "d")), b""
    yield "tensor-of-others", placed(message(1, "c"), message(2, message(1, "z"), axis)), b""
    yield "axis-out-of-range", spec(message(2, b"\x00\x01"), message(4, number(1, 9), message(2, number(3, 2)))), b""
    yield "shards-0", spec(message(2, b"\x00\x01"), message(4, number(1, 0), message(2, number(3, 0)))), b""
    yield "shards-negative", spec(message(2, b"\x00\x01"), message(4, number(1, 0), message(2, number(3, -2)))), b""
    yield "device-out-of-range", spec(message(2, b"\x00\x63"), axis), b""


def o14():
    def sparse(values, indices):
        return relu(message(15, message(1, *values), message(2, *indices), number(3, 1 << 40)))

    yield "sparse-indices-10^9", sparse((number(1, 4), number(2, FLOAT), message(8, "s"), message(9, bytes(16))),
                                        (number(1, 10**9), number(2, INT64), message(9, bytes(32))))
    yield "sparse-without-values", sparse((message(8, "s"),), (number(1, 1), number(2, INT64), message(9, bytes(8))))
    yield "sparse-indices-of-floats", sparse((number(1, 1), number(2, FLOAT), message(8, "s"), message(9, bytes(4))),
                                             (number(1, 1), number(2, FLOAT), message(9, bytes(4))))


def o12():
    yield from known("name-of-1-mib", "name-not-utf-8", "name-overlong-utf-8", "name-with-nul")


# What can be planned, so that it is stored, and what the check says of it: external data are never opened here, and
# operators and versions that are not known have shapes, or not.
NAMED = {
    "EXTERNAL_DATA_PATH": [external(location=location) for location in (
        "../w", "/etc/passwd", "a/../../w", "C:\\w", "\\\\server\\w", "/proc/self/fd/0", "..\\w")],
    "WRONG_ATTRIBUTE_TYPE": [one("Softmax", [text("axis", "1")])],
    "NO_OPSET": [number(1, 8) + message(7, node("Relu", ["x"], ["y"]), message(2, "g"), value(11, "x", [2]), value(12, "y", [2]))],
    "NO_IR_VERSION": [hostile.model(node("Relu", ["x"], ["y"]), value(11, "x", [2]), value(12, "y", [2]), ir_version=0)],
    "IR_VERSION_TOO_NEW": [hostile.model(node("Relu", ["x"], ["y"]), value(11, "x", [2]), value(12, "y", [2]), ir_version=999)],
    "UNKNOWN_OPERATOR": [one("Frobnicate", shape=(2, 3))],
    "NO_TENSOR_DATA": [one("ConstantOfShape", inputs=(), constants=[("s", tensor("s", [1 << 30], INT64))])],
}


class Structure(DaemonCase):
    def refuse(self, cases, statuses=(400, 422)):
        """Each is refused with a sentence that says what and, for a broken file, at which byte; nothing is stored."""
        before = self.ask("GET", "/v1/models").json
        count = 0
        for name, data in cases:
            with self.subTest(name):
                answer = self.ask("POST", "/v1/models", data, statuses)
                self.assertIn(answer.json["kind"], ("malformed", "limit", "model", "unsupported"), answer)
                self.assertNotIn("CRASH", answer.json["code"])
                if answer.status == 400:
                    self.assertTrue(answer.json.get("where") or re.search(r"byte|model|JSON|end", answer.json["detail"]), answer)
                count += 1
        self.assertEqual(self.ask("GET", "/v1/models").json, before)
        self.assertNotIn('reason="crashed"', self.ask("GET", "/metrics").text)
        return count


    def test_what_is_stored_and_named(self):
        """O8, O9, O10: a plan is made of shapes, which these have; the check says what is wrong all the same."""
        for code, models in NAMED.items():
            for data in models:
                with self.subTest(code=code, size=len(data)):
                    self.ask("POST", "/v1/models", data, (200, 201))
                    found = self.ask("POST", "/v1/check", data).json
                    self.assertFalse(found["valid"])
                    self.assertIn(code, [item["code"] for item in found["diagnostics"]])

    def test_o11(self):
        """Configurations that are wrong: the file cannot be read, or the check says what is wrong."""
        for name, data, rest in o11():
            with self.subTest(name):
                answer = self.ask("POST", "/v1/check", data + rest, (200, 400, 422))
                self.assertTrue(answer.status != 200 or answer.json["errors"] > 0, answer)

    def test_o12_names_are_text(self):
        """Scripts and line ends in names come back as JSON strings, and in no header and no line of the log."""
        name = "</script><script>alert(1)</script>\r\nX-Evil: 1\x1b[31m"
        data = hostile.model(node("Relu", ["x"], ["y"], name=name), value(11, "x", [2]), value(12, "y", [2]))
        answer = self.ask("POST", "/v1/plans?devices=1&device=a100-sxm4-80gb", data, 200, Prefer="wait=30")
        self.assertEqual(answer.json["plan"]["stages"][0]["nodes"], [name])
        self.assertIsNone(answer.headers["X-Evil"])
        self.assertNotIn(b"\r\nX-Evil", answer.body)
        shown = self.ask("GET", f"/v1/plans/{answer.json['id']}", Accept="text/plain")
        self.assertNotIn("\x1b", shown.text)
        self.problem("POST", "/v1/models?name=%0d%0aX-Evil:1", data, 400, "BAD_QUERY")

    def test_o12_many_names(self):
        """Thousands of names that simple hashes map alike."""
        for letters in ("Aa", "BB"):
            names = ["".join(pair) for pair in itertools.product(("Aa", "BB"), repeat=12)]
            nodes = [node("Relu", ["x"], [name + letters]) for name in names]
            data = hostile.model(*nodes, value(11, "x", [2]), value(12, names[0] + letters, [2]))
            self.assertEqual(self.ask("POST", "/v1/models", data, 201).json["node_count"], 4096)

    def test_o6_ranks(self):
        """A shape vector of more entries than a tensor may have axes: the shape is not known, and none is made."""
        for count in (65, 128, 1 << 16):
            data = one("Expand", constants=[longs("s", *[1] * count)], shape=("a",))
            name = self.ask("POST", "/v1/models", data, (201, 422)).json.get("id")
            if name is not None:
                values = self.ask("POST", f"/v1/models/{name}/inspect", {"values": True}).json["values"]
                self.assertLessEqual(len(values["y"]["shape"] or []), 64, count)

    def test_o13(self):
        """Megabytes of metadata and documentation are accepted, and not echoed."""
        more = message(14, message(1, "k"), message(2, "v" * (4 << 20))) + message(6, "d" * (4 << 20))
        answer = self.ask("POST", "/v1/models", relu() + more, 201)
        self.assertLess(len(answer.body), 10000)

    def test_o14(self):
        self.assertGreater(self.refuse(o14()), 2)

    def test_o15(self):
        """A constant of a million elements as a shape: it is not carried along, and no shape of that rank is made."""
        big = tensor("s", [1 << 20], INT64, message(9, bytes(8 << 20)))
        data = hostile.model(node("Reshape", ["x", "s"], ["y"]), value(11, "x", [2, 3]), value(12, "y", ["a", "b"]), big)
        answer = self.ask("POST", "/v1/models", data, (201, 400, 422))
        self.assertTrue(answer.status == 201 or answer.json["detail"], answer)
        self.ask("POST", PLAN, data, (200, 422), Prefer="wait=30")


for row in ("o1", "o2", "o3", "o4", "o5", "o6", "o7", "o8", "o9", "o10", "o12"):
    def refuses(self, cases=globals()[row]):
        self.assertGreater(self.refuse(cases()), 2)
    setattr(Structure, f"test_{row}", refuses)


class Containers(DaemonCase):
    """J1 to J6; compressed bodies (J4) are in test_codings.py."""

    def test_j1(self):
        texts = [b"[" * 2049 + b"]" * 2049, b'{"a":', b"{}x", b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":1e999}', b'{"a":99999999999999999999}',
                 b'{"a":"\\ud800"}', b'{"a":"\\u0000"}', b'{"a":"\xff"}', b"", b" ", b"nul", b'{"a":"\n"}', b"{'a':1}", b'{"a":01}', b'{"a":1,}',
                 b"\xef\xbb\xbf{}", '{"a":1}'.encode("utf-16"), b'{"model":"\x00"}']
        name = self.store()
        for path in ("/v1/plans", "/v1/convert", "/v1/reshard", f"/v1/models/{name}/infer", f"/v1/models/{name}/inspect"):
            for text in texts:
                if text == b"" and not path.endswith(("plans", "convert", "reshard")):
                    continue  # a request without a body makes sense there
                with self.subTest(path=path, text=text[:30]):
                    self.problem("POST", path, text, (400, 422), Content_Type="application/json")
        for text in texts[1:]:
            self.problem("POST", "/v1/models", text, (400, 422), Content_Type="application/json")

    def test_j2(self):
        """Millions of small values: refused by size, or by a worker with a budget."""
        for path in ("/v1/plans", "/v1/convert"):
            self.problem("POST", path, b"[" + b"{}," * 1000000 + b"{}]", 413, "BODY_TOO_LARGE", Content_Type="application/json")
        self.problem("POST", "/v1/convert", b"[" + b"{}," * 300000 + b"{}]", (400, 413, 422), Content_Type="application/json")
        self.problem("POST", "/v1/models", b"[" + b"{}," * 3000000 + b"{}]", (400, 422), Content_Type="application/json")

    def test_j3(self):
        name = self.store()
        device = {"name": "d", "memory_bytes": 1e10, "memory_bandwidth": 1e12, "link_bandwidth": 1e10, "flops": {"float32": 1e13}}

        def group(**members):
            return {"groups": [{"count": 2, "device": {**device, **members}}]}

        def mesh(*levels):
            return {**group(), "mesh": [{"name": f"l{at}", "bandwidth": 1e9, **level} for at, level in enumerate(levels)]}

        for cluster in (
            {"device": "a100-sxm4-80gb", "count": -1}, {"device": "a100-sxm4-80gb", "count": 10**9},
            {"device": "a100-sxm4-80gb", "count": 2.5}, {"device": "a100-sxm4-80gb", "count": "2"}, {"device": 7, "count": 2},
            {"device": "a100-sxm4-80gb", "count": 2, "colour": "red"}, [], "a100", 7, None, {}, {"groups": []}, {"groups": {}},
            group(memory_bytes=0), group(memory_bytes=-1), group(memory_bandwidth=0), group(memory_bandwidth=-1e12),
            group(link_bandwidth=0), group(flops={}), group(flops={"float32": 0}), group(flops={"float32": -1}), group(flops={"float99": 1}),
            group(flops=[]), group(memory_bytes="1e10"), group(memory_bytes=1e300), group(unknown=1),
            mesh({"size": 1 << 31}, {"size": 1 << 31}), mesh({"size": 3}), mesh({"size": 0}), mesh({"size": -2}),
            mesh({"size": 2, "bandwidth": 0}), mesh({"size": 2, "bandwidth": -1}), mesh({"size": 2, "latency": -1}),
        ):
            with self.subTest(cluster):
                answer = self.problem("POST", "/v1/plans", {"model": name, "cluster": cluster}, 422)
                self.assertTrue(answer.json["errors"] and answer.json["errors"][0]["pointer"].startswith("/cluster"), answer)
        deep = {}
        for _ in range(500):
            deep = {"device": deep}
        self.problem("POST", "/v1/plans", {"model": name, "cluster": deep}, (400, 422))

    def test_j5_and_j6(self):
        """Archives and everything else that is no ONNX file; the answer names what it looks like."""
        tar = b"../../etc/passwd".ljust(100, b"\0") + b"0000644\0" + bytes(149) + b"ustar\x0000" + bytes(247) + bytes(1024)
        header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        named = {
            "zip": b"PK\x03\x04" + bytes(26) + b"../../x", "gzip": gzip.compress(TINY), "zstd": zstd.compress(TINY), "html": b"<!doctype html><html></html>",
        }
        other = {
            "tar": tar, "safetensors": len(header).to_bytes(8, "little") + header + bytes(4), "pickle": b"\x80\x04\x95" + bytes(20),
            "empty": b"", "one byte": b"x", "text": b'ir_version: 8\ngraph { node { op_type: "Relu" } }\n', "base64": base64.b64encode(TINY),
            "png": hostile.PNG, "elf": b"\x7fELF" + bytes(60), "pdf": b"%PDF-1.7\n", "zeros": bytes(4096), "newlines": b"\n" * 100,
        }
        for name, data in {**named, **other}.items():
            with self.subTest(name):
                for path in ("/v1/models", "/v1/check", PLAN):
                    answer = self.problem("POST", path, data, (400, 422))
                if name in named:
                    self.assertIn(name, answer.json["detail"].lower(), answer)
        self.no_temporary_files()


class Planning(DaemonCase):
    """P1 to P7. A full disk, crashes and signals (P5) are in test_durability.py, test_operation.py and tests/bench/crashes.py."""

    options = ("--workers", "2")

    def test_p1(self):
        """A search that cannot be exhausted ends with its best so far, in time."""
        width = 40
        nodes = [node("MatMul", ["x", f"w{at}"], [f"m{at}"]) for at in range(width)]
        weights = [tensor(f"w{at}", [256, 256], FLOAT, message(9, bytes(256 * 256 * 4))) for at in range(width)]
        data = hostile.model(*nodes, node("Sum", [f"m{at}" for at in range(width)], ["y"]), value(11, "x", [64, 256]),
                             value(12, "y", [64, 256]), *weights)
        body = {"model": self.store(data), "cluster": {"device": "a100-sxm4-80gb", "count": 16},
                "options": {"time_limit_seconds": 0.5, "replicas": 4}}
        plan = self.ask("POST", "/v1/plans", body, 200, Prefer="wait=60").json["plan"]
        self.assertGreaterEqual(plan["estimate"]["latency_seconds"], plan["estimate"]["lower_bound_seconds"] * 0.999999)

    def test_p2(self):
        small = {"groups": [{"count": 2, "device": {"name": "small", "memory_bytes": 1000, "memory_bandwidth": 1e12,
                                                    "link_bandwidth": 1e10, "flops": {"float32": 1e13}}}]}
        answer = self.problem("POST", "/v1/plans", {"model": self.store(), "cluster": small}, 422, Prefer="wait=30")
        self.assertEqual(answer.json["kind"], "nofit")
        self.assertGreater(answer.json["least_memory_bytes"], 1000)

    def test_p3(self):
        """Cancelled twice, cancelled and deleted, deleted while it runs, in every order and phase that can be met."""
        name = self.store(model(600))
        for number, orders in enumerate((("cancel", "cancel"), ("cancel", "delete"), ("delete", "cancel"), ("delete", "delete"))):
            for pause in (False, True):
                workers = self.daemon.freeze() if pause else None
                body = {"model": name, "cluster": {**CLUSTER, "count": 1 + number}}
                plan = self.ask("POST", "/v1/plans", body, 202, Cache_Control="no-cache").json["id"]
                for at, order in enumerate(orders):
                    gone = at > 0 and orders[0] == "delete"
                    if order == "cancel":
                        self.ask("POST", f"/v1/plans/{plan}/cancel", expect=404 if gone else 200)
                    else:
                        self.ask("DELETE", f"/v1/plans/{plan}", expect=404 if gone else 204)
                if pause:
                    self.daemon.thaw()
                if "delete" in orders:
                    self.problem("GET", f"/v1/plans/{plan}", status=404)
                else:
                    self.assertIn(self.daemon.finished(plan)["state"], ("cancelled", "succeeded"))
        self.daemon.wait_for(lambda: self.ask("DELETE", f"/v1/models/{name}", expect=(204, 409)).status == 204
                             or not [self.ask("DELETE", f"/v1/plans/{item['id']}", expect=(204, 404))
                                     for item in self.ask("GET", f"/v1/plans?model={name}").json["plans"]], "nothing left")

    def test_p6(self):
        """Times that are none: of a graph of costs and of a profile."""
        for seconds in ("-1", "1e400", "NaN", "Infinity", '"1"', "null", "[]", '{"d":-1}'):
            text = '{"nodes":[{"id":0,"seconds":%s}],"edges":[]}' % seconds
            with self.subTest(seconds):
                self.problem("POST", "/v1/models", text.encode(), (400, 422), Content_Type="application/json")
        name = self.store()
        for seconds in (-1, "1", None, [], {"none": 1}):
            body = {"model": name, "cluster": CLUSTER, "options": {"profile": {"nodes": {"n0": seconds}}}}
            self.problem("POST", "/v1/plans", body, (400, 422), Prefer="wait=30")

    def test_p7(self):
        """Asked again, of any worker, the same question has the same plan, byte for byte."""
        body = {"model": self.store(model(601)), "cluster": {**CLUSTER, "count": 4}}
        plans = []
        for _ in range(3):
            answer = self.ask("POST", "/v1/plans", body, 200, Prefer="wait=60", Cache_Control="no-cache")
            plan = answer.json["plan"]
            plan["search"].pop("seconds", None)
            plan["proof"].pop("seconds", None)
            plans.append(json.dumps(plan, sort_keys=True))
        self.assertEqual(len(set(plans)), 1)

    def test_the_rows_are_all_here(self):
        with open(TABLE, encoding="utf-8") as file:
            text = file.read()
        rows = {f"j{n}" for n in (1, 2, 3, 5, 6)} | {f"o{n}" for n in range(1, 16)} | {f"p{n}" for n in (1, 2, 3, 6, 7)}
        elsewhere = {"j4": ("test_codings.py", "test_bombs"), "p4": ("test_requests.py", "test_a_storm_of_one_key"),
                     "p5": ("test_durability.py", "class ")}
        for row in rows:
            self.assertRegex(text, rf"def (test_.*{row}(_|\b)|{row}\()", row)
        for name, what in elsewhere.values():
            with open(os.path.join(os.path.dirname(TABLE), name), encoding="utf-8") as file:
                self.assertIn(what, file.read())
