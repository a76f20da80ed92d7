"""The other half of the places that allocate in the daemon fail once each: answers stay clean, nothing is lost. Needs a daemon that
is built with -Dfaults=true."""

import unittest

from faulty import EachPlaceOfTheDaemon, has_faults


@unittest.skipUnless(has_faults(), "the daemon is built without faults")
class MorePlacesOfTheDaemon(EachPlaceOfTheDaemon, unittest.TestCase):
    PART, PARTS = 1, 2
