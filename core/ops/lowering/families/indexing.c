/*
 * Gather, GatherBlockQuantized, GatherElements and GatherND on shards.
 *
 * Where the picked axis is cut, indices become indices into the part; what is not here is picked at place 0, and then
 * masked to 0: a summand.
 */
#include "ops/lowering/functions.h"
#include "ops/lowering/heads.h"
#include "ops/lowering/internal.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/places.h"
#include "ops/table/shape_helpers.h"

/* Sums of strings there are none. */
static bool check_summable(struct sp_lowering *lower, uint8_t factor)
{
    char subject[300];
    if (lower->inputs[0].value->type.dtype != SP_DTYPE_STRING)
        return true;
    sp_lower_whole(lower, factor, "%s picks strings, which have no sum, so it has all of them on every device.",
                   sp_op_subject(lower->node, subject, sizeof subject));
    return false;
}

static bool find_axis(struct sp_lowering *lower, const char *attribute, uint32_t *ret_axis)
{
    struct sp_op_context context = sp_lower_context(lower);
    enum sp_status status =
        sp_normalize_axis(&context, sp_node_int(lower->node, attribute, 0), lower->inputs[0].rank, ret_axis);
    if (status != SP_OK)
        sp_lower_failed(lower, status);
    return status == SP_OK;
}

/* The node's own operator on its part of the data and what goes with it, with other indices; what it picks elsewhere is
   0, by a mask with `trailing` axes of 1 more than it has. */
static void pick(struct sp_lowering *lower, struct sp_piece *index, struct sp_piece *mask, uint32_t mask_rank,
                 uint32_t trailing)
{
    uint32_t count = 0;
    struct sp_piece **inputs = sp_lower_inputs(lower);
    if (inputs == NULL)
        return;
    inputs[1] = index;
    struct sp_piece *picked = sp_lower_same(lower, lower->input_count, inputs, 0, NULL);
    picked = sp_lower_masked(lower, sp_lower_widen(lower, mask, mask_rank, trailing), picked);
    const uint8_t *factors = sp_lower_partial_factors(lower, 0, &count);
    sp_lower_output_partial(lower, 0, picked, SP_COMBINE_SUM, count, factors);
}

#define MASKS_SINCE 9 /* Where; a product with 0 is not 0 for all numbers */

/* The same for old models: what is elsewhere is picked from a place of zeros behind the part. */
static void pick_zeros(struct sp_lowering *lower, uint8_t factor, uint32_t axis, struct sp_piece *index,
                       struct sp_piece *is_here)
{
    uint32_t count = 0;
    char subject[300];
    int64_t *dims = sp_lower_sizes(lower, &lower->inputs[0]), size = lower->factors[factor].size;
    struct sp_piece *data = sp_lower_input(lower, 0);
    for (uint32_t i = 0; dims != NULL && i < lower->inputs[0].rank; i++) {
        dims[i] = i == axis ? 1 : dims[i];
        if (dims[i] < 0)
            sp_lower_whole(lower, factor,
                           "%s looks up indices in a part of a tensor of unknown extents, which takes operator set %d "
                           "or later, so it has the axis whole on every device.",
                           sp_op_subject(lower->node, subject, sizeof subject), MASKS_SINCE);
    }
    if (lower->input_count > 2)
        sp_lower_whole(
            lower, factor,
            "%s looks up indices in a part of quantized weights, which takes operator set %d or later, so it "
            "has the axis whole on every device.",
            sp_op_subject(lower->node, subject, sizeof subject), MASKS_SINCE);
    if (!sp_lower_is_fine(lower))
        return;
    struct sp_piece *const both[] = {data, sp_lower_full(lower, data->dtype, lower->inputs[0].rank, dims, 0)};
    index = sp_lower_where(lower, is_here, index, sp_lower_int(lower, SP_DTYPE_INT64, size));
    struct sp_piece *const inputs[] = {sp_lower_concat(lower, axis, 2, both), index};
    const uint8_t *factors = sp_lower_partial_factors(lower, 0, &count);
    sp_lower_output_partial(lower, 0, sp_lower_same(lower, 2, inputs, 0, NULL), SP_COMBINE_SUM, count, factors);
}

