"""Every place that allocates in a worker fails once: a job has its right answer or an honest one, and leaves no memory behind.
Needs a daemon that is built with -Dfaults=true; tests/bench/faults.py has every single allocation fail."""

import unittest

from faulty import NEW_SITE, PLACES_LIMIT, WORKER, Work, has_faults

JOBS = "upload", "check", "completed model", "convert"  # of the workers; tests/bench/faults.py has all


@unittest.skipUnless(has_faults(), "the daemon is built without faults")
class PlacesOfWorkers(unittest.TestCase):
    def setUp(self):
        self.work = Work()
        self.addCleanup(self.work.close)

    def test_each_place_that_allocates(self):
        places = 0
        for name in JOBS:
            fired = 1
            while fired:
                _, fired = self.work.round(WORKER, NEW_SITE, 0, name)
                places += fired
                self.assertLess(places, PLACES_LIMIT)
        self.assertGreater(places, 100)
        self.work.check_stored()
        print(f"# {places} places that allocate in workers failed once each; {self.work.summary()}", flush=True)
