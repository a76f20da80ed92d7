/* The rules of named shardings (V3) and of combiners, in XLA's words where XLA has some. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "sharding/hlo/internal.h"
#include "sharding/internal.h"

const char sp_hlo_reduction_op[] = "sdy::reduction_op";

const char *sp_hlo_type_name(enum sp_hlo_type type)
{
    switch (type) {
    case SP_HLO_REPLICATED:
        return "replicated";
    case SP_HLO_MAXIMAL:
        return "maximal";
    case SP_HLO_TUPLE:
        return "tuple";
    case SP_HLO_MANUAL:
        return "manual";
    case SP_HLO_UNKNOWN:
        return "unknown";
    case SP_HLO_UNREDUCED:
        return "unreduced";
    case SP_HLO_OTHER:
    default:
        return "tiled";
    }
}

/* -1 for other names. */
static int combiner_parse(const char *name)
{
    if (strcmp(name, "SUM") == 0)
        return SP_COMBINE_SUM;
    if (strcmp(name, "MAX") == 0)
        return SP_COMBINE_MAX;
    return strcmp(name, "MIN") == 0 ? SP_COMBINE_MIN : -1;
}

const char *sp_hlo_combiner_name(enum sp_combiner combiner)
{
    if (combiner == SP_COMBINE_MAX)
        return "MAX";
    return combiner == SP_COMBINE_MIN ? "MIN" : "SUM";
}

enum sp_status sp_hlo_take_combiner(struct sp_hlo *hlo, struct sp_hlo_metadata *metadata, struct sp_error *err)
{
    uint32_t kept = 0;
    hlo->combiner = SP_COMBINE_SUM;
    for (uint32_t i = 0; i < hlo->metadata_count; i++) {
        if (metadata[i].op_type == NULL || strcmp(metadata[i].op_type, sp_hlo_reduction_op) != 0) {
            metadata[kept++] = metadata[i];
            continue;
        }
        const char *name = metadata[i].op_name != NULL ? metadata[i].op_name : "";
        int combiner = combiner_parse(name);
        if (combiner < 0)
            return sp_fail(err, SP_ERR_MALFORMED, "BAD_REDUCTION_OP",
                           "The metadata names the reduction operator '%s'; it is SUM, MAX or MIN.", name);
        hlo->combiner = (enum sp_combiner)combiner;
    }
    hlo->metadata_count = kept;
    hlo->metadata = metadata;
    return SP_OK;
}

/* Explicit device ids: 0..N-1 in another order. */
static enum sp_status check_ids(struct sp_arena *arena, const struct sp_hlo_numbers *ids, struct sp_error *err)
{
    bool is_range = true;
    struct sp_arena_mark mark = sp_arena_mark(arena);
    bool *seen = SP_NEW_ARRAY(arena, (size_t)ids->count, bool);
    if (seen == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < ids->count; i++) {
        int64_t id = ids->items[i];
        if (id < 0)
            return sp_fail(err, SP_ERR_MALFORMED, "NEGATIVE_DEVICE",
                           "Mesh device ids must be non-negative, but one is %" PRId64 ".", id);
        if (id >= ids->count || seen[id])
            return sp_fail(err, SP_ERR_MALFORMED, "BAD_MESH_DEVICES",
                           "Device ids must be a permutation of [0,1,2,3...], but %" PRId64 " %s among %" PRId64
                           " devices.",
                           id, id >= ids->count ? "is" : "stands twice", ids->count);
        seen[id] = true;
        is_range = is_range && id == i;
    }
    sp_arena_rewind(arena, mark);
    if (is_range)
        return sp_fail(err, SP_ERR_MALFORMED, "LISTED_IOTA",
                       "Non-iota device assignment has iota device id list [0,1,2,3...]: leave the ids out.");
    return SP_OK;
}

static enum sp_status check_axes(uint32_t count, const struct sp_mesh_axis *axes, int64_t *ret_product,
                                 struct sp_error *err)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (axes[i].size < 1)
            return sp_fail(err, SP_ERR_MALFORMED, "BAD_AXIS_SIZE",
                           "Mesh axis size must be positive, but that of '%s' is %" PRId64 ".", axes[i].name,
                           axes[i].size);
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(axes[k].name, axes[i].name) == 0)
                return sp_fail(err, SP_ERR_MALFORMED, "DUPLICATE_AXIS_NAME",
                               "Mesh has duplicate axis names: '%s' is that of axes %" PRIu32 " and %" PRIu32 ".",
                               axes[i].name, k, i);
        }
        if (!sp_mul_i64(product, axes[i].size, &product))
            return sp_fail(err, SP_ERR_MALFORMED, "TOO_MANY_DEVICES",
                           "The product of the mesh axis sizes does not fit in 64 bits.");
    }
    *ret_product = product;
    return SP_OK;
}

