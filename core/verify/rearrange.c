#include "verify/rearrange.h"

#include <string.h>

#include "base/arith.h"
#include "base/limits.h"

enum sp_status sp_numbers_take(struct sp_arena *arena, const struct sp_numbers *x, uint32_t axis,
                               const struct sp_index_axis *new_axis, const uint32_t *from, struct sp_numbers **ret,
                               struct sp_error *err)
{
    struct sp_index_axis axes[SP_MAX_RANK];
    struct sp_numbers *out;
    for (uint32_t i = 0; i < x->rank; i++)
        axes[i] = i == axis ? *new_axis : x->axes[i];
    enum sp_status status = sp_numbers_create(arena, x->dtype, x->rank, axes, &out, err);
    if (status != SP_OK)
        return status;
    uint64_t inner = 1, outer = 1;
    for (uint32_t i = 0; i < x->rank; i++) {
        outer *= i < axis ? x->axes[i].count : 1;
        inner *= i > axis ? x->axes[i].count : 1;
    }
    for (uint64_t i = 0; i < outer && inner > 0; i++) {
        for (uint32_t j = 0; j < new_axis->count; j++)
            memcpy(&out->items[(i * new_axis->count + j) * inner],
                   &x->items[(i * x->axes[axis].count + from[j]) * inner], inner * sizeof *x->items);
    }
    out->is_known = x->is_known;
    *ret = out;
    return SP_OK;
}

enum sp_status sp_numbers_slice(struct sp_arena *arena, const struct sp_numbers *x, uint32_t axis,
                                struct sp_index_run run, struct sp_numbers **ret, struct sp_error *err)
{
    const int64_t start = run.start, step = run.step, count = run.count;
    const struct sp_index_axis *own = &x->axes[axis];
    const uint32_t room = (int64_t)own->count < count ? own->count : (uint32_t)count;
    uint32_t *from = SP_NEW_ARRAY(arena, room, uint32_t);
    int64_t *at = SP_NEW_ARRAY(arena, room, int64_t);
    struct sp_index_axis axes = {count, 0, at};
    if (from == NULL || at == NULL)
        return sp_fail_memory(err);
    /* in the order of the new axis: from the back where the step is negative */
    for (uint32_t i = 0; i < own->count; i++) {
        const uint32_t item = step > 0 ? i : own->count - 1 - i;
        const int64_t distance = sp_index_at(own, item) - start;
        if (distance % step != 0 || distance / step < 0 || distance / step >= count)
            continue;
        from[axes.count] = item;
        at[axes.count++] = distance / step;
    }
    if (axes.count == count)
        axes.at = NULL;
    return sp_numbers_take(arena, x, axis, &axes, from, ret, err);
}

enum sp_status sp_numbers_concat(struct sp_arena *arena, uint32_t count, const struct sp_numbers *const *parts,
                                 uint32_t axis, struct sp_numbers **ret, struct sp_error *err)
{
    const struct sp_numbers *first = parts[0];
    struct sp_index_axis axes[SP_MAX_RANK];
    uint64_t total = 0, inner = 1, outer = 1;
    int64_t extent = 0;
    struct sp_numbers *out;
    for (uint32_t k = 0; k < count; k++) {
        bool fits = parts[k]->rank == first->rank && axis < first->rank, can_run = fits;
        for (uint32_t i = 0; fits && i < first->rank; i++)
            fits = i == axis || sp_index_equal(&parts[k]->axes[i], &first->axes[i]);
        for (uint32_t i = 0; can_run && i < first->rank; i++)
            can_run = i == axis || parts[k]->axes[i].extent == first->axes[i].extent;
        if (!fits)
            return sp_fail(err, can_run ? SP_ERR_UNSUPPORTED : SP_ERR_MODEL, "PARTS_DIFFER",
                           "its parts have other shapes");
        total += parts[k]->axes[axis].count;
        extent += parts[k]->axes[axis].extent;
    }
    int64_t *at = SP_NEW_ARRAY(arena, total, int64_t);
    if (at == NULL)
        return sp_fail_memory(err);
    for (uint32_t k = 0, n = 0, base = 0; k < count; base += (uint32_t)parts[k++]->axes[axis].extent) {
        for (uint32_t i = 0; i < parts[k]->axes[axis].count; i++)
            at[n++] = base + sp_index_at(&parts[k]->axes[axis], i);
    }
    for (uint32_t i = 0; i < first->rank; i++) {
        axes[i] = i == axis ? (struct sp_index_axis){extent, (uint32_t)total, (int64_t)total == extent ? NULL : at}
                            : first->axes[i];
        outer *= i < axis ? axes[i].count : 1;
        inner *= i > axis ? axes[i].count : 1;
    }
    enum sp_status status = sp_numbers_create(arena, first->dtype, first->rank, axes, &out, err);
    if (status != SP_OK)
        return status;
    out->is_known = true;
    for (uint64_t k = 0, base = 0; k < count; base += parts[k++]->axes[axis].count) {
        const uint64_t run = parts[k]->axes[axis].count * inner;
        for (uint64_t i = 0; i < outer && run > 0; i++)
            memcpy(&out->items[(i * total + base) * inner], &parts[k]->items[i * run], run * sizeof *out->items);
        out->is_known = out->is_known && (parts[k]->is_known || parts[k]->count == 0);
    }
    *ret = out;
    return SP_OK;
}

