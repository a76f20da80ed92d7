#include "ops/lowering/scores.h"

#include <float.h>
#include <math.h>

double sp_lower_lowest(enum sp_dtype dtype)
{
    switch (dtype) {
    case SP_DTYPE_DOUBLE:
        return -DBL_MAX;
    case SP_DTYPE_FLOAT16:
        return -65504;
    case SP_DTYPE_BFLOAT16:
        return -0x1.FEp127;
    default:
        return -(double)FLT_MAX;
    }
}

/* The group's heads beside their queries: [b, kv, g*q, ..] of [b, kv*g, q, ..]. */
static struct sp_piece *grouped(struct sp_lowering *lower, const struct sp_lower_scores *scores, struct sp_piece *x,
                                int64_t last)
{
    const int64_t dims[] = {0, scores->kv_heads, -1, last};
    return scores->q_heads == scores->kv_heads ? x : sp_lower_reshape_as(lower, x, 4, dims);
}

static struct sp_piece *ungrouped(struct sp_lowering *lower, const struct sp_lower_scores *scores, struct sp_piece *x,
                                  int64_t last)
{
    const int64_t dims[] = {0, scores->q_heads, -1, last};
    return scores->q_heads == scores->kv_heads ? x : sp_lower_reshape_as(lower, x, 4, dims);
}

static struct sp_piece *capped(struct sp_lowering *lower, const struct sp_lower_scores *scores, struct sp_piece *s)
{
    if (scores->softcap <= 0)
        return s;
    struct sp_piece *cap = sp_lower_scalar(lower, scores->dtype, scores->softcap);
    s = sp_lower_unary(lower, "Tanh", sp_lower_binary(lower, "Div", s, cap));
    return sp_lower_binary(lower, "Mul", s, cap);
}

static struct sp_piece *biased(struct sp_lowering *lower, const struct sp_lower_scores *scores, struct sp_piece *s)
{
    if (scores->added != NULL)
        s = sp_lower_binary(lower, "Add", s, scores->added);
    if (scores->masked == NULL)
        return s;
    return sp_lower_where(lower, scores->masked, sp_lower_scalar(lower, scores->dtype, -INFINITY), s);
}

static enum sp_dtype precision_of(const struct sp_lower_scores *scores)
{
    if (scores->precision != SP_DTYPE_UNDEFINED)
        return scores->precision;
    const bool is_short = scores->dtype == SP_DTYPE_FLOAT16 || scores->dtype == SP_DTYPE_BFLOAT16;
    return is_short ? SP_DTYPE_FLOAT : scores->dtype;
}

/* Softmax over the keys of all devices. A query that may look at no key at all gets nothing, as runtimes have it: its
   highest score is then finite and its sum 1, while every exponential is 0. Else the sum is 1 at least. */
static struct sp_piece *weigh(struct sp_lowering *lower, const struct sp_lower_scores *scores, struct sp_piece *s)
{
    const uint64_t last = UINT64_C(1) << 3;
    const enum sp_dtype precision = precision_of(scores);
    s = sp_lower_cast(lower, s, precision);
    struct sp_piece *highest = sp_lower_reduce(lower, "ReduceMax", s, last, true);
    highest = sp_lower_all_reduce(lower, highest, SP_COMBINE_MAX, 1, &scores->keys);
    highest = sp_lower_binary(lower, "Max", highest, sp_lower_scalar(lower, precision, sp_lower_lowest(precision)));
    s = sp_lower_unary(lower, "Exp", sp_lower_binary(lower, "Sub", s, highest));
    struct sp_piece *total = sp_lower_reduce(lower, "ReduceSum", s, last, true);
    total = sp_lower_all_reduce(lower, total, SP_COMBINE_SUM, 1, &scores->keys);
    total = sp_lower_binary(lower, "Max", total, sp_lower_scalar(lower, precision, 1));
    return sp_lower_binary(lower, "Div", s, total);
}

void sp_lower_attend(struct sp_lowering *lower, struct sp_lower_scores *scores)
{
    static const int64_t columns[] = {0, 1, 3, 2};
    const int64_t keys = lower->factors[scores->keys].size;
    struct sp_piece *q = sp_lower_binary(lower, "Mul", scores->q, sp_lower_scalar(lower, scores->dtype, scores->scale));
    q = grouped(lower, scores, q, scores->size);
    struct sp_piece *s = sp_lower_matmul(lower, q, sp_lower_transpose(lower, scores->k, 4, columns));
    scores->products = ungrouped(lower, scores, s, keys);
    scores->capped = capped(lower, scores, scores->products);
    scores->biased = biased(lower, scores, scores->capped);
    scores->weights = weigh(lower, scores, scores->biased);
    struct sp_piece *weights = sp_lower_cast(lower, scores->weights, scores->value_dtype);
    struct sp_piece *y = sp_lower_matmul(lower, grouped(lower, scores, weights, keys), scores->v);
    scores->y = ungrouped(lower, scores, y, scores->value_size);
}

/* ---- masks ------------------------------------------------------------------------------------------------------ */

struct sp_piece *sp_lower_either(struct sp_lowering *lower, struct sp_piece *a, struct sp_piece *b)
{
    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    return sp_lower_compare(lower, "Or", a, b);
}

/* [queries, 1]: the places of the queries, moved. */
static struct sp_piece *places(struct sp_lowering *lower, const struct sp_lower_window *window, int64_t by)
{
    struct sp_piece *at = sp_lower_positions(lower, window->queries);
    if (by != 0)
        at = sp_lower_binary(lower, "Add", at, sp_lower_int(lower, SP_DTYPE_INT64, by));
    return sp_lower_unsqueeze(lower, at, 1);
}

struct sp_piece *sp_lower_out_of_window(struct sp_lowering *lower, const struct sp_lower_window *window)
{
    struct sp_piece *mask = NULL, *keys = NULL;
    if (window->after >= 0 || window->before >= 0)
        keys = sp_lower_positions(lower, window->keys);
    if (window->after >= 0)
        mask = sp_lower_compare(lower, "Greater", keys, places(lower, window, window->offset + window->after));
    if (window->before >= 0)
        mask = sp_lower_either(
            lower, mask, sp_lower_compare(lower, "Less", keys, places(lower, window, window->offset - window->before)));
    return mask;
}
