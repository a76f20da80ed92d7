/*
 * Devices that hold several shards, as regular parts.
 *
 * The shards of a tensor are numbered by levels, major to minor: the parts of its axes. A level of s shards is a * b *
 * c digits; where no device list depends on the middle digit, its shards are together wherever they are, and the level
 * is cut in a, whole in b, cut in c. Taking such digits out one by one leaves the parts that are really apart.
 * Neighbours on one level that are still on the same devices are one shard of several blocks.
 */
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "infer/view/internal.h"

#define MAX_LEVELS (SP_MAX_SHARDING_AXES + 64) /* every digit taken out adds two, and halves the shards */

struct level {
    uint32_t axis;
    int64_t extent; /* -1: not known */
    int64_t shards;
    const int64_t *bounds; /* of its shards in blocks; NULL: one each */
};

struct numbering {
    struct sp_arena *arena;
    struct sp_error *err;
    uint32_t level_count;
    struct level levels[MAX_LEVELS];
    int64_t shard_count;
    uint32_t *first;
    int64_t *devices;
};

static bool holds_several(const struct numbering *all, uint8_t *is_seen, size_t size)
{
    memset(is_seen, 0, size);
    for (uint32_t i = 0; i < all->first[all->shard_count]; i++) {
        if (is_seen[all->devices[i]])
            return true;
        is_seen[all->devices[i]] = 1;
    }
    return false;
}

/* ---- digits ---- */

static bool same_devices(const struct numbering *all, int64_t a, int64_t b)
{
    uint32_t count = all->first[a + 1] - all->first[a];
    return count == all->first[b + 1] - all->first[b] &&
           memcmp(all->devices + all->first[a], all->devices + all->first[b], count * sizeof *all->devices) == 0;
}

/* Whether no device list depends on the digit of `size` that has `stride` shards below it. */
static bool is_independent(const struct numbering *all, int64_t stride, int64_t size)
{
    for (int64_t shard = 0; shard < all->shard_count; shard++) {
        int64_t digit = shard / stride % size;
        if (digit > 0 && !same_devices(all, shard, shard - digit * stride))
            return false;
    }
    return true;
}

/* Leaves the shards in which the digit is 0. */
static void take_out(struct numbering *all, int64_t stride, int64_t size)
{
    uint32_t used = 0;
    int64_t kept = 0;
    for (int64_t shard = 0; shard < all->shard_count; shard++) {
        uint32_t begin = all->first[shard], end = all->first[shard + 1];
        if (shard / stride % size != 0)
            continue;
        memmove(all->devices + used, all->devices + begin, (end - begin) * sizeof *all->devices);
        all->first[kept++] = used;
        used += end - begin;
    }
    all->first[kept] = used;
    all->shard_count = kept;
}

/* Level `at` becomes cut in major, whole in middle, cut in minor. */
static void split_level(struct numbering *all, uint32_t at, int64_t major, int64_t middle, int64_t minor)
{
    struct level whole = all->levels[at];
    int64_t rest = whole.extent < 0 ? -1 : whole.extent / (major * middle);
    if (major == 1 && minor == 1) {
        all->levels[at].shards = 1;
        return;
    }
    memmove(&all->levels[at + 3], &all->levels[at + 1], (all->level_count - at - 1) * sizeof *all->levels);
    all->level_count += 2;
    all->levels[at] = (struct level){whole.axis, major, major, NULL};
    all->levels[at + 1] = (struct level){whole.axis, middle, 1, NULL};
    all->levels[at + 2] = (struct level){whole.axis, rest, minor, NULL};
}

static bool is_prime(int64_t number)
{
    for (int64_t i = 2; i * i <= number; i++)
        if (number % i == 0)
            return false;
    return number > 1;
}

/* Takes one digit of a level out; false when there is none. */
static bool reduce_level(struct numbering *all, uint32_t at, int64_t stride)
{
    int64_t shards = all->levels[at].shards, extent = all->levels[at].extent;
    bool is_even = extent < 0 || extent % shards == 0;
    if (all->level_count + 2 > MAX_LEVELS)
        return false;
    for (int64_t minor = 1; minor < shards; minor++) {
        if (shards % minor != 0)
            continue;
        for (int64_t middle = 2; middle <= shards / minor; middle++) {
            bool is_all = middle == shards;
            if ((!is_all && !is_even) || shards / minor % middle != 0 || (!is_prime(middle) && !is_all) ||
                !is_independent(all, stride * minor, middle))
                continue;
            take_out(all, stride * minor, middle);
            split_level(all, at, shards / minor / middle, middle, minor);
            return true;
        }
    }
    return false;
}

static void reduce(struct numbering *all)
{
    bool is_done = false;
    while (!is_done) {
        int64_t stride = 1;
        is_done = true;
        for (uint32_t i = all->level_count; i-- > 0 && is_done;) {
            is_done = all->levels[i].shards == 1 || !reduce_level(all, i, stride);
            stride *= all->levels[i].shards;
        }
    }
}

/* ---- neighbours ---- */

