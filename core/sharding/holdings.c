#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "sharding/internal.h"

enum sp_status sp_fail_devices_unknown(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_REQUEST, "DEVICES_UNKNOWN",
                   "The sharding does not name its devices; give the number of devices.");
}

/* ---- devices ---- */

/* How many device numbers one sharding lists, repetitions included; -1 when it names none. */
static int64_t count_named(const struct sp_sharding *sharding)
{
    switch (sharding->kind) {
    case SP_SHARDING_SINGLE:
        return 1;
    case SP_SHARDING_AXES:
        return sharding->mesh->order.count > 0 ? sharding->mesh->order.count : -1;
    case SP_SHARDING_BLOCKS:
        return sharding->first != NULL ? (int64_t)sharding->first[sharding->shard_count] : -1;
    default:
        return -1;
    }
}

/* Appends the devices of one sharding, or all when it names none. */
static void append_named(const struct sp_sharding *sharding, int64_t device_count, int64_t *devices, int64_t *count)
{
    int64_t named = count_named(sharding);
    if (named < 0)
        named = device_count;
    const int64_t *ids = NULL;
    if (sharding->kind == SP_SHARDING_SINGLE)
        ids = &sharding->device;
    else if (sharding->kind == SP_SHARDING_BLOCKS && sharding->first != NULL)
        ids = sharding->devices;
    else if (sharding->kind == SP_SHARDING_AXES)
        ids = sharding->mesh->order.ids;
    for (int64_t i = 0; i < named; i++)
        devices[(*count)++] = ids != NULL ? ids[i] : i; /* an iota holds each of 0..count-1 once */
}

enum sp_status sp_sharding_devices(struct sp_arena *arena, const struct sp_sharding *sharding, int64_t device_count,
                                   int64_t *ret_count, const int64_t **ret_devices, struct sp_error *err)
{
    bool is_tuple = sharding->kind == SP_SHARDING_TUPLE;
    uint32_t shardings = is_tuple ? sharding->element_count : 1;
    int64_t total = 0, filled = 0, unique = 0;
    for (uint32_t i = 0; i < shardings; i++) {
        int64_t named = count_named(is_tuple ? &sharding->elements[i] : sharding);
        if (named < 0 && device_count <= 0)
            return sp_fail_devices_unknown(err);
        if (!sp_add_i64(total, named < 0 ? device_count : named, &total))
            total = INT64_MAX;
    }
    if (total > SP_MAX_LISTED_DEVICES)
        return sp_fail_limit(err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES, total,
                             "The sharding names %" PRId64 " devices, but at most %d can be listed one by one.", total,
                             SP_MAX_LISTED_DEVICES);
    int64_t *devices = SP_NEW_ARRAY(arena, (size_t)total, int64_t);
    if (devices == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < shardings; i++)
        append_named(is_tuple ? &sharding->elements[i] : sharding, device_count, devices, &filled);
    sp_sort(devices, (size_t)total, sizeof *devices, sp_compare_numbers);
    for (int64_t i = 0; i < total; i++)
        if (i == 0 || devices[i] != devices[unique - 1])
            devices[unique++] = devices[i];
    *ret_count = unique;
    *ret_devices = devices;
    return SP_OK;
}

/* ---- pieces ---- */

static enum sp_status check_shape(const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape,
                                  struct sp_error *err)
{
    enum sp_status status = sp_sharding_check_rank(sharding, rank, err);
    if (status != SP_OK)
        return status;
    if (sharding->kind == SP_SHARDING_MANUAL || sharding->kind == SP_SHARDING_UNKNOWN)
        return sp_fail(err, SP_ERR_REQUEST, "HOLDING_UNKNOWN",
                       "What a device holds of a tensor is not known: its sharding is %s.",
                       sharding->kind == SP_SHARDING_MANUAL ? "manual" : "unknown");
    if (sharding->kind == SP_SHARDING_TUPLE)
        return sp_fail(err, SP_ERR_REQUEST, "TUPLE_SHARDING",
                       "The sharding is a tuple of %" PRIu32 ", but one tensor needs one sharding.",
                       sharding->element_count);
    for (uint32_t i = 0; i < rank; i++)
        if (shape[i] < 0)
            return sp_fail(err, SP_ERR_REQUEST, "EXTENT_UNKNOWN",
                           "The extent of axis %" PRIu32 " is not known, so neither is which part a device holds.", i);
    return SP_OK;
}

static enum sp_status fail_ranges(struct sp_error *err)
{
    return sp_fail_limit(err, "TOO_MANY_RANGES", "SP_MAX_HELD_RANGES", SP_MAX_HELD_RANGES, SP_MAX_HELD_RANGES + 1,
                         "What one device holds falls into more than %d ranges.", SP_MAX_HELD_RANGES);
}

