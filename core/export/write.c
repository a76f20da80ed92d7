/* Bytes on their way to the sink, notes, and what formats ask about the subject. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "export/internal.h"

/* ---- bytes ----------------------------------------------------------------------------------------------------- */

static bool is_full(const struct sp_export *out)
{
    return out->written > SP_MAX_EXPORT_BYTES;
}

static void send(struct sp_export *out, const void *bytes, size_t size)
{
    const struct sp_sink *sink = &out->request->sink;
    out->written += size;
    if (!out->is_broken && !is_full(out) && size > 0)
        out->is_broken = !sink->write(sink->context, bytes, size);
}

static void flush(struct sp_export *out)
{
    send(out, out->text.data, out->text.size);
    sp_buf_clear(&out->text);
}

void sp_export_bytes(struct sp_export *out, const void *bytes, size_t size)
{
    if (out->text.size + size > SP_EXPORT_CHUNK)
        flush(out);
    if (size > SP_EXPORT_CHUNK)
        send(out, bytes, size);
    else
        sp_buf_append(&out->text, bytes, size);
    out->is_broken = out->is_broken || sp_buf_failed(&out->text);
}

void sp_export_text(struct sp_export *out, const char *text)
{
    sp_export_bytes(out, text, strlen(text));
}

void sp_export_printf(struct sp_export *out, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= sizeof text)
        out->is_broken = true; /* only figures and short words are printed this way */
    else
        sp_export_bytes(out, text, (size_t)size);
}

enum sp_status sp_export_finish(struct sp_export *out, struct sp_error *err)
{
    flush(out);
    if (is_full(out))
        return sp_fail_limit(err, "EXPORT_TOO_LARGE", "SP_MAX_EXPORT_BYTES", (int64_t)SP_MAX_EXPORT_BYTES,
                             (int64_t)out->written, "The export is larger than %" PRIu64 " bytes.",
                             (uint64_t)SP_MAX_EXPORT_BYTES);
    return out->is_broken ? sp_fail(err, SP_ERR_IO, "WRITE_FAILED", "The export could not be written.") : SP_OK;
}

static bool write_json(void *context, const char *bytes, size_t size)
{
    struct sp_export *out = context;
    sp_export_bytes(out, bytes, size);
    return !out->is_broken && !is_full(out);
}

void sp_export_json(struct sp_export *out, bool pretty, struct sp_json *json)
{
    sp_json_init(json, pretty, write_json, out);
}

/* Characters that YAML, or a reader of JSON that is a script, takes for line breaks or does not allow: *ret_size bytes
   of UTF-8 at `c`, which a NUL ends. 0: none of them. */
static unsigned special_at(const unsigned char *c, unsigned *ret_size)
{
    uint32_t point;
    *ret_size = 1;
    if (c[0] == '"' || c[0] == '\\')
        return c[0];
    const size_t taken = sp_utf8_control(c, strnlen((const char *)c, 4), &point);
    if (taken > 0 && point != SP_NO_CHARACTER) {
        *ret_size = (unsigned)taken;
        return point;
    }
    if (c[0] != 0xef || c[1] == 0)
        return 0;
    unsigned code = (c[0] & 0x0fU) << 12 | (c[1] & 0x3fU) << 6 | (c[2] & 0x3fU);
    *ret_size = 3;
    return code == 0xfeff || code == 0xfffe || code == 0xffff ? code : 0;
}

void sp_export_quoted(struct sp_export *out, const char *text)
{
    const char *from = text;
    sp_export_text(out, "\"");
    for (const char *c = text; *c != '\0';) {
        unsigned size, code = special_at((const unsigned char *)c, &size);
        if (code == 0) {
            c++;
            continue;
        }
        sp_export_bytes(out, from, (size_t)(c - from));
        if (code == '"' || code == '\\')
            sp_export_printf(out, "\\%c", (char)code);
        else
            sp_export_printf(out, "\\u%04x", code);
        c += size;
        from = c;
    }
    sp_export_text(out, from);
    sp_export_text(out, "\"");
}

void sp_export_number(struct sp_export *out, double value)
{
    struct sp_json json;
    sp_export_json(out, false, &json);
    sp_json_double(&json, value);
    (void)sp_json_finish(&json, NULL);
}

/* ---- models ---------------------------------------------------------------------------------------------------- */

static bool read_file(void *context, uint64_t offset, void *bytes, size_t size)
{
    const struct sp_model_file *file = context;
    if (offset > file->size || size > file->size - offset)
        return false;
    memcpy(bytes, (const char *)file->bytes + offset, size);
    return true;
}

