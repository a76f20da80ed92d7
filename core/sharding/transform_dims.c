#include <inttypes.h>

#include "sharding/transform_internal.h"

enum sp_status sp_sharding_transpose(struct sp_arena *arena, const struct sp_sharding *sharding, const uint32_t *perm,
                                     struct sp_sharding **ret, struct sp_error *err)
{
    bool done, seen[SP_MAX_RANK] = {false};
    struct sp_sharding *result;
    enum sp_status status = sp_transform_begin(arena, sharding, &done, ret, err);
    if (status != SP_OK || done)
        return status;
    if ((status = sp_transform_frame(arena, sharding, sharding->rank, &result, err)) != SP_OK)
        return status;
    for (uint32_t i = 0; status == SP_OK && i < sharding->rank; i++) {
        if (perm[i] >= sharding->rank || seen[perm[i]])
            return sp_fail(err, SP_ERR_REQUEST, "BAD_PERMUTATION",
                           "Entry %" PRIu32 " of the permutation is %" PRIu32 "; each of the axes 0 to %" PRIu32
                           " must occur once.",
                           i, perm[i], sharding->rank - 1);
        seen[perm[i]] = true;
        status = sp_transform_copy_dim(arena, &sharding->dims[perm[i]], &result->dims[i], err);
    }
    if (status == SP_OK)
        *ret = result;
    return status;
}

enum sp_status sp_sharding_move_tiles(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t source,
                                      uint32_t target, struct sp_sharding **ret, struct sp_error *err)
{
    bool done;
    struct sp_sharding *result;
    enum sp_status status = sp_transform_begin(arena, sharding, &done, ret, err);
    if (status != SP_OK)
        return status;
    if (done || source == target) { /* no axis has tiles, or none can go anywhere */
        *ret = NULL;
        return SP_OK;
    }
    if ((status = sp_transform_check_axis(sharding, source, err)) != SP_OK ||
        (status = sp_transform_check_axis(sharding, target, err)) != SP_OK ||
        (status = sp_transform_copy(arena, sharding, &result, err)) != SP_OK)
        return status;
    struct sp_axis_list both;
    status = sp_axes_append(arena, &result->dims[target].axes, &result->dims[source].axes, &both, err);
    if (status != SP_OK)
        return status;
    result->dims[target].axes = both;
    result->dims[source].axes = (struct sp_axis_list){0};
    *ret = result;
    return SP_OK;
}

enum sp_status sp_sharding_merge_dims(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t axis,
                                      struct sp_sharding **ret, struct sp_error *err)
{
    bool done;
    struct sp_sharding *result;
    enum sp_status status = sp_transform_begin(arena, sharding, &done, ret, err);
    if (status != SP_OK || done)
        return status;
    if (axis >= SP_MAX_RANK || (status = sp_transform_check_axis(sharding, axis + 1, err)) != SP_OK)
        return status == SP_OK ? sp_transform_check_axis(sharding, axis, err) : status;
    if ((status = sp_transform_frame(arena, sharding, sharding->rank - 1, &result, err)) != SP_OK)
        return status;
    for (uint32_t i = 0; status == SP_OK && i < result->rank; i++)
        status = sp_transform_copy_dim(arena, &sharding->dims[i > axis ? i + 1 : i], &result->dims[i], err);
    if (status == SP_OK)
        status = sp_axes_append(arena, &sharding->dims[axis].axes, &sharding->dims[axis + 1].axes,
                                &result->dims[axis].axes, err);
    if (status != SP_OK)
        return status;
    result->dims[axis].is_open = sharding->dims[axis].is_open && sharding->dims[axis + 1].is_open;
    *ret = result;
    return SP_OK;
}

enum sp_status sp_sharding_split_dim(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t axis,
                                     int64_t size, struct sp_sharding **ret, struct sp_error *err)
{
    bool done, ok;
    struct sp_sharding *result;
    enum sp_status status = sp_transform_begin(arena, sharding, &done, ret, err);
    if (status != SP_OK || done)
        return status;
    if ((status = sp_transform_check_axis(sharding, axis, err)) != SP_OK)
        return status;
    if (size < 1)
        return sp_fail(err, SP_ERR_REQUEST, "BAD_SHARDS",
                       "An axis cannot be split in %" PRId64 " shards; at least one is needed.", size);
    if ((status = sp_transform_frame(arena, sharding, sharding->rank + 1, &result, err)) != SP_OK)
        return status;
    for (uint32_t i = 0; status == SP_OK && i < sharding->rank; i++)
        status = sp_transform_copy_dim(arena, &sharding->dims[i], &result->dims[i > axis ? i + 1 : i], err);
    if (status != SP_OK)
        return status;
    result->dims[axis + 1] = result->dims[axis];
    struct sp_axis_list whole = result->dims[axis].axes;
    status = sp_axes_slice(arena, &whole, size, &ok, &result->dims[axis].axes, &result->dims[axis + 1].axes, err);
    if (status == SP_OK)
        *ret = ok ? result : NULL;
    return status;
}

