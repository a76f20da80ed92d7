/*
 * One sharding in another notation.
 *
 * Between XLA's own two forms (hlo, op-sharding) nothing is translated: metadata, shard groups, tuples and the version
 * of the form survive. All other ways lead through the common form of sharding/sharding.h.
 */
#include <string.h>

#include "plan/convert/internal.h"
#include "sharding/hlo/hlo.h"

static void conversion_init(struct sp_conversion *conversion, struct sp_arena *arena, struct sp_error *err)
{
    *conversion = (struct sp_conversion){.reader = {arena, err}, .context = {.rank = -1}};
    sp_buf_init(&conversion->text, SP_MAX_ANSWER_BYTES);
    sp_buf_init(&conversion->bytes, SP_MAX_ANSWER_BYTES);
    sp_buf_init(&conversion->hlo_text, SP_MAX_ANSWER_BYTES);
    sp_buf_init(&conversion->held_json, SP_MAX_ANSWER_BYTES);
    sp_buf_init(&conversion->held_text, SP_MAX_ANSWER_BYTES);
}

static void conversion_release(struct sp_conversion *conversion)
{
    sp_buf_release(&conversion->text);
    sp_buf_release(&conversion->bytes);
    sp_buf_release(&conversion->hlo_text);
    sp_buf_release(&conversion->held_json);
    sp_buf_release(&conversion->held_text);
}

/* ---- the request ---- */

static enum sp_status read_request(struct sp_conversion *conversion, const json_t *request)
{
    static const char *const members[] = {"from",    "to",   "spec",        "shape",       "rank",
                                          "devices", "mesh", "hlo_version", "tensor_name", "holdings"};
    struct sp_members_reader *reader = &conversion->reader;
    int64_t version = 0;
    bool named;
    enum sp_status status = sp_members_check(reader, (json_t *)(uintptr_t)request, "", "A request to convert", members,
                                             sizeof members / sizeof members[0]);
    if (status == SP_OK)
        status = sp_convert_read_dialect(reader, request, "to", &named, &conversion->to);
    if (status == SP_OK && !named)
        status = sp_members_refuse(reader, "/to", "MEMBER_MISSING",
                                   "'to' is missing: onnx, ort, op-sharding, hlo or shardy.");
    if (status == SP_OK)
        status = sp_convert_read_spec(reader, request, "", "spec", "from", &conversion->spec);
    if (status == SP_OK)
        status = sp_convert_read_context(reader, request, &conversion->context, &conversion->mesh);
    if (status == SP_OK)
        status = sp_convert_read_integer(reader, request, "hlo_version", 1, 3, &version);
    if (status == SP_OK)
        status =
            sp_members_text(reader, request, "", "tensor_name", SP_MAX_NAME_BYTES, &conversion->context.tensor_name);
    if (status == SP_OK)
        status = sp_convert_read_bool(reader, request, "holdings", &conversion->holdings);
    if (status == SP_OK && conversion->holdings && conversion->context.shape == NULL)
        status = sp_members_refuse(reader, "/shape", "SHAPE_MISSING",
                                   "What each device holds depends on the tensor's shape: give 'shape'.");
    conversion->context.hlo_version = (int)version;
    return status;
}

/* ---- XLA to XLA ---- */

