#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "plan/variants.h"
#include "server.h"
#include "server_limits.h"
#include "store/files.h"
#include "worker/internal.h"

static enum sp_status write_splice(const struct sp_plan *plan, struct output *output, struct sp_error *err)
{
    struct sp_splice *splice = NULL;
    struct sp_sink sink = work_sink(output);
    if (plan->model == NULL)
        return SP_OK; /* a graph of costs has no model to annotate: the file is empty */
    enum sp_status status = sp_plan_annotate(plan, &splice, err);
    if (status == SP_OK)
        status = sp_splice_save(splice, &sink, err);
    sp_splice_destroy(splice);
    return status;
}

static enum sp_status write_text(const struct sp_plan *plan, struct output *output, struct sp_error *err)
{
    struct sp_buf buf;
    sp_buf_init(&buf, SPD_MAX_TEXT_BYTES);
    sp_plan_write_text(plan, &buf);
    return work_write_text(output, &buf, SP_OK, err);
}

static enum sp_status write_json(const struct sp_plan *plan, double seconds, struct output *output,
                                 struct sp_error *err)
{
    struct sp_json json;
    sp_json_init(&json, false, output_write, output);
    sp_plan_write_json(plan, seconds, &json);
    return sp_json_finish(&json, err);
}

/* The folder of the attempt in the folder of the plan. */
static bool make_folders(const char *path)
{
    char *above = strdup(path);
    char *slash = above != NULL ? strrchr(above, '/') : NULL;
    if (slash == NULL) {
        free(above);
        return false;
    }
    *slash = '\0';
    bool ok = (mkdir(above, 0700) == 0 || errno == EEXIST) && (mkdir(path, 0700) == 0 || errno == EEXIST);
    int error = errno;
    free(above);
    errno = error;
    return ok;
}

static bool sync_above(const char *path, const char *up)
{
    char *above = NULL;
    bool ok = asprintf(&above, "%s%s", path, up) >= 0 && files_sync_folder(above);
    free(above);
    return ok;
}

/* Writes the three results; plan.json last. */
static bool write_results(struct work *work, const struct sp_plan *plan, double seconds, struct output *output,
                          struct problem *problem)
{
    static const char *const names[] = {"annotated.splice", "plan.txt", "plan.json"};
    if (!make_folders(work->out))
        return problem_from_errno(problem, errno, "Creating the plan's folder");
    for (int i = 0; i < 3; i++) {
        struct sp_error err = {0};
        struct problem failed = {0};
        char *path = NULL;
        if (asprintf(&path, "%s/%s", work->out, names[i]) < 0)
            return problem_no_memory(problem);
        output_open(output, path);
        free(path);
        enum sp_status status = i == 0   ? write_splice(plan, output, &err)
                                : i == 1 ? write_text(plan, output, &err)
                                         : write_json(plan, seconds, output, &err);
        bool closed = output_close(output, status == SP_OK, &failed);
        if (!closed) {
            *problem = failed;
            return false;
        }
        if (status != SP_OK) {
            work_take_error(work, &err, problem);
            return false;
        }
    }
    bool ok = files_sync_folder(work->out) && sync_above(work->out, "/..") && sync_above(work->out, "/../..");
    return ok || problem_from_errno(problem, errno, "Storing the plan");
}

/* When the search has to end: at the client's limit, and so early that its results can be written before the daemon
   loses patience. */
static void limit_search(struct work *work, const struct sp_plan_options *options)
{
    uint64_t all = work->seconds * 1000, results = all / SPD_RESULT_SHARE;
    if (results > SPD_MAX_RESULT_SECONDS * 1000)
        results = SPD_MAX_RESULT_SECONDS * 1000;
    work->deadline_ms = work->started_ms + all - results;
    if (options->time_limit_seconds > 0 && options->time_limit_seconds * 1000 < (double)(all - results)) {
        work->seconds = (uint64_t)(options->time_limit_seconds + 0.999);
        work->limit = "options.time_limit_seconds";
        work->deadline_ms = work->started_ms + (uint64_t)(options->time_limit_seconds * 1000);
    }
}

void work_plan(struct work *work, struct problem *problem)
{
    const json_t *request = json_object_get(work->line, "request");
    struct sp_error err = {0};
    struct sp_job_options job_options;
    struct sp_plan_options options;
    struct sp_plan_target target;
    struct sp_job *job = NULL;
    struct sp_plan *result = NULL;
    struct output *output = malloc(sizeof *output);
    struct sp_arena *arena = sp_arena_create(NULL);
    if (arena == NULL || output == NULL) {
        (void)problem_no_memory(problem);
        goto cleanup;
    }
    work_options(work, &job_options);
    if (sp_plan_target_parse(arena, json_object_get(request, "cluster"), json_object_get(request, "sweep"), &target,
                             &err) != SP_OK ||
        sp_plan_options_parse(arena, json_object_get(request, "objective"), json_object_get(request, "options"),
                              &options, &err) != SP_OK) {
        work_take_error(work, &err, problem);
        goto cleanup;
    }
    limit_search(work, &options);
    work_phase(work, "read");
    if (sp_plan_answer(arena, work->bytes, work->size, &job_options, &target, &options, &job, &result, &err) != SP_OK) {
        work_take_error(work, &err, problem);
        goto cleanup;
    }
    double seconds = (double)(server_now_ms() - work->started_ms) / 1000;
    work_phase(work, "write");
    (void)write_results(work, result, seconds, output, problem);
cleanup:
    sp_job_destroy(job);
    sp_arena_destroy(arena);
    free(output);
}
