#include <string.h>

#include "base/json_reader.h"
#include "plan/check.h"
#include "plan/infer/infer.h"
#include "server_limits.h"
#include "worker/internal.h"

/* ---- inspect: {"values": bool, "options": {"dims", "values", "shapes", "operators", "state"}} ---- */

/* Drops the opening brace of the library's object, so that the daemon's own members can stand before it. */
struct merged {
    struct output *output;
    bool started;
};

static bool write_merged(void *context, const char *bytes, size_t size)
{
    struct merged *merged = context;
    if (!merged->started && size > 0) {
        merged->started = true;
        bytes++;
        size--;
    }
    return output_write(merged->output, bytes, size);
}

static enum sp_status write_inspection(const struct work *work, struct sp_job *job, bool values, struct output *output,
                                       struct sp_error *err)
{
    char head[160];
    struct merged merged = {.output = output};
    struct sp_json json;
    if (work->form == WORK_TEXT) {
        struct sp_buf buf;
        sp_buf_init(&buf, SPD_MAX_TEXT_BYTES);
        enum sp_status written = sp_job_inspect_text(job, values, &buf, err);
        return work_write_text(output, &buf, written, err);
    }
    int length =
        snprintf(head, sizeof head, "{\"id\":\"%s\",\"bytes\":%llu,", work->sha256, (unsigned long long)work->size);
    (void)output_write(output, head, (size_t)length);
    sp_json_init(&json, false, write_merged, &merged);
    enum sp_status status = sp_job_inspect_json(job, values, &json, err);
    if (status == SP_OK)
        status = sp_json_finish(&json, err);
    return status;
}

/* Reads "values", and the sizes, in `arena`: those in "options", or "dims" alone. */
static enum sp_status read_inspect(struct sp_arena *arena, const json_t *request, bool *ret_values,
                                   struct sp_sizes *ret_sizes, struct sp_error *err)
{
    static const char *const members[] = {"values", "dims", "options"};
    static const char *const sizes[] = {"dims", "values", "shapes", "operators", "state"};
    struct sp_members_reader reader = {arena, err};
    json_t *root = (json_t *)(uintptr_t)request, *options = json_object_get(request, "options");
    const json_t *values = json_object_get(request, "values");
    if (request == NULL)
        return SP_OK;
    if (!json_is_object(request))
        return sp_fail(err, SP_ERR_REQUEST, "BAD_REQUEST", "The body must be an object like {\"values\": true}.");
    enum sp_status status = sp_members_check(&reader, root, "", "A request to inspect", members, 3);
    if (status == SP_OK && options != NULL)
        status = sp_members_check(&reader, options, "/options", "What is said of sizes", sizes,
                                  sizeof sizes / sizeof *sizes);
    if (status != SP_OK)
        return status;
    if (values != NULL && !json_is_boolean(values))
        return sp_members_refuse(&reader, "/values", "BAD_REQUEST",
                                 "\"values\" is true or false; the values of inputs stand in \"options\".");
    if (options != NULL && json_object_get(request, "dims") != NULL)
        return sp_members_refuse(&reader, "/dims", "BAD_REQUEST", "\"dims\" stands in \"options\", or alone.");
    *ret_values = json_is_true(values);
    if (options != NULL)
        return sp_sizes_parse(arena, options, "/options", ret_sizes, err);
    json_t *dims = json_pack("{s:O*}", "dims", json_object_get(request, "dims"));
    status = dims != NULL ? sp_sizes_parse(arena, dims, "", ret_sizes, err) : sp_fail_memory(err);
    json_decref(dims);
    return status;
}

enum sp_status work_inspect(struct work *work, const json_t *request, struct output *output, struct sp_error *err)
{
    struct sp_sizes sizes = {0};
    struct sp_job_options options;
    struct sp_job *job = NULL;
    bool values = false;
    struct sp_arena *arena = sp_arena_create(NULL);
    enum sp_status status = arena != NULL ? read_inspect(arena, request, &values, &sizes, err) : sp_fail_memory(err);
    work_options(work, &options);
    options.sizes = &sizes;
    if (status == SP_OK)
        status = sp_job_open(&options, &job, err);
    if (status == SP_OK)
        status = write_inspection(work, job, values, output, err);
    sp_job_destroy(job);
    sp_arena_destroy(arena);
    return status;
}

/* ---- check ---- */

enum sp_status work_check(struct work *work, const json_t *request, struct output *output, struct sp_error *err)
{
    struct sp_job_options options;
    struct sp_check_answer *answer = NULL;
    work_options(work, &options);
    enum sp_status status = sp_check_answer_create(&options, request, &answer, err);
    if (status == SP_OK && work->form == WORK_TEXT) {
        struct sp_buf buf;
        sp_buf_init(&buf, SPD_MAX_TEXT_BYTES);
        sp_check_answer_text(answer, &buf);
        status = work_write_text(output, &buf, SP_OK, err);
    } else if (status == SP_OK) {
        struct sp_json json;
        sp_json_init(&json, false, output_write, output);
        sp_check_answer_json(answer, &json);
        status = sp_json_finish(&json, err);
    }
    sp_check_answer_destroy(answer);
    return status;
}

/* ---- infer ---- */

static enum sp_status write_completed(const struct sp_completion *completion, struct output *output,
                                      struct sp_error *err)
{
    struct sp_splice *splice = NULL;
    struct sp_sink sink = work_sink(output);
    enum sp_status status = sp_completion_annotate(completion, &splice, err);
    if (status == SP_OK)
        status = sp_splice_save(splice, &sink, err);
    sp_splice_destroy(splice);
    return status;
}

static enum sp_status write_completion(const struct sp_completion *completion, bool as_text, struct output *output,
                                       struct sp_error *err)
{
    enum sp_status status;
    if (as_text) {
        struct sp_buf buf;
        sp_buf_init(&buf, SPD_MAX_TEXT_BYTES);
        status = sp_completion_text(completion, &buf, err);
        return work_write_text(output, &buf, status, err);
    }
    struct sp_json json;
    sp_json_init(&json, false, output_write, output);
    status = sp_completion_json(completion, &json, err);
    return status == SP_OK ? sp_json_finish(&json, err) : status;
}

enum sp_status work_infer(struct work *work, const json_t *request, struct output *output, struct sp_error *err)
{
    struct sp_job_options options;
    struct sp_completion *completion = NULL;
    work_options(work, &options);
    enum sp_status status = sp_completion_create(&options, request, &completion, err);
    if (status == SP_OK)
        status = work->form == WORK_MODEL ? write_completed(completion, output, err)
                                          : write_completion(completion, work->form == WORK_TEXT, output, err);
    sp_completion_destroy(completion);
    return status;
}
