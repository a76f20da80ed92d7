/*
 * MaxUnpool on shards (rule in pooling.c): positions in the whole output become positions in a part of it; what falls
 * into another part is left. Parts of the input give results that are zero elsewhere, and are added up.
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

/* Elements are put in a list with one more place behind, which takes those of other devices. */
enum sp_status sp_local_max_unpool(struct sp_local *local)
{
    const int64_t *dims = sp_local_part_dims(local, &local->outputs[0]), flat = -1;
    uint32_t sum_count;
    int64_t count = 1;
    const uint8_t *sums = sp_local_partial_factors(local, 0, &sum_count);
    if (dims == NULL)
        sp_local_any_whole(local, "The extents of the result of MaxUnpool are not known before the run, so it is "
                                  "computed whole on every device.");
    struct sp_piece *x = sp_local_input(local, 0), *positions = sp_local_input(local, 1);
    if (dims == NULL || x == NULL)
        return sp_local_status(local);
    for (uint32_t axis = 0; axis < local->outputs[0].rank; axis++)
        count *= dims[axis];
    struct sp_piece *all = sp_local_full(local, x->dtype, 1, (const int64_t[]){count + 1}, 0);
    positions = sp_local_reshape(local, own_positions(local, positions, dims, count), 1, &flat);
    struct sp_piece *const inputs[] = {all, positions, sp_local_reshape(local, x, 1, &flat)};
    const char *scatter = local->opset < SCATTER_ELEMENTS_SINCE ? "Scatter" : "ScatterElements";
    struct sp_piece *y = sp_local_op(local, scatter, x->dtype, 3, inputs, 0, NULL);
    if (y != NULL)
        sp_piece_set_dims(local, y, 1, (const int64_t[]){count + 1});
    y = sp_local_reshape(local, sp_local_slice(local, y, 0, 0, count), local->outputs[0].rank, dims);
    sp_local_output_partial(local, 0, y, SP_COMBINE_SUM, sum_count, sums);
    return sp_local_status(local);
}
