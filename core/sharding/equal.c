#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "sharding/equal_internal.h"
#include "sharding/internal.h"

/* ---- kinds that name no devices ---- */

static bool is_replicated(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_REPLICATED ||
           (sharding->kind == SP_SHARDING_AXES && sp_mesh_is_empty(sharding->mesh));
}

/* Whole on one device, which is not the same as on whatever devices there are. */
static bool is_single(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_SINGLE ||
           (sharding->kind == SP_SHARDING_AXES && sp_mesh_is_single(sharding->mesh));
}

/* Whether every axis of the mesh is in this list, so that the sharding says the same as one of the kinds MANUAL and
   UNREDUCED. */
static bool is_all_of_mesh(const struct sp_sharding *sharding, const struct sp_axis_list *list)
{
    return sharding->kind == SP_SHARDING_AXES && list->count > 0 && sp_axes_size(list) == sharding->mesh->order.count;
}

static bool is_manual(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_MANUAL || is_all_of_mesh(sharding, &sharding->manual);
}

static bool is_unreduced(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_UNREDUCED || is_all_of_mesh(sharding, &sharding->partial);
}

/* Answers for kinds without holdings; false when devices have to be looked at. */
static bool equal_by_kind(const struct sp_sharding *a, const struct sp_sharding *b, bool *ret_equal)
{
    enum sp_sharding_kind left = a->kind, right = b->kind;
    if (left == SP_SHARDING_UNKNOWN || right == SP_SHARDING_UNKNOWN)
        *ret_equal = left == right;
    else if (left == SP_SHARDING_MANUAL || right == SP_SHARDING_MANUAL)
        *ret_equal = is_manual(a) && is_manual(b);
    else if (left == SP_SHARDING_UNREDUCED || right == SP_SHARDING_UNREDUCED)
        *ret_equal = is_unreduced(a) && is_unreduced(b) && a->combiner == b->combiner;
    else if (is_replicated(a) && is_replicated(b))
        *ret_equal = true;
    else if ((is_replicated(a) && is_single(b)) || (is_replicated(b) && is_single(a)))
        *ret_equal = false;
    else
        return false;
    return true;
}

/* ---- a shape in which everything is divisible ---- */

/* What an extent has to be a multiple of, or (is_exact) has to be. Open parts among others get four times what they
   need, so that pieces of one side do not coincide with those of the other only because they are small. */
static bool extent_unit(const struct sp_sharding *sharding, uint32_t axis, bool *ret_exact, int64_t *ret_unit)
{
    struct sp_block_dim dim = {0};
    *ret_exact = false;
    *ret_unit = sharding->kind == SP_SHARDING_AXES ? sp_sharding_shards(sharding, axis) : 1;
    if (sharding->kind == SP_SHARDING_BLOCKS)
        dim = sp_sharding_block(sharding, axis);
    *ret_exact = dim.part_count > 0;
    for (uint32_t i = 0; i < dim.part_count; i++) {
        int64_t factor = dim.parts[i].extent;
        if (factor == 0) {
            *ret_exact = false;
            if (!sp_mul_i64(dim.parts[i].shards, dim.part_count > 1 ? 4 : 1, &factor))
                return false;
        }
        if (!sp_mul_i64(*ret_unit, factor, ret_unit))
            return false;
    }
    return true;
}

/* *ret_exists is false when the two are for tensors of different extents. */
static enum sp_status divisible_shape(const struct sp_sharding *a, const struct sp_sharding *b, uint32_t rank,
                                      int64_t *ret_shape, bool *ret_exists, struct sp_error *err)
{
    for (uint32_t axis = 0; axis < rank; axis++) {
        bool is_a_exact, is_b_exact;
        int64_t left, right, extent;
        bool fits = extent_unit(a, axis, &is_a_exact, &left) && extent_unit(b, axis, &is_b_exact, &right);
        if (fits && (is_a_exact || is_b_exact)) {
            extent = is_a_exact ? left : right;
            if (is_a_exact && is_b_exact && left != right) {
                *ret_exists = false;
                return SP_OK;
            }
        } else if (!fits || !sp_mul_i64(left / sp_gcd(left, right), right, &extent)) {
            return sp_fail(err, SP_ERR_REQUEST, "EXTENT_UNKNOWN",
                           "Axis %" PRIu32
                           " is cut so differently that the two cannot be compared for all extents; give the "
                           "shape.",
                           axis);
        }
        ret_shape[axis] = extent;
    }
    *ret_exists = true;
    return SP_OK;
}

