#!/usr/bin/env python3
"""`shardplan plan --workload`: a service on devices, its figures computed a second time from those of its phases."""

import json
import math
import os
import random
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import jsonschema  # noqa: E402
import test_cli  # noqa: E402

sys.path.insert(0, os.path.join(test_cli.TOP, "tests/tools"))
sys.path.insert(0, os.path.join(test_cli.TOP, "tests/api"))

import decoder_graph  # noqa: E402
from contract import Contract  # noqa: E402

SIDES = ("value", "low", "high")
DEVICE = {"name": "small", "memory_bytes": 4e6, "memory_bandwidth": 1e10, "link_bandwidth": 1e9,
          "flops": {"float16": 1e11, "float32": 1e11}}
THOROUGH = bool(os.environ.get("SHARDPLAN_TEST_THOROUGH"))
LLM = {"llm": {"input": 40, "output": 20}, "concurrency": 12}


def generation(step, prompt, first, concurrency, output, variation=0.0):
    """Mean (TTFT, TPOT, seconds of a request, requests a second) of core/service/generation.h, written anew."""
    others, steps = concurrency - 1, output - 1
    tpot = step + others * prompt / steps if steps else 0.0
    asked = others * prompt / (prompt + steps * tpot)
    if not steps:
        asked = others / (others + 1)
    decoding = 1 - asked if others and steps else 0.0
    left = 0.5 * (asked * prompt * (1 + variation) + decoding * step)
    ttft = first + left / (1 - asked)
    request = ttft + steps * tpot
    return ttft, tpot, request, min(concurrency / request, 1 / (prompt + steps * step / concurrency))


def open_loop(step, prompt, first, output, rate):
    """(TTFT, TPOT, seconds of a request) where so many come at random."""
    steps, asked = output - 1, rate * prompt
    alone = step / (1 - asked)
    decoding = (1 - asked) * (1 - math.exp(-rate * steps * alone))
    wait = 0.5 * (asked * prompt + decoding * step) / (1 - asked)
    tpot = alone + asked * (wait + prompt) / ((1 - asked) * steps)
    return first + wait, tpot, first + wait + steps * tpot


def between(rows, key, value, at):
    """Linear between rows, as service/step_times.h says it, whose `value` is a function of one."""
    low = max([i for i, row in enumerate(rows[:-1]) if row[key] < at], default=0)
    a, b = rows[low], rows[min(low + 1, len(rows) - 1)]
    return value(a) + (value(b) - value(a)) * max(at - a[key], 0) / (b[key] - a[key]) if b is not a else value(a)


def chunk_seconds(times, positions, past):
    return between(times["chunks"], "positions",
                   lambda row: row["interval_seconds"] + row["seconds_per_position"] * past, positions)


