/*
 * MaxUnpool on shards (rule in pooling.c): positions in the whole output become positions in a part of it; what falls
 * into another part is left. Parts of the input give results that are zero elsewhere, and are added up; where windows
 * overlapped several elements may have one position, and the last of them stays, as on one device.
 */
#include "base/limits.h"
#include "ops/local_functions.h"
#include "ops/local_places.h"
#include "ops/local_statistics.h"

#define SCATTER_ELEMENTS_SINCE 11

/* Positions in the whole output as positions in this device's part of it, `count` where they are not in it. */
static struct sp_piece *own_positions(struct sp_local *local, struct sp_piece *positions, const int64_t *dims,
                                      int64_t count)
{
    const struct sp_local_operand *y = &local->outputs[0];
    struct sp_piece *coordinates[SP_MAX_RANK], *is_here = NULL;
    int64_t extents[SP_MAX_RANK];
    for (uint32_t axis = 0; axis < y->rank; axis++)
        extents[axis] = y->axes[axis].extent;
    sp_local_coordinates(local, positions, y->rank, extents, coordinates);
    for (uint32_t axis = 0; axis < y->rank; axis++) {
        struct sp_piece *own = NULL;
        uint8_t factor = sp_local_output_factor(local, 0, axis);
        if (factor == SP_RULE_NO_FACTOR || !local->factors[factor].is_split)
            continue;
        coordinates[axis] = sp_local_locate(local, factor, coordinates[axis], &own);
        is_here = is_here == NULL ? own : sp_local_binary(local, "And", is_here, own);
    }
    positions = sp_local_flat(local, y->rank, dims, coordinates);
    if (is_here == NULL)
        return positions;
    return sp_local_where(local, is_here, positions, sp_local_int(local, SP_DTYPE_INT64, count));
}

/* A list of `count` + 1 elements with values at positions: the last place takes those of other devices. */
static struct sp_piece *put(struct sp_local *local, struct sp_piece *positions, struct sp_piece *values, int64_t count,
                            double otherwise)
{
    const int64_t room = count + 1;
    if (values == NULL)
        return NULL;
    struct sp_piece *all = sp_local_full(local, values->dtype, 1, &room, otherwise);
    struct sp_piece *const inputs[] = {all, positions, values};
    const char *scatter = local->opset < SCATTER_ELEMENTS_SINCE ? "Scatter" : "ScatterElements";
    struct sp_piece *y = sp_local_op(local, scatter, values->dtype, 3, inputs, 0, NULL);
    if (y != NULL)
        sp_piece_set_dims(local, y, 1, &room);
    return sp_local_slice(local, y, 0, 0, count);
}

/* Which values of the list stay: those whose element is the last of all devices' with this position. */
static struct sp_piece *is_last(struct sp_local *local, struct sp_piece *positions, int64_t count)
{
    const struct sp_local_operand *x = &local->inputs[0];
    struct sp_local_span span = {.share = 1};
    const int64_t *dims = sp_local_part_dims(local, x), flat = -1;
    uint64_t axes = 0;
    int64_t numbers = 0;
    span.factors = sp_local_partial_factors(local, 0, &span.factor_count);
    for (uint32_t axis = 0; axis < x->rank; axis++)
        axes |= (uint64_t)1 << axis;
    struct sp_piece *number = sp_local_numbers(local, 0, axes, &numbers);
    if (dims == NULL)
        return NULL;
    number = sp_local_reshape(local, sp_local_expand(local, number, x->rank, dims), 1, &flat);
    struct sp_piece *own = put(local, positions, number, count, -1);
    return sp_local_compare(local, "Equal", own, sp_local_first_of_all(local, own, numbers, true, &span));
}

static bool is_known(const struct sp_local_operand *operand)
{
    for (uint32_t axis = 0; axis < operand->rank; axis++) {
        if (operand->axes[axis].extent < 0)
            return false;
    }
    return true;
}

enum sp_status sp_local_max_unpool(struct sp_local *local)
{
    const int64_t *dims = sp_local_part_dims(local, &local->outputs[0]), flat = -1;
    uint32_t sum_count;
    int64_t count = 1;
    const uint8_t *sums = sp_local_partial_factors(local, 0, &sum_count);
    if (!is_known(&local->inputs[0]) || !is_known(&local->outputs[0]))
        sp_local_any_whole(local, "The extents of MaxUnpool's operands are not known before the run, so it is computed "
                                  "whole on every device.");
    struct sp_piece *x = sp_local_input(local, 0), *positions = sp_local_input(local, 1);
    if (dims == NULL || x == NULL)
        return sp_local_status(local);
    for (uint32_t axis = 0; axis < local->outputs[0].rank; axis++)
        count *= dims[axis];
    positions = sp_local_reshape(local, own_positions(local, positions, dims, count), 1, &flat);
    struct sp_piece *y = put(local, positions, sp_local_reshape(local, x, 1, &flat), count, 0);
    if (sum_count > 0)
        y = sp_local_masked(local, is_last(local, positions, count), y);
    y = sp_local_reshape(local, y, local->outputs[0].rank, dims);
    sp_local_output_partial(local, 0, y, SP_COMBINE_SUM, sum_count, sums);
    return sp_local_status(local);
}
