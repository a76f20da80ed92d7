/*
 * Requests of the conversion facade: what a stranger wrote, member by member.
 */
#include <string.h>

#include "base/utf8.h"
#include "plan/convert/internal.h"

/* ---- plain members ---- */

enum sp_status sp_convert_read_integer(struct sp_members_reader *reader, const json_t *request, const char *member,
                                       int64_t low, int64_t high, int64_t *ret_value)
{
    const json_t *value = json_object_get(request, member);
    if (value == NULL)
        return SP_OK;
    if (!json_is_integer(value) || json_integer_value(value) < low || json_integer_value(value) > high)
        return sp_members_refuse(reader, sp_members_child(reader, "", member), "MEMBER_COUNT",
                                 "'%s' must be an integer from %lld to %lld.", member, (long long)low, (long long)high);
    *ret_value = json_integer_value(value);
    return SP_OK;
}

enum sp_status sp_convert_read_bool(struct sp_members_reader *reader, const json_t *request, const char *member,
                                    bool *ret_value)
{
    const json_t *value = json_object_get(request, member);
    if (value == NULL)
        return SP_OK;
    if (!json_is_boolean(value))
        return sp_members_refuse(reader, sp_members_child(reader, "", member), "MEMBER_TYPE",
                                 "'%s' must be true or false.", member);
    *ret_value = json_is_true(value);
    return SP_OK;
}

enum sp_status sp_convert_read_dialect(struct sp_members_reader *reader, const json_t *request, const char *member,
                                       bool *ret_named, enum sp_dialect *ret_dialect)
{
    const json_t *value = json_object_get(request, member);
    const char *name = json_string_value(value);
    *ret_named = value != NULL;
    if (value == NULL)
        return SP_OK;
    if (name == NULL)
        return sp_members_refuse(reader, sp_members_child(reader, "", member), "MEMBER_TYPE",
                                 "'%s' must be a string: onnx, ort, op-sharding, hlo or shardy.", member);
    if (!sp_dialect_parse(name, ret_dialect))
        return sp_members_refuse(reader, sp_members_child(reader, "", member), "NOTATION_UNKNOWN",
                                 "There is no notation '%.64s'; it must be onnx, ort, op-sharding, hlo or shardy.",
                                 name);
    return SP_OK;
}

enum sp_status sp_convert_read_shape(struct sp_members_reader *reader, const json_t *request, int64_t *ret_rank,
                                     const int64_t **ret_shape)
{
    const json_t *value = json_object_get(request, "shape");
    size_t rank = json_array_size(value);
    *ret_rank = -1;
    *ret_shape = NULL;
    if (value == NULL)
        return SP_OK;
    if (!json_is_array(value) || rank > SP_MAX_RANK)
        return sp_members_refuse(reader, "/shape", "MEMBER_TYPE", "'shape' must be an array of at most %d extents.",
                                 SP_MAX_RANK);
    int64_t *shape = SP_NEW_ARRAY(reader->arena, rank + 1, int64_t);
    if (shape == NULL)
        return sp_fail_memory(reader->err);
    for (size_t i = 0; i < rank; i++) {
        const json_t *extent = json_array_get(value, i);
        shape[i] = json_is_null(extent) ? -1 : json_integer_value(extent);
        if (!json_is_null(extent) && (!json_is_integer(extent) || shape[i] < 0))
            return sp_members_refuse(reader, sp_members_item(reader, "/shape", i), "MEMBER_COUNT",
                                     "An extent must be an integer of 0 or more, or null where it is not known.");
    }
    *ret_rank = (int64_t)rank;
    *ret_shape = shape;
    return SP_OK;
}

/* ---- the spec ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool begins(const char *text, size_t size, const char *with)
{
    size_t length = strlen(with);
    return size >= length && memcmp(text, with, length) == 0;
}

static bool is_hexadecimal(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (strchr("0123456789abcdefABCDEF", text[i]) == NULL || text[i] == '\0')
            return false;
    }
    return size > 0 && size % 2 == 0;
}

/* Whether the JSON object is ONNX Runtime's: it names a mesh, or has its kind of spec. */
static bool is_ort_object(const json_t *object)
{
    static const char *const members[] = {"shard_spec", "spec", "device_mesh_shape", "device_mesh_elements"};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (json_object_get(object, members[i]) != NULL)
            return true;
    }
    return false;
}

static enum sp_dialect dialect_of_json(const char *text, size_t size)
{
    json_t *json = json_loadb(text, size, 0, NULL);
    enum sp_dialect dialect = is_ort_object(json) ? SP_DIALECT_ORT : SP_DIALECT_ONNX;
    json_decref(json);
    return dialect;
}

