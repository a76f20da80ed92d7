#!/usr/bin/env python3
"""The shape of the source tree: which part may include which, files and folders, names, parameters, calls in a circle, and
what core must not call."""
import os
import re
import subprocess
import sys

from objects import calls

MAX_LINES = 800
MAX_FILES = 40  # .c and .h in one folder
MAX_PARAMETERS = 7
KNOWN = "tests/lint/structure_known.txt"
# A part may include itself and the parts named here.
MAY_INCLUDE = {
    "base": [],
    "graph": ["base"],
    "service": ["base"],  # arithmetic of a service, numbers only
    "onnx": ["base", "graph"],
    "ops": ["base", "graph", "onnx"],  # constants are decoded from the model when a rule asks for them
    "sharding": ["base", "graph", "onnx", "ops"],  # the walk over the wire format is in onnx
    "cost": ["base", "graph", "ops", "sharding"],
    "calibrate": ["base", "graph", "onnx", "ops", "json", "sharding", "cost"],
    "infer": ["base", "graph", "onnx", "ops", "sharding"],
    "check": ["base", "graph", "onnx", "ops", "sharding", "cost", "infer", "partition"],
    "import": ["base", "graph", "onnx", "ops", "check"],  # files of other tools; findings are those of annotations
    "json": ["base", "graph", "onnx", "ops"],  # other descriptions of a model, turned into ONNX's bytes
    "solvers": ["base"],  # choice and stages know numbers only
    "search": ["base", "graph", "ops", "sharding", "cost", "infer", "solvers"],
    "partition": ["base", "graph", "onnx", "ops", "sharding", "infer"],
    "realize": ["base", "graph", "onnx", "ops", "sharding", "infer", "partition"],
    # The files of plans are read as any other's are: nothing that made them is used.
    "verify": ["base", "graph", "onnx", "ops"],
    "plan": ["base", "graph", "onnx", "ops", "sharding", "cost", "infer", "check", "import", "json", "solvers", "search", "partition", "realize",
             "service", "verify"],
    "export": ["base", "graph", "onnx", "ops", "sharding", "cost", "infer", "check", "json", "solvers", "search", "partition", "realize",
               "service", "plan"],
    # What answers slices knows nothing but the file's tables; write.h makes them, of a plan.
    "index": ["base", "graph", "onnx", "ops", "sharding", "cost", "infer", "check", "json", "solvers", "search", "partition", "realize",
              "service", "plan"],
}
# Of a part's files these include nothing but the parts named here.
MAY_INCLUDE_ONLY = {f"core/index/{name}": ["base", "index"]
                    for name in ("index.h", "layout.h", "index.c", "modules.h", "modules.c", "graph.h", "graph_internal.h",
                                 "graph.c", "edges.c", "timeline.h", "timeline.c", "memory_curve.c", "rows.h", "rows.c")}
# The library has no clock, environment, files, sockets, threads, processes or output of its own (pthread_once builds
# constant tables).
NOT_IN_CORE = re.compile(
    r"^(f?open(at|64|dir)?|creat|read|write|fprintf|printf|puts|putchar|fputs|fwrite|fread|perror|exit|_exit|abort|"
    r"getenv|secure_getenv|setenv|time|clock|clock_gettime|gettimeofday|socket|connect|pthread_(?!once)\w+|fork|exec\w+|system|"
    r"posix_spawnp?|rand|srand|random|getrandom|syslog|mmap(64)?|signal|sigaction|__(f?printf|vfprintf|fread)_chk)$")

# What may ask the clock of the wall: lines of the log, the start of the process, rows of the store, ends of tokens, reports
# of crashes, ends of sessions at an object store and begins of its uploads, ids of events, which are never smaller than the one before,
# and how long ago files were read, which their times say.
WALL_CLOCK = {"server/util/times.c", "server/util/times.h", "server/observe/log.c", "server/observe/metrics.c",
              "server/store/sqlite.c", "server/store/sqlite_file.c", "server/store/sqlite_models.c", "server/store/sqlite_plans.c",
              "server/store/sqlite_queue.c", "server/store/sqlite_uploads.c", "server/http/identify.c", "server/auth/token_command.c",
              "server/jobs/crashes.c", "server/jobs/events.c", "server/store/s3/credentials.c", "server/store/objects/stage.c",
              "server/store/integrity/scrub.c"}


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


# Operands of sizeof that are types, and need parentheses; compound literals do, too.
SIZED_TYPE = r"(?:\(|(?:const|struct|union|enum|unsigned|signed|void|char|bool|short|int|long|float|double|size_t|type|\w+_t)\b)"


def check_sizes(problems):
    for path in sources("core", "server", "api"):
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if re.search(rf"\bsizeof\((?!{SIZED_TYPE})", line):
                    problems.append(f"{path}:{number}: sizeof has parentheses around a type only")


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


def known(kind):
    """What is wrong and known, by kind: sets of words. The lists only get shorter."""
    with open(KNOWN, encoding="utf-8") as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return {tuple(line[1:]) for line in lines if line[0] == kind}


