"""Holds answers to the OpenAPI contract: every status and type of a route is documented, every JSON body fits its
schema. Knows the keywords that the contract uses, and refuses a contract that uses others."""

import json
import os
import re

# What any request may be answered with, whatever its route: framing, routing, and failures of the service itself.
GENERAL = {400, 401, 403, 404, 405, 406, 408, 413, 414, 421, 431, 500, 501, 503}
KNOWN = {
    "type", "required", "properties", "items", "enum", "pattern", "$ref", "additionalProperties", "format", "minimum",
    "maxLength", "default", "description", "$schema", "$id", "$defs", "title", "oneOf", "anyOf", "example", "minItems", "maxItems",
    "minLength", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minProperties", "maxProperties", "propertyNames",
    "patternProperties",
}
# Headers that an answer has only where the contract says so.
TOLD = (
    "Accept-Ranges", "Content-Encoding", "Content-Range", "ETag", "Last-Modified", "Location", "Preference-Applied",
    "Repr-Digest",
)
# Headers that every answer with this status has.
NEEDED = {
    201: ["Location"], 202: ["Location"], 206: ["Content-Range", "ETag"], 304: ["ETag"], 401: ["WWW-Authenticate"],
    405: ["Allow"], 429: ["Retry-After"], 503: ["Retry-After"],
}
# What a plan says is not yet described to the last member; all other types are, and have no others.
OPEN = ["PlanDocument", "PlanOverview"]
PROBLEMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../api/problems.md")
with open(PROBLEMS, encoding="utf-8") as file:
    CODES = set(re.findall(r"^\| `([A-Z0-9_]+)` \|", file.read(), re.MULTILINE))
TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
    "null": type(None),
}


