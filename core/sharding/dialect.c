/* One front for the five notations: text in, sharding out, and back. */
#include <inttypes.h>
#include <string.h>

#include "sharding/hlo/hlo.h"
#include "sharding/internal.h"
#include "sharding/ort/internal.h"
#include "sharding/shardy/internal.h"

static const struct sp_dialect_context no_context = {.rank = -1};

static const char *const names[SP_DIALECT_COUNT] = {
    [SP_DIALECT_ONNX] = "onnx", [SP_DIALECT_ORT] = "ort",       [SP_DIALECT_OP_SHARDING] = "op-sharding",
    [SP_DIALECT_HLO] = "hlo",   [SP_DIALECT_SHARDY] = "shardy",
};

const char *sp_dialect_name(enum sp_dialect dialect)
{
    return names[dialect];
}

bool sp_dialect_parse(const char *name, enum sp_dialect *ret_dialect)
{
    for (int i = 0; i < SP_DIALECT_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            *ret_dialect = (enum sp_dialect)i;
            return true;
        }
    }
    return false;
}

static enum sp_status check_context(const struct sp_dialect_context *context, struct sp_error *err)
{
    if (context->rank > SP_MAX_RANK)
        return sp_fail_limit(err, "RANK_TOO_LARGE", "SP_MAX_RANK", SP_MAX_RANK, context->rank,
                             "A tensor may have at most %d axes.", SP_MAX_RANK);
    for (int64_t i = 0; context->shape != NULL && i < context->rank; i++) {
        if (context->shape[i] < -1)
            return sp_fail(err, SP_ERR_REQUEST, "BAD_EXTENT",
                           "The extent of axis %" PRId64 " is %" PRId64 ", which is negative.", i, context->shape[i]);
    }
    return SP_OK;
}

/* ---- reading ---- */

static enum sp_status read_onnx(struct sp_arena *arena, const char *text, size_t size,
                                const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                                struct sp_losses *losses, struct sp_error *err)
{
    struct sp_sharding_spec spec;
    enum sp_status status = sp_onnx_spec_read_json(arena, text, size, &spec, err);
    return status == SP_OK ? sp_onnx_spec_to_sharding(arena, &spec, context, ret_sharding, losses, err) : status;
}

static enum sp_status read_ort(struct sp_arena *arena, const char *text, size_t size,
                               const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                               struct sp_error *err)
{
    struct sp_ort_spec spec;
    enum sp_status status = sp_ort_read_text(arena, text, size, &spec, err);
    return status == SP_OK ? sp_ort_to_sharding(arena, &spec, context, ret_sharding, err) : status;
}

static enum sp_status read_hlo(struct sp_arena *arena, bool is_text, const char *text, size_t size,
                               struct sp_sharding **ret_sharding, struct sp_losses *losses, struct sp_error *err)
{
    struct sp_hlo *hlo;
    enum sp_status status =
        is_text ? sp_hlo_read_text(arena, text, size, &hlo, err) : sp_hlo_read_attribute(arena, text, size, &hlo, err);
    return status == SP_OK ? sp_hlo_to_sharding(arena, hlo, ret_sharding, losses, err) : status;
}

enum sp_status sp_dialect_read(struct sp_arena *arena, const struct sp_dialect_text *given,
                               const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                               struct sp_losses *losses, struct sp_error *err)
{
    const struct sp_dialect_context *used = context == NULL ? &no_context : context;
    const char *text = given->text;
    const size_t size = given->size;
    struct sp_sharding *sharding = NULL;
    enum sp_status status = check_context(used, err);
    if (status != SP_OK)
        return status;
    switch (given->dialect) {
    case SP_DIALECT_ONNX:
        status = read_onnx(arena, text, size, used, &sharding, losses, err);
        break;
    case SP_DIALECT_ORT:
        status = read_ort(arena, text, size, used, &sharding, err);
        break;
    case SP_DIALECT_OP_SHARDING:
        status = read_hlo(arena, false, text, size, &sharding, losses, err);
        break;
    case SP_DIALECT_HLO:
        status = read_hlo(arena, true, text, size, &sharding, losses, err);
        break;
    case SP_DIALECT_SHARDY:
        status = sp_shardy_read(arena, text, size, used, &sharding, err);
        break;
    default:
        return sp_fail(err, SP_ERR_REQUEST, "DIALECT_UNKNOWN", "There is no such notation of shardings.");
    }
    if (status == SP_OK)
        status = sp_sharding_check(sharding, used->rank, used->shape, used->device_count, err);
    if (status == SP_OK)
        *ret_sharding = sharding;
    return status;
}

