"""Shardy's published functions as ONNX models described in JSON.

Each function that ONNX's operators can say becomes a model: arguments are its inputs, and each result is a copy of what is
returned. What a case says and nobody reads is an error: see Read.
"""
import json
import math
import re

DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64", "i1": "bool", "i8": "int8",
          "i16": "int16", "i32": "int32", "i64": "int64", "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64"}
COMPLEX = {"complex<f32>": "float32", "complex<f64>": "float64"}  # an axis more, of parts
PLAIN = {"add": "Add", "multiply": "Mul", "divide": "Div", "subtract": "Sub", "maximum": "Max", "minimum": "Min",
         "power": "Pow", "negate": "Neg", "sine": "Sin", "cosine": "Cos", "tan": "Tan", "abs": "Abs", "tanh": "Tanh",
         "exponential": "Exp", "log": "Log", "sqrt": "Sqrt", "logistic": "Sigmoid", "sign": "Sign", "floor": "Floor",
         "ceil": "Ceil", "not": "Not", "and": "And", "or": "Or", "xor": "Xor", "round_nearest_even": "Round", "dot": "MatMul",
         "select": "Where", "optimization_barrier": "Identity", "mhlo.erf": "Erf", "InspectSharding": "Identity",
         "LayoutConstraint": "Identity", "MoveToDevice": "Identity", "MoveToHost": "Identity",
         "xla.megascale.provide_metadata": "Identity", "sdy.propagation_barrier": "Identity",
         "sdy.sharding_constraint": "Identity", "sdy.reshard": "Identity"}
CASTS = ("convert", "X64SplitHigh", "X64SplitLow")
REDUCTIONS = {"add": "ReduceSum", "maximum": "ReduceMax", "minimum": "ReduceMin", "multiply": "ReduceProd"}
COMPARISONS = {"EQ": "Equal", "GT": "Greater", "GE": "GreaterOrEqual", "LT": "Less", "LE": "LessOrEqual"}


class Unsayable(Exception):
    """Why a case has no form in ONNX."""


class Read(dict):
    """An object of a case that knows which of its members were read."""

    def __init__(self, members):
        super().__init__(members)
        self.read = set()

    def __getitem__(self, key):
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self.read.add(key)
        return super().get(key, default)


def unread(value, path=""):
    """Members that nobody read, as paths; those of null say nothing."""
    if isinstance(value, list):
        return [one for i, item in enumerate(value) for one in unread(item, f"{path}[{i}]")]
    if not isinstance(value, dict):
        return []
    own = [f"{path}.{key}" for key, item in dict.items(value) if key not in value.read and item is not None]
    return own + [one for key, item in dict.items(value) if key in value.read for one in unread(item, f"{path}.{key}")]


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file, object_hook=Read)["cases"]


def numbers(text, key, side=0):
    """`key = [0, 1] x [2, 3]`: the list of this side."""
    found = re.search(re.escape(key) + r"((?:\s*x?\s*\[[^\]]*\])+)", text)
    lists = re.findall(r"\[([^\]]*)\]", found.group(1)) if found else []
    return [int(one) for one in lists[side].split(",") if one.strip()] if side < len(lists) else []


def number(text, key, default):
    found = re.search(re.escape(key) + r"\s*=\s*(\d+)", text)
    return int(found.group(1)) if found else default


def results_of(op, count):
    """The names of an operation's results: `%1`, or `%1#0` and `%1#1`."""
    base, *_ = op["id"].split(":")
    return [base] if ":" not in op["id"] else [f"{base}#{i}" for i in range(count)]


