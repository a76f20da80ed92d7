#include <inttypes.h>
#include <stdio.h>

#include "sharding/internal.h"

#define REF_TEXT_SIZE 160

/* "x":(2)4, or "x" when it is the whole axis; long names are cut. */
static const char *ref_text(const struct sp_mesh *mesh, struct sp_axis_ref ref, char text[REF_TEXT_SIZE])
{
    if (sp_axis_is_full(mesh, ref))
        snprintf(text, REF_TEXT_SIZE, "\"%.80s\"", mesh->axes[ref.axis].name);
    else
        snprintf(text, REF_TEXT_SIZE, "\"%.80s\":(%" PRId64 ")%" PRId64, mesh->axes[ref.axis].name, ref.pre, ref.size);
    return text;
}

static const char *list_text(const struct sp_sharding *sharding, uint32_t list, char text[REF_TEXT_SIZE])
{
    if (list < sharding->rank)
        snprintf(text, REF_TEXT_SIZE, "tensor axis %" PRIu32, list);
    else
        snprintf(text, REF_TEXT_SIZE, "the %s axes",
                 list == sharding->rank       ? "replicated"
                 : list == sharding->rank + 1 ? "partial"
                                              : "manual");
    return text;
}

/* One ref against those before it in all lists. Stops at the first conflict, so refs that can all stand side by side
   bound the work: there are fewer than 64 of size 2 or more, and one of each axis of size 1. */
static enum sp_status check_ref(const struct sp_sharding *sharding, uint32_t list, uint32_t at, struct sp_error *err)
{
    const struct sp_mesh *mesh = sharding->mesh;
    struct sp_axis_ref ref = sp_sharding_list(sharding, list)->refs[at];
    char text[REF_TEXT_SIZE], other_text[REF_TEXT_SIZE], where[REF_TEXT_SIZE];
    for (uint32_t i = 0; i <= list; i++) {
        const struct sp_axis_list *others = sp_sharding_list(sharding, i);
        for (uint32_t j = 0; j < (i == list ? at : others->count); j++) {
            struct sp_axis_ref other = others->refs[j];
            if (sp_axis_can_coexist_without_overlap(ref, other))
                continue;
            ref_text(mesh, ref, text);
            ref_text(mesh, other, other_text);
            list_text(sharding, list, where);
            if (sp_axis_equal(ref, other))
                return sp_fail(err, SP_ERR_MALFORMED, "DUPLICATE_AXIS",
                               "duplicate axis ref: %s is used again in %s; each part of an axis may be used once.",
                               text, where);
            if (sp_axis_overlaps(ref, other))
                return sp_fail(err, SP_ERR_MALFORMED, "OVERLAPPING_AXES",
                               "overlapping sub-axes: %s, %s in %s; each part of an axis may be used once.", other_text,
                               text, where);
            return sp_fail(err, SP_ERR_MALFORMED, "AXES_CANNOT_COEXIST",
                           "No grid cuts the mesh axis for both %s and %s (in %s); their cuts must divide each other.",
                           other_text, text, where);
        }
    }
    return SP_OK;
}

static enum sp_status check_list(const struct sp_sharding *sharding, uint32_t index, struct sp_error *err)
{
    const struct sp_axis_list *list = sp_sharding_list(sharding, index);
    const struct sp_mesh *mesh = sharding->mesh;
    char text[REF_TEXT_SIZE], next_text[REF_TEXT_SIZE], where[REF_TEXT_SIZE];
    if (list->count > SP_MAX_SHARDING_AXES)
        return sp_fail_limit(err, "TOO_MANY_AXES", "SP_MAX_SHARDING_AXES", SP_MAX_SHARDING_AXES, list->count,
                             "%" PRIu32 " mesh axes are listed for %s, but at most %d are allowed.", list->count,
                             list_text(sharding, index, where), SP_MAX_SHARDING_AXES);
    for (uint32_t i = 0; i < list->count; i++) {
        struct sp_axis_ref ref = list->refs[i];
        enum sp_status status = sp_axis_check(mesh, ref, err);
        if (status == SP_OK)
            status = check_ref(sharding, index, i, err);
        if (status != SP_OK)
            return status;
        if (i == 0)
            continue;
        struct sp_axis_ref before = list->refs[i - 1];
        if (sp_axis_can_merge(before, ref))
            return sp_fail(err, SP_ERR_MALFORMED, "MERGEABLE_AXES",
                           "two consecutive sub-axes can be merged: %s, %s in %s; write them as one.",
                           ref_text(mesh, before, text), ref_text(mesh, ref, next_text),
                           list_text(sharding, index, where));
        if (index >= sharding->rank && !sp_axis_less(before, ref))
            return sp_fail(err, SP_ERR_MALFORMED, "UNSORTED_AXES",
                           "%s are not ordered w.r.t. mesh: %s stands before %s.", list_text(sharding, index, where),
                           ref_text(mesh, before, text), ref_text(mesh, ref, next_text));
    }
    return SP_OK;
}

