"""POST /v1/convert and /v1/reshard: shardings in other notations, and the way from one to another."""

import json
import random

from cases import DaemonCase

SEED = r'"\08\03\1A\02\02\01\22\02\00\01"'
SEED_HLO = "{devices=[2,1]0,1}"


class ShardingCase(DaemonCase):
    def convert(self, spec, to, **more):
        return self.ask("POST", "/v1/convert", {"spec": spec, "to": to, **more}).json

    def reshard(self, **members):
        return self.ask("POST", "/v1/reshard", members).json

    def refused(self, path, body, code=None, pointer=None, status=422, **headers):
        return self.problem("POST", path, body, status, code, pointer, **headers)


class Convert(ShardingCase):
    def test_the_seed_to_every_notation_and_back(self):
        for to in ("hlo", "onnx", "ort", "shardy", "op-sharding"):
            with self.subTest(to):
                there = self.convert(SEED, to)
                self.assertEqual((there["from"], there["to"]), ("op-sharding", to))
                back = self.convert(there["spec"], "op-sharding", rank=2)
                self.assertEqual(back["text"], SEED)
                self.assertEqual(back["from"], to)

    def test_what_the_notations_add(self):
        onnx = self.convert(SEED, "onnx", tensor_name="x", shape=[2, 2])
        self.assertEqual(onnx["spec"]["device"], [0, 1])
        self.assertEqual(json.loads(onnx["text"]), onnx["spec"])
        self.assertIn(b"x", bytes.fromhex(onnx["bytes"]))
        ort = self.convert(SEED, "ort")
        self.assertEqual(ort["spec"], "S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1]")
        self.assertEqual(ort["attributes"],
                         {"shard_spec": "S[0]R", "device_mesh_shape": [2], "device_mesh_elements": [0, 1]})
        wire = self.convert(SEED_HLO, "op-sharding")
        self.assertEqual(wire["bytes"], "08031a020201" + "22020001")
        self.assertEqual(wire["hlo"], SEED_HLO)
        shardy = self.convert(SEED, "shardy")
        self.assertEqual(shardy["text"], shardy["mesh"] + "\n" + shardy["sharding"])
        self.assertTrue(shardy["mesh"].startswith("sdy.mesh @"))

    def test_holdings(self):
        held = self.convert("{devices=[2,2]0,1,2,3}", "shardy", shape=[4, 3], holdings=True)["holdings"]
        self.assertEqual(held[1], {"device": 1, "shards": [[[[0, 2]], [[2, 3]]]]})
        self.assertEqual([entry["device"] for entry in held], [0, 1, 2, 3])
        self.refused("/v1/convert", {"spec": SEED, "to": "hlo", "holdings": True}, "SHAPE_MISSING", "/shape")

    def test_text(self):
        answer = self.ask("POST", "/v1/convert", {"spec": SEED, "to": "hlo"}, Accept="text/plain")
        self.assertEqual(answer.text, SEED_HLO + "\n")
        self.assertEqual(answer.headers["Content-Type"], "text/plain; charset=utf-8")

    def test_xla_forms_keep_what_is_theirs(self):
        spec = '{devices=[2,1]<=[2] metadata={op_name="dot"}}'
        there = self.convert(spec, "op-sharding")
        self.assertEqual(there["lost"], [])
        self.assertEqual(self.convert(there["text"], "hlo")["text"], spec)
        self.assertIn("metadata", json.dumps(self.convert(spec, "shardy")["lost"]).lower())

    def test_what_is_lost_is_said(self):
        lost = self.convert({"device": [0, 1], "shardedDim": [{"axis": 0, "simpleSharding": [{"numShards": 2}]}]}, "hlo")
        self.assertEqual(lost["text"], "{devices=[2]0,1}")
        self.assertEqual([loss["code"] for loss in lost["lost"]], ["RANK_OPEN"])

    def test_the_example_of_the_contract(self):
        for path in ("/v1/convert", "/v1/reshard"):
            operation = self.daemon.contract.document["paths"][path]["post"]
            self.ask("POST", path, operation["requestBody"]["content"]["application/json"]["example"])
            example = operation["responses"]["200"]["content"]["application/json"].get("example")
            if example is not None:
                answer = self.convert(SEED_HLO, "ort")
                del answer["attributes"]
                self.assertEqual(answer, example)


