"""Graphs of costs, and measured times: stored, planned and exported by the daemon."""

import hashlib
import json
import os

from cases import CLUSTER, TOP, DaemonCase
import onnx_make

JSON = {"Content_Type": "application/json"}
MIXED = {
    "groups": [{"count": 1, "device": "cpu-core"}, {"count": 2, "device": "a100-sxm4-80gb"}],
    "mesh": [{"name": "pcie", "size": 3, "bandwidth": 25e9, "latency": 5e-6}],
}

with open(os.path.join(TOP, "api/examples/costs.json"), "rb") as example:
    COSTS = example.read()
with open(os.path.join(TOP, "tests/data/chain_6_profile.json"), encoding="utf-8") as sample:
    EVENTS = json.load(sample)


class Costs(DaemonCase):
    options = ("--workers", "2")

    def upload(self):
        return self.ask("POST", "/v1/models?name=costs.json", COSTS, (200, 201), **JSON).json

    def plan(self, **members):
        body = {"model": self.upload()["id"], "cluster": MIXED, **members}
        return self.ask("POST", "/v1/plans", body, (200, 202), Prefer="wait=60").json

    def test_the_text_is_stored(self):
        inspection = self.upload()
        self.assertEqual(inspection["id"], hashlib.sha256(COSTS).hexdigest())
        self.assertEqual((inspection["format"], inspection["node_count"], inspection["group_count"]), ("costs", 7, 1))
        self.assertEqual(self.ask("GET", f"/v1/models/{inspection['id']}/content").body, COSTS)
        answer = self.ask("POST", f"/v1/models/{inspection['id']}/inspect", {"values": True}).json
        self.assertEqual(len(answer["tensors"]), 6)
        answer = self.ask("POST", f"/v1/models/{inspection['id']}/check", {}).json
        self.assertEqual((answer["valid"], answer["diagnostics"]), (True, []))
        self.problem("POST", f"/v1/models/{inspection['id']}/infer", {}, 422, "NO_OPERATORS")

    def test_plan(self):
        plan = self.plan()
        self.assertEqual(plan["state"], "succeeded", plan)
        self.assertAlmostEqual(plan["plan"]["estimate"]["interval_seconds"], 0.0062)
        text = self.ask("GET", f"/v1/plans/{plan['id']}", None, 200, Accept="text/plain").body.decode()
        self.assertIn("7 nodes of a graph of costs", text)

    def test_what_is_made_of_a_plan(self):
        route = f"/v1/plans/{self.plan()['id']}"
        rows = self.ask("GET", f"{route}/exports/csv").body.decode().splitlines()
        self.assertEqual(len(rows), 8)
        self.assertGreater(len(self.ask("GET", f"{route}/timeline").body), 1000)
        for path in ("model", "simulation", "devices/0/model", "exports/ort", "exports/poprt"):
            self.problem("GET", f"{route}/{path}", None, 422, "NO_OPERATORS")

    def test_the_graph_as_the_body(self):
        body = json.dumps({"nodes": [{"id": 1, "seconds": 2}, {"id": 2, "seconds": 2}]}).encode()
        route = "/v1/plans?devices=2&device=a100-sxm4-80gb"
        plan = self.ask("POST", route, body, (200, 202), Content_Type="application/octet-stream",
                        Prefer="wait=60").json
        self.assertEqual(plan["plan"]["estimate"]["interval_seconds"], 2)

    def test_what_is_wrong_is_told_with_its_place(self):
        text = b'{"nodes": [{"id": 1, "seconds": 1}], "edges": [{"from": 1, "to": 2}]}'
        self.problem("POST", "/v1/models", text, 400, "ID_UNKNOWN", "/edges/0/to", **JSON)
        answer = self.problem("POST", "/v1/plans", {"model": self.upload()["id"], "cluster": CLUSTER}, 422,
                              "NO_DEVICE_RUNS", Prefer="wait=60")
        self.assertIn("jpeg decoder", answer.json["detail"])
        self.no_temporary_files()


