/*
 * What comes of a conversion: the text, what is particular to the notation, and what every device holds.
 */
#include <string.h>

#include "onnx/writer.h"
#include "plan/convert/internal.h"
#include "sharding/hlo/hlo.h"

/* ---- the text ---- */

static enum sp_status write_hlo(struct sp_conversion *conversion)
{
    enum sp_status status = SP_OK;
    if (conversion->to == SP_DIALECT_HLO) {
        sp_hlo_write_text(conversion->hlo, true, &conversion->text);
        return SP_OK;
    }
    status = sp_hlo_write_proto(conversion->reader.arena, conversion->hlo, &conversion->bytes, conversion->reader.err);
    if (status != SP_OK)
        return status;
    if (sp_buf_failed(&conversion->bytes))
        return sp_convert_check_text(&conversion->bytes, conversion->reader.err);
    sp_hlo_write_attribute((const unsigned char *)sp_convert_text_of(&conversion->bytes), conversion->bytes.size,
                           &conversion->text);
    sp_hlo_write_text(conversion->hlo, true, &conversion->hlo_text);
    return SP_OK;
}

/* The protobuf of an ONNX spec, for those who want to put it into a model. */
static enum sp_status write_onnx_bytes(struct sp_conversion *conversion)
{
    struct sp_losses again = {0};
    struct sp_sharding_spec spec = {0};
    struct sp_arena *arena = conversion->reader.arena;
    struct sp_error *err = conversion->reader.err;
    enum sp_status status =
        sp_onnx_spec_from_sharding(arena, conversion->sharding, &conversion->context, &spec, &again, err);
    return status == SP_OK ? sp_encode_sharding_spec(&spec, arena, &conversion->bytes, err) : status;
}

static enum sp_status write_particulars(struct sp_conversion *conversion)
{
    struct sp_losses again = {0};
    switch (conversion->to) {
    case SP_DIALECT_ONNX:
        return write_onnx_bytes(conversion);
    case SP_DIALECT_ORT:
        return sp_ort_from_sharding(conversion->reader.arena, conversion->sharding, &conversion->context,
                                    &conversion->ort, &again, conversion->reader.err);
    default:
        return SP_OK;
    }
}

enum sp_status sp_convert_write_result(struct sp_conversion *conversion)
{
    enum sp_status status;
    if (sp_convert_is_xla(conversion->to))
        status = write_hlo(conversion);
    else
        status = sp_dialect_write(conversion->reader.arena, conversion->to, conversion->sharding, &conversion->context,
                                  &conversion->text, &conversion->losses, conversion->reader.err);
    if (status == SP_OK)
        status = write_particulars(conversion);
    if (status == SP_OK)
        status = sp_convert_check_text(&conversion->text, conversion->reader.err);
    if (status == SP_OK)
        status = sp_convert_check_text(&conversion->hlo_text, conversion->reader.err);
    return status;
}

/* ---- holdings ---- */

/* "0:1", "0:2+4:6", "none" */
static void write_ranges_text(const struct sp_axis_ranges *axis, struct sp_buf *buf)
{
    for (uint32_t i = 0; i < axis->count; i++)
        sp_buf_printf(buf, "%s%lld:%lld", i > 0 ? "+" : "", (long long)axis->ranges[i].start,
                      (long long)axis->ranges[i].limit);
    if (axis->count == 0)
        sp_buf_text(buf, "none");
}

static void write_ranges_json(const struct sp_axis_ranges *axis, struct sp_json *json)
{
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < axis->count; i++) {
        sp_json_begin_array(json);
        sp_json_int(json, axis->ranges[i].start);
        sp_json_int(json, axis->ranges[i].limit);
        sp_json_end_array(json);
    }
    sp_json_end_array(json);
}

static void write_held(struct sp_conversion *conversion, int64_t device, const struct sp_held *held,
                       struct sp_json *json)
{
    struct sp_buf *text = &conversion->held_text;
    sp_buf_printf(text, "device %lld:", (long long)device);
    sp_json_begin_object(json);
    sp_json_member_int(json, "device", device);
    sp_json_key(json, "shards");
    sp_json_begin_array(json);
    for (uint32_t shard = 0; shard < held->shard_count; shard++) {
        sp_buf_text(text, " [");
        sp_json_begin_array(json);
        for (uint32_t axis = 0; axis < held->rank; axis++) {
            const struct sp_axis_ranges *ranges = &held->shards[(size_t)shard * held->rank + axis];
            sp_buf_text(text, axis > 0 ? ", " : "");
            write_ranges_text(ranges, text);
            write_ranges_json(ranges, json);
        }
        sp_buf_text(text, "]");
        sp_json_end_array(json);
    }
    sp_buf_text(text, held->shard_count == 0 ? " nothing\n" : "\n");
    sp_json_end_array(json);
    sp_json_end_object(json);
}

