"""Models in an object store: the suites of models with it, its failures, copies, credentials. The store is real (tools/s3.py);
before it stands a proxy (tools/s3_proxy.py) that checks every signature and fails as it is told."""

import glob
import hashlib
import http.server
import json
import os
import threading
import time
import unittest

from cases import CLUSTER, DaemonCase, model
from daemon import STORE, Daemon
import onnx_make
import s3
import s3_proxy
import test_model_files
import test_models

KEYS = {"AWS_ACCESS_KEY_ID": s3.Server.key, "AWS_SECRET_ACCESS_KEY": s3.Server.secret}
LARGE = onnx_make.encode(onnx_make.mlp(2, 2080, name="large"))  # 35 MB: three parts
server = None
proxy = None


def setUpModule():
    global server, proxy
    if s3.missing():
        if os.environ.get("CI"):
            raise AssertionError(s3.missing())
        raise unittest.SkipTest(s3.missing())
    server = s3.Server()
    server.start()
    proxy = s3_proxy.Proxy(server)
    os.environ.update(KEYS)


def tearDownModule():
    for name in KEYS:
        os.environ.pop(name, None)
    if proxy is not None:
        proxy.close()
    if server is not None:
        server.close()


def key_of(digest, prefix="some/prefix/"):
    return f"{prefix}blobs/{digest[:2]}/{digest[2:]}"


class InS3(DaemonCase):
    """One daemon per class, on a bucket of its own."""

    more = ()

    @classmethod
    def setUpClass(cls):
        cls.bucket = server.make_bucket()
        cls.options = ("--workers", "2", "--blobs", f"s3://{cls.bucket}/some/prefix", "--blobs-endpoint", proxy.endpoint, *cls.more)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        proxy.fail.clear()
        wrong, proxy.wrong = proxy.wrong, []
        assert not wrong, f"requests that are not signed as they should be: {wrong}"

    def tearDown(self):
        left, proxy.fail = proxy.fail, []
        self.assertEqual(left, [], "a failure that no request met")

    def copies(self):
        return [path for path in glob.glob(os.path.join(self.daemon.data, "blobs/*/*")) if not path.endswith((".json", ".sums"))]

    def drop_copies(self):
        for path in self.copies():
            os.unlink(path)

    def key(self, digest):
        """Of the model's object, the newest; or one that none has."""
        keys = [key for key in server.keys(self.bucket, key_of(digest)) if not key.endswith(".json")]
        return max(keys, key=lambda key: int(key.partition(digest[2:] + ".")[2] or 0), default=key_of(digest))

    def object_of(self, digest):
        return server.request("GET", f"{self.bucket}/{self.key(digest)}")

    def content(self, digest, expect=200):
        return self.ask("GET", f"/v1/models/{digest}/content", None, expect)


class Models(InS3, test_models.Models):
    """All that the daemon is held to with models in its folder."""


