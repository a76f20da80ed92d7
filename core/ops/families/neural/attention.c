/*
 * Attention of ONNX.
 *
 *     Attention       [b, kv*g, q, d] [b, kv, t, d] [b, kv, t, e] -> [b, kv*g, q, e]     apart
 *                     [b, q, kv*g*d]  [b, t, kv*d]  [b, t, kv*e]  -> [b, q, kv*g*e]      packed
 *     FlexAttention   as Attention, apart; its subgraphs see all scores at once
 *
 * What the letters are and which may be split: attention.h. The number of heads is an attribute where they are packed.
 */
#include "ops/families/neural/attention.h"

#include <math.h>

#include "ops/lowering/functions.h"
#include "ops/table/families.h"

/* ---- shared --------------------------------------------------------------------------------------------------- */

enum sp_status sp_attention_check(struct sp_op_context *context, struct sp_attention *attention)
{
    struct sp_dim q = attention->q_heads, kv = attention->kv_heads;
    if (sp_dim_is_known(q) && sp_dim_is_known(kv) && (kv.value == 0 ? q.value != 0 : q.value % kv.value != 0))
        return sp_op_fail(context, "SHAPES_DISAGREE", "its %lld query heads cannot share %lld heads of keys and values",
                          (long long)q.value, (long long)kv.value);
    attention->total =
        attention->has_past ? sp_dim_add(context->dims, attention->past, attention->keys) : attention->keys;
    return SP_OK;
}

static void add_work(struct sp_rule *rule, const struct sp_attention_factors *f)
{
    struct sp_factor_list scores = {0};
    sp_factor_list_add(&scores, f->b);
    for (uint32_t i = 0; i < f->q_heads.count; i++)
        sp_factor_list_add(&scores, f->q_heads.items[i]);
    sp_factor_list_add(&scores, f->q);
    sp_factor_list_add(&scores, f->total);
    struct sp_factor_list keys = scores, values = scores;
    sp_factor_list_add(&keys, f->d);
    sp_factor_list_add(&values, f->e);
    sp_rule_term_list(rule, 2, &keys);
    sp_rule_term_list(rule, 2, &values);
    sp_rule_term_list(rule, 5, &scores);
}

void sp_attention_factors(struct sp_op_context *context, struct sp_rule *rule, const struct sp_attention *attention,
                          bool ties_sizes, struct sp_attention_factors *ret_factors)
{
    enum sp_factor_kind of_heads = attention->has_whole_heads ? SP_FACTOR_REPLICATE : SP_FACTOR_PARALLEL;
    struct sp_dim group = sp_dim_exact_div(context->dims, attention->q_heads, attention->kv_heads);
    struct sp_attention_factors f = {0};
    f.b = sp_rule_factor(rule, "b", attention->has_whole_batch ? SP_FACTOR_REPLICATE : SP_FACTOR_PARALLEL,
                         attention->batch);
    f.kv = sp_rule_factor(rule, "kv", of_heads, attention->kv_heads);
    f.q_heads = f.kv_heads = sp_chain_of(f.kv);
    if (!sp_dim_is(group, 1) && !sp_dim_equal(attention->q_heads, attention->kv_heads)) {
        f.g = sp_rule_factor(rule, "g", of_heads, group);
        f.q_heads.items[f.q_heads.count++] = f.g;
    }
    f.q =
        sp_rule_factor(rule, "q", attention->is_placed ? SP_FACTOR_REPLICATE : SP_FACTOR_PARALLEL, attention->queries);
    if (attention->has_past) {
        f.past = sp_rule_factor(rule, "p", SP_FACTOR_REPLICATE, attention->past);
        f.keys = sp_rule_factor(rule, "s", SP_FACTOR_REPLICATE, attention->keys);
        f.total = sp_rule_factor(rule, "t", SP_FACTOR_REPLICATE, attention->total);
    } else {
        f.total = attention->has_whole_keys ? sp_rule_factor(rule, "t", SP_FACTOR_REPLICATE, attention->total)
                                            : sp_factor_reduction(rule, "t", attention->total, SP_COMBINE_SOFTMAX);
        f.past = f.keys = f.total;
    }
    f.d = sp_rule_factor(rule, "d", SP_FACTOR_REPLICATE, attention->size);
    if (ties_sizes)
        f.e = f.d;
    else
        f.e = sp_rule_factor(rule, "e", attention->has_whole_values ? SP_FACTOR_REPLICATE : SP_FACTOR_PARALLEL,
                             attention->value_size);
    add_work(rule, &f);
    sp_rule_attend(rule, &(struct sp_rule_attention){.batch = sp_amount_of(1, &f.b),
                                                     .heads = sp_amount_of(f.q_heads.count, f.q_heads.items),
                                                     .kv_heads = sp_amount_of(f.kv_heads.count, f.kv_heads.items),
                                                     .queries = sp_amount_of(1, &f.q),
                                                     .keys = sp_amount_of(1, &f.total),
                                                     .size = sp_amount_of(1, &f.d),
                                                     .left = (double)attention->before - 1,
                                                     .right = (double)attention->after - 1,
                                                     .kept = 1,
                                                     .is_first = attention->is_first});
    *ret_factors = f;
}

