#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json_writer.h"
#include "base/limits.h"
#include "base/sorted.h"
#include "onnx/write.h"

/*
 * The record is a metadata entry whose value is JSON:
 *
 *   {"ir_version": 8, "ir_version_added": false, "configurations": ["plan"], "widths": "12:2 40:3",
 *    "completed": "mine", "specs": "12:1 40:0", "stored": {"plan": {"w": SPEC}}, "opsets_added": 1}
 *
 * `ir_version` is the original's, null when it had none; `opsets_added` (left out when 0) counts our imports; `widths`
 * (left out when empty) lists box:width. `completed` and `specs` (box:specs of the original) are there when specs were
 * added to a configuration of the original. `stored` says how devices hold inputs and weights of which no node's spec
 * says it; a SPEC is as sharding/dialect.h has it.
 */

enum { METADATA_PROPS = 14, METADATA_KEY = 1, METADATA_VALUE = 2 };

#define MAX_WIDTH 5 /* bytes of a length prefix */

static enum sp_status broken(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_MODEL, "BAD_ANNOTATION_RECORD",
                   "The metadata entry '%s', which says how to take annotations off again, is damaged.",
                   SP_WRITER_METADATA_KEY);
}

void sp_record_release(struct sp_record *record)
{
    for (uint32_t i = 0; i < record->count; i++)
        free(record->names[i]);
    free(record->notes);
    free(record->completed);
    free(record->kept);
    json_decref(record->stored);
    memset(record, 0, sizeof *record);
}

bool sp_record_has(const struct sp_record *record, const unsigned char *name, size_t size)
{
    for (uint32_t i = 0; i < record->count; i++) {
        if (strlen(record->names[i]) == size && memcmp(record->names[i], name, size) == 0)
            return true;
    }
    return false;
}

enum sp_status sp_record_is_entry(const unsigned char *bytes, struct sp_span entry, bool *ret_is,
                                  struct sp_span *ret_value, struct sp_error *err)
{
    static const char key[] = SP_WRITER_METADATA_KEY;
    struct sp_wire wire = sp_wire_of(bytes, entry);
    struct sp_wire_field field;
    bool is = false;
    enum sp_status status;
    *ret_value = (struct sp_span){entry.offset, 0};
    while ((status = sp_wire_next(&wire, &field, err)) == SP_OK && field.number != 0) {
        if (field.number == METADATA_KEY)
            is = field.payload.size == sizeof key - 1 && memcmp(bytes + field.payload.offset, key, sizeof key - 1) == 0;
        else if (field.number == METADATA_VALUE)
            *ret_value = field.payload;
    }
    *ret_is = is;
    return status;
}

/* "12:2 40:3": calls add(record, box, value) for each pair; boxes ascend. */
static bool parse_pairs(const char *text, struct sp_record *record, uint64_t most,
                        bool (*add)(struct sp_record *record, uint32_t box, uint32_t value))
{
    uint64_t last = 0;
    bool is_first = true;
    while (*text != '\0') {
        char *end;
        if (*text < '0' || *text > '9')
            return false;
        unsigned long long box = strtoull(text, &end, 10);
        if (*end != ':' || end[1] < '0' || end[1] > '9' || box >= UINT32_MAX || (!is_first && box <= last))
            return false;
        unsigned long long value = strtoull(end + 1, &end, 10);
        if (value > most || (*end != ' ' && *end != '\0') || !add(record, (uint32_t)box, (uint32_t)value))
            return false;
        last = box;
        is_first = false;
        text = *end == ' ' ? end + 1 : end;
    }
    return true;
}

static bool add_width(struct sp_record *record, uint32_t box, uint32_t width)
{
    if (width < 1 || !SP_MAKE_ROOM(NULL, record->notes, record->note_count, record->note_capacity, 1))
        return false;
    record->notes[record->note_count++] = (struct sp_width_note){box, width};
    return true;
}

bool sp_record_keep(struct sp_record *record, uint32_t box, uint32_t specs)
{
    if (!SP_MAKE_ROOM(NULL, record->kept, record->kept_count, record->kept_capacity, 1))
        return false;
    record->kept[record->kept_count++] = (struct sp_interned_note){box, specs};
    return true;
}