/* ---- writing ---- */

static enum sp_status write_onnx(struct sp_arena *arena, const struct sp_sharding *sharding,
                                 const struct sp_dialect_context *context, struct sp_buf *buf, struct sp_losses *losses,
                                 struct sp_error *err)
{
    struct sp_sharding_spec spec;
    struct sp_json json;
    enum sp_status status = sp_onnx_spec_from_sharding(arena, sharding, context, &spec, losses, err);
    if (status != SP_OK)
        return status;
    sp_json_init_buf(&json, false, buf);
    sp_onnx_spec_write_json(&spec, &json);
    return sp_json_finish(&json, NULL) == SP_OK ? SP_OK : sp_fail_memory(err);
}

static enum sp_status write_ort(struct sp_arena *arena, const struct sp_sharding *sharding,
                                const struct sp_dialect_context *context, struct sp_buf *buf, struct sp_losses *losses,
                                struct sp_error *err)
{
    struct sp_ort_spec spec;
    enum sp_status status = sp_ort_from_sharding(arena, sharding, context, &spec, losses, err);
    if (status == SP_OK)
        sp_ort_write_text(&spec, buf);
    return status;
}

static bool is_of_kind(const struct sp_hlo *hlo, enum sp_hlo_type type, enum sp_sharding_kind kind)
{
    return hlo->is_named ? hlo->named->kind == kind : hlo->type == type;
}

/* {replicated} and its like mean whatever devices there are; which ones it were is noted unless these are all. */
static enum sp_status note_devices(struct sp_arena *arena, const struct sp_sharding *sharding,
                                   const struct sp_dialect_context *context, const struct sp_hlo *hlo,
                                   struct sp_losses *losses, struct sp_error *err)
{
    struct sp_error unknown = {SP_OK};
    int64_t count;
    const int64_t *devices;
    bool names_none = is_of_kind(hlo, SP_HLO_REPLICATED, SP_SHARDING_REPLICATED) ||
                      is_of_kind(hlo, SP_HLO_UNREDUCED, SP_SHARDING_UNREDUCED) ||
                      is_of_kind(hlo, SP_HLO_MANUAL, SP_SHARDING_MANUAL);
    if (!names_none || (sharding->kind != SP_SHARDING_AXES && sharding->kind != SP_SHARDING_BLOCKS))
        return SP_OK;
    if (sp_sharding_devices(arena, sharding, 0, &count, &devices, &unknown) != SP_OK || count == 0)
        return unknown.status == SP_ERR_MEMORY ? sp_fail_memory(err) : SP_OK;
    if (devices[count - 1] == count - 1 && (context->device_count == 0 || context->device_count == count))
        return SP_OK;
    return sp_losses_add(arena, losses, err, "DEVICES_LOST",
                         "The tensor is on %" PRId64 " devices, of which the largest number is %" PRId64
                         "; written without devices it is on all that the program has.",
                         count, devices[count - 1]);
}

/* XLA prints {unreduced=max}, but nobody reads it. */
static enum sp_status check_text(const struct sp_hlo *hlo, struct sp_error *err)
{
    for (uint32_t i = 0; i < (hlo->type == SP_HLO_TUPLE ? hlo->element_count : 1); i++) {
        const struct sp_hlo *leaf = hlo->type == SP_HLO_TUPLE ? &hlo->elements[i] : hlo;
        enum sp_combiner combiner = leaf->is_named ? leaf->named->combiner : leaf->combiner;
        if (is_of_kind(leaf, SP_HLO_UNREDUCED, SP_SHARDING_UNREDUCED) && combiner != SP_COMBINE_NONE &&
            combiner != SP_COMBINE_SUM)
            return sp_fail(err, SP_ERR_UNSUPPORTED, "COMBINER_LOST",
                           "The text {unreduced} stands for summands, and no text that can be read again says that all "
                           "devices hold candidates for a maximum or minimum; OpSharding bytes can say it, and so can "
                           "version 3 of the text with a mesh and axes.");
    }
    return SP_OK;
}