/* The dialect by how the text begins; SP_DIALECT_COUNT when that does not tell. */
static enum sp_dialect recognise(const char *text, size_t size)
{
    while (size > 0 && is_blank(*text)) {
        text++;
        size--;
    }
    if (size == 0)
        return SP_DIALECT_COUNT; /* {replicated} for one, rank 0 for another */
    if (*text == '{') {
        size_t second = 1;
        while (second < size && is_blank(text[second]))
            second++;
        return second < size && text[second] == '"' ? dialect_of_json(text, size) : SP_DIALECT_HLO;
    }
    if (*text == '[')
        return SP_DIALECT_HLO;
    if (*text == '<' || begins(text, size, "#sdy") || begins(text, size, "sdy."))
        return SP_DIALECT_SHARDY;
    if (*text == '"' || *text == '\\' || begins(text, size, "mhlo.sharding") || is_hexadecimal(text, size))
        return SP_DIALECT_OP_SHARDING;
    if (*text == 'R' || *text == 'S' || begins(text, size, "device_mesh_"))
        return SP_DIALECT_ORT;
    return SP_DIALECT_COUNT;
}

/* The text of a spec; an object becomes text again. */
static enum sp_status take_text(struct sp_members_reader *reader, const json_t *value, const char *member,
                                struct sp_convert_spec *spec)
{
    if (value == NULL)
        return sp_members_refuse(reader, spec->pointer, "MEMBER_MISSING", "The member '%s' is missing: a sharding.",
                                 member);
    if (json_is_string(value)) {
        spec->text = json_string_value(value);
        spec->size = json_string_length(value);
    } else if (json_is_object(value)) {
        size_t size = json_dumpb(value, NULL, 0, JSON_COMPACT);
        char *text = size > 0 ? sp_arena_alloc(reader->arena, size + 1) : NULL;
        if (text == NULL || json_dumpb(value, text, size, JSON_COMPACT) != size)
            return sp_fail_memory(reader->err);
        spec->is_object = true;
        spec->text = text;
        spec->size = size;
    } else {
        return sp_members_refuse(reader, spec->pointer, "MEMBER_TYPE",
                                 "'%s' must be a sharding: a string, or an object in the notations onnx and ort.",
                                 member);
    }
    if (spec->size > SP_MAX_SHARDING_BYTES)
        return sp_fail_limit(reader->err, "SHARDING_TOO_LARGE", "SP_MAX_SHARDING_BYTES", SP_MAX_SHARDING_BYTES,
                             (int64_t)spec->size, "The text of a sharding may have %u bytes.", SP_MAX_SHARDING_BYTES);
    while (spec->size > 0 && is_blank(spec->text[spec->size - 1]))
        spec->size--;
    return SP_OK;
}

enum sp_status sp_convert_read_spec(struct sp_members_reader *reader, const json_t *request, const char *at,
                                    const char *member, const char *dialect_member, struct sp_convert_spec *ret_spec)
{
    const json_t *value = json_object_get(request, member);
    struct sp_convert_spec spec = {.pointer = sp_members_child(reader, at, member)};
    bool named = false;
    if (spec.pointer == NULL)
        return sp_fail_memory(reader->err);
    enum sp_status status = take_text(reader, value, member, &spec);
    if (status == SP_OK && dialect_member != NULL)
        status = sp_convert_read_dialect(reader, request, dialect_member, &named, &spec.dialect);
    if (status != SP_OK)
        return status;
    if (!named && spec.is_object)
        spec.dialect = is_ort_object(value) ? SP_DIALECT_ORT : SP_DIALECT_ONNX;
    else if (!named)
        spec.dialect = recognise(spec.text, spec.size);
    if (spec.dialect == SP_DIALECT_COUNT)
        return sp_members_refuse(
            reader, spec.pointer, "NOTATION_UNCLEAR",
            "How the sharding begins does not tell its notation%s%s%s: onnx, ort, op-sharding, hlo "
            "or shardy.",
            dialect_member != NULL ? "; name it with '" : "", dialect_member != NULL ? dialect_member : "",
            dialect_member != NULL ? "'" : "");
    if (spec.is_object && spec.dialect != SP_DIALECT_ONNX && spec.dialect != SP_DIALECT_ORT)
        return sp_members_refuse(reader, spec.pointer, "MEMBER_TYPE", "'%s' must be a string in the notation %s.",
                                 member, sp_dialect_name(spec.dialect));
    *ret_spec = spec;
    return SP_OK;
}