const struct sp_interned_note *sp_record_kept(const struct sp_record *record, uint32_t box)
{
    uint32_t at;
    SP_LOWER_BOUND(at, record->kept_count, record->kept[at].box < box);
    return at < record->kept_count && record->kept[at].box == box ? &record->kept[at] : NULL;
}

bool sp_record_completes(const struct sp_record *record, const unsigned char *name, size_t size)
{
    return record->completed != NULL && strlen(record->completed) == size && memcmp(record->completed, name, size) == 0;
}

static bool parse_names(const json_t *names, struct sp_record *record)
{
    if (!json_is_array(names) || json_array_size(names) > SP_RECORD_MAX_CONFIGURATIONS)
        return false;
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (name == NULL || (record->names[record->count] = strdup(name)) == NULL)
            return false;
        record->count++;
    }
    return true;
}

static bool parse_completed(const json_t *root, struct sp_record *record)
{
    const char *name = json_string_value(json_object_get(root, "completed"));
    const char *specs = json_string_value(json_object_get(root, "specs"));
    if (name == NULL && specs == NULL)
        return true;
    if (name == NULL || specs == NULL || (record->completed = strdup(name)) == NULL)
        return false;
    return parse_pairs(specs, record, SP_MAX_METADATA, sp_record_keep);
}

static bool parse(const json_t *root, struct sp_record *record)
{
    const json_t *ir_version = json_object_get(root, "ir_version"), *added = json_object_get(root, "ir_version_added");
    const json_t *widths = json_object_get(root, "widths");
    record->has_ir_version = json_is_integer(ir_version);
    record->ir_version = json_integer_value(ir_version);
    record->is_ir_version_added = json_is_true(added);
    if (!record->has_ir_version && !json_is_null(ir_version))
        return false;
    if (record->ir_version < 0 || record->ir_version > INT32_MAX || !json_is_boolean(added))
        return false;
    if (widths != NULL &&
        (!json_is_string(widths) || !parse_pairs(json_string_value(widths), record, MAX_WIDTH, add_width)))
        return false;
    json_t *stored = json_object_get(root, "stored");
    const json_t *opsets = json_object_get(root, "opsets_added");
    const json_int_t opsets_added = json_integer_value(opsets);
    if (stored != NULL && !json_is_object(stored))
        return false;
    if ((opsets != NULL && !json_is_integer(opsets)) || opsets_added < 0 || opsets_added > SP_RECORD_MAX_OPSETS)
        return false;
    record->opsets_added = (uint32_t)opsets_added;
    record->stored = json_incref(stored);
    if (!parse_completed(root, record))
        return false;
    return parse_names(json_object_get(root, "configurations"), record);
}

enum sp_status sp_record_read(const struct sp_model *model, struct sp_record *ret_record, struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(model->bytes, (struct sp_span){0, model->size});
    struct sp_wire_field field;
    struct sp_span value = {0, 0}, found;
    bool is;
    enum sp_status status;
    memset(ret_record, 0, sizeof *ret_record);
    while ((status = sp_wire_next(&wire, &field, err)) == SP_OK && field.number != 0) {
        if (field.number != METADATA_PROPS)
            continue;
        if ((status = sp_record_is_entry(model->bytes, field.payload, &is, &found, err)) != SP_OK)
            return status;
        if (is && ret_record->is_present)
            return broken(err); /* two of them */
        if (is)
            value = found;
        ret_record->is_present = ret_record->is_present || is;
    }
    if (status != SP_OK || !ret_record->is_present)
        return status;
    if (value.size > SP_MAX_RECORD_BYTES)
        return broken(err);
    json_t *root = json_loadb((const char *)model->bytes + value.offset, value.size, JSON_REJECT_DUPLICATES, NULL);
    if (root == NULL || !parse(root, ret_record)) {
        sp_record_release(ret_record);
        status = broken(err);
    }
    json_decref(root);
    return status;
}

