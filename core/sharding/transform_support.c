#include <inttypes.h>

#include "sharding/transform_internal.h"

enum sp_status sp_transform_begin(struct sp_arena *arena, const struct sp_sharding *sharding, bool *ret_done,
                                  struct sp_sharding **ret, struct sp_error *err)
{
    *ret_done = false;
    if (sharding->kind == SP_SHARDING_AXES)
        return SP_OK;
    if (sharding->kind == SP_SHARDING_BLOCKS || sharding->kind == SP_SHARDING_TUPLE)
        return sp_fail(err, SP_ERR_REQUEST, "NOT_AXES",
                       "The sharding is a %s; bring it to mesh axes first, then its axes can be moved.",
                       sharding->kind == SP_SHARDING_TUPLE ? "tuple" : "list of blocks");
    struct sp_sharding *copy = SP_NEW(arena, struct sp_sharding);
    if (!copy)
        return sp_fail_memory(err);
    *copy = *sharding;
    *ret = copy;
    *ret_done = true;
    return SP_OK;
}

enum sp_status sp_transform_frame(struct sp_arena *arena, const struct sp_sharding *source, uint32_t rank,
                                  struct sp_sharding **ret, struct sp_error *err)
{
    if (rank > SP_MAX_RANK) {
        (void)sp_fail_limit(err, "TOO_MANY_AXES", "SP_MAX_RANK", SP_MAX_RANK, rank,
                            "The result would have %" PRIu32 " axes, and at most %d are allowed.", rank, SP_MAX_RANK);
        return SP_ERR_LIMIT;
    }
    struct sp_sharding *frame;
    enum sp_status status = sp_sharding_create_axes(arena, source->mesh, rank, &frame, err);
    if (status == SP_OK)
        status = sp_axes_copy(arena, &source->replicated, &frame->replicated, err);
    if (status == SP_OK)
        status = sp_axes_copy(arena, &source->partial, &frame->partial, err);
    if (status == SP_OK)
        status = sp_axes_copy(arena, &source->manual, &frame->manual, err);
    if (status != SP_OK)
        return status;
    frame->combiner = source->combiner;
    *ret = frame;
    return SP_OK;
}

enum sp_status sp_transform_copy_dim(struct sp_arena *arena, const struct sp_dim_sharding *source,
                                     struct sp_dim_sharding *target, struct sp_error *err)
{
    *target = *source;
    return sp_axes_copy(arena, &source->axes, &target->axes, err);
}

enum sp_status sp_transform_copy(struct sp_arena *arena, const struct sp_sharding *source, struct sp_sharding **ret,
                                 struct sp_error *err)
{
    struct sp_sharding *copy;
    enum sp_status status = sp_transform_frame(arena, source, source->rank, &copy, err);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; status == SP_OK && i < source->rank; i++)
        status = sp_transform_copy_dim(arena, &source->dims[i], &copy->dims[i], err);
    if (status == SP_OK)
        *ret = copy;
    return status;
}

bool sp_transform_is_whole(const struct sp_sharding *sharding)
{
    for (uint32_t i = 0; i < sharding->rank; i++)
        if (sp_axes_size(&sharding->dims[i].axes) != 1)
            return false;
    return sharding->partial.count == 0 && sharding->manual.count == 0;
}

bool sp_transform_same_list(const struct sp_axis_list *a, const struct sp_axis_list *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!sp_axis_equal(a->refs[i], b->refs[i]))
            return false;
    return true;
}

int64_t sp_transform_stride(const struct sp_mesh *mesh, struct sp_axis_ref ref)
{
    int64_t stride = mesh->axes[ref.axis].size / (ref.pre * ref.size);
    for (uint32_t i = ref.axis + 1; i < mesh->axis_count; i++)
        stride *= mesh->axes[i].size; /* below the mesh's count, which does not overflow */
    return stride;
}

const char *sp_transform_axis_name(struct sp_arena *arena, uint32_t index)
{
    return sp_arena_printf(arena, "axis_%" PRIu32, index);
}

enum sp_status sp_transform_check_axis(const struct sp_sharding *sharding, uint32_t axis, struct sp_error *err)
{
    if (sharding->kind == SP_SHARDING_AXES && axis >= sharding->rank)
        return sp_fail(err, SP_ERR_REQUEST, "BAD_AXIS",
                       "Axis %" PRId32 " is named, but the sharding is for a tensor of rank %" PRIu32 ".",
                       (int32_t)axis, sharding->rank);
    return SP_OK;
}

/* ---- axes that nothing uses ---- */

/* Sorts the refs to one axis by where they begin; they do not overlap. */
static void sort_refs(struct sp_axis_ref *refs, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t j = i; j > 0 && sp_axis_less(refs[j], refs[j - 1]); j--) {
            struct sp_axis_ref swap = refs[j];
            refs[j] = refs[j - 1];
            refs[j - 1] = swap;
        }
}