/* The context with the sharding's own rank where it has none. */
static struct sp_dialect_context with_rank(const struct sp_dialect_context *context, const struct sp_sharding *sharding)
{
    struct sp_dialect_context known = *context;
    if (known.rank < 0) {
        known.rank = sharding->rank;
        known.shape = NULL;
    }
    return known;
}

static enum sp_status write_hlo(struct sp_arena *arena, bool is_text, const struct sp_sharding *sharding,
                                const struct sp_dialect_context *context, struct sp_buf *buf, struct sp_losses *losses,
                                struct sp_error *err)
{
    const struct sp_dialect_context known = with_rank(context, sharding);
    struct sp_buf bytes;
    struct sp_hlo *hlo;
    enum sp_status status = sp_hlo_from_sharding(arena, sharding, &known, &hlo, losses, err);
    if (status == SP_OK && is_text)
        status = check_text(hlo, err);
    if (status == SP_OK)
        status = note_devices(arena, sharding, context, hlo, losses, err);
    /* Text shows no mesh of these two, though version 3 has one. */
    if (status == SP_OK && is_text && hlo->is_named && sharding->kind == SP_SHARDING_AXES &&
        (hlo->named->kind == SP_SHARDING_REPLICATED || hlo->named->kind == SP_SHARDING_UNREDUCED))
        status = sp_note_mesh_losses(arena, sharding, "text without a mesh", losses, err);
    if (status != SP_OK)
        return status;
    if (is_text) {
        sp_hlo_write_text(hlo, true, buf);
        return SP_OK;
    }
    sp_buf_init(&bytes, buf->ceiling);
    status = sp_hlo_write_proto(arena, hlo, &bytes, err);
    if (status == SP_OK && !sp_buf_failed(&bytes))
        sp_hlo_write_attribute((const unsigned char *)bytes.data, bytes.size, buf);
    else if (status == SP_OK)
        status = sp_fail_memory(err);
    sp_buf_release(&bytes);
    return status;
}

/* REPLICATED and UNREDUCED take the mesh of the context, when there is one. */
static enum sp_status flat_on_mesh(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank,
                                   const struct sp_mesh *mesh, struct sp_sharding **ret_axes, struct sp_error *err)
{
    struct sp_sharding *axes = NULL;
    enum sp_status status = sp_sharding_create_axes(arena, mesh, rank, &axes, err);
    if (status == SP_OK && sharding->kind == SP_SHARDING_UNREDUCED && mesh->axis_count > 0) {
        axes->combiner = sharding->combiner;
        axes->partial.count = mesh->axis_count;
        axes->partial.refs = SP_NEW_ARRAY(arena, mesh->axis_count, struct sp_axis_ref);
        if (axes->partial.refs == NULL)
            return sp_fail_memory(err);
        for (uint32_t i = 0; i < mesh->axis_count; i++)
            axes->partial.refs[i] = sp_axis_full(mesh, i);
    }
    if (status == SP_OK)
        *ret_axes = axes;
    return status;
}

