/*
 * Normalisations on shards (rules in normalization.c): statistics of all, then each element for itself, in float32 at
 * least and in the type of the result at the very end.
 */
#include "ops/local_functions.h"
#include "ops/local_statistics.h"

static struct sp_piece *cast_input(struct sp_local *local, uint32_t input, enum sp_dtype dtype)
{
    struct sp_piece *piece = sp_local_input(local, input);
    return piece != NULL ? sp_local_cast(local, piece, dtype) : NULL;
}

static bool has_input(const struct sp_local *local, uint32_t input)
{
    return input < local->input_count && local->inputs[input].value != NULL;
}

static struct sp_piece *scaled(struct sp_local *local, struct sp_piece *x, struct sp_piece *scale,
                               struct sp_piece *shift)
{
    if (scale != NULL)
        x = sp_local_with(local, "Mul", x, scale);
    return shift != NULL ? sp_local_with(local, "Add", x, shift) : x;
}

/* ---- BatchNormalization ----------------------------------------------------------------------------------------- */

/* A statistic with an element for each channel as the vector that inputs and outputs have. The axes that it was taken
   over are 0 and, where they are of the whole image, those behind the channels. */
static struct sp_piece *as_vector(struct sp_local *local, struct sp_piece *statistic, const struct sp_local_span *span)
{
    for (uint32_t axis = local->inputs[0].rank; axis-- > 1;) {
        if ((span->axes >> axis & 1) != 0)
            statistic = sp_local_squeeze(local, statistic, axis);
    }
    return local->inputs[0].rank > 1 ? sp_local_squeeze(local, statistic, 0) : statistic;
}

/* old * momentum + new * (1 - momentum) */
static struct sp_piece *running(struct sp_local *local, struct sp_piece *old, struct sp_piece *statistic,
                                enum sp_dtype dtype)
{
    double momentum = sp_node_float(local->node, "momentum", 0.9);
    old = sp_local_binary(local, "Mul", old, sp_local_scalar(local, dtype, momentum));
    statistic = sp_local_binary(local, "Mul", statistic, sp_local_scalar(local, dtype, 1 - momentum));
    return sp_local_binary(local, "Add", old, statistic);
}

/* Where it takes statistics; else elements need no others. Vectors are [c], or before opset 9 also [c, h..]. */
enum sp_status sp_local_batch_norm(struct sp_local *local)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_local_input(local, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_local_status(local) : sp_local_default(local);
    enum sp_dtype dtype = sp_local_wide(x->dtype);
    uint32_t rank = local->inputs[0].rank, spread = local->inputs[1].rank == 1 ? rank : 0;
    struct sp_local_moments moments = sp_local_moments_of(local, sp_local_cast(local, x, dtype), &span, true);
    struct sp_piece *inverse =
        sp_local_inverse_deviation(local, moments.variance, sp_node_float(local->node, "epsilon", 1e-5));
    struct sp_piece *y = sp_local_with(local, "Mul", moments.centred, inverse);
    struct sp_piece *scale = sp_local_along_channels(local, cast_input(local, 1, dtype), spread);
    struct sp_piece *shift = sp_local_along_channels(local, cast_input(local, 2, dtype), spread);
    sp_local_give(local, 0, scaled(local, y, scale, shift));
    struct sp_piece *mean = as_vector(local, moments.mean, &span);
    struct sp_piece *variance = as_vector(local, moments.variance, &span);
    sp_local_give(local, 1, running(local, cast_input(local, 3, dtype), mean, dtype));
    sp_local_give(local, 2, running(local, cast_input(local, 4, dtype), variance, dtype));
    sp_local_give(local, 3, mean);
    sp_local_give(local, 4, variance);
    return sp_local_status(local);
}

/* ---- InstanceNormalization, GroupNormalization ------------------------------------------------------------------ */

