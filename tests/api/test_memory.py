"""What requests hold in the daemon: bodies of JSON become trees of up to 70 times their size, which live as long as they
are read and no longer, and what they leave to malloc goes back to the system."""

import concurrent.futures
import itertools
import unittest

from cases import SANITIZED, DaemonCase
from daemon import status_bytes

AT_A_TIME = 250
LIMIT = 300 << 20  # of the daemon, with all of them in flight
PATIENCE = 10      # seconds until memory is given back
SLACK = 64 << 20   # beyond what it had before


def members(count):
    return b",".join([b"{}"] * count)


# Each is answered with an error; as a tree it takes 18 MB.
CASES = {
    "constraints that are a list": b'{"model":"%b","cluster":{"device":"a100-sxm4-80gb","count":1},"constraints":[%b]}' %
                                   (b"0" * 64, members(84000)),
    "no such member": b'{"model":"%b","other":[%b]}' % (b"0" * 64, members(84000)),
    "no such model": b'{"model":"%b","cluster":{"device":"a100-sxm4-80gb","count":1},"options":{"values":{%b}}}' %
                     (b"0" * 64, b",".join(b'"v%d":[1,2]' % index for index in range(16000))),
    "broken off at the end": b'{"model":"%b","other":[%b' % (b"0" * 64, members(84000)),
}


@unittest.skipIf(SANITIZED, "the sanitizers keep what is freed")
class Trees(DaemonCase):
    options = ("--workers", "1")

    def resident(self):
        return status_bytes(self.daemon.process.pid, "VmRSS")

    def flood(self, path, body):
        """Many clients at once: their statuses, and the most that the daemon held."""
        def client(_):
            return self.daemon.request("POST", path, body, {"Content-Type": "application/json"}, check=False).status
        most, statuses = 0, set()
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            pending = {pool.submit(client, index) for index in range(AT_A_TIME)}
            while pending:
                most = max(most, self.resident())
                done, pending = concurrent.futures.wait(pending, timeout=0.02)
                statuses.update(future.result() for future in done)
        return statuses, most

    def test_refused_ones_hold_no_tree_and_give_back_what_it_took(self):
        before = self.resident()
        first, *others = CASES.items()
        for path, (name, body) in [*itertools.product(("/v1/plans", "/v1/replan", "/v1/verify"), [first]),
                                   *(("/v1/plans", other) for other in others)]:
            with self.subTest((path, name)):
                statuses, most = self.flood(path, body)
                self.assertTrue(all(400 <= status < 500 for status in statuses), statuses)
                self.assertLess(most, LIMIT)
        self.daemon.wait_for(lambda: self.resident() < before + SLACK, "memory that is given back", PATIENCE)
