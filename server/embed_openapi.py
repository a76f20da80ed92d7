"""Turns api/openapi.yaml into a C source with the same contract as JSON.

Reads the subset of YAML that the contract is written in: block mappings and sequences, plain and single-quoted
scalars, flow sequences of plain scalars, {}, and folded text (>-). Anything else is an error, not a guess.
"""

import json
import re
import sys

KEY = re.compile(r"(?:'((?:[^']|'')*)'|([^\s'\"#&*!|>%@`{\[][^#]*?)):(?:\s+(.*))?$")


class Source:
    def __init__(self, text):
        self.lines = []
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                self.lines.append((number, len(line) - len(line.lstrip()), line.strip()))
        self.at = 0

    def peek(self):
        return self.lines[self.at] if self.at < len(self.lines) else (0, -1, "")


def fail(number, message):
    raise SystemExit(f"openapi.yaml:{number}: {message}")


def scalar(text, number):
    if text.startswith("'"):
        if len(text) < 2 or not text.endswith("'"):
            fail(number, "unterminated string")
        return text[1:-1].replace("''", "'")
    if text == "{}":
        return {}
    if text.startswith("["):
        if not text.endswith("]"):
            fail(number, "unterminated sequence")
        return [scalar(item.strip(), number) for item in text[1:-1].split(",") if item.strip()]
    if text[0] in "\"&*!|%@`{>":
        fail(number, f"unsupported YAML: {text}")
    if text in ("true", "false"):
        return text == "true"
    if text == "null":
        return None
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"-?\d+\.\d+(?:e[-+]?\d+)?", text):
        return float(text)
    return text


def folded(source, indent):
    words = []
    while source.peek()[1] > indent:
        words.append(source.peek()[2])
        source.at += 1
    return " ".join(words)


def value(source, rest, indent, number):
    """The value after a key or a dash: on the same line, folded, or the block below."""
    if rest == ">-":
        return folded(source, indent)
    if rest:
        return scalar(rest, number)
    below = source.peek()[1]
    if below > indent or (below == indent and source.peek()[2].startswith("- ")):
        return block(source, below)
    return None


def sequence(source, indent):
    result = []
    while source.peek()[1] == indent and source.peek()[2].startswith("- "):
        number, _, text = source.peek()
        rest = text[2:].strip()
        if KEY.match(rest):
            # "- key: value" opens a mapping whose keys stand below the first one.
            source.lines[source.at] = (number, indent + 2, rest)
            result.append(mapping(source, indent + 2))
        else:
            source.at += 1
            result.append(scalar(rest, number))
    return result


def mapping(source, indent):
    result = {}
    while source.peek()[1] == indent and not source.peek()[2].startswith("- "):
        number, _, text = source.peek()
        match = KEY.match(text)
        if not match:
            fail(number, f"expected 'key: value', found: {text}")
        key = match.group(1).replace("''", "'") if match.group(1) is not None else match.group(2)
        if key in result:
            fail(number, f"repeated key: {key}")
        source.at += 1
        result[key] = value(source, match.group(3), indent, number)
    return result


def block(source, indent):
    return sequence(source, indent) if source.peek()[2].startswith("- ") else mapping(source, indent)


def load(path):
    with open(path, encoding="utf-8") as file:
        source = Source(file.read())
    document = block(source, 0)
    if source.at != len(source.lines):
        fail(source.peek()[0], "unexpected indentation")
    return document


def main():
    text = json.dumps(load(sys.argv[1]), separators=(",", ":"), ensure_ascii=True)
    with open(sys.argv[2], "w", encoding="ascii") as out:
        out.write('#include "routes/openapi.h"\n\nconst char openapi_json[] =\n')
        for start in range(0, len(text), 100):
            piece = text[start : start + 100].replace("\\", "\\\\").replace('"', '\\"')
            out.write(f'    "{piece}"\n')
        out.write("    ;\n")


if __name__ == "__main__":
    main()
