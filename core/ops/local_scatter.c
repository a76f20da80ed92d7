/*
 * ScatterElements (Scatter) and ScatterND on shards.
 *
 * Where the written axis is cut, writes that belong to other devices go to one place more, which is dropped afterwards.
 * Where the writes are cut and are combined with what was there, the data count on one device alone.
 */
#include "ops/infer.h"
#include "ops/local_functions.h"
#include "ops/local_internal.h"
#include "ops/local_parts.h"
#include "ops/local_places.h"

/* The data where they count: on the devices with the first shard of every factor of the writes. Others start from what
   changes nothing. Of a maximum the data may be everywhere. */
static struct sp_piece *data_once(struct sp_local *local, enum sp_combiner combiner, uint32_t count,
                                  const uint8_t *factors)
{
    struct sp_piece *data = sp_local_input(local, 0);
    bool is_first = true;
    if (count == 0 || data == NULL || (combiner != SP_COMBINE_SUM && combiner != SP_COMBINE_PROD))
        return data;
    for (uint32_t i = 0; i < count; i++)
        is_first = is_first && local->factors[factors[i]].shard == 0;
    return sp_local_where(local, sp_local_int(local, SP_DTYPE_BOOL, is_first), data,
                          sp_local_int(local, data->dtype, combiner == SP_COMBINE_PROD));
}

/* The data with one place more along an axis. */
static struct sp_piece *with_spare(struct sp_local *local, struct sp_piece *data, uint32_t axis)
{
    const int64_t first = 0;
    struct sp_piece *const both[] = {data, sp_local_gather(local, data, sp_local_ints(local, 1, &first), axis)};
    return sp_local_concat(local, axis, 2, both);
}

/* Writes; with a spare place on `axis` where there is one (else `axis` is the rank), which goes again. */
static struct sp_piece *write(struct sp_local *local, struct sp_piece *data, struct sp_piece *index, uint32_t axis)
{
    const struct sp_local_operand *output = &local->outputs[0];
    struct sp_piece *const inputs[] = {data, index, sp_local_input(local, 2)};
    struct sp_piece *written = sp_local_same(local, 3, inputs, 0, NULL);
    int64_t *sizes = sp_local_sizes(local, output);
    if (sizes == NULL || axis >= output->rank)
        return written;
    int64_t size = sizes[axis]++;
    sp_piece_set_dims(local, written, output->rank, sizes);
    return sp_local_slice(local, written, axis, 0, size);
}

static void give(struct sp_local *local, struct sp_piece *written, enum sp_combiner combiner, uint32_t count,
                 const uint8_t *factors)
{
    if (count == 0)
        sp_local_output(local, 0, written);
    else
        sp_local_output_partial(local, 0, written, combiner, count, factors);
}

/* How the writes combine over devices, where any factor of them is split. */
static enum sp_combiner combiner_of(const struct sp_local *local, uint32_t count, const uint8_t *factors)
{
    return count > 0 ? local->rule->factors[factors[0]].combiner : SP_COMBINE_NONE;
}

enum sp_status sp_local_node_scatter_elements(struct sp_local *local)
{
    struct sp_op_context context = sp_local_context(local);
    uint32_t rank = local->inputs[0].rank, axis = 0, count = 0;
    enum sp_status status = sp_normalize_axis(&context, sp_node_int(local->node, "axis", 0), rank, &axis);
    sp_local_failed(local, status);
    if (status != SP_OK)
        return sp_local_status(local);
    const uint8_t *factors = sp_local_partial_factors(local, 0, &count), factor = sp_local_input_factor(local, 0, axis);
    enum sp_combiner combiner = combiner_of(local, count, factors);
    struct sp_piece *data = data_once(local, combiner, count, factors), *index = sp_local_input(local, 1);
    if (sp_local_is_split(local, factor)) {
        struct sp_piece *is_here = NULL, *spare = sp_local_int(local, SP_DTYPE_INT64, local->factors[factor].size);
        index = sp_local_locate(local, factor, index, &is_here);
        index = sp_local_where(local, is_here, index, spare);
        give(local, write(local, with_spare(local, data, axis), index, axis), combiner, count, factors);
    } else {
        give(local, write(local, data, index, rank), combiner, count, factors);
    }
    return sp_local_status(local);
}

/* The tuples as ones of the part. A tuple of another device has its entry of axis `spare` at the place behind the last,
   and 0 in the other cut axes. */
static struct sp_piece *locate_tuples(struct sp_local *local, uint32_t depth, uint32_t spare)
{
    uint32_t last = local->inputs[1].rank - 1;
    struct sp_piece **columns = SP_LOCAL_ARRAY(local, depth, struct sp_piece *), *mask = NULL;
    struct sp_piece *tuples = sp_local_cast(local, sp_local_input(local, 1), SP_DTYPE_INT64);
    for (uint32_t i = 0; columns != NULL && i < depth; i++) {
        uint8_t factor = sp_local_input_factor(local, 0, i);
        struct sp_piece *is_here = NULL;
        columns[i] = sp_local_slice(local, tuples, last, i, (int64_t)i + 1);
        if (!sp_local_is_split(local, factor))
            continue;
        columns[i] = sp_local_locate(local, factor, columns[i], &is_here);
        mask = mask == NULL ? is_here : sp_local_binary(local, "And", mask, is_here);
    }
    for (uint32_t i = 0; columns != NULL && i < depth; i++) {
        uint8_t factor = sp_local_input_factor(local, 0, i);
        int64_t elsewhere = i == spare ? local->factors[factor].size : 0;
        if (sp_local_is_split(local, factor))
            columns[i] = sp_local_where(local, mask, columns[i], sp_local_int(local, SP_DTYPE_INT64, elsewhere));
    }
    return columns == NULL ? NULL : sp_local_concat(local, last, depth, columns);
}

enum sp_status sp_local_node_scatter_nd(struct sp_local *local)
{
    int64_t depth = local->inputs[1].axes[local->inputs[1].rank - 1].extent;
    uint32_t count = 0, spare = 0;
    const uint8_t *factors = sp_local_partial_factors(local, 0, &count);
    enum sp_combiner combiner = combiner_of(local, count, factors);
    struct sp_piece *data = data_once(local, combiner, count, factors);
    while (spare < depth && !sp_local_is_split(local, sp_local_input_factor(local, 0, spare)))
        spare++;
    if (spare < depth) {
        struct sp_piece *index = locate_tuples(local, (uint32_t)depth, spare);
        give(local, write(local, with_spare(local, data, spare), index, spare), combiner, count, factors);
    } else {
        give(local, write(local, data, sp_local_input(local, 1), local->outputs[0].rank), combiner, count, factors);
    }
    return sp_local_status(local);
}