enum sp_status sp_convert_write_holdings(struct sp_conversion *conversion)
{
    const struct sp_dialect_context *context = &conversion->context;
    struct sp_arena *arena = conversion->reader.arena;
    struct sp_error *err = conversion->reader.err;
    const int64_t *devices;
    int64_t count;
    struct sp_json json;
    if (conversion->sharding == NULL || conversion->sharding->kind == SP_SHARDING_TUPLE)
        return sp_members_refuse(&conversion->reader, "/holdings", "HOLDING_UNKNOWN",
                                 "A tuple is the sharding of several tensors: ask for each of them.");
    enum sp_status status =
        sp_sharding_devices(arena, conversion->sharding, context->device_count, &count, &devices, err);
    if (status == SP_OK && count > SP_MAX_HOLDING_DEVICES)
        status = sp_fail_limit(err, "TOO_MANY_DEVICES", "SP_MAX_HOLDING_DEVICES", SP_MAX_HOLDING_DEVICES, count,
                               "What each device holds can be listed for %d devices, not for %lld.",
                               SP_MAX_HOLDING_DEVICES, (long long)count);
    if (status != SP_OK)
        return sp_convert_blame(&conversion->spec, err);
    sp_json_init_buf(&json, false, &conversion->held_json);
    sp_json_begin_array(&json);
    for (int64_t i = 0; i < count; i++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_held held;
        status = sp_sharding_held(arena, conversion->sharding, (uint32_t)context->rank, context->shape, devices[i],
                                  &held, err);
        if (status != SP_OK)
            return sp_convert_blame(&conversion->spec, err);
        write_held(conversion, devices[i], &held, &json);
        sp_arena_rewind(arena, mark);
        if (sp_buf_failed(&conversion->held_json) || sp_buf_failed(&conversion->held_text))
            break;
    }
    sp_json_end_array(&json);
    (void)sp_json_finish(&json, NULL);
    status = sp_convert_check_text(&conversion->held_json, err);
    return status == SP_OK ? sp_convert_check_text(&conversion->held_text, err) : status;
}

/* ---- as JSON ---- */

static void write_hexadecimal(const struct sp_buf *bytes, struct sp_json *json)
{
    static const char digits[] = "0123456789abcdef";
    struct sp_buf text;
    sp_buf_init(&text, 2 * (size_t)SP_MAX_ANSWER_BYTES);
    for (size_t i = 0; i < bytes->size; i++) {
        unsigned char byte = (unsigned char)bytes->data[i];
        const char pair[2] = {digits[byte >> 4], digits[byte & 15]};
        sp_buf_append(&text, pair, sizeof pair);
    }
    sp_json_member_string(json, "bytes", sp_buf_failed(&text) ? NULL : sp_convert_text_of(&text));
    sp_buf_release(&text);
}

/* The two lines of a Shardy sharding one by one. */
static void write_shardy_members(const struct sp_buf *text, struct sp_json *json)
{
    const char *line = strchr(sp_convert_text_of(text), '\n');
    struct sp_buf mesh;
    sp_buf_init(&mesh, SP_MAX_ANSWER_BYTES);
    if (line != NULL) {
        sp_buf_append(&mesh, text->data, (size_t)(line - text->data));
        sp_json_member_string(json, "mesh", sp_convert_text_of(&mesh));
    }
    sp_json_member_string(json, "sharding", line != NULL ? line + 1 : sp_convert_text_of(text));
    sp_buf_release(&mesh);
}

static void write_ints(const char *name, int64_t count, const int64_t *items, struct sp_json *json)
{
    sp_json_key(json, name);
    sp_json_begin_array(json);
    for (int64_t i = 0; i < count; i++)
        sp_json_int(json, items[i]);
    sp_json_end_array(json);
}

/* The attributes as they stand in a node. */
static void write_attributes(const struct sp_ort_spec *ort, struct sp_json *json)
{
    struct sp_buf spec;
    sp_buf_init(&spec, SP_MAX_ANSWER_BYTES);
    for (uint32_t i = 0; i < ort->rank; i++) {
        if (ort->mesh_axes[i] < 0)
            sp_buf_text(&spec, "R");
        else
            sp_buf_printf(&spec, "S[%lld]", (long long)ort->mesh_axes[i]);
    }
    sp_json_key(json, "attributes");
    sp_json_begin_object(json);
    sp_json_member_string(json, "shard_spec", sp_convert_text_of(&spec));
    write_ints("device_mesh_shape", ort->mesh_rank, ort->mesh_shape, json);
    write_ints("device_mesh_elements", ort->element_count, ort->mesh_elements, json);
    sp_json_end_object(json);
    sp_buf_release(&spec);
}

/* What is particular to the notation. */
void sp_convert_write_members(const struct sp_conversion *conversion, struct sp_json *json)
{
    const char *text = sp_convert_text_of(&conversion->text);
    sp_json_key(json, "spec");
    if (conversion->to == SP_DIALECT_ONNX)
        sp_json_raw(json, text, conversion->text.size);
    else
        sp_json_string(json, text);
    sp_json_member_string(json, "text", text);
    if (conversion->to == SP_DIALECT_ONNX || conversion->to == SP_DIALECT_OP_SHARDING)
        write_hexadecimal(&conversion->bytes, json);
    if (conversion->to == SP_DIALECT_OP_SHARDING)
        sp_json_member_string(json, "hlo", sp_convert_text_of(&conversion->hlo_text));
    if (conversion->to == SP_DIALECT_ORT)
        write_attributes(&conversion->ort, json);
    if (conversion->to == SP_DIALECT_SHARDY)
        write_shardy_members(&conversion->text, json);
}
