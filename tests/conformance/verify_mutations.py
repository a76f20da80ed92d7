#!/usr/bin/env python3
"""Mistakes in the models of devices, and what `shardplan verify` says of them.

    verify_mutations.py FOLDER COUNT [SEED] [--only TEXT]

FOLDER holds what simulate_models wrote: list.jsonl, and for each way and target the manifest and the models. COUNT mistakes
of the catalogue below are made, one at a time, in models taken in turn; each is written to FOLDER/mutant and verified. One
line of JSON for each on standard output: {"name", "kind", "where", "verdict", "named", "nodes", "folder"}.
"""

import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))

from onnx_make import attribute, delimited, integer, varint  # noqa: E402
from wire_fields import fields, integers  # noqa: E402

PROGRAM = os.environ.get("SHARDPLAN", "../../build/api/cli/shardplan")


def encode(parts):
    """Fields as fields() gives them back as bytes; numbers of four and eight bytes are told by their length alone where
    the caller marks them with a tuple (value, wire type)."""
    out = b""
    for number, value in parts:
        if isinstance(value, int):
            out += integer(number, value)
        elif isinstance(value, tuple):
            out += varint(number << 3 | value[1]) + bytes(value[0])
        else:
            out += delimited(number, bytes(value))
    return out


def text(value):
    return bytes(value).decode()


class Node:
    def __init__(self, message):
        self.inputs, self.outputs, self.attributes, self.rest = [], [], [], []
        self.op = self.name = ""
        for number, value in fields(message):
            if number == 1:
                self.inputs.append(text(value))
            elif number == 2:
                self.outputs.append(text(value))
            elif number == 3:
                self.name = text(value)
            elif number == 4:
                self.op = text(value)
            elif number == 5:
                self.attributes.append(bytes(value))
            else:
                self.rest.append((number, value))

    def encode(self):
        return encode([(1, x.encode()) for x in self.inputs] + [(2, x.encode()) for x in self.outputs] +
                      [(3, self.name.encode()), (4, self.op.encode())] + [(5, a) for a in self.attributes] + self.rest)

    def get(self, name):
        for message in self.attributes:
            parts = list(fields(message))
            if any(number == 1 and text(value) == name for number, value in parts):
                ints = [item for number, value in parts if number == 8 for item in integers(value)]
                return ints or next((value for number, value in parts if number in (3, 4)), None)
        return None

    def set(self, name, value):
        self.attributes = [message for message in self.attributes
                           if not any(number == 1 and text(item) == name for number, item in fields(message))]
        made = attribute(name, value)
        self.attributes.append(bytes(next(fields(made))[1]))


class Tensor:
    def __init__(self, message):
        self.message, self.dims, self.dtype, self.name, self.raw = message, [], 0, "", None
        for number, value in fields(message):
            if number == 1:
                self.dims += integers(value)
            elif number == 2:
                self.dtype = value
            elif number == 8:
                self.name = text(value)
            elif number == 9:
                self.raw = bytes(value)

    def with_raw(self, raw, name=None):
        return encode([(number, raw if number == 9 else name.encode() if number == 8 and name else value)
                       for number, value in fields(self.message)])

    def ints(self):
        return list(struct.unpack(f"<{len(self.raw) // 8}q", self.raw)) if self.dtype == 7 and self.raw else None


