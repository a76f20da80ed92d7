"""Every call of the store fails once, and memory is short for a while, in the daemon and in its workers: answers stay clean,
nothing is lost. Each place that allocates: test_faults_places.py and its neighbours, which run side by side.

Needs a daemon that is built with -Dfaults=true (server/faults/faults.h). tests/bench/faults.py has every single allocation fail.
"""

import unittest

from faulty import FROM, MEMORY, NEVER, ONCE, STORE, WORKER, Scenario, Work, has_faults


@unittest.skipUnless(has_faults(), "the daemon is built without faults")
class FaultsOfTheDaemon(unittest.TestCase):
    def setUp(self):
        self.scenario = Scenario()
        self.addCleanup(self.scenario.close)
        self.scenario.round(MEMORY, ONCE, NEVER)

    def say(self, text):
        print(f"# {text}; {self.scenario.summary()}", flush=True)

    def test_no_memory_for_a_while(self):
        """From one allocation on, all fail until the request is over."""
        seen, _ = self.scenario.round(MEMORY, ONCE, NEVER)
        failed = 0
        for at in range(1, seen + 1, max(1, seen // 12)):
            failed += self.scenario.round(MEMORY, FROM, at)[1]
        self.assertGreater(failed, 40)
        self.scenario.check_stored()
        self.say(f"{failed} allocations failed in rows, of {seen} in a round")

    def test_each_call_of_the_store(self):
        seen, _ = self.scenario.round(STORE, ONCE, NEVER)
        self.assertGreater(seen, 10)
        failed = 0
        for mode in (ONCE, FROM):
            for at in range(1, seen + 1):
                failed += self.scenario.round(STORE, mode, at)[1]
        self.assertGreater(failed, seen)
        self.scenario.check_stored()
        self.say(f"{failed} calls of the store failed, of {seen} in a round")


@unittest.skipUnless(has_faults(), "the daemon is built without faults")
class FaultsOfWorkers(unittest.TestCase):
    """A job has its right answer or an honest one, and leaves no memory behind; the next one is done."""

    def setUp(self):
        self.work = Work()
        self.addCleanup(self.work.close)

    def test_no_memory_from_there_on(self):
        failed = 0
        for name in ("check", "convert"):
            for at in (20, 60):
                failed += self.work.round(WORKER, FROM, at, name)[1]
        self.assertGreater(failed, 3)
        self.work.check_stored()
        print(f"# {failed} allocations of workers failed in rows; {self.work.summary()}", flush=True)
