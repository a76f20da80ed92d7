"""Every place that allocates in the daemon fails once: answers stay clean, nothing is lost. Needs a daemon that is built with
-Dfaults=true."""

import unittest

from faulty import MEMORY, NEVER, NEW_SITE, ONCE, PLACES_LIMIT, Scenario, has_faults


@unittest.skipUnless(has_faults(), "the daemon is built without faults")
class PlacesOfTheDaemon(unittest.TestCase):
    def setUp(self):
        self.scenario = Scenario()
        self.addCleanup(self.scenario.close)
        self.scenario.round(MEMORY, ONCE, NEVER)

    def test_each_place_that_allocates(self):
        places = quiet = 0
        while quiet < 3:  # what runs by itself, every second or so, is found a little later
            _, fired = self.scenario.round(MEMORY, NEW_SITE, 0)
            places += fired
            quiet = 0 if fired else quiet + 1
            self.assertLess(places, PLACES_LIMIT)
        self.assertGreater(places, 100)
        self.scenario.check_stored()
        print(f"# {places} places that allocate failed once each; {self.scenario.summary()}", flush=True)