/* Whatever the kind, as Shardy can say it: AXES or SINGLE. */
static enum sp_status to_shardy(struct sp_arena *arena, const struct sp_sharding *sharding,
                                const struct sp_dialect_context *context, const struct sp_sharding **ret_sharding,
                                struct sp_losses *losses, struct sp_error *err)
{
    bool is_flat = sharding->kind == SP_SHARDING_REPLICATED || sharding->kind == SP_SHARDING_UNREDUCED;
    bool is_open = sharding->kind == SP_SHARDING_BLOCKS && sharding->is_rank_open;
    const struct sp_mesh *mesh = context->mesh;
    struct sp_sharding *axes = NULL;
    if (sharding->kind == SP_SHARDING_AXES || sharding->kind == SP_SHARDING_SINGLE) {
        *ret_sharding = sharding;
        return SP_OK;
    }
    if (sharding->kind == SP_SHARDING_MANUAL)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "MANUAL_LOST",
                       "The tensor's sharding is manual; a Shardy sharding has no word for that.");
    if (context->rank < 0 && (is_flat || is_open))
        return sp_fail(err, SP_ERR_REQUEST, "RANK_UNKNOWN",
                       "A Shardy sharding lists every axis of the tensor; give its rank or its shape.");
    const struct sp_dialect_context known = with_rank(context, sharding);
    enum sp_status status;
    if (is_flat && mesh != NULL && !sp_mesh_is_empty(mesh))
        status = flat_on_mesh(arena, sharding, (uint32_t)known.rank, mesh, &axes, err);
    else
        status = sp_sharding_to_axes(arena, sharding, &known, &axes, losses, err);
    if (status == SP_OK)
        *ret_sharding = axes;
    return status;
}

/* Several shardings may need several meshes, which are written inside them. */
static enum sp_status write_shardy_tuple(struct sp_arena *arena, const struct sp_sharding *sharding,
                                         const struct sp_dialect_context *context, struct sp_buf *buf,
                                         struct sp_losses *losses, struct sp_error *err)
{
    sp_buf_text(buf, "#sdy.sharding_per_value<[");
    for (uint32_t i = 0; i < sharding->element_count; i++) {
        const struct sp_sharding *element = NULL;
        if (i > 0)
            sp_buf_text(buf, ", ");
        enum sp_status status = to_shardy(arena, &sharding->elements[i], context, &element, losses, err);
        if (status == SP_OK)
            status = sp_shardy_write_body(element, true, buf, err);
        if (status != SP_OK)
            return status;
    }
    sp_buf_text(buf, "]>");
    return SP_OK;
}

static enum sp_status write_shardy(struct sp_arena *arena, const struct sp_sharding *sharding,
                                   const struct sp_dialect_context *context, struct sp_buf *buf,
                                   struct sp_losses *losses, struct sp_error *err)
{
    const struct sp_sharding *axes = NULL;
    struct sp_buf text;
    if (sharding->kind == SP_SHARDING_TUPLE)
        return write_shardy_tuple(arena, sharding, context, buf, losses, err);
    enum sp_status status = to_shardy(arena, sharding, context, &axes, losses, err);
    if (status != SP_OK)
        return status;
    /* The sharding first: what it cannot say must be found before the mesh is written. */
    sp_buf_init(&text, buf->ceiling);
    status = sp_shardy_write(axes, false, &text, err);
    if (status == SP_OK) {
        sp_shardy_write_definition(axes, buf);
        sp_buf_text(buf, "\n");
        sp_buf_append(buf, text.data, text.size);
    }
    sp_buf_release(&text);
    return status;
}

enum sp_status sp_dialect_write(struct sp_arena *arena, enum sp_dialect dialect, const struct sp_sharding *sharding,
                                const struct sp_dialect_context *context, struct sp_buf *buf, struct sp_losses *losses,
                                struct sp_error *err)
{
    const struct sp_dialect_context *used = context == NULL ? &no_context : context;
    enum sp_status status = check_context(used, err);
    if (status != SP_OK)
        return status;
    switch (dialect) {
    case SP_DIALECT_ONNX:
        status = write_onnx(arena, sharding, used, buf, losses, err);
        break;
    case SP_DIALECT_ORT:
        status = write_ort(arena, sharding, used, buf, losses, err);
        break;
    case SP_DIALECT_OP_SHARDING:
        status = write_hlo(arena, false, sharding, used, buf, losses, err);
        break;
    case SP_DIALECT_HLO:
        status = write_hlo(arena, true, sharding, used, buf, losses, err);
        break;
    case SP_DIALECT_SHARDY:
        status = write_shardy(arena, sharding, used, buf, losses, err);
        break;
    default:
        return sp_fail(err, SP_ERR_REQUEST, "DIALECT_UNKNOWN", "There is no such notation of shardings.");
    }
    if (status == SP_OK && sp_buf_failed(buf))
        status = sp_fail_memory(err);
    return status;
}
