#!/usr/bin/env python3
"""Where we reshard, against Shardy's published explicit reshards; TAP on standard output.

A case gives final shardings that contradict each other, and what Shardy inserts: reshards, and all-reduces of partial
results. The same shardings are set on the case's ONNX model (shardy_model.py) and completed; and on a second model that has
Shardy's reshards as nodes of their own, so that both are priced by the same rules. The outcome of a case is

    same      every operand arrives at every node as Shardy has it, so the same reshards stand at the same places
    equal     others, and all devices send as many bytes
    cheaper   others, and they send less
    dearer    others, and they send more: a failure

Of each all-reduce the devices that take part are compared, too, and where Shardy inserts no reshard, there must be none.
Failures that have a reason are listed with it, and must be found.
"""
import collections
import json
import math
import os
import re
import sys
import tempfile

from shardy_completions import SHARED, run
from shardy_model import Model, Unsayable, load, results_of, unread

INSERTED = ("sdy.reshard", "sdy.all_reduce")
# Cases that come out otherwise than they should, and why.
DIFFERENT = {
    "dot_incompatible_in_out_mismatch_same_axis_on_different_factors_lhs_non_contracting_dim_is_sharded_smaller_local_"
    "contracting_dim": "one all-to-all sends less, but two steps have fewer messages, and these tensors are tiny",
    "custom_call_topk_of_2d": "Shardy moves the cut to the rows; parts send their winners here, and places have 64 bits",
    "reduce_multiple_results": "an axis of 2 in 4 parts is gathered here, so nothing is left to be reduced",
    "negate_same_axes_different_meshes": "the meshes cut 210 elements in 3 and in 2 parts, and Shardy reshards nothing",
}


class Theirs:
    """The case with what Shardy inserts."""

    def __init__(self, case):
        self.case, self.left, self.ops, self.names = case, list(case["ops"]), [], {}
        self.shapes = {f"%arg{i}": [one["shape"], one["dtype"]] for i, one in enumerate(case["args"])}
        self.returned, self.reshards, self.reduced, self.counted = None, 0, [], []
        for entry in case["expect"]:
            self.take(entry)
        while self.left:
            self.emit(self.left.pop(0))

    def take(self, entry):
        kind = entry.get("op") or entry.get("absent")
        if "absent" in entry or entry.get("count") is not None:  # of all, or at one operation
            self.counted.append((kind, 0 if "absent" in entry else entry["count"], entry.get("at")))
        if "absent" in entry:
            return
        if "return" in entry:
            self.returned = [self.named(name) for name in entry["return"]]
        elif entry["op"] in INSERTED and not (entry["op"] == "sdy.reshard" and self.is_own(entry)):
            self.insert(entry)
        else:
            self.match(entry)

    def is_own(self, entry):
        """Whether the function has the reshard itself: its next operation is one of the same sharding."""
        return any(op["op"] == "sdy.reshard" and op.get("sharding") == entry.get("sharding") for op in self.left)

    def named(self, name):
        """A value of the new function. `%2` is the printed name of its third result."""
        name = name.replace("$arg", "%arg")
        if name in self.names:
            return self.names[name]
        place = re.fullmatch(r"%(\d+)", name)
        while place and self.left and int(place.group(1)) >= len(self.ops):
            self.emit(self.left.pop(0))
        return self.ops[int(place.group(1))]["id"] if place and int(place.group(1)) < len(self.ops) else name

    def emit(self, op):
        self.ops.append(op)
        # The record of a sort has the types of its comparator.
        types = [self.shapes[op["operands"][0]]] if op["op"] == "stablehlo.sort" else op["result_types"] or []
        self.shapes.update(zip(results_of(op, max(len(types), 1)), types))

    def insert(self, entry):
        source = self.named(entry["operands"][0])
        if entry["op"] == "sdy.all_reduce":
            self.reduced.append((source, entry.get("axes"), entry.get("sharding")))
            self.names[entry.get("id")] = source
            return
        if source not in self.shapes:
            raise Unsayable(f"the type of {source} is not recorded")
        own = f"%r{self.reshards}"
        self.reshards += 1
        self.names[entry.get("id")] = own
        self.shapes[own] = self.shapes[source]
        self.ops.append({"id": own, "op": "sdy.reshard", "operands": [source], "attrs": "",
                         "result_types": [self.shapes[source]], "sharding": entry.get("sharding")})

    def match(self, entry):
        """The next operation of this kind, with Shardy's operands and shardings."""
        operands = [self.named(name) for name in entry["operands"]]
        while self.left and self.left[0]["op"] != entry["op"]:
            self.emit(self.left.pop(0))
        if not self.left:
            raise Unsayable(f"what Shardy makes of it: {entry['op']}")
        own = self.left.pop(0)
        given = list(own["operands"])
        for i, name in enumerate(operands[:len(given)]):
            given[i] = name if name in self.shapes else given[i]  # constants have names of their own there
        self.emit({"id": own["id"], "op": own["op"], "operands": given, "attrs": own["attrs"],
                   "result_types": own["result_types"], "sharding": entry.get("sharding") or own.get("sharding"),
                   "rule": own.get("rule")})
        base = entry.get("id", "").split(":")[0]
        for i, name in enumerate(results_of(own, len(own["result_types"] or [0]))):
            self.names[base if ":" not in own["id"] else f"{base}#{i}"] = name

    def count(self, kind, at):
        """How many operations of a kind there are, or how many give an operand of one."""
        reduced = {source for source, _, _ in self.reduced}
        users = [op for op in self.ops if at in (None, op["id"])]
        given = {name for op in users for name in op["operands"]} | (set(self.returned or []) if at == "return" else set())
        if kind == "sdy.all_reduce":
            return len(reduced if at is None else reduced & given)
        return sum(op["op"] == kind and (at is None or op["id"] in given) for op in self.ops)

    def model(self):
        return Model({"args": self.case["args"], "results": self.case["results"], "meshes": self.case["meshes"],
                      "ops": self.ops}, self.returned)


