#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sharding/convert_forms.h"
#include "sharding/internal.h"

/* BLOCKS in which nothing is split, with room for the devices of `shards` shards. */
static enum sp_status new_blocks(struct sp_arena *arena, uint32_t rank, int64_t shards, int64_t device_count,
                                 struct sp_sharding **ret_blocks, int64_t **ret_devices, struct sp_error *err)
{
    if (device_count > SP_MAX_LISTED_DEVICES)
        return sp_fail_limit(err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                             device_count,
                             "A device list of %" PRId64 " devices would be needed, but at most %d can be listed.",
                             device_count, SP_MAX_LISTED_DEVICES);
    struct sp_sharding *blocks = SP_NEW(arena, struct sp_sharding);
    struct sp_block_dim *dims = SP_NEW_ARRAY(arena, rank, struct sp_block_dim);
    uint32_t *first = SP_NEW_ARRAY(arena, (size_t)shards + 1, uint32_t);
    int64_t *devices = SP_NEW_ARRAY(arena, (size_t)device_count, int64_t);
    if (blocks == NULL || dims == NULL || first == NULL || devices == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i <= shards; i++)
        first[i] = (uint32_t)(i * (device_count / shards));
    *blocks = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS,
                                   .rank = rank,
                                   .blocks = dims,
                                   .shard_count = shards,
                                   .first = first,
                                   .devices = devices};
    *ret_blocks = blocks;
    *ret_devices = devices;
    return SP_OK;
}

/* The whole tensor on `count` devices: 0..count-1, or the one given. */
static enum sp_status whole_blocks(struct sp_arena *arena, uint32_t rank, int64_t count, const int64_t *device,
                                   struct sp_sharding **ret_blocks, struct sp_error *err)
{
    int64_t *devices = NULL;
    if (count <= 0)
        return sp_fail_devices_unknown(err);
    enum sp_status status = new_blocks(arena, rank, 1, count, ret_blocks, &devices, err);
    for (int64_t i = 0; status == SP_OK && devices != NULL && i < count; i++)
        devices[i] = device != NULL ? *device : i;
    return status;
}

/* ---- from a mesh ---- */

/* Whether these are the names that a mesh without names of its own gets. */
static bool are_names_plain(const struct sp_mesh *mesh)
{
    char plain[32];
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        snprintf(plain, sizeof plain, "axis_%" PRIu32, i);
        if (strcmp(mesh->axes[i].name, plain) != 0)
            return false;
    }
    return true;
}

enum sp_status sp_note_mesh_losses(struct sp_arena *arena, const struct sp_sharding *axes, const char *form,
                                   struct sp_losses *losses, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < axes->rank && status == SP_OK; i++) {
        if (axes->dims[i].is_open)
            status = sp_losses_add(arena, losses, err, "OPEN_DIMS_LOST",
                                   "That axis %" PRIu32 " may be split further (an open dim) cannot be said in %s.", i,
                                   form);
        if (axes->dims[i].has_priority && status == SP_OK)
            status = sp_losses_add(arena, losses, err, "PRIORITIES_LOST",
                                   "The priority %" PRId64 " of axis %" PRIu32 " cannot be said in %s.",
                                   axes->dims[i].priority, i, form);
    }
    if (status == SP_OK && axes->replicated.count > 0)
        status = sp_losses_add(arena, losses, err, "EXPLICIT_REPLICATION_LOST",
                               "That mesh axes are replicated explicitly, and so barred from use, cannot be said in "
                               "%s; the tensor is still replicated along them.",
                               form);
    if (status == SP_OK && !are_names_plain(axes->mesh))
        status = sp_losses_add(arena, losses, err, "AXIS_NAMES_LOST",
                               "The names of the mesh axes (\"%s\", ..) cannot be said in %s.",
                               axes->mesh->axes[0].name, form);
    return status;
}

static enum sp_status check_no_groups(const struct sp_sharding *axes, struct sp_error *err)
{
    if (sp_axes_size(&axes->partial) != 1)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "PARTIAL_LOST",
                       "The tensor is partial along mesh axes; a device list cannot say so. Reduce it first.");
    if (sp_axes_size(&axes->manual) != 1)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "MANUAL_LOST",
                       "The tensor is manual along mesh axes; a device list cannot say so.");
    return SP_OK;
}