class Workload(test_cli.Case):
    def setUp(self):
        super().setUp()
        self.model = self.graph()

    def graph(self, name="decoder.json", **more):
        return self.file(name, json.dumps(decoder_graph.decoder(**{**decoder_graph.TINY, **more})).encode())

    def cluster(self, count, **device):
        group = {"count": count, "price_per_hour": 3, "device": {**DEVICE, **device}}
        return self.file(f"cluster-{count}.json", json.dumps({"groups": [group]}).encode())

    def workload(self, workload):
        return self.file("workload.json", json.dumps(workload).encode())

    def served(self, workload, *options, count=2, model=None, **device):
        plan = self.json("plan", model or self.model, "--cluster", self.cluster(count, **device), "--workload",
                         self.workload(workload), *options)
        with open(os.path.join(test_cli.TOP, "api/schema/plan.schema.json"), encoding="utf-8") as file:
            Contract.hold(plan, json.load(file), "plan")
        return plan

    def refused(self, workload, code, where=None, status=2):
        done = test_cli.run("plan", self.model, "--cluster", self.cluster(2), "--workload", self.workload(workload),
                            "--json")
        self.assertEqual(done.returncode, status, done.stderr)
        error = json.loads(done.stdout)["error"]
        self.assertEqual(error["code"], code)
        if where is not None:
            self.assertEqual(error["where"], where)
        return error

    def expect_generation(self, service, workload, variation=0.0):
        """Every figure follows from the phases'."""
        prefill, decode = service["phases"]
        copies, output = service["copies"], workload["llm"]["output"]
        of_copy, groups = service["concurrency"] / copies, service["micro_batches"]
        expected = []
        for side in SIDES:
            step = max(decode["latency_range"][side], groups * decode["interval_range"][side])
            expected.append(generation(step, prefill["interval_range"][side], prefill["latency_range"][side], of_copy,
                                       output, variation))
        for index, name in enumerate(("ttft", "tpot", "request")):
            for side, figures in zip(SIDES, expected):
                self.assertAlmostEqual(service[name + "_range"][side], figures[index], delta=1e-9 * figures[index])
        for side, figures in zip(SIDES, (expected[0], expected[2], expected[1])):
            self.assertAlmostEqual(service["requests_range"][side] / (copies * figures[3]), 1, 9)
            self.assertAlmostEqual(service["tokens_range"][side] / (copies * output * figures[3]), 1, 9)
        rate = service["requests_per_second"]
        self.assertAlmostEqual(service["requests_per_second_per_device"] * service["devices"] / rate, 1, 9)
        self.assertAlmostEqual(service["price_per_hour"], 3 * service["devices"])
        self.assertAlmostEqual(service["requests_per_dollar"] / (rate * 3600 / service["price_per_hour"]), 1, 9)

    def expect_best(self, service):
        """No candidate that fits and keeps the limits serves more than the tolerance of 2 % more."""
        rows = [row for row in service["candidates"] if row["fits"] and row["keeps_limits"]]
        chosen, = (row for row in rows if row["chosen"])
        self.assertLessEqual(max(row["requests_per_second"] for row in rows),
                             chosen["requests_per_second"] * (1.02 + 1e-6))
        self.assertEqual(chosen["copies"], service["copies"])

    # ---- language models ----

    def test_prompts_in_chunks(self):
        """One sequence alone: its prompt takes its chunks one behind the other, and a token a step."""
        for chunk, parts in ((16, (16, 16, 8)), (40, (40,)), (1000, (40,))):
            service = self.served({**LLM, "concurrency": 1, "chunked_prefill": chunk}, count=1)["service"]
            times = service["times"]
            self.assertEqual((service["chunked_prefill"], times["chunk"]), (chunk, chunk))
            self.assertEqual([row.get("chunked_prefill") for row in service["candidates"]],
                             [chunk] * len(service["candidates"]))
            done, first = 0, times["request_seconds"]
            for part in parts:
                first += chunk_seconds(times, part, done)
                done += part
            self.assertAlmostEqual(service["ttft_seconds"] / first, 1, 6)
            step = next(row for row in times["steps"] if row["sequences"] == 1)
            self.assertAlmostEqual(service["tpot_seconds"] / step["seconds"], 1, 6)
            prefill = next(phase for phase in service["phases"] if phase["name"] == "prefill")
            self.assertEqual(prefill["runs_per_request"], len(parts))
            self.assertEqual(prefill["dims"]["sequence_length"], min(chunk, 40))
        self.assertNotIn("chunked_prefill", self.served(LLM, count=1)["service"])
        self.assertIn("prompts in chunks of 16 tokens",
                      self.done("plan", self.model, "--cluster", self.cluster(1), "--workload",
                                self.workload({**LLM, "chunked_prefill": 16})).stdout.decode())

    def test_the_best_chunks_are_those_of_plans_for_each(self):
        """Whole prompts and chunks, by themselves and together, for both objectives."""
        asked = {"llm": {"input": 600, "output": 20}, "concurrency": 4}
        for objective, key, best in (("throughput", "requests_per_second", max), ("latency", "request_seconds", min)):
            figures = {}
            for chunk in (None, 512, 2048):
                more = {"chunked_prefill": chunk} if chunk else {}
                figures[chunk] = self.served({**asked, **more}, "--objective", objective,
                                             count=1, memory_bytes=4e8)["service"][key]
            service = self.served({**asked, "chunked_prefill": "best"}, "--objective", objective,
                                  count=1, memory_bytes=4e8)["service"]
            self.assertAlmostEqual(service[key] / best(figures.values()), 1, delta=0.021, msg=figures)
            self.assertEqual({row.get("chunked_prefill") for row in service["candidates"]}, {None, 512, 2048})
            self.assertAlmostEqual(service[key] / figures[service.get("chunked_prefill")], 1, delta=0.021)

    def test_chunks_that_cannot_be_are_refused(self):
        self.refused({**LLM, "chunked_prefill": 0}, "MEMBER_RANGE", "/chunked_prefill")
        self.refused({**LLM, "chunked_prefill": "most"}, "MEMBER_RANGE", "/chunked_prefill")
        self.refused({**LLM, "chunked_prefill": 16, "pools": "separate"}, "WORKLOAD_CHUNKS",
                     "/chunked_prefill")
        self.refused({"phases": [{"name": "one"}], "chunked_prefill": 16}, "MEMBER_UNKNOWN")

    def test_figures_follow_from_the_phases(self):
        for count in (1, 2, 4):
            with self.subTest(count):
                plan = self.served(LLM, count=count)
                service = plan["service"]
                self.assertEqual(service["concurrency"], 12)
                self.assertEqual([phase["name"] for phase in service["phases"]], ["prefill", "decode"])
                prefill, decode = (phase["dims"] for phase in service["phases"])
                self.assertEqual(prefill, {"batch_size": 1, "sequence_length": 40, "past_sequence_length": 0,
                                           "total_sequence_length": 40})
                batch = math.ceil(12 / service["copies"] / service["micro_batches"])
                self.assertEqual(decode, {"batch_size": batch, "sequence_length": 1, "past_sequence_length": 50,
                                          "total_sequence_length": 51})
                self.expect_generation(service, LLM)
                self.expect_best(service)
                self.assertIn("WORKLOAD_SYMBOLS", [note["code"] for note in plan["diagnostics"]])

    def test_steps_take_as_many_groups_as_are_asked(self):
        """Also by the simulation of requests, in a closed loop."""
        for asked in ("1", "3", "4", "auto"):
            with self.subTest(asked):
                written = self.path("plan.json")
                plan = self.served(LLM, "--micro-batches", asked, "--strategy", "pipeline", "--replicas", "1", "--objective",
                                   "latency", "--plan", written)
                service = plan["service"]
                self.assertEqual(plan["options"]["micro_batches"], int(asked) if asked.isdigit() else asked)
                if asked.isdigit():
                    self.assertEqual(service["micro_batches"], int(asked))
                self.expect_generation(service, LLM)
                simulated = self.json("simulate", written, "--requests", "4000", "--closed-loop")
                self.assertAlmostEqual(simulated["tpot_seconds"]["mean"] / service["tpot_seconds"], 1, delta=0.1)

    def test_pools_have_files_of_their_own(self):
        """Those of a copy for prompts are a plan of its own, which is made again from its file."""
        out = self.path("out")
        service = self.served({**LLM, "pools": "separate"}, "--emit", out)["service"]
        with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
            pools = json.load(file)["pools"]
        self.assertEqual(set(pools), {"prefill", "decode"})
        for name, phase in zip(("prefill", "decode"), service["phases"]):
            folder, of = os.path.join(out, pools[name]["folder"]), service["pools"][name]
            self.assertEqual((pools[name]["copies"], pools[name]["devices_per_copy"]), (of["copies"], of["devices_per_copy"]))
            with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
                plan = json.load(file)
            with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
                manifest = json.load(file)
            with open(os.path.join(test_cli.TOP, "api/schema/manifest.schema.json"), encoding="utf-8") as file:
                jsonschema.Draft202012Validator(json.load(file)).validate(manifest)
            self.assertEqual(len(plan["devices"]), of["devices_per_copy"])
            self.assertEqual(len(manifest["devices"]), of["devices_per_copy"])
            for device in manifest["devices"]:
                for part in device["parts"]:
                    self.assertTrue(os.path.exists(os.path.join(folder, part["model"])))
            if name == "prefill":
                self.assertEqual(plan["options"]["dims"], phase["dims"])
                self.assertEqual(plan["estimate"]["latency_seconds"], phase["latency_seconds"])
            rows = self.done("export", os.path.join(folder, "plan.json"), "--model", self.model, "--format", "csv-devices")
            self.assertEqual(len(rows.stdout.splitlines()), 1 + of["devices_per_copy"])

    def test_copies_are_the_services(self):
        """As many as there is room for, or as --replicas allows; the plan of a copy has none of its own."""
        phases = {"phases": [{"name": "step", "dims": {"batch_size": 1, "sequence_length": 1, "past_sequence_length": 50,
                                                       "total_sequence_length": 51}}]}
        for asked, most in ((), 4), (("--replicas", "2"), 2), (("--replicas", "1"), 1):
            with self.subTest(asked):
                plan = self.served(phases, *asked, count=4)
                self.assertNotIn("copies", plan)
                self.assertEqual(max(row["copies"] for row in plan["service"]["candidates"]), most)
                self.assertLessEqual(plan["service"]["copies"], most)

    def test_phases_are_plans_at_their_sizes(self):
        """On one device there is one placement: a phase takes what a plan of that step takes."""
        service = self.served(LLM, count=1)["service"]
        for phase in service["phases"]:
            options = [word for name, value in phase["dims"].items() for word in ("--dim", f"{name}={value}")]
            alone = self.json("plan", self.model, "--cluster", self.cluster(1), "--objective", "latency", *options)
            self.assertEqual(phase["latency_range"], alone["estimate"]["latency_range"])
            self.assertEqual(phase["interval_range"], alone["estimate"]["interval_range"])
            self.assertEqual(phase["memory_bytes"], alone["devices"][0]["memory"]["total_bytes"])

    def test_weights_stay(self):
        """Where operators are split both phases have the same parts of the weights."""
        service = self.served(LLM, "--strategy", "tensor", count=4, memory_bandwidth=1e8)["service"]
        self.assertEqual([phase["moved_weight_bytes"] for phase in service["phases"]], [0, 0])
        self.expect_generation(service, LLM)

    def test_lengths(self):
        lengths = [10, 20, 30, 100]
        mean = sum(lengths) / len(lengths)
        spread = sum(x * x for x in lengths) / len(lengths) / mean ** 2 - 1
        service = self.served({"llm": {"input": lengths, "output": 20}, "concurrency": 12}, count=1)["service"]
        self.assertEqual(service["phases"][0]["dims"]["sequence_length"], mean)
        self.expect_generation(service, LLM, spread)
        # A log-normal distribution: 90 % are below exp(mu + 1.2815515655 sigma), and its mean is exp(mu + sigma^2 / 2).
        sigma = 0.5
        mu = math.log(40) - sigma ** 2 / 2
        percentile = {"mean": 40, "p90": math.exp(mu + 1.2815515655446004 * sigma)}
        service = self.served({"llm": {"input": percentile, "output": 20}, "concurrency": 12}, count=1)["service"]
        self.expect_generation(service, LLM, math.exp(sigma ** 2) - 1)
        # Long outputs are in flight longer: the mean of what there is of them is that of all, weighted by their lengths.
        outputs = [10, 50]
        seen = sum(x * x / 2 for x in outputs) / sum(outputs)
        service = self.served({"llm": {"input": 40, "output": outputs}, "concurrency": 12}, count=1)["service"]
        self.assertEqual(service["phases"][1]["dims"]["past_sequence_length"], round(40 + seen))
        service = self.served({"llm": {"input": 40, "output": 20, "shared_prefix": 30}, "concurrency": 12},
                              count=1)["service"]
        self.assertEqual(service["phases"][0]["dims"]["sequence_length"], 10)
        self.assertEqual(service["phases"][0]["dims"]["past_sequence_length"], 30)

    def test_names_of_symbols(self):
        names = {"batch": "B", "positions": "S", "past": "P", "total": "T"}
        other = self.graph("other.json", names=names)
        expected = self.served(LLM, count=1)["service"]
        for workload in (LLM, {**LLM, "symbols": names}):
            service = self.served(workload, count=1, model=other)["service"]
            self.assertEqual(service["phases"][1]["dims"].keys(), {"B", "S", "P", "T"})
            self.assertEqual(service["tpot_range"], expected["tpot_range"])
        self.refused({**LLM, "symbols": {"batch": "nothing"}}, "UNKNOWN_DIMENSION")

    def test_a_model_without_a_cache(self):
        """Each step computes all positions again."""
        data = os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(test_cli.TOP, "../shared/data"))
        model = os.path.join(data, "models/llama_tiny_dyn.onnx")
        if not os.path.exists(model):
            self.skipTest(f"{model} is not there")
        plan = self.served({"llm": {"input": 30, "output": 20}, "concurrency": 4}, model=model, memory_bytes=1e9)
        self.assertEqual(plan["service"]["phases"][1]["dims"], {"batch": math.ceil(4 / plan["service"]["copies"]),
                                                                "seq": 41})
        self.assertEqual(plan["service"]["cache_bytes"], 0)
        note, = (note for note in plan["diagnostics"] if note["code"] == "WORKLOAD_SYMBOLS")
        self.assertEqual(note["severity"], "warning")

    def test_each_phase_alone(self):
        """What a plan for one phase takes, and what the other takes on it, as a plan of that phase has it."""
        slow = {"memory_bandwidth": 1e8, "link_bandwidth": 1e9}
        plan = self.served(LLM, "--objective", "latency", count=4, **slow)
        phases = plan["service"]["phases"]
        words = [word for phase in phases for word in phase["dims"].items()]
        self.assertGreater(len(words), 0)
        devices = plan["service"]["devices"] // plan["service"]["copies"]
        for phase, other in (phases, phases[::-1]):
            alone, = [phase["alone"]]
            self.assertLessEqual(alone["latency_seconds"], phase["latency_seconds"] * (1.02 + 1e-9))
            self.assertEqual([row["name"] for row in alone["others"]], [other["name"]])
            options = [word for name, value in phase["dims"].items() for word in ("--dim", f"{name}={value}")]
            step = self.json("plan", self.model, "--cluster", self.cluster(devices, **slow), "--objective", "latency",
                             *options)
            self.assertEqual(step["estimate"]["latency_seconds"], alone["latency_seconds"])

    def test_an_8b_model_serves_both_phases(self):
        """One placement of weights for prefill and decode of Llama-3 8B on four devices."""
        model = self.graph("8b.json", **decoder_graph.LLAMA3_8B, dtype="float16")
        workload = self.workload({"llm": {"input": 512, "output": 128}, "concurrency": 8})
        plan = json.loads(self.done("plan", model, "--devices", "4", "--device", "a100-sxm4-80gb",
                                    "--objective", "latency", "--workload", workload, "--json").stdout)
        self.assertEqual(plan["service"]["copies"], 1)
        for device in plan["devices"]:
            self.assertGreater(device["memory"]["weights_bytes"], 4.0e9 * 0.99)
            self.assertLess(device["memory"]["weights_bytes"], 6.5e9)
        for phase in plan["service"]["phases"]:
            self.assertEqual(phase["moved_weight_bytes"], 0)
            self.assertIn("alone", phase)

    def test_models_and_devices_that_nobody_has_heard_of(self):
        """Decoders with caches of any order of axes, on devices of the catalog that few have, and a described one."""
        random_decoder = os.path.join(test_cli.TOP, "tests/tools/random_decoder.py")
        described = self.file("device.json", json.dumps({**DEVICE, "memory_bytes": 1e9}).encode())
        devices = ["a40-48gb", "rtx-pro-6000-server-96gb", described]
        for seed in range(30 if os.environ.get("SHARDPLAN_TEST_THOROUGH") else 5):
            model = self.path(f"random-{seed}.onnx")
            subprocess.run([sys.executable, random_decoder, str(seed), model], check=True)
            with open(model + ".json", encoding="utf-8") as file:
                told = json.load(file)
            if "batch" not in told["dims"]:
                continue  # one sequence: no workload of sequences in flight
            state = {} if told["is_known"] else {"state": told["states"]}
            workload = {**LLM, **state}
            with self.subTest(seed):
                plan = self.json("plan", model, "--devices", "2", "--device", devices[seed % 3], "--workload",
                                 self.workload(workload))
                service = plan["service"]
                prefill, decode = (phase["dims"] for phase in service["phases"])
                batch, positions, past = (told["dims"][name] for name in ("batch", "positions", "past"))
                self.assertEqual((prefill[batch], prefill[positions], prefill[past]), (1, 40, 0))
                self.assertEqual((decode[positions], decode[past]), (1, 50))
                self.assertEqual([phase["moved_weight_bytes"] for phase in service["phases"]], [0, 0])
                each = 4 * len(told["states"])
                for size in told["shape"]:
                    each *= size if isinstance(size, int) else {"past": 51}.get(size, 1)
                held = decode[batch] * service["copies"] * service["micro_batches"]
                self.assertEqual(service["cache_bytes"], each * held)
                for name in ("ttft", "tpot", "request"):
                    bar = service[name + "_range"]
                    self.assertTrue(0 < bar["low"] <= bar["value"] <= bar["high"] < 1)
                self.assertLess(service["tpot_seconds"], service["request_seconds"])
                self.assertLess(service["ttft_seconds"], service["request_seconds"])

    # ---- limits ----

    def test_the_concurrency_that_memory_allows(self):
        """So many fit, and one more does not; at each of them the figures are those of a workload that says so."""
        most = self.served(LLM, count=1)["service"]["memory_concurrency"]
        self.assertEqual(self.served({**LLM, "concurrency": most}, count=1)["service"]["concurrency"], most)
        more = most + 1 + most // 128
        error = self.refused_on_one({**LLM, "concurrency": more})
        self.assertIn(error["code"], ("SERVICE_NO_MEMORY", "NO_PLAN_FITS", "MODEL_TOO_LARGE"))

    def refused_on_one(self, workload):
        done = test_cli.run("plan", self.model, "--cluster", self.cluster(1), "--workload", self.workload(workload),
                            "--json")
        self.assertEqual(done.returncode, 3, done.stderr)
        return json.loads(done.stdout)["error"]

    def test_limits_are_kept(self):
        """A limit between what one and many sequences take: the best concurrency keeps it, and the next one would not."""
        one, many = (self.served({**LLM, "concurrency": count}, count=1)["service"] for count in (1, 40))
        for name in ("ttft_seconds", "tpot_seconds", "request_seconds"):
            limit = 0.5 * (one[name] + many[name])
            workload = {**LLM, "concurrency": "best", "limits": {name: limit}}
            service = self.served(workload, count=1)["service"]
            self.assertLessEqual(service[name], limit)
            state, = service["limits"]
            self.assertEqual((state["name"], state["limit"]), (name, limit))
            self.assertEqual(state["state"], "uncertain" if state["range"]["high"] > limit else "kept")
            count = service["limit_concurrency"]
            self.assertLessEqual(self.served({**LLM, "concurrency": count}, count=1)["service"][name], limit)
            self.assertGreater(self.served({**LLM, "concurrency": count + 1 + count // 128}, count=1)["service"][name],
                               limit)
            self.expect_generation(service, LLM)

    def test_a_limit_that_nothing_keeps(self):
        limits = {"tpot_seconds": 1e-9, "ttft_seconds": 1e-9, "request_seconds": 1e9}
        error = self.refused({**LLM, "limits": limits}, "LIMIT_NOT_KEPT", status=3)
        self.assertIn("tpot_seconds 1e-09", error["message"])
        self.assertIn("ttft_seconds 1e-09", error["message"])
        self.assertNotIn("request_seconds", error["message"])
        self.assertIn("more or faster devices", error["message"])

    def test_what_would_keep_a_limit(self):
        """The error names as many sequences as keep it, and not one more; and as many devices as serve a rate."""
        one, many = (self.served({**LLM, "concurrency": count}, count=1)["service"] for count in (1, 40))
        limits = {"tpot_seconds": 0.5 * (one["tpot_seconds"] + many["tpot_seconds"])}
        message = self.refused_on_one({**LLM, "concurrency": 40, "limits": limits})["message"]
        count = int(re.search(r"With (\d+) sequences in flight it keeps them", message)[1])
        self.served({**LLM, "concurrency": count, "limits": limits}, count=1)
        self.refused_on_one({**LLM, "concurrency": count + 1 + count // 128, "limits": limits})
        most = self.served({**LLM, "concurrency": "best"}, count=1)["service"]["capacity_per_second"]
        workload = {"llm": LLM["llm"], "rate_per_second": 2.5 * most}
        message = self.refused_on_one(workload)["message"]
        devices = int(re.search(r"copies like it, on (\d+) devices, serve that rate", message)[1])
        self.served(workload, count=devices)
        self.assertGreater(devices, 1)

    def test_what_if(self):
        """A better cluster brings no worse service; each row is that of the changed cluster."""
        plan = self.served(LLM, "--what-if", count=1)
        rows = {row["change"]: row for row in plan["what_if"]}
        for name, row in rows.items():
            if name.startswith(("one more", "links", "twice")):
                self.assertGreaterEqual(row["gain"], 0, name)
        more = self.served(LLM, count=2)["service"]
        row, = (row for name, row in rows.items() if name.startswith("one more"))
        if not row["kept"]:
            self.assertAlmostEqual(row["interval_seconds"] * more["requests_per_second"], 1)
        self.assertLess(rows["half the memory on every device"]["gain"], 0.02)

    def test_a_rate(self):
        """The fewest sequences that serve it; what is asked of more is refused."""
        full = self.served({**LLM, "concurrency": "best"}, count=1)["service"]
        rate = full["requests_per_second"] / 2
        service = self.served({"llm": LLM["llm"], "rate_per_second": rate}, count=1)["service"]
        self.assertAlmostEqual(service["requests_per_second"], rate)
        most = service["capacity_per_second"]
        self.assertGreaterEqual(most, rate)
        prefill, decode = service["phases"]
        times = prefill["interval_seconds"], prefill["latency_seconds"]
        ttft, tpot, request = open_loop(decode["latency_seconds"], *times, 20, rate)
        # For a place: with one it is that of M/D/1, with more of them less.
        queue = service["ttft_seconds"] - ttft
        self.assertGreaterEqual(queue, -1e-12)
        self.assertLessEqual(queue, rate / (2 * most * (most - rate)))
        self.assertAlmostEqual(service["ttft_seconds"] / (ttft + queue), 1, 9)
        self.assertAlmostEqual(service["tpot_seconds"] / tpot, 1, 9)
        self.assertAlmostEqual(service["request_seconds"] / (request + queue), 1, 9)
        # As many as are in flight then; one fewer would not be enough.
        count = service["concurrency"]
        self.assertGreaterEqual(count * (1 + 1e-9), rate * request)
        if count > 1:
            fewer = self.served({**LLM, "concurrency": count - 1}, count=1)["service"]["phases"][1]
            self.assertLess(count - 1, rate * open_loop(fewer["latency_seconds"], *times, 20, rate)[2])
        self.refused({"llm": LLM["llm"], "rate_per_second": 1e6}, "LIMIT_NOT_KEPT", status=3)

    def test_the_fewest_devices(self):
        """For that objective: no fewer copies keep the limit."""
        self.model = self.graph("layer.json", layers=1)
        full = self.served({**LLM, "concurrency": "best"}, count=1)["service"]
        workload = {"llm": LLM["llm"], "rate_per_second": 1.5 * full["capacity_per_second"]}
        service = self.served(workload, "--objective", "devices", count=4)["service"]
        self.assertEqual(service["devices"], 2)
        with self.assertRaises(AssertionError):
            self.served(workload, count=1)

    def test_random_workloads_keep_their_limits(self):
        """By their own figures; and no other candidate is better by more than the tolerance. Everyday on few devices."""
        draw = random.Random(11)
        counts = (1, 2, 4) if THOROUGH else (1, 1, 2)
        for turn in range(6):
            workload = {"llm": {"input": draw.randint(1, 60), "output": draw.randint(1, 40)}, "concurrency": "best",
                        "limits": {name: 10 ** draw.uniform(-3, 0) for name in ("ttft_seconds", "tpot_seconds",
                                                                                "request_seconds") if draw.random() < 0.5}}
            with self.subTest(turn, workload=workload):
                done = test_cli.run("plan", self.model, "--cluster", self.cluster(draw.choice(counts)), "--workload",
                                    self.workload(workload), "--json")
                if done.returncode == 3:
                    self.assertEqual(json.loads(done.stdout)["error"]["code"], "LIMIT_NOT_KEPT")
                    continue
                service = json.loads(done.stdout)["service"]
                for name, limit in workload["limits"].items():
                    self.assertLessEqual(service[name], limit)
                self.assertLessEqual(service["memory_bytes"], DEVICE["memory_bytes"])
                self.expect_generation(service, workload)
                self.expect_best(service)

    def test_the_cheapest_devices(self):
        """Over kinds and numbers: what a run of each alone says, and the lowest price among those that keep the limits."""
        self.model = self.graph("layer.json", layers=1)
        kinds = {"slow": ({"memory_bandwidth": 2e9}, 1.0), "fast": ({"memory_bandwidth": 2e10}, 6.0)}
        paths = []
        for name, (changes, price) in kinds.items():
            device = {**DEVICE, "name": name, **changes,
                      "price_per_hour": {"usd": price, "provider": "a test", "date": "2026-01-01"}}
            paths.append(self.file(name + ".json", json.dumps(device).encode()))
        counts = [1, 2, 4] if THOROUGH else [1, 2]
        full = self.served({**LLM, "concurrency": "best"}, count=1)["service"]
        for part in (0.4, 1.5) if THOROUGH else (1.5,):
            workload = {"llm": LLM["llm"], "rate_per_second": part * full["requests_per_second"],
                        "limits": {"request_seconds": 4 * full["request_seconds"]}}
            with self.subTest(part):
                prices = {}
                for path in paths:
                    for count in counts:
                        done = test_cli.run("plan", self.model, "--devices", str(count), "--device", path, "--workload",
                                            self.workload(workload), "--objective", "cost", "--json")
                        if done.returncode == 0:
                            prices[os.path.basename(path), count] = json.loads(done.stdout)["service"]["price_per_hour"]
                        else:
                            self.assertEqual(done.returncode, 3, done.stderr)
                service = self.json("plan", self.model, "--devices", ",".join(map(str, counts)), "--device",
                                    ",".join(paths), "--workload", self.workload(workload), "--objective",
                                    "cost")["service"]
                self.assertLessEqual(service["price_per_hour"], min(prices.values()) * (1.02 + 1e-9))
                self.assertEqual(sum(row["fits"] for row in service["clusters"]), len(prices))
                for row in service["clusters"]:
                    if row["fits"]:
                        self.assertAlmostEqual(row["price_per_hour"], prices[row["device"] + ".json",
                                                                              row["devices_available"]])
                        self.assertAlmostEqual(row["price_per_hour"], kinds[row["device"]][1] * row["devices"])
                # A budget below that price is one that nothing keeps, of the most devices, which have the fewer ones in them.
                tight = {**workload, "budget_per_hour": 0.99 * min(prices.values())}
                done = test_cli.run("plan", self.model, "--devices", str(counts[-1]), "--device", ",".join(paths),
                                    "--workload", self.workload(tight), "--json")
                self.assertEqual(done.returncode, 3)
        self.done("plan", self.model, "--cluster", self.cluster(2), "--objective", "cost", status=2)

    # ---- phases ----

    def test_phases_of_any_model(self):
        phases = [{"name": "single", "dims": {"batch_size": 1, "sequence_length": 16, "past_sequence_length": 0,
                                              "total_sequence_length": 16}, "share": 0.75},
                  {"name": "bulk", "dims": {"batch_size": 8, "sequence_length": 16, "past_sequence_length": 0,
                                            "total_sequence_length": 16}, "share": 0.25, "per_request": 2}]
        service = self.served({"phases": phases})["service"]
        single, bulk = service["phases"]
        self.assertEqual((single["runs_per_request"], bulk["runs_per_request"]), (0.75, 0.5))
        busy = 0.75 * single["interval_seconds"] + 0.5 * bulk["interval_seconds"]
        self.assertAlmostEqual(service["requests_per_second"] * busy / service["copies"], 1, 9)
        self.assertAlmostEqual(service["request_seconds"] / (2 * bulk["latency_seconds"]), 1, 9)
        self.assertAlmostEqual(single["time_share"], 0.75 * single["interval_seconds"] / busy, 9)
        # Pollaczek and Khinchine: half the load of the copies.
        rate = 0.5 * service["requests_per_second"]
        waited = self.served({"phases": phases, "rate_per_second": rate})["service"]
        single, bulk = waited["phases"]
        lengths = [single["interval_seconds"], 2 * bulk["interval_seconds"]]
        each = rate / waited["copies"]
        load = each * (0.75 * lengths[0] + 0.25 * lengths[1])
        # Runs below 1 are shares: half of the requests need one run of the bulk, as the means have it.
        squares = 0.75 * lengths[0] ** 2 + 0.5 * bulk["interval_seconds"] ** 2
        wait = each * squares / (2 * (1 - load))
        self.assertAlmostEqual(waited["request_seconds"] / (2 * bulk["latency_seconds"] + wait), 1, 9)

    # ---- requests that are wrong ----

    def test_what_is_refused(self):
        llm = LLM["llm"]
        for workload, code, where in (
                ({}, "WORKLOAD_FORM", None), ({"llm": llm, "phases": []}, "WORKLOAD_FORM", None),
                ({"llm": {"input": 5}}, "MEMBER_MISSING", "/llm"),
                ({"llm": {**llm, "inputs": 5}}, "MEMBER_UNKNOWN", "/llm/inputs"),
                ({"llm": {**llm, "input": []}}, "WORKLOAD_LENGTHS", "/llm/input"),
                ({"llm": {**llm, "input": [5, -1]}}, "MEMBER_RANGE", "/llm/input/1"),
                ({"llm": {**llm, "output": {"mean": 10, "p90": 2}}}, "WORKLOAD_LENGTHS", "/llm/output"),
                ({"llm": llm, "concurrency": "most"}, "MEMBER_RANGE", "/concurrency"),
                ({"llm": llm, "limits": {"ttft": 1}}, "MEMBER_UNKNOWN", "/limits/ttft"),
                ({"phases": []}, "WORKLOAD_PHASES", "/phases"),
                ({"phases": [{"name": "a"}, {"name": "a"}]}, "WORKLOAD_PHASES", "/phases/1/name"),
                ({"phases": [{"name": "a", "dims": {"x": -1}}]}, "INVALID_OPTION", "/phases/0/dims/x"),
                ({"phases": [{"name": "a"}], "concurrency": 1}, "MEMBER_UNKNOWN", "/concurrency")):
            with self.subTest(workload):
                self.refused(workload, code, where)

    def test_options_of_servers(self):
        """vLLM counts prompts and sequences of a step together, SGLang the prompts alone; without chunks neither cuts."""
        for more, of_vllm, of_sglang in (
                ({"chunked_prefill": 16}, "--enable-chunked-prefill --max-num-batched-tokens 28",
                 "--chunked-prefill-size 16 --enable-mixed-chunk"),
                ({}, "--no-enable-chunked-prefill", "--chunked-prefill-size -1")):
            plan = self.path("options.json")
            self.done("plan", self.model, "--cluster", self.cluster(1), "--workload",
                      self.workload({**LLM, **more}), "--plan", plan)
            for name, words in (("vllm-args", of_vllm), ("sglang-args", of_sglang)):
                said = self.done("export", plan, "--model", self.model, "--format", name).stdout.decode()
                self.assertTrue(said.endswith(f" {words}\n"), said)

    def test_files_of_a_service(self):
        """The plan is made again from its JSON, and its text says what users see."""
        plan = self.path("plan.json")
        cluster, workload = self.cluster(2), self.workload(LLM)
        text = self.done("plan", self.model, "--cluster", cluster, "--workload", workload, "--plan", plan).stdout.decode()
        text = " ".join(text.split())  # where a line breaks depends on how long the figures are
        for words in ("Users see first token after", "tokens per second", "sequences in flight", "prefill", "decode"):
            self.assertIn(words, text)
        self.done("export", plan, "--model", self.model, "--format", "csv", "-o", self.path("plan.csv"))

    def test_models_of_phases(self):
        """Each phase has models of the devices, in its configuration of one annotated model; other files go with a new plan."""
        out = self.path("out")
        slow = {"memory_bandwidth": 1e8, "link_bandwidth": 1e9}
        words = ("--cluster", self.cluster(4, **slow), "--emit", out, "--no-simulation", "--objective", "latency")
        self.done("plan", self.model, *words, "--workload", self.workload(LLM))
        with open(os.path.join(out, "plan.json"), encoding="utf-8") as file:
            phases = json.load(file)["service"]["phases"]
        with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        self.assertEqual([phase["name"] for phase in manifest["phases"]], ["prefill", "decode"])
        for phase, listed in zip(phases, manifest["phases"]):
            self.assertEqual((phase["configuration"], phase["dims"]), (listed["configuration"], listed["dims"]))
            self.assertEqual("devices" in listed, not phase["planned"])
            for device in listed.get("devices", manifest["devices"]):
                for part in device["parts"]:
                    self.assertTrue(os.path.exists(os.path.join(out, part["model"])))
        annotated = os.path.join(out, "annotated.onnx")
        names = {"shardplan", *(phase["configuration"] for phase in phases)}
        found = {one["name"] for one in self.json("inspect", annotated)["configurations"]}
        self.assertEqual(found, names)
        self.done("check", annotated)
        if len(names) > 1:
            done = test_cli.run("export", annotated, "--format", "csv", "-o", self.path("one.csv"))
            self.assertIn(b"'shardplan.", done.stderr)
        other, = (phase["name"] for phase in phases if not phase["planned"])
        before = set(os.listdir(out))
        self.assertTrue(any(name.endswith(f".{other}.onnx") for name in before), before)
        sizes = [word for name, value in phases[1]["dims"].items() for word in ("--dim", f"{name}={value}")]
        self.done("plan", self.model, *words, *sizes)
        self.assertFalse(any(name.endswith(f".{other}.onnx") for name in os.listdir(out)))


if __name__ == "__main__":
    unittest.main()
