/*
 * Normalisations on shards (rules in normalization.c): statistics of all, then each element for itself, in float32 at
 * least and in the type of the result at the very end.
 */
#include "ops/lowering/functions.h"
#include "ops/lowering/statistics.h"

static struct sp_piece *cast_input(struct sp_lowering *lower, uint32_t input, enum sp_dtype dtype)
{
    struct sp_piece *piece = sp_lower_input(lower, input);
    return piece != NULL ? sp_lower_cast(lower, piece, dtype) : NULL;
}

static bool has_input(const struct sp_lowering *lower, uint32_t input)
{
    return input < lower->input_count && lower->inputs[input].value != NULL;
}

static struct sp_piece *scaled(struct sp_lowering *lower, struct sp_piece *x, struct sp_piece *scale,
                               struct sp_piece *shift)
{
    if (scale != NULL)
        x = sp_lower_with(lower, "Mul", x, scale);
    return shift != NULL ? sp_lower_with(lower, "Add", x, shift) : x;
}

/* ---- BatchNormalization ----------------------------------------------------------------------------------------- */

/* A statistic with an element for each channel as the vector that inputs and outputs have. The axes that it was taken
   over are 0 and, where they are of the whole image, those behind the channels. */
static struct sp_piece *as_vector(struct sp_lowering *lower, struct sp_piece *statistic,
                                  const struct sp_lower_span *span)
{
    for (uint32_t axis = lower->inputs[0].rank; axis-- > 1;) {
        if ((span->axes >> axis & 1) != 0)
            statistic = sp_lower_squeeze(lower, statistic, axis);
    }
    return lower->inputs[0].rank > 1 ? sp_lower_squeeze(lower, statistic, 0) : statistic;
}

/* old * momentum + new * (1 - momentum) */
static struct sp_piece *running(struct sp_lowering *lower, struct sp_piece *old, struct sp_piece *statistic,
                                enum sp_dtype dtype)
{
    double momentum = sp_node_float(lower->node, "momentum", 0.9);
    old = sp_lower_binary(lower, "Mul", old, sp_lower_scalar(lower, dtype, momentum));
    statistic = sp_lower_binary(lower, "Mul", statistic, sp_lower_scalar(lower, dtype, 1 - momentum));
    return sp_lower_binary(lower, "Add", old, statistic);
}

