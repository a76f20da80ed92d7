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
 *     func.func @main(..) -> (..) {..}
 *   }
 *
 * This table has the names of values; passes read the function behind it (shardy_function.h), whose arguments, results and
 * operators state the same shardings.
 *
 * A mesh of Shardy holds the devices 0 .. N-1 in some order. A mesh of other devices (a stage of a pipeline) is written
 * as stages are written for multi-program runs: with devices of its own from 0, in the order of theirs; a comment
 * beside it lists which those are.
 */
#include <inttypes.h>

#include "base/array.h"
#include "export/shardy_function.h"
#include "export/shardy_meshes.h"
#include "sharding/dialect.h"

struct shardy {
    struct sp_export_meshes meshes;
    bool has_values; /* one was written: a comma comes first */
    bool writes_uses;
    bool is_over; /* the table is written, and the function's texts are looked for */
    struct sp_arena *arena;
    struct sp_shardy_function function;
};

static void write_mesh(struct sp_export *out, const struct sp_export_mesh *mesh, struct sp_buf *text)
{
    sp_buf_clear(text);
    sp_shardy_write_mesh(mesh->mesh, text);
    if (!mesh->is_used || sp_buf_failed(text))
        return;
    sp_export_printf(out, "  sdy.mesh @%s = ", mesh->mesh->name);
    sp_export_text(out, text->data);
    if (mesh->is_part) {
        sp_export_text(out, "  // devices");
        for (int64_t i = 0; i < mesh->count; i++)
            sp_export_printf(out, "%s %" PRId64, i > 0 ? "," : "", mesh->devices[i]);
    }
    sp_export_text(out, "\n");
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

/* A string of MLIR: bytes that are not printable ASCII as two hexadecimal digits. */
static void write_string(struct sp_export *out, const char *text)
{
    sp_export_text(out, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c < 0x20 || *c >= 0x7f || *c == '"' || *c == '\\')
            sp_export_printf(out, "\\%02X", *c);
        else
            sp_export_bytes(out, c, 1);
    }
    sp_export_text(out, "\"");
}

/* `text` is the sharding as an attribute. */
static void write_entry(struct sp_export *out, struct shardy *all, const struct sp_export_value *item, const char *text)
{
    sp_export_text(out, all->has_values ? ",\n    " : "\n    ");
    all->has_values = true;
    if (!all->writes_uses) {
        write_string(out, item->value->name);
        sp_export_text(out, " = ");
        sp_export_text(out, text);
        return;
    }
    sp_export_text(out, "{node = ");
    write_string(out, item->node->name);
    sp_export_printf(out, ", operand = %u : i64, value = ", item->operand);
    write_string(out, item->value->name);
    sp_export_text(out, ", sharding = ");
    sp_export_text(out, text);
    sp_export_text(out, "}");
}

/* Keeps the text for the function. */
static enum sp_status keep_entry(struct shardy *all, const struct sp_export_value *item, const char *text,
                                 struct sp_error *err)
{
    const char *kept = sp_arena_string(all->arena, text, strlen(text));
    struct sp_shardy_function *function = &all->function;
    if (kept == NULL)
        return sp_fail_memory(err);
    if (!item->is_other) {
        function->of[item->value->id] = kept;
        return SP_OK;
    }
    if (!SP_MAKE_ROOM(all->arena, function->uses, function->use_count, function->use_capacity, 1))
        return sp_fail_memory(err);
    function->uses[function->use_count++] = (struct sp_shardy_use){item->node->index, item->operand, kept};
    return SP_OK;
}

static enum sp_status axes_of(struct sp_export *out, const struct sp_export_value *item, struct sp_sharding **ret_axes,
                              struct sp_error *err)
{
    const struct sp_dialect_context context = {
        .rank = item->rank, .shape = item->shape, .device_count = out->subject->device_count};
    return sp_sharding_to_axes(out->scratch, item->sharding, &context, ret_axes, NULL, err);
}

static enum sp_status look_at_value(struct sp_export *out, const struct sp_export_value *item, void *context,
                                    struct sp_error *err)
{
    struct shardy *all = context;
    struct sp_sharding *axes = NULL;
    struct sp_error why = {0};
    if (item->sharding == all->meshes.last)
        return SP_OK;
    enum sp_status status = axes_of(out, item, &axes, &why);
    if (status == SP_OK)
        status = sp_meshes_look(&all->meshes, axes, out->scratch, &why);
    if (status == SP_OK)
        all->meshes.last = item->sharding;
    if (status == SP_ERR_UNSUPPORTED)
        return SP_OK; /* it is told when it is to be written */
    if (status != SP_OK && err != NULL)
        *err = why;
    return status;
}

