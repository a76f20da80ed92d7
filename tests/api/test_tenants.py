"""Tenants: what belongs to another one does not exist. For every route of the contract, which this file must know."""

import base64
import hashlib
import re
import tempfile

from cases import CLUSTER, DaemonCase, model
from daemon import Daemon
from test_auth import Tokens

JSON = {"Content-Type": "application/json"}
# What is asked of every route that names a thing: (what follows the path, body, headers).
PLAIN = [("", None, {}), ("", None, {"If-None-Match": "*"}), ("", None, {"Range": "bytes=0-9"}), ("", None, {"If-Match": "*"}),
         ("", None, {"Accept": "text/plain"}), ("", None, {"Accept-Encoding": "gzip"})]
ABOUT_ONE = {
    ("GET", "/v1/models/{id}"): PLAIN,
    ("HEAD", "/v1/models/{id}"): PLAIN,
    ("DELETE", "/v1/models/{id}"): [("", None, {}), ("", None, {"If-Match": '"x"'})],
    ("GET", "/v1/models/{id}/content"): PLAIN,
    ("GET", "/v1/models/{id}/files"): [("", None, {}), ("", None, {"If-None-Match": "*"})],
    ("POST", "/v1/models/{id}/files"): [("", b'{"location":"x","upload":"00"}', JSON), ("", b"{", JSON)],
    ("POST", "/v1/models/{id}/inspect"): [("", b"", {}), ("", b'{"values":true}', JSON), ("", b"{", JSON)],
    ("POST", "/v1/models/{id}/check"): [("", b"{}", JSON), ("", b'{"device":"none"}', JSON)],
    ("POST", "/v1/models/{id}/infer"): [("", b"{}", JSON), ("", b"{}", {**JSON, "Accept": "application/octet-stream"})],
    ("GET", "/v1/uploads/{id}"): PLAIN,
    ("HEAD", "/v1/uploads/{id}"): PLAIN,
    ("PATCH", "/v1/uploads/{id}"): [("", b"x", {"Upload-Offset": "0"}), ("", b"", {"Upload-Offset": "9"}), ("", b"x", {})],
    ("DELETE", "/v1/uploads/{id}"): [("", None, {})],
    ("GET", "/v1/plans/{id}"): PLAIN,
    ("HEAD", "/v1/plans/{id}"): PLAIN,
    ("DELETE", "/v1/plans/{id}"): [("", None, {}), ("", None, {"If-Match": "*"})],
    ("POST", "/v1/plans/{id}/cancel"): [("", None, {}), ("", None, {"If-Match": '"x"'})],
    ("GET", "/v1/plans/{id}/events"): [("", None, {}), ("", None, {"Last-Event-ID": "1"})],
    ("GET", "/v1/plans/{id}/model"): PLAIN,
    ("GET", "/v1/plans/{id}/simulation"): PLAIN,
    ("GET", "/v1/plans/{id}/timeline"): [*PLAIN, ("?lanes=1", None, {}), ("", None, {"Accept": "application/json"})],
    ("GET", "/v1/plans/{id}/summary"): PLAIN,
    ("GET", "/v1/plans/{id}/graph"): [*PLAIN, ("?path=x", None, {}), ("?stage=99", None, {})],
    ("GET", "/v1/plans/{id}/memory"): [*PLAIN, ("?stage=99", None, {})],
    ("GET", "/v1/plans/{id}/nodes"): [*PLAIN, ("?path=x", None, {}), ("?page_size=1", None, {})],
    ("GET", "/v1/plans/{id}/tensors"): [*PLAIN, ("?differs_from=" + "0" * 32, None, {})],
    ("GET", "/v1/plans/{id}/collectives"): PLAIN,
    ("GET", "/v1/plans/{id}/diagnostics"): PLAIN,
    ("GET", "/v1/plans/{id}/devices/{device}/model"): [*PLAIN, ("?part=7", None, {}), ("?format=ort", None, {})],
    ("GET", "/v1/plans/{id}/devices/{device}/data"): [*PLAIN, ("?format=sessions", None, {})],
    ("GET", "/v1/plans/{id}/exports/{format}"): PLAIN,
}
# Routes that show or take what tenants have, each with a test below, and those that know nothing of tenants.
ABOUT_ALL = {("GET", "/v1/models"), ("GET", "/v1/plans"), ("GET", "/v1/summary"), ("POST", "/v1/models"), ("POST", "/v1/plans"),
             ("GET", "/v1/uploads"), ("POST", "/v1/uploads"),
             ("POST", "/v1/replan"), ("POST", "/v1/verify")}
