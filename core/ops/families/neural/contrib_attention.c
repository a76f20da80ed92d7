/*
 * Attention operators of ONNX Runtime (com.microsoft). What the letters are and which may be split: attention.h.
 *
 *     Attention             [b, s, i] [i, three*h*d] [three*h*d] -> [b, s, h*d]      projects its input first
 *     MultiHeadAttention    [b, q, h*d] [b, t, h*d] [b, t, h*e] -> [b, q, h*e]        or packed, see below
 *     GroupQueryAttention   [b, q, kv*g*d] [b, t, kv*d] [b, t, kv*d] -> [b, q, kv*g*d]
 *
 * Packed operands hold queries, keys and values side by side. Where all three have the same size that axis is the
 * compound three*h*d: a split of the heads takes a part of each third. Where they differ no split of the axis is one of
 * the heads, and the heads are whole. One axis of positions is then queries and keys at once, so it is whole.
 *
 * Caches: with a past, present is past and new joined; where one buffer serves both (an input says how much of it is
 * filled), present has the buffer's size.
 */
#include "ops/families/neural/attention.h"
#include "ops/lowering/functions.h"
#include "ops/table/families.h"

#define DOMAIN "com.microsoft"

static struct sp_dim axis_of(const struct sp_shape *shape, uint32_t axis)
{
    return shape != NULL && axis < shape->rank ? shape->dims[axis] : sp_dim_unknown();
}

/* Inputs with one rank each. */
struct ranked {
    uint32_t input, rank;
};

