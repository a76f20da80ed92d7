/*
 * Gather, GatherElements and GatherND on shards.
 *
 * Where the picked axis is cut, indices become indices into the part; what is not here is picked at place 0, and then
 * masked to 0: a summand.
 */
#include "ops/infer.h"
#include "ops/local_functions.h"
#include "ops/local_internal.h"
#include "ops/local_parts.h"
#include "ops/local_places.h"

/* Sums of strings there are none. */
static bool check_summable(struct sp_local *local, uint8_t factor)
{
    char subject[300];
    if (local->inputs[0].value->type.dtype != SP_DTYPE_STRING)
        return true;
    sp_local_whole(local, factor, "%s picks strings, which have no sum, so it has all of them on every device.",
                   sp_op_subject(local->node, subject, sizeof(subject)));
    return false;
}

static bool find_axis(struct sp_local *local, uint32_t *ret_axis)
{
    struct sp_op_context context = sp_local_context(local);
    enum sp_status status =
        sp_normalize_axis(&context, sp_node_int(local->node, "axis", 0), local->inputs[0].rank, ret_axis);
    if (status != SP_OK)
        sp_local_failed(local, status);
    return status == SP_OK;
}

/* The node's own operator on its part of the data, with other indices; what it picks elsewhere is 0, by a mask with
   `trailing` axes of 1 more than it has. */
static void pick(struct sp_local *local, struct sp_piece *index, struct sp_piece *mask, uint32_t mask_rank,
                 uint32_t trailing)
{
    uint32_t count = 0;
    struct sp_piece *const inputs[] = {sp_local_input(local, 0), index};
    struct sp_piece *picked = sp_local_same(local, 2, inputs, 0, NULL);
    picked = sp_local_masked(local, sp_local_widen(local, mask, mask_rank, trailing), picked);
    const uint8_t *factors = sp_local_partial_factors(local, 0, &count);
    sp_local_output_partial(local, 0, picked, SP_COMBINE_SUM, count, factors);
}

#define MASKS_SINCE 9 /* Where; a product with 0 is not 0 for all numbers */

/* The same for old models: what is elsewhere is picked from a place of zeros behind the part. */
static void pick_zeros(struct sp_local *local, uint8_t factor, uint32_t axis, struct sp_piece *index,
                       struct sp_piece *is_here)
{
    uint32_t count = 0;
    int64_t *dims = sp_local_sizes(local, &local->inputs[0]), size = local->factors[factor].size;
    struct sp_piece *data = sp_local_input(local, 0);
    for (uint32_t i = 0; dims != NULL && i < local->inputs[0].rank; i++) {
        char subject[300];
        dims[i] = i == axis ? 1 : dims[i];
        if (dims[i] < 0)
            sp_local_whole(local, factor,
                           "%s looks up indices in a part of a tensor of unknown extents, which takes operator set %d "
                           "or later, so it has the axis whole on every device.",
                           sp_op_subject(local->node, subject, sizeof(subject)), MASKS_SINCE);
    }
    if (!sp_local_is_fine(local))
        return;
    struct sp_piece *const both[] = {data, sp_local_full(local, data->dtype, local->inputs[0].rank, dims, 0)};
    index = sp_local_where(local, is_here, index, sp_local_int(local, SP_DTYPE_INT64, size));
    struct sp_piece *const inputs[] = {sp_local_concat(local, axis, 2, both), index};
    const uint8_t *factors = sp_local_partial_factors(local, 0, &count);
    sp_local_output_partial(local, 0, sp_local_same(local, 2, inputs, 0, NULL), SP_COMBINE_SUM, count, factors);
}

enum sp_status sp_local_node_gather(struct sp_local *local)
{
    uint32_t axis = 0, rank = local->inputs[0].rank, places = local->inputs[1].rank;
    struct sp_piece *is_here = NULL;
    if (!find_axis(local, &axis))
        return sp_local_status(local);
    uint8_t factor = sp_local_input_factor(local, 0, axis);
    if (!sp_local_is_split(local, factor))
        return sp_local_default(local);
    if (!check_summable(local, factor))
        return sp_local_status(local);
    struct sp_piece *index = sp_local_locate(local, factor, sp_local_input(local, 1), &is_here);
    if (local->opset < MASKS_SINCE)
        pick_zeros(local, factor, axis, index, is_here);
    else
        pick(local, sp_local_masked(local, is_here, index), is_here, places, rank - axis - 1);
    return sp_local_status(local);
}

enum sp_status sp_local_node_gather_elements(struct sp_local *local)
{
    uint32_t axis = 0;
    struct sp_piece *is_here = NULL;
    if (!find_axis(local, &axis))
        return sp_local_status(local);
    uint8_t factor = sp_local_input_factor(local, 0, axis);
    if (!sp_local_is_split(local, factor))
        return sp_local_default(local);
    if (!check_summable(local, factor))
        return sp_local_status(local);
    struct sp_piece *index = sp_local_locate(local, factor, sp_local_input(local, 1), &is_here);
    pick(local, sp_local_masked(local, is_here, index), is_here, local->inputs[1].rank, 0);
    return sp_local_status(local);
}

/* Tuples of indices [.., depth]: each entry along its own axis of the data, from axis `batch` on. */
static void pick_tuples(struct sp_local *local, uint32_t batch, uint32_t depth)
{
    uint32_t last = local->inputs[1].rank - 1;
    struct sp_piece **columns = SP_LOCAL_ARRAY(local, depth, struct sp_piece *), *mask = NULL;
    struct sp_piece *tuples = sp_local_cast(local, sp_local_input(local, 1), SP_DTYPE_INT64);
    for (uint32_t i = 0; columns != NULL && i < depth; i++) {
        uint8_t factor = sp_local_input_factor(local, 0, batch + i);
        struct sp_piece *is_here = NULL;
        columns[i] = sp_local_slice(local, tuples, last, i, (int64_t)i + 1);
        if (!sp_local_is_split(local, factor))
            continue;
        columns[i] = sp_local_locate(local, factor, columns[i], &is_here);
        columns[i] = sp_local_masked(local, is_here, columns[i]);
        mask = mask == NULL ? is_here : sp_local_binary(local, "And", mask, is_here);
    }
    if (!sp_local_is_fine(local))
        return;
    struct sp_piece *index = sp_local_concat(local, last, depth, columns);
    pick(local, index, sp_local_squeeze(local, mask, last), last, local->inputs[0].rank - batch - depth);
}

enum sp_status sp_local_node_gather_nd(struct sp_local *local)
{
    uint32_t batch = (uint32_t)sp_node_int(local->node, "batch_dims", 0);
    int64_t depth = local->inputs[1].axes[local->inputs[1].rank - 1].extent;
    uint8_t first = SP_RULE_NO_FACTOR;
    for (uint32_t i = 0; i < depth; i++) {
        uint8_t factor = sp_local_input_factor(local, 0, batch + i);
        if (first == SP_RULE_NO_FACTOR && sp_local_is_split(local, factor))
            first = factor;
    }
    if (first == SP_RULE_NO_FACTOR)
        return sp_local_default(local);
    if (check_summable(local, first))
        pick_tuples(local, batch, (uint32_t)depth);
    return sp_local_status(local);
}
