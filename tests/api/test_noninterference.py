"""What a tenant is answered does not depend on what another one does.

Random histories of requests of one tenant are run by themselves in one daemon, and in another daemon between requests of
a second tenant, who stores the same models, plans, floods, deletes, and is refused. Every answer has to be the same:
status, headers and body. Only what differs between two runs of the same history is put out of the way: identifiers that
are drawn at random become their number in the order in which they were seen, and times and durations become one word.
"""

import hashlib
import http.client
import json
import os
import random
import re
import tempfile
import threading
import unittest

import onnx_make
from cases import CLUSTER
from daemon import PATIENCE, Answer, Daemon
from test_auth import Tokens

THOROUGH = bool(os.environ.get("SHARDPLAN_TEST_THOROUGH"))
PAIRS = int(os.environ.get("SHARDPLAN_TEST_PAIRS", "5000" if THOROUGH else "60"))
SEED = int(os.environ.get("SHARDPLAN_TEST_SEED", "1"))

KEPT = 6  # models that a tenant may have
POOL = [onnx_make.encode(onnx_make.chain(8 + number, name=f"chain{number}")) for number in range(KEPT + 2)]
NAMES = [hashlib.sha256(data).hexdigest() for data in POOL]
BROKEN = POOL[0][: len(POOL[0]) // 2]
CLUSTERS = [CLUSTER, CLUSTER, CLUSTER, {"device": "a100-sxm4-80gb", "count": 3}, {"device": "no-such-device", "count": 2}, {"count": -1}]
LATER = 4  # plans that a history can name

# Of the run, not of the question: when, how long, which connection.
VARYING = {"Date", "X-Request-Id", "Traceparent", "Server-Timing", "Last-Modified"}
DURATIONS = re.compile(r'("(?:search|proof)":\{[^{}[]*"seconds"|"search_seconds"): ?[0-9.e+-]+')
STAMPS = re.compile(r"(?<=-)[0-9a-f]{11}(?=\"$)")  # of a tag: when the tenant stored it
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
DRAWN = re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{16}|[0-9a-f]{32})(?![0-9a-f])")
TOKEN = re.compile(r"(?<=\"next_page_token\":\")[A-Za-z0-9_-]{22}(?=\")")


class Client:
    """One connection of one tenant, and what it has been told so far."""

    def __init__(self, daemon, token):
        self.daemon = daemon
        self.token = token
        self.connection = None
        self.plans = []
        self.page = None  # address of the next page
        self.seen = {}

    def ask(self, method, path, body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers["Authorization"] = f"Bearer {self.token}"
        if isinstance(body, dict):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        elif body is not None:
            headers.setdefault("Content-Type", "application/octet-stream")
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=PATIENCE)
        self.connection.request(method, path, body, headers)
        response = self.connection.getresponse()
        answer = Answer(response.status, response.headers, response.read())
        if response.will_close:
            self.close()
        return answer

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def plan(self, number):
        """The address of a plan that was made before, or of none."""
        return f"/v1/plans/{self.plans[number] if number < len(self.plans) else '0' * 32}"

    def begin(self):
        """Nothing of an earlier history is there."""
        while plans := self.ask("GET", "/v1/plans?page_size=100").json["plans"]:
            for plan in plans:
                self.ask("DELETE", f"/v1/plans/{plan['id']}")
        for model in self.ask("GET", "/v1/models?page_size=100").json["models"]:
            self.ask("DELETE", f"/v1/models/{model['id']}")
        self.plans = []
        self.page = None
        self.seen = {}

    # ---- what is compared ----

    def label(self, match):
        return self.seen.setdefault(match.group(0), f"<{len(self.seen)}>")

    def comparable(self, answer):
        text = answer.body.decode("latin-1")
        text = TIMES.sub("<time>", DURATIONS.sub(r"\1: 0", text))
        headers = {name: value for name, value in answer.headers.items() if name not in VARYING}
        if "ETag" in headers:
            headers["ETag"] = STAMPS.sub("<time>", headers["ETag"])
        of_a_head = not text and headers.get("Content-Type") == "application/json"  # of a plan that tells its own seconds
        if of_a_head or text != answer.body.decode("latin-1"):
            for name in ("ETag", "Content-Length", "Repr-Digest"):
                headers.pop(name, None)
        lines = [f"{answer.status}"] + [f"{name}: {value}" for name, value in sorted(headers.items())] + [text]
        return TOKEN.sub("<page>", DRAWN.sub(self.label, "\n".join(lines)))


def pick(draw, of):
    """The first few more often, so that both tenants have them."""
    return of[min(draw.randrange(len(of)), draw.randrange(len(of)))]


# ---- one request each: what it draws is drawn when the history is made, so that both runs ask the same ----


def upload(draw):
    data = pick(draw, POOL) if draw.random() < 0.9 else BROKEN
    return lambda client: client.ask("POST", "/v1/models", data)


