#!/usr/bin/env python3
"""The built `shardplan` as people and pipelines use it: options, exit codes, output, files.

The program under test is SHARDPLAN, or the sanitized build's: under the sanitizers every leak and every wrong access
ends the program with a status that no test expects. The daemon for --server is SHARDPLAND, or the sanitized build's.
"""

import hashlib
import json
import os
import pty
import resource
import select
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import jsonschema

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/tools"))
sys.dont_write_bytecode = True

import onnx_make  # noqa: E402
import recount  # noqa: E402

CLI = os.environ.get("SHARDPLAN", os.path.join(TOP, "build/sanitized/api/cli/shardplan"))
DAEMON = os.environ.get("SHARDPLAND", os.path.join(TOP, "build/sanitized/server/shardpland"))
RESNET = os.path.join(TOP, "tests/data/resnet50.onnx")
DEVICE = ["--device", "a100-sxm4-80gb"]
# Each operator is a kernel, so that even small models have something for a second device.
ALONE = [*DEVICE, "--runtime", "generic"]
PATIENCE = 120  # seconds until something that must happen counts as hanging

# Two devices so slow that splitting pays.
SLOW = json.dumps({"groups": [{"count": 2, "device": {"name": "slow", "memory_bytes": 1e9, "memory_bandwidth": 1e8,
                                                      "flops": {"float32": 1e6}}}],
                   "mesh": [{"name": "net", "size": 2, "bandwidth": 1e10, "latency": 1e-7}]}).encode()


def found():
    """A model with sizes that depend on data."""
    zeros = onnx_make.Weights("zero")
    return onnx_make.encode(onnx_make.model(*onnx_make.found(lambda name, *dims: zeros.tensor(name, dims))))


def clean_environment(**more):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SHARDPLAN_")}
    # Requests to the daemon on this machine go nowhere else.
    environment.update(no_proxy="127.0.0.1", NO_PROXY="127.0.0.1", **more)
    return environment


def run(*arguments, stdin=None, environment=None, cwd=None, program=CLI):
    """Runs the program; the memory of each plan that it makes is counted again."""
    command = recount.Command(arguments if program == CLI else (), stdin, cwd)
    done = subprocess.run(
        [program, *(command.arguments if program == CLI else arguments)],
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        cwd=cwd,
        env=environment or clean_environment(),
    )
    command.finish(done.returncode, done.stdout)
    return done


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.access(CLI, os.X_OK):
            raise unittest.SkipTest(f"{CLI} is not built")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="shardplan-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def external_weights(self):
        """The file where the weights of made models lie that have none inside: zeros that take no disk."""
        with open(self.path("weights.bin"), "ab") as file:
            file.truncate(1 << 34)

    def mlp(self, layers=4, width=512, batch=64, name="mlp.onnx"):
        self.external_weights()
        return self.file(name, onnx_make.encode(onnx_make.mlp(layers, width, batch, weights="external")))

    def done(self, *arguments, status=0, **more):
        result = run(*arguments, **more)
        self.assertEqual(result.returncode, status, result.stderr.decode(errors="replace")[:2000])
        if status == 0:
            self.assertNotIn(b"Sanitizer", result.stderr)
        else:
            self.assertRegex(result.stderr.decode(), r"(?m)^shardplan: .+\. \[[A-Z][A-Z0-9_]+\]")
        return result

    def json(self, *arguments, **more):
        return json.loads(self.done(*arguments, "--json", **more).stdout)

    def plan(self, model, devices, *arguments, **more):
        return self.json("plan", model, "--devices", str(devices), *DEVICE, *arguments, **more)


def readme(title):
    """The commands of a section of README.md that begin with '$ ', each with the lines that it prints there."""
    with open(os.path.join(TOP, "README.md"), encoding="utf-8") as file:
        section = file.read().split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line[4:] if line.startswith("    ") else None for line in section.splitlines()]
    while lines:
        line = lines.pop(0)
        if line is None or not line.startswith("$ "):
            continue
        command, printed = line[2:], []
        while command.endswith("\\") or command.count("'") % 2:
            command += "\n" + lines.pop(0)
        while lines and lines[0] is not None and not lines[0].startswith("$ "):
            printed.append(lines.pop(0))
        yield command, printed


class Readme(Case):
    """What README.md says that commands print."""

    def check(self, title):
        """Runs the section's commands of the product; how many there were."""
        folder = self.path("bin")
        os.mkdir(folder)
        os.symlink(os.path.abspath(CLI), os.path.join(folder, "shardplan"))
        os.symlink(os.path.join(TOP, "tests"), self.path("tests"))
        path, count = folder + ":" + os.environ["PATH"], 0
        for command, printed in readme(title):
            if not command.startswith("shardplan"):
                continue
            with self.subTest(command):
                done = run("-c", command, program="bash", cwd=self.folder, environment=clean_environment(PATH=path))
                self.assertEqual(done.stdout.decode().splitlines(), printed, done.stderr)
            count += 1
        return count


