"""Files that want to hurt: each is refused with a clear error, nothing is stored, and the daemon goes on serving."""

import os

from cases import MODELS, TINY, DaemonCase
import hostile


class Hostile(DaemonCase):
    def refused(self, cases, statuses):
        before = self.ask("GET", "/v1/models").json
        count = 0
        for name, data in cases:
            with self.subTest(name):
                answer = self.ask("POST", "/v1/models", data, statuses)
                self.assertTrue(answer.json["detail"])
                self.assertNotEqual(answer.json["code"], "WORKER_CRASHED")
                checked = self.ask("POST", "/v1/check", data, (200, *statuses))
                if checked.status == 200:
                    self.assertFalse(checked.json["valid"])
                    self.assertGreater(len(checked.json["diagnostics"]), 0)
                count += 1
        self.assertEqual(self.ask("GET", "/v1/models").json, before)
        self.no_temporary_files()
        self.assertEqual(self.ask("GET", "/readyz").text, "ok\n")
        self.assertIn(self.ask("POST", "/v1/models", TINY, (200, 201)).status, (200, 201))
        self.ask("DELETE", "/v1/models/" + self.store(), expect=204)
        return count

    def test_broken_files(self):
        self.assertGreater(self.refused(hostile.cases(), (400, 422)), 20)

    def test_wrong_models(self):
        self.assertGreater(self.refused(hostile.wrong_models(), (400, 422)), 5)

    def test_truncated_models(self):
        for model in ("transformer_tiny.onnx", "resnet50.onnx"):
            self.refused(hostile.truncated(os.path.join(MODELS, model)), (400, 422))

    def test_unplannable_models(self):
        for name, data in hostile.unplannable():
            with self.subTest(name):
                answer = self.ask("POST", "/v1/plans?devices=4&device=a100-sxm4-80gb", data, (400, 422), Prefer="wait=30")
                self.assertTrue(answer.json["detail"])

    def test_no_worker_died(self):
        self.assertNotIn('shardplan_workers_ended_total{reason="crashed"}', self.ask("GET", "/metrics").text)
