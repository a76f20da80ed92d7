"""What a model says of itself, for checks of plans: nodes in order, operands, constants. Written apart from the readers
in core on purpose, with nothing but the standard library.

read(bytes) takes an ONNX file, a description in JSON (a tensor graph, protobuf's mapping) or a graph of costs.

Field numbers: ModelProto.graph 7, functions 25; FunctionProto.name 1, domain 10; GraphProto.node 1, initializer 5,
input 11, output 12, sparse_initializer 15; NodeProto.input 1, output 2, name 3, op_type 4, attribute 5, domain 7;
AttributeProto.name 1, g 6, ints 8, graphs 11; TensorProto.dims 1, data_type 2, name 8; SparseTensorProto.values 1;
ValueInfoProto.name 1.
"""

import collections
import json

from wire_fields import fields, integers

BITS = {"float32": 32, "uint8": 8, "int8": 8, "uint16": 16, "int16": 16, "int32": 32, "int64": 64, "bool": 8,
        "float16": 16, "float64": 64, "uint32": 32, "uint64": 64, "complex64": 64, "complex128": 128, "bfloat16": 16,
        "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8, "float8e5m2fnuz": 8, "uint4": 4, "int4": 4,
        "float4e2m1": 4, "float8e8m0": 8, "uint2": 2, "int2": 2}
NUMBERS = ("", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "float64",
           "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
           "float8e5m2fnuz", "uint4", "int4", "float4e2m1", "float8e8m0", "uint2", "int2")


class Node:
    def __init__(self, name, op, domain, inputs, outputs, captured=(), has_graphs=False, perm=None):
        self.name, self.op, self.domain = name, op, "" if domain == "ai.onnx" else domain
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.captured = list(captured)  # what its graphs use by name
        self.is_opaque = has_graphs  # memory inside it is not known here
        self.perm = perm  # the attribute of this name
        self.workspace = self.weights = 0  # of graphs of costs: they say it


class Facts:
    """nodes; constants: name -> (dtype, dims) or None; inputs without those; outputs. Of a graph of costs also `sizes`:
    tensor -> bytes."""

    def __init__(self):
        self.nodes, self.constants, self.inputs, self.outputs = [], {}, set(), set()
        self.sizes = None

    def name_nodes(self):
        """The first node of a name keeps it; what the others are called ends in their number."""
        taken = set()
        for node in self.nodes:
            if node.name in taken:
                node.name = ""
            taken.add(node.name)


# ---- ONNX files ----


def text(value):
    return bytes(value).decode(errors="replace")


def read_tensor(message):
    name, kind, dims = "", 0, []
    for field, value in fields(message):
        if field == 1:
            dims += integers(value)
        elif field == 2:
            kind = value
        elif field == 8:
            name = text(value)
    return name, NUMBERS[kind] if kind < len(NUMBERS) else "", dims


def read_node(message):
    said = {1: [], 2: [], 3: [""], 4: [""], 7: [""]}
    captured, has_graphs, perm = [], False, None
    for field, value in fields(message):
        if field in said:
            said[field].append(text(value))
        elif field == 5:
            attribute = list(fields(value))
            for number, graph in attribute:
                if number in (6, 11):
                    has_graphs = True
                    captured += used_outside(read_graph(graph))
            if any(number == 1 and bytes(part) == b"perm" for number, part in attribute):
                perm = [item for number, part in attribute if number == 8 for item in integers(part)]
    return Node(said[3][-1], said[4][-1], said[7][-1], said[1], said[2], captured, has_graphs, perm)


def read_graph(message):
    facts = Facts()
    for field, value in fields(message):
        if field == 1:
            facts.nodes.append(read_node(value))
        elif field == 5:
            name, dtype, dims = read_tensor(value)
            facts.constants[name] = (dtype, dims)
        elif field == 15:
            name = read_tensor(next(part for number, part in fields(value) if number == 1))[0]
            facts.constants[name] = None
        elif field in (11, 12):
            name = next((text(part) for number, part in fields(value) if number == 1), "")
            (facts.inputs if field == 11 else facts.outputs).add(name)
    facts.inputs -= set(facts.constants)
    return facts


def used_outside(graph):
    """Names that a graph inside a node uses without making them, in order."""
    made = graph.inputs | set(graph.constants)
    made.update(name for node in graph.nodes for name in node.outputs)
    used = [name for node in graph.nodes for name in node.inputs + node.captured] + sorted(graph.outputs)
    return list(dict.fromkeys(name for name in used if name and name not in made))