void sp_attention_traffic(const struct sp_op_context *context, struct sp_rule *rule,
                          const struct sp_attention *attention, const struct sp_attention_operands *o)
{
    const struct sp_attention_part part = sp_attention_part(rule, NULL);
    const double seen = part.keys * part.seen, given = (double)sp_dim_estimate(attention->keys);
    const double room = (double)sp_dim_estimate(o->cache_in);
    const uint32_t past[] = {o->past_key, o->past_value}, present[] = {o->present_key, o->present_value};
    if (!attention->has_past && sp_place_shape(context, sp_out(o->present_key)) == NULL) {
        sp_rule_use_input(rule, o->key, part.seen, NULL);
        sp_rule_use_input(rule, o->value, part.seen, NULL);
    }
    for (uint32_t i = 0; i < 2 && attention->has_past; i++) {
        if (given >= 0 && room > 0)
            sp_rule_use_input(rule, past[i], fmax(0, fmin(seen - given, room)) / room, NULL);
        sp_rule_use_output(rule, present[i], sp_dim_share(attention->keys, o->cache_out), NULL);
        if (!o->shares_buffer)
            sp_rule_past(context, rule, past[i], present[i]);
    }
}

void sp_attention_rotary(struct sp_rule *rule, uint32_t first_table, struct sp_dim rows, bool is_turned, uint32_t count,
                         const uint8_t *positions)
{
    struct sp_factor_list draws = {0};
    for (uint32_t i = 0; i < count; i++)
        sp_factor_list_add(&draws, positions[i]);
    for (uint32_t table = first_table; table < first_table + 2; table++)
        sp_rule_use_input(rule, table, is_turned ? sp_dim_share(sp_dim_known(1), rows) : 0, is_turned ? &draws : NULL);
}

struct sp_head_axes sp_attention_queries(const struct sp_attention_factors *f)
{
    return (struct sp_head_axes){f->b, f->q, f->q_heads, sp_chain_of(f->d)};
}

struct sp_head_axes sp_attention_result(const struct sp_attention_factors *f)
{
    return (struct sp_head_axes){f->b, f->q, f->q_heads, sp_chain_of(f->e)};
}

struct sp_head_axes sp_attention_keys(const struct sp_attention_factors *f, uint8_t length)
{
    return (struct sp_head_axes){f->b, length, f->kv_heads, sp_chain_of(f->d)};
}

struct sp_head_axes sp_attention_values(const struct sp_attention_factors *f, uint8_t length)
{
    return (struct sp_head_axes){f->b, length, f->kv_heads, sp_chain_of(f->e)};
}

struct sp_score_axes sp_attention_scores(const struct sp_attention *attention, const struct sp_attention_factors *f)
{
    return (struct sp_score_axes){f->b, f->q, f->total, f->q_heads, attention->total};
}

/* ---- Attention ------------------------------------------------------------------------------------------------ */

