#!/usr/bin/env python3
"""Nothing that no product reaches: every public function and table of core, server and api that neither the command nor
the daemon keeps, by the linker (build/ links with --gc-sections). reach_exceptions.txt names those that may stay, each
with a reason; a line that is no longer needed is an error, too."""
import glob
import sys

from objects import archive, nm

PRODUCTS = ["build/api/cli/shardplan", "build/server/shardpland"]
EXCEPTIONS = "tests/lint/reach_exceptions.txt"


def exceptions():
    """{symbol: reason}"""
    with open(EXCEPTIONS, encoding="utf-8") as file:
        lines = [line.split(None, 1) for line in file if line.strip() and not line.startswith("#")]
    return {line[0]: line[1].strip() if len(line) > 1 else "" for line in lines}


def public():
    """{symbol: where it is}"""
    found = {}
    for library, root in (("build/core/libshardplan.a", "core"), ("build/server/libshardpland.a", "server")):
        found.update(archive(library, root)[0])
    for item in glob.glob("build/api/*/*.p/*.o"):
        found.update({symbol: item for _, kind, symbol in nm(item, "-g", "--defined-only")})
    return found


def main():
    kept = {symbol for product in PRODUCTS for _, _, symbol in nm(product, "--defined-only")}
    if not {"sp_job_plan"} & kept:
        print("The products have no symbols: is the build stripped?")
        return 1
    allowed, unreached, problems = exceptions(), {}, []
    for symbol, where in sorted(public().items()):
        if symbol not in kept:
            unreached[symbol] = where
    for symbol, where in unreached.items():
        if symbol not in allowed:
            problems.append(f"{where}: no product reaches {symbol}; make it static, move it beside its tests, or remove it")
    for symbol, reason in allowed.items():
        if not reason:
            problems.append(f"{EXCEPTIONS}: {symbol} has no reason")
        if symbol not in unreached:
            problems.append(f"{EXCEPTIONS}: {symbol} is reached, or there is no such function: take the line out")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
