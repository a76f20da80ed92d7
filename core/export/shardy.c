/*
 * An MLIR module with the meshes and the shardings of every value.
 *
 *   module attributes {
 *     shardplan.values = {
 *       "x" = #sdy.sharding<@mesh, [{"axis_0"}, {}]>
 *     },
 *     shardplan.uses = [
 *       {node = "MatMul_1", operand = 0 : i64, value = "x", sharding = #sdy.sharding<@mesh, [{}, {}]>}
 *     ]
 *   } {
 *     sdy.mesh @mesh = <["axis_0"=2]>
 *   }
 *
 * A mesh of Shardy holds the devices 0 .. N-1 in some order. A mesh of other devices (a stage of a pipeline) is written
 * as stages are written for multi-program runs: with devices of its own from 0, in the order of theirs; a comment
 * beside it lists which those are.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/internal.h"
#include "sharding/dialect.h"

struct mesh {
    struct sp_mesh *mesh;   /* named, as it is written */
    const int64_t *devices; /* of a mesh of its own numbers: ascending; NULL: 0 .. N-1 */
    const struct sp_mesh *source;
    int64_t single; /* the device of a maximal mesh, -1 for others */
};

struct shardy {
    struct sp_arena *arena;
    uint32_t count;
    struct mesh *meshes;
    bool has_values; /* one was written: a comma comes first */
    bool writes_uses;
};

/* ---- meshes ---------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Numbers the devices of an order from 0, in their order. */
static enum sp_status renumber(struct sp_arena *arena, const struct sp_device_order *order, const int64_t **ret_devices,
                               struct sp_device_order *ret_order, struct sp_error *err)
{
    int64_t *devices = SP_NEW_ARRAY(arena, (size_t)order->count, int64_t);
    int64_t *ids = SP_NEW_ARRAY(arena, (size_t)order->count, int64_t);
    if (devices == NULL || ids == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < order->count; i++)
        devices[i] = sp_device_order_at(order, i);
    qsort(devices, (size_t)order->count, sizeof *devices, ascending);
    bool is_range = true;
    for (int64_t i = 0; i < order->count; i++) {
        const int64_t device = sp_device_order_at(order, i);
        const int64_t *found = bsearch(&device, devices, (size_t)order->count, sizeof *devices, ascending);
        ids[i] = found != NULL ? found - devices : 0;
        is_range = is_range && ids[i] == i;
    }
    *ret_devices = devices;
    if (is_range)
        return sp_device_order_range(arena, order->count, ret_order, err);
    return sp_device_order_list(arena, order->count, ids, ret_order, err);
}

static enum sp_status add_mesh(struct shardy *all, const struct sp_mesh *source, int64_t single,
                               const struct mesh **ret_mesh, struct sp_error *err)
{
    struct mesh *mesh = &all->meshes[all->count];
    struct sp_device_order order = source->order;
    enum sp_status status = SP_OK;
    if (all->count == SP_MAX_EXPORT_MESHES)
        return sp_fail_limit(err, "TOO_MANY_MESHES", "SP_MAX_EXPORT_MESHES", SP_MAX_EXPORT_MESHES,
                             SP_MAX_EXPORT_MESHES + 1, "The shardings are over more than %d different meshes.",
                             SP_MAX_EXPORT_MESHES);
    *mesh = (struct mesh){.single = single, .source = source};
    if (single < 0 && !sp_device_order_is_permutation(&source->order))
        status = renumber(all->arena, &source->order, &mesh->devices, &order, err);
    if (status == SP_OK)
        status = sp_mesh_create(all->arena, source->axis_count, source->axes, &order, &mesh->mesh, err);
    if (status != SP_OK)
        return status;
    mesh->mesh->name = single >= 0      ? sp_arena_printf(all->arena, "maximal_mesh_%" PRId64, single)
                       : all->count > 0 ? sp_arena_printf(all->arena, "mesh_%u", all->count)
                                        : "mesh";
    if (mesh->mesh->name == NULL)
        return sp_fail_memory(err);
    all->count++;
    *ret_mesh = mesh;
    return SP_OK;
}

/* The mesh that is written for this one. */
static enum sp_status find_mesh(struct shardy *all, const struct sp_mesh *source, const struct mesh **ret_mesh,
                                struct sp_error *err)
{
    const bool is_single = source->order.count == 1;
    const int64_t single = is_single ? sp_device_order_at(&source->order, 0) : -1;
    struct sp_mesh *kept = NULL;
    for (uint32_t i = 0; i < all->count; i++) {
        const struct mesh *mesh = &all->meshes[i];
        if (is_single ? mesh->single == single : mesh->single < 0 && sp_mesh_equal(mesh->source, source, true)) {
            *ret_mesh = mesh;
            return SP_OK;
        }
    }
    if (is_single)
        return sp_mesh_single(all->arena, single, &kept, err) == SP_OK ? add_mesh(all, kept, single, ret_mesh, err)
                                                                       : err->status;
    enum sp_status status = sp_mesh_create(all->arena, source->axis_count, source->axes, NULL, &kept, err);
    if (status == SP_OK && source->order.ids != NULL)
        status = sp_device_order_list(all->arena, source->order.count, source->order.ids, &kept->order, err);
    else if (status == SP_OK && !sp_device_order_is_range(&source->order)) {
        int64_t perm[SP_MAX_SHARDING_AXES];
        for (uint32_t i = 0; i < source->order.rank; i++)
            perm[i] = source->order.perm[i];
        status = sp_device_order_iota(all->arena, source->order.rank, source->order.dims, perm, &kept->order, err);
    }
    return status == SP_OK ? add_mesh(all, kept, -1, ret_mesh, err) : status;
}

