/*
 * Merging: one sharding that is at least as fine as both. On one mesh the mesh axes tell: of the two lists of an axis
 * one must begin with the other, and what it has beyond must be free in the other sharding. On two meshes the common
 * one (transform_unify.c) is used, and where there is none the devices themselves are looked at: a tile of the result
 * is the devices that hold it under both.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "sharding/transform_internal.h"

/* ---- on one mesh ---- */

/* Cuts `axes` where anything but tensor axis `dim` of `other` uses its axes. */
static void truncate_by_others(struct sp_axis_list *axes, const struct sp_sharding *other, uint32_t dim)
{
    for (uint32_t i = 0; i < sp_sharding_list_count(other); i++)
        if (i != dim)
            sp_axes_truncate_by_overlap(axes, sp_sharding_list(other, i));
}

/* Whether all refs of the dims can stand on one mesh beside each other. */
static bool is_consistent(const struct sp_sharding *sharding)
{
    uint32_t lists = sp_sharding_list_count(sharding);
    for (uint32_t i = 0; i < lists; i++)
        for (uint32_t j = i; j < lists; j++) {
            const struct sp_axis_list *a = sp_sharding_list(sharding, i), *b = sp_sharding_list(sharding, j);
            for (uint32_t k = 0; k < a->count; k++)
                for (uint32_t l = i == j ? k + 1 : 0; l < b->count; l++)
                    if (!sp_axis_can_coexist_without_overlap(a->refs[k], b->refs[l]))
                        return false;
        }
    return true;
}

/*
 * `whole` allows lists that are equal or of which one is empty only, and nothing is cut: the tiles of two meshes have
 * no major parts to compare.
 */
static enum sp_status merge_on_mesh(struct sp_arena *arena, const struct sp_sharding *a, const struct sp_sharding *b,
                                    bool whole, struct sp_sharding **ret, struct sp_error *err)
{
    *ret = NULL;
    if (!sp_transform_same_list(&a->manual, &b->manual) || !sp_transform_same_list(&a->partial, &b->partial) ||
        (a->partial.count > 0 && a->combiner != b->combiner))
        return SP_OK;
    struct sp_sharding *result;
    enum sp_status status = sp_transform_copy(arena, b, &result, err);
    for (uint32_t i = 0; status == SP_OK && i < b->rank; i++) {
        const struct sp_axis_list *mine = &b->dims[i].axes;
        struct sp_axis_list taken;
        if (sp_axes_is_prefix(&a->dims[i].axes, mine) &&
            (!whole || a->dims[i].axes.count == 0 || sp_transform_same_list(&a->dims[i].axes, mine)))
            continue;
        if (!sp_axes_is_prefix(mine, &a->dims[i].axes) || (whole && mine->count > 0))
            return SP_OK;
        if ((status = sp_axes_copy(arena, &a->dims[i].axes, &taken, err)) != SP_OK)
            break;
        truncate_by_others(&taken, b, i);
        if (sp_axes_size(&taken) <= sp_axes_size(mine) ||
            (whole && sp_axes_size(&taken) != sp_axes_size(&a->dims[i].axes)))
            return SP_OK;
        result->dims[i].axes = taken;
    }
    if (status == SP_OK && is_consistent(result))
        *ret = result;
    return status;
}

/* ---- by devices ---- */

struct placed_device {
    int64_t device, position;
};

static int compare_devices(const void *a, const void *b)
{
    const struct placed_device *x = a, *y = b;
    return x->device < y->device ? -1 : x->device > y->device;
}

/* The devices of an order with their positions, by device. */
static struct placed_device *sort_devices(struct sp_arena *arena, const struct sp_device_order *order)
{
    struct placed_device *placed = SP_NEW_ARRAY(arena, (size_t)order->count, struct placed_device);
    if (!placed)
        return NULL;
    for (int64_t i = 0; i < order->count; i++)
        placed[i] = (struct placed_device){.device = sp_device_order_at(order, i), .position = i};
    qsort(placed, (size_t)order->count, sizeof(*placed), compare_devices);
    return placed;
}

