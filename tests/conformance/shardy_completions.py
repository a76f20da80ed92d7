#!/usr/bin/env python3
"""Shardy's published cases of propagation and of explicit reshards as ONNX models, completed; TAP on standard output.

Each function that ONNX's operators can say becomes a model: arguments are its inputs, and each result is a copy of what is
returned. All shardings that the case gives are set, on arguments, on values and on results, whatever contradicts there.
`infer` completes them in both modes, `check` must find no error in what is written, and the communications that both tell
must be as many as the nodes of collectives in the exported model of a device.
"""
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLI = os.environ.get("SHARDPLAN", os.path.join(TOP, "build/api/cli/shardplan"))
SHARED = os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(TOP, "../shared/data"))
DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64", "i1": "bool", "i8": "int8", "i16": "int16",
          "i32": "int32", "i64": "int64", "ui8": "uint8", "ui32": "uint32", "ui64": "uint64"}
PLAIN = {"stablehlo.add": "Add", "stablehlo.multiply": "Mul", "stablehlo.divide": "Div", "stablehlo.subtract": "Sub",
         "stablehlo.negate": "Neg", "stablehlo.sine": "Sin", "stablehlo.cosine": "Cos", "stablehlo.abs": "Abs",
         "stablehlo.tanh": "Tanh", "stablehlo.exponential": "Exp", "stablehlo.dot": "MatMul", "stablehlo.select": "Where",
         "sdy.propagation_barrier": "Identity", "sdy.sharding_constraint": "Identity", "sdy.reshard": "Identity"}
REDUCTIONS = {"add": "ReduceSum", "maximum": "ReduceMax", "minimum": "ReduceMin", "multiply": "ReduceProd"}
COMMUNICATION = ("RESHARD", "OUTPUT_RESHARD", "REDUCTION", "GATHER", "HALO_EXCHANGE")
# The wire form of a node's op_type: field 4, its length, the name.
COLLECTIVE = re.compile(rb"\x22(?:\x09AllReduce|\x09AllGather|\x08AllToAll)")


class Unsayable(Exception):
    """Why a case has no form in ONNX."""


def numbers(text, key, side=0):
    """`key = [0, 1] x [2, 3]`: the list of this side."""
    found = re.search(re.escape(key) + r"((?:\s*x?\s*\[[^\]]*\])+)", text)
    lists = re.findall(r"\[([^\]]*)\]", found.group(1)) if found else []
    return [int(one) for one in lists[side].split(",") if one.strip()] if side < len(lists) else []