SP_ASCENDING(by_box, struct sp_interned_note, box)

int64_t sp_onnx_original_ir_version(const struct sp_model *model)
{
    struct sp_record record;
    struct sp_error ignored = {0};
    int64_t version = model->ir_version;
    if (sp_record_read(model, &record, &ignored) != SP_OK || !record.is_present)
        return version;
    version = record.has_ir_version ? record.ir_version : 0;
    sp_record_release(&record);
    return version;
}

static void write_notes(const struct sp_record *record, struct sp_json *json, struct sp_buf *text)
{
    for (uint32_t i = 0; i < record->note_count; i++)
        sp_buf_printf(text, "%s%u:%u", i == 0 ? "" : " ", record->notes[i].box, record->notes[i].width);
    if (record->note_count > 0 && !sp_buf_failed(text))
        sp_json_member_string(json, "widths", text->data);
    if (record->completed == NULL)
        return;
    sp_buf_clear(text);
    for (uint32_t i = 0; i < record->kept_count; i++)
        sp_buf_printf(text, "%s%u:%u", i == 0 ? "" : " ", record->kept[i].box, record->kept[i].specs);
    sp_json_member_string(json, "completed", record->completed);
    sp_json_member_string(json, "specs", text->size > 0 && !sp_buf_failed(text) ? text->data : "");
}

enum sp_status sp_record_write(struct sp_record *record, struct sp_buf *buf, struct sp_error *err)
{
    struct sp_buf value, notes, entry;
    /* Nodes of graphs inside a node were looked at before the node itself. */
    if (record->kept_count > 1)
        qsort(record->kept, record->kept_count, sizeof *record->kept, by_box);
    struct sp_json json;
    sp_buf_init(&value, SP_MAX_RECORD_BYTES);
    sp_buf_init(&notes, SP_MAX_RECORD_BYTES);
    sp_buf_init(&entry, 2 * (size_t)SP_MAX_RECORD_BYTES);
    sp_json_init_buf(&json, false, &value);
    sp_json_begin_object(&json);
    sp_json_key(&json, "ir_version");
    if (record->has_ir_version)
        sp_json_int(&json, record->ir_version);
    else
        sp_json_null(&json);
    sp_json_member_bool(&json, "ir_version_added", record->is_ir_version_added);
    if (record->opsets_added > 0)
        sp_json_member_int(&json, "opsets_added", record->opsets_added);
    sp_json_key(&json, "configurations");
    sp_json_begin_array(&json);
    for (uint32_t i = 0; i < record->count; i++)
        sp_json_string(&json, record->names[i]);
    sp_json_end_array(&json);
    write_notes(record, &json, &notes);
    char *stored = record->stored == NULL ? NULL : json_dumps(record->stored, JSON_COMPACT);
    if (stored != NULL) {
        sp_json_key(&json, "stored");
        sp_json_raw(&json, stored, strlen(stored));
    }
    free(stored);
    sp_json_end_object(&json);
    enum sp_status status = sp_json_finish(&json, NULL);
    if (status == SP_OK && !sp_buf_failed(&notes)) {
        sp_encode_field(METADATA_KEY, SP_WRITER_METADATA_KEY, strlen(SP_WRITER_METADATA_KEY), &entry);
        sp_encode_field(METADATA_VALUE, value.data, value.size, &entry);
        sp_encode_field(METADATA_PROPS, entry.data, entry.size, buf);
    }
    if (status != SP_OK || sp_buf_failed(&notes) || sp_buf_failed(&entry))
        status = sp_fail_limit(err, "RECORD_TOO_LARGE", "SP_MAX_RECORD_BYTES", SP_MAX_RECORD_BYTES,
                               (int64_t)SP_MAX_RECORD_BYTES + 1,
                               "What is needed to take the annotations off again passes SP_MAX_RECORD_BYTES.");
    else if (sp_buf_failed(buf))
        status = sp_fail_memory(err);
    sp_buf_release(&value);
    sp_buf_release(&notes);
    sp_buf_release(&entry);
    return status;
}
