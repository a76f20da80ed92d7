"""Transformers as exporters write them: decoders (Llama, Mixtral, GPT-3) and vision encoders (ViT-22B).

Two styles. `decomposed` is what comes of tracing the reference implementation in eager mode: norms, rotary positions,
attention and gates in their elementary operators, with the casts to float32 that the implementation makes. `fused` has
one operator for each of these, as exporters of opset 23 and ONNX Runtime's optimiser leave it.

A shape is one sequence after the other: [batch, sequence, hidden]; attention [batch, heads, sequence, head]. With a
cache of `past` positions, `sequence` are the new ones, and each layer has its keys and values as inputs and outputs.
"""

import copy

MICROSOFT = "com.microsoft"

# Masks that are no value: none, and that of the fused operator, whose triangle begins at the first key. Behind a cache
# it would begin there too, and then a value says what may be seen.
NO_MASK, OWN_TRIANGLE = object(), object()


class Run:
    """What one graph is made for: sizes of a request and the style."""

    def __init__(self, graph, batch, sequence, past, style):
        self.graph, self.batch, self.sequence, self.past = graph, batch, sequence, past
        self.total = past + sequence
        self.is_fused = style == "fused"
        self.last_only = False  # the head of the last position only

    def within(self, window):
        """The same for a layer whose positions see the last `window` ones, and whose cache has no others. Positions of
        a prompt see all of it here: a mask would cost more than it leaves out."""
        near = copy.copy(self)
        near.past = min(self.past, window - 1)
        near.total = near.past + near.sequence
        return near


# ---- norms ------------------------------------------------------------------------------------------------------


def rms_norm(run, name, x, width):
    g = run.graph
    with g.scope(name):
        weight = g.weight("weight", [width])
        if run.is_fused:
            return g.node("RMSNormalization", [x, weight], axis=-1, epsilon=1e-5)
        wide = g.cast(x, "float32")
        square = g.node("Pow", [wide, g.constant(2.0, "float32")])
        mean = g.node("ReduceMean", [square, g.constant([-1])], keepdims=1)
        root = g.node("Sqrt", [g.node("Add", [mean, g.constant(1e-5, "float32")])])
        scaled = g.node("Mul", [wide, g.node("Reciprocal", [root])])
        return g.node("Mul", [weight, g.cast(scaled, g.dtype)])


def layer_norm(run, name, x, width):
    g = run.graph
    with g.scope(name):
        return g.node("LayerNormalization", [x, g.weight("weight", [width]), g.weight("bias", [width])], axis=-1,
                      epsilon=1e-5)


# ---- what all layers read -----------------------------------------------------------------------------------------


