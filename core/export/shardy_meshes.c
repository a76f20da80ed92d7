#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "export/shardy_meshes.h"
#include "infer/propagate/internal.h"

enum sp_status sp_meshes_begin(struct sp_export_meshes *meshes, struct sp_arena *arena, struct sp_error *err)
{
    *meshes = (struct sp_export_meshes){.arena = arena};
    meshes->items = SP_NEW_ARRAY(arena, SP_MAX_EXPORT_MESHES, struct sp_export_mesh);
    return meshes->items != NULL ? SP_OK : sp_fail_memory(err);
}

/* ---- devices --------------------------------------------------------------------------------------------------- */

SP_ASCENDING_NUMBERS(ascending, int64_t)

static enum sp_status sorted_devices(struct sp_arena *arena, const struct sp_device_order *order, int64_t **ret_devices,
                                     struct sp_error *err)
{
    if (order->count > SP_MAX_DEVICES)
        return sp_fail_limit(err, "TOO_MANY_DEVICES", "SP_MAX_DEVICES", SP_MAX_DEVICES, order->count,
                             "A sharding has %" PRId64 " devices; at most %d can be looked at.", order->count,
                             SP_MAX_DEVICES);
    int64_t *devices = SP_NEW_ARRAY(arena, (size_t)order->count, int64_t);
    if (devices == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < order->count; i++)
        devices[i] = sp_device_order_at(order, i);
    qsort(devices, (size_t)order->count, sizeof *devices, ascending);
    *ret_devices = devices;
    return SP_OK;
}

/* A new mesh over these devices, which are copied. */
static enum sp_status add(struct sp_export_meshes *meshes, int64_t count, const int64_t *devices,
                          struct sp_export_mesh **ret_mesh, struct sp_error *err)
{
    if (meshes->count == SP_MAX_EXPORT_MESHES)
        return sp_fail_limit(err, "TOO_MANY_MESHES", "SP_MAX_EXPORT_MESHES", SP_MAX_EXPORT_MESHES,
                             SP_MAX_EXPORT_MESHES + 1, "The shardings are over more than %d different meshes.",
                             SP_MAX_EXPORT_MESHES);
    int64_t *copy = SP_NEW_ARRAY(meshes->arena, (size_t)count, int64_t);
    if (copy == NULL)
        return sp_fail_memory(err);
    memcpy(copy, devices, (size_t)count * sizeof *copy);
    struct sp_export_mesh *mesh = &meshes->items[meshes->count++];
    *mesh = (struct sp_export_mesh){.count = count, .devices = copy, .single = count == 1 ? copy[0] : -1};
    mesh->is_part = count > 1 && copy[count - 1] != count - 1;
    *ret_mesh = mesh;
    return SP_OK;
}

static struct sp_export_mesh *find(struct sp_export_meshes *meshes, int64_t count, const int64_t *devices)
{
    for (uint32_t i = 0; i < meshes->count; i++) {
        struct sp_export_mesh *mesh = &meshes->items[i];
        if (mesh->source == NULL && mesh->count == count &&
            memcmp(mesh->devices, devices, (size_t)count * sizeof *devices) == 0)
            return mesh;
    }
    return NULL;
}

/* ---- cuts ------------------------------------------------------------------------------------------------------ */

enum sp_status sp_meshes_look(struct sp_export_meshes *meshes, const struct sp_sharding *axes, struct sp_arena *scratch,
                              struct sp_error *err)
{
    struct sp_position_layout layout;
    struct sp_export_mesh *mesh;
    int64_t *devices = NULL;
    uint32_t opponent;
    bool is_ok = false;
    enum sp_status status = sorted_devices(scratch, &axes->mesh->order, &devices, err);
    if (status != SP_OK || devices == NULL)
        return status;
    mesh = find(meshes, axes->mesh->order.count, devices);
    if (mesh == NULL)
        status = add(meshes, axes->mesh->order.count, devices, &mesh, err);
    if (status != SP_OK || mesh == NULL)
        return status;
    if (mesh->single >= 0)
        return SP_OK;
    if (mesh->cuts == NULL && (mesh->cuts = SP_NEW(meshes->arena, struct sp_cuts)) == NULL)
        return sp_fail_memory(err);
    status = sp_layout_create(scratch, axes, NULL, &layout, &is_ok, err);
    if (status == SP_OK && is_ok)
        (void)sp_cuts_add(mesh->cuts, &layout, 0, &opponent); /* what does not fit gets a mesh of its own */
    return status;
}

static enum sp_status name_mesh(struct sp_export_meshes *meshes, struct sp_export_mesh *mesh, struct sp_error *err)
{
    const uint32_t number = (uint32_t)(mesh - meshes->items);
    const char *name = "mesh";
    if (mesh->single >= 0)
        name = sp_arena_printf(meshes->arena, "maximal_mesh_%" PRId64, mesh->single);
    else if (number > 0)
        name = sp_arena_printf(meshes->arena, "mesh_%" PRIu32, number);
    mesh->mesh->name = name;
    return name != NULL ? SP_OK : sp_fail_memory(err);
}