/* The tiles of a and b, and those that both make: `count` dims each, of which the last is the replicas. */
struct tilings {
    uint32_t count;
    int64_t *a, *b, *both;
};

/* Dims that are equal, or of which one is 1; manual and partial ones must be equal. */
static bool merge_dims(struct tilings *tilings, int64_t devices)
{
    int64_t tiles = 1;
    uint32_t data = tilings->count - 3;
    for (uint32_t i = 0; i + 1 < tilings->count; i++) {
        int64_t a = tilings->a[i], b = tilings->b[i];
        if (a != b && (i >= data || (a != 1 && b != 1)))
            return false;
        tilings->both[i] = a > b ? a : b;
        if (!sp_mul_i64(tiles, tilings->both[i], &tiles) || tiles > devices)
            return false;
    }
    tilings->both[tilings->count - 1] = devices / tiles;
    return devices % tiles == 0;
}

/* The tile of both in which a device lies at these positions of a and of b; -1 when a and b put it in different ones.
 */
static int64_t common_tile(const struct tilings *tilings, int64_t in_a, int64_t in_b)
{
    int64_t tile = 0, step = 1;
    in_a /= tilings->a[tilings->count - 1];
    in_b /= tilings->b[tilings->count - 1];
    for (uint32_t i = tilings->count - 1; i > 0; i--) {
        int64_t a = in_a % tilings->a[i - 1], b = in_b % tilings->b[i - 1];
        if (tilings->a[i - 1] == tilings->b[i - 1] && a != b)
            return -1;
        tile += (a > b ? a : b) * step; /* where they differ in size, the one of size 1 has coordinate 0 */
        step *= tilings->both[i - 1];
        in_a /= tilings->a[i - 1];
        in_b /= tilings->b[i - 1];
    }
    return tile;
}

/* The devices by tile, ascending within one; *ret_ids is NULL when some tile has too few or too many. */
static enum sp_status fill_tiles(struct sp_arena *arena, const struct tilings *tilings, const struct placed_device *a,
                                 const struct placed_device *b, int64_t count, int64_t **ret_ids, struct sp_error *err)
{
    int64_t replicas = tilings->both[tilings->count - 1];
    int64_t *ids = SP_NEW_ARRAY(arena, (size_t)count, int64_t);
    int64_t *filled = SP_NEW_ARRAY(arena, (size_t)(count / replicas), int64_t);
    if (!ids || !filled)
        return sp_fail_memory(err);
    *ret_ids = NULL;
    for (int64_t i = 0; i < count; i++) {
        if (a[i].device != b[i].device)
            return SP_OK;
        int64_t tile = common_tile(tilings, a[i].position, b[i].position);
        if (tile < 0 || filled[tile] == replicas)
            return SP_OK;
        ids[tile * replicas + filled[tile]++] = a[i].device;
    }
    *ret_ids = ids;
    return SP_OK;
}

/* The sharding with these tiles on listed devices. */
static enum sp_status from_tiles(struct sp_arena *arena, const struct tilings *tilings, int64_t count,
                                 const int64_t *ids, const struct sp_sharding *like, struct sp_sharding **ret,
                                 struct sp_error *err)
{
    uint32_t axis_count = 0;
    struct sp_mesh_axis *axes = SP_NEW_ARRAY(arena, tilings->count, struct sp_mesh_axis);
    struct sp_axis_ref *refs = SP_NEW_ARRAY(arena, tilings->count, struct sp_axis_ref);
    if (!axes || !refs)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < tilings->count; i++) {
        if (tilings->both[i] == 1)
            continue;
        refs[i] = (struct sp_axis_ref){.axis = axis_count, .pre = 1, .size = tilings->both[i]};
        axes[axis_count].size = tilings->both[i];
        axes[axis_count].name = sp_transform_axis_name(arena, axis_count);
        if (!axes[axis_count++].name)
            return sp_fail_memory(err);
    }
    struct sp_device_order order;
    struct sp_mesh *mesh;
    struct sp_sharding *result;
    enum sp_status status = sp_device_order_list(arena, count, ids, &order, err);
    if (status == SP_OK)
        status = sp_mesh_create(arena, axis_count, axes, &order, &mesh, err);
    if (status == SP_OK)
        status = sp_sharding_create_axes(arena, mesh, like->rank, &result, err);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i + 1 < tilings->count; i++) {
        struct sp_axis_list *list = i < like->rank    ? &result->dims[i].axes
                                    : i == like->rank ? &result->manual
                                                      : &result->partial;
        if (refs[i].size > 1)
            *list = (struct sp_axis_list){.count = 1, .refs = &refs[i]};
    }
    result->combiner = like->combiner;
    *ret = result;
    return SP_OK;
}

