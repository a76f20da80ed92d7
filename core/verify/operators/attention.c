/*
 * Attention as its definition has it: scores of queries and keys, what masks leave of them, a softmax over the keys, and
 * the values by it.
 */
#include <float.h>
#include <string.h>

#include "base/limits.h"
#include "verify/operators/steps.h"

enum { IN_Q, IN_K, IN_V, IN_MASK, IN_PAST_KEY, IN_PAST_VALUE, IN_LENGTHS };
enum { OUT_Y, OUT_KEY, OUT_VALUE, OUT_SCORES };
enum { PRODUCTS, CAPPED, BIASED, WEIGHTS };

struct attention {
    struct sp_numbers *q, *k, *v;            /* [b, heads, places, size] */
    const struct sp_numbers *mask, *lengths; /* or NULL */
    int64_t past;                            /* keys in front of those of query 0 */
    int64_t before, after;                   /* how far a query looks; -1: as far as there is something */
};

/* [b, places, heads * size] as [b, heads, places, size]. */
static struct sp_numbers *apart(struct sp_steps *steps, const struct sp_numbers *x, int64_t heads)
{
    static const uint32_t perm[] = {0, 2, 1, 3};
    struct sp_numbers *view = NULL;
    if (steps->status != SP_OK)
        return NULL;
    if (x->rank == 4) {
        steps->status = sp_numbers_view(steps->call->arena, x, x->rank, x->axes, &view, steps->call->err);
        return view;
    }
    if (x->rank != 3 || heads < 1 || x->axes[2].extent % heads != 0) {
        steps->status = sp_call_refuse(steps->call, "its heads do not fit its operands");
        return NULL;
    }
    const int64_t extents[] = {x->axes[0].extent, x->axes[1].extent, heads, x->axes[2].extent / heads};
    return sp_step_transpose(steps, sp_step_reshape(steps, x, 4, extents), perm);
}

static struct sp_numbers *behind(struct sp_steps *steps, const struct sp_numbers *past, struct sp_numbers *x)
{
    struct sp_numbers *out = NULL;
    if (steps->status != SP_OK || past == NULL)
        return x;
    steps->status =
        sp_numbers_concat(steps->call->arena, 2, (const struct sp_numbers *[]){past, x}, 2, &out, steps->call->err);
    return out;
}

static struct sp_numbers *grouped(struct sp_steps *steps, const struct sp_numbers *x, int64_t kv_heads)
{
    if (steps->status != SP_OK)
        return NULL;
    if (kv_heads < 1 || x->axes[1].extent % kv_heads != 0) {
        steps->status = sp_call_refuse(steps->call, "its heads are no multiple of those of its keys");
        return NULL;
    }
    const int64_t extents[] = {x->axes[0].extent, kv_heads, x->axes[1].extent / kv_heads, x->axes[2].extent,
                               x->axes[3].extent};
    return sp_step_reshape(steps, x, 5, extents);
}

static struct sp_numbers *ungrouped(struct sp_steps *steps, const struct sp_numbers *x)
{
    if (steps->status != SP_OK)
        return NULL;
    const int64_t extents[] = {x->axes[0].extent, x->axes[1].extent * x->axes[2].extent, x->axes[3].extent,
                               x->axes[4].extent};
    return sp_step_reshape(steps, x, 4, extents);
}

enum { B, H, G, S, T, D };

/* The factor in the type of the scores. */
static struct sp_numbers *scale_of(struct sp_steps *steps, enum sp_dtype dtype, double scale)
{
    struct sp_numbers *out = sp_step_number(steps, dtype, scale);
    if (out != NULL)
        out->items[0].field = sp_field_of_type(scale, dtype);
    return out;
}

static struct sp_numbers *products(struct sp_steps *steps, const struct attention *attention)
{
    struct sp_call *call = steps->call;
    const struct sp_numbers *k = attention->k;
    struct sp_numbers *q = steps->status == SP_OK ? grouped(steps, attention->q, k->axes[1].extent) : NULL;
    if (steps->status != SP_OK)
        return NULL;
    const double scale = sp_node_attribute(call->node, "scale") != NULL
                             ? sp_node_float(call->node, "scale", 1)
                             : (float)(1 / sqrt((double)attention->q->axes[3].extent));
    q = sp_step(steps, q, scale_of(steps, q->dtype, scale), sp_number_multiply);
    const struct sp_labelled a = {q, {B, H, G, S, D}}, b = {k, {B, H, T, D}};
    return ungrouped(steps, sp_step_product(steps, &a, &b, 5, (const uint8_t[]){B, H, G, S, T}));
}

