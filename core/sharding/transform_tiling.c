#include <inttypes.h>
#include <stdlib.h>

#include "sharding/transform_internal.h"

/* ---- whether one piece lies in another ---- */

static bool holding_is_unknown(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_MANUAL || sharding->kind == SP_SHARDING_UNKNOWN;
}

static bool holds_everything(const struct sp_sharding *sharding)
{
    if (sharding->kind != SP_SHARDING_AXES)
        return sharding->kind == SP_SHARDING_REPLICATED || sharding->kind == SP_SHARDING_UNREDUCED;
    for (uint32_t i = 0; i < sharding->rank; i++)
        if (sp_axes_size(&sharding->dims[i].axes) != 1)
            return false;
    return true;
}

/* What the device at a position of the mesh holds along one tensor axis. */
static struct sp_range range_at(const struct sp_sharding *sharding, uint32_t axis, int64_t extent, int64_t position)
{
    const struct sp_axis_list *axes = &sharding->dims[axis].axes;
    int64_t index = 0, shards = 1;
    for (uint32_t i = 0; i < axes->count; i++) {
        index = index * axes->refs[i].size + sp_axis_coordinate(sharding->mesh, axes->refs[i], position);
        shards *= axes->refs[i].size;
    }
    return sp_block_range(extent, shards, index);
}

/* Whether the piece at one position of `fine` lies in that at one position of `coarse`. */
static bool lies_inside(const struct sp_sharding *fine, int64_t fine_position, const struct sp_sharding *coarse,
                        int64_t coarse_position, uint32_t rank, const int64_t *shape)
{
    bool inside = true;
    for (uint32_t i = 0; i < rank; i++) {
        struct sp_range small = {0, shape[i]}, large = range_at(coarse, i, shape[i], coarse_position);
        if (fine)
            small = range_at(fine, i, shape[i], fine_position);
        if (small.start >= small.limit)
            return true; /* an empty piece lies in any */
        inside = inside && small.start >= large.start && small.limit <= large.limit;
    }
    return inside;
}

/* What can be said without looking at devices: on one mesh, coarse axes that are the major parts of the fine ones. */
static enum sp_status compare_by_axes(struct sp_arena *arena, const struct sp_sharding *fine,
                                      const struct sp_sharding *coarse, uint32_t rank, const int64_t *shape,
                                      bool *ret_known, struct sp_error *err)
{
    struct sp_sharding *f, *c;
    *ret_known = false;
    enum sp_status status = sp_sharding_unify(arena, fine, coarse, &f, &c, err);
    if (status != SP_OK || !f)
        return status;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t shards = sp_axes_size(&c->dims[i].axes);
        /* Even pieces nest; uneven ones do when there is nothing to nest in, or when the two are the same. */
        if (shards != 1 && !(sp_axes_is_prefix(&c->dims[i].axes, &f->dims[i].axes) &&
                             (shape[i] % sp_axes_size(&f->dims[i].axes) == 0 ||
                              sp_transform_same_list(&c->dims[i].axes, &f->dims[i].axes))))
            return SP_OK;
    }
    *ret_known = true;
    return SP_OK;
}

/* Device by device; `fine` NULL holds everything. */
static bool compare_by_devices(const struct sp_sharding *fine, const struct sp_sharding *coarse, uint32_t rank,
                               const int64_t *shape)
{
    const struct sp_device_order *order = fine ? &fine->mesh->order : &coarse->mesh->order;
    for (int64_t position = 0; position < order->count; position++) {
        int64_t there = position;
        if (fine)
            there = sp_device_order_find(&coarse->mesh->order, sp_device_order_at(order, position));
        if (there < 0) { /* a device that holds nothing of the coarse one may only hold nothing of the fine one */
            for (uint32_t i = 0; i < rank; i++) {
                struct sp_range range = range_at(fine, i, shape[i], position);
                if (range.start >= range.limit)
                    there = 0;
            }
            if (there < 0)
                return false;
            continue;
        }
        if (!lies_inside(fine, position, coarse, there, rank, shape))
            return false;
    }
    return true;
}

