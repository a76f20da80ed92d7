/*
 * One mesh for two shardings. Positions of a mesh are numbers whose digits are its axes. Two meshes over the same
 * devices can share one mesh when the way from a position in the first to the position of the same device in the second
 * only moves digits about. The digits are found (for two iotas by arithmetic, otherwise by following the devices), cut
 * where a ref of either sharding begins or ends, and become the axes of the common mesh.
 */
#include <string.h>

#include "sharding/transform_internal.h"

#define MAX_DIGITS 64 /* each is at least 2, and all together are below 2^63 */

/* A digit: its size and what one step of it is in the positions of a and of b. */
struct digit {
    int64_t size, in_a, in_b;
};

struct digits {
    uint32_t count;
    struct digit items[MAX_DIGITS]; /* ascending by in_a */
};

static void insert_digit(struct digits *digits, uint32_t at, struct digit digit)
{
    memmove(digits->items + at + 1, digits->items + at, (digits->count - at) * sizeof(struct digit));
    digits->items[at] = digit;
    digits->count++;
}

/* Cuts the digit that holds `border` (a step in the positions of a, or of b) in its inside; false when it cannot be. */
static bool cut_digit(struct digits *digits, int64_t border, bool is_in_b)
{
    for (uint32_t i = 0; i < digits->count; i++) {
        struct digit whole = digits->items[i];
        int64_t step = is_in_b ? whole.in_b : whole.in_a;
        if (border <= step || border / step >= whole.size)
            continue;
        int64_t minor = border / step;
        if (border % step != 0 || whole.size % minor != 0 || digits->count == MAX_DIGITS)
            return false;
        digits->items[i].size = minor;
        insert_digit(
            digits, i + 1,
            (struct digit){.size = whole.size / minor, .in_a = whole.in_a * minor, .in_b = whole.in_b * minor});
        return true;
    }
    return true;
}

/* ---- two iotas ---- */

/* The step in positions that a step of `device_step` in device numbers makes: both within one dim of the iota. */
static int64_t position_step(const struct sp_device_order *order, int64_t device_step)
{
    int64_t source = order->count, dim_stride = 1, position = 1;
    uint32_t dim = 0;
    for (; dim < order->rank; dim++) {
        source /= order->dims[dim];
        dim_stride = source;
        if (source <= device_step)
            break;
    }
    for (uint32_t i = order->rank; i > 0 && order->perm[i - 1] != dim; i--)
        position *= order->dims[order->perm[i - 1]];
    return position * (device_step / dim_stride);
}

static bool digits_of_iotas(const struct sp_device_order *a, const struct sp_device_order *b, struct digits *ret)
{
    struct digits digits = {.count = 1, .items = {{.size = a->count, .in_a = 1, .in_b = 1}}};
    const struct sp_device_order *orders[] = {a, b};
    for (int o = 0; o < 2; o++) { /* cut the device numbers; both steps are in device numbers here */
        int64_t stride = 1;
        for (uint32_t i = orders[o]->rank; i > 0; i--) {
            if (!cut_digit(&digits, stride, false))
                return false;
            stride *= orders[o]->dims[i - 1];
        }
    }
    *ret = (struct digits){0};
    for (uint32_t i = 0; i < digits.count; i++) {
        struct digit digit = {.size = digits.items[i].size,
                              .in_a = position_step(a, digits.items[i].in_a),
                              .in_b = position_step(b, digits.items[i].in_a)};
        uint32_t at = 0;
        while (at < ret->count && ret->items[at].in_a < digit.in_a)
            at++;
        insert_digit(ret, at, digit);
    }
    return true;
}

/* ---- lists ---- */

/* Whether the digits say of every position of a where its device stands in b. */
static bool digits_hold(const struct digits *digits, const struct sp_device_order *a, const struct sp_device_order *b)
{
    for (int64_t position = 0; position < a->count; position++) {
        int64_t left = position, there = 0;
        for (uint32_t i = 0; i < digits->count; i++) {
            there += left % digits->items[i].size * digits->items[i].in_b;
            left /= digits->items[i].size;
        }
        if (there >= b->count || sp_device_order_at(b, there) != sp_device_order_at(a, position))
            return false;
    }
    return true;
}

