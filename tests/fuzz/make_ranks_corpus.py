#!/usr/bin/env python3
"""make_ranks_corpus.py: writes tests/fuzz/corpus/ranks: an original, models of ranks and a manifest in one file (fuzz_ranks.c),
with every collective that is read, right and wrong: cycles, sizes that nothing has room for, ranks that do not fit together.
"""
import json
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "../cli"), os.path.join(HERE, "../tools")]
os.environ.setdefault("SHARDPLAN", "shardplan")

import onnx_make as make  # noqa: E402
from test_verify import MS, bytes_of, ints  # noqa: E402

TRT = "trt"
weights = make.Weights("external")


def rank(rows, *nodes, out=None, more=()):
    return bytes_of(make.graph_input("x", [rows, 4]), *more, *nodes, make.graph_output("y", out or [rows, 4]))


def collective(kind, name="x", result="y", **attributes):
    return make.node(kind, [name], [result], domain=MS, **attributes)


def dist(operation, name="x", result="y", **attributes):
    return make.node("DistCollective", [name], [result], domain=TRT, collective_operation=operation, **attributes)


def distributed(op, inputs, specs, *more):
    texts = [make.delimited(5, make.delimited(1, name), *(make.delimited(9, value) for value in values), make.integer(20, 8))
             for name, values in specs.items()]
    return make.delimited(1, *(make.delimited(1, name) for name in inputs), make.delimited(2, "y"), make.delimited(3, "it"),
                          make.delimited(4, op), *texts, *more, make.delimited(7, MS))


def write(name, manifest, *models):
    text = json.dumps(manifest).encode() if manifest is not None else b""
    with open(os.path.join(HERE, "corpus/ranks", name), "wb") as file:
        for piece in (text, *models):
            file.write(struct.pack("<I", len(piece)) + piece)


def device(number, inputs, outputs, model=None, part=0, world=0, place=None):
    return {"id": number, "world": world, "rank": number if place is None else place, "parts": [
        {"part": part, "model": str(number if model is None else model), "inputs": inputs, "outputs": outputs}]}


def given(name="x", box=None):
    return {"name": name, "from": "input", "tensor": "x", "box": box}


def passed(device_, output, name="h", part=0):
    return {"name": name, "from": "device", "device": device_, "part": part, "output": output}


RESULT = {"name": "y", "to": "output", "tensor": "y", "box": None}


def weight(dims, location="w.bin", offset=None, length=None, box=None, dtype=make.FLOAT, data=None):
    """The tensor W, with data or a place in a file beside the model; the box that its metadata declare."""
    entries = {"location": location, "offset": offset, "length": length} if data is None else {}
    return make.delimited(5, *(make.integer(1, dim) for dim in dims), make.integer(2, dtype), make.delimited(8, "W"),
                          *([data] if data is not None else [make.integer(14, 1)]),
                          *(make.delimited(13, make.delimited(1, key), make.delimited(2, str(value)))
                            for key, value in entries.items() if value is not None),
                          *([make.delimited(16, make.delimited(1, "shardplan.box"), make.delimited(2, box))] if box else []))


def write_weights():
    """Weights beside the models (fuzz_ranks.c has the same seven bytes over and over there), of small models and large ones."""
    def product(rows, columns, **said):
        return bytes_of(make.graph_input("x", [rows, 14]), weight([14, columns], **said), make.node("MatMul", ["x", "W"], ["y"]),
                        make.graph_output("y", [rows, columns]))
    cases = {"beside": ({"offset": 8}, {"offset": 64}),
             "box": ({"offset": 8, "box": "0:14,0:7+21:28"}, {"box": "0:14,7:21"}),
             "box-outside": ({"box": "0:14,20:34"}, {"box": "0:14,-1:13"}),
             "offsets": ({"offset": 2**63 - 1, "length": 784}, {"offset": 8, "length": 3}),
             "inside": ({"data": make.delimited(9, bytes(i % 7 for i in range(784)))},
                        {"data": make.delimited(4, struct.pack("<196f", *[1.5] * 196))}),
             "short": ({"data": make.delimited(9, bytes(10))}, {"location": ""}),
             "types": ({"dtype": 11}, {"dtype": 22}),
             "empty": ({"columns": 0, "offset": 8}, {"columns": 0, "box": "0:14,3:3"})}
    for size, rows in (("small", 4), ("large", 1 << 20)):
        for name, ranks in cases.items():
            write(f"weights-{name}-{size}", None, product(rows, 28, offset=8),
                  *[product(rows, **{"columns": 14, **said}) for said in ranks])


