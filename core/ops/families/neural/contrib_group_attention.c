/*
 * GroupQueryAttention of ONNX Runtime: attention of decoders with a cache. Letters: attention.h.
 *
 *     [b, q, kv*g*d] [b, s, kv*d] [b, s, kv*d] [b, kv, p, d] [b, kv, p, d] -> [b, q, kv*g*d] [b, kv, c, d] [b, kv, c,
 * d]
 *
 * Queries may come packed, [b, q, (kv*g + 2*kv)*d]: all query heads, then all heads of keys, then of values. No even
 * split of that axis is one of heads (but for g = 1, where it is three*kv*d), so the heads are whole then.
 *
 * seqlens_k says for each sequence how much of its cache counts, from position 0 on: keys are whole. The cache that
 * goes out (c) has the size of the one that came in, or of all positions if that is more.
 */
#include "ops/families/neural/attention.h"
#include "ops/lowering/functions.h"
#include "ops/table/families.h"

enum {
    IN_QUERY,
    IN_KEY,
    IN_VALUE,
    IN_PAST_KEY,
    IN_PAST_VALUE,
    IN_SEQLENS,
    IN_TOTAL,
    IN_COS,
    IN_SIN,
    IN_POSITIONS,
    IN_BIAS,
    IN_SINK,
    IN_KEY_SCALE,
    IN_VALUE_SCALE,
    IN_QUERY_NORM,
    IN_KEY_NORM
};

struct grouped {
    struct sp_attention a;
    struct sp_dim cache,
        cache_size; /* length of present; elements of a head in the cache (two to a byte with 4 bits) */
    bool is_packed;
};

static enum sp_status read_counts(struct sp_op_context *context, int64_t *ret_q, int64_t *ret_kv)
{
    *ret_q = sp_node_int(context->node, "num_heads", 0);
    *ret_kv = sp_node_int(context->node, "kv_num_heads", 0);
    if (*ret_q < 1 || *ret_kv < 1 || *ret_q % *ret_kv != 0)
        return sp_op_fail(context, "ATTRIBUTE_VALUE",
                          "attributes 'num_heads' (%lld) and 'kv_num_heads' (%lld) must be positive, and the first a "
                          "multiple of the second",
                          (long long)*ret_q, (long long)*ret_kv);
    return SP_OK;
}

/* Length and size of heads, from the operands that hold them. */
static enum sp_status read_heads(struct sp_op_context *context, int64_t q_heads, int64_t kv_heads, struct grouped *g)
{
    struct sp_heads query = {0}, key, value;
    enum sp_status status;
    g->is_packed = !sp_has_input(context, IN_KEY);
    status = sp_heads_read(context, IN_QUERY, g->is_packed ? q_heads + 2 * kv_heads : q_heads, &query);
    if (status == SP_OK && query.has_rank && !query.is_packed)
        return sp_op_fail(context, "OPERAND_SHAPE", "its queries have rank 4 instead of 3");
    if (status != SP_OK)
        return status;
    key = value = query;
    if (!g->is_packed) {
        status = sp_heads_read(context, IN_KEY, kv_heads, &key);
        if (status == SP_OK)
            status = sp_heads_read(context, IN_VALUE, kv_heads, &value);
        if (status == SP_OK)
            status = sp_check_same(context, "head sizes", query.size, key.size);
        if (status == SP_OK)
            status = sp_check_same(context, "sequence lengths", key.length, value.length);
    }
    g->a.batch = query.batch;
    g->a.queries = query.length;
    g->a.keys = key.length;
    g->a.size = query.size;
    g->a.value_size = value.size;
    return status;
}

/* The number of positions, where it is known: the scalar input that says so. */
static struct sp_dim given_total(struct sp_op_context *context)
{
    const struct sp_data *data = sp_in_data(context, IN_TOTAL);
    return data != NULL && data->count == 1 && data->ints != NULL ? data->ints[0] : sp_dim_unknown();
}