static struct sp_numbers *capped(struct sp_steps *steps, struct sp_numbers *scores)
{
    const double softcap = sp_node_float(steps->call->node, "softcap", 0);
    if (softcap <= 0 || steps->status != SP_OK)
        return scores;
    const struct sp_numbers *cap = sp_step_number(steps, scores->dtype, softcap);
    scores = sp_step_apply(steps, sp_step(steps, scores, cap, sp_number_divide), "Tanh", tanh);
    return sp_step(steps, scores, cap, sp_number_multiply);
}

/* Which keys a query must not look at, by their places: [s, t]. */
static bool is_hidden(const struct attention *attention, int64_t query, int64_t key)
{
    const int64_t distance = key - query - attention->past;
    return (attention->after >= 0 && distance > attention->after) ||
           (attention->before >= 0 && distance < -attention->before);
}

static void hide(struct sp_numbers *scores, const struct attention *attention, const struct sp_numbers *lengths)
{
    const struct sp_index_axis *axes = scores->axes;
    const uint64_t per_batch = (uint64_t)axes[1].count * axes[2].count * axes[3].count;
    for (uint64_t i = 0; i < scores->count; i++) {
        const int64_t key = sp_index_at(&axes[3], (uint32_t)(i % axes[3].count)),
                      query = sp_index_at(&axes[2], (uint32_t)(i / axes[3].count % axes[2].count));
        const bool is_behind = lengths != NULL && key >= sp_numbers_int(lengths, i / per_batch);
        if (is_behind || is_hidden(attention, query, key))
            scores->items[i] = sp_number_of_real(-INFINITY);
    }
}

static struct sp_numbers *biased(struct sp_steps *steps, const struct attention *attention,
                                 const struct sp_numbers *scores)
{
    struct sp_call *call = steps->call;
    const struct sp_numbers *mask = attention->mask, *lengths = attention->lengths;
    if (steps->status != SP_OK)
        return NULL;
    struct sp_numbers *own = sp_step(steps, scores, sp_step_number(steps, scores->dtype, 0), sp_number_add);
    if (mask != NULL && mask->dtype == SP_DTYPE_BOOL)
        own = sp_step_choose(steps, mask, own, sp_step_number(steps, scores->dtype, -INFINITY));
    else if (mask != NULL)
        own = sp_step(steps, own, mask, sp_number_add);
    if (steps->status == SP_OK && lengths != NULL && (!lengths->is_known || lengths->count != own->axes[0].count))
        steps->status = sp_call_refuse(call, "the numbers of its keys are not known");
    if (steps->status == SP_OK && own->rank == 4)
        hide(own, attention, lengths);
    return own;
}

/* A query without any key gets nothing: its largest score is taken for finite, and its sum for 1. Other sums are 1 at
   least. */
static struct sp_numbers *weigh(struct sp_steps *steps, const struct sp_numbers *scores)
{
    const uint64_t keys = UINT64_C(1) << 3;
    if (steps->status != SP_OK)
        return NULL;
    struct sp_numbers *most = sp_step_fold(steps, scores, keys, sp_number_max);
    most = sp_step(steps, most, sp_step_number(steps, scores->dtype, -(double)FLT_MAX), sp_number_max);
    struct sp_numbers *powers =
        sp_step_apply(steps, sp_step(steps, scores, most, sp_number_subtract), "Exp", sp_real_exp);
    struct sp_numbers *sum = sp_step_fold(steps, powers, keys, sp_number_add);
    sum = sp_step(steps, sum, sp_step_number(steps, scores->dtype, 1), sp_number_max);
    return sp_step(steps, powers, sum, sp_number_divide);
}

