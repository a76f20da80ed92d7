#include "verify/numbers.h"

#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "graph/model.h"

enum sp_status sp_numbers_create(struct sp_arena *arena, enum sp_dtype dtype, uint32_t rank,
                                 const struct sp_index_axis *axes, struct sp_numbers **ret, struct sp_error *err)
{
    size_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        if (!sp_mul_size(count, axes[i].count, &count) || count > SP_MAX_EVALUATED_NUMBERS)
            return sp_fail_limit(err, "TOO_MANY_NUMBERS", "SP_MAX_EVALUATED_NUMBERS", SP_MAX_EVALUATED_NUMBERS,
                                 (int64_t)(count > INT64_MAX ? INT64_MAX : count),
                                 "A tensor is too large to be evaluated.");
    }
    struct sp_numbers *x = SP_NEW(arena, struct sp_numbers);
    if (rank > SP_MAX_RANK || x == NULL || (x->axes = SP_NEW_ARRAY(arena, rank, struct sp_index_axis)) == NULL ||
        (x->items = SP_NEW_ARRAY(arena, count, struct sp_number)) == NULL)
        return sp_fail_memory(err);
    x->dtype = dtype;
    x->rank = rank;
    x->count = count;
    if (rank > 0)
        memcpy(x->axes, axes, rank * sizeof *axes);
    *ret = x;
    return SP_OK;
}

enum sp_status sp_numbers_create_full(struct sp_arena *arena, enum sp_dtype dtype, uint32_t rank,
                                      const int64_t *extents, struct sp_numbers **ret, struct sp_error *err)
{
    struct sp_index_axis axes[SP_MAX_RANK];
    if (rank > SP_MAX_RANK)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "RANK_TOO_HIGH", "A tensor has too many axes.");
    for (uint32_t i = 0; i < rank; i++) {
        if (extents[i] < 0 || extents[i] > SP_MAX_EVALUATED_NUMBERS)
            return sp_fail(err, SP_ERR_UNSUPPORTED, "EXTENT_UNKNOWN", "A tensor has an axis of %lld elements.",
                           (long long)extents[i]);
        axes[i] = sp_index_all(extents[i]);
    }
    return sp_numbers_create(arena, dtype, rank, axes, ret, err);
}

enum sp_status sp_numbers_view(struct sp_arena *arena, const struct sp_numbers *x, uint32_t rank,
                               const struct sp_index_axis *axes, struct sp_numbers **ret, struct sp_error *err)
{
    struct sp_numbers *view = SP_NEW(arena, struct sp_numbers);
    if (view == NULL || (view->axes = SP_NEW_ARRAY(arena, rank, struct sp_index_axis)) == NULL)
        return sp_fail_memory(err);
    struct sp_index_axis *own = view->axes;
    if (rank > 0)
        memcpy(own, axes, rank * sizeof *axes);
    *view = *x;
    view->axes = own;
    view->rank = rank;
    bool is_same = rank == x->rank;
    for (uint32_t i = 0; is_same && i < rank; i++)
        is_same = axes[i].extent == x->axes[i].extent;
    if (!is_same) /* what it is a difference of has other axes */
        view->minuend = view->subtrahend = NULL;
    *ret = view;
    return SP_OK;
}

int64_t sp_index_find(const struct sp_index_axis *axis, int64_t index)
{
    if (axis->at == NULL)
        return index >= 0 && index < axis->extent ? index : -1;
    uint32_t low = 0, high = axis->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (axis->at[middle] < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low < axis->count && axis->at[low] == index ? (int64_t)low : -1;
}

bool sp_index_equal(const struct sp_index_axis *a, const struct sp_index_axis *b)
{
    if (a->extent != b->extent || a->count != b->count)
        return false;
    if (a->at == b->at)
        return true;
    for (uint32_t i = 0; i < a->count; i++) {
        if (sp_index_at(a, i) != sp_index_at(b, i))
            return false;
    }
    return true;
}

enum sp_status sp_index_common(struct sp_arena *arena, const struct sp_index_axis *a, const struct sp_index_axis *b,
                               struct sp_index_axis *ret, struct sp_error *err)
{
    if (sp_index_equal(a, b)) {
        *ret = *a;
        return SP_OK;
    }
    int64_t *at = SP_NEW_ARRAY(arena, a->count, int64_t);
    uint32_t count = 0;
    if (at == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < a->count; i++) {
        if (sp_index_find(b, sp_index_at(a, i)) >= 0)
            at[count++] = sp_index_at(a, i);
    }
    *ret = (struct sp_index_axis){a->extent, count, at};
    return SP_OK;
}

void sp_numbers_strides(const struct sp_numbers *x, int64_t *ret_strides)
{
    int64_t stride = 1;
    for (uint32_t i = x->rank; i-- > 0;) {
        ret_strides[i] = stride;
        stride *= x->axes[i].count;
    }
}

bool sp_numbers_is_complete(const struct sp_numbers *x)
{
    for (uint32_t i = 0; i < x->rank; i++) {
        if ((int64_t)x->axes[i].count != x->axes[i].extent)
            return false;
    }
    return true;
}