enum sp_status sp_local_instance_norm(struct sp_local *local)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_local_input(local, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_local_status(local) : sp_local_default(local);
    enum sp_dtype dtype = sp_local_wide(x->dtype);
    uint32_t rank = local->inputs[0].rank;
    struct sp_local_moments moments = sp_local_moments_of(local, sp_local_cast(local, x, dtype), &span, true);
    struct sp_piece *inverse =
        sp_local_inverse_deviation(local, moments.variance, sp_node_float(local->node, "epsilon", 1e-5));
    struct sp_piece *scale = sp_local_along_channels(local, cast_input(local, 1, dtype), rank);
    struct sp_piece *shift = sp_local_along_channels(local, cast_input(local, 2, dtype), rank);
    sp_local_give(local, 0, scaled(local, sp_local_with(local, "Mul", moments.centred, inverse), scale, shift));
    return sp_local_status(local);
}

/* Statistics are taken over [n, groups, elements of a group]; scale and bias are for groups before opset 21, and for
   channels since. */
enum sp_status sp_local_group_norm(struct sp_local *local)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    struct sp_local_factor groups = {.size = -1};
    for (uint32_t i = 0; i < local->factor_count; i++) {
        if (local->rule->inputs[0].axes[1].count > 0 && local->rule->inputs[0].axes[1].factors[0] == i)
            groups = local->factors[i];
    }
    if (span.factor_count == 0) {
        struct sp_local_attribute count = SP_INT_ATTR("num_groups", groups.size);
        sp_local_output(local, 0, sp_local_same(local, 0, NULL, 1, &count));
        return sp_local_status(local);
    }
    struct sp_piece *x = sp_local_input(local, 0);
    if (x == NULL)
        return sp_local_status(local);
    enum sp_dtype dtype = sp_local_wide(x->dtype);
    uint32_t rank = local->inputs[0].rank;
    const int64_t grouped[] = {0, groups.size, -1}; /* 0: as it is */
    struct sp_piece *wide = sp_local_cast(local, x, dtype);
    struct sp_piece *shape = sp_local_op(local, "Shape", SP_DTYPE_INT64, 1, &wide, 0, NULL);
    struct sp_piece *const parts[] = {wide, sp_local_ints(local, 3, grouped)};
    struct sp_piece *y = sp_local_op(local, "Reshape", dtype, 2, parts, 0, NULL);
    sp_piece_set_dims(local, y, 3, (const int64_t[]){local->inputs[0].axes[0].size, groups.size, -1});
    span.axes = 1 << 2;
    struct sp_local_moments moments = sp_local_moments_of(local, y, &span, true);
    struct sp_piece *inverse =
        sp_local_inverse_deviation(local, moments.variance, sp_node_float(local->node, "epsilon", 1e-5));
    y = sp_local_with(local, "Mul", moments.centred, inverse);
    struct sp_piece *scale = cast_input(local, 1, dtype), *shift = cast_input(local, 2, dtype);
    if (local->version < 21)
        y = scaled(local, y, sp_local_unsqueeze(local, scale, 1), sp_local_unsqueeze(local, shift, 1));
    struct sp_piece *const back[] = {y, shape};
    y = sp_local_op(local, "Reshape", dtype, 2, back, 0, NULL);
    if (x->dims != NULL)
        sp_piece_set_dims(local, y, x->rank, x->dims);
    if (local->version >= 21)
        y = scaled(local, y, sp_local_along_channels(local, scale, rank), sp_local_along_channels(local, shift, rank));
    sp_local_give(local, 0, y);
    return sp_local_status(local);
}

/* ---- LayerNormalization, RMSNormalization ----------------------------------------------------------------------- */

/* `statistics` says how many outputs behind the first are there: the mean (with has_mean) and 1 / deviation. */
static enum sp_status layer_norm(struct sp_local *local, bool has_mean)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_local_input(local, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_local_status(local) : sp_local_default(local);
    enum sp_dtype dtype = sp_local_wide(x->dtype);
    struct sp_local_moments moments = sp_local_moments_of(local, sp_local_cast(local, x, dtype), &span, has_mean);
    struct sp_piece *inverse =
        sp_local_inverse_deviation(local, moments.variance, sp_node_float(local->node, "epsilon", 1e-5));
    struct sp_piece *y = sp_local_with(local, "Mul", moments.centred, inverse);
    struct sp_piece *shift = has_input(local, 2) ? cast_input(local, 2, dtype) : NULL;
    sp_local_give(local, 0, scaled(local, y, cast_input(local, 1, dtype), shift));
    if (has_mean)
        sp_local_give(local, 1, moments.mean);
    sp_local_give(local, has_mean ? 2 : 1, inverse);
    return sp_local_status(local);
}

