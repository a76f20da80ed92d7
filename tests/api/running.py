"""Plans that run for a while: for tests of what can be done meanwhile."""

import functools
import json
import os
import subprocess
import sys
import tempfile

from daemon import TOP

# Each of these clusters is searched for itself, the first ones in a moment: there is a plan soon, and it takes long
# until all have been looked at.
DEVICES = [2, 4, 8, 16, 32, 64, 128, 256, 512] + [3 * 2**i for i in range(8)] + [5 * 2**i for i in range(7)]
SWEEP = {"devices": DEVICES, "types": ["a100-sxm4-80gb", "h100-sxm-80gb"], "choose": "best"}
CLUSTER = {"device": "a100-sxm4-80gb", "count": 64}


@functools.cache
def made(name):
    """A language model of tests/bench, without its weights. llama3-8b fits on one device; its search on 64 takes part of
    a second, more when sanitized."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        program = os.path.join(TOP, "tests/bench/models.py")
        subprocess.run([sys.executable, program, "--model", name, "--style", "decomposed", "-o", path], check=True)
        with open(path, "rb") as file:
            return file.read()


class Stream:
    """The events of a plan, as they come."""

    def __init__(self, daemon, plan, **headers):
        self.connection = daemon.connect()
        self.connection.request("GET", f"/v1/plans/{plan}/events", headers={key.replace("_", "-"): value for key, value in headers.items()})
        self.answer = self.connection.getresponse()
        self.status = self.answer.status
        self.comments = []
        self.retry = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def __iter__(self):
        """(id, event, data) until the stream ends."""
        event = {}
        for line in self.answer:
            line = line.decode().removesuffix("\n")
            if line.startswith(":"):
                self.comments.append(line[1:].strip())
            elif line.startswith("retry: "):
                self.retry = int(line[7:])
            elif line:
                name, value = line.split(": ", 1)
                event[name] = value
            elif event:
                yield int(event["id"]), event["event"], json.loads(event["data"])
                event = {}

    def until(self, name):
        """The events up to the first of this name, or to the end of the stream."""
        events = []
        for event in self:
            events.append(event)
            if event[1] == name:
                break
        return events
