"""Turns api/openapi.yaml and the types of api/types into a C source: the contract as JSON, and the schemas of api/schema.

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
    raise SystemExit(f"line {number}: {message}")


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
    try:
        document = block(source, 0)
    except SystemExit as error:
        raise SystemExit(f"{path}: {error}") from error
    if source.at != len(source.lines):
        fail(source.peek()[0], "unexpected indentation")
    return document


# The types that stand alone, too, as schemas that anybody can hold a file to: api/schema/NAME.schema.json.
SCHEMAS = {
    "cluster": "Cluster", "constraints": "Constraints", "cost-graph": "CostGraph", "device": "Device", "manifest": "Manifest",
    "operators": "OperatorsFile", "plan": "PlanDocument", "profile": "Profile", "workload": "Workload",
}
PREFIX = "#/components/schemas/"


def contract(path, types):
    """The contract with its types, which files by family describe."""
    document, known = load(path), {}
    for family in types:
        for name, schema in load(family).items():
            if name in known:
                raise SystemExit(f"{family}: {name} is described twice")
            known[name] = schema
    document["components"]["schemas"] = dict(sorted(known.items()))
    return document


def refer(node, found):
    """The same with references among $defs; their names are added to `found`."""
    if isinstance(node, list):
        return [refer(item, found) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: refer(item, found) for key, item in node.items()}
    if isinstance(node.get("$ref"), str):
        name = node["$ref"].removeprefix(PREFIX)
        found.add(name)
        made["$ref"] = "#/$defs/" + name
    return made


def schema_of(document, name):
    """One type as a document of JSON Schema that needs no other."""
    types, root = document["components"]["schemas"], SCHEMAS[name]
    made, waiting = {}, {root}
    while waiting:
        at = waiting.pop()
        found = set()
        made[at] = refer(types[at], found)
        waiting |= found - set(made)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"/v1/schemas/{name}.schema.json",
            **made.pop(root), "$defs": dict(sorted(made.items()))}


def write_text(out, name, document):
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True)
    out.write(f"{name} =\n")
    for start in range(0, len(text), 100):
        piece = text[start : start + 100].replace("\\", "\\\\").replace('"', '\\"')
        out.write(f'    "{piece}"\n')
    out.write("    ;\n")


def main():
    document = contract(sys.argv[1], sys.argv[3:])
    with open(sys.argv[2], "w", encoding="ascii") as out:
        out.write('#include "routes/openapi.h"\n\n#include <stddef.h>\n\n')
        write_text(out, "const char openapi_json[]", document)
        for name in SCHEMAS:
            write_text(out, f"static const char {name.replace('-', '_')}_json[]", schema_of(document, name))
        out.write("\nconst struct openapi_schema openapi_schemas[] = {\n")
        for name in SCHEMAS:
            out.write(f'    {{"{name}.schema.json", {name.replace("-", "_")}_json}},\n')
        out.write("    {NULL, NULL},\n};\n")


if __name__ == "__main__":
    main()
