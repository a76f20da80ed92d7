#!/usr/bin/env python3
"""The shape of the source tree: which part may include which, file length, headers, and what core must not call."""
import os
import re
import subprocess
import sys

MAX_LINES = 800
# A part may include itself and the parts named here.
MAY_INCLUDE = {
    "base": [],
    "graph": ["base"],
    "onnx": ["base", "graph"],
    "ops": ["base", "graph", "onnx"],  # constants are decoded from the model when a rule asks for them
    "sharding": ["base", "graph", "onnx", "ops"],  # the walk over the wire format is in onnx
    "cost": ["base", "graph", "ops", "sharding"],
    "infer": ["base", "graph", "onnx", "ops", "sharding"],
    "check": ["base", "graph", "onnx", "ops", "sharding", "cost", "infer"],
    "json": ["base", "graph", "onnx", "ops"],  # other descriptions of a model, turned into ONNX's bytes
    "solvers": ["base"],  # choice and stages know numbers only
    "search": ["base", "graph", "ops", "sharding", "cost", "infer", "solvers"],
    "partition": ["base", "graph", "onnx", "ops", "sharding", "infer"],
    "realize": ["base", "graph", "onnx", "ops", "sharding", "infer", "partition"],
    "plan": ["base", "graph", "onnx", "ops", "sharding", "cost", "infer", "check", "json", "solvers", "search", "partition", "realize"],
    "export": ["base", "graph", "onnx", "ops", "sharding", "cost", "infer", "check", "json", "solvers", "search", "partition", "realize",
               "plan"],
    # What answers slices knows nothing but the file's tables; write.h makes them, of a plan.
    "index": ["base", "graph", "onnx", "ops", "sharding", "cost", "infer", "check", "json", "solvers", "search", "partition", "realize",
              "plan"],
}
# Of a part's files these include nothing but the parts named here.
MAY_INCLUDE_ONLY = {f"core/index/{name}": ["base", "index"]
                    for name in ("index.h", "layout.h", "index.c", "modules.h", "modules.c", "graph.h", "graph_internal.h",
                                 "graph.c", "edges.c", "timeline.h", "timeline.c", "memory.c", "rows.h", "rows.c")}
# The library has no clock, environment, files, sockets, threads, processes or output of its own (pthread_once builds
# constant tables).
NOT_IN_CORE = re.compile(
    r"^(f?open(at|64|dir)?|creat|read|write|fprintf|printf|puts|putchar|fputs|fwrite|fread|perror|exit|_exit|abort|"
    r"getenv|secure_getenv|setenv|time|clock|clock_gettime|gettimeofday|socket|connect|pthread_(?!once)\w+|fork|exec\w+|system|"
    r"posix_spawnp?|rand|srand|random|getrandom|syslog|mmap(64)?|signal|sigaction|__(f?printf|vfprintf|fread)_chk)$")

# What may ask the clock of the wall: lines of the log, the start of the process, rows of the store, ends of tokens, reports
# of crashes, and ids of events, which are never smaller than the one before.
WALL_CLOCK = {"server/util/times.c", "server/util/times.h", "server/observe/log.c", "server/observe/metrics.c",
              "server/store/sqlite.c", "server/store/sqlite_models.c", "server/store/sqlite_plans.c",
              "server/store/sqlite_queue.c", "server/http/identify.c", "server/auth/token_command.c",
              "server/jobs/crashes.c", "server/jobs/events.c"}


def sources(*folders):
    for folder in folders:
        for path, _, names in os.walk(folder):
            for name in sorted(names):
                if name.endswith((".c", ".h")) and "node_modules" not in path:
                    yield os.path.join(path, name)


def includes(path):
    with open(path, encoding="utf-8") as file:
        return re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', file.read(), re.M)


def check_arrows(problems):
    for path in sources("core"):
        part = path.split(os.sep)[1]
        if part not in MAY_INCLUDE:
            problems.append(f"{path}: core/{part} has no place in the order of parts (tests/lint/structure.py)")
            continue
        for name in includes(path):
            target = name.split("/")[0]
            if "/" in name and target in MAY_INCLUDE and target != part and target not in MAY_INCLUDE[part]:
                problems.append(f"{path}: core/{part} must not include {name}")
            if "/" in name and target in MAY_INCLUDE and target not in MAY_INCLUDE_ONLY.get(path, MAY_INCLUDE):
                problems.append(f"{path}: it must not include {name}")
            if re.match(r"(uv|microhttpd|sqlite3|gnutls/.*|sys/socket|threads)\.h$|server/", name):
                problems.append(f"{path}: core must not include {name}")


def check_clocks(problems):
    """The clock of the wall may jump: nothing in the daemon waits by it. It is only shown, stored, or compared with times
    that people have written."""
    for path in sources("server"):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if re.search(r"CLOCK_REALTIME|\btimes_now\(|\bgettimeofday\(|\btime\(", re.sub(r"/\*.*?\*/", "", text, flags=re.S)) and path not in WALL_CLOCK:
            problems.append(f"{path}: the clock of the wall; server_now_ms() never jumps")


def check_files(problems):
    for path in sources("core", "server", "api", "tests"):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        lines = text.count("\n")
        if lines > MAX_LINES:
            problems.append(f"{path}: {lines} lines, more than {MAX_LINES}")
        if path.endswith(".h") and not text.startswith("#pragma once\n"):
            problems.append(f"{path}: a header starts with #pragma once")


def check_calls(problems, library):
    listing = subprocess.run(["nm", "-A", "--undefined-only", library], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        member, symbol = line.split(":")[1], line.split()[-1]
        if NOT_IN_CORE.match(symbol):
            problems.append(f"core calls {symbol}() in {member}")


def main():
    problems = []
    check_arrows(problems)
    check_clocks(problems)
    check_files(problems)
    check_calls(problems, "build/core/libshardplan.a")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
