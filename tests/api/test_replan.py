"""Plans that follow another one: POST /v1/replan, and "from" in POST /v1/plans."""

from daemon import Daemon
from cases import DaemonCase
import onnx_make

SLOW = {"name": "slow", "memory_bytes": 1e9, "memory_bandwidth": 1e8, "link_bandwidth": 1e10, "flops": {"float32": 1e6}}
MODEL = onnx_make.encode(onnx_make.mlp(4, 64, 64, weights="pattern"))


def cluster(count):
    return {"device": SLOW, "count": count}


class Replan(DaemonCase):
    def before(self, count=4, **members):
        body = {"model": self.store(MODEL), "cluster": cluster(count), **members}
        return self.ask("POST", "/v1/plans", body, 200, Prefer="wait=60").json

    def valid(self, plan):
        self.daemon.contract.validate(plan, {"$ref": "#/components/schemas/PlanDocument"}, "plan")
        return plan

    def test_a_device_is_lost(self):
        before = self.before(options={"strategy": "pipeline"})
        body = {"from": before["id"], "cluster": cluster(3), "horizon_seconds": 3600, "map": [0, None, 1, 2]}
        answer = self.ask("POST", "/v1/replan", body, 200, Prefer="wait=60").json
        plan = self.valid(answer["plan"])
        self.assertEqual(plan["replan"]["from"], before["plan"]["id"])
        self.assertEqual(answer["model"], before["model"])
        self.assertGreater(plan["moved_bytes"], 0)
        self.assertGreaterEqual(plan["moved_bytes"], plan["moved_bytes_bound"])
        self.assertEqual(sum(move["bytes"] for move in plan["moves"]), plan["moved_bytes"])
        self.assertEqual(sorted(device["was"] for device in plan["replan"]["devices"]), [0, 2, 3])
        # The same through the other path is the same question.
        again = self.ask("POST", "/v1/plans", body, 200, Prefer="wait=60").json
        self.assertEqual((again["id"], again["reused"]), (answer["id"], True))
        text = self.ask("GET", "/v1/plans/" + answer["id"], Accept="text/plain").text
        self.assertIn("\nReplan ", text)
        # Files are made of it as of every plan.
        self.ask("GET", f"/v1/plans/{answer['id']}/exports/csv-devices")
        self.ask("GET", f"/v1/plans/{answer['id']}/devices/0/model")
        # And what follows a plan can be followed: nothing changes, nothing moves.
        body = {"from": answer["id"], "cluster": cluster(3)}
        third = self.ask("POST", "/v1/replan", body, 200, Prefer="wait=60").json
        self.assertEqual(third["plan"]["moved_bytes"], 0)
        self.assertEqual(third["plan"]["moves"], [])
        self.assertEqual(third["plan"]["stages"], plan["stages"])

    def test_options_are_those_of_before_unless_given(self):
        before = self.before(objective="latency", options={"tolerance": 0})
        body = {"from": before["id"], "cluster": cluster(2)}
        plan = self.ask("POST", "/v1/replan", body, 200, Prefer="wait=60").json["plan"]
        self.assertEqual((plan["objective"], plan["options"]["tolerance"]), ("latency", 0))
        body.update(objective="throughput", options={"seed": 7})
        plan = self.ask("POST", "/v1/replan", body, 200, Prefer="wait=60").json["plan"]
        self.assertEqual(plan["objective"], "throughput")
        self.assertEqual((plan["options"]["tolerance"], plan["options"]["seed"]), (0, 7))

    def test_what_makes_no_sense(self):
        before = self.before()
        good = {"from": before["id"], "cluster": cluster(3)}
        for changes, pointer in (
            ({"from": "none"}, "/from"), ({"from": 3}, "/from"), ({"horizon_seconds": -1}, "/horizon_seconds"),
            ({"horizon_seconds": "1h"}, "/horizon_seconds"), ({"map": [0, 1.5]}, "/map"), ({"map": {}}, "/map"),
            ({"cluster": {"device": "none", "count": 3}}, "/cluster/device"),
            ({"options": {"replan": {}}}, "/options/replan"), ({"more": 1}, "/more"),
        ):
            with self.subTest(changes):
                answer = self.problem("POST", "/v1/replan", {**good, **changes}, 422, None)
                self.assertEqual(answer.json["errors"][0]["pointer"], pointer)
        alone = {"cluster": cluster(3), "map": [0]}
        for path, body, pointer in (("/v1/replan", alone, "/from"),
                                    ("/v1/plans", {"model": before["model"], **alone}, "/map")):
            answer = self.problem("POST", path, body, 422, "BAD_REQUEST")
            self.assertEqual(answer.json["errors"][0]["pointer"], pointer)
        self.problem("POST", "/v1/replan", {**good, "from": "0" * 32}, 404, "PLAN_NOT_FOUND")
        self.problem("POST", "/v1/replan", {**good, "model": "0" * 64}, 422, "OTHER_MODEL")
        self.problem("POST", "/v1/replan", {**good, "map": [0, 1, 2]}, 422, "REPLAN_MAP", Prefer="wait=60")
        self.problem("POST", "/v1/replan", MODEL, 415, "UNSUPPORTED_MEDIA_TYPE")

    def test_the_plan_is_gone(self):
        before = self.before()
        body = {"from": before["id"], "cluster": cluster(3), "validate_only": True}
        valid = self.ask("POST", "/v1/replan", body, 200)
        self.assertTrue(valid.json["valid"])
        self.ask("DELETE", "/v1/plans/" + before["id"], expect=204)
        self.problem("POST", "/v1/replan", {"from": before["id"], "cluster": cluster(3)}, 404, "PLAN_NOT_FOUND")

    def test_what_has_no_result_yet(self):
        with Daemon("--workers", "1", "--tenant-plans", "2") as daemon:
            first = {"model": daemon.upload(MODEL).json["id"], "cluster": cluster(4)}
            done = daemon.request("POST", "/v1/plans", first, {"Prefer": "wait=60"})
            self.assertEqual(done.status, 200, done)
            daemon.freeze()
            waiting = daemon.request("POST", "/v1/plans", {**first, "cluster": cluster(2)})
            self.assertEqual(waiting.status, 202, waiting)
            for path in ("/v1/replan", "/v1/plans"):
                early = daemon.request("POST", path, {"from": waiting.json["id"], "cluster": cluster(3)})
                self.assertEqual((early.status, early.json["code"]), (409, "PLAN_NOT_READY"), early)
            next_one = daemon.request("POST", "/v1/replan", {"from": done.json["id"], "cluster": cluster(3)})
            self.assertEqual(next_one.status, 202, next_one)
            one_more = daemon.request("POST", "/v1/replan", {"from": done.json["id"], "cluster": cluster(2)})
            self.assertEqual((one_more.status, one_more.json["code"]), (429, "QUOTA_PLANS"), one_more)
            daemon.thaw()
            self.assertEqual(daemon.finished(next_one.json["id"])["state"], "succeeded")