static enum sp_status give(struct sp_steps *steps, const struct attention *attention, struct sp_numbers *y,
                           struct sp_numbers *scores)
{
    static const uint32_t perm[] = {0, 2, 1, 3};
    struct sp_call *call = steps->call;
    if (steps->status == SP_OK && call->in[IN_Q]->rank == 3) {
        const int64_t extents[] = {y->axes[0].extent, y->axes[2].extent, y->axes[1].extent * y->axes[3].extent};
        y = sp_step_reshape(steps, sp_step_transpose(steps, y, perm), 3, extents);
    }
    struct sp_numbers *results[] = {y, attention->k, attention->v, scores};
    for (uint32_t i = 0; steps->status == SP_OK && i < call->out_count && i < 4; i++)
        call->out[i] = results[i];
    return steps->status;
}

static enum sp_status attend(struct sp_steps *steps, const struct attention *attention)
{
    const int64_t mode = sp_node_int(steps->call->node, "qk_matmul_output_mode", PRODUCTS);
    struct sp_numbers *stages[4] = {[PRODUCTS] = products(steps, attention)};
    stages[CAPPED] = capped(steps, stages[PRODUCTS]);
    stages[BIASED] = biased(steps, attention, stages[CAPPED]);
    if (steps->status == SP_OK && stages[BIASED]->rank != 4)
        return sp_call_refuse(steps->call, "its mask does not fit its scores");
    stages[WEIGHTS] = weigh(steps, stages[BIASED]);
    if (steps->status != SP_OK || attention->v == NULL)
        return steps->status;
    struct sp_numbers *weights = grouped(steps, stages[WEIGHTS], attention->v->axes[1].extent);
    const struct sp_labelled a = {weights, {B, H, G, S, T}}, b = {attention->v, {B, H, T, D}};
    struct sp_numbers *y = ungrouped(steps, sp_step_product(steps, &a, &b, 5, (const uint8_t[]){B, H, G, S, D}));
    return give(steps, attention, y, stages[mode < PRODUCTS || mode > WEIGHTS ? PRODUCTS : mode]);
}

static bool has_heads(const struct sp_call *call, uint32_t least, uint32_t most)
{
    for (uint32_t i = IN_Q; i <= IN_V; i++) {
        if (sp_call_in(call, i) == NULL || call->in[i]->rank < least || call->in[i]->rank > most)
            return false;
    }
    return true;
}

static int64_t length_of(const struct sp_numbers *past)
{
    return past != NULL && past->rank == 4 ? past->axes[2].extent : 0;
}

/* Attention, and FlexAttention without functions of its own. */
static enum sp_status evaluate_attention(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    const struct sp_numbers *past = sp_call_in(call, IN_PAST_KEY), *past_value = sp_call_in(call, IN_PAST_VALUE);
    const int64_t q_heads = sp_node_int(call->node, "q_num_heads", 0),
                  kv_heads = sp_node_int(call->node, "kv_num_heads", 0);
    for (uint32_t i = 0; i < call->node->attribute_count; i++) {
        if (call->node->attributes[i].type == SP_ATTR_GRAPH)
            return sp_evaluate_by_rule(call);
    }
    if (!has_heads(call, 3, 4))
        return sp_call_refuse(call, "its queries, its keys or its values are missing");
    const struct attention attention = {
        .q = apart(&steps, call->in[IN_Q], q_heads),
        .k = behind(&steps, past, apart(&steps, call->in[IN_K], kv_heads)),
        .v = behind(&steps, past_value, apart(&steps, call->in[IN_V], kv_heads)),
        .mask = sp_call_in(call, IN_MASK),
        .lengths = sp_call_in(call, IN_LENGTHS),
        .past = length_of(past),
        .before = sp_node_int(call->node, "left_window_size", -1),
        .after = sp_node_int(call->node, "is_causal", 0) != 0 ? 0 : sp_node_int(call->node, "right_window_size", -1)};
    return attend(&steps, &attention);
}

/* An operand and its part of what is added: queries', keys' and values' one behind the other. */
static const struct sp_numbers *with_bias(struct sp_steps *steps, uint32_t input)
{
    struct sp_call *call = steps->call;
    const struct sp_numbers *x = call->in[input], *bias = sp_call_in(call, 3);
    struct sp_numbers *own = NULL;
    int64_t start = 0;
    if (bias == NULL || steps->status != SP_OK)
        return x;
    for (uint32_t i = 0; i < input; i++)
        start += call->in[i]->axes[call->in[i]->rank - 1].extent;
    const int64_t size = x->axes[x->rank - 1].extent;
    if (bias->rank != 1 || start + size > bias->axes[0].extent)
        steps->status = sp_call_refuse(call, "its bias does not fit its operands");
    if (steps->status == SP_OK)
        steps->status = sp_numbers_slice(call->arena, bias, 0, (struct sp_index_run){start, 1, size}, &own, call->err);
    return sp_step(steps, x, own, sp_number_add);
}

