"""A tensor graph in JSON (core/json/json.h) put together node by node.

A value is its name. Nodes are named by the scope they are made in, as exporters do: "/layers.3/mlp/up/MatMul". Nothing
has data but the few small constants that shapes are computed from: weights of any size cost nothing here.
"""

import contextlib
import json

FOUR_BITS = ("int4", "uint4", "float4e2m1")


class Graph:
    def __init__(self, name, dtype, opset, domains=()):
        self.name, self.dtype = name, dtype
        self.opsets = {"ai.onnx": opset, **dict(domains)}
        self.inputs, self.initializers, self.outputs, self.nodes = [], [], [], []
        self.parameters = 0  # elements of weights
        self.path, self.used, self.constants = "", {}, {}
        self.narrow = None  # the type in which linear() multiplies, where it is not the graph's
        self.experts_are, self.experts_take = None, None  # the types of experts' weights and of what they multiply

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
            x = self.narrowed(x, self.narrow) if self.narrow else x
            y = self.node("MatMul", [x, self.stored_weight("weight", sizes, self.narrow)])
            return self.node("Add", [y, self.weight("bias", sizes[-1:])]) if bias else y

    def zero(self, dtype):
        """The zero point of quantised values. Numbers of four bits cannot be written in this form."""
        if dtype not in FOUR_BITS:
            return self.constant(0.0, dtype)
        if ("zero", dtype) not in self.constants:
            self.constants["zero", dtype] = f"zero_{dtype}"
            self.initializers.append({"name": f"zero_{dtype}", "dtype": dtype, "shape": []})
        return self.constants["zero", dtype]

    def narrowed(self, x, dtype):
        """Quantised with one scale and dequantised, as exporters write it."""
        scale = self.constant(1.0, self.dtype)
        return self.dequantized(self.node("QuantizeLinear", [x, scale, self.zero(dtype)]), dtype)

    def dequantized(self, x, dtype):
        return self.node("DequantizeLinear", [x, self.constant(1.0, self.dtype), self.zero(dtype)])

    def stored_weight(self, name, sizes, dtype):
        """A weight that is stored in a type of its own; None: in the graph's."""
        return self.dequantized(self.weight(name, sizes, dtype), dtype) if dtype else self.weight(name, sizes)

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
