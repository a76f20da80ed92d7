/*
 * TopK and OneHot on shards (rules in selection.c).
 *
 * TopK: each shard's best, with their positions in the whole; then the best of those. Both steps prefer the lower
 * position among equals, and what is gathered comes in the order of positions, so ties are broken as in the whole.
 *
 * OneHot: the places of this device's part of the new axis are compared with the indices.
 */
#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/statistics.h"

/* ---- TopK ------------------------------------------------------------------------------------------------------- */

#define LARGEST_SINCE 11 /* attributes `largest` and `sorted`; GatherElements */
#define K_INPUT_SINCE 10

/* The best `k` along an axis: outputs[0] values, outputs[1] positions. */
static void top(struct sp_lowering *lower, struct sp_piece *x, uint32_t axis, int64_t k, struct sp_piece **outputs)
{
    const struct sp_lower_attribute attributes[] = {
        SP_INT_ATTR("axis", (int64_t)axis),
        lower->version < K_INPUT_SINCE ? SP_INT_ATTR("k", k)
                                       : SP_INT_ATTR("largest", sp_node_int(lower->node, "largest", 1)),
        SP_INT_ATTR("sorted", 1),
    };
    uint32_t attribute_count = lower->version < K_INPUT_SINCE ? 2 : lower->version < LARGEST_SINCE ? 1 : 3;
    outputs[0] = outputs[1] = NULL;
    if (x == NULL)
        return;
    struct sp_piece *const inputs[] = {x, lower->version < K_INPUT_SINCE ? NULL : sp_lower_ints(lower, 1, &k)};
    const enum sp_dtype dtypes[] = {x->dtype, SP_DTYPE_INT64};
    sp_lower_op_many(lower,
                     &(struct sp_lower_call){"", "TopK", lower->version < K_INPUT_SINCE ? 1 : 2, inputs,
                                             attribute_count, attributes, 2},
                     dtypes, outputs);
}

/* The elements of x [.., n, ..] at places [.., k, ..] along an axis. Without GatherElements: of all n the one whose
   place it is, and zeros, added up. */
static struct sp_piece *pick(struct sp_lowering *lower, struct sp_piece *x, struct sp_piece *places, uint32_t axis,
                             uint32_t rank, int64_t n)
{
    if (lower->opset >= LARGEST_SINCE) {
        struct sp_piece *const inputs[] = {x, places};
        struct sp_lower_attribute along = SP_INT_ATTR("axis", (int64_t)axis);
        return x != NULL ? sp_lower_op(lower, "GatherElements", x->dtype, 2, inputs, 1, &along) : NULL;
    }
    struct sp_piece *all = sp_lower_iota(lower, 0, n);
    for (uint32_t i = axis + 1; i < rank; i++)
        all = sp_lower_unsqueeze(lower, all, i - axis);
    struct sp_piece *is_it = sp_lower_compare(lower, "Equal", sp_lower_unsqueeze(lower, places, axis + 1), all);
    struct sp_piece *chosen =
        sp_lower_binary(lower, "Mul", sp_lower_cast(lower, is_it, SP_DTYPE_INT64), sp_lower_unsqueeze(lower, x, axis));
    return sp_lower_reduce(lower, "ReduceSum", chosen, (uint64_t)1 << (axis + 1), false);
}

/* How many elements all shards give that have `k` or, where they are shorter, all of theirs. */
static int64_t gathered(const struct sp_lower_factor *factor, int64_t k)
{
    int64_t count = 0;
    for (int64_t shard = 0; shard < factor->shards; shard++) {
        struct sp_range range = sp_lower_shard(factor, shard);
        int64_t size = range.limit - range.start;
        count += size < k ? size : k;
    }
    return count;
}

/* Values and positions of all shards, where these are not in the order of positions, in that order. */
static void sort_by_position(struct sp_lowering *lower, uint32_t axis, uint32_t rank, struct sp_piece **best)
{
    const struct sp_lower_attribute attributes[] = {SP_INT_ATTR("axis", (int64_t)axis), SP_INT_ATTR("largest", 0)};
    const enum sp_dtype dtypes[] = {SP_DTYPE_INT64, SP_DTYPE_INT64};
    struct sp_piece *shape = sp_lower_op(lower, "Shape", SP_DTYPE_INT64, 1, &best[1], 0, NULL), *sorted[2];
    if (shape == NULL)
        return;
    sp_piece_set_dims(lower, shape, 1, (const int64_t[]){rank});
    struct sp_piece *const inputs[] = {best[1], sp_lower_slice(lower, shape, 0, axis, axis + 1)};
    sp_lower_op_many(lower, &(struct sp_lower_call){"", "TopK", 2, inputs, 2, attributes, 2}, dtypes, sorted);
    best[0] = pick(lower, best[0], sorted[1], axis, rank, -1);
    best[1] = sorted[0];
}

