"""The service around models and plans: health, contract, routing, framing."""

import socket
import threading

from cases import DaemonCase


class Service(DaemonCase):
    def test_health(self):
        self.assertEqual(self.ask("GET", "/livez").text, "ok\n")
        self.assertEqual(self.ask("GET", "/readyz").text, "ok\n")

    def test_version(self):
        version = self.ask("GET", "/version").json
        self.assertEqual(version["name"], "shardplan")
        self.assertEqual(version["onnx_ir_version"], 14)

    def test_the_contract_lists_exactly_the_routes(self):
        served = {(route["method"], route["path"]) for route in self.ask("GET", "/").json["routes"]}
        self.assertEqual(served, self.daemon.contract.routes())

    def test_index_as_text(self):
        self.assertIn("/v1/plans/{id}/model", self.ask("GET", "/", Accept="text/plain").text)

    def test_devices(self):
        devices = self.ask("GET", "/v1/devices").json["devices"]
        self.assertIn("a100-sxm4-80gb", [device["name"] for device in devices])
        self.assertIn("a100-sxm4-80gb", self.ask("GET", "/v1/devices", Accept="text/plain").text)

    def test_devices_by_name(self):
        device, = self.ask("GET", "/v1/devices?name=h200-sxm-141gb").json["devices"]
        self.assertEqual(device["kind"], "gpu")
        self.assertEqual(device["memory_bytes"], 141e9)
        self.assertTrue(device["measured"]["products"])
        slices = self.ask("GET", "/v1/devices?name=a30-24gb/").json["devices"]
        self.assertEqual([device["name"] for device in slices], [f"a30-24gb/{n}" for n in ("1g.6gb", "2g.12gb", "4g.24gb")])
        self.assertIn("(measured)", self.ask("GET", "/v1/devices?name=h200-sxm-141gb", Accept="text/plain").text)
        problem = self.problem("GET", "/v1/devices?name=h1000", code="UNKNOWN_DEVICE")
        self.assertIn("h100-sxm-80gb", problem.json["detail"])

    def test_a_described_device_is_no_file(self):
        # Only the command reads files: for the daemon a path is a name that the catalog lacks.
        name = self.store()
        for path in ("device.json", "/etc/passwd", "../device.json"):
            with self.subTest(path):
                self.problem("POST", "/v1/plans", {"model": name, "cluster": {"device": path, "count": 2}},
                             code="UNKNOWN_DEVICE", pointer="/cluster/device")

    def test_a_device_of_the_catalog_may_be_described(self):
        device, = self.ask("GET", "/v1/devices?name=l40s-48gb").json["devices"]
        plan = self.submit(cluster={"device": device, "count": 2})
        self.assertEqual(self.daemon.finished(plan)["state"], "succeeded")
        kept = self.ask("GET", f"/v1/plans/{plan}").json["plan"]["cluster"]["groups"][0]["device"]
        device.pop("sources")  # a plan says where figures come from in short
        self.assertEqual(kept, device)

    def test_metrics_are_an_exposition(self):
        self.ask("GET", "/livez")
        typed = set()
        for line in self.ask("GET", "/metrics").text.splitlines():
            if line.startswith("# TYPE "):
                typed.add(line.split()[2])
            elif not line.startswith("#"):
                name, value = line.split("{")[0].split(" ")[0], line.rsplit(" ", 1)[1]
                float(value)
                base = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
                self.assertTrue(name in typed or base in typed, line)
        self.assertGreater(
            self.daemon.metric('shardplan_http_requests_total{method="GET",route="/livez",code="200"}'), 0
        )
        self.assertEqual(self.daemon.metric("shardplan_workers"), 4)

    def test_unknown_path_and_method(self):
        self.problem("GET", "/nothing", status=404, code="NOT_FOUND")
        self.problem("GET", "/v1/models/xyz", status=404, code="NOT_FOUND")
        answer = self.problem("PUT", "/v1/models", b"x", 405, "METHOD_NOT_ALLOWED")
        self.assertEqual(answer.headers["Allow"], "POST, GET, HEAD, OPTIONS")
        self.problem("BREW", "/livez", status=405)
        self.problem("GET", "/livez?verbose=1", status=400, code="UNKNOWN_PARAMETER")

    def test_head(self):
        answer = self.ask("HEAD", "/version")
        self.assertEqual(answer.body, b"")
        self.assertGreater(int(answer.headers["Content-Length"]), 10)

    def test_request_id(self):
        self.assertEqual(self.ask("GET", "/livez", X_Request_Id="abc-1.2_3").headers["X-Request-Id"], "abc-1.2_3")
        for wrong in ("a b", "x" * 65, "<script>"):
            self.assertRegex(self.ask("GET", "/livez", X_Request_Id=wrong).headers["X-Request-Id"], "^[0-9a-f]{16}$")
        answer = self.problem("GET", "/nothing", status=404, X_Request_Id="mine")
        self.assertEqual(answer.json["request_id"], "mine")

    def test_not_acceptable(self):
        self.problem("POST", "/v1/models", b"x", 406, "NOT_ACCEPTABLE", Accept="image/png")

    def test_bad_targets(self):
        for target in ("/%00", "/v1/%2e%2e/x", "/v1/../etc/passwd", "//v1/models", "/v1/models/./x", "/%ff"):
            with self.subTest(target):
                self.problem("GET", target, status=400, code="BAD_TARGET")
        for query in ("page_size=%zz", "page_size=%00", "page_size=1&page_size=2", "&".join("a%d=1" % i for i in range(30))):
            with self.subTest(query):
                self.problem("GET", "/v1/models?" + query, status=400)
        self.problem("GET", "/v1/models?page_token=" + "9" * 9000, status=414, code="URI_TOO_LONG")

    def test_body_on_get_is_ignored(self):
        self.ask("GET", "/livez", b"x" * 1000)
        self.problem("GET", "/livez", b"x" * (1 << 20), 413, "BODY_TOO_LARGE")


