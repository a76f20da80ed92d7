#include "compose.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sharding/internal.h"

/* The inputs as device lists, aligned at their last axes with the result. */
struct composition {
    struct sp_arena *arena;
    uint32_t input_count, rank;
    struct sp_sharding **inputs;
    const uint32_t *ranks;
    const int64_t *const *shapes;
    int64_t shape[SP_MAX_RANK];  /* of the result; -1: not known */
    int64_t shards[SP_MAX_RANK]; /* along each of its axes */
    struct sp_block_dim dims[SP_MAX_RANK];
};

/* An input's axis under a result axis, -1 when it has none there. */
static int64_t input_axis(const struct composition *all, uint32_t input, uint32_t axis)
{
    return (int64_t)axis - (all->rank - all->ranks[input]);
}

static bool does_broadcast(const struct composition *all, uint32_t input, uint32_t axis)
{
    int64_t own = input_axis(all, input, axis);
    return own < 0 || (all->shapes[input][own] == 1 && all->shape[axis] != 1);
}

static enum sp_status broadcast_shape(struct composition *all, struct sp_error *err)
{
    for (uint32_t axis = 0; axis < all->rank; axis++) {
        uint32_t first = 0;
        all->shape[axis] = 1;
        for (uint32_t i = 0; i < all->input_count; i++) {
            int64_t own = input_axis(all, i, axis), extent = own < 0 ? 1 : all->shapes[i][own];
            if (extent == 1)
                continue;
            if (all->shape[axis] == 1) {
                all->shape[axis] = extent;
                first = i;
            } else if (extent >= 0 && all->shape[axis] >= 0 && extent != all->shape[axis]) {
                return sp_fail(err, SP_ERR_MODEL, "SHAPE_MISMATCH",
                               "Inputs %" PRIu32 " and %" PRIu32 " cannot be broadcast together: axis %" PRIu32
                               " of the result would have extents %" PRId64 " and %" PRId64 ".",
                               first, i, axis, all->shape[axis], extent);
            } else if (extent >= 0) {
                all->shape[axis] = extent;
            }
        }
    }
    return SP_OK;
}

/* ---- splits ---- */

/* Whether two ways to cut an axis in the same number of blocks give the same blocks. */
static enum sp_status same_blocks(struct composition *all, uint32_t axis, const struct sp_block_dim *a,
                                  const struct sp_block_dim *b, bool *ret_same, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    struct sp_axis_ranges left, right;
    *ret_same = a->part_count == b->part_count;
    for (uint32_t i = 0; i < a->part_count && *ret_same; i++)
        *ret_same = a->parts[i].shards == b->parts[i].shards && a->parts[i].extent == b->parts[i].extent;
    if (*ret_same || all->shape[axis] < 0)
        return SP_OK;
    *ret_same = true;
    for (int64_t index = 0; index < all->shards[axis] && *ret_same && status == SP_OK; index++) {
        struct sp_arena_mark mark = sp_arena_mark(all->arena);
        status = sp_block_ranges(all->arena, a, axis, all->shape[axis], index, &left, err);
        if (status == SP_OK)
            status = sp_block_ranges(all->arena, b, axis, all->shape[axis], index, &right, err);
        if (status == SP_OK)
            *ret_same = left.count == right.count &&
                        (left.count == 0 || memcmp(left.ranges, right.ranges, left.count * sizeof *left.ranges) == 0);
        sp_arena_rewind(all->arena, mark);
    }
    return status;
}

static enum sp_status fail_split(uint32_t first, uint32_t second, uint32_t axis, struct sp_error *err)
{
    return sp_fail(err, SP_ERR_MODEL, "SPLIT_MISMATCH",
                   "Inputs %" PRIu32 " and %" PRIu32 " are split differently along axis %" PRIu32
                   " of the result; inputs that do not broadcast on an axis must split it the same way.",
                   first, second, axis);
}