enum sp_status sp_local_layer_norm(struct sp_local *local)
{
    return layer_norm(local, true);
}

enum sp_status sp_local_rms_norm(struct sp_local *local)
{
    return layer_norm(local, false);
}

/* ---- MeanVarianceNormalization, LpNormalization, LRN ------------------------------------------------------------ */

/* The deviation, not the variance, gets the small summand (the function body of MeanVarianceNormalization-13). */
enum sp_status sp_local_mean_variance_norm(struct sp_local *local)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_local_input(local, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_local_status(local) : sp_local_default(local);
    enum sp_dtype dtype = sp_local_wide(x->dtype);
    struct sp_local_moments moments = sp_local_moments_of(local, sp_local_cast(local, x, dtype), &span, true);
    struct sp_piece *deviation = sp_local_binary(local, "Add", sp_local_unary(local, "Sqrt", moments.variance),
                                                 sp_local_scalar(local, dtype, 1e-9));
    sp_local_give(local, 0, sp_local_binary(local, "Div", moments.centred, deviation));
    return sp_local_status(local);
}

/* Where the norm is 0 all elements are: they are divided by 1. */
enum sp_status sp_local_lp_norm(struct sp_local *local)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_local_input(local, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_local_status(local) : sp_local_default(local);
    bool is_euclidean = sp_node_int(local->node, "p", 2) != 1;
    enum sp_dtype dtype = sp_local_wide(x->dtype);
    struct sp_piece *wide = sp_local_cast(local, x, dtype), *zero = sp_local_scalar(local, dtype, 0);
    struct sp_piece *powers =
        is_euclidean ? sp_local_binary(local, "Mul", wide, wide) : sp_local_unary(local, "Abs", wide);
    struct sp_piece *norm = sp_local_reduce_all(local, "ReduceSum", SP_COMBINE_SUM, powers, &span, true);
    if (is_euclidean)
        norm = sp_local_unary(local, "Sqrt", norm);
    struct sp_piece *is_zero = sp_local_unary(local, "Not", sp_local_compare(local, "Greater", norm, zero));
    norm = sp_local_binary(local, "Add", norm, sp_local_cast(local, is_zero, dtype));
    sp_local_give(local, 0, sp_local_with(local, "Div", wide, norm));
    return sp_local_status(local);
}

/* Normalises the channels that this device has together with those around them that its windows reach, and keeps its
   own. Outside of all channels there is nothing to add, as at the borders of the whole. */
enum sp_status sp_local_lrn(struct sp_local *local)
{
    uint8_t channel = sp_local_input_factor(local, 0, 1);
    if (channel == SP_RULE_NO_FACTOR || !local->factors[channel].is_split)
        return sp_local_default(local);
    const struct sp_local_factor *own = &local->factors[channel];
    const struct sp_range *ranges = own->ranges.ranges;
    int64_t size = sp_node_int(local->node, "size", 1), reach_low = (size - 1) / 2, reach_high = size / 2;
    int64_t last = ranges[own->ranges.count - 1].limit;
    int64_t start = own->start > reach_low ? own->start - reach_low : 0;
    int64_t limit = own->extent - last > reach_high ? last + reach_high : own->extent;
    struct sp_piece *x = sp_local_input_range(local, 0, 1, start, limit);
    struct sp_piece *y = sp_local_same(local, 1, &x, 0, NULL);
    if (y == NULL)
        return sp_local_status(local);
    sp_piece_set_dims(local, y, x->rank, x->dims);
    sp_local_output(local, 0, sp_local_keep_own(local, y, 1, channel, start));
    return sp_local_status(local);
}
