#!/usr/bin/env python3
"""Makes ONNX files of any size with nothing but the standard library.

    onnx_make.py chain NODES OUT              a chain of Relu and Add, NODES nodes, no weights
    onnx_make.py diamonds NODES OUT           the same with two branches that meet again, NODES nodes
    onnx_make.py mlp LAYERS WIDTH OUT         MatMul + Add + Relu per layer
    onnx_make.py transformer LAYERS OUT       a vision transformer (ViT) encoder; --hidden, --heads, --tokens
    onnx_make.py big BYTES OUT                an mlp of about so many bytes (suffix M or G)

Weights (--weights): zero (holes: the file is sparse and takes no disk), pattern (every tensor differs) or external
(the weights lie in another file that need not exist). As a module: build nodes and graphs with node(), value(),
tensor(), model(), and write(path, model) or encode(model).

A piece of a file is bytes, a Fill (bytes that are made when they are written) or a list of pieces. Nothing large is
ever in memory. Field numbers are those of onnx.proto.
"""

import argparse
import hashlib

FLOAT, INT64 = 1, 7
BLOCK = 1 << 20


class Fill:
    """`size` bytes made on the fly: zeros for seed None, else a pattern of that seed."""

    def __init__(self, size, seed=None):
        self.size = size
        self.seed = seed

    def write(self, out):
        if self.seed is None:
            out.seek(self.size, 1)
            return
        digest = hashlib.sha256(str(self.seed).encode()).digest()
        block = digest * (BLOCK // len(digest))
        left = self.size
        while left > 0:
            out.write(block[: min(left, BLOCK)])
            left -= min(left, BLOCK)


def size_of(piece):
    if isinstance(piece, (bytes, bytearray)):
        return len(piece)
    return piece.size if isinstance(piece, Fill) else sum(size_of(part) for part in piece)


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(field, value):
    return varint(field << 3) + varint(value)


def delimited(field, *pieces):
    """A message, string or bytes field. Text is encoded; small contents are joined."""
    body = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    try:
        joined = b"".join(body)
    except TypeError:  # of pieces that are made when they are written
        return [varint(field << 3 | 2) + varint(size_of(body)), *body]
    size = len(joined)
    # Models of 400,000 nodes have millions of fields of one byte for the number and one for the size.
    return (bytes((field << 3 | 2, size)) if field < 16 and size < 128 else varint(field << 3 | 2) + varint(size)) + joined


# ---- the parts of a model ----


def attribute(name, value):
    """An int, a list of ints, a float or a string."""
    if isinstance(value, int):
        return delimited(5, delimited(1, name), integer(3, value), integer(20, 2))
    if isinstance(value, str):
        return delimited(5, delimited(1, name), delimited(4, value), integer(20, 3))
    if isinstance(value, float):
        import struct

        return delimited(5, delimited(1, name), varint(2 << 3 | 5) + struct.pack("<f", value), integer(20, 1))
    return delimited(5, delimited(1, name), *(integer(8, item) for item in value), integer(20, 7))


def sharding(tensor, devices, *axes, groups=()):
    """A ShardingSpecProto of a node's configuration; `axes` are (axis, shards), `groups` (key, devices)."""
    return delimited(
        2,
        delimited(1, tensor),
        delimited(2, b"".join(varint(device) for device in devices)),
        *(
            delimited(3, integer(1, key), delimited(2, b"".join(varint(member) for member in members)))
            for key, members in groups
        ),
        *(delimited(4, integer(1, axis), delimited(2, integer(3, shards))) for axis, shards in axes),
    )


def placement(configuration, *shardings, stage=None):
    """What a node says about a configuration: for node()'s `placements`."""
    last = b"" if stage is None else integer(3, stage)
    return delimited(10, delimited(1, configuration), *shardings, last)


def configuration(name, devices):
    """For model()'s `configurations`; such a model needs ir_version 11."""
    return delimited(26, delimited(1, name), integer(2, devices))


def node(op, inputs, outputs, name="", domain="", placements=(), **attributes):
    return delimited(
        1,
        *(delimited(1, item) for item in inputs),
        *(delimited(2, item) for item in outputs),
        delimited(3, name or outputs[0]),
        delimited(4, op),
        *(attribute(key, value) for key, value in attributes.items()),
        delimited(7, domain) if domain else b"",
        *placements,
    )


def _value(field, name, dims, dtype):
    shape = b"".join(
        delimited(1, integer(1, dim) if isinstance(dim, int) else delimited(2, dim)) for dim in dims
    )
    return delimited(field, delimited(1, name), delimited(2, delimited(1, integer(1, dtype), delimited(2, shape))))


def graph_input(name, dims, dtype=FLOAT):
    return _value(11, name, dims, dtype)


def graph_output(name, dims, dtype=FLOAT):
    return _value(12, name, dims, dtype)


def element_count(dims):
    count = 1
    for dim in dims:
        count *= dim
    return count


def ints(name, values):
    """An initializer of int64 values."""
    raw = b"".join((value & (1 << 64) - 1).to_bytes(8, "little") for value in values)
    return delimited(5, integer(1, len(values)), integer(2, INT64), delimited(8, name), delimited(9, raw))


class Weights:
    """Makes float initializers, all of one kind."""

    def __init__(self, kind="zero", location="weights.bin"):
        self.kind = kind
        self.location = location
        self.offset = 0
        self.count = 0

    def tensor(self, name, dims):
        size = element_count(dims) * 4
        head = [*(integer(1, dim) for dim in dims), integer(2, FLOAT), delimited(8, name)]
        self.count += 1
        if self.kind == "external":
            entries = {"location": self.location, "offset": str(self.offset), "length": str(size)}
            self.offset += size
            head += [delimited(13, delimited(1, key), delimited(2, text)) for key, text in entries.items()]
            return delimited(5, *head, integer(14, 1))
        seed = f"{name} {self.count}" if self.kind == "pattern" else None
        return delimited(5, *head, delimited(9, Fill(size, seed)))


def model(*graph, name="made", opset=17, ir_version=8, configurations=()):
    return [
        integer(1, ir_version),
        delimited(2, "onnx_make"),
        delimited(8, delimited(1, ""), integer(2, opset)),
        delimited(7, *graph, delimited(2, name)),
        *configurations,
    ]


def _flatten(piece):
    if isinstance(piece, (list, tuple)):
        for part in piece:
            yield from _flatten(part)
    else:
        yield piece


def write(path, piece):
    """Writes the file; returns its size."""
    with open(path, "wb") as out:
        for part in _flatten(piece):
            if isinstance(part, Fill):
                part.write(out)
            else:
                out.write(part)
        out.truncate(size_of(piece))
    return size_of(piece)


def encode(piece):
    """The file as bytes: for small models."""
    import io

    out = io.BytesIO()
    for part in _flatten(piece):
        if isinstance(part, Fill) and part.seed is None:
            out.write(bytes(part.size))
        elif isinstance(part, Fill):
            part.write(out)
        else:
            out.write(part)
    return out.getvalue()


# ---- whole models ----


def chain(nodes, dims=(8, 64), name="chain"):
    """Relu and Add by turns; the Adds take the value two steps back, so cuts carry two values now and then."""
    graph = [graph_input("x", dims)]
    previous, before = "x", "x"
    for index in range(nodes):
        output = "y" if index == nodes - 1 else f"v{index}"
        if index % 4 == 3:
            graph.append(node("Add", [previous, before], [output], f"add{index}"))
        else:
            graph.append(node("Relu", [previous], [output], f"relu{index}"))
        before, previous = previous, output
    graph.append(graph_output("y", dims))
    return model(*graph, name=name)


def diamonds(nodes, dims=(8, 64), name="diamonds"):
    """Blocks of Relu -> (Sigmoid, Tanh) -> Add; the number of nodes is rounded up to whole blocks."""
    graph = [graph_input("x", dims)]
    previous = "x"
    blocks = (nodes + 3) // 4
    for index in range(blocks):
        output = "y" if index == blocks - 1 else f"o{index}"
        graph.append(node("Relu", [previous], [f"a{index}"], f"relu{index}"))
        graph.append(node("Sigmoid", [f"a{index}"], [f"b{index}"], f"sigmoid{index}"))
        graph.append(node("Tanh", [f"a{index}"], [f"c{index}"], f"tanh{index}"))
        graph.append(node("Add", [f"b{index}", f"c{index}"], [output], f"add{index}"))
        previous = output
    graph.append(graph_output("y", dims))
    return model(*graph, name=name)


def mlp(layers, width, batch=8, weights="zero", name="mlp"):
    """MatMul [width, width], Add [width] and Relu per layer."""
    maker = Weights(weights)
    graph = [graph_input("x", [batch, width])]
    previous = "x"
    for index in range(layers):
        output = "y" if index == layers - 1 else f"h{index}"
        graph.append(maker.tensor(f"w{index}", [width, width]))
        graph.append(maker.tensor(f"b{index}", [width]))
        graph.append(node("MatMul", [previous, f"w{index}"], [f"m{index}"], f"matmul{index}"))
        graph.append(node("Add", [f"m{index}", f"b{index}"], [f"s{index}"], f"bias{index}"))
        graph.append(node("Relu", [f"s{index}"], [output], f"relu{index}"))
        previous = output
    graph.append(graph_output("y", [batch, width]))
    return model(*graph, name=name)


def found(weight):
    """The parts of a model that takes the places of a picture that are not 0, as many as there are, through a network whose
    softmax is worth splitting; weight(name, *dims) makes its weights."""
    return [
        graph_input("image", [1, 3, 12, 12]), weight("w_conv", 2, 3, 3, 3), weight("w_in", 3, 64), weight("w_out", 64, 48),
        ints("place", [1, 2, 3]),
        node("Conv", ["image", "w_conv"], ["conv"], pads=[1, 1, 1, 1]), node("Relu", ["conv"], ["bright"]),
        node("NonZero", ["bright"], ["axes"]), node("Gather", ["axes", "place"], ["rows"], axis=0),
        node("Transpose", ["rows"], ["places"], perm=[1, 0]), node("Cast", ["places"], ["real"], to=FLOAT),
        node("MatMul", ["real", "w_in"], ["wide"]), node("Softmax", ["wide"], ["hidden"], axis=1),
        node("MatMul", ["hidden", "w_out"], ["out"]),
        graph_output("out", ["found", 48]), graph_output("places", ["found", 3], INT64),
    ]


def annotated(width=8, axis=1, layers=2, ir_version=11, more=()):
    """MatMuls of [4, width] by [width, width]; in the configuration "two" the first weight is split along `axis`."""
    maker = Weights("external")
    graph = [graph_input("x", [4, width])]
    for index in range(layers):
        source, output = f"h{index - 1}" if index else "x", "y" if index == layers - 1 else f"h{index}"
        split = [] if index else [placement("two", sharding("w0", (0, 1), (axis, 2)))]
        graph.append(maker.tensor(f"w{index}", [width, width]))
        graph.append(node("MatMul", [source, f"w{index}"], [output], f"mm{index}", placements=split))
    graph += [*more, graph_output("y", [4, width])]
    return model(*graph, ir_version=ir_version, configurations=[configuration("two", 2)])


def big(size, weights="zero"):
    """An mlp whose file has about `size` bytes: as many layers of 64 MiB as fit."""
    width = 4096
    return mlp(max(1, size // (width * width * 4 + width * 4)), width, weights=weights, name="big")


def _linear(maker, prefix, source, output, inner, outer):
    return [
        maker.tensor(f"{prefix}.weight", [inner, outer]),
        maker.tensor(f"{prefix}.bias", [outer]),
        node("MatMul", [source, f"{prefix}.weight"], [f"{prefix}.product"], f"{prefix}/MatMul"),
        node("Add", [f"{prefix}.product", f"{prefix}.bias"], [output], f"{prefix}/Add"),
    ]


def _norm(maker, prefix, source, output, hidden):
    return [
        maker.tensor(f"{prefix}.scale", [hidden]),
        maker.tensor(f"{prefix}.shift", [hidden]),
        node(
            "LayerNormalization",
            [source, f"{prefix}.scale", f"{prefix}.shift"],
            [output],
            f"{prefix}/LayerNormalization",
            axis=-1,
        ),
    ]


def _attention(maker, prefix, source, output, hidden):
    """Multi-head self-attention on [batch, tokens, hidden]; "split" and "merge" are shape initializers."""
    graph = []
    for which in ("q", "k", "v"):
        graph += _linear(maker, f"{prefix}.{which}", source, f"{prefix}.{which}.flat", hidden, hidden)
        graph.append(node("Reshape", [f"{prefix}.{which}.flat", "split"], [f"{prefix}.{which}.heads"]))
        order = [0, 2, 3, 1] if which == "k" else [0, 2, 1, 3]
        graph.append(node("Transpose", [f"{prefix}.{which}.heads"], [f"{prefix}.{which}.moved"], perm=order))
    graph += [
        node("MatMul", [f"{prefix}.q.moved", f"{prefix}.k.moved"], [f"{prefix}.scores"], f"{prefix}/Scores"),
        node("Mul", [f"{prefix}.scores", "scale"], [f"{prefix}.scaled"]),
        node("Softmax", [f"{prefix}.scaled"], [f"{prefix}.shares"], f"{prefix}/Softmax", axis=-1),
        node("MatMul", [f"{prefix}.shares", f"{prefix}.v.moved"], [f"{prefix}.mixed"], f"{prefix}/Mix"),
        node("Transpose", [f"{prefix}.mixed"], [f"{prefix}.back"], perm=[0, 2, 1, 3]),
        node("Reshape", [f"{prefix}.back", "merge"], [f"{prefix}.joined"]),
    ]
    return graph + _linear(maker, f"{prefix}.out", f"{prefix}.joined", output, hidden, hidden)


def _mlp_block(maker, prefix, source, output, hidden):
    """Linear, GELU (by Erf), linear."""
    return [
        *_linear(maker, f"{prefix}.up", source, f"{prefix}.wide", hidden, 4 * hidden),
        node("Mul", [f"{prefix}.wide", "gelu.inner"], [f"{prefix}.inner"]),
        node("Erf", [f"{prefix}.inner"], [f"{prefix}.erf"]),
        node("Add", [f"{prefix}.erf", "gelu.one"], [f"{prefix}.shifted"]),
        node("Mul", [f"{prefix}.wide", f"{prefix}.shifted"], [f"{prefix}.doubled"]),
        node("Mul", [f"{prefix}.doubled", "gelu.half"], [f"{prefix}.gelu"]),
        *_linear(maker, f"{prefix}.down", f"{prefix}.gelu", output, 4 * hidden, hidden),
    ]


def transformer(layers=24, hidden=1024, heads=16, tokens=197, batch=1, weights="zero", name="vit"):
    """A pre-norm encoder as in ViT (the defaults are ViT-L/16 on 224 x 224): patches are embedded by a convolution."""
    maker = Weights(weights)
    side = max(1, round((tokens - 1) ** 0.5))
    tokens = side * side
    graph = [
        graph_input("image", [batch, 3, side * 16, side * 16]),
        ints("split", [batch, tokens, heads, hidden // heads]),
        ints("merge", [batch, tokens, hidden]),
        ints("flatten", [batch, hidden, tokens]),
        maker.tensor("scale", []),
        maker.tensor("gelu.inner", []),
        maker.tensor("gelu.one", []),
        maker.tensor("gelu.half", []),
        maker.tensor("patches.weight", [hidden, 3, 16, 16]),
        maker.tensor("positions", [1, tokens, hidden]),
        node("Conv", ["image", "patches.weight"], ["patches"], "patches/Conv", kernel_shape=[16, 16], strides=[16, 16]),
        node("Reshape", ["patches", "flatten"], ["patches.flat"]),
        node("Transpose", ["patches.flat"], ["patches.tokens"], perm=[0, 2, 1]),
        node("Add", ["patches.tokens", "positions"], ["h0"], "positions/Add"),
    ]
    for index in range(layers):
        prefix, source = f"layer{index}", f"h{index}"
        graph += _norm(maker, f"{prefix}.norm1", source, f"{prefix}.n1", hidden)
        graph += _attention(maker, f"{prefix}.attention", f"{prefix}.n1", f"{prefix}.a", hidden)
        graph.append(node("Add", [source, f"{prefix}.a"], [f"{prefix}.r"], f"{prefix}/Residual1"))
        graph += _norm(maker, f"{prefix}.norm2", f"{prefix}.r", f"{prefix}.n2", hidden)
        graph += _mlp_block(maker, f"{prefix}.mlp", f"{prefix}.n2", f"{prefix}.m", hidden)
        graph.append(node("Add", [f"{prefix}.r", f"{prefix}.m"], [f"h{index + 1}"], f"{prefix}/Residual2"))
    graph += _norm(maker, "head.norm", f"h{layers}", "y", hidden)
    graph.append(graph_output("y", [batch, tokens, hidden]))
    return model(*graph, name=name)


def parse_bytes(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(float(text[:-1]) * units[text[-1]]) if text[-1] in units else int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["chain", "diamonds", "mlp", "transformer", "big"])
    parser.add_argument("size", help="nodes, layers or bytes")
    parser.add_argument("rest", nargs="+", help="for mlp the width; then the file to write")
    parser.add_argument("--weights", choices=["zero", "pattern", "external"], default="zero")
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=197)
    arguments = parser.parse_args()
    if arguments.kind == "big":
        made = big(parse_bytes(arguments.size), arguments.weights)
    elif arguments.kind == "mlp":
        made = mlp(int(arguments.size), int(arguments.rest[0]), weights=arguments.weights)
    elif arguments.kind == "transformer":
        made = transformer(
            int(arguments.size), arguments.hidden, arguments.heads, arguments.tokens, weights=arguments.weights
        )
    else:
        made = {"chain": chain, "diamonds": diamonds}[arguments.kind](int(arguments.size))
    print(write(arguments.rest[-1], made))


if __name__ == "__main__":
    main()
