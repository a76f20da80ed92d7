#include "ops/local_scores.h"

#include <float.h>
#include <math.h>

double sp_local_lowest(enum sp_dtype dtype)
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
static struct sp_piece *grouped(struct sp_local *local, const struct sp_local_scores *scores, struct sp_piece *x,
                                int64_t last)
{
    const int64_t dims[] = {0, scores->kv_heads, -1, last};
    return scores->q_heads == scores->kv_heads ? x : sp_local_reshape_as(local, x, 4, dims);
}

static struct sp_piece *ungrouped(struct sp_local *local, const struct sp_local_scores *scores, struct sp_piece *x,
                                  int64_t last)
{
    const int64_t dims[] = {0, scores->q_heads, -1, last};
    return scores->q_heads == scores->kv_heads ? x : sp_local_reshape_as(local, x, 4, dims);
}

static struct sp_piece *capped(struct sp_local *local, const struct sp_local_scores *scores, struct sp_piece *s)
{
    if (scores->softcap <= 0)
        return s;
    struct sp_piece *cap = sp_local_scalar(local, scores->dtype, scores->softcap);
    s = sp_local_unary(local, "Tanh", sp_local_binary(local, "Div", s, cap));
    return sp_local_binary(local, "Mul", s, cap);
}

static struct sp_piece *biased(struct sp_local *local, const struct sp_local_scores *scores, struct sp_piece *s)
{
    if (scores->added != NULL)
        s = sp_local_binary(local, "Add", s, scores->added);
    if (scores->masked == NULL)
        return s;
    return sp_local_where(local, scores->masked, sp_local_scalar(local, scores->dtype, -INFINITY), s);
}

static enum sp_dtype precision_of(const struct sp_local_scores *scores)
{
    if (scores->precision != SP_DTYPE_UNDEFINED)
        return scores->precision;
    const bool is_short = scores->dtype == SP_DTYPE_FLOAT16 || scores->dtype == SP_DTYPE_BFLOAT16;
    return is_short ? SP_DTYPE_FLOAT : scores->dtype;
}

/* Softmax over the keys of all devices. A query that may look at no key at all gets nothing, as runtimes have it: its
   highest score is then finite and its sum 1, while every exponential is 0. Else the sum is 1 at least. */
static struct sp_piece *weigh(struct sp_local *local, const struct sp_local_scores *scores, struct sp_piece *s)
{
    const uint64_t last = UINT64_C(1) << 3;
    const enum sp_dtype precision = precision_of(scores);
    s = sp_local_cast(local, s, precision);
    struct sp_piece *highest = sp_local_reduce(local, "ReduceMax", s, last, true);
    highest = sp_local_all_reduce(local, highest, SP_COMBINE_MAX, 1, &scores->keys);
    highest = sp_local_binary(local, "Max", highest, sp_local_scalar(local, precision, sp_local_lowest(precision)));
    s = sp_local_unary(local, "Exp", sp_local_binary(local, "Sub", s, highest));
    struct sp_piece *total = sp_local_reduce(local, "ReduceSum", s, last, true);
    total = sp_local_all_reduce(local, total, SP_COMBINE_SUM, 1, &scores->keys);
    total = sp_local_binary(local, "Max", total, sp_local_scalar(local, precision, 1));
    return sp_local_binary(local, "Div", s, total);
}

void sp_local_attend(struct sp_local *local, struct sp_local_scores *scores)
{
    static const int64_t columns[] = {0, 1, 3, 2};
    const int64_t keys = local->factors[scores->keys].size;
    struct sp_piece *q = sp_local_binary(local, "Mul", scores->q, sp_local_scalar(local, scores->dtype, scores->scale));
    q = grouped(local, scores, q, scores->size);
    struct sp_piece *s = sp_local_matmul(local, q, sp_local_transpose(local, scores->k, 4, columns));
    scores->products = ungrouped(local, scores, s, keys);
    scores->capped = capped(local, scores, scores->products);
    scores->biased = biased(local, scores, scores->capped);
    scores->weights = weigh(local, scores, scores->biased);
    struct sp_piece *weights = sp_local_cast(local, scores->weights, scores->value_dtype);
    struct sp_piece *y = sp_local_matmul(local, grouped(local, scores, weights, keys), scores->v);
    scores->y = ungrouped(local, scores, y, scores->value_size);
}

/* ---- masks ------------------------------------------------------------------------------------------------------ */

struct sp_piece *sp_local_either(struct sp_local *local, struct sp_piece *a, struct sp_piece *b)
{
    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    return sp_local_compare(local, "Or", a, b);
}

/* [queries, 1]: the places of the queries, moved. */
static struct sp_piece *places(struct sp_local *local, const struct sp_local_window *window, int64_t by)
{
    struct sp_piece *at = sp_local_positions(local, window->queries);
    if (by != 0)
        at = sp_local_binary(local, "Add", at, sp_local_int(local, SP_DTYPE_INT64, by));
    return sp_local_unsqueeze(local, at, 1);
}

struct sp_piece *sp_local_out_of_window(struct sp_local *local, const struct sp_local_window *window)
{
    struct sp_piece *mask = NULL, *keys = NULL;
    if (window->after >= 0 || window->before >= 0)
        keys = sp_local_positions(local, window->keys);
    if (window->after >= 0)
        mask = sp_local_compare(local, "Greater", keys, places(local, window, window->offset + window->after));
    if (window->before >= 0)
        mask = sp_local_either(
            local, mask, sp_local_compare(local, "Less", keys, places(local, window, window->offset - window->before)));
    return mask;
}