static enum sp_status check_combiner(enum sp_combiner combiner, struct sp_error *err)
{
    if (combiner == SP_COMBINE_SUM || combiner == SP_COMBINE_MAX || combiner == SP_COMBINE_MIN)
        return SP_OK;
    return sp_fail(err, SP_ERR_MALFORMED, "BAD_COMBINER",
                   "Partial values are combined by sum, max or min; this sharding names something else.");
}

static enum sp_status check_device(int64_t device, int64_t device_count, struct sp_error *err)
{
    if (device < 0)
        return sp_fail(err, SP_ERR_MALFORMED, "NEGATIVE_DEVICE",
                       "Device %" PRId64 " is negative; devices are numbered from 0.", device);
    if (device_count > 0 && device >= device_count)
        return sp_fail(err, SP_ERR_REQUEST, "DEVICE_OUT_OF_RANGE",
                       "Device %" PRId64 " is named, but there are only devices 0 to %" PRId64 ".", device,
                       device_count - 1);
    return SP_OK;
}

static enum sp_status check_axes(const struct sp_sharding *sharding, int64_t device_count, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < sp_sharding_list_count(sharding) && status == SP_OK; i++)
        status = check_list(sharding, i, err);
    if (status == SP_OK && sharding->partial.count > 0)
        status = check_combiner(sharding->combiner, err);
    if (status != SP_OK || sharding->mesh->order.count == 0)
        return status;
    const struct sp_device_order *order = &sharding->mesh->order;
    if (order->ids == NULL)
        return check_device(order->count - 1, device_count, err);
    for (int64_t i = 0; i < order->count && status == SP_OK; i++)
        status = check_device(order->ids[i], device_count, err);
    return status;
}

/* ---- blocks ---- */

static enum sp_status check_parts(const struct sp_sharding *sharding, uint32_t axis, const int64_t *shape,
                                  int64_t *shards, struct sp_error *err)
{
    const struct sp_block_dim *dim = &sharding->blocks[axis];
    if (dim->part_count > SP_MAX_SHARDING_AXES)
        return sp_fail_limit(err, "TOO_MANY_PARTS", "SP_MAX_SHARDING_AXES", SP_MAX_SHARDING_AXES, dim->part_count,
                             "Axis %" PRIu32 " has %" PRIu32 " parts, but at most %d are allowed.", axis,
                             dim->part_count, SP_MAX_SHARDING_AXES);
    int64_t product = 1;
    uint32_t open = 0;
    for (uint32_t i = 0; i < dim->part_count; i++) {
        const struct sp_block_part *part = &dim->parts[i];
        if (part->shards < 1)
            return sp_fail(err, SP_ERR_MALFORMED, "BAD_SHARDS",
                           "Axis %" PRIu32 " is cut in %" PRId64 " shards; the number must be 1 or more.", axis,
                           part->shards);
        if (part->extent < 0)
            return sp_fail(err, SP_ERR_MALFORMED, "BAD_EXTENT",
                           "A part of axis %" PRIu32 " has an extent of %" PRId64 ", which is negative.", axis,
                           part->extent);
        open += part->extent == 0;
        if (part->extent > 0 && !sp_mul_i64(product, part->extent, &product))
            return sp_fail(err, SP_ERR_MALFORMED, "PARTS_TOO_LARGE",
                           "The extents of the parts of axis %" PRIu32 " multiply to more than 2^63 - 1.", axis);
        if (!sp_mul_i64(*shards, part->shards, shards))
            return sp_fail(err, SP_ERR_MALFORMED, "TOO_MANY_SHARDS",
                           "The numbers of shards multiply to more than 2^63 - 1.");
    }
    if (open > 1)
        return sp_fail(err, SP_ERR_MALFORMED, "OPEN_PARTS",
                       "Axis %" PRIu32 " has %" PRIu32
                       " parts without extent, but only one can be worked out from the extent of the axis.",
                       axis, open);
    int64_t extents[SP_MAX_SHARDING_AXES];
    return shape != NULL && shape[axis] >= 0 ? sp_block_extents(dim, axis, shape[axis], extents, err) : SP_OK;
}

