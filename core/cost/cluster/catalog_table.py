"""Turns the device catalog into a C source.

catalog_table.py KINDS MIG DEVICE... OUTPUT. The members of a device are those of api/schema/device.schema.json; an
unknown one is an error. MIG is the table of slices, KINDS that of the defaults by kind; both say what they mean in
`about`.
"""

import json
import os
import sys
from fractions import Fraction

KINDS = ["gpu", "tpu", "npu", "cpu"]
PARTS = ["products", "attention", "other", "collectives"]
CLASSES = (
    "products narrow_products prefill decode other norm collectives eager_collectives memory"
).split()
OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
GROUP_SIZES = ["2", "4", "8"]
DTYPES = {
    "float32": "FLOAT",
    "float64": "DOUBLE",
    **{
        name: name.upper()
        for name in "uint8 int8 uint16 int16 int32 int64 bool float16 uint32 uint64 bfloat16 float8e4m3fn "
        "float8e4m3fnuz float8e5m2 float8e5m2fnuz uint4 int4 float4e2m1 float8e8m0 uint2 int2 float6e2m3 "
        "float6e3m2".split()
    },
}
NUMBERS = (
    "memory_bytes memory_reported_bytes memory_bandwidth flops_tf32 link_bandwidth link_latency host_bandwidth watts "
    "permuted_bandwidth functions_per_second unhidden"
).split()
COUNTS = "units link_group".split()
TEXTS = "title note source".split()
OBJECTS = (
    "name kind flops products convolutions narrowing attention other norm collectives residuals price_per_hour "
    "measured sources"
).split()
HOST_LATENCY = "SP_HOST_LATENCY"
NAME_SIZE = 64