class Usage(Case):
    def test_help_and_version(self):
        self.assertIn(b"Usage: shardplan COMMAND", self.done("--help").stdout)
        self.assertRegex(self.done("--version").stdout, rb"^shardplan \d+\.\d+\.\d+\n$")
        for command in ("inspect", "check", "infer", "plan", "strip", "export", "convert", "reshard", "operators",
                        "devices", "calibrate", "models", "plans", "jobs", "replan", "cluster"):
            text = self.done(command, "--help").stdout
            self.assertIn(f"Usage: shardplan {command}".encode(), text)
            self.assertEqual(self.done("help", command).stdout, text)
            self.assertEqual(self.done(command, "-h").stdout, text)

    def test_help_names_every_option(self):
        text = self.done("plan", "--help").stdout.decode()
        for option in ("devices", "device", "cluster", "objective", "strategy", "batch", "dim", "time-limit", "tolerance",
                       "first-fit", "seed", "output", "plan", "json", "server", "constraints", "choose", "what-if", "priority"):
            self.assertIn(f"--{option}", text)

    def test_wrong_usage_ends_with_2(self):
        model = self.mlp(1)
        devices = ["--devices", "2"]
        for arguments in (
            [],
            ["dance"],
            ["jobs", model],
            ["help", "dance"],
            ["inspect"],
            ["inspect", model, model],
            ["inspect", model, "--dim", "n"],
            ["inspect", model, "--dim", "n=-1"],
            ["inspect", model, "--dim", "n=1", "--dim", "n=2"],
            ["inspect", model, "--value", "x"],
            ["inspect", model, "--value", "x=maybe"],
            ["inspect", model, "--value", "none=1"],
            ["inspect", model, "--shape", "x"],
            ["inspect", model, "--shape", "x=2,,3"],
            ["inspect", model, "--shape", "none=2,3"],
            ["inspect", model, "--shapes", self.path("absent.json")],
            ["inspect", model, "--shapes", self.file("list.json", b"[1]")],
            ["inspect", model, "--dim", "n=two"],
            ["inspect", model, "--dim", "=2"],
            ["inspect", model, "--dim"],
            ["inspect", model, "--loud"],
            ["inspect", model, "--json=yes"],
            ["inspect", model, "--server", "ftp://example.org"],
            ["plan", model],
            ["plan", *devices],
            ["plan", model, "--devices", "0"],
            ["plan", model, "--devices", "-1"],
            ["plan", model, "--devices", "2,4,2"],
            ["plan", model, "--devices", "two"],
            ["plan", model, "--devices", "99999999999999999999"],
            ["plan", model, "--devices", "9999999"],
            ["plan", model, "--device", "a100-sxm4-80gb"],
            ["plan", model, *devices, "--device", "abacus"],
            ["plan", model, *devices, "--cluster", "c.json"],
            ["plan", model, "--cluster", self.path("absent.json")],
            ["plan", model, *devices, "--objective", "speed"],
            ["plan", model, *devices, "--strategy", "best"],
            ["plan", model, *devices, "--replicas", "0"],
            ["plan", model, *devices, "--batch", "0"],
            ["plan", model, *devices, "--time-limit", "0"],
            ["plan", model, *devices, "--tolerance", "1"],
            ["plan", model, *devices, "--tolerance", "-0.1"],
            ["plan", model, *devices, "--tolerance", "2%"],
            ["plan", model, *devices, "--time-limit", "nan"],
            ["plan", model, *devices, "--seed", "-1"],
            ["plan", model, *devices, "--constraints", "c.json"],
            ["plan", "-", *devices, "--constraints", "-"],
            ["plan", model, *devices, "-o", "-", "--json"],
            ["plan", model, *devices, "-o", "-", "--plan", "-"],
            ["plan", "-", "--cluster", "-"],
            ["strip", model],
            ["strip", model, "-o"],
            ["strip", model, "-o", "-", "--json"],
            ["devices", "h1000"],
            ["devices", "l4-24gb", "t4-16gb"],
            ["devices", "--server", "http://me:secret@127.0.0.1:1"],
            ["plan", model, *devices, "--priority", "low"],
            ["plan", model, *devices, "--server", "http://127.0.0.1:1", "--priority", "urgent"],
            ["devices", "--server", "http://127.0.0.1:1", "--client-key", "key.pem"],
        ):
            with self.subTest(arguments=arguments):
                self.done(*arguments, status=2)

    def test_errors_are_json_too(self):
        result = self.done("plan", self.path("absent.onnx"), "--devices", "2", "--json", status=2)
        error = json.loads(result.stdout)["error"]
        self.assertEqual(error["code"], "FILE_NOT_READABLE")
        self.assertEqual(error["status"], "request")
        result = self.done("dance", "--json", status=2)
        self.assertEqual(json.loads(result.stdout)["error"]["code"], "USAGE")

    def test_a_name_cannot_write_to_the_terminal(self):
        result = self.done("inspect", self.path("a\x1b[2J\nb"), status=2)
        self.assertNotIn(b"\x1b", result.stderr)


class Input(Case):
    def test_unreadable_files(self):
        os.mkdir(self.path("folder"))
        for path in (self.path("absent.onnx"), self.path("folder"), ""):
            with self.subTest(path=path):
                result = self.done("inspect", path, status=2)
                self.assertIn(b"[FILE_NOT_READABLE]", result.stderr)

    def test_what_is_no_model(self):
        for name, data in (("empty", b""), ("text", b"hello, world\n"), ("png", b"\x89PNG\r\n\x1a\n" + b"\0" * 64),
                           ("json", b'{"nodes": []}'), ("zip", b"PK\x03\x04" + b"\0" * 64), ("zeros", b"\0" * 4096)):
            for command in (["inspect"], ["plan", "--devices", "2"], ["strip", "-o", self.path("out")]):
                with self.subTest(data=name, command=command[0]):
                    self.done(*command, self.file(name, data), status=2)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_standard_input(self):
        with open(RESNET, "rb") as file:
            data = file.read()
        expected = self.json("inspect", RESNET)
        piped = self.json("inspect", "-", stdin=data)
        self.assertEqual(piped.pop("name"), "stdin")
        expected.pop("name")
        self.assertEqual(piped, expected)
        with open(RESNET, "rb") as file:
            result = subprocess.run([CLI, "inspect", "-", "--json"], stdin=file, capture_output=True, timeout=PATIENCE,
                                    check=True, env=clean_environment())
        self.assertEqual(json.loads(result.stdout)["node_count"], expected["node_count"])

    def test_a_cluster_from_standard_input(self):
        plan = self.json("plan", self.mlp(), "--cluster", "-", stdin=b'{"device": "a100-sxm4-80gb", "count": 2}')
        self.assertEqual(len(plan["devices"]), 2)


    def test_names_that_are_no_text(self):
        path = os.path.join(os.fsencode(self.folder), b"a\xff\xc3.onnx")
        with open(RESNET, "rb") as source, open(path, "wb") as file:
            file.write(source.read())
        self.assertEqual(self.json("inspect", path)["name"], "a??.onnx")
        self.assertEqual(self.plan(path, 2)["model"]["name"], "a??.onnx")
        result = self.done("inspect", os.path.join(os.fsencode(self.folder), b"\xff"), "--json", status=2)
        self.assertIn("?'", json.loads(result.stdout)["error"]["message"])


