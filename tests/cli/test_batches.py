#!/usr/bin/env python3
"""`"batch": "best"` of a workload: the answer beside every batch, asked for one by one."""

import itertools
import json
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402

sys.path.insert(0, os.path.join(test_cli.TOP, "tests/api"))

from contract import Contract  # noqa: E402

THOROUGH = bool(os.environ.get("SHARDPLAN_TEST_THOROUGH"))
WIDTHS = (16, 48, 64)


def chain(chance, symbol="batch"):
    """Up to six nodes over vectors: products, and what follows each element by itself, or a vector."""
    width, nodes, weights, last = chance.choice(WIDTHS), [], [], "x"
    inputs = [{"name": "x", "dtype": "float32", "shape": [symbol, width]}]
    for i in range(chance.randint(1, 6)):
        kind, name = chance.choice(("MatMul", "MatMul", "Relu", "Softmax", "Add")), f"t{i}"
        taken = [last]
        if kind == "MatMul":
            after = chance.choice(WIDTHS)
            weights.append({"name": f"w{i}", "dtype": "float32", "shape": [width, after]})
            taken.append(f"w{i}")
            width = after
        elif kind == "Add":
            weights.append({"name": f"b{i}", "dtype": "float32", "shape": [width]})
            taken.append(f"b{i}")
        nodes.append({"name": f"n{i}", "op": kind, "inputs": taken, "outputs": [name]})
        last = name
    return {"opset": 21, "inputs": inputs, "initializers": weights, "nodes": nodes, "outputs": [last]}


def weight_bytes(model):
    total = 0
    for weight in model["initializers"]:
        elements = 1
        for extent in weight["shape"]:
            elements *= extent
        total += 4 * elements
    return total