/* Whether shard `index` of a level is where the one before it is. */
static bool is_with_previous(const struct numbering *all, const struct level *level, int64_t stride, int64_t index)
{
    for (int64_t shard = 0; shard < all->shard_count; shard++)
        if (shard / stride % level->shards == index && !same_devices(all, shard, shard - stride))
            return false;
    return true;
}

/* Leaves of each run of neighbours that are together the first. */
static void keep_first(struct numbering *all, int64_t stride, int64_t size, const bool *is_joined)
{
    uint32_t used = 0;
    int64_t kept = 0;
    for (int64_t shard = 0; shard < all->shard_count; shard++) {
        uint32_t begin = all->first[shard], end = all->first[shard + 1];
        if (is_joined[shard / stride % size])
            continue;
        memmove(all->devices + used, all->devices + begin, (end - begin) * sizeof *all->devices);
        all->first[kept++] = used;
        used += end - begin;
    }
    all->first[kept] = used;
    all->shard_count = kept;
}

static enum sp_status join_neighbours(struct numbering *all, struct level *level, int64_t stride)
{
    const int64_t size = level->shards;
    bool *is_joined = SP_NEW_ARRAY(all->arena, (size_t)size, bool);
    int64_t *bounds = SP_NEW_ARRAY(all->arena, (size_t)size + 1, int64_t), count = 0;
    if (is_joined == NULL || bounds == NULL)
        return sp_fail_memory(all->err);
    for (int64_t i = 0; i < size; i++) {
        is_joined[i] = i > 0 && is_with_previous(all, level, stride, i);
        if (!is_joined[i])
            bounds[count++] = i;
    }
    bounds[count] = size;
    if (count == size)
        return SP_OK;
    keep_first(all, stride, size, is_joined);
    level->shards = count;
    level->bounds = bounds;
    return SP_OK;
}

static enum sp_status join_all(struct numbering *all)
{
    enum sp_status status = SP_OK;
    int64_t stride = 1;
    for (uint32_t i = all->level_count; i-- > 0 && status == SP_OK;) {
        if (all->levels[i].shards > 1)
            status = join_neighbours(all, &all->levels[i], stride);
        stride *= all->levels[i].shards;
    }
    return status;
}

/* ---- from and to a sharding ---- */

static bool add_levels(struct numbering *all, const struct sp_sharding *blocks, const int64_t *extents)
{
    for (uint32_t axis = 0; axis < blocks->rank; axis++) {
        const struct sp_block_dim *dim = &blocks->blocks[axis];
        for (uint32_t i = 0; i < dim->part_count; i++) {
            if (all->level_count + 2 > MAX_LEVELS)
                return false;
            int64_t extent = dim->parts[i].extent > 0 ? dim->parts[i].extent
                             : dim->part_count == 1   ? extents[axis]
                                                      : -1;
            all->levels[all->level_count++] = (struct level){axis, extent, dim->parts[i].shards, NULL};
        }
    }
    return true;
}

static enum sp_status copy_placement(struct numbering *all, const struct sp_sharding *blocks)
{
    size_t count = blocks->first[blocks->shard_count];
    all->shard_count = blocks->shard_count;
    all->first = SP_NEW_ARRAY(all->arena, (size_t)blocks->shard_count + 1, uint32_t);
    all->devices = SP_NEW_ARRAY(all->arena, count, int64_t);
    if (all->first == NULL || all->devices == NULL)
        return sp_fail_memory(all->err);
    memcpy(all->first, blocks->first, ((size_t)blocks->shard_count + 1) * sizeof *all->first);
    memcpy(all->devices, blocks->devices, count * sizeof *all->devices);
    return SP_OK;
}

static enum sp_status build(struct numbering *all, const struct sp_sharding *blocks,
                            const struct sp_sharding **ret_regular)
{
    struct sp_sharding *regular = SP_NEW(all->arena, struct sp_sharding);
    struct sp_block_dim *dims = SP_NEW_ARRAY(all->arena, blocks->rank, struct sp_block_dim);
    struct sp_block_part *parts = SP_NEW_ARRAY(all->arena, all->level_count, struct sp_block_part);
    if (regular == NULL || dims == NULL || parts == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t i = 0; i < all->level_count; i++) {
        const struct level *level = &all->levels[i];
        struct sp_block_dim *dim = &dims[level->axis];
        if (dim->part_count == 0)
            dim->parts = &parts[i];
        dim->parts[dim->part_count++] =
            (struct sp_block_part){level->extent < 0 ? 0 : level->extent, NULL, level->shards, level->bounds};
    }
    *regular = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS,
                                    .rank = blocks->rank,
                                    .blocks = dims,
                                    .shard_count = all->shard_count,
                                    .first = all->first,
                                    .devices = all->devices};
    *ret_regular = regular;
    return SP_OK;
}

