"""Requests that are cut in micro-batches."""
import json
import os
import unittest

import jsonschema
import test_cli

DATA = os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(test_cli.TOP, "../shared/data"))
LLAMA = os.path.join(DATA, "models/llama_tiny_dyn.onnx")


def node(name, op, inputs, outputs, **attributes):
    return {"name": name, "op": op, "inputs": inputs, "outputs": outputs, "attributes": attributes}


def near(a, b):
    return abs(a - b) <= 1e-9 * abs(b)


class Micro(test_cli.Case):
    def layers(self, count=4, batch="batch", tail=()):
        """x [batch, 256] through Gemm and Relu; `tail` are nodes between "last" and "y"."""
        nodes, name = [], "x"
        for i in range(count):
            nodes += [node(f"product{i}", "MatMul", [name, f"w{i}"], [f"p{i}"]), node(f"relu{i}", "Relu", [f"p{i}"], [f"r{i}"])]
            name = f"r{i}"
        nodes += [node("last", "Relu", [name], ["last"]), *(tail or [node("end", "Sigmoid", ["last"], ["y"])])]
        graph = {"name": "layers", "inputs": [{"name": "x", "dtype": "float32", "shape": [batch, 256]}],
                 "initializers": [{"name": f"w{i}", "dtype": "float32", "shape": [256, 256]} for i in range(count)],
                 "outputs": ["y"], "opset": 21, "nodes": nodes}
        return self.file(f"{len(os.listdir(self.folder))}.json", json.dumps(graph).encode())

    def cluster(self, count=2):
        device = {"name": "d", "memory_bytes": 1e9, "memory_bandwidth": 1e12, "flops": {"float32": 1e10}}
        text = {"runtime": "generic", "launch_seconds": 1e-9, "groups": [{"count": count, "device": device}],
                "mesh": [{"name": "gpu", "size": count, "bandwidth": 1e11, "latency": 1e-7}]}
        return self.file("cluster.json", json.dumps(text).encode())

    def refused(self, code, *arguments, status=2):
        done = self.done("plan", *arguments, status=status)
        self.assertIn(f"[{code}]", done.stderr.decode())
        return done.stderr.decode()

    PIPELINE = ("--strategy", "pipeline", "--objective", "latency")

    def test_figures_are_of_whole_requests(self):
        model, cluster = self.layers(), self.cluster()
        plan = self.json("plan", model, "--cluster", cluster, *self.PIPELINE, "--batch", "32", "--micro-batches", "4",
                         "--tolerance", "0")
        micro, estimate = plan["micro_batches"], plan["estimate"]
        self.assertEqual((micro["count"], micro["batch"], micro["dimension"]), (4, 32, "batch"))
        self.assertEqual(micro["inputs"], [{"name": "x", "axis": 0}])
        self.assertEqual(micro["outputs"], [{"name": "y", "axis": 0}])
        self.assertEqual(len(plan["stages"]), 2)
        self.assertTrue(near(estimate["latency_seconds"], micro["latency_seconds"] + 3 * micro["interval_seconds"]))
        self.assertTrue(near(estimate["interval_seconds"], 4 * micro["interval_seconds"]))
        self.assertTrue(near(max(stage["seconds"] for stage in plan["stages"]), estimate["interval_seconds"]))
        self.assertTrue(near(estimate["latency_range"]["value"], estimate["latency_seconds"]))
        self.assertTrue(near(estimate["interval_range"]["value"], estimate["interval_seconds"]))
        self.assertTrue(near(sum(item["bytes"] for item in plan["collectives"]), estimate["communication_bytes"]))
        for device in plan["devices"]:
            busy = max(device["compute_seconds"], device["communication_seconds"])
            self.assertTrue(near(busy + device["idle_seconds"], estimate["interval_seconds"]))
        chosen = [item for item in plan["search"]["alternatives"] if item["chosen"]][0]
        self.assertTrue(near(chosen["interval_seconds"], estimate["interval_seconds"]))
        whole = self.json("plan", model, "--cluster", cluster, *self.PIPELINE, "--batch", "32")
        self.assertNotIn("micro_batches", whole)
        self.assertLess(estimate["latency_seconds"], whole["estimate"]["latency_seconds"] * 0.8)
        self.assertTrue(near(sum(device["flops"] for device in plan["devices"]),
                             sum(device["flops"] for device in whole["devices"])))

    def test_the_text_says_what_one_part_takes(self):
        text = self.done("plan", self.layers(), "--cluster", self.cluster(), *self.PIPELINE, "--batch", "32",
                         "--micro-batches", "4").stdout.decode()
        self.assertRegex(text, r"(?m)^Micro-      4 of 8 each \('batch'\): one takes ")

    def test_auto_takes_the_fewest_that_are_near_the_best(self):
        model, cluster = self.layers(), self.cluster()
        words = ["plan", model, "--cluster", cluster, *self.PIPELINE, "--dim", "batch=16"]
        plan = self.json(*words, "--micro-batches", "auto")
        trials = plan["micro_batches"]["trials"]
        self.assertEqual([trial["count"] for trial in trials][:3], [1, 2, 4])
        best = min(trial["latency_seconds"] for trial in trials)
        near_best = [trial for trial in trials if trial["latency_seconds"] <= best * 1.02]
        chosen = [trial for trial in trials if trial["chosen"]]
        self.assertEqual(chosen, near_best[:1])
        self.assertEqual(chosen[0]["count"], plan["micro_batches"]["count"])
        self.assertGreater(chosen[0]["count"], 1)
        self.assertTrue(near(plan["estimate"]["latency_seconds"], chosen[0]["latency_seconds"]))
        for trial in trials:
            alone = self.json(*words, "--micro-batches", str(trial["count"]))["estimate"]
            self.assertEqual((alone["latency_seconds"], alone["interval_seconds"]),
                             (trial["latency_seconds"], trial["interval_seconds"]))
        self.assertIn("; with 1 a request takes ", plan["micro_batches"]["because"])

    def test_throughput_is_no_better_in_parts(self):
        plan = self.json("plan", self.layers(), "--cluster", self.cluster(), "--batch", "16", "--micro-batches", "auto")
        self.assertEqual(plan["micro_batches"]["count"], 1)

    def test_what_mixes_the_batch_is_named(self):
        cluster = self.cluster()
        tails = {"mean": [node("mean", "ReduceMax", ["last"], ["m"], keepdims=1), node("end", "Sub", ["last", "m"], ["y"])],
                 "soft": [node("soft", "Softmax", ["last"], ["y"], axis=0)],
                 "turned": [node("t", "Transpose", ["last"], ["tt"], perm=[1, 0]),
                            node("turned", "MatMul", ["tt", "last"], ["y"])]}
        for name in ("mean", "soft", "turned"):
            with self.subTest(name):
                message = self.refused("MICRO_BATCHES_MIXED", self.layers(tail=tails[name]), "--cluster", cluster, "--batch",
                                       "8", "--micro-batches", "2")
                self.assertIn(f"node '{name}'", message)
        plan = self.json("plan", self.layers(tail=tails["soft"]), "--cluster", cluster, "--batch", "8", "--micro-batches",
                         "auto")
        self.assertNotIn("micro_batches", plan)
        self.assertIn("MICRO_BATCHES_ONE", [note["code"] for note in plan["diagnostics"]])

    def test_what_is_computed_of_the_size_of_the_batch_is_named(self):
        """The mean over all elements, written out; and numbers of rows. A number of columns is no matter."""
        def tail(axis):
            return [node("shape", "Shape", ["last"], ["s"], start=axis, end=axis + 1), node("cast", "Cast", ["s"], ["f"], to=1),
                    node("divide", "Div", ["last", "f"], ["y"])]
        rows = [node("shape", "Shape", ["last"], ["s"], start=0, end=1), node("zero", "Sub", ["s", "s"], ["z"]),
                node("count", "Squeeze", ["s"], ["n"]), node("from", "Squeeze", ["z"], ["a"]),
                node("step", "Div", ["n", "n"], ["one"]), node("range", "Range", ["a", "n", "one"], ["r"]),
                node("cast", "Cast", ["r"], ["rf"], to=1), node("column", "Unsqueeze", ["rf", "axes"], ["c"]),
                node("add", "Add", ["last", "c"], ["y"])]
        cluster, words = self.cluster(), ("--batch", "8", "--micro-batches", "2")
        message = self.refused("MICRO_BATCHES_MIXED", self.layers(tail=tail(0)), "--cluster", cluster, *words)
        self.assertIn("node 'divide' takes 'f'", message)
        self.assertEqual(self.json("plan", self.layers(tail=tail(1)), "--cluster", cluster, *words)["micro_batches"]["count"], 2)
        rows[-2] = node("column", "Reshape", ["rf", "to"], ["c"])
        rows.insert(-2, node("to", "Concat", ["s", "one_axis"], ["to"], axis=0))
        rows.insert(-3, node("one_axis", "Unsqueeze", ["one", "z"], ["one_axis"]))
        message = self.refused("MICRO_BATCHES_MIXED", self.layers(tail=rows), "--cluster", cluster, *words)
        self.assertIn("node 'add' takes 'c'", message)

    def test_what_cannot_be_cut_is_refused(self):
        cluster, model = self.cluster(), self.layers()
        self.assertIn("batch of 6", self.refused("MICRO_BATCHES_UNEVEN", model, "--cluster", cluster, "--batch", "6",
                                                 "--micro-batches", "4"))
        self.refused("MICRO_BATCHES_FIXED", self.layers(batch=8), "--cluster", cluster, "--micro-batches", "2")
        self.refused("MICRO_BATCHES_UNSUPPORTED", model, "--cluster", cluster, "--batch", "8", "--micro-batches", "2",
                     "--what-if")
        self.refused("MICRO_BATCHES_UNSUPPORTED", model, "--devices", "1,2", "--batch", "8", "--micro-batches", "2")
        self.refused("MICRO_BATCHES_UNSUPPORTED", model, "--cluster", cluster, "--batch", "8", "--micro-batches", "auto",
                     "--strategy", "routes")
        for wrong in ("0", "many", "-1", "5000"):
            self.assertIn(b"--micro-batches takes", self.done("plan", model, "--cluster", cluster, "--micro-batches", wrong,
                                                              status=2).stderr)

    # ---- services ----

    def served(self, *options, model=None, count=2, **workload):
        phases = [{"name": "single", "dims": {"batch": 1}, "share": 0.75},
                  {"name": "bulk", "dims": {"batch": 32}, "share": 0.25}]
        text = json.dumps({"phases": phases, **workload}).encode()
        plan = self.json("plan", model or self.layers(), "--cluster", self.cluster(count), "--workload",
                         self.file("workload.json", text), "--replicas", "1", *options)
        return plan, {phase["name"]: phase for phase in plan["service"]["phases"]}

    def test_phases_of_a_service_are_cut(self):
        """As the same step is alone: a phase of one stays whole."""
        model, words = self.layers(), ("--tolerance", "0", "--micro-batches", "4")
        plan, phases = self.served(*self.PIPELINE, *words, model=model)
        alone = self.json("plan", model, "--cluster", self.cluster(), *self.PIPELINE, "--batch", "32", *words)["estimate"]
        self.assertEqual((phases["single"]["micro_batches"], phases["bulk"]["micro_batches"]), (1, 4))
        for name in ("latency_seconds", "interval_seconds"):
            self.assertTrue(near(phases["bulk"][name], alone[name]))
        self.assertTrue(near(plan["service"]["request_seconds"], alone["latency_seconds"]))
        text = self.done("plan", model, "--cluster", self.cluster(), "--workload", self.path("workload.json"), "--replicas",
                         "1", *self.PIPELINE, *words).stdout.decode()
        self.assertIn("  in 4 micro-batches, one behind the other\n", text)

    def test_a_service_takes_what_is_best_within_its_limits(self):
        """On a pipeline that throughput takes, more parts make a request shorter: as many as the limit needs."""
        words = ("--strategy", "pipeline", "--micro-batches")
        _, whole = self.served(*words, "1", limits={"request_seconds": 10})
        rows = {count: self.served(*words, str(count), "--objective", "latency")[1]["bulk"] for count in (1, 2, 4, 8, 16)}
        self.assertEqual([rows[count]["micro_batches"] for count in rows], list(rows))
        limit = (rows[2]["latency_seconds"] + rows[4]["latency_seconds"]) / 2
        done = self.done("plan", self.path("0.json"), "--cluster", self.cluster(), "--workload", self.file(
            "limited.json", json.dumps({"phases": [{"name": "bulk", "dims": {"batch": 32}}],
                                        "limits": {"request_seconds": limit}}).encode()),
                         "--replicas", "1", "--strategy", "pipeline", "--micro-batches", "2", status=3)
        self.assertIn(b"[LIMIT_NOT_KEPT]", done.stderr)
        plan, phases = self.served("--strategy", "pipeline", limits={"request_seconds": limit})
        self.assertEqual((whole["bulk"]["micro_batches"], len(plan["stages"])), (1, 2))
        self.assertLessEqual(plan["service"]["request_seconds"], limit)
        self.assertGreaterEqual(phases["bulk"]["micro_batches"], 4)
        _, best = self.served(*words, "auto", "--objective", "latency", "--tolerance", "0")
        self.assertLessEqual(best["bulk"]["latency_seconds"], min(row["latency_seconds"] for row in rows.values()) * 1.001)

    def test_files_say_which_phases_are_cut(self):
        out = self.path("out")
        plan, phases = self.served(*self.PIPELINE, "--micro-batches", "4", "--emit", out, model=self.layers())
        with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        with open(os.path.join(test_cli.TOP, "api/schema/manifest.schema.json"), encoding="utf-8") as file:
            jsonschema.Draft202012Validator(json.load(file)).validate(manifest)
        self.assertEqual(phases["bulk"]["configuration"], "shardplan")
        for phase in manifest["phases"]:
            of = phase if "devices" in phase else manifest
            count = phases[phase["name"]]["micro_batches"]
            self.assertEqual(of.get("micro_batches", {}).get("count", 1), count)
        self.assertEqual(plan["micro_batches"]["count"], 4)
        # The plan is made again from its own file.
        rows = self.done("export", os.path.join(out, "plan.json"), "--model", self.path("0.json"), "--format",
                         "csv-devices").stdout.decode().splitlines()
        self.assertEqual(len(rows), 3)

    def test_simulated_requests_wait_as_long_as_the_plan_says(self):
        plan, phases = self.served(*self.PIPELINE, "--micro-batches", "4", "--plan", self.path("plan.json"))
        rate = 0.5 / sum(phase["runs_per_request"] * phase["interval_seconds"] for phase in phases.values())
        written = self.path("plan.json")
        self.served(*self.PIPELINE, "--micro-batches", "4", "--plan", written, rate_per_second=rate)
        with open(written, encoding="utf-8") as file:
            service = json.load(file)["service"]
        told = service["request_seconds"] - plan["service"]["request_seconds"]
        simulated = self.json("simulate", written, "--requests", "50000")
        self.assertAlmostEqual(simulated["queue_seconds"]["mean"] / told, 1, delta=0.1)

    def test_sweeps_and_what_if_of_services_are_cut(self):
        model, workload = self.layers(), self.file("w.json", json.dumps(
            {"phases": [{"name": "bulk", "dims": {"batch": 32}}]}).encode())
        swept = self.json("plan", model, "--devices", "2,4", "--device", "l4-24gb", "--workload", workload,
                          "--micro-batches", "4", "--replicas", "1")
        self.assertEqual(len(swept["service"]["clusters"]), 2)
        self.assertEqual(swept["service"]["phases"][0]["micro_batches"], 4)
        changed = self.json("plan", model, "--cluster", self.cluster(), "--workload", workload, "--micro-batches", "4",
                            "--what-if")
        self.assertIn("what_if", changed)
        written = self.path("plan.json")
        self.done("plan", model, "--cluster", self.cluster(), "--workload", workload, "--micro-batches", "4", "--plan", written)
        done = self.done("replan", model, "--from", written, "--cluster", self.cluster(3), status=2)
        self.assertIn(b"[MICRO_BATCHES_UNSUPPORTED]", done.stderr)

    def test_a_number_that_divides_no_phase_is_refused(self):
        text = json.dumps({"phases": [{"name": "a", "dims": {"batch": 1}}, {"name": "b", "dims": {"batch": 32}}]}).encode()
        self.refused("MICRO_BATCHES_UNEVEN", self.layers(), "--cluster", self.cluster(), "--workload",
                     self.file("w.json", text), "--micro-batches", "3")
        tail = [node("soft", "Softmax", ["last"], ["y"], axis=0)]
        words = (self.layers(tail=tail), "--cluster", self.cluster(), "--workload", self.path("w.json"))
        self.refused("MICRO_BATCHES_MIXED", *words, "--micro-batches", "4")
        plan = self.json("plan", *words, *self.PIPELINE)
        self.assertEqual([phase["micro_batches"] for phase in plan["service"]["phases"]], [1, 1])

    @unittest.skipUnless(os.path.exists(LLAMA), "the test data are not there")
    def test_a_written_plan_is_made_again(self):
        written, cluster = self.path("plan.json"), self.cluster()
        for count in ("4", "auto"):
            with self.subTest(count):
                plan = self.json("plan", LLAMA, "--cluster", cluster, *self.PIPELINE, "--dim", "batch=8", "--dim", "seq=16",
                                 "--micro-batches", count, "--plan", written)
                rows = self.done("export", written, "--model", LLAMA, "--format", "csv-devices").stdout.decode().splitlines()
                at = rows[0].split(",").index("compute_seconds")
                self.assertEqual(len(rows), 1 + plan["estimate"]["devices_used"])
                self.assertTrue(near(float(rows[1].split(",")[at]), plan["devices"][0]["compute_seconds"]))


if __name__ == "__main__":
    unittest.main()