#define MASK_FILTER_VALUE (-10000.0) /* the attribute's default */

/* What a padding mask adds to the scores, [b, 1, 1 or queries, keys]: 0, or the filter's value for keys behind a length [b],
   or where the mask [b, keys] or [b, queries, keys] is not above 0. */
static struct sp_numbers *filter(struct sp_steps *steps, const struct sp_numbers *mask, const struct sp_numbers *k)
{
    struct sp_call *call = steps->call;
    if (steps->status != SP_OK)
        return NULL;
    const struct sp_index_axis one = sp_index_all(1), *batch = &mask->axes[0],
                               *last = mask->rank == 1 ? &k->axes[2] : &mask->axes[mask->rank - 1];
    const struct sp_index_axis axes[] = {*batch, one, mask->rank == 3 ? mask->axes[1] : one, *last};
    const double value = sp_node_float(call->node, "mask_filter_value", (float)MASK_FILTER_VALUE);
    const struct sp_number none = sp_number_of_real(value);
    struct sp_numbers *out = NULL;
    steps->status = last->extent == k->axes[2].extent
                        ? sp_numbers_create(call->arena, k->dtype, 4, axes, &out, call->err)
                        : sp_call_refuse(call, "its mask does not have as many keys as it has");
    for (uint64_t i = 0; steps->status == SP_OK && i < out->count; i++) {
        const struct sp_number own = mask->items[mask->rank == 1 ? i / last->count : i];
        const int64_t bound = mask->rank == 1 ? sp_index_at(last, (uint32_t)(i % last->count)) : 0;
        out->items[i] =
            (struct sp_number){(int64_t)own.field > bound ? 0 : none.field, own.real > (double)bound ? 0 : none.real};
    }
    return out;
}

/* Whether a padding mask is one of these; the other forms are places in a packed sequence. */
static bool is_filter(const struct sp_numbers *mask, const struct sp_numbers *q)
{
    return mask->rank >= 1 && mask->rank <= 3 && !sp_dtype_is_float(mask->dtype) &&
           mask->axes[0].extent == q->axes[0].extent &&
           (mask->rank < 3 || mask->axes[1].extent == 1 || mask->axes[1].extent == q->axes[1].extent);
}

/* com.microsoft's, of queries, keys and values apart; (q, k, v, bias, padding, added, past key, past value) */
static enum sp_status evaluate_multi_head(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    const int64_t heads = sp_node_int(call->node, "num_heads", 0);
    const struct sp_numbers *past = sp_call_in(call, 6), *padding = sp_call_in(call, 4);
    if (!has_heads(call, 3, 4) || call->in[IN_Q]->rank != 3 ||
        (call->in[IN_K]->rank != 3 && sp_call_in(call, 3) != NULL) ||
        (padding != NULL && !is_filter(padding, call->in[IN_Q])) || call->in_count > 8)
        return sp_evaluate_by_rule(call);
    struct attention attention = {
        .q = apart(&steps, with_bias(&steps, IN_Q), heads),
        .k = behind(&steps, past, apart(&steps, with_bias(&steps, IN_K), heads)),
        .v = behind(&steps, sp_call_in(call, 7), apart(&steps, with_bias(&steps, IN_V), heads)),
        .mask = sp_call_in(call, 5),
        .past = length_of(past),
        .before = -1,
        .after = sp_node_int(call->node, "unidirectional", 0) != 0 ? 0 : -1};
    if (padding != NULL) {
        const struct sp_numbers *added = filter(&steps, padding, attention.k);
        attention.mask = attention.mask != NULL ? sp_step(&steps, attention.mask, added, sp_number_add) : added;
    }
    return attend(&steps, &attention);
}

const struct sp_evaluator_entry sp_evaluators_attention[] = {
    {"Attention", evaluate_attention},
    {"FlexAttention", evaluate_attention},
    {"MultiHeadAttention", evaluate_multi_head},
    {NULL, NULL},
};