class Model:
    """`returned`: what the function returns, where it is recorded."""

    def __init__(self, case, returned=None):
        self.case, self.values, self.used, self.shardings, self.meshes = case, {}, set(), {}, set()
        self.inputs, self.constants, self.nodes, self.of_op, self.last = [], [], [], {}, 0
        for i, one in enumerate(case["args"]):
            self.value(f"%arg{i}", one["shape"], one["dtype"], one.get("sharding"))
            name, shape, dtype = self.values[f"%arg{i}"]
            self.inputs.append({"name": name, "dtype": dtype, "shape": shape})
        for op in case["ops"]:
            self.operator(op)
            self.of_op.update({node["name"]: op["id"] for node in self.nodes[self.last:]})
            self.last = len(self.nodes)
        results = case["results"]
        if returned is None:
            unused = [name for name in self.values if name not in self.used]
            if len(unused) < len(results):
                raise Unsayable("a value is returned that others use, too")
            returned = unused[len(unused) - len(results):]
        for i, (name, result) in enumerate(zip(returned, results)):
            shape, dtype = self.type(result["shape"], result["dtype"])
            if list(self.values[name][1]) != shape:
                raise Unsayable("what is returned is not recorded")
            self.values[f"result {i}"] = (f"result{i}", shape, dtype)
            self.node("Identity", [name], [f"result {i}"])
            self.shard(f"result{i}", result.get("sharding"), result["dtype"] in COMPLEX)
        if not self.meshes:
            raise Unsayable("there is no mesh")
        if not self.nodes:
            raise Unsayable("there is no operation")

    def type(self, shape, dtype):
        if dtype in COMPLEX:
            return [*shape, 2], COMPLEX[dtype]
        if dtype not in DTYPES:
            raise Unsayable(f"the type {dtype}")
        return list(shape), DTYPES[dtype]

    def value(self, name, shape, dtype, sharding):
        self.values[name] = (re.sub(r"\W", "_", name.lstrip("%")), *self.type(shape, dtype))
        self.shard(self.values[name][0], sharding, dtype in COMPLEX)

    def shard(self, name, sharding, is_complex=False):
        if not isinstance(sharding, dict):
            return
        dims, extra, mesh = sharding.get("dims"), sharding.get("extra", ""), sharding["mesh"]
        if "unreduced" in extra or dims is None:
            raise Unsayable("partial values that stay")
        self.meshes.add(mesh)
        self.shardings[name] = (mesh, dims[:-1] + ", {}]" if is_complex else dims, extra)

    def constant(self, data, dtype="int64"):
        name = f"c{len(self.constants)}"
        self.constants.append({"name": name, "dtype": dtype, "shape": [len(data)], "data": data})
        return name

    def middle(self, shape, dtype=None):
        """A value between the nodes of one operation."""
        name = f"t{len(self.values)}"
        self.values[name] = (name, shape, dtype)
        self.used.add(name)
        return name

    def node(self, op, inputs, outputs, **attributes):
        self.nodes.append({"name": f"n{len(self.nodes)}", "op": op, "attributes": attributes,
                           "inputs": [self.values[one][0] if one in self.values else one for one in inputs],
                           "outputs": [self.values[one][0] for one in outputs]})

    def shape(self, name):
        return self.values[name][1]

    def types(self, op, kind, operands):
        types, results = op["result_types"], self.case["results"]
        if kind in ("sort", "dot", *PLAIN) and (not types or kind == "sort"):
            # the record of a sort has the types of its comparator
            shape = self.shape(operands[-1]) if kind != "dot" else [self.shape(operands[0])[0], self.shape(operands[1])[1]]
            dtype = next(one for one, own in DTYPES.items() if own == self.values[operands[0]][2])
            return [[shape, dtype]]
        if not types and len(results) == 1:
            return [[results[0]["shape"], results[0]["dtype"]]]
        return types

    def operator(self, op):
        kind, attrs, operands = op["op"], op["attrs"] or "", list(op["operands"])
        if op.get("rule"):
            raise Unsayable("a rule of its own")
        kind = kind.removeprefix("stablehlo.")
        if kind == "custom_call":
            kind = re.match(r"@([\w.]+)", attrs).group(1)
        if kind == "reduce":  # the record has the operands of its body, too
            operands = operands[:2 * max(len(op["result_types"]), 1):2]
        elif kind == "sort":
            operands = operands[:1]
        if any(one not in self.values for one in operands):
            raise Unsayable("a value that no operation gives")
        types = self.types(op, kind, operands)
        if not types:
            raise Unsayable("a token" if kind in ("after_all", "send", "recv") else "its type is not recorded")
        shardings, names = op.get("sharding") or [], results_of(op, len(types))
        self.used.update(operands)
        for i, (name, (shape, dtype)) in enumerate(zip(names, types)):
            self.value(name, shape, dtype, shardings[i] if i < len(shardings) else None)
        if kind == "constant":
            name, shape, dtype = self.values[names[0]]
            self.constants.append({"name": name, "dtype": dtype, "shape": shape, "data": [0] * math.prod(shape)})
            self.used.add(names[0])
        elif kind in PLAIN:
            self.node(PLAIN[kind], operands, names)
        elif kind in CASTS:
            self.node("Cast", operands, names, to=10 if self.values[names[0]][2] == "float16" else 12)
        else:
            convert = getattr(self, "of_" + kind.replace(".", "_"), None)
            if convert is None:
                raise Unsayable(op["op"] if op["op"] != "stablehlo.custom_call" else kind)
            convert(operands, names, attrs)

    def of_dot_general(self, operands, names, attrs):
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

    def of_reshape(self, operands, names, _):
        self.node("Reshape", [operands[0], self.constant(self.shape(names[0]))], names, allowzero=1)

    def of_transpose(self, operands, names, attrs):
        self.node("Transpose", operands, names, perm=numbers(attrs, "dims ="))

    def of_concatenate(self, operands, names, attrs):
        self.node("Concat", operands, names, axis=number(attrs, "dim", 0))

    def of_slice(self, operands, names, attrs):
        parts = [[int(n) for n in one.split(":")] for one in attrs.strip("[] ").split(",")]
        self.node("Slice", [operands[0], self.constant([p[0] for p in parts]), self.constant([p[1] for p in parts]),
                            self.constant(list(range(len(parts)))),
                            self.constant([p[2] if len(p) > 2 else 1 for p in parts])], names)

    def of_reverse(self, operands, names, attrs):
        axes = numbers(attrs, "dims =")
        self.node("Slice", [operands[0], self.constant([-1] * len(axes)), self.constant([-(1 << 40)] * len(axes)),
                            self.constant(axes), self.constant([-1] * len(axes))], names)

    def of_broadcast_in_dim(self, operands, names, attrs):
        dims, own, result = numbers(attrs, "dims ="), self.shape(operands[0]), self.shape(names[0])
        order = sorted(range(len(dims)), key=lambda i: dims[i])
        shape, source = [1] * len(result), operands[0]
        for i, axis in enumerate(dims):
            shape[axis] = own[i]
        if order != list(range(len(dims))):
            source = self.middle(None)
            self.node("Transpose", operands, [source], perm=order)
        middle = self.middle(shape)
        self.node("Reshape", [source, self.constant(shape)], [middle])
        self.node("Expand", [middle, self.constant(result)], names)

    def of_reduce(self, operands, names, attrs):
        applied = re.search(r"applies stablehlo\.(\w+)", attrs)
        axes = self.constant(numbers(attrs, "dimensions ="))
        for operand, name in zip(operands, names):
            self.node(REDUCTIONS[applied.group(1) if applied else "add"], [operand, axes], [name], keepdims=0)

    def of_clamp(self, operands, names, _):
        middle = self.middle(self.shape(operands[1]))
        self.node("Max", [operands[1], operands[0]], [middle])
        self.node("Min", [middle, operands[2]], names)

    def of_compare(self, operands, names, attrs):
        way = re.match(r"\s*(\w+)", attrs)
        if way is None or way.group(1) not in COMPARISONS:
            raise Unsayable(f"a comparison {attrs}")
        self.node(COMPARISONS[way.group(1)], operands, names)

    def of_pad(self, operands, names, attrs):
        if any(numbers(attrs, "interior =")):
            raise Unsayable("a filling between elements")
        self.node("Pad", [operands[0], self.constant(numbers(attrs, "low =") + numbers(attrs, "high =")), operands[1]], names)

    def of_dynamic_slice(self, operands, names, _):
        source, shape, result = operands[0], list(self.shape(operands[0])), self.shape(names[0])
        cut = [a for a, (own, size) in enumerate(zip(shape, result)) if own != size] or [0]
        for axis in cut:
            start, places = self.middle([]), self.middle([result[axis]])
            shape[axis] = result[axis]
            self.node("Cast", [operands[1 + axis]], [start], to=7)
            self.node("Add", [start, self.constant(list(range(result[axis])))], [places])
            into = names[0] if axis == cut[-1] else self.middle(list(shape))
            self.node("Gather", [source, places], [into], axis=axis)
            source = into

    def of_sort(self, operands, names, attrs):
        self.best(operands[0], names[0], number(attrs, "dimension", 0))

    def of_mhlo_topk(self, operands, names, attrs):
        axis = len(self.shape(operands[0])) - 1
        if number(attrs, "k", 0) != self.shape(names[0])[axis]:
            raise Unsayable("a top k of another extent")
        self.best(operands[0], names[0], axis, names[1])

    def best(self, source, values, axis, places=None):
        k = self.constant([self.shape(values)[axis]])
        if places is None:
            self.node("TopK", [source, k], [values, self.middle(self.shape(values))], axis=axis)
            return
        middle = self.middle(self.shape(places))
        self.node("TopK", [source, k], [values, middle], axis=axis)
        self.node("Cast", [middle], [places], to=6)

    def of_convolution(self, operands, names, attrs):
        if number(attrs, "batch_group_count", 1) != 1 or "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]" not in attrs:
            raise Unsayable("a convolution with another order of dims, or groups of batches")
        image, filters, made = (self.middle(None) for _ in range(3))
        pads = re.search(r"pad = \[\[(\d+), (\d+)\], \[(\d+), (\d+)\]\]", attrs)
        low_high = [int(pads.group(i)) for i in (1, 3, 2, 4)] if pads else [0] * 4
        self.node("Transpose", operands[:1], [image], perm=[0, 3, 1, 2])
        self.node("Transpose", operands[1:], [filters], perm=[3, 2, 0, 1])
        self.node("Conv", [image, filters], [made], strides=numbers(attrs, "stride =") or [1, 1], pads=low_high,
                  group=number(attrs, "feature_group_count", 1))
        self.node("Transpose", [made], names, perm=[0, 2, 3, 1])

    def of_fft(self, operands, names, attrs):
        way, source, count = re.search(r"type = (\w+)", attrs).group(1), operands[0], len(numbers(attrs, "length ="))
        if way not in ("FFT", "IFFT"):
            raise Unsayable("a transform of another extent")
        rank = len(self.shape(source)) - 1
        for axis in range(rank - count, rank):
            into = names[0] if axis == rank - 1 else self.middle(self.shape(source))
            place = f"c{len(self.constants)}"
            self.constants.append({"name": place, "dtype": "int64", "shape": [], "data": [axis]})
            self.node("DFT", [source, "", place], [into], inverse=int(way == "IFFT"))
            source = into

    def text(self):
        return json.dumps({"opset": 21, "inputs": self.inputs, "initializers": self.constants, "nodes": self.nodes,
                           "outputs": [f"result{i}" for i in range(len(self.case["results"]))]})

    def mesh(self, name):
        """Its axes and the order of its devices, if it is not the natural one."""
        mesh = self.case["meshes"][name]
        axes = mesh["axes"] if isinstance(mesh, dict) else mesh
        return axes, mesh.get("device_ids") if isinstance(mesh, dict) else None

    def options(self):
        """The arguments of `infer`, and how many devices there are."""
        devices = max(math.prod(size for _, size in self.mesh(name)[0]) for name in self.meshes)
        if len({math.prod(size for _, size in self.mesh(name)[0]) for name in self.meshes}) > 1:
            raise Unsayable("meshes of different sizes")
        if devices < 2:
            raise Unsayable("a mesh of one device")
        arguments = ["--devices", str(devices)]
        if len(self.meshes) == 1:
            axes, ids = self.mesh(next(iter(self.meshes)))
            order = f", device_ids=[{','.join(map(str, ids))}]" if ids else ""
            arguments += ["--mesh", "<[" + ", ".join(f'"{name}"={size}' for name, size in axes) + "]" + order + ">"]
        for name, (mesh, dims, extra) in self.shardings.items():
            arguments += ["--set", f"{name}={self.spec(mesh, dims, extra)}"]
        return arguments, devices

    def spec(self, mesh, dims, extra):
        extra = f", {extra}" if extra else ""
        if len(self.meshes) == 1:
            return f"<@{mesh}, {dims}{extra}>"
        axes, ids = self.mesh(mesh)  # each with its own mesh: in the notation that says it
        order = f", device_ids=({','.join(map(str, ids))})" if ids else ""
        names = ",".join(f"'{name}'={size}" for name, size in axes)
        return f"{{mesh[{names}]{order}, {dims}{extra}}}".replace('"', "'")