class Model:
    def __init__(self, case):
        self.case, self.values, self.used, self.sets, self.meshes = case, {}, set(), {}, set()
        self.inputs, self.constants, self.nodes = [], [], []
        for i, one in enumerate(case["args"]):
            self.value(f"%arg{i}", one["shape"], one["dtype"], one.get("sharding"))
            self.inputs.append({"name": self.values[f"%arg{i}"][0], "dtype": self.values[f"%arg{i}"][2], "shape": one["shape"]})
        for op in case["ops"]:
            self.operator(op)
        results = case["results"]
        unused = [name for name in self.values if name not in self.used]
        if len(unused) < len(results):
            raise Unsayable("a value is returned that others use, too")
        for i, (name, result) in enumerate(zip(unused[len(unused) - len(results):], results)):
            if list(self.values[name][1]) != result["shape"]:
                raise Unsayable("what is returned is not recorded")
            self.values[f"result {i}"] = (f"result{i}", result["shape"], self.values[name][2])
            self.node("Identity", [name], [f"result {i}"])
            self.shard(f"result{i}", result.get("sharding"))
        if len(self.meshes) != 1:
            raise Unsayable("there is not one mesh")
        if not self.nodes:
            raise Unsayable("there is no operation")

    def value(self, name, shape, dtype, sharding):
        if dtype not in DTYPES:
            raise Unsayable(f"the type {dtype}")
        self.values[name] = (re.sub(r"\W", "_", name.lstrip("%")), shape, DTYPES[dtype])
        self.shard(self.values[name][0], sharding)

    def shard(self, name, sharding):
        if not isinstance(sharding, dict):
            return
        if "unreduced" in sharding.get("extra", "") or "dims" not in sharding:
            raise Unsayable("partial values that stay")
        self.meshes.add(sharding["mesh"])
        extra = f", {sharding['extra']}" if sharding.get("extra") else ""
        self.sets[name] = f"<@{sharding['mesh']}, {sharding['dims']}{extra}>"

    def constant(self, data, dtype="int64"):
        name = f"c{len(self.constants)}"
        self.constants.append({"name": name, "dtype": dtype, "shape": [len(data)], "data": data})
        return name

    def node(self, op, inputs, outputs, **attributes):
        self.nodes.append({"name": f"n{len(self.nodes)}", "op": op, "attributes": attributes,
                           "inputs": [self.values[one][0] if one in self.values else one for one in inputs],
                           "outputs": [self.values[one][0] for one in outputs]})

    def shape(self, name):
        return self.values[name][1]

    def operator(self, op):
        kind, attrs, operands = op["op"], op["attrs"], op["operands"]
        if any(one not in self.values for one in operands):
            raise Unsayable("a value that no operation gives")
        types = op["result_types"]
        if not types and kind in PLAIN and operands:
            types = [[self.shape(operands[-1]), self.case["results"][0]["dtype"]]] if kind != "stablehlo.dot" else None
        if not types:
            raise Unsayable("its type is not recorded")
        shardings = op.get("sharding") or []
        base = op["id"].split(":")[0]
        names = [base] if ":" not in op["id"] else [f"{base}#{i}" for i in range(len(types))]
        self.used.update(operands)
        for i, (name, (shape, dtype)) in enumerate(zip(names, types)):
            self.value(name, shape, dtype, shardings[i] if i < len(shardings) else None)
        if kind == "stablehlo.constant":
            shape, dtype = types[0]
            self.constants.append({"name": self.values[base][0], "dtype": DTYPES[dtype], "shape": shape,
                                   "data": [0] * math.prod(shape)})
            self.used.add(base)
            return
        if kind in PLAIN:
            self.node(PLAIN[kind], operands, names)
            return
        convert = getattr(self, kind.split(".")[-1], None)
        if convert is None or kind.split(".")[0] != "stablehlo":
            raise Unsayable(kind)
        convert(operands, names, attrs, [shape for shape, _ in types])

    def dot_general(self, operands, names, attrs, _):
        letters, batch, summed = iter("abcdefghijklmnopqrstuvwxyz"), [], []
        sides = [["" for _ in self.shape(one)] for one in operands]
        for key, into in (("batching_dims =", batch), ("contracting_dims =", summed)):
            for left, right in zip(numbers(attrs, key, 0), numbers(attrs, key, 1)):
                into.append(next(letters))
                sides[0][left] = sides[1][right] = into[-1]
        free = [[], []]
        for side in range(2):
            for axis, letter in enumerate(sides[side]):
                if letter == "":
                    sides[side][axis] = next(letters)
                    free[side].append(sides[side][axis])
        result = "".join(batch + free[0] + free[1])
        self.node("Einsum", operands, names, equation=f"{''.join(sides[0])},{''.join(sides[1])}->{result}")

    def reshape(self, operands, names, _, shapes):
        self.node("Reshape", [operands[0], self.constant(shapes[0])], names, allowzero=1)

    def transpose(self, operands, names, attrs, _):
        self.node("Transpose", operands, names, perm=numbers(attrs, "dims ="))

    def concatenate(self, operands, names, attrs, _):
        self.node("Concat", operands, names, axis=int(re.search(r"dim = (\d+)", attrs).group(1)))

    def slice(self, operands, names, attrs, _):
        parts = [[int(n) for n in one.split(":")] for one in attrs.strip("[] ").split(",")]
        self.node("Slice", [operands[0], self.constant([p[0] for p in parts]), self.constant([p[1] for p in parts]),
                            self.constant(list(range(len(parts)))),
                            self.constant([p[2] if len(p) > 2 else 1 for p in parts])], names)

    def reverse(self, operands, names, attrs, _):
        axes = numbers(attrs, "dims =")
        self.node("Slice", [operands[0], self.constant([-1] * len(axes)), self.constant([-(1 << 40)] * len(axes)),
                            self.constant(axes), self.constant([-1] * len(axes))], names)

    def broadcast_in_dim(self, operands, names, attrs, shapes):
        dims, own = numbers(attrs, "dims ="), self.shape(operands[0])
        order = sorted(range(len(dims)), key=lambda i: dims[i])
        middle, shape = f"t{len(self.nodes)}", [1] * len(shapes[0])
        for i, axis in enumerate(dims):
            shape[axis] = own[i]
        source = operands[0]
        if order != list(range(len(dims))):
            self.values[f"{middle}p"] = (f"{middle}p", None, None)
            self.node("Transpose", [source], [f"{middle}p"], perm=order)
            source = f"{middle}p"
            self.used.add(source)
        self.values[middle] = (middle, shape, None)
        self.node("Reshape", [source, self.constant(shape)], [middle])
        self.node("Expand", [middle, self.constant(shapes[0])], names)
        self.used.add(middle)

    def reduce(self, operands, names, attrs, _):
        count, axes = len(names), numbers(attrs, "dimensions =")
        applied = re.search(r"applies stablehlo\.(\w+)", attrs)
        for i in range(count):
            # each input is followed by what it begins with
            self.node(REDUCTIONS[applied.group(1) if applied else "add"], [operands[2 * i], self.constant(axes)], [names[i]],
                      keepdims=0)

    def clamp(self, operands, names, *_):
        middle = f"t{len(self.nodes)}"
        self.values[middle] = (middle, self.shape(operands[1]), None)
        self.node("Max", [operands[1], operands[0]], [middle])
        self.node("Min", [middle, operands[2]], names)
        self.used.add(middle)

    def pad(self, operands, names, attrs, _):
        if any(numbers(attrs, "interior =")):
            raise Unsayable("a filling between elements")
        self.node("Pad", [operands[0], self.constant(numbers(attrs, "low =") + numbers(attrs, "high =")), operands[1]], names)

    def dynamic_slice(self, operands, names, attrs, shapes):
        cut = [a for a, (own, size) in enumerate(zip(self.shape(operands[0]), shapes[0])) if own != size]
        if len(cut) > 1 or shapes[0][cut[0] if cut else 0] < 1:
            raise Unsayable("starts of several axes that are not known")
        starts, middle = f"t{len(self.nodes)}", f"u{len(self.nodes)}"
        axis = cut[0] if cut else 0
        self.values[starts], self.values[middle] = (starts, [1], None), (middle, [1], None)
        self.node("Cast", [operands[1 + axis]], [starts], to=7)
        self.values[f"{starts}r"] = (f"{starts}r", [1], None)
        self.node("Reshape", [starts, self.constant([1])], [f"{starts}r"])
        self.values[f"{starts}x"] = (f"{starts}x", shapes[0], None)
        self.node("Add", [f"{starts}r", self.constant(list(range(shapes[0][axis])))], [middle])
        self.used.update((starts, middle, f"{starts}r", f"{starts}x"))
        self.node("Gather", [operands[0], middle], names, axis=axis)

    def text(self):
        return json.dumps({"opset": 21, "inputs": self.inputs, "initializers": self.constants, "nodes": self.nodes,
                           "outputs": [f"result{i}" for i in range(len(self.case["results"]))]})

    def mesh(self):
        mesh = self.case["meshes"][next(iter(self.meshes))]
        axes = mesh["axes"] if isinstance(mesh, dict) else mesh
        if not axes:
            raise Unsayable("a mesh without axes")
        ids = mesh.get("device_ids") if isinstance(mesh, dict) else None
        order = f", device_ids=[{','.join(map(str, ids))}]" if ids else ""
        return "<[" + ", ".join(f'"{name}"={size}' for name, size in axes) + "]" + order + ">", math.prod(s for _, s in axes)


