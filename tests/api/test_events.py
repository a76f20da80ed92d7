"""Streams of events: what they tell, how they are taken up again, and what many of them cost."""

import os
import signal
import threading
import time

from cases import CLUSTER, DaemonCase, model
from daemon import Daemon, processor_ticks, status_bytes
from running import CLUSTER as LARGE_CLUSTER
from running import SWEEP, Stream, made

LAST = 1 << 52  # the id of every last event


class Running(DaemonCase):
    options = ("--workers", "1")

    def start(self, **members):
        body = {"model": self.store(made("llama3-8b")), "sweep": SWEEP, **members}
        return self.ask("POST", "/v1/plans", body, 202, Cache_Control="no-cache").json["id"]

    def check(self, events):
        """Ids grow, bests only get better, and every event has its members."""
        ids = [event[0] for event in events]
        self.assertEqual(ids, sorted(set(ids)))
        bests = [data["best_seconds"] for _, name, data in events if name == "improved"]
        self.assertEqual(bests, sorted(set(bests), reverse=True))
        for _, name, data in events:
            if name == "progress":
                self.assertIn(data["state"], ("queued", "running"))
                self.assertTrue(data["phase"])
                self.assertTrue(0 <= data["fraction"] <= 1, data)
        return bests

    def test_from_beginning_to_end(self):
        body = {"model": self.store(made("llama3-8b")), "cluster": LARGE_CLUSTER}
        plan = self.ask("POST", "/v1/plans", body, 202, Cache_Control="no-cache").json["id"]
        with Stream(self.daemon, plan) as stream:
            self.assertEqual(stream.status, 200)
            self.assertEqual(stream.answer.headers["Content-Type"], "text/event-stream")
            self.assertEqual(stream.answer.headers["Cache-Control"], "no-store")
            self.assertEqual(stream.answer.headers["X-Accel-Buffering"], "no")
            events = list(stream)
            self.assertEqual(stream.retry, 2000)
        self.assertEqual(events[0][1], "progress")
        self.assertEqual(events[-1], (LAST, "done", {"state": "succeeded", "has_result": True}))
        bests = self.check(events)
        self.assertGreater(len(bests), 0)
        done = self.daemon.finished(plan)
        estimate = done["plan"]["estimate"]
        # What is told is the best that was found: the answer may be slower by the tolerance.
        self.assertGreaterEqual(bests[-1], 0.999 * estimate["best_found_seconds"])
        self.assertLessEqual(estimate["best_found_seconds"], 1 / estimate["throughput_per_second"] * 1.001)
        bounds = {data["lower_bound_seconds"] for _, name, data in events if name == "improved"}
        self.assertTrue(all(0 < bound <= bests[-1] * 1.001 for bound in bounds), (bounds, bests))

    def test_finished(self):
        plan = self.submit(model(60))
        self.daemon.finished(plan)
        text = self.ask("GET", f"/v1/plans/{plan}/events")
        self.assertEqual(text.text, f'retry: 2000\n\nid: {LAST}\nevent: done\ndata: {{"state":"succeeded","has_result":true}}\n\n')
        self.ask("GET", f"/v1/plans/{plan}/events", expect=204, Last_Event_ID=str(LAST))
        self.assertEqual(self.ask("GET", f"/v1/plans/{plan}/events", Last_Event_ID="7").text, text.text)
        self.problem("GET", f"/v1/plans/{plan}/events", status=406, Accept="application/json")
        self.problem("GET", f"/v1/plans/{'0' * 32}/events", status=404, code="PLAN_NOT_FOUND")

    def test_failed(self):
        body = {"model": self.store(made("llama3-8b")), "cluster": LARGE_CLUSTER, "options": {"time_limit_seconds": 0.001}}
        plan = self.ask("POST", "/v1/plans", body, 202).json["id"]
        with Stream(self.daemon, plan) as stream:
            events = list(stream)
        self.assertEqual(events[-1][:2], (LAST, "error"))
        self.assertEqual(events[-1][2], self.ask("GET", f"/v1/plans/{plan}").json["error"])
        self.assertEqual(events[-1][2]["code"], "TIME_LIMIT")

    def test_cancelled(self):
        plan = self.start()
        with Stream(self.daemon, plan) as stream:
            self.assertEqual(stream.until("improved")[-1][1], "improved")
            self.ask("POST", f"/v1/plans/{plan}/cancel")
            events = list(stream)
        self.assertEqual(events[-1][1:], ("done", {"state": "cancelled", "has_result": True}))

    def test_deleted(self):
        plan = self.start()
        with Stream(self.daemon, plan) as stream:
            stream.until("progress")
            self.ask("DELETE", f"/v1/plans/{plan}", expect=204)
            event = list(stream)[-1]
        self.assertEqual((event[1], event[2]["code"]), ("error", "PLAN_NOT_FOUND"))

    def test_taking_up_again(self):
        """Who lost the connection has in the end the same events as who did not."""
        plan = self.start()
        whole, parts = [], []

        def watch():
            with Stream(self.daemon, plan) as stream:
                whole.extend(stream)

        thread = threading.Thread(target=watch)
        thread.start()
        last = None
        for _ in range(3):
            with Stream(self.daemon, plan, **({"Last_Event_ID": str(last)} if last else {})) as stream:
                for count, event in enumerate(stream):
                    parts.append(event)
                    last = event[0]
                    if count == 2:
                        break
            time.sleep(0.5)  # in which something happens
        self.ask("POST", f"/v1/plans/{plan}/cancel")
        with Stream(self.daemon, plan, Last_Event_ID=str(last)) as stream:
            parts.extend(stream)
        thread.join()
        self.check(whole)
        self.check(parts)
        first = max(whole[1][0], parts[1][0])
        self.assertEqual([event for event in parts if event[0] >= first], [event for event in whole if event[0] >= first])
        self.assertGreater(len(parts), 8)

    def test_nobody_knows_that_event(self):
        """What was lost is summed up, and nonsense is no event."""
        plan = self.start()
        with Stream(self.daemon, plan) as stream:
            now = stream.until("improved")[-1][0]
        for last in ("1", str(now - 10**9), str(now + 10**12), str(LAST - 1), str(LAST), "0", "-1", "x", "9" * 40, ""):
            with Stream(self.daemon, plan, Last_Event_ID=last) as stream:
                event = next(iter(stream))
                self.assertEqual((event[1], event[2]["state"]), ("progress", "running"), last)
                self.assertGreaterEqual(event[0], now)
                self.assertLess(event[0], now + 10**9)
        self.ask("DELETE", f"/v1/plans/{plan}", expect=204)


