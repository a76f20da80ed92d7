/*
 * ScatterElements (Scatter) and ScatterND on shards.
 *
 * Where the written axis is cut, writes that belong to other devices go to one place more, which is dropped afterwards.
 * Where the writes are cut and are combined with what was there, the data count on one device alone.
 */
#include "ops/lowering/functions.h"
#include "ops/lowering/internal.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/places.h"
#include "ops/table/shape_helpers.h"

/* The data where they count: on the devices with the first shard of every factor of the writes. Others start from what
   changes nothing. Of a maximum the data may be everywhere. */
static struct sp_piece *data_once(struct sp_lowering *lower, enum sp_combiner combiner, uint32_t count,
                                  const uint8_t *factors)
{
    struct sp_piece *data = sp_lower_input(lower, 0);
    bool is_first = true;
    if (count == 0 || data == NULL || (combiner != SP_COMBINE_SUM && combiner != SP_COMBINE_PROD))
        return data;
    for (uint32_t i = 0; i < count; i++)
        is_first = is_first && lower->factors[factors[i]].shard == 0;
    return sp_lower_where(lower, sp_lower_int(lower, SP_DTYPE_BOOL, is_first), data,
                          sp_lower_int(lower, data->dtype, combiner == SP_COMBINE_PROD));
}

/* The data with one place more along an axis. */
static struct sp_piece *with_spare(struct sp_lowering *lower, struct sp_piece *data, uint32_t axis)
{
    const int64_t first = 0;
    struct sp_piece *const both[] = {data, sp_lower_gather(lower, data, sp_lower_ints(lower, 1, &first), axis)};
    return sp_lower_concat(lower, axis, 2, both);
}

/* Writes; with a spare place on `axis` where there is one (else `axis` is the rank), which goes again. */
static struct sp_piece *write(struct sp_lowering *lower, struct sp_piece *data, struct sp_piece *index, uint32_t axis)
{
    const struct sp_lower_operand *output = &lower->outputs[0];
    struct sp_piece *const inputs[] = {data, index, sp_lower_input(lower, 2)};
    struct sp_piece *written = sp_lower_same(lower, 3, inputs, 0, NULL);
    int64_t *sizes = sp_lower_sizes(lower, output);
    if (sizes == NULL || axis >= output->rank)
        return written;
    int64_t size = sizes[axis]++;
    sp_piece_set_dims(lower, written, output->rank, sizes);
    return sp_lower_slice(lower, written, axis, 0, size);
}

static void give(struct sp_lowering *lower, struct sp_piece *written, enum sp_combiner combiner, uint32_t count,
                 const uint8_t *factors)
{
    if (count == 0)
        sp_lower_output(lower, 0, written);
    else
        sp_lower_output_partial(lower, 0, written, combiner, count, factors);
}

/* How the writes combine over devices, where any factor of them is split. */
static enum sp_combiner combiner_of(const struct sp_lowering *lower, uint32_t count, const uint8_t *factors)
{
    return count > 0 ? lower->rule->factors[factors[0]].combiner : SP_COMBINE_NONE;
}

enum sp_status sp_lower_node_scatter_elements(struct sp_lowering *lower)
{
    struct sp_op_context context = sp_lower_context(lower);
    uint32_t rank = lower->inputs[0].rank, axis = 0, count = 0;
    enum sp_status status = sp_normalize_axis(&context, sp_node_int(lower->node, "axis", 0), rank, &axis);
    sp_lower_failed(lower, status);
    if (status != SP_OK)
        return sp_lower_status(lower);
    const uint8_t *factors = sp_lower_partial_factors(lower, 0, &count), factor = sp_lower_input_factor(lower, 0, axis);
    enum sp_combiner combiner = combiner_of(lower, count, factors);
    struct sp_piece *data = data_once(lower, combiner, count, factors), *index = sp_lower_input(lower, 1);
    if (sp_lower_is_split(lower, factor)) {
        struct sp_piece *is_here = NULL, *spare = sp_lower_int(lower, SP_DTYPE_INT64, lower->factors[factor].size);
        index = sp_lower_locate(lower, factor, index, &is_here);
        index = sp_lower_where(lower, is_here, index, spare);
        give(lower, write(lower, with_spare(lower, data, axis), index, axis), combiner, count, factors);
    } else {
        give(lower, write(lower, data, index, rank), combiner, count, factors);
    }
    return sp_lower_status(lower);
}

/* The tuples as ones of the part. A tuple of another device has its entry of axis `spare` at the place behind the last,
   and 0 in the other cut axes. */
static struct sp_piece *locate_tuples(struct sp_lowering *lower, uint32_t depth, uint32_t spare)
{
    uint32_t last = lower->inputs[1].rank - 1;
    struct sp_piece **columns = SP_LOWER_ARRAY(lower, depth, struct sp_piece *), *mask = NULL;
    struct sp_piece *tuples = sp_lower_cast(lower, sp_lower_input(lower, 1), SP_DTYPE_INT64);
    for (uint32_t i = 0; columns != NULL && i < depth; i++) {
        uint8_t factor = sp_lower_input_factor(lower, 0, i);
        struct sp_piece *is_here = NULL;
        columns[i] = sp_lower_slice(lower, tuples, last, i, (int64_t)i + 1);
        if (!sp_lower_is_split(lower, factor))
            continue;
        columns[i] = sp_lower_locate(lower, factor, columns[i], &is_here);
        mask = mask == NULL ? is_here : sp_lower_binary(lower, "And", mask, is_here);
    }
    for (uint32_t i = 0; columns != NULL && i < depth; i++) {
        uint8_t factor = sp_lower_input_factor(lower, 0, i);
        int64_t elsewhere = i == spare ? lower->factors[factor].size : 0;
        if (sp_lower_is_split(lower, factor))
            columns[i] = sp_lower_where(lower, mask, columns[i], sp_lower_int(lower, SP_DTYPE_INT64, elsewhere));
    }
    return columns == NULL ? NULL : sp_lower_concat(lower, last, depth, columns);
}

enum sp_status sp_lower_node_scatter_nd(struct sp_lowering *lower)
{
    int64_t depth = lower->inputs[1].axes[lower->inputs[1].rank - 1].extent;
    uint32_t count = 0, spare = 0;
    const uint8_t *factors = sp_lower_partial_factors(lower, 0, &count);
    enum sp_combiner combiner = combiner_of(lower, count, factors);
    struct sp_piece *data = data_once(lower, combiner, count, factors);
    while (spare < depth && !sp_lower_is_split(lower, sp_lower_input_factor(lower, 0, spare)))
        spare++;
    if (spare < depth) {
        struct sp_piece *index = locate_tuples(lower, (uint32_t)depth, spare);
        give(lower, write(lower, with_spare(lower, data, spare), index, spare), combiner, count, factors);
    } else {
        give(lower, write(lower, data, sp_lower_input(lower, 1), lower->outputs[0].rank), combiner, count, factors);
    }
    return sp_lower_status(lower);
}