class Contract:
    ALL = set()  # (method, path, status) of every answer to any daemon of this process
    SEEN = os.environ.get("SHARDPLAN_TEST_SEEN")  # a file that gets them, too, from processes side by side

    def __init__(self, document):
        self.document = document
        self.paths = [
            (re.compile("^" + re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)) + "$"), path, item)
            for path, item in document.get("paths", {}).items()
        ]
        self.seen = set()
        self.types = document.get("components", {}).get("schemas", {})
        self.open = {id(self.types[name]) for name in self.within(OPEN)}

    def within(self, names):
        """The types of these names and all that they refer to."""
        found, waiting = set(), set(names) & set(self.types)
        while waiting:
            name = waiting.pop()
            found.add(name)
            text = json.dumps(self.types[name])
            waiting |= set(re.findall(r'"#/components/schemas/(\w+)"', text)) - found
        return found

    def resolve(self, node):
        while isinstance(node, dict) and "$ref" in node:
            target = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        return node

    @staticmethod
    def hold(value, schema, where):
        """Raises AssertionError when the value is not as a file of api/schema says, which stands in place of a contract."""
        Contract(schema).validate(value, schema, where)

    def routes(self):
        methods = ("get", "post", "put", "delete", "patch")
        return {(method.upper(), path) for _, path, item in self.paths for method in methods if method in item}

    @staticmethod
    def remember(method, path, status):
        if Contract.SEEN and (method, path, status) not in Contract.ALL:
            with open(Contract.SEEN, "a", encoding="ascii") as file:
                file.write(f"{method} {path} {status}\n")
        Contract.ALL.add((method, path, status))

    @staticmethod
    def everything():
        """What was seen in this process, and in those that shared the file."""
        seen = set(Contract.ALL)
        if Contract.SEEN:
            with open(Contract.SEEN, encoding="ascii") as file:
                for line in file:
                    method, path, status = line.split()
                    seen.add((method, path, int(status)))
        return seen

    def check(self, method, target, answer):
        """Raises AssertionError when the answer is not in the contract."""
        kind = answer.headers.get("Content-Type", "").split(";")[0]
        if answer.headers.get("X-Request-Id") is None:
            raise AssertionError(f"{method} {target}: no X-Request-Id")
        if answer.status >= 400 and method != "HEAD":
            if kind != "application/problem+json":
                raise AssertionError(f"{method} {target}: {answer.status} as {kind}")
            self.validate(answer.json, {"$ref": "#/components/schemas/Problem"}, "problem")
            if answer.json["code"] not in CODES:
                raise AssertionError(f"{method} {target}: {answer} has a code that api/problems.md does not list")
            if answer.json["status"] != answer.status:
                raise AssertionError(f"{method} {target}: {answer} says another status")
        self.check_headers(f"{method} {target}", answer)
        operation, path = self.find(method, target)
        if method == "OPTIONS" and path is not None and answer.status == 204:
            return  # every path serves it
        if operation is None:
            if answer.status not in GENERAL:
                raise AssertionError(f"{method} {target}: {answer.status} for a route that is not in the contract")
            return
        self.seen.add((method, path, answer.status))
        self.remember("GET" if method == "HEAD" else method, path, answer.status)
        response = self.resolve(operation["responses"].get(str(answer.status)))
        if response is None:
            if answer.status not in GENERAL:
                raise AssertionError(f"{method} {target}: {answer.status} is not in the contract: {answer}")
            return
        self.check_told(f"{method} {target}", response, answer)
        content = response.get("content")
        if not content or method == "HEAD":
            if not content and answer.body:
                raise AssertionError(f"{method} {target}: {answer.status} has a body that is not in the contract")
            return
        if kind not in content:
            raise AssertionError(f"{method} {target}: {answer.status} as {kind}, not one of {list(content)}")
        if kind == "application/json" and answer.status != 206:
            self.validate(answer.json, content[kind]["schema"], f"{method} {target}")

    @staticmethod
    def check_headers(where, answer):
        """What every answer has, and what goes together."""
        headers = answer.headers
        for name in ["X-Content-Type-Options", "Cache-Control", *NEEDED.get(answer.status, [])]:
            if headers.get(name) is None:
                raise AssertionError(f"{where}: {answer.status} without {name}")
        coding = headers.get("Content-Encoding")
        if coding is not None:
            if "Accept-Encoding" not in ",".join(headers.get_all("Vary") or []):
                raise AssertionError(f"{where}: compressed, without Vary: Accept-Encoding")
            if headers.get("Content-Range") is not None or headers.get("Accept-Ranges") is not None:
                raise AssertionError(f"{where}: compressed, with ranges")
            if headers.get("ETag") is not None and not headers["ETag"].endswith(f'-{coding}"'):
                raise AssertionError(f"{where}: compressed as {coding}, with the ETag {headers['ETag']}")
        if headers.get("ETag") is not None and not re.fullmatch('"[^"]+"', headers["ETag"]):
            raise AssertionError(f"{where}: the ETag {headers['ETag']} is not a strong one")

    def check_told(self, where, response, answer):
        """Headers are in the contract, and as it says."""
        known = response.get("headers", {})
        for name in TOLD:
            if answer.headers.get(name) is not None and name not in known and answer.status < 400:
                raise AssertionError(f"{where}: {answer.status} with {name}, which is not in the contract")
        for name, header in known.items():
            value = answer.headers.get(name)
            schema = self.resolve(header).get("schema", {})
            if value is not None:
                self.validate(int(value) if schema.get("type") == "integer" else value, schema, f"{where}: {name}")

    def documented(self):
        """Every (method, path, status) of the contract."""
        methods = ("get", "post", "put", "delete", "patch")
        return {(method.upper(), path, int(status)) for _, path, item in self.paths for method in methods
                if method in item for status in item[method]["responses"]}

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
        if "oneOf" in schema:
            self.validate_one(value, schema["oneOf"], where)
        if "anyOf" in schema and not any(self.fits(value, item, where) for item in schema["anyOf"]):
            raise AssertionError(f"{where}: {json.dumps(value)[:80]} fits none of the schemas")
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
                elif isinstance(schema.get("additionalProperties"), dict):
                    self.validate(item, schema["additionalProperties"], f"{where}/{name}")
                elif schema.get("additionalProperties") is False or (
                        self.types and "properties" in schema and "additionalProperties" not in schema and
                        id(schema) not in self.open):
                    raise AssertionError(f"{where}: {name} is not in the contract")
        if isinstance(value, list) and "items" in schema:
            for index, item in enumerate(value):
                self.validate(item, schema["items"], f"{where}/{index}")

    def fits(self, value, schema, where):
        try:
            self.validate(value, schema, where)
        except AssertionError:
            return False
        return True

    def validate_one(self, value, schemas, where):
        wrong = []
        for schema in schemas:
            try:
                self.validate(value, schema, where)
            except AssertionError as error:
                wrong.append(str(error))
        if len(wrong) != len(schemas) - 1:
            raise AssertionError(f"{where}: fits {len(schemas) - len(wrong)} of {len(schemas)} schemas: {wrong}")
