#include "sharding/axis.h"

#include <inttypes.h>
#include <string.h>

#include "base/arith.h"

struct sp_axis_ref sp_axis_full(const struct sp_mesh *mesh, uint32_t axis)
{
    return (struct sp_axis_ref){.axis = axis, .pre = 1, .size = mesh->axes[axis].size};
}

bool sp_axis_is_full(const struct sp_mesh *mesh, struct sp_axis_ref ref)
{
    return ref.pre == 1 && ref.size == mesh->axes[ref.axis].size;
}

enum sp_status sp_axis_check(const struct sp_mesh *mesh, struct sp_axis_ref ref, struct sp_error *err)
{
    if (ref.axis >= mesh->axis_count)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_AXIS",
                       "Axis %" PRIu32 " is named, but the mesh has only %" PRIu32 " axes.", ref.axis,
                       mesh->axis_count);
    const struct sp_mesh_axis *axis = &mesh->axes[ref.axis];
    if (sp_axis_is_full(mesh, ref))
        return SP_OK;
    if (ref.pre < 1)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_SUB_AXIS",
                       "sub-axis pre-size must be at least 1: \"%s\":(%" PRId64 ")%" PRId64 ".", axis->name, ref.pre,
                       ref.size);
    if (ref.size <= 1)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_SUB_AXIS",
                       "sub-axis sizes must be greater than 1: \"%s\":(%" PRId64 ")%" PRId64 ".", axis->name, ref.pre,
                       ref.size);
    int64_t next;
    if (!sp_mul_i64(ref.pre, ref.size, &next) || axis->size % next != 0)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_SUB_AXIS",
                       "sub-axis next pre-size %" PRId64 " * %" PRId64 " doesn't divide the size of the full axis "
                       "%" PRId64 ": \"%s\":(%" PRId64 ")%" PRId64 ".",
                       ref.pre, ref.size, axis->size, axis->name, ref.pre, ref.size);
    return SP_OK;
}

bool sp_axis_equal(struct sp_axis_ref a, struct sp_axis_ref b)
{
    return a.axis == b.axis && a.pre == b.pre && a.size == b.size;
}

bool sp_axis_overlaps(struct sp_axis_ref a, struct sp_axis_ref b)
{
    /* An axis of size 1 is an empty interval, but still the same axis as itself. */
    return sp_axis_equal(a, b) || (a.axis == b.axis && a.pre < b.pre * b.size && b.pre < a.pre * a.size);
}

bool sp_axis_can_coexist(struct sp_axis_ref a, struct sp_axis_ref b)
{
    if (a.axis != b.axis)
        return true;
    int64_t a_next = a.pre * a.size, b_next = b.pre * b.size;
    int64_t low = a.pre < b.pre ? a.pre : b.pre, high = a.pre < b.pre ? b.pre : a.pre;
    int64_t low_next = a_next < b_next ? a_next : b_next, high_next = a_next < b_next ? b_next : a_next;
    if (high >= low_next) /* apart: what lies between them is a whole number of pieces */
        return high % low_next == 0;
    return high % low == 0 && low_next % high == 0 && high_next % low_next == 0;
}

bool sp_axis_can_coexist_without_overlap(struct sp_axis_ref a, struct sp_axis_ref b)
{
    return sp_axis_can_coexist(a, b) && !sp_axis_overlaps(a, b);
}

bool sp_axis_less(struct sp_axis_ref a, struct sp_axis_ref b)
{
    if (a.axis != b.axis)
        return a.axis < b.axis;
    return a.pre != b.pre ? a.pre < b.pre : a.size < b.size;
}

bool sp_axis_can_merge(struct sp_axis_ref a, struct sp_axis_ref b)
{
    return a.axis == b.axis && b.pre == a.pre * a.size && !sp_axis_equal(a, b);
}

struct sp_axis_ref sp_axis_merge(struct sp_axis_ref a, struct sp_axis_ref b)
{
    return (struct sp_axis_ref){.axis = a.axis, .pre = a.pre, .size = a.size * b.size};
}

bool sp_axis_prefix_without_overlap(struct sp_axis_ref a, struct sp_axis_ref b, struct sp_axis_ref *ret_ref)
{
    if (!sp_axis_overlaps(a, b)) {
        *ret_ref = a;
        return true;
    }
    if (b.pre <= a.pre || b.pre % a.pre != 0)
        return false;
    *ret_ref = (struct sp_axis_ref){.axis = a.axis, .pre = a.pre, .size = b.pre / a.pre};
    return true;
}

/* ---- lists ---- */

int64_t sp_axes_size(const struct sp_axis_list *list)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < list->count; i++)
        if (!sp_mul_i64(product, list->refs[i].size, &product))
            return -1;
    return product;
}

