"""SIGTERM in each phase of the work: the daemon drains, ends with 0 in its time, and the next start finishes what was accepted."""

import http.client
import json
import os
import signal
import socket
import threading
import time
import unittest

import onnx_make
import postgres
from cases import CLUSTER, TINY, model
from daemon import Daemon
from running import SWEEP, Stream, made

ANEW = {"Cache-Control": "no-cache"}
SLOW = 30  # seconds: more than any of this takes, less than a long --drain


class Stopping(unittest.TestCase):
    def start(self, *options, **keywords):
        self.daemon = Daemon("--workers", "1", *options, **keywords)
        self.addCleanup(self.daemon.close)
        self.daemon.start()
        self.known = self.daemon.upload(TINY).json["id"]

    def submit(self, **headers):
        answer = self.daemon.request("POST", "/v1/plans", {"model": self.known, "cluster": CLUSTER}, {**ANEW, **headers})
        self.assertEqual(answer.status, 202, answer)
        return answer.json["id"]

    def signal(self, number=signal.SIGTERM):
        """Asks it to stop, and waits until it has begun."""
        self.began = time.monotonic()
        self.daemon.process.send_signal(number)
        self.daemon.wait_for(lambda: any('"draining"' in line for line in self.daemon.log), "the drain")

    def ended(self, within=SLOW):
        """It ends with 0, in time, and the sanitizers have found nothing."""
        self.assertEqual(self.daemon.process.wait(60), 0, self.daemon.log[-10:])
        self.assertLess(time.monotonic() - self.began, within)
        self.daemon.process = None
        self.daemon.check_reports()

    def again(self, *plans, attempts=None):
        """The next start has all that was accepted, and nothing else."""
        self.daemon.start()
        for plan in plans:
            done = self.daemon.finished(plan)
            self.assertEqual(done["state"], "succeeded", done)
            if attempts is not None:
                self.assertEqual(done["attempts"], attempts, done)
            folder = os.path.join(self.daemon.data, "plans", plan)
            self.daemon.wait_for(lambda: os.listdir(folder) == [str(done["attempts"])], "the removal of older attempts")  # pylint: disable=cell-var-from-loop
            self.assertEqual(self.daemon.get(f"/v1/plans/{plan}/model").status, 200)
        tmp = os.path.join(self.daemon.data, "tmp")
        self.daemon.wait_for(lambda: not any(os.listdir(os.path.join(tmp, name)) for name in os.listdir(tmp)), "an empty folder")

    def running(self, plan):
        self.daemon.wait_for(lambda: self.daemon.get(f"/v1/plans/{plan}").json["state"] == "running", "a running plan")

    # ---- uploads ----

    def begin_upload(self, data):
        connection = self.daemon.connect()
        connection.putrequest("POST", "/v1/models")
        connection.putheader("Content-Length", str(len(data)))
        connection.putheader("Content-Type", "application/octet-stream")
        connection.endheaders(data[:100])
        own = os.path.join(self.daemon.data, "tmp")
        self.daemon.wait_for(lambda: any(os.listdir(os.path.join(own, name)) for name in os.listdir(own)), "the upload")
        return connection

    def test_while_a_model_is_uploaded(self):
        self.start("--drain", "60")
        data = model(1)
        connection = self.begin_upload(data)
        self.signal()
        connection.send(data[100:])
        answer = connection.getresponse()
        self.assertEqual(answer.status, 201, "what had begun is done")
        name = json.loads(answer.read())["id"]
        connection.close()
        self.ended()
        self.again()
        self.assertEqual(self.daemon.get(f"/v1/models/{name}/content").body, data)

    def test_while_an_upload_does_not_go_on(self):
        self.start("--drain", "1")
        connection = self.begin_upload(model(1))
        self.signal()
        self.ended()
        with self.assertRaises((http.client.HTTPException, OSError)):
            connection.getresponse()
        connection.close()
        self.again()
        self.assertEqual([entry["id"] for entry in self.daemon.get("/v1/models").json["models"]], [self.known])

    def test_while_a_model_is_inspected(self):
        self.start("--drain", "60")
        workers = self.daemon.freeze()
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.daemon.upload(model(1))))
        thread.start()
        self.daemon.wait_for(lambda: self.daemon.metric("shardplan_workers_busy") == 1, "a busy worker")
        self.signal()
        self.daemon.thaw(workers)
        thread.join()
        self.assertEqual(answers[0].status, 201, answers[0])
        self.ended()
        self.again()
        self.assertEqual(self.daemon.get(f"/v1/models/{answers[0].json['id']}").status, 200)

    # ---- plans ----

    def test_while_plans_are_queued_and_run(self):
        """Clients that wait are answered at once; the plan that runs is finished, the queued one by the next start."""
        self.start("--drain", "60")
        workers = self.daemon.freeze()
        first = self.submit()
        self.running(first)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.submit(Prefer="wait=50")))
        thread.start()
        self.daemon.wait_for(lambda: len(self.daemon.get("/v1/plans").json["plans"]) == 2, "both plans")
        with Stream(self.daemon, first) as stream:
            self.signal()
            list(stream)  # which ends
        thread.join()
        self.daemon.thaw(workers)
        self.ended()
        self.again(first, answers[0], attempts=1)

    def test_while_a_plan_does_not_end(self):
        """After --drain it is queued again."""
        self.start("--drain", "1")
        self.daemon.freeze()
        plan = self.submit()
        self.running(plan)
        self.signal()
        self.ended()
        self.again(plan, attempts=2)

    def test_a_second_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                self.start("--drain", "600")
                self.daemon.freeze()
                plan = self.submit()
                self.running(plan)
                self.signal()
                self.daemon.process.send_signal(number)
                self.ended()
                self.again(plan, attempts=2)

    # ---- answers ----

    def test_while_a_stream_is_open(self):
        self.start("--drain", "600")
        name = self.daemon.upload(made("llama3-8b")).json["id"]
        plan = self.daemon.request("POST", "/v1/plans", {"model": name, "sweep": SWEEP}, ANEW).json["id"]
        with Stream(self.daemon, plan) as stream:
            stream.until("improved")
            self.signal()
            self.assertNotIn("done", [event[1] for event in stream])
        self.daemon.process.send_signal(signal.SIGTERM)
        self.ended()
        self.daemon.start()
        self.assertIn(self.daemon.get(f"/v1/plans/{plan}").json["state"], ("queued", "running"))
        self.assertEqual(self.daemon.request("POST", f"/v1/plans/{plan}/cancel").status, 200)

    def begin_download(self):
        """A large answer of which little is read."""
        data = onnx_make.encode(onnx_make.big(24 << 20))
        name = self.daemon.upload(data).json["id"]
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.connect(("127.0.0.1", self.daemon.port))
        connection.sendall(f"GET /v1/models/{name}/content HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        connection.settimeout(60)
        return data, connection, connection.recv(1000)

    def test_while_a_model_is_downloaded(self):
        self.start("--drain", "60")
        data, connection, got = self.begin_download()
        self.signal()
        time.sleep(3)  # longer than a daemon that has nothing else to do waits for nothing
        pieces = [got]
        while piece := connection.recv(1 << 20):
            pieces.append(piece)
        connection.close()
        self.assertEqual(b"".join(pieces).split(b"\r\n\r\n", 1)[1], data, "all of it")
        self.ended()

    def test_while_nobody_reads_an_answer(self):
        self.start("--drain", "1")
        _, connection, _ = self.begin_download()
        self.signal()
        self.ended()
        connection.close()

    # ---- without a store ----

    def test_while_the_store_is_away(self):
        """Nobody can be told how the plan ended: the next start finds out."""
        server = None
        if Daemon("--workers", "1").store:
            server = postgres.Server()
            self.addCleanup(server.close)
            server.start()
            self.start("--drain", "1", store=server.url(server.new_database()))
        else:
            self.start("--drain", "1")
        workers = self.daemon.freeze()
        plan = self.submit()
        self.running(plan)
        database = os.path.join(self.daemon.data, "shardplan.db")
        if server is not None:
            server.stop()
        else:
            os.rename(database, database + ".aside")
        self.daemon.thaw(workers)
        self.daemon.wait_for(lambda: self.daemon.metric("shardplan_workers_busy") == 0, "the end of the job")
        self.signal()
        self.ended()
        if server is not None:
            server.start()
        else:
            os.rename(database + ".aside", database)
        self.again(plan)