static void write_mesh(struct export *out, const struct mesh *mesh, struct sp_buf *text)
{
    sp_buf_clear(text);
    sp_shardy_write_mesh(mesh->mesh, text);
    export_printf(out, "  sdy.mesh @%s = ", mesh->mesh->name);
    export_text(out, text->data);
    if (mesh->devices != NULL) {
        export_text(out, "  // devices");
        for (int64_t i = 0; i < mesh->mesh->order.count; i++)
            export_printf(out, "%s %" PRId64, i > 0 ? "," : "", mesh->devices[i]);
    }
    export_text(out, "\n");
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

/* A string of MLIR: bytes that are not printable ASCII as two hexadecimal digits. */
static void write_string(struct export *out, const char *text)
{
    export_text(out, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c < 0x20 || *c >= 0x7f || *c == '"' || *c == '\\')
            export_printf(out, "\\%02X", *c);
        else
            export_bytes(out, c, 1);
    }
    export_text(out, "\"");
}

/* `text` is the sharding as an attribute. */
static void write_entry(struct export *out, struct shardy *all, const struct export_value *item, const char *text)
{
    export_text(out, all->has_values ? ",\n    " : "\n    ");
    all->has_values = true;
    if (!all->writes_uses) {
        write_string(out, item->value->name);
        export_text(out, " = ");
        export_text(out, text);
        return;
    }
    export_text(out, "{node = ");
    write_string(out, item->node->name);
    export_printf(out, ", operand = %u : i64, value = ", item->operand);
    write_string(out, item->value->name);
    export_text(out, ", sharding = ");
    export_text(out, text);
    export_text(out, "}");
}

static enum sp_status write_value(struct export *out, const struct export_value *item, void *context,
                                  struct sp_error *err)
{
    struct shardy *all = context;
    struct sp_sharding *axes = NULL;
    const struct mesh *mesh = NULL;
    struct sp_error why = {0};
    struct sp_buf text;
    if (item->is_other != all->writes_uses)
        return SP_OK;
    sp_buf_init(&text, SP_MAX_ANSWER_BYTES);
    enum sp_status status = sp_sharding_to_axes(out->scratch, item->sharding, item->rank, item->shape,
                                                out->subject->device_count, &axes, NULL, &why);
    if (status == SP_OK)
        status = find_mesh(all, axes->mesh, &mesh, &why);
    if (status == SP_OK) {
        axes->mesh = mesh->mesh;
        status = sp_shardy_write(axes, false, &text, &why);
    }
    if (status == SP_OK && sp_buf_failed(&text))
        status = sp_fail_memory(&why);
    if (status == SP_OK)
        write_entry(out, all, item, text.data);
    sp_buf_release(&text);
    if (status == SP_ERR_UNSUPPORTED)
        return export_note(out, why.code, item->node, err, "'%.200s' is left out: %s", item->value->name, why.message);
    if (status != SP_OK && err != NULL)
        *err = why;
    return status;
}

/* ---- the module ------------------------------------------------------------------------------------------------ */

static enum sp_status note_meshes(struct export *out, const struct shardy *all, struct sp_error *err)
{
    for (uint32_t i = 0; i < all->count; i++) {
        if (all->meshes[i].devices != NULL)
            return export_note(out, "MESH_OF_A_PART", NULL, err,
                               "Some meshes hold a part of the devices, which a mesh of Shardy cannot say: they are "
                               "numbered from 0, and a comment lists the devices.");
    }
    return SP_OK;
}

enum sp_status export_shardy(struct export *out, struct sp_error *err)
{
    struct shardy all = {.arena = sp_arena_create(sp_arena_budget(out->scratch))};
    struct sp_buf text;
    enum sp_status status = SP_OK;
    sp_buf_init(&text, SP_MAX_ANSWER_BYTES);
    if (all.arena == NULL || (all.meshes = SP_NEW_ARRAY(all.arena, SP_MAX_EXPORT_MESHES, struct mesh)) == NULL)
        status = sp_fail_memory(err);
    export_text(out, "module attributes {\n  shardplan.values = {");
    if (status == SP_OK)
        status = export_values(out, write_value, &all, err);
    export_text(out, "\n  },\n  shardplan.uses = [");
    all.writes_uses = true;
    all.has_values = false;
    if (status == SP_OK)
        status = export_values(out, write_value, &all, err);
    export_text(out, "\n  ]\n} {\n");
    for (uint32_t i = 0; status == SP_OK && i < all.count; i++)
        write_mesh(out, &all.meshes[i], &text);
    export_text(out, "}\n");
    if (status == SP_OK && sp_buf_failed(&text))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = note_meshes(out, &all, err);
    sp_buf_release(&text);
    sp_arena_destroy(all.arena);
    return status;
}