/* One group of axes in another shape: the indices in row-major order, taken apart by the new extents. */
static enum sp_status regroup(struct sp_arena *arena, uint32_t old_count, const struct sp_index_axis *old,
                              uint32_t count, struct sp_index_axis *axes, struct sp_error *err)
{
    uint64_t items = 1, product = 1;
    bool is_complete = true;
    for (uint32_t i = 0; i < old_count; i++) {
        items *= old[i].count;
        is_complete = is_complete && old[i].count == old[i].extent;
    }
    if (is_complete) {
        for (uint32_t i = 0; i < count; i++)
            axes[i] = sp_index_all(axes[i].extent);
        return SP_OK;
    }
    int64_t **lists = SP_NEW_ARRAY(arena, count, int64_t *);
    for (uint32_t i = 0; lists != NULL && i < count; i++) {
        axes[i].count = 0;
        if ((lists[i] = SP_NEW_ARRAY(arena, items, int64_t)) == NULL)
            lists = NULL;
    }
    if (lists == NULL)
        return sp_fail_memory(err);
    for (uint64_t item = 0; item < items; item++) {
        int64_t flat = 0, stride = 1;
        uint64_t rest = item;
        for (uint32_t i = old_count; i-- > 0;) {
            flat += sp_index_at(&old[i], (uint32_t)(rest % old[i].count)) * stride;
            rest /= old[i].count;
            stride *= old[i].extent;
        }
        for (uint32_t i = count; i-- > 0;) {
            const int64_t digit = flat % axes[i].extent;
            flat /= axes[i].extent;
            axes[i].at = lists[i];
            if (sp_index_find(&axes[i], digit) < 0) {
                uint32_t place = axes[i].count++;
                for (; place > 0 && lists[i][place - 1] > digit; place--)
                    lists[i][place] = lists[i][place - 1];
                lists[i][place] = digit;
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        product *= axes[i].count;
        axes[i].at = axes[i].count == axes[i].extent ? NULL : lists[i];
    }
    return product == items ? SP_OK
                            : sp_fail(err, SP_ERR_UNSUPPORTED, "INDICES_MISSING",
                                      "its shape cannot be changed at the indices that are looked at");
}

enum sp_status sp_numbers_reshape(struct sp_arena *arena, const struct sp_numbers *x, uint32_t rank,
                                  const int64_t *extents, struct sp_numbers **ret, struct sp_error *err)
{
    struct sp_index_axis axes[SP_MAX_RANK];
    uint32_t i = 0, j = 0;
    enum sp_status status = SP_OK;
    while (status == SP_OK && (i < x->rank || j < rank)) {
        const uint32_t i0 = i, j0 = j;
        int64_t old = 1, new = 1;
        do {
            if (j >= rank || (i < x->rank && old <= new))
                old *= x->axes[i++].extent;
            else
                new *= extents[j++];
        } while (old != new && (i < x->rank || j < rank));
        while (old == 0 && (i < x->rank || j < rank)) { /* no elements: one group */
            i = x->rank;
            j = rank;
        }
        for (uint32_t k = j0; k < j; k++)
            axes[k] = sp_index_all(extents[k]);
        if (old != new)
            return sp_fail(err, SP_ERR_MODEL, "SHAPES_DIFFER", "The new shape has another number of elements.");
        status = regroup(arena, i - i0, &x->axes[i0], j - j0, &axes[j0], err);
    }
    return status == SP_OK ? sp_numbers_view(arena, x, rank, axes, ret, err) : status;
}

enum sp_status sp_numbers_transpose(struct sp_arena *arena, const struct sp_numbers *x, const uint32_t *perm,
                                    struct sp_numbers **ret, struct sp_error *err)
{
    struct sp_index_axis axes[SP_MAX_RANK];
    int64_t strides[SP_MAX_RANK];
    struct sp_strides walk = {.rank = x->rank, .tensors = 1};
    struct sp_numbers *out;
    sp_numbers_strides(x, strides);
    for (uint32_t i = 0; i < x->rank; i++) {
        axes[i] = x->axes[perm[i]];
        walk.counts[i] = axes[i].count;
        walk.steps[0][i] = strides[perm[i]];
    }
    enum sp_status status = sp_numbers_create(arena, x->dtype, x->rank, axes, &out, err);
    if (status != SP_OK)
        return status;
    for (uint64_t i = 0; i < out->count; i++, sp_strides_step(&walk))
        out->items[i] = x->items[walk.index[0]];
    out->is_known = x->is_known;
    *ret = out;
    return SP_OK;
}