enum sp_status sp_hlo_create_mesh(struct sp_arena *arena, uint32_t axis_count, const struct sp_mesh_axis *axes,
                                  const struct sp_hlo_numbers *ids, const struct sp_device_order *order,
                                  struct sp_mesh **ret_mesh, struct sp_error *err)
{
    struct sp_device_order listed;
    int64_t product = 0;
    if (axis_count == 0 && ids == NULL && order == NULL)
        return sp_mesh_empty(arena, ret_mesh, err);
    enum sp_status status = check_axes(axis_count, axes, &product, err);
    if (status != SP_OK)
        return status;
    if (ids != NULL) {
        if (ids->count != product)
            return sp_fail(err, SP_ERR_MALFORMED, "BAD_MESH_DEVICES",
                           "The mesh should have %" PRId64 " device_ids based on mesh axes, but got %" PRId64 ".",
                           product, ids->count);
        status = check_ids(arena, ids, err);
        if (status == SP_OK)
            status = sp_device_order_list(arena, ids->count, ids->items, &listed, err);
        order = &listed;
    } else if (order != NULL && order->count != product) {
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_MESH_DEVICES",
                       "The size of the iota, %" PRId64 ", does not match the product of the mesh axis sizes, %" PRId64
                       ".",
                       order->count, product);
    }
    return status == SP_OK ? sp_mesh_create(arena, axis_count, axes, order, ret_mesh, err) : status;
}

enum sp_status sp_hlo_check_ref(const struct sp_mesh *mesh, struct sp_axis_ref ref, bool is_sub, struct sp_error *err)
{
    int64_t next;
    if (ref.axis >= mesh->axis_count)
        return sp_fail(err, SP_ERR_MALFORMED, "UNKNOWN_AXIS",
                       "Axis index must be less than number of axes, but it is %" PRIu32 " of %" PRIu32 ".", ref.axis,
                       mesh->axis_count);
    if (!is_sub)
        return SP_OK;
    const struct sp_mesh_axis *axis = &mesh->axes[ref.axis];
    if (ref.pre < 1)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_SUB_AXIS",
                       "The sub-axis pre-size must be >= 1, but of '%s' it is %" PRId64 ".", axis->name, ref.pre);
    if (ref.size < 2)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_SUB_AXIS",
                       "The sub-axis size must be > 1, but of '%s' it is %" PRId64 ".", axis->name, ref.size);
    if (!sp_mul_i64(ref.pre, ref.size, &next) || axis->size % next != 0)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_SUB_AXIS",
                       "Sub-axis next_pre_size must divide the full axis size, but %" PRId64 " * %" PRId64
                       " does not divide the %" PRId64 " of '%s'.",
                       ref.pre, ref.size, axis->size, axis->name);
    if (ref.size >= axis->size)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_SUB_AXIS",
                       "Sub-axis size must be strictly less than the full axis size; leave ':(1)%" PRId64
                       "' of '%s' out.",
                       ref.size, axis->name);
    return SP_OK;
}

static int compare_refs(const void *left, const void *right)
{
    const struct sp_axis_ref *a = left, *b = right;
    return sp_axis_less(*a, *b) ? -1 : sp_axis_less(*b, *a);
}

/* No two refs of all lists overlap, and one grid can cut every axis for all. Neighbours in sorted order decide it: of
   refs that divide each other in a chain, all do. */
