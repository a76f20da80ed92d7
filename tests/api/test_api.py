#!/usr/bin/env python3
"""Drives the real daemon through every route; TAP on standard output.

    test_api.py [NAME...]     all, or e.g. Plans, Models.test_content

SHARDPLAND names the program to test. Needs nothing but Python's standard library.
"""

import unittest

import tap
from test_durability import *  # noqa: F401,F403
from test_hostile import *  # noqa: F401,F403
from test_models import *  # noqa: F401,F403
from test_plans import *  # noqa: F401,F403
from test_service import *  # noqa: F401,F403

if __name__ == "__main__":
    import cases

    # The shared base has no tests of its own.
    for name, value in list(globals().items()):
        if value is cases.DaemonCase or value is unittest.TestCase:
            del globals()[name]
    tap.main()
