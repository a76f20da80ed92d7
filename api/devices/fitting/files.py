"""Reads and writes the files of devices: numbers stay as they are written, short objects stay on a line."""

import json

WIDTH = 116


class Number(str):
    """A number as the file has it, "3350e9"."""


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file, parse_float=Number, parse_int=Number)


def text_of(value, indent=0, used=0):
    """JSON with an object to a line where it fits behind the USED columns of its name, else a member to a line."""
    if isinstance(value, Number):
        return str(value)
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    line = "{" + ", ".join(f"{json.dumps(name)}: {text_of(item)}" for name, item in value.items()) + "}"
    if indent > 0 and not any(isinstance(item, dict) for item in value.values()) and indent + used + len(line) <= WIDTH:
        return line
    margin = " " * (indent + 2)
    members = (f"{margin}{json.dumps(name)}: {text_of(item, indent + 2, len(name) + 5)}"
               for name, item in value.items())
    return "{\n" + ",\n".join(members) + "\n" + " " * indent + "}"


def write(path, document):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text_of(document) + "\n")