static enum sp_status merge_by_devices(struct sp_arena *arena, const struct sp_sharding *a, const struct sp_sharding *b,
                                       struct sp_sharding **ret, struct sp_error *err)
{
    *ret = NULL;
    int64_t count = a->mesh->order.count;
    if (count != b->mesh->order.count || count == 0 || count > SP_MAX_LISTED_DEVICES)
        return SP_OK;
    struct tilings tilings = {.count = a->rank + 3};
    struct sp_device_order order_a, order_b;
    tilings.a = SP_NEW_ARRAY(arena, tilings.count, int64_t);
    tilings.b = SP_NEW_ARRAY(arena, tilings.count, int64_t);
    tilings.both = SP_NEW_ARRAY(arena, tilings.count, int64_t);
    if (!tilings.a || !tilings.b || !tilings.both)
        return sp_fail_memory(err);
    enum sp_status status = sp_sharding_device_array(arena, a, tilings.a, &order_a, err);
    if (status == SP_OK)
        status = sp_sharding_device_array(arena, b, tilings.b, &order_b, err);
    if (status != SP_OK || !merge_dims(&tilings, count))
        return status;
    struct placed_device *placed_a = sort_devices(arena, &order_a), *placed_b = sort_devices(arena, &order_b);
    int64_t *ids = NULL;
    if (!placed_a || !placed_b)
        return sp_fail_memory(err);
    status = fill_tiles(arena, &tilings, placed_a, placed_b, count, &ids, err);
    return status == SP_OK && ids ? from_tiles(arena, &tilings, count, ids, b, ret, err) : status;
}

/* ---- all kinds ---- */

static enum sp_status copy_of(struct sp_arena *arena, const struct sp_sharding *sharding, struct sp_sharding **ret,
                              struct sp_error *err)
{
    bool done = false;
    enum sp_status status = sp_transform_begin(arena, sharding, &done, ret, err);
    return status != SP_OK || done ? status : sp_transform_copy(arena, sharding, ret, err);
}

static bool says_nothing(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_REPLICATED || sharding->kind == SP_SHARDING_UNKNOWN ||
           (sharding->kind == SP_SHARDING_AXES && sp_transform_is_whole(sharding));
}

enum sp_status sp_sharding_merge(struct sp_arena *arena, const struct sp_sharding *a, const struct sp_sharding *b,
                                 struct sp_sharding **ret, struct sp_error *err)
{
    if (says_nothing(a) && b->kind != SP_SHARDING_UNKNOWN)
        return copy_of(arena, b, ret, err);
    if (says_nothing(b))
        return copy_of(arena, a, ret, err);
    if (a->kind != SP_SHARDING_AXES || b->kind != SP_SHARDING_AXES) {
        if (a->kind == b->kind && a->device == b->device && a->combiner == b->combiner)
            return copy_of(arena, b, ret, err); /* refuses blocks and tuples */
        *ret = NULL;
        return SP_OK;
    }
    if (a->rank != b->rank) {
        *ret = NULL;
        return SP_OK;
    }
    if (sp_mesh_equal(a->mesh, b->mesh, false))
        return merge_on_mesh(arena, a, b, false, ret, err);
    struct sp_sharding *on_common_a, *on_common_b;
    enum sp_status status = sp_sharding_unify(arena, a, b, &on_common_a, &on_common_b, err);
    if (status != SP_OK)
        return status;
    return on_common_a ? merge_on_mesh(arena, on_common_a, on_common_b, true, ret, err)
                       : merge_by_devices(arena, a, b, ret, err);
}
