/* What ONNX Runtime's specs mean: axes of a mesh, or the pieces of a mesh that repeats devices. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "sharding/dialect.h"
#include "sharding/internal.h"

/* The mesh's devices without repeats, in order of their first place. */
struct device_run {
    int64_t count, unique_count, *unique;
    int64_t period; /* of a list [u]*r with r > 1 and no repeat in u: the length of u; else 0 */
};

struct placed {
    int64_t device, position;
};

SP_ASCENDING(compare_placed, struct placed, device, position)

static enum sp_status study_devices(struct sp_arena *arena, const struct sp_ort_spec *spec, struct device_run *ret_run,
                                    struct sp_error *err)
{
    size_t count = (size_t)spec->element_count;
    struct device_run run = {.count = spec->element_count};
    struct placed *placed = SP_NEW_ARRAY(arena, count, struct placed);
    bool *again = SP_NEW_ARRAY(arena, count, bool);
    run.unique = SP_NEW_ARRAY(arena, count, int64_t);
    if (placed == NULL || again == NULL || run.unique == NULL)
        return sp_fail_memory(err);
    for (size_t i = 0; i < count; i++)
        placed[i] = (struct placed){spec->mesh_elements[i], (int64_t)i};
    qsort(placed, count, sizeof *placed, compare_placed);
    for (size_t i = 1; i < count; i++)
        again[placed[i].position] = placed[i].device == placed[i - 1].device;
    for (size_t i = 0; i < count; i++) {
        if (!again[i])
            run.unique[run.unique_count++] = spec->mesh_elements[i];
    }
    bool periodic = run.unique_count > 0 && run.unique_count < run.count && run.count % run.unique_count == 0;
    for (int64_t i = 0; periodic && i < run.count; i++)
        periodic = spec->mesh_elements[i] == run.unique[i % run.unique_count];
    run.period = periodic ? run.unique_count : 0;
    *ret_run = run;
    return SP_OK;
}

static enum sp_status check_mesh(const struct sp_ort_spec *spec, struct sp_error *err)
{
    int64_t product = 1;
    if (spec->mesh_rank > SP_MAX_SHARDING_AXES)
        return sp_fail_limit(err, "TOO_MANY_AXES", "SP_MAX_SHARDING_AXES", SP_MAX_SHARDING_AXES, spec->mesh_rank,
                             "The mesh has %" PRIu32 " axes, but at most %d are allowed.", spec->mesh_rank,
                             SP_MAX_SHARDING_AXES);
    if (spec->element_count > SP_MAX_LISTED_DEVICES)
        return sp_fail_limit(err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                             spec->element_count, "The mesh lists %" PRId64 " devices, but at most %d can be listed.",
                             spec->element_count, SP_MAX_LISTED_DEVICES);
    for (uint32_t i = 0; i < spec->mesh_rank; i++) {
        if (spec->mesh_shape[i] < 1)
            return sp_fail(err, SP_ERR_MALFORMED, "ORT_MESH",
                           "Axis %" PRIu32 " of device_mesh_shape has %" PRId64 " devices; it needs 1 or more.", i,
                           spec->mesh_shape[i]);
        if (!sp_mul_i64(product, spec->mesh_shape[i], &product))
            return sp_fail(err, SP_ERR_MALFORMED, "ORT_MESH",
                           "The numbers of device_mesh_shape multiply to more than 2^63 - 1.");
    }
    if (product != spec->element_count)
        return sp_fail(err, SP_ERR_MALFORMED, "ORT_MESH",
                       "device_mesh_shape multiplies to %" PRId64 " devices, but device_mesh_elements lists %" PRId64
                       ".",
                       product, spec->element_count);
    for (int64_t i = 0; i < spec->element_count; i++) {
        if (spec->mesh_elements[i] < 0)
            return sp_fail(err, SP_ERR_MALFORMED, "NEGATIVE_DEVICE",
                           "Device %" PRId64 " of device_mesh_elements is negative; devices are numbered from 0.",
                           spec->mesh_elements[i]);
    }
    return SP_OK;
}

/* Each S names an axis of the mesh, and no two the same. */
static enum sp_status check_splits(const struct sp_ort_spec *spec, int64_t mesh_rank, struct sp_error *err)
{
    bool used[SP_MAX_SHARDING_AXES] = {false};
    for (uint32_t i = 0; i < spec->rank; i++) {
        int64_t axis = spec->mesh_axes[i];
        if (axis < 0)
            continue;
        if (axis >= mesh_rank)
            return sp_fail(err, SP_ERR_MALFORMED, "ORT_MESH_AXIS",
                           "S[%" PRId64 "] splits axis %" PRIu32 " of the tensor along mesh axis %" PRId64
                           ", but the mesh has only %" PRId64 " axes, numbered from 0.",
                           axis, i, axis, mesh_rank);
        if (used[axis])
            return sp_fail(err, SP_ERR_MALFORMED, "ORT_MESH_AXIS_TWICE",
                           "Mesh axis %" PRId64 " splits two axes of the tensor; it can split one.", axis);
        used[axis] = true;
    }
    return SP_OK;
}