enum { IN_Q, IN_K, IN_V, IN_MASK, IN_PAST_KEY, IN_PAST_VALUE, IN_VALID };
enum { OUT_Y, OUT_PRESENT_KEY, OUT_PRESENT_VALUE, OUT_SCORES };

/* The first of two extents that says something. */
static struct sp_dim either(struct sp_dim a, struct sp_dim b)
{
    return a.kind != SP_DIM_UNKNOWN ? a : b;
}

struct operands {
    struct sp_heads q, k, v, past_key, past_value;
};

static enum sp_status read_operands(struct sp_op_context *context, struct operands *ret)
{
    int64_t q_heads = sp_node_int(context->node, "q_num_heads", 0);
    int64_t kv_heads = sp_node_int(context->node, "kv_num_heads", 0);
    enum sp_status status = sp_heads_read(context, IN_Q, q_heads, &ret->q);
    if (status == SP_OK)
        status = sp_heads_read(context, IN_K, kv_heads, &ret->k);
    if (status == SP_OK)
        status = sp_heads_read(context, IN_V, kv_heads, &ret->v);
    if (status == SP_OK)
        status = sp_heads_read(context, IN_PAST_KEY, 0, &ret->past_key);
    if (status == SP_OK)
        status = sp_heads_read(context, IN_PAST_VALUE, 0, &ret->past_value);
    return status;
}

/* The extents of an attention from the operands that hold heads; shared by Attention and FlexAttention. */
static enum sp_status join_operands(struct sp_op_context *context, const struct operands *o,
                                    struct sp_attention *ret_attention)
{
    const struct {
        const char *what;
        struct sp_dim a, b;
    } pairs[] = {
        {"batches", o->q.batch, o->k.batch},
        {"batches", o->k.batch, o->v.batch},
        {"head sizes", o->q.size, o->k.size},
        {"head counts", o->k.count, o->v.count},
        {"sequence lengths", o->k.length, o->v.length},
        {"head counts", o->past_key.count, o->k.count},
        {"head sizes", o->past_key.size, o->k.size},
        {"head sizes", o->past_value.size, o->v.size},
        {"batches", o->past_key.batch, o->k.batch},
        {"past lengths", o->past_key.length, o->past_value.length},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        enum sp_status status = sp_check_same(context, pairs[i].what, pairs[i].a, pairs[i].b);
        if (status != SP_OK)
            return status;
    }
    *ret_attention = (struct sp_attention){
        .batch = either(o->q.batch, either(o->k.batch, o->v.batch)),
        .q_heads = o->q.count,
        .kv_heads = either(o->k.count, o->v.count),
        .queries = o->q.length,
        .keys = either(o->k.length, o->v.length),
        .past = either(o->past_key.length, o->past_value.length),
        .size = either(o->q.size, o->k.size),
        .value_size = o->v.size,
        .has_past = sp_has_input(context, IN_PAST_KEY) || sp_has_input(context, IN_PAST_VALUE),
    };
    return sp_attention_check(context, ret_attention);
}

static bool sees_by_place(const struct sp_op_context *context)
{
    return sp_node_int(context->node, "is_causal", 0) != 0 || sp_node_int(context->node, "left_window_size", -1) >= 0 ||
           sp_node_int(context->node, "right_window_size", -1) >= 0;
}

/* Whether the mask has other keys than the attention: it is padded, or broadcast. */
static bool has_other_keys(const struct sp_op_context *context, const struct sp_attention *attention)
{
    const struct sp_shape *mask = sp_in_shape(context, IN_MASK);
    return mask != NULL && mask->rank > 0 && sp_dim_is_known(mask->dims[mask->rank - 1]) &&
           sp_dim_is_known(attention->total) && mask->dims[mask->rank - 1].value != attention->total.value;
}

