"""Sweeps over several clusters, and what changes of one would bring."""

from cases import CLUSTER, TINY, DaemonCase
import onnx_make

TYPES = ["a100-sxm4-80gb", "l4-24gb"]
FIGURES = ("latency_seconds", "interval_seconds", "throughput_per_second", "devices_used")


class Variants(DaemonCase):
    def made(self, data=TINY, **members):
        """The finished plan of a request with these members."""
        body = {"model": self.store(data), **members}
        plan = self.ask("POST", "/v1/plans", body, 200, Prefer="wait=60").json["plan"]
        self.daemon.contract.validate(plan, {"$ref": "#/components/schemas/PlanDocument"}, "plan")
        return plan

    def expect_rows(self, plan, data, **members):
        self.assertEqual(sum(row["chosen"] for row in plan["sweep"]), 1)
        for row in plan["sweep"]:
            with self.subTest(row=row):
                cluster = {"device": row["device"], "count": row["devices_available"]}
                alone = self.made(data, cluster=cluster, **members)
                self.assertEqual([row[name] for name in FIGURES], [alone["estimate"][name] for name in FIGURES])
                self.assertEqual(row["stages"], len(alone["stages"]))
                if row["chosen"]:
                    self.assertEqual(plan["id"], alone["id"])
                    self.assertEqual(plan["stages"], alone["stages"])

    def test_types_and_numbers(self):
        data = onnx_make.encode(onnx_make.mlp(4, 512, 64, weights="external"))
        plan = self.made(data, sweep={"devices": [2, 1], "types": TYPES, "choose": "best"}, objective="latency")
        self.assertEqual([(row["device"], row["devices_available"]) for row in plan["sweep"]],
                         [(name, count) for name in TYPES for count in (2, 1)])
        chosen, = (row for row in plan["sweep"] if row["chosen"])
        self.assertLessEqual(chosen["latency_seconds"], min(row["latency_seconds"] for row in plan["sweep"]) * 1.00000001)
        self.expect_rows(plan, data, objective="latency")

    def test_first_devices(self):
        plan = self.made(sweep={"cluster": {"device": TYPES[0], "count": 4}, "devices": [4, 2, 3]})
        self.assertEqual(len(plan["devices"]), 2)  # the smallest, since all fit
        self.expect_rows(plan, TINY)

    def test_query(self):
        path = "/v1/plans?devices=1,2&device=" + ",".join(TYPES) + "&choose=best&what_if=true"
        answer = self.ask("POST", path, TINY, 200, Prefer="wait=60").json
        self.assertEqual(answer["request"], {"sweep": {"devices": [1, 2], "types": TYPES, "choose": "best"},
                                             "options": {"what_if": True}})
        self.assertEqual(len(answer["plan"]["sweep"]), 4)
        self.assertTrue(answer["plan"]["what_if"])
        text = self.ask("GET", "/v1/plans/" + answer["id"], Accept="text/plain").text
        self.assertIn("Clusters that were asked about", text)
        self.assertIn("What if", text)
        # One number of one type is a cluster as ever, unless one is to be chosen.
        one = f"/v1/plans?devices=1&device={TYPES[0]}"
        for path, member in ((one + "&what_if=false", "cluster"), (one + "&choose=smallest", "sweep")):
            answer = self.ask("POST", path, TINY, 200, Prefer="wait=60").json
            self.assertEqual(list(answer["request"]), [member])

    def test_what_if(self):
        plan = self.made(cluster=CLUSTER, options={"what_if": True})
        self.assertEqual(plan["options"]["what_if"], True)
        for row in plan["what_if"]:
            with self.subTest(row=row):
                self.assertTrue(row["fits"])
                if "fewer" not in row["change"]:
                    self.assertGreaterEqual(row["gain"], 0)
        more, = (row for row in plan["what_if"] if row["change"].startswith("one more"))
        alone = self.made(cluster={**CLUSTER, "count": CLUSTER["count"] + 1})["estimate"]
        self.assertLessEqual(more["interval_seconds"], alone["interval_seconds"] * 1.00000001)
        if not more["kept"]:
            self.assertEqual(more["interval_seconds"], alone["interval_seconds"])

    def test_files_of_a_plan_of_a_sweep(self):
        body = {"model": self.store(), "sweep": {"devices": [1, 2], "types": TYPES[:1], "choose": "best"},
                "options": {"what_if": True, "replicas": 1}}
        answer = self.ask("POST", "/v1/plans", body, 200, Prefer="wait=60").json
        lines = self.ask("GET", f"/v1/plans/{answer['id']}/exports/csv-devices").text.splitlines()
        self.assertEqual(len(lines), 1 + len(answer["plan"]["devices"]))

    def test_none_fits(self):
        small = {"name": "small", "memory_bytes": 1e9, "memory_bandwidth": 1e12, "link_bandwidth": 1e10,
                 "flops": {"float32": 1e13}}
        big = onnx_make.encode(onnx_make.mlp(40, 8192, weights="external"))  # 10 GiB of weights
        body = {"model": self.store(big), "sweep": {"devices": [1, 2], "types": [small]}}
        answer = self.problem("POST", "/v1/plans", body, 422, "NO_PLAN_FITS", Prefer="wait=60")
        self.assertIn("None of the 2 clusters fits.", answer.json["detail"])
        body = {"model": self.store(big), "cluster": {"device": small, "count": 2}, "options": {"what_if": True}}
        answer = self.problem("POST", "/v1/plans", body, 422, "NO_PLAN_FITS", Prefer="wait=60")
        self.assertIn("twice the memory", answer.json["detail"])

    def test_wrong_sweeps(self):
        name = self.store()
        good = {"devices": [1, 2], "types": TYPES}
        for sweep, pointer in (
            ({}, "/sweep/types"),
            ([], "/sweep"),
            (None, "/sweep"),
            ({**good, "devices": 2}, "/sweep/devices"),
            ({**good, "devices": []}, "/sweep/devices"),
            ({**good, "devices": [1, 2, 1]}, "/sweep/devices/2"),
            ({**good, "devices": [1, 0]}, "/sweep/devices/1"),
            ({**good, "devices": ["1"]}, "/sweep/devices/0"),
            ({**good, "devices": list(range(1, 34))}, "/sweep"),
            ({**good, "types": ["none"]}, "/sweep/types/0"),
            ({**good, "types": [TYPES[0]] * 2}, "/sweep/types/1"),
            ({**good, "types": [{"name": "x"}]}, "/sweep/types/0"),
            ({**good, "choose": "largest"}, "/sweep/choose"),
            ({**good, "extra": 1}, "/sweep/extra"),
            ({"devices": [3], "cluster": CLUSTER}, "/sweep/devices/0"),
            ({"devices": [1], "cluster": {**CLUSTER, "x": 1}}, "/sweep/cluster/x"),
        ):
            with self.subTest(sweep=sweep):
                self.problem("POST", "/v1/plans", {"model": name, "sweep": sweep}, 422, pointer=pointer)
        self.problem("POST", "/v1/plans", {"model": name, "cluster": CLUSTER, "sweep": good}, 422, pointer="/sweep")
        self.problem("POST", "/v1/plans", {"model": name, "cluster": CLUSTER, "options": {"what_if": 1}}, 422,
                     pointer="/options/what_if")
        for query in ("devices=1,,2&device=l4-24gb", "devices=1,x&device=l4-24gb", "devices=1,1&device=l4-24gb",
                      "devices=1,2", "devices=1&device=l4-24gb,", "devices=1&device=l4-24gb,none",
                      "devices=1&device=l4-24gb&choose=any", "devices=1&device=l4-24gb&what_if=1"):
            with self.subTest(query):
                self.problem("POST", "/v1/plans?" + query, TINY, 422)
        self.no_temporary_files()