/* One leaf in the version that is asked for, with everything that hangs on it. */
static enum sp_status change_version(struct sp_conversion *conversion, const struct sp_hlo *hlo, struct sp_hlo *ret_hlo)
{
    struct sp_arena *arena = conversion->reader.arena;
    struct sp_error *err = conversion->reader.err;
    struct sp_losses lost = {0}; /* metadata and groups, which are not */
    struct sp_sharding *sharding;
    struct sp_hlo *changed;
    struct sp_dialect_context own = {.hlo_version = conversion->context.hlo_version};
    enum sp_status status = sp_hlo_to_sharding(arena, hlo, &sharding, &lost, err);
    if (status == SP_OK) {
        own.rank = sharding->rank;
        status = sp_hlo_from_sharding(arena, sharding, &own, &changed, &conversion->losses, err);
    }
    if (status != SP_OK)
        return status;
    *ret_hlo = *changed;
    ret_hlo->metadata_count = hlo->metadata_count;
    ret_hlo->metadata = hlo->metadata;
    if (hlo->has_group && ret_hlo->is_named)
        return sp_losses_add(arena, &conversion->losses, err, "SHARD_GROUP_LOST",
                             "Version 3 has no shard groups: shard_%s=%lld is lost.",
                             hlo->is_group_like ? "like" : "as", (long long)hlo->group_id);
    ret_hlo->has_group = hlo->has_group;
    ret_hlo->is_group_like = hlo->is_group_like;
    ret_hlo->group_id = hlo->group_id;
    return SP_OK;
}

static enum sp_status change_versions(struct sp_conversion *conversion, struct sp_hlo **hlo)
{
    const struct sp_hlo *old = *hlo;
    struct sp_hlo *changed = SP_NEW(conversion->reader.arena, struct sp_hlo);
    if (changed == NULL)
        return sp_fail_memory(conversion->reader.err);
    if (old->type != SP_HLO_TUPLE || old->is_named) {
        enum sp_status status = change_version(conversion, old, changed);
        *hlo = changed;
        return status;
    }
    struct sp_hlo *elements = SP_NEW_ARRAY(conversion->reader.arena, old->element_count, struct sp_hlo);
    if (elements == NULL)
        return sp_fail_memory(conversion->reader.err);
    *changed = *old;
    changed->elements = elements;
    for (uint32_t i = 0; i < old->element_count; i++) {
        enum sp_status status = change_version(conversion, &old->elements[i], &elements[i]);
        if (status != SP_OK)
            return status;
    }
    *hlo = changed;
    return SP_OK;
}

static enum sp_status read_hlo(struct sp_conversion *conversion, struct sp_hlo **ret_hlo)
{
    const struct sp_convert_spec *spec = &conversion->spec;
    struct sp_arena *arena = conversion->reader.arena;
    struct sp_error *err = conversion->reader.err;
    enum sp_status status = spec->dialect == SP_DIALECT_HLO
                                ? sp_hlo_read_text(arena, spec->text, spec->size, ret_hlo, err)
                                : sp_hlo_read_attribute(arena, spec->text, spec->size, ret_hlo, err);
    return status == SP_OK ? SP_OK : sp_convert_blame(spec, err);
}

/* From one of XLA's forms to the other. The common form is made only to check it or to say who holds what. */
static enum sp_status convert_xla(struct sp_conversion *conversion)
{
    const struct sp_dialect_context *context = &conversion->context;
    struct sp_losses ignored = {0};
    struct sp_error *err = conversion->reader.err;
    enum sp_status status = read_hlo(conversion, &conversion->hlo);
    bool is_checked = context->rank >= 0 || context->device_count > 0 || conversion->holdings;
    if (status == SP_OK && is_checked && (conversion->hlo->type != SP_HLO_TUPLE || conversion->hlo->is_named)) {
        status = sp_hlo_to_sharding(conversion->reader.arena, conversion->hlo, &conversion->sharding, &ignored, err);
        if (status == SP_OK)
            status = sp_sharding_check(conversion->sharding, context->rank, context->shape, context->device_count, err);
        if (status != SP_OK)
            return sp_convert_blame(&conversion->spec, err);
    }
    if (status == SP_OK && context->hlo_version != SP_HLO_AUTO)
        status = change_versions(conversion, &conversion->hlo);
    return status;
}

/* ---- through the common form ---- */

