#include "ops/local_places.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/limits.h"
#include "ops/infer.h"
#include "ops/local_internal.h"

#define MOST_INDICES ((int64_t)(SP_MAX_LOCAL_CONSTANT / sizeof(int64_t)))

void sp_local_any_whole(struct sp_local *local, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    uint32_t factor = 0;
    while (factor < local->factor_count && !local->factors[factor].is_split)
        factor++;
    sp_local_whole(local, (uint8_t)factor, "%s", text);
}

int64_t *sp_local_sizes(struct sp_local *local, const struct sp_local_operand *operand)
{
    int64_t *sizes = SP_LOCAL_ARRAY(local, operand->rank, int64_t);
    for (uint32_t axis = 0; sizes != NULL && axis < operand->rank; axis++)
        sizes[axis] = operand->axes[axis].size;
    return sizes;
}

struct sp_piece *sp_local_patched(struct sp_local *local, uint32_t input, uint32_t count, const bool *is_set,
                                  const int64_t *values)
{
    uint32_t known_count = 0;
    const int64_t *known = sp_local_known(local, input, &known_count);
    int64_t *list = SP_LOCAL_ARRAY(local, count, int64_t), *kept = SP_LOCAL_ARRAY(local, count, int64_t);
    bool is_known = true;
    if (!sp_local_is_fine(local))
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        bool has_own = known != NULL && known_count == count;
        kept[i] = !is_set[i];
        list[i] = is_set[i] ? values[i] : has_own ? known[i] : 0;
        is_known = is_known && (is_set[i] || has_own);
    }
    if (is_known)
        return sp_local_ints(local, count, list);
    struct sp_piece *own = sp_local_cast(local, sp_local_input_whole(local, input), SP_DTYPE_INT64);
    own = sp_local_binary(local, "Mul", own, sp_local_ints(local, count, kept));
    return sp_local_binary(local, "Add", own, sp_local_ints(local, count, list));
}

bool sp_local_may_list(struct sp_local *local, uint8_t factor, int64_t count)
{
    if (count <= MOST_INDICES)
        return true;
    char subject[300];
    sp_local_whole(local, factor,
                   "%s has several ranges of an axis with %lld indices on one device, and a list of so many is not "
                   "written, so it is computed with the axis whole on every device.",
                   sp_op_subject(local->node, subject, sizeof(subject)), (long long)count);
    return false;
}

bool sp_local_needed(struct sp_local *local, uint8_t factor, int64_t extent, int64_t count, const int64_t *list,
                     struct sp_axis_ranges *ret_ranges, int64_t *ret_places)
{
    if (!sp_local_may_list(local, factor, extent))
        return false;
    /* 1 + the place of each index that is needed. */
    int64_t *places = SP_LOCAL_ARRAY(local, (size_t)extent, int64_t), next = 0;
    struct sp_range *ranges = SP_LOCAL_ARRAY(local, (size_t)extent, struct sp_range);
    uint32_t used = 0;
    bool is_any = false;
    if (places == NULL || ranges == NULL || extent == 0)
        return false;
    for (int64_t i = 0; i < count; i++) {
        is_any = is_any || list[i] >= 0;
        if (list[i] >= 0)
            places[list[i]] = 1;
    }
    places[0] = places[0] != 0 || !is_any;
    for (int64_t at = 0; at < extent; at++) {
        if (places[at] == 0)
            continue;
        if (used == 0 || ranges[used - 1].limit != at)
            ranges[used++] = (struct sp_range){at, at};
        ranges[used - 1].limit = at + 1;
        places[at] = ++next;
    }
    for (int64_t i = 0; i < count; i++)
        ret_places[i] = list[i] < 0 ? 0 : places[list[i]] - 1;
    *ret_ranges = (struct sp_axis_ranges){used, ranges};
    return true;
}

