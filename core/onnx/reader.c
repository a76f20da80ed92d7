#include "onnx/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/utf8.h"
#include "onnx/read.h"

#define TICK_INTERVAL 4096 /* nodes between two looks at the caller's watch */

void sp_reader_init(struct sp_reader *r, struct sp_model *model, struct sp_error *err)
{
    memset(r, 0, sizeof *r);
    r->model = model;
    r->bytes = model->bytes;
    r->arena = model->arena;
    r->err = err;
    r->caller = SP_MAIN_CALLER;
}

void sp_reader_release(struct sp_reader *r)
{
    sp_arena_destroy(r->scratch);
    free(r->undo);
    free(r->captures);
    free(r->edges);
    free(r->fields);
    free(r->stamps);
}

enum sp_status sp_reader_count(struct sp_reader *r, uint64_t *count, uint64_t more, const char *limit,
                               uint64_t limit_value, const char *what)
{
    *count += more; /* cannot overflow: both are bounded by the file's size in bytes */
    if (*count <= limit_value)
        return SP_OK;
    return sp_fail_limit(r->err, "MODEL_TOO_COMPLEX", limit, (int64_t)limit_value, (int64_t)*count,
                         "The model has more than %" PRIu64 " %s (limit %s).", limit_value, what, limit);
}

enum sp_status sp_reader_count_one(struct sp_reader *r, uint32_t *count, uint32_t limit_value, const char *limit,
                                   const char *what)
{
    uint64_t sum = *count;
    enum sp_status status = sp_reader_count(r, &sum, 1, limit, limit_value, what);
    *count = (uint32_t)sum;
    return status;
}

enum sp_status sp_reader_rank(struct sp_reader *r, uint32_t *rank, uint64_t more)
{
    if (more > SP_MAX_RANK || *rank + more > SP_MAX_RANK)
        return sp_fail_limit(r->err, "RANK_TOO_LARGE", "SP_MAX_RANK", SP_MAX_RANK, (int64_t)(*rank + more),
                             "A tensor has more than %d axes (limit SP_MAX_RANK).", SP_MAX_RANK);
    *rank += (uint32_t)more;
    return SP_OK;
}

enum sp_status sp_reader_unknown(struct sp_reader *r, const struct sp_wire_field *field)
{
    enum sp_status status = sp_reader_count(r, &r->unknown_fields, 1, "SP_MAX_UNKNOWN_FIELDS", SP_MAX_UNKNOWN_FIELDS,
                                            "fields that ONNX does not define");
    if (status != SP_OK)
        sp_error_at(r->err, "byte %" PRIu64, field->at);
    return status;
}

enum sp_status sp_reader_message(struct sp_reader *r, const struct sp_wire_field *field)
{
    enum sp_status status = sp_wire_expect(field, SP_WIRE_LEN, r->err);
    if (status == SP_OK && field->payload.size == 0) {
        status =
            sp_reader_count(r, &r->empty_records, 1, "SP_MAX_EMPTY_RECORDS", SP_MAX_EMPTY_RECORDS, "empty records");
        if (status != SP_OK)
            sp_error_at(r->err, "byte %" PRIu64, field->at);
    }
    return status;
}

enum sp_status sp_reader_single(struct sp_reader *r, const struct sp_wire_field *field, bool *seen)
{
    if (*seen)
        return sp_wire_fail(r->err, field->at, "field %u is there a second time", field->number);
    *seen = true;
    return sp_reader_message(r, field);
}

enum sp_status sp_reader_check_text(struct sp_reader *r, const struct sp_wire_field *field)
{
    enum sp_status status = sp_wire_expect(field, SP_WIRE_LEN, r->err);
    if (status != SP_OK)
        return status;
    if (field->payload.size > SP_MAX_NAME_BYTES)
        status = sp_fail_limit(
            r->err, "NAME_TOO_LONG", "SP_MAX_NAME_BYTES", SP_MAX_NAME_BYTES, (int64_t)field->payload.size,
            "A name has %" PRIu64 " bytes; the limit SP_MAX_NAME_BYTES is %d.", field->payload.size, SP_MAX_NAME_BYTES);
    else if (!sp_utf8_valid(r->bytes + field->payload.offset, field->payload.size))
        status = sp_fail(r->err, SP_ERR_MALFORMED, "INVALID_TEXT",
                         "A name at byte %" PRIu64 " is not valid UTF-8 or holds a NUL byte.", field->payload.offset);
    if (status != SP_OK)
        sp_error_at(r->err, "byte %" PRIu64, field->payload.offset);
    return status;
}

enum sp_status sp_reader_text(struct sp_reader *r, const struct sp_wire_field *field, const char **ret_text)
{
    enum sp_status status = sp_wire_expect(field, SP_WIRE_LEN, r->err);
    if (status != SP_OK)
        return status;
    if (field->payload.size > SP_MAX_NAME_BYTES)
        return sp_reader_check_text(r, field);
    const char *bytes = (const char *)r->bytes + field->payload.offset;
    return sp_reader_hashed(r, field, sp_intern_hash(r->model->names, bytes, field->payload.size), ret_text);
}

