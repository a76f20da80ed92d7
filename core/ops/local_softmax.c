/*
 * The softmax family on shards (rules in normalization.c).
 *
 * Maxima of all, exponentials of what is left, the sum of all: two small collectives. Which axes are normalised
 * together (one, or before opset 13 all from `axis` on) is in the rule.
 *
 * Hardmax: the first of the greatest elements. Elements are numbered over the axes that are taken together, and the
 * lowest number among the greatest is the one.
 */
#include "ops/local_functions.h"
#include "ops/local_statistics.h"

static enum sp_status softmax(struct sp_local *local, bool is_log)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    if (span.factor_count == 0)
        return sp_local_default(local);
    struct sp_piece *x = sp_local_input(local, 0);
    if (x == NULL)
        return sp_local_status(local);
    struct sp_piece *wide = sp_local_cast(local, x, sp_local_wide(x->dtype));
    struct sp_piece *most = sp_local_reduce_all(local, "ReduceMax", SP_COMBINE_MAX, wide, &span, true);
    struct sp_piece *rest = sp_local_with(local, "Sub", wide, most);
    struct sp_piece *powers = sp_local_unary(local, "Exp", rest);
    struct sp_piece *sum = sp_local_reduce_all(local, "ReduceSum", SP_COMBINE_SUM, powers, &span, true);
    struct sp_piece *y = is_log ? sp_local_with(local, "Sub", rest, sp_local_unary(local, "Log", sum))
                                : sp_local_with(local, "Div", powers, sum);
    sp_local_output(local, 0, sp_local_cast(local, y, x->dtype));
    return sp_local_status(local);
}

enum sp_status sp_local_softmax(struct sp_local *local)
{
    return softmax(local, false);
}

enum sp_status sp_local_log_softmax(struct sp_local *local)
{
    return softmax(local, true);
}

/* ---- Hardmax ---------------------------------------------------------------------------------------------------- */

enum sp_status sp_local_hardmax(struct sp_local *local)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    if (span.factor_count == 0)
        return sp_local_default(local);
    for (uint32_t axis = 0; axis < local->inputs[0].rank; axis++) {
        if ((span.axes >> axis & 1) != 0 && local->inputs[0].axes[axis].extent < 0)
            sp_local_whole(local, span.factors[0],
                           "Hardmax numbers the elements of several axes, one of which has an extent that is not known "
                           "before the run, so it is computed whole on every device.");
    }
    struct sp_piece *x = sp_local_input(local, 0);
    int64_t count = 0;
    struct sp_piece *number = x != NULL ? sp_local_numbers(local, 0, span.axes, &count) : NULL;
    if (number == NULL)
        return sp_local_status(local);
    struct sp_piece *most = sp_local_reduce_all(local, "ReduceMax", SP_COMBINE_MAX, x, &span, true);
    struct sp_piece *is_less = sp_local_compare(local, "Less", x, most);
    struct sp_piece *candidates = sp_local_candidates(local, number, is_less, count, false);
    struct sp_piece *own = sp_local_reduce(local, "ReduceMin", candidates, span.axes, true);
    struct sp_piece *first = sp_local_first_of_all(local, own, count, false, &span);
    struct sp_piece *is_first = sp_local_compare(local, "Equal", candidates, first);
    sp_local_output(local, 0, sp_local_cast(local, is_first, x->dtype));
    return sp_local_status(local);
}