class Beside(InS3):
    """Files beside models are objects as models are, and what is made of plans reads copies of them."""

    send, place, plan = test_model_files.Files.send, test_model_files.Files.place, test_model_files.Files.plan

    def test_files_beside_models(self):
        data, weights = test_model_files.layered(name="in S3"), test_model_files.weights(20)
        name, digest = self.store(data), hashlib.sha256(weights).hexdigest()
        plan = self.plan(name)
        self.place(name, "weights.bin", weights)
        self.assertEqual(self.object_of(digest), (200, weights))
        made = {}
        for kind in ("model", "data"):
            made[kind] = self.ask("GET", f"/v1/plans/{plan}/devices/0/{kind}").body
            self.drop_copies()
            self.assertEqual(self.ask("GET", f"/v1/plans/{plan}/devices/0/{kind}").body, made[kind], "of a copy that is fetched again")
        self.assertGreater(len(made["data"]), test_model_files.SIZE // 4)
        self.ask("DELETE", f"/v1/plans/{plan}", expect=204)
        self.ask("DELETE", f"/v1/models/{name}", expect=204)
        self.daemon.wait_for(lambda: not server.keys(self.bucket, key_of(digest)), "the removal of the file's object")


class Blobs(InS3):
    def test_object_is_there_before_the_answer(self):
        data = model(0)
        digest = self.store(data)
        self.assertEqual(self.object_of(digest), (200, data))
        self.assertEqual(digest, hashlib.sha256(data).hexdigest())

    def test_copy_is_fetched_for_answers_errands_and_plans(self):
        data = model(1)
        digest = self.store(data)
        self.drop_copies()
        self.assertEqual(self.content(digest).body, data)
        self.drop_copies()
        self.ask("POST", f"/v1/models/{digest}/inspect", b"{}", 200, Content_Type="application/json")
        self.drop_copies()
        plan = self.submit(data)
        self.drop_copies()
        self.assertEqual(self.daemon.finished(plan)["state"], "succeeded")
        self.drop_copies()
        self.assertGreater(len(self.ask("GET", f"/v1/plans/{plan}/model").body), len(data))
        self.drop_copies()
        self.ask("GET", f"/v1/plans/{plan}/simulation")
        self.no_temporary_files()

    def test_deleted_with_the_last_row(self):
        digest = self.store(model(2))
        self.ask("DELETE", f"/v1/models/{digest}", None, 204)
        self.daemon.wait_for(lambda: self.object_of(digest)[0] == 404, "the removal of the object")
        self.content(digest, 404)

    def test_object_that_somebody_changed(self):
        digest = self.store(model(3))
        self.drop_copies()
        self.assertEqual(server.request("PUT", f"{self.bucket}/{self.key(digest)}", body=b"something else")[0], 200)
        self.problem("GET", f"/v1/models/{digest}/content", None, 500, "MODEL_DAMAGED")
        self.assertEqual(self.object_of(digest)[0], 404, "nobody fetches it again")
        self.assertEqual(self.copies(), [path for path in self.copies() if digest[2:] not in path])
        self.no_temporary_files()

    def test_object_that_is_gone(self):
        data = model(4)
        digest = self.store(data)
        plan = self.submit(data)
        self.daemon.finished(plan)
        self.drop_copies()
        self.assertEqual(server.request("DELETE", f"{self.bucket}/{self.key(digest)}")[0], 204)
        self.problem("GET", f"/v1/models/{digest}/content", None, 500, "MODEL_DAMAGED")
        self.assertEqual(self.daemon.upload(data).status, 200)  # sent again, it is put back
        self.drop_copies()
        self.assertEqual(self.content(digest).body, data)

    def large_comes(self, data):
        """What is stored has the bytes, and nothing is left of how it came."""
        digest = self.store(data)
        status, stored = self.object_of(digest)
        self.assertEqual((status, hashlib.sha256(stored).hexdigest()), (200, hashlib.sha256(data).hexdigest()))
        self.nothing_staged()
        return digest

    def nothing_staged(self):
        self.daemon.wait_for(lambda: not server.keys(self.bucket, "some/prefix/staged/") and not server.unfinished(self.bucket),
                             "the removal of what was staged")

    def test_large_object_in_parts(self):
        data = LARGE
        digest = self.large_comes(data)
        parts = {target.split("partNumber=")[1].split("&")[0] for _, target, _ in proxy.seen if "partNumber=" in target}
        self.assertEqual(parts, {"1", "2", "3"})
        self.drop_copies()
        proxy.fail.append(lambda method, target: "cut" if method == "GET" and digest[2:] in target else None)
        self.assertEqual(hashlib.sha256(self.content(digest).body).hexdigest(), digest)
        ranges = [headers.get("range") for method, target, headers in proxy.seen if method == "GET" and digest[2:] in target]
        self.assertEqual(ranges[0], None)
        self.assertEqual(ranges[-1], f"bytes={len(data) // 2}-")

    def begin(self, data):
        """The first two parts of an upload."""
        connection = self.daemon.connect()
        connection.putrequest("POST", "/v1/models")
        connection.putheader("Content-Type", "application/octet-stream")
        connection.putheader("Content-Length", str(len(data)))
        connection.endheaders()
        connection.send(data[:33 << 20])
        return connection

    def test_large_object_is_sent_while_it_comes(self):
        data = LARGE[:-1] + bytes([LARGE[-1] ^ 0xFF])  # as large, and no model
        seen = len(proxy.seen)
        connection = self.begin(data)
        self.daemon.wait_for(lambda: sum("partNumber=" in target for _, target, _ in proxy.seen[seen:]) == 2, "parts")
        connection.send(data[33 << 20:])
        self.assertEqual(connection.getresponse().status, 400)
        connection.close()
        self.nothing_staged()
        self.assertFalse(any("x-amz-copy-source" in headers for _, _, headers in proxy.seen[seen:]))

    def test_client_that_leaves(self):
        connection = self.begin(LARGE)
        self.daemon.wait_for(lambda: server.unfinished(self.bucket), "an upload")
        connection.close()
        self.nothing_staged()
        self.no_temporary_files()

    def test_parts_that_fail(self):
        """Each request of an upload fails once; its own retries bring it through."""
        def fails(what, how):
            asks = {"begin": lambda method, target: method == "POST" and target.endswith("uploads="),
                    "part": lambda method, target: "partNumber=2&" in target,
                    "completion": lambda method, target: method == "POST" and "?uploadId" in target,
                    "copy": lambda method, target: method == "PUT" and "/blobs/" in target}
            return lambda method, target: how if asks[what](method, target) else None

        for how in ("lost", (503, "SlowDown"), "error in 200"):
            with self.subTest(how=how):
                self.ask("DELETE", f"/v1/models/{hashlib.sha256(LARGE).hexdigest()}", None, (204, 404))
                proxy.fail += [fails(what, how) for what in ("begin", "part", "completion", "copy")
                               if (how, what) != ("error in 200", "part")]  # which no server does
                self.large_comes(LARGE)

    def test_parts_that_are_refused_are_sent_again_at_the_end(self):
        self.ask("DELETE", f"/v1/models/{hashlib.sha256(LARGE).hexdigest()}", None, (204, 404))
        proxy.fail.append(lambda method, target: (403, "AccessDenied") if "partNumber=1&" in target else None)
        failures = self.daemon.metric("shardplan_object_store_failures_total")
        connection = self.begin(LARGE)
        self.daemon.wait_for(lambda: self.daemon.metric("shardplan_object_store_failures_total") > failures, "a refusal")
        connection.send(LARGE[33 << 20:])
        self.assertEqual(connection.getresponse().status, 201)
        connection.close()
        self.nothing_staged()

    def test_refusals_are_not_repeated(self):
        data = model(20)
        name = hashlib.sha256(data).hexdigest()[2:]
        proxy.fail.append(lambda method, target: (403, "AccessDenied") if name in target else None)
        self.problem("POST", "/v1/models", data, 503, "BLOBS_REFUSED")
        self.assertEqual(len([1 for method, target, _ in proxy.seen if method == "PUT" and name in target]), 1)
        self.assertEqual(self.ask("POST", "/v1/models", data, 201).json["bytes"], len(data))


class Copies(InS3):
    more = ("--blob-cache-bytes", "5000")

    def test_copies_that_are_too_many_go(self):
        stored = {self.store(data): data for data in (model(number) for number in range(30, 45))}
        self.daemon.wait_for(lambda: sum(map(os.path.getsize, self.copies())) <= 5000,
                             "the removal of copies")
        for digest, data in stored.items():
            self.assertEqual(self.content(digest).body, data)
            plan = self.ask("POST", "/v1/plans", {"model": digest, "cluster": CLUSTER}, (200, 202)).json["id"]
            self.assertEqual(self.daemon.finished(plan)["state"], "succeeded")

    def test_copy_whose_object_is_gone_is_sent_again(self):
        data = model(46)
        digest = self.store(data)
        server.request("DELETE", f"{self.bucket}/{self.key(digest)}")
        for number in range(50, 65):
            self.store(model(number))
        self.assertEqual(self.content(digest).body, data)


class Away(InS3):
    def test_store_that_is_killed(self):
        data = model(70)
        digest = self.store(data)
        self.drop_copies()
        server.kill_gateway()
        try:
            self.problem("GET", f"/v1/models/{digest}/content", None, 503)
            self.problem("POST", "/v1/models", model(71), 503)
            plan = self.ask("POST", "/v1/plans", {"model": digest, "cluster": CLUSTER}, 202).json["id"]
            time.sleep(1)
            self.assertIn(self.ask("GET", f"/v1/plans/{plan}").json["state"], ("queued", "running"))
            self.daemon.wait_for(lambda: "BLOBS_UNAVAILABLE" in self.ask("GET", "/readyz", None, (200, 503)).text, "/readyz")
            self.daemon.stop()
        finally:
            server.start_gateway()
        self.daemon.start()
        self.assertEqual(self.daemon.finished(plan)["state"], "succeeded")
        self.assertEqual(self.content(digest).body, data)

    def test_store_that_is_away_at_the_start(self):
        """The daemon serves what it can, says why it is not ready, and is as soon as the store is there."""
        data = model(73)
        digest = self.store(data)
        self.daemon.stop()
        server.kill_gateway()
        try:
            self.daemon.start(ready=503)
            self.daemon.wait_for(lambda: self.ask("GET", "/readyz", None, 503).json["code"] == "BLOBS_UNAVAILABLE", "workers")
            self.assertIn("The object store does not answer at the moment", self.ask("GET", "/readyz", None, 503).text)
            self.ask("GET", f"/v1/models/{digest}", None, 200)
            self.problem("POST", "/v1/models", model(74), 503, "BLOBS_UNAVAILABLE")
        finally:
            server.start_gateway()
        self.daemon.wait_for(lambda: self.daemon.raw_status("/readyz") == 200, "the object store")
        self.store(model(74))
        self.drop_copies()
        self.assertEqual(self.content(digest).body, data)

    def test_prefix_of_another_that_is_seen_late(self):
        """What was not asked at the start is asked before anything is written."""
        other = f"{self.bucket}/some/prefix/owner/{'0' * 32}"
        self.daemon.stop()
        server.request("PUT", other)
        server.kill_gateway()
        try:
            self.daemon.start(ready=503)
        finally:
            server.start_gateway()
        try:
            self.problem("POST", "/v1/models", model(75), 503, "BLOBS_IN_USE")
            self.daemon.wait_for(lambda: "BLOBS_IN_USE" in self.ask("GET", "/readyz", None, 503).text, "/readyz")
            self.assertEqual(self.object_of(hashlib.sha256(model(75)).hexdigest())[0], 404)
        finally:
            server.request("DELETE", other)
        self.daemon.wait_for(lambda: self.daemon.raw_status("/readyz") == 200, "the object store")

    @unittest.skipIf(STORE == "postgres", "other daemons wait ten leases until they take one for dead")
    def test_what_a_daemon_leaves_that_is_killed(self):
        connection = Blobs.begin(self, LARGE)
        self.daemon.wait_for(lambda: server.unfinished(self.bucket), "an upload")
        self.daemon.kill()
        connection.close()
        self.assertNotEqual(server.unfinished(self.bucket), [])
        server.request("PUT", f"{self.bucket}/some/prefix/staged/{'0' * 32}/1", body=b"behind its completion")
        self.daemon.start()
        self.daemon.wait_for(lambda: not server.unfinished(self.bucket) and not server.keys(self.bucket, "some/prefix/staged/"),
                             "the sweep")

    def test_orphans_are_swept(self):
        digest = hashlib.sha256(b"an orphan").hexdigest()
        kept = self.store(model(72))
        self.assertEqual(server.request("PUT", f"{self.bucket}/{self.key(digest)}", body=b"an orphan")[0], 200)
        self.daemon.stop()
        self.daemon.start()
        self.daemon.wait_for(lambda: self.object_of(digest)[0] == 404, "the sweep")
        self.assertEqual(self.object_of(kept)[0], 200)


class Unprotected(unittest.TestCase):
    def test_parts_are_signed_where_somebody_could_change_them(self):
        os.environ.update(KEYS)
        other = s3_proxy.Proxy(server, "127.0.0.2")
        self.addCleanup(other.close)
        with Daemon("--workers", "1", "--blobs", f"s3://{server.make_bucket()}", "--blobs-endpoint", other.endpoint) as daemon:
            self.assertEqual(daemon.request("POST", "/v1/models", LARGE).status, 201)
        self.assertEqual(other.wrong, [])
        self.assertTrue(any("partNumber=" in target for _, target, _ in other.seen))


class Sts(http.server.BaseHTTPRequestHandler):
    """AssumeRoleWithWebIdentity."""

    asked = []
    lives = 3600

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append(body)
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.lives))
        ok = "WebIdentityToken=a.web%2Btoken&" in body + "&"
        answer = (f"<R><Credentials><AccessKeyId>{s3.Server.key}</AccessKeyId><SecretAccessKey>{s3.Server.secret}</SecretAccessKey>"
                  f"<SessionToken></SessionToken><Expiration>{ends}</Expiration></Credentials></R>" if ok else
                  "<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error></ErrorResponse>").encode()
        self.send_response(200 if ok else 400)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class Agent(http.server.BaseHTTPRequestHandler):
    """What gives a pod its keys."""

    asked = []
    lives = 3600

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.asked.append((self.path, self.headers.get("Authorization")))
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.lives))
        ok = self.headers.get("Authorization") == "a-token"
        answer = json.dumps({"AccessKeyId": s3.Server.key, "SecretAccessKey": s3.Server.secret, "Token": "session", "Expiration": ends,
                             "AccountId": "1"} if ok else {"message": "no"}).encode()
        if self.path == "/nothing":
            answer = b'{"AccessKeyId": "x"}'
        self.send_response(200 if ok else 401)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class Credentials(unittest.TestCase):
    def daemon(self, *options):
        return Daemon("--workers", "1", "--blobs", f"s3://{server.make_bucket()}", "--blobs-endpoint", proxy.endpoint, *options)

    def environment(self, **variables):
        before = {name: os.environ.pop(name, None) for name in {*KEYS, *variables}}
        os.environ.update(variables)

        def restore():
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value

        self.addCleanup(restore)

    def works(self, daemon):
        with daemon:
            self.assertEqual(daemon.request("POST", "/v1/models", model(80)).status, 201)
            log = "".join(daemon.log)
        self.assertNotIn(s3.Server.secret, log)
        self.assertNotIn("a.web", log)

    def refuses(self, daemon, *words):
        """The daemon does not start, and says why."""
        process = daemon.spawn()
        try:
            log = process.communicate(timeout=60)[1].decode()
        finally:
            process.kill()
            daemon.close()
        self.assertEqual(process.returncode, 4, log)
        for word in words:
            self.assertIn(word, log)
        self.assertNotIn(s3.Server.secret, log)

    def write(self, daemon, name, text):
        path = os.path.join(daemon.folder.name, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def test_file(self):
        self.environment(AWS_ACCESS_KEY_ID="other", AWS_SECRET_ACCESS_KEY="wrong")
        daemon = self.daemon()
        path = self.write(daemon, "keys", f"# keys\n[default]\naws_access_key_id={s3.Server.key}\n"
                                          f"aws_secret_access_key = {s3.Server.secret}\n[other]\naws_access_key_id = no\n")
        daemon.options += ["--blobs-credentials-file", path]
        self.works(daemon)

    def test_file_that_fails_is_not_replaced_by_the_environment(self):
        os.environ.update(KEYS)
        daemon = self.daemon()
        daemon.options += ["--blobs-credentials-file", self.write(daemon, "keys", f"aws_access_key_id={s3.Server.key}\n")]
        self.refuses(daemon, "BLOBS_CREDENTIALS", "lacks")

    def test_half_an_environment(self):
        self.environment(AWS_ACCESS_KEY_ID=s3.Server.key, AWS_ROLE_ARN="arn:aws:iam::1:role/r")
        self.refuses(self.daemon(), "BLOBS_CREDENTIALS", "the environment lacks")

    def test_none(self):
        self.environment()
        self.refuses(self.daemon(), "BLOBS_CREDENTIALS", "there are none")

    def test_wrong_secret(self):
        self.environment(AWS_ACCESS_KEY_ID=s3.Server.key, AWS_SECRET_ACCESS_KEY="not this one")
        self.refuses(self.daemon(), "BLOBS_REFUSED", "SignatureDoesNotMatch")
        proxy.wrong.clear()

    def test_web_identity(self):
        sts = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sts)
        threading.Thread(target=sts.serve_forever, daemon=True).start()
        self.addCleanup(sts.server_close)
        self.addCleanup(sts.shutdown)
        Sts.asked.clear()
        daemon = self.daemon()
        path = self.write(daemon, "token", "a.web+token\n")
        self.environment(AWS_ROLE_ARN="arn:aws:iam::1:role/r", AWS_WEB_IDENTITY_TOKEN_FILE=path,
                         AWS_ENDPOINT_URL_STS=f"http://127.0.0.1:{sts.server_address[1]}/")
        self.works(daemon)
        self.assertEqual(len(Sts.asked), 1)
        self.assertIn("Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&", Sts.asked[0])
        Sts.lives = 200  # less than the time before its end at which a session is renewed
        self.addCleanup(setattr, Sts, "lives", 3600)
        daemon = self.daemon()
        os.environ["AWS_WEB_IDENTITY_TOKEN_FILE"] = self.write(daemon, "token", "a.web+token\n")
        self.works(daemon)
        self.assertGreater(len(Sts.asked), 3)
        daemon = self.daemon()
        os.environ["AWS_WEB_IDENTITY_TOKEN_FILE"] = self.write(daemon, "token", "another\n")
        self.refuses(daemon, "BLOBS_CREDENTIALS", "InvalidIdentityToken")

    def test_agent_of_the_node(self):
        """As EKS Pod Identity has it."""
        agent = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Agent)
        threading.Thread(target=agent.serve_forever, daemon=True).start()
        self.addCleanup(agent.server_close)
        self.addCleanup(agent.shutdown)
        self.addCleanup(Agent.asked.clear)
        where = f"http://127.0.0.1:{agent.server_address[1]}"
        daemon = self.daemon()
        path = self.write(daemon, "token", "a-token\n")
        self.environment(AWS_CONTAINER_CREDENTIALS_FULL_URI=where + "/v1/credentials", AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=path)
        self.works(daemon)
        self.assertEqual(Agent.asked, [("/v1/credentials", "a-token")])
        Agent.lives = 200  # less than the time before its end at which a session is renewed
        self.addCleanup(setattr, Agent, "lives", 3600)
        daemon = self.daemon()
        os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = self.write(daemon, "token", "a-token")
        self.works(daemon)
        self.assertGreater(len(Agent.asked), 3)
        for target, token, what in ((where, "wrong", "answered 401"), (where, "two\nlines", "more than one line"), (where, "\n", "empty"),
                                    (where + "/nothing", "a-token", "no keys of a session"),
                                    ("http://example.org/", "a-token", "neither https"),
                                    ("http://127.0.0.1:1@example.org/", "a-token", "neither https"),
                                    ("http://127.0.0.1.example.org/", "a-token", "neither https"), ("file:///etc/passwd", "a-token", "neither https")):
            with self.subTest(target=target, token=token):
                daemon = self.daemon()
                os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = target
                os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = self.write(daemon, "token", token)
                self.refuses(daemon, "BLOBS_CREDENTIALS", what)

    def test_web_identity_whose_server_is_away_at_the_start(self):
        port = s3.free_port()
        daemon = self.daemon()
        self.addCleanup(daemon.close)
        self.environment(AWS_ROLE_ARN="arn:aws:iam::1:role/r", AWS_ENDPOINT_URL_STS=f"http://127.0.0.1:{port}/",
                         AWS_WEB_IDENTITY_TOKEN_FILE=self.write(daemon, "token", "a.web+token\n"))
        daemon.start(ready=503)
        self.assertIn("STS: ", daemon.request("GET", "/readyz", check=False).text)
        sts = http.server.ThreadingHTTPServer(("127.0.0.1", port), Sts)
        threading.Thread(target=sts.serve_forever, daemon=True).start()
        self.addCleanup(sts.server_close)
        self.addCleanup(sts.shutdown)
        daemon.wait_for(lambda: daemon.raw_status("/readyz") == 200, "keys")

    def test_prefix_of_another_folder(self):
        os.environ.update(KEYS)
        first = self.daemon()
        with first:
            second = Daemon(*[option for option in first.options if option != first.store and not option.startswith("--store")
                              and not option.startswith("--lease") and option != "3"])
            self.refuses(second, "BLOBS_IN_USE")


