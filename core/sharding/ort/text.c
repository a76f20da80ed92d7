/*
 * The dialect of ONNX Runtime as one text: `S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1]`, or JSON with the
 * members of the attributes, as strings (one per tensor) or lists of integers (one per operator, the first version).
 */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "sharding/ort/internal.h"

#define SHAPE_KEY    "device_mesh_shape"
#define ELEMENTS_KEY "device_mesh_elements"

__attribute__((format(printf, 3, 4))) static enum sp_status refuse(struct sp_error *err, const char *where,
                                                                   const char *format, ...)
{
    char message[512];
    SP_FORMAT(message, format);
    (void)sp_fail(err, SP_ERR_MALFORMED, "ORT_SYNTAX", "%s", message);
    return sp_error_at(err, "%s", where);
}

/* Both parts of the mesh or none; a mesh has devices. */
static enum sp_status set_mesh(struct sp_ort_spec *spec, const int64_t *shape, int64_t shape_count,
                               int64_t *const elements, int64_t element_count, struct sp_error *err)
{
    if (shape == NULL && elements == NULL)
        return SP_OK;
    if (shape == NULL || elements == NULL)
        return sp_fail(err, SP_ERR_MALFORMED, "ORT_MESH",
                       "A mesh is given by " SHAPE_KEY " and " ELEMENTS_KEY "; %s is missing.",
                       shape == NULL ? SHAPE_KEY : ELEMENTS_KEY);
    if (element_count == 0)
        return sp_fail(err, SP_ERR_MALFORMED, "ORT_MESH", ELEMENTS_KEY " lists no device; a mesh needs one or more.");
    spec->mesh_rank = (uint32_t)shape_count;
    spec->mesh_shape = (int64_t *)shape;
    spec->element_count = element_count;
    spec->mesh_elements = elements;
    return SP_OK;
}

/* ---- text ---- */