/* How many steps of `step` in a are even steps in b: the size of the digit that begins there. */
static int64_t run_length(const struct sp_device_order *a, const struct sp_device_order *b, int64_t step, int64_t left,
                          int64_t *ret_step)
{
    int64_t there = sp_device_order_find(b, sp_device_order_at(a, step)), length = 2;
    while (there > 0 && length < left && length * there < b->count &&
           sp_device_order_at(b, length * there) == sp_device_order_at(a, length * step))
        length++;
    *ret_step = there;
    return length;
}

static bool digits_of_lists(const struct sp_device_order *a, const struct sp_device_order *b, struct digits *ret)
{
    *ret = (struct digits){0};
    if (a->count != b->count || sp_device_order_at(a, 0) != sp_device_order_at(b, 0))
        return false; /* the device of all zero digits is the same */
    for (int64_t step = 1; step < a->count;) {
        int64_t left = a->count / step, there;
        int64_t size = run_length(a, b, step, left, &there);
        if (there <= 0 || left % size != 0 || ret->count == MAX_DIGITS)
            return false;
        ret->items[ret->count++] = (struct digit){.size = size, .in_a = step, .in_b = there};
        step *= size;
    }
    return digits_hold(ret, a, b);
}

/* ---- cutting and rewriting ---- */

static bool cut_at_refs(struct digits *digits, const struct sp_sharding *sharding, bool is_in_b)
{
    for (uint32_t i = 0; i < sp_sharding_list_count(sharding); i++) {
        const struct sp_axis_list *list = sp_sharding_list(sharding, i);
        for (uint32_t j = 0; j < list->count; j++) {
            int64_t low = sp_transform_stride(sharding->mesh, list->refs[j]);
            if (!cut_digit(digits, low, is_in_b) || !cut_digit(digits, low * list->refs[j].size, is_in_b))
                return false;
        }
    }
    return true;
}

/* The refs of a list as whole axes of the common mesh, whose axis k is digit count - 1 - k. */
static enum sp_status rewrite_list(struct sp_arena *arena, const struct digits *digits, bool is_in_b,
                                   const struct sp_mesh *old, const struct sp_axis_list *list,
                                   struct sp_axis_list *ret_list, struct sp_error *err)
{
    struct sp_axis_ref *refs = SP_NEW_ARRAY(arena, (size_t)digits->count + 1, struct sp_axis_ref);
    if (!refs)
        return sp_fail_memory(err);
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        int64_t low = sp_transform_stride(old, list->refs[i]), high = low * list->refs[i].size;
        uint32_t begin = count;
        for (uint32_t d = 0; d < digits->count; d++) {
            int64_t step = is_in_b ? digits->items[d].in_b : digits->items[d].in_a;
            if (step < low || step >= high)
                continue;
            uint32_t at = count++;
            for (; at > begin; at--) { /* major first: by descending step */
                const struct digit *before = &digits->items[digits->count - 1 - refs[at - 1].axis];
                if ((is_in_b ? before->in_b : before->in_a) > step)
                    break;
                refs[at] = refs[at - 1];
            }
            refs[at] = (struct sp_axis_ref){.axis = digits->count - 1 - d, .pre = 1, .size = digits->items[d].size};
        }
    }
    *ret_list = (struct sp_axis_list){.count = count, .refs = refs};
    return SP_OK;
}