class Options(unittest.TestCase):
    def test_addresses_that_make_no_sense(self):
        os.environ.update(KEYS)
        for url in ("http://bucket", "s3://b", "s3://bucket/a b", "s3://Bücket/a"):
            daemon = Daemon("--blobs", url)
            process = daemon.spawn()
            log = process.communicate(timeout=60)[1].decode()
            daemon.close()
            self.assertEqual(process.returncode, 4, log)
            self.assertIn("BLOBS_OPTION", log)

    def test_virtual_host(self):
        """Each request goes to the bucket's own name, and is signed for it."""
        os.environ.update(KEYS)
        bucket = server.make_bucket()
        host = "{bucket}.localhost"
        with Daemon("--workers", "1", "--blobs", f"s3://{bucket}", "--blobs-endpoint",
                    f"http://{host}:{server.port}") as daemon:
            answer = daemon.request("POST", "/v1/models", model(90))
            self.assertEqual(answer.status, 201, answer)
        self.assertEqual(len(server.keys(bucket, key_of(answer.json["id"], ""))), 2)  # the file and its inspection


class Signatures(unittest.TestCase):
    def test_second_implementation_makes_what_is_published(self):
        for made, published in s3.published_example().items():
            self.assertEqual(made, published)


if __name__ == "__main__":
    unittest.main()