class Completed:
    """What `infer` makes of a model."""

    def __init__(self, model, folder):
        options, _ = model.options()
        source = os.path.join(folder, "model.json")
        with open(source, "w", encoding="utf-8") as file:
            file.write(model.text())
        done = run("infer", source, "--mode", "propagate" if len(model.meshes) == 1 else "forward", *options,
                   "-o", os.path.join(folder, "out.onnx"), "--json")
        if done.returncode != 0:
            raise RuntimeError(f"infer ends with {done.returncode}: {done.stderr.strip()[:300]}")
        answer = json.loads(done.stdout)
        self.model, self.communication = model, answer["communication"]
        self.bytes = sum(one["total_bytes"] for one in self.communication)
        self.arrives = {}  # (operation, node of it, operand): the sharding
        seen = collections.Counter()
        for node in model.nodes:
            own = model.of_op.get(node["name"], "return")
            for spec in answer["specs"]:
                if spec["node"].startswith(f"'{node['name']}' ") and spec["operand"].startswith("input"):
                    what = dict(spec["spec"]["onnx"])
                    what.pop("tensorName", None)
                    self.arrives[own, seen[own], spec["operand"]] = what
            seen[own] += 1

    def of_kind(self, *kinds, at=None):
        nodes = {f"'{node}' " for node, op in self.model.of_op.items() if op == at}
        return [one for one in self.communication if one["kind"] in kinds and
                (at is None or any(one["node"].startswith(node) for node in nodes))]


def check_reductions(theirs, completed):
    """Each of Shardy's all-reduces is one of ours, among as many devices."""
    problems = []
    for source, axes, sharding in theirs.reduced:
        name = completed.model.values[source][0]
        found = [one for one in completed.of_kind("reduce") if one["tensor"] == name]
        sizes = dict(size for mesh in completed.model.meshes for size in completed.model.mesh(mesh)[0])
        group = math.prod(int(part or sizes[axis]) for axis, part in re.findall(r'"(\w+)"(?::\(\d+\)(\d+))?', axes or ""))
        if any(one["mesh"] not in completed.model.meshes or not one["dims"] for one in sharding or []):
            problems.append(f"the sharding of {name} is on another mesh")
        if not found:
            problems.append(f"{name} is not reduced")
        elif axes and found[0]["group_size"] not in (0, group):
            problems.append(f"{name} is reduced among {found[0]['group_size']} devices, not {group}")
    return ", ".join(problems)


def check_counts(theirs, ours):
    """What is counted is so in Shardy's function; and where that has none, ours has none."""
    for kind, count, at in theirs.counted:
        if kind in INSERTED and theirs.count(kind, at) != count:
            return f"{theirs.count(kind, at)} {kind} are recorded, not {count}"
        moves = ours.of_kind("reshard", "gather", at=at)
        if kind == "sdy.reshard" and count == 0 and moves:
            return f"{len(moves)} reshards where Shardy has none"
    return None


def compare(case, folder):
    """The outcome, and what is wrong or None."""
    theirs = Theirs(case)
    ours, expected = Completed(Model(case), folder), Completed(theirs.model(), folder)
    wrong = check_counts(theirs, ours) or check_reductions(theirs, expected)
    moves = len(ours.of_kind("reshard", "gather"))
    is_same = all(expected.arrives.get(key) == what for key, what in ours.arrives.items())
    outcome = "same" if is_same and ours.bytes <= expected.bytes else \
        "equal" if ours.bytes == expected.bytes else "cheaper" if ours.bytes < expected.bytes else "dearer"
    detail = f"{ours.bytes:.0f} and {expected.bytes:.0f} bytes, {moves} and {theirs.reshards} reshards"
    if outcome == "dearer":
        wrong = wrong or f"{detail}: {[(one['node'], one['tensor'], one['steps']) for one in ours.communication]}"
    reason = DIFFERENT.get(case["name"])
    if reason is not None:
        detail, wrong = f"{detail} ({reason})", None if wrong else "no longer differs: take it from the list"
    return outcome, detail, wrong


def main():
    path = os.path.join(SHARED, "sdy_explicit_reshard_cases.json")
    if not os.path.exists(path):
        print(f"1..0 # SKIP {path} is not there")
        return 0
    table, failed, only = collections.Counter(), 0, sys.argv[1:]
    cases = [case for case in load(path) if not only or case["name"] in only]
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(cases, 1):
            name = f"{number} {case['name']}"
            case.get("src")
            try:
                outcome, detail, wrong = compare(case, folder)
                wrong = wrong or ", ".join(f"{path} is not read" for path in unread(case))
            except Unsayable as why:
                table["not said"] += 1
                print(f"ok {name} # SKIP ONNX cannot say it: {why}")
                continue
            except (RuntimeError, KeyError, TypeError, AttributeError) as problem:
                outcome, detail, wrong = "failed", "", f"{type(problem).__name__}: {problem}"
            table[outcome] += 1
            failed += bool(wrong)
            print(f"not ok {name}: {wrong}" if wrong else f"ok {name}: {outcome}, {detail}")
    counts = ", ".join(f"{table[key]} {key}" for key in ("same", "equal", "cheaper", "dearer", "not said"))
    print(f"1..{len(cases)}\n# shardy_reshards: of {len(cases)} cases {counts}; {failed} failed")
    return failed > 0 or not cases


if __name__ == "__main__":
    sys.exit(main())
