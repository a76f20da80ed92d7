/* Fields of protobuf messages by table, and OpMetadata. */
#include "base/sorted.h"
#include "sharding/hlo/proto.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum sp_status sp_hlo_error_at(const struct sp_hlo_reader *reader, const char *field, enum sp_status status,
                               struct sp_error *err)
{
    if (status != SP_OK && status != SP_ERR_MEMORY && reader->element >= 0)
        sp_error_at(err, "tuple_shardings[%" PRId64 "]%s%s", reader->element, field[0] != '\0' ? "." : "", field);
    else if (status != SP_OK && status != SP_ERR_MEMORY)
        sp_error_at(err, "%s", field);
    return status;
}

enum sp_status sp_hlo_fail_field(const struct sp_hlo_reader *reader, const char *field, struct sp_error *err,
                                 const char *code, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(text, format);
    sp_fail(err, SP_ERR_MALFORMED, code, "%s", text);
    return sp_hlo_error_at(reader, field, SP_ERR_MALFORMED, err);
}

static const struct sp_hlo_field *find_field(const struct sp_hlo_schema *schema, uint32_t number)
{
    for (uint32_t i = 0; i < schema->count; i++) {
        if (schema->fields[i].number == number)
            return &schema->fields[i];
    }
    return NULL;
}

/* One occurrence of a field. */
static enum sp_status note_field(const struct sp_hlo_reader *reader, const struct sp_hlo_schema *schema,
                                 const struct sp_hlo_field *rule, const struct sp_wire_field *field,
                                 struct sp_hlo_found *found, struct sp_error *err)
{
    uint64_t items = 1;
    enum sp_status status;
    if (rule->shape == SP_HLO_SCALAR)
        status = sp_wire_expect(field, SP_WIRE_VARINT, err);
    else if (rule->shape == SP_HLO_NUMBERS)
        status = sp_wire_count_items(reader->bytes, field, SP_WIRE_VARINT, &items, err);
    else
        status = sp_wire_expect(field, SP_WIRE_LEN, err);
    if (status != SP_OK)
        return status;
    if (rule->shape == SP_HLO_MESSAGE && found->count > 0)
        return sp_hlo_fail_field(reader, rule->name, err, "GIVEN_TWICE",
                                 "The field %s of %s is given a second time at byte %" PRIu64 ".", rule->name,
                                 schema->name, field->at);
    found->count += items;
    found->value = field->value;
    found->span = field->payload;
    bool is_list = rule->shape == SP_HLO_NUMBERS || rule->shape == SP_HLO_MESSAGES;
    if (is_list && found->count > (uint64_t)rule->max) {
        sp_fail_limit(err, "LIST_TOO_LONG", rule->limit, rule->max, (int64_t)found->count,
                      "The field %s of %s has %" PRIu64 " items or more; at most %" PRId64 " are read.", rule->name,
                      schema->name, found->count, rule->max);
        return sp_hlo_error_at(reader, rule->name, SP_ERR_LIMIT, err);
    }
    return SP_OK;
}

enum sp_status sp_hlo_scan(const struct sp_hlo_reader *reader, struct sp_span message,
                           const struct sp_hlo_schema *schema, struct sp_hlo_found found[static SP_HLO_MAX_FIELD + 1],
                           struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(reader->bytes, message);
    struct sp_wire_field field;
    memset(found, 0, (SP_HLO_MAX_FIELD + 1) * sizeof *found);
    for (;;) {
        enum sp_status status = sp_wire_next(&wire, &field, err);
        if (status != SP_OK || field.number == 0)
            return status;
        const struct sp_hlo_field *rule = find_field(schema, field.number);
        if (rule == NULL) {
            sp_fail(err, SP_ERR_MALFORMED, "UNKNOWN_FIELD", "The field %" PRIu32 " at byte %" PRIu64 " is none of %s.",
                    field.number, field.at, schema->name);
            sp_error_at(err, "byte %" PRIu64, field.at);
            return SP_ERR_MALFORMED;
        }
        status = note_field(reader, schema, rule, &field, &found[field.number], err);
        if (status != SP_OK)
            return status;
    }
}

enum sp_status sp_hlo_collect(const struct sp_hlo_reader *reader, struct sp_span message, uint32_t number,
                              const struct sp_hlo_found *found, int64_t **ret_items, struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(reader->bytes, message);
    struct sp_wire_field field;
    uint64_t filled = 0;
    int64_t *items = SP_NEW_ARRAY(reader->arena, (size_t)found->count, int64_t);
    if (items == NULL)
        return sp_fail_memory(err);
    while (filled < found->count) {
        uint64_t count, at;
        enum sp_status status = sp_wire_next(&wire, &field, err);
        if (status != SP_OK)
            return status;
        if (field.number != number)
            continue;
        status = sp_wire_count_items(reader->bytes, &field, SP_WIRE_VARINT, &count, err);
        if (status != SP_OK)
            return status;
        at = field.payload.offset;
        for (uint64_t i = 0; i < count && filled < found->count; i++)
            items[filled++] = (int64_t)sp_wire_item(reader->bytes, &field, SP_WIRE_VARINT, &at);
    }
    *ret_items = items;
    return SP_OK;
}