/* All pieces must have the same size: ONNX Runtime knows no uneven shards. */
static enum sp_status check_even(const struct sp_dialect_context *context, uint32_t axis, int64_t pieces,
                                 struct sp_error *err)
{
    if (context == NULL || context->rank < 0 || context->shape == NULL || context->shape[axis] < 0 ||
        context->shape[axis] % pieces == 0)
        return SP_OK;
    return sp_fail(err, SP_ERR_REQUEST, "ORT_UNEVEN",
                   "Axis %" PRIu32 " has %" PRId64 " elements, which %" PRId64
                   " pieces do not divide evenly; ONNX Runtime needs pieces of one size.",
                   axis, context->shape[axis], pieces);
}

static enum sp_status make_mesh(struct sp_arena *arena, uint32_t rank, const int64_t *shape, int64_t count,
                                const int64_t *elements, struct sp_mesh **ret_mesh, struct sp_error *err)
{
    struct sp_mesh_axis axes[SP_MAX_SHARDING_AXES];
    struct sp_device_order order;
    bool is_range = true;
    if (count == 1)
        return sp_mesh_single(arena, elements[0], ret_mesh, err); /* whatever its axes: nothing is split */
    for (uint32_t i = 0; i < rank; i++) {
        axes[i] = (struct sp_mesh_axis){.name = sp_arena_printf(arena, "axis_%" PRIu32, i), .size = shape[i]};
        if (axes[i].name == NULL) {
            (void)sp_fail_memory(err);
            return SP_ERR_MEMORY;
        }
    }
    for (int64_t i = 0; i < count; i++)
        is_range &= elements[i] == i;
    enum sp_status status = SP_OK;
    if (!is_range)
        status = sp_device_order_list(arena, count, elements, &order, err);
    return status == SP_OK ? sp_mesh_create(arena, rank, axes, is_range ? NULL : &order, ret_mesh, err) : status;
}

/* On a mesh without repeats. That of one device has no axes, whatever is written: nothing is split there. */
static enum sp_status to_axes(struct sp_arena *arena, const struct sp_ort_spec *spec, const struct sp_mesh *mesh,
                              const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                              struct sp_error *err)
{
    struct sp_sharding *sharding = NULL;
    bool is_single = sp_mesh_is_single(mesh);
    enum sp_status status = check_splits(spec, is_single ? spec->mesh_rank : mesh->axis_count, err);
    if (status == SP_OK)
        status = sp_sharding_create_axes(arena, mesh, spec->rank, &sharding, err);
    for (uint32_t i = 0; status == SP_OK && !is_single && i < spec->rank; i++) {
        if (spec->mesh_axes[i] < 0)
            continue;
        struct sp_axis_ref ref = sp_axis_full(mesh, (uint32_t)spec->mesh_axes[i]);
        status = check_even(context, i, ref.size, err);
        if (status == SP_OK)
            status = sp_axes_copy(arena, &(struct sp_axis_list){1, &ref}, &sharding->dims[i].axes, err);
    }
    if (status == SP_OK)
        *ret_sharding = sharding;
    return status;
}

/*
 * A mesh of one axis that repeats devices cuts the tensor axis in as many pieces as it has entries; piece i is on
 * device i of the list. [u]*r is the axis viewed as r by the rest, the rest cut over u; any other list is one shard per
 * entry, several of them on one device.
 */
static enum sp_status to_blocks(struct sp_arena *arena, const struct sp_ort_spec *spec, const struct device_run *run,
                                uint32_t axis, struct sp_sharding **ret_sharding, struct sp_error *err)
{
    uint32_t part_count = run->period > 0 ? 2 : 1;
    int64_t shards = run->period > 0 ? run->period : run->count;
    struct sp_sharding *blocks = SP_NEW(arena, struct sp_sharding);
    struct sp_block_dim *dims = SP_NEW_ARRAY(arena, spec->rank, struct sp_block_dim);
    struct sp_block_part *parts = SP_NEW_ARRAY(arena, part_count, struct sp_block_part);
    uint32_t *first = SP_NEW_ARRAY(arena, (size_t)shards + 1, uint32_t);
    int64_t *devices = SP_NEW_ARRAY(arena, (size_t)shards, int64_t);
    if (blocks == NULL || dims == NULL || parts == NULL || first == NULL || devices == NULL)
        return sp_fail_memory(err);
    if (run->period > 0)
        parts[0] = (struct sp_block_part){.extent = run->count / run->period, .shards = 1};
    parts[part_count - 1] = (struct sp_block_part){.shards = shards};
    memcpy(devices, spec->mesh_elements, (size_t)shards * sizeof *devices);
    for (int64_t i = 0; i <= shards; i++)
        first[i] = (uint32_t)i;
    dims[axis] = (struct sp_block_dim){part_count, parts};
    *blocks = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS,
                                   .rank = spec->rank,
                                   .blocks = dims,
                                   .shard_count = shards,
                                   .first = first,
                                   .devices = devices};
    *ret_sharding = blocks;
    return SP_OK;
}