def rotary_tables(run, head, base):
    """Cosines and sines of positions x frequencies: [batch, sequence, head / 2], or the same twice, side by side."""
    g = run.graph
    with g.scope("rotary_emb"):
        frequencies = g.constant([base ** (-2 * i / head) for i in range(head // 2)], "float32",
                                 [1, 1, head // 2])
        positions = g.unsqueeze(g.cast("position_ids", "float32"), 2)
        angles = g.node("MatMul", [positions, frequencies])
        if not run.is_fused:
            angles = g.node("Concat", [angles, angles], axis=-1)
        return [g.cast(g.node(op, [angles]), g.dtype) for op in ("Cos", "Sin")]


def causal_mask(run):
    """What is added to scores, [batch, 1, sequence, total]: nothing where a position may look, else a large number."""
    g = run.graph
    if run.is_fused and run.past == 0:
        return OWN_TRIANGLE
    with g.scope("causal_mask"):
        bounds = [g.constant(0), g.constant(run.total), g.constant(1)]
        keys = g.unsqueeze(g.node("Range", bounds), 0, 1, 2)
        queries = g.unsqueeze("position_ids", 1, 3)
        seen = g.node("LessOrEqual", [keys, queries])
        padding = g.unsqueeze(g.cast("attention_mask", "bool"), 1, 2)
        allowed = g.node("And", [seen, padding])
        none, most = g.constant(0.0, g.dtype), g.constant(-65504.0, g.dtype)
        return g.node("Where", [allowed, none, most])


def for_head(run, x):
    """The positions whose logits are computed."""
    return run.graph.slice(x, -1, 1 << 62, 1) if run.last_only and run.sequence > 1 else x


# ---- attention ----------------------------------------------------------------------------------------------------


def split_heads(run, x, heads, head):
    g = run.graph
    return g.node("Transpose", [g.reshape(x, [run.batch, -1, heads, head])], perm=[0, 2, 1, 3])


def rotate(run, x, tables, head):
    """x cos + rotate_half(x) sin, on [batch, heads, sequence, head]."""
    g = run.graph
    if run.is_fused:
        return g.node("RotaryEmbedding", [x, *tables])
    cosines, sines = (g.unsqueeze(table, 1) for table in tables)
    left, right = g.slice(x, 0, head // 2, 3), g.slice(x, head // 2, 1 << 62, 3)
    turned = g.node("Concat", [g.node("Neg", [right]), left], axis=-1)
    return g.node("Add", [g.node("Mul", [x, cosines]), g.node("Mul", [turned, sines])])


def repeat_heads(run, x, groups, heads, head):
    """Each head of keys or values for the `groups` heads of queries that share it."""
    g = run.graph
    if groups == 1:
        return x
    shape = [run.batch, heads, groups, run.total, head]
    wide = g.node("Expand", [g.unsqueeze(x, 2), g.constant(shape)])
    return g.reshape(wide, [run.batch, heads * groups, run.total, head])


def with_cache(run, layer, kind, x, heads, head):
    g = run.graph
    if run.past == 0:
        return x
    past = g.input(f"past_key_values.{layer}.{kind}", [run.batch, heads, run.past, head])
    joined = g.node("Concat", [past, x], axis=2)
    return g.output(joined, f"present.{layer}.{kind}")


def eager_attention(run, q, k, v, mask, heads, kv_heads, head):
    g = run.graph
    k, v = (repeat_heads(run, x, heads // kv_heads, kv_heads, head) for x in (k, v))
    scores = g.node("MatMul", [q, g.node("Transpose", [k], perm=[0, 1, 3, 2])])
    scores = g.node("Mul", [scores, g.constant(head**-0.5, g.dtype)])
    if mask is not NO_MASK:
        scores = g.node("Add", [scores, mask])
    weights = g.cast(g.node("Softmax", [g.cast(scores, "float32")], axis=-1), g.dtype)
    mixed = g.node("MatMul", [weights, v])
    return g.reshape(g.node("Transpose", [mixed], perm=[0, 2, 1, 3]), [run.batch, -1, heads * head])


def attend(run, layer, q, k, v, mask, heads, kv_heads, head):
    """Attention of [batch, heads, sequence, head], with the cache of the layer: [batch, sequence, heads * head]."""
    g = run.graph
    k, v = (with_cache(run, layer, kind, x, kv_heads, head) for kind, x in (("key", k), ("value", v)))
    if not run.is_fused:
        return eager_attention(run, q, k, v, mask, heads, kv_heads, head)
    inputs = [q, k, v] if mask in (NO_MASK, OWN_TRIANGLE) else [q, k, v, mask]
    mixed = g.node("Attention", inputs, is_causal=int(mask is OWN_TRIANGLE), scale=head**-0.5)
    return g.reshape(g.node("Transpose", [mixed], perm=[0, 2, 1, 3]), [run.batch, -1, heads * head])


# ---- Llama and Mixtral --------------------------------------------------------------------------------------------


def swiglu(run, x, config):
    g = run.graph
    hidden, inner = config["hidden"], config["inner"]
    with g.scope("mlp"):
        gate = g.linear("gate_proj", x, [hidden, inner])
        up = g.linear("up_proj", x, [hidden, inner])
        silu = g.node("Mul", [gate, g.node("Sigmoid", [gate])])
        return g.linear("down_proj", g.node("Mul", [silu, up]), [inner, hidden])


def routing_weights(run, tokens, config):
    """[tokens, experts]: the softmax over the chosen experts' logits, 0 for the others."""
    g = run.graph
    logits = g.cast(g.linear("gate", tokens, [config["hidden"], config["experts"]]), "float32")
    best, which = g.node("TopK", [logits, g.constant([config["chosen"]])], count=2, axis=-1)
    shares = g.node("Softmax", [best], axis=-1)
    nothing = g.node("ConstantOfShape", [g.constant([run.batch * run.sequence, config["experts"]])])
    return g.cast(g.node("ScatterElements", [nothing, which, shares], axis=-1), g.dtype)


def dense_experts(run, tokens, config):
    """Every expert on every token, and of the results those that count: the experts are a batch of products."""
    g = run.graph
    hidden, inner, experts = config["hidden"], config["inner"], config["experts"]
    shares = routing_weights(run, tokens, config)
    batch = g.unsqueeze(tokens, 0)
    gate = g.node("MatMul", [batch, g.weight("experts/w1", [experts, hidden, inner])])
    up = g.node("MatMul", [batch, g.weight("experts/w3", [experts, hidden, inner])])
    silu = g.node("Mul", [gate, g.node("Sigmoid", [gate])])
    down = g.node("MatMul", [g.node("Mul", [silu, up]), g.weight("experts/w2", [experts, inner, hidden])])
    weights = g.unsqueeze(g.node("Transpose", [shares], perm=[1, 0]), 2)
    return g.node("ReduceSum", [g.node("Mul", [down, weights]), g.constant([0])], keepdims=0)


def fused_experts(run, tokens, config):
    g = run.graph
    hidden, inner, experts = config["hidden"], config["inner"], config["experts"]
    logits = g.linear("gate", tokens, [hidden, experts])
    weights = [g.stored_weight(f"experts/{name}", shape, g.experts_are) for name, shape in
               (("w1", [experts, inner, hidden]), ("w2", [experts, hidden, inner]), ("w3", [experts, inner, hidden]))]
    tokens = g.narrowed(tokens, g.experts_take) if g.experts_take else tokens
    return g.node("MoE", [tokens, logits, weights[0], None, weights[1], None, weights[2]], domain=MICROSOFT,
                  k=config["chosen"], activation_type="silu", normalize_routing_weights=1)


def experts_mlp(run, x, config):
    g = run.graph
    with g.scope("block_sparse_moe"):
        tokens = g.reshape(x, [-1, config["hidden"]])
        mixed = (fused_experts if run.is_fused else dense_experts)(run, tokens, config)
        return g.reshape(mixed, [run.batch, -1, config["hidden"]])


def llama_layer(run, layer, x, tables, mask, config):
    g = run.graph
    hidden, heads, kv_heads, head = (config[key] for key in ("hidden", "heads", "kv_heads", "head"))
    seen = run
    if "window" in config and layer % 2 == 0:
        seen, mask = run.within(config["window"]), NO_MASK if run.past else mask
    with g.scope(f"layers.{layer}"):
        normal = rms_norm(run, "input_layernorm", x, hidden)
        with g.scope("self_attn"):
            q = split_heads(run, g.linear("q_proj", normal, [hidden, heads * head]), heads, head)
            k = split_heads(run, g.linear("k_proj", normal, [hidden, kv_heads * head]), kv_heads, head)
            v = split_heads(run, g.linear("v_proj", normal, [hidden, kv_heads * head]), kv_heads, head)
            if config.get("head_norms"):
                q, k = rms_norm(run, "q_norm", q, head), rms_norm(run, "k_norm", k, head)
            q, k = rotate(run, q, tables, head), rotate(run, k, tables, head)
            mixed = attend(seen, layer, q, k, v, mask, heads, kv_heads, head)
            mixed = g.linear("o_proj", mixed, [heads * head, hidden])
        x = g.node("Add", [x, mixed])
        normal = rms_norm(run, "post_attention_layernorm", x, hidden)
        return g.node("Add", [x, (experts_mlp if "experts" in config else swiglu)(run, normal, config)])


def token_inputs(run):
    g = run.graph
    g.input("input_ids", [run.batch, run.sequence], "int64")
    if not run.is_fused or run.past != 0:
        g.input("attention_mask", [run.batch, run.total], "int64")
    g.input("position_ids", [run.batch, run.sequence], "int64")


def llama(run, config):
    g = run.graph
    token_inputs(run)
    with g.scope("model"):
        x = g.node("Gather", [g.weight("embed_tokens/weight", [config["vocabulary"], config["hidden"]]), "input_ids"])
        tables, mask = rotary_tables(run, config["head"], config["rotary_base"]), causal_mask(run)
        for layer in range(config["layers"]):
            x = llama_layer(run, layer, x, tables, mask, config)
        x = for_head(run, rms_norm(run, "norm", x, config["hidden"]))
    g.output(g.linear("lm_head", x, [config["hidden"], config["vocabulary"]]), "logits")


# ---- GPT-3 --------------------------------------------------------------------------------------------------------


def gelu(run, x):
    """With the hyperbolic tangent, as GPT has it."""
    g = run.graph
    if run.is_fused:
        return g.node("Gelu", [x], approximate="tanh")
    cube = g.node("Pow", [x, g.constant(3.0, g.dtype)])
    inside = g.node("Add", [x, g.node("Mul", [cube, g.constant(0.044715, g.dtype)])])
    bend = g.node("Tanh", [g.node("Mul", [inside, g.constant(0.7978845608, g.dtype)])])
    half = g.node("Mul", [x, g.constant(0.5, g.dtype)])
    return g.node("Mul", [half, g.node("Add", [bend, g.constant(1.0, g.dtype)])])


def gpt_layer(run, layer, x, mask, config):
    g = run.graph
    hidden, heads, head, inner = (config[key] for key in ("hidden", "heads", "head", "inner"))
    with g.scope(f"h.{layer}"):
        normal = layer_norm(run, "ln_1", x, hidden)
        with g.scope("attn"):
            joined = g.linear("c_attn", normal, [hidden, 3 * hidden], bias=True)
            parts = g.node("Split", [joined], count=3, axis=-1, num_outputs=3)
            q, k, v = (split_heads(run, part, heads, head) for part in parts)
            mixed = attend(run, layer, q, k, v, mask, heads, heads, head)
            mixed = g.linear("c_proj", mixed, [hidden, hidden], bias=True)
        x = g.node("Add", [x, mixed])
        with g.scope("mlp"):
            wide = g.linear("c_fc", layer_norm(run, "ln_2", x, hidden), [hidden, inner], bias=True)
            y = g.linear("c_proj", gelu(run, wide), [inner, hidden], bias=True)
        return g.node("Add", [x, y])


def gpt(run, config):
    """The token embedding is the head too: a Gemm with its transpose, so the weight is in the file once."""
    g = run.graph
    hidden = config["hidden"]
    token_inputs(run)
    with g.scope("transformer"):
        tokens = g.weight("wte/weight", [config["vocabulary"], hidden])
        places = g.weight("wpe/weight", [config["positions"], hidden])
        x = g.node("Add", [g.node("Gather", [tokens, "input_ids"]), g.node("Gather", [places, "position_ids"])])
        mask = causal_mask(run)
        for layer in range(config["layers"]):
            x = gpt_layer(run, layer, x, mask, config)
        x = for_head(run, layer_norm(run, "ln_f", x, hidden))
    with g.scope("lm_head"):
        logits = g.node("Gemm", [g.reshape(x, [-1, hidden]), tokens], transB=1)
        g.output(g.reshape(logits, [run.batch, -1, config["vocabulary"]]), "logits")


# ---- PaLM ---------------------------------------------------------------------------------------------------------


def palm_layer(run, layer, x, tables, mask, config):
    """Attention, with one head of keys and values, beside the feed-forward part: both read the same norm."""
    g = run.graph
    hidden, heads, head = config["hidden"], config["heads"], config["head"]
    with g.scope(f"layers.{layer}"):
        normal = rms_norm(run, "norm", x, hidden)
        with g.scope("attn"):
            q = split_heads(run, g.linear("q", normal, [hidden, heads * head]), heads, head)
            k = split_heads(run, g.linear("k", normal, [hidden, head]), 1, head)
            v = split_heads(run, g.linear("v", normal, [hidden, head]), 1, head)
            mixed = attend(run, layer, rotate(run, q, tables, head), rotate(run, k, tables, head), v, mask, heads, 1,
                           head)
            mixed = g.linear("out", mixed, [heads * head, hidden])
        return g.node("Add", [x, g.node("Add", [mixed, swiglu(run, normal, config)])])


def palm(run, config):
    """"PaLM" (arXiv 2204.02311): the token embedding is the head too, as of GPT. Of a prompt the last position is asked
    for."""
    g = run.graph
    hidden = config["hidden"]
    token_inputs(run)
    tokens = g.weight("wte/weight", [config["vocabulary"], hidden])
    x = g.node("Gather", [tokens, "input_ids"])
    tables, mask = rotary_tables(run, config["head"], 1e4), causal_mask(run)
    for layer in range(config["layers"]):
        x = palm_layer(run, layer, x, tables, mask, config)
    x = rms_norm(run, "norm", x, hidden)
    x = g.slice(x, -1, 1 << 62, 1) if run.sequence > 1 else x
    logits = g.node("Gemm", [g.reshape(x, [-1, hidden]), tokens], transB=1)
    g.output(g.reshape(logits, [run.batch, -1, config["vocabulary"]]), "logits")


# ---- BERT ---------------------------------------------------------------------------------------------------------


def bert_layer(run, layer, x, config):
    """Norms behind the sums, and the error function in the activation."""
    g = run.graph
    hidden, heads, head, inner = (config[key] for key in ("hidden", "heads", "head", "inner"))
    with g.scope(f"encoder.{layer}"):
        with g.scope("attn"):
            q, k, v = (split_heads(run, g.linear(name, x, [hidden, hidden], bias=True), heads, head) for name in "qkv")
            mixed = attend(run, layer, q, k, v, NO_MASK, heads, heads, head)
            mixed = g.linear("out", mixed, [hidden, hidden], bias=True)
        x = layer_norm(run, "attn_norm", g.node("Add", [x, mixed]), hidden)
        with g.scope("mlp"):
            wide = g.linear("fc1", x, [hidden, inner], bias=True)
            bend = g.node("Erf", [g.node("Div", [wide, g.constant(2**0.5, g.dtype)])])
            wide = g.node("Mul", [wide, g.node("Add", [bend, g.constant(1.0, g.dtype)])])
            y = g.linear("fc2", g.node("Mul", [wide, g.constant(0.5, g.dtype)]), [inner, hidden], bias=True)
        return layer_norm(run, "mlp_norm", g.node("Add", [x, y]), hidden)


def bert(run, config):
    """The encoder without a head: "BERT" (arXiv 1810.04805)."""
    g = run.graph
    hidden = config["hidden"]
    g.input("input_ids", [run.batch, run.sequence], "int64")
    with g.scope("embeddings"):
        tokens = g.node("Gather", [g.weight("words", [config["vocabulary"], hidden]), "input_ids"])
        places = g.slice(g.weight("positions", [1, config["positions"], hidden]), 0, run.sequence, 1)
        x = layer_norm(run, "norm", g.node("Add", [tokens, places]), hidden)
    for layer in range(config["layers"]):
        x = bert_layer(run, layer, x, config)
    g.output(x, "hidden")


# ---- ViT-22B ------------------------------------------------------------------------------------------------------


def vit_norm(run, name, x, width):
    """The paper's LayerNorms are without bias and centering, which is an RMSNorm."""
    return rms_norm(run, name, x, width)


def vit_layer(run, layer, x, config):
    """Attention and MLP side by side on one norm, and norms of queries and keys."""
    g = run.graph
    hidden, heads, head, inner = (config[key] for key in ("hidden", "heads", "head", "inner"))
    with g.scope(f"encoder.{layer}"):
        normal = vit_norm(run, "norm", x, hidden)
        with g.scope("attn"):
            q, k, v = (split_heads(run, g.linear(name, normal, [hidden, hidden]), heads, head) for name in "qkv")
            q, k = vit_norm(run, "q_norm", q, head), vit_norm(run, "k_norm", k, head)
            mixed = attend(run, layer, q, k, v, NO_MASK, heads, heads, head)
            mixed = g.linear("out", mixed, [hidden, hidden], bias=True)
        with g.scope("mlp"):
            y = g.linear("fc2", gelu(run, g.linear("fc1", normal, [hidden, inner], bias=True)), [inner, hidden], True)
        return g.node("Add", [x, g.node("Add", [mixed, y])])


def vit(run, config):
    """Images of 224 x 224 in patches of 14 x 14, and a linear head on the mean of the tokens."""
    g = run.graph
    hidden, patch, side = config["hidden"], config["patch"], config["image"]
    tokens = (side // patch) ** 2
    g.input("pixels", [run.batch, 3, side, side])
    with g.scope("embed"):
        weights = [g.weight("weight", [hidden, 3, patch, patch]), g.weight("bias", [hidden])]
        x = g.node("Conv", ["pixels", *weights], kernel_shape=[patch, patch], strides=[patch, patch])
        x = g.node("Transpose", [g.reshape(x, [run.batch, hidden, tokens])], perm=[0, 2, 1])
        x = g.node("Add", [x, g.weight("positions", [1, tokens, hidden])])
    for layer in range(config["layers"]):
        x = vit_layer(run, layer, x, config)
    x = vit_norm(run, "norm", x, hidden)
    x = g.node("ReduceMean", [x, g.constant([1])], keepdims=0)
    g.output(g.linear("head", x, [hidden, config["classes"]], bias=True), "logits")
