"""What a request may say besides its question: conditions, priorities, filters, keys, and that it is only to be checked."""

import glob
import hashlib
import json
import os
import re
import socket
import tempfile
import threading
import time
import unittest

from cases import CLUSTER, TINY, DaemonCase, model
from daemon import PATIENCE, Daemon
from test_auth import Tokens

QUERY = "/v1/plans?devices=2&device=a100-sxm4-80gb"
LONG_AGO, FAR_AHEAD = "Mon, 01 Jan 2001 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"


class Conditions(DaemonCase):
    def reads(self, path):
        """All conditions of a GET, on a thing that is there and does not change."""
        first = self.ask("GET", path)
        tag, date = first.headers["ETag"], first.headers["Last-Modified"]
        for head in (False, True):
            method = "HEAD" if head else "GET"
            for listed in (tag, f'"x", {tag}', f"W/{tag}", "*", f'"a,b",{tag}'):
                answer = self.ask(method, path, expect=304, If_None_Match=listed)
                self.assertEqual((answer.body, answer.headers["ETag"]), (b"", tag))
            for listed in ('"x"', tag[:-2] + '"', tag[1:-1], tag[:-1] + '-x"', ""):
                self.ask(method, path, If_None_Match=listed)
            for listed in (tag, f'"x" , {tag}', "*"):
                self.ask(method, path, If_Match=listed)
            for listed in ('"x"', f"W/{tag}", tag[1:-1], tag[:-1] + '-x"', ""):
                self.ask(method, path, expect=412, If_Match=listed)
            self.ask(method, path, expect=304, If_Modified_Since=date)
            self.ask(method, path, expect=304, If_Modified_Since=FAR_AHEAD)
            self.ask(method, path, If_Modified_Since=LONG_AGO)
            self.ask(method, path, If_Modified_Since="yesterday")
            self.ask(method, path, If_None_Match='"x"', If_Modified_Since=date)  # the date does not count then
            self.ask(method, path, If_Unmodified_Since=date)
            self.ask(method, path, expect=412, If_Unmodified_Since=LONG_AGO)
            self.ask(method, path, If_Match=tag, If_Unmodified_Since=LONG_AGO)
        self.problem("GET", path, status=412, code="PRECONDITION_FAILED", If_Match='"x"', If_None_Match=tag)
        for value in (tag, date):
            self.assertEqual(self.ask("GET", path, expect=206, Range="bytes=1-4", If_Range=value).body, first.body[1:5])
        self.problem("GET", path, status=416, code="RANGE_NOT_SATISFIABLE", Range="bytes=99999999-")
        for value in ('"x"', f"W/{tag}", LONG_AGO, "x"):
            self.assertEqual(self.ask("GET", path, Range="bytes=1-4", If_Range=value).body, first.body)
        return first

    def test_models(self):
        name = self.store(model(400))
        first = self.reads(f"/v1/models/{name}")
        self.assertEqual(self.reads(f"/v1/models/{name}/content").headers["ETag"], f'"{name}"')
        self.problem("DELETE", f"/v1/models/{name}", status=412, code="PRECONDITION_FAILED", If_Match='"x"')
        self.problem("DELETE", f"/v1/models/{name}", status=412, If_Unmodified_Since=LONG_AGO)
        self.problem("DELETE", f"/v1/models/{'0' * 64}", status=404, If_Match="*")
        self.ask("DELETE", f"/v1/models/{name}", expect=204, If_Match=first.headers["ETag"])
        self.ask("POST", "/v1/models?name=another", model(400), 201)
        again = self.ask("GET", f"/v1/models/{name}", If_None_Match=first.headers["ETag"])
        self.assertNotEqual(again.headers["ETag"], first.headers["ETag"])
        self.ask("DELETE", f"/v1/models/{name}", expect=204, If_Match=f'"{name}"')

    def test_plans(self):
        plan = self.submit(model(401))
        self.daemon.finished(plan)
        tag = self.reads(f"/v1/plans/{plan}").headers["ETag"]
        self.reads(f"/v1/plans/{plan}/model")
        text = self.ask("GET", f"/v1/plans/{plan}", Accept="text/plain").headers["ETag"]
        self.assertNotEqual(text, tag)
        self.problem("POST", f"/v1/plans/{plan}/cancel", status=412, If_Match='"x"')
        self.ask("POST", f"/v1/plans/{plan}/cancel", If_Match=text)
        self.problem("DELETE", f"/v1/plans/{plan}", status=412, If_Match=f'"{plan}-failed-1"')
        self.problem("DELETE", f"/v1/plans/{'0' * 32}", status=404, If_Match='"x"')
        self.ask("DELETE", f"/v1/plans/{plan}", expect=204, If_Match=f'"{plan}-failed-1", {tag}')

    def test_exports(self):
        plan = self.submit(model(402))
        self.daemon.finished(plan)
        for path in ("simulation", "timeline", "exports/csv", "exports/model-explorer", "devices/0/model"):
            tag = self.ask("GET", f"/v1/plans/{plan}/{path}").headers["ETag"]
            self.ask("GET", f"/v1/plans/{plan}/{path}", expect=304, If_None_Match=tag)
            self.ask("GET", f"/v1/plans/{plan}/{path}", If_Match=tag)
            self.problem("GET", f"/v1/plans/{plan}/{path}", status=412, If_Match='"x"')
            self.ask("GET", f"/v1/plans/{plan}/{path}", expect=206, Range="bytes=0-3", If_Range=tag)
            self.problem("GET", f"/v1/plans/{plan}/{path}", status=416, Range="bytes=99999999-")
            head = self.ask("HEAD", f"/v1/plans/{plan}/{path}")
            self.assertEqual((head.body, head.headers["ETag"]), (b"", tag))

    def test_catalogs(self):
        for path in ("/v1/devices", "/v1/operators", "/openapi.json", "/v1/schemas/cluster.schema.json"):
            tag = self.ask("GET", path).headers["ETag"]
            self.ask("GET", path, expect=304, If_None_Match=tag)
            self.ask("GET", path, expect=412, If_Match='"x"')
            self.ask("GET", path, expect=206, Range="bytes=0-9")
            self.ask("GET", path, expect=416, Range="bytes=99999999-")
        self.problem("GET", "/v1/schemas/cluster", status=404, code="SCHEMA_NOT_FOUND")

    def test_every_get_is_a_head(self):
        plan = self.submit(model(403))
        done = self.daemon.finished(plan)
        asset = re.search(r"assets/([^\"]+)", self.ask("GET", "/", Accept="text/html").text).group(1)
        upload = self.ask("POST", "/v1/uploads", {"bytes": 9}, 201).json["id"]
        for method, path in sorted(self.daemon.contract.routes()):
            if method != "GET" or path.endswith("/events"):
                continue
            identity = done["model"] if "models" in path else upload if "uploads" in path else plan
            file = "plan.schema.json" if "schemas" in path else asset
            target = path.replace("{id}", identity).replace("{device}", "0").replace("{format}", "csv").replace("{file}", file)
            statuses = (404,) if path.endswith("/data") else 200  # this model has no weights beside it
            got, head = self.ask("GET", target, expect=statuses), self.ask("HEAD", target, expect=statuses)
            self.assertEqual(head.body, b"")
            for name in ("Content-Type", "ETag", "Last-Modified", "Accept-Ranges", "Vary", "Repr-Digest"):
                self.assertEqual(head.headers[name], got.headers[name], (path, name))
            if path != "/metrics":
                self.assertEqual(head.headers["Content-Length"], got.headers["Content-Length"], path)