enum sp_status sp_sharding_unused_axes(struct sp_arena *arena, const struct sp_sharding *sharding,
                                       struct sp_axis_list *ret_axes, struct sp_error *err)
{
    if (sharding->kind != SP_SHARDING_AXES) {
        *ret_axes = (struct sp_axis_list){0};
        return SP_OK;
    }
    const struct sp_mesh *mesh = sharding->mesh;
    uint32_t used_count = 0;
    for (uint32_t i = 0; i < sp_sharding_list_count(sharding); i++)
        used_count += sp_sharding_list(sharding, i)->count;
    struct sp_axis_ref *used = SP_NEW_ARRAY(arena, (size_t)used_count + 1, struct sp_axis_ref);
    /* Each used ref has at most one gap before it, each axis one at its end. */
    struct sp_axis_ref *gaps = SP_NEW_ARRAY(arena, (size_t)used_count + mesh->axis_count + 1, struct sp_axis_ref);
    if (!used || !gaps)
        return sp_fail_memory(err);
    uint32_t filled = 0, gap_count = 0;
    for (uint32_t i = 0; i < sp_sharding_list_count(sharding); i++)
        for (uint32_t j = 0; j < sp_sharding_list(sharding, i)->count; j++)
            used[filled++] = sp_sharding_list(sharding, i)->refs[j];
    sort_refs(used, used_count);
    uint32_t next = 0;
    for (uint32_t axis = 0; axis < mesh->axis_count; axis++) {
        int64_t end = 1, size = mesh->axes[axis].size;
        bool is_named = next < used_count && used[next].axis == axis;
        for (; next < used_count && used[next].axis == axis; next++) {
            if (used[next].pre > end)
                gaps[gap_count++] = (struct sp_axis_ref){.axis = axis, .pre = end, .size = used[next].pre / end};
            end = used[next].pre * used[next].size;
        }
        if (end < size || !is_named)
            gaps[gap_count++] = (struct sp_axis_ref){.axis = axis, .pre = end, .size = size / end};
    }
    *ret_axes = (struct sp_axis_list){.count = gap_count, .refs = gaps};
    return SP_OK;
}

/* ---- the mesh of the tiles ---- */

/* Gives list `target` the mesh's next axis, when it has more than one shard. */
static enum sp_status take_axis(struct sp_arena *arena, const struct sp_mesh *mesh, int64_t size, uint32_t *next,
                                struct sp_axis_list *target, struct sp_error *err)
{
    if (size == 1)
        return SP_OK;
    struct sp_axis_ref ref = sp_axis_full(mesh, (*next)++);
    return sp_axes_copy(arena, &(struct sp_axis_list){.count = 1, .refs = &ref}, target, err);
}

enum sp_status sp_sharding_regroup(struct sp_arena *arena, const struct sp_sharding *sharding, struct sp_sharding **ret,
                                   struct sp_error *err)
{
    bool done;
    enum sp_status status = sp_transform_begin(arena, sharding, &done, ret, err);
    if (status != SP_OK || done)
        return status;
    if (sharding->mesh->axis_count == 0)
        return sp_transform_copy(arena, sharding, ret, err);
    uint32_t rank = sharding->rank, axis_count = 0;
    int64_t *dims = SP_NEW_ARRAY(arena, (size_t)rank + 3, int64_t);
    struct sp_mesh_axis *axes = SP_NEW_ARRAY(arena, (size_t)rank + 3, struct sp_mesh_axis);
    struct sp_device_order order;
    if (!dims || !axes)
        return sp_fail_memory(err);
    if ((status = sp_sharding_device_array(arena, sharding, dims, &order, err)) != SP_OK)
        return status;
    for (uint32_t i = 0; i < rank + 3; i++) {
        if (dims[i] == 1)
            continue;
        axes[axis_count] = (struct sp_mesh_axis){.name = sp_transform_axis_name(arena, axis_count), .size = dims[i]};
        if (!axes[axis_count++].name)
            return sp_fail_memory(err);
    }
    if (axis_count == 0) /* one device: nothing to regroup */
        return sp_transform_copy(arena, sharding, ret, err);
    struct sp_mesh *mesh;
    struct sp_sharding *result;
    if ((status = sp_mesh_create(arena, axis_count, axes, &order, &mesh, err)) != SP_OK ||
        (status = sp_sharding_create_axes(arena, mesh, rank, &result, err)) != SP_OK)
        return status;
    uint32_t next = 0;
    for (uint32_t i = 0; status == SP_OK && i < rank; i++) {
        result->dims[i] = sharding->dims[i];
        result->dims[i].axes = (struct sp_axis_list){0};
        status = take_axis(arena, mesh, dims[i], &next, &result->dims[i].axes, err);
    }
    result->combiner = sharding->combiner;
    if (status == SP_OK)
        status = take_axis(arena, mesh, dims[rank], &next, &result->manual, err);
    if (status == SP_OK)
        status = take_axis(arena, mesh, dims[rank + 1], &next, &result->partial, err);
    if (status == SP_OK)
        *ret = result;
    return status;
}