def wrong_digest(draw):
    data = pick(draw, POOL)
    return lambda client: client.ask("POST", "/v1/models", data, Repr_Digest="sha-256=:" + "A" * 43 + "=:")


def of_model(draw):
    name = pick(draw, NAMES)
    method, path = draw.choice(
        [("GET", ""), ("HEAD", ""), ("DELETE", ""), ("GET", "/content"), ("POST", "/inspect"), ("HEAD", "/content")]
    )
    return lambda client: client.ask(method, f"/v1/models/{name}{path}")


def check(draw):
    name = pick(draw, NAMES)
    return lambda client: client.ask("POST", f"/v1/models/{name}/check", {})


def check_body(draw):
    data = pick(draw, POOL)
    return lambda client: client.ask("POST", "/v1/check", data)


def submit(draw):
    body = {"model": pick(draw, NAMES), "cluster": draw.choice(CLUSTERS)}
    if draw.random() < 0.3:
        body["objective"] = draw.choice(["latency", "throughput"])
    headers = {"Prefer": "wait=60"}
    if draw.random() < 0.3:
        headers["Idempotency-Key"] = draw.choice("abc")
    if draw.random() < 0.3:
        headers["Cache-Control"] = "no-cache"

    def run(client):
        answer = client.ask("POST", "/v1/plans", body, **headers)
        if answer.status in (200, 202) and len(client.plans) < LATER and answer.json["id"] not in client.plans:
            client.plans.append(answer.json["id"])
        return answer

    return run


def of_plan(draw):
    number = min(draw.randrange(LATER), draw.randrange(LATER))
    method, path = draw.choice(
        [("GET", ""), ("GET", "/model"), ("GET", "/summary"), ("GET", "/nodes?page_size=3"), ("GET", "/memory"), ("DELETE", ""),
         ("GET", "/devices/0/model"), ("POST", "/cancel"), ("GET", "/exports/perfetto"), ("HEAD", "")]
    )
    return lambda client: client.ask(method, client.plan(number) + path)


def list_some(draw):
    path = draw.choice(
        ["/v1/models?page_size=1", "/v1/models?page_size=2", "/v1/models", "/v1/plans?page_size=1", "/v1/plans?page_size=2",
         "/v1/plans?state=succeeded", f"/v1/plans?model={pick(draw, NAMES)}", "/v1/summary"]
    )

    def run(client):
        answer = client.ask("GET", path)
        token = answer.json.get("next_page_token") if answer.status == 200 else None
        client.page = f"{path}{'&' if '?' in path else '?'}page_token={token}" if token else None
        return answer

    return run


def next_page(_draw):
    return lambda client: client.ask("GET", client.page or "/v1/models?page_token=AAAAAAAAAAAAAAAAAAAAAA")


def odd(draw):
    method, path, body = draw.choice(
        [("GET", "/v1/none", None), ("PUT", "/v1/models", b"x"), ("POST", "/v1/plans", b"{"), ("GET", "/v1/devices", None),
         ("POST", "/v1/convert", {"spec": "S[0]R", "to": "onnx", "mesh": [2]}), ("GET", "/readyz", None),
         ("GET", "/metrics", None)]
    )
    return lambda client: client.ask(method, path, body)


KINDS = (upload, upload, upload, submit, submit, submit, of_model, of_model, of_plan, of_plan, list_some, list_some, check,
         check_body, next_page, wrong_digest, odd)  # fmt: skip


def make_history(draw, length):
    """Half of them begin with a model and a plan of it, so that there is something to ask for."""
    begin = (upload, upload, submit, submit)[: draw.choice((0, 2, 4))]
    return [kind(draw) for kind in begin] + [draw.choice(KINDS)(draw) for _ in range(draw.randint(1, length))]


# ---- what only the other tenant does ----


def look_at(client, others):
    """Asks for what the first tenant has."""
    for plan in others[-2:]:
        answer = client.ask("GET", f"/v1/plans/{plan}")
        assert answer.status == 404, answer


def flood(client, draw):
    """Plans that nobody waits for: some still run when the first tenant asks next."""
    for number in range(draw.randint(1, 6)):
        name = pick(draw, NAMES)
        client.ask("POST", "/v1/plans", {"model": name, "cluster": {"device": "a100-sxm4-80gb", "count": 2 + number}},
                   **{"Cache-Control": "no-cache"})  # fmt: skip


def cut_short(client, draw):
    """An upload of a model that the first tenant may store just then, which ends in the middle."""
    data = pick(draw, POOL)
    connection = http.client.HTTPConnection("127.0.0.1", client.daemon.port, timeout=PATIENCE)
    connection.putrequest("POST", "/v1/models")
    connection.putheader("Authorization", f"Bearer {client.token}")
    connection.putheader("Content-Type", "application/octet-stream")
    connection.putheader("Content-Length", str(len(data)))
    connection.endheaders(data[: draw.randrange(len(data))])
    connection.close()


