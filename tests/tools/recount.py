#!/usr/bin/env python3
"""Counts the memory of every device of a plan again, from the plan's stages and shardings and from the model itself,
and holds the plan to it: no device has more than its memory, and each figure is the one that comes out here.

    recount.py PLAN MODEL [PLAN MODEL...]      TAP; status 1 when a plan is wrong

The rules are those that core/cost/evaluate.h, core/search/joint/joint.h and intra.h state; no code of theirs is used.

 - A weight is on each device of each stage that uses it: once whole, or once in each layout in which it is used.
 - A weight that the stage gathers lies in so many more shards, and has two buffers while its node runs.
 - A constant that is dequantised has the bytes of its quantised elements, their scales and zero points.
 - An activation is there from the node that makes or first uses it to its last use in the stage; to the end where it
   leaves the stage or is a result; inputs of the model from the start to the end. A view (Reshape, Identity, ..) is its
   operand, and so are the results of QuantizeLinear and DequantizeLinear that runtimes join with the operators around
   them, and a float Transpose of the last two axes that nothing but products of matrices takes.
 - Where a node wants it in another layout than those that are there, a copy in that layout is there until its own last
   use; it is cut out of one that has these pieces, else brought from how the tensor was made.
 - What crosses a stage's border has two buffers at both ends, in the layouts in which it is sent and taken.

What is inside a node with graphs or of a function is not in the plan: of a stage with such nodes the figures here are
the least that is there.
"""

import json
import math
import mmap
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import model_facts  # noqa: E402
import recount_shared  # noqa: E402

VIEWS = {("", name) for name in ("Reshape", "Identity", "Flatten", "Squeeze", "Unsqueeze", "OptionalGetElement")} | {
    ("com.microsoft", "Distributed" + name) for name in ("Reshape", "Squeeze", "Unsqueeze")}
PRODUCTS = {("", "MatMul"), ("com.microsoft", "FusedMatMul")}
KNOWN_BEFORE = ("Constant", "Shape", "Size")  # what they give does not depend on requests
QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
SAME_ELEMENTS = {op for _, op in VIEWS} | {"Transpose", "Cast"}
WHOLE = ()
COUNTED = ("weights_bytes", "cache_bytes", "activations_peak_bytes", "communication_bytes")


class Wrong(Exception):
    pass


def read_text(text, mesh):
    """A layout: per tensor axis the parts of mesh axes that cut it, (axis, parts before, parts); WHOLE for no cut."""
    layout = []
    for cuts in re.findall(r"R|S\[[^]]*\]", text):
        refs = []
        for ref in cuts[2:-1].split(",") if cuts != "R" else ():
            part = re.fullmatch(r"(\d+)(?::\((\d+)\)(\d+))?", ref)
            axis = int(part[1])
            refs.append((axis, int(part[2] or 1), int(part[3] or mesh[axis])))
        layout.append(tuple(refs))
    return tuple(layout) if any(layout) else WHOLE


def parts(refs):
    return math.prod(size for _, _, size in refs)


def is_cut_of(piece, layout):
    """Whether each device has all of its `piece` in what it has by `layout`."""
    return layout == WHOLE or piece != WHOLE and all(want[:len(have)] == have for want, have in zip(piece, layout))


def devices_of(spec):
    """The devices of ONNX's record: those listed, and those of the groups that are."""
    groups = {group["key"]: group["value"] for group in spec.get("index_to_device_group_map", ())}
    return [device for listed in spec["device"] for device in groups.get(listed, [listed])]