class Reshard(ShardingCase):
    def test_all_to_all(self):
        answer = self.reshard(shape=[1024, 1024], dtype="float32", **{"from": "{devices=[4,1]0,1,2,3}",
                                                                      "to": "{devices=[1,4]0,1,2,3}"})
        self.assertEqual([step["kind"] for step in answer["steps"]], ["all-to-all"])
        step = answer["steps"][0]
        self.assertEqual(step["group_size"], 4)
        self.assertEqual(step["moves"], [{"source": 0, "target": 1, "axes": step["axes"]}])
        self.assertEqual(step["bytes"], 3 / 16 * 4 * 1024 * 1024)  # each keeps a fourth of its fourth
        self.assertEqual(step["sharding"], "{devices=[1,4]0,1,2,3}")
        self.assertTrue(answer["cluster_assumed"])
        self.assertEqual(answer["cluster"]["groups"][0]["count"], 4)
        self.assertEqual(answer["seconds"], step["seconds"])

    def test_nothing_to_do(self):
        answer = self.reshard(shape=[4, 4], **{"from": SEED, "to": SEED_HLO})
        self.assertEqual(answer["steps"], [])
        self.assertEqual(answer["seconds"], 0)
        self.assertEqual(answer["from_dialect"], "op-sharding")

    def test_a_cluster_of_its_own(self):
        members = {"shape": [8, 8], "from": "{devices=[2,1]0,1}", "to": "{replicated}"}
        slow = self.reshard(cluster={"device": "a100-sxm4-80gb", "count": 2, "mesh": [
            {"name": "bus", "size": 2, "bandwidth": 1e3, "latency": 1}]}, **members)
        self.assertFalse(slow["cluster_assumed"])
        self.assertGreater(slow["seconds"], 1)
        self.assertEqual([step["kind"] for step in slow["steps"]], ["all-gather"])
        self.refused("/v1/reshard", {**members, "cluster": {"device": "a100-sxm4-80gb", "count": 1}},
                     "CLUSTER_TOO_SMALL", "/cluster")
        self.refused("/v1/reshard", {**members, "cluster": {"device": "abacus", "count": 2}}, pointer="/cluster/device")

    def test_other_devices(self):
        answer = self.reshard(shape=[4, 4], **{"from": "{devices=[2,1]0,1}", "to": "{devices=[2,1]2,3}"})
        self.assertEqual(sum(transfer["bytes"] for step in answer["steps"] for transfer in step["transfers"]), 64)
        self.assertEqual({(transfer["source"], transfer["target"]) for step in answer["steps"]
                          for transfer in step["transfers"]}, {(0, 2), (1, 3)})

    def test_memory_limit(self):
        members = {"shape": [1024, 1024], "from": "{devices=[2,1]0,1}", "to": "{replicated}", "devices": 2}
        self.reshard(**members)
        answer = self.refused("/v1/reshard", {**members, "memory_limit_bytes": 1000})
        self.assertEqual(answer.json["kind"], "nofit")

    def test_text(self):
        answer = self.ask("POST", "/v1/reshard", {"shape": [4096, 4096], "from": SEED, "to": "{devices=[1,2]0,1}"},
                          Accept="text/plain")
        self.assertIn("all-to-all", answer.text)
        self.assertIn("{devices=[1,2]0,1}", answer.text)
        self.assertIn("h100-sxm-80gb, assumed", answer.text)


