/*
 * MaxUnpool on shards (rule in pooling.c): positions in the whole output become positions in a part of it; what falls
 * into another part is left. Parts of the input give results that are zero elsewhere, and are added up; where windows
 * overlapped several elements may have one position, and the last of them stays, as on one device.
 */
#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/places.h"
#include "ops/lowering/statistics.h"

#define SCATTER_ELEMENTS_SINCE 11

/* Positions in the whole output as positions in this device's part of it, `count` where they are not in it. */
static struct sp_piece *own_positions(struct sp_lowering *lower, struct sp_piece *positions, const int64_t *dims,
                                      int64_t count)
{
    const struct sp_lower_operand *y = &lower->outputs[0];
    struct sp_piece *coordinates[SP_MAX_RANK], *is_here = NULL;
    int64_t extents[SP_MAX_RANK];
    for (uint32_t axis = 0; axis < y->rank; axis++)
        extents[axis] = y->axes[axis].extent;
    sp_lower_coordinates(lower, positions, y->rank, extents, coordinates);
    for (uint32_t axis = 0; axis < y->rank; axis++) {
        struct sp_piece *own = NULL;
        uint8_t factor = sp_lower_output_factor(lower, 0, axis);
        if (factor == SP_RULE_NO_FACTOR || !lower->factors[factor].is_split)
            continue;
        coordinates[axis] = sp_lower_locate(lower, factor, coordinates[axis], &own);
        is_here = is_here == NULL ? own : sp_lower_binary(lower, "And", is_here, own);
    }
    positions = sp_lower_flat(lower, y->rank, dims, coordinates);
    if (is_here == NULL)
        return positions;
    return sp_lower_where(lower, is_here, positions, sp_lower_int(lower, SP_DTYPE_INT64, count));
}

/* A list of `count` + 1 elements with values at positions: the last place takes those of other devices. */
static struct sp_piece *put(struct sp_lowering *lower, struct sp_piece *positions, struct sp_piece *values,
                            int64_t count, double otherwise)
{
    const int64_t room = count + 1;
    if (values == NULL)
        return NULL;
    struct sp_piece *all = sp_lower_full(lower, values->dtype, 1, &room, otherwise);
    struct sp_piece *const inputs[] = {all, positions, values};
    const char *scatter = lower->opset < SCATTER_ELEMENTS_SINCE ? "Scatter" : "ScatterElements";
    struct sp_piece *y = sp_lower_op(lower, scatter, values->dtype, 3, inputs, 0, NULL);
    if (y != NULL)
        sp_piece_set_dims(lower, y, 1, &room);
    return sp_lower_slice(lower, y, 0, 0, count);
}

/* Which values of the list stay: those whose element is the last of all devices' with this position. */
static struct sp_piece *is_last(struct sp_lowering *lower, struct sp_piece *positions, int64_t count)
{
    const struct sp_lower_operand *x = &lower->inputs[0];
    struct sp_lower_span span = {.share = 1};
    const int64_t *dims = sp_lower_part_dims(lower, x), flat = -1;
    uint64_t axes = 0;
    int64_t numbers = 0;
    span.factors = sp_lower_partial_factors(lower, 0, &span.factor_count);
    for (uint32_t axis = 0; axis < x->rank; axis++)
        axes |= (uint64_t)1 << axis;
    struct sp_piece *number = sp_lower_numbers(lower, 0, axes, &numbers);
    if (dims == NULL)
        return NULL;
    number = sp_lower_reshape(lower, sp_lower_expand(lower, number, x->rank, dims), 1, &flat);
    struct sp_piece *own = put(lower, positions, number, count, -1);
    return sp_lower_compare(lower, "Equal", own, sp_lower_first_of_all(lower, own, numbers, true, &span));
}

static bool is_known(const struct sp_lower_operand *operand)
{
    for (uint32_t axis = 0; axis < operand->rank; axis++) {
        if (operand->axes[axis].extent < 0)
            return false;
    }
    return true;
}

enum sp_status sp_lower_max_unpool(struct sp_lowering *lower)
{
    const int64_t *dims = sp_lower_part_dims(lower, &lower->outputs[0]), flat = -1;
    uint32_t sum_count;
    int64_t count = 1;
    const uint8_t *sums = sp_lower_partial_factors(lower, 0, &sum_count);
    if (!is_known(&lower->inputs[0]) || !is_known(&lower->outputs[0]))
        sp_lower_any_whole(lower, "The extents of MaxUnpool's operands are not known before the run, so it is computed "
                                  "whole on every device.");
    struct sp_piece *x = sp_lower_input(lower, 0), *positions = sp_lower_input(lower, 1);
    if (dims == NULL || x == NULL)
        return sp_lower_status(lower);
    for (uint32_t axis = 0; axis < lower->outputs[0].rank; axis++)
        count *= dims[axis];
    positions = sp_lower_reshape(lower, own_positions(lower, positions, dims, count), 1, &flat);
    struct sp_piece *y = put(lower, positions, sp_lower_reshape(lower, x, 1, &flat), count, 0);
    if (sum_count > 0)
        y = sp_lower_masked(lower, is_last(lower, positions, count), y);
    y = sp_lower_reshape(lower, y, lower->outputs[0].rank, dims);
    sp_lower_output_partial(lower, 0, y, SP_COMBINE_SUM, sum_count, sums);
    return sp_lower_status(lower);
}