class Framing(DaemonCase):
    """Requests that no HTTP library would send."""

    def talk(self, data):
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20) as connection:
            connection.sendall(data)
            answer = b""
            while True:
                piece = connection.recv(65536)
                if not piece:
                    return answer.decode(errors="replace")
                answer += piece

    def refused(self, data, status, code):
        answer = self.talk(data)
        self.assertTrue(answer.startswith(f"HTTP/1.1 {status} "), answer[:300])
        self.assertIn(f'"code":"{code}"', answer)
        self.assertIn("Connection: close", answer)
        self.assertEqual(answer.count("HTTP/1.1 "), 1, "what followed was taken for a request")

    def test_length_and_coding(self):
        self.refused(
            b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"0\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
            400,
            "AMBIGUOUS_FRAMING",
        )

    def test_two_lengths(self):
        self.refused(
            b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 38\r\n\r\n"
            b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
            400,
            "REPEATED_HEADER",
        )

    def test_unknown_coding(self):
        self.refused(
            b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\nabc",
            501,
            "UNKNOWN_TRANSFER_ENCODING",
        )

    def test_no_host(self):
        answer = self.talk(b"GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n")
        self.assertIn("400 ", answer)
        self.assertIn("MISSING_HOST", answer)

    def test_absolute_target(self):
        answer = self.talk(b"GET http://x/livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertIn("BAD_TARGET", answer)

    def test_control_bytes(self):
        answer = self.talk(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: a\x01b\r\nConnection: close\r\n\r\n")
        self.assertIn("BAD_HEADER", answer)

    def test_content_range(self):
        self.refused(
            b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Range: bytes 0-1/4\r\nContent-Length: 2\r\n\r\nab",
            400,
            "PARTIAL_UPLOAD",
        )

    def test_garbage_and_silence_do_not_harm(self):
        for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\r\n" * 100, b"\x00" * 999):
            with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20) as connection:
                connection.sendall(data)
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20):
            self.assertEqual(self.ask("GET", "/livez").text, "ok\n")

    def test_many_at_once(self):
        failures = []

        def hammer():
            for _ in range(20):
                if self.daemon.request("GET", "/version").status != 200:
                    failures.append(1)

        threads = [threading.Thread(target=hammer) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
