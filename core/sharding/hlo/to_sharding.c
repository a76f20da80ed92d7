/* From the HLO dialect to the common form. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "sharding/hlo/internal.h"

/* The mesh axes of a tile assignment, one per piece: pieces in the order of the array, and the axis of each. */
struct cut {
    uint32_t count;
    struct sp_hlo_piece pieces[SP_HLO_MAX_PIECES];
    uint32_t axis[SP_HLO_MAX_PIECES];
    struct sp_device_order order; /* of the mesh */
};

/* Where the tile dims do not cut the iota, or there is none: an axis for each dim, and the devices as they are. */
static enum sp_status cut_list(struct sp_arena *arena, const struct sp_hlo *hlo, struct cut *cut, struct sp_error *err)
{
    cut->order = hlo->order;
    for (uint32_t i = 0; i < hlo->dim_count; i++) {
        if (hlo->dims[i] == 1)
            continue;
        cut->axis[cut->count] = cut->count;
        cut->pieces[cut->count++] = (struct sp_hlo_piece){.tile = i, .size = hlo->dims[i]};
    }
    if (hlo->order.ids != NULL || hlo->order.count > SP_HLO_LISTED_DEVICES)
        return SP_OK;
    int64_t ids[SP_HLO_LISTED_DEVICES];
    for (int64_t i = 0; i < hlo->order.count; i++)
        ids[i] = sp_device_order_at(&hlo->order, i);
    return sp_device_order_list(arena, hlo->order.count, ids, &cut->order, err);
}

static enum sp_status cut_devices(struct sp_arena *arena, const struct sp_hlo *hlo, struct cut *cut,
                                  struct sp_error *err)
{
    struct sp_device_order range;
    enum sp_status status = sp_device_order_range(arena, hlo->order.count, &range, err);
    if (status != SP_OK)
        return status;
    const struct sp_device_order *iota = sp_device_order_is_range(&hlo->order) ? &range : &hlo->order;
    *cut = (struct cut){.order = range};
    if (iota->ids == NULL)
        sp_hlo_cut(hlo->dim_count, hlo->dims, iota, &cut->count, cut->pieces);
    if (cut->count == 0 && hlo->order.count > 1)
        return cut_list(arena, hlo, cut, err);
    sp_hlo_index_pieces(cut->count, cut->pieces, cut->axis);
    return SP_OK;
}

static enum sp_status make_mesh(struct sp_arena *arena, const struct cut *cut, struct sp_mesh **ret_mesh,
                                struct sp_error *err)
{
    struct sp_mesh_axis axes[SP_HLO_MAX_PIECES] = {{.name = "axis_0", .size = 1}};
    for (uint32_t i = 0; i < cut->count; i++) {
        const char *name = sp_arena_printf(arena, "axis_%" PRIu32, cut->axis[i]);
        if (name == NULL)
            return sp_fail_memory(err);
        axes[cut->axis[i]] = (struct sp_mesh_axis){.name = name, .size = cut->pieces[i].size};
    }
    /* One device makes an axis of size 1, because a mesh without axes has no tiles. */
    return sp_mesh_create(arena, cut->count > 0 ? cut->count : 1, axes, &cut->order, ret_mesh, err);
}

SP_ASCENDING(compare_refs, struct sp_axis_ref, axis)

/* The axes of one tile dim, major to minor. */
static enum sp_status take_axes(struct sp_arena *arena, const struct cut *cut, const struct sp_mesh *mesh,
                                uint32_t tile, struct sp_axis_list *ret_list, struct sp_error *err)
{
    struct sp_axis_list list = {.refs = SP_NEW_ARRAY(arena, cut->count, struct sp_axis_ref)};
    if (list.refs == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < cut->count; i++) {
        if (cut->pieces[i].tile == tile)
            list.refs[list.count++] = sp_axis_full(mesh, cut->axis[i]);
    }
    *ret_list = list;
    return SP_OK;
}

static enum sp_status take_group(struct sp_arena *arena, const struct cut *cut, enum sp_hlo_type type, uint32_t tile,
                                 struct sp_sharding *axes, struct sp_error *err)
{
    struct sp_axis_list *target = type == SP_HLO_MANUAL      ? &axes->manual
                                  : type == SP_HLO_UNREDUCED ? &axes->partial
                                                             : NULL;
    struct sp_axis_list list, sum;
    if (type == SP_HLO_REPLICATED)
        return SP_OK; /* what no list names is replicated */
    if (target == NULL)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "SUBGROUP_LOST",
                       "A subgroup of devices is %s, which says nothing about who holds what; only manual, unreduced "
                       "and replicated subgroups can be converted.",
                       sp_hlo_type_name(type));
    enum sp_status status = take_axes(arena, cut, axes->mesh, tile, &list, err);
    if (status == SP_OK)
        status = sp_axes_append(arena, target, &list, &sum, err);
    if (status != SP_OK)
        return status;
    if (sum.count > 1)
        qsort(sum.refs, sum.count, sizeof *sum.refs, compare_refs);
    *target = sum;
    return SP_OK;
}