ABOUT_NONE = {
    ("GET", "/"), ("GET", "/assets/{file}"), ("GET", "/livez"), ("GET", "/readyz"), ("GET", "/metrics"), ("GET", "/version"), ("GET", "/openapi.json"), ("GET", "/v1/schemas/{file}"),
    ("GET", "/v1/devices"), ("GET", "/v1/operators"), ("POST", "/v1/check"), ("POST", "/v1/convert"), ("POST", "/v1/reshard"),
}
QUERY = "/v1/plans?devices=2&device=a100-sxm4-80gb"
CALLS = re.compile(r'^shardplan_store_calls_total{call="((?:get|find|list|delete|cancel|add)\w*)"[^}]*} (\S+)$', re.MULTILINE)


def told(answer, name):
    """Everything that an answer tells, but for which request it is, when, and the id that was asked for."""
    headers = sorted((key, value) for key, value in answer.headers.items() if key not in ("Date", "X-Request-Id"))
    body = re.sub(rb'"(request_id|trace_id)":"[^"]*"', b"", answer.body).replace(name.encode(), b"ID")
    return answer.status, headers, body


class Tenants(DaemonCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        tokens = Tokens(cls.folder.name)
        cls.tokens = {name: tokens.add(name, "--tenant", name) for name in ("alpha", "beta", "gamma", "delta")}
        cls.tokens["chief"] = tokens.chief
        tokens.write()
        cls.daemon = Daemon("--workers", "2", "--tokens", tokens.path)
        cls.daemon.start()
        cls.data = model(500)
        cls.model = cls.by("alpha", "POST", "/v1/models?name=secret", cls.data, 201).json["id"]
        cls.upload = cls.by("alpha", "POST", "/v1/uploads", {"bytes": 10}, 201).json["id"]
        cls.plan = cls.by("alpha", "POST", "/v1/plans", {"model": cls.model, "cluster": CLUSTER}, 200, Prefer="wait=60").json["id"]

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    @classmethod
    def by(cls, tenant, method, path, body=None, expect=None, **headers):
        names = {key.replace("_", "-"): value for key, value in headers.items()}
        answer = cls.daemon.request(method, path, body, {"Authorization": f"Bearer {cls.tokens[tenant]}", **names})
        wanted = expect if isinstance(expect, tuple) else (expect,)
        if expect is not None and answer.status not in wanted:
            raise AssertionError(f"{tenant}: {method} {path}: {answer}, not {expect}")
        return answer

    def test_every_route_is_known_here(self):
        served = self.daemon.contract.routes()
        known = {key for key in ABOUT_ONE if key[0] != "HEAD"} | ABOUT_ALL | ABOUT_NONE
        self.assertEqual(served, known)

    def name_for(self, path):
        return self.model if "/models/{id}" in path else self.upload if "/uploads/{id}" in path else self.plan

    def test_what_belongs_to_another_is_not_there(self):
        for (method, path), requests in ABOUT_ONE.items():
            name = self.name_for(path)
            other = hashlib.sha256(name.encode()).hexdigest()[: len(name)]
            for more, body, headers in requests:
                def ask(who):
                    target = path.replace("{id}", who).replace("{device}", "0").replace("{format}", "csv") + more
                    return told(self.by("beta", method, target, body, 404, **headers), who)
                with self.subTest(method=method, path=path + more, headers=headers):
                    self.assertEqual(ask(name), ask(other))
        self.by("alpha", "GET", f"/v1/models/{self.model}", expect=200)
        self.assertEqual(self.by("alpha", "GET", f"/v1/plans/{self.plan}", expect=200).json["state"], "succeeded")

    def test_page_tokens_tell_nothing_of_others(self):
        """They count the rows of all tenants, and so are sealed: what can be read of them tells no small number, and any
        change of one makes it no token."""
        for number in range(4):
            self.by("gamma", "POST", "/v1/models", model(540 + number), 201)
        token = self.by("gamma", "GET", "/v1/models?page_size=1", expect=200).json["next_page_token"]
        raw = base64.urlsafe_b64decode(token + "==")
        self.assertEqual(len(raw), 16)
        for start in range(9):
            self.assertGreater(int.from_bytes(raw[start:start + 8], "big"), 1 << 20, token)
            self.assertGreater(int.from_bytes(raw[start:start + 8], "little"), 1 << 20, token)
        for bit in range(128):
            other = base64.urlsafe_b64encode((int.from_bytes(raw, "big") ^ 1 << bit).to_bytes(16, "big")).decode().rstrip("=")
            answer = self.by("gamma", "GET", f"/v1/models?page_size=1&page_token={other}", expect=400)
            self.assertEqual(answer.json["code"], "BAD_PAGE_TOKEN")
        second = self.by("gamma", "GET", f"/v1/models?page_size=1&page_token={token}", expect=200).json
        self.assertEqual(len(second["models"]), 1)
        following = base64.urlsafe_b64decode(second["next_page_token"] + "==")
        differing = bin(int.from_bytes(raw, "big") ^ int.from_bytes(following, "big")).count("1")
        self.assertGreater(differing, 30, "two tokens in a row have nothing in common")

    def test_it_takes_the_same_work(self):
        """The store is asked the same for a thing that is another tenant's as for one that is not there."""
        def calls():
            return dict(CALLS.findall(self.by("chief", "GET", "/metrics", expect=200).text))

        self.assertIn("get_plan", calls())
        for (method, path), requests in ABOUT_ONE.items():
            name = self.name_for(path)
            for _ in range(5):  # the daemon itself may look at a plan that has just ended
                seen = []
                for who in (name, hashlib.sha256(name.encode()).hexdigest()[: len(name)]):
                    before = calls()
                    target = path.replace("{id}", who).replace("{device}", "0").replace("{format}", "csv")
                    self.by("beta", method, target, requests[0][1], 404, **requests[0][2])
                    after = calls()
                    seen.append({call: float(count) - float(before.get(call, 0)) for call, count in after.items()
                                 if count != before.get(call)})
                if seen[0] == seen[1]:
                    break
            self.assertEqual(seen[0], seen[1], (method, path))

    def test_lists(self):
        self.assertEqual(self.by("beta", "GET", "/v1/plans", expect=200).json, {"plans": []})
        self.assertEqual(self.by("beta", "GET", "/v1/uploads", expect=200).json, {"uploads": []})
        self.assertEqual(self.by("beta", "GET", f"/v1/plans?model={self.model}", expect=200).json, {"plans": []})
        self.assertEqual(self.by("beta", "GET", "/v1/summary", expect=200).json, {"plans": []})
        for who, tenants in (("alpha", {None}), ("chief", {"alpha"})):
            rows = [row for row in self.by(who, "GET", "/v1/summary?page_size=500", expect=200).json["plans"] if row["id"] == self.plan]
            self.assertEqual({row.get("tenant") for row in rows}, tenants)
            self.assertEqual(rows[0]["model_name"], "secret")
        self.assertEqual(self.by("delta", "GET", "/v1/models", expect=200).json, {"models": []})
        for number in range(3):
            self.by("alpha", "POST", "/v1/models", model(510 + number), 201)
        token = self.by("alpha", "GET", "/v1/models?page_size=1", expect=200).json["next_page_token"]
        self.assertEqual(self.by("delta", "GET", f"/v1/models?page_token={token}", expect=400).json["code"], "BAD_PAGE_TOKEN")
        for kind in ("models", "plans", "uploads"):
            for item in self.by("alpha", "GET", f"/v1/{kind}", expect=200).json[kind]:
                self.assertNotIn("tenant", item)
            listed = self.by("chief", "GET", f"/v1/{kind}", expect=200).json[kind]
            self.assertIn("alpha", {item["tenant"] for item in listed})

    def test_the_same_bytes_are_stored_as_if_new(self):
        """201 and the whole way, names and quotas apart; the file is there until its last tenant deletes it."""
        data = model(520)
        name = hashlib.sha256(data).hexdigest()
        first = self.by("alpha", "POST", "/v1/models?name=a", data, 201)
        second = self.by("gamma", "POST", "/v1/models?name=b", data, 201)
        self.assertEqual(second.json["id"], name)
        names = {}
        for tenant in ("alpha", "gamma"):
            for item in self.by(tenant, "GET", "/v1/models", expect=200).json["models"]:
                if item["id"] == name:
                    names[tenant] = item["name"]
        self.assertEqual(names, {"alpha": "a", "gamma": "b"})
        self.assertEqual(set(first.json), set(second.json))
        both = [item for item in self.by("chief", "GET", "/v1/models?page_size=500", expect=200).json["models"] if item["id"] == name]
        self.assertEqual(sorted(item["tenant"] for item in both), ["alpha", "gamma"])
        self.by("gamma", "DELETE", f"/v1/models/{name}", expect=204)
        self.by("gamma", "GET", f"/v1/models/{name}", expect=404)
        self.by("gamma", "GET", f"/v1/models/{name}/content", expect=404)
        self.assertEqual(self.by("alpha", "GET", f"/v1/models/{name}/content", expect=200).body, data)
        self.assertEqual(self.by("alpha", "GET", f"/v1/models/{name}", expect=200).json, first.json)
        self.by("gamma", "POST", "/v1/models?name=c", data, 201)
        self.by("alpha", "DELETE", f"/v1/models/{name}", expect=204)
        self.assertEqual(self.by("gamma", "GET", f"/v1/models/{name}/content", expect=200).body, data)
        self.by("gamma", "DELETE", f"/v1/models/{name}", expect=204)
        self.by("chief", "GET", f"/v1/models/{name}", expect=404)

    def test_nobody_follows_a_plan_of_another(self):
        body, missing = ({"from": plan, "cluster": CLUSTER} for plan in (self.plan, "0" * 32))
        self.by("alpha", "POST", "/v1/replan", body, 200, Prefer="wait=60")
        for path in ("/v1/replan", "/v1/plans"):
            self.assertEqual(told(self.by("delta", "POST", path, body, 404), self.plan),
                             told(self.by("delta", "POST", path, missing, 404), "0" * 32))

    def test_nobody_verifies_models_of_another(self):
        """As the original, as a rank, or as an annotated model."""
        own = self.by("delta", "POST", "/v1/models", model(540), 201).json["id"]
        for other, kind in (("original", "simulation"), ("simulation", "original"), ("annotated", None)):
            bodies = [{other: name, **({kind: own} if kind else {})} for name in (self.model, "0" * 64)]
            told_of = [told(self.by("delta", "POST", "/v1/verify", body, 404), name)
                       for body, name in zip(bodies, (self.model, "0" * 64))]
            self.assertEqual(*told_of)
        self.by("delta", "POST", "/v1/verify", {"original": own, "ranks": [own, self.model]}, 404)
        self.by("delta", "POST", "/v1/verify", {"original": own, "ranks": [own]}, 200)
        self.by("alpha", "POST", "/v1/verify", {"original": self.model, "ranks": [self.model]}, 200)

    def test_plans_of_equal_questions_are_apart(self):
        """So are keys; and a model of another tenant cannot be planned."""
        body = {"model": self.model, "cluster": CLUSTER}
        missing = {"model": "0" * 64, "cluster": CLUSTER}
        self.assertEqual(told(self.by("delta", "POST", "/v1/plans", body, 404), self.model),
                         told(self.by("delta", "POST", "/v1/plans", missing, 404), "0" * 64))
        self.by("delta", "POST", "/v1/plans?validate_only=true", body, 404)
        data = model(530)
        plans = {}
        for tenant in ("alpha", "gamma"):
            answer = self.by(tenant, "POST", QUERY, data, 200, Prefer="wait=60", Idempotency_Key="same").json
            self.assertNotIn("reused", answer)
            plans[tenant] = answer["id"]
        self.assertNotEqual(plans["alpha"], plans["gamma"])
        self.assertTrue(self.by("gamma", "POST", QUERY, data, 202).json["reused"])
        self.by("gamma", "POST", f"/v1/plans/{plans['alpha']}/cancel", expect=404)
        self.by("gamma", "DELETE", f"/v1/plans/{plans['alpha']}", expect=404)
        self.by("alpha", "GET", f"/v1/plans/{plans['alpha']}/exports/csv", expect=200)
        self.by("alpha", "DELETE", f"/v1/plans/{plans['alpha']}", expect=204)
        self.by("gamma", "GET", f"/v1/plans/{plans['gamma']}/exports/csv", expect=200)
        answer = self.by("chief", "GET", f"/v1/plans/{plans['gamma']}", expect=200).json
        self.assertEqual((answer["tenant"], answer["state"]), ("gamma", "succeeded"))

    def test_a_plan_is_compared_with_plans_of_the_tenant_only(self):
        """Also when the other plan's index is in memory, and the answer is kept by somebody."""
        data = model(550)
        self.by("gamma", "POST", "/v1/models", data, 201)
        mine = self.by("gamma", "POST", QUERY, data, 200, Prefer="wait=60").json["id"]
        path = f"/v1/plans/{mine}/tensors?differs_from={self.plan}"
        tag = self.by("chief", "GET", path, expect=200).headers["ETag"]
        missing = f"/v1/plans/{mine}/tensors?differs_from={'0' * 32}"
        for headers in ({}, {"If-None-Match": tag}):
            self.assertEqual(told(self.by("gamma", "GET", path, None, 404, **headers), self.plan),
                             told(self.by("gamma", "GET", missing, None, 404, **headers), "0" * 32))
        self.by("chief", "GET", path, None, 304, **{"If-None-Match": tag})
        self.by("gamma", "DELETE", f"/v1/plans/{mine}", expect=204)

    def test_an_administrator_reaches_all(self):
        data = model(540)
        self.by("gamma", "POST", QUERY, data, 200, Prefer="wait=60")
        name = hashlib.sha256(data).hexdigest()
        self.by("chief", "GET", f"/v1/models/{name}", expect=200)
        self.assertEqual(self.by("chief", "GET", f"/v1/models/{name}/content", expect=200).body, data)
        self.by("chief", "POST", f"/v1/models/{name}/check", {}, 200)
        self.by("chief", "DELETE", f"/v1/models/{name}", expect=409)
        for plan in self.by("chief", "GET", f"/v1/plans?model={name}", expect=200).json["plans"]:
            self.by("chief", "GET", f"/v1/plans/{plan['id']}/timeline", expect=200)
            self.by("chief", "DELETE", f"/v1/plans/{plan['id']}", expect=204)
        self.by("chief", "DELETE", f"/v1/models/{name}", expect=204)
        self.by("gamma", "GET", f"/v1/models/{name}", expect=404)