/* `times` copies of the ranges, `step` apart, the first at `start` steps; those that meet become one. */
static enum sp_status repeat_ranges(struct sp_arena *arena, struct sp_axis_ranges *ranges, struct sp_range times,
                                    int64_t step, struct sp_error *err)
{
    int64_t capacity;
    if (!sp_mul_i64(times.limit - times.start, ranges->count, &capacity) || capacity > SP_MAX_HELD_RANGES)
        return fail_ranges(err);
    struct sp_range *repeated = SP_NEW_ARRAY(arena, (size_t)capacity, struct sp_range);
    if (repeated == NULL)
        return sp_fail_memory(err);
    uint32_t count = 0;
    for (int64_t i = times.start; i < times.limit; i++)
        for (uint32_t j = 0; j < ranges->count; j++) {
            int64_t start = i * step + ranges->ranges[j].start, limit = i * step + ranges->ranges[j].limit;
            if (count > 0 && repeated[count - 1].limit == start)
                repeated[count - 1].limit = limit;
            else
                repeated[count++] = (struct sp_range){start, limit};
        }
    *ranges = (struct sp_axis_ranges){.count = count, .ranges = repeated};
    return SP_OK;
}

/* The elements of one block of an axis that is viewed as a grid of parts: from the minor part outwards. */
enum sp_status sp_block_ranges(struct sp_arena *arena, const struct sp_block_dim *dim, uint32_t axis, int64_t extent,
                               int64_t index, struct sp_axis_ranges *ret_ranges, struct sp_error *err)
{
    int64_t extents[SP_MAX_SHARDING_AXES], step = 1;
    enum sp_status status = sp_block_extents(dim, axis, extent, extents, err);
    struct sp_range *whole = SP_NEW(arena, struct sp_range);
    if (status == SP_OK && whole == NULL)
        status = sp_fail_memory(err);
    if (status != SP_OK)
        return status;
    *whole = (struct sp_range){0, dim->part_count > 0 ? 1 : extent};
    struct sp_axis_ranges ranges = {.count = whole->limit > 0, .ranges = whole};
    for (uint32_t i = dim->part_count; i-- > 0 && status == SP_OK && ranges.count > 0;) {
        struct sp_range part = sp_part_range(&dim->parts[i], extents[i], index % dim->parts[i].shards);
        index /= dim->parts[i].shards;
        if (part.start == part.limit)
            ranges.count = 0;
        else if (ranges.ranges[0].start == 0 && ranges.ranges[0].limit == step)
            ranges.ranges[0] = (struct sp_range){part.start * step, part.limit * step};
        else
            status = repeat_ranges(arena, &ranges, part, step, err);
        if (ranges.count > 0)
            step *= extents[i];
    }
    if (status == SP_OK)
        *ret_ranges = ranges;
    return status;
}

enum sp_status sp_sharding_held_shards(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank,
                                       const int64_t *shape, const struct sp_holders *holders, struct sp_held *ret_held,
                                       struct sp_error *err)
{
    const int64_t count = holders->count;
    int64_t cells = 0, total = 0;
    if (!sp_mul_i64(count, rank, &cells) || cells > SP_MAX_HELD_RANGES)
        return fail_ranges(err);
    struct sp_axis_ranges *shards = SP_NEW_ARRAY(arena, (size_t)cells, struct sp_axis_ranges);
    if (shards == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < count; i++) {
        int64_t shard = holders->items[i].shard;
        for (uint32_t axis = rank; axis-- > 0;) {
            struct sp_block_dim dim = sp_sharding_block(sharding, axis);
            int64_t own = sp_sharding_shards(sharding, axis);
            struct sp_axis_ranges *ranges = &shards[i * rank + axis];
            enum sp_status status = sp_block_ranges(arena, &dim, axis, shape[axis], shard % own, ranges, err);
            shard /= own;
            total += status == SP_OK ? ranges->count : 0;
            if (status != SP_OK)
                return status;
            if (total > SP_MAX_HELD_RANGES)
                return fail_ranges(err);
        }
    }
    *ret_held = (struct sp_held){.rank = rank, .shard_count = (uint32_t)count, .shards = shards};
    return SP_OK;
}