static enum sp_status check_ranks(struct sp_op_context *context, const struct ranked *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        enum sp_status status = sp_check_rank(context, inputs[i].input, inputs[i].rank);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

static enum sp_status read_heads(struct sp_op_context *context, const char *attribute, int64_t *ret_heads)
{
    *ret_heads = sp_node_int(context->node, attribute, 0);
    if (*ret_heads < 1)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute '%s' must be given and positive", attribute);
    return SP_OK;
}

/* ---- masks ---------------------------------------------------------------------------------------------------- */

/* How a mask of rank 1 follows the batch: one length for each sequence, ends and then starts, or neither. */
enum lengths { LENGTHS_ONE, LENGTHS_TWO, LENGTHS_OTHER };

static enum lengths lengths_of(struct sp_op_context *context, const struct sp_shape *mask, struct sp_dim batch)
{
    if (sp_dim_equal(mask->dims[0], batch))
        return LENGTHS_ONE;
    if (sp_dim_equal(mask->dims[0], sp_dim_mul(context->dims, batch, sp_dim_known(2))))
        return LENGTHS_TWO;
    return LENGTHS_OTHER;
}

/* A mask whose axis does not follow the batch keeps the batch whole. */
static bool holds_batch(struct sp_op_context *context, uint32_t input, struct sp_dim batch)
{
    const struct sp_shape *mask = sp_in_shape(context, input);
    return mask != NULL && mask->rank == 1 && lengths_of(context, mask, batch) == LENGTHS_OTHER;
}

/* [b], [2b], [b, t], [b, q, t], or [b, 1, m, m] of which a runtime takes the part it needs. */
static void map_mask(struct sp_op_context *context, struct sp_rule *rule, uint32_t input,
                     const struct sp_attention *attention, const struct sp_attention_factors *f)
{
    const struct sp_shape *mask = sp_in_shape(context, input);
    if (mask == NULL || mask->rank == 0)
        return;
    if (mask->rank == 1) {
        enum lengths lengths = lengths_of(context, mask, attention->batch);
        if (lengths == LENGTHS_TWO)
            sp_rule_map_input(rule, input, 0, sp_rule_factor(rule, "ends", SP_FACTOR_REPLICATE, sp_dim_known(2)));
        if (lengths != LENGTHS_OTHER)
            sp_rule_map_input(rule, input, 0, f->b);
        return;
    }
    if (!sp_dim_is(mask->dims[0], 1))
        sp_rule_map_input(rule, input, 0, f->b);
    if (mask->rank > 3)
        return;
    if (mask->rank == 3)
        sp_rule_map_input(rule, input, 1, f->q);
    struct sp_dim extent = mask->dims[mask->rank - 1];
    if (!sp_dim_is_known(extent) || !sp_dim_is_known(attention->total) || extent.value == attention->total.value)
        sp_rule_map_input(rule, input, mask->rank - 1, f->total);
}

/* ---- Attention ------------------------------------------------------------------------------------------------ */

enum { A_INPUT, A_WEIGHTS, A_BIAS, A_MASK, A_PAST, A_ATTENTION_BIAS, A_PAST_LENGTH };

struct projected {
    struct sp_attention a;
    struct sp_dim hidden;     /* of Q and K */
    struct sp_dim out_hidden; /* of V and the output */
    bool is_even;             /* Q, K and V have one size */
    bool shares_buffer;
};

static enum sp_status read_sizes(struct sp_op_context *context, struct projected *p)
{
    struct sp_dim packed = axis_of(sp_in_shape(context, A_WEIGHTS), 1);
    uint32_t count;
    const int64_t *sizes = sp_node_ints(context->node, "qkv_hidden_sizes", &count);
    if (sizes == NULL || count == 0) {
        p->hidden = p->out_hidden = sp_dim_exact_div(context->dims, packed, sp_dim_known(3));
        p->is_even = true;
        if (sp_dim_is_known(packed) && packed.value % 3 != 0)
            return sp_op_fail(context, "OPERAND_SHAPE",
                              "its weights have %lld columns, which are not queries, keys and values of one size",
                              (long long)packed.value);
        return SP_OK;
    }
    if (count != 3 || sizes[0] < 1 || sizes[0] != sizes[1] || sizes[2] < 1)
        return sp_op_fail(context, "ATTRIBUTE_VALUE",
                          "attribute 'qkv_hidden_sizes' must hold three positive sizes, the first two the same");
    p->hidden = sp_dim_known(sizes[0]);
    p->out_hidden = sp_dim_known(sizes[2]);
    p->is_even = sizes[0] == sizes[2];
    struct sp_dim sum = sp_dim_add(context->dims, sp_dim_add(context->dims, p->hidden, p->hidden), p->out_hidden);
    return sp_check_same(context, "columns of weights", packed, sum);
}

static enum sp_status read_projected(struct sp_op_context *context, struct projected *ret)
{
    const struct sp_shape *x = sp_in_shape(context, A_INPUT), *past = sp_in_shape(context, A_PAST);
    int64_t heads = 0;
    struct projected p = {.shares_buffer = sp_node_int(context->node, "past_present_share_buffer", 0) != 0};
    static const struct ranked ranks[] = {{A_INPUT, 3}, {A_WEIGHTS, 2}, {A_BIAS, 1}, {A_PAST, 5}};
    enum sp_status status = check_ranks(context, ranks, sizeof ranks / sizeof ranks[0]);
    if (status == SP_OK)
        status = read_heads(context, "num_heads", &heads);
    if (status == SP_OK)
        status = read_sizes(context, &p);
    if (status != SP_OK)
        return status;
    if ((sp_dim_is_known(p.hidden) && p.hidden.value % heads != 0) ||
        (sp_dim_is_known(p.out_hidden) && p.out_hidden.value % heads != 0))
        return sp_op_fail(context, "OPERAND_SHAPE", "its weights do not divide into %lld heads", (long long)heads);
    p.a = (struct sp_attention){.batch = axis_of(x, 0),
                                .queries = axis_of(x, 1),
                                .keys = axis_of(x, 1),
                                .past = axis_of(past, 3),
                                .kv_heads = sp_dim_known(heads),
                                .q_heads = sp_dim_known(heads),
                                .has_past = sp_has_input(context, A_PAST),
                                .is_placed = true, /* the input's positions are queries and keys at once */
                                .has_whole_keys = true,
                                .has_whole_heads = !p.is_even,
                                .has_whole_values = !p.is_even,
                                .after = sp_node_int(context->node, "unidirectional", 0) != 0 ? 1 : 0};
    p.a.size = sp_dim_exact_div(context->dims, p.hidden, p.a.kv_heads);
    p.a.value_size = sp_dim_exact_div(context->dims, p.out_hidden, p.a.kv_heads);
    p.a.has_whole_batch = holds_batch(context, A_MASK, p.a.batch);
    status = sp_check_same(context, "columns and rows", axis_of(x, 2), axis_of(sp_in_shape(context, A_WEIGHTS), 0));
    if (status == SP_OK)
        status = sp_attention_check(context, &p.a);
    *ret = p;
    return status;
}

static enum sp_status shapes_projected(struct sp_op_context *context)
{
    struct projected p = {0};
    enum sp_status status = read_projected(context, &p);
    if (status != SP_OK)
        return status;
    const struct sp_dim y[] = {p.a.batch, p.a.queries, p.out_hidden};
    status = sp_set_output(context, 0, sp_in_dtype(context, A_INPUT), 3, y);
    if (status != SP_OK)
        return status;
    if (p.shares_buffer)
        return sp_set_output_shape(context, 1, sp_in_dtype(context, A_INPUT), sp_in_shape(context, A_PAST));
    const struct sp_dim present[] = {sp_dim_known(2), p.a.batch, p.a.kv_heads, p.a.total, p.a.size};
    return sp_set_output(context, 1, sp_in_dtype(context, A_INPUT), 5, present);
}

/* [two, b, h, length, d]: keys and values in one tensor. */
static void map_cache(struct sp_rule *rule, struct sp_place place, uint8_t two, uint8_t length,
                      const struct sp_attention_factors *f)
{
    const uint8_t factors[] = {two, f->b, f->kv, length, f->d};
    for (uint32_t axis = 0; axis < 5; axis++)
        sp_map(rule, place, axis, factors[axis]);
}

static enum sp_status rule_projected(struct sp_op_context *context, struct sp_rule *rule)
{
    struct projected p = {0};
    struct sp_attention_factors f = {0};
    enum sp_status status = read_projected(context, &p);
    if (status != SP_OK)
        return status;
    sp_attention_factors(context, rule, &p.a, p.is_even, &f);
    const struct sp_shape *weights = sp_in_shape(context, A_WEIGHTS);
    uint8_t i = sp_rule_factor(rule, "i", SP_FACTOR_REPLICATE, weights->dims[0]);
    uint8_t three = p.is_even ? sp_rule_factor(rule, "three", SP_FACTOR_REPLICATE, sp_dim_known(3)) : i;
    uint8_t whole = p.is_even ? i : sp_rule_factor(rule, "qkv", SP_FACTOR_REPLICATE, weights->dims[1]);
    const struct sp_chain even = {.count = 3, .items = {three, f.kv, f.d}}, uneven = sp_chain_of(whole);
    const struct sp_chain *packed = p.is_even ? &even : &uneven;
    sp_rule_map_input(rule, A_INPUT, 0, f.b);
    sp_rule_map_input(rule, A_INPUT, 1, f.q);
    sp_rule_map_input(rule, A_INPUT, 2, i);
    sp_rule_map_input(rule, A_WEIGHTS, 0, i);
    sp_map_chain(rule, sp_in(A_WEIGHTS), 1, packed);
    if (sp_in_shape(context, A_BIAS) != NULL)
        sp_map_chain(rule, sp_in(A_BIAS), 0, packed);
    const struct sp_head_axes y = sp_attention_result(&f);
    const struct sp_score_axes scores = sp_attention_scores(&p.a, &f);
    sp_map_heads(context, rule, sp_out(0), &y);
    sp_map_scores(context, rule, sp_in(A_ATTENTION_BIAS), &scores);
    map_mask(context, rule, A_MASK, &p.a, &f);
    bool has_past = sp_in_shape(context, A_PAST) != NULL, has_present = sp_place_shape(context, sp_out(1)) != NULL;
    uint8_t two = has_past || has_present ? sp_rule_factor(rule, "two", SP_FACTOR_REPLICATE, sp_dim_known(2)) : i;
    if (has_past)
        map_cache(rule, sp_in(A_PAST), two, f.past, &f);
    if (has_present)
        map_cache(rule, sp_out(1), two, p.shares_buffer ? f.past : f.total, &f);
    const uint8_t even_work[] = {f.b, f.q, i, three, f.kv, f.d}, uneven_work[] = {f.b, f.q, i, whole};
    sp_rule_term(rule, 2, p.is_even ? 6 : 4, p.is_even ? even_work : uneven_work);
    sp_attention_traffic(context, rule, &p.a,
                         &(struct sp_attention_operands){UINT32_MAX, UINT32_MAX, A_PAST, A_PAST, 1, 1, p.a.past,
                                                         p.shares_buffer ? p.a.past : p.a.total, p.shares_buffer});
    return SP_OK;
}

/* ---- MultiHeadAttention --------------------------------------------------------------------------------------- */

enum { M_QUERY, M_KEY, M_VALUE, M_BIAS, M_MASK, M_ATTENTION_BIAS, M_PAST_KEY, M_PAST_VALUE, M_PAST_LENGTH, M_BEAMS };

/* query [b, q, h, 3, d] holds all three; key [b, t, h, 2, d] keys and values; key and value [b, h, t, d] come from a
   cache; else each is [b, length, h*size]. */
struct multi_head {
    struct sp_attention a;
    struct sp_heads q, k, v;
    bool has_packed_query, has_packed_key, shares_buffer, ties_sizes;
};

static struct sp_heads packed_heads(const struct sp_shape *shape)
{
    return (struct sp_heads){true, true, shape->dims[0], shape->dims[1], shape->dims[2], shape->dims[4]};
}

static enum sp_status read_packed(struct sp_op_context *context, uint32_t input, int64_t heads, int64_t parts,
                                  struct sp_heads *ret_heads)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    *ret_heads = packed_heads(shape);
    if (sp_dim_is_known(shape->dims[3]) && shape->dims[3].value != parts)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input %u packs %lld parts instead of %lld", input,
                          (long long)shape->dims[3].value, (long long)parts);
    return sp_check_same(context, "head counts", ret_heads->count, sp_dim_known(heads));
}