static enum sp_status lower_gather(struct sp_lowering *lower, const char *attribute)
{
    uint32_t axis = 0, rank = lower->inputs[0].rank, places = lower->inputs[1].rank;
    struct sp_piece *is_here = NULL;
    if (!find_axis(lower, attribute, &axis))
        return sp_lower_status(lower);
    uint8_t factor = sp_lower_input_factor(lower, 0, axis);
    if (!sp_lower_is_split(lower, factor))
        return sp_lower_default(lower);
    if (!check_summable(lower, factor))
        return sp_lower_status(lower);
    struct sp_piece *index = sp_lower_locate(lower, factor, sp_lower_input(lower, 1), &is_here);
    if (lower->opset < MASKS_SINCE)
        pick_zeros(lower, factor, axis, index, is_here);
    else
        pick(lower, sp_lower_masked(lower, is_here, index), is_here, places, rank - axis - 1);
    return sp_lower_status(lower);
}

enum sp_status sp_lower_node_gather(struct sp_lowering *lower)
{
    return lower_gather(lower, "axis");
}

enum sp_status sp_lower_gather_quantized(struct sp_lowering *lower)
{
    return lower_gather(lower, "gather_axis");
}

enum sp_status sp_lower_node_gather_elements(struct sp_lowering *lower)
{
    uint32_t axis = 0;
    struct sp_piece *is_here = NULL;
    if (!find_axis(lower, "axis", &axis))
        return sp_lower_status(lower);
    uint8_t factor = sp_lower_input_factor(lower, 0, axis);
    if (!sp_lower_is_split(lower, factor))
        return sp_lower_default(lower);
    if (!check_summable(lower, factor))
        return sp_lower_status(lower);
    struct sp_piece *index = sp_lower_locate(lower, factor, sp_lower_input(lower, 1), &is_here);
    pick(lower, sp_lower_masked(lower, is_here, index), is_here, lower->inputs[1].rank, 0);
    return sp_lower_status(lower);
}

/* Tuples of indices [.., depth]: each entry along its own axis of the data, from axis `batch` on. */
static void pick_tuples(struct sp_lowering *lower, uint32_t batch, uint32_t depth)
{
    uint32_t last = lower->inputs[1].rank - 1;
    struct sp_piece **columns = SP_LOWER_ARRAY(lower, depth, struct sp_piece *), *mask = NULL;
    struct sp_piece *tuples = sp_lower_cast(lower, sp_lower_input(lower, 1), SP_DTYPE_INT64);
    for (uint32_t i = 0; columns != NULL && i < depth; i++) {
        uint8_t factor = sp_lower_input_factor(lower, 0, batch + i);
        struct sp_piece *is_here = NULL;
        columns[i] = sp_lower_slice(lower, tuples, last, i, (int64_t)i + 1);
        if (!sp_lower_is_split(lower, factor))
            continue;
        columns[i] = sp_lower_locate(lower, factor, columns[i], &is_here);
        columns[i] = sp_lower_masked(lower, is_here, columns[i]);
        mask = mask == NULL ? is_here : sp_lower_binary(lower, "And", mask, is_here);
    }
    if (!sp_lower_is_fine(lower))
        return;
    struct sp_piece *index = sp_lower_concat(lower, last, depth, columns);
    pick(lower, index, sp_lower_squeeze(lower, mask, last), last, lower->inputs[0].rank - batch - depth);
}

enum sp_status sp_lower_node_gather_nd(struct sp_lowering *lower)
{
    uint32_t batch = (uint32_t)sp_node_int(lower->node, "batch_dims", 0);
    int64_t depth = lower->inputs[1].axes[lower->inputs[1].rank - 1].extent;
    uint8_t first = SP_RULE_NO_FACTOR;
    for (uint32_t i = 0; i < depth; i++) {
        uint8_t factor = sp_lower_input_factor(lower, 0, batch + i);
        if (first == SP_RULE_NO_FACTOR && sp_lower_is_split(lower, factor))
            first = factor;
    }
    if (first == SP_RULE_NO_FACTOR)
        return sp_lower_default(lower);
    if (check_summable(lower, first))
        pick_tuples(lower, batch, (uint32_t)depth);
    return sp_lower_status(lower);
}