static enum sp_status held_in_blocks(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank,
                                     const int64_t *shape, int64_t device, struct sp_held *ret_held,
                                     struct sp_error *err)
{
    if (sharding->first == NULL)
        return sp_fail(err, SP_ERR_REQUEST, "DEVICES_UNKNOWN",
                       "The sharding leaves open which devices hold its %" PRId64 " shards.", sharding->shard_count);
    struct sp_holders holders = {0};
    for (int64_t shard = 0; shard < sharding->shard_count; shard++) {
        uint32_t begin = sharding->first[shard];
        holders.count += bsearch(&device, sharding->devices + begin, sharding->first[shard + 1] - begin, sizeof device,
                                 sp_compare_numbers) != NULL;
    }
    holders.items = SP_NEW_ARRAY(arena, (size_t)holders.count, struct sp_holder);
    if (holders.items == NULL)
        return sp_fail_memory(err);
    holders.count = 0;
    for (int64_t shard = 0; shard < sharding->shard_count; shard++) {
        uint32_t begin = sharding->first[shard];
        if (bsearch(&device, sharding->devices + begin, sharding->first[shard + 1] - begin, sizeof device,
                    sp_compare_numbers) != NULL)
            holders.items[holders.count++] = (struct sp_holder){device, shard};
    }
    return sp_sharding_held_shards(arena, sharding, rank, shape, &holders, ret_held, err);
}

/* The tile coordinates of a device in kinds other than BLOCKS; false when it has no tile. */
static bool tile_index(const struct sp_sharding *sharding, uint32_t rank, int64_t device, int64_t *ret_index)
{
    if (device < 0 || (sharding->kind == SP_SHARDING_SINGLE && device != sharding->device))
        return false;
    memset(ret_index, 0, rank * sizeof *ret_index);
    if (sharding->kind != SP_SHARDING_AXES || sp_mesh_is_empty(sharding->mesh))
        return true;
    int64_t position = sp_device_order_find(&sharding->mesh->order, device);
    if (position < 0)
        return false;
    for (uint32_t axis = 0; axis < rank; axis++) {
        const struct sp_axis_list *axes = &sharding->dims[axis].axes;
        for (uint32_t i = 0; i < axes->count; i++)
            ret_index[axis] =
                ret_index[axis] * axes->refs[i].size + sp_axis_coordinate(sharding->mesh, axes->refs[i], position);
    }
    return true;
}

static struct sp_range tile_range(const struct sp_sharding *sharding, const int64_t *shape, uint32_t axis,
                                  int64_t index)
{
    int64_t shards = sharding->kind == SP_SHARDING_AXES ? sp_sharding_shards(sharding, axis) : 1;
    return sp_block_range(shape[axis], shards, index);
}

enum sp_status sp_sharding_held(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank,
                                const int64_t *shape, int64_t device, struct sp_held *ret_held, struct sp_error *err)
{
    int64_t index[SP_MAX_RANK];
    enum sp_status status = check_shape(sharding, rank, shape, err);
    if (status != SP_OK)
        return status;
    if (sharding->kind == SP_SHARDING_BLOCKS)
        return held_in_blocks(arena, sharding, rank, shape, device, ret_held, err);
    if (!tile_index(sharding, rank, device, index)) {
        *ret_held = (struct sp_held){.rank = rank};
        return SP_OK;
    }
    struct sp_axis_ranges *axes = SP_NEW_ARRAY(arena, rank, struct sp_axis_ranges);
    struct sp_range *ranges = SP_NEW_ARRAY(arena, rank, struct sp_range);
    if (axes == NULL || ranges == NULL)
        return sp_fail_memory(err);
    for (uint32_t axis = 0; axis < rank; axis++) {
        ranges[axis] = tile_range(sharding, shape, axis, index[axis]);
        axes[axis] = (struct sp_axis_ranges){ranges[axis].start < ranges[axis].limit, &ranges[axis]};
    }
    *ret_held = (struct sp_held){.rank = rank, .shard_count = 1, .shards = axes};
    return SP_OK;
}

/* ---- several shards as one ---- */

static int64_t count_indices(const struct sp_axis_ranges *ranges)
{
    int64_t count = 0;
    for (uint32_t i = 0; i < ranges->count; i++)
        count += ranges->ranges[i].limit - ranges->ranges[i].start;
    return count;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct sp_range *left = a, *right = b;
    return (left->start > right->start) - (left->start < right->start);
}

/* The indices that any shard has of an axis. */
static enum sp_status unite_axis(struct sp_arena *arena, const struct sp_held *held, uint32_t axis,
                                 struct sp_axis_ranges *ret_union, struct sp_error *err)
{
    size_t capacity = 0, count = 0;
    for (uint32_t i = 0; i < held->shard_count; i++)
        capacity += held->shards[i * held->rank + axis].count;
    struct sp_range *all = SP_NEW_ARRAY(arena, capacity, struct sp_range);
    if (all == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < held->shard_count; i++) {
        const struct sp_axis_ranges *own = &held->shards[i * held->rank + axis];
        if (own->count > 0)
            memcpy(all + count, own->ranges, own->count * sizeof *all);
        count += own->count;
    }
    sp_sort(all, count, sizeof *all, compare_ranges);
    *ret_union = (struct sp_axis_ranges){0, all};
    for (size_t i = 0; i < count; i++) {
        struct sp_range *last = ret_union->count > 0 ? &all[ret_union->count - 1] : NULL;
        if (last == NULL || all[i].start > last->limit)
            all[ret_union->count++] = all[i];
        else if (all[i].limit > last->limit)
            last->limit = all[i].limit;
    }
    return SP_OK;
}