def disturb(client, draw, others):
    choice = draw.random()
    if choice < 0.15:
        flood(client, draw)
    elif choice < 0.25:
        cut_short(client, draw)
    elif choice < 0.35:
        look_at(client, others)
    else:
        draw.choice(KINDS)(draw)(client)


class Noninterference(unittest.TestCase):
    """Two tenants, of whom the second is a stranger."""

    OPTIONS = ("--workers", "2", "--tenant-models", str(KEPT), "--tenant-plans", "20", "--max-store", str(64 * KEPT * 1024))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tokens = Tokens(folder.name)
        self.tokens = {name: tokens.add(name, "--tenant", name) for name in ("first", "second")}
        tokens.write()
        self.daemons = [Daemon(*self.OPTIONS, "--tokens", tokens.path) for _ in range(2)]
        for daemon in self.daemons:
            self.addCleanup(daemon.close)
            daemon.start()

    def client(self, daemon, tenant):
        client = Client(self.daemons[daemon], self.tokens[tenant])
        self.addCleanup(client.close)
        return client

    def run_alone(self, client, history):
        client.begin()
        return [client.comparable(step(client)) for step in history]

    def run_beside(self, client, stranger, history, draw):
        client.begin()
        answers = []
        for step in history:
            for _ in range(draw.choice((0, 1, 1, 2))):
                disturb(stranger, draw, client.plans)
            answers.append(client.comparable(step(client)))
        return answers

    def test_histories(self):
        alone, beside, stranger = self.client(0, "first"), self.client(1, "first"), self.client(1, "second")
        statuses = {}
        compared = 0
        for pair in range(PAIRS):
            draw = random.Random(f"{SEED}/{pair}")
            history = make_history(draw, 8)
            results = [None, None]

            def first():
                results[0] = self.run_alone(alone, history)  # noqa: B023

            thread = threading.Thread(target=first)
            thread.start()
            results[1] = self.run_beside(beside, stranger, history, draw)
            thread.join()
            self.assertIsNotNone(results[0])
            for step, (one, other) in enumerate(zip(*results, strict=True)):
                if one != other:
                    at = next(i for i, (a, b) in enumerate(zip(one + "\0", other + "\0")) if a != b)
                    self.fail(
                        f"pair {pair} of seed {SEED}, request {step}: alone {one[:60]} .. {one[max(0, at - 150):at + 150]}\n"
                        f"beside {other[:60]} .. {other[max(0, at - 150):at + 150]}"
                    )
                status = one[:3]
                statuses[status] = statuses.get(status, 0) + 1
                compared += 1
        print(f"# {PAIRS} pairs of histories, {compared} answers compared, by status {dict(sorted(statuses.items()))}")
        for status in ("200", "201", "204", "404", "422"):
            self.assertIn(status, statuses)


class Queue(unittest.TestCase):
    """--max-queued-plans of several tenants: each has a share that others cannot take."""

    MOST = 40

    def test_a_flood_leaves_the_share(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = Tokens(folder)
            named = {name: tokens.add(name, "--tenant", name) for name in ("first", "second")}
            tokens.write()
            tenants = {entry["tenant"] for entry in tokens.entries if "plan" in entry["scopes"]}
            share = self.MOST // 2 // len(tenants)
            self.assertGreater(share, 1)
            with Daemon("--workers", "1", "--max-queued-plans", str(self.MOST), "--tokens", tokens.path) as daemon:
                daemon.token = tokens.chief  # who may read the metrics
                for token in named.values():
                    daemon.request("POST", "/v1/models", POOL[0], {"Authorization": f"Bearer {token}"})
                frozen = daemon.freeze()
                running = self.queue(daemon, named["second"], 1)
                self.assertEqual(running, 1)
                daemon.wait_for(lambda: daemon.metric("shardplan_workers_busy") == 1, "a running plan")
                self.assertEqual(self.queue(daemon, named["second"], self.MOST), self.MOST - len(tenants) * share + share)
                self.assertEqual(daemon.get("/readyz").status, 200)
                self.assertEqual(self.queue(daemon, named["first"], self.MOST), share)
                daemon.thaw(frozen)

    def queue(self, daemon, token, most):
        """Submits plans until one is refused; how many were taken."""
        headers = {"Authorization": f"Bearer {token}"}
        for number in range(most):
            body = {"model": NAMES[0], "cluster": CLUSTER}
            answer = daemon.request("POST", "/v1/plans", body, {**headers, "Cache-Control": "no-cache"})
            if answer.status != 202:
                self.assertEqual((answer.status, answer.json["code"]), (503, "QUEUE_FULL"), answer)
                return number
        return most


if __name__ == "__main__":
    unittest.main()
