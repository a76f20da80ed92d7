/* A sharding as the record of a ShardingSpecProto. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sharding/dialect.h"
#include "sharding/internal.h"

/* Shards that several devices hold, by their sets of devices: equal sets share one group. */
struct shared_shard {
    uint32_t shard, count;
    const int64_t *devices;
};

static int compare_sets(const void *a, const void *b)
{
    const struct shared_shard *left = a, *right = b;
    if (left->count != right->count)
        return left->count < right->count ? -1 : 1;
    int order = memcmp(left->devices, right->devices, left->count * sizeof *left->devices);
    return order != 0 ? order : (left->shard > right->shard) - (left->shard < right->shard);
}

static bool same_set(const struct shared_shard *a, const struct shared_shard *b)
{
    return a->count == b->count && memcmp(a->devices, b->devices, a->count * sizeof *a->devices) == 0;
}

/* The shard that first has the same set of devices, for each shard that has several. */
static enum sp_status find_leaders(struct sp_arena *arena, const struct sp_sharding *blocks, uint32_t *leaders,
                                   struct sp_error *err)
{
    uint32_t count = (uint32_t)blocks->shard_count, shared = 0;
    struct shared_shard *shards = SP_NEW_ARRAY(arena, count, struct shared_shard);
    if (shards == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t holders = blocks->first[i + 1] - blocks->first[i];
        leaders[i] = i;
        if (holders > 1)
            shards[shared++] = (struct shared_shard){i, holders, blocks->devices + blocks->first[i]};
    }
    qsort(shards, shared, sizeof *shards, compare_sets);
    for (uint32_t i = 1; i < shared; i++) {
        if (same_set(&shards[i - 1], &shards[i]))
            leaders[shards[i].shard] = leaders[shards[i - 1].shard];
    }
    return SP_OK;
}

/* One entry per shard: its device, or the key of a group, -1, -2, .. in order of use. */
static enum sp_status write_placement(struct sp_arena *arena, const struct sp_sharding *blocks,
                                      struct sp_sharding_spec *spec, struct sp_error *err)
{
    uint32_t count = (uint32_t)blocks->shard_count;
    if (blocks->first == NULL)
        return SP_OK; /* an empty list leaves the placement open, as the sharding does */
    uint32_t *leaders = SP_NEW_ARRAY(arena, count, uint32_t);
    spec->devices = SP_NEW_ARRAY(arena, count, int64_t);
    spec->groups = SP_NEW_ARRAY(arena, count, struct sp_device_group);
    if (leaders == NULL || spec->devices == NULL || spec->groups == NULL)
        return sp_fail_memory(err);
    enum sp_status status = find_leaders(arena, blocks, leaders, err);
    if (status != SP_OK)
        return status;
    spec->device_count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = blocks->first[i], holders = blocks->first[i + 1] - first;
        if (holders == 1) {
            spec->devices[i] = blocks->devices[first];
            continue;
        }
        if (leaders[i] != i) {
            spec->devices[i] = spec->devices[leaders[i]];
            continue;
        }
        struct sp_device_group *group = &spec->groups[spec->group_count++];
        group->key = -(int64_t)spec->group_count;
        group->count = holders;
        group->devices = SP_NEW_ARRAY(arena, holders, int64_t);
        if (group->devices == NULL)
            return sp_fail_memory(err);
        memcpy(group->devices, blocks->devices + first, holders * sizeof *group->devices);
        spec->devices[i] = group->key;
    }
    return SP_OK;
}

static enum sp_status write_axis(struct sp_arena *arena, const struct sp_block_dim *dim, uint32_t axis, int64_t extent,
                                 struct sp_sharded_axis *to, struct sp_error *err)
{
    int64_t extents[SP_MAX_SHARDING_AXES];
    if (extent >= 0) {
        enum sp_status status = sp_block_extents(dim, axis, extent, extents, err);
        if (status != SP_OK)
            return status;
    }
    to->has_axis = true;
    to->axis = axis;
    to->part_count = dim->part_count;
    to->parts = SP_NEW_ARRAY(arena, dim->part_count, struct sp_sharded_dim_part);
    if (to->parts == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < dim->part_count; i++) {
        const struct sp_block_part *from = &dim->parts[i];
        struct sp_sharded_dim_part *part = &to->parts[i];
        int64_t value = extent >= 0 ? extents[i] : from->extent;
        part->has_value = value > 0 || (extent == 0 && dim->part_count == 1);
        part->dim_value = value;
        part->dim_param = part->has_value ? NULL : from->param;
        part->has_shards = true;
        part->num_shards = from->shards;
    }
    return SP_OK;
}

/* Whether any part of an axis is cut. */
static bool is_split(const struct sp_block_dim *dim)
{
    for (uint32_t i = 0; i < dim->part_count; i++) {
        if (dim->parts[i].shards > 1)
            return true;
    }
    return false;
}

static enum sp_status write_axes(struct sp_arena *arena, const struct sp_sharding *blocks, const int64_t *shape,
                                 struct sp_sharding_spec *spec, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    spec->axes = SP_NEW_ARRAY(arena, blocks->rank, struct sp_sharded_axis);
    if (spec->axes == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < blocks->rank; i++) {
        if (is_split(&blocks->blocks[i]))
            status = write_axis(arena, &blocks->blocks[i], i, shape == NULL ? -1 : shape[i],
                                &spec->axes[spec->axis_count++], err);
    }
    return status;
}

/* The rank that the target is written for: the tensor's, or what the sharding itself says. */
static enum sp_status rank_of(const struct sp_sharding *sharding, const struct sp_dialect_context *context,
                              uint32_t *ret_rank, struct sp_error *err)
{
    int64_t rank = context == NULL || context->rank < 0 ? (int64_t)sharding->rank : context->rank;
    if (rank > SP_MAX_RANK)
        return sp_fail_limit(err, "RANK_TOO_LARGE", "SP_MAX_RANK", SP_MAX_RANK, rank,
                             "A tensor may have at most %d axes.", SP_MAX_RANK);
    *ret_rank = (uint32_t)rank;
    return SP_OK;
}

enum sp_status sp_onnx_spec_from_sharding(struct sp_arena *arena, const struct sp_sharding *sharding,
                                          const struct sp_dialect_context *context, struct sp_sharding_spec *ret_spec,
                                          struct sp_losses *losses, struct sp_error *err)
{
    struct sp_sharding_spec spec = {.tensor_name = context == NULL ? NULL : context->tensor_name};
    const int64_t *shape = context == NULL || context->rank < 0 ? NULL : context->shape;
    struct sp_sharding *blocks;
    uint32_t rank = 0;
    if (sharding->kind == SP_SHARDING_TUPLE)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "TUPLE_SHARDING",
                       "The sharding is a tuple of %" PRIu32 ", but an ONNX sharding spec is that of one tensor.",
                       sharding->element_count);
    enum sp_status status = rank_of(sharding, context, &rank, err);
    if (status == SP_OK)
        status = sp_sharding_to_blocks(arena, sharding, rank, context == NULL ? 0 : context->device_count, &blocks,
                                       losses, err);
    if (status == SP_OK)
        status = write_placement(arena, blocks, &spec, err);
    if (status == SP_OK)
        status = write_axes(arena, blocks, shape, &spec, err);
    if (status == SP_OK)
        *ret_spec = spec;
    return status;
}
