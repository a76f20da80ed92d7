"""A tensor graph in JSON (core/json/json.h) put together node by node.

A value is its name. Nodes are named by the scope they are made in, as exporters do: "/layers.3/mlp/up/MatMul". Nothing
has data but the few small constants that shapes are computed from: weights of any size cost nothing here.
"""

import contextlib
import json


class Graph:
    def __init__(self, name, dtype, opset, domains=()):
        self.name, self.dtype = name, dtype
        self.opsets = {"ai.onnx": opset, **dict(domains)}
        self.inputs, self.initializers, self.outputs, self.nodes = [], [], [], []
        self.parameters = 0  # elements of weights
        self.path, self.used, self.constants = "", {}, {}
        self.narrow = None  # the type in which linear() multiplies, where it is not the graph's

    # ---- names ----

    @contextlib.contextmanager
    def scope(self, name):
        outer = self.path
        self.path = f"{outer}/{name}"
        yield
        self.path = outer

    def unique(self, name):
        """The name in this scope, with a number behind it from the second time on."""
        full = f"{self.path}/{name}"
        count = self.used.get(full, 0)
        self.used[full] = count + 1
        return full if count == 0 else f"{full}_{count}"

    # ---- values ----

    def input(self, name, shape, dtype=None):
        self.inputs.append({"name": name, "dtype": dtype or self.dtype, "shape": list(shape)})
        return name

    def output(self, name, called=None):
        """Makes the value an output; the last node's result may get a name of its own first. The name it has then."""
        if called is not None:
            assert self.nodes[-1]["outputs"] == [name]
            self.nodes[-1]["outputs"] = [called]
        self.outputs.append(called or name)
        return self.outputs[-1]

    def weight(self, name, shape, dtype=None):
        full = f"{self.path}/{name}".strip("/").replace("/", ".")
        self.initializers.append({"name": full, "dtype": dtype or self.dtype, "shape": list(shape)})
        count = 1
        for extent in shape:
            count *= extent
        self.parameters += count
        return full

    def constant(self, data, dtype="int64", shape=None):
        """A small constant; equal ones are one initializer."""
        if shape is None:
            shape = [len(data)] if isinstance(data, list) else []
        key = (dtype, tuple(shape), tuple(data) if isinstance(data, list) else data)
        if key not in self.constants:
            name = f"constant_{len(self.constants)}"
            items = data if isinstance(data, list) else [data]
            self.initializers.append({"name": name, "dtype": dtype, "shape": list(shape), "data": items})
            self.constants[key] = name
        return self.constants[key]

    # ---- nodes ----

    def node(self, op, inputs, count=1, domain="", **attributes):
        """The result, or a list of `count` of them. An input None is an omitted one."""
        name = self.unique(op)
        outputs = [f"{name}_output_{i}" for i in range(count)]
        node = {"name": name, "op": op, "inputs": [item or "" for item in inputs], "outputs": outputs}
        if domain:
            node["domain"] = domain
        if attributes:
            node["attributes"] = attributes
        self.nodes.append(node)
        return outputs[0] if count == 1 else outputs

    def linear(self, name, x, sizes, bias=False):
        """x @ [in, out] (+ [out]): what exporters make of a fully connected layer."""
        with self.scope(name):
            y = self.node("MatMul", self.narrowed(x, sizes) if self.narrow else [x, self.weight("weight", sizes)])
            return self.node("Add", [y, self.weight("bias", sizes[-1:])]) if bias else y

    def narrowed(self, x, sizes):
        """Both operands quantised with one scale each and dequantised, as exporters write it."""
        scale, zero = self.constant(1.0, self.dtype), self.constant(0.0, self.narrow)
        weight = self.weight("weight", sizes, self.narrow)
        x = self.node("QuantizeLinear", [x, scale, zero])
        return [self.node("DequantizeLinear", [item, scale, zero]) for item in (x, weight)]

    def cast(self, x, dtype):
        types = {"float32": 1, "int64": 7, "bool": 9, "float16": 10, "bfloat16": 16}
        return self.node("Cast", [x], to=types[dtype])

    def reshape(self, x, shape):
        return self.node("Reshape", [x, self.constant(list(shape))])

    def slice(self, x, begin, end, axis):
        return self.node("Slice", [x, self.constant([begin]), self.constant([end]), self.constant([axis])])

    def unsqueeze(self, x, *axes):
        return self.node("Unsqueeze", [x, self.constant(list(axes))])

    # ---- the whole ----

    def write(self, file):
        """One node and one weight to a line, so that 100,000 of them can be read and compared."""
        file.write(f'{{"name": {json.dumps(self.name)}, "opset": {json.dumps(self.opsets)},\n')
        for key in ("inputs", "initializers", "nodes"):
            lines = ",\n".join("  " + json.dumps(item) for item in getattr(self, key))
            file.write(f'"{key}": [\n{lines}\n],\n')
        file.write(f'"outputs": {json.dumps(self.outputs)}}}\n')
