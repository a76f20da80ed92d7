#include <inttypes.h>

#include "sharding/transform_internal.h"

/* The part of a neighbour's sharding that lies on axes of the operand; NULL when there is no neighbour. */
static enum sp_status bring_over(struct sp_arena *arena, uint32_t rank, const int64_t *found_at,
                                 const struct sp_sharding *neighbour, struct sp_sharding **ret, struct sp_error *err)
{
    *ret = NULL;
    if (!neighbour)
        return SP_OK;
    uint32_t sources[SP_MAX_RANK], targets[SP_MAX_RANK], count = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (found_at[i] < 0)
            continue;
        if (found_at[i] >= SP_MAX_RANK)
            return sp_fail(err, SP_ERR_REQUEST, "BAD_AXIS",
                           "Axis %" PRIu32 " of the operand is said to be axis %" PRId64
                           " of another tensor, which has fewer axes.",
                           i, found_at[i]);
        sources[count] = (uint32_t)found_at[i];
        targets[count++] = i;
    }
    enum sp_status status = sp_sharding_copy_dims(arena, neighbour, count, sources, targets, rank, ret, err);
    if (status == SP_OK)
        (*ret)->partial.count = 0; /* what the operator leaves to be summed up is not so before it */
    return status;
}

/* Tiles of the data, for the choice between two that do not go together. */
static int64_t tiles_of(const struct sp_sharding *sharding)
{
    int64_t tiles = 1;
    for (uint32_t i = 0; sharding->kind == SP_SHARDING_AXES && i < sharding->rank; i++)
        tiles *= sp_axes_size(&sharding->dims[i].axes); /* at most the number of devices */
    return tiles;
}

enum sp_status sp_sharding_infer_operand(struct sp_arena *arena, uint32_t rank, const int64_t *result_axis,
                                         const struct sp_sharding *result, const int64_t *other_axis,
                                         const struct sp_sharding *other, struct sp_sharding **ret,
                                         struct sp_error *err)
{
    if (rank > SP_MAX_RANK)
        return sp_fail_limit(err, "TOO_MANY_AXES", "SP_MAX_RANK", SP_MAX_RANK, rank,
                             "The operand has %" PRIu32 " axes, and at most %d are allowed.", rank, SP_MAX_RANK);
    struct sp_sharding *from_result, *from_other, *merged;
    enum sp_status status = bring_over(arena, rank, result_axis, result, &from_result, err);
    if (status == SP_OK)
        status = bring_over(arena, rank, other_axis, other, &from_other, err);
    if (status != SP_OK)
        return status;
    if (!from_result || !from_other) {
        *ret = from_result ? from_result : from_other;
        return SP_OK;
    }
    if ((status = sp_sharding_merge(arena, from_other, from_result, &merged, err)) != SP_OK)
        return status;
    *ret = merged ? merged : tiles_of(from_other) > tiles_of(from_result) ? from_other : from_result;
    return SP_OK;
}