MODES = ("propagate", "forward")
THOROUGH = bool(os.environ.get("SHARDPLAN_TEST_THOROUGH"))  # both modes of each case; else in turn
MOST_DEVICES = 64 if THOROUGH else 16  # models of more are not exported: each holds what all devices exchange


def run(*arguments):
    return subprocess.run([CLI, *arguments], capture_output=True, text=True, timeout=300)


def complete(model, mode, folder):
    """What is wrong, or None; how many communications."""
    mesh, devices = model.mesh()
    source, out, exported = (os.path.join(folder, name) for name in ("model.json", "out.onnx", "devices"))
    with open(source, "w", encoding="utf-8") as file:
        file.write(model.text())
    sets = [part for name, spec in model.sets.items() for part in ("--set", f"{name}={spec}")]
    done = run("infer", source, "--mode", mode, "--mesh", mesh, "--devices", str(devices), *sets, "-o", out, "--json")
    if done.returncode != 0:
        return f"infer ends with {done.returncode}: {done.stderr.strip()[:500]}", 0
    told = json.loads(done.stdout)["communication"]
    check = json.loads(run("check", out, "--json").stdout)
    errors = [one for one in check["diagnostics"] if one["severity"] == "error"]
    if errors:
        return f"check: {errors[0]['code']}: {errors[0]['message'][:400]}", 0
    found = sum(one["code"] in COMMUNICATION for one in check["diagnostics"])
    if found != len(told):
        return f"check tells {found} communications, infer {len(told)}", 0
    if devices > MOST_DEVICES:
        return None, len(told)
    shutil.rmtree(exported, ignore_errors=True)
    done = run("export", out, "--format", "ort-collectives", "-o", exported)
    if done.returncode != 0:
        return f"export ends with {done.returncode}: {done.stderr.strip()[:300]}", 0
    models = [name for name in os.listdir(exported) if name.endswith(".onnx")]
    counts = {}
    for name in models:
        with open(os.path.join(exported, name), "rb") as file:
            device = name.split(".")[0]
            counts[device] = counts.get(device, 0) + len(COLLECTIVE.findall(file.read()))
    sent = sum(one["steps"] == "send-receive" for one in told)
    most = max(counts.values(), default=0)
    if not len(told) - sent <= most <= len(told):
        return f"{most} collectives in an exported model, not {[(one['steps'], one['tensor']) for one in told]}", 0
    return None, len(told)


def main():
    failed = compared = skipped = communications = number = 0
    for name in ("sdy_propagation_cases.json", "sdy_explicit_reshard_cases.json"):
        path = os.path.join(SHARED, name)
        if not os.path.exists(path):
            print(f"ok {number + 1} # SKIP {path} is not there")
            number += 1
            continue
        with open(path, encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        for case in cases:
            if case.get("kind", "graph") != "graph":
                continue
            number += 1
            try:
                model = Model(case)
                model.mesh()
            except Unsayable as why:
                print(f"ok {number} {case['name']} # SKIP ONNX cannot say it: {why}")
                skipped += 1
                continue
            with tempfile.TemporaryDirectory() as folder:
                problem = None
                for mode in MODES if THOROUGH else MODES[number % 2:][:1]:
                    problem, count = complete(model, mode, folder)
                    communications += count
                    compared += problem is None
                    failed += problem is not None
                    if problem:
                        print(f"not ok {number} {case['name']} ({mode}): {problem}")
                    if not problem:
                        print(f"ok {number} {case['name']} ({mode})")
            sys.stdout.flush()
    print(f"1..{number}\n# shardy_completions: {compared} completions check clean, with {communications} communications; "
          f"{skipped} cases that ONNX cannot say; {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
