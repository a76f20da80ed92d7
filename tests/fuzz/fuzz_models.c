#include "fuzz_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "export/export.h"
#include "onnx/reader.h"
#include "onnx/writer.h"
#include "ops/shapes/shapes.h"
#include "plan/check.h"
#include "plan/infer/infer.h"

#define MAX_OUTPUT ((size_t)256 << 20)
#define BUDGET     ((size_t)256 << 20)
#define JOB        ((size_t)100 << 20) /* budget of one check, completion or export of up to 1 MB */
#define OUTPUT     ((size_t)64 << 20)  /* bytes of one export; more ends it */
#define MAX_SETS   4

void fuzz_require(bool condition)
{
    if (!condition)
        abort();
}

void fuzz_check_error(enum sp_status status, const struct sp_error *err)
{
    const bool is_said = status == err->status && err->code[0] != '\0' && err->message[0] != '\0';
    if (!is_said || status == SP_ERR_INTERNAL)
        (void)fprintf(stderr, "status %d: %s: %s\n", (int)status, err->code, err->message);
    fuzz_require(is_said);
    fuzz_require((status == SP_ERR_LIMIT) == (err->limit != NULL));
    fuzz_require(status != SP_ERR_INTERNAL);
}

/* ---- files ---------------------------------------------------------------------------------------------------- */

static bool append(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

static bool read_original(void *context, uint64_t offset, void *bytes, size_t size)
{
    memcpy(bytes, (const uint8_t *)context + offset, size);
    return true;
}

struct sp_buf fuzz_realise(struct sp_splice *splice, const uint8_t *bytes)
{
    struct sp_source source = {.read = read_original, .context = (void *)(uintptr_t)bytes};
    struct sp_buf buf;
    struct sp_sink sink = {.write = append, .context = &buf};
    sp_buf_init(&buf, MAX_OUTPUT);
    fuzz_require(sp_splice_stream(splice, &source, &sink, NULL) == SP_OK && buf.size == sp_splice_size(splice));
    sp_splice_destroy(splice);
    return buf;
}

static bool mentions(const uint8_t *bytes, size_t size, const char *text)
{
    return memmem(bytes, size, text, strlen(text)) != NULL;
}

void fuzz_check_strip(const struct sp_buf *written, const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = BUDGET};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_model *model;
    struct sp_splice *splice;
    struct sp_error err = {0};
    enum sp_status status = sp_onnx_read(arena, written->data, written->size, NULL, &model, &err);
    if (status == SP_OK) {
        fuzz_require(sp_onnx_strip(model, &splice, &err) == SP_OK);
        struct sp_buf stripped = fuzz_realise(splice, (const uint8_t *)written->data);
        fuzz_require(mentions(bytes, size, SP_WRITER_METADATA_KEY) ||
                     (stripped.size == size && memcmp(stripped.data, bytes, size) == 0));
        sp_buf_release(&stripped);
    } else {
        fuzz_require(status == SP_ERR_LIMIT || status == SP_ERR_MEMORY);
    }
    sp_arena_destroy(arena);
}

void fuzz_check_annotations(const struct sp_buf *written)
{
    struct sp_budget budget = {.limit = BUDGET};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_diagnostics list = {.arena = arena};
    struct sp_shape_summary summary;
    struct sp_model *model;
    struct sp_error err = {0};
    if (sp_onnx_read(arena, written->data, written->size, NULL, &model, &err) == SP_OK &&
        sp_infer_shapes(model, NULL, &summary, &err) == SP_OK &&
        sp_check_annotations(model, NULL, &list, &err) == SP_OK)
        fuzz_require(list.errors == 0);
    sp_arena_destroy(arena);
}

uint64_t fuzz_hash(const uint8_t *bytes, size_t size)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

/* ---- requests ------------------------------------------------------------------------------------------------- */

/* {"device": [0, .., n - 1], "shardedDim": [{"axis": a, "simpleSharding": [{"numShards": n}]}]} */
static json_t *split(uint64_t axis, uint64_t devices)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < devices; i++)
        (void)json_array_append_new(list, json_integer((json_int_t)i));
    return json_pack("{s:o, s:[{s:I, s:[{s:I}]}]}", "device", list, "shardedDim", "axis", (json_int_t)axis,
                     "simpleSharding", "numShards", (json_int_t)devices);
}

/* The next number of a sequence that the seed starts (splitmix64). */
static uint64_t next(uint64_t *seed)
{
    uint64_t value = *seed += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static void add_sets(const struct sp_graph *graph, uint64_t seed, uint64_t devices, json_t *sets)
{
    for (uint64_t i = next(&seed) % MAX_SETS; graph->value_count > 0 && i > 0; i--) {
        const struct sp_value *value = graph->values[next(&seed) % graph->value_count];
        uint64_t rank = value->declared.shape.has_rank ? value->declared.shape.rank
                        : value->tensor != NULL        ? value->tensor->rank
                                                       : 2;
        if (value->name[0] != '\0')
            (void)json_object_set_new(sets, value->name, split(next(&seed) % (rank + (rank == 0)), devices));
    }
}

json_t *fuzz_request(const uint8_t *bytes, size_t size, const char *mode, uint64_t seed)
{
    struct sp_budget budget = {.limit = BUDGET};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_model *model;
    json_t *request = NULL;
    if (sp_onnx_read(arena, bytes, size, NULL, &model, NULL) == SP_OK) {
        uint64_t devices = 2 + next(&seed) % 3;
        json_t *sets = json_object();
        add_sets(model->graph, seed, devices, sets);
        request = json_pack("{s:s, s:o}", "mode", mode, "set", sets);
        if (model->configuration_count == 0)
            (void)json_object_set_new(request, "devices", json_integer((json_int_t)devices));
        else
            (void)json_object_set_new(
                request, "configuration",
                json_string(model->configurations[next(&seed) % model->configuration_count].name));
    }
    sp_arena_destroy(arena);
    return request;
}

/* ---- check ---------------------------------------------------------------------------------------------------- */

static bool drop(void *context, const char *bytes, size_t size)
{
    *(size_t *)context += size;
    (void)bytes;
    return true;
}

bool fuzz_check_model(const uint8_t *bytes, size_t size)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = JOB};
    struct sp_check_answer *answer = NULL;
    struct sp_error err = {0};
    enum sp_status status = sp_check_answer_create(&options, NULL, &answer, &err);
    if (status != SP_OK) {
        fuzz_check_error(status, &err);
        return false;
    }
    struct sp_json json;
    struct sp_buf text;
    size_t written = 0;
    sp_json_init(&json, false, drop, &written);
    sp_check_answer_json(answer, &json);
    fuzz_require(sp_json_finish(&json, &err) == SP_OK && written > 0);
    sp_buf_init(&text, (size_t)64 << 20);
    sp_check_answer_text(answer, &text);
    fuzz_require(!sp_buf_failed(&text));
    sp_buf_release(&text);
    bool is_valid = sp_check_answer_is_valid(answer);
    sp_check_answer_destroy(answer);
    return is_valid;
}