static enum sp_status rewrite(struct sp_arena *arena, const struct digits *digits, bool is_in_b,
                              const struct sp_mesh *mesh, const struct sp_sharding *source, struct sp_sharding **ret,
                              struct sp_error *err)
{
    struct sp_sharding *result;
    enum sp_status status = sp_sharding_create_axes(arena, mesh, source->rank, &result, err);
    for (uint32_t i = 0; status == SP_OK && i < source->rank; i++) {
        result->dims[i] = source->dims[i];
        status = rewrite_list(arena, digits, is_in_b, source->mesh, &source->dims[i].axes, &result->dims[i].axes, err);
    }
    const struct sp_axis_list *from[] = {&source->replicated, &source->partial, &source->manual};
    for (int i = 0; status == SP_OK && i < 3; i++) {
        struct sp_axis_list *to[] = {&result->replicated, &result->partial, &result->manual};
        status = rewrite_list(arena, digits, is_in_b, source->mesh, from[i], to[i], err);
        if (status == SP_OK)
            sp_axes_sort_and_merge(to[i]);
    }
    if (status != SP_OK)
        return status;
    result->combiner = source->combiner;
    *ret = result;
    return SP_OK;
}

/* The mesh of the digits in a's positions; a's own when it is that already. */
static enum sp_status digit_mesh(struct sp_arena *arena, const struct digits *digits, const struct sp_mesh *mesh,
                                 const struct sp_mesh **ret_mesh, struct sp_error *err)
{
    bool is_same = mesh->axis_count == digits->count;
    for (uint32_t i = 0; is_same && i < digits->count; i++)
        is_same = mesh->axes[i].size == digits->items[digits->count - 1 - i].size;
    if (is_same) {
        *ret_mesh = mesh;
        return SP_OK;
    }
    struct sp_mesh_axis axes[MAX_DIGITS];
    for (uint32_t i = 0; i < digits->count; i++) {
        axes[i] = (struct sp_mesh_axis){.name = sp_transform_axis_name(arena, i),
                                        .size = digits->items[digits->count - 1 - i].size};
        if (!axes[i].name)
            return sp_fail_memory(err);
    }
    struct sp_mesh *created;
    enum sp_status status = sp_mesh_create(arena, digits->count, axes, &mesh->order, &created, err);
    if (status == SP_OK)
        *ret_mesh = created;
    return status;
}

enum sp_status sp_sharding_unify(struct sp_arena *arena, const struct sp_sharding *a, const struct sp_sharding *b,
                                 struct sp_sharding **ret_a, struct sp_sharding **ret_b, struct sp_error *err)
{
    if (a->kind != SP_SHARDING_AXES || b->kind != SP_SHARDING_AXES)
        return sp_fail(err, SP_ERR_REQUEST, "NOT_AXES",
                       "Only shardings over mesh axes have a common mesh; bring both to mesh axes first.");
    struct sp_sharding *copy_a, *copy_b;
    enum sp_status status;
    if (sp_mesh_equal(a->mesh, b->mesh, false)) {
        if ((status = sp_transform_copy(arena, a, &copy_a, err)) != SP_OK ||
            (status = sp_transform_copy(arena, b, &copy_b, err)) != SP_OK)
            return status;
        copy_b->mesh = a->mesh;
        *ret_a = copy_a;
        *ret_b = copy_b;
        return SP_OK;
    }
    const struct sp_device_order *order_a = &a->mesh->order, *order_b = &b->mesh->order;
    struct digits digits;
    bool found = order_a->count == order_b->count && order_a->count > 1;
    if (found)
        found = order_a->ids || order_b->ids ? digits_of_lists(order_a, order_b, &digits)
                                             : digits_of_iotas(order_a, order_b, &digits);
    if (!found || !cut_at_refs(&digits, a, false) || !cut_at_refs(&digits, b, true)) {
        *ret_a = *ret_b = NULL;
        return SP_OK;
    }
    const struct sp_mesh *mesh = NULL;
    if ((status = digit_mesh(arena, &digits, a->mesh, &mesh, err)) != SP_OK ||
        (status = rewrite(arena, &digits, false, mesh, a, &copy_a, err)) != SP_OK ||
        (status = rewrite(arena, &digits, true, mesh, b, &copy_b, err)) != SP_OK)
        return status;
    *ret_a = copy_a;
    *ret_b = copy_b;
    return SP_OK;
}