def number(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is no number")
    return repr(float(value))


def text(value):
    """A C literal; what is not ASCII is written in octal."""
    literal = ""
    for byte in value.encode():
        char = chr(byte)
        literal += "\\" + char if char in '"\\' else char if 32 <= byte < 127 else f"\\{byte:03o}"
    return f'"{literal}"'


def only(members, known, what):
    for name in members:
        if name not in known:
            raise ValueError(f"{what} has the unknown member '{name}'")


def fields(members, known, what):
    """{.name = number, ..} of an object with these members and no others."""
    only(members, known, what)
    return "{" + ", ".join(f".{name} = {number(members[name])}" for name in known if name in members) + "}"


def by_dtype(members, value):
    return "{" + ", ".join(f"[SP_DTYPE_{DTYPES[name]}] = {value(item)}" for name, item in members.items()) + "}"


def residual(members):
    return fields(members, ["low", "high"], "a residual")


def collective(members):
    known = ["start_seconds", "rank_seconds", "half_bytes"]
    only(members, [*known, "link_share"], "a collective")
    shares = members["link_share"]
    only(shares, GROUP_SIZES, "link_share")
    plain = fields({name: members[name] for name in known if name in members}, known, "a collective")
    items = ", ".join(number(shares.get(size, 0)) for size in GROUP_SIZES)
    return plain[:-1] + f", .link_share = {{{items}}}}}"


class Catalog:
    def __init__(self):
        self.arrays = []

    def array(self, kind, items):
        """A table of its own; its name and its length."""
        name = f"{kind.removeprefix('sp_device_')}_{len(self.arrays)}"
        rows = "".join(f"    {item},\n" for item in items)
        self.arrays.append(f"static const struct {kind} {name}[] = {{\n{rows}}};\n")
        return name

    def kernels(self, members):
        """The initialisers of the parts that say what kernels reach."""
        if "products" in members:
            product = ["start_seconds", "flops_share", "memory_share"]
            yield ".products = " + by_dtype(members["products"], lambda item: fields(item, product, "a product"))
        convolutions = members.get("convolutions", {})
        only(convolutions, ["dense", "grouped"], "convolutions")
        for name, item in convolutions.items():
            yield f".{name} = " + fields(item, ["start_ratio", "flops_ratio", "memory_ratio"], f"{name} convolutions")
        if "narrowing" in members:
            known = ["start_seconds", "memory_share", "row_seconds"]
            passes = [
                f"{{.runtime = {text(runtime)}, " + fields(item, known, "narrowing")[1:]
                for runtime, item in members["narrowing"].items()
            ]
            name = self.array("sp_device_narrowing", passes)
            yield f".narrowings = {name}, .narrowing_count = {len(passes)}"
        if "residuals" in members:
            only(members["residuals"], CLASSES, "residuals")
            spans = (
                f"[SP_DEVICE_CLASS_{name.upper()}] = {residual(item)}"
                for name, item in members["residuals"].items()
            )
            yield f".residuals = {{{', '.join(spans)}}}"
        attention = members.get("attention", {})
        only(attention, ["prefill", "decode"], "attention")
        if "prefill" in attention:
            known = ["start_seconds", "flops_share", "memory_share", "half_queries"]
            yield ".prefill = " + fields(attention["prefill"], known, "prefill")
        if "decode" in attention:
            known = ["start_seconds", "memory_share", "tile_keys"]
            yield ".decode = " + fields(attention["decode"], known, "decode")
        for name in ("other", "norm"):
            if name in members:
                yield f".{name} = " + fields(members[name], ["start_seconds", "memory_share"], name)
        if members.get("collectives"):
            libraries = []
            for name, operations in members["collectives"].items():
                only(operations, [*OPERATIONS, "residual"], name)
                known = [key for key in OPERATIONS if key in operations]
                items = ", ".join(f"[SP_DEVICE_{key.upper()}] = {collective(operations[key])}" for key in known)
                span = residual(operations.get("residual", {}))
                libraries.append(f"{{{text(name)}, {{{items}}}, {span}}}")
            name = self.array("sp_device_library", libraries)
            yield f".libraries = {name}, .library_count = {len(libraries)}"

    def facts(self, members):
        yield f".name = {text(members['name'])}"
        if "kind" in members:
            yield f".kind = SP_DEVICE_{members['kind'].upper()}"
        yield from (f".{name} = {text(members[name])}" for name in TEXTS if name in members)
        yield from (f".{name} = {number(members[name])}" for name in NUMBERS if name in members)
        yield from (f".{name} = {int(members[name])}" for name in COUNTS if name in members)
        if "link_latency" not in members:
            yield f".link_latency = {HOST_LATENCY}"
        yield ".flops = " + by_dtype(members["flops"], number)
        price = members.get("price_per_hour")
        if price:
            only(price, ["usd", "provider", "date"], "price_per_hour")
            words = "".join(f", .{name} = {text(price[name])}" for name in ("provider", "date") if name in price)
            yield f".price = {{.usd = {number(price['usd'])}{words}}}"
        measured = members.get("measured", {})
        only(measured, PARTS, "measured")
        flags = ", ".join(f"[SP_DEVICE_{part.upper()}] = true" for part in PARTS if measured.get(part))
        if flags:
            yield f".measured = {{{flags}}}"
        if members.get("sources"):
            items = [f"{{{text(path)}, {text(words)}}}" for path, words in members["sources"].items()]
            name = self.array("sp_device_source", items)
            yield f".sources = {name}, .source_count = {len(items)}"

    def device(self, members):
        only(members, NUMBERS + COUNTS + TEXTS + OBJECTS, "a device")
        if len(members["name"].encode()) >= NAME_SIZE:
            raise ValueError(f"the name {members['name']} is too long")
        items = [*self.facts(members), *self.kernels(members)]
        return "{\n        " + ",\n        ".join(items) + ",\n    }"


def sliced(device, profile, source):
    """One slice of a device, by the rule that the table of slices states."""
    memory = Fraction(profile["memory_share"])
    units = profile.get("units")
    share = Fraction(units, device["units"]) if units and "units" in device else Fraction(profile["units_share"])
    keep = (
        "kind products convolutions narrowing attention other norm residuals permuted_bandwidth "
        "functions_per_second unhidden"
    ).split()
    members = {name: device[name] for name in keep if name in device}
    members["name"] = f"{device['name']}/{profile['name']}"
    members["memory_bytes"] = float(device["memory_bytes"] * memory)
    members["memory_bandwidth"] = float(device["memory_bandwidth"] * memory)
    members["flops"] = {name: float(value * share) for name, value in device["flops"].items()}
    if "flops_tf32" in device:
        members["flops_tf32"] = float(device["flops_tf32"] * share)
    if "host_bandwidth" in device:
        members["host_bandwidth"] = device["host_bandwidth"] / profile["instances"]
    if "memory_reported_bytes" in profile:
        members["memory_reported_bytes"] = profile["memory_reported_bytes"]
    if units:
        members["units"] = units
    members["title"] = f"{device['title']}, MIG slice {profile['name']}"
    members["source"] = f"the figures of {device['name']} by {source}; kernels: its shares, not measured on a slice"
    return members


def table(name, items):
    rows = "".join(f"    {item},\n" for item in items)
    return f"const struct sp_device {name}[] = {{\n{rows}}};\n"


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    kinds, mig = (read(path) for path in sys.argv[1:3])
    catalog, devices, rows = Catalog(), {}, []
    for path in sys.argv[3:-1]:
        members = read(path)
        try:
            if members["name"] != os.path.splitext(os.path.basename(path))[0] or members["name"] in devices:
                raise ValueError("a device has the name of its file, and one file")
            devices[members["name"]] = members
            rows.append(catalog.device(members))
        except (KeyError, ValueError) as error:
            raise SystemExit(f"{path}: {error}") from error
    slices = [
        catalog.device(sliced(devices[name], profile, mig["source"]))
        for name in devices
        for group in mig["groups"]
        if name in group["devices"]
        for profile in group["profiles"]
    ]
    defaults = [
        f"[SP_DEVICE_{kind.upper()}] = {{{', '.join(catalog.kernels(members))}}}"
        for kind, members in kinds["kinds"].items()
    ]
    defaults.append(f"[SP_DEVICE_OF_NO_KIND] = {{{', '.join(catalog.kernels(kinds['without_kind']))}}}")
    only(kinds["kinds"], KINDS, sys.argv[1])
    with open(sys.argv[-1], "w", encoding="ascii") as out:
        out.write('#include "cost/cluster/catalog_table.h"\n\n')
        out.write("\n".join(catalog.arrays) + "\n")
        out.write(table("sp_catalog_devices", rows))
        out.write(f"const uint32_t sp_catalog_device_count = {len(rows)};\n\n")
        out.write(table("sp_catalog_slices", slices))
        out.write(f"const uint32_t sp_catalog_slice_count = {len(slices)};\n\n")
        out.write(table("sp_catalog_kinds", defaults).replace("[] =", "[SP_DEVICE_KIND_COUNT] ="))


if __name__ == "__main__":
    main()