static enum sp_status read_attention(struct sp_op_context *context, struct operands *ret_operands,
                                     struct sp_attention *ret_attention)
{
    enum sp_status status = read_operands(context, ret_operands);
    if (status == SP_OK)
        status = join_operands(context, ret_operands, ret_attention);
    if (status != SP_OK)
        return status;
    /* Versions differ in where the last query stands in a cache that is not full. */
    ret_attention->is_placed = sp_has_input(context, IN_VALID) && sees_by_place(context);
    ret_attention->has_whole_keys = ret_attention->is_placed || has_other_keys(context, ret_attention);
    ret_attention->before = sp_node_int(context->node, "left_window_size", -1) + 1;
    ret_attention->after =
        sp_node_int(context->node, "is_causal", 0) != 0 ? 1 : sp_node_int(context->node, "right_window_size", -1) + 1;
    ret_attention->is_first = !ret_attention->has_past && !sp_has_input(context, IN_VALID);
    return status;
}

/* The heads that Y has: those of Q with the size of V. */
static enum sp_status set_result(struct sp_op_context *context, const struct operands *o,
                                 const struct sp_attention *attention)
{
    struct sp_heads y = o->q;
    y.batch = attention->batch;
    y.size = attention->value_size;
    return sp_heads_set_output(context, OUT_Y, sp_in_dtype(context, IN_Q), &y);
}

static enum sp_status shapes_attention(struct sp_op_context *context)
{
    struct operands o = {0};
    struct sp_attention a = {0};
    enum sp_status status = read_attention(context, &o, &a);
    if (status == SP_OK)
        status = set_result(context, &o, &a);
    struct sp_heads key = {true, false, a.batch, a.total, a.kv_heads, a.size}, value = key;
    value.size = a.value_size;
    if (status == SP_OK)
        status = sp_heads_set_output(context, OUT_PRESENT_KEY, sp_in_dtype(context, IN_K), &key);
    if (status == SP_OK)
        status = sp_heads_set_output(context, OUT_PRESENT_VALUE, sp_in_dtype(context, IN_V), &value);
    const struct sp_dim scores[] = {a.batch, a.q_heads, a.queries, a.total};
    return status != SP_OK ? status : sp_set_output(context, OUT_SCORES, sp_in_dtype(context, IN_Q), 4, scores);
}

static enum sp_status rule_attention(struct sp_op_context *context, struct sp_rule *rule)
{
    struct operands o = {0};
    struct sp_attention a = {0};
    struct sp_attention_factors f = {0};
    enum sp_status status = read_attention(context, &o, &a);
    if (status != SP_OK)
        return status;
    sp_attention_factors(context, rule, &a, false, &f);
    struct sp_head_axes q = sp_attention_queries(&f), y = sp_attention_result(&f);
    struct sp_head_axes k = sp_attention_keys(&f, f.keys), v = sp_attention_values(&f, f.keys);
    struct sp_score_axes scores = sp_attention_scores(&a, &f);
    sp_map_heads(context, rule, sp_in(IN_Q), &q);
    sp_map_heads(context, rule, sp_in(IN_K), &k);
    sp_map_heads(context, rule, sp_in(IN_V), &v);
    sp_map_heads(context, rule, sp_out(OUT_Y), &y);
    k.length = v.length = f.past;
    sp_map_heads(context, rule, sp_in(IN_PAST_KEY), &k);
    sp_map_heads(context, rule, sp_in(IN_PAST_VALUE), &v);
    k.length = v.length = f.total;
    sp_map_heads(context, rule, sp_out(OUT_PRESENT_KEY), &k);
    sp_map_heads(context, rule, sp_out(OUT_PRESENT_VALUE), &v);
    sp_map_scores(context, rule, sp_in(IN_MASK), &scores);
    sp_map_scores(context, rule, sp_out(OUT_SCORES), &scores);
    if (sp_has_input(context, IN_VALID) && rule->inputs[IN_VALID].rank == 1)
        sp_rule_map_input(rule, IN_VALID, 0, f.b);
    sp_attention_traffic(context, rule, &a,
                         &(struct sp_attention_operands){IN_K, IN_V, IN_PAST_KEY, IN_PAST_VALUE, OUT_PRESENT_KEY,
                                                         OUT_PRESENT_VALUE, a.past, a.total, false});
    return SP_OK;
}

