/*
 * stated_mesh - stated shardings as cuts of positions, and the mesh that has all of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/sorted.h"
#include "infer/propagate/internal.h"

/* ---- positions -------------------------------------------------------------------------------------------------- */

struct placing {
    int64_t count;
    int64_t *devices; /* by position */
    int64_t *index;   /* place in the sharding's own mesh, by position; NULL: the position itself */
};

SP_ASCENDING_NUMBERS(by_number, int64_t)

static int64_t find(const int64_t *sorted, int64_t count, int64_t device)
{
    int64_t at;
    SP_LOWER_BOUND(at, count, sorted[at] < device);
    return at;
}

static enum sp_status place(struct sp_arena *arena, const struct sp_mesh *mesh, const struct sp_mesh *base,
                            struct placing *ret_placing, struct sp_error *err)
{
    const struct sp_device_order *order = &mesh->order;
    struct placing placing = {.count = order->count};
    if (order->count > SP_MAX_DEVICES)
        return sp_fail_limit(err, "TOO_MANY_DEVICES", "SP_MAX_DEVICES", SP_MAX_DEVICES, order->count,
                             "A spec has %" PRId64 " devices; at most %d can be looked at.", order->count,
                             SP_MAX_DEVICES);
    placing.devices = SP_NEW_ARRAY(arena, (size_t)order->count, int64_t);
    if (placing.devices == NULL)
        return sp_fail_memory(err);
    bool is_base = base != NULL && sp_device_order_same_devices(order, &base->order);
    if (sp_device_order_is_range(order) && (!is_base || sp_device_order_is_range(&base->order))) {
        for (int64_t i = 0; i < order->count; i++)
            placing.devices[i] = i;
        *ret_placing = placing;
        return SP_OK;
    }
    placing.index = SP_NEW_ARRAY(arena, (size_t)order->count, int64_t);
    if (placing.index == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < order->count; i++)
        placing.devices[i] = sp_device_order_at(is_base ? &base->order : order, i);
    if (!is_base)
        qsort(placing.devices, (size_t)order->count, sizeof(int64_t), by_number);
    for (int64_t i = 0; i < order->count; i++) {
        int64_t device = sp_device_order_at(order, i);
        int64_t position =
            is_base ? sp_device_order_find(&base->order, device) : find(placing.devices, order->count, device);
        placing.index[position] = i;
    }
    *ret_placing = placing;
    return SP_OK;
}

/* ---- digits ----------------------------------------------------------------------------------------------------- */

static int64_t smallest_prime(int64_t number)
{
    for (int64_t p = 2; p * p <= number; p++) {
        if (number % p == 0)
            return p;
    }
    return number;
}

/* The stride in positions of the digit (index / step) % size; 0 when it is none. */
static int64_t digit_stride(const struct placing *placing, int64_t step, int64_t size)
{
    int64_t stride = 0;
    if (placing->index == NULL)
        return step;
    for (int64_t q = 0; q < placing->count; q++) {
        int64_t value = placing->index[q] / step % size;
        if (stride == 0 && value != 0)
            stride = q;
        if (value != (stride == 0 ? 0 : q / stride % size))
            return 0;
    }
    return stride;
}

static void push_digit(struct sp_digits *digits, int64_t stride, int64_t size)
{
    if (digits->count > 0 && digits->digits[digits->count - 1].stride == stride * size) {
        digits->digits[digits->count - 1].stride = stride;
        digits->digits[digits->count - 1].size *= size;
        return;
    }
    digits->digits[digits->count++] = (struct sp_mesh_digit){stride, size};
}

static int64_t step_of(const struct sp_mesh *mesh, struct sp_axis_ref ref)
{
    int64_t step = mesh->axes[ref.axis].size / (ref.pre * ref.size);
    for (uint32_t axis = ref.axis + 1; axis < mesh->axis_count; axis++)
        step *= mesh->axes[axis].size;
    return step;
}

enum sp_status sp_layout_create(struct sp_arena *arena, const struct sp_sharding *axes, const struct sp_mesh *base,
                                struct sp_position_layout *ret_layout, bool *ret_ok, struct sp_error *err)
{
    struct placing placing = {0};
    struct sp_position_layout layout = {.rank = axes->rank};
    enum sp_status status = place(arena, axes->mesh, base, &placing, err);
    if (status != SP_OK)
        return status;
    layout.count = placing.count;
    layout.devices = placing.devices;
    layout.dims = SP_NEW_ARRAY(arena, axes->rank, struct sp_digits);
    if (layout.dims == NULL)
        return sp_fail_memory(err);
    *ret_ok = false;
    for (uint32_t axis = 0; axis < axes->rank; axis++) {
        const struct sp_axis_list *list = &axes->dims[axis].axes;
        layout.dims[axis].digits = SP_NEW_ARRAY(arena, (size_t)list->count * 64, struct sp_mesh_digit);
        if (layout.dims[axis].digits == NULL)
            return sp_fail_memory(err);
        for (uint32_t i = 0; i < list->count; i++) {
            int64_t step = step_of(axes->mesh, list->refs[i]);
            for (int64_t rest = list->refs[i].size; rest > 1;) {
                int64_t size = smallest_prime(rest);
                rest /= size;
                int64_t stride = digit_stride(&placing, step * rest, size);
                if (stride == 0)
                    return SP_OK;
                push_digit(&layout.dims[axis], stride, size);
            }
        }
    }
    *ret_layout = layout;
    *ret_ok = true;
    return SP_OK;
}