static enum sp_status from_tiles(struct sp_arena *arena, const struct sp_hlo *hlo, struct sp_sharding **ret_sharding,
                                 struct sp_error *err)
{
    struct cut cut;
    struct sp_mesh *mesh = NULL;
    struct sp_sharding *axes = NULL;
    uint32_t rank = hlo->dim_count - sp_hlo_group_dims(hlo);
    enum sp_status status = cut_devices(arena, hlo, &cut, err);
    if (status == SP_OK)
        status = make_mesh(arena, &cut, &mesh, err);
    if (status == SP_OK)
        status = sp_sharding_create_axes(arena, mesh, rank, &axes, err);
    for (uint32_t i = 0; i < rank && status == SP_OK; i++)
        status = take_axes(arena, &cut, mesh, i, &axes->dims[i].axes, err);
    for (uint32_t i = 0; i < hlo->subgroup_count && status == SP_OK; i++)
        status = take_group(arena, &cut, hlo->subgroups[i], rank + i, axes, err);
    if (status != SP_OK)
        return status;
    axes->combiner = axes->partial.count > 0 ? hlo->combiner : SP_COMBINE_NONE;
    *ret_sharding = axes;
    return SP_OK;
}

static enum sp_status note_losses(struct sp_arena *arena, const struct sp_hlo *hlo, struct sp_losses *losses,
                                  struct sp_error *err)
{
    enum sp_status status = SP_OK;
    if (hlo->metadata_count > 0)
        status = sp_losses_add(arena, losses, err, "METADATA_LOST",
                               "The sharding's metadata says where it comes from, not who holds what; it is left out.");
    if (status == SP_OK && hlo->has_group)
        status = sp_losses_add(arena, losses, err, "SHARD_GROUP_LOST",
                               "That the sharding belongs to shard group %" PRId64 " (shard_%s) is left out.",
                               hlo->group_id, hlo->is_group_like ? "like" : "as");
    return status;
}

static enum sp_status convert_leaf(struct sp_arena *arena, const struct sp_hlo *hlo, struct sp_sharding *ret_sharding,
                                   struct sp_losses *losses, struct sp_error *err)
{
    struct sp_sharding *tiled;
    enum sp_status status = note_losses(arena, hlo, losses, err);
    if (status != SP_OK)
        return status;
    if (hlo->is_named) {
        *ret_sharding = *hlo->named;
        return SP_OK;
    }
    struct sp_sharding sharding = {.kind = SP_SHARDING_UNKNOWN, .combiner = hlo->combiner};
    switch (hlo->type) {
    case SP_HLO_REPLICATED:
        sharding.kind = SP_SHARDING_REPLICATED;
        break;
    case SP_HLO_MAXIMAL:
        sharding.kind = SP_SHARDING_SINGLE;
        sharding.device = sp_device_order_at(&hlo->order, 0);
        break;
    case SP_HLO_MANUAL:
        sharding.kind = SP_SHARDING_MANUAL;
        break;
    case SP_HLO_UNREDUCED:
        sharding.kind = SP_SHARDING_UNREDUCED;
        break;
    case SP_HLO_OTHER:
        status = from_tiles(arena, hlo, &tiled, err);
        if (status != SP_OK)
            return status;
        sharding = *tiled;
        break;
    case SP_HLO_TUPLE:
    case SP_HLO_UNKNOWN:
    default:
        break;
    }
    *ret_sharding = sharding;
    return SP_OK;
}

enum sp_status sp_hlo_to_sharding(struct sp_arena *arena, const struct sp_hlo *hlo, struct sp_sharding **ret_sharding,
                                  struct sp_losses *losses, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    struct sp_sharding *sharding = SP_NEW(arena, struct sp_sharding);
    if (sharding == NULL)
        return sp_fail_memory(err);
    if (hlo->is_named || hlo->type != SP_HLO_TUPLE) {
        status = convert_leaf(arena, hlo, sharding, losses, err);
    } else {
        sharding->kind = SP_SHARDING_TUPLE;
        sharding->element_count = hlo->element_count;
        sharding->elements = SP_NEW_ARRAY(arena, hlo->element_count, struct sp_sharding);
        if (sharding->elements == NULL)
            return sp_fail_memory(err);
        for (uint32_t i = 0; i < hlo->element_count && status == SP_OK; i++)
            status = convert_leaf(arena, &hlo->elements[i], &sharding->elements[i], losses, err);
    }
    if (status == SP_OK)
        *ret_sharding = sharding;
    return status;
}