static enum sp_status read_three(struct sp_op_context *context, int64_t heads, struct multi_head *m)
{
    const struct sp_shape *query = sp_in_shape(context, M_QUERY), *key = sp_in_shape(context, M_KEY);
    m->has_packed_query = query != NULL && query->rank == 5;
    m->has_packed_key = key != NULL && key->rank == 5;
    enum sp_status status = m->has_packed_query ? read_packed(context, M_QUERY, heads, 3, &m->q)
                                                : sp_heads_read(context, M_QUERY, heads, &m->q);
    if (status != SP_OK)
        return status;
    if (m->has_packed_query) {
        m->k = m->v = m->q;
        return SP_OK;
    }
    status =
        m->has_packed_key ? read_packed(context, M_KEY, heads, 2, &m->k) : sp_heads_read(context, M_KEY, heads, &m->k);
    if (status == SP_OK && m->has_packed_key)
        m->v = m->k;
    else if (status == SP_OK)
        status = sp_heads_read(context, M_VALUE, heads, &m->v);
    return status;
}

/* What keeps the keys whole: runtimes differ in which scores the fourth output holds and in what a bias does to keys
   from a cache; masks of other forms than [b], [b, t] and [b, q, t] follow no split. */
static bool has_odd_keys(struct sp_op_context *context, const struct multi_head *m)
{
    const struct sp_shape *mask = sp_in_shape(context, M_MASK);
    if (sp_place_shape(context, sp_out(3)) != NULL ||
        (sp_has_input(context, M_BIAS) && m->k.has_rank && !m->k.is_packed))
        return true;
    if (mask == NULL)
        return false;
    if (mask->rank == 1)
        return lengths_of(context, mask, m->q.batch) != LENGTHS_ONE;
    return mask->rank == 0 || mask->rank > 3 ||
           (sp_dim_is_known(mask->dims[mask->rank - 1]) && sp_dim_is_known(m->k.length) &&
            mask->dims[mask->rank - 1].value != m->k.length.value);
}