/* The rank for forms that must say it. A reading that does not know it takes the axes that are written down. */
static enum sp_status determine_rank(struct sp_conversion *conversion)
{
    const struct sp_sharding *sharding = conversion->sharding;
    bool has_rank = sharding->kind == SP_SHARDING_AXES || sharding->kind == SP_SHARDING_BLOCKS;
    if (conversion->context.rank >= 0 || !has_rank)
        return SP_OK;
    bool is_open = sharding->kind == SP_SHARDING_BLOCKS && sharding->is_rank_open;
    if (is_open && conversion->to == SP_DIALECT_ONNX)
        return SP_OK;
    conversion->context.rank = sharding->rank;
    if (!is_open)
        return SP_OK;
    return sp_losses_add(conversion->reader.arena, &conversion->losses, conversion->reader.err, "RANK_OPEN",
                         "The notation onnx does not say the tensor's rank: rank %u, that of the axes it names, is "
                         "taken; 'shape' or 'rank' gives another.",
                         (unsigned)sharding->rank);
}

static enum sp_status convert_common(struct sp_conversion *conversion)
{
    struct sp_dialect_context *context = &conversion->context;
    struct sp_members_reader *reader = &conversion->reader;
    enum sp_status status = sp_convert_read_sharding(reader, &conversion->spec, context, &conversion->mesh,
                                                     &conversion->sharding, &conversion->losses);
    if (status == SP_OK)
        status = determine_rank(conversion);
    if (status == SP_OK && sp_convert_is_xla(conversion->to))
        status = sp_hlo_from_sharding(reader->arena, conversion->sharding, context, &conversion->hlo,
                                      &conversion->losses, reader->err);
    return status;
}

/* ---- the whole ---- */

static enum sp_status convert(struct sp_conversion *conversion, const json_t *request)
{
    enum sp_status status = read_request(conversion, request);
    if (status == SP_OK)
        status = sp_convert_is_xla(conversion->spec.dialect) && sp_convert_is_xla(conversion->to)
                     ? convert_xla(conversion)
                     : convert_common(conversion);
    if (status == SP_OK)
        status = sp_convert_write_result(conversion);
    if (status == SP_OK && conversion->holdings)
        status = sp_convert_write_holdings(conversion);
    return status;
}

enum sp_status sp_convert_json(struct sp_arena *arena, const json_t *request, struct sp_json *json,
                               struct sp_error *err)
{
    struct sp_conversion conversion;
    conversion_init(&conversion, arena, err);
    enum sp_status status = convert(&conversion, request);
    if (status == SP_OK) {
        sp_json_begin_object(json);
        sp_json_member_string(json, "from", sp_dialect_name(conversion.spec.dialect));
        sp_json_member_string(json, "to", sp_dialect_name(conversion.to));
        sp_convert_write_members(&conversion, json);
        sp_json_key(json, "lost");
        sp_convert_write_losses(&conversion.losses, json);
        if (conversion.holdings) {
            sp_json_key(json, "holdings");
            sp_json_raw(json, conversion.held_json.data, conversion.held_json.size);
        }
        sp_json_end_object(json);
    }
    conversion_release(&conversion);
    return status;
}

enum sp_status sp_convert_text(struct sp_arena *arena, const json_t *request, struct sp_buf *buf, struct sp_error *err)
{
    struct sp_conversion conversion;
    conversion_init(&conversion, arena, err);
    enum sp_status status = convert(&conversion, request);
    if (status == SP_OK) {
        sp_buf_append(buf, sp_convert_text_of(&conversion.text), conversion.text.size);
        sp_buf_text(buf, "\n");
        if (conversion.held_text.size > 0)
            sp_buf_append(buf, conversion.held_text.data, conversion.held_text.size);
        for (uint32_t i = 0; i < conversion.losses.count; i++)
            sp_buf_printf(buf, "# lost: %s [%s]\n", conversion.losses.items[i].message,
                          conversion.losses.items[i].code);
        status = sp_convert_check_text(buf, err);
    }
    conversion_release(&conversion);
    return status;
}
