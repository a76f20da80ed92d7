"""What the tests of deploy/ share: where things are, and what the built daemon says about itself."""
import json
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(TOP, "deploy")
CHART = os.path.join(DEPLOY, "helm/shardplan")
sys.path[:0] = [os.path.join(TOP, "tests/api"), os.path.join(TOP, "tests/tools"), DEPLOY]
sys.dont_write_bytecode = True

PROGRAM = os.environ.get("SHARDPLAND", os.path.join(TOP, "build/server/shardpland"))
CLIENT = os.environ.get("SHARDPLAN", os.path.join(TOP, "build/api/cli/shardplan"))


def text_of(*names):
    with open(os.path.join(TOP, *names), encoding="utf-8") as file:
        return file.read()


def run(*command, **options):
    """The completed command; its output is text, standard error with it."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": 120, **options}
    return subprocess.run(command, check=False, **options)


def version():
    return re.search(r"version: '([^']+)'", text_of("meson.build"))[1]


def options():
    """The options of the daemon that may stand in the environment."""
    return set(re.findall(r"^(?:# )?([a-z-]+) = ", run(PROGRAM, "--print-config").stdout, re.M))


def variable(option):
    return "SHARDPLAND_" + option.upper().replace("-", "_")


def tool(*names):
    """The path of the first of these programs that is installed, or None."""
    return next((path for path in map(shutil.which, names) if path), None)


def make_token(*arguments):
    """(token, entry for the file) of `shardpland token`."""
    made = subprocess.run([PROGRAM, "token", *arguments], capture_output=True, text=True, check=True).stdout.splitlines()
    return made[0], json.loads(made[1])