class Lists(DaemonCase):
    options = ("--workers", "1")

    def all_pages(self, path, name, size):
        items, token, pages = [], "", 0
        while True:
            page = self.ask("GET", f"{path}page_size={size}{token}").json
            items += page[name]
            pages += 1
            if "next_page_token" not in page:
                return items, pages
            self.assertRegex(page["next_page_token"], "^[A-Za-z0-9_-]{22}$")
            token = "&page_token=" + page["next_page_token"]

    def test_plans(self):
        one, other = self.store(model(410)), self.store(model(411))
        plans = [self.submit(model(410 + number % 2)) for number in range(9)]
        for plan in plans:
            self.daemon.finished(plan)
        failed = self.ask("POST", "/v1/plans", {"model": one, "cluster": CLUSTER, "options": {"dims": {"none": 3}}}, 202).json["id"]
        self.assertEqual(self.daemon.finished(failed)["state"], "failed")
        for size in (1, 2, 4, 9, 500):
            for query, wanted in ((f"?model={one}&", [failed] + plans[0::2][::-1]), (f"?model={other}&", plans[1::2][::-1]),
                                  ("?state=failed&", [failed]), ("?state=succeeded&", plans[::-1]), ("?state=queued&", []),
                                  (f"?model={one}&state=succeeded&", plans[0::2][::-1]), (f"?model={'0' * 64}&", [])):
                items, _ = self.all_pages("/v1/plans" + query, "plans", size)
                self.assertEqual([item["id"] for item in items], wanted, query)
        self.assertEqual(self.all_pages("/v1/plans?", "plans", 5)[1], 2)
        for wrong in ("state=done", "state=", "model=x", f"model={one.upper()}", "color=red"):
            self.problem("GET", "/v1/plans?" + wrong, status=400)

    def test_tokens_belong_to_their_list(self):
        for number in range(412, 415):
            self.submit(model(number))
        token = self.ask("GET", "/v1/plans?page_size=1").json["next_page_token"]
        other = self.ask("GET", "/v1/models?page_size=1").json["next_page_token"]
        self.ask("GET", f"/v1/plans?page_size=2&page_token={token}")
        changed = ("B" if token[0] == "A" else "A") + token[1:]
        for path in (f"/v1/models?page_token={token}", f"/v1/plans?page_token={other}", f"/v1/plans?state=failed&page_token={token}",
                     f"/v1/plans?page_token={changed}", f"/v1/plans?page_token={token}A", f"/v1/plans?page_token={token[:-1]}",
                     "/v1/plans?page_token=", "/v1/plans?page_token=7", "/v1/plans?page_token=" + "-" * 22,
                     "/v1/plans?page_token=%C3%A4" + "A" * 20):
            self.problem("GET", path, status=400, code="BAD_PAGE_TOKEN")


