#include <stdlib.h>

#include "index/write.h"
#include "plan/proof/proof.h"
#include "plan/replan/from_plan.h"
#include "plan/variants/variants.h"
#include "server.h"
#include "server_limits.h"
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

/* The plan's JSON on its way to the file, and what is found in it. */
struct telling {
    struct output *output;
    struct sp_index_scan *scan;
};

static bool tell(void *context, const char *bytes, size_t size)
{
    const struct telling *telling = context;
    sp_index_scan_take(telling->scan, bytes, size);
    return output_write(telling->output, bytes, size);
}

static enum sp_status write_json(const struct sp_plan *plan, double seconds, struct output *output,
                                 struct sp_index_scan *scan, struct sp_error *err)
{
    struct telling telling = {output, scan};
    struct sp_json json;
    sp_json_init(&json, false, tell, &telling);
    sp_plan_write_json(plan, seconds, &json);
    return sp_json_finish(&json, err);
}

/* What is written, and with what. */
struct results {
    struct work *work;
    const struct sp_plan *plan;
    double seconds;
    uint64_t hash_seed;
    struct output *output, *index; /* room for two files at a time */
};

/* Ends a file. Whether it is complete: its own failure tells more than the status. */
static bool close_result(const struct results *results, struct output *output, enum sp_status status,
                         const struct sp_error *err, struct problem *problem)
{
    struct problem failed = {0};
    const bool closed = output_close(output, status == SP_OK, &failed);
    if (!closed)
        *problem = failed;
    else if (status != SP_OK)
        work_take_error(results->work, err, problem);
    return closed && status == SP_OK;
}

static bool write_result(const struct results *results, const char *name,
                         enum sp_status (*write)(const struct sp_plan *plan, struct output *output,
                                                 struct sp_error *err),
                         struct problem *problem)
{
    struct sp_error err = {0};
    output_open(results->output, work_take_file(results->work, name));
    const enum sp_status status = write(results->plan, results->output, &err);
    return close_result(results, results->output, status, &err, problem);
}

/* The index says where in plan.json what stands, so it is written after it. */
static bool write_plan(const struct results *results, struct sp_arena *arena, struct problem *problem)
{
    struct sp_error err = {0};
    struct sp_index_scan *scan = sp_index_scan_create(arena);
    const struct sp_index_source source = {
        .plan = results->plan, .scan = scan, .search_seconds = results->seconds, .hash_seed = results->hash_seed};
    if (scan == NULL)
        return problem_no_memory(problem);
    output_open(results->output, work_take_file(results->work, "plan.json"));
    enum sp_status status = write_json(results->plan, results->seconds, results->output, scan, &err);
    bool has_index = false;
    if (status == SP_OK) {
        output_open(results->index, work_take_file(results->work, "plan.sheet"));
        const struct sp_sink sink = work_sink(results->index);
        struct sp_error lacking = {0};
        has_index = close_result(results, results->index, sp_index_write(&source, &sink, &lacking), &lacking, problem);
    }
    if (status == SP_OK && !has_index) {
        struct problem ignored = {0};
        (void)output_close(results->output, false, &ignored);
        return false;
    }
    return close_result(results, results->output, status, &err, problem);
}

static bool write_results(const struct results *results, struct problem *problem)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    const bool ok = (arena != NULL || problem_no_memory(problem)) &&
                    write_result(results, "annotated.splice", write_splice, problem) &&
                    write_result(results, "plan.txt", write_text, problem) && write_plan(results, arena, problem);
    sp_arena_destroy(arena);
    return ok;
}

/* A plan, and what has to stay as long as it. */
struct made {
    struct sp_job *job;
    struct sp_plan *plan;
    json_t *past; /* the JSON of the plan that it follows, or NULL */
};

/* When the search has to end: at the client's limit, and so early that its results can be written before the daemon
   loses patience. Returns how many milliseconds these have. */
static uint64_t limit_search(struct work *work, const struct sp_plan_options *options)
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
    return results;
}

