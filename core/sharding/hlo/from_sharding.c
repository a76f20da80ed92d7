/* From the common form to the HLO dialect. */
#include <inttypes.h>
#include <string.h>

#include "sharding/convert_forms.h"
#include "sharding/hlo/internal.h"
#include "sharding/internal.h"

/* The devices one by one, for V1. */
static enum sp_status list_order(struct sp_arena *arena, struct sp_device_order *order, struct sp_error *err)
{
    if (order->ids != NULL)
        return SP_OK;
    if (order->count > SP_MAX_LISTED_DEVICES)
        return sp_fail_limit(err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                             order->count,
                             "The sharding has %" PRId64 " devices, too many to list them; V2 of the notation can say "
                             "them.",
                             order->count);
    int64_t *ids = SP_NEW_ARRAY(arena, (size_t)order->count, int64_t);
    if (ids == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < order->count; i++)
        ids[i] = sp_device_order_at(order, i);
    return sp_device_order_list(arena, order->count, ids, order, err);
}

static bool splits_nothing(const struct sp_sharding *axes)
{
    if (axes->partial.count > 0 || axes->manual.count > 0)
        return false;
    for (uint32_t i = 0; i < axes->rank; i++) {
        if (axes->dims[i].axes.count > 0)
            return false;
    }
    return true;
}

/* Tile dims and subgroups: a group that some list names is written even when it is of size 1, as XLA does. */
static enum sp_status set_dims(struct sp_arena *arena, const struct sp_sharding *axes, const int64_t *sizes,
                               struct sp_hlo *hlo, struct sp_error *err)
{
    int64_t *dims = SP_NEW_ARRAY(arena, (size_t)axes->rank + 3, int64_t);
    enum sp_hlo_type *subgroups = SP_NEW_ARRAY(arena, 3, enum sp_hlo_type);
    if (dims == NULL || subgroups == NULL)
        return sp_fail_memory(err);
    memcpy(dims, sizes, axes->rank * sizeof *dims);
    hlo->dim_count = axes->rank;
    const struct {
        bool is_there;
        enum sp_hlo_type type;
    } groups[] = {
        {axes->manual.count > 0, SP_HLO_MANUAL},
        {axes->partial.count > 0, SP_HLO_UNREDUCED},
        {sizes[axes->rank + 2] > 1, SP_HLO_REPLICATED},
    };
    for (uint32_t i = 0; i < 3; i++) {
        if (!groups[i].is_there)
            continue;
        dims[hlo->dim_count++] = sizes[axes->rank + i];
        subgroups[hlo->subgroup_count++] = groups[i].type;
    }
    hlo->dims = dims;
    hlo->subgroups = subgroups;
    return SP_OK;
}

/* V1 and V2. */
static enum sp_status to_tiles(struct sp_arena *arena, const struct sp_sharding *axes, enum sp_hlo_version version,
                               struct sp_hlo *hlo, struct sp_losses *losses, struct sp_error *err)
{
    int64_t sizes[SP_MAX_RANK + 3];
    enum sp_status status = sp_note_mesh_losses(arena, axes, "versions 1 and 2 of OpSharding", losses, err);
    if (status != SP_OK)
        return status;
    if (sp_mesh_is_single(axes->mesh)) {
        hlo->type = SP_HLO_MAXIMAL;
        hlo->order = axes->mesh->order;
        return list_order(arena, &hlo->order, err);
    }
    if (splits_nothing(axes)) {
        hlo->type = SP_HLO_REPLICATED;
        return SP_OK;
    }
    hlo->type = SP_HLO_OTHER;
    hlo->combiner = axes->combiner == SP_COMBINE_NONE ? SP_COMBINE_SUM : axes->combiner;
    status = sp_sharding_device_array(arena, axes, sizes, &hlo->order, err);
    if (status == SP_OK)
        status = set_dims(arena, axes, sizes, hlo, err);
    /* All axes in use are of size 1. */
    if (status == SP_OK && hlo->order.count == 1 && hlo->subgroup_count == 0) {
        sp_hlo_make_plain(hlo, SP_HLO_REPLICATED);
        return SP_OK;
    }
    bool is_listed = version == SP_HLO_V1 || (version == SP_HLO_AUTO && hlo->order.count <= SP_HLO_LISTED_DEVICES);
    if (status == SP_OK && is_listed)
        status = list_order(arena, &hlo->order, err);
    return status == SP_OK ? sp_hlo_normalize(arena, hlo, err) : status;
}

