"""A decoder with a cache as a tensor graph in JSON whose sizes are symbols, as ONNX Runtime's exporters name them.

Norms and attention are one operator each (SimplifiedLayerNormalization, GroupQueryAttention), the rest are products and
elementwise operators; experts are one operator, too (MoE). Weights have no data, so that any size costs nothing.

    decoder_graph.decoder(layers, hidden, heads, kv_heads, inner, vocabulary, dtype, names, experts, chosen)
"""

MICROSOFT = "com.microsoft"
NAMES = {"batch": "batch_size", "positions": "sequence_length", "past": "past_sequence_length",
         "total": "total_sequence_length"}
LLAMA3_8B = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "inner": 14336, "vocabulary": 128256}
LLAMA3_70B = {"layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8, "inner": 28672, "vocabulary": 128256}
MIXTRAL_8X7B = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "inner": 14336, "vocabulary": 32000,
                "experts": 8, "chosen": 2}
TINY = {"layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "inner": 128, "vocabulary": 256}


class _Maker:
    def __init__(self, dtype):
        self.dtype = dtype
        self.nodes, self.weights = [], []

    def weight(self, name, *shape, dtype=None, data=None):
        item = {"name": name, "dtype": dtype or self.dtype, "shape": list(shape)}
        self.weights.append(item if data is None else {**item, "data": data})
        return name

    def node(self, name, op, inputs, outputs=None, domain=None, **attributes):
        node = {"name": name, "op": op, "inputs": inputs, "outputs": outputs or [name]}
        if domain:
            node["domain"] = domain
        if attributes:
            node["attributes"] = attributes
        self.nodes.append(node)
        return node["outputs"][0]

    def product(self, name, x, rows, columns):
        return self.node(name, "MatMul", [x, self.weight(name + ".weight", rows, columns)])

    def norm(self, name, x, width):
        return self.node(name, "SimplifiedLayerNormalization", [x, self.weight(name + ".weight", width)], axis=-1,
                         epsilon=1e-5)


def _experts(make, at, x, sizes):
    hidden, inner, experts = sizes["hidden"], sizes["inner"], sizes["experts"]
    tokens = make.node(f"{at}.tokens", "Reshape", [x, "tokens.shape"])
    scores = make.product(f"{at}.router", tokens, hidden, experts)
    first, down, up = (make.weight(f"{at}.experts.{name}", experts, *shape) for name, shape in
                       (("w1", (inner, hidden)), ("w2", (hidden, inner)), ("w3", (inner, hidden))))
    y = make.node(f"{at}.experts", "MoE", [tokens, scores, first, "", down, "", up], domain=MICROSOFT,
                  activation_type="silu", k=sizes["chosen"], normalize_routing_weights=1)
    return make.node(f"{at}.back", "Reshape", [y, make.node(f"{at}.shape", "Shape", [x])])


def _layer(make, at, x, sizes, lengths):
    hidden, head = sizes["hidden"], sizes["hidden"] // sizes["heads"]
    normed = make.norm(f"{at}.norm", x, hidden)
    q = make.product(f"{at}.q", normed, hidden, hidden)
    k, v = (make.product(f"{at}.{name}", normed, hidden, sizes["kv_heads"] * head) for name in "kv")
    index = at.split(".")[1]
    past = [f"past_key_values.{index}.{side}" for side in ("key", "value")]
    present = [f"present.{index}.{side}" for side in ("key", "value")]
    y = make.node(f"{at}.attention", "GroupQueryAttention", [q, k, v, *past, *lengths],
                  [f"{at}.attention", *present], MICROSOFT, num_heads=sizes["heads"], kv_num_heads=sizes["kv_heads"])
    x = make.node(f"{at}.add", "Add", [x, make.product(f"{at}.o", y, hidden, hidden)])
    normed = make.norm(f"{at}.norm2", x, hidden)
    if sizes["experts"] > 0:
        return make.node(f"{at}.add2", "Add", [x, _experts(make, at, normed, sizes)])
    gate, up = (make.product(f"{at}.{name}", normed, hidden, sizes["inner"]) for name in ("gate", "up"))
    gate = make.node(f"{at}.silu", "Mul", [gate, make.node(f"{at}.sigmoid", "Sigmoid", [gate])])
    y = make.node(f"{at}.mul", "Mul", [gate, up])
    return make.node(f"{at}.add2", "Add", [x, make.product(f"{at}.down", y, sizes["inner"], hidden)])


def decoder(layers, hidden, heads, kv_heads, inner, vocabulary, dtype="float16", names=None, experts=0,
            chosen=0):
    """The graph as a dictionary; `names` are what symbols are called where that is not as in NAMES. With experts, of
    which `chosen` work on each token, these are in place of each layer's products."""
    symbols = {**NAMES, **(names or {})}
    sizes = {"hidden": hidden, "heads": heads, "kv_heads": kv_heads, "inner": inner, "experts": experts, "chosen": chosen}
    make = _Maker(dtype)
    cache = [symbols["batch"], kv_heads, symbols["past"], hidden // heads]
    inputs = [{"name": "input_ids", "dtype": "int64", "shape": [symbols["batch"], symbols["positions"]]},
              {"name": "attention_mask", "dtype": "int64", "shape": [symbols["batch"], symbols["total"]]}]
    inputs += [{"name": f"past_key_values.{i}.{side}", "dtype": dtype, "shape": cache}
               for i in range(layers) for side in ("key", "value")]
    make.weight("axis", 1, dtype="int64", data=[1])
    make.weight("one", 1, dtype="int64", data=[1])
    make.weight("second", dtype="int64", data=[1])
    if experts > 0:
        make.weight("tokens.shape", 2, dtype="int64", data=[-1, hidden])
    seen = make.node("mask.sum", "ReduceSum", ["attention_mask", "axis"], keepdims=0)
    seen = make.node("mask.last", "Sub", [seen, "one"])
    seen = make.node("mask.cast", "Cast", [seen], to=6)
    shape = make.node("mask.shape", "Shape", ["attention_mask"])
    total = make.node("mask.gather", "Gather", [shape, "second"], axis=0)
    total = make.node("mask.total", "Cast", [total], to=6)
    x = make.node("embed", "Gather", [make.weight("embed.weight", vocabulary, hidden), "input_ids"])
    for i in range(layers):
        x = _layer(make, f"layers.{i}", x, sizes, [seen, total])
    logits = make.product("logits", make.norm("norm", x, hidden), hidden, vocabulary)
    outputs = [logits] + [f"present.{i}.{side}" for i in range(layers) for side in ("key", "value")]
    return {"name": "decoder", "opset": {"ai.onnx": 21, MICROSOFT: 1}, "inputs": inputs, "outputs": outputs,
            "initializers": make.weights, "nodes": make.nodes}
