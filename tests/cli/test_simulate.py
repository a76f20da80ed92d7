#!/usr/bin/env python3
"""`shardplan simulate`: requests of a plan for a service one by one, held to what the plan's times say of each."""

import json
import math
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402

sys.path.insert(0, os.path.join(test_cli.TOP, "tests/tools"))
sys.path.insert(0, os.path.join(test_cli.TOP, "tests/api"))

import decoder_graph  # noqa: E402
from contract import Contract  # noqa: E402

DEVICE = {"name": "small", "memory_bytes": 4e6, "memory_bandwidth": 1e10, "link_bandwidth": 1e9,
          "flops": {"float16": 1e11, "float32": 1e11}}
CLUSTER = {"groups": [{"count": 2, "price_per_hour": 3, "device": DEVICE}]}
LLM = {"llm": {"input": 40, "output": 20}, "concurrency": 12}
PHASES = {"phases": [{"name": name, "dims": {"batch_size": batch, "sequence_length": 16, "past_sequence_length": 0,
                                             "total_sequence_length": 16}, "share": share}
                     for name, batch, share in (("single", 1, 0.75), ("bulk", 8, 0.25))]}
PERCENTILES = ("p50", "p90", "p95", "p99", "max")


class Simulate(test_cli.Case):
    plans = {}

    def plan_path(self, name="llm", workload=LLM):
        """Planned once for all tests."""
        if name not in self.plans:
            model = self.file("decoder.json", json.dumps(decoder_graph.decoder(**decoder_graph.TINY)).encode())
            cluster = self.file("cluster.json", json.dumps(CLUSTER).encode())
            asked = self.file("workload.json", json.dumps(workload).encode())
            self.plans[name] = self.done("plan", model, "--cluster", cluster, "--workload", asked, "--json").stdout
            with open(os.path.join(test_cli.TOP, "api/schema/plan.schema.json"), encoding="utf-8") as file:
                Contract.hold(json.loads(self.plans[name]), json.load(file), "plan")
        return self.file(name + "-plan.json", self.plans[name])

    def times(self):
        return json.loads(self.plans["llm"])["service"]["times"]

    def refused(self, code, *arguments, status=2):
        error = json.loads(test_cli.run("simulate", *arguments, "--json").stdout)["error"]
        self.assertEqual(error["code"], code, error)
        self.done("simulate", *arguments, status=status)
        return error

    def test_prompts_in_chunks_run_beside_steps(self):
        """One request takes its chunks one behind the other; the formula's means are near the events'."""
        path = self.plan_path("chunked", {**LLM, "chunked_prefill": 16})
        times = json.loads(self.plans["chunked"])["service"]["times"]
        one = self.json("simulate", path, "--trace", self.file("one.csv", b"seconds,input,output\n7,40,20\n"))
        rows, alone = times["chunks"], 0
        for positions, past in ((16, 0), (16, 16), (8, 32)):
            low = max(i for i, row in enumerate(rows[:-1]) if row["positions"] < positions or i == 0)
            a, b = rows[low:low + 2]
            share = (positions - a["positions"]) / (b["positions"] - a["positions"])
            of_a, of_b = (row["interval_seconds"] + past * row["seconds_per_position"] for row in (a, b))
            alone += of_a + share * (of_b - of_a)
        self.assertAlmostEqual(one["ttft_seconds"]["mean"] / (times["request_seconds"] + alone), 1, 6)
        three = self.json("simulate", path, "--concurrency", "6", "--trace",
                          self.file("three.csv", b"seconds,input,output\n" + 6 * b"7,40,20\n"))
        self.assertGreater(three["tpot_seconds"]["max"], one["tpot_seconds"]["mean"])
        self.assertLess(three["tpot_seconds"]["max"], 6 * (one["tpot_seconds"]["mean"] + alone / 19))
        random = self.json("simulate", path, "--rate", "20", "--requests", "2000")
        for name in ("ttft_seconds", "tpot_seconds", "request_seconds"):
            self.assertAlmostEqual(random["formula"][name] / random[name]["mean"], 1, delta=0.1)

    def test_one_request_takes_what_the_plan_says(self):
        path = self.plan_path()
        trace = self.file("trace.csv", b"seconds,input,output\n7,40,20\n")
        seen = self.json("simulate", path, "--trace", trace)
        times = self.times()
        prompt, = (row for row in times["prompts"] if row["positions"] == 40)
        step = next(row for row in times["steps"] if row["sequences"] == 1)
        first = prompt["latency_seconds"] + times["request_seconds"]
        rest = sum(step["seconds"] + step["seconds_per_position"] * (40 + i - step["past"]) for i in range(19))
        self.assertEqual((seen["arrivals"], seen["requests"]), ("trace", 1))
        for name in PERCENTILES:
            self.assertAlmostEqual(seen["ttft_seconds"][name] / first, 1, 9)
            self.assertAlmostEqual(seen["tpot_seconds"][name] / (rest / 19), 1, 9)
            self.assertAlmostEqual(seen["request_seconds"][name] / (first + rest), 1, 9)
            self.assertEqual(seen["queue_seconds"][name], 0)
        self.assertAlmostEqual(seen["in_flight"]["mean"], 1, 9)

    def test_percentiles_ascend_and_follow_from_the_seed(self):
        path = self.plan_path()
        most = json.loads(self.plans["llm"])["service"]["capacity_per_second"]
        asked = ("simulate", path, "--rate", str(0.6 * most), "--requests", "2000")
        seen = self.json(*asked, "--seed", "5")
        for name in ("ttft_seconds", "tpot_seconds", "request_seconds", "queue_seconds"):
            values = [seen[name][percentile] for percentile in PERCENTILES]
            self.assertEqual(values, sorted(values))
        self.assertEqual((seen["requests"], seen["seed"], seen["arrivals"]), (2000, 5, "poisson"))
        self.assertEqual(seen, self.json(*asked, "--seed", "5"))
        self.assertNotEqual(seen["ttft_seconds"], self.json(*asked, "--seed", "6")["ttft_seconds"])
        # Little's law, over the window: what runs is what came times how long it took from its prompt on.
        flying = seen["request_seconds"]["mean"] - seen["queue_seconds"]["mean"] - self.times()["request_seconds"]
        self.assertAlmostEqual(seen["in_flight"]["mean"] / (seen["requests_per_second"] * flying), 1, delta=0.05)
        self.assertAlmostEqual(seen["formula"]["request_seconds"] / seen["request_seconds"]["mean"], 1, delta=0.1)

    def test_a_closed_loop_and_the_rate_of_a_workload(self):
        seen = self.json("simulate", self.plan_path(), "--requests", "500")
        self.assertEqual((seen["arrivals"], seen["concurrency"]), ("closed", 12))
        self.assertLessEqual(seen["in_flight"]["max"] + seen["waiting"]["max"], 24)
        formula = json.loads(self.plans["llm"])["service"]
        self.assertAlmostEqual(seen["formula"]["tpot_seconds"] / formula["tpot_seconds"], 1, 6)
        self.assertAlmostEqual(seen["requests_per_second"] / formula["requests_per_second"], 1, delta=0.1)
        fewer = self.json("simulate", self.plan_path(), "--requests", "500", "--concurrency", "2")
        self.assertEqual(fewer["in_flight"]["max"], 2)
        path = self.plan_path("rate", {"llm": LLM["llm"], "rate_per_second": 50})
        self.assertEqual(self.json("simulate", path, "--requests", "300")["rate_per_second"], 50)
        self.assertEqual(self.json("simulate", path, "--requests", "300", "--closed-loop")["arrivals"], "closed")

    def test_phases_wait_for_each_other(self):
        """One copy, one request at a time: the mean wait of M/G/1, from the plan's own times."""
        path = self.plan_path("phases", PHASES)
        service = json.loads(self.plans["phases"])["service"]
        busy = [(phase["interval_seconds"], share) for phase, share in zip(service["phases"], (0.75, 0.25))]
        mean = sum(seconds * share for seconds, share in busy)
        square = sum(seconds ** 2 * share for seconds, share in busy)
        rate = 0.5 / mean
        seen = self.json("simulate", path, "--rate", str(rate * service["copies"]), "--requests", "100000", "--balance",
                         "random")
        self.assertNotIn("ttft_seconds", seen)
        self.assertAlmostEqual(seen["queue_seconds"]["mean"] / (rate * square / (2 * (1 - rate * mean))), 1, delta=0.05)

    def test_pools_follow_from_their_phases(self):
        """TTFT, the bound of the rate and the bytes that are sent, computed again from the plan's own times; and the
        formula against the events."""
        path = self.plan_path("pools", {**LLM, "pools": "separate", "concurrency": "best"})
        service = json.loads(self.plans["pools"])["service"]
        pools, (prefill, decode) = service["pools"], service["phases"]
        prompts, steps, sent = pools["prefill"], pools["decode"], pools["transfer"]
        self.assertEqual(service["devices"], 2)
        self.assertEqual((prompts["copies"], steps["copies"], service["copies"]), (1, 1, 1))
        self.assertEqual(sent["bytes_per_request"], 40 * 2 * 2 * 2 * 16 * 2)  # positions, layers, k and v, heads, width, bytes
        self.assertAlmostEqual(sent["seconds"] / (sent["bytes_per_request"] / 1e9 + 5e-6), 1, 6)  # and a latency
        rate, interval = service["requests_per_second"], prefill["interval_seconds"]
        self.assertLess(rate, min(prompts["capacity_per_second"], steps["capacity_per_second"]))
        self.assertAlmostEqual(prompts["capacity_per_second"] * interval, 1, 9)
        wait = sum(rate * each ** 2 / (2 * (1 - rate * each)) for each in (interval, sent["seconds"]))
        ttft = service["times"]["request_seconds"] + prefill["latency_seconds"] + sent["seconds"] + wait
        self.assertAlmostEqual(service["ttft_seconds"] / ttft, 1, 9)
        self.assertGreaterEqual(service["tpot_seconds"], decode["latency_seconds"] * 0.9)
        seen = self.json("simulate", path, "--rate", str(0.7 * rate), "--requests", "5000")
        for name in ("ttft_seconds", "tpot_seconds", "request_seconds"):
            self.assertAlmostEqual(seen["formula"][name] / seen[name]["mean"], 1, delta=0.1)
        self.refused("POOLS_CLOSED_LOOP", path)

    def test_the_best_of_pools_and_shared_devices(self):
        rates = {}
        for pools in ("shared", "separate", "best"):
            self.plan_path(pools, {**LLM, "pools": pools, "concurrency": "best"})
            rates[pools] = json.loads(self.plans[pools])["service"]["requests_per_second"]
        self.assertGreaterEqual(rates["best"] * 1.021, max(rates.values()))
        rows = json.loads(self.plans["best"])["service"]["candidates"]
        self.assertEqual([row["prefill_copies"] for row in rows if "prefill_copies" in row], [1])

    def test_fronts_are_of_points_that_nothing_beats(self):
        self.plan_path("best", {**LLM, "pools": "best", "concurrency": "best"})
        service = json.loads(self.plans["best"])["service"]
        for name, key, gain in (("front_by_tpot", "tpot_seconds", lambda row: row["tokens_per_second_per_device"]),
                                ("front_by_price", "request_seconds", lambda row: -row["dollars_per_million_tokens"])):
            rows = service[name]
            self.assertGreater(len(rows), 2)
            for before, row in zip(rows, rows[1:]):
                self.assertLess(before[key], row[key])
                self.assertLess(gain(before), gain(row))
            for row in rows:
                devices = row["copies"] * row["devices_per_copy"] + \
                    row.get("prefill_copies", 0) * row.get("devices_per_prefill_copy", 0)
                rate = row["tokens_per_second_per_device"] * devices
                self.assertAlmostEqual(row["dollars_per_million_tokens"] / (3 * devices / 3600 / rate * 1e6), 1, 9)
        # Candidates with what was chosen in flight are among what the front was made of.
        for row in service["candidates"]:
            rate = row["requests_per_second"] * 20 / (row["copies"] * row["devices_per_copy"] + row.get("prefill_copies", 0)
                                                      * row.get("devices_per_prefill_copy", 0))
            self.assertTrue(any(point["tpot_seconds"] <= row["tpot_seconds"] * (1 + 1e-9)
                                and point["tokens_per_second_per_device"] >= rate * (1 - 1e-9)
                                for point in service["front_by_tpot"]), row)

    def test_text_is_for_people(self):
        text = self.done("simulate", self.plan_path(), "--rate", "50", "--requests", "200").stdout.decode()
        for word in ("Time to first token", "Time per output token", "p99", "Formula", "200 at random, 50"):
            self.assertIn(word, text)
        trace = self.file("trace.csv", b"seconds,input,output\n1,40,20\n2,30,5\n")
        self.assertNotIn("Formula", self.done("simulate", self.plan_path(), "--trace", trace).stdout.decode())

    def test_what_is_wrong_is_said(self):
        path = self.plan_path()
        bare = self.file("bare.json", b'{"plan": "1", "options": {}}')
        self.refused("PLAN_WITHOUT_SERVICE", bare)
        self.refused("PLAN_NOT_JSON", self.file("none.json", b"{"))
        plan = json.loads(self.plans["llm"])
        del plan["service"]["times"]
        self.refused("PLAN_INVALID", self.file("old.json", json.dumps(plan).encode()))
        plan["service"]["times"] = {**self.times(), "steps": self.times()["steps"][::-1]}
        error = self.refused("PLAN_INVALID", self.file("mixed.json", json.dumps(plan).encode()))
        self.assertTrue(error["where"].startswith("/service/times/steps/"), error)
        plan["service"]["times"] = {**self.times(), "places": 0.5}
        self.refused("MEMBER_NUMBER", self.file("places.json", json.dumps(plan).encode()))
        trace = self.file("trace.csv", b"seconds,input,output\n1,40\n")
        self.assertEqual(self.refused("TRACE_INVALID", path, "--trace", trace)["where"], "line 2")
        for arguments in ([], [path, path], [path, "--rate", "0"], [path, "--rate", "5", "--closed-loop"],
                          [path, "--trace", trace, "--requests", "5"], [path, "--seed", "-1"], [path, "--balance", "best"],
                          [path, "--concurrency", "0"], [path, "--requests", "x"]):
            self.refused("USAGE", *arguments)
        self.refused("SIMULATED_REQUESTS", path, "--rate", "50", "--requests", "1000001")

    def test_more_than_is_served(self):
        """The queue grows; the formula has no end, which JSON says as null."""
        seen = self.json("simulate", self.plan_path(), "--rate", "1e6", "--requests", "300")
        self.assertIsNone(seen["formula"]["ttft_seconds"])
        self.assertGreater(seen["queue_seconds"]["p99"], seen["queue_seconds"]["p50"])
        self.assertTrue(math.isfinite(seen["queue_seconds"]["max"]))


if __name__ == "__main__":
    unittest.main()