/* The split of a result axis, which all inputs that have it must share. */
static enum sp_status compose_axis(struct composition *all, uint32_t axis, struct sp_error *err)
{
    uint32_t owner = UINT32_MAX;
    all->shards[axis] = 1;
    for (uint32_t i = 0; i < all->input_count; i++) {
        int64_t own = input_axis(all, i, axis);
        int64_t shards = own < 0 ? 1 : sp_sharding_shards(all->inputs[i], (uint32_t)own);
        bool is_same = true;
        if (does_broadcast(all, i, axis)) {
            if (shards > 1)
                return sp_fail(err, SP_ERR_MODEL, "SPLIT_MISMATCH",
                               "Input %" PRIu32 " splits axis %" PRId64 " in %" PRId64
                               ", but broadcasts its one element there; it must be whole.",
                               i, own, shards);
            continue;
        }
        struct sp_block_dim dim = sp_sharding_block(all->inputs[i], (uint32_t)own);
        if (owner == UINT32_MAX) {
            owner = i;
            all->shards[axis] = shards;
            all->dims[axis] = dim;
            continue;
        }
        if (shards != all->shards[axis])
            return fail_split(owner, i, axis, err);
        enum sp_status status = SP_OK;
        if (shards > 1)
            status = same_blocks(all, axis, &all->dims[axis], &dim, &is_same, err);
        if (status != SP_OK)
            return status;
        if (!is_same)
            return fail_split(owner, i, axis, err);
    }
    return SP_OK;
}

/* ---- devices ---- */

struct device_set {
    const int64_t *devices;
    uint32_t count;
};

/* The devices of the input shard that a result shard is computed from. */
static struct device_set set_of(const struct composition *all, uint32_t input, const int64_t *coordinates)
{
    const struct sp_sharding *blocks = all->inputs[input];
    int64_t shard = 0;
    for (uint32_t axis = all->rank - all->ranks[input]; axis < all->rank; axis++)
        shard = does_broadcast(all, input, axis) ? shard : shard * all->shards[axis] + coordinates[axis];
    return (struct device_set){blocks->devices + blocks->first[shard], blocks->first[shard + 1] - blocks->first[shard]};
}

/* The devices in all sets: those of the smallest that the others have too. Writes when `devices` is given. */
static uint32_t intersect(const struct composition *all, const struct device_set *sets, int64_t *devices)
{
    uint32_t smallest = 0, count = 0;
    for (uint32_t i = 1; i < all->input_count; i++)
        if (sets[i].count < sets[smallest].count)
            smallest = i;
    for (uint32_t d = 0; d < sets[smallest].count; d++) {
        bool is_in_all = true;
        for (uint32_t i = 0; i < all->input_count && is_in_all; i++)
            is_in_all = i == smallest || bsearch(&sets[smallest].devices[d], sets[i].devices, sets[i].count,
                                                 sizeof *devices, sp_compare_numbers);
        if (!is_in_all)
            continue;
        if (devices)
            devices[count] = sets[smallest].devices[d];
        count++;
    }
    return count;
}

/* Which two inputs have no device in common, or merely the first and the last. */
static enum sp_status fail_empty(const struct composition *all, const struct device_set *sets, int64_t shard,
                                 struct sp_error *err)
{
    uint32_t a = 0, b = all->input_count - 1;
    for (uint32_t i = 0; i < all->input_count; i++)
        for (uint32_t j = i + 1; j < all->input_count; j++) {
            struct composition two = {.input_count = 2};
            const struct device_set pair[2] = {sets[i], sets[j]};
            if (intersect(&two, pair, NULL) == 0) {
                a = i;
                b = j;
                goto found;
            }
        }
found:
    return sp_fail(err, SP_ERR_MODEL, "EMPTY_INTERSECTION",
                   "No device holds what shard %" PRId64 " of the result is computed from: inputs %" PRIu32
                   " and %" PRIu32 " have it on different devices.",
                   shard, a, b);
}

static void next_coordinates(const struct composition *all, int64_t *coordinates)
{
    for (uint32_t axis = all->rank; axis-- > 0;) {
        if (++coordinates[axis] < all->shards[axis])
            return;
        coordinates[axis] = 0;
    }
}

/* Goes through the result's shards; fills `first`, and `devices` when it is given. */
static enum sp_status place_shards(struct composition *all, struct device_set *sets, int64_t shard_count,
                                   uint32_t *first, int64_t *devices, struct sp_error *err)
{
    int64_t coordinates[SP_MAX_RANK] = {0}, steps = 0;
    for (int64_t shard = 0; shard < shard_count; shard++) {
        uint32_t smallest = UINT32_MAX;
        for (uint32_t i = 0; i < all->input_count; i++) {
            sets[i] = set_of(all, i, coordinates);
            smallest = sets[i].count < smallest ? sets[i].count : smallest;
        }
        steps += (int64_t)smallest * all->input_count;
        if (steps > SP_MAX_COMPOSE_STEPS)
            return sp_fail_limit(
                err, "DEVICE_SETS_TOO_LARGE", "SP_MAX_COMPOSE_STEPS", SP_MAX_COMPOSE_STEPS, steps,
                "The device sets of the inputs are too large to be intersected for %" PRId64 " shards.", shard_count);
        uint32_t count = intersect(all, sets, devices ? devices + first[shard] : NULL);
        if (count == 0)
            return fail_empty(all, sets, shard, err);
        if (first[shard] + (int64_t)count > SP_MAX_LISTED_DEVICES)
            return sp_fail_limit(err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                                 first[shard] + (int64_t)count,
                                 "The devices of the result's shards are too many to be listed; at most %d can be.",
                                 SP_MAX_LISTED_DEVICES);
        first[shard + 1] = first[shard] + count;
        next_coordinates(all, coordinates);
    }
    return SP_OK;
}