static enum sp_status write_value(struct sp_export *out, const struct sp_export_value *item, void *context,
                                  struct sp_error *err)
{
    struct shardy *all = context;
    struct sp_sharding *axes = NULL;
    const struct sp_sharding *placed = NULL;
    struct sp_error why = {0};
    struct sp_buf text;
    if (!all->is_over && item->is_other != all->writes_uses)
        return SP_OK;
    sp_buf_init(&text, SP_MAX_ANSWER_BYTES);
    enum sp_status status = axes_of(out, item, &axes, &why);
    if (status == SP_OK)
        status = sp_meshes_place(&all->meshes, axes, out->scratch, &placed, &why);
    if (status == SP_OK)
        status = sp_shardy_write(placed, false, &text, &why);
    if (status == SP_OK && all->is_over)
        status = keep_entry(all, item, text.data, &why);
    else if (status == SP_OK)
        write_entry(out, all, item, text.data);
    sp_buf_release(&text);
    if (status == SP_ERR_UNSUPPORTED && all->is_over)
        return SP_OK; /* it was told with the table */
    if (status == SP_ERR_UNSUPPORTED)
        return sp_export_note(out, why.code, item->node, err, "'%.200s' is left out: %s", item->value->name,
                              why.message);
    if (status != SP_OK && err != NULL)
        *err = why;
    return status;
}

/* ---- the module ------------------------------------------------------------------------------------------------ */

static enum sp_status note_meshes(struct sp_export *out, const struct sp_export_meshes *meshes, struct sp_error *err)
{
    for (uint32_t i = 0; i < meshes->count; i++) {
        if (meshes->items[i].is_part && meshes->items[i].is_used)
            return sp_export_note(out, "MESH_OF_A_PART", NULL, err,
                                  "Some meshes hold a part of the devices, which a mesh of Shardy cannot say: they are "
                                  "numbered from 0, and a comment lists the devices.");
    }
    return SP_OK;
}

static enum sp_status write_module(struct sp_export *out, struct shardy *all, struct sp_error *err)
{
    enum sp_status status;
    sp_export_text(out, "module attributes {\n  shardplan.values = {");
    status = sp_export_values(out, write_value, all, err);
    sp_export_text(out, "\n  },\n  shardplan.uses = [");
    all->writes_uses = true;
    all->has_values = false;
    if (status == SP_OK)
        status = sp_export_values(out, write_value, all, err);
    sp_export_text(out, "\n  ]\n} {\n");
    return status;
}

static enum sp_status write_function(struct sp_export *out, struct shardy *all, struct sp_error *err)
{
    all->is_over = true;
    all->function.of = SP_NEW_ARRAY(all->arena, out->subject->model->graph->value_count, const char *);
    if (all->function.of == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_export_values(out, write_value, all, err);
    return status == SP_OK ? sp_shardy_write_function(out, &all->function, err) : status;
}

enum sp_status sp_export_shardy(struct sp_export *out, struct sp_error *err)
{
    struct shardy all = {0};
    struct sp_buf text;
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(out->scratch));
    enum sp_status status = arena != NULL ? sp_meshes_begin(&all.meshes, arena, err) : sp_fail_memory(err);
    sp_buf_init(&text, SP_MAX_ANSWER_BYTES);
    all.arena = arena;
    if (status == SP_OK)
        status = sp_export_values(out, look_at_value, &all, err);
    if (status == SP_OK)
        status = sp_meshes_make(&all.meshes, err);
    if (status == SP_OK)
        status = write_module(out, &all, err);
    for (uint32_t i = 0; status == SP_OK && i < all.meshes.count; i++)
        write_mesh(out, &all.meshes.items[i], &text);
    if (status == SP_OK)
        status = write_function(out, &all, err);
    sp_export_text(out, "}\n");
    if (status == SP_OK && sp_buf_failed(&text))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = note_meshes(out, &all.meshes, err);
    if (status == SP_OK)
        status = sp_export_note_inner(out, err);
    sp_buf_release(&text);
    sp_arena_destroy(arena);
    return status;
}