def read_onnx(data):
    functions, graph = set(), None
    for field, value in fields(memoryview(data)):
        if field == 7:
            graph = read_graph(value)
        elif field == 25:
            said = {number: text(part) for number, part in fields(value) if number in (1, 10)}
            functions.add((said.get(10, ""), said.get(1, "")))
    return finish(graph, functions)


def finish(graph, functions=frozenset()):
    graph.name_nodes()
    for node in graph.nodes:
        node.is_opaque = node.is_opaque or (node.domain, node.op) in functions
    return graph


# ---- descriptions in JSON ----


def members(thing, *names):
    return next((thing[name] for name in names if name in thing), None)


def read_described_node(said):
    captured, has_graphs = [], False
    attributes = members(said, "attributes", "attribute") or {}
    for value in attributes.values() if isinstance(attributes, dict) else attributes:
        for graph in [value.get("graph"), value.get("g"), *(value.get("graphs") or ())] if isinstance(value, dict) else ():
            if graph:
                has_graphs = True
                captured += used_outside(read_described_graph(graph))
    perm = attributes.get("perm") if isinstance(attributes, dict) else next(
        (item.get("ints") for item in attributes if item.get("name") == "perm"), None)
    perm = None if perm is None else [int(item) for item in (perm["ints"] if isinstance(perm, dict) else perm)]
    return Node(said.get("name", ""), members(said, "op", "opType", "op_type"), said.get("domain", ""),
                members(said, "inputs", "input") or [], members(said, "outputs", "output") or [], captured, has_graphs,
                perm)


def read_described_graph(said):
    facts = Facts()
    facts.nodes = [read_described_node(node) for node in members(said, "nodes", "node") or []]
    for tensor in members(said, "initializers", "initializer") or []:
        kind = members(tensor, "dtype", "dataType", "data_type")
        dims = members(tensor, "shape", "dims") or []
        known = isinstance(kind, str) and kind in BITS
        facts.constants[tensor["name"]] = (kind, [int(dim) for dim in dims]) if known else None
    name_of = lambda value: value if isinstance(value, str) else value["name"]  # noqa: E731
    facts.inputs = {name_of(value) for value in members(said, "inputs", "input") or []} - set(facts.constants)
    facts.outputs = {name_of(value) for value in members(said, "outputs", "output") or []}
    return facts


def read_costs(said):
    """Edges of one node that say the same, or name the same tensor, carry the same one."""
    facts, by_id = Facts(), {}
    facts.sizes = {}
    names = [str(node.get("name", node["id"])) for node in said["nodes"]]
    uses = collections.Counter(names)
    for node, name in zip(said["nodes"], names):
        made = Node(name if uses[name] == 1 else f"{name} [{node['id']}]", "", "", [], [])
        made.weights = node.get("memory_bytes", 0)
        by_id[str(node["id"])] = (made, node.get("output_bytes", 0), {})
        facts.nodes.append(made)
    for edge in said.get("edges", ()):
        source, output_bytes, tensors = by_id[str(edge["from"])]
        size = edge.get("bytes", output_bytes)
        key = ("named", edge["tensor"]) if "tensor" in edge else ("said", size, edge.get("seconds"))
        tensor = tensors.setdefault(key, (source.name, len(tensors)))
        facts.sizes[tensor] = size
        if tensor not in source.outputs:
            source.outputs.append(tensor)
        user = by_id[str(edge["to"])][0]
        if tensor not in user.inputs:
            user.inputs.append(tensor)
    for node, output_bytes, tensors in by_id.values():
        if tensors:
            node.workspace = max(0, output_bytes - sum(facts.sizes[tensor] for tensor in tensors.values()))
        else:
            facts.sizes[node.name, 0] = output_bytes
            node.outputs.append((node.name, 0))
            facts.outputs.add((node.name, 0))
    return facts


def read(data):
    if not data[:4096].lstrip().startswith(b"{"):
        return read_onnx(data)
    said = json.loads(bytes(data))
    if "graph" in said:
        functions = {(item.get("domain", ""), item["name"]) for item in said.get("functions", ())}
        return finish(read_described_graph(said["graph"]), functions)
    is_costs = any("seconds" in node for node in said["nodes"])
    return read_costs(said) if is_costs else finish(read_described_graph(said))