class Inspect(Case):
    def test_json_says_what_the_model_is(self):
        model = self.json("inspect", self.mlp(3, 256, 8))
        self.assertEqual(model["node_count"], 9)
        self.assertEqual(model["operators"], {"Add": 3, "MatMul": 3, "Relu": 3})
        self.assertEqual(model["opsets"], {"ai.onnx": 17})
        self.assertEqual(model["parameters"], 3 * (256 * 256 + 256))
        # 2 for a multiply-add, 1 for an addition and a Relu, for each element
        self.assertEqual(model["flops"], 3 * 8 * 256 * (2 * 256 + 2))
        self.assertEqual(model["inputs"], [{"name": "x", "dtype": "float32", "shape": [8, 256]}])
        self.assertEqual([output["name"] for output in model["outputs"]], ["y"])
        self.assertNotIn("values", model)
        self.assertEqual(model["configurations"], [])

    def test_values(self):
        values = self.json("inspect", self.mlp(2, 64, 8), "--values")["values"]
        self.assertEqual(values["m0"], {"dtype": "float32", "shape": [8, 64]})
        self.assertEqual(set(values), {"x", "y", "h0"} | {f"{kind}{layer}" for kind in "wbms" for layer in (0, 1)})

    def test_sizes(self):
        """Dimensions of data, values of inputs and shapes that nobody knows, by inspect, check, infer and plan."""
        description = {
            "opset": {"": 13, "own": 1},
            "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 8]}, {"name": "to", "dtype": "int64", "shape": [2]}],
            "nodes": [{"op": "NonZero", "inputs": ["x"], "outputs": ["found"]},
                      {"op": "Reshape", "inputs": ["x", "to"], "outputs": ["y"]},
                      {"op": "Blend", "domain": "own", "inputs": ["y"], "outputs": ["z"]}],
            "outputs": ["found", "y", {"name": "z", "dtype": "float16", "shape": ["p", "q"]}]}
        path = self.file("sizes.json", json.dumps(description).encode())
        sizes = ["--dim", "NonZero_0=5", "--dim", "x:0=4", "--value", "to=16,-1", "--shape", "z=float16 [n, max(2, n)]"]
        values = self.json("inspect", path, *sizes, "--values")["values"]
        self.assertEqual([values[name]["shape"] for name in ("x", "found", "y", "z")], [[4, 8], [2, 5], [16, 2], [4, 4]])
        self.assertEqual(values["z"]["dtype"], "float16")
        listed = self.file("listed.json", self.done("inspect", path, *sizes, "--values", "--json").stdout)
        again = self.json("inspect", path, "--shapes", listed, "--values")["values"]
        self.assertEqual([again[name]["shape"] for name in ("x", "y", "z")], [[4, 8], [16, 2], [4, 4]])
        for command in (["check"], ["infer", "--devices", "2"], ["plan", "--devices", "2", "--device", "l4-24gb"]):
            self.done(*command, path, *sizes, "--json")
            self.done(*command, path, "--shape", "y=3,3", "--value", "to=16,-1", "--dim", "n=4", status=2)
            self.done(*command, path, "--dim", "x:1=9", status=2)

    def test_symbols(self):
        path = self.mlp(1, 64, "batch")
        model = self.json("inspect", path)
        self.assertEqual((model["symbols"], model["flops"]), (["batch"], None))
        model = self.json("inspect", path, "--dim", "batch=4")
        self.assertEqual(model["inputs"][0]["shape"], [4, 64])
        self.assertEqual(model["flops"], 4 * 64 * (2 * 64 + 2))
        result = self.done("inspect", path, "--dim", "seq=4", status=2)
        self.assertIn(b"batch", result.stderr)

    def test_text(self):
        text = self.done("inspect", RESNET).stdout.decode()
        self.assertIn("resnet50.onnx", text)
        self.assertIn("Conv", text)
        self.assertRegex(text, r"(?m)^  \S+  float32 \[8, 3, 224, 224\]$")
        self.assertNotIn("Values", text)
        self.assertIn("Values", self.done("inspect", RESNET, "--values").stdout.decode())