static enum sp_status check_coexistence(struct sp_arena *arena, const struct sp_sharding *named, struct sp_error *err)
{
    size_t count = 0, filled = 0;
    for (uint32_t i = 0; i < sp_sharding_list_count(named); i++)
        count += sp_sharding_list(named, i)->count;
    struct sp_arena_mark mark = sp_arena_mark(arena);
    struct sp_axis_ref *refs = SP_NEW_ARRAY(arena, count, struct sp_axis_ref);
    if (refs == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < sp_sharding_list_count(named); i++) {
        const struct sp_axis_list *list = sp_sharding_list(named, i);
        for (uint32_t k = 0; k < list->count; k++)
            refs[filled++] = list->refs[k];
    }
    if (count > 1)
        qsort(refs, count, sizeof *refs, compare_refs);
    size_t bad = 1;
    while (bad < count && !sp_axis_equal(refs[bad - 1], refs[bad]) &&
           sp_axis_can_coexist_without_overlap(refs[bad - 1], refs[bad]))
        bad++;
    struct sp_axis_ref a = bad < count ? refs[bad - 1] : (struct sp_axis_ref){0};
    struct sp_axis_ref b = bad < count ? refs[bad] : (struct sp_axis_ref){0};
    sp_arena_rewind(arena, mark);
    if (bad < count)
        return sp_fail(err, SP_ERR_MALFORMED, "AXES_OVERLAP",
                       "Axes cannot coexist or axes overlap: '%s':(%" PRId64 ")%" PRId64 " and :(%" PRId64 ")%" PRId64
                       " of the same axis.",
                       named->mesh->axes[a.axis].name, a.pre, a.size, b.pre, b.size);
    return SP_OK;
}

static enum sp_status check_named(struct sp_arena *arena, const struct sp_sharding *named, struct sp_error *err)
{
    static const char *const names[] = {"Replicated", "Unreduced", "Manual"};
    enum sp_status status = check_coexistence(arena, named, err);
    for (uint32_t i = 0; i < sp_sharding_list_count(named) && status == SP_OK; i++) {
        const struct sp_axis_list *list = sp_sharding_list(named, i);
        for (uint32_t k = 1; k < list->count; k++) {
            struct sp_axis_ref a = list->refs[k - 1], b = list->refs[k];
            if (i >= named->rank && !sp_axis_less(a, b))
                return sp_fail(err, SP_ERR_MALFORMED, "AXES_NOT_SORTED",
                               "%s axes must be sorted by mesh axis index and sub-axis pre-size.",
                               names[i - named->rank]);
            if (sp_axis_can_merge(a, b))
                return sp_fail(err, SP_ERR_MALFORMED, "AXES_MERGEABLE",
                               "Adjacent axes in %s can be merged: '%s':(%" PRId64 ")%" PRId64 " and :(%" PRId64
                               ")%" PRId64 " are one sub-axis.",
                               i < named->rank ? "dimension sharding" : "one list", named->mesh->axes[a.axis].name,
                               a.pre, a.size, b.pre, b.size);
        }
    }
    return status;
}

/* All axes of the mesh, whole. */
static bool is_whole_mesh(const struct sp_mesh *mesh, const struct sp_axis_list *list)
{
    if (list->count != mesh->axis_count || list->count == 0)
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->refs[i].axis != i || !sp_axis_is_full(mesh, list->refs[i]))
            return false;
    }
    return true;
}

enum sp_status sp_hlo_set_named(struct sp_arena *arena, struct sp_sharding *axes, struct sp_hlo *hlo,
                                struct sp_error *err)
{
    if (sp_mesh_is_single(axes->mesh)) {
        if (axes->rank > 0 || axes->replicated.count + axes->partial.count + axes->manual.count > 0)
            return sp_fail(err, SP_ERR_MALFORMED, "AXES_ON_SINGLE_DEVICE",
                           "A maximal mesh has one device and no axes, but the sharding has dims or axes.");
        axes->kind = SP_SHARDING_SINGLE;
        axes->device = axes->mesh->order.ids != NULL ? axes->mesh->order.ids[0] : 0;
    } else {
        enum sp_status status = check_named(arena, axes, err);
        if (status != SP_OK)
            return status;
        uint32_t listed = axes->replicated.count + axes->partial.count + axes->manual.count;
        if (axes->rank == 0 && listed == 0)
            axes->kind = SP_SHARDING_REPLICATED;
        else if (axes->rank == 0 && is_whole_mesh(axes->mesh, &axes->partial))
            axes->kind = SP_SHARDING_UNREDUCED;
        else if (axes->rank == 0 && is_whole_mesh(axes->mesh, &axes->manual))
            axes->kind = SP_SHARDING_MANUAL;
    }
    if (axes->partial.count == 0)
        axes->combiner = SP_COMBINE_NONE;
    hlo->type = SP_HLO_OTHER;
    hlo->is_named = true;
    hlo->named = axes;
    return SP_OK;
}