/* Why TopK cannot be split here, or NULL. */
static const char *reason_against(const struct sp_lowering *lower, uint8_t factor, int64_t k, const int64_t *part)
{
    if (k < 1)
        return "How many elements TopK selects is not known before the run";
    if (part == NULL)
        return "The input of TopK has an extent that is not known before the run";
    if (!sp_lower_is_even(lower, factor) && lower->opset < LARGEST_SINCE)
        return "The shards of the axis along which TopK selects are not in the order of its elements";
    return NULL;
}

enum sp_status sp_lower_top_k(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    if (span.factor_count == 0)
        return sp_lower_default(lower);
    uint8_t factor = span.factors[0];
    int64_t k = -1, dims[SP_MAX_RANK] = {0};
    uint32_t axis = 0;
    while (axis + 1 < lower->inputs[0].rank && (span.axes >> axis & 1) == 0)
        axis++;
    for (uint32_t i = 0; i < lower->output_count; i++) {
        if (lower->outputs[i].value != NULL)
            k = lower->outputs[i].axes[axis].extent;
    }
    const int64_t *part = sp_lower_part_dims(lower, &lower->inputs[0]);
    const char *reason = reason_against(lower, factor, k, part);
    if (reason != NULL)
        sp_lower_whole(lower, factor, "%s, so it is computed whole on every device.", reason);
    struct sp_piece *x = sp_lower_input(lower, 0), *best[2], *result[2];
    if (x == NULL || part == NULL)
        return sp_lower_status(lower);
    for (uint32_t i = 0; i < x->rank; i++)
        dims[i] = i == axis && part[i] > k ? k : part[i];
    top(lower, x, axis, dims[axis], best);
    best[1] = sp_lower_to_global(lower, best[1], &lower->factors[factor].ranges);
    for (uint32_t i = 0; i < 2; i++) {
        sp_piece_set_dims(lower, best[i], x->rank, dims);
        best[i] = sp_lower_all_gather(lower, best[i], factor, axis);
    }
    if (!sp_lower_is_even(lower, factor))
        sort_by_position(lower, axis, x->rank, best);
    top(lower, best[0], axis, k, result);
    if (lower->outputs[0].value != NULL)
        sp_lower_output(lower, 0, result[0]);
    if (lower->output_count > 1 && lower->outputs[1].value != NULL)
        sp_lower_output(lower, 1, pick(lower, best[1], result[1], axis, x->rank, gathered(&lower->factors[factor], k)));
    return sp_lower_status(lower);
}

/* ---- OneHot ----------------------------------------------------------------------------------------------------- */

/* Indices outside of the axis are nowhere, negative ones count from its end. */
enum sp_status sp_lower_one_hot(struct sp_lowering *lower)
{
    uint8_t depth = sp_lower_split_named(lower, "depth");
    if (depth == SP_RULE_NO_FACTOR)
        return sp_lower_default(lower);
    uint32_t rank = lower->outputs[0].rank, axis = 0;
    while (axis + 1 < rank && sp_lower_output_factor(lower, 0, axis) != depth)
        axis++;
    struct sp_piece *zero = sp_lower_int(lower, SP_DTYPE_INT64, 0);
    struct sp_piece *extent = sp_lower_int(lower, SP_DTYPE_INT64, lower->factors[depth].extent);
    struct sp_piece *index = sp_lower_cast(lower, sp_lower_input(lower, 0), SP_DTYPE_INT64);
    struct sp_piece *from_end = sp_lower_binary(lower, "Add", index, extent);
    index = sp_lower_where(lower, sp_lower_compare(lower, "Less", index, zero), from_end, index);
    index = sp_lower_unsqueeze(lower, index, axis);
    struct sp_piece *places = sp_lower_own_indices(lower, depth);
    for (uint32_t i = axis + 1; i < rank; i++)
        places = sp_lower_unsqueeze(lower, places, i - axis);
    struct sp_piece *is_here = sp_lower_cast(lower, sp_lower_compare(lower, "Equal", index, places), SP_DTYPE_INT64);
    sp_lower_output(lower, 0, sp_lower_gather(lower, sp_lower_input(lower, 2), is_here, 0));
    return sp_lower_status(lower);
}
