"""The part of recount.py for plans whose devices have several stages (`--placement any`): runs the schedule of
core/cost/evaluate.h, period after period, and counts what each device holds. No code of the library's is used."""

import collections


class Floor:
    """The stages on their devices. `recount` knows the graph: recount.Recount."""

    def __init__(self, recount):
        self.recount, self.plan = recount, recount.plan
        self.device_of = [stage["devices"][0] for stage in self.plan["stages"]]
        self.stages_on = collections.defaultdict(list)
        for stage, device in enumerate(self.device_of):
            self.stages_on[device].append(stage)
        self.users = {name: [(recount.stage_of[user], user) for user in users]
                      for name, users in recount.users.items()}
        self.sends = list(self.find_sends())
        self.period = self.find_periods()

    def uses(self, name, device):
        return [stage for stage, _ in self.users.get(name, ()) if self.device_of[stage] == device]

    def find_sends(self):
        """(tensor, from, to): once to each other device, to its first stage that uses it."""
        for index in sorted(self.recount.running):
            source = self.recount.stage_of[index]
            for name in self.recount.facts.nodes[index].outputs:
                for device in self.stages_on:
                    stages = self.uses(name, device)
                    if stages and min(stages) < source:
                        yield name, source, min(stages)  # back: check() refuses it
                    elif stages and device != self.device_of[source]:
                        yield name, source, min(stages)

    def find_periods(self):
        period = [0] * len(self.device_of)
        for stage, device in enumerate(self.device_of):
            before = [period[other] for other in self.stages_on[device] if other < stage]
            came = [period[source] + 2 for _, source, target in self.sends if target == stage]
            period[stage] = max(before + came + [0])
        return period

    def is_needed(self, name, stage, position):
        """After the node at a position of the stage: by a later one there, or until a stage that makes it has sent it."""
        device, order = self.device_of[stage], self.recount.order[stage]
        users = self.users.get(name, ())
        later = [user for at, user in users if self.device_of[at] == device and
                 (at > stage or at == stage and order.index(user) > position)]
        is_made = any(self.recount.stage_of[maker] == stage for maker in self.recount.makers.get(name, ()))
        leaves = name in self.recount.facts.outputs or any(self.device_of[at] != device for at, _ in users)
        return bool(later) or is_made and leaves

    def peak(self, device):
        """The most bytes of activations at one time."""
        here, peak, size = set(), 0, self.recount.facts.sizes
        for now in range(max(self.period) + 3):
            for stage in self.stages_on[device]:
                request = now - self.period[stage]
                if request < 0:
                    continue
                peak = max(peak, sum(size[name] for name, _ in here))
                for position, index in enumerate(self.recount.order[stage]):
                    node = self.recount.facts.nodes[index]
                    operands = {(name, request) for name in node.inputs + node.outputs}
                    here |= operands
                    peak = max(peak, sum(size[name] for name, _ in here) + node.workspace)
                    here -= {(name, _) for name, _ in operands if not self.is_needed(name, stage, position)}
                here = {(name, other) for name, other in here
                        if other != request or max(self.uses(name, device), default=-1) > stage}
        return peak

    def check(self, wrong, check_device):
        told = [(item["from_stage"], item["to_stage"]) for item in self.plan["collectives"] if item["kind"] == "send"]
        if sorted(told) != sorted((source, target) for _, source, target in self.sends):
            raise wrong("the plan's sends do not follow from its stages")
        if any(target < source for _, source, target in self.sends):
            raise wrong("a tensor is needed before it is made")
        for device in self.plan["devices"]:
            stages = self.stages_on.get(device["id"], [])
            if device["stages"] != stages or device["stage"] != (stages[0] if stages else None):
                raise wrong(f"device {device['id']}: stages {device['stages']}, not {stages}")
            weights = sum(self.recount.facts.nodes[index].weights for stage in stages
                          for index in self.recount.order[stage])
            crossing = sum(self.recount.facts.sizes[name] for name, source, target in self.sends
                           for end in (source, target) if self.device_of[end] == device["id"])
            check_device(device, (weights, 0, self.peak(device["id"]) if stages else 0, 2 * crossing), True)
        return True