class Tensor:
    """One of the plan's tensors, with what the plan says of its places."""

    def __init__(self, said, recount):
        self.name, self.kind, self.bytes = said["name"], said["kind"], said["bytes"]
        self.is_stored = self.name in recount.stored  # with fewer bits than its type says
        self.bits = model_facts.BITS.get(said["dtype"])
        self.is_float = "float" in said["dtype"]
        self.dims = said["shape"] and self.extents(said["shape"])
        if self.is_stored and self.dims is not None and math.prod(self.dims) > 0:
            self.bits = self.bytes * 8 / math.prod(self.dims)
        self.is_split = "bytes_per_device" in said
        self.devices = set(devices_of(said["spec"]["onnx"]))
        self.places = []
        if self.devices:  # an input that nobody uses is nowhere
            self.places = [(recount.stage_with(devices_of(spec["onnx"]), self.name), spec["text"], names)
                           for spec, names in [(said["spec"], None),
                                               *((use["spec"], use["nodes"]) for use in said.get("uses", ()))]]
        self.layouts = {}  # (stage, node name) -> layout, in stages where nodes have it in several
        self.main = {}  # stage -> layout of the others
        for stage, text, names in self.places if self.is_split else ():
            layout = read_text(text, recount.mesh[stage])
            self.main.setdefault(stage, layout)
            for name in names or ():
                self.layouts[stage, name] = layout
        if self.is_split:
            self.check_specs(said, recount)

    def extents(self, shape):
        """Those of the shape; one that only the data says is as large as the plan counts on."""
        unknown = [dim for dim in shape if not isinstance(dim, int)]
        known = math.prod(dim for dim in shape if isinstance(dim, int))
        if not unknown:
            return shape
        if len(unknown) > 1 or not known or not self.bits or self.bytes is None:
            return None
        return [dim if isinstance(dim, int) else int(self.bytes * 8 // (self.bits * known)) for dim in shape]

    def layout(self, stage, node):
        return self.layouts.get((stage, node), self.main.get(stage, WHOLE))

    def local_bytes(self, layout, share=1):
        """What a device has that has so many of the parts of the axis that is cut."""
        if layout == WHOLE:
            return self.bytes
        if self.dims is None or self.bits is None:
            raise Wrong(f"{self.name}: split, though its size is not known")
        return math.prod(-(-dim // parts(refs)) for dim, refs in zip(self.dims, layout)) * share * self.bits / 8

    def check_specs(self, said, recount):
        """Text and ONNX's form of a spec agree, and so does what a device has."""
        for spec, (stage, text, _) in zip([said["spec"]] + [use["spec"] for use in said.get("uses", ())], self.places):
            shards = [parts(refs) for refs in read_text(text, recount.mesh[stage])] or [1] * len(said["shape"])
            recount.check_shares(spec["onnx"], stage, said["name"])
            told = {item["axis"]: math.prod(part["num_shards"] for part in item["simple_sharding"])
                    for item in spec["onnx"].get("sharded_dim", ())}
            if any(told.get(axis, 1) != count for axis, count in enumerate(shards)):
                raise Wrong(f"{self.name}: {text} and {spec['onnx']} differ")
        stage, text, _ = self.places[0]
        local = self.local_bytes(read_text(text, recount.mesh[stage]), max(recount.shares[stage]))
        if abs(said["bytes_per_device"] - local) > (1 if self.is_stored else 0):
            raise Wrong(f"{self.name}: {said['bytes_per_device']} bytes on each device of {self.bytes} as {text}")


class Recount:
    def __init__(self, plan, facts):
        self.plan, self.facts = plan, facts
        self.find_mesh()
        self.stage_of_device = {device: stage["index"] for stage in plan["stages"] for device in stage["devices"]}
        self.stored = self.find_stored() if facts.sizes is None else {}
        self.tensors = {said["name"]: Tensor(said, self) for said in plan["tensors"]} if facts.sizes is None else {}
        self.find_stages()
        self.find_roots()
        self.find_users()

    def find_mesh(self):
        """Per stage the sizes of its axes, and of each device how many parts of them it has: several where the devices
        are unequal, and as many of the axis as there are parts."""
        self.mesh = [[axis["size"] for axis in stage["mesh"]] for stage in self.plan["stages"]]
        self.shares = [[1] * len(stage["devices"]) for stage in self.plan["stages"]]
        for stage, said in enumerate(self.plan.get("outline", {}).get("stages", ())):
            if "shares" in said and "routes" not in self.plan:
                self.mesh[stage] = [sum(said["shares"])]
                self.shares[stage] = said["shares"] * said["replicas"]
        if any(len(shares) != len(said["devices"]) for shares, said in zip(self.shares, self.plan["stages"])):
            raise Wrong("a stage has not as many shares as devices")

    def check_shares(self, spec, stage, name):
        """A device is listed once for each of its parts, in each replica."""
        if max(self.shares[stage]) == 1 or not spec.get("sharded_dim"):
            return
        devices, said = self.plan["stages"][stage]["devices"], self.plan["outline"]["stages"][stage]
        expected = [device for member, share in enumerate(said["shares"]) for _ in range(share)
                    for device in devices[member::said["size"]]]
        if devices_of(spec) != expected:
            raise Wrong(f"{name}: on {devices_of(spec)}, with shares on {expected}")

    def stage_with(self, devices, name):
        if not devices or devices[0] not in self.stage_of_device:
            raise Wrong(f"{name}: on devices {devices}, which no stage has")
        return self.stage_of_device[devices[0]]

    # ---- the graph ----

    def constant_bytes(self, name):
        dtype, dims = self.facts.constants.get(name) or (None, None)
        return self.stored.get(name) if dtype is None else -(-math.prod(dims) * model_facts.BITS[dtype] // 8)

    def find_stored(self):
        """Bytes of the constants that are dequantised; None where the model's file does not say them."""
        self.stored, self.maker_of, self.users_of, known = {}, {}, {}, set(self.facts.constants)
        for node in self.facts.nodes:
            self.maker_of.update((name, node) for name in node.outputs)
            for name in node.inputs + node.captured:
                self.users_of.setdefault(name, []).append(node)
        for node in self.facts.nodes:
            given = [name for name in node.inputs if name]
            if not given and node.op != "Constant" or not known.issuperset(given):
                continue
            known.update(node.outputs)
            if self.facts.outputs.isdisjoint(node.outputs):
                if node.op == DEQUANTIZE:
                    sizes = [self.constant_bytes(name) for name in given]
                    self.stored[node.outputs[0]] = None if None in sizes else sum(sizes)
                elif node.op in SAME_ELEMENTS and given and given[0] in self.stored:
                    self.stored[node.outputs[0]] = self.stored[given[0]]
        return self.stored

    def is_joined(self, node):
        """Whether a node is a part of the operators around it."""
        if node.op == DEQUANTIZE:
            before = self.maker_of.get(node.inputs[0])
            return node.outputs[0] not in self.facts.outputs or \
                before is not None and before.op == QUANTIZE and self.is_joined(before)
        users = self.users_of.get(node.outputs[0], ())
        return node.op == QUANTIZE and node.outputs[0] not in self.facts.outputs and len(users) > 0 and all(
            user.op == DEQUANTIZE and user.inputs[0] == node.outputs[0] for user in users)

    def find_stages(self):
        """The stage of each node, by its name; the others' names end in their number."""
        by_name = {node.name: index for index, node in enumerate(self.facts.nodes) if node.name}
        self.stage_of, self.called = {}, {}
        for stage in self.plan["stages"]:
            for name in stage["nodes"]:
                index = by_name.get(name)
                if index is None:
                    number = re.search(r"_(\d+)$", name)
                    index = int(number[1]) if number else -1
                if not 0 <= index < len(self.facts.nodes) or index in self.stage_of:
                    raise Wrong(f"the plan has a node '{name}', the model has not, or it is there twice")
                self.stage_of[index], self.called[index] = stage["index"], name
        if len(self.stage_of) != len(self.facts.nodes):
            raise Wrong(f"the plan has {len(self.stage_of)} of {len(self.facts.nodes)} nodes")
        self.order = {stage["index"]: [] for stage in self.plan["stages"]}
        if self.facts.sizes is not None:  # in the plan's order, which is one in which they can run
            index_of = {name: index for index, name in self.called.items()}
            for stage in self.plan["stages"]:
                self.order[stage["index"]] = [index_of[name] for name in stage["nodes"]]
        else:
            for index in range(len(self.facts.nodes)):
                self.order[self.stage_of[index]].append(index)

    def runs(self, index):
        """Not at load: what it makes is no weight."""
        node = self.facts.nodes[index]
        return self.facts.sizes is not None or any(
            name in self.tensors and self.tensors[name].kind == "activation" for name in node.outputs)

    def find_roots(self):
        """Which tensor's memory each one is; what does not depend on requests is there before, as a weight."""
        self.root, self.weights, self.dequantized = {}, set(self.facts.constants), {}
        self.running = {index for index in range(len(self.facts.nodes)) if self.runs(index)}
        for index, node in enumerate(self.facts.nodes):
            if self.facts.sizes is not None:
                continue
            operands = [name for name in node.inputs + node.captured if name]
            if index not in self.running:
                if node.op not in KNOWN_BEFORE:
                    self.expect_known(node, operands)
                self.weights.update(node.outputs)
            is_view = (node.domain, node.op) in VIEWS and node.inputs and node.outputs
            is_view = is_view or node.op in (QUANTIZE, DEQUANTIZE) and index in self.running and self.is_joined(node)
            is_view = is_view or node.op == "Transpose" and self.is_read_turned(node)
            if node.op == DEQUANTIZE and node.outputs[0] in self.stored and index not in self.running:
                first = self.dequantized.setdefault(node.inputs[0], node.outputs[0])
                if first != node.outputs[0]:
                    self.root[node.outputs[0]] = first
            if is_view and (index in self.running or node.inputs[0] in self.weights):
                self.root[node.outputs[0]] = self.root.get(node.inputs[0], node.inputs[0])
                if node.inputs[0] in self.weights:
                    self.weights.add(node.outputs[0])

    def is_read_turned(self, node):
        name = node.outputs[0]
        if node.domain or name in self.facts.outputs or name not in self.tensors or not self.tensors[name].is_float:
            return False
        perm = node.perm or list(range(len(self.tensors[name].dims or ())))[::-1]
        if len(perm) < 2 or perm != [*range(len(perm) - 2), len(perm) - 1, len(perm) - 2]:
            return False
        users = [user for user in self.facts.nodes if name in user.inputs + user.captured]
        return users and all((user.domain, user.op) in PRODUCTS for user in users)

    def expect_known(self, node, operands):
        late = [name for name in operands if name not in self.weights]
        if late:
            raise Wrong(f"{node.name}: taken as computed at load, though '{late[0]}' comes with requests")

    def find_users(self):
        """Who uses each tensor, in order; and what each one is, against the model."""
        self.users = {}
        self.makers = {name: [index] for index in self.running for name in self.facts.nodes[index].outputs}
        for stage in self.order.values():
            for index in stage:
                if index in self.running:
                    node = self.facts.nodes[index]
                    for name in dict.fromkeys(node.inputs + node.captured):
                        self.users.setdefault(name, []).append(index)
        for tensor in self.tensors.values():
            kind = "weight" if tensor.name in self.weights else "input" if tensor.name in self.facts.inputs else "activation"
            if tensor.kind != kind:
                raise Wrong(f"{tensor.name}: said to be {tensor.kind}, not {kind}")
            self.check_devices(tensor)
            elements = math.prod(tensor.dims) if tensor.dims is not None else None
            if tensor.is_stored:
                bytes = self.stored[tensor.name]
                if bytes is not None and abs(tensor.bytes - bytes) > 1:
                    raise Wrong(f"{tensor.name}: {tensor.bytes} bytes, quantised it has {bytes}")
            elif elements is not None and tensor.bits and tensor.bytes != -(-elements * tensor.bits // 8):
                known = self.facts.constants.get(tensor.name, ())
                if known is not None:  # a sparse one has as many bytes as it says
                    raise Wrong(f"{tensor.name}: {tensor.bytes} bytes of {tensor.dims}")
            known = self.facts.constants.get(tensor.name)
            if known and known[1] != tensor.dims:
                raise Wrong(f"{tensor.name}: {tensor.dims}, in the model {known[1]}")

    def check_devices(self, tensor):
        """A tensor that is whole everywhere is on the devices of all stages that make or use it."""
        stages = {self.stage_of[index] for index in self.users.get(tensor.name, ())}
        stages.update(self.stage_of[index] for index in self.makers.get(tensor.name, ()))
        devices = {device for stage in stages for device in self.plan["stages"][stage]["devices"]}
        if not tensor.is_split and tensor.devices != devices:
            raise Wrong(f"{tensor.name}: on devices {sorted(tensor.devices)}, made and used on {sorted(devices)}")

    def root_of(self, name):
        return self.root.get(name, name)

    def bytes_of(self, name, layout=WHOLE, share=1):
        if self.facts.sizes is not None:
            return self.facts.sizes[name]
        if name not in self.tensors:
            raise Wrong(f"{name}: used, but not in the plan")
        return self.tensors[name].local_bytes(layout, share)

    def layout(self, index, name, is_captured=False):
        tensor = self.tensors.get(name)
        return WHOLE if tensor is None or is_captured else tensor.layout(self.stage_of[index], self.called[index])

    # ---- a stage ----

    def borders(self):
        """Per stage, of a device with each of its shares, the bytes of what crosses its border, and the sends themselves:
        (tensor, from, to)."""
        crossing, sends = [dict.fromkeys(shares, 0) for shares in self.shares], set()
        for index in sorted(self.running):
            node, source = self.facts.nodes[index], self.stage_of[index]
            for name in node.outputs:
                if not name or self.root_of(name) in self.weights:
                    continue
                for user in self.users.get(name, ()):
                    target = self.stage_of[user]
                    if target == source or (name, source, target) in sends:
                        continue
                    if target < source:
                        raise Wrong(f"{name}: goes back from stage {source} to {target}")
                    sends.add((name, source, target))
                    is_operand = name in self.facts.nodes[user].inputs
                    for share in crossing[source]:
                        crossing[source][share] += self.bytes_of(name, self.layout(index, name), share)
                    for share in crossing[target]:
                        crossing[target][share] += self.bytes_of(name, self.layout(user, name, not is_operand), share)
        return crossing, sends

    def count_stage(self, stage, share=1):
        return Stage(self, stage, share).count()

    def kept_bytes(self, stage, share=1):
        """Keys and values that the plan says its nodes keep: all of them, in as many parts as there are at most."""
        kept, block = 0, math.prod(self.mesh[stage])
        parts = self.plan.get("micro_batches", {"count": 1})["count"]
        if parts > 1: # states of the other parts: of which outputs, the plan does not say
            first = self.plan["stages"][stage]["devices"][0]
            kept = next(device["memory"]["cache_bytes"] for device in self.plan["devices"] if device["id"] == first)
            whole = sum(self.tensors[name].bytes for name in self.facts.outputs if name in self.tensors)
            if kept > (parts - 1) * whole * (1 + 1e-9):
                raise Wrong(f"stage {stage} keeps {kept} bytes of states of outputs of {whole} bytes")
        for item in self.plan.get("caches", ()):
            if item["stage"] == stage:
                if not item["bytes"] / block <= item["device_bytes"] * (1 + 1e-9) <= item["bytes"] * (1 + 2e-9):
                    raise Wrong(f"{item['node']}: {item['device_bytes']} of {item['bytes']} bytes on {block} devices")
                is_cut = item["device_bytes"] < item["bytes"] and max(self.shares[stage]) > 1
                kept += item["bytes"] * share / block if is_cut else item["device_bytes"]
        return kept

    # ---- all of them ----

    def originals(self):
        """Of each device of a copy the one that it copies: no device has two places, and equal devices are copied."""
        copies = self.plan.get("copies")
        if copies is None:
            return {}
        first = [device for stage in self.plan["stages"] for device in stage["devices"]]
        names = {device["id"]: device["name"] for device in self.plan["devices"]}
        listed = [device for copy in copies["devices"] for device in copy]
        if copies["count"] != len(copies["devices"]) or copies["devices"][0] != first:
            raise Wrong("the first copy is not that of the stages")
        if len(set(listed)) != len(listed) or any(len(copy) != len(first) for copy in copies["devices"]):
            raise Wrong("copies share devices, or have not as many")
        original = {device: of for copy in copies["devices"] for device, of in zip(copy, first)}
        if any(names[device] != names[of] for device, of in original.items()):
            raise Wrong("a copy has other devices")
        return original

    def check(self):
        if any("stages" in device for device in self.plan["devices"]):
            return recount_shared.Floor(self).check(Wrong, check_device)
        crossing, sends = self.borders()
        told = [(item["tensor"], item["from_stage"], item["to_stage"]) for item in self.plan["collectives"]
                if item["kind"] == "send"]
        if len(told) != len(sends) or self.facts.sizes is None and set(told) != sends:
            raise Wrong(f"sends {sorted(set(told) ^ sends)[:3]} are in the plan or follow from it, not both")
        stages = []
        for stage in range(len(self.plan["stages"])):
            by_share = {share: self.count_stage(stage, share) for share in set(self.shares[stage])}
            stages.append({})
            for device, share in zip(self.plan["stages"][stage]["devices"], self.shares[stage]):
                weights, peak, is_exact = by_share[share]
                parts = (weights, self.kept_bytes(stage, share), peak, 2 * crossing[stage][share])
                stages[-1][device] = (parts, is_exact)
        original = self.originals()
        for device in self.plan["devices"]:
            of = original.get(device["id"], device["id"])
            stage = self.stage_of_device.get(of)
            if device["stage"] != stage:
                raise Wrong(f"device {device['id']}: in stage {device['stage']}, not {stage}")
            if "routes" not in self.plan:  # else it has what its routes say: check_routes
                check_device(device, *(stages[stage][of] if stage is not None else ((0, 0, 0, 0), True)))
        return all(is_exact for stage in stages for _, is_exact in stage.values())


class Route(Recount):
    """One of several routes: its devices are stages of whole operators, of which the plan's tensors say nothing."""

    def __init__(self, plan, facts, path):
        nodes = {device["id"]: device["nodes"] for device in plan["devices"]}
        super().__init__({**plan, "stages": [{"index": index, "devices": [device], "mesh": [], "nodes": nodes[device]}
                                             for index, device in enumerate(path["devices"])]}, facts)

    def stage_with(self, devices, name):
        return 0

    def check_devices(self, tensor):
        pass


def check_routes(plan, facts):
    """Each device has the memory of the route on which it needs most. Whether all was counted."""
    counted = {}
    for path in plan["routes"]["paths"]:
        route = Route(plan, facts, path)
        crossing, _ = route.borders()
        for stage, device in enumerate(path["devices"]):
            weights, peak, is_exact = route.count_stage(stage)
            parts = (weights, route.kept_bytes(stage), peak, 2 * crossing[stage][1])
            counted[device] = max(counted.get(device, ((0, 0, 0, 0), True)), (parts, is_exact), key=lambda one: sum(one[0]))
    for device in plan["devices"]:
        check_device(device, *counted.get(device["id"], ((0, 0, 0, 0), True)))
    return all(is_exact for _, is_exact in counted.values())


class Stage:
    """One device of a stage in the course of a request."""

    def __init__(self, recount, stage, share):
        self.recount, self.stage, self.share = recount, stage, share
        self.nodes = [index for index in recount.order[stage] if index in recount.running]
        self.held = {}  # tensor -> [(layout, buffer)], first as it was made or came
        self.buffers = []  # [bytes, the last node that uses it, whether it stays to the end]
        self.weights = {}
        self.births, self.start = [0] * len(self.nodes), 0
        items = recount.plan["stages"][stage].get("gathered", {"tensors": ()})["tensors"]
        self.gathered = {item["name"]: item for item in items}

    def new(self, name, layout, at):
        self.buffers.append([self.recount.bytes_of(name, layout, self.share), at, False])
        self.held.setdefault(name, []).append((layout, len(self.buffers) - 1))
        return len(self.buffers) - 1

    def use(self, name, layout, at):
        """The buffer in which node `at` of the stage finds it; None for a weight."""
        recount, root = self.recount, self.recount.root_of(name)
        if root in recount.weights:
            whole = recount.bytes_of(name)
            self.weights[root if layout == WHOLE else name, layout] = \
                recount.bytes_of(name, layout, self.share) / self.parts_of(name) if whole else 0
            return None
        there = self.held.get(name, [])
        buffer = next((buffer for have, buffer in there if have == layout), None)
        if buffer is None and (not there or name in recount.facts.inputs):
            if root != name and root in self.held:
                buffer = self.held[root][0][1]
                self.held.setdefault(name, []).append((layout, buffer))
            else:
                buffer = self.new(name, layout, at)
                if root != name:
                    self.held[root] = [(layout, buffer)]
                if name in recount.facts.inputs:
                    self.start += self.buffers[buffer][0]
                else:
                    self.births[at] += self.buffers[buffer][0]
        elif buffer is None:
            source = next((item for have, item in there if is_cut_of(layout, have)), there[0][1])
            self.buffers[source][1] = at
            buffer = self.new(name, layout, at)
            self.births[at] += self.buffers[buffer][0]
        self.buffers[buffer][1] = at
        self.buffers[buffer][2] |= name in recount.facts.inputs
        return buffer

    def parts_of(self, name):
        return self.gathered[name]["shards"] if name in self.gathered else 1

    def buffers_of(self, index):
        """What a node has for a weight that it gathers: twice what it reads."""
        node = self.recount.facts.nodes[index]
        names = [name for name in node.inputs
                 if name in self.gathered and self.gathered[name]["node"] == self.recount.called[index]]
        return 2 * sum(self.recount.bytes_of(name, self.recount.layout(index, name), self.share) for name in names)

    def make(self, name, layout, at, first):
        recount = self.recount
        if recount.root_of(name) in recount.weights:
            return
        if name in recount.root and first is not None:
            buffer = first
            self.held.setdefault(name, []).append((layout, buffer))
        else:
            buffer = self.new(name, layout, at)
            self.births[at] += self.buffers[buffer][0]
        if name in recount.facts.outputs or any(recount.stage_of[user] != self.stage
                                                for user in recount.users.get(name, ())):
            self.buffers[buffer][2] = True

    def count(self):
        recount, inside = self.recount, 0
        for at, index in enumerate(self.nodes):
            node, first = recount.facts.nodes[index], None
            inside += node.weights
            for position, name in enumerate(node.inputs):
                if name:
                    buffer = self.use(name, recount.layout(index, name), at)
                    first = buffer if position == 0 else first
            for name in node.captured:
                if name not in node.inputs:
                    self.use(name, WHOLE, at)
            for name in node.outputs:
                if name:
                    self.make(name, recount.layout(index, name), at, first)
        deaths = [0] * len(self.nodes)
        for size, last, stays in self.buffers:
            if not stays:
                deaths[last] += size
        live = peak = self.start
        for at, index in enumerate(self.nodes):
            live += self.births[at]
            peak = max(peak, live + recount.facts.nodes[index].workspace + self.buffers_of(index))
            live -= deaths[at]
        is_exact = not any(recount.facts.nodes[index].is_opaque for index in self.nodes)
        return inside + sum(self.weights.values()), peak, is_exact


def check_device(device, counted, is_exact):
    memory, name = {"cache_bytes": 0, **device["memory"]}, f"device {device['id']}"
    # Of the weights those that come from the host are not there, but two buffers for them.
    counted = (counted[0] - memory.get("streamed_bytes", 0) + memory.get("stream_buffer_bytes", 0), *counted[1:])
    total = sum(counted)
    if total > memory["capacity_bytes"]:
        raise Wrong(f"{name}: {total} bytes by parts {counted} do not fit in {memory['capacity_bytes']}")
    if memory["total_bytes"] > memory["capacity_bytes"]:
        raise Wrong(f"{name}: {memory['total_bytes']} of {memory['capacity_bytes']} bytes")
    for member, value in (*zip(COUNTED, counted), ("total_bytes", sum(memory[part] for part in COUNTED))):
        slack = 1e-9 * max(value, 1)
        if memory[member] < value - slack or (is_exact or member == "total_bytes") and memory[member] > value + slack:
            raise Wrong(f"{name}: {member} is {memory[member]}, counted {value}")


def check(plan, model):
    """Raises Wrong unless the plan's memory is right and no part of its search failed. `model` are the bytes of its file.
    Whether all was counted."""
    for note in plan.get("diagnostics", ()):
        if note["code"] == "SEARCH_FAILED":
            raise Wrong(note["message"])
    facts = model_facts.read(model)
    is_exact = Recount(plan, facts).check()
    return ("routes" not in plan or check_routes(plan, facts)) and is_exact


def mapped(path):
    """The bytes of a file, which may be large."""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.path.getsize(path) > 0 else b""


# ---- what the command line makes ----

ALONE = {"--help", "--json", "--first-fit", "--no-simulation", "-h"}  # options without a value


class Command:
    """A call of `shardplan plan` or `replan` with these arguments (the command's name first), before it is made: the model may be
    changed by it. `arguments` is what to call instead, so that there is a plan as JSON."""

    def __init__(self, arguments, stdin=None, cwd=None):
        self.arguments, self.model, self.file = list(arguments), None, None
        if self.arguments[:1] not in (["plan"], ["replan"]):
            return
        names, given, rest = [], {}, iter(self.arguments[1:])
        for argument in rest:
            option, _, value = argument.partition("=") if isinstance(argument, str) else (argument, "", "")
            if argument == "-" or not isinstance(argument, str) or not argument.startswith("-"):
                names.append(argument)
            elif option in ALONE:
                given[option] = True
            else:
                given[option] = value or next(rest, "")
        if len(names) != 1 or "--help" in given or "-h" in given:
            return
        path = os.path.join(os.fsencode(cwd or "."), os.fsencode(names[0]))
        if names[0] == "-":
            self.model = stdin if isinstance(stdin, bytes) else None
        elif os.path.isfile(path):
            self.model = mapped(path)
        self.is_json = "--json" in given or given.get("--plan") == "-"
        if self.model is None or self.is_json:
            return
        plan = given.get("--plan") or ("--emit" in given and os.path.join(given["--emit"], "plan.json"))
        if plan:
            self.file = os.path.join(cwd or ".", plan)
        else:
            handle, self.file = tempfile.mkstemp(suffix=".json")
            os.close(handle)
            self.arguments += ["--plan", self.file]
            self.owns_file = True

    owns_file = False

    def finish(self, status, stdout):
        """Checks what came of it; raises Wrong. Whether there was a plan to check."""
        try:
            if self.model is None or status != 0:
                return False
            if self.is_json:
                return bool(check_all(json.loads(stdout), self.model))
            with open(self.file, encoding="utf-8") as file:
                return bool(check_all(json.load(file), self.model))
        finally:
            if self.owns_file:
                os.remove(self.file)


def plans_in(answer):
    """The plans in an answer."""
    if isinstance(answer, dict):
        if {"stages", "devices", "tensors", "collectives"} <= set(answer):
            yield answer
        else:
            answer = list(answer.values())
    if isinstance(answer, list):
        for part in answer:
            yield from plans_in(part)


def check_all(answer, model):
    """Each plan in an answer; how many there were."""
    return sum(check(plan, model) is not None for plan in plans_in(answer))


def main(arguments):
    failed = False
    for plan, model in zip(arguments[::2], arguments[1::2]):
        try:
            with open(plan, encoding="utf-8") as said:
                is_exact = check(json.load(said), mapped(model))
            print(f"ok memory of {plan}{'' if is_exact else ', at least'}")
        except Wrong as wrong:
            failed = True
            print(f"not ok memory of {plan}\n  {wrong}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