static enum sp_status check_placement(const struct sp_sharding *sharding, int64_t device_count, struct sp_error *err)
{
    const uint32_t *first = sharding->first;
    if (sharding->shard_count > SP_MAX_LISTED_DEVICES)
        return sp_fail_limit(err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                             sharding->shard_count,
                             "The devices of %" PRId64 " shards are listed, but at most %d can be.",
                             sharding->shard_count, SP_MAX_LISTED_DEVICES);
    for (int64_t shard = 0; shard < sharding->shard_count; shard++) {
        if (first[shard] >= first[shard + 1])
            return sp_fail(err, SP_ERR_MALFORMED, "SHARD_WITHOUT_DEVICE",
                           "No device holds shard %" PRId64 "; each shard needs one device or more.", shard);
        for (uint32_t i = first[shard]; i < first[shard + 1]; i++) {
            enum sp_status status = check_device(sharding->devices[i], device_count, err);
            if (status != SP_OK)
                return status;
            if (i > first[shard] && sharding->devices[i] <= sharding->devices[i - 1])
                return sp_fail(err, SP_ERR_MALFORMED, "UNSORTED_DEVICES",
                               "The devices of shard %" PRId64 " are not ascending: %" PRId64 " stands before %" PRId64
                               ".",
                               shard, sharding->devices[i - 1], sharding->devices[i]);
        }
    }
    return SP_OK;
}

static enum sp_status check_blocks(const struct sp_sharding *sharding, const int64_t *shape, int64_t device_count,
                                   struct sp_error *err)
{
    int64_t shards = 1;
    for (uint32_t axis = 0; axis < sharding->rank; axis++) {
        enum sp_status status = check_parts(sharding, axis, shape, &shards, err);
        if (status != SP_OK)
            return status;
    }
    if (shards != sharding->shard_count)
        return sp_fail(err, SP_ERR_MALFORMED, "SHARD_COUNT",
                       "The parts make %" PRId64 " shards, but the sharding has %" PRId64 ".", shards,
                       sharding->shard_count);
    return sharding->first != NULL ? check_placement(sharding, device_count, err) : SP_OK;
}

/* ---- any kind ---- */

/* All but tuples. */
static enum sp_status check_array(const struct sp_sharding *sharding, int64_t rank, const int64_t *shape,
                                  int64_t device_count, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    if (sharding->rank > SP_MAX_RANK)
        return sp_fail_limit(err, "RANK_TOO_LARGE", "SP_MAX_RANK", SP_MAX_RANK, sharding->rank,
                             "The sharding is for tensors of rank %" PRIu32 ", but at most %d axes are allowed.",
                             sharding->rank, SP_MAX_RANK);
    if (rank >= 0)
        status = sp_sharding_check_rank(sharding, rank > SP_MAX_RANK ? SP_MAX_RANK + 1 : (uint32_t)rank, err);
    for (int64_t i = 0; status == SP_OK && shape != NULL && i < rank; i++)
        if (shape[i] < -1)
            return sp_fail(err, SP_ERR_REQUEST, "BAD_EXTENT",
                           "The extent of axis %" PRId64 " is %" PRId64 ", which is negative.", i, shape[i]);
    if (status != SP_OK)
        return status;
    switch (sharding->kind) {
    case SP_SHARDING_SINGLE:
        return check_device(sharding->device, device_count, err);
    case SP_SHARDING_UNREDUCED:
        return check_combiner(sharding->combiner, err);
    case SP_SHARDING_AXES:
        return check_axes(sharding, device_count, err);
    case SP_SHARDING_BLOCKS:
        return check_blocks(sharding, rank >= 0 ? shape : NULL, device_count, err);
    default:
        return SP_OK;
    }
}