class Refused(ShardingCase):
    def test_bodies_that_are_no_request(self):
        json_type = {"Content_Type": "application/json"}
        for path in ("/v1/convert", "/v1/reshard"):
            for body in (b"", b"{", b"{}}", b'{"spec": "\xff"}', b'{"spec": "\\u0000"}', b"\x00" * 100,
                         b'{"to": "hlo", "to": "hlo"}', b"[" * 100000, b'{"spec":' * 5000):
                with self.subTest(path=path, body=body[:20]):
                    self.refused(path, body, "MALFORMED_JSON", status=400, **json_type)
            for body in (b"1", b"null", b"[]", b'"text"'):
                self.refused(path, body, "MEMBER_TYPE", **json_type)
            self.refused(path, b"{}", "UNSUPPORTED_MEDIA_TYPE", status=415, Content_Type="text/plain")
            self.refused(path, b"{}", "UNSUPPORTED_MEDIA_TYPE", status=415, Content_Type="application/jsonp")
            self.refused(path, b"{}", "UNSUPPORTED_CONTENT_ENCODING", status=415, Content_Encoding="br", **json_type)
            self.refused(path, b"{}", "NOT_ACCEPTABLE", status=406, Accept="image/png", **json_type)
            self.refused(path, b" " * ((1 << 20) + 1), "BODY_TOO_LARGE", status=413, **json_type)
            self.problem("GET", path, status=405)
            self.problem("POST", path + "?x=1", {}, 400, "UNKNOWN_PARAMETER")

    def test_chunked_bodies_have_the_limit_too(self):
        answer = self.daemon.request("POST", "/v1/convert", iter([b" " * 65536] * 17),
                                     {"Content-Type": "application/json"}, chunked=True)
        self.assertEqual(answer.status, 413, answer)

    def test_wrong_members(self):
        good = {"spec": SEED_HLO, "to": "onnx"}
        for change, pointer in (
            ({"sepc": 1}, "/sepc"), ({"a/b~": 1}, "/a~1b~0"), ({"to": "xla"}, "/to"), ({"to": 1}, "/to"),
            ({"to": None}, "/to"), ({"from": "HLO"}, "/from"), ({"spec": 1}, "/spec"), ({"spec": []}, "/spec"),
            ({"from": "hlo", "spec": {}}, "/spec"), ({"shape": 2}, "/shape"), ({"shape": [2, -1]}, "/shape/1"),
            ({"shape": ["n", 2]}, "/shape/0"), ({"shape": [1.5]}, "/shape/0"), ({"shape": [1] * 65}, "/shape"),
            ({"shape": [2, 2], "rank": 3}, "/rank"), ({"rank": -1}, "/rank"), ({"rank": 65}, "/rank"),
            ({"devices": 0}, "/devices"), ({"devices": "2"}, "/devices"), ({"hlo_version": 4}, "/hlo_version"),
            ({"tensor_name": ""}, "/tensor_name"), ({"holdings": 1}, "/holdings"), ({"mesh": 1}, "/mesh"),
            ({"mesh": "<["}, "/mesh"), ({"mesh": {"axes": []}}, "/mesh/axes"),
            ({"mesh": {"axes": [{"name": "x"}]}}, "/mesh/axes/0"),
            ({"mesh": {"device_mesh_shape": [2], "device_mesh_elements": [0, "1"]}}, "/mesh/device_mesh_elements/1"),
            ({"spec": "{devices=[2,1]0,1"}, "/spec"), ({"spec": "{devices=[2,1]0,0}"}, "/spec"),
            ({"spec": ""}, "/spec"), ({"spec": "??"}, "/spec"), ({"shape": [2]}, "/spec"), ({"rank": 1}, "/spec"),
            ({"spec": {"device": [0], "shardedDim": [{"axis": 0, "simpleSharding": [{}]}]}}, None),
        ):
            with self.subTest(change):
                self.refused("/v1/convert", {**good, **change}, pointer=pointer)
        self.refused("/v1/convert", {"spec": SEED_HLO}, "MEMBER_MISSING", "/to")
        self.refused("/v1/convert", {"to": "hlo"}, "MEMBER_MISSING", "/spec")
        good = {"shape": [4, 4], "from": SEED_HLO, "to": "{devices=[1,2]0,1}"}
        for change, pointer in (
            ({"shape": [4, None]}, "/shape/1"), ({"shape": [2 ** 40, 2 ** 40]}, "/shape"), ({"shape": [4]}, "/from"),
            ({"dtype": "float33"}, "/dtype"), ({"dtype": "string"}, "/dtype"), ({"dtype": 1}, "/dtype"),
            ({"from": "{devices=[2,1]0}"}, "/from"), ({"to": "{{replicated}}"}, "/to"), ({"from_dialect": "x"}, "/from_dialect"),
            ({"cluster": 1}, "/cluster"), ({"memory_limit_bytes": 0}, "/memory_limit_bytes"), ({"extra": {}}, "/extra"),
            ({"from": "{replicated}", "to": "{replicated}"}, "/devices"),
        ):
            with self.subTest(change):
                self.refused("/v1/reshard", {**good, **change}, pointer=pointer)
        self.refused("/v1/reshard", {"from": SEED_HLO, "to": SEED_HLO}, "SHAPE_MISSING", "/shape")

    def test_the_place_in_the_text_is_told(self):
        answer = self.refused("/v1/convert", {"spec": "{devices=[2,x]0,1}", "to": "onnx"}, pointer="/spec")
        self.assertRegex(answer.json["detail"], r"offset \d+")


