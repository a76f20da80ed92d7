#include <string.h>

#include "plan/check.h"
#include "plan/infer/infer.h"
#include "server_limits.h"
#include "worker/internal.h"

/* ---- inspect: {"values": bool, "dims": {NAME: N}} ---- */

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

/* Members that are absent leave *ret_values and *ret_dims. */
static enum sp_status read_inspect(const json_t *request, bool *ret_values, json_t **ret_dims, struct sp_error *err)
{
    const char *member;
    json_t *value;
    if (request != NULL && !json_is_object(request))
        return sp_fail(err, SP_ERR_REQUEST, "BAD_REQUEST", "The body must be an object like {\"values\": true}.");
    json_object_foreach((json_t *)(uintptr_t)request, member, value)
    {
        if (strcmp(member, "values") == 0 && json_is_boolean(value)) {
            *ret_values = json_is_true(value);
        } else if (strcmp(member, "dims") == 0) {
            *ret_dims = value;
        } else {
            (void)sp_fail(err, SP_ERR_REQUEST, "BAD_REQUEST",
                          "The members are \"values\", true or false, and \"dims\", an object of numbers.");
            return sp_error_at(err, "/%.200s", member);
        }
    }
    return SP_OK;
}

/* The dims are options of a plan too: one reader says what is wrong with them. */
static enum sp_status read_dims(struct sp_arena *arena, json_t *dims, struct sp_plan_options *ret_options,
                                struct sp_error *err)
{
    json_t *wrapped = json_pack("{s:O*}", "dims", dims);
    enum sp_status status =
        wrapped != NULL ? sp_plan_options_parse(arena, NULL, wrapped, ret_options, err) : sp_fail_memory(err);
    if (status == SP_ERR_REQUEST)
        (void)snprintf(err->where, sizeof err->where, "/dims");
    json_decref(wrapped);
    return status;
}

enum sp_status work_inspect(struct work *work, const json_t *request, struct output *output, struct sp_error *err)
{
    struct sp_plan_options bound = {0};
    struct sp_job_options options;
    struct sp_job *job = NULL;
    json_t *dims = NULL;
    bool values = false;
    struct sp_arena *arena = sp_arena_create(NULL);
    enum sp_status status = arena != NULL ? read_inspect(request, &values, &dims, err) : sp_fail_memory(err);
    if (status == SP_OK)
        status = read_dims(arena, dims, &bound, err);
    work_options(work, &options);
    if (status == SP_OK)
        status = sp_job_open(&options, bound.dim_count, bound.dim_names, bound.dim_values, &job, err);
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