enum sp_status sp_sharding_check(const struct sp_sharding *sharding, int64_t rank, const int64_t *shape,
                                 int64_t device_count, struct sp_error *err)
{
    if (sharding->kind != SP_SHARDING_TUPLE)
        return check_array(sharding, rank, shape, device_count, err);
    if (rank >= 0)
        return sp_fail(err, SP_ERR_REQUEST, "TUPLE_SHARDING",
                       "The sharding is a tuple of %" PRIu32 ", but one tensor needs one sharding.",
                       sharding->element_count);
    if (sharding->element_count > SP_MAX_TUPLE_SHARDINGS)
        return sp_fail_limit(err, "TUPLE_TOO_LONG", "SP_MAX_TUPLE_SHARDINGS", SP_MAX_TUPLE_SHARDINGS,
                             sharding->element_count,
                             "A tuple of shardings has %" PRIu32 " elements, but at most %d are allowed.",
                             sharding->element_count, SP_MAX_TUPLE_SHARDINGS);
    for (uint32_t i = 0; i < sharding->element_count; i++) {
        if (sharding->elements[i].kind == SP_SHARDING_TUPLE)
            return sp_fail(err, SP_ERR_MALFORMED, "NESTED_TUPLE",
                           "Element %" PRIu32 " of a tuple of shardings is a tuple itself; tuples are flat.", i);
        enum sp_status status = check_array(&sharding->elements[i], -1, NULL, device_count, err);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

enum sp_status sp_sharding_check_rank(const struct sp_sharding *sharding, uint32_t rank, struct sp_error *err)
{
    if (rank > SP_MAX_RANK)
        return sp_fail_limit(err, "RANK_TOO_LARGE", "SP_MAX_RANK", SP_MAX_RANK, rank,
                             "The tensor has rank %" PRIu32 ", but at most %d axes are allowed.", rank, SP_MAX_RANK);
    bool fits = sharding->rank == rank;
    if (sharding->kind == SP_SHARDING_BLOCKS && sharding->is_rank_open)
        fits = sharding->rank <= rank;
    else if (sharding->kind != SP_SHARDING_BLOCKS && sharding->kind != SP_SHARDING_AXES)
        fits = true;
    if (!fits)
        return sp_fail(err, SP_ERR_REQUEST, "RANK_MISMATCH",
                       "The sharding is for tensors of rank %" PRIu32 ", but the tensor has rank %" PRIu32 ".",
                       sharding->rank, rank);
    return SP_OK;
}

enum sp_status sp_block_extents(const struct sp_block_dim *dim, uint32_t axis, int64_t extent, int64_t *ret_extents,
                                struct sp_error *err)
{
    int64_t product = 1, open = -1;
    for (uint32_t i = 0; i < dim->part_count; i++) {
        if (dim->parts[i].extent == 0) {
            if (open >= 0)
                return sp_fail(err, SP_ERR_MALFORMED, "OPEN_PARTS",
                               "Axis %" PRIu32 " has several parts without extent, but at most one can be worked out.",
                               axis);
            open = i;
        } else if (!sp_mul_i64(product, dim->parts[i].extent, &product)) {
            return sp_fail(err, SP_ERR_MALFORMED, "PARTS_TOO_LARGE",
                           "The extents of the parts of axis %" PRIu32 " multiply to more than 2^63 - 1.", axis);
        }
        ret_extents[i] = dim->parts[i].extent;
    }
    if (dim->part_count == 0)
        return SP_OK;
    if (open < 0 ? product != extent : extent % product != 0)
        return sp_fail(err, SP_ERR_REQUEST, "PARTS_MISMATCH",
                       "The parts of axis %" PRIu32 " have %" PRId64 " elements together, which does not %s its extent "
                       "of %" PRId64 ".",
                       axis, product, open < 0 ? "equal" : "divide", extent);
    if (open >= 0)
        ret_extents[open] = extent / product;
    return SP_OK;
}
