"""What a manifest says (core/realize/realize.h has all members): who runs which models, and what goes where."""
import hashlib
import json
import os

import numpy

VERSION = 1
FINGERPRINT = "shardplan.manifest"  # in the metadata of a model


class Manifest:
    def __init__(self, folder):
        with open(os.path.join(folder, "manifest.json"), "rb") as file:
            data = file.read()
        said = json.loads(data)
        if said.get("version") != VERSION:
            raise ValueError(f"The manifest has version {said.get('version', 'none')}, and this program reads version "
                             f"{VERSION}: write the models again with the shardplan that this program came with.")
        worlds = [device["world"] for device in said["devices"]]
        if len(set(worlds)) < len(worlds):
            raise ValueError(f"These models exchange by collectives ({said['target']}), which this program's runtime does "
                             "not have: write them with 'shardplan export PLAN.json --model MODEL --format sessions -o DIR'.")
        if "micro_batches" in said:
            raise ValueError(f"These models run {said['micro_batches']['count']} times for a request, once for each micro-batch, "
                             "which this program does not do: plan without --micro-batches.")
        self.folder, self.digest = folder, hashlib.sha256(data).hexdigest()
        self.devices = {device["id"]: device for device in said["devices"]}
        self.states = {state["present"]: state["past"] for state in said["states"]}
        self.inputs, self.estimate = said["inputs"], said.get("estimate", {})
        self.copies = said.get("copies") or [list(self.devices)]
        self.routes = said.get("routes") or [None]

    def on(self, route):
        """The devices of a route."""
        taken = self.routes[route]
        return [device for key, device in self.devices.items() if taken is None or key in taken["devices"]]

    def sources(self, route):
        """Device -> (part, input) -> where it comes from: {tensor, box} of the model's, or {device, part, output}."""
        moved = {(each["device"], each["input"]): each for each in (self.routes[route] or {}).get("inputs", ())}
        result = {}
        for device in self.on(route):
            own = result[device["id"]] = {}
            for part in device["parts"]:
                for port in part["inputs"]:
                    other = moved.get((device["id"], port["name"])) if port["from"] == "device" else None
                    own[part["part"], port["name"]] = port if other is None else {
                        "device": other["from"], "part": self.part_of(other["from"], other["output"]), "output": other["output"]}
        return result

    def part_of(self, device, output):
        return next(part["part"] for part in self.devices[device]["parts"]
                    if any(port["name"] == output for port in part["outputs"]))

    def parts(self, route, device):
        """What a device does: its parts in their order. An input has the key that it is waited for with; an output the
        devices that it goes to. What a step of a loop hands to the next has the name of the state, `past`, in both."""
        sources, takers, pasts = self.sources(route), {}, set(self.states.values())
        for taker, own in sources.items():
            for source in own.values():
                if "device" in source:
                    takers.setdefault(made_key(**source), set()).add(taker)
        result = []
        for part in sorted(self.devices[device]["parts"] if device in sources else (), key=lambda part: part["part"]):
            number = part["part"]
            inputs = [{"name": name, "key": made_key(**source) if "device" in source else fed_key(number, name),
                       "past": source["tensor"] if source.get("tensor") in pasts else None, "box": source.get("box")}
                      for (at, name), source in sources[device].items() if at == number]
            outputs = []
            for port in part["outputs"]:
                key = made_key(device, number, port["name"])
                if port["to"] != "nobody":
                    outputs.append({"name": port["name"], "key": key, "is_result": port["to"] == "output",
                                    "past": self.states.get(port.get("tensor")), "box": port.get("box"),
                                    "to": sorted(takers.get(key, ()))})
            result.append({"model": part["model"], "inputs": inputs, "outputs": outputs})
        return result

    def feeds(self, route):
        """What devices need of the model's inputs: (device, key, tensor, box)."""
        return [(device, fed_key(*place), source["tensor"], source["box"])
                for device, own in self.sources(route).items() for place, source in own.items() if "tensor" in source]

    def results(self, route):
        """Who gives what of the model's outputs: (key, tensor, box); where several devices have a box, the first."""
        seen = {}
        for device in self.on(route):
            for part in device["parts"]:
                for port in part["outputs"]:
                    if port["to"] == "output":
                        seen.setdefault(json.dumps([port["tensor"], port["box"]]),
                                        (made_key(device["id"], part["part"], port["name"]), port["tensor"], port["box"]))
        return list(seen.values())


def made_key(device, part, output, **_):
    return f"{device} {part} {output}"


def fed_key(part, name):
    return f"input {part} {name}"


def check_states(parts):
    """Whether the device makes all that it takes of the states, from where on it takes it: else a loop cannot be run."""
    made = {each["past"]: starts_of(each["box"]) for part in parts for each in part["outputs"] if each["past"]}
    for part in parts:
        for each in part["inputs"]:
            if each["past"] and made.get(each["past"], "") != starts_of(each["box"]):
                raise ValueError(f"The plan does not keep the state '{each['past']}' where it is made: no loop can be run.")


def starts_of(box):
    return None if box is None else [[start for start, _ in ranges_of(axis)] for axis in box]


# ---- boxes: for each axis a range of indices or several; null is all there is, and a limit of null the end ----


def ranges_of(axis):
    return axis if isinstance(axis[0], list) else [axis]


def indices(box, shape):
    return numpy.ix_(*(numpy.concatenate([numpy.arange(start, size if limit is None else limit)
                                          for start, limit in ranges_of(axis)]) for axis, size in zip(box, shape)))


def take_box(array, box):
    return array if box is None or array.ndim == 0 else array[indices(box, array.shape)]


def join_boxes(pieces):
    """A tensor of [(array, box)]."""
    first, only = pieces[0]
    if only is None or first.ndim == 0:
        return first
    ends = [[ranges_of(axis)[-1] for axis in box] for _, box in pieces]
    shape = [max(start + array.shape[axis] if limit is None else limit
                 for (array, _), end in zip(pieces, ends) for start, limit in [end[axis]]) for axis in range(first.ndim)]
    whole, there = numpy.empty(shape, first.dtype), 0
    for array, box in pieces:
        whole[indices(box, shape)] = array
        there += array.size
    if there < whole.size:
        raise ValueError("The devices do not give all of an output.")
    return whole