struct text_reader {
    struct sp_arena *arena;
    const char *text;
    size_t size, at;
    struct sp_error *err;
    int64_t shape_count, element_count, *shape, *elements;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blanks(struct text_reader *reader)
{
    while (reader->at < reader->size && is_blank(reader->text[reader->at]))
        reader->at++;
}

static bool accept(struct text_reader *reader, const char *token)
{
    size_t length = strlen(token);
    if (reader->size - reader->at < length || memcmp(reader->text + reader->at, token, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static enum sp_status refuse_here(struct text_reader *reader, const char *message)
{
    char where[32];
    (void)snprintf(where, sizeof where, "offset %zu", reader->at);
    return refuse(reader->err, where, "%s", message);
}

/* Offsets of errors count from the beginning of the whole text. */
static enum sp_status shift_offset(enum sp_status status, size_t base, struct sp_error *err)
{
    static const char word[] = "offset ";
    if (status == SP_OK || err == NULL || strncmp(err->where, word, strlen(word)) != 0)
        return status;
    unsigned long long offset = strtoull(err->where + strlen(word), NULL, 10);
    (void)snprintf(err->where, sizeof err->where, "%s%llu", word, base + offset);
    return status;
}

/* "[..]" or [..] behind the '='. */
static enum sp_status read_value(struct text_reader *reader, int64_t *ret_count, int64_t **ret_items)
{
    bool quoted = accept(reader, "\"");
    size_t start = reader->at;
    const char *end = memchr(reader->text + start, ']', reader->size - start);
    if (start >= reader->size || reader->text[start] != '[' || end == NULL)
        return refuse_here(reader, "Expected a list of integers in brackets here, as in [0,1].");
    size_t size = (size_t)(end - (reader->text + start)) + 1;
    enum sp_status status =
        shift_offset(sp_ort_read_ints(reader->arena, reader->text + start, size, ret_count, ret_items, reader->err),
                     start, reader->err);
    if (status != SP_OK)
        return status;
    reader->at = start + size;
    if (quoted && !accept(reader, "\""))
        return refuse_here(reader, "Expected the closing '\"' here.");
    if (reader->at < reader->size && !is_blank(reader->text[reader->at]))
        return refuse_here(reader, "Expected a blank or the end of the text after a list.");
    return SP_OK;
}

static enum sp_status read_attribute(struct text_reader *reader)
{
    if (accept(reader, SHAPE_KEY "=")) {
        if (reader->shape != NULL)
            return refuse_here(reader, SHAPE_KEY " is given twice.");
        return read_value(reader, &reader->shape_count, &reader->shape);
    }
    if (accept(reader, ELEMENTS_KEY "=")) {
        if (reader->elements != NULL)
            return refuse_here(reader, ELEMENTS_KEY " is given twice.");
        return read_value(reader, &reader->element_count, &reader->elements);
    }
    return refuse_here(reader, "Expected " SHAPE_KEY "=[..] or " ELEMENTS_KEY "=[..] after the spec.");
}

static enum sp_status read_plain(struct sp_arena *arena, const char *text, size_t size, struct sp_ort_spec *ret_spec,
                                 struct sp_error *err)
{
    struct text_reader reader = {.arena = arena, .text = text, .size = size, .err = err};
    struct sp_ort_spec spec;
    skip_blanks(&reader);
    size_t start = reader.at, end = start;
    /* A spec of rank 0 is no text at all. */
    if (size - start < strlen("device") || memcmp(text + start, "device", strlen("device")) != 0) {
        while (end < size && !is_blank(text[end]))
            end++;
    }
    enum sp_status status = shift_offset(sp_ort_read_spec(arena, text + start, end - start, &spec, err), start, err);
    reader.at = end;
    skip_blanks(&reader);
    while (status == SP_OK && reader.at < size) {
        status = read_attribute(&reader);
        skip_blanks(&reader);
    }
    if (status == SP_OK)
        status = set_mesh(&spec, reader.shape, reader.shape_count, reader.elements, reader.element_count, err);
    if (status == SP_OK)
        *ret_spec = spec;
    return status;
}

/* ---- JSON ---- */

static enum sp_status read_list(struct sp_arena *arena, const json_t *json, const char *pointer, int64_t *ret_count,
                                int64_t **ret_items, struct sp_error *err)
{
    size_t count = json_array_size(json);
    if (json_is_string(json)) {
        enum sp_status status =
            sp_ort_read_ints(arena, json_string_value(json), json_string_length(json), ret_count, ret_items, err);
        if (status != SP_OK && err != NULL)
            err->where[0] = '\0'; /* an offset within the string says little; the pointer says which */
        return status == SP_OK ? SP_OK : sp_error_at(err, "%s", pointer);
    }
    if (!json_is_array(json))
        return refuse(err, pointer, "Expected a list of integers or a string such as \"[0,1]\" here.");
    int64_t *items = SP_NEW_ARRAY(arena, count, int64_t);
    if (items == NULL)
        return sp_fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(json, i);
        char where[96];
        (void)snprintf(where, sizeof where, "%s/%zu", pointer, i);
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return refuse(err, where, "Expected an integer here that is not negative.");
        items[i] = json_integer_value(item);
    }
    *ret_count = (int64_t)count;
    *ret_items = items;
    return SP_OK;
}

static enum sp_status read_spec_member(struct sp_arena *arena, const json_t *json, const char *pointer,
                                       struct sp_ort_spec *ret_spec, struct sp_error *err)
{
    if (!json_is_string(json))
        return refuse(err, pointer, "Expected a string such as \"S[0]R\" here.");
    enum sp_status status = sp_ort_read_spec(arena, json_string_value(json), json_string_length(json), ret_spec, err);
    if (status != SP_OK && err != NULL)
        err->where[0] = '\0';
    return status == SP_OK ? SP_OK : sp_error_at(err, "%s", pointer);
}

static enum sp_status read_object(struct sp_arena *arena, const json_t *json, struct sp_ort_spec *ret_spec,
                                  struct sp_error *err)
{
    struct sp_ort_spec spec = {0};
    int64_t shape_count = 0, element_count = 0, *shape = NULL, *elements = NULL;
    bool has_spec = false;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)json, name, value)
    {
        enum sp_status status;
        if (strcmp(name, "shard_spec") == 0 || strcmp(name, "spec") == 0) {
            if (has_spec)
                return refuse(err, "/shard_spec", "'shard_spec' and 'spec' are the same member.");
            has_spec = true;
            status = read_spec_member(arena, value, name[1] == 'h' ? "/shard_spec" : "/spec", &spec, err);
        } else if (strcmp(name, SHAPE_KEY) == 0) {
            status = read_list(arena, value, "/" SHAPE_KEY, &shape_count, &shape, err);
        } else if (strcmp(name, ELEMENTS_KEY) == 0) {
            status = read_list(arena, value, "/" ELEMENTS_KEY, &element_count, &elements, err);
        } else {
            status = refuse(err, "",
                            "A spec of ONNX Runtime has the members 'shard_spec', '" SHAPE_KEY "' and '" ELEMENTS_KEY
                            "', but no '%.64s'.",
                            name);
        }
        if (status != SP_OK)
            return status;
    }
    if (!has_spec)
        return refuse(err, "/shard_spec",
                      "The member 'shard_spec' is missing; it says what is split, as in \"S[0]R\".");
    enum sp_status status = set_mesh(&spec, shape, shape_count, elements, element_count, err);
    if (status == SP_OK)
        *ret_spec = spec;
    return status;
}

static enum sp_status read_json(struct sp_arena *arena, const char *text, size_t size, struct sp_ort_spec *ret_spec,
                                struct sp_error *err)
{
    json_error_t problem;
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    if (json == NULL) {
        (void)sp_fail(err, SP_ERR_MALFORMED, "ORT_SYNTAX", "The spec begins as JSON, but is none (%s).", problem.text);
        return sp_error_at(err, "offset %d", problem.position);
    }
    enum sp_status status = read_object(arena, json, ret_spec, err);
    json_decref(json);
    return status;
}

enum sp_status sp_ort_read_text(struct sp_arena *arena, const char *text, size_t size, struct sp_ort_spec *ret_spec,
                                struct sp_error *err)
{
    size_t at = 0;
    if (size > SP_MAX_SHARDING_BYTES)
        return sp_fail_limit(err, "SHARDING_TOO_LONG", "SP_MAX_SHARDING_BYTES", SP_MAX_SHARDING_BYTES, (int64_t)size,
                             "A sharding may have at most %d bytes of text.", (int)SP_MAX_SHARDING_BYTES);
    while (at < size && is_blank(text[at]))
        at++;
    return at < size && text[at] == '{' ? read_json(arena, text, size, ret_spec, err)
                                        : read_plain(arena, text, size, ret_spec, err);
}

/* ---- writing ---- */

static void write_list(const char *name, int64_t count, const int64_t *items, struct sp_buf *buf)
{
    sp_buf_printf(buf, "%s=[", name);
    for (int64_t i = 0; i < count; i++)
        sp_buf_printf(buf, "%s%" PRId64, i == 0 ? "" : ",", items[i]);
    sp_buf_text(buf, "]");
}

void sp_ort_write_text(const struct sp_ort_spec *spec, struct sp_buf *buf)
{
    for (uint32_t i = 0; i < spec->rank; i++) {
        if (spec->mesh_axes[i] < 0)
            sp_buf_text(buf, "R");
        else
            sp_buf_printf(buf, "S[%" PRId64 "]", spec->mesh_axes[i]);
    }
    if (spec->rank > 0)
        sp_buf_text(buf, " ");
    write_list(SHAPE_KEY, spec->mesh_rank, spec->mesh_shape, buf);
    sp_buf_text(buf, " ");
    write_list(ELEMENTS_KEY, spec->element_count, spec->mesh_elements, buf);
}