class AnyPlacement(DaemonCase):
    """A chain whose best sets of nodes go to and fro between devices: tests/cli/test_costs.py."""

    SECONDS = (9, 1, 1, 9, 1, 1, 9, 1, 1, 9, 1, 7, 2, 8)
    GRAPH = json.dumps({
        "nodes": [{"id": f"n{at}", "seconds": seconds * 1e-3, "memory_bytes": 1e6 * at, "output_bytes": 1e6}
                  for at, seconds in enumerate(SECONDS)],
        "edges": [{"from": f"n{at}", "to": f"n{at + 1}"} for at in range(len(SECONDS) - 1)]
        + [{"from": "n0", "to": "n8"}, {"from": "n2", "to": "n13"}]}).encode()
    THREE = {"device": "a100-sxm4-80gb", "count": 3}

    def submit_any(self, data=GRAPH, expect=(200, 202), **members):
        model = self.ask("POST", "/v1/models?name=graph", data, (200, 201),
                         Content_Type="application/json" if data[:1] == b"{" else "application/octet-stream").json["id"]
        body = {"model": model, "cluster": self.THREE, "options": {"placement": "any"}, **members}
        return self.ask("POST", "/v1/plans", body, expect, Prefer="wait=60").json

    def test_plan(self):
        answer = self.submit_any()
        self.assertEqual(answer["state"], "succeeded", answer)
        plan, route = answer["plan"], f"/v1/plans/{answer['id']}"
        self.assertAlmostEqual(plan["estimate"]["interval_seconds"], 0.020)
        self.assertEqual(plan["options"]["placement"], "any")
        self.assertTrue(any(len(device["stages"]) > 1 for device in plan["devices"]))
        stages = plan["stages"]
        for index, stage in enumerate(stages):
            memory = self.ask("GET", f"{route}/memory?stage={index}").json
            self.assertEqual(memory["devices"], [stage["devices"][0], 1])
            self.assertAlmostEqual(max(held for _, held in memory["course"]), memory["activations_peak_bytes"])
            alive = sum(held["bytes"] for held in memory["alive"])
            self.assertAlmostEqual(alive, memory["activations_peak_bytes"])
            device = plan["devices"][stage["devices"][0]]["memory"]
            self.assertLessEqual(memory["total_bytes"], device["total_bytes"])
        timeline = self.ask("GET", f"{route}/timeline?lanes=128", Accept="application/json").json
        self.assertEqual((timeline["requests"], timeline["lane_count"]), (1, len(stages)))
        self.assertEqual([lane["first_device"] for lane in timeline["lanes"]],
                         [stage["devices"][0] for stage in stages])
        graph = self.ask("GET", f"{route}/graph?group=stage").json
        self.assertEqual(len(graph["boxes"]), len(stages))
        self.assertEqual(len(self.ask("GET", f"{route}/exports/csv").body.decode().splitlines()), 15)
        self.assertIn("stages on shared devices",
                      self.ask("GET", route, None, 200, Accept="text/plain").body.decode())

    def test_what_waits(self):
        """What c uses of a is there for the requests that b works on, or that are on the way: p(c) - p(a) = 4."""
        graph = {"nodes": [{"id": "a", "seconds": {"cpu-core": 1}, "output_bytes": 1000},
                           {"id": "b", "seconds": {"a100-sxm4-80gb": 1}, "output_bytes": 10},
                           {"id": "c", "seconds": {"cpu-core": 1}}],
                 "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "a", "to": "c"}]}
        answer = self.submit_any(json.dumps(graph).encode(), cluster=MIXED)
        self.assertEqual([stage["devices"] for stage in answer["plan"]["stages"]], [[0], [1], [0]])
        memory = self.ask("GET", f"/v1/plans/{answer['id']}/memory?stage=2").json
        held = {(item["what"], item["tensor"]): item["bytes"] for item in memory["alive"]}
        self.assertEqual(held, {("waiting", None): 4000, ("received", "a"): 1000, ("received", "b"): 10})
        self.assertEqual(memory["activations_peak_bytes"], 5010)
        self.assertEqual(answer["plan"]["devices"][0]["memory"]["activations_peak_bytes"], 5010)

    def test_what_does_not_go_with_it_is_refused(self):
        model = onnx_make.encode(onnx_make.chain(6, (64, 256)))
        for data, members, pointer in (
            (model, {}, "/options/placement"),
            (self.GRAPH, {"objective": "latency"}, "/objective"),
            (self.GRAPH, {"options": {"placement": "any", "strategy": "pipeline"}}, "/options/strategy"),
            (self.GRAPH, {"options": {"placement": "any", "replicas": 2}}, "/options/replicas"),
            (self.GRAPH, {"constraints": {"max_stages": 2}}, "/constraints"),
        ):
            problem = self.submit_any(data, 422, **members)
            self.assertEqual((problem["code"], problem["errors"][0]["pointer"]), ("PLACEMENT_UNSUPPORTED", pointer))
        problem = self.submit_any(self.GRAPH, (400, 422), options={"placement": "some"})
        self.assertEqual((problem["code"], problem["errors"][0]["pointer"]), ("INVALID_OPTION", "/options/placement"))


class Profiles(DaemonCase):
    """tests/unit/cost/test_profile.c says which figures the events have."""

    def submit_profile(self, profile, expect=(200, 202)):
        data = onnx_make.encode(onnx_make.chain(6, (64, 256)))
        body = {"model": self.store(data), "cluster": CLUSTER, "options": {"profile": profile, "replicas": 1}}
        return self.ask("POST", "/v1/plans", body, expect, Prefer="wait=60").json

    def test_events_of_onnxruntime(self):
        plan = self.submit_profile(EVENTS)
        self.assertEqual([item["code"] for item in plan["plan"]["diagnostics"]], ["PROFILE_USED"])
        self.assertEqual(plan["plan"]["options"]["profile"]["nodes"]["relu5"], 5e-6)
        self.assertAlmostEqual(sum(stage["compute_seconds"] for stage in plan["plan"]["stages"]), 25e-6)
        rows = self.ask("GET", f"/v1/plans/{plan['id']}/exports/csv").body.decode().splitlines()
        self.assertEqual(rows[1].split(",")[9], "5e-06")

    def test_seconds_by_node(self):
        plan = self.submit_profile({"nodes": {"relu0": 2, "relu5": {"a100-sxm4-80gb": 2}}})
        self.assertAlmostEqual(plan["plan"]["estimate"]["interval_seconds"], 2, 3)

    def test_what_is_wrong(self):
        self.assertEqual(self.submit_profile({"nodes": {"relu0": -2}}, 422)["errors"][0]["pointer"],
                         "/options/profile/nodes/relu0")
        self.assertEqual(self.submit_profile({"nodes": {"conv": 2}}, 422)["code"], "PROFILE_MATCHES_NOTHING")
