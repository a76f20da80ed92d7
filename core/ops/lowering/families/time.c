/*
 * TensorScatter on shards (rule in time.c): updates are written into a cache, one after the other from a place on
 * that each row of the batch has.
 *
 *     place p of the cache becomes update[p - index] where that is one of the updates
 *
 * A device that has a part of the places looks up what comes to each of them; so many elements are compared as its part
 * has places, not as there are updates.
 */
#include <string.h>

#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/statistics.h"

enum { IN_CACHE, IN_UPDATE, IN_INDICES };

/* Which update comes to each place of this device: int64 [b, 1, .., places, 1, ..]; of no update where it is not in
   [0, updates). */
static struct sp_piece *number_of_update(struct sp_lowering *lower, uint32_t axis, uint8_t places)
{
    const uint32_t rank = lower->inputs[IN_CACHE].rank;
    struct sp_piece *number = sp_lower_own_indices(lower, places);
    for (uint32_t i = axis + 1; i < rank; i++)
        number = sp_lower_unsqueeze(lower, number, i - axis);
    if (lower->input_count > IN_INDICES && lower->inputs[IN_INDICES].value != NULL) {
        struct sp_piece *first = sp_lower_cast(lower, sp_lower_input(lower, IN_INDICES), SP_DTYPE_INT64);
        for (uint32_t i = 1; i < rank; i++)
            first = sp_lower_unsqueeze(lower, first, i);
        number = sp_lower_binary(lower, "Sub", number, first);
    }
    if (strcmp(sp_node_string(lower->node, "mode", "linear"), "circular") != 0)
        return number;
    /* Round the end: of the remainders ONNX has the one that is not negative. */
    struct sp_piece *extent = sp_lower_int(lower, SP_DTYPE_INT64, lower->factors[places].extent);
    return sp_lower_binary(lower, "Mod", number, extent);
}

enum sp_status sp_lower_tensor_scatter(struct sp_lowering *lower)
{
    const struct sp_lower_operand *cache = &lower->inputs[IN_CACHE];
    int64_t axis = sp_node_int(lower->node, "axis", -2);
    axis += axis < 0 ? cache->rank : 0;
    const uint8_t places = sp_lower_input_factor(lower, IN_CACHE, (uint32_t)axis);
    if (!sp_lower_is_split(lower, places))
        return sp_lower_default(lower);
    const int64_t updates = lower->inputs[IN_UPDATE].axes[axis].extent;
    const int64_t *dims = sp_lower_part_dims(lower, cache);
    if (updates < 1 || dims == NULL) {
        sp_lower_refuse(lower, places, "the extents of its operands are not known before the run");
        return sp_lower_status(lower);
    }
    struct sp_piece *number = number_of_update(lower, (uint32_t)axis, places);
    struct sp_piece *zero = sp_lower_int(lower, SP_DTYPE_INT64, 0), *end = sp_lower_int(lower, SP_DTYPE_INT64, updates);
    struct sp_piece *is_after = sp_lower_compare(lower, "GreaterOrEqual", number, zero);
    struct sp_piece *is_before = sp_lower_compare(lower, "Less", number, end);
    struct sp_piece *is_written = sp_lower_binary(lower, "And", is_after, is_before);
    number = sp_lower_expand(lower, sp_lower_where(lower, is_written, number, zero), cache->rank, dims);
    struct sp_piece *const inputs[] = {sp_lower_input(lower, IN_UPDATE), number};
    const struct sp_lower_attribute attribute = SP_INT_ATTR("axis", axis);
    struct sp_piece *written = sp_lower_op(lower, "GatherElements", cache->value->type.dtype, 2, inputs, 1, &attribute);
    sp_piece_set_dims(lower, written, cache->rank, dims);
    struct sp_piece *own = sp_lower_input(lower, IN_CACHE);
    sp_lower_output(lower, 0, sp_lower_where(lower, is_written, written, own));
    return sp_lower_status(lower);
}
