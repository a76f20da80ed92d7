#!/usr/bin/env python3
"""schemas.py [--write]: holds api/schema/*.schema.json to the types of api/types, which they are made of; or writes them.

TAP; status 1 where they differ, where a reference leads nowhere, or where a type is not used."""

import glob
import json
import os
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "server"))
sys.dont_write_bytecode = True

import embed_openapi  # noqa: E402

FOLDER = os.path.join(TOP, "api/schema")


def references(node):
    """Names of the types that a part of the contract refers to."""
    if isinstance(node, list):
        for item in node:
            yield from references(item)
    elif isinstance(node, dict):
        if str(node.get("$ref", "")).startswith(embed_openapi.PREFIX):
            yield node["$ref"].removeprefix(embed_openapi.PREFIX)
        for item in node.values():
            yield from references(item)


def inner(node):
    """Schemas directly in a schema."""
    for key in ("properties", "patternProperties"):
        yield from node.get(key, {}).items()
    for key in ("items", "additionalProperties", "propertyNames"):
        if isinstance(node.get(key), dict):
            yield key, node[key]
    for key in ("oneOf", "anyOf", "allOf"):
        yield from ((f"{key}/{index}", item) for index, item in enumerate(node.get(key, [])))


def opaque(schema, where):
    """Places of a schema that say nothing of what is there: objects without members, and no type at all."""
    waiting = [(where, schema)]
    while waiting:
        where, node = waiting.pop()
        kinds = node.get("type", [])
        if "object" in kinds and not {"properties", "patternProperties", "additionalProperties"} & set(node):
            yield f"{where}: an object that says nothing of its members"
        if not {"type", "$ref", "oneOf", "anyOf", "allOf"} & set(node):
            yield f"{where}: no type"
        waiting += [(f"{where}/{key}", item) for key, item in inner(node)]


def bodies(node, where):
    """Schemas of bodies and parameters in the paths."""
    for key, item in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key == "schema":
            yield where, item
        elif key not in ("example", "examples"):
            yield from bodies(item, f"{where}/{key}")


def report(name, problems):
    print(f"{'not ok' if problems else 'ok'} openapi/{name}")
    for problem in problems:
        print(f"  {problem}")
    return bool(problems)


def main():
    document = embed_openapi.contract(os.path.join(TOP, "api/openapi.yaml"),
                                      sorted(glob.glob(os.path.join(TOP, "api/types/*.yaml"))))
    types, used = document["components"]["schemas"], set(references(document)) | set(embed_openapi.SCHEMAS.values())
    failed = report("references", [f"{name}: no such type" for name in sorted(used - set(types))] +
                    [f"{name}: nothing refers to it" for name in sorted(set(types) - used)])
    failed |= report("opaque", sorted(problem for where, schema in [*types.items(), *bodies(document["paths"], "paths")]
                                      for problem in opaque(schema, where)))
    differ = []
    for name in embed_openapi.SCHEMAS:
        path = os.path.join(FOLDER, f"{name}.schema.json")
        text = json.dumps(embed_openapi.schema_of(document, name), indent=2, ensure_ascii=False) + "\n"
        if "--write" in sys.argv[1:]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with open(path, encoding="utf-8") as file:
            if file.read() != text:
                differ.append(f"api/schema/{name}.schema.json differs from api/types: tests/openapi/schemas.py --write")
    files = {os.path.basename(path) for path in glob.glob(os.path.join(FOLDER, "*"))}
    differ += sorted(files - {f"{name}.schema.json" for name in embed_openapi.SCHEMAS})
    sys.exit(report("schemas", differ) or failed)


if __name__ == "__main__":
    main()