/* A name that is known was checked when it came first. */
enum sp_status sp_reader_hashed(struct sp_reader *r, const struct sp_wire_field *field, uint64_t hash,
                                const char **ret_text)
{
    const char *bytes = (const char *)r->bytes + field->payload.offset;
    const char *text = sp_intern_lookup(r->model->names, hash, bytes, field->payload.size);
    if (text == NULL) {
        enum sp_status status = sp_reader_check_text(r, field);
        if (status != SP_OK)
            return status;
        text = sp_intern_insert(r->model->names, hash, bytes, field->payload.size);
    }
    if (text == NULL)
        return sp_fail_memory(r->err);
    *ret_text = text;
    return SP_OK;
}

enum sp_status sp_reader_copy(struct sp_reader *r, const struct sp_wire_field *field, const char **ret_text)
{
    enum sp_status status = sp_reader_check_text(r, field);
    if (status != SP_OK)
        return status;
    *ret_text = sp_arena_string(r->arena, (const char *)r->bytes + field->payload.offset, field->payload.size);
    return *ret_text != NULL ? SP_OK : sp_fail_memory(r->err);
}

/* The number of an interned name in tables by name. Expansions number their own few names: a table over all names of
   the model would make each call cost that. */
static uint32_t name_id(struct sp_reader *r, const char *text)
{
    return r->local == NULL ? sp_intern_find(r->model->names, text, strlen(text))
                            : sp_intern_add(r->local, text, strlen(text));
}

enum sp_status sp_reader_scope(struct sp_reader *r, struct sp_name *name)
{
    const char *text = name->text;
    name->scope = NULL;
    if (text[0] == '\0')
        return SP_OK;
    if (r->local != NULL && (text = sp_intern_text(r->local, text, strlen(text))) == NULL)
        return sp_fail_memory(r->err);
    name->scope = sp_intern_mark(text);
    return SP_OK;
}

enum sp_status sp_reader_name(struct sp_reader *r, const struct sp_wire_field *field, struct sp_name *ret_name)
{
    enum sp_status status = sp_reader_text(r, field, &ret_name->text);
    return status == SP_OK ? sp_reader_scope(r, ret_name) : status;
}

enum sp_status sp_reader_domain(struct sp_reader *r, const struct sp_wire_field *field, const char **ret_text)
{
    enum sp_status status = sp_reader_text(r, field, ret_text);
    if (status == SP_OK && strcmp(*ret_text, "ai.onnx") == 0)
        *ret_text = "";
    return status;
}

enum sp_status sp_reader_int(struct sp_reader *r, const struct sp_wire_field *field, int64_t *ret_value)
{
    enum sp_status status = sp_wire_expect(field, SP_WIRE_VARINT, r->err);
    if (status == SP_OK)
        *ret_value = (int64_t)field->value;
    return status;
}

enum sp_status sp_reader_ints(struct sp_reader *r, const struct sp_wire_field *field, int64_t *values, uint32_t *count)
{
    uint64_t items, at = field->payload.offset;
    enum sp_status status = sp_wire_count_items(r->bytes, field, SP_WIRE_VARINT, &items, r->err);
    for (uint64_t i = 0; status == SP_OK && i < items; i++)
        values[(*count)++] = (int64_t)sp_wire_item(r->bytes, field, SP_WIRE_VARINT, &at);
    return status;
}

void sp_reader_new_list(struct sp_reader *r)
{
    r->stamp++;
}

enum sp_status sp_reader_mark(struct sp_reader *r, const char *text, bool *ret_new)
{
    uint32_t id = name_id(r, text), old = r->stamp_capacity;
    if (id == SP_NO_NAME || !SP_MAKE_PLACE(NULL, r->stamps, r->stamp_capacity, id))
        return sp_fail_memory(r->err);
    memset(r->stamps + old, 0, (r->stamp_capacity - old) * sizeof *r->stamps);
    *ret_new = r->stamps[id] != r->stamp;
    r->stamps[id] = r->stamp;
    return SP_OK;
}

enum sp_status sp_reader_tick(struct sp_reader *r, uint64_t at)
{
    if (++r->ticks % TICK_INTERVAL != 0 || r->watch == NULL)
        return SP_OK;
    if (sp_watch_tick(r->watch, "read", r->model->size == 0 ? 0 : (double)at / (double)r->model->size, 0, 0))
        return SP_OK;
    return sp_fail(r->err, SP_ERR_CANCELLED, "CANCELLED", "Reading the model was cancelled.");
}

enum sp_status sp_reader_where(struct sp_reader *r, enum sp_status status)
{
    char path[SP_ERROR_WHERE_SIZE], label[SP_ERROR_WHERE_SIZE];
    size_t used = 0;
    if (status == SP_OK || r->depth == 0)
        return status;
    if (r->function != NULL)
        used = (size_t)snprintf(path, sizeof path, "function %.80s%s", r->function->name,
                                r->frames[0].node == NULL ? "" : ": ");
    for (uint32_t i = 0; i < r->depth && used < sizeof path; i++) {
        const struct sp_frame *frame = &r->frames[i];
        if (frame->node == NULL)
            break;
        used += (size_t)snprintf(path + used, sizeof path - used, "%s%s", i == 0 ? "" : " > ",
                                 sp_node_label(frame->node, label, sizeof label));
    }
    if (used == 0)
        (void)snprintf(path, sizeof path, "%.80s",
                       r->frames[0].graph->name[0] == '\0' ? "main graph" : r->frames[0].graph->name);
    sp_error_at(r->err, "%s", path);
    return status;
}

enum sp_status sp_reader_fail(struct sp_reader *r, const char *code, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(text, format);
    return sp_reader_where(r, sp_fail(r->err, SP_ERR_MODEL, code, "%s", text));
}