static enum sp_status read_multi_head(struct sp_op_context *context, struct multi_head *ret)
{
    const struct sp_shape *past = sp_in_shape(context, M_PAST_KEY);
    int64_t heads = 0;
    struct multi_head m = {.shares_buffer = sp_has_input(context, M_PAST_LENGTH)};
    static const struct ranked ranks[] = {{M_BIAS, 1}, {M_PAST_KEY, 4}, {M_PAST_VALUE, 4}, {M_BEAMS, 3}};
    enum sp_status status = check_ranks(context, ranks, sizeof ranks / sizeof ranks[0]);
    if (status == SP_OK)
        status = read_heads(context, "num_heads", &heads);
    if (status == SP_OK)
        status = read_three(context, heads, &m);
    if (status == SP_OK)
        status = sp_check_same(context, "head sizes", m.q.size, m.k.size);
    if (status == SP_OK)
        status = sp_check_same(context, "sequence lengths", m.k.length, m.v.length);
    if (status == SP_OK)
        status = sp_check_same(context, "batches", m.q.batch, m.k.batch);
    if (status != SP_OK)
        return status;
    m.a = (struct sp_attention){.batch = m.q.batch,
                                .queries = m.q.length,
                                .keys = m.k.length,
                                .past = axis_of(past, 2),
                                .kv_heads = sp_dim_known(heads),
                                .q_heads = sp_dim_known(heads),
                                .size = m.q.size,
                                .value_size = m.v.size,
                                .has_past = sp_has_input(context, M_PAST_KEY),
                                .after = sp_node_int(context->node, "unidirectional", 0) != 0 ? 1 : 0};
    m.a.is_placed = m.has_packed_query;
    m.a.has_whole_keys = m.has_packed_query || has_odd_keys(context, &m);
    m.a.has_whole_batch = holds_batch(context, M_MASK, m.a.batch);
    /* The bias holds all three side by side, and packed operands have one size for them. */
    m.ties_sizes =
        m.has_packed_query || m.has_packed_key || (sp_has_input(context, M_BIAS) && sp_dim_equal(m.q.size, m.v.size));
    m.a.has_whole_heads = m.a.has_whole_values = sp_has_input(context, M_BIAS) && !m.ties_sizes;
    /* Caches of keys and of values have one shape. */
    m.a.has_whole_values = m.a.has_whole_values || m.a.has_past || (m.k.has_rank && !m.k.is_packed);
    *ret = m;
    return sp_attention_check(context, &ret->a);
}