/* ---- the mesh of all cuts --------------------------------------------------------------------------------------- */

static bool add_cut(struct sp_cuts *cuts, int64_t cut, uint32_t owner, uint32_t *ret_opponent)
{
    uint32_t at = cuts->count;
    for (uint32_t i = 0; i < cuts->count; i++) {
        if (cuts->cuts[i] == cut)
            return true;
        bool is_above = cuts->cuts[i] > cut;
        if (is_above ? cuts->cuts[i] % cut != 0 : cut % cuts->cuts[i] != 0) {
            *ret_opponent = cuts->owners[i];
            return false;
        }
        if (is_above && i < at)
            at = i;
    }
    /* Each cut divides the next one, so there are fewer than 64. */
    memmove(&cuts->cuts[at + 1], &cuts->cuts[at], (cuts->count - at) * sizeof(int64_t));
    memmove(&cuts->owners[at + 1], &cuts->owners[at], (cuts->count - at) * sizeof(uint32_t));
    cuts->cuts[at] = cut;
    cuts->owners[at] = owner;
    cuts->count++;
    return true;
}

bool sp_cuts_add(struct sp_cuts *cuts, const struct sp_position_layout *layout, uint32_t owner, uint32_t *ret_opponent)
{
    *ret_opponent = owner;
    if (cuts->count == 0) {
        cuts->positions = layout->count;
        cuts->cuts[cuts->count] = 1;
        cuts->owners[cuts->count++] = owner;
        if (layout->count > 1) {
            cuts->cuts[cuts->count] = layout->count;
            cuts->owners[cuts->count++] = owner;
        }
    }
    for (uint32_t axis = 0; axis < layout->rank; axis++) {
        for (uint32_t i = 0; i < layout->dims[axis].count; i++) {
            struct sp_mesh_digit digit = layout->dims[axis].digits[i];
            if (!add_cut(cuts, digit.stride, owner, ret_opponent) ||
                !add_cut(cuts, digit.stride * digit.size, owner, ret_opponent))
                return false;
        }
    }
    return true;
}

enum sp_status sp_cuts_mesh(struct sp_arena *arena, const struct sp_cuts *cuts, struct sp_mesh **ret_mesh,
                            struct sp_error *err)
{
    struct sp_mesh_axis axes[SP_LAYOUT_MAX_CUTS];
    char names[SP_LAYOUT_MAX_CUTS][16];
    uint32_t count = 0;
    for (uint32_t i = cuts->count; i-- > 1;) {
        (void)snprintf(names[count], sizeof names[count], "axis_%" PRIu32, count);
        axes[count] = (struct sp_mesh_axis){names[count], cuts->cuts[i] / cuts->cuts[i - 1]};
        count++;
    }
    if (count == 0) /* one device */
        axes[count++] = (struct sp_mesh_axis){"axis_0", 1};
    return sp_mesh_create(arena, count, axes, NULL, ret_mesh, err);
}

/* Appends the parts of the mesh's axes that are one digit. */
static bool append_refs(const struct sp_mesh *mesh, struct sp_mesh_digit digit, struct sp_axis_list *list)
{
    int64_t high = 1, from = digit.stride, to = digit.stride * digit.size;
    for (uint32_t axis = 0; axis < mesh->axis_count; axis++)
        high *= mesh->axes[axis].size;
    for (uint32_t axis = 0; axis < mesh->axis_count; axis++) {
        int64_t low = high / mesh->axes[axis].size;
        int64_t a = from > low ? from : low, b = to < high ? to : high;
        if (a < b) {
            if (a % low != 0 || b % a != 0 || high % b != 0)
                return false;
            list->refs[list->count++] = (struct sp_axis_ref){.axis = axis, .pre = high / b, .size = b / a};
        }
        high = low;
    }
    return true;
}

enum sp_status sp_layout_to_axes(struct sp_arena *arena, const struct sp_position_layout *layout,
                                 const struct sp_mesh *mesh, struct sp_sharding **ret_sharding, bool *ret_ok,
                                 struct sp_error *err)
{
    struct sp_sharding *sharding = NULL;
    enum sp_status status = sp_sharding_create_axes(arena, mesh, layout->rank, &sharding, err);
    *ret_ok = false;
    for (uint32_t axis = 0; status == SP_OK && axis < layout->rank; axis++) {
        struct sp_axis_list *list = &sharding->dims[axis].axes;
        uint32_t count = layout->dims[axis].count;
        list->refs = SP_NEW_ARRAY(arena, (size_t)count * mesh->axis_count, struct sp_axis_ref);
        if (list->refs == NULL)
            return sp_fail_memory(err);
        for (uint32_t i = 0; i < count; i++) {
            if (!append_refs(mesh, layout->dims[axis].digits[i], list))
                return SP_OK;
        }
        sp_axes_merge(list);
    }
    if (status == SP_OK) {
        *ret_sharding = sharding;
        *ret_ok = true;
    }
    return status;
}