static void read_cache(struct sp_op_context *context, struct grouped *g)
{
    const struct sp_shape *past = sp_in_shape(context, IN_PAST_KEY);
    struct sp_dim total = given_total(context);
    g->a.has_past = sp_has_input(context, IN_PAST_KEY);
    g->a.past = past != NULL ? past->dims[2] : sp_dim_unknown();
    g->cache_size = past != NULL ? past->dims[3] : g->a.size;
    if (past == NULL && sp_node_int(context->node, "kv_cache_bit_width", 0) == 4)
        g->cache_size = sp_dim_ceildiv(context->dims, g->a.size, sp_dim_known(2));
    if (!g->a.has_past) {
        g->a.total = total.kind != SP_DIM_UNKNOWN ? total : g->a.keys;
        g->cache = g->a.total;
        return;
    }
    g->cache = sp_dim_max(context->dims, g->a.past, total);
    g->a.total = total.kind != SP_DIM_UNKNOWN ? total : sp_dim_add(context->dims, g->a.past, g->a.keys);
}

static enum sp_status read_grouped(struct sp_op_context *context, struct grouped *ret)
{
    int64_t q_heads = 0, kv_heads = 0;
    struct grouped g = {.is_packed = false};
    const struct sp_shape *past = sp_in_shape(context, IN_PAST_KEY);
    enum sp_status status = read_counts(context, &q_heads, &kv_heads);
    if (status == SP_OK)
        status = read_heads(context, q_heads, kv_heads, &g);
    if (status != SP_OK)
        return status;
    if (!sp_has_input(context, IN_SEQLENS) || !sp_has_input(context, IN_TOTAL))
        return sp_op_fail(context, "MISSING_INPUT", "its inputs 'seqlens_k' and 'total_sequence_length' are required");
    static const uint32_t ranks[][2] = {
        {IN_PAST_KEY, 4}, {IN_PAST_VALUE, 4}, {IN_SINK, 1}, {IN_QUERY_NORM, 1}, {IN_KEY_NORM, 1}};
    for (size_t i = 0; status == SP_OK && i < sizeof ranks / sizeof ranks[0]; i++)
        status = sp_check_rank(context, ranks[i][0], ranks[i][1]);
    if (status != SP_OK)
        return status;
    read_cache(context, &g);
    g.a.q_heads = sp_dim_known(q_heads);
    g.a.kv_heads = sp_dim_known(kv_heads);
    g.a.has_whole_keys = true;
    g.a.has_whole_heads = g.is_packed && q_heads != kv_heads;
    /* Kernels take as many queries as new keys, and count positions from the start of the queries. */
    g.a.is_placed = true;
    g.a.after = sp_node_int(context->node, "causal", 1) != 0 ? 1 : 0;
    const int64_t window = sp_node_int(context->node, "local_window_size", -1); /* a query's own key is in it */
    g.a.before = window > 0 ? window : 0;
    *ret = g;
    return past != NULL ? sp_check_same(context, "head counts", past->dims[1], g.a.kv_heads) : SP_OK;
}

static enum sp_status shapes_grouped(struct sp_op_context *context)
{
    struct grouped g = {0};
    enum sp_status status = read_grouped(context, &g);
    if (status != SP_OK)
        return status;
    enum sp_dtype dtype = sp_in_dtype(context, IN_QUERY);
    enum sp_dtype cached = sp_has_input(context, IN_PAST_KEY) ? sp_in_dtype(context, IN_PAST_KEY) : dtype;
    const struct sp_dim y[] = {g.a.batch, g.a.queries, sp_dim_mul(context->dims, g.a.q_heads, g.a.size)};
    const struct sp_dim cache[] = {g.a.batch, g.a.kv_heads, g.cache, g.cache_size};
    const struct sp_dim scores[] = {g.a.batch, g.a.q_heads, g.a.queries, g.a.total};
    status = sp_set_output(context, 0, dtype, 3, y);
    for (uint32_t output = 1; status == SP_OK && output <= 2; output++)
        status = sp_set_output(context, output, cached, 4, cache);
    return status != SP_OK ? status : sp_set_output(context, 3, dtype, 4, scores);
}

