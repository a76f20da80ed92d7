/*
 * TopK and OneHot on shards (rules in selection.c).
 *
 * TopK: each shard's best, with their positions in the whole; then the best of those. Both steps prefer the lower
 * position among equals, and what is gathered comes in the order of positions, so ties are broken as in the whole.
 *
 * OneHot: the places of this device's part of the new axis are compared with the indices.
 */
#include "base/limits.h"
#include "ops/local_functions.h"
#include "ops/local_statistics.h"

/* ---- TopK ------------------------------------------------------------------------------------------------------- */

#define LARGEST_SINCE 11 /* attributes `largest` and `sorted`; GatherElements */
#define K_INPUT_SINCE 10

/* The best `k` along an axis: outputs[0] values, outputs[1] positions. */
static void top(struct sp_local *local, struct sp_piece *x, uint32_t axis, int64_t k, struct sp_piece **outputs)
{
    const struct sp_local_attribute attributes[] = {
        SP_INT_ATTR("axis", (int64_t)axis),
        local->version < K_INPUT_SINCE ? SP_INT_ATTR("k", k)
                                       : SP_INT_ATTR("largest", sp_node_int(local->node, "largest", 1)),
        SP_INT_ATTR("sorted", 1),
    };
    uint32_t attribute_count = local->version < K_INPUT_SINCE ? 2 : local->version < LARGEST_SINCE ? 1 : 3;
    outputs[0] = outputs[1] = NULL;
    if (x == NULL)
        return;
    struct sp_piece *const inputs[] = {x, local->version < K_INPUT_SINCE ? NULL : sp_local_ints(local, 1, &k)};
    const enum sp_dtype dtypes[] = {x->dtype, SP_DTYPE_INT64};
    sp_local_op_many(local, "", "TopK", local->version < K_INPUT_SINCE ? 1 : 2, inputs, attribute_count, attributes, 2,
                     dtypes, outputs);
}

/* The elements of x [.., n, ..] at places [.., k, ..] along an axis. Without GatherElements: of all n the one whose
   place it is, and zeros, added up. */
static struct sp_piece *pick(struct sp_local *local, struct sp_piece *x, struct sp_piece *places, uint32_t axis,
                             uint32_t rank, int64_t n)
{
    if (local->opset >= LARGEST_SINCE) {
        struct sp_piece *const inputs[] = {x, places};
        struct sp_local_attribute along = SP_INT_ATTR("axis", (int64_t)axis);
        return x != NULL ? sp_local_op(local, "GatherElements", x->dtype, 2, inputs, 1, &along) : NULL;
    }
    struct sp_piece *all = sp_local_iota(local, 0, n);
    for (uint32_t i = axis + 1; i < rank; i++)
        all = sp_local_unsqueeze(local, all, i - axis);
    struct sp_piece *is_it = sp_local_compare(local, "Equal", sp_local_unsqueeze(local, places, axis + 1), all);
    struct sp_piece *chosen =
        sp_local_binary(local, "Mul", sp_local_cast(local, is_it, SP_DTYPE_INT64), sp_local_unsqueeze(local, x, axis));
    return sp_local_reduce(local, "ReduceSum", chosen, (uint64_t)1 << (axis + 1), false);
}

/* How many elements all shards give that have `k` or, where they are shorter, all of theirs. */
static int64_t gathered(const struct sp_local_factor *factor, int64_t k)
{
    int64_t block = (factor->extent + factor->shards - 1) / factor->shards, count = 0;
    for (int64_t shard = 0; shard < factor->shards; shard++) {
        int64_t left = factor->extent - shard * block, size = left < block ? left : block;
        count += size < k ? size : k;
    }
    return count;
}

/* Values and positions of all shards, where these are not in the order of positions, in that order. */
static void sort_by_position(struct sp_local *local, uint32_t axis, uint32_t rank, struct sp_piece **best)
{
    const struct sp_local_attribute attributes[] = {SP_INT_ATTR("axis", (int64_t)axis), SP_INT_ATTR("largest", 0)};
    const enum sp_dtype dtypes[] = {SP_DTYPE_INT64, SP_DTYPE_INT64};
    struct sp_piece *shape = sp_local_op(local, "Shape", SP_DTYPE_INT64, 1, &best[1], 0, NULL), *sorted[2];
    if (shape == NULL)
        return;
    sp_piece_set_dims(local, shape, 1, (const int64_t[]){rank});
    struct sp_piece *const inputs[] = {best[1], sp_local_slice(local, shape, 0, axis, axis + 1)};
    sp_local_op_many(local, "", "TopK", 2, inputs, 2, attributes, 2, dtypes, sorted);
    best[0] = pick(local, best[0], sorted[1], axis, rank, -1);
    best[1] = sorted[0];
}

