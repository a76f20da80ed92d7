"""Runs unittest cases with TAP lines on standard output."""

import signal
import sys
import time
import unittest


class Result(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def say(self, ok, test, note="", details=""):
        name = test.id().split(".", 1)[-1].replace("#", "\\#")
        print(f"{'ok' if ok else 'not ok'} {name}{note}")
        for line in details.splitlines():
            print(f"  {line}")
        sys.stdout.flush()

    def addSuccess(self, test):
        seconds = time.monotonic() - self.started
        self.say(True, test, f" ({seconds:.1f} s)")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say(True, test, f" # SKIP {reason}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say(False, test, details=self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.say(False, test, details=self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.say(False, subtest, details=self._exc_info_to_string(err, test))


def main(module="__main__"):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    names = sys.argv[1:] or None
    loader = unittest.TestLoader()
    target = sys.modules[module]
    suite = loader.loadTestsFromNames(names, target) if names else loader.loadTestsFromModule(target)
    result = Result()
    suite.run(result)
    sys.exit(0 if result.wasSuccessful() else 1)