enum sp_status sp_sharding_is_sub_tiling(struct sp_arena *arena, const struct sp_sharding *fine,
                                         const struct sp_sharding *coarse, uint32_t rank, const int64_t *shape,
                                         bool *ret_is, struct sp_error *err)
{
    enum sp_status status = sp_sharding_check(fine, rank, shape, 0, err);
    if (status == SP_OK)
        status = sp_sharding_check(coarse, rank, shape, 0, err);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < rank; i++)
        if (shape[i] < 0)
            return sp_fail(err, SP_ERR_REQUEST, "EXTENT_UNKNOWN",
                           "The extent of axis %" PRIu32 " must be known to compare tiles.", i);
    *ret_is = false;
    if (holding_is_unknown(fine) || holding_is_unknown(coarse))
        return SP_OK;
    if (holds_everything(coarse)) {
        *ret_is = true;
        return SP_OK;
    }
    if (coarse->kind == SP_SHARDING_SINGLE || fine->kind == SP_SHARDING_SINGLE) {
        *ret_is = coarse->kind == fine->kind && coarse->device == fine->device;
        return SP_OK;
    }
    bool is_whole = holds_everything(fine);
    if (coarse->kind != SP_SHARDING_AXES || (fine->kind != SP_SHARDING_AXES && !is_whole))
        return sp_fail(err, SP_ERR_REQUEST, "NOT_AXES",
                       "Only shardings over mesh axes can be compared tile by tile; bring both to mesh axes first.");
    if (!is_whole) {
        status = compare_by_axes(arena, fine, coarse, rank, shape, ret_is, err);
        if (status != SP_OK || *ret_is)
            return status;
    }
    int64_t count = is_whole ? coarse->mesh->order.count : fine->mesh->order.count;
    if (count > SP_MAX_LISTED_DEVICES)
        return sp_fail_limit(err, "TOO_MANY_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES, count,
                             "The tiles of %" PRId64 " devices would have to be compared one by one.", count);
    *ret_is = compare_by_devices(is_whole ? NULL : fine, coarse, rank, shape);
    return SP_OK;
}

/* ---- where tiles can go, and shapes ---- */

enum sp_status sp_sharding_first_dim_for_tiles(const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape,
                                               uint32_t source, int64_t *ret_axis, struct sp_error *err)
{
    if (source >= rank)
        return sp_fail(err, SP_ERR_REQUEST, "BAD_AXIS",
                       "Axis %" PRIu32 " is named, but the tensor has rank %" PRIu32 ".", source, rank);
    enum sp_status status = sp_sharding_check_rank(sharding, rank, err);
    if (status != SP_OK)
        return status;
    *ret_axis = -1;
    int64_t tiles = sp_sharding_shards(sharding, source), both;
    if (tiles == 1 || shape[source] == 1) /* nothing to move, or an axis that needs no other */
        return SP_OK;
    for (uint32_t i = 0; i < rank; i++)
        if (i != source && shape[i] >= 0 && sp_mul_i64(tiles, sp_sharding_shards(sharding, i), &both) &&
            shape[i] % both == 0) {
            *ret_axis = i;
            return SP_OK;
        }
    return SP_OK;
}

enum sp_status sp_sharding_untile_shape(const struct sp_sharding *sharding, uint32_t rank, const int64_t *tile,
                                        int64_t *ret_shape, struct sp_error *err)
{
    enum sp_status status = sp_sharding_check_rank(sharding, rank, err);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < rank; i++)
        if (tile[i] < 0 || !sp_mul_i64(tile[i], sp_sharding_shards(sharding, i), &ret_shape[i]))
            return sp_fail(err, SP_ERR_REQUEST, "SHAPE_TOO_LARGE",
                           "Axis %" PRIu32 " of the whole tensor has no extent: its tile of %" PRId64
                           " times its %" PRId64 " tiles is not a 64-bit number.",
                           i, tile[i], sp_sharding_shards(sharding, i));
    return SP_OK;
}