enum sp_status sp_sharding_regular(struct sp_arena *arena, const struct sp_sharding *blocks, const int64_t *extents,
                                   const struct sp_sharding **ret_regular, struct sp_error *err)
{
    int64_t last = 0;
    if (blocks->run == SP_RUN_YES) {
        *ret_regular = blocks;
        return SP_OK;
    }
    struct numbering *all = SP_NEW(arena, struct numbering);
    for (uint32_t i = 0; i < blocks->first[blocks->shard_count]; i++)
        last = blocks->devices[i] > last ? blocks->devices[i] : last;
    uint8_t *is_seen = SP_NEW_ARRAY(arena, (size_t)last + 1, uint8_t);
    if (all == NULL || is_seen == NULL)
        return sp_fail_memory(err);
    all->arena = arena;
    all->err = err;
    enum sp_status status = copy_placement(all, blocks);
    if (status != SP_OK)
        return status;
    *ret_regular = blocks;
    if (!holds_several(all, is_seen, (size_t)last + 1))
        return SP_OK;
    *ret_regular = NULL;
    if (!add_levels(all, blocks, extents))
        return SP_OK;
    reduce(all);
    if (holds_several(all, is_seen, (size_t)last + 1))
        status = join_all(all);
    if (status != SP_OK || holds_several(all, is_seen, (size_t)last + 1))
        return status;
    return build(all, blocks, ret_regular);
}

/* ---- shards of several blocks, written ---- */

/* The parts of all axes: at most MAX_LEVELS. */
static uint32_t list_parts(const struct sp_sharding *blocks, struct level *levels)
{
    uint32_t count = 0;
    for (uint32_t axis = 0; axis < blocks->rank; axis++)
        for (uint32_t i = 0; i < blocks->blocks[axis].part_count && count < MAX_LEVELS; i++) {
            const struct sp_block_part *part = &blocks->blocks[axis].parts[i];
            levels[count++] = (struct level){axis, part->extent, part->shards, part->bounds};
        }
    return count;
}

/* The shard that has a block; `block` is row-major over the blocks of all levels. */
static int64_t shard_with(const struct level *levels, uint32_t count, int64_t block)
{
    int64_t shard = 0, stride = 1;
    for (uint32_t i = count; i-- > 0;) {
        int64_t blocks = levels[i].bounds == NULL ? levels[i].shards : levels[i].bounds[levels[i].shards];
        int64_t own = block % blocks, at = levels[i].bounds == NULL ? own : 0;
        while (levels[i].bounds != NULL && levels[i].bounds[at + 1] <= own)
            at++;
        shard += at * stride;
        stride *= levels[i].shards;
        block /= blocks;
    }
    return shard;
}

bool sp_sharding_has_shares(const struct sp_sharding *blocks)
{
    for (uint32_t axis = 0; axis < blocks->rank; axis++)
        for (uint32_t i = 0; i < blocks->blocks[axis].part_count; i++)
            if (blocks->blocks[axis].parts[i].bounds != NULL)
                return true;
    return false;
}

enum sp_status sp_sharding_written(struct sp_arena *arena, struct sp_sharding *blocks, struct sp_error *err)
{
    struct level levels[MAX_LEVELS];
    uint32_t level_count = list_parts(blocks, levels), used = 0;
    int64_t total = 1, listed = 0;
    if (!sp_sharding_has_shares(blocks))
        return SP_OK;
    for (uint32_t axis = 0; axis < blocks->rank; axis++)
        for (uint32_t i = 0; i < blocks->blocks[axis].part_count; i++)
            if (!sp_mul_i64(total, sp_part_blocks(&blocks->blocks[axis].parts[i]), &total))
                total = INT64_MAX;
    for (int64_t block = 0; total <= SP_MAX_LISTED_DEVICES && block < total; block++) {
        int64_t shard = shard_with(levels, level_count, block);
        listed += blocks->first[shard + 1] - blocks->first[shard];
    }
    if (total > SP_MAX_LISTED_DEVICES || listed > SP_MAX_LISTED_DEVICES)
        return sp_fail_limit(err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                             total > listed ? total : listed,
                             "A sharding with shards of unequal size names more than %d devices.",
                             SP_MAX_LISTED_DEVICES);
    uint32_t *first = SP_NEW_ARRAY(arena, (size_t)total + 1, uint32_t);
    int64_t *devices = SP_NEW_ARRAY(arena, (size_t)listed, int64_t);
    if (first == NULL || devices == NULL)
        return sp_fail_memory(err);
    for (int64_t block = 0; block < total; block++) {
        int64_t shard = shard_with(levels, level_count, block);
        uint32_t count = blocks->first[shard + 1] - blocks->first[shard];
        memcpy(devices + used, blocks->devices + blocks->first[shard], count * sizeof *devices);
        used += count;
        first[block + 1] = used;
    }
    for (uint32_t axis = 0; axis < blocks->rank; axis++)
        for (uint32_t i = 0; i < blocks->blocks[axis].part_count; i++) {
            struct sp_block_part *part = &blocks->blocks[axis].parts[i];
            part->shards = sp_part_blocks(part);
            part->bounds = NULL;
        }
    blocks->first = first;
    blocks->devices = devices;
    blocks->shard_count = total;
    blocks->run = SP_RUN_UNKNOWN;
    return SP_OK;
}