enum sp_status sp_meshes_make(struct sp_export_meshes *meshes, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < meshes->count; i++) {
        struct sp_export_mesh *mesh = &meshes->items[i];
        if (mesh->single >= 0) {
            status = sp_mesh_single(meshes->arena, mesh->single, &mesh->mesh, err);
        } else {
            /* Nothing may have been cut in a way that positions can say: then one axis has all devices. */
            if (mesh->cuts->count == 0)
                *mesh->cuts = (struct sp_cuts){.positions = mesh->count, .count = 2, .cuts = {1, mesh->count}};
            status = sp_cuts_mesh(meshes->arena, mesh->cuts, &mesh->mesh, err);
        }
        if (status == SP_OK)
            status = name_mesh(meshes, mesh, err);
    }
    return status;
}

/* ---- meshes of one sharding ------------------------------------------------------------------------------------ */

/* The mesh's own order, with the devices numbered from 0. */
static enum sp_status renumber(struct sp_export_meshes *meshes, const struct sp_mesh *source,
                               struct sp_export_mesh *mesh, struct sp_error *err)
{
    struct sp_device_order order;
    int64_t *ids = SP_NEW_ARRAY(meshes->arena, (size_t)mesh->count, int64_t);
    if (ids == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < mesh->count; i++) {
        const int64_t device = sp_device_order_at(&source->order, i);
        const int64_t *found = bsearch(&device, mesh->devices, (size_t)mesh->count, sizeof device, ascending);
        ids[i] = found != NULL ? found - mesh->devices : 0;
    }
    enum sp_status status = sp_device_order_list(meshes->arena, mesh->count, ids, &order, err);
    if (status == SP_OK)
        status = sp_mesh_create(meshes->arena, source->axis_count, source->axes, &order, &mesh->mesh, err);
    return status == SP_OK ? name_mesh(meshes, mesh, err) : status;
}

/* A copy that stays: the sharding that has it is in scratch memory. */
static enum sp_status keep_source(struct sp_arena *arena, const struct sp_mesh *source, const struct sp_mesh **ret_mesh,
                                  struct sp_error *err)
{
    struct sp_device_order order;
    struct sp_mesh *mesh;
    int64_t *ids = SP_NEW_ARRAY(arena, (size_t)source->order.count, int64_t);
    if (ids == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < source->order.count; i++)
        ids[i] = sp_device_order_at(&source->order, i);
    enum sp_status status = sp_device_order_list(arena, source->order.count, ids, &order, err);
    if (status == SP_OK)
        status = sp_mesh_create(arena, source->axis_count, source->axes, &order, &mesh, err);
    if (status == SP_OK)
        *ret_mesh = mesh;
    return status;
}

static enum sp_status own_mesh(struct sp_export_meshes *meshes, const struct sp_mesh *source, const int64_t *devices,
                               struct sp_export_mesh **ret_mesh, struct sp_error *err)
{
    for (uint32_t i = 0; i < meshes->count; i++) {
        struct sp_export_mesh *mesh = &meshes->items[i];
        if (mesh->source != NULL && sp_mesh_equal(mesh->source, source, true)) {
            *ret_mesh = mesh;
            return SP_OK;
        }
    }
    enum sp_status status = add(meshes, source->order.count, devices, ret_mesh, err);
    if (status == SP_OK)
        status = keep_source(meshes->arena, source, &(*ret_mesh)->source, err);
    return status == SP_OK ? renumber(meshes, source, *ret_mesh, err) : status;
}

/* ---- shardings ------------------------------------------------------------------------------------------------- */

enum sp_status sp_meshes_place(struct sp_export_meshes *meshes, const struct sp_sharding *axes,
                               struct sp_arena *scratch, const struct sp_sharding **ret_placed, struct sp_error *err)
{
    struct sp_position_layout layout;
    struct sp_sharding *placed = NULL;
    int64_t *devices = NULL;
    bool is_ok = false;
    enum sp_status status = sorted_devices(scratch, &axes->mesh->order, &devices, err);
    struct sp_export_mesh *mesh =
        status == SP_OK && devices != NULL ? find(meshes, axes->mesh->order.count, devices) : NULL;
    if (status == SP_OK && mesh == NULL)
        return sp_fail(err, SP_ERR_INTERNAL, "LOST_MESH", "A sharding was not looked at before it is written.");
    if (status == SP_OK && mesh->single < 0)
        status = sp_layout_create(scratch, axes, NULL, &layout, &is_ok, err);
    if (status == SP_OK && is_ok)
        status = sp_layout_to_axes(scratch, &layout, mesh->mesh, &placed, &is_ok, err);
    if (status == SP_OK && !is_ok) {
        placed = SP_NEW(scratch, struct sp_sharding);
        if (placed == NULL)
            return sp_fail_memory(err);
        *placed = *axes;
        if (mesh->single < 0)
            status = own_mesh(meshes, axes->mesh, devices, &mesh, err);
        placed->mesh = mesh->mesh;
    }
    if (status != SP_OK)
        return status;
    mesh->is_used = true;
    *ret_placed = placed;
    return SP_OK;
}