enum sp_status sp_export_model(struct sp_export *out, struct sp_splice *splice, struct sp_error *err)
{
    const struct sp_model_file *file = out->subject->file;
    const struct sp_source source = {read_file, (void *)(uintptr_t)file};
    enum sp_status status = sp_model_file_splice(file, &splice, err);
    if (status == SP_OK)
        status = sp_splice_stream(splice, &source, &out->request->sink, err);
    if (status == SP_OK || splice != NULL)
        sp_splice_destroy(splice);
    return status;
}

/* ---- notes ----------------------------------------------------------------------------------------------------- */

enum sp_status sp_export_note(struct sp_export *out, const char *code, const struct sp_node *node, struct sp_error *err,
                              const char *format, ...)
{
    char message[SP_ERROR_MESSAGE_SIZE];
    struct sp_export_note note = {code, node, message};
    if (out->request->note == NULL || out->notes == SP_MAX_EXPORT_NOTES)
        return SP_OK;
    if (++out->notes == SP_MAX_EXPORT_NOTES) {
        note = (struct sp_export_note){"MORE_NOTES", NULL, "There are more notes than are told."};
        return out->request->note(out->request->note_context, &note, err);
    }
    SP_FORMAT(message, format);
    return out->request->note(out->request->note_context, &note, err);
}

/* ---- the subject ----------------------------------------------------------------------------------------------- */

enum sp_status sp_export_device(const struct sp_export *out, uint32_t node, const char *tool, int64_t *ret_device,
                                struct sp_error *err)
{
    const struct sp_subject_node *place = &out->subject->nodes[node];
    char label[264];
    if (place->device_count == 0)
        return sp_fail(err, SP_ERR_MODEL, "NODE_UNPLACED",
                       "Nothing says on which device %s runs; complete the annotations with 'shardplan infer'.",
                       sp_node_label(&out->subject->model->graph->nodes[node], label, sizeof label));
    /* What runs at load is made on every device that uses it, and a tool does that by itself. */
    if (place->device_count > 1 && !out->subject->model->graph->nodes[node].is_folded)
        return sp_fail(
            err, SP_ERR_UNSUPPORTED, "NODE_IS_SPLIT", "%s takes whole operators, and %s runs on %" PRId64 " devices.",
            tool, sp_node_label(&out->subject->model->graph->nodes[node], label, sizeof label), place->device_count);
    *ret_device = place->devices[0];
    return SP_OK;
}

int32_t sp_export_stage(const struct sp_export *out, uint32_t node)
{
    const struct sp_subject_node *place = &out->subject->nodes[node];
    return place->has_stage && place->stage > 0 ? place->stage : 0;
}

const char *sp_export_device_name(const struct sp_export *out, int64_t device, char *text, size_t size)
{
    if (out->subject->device_names != NULL)
        return out->subject->device_names[device];
    (void)snprintf(text, size, "device %" PRId64, device);
    return text;
}

enum sp_status sp_export_check_names(const struct sp_export *out, const char *tool, bool may_be_unnamed,
                                     struct sp_error *err)
{
    const struct sp_model *model = out->subject->model;
    struct sp_arena_mark mark = sp_arena_mark(out->scratch);
    struct sp_intern *names = sp_intern_create(out->scratch, model->hash_seed);
    enum sp_status status = names != NULL ? SP_OK : sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < model->graph->node_count; i++) {
        const char *name = model->graph->nodes[i].name;
        if (name[0] == '\0' && may_be_unnamed)
            continue;
        const uint32_t before = sp_intern_count(names);
        const uint32_t id = name[0] != '\0' ? sp_intern_add(names, name, strlen(name)) : SP_NO_NAME;
        if (name[0] == '\0')
            status = sp_fail(err, SP_ERR_UNSUPPORTED, "NODE_NAMES",
                             "%s finds nodes by their names, and node %u (%s) has none; give every node a name.", tool,
                             i, model->graph->nodes[i].op_type);
        else if (id == SP_NO_NAME)
            status = sp_fail_memory(err);
        else if (id < before)
            status = sp_fail(err, SP_ERR_UNSUPPORTED, "NODE_NAMES",
                             "%s finds nodes by their names, and two are called '%.200s'; give every node a name of "
                             "its own.",
                             tool, name);
    }
    sp_arena_rewind(out->scratch, mark);
    return status;
}
