"""After all other tests (unittest sorts by name): whatever the contract says an answer can be was an answer of some test."""

import glob
import os
import sys
import unittest

from contract import Contract
from daemon import Daemon

FOLDER = os.path.dirname(os.path.abspath(__file__))
# Statuses that the tests do not bring about on every route that may have them, and why.
ANYWHERE = {
    400: "an unknown query parameter, which the router refuses alike on all routes: test_service.py",
    401: "asked by one function for all routes with a scope: test_auth.py",
    403: "asked by one function for all routes with a scope: test_auth.py",
    406: "asked by one function for all routes that have several forms: test_service.py, test_checks.py",
    413: "body.c counts the bytes of all bodies: test_models.py, test_plans.py, test_checks.py",
    415: "body.c and ask.c look at the types of all bodies: test_codings.py, test_checks.py",
    429: "counted by one function each for all requests with a tenant: test_accounts.py, test_fairness.py",
    503: "a store that is away, too many requests, a daemon that stops: test_durability.py, test_requests.py, test_operation.py",
    507: "a disk that is full, of which there is one only: test_models.py, test_requests.py",
}
NO_LENGTH = "asked over a bare socket, since Python's client always tells a length: test_models.py"
STREAM = "a stream that does not end is not read by Daemon.request(): the tests of events read it themselves"
NOT_TESTED = {
    ("POST", "/v1/models", 411): NO_LENGTH,
    ("POST", "/v1/check", 411): NO_LENGTH,
    ("POST", "/v1/plans", 411): NO_LENGTH,
    ("POST", "/v1/replan", 411): NO_LENGTH,
    ("GET", "/v1/plans/{id}/events", 200): STREAM,
    ("GET", "/v1/plans/{id}/events", 204): STREAM,
}


class Coverage(unittest.TestCase):
    def test_every_documented_answer_was_seen(self):
        modules = {os.path.basename(path)[:-3] for path in glob.glob(os.path.join(FOLDER, "test_*.py"))}
        if not Contract.SEEN and not modules <= set(sys.modules):
            self.skipTest("only with all other tests")
        with Daemon("--workers", "1") as daemon:
            documented = daemon.contract.documented()
        seen = Contract.everything()
        for status, why in ANYWHERE.items():
            self.assertTrue(any(other == status for _, _, other in seen), f"{status} was not seen anywhere: {why}")
        missing = {item for item in documented - seen if item[2] not in ANYWHERE and item not in NOT_TESTED}
        self.assertEqual(sorted(missing), [])
        self.assertEqual(sorted(item for item in NOT_TESTED if item not in documented), [])