static bool is_before(void *context, const char *phase, double fraction, double best_seconds,
                      double lower_bound_seconds)
{
    const uint64_t *deadline_ms = context;
    (void)phase;
    (void)fraction;
    (void)best_seconds;
    (void)lower_bound_seconds;
    return server_now_ms() < *deadline_ms;
}

/* A search that ended early has a plan that is verified all the same: within half of the time that results have. */
static enum sp_status prove(struct work *work, struct made *made, uint64_t results_ms, struct sp_error *err)
{
    const uint64_t started_ms = server_now_ms();
    uint64_t deadline_ms = started_ms + results_ms / 2;
    const struct sp_watch watch = {.tick = is_before, .context = &deadline_ms};
    work_phase(work, "verify");
    const enum sp_status status = sp_plan_prove(made->job, made->plan, SP_MAX_PROOF_NODES, &watch, err);
    if (made->plan->proof != NULL)
        made->plan->proof->seconds = (double)(server_now_ms() - started_ms) / 1000;
    return status;
}

/* The plan that follows another one, whose JSON is among the files. */
static enum sp_status follow(struct sp_arena *arena, const struct work *work, const json_t *request,
                             const struct sp_job_options *job_options, const struct sp_cluster *cluster,
                             struct made *made, struct sp_error *err)
{
    struct sp_replan_terms terms;
    json_t *given = json_copy(json_object_get(request, "from"));
    enum sp_status status = given != NULL && json_object_set(given, "from", json_object_get(given, "plan")) == 0
                                ? SP_OK
                                : sp_fail_memory(err);
    (void)json_object_del(given, "plan");
    (void)json_object_del(given, "attempt");
    made->past = work_load(work, "plan");
    if (status == SP_OK)
        status = sp_replan_terms_parse(arena, given, "", &terms, err);
    json_decref(given);
    if (status == SP_OK && made->past == NULL)
        status =
            sp_fail(err, SP_ERR_REQUEST, "PLAN_NOT_FOUND", "The plan that is to be followed is not there any more.");
    const struct sp_replan_question question = {.plan = made->past,
                                                .cluster = cluster,
                                                .terms = &terms,
                                                .objective = json_object_get(request, "objective"),
                                                .options = json_object_get(request, "options")};
    return status == SP_OK ? sp_plan_follow(arena, job_options, &question, &made->job, &made->plan, err) : status;
}

void work_plan(struct work *work, struct problem *problem)
{
    const json_t *request = json_object_get(work->line, "request");
    const bool follows = json_object_get(request, "from") != NULL;
    struct sp_error err = {0};
    struct sp_job_options job_options;
    struct sp_plan_options options;
    struct sp_plan_target target;
    struct made made = {0};
    struct output *outputs = calloc(2, sizeof *outputs);
    struct sp_arena *arena = sp_arena_create(NULL);
    if (arena == NULL || outputs == NULL) {
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
    const uint64_t results_ms = limit_search(work, &options);
    work_phase(work, "read");
    if ((follows ? follow(arena, work, request, &job_options, target.cluster, &made, &err)
                 : sp_plan_answer(arena, &job_options, &target, &options, &made.job, &made.plan, &err)) != SP_OK) {
        work_take_error(work, &err, problem);
        goto cleanup;
    }
    double seconds = (double)(server_now_ms() - work->started_ms) / 1000;
    if (!options.skips_proof && prove(work, &made, results_ms, &err) != SP_OK) {
        work_take_error(work, &err, problem);
        goto cleanup;
    }
    work_phase(work, "write");
    const struct results results = {.work = work,
                                    .plan = made.plan,
                                    .seconds = seconds,
                                    .hash_seed = job_options.hash_seed,
                                    .output = &outputs[0],
                                    .index = &outputs[1]};
    (void)write_results(&results, problem);
cleanup:
    sp_job_destroy(made.job);
    json_decref(made.past);
    sp_arena_destroy(arena);
    free(outputs);
}
