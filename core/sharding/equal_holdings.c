#include <string.h>

#include "sharding/equal_internal.h"
#include "sharding/internal.h"

static bool is_empty(const struct sp_axis_ranges *axes, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++)
        if (axes[i].count == 0)
            return true;
    return false;
}

/* Leaves out the empty shards. */
static struct sp_held drop_empty(const struct sp_held *held)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < held->shard_count; i++) {
        struct sp_axis_ranges *axes = held->shards + (size_t)i * held->rank;
        if (is_empty(axes, held->rank))
            continue;
        if (kept < i)
            memcpy(held->shards + (size_t)kept * held->rank, axes, held->rank * sizeof *axes);
        kept++;
    }
    return (struct sp_held){held->rank, kept, held->shards};
}

static bool are_axes_equal(const struct sp_axis_ranges *a, const struct sp_axis_ranges *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (a[i].count != b[i].count)
            return false;
        for (uint32_t j = 0; j < a[i].count; j++)
            if (a[i].ranges[j].start != b[i].ranges[j].start || a[i].ranges[j].limit != b[i].ranges[j].limit)
                return false;
    }
    return true;
}

/* Elements that two ascending lists of ranges share. */
static int64_t shared_length(const struct sp_axis_ranges *a, const struct sp_axis_ranges *b)
{
    int64_t length = 0;
    for (uint32_t i = 0, j = 0; i < a->count && j < b->count;) {
        struct sp_range left = a->ranges[i], right = b->ranges[j];
        int64_t start = left.start > right.start ? left.start : right.start;
        int64_t limit = left.limit < right.limit ? left.limit : right.limit;
        if (start < limit)
            length += limit - start;
        if (left.limit < right.limit)
            i++;
        else
            j++;
    }
    return length;
}

/* Adds up the elements that shards of a share with shards of b, which are disjoint on either side. */
static enum sp_status shared_volume(const struct sp_held *a, const struct sp_held *b, int64_t *ret_volume,
                                    struct sp_error *err)
{
    const uint32_t rank = a->rank;
    int64_t total = 0;
    for (uint32_t i = 0; i < a->shard_count; i++)
        for (uint32_t j = a == b ? i : 0; j < (a == b ? i + 1 : b->shard_count); j++) {
            int64_t volume = 1;
            bool fits = true;
            for (uint32_t axis = 0; axis < rank && fits && volume > 0; axis++)
                fits = sp_mul_i64(
                    volume, shared_length(&a->shards[(size_t)i * rank + axis], &b->shards[(size_t)j * rank + axis]),
                    &volume);
            if (!fits || !sp_add_i64(total, volume, &total))
                return sp_fail_limit(err, "TENSOR_TOO_LARGE", "SP_MAX_TENSOR_BYTES", SP_MAX_TENSOR_BYTES,
                                     SP_MAX_TENSOR_BYTES, "The tensor has more than 2^63 - 1 elements.");
        }
    *ret_volume = total;
    return SP_OK;
}

enum sp_status sp_held_equal(const struct sp_held *a, const struct sp_held *b, bool *ret_equal, struct sp_error *err)
{
    const struct sp_held left = drop_empty(a), right = drop_empty(b);
    const uint32_t a_count = left.shard_count, b_count = right.shard_count;
    int64_t a_volume = 0, b_volume = 0, shared = 0, pairs = (int64_t)a_count * b_count;
    *ret_equal = a_count == b_count && are_axes_equal(a->shards, b->shards, (size_t)a_count * a->rank);
    if (*ret_equal || a_count == 0 || b_count == 0 || (a_count == 1 && b_count == 1))
        return SP_OK;
    if (pairs > SP_MAX_HELD_RANGES)
        return sp_fail_limit(err, "TOO_MANY_RANGES", "SP_MAX_HELD_RANGES", SP_MAX_HELD_RANGES, pairs,
                             "One device holds so many shards under both shardings that comparing them takes more than "
                             "%d steps.",
                             SP_MAX_HELD_RANGES);
    enum sp_status status = shared_volume(&left, &left, &a_volume, err);
    if (status == SP_OK)
        status = shared_volume(&right, &right, &b_volume, err);
    if (status == SP_OK)
        status = shared_volume(&left, &right, &shared, err);
    if (status == SP_OK)
        *ret_equal = a_volume == b_volume && shared == a_volume;
    return status;
}