/* Where it takes statistics; else elements need no others. Vectors are [c], or before opset 9 also [c, h..]. */
enum sp_status sp_lower_batch_norm(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_lower_input(lower, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_lower_status(lower) : sp_lower_default(lower);
    enum sp_dtype dtype = sp_lower_wide(x->dtype);
    uint32_t rank = lower->inputs[0].rank, spread = lower->inputs[1].rank == 1 ? rank : 0;
    struct sp_lower_moments moments = sp_lower_moments_of(lower, sp_lower_cast(lower, x, dtype), &span, true);
    struct sp_piece *inverse =
        sp_lower_inverse_deviation(lower, moments.variance, sp_node_float(lower->node, "epsilon", 1e-5));
    struct sp_piece *y = sp_lower_with(lower, "Mul", moments.centred, inverse);
    struct sp_piece *scale = sp_lower_along_channels(lower, cast_input(lower, 1, dtype), spread);
    struct sp_piece *shift = sp_lower_along_channels(lower, cast_input(lower, 2, dtype), spread);
    sp_lower_give(lower, 0, scaled(lower, y, scale, shift));
    struct sp_piece *mean = as_vector(lower, moments.mean, &span);
    struct sp_piece *variance = as_vector(lower, moments.variance, &span);
    sp_lower_give(lower, 1, running(lower, cast_input(lower, 3, dtype), mean, dtype));
    sp_lower_give(lower, 2, running(lower, cast_input(lower, 4, dtype), variance, dtype));
    sp_lower_give(lower, 3, mean);
    sp_lower_give(lower, 4, variance);
    return sp_lower_status(lower);
}

/* ---- InstanceNormalization, GroupNormalization ------------------------------------------------------------------ */

enum sp_status sp_lower_instance_norm(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_lower_input(lower, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_lower_status(lower) : sp_lower_default(lower);
    enum sp_dtype dtype = sp_lower_wide(x->dtype);
    uint32_t rank = lower->inputs[0].rank;
    struct sp_lower_moments moments = sp_lower_moments_of(lower, sp_lower_cast(lower, x, dtype), &span, true);
    struct sp_piece *inverse =
        sp_lower_inverse_deviation(lower, moments.variance, sp_node_float(lower->node, "epsilon", 1e-5));
    struct sp_piece *scale = sp_lower_along_channels(lower, cast_input(lower, 1, dtype), rank);
    struct sp_piece *shift = sp_lower_along_channels(lower, cast_input(lower, 2, dtype), rank);
    sp_lower_give(lower, 0, scaled(lower, sp_lower_with(lower, "Mul", moments.centred, inverse), scale, shift));
    return sp_lower_status(lower);
}

/* Statistics are taken over [n, groups, elements of a group]; scale and bias are for groups before opset 21, and for
   channels since. */
enum sp_status sp_lower_group_norm(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    struct sp_lower_factor groups = {.size = -1};
    for (uint32_t i = 0; i < lower->factor_count; i++) {
        if (lower->rule->inputs[0].axes[1].count > 0 && lower->rule->inputs[0].axes[1].factors[0] == i)
            groups = lower->factors[i];
    }
    if (span.factor_count == 0) {
        struct sp_lower_attribute count = SP_INT_ATTR("num_groups", groups.size);
        sp_lower_output(lower, 0, sp_lower_same(lower, 0, NULL, 1, &count));
        return sp_lower_status(lower);
    }
    struct sp_piece *x = sp_lower_input(lower, 0);
    if (x == NULL)
        return sp_lower_status(lower);
    enum sp_dtype dtype = sp_lower_wide(x->dtype);
    uint32_t rank = lower->inputs[0].rank;
    const int64_t grouped[] = {0, groups.size, -1}; /* 0: as it is */
    struct sp_piece *wide = sp_lower_cast(lower, x, dtype);
    struct sp_piece *shape = sp_lower_op(lower, "Shape", SP_DTYPE_INT64, 1, &wide, 0, NULL);
    struct sp_piece *const parts[] = {wide, sp_lower_ints(lower, 3, grouped)};
    struct sp_piece *y = sp_lower_op(lower, "Reshape", dtype, 2, parts, 0, NULL);
    sp_piece_set_dims(lower, y, 3, (const int64_t[]){lower->inputs[0].axes[0].size, groups.size, -1});
    span.axes = 1 << 2;
    struct sp_lower_moments moments = sp_lower_moments_of(lower, y, &span, true);
    struct sp_piece *inverse =
        sp_lower_inverse_deviation(lower, moments.variance, sp_node_float(lower->node, "epsilon", 1e-5));
    y = sp_lower_with(lower, "Mul", moments.centred, inverse);
    struct sp_piece *scale = cast_input(lower, 1, dtype), *shift = cast_input(lower, 2, dtype);
    if (lower->version < 21)
        y = scaled(lower, y, sp_lower_unsqueeze(lower, scale, 1), sp_lower_unsqueeze(lower, shift, 1));
    struct sp_piece *const back[] = {y, shape};
    y = sp_lower_op(lower, "Reshape", dtype, 2, back, 0, NULL);
    if (x->dims != NULL)
        sp_piece_set_dims(lower, y, x->rank, x->dims);
    if (lower->version >= 21)
        y = scaled(lower, y, sp_lower_along_channels(lower, scale, rank), sp_lower_along_channels(lower, shift, rank));
    sp_lower_give(lower, 0, y);
    return sp_lower_status(lower);
}

/* ---- LayerNormalization, RMSNormalization ----------------------------------------------------------------------- */

/* `statistics` says how many outputs behind the first are there: the mean (with has_mean) and 1 / deviation. */
static enum sp_status layer_norm(struct sp_lowering *lower, bool has_mean)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_lower_input(lower, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_lower_status(lower) : sp_lower_default(lower);
    enum sp_dtype dtype = sp_lower_wide(x->dtype);
    struct sp_lower_moments moments = sp_lower_moments_of(lower, sp_lower_cast(lower, x, dtype), &span, has_mean);
    struct sp_piece *inverse =
        sp_lower_inverse_deviation(lower, moments.variance, sp_node_float(lower->node, "epsilon", 1e-5));
    struct sp_piece *y = sp_lower_with(lower, "Mul", moments.centred, inverse);
    struct sp_piece *shift = has_input(lower, 2) ? cast_input(lower, 2, dtype) : NULL;
    sp_lower_give(lower, 0, scaled(lower, y, cast_input(lower, 1, dtype), shift));
    if (has_mean)
        sp_lower_give(lower, 1, moments.mean);
    sp_lower_give(lower, has_mean ? 2 : 1, inverse);
    return sp_lower_status(lower);
}

enum sp_status sp_lower_layer_norm(struct sp_lowering *lower)
{
    return layer_norm(lower, true);
}

enum sp_status sp_lower_rms_norm(struct sp_lowering *lower)
{
    return layer_norm(lower, false);
}

/* ---- MeanVarianceNormalization, LpNormalization, LRN ------------------------------------------------------------ */

/* The deviation, not the variance, gets the small summand (the function body of MeanVarianceNormalization-13). */
enum sp_status sp_lower_mean_variance_norm(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_lower_input(lower, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_lower_status(lower) : sp_lower_default(lower);
    enum sp_dtype dtype = sp_lower_wide(x->dtype);
    struct sp_lower_moments moments = sp_lower_moments_of(lower, sp_lower_cast(lower, x, dtype), &span, true);
    struct sp_piece *deviation = sp_lower_binary(lower, "Add", sp_lower_unary(lower, "Sqrt", moments.variance),
                                                 sp_lower_scalar(lower, dtype, 1e-9));
    sp_lower_give(lower, 0, sp_lower_binary(lower, "Div", moments.centred, deviation));
    return sp_lower_status(lower);
}

/* Where the norm is 0 all elements are: they are divided by 1. */
enum sp_status sp_lower_lp_norm(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_lower_input(lower, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_lower_status(lower) : sp_lower_default(lower);
    bool is_euclidean = sp_node_int(lower->node, "p", 2) != 1;
    enum sp_dtype dtype = sp_lower_wide(x->dtype);
    struct sp_piece *wide = sp_lower_cast(lower, x, dtype), *zero = sp_lower_scalar(lower, dtype, 0);
    struct sp_piece *powers =
        is_euclidean ? sp_lower_binary(lower, "Mul", wide, wide) : sp_lower_unary(lower, "Abs", wide);
    struct sp_piece *norm = sp_lower_reduce_all(lower, "ReduceSum", SP_COMBINE_SUM, powers, &span, true);
    if (is_euclidean)
        norm = sp_lower_unary(lower, "Sqrt", norm);
    struct sp_piece *is_zero = sp_lower_unary(lower, "Not", sp_lower_compare(lower, "Greater", norm, zero));
    norm = sp_lower_binary(lower, "Add", norm, sp_lower_cast(lower, is_zero, dtype));
    sp_lower_give(lower, 0, sp_lower_with(lower, "Div", wide, norm));
    return sp_lower_status(lower);
}

/* Normalises the channels that this device has together with those around them that its windows reach, and keeps its
   own. Outside of all channels there is nothing to add, as at the borders of the whole. */
enum sp_status sp_lower_lrn(struct sp_lowering *lower)
{
    uint8_t channel = sp_lower_input_factor(lower, 0, 1);
    if (channel == SP_RULE_NO_FACTOR || !lower->factors[channel].is_split)
        return sp_lower_default(lower);
    const struct sp_lower_factor *own = &lower->factors[channel];
    const struct sp_range *ranges = own->ranges.ranges;
    int64_t size = sp_node_int(lower->node, "size", 1), reach_low = (size - 1) / 2, reach_high = size / 2;
    int64_t last = ranges[own->ranges.count - 1].limit;
    int64_t start = own->start > reach_low ? own->start - reach_low : 0;
    int64_t limit = own->extent - last > reach_high ? last + reach_high : own->extent;
    struct sp_piece *x = sp_lower_input_range(lower, 0, 1, start, limit);
    struct sp_piece *y = sp_lower_same(lower, 1, &x, 0, NULL);
    if (y == NULL)
        return sp_lower_status(lower);
    sp_piece_set_dims(lower, y, x->rank, x->dims);
    sp_lower_output(lower, 0, sp_lower_keep_own(lower, y, 1, channel, start));
    return sp_lower_status(lower);
}
