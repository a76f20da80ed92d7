"""Turns the tables of operator signatures into a C source.

signature_table.py TABLE... OUTPUT. The notation stands at the head of each table; anything else is an error, not a guess.
"""

import re
import sys

LINE = re.compile(r"(\w+)-(\d+) \((.*?)\) -> \((.*?)\) \{(.*?)\}((?: \w+=\S+)*)( deprecated)?$")
OPERAND = re.compile(r"(\w+)(\?|\*{1,2}\d*)?(?::(.+))?$")
ATTRIBUTE = re.compile(r"(\w+):(\w+)(!)?$")
DTYPES = {
    "float": "FLOAT",
    "double": "DOUBLE",
    **{
        name: name.upper()
        for name in "uint8 int8 uint16 int16 int32 int64 string bool float16 uint32 uint64 complex64 complex128 bfloat16 "
        "float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz uint4 int4 float4e2m1 float8e8m0 uint2 int2 "
        "float6e2m3 float6e3m2".split()
    },
}
KINDS = {"seq": "SEQUENCE", "optional": "OPTIONAL", "map": "MAP"}
ATTRIBUTE_TYPES = (
    "float int string tensor graph floats ints strings tensors graphs sparse_tensor sparse_tensors type_proto type_protos"
).split()
MANY = "UINT32_MAX"


class Table:
    def __init__(self):
        self.operands, self.attributes, self.signatures, self.domains = [], [], [], []

    def read(self, path):
        groups = {}
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                line = line.rstrip("\n")
                if not line or line.startswith("#"):
                    continue
                try:
                    if line.startswith("types "):
                        name, members = line[len("types ") :].split(" = ")
                        groups[name] = types(members.split(), groups)
                    elif line.startswith("domain "):
                        name = line[len("domain ") :]
                        self.domains.append("" if name == "ai.onnx" else name)
                    else:
                        self.signature(line, groups)
                except ValueError as error:
                    raise SystemExit(f"{path}:{number}: {error}") from error

    def signature(self, line, groups):
        match = LINE.match(line)
        if not match:
            raise ValueError(f"not a signature: {line}")
        name, since, inputs, outputs, attributes, bounds, deprecated = match.groups()
        bound = {}
        for item in bounds.split():
            parameter, text = item.split("=")
            bound[parameter] = types(text.split("|"), groups)
        sides = [self.side(text, bound) for text in (inputs, outputs)]
        first = len(self.attributes)
        for item in filter(None, attributes.split(", ")):
            self.attributes.append(attribute(item))
        count = len(self.attributes) - first
        self.signatures.append((self.domains[-1], name, int(since), bool(deprecated), sides, first, count))

    def side(self, text, bound):
        first, low, high = len(self.operands), 0, 0
        for item in filter(None, text.split(", ")):
            match = OPERAND.match(item)
            if not match or high == MANY:
                raise ValueError(f"not an operand here: {item}")
            name, mark, kind = match.group(1), match.group(2) or "", match.group(3)
            if mark.startswith("*"):
                low, high = high + int(mark.strip("*") or 1), MANY
            else:
                high += 1
                low = low if mark == "?" else high
            self.operands.append(operand(name, mark, kind, bound))
        return first, len(self.operands) - first, low, high


def types(names, groups):
    """Two masks: of tensor types, and of kinds that are no tensors."""
    dtypes, kinds = [], []
    for name in names:
        if name in groups:
            dtypes += groups[name][0]
            kinds += groups[name][1]
        elif name in DTYPES:
            dtypes.append(name)
        elif name in KINDS:
            kinds.append(name)
        else:
            raise ValueError(f"unknown type: {name}")
    return dtypes, kinds


def mask(names, prefix, table):
    return " | ".join(sorted({f"1u << {prefix}{table[name]}" for name in names})) or "0"


def operand(name, mark, kind, bound):
    fixed = re.fullmatch(r"tensor\((\w+)\)", kind or "")
    if kind is None:
        dtypes, kinds = [], []
    elif fixed:
        dtypes, kinds = types([fixed.group(1)], {})
    elif kind in bound:
        dtypes, kinds = bound[kind]
    else:
        raise ValueError(f"type {kind} of {name} has no bound")
    fields = [
        f'"{name}"',
        "true" if mark == "?" else "false",
        "true" if mark.startswith("*") else "false",
        "true" if mark.startswith("*") and not mark.startswith("**") else "false",
        "true" if kind is not None and not fixed else "false",
        "NULL" if kind is None else f'"{kind}"',
        mask(dtypes, "SP_DTYPE_", DTYPES),
        mask(kinds, "SP_TYPE_", KINDS),
    ]
    return "{" + ", ".join(fields) + "}"


def attribute(text):
    match = ATTRIBUTE.match(text)
    if not match or match.group(2) not in ATTRIBUTE_TYPES:
        raise ValueError(f"not an attribute: {text}")
    required = "true" if match.group(3) else "false"
    return f'{{"{match.group(1)}", SP_ATTR_{match.group(2).upper()}, {required}}}'


def array(items, kind, name):
    yield f"static const struct {kind} {name}[] = {{\n"
    for item in items:
        yield f"    {item},\n"
    yield "};\n\n"


def signature_text(entry):
    domain, name, since, deprecated, sides, first, count = entry
    (in_first, in_count, in_low, in_high), (out_first, out_count, out_low, out_high) = sides
    return (
        f'{{"{domain}", "{name}", {since}, {"true" if deprecated else "false"}, {in_count}, {out_count}, {count}, '
        f"{in_low}, {in_high}, {out_low}, {out_high}, operands + {in_first}, operands + {out_first}, attributes + {first}}}"
    )


def main():
    table = Table()
    for path in sys.argv[1:-1]:
        table.read(path)
    table.signatures.sort(key=lambda entry: entry[:3])
    keys = [entry[:3] for entry in table.signatures]
    if len(set(keys)) != len(keys):
        raise SystemExit("a signature is there twice")
    with open(sys.argv[-1], "w", encoding="ascii") as out:
        out.write('#include "ops/table/signature_table.h"\n\n')
        out.writelines(array(table.operands, "sp_signature_operand", "operands"))
        out.writelines(array(table.attributes, "sp_signature_attribute", "attributes"))
        out.write("const struct sp_signature sp_signature_table[] = {\n")
        out.writelines(f"    {signature_text(entry)},\n" for entry in table.signatures)
        out.write("};\n\n")
        out.write(f"const uint32_t sp_signature_table_count = {len(table.signatures)};\n\n")
        names = ", ".join(f'"{name}"' for name in sorted(table.domains))
        out.write(f"const char *const sp_signature_domains[] = {{{names}, NULL}};\n")


if __name__ == "__main__":
    main()
