/* Which collective an exchange is, told from what its members hold and need. */
#include <string.h>

#include "partition/partition_internal.h"

static bool ranges_equal(const struct sp_axis_ranges *a, const struct sp_axis_ranges *b)
{
    return a->count == b->count && (a->count == 0 || memcmp(a->ranges, b->ranges, a->count * sizeof *a->ranges) == 0);
}

bool sp_box_equal(const struct sp_box *a, const struct sp_box *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (!ranges_equal(&a->axes[i], &b->axes[i]))
            return false;
    return true;
}

/* The only axis on which two boxes differ; `rank` where none does, SP_NO_TENSOR where several do. */
static uint32_t differing_axis(const struct sp_box *a, const struct sp_box *b)
{
    uint32_t axis = a->rank;
    for (uint32_t i = 0; i < a->rank; i++)
        if (!ranges_equal(&a->axes[i], &b->axes[i])) {
            if (axis != a->rank)
                return SP_NO_TENSOR;
            axis = i;
        }
    return axis;
}

/* Whether a group's boxes are slices of `whole` along an axis, in the order of members and of this size; -1: of any. */
static bool are_slices(const struct sp_exchange *exchange, uint32_t first, uint32_t last, bool held,
                       const struct sp_box *whole, uint32_t axis, int64_t size)
{
    const struct sp_axis_ranges *all = &whole->axes[axis];
    if (all->count != 1)
        return false;
    int64_t at = all->ranges[0].start;
    for (uint32_t i = first; i < last; i++) {
        const struct sp_exchange_member *member = &exchange->members[i];
        const struct sp_box *box = held ? &member->held : &member->needed;
        if ((held ? member->before : member->after) == NULL || differing_axis(box, whole) != axis ||
            box->axes[axis].count != 1 || box->axes[axis].ranges[0].start != at ||
            (size >= 0 && box->axes[axis].ranges[0].limit != at + size))
            return false;
        at = box->axes[axis].ranges[0].limit;
    }
    return at == all->ranges[0].limit;
}

/* The same of equal slices. */
static bool are_equal_slices(const struct sp_exchange *exchange, uint32_t first, uint32_t last, bool held,
                             const struct sp_box *whole, uint32_t axis)
{
    const struct sp_axis_ranges *all = &whole->axes[axis];
    const int64_t size = all->count != 1 ? -1 : all->ranges[0].limit - all->ranges[0].start;
    return size >= 0 && size % (last - first) == 0 &&
           are_slices(exchange, first, last, held, whole, axis, size / (last - first));
}

/* One group of an exchange against what its kind says; the axes of the first group are those of all. */
static bool is_group_regular(struct sp_exchange *exchange, uint32_t first, uint32_t last)
{
    const struct sp_exchange_member *one = &exchange->members[first];
    for (uint32_t i = first; i < last; i++)
        if (exchange->members[i].before == NULL || exchange->members[i].after == NULL)
            return false;
    uint32_t axis = differing_axis(&one->held, &one->needed);
    switch (exchange->kind) {
    case SP_ALL_GATHER:
    case SP_REDUCE_SCATTER: {
        bool gathers = exchange->kind == SP_ALL_GATHER;
        if (axis >= exchange->rank || (first > 0 && axis != exchange->axis))
            return false;
        exchange->axis = axis;
        for (uint32_t i = first + 1; i < last; i++)
            if (!sp_box_equal(gathers ? &exchange->members[i].needed : &exchange->members[i].held,
                              gathers ? &one->needed : &one->held))
                return false;
        return are_equal_slices(exchange, first, last, gathers, gathers ? &one->needed : &one->held, axis);
    }
    case SP_ALL_REDUCE:
        for (uint32_t i = first; i < last; i++)
            if (!sp_box_equal(&exchange->members[i].held, &one->held) ||
                !sp_box_equal(&exchange->members[i].needed, &one->held))
                return false;
        return true;
    default:
        return false;
    }
}

typedef bool slices_fn(const struct sp_exchange *exchange, uint32_t first, uint32_t last, bool held,
                       const struct sp_box *whole, uint32_t axis);

/* All-to-all: every member holds all along `axis` and a slice along `other_axis`, and needs it the other way round. */
static bool is_all_to_all_of(struct sp_exchange *exchange, uint32_t first, uint32_t last, slices_fn *slices)
{
    const struct sp_exchange_member *one = &exchange->members[first];
    uint32_t found = 0;
    for (uint32_t a = 0; a < exchange->rank; a++) {
        if (ranges_equal(&one->held.axes[a], &one->needed.axes[a]))
            continue;
        if (found++ >= 2 || one->held.axes[a].count != 1 || one->needed.axes[a].count != 1)
            return false;
        int64_t held = one->held.axes[a].ranges[0].limit - one->held.axes[a].ranges[0].start;
        int64_t needed = one->needed.axes[a].ranges[0].limit - one->needed.axes[a].ranges[0].start;
        uint32_t *axis = held > needed ? &exchange->axis : &exchange->other_axis;
        if (first > 0 && *axis != a)
            return false;
        *axis = a;
    }
    if (found != 2 || exchange->axis == exchange->other_axis)
        return false;
    struct sp_axis_ranges axes[SP_MAX_RANK];
    memcpy(axes, one->held.axes, exchange->rank * sizeof *axes);
    axes[exchange->other_axis] = one->needed.axes[exchange->other_axis];
    struct sp_box whole = {.rank = exchange->rank, .axes = axes};
    return slices(exchange, first, last, true, &whole, exchange->other_axis) &&
           slices(exchange, first, last, false, &whole, exchange->axis);
}

