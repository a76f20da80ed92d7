#!/usr/bin/env python3
"""compiled.py BUILD FOLDER...: our own sources below the folders that the build compiles, one per line."""
import json
import os
import sys

build, folders = sys.argv[1], sys.argv[2:]
with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
    commands = json.load(file)
names = {os.path.relpath(os.path.join(entry["directory"], entry["file"])) for entry in commands}
for name in sorted(names):
    if name.split(os.sep)[0] in folders and os.path.exists(name):
        print(name)
