/*
 * The softmax family on shards (rules in normalization.c).
 *
 * Maxima of all, exponentials of what is left, the sum of all: two small collectives. Which axes are normalised
 * together (one, or before opset 13 all from `axis` on) is in the rule.
 *
 * Hardmax: the first of the greatest elements. Elements are numbered over the axes that are taken together, and the
 * lowest number among the greatest is the one.
 */
#include "ops/lowering/functions.h"
#include "ops/lowering/statistics.h"

static enum sp_status softmax(struct sp_lowering *lower, bool is_log)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    if (span.factor_count == 0)
        return sp_lower_default(lower);
    struct sp_piece *x = sp_lower_input(lower, 0);
    if (x == NULL)
        return sp_lower_status(lower);
    struct sp_piece *wide = sp_lower_cast(lower, x, sp_lower_wide(x->dtype));
    struct sp_piece *most = sp_lower_reduce_all(lower, "ReduceMax", SP_COMBINE_MAX, wide, &span, true);
    struct sp_piece *rest = sp_lower_with(lower, "Sub", wide, most);
    struct sp_piece *powers = sp_lower_unary(lower, "Exp", rest);
    struct sp_piece *sum = sp_lower_reduce_all(lower, "ReduceSum", SP_COMBINE_SUM, powers, &span, true);
    struct sp_piece *y = is_log ? sp_lower_with(lower, "Sub", rest, sp_lower_unary(lower, "Log", sum))
                                : sp_lower_with(lower, "Div", powers, sum);
    sp_lower_output(lower, 0, sp_lower_cast(lower, y, x->dtype));
    return sp_lower_status(lower);
}

enum sp_status sp_lower_softmax(struct sp_lowering *lower)
{
    return softmax(lower, false);
}

enum sp_status sp_lower_log_softmax(struct sp_lowering *lower)
{
    return softmax(lower, true);
}

/* ---- Hardmax ---------------------------------------------------------------------------------------------------- */

enum sp_status sp_lower_hardmax(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    if (span.factor_count == 0)
        return sp_lower_default(lower);
    for (uint32_t axis = 0; axis < lower->inputs[0].rank; axis++) {
        if ((span.axes >> axis & 1) != 0 && lower->inputs[0].axes[axis].extent < 0)
            sp_lower_whole(lower, span.factors[0],
                           "Hardmax numbers the elements of several axes, one of which has an extent that is not known "
                           "before the run, so it is computed whole on every device.");
    }
    struct sp_piece *x = sp_lower_input(lower, 0);
    int64_t count = 0;
    struct sp_piece *number = x != NULL ? sp_lower_numbers(lower, 0, span.axes, &count) : NULL;
    if (number == NULL)
        return sp_lower_status(lower);
    struct sp_piece *most = sp_lower_reduce_all(lower, "ReduceMax", SP_COMBINE_MAX, x, &span, true);
    struct sp_piece *is_less = sp_lower_compare(lower, "Less", x, most);
    struct sp_piece *candidates = sp_lower_candidates(lower, number, is_less, count, false);
    struct sp_piece *own = sp_lower_reduce(lower, "ReduceMin", candidates, span.axes, true);
    struct sp_piece *first = sp_lower_first_of_all(lower, own, count, false, &span);
    struct sp_piece *is_first = sp_lower_compare(lower, "Equal", candidates, first);
    sp_lower_output(lower, 0, sp_lower_cast(lower, is_first, x->dtype));
    return sp_lower_status(lower);
}