enum sp_status sp_convert_blame(const struct sp_convert_spec *spec, struct sp_error *err)
{
    if (err == NULL || err->status == SP_ERR_MEMORY || err->status == SP_ERR_INTERNAL)
        return err != NULL ? err->status : SP_ERR_INTERNAL;
    struct sp_error old = *err;
    /* The request is well-formed; it is what it says that is wrong. */
    enum sp_status status = old.status == SP_ERR_MALFORMED ? SP_ERR_REQUEST : old.status;
    bool is_pointer = spec->is_object && old.where[0] == '/';
    bool has_place = old.where[0] != '\0' && !is_pointer && strstr(old.message, old.where) == NULL;
    sp_error_clear(err);
    if (has_place)
        (void)sp_fail(err, status, old.code, "At %s: %s", old.where, old.message);
    else
        (void)sp_fail(err, status, old.code, "%s", old.message);
    err->limit = old.limit;
    err->limit_value = old.limit_value;
    err->actual = old.actual;
    return sp_error_at(err, "%s%s", spec->pointer, is_pointer ? old.where : "");
}

enum sp_status sp_convert_add_mesh(struct sp_members_reader *reader, struct sp_convert_spec *spec,
                                   const struct sp_convert_mesh *mesh)
{
    if (spec->dialect != SP_DIALECT_ORT || spec->is_object || mesh->ort == NULL ||
        memmem(spec->text, spec->size, "device_mesh", 11) != NULL)
        return SP_OK;
    size_t size = spec->size + 1 + strlen(mesh->ort);
    char *text = sp_arena_alloc(reader->arena, size + 1);
    if (text == NULL)
        return sp_fail_memory(reader->err);
    memcpy(text, spec->text, spec->size);
    text[spec->size] = ' ';
    memcpy(text + spec->size + 1, mesh->ort, strlen(mesh->ort));
    spec->text = text;
    spec->size = size;
    return SP_OK;
}

enum sp_status sp_convert_read_sharding(struct sp_members_reader *reader, struct sp_convert_spec *spec,
                                        const struct sp_dialect_context *context, const struct sp_convert_mesh *mesh,
                                        struct sp_sharding **ret_sharding, struct sp_losses *losses)
{
    struct sp_sharding *sharding = NULL;
    enum sp_status status = sp_convert_add_mesh(reader, spec, mesh);
    const struct sp_dialect_text text = {spec->dialect, spec->text, spec->size};
    if (status == SP_OK)
        status = sp_dialect_read(reader->arena, &text, context, &sharding, losses, reader->err);
    if (status != SP_OK)
        return sp_convert_blame(spec, reader->err);
    *ret_sharding = sharding;
    return SP_OK;
}

/* ---- text that is written ---- */

enum sp_status sp_convert_check_text(const struct sp_buf *buf, struct sp_error *err)
{
    if (sp_buf_failed(buf))
        return sp_fail_limit(err, "ANSWER_TOO_LARGE", "SP_MAX_ANSWER_BYTES", SP_MAX_ANSWER_BYTES,
                             (int64_t)SP_MAX_ANSWER_BYTES + 1, "The answer would be larger than %u bytes.",
                             SP_MAX_ANSWER_BYTES);
    if (buf->size > 0 && !sp_utf8_valid(buf->data, buf->size))
        return sp_fail(err, SP_ERR_UNSUPPORTED, "TEXT_NOT_UTF8",
                       "The sharding has names that are not UTF-8 text: it cannot be written.");
    return SP_OK;
}

void sp_convert_write_axis(const struct sp_mesh *mesh, struct sp_axis_ref ref, struct sp_json *json)
{
    char text[64];
    struct sp_buf buf;
    sp_buf_init(&buf, SP_MAX_SHARDING_BYTES + sizeof text);
    sp_buf_text(&buf, mesh->axes[ref.axis].name);
    if (!sp_axis_is_full(mesh, ref))
        sp_buf_printf(&buf, ":(%lld)%lld", (long long)ref.pre, (long long)ref.size);
    sp_json_string(json, buf.data != NULL && !sp_buf_failed(&buf) ? buf.data : "");
    sp_buf_release(&buf);
}

void sp_convert_write_losses(const struct sp_losses *losses, struct sp_json *json)
{
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < losses->count; i++) {
        sp_json_begin_object(json);
        sp_json_member_string(json, "code", losses->items[i].code);
        sp_json_member_string(json, "message", losses->items[i].message);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}
