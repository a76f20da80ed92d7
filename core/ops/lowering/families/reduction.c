/*
 * Reductions on shards (rules in reduction.c).
 *
 * ReduceSum, ReduceMax, ReduceMin, ReduceProd, ReduceL1 and ReduceSumSquare leave partial results that combine as they
 * are. What follows the sum of the others (a root, a logarithm) is done after the combination, in float32 at least.
 *
 * ArgMax: the winner of each shard, then the best of all, then of those that are as good the lowest position.
 */
#include <math.h>

#include "ops/lowering/functions.h"
#include "ops/lowering/statistics.h"

static bool keeps_dims(const struct sp_lowering *lower)
{
    return sp_node_int(lower->node, "keepdims", 1) != 0;
}

/* How many elements of the whole go into one of the result; -1 where that is not known. */
static int64_t reduced_count(const struct sp_lowering *lower)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < lower->factor_count; i++) {
        if (lower->rule->factors[i].kind != SP_FACTOR_REDUCTION)
            continue;
        if (lower->factors[i].extent < 0 ||
            (lower->factors[i].extent > 0 && count > INT64_MAX / lower->factors[i].extent))
            return -1;
        count *= lower->factors[i].extent;
    }
    return count;
}

/* Integers are added first, and their quotient is cut off once. */
static enum sp_status mean_of_integers(struct sp_lowering *lower, struct sp_piece *x, const struct sp_lower_span *span)
{
    int64_t count = reduced_count(lower);
    if (count < 0)
        sp_lower_whole(lower, span->factors[0],
                       "The mean of integers over an axis whose extent is not known before the run is taken whole on "
                       "every device.");
    struct sp_piece *sum = sp_lower_reduce_all(lower, "ReduceSum", SP_COMBINE_SUM, x, span, keeps_dims(lower));
    if (sum != NULL)
        sp_lower_output(lower, 0, sp_lower_binary(lower, "Div", sum, sp_lower_int(lower, sum->dtype, count)));
    return sp_lower_status(lower);
}

enum sp_status sp_lower_reduce_mean(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    if (span.factor_count == 0)
        return sp_lower_default(lower);
    struct sp_piece *x = sp_lower_input(lower, 0);
    if (x == NULL)
        return sp_lower_status(lower);
    if (!sp_dtype_is_float(x->dtype))
        return mean_of_integers(lower, x, &span);
    enum sp_dtype dtype = sp_lower_wide(x->dtype);
    struct sp_piece *mean =
        sp_lower_reduce(lower, "ReduceMean", sp_lower_cast(lower, x, dtype), span.axes, keeps_dims(lower));
    mean = sp_lower_binary(lower, "Mul", mean, sp_lower_scalar(lower, dtype, span.share));
    mean = sp_lower_cast(lower, mean, x->dtype);
    sp_lower_output_partial(lower, 0, mean, SP_COMBINE_SUM, span.factor_count, span.factors);
    return sp_lower_status(lower);
}

/* A sum of `reduce`, and `after` of it. */
static enum sp_status function_of_sum(struct sp_lowering *lower, const char *reduce, const char *after)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    if (span.factor_count == 0)
        return sp_lower_default(lower);
    struct sp_piece *x = sp_lower_input(lower, 0);
    if (x == NULL)
        return sp_lower_status(lower);
    struct sp_piece *wide = sp_lower_cast(lower, x, sp_lower_wide(x->dtype));
    struct sp_piece *sum = sp_lower_reduce_all(lower, reduce, SP_COMBINE_SUM, wide, &span, keeps_dims(lower));
    sp_lower_output(lower, 0, sp_lower_cast(lower, sp_lower_unary(lower, after, sum), x->dtype));
    return sp_lower_status(lower);
}

enum sp_status sp_lower_reduce_l2(struct sp_lowering *lower)
{
    return function_of_sum(lower, "ReduceSumSquare", "Sqrt");
}

enum sp_status sp_lower_reduce_log_sum(struct sp_lowering *lower)
{
    return function_of_sum(lower, "ReduceSum", "Log");
}

/* Exponentials of what is left after the maximum of all, so that none overflows; where that maximum is not finite, of
   the elements as they are. */
enum sp_status sp_lower_reduce_log_sum_exp(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    if (span.factor_count == 0)
        return sp_lower_default(lower);
    struct sp_piece *x = sp_lower_input(lower, 0);
    if (x == NULL)
        return sp_lower_status(lower);
    enum sp_dtype dtype = sp_lower_wide(x->dtype);
    struct sp_piece *wide = sp_lower_cast(lower, x, dtype);
    struct sp_piece *most = sp_lower_reduce_all(lower, "ReduceMax", SP_COMBINE_MAX, wide, &span, true);
    struct sp_piece *infinite = sp_lower_scalar(lower, dtype, INFINITY);
    struct sp_piece *is_finite = sp_lower_compare(lower, "Less", sp_lower_unary(lower, "Abs", most), infinite);
    most = sp_lower_where(lower, is_finite, most, sp_lower_scalar(lower, dtype, 0));
    struct sp_piece *powers = sp_lower_unary(lower, "Exp", sp_lower_with(lower, "Sub", wide, most));
    struct sp_piece *sum = sp_lower_reduce_all(lower, "ReduceSum", SP_COMBINE_SUM, powers, &span, true);
    struct sp_piece *result = sp_lower_binary(lower, "Add", sp_lower_unary(lower, "Log", sum), most);
    for (uint32_t axis = lower->inputs[0].rank; !keeps_dims(lower) && axis-- > 0;) {
        if ((span.axes >> axis & 1) != 0)
            result = sp_lower_squeeze(lower, result, axis);
    }
    sp_lower_output(lower, 0, sp_lower_cast(lower, result, x->dtype));
    return sp_lower_status(lower);
}

/* ---- ArgMax, ArgMin --------------------------------------------------------------------------------------------- */

static enum sp_status arg(struct sp_lowering *lower, bool is_max)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    if (span.factor_count == 0)
        return sp_lower_default(lower);
    bool takes_last = sp_node_int(lower->node, "select_last_index", 0) != 0;
    enum sp_combiner combiner = is_max ? SP_COMBINE_MAX : SP_COMBINE_MIN;
    uint8_t factor = span.factors[0];
    struct sp_piece *x = sp_lower_input(lower, 0);
    struct sp_piece *place =
        sp_lower_to_global(lower, sp_lower_same(lower, 1, &x, 0, NULL), &lower->factors[factor].ranges);
    struct sp_piece *own = sp_lower_reduce(lower, is_max ? "ReduceMax" : "ReduceMin", x, span.axes, keeps_dims(lower));
    struct sp_piece *best = sp_lower_all_reduce(lower, own, combiner, span.factor_count, span.factors);
    struct sp_piece *is_beaten = sp_lower_compare(lower, is_max ? "Less" : "Greater", own, best);
    int64_t extent = lower->factors[factor].extent;
    place = sp_lower_candidates(lower, place, is_beaten, extent, takes_last);
    sp_lower_output(lower, 0, sp_lower_first_of_all(lower, place, extent, takes_last, &span));
    return sp_lower_status(lower);
}

enum sp_status sp_lower_arg_max(struct sp_lowering *lower)
{
    return arg(lower, true);
}

enum sp_status sp_lower_arg_min(struct sp_lowering *lower)
{
    return arg(lower, false);
}