def main():
    os.makedirs(os.path.join(HERE, "corpus/ranks"), exist_ok=True)
    double = rank(4, make.node("Add", ["x", "x"], ["y"]))
    whole = rank(4, make.node("Identity", ["x"], ["y"]))
    reduced = rank(4, collective("AllReduce"))
    write("all-reduce", None, double, reduced, reduced)
    write("nccl", None, double, *[rank(4, collective("NcclAllReduce"))] * 2)
    write("all-gather", None, whole, *[rank(2, collective("AllGather", group_size=2, axis=0), out=[4, 4])] * 2)
    write("all-to-all", None, whole, *[rank(2, collective("AllToAll", group_size=2))] * 2)
    write("reduce-scatter", None, double, *[rank(4, collective("ReduceScatter"), out=[2, 4])] * 2)
    for operation in "ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "BROADCAST", "ALL_TO_ALL", "REDUCE", "NOTHING":
        write("dist-" + operation.lower(), None, double,
              *[rank(4, dist(operation, reduce_op="SUM", nb_rank=2, root=0, groups=[0, 1], group_size=2))] * 2)
    write("dist-groups", None, double, *[rank(4, dist("ALL_REDUCE", reduce_op="SUM", nb_rank=2, group_size=2,
                                                      groups=[0, 1, 2, 3]))] * 4)
    write("dist-bad-groups", None, double, *[rank(4, dist("ALL_REDUCE", reduce_op="LEAST", group_size=-3, root=9,
                                                          groups=[7, -1, 7]))] * 2)
    write("no-partner", None, double, reduced, whole)
    write("another-kind", None, double, reduced, rank(4, collective("AllGather", axis=5)))
    write("another-order", None, double, rank(4, collective("AllReduce", result="h"), collective("AllGather", "h")),
          rank(4, collective("AllGather", result="h"), collective("AllReduce", "h")))
    write("other-shapes", None, double, reduced, rank(3, collective("AllReduce")))
    write("cycle", None, double, rank(4, make.node("Add", ["x", "b"], ["a"]), make.node("Add", ["a", "x"], ["b"]),
                                      make.node("Add", ["a", "b"], ["y"])))
    for name, groups in {"missing": dict(groups=[0, 1], group_size=2), "twice": dict(groups=[0, 1, 0], group_size=7),
                         "same": dict(groups=[0, 0], group_size=2), "apart": dict(groups=[0, 1, 2], group_size=1)}.items():
        write("groups-" + name, None, double, *[rank(4, dist("all_reduce", reduce_op="sum", nb_rank=2, **groups))] * 3)
    write("other-types", None, double, reduced, bytes_of(make.graph_input("x", [4, 4], make.INT64), collective("AllReduce"),
                                                         make.graph_output("y", [4, 4], make.INT64)))
    write("other-input", None, double, rank(1 << 62, make.node("Add", ["x", "x"], ["y"])))
    write("names-twice", None, double, rank(4, make.node("Relu", ["x"], ["y"]), make.node("Add", ["x", "x"], ["y"])),
          rank(4, make.node("Relu", ["x"], ["x"]), collective("AllReduce")))
    specs = {"input_shard_specs": ["RS[0]"], "input_device_mesh_shapes": ["[2]"], "input_device_mesh_elements": ["[0,1]"],
             "output_shard_specs": ["RS[0]"], "output_device_mesh_shapes": ["[2]"], "output_device_mesh_elements": ["[0,1]"]}
    for name, changed in {"": {}, "-gathered": {"output_shard_specs": ["RR"]}, "-moved": {"output_shard_specs": ["S[0]R"]},
                          "-repeated": {"input_device_mesh_elements": ["[0,1,0,1]"]}, "-nobody": {"input_device_mesh_elements": ["[0,9]"]},
                          "-axes": {"input_shard_specs": ["S[0]S[0]"]}, "-far": {"input_shard_specs": ["RRRRS[0]"]},
                          "-text": {"input_shard_specs": ["xyz"]}, "-open": {"input_device_mesh_elements": ["[0,"]},
                          "-none": {"output_device_mesh_elements": ["[]"]}, "-large": {"output_device_mesh_elements": ["[99999999999999999999]"]},
                          "-several": {"input_device_mesh_shapes": ["[2,1]"]}, "-short": {"input_shard_specs": []}}.items():
        made = distributed("DistributedReshape", ["x", "to"], {**specs, **changed})
        write("distributed" + name, None, whole, *[bytes_of(make.graph_input("x", [4, 2]), ints("to", 4, 4), made,
                                                            make.graph_output("y", [4, 2]))] * 2)
    write("distributed-unknown", None, whole, *[bytes_of(make.graph_input("x", [4, 2]), distributed("DistributedNothing", ["x"], specs),
                                                         make.graph_output("y", [4, 2]))] * 2)
    write("distributed-first", None, whole, *[bytes_of(
        make.graph_input("x", [4, 2]), distributed("DistributedIdentity", ["x"], specs, make.attribute("device_mesh_elements", [0, 1])),
        make.graph_output("y", [4, 2]))] * 2)
    huge = [weights.tensor("w", [1 << 40, 4])]
    write("huge-weight", None, double, rank(4, make.node("Gather", ["w", "i"], ["y"]), more=[*huge, ints("i", 1 << 39)]))
    write("huge-expand", None, double, rank(4, make.node("Expand", ["x", "to"], ["y"]), more=[ints("to", 1 << 30, 1 << 30, 4, 4)]))
    stage = rank(4, make.node("Add", ["x", "x"], ["h"]), make.node("Identity", ["h"], ["y"]))
    last = bytes_of(make.graph_input("h", [4, 4]), make.node("Identity", ["h"], ["y"]), make.graph_output("y", [4, 4]))
    first = {"name": "y", "to": "device"}
    write("sessions", {"devices": [device(0, [given()], [first]), device(1, [passed(0, "y")], [RESULT])]}, double, stage, last)
    write("sessions-cycle", {"devices": [device(0, [passed(1, "y")], [first]), device(1, [passed(0, "y")], [RESULT])]}, double,
          last, last)
    write("sessions-of-nobody", {"devices": [device(0, [passed(7, "z", part=3)], [RESULT])]}, double, last)
    write("sessions-again", {"devices": [device(0, [given()], [RESULT]), device(0, [given()], [RESULT])]}, double, stage)
    half = rank(2, make.node("Add", ["x", "x"], ["y"]))
    for name, boxes in {"boxes": ([[0, 2], [0, 4]], [[2, 4], [0, None]]), "box-outside": ([[0, 2], [0, 9]], [[3, 1], [0, 4]]),
                        "box-of-ranges": ([[[0, 1], [2, 3]], [0, 4]], [[[1, 2], [3, 4]], [0, 4]]),
                        "box-of-nothing": ([], [[], []]), "box-of-text": ("x", [["a", "b"], 3])}.items():
        write(name, {"devices": [device(i, [given(box=box)], [{**RESULT, "box": box}], model=0) for i, box in enumerate(boxes)]},
              double, half)
    write_weights()
    for name, manifest in {"no-devices": {}, "devices-of-text": {"devices": ["x"]}, "no-parts": {"devices": [{"id": 0}]},
                           "negative": {"devices": [device(-1, [], [], part=-1, world=-1, place=-1)]},
                           "large": {"devices": [device(1 << 40, [given()], [RESULT], model=0, part=1 << 31, world=1 << 31,
                                                        place=1 << 31)]},
                           "another-folder": {"devices": [device(0, [], [], model="../0")]}}.items():
        write("manifest-" + name, manifest, double, double)


if __name__ == "__main__":
    main()
