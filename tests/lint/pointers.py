#!/usr/bin/env python3
"""Pointers are compared with NULL, in words: `p == NULL`, not `!p`. Reads the compile commands of build/; --fix rewrites."""
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = "build"
CHUNK = 25
OURS = 'isExpansionInFileMatching("/(core|server|api)/")'
POINTER = "expr(hasType(pointerType())).bind(\"{}\")"
CONDITION = "hasCondition(" + POINTER.format("plain") + ")"
QUERIES = "\n".join([
    "set output diag", "set bind-root false",
    f'm unaryOperator({OURS}, hasOperatorName("!"), hasUnaryOperand({POINTER.format("negated")}))',
    f'm binaryOperator({OURS}, hasAnyOperatorName("&&", "||"), hasLHS({POINTER.format("plain")}))',
    f'm binaryOperator({OURS}, hasAnyOperatorName("&&", "||"), hasRHS({POINTER.format("plain")}))',
    f"m stmt({OURS}, anyOf(ifStmt({CONDITION}), whileStmt({CONDITION}), forStmt({CONDITION}), doStmt({CONDITION}), "
    f"conditionalOperator({CONDITION})))",
    f'm implicitCastExpr({OURS}, hasCastKind("CK_PointerToBoolean"), hasSourceExpression(expr().bind("plain")))', ""])
FOUND = re.compile(r'^(\S+?):(\d+):(\d+): note: "(negated|plain)" binds here\n.*\n *(\^~*)', re.M)
# Operators that bind as closely as a comparison, or are read so.
TIGHT_BEFORE = re.compile(r"([=!]=|[-+*/%<>^!)]|(?<!\|)\||(?<!&)&)$")
TIGHT_BEHIND = re.compile(r"([=!]=|[-+*/%<>^]|\|(?!\|)|&(?!&))")


def query(tool, queries, files):
    result = subprocess.run([tool, "-p", BUILD, "-f", queries, *files], capture_output=True, text=True, check=False)
    if " error: " in result.stderr:
        sys.exit(result.stderr)
    found = set()
    # What comes from the inside of a macro is not ours to write.
    matches = [m for m in re.split(r"^Match #\d+:$", result.stdout, flags=re.M) if "expanded from macro" not in m]
    for path, line, column, kind, mark in FOUND.findall("\n".join(matches)):
        path = os.path.relpath(os.path.join(BUILD, path) if not os.path.isabs(path) else path)
        if path.split(os.sep)[0] in ("core", "server", "api"):
            found.add((path, int(line), int(column) - 1, len(mark), kind))
    return found


def rewrite(path, found):
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for _, number, start, length, kind in sorted(found, reverse=True):
        line = lines[number - 1]
        before, operand, behind = line[:start], line[start:start + length], line[start + length:]
        if operand.count("(") != operand.count(")") or (kind == "negated" and not before.endswith("!")):
            print(f"{path}:{number}: not rewritten: {line.strip()}")
            continue
        before = before[:-1] if kind == "negated" else before
        if re.search(r" [?=] ", operand) and not operand.startswith("("):
            operand = f"({operand})"
        text = operand + (" == NULL" if kind == "negated" else " != NULL")
        if TIGHT_BEFORE.search(before.rstrip()) or TIGHT_BEHIND.match(behind.lstrip()):
            text = f"({text})"
        lines[number - 1] = before + text + behind
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def main():
    tool = shutil.which("clang-query-14") or shutil.which("clang-query")
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
        files = sorted({os.path.relpath(os.path.join(c["directory"], c["file"])) for c in json.load(file)})
    files = [path for path in files if path.split(os.sep)[0] in ("core", "server", "api")]
    with tempfile.NamedTemporaryFile("w", suffix=".query") as queries:
        queries.write(QUERIES)
        queries.flush()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            parts = [files[i:i + CHUNK] for i in range(0, len(files), CHUNK)]
            found = set().union(*pool.map(lambda part: query(tool, queries.name, part), parts))
    if "--fix" in sys.argv:
        for path in sorted({f[0] for f in found}):
            rewrite(path, [f for f in found if f[0] == path])
        return 0
    for path, line, _, _, kind in sorted(found):
        print(f"{path}:{line}: a pointer is {'negated' if kind == 'negated' else 'a condition'}; compare it with NULL")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