def stale_line(problems, line):
    """A line of KNOWN that is not needed any more is a problem with --strict, and else only said."""
    text = f"{KNOWN}: nothing is wrong there any more, take the line out: {line}"
    problems.append(text) if "--strict" in sys.argv else print(text, file=sys.stderr)


def cycles(graph):
    """The strongly connected components of more than one node; `graph` is {node: nodes}, without recursion."""
    number, low, stack, on_stack, found = {}, {}, [], set(), []
    for root in graph:
        walk = [] if root in number else [(root, iter(graph[root]))]
        while walk:
            node, rest = walk[-1]
            if node not in number:
                number[node] = low[node] = len(number)
                stack.append(node)
                on_stack.add(node)
            after = next((n for n in rest if n not in number or n in on_stack), None)
            if after is not None and after not in number:
                walk.append((after, iter(graph[after])))
                continue
            if after is not None:
                low[node] = min(low[node], number[after])
                continue
            walk.pop()
            if walk:
                low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
            if low[node] == number[node]:
                component = stack[stack.index(node):]
                del stack[stack.index(node):]
                on_stack -= set(component)
                if len(component) > 1:
                    found.append(sorted(component))
    return found


def check_circles(problems):
    """No two files call each other, and within a folder no more of them do in a circle: a file whose children need its
    helpers gives these a file of their own."""
    allowed = known("circle")
    for library, root in (("build/core/libshardplan.a", "core"), ("build/server/libshardpland.a", "server")):
        if not os.path.exists(library):
            continue  # -Dserver=false
        uses = calls(library, root)
        pairs = {(a, b) for a in uses for b in uses[a] if a < b and a in uses.get(b, {})}
        for a, b in sorted(pairs - allowed):
            there, back = ", ".join(sorted(uses[a][b])[:3]), ", ".join(sorted(uses[b][a])[:3])
            problems.append(f"{a} and {b} call each other: {there}; {back}")
        allowed -= pairs
        within = {a: {b for b in uses[a] if os.path.dirname(a) == os.path.dirname(b) and a not in uses.get(b, {})} for a in uses}
        for component in cycles({a: {b for b in within[a] if b in within} for a in within}):
            if tuple(component) not in allowed:
                problems.append(f"these call each other in a circle: {' '.join(component)}")
            allowed.discard(tuple(component))
    for stale in sorted(allowed):
        stale_line(problems, f"circle {' '.join(stale)}")


def without_comments(text):
    text = re.sub(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", lambda m: '""' if m[0][0] == '"' else " ", text, flags=re.S)
    text = re.sub(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)\s*", "", text)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", "", text, flags=re.M)


def parameters(text):
    """(name, how many) of each function that a text defines or declares."""
    for match in re.finditer(r"^(?=[A-Za-z_])[^;{}()=]*?\b(\w+)\(", text, re.M):
        depth, commas, at = 1, 0, match.end()
        while at < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            commas += text[at] == "," and depth == 1
            at += 1
        yield match[1], commas + (text[at - 4:at] != "...)")


def check_code(problems):
    """Functions have few parameters; what headers of core name begins with sp_, and each struct is one thing."""
    many, tags, long_lists = known("parameters"), {}, set()
    for path in sources("core", "server", "api"):
        with open(path, encoding="utf-8") as file:
            text = without_comments(file.read())
        for name, count in parameters(text):
            if count > MAX_PARAMETERS and path.endswith(".c"):
                long_lists.add((path, name))
                if (path, name) not in many:
                    problems.append(f"{path}: {name}() has {count} parameters, more than {MAX_PARAMETERS}")
        if not path.startswith("core"):
            continue
        for tag in re.findall(r"^(?:struct|union|enum) (sp_\w+) \{", text, re.M):
            if tags.setdefault(tag, path) != path:
                problems.append(f"{path}: {tag} is defined in {tags[tag]}, too")
        if path.endswith(".h") and path != "core/base/banned.h":
            names = [name for name, _ in parameters(text)] + re.findall(r"^(?:struct|union|enum) (\w+) \{", text, re.M)
            for name in names:
                if not name.startswith(("sp_", "SP_", "__attribute__", "_Static_assert")):
                    problems.append(f"{path}: the public name {name} does not begin with sp_")
    for path, name in sorted(many - long_lists):
        stale_line(problems, f"parameters {path} {name}")


def check_folders(problems):
    allowed, counts = known("folder"), {}
    for path in sources("core", "server"):
        counts[os.path.dirname(path)] = counts.get(os.path.dirname(path), 0) + 1
    for folder, count in counts.items():
        if count > MAX_FILES and (folder,) not in allowed:
            problems.append(f"{folder}: {count} files, more than {MAX_FILES}")


def main():
    problems = []
    check_circles(problems)
    check_code(problems)
    check_folders(problems)
    check_arrows(problems)
    check_clocks(problems)
    check_files(problems)
    check_sizes(problems)
    check_calls(problems, "build/core/libshardplan.a")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