class Plan(Case):
    def test_members_and_their_sums(self):
        plan = self.plan(self.mlp(8, 2048, 512), 4)
        self.assertEqual(plan["plan"], "1")
        self.assertEqual(len(plan["stages"]), 4)
        nodes = [node for stage in plan["stages"] for node in stage["nodes"]]
        self.assertEqual(len(nodes), 24)
        self.assertEqual(len(set(nodes)), 24)
        self.assertEqual([device["stage"] for device in plan["devices"]], [0, 1, 2, 3])
        for device in plan["devices"]:
            memory = device["memory"]
            self.assertEqual(memory["total_bytes"], memory["weights_bytes"] + memory["activations_peak_bytes"]
                             + memory["communication_bytes"])
            self.assertLessEqual(memory["total_bytes"], memory["capacity_bytes"])
        estimate = plan["estimate"]
        interval = max(stage["seconds"] for stage in plan["stages"])
        self.assertAlmostEqual(estimate["throughput_per_second"] * interval, 1)
        self.assertLessEqual(estimate["lower_bound_seconds"], interval * (1 + 1e-9))
        for name, figure in (("latency_range", "latency_seconds"), ("interval_range", "interval_seconds"),
                             ("throughput_range", "throughput_per_second")):
            self.assertEqual(estimate[name]["value"], estimate[figure])
            self.assertLess(estimate[name]["low"], estimate[figure])
            self.assertGreater(estimate[name]["high"], estimate[figure])
        memory = estimate["memory_range"]
        self.assertEqual(memory["value"], max(device["memory"]["total_bytes"] for device in plan["devices"]))
        self.assertTrue(memory["low"] < memory["value"] < memory["high"])
        self.assertAlmostEqual(sum(send["bytes"] for send in plan["collectives"]), estimate["communication_bytes"])
        for tensor in plan["tensors"]:
            self.assertTrue(tensor["because"])
            self.assertEqual(tensor["spec"]["onnx"]["tensor_name"], tensor["name"])
            self.assertEqual(len(tensor["spec"]["text"]), len(tensor["shape"]))

    def test_transfers_follow_the_edges(self):
        plan = self.plan(self.mlp(8, 2048, 512), 4)
        where = {node: stage["index"] for stage in plan["stages"] for node in stage["nodes"]}
        tensors = {tensor["name"]: tensor for tensor in plan["tensors"]}
        for send in plan["collectives"]:
            self.assertEqual(send["kind"], "send")
            self.assertEqual(where[send["after_node"]], send["from_stage"])
            self.assertLess(send["from_stage"], send["to_stage"])
            self.assertTrue(set(send["devices"]) <= set(tensors[send["tensor"]]["spec"]["onnx"]["device"]))

    def test_the_same_twice(self):
        path = self.mlp(8, 2048, 512)
        first, second = self.plan(path, 4), self.plan(path, 4)
        for plan in (first, second):
            del plan["search"]["seconds"], plan["proof"]["seconds"]
        self.assertEqual(first, second)
        self.assertNotEqual(first["id"], self.plan(path, 3)["id"])
        self.assertNotEqual(first["id"], self.plan(path, 4, "--objective", "latency")["id"])
        with open(path, "rb") as file:
            self.assertEqual(first["model"]["sha256"], hashlib.sha256(file.read()).hexdigest())

    def test_objectives(self):
        path = self.mlp(8, 2048, 512)
        self.assertEqual(len(self.plan(path, 4, "--objective", "devices")["stages"]), 1)
        fast, early = self.plan(path, 4), self.plan(path, 4, "--objective", "latency")
        self.assertLessEqual(early["estimate"]["latency_seconds"], fast["estimate"]["latency_seconds"])
        self.assertEqual(early["objective"], "latency")

    def test_options_are_recorded(self):
        plan = self.plan(self.mlp(2, 64, "batch"), 2, "--batch", "16", "--seed", "9", "--first-fit", "--strategy",
                         "grouping", "--time-limit", "60", "--tolerance", "0.1")
        self.assertEqual(plan["options"], {"strategy": "grouping", "batch": 16, "dims": {}, "optimal": False,
                                           "tolerance": 0.1, "seed": 9, "time_limit_seconds": 60})
        self.assertEqual(plan["search"]["seed"], 9)
        self.assertEqual(plan["diagnostics"], [])

    def test_constraints_are_kept_or_refused(self):
        path = self.mlp(8, 2048, 512)

        def constrained(constraints):
            with open(self.path("constraints.json"), "w", encoding="utf-8") as file:
                json.dump(constraints, file)
            return "--constraints", self.path("constraints.json")

        free = self.plan(path, 4)
        names = [name for stage in free["stages"] for name in stage["nodes"]]
        wish = {"max_stages": 2, "reserved_bytes": 1e9, "pins": [{"nodes": names[-1], "device": 2}]}
        plan = self.plan(path, 4, *constrained(wish))
        self.assertLessEqual(len(plan["stages"]), 2)
        self.assertIn(2, plan["stages"][-1]["devices"])
        self.assertEqual(plan["devices"][0]["memory"]["capacity_bytes"],
                         free["devices"][0]["memory"]["capacity_bytes"] - 1e9)
        self.assertEqual(plan["options"]["constraints"],
                         {**wish, "pins": [{"nodes": [names[-1]], "device": 2}]})
        self.assertNotEqual(plan["id"], free["id"])
        pinned = self.plan(path, 4, *constrained({"pins": [{"nodes": names[0], "stage": 0},
                                                           {"nodes": names[-1], "stage": 2}]}))
        self.assertIn(names[-1], pinned["stages"][2]["nodes"])
        for constraints, says in (
            ({"colour": 1}, b"/colour"),
            ({"pins": [{"nodes": "nothing-*", "stage": 0}]}, b"nothing-*"),
            ({"pins": [{"nodes": names[0], "stage": 1}, {"nodes": names[-1], "stage": 0}]}, b"CONSTRAINT_CONFLICT"),
            ({"pins": [{"nodes": names[0], "stage": 3}]}, b'Without the constraint "pins"'),
        ):
            with self.subTest(constraints=constraints):
                result = self.done("plan", path, "--devices", "4", *constrained(constraints), status=2)
                self.assertIn(says, result.stderr)
        with open(self.path("constraints.json"), "w", encoding="utf-8") as file:
            file.write("{")
        self.assertIn(b"not valid JSON", self.done("plan", path, "--devices", "4", "--constraints",
                                                   self.path("constraints.json"), status=2).stderr)

    def test_a_request_takes_no_longer_than_the_limit(self):
        path = self.mlp(8, 2048, 512)

        def figures(*options):
            plan = self.plan(path, 4, "--device", "l4-24gb", *options)
            return plan["estimate"]["latency_seconds"], plan["estimate"]["interval_seconds"], plan

        slow, interval, _ = figures("--tolerance", "0")
        fast, longer, _ = figures("--objective", "latency")
        self.assertLess(fast, slow)
        limit = (fast + slow) / 2
        latency, between, plan = figures("--max-latency", f"{limit * 1e6:.3f}us")
        self.assertLessEqual(latency, limit)
        self.assertLessEqual(interval, between * (1 + 1e-9))
        self.assertLessEqual(between, longer * 1.02)
        self.assertAlmostEqual(plan["options"]["constraints"]["max_latency_seconds"], limit, delta=1e-8)
        self.assertIn("LATENCY_NEAR_LIMIT", [note["code"] for note in plan["diagnostics"]])
        at_ease = figures("--max-latency", f"{slow * 1e6 + 1:.3f}us", "--tolerance", "0")
        self.assertAlmostEqual(at_ease[1], interval, delta=interval * 1e-6)
        result = self.done("plan", path, "--devices", "4", "--device", "l4-24gb", "--max-latency", f"{fast / 2}", status=2)
        self.assertIn(b"max_latency_seconds", result.stderr)
        self.assertIn(b"CONSTRAINT_UNSUPPORTED", result.stderr)
        self.file("limit.json", b'{"max_latency_seconds": 1}')
        self.done("plan", path, "--devices", "4", "--constraints", self.path("limit.json"), "--max-latency", "1s", status=2)
        for wrong in ("0", "-1", "fast", "1 s", ""):
            self.done("plan", path, "--devices", "4", "--max-latency", wrong, status=2)

    def test_a_plan_with_constraints_is_made_again(self):
        path, plan = self.mlp(4, 256, 8), self.path("constrained.json")
        with open(self.path("constraints.json"), "w", encoding="utf-8") as file:
            json.dump({"max_stages": 1, "forbid": [{"nodes": "*"}], "reserved_bytes": 5e8}, file)
        self.done("plan", path, "--devices", "2", "--constraints", self.path("constraints.json"), "--plan", plan)
        self.done("export", plan, "--model", path, "--format", "csv", "-o", self.path("constrained.csv"))

    def test_assumptions_are_noted(self):
        path = self.mlp(2, 64, "batch")
        notes = self.plan(path, 2)["diagnostics"]
        self.assertEqual([note["code"] for note in notes], ["DIMENSION_ASSUMED"])
        self.assertIn("--batch N", notes[0]["hint"])
        self.assertEqual(self.plan(path, 2, "--dim", "batch=3")["diagnostics"], [])
        self.done("plan", path, "--devices", "2", "--dim", "seq=3", status=2)
        self.done("plan", path, "--devices", "2", "--dim", "batch=3", "--batch", "4", status=2)

    def test_weights_of_which_a_byte_holds_several_count_by_elements(self):
        """64 x 8 weights of 4 bits in blocks of 32: 256 bytes, and 16 scales."""
        packed = onnx_make.delimited(5, *(onnx_make.integer(1, size) for size in (8, 2, 16)), onnx_make.integer(2, 2),
                                     onnx_make.delimited(8, "B"), onnx_make.delimited(9, bytes(256)))
        graph = [onnx_make.graph_input("x", [4, 64]), packed, onnx_make.Weights().tensor("scales", [16]),
                 onnx_make.node("MatMulNBits", ["x", "B", "scales"], ["y"], domain="com.microsoft", K=64, N=8, bits=4,
                                block_size=32), onnx_make.graph_output("y", [4, 8])]
        model = self.json("inspect", self.file("packed.onnx", onnx_make.encode(onnx_make.model(*graph))))
        self.assertEqual((model["parameters"], model["parameter_bytes"]), (64 * 8 + 16, 256 + 64))

    def test_a_plan_of_an_annotated_model_says_what_comes_of_that(self):
        model = self.file("annotated.onnx", onnx_make.encode(onnx_make.annotated()))
        notes = self.plan(model, 2, "--replicas", "1")["diagnostics"]
        self.assertEqual([note["code"] for note in notes], ["ANNOTATIONS_IGNORED"])
        self.assertIn("'two'", notes[0]["message"])

    def test_operators_without_a_rule_are_noted(self):
        graph = [onnx_make.graph_input("x", [4, 8]), onnx_make.node("Blend", ["x"], ["y"], "n", domain="own"),
                 onnx_make.graph_output("y", [4, 8])]
        path = self.file("own.onnx", onnx_make.encode(onnx_make.model(*graph)))
        self.assertEqual(self.json("inspect", path)["unknown_operators"], ["own.Blend"])
        notes = self.plan(path, 1)["diagnostics"]
        self.assertEqual([(note["code"], note["severity"], note["node"]) for note in notes],
                         [("DOMAIN_NOT_IMPORTED", "note", None), ("OPERATOR_WITHOUT_RULE", "warning", "n")])

    def test_a_model_without_work(self):
        path = self.file("none.onnx", onnx_make.encode(onnx_make.model(onnx_make.graph_input("x", [4]),
                                                                       onnx_make.graph_output("x", [4]))))
        plan = self.plan(path, 2)
        self.assertEqual(plan["estimate"]["throughput_per_second"], None)
        self.assertEqual(len(plan["stages"]), 1)
        self.done("plan", path, "--devices", "2", *DEVICE)

    def test_a_fixed_batch(self):
        path = self.mlp(2, 64, 8)
        self.plan(path, 2, "--batch", "8")
        self.assertIn(b"[BATCH_IS_FIXED]", self.done("plan", path, "--devices", "2", "--batch", "4", status=2).stderr)

    def test_the_default_device_is_said(self):
        result = self.done("plan", self.mlp(), "--devices", "2")
        self.assertIn(b"note: no --device is given", result.stderr)
        self.assertNotIn(b"note: no --device", self.done("plan", self.mlp(), "--devices", "2", *DEVICE).stderr)

    def test_nothing_fits(self):
        cluster = self.file("c.json", json.dumps({"groups": [{"name": "tiny", "count": 2, "device": {
            "name": "tiny", "memory_bytes": 1e6, "memory_bandwidth": 1e9, "flops": {"float32": 1e9}}}],
            "mesh": [{"name": "bus", "size": 2, "bandwidth": 1e9, "latency": 1e-6}]}).encode())
        result = self.done("plan", self.mlp(4, 512), "--cluster", cluster, "--json", status=3)
        error = json.loads(result.stdout)["error"]
        self.assertEqual(error["status"], "nofit")
        self.assertGreater(error["too_little_memory_bytes"], 1e6 - 1)
        self.assertIn(f"({error['least_memory_bytes']} bytes) on each device it would fit", error["message"])

    def test_the_memory_that_would_do_does(self):
        def plan(limit, status):
            cluster = self.file(f"{limit}.json", json.dumps({
                "groups": [{"count": 2, "device": {"name": "roomy", "memory_bytes": 1e9, "memory_bandwidth": 1e9,
                                                   "flops": {"float32": 1e9}}}],
                "mesh": [{"name": "bus", "size": 2, "bandwidth": 1e9, "latency": 1e-6}],
                "memory_limit_bytes": limit}).encode())
            return json.loads(self.done("plan", path, "--cluster", cluster, "--json", status=status).stdout)

        path = self.mlp(4, 512)
        error = plan(1e6, 3)["error"]
        least, little = error["least_memory_bytes"], error["too_little_memory_bytes"]
        self.assertLess(little, least)
        self.assertLessEqual(least - little, 0.001 * least)
        self.assertEqual(error["code"], "NO_PLAN_FITS")
        self.assertRegex(error["message"], r"on device \d+ \(roomy\).* are weights.*fullest at node '")
        self.assertLessEqual(max(d["memory"]["total_bytes"] for d in plan(least, 0)["devices"]), least)
        self.assertEqual(plan(little, 3)["error"]["least_memory_bytes"] > little, True)

    def test_why(self):
        plan = self.plan(self.mlp(8, 4096), 2)
        binding, second = plan["why"]["binding"], plan["why"]["second_best"]
        self.assertIn(binding["kind"], ("compute", "memory_bandwidth", "launch", "link", "bound"))
        self.assertTrue(binding["sentence"].endswith("."))
        found = [other for other in plan["search"]["alternatives"] if other["description"] == second["description"]]
        self.assertFalse(any(other["chosen"] for other in found), found)
        self.assertAlmostEqual(second["worse_by"],
                               max(0, second["interval_seconds"] - plan["estimate"]["interval_seconds"]), delta=1e-12)
        text = self.done("plan", self.mlp(8, 4096), "--devices", "2", *DEVICE).stdout.decode()
        self.assertIn("\nWhy         ", text)
        self.assertIn("The second best, " + second["description"].split()[0], text)

    def test_arenas_that_do_not_fit(self):
        """a (4000 bytes) is dead when b (8000) and c (12000) are made, but d, like a, gets its memory later: 20000 bytes
        are live at most, an arena takes 24000; x is 4000, and the weights are 4000 and 24 more."""
        graph = [onnx_make.graph_input("x", [1000]), onnx_make.Weights().tensor("w", [1000]),
                 onnx_make.ints("start", [0]), onnx_make.ints("limit", [1000]), onnx_make.ints("axis", [0]),
                 onnx_make.node("Neg", ["x"], ["a"]), onnx_make.node("Concat", ["a", "a"], ["b"], axis=0),
                 onnx_make.node("Concat", ["b", "w"], ["c"], axis=0),
                 onnx_make.node("Slice", ["c", "start", "limit", "axis"], ["d"]),
                 onnx_make.node("Concat", ["d", "d", "d", "d"], ["y"], axis=0), onnx_make.graph_output("y", [4000])]
        model = self.file("model.onnx", onnx_make.encode(onnx_make.model(*graph)))
        for capacity, expected in ((30000, ["ARENA_OVER_CAPACITY"]), (32024, [])):
            cluster = self.file("c.json", json.dumps({"count": 1, "device": {
                "name": "tiny", "memory_bytes": capacity, "memory_bandwidth": 1e9, "flops": {"float32": 1e9}}}).encode())
            plan = json.loads(self.done("plan", model, "--cluster", cluster, "--json").stdout)
            self.assertEqual([note["code"] for note in plan["diagnostics"]], expected, capacity)
            memory = plan["devices"][0]["memory"]
            self.assertEqual((memory["total_bytes"], memory["arena_bytes"]), (28024, 24000))
            text = self.done("plan", model, "--cluster", cluster).stdout.decode()
            self.assertEqual(text.count("ONNX Runtime would take about 32.0 kB of 30.0 kB"), len(expected))

    def test_names_do_not_reach_the_terminal_as_they_are(self):
        """Escape sequences and line breaks: in an error, and in a note of files that are not beside the model."""
        name = "a\x1b]0;b\x07\n\x7f\u009bc"
        model = self.file("model.onnx", onnx_make.encode(onnx_make.model(
            onnx_make.graph_input("x", [4]), onnx_make.node("Neg", [name], ["y"]), onnx_make.graph_output("y", [4]))))
        text = self.done("plan", model, "--devices", "2", *DEVICE, status=1).stderr.decode()
        self.assertIn("'a?]0;b????c'", text)
        os.mkdir(self.path("away"))
        weights = onnx_make.Weights("external", name)
        model = self.file("model.onnx", onnx_make.encode(onnx_make.model(
            onnx_make.graph_input("x", [4]), weights.tensor("w", [4]), onnx_make.node("Add", ["x", "w"], ["y"]),
            onnx_make.graph_output("y", [4]))))
        note = self.done("strip", model, "-o", self.path("away/model.onnx")).stderr.decode()
        self.assertIn("('a?]0;b????c')", note)
        for output in (text, note):
            self.assertEqual([c for c in output if not c.isprintable() and c != "\n"], [])

    def test_clusters_that_are_wrong(self):
        model = self.mlp(1)
        for text, status in ((b"{", 2), (b"[]", 2), (b"", 2), (b'{"device": "abacus", "count": 2}', 2),
                             (b'{"device": "a100-sxm4-80gb", "count": 2, "colour": 1}', 2),
                             (b'{"device": "a100-sxm4-80gb", "device": "a100-sxm4-80gb", "count": 2}', 2),
                             (b"[" * 100000, 2), (b"\xff\xfe", 2)):
            with self.subTest(text=text[:40]):
                self.done("plan", model, "--cluster", self.file("c.json", text), status=status)

    def test_a_cluster_of_groups(self):
        device = {"memory_bytes": 80e9, "memory_bandwidth": 2e12, "flops": {"float32": 2e13, "float16": 3e14}}
        cluster = {"groups": [{"name": "box", "count": 4, "device": {"name": "own", **device}}],
                   "mesh": [{"name": "node", "size": 2, "bandwidth": 25e9, "latency": 5e-6},
                            {"name": "gpu", "size": 2, "bandwidth": 300e9, "latency": 2e-6}],
                   "memory_limit_bytes": 60e9, "efficiency": 0.5}
        path = self.file("c.json", json.dumps(cluster).encode())
        plan = self.json("plan", self.mlp(8, 2048, 512), "--cluster", path)
        self.assertEqual(plan["devices"][0]["memory"]["capacity_bytes"], 60e9)
        # What a plan says of its cluster is a cluster that can be given again.
        again = self.file("again.json", json.dumps(plan["cluster"]).encode())
        self.assertEqual(self.json("plan", self.mlp(8, 2048, 512), "--cluster", again)["stages"], plan["stages"])

    def test_text_fits_a_terminal(self):
        text = self.done("plan", RESNET, "--devices", "4", *DEVICE).stdout.decode()
        for word in ("resnet50.onnx", "a100-sxm4-80gb", "Stage", "Transfer", "Estimate", "Bound", "Bottleneck",
                     "(90%: "):
            self.assertIn(word, text)
        for line in text.splitlines():
            self.assertLessEqual(len(line), 110, line)

    def test_a_time_limit_that_is_too_short(self):
        path = self.file("long.onnx", onnx_make.encode(onnx_make.diamonds(20000)))
        result = self.done("plan", path, "--devices", "8", *DEVICE, "--time-limit", "0.001", status=4)
        self.assertIn(b"[TIME_LIMIT]", result.stderr)


