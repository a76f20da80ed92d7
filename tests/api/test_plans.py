"""Plans: submit in every way, watch, fetch, cancel, delete."""

import json
import os
import signal
import threading
import time

from cases import CLUSTER, MODELS, TINY, DaemonCase, model
import decoder_graph
import onnx_make

QUERY = "/v1/plans?devices=2&device=a100-sxm4-80gb"


class Plans(DaemonCase):
    def test_json(self):
        name = self.store()
        answer = self.ask("POST", "/v1/plans", {"model": name, "cluster": CLUSTER, "objective": "latency"}, 202)
        self.assertEqual(answer.headers["Location"], "/v1/plans/" + answer.json["id"])
        done = self.daemon.finished(answer.json["id"])
        self.assertEqual(done["state"], "succeeded", done)
        self.assertEqual(done["progress"]["fraction"], 1)
        self.assertEqual(done["attempts"], 1)
        self.assertEqual(done["request"], {"cluster": CLUSTER, "objective": "latency"})
        plan = done["plan"]
        self.daemon.contract.validate(plan, {"$ref": "#/components/schemas/PlanDocument"}, "plan")
        self.assertEqual(plan["model"]["sha256"], name)
        self.assertEqual(plan["objective"], "latency")
        self.assertEqual(len(plan["devices"]), 2)
        nodes = [node for stage in plan["stages"] for node in stage["nodes"]]
        self.assertEqual(len(nodes), 8)
        self.assertGreaterEqual(plan["estimate"]["latency_seconds"], plan["estimate"]["lower_bound_seconds"] * 0.999999)
        for name, figure in (("latency_range", "latency_seconds"), ("interval_range", "interval_seconds"),
                             ("throughput_range", "throughput_per_second")):
            self.assertEqual(plan["estimate"][name]["value"], plan["estimate"][figure])
            self.assertLess(plan["estimate"][name]["low"], plan["estimate"][name]["high"])

    def test_text(self):
        plan = self.submit()
        self.daemon.finished(plan)
        text = self.ask("GET", f"/v1/plans/{plan}", Accept="text/plain")
        self.assertIn("a100-sxm4-80gb", text.text)
        self.assertTrue(text.headers["Content-Type"].startswith("text/plain"))
        self.problem("GET", f"/v1/plans/{plan}", status=406, Accept="image/png")

    def test_model_as_body(self):
        for objective in ("throughput", "latency", "devices"):
            answer = self.ask("POST", f"{QUERY}&objective={objective}", model(1), 200, Prefer="wait=30")
            self.assertEqual(answer.json["plan"]["objective"], objective)
            self.assertEqual(answer.headers["Preference-Applied"], "wait=30")
        with open(os.path.join(MODELS, "resnet50.onnx"), "rb") as file:
            answer = self.ask("POST", f"{QUERY}&batch=8&name=resnet", file.read(), 200, Prefer="wait=60")
        self.assertEqual(answer.json["plan"]["model"]["sha256"], answer.json["model"])

    def test_annotated_model(self):
        plan = self.submit(model(2))
        self.daemon.finished(plan)
        path = f"/v1/plans/{plan}/model"
        answer = self.ask("GET", path)
        self.assertEqual(int(answer.headers["Content-Length"]), len(answer.body))
        self.assertEqual(int(self.ask("HEAD", path).headers["Content-Length"]), len(answer.body))
        self.ask("GET", path, expect=304, If_None_Match=answer.headers["ETag"])
        for first, last in ((0, 0), (3, 50), (len(answer.body) - 5, len(answer.body) - 1)):
            part = self.ask("GET", path, expect=206, Range=f"bytes={first}-{last}").body
            self.assertEqual(part, answer.body[first : last + 1])
        # It is a model again, and carries the configuration.
        stored = self.ask("POST", "/v1/models", answer.body, 201).json
        self.assertEqual(stored["ir_version"], 11)
        self.assertEqual(len(stored["configurations"]), 1)

    def test_wait_in_json_form(self):
        body = {"model": self.store(), "cluster": CLUSTER}
        answer = self.ask("POST", "/v1/plans", body, 200, Prefer="respond-async, wait=20")
        self.assertEqual(answer.json["state"], "succeeded")
        self.assertIn("plan", answer.json)
        answer = self.ask("POST", "/v1/plans", body, 200, Prefer="wait=20", Accept="text/plain")
        self.assertIn("throughput", answer.text)

    def test_constraints(self):
        body = {"model": self.store(), "cluster": CLUSTER, "constraints": {"max_stages": 1, "forbid": [{"nodes": "*"}]}}
        plan = self.ask("POST", "/v1/plans", body, 200, Prefer="wait=20").json["plan"]
        self.assertEqual([stage["devices"] for stage in plan["stages"]], [[plan["stages"][0]["devices"][0]]])
        self.assertEqual(plan["options"]["constraints"], {"max_stages": 1, "forbid": [{"nodes": ["*"]}]})
        body["constraints"] = {"pins": [{"nodes": "no-such-node", "stage": 0}]}
        answer = self.problem("POST", "/v1/plans", body, 422, "CONSTRAINT_NO_NODE", Prefer="wait=20")
        self.assertIn("no-such-node", answer.text)

    def test_a_workload(self):
        decoder = json.dumps(decoder_graph.decoder(**decoder_graph.TINY)).encode()
        answer = self.ask("POST", "/v1/models", decoder, (200, 201), Content_Type="application/json")
        workload = {"llm": {"input": 40, "output": 20}, "concurrency": "best", "limits": {"tpot_seconds": 0.001}}
        body = {"model": answer.json["id"], "cluster": CLUSTER, "workload": workload}
        plan = self.ask("POST", "/v1/plans", body, 200, Prefer="wait=30").json
        service = plan["plan"]["service"]
        self.assertLessEqual(service["tpot_seconds"], 0.001)
        self.assertEqual(plan["plan"]["options"]["workload"], workload)
        self.assertGreater(service["limit_concurrency"], 0)
        self.assertIn("Users see", self.ask("GET", f"/v1/plans/{plan['id']}", Accept="text/plain").text)
        self.ask("GET", f"/v1/plans/{plan['id']}/model")  # the plan is made again from its record
        body["workload"] = {**workload, "limits": {"tpot_seconds": 1e-9}}
        self.problem("POST", "/v1/plans", body, 422, "LIMIT_NOT_KEPT", Prefer="wait=30")

    def test_a_plan_that_does_not_fit(self):
        big = onnx_make.encode(onnx_make.mlp(40, 8192, weights="external"))  # 10 GiB of weights, not in the file
        tiny = {"groups": [{"count": 2, "device": {"name": "small", "memory_bytes": 1e9, "memory_bandwidth": 1e12, "link_bandwidth": 1e10,
                                                   "flops": {"float32": 1e13}}}]}
        body = {"model": self.store(big), "cluster": tiny}
        answer = self.problem("POST", "/v1/plans", body, 422, Prefer="wait=30")
        self.assertEqual(answer.json["kind"], "nofit")
        self.assertGreater(answer.json["least_memory_bytes"], answer.json["too_little_memory_bytes"])
        self.assertGreaterEqual(answer.json["too_little_memory_bytes"], 1e9)
        plan = answer.headers["Location"]
        done = self.ask("GET", plan).json
        self.assertEqual(done["state"], "failed")
        self.assertEqual((done["error"]["code"], done["error"]["status"]), (answer.json["code"], 422))
        self.assertEqual(done["error"]["least_memory_bytes"], answer.json["least_memory_bytes"])
        self.assertIn(answer.json["code"], self.ask("GET", plan, Accept="text/plain").text)
        self.problem("GET", plan + "/model", status=409, code="PLAN_NOT_READY")
        tiny["groups"][0]["device"]["memory_bytes"] = answer.json["least_memory_bytes"]
        self.ask("POST", "/v1/plans", body, 200, Prefer="wait=60")
        tiny["groups"][0]["device"]["memory_bytes"] = answer.json["too_little_memory_bytes"]
        self.problem("POST", "/v1/plans", body, 422, Prefer="wait=60")

    def test_wrong_requests(self):
        name = self.store()
        for body, pointer in (
            ({"cluster": CLUSTER}, "/model"),
            ({"model": "x", "cluster": CLUSTER}, "/model"),
            ({"model": name.upper(), "cluster": CLUSTER}, "/model"),
            ({"model": name}, "/cluster"),
            ({"model": name, "cluster": CLUSTER, "extra": 1}, "/extra"),
            ({"model": name, "cluster": {"device": "no-such", "count": 2}}, "/cluster/device"),
            ({"model": name, "cluster": {"device": "a100-sxm4-80gb", "count": 0}}, "/cluster/count"),
            ({"model": name, "cluster": {"device": "a100-sxm4-80gb", "count": 1e9}}, "/cluster/count"),
            ({"model": name, "cluster": {**CLUSTER, "x": 1}}, "/cluster/x"),
            ({"model": name, "cluster": CLUSTER, "objective": "beauty"}, "/objective"),
            ({"model": name, "cluster": CLUSTER, "options": {"strategy": "magic"}}, "/options/strategy"),
            ({"model": name, "cluster": CLUSTER, "options": {"batch": -1}}, "/options/batch"),
            ({"model": name, "cluster": CLUSTER, "options": {"x": 1}}, "/options/x"),
            ({"model": name, "cluster": CLUSTER, "constraints": []}, "/constraints"),
            ({"model": name, "cluster": CLUSTER, "constraints": {"max_stages": 0}}, "/constraints/max_stages"),
            ({"model": name, "cluster": CLUSTER, "constraints": {"pins": [{"nodes": "a"}]}}, "/constraints/pins/0"),
            ({"model": name, "cluster": CLUSTER, "constraints": {}, "options": {"constraints": {}}}, "/constraints"),
            ({"model": name, "cluster": CLUSTER, "workload": {}}, "/workload"),
            ({"model": name, "cluster": CLUSTER, "workload": {"llm": {"input": 0, "output": 1}}}, "/workload/llm/input"),
        ):
            with self.subTest(pointer=pointer, body=body):
                self.problem("POST", "/v1/plans", body, 422, pointer=pointer)
        self.problem("POST", "/v1/plans", [], 422)
        self.problem("POST", "/v1/plans", {"model": "0" * 64, "cluster": CLUSTER}, 404, "MODEL_NOT_FOUND")
        for text in (b"", b"{", b"{}x", b'{"a":1,"a":2}', b'"\xff"', b'{"a":1e999}', b'{"a":NaN}', b'"\\ud800"', b"[" * 2100):
            self.problem("POST", "/v1/plans", text, 400, "MALFORMED_JSON", Content_Type="application/json")
        self.problem("POST", "/v1/plans", b" " * (257 << 10), 413, "BODY_TOO_LARGE", Content_Type="application/json")
        self.problem("POST", "/v1/plans", b"{}", 415, "UNSUPPORTED_MEDIA_TYPE", Content_Type="text/plain")
        self.problem("POST", QUERY, {"model": name}, 400, "UNKNOWN_PARAMETER")

    def test_wrong_queries(self):
        for query in ("", "?devices=4", "?device=a100-sxm4-80gb", "?devices=x&device=a100-sxm4-80gb",
                      "?devices=0&device=a100-sxm4-80gb", "?devices=2&device=none", QUERY[9:] + "&objective=beauty",
                      QUERY[9:] + "&batch=0", QUERY[9:] + "&strategy=magic"):
            with self.subTest(query):
                self.problem("POST", "/v1/plans" + query, TINY, 422)
        self.problem("POST", QUERY + "&color=red", TINY, 400, "UNKNOWN_PARAMETER")
        self.problem("POST", QUERY, b"not a model", 400)
        self.problem("POST", QUERY, TINY, 415, Content_Type="application/x-www-form-urlencoded")
        self.no_temporary_files()

    def test_idempotency(self):
        name = self.store()
        body = {"model": name, "cluster": CLUSTER}
        first = self.ask("POST", "/v1/plans", body, 202, Idempotency_Key="k-1").json["id"]
        self.daemon.finished(first)
        again = {"cluster": dict(reversed(CLUSTER.items())), "model": name}  # the order of members does not matter
        self.assertEqual(self.ask("POST", "/v1/plans", again, 202, Idempotency_Key="k-1").json["id"], first)
        answer = self.ask("POST", "/v1/plans", body, 200, Idempotency_Key="k-1", Prefer="wait=5")
        self.assertEqual(answer.json["id"], first)
        self.problem("POST", "/v1/plans", {**body, "objective": "latency"}, 422, "IDEMPOTENCY_KEY_REUSED",
                     Idempotency_Key="k-1")
        upload = self.ask("POST", QUERY, TINY, 202, Idempotency_Key="k-2").json["id"]
        self.assertEqual(self.ask("POST", QUERY, TINY, 202, Idempotency_Key="k-2").json["id"], upload)
        self.problem("POST", QUERY, model(3), 422, "IDEMPOTENCY_KEY_REUSED", Idempotency_Key="k-2")
        for wrong in ("", "a b", "x" * 256):
            self.problem("POST", "/v1/plans", body, 400, "BAD_IDEMPOTENCY_KEY", Idempotency_Key=wrong)

    def test_one_key_from_many_at_once(self):
        body = {"model": self.store(), "cluster": CLUSTER}
        plans = []

        def submit():
            plans.append(self.daemon.request("POST", "/v1/plans", body, {"Idempotency-Key": "storm"}).json["id"])

        threads = [threading.Thread(target=submit) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(plans), 20)
        self.assertEqual(len(set(plans)), 1)

    def test_many_wait_at_once(self):
        states = []

        def submit(number):
            answer = self.daemon.upload(model(number), QUERY, Prefer="wait=60")
            states.append(answer.json.get("state", answer))

        threads = [threading.Thread(target=submit, args=(10 + number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(states, ["succeeded"] * 16)

    def test_paging(self):
        wanted = [self.submit() for _ in range(5)]
        first = self.ask("GET", "/v1/plans?page_size=3").json
        second = self.ask("GET", f"/v1/plans?page_size=2&page_token={first['next_page_token']}").json
        listed = [plan["id"] for plan in first["plans"] + second["plans"]]
        self.assertEqual(listed, wanted[::-1])
        self.assertNotIn("plan", first["plans"][0])

    def test_delete(self):
        plan = self.submit()
        self.daemon.finished(plan)
        folder = os.path.join(self.daemon.data, "plans", plan)
        self.assertTrue(os.path.exists(os.path.join(folder, "1", "plan.json")))
        self.ask("DELETE", f"/v1/plans/{plan}", expect=204)
        self.daemon.wait_for(lambda: not os.path.exists(folder), "the removal of the plan's folder")
        for method, path in (("GET", ""), ("GET", "/model"), ("POST", "/cancel"), ("DELETE", "")):
            self.problem(method, f"/v1/plans/{plan}{path}", status=404, code="PLAN_NOT_FOUND")

    def test_cancel_finished(self):
        plan = self.submit()
        self.daemon.finished(plan)
        self.assertEqual(self.ask("POST", f"/v1/plans/{plan}/cancel").json["state"], "succeeded")


class Frozen(DaemonCase):
    """With workers that are stopped, what is queued stays queued and what runs stays running."""

    options = ("--workers", "1", "--job-seconds", "2")

    def setUp(self):
        self.names = [self.store(model(number)) for number in range(2)]
        self.workers = self.daemon.freeze()

    def tearDown(self):
        self.daemon.thaw()

    def ask_plan(self, which=0, **headers):
        body = {"model": self.names[which], "cluster": CLUSTER}
        return self.ask("POST", "/v1/plans", body, 202, Cache_Control="no-cache", **headers).json["id"]

    def state(self, plan):
        return self.ask("GET", f"/v1/plans/{plan}").json["state"]

    def test_cancel(self):
        running, queued = self.ask_plan(), self.ask_plan(1)
        self.daemon.wait_for(lambda: self.state(running) == "running", "a running plan")
        self.assertEqual(self.state(queued), "queued")
        self.assertEqual(self.ask("GET", f"/v1/plans/{queued}", Accept="text/plain").text, f"Plan {queued} is queued.\n")
        self.problem("DELETE", f"/v1/models/{self.names[1]}", status=409, code="MODEL_IN_USE")
        self.assertEqual(self.ask("POST", f"/v1/plans/{queued}/cancel").json["state"], "cancelled")
        for _ in range(2):
            answer = self.ask("POST", f"/v1/plans/{running}/cancel", Prefer="wait=20").json
            self.assertEqual((answer["state"], answer["has_result"]), ("cancelled", False))
        self.daemon.thaw()
        later = self.ask_plan()
        self.assertEqual(self.daemon.finished(later)["state"], "succeeded")
        self.assertEqual((self.state(running), self.state(queued)), ("cancelled", "cancelled"))

    def test_delete_running(self):
        plan = self.ask_plan()
        self.daemon.wait_for(lambda: self.state(plan) == "running", "a running plan")
        self.ask("DELETE", f"/v1/plans/{plan}", expect=204)
        self.problem("GET", f"/v1/plans/{plan}", status=404)
        self.daemon.wait_for(lambda: not os.path.exists(os.path.join(self.daemon.data, "plans", plan)), "removal")

    def test_wait_ends(self):
        started = time.monotonic()
        self.ask_plan(Prefer="wait=1")
        self.assertGreaterEqual(time.monotonic() - started, 0.9)

    def test_hung_worker(self):
        plan = self.ask_plan()
        done = self.daemon.finished(plan, patience=30)
        self.assertEqual((done["state"], done["error"]["code"]), ("failed", "TIME_LIMIT"), done)

    def test_upload_does_not_wait_for_plans(self):
        """One worker hangs in a plan; the spare one takes the upload."""
        plan = self.ask_plan()
        self.daemon.wait_for(lambda: self.state(plan) == "running", "a running plan")
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.daemon.upload(model(40))))
        thread.start()
        self.daemon.wait_for(lambda: self.daemon.metric("shardplan_workers_busy") == 2, "two busy workers")
        self.daemon.thaw(self.workers)
        thread.join()
        self.assertEqual(answers[0].status, 201, answers[0])


class Crashing(DaemonCase):
    options = ("--workers", "1")

    def kill_busy(self, plan):
        """Kills all (stopped) workers when the plan is in one of them: it is `running` from when the daemon has taken it from
        the queue, a moment before a worker has it."""
        self.daemon.wait_for(lambda: self.ask("GET", f"/v1/plans/{plan}").json["state"] == "running", "a running plan")
        self.daemon.wait_for(lambda: self.daemon.metric("shardplan_workers_busy") == 1, "a worker that has it")
        for pid in self.daemon.workers():
            os.kill(pid, signal.SIGKILL)

    def test_killed_once(self):
        name = self.store(model(50))
        self.daemon.freeze()
        plan = self.ask("POST", "/v1/plans", {"model": name, "cluster": CLUSTER}, 202).json["id"]
        self.kill_busy(plan)
        done = self.daemon.finished(plan)
        self.assertEqual(done["state"], "succeeded", done)
        self.assertGreaterEqual(done["attempts"], 2)

    def test_killed_twice(self):
        """A worker that dies over a job costs it one retry, the second death fails it. The job is long enough to be
        met in a worker that has long taken it."""
        name = self.store(onnx_make.encode(onnx_make.diamonds(400000)))
        look = self.daemon.busy_worker(ticks=10)
        plan = self.ask("POST", "/v1/plans", {"model": name, "cluster": CLUSTER}, 202).json["id"]
        for attempt in (1, 2):
            pid = self.daemon.wait_for(look, "a busy worker")
            row = self.ask("GET", f"/v1/plans/{plan}").json
            self.assertEqual((row["state"], row["attempts"]), ("running", attempt))
            look = self.daemon.busy_worker(ticks=10)
            os.kill(pid, signal.SIGKILL)
        done = self.daemon.finished(plan)
        self.assertEqual((done["state"], done["error"]["code"]), ("failed", "WORKER_CRASHED"), done)
        self.assertEqual(done["error"]["status"], 500)

    def test_idle_workers_die(self):
        for pid in self.daemon.workers():
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(self.daemon.finished(self.submit(model(53)))["state"], "succeeded")

    def test_killed_while_inspecting(self):
        self.daemon.freeze()
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.daemon.upload(model(52))))
        thread.start()
        self.daemon.wait_for(lambda: self.daemon.metric("shardplan_workers_busy") == 1, "a busy worker")
        for pid in self.daemon.workers():
            os.kill(pid, signal.SIGKILL)
        thread.join()
        self.assertEqual(answers[0].status, 201, answers[0])