/* ---- rule ----------------------------------------------------------------------------------------------------- */

static void map_queries(struct sp_op_context *context, struct sp_rule *rule, const struct grouped *g,
                        const struct sp_attention_factors *f)
{
    const struct sp_head_axes q = sp_attention_queries(f), k = sp_attention_keys(f, f->keys);
    if (!g->is_packed) {
        sp_map_heads(context, rule, sp_in(IN_QUERY), &q);
        sp_map_heads(context, rule, sp_in(IN_KEY), &k);
        sp_map_heads(context, rule, sp_in(IN_VALUE), &k);
        return;
    }
    struct sp_dim packed = sp_in_shape(context, IN_QUERY)->dims[2];
    struct sp_chain chain;
    if (g->a.has_whole_heads) {
        chain = sp_chain_of(sp_rule_factor(rule, "qkv", SP_FACTOR_REPLICATE, packed));
    } else {
        uint8_t three = sp_rule_factor(rule, "three", SP_FACTOR_REPLICATE, sp_dim_known(3));
        chain = (struct sp_chain){.count = 3, .items = {three, f->kv, f->d}};
    }
    sp_rule_map_input(rule, IN_QUERY, 0, f->b);
    sp_rule_map_input(rule, IN_QUERY, 1, f->q);
    sp_map_chain(rule, sp_in(IN_QUERY), 2, &chain);
}

/* Caches, and scales that broadcast to them: [b, kv, length, size]. */
static void map_cache(struct sp_op_context *context, struct sp_rule *rule, struct sp_place place,
                      const uint8_t factors[4])
{
    const struct sp_shape *shape = sp_place_shape(context, place);
    for (uint32_t axis = 0; shape != NULL && shape->rank == 4 && axis < 4; axis++) {
        if (!sp_dim_is(shape->dims[axis], 1))
            sp_map(rule, place, axis, factors[axis]);
    }
}

static void map_caches(struct sp_op_context *context, struct sp_rule *rule, const struct grouped *g,
                       const struct sp_attention_factors *f)
{
    uint8_t size =
        sp_dim_equal(g->cache_size, g->a.size) ? f->d : sp_rule_factor(rule, "ds", SP_FACTOR_REPLICATE, g->cache_size);
    bool is_same = g->a.has_past && sp_dim_equal(g->cache, g->a.past);
    bool has_cache = sp_place_shape(context, sp_out(1)) != NULL || sp_place_shape(context, sp_out(2)) != NULL;
    uint8_t out = is_same || !has_cache ? f->past : sp_rule_factor(rule, "c", SP_FACTOR_REPLICATE, g->cache);
    const uint8_t past[] = {f->b, f->kv, f->past, size}, present[] = {f->b, f->kv, out, size};
    const uint8_t scale[] = {f->b, f->kv, out, f->d};
    map_cache(context, rule, sp_in(IN_PAST_KEY), past);
    map_cache(context, rule, sp_in(IN_PAST_VALUE), past);
    map_cache(context, rule, sp_out(1), present);
    map_cache(context, rule, sp_out(2), present);
    map_cache(context, rule, sp_in(IN_KEY_SCALE), scale);
    map_cache(context, rule, sp_in(IN_VALUE_SCALE), scale);
}

static void add_traffic(struct sp_op_context *context, struct sp_rule *rule, const struct grouped *g,
                        const struct sp_attention_factors *f)
{
    const struct sp_shape *table = sp_in_shape(context, IN_COS);
    const uint8_t rows[] = {f->b, f->q};
    sp_attention_traffic(context, rule, &g->a,
                         &(struct sp_attention_operands){g->is_packed ? UINT32_MAX : IN_KEY,
                                                         g->is_packed ? UINT32_MAX : IN_VALUE, IN_PAST_KEY,
                                                         IN_PAST_VALUE, 1, 2, g->a.past, g->cache, false});
    if (table != NULL && table->rank > 0)
        sp_attention_rotary(rule, IN_COS, table->dims[0], sp_node_int(context->node, "do_rotary", 0) != 0, 2, rows);
}