void sp_axes_merge(struct sp_axis_list *list)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        if (kept > 0 && sp_axis_can_merge(list->refs[kept - 1], list->refs[i]))
            list->refs[kept - 1] = sp_axis_merge(list->refs[kept - 1], list->refs[i]);
        else
            list->refs[kept++] = list->refs[i];
    }
    list->count = kept;
}

void sp_axes_sort_and_merge(struct sp_axis_list *list)
{
    for (uint32_t i = 1; i < list->count; i++) {
        struct sp_axis_ref ref = list->refs[i];
        uint32_t at = i;
        for (; at > 0 && sp_axis_less(ref, list->refs[at - 1]); at--)
            list->refs[at] = list->refs[at - 1];
        list->refs[at] = ref;
    }
    sp_axes_merge(list);
}

void sp_axes_truncate_by_overlap(struct sp_axis_list *list, const struct sp_axis_list *other)
{
    for (uint32_t i = 0; i < list->count; i++) {
        struct sp_axis_ref left = list->refs[i];
        bool is_left = true;
        for (uint32_t j = 0; j < other->count && is_left; j++)
            is_left = sp_axis_prefix_without_overlap(left, other->refs[j], &left);
        if (is_left && sp_axis_equal(left, list->refs[i]))
            continue;
        list->count = i;
        if (is_left)
            list->refs[list->count++] = left;
        return;
    }
}

/* False without memory. */
static bool new_list(struct sp_arena *arena, uint32_t capacity, struct sp_axis_list *ret_list)
{
    *ret_list = (struct sp_axis_list){.refs = SP_NEW_ARRAY(arena, capacity, struct sp_axis_ref)};
    return ret_list->refs != NULL;
}

static void push_list(struct sp_axis_list *list, const struct sp_axis_ref *refs, uint32_t count)
{
    if (count > 0)
        memcpy(list->refs + list->count, refs, count * sizeof *refs);
    list->count += count;
}

enum sp_status sp_axes_copy(struct sp_arena *arena, const struct sp_axis_list *list, struct sp_axis_list *ret_list,
                            struct sp_error *err)
{
    struct sp_axis_list copy;
    if (!new_list(arena, list->count, &copy))
        return sp_fail_memory(err);
    push_list(&copy, list->refs, list->count);
    *ret_list = copy;
    return SP_OK;
}

enum sp_status sp_axes_append(struct sp_arena *arena, const struct sp_axis_list *a, const struct sp_axis_list *b,
                              struct sp_axis_list *ret_list, struct sp_error *err)
{
    struct sp_axis_list joined;
    if (!new_list(arena, a->count + b->count, &joined))
        return sp_fail_memory(err);
    push_list(&joined, a->refs, a->count);
    push_list(&joined, b->refs, b->count);
    sp_axes_merge(&joined);
    *ret_list = joined;
    return SP_OK;
}

enum sp_status sp_axes_slice(struct sp_arena *arena, const struct sp_axis_list *list, int64_t size, bool *ret_ok,
                             struct sp_axis_list *ret_major, struct sp_axis_list *ret_rest, struct sp_error *err)
{
    uint32_t taken = 0;
    int64_t left = size;
    while (left > 1 && taken < list->count && left % list->refs[taken].size == 0)
        left /= list->refs[taken++].size;
    bool is_split = left > 1 && taken < list->count && list->refs[taken].size % left == 0;
    if (size < 1 || (left > 1 && !is_split)) {
        *ret_ok = false;
        return SP_OK;
    }
    struct sp_axis_list major, rest;
    if (!new_list(arena, taken + 1, &major) || !new_list(arena, list->count - taken, &rest))
        return sp_fail_memory(err);
    push_list(&major, list->refs, taken);
    push_list(&rest, list->refs + taken, list->count - taken);
    if (is_split) {
        struct sp_axis_ref cut = rest.refs[0];
        push_list(&major, &(struct sp_axis_ref){.axis = cut.axis, .pre = cut.pre, .size = left}, 1);
        rest.refs[0].pre = cut.pre * left;
        rest.refs[0].size = cut.size / left;
    }
    *ret_ok = true;
    *ret_major = major;
    *ret_rest = rest;
    return SP_OK;
}

bool sp_axes_is_prefix(const struct sp_axis_list *a, const struct sp_axis_list *b)
{
    if (a->count > b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        struct sp_axis_ref mine = a->refs[i], theirs = b->refs[i];
        if (sp_axis_equal(mine, theirs))
            continue;
        return i + 1 == a->count && mine.axis == theirs.axis && mine.pre == theirs.pre && theirs.size % mine.size == 0;
    }
    return true;
}