/* A mesh as V3 has them: the devices 0..N-1, listed only when they are in another order. NULL for other devices. */
static enum sp_status fit_mesh(struct sp_arena *arena, const struct sp_mesh *mesh, struct sp_mesh **ret_mesh,
                               struct sp_error *err)
{
    struct sp_mesh *copy = SP_NEW(arena, struct sp_mesh);
    if (copy == NULL)
        return sp_fail_memory(err);
    *copy = *mesh;
    *ret_mesh = sp_mesh_is_single(mesh) || sp_device_order_is_permutation(&mesh->order) ? copy : NULL;
    if (*ret_mesh == NULL || sp_mesh_is_single(mesh) || !sp_device_order_is_range(&mesh->order))
        return SP_OK;
    return sp_device_order_range(arena, mesh->order.count, &copy->order, err);
}

/* V3. */
static enum sp_status to_named(struct sp_arena *arena, const struct sp_sharding *axes, struct sp_hlo *hlo,
                               struct sp_losses *losses, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    struct sp_sharding *copy = SP_NEW(arena, struct sp_sharding);
    struct sp_dim_sharding *dims = SP_NEW_ARRAY(arena, axes->rank, struct sp_dim_sharding);
    struct sp_mesh *mesh = NULL;
    if (copy == NULL || dims == NULL)
        return sp_fail_memory(err);
    status = fit_mesh(arena, axes->mesh, &mesh, err);
    if (status != SP_OK)
        return status;
    if (mesh == NULL)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "MESH_NEEDS_ALL_DEVICES",
                       "A mesh of version 3 of OpSharding holds the devices 0 to %" PRId64
                       " in some order, but this one holds others; version 1 can list them.",
                       axes->mesh->order.count - 1);
    *copy = *axes;
    copy->mesh = mesh;
    copy->dims = dims;
    for (uint32_t i = 0; i < axes->rank && status == SP_OK; i++) {
        dims[i] = axes->dims[i];
        dims[i].has_priority = false;
        dims[i].priority = 0;
        if (axes->dims[i].has_priority)
            status =
                sp_losses_add(arena, losses, err, "PRIORITIES_LOST",
                              "The priority %" PRId64 " of axis %" PRIu32 " cannot be said in version 3 of OpSharding.",
                              axes->dims[i].priority, i);
    }
    if (status != SP_OK)
        return status;
    if (sp_mesh_is_single(mesh)) {
        copy->rank = 0; /* a single device holds every dim whole */
        copy->replicated.count = copy->partial.count = copy->manual.count = 0;
        return sp_hlo_set_named(arena, copy, hlo, err);
    }
    return sp_hlo_set_named(arena, copy, hlo, err);
}

/* Kinds that know no rank, as V3: on their mesh, or where none is needed without one. *ret_done is false otherwise. */
static enum sp_status plain_to_named(struct sp_arena *arena, const struct sp_sharding *sharding, struct sp_hlo *hlo,
                                     bool *ret_done, struct sp_error *err)
{
    struct sp_mesh *mesh = NULL;
    enum sp_status status = SP_OK;
    struct sp_sharding *copy = SP_NEW(arena, struct sp_sharding);
    if (copy == NULL)
        return sp_fail_memory(err);
    if (sharding->kind == SP_SHARDING_SINGLE)
        status = sp_mesh_single(arena, sharding->device, &mesh, err);
    else if (sharding->mesh != NULL)
        status = fit_mesh(arena, sharding->mesh, &mesh, err);
    if (status == SP_OK && mesh == NULL && sharding->kind == SP_SHARDING_REPLICATED)
        status = sp_mesh_empty(arena, &mesh, err);
    *ret_done = mesh != NULL && sharding->kind != SP_SHARDING_UNKNOWN;
    if (status != SP_OK || !*ret_done)
        return status;
    *copy = *sharding;
    copy->mesh = mesh;
    hlo->type = SP_HLO_OTHER;
    hlo->is_named = true;
    hlo->named = copy;
    return SP_OK;
}