static enum sp_status shapes_multi_head(struct sp_op_context *context)
{
    struct multi_head m = {0};
    enum sp_status status = read_multi_head(context, &m);
    if (status != SP_OK)
        return status;
    enum sp_dtype dtype = sp_in_dtype(context, M_QUERY);
    struct sp_dim hidden = sp_dim_mul(context->dims, m.a.q_heads, m.a.value_size);
    const struct sp_dim y[] = {m.a.batch, m.a.queries, hidden};
    struct sp_dim length = m.shares_buffer ? m.a.past : m.a.total;
    const struct sp_heads key = {true, false, m.a.batch, length, m.a.kv_heads, m.a.size};
    const struct sp_heads value = {true, false, m.a.batch, length, m.a.kv_heads, m.a.value_size};
    const struct sp_dim scores[] = {m.a.batch, m.a.q_heads, m.a.queries, m.a.total};
    status = sp_set_output(context, 0, dtype, 3, y);
    if (status == SP_OK)
        status = sp_heads_set_output(context, 1, dtype, &key);
    if (status == SP_OK)
        status = sp_heads_set_output(context, 2, dtype, &value);
    return status != SP_OK ? status : sp_set_output(context, 3, dtype, 4, scores);
}

static void map_packed(struct sp_rule *rule, uint32_t input, uint8_t length, uint8_t parts,
                       const struct sp_attention_factors *f)
{
    const uint8_t factors[] = {f->b, length, f->kv, parts, f->d};
    for (uint32_t axis = 0; axis < 5; axis++)
        sp_rule_map_input(rule, input, axis, factors[axis]);
}

static void map_three(struct sp_op_context *context, struct sp_rule *rule, const struct multi_head *m,
                      const struct sp_attention_factors *f)
{
    const struct sp_head_axes q = sp_attention_queries(f), k = sp_attention_keys(f, f->keys),
                              v = sp_attention_values(f, f->keys);
    if (m->has_packed_query) {
        map_packed(rule, M_QUERY, f->q, sp_rule_factor(rule, "three", SP_FACTOR_REPLICATE, sp_dim_known(3)), f);
        return;
    }
    sp_map_heads(context, rule, sp_in(M_QUERY), &q);
    if (m->has_packed_key) {
        map_packed(rule, M_KEY, f->keys, sp_rule_factor(rule, "two", SP_FACTOR_REPLICATE, sp_dim_known(2)), f);
        return;
    }
    sp_map_heads(context, rule, sp_in(M_KEY), &k);
    sp_map_heads(context, rule, sp_in(M_VALUE), &v);
}