class Hostile(ShardingCase):
    """Texts that want to hurt. Each gets an answer or a refusal, and no worker dies."""

    def asked(self, **members):
        answer = self.ask("POST", "/v1/convert", members, (200, 400, 422))
        if answer.status != 200:
            self.assertNotIn(answer.json["code"], ("WORKER_CRASHED", "TIME_LIMIT"), members)
        return answer

    def test_many_devices(self):
        huge = "{devices=[1000000,1000000]<=[1000000000000]}"
        answer = self.convert(huge, "op-sharding")
        self.assertEqual(self.convert(answer["text"], "hlo")["text"], huge)
        self.convert(huge, "shardy")
        for to in ("onnx", "ort"):
            self.assertEqual(self.asked(spec=huge, to=to).status, 422)
        self.assertEqual(self.asked(spec=huge, to="hlo", hlo_version=1).status, 422)
        self.assertEqual(self.asked(spec=huge, to="hlo", shape=[10 ** 12, 10 ** 12], holdings=True).status, 422)
        for members in ({"from": huge, "to": "{replicated}"}, {"from": "{replicated}", "to": "{replicated}", "devices": 10 ** 12}):
            self.refused("/v1/reshard", {"shape": [10 ** 6, 10 ** 6], **members})

    def test_long_and_deep_texts(self):
        room = (1 << 20) - 200
        for spec in ("{" * 100000, "[" * 100000, "[" * 500 + "1" + "]" * 500, "{{" + "{replicated}," * 70000 + "{replicated}}",
                     "{devices=[" + "1," * 200000 + "1]0}", "{devices=[300000]" + ",".join(map(str, range(100000))) + "}",
                     '"' + "\\00" * 200000 + '"', '"' + "\\2A\\7F" * 50000 + '"', "08" * (room // 2), "S[0]" * 200000,
                     "R" * room, "#sdy.sharding<@mesh, [" + "{}," * 200000 + "{}]>", "<" * room, "sdy.mesh " + "@" * room,
                     '{"device": [' + "0," * 300000 + "0]}", '{"device":' * 30000, '"' + "\\" * (room // 2), "\\u0000" * 10):
            with self.subTest(spec[:30]):
                for to in ("hlo", "onnx"):
                    self.asked(spec=spec, to=to)

    def test_names(self):
        for name, written in (("a\\0A\\1B[31m", "a??[31m"), ("\u20ac" * 1300, "\u20ac"), ("\\22\\5C", "")):
            mesh = f'<["{name}"=2]>'
            spec = f'<@mesh, [{{"{name}"}}]>'
            answer = self.convert(spec, "hlo", mesh=mesh)  # the name goes into what is lost
            self.assertIn(written, answer["lost"][0]["message"])
            there = self.convert(spec, "hlo", mesh=mesh, hlo_version=3)["text"]
            self.assertEqual(self.convert(there, "shardy")["text"], self.convert(spec, "shardy", mesh=mesh)["text"])
            steps = self.ask("POST", "/v1/reshard", {"shape": [4], "from": spec, "to": "{replicated}", "mesh": mesh},
                             Accept="text/plain").text
            self.assertNotIn("\x1b", steps)
            self.assertEqual(len(steps.splitlines()), 6)

    def test_noise(self):
        random.seed(7)
        seeds = (SEED, SEED_HLO, "S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1]", '[[0,1],[2,3]]',
                 'sdy.mesh @mesh = <["x"=2]>\n#sdy.sharding<@mesh, [{"x"}, {}]>',
                 '{"device": [-1, 2], "indexToDeviceGroupMap": [{"key": -1, "value": [0, 1]}], '
                 '"shardedDim": [{"axis": 0, "simpleSharding": [{"numShards": 2}]}]}')
        for _ in range(150):
            spec = list(random.choice(seeds))
            for _ in range(random.randint(1, 3)):
                spec[random.randrange(len(spec))] = random.choice('{}[]()<>"\\=,0123456789-S@x\n\u00e9')
            self.asked(spec="".join(spec), to=random.choice(("onnx", "ort", "op-sharding", "hlo", "shardy")), shape=[4, 4])

    def tearDown(self):
        self.assertNotIn('shardplan_workers_ended_total{reason="crashed"}', self.ask("GET", "/metrics").text)
        self.no_temporary_files()
