#!/usr/bin/env python3
"""`shardplan convert` and `shardplan reshard` as people use them."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_cli  # noqa: E402

SEED = r'"\08\03\1A\02\02\01\22\02\00\01"'
NOTATIONS = {
    "hlo": "{devices=[2,1]0,1}",
    "op-sharding": SEED,
    "ort": "S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1]",
    "onnx": '{"device":[0,1],"shardedDim":[{"axis":0,"simpleSharding":[{"numShards":2}]}]}',
}


def spec(device, *axes, groups=()):
    """A ShardingSpecProto as JSON; axes are (axis, shards)."""
    message = {"device": device, "shardedDim": [
        {"axis": axis, "simpleSharding": [{"numShards": shards}]} for axis, shards in axes]}
    if groups:
        message["indexToDeviceGroupMap"] = [{"key": key, "value": value} for key, value in groups]
    return json.dumps(message)


class Sharding(test_cli.Case):
    def text(self, *arguments, **more):
        return self.done(*arguments, **more).stdout.decode()

    def convert(self, text, to, *arguments, **more):
        return self.text("convert", "--to", to, *arguments, "--", text, **more)


class Convert(Sharding):
    def test_the_seed_to_every_notation_and_back(self):
        for to, expected in NOTATIONS.items():
            with self.subTest(to):
                there = self.convert(SEED, to)
                self.assertEqual(there, expected + "\n")
                self.assertEqual(self.convert(there, "op-sharding", "--rank", "2"), SEED + "\n")
                self.assertEqual(self.convert(there, "op-sharding", "--shape", "[2, 2]", "--from", to), SEED + "\n")
        mesh, sharding = self.convert(SEED, "shardy").splitlines()
        self.assertRegex(mesh, r'^sdy\.mesh @\w+ = <\["\w+"=2\]>$')
        self.assertRegex(sharding, r'^#sdy\.sharding<@\w+, \[\{"\w+"\}, \{\}\]>$')
        self.assertEqual(self.convert(mesh + "\n" + sharding, "op-sharding"), SEED + "\n")
        self.assertEqual(self.convert(sharding, "op-sharding", "--mesh", mesh), SEED + "\n")

    def test_other_spellings(self):
        for text in (SEED[1:-1], "mhlo.sharding = " + SEED, "08031A020201" + "22020001", SEED.replace("1A", "1a"),
                     '"{devices=[2,1]0,1}"', "[[0],[1]]"):
            with self.subTest(text):
                self.assertEqual(self.convert(text, "hlo"), "{devices=[2,1]0,1}\n")
        self.assertEqual(self.convert("S[0]R", "hlo", "--mesh", "device_mesh_shape=[2] device_mesh_elements=[0,1]"),
                         "{devices=[2,1]0,1}\n")
        self.assertEqual(self.convert("{replicated}", "ort", "--rank", "2", "--devices", "2"),
                         "RR device_mesh_shape=[2] device_mesh_elements=[0,1]\n")

    def test_pipes(self):
        text = SEED
        for to in ("shardy", "hlo", "ort", "shardy", "op-sharding"):
            text = self.text("convert", "--to", to, "-", stdin=text.encode())
        self.assertEqual(text, SEED + "\n")

    def test_the_rank_that_onnx_does_not_say(self):
        result = self.done("convert", "--to", "hlo", NOTATIONS["onnx"])
        self.assertEqual(result.stdout, b"{devices=[2]0,1}\n")
        self.assertIn(b"shardplan: note: The notation onnx does not say", result.stderr)
        self.assertIn(b"[RANK_OPEN]", result.stderr)
        self.assertNotIn(b"RANK_OPEN", self.done("convert", "--to", "hlo", "--rank", "2", NOTATIONS["onnx"]).stderr)

    def test_versions(self):
        listed = "{devices=[4,2]0,1,2,3,4,5,6,7}"
        self.assertEqual(self.convert(listed, "hlo"), listed + "\n")
        self.assertEqual(self.convert(listed, "hlo", "--hlo-version", "2"), "{devices=[4,2]<=[8]}\n")
        self.assertEqual(self.convert("{devices=[4,2]<=[8]}", "hlo"), "{devices=[4,2]<=[8]}\n")
        self.assertEqual(self.convert("{devices=[4,2]<=[8]}", "hlo", "--hlo-version", "1"), listed + "\n")
        self.assertTrue(self.convert(listed, "hlo", "--hlo-version", "3").startswith("{mesh["))

    def test_what_is_xlas_own_survives(self):
        for text in ('{devices=[2,1]<=[2] metadata={op_name="a/b"}}', "{{replicated}, {maximal device=1}}",
                     "{replicated shard_as 3}", "{manual}", "{devices=[2,1,2]0,1,2,3 last_tile_dims={manual}}"):
            with self.subTest(text):
                self.assertEqual(self.convert(self.convert(text, "op-sharding"), "hlo"), text + "\n")
        text = '{{devices=[2,1]<=[2] metadata={op_name="a"}}, {replicated}}'
        self.assertEqual(self.convert(text, "hlo", "--hlo-version", "1"),
                         '{{devices=[2,1]0,1 metadata={op_name="a"}}, {replicated}}\n')

    def test_json(self):
        answer = self.json("convert", "--to", "onnx", "--tensor", "x", "--shape", "2,2", "--holdings", SEED)
        self.assertEqual(answer["spec"]["tensorName"], "x")
        self.assertEqual(answer["holdings"][1], {"device": 1, "shards": [[[[1, 2]], [[0, 2]]]]})
        self.assertEqual(answer["from"], "op-sharding")

    def test_wrong_usage_and_wrong_texts_end_with_2(self):
        for arguments in (["convert"], ["convert", SEED], ["convert", "--to", "hlo"], ["convert", "--to", "xla", SEED],
                          ["convert", "--to", "hlo", SEED, SEED], ["convert", "--to", "hlo", "--from", "onnx", SEED],
                          ["convert", "--to", "hlo", "--shape", "2,", SEED], ["convert", "--to", "hlo", "--shape", "", SEED],
                          ["convert", "--to", "hlo", "--shape", "[2", SEED], ["convert", "--to", "hlo", "--shape", "2]", SEED],
                          ["convert", "--to", "hlo", "--shape", "2,2", "--rank", "3", SEED],
                          ["convert", "--to", "hlo", "--shape", "2", SEED],
                          ["convert", "--to", "hlo", "--devices", "0", SEED], ["convert", "--to", "hlo", "--holdings", SEED],
                          ["convert", "--to", "hlo", "--hlo-version", "4", SEED],
                          ["convert", "--to", "hlo", "??"], ["convert", "--to", "hlo", ""], ["convert", "--to", "hlo", "{devices=[2]0}"],
                          ["convert", "--to", "hlo", b"\xff\xfe"], ["convert", "--to", "hlo", "--server", "x", SEED],
                          ["reshard"], ["reshard", "--shape", "2,2", "--from", SEED],
                          ["reshard", "--shape", "2,?", "--from", SEED, "--to", SEED],
                          ["reshard", "--shape", "2,2", "--from", "-", "--to", "-"],
                          ["reshard", "--shape", "2,2", "--from", SEED, "--to", SEED, "more"],
                          ["reshard", "--shape", "2,2", "--from", SEED, "--to", SEED, "--device", "h100-sxm-80gb"],
                          ["reshard", "--shape", "2,2", "--from", SEED, "--to", SEED, "--memory-limit", "0"],
                          ["reshard", "--shape", "2,2", "--from", SEED, "--to", SEED, "--cluster", self.path("absent")]):
            with self.subTest(arguments):
                self.done(*arguments, status=2)

    def test_help(self):
        for command, options in (("convert", ("from", "to", "shape", "rank", "devices", "mesh", "hlo-version", "tensor",
                                              "holdings", "json", "server")),
                                 ("reshard", ("shape", "dtype", "from", "to", "from-format", "to-format", "mesh", "cluster",
                                              "device", "devices", "memory-limit", "json", "server"))):
            text = self.text(command, "--help")
            self.assertIn(f"Usage: shardplan {command}", text)
            self.assertEqual(self.text("help", command), text)
            for option in options:
                self.assertIn(f"--{option}", text)

    def test_a_large_text(self):
        self.done("convert", "--to", "hlo", "-", stdin=b"[" * (1 << 20), status=2)
        self.done("convert", "--to", "hlo", "-", stdin=b"[" * ((1 << 20) + 1), status=2)
        self.done("convert", "--to", "hlo", "-", stdin=b"{replicated}\0", status=2)


class Proposal(Sharding):
    """The examples of ONNX proposal 0006 on the tensor [[1, 2], [3, 4]]: who holds which piece."""

    EXAMPLES = (
        ("axis 0", spec([0, 1], (0, 2)), {0: [[1, 2]], 1: [[3, 4]]}),
        ("axis 1", spec([0, 1], (1, 2)), {0: [[1], [3]], 1: [[2], [4]]}),
        ("both axes", spec([0, 1, 2, 3], (0, 2), (1, 2)), {0: [[1]], 1: [[2]], 2: [[3]], 3: [[4]]}),
        ("replicated", spec([-1], groups=[(-1, [0, 1])]), {0: [[1, 2], [3, 4]], 1: [[1, 2], [3, 4]]}),
        ("mixed", spec([-1, -2], (0, 2), groups=[(-1, [0, 1]), (-2, [2, 3])]),
         {0: [[1, 2]], 1: [[1, 2]], 2: [[3, 4]], 3: [[3, 4]]}),
    )
    TEXTS = {
        "axis 0": "device 0: [0:1, 0:2]\ndevice 1: [1:2, 0:2]\n",
        "mixed": "device 0: [0:1, 0:2]\ndevice 1: [0:1, 0:2]\ndevice 2: [1:2, 0:2]\ndevice 3: [1:2, 0:2]\n",
    }

    @staticmethod
    def pieces(holdings):
        tensor = [[1, 2], [3, 4]]
        held = {}
        for entry in holdings:
            [[[rows], [columns]]] = entry["shards"]
            held[entry["device"]] = [row[columns[0]:columns[1]] for row in tensor[rows[0]:rows[1]]]
        return held

    def test_pieces(self):
        for name, text, expected in self.EXAMPLES:
            for to in ("onnx", "hlo", "shardy", "op-sharding"):
                with self.subTest(name, to=to):
                    there = self.json("convert", "--to", to, "--shape", "2,2", "--holdings", text)
                    self.assertEqual(self.pieces(there["holdings"]), expected)
                    back = self.json("convert", "--to", "onnx", "--shape", "2,2", "--devices", str(len(expected)),
                                     "--holdings", there["text"])
                    self.assertEqual(self.pieces(back["holdings"]), expected)

    def test_as_text(self):
        for name, text, _ in self.EXAMPLES:
            if name in self.TEXTS:
                lines = self.convert(text, "hlo", "--shape", "2,2", "--holdings").splitlines(keepends=True)
                self.assertEqual("".join(lines[1:]), self.TEXTS[name])

    def test_several_ranges_and_shards(self):
        composite = "S[0] device_mesh_shape=[4] device_mesh_elements=[0,1,0,1]"
        self.assertIn("device 0: [0:1+2:3]\ndevice 1: [1:2+3:4]\n",
                      self.convert(composite, "ort", "--shape", "4", "--holdings"))
        self.assertIn("device 2: [none]\n", self.convert("{devices=[3]0,1,2}", "hlo", "--shape", "2", "--holdings"))


class Reshard(Sharding):
    ROWS, COLUMNS = "{devices=[4,1]0,1,2,3}", "{devices=[1,4]0,1,2,3}"

    def test_all_to_all(self):
        answer = self.json("reshard", "--shape", "1024,1024", "--from", self.ROWS, "--to", self.COLUMNS)
        self.assertEqual([step["kind"] for step in answer["steps"]], ["all-to-all"])
        self.assertEqual(answer["bytes"], 3 / 16 * 4 * 1024 * 1024)
        self.assertTrue(answer["cluster_assumed"])
        half = self.json("reshard", "--shape", "2048,1024", "--dtype", "bfloat16", "--from", self.ROWS, "--to", self.COLUMNS)
        self.assertEqual(half["bytes"], answer["bytes"])

    def test_text(self):
        text = self.text("reshard", "--shape", "1024,1024", "--from", self.ROWS, "--to", self.COLUMNS)
        for part in ("float32[1024, 1024], 4.2 MB", "4 x h100-sxm-80gb, assumed", "all-to-all", self.COLUMNS, "Total"):
            self.assertIn(part, text)
        self.assertIn("Nothing to do", self.text("reshard", "--shape", "4,4", "--from", SEED, "--to", "{devices=[2,1]0,1}"))

    def test_clusters(self):
        cluster = {"groups": [{"name": "box", "count": 4, "device": "a100-sxm4-80gb"}], "mesh": [
            {"name": "node", "size": 2, "bandwidth": 1e9, "latency": 1e-3},
            {"name": "gpu", "size": 2, "bandwidth": 1e12, "latency": 1e-6}]}
        path = self.file("c.json", json.dumps(cluster).encode())
        arguments = ["reshard", "--shape", "1024,1024", "--from", "{devices=[2,2]0,1,2,3}"]
        near = self.json(*arguments, "--to", "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}", "--cluster", path)
        far = self.json(*arguments, "--to", "{devices=[1,2,2]0,2,1,3 last_tile_dim_replicate}", "--cluster", path)
        self.assertLess(near["seconds"] * 10, far["seconds"])
        named = self.json(*arguments, "--to", "{replicated}", "--device", "a100-sxm4-80gb", "--devices", "4")
        self.assertEqual(named["cluster"]["groups"][0]["device"]["name"], "a100-sxm4-80gb")
        self.assertFalse(named["cluster_assumed"])
        self.done(*arguments, "--to", "{replicated}", "--device", "a100-sxm4-80gb", "--devices", "2", status=2)

    def test_memory_limit(self):
        arguments = ["reshard", "--shape", "1024,1024", "--from", self.ROWS, "--to", "{replicated}", "--memory-limit"]
        self.done(*arguments, "80e9")
        self.done(*arguments, "1e6", status=3)

    def test_notations_may_differ(self):
        answer = self.json("reshard", "--shape", "4096,4096", "--from", NOTATIONS["onnx"], "--to",
                           "RS[0] device_mesh_shape=[2] device_mesh_elements=[0,1]", "--from-format", "onnx")
        self.assertEqual((answer["from_dialect"], answer["to_dialect"]), ("onnx", "ort"))
        self.assertEqual(answer["steps"][-1]["sharding"], "RS[0] device_mesh_shape=[2] device_mesh_elements=[0,1]")
        self.assertEqual([step["kind"] for step in answer["steps"]], ["all-to-all"])


class Readme(test_cli.Readme):
    def test_what_it_prints_is_true(self):
        self.assertEqual(self.check("Shardings"), 5)


class Server(test_cli.DaemonCase):
    """The same through a daemon."""

    def test_the_output_is_the_same(self):
        for arguments, status in (
            (["convert", "--to", "shardy", SEED], 0), (["convert", "--to", "hlo", NOTATIONS["onnx"]], 0),
            (["convert", "--to", "onnx", "--json", "--shape", "2,2", "--holdings", SEED], 0),
            (["reshard", "--shape", "64,64", "--from", SEED, "--to", "{devices=[1,2]0,1}"], 0),
            (["reshard", "--json", "--shape", "64,64", "--from", SEED, "--to", "{devices=[1,2]0,1}"], 0),
            (["convert", "--to", "hlo", "{devices=[2,x]0,1}"], 2), (["convert", "--to", "xla", SEED], 2),
            (["convert", "--to", "onnx", "{manual}"], None),
            (["reshard", "--shape", "64,64", "--from", SEED, "--to", "{replicated}", "--memory-limit", "10"], 3),
        ):
            with self.subTest(arguments):
                local, remote = test_cli.run(*arguments), test_cli.run(*arguments, "--server", self.url)
                self.assertEqual(local.returncode, remote.returncode, remote.stderr)
                if status is not None:
                    self.assertEqual(local.returncode, status)
                self.assertEqual((local.stdout, local.stderr), (remote.stdout, remote.stderr))


if __name__ == "__main__":
    unittest.main()