class Waiting(DaemonCase):
    """Plans that wait in the queue, because the workers are stopped."""

    options = ("--workers", "1", "--max-connections", "1400", "--max-queued-plans", "5")

    def setUp(self):
        self.name = self.store(model(61))
        self.daemon.freeze()
        self.running, self.queued = self.submit_plan(), self.submit_plan()
        self.daemon.wait_for(lambda: self.ask("GET", f"/v1/plans/{self.running}").json["state"] == "running", "a running plan")

    def tearDown(self):
        for plan in (self.running, self.queued):
            self.ask("DELETE", f"/v1/plans/{plan}", expect=(204, 404))
        self.daemon.thaw()

    def submit_plan(self):
        return self.ask("POST", "/v1/plans", {"model": self.name, "cluster": CLUSTER}, 202, Cache_Control="no-cache").json["id"]

    def test_queued(self):
        with Stream(self.daemon, self.queued) as stream:
            event = stream.until("progress")[0]
            self.assertEqual(event[2], {"state": "queued", "phase": "queued", "fraction": 0})
            self.ask("POST", f"/v1/plans/{self.queued}/cancel")
            self.assertEqual(list(stream), [(LAST, "done", {"state": "cancelled", "has_result": False})])

    def test_silence(self):
        """Hundreds of streams with nothing to say cost no time; a comment shows that they live; who left is forgotten."""
        name = 'shardplan_http_requests_in_flight{method="GET",route="/v1/plans/{id}/events"}'
        before = status_bytes(self.daemon.process.pid, "VmRSS")
        streams = [Stream(self.daemon, self.queued) for _ in range(600)]
        for stream in streams:
            stream.until("progress")
        self.assertEqual(self.daemon.metric(name), 600)
        per_stream = (status_bytes(self.daemon.process.pid, "VmRSS") - before) / 600
        for stream in streams[:300]:
            stream.connection.close()
            stream.answer.close()
        self.daemon.wait_for(lambda: self.daemon.metric(name) == 300, "the end of streams whose clients left")
        ticks = processor_ticks(self.daemon.process.pid)
        started = time.monotonic()
        line = streams[-1].answer.readline()  # the heartbeat, or a gap in it
        while not line.startswith(b":"):
            line = streams[-1].answer.readline()
        waited = time.monotonic() - started
        self.assertLess(waited, 30)  # two heartbeats
        busy = (processor_ticks(self.daemon.process.pid) - ticks) / os.sysconf("SC_CLK_TCK")
        self.assertLess(busy / waited, 0.25)  # of a processor, sanitizers included
        self.assertLess(per_stream, 400 * 1024)
        self.ask("POST", f"/v1/plans/{self.queued}/cancel")
        for stream in streams[300:]:
            with stream:
                self.assertEqual([event[1] for event in stream], ["done"])
        self.daemon.wait_for(lambda: self.daemon.metric(name) == 0, "the end of the streams")

    def test_too_many(self):
        streams = [Stream(self.daemon, self.queued) for _ in range(710)]
        refused = [stream for stream in streams if stream.status != 200]
        self.assertEqual([stream.status for stream in refused], [429] * 10)
        for stream in streams:
            stream.connection.close()
            stream.answer.close()


class Stopping(DaemonCase):
    def test_drain(self):
        """A daemon that stops ends its streams; the plan is watched on in the next one."""
        with Daemon("--workers", "1", "--drain", "5") as daemon:
            name = daemon.upload(model(62)).json["id"]
            daemon.freeze()
            plans = [daemon.request("POST", "/v1/plans", {"model": name, "cluster": {**CLUSTER, "count": count}}).json["id"] for count in (1, 2)]
            streams = [Stream(daemon, plans[number % 2]) for number in range(40)]
            lasts = [stream.until("progress")[-1][0] for stream in streams]
            daemon.process.send_signal(signal.SIGTERM)
            for stream in streams:
                with stream:
                    stream.retry = None
                    self.assertNotIn("done", [event[1] for event in stream])
                    self.assertEqual(stream.retry, 2000)
                    self.assertIn("the service is stopping", stream.comments)
            daemon.process.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.process.wait(30), 0)
            daemon.process = None
            daemon.check_reports()
            daemon.start()
            for number in range(2):
                with Stream(daemon, plans[number], Last_Event_ID=str(lasts[number])) as stream:
                    events = list(stream)
                self.assertEqual(events[-1][1:], ("done", {"state": "succeeded", "has_result": True}))
                self.assertGreater(events[0][0], lasts[number])
