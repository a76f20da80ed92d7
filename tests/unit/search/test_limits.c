/*
 * Searches that are cut short: the plan is whole, and one that may go on for longer never ends with a worse one.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "onnx_bytes.h"
#include "plan/job.h"
#include "recount.h"

#define CUTS      12
#define TOLERANCE 0.02

struct limit {
    uint64_t left, asked; /* ticks until the watch says no; how often it was asked */
    bool stops;           /* tasks are told between two ticks, too */
};

static bool tick(void *context, const char *phase, double fraction, double best, double bound)
{
    struct limit *limit = context;
    (void)phase, (void)fraction, (void)best, (void)bound;
    limit->asked++;
    limit->stops = limit->asked > limit->left;
    return !limit->stops;
}

struct ended {
    bool has_plan, is_stopped;
    double seconds, best; /* of the answer; of the best plan that was found */
};

static double seconds_of(enum sp_objective objective, double latency, double interval)
{
    return objective == SP_OBJECTIVE_LATENCY ? latency : interval;
}

static struct ended search(const struct sp_buf *file, enum sp_objective objective, struct limit *limit)
{
    const struct sp_watch watch = {.tick = tick, .context = limit, .stop = &limit->stops};
    const struct sp_job_options job_options = {
        .bytes = file->data, .size = file->size, .name = "model.onnx", .watch = &watch};
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_cluster *cluster;
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_plan_options options;
    struct sp_error err = {0};
    struct ended ended = {0};
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    options.objective = objective;
    options.tolerance = TOLERANCE;
    cr_assert_eq(sp_cluster_uniform(arena, "a100-sxm4-80gb", 8, &cluster, &err), SP_OK);
    const enum sp_status status = sp_job_plan(&job_options, cluster, &options, &job, &plan, &err);
    if (status == SP_OK) {
        const struct sp_search_result *result = plan->result;
        const struct sp_evaluation *evaluation = result->evaluation;
        recount_expect_result(plan->workload, plan->cluster, result);
        cr_expect_leq(evaluation->worst_excess_bytes, 0);
        ended.has_plan = true;
        ended.is_stopped = result->stopped;
        ended.seconds = ended.best = seconds_of(objective, evaluation->latency_seconds, evaluation->interval_seconds);
        for (uint32_t i = 0; i < result->front_count; i++)
            ended.best = fmin(
                ended.best, seconds_of(objective, result->front[i].latency_seconds, result->front[i].interval_seconds));
        sp_job_destroy(job);
    } else {
        cr_expect_eq(status, SP_ERR_CANCELLED, "%s", err.message);
    }
    sp_arena_destroy(arena);
    return ended;
}

static void expect_more_is_better(const struct sp_buf *file, enum sp_objective objective)
{
    struct limit none = {.left = UINT64_MAX};
    const struct ended whole = search(file, objective, &none);
    struct ended last = {.best = INFINITY, .seconds = INFINITY};
    uint32_t cut = 0;
    cr_assert(whole.has_plan && !whole.is_stopped);
    for (uint32_t i = 0; i <= CUTS; i++) {
        struct limit limit = {.left = none.asked * i / CUTS};
        const struct ended ended = search(file, objective, &limit);
        cr_expect(ended.has_plan || !last.has_plan, "%u of %u", i, CUTS);
        if (!ended.has_plan)
            continue;
        cr_expect_leq(ended.best, last.best, "%u of %u: %.17g after %.17g", i, CUTS, ended.best, last.best);
        cr_expect_leq(ended.seconds, last.seconds * (1 + TOLERANCE), "%u of %u", i, CUTS);
        cut += ended.is_stopped;
        last = ended;
    }
    cr_expect_gt(cut, CUTS / 2, "%u searches were cut short", cut);
    cr_expect_eq(last.best, whole.best);
    cr_expect_eq(last.seconds, whole.seconds);
}

Test(limits, more_time_is_never_worse)
{
    struct sp_buf file;
    onnx_mlp(&file, &(struct onnx_mlp){.layers = 5, .width = 1024, .batch = "64"});
    expect_more_is_better(&file, SP_OBJECTIVE_LATENCY);
    expect_more_is_better(&file, SP_OBJECTIVE_THROUGHPUT);
    sp_buf_release(&file);
}