enum sp_status sp_sharding_copy_dims(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t count,
                                     const uint32_t *sources, const uint32_t *targets, uint32_t target_rank,
                                     struct sp_sharding **ret, struct sp_error *err)
{
    bool done, is_source[SP_MAX_RANK] = {false}, is_target[SP_MAX_RANK] = {false};
    struct sp_sharding *result;
    enum sp_status status = sp_transform_begin(arena, sharding, &done, ret, err);
    if (status != SP_OK || done)
        return status;
    if ((status = sp_transform_frame(arena, sharding, target_rank, &result, err)) != SP_OK)
        return status;
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        if ((status = sp_transform_check_axis(sharding, sources[i], err)) != SP_OK ||
            (status = sp_transform_check_axis(result, targets[i], err)) != SP_OK)
            return status;
        if (is_source[sources[i]] || is_target[targets[i]])
            return sp_fail(err, SP_ERR_REQUEST, "AXIS_TWICE",
                           "Axis %" PRIu32 " of the source or axis %" PRIu32 " of the target is named twice.",
                           sources[i], targets[i]);
        is_source[sources[i]] = is_target[targets[i]] = true;
        status = sp_transform_copy_dim(arena, &sharding->dims[sources[i]], &result->dims[targets[i]], err);
    }
    if (status == SP_OK)
        *ret = result;
    return status;
}

/* Marks axes of a tensor of this rank; one named twice is an error. */
static enum sp_status mark_axes(uint32_t rank, uint32_t count, const uint32_t *axes, bool *marked, struct sp_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        if (axes[i] >= rank)
            return sp_fail(err, SP_ERR_REQUEST, "BAD_AXIS",
                           "Axis %" PRIu32 " is named, but the tensor has rank %" PRIu32 ".", axes[i], rank);
        if (marked[axes[i]])
            return sp_fail(err, SP_ERR_REQUEST, "AXIS_TWICE", "Axis %" PRIu32 " is named twice.", axes[i]);
        marked[axes[i]] = true;
    }
    return SP_OK;
}

enum sp_status sp_sharding_replicate_dims(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t count,
                                          const uint32_t *axes, struct sp_sharding **ret, struct sp_error *err)
{
    bool done, marked[SP_MAX_RANK] = {false};
    struct sp_sharding *result;
    enum sp_status status = sp_transform_begin(arena, sharding, &done, ret, err);
    if (status != SP_OK || done)
        return status;
    if ((status = mark_axes(sharding->rank, count, axes, marked, err)) != SP_OK ||
        (status = sp_transform_copy(arena, sharding, &result, err)) != SP_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        result->dims[axes[i]].axes = (struct sp_axis_list){0};
    *ret = result;
    return SP_OK;
}

enum sp_status sp_sharding_remove_dims(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t count,
                                       const uint32_t *axes, struct sp_sharding **ret, struct sp_error *err)
{
    bool done, marked[SP_MAX_RANK] = {false};
    struct sp_sharding *result;
    enum sp_status status = sp_transform_begin(arena, sharding, &done, ret, err);
    if (status != SP_OK || done)
        return status;
    if ((status = mark_axes(sharding->rank, count, axes, marked, err)) != SP_OK ||
        (status = sp_transform_frame(arena, sharding, sharding->rank - count, &result, err)) != SP_OK)
        return status;
    uint32_t kept = 0;
    for (uint32_t i = 0; status == SP_OK && i < sharding->rank; i++)
        if (!marked[i])
            status = sp_transform_copy_dim(arena, &sharding->dims[i], &result->dims[kept++], err);
    if (status == SP_OK)
        *ret = result;
    return status;
}

enum sp_status sp_sharding_add_dims(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t count,
                                    const uint32_t *at, struct sp_sharding **ret, struct sp_error *err)
{
    bool done, marked[SP_MAX_RANK] = {false};
    struct sp_sharding *result;
    enum sp_status status = sp_transform_begin(arena, sharding, &done, ret, err);
    if (status != SP_OK || done)
        return status;
    if (count > SP_MAX_RANK)
        return sp_fail_limit(err, "TOO_MANY_AXES", "SP_MAX_RANK", SP_MAX_RANK, count,
                             "%" PRIu32 " axes are to be added, and a tensor has at most %d.", count, SP_MAX_RANK);
    if ((status = sp_transform_frame(arena, sharding, sharding->rank + count, &result, err)) != SP_OK ||
        (status = mark_axes(result->rank, count, at, marked, err)) != SP_OK)
        return status;
    uint32_t taken = 0;
    for (uint32_t i = 0; status == SP_OK && i < result->rank; i++)
        if (!marked[i])
            status = sp_transform_copy_dim(arena, &sharding->dims[taken++], &result->dims[i], err);
    if (status == SP_OK)
        *ret = result;
    return status;
}