enum sp_status sp_held_join(struct sp_arena *arena, struct sp_held *held, bool *ret_joined, struct sp_error *err)
{
    struct sp_axis_ranges *joined = SP_NEW_ARRAY(arena, held->rank, struct sp_axis_ranges);
    double box = 1, all = 0; /* exact up to 2^53 */
    enum sp_status status = SP_OK;
    if (joined == NULL)
        return sp_fail_memory(err);
    for (uint32_t axis = 0; axis < held->rank && status == SP_OK; axis++) {
        status = unite_axis(arena, held, axis, &joined[axis], err);
        box *= status == SP_OK ? (double)count_indices(&joined[axis]) : 1;
    }
    for (uint32_t i = 0; i < held->shard_count; i++) { /* no two have an element in common */
        double own = 1;
        for (uint32_t axis = 0; axis < held->rank; axis++)
            own *= (double)count_indices(&held->shards[i * held->rank + axis]);
        all += own;
    }
    if (status != SP_OK)
        return status;
    *ret_joined = held->shard_count > 0 && box == all;
    if (*ret_joined)
        *held = (struct sp_held){held->rank, 1, joined};
    return SP_OK;
}

/* ---- tiles ---- */

/* The tile of a device that holds one shard of BLOCKS, when the shard is one box. */
static enum sp_status tile_in_blocks(const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape,
                                     int64_t device, bool *ret_found, struct sp_tile *ret_tile, struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_create(NULL);
    struct sp_held held = {0};
    if (scratch == NULL)
        return sp_fail_memory(err);
    enum sp_status status = held_in_blocks(scratch, sharding, rank, shape, device, &held, err);
    if (status != SP_OK)
        goto cleanup;
    *ret_found = held.shard_count > 0;
    if (!*ret_found)
        goto cleanup;
    if (held.shard_count > 1) {
        status =
            sp_fail(err, SP_ERR_UNSUPPORTED, "SEVERAL_SHARDS",
                    "Device %" PRId64 " holds %" PRIu32 " shards, so it has no single tile.", device, held.shard_count);
        goto cleanup;
    }
    int64_t shard = 0;
    while (bsearch(&device, sharding->devices + sharding->first[shard],
                   sharding->first[shard + 1] - sharding->first[shard], sizeof device, sp_compare_numbers) == NULL)
        shard++;
    for (uint32_t axis = rank; axis-- > 0;) {
        const struct sp_axis_ranges *ranges = &held.shards[axis];
        int64_t own = sp_sharding_shards(sharding, axis);
        ret_tile->index[axis] = shard % own;
        shard /= own;
        if (ranges->count > 1) {
            status = sp_fail(err, SP_ERR_UNSUPPORTED, "BLOCKS_NOT_CONTIGUOUS",
                             "The piece of device %" PRId64 " falls into %" PRIu32 " ranges on axis %" PRIu32
                             ", so it is no tile.",
                             device, ranges->count, axis);
            goto cleanup;
        }
        ret_tile->ranges[axis] = ranges->count > 0 ? ranges->ranges[0] : (struct sp_range){shape[axis], shape[axis]};
    }
cleanup:
    sp_arena_destroy(scratch);
    return status;
}

enum sp_status sp_sharding_tile(const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape, int64_t device,
                                bool *ret_found, struct sp_tile *ret_tile, struct sp_error *err)
{
    struct sp_tile tile;
    bool is_found = false;
    enum sp_status status = check_shape(sharding, rank, shape, err);
    if (status != SP_OK)
        return status;
    if (sharding->kind == SP_SHARDING_BLOCKS) {
        status = tile_in_blocks(sharding, rank, shape, device, &is_found, &tile, err);
        if (status != SP_OK)
            return status;
    } else {
        is_found = tile_index(sharding, rank, device, tile.index);
        for (uint32_t axis = 0; is_found && axis < rank; axis++)
            tile.ranges[axis] = tile_range(sharding, shape, axis, tile.index[axis]);
    }
    *ret_found = is_found;
    if (is_found)
        *ret_tile = tile;
    return SP_OK;
}