class Model:
    def __init__(self, path):
        with open(path, "rb") as file:
            data = memoryview(file.read())
        self.head = [(number, value) for number, value in fields(data) if number != 7]
        graph = next(value for number, value in fields(data) if number == 7)
        self.nodes, self.tensors, self.rest = [], {}, []
        for number, value in fields(graph):
            if number == 1:
                self.nodes.append(Node(value))
            elif number == 5:
                tensor = Tensor(value)
                self.tensors[tensor.name] = tensor
            else:
                self.rest.append((number, value))
        self.outputs = [text(value) for number, item in self.rest if number == 12
                        for field, value in fields(item) if field == 1]

    def write(self, path):
        graph = encode([(1, node.encode()) for node in self.nodes] +
                       [(5, tensor.message) for tensor in self.tensors.values()] + self.rest)
        with open(path, "wb") as file:
            file.write(encode(self.head + [(7, graph)]))

    def fresh(self, name):
        while name in self.tensors:
            name += "+"
        return name

    def give(self, tensor, raw, name):
        """A tensor of the same type with other data, under a name of its own."""
        name = self.fresh(name)
        self.tensors[name] = Tensor(tensor.with_raw(raw, name))
        return name

    def users(self, names):
        """Who reads one of these, by way of moves, too."""
        names, found = set(names), []
        for node in self.nodes:
            if names & set(node.inputs):
                found.append(node.name)
                if node.op in ("Reshape", "Transpose", "Slice", "Concat", "Split", "Identity", "Cast", "Squeeze",
                               "Unsqueeze", "Expand", "Gather", "AllGather", "AllToAll", "DistCollective"):
                    names |= set(node.outputs)
        return found


def base(name):
    return name.rsplit("@", 1)[0]


def all_users(way, names):
    """Who reads one of these in the original, by the names of nodes."""
    original = Model(way.line["original"])
    return original.users({base(name) for name in names})


