/*
 * The whole way of an export: read, complete the shardings of each configuration, plan, and write every format.
 *
 * The bytes are a model. What is exported is each of its configurations, a completion that fuzz_request() asks for, and
 * a plan for some devices; all is taken from a hash of the bytes, so that a found input tells it all.
 *
 * Properties: an error has a code and a message and is none of ours; notes are sentences; what was written in JSON is
 * JSON; a model with more in it is read again; a plan and the model annotated with it give the same points and specs.
 */
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "fuzz.h"
#include "fuzz_models.h"
#include "plan/infer/infer.h"

#define BUDGET     ((size_t)100 << 20) /* of one job of up to 1 MB */
#define OUTPUT     ((size_t)64 << 20)  /* bytes of one export; more ends it */
#define MAX_EXPORT ((size_t)256 << 10) /* larger models are exported elsewhere: here are many formats */

static bool append(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

static enum sp_status note(void *context, const struct sp_export_note *note, struct sp_error *err)
{
    (void)context;
    (void)err;
    fuzz_require(note->code[0] != '\0' && note->message[0] != '\0');
    return SP_OK;
}

/* One export into `out`; false when it was refused, which must be said well. */
static bool export(const struct sp_subject *subject, const char *format, struct sp_buf *out)
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

static void check_format(const struct sp_subject *subject, const struct sp_export_format *format)
{
    struct sp_buf out;
    if (export(subject, format->name, &out)) {
        if (strcmp(format->media_type, "application/json") == 0) {
            json_t *json = json_loadb(out.data, out.size, JSON_REJECT_DUPLICATES, NULL);
            fuzz_require(json != NULL);
            json_decref(json);
        } else if (strcmp(format->media_type, "application/octet-stream") == 0) {
            const struct sp_job_options options = {.bytes = out.data, .size = out.size, .memory_budget = BUDGET};
            struct sp_error err = {0};
            struct sp_job *job = NULL;
            enum sp_status status = sp_job_open(&options, 0, NULL, NULL, &job, &err);
            /* A device's model states the shapes of pieces, which other operators may make something else of. */
            fuzz_require(status == SP_OK || strcmp(format->name, "ort") == 0 || status == SP_ERR_MEMORY);
            sp_job_destroy(job);
        }
    }
    sp_buf_release(&out);
}

static void check_formats(const struct sp_subject *subject)
{
    for (uint32_t i = 0; i < sp_export_format_count(); i++)
        check_format(subject, sp_export_format(i));
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

static struct sp_subject *subject_of(const uint8_t *bytes, size_t size, const char *configuration)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = BUDGET};
    struct sp_error err = {0};
    struct sp_subject *subject = NULL;
    enum sp_status status = sp_subject_from_model(&options, configuration, &subject, &err);
    if (status == SP_OK)
        return subject;
    fuzz_check_error(status, &err);
    return NULL;
}

static void check_model(const uint8_t *bytes, size_t size)
{
    struct sp_subject *subject = subject_of(bytes, size, NULL);
    if (subject != NULL)
        check_formats(subject);
    sp_subject_destroy(subject);
}

static void check_completed(const uint8_t *bytes, size_t size, uint64_t hash)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = BUDGET};
    struct sp_error err = {0};
    struct sp_completion *completion = NULL;
    struct sp_splice *splice = NULL;
    json_t *request = fuzz_request(bytes, size, "propagate", hash);
    if (request != NULL && sp_completion_create(&options, request, &completion, &err) == SP_OK &&
        sp_completion_annotate(completion, &splice, &err) == SP_OK) {
        struct sp_buf written = fuzz_realise(splice, bytes);
        check_model((const uint8_t *)written.data, written.size);
        sp_buf_release(&written);
    }
    sp_completion_destroy(completion);
    json_decref(request);
}

/* ---- plans ------------------------------------------------------------------------------------------------------ */

static void expect_same(const struct sp_subject *a, const struct sp_subject *b, const char *format)
{
    struct sp_buf x, y;
    const bool is_written = export(a, format, &x);
    fuzz_require(export(b, format, &y) == is_written);
    if (is_written)
        fuzz_require(x.size == y.size && (x.size == 0 || memcmp(x.data, y.data, x.size) == 0));
    sp_buf_release(&x);
    sp_buf_release(&y);
}

static void check_plan(const uint8_t *bytes, size_t size, uint64_t hash)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = BUDGET};
    struct sp_plan_options asked;
    struct sp_error err = {0};
    struct sp_cluster *cluster;
    struct sp_job *job = NULL;
    struct sp_plan *plan;
    struct sp_splice *splice = NULL;
    struct sp_subject *subject = NULL, *read;
    struct sp_arena *arena = sp_arena_create(NULL);
    sp_plan_options_init(&asked);
    fuzz_require(sp_cluster_uniform(arena, "a100-sxm4-80gb", 1 + (int64_t)(hash % 4), &cluster, NULL) == SP_OK);
    if (sp_job_plan(&options, cluster, &asked, &job, &plan, &err) == SP_OK &&
        sp_plan_annotate(plan, &splice, &err) == SP_OK) {
        struct sp_buf written = fuzz_realise(splice, bytes);
        enum sp_status status = sp_subject_from_plan(job, plan, &subject, &err);
        if (status != SP_OK)
            fuzz_check_error(status, &err);
        else
            check_formats(subject);
        read = subject != NULL ? subject_of((const uint8_t *)written.data, written.size, "shardplan") : NULL;
        if (read != NULL) {
            expect_same(subject, read, "poprt");
            expect_same(subject, read, "op-sharding");
        }
        sp_subject_destroy(read);
        sp_subject_destroy(subject);
        sp_buf_release(&written);
    }
    sp_job_destroy(job);
    sp_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    if (size > MAX_EXPORT)
        return 0;
    check_model(bytes, size);
    check_completed(bytes, size, hash >> 8);
    check_plan(bytes, size, hash >> 16);
    return 0;
}