/* ---- FlexAttention -------------------------------------------------------------------------------------------- */

static enum sp_status read_flex(struct sp_op_context *context, struct operands *ret_operands,
                                struct sp_attention *ret_attention)
{
    for (uint32_t input = 0; input < 3; input++) {
        const struct sp_shape *shape = sp_in_shape(context, input);
        if (shape != NULL && shape->rank != 4)
            return sp_op_fail(context, "OPERAND_SHAPE", "its input %u has rank %u instead of 4", input, shape->rank);
    }
    enum sp_status status = read_operands(context, ret_operands);
    return status != SP_OK ? status : join_operands(context, ret_operands, ret_attention);
}

static enum sp_status shapes_flex(struct sp_op_context *context)
{
    struct operands o = {0};
    struct sp_attention a = {0};
    enum sp_status status = read_flex(context, &o, &a);
    return status != SP_OK ? status : set_result(context, &o, &a);
}

/* A subgraph gets the scores as one tensor, and may read from any element which batch, head, query and key it is of;
   so with one nothing but the values' size is split. */
static enum sp_status rule_flex(struct sp_op_context *context, struct sp_rule *rule)
{
    struct operands o = {0};
    struct sp_attention a = {0};
    struct sp_attention_factors f = {0};
    enum sp_status status = read_flex(context, &o, &a);
    if (status != SP_OK)
        return status;
    if (sp_node_attribute(context->node, "score_mod") != NULL || sp_node_attribute(context->node, "prob_mod") != NULL)
        a.is_placed = a.has_whole_heads = a.has_whole_keys = a.has_whole_batch = true;
    sp_attention_factors(context, rule, &a, false, &f);
    struct sp_head_axes q = sp_attention_queries(&f), y = sp_attention_result(&f);
    struct sp_head_axes k = sp_attention_keys(&f, f.keys), v = sp_attention_values(&f, f.keys);
    sp_map_heads(context, rule, sp_in(IN_Q), &q);
    sp_map_heads(context, rule, sp_in(IN_K), &k);
    sp_map_heads(context, rule, sp_in(IN_V), &v);
    sp_map_heads(context, rule, sp_out(OUT_Y), &y);
    return SP_OK;
}

const struct sp_op sp_ops_attention[] = {
    SP_ENTRY("", "Attention", 23, 23, 3, 6, 1, 4,
             "[b, kv*g, q, d] [b, kv, t, d] [b, kv, t, e] -> [b, kv*g, q, e], or packed [b, q, kv*g*d] [b, t, kv*d] "
             "[b, t, kv*e] -> [b, q, kv*g*e]; t softmax, d whole, with a past or a mask of other keys t whole, causal "
             "in caches that are not full q, t whole",
             "ONNX operator Attention (23, 24, 25)", .flags = SP_OP_ATTENDS, .shapes = shapes_attention,
             .rule = rule_attention, .lower = sp_lower_attention),
    SP_ENTRY("", "Attention", 24, 0, 3, 7, 1, 4,
             "[b, kv*g, q, d] [b, kv, t, d] [b, kv, t, e] -> [b, kv*g, q, e], or packed [b, q, kv*g*d] [b, t, kv*d] "
             "[b, t, kv*e] -> [b, q, kv*g*e]; t softmax, d whole, with a past or a mask of other keys t whole, causal "
             "in caches that are not full q, t whole",
             "ONNX operator Attention (23, 24, 25)", .flags = SP_OP_ATTENDS, .shapes = shapes_attention,
             .rule = rule_attention, .lower = sp_lower_attention),
    SP_ENTRY("ai.onnx.preview", "FlexAttention", 1, 0, 3, 3, 1, 1,
             "[b, kv*g, q, d] [b, kv, t, d] [b, kv, t, e] -> [b, kv*g, q, e]; t softmax, d whole; with subgraphs only "
             "e is split",
             "ONNX operator FlexAttention (ai.onnx.preview 1)", .flags = SP_OP_ATTENDS, .shapes = shapes_flex,
             .rule = rule_flex, .lower = sp_lower_attention),
    {.name = NULL},
};