/* ---- device by device ---- */

/* One side of the comparison, visited in ascending order of devices. */
struct side {
    const struct sp_sharding *sharding;
    int64_t count; /* devices it names */
    const int64_t *devices;
    struct sp_holders holders; /* BLOCKS */
    int64_t at;
};

static enum sp_status open_side(struct sp_arena *arena, const struct sp_sharding *sharding, struct side *side,
                                struct sp_error *err)
{
    enum sp_status status = SP_OK;
    *side = (struct side){.sharding = sharding};
    if (is_replicated(sharding))
        return SP_OK;
    status = sp_sharding_devices(arena, sharding, 0, &side->count, &side->devices, err);
    if (status == SP_OK && sharding->kind == SP_SHARDING_BLOCKS)
        status = sp_sharding_holders(arena, sharding, &side->holders, err);
    return status;
}

static enum sp_status held_by(struct sp_arena *arena, struct side *side, uint32_t rank, const int64_t *shape,
                              int64_t device, struct sp_held *ret_held, struct sp_error *err)
{
    if (side->sharding->kind != SP_SHARDING_BLOCKS)
        return sp_sharding_held(arena, side->sharding, rank, shape, device, ret_held, err);
    int64_t begin = side->at;
    while (side->at < side->holders.count && side->holders.items[side->at].device == device)
        side->at++;
    const struct sp_holders own = {side->at - begin, side->holders.items + begin};
    return sp_sharding_held_shards(arena, side->sharding, rank, shape, &own, ret_held, err);
}

static enum sp_status equal_by_device(struct sp_arena *arena, const struct sp_sharding *a, const struct sp_sharding *b,
                                      uint32_t rank, const int64_t *shape, bool *ret_equal, struct sp_error *err)
{
    struct side left = {0}, right = {0};
    struct sp_held left_held = {0}, right_held = {0};
    bool is_equal = true;
    enum sp_status status = open_side(arena, a, &left, err);
    if (status == SP_OK)
        status = open_side(arena, b, &right, err);
    for (int64_t i = 0, j = 0; status == SP_OK && is_equal && (i < left.count || j < right.count);) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        int64_t device = j == right.count || (i < left.count && left.devices[i] < right.devices[j]) ? left.devices[i]
                                                                                                    : right.devices[j];
        i += i < left.count && left.devices[i] == device;
        j += j < right.count && right.devices[j] == device;
        status = held_by(arena, &left, rank, shape, device, &left_held, err);
        if (status == SP_OK)
            status = held_by(arena, &right, rank, shape, device, &right_held, err);
        if (status == SP_OK)
            status = sp_held_equal(&left_held, &right_held, &is_equal, err);
        sp_arena_rewind(arena, mark);
    }
    if (status == SP_OK)
        *ret_equal = is_equal;
    return status;
}

/* ---- partial and manual groups ---- */

/* Per position in ascending order of devices: the least device of its class, where `size` neighbours in the grid are a
   class. */
static enum sp_status label_classes(struct sp_arena *arena, const struct sp_tile_grid *grid, int64_t size,
                                    int64_t **ret_labels, struct sp_error *err)
{
    const struct sp_device_order *order = &grid->order;
    struct sp_device_order list;
    int64_t *ids = SP_NEW_ARRAY(arena, (size_t)order->count, int64_t);
    int64_t *labels = SP_NEW_ARRAY(arena, (size_t)order->count, int64_t);
    int64_t *least = SP_NEW_ARRAY(arena, (size_t)(order->count / size), int64_t);
    if (ids == NULL || labels == NULL || least == NULL) {
        (void)sp_fail_memory(err);
        return SP_ERR_MEMORY; /* in words, for the analyser */
    }
    for (int64_t i = 0; i < order->count; i++) {
        ids[i] = sp_device_order_at(order, i);
        if (i % size == 0 || ids[i] < least[i / size])
            least[i / size] = ids[i];
    }
    enum sp_status status = sp_device_order_list(arena, order->count, ids, &list, err);
    for (int64_t i = 0; status == SP_OK && i < order->count; i++)
        labels[i] = least[list.by_device[i] / size];
    if (status == SP_OK)
        *ret_labels = labels;
    return status;
}