enum sp_status sp_hlo_next_message(struct sp_wire *wire, uint32_t number, struct sp_span *ret_span, bool *ret_found,
                                   struct sp_error *err)
{
    struct sp_wire_field field;
    do {
        enum sp_status status = sp_wire_next(wire, &field, err);
        if (status != SP_OK)
            return status;
    } while (field.number != number && field.number != 0);
    *ret_found = field.number != 0;
    *ret_span = field.payload;
    return SP_OK;
}

enum sp_status sp_hlo_read_name(const struct sp_hlo_reader *reader, struct sp_span span, const char **ret_name,
                                struct sp_error *err)
{
    if (span.size > SP_MAX_NAME_BYTES)
        return sp_fail_limit(err, "NAME_TOO_LONG", "SP_MAX_NAME_BYTES", SP_MAX_NAME_BYTES, (int64_t)span.size,
                             "The text at byte %" PRIu64 " has %" PRIu64 " bytes; at most %d are read.", span.offset,
                             span.size, SP_MAX_NAME_BYTES);
    if (!sp_utf8_valid(reader->bytes + span.offset, span.size))
        return sp_wire_fail(err, span.offset, "a text is not well-formed UTF-8 without NUL");
    *ret_name = NULL;
    if (span.size == 0)
        return SP_OK;
    *ret_name = sp_arena_string(reader->arena, (const char *)reader->bytes + span.offset, span.size);
    return *ret_name != NULL ? SP_OK : sp_fail_memory(err);
}

/* ---- metadata ---- */

/* A field that is kept as its bytes. */
struct kept {
    uint32_t number;
    uint64_t at, size;
};

SP_ASCENDING(compare_kept, struct kept, number, at)

static enum sp_status keep_others(const struct sp_hlo_reader *reader, uint32_t count, struct kept *kept,
                                  struct sp_hlo_metadata *entry, struct sp_error *err)
{
    size_t size = 0;
    if (count == 0)
        return SP_OK;
    qsort(kept, count, sizeof *kept, compare_kept);
    for (uint32_t i = 0; i < count; i++)
        size += kept[i].size;
    unsigned char *other = SP_NEW_ARRAY(reader->arena, size, unsigned char);
    if (other == NULL)
        return sp_fail_memory(err);
    entry->other = other;
    entry->other_size = size;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(other, reader->bytes + kept[i].at, kept[i].size);
        other += kept[i].size;
    }
    return SP_OK;
}

static enum sp_status read_entry(const struct sp_hlo_reader *reader, struct sp_span span, struct sp_hlo_metadata *entry,
                                 struct sp_error *err)
{
    const char **texts[] = {NULL, &entry->op_type, &entry->op_name, &entry->source_file};
    struct sp_wire wire = sp_wire_of(reader->bytes, span);
    struct sp_wire_field field;
    uint32_t count = 0;
    struct kept kept[SP_MAX_SHARDING_METADATA]; /* not of the arena: an entry may be two bytes in the file */
    for (;;) {
        enum sp_status status = sp_wire_next(&wire, &field, err);
        if (status != SP_OK || field.number == 0)
            return status == SP_OK ? keep_others(reader, count, kept, entry, err) : status;
        int32_t *number = field.number == 4    ? &entry->source_line
                          : field.number == 17 ? &entry->source_end_line
                          : field.number == 18 ? &entry->source_column
                          : field.number == 19 ? &entry->source_end_column
                                               : NULL;
        if (field.number <= 3) {
            status = sp_wire_expect(&field, SP_WIRE_LEN, err);
            if (status == SP_OK)
                status = sp_hlo_read_name(reader, field.payload, texts[field.number], err);
        } else if (number != NULL) {
            status = sp_wire_expect(&field, SP_WIRE_VARINT, err);
            *number = (int32_t)(uint32_t)field.value;
        } else if (count == SP_MAX_SHARDING_METADATA) {
            status = sp_fail_limit(err, "TOO_MUCH_METADATA", "SP_MAX_SHARDING_METADATA", SP_MAX_SHARDING_METADATA,
                                   SP_MAX_SHARDING_METADATA + 1, "A metadata entry has more than %d fields.",
                                   SP_MAX_SHARDING_METADATA);
        } else {
            kept[count++] = (struct kept){field.number, field.at, wire.at - field.at};
        }
        if (status != SP_OK)
            return status;
    }
}

enum sp_status sp_hlo_read_metadata(const struct sp_hlo_reader *reader, struct sp_span message, uint32_t number,
                                    uint64_t count, struct sp_hlo_metadata **ret_items, struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(reader->bytes, message);
    struct sp_hlo_metadata *items = SP_NEW_ARRAY(reader->arena, (size_t)count, struct sp_hlo_metadata);
    if (items == NULL)
        return sp_fail_memory(err);
    for (uint64_t i = 0; i < count; i++) {
        struct sp_span span;
        bool found;
        enum sp_status status = sp_hlo_next_message(&wire, number, &span, &found, err);
        if (status == SP_OK)
            status = read_entry(reader, span, &items[i], err);
        if (status != SP_OK)
            return status;
    }
    *ret_items = items;
    return SP_OK;
}