static enum sp_status rule_multi_head(struct sp_op_context *context, struct sp_rule *rule)
{
    struct multi_head m = {0};
    struct sp_attention_factors f = {0};
    enum sp_status status = read_multi_head(context, &m);
    if (status != SP_OK)
        return status;
    sp_attention_factors(context, rule, &m.a, m.ties_sizes, &f);
    map_three(context, rule, &m, &f);
    const struct sp_shape *bias = sp_in_shape(context, M_BIAS), *beams = sp_in_shape(context, M_BEAMS);
    const struct sp_head_axes y = sp_attention_result(&f);
    const struct sp_score_axes scores = sp_attention_scores(&m.a, &f);
    if (bias != NULL && m.ties_sizes) {
        uint8_t parts = sp_rule_factor(rule, "parts", SP_FACTOR_REPLICATE, sp_dim_known(3));
        const struct sp_chain chain = {.count = 3, .items = {parts, f.kv, f.d}};
        sp_map_chain(rule, sp_in(M_BIAS), 0, &chain);
    }
    map_mask(context, rule, M_MASK, &m.a, &f);
    sp_map_scores(context, rule, sp_in(M_ATTENTION_BIAS), &scores);
    struct sp_head_axes k = sp_attention_keys(&f, f.past), v = sp_attention_values(&f, f.past);
    sp_map_heads(context, rule, sp_in(M_PAST_KEY), &k);
    sp_map_heads(context, rule, sp_in(M_PAST_VALUE), &v);
    if (beams != NULL)
        sp_rule_map_input(rule, M_BEAMS, 0, f.b);
    sp_map_heads(context, rule, sp_out(0), &y);
    k.length = v.length = m.shares_buffer ? f.past : f.total;
    sp_map_heads(context, rule, sp_out(1), &k);
    sp_map_heads(context, rule, sp_out(2), &v);
    sp_map_scores(context, rule, sp_out(3), &scores);
    const bool is_apart = !m.has_packed_query && !m.has_packed_key;
    sp_attention_traffic(context, rule, &m.a,
                         &(struct sp_attention_operands){is_apart ? M_KEY : UINT32_MAX, is_apart ? M_VALUE : UINT32_MAX,
                                                         M_PAST_KEY, M_PAST_VALUE, 1, 2, m.a.past,
                                                         m.shares_buffer ? m.a.past : m.a.total, m.shares_buffer});
    return SP_OK;
}

/* ---- the entries ---------------------------------------------------------------------------------------------- */

const struct sp_op sp_ops_contrib_attention[] = {
    SP_ENTRY(DOMAIN, "Attention", 1, 0, 2, 7, 1, 2,
             "[b, q, i] [i, three*kv*d] [three*kv*d] [b, t] [two, b, kv, p, d] -> [b, q, kv*d] [two, b, kv, t, d]; q, "
             "i, three, d, t whole",
             "ONNX Runtime contrib operator Attention", .shapes = shapes_projected, .rule = rule_projected,
             .lower = sp_lower_projected_attention,
             .signature = "(input,weights,bias?,mask_index?,past?,attention_bias?,"
                          "past_sequence_length?) -> (output,present?) {do_rotary:int=0,"
                          "mask_filter_value:float,num_heads!:int,past_present_share_buffer:int=0,"
                          "qkv_hidden_sizes:ints,rotary_embedding_dim:int,scale:float,unidirectional:int=0}"),
    SP_ENTRY(DOMAIN, "MultiHeadAttention", 1, 0, 1, 10, 1, 4,
             "[b, q, kv*d] [b, t, kv*d] [b, t, kv*e] -> [b, q, kv*e], or packed [b, q, kv, three, d], or [b, q, kv*d] "
             "[b, t, kv, two, d]; t softmax, d whole, with a past, scores or masks that are none of [b], [b, t], [b, "
             "q, t] t whole, with packed queries q, t whole, with caches e whole",
             "ONNX Runtime contrib operator MultiHeadAttention", .flags = SP_OP_ATTENDS, .shapes = shapes_multi_head,
             .rule = rule_multi_head, .lower = sp_lower_multi_head_attention,
             .signature = "(query,key?,value?,bias?,key_padding_mask?,attention_bias?,past_key?,past_value?,"
                          "past_sequence_length?,cache_indirection?) -> (output,present_key?,present_value?,"
                          "qk?) {mask_filter_value:float,num_heads!:int,scale:float,unidirectional:int=0}"),
    {.name = NULL},
};
