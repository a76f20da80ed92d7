#!/usr/bin/env python3
"""problems.py [--write]: holds api/problems.md, the list of codes that a problem can have, to the sources; or writes it.

A code is a string in capitals where an error is made. Which status it becomes follows from the call: the number in the
daemon, the kind (SP_ERR_..) in the library, which server/util/problem.c turns into a number. What it means is what the
error says there.
"""

import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(TOP, "api/problems.md")
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'|/\*.*?\*/|//[^\n]*|[A-Za-z_]\w*|\d[\w.]*|\s+|.', re.DOTALL)
CODE = re.compile(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)"')

# Functions that make an error, and its kind where the call does not say it. A number is that of the answer itself.
MAKERS = {
    "sp_fail": None, "sp_fail_limit": "SP_ERR_LIMIT", "sp_op_fail": "SP_ERR_MODEL", "sp_members_refuse": "SP_ERR_REQUEST",
    "sp_tree_fail": "SP_ERR_MALFORMED", "refuse": "SP_ERR_REQUEST", "sp_hlo_fail_at": "SP_ERR_MALFORMED",
    "sp_hlo_fail_field": "SP_ERR_MALFORMED", "sp_reader_fail": "SP_ERR_MODEL", "tensor_fail": "SP_ERR_MODEL",
    "sp_lower_fail": None, "problem_set": None, "problem_set_limit": None, "respond_error": None, "turn_away": 503,
    "derived_open": 500, "not_ready": 503,
}
# What is only ever told to whoever starts the daemon.
AT_START = ("server/config/", "server/auth/", "server/main", "server/life/", "server/net/sockets",
            "server/net/tls")
# Codes that stand in tables or variables: where, their kind or number, and what they mean.
IN_TABLES = {
    "BAD_RANGE": ("core/realize/recipe.c", "SP_ERR_MODEL", None),
    "CONSTRAINT_NOT_KEPT": ("core/search/joint/violations.c", "SP_ERR_REQUEST", "The plan does not keep this constraint."),
    "SHADOWED_NAME": ("core/onnx/read_values.c", "SP_ERR_MODEL",
                      "A node of a subgraph defines a name that an enclosing graph has defined."),
    "SHARDY_SYNTAX": ("core/sharding/shardy/lexer.c", "SP_ERR_MALFORMED", "The text is not what Shardy writes."),
    "STAGES_PROBLEM_WRONG": ("core/solvers/stages/check.c", "SP_ERR_REQUEST", "The problem of stages makes no sense."),
    "PART_OF_THE_DEVICES": ("core/export/ort_plan.c", "SP_ERR_UNSUPPORTED", "The format needs every node on all devices."),
    "RESULT_DAMAGED": ("server/routes/ask.c", 500, "What was made for this request cannot be read."),
}
KINDS = {"SP_ERR_MALFORMED": "malformed", "SP_ERR_LIMIT": "limit", "SP_ERR_MODEL": "model",
         "SP_ERR_UNSUPPORTED": "unsupported", "SP_ERR_REQUEST": "request", "SP_ERR_NOFIT": "nofit",
         "SP_ERR_MEMORY": "memory", "SP_ERR_IO": "io", "SP_ERR_CANCELLED": "cancelled", "SP_ERR_INTERNAL": "internal"}

HEAD = """# Problems

What a request can be refused with. An error is `application/problem+json` (RFC 9457) with these members: `code`, one of those
below, stable, for programs; `detail`, a sentence for people that says what to do; `status`; `errors`, which say where (`pointer`
into the JSON of the request, or `where`); `request_id`, which finds the line in the daemon's log; `kind`, `limit`, `limit_value`
and `actual` where they apply. The command `shardplan` prints the same codes, and ends with a status that follows from the kind.

| kind | what is at fault | HTTP | exit status |
|---|---|---|---|
{kinds}
`NO_SUCH_DEVICE`, `NO_DEVICE`, `NO_SUCH_PART`, `NO_SUCH_MODULE`, `NO_SUCH_STAGE` and `NO_SUCH_LANE` are 404 where a path or a
query names what is not there, and `BAD_SPAN` is 400. A number below in place of a kind is
the status of the answer. `..` stands for what is said of the case. What `check` finds in a model is no problem of the request:
those codes are in [diagnostics.md](diagnostics.md).

This page is made from the sources: `python3 tests/openapi/problems.py --write`.
"""


def sources():
    for part in ("server", "core"):
        for folder, _, files in sorted(os.walk(os.path.join(TOP, part))):
            for name in sorted(files):
                if name.endswith((".c", ".h")):
                    yield os.path.join(folder, name)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def calls(text):
    """Every call as (function, [argument tokens, ..]), the inner ones first."""
    tokens = [t for t in TOKEN.findall(text) if not t.isspace() and not t.startswith(("/*", "//"))]
    stack = []
    for index, token in enumerate(tokens):
        if token in ("(", "[", "{"):
            stack.append((token, tokens[index - 1] if index else "", [[]]))
            continue
        if token in (")", "]", "}") and stack:
            opened, name, arguments = stack.pop()
            if opened == "(":
                yield name, arguments
                continue
        if stack:
            if token == "," and stack[-1][0] == "(":
                stack[-1][2].append([])
            else:
                stack[-1][2][-1].append(token)