class Submissions(DaemonCase):
    options = ("--workers", "1")

    def test_equal_questions_share_a_plan(self):
        body = {"model": self.store(model(420)), "cluster": CLUSTER, "objective": "latency"}
        first = self.ask("POST", "/v1/plans", body, 202).json
        self.assertNotIn("reused", first)
        again = self.ask("POST", "/v1/plans", dict(reversed(body.items())), 202)
        self.assertEqual((again.json["id"], again.json["reused"]), (first["id"], True))
        self.assertEqual(again.headers["Location"], "/v1/plans/" + first["id"])
        self.daemon.finished(first["id"])
        waited = self.ask("POST", "/v1/plans", body, 200, Prefer="wait=20").json
        self.assertEqual((waited["id"], waited["reused"], waited["state"]), (first["id"], True, "succeeded"))
        upload = self.ask("POST", QUERY + "&objective=latency", model(420), 202).json
        self.assertEqual((upload["id"], upload["reused"]), (first["id"], True))
        self.assertNotIn("reused", self.ask("GET", "/v1/plans/" + first["id"]).json)
        anew = self.ask("POST", "/v1/plans", body, 202, Cache_Control="max-age=0, no-cache").json
        self.assertNotEqual(anew["id"], first["id"])
        self.assertNotIn("reused", anew)
        other = self.ask("POST", "/v1/plans", {**body, "objective": "throughput"}, 202).json
        self.assertNotIn(other["id"], (first["id"], anew["id"]))

    def test_deleted_by_others_at_that_moment(self):
        """Many ask the same, and each deletes what it got: all get a plan, and never hear of one that is gone."""
        body = {"model": self.store(model(419)), "cluster": CLUSTER}
        seen = []

        def ask_and_delete(number):
            for _ in range(30):
                answer = self.daemon.request("POST", "/v1/plans", body, {"Prefer": "wait=50"} if number % 2 else {})
                seen.append((answer.status, answer.json.get("code")))
                if answer.status < 300:
                    gone = self.daemon.request("DELETE", answer.headers["Location"])
                    seen.append((gone.status, "deleted" if gone.status == 404 else None))

        threads = [threading.Thread(target=ask_and_delete, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertLessEqual(set(seen), {(200, None), (202, None), (204, None), (404, "deleted")})
        self.assertIn((404, "deleted"), seen)  # some were shared

    def submitted(self, plan):
        """How often a request came to this plan."""
        return sum('"plan submitted"' in line and plan in line for line in self.daemon.log)

    def test_deleted_while_others_wait(self):
        """They get another one, which they share again."""
        body, answers = {"model": self.store(model(417)), "cluster": CLUSTER}, []
        threads = [threading.Thread(target=lambda: answers.append(
            self.daemon.request("POST", "/v1/plans", body, {"Prefer": "wait=50"}))) for _ in range(3)]
        self.daemon.freeze()
        try:
            plan = self.ask("POST", "/v1/plans", body, 202).json["id"]
            for thread in threads:
                thread.start()
            self.daemon.wait_for(lambda: self.submitted(plan) == 4, "three that wait")
            self.ask("DELETE", f"/v1/plans/{plan}", expect=204)
            found = lambda: self.ask("GET", f"/v1/plans?model={body['model']}").json["plans"]
            other = self.daemon.wait_for(found, "another plan")[0]["id"]
            self.daemon.wait_for(lambda: self.submitted(other) == 3, "the three")
        finally:
            self.daemon.thaw()
        for thread in threads:
            thread.join()
        self.assertEqual([(answer.status, answer.json.get("id"), answer.json.get("state")) for answer in answers],
                         [(200, other, "succeeded")] * 3, answers)
        self.assertEqual(sorted(answer.json.get("reused", False) for answer in answers), [False, True, True])
        for answer in answers:
            self.assertEqual(answer.headers.get_all("Location"), ["/v1/plans/" + other])
            self.assertEqual(answer.headers.get_all("Preference-Applied"), ["wait=50"])

    def test_one_key_from_uploads_at_once(self):
        """Two requests that are under way with one key are one, also when the model comes with them."""
        answers = []

        def send():
            answers.append(self.daemon.upload(model(418), QUERY, **{"Idempotency-Key": "both", "Cache-Control": "no-cache",
                                                                    "Prefer": "wait=50"}))

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({answer.status for answer in answers}, {200}, answers)
        self.assertEqual(len({answer.body for answer in answers}), 1)
        self.assertEqual(len({answer.headers["Location"] for answer in answers}), 1)
        self.assertEqual(len(self.ask("GET", f"/v1/plans?model={answers[0].json['model']}").json["plans"]), 1)

    def test_a_plan_that_failed_does_not_answer(self):
        body = {"model": self.store(model(421)), "cluster": CLUSTER, "options": {"dims": {"none": 3}}}
        first = self.ask("POST", "/v1/plans", body, 202).json["id"]
        self.assertEqual(self.daemon.finished(first)["state"], "failed")
        self.assertNotEqual(self.ask("POST", "/v1/plans", body, 202).json["id"], first)

    def test_priorities(self):
        name = self.store(model(422))
        body = {"model": name, "cluster": CLUSTER}
        plain = self.ask("POST", "/v1/plans", body, 202).json
        self.assertEqual(plain["priority"], "normal")
        for priority in ("low", "normal", "high"):
            given = self.ask("POST", "/v1/plans", {**body, "priority": priority}, 202, Cache_Control="no-cache").json
            self.assertEqual(given["priority"], priority)
            self.assertEqual(self.ask("POST", f"{QUERY}&priority={priority}", model(422), 202, Cache_Control="no-cache").json["priority"], priority)
        self.assertEqual(self.ask("POST", "/v1/plans", {**body, "priority": "high"}, 202).json["reused"], True)
        for wrong in ("urgent", "", "HIGH", 1, None, ["high"]):
            self.problem("POST", "/v1/plans", {**body, "priority": wrong}, 422, "BAD_REQUEST", "/priority")
        self.problem("POST", QUERY + "&priority=urgent", TINY, 422, "BAD_REQUEST")
        self.ask("POST", "/v1/plans", {**body, "priority": "low"}, 202, Idempotency_Key="p")
        self.problem("POST", "/v1/plans", {**body, "priority": "high"}, 422, "IDEMPOTENCY_KEY_REUSED", Idempotency_Key="p")

    def test_the_high_ones_go_first(self):
        names = [self.store(model(number)) for number in range(423, 428)]
        self.daemon.freeze()
        try:
            running = self.ask("POST", "/v1/plans", {"model": names[0], "cluster": CLUSTER}, 202).json["id"]
            self.daemon.wait_for(lambda: self.ask("GET", f"/v1/plans/{running}").json["state"] == "running", "a running plan")
            plans = {}
            for name, priority in zip(names[1:], ("low", "normal", "high", "high")):
                plans.setdefault(priority, []).append(self.ask(
                    "POST", "/v1/plans", {"model": name, "cluster": CLUSTER, "priority": priority}, 202).json["id"])
        finally:
            self.daemon.thaw()
        started = {plan: self.daemon.finished(plan)["started_at"] for several in plans.values() for plan in several}
        order = plans["high"] + plans["normal"] + plans["low"]
        self.assertEqual(sorted(started, key=lambda plan: (started[plan], order.index(plan))), order)

    def test_validate_only(self):
        data = model(430)
        before = self.ask("GET", "/v1/plans").json, self.ask("GET", "/v1/models").json
        answer = self.ask("POST", QUERY + "&validate_only=true&priority=low", data, 200)
        self.assertEqual(answer.json, {"valid": True, "model": answer.json["model"], "priority": "low",
                                       "request": {"cluster": {"device": "a100-sxm4-80gb", "count": 2}}})
        self.problem("GET", "/v1/models/" + answer.json["model"], status=404)
        self.problem("POST", QUERY + "&validate_only=true", b"no model", 400)
        self.problem("POST", QUERY + "&validate_only=true&strategy=magic", data, 422)
        self.problem("POST", QUERY + "&validate_only=yes", data, 422, "BAD_REQUEST")
        body = {"model": answer.json["model"], "cluster": CLUSTER}
        self.problem("POST", "/v1/plans?validate_only=true", body, 404, "MODEL_NOT_FOUND")
        self.assertEqual((self.ask("GET", "/v1/plans").json, self.ask("GET", "/v1/models").json), before)
        self.store(data)
        for path, more in (("/v1/plans?validate_only=true", {}), ("/v1/plans", {"validate_only": True})):
            self.assertTrue(self.ask("POST", path, {**body, **more}, 200, Idempotency_Key="v").json["valid"])
            self.problem("POST", path, {**body, **more, "objective": "beauty"}, 422, pointer="/objective")
            self.problem("POST", path, {**body, **more, "cluster": {**CLUSTER, "count": 0}}, 422, pointer="/cluster/count")
        self.problem("POST", "/v1/plans", {**body, "validate_only": "true"}, 422, pointer="/validate_only")
        self.problem("POST", "/v1/plans?validate_only=true&devices=2", body, 400, "UNKNOWN_PARAMETER")
        self.assertEqual(self.ask("GET", "/v1/plans").json, before[0])
        self.no_temporary_files()
        self.ask("POST", "/v1/plans", {**body, "validate_only": False}, 202, Idempotency_Key="v")

    def test_preferences(self):
        body = {"model": self.store(model(431)), "cluster": CLUSTER}
        self.assertEqual(self.ask("POST", "/v1/plans", body, 202, Prefer="respond-async").headers["Preference-Applied"], "respond-async")
        answer = self.ask("POST", "/v1/plans", body, 200, Prefer="respond-async, wait=20")
        self.assertEqual(answer.headers["Preference-Applied"], "respond-async, wait=20")
        answer = self.ask("POST", "/v1/plans", body, 200, Prefer="wait=99999")
        self.assertEqual(answer.headers["Preference-Applied"], "wait=60")
        for unknown in ("return=minimal", "respond-asynchronous", "wait=x", "handling=lenient"):
            self.assertIsNone(self.ask("POST", "/v1/plans", body, 202, Prefer=unknown).headers["Preference-Applied"], unknown)

    def test_a_storm_of_one_key(self):
        """A thousand connections, each with the same submission: one plan."""
        count = 1000
        body = json.dumps({"model": self.store(model(432)), "cluster": CLUSTER}).encode()
        request = (b"POST /v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
                   b"Cache-Control: no-cache\r\nIdempotency-Key: thousand\r\nContent-Length: %d\r\n\r\n" % len(body)) + body
        connections = [socket.create_connection(("127.0.0.1", self.daemon.port), timeout=PATIENCE) for _ in range(count)]
        for connection in connections:
            connection.sendall(request)
        found = {}
        for connection in connections:
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
            connection.close()
            key = (answer.split(b" ", 2)[1], *re.findall(rb'"id":"([0-9a-f]{32})"', answer))
            found[key] = found.get(key, 0) + 1
        self.assertEqual([(len(key), key[0], number) for key, number in found.items()], [(2, b"202", count)], found)
        self.assertEqual(len(self.ask("GET", f"/v1/plans?model={json.loads(body)['model']}").json["plans"]), 1)

    def test_delete_says_how_many(self):
        name = self.store(model(433))
        plans = [self.submit(model(433)) for _ in range(3)]
        for left, plan in ((3, plans[0]), (2, plans[1]), (1, plans[2])):
            answer = self.problem("DELETE", f"/v1/models/{name}", status=409, code="MODEL_IN_USE")
            self.assertTrue(answer.json["detail"].startswith(f"{left} plan{'s' if left > 1 else ''} refer"), answer)
            self.daemon.finished(plan)
            self.ask("DELETE", f"/v1/plans/{plan}", expect=204)
        self.ask("DELETE", f"/v1/models/{name}", expect=204)


SIZE = 60000


def sized(number, size=SIZE):
    """A valid model of exactly so many bytes, another one for each number: doc_string (field 6) is what differs."""
    data = model(440 + number)
    left = size - len(data) - 4
    for length in (left, left - 1, left - 2):
        text = (b"%d-" % number).ljust(length, b"x")
        varint = bytes([length & 127 | 128, length >> 7 & 127 | 128, length >> 14]) if length > 16383 else None
        if len(data) + 1 + len(varint) + length == size:
            return data + b"\x32" + varint + text
    raise AssertionError("no such size")


class Shares(unittest.TestCase):
    """--max-store of several tenants: each has a share that others cannot take, and what is left is common."""

    SHARE = 2  # models
    COMMON = 10

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tokens = Tokens(folder.name)
        self.tokens = {name: tokens.add(name, "--tenant", name) for name in ("first", "second")}
        tokens.write()
        tenants = {entry["tenant"] for entry in tokens.entries if "plan" in entry["scopes"]}
        self.assertEqual(len(tenants) * self.SHARE, self.COMMON)
        self.daemon = Daemon("--workers", "1", "--max-store", str(2 * self.COMMON * SIZE), "--tokens", tokens.path)
        self.addCleanup(self.daemon.close)
        self.daemon.start()

    def ask(self, who, method, path, body=None, **headers):
        return self.daemon.request(method, path, body, {"Authorization": f"Bearer {self.tokens[who]}", **headers})

    def store(self, who, number, **more):
        return self.ask(who, "POST", "/v1/models", sized(number, **more))

    def plan(self, who, name):
        answer = self.ask(who, "POST", "/v1/plans", {"model": name, "cluster": CLUSTER}, Prefer="wait=60")
        self.assertEqual(answer.status, 200, answer)
        return answer.json["id"]

    def has(self, who, names):
        return [self.ask(who, "GET", f"/v1/models/{name}").status == 200 for name in names]

    def test_own_models_go_first_and_shares_stay(self):
        mine = [self.store("first", number).json["id"] for number in range(self.SHARE)]
        theirs = []
        for number in range(20, 20 + self.SHARE + self.COMMON + 3):
            answer = self.store("second", number)
            self.assertEqual(answer.status, 201, answer)
            theirs.append(answer.json["id"])
        self.assertEqual(self.has("first", mine), [True] * self.SHARE)
        self.assertEqual(self.has("second", theirs), [False] * 3 + [True] * (self.SHARE + self.COMMON))
        # Beyond its share a tenant has what is common; others who want that get it of models that no plan needs.
        for name in mine:
            self.plan("first", name)
        other = self.store("first", 10)
        self.assertEqual(other.status, 201, other)
        self.assertEqual(self.has("second", theirs), [False] * 4 + [True] * (self.SHARE + self.COMMON - 1))
        self.assertEqual(self.has("first", [*mine, other.json["id"]]), [True] * (self.SHARE + 1))

    def test_plans_of_others_leave_the_share(self):
        """All that is common is held by plans: whoever keeps to the share does not see it, and a refusal names no bytes of
        others."""
        for number in range(20, 20 + self.SHARE + self.COMMON):
            self.plan("second", self.store("second", number).json["id"])
        full = self.store("second", 50)
        self.assertEqual((full.status, full.json["code"]), (507, "STORE_FULL"), full)
        self.assertEqual(full.json["actual"], (self.SHARE + self.COMMON + 1) * SIZE)
        names = []
        for number in range(self.SHARE):
            answer = self.store("first", number)
            self.assertEqual(answer.status, 201, answer)
            names.append(answer.json["id"])
            self.plan("first", names[-1])
        refused = self.store("first", 7)
        self.assertEqual((refused.status, refused.json["actual"]), (507, (self.SHARE + 1) * SIZE), refused)
        self.assertEqual(self.has("first", names), [True] * self.SHARE)

    def test_a_model_that_another_has_counts_in_full(self):
        """Else who has room for it would know that somebody has it."""
        for number in range(20, 20 + self.SHARE + self.COMMON):
            self.plan("second", self.store("second", number).json["id"])
        for number in range(self.SHARE):
            self.plan("first", self.store("first", number).json["id"])
        known, unknown = self.store("first", 20), self.store("first", 51)
        self.assertEqual((known.status, known.json["actual"]), (507, (self.SHARE + 1) * SIZE))
        self.assertEqual((unknown.status, unknown.json["actual"]), (507, (self.SHARE + 1) * SIZE))

    def test_an_evicted_model_stays_for_those_who_need_it(self):
        name = self.store("first", 5).json["id"]
        self.plan("first", name)
        self.assertEqual(self.store("second", 5).json["id"], name)
        for number in range(20, 20 + self.SHARE + self.COMMON):
            self.assertEqual(self.store("second", number).status, 201)
        self.assertEqual((self.has("second", [name]), self.has("first", [name])), ([False], [True]))
        self.assertEqual(self.ask("first", "GET", f"/v1/models/{name}/content").body, sized(5))


class Room(DaemonCase):
    """--max-store: four models of this size and no more."""

    SIZE = SIZE
    options = ("--workers", "1", "--max-store", str(4 * SIZE))

    def sized(self, number, size=SIZE):
        return sized(number, size)

    def stored(self, name):
        return self.ask("GET", f"/v1/models/{name}", expect=(200, 404)).status == 200

    def bytes_on_disk(self):
        blobs = os.path.join(self.daemon.data, "blobs")
        return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(blobs) for name in names
                   if not name.endswith((".json", ".sums")))

    def test_the_longest_unused_goes(self):
        names = [self.store(self.sized(number)) for number in range(4)]
        self.assertEqual(self.bytes_on_disk(), 4 * self.SIZE)
        time.sleep(0.01)
        plan = self.ask("POST", "/v1/plans", {"model": names[1], "cluster": CLUSTER}, 202).json["id"]  # 1 is needed,
        other = self.ask("POST", "/v1/plans", {"model": names[0], "cluster": CLUSTER}, 202).json["id"]
        self.daemon.finished(plan)
        self.daemon.finished(other)
        self.ask("DELETE", f"/v1/plans/{other}", expect=204)  # 0 was used later than 2 and 3,
        time.sleep(0.01)
        self.assertEqual(self.store(self.sized(2)), names[2])  # and sent again is used, too
        names.append(self.store(self.sized(4)))
        self.assertEqual([self.stored(name) for name in names], [True, True, True, False, True])
        names.append(self.store(self.sized(5)))
        self.assertEqual([self.stored(name) for name in names], [False, True, True, False, True, True])
        self.assertLessEqual(self.bytes_on_disk(), 4 * self.SIZE)
        # A large one takes the place of several, but for the one that a plan needs.
        big = self.store(self.sized(6, 3 * self.SIZE))
        self.assertEqual([self.stored(name) for name in names], [False, True, False, False, False, False])
        self.problem("POST", "/v1/models", self.sized(7, 3 * self.SIZE + 1), 507, "STORE_FULL")
        self.problem("POST", "/v1/models", self.sized(8, 4 * self.SIZE + 1), 507, "STORE_FULL")
        self.assertTrue(self.stored(big))
        self.assertTrue(self.stored(names[1]))
        self.ask("DELETE", f"/v1/plans/{plan}", expect=204)
        self.store(self.sized(9, 4 * self.SIZE))
        self.assertEqual(self.bytes_on_disk(), 4 * self.SIZE)
        for item in self.ask("GET", "/v1/models").json["models"]:
            self.ask("DELETE", f"/v1/models/{item['id']}", expect=204)
        self.no_temporary_files()

    def test_many_at_once(self):
        """Uploads side by side never have more than is allowed, and each answered as stored was."""
        answers, most = [], 4 * self.SIZE

        def upload(number):
            answers.append(self.daemon.upload(self.sized(20 + number)).status)

        threads = [threading.Thread(target=upload, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            try:
                self.assertLessEqual(self.bytes_on_disk(), most)
            except FileNotFoundError:
                pass  # evicted between two looks
        self.assertEqual(set(answers) - {201, 507}, set())
        self.assertEqual(self.bytes_on_disk(), most)  # no more was evicted than was needed
        self.assertEqual(len(self.ask("GET", "/v1/models").json["models"]), most // self.SIZE)


class Quotas(DaemonCase):
    def test_limits_of_a_tenant(self):
        with Daemon("--workers", "1", "--tenant-models", "2", "--tenant-plans", "1", "--job-seconds", "60") as daemon:
            names = []
            for number in range(2):
                answer = daemon.upload(model(450 + number))
                self.assertEqual(answer.status, 201, answer)
                names.append(answer.json["id"])
            refused = daemon.upload(model(452))
            self.assertEqual((refused.status, refused.json["code"], refused.json["limit_value"]), (429, "QUOTA_MODELS", 2))
            self.assertEqual(daemon.upload(model(450)).status, 200)
            self.assertEqual(daemon.get(f"/v1/models/{refused.json.get('id', '0' * 64)}").status, 404)
            daemon.freeze()
            first = daemon.request("POST", "/v1/plans", {"model": names[0], "cluster": CLUSTER})
            self.assertEqual(first.status, 202, first)
            second = daemon.request("POST", "/v1/plans", {"model": names[1], "cluster": CLUSTER})
            self.assertEqual((second.status, second.json["code"]), (429, "QUOTA_PLANS"), second)
            self.assertGreater(int(second.headers["Retry-After"]), 0)
            daemon.thaw()
            daemon.finished(first.json["id"])
            self.assertEqual(daemon.request("POST", "/v1/plans", {"model": names[1], "cluster": CLUSTER}).status, 202)

    def test_bytes_of_a_tenant(self):
        size = len(model(460))
        with Daemon("--workers", "1", "--tenant-bytes", str(size + 10)) as daemon:
            self.assertEqual(daemon.upload(model(460)).status, 201)
            refused = daemon.upload(model(461))
            self.assertEqual((refused.status, refused.json["code"]), (429, "QUOTA_BYTES"), refused)

    def test_uploads_under_way_count(self):
        """Bytes of uploads that do not end are held to the tenant's quota, whatever the upload is for, and those of one
        tenant are no matter of another one."""
        with tempfile.TemporaryDirectory() as folder:
            tokens = Tokens(folder)
            first, second = (tokens.add(name, "--tenant", name) for name in ("first", "second"))
            tokens.write()
            quota = 1 << 20
            with Daemon("--workers", "1", "--tenant-bytes", str(quota), "--tenant-models", "3", "--tokens", tokens.path) as daemon:
                def begin(token, path="/v1/models"):
                    connection = daemon.connect()
                    connection.putrequest("POST", path)
                    for key, value in (("Authorization", f"Bearer {token}"), ("Content-Type", "application/octet-stream"),
                                       ("Transfer-Encoding", "chunked")):
                        connection.putheader(key, value)
                    connection.endheaders()
                    self.addCleanup(connection.close)
                    return connection

                def refused(connection):
                    answer = connection.getresponse()
                    self.assertEqual(answer.status, 429)
                    self.assertGreater(int(answer.headers["Retry-After"]), 0)
                    return json.loads(answer.read())

                def send(connection, size):
                    connection.send(b"%x\r\n" % size + bytes(size) + b"\r\n")

                def files():
                    return glob.glob(os.path.join(daemon.data, "tmp/*/*"))

                def staged():
                    return sum(os.path.getsize(path) for path in files())

                held = begin(first)
                send(held, quota - 1000)
                daemon.wait_for(lambda: staged() == quota - 1000, "staged bytes")
                other = begin(first, "/v1/check?name=x")
                send(other, 2000)
                problem = refused(other)
                self.assertEqual((problem["code"], problem["limit"], problem["limit_value"]), ("QUOTA_BYTES", "--tenant-bytes", quota))
                stranger = begin(second)
                send(stranger, quota - 10)
                daemon.wait_for(lambda: staged() == 2 * quota - 1010, "staged bytes of both")
                more = [begin(first) for _ in range(2)]
                for connection in more:
                    send(connection, 10)
                daemon.wait_for(lambda: len(files()) == 4, "four uploads")
                problem = refused(begin(first))
                self.assertEqual((problem["code"], problem["limit"]), ("QUOTA_MODELS", "--tenant-models"))
                for connection in (held, *more):
                    connection.close()
                daemon.wait_for(lambda: len(files()) == 1, "the end of the first tenant's uploads")
                again = begin(first)
                send(again, quota)
                daemon.wait_for(lambda: staged() == 2 * quota - 10, "staged bytes")

    def test_a_full_queue(self):
        with Daemon("--workers", "1", "--max-queued-plans", "1", "--job-seconds", "60") as daemon:
            names = [daemon.upload(model(470 + number)).json["id"] for number in range(3)]
            daemon.freeze()
            answers = [daemon.request("POST", "/v1/plans", {"model": name, "cluster": CLUSTER}) for name in names[:1]]
            daemon.wait_for(lambda: daemon.get("/v1/plans?state=running").json["plans"], "a running plan")
            answers += [daemon.request("POST", "/v1/plans", {"model": name, "cluster": CLUSTER}) for name in names[1:]]
            self.assertEqual([answer.status for answer in answers], [202, 202, 503], answers)
            self.assertEqual(answers[2].json["code"], "QUEUE_FULL")
            self.assertGreater(int(answers[2].headers["Retry-After"]), 0)
            daemon.thaw()


class HalfClosed(DaemonCase):
    """A client that says that it will send no more before it has its answer (SHUT_WR) is taken for gone where a worker makes that."""

    def send(self, method, path, kind, body):
        """What comes back, when the connection has been closed."""
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=PATIENCE) as connection:
            connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nPrefer: wait=30\r\n"
                               f"Cache-Control: no-cache\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as answer:
                return answer.read()

    def ends(self, route):
        self.daemon.wait_for(lambda: self.daemon.metric(f'shardplan_http_requests_in_flight{{method="POST",route="{route}"}}') == 0,
                             "the end of the request")

    def test_models(self):
        """Stored and answered, or neither."""
        data = model(411)
        sent = self.send("POST", "/v1/models", "application/octet-stream", data)
        self.ends("/v1/models")
        stored = self.daemon.get(f"/v1/models/{hashlib.sha256(data).hexdigest()}").status
        self.assertIn((sent[:12], stored), [(b"", 404), (b"HTTP/1.1 201", 200)])
        folder, = os.listdir(os.path.join(self.daemon.data, "tmp"))
        self.daemon.wait_for(lambda: not os.listdir(os.path.join(self.daemon.data, "tmp", folder)), "the end of its files")

    def test_plans(self):
        """What was accepted is planned, whether or not somebody hears of it."""
        body = json.dumps({"model": self.store(model(412)), "cluster": CLUSTER}).encode()
        sent = self.send("POST", "/v1/plans", "application/json", body)
        self.assertIn(sent[:10], (b"", b"HTTP/1.1 2"))
        self.ends("/v1/plans")
        plan, = self.daemon.get("/v1/plans").json["plans"][:1]
        self.assertEqual(plan["model"], json.loads(body)["model"])
        self.assertEqual(self.daemon.finished(plan["id"])["state"], "succeeded")