/* Whether the devices fall into the same classes; `last` is the number of trailing groups that make up a class. */
static enum sp_status same_classes(struct sp_arena *arena, uint32_t rank, const struct sp_tile_grid *a,
                                   const struct sp_tile_grid *b, uint32_t last, bool *ret_same, struct sp_error *err)
{
    int64_t size = 1, *left = NULL, *right = NULL;
    for (uint32_t i = 0; i < last; i++)
        size *= a->dims[rank + 2 - i];
    enum sp_status status = label_classes(arena, a, size, &left, err);
    if (status == SP_OK)
        status = label_classes(arena, b, size, &right, err);
    if (status == SP_OK)
        *ret_same = memcmp(left, right, (size_t)a->order.count * sizeof *left) == 0;
    return status;
}

static enum sp_status same_groups(struct sp_arena *arena, uint32_t rank, const struct sp_tile_grid *a,
                                  const struct sp_tile_grid *b, bool *ret_same, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    *ret_same = a->order.count == b->order.count;
    for (uint32_t i = 0; i < 3; i++)
        *ret_same = *ret_same && a->dims[rank + i] == b->dims[rank + i];
    if (*ret_same && a->dims[rank + 1] > 1)
        status = same_classes(arena, rank, a, b, 1, ret_same, err);
    if (status == SP_OK && *ret_same)
        status = same_classes(arena, rank, a, b, 2, ret_same, err);
    return status;
}

static bool has_groups(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_AXES &&
           (sp_axes_size(&sharding->partial) != 1 || sp_axes_size(&sharding->manual) != 1);
}

static bool same_combiner(const struct sp_sharding *a, const struct sp_sharding *b)
{
    return sp_axes_size(&a->partial) == 1 || sp_axes_size(&b->partial) == 1 || a->combiner == b->combiner;
}

/* ---- arrays ---- */

static int64_t device_bound(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_AXES ? sharding->mesh->order.count : 1;
}

/* Answers from the grids alone where they are the same, or too large for anything else. */
static enum sp_status equal_by_grid(struct sp_arena *arena, const struct sp_sharding *a, const struct sp_sharding *b,
                                    bool *ret_done, bool *ret_equal, struct sp_error *err)
{
    struct sp_tile_grid left = {0}, right = {0};
    bool is_same = false;
    enum sp_status status = sp_tile_grid_of(arena, a, &left, err);
    if (status == SP_OK)
        status = sp_tile_grid_of(arena, b, &right, err);
    if (status != SP_OK)
        return status;
    *ret_equal = memcmp(left.dims, right.dims, (a->rank + 3) * sizeof *left.dims) == 0 &&
                 sp_device_order_equal(&left.order, &right.order);
    *ret_done = *ret_equal || left.order.count > SP_MAX_LISTED_DEVICES || right.order.count > SP_MAX_LISTED_DEVICES;
    if (*ret_done || (!has_groups(a) && !has_groups(b)))
        return SP_OK;
    status = same_groups(arena, a->rank, &left, &right, &is_same, err);
    *ret_done = status == SP_OK && !is_same;
    return status;
}

static bool is_whole(const struct sp_sharding *axes)
{
    for (uint32_t i = 0; i < axes->rank; i++)
        if (sp_sharding_shards(axes, i) != 1)
            return false;
    return !has_groups(axes);
}

/* An open placement is compared as if shard s were on device s. */
static enum sp_status place_open(struct sp_arena *arena, struct sp_sharding *blocks, struct sp_error *err)
{
    if (blocks->shard_count > SP_MAX_LISTED_DEVICES)
        return sp_fail_limit(err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                             blocks->shard_count, "A sharding with more than %d shards cannot be compared one by one.",
                             SP_MAX_LISTED_DEVICES);
    uint32_t *first = SP_NEW_ARRAY(arena, (size_t)blocks->shard_count + 1, uint32_t);
    int64_t *devices = SP_NEW_ARRAY(arena, (size_t)blocks->shard_count, int64_t);
    if (first == NULL || devices == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < blocks->shard_count; i++) {
        first[i + 1] = (uint32_t)(i + 1);
        devices[i] = i;
    }
    blocks->first = first;
    blocks->devices = devices;
    return SP_OK;
}