/* Why TopK cannot be split here, or NULL. */
static const char *reason_against(const struct sp_local *local, uint8_t factor, int64_t k, const int64_t *part)
{
    if (k < 1)
        return "How many elements TopK selects is not known before the run";
    if (part == NULL)
        return "The input of TopK has an extent that is not known before the run";
    if (!sp_local_is_even(local, factor) && local->opset < LARGEST_SINCE)
        return "The shards of the axis along which TopK selects are not in the order of its elements";
    return NULL;
}

enum sp_status sp_local_top_k(struct sp_local *local)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    if (span.factor_count == 0)
        return sp_local_default(local);
    uint8_t factor = span.factors[0];
    int64_t k = -1, dims[SP_MAX_RANK] = {0};
    uint32_t axis = 0;
    while (axis + 1 < local->inputs[0].rank && (span.axes >> axis & 1) == 0)
        axis++;
    for (uint32_t i = 0; i < local->output_count; i++) {
        if (local->outputs[i].value != NULL)
            k = local->outputs[i].axes[axis].extent;
    }
    const int64_t *part = sp_local_part_dims(local, &local->inputs[0]);
    const char *reason = reason_against(local, factor, k, part);
    if (reason != NULL)
        sp_local_whole(local, factor, "%s, so it is computed whole on every device.", reason);
    struct sp_piece *x = sp_local_input(local, 0), *best[2], *result[2];
    if (x == NULL || part == NULL)
        return sp_local_status(local);
    for (uint32_t i = 0; i < x->rank; i++)
        dims[i] = i == axis && part[i] > k ? k : part[i];
    top(local, x, axis, dims[axis], best);
    best[1] = sp_local_to_global(local, best[1], &local->factors[factor].ranges);
    for (uint32_t i = 0; i < 2; i++) {
        sp_piece_set_dims(local, best[i], x->rank, dims);
        best[i] = sp_local_all_gather(local, best[i], factor, axis);
    }
    if (!sp_local_is_even(local, factor))
        sort_by_position(local, axis, x->rank, best);
    top(local, best[0], axis, k, result);
    if (local->outputs[0].value != NULL)
        sp_local_output(local, 0, result[0]);
    if (local->output_count > 1 && local->outputs[1].value != NULL)
        sp_local_output(local, 1, pick(local, best[1], result[1], axis, x->rank, gathered(&local->factors[factor], k)));
    return sp_local_status(local);
}

/* ---- OneHot ----------------------------------------------------------------------------------------------------- */

/* Indices outside of the axis are nowhere, negative ones count from its end. */
enum sp_status sp_local_one_hot(struct sp_local *local)
{
    uint8_t depth = sp_local_split_named(local, "depth");
    if (depth == SP_RULE_NO_FACTOR)
        return sp_local_default(local);
    uint32_t rank = local->outputs[0].rank, axis = 0;
    while (axis + 1 < rank && sp_local_output_factor(local, 0, axis) != depth)
        axis++;
    struct sp_piece *zero = sp_local_int(local, SP_DTYPE_INT64, 0);
    struct sp_piece *extent = sp_local_int(local, SP_DTYPE_INT64, local->factors[depth].extent);
    struct sp_piece *index = sp_local_cast(local, sp_local_input(local, 0), SP_DTYPE_INT64);
    struct sp_piece *from_end = sp_local_binary(local, "Add", index, extent);
    index = sp_local_where(local, sp_local_compare(local, "Less", index, zero), from_end, index);
    index = sp_local_unsqueeze(local, index, axis);
    struct sp_piece *places = sp_local_own_indices(local, depth);
    for (uint32_t i = axis + 1; i < rank; i++)
        places = sp_local_unsqueeze(local, places, i - axis);
    struct sp_piece *is_here = sp_local_cast(local, sp_local_compare(local, "Equal", index, places), SP_DTYPE_INT64);
    sp_local_output(local, 0, sp_local_gather(local, sp_local_input(local, 2), is_here, 0));
    return sp_local_status(local);
}