class Files(Case):
    def test_annotate_and_strip(self):
        model, annotated, back = RESNET, self.path("annotated.onnx"), self.path("back.onnx")
        self.done("plan", model, "--devices", "4", *DEVICE, "-o", annotated)
        configurations = self.json("inspect", annotated)["configurations"]
        self.assertEqual([(one["name"], one["num_devices"]) for one in configurations], [("shardplan", 4)])
        self.assertEqual(configurations[0]["devices"], [f"a100-sxm4-80gb:{device}" for device in range(4)])
        report = self.json("strip", annotated, "-o", back)
        with open(model, "rb") as one, open(back, "rb") as other:
            original, stripped = one.read(), other.read()
        self.assertEqual(original, stripped)
        self.assertEqual(report["size_bytes"], len(original))
        self.assertEqual(report["removed_bytes"], os.path.getsize(annotated) - len(original))

    def test_a_plan_of_an_annotated_model_replaces_the_annotations(self):
        first, second, direct = self.path("1.onnx"), self.path("2.onnx"), self.path("3.onnx")
        self.done("plan", RESNET, "--devices", "4", *DEVICE, "-o", first)
        self.done("plan", first, "--devices", "2", *DEVICE, "-o", second)
        self.done("plan", RESNET, "--devices", "2", *DEVICE, "-o", direct)
        self.assertEqual(len(self.json("inspect", second)["configurations"]), 1)
        back = self.done("strip", second, "-o", "-").stdout
        with open(RESNET, "rb") as file:
            self.assertEqual(back, file.read())

    def test_files_and_standard_output(self):
        model, plan, annotated = self.mlp(), self.path("plan.json"), self.path("out.onnx")
        printed = self.plan(model, 2, "--plan", plan, "-o", annotated)
        with open(plan, encoding="utf-8") as file:
            self.assertEqual(json.load(file), printed)
        result = self.done("plan", model, "--devices", "2", *DEVICE, "-o", "-")
        with open(annotated, "rb") as file:
            self.assertEqual(result.stdout, file.read())
        self.assertIn(b"Estimate", result.stderr)
        result = self.done("plan", model, "--devices", "2", *DEVICE, "--plan", "-")
        self.assertEqual(json.loads(result.stdout)["id"], printed["id"])

    def test_over_the_input_itself(self):
        model = self.mlp()
        with open(model, "rb") as file:
            original = file.read()
        self.done("plan", model, "--devices", "2", *DEVICE, "-o", model)
        self.assertGreater(os.path.getsize(model), len(original))
        self.done("strip", model, "-o", model)
        with open(model, "rb") as file:
            self.assertEqual(file.read(), original)

    def test_links_and_modes(self):
        os.symlink(self.path("target.onnx"), self.path("link.onnx"))
        self.file("target.onnx", b"old")
        self.done("plan", self.mlp(), "--devices", "2", *DEVICE, "-o", self.path("link.onnx"))
        self.assertTrue(os.path.islink(self.path("link.onnx")))
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("target.onnx")).st_mode), 0o666 & ~mask)

    def test_nothing_is_left_behind_by_a_failure(self):
        os.mkdir(self.path("folder"))
        model = self.mlp()
        before = sorted(os.listdir(self.folder))
        for path in (self.path("folder"), self.path("absent/out.onnx")):
            self.assertIn(b"[FILE_NOT_WRITABLE]",
                          self.done("plan", model, "--devices", "2", *DEVICE, "-o", path, status=4).stderr)
        self.done("plan", model, "--devices", "2", *DEVICE, "--batch", "3", "-o", self.path("out.onnx"), status=2)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_a_full_disk_is_told(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        for arguments in (["inspect", RESNET], ["plan", RESNET, "--devices", "2", *DEVICE],
                          ["plan", RESNET, "--devices", "2", *DEVICE, "--json"], ["devices"], ["--help"]):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([CLI, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE,
                                        env=clean_environment(), check=False)
            self.assertEqual(result.returncode, 4, arguments)
            self.assertIn(b"[OUTPUT_LOST]", result.stderr)
        self.done("plan", RESNET, "--devices", "2", *DEVICE, "-o", "/dev/full", status=4)

    def test_a_closed_pipe_is_told(self):
        reader, writer = os.pipe()
        os.close(reader)
        result = subprocess.run([CLI, "inspect", RESNET], stdout=writer, stderr=subprocess.PIPE, timeout=PATIENCE,
                                env=clean_environment(), check=False)
        os.close(writer)
        self.assertEqual(result.returncode, 4)

    def test_an_interrupt_ends_it_and_leaves_nothing(self):
        path = self.file("long.onnx", onnx_make.encode(onnx_make.diamonds(60000)))
        before = sorted(os.listdir(self.folder))
        process = subprocess.Popen([CLI, "plan", path, "--devices", "8", *DEVICE, "-o", self.path("out.onnx")],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment())
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        status = process.wait(PATIENCE)
        if status == 0:
            self.skipTest("the machine was done before the interrupt")
        self.assertEqual(status, -signal.SIGINT)
        self.assertEqual(sorted(os.listdir(self.folder)), before)


class Devices(Case):
    def test_the_list(self):
        text = self.done("devices").stdout.decode()
        for name in ("h100-sxm-80gb", "mi355x-288gb", "tpu-v6e", "apple-m4-max", "epyc-9654"):
            self.assertIn(name, text)
        self.assertNotIn("/1g.", text)
        listed = [device["name"] for device in self.json("devices")["devices"]]
        self.assertEqual(len(listed), len(set(listed)))
        files = os.listdir(os.path.join(TOP, "api/devices"))
        self.assertEqual(set(listed), {name[:-5] for name in files if name.endswith(".json")})

    def test_one_device_and_a_part_of_names(self):
        text = self.done("devices", "H100-SXM-80GB").stdout.decode()
        for words in ("(measured)", "6.88 USD an hour", "2026-01-19", "3g.40gb", "132 units",
                      "flops.float16", "[quoted]"):
            self.assertIn(words, text)
        text = self.done("devices", "mi300x-192gb").stdout.decode()
        for words in ("(an estimate)", "default of the kind gpu", "a seventh"):
            self.assertIn(words, text)
        names = [device["name"] for device in self.json("devices", "a100-sxm4-80gb/")["devices"]]
        self.assertIn("a100-sxm4-80gb/7g.80gb", names)
        self.assertTrue(all(name.startswith("a100-sxm4-80gb/") for name in names))
        self.assertIn(b"similar names are h100-", self.done("devices", "h1000", status=2).stderr)

    def test_every_device_keeps_the_schema(self):
        with open(os.path.join(TOP, "api/schema/device.schema.json"), encoding="utf-8") as file:
            check = jsonschema.Draft202012Validator(json.load(file))
        devices = self.json("devices")["devices"] + self.json("devices", "/")["devices"]
        for name in os.listdir(os.path.join(TOP, "api/devices")):
            if name.endswith(".json"):
                with open(os.path.join(TOP, "api/devices", name), encoding="utf-8") as file:
                    devices.append(json.load(file))
        for device in devices:
            self.assertEqual([error.message for error in check.iter_errors(device)], [], device["name"])

    def test_a_file_is_a_device(self):
        model = self.mlp(4)
        with open(os.path.join(TOP, "api/devices/l4-24gb.json"), "rb") as file:
            data = file.read()
        path = self.file("l4-24gb.json", data)
        named, by_file = (self.json("plan", model, "--devices", "2", "--device", device)
                          for device in ("l4-24gb", path))
        for plan in (named, by_file):
            plan.pop("search"), plan.pop("proof")
        self.assertEqual(by_file, named)
        self.file("mine.json", data.replace(b'"memory_bandwidth": 300e9', b'"memory_bandwidth": 600e9')
                               .replace(b'"l4-24gb"', b'"mine"'))
        cluster = self.file("cluster.json", b'{"groups": [{"count": 1, "device": "mine.json"},'
                                            b' {"count": 1, "device": "t4-16gb"}]}')
        groups = self.json("plan", model, "--cluster", cluster)["cluster"]["groups"]
        self.assertEqual([group["device"]["name"] for group in groups], ["mine", "t4-16gb"])
        self.assertEqual(groups[0]["device"]["memory_bandwidth"], 600e9)
        sweep = self.json("plan", model, "--devices", "2", "--device", "t4-16gb," + self.path("mine.json"))
        self.assertEqual({row["device"] for row in sweep["sweep"]}, {"mine", "t4-16gb"})

    def test_files_for_reshards(self):
        with open(os.path.join(TOP, "api/devices/l4-24gb.json"), "rb") as file:
            path = self.file("mine.json", file.read())
        cluster = self.file("cluster.json", b'{"device": "mine.json", "count": 4}')
        spec = ["reshard", "--shape", "8192,8192", "--from", "{devices=[4,1]<=[4]}", "--to", "{devices=[1,4]<=[4]}"]
        named = self.json(*spec, "--device", "l4-24gb", "--devices", "4")
        self.assertEqual(self.json(*spec, "--device", path, "--devices", "4"), named)
        self.assertEqual(self.json(*spec, "--cluster", cluster), named)

    def test_files_that_are_no_devices(self):
        model = self.mlp(1)
        for data, code in ((b"{", b"CLUSTER_NOT_JSON"), (b'"l4-24gb"', b"CLUSTER_NOT_JSON"), (b"[]", b"MEMBER_TYPE"),
                           (b"{}", b"MEMBER_MISSING")):
            path = self.file("device.json", data)
            with self.subTest(data=data):
                self.assertIn(code, self.done("plan", model, "--devices", "1", "--device", path, status=2).stderr)
        self.assertIn(b"[FILE_NOT_READABLE]",
                      self.done("plan", model, "--devices", "1", "--device", self.path("no.json"), status=2).stderr)

    def test_the_catalog(self):
        devices = self.json("devices")["devices"]
        names = [device["name"] for device in devices]
        self.assertIn("a100-sxm4-80gb", names)
        self.assertEqual(len(names), len(set(names)))
        for device in devices:
            self.assertTrue(device["source"], device["name"])
            self.assertGreater(device["memory_bytes"], 1e8)
        text = self.done("devices").stdout.decode()
        for name in names:
            self.assertIn(name, text)


class Memory(Case):
    """Weights never become resident, whatever the size of the file."""

    def setUp(self):
        super().setUp()
        self.program = os.environ.get("SHARDPLAN", os.path.join(TOP, "build/api/cli/shardplan"))
        if not os.access(self.program, os.X_OK):
            self.skipTest(f"{self.program} is not built")

    def peak(self, *arguments):
        """Largest resident size in bytes of one run, and its output."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            result = subprocess.run([self.program, *arguments], capture_output=True, env=clean_environment(),
                                    check=False)
            usage = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
            os.write(write, json.dumps([result.returncode, usage]).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            status, usage = json.loads(pipe.read())
        os.waitpid(child, 0)
        self.assertEqual(status, 0)
        return usage

    def test_a_large_file(self):
        path = self.path("big.onnx")
        onnx_make.write(path, onnx_make.big(512 << 20))  # holes: no disk is taken
        for arguments in (["inspect", path], ["plan", path, "--devices", "4", *DEVICE, "-o", self.path("out.onnx")],
                          ["strip", self.path("out.onnx"), "-o", self.path("back.onnx")]):
            self.assertLess(self.peak(*arguments), 96e6, arguments)
        self.assertEqual(os.path.getsize(self.path("back.onnx")), os.path.getsize(path))


class Terminal(Case):
    def test_a_bar_is_drawn_on_a_terminal_only(self):
        path = self.file("long.onnx", onnx_make.encode(onnx_make.diamonds(60000)))
        arguments = [CLI, "plan", path, "--devices", "8", *DEVICE]
        quiet = run(*arguments[1:])
        self.assertNotIn(b"[#", quiet.stderr)
        try:
            master, slave = pty.openpty()
        except OSError as error:  # a bare chroot has no /dev/pts
            self.skipTest(f"no terminal here: {error}")
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave,
                                   env=clean_environment(TERM="xterm"))
        os.close(slave)
        drawn, started = b"", time.monotonic()
        while time.monotonic() - started < PATIENCE:
            if not select.select([master], [], [], 1)[0]:
                if process.poll() is not None:
                    break
                continue
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            drawn += piece
        os.close(master)
        self.assertEqual(process.wait(PATIENCE), 0)
        if time.monotonic() - started < 1 and not drawn:
            self.skipTest("the machine was done before a bar is shown")
        self.assertIn(b"%", drawn)
        self.assertTrue(drawn.endswith(b"\r\x1b[K"), drawn[-40:])


class DaemonCase(Case):
    """A daemon for the tests of one class."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not os.access(DAEMON, os.X_OK):
            raise unittest.SkipTest(f"{DAEMON} is not built")
        cls.data = tempfile.TemporaryDirectory(prefix="shardplan-cli-daemon-")
        cls.daemon = subprocess.Popen(
            [DAEMON, "--listen", "127.0.0.1:0", "--data", cls.data.name, "--workers", "1", "--log-format", "json"],
            stderr=subprocess.PIPE, env=clean_environment())
        for line in cls.daemon.stderr:
            event = json.loads(line)
            if event.get("event") == "listening":
                cls.url = event["url"]
                break
        else:
            raise AssertionError("the daemon did not start")
        # Nobody reads the log, and a pipe that is full would stop the daemon.
        threading.Thread(target=cls.daemon.stderr.read, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.terminate()
        try:
            cls.daemon.wait(PATIENCE)
        finally:
            cls.daemon.stderr.close()
            cls.data.cleanup()

    def remote(self, *arguments, **more):
        return self.done(*arguments, "--server", self.url, **more)


class Server(DaemonCase):
    """The same commands through a daemon."""

    def test_the_output_is_the_same(self):
        for arguments in (["inspect", RESNET], ["inspect", RESNET, "--values"], ["devices"],
                          ["plan", RESNET, "--devices", "4", *DEVICE]):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.remote(*arguments).stdout, self.done(*arguments).stdout)
        symbolic = ["inspect", self.mlp(1, 64, "batch"), "--dim", "batch=4"]
        self.assertIn(b"[4, 64]", self.remote(*symbolic).stdout)
        self.assertEqual(self.remote(*symbolic).stdout, self.done(*symbolic).stdout)
        local = self.plan(RESNET, 4)
        remote = self.plan(RESNET, 4, "--server", self.url + "/")
        for plan in (local, remote):
            del plan["search"]["seconds"], plan["proof"]["seconds"]
        self.assertEqual(remote, local)

    def test_files_are_the_same(self):
        model = self.mlp(8, 2048, 512)
        self.done("plan", model, "--devices", "4", *DEVICE, "-o", self.path("local.onnx"))
        self.remote("plan", model, "--devices", "4", *DEVICE, "-o", self.path("remote.onnx"), "--plan",
                    self.path("plan.json"))
        with open(self.path("local.onnx"), "rb") as one, open(self.path("remote.onnx"), "rb") as other:
            self.assertEqual(one.read(), other.read())
        with open(self.path("plan.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["id"], self.plan(model, 4)["id"])

    def test_the_environment_names_the_server(self):
        environment = clean_environment(SHARDPLAN_SERVER=self.url)
        self.assertEqual(self.done("devices", environment=environment).stdout, self.done("devices").stdout)

    def test_errors_end_with_the_same_status(self):
        tiny = self.file("c.json", json.dumps({"groups": [{"name": "tiny", "count": 1, "device": {
            "name": "tiny", "memory_bytes": 1e6, "memory_bandwidth": 1e9, "flops": {"float32": 1e9}}}],
            "mesh": [{"name": "bus", "size": 1, "bandwidth": 1e9, "latency": 1e-6}]}).encode())
        model = self.mlp(4, 512)
        for arguments in (["inspect", self.file("text", b"hello, world\n")],
                          ["plan", model, "--devices", "2", "--batch", "3"],
                          ["plan", model, "--devices", "2", "--device", "abacus"],
                          ["plan", model, "--devices", "2", "--dim", "seq=3"],
                          ["plan", model, "--cluster", tiny]):
            with self.subTest(arguments=arguments):
                local, remote = run(*arguments), run(*arguments, "--server", self.url)
                self.assertGreater(local.returncode, 0)
                self.assertEqual(remote.returncode, local.returncode, remote.stderr)
                code = local.stderr.decode().split("[")[-1].split("]")[0]
                self.assertIn(f"[{code}]", remote.stderr.decode())

    def test_a_server_that_is_not_there(self):
        result = self.done("devices", "--server", "http://127.0.0.1:1", "--json", status=4)
        self.assertEqual(json.loads(result.stdout)["error"]["code"], "SERVER_UNREACHABLE")
        self.done("devices", "--server", self.url + "/nowhere", status=4)


if __name__ == "__main__":
    unittest.main()