class Batches(test_cli.Case):
    def plan(self, model, cluster, workload, *options, status=0):
        done = test_cli.run("plan", self.file("model.json", json.dumps(model).encode()), "--cluster",
                            self.file("cluster.json", json.dumps(cluster).encode()), "--workload",
                            self.file("workload.json", json.dumps(workload).encode()), "--no-proof", "--json", *options)
        if done.returncode == 3 and status == 3:
            return None
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def cluster(self, count, memory, **device):
        return {"groups": [{"count": count, "price_per_hour": 3,
                            "device": {"name": "d", "memory_bytes": memory, "memory_bandwidth": 1e9, "link_bandwidth": 1e9,
                                       "flops": {"float32": 1e9}, **device}}]}

    def value(self, service, objective, has_rate):
        """What the objective has least."""
        if objective == "latency" or has_rate:
            return service["request_seconds"]
        return 1 / service["requests_per_second"]

    def expect_figures(self, service, workload):
        """What users see, from the phases' figures."""
        busy = sum(phase["runs_per_request"] * phase["interval_seconds"] for phase in service["phases"])
        rate = workload.get("rate_per_second", 0) / service["copies"]
        squares = 0
        for phase, asked in zip(service["phases"], workload["phases"]):
            self.assertEqual(phase["dims"]["batch"], phase["batch"])
            needed = asked.get("share", 1) * asked.get("per_request", 1)
            self.assertAlmostEqual(phase["runs_per_request"] * phase["batch"] / needed, 1, 9)
            fill = (phase["batch"] - 1) / (2 * rate * needed) if rate else 0
            self.assertAlmostEqual(phase.get("fill_seconds", 0), fill, 9)
        self.assertAlmostEqual(service["capacity_per_second"] * busy / service["copies"], 1, 9)
        takes = [asked.get("per_request", 1) * (phase["latency_seconds"] + phase.get("fill_seconds", 0))
                 for phase, asked in zip(service["phases"], workload["phases"])]
        shares = [asked.get("share", 1) for asked in workload["phases"]]
        request = sum(took for took, share in zip(takes, shares) if share == 1)
        request += max((took for took, share in zip(takes, shares) if share < 1), default=0)
        if rate and all(phase["runs_per_request"] < 1 for phase in service["phases"]):
            squares = sum(phase["runs_per_request"] * phase["interval_seconds"] ** 2 for phase in service["phases"])
            request += rate * squares / (2 * (1 - rate * busy))
        if not rate or squares:
            self.assertAlmostEqual(service["request_seconds"] / request, 1, 9)

    def expect_best(self, chance, devices, phase_count, most):
        """Whether every combination of batches was asked for, and none is better."""
        model = chain(chance)
        flops = sum(2 * weight["shape"][0] * weight["shape"][-1] for weight in model["initializers"]
                    if len(weight["shape"]) == 2)
        # Memory for about so large a batch, or for less than the weights on each of several devices.
        widest = max([model["inputs"][0]["shape"][1], *(weight["shape"][-1] for weight in model["initializers"])])
        memory = weight_bytes(model) * (chance.choice((0.6, 1)) if devices > 1 else 1) + 6 * most * widest
        cluster = self.cluster(devices, memory)
        phases = [{"name": f"p{i}", **({"per_request": chance.choice((1, 2, 3))} if chance.random() < 0.5 else {}),
                   **({"share": 1 / phase_count} if phase_count > 1 and chance.random() < 0.5 else {})}
                  for i in range(phase_count)]
        workload = {"phases": phases}
        one = max(flops / 7e8, 5e-5)
        if chance.random() < 0.5:
            workload["limits"] = {"request_seconds": one * phase_count * chance.uniform(2, 30)}
        if chance.random() < 0.3:
            workload["rate_per_second"] = devices * chance.uniform(0.2, 0.8) / one
        objective = chance.choice(("throughput", "throughput", "latency"))
        options = ("--objective", objective, "--tolerance", "0", *(("--replicas", "1") if chance.random() < 0.3 else ()))
        has_rate = "rate_per_second" in workload
        answer = self.plan(model, cluster, {**workload, "batch": "best"}, *options, status=3)
        chosen = [phase["batch"] for phase in answer["service"]["phases"]] if answer is not None else [0]
        if max(chosen) > 2 * most:
            return "above"  # the limit of a request lets it be larger than is tried here
        best = None
        for batches in itertools.product(range(1, max(most, max(chosen) + 2) + 1), repeat=phase_count):
            fixed = [{**phase, "dims": {"batch": batch}, "requests": batch} for phase, batch in zip(phases, batches)]
            plan = self.plan(model, cluster, {**workload, "phases": fixed}, *options, status=3)
            if plan is None:
                continue
            found = (self.value(plan["service"], objective, has_rate), batches)
            best = min(best, found) if best is not None else found
        self.assertEqual(answer is None, best is None)
        if answer is None:
            return "none"
        service = answer["service"]
        self.expect_figures(service, {**workload, "phases": phases})
        self.assertLessEqual(self.value(service, objective, has_rate), best[0] * (1 + 1e-9), (chosen, best))
        if devices == 1:  # there one placement is as good as another
            self.assertGreaterEqual(self.value(service, objective, has_rate), best[0] * (1 - 1e-9), (chosen, best))
        return "equal" if self.value(service, objective, has_rate) > best[0] * (1 - 1e-9) else "better"

    def test_every_batch_asked_for_alone(self):
        chance = random.Random(7)
        seen = {}
        for devices, phase_count, most, rounds in ((1, 1, 16, 5), (1, 2, 4, 2), (3, 1, 12, 4), (2, 2, 3, 2)):
            for i in range(rounds * (10 if THOROUGH else 1)):
                with self.subTest(devices=devices, phases=phase_count, round=i):
                    found = self.expect_best(chance, devices, phase_count, most)
                    seen[found] = seen.get(found, 0) + 1
        self.assertGreater(seen.get("equal", 0), sum(seen.values()) / 2, seen)

    def test_the_largest_that_fits(self):
        """Throughput wants the largest batch that memory and a limit allow, which no power of two need be."""
        chance = random.Random(1)
        model = {"opset": 21, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 64]}],
                 "initializers": [{"name": "w", "dtype": "float32", "shape": [64, 64]}],
                 "nodes": [{"name": "m", "op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]}], "outputs": ["y"]}
        for memory in [64 * 64 * 4 + chance.randint(2000, 60000) for _ in range(4)]:
            def plan(batch):
                phase = {"name": "p", "batch": "best"} if batch is None else {"name": "p", "dims": {"N": batch},
                                                                              "requests": batch}
                return self.plan(model, self.cluster(1, memory), {"phases": [phase]}, "--tolerance", "0", status=3)
            service = plan(None)["service"]
            chosen = service["phases"][0]["batch"]
            self.assertEqual(service["phases"][0]["dims"], {"N": chosen})
            self.assertIsNotNone(plan(chosen))
            self.assertIsNone(plan(chosen + 1))

    def test_what_it_says(self):
        model, cluster = chain(random.Random(2), "rows"), self.cluster(2, 1e6)
        phases = [{"name": "open", "batch": "best", "share": 0.5}, {"name": "four", "dims": {"rows": 4}, "share": 0.5}]
        plan = self.plan(model, cluster, {"phases": phases, "limits": {"request_seconds": 0.01}})
        with open(os.path.join(test_cli.TOP, "api/schema/plan.schema.json"), encoding="utf-8") as file:
            Contract.hold(plan, json.load(file), "plan")
        opened, four = plan["service"]["phases"]
        self.assertEqual(opened["dims"], {"rows": opened["batch"]})
        self.assertNotIn("batch", four)
        note, = (one for one in plan["diagnostics"] if one["code"] == "WORKLOAD_SYMBOLS")
        self.assertIn("'rows'", note["message"])
        self.assertIn(f"{opened['batch']} for 'open'", note["message"])
        # Of all phases it is said of those that bind no batch.
        both = self.plan(model, cluster, {"phases": [{"name": "open", "share": 0.5}, phases[1]], "batch": "best",
                                          "limits": {"request_seconds": 0.01}, "symbols": {"batch": "rows"}})
        self.assertEqual(both["service"]["phases"][0]["batch"], opened["batch"])
        done = test_cli.run("plan", self.path("model.json"), "--cluster", self.path("cluster.json"), "--workload",
                            self.file("w.json", json.dumps({"phases": phases}).encode()), "--plan", self.path("p.json"))
        self.assertIn(b"the best one", done.stdout)
        with open(self.path("p.json"), encoding="utf-8") as file:
            chosen = json.load(file)["service"]
        seen = self.json("simulate", self.path("p.json"), "--rate", str(0.5 * chosen["requests_per_second"]))
        self.assertGreater(seen["request_seconds"]["mean"], 0)

    def test_sweeps(self):
        """Each size of a cluster has batches of its own."""
        model = chain(random.Random(4))
        workload = self.file("w.json", json.dumps({"phases": [{"name": "p"}], "batch": "best",
                                                   "limits": {"request_seconds": 0.004}}).encode())
        device = self.file("d.json", json.dumps(self.cluster(1, 1e6)["groups"][0]["device"]).encode())
        service = self.json("plan", self.file("m.json", json.dumps(model).encode()), "--devices", "1,2,4", "--device",
                            device, "--workload", workload)["service"]
        rates = [row["requests_per_second"] for row in service["clusters"]]
        self.assertEqual(sorted(rates), rates)
        self.assertGreater(rates[2], 3.5 * rates[0])

    def test_what_is_refused(self):
        model, cluster = chain(random.Random(2)), self.cluster(1, 1e6)
        fixed = {**model, "inputs": [{**model["inputs"][0], "shape": [4, model["inputs"][0]["shape"][1]]}]}
        for graph, workload, code, where in (
                (model, {"phases": [{"name": "a", "batch": 4}]}, "WORKLOAD_BATCH", "/phases/0/batch"),
                (model, {"phases": [{"name": "a"}], "batch": "largest"}, "WORKLOAD_BATCH", "/batch"),
                (model, {"phases": [{"name": "a", "batch": "best", "requests": 2}]}, "WORKLOAD_BATCH",
                 "/phases/0/requests"),
                (model, {"phases": [{"name": "a", "batch": "best", "dims": {"batch": 2}}]}, "WORKLOAD_BATCH",
                 "/workload/phases"),
                (model, {"phases": [{"name": "a"}], "batch": "best", "symbols": {"positions": "x"}}, "MEMBER_UNKNOWN",
                 "/symbols/positions"),
                (model, {"llm": {"input": 5, "output": 5}, "concurrency": 2, "batch": "best"}, "WORKLOAD_BATCH",
                 "/batch"),
                (fixed, {"phases": [{"name": "a", "batch": "best"}]}, "WORKLOAD_SYMBOLS", "/workload/symbols")):
            with self.subTest(workload):
                done = test_cli.run("plan", self.file("model.json", json.dumps(graph).encode()), "--cluster",
                                    self.file("cluster.json", json.dumps(cluster).encode()), "--workload",
                                    self.file("workload.json", json.dumps(workload).encode()), "--json")
                self.assertEqual(done.returncode, 2, done.stdout)
                error = json.loads(done.stdout)["error"]
                self.assertEqual((error["code"], error["where"]), (code, where))


if __name__ == "__main__":
    unittest.main()