static bool is_all_to_all(struct sp_exchange *exchange, uint32_t first, uint32_t last)
{
    return is_all_to_all_of(exchange, first, last, are_equal_slices);
}

/* Whether all groups, which have as many members each, are as `is_so` says. */
static bool is_each_group(struct sp_exchange *exchange,
                          bool (*is_so)(struct sp_exchange *exchange, uint32_t first, uint32_t last))
{
    uint32_t size = 0;
    for (uint32_t first = 0, last; first < exchange->member_count; first = last) {
        for (last = first + 1;
             last < exchange->member_count && exchange->members[last].group == exchange->members[first].group;)
            last++;
        if ((size != 0 && last - first != size) || !is_so(exchange, first, last))
            return false;
        size = last - first;
    }
    return true;
}

void sp_exchange_classify(struct sp_exchange *exchange)
{
    exchange->is_regular = (exchange->rank > 0 || exchange->kind == SP_ALL_REDUCE) &&
                           is_each_group(exchange, exchange->kind == SP_ALL_TO_ALL ? is_all_to_all : is_group_regular);
}

/* ---- what it is called ------------------------------------------------------------------------------------------- */

/* Slices of which one that is not the last differs from the first: no padding of the last makes them equal. */
static bool are_uneven_slices(const struct sp_exchange *exchange, uint32_t first, uint32_t last, bool held,
                              const struct sp_box *whole, uint32_t axis)
{
    const struct sp_range *all = &whole->axes[axis].ranges[0];
    const int64_t count = last - first, size = (all->limit - all->start + count - 1) / count;
    bool is_even = true;
    if (!are_slices(exchange, first, last, held, whole, axis, -1))
        return false;
    for (uint32_t i = first; i + 1 < last; i++) {
        const struct sp_box *box = held ? &exchange->members[i].held : &exchange->members[i].needed;
        const int64_t start = all->start + (i - first + 1) * size;
        is_even = is_even && box->axes[axis].ranges[0].limit == (start < all->limit ? start : all->limit);
    }
    return !is_even;
}

static bool gathers_unevenly(struct sp_exchange *exchange, uint32_t first, uint32_t last)
{
    const struct sp_exchange_member *one = &exchange->members[first];
    for (uint32_t i = first; i < last; i++)
        if (exchange->members[i].before == NULL || exchange->members[i].after == NULL ||
            !sp_box_equal(&exchange->members[i].needed, &one->needed))
            return false;
    const uint32_t axis = differing_axis(&one->held, &one->needed);
    return axis < exchange->rank && are_uneven_slices(exchange, first, last, true, &one->needed, axis);
}

static bool is_uneven_all_to_all(struct sp_exchange *exchange, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i < last; i++)
        if (exchange->members[i].before == NULL || exchange->members[i].after == NULL)
            return false;
    return is_all_to_all_of(exchange, first, last, are_uneven_slices);
}

const char *sp_uneven_collective_name(enum sp_collective kind)
{
    switch (kind) {
    case SP_ALL_GATHER:
        return "all-gather-v";
    case SP_ALL_TO_ALL:
        return "all-to-all-v";
    case SP_REDUCE_SCATTER:
        return "reduce-scatter-v";
    default:
        return sp_collective_name(kind);
    }
}

const char *sp_exchange_name(const struct sp_exchange *exchange)
{
    const enum sp_collective kind = exchange->kind;
    struct sp_exchange form = *exchange; /* whose axes are found anew */
    const bool may_be_uneven = !exchange->is_regular && exchange->rank > 0 &&
                               (kind == SP_SEND_RECEIVE || kind == SP_ALL_GATHER || kind == SP_ALL_TO_ALL);
    if (may_be_uneven && is_each_group(&form, gathers_unevenly))
        return sp_uneven_collective_name(SP_ALL_GATHER);
    if (may_be_uneven && is_each_group(&form, is_uneven_all_to_all))
        return sp_uneven_collective_name(SP_ALL_TO_ALL);
    return sp_collective_name(kind);
}

enum sp_status sp_part_exchange(struct sp_partitioner *part, struct sp_exchange *exchange)
{
    sp_exchange_classify(exchange);
    if (exchange->member_count == 0 || part->sink->exchange == NULL)
        return SP_OK;
    return part->sink->exchange(part->sink->context, exchange, part->err);
}
