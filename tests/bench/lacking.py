"""What all benchmarks here do alike: say in one sentence what they lack, and end what they started when they are ended."""

import os
import shutil
import signal
import sys
import threading

LACKS = 2  # status of a benchmark that cannot begin
HERE = os.path.dirname(os.path.abspath(__file__))


def leave(sentence):
    """Ends the benchmark before it begins."""
    print(f"{os.path.basename(sys.argv[0])}: {sentence}", file=sys.stderr)
    sys.exit(LACKS)


def need_built(path, options=""):
    """A program that the build makes, with Meson's options for it."""
    if not os.access(path, os.X_OK):
        leave(f"{path} is missing; build it first: meson setup BUILD{options and ' ' + options} && ninja -C BUILD")


def need_program(name, package=None):
    if shutil.which(name) is None:
        leave(f"{name} is missing; install it first: apt-get install {package or name}")


def need_file(path, what):
    if not os.path.exists(path):
        leave(f"{path} is missing; {what}")


_failed = threading.Event()


def fail(sentence):
    """Ends the benchmark with status 1; also from a thread. While it ends already nothing is said."""
    if not _failed.is_set() and signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        _failed.set()
        print(sentence, file=sys.stderr)
        os.kill(os.getpid(), signal.SIGTERM)


def run(main):
    """Calls main(). SIGTERM and Ctrl-C are exceptions in it, so that whatever it started is ended by `with` and `finally`."""
    def end(number, _):
        for one in (signal.SIGTERM, signal.SIGINT):  # another one would cut the ending short
            signal.signal(one, signal.SIG_IGN)
        sys.exit(1 if _failed.is_set() else 128 + number)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    main()
