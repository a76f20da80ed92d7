#include "ops/lowering/places.h"

#include "base/limits.h"
#include "ops/lowering/internal.h"
#include "ops/table/shape_helpers.h"

#define MOST_INDICES ((int64_t)(SP_MAX_LOCAL_CONSTANT / sizeof(int64_t)))

void sp_lower_any_whole(struct sp_lowering *lower, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(text, format);
    uint32_t factor = 0;
    while (factor < lower->factor_count && !lower->factors[factor].is_split)
        factor++;
    sp_lower_whole(lower, (uint8_t)factor, "%s", text);
}

int64_t *sp_lower_sizes(struct sp_lowering *lower, const struct sp_lower_operand *operand)
{
    int64_t *sizes = SP_LOWER_ARRAY(lower, operand->rank, int64_t);
    for (uint32_t axis = 0; sizes != NULL && axis < operand->rank; axis++)
        sizes[axis] = operand->axes[axis].size;
    return sizes;
}

struct sp_piece *sp_lower_patched(struct sp_lowering *lower, uint32_t input, uint32_t count, const bool *is_set,
                                  const int64_t *values)
{
    uint32_t known_count = 0;
    const int64_t *known = sp_lower_known(lower, input, &known_count);
    int64_t *list = SP_LOWER_ARRAY(lower, count, int64_t), *kept = SP_LOWER_ARRAY(lower, count, int64_t);
    bool is_known = true;
    if (!sp_lower_is_fine(lower))
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        bool has_own = known != NULL && known_count == count;
        kept[i] = !is_set[i];
        list[i] = is_set[i] ? values[i] : has_own ? known[i] : 0;
        is_known = is_known && (is_set[i] || has_own);
    }
    if (is_known)
        return sp_lower_ints(lower, count, list);
    struct sp_piece *own = sp_lower_cast(lower, sp_lower_input_whole(lower, input), SP_DTYPE_INT64);
    own = sp_lower_binary(lower, "Mul", own, sp_lower_ints(lower, count, kept));
    return sp_lower_binary(lower, "Add", own, sp_lower_ints(lower, count, list));
}

bool sp_lower_may_list(struct sp_lowering *lower, uint8_t factor, int64_t count)
{
    if (count <= MOST_INDICES)
        return true;
    char subject[300];
    sp_lower_whole(lower, factor,
                   "%s has several ranges of an axis with %lld indices on one device, and a list of so many is not "
                   "written, so it is computed with the axis whole on every device.",
                   sp_op_subject(lower->node, subject, sizeof subject), (long long)count);
    return false;
}

bool sp_lower_needed(struct sp_lowering *lower, uint8_t factor, int64_t extent, int64_t count, const int64_t *list,
                     struct sp_axis_ranges *ret_ranges, int64_t *ret_places)
{
    if (!sp_lower_may_list(lower, factor, extent))
        return false;
    /* 1 + the place of each index that is needed. */
    int64_t *places = SP_LOWER_ARRAY(lower, (size_t)extent, int64_t), next = 0;
    struct sp_range *ranges = SP_LOWER_ARRAY(lower, (size_t)extent, struct sp_range);
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

struct sp_piece *sp_lower_indices(struct sp_lowering *lower, uint8_t factor, const struct sp_axis_ranges *ranges)
{
    int64_t size = 0, next = 0;
    if (ranges->count == 1)
        return sp_lower_iota(lower, ranges->ranges[0].start, ranges->ranges[0].limit);
    for (uint32_t i = 0; i < ranges->count; i++)
        size += ranges->ranges[i].limit - ranges->ranges[i].start;
    if (!sp_lower_is_fine(lower) || !sp_lower_may_list(lower, factor, size))
        return NULL;
    int64_t *list = SP_LOWER_ARRAY(lower, (size_t)size, int64_t);
    for (uint32_t i = 0; list != NULL && i < ranges->count; i++) {
        for (int64_t at = ranges->ranges[i].start; at < ranges->ranges[i].limit; at++)
            list[next++] = at;
    }
    return list == NULL ? NULL : sp_lower_ints(lower, (uint32_t)size, list);
}

/* Where each index of the whole is in the part, -1 where it is not. */
static struct sp_piece *table_of(struct sp_lowering *lower, uint8_t factor)
{
    const struct sp_lower_factor *cut = &lower->factors[factor];
    if (!sp_lower_is_fine(lower) || !sp_lower_may_list(lower, factor, cut->extent))
        return NULL;
    int64_t *table = SP_LOWER_ARRAY(lower, (size_t)cut->extent, int64_t);
    int64_t next = 0;
    for (int64_t i = 0; table != NULL && i < cut->extent; i++)
        table[i] = -1;
    for (uint32_t i = 0; table != NULL && i < cut->ranges.count; i++) {
        for (int64_t at = cut->ranges.ranges[i].start; at < cut->ranges.ranges[i].limit; at++)
            table[at] = next++;
    }
    return table == NULL ? NULL : sp_lower_ints(lower, (uint32_t)cut->extent, table);
}

/* 0 <= index < limit */
static struct sp_piece *is_within(struct sp_lowering *lower, struct sp_piece *index, int64_t limit)
{
    struct sp_piece *below = sp_lower_compare(lower, "Less", index, sp_lower_int(lower, SP_DTYPE_INT64, 0));
    struct sp_piece *under = sp_lower_compare(lower, "Less", index, sp_lower_int(lower, SP_DTYPE_INT64, limit));
    return sp_lower_binary(lower, "And", sp_lower_unary(lower, "Not", below), under);
}

struct sp_piece *sp_lower_locate(struct sp_lowering *lower, uint8_t factor, struct sp_piece *indices,
                                 struct sp_piece **ret_is_here)
{
    const struct sp_lower_factor *cut = &lower->factors[factor];
    struct sp_piece *zero = sp_lower_int(lower, SP_DTYPE_INT64, 0);
    struct sp_piece *index = sp_lower_cast(lower, indices, SP_DTYPE_INT64);
    struct sp_piece *from_back = sp_lower_binary(lower, "Add", index, sp_lower_int(lower, SP_DTYPE_INT64, cut->extent));
    index = sp_lower_where(lower, sp_lower_compare(lower, "Less", index, zero), from_back, index);
    if (cut->is_contiguous) {
        if (cut->start != 0)
            index = sp_lower_binary(lower, "Sub", index, sp_lower_int(lower, SP_DTYPE_INT64, cut->start));
        *ret_is_here = is_within(lower, index, cut->size);
        return index;
    }
    struct sp_piece *is_index = is_within(lower, index, cut->extent);
    index = sp_lower_gather(lower, table_of(lower, factor), sp_lower_where(lower, is_index, index, zero), 0);
    *ret_is_here = sp_lower_binary(lower, "And", is_index, is_within(lower, index, cut->size));
    return index;
}

struct sp_piece *sp_lower_masked(struct sp_lowering *lower, struct sp_piece *mask, struct sp_piece *x)
{
    if (!sp_lower_has(lower, mask, x))
        return NULL;
    return sp_lower_where(lower, mask, x, sp_lower_int(lower, x->dtype, 0));
}

struct sp_piece *sp_lower_widen(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        x = sp_lower_unsqueeze(lower, x, rank + i);
    return x;
}