static enum sp_status compose_devices(struct composition *all, struct sp_sharding *result, struct sp_error *err)
{
    int64_t shard_count = 1;
    for (uint32_t axis = 0; axis < all->rank; axis++)
        if (!sp_mul_i64(shard_count, all->shards[axis], &shard_count))
            shard_count = INT64_MAX;
    if (shard_count > SP_MAX_LISTED_DEVICES)
        return sp_fail_limit(err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                             shard_count,
                             "The result has %" PRId64 " shards, but the devices of at most %d can be listed.",
                             shard_count, SP_MAX_LISTED_DEVICES);
    uint32_t *first = SP_NEW_ARRAY(all->arena, (size_t)shard_count + 1, uint32_t);
    struct device_set *sets = SP_NEW_ARRAY(all->arena, all->input_count, struct device_set);
    if (!first || !sets)
        return sp_fail_memory(err);
    enum sp_status status = place_shards(all, sets, shard_count, first, NULL, err);
    if (status != SP_OK)
        return status;
    int64_t *devices = SP_NEW_ARRAY(all->arena, first[shard_count], int64_t);
    if (!devices)
        return sp_fail_memory(err);
    status = place_shards(all, sets, shard_count, first, devices, err);
    result->shard_count = shard_count;
    result->first = first;
    result->devices = devices;
    return status;
}

/* ---- all of it ---- */

static enum sp_status read_inputs(struct composition *all, const struct sp_sharding *const *inputs,
                                  int64_t device_count, struct sp_error *err)
{
    all->inputs = SP_NEW_ARRAY(all->arena, all->input_count, struct sp_sharding *);
    if (!all->inputs)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < all->input_count; i++) {
        enum sp_status status = sp_sharding_check(inputs[i], all->ranks[i], all->shapes[i], device_count, err);
        if (status == SP_OK)
            status =
                sp_sharding_to_blocks(all->arena, inputs[i], all->ranks[i], device_count, &all->inputs[i], NULL, err);
        if (status == SP_OK && !all->inputs[i]->first)
            status = sp_fail(err, SP_ERR_REQUEST, "DEVICES_UNKNOWN",
                             "The sharding of input %" PRIu32 " leaves open which devices hold its shards.", i);
        if (status != SP_OK) {
            sp_error_at(err, "input %" PRIu32, i);
            return status;
        }
        if (all->ranks[i] > all->rank)
            all->rank = all->ranks[i];
    }
    return SP_OK;
}

enum sp_status compose_shardings(struct sp_arena *arena, uint32_t input_count, const struct sp_sharding *const *inputs,
                                 const uint32_t *ranks, const int64_t *const *shapes, int64_t device_count,
                                 struct sp_sharding **ret_result, struct sp_error *err)
{
    struct composition all = {.arena = arena, .input_count = input_count, .ranks = ranks, .shapes = shapes};
    if (input_count == 0)
        return sp_fail(err, SP_ERR_REQUEST, "NO_INPUTS", "There are no inputs whose shardings could be composed.");
    enum sp_status status = read_inputs(&all, inputs, device_count, err);
    if (status == SP_OK)
        status = broadcast_shape(&all, err);
    for (uint32_t axis = 0; axis < all.rank && status == SP_OK; axis++)
        status = compose_axis(&all, axis, err);
    if (status != SP_OK)
        return status;
    struct sp_sharding *result = SP_NEW(arena, struct sp_sharding);
    struct sp_block_dim *dims = SP_NEW_ARRAY(arena, all.rank, struct sp_block_dim);
    if (!result || !dims)
        return sp_fail_memory(err);
    memcpy(dims, all.dims, all.rank * sizeof *dims);
    *result = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS, .rank = all.rank, .blocks = dims};
    status = compose_devices(&all, result, err);
    if (status == SP_OK)
        *ret_result = result;
    return status;
}