static enum sp_status convert_plain(struct sp_arena *arena, const struct sp_sharding *sharding, bool is_named,
                                    struct sp_hlo *hlo, struct sp_error *err)
{
    bool done = false;
    enum sp_status status = is_named ? plain_to_named(arena, sharding, hlo, &done, err) : SP_OK;
    if (status != SP_OK || done)
        return status;
    switch ((int)sharding->kind) {
    case SP_SHARDING_REPLICATED:
        hlo->type = SP_HLO_REPLICATED;
        return SP_OK;
    case SP_SHARDING_MANUAL:
        hlo->type = SP_HLO_MANUAL;
        return SP_OK;
    case SP_SHARDING_UNREDUCED:
        hlo->type = SP_HLO_UNREDUCED;
        hlo->combiner = sharding->combiner == SP_COMBINE_NONE ? SP_COMBINE_SUM : sharding->combiner;
        return SP_OK;
    case SP_SHARDING_SINGLE:
        hlo->type = SP_HLO_MAXIMAL;
        return sp_hlo_list_order(arena, 1, &sharding->device, &hlo->order, err);
    default:
        hlo->type = SP_HLO_UNKNOWN;
        return SP_OK;
    }
}

/* Whether OpSharding has a word for how summands are combined, if there are any. */
static bool has_combiner(const struct sp_sharding *sharding)
{
    bool is_partial =
        sharding->kind == SP_SHARDING_UNREDUCED || (sharding->kind == SP_SHARDING_AXES && sharding->partial.count > 0);
    return !is_partial || sharding->combiner <= SP_COMBINE_MIN;
}

static enum sp_status convert_leaf(struct sp_arena *arena, const struct sp_sharding *sharding,
                                   const struct sp_dialect_context *context, struct sp_hlo *ret_hlo,
                                   struct sp_losses *losses, struct sp_error *err)
{
    const struct sp_dialect_context any_devices = {.rank = context->rank, .shape = context->shape};
    const enum sp_hlo_version version = (enum sp_hlo_version)context->hlo_version;
    struct sp_hlo hlo = {0};
    struct sp_sharding *axes = NULL;
    enum sp_status status = SP_OK;
    if (sharding->kind == SP_SHARDING_BLOCKS) {
        status = sp_sharding_to_axes(arena, sharding, &any_devices, &axes, losses, err);
        if (status == SP_OK)
            sharding = axes;
    }
    if (status == SP_OK)
        status = sp_sharding_check_rank(sharding, (uint32_t)context->rank, err);
    if (status != SP_OK)
        return status;
    if (!has_combiner(sharding))
        return sp_fail(err, SP_ERR_UNSUPPORTED, "COMBINER_LOST",
                       "OpSharding combines partial values as sum, max or min only.");
    if (sharding->kind != SP_SHARDING_AXES)
        status = convert_plain(arena, sharding, version == SP_HLO_V3, &hlo, err);
    else if (version == SP_HLO_V3)
        status = to_named(arena, sharding, &hlo, losses, err);
    else
        status = to_tiles(arena, sharding, version, &hlo, losses, err);
    if (status == SP_OK)
        *ret_hlo = hlo;
    return status;
}

static uint32_t own_rank(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_AXES || sharding->kind == SP_SHARDING_BLOCKS ? sharding->rank : 0;
}

enum sp_status sp_hlo_from_sharding(struct sp_arena *arena, const struct sp_sharding *sharding,
                                    const struct sp_dialect_context *context, struct sp_hlo **ret_hlo,
                                    struct sp_losses *losses, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    struct sp_hlo *hlo = SP_NEW(arena, struct sp_hlo);
    if (hlo == NULL)
        return sp_fail_memory(err);
    if (sharding->kind != SP_SHARDING_TUPLE) {
        status = convert_leaf(arena, sharding, context, hlo, losses, err);
    } else {
        struct sp_hlo *elements = SP_NEW_ARRAY(arena, sharding->element_count, struct sp_hlo);
        if (elements == NULL)
            return sp_fail_memory(err);
        for (uint32_t i = 0; i < sharding->element_count && status == SP_OK; i++) {
            const struct sp_dialect_context own = {.rank = own_rank(&sharding->elements[i]),
                                                   .hlo_version = context->hlo_version};
            status = convert_leaf(arena, &sharding->elements[i], &own, &elements[i], losses, err);
        }
        hlo->type = SP_HLO_TUPLE;
        hlo->element_count = sharding->element_count;
        hlo->elements = elements;
    }
    if (status == SP_OK)
        *ret_hlo = hlo;
    return status;
}