struct sp_piece *sp_local_indices(struct sp_local *local, uint8_t factor, const struct sp_axis_ranges *ranges)
{
    int64_t size = 0, next = 0;
    if (ranges->count == 1)
        return sp_local_iota(local, ranges->ranges[0].start, ranges->ranges[0].limit);
    for (uint32_t i = 0; i < ranges->count; i++)
        size += ranges->ranges[i].limit - ranges->ranges[i].start;
    if (!sp_local_is_fine(local) || !sp_local_may_list(local, factor, size))
        return NULL;
    int64_t *list = SP_LOCAL_ARRAY(local, (size_t)size, int64_t);
    for (uint32_t i = 0; list != NULL && i < ranges->count; i++) {
        for (int64_t at = ranges->ranges[i].start; at < ranges->ranges[i].limit; at++)
            list[next++] = at;
    }
    return list == NULL ? NULL : sp_local_ints(local, (uint32_t)size, list);
}

/* Where each index of the whole is in the part, -1 where it is not. */
static struct sp_piece *table_of(struct sp_local *local, uint8_t factor)
{
    const struct sp_local_factor *cut = &local->factors[factor];
    if (!sp_local_is_fine(local) || !sp_local_may_list(local, factor, cut->extent))
        return NULL;
    int64_t *table = SP_LOCAL_ARRAY(local, (size_t)cut->extent, int64_t);
    int64_t next = 0;
    for (int64_t i = 0; table != NULL && i < cut->extent; i++)
        table[i] = -1;
    for (uint32_t i = 0; table != NULL && i < cut->ranges.count; i++) {
        for (int64_t at = cut->ranges.ranges[i].start; at < cut->ranges.ranges[i].limit; at++)
            table[at] = next++;
    }
    return table == NULL ? NULL : sp_local_ints(local, (uint32_t)cut->extent, table);
}

/* 0 <= index < limit */
static struct sp_piece *is_within(struct sp_local *local, struct sp_piece *index, int64_t limit)
{
    struct sp_piece *below = sp_local_compare(local, "Less", index, sp_local_int(local, SP_DTYPE_INT64, 0));
    struct sp_piece *under = sp_local_compare(local, "Less", index, sp_local_int(local, SP_DTYPE_INT64, limit));
    return sp_local_binary(local, "And", sp_local_unary(local, "Not", below), under);
}

struct sp_piece *sp_local_locate(struct sp_local *local, uint8_t factor, struct sp_piece *indices,
                                 struct sp_piece **ret_is_here)
{
    const struct sp_local_factor *cut = &local->factors[factor];
    struct sp_piece *zero = sp_local_int(local, SP_DTYPE_INT64, 0);
    struct sp_piece *index = sp_local_cast(local, indices, SP_DTYPE_INT64);
    struct sp_piece *from_back = sp_local_binary(local, "Add", index, sp_local_int(local, SP_DTYPE_INT64, cut->extent));
    index = sp_local_where(local, sp_local_compare(local, "Less", index, zero), from_back, index);
    if (cut->is_contiguous) {
        if (cut->start != 0)
            index = sp_local_binary(local, "Sub", index, sp_local_int(local, SP_DTYPE_INT64, cut->start));
        *ret_is_here = is_within(local, index, cut->size);
        return index;
    }
    struct sp_piece *is_index = is_within(local, index, cut->extent);
    index = sp_local_gather(local, table_of(local, factor), sp_local_where(local, is_index, index, zero), 0);
    *ret_is_here = sp_local_binary(local, "And", is_index, is_within(local, index, cut->size));
    return index;
}

struct sp_piece *sp_local_masked(struct sp_local *local, struct sp_piece *mask, struct sp_piece *x)
{
    if (!sp_local_has(local, mask, x))
        return NULL;
    return sp_local_where(local, mask, x, sp_local_int(local, x->dtype, 0));
}

struct sp_piece *sp_local_widen(struct sp_local *local, struct sp_piece *x, uint32_t rank, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        x = sp_local_unsqueeze(local, x, rank + i);
    return x;
}
