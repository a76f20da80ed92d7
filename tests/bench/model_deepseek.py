"""Decoders with DeepSeek's attention and experts (DeepSeek V3, R1, Kimi K2), with one operator for each norm, rotation,
attention and layer of experts.

The attention (arXiv 2412.19437, section 2.1) caches one vector of 512 + 64 elements for a position. A prompt makes keys
and values of all heads out of it. A decode step does not: it brings the queries into the space of the cached vectors,
which are keys and values of all heads at once, and each head's result out of it again.

    q_a, norm, q_b          [.., hidden] -> [.., rank] -> heads of 128 elements, and of 64 with rotary positions
    kv_a, norm              [.., hidden] -> 512 and, with rotary positions, 64: what is cached
    kv_b                    512 -> keys and values of 128 of all heads; in a step in two halves, per head
"""


from model_layers import causal_mask, for_head, fused_experts, rms_norm, rotary_tables, rotate, split_heads, swiglu, \
    token_inputs


def latent_heads(run, name, x, config, size):
    """[.., width] -> [batch, heads, sequence, size]."""
    heads = config["heads"]
    return split_heads(run, run.graph.linear(name, x, [config[f"{name}_width"], heads * size]), heads, size)


def latent_prompt(run, queries, latent, rotated, config):
    """Keys and values of all heads, made of the prompt's vectors."""
    g = run.graph
    heads, plain, turned = config["heads"], config["head"], config["rotary"]
    both = latent_heads(run, "kv_b_proj", latent, config, 2 * plain)
    keys, values = g.slice(both, 0, plain, 3), g.slice(both, plain, 1 << 62, 3)
    shared = g.node("Expand", [rotated, g.constant([run.batch, heads, run.sequence, turned])])
    keys = g.node("Concat", [keys, shared], axis=-1)
    return g.node("Attention", [queries, keys, values], is_causal=1, scale=(plain + turned) ** -0.5)


def latent_step(run, layer, queries, cached, mask, config):
    """Queries in the space of the cache, whose vectors are keys and values at once."""
    g = run.graph
    heads, plain, rank = config["heads"], config["head"], config["kv_b_proj_width"]
    past = g.input(f"past_key_values.{layer}.latent", [run.batch, 1, run.past, rank + config["rotary"]])
    cached = g.output(g.node("Concat", [past, cached], axis=2), f"present.{layer}.latent")
    inner = g.node("MatMul", [g.slice(queries, 0, plain, 3), g.weight("kv_b_proj/keys", [heads, plain, rank])])
    asked = g.node("Concat", [inner, g.slice(queries, plain, 1 << 62, 3)], axis=-1)
    mixed = g.node("Attention", [asked, cached, cached, mask], is_causal=0, scale=(plain + config["rotary"]) ** -0.5)
    return g.node("MatMul", [g.slice(mixed, 0, rank, 3), g.weight("kv_b_proj/values", [heads, rank, plain])])


def latent_attention(run, layer, x, tables, mask, config):
    g = run.graph
    hidden, heads, plain, turned = (config[key] for key in ("hidden", "heads", "head", "rotary"))
    rank = config["kv_b_proj_width"]
    narrow = rms_norm(run, "q_a_norm", g.linear("q_a_proj", x, [hidden, config["q_b_proj_width"]]),
                      config["q_b_proj_width"])
    queries = latent_heads(run, "q_b_proj", narrow, config, plain + turned)
    queries = g.node("Concat", [g.slice(queries, 0, plain, 3),
                                rotate(run, g.slice(queries, plain, 1 << 62, 3), tables, turned)], axis=-1)
    joined = g.linear("kv_a_proj", x, [hidden, rank + turned])
    latent = rms_norm(run, "kv_a_norm", g.slice(joined, 0, rank, 2), rank)
    rotated = rotate(run, g.unsqueeze(g.slice(joined, rank, 1 << 62, 2), 1), tables, turned)
    if run.past == 0:
        mixed = latent_prompt(run, queries, latent, rotated, config)
    else:
        cached = g.node("Concat", [g.unsqueeze(latent, 1), rotated], axis=-1)
        mixed = latent_step(run, layer, queries, cached, mask, config)
    mixed = g.reshape(g.node("Transpose", [mixed], perm=[0, 2, 1, 3]), [run.batch, -1, heads * plain])
    return g.linear("o_proj", mixed, [heads * plain, hidden])


def deepseek_mlp(run, layer, x, config):
    """The experts of a token and one that all tokens go to; without experts in the first layers."""
    g = run.graph
    if layer < config["dense_layers"]:
        return swiglu(run, x, {"hidden": config["hidden"], "inner": config["dense_inner"]})
    with g.scope("experts"):
        tokens = g.reshape(x, [-1, config["hidden"]])
        mixed = g.reshape(fused_experts(run, tokens, config), [run.batch, -1, config["hidden"]])
    with g.scope("shared_experts"):
        return g.node("Add", [mixed, swiglu(run, x, config)])


def deepseek(run, config):
    g = run.graph
    hidden = config["hidden"]
    token_inputs(run)
    with g.scope("model"):
        x = g.node("Gather", [g.weight("embed_tokens/weight", [config["vocabulary"], hidden]), "input_ids"])
        tables, mask = rotary_tables(run, config["rotary"], config["rotary_base"]), causal_mask(run)
        for layer in range(config["layers"]):
            with g.scope(f"layers.{layer}"):
                with g.scope("self_attn"):
                    mixed = latent_attention(run, layer, rms_norm(run, "input_layernorm", x, hidden), tables, mask,
                                             config)
                x = g.node("Add", [x, mixed])
                normal = rms_norm(run, "post_attention_layernorm", x, hidden)
                x = g.node("Add", [x, deepseek_mlp(run, layer, normal, config)])
        x = for_head(run, rms_norm(run, "norm", x, hidden))
    g.output(g.linear("lm_head", x, [hidden, config["vocabulary"]]), "logits")