/* A mesh that repeats devices. */
static enum sp_status from_repeats(struct sp_arena *arena, const struct sp_ort_spec *spec, const struct device_run *run,
                                   const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                                   struct sp_error *err)
{
    struct sp_ort_spec whole = *spec;
    struct sp_mesh *mesh = NULL;
    uint32_t split = spec->rank;
    if (spec->mesh_rank != 1)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "ORT_REPEATED_DEVICES",
                       "device_mesh_elements lists a device twice, which has a meaning in a mesh of one axis only.");
    enum sp_status status = check_splits(spec, 1, err);
    for (uint32_t i = 0; i < spec->rank; i++) {
        if (spec->mesh_axes[i] >= 0)
            split = i;
    }
    if (status == SP_OK && split < spec->rank)
        status = check_even(context, split, run->count, err);
    if (status != SP_OK)
        return status;
    if (split < spec->rank && run->unique_count > 1)
        return to_blocks(arena, spec, run, split, ret_sharding, err);
    whole.mesh_axes = SP_NEW_ARRAY(arena, spec->rank, int64_t);
    if (whole.mesh_axes == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < spec->rank; i++)
        whole.mesh_axes[i] = -1;
    status = make_mesh(arena, 1, &run->unique_count, run->unique_count, run->unique, &mesh, err);
    return status == SP_OK ? to_axes(arena, &whole, mesh, context, ret_sharding, err) : status;
}

/* The mesh of a bare spec: that of the context, or all devices in one axis. */
static enum sp_status from_context(struct sp_arena *arena, const struct sp_ort_spec *spec,
                                   const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                                   struct sp_error *err)
{
    if (context != NULL && context->mesh != NULL && !sp_mesh_is_empty(context->mesh))
        return to_axes(arena, spec, context->mesh, context, ret_sharding, err);
    if (context == NULL || context->device_count <= 0)
        return sp_fail(
            err, SP_ERR_REQUEST, "MESH_UNKNOWN",
            "The spec does not say its mesh; add device_mesh_shape=[2] device_mesh_elements=[0,1], or give a "
            "mesh or a number of devices apart from it.");
    struct sp_mesh_axis axis = {.name = "axis_0", .size = context->device_count};
    struct sp_mesh *mesh = NULL;
    enum sp_status status = sp_mesh_create(arena, 1, &axis, NULL, &mesh, err);
    return status == SP_OK ? to_axes(arena, spec, mesh, context, ret_sharding, err) : status;
}

enum sp_status sp_ort_to_sharding(struct sp_arena *arena, const struct sp_ort_spec *spec,
                                  const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                                  struct sp_error *err)
{
    struct sp_sharding *sharding = NULL;
    struct device_run run = {0};
    struct sp_mesh *mesh = NULL;
    if (context != NULL && context->rank >= 0 && context->rank != spec->rank)
        return sp_fail(err, SP_ERR_REQUEST, "RANK_MISMATCH",
                       "The spec has %" PRIu32 " axes, but the tensor has rank %" PRId64 ".", spec->rank,
                       context->rank);
    if (spec->mesh_rank == 0 && spec->element_count == 0)
        return from_context(arena, spec, context, ret_sharding, err);
    enum sp_status status = check_mesh(spec, err);
    if (status == SP_OK)
        status = study_devices(arena, spec, &run, err);
    if (status != SP_OK)
        return status;
    if (run.unique_count < run.count) {
        status = from_repeats(arena, spec, &run, context, &sharding, err);
    } else {
        status =
            make_mesh(arena, spec->mesh_rank, spec->mesh_shape, spec->element_count, spec->mesh_elements, &mesh, err);
        if (status == SP_OK)
            status = to_axes(arena, spec, mesh, context, &sharding, err);
    }
    if (status == SP_OK && context != NULL)
        status = sp_sharding_check(sharding, context->rank, context->shape, context->device_count, err);
    if (status == SP_OK)
        *ret_sharding = sharding;
    return status;
}