static bool is_open_placement(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_BLOCKS && sharding->first == NULL;
}

static enum sp_status equal_arrays(struct sp_arena *arena, const struct sp_sharding *a, const struct sp_sharding *b,
                                   uint32_t rank, const int64_t *shape, bool *ret_equal, struct sp_error *err)
{
    int64_t own_shape[SP_MAX_RANK];
    struct sp_sharding placed_a, placed_b;
    bool is_done = false, exists = false;
    enum sp_status status = SP_OK;
    *ret_equal = false;
    if (equal_by_kind(a, b, ret_equal))
        return SP_OK;
    if (is_open_placement(a) != is_open_placement(b))
        return SP_OK;
    if (is_open_placement(a)) {
        placed_a = *a;
        placed_b = *b;
        status = place_open(arena, &placed_a, err);
        if (status == SP_OK)
            status = place_open(arena, &placed_b, err);
        if (status != SP_OK)
            return status;
        a = &placed_a;
        b = &placed_b;
    }
    if (has_groups(a) != has_groups(b) || (has_groups(a) && !same_combiner(a, b)))
        return SP_OK;
    if (a->kind == SP_SHARDING_AXES && b->kind == SP_SHARDING_AXES && !is_replicated(a) && !is_replicated(b)) {
        status = equal_by_grid(arena, a, b, &is_done, ret_equal, err);
        if (status != SP_OK || is_done)
            return status;
    } else if (device_bound(a) > SP_MAX_LISTED_DEVICES || device_bound(b) > SP_MAX_LISTED_DEVICES) {
        const struct sp_sharding *axes = device_bound(a) > 1 ? a : b, *other = device_bound(a) > 1 ? b : a;
        *ret_equal = is_replicated(other) && is_whole(axes);
        return SP_OK;
    }
    if (shape == NULL) {
        status = divisible_shape(a, b, rank, own_shape, &exists, err);
        if (status != SP_OK || !exists)
            return status;
        shape = own_shape;
    }
    return equal_by_device(arena, a, b, rank, shape, ret_equal, err);
}

/* ---- any kind ---- */

static bool has_rank(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_AXES || sharding->kind == SP_SHARDING_BLOCKS;
}

static enum sp_status equal_tuples(struct sp_arena *arena, const struct sp_sharding *a, const struct sp_sharding *b,
                                   bool *ret_equal, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    bool is_equal = a->element_count == b->element_count;
    for (uint32_t i = 0; i < a->element_count && is_equal && status == SP_OK; i++) {
        const struct sp_sharding *left = &a->elements[i], *right = &b->elements[i];
        uint32_t rank = has_rank(left) ? left->rank : has_rank(right) ? right->rank : 0;
        if (has_rank(left) && has_rank(right) && left->rank != right->rank)
            is_equal = false;
        else
            status = equal_arrays(arena, left, right, rank, NULL, &is_equal, err);
    }
    if (status == SP_OK)
        *ret_equal = is_equal;
    return status;
}

enum sp_status sp_sharding_equal(struct sp_arena *arena, const struct sp_sharding *a, const struct sp_sharding *b,
                                 uint32_t rank, const int64_t *shape, bool *ret_equal, struct sp_error *err)
{
    bool is_equal = false;
    enum sp_status status = SP_OK;
    struct sp_arena_mark mark = sp_arena_mark(arena);
    if (a->kind == SP_SHARDING_TUPLE && b->kind == SP_SHARDING_TUPLE) {
        status = equal_tuples(arena, a, b, &is_equal, err);
    } else if (a->kind != SP_SHARDING_TUPLE && b->kind != SP_SHARDING_TUPLE) {
        status = sp_sharding_check_rank(a, rank, err);
        if (status == SP_OK)
            status = sp_sharding_check_rank(b, rank, err);
        if (status == SP_OK)
            status = equal_arrays(arena, a, b, rank, shape, &is_equal, err);
    }
    sp_arena_rewind(arena, mark);
    if (status == SP_OK)
        *ret_equal = is_equal;
    return status;
}