/* ---- complete ------------------------------------------------------------------------------------------------- */

/* What was written is well-formed, if what was there and what was asked for is: `is_consistent`. */
static void check_completion(const struct sp_completion *completion, const uint8_t *bytes, size_t size,
                             bool is_consistent)
{
    struct sp_splice *splice = NULL;
    struct sp_error err = {0};
    enum sp_status status = sp_completion_annotate(completion, &splice, &err);
    if (status != SP_OK) {
        fuzz_check_error(status, &err);
        return;
    }
    struct sp_buf written = fuzz_realise(splice, bytes);
    if (is_consistent)
        fuzz_check_annotations(&written);
    fuzz_check_strip(&written, bytes, size);
    sp_buf_release(&written);
}

void fuzz_complete_model(const uint8_t *bytes, size_t size, const char *mode, uint64_t seed, bool was_valid)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = JOB};
    struct sp_completion *completion = NULL;
    struct sp_error err = {0};
    json_t *request = fuzz_request(bytes, size, mode, seed);
    enum sp_status status = sp_completion_create(&options, request, &completion, &err);
    if (status == SP_OK) {
        struct sp_json json;
        size_t written = 0;
        sp_json_init(&json, false, drop, &written);
        status = sp_completion_json(completion, &json, &err);
        if (status == SP_OK)
            fuzz_require(sp_json_finish(&json, &err) == SP_OK && written > 0);
        bool is_consistent = was_valid && json_object_get(request, "configuration") == NULL &&
                             json_object_size(json_object_get(request, "set")) <= 1;
        check_completion(completion, bytes, size, is_consistent);
        sp_completion_destroy(completion);
    }
    if (status != SP_OK)
        fuzz_check_error(status, &err);
    json_decref(request);
}

/* ---- exports ---- */

static enum sp_status note(void *context, const struct sp_export_note *note, struct sp_error *err)
{
    (void)context;
    (void)err;
    fuzz_require(note->code[0] != '\0' && note->message[0] != '\0');
    return SP_OK;
}

/* One export into `out`; false when it was refused, which must be said well. */
bool fuzz_export(const struct sp_subject *subject, const char *format, struct sp_buf *out)
{
    struct sp_error err = {0};
    const struct sp_export_request request = {
        .subject = subject, .format = format, .sink = {.write = append, .context = out}, .note = note};
    sp_buf_init(out, OUTPUT);
    enum sp_status status = sp_export_write(&request, &err);
    if (status == SP_OK)
        return true;
    if (status != SP_ERR_IO) /* the buffer is full */
        fuzz_check_error(status, &err);
    return false;
}

/* Shapes are not looked at: of what is written more may be known than of the model, which may be wrong. */
void fuzz_check_file(const struct sp_buf *file)
{
    struct sp_budget budget = {.limit = BUDGET};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_model *model;
    struct sp_error err = {0};
    fuzz_require(arena != NULL);
    if (sp_onnx_read(arena, file->data, file->size, NULL, &model, &err) != SP_OK) {
        (void)fprintf(stderr, "%s: %s\n", err.code, err.message);
        fuzz_require(false);
    }
    sp_arena_destroy(arena);
}

static void check_format(const struct sp_subject *subject, const struct sp_export_format *format, bool opens)
{
    struct sp_buf out;
    if (fuzz_export(subject, format->name, &out)) {
        if (strcmp(format->media_type, "application/json") == 0) {
            json_t *json = json_loadb(out.data, out.size, JSON_REJECT_DUPLICATES, NULL);
            fuzz_require(json != NULL);
            json_decref(json);
        } else if (strcmp(format->media_type, "application/octet-stream") == 0) {
            fuzz_check_file(&out);
            const struct sp_job_options options = {.bytes = out.data, .size = out.size, .memory_budget = JOB};
            struct sp_error err = {0};
            struct sp_job *job = NULL;
            enum sp_status status = sp_job_open(&options, &job, &err);
            /* A device's model states the shapes of pieces, which other operators may make something else of. */
            fuzz_require(status == SP_OK || !opens || strcmp(format->name, "ort") == 0 || status == SP_ERR_MEMORY);
            sp_job_destroy(job);
        }
    }
    sp_buf_release(&out);
}

void fuzz_check_formats(const struct sp_subject *subject, bool opens)
{
    for (uint32_t i = 0; i < sp_export_format_count(); i++)
        check_format(subject, sp_export_format(i), opens);
}