def sentence(arguments, index):
    """The text that follows the code, with what is filled in as '..'."""
    for argument in arguments[index + 1:]:
        text = "".join(token[1:-1] if token.startswith('"') else "u" if token.startswith("PRI") else "" for token in argument)
        if " " in text:
            text = re.sub(r"%[-+ #0]*[\d.*]*(?:hh|h|ll|l|z)?[a-zA-Z]|%[-+ #0]*[\d.*]*$", "..", text.replace("%%", "\1"))
            return re.sub(r"%(?= )", "..", text).replace("\1", "%").replace('\\"', '"').replace("\\\\", "\\")
    return None


def statuses():
    """The number that server/util/problem.c gives each kind."""
    body = read(os.path.join(TOP, "server/util/problem.c")).split("int problem_http_status(")[1].split("\n}\n")[0]
    found, waiting = {}, []
    for kind, number in re.findall(r"(?:case (?=SP_))?(SP_\w+|default):|return (\d+);", body):
        if kind:
            waiting.append(kind)
        else:
            found.update(dict.fromkeys(waiting, int(number)))
            waiting = []
    return found


def exits():
    """The exit status that api/cli/report.c gives each kind."""
    body = read(os.path.join(TOP, "api/cli/report.c")).split("exit_code_of(")[1].split("\n}\n")[0]
    names = {"EXIT_DONE": 0, "EXIT_MODEL": 1, "EXIT_USAGE": 2, "EXIT_NOFIT": 3, "EXIT_FAILED": 4}
    found, waiting = {}, []
    for kind, name in re.findall(r"case (SP_\w+):|return (EXIT_\w+);", body):
        if kind:
            waiting.append(kind)
        else:
            found.update(dict.fromkeys(waiting, names[name]))
            waiting = []
    return found


def collect():
    """{section: {code: ({number or kind}, [sentences])}}"""
    sections = {"daemon": {}, "start": {}, "library": {}}

    def add(section, code, what, text):
        whats, texts = sections[section].setdefault(code, (set(), []))
        if what is not None:
            whats.add(what)
        if text is not None and text not in texts:
            texts.append(text)

    for path in sources():
        name = os.path.relpath(path, TOP)
        section = "library" if name.startswith("core/") else "start" if name.startswith(AT_START) else "daemon"
        for function, arguments in calls(read(path)):
            if function not in MAKERS:
                continue
            index = next((i for i, argument in enumerate(arguments)
                          if len(argument) == 1 and CODE.fullmatch(argument[0])), None)
            if index is None or name == "core/check/diagnostic.c":  # that one only makes texts printable
                continue
            what = MAKERS[function]
            for argument in arguments[:index]:
                what = next((KINDS[token] for token in argument if token in KINDS), what)
                if len(argument) == 1 and re.fullmatch(r"[45]\d\d", argument[0]):
                    what = int(argument[0])
            add(section, CODE.fullmatch(arguments[index][0])[1], KINDS.get(what, what), sentence(arguments, index))
    for code, (path, what, text) in IN_TABLES.items():
        if f'"{code}"' not in read(os.path.join(TOP, path)):
            raise SystemExit(f"problems.py: {path} has no {code} any more")
        add("library" if path.startswith("core/") else "daemon", code, KINDS.get(what, what), text)
    return sections


def table(codes):
    lines = ["| code | | says |", "|---|---|---|"]
    for code in sorted(codes):
        whats, texts = codes[code]
        says = "; or: ".join(text.replace("|", "\\|").replace("<", "&lt;") for text in sorted(texts)[:2])
        whats = ", ".join(str(what) for what in sorted(whats, key=str))
        lines.append(f"| `{code}` | {whats} | {says} |")
    return "\n".join(lines) + "\n"


def page():
    sections, http, ends = collect(), statuses(), exits()
    faults = {"malformed": "the bytes are no model, or no JSON", "limit": "it is larger than what is accepted",
              "model": "the model contradicts itself", "unsupported": "it is sound, but more than this version can do",
              "request": "what is asked for cannot be", "nofit": "no plan fits the devices",
              "memory": "this machine, which has no memory left", "io": "this machine's disk or network",
              "cancelled": "nothing: somebody ended it, or a time limit", "internal": "the program"}
    kinds = "".join(f"| `{kind}` | {faults[kind]} | {http.get(name, http['default'])} | {ends[name]} |\n"
                    for name, kind in KINDS.items())
    return (HEAD.format(kinds=kinds) + "\n## Of the daemon\n\n" + table(sections["daemon"]) +
            "\n## Of models and requests\n\nFrom the library, so the same offline.\n\n" + table(sections["library"]) +
            "\n## When the daemon starts\n\nTold on standard error, never over HTTP.\n\n" + table(sections["start"]))


def main():
    wanted, found = page(), read(PAGE) if os.path.exists(PAGE) else ""
    if sys.argv[1:] == ["--write"]:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(wanted)
        return 0
    if wanted == found:
        print(f"ok openapi/problems # {wanted.count(chr(10) + '| `')} lines")
    else:
        print("not ok openapi/problems")
        old, new = set(found.splitlines()), set(wanted.splitlines())
        print("  api/problems.md is not what the sources say; python3 tests/openapi/problems.py --write")
        for line in [f"  - {line}" for line in sorted(old - new)][:10] + [f"  + {line}" for line in sorted(new - old)][:10]:
            print(line[:160])
    unsaid = [code for codes in collect().values() for code, (whats, _) in codes.items() if not whats]
    print("ok openapi/problems-statuses" if not unsaid else f"not ok openapi/problems-statuses\n  {' '.join(unsaid)}")
    return int(wanted != found or bool(unsaid))


if __name__ == "__main__":
    sys.exit(main())