/* The devices of each tile, ascending. */
static void list_replicas(const struct sp_device_order *order, int64_t replicas, int64_t *devices, bool *ret_moved)
{
    *ret_moved = false;
    for (int64_t begin = 0; begin < order->count; begin += replicas) {
        bool is_sorted = true;
        for (int64_t i = begin; i < begin + replicas; i++) {
            devices[i] = sp_device_order_at(order, i);
            is_sorted = is_sorted && (i == begin || devices[i - 1] < devices[i]);
        }
        if (is_sorted)
            continue;
        *ret_moved = true;
        qsort(devices + begin, (size_t)replicas, sizeof *devices, sp_compare_numbers);
    }
}

static enum sp_status blocks_of_axes(struct sp_arena *arena, const struct sp_sharding *axes,
                                     struct sp_sharding **ret_blocks, struct sp_losses *losses, struct sp_error *err)
{
    int64_t dims[SP_MAX_RANK + 3] = {0}, *devices = NULL;
    struct sp_device_order order = {0};
    struct sp_sharding *blocks = NULL;
    bool is_moved = false;
    enum sp_status status = check_no_groups(axes, err);
    if (status == SP_OK)
        status = sp_sharding_device_array(arena, axes, dims, &order, err);
    if (status != SP_OK)
        return status;
    int64_t replicas = dims[axes->rank + 2];
    status = new_blocks(arena, axes->rank, order.count / replicas, order.count, &blocks, &devices, err);
    if (status != SP_OK || devices == NULL)
        return status;
    list_replicas(&order, replicas, devices, &is_moved);
    if (is_moved)
        status = sp_losses_add(arena, losses, err, "REPLICA_ORDER_LOST",
                               "The order of replicas cannot be said in a device list; they are listed ascending.");
    for (uint32_t i = 0; i < axes->rank && status == SP_OK; i++) {
        if (dims[i] == 1)
            continue;
        struct sp_block_part *part = SP_NEW(arena, struct sp_block_part);
        if (part == NULL)
            return sp_fail_memory(err);
        part->shards = dims[i];
        blocks->blocks[i] = (struct sp_block_dim){.part_count = 1, .parts = part};
    }
    if (status == SP_OK)
        *ret_blocks = blocks;
    return status;
}

/* ---- any kind ---- */

/* The same, with all axes of the tensor written down. */
static enum sp_status close_rank(struct sp_arena *arena, const struct sp_sharding *blocks, uint32_t rank,
                                 struct sp_sharding **ret_blocks, struct sp_error *err)
{
    struct sp_sharding *closed = SP_NEW(arena, struct sp_sharding);
    struct sp_block_dim *dims = SP_NEW_ARRAY(arena, rank, struct sp_block_dim);
    if (closed == NULL || dims == NULL)
        return sp_fail_memory(err);
    *closed = *blocks;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = sp_sharding_block(blocks, i);
    closed->blocks = dims;
    closed->rank = rank;
    closed->is_rank_open = false;
    *ret_blocks = closed;
    return SP_OK;
}

enum sp_status sp_sharding_to_blocks(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank,
                                     int64_t device_count, struct sp_sharding **ret_blocks, struct sp_losses *losses,
                                     struct sp_error *err)
{
    enum sp_status status = sp_sharding_check(sharding, rank, NULL, device_count, err);
    if (status != SP_OK)
        return status;
    switch (sharding->kind) {
    case SP_SHARDING_BLOCKS:
        return close_rank(arena, sharding, rank, ret_blocks, err);
    case SP_SHARDING_AXES:
        status = sp_note_mesh_losses(arena, sharding, "a device list", losses, err);
        if (status != SP_OK)
            return status;
        if (sp_mesh_is_empty(sharding->mesh))
            return whole_blocks(arena, rank, device_count, NULL, ret_blocks, err);
        return blocks_of_axes(arena, sharding, ret_blocks, losses, err);
    case SP_SHARDING_REPLICATED:
        return whole_blocks(arena, rank, device_count, NULL, ret_blocks, err);
    case SP_SHARDING_SINGLE:
        return whole_blocks(arena, rank, 1, &sharding->device, ret_blocks, err);
    case SP_SHARDING_UNREDUCED:
        return sp_fail(err, SP_ERR_UNSUPPORTED, "PARTIAL_LOST",
                       "The tensor is unreduced; a device list cannot say so. Reduce it first.");
    case SP_SHARDING_MANUAL:
        return sp_fail(err, SP_ERR_UNSUPPORTED, "MANUAL_LOST",
                       "The tensor's sharding is manual; a device list cannot say so.");
    default:
        return sp_fail(err, SP_ERR_UNSUPPORTED, "UNKNOWN_LOST",
                       "The tensor's sharding is unknown, so it has no device list.");
    }
}
