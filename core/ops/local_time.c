/*
 * TensorScatter on shards (rule in op_time.c): updates are written into a cache, one after the other from a place on
 * that each row of the batch has.
 *
 *     place p of the cache becomes update[p - index] where that is one of the updates
 *
 * A device that has a part of the places looks up what comes to each of them; so many elements are compared as its part
 * has places, not as there are updates.
 */
#include <string.h>

#include "base/limits.h"
#include "ops/infer.h"
#include "ops/local_functions.h"
#include "ops/local_parts.h"
#include "ops/local_statistics.h"

enum { IN_CACHE, IN_UPDATE, IN_INDICES };

/* Which update comes to each place of this device: int64 [b, 1, .., places, 1, ..]; of no update where it is not in
   [0, updates). */
static struct sp_piece *number_of_update(struct sp_local *local, uint32_t axis, uint8_t places)
{
    const uint32_t rank = local->inputs[IN_CACHE].rank;
    struct sp_piece *number = sp_local_own_indices(local, places);
    for (uint32_t i = axis + 1; i < rank; i++)
        number = sp_local_unsqueeze(local, number, i - axis);
    if (local->input_count > IN_INDICES && local->inputs[IN_INDICES].value != NULL) {
        struct sp_piece *first = sp_local_cast(local, sp_local_input(local, IN_INDICES), SP_DTYPE_INT64);
        for (uint32_t i = 1; i < rank; i++)
            first = sp_local_unsqueeze(local, first, i);
        number = sp_local_binary(local, "Sub", number, first);
    }
    if (strcmp(sp_node_string(local->node, "mode", "linear"), "circular") != 0)
        return number;
    /* Round the end: of the remainders ONNX has the one that is not negative. */
    struct sp_piece *extent = sp_local_int(local, SP_DTYPE_INT64, local->factors[places].extent);
    return sp_local_binary(local, "Mod", number, extent);
}

enum sp_status sp_local_tensor_scatter(struct sp_local *local)
{
    const struct sp_local_operand *cache = &local->inputs[IN_CACHE];
    int64_t axis = sp_node_int(local->node, "axis", -2);
    axis += axis < 0 ? cache->rank : 0;
    const uint8_t places = sp_local_input_factor(local, IN_CACHE, (uint32_t)axis);
    if (!sp_local_is_split(local, places))
        return sp_local_default(local);
    const int64_t updates = local->inputs[IN_UPDATE].axes[axis].extent;
    const int64_t *dims = sp_local_part_dims(local, cache);
    if (updates < 1 || dims == NULL) {
        sp_local_refuse(local, places, "the extents of its operands are not known before the run");
        return sp_local_status(local);
    }
    struct sp_piece *number = number_of_update(local, (uint32_t)axis, places);
    struct sp_piece *zero = sp_local_int(local, SP_DTYPE_INT64, 0), *end = sp_local_int(local, SP_DTYPE_INT64, updates);
    struct sp_piece *is_after = sp_local_compare(local, "GreaterOrEqual", number, zero);
    struct sp_piece *is_before = sp_local_compare(local, "Less", number, end);
    struct sp_piece *is_written = sp_local_binary(local, "And", is_after, is_before);
    number = sp_local_expand(local, sp_local_where(local, is_written, number, zero), cache->rank, dims);
    struct sp_piece *const inputs[] = {sp_local_input(local, IN_UPDATE), number};
    const struct sp_local_attribute attribute = SP_INT_ATTR("axis", axis);
    struct sp_piece *written = sp_local_op(local, "GatherElements", cache->value->type.dtype, 2, inputs, 1, &attribute);
    sp_piece_set_dims(local, written, cache->rank, dims);
    struct sp_piece *own = sp_local_input(local, IN_CACHE);
    sp_local_output(local, 0, sp_local_where(local, is_written, written, own));
    return sp_local_status(local);
}