static enum sp_status rule_grouped(struct sp_op_context *context, struct sp_rule *rule)
{
    struct grouped g = {0};
    struct sp_attention_factors f = {0};
    enum sp_status status = read_grouped(context, &g);
    if (status != SP_OK)
        return status;
    sp_attention_factors(context, rule, &g.a, true, &f);
    if (g.is_packed)
        f.keys = f.q;
    else if (!g.a.has_past) /* positions that count, and the keys that are given now */
        f.keys = sp_rule_factor(rule, "s", SP_FACTOR_REPLICATE, g.a.keys);
    map_queries(context, rule, &g, &f);
    map_caches(context, rule, &g, &f);
    const struct sp_head_axes y = {f.b, f.q, f.q_heads, sp_chain_of(f.d)};
    const struct sp_score_axes scores = sp_attention_scores(&g.a, &f);
    const struct sp_shape *lengths = sp_in_shape(context, IN_SEQLENS), *positions = sp_in_shape(context, IN_POSITIONS);
    sp_map_heads(context, rule, sp_out(0), &y);
    sp_map_scores(context, rule, sp_in(IN_BIAS), &scores);
    sp_map_scores(context, rule, sp_out(3), &scores);
    if (lengths != NULL && lengths->rank > 0 && !sp_dim_is(lengths->dims[0], 1))
        sp_rule_map_input(rule, IN_SEQLENS, 0, f.b);
    for (uint32_t axis = 0; positions != NULL && positions->rank == 2 && axis < 2; axis++) {
        if (!sp_dim_is(positions->dims[axis], 1))
            sp_rule_map_input(rule, IN_POSITIONS, axis, axis == 0 ? f.b : f.q);
    }
    if (sp_in_shape(context, IN_SINK) != NULL)
        sp_map_chain(rule, sp_in(IN_SINK), 0, &f.q_heads);
    for (uint32_t input = IN_QUERY_NORM; input <= IN_KEY_NORM; input++) {
        if (sp_in_shape(context, input) != NULL)
            sp_rule_map_input(rule, input, 0, f.d);
    }
    add_traffic(context, rule, &g, &f);
    return SP_OK;
}

const struct sp_op sp_ops_contrib_group_attention[] = {
    SP_ENTRY("com.microsoft", "GroupQueryAttention", 1, 0, 1, 16, 1, 4,
             "[b, q, kv*g*d] [b, s, kv*d] [b, s, kv*d] [b, kv, p, d] [b, kv, p, d] [b] -> [b, q, kv*g*d] [b, kv, c, d] "
             "[b, kv, c, d]; q, s, d, p, c whole; packed queries with g > 1: kv, g whole",
             "ONNX Runtime contrib operator GroupQueryAttention", .flags = SP_OP_ATTENDS, .shapes = shapes_grouped,
             .rule = rule_grouped, .lower = sp_lower_group_attention,
             .signature = "(query,key?,value?,past_key?,past_value?,seqlens_k,total_sequence_length,cos_cache?,"
                          "sin_cache?,position_ids?,attention_bias?,head_sink?,k_scale?,v_scale?,"
                          "q_norm_weight?,k_norm_weight?) -> (output,present_key?,present_value?,"
                          "output_qk?) {causal:int=1,do_rotary:int=0,k_quant_type:string=NONE,"
                          "kv_cache_bit_width:int,kv_num_heads!:int,local_window_size:int=-1,num_heads!:int,"
                          "qk_norm_epsilon:float,qk_output:int=0,rotary_interleaved:int=0,scale:float,"
                          "sliding_window_cache:int=0,smooth_softmax:int,softcap:float=0.0,"
                          "v_quant_type:string=NONE}"),
    {.name = NULL},
};
