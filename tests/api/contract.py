"""Holds answers to the OpenAPI contract: every status and type of a route is documented, every JSON body fits its
schema. Knows the keywords that the contract uses, and refuses a contract that uses others."""

import json
import re

# What any request may be answered with, whatever its route: framing, routing, and failures of the service itself.
GENERAL = {400, 404, 405, 406, 408, 413, 414, 500, 501, 503}
KNOWN = {
    "type", "required", "properties", "items", "enum", "pattern", "$ref", "additionalProperties", "format", "minimum",
    "maxLength", "default", "description", "$schema", "$id", "title",
}
TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
    "null": type(None),
}


class Contract:
    def __init__(self, document):
        self.document = document
        self.paths = [
            (re.compile("^" + re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)) + "$"), path, item)
            for path, item in document["paths"].items()
        ]
        self.seen = set()

    def resolve(self, node):
        while isinstance(node, dict) and "$ref" in node:
            target = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        return node

    def routes(self):
        methods = ("get", "post", "put", "delete", "patch")
        return {(method.upper(), path) for _, path, item in self.paths for method in methods if method in item}

    def check(self, method, target, answer):
        """Raises AssertionError when the answer is not in the contract."""
        kind = answer.headers.get("Content-Type", "").split(";")[0]
        if answer.headers.get("X-Request-Id") is None:
            raise AssertionError(f"{method} {target}: no X-Request-Id")
        if answer.status >= 400 and method != "HEAD":
            if kind != "application/problem+json":
                raise AssertionError(f"{method} {target}: {answer.status} as {kind}")
            self.validate(answer.json, {"$ref": "#/components/schemas/Problem"}, "problem")
            if answer.json["status"] != answer.status:
                raise AssertionError(f"{method} {target}: {answer} says another status")
        operation, path = self.find(method, target)
        if operation is None:
            if answer.status not in GENERAL:
                raise AssertionError(f"{method} {target}: {answer.status} for a route that is not in the contract")
            return
        self.seen.add((method, path, answer.status))
        response = self.resolve(operation["responses"].get(str(answer.status)))
        if response is None:
            if answer.status not in GENERAL:
                raise AssertionError(f"{method} {target}: {answer.status} is not in the contract: {answer}")
            return
        content = response.get("content")
        if not content or method == "HEAD":
            return
        if kind not in content:
            raise AssertionError(f"{method} {target}: {answer.status} as {kind}, not one of {list(content)}")
        if kind == "application/json":
            self.validate(answer.json, content[kind]["schema"], f"{method} {target}")

    def find(self, method, target):
        wanted = "get" if method == "HEAD" else method.lower()
        path = target.split("?")[0]
        for pattern, name, item in self.paths:
            if pattern.match(path):
                return item.get(wanted), name
        return None, None

    def validate(self, value, schema, where):
        schema = self.resolve(schema)
        unknown = set(schema) - KNOWN
        if unknown:
            raise AssertionError(f"{where}: the contract uses {unknown}, which this checker does not know")
        if "type" in schema:
            kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            if not any(isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
                       for kind in kinds):
                raise AssertionError(f"{where}: {json.dumps(value)[:80]} is no {schema['type']}")
        if "enum" in schema and value not in schema["enum"]:
            raise AssertionError(f"{where}: {value!r} is not one of {schema['enum']}")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            raise AssertionError(f"{where}: {value!r} does not match {schema['pattern']}")
        if isinstance(value, dict):
            for name in schema.get("required", []):
                if name not in value:
                    raise AssertionError(f"{where}: {name} is missing in {list(value)}")
            for name, item in value.items():
                if name in schema.get("properties", {}):
                    self.validate(item, schema["properties"][name], f"{where}/{name}")
                elif schema.get("additionalProperties") is False:
                    raise AssertionError(f"{where}: {name} is not in the contract")
        if isinstance(value, list) and "items" in schema:
            for index, item in enumerate(value):
                self.validate(item, schema["items"], f"{where}/{index}")
