/*
 * Reductions on shards (rules in reduction.c).
 *
 * ReduceSum, ReduceMax, ReduceMin, ReduceProd, ReduceL1 and ReduceSumSquare leave partial results that combine as they
 * are. What follows the sum of the others (a root, a logarithm) is done after the combination, in float32 at least.
 *
 * ArgMax: the winner of each shard, then the best of all, then of those that are as good the lowest position.
 */
#include <math.h>

#include "ops/local_functions.h"
#include "ops/local_statistics.h"

static bool keeps_dims(const struct sp_local *local)
{
    return sp_node_int(local->node, "keepdims", 1) != 0;
}

/* How many elements of the whole go into one of the result; -1 where that is not known. */
static int64_t reduced_count(const struct sp_local *local)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < local->factor_count; i++) {
        if (local->rule->factors[i].kind != SP_FACTOR_REDUCTION)
            continue;
        if (local->factors[i].extent < 0 ||
            (local->factors[i].extent > 0 && count > INT64_MAX / local->factors[i].extent))
            return -1;
        count *= local->factors[i].extent;
    }
    return count;
}

/* Integers are added first, and their quotient is cut off once. */
static enum sp_status mean_of_integers(struct sp_local *local, struct sp_piece *x, const struct sp_local_span *span)
{
    int64_t count = reduced_count(local);
    if (count < 0)
        sp_local_whole(local, span->factors[0],
                       "The mean of integers over an axis whose extent is not known before the run is taken whole on "
                       "every device.");
    struct sp_piece *sum = sp_local_reduce_all(local, "ReduceSum", SP_COMBINE_SUM, x, span, keeps_dims(local));
    if (sum != NULL)
        sp_local_output(local, 0, sp_local_binary(local, "Div", sum, sp_local_int(local, sum->dtype, count)));
    return sp_local_status(local);
}

enum sp_status sp_local_reduce_mean(struct sp_local *local)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    if (span.factor_count == 0)
        return sp_local_default(local);
    struct sp_piece *x = sp_local_input(local, 0);
    if (x == NULL)
        return sp_local_status(local);
    if (!sp_dtype_is_float(x->dtype))
        return mean_of_integers(local, x, &span);
    enum sp_dtype dtype = sp_local_wide(x->dtype);
    struct sp_piece *mean =
        sp_local_reduce(local, "ReduceMean", sp_local_cast(local, x, dtype), span.axes, keeps_dims(local));
    mean = sp_local_binary(local, "Mul", mean, sp_local_scalar(local, dtype, span.share));
    mean = sp_local_cast(local, mean, x->dtype);
    sp_local_output_partial(local, 0, mean, SP_COMBINE_SUM, span.factor_count, span.factors);
    return sp_local_status(local);
}

/* A sum of `reduce`, and `after` of it. */
static enum sp_status function_of_sum(struct sp_local *local, const char *reduce, const char *after)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    if (span.factor_count == 0)
        return sp_local_default(local);
    struct sp_piece *x = sp_local_input(local, 0);
    if (x == NULL)
        return sp_local_status(local);
    struct sp_piece *wide = sp_local_cast(local, x, sp_local_wide(x->dtype));
    struct sp_piece *sum = sp_local_reduce_all(local, reduce, SP_COMBINE_SUM, wide, &span, keeps_dims(local));
    sp_local_output(local, 0, sp_local_cast(local, sp_local_unary(local, after, sum), x->dtype));
    return sp_local_status(local);
}

enum sp_status sp_local_reduce_l2(struct sp_local *local)
{
    return function_of_sum(local, "ReduceSumSquare", "Sqrt");
}

enum sp_status sp_local_reduce_log_sum(struct sp_local *local)
{
    return function_of_sum(local, "ReduceSum", "Log");
}

/* Exponentials of what is left after the maximum of all, so that none overflows; where that maximum is not finite, of
   the elements as they are. */
enum sp_status sp_local_reduce_log_sum_exp(struct sp_local *local)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    if (span.factor_count == 0)
        return sp_local_default(local);
    struct sp_piece *x = sp_local_input(local, 0);
    if (x == NULL)
        return sp_local_status(local);
    enum sp_dtype dtype = sp_local_wide(x->dtype);
    struct sp_piece *wide = sp_local_cast(local, x, dtype);
    struct sp_piece *most = sp_local_reduce_all(local, "ReduceMax", SP_COMBINE_MAX, wide, &span, true);
    struct sp_piece *infinite = sp_local_scalar(local, dtype, INFINITY);
    struct sp_piece *is_finite = sp_local_compare(local, "Less", sp_local_unary(local, "Abs", most), infinite);
    most = sp_local_where(local, is_finite, most, sp_local_scalar(local, dtype, 0));
    struct sp_piece *powers = sp_local_unary(local, "Exp", sp_local_with(local, "Sub", wide, most));
    struct sp_piece *sum = sp_local_reduce_all(local, "ReduceSum", SP_COMBINE_SUM, powers, &span, true);
    struct sp_piece *result = sp_local_binary(local, "Add", sp_local_unary(local, "Log", sum), most);
    for (uint32_t axis = local->inputs[0].rank; !keeps_dims(local) && axis-- > 0;) {
        if ((span.axes >> axis & 1) != 0)
            result = sp_local_squeeze(local, result, axis);
    }
    sp_local_output(local, 0, sp_local_cast(local, result, x->dtype));
    return sp_local_status(local);
}

/* ---- ArgMax, ArgMin --------------------------------------------------------------------------------------------- */

static enum sp_status arg(struct sp_local *local, bool is_max)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    if (span.factor_count == 0)
        return sp_local_default(local);
    bool takes_last = sp_node_int(local->node, "select_last_index", 0) != 0;
    enum sp_combiner combiner = is_max ? SP_COMBINE_MAX : SP_COMBINE_MIN;
    uint8_t factor = span.factors[0];
    struct sp_piece *x = sp_local_input(local, 0);
    struct sp_piece *place =
        sp_local_to_global(local, sp_local_same(local, 1, &x, 0, NULL), &local->factors[factor].ranges);
    struct sp_piece *own = sp_local_reduce(local, is_max ? "ReduceMax" : "ReduceMin", x, span.axes, keeps_dims(local));
    struct sp_piece *best = sp_local_all_reduce(local, own, combiner, span.factor_count, span.factors);
    struct sp_piece *is_beaten = sp_local_compare(local, is_max ? "Less" : "Greater", own, best);
    int64_t extent = local->factors[factor].extent;
    place = sp_local_candidates(local, place, is_beaten, extent, takes_last);
    sp_local_output(local, 0, sp_local_first_of_all(local, place, extent, takes_last, &span));
    return sp_local_status(local);
}

enum sp_status sp_local_arg_max(struct sp_local *local)
{
    return arg(local, true);
}

enum sp_status sp_local_arg_min(struct sp_local *local)
{
    return arg(local, false);
}