class Way:
    """The models of all devices of one way to split."""

    def __init__(self, line, target):
        self.line, self.target = line, target
        self.name = f"{line['name']} {target}"
        if target == "simulation":
            self.manifest, self.paths = None, [line["model"]]
        else:
            with open(f"{line['model']}.{target}.json", encoding="utf-8") as file:
                self.manifest = json.load(file)
            self.paths = [f"{line['model']}.{target}.{part['model']}" for device in self.manifest.get("devices", [])
                          for part in device["parts"]]
        self.models = [Model(path) for path in self.paths]

    def verify(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        own = [path.rsplit(".device-", 1) for path in self.paths]
        names = ["simulation.onnx"] if self.manifest is None else ["device-" + last for _, last in own]
        for model, name in zip(self.models, names):
            model.write(os.path.join(folder, name))
        if self.manifest is None:
            what = ["--simulation", os.path.join(folder, names[0])]
        else:
            with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
                json.dump(self.manifest, file)
            what = ["--manifest", os.path.join(folder, "manifest.json")]
        dims = []
        if "dyn" in self.line["file"]:
            batch, seq = self.line["feeds"]["ids"]["dims"]
            dims = ["--dim", f"batch={batch}", "--dim", f"seq={seq}"]
        done = subprocess.run([PROGRAM, "verify", self.line["original"], *what, *dims, "--json"], capture_output=True,
                              text=True, timeout=600, check=False)
        return json.loads(done.stdout)


# ---- the catalogue: each makes one mistake and returns the nodes concerned, or None where there is no place for it ----


def pick(made, models, test):
    places = [(model, i) for model in models for i, node in enumerate(model.nodes) if test(model, node)]
    return made.choice(places) if places else None


COLLECTIVES = ("AllReduce", "AllGather", "AllToAll", "DistCollective")


def same_place(way, model, i):
    """The same node of all models that have it."""
    node = model.nodes[i]
    return [(other, k) for other in way.models for k, peer in enumerate(other.nodes)
            if peer.op == node.op and base(peer.outputs[0]) == base(node.outputs[0])]


def reduces(node):
    return node.op == "AllReduce" or (node.op == "DistCollective"
                                      and bytes(node.get("collective_operation")).lower() == b"all_reduce")


def weight_users(way, name):
    """Who reads a weight, and who reads what that computes."""
    users = [(model, node) for model in way.models for node in model.nodes if base(name) in map(base, node.inputs)]
    beside = [other for model, node in users for other in model.users(node.outputs)]
    return [node.name for _, node in users] + beside + all_users(way, [x for _, node in users for x in node.outputs])


def concerned(way, places):
    names = all_users(way, [name for model, i in places for name in model.nodes[i].outputs])
    for model, i in places:
        node = model.nodes[i]
        names += [node.name, *model.users(node.outputs)]
        names += [other.name for other in model.nodes if set(other.outputs) & set(node.inputs)]
    return names


def missing_reduce(made, way):
    place = pick(made, way.models, lambda model, node: reduces(node))
    if place is None:
        return None
    places = same_place(way, *place)
    names = concerned(way, places)
    for model, i in places:
        node = model.nodes[i]
        node.op, node.attributes = "Identity", []
        node.rest = [(number, value) for number, value in node.rest if number != 7]
    return names


def double_reduce(made, way):
    place = pick(made, way.models, lambda model, node: reduces(node))
    if place is None:
        return None
    places = same_place(way, *place)
    names = concerned(way, places)
    for model, i in sorted(places, key=lambda item: -item[1]):
        node = model.nodes[i]
        again = Node(node.encode())
        again.inputs, again.name = [node.outputs[0] + "+once"], node.name + "+again"
        node.outputs = [node.outputs[0] + "+once"]
        model.nodes.insert(i + 1, again)
        names.append(again.name)
    return names


def wrong_group(made, way):
    place = pick(made, way.models, lambda model, node: node.op == "DistCollective" and len(node.get("groups") or []) > 1)
    if place is None:
        return None
    places = same_place(way, *place)
    names = concerned(way, places)
    for model, i in places:
        node = model.nodes[i]
        node.set("groups", (node.get("groups") or [])[::-1])
        if reduces(node):
            node.set("reduce_op", "max" if bytes(node.get("reduce_op")).lower() != b"max" else "sum")
    return names


def swapped_shards(made, way):
    by_name = {}
    for model in way.models:
        for tensor in model.tensors.values():
            if tensor.raw and tensor.dtype == 1 and len(tensor.raw) > 4:
                by_name.setdefault((base(tensor.name), tuple(tensor.dims)), []).append((model, tensor))
    choices = [group for group in by_name.values() if len({tensor.raw for _, tensor in group}) > 1]
    if not choices:
        return None
    group = made.choice(choices)
    first = made.choice(group)
    second = made.choice([item for item in group if item[1].raw != first[1].raw])
    names = first[0].users([first[1].name]) + second[0].users([second[1].name]) + weight_users(way, first[1].name)
    raws = first[1].raw, second[1].raw
    first[0].tensors[first[1].name] = Tensor(first[1].with_raw(raws[1]))
    second[0].tensors[second[1].name] = Tensor(second[1].with_raw(raws[0]))
    return names


def other_layer(made, way):
    model = made.choice(way.models)
    groups = {}
    for tensor in model.tensors.values():
        if tensor.raw and tensor.dtype == 1 and len(tensor.raw) > 64:
            groups.setdefault(tuple(tensor.dims), []).append(tensor)
    groups = [group for group in groups.values() if len({tensor.raw for tensor in group}) > 1]
    if not groups:
        return None
    group = made.choice(groups)
    first = made.choice(group)
    second = made.choice([tensor for tensor in group if tensor.raw != first.raw])
    model.tensors[first.name] = Tensor(first.with_raw(second.raw))
    return model.users([first.name]) + weight_users(way, first.name)


def wrong_number(made, way):
    """An epsilon, a scale: a single number that a node reads."""
    def has_number(model, node):
        return node.op in ("Add", "Mul", "Div", "Sub") and any(
            x in model.tensors and model.tensors[x].dtype == 1 and len(model.tensors[x].raw or b"") == 4
            and struct.unpack("<f", model.tensors[x].raw)[0] != 0 for x in node.inputs)

    place = pick(made, way.models, has_number)
    if place is None:
        return None
    model, i = place
    node = model.nodes[i]
    k = next(k for k, x in enumerate(node.inputs) if x in model.tensors and len(model.tensors[x].raw or b"") == 4
             and model.tensors[x].dtype == 1)
    tensor = model.tensors[node.inputs[k]]
    value = struct.unpack("<f", tensor.raw)[0] * made.choice([0.5, 2, 10, 1.25])
    node.inputs[k] = model.give(tensor, struct.pack("<f", value), tensor.name + "+wrong")
    return concerned(way, [place])


def wrong_epsilon_attribute(made, way):
    place = pick(made, way.models, lambda model, node: node.op in ("InstanceNormalization", "LayerNormalization"))
    if place is None:
        return None
    place[0].nodes[place[1]].set("epsilon", 0.01)
    return concerned(way, [place])


def shifted_slice(made, way):
    def can(model, node):
        if node.op != "Slice" or len(node.inputs) < 3 or any(x not in model.tensors for x in node.inputs[1:3]):
            return False
        starts, ends = (model.tensors[x].ints() for x in node.inputs[1:3])
        return starts and ends and starts[0] >= 0 and 0 < ends[0] < 1 << 40 and starts[0] < ends[0]

    place = pick(made, way.models, can)
    if place is None:
        return None
    model, i = place
    node = model.nodes[i]
    step = -1 if model.tensors[node.inputs[1]].ints()[0] > 0 else 1
    for k in 1, 2:
        tensor = model.tensors[node.inputs[k]]
        values = tensor.ints()
        values[0] += step
        node.inputs[k] = model.give(tensor, struct.pack(f"<{len(values)}q", *values), tensor.name + "+shifted")
    return concerned(way, [place])


def dropped_node(made, way):
    place = pick(made, way.models, lambda model, node: node.op in ("Add", "Mul", "Tanh", "Erf", "Sigmoid", "Relu", "Neg",
                                                                    "Sqrt", "Softmax", "Exp")
                 and node.inputs[0] not in model.tensors)
    if place is None:
        return None
    model, i = place
    names = concerned(way, [place])
    node = model.nodes[i]
    node.op, node.attributes, node.inputs = "Identity", [], node.inputs[:1]
    return names


def other_operator(made, way):
    others = {"Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "Tanh": "Sigmoid", "Sigmoid": "Tanh", "Erf": "Tanh",
              "Sqrt": "Exp", "Max": "Min", "ReduceSum": "ReduceMax", "ReduceMax": "ReduceMin", "Exp": "Sigmoid"}
    place = pick(made, way.models, lambda model, node: node.op in others)
    if place is None:
        return None
    names = concerned(way, [place])
    node = place[0].nodes[place[1]]
    node.op = others[node.op]
    return names


def turned_operands(made, way):
    place = pick(made, way.models, lambda model, node: node.op in ("Sub", "Div") and len(node.inputs) == 2)
    if place is None:
        return None
    place[0].nodes[place[1]].inputs.reverse()
    return concerned(way, [place])


def stale_axis(made, way):
    place = pick(made, way.models, lambda model, node: isinstance(node.get("axis"), int) and
                 node.op in ("Softmax", "Concat", "Gather", "Split", "AllGather"))
    if place is None:
        return None
    node = place[0].nodes[place[1]]
    axis = node.get("axis")
    axis = axis - (1 << 64) if axis >= 1 << 63 else axis
    node.set("axis", axis - 1 if axis != 0 else 1)
    return concerned(way, [place])


def other_order(made, way):
    place = pick(made, way.models, lambda model, node: node.op == "Concat" and len(node.inputs) > 1 and
                 len(set(node.inputs)) > 1 and all(x not in model.tensors for x in node.inputs))
    if place is None:
        return None
    inputs = place[0].nodes[place[1]].inputs
    inputs[0], inputs[-1] = inputs[-1], inputs[0]
    return concerned(way, [place])


def left_out_transpose(made, way):
    place = pick(made, way.models, lambda model, node: node.op == "Transpose" and node.get("perm"))
    if place is None:
        return None
    node = place[0].nodes[place[1]]
    perm = node.get("perm")
    perm[0], perm[-1] = perm[-1], perm[0]
    node.set("perm", perm)
    return concerned(way, [place])


def early_bias(made, way):
    """A sum behind a reduction is added to the members' parts already."""
    for model in made.sample(way.models, len(way.models)):
        for i, node in enumerate(model.nodes):
            after = next((k for k, other in enumerate(model.nodes) if other.op == "Add" and reduces(node) and
                          node.outputs[0] in other.inputs), None)
            if after is None or not any(x in model.tensors for x in model.nodes[after].inputs):
                continue
            places = [(other, k) for other, k in same_place(way, model, i)]
            names = []
            for other, k in sorted(places, key=lambda item: -item[1]):
                reduce = other.nodes[k]
                add = next((n for n in other.nodes if n.op == "Add" and reduce.outputs[0] in n.inputs), None)
                if add is None:
                    return None
                bias = next((x for x in add.inputs if x in other.tensors), None)
                if bias is None:
                    return None
                names += concerned(way, [(other, k)]) + [add.name]
                early = Node(add.encode())
                early.inputs, early.outputs = [reduce.inputs[0], bias], [reduce.inputs[0] + "+early"]
                early.name = add.name + "+early"
                names.append(early.name)
                reduce.inputs = [early.outputs[0]]
                add.op, add.inputs = "Identity", [reduce.outputs[0]]
                other.nodes.insert(k, early)
            return names
    return None


def wrong_stage_input(made, way):
    if way.manifest is None:
        return None
    outputs = {}
    for device in way.manifest["devices"]:
        for part in device["parts"]:
            model = next(m for m, path in zip(way.models, way.paths) if path.endswith("." + part["model"]))
            outputs[device["id"], part["part"]] = [item["name"] for item in part["outputs"]], model
    entries = [(part["model"], entry) for device in way.manifest["devices"] for part in device["parts"]
               for entry in part["inputs"] if entry["from"] == "device" and
               len(outputs[entry["device"], entry["part"]][0]) > 1]
    if not entries:
        return None
    name, entry = made.choice(entries)
    entry["output"] = made.choice([x for x in outputs[entry["device"], entry["part"]][0] if x != entry["output"]])
    model = next(m for m, path in zip(way.models, way.paths) if path.endswith("." + name))
    return model.users([entry["name"]])


KINDS = [missing_reduce, double_reduce, wrong_group, swapped_shards, other_layer, wrong_number, wrong_epsilon_attribute,
         shifted_slice, dropped_node, other_operator, turned_operands, stale_axis, other_order, left_out_transpose,
         early_bias, wrong_stage_input]


def read_ways(folder):
    """What simulate_models wrote: each way and target, as (line, target)."""
    lines = []
    with open(os.path.join(folder, "list.jsonl"), encoding="utf-8") as file:
        for line in file:
            try:
                lines.append(json.loads(line))
            except ValueError:
                break
    return [(line, target) for line in lines if not line.get("failure") and not line.get("isLarge")
            for target in ("simulation", "ort", "tensorrt", "sessions")
            if target == "simulation" or os.path.exists(f"{line['model']}.{target}.json")]


def in_turn(made, ways):
    """Ways of one model after the other, in a random order of each."""
    groups = {}
    for line, target in ways:
        groups.setdefault(line["file"], []).append((line, target))
    for group in groups.values():
        made.shuffle(group)
    longest = max(map(len, groups.values()), default=0)
    return [group[i % len(group)] for i in range(longest) for group in groups.values()]


def mutate(folder, count, seed, only=""):
    """Makes the mistakes one after the other, and yields what is said of each."""
    made, done, tried = random.Random(seed), 0, 0
    ways = in_turn(made, read_ways(folder))
    while done < count and tried < 50 * count:
        line, target = ways[tried % len(ways)]
        tried += 1
        kind = made.choice(KINDS)
        if only and only not in f"{kind.__name__} {line['name']} {target}":
            continue
        try:
            way = Way(line, target)
        except (KeyError, FileNotFoundError):
            continue
        names = kind(made, way) if way.models else None
        if names is None:
            continue
        own = os.path.join(folder, "mutant", f"{seed}-{done}")
        answer = way.verify(own)
        failures = answer.get("failures", [])
        first = next((f for f in failures if f["node"]), None)
        named = first is not None and any(f"'{name}'" in first["node"] for name in names)
        if named and answer.get("verdict") == "refuted":
            shutil.rmtree(own)
        done += 1
        yield {"name": way.name, "kind": kind.__name__, "verdict": answer.get("verdict", "error"), "named": named,
               "nodes": names, "first": first or answer.get("error"), "folder": own}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    for result in mutate(asked.folder, asked.count, asked.seed, asked.only):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
