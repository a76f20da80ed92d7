#!/usr/bin/env python3
"""tap.py FOLDER [NAME...]: runs the unittest tests of a folder (test_*.py) and writes TAP.

NAMEs choose as unittest does: test_plans, test_plans.Plans, test_models.Models.test_content.
"""
import signal
import sys
import unittest


class TapResult(unittest.TestResult):
    def say(self, test, status, note="", detail=""):
        print(f"{status} {test.id()}{note}")
        for line in detail.rstrip().splitlines()[-30:]:
            print(f"  {line}")
        sys.stdout.flush()

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say(test, "ok", f" # SKIP {reason}")

    def addError(self, test, err):
        super().addError(test, err)
        self.say(test, "not ok", detail=self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say(test, "not ok", detail=self.failures[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            kept = self.failures if issubclass(err[0], test.failureException) else self.errors
            self.say(subtest, "not ok", detail=kept[-1][1])

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.say(test, "ok")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.say(test, "not ok", detail="succeeded, but was expected to fail")


def main(folder, names):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ended from outside, tests still clean up
    sys.path.insert(0, folder)
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(names) if names else loader.discover(folder)
    result = TapResult()
    suite.run(result)
    if result.testsRun == 0 and not result.errors and not result.skipped:
        print(f"not ok {folder}: no tests were found")
        return 1
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
