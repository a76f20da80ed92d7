/*
 * Where nothing fits: the memory that the answer says would do is tried, and so is what it says would not; and what it
 * says is alive in memory adds up to what was counted there.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_model.h"
#include "build_workload.h"
#include "data_files.h"
#include "how_many.h"
#include "infer/dataflow.h"
#include "plan/job.h"
#include "random_workload.h"
#include "recount.h"
#include "search/joint/joint.h"
#include "search/joint/memory_peak.h"
#include "search/joint/minimum_memory.h"

/* A workload with or without a model behind it, on equal devices of much memory of which a limit allows little. */
struct question {
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_workload *workload;
    struct sp_dataflow *dataflow;
    struct sp_joint_options options;
};

static struct sp_cluster *limited(struct sp_arena *arena, uint32_t devices, double limit)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"groups\":[{\"count\":%u,\"device\":{\"name\":\"a\",\"memory_bytes\":1e15,"
                   "\"memory_bandwidth\":1e9,\"flops\":{\"float32\":1e9}}}],\"mesh\":[{\"name\":\"in\",\"size\":%u,"
                   "\"bandwidth\":1e8,\"latency\":1e-7}],\"memory_limit_bytes\":%.17g,\"launch_seconds\":1e-7}",
                   devices, devices, limit);
    return cluster_from(arena, text);
}

static enum sp_status search(const struct question *q, double limit, struct sp_error *err)
{
    struct sp_cluster cluster = *q->cluster;
    struct sp_search_result *result = NULL;
    sp_error_clear(err);
    cluster.memory_limit_bytes = limit;
    struct sp_arena_mark mark = sp_arena_mark(q->arena);
    enum sp_status status = sp_joint_search(q->arena, q->workload, q->dataflow, &cluster, &q->options, &result, err);
    if (status == SP_OK)
        recount_expect_result(q->workload, &cluster, result);
    sp_search_result_release(result);
    sp_arena_rewind(q->arena, mark);
    return status;
}

/* The same, where nothing has to be said of the memory that would do. */
static enum sp_status search_only(const struct question *q, double limit, struct sp_error *err)
{
    struct question only = *q;
    only.options.skip_minimum_memory = true;
    return search(&only, limit, err);
}

/* What the contract of minimum_memory.h says of an answer. */
static void expect_least(const struct question *q, double limit)
{
    struct sp_error err = {0}, again = {0};
    const enum sp_status status = search(q, limit, &err);
    cr_assert_eq(status, SP_ERR_NOFIT, "with %.0f bytes: %s", limit, err.message);
    const double least = (double)err.least_memory_bytes, little = (double)err.too_little_memory_bytes;
    cr_assert_gt(least, limit, "%s", err.message);
    cr_assert_geq(little, limit, "%s", err.message);
    cr_assert_lt(little, least);
    cr_expect_leq(least - little, fmax(1, floor(SP_LEAST_SHARE * least)), "%s", err.message);
    cr_expect_eq(search(q, least, &again), SP_OK, "%.0f bytes should do: %s", least, again.message);
    cr_expect_eq(search_only(q, little, &again), SP_ERR_NOFIT, "%.0f bytes do", little);
    char number[64];
    (void)snprintf(number, sizeof number, "(%.0f bytes) on each device it would fit", least);
    cr_expect_not_null(strstr(err.message, number), "%s", err.message);
}

/* ---- memory that would do --------------------------------------------------------------------------------------- */

static uint64_t state = 7;

/* Products with weights, sums and softmax on [8, 16], `nodes` of them. */
static void random_model(struct build *build, uint32_t nodes)
{
    char inputs[64], output[16];
    build_init(build, 21);
    build_input(build, "t0", SP_DTYPE_FLOAT, "8,16");
    for (uint32_t i = 0; i < nodes; i++) {
        (void)snprintf(output, sizeof output, "t%u", i + 1);
        if (pick(&state, 2) == 0) {
            char weight[16];
            (void)snprintf(weight, sizeof weight, "w%u", i);
            build_weight(build, weight, SP_DTYPE_FLOAT, "16,16");
            (void)snprintf(inputs, sizeof inputs, "t%u %s", i, weight);
            build_node(build, "MatMul", inputs, output);
        } else {
            (void)snprintf(inputs, sizeof inputs, "t%u t%u", i, pick(&state, i + 1));
            build_node(build, "Add", inputs, output);
        }
    }
    build_outputs(build, output);
    cr_assert_eq(build_infer(build), SP_OK, "%s", build->err.message);
}

static void ask_of_model(uint32_t nodes, uint32_t devices, enum sp_search_strategy strategy)
{
    struct build build;
    struct sp_error err = {0};
    struct question q = {.arena = sp_arena_create(NULL)};
    random_model(&build, nodes);
    q.cluster = limited(q.arena, devices, 64);
    cr_assert_eq(sp_workload_from_model(q.arena, build.model, q.cluster, NULL, &q.workload, &err), SP_OK, "%s",
                 err.message);
    cr_assert_eq(sp_dataflow_create(q.arena, build.model, &q.dataflow, &err), SP_OK);
    sp_joint_options_init(&q.options);
    q.options.strategy = strategy;
    q.options.objective = pick(&state, 2) == 0 ? SP_OBJECTIVE_THROUGHPUT : SP_OBJECTIVE_LATENCY;
    expect_least(&q, 64);
    sp_arena_destroy(q.arena);
    build_release(&build);
}

/* At most six nodes: everything is tried. */
Test(nofit, least_memory_of_tiny_models)
{
    for (uint32_t round = 0; round < 8; round++)
        ask_of_model(2 + pick(&state, 4), 1 + pick(&state, 3), SP_STRATEGY_AUTO);
}

Test(nofit, least_memory_of_small_models)
{
    static const enum sp_search_strategy strategies[] = {SP_STRATEGY_TENSOR, SP_STRATEGY_GROUPING, SP_STRATEGY_PIPELINE,
                                                         SP_STRATEGY_AUTO};
    for (uint32_t i = 0; i < how_many(3, 4); i++)
        ask_of_model(9, 2 + 2 * (i % 2), strategies[i]);
}

/* No operator can be split: graphs of costs are such. Of 17 nodes a search that finds nothing takes half a second. */
Test(nofit, least_memory_without_a_model)
{
    for (uint32_t round = 0; round < 6; round++) {
        struct question q = {.arena = sp_arena_create(NULL)};
        q.cluster = limited(q.arena, 1 + round % 3, 1);
        q.workload = workload_random(q.arena, q.cluster, 6 + pick(&state, how_many(7, 12)), &state);
        sp_joint_options_init(&q.options);
        q.options.strategy = round % 2 == 0 ? SP_STRATEGY_AUTO : SP_STRATEGY_GROUPING;
        expect_least(&q, 1);
        sp_arena_destroy(q.arena);
    }
}

/* One device holds everything, so the least is what its one plan needs: two weights of 1000 bytes, and most is alive
   when the second node runs: its input of 100 bytes and its output of 50, and the model's input of 10 bytes. */
Test(nofit, least_memory_of_one_device_is_what_its_plan_needs)
{
    struct question q = {.arena = sp_arena_create(NULL)};
    struct work_builder b;
    struct sp_error err = {0};
    q.cluster = limited(q.arena, 1, 2000);
    work_init(&b, q.arena, 2, 10, 1);
    uint32_t x = WORK_NODE(&b, 1, 100, work_input(&b, 10), work_weight(&b, 1000));
    WORK_NODE(&b, 1, 50, x, work_weight(&b, 1000));
    q.workload = work_finish(&b, q.cluster);
    sp_joint_options_init(&q.options);
    cr_assert_eq(search(&q, 2000, &err), SP_ERR_NOFIT);
    cr_expect_leq(err.least_memory_bytes, 2162);
    cr_expect_geq(err.least_memory_bytes, 2160);
    expect_least(&q, 2000);
    sp_arena_destroy(q.arena);
}

/* What is reserved on each device is part of the number. */
Test(nofit, reserved_memory_counts)
{
    struct question q = {.arena = sp_arena_create(NULL)};
    struct work_builder b;
    struct sp_error err = {0};
    q.cluster = limited(q.arena, 1, 2000);
    q.cluster->reserved_bytes = 500;
    work_init(&b, q.arena, 1, 10, 1);
    WORK_NODE(&b, 1, 100, work_input(&b, 10), work_weight(&b, 2000));
    q.workload = work_finish(&b, q.cluster);
    sp_joint_options_init(&q.options);
    cr_assert_eq(search(&q, 2000, &err), SP_ERR_NOFIT);
    cr_expect_geq(err.least_memory_bytes, 2610);
    cr_expect_leq(err.least_memory_bytes, 2612);
    expect_least(&q, 2000);
    sp_arena_destroy(q.arena);
}

/* What the process takes of a GPU's memory is no plan's: it is beside the number. */
Test(nofit, memory_of_a_gpu_is_what_its_process_leaves)
{
    struct question q = {.arena = sp_arena_create(NULL)};
    struct work_builder b;
    struct sp_error err = {0};
    q.cluster = limited(q.arena, 1, 2000);
    work_init(&b, q.arena, 1, 10, 1);
    WORK_NODE(&b, 1, 100, work_input(&b, 10), work_weight(&b, 2000));
    q.workload = work_finish(&b, q.cluster);
    sp_joint_options_init(&q.options);
    struct sp_device *device = &q.cluster->groups[0].device;
    device->kind = SP_DEVICE_GPU;
    device->memory_reported_bytes = 2000 + sp_device_context_bytes(device);
    cr_assert_eq(search(&q, 0, &err), SP_ERR_NOFIT);
    cr_expect_geq(err.least_memory_bytes, 2110);
    cr_expect_leq(err.least_memory_bytes, 2112, "%s", err.message);
    device->memory_reported_bytes = (double)err.least_memory_bytes + sp_device_context_bytes(device);
    cr_expect_eq(search(&q, 0, &err), SP_OK, "%s", err.message);
    sp_arena_destroy(q.arena);
}

/* ---- files of data ---------------------------------------------------------------------------------------------- */

/* The figure after some words of a message: "12.5 kB" is 12500. */
static double figure_after(const char *message, const char *words)
{
    const char *at = strstr(message, words);
    char *end;
    cr_assert_not_null(at, "\"%s\" is not in: %s", words, message);
    const double value = strtod(at + strlen(words), &end);
    static const char prefixes[] = "BkMGT";
    const char *prefix = strchr(prefixes, end[1]);
    cr_assert_not_null(prefix, "%s", message);
    return value * pow(1000, (double)(prefix - prefixes));
}

Test(nofit, least_memory_of_a_real_model)
{
    char path[1024];
    size_t size;
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_plan_options options;
    struct sp_error err = {0};
    (void)snprintf(path, sizeof path, "%s/models/gpt2_tiny.onnx", data_folder());
    unsigned char *bytes = data_read(path, &size);
    if (bytes == NULL)
        cr_skip_test("%s is not there", path);
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    double limit = 20000;
    for (uint32_t step = 0; step < 3; step++) {
        struct sp_cluster *cluster = limited(arena, 2, limit);
        struct sp_job *job = NULL;
        struct sp_plan *plan = NULL;
        sp_error_clear(&err);
        const enum sp_status status =
            sp_job_plan(&(struct sp_job_options){.bytes = bytes, .size = size, .skip_minimum_memory = step == 2},
                        cluster, &options, &job, &plan, &err);
        cr_assert_eq(status, step == 1 ? SP_OK : SP_ERR_NOFIT, "%.0f bytes: %s", limit, err.message);
        if (status == SP_OK)
            recount_expect_result(plan->workload, plan->cluster, plan->result);
        sp_job_destroy(job);
        if (step == 0) {
            cr_assert_gt(err.least_memory_bytes, 20000, "%s", err.message);
            cr_expect_not_null(strstr(err.message, "it is fullest at node '"), "%s", err.message);
            cr_expect_not_null(strstr(err.message, " are weights"), "%s", err.message);
            /* The plan that is described is the one that fits then; figures have four digits at most. */
            const double needed = figure_after(err.message, "it needs ");
            cr_expect_leq(needed, 1.01 * (double)err.least_memory_bytes, "%s", err.message);
            cr_expect_float_eq(figure_after(err.message, "lacks "), needed - limit, 0.01 * needed, "%s", err.message);
            limit = (double)err.least_memory_bytes;
        } else {
            limit = floor(limit * 0.98);
        }
    }
    free(bytes);
    sp_arena_destroy(arena);
}

/* ---- a search that is stopped ----------------------------------------------------------------------------------- */

static bool a_few_times(void *context, const char *phase, double fraction, double best, double bound)
{
    uint32_t *left = context;
    (void)phase;
    (void)fraction;
    (void)best;
    (void)bound;
    return *left > 0 && --*left > 0;
}

/* Wherever it is stopped, the answer is that nothing fits, or that it was stopped before that was known; and what is
   said of memory is true. */
Test(nofit, a_watch_ends_the_bisection)
{
    uint32_t told = 0, untold = 0;
    bool stopped = true;
    for (uint32_t ticks = 1; stopped; ticks += 1 + ticks / how_many(2, 10)) {
        struct question q = {.arena = sp_arena_create(NULL)};
        struct sp_error err = {0}, again = {0};
        uint32_t left = ticks;
        const struct sp_watch watch = {.tick = a_few_times, .context = &left};
        q.cluster = limited(q.arena, 3, 1);
        q.workload = build_transformer(q.arena, q.cluster, 2, 8);
        sp_joint_options_init(&q.options);
        q.options.watch = &watch;
        const enum sp_status status = search(&q, 1, &err);
        cr_assert(status == SP_ERR_NOFIT || status == SP_ERR_CANCELLED, "%s", err.message);
        q.options.watch = NULL;
        stopped = left == 0;
        if (status == SP_ERR_NOFIT && err.least_memory_bytes > 0) {
            told++;
            cr_expect_eq(search(&q, (double)err.least_memory_bytes, &again), SP_OK, "%s", again.message);
            cr_expect_eq(search_only(&q, (double)err.too_little_memory_bytes, &again), SP_ERR_NOFIT);
        } else {
            untold++;
            cr_expect_eq(err.too_little_memory_bytes, 0);
        }
        sp_arena_destroy(q.arena);
    }
    cr_assert_gt(told, 1);
    cr_assert_gt(untold, 1);
}

/* ---- what is in memory ------------------------------------------------------------------------------------------ */

static void expect_peaks(const struct question *q, const struct sp_search_result *result)
{
    const struct sp_evaluated_plan plan = {&result->placement, result->sharded, result->evaluation};
    for (uint32_t s = 0; s < result->evaluation->stage_count; s++) {
        const struct sp_stage_cost *cost = &result->evaluation->stages[s];
        struct sp_memory_peak peak;
        struct sp_error err = {0};
        cr_assert_eq(sp_memory_peak_of_stage(q->arena, q->workload, q->cluster, &plan, s, &peak, &err), SP_OK, "%s",
                     err.message);
        cr_expect_float_eq(peak.alive_bytes + peak.workspace_bytes, cost->activations_peak_bytes,
                           1e-9 * cost->activations_peak_bytes, "stage %u: %.17g + %.17g, counted %.17g", s,
                           peak.alive_bytes, peak.workspace_bytes, cost->activations_peak_bytes);
        for (uint32_t i = 1; i < peak.tensor_count; i++)
            cr_expect_leq(peak.tensors[i].bytes, peak.tensors[i - 1].bytes);
        if (peak.node != SP_NO_WORK)
            cr_expect_eq(result->placement.stage_of[peak.node], s);
    }
}

Test(nofit, what_is_alive_adds_up_to_the_peak_of_whole_operators)
{
    for (uint32_t round = 0; round < how_many(40, 300); round++) {
        struct question q = {.arena = sp_arena_create(NULL)};
        struct sp_search_result *result;
        struct sp_error err = {0};
        q.cluster = limited(q.arena, 1 + round % 4, 1e9);
        q.workload = workload_random(q.arena, q.cluster, 1 + pick(&state, 24), &state);
        sp_joint_options_init(&q.options);
        q.options.strategy = SP_STRATEGY_GROUPING;
        q.options.optimal = false;
        cr_assert_eq(sp_joint_search(q.arena, q.workload, NULL, q.cluster, &q.options, &result, &err), SP_OK, "%s",
                     err.message);
        recount_expect_result(q.workload, q.cluster, result);
        expect_peaks(&q, result);
        sp_search_result_release(result);
        sp_arena_destroy(q.arena);
    }
}

Test(nofit, what_is_alive_adds_up_to_the_peak_of_split_operators)
{
    uint32_t split = 0;
    for (uint32_t round = 0; round < 12; round++) {
        struct question q = {.arena = sp_arena_create(NULL)};
        struct build build;
        struct sp_search_result *result;
        struct sp_error err = {0};
        random_model(&build, 2 + pick(&state, 9));
        q.cluster = limited(q.arena, 2, 1e9);
        cr_assert_eq(sp_workload_from_model(q.arena, build.model, q.cluster, NULL, &q.workload, &err), SP_OK, "%s",
                     err.message);
        cr_assert_eq(sp_dataflow_create(q.arena, build.model, &q.dataflow, &err), SP_OK);
        sp_joint_options_init(&q.options);
        q.options.strategy = SP_STRATEGY_TENSOR;
        q.options.objective = SP_OBJECTIVE_LATENCY;
        cr_assert_eq(sp_joint_search(q.arena, q.workload, q.dataflow, q.cluster, &q.options, &result, &err), SP_OK,
                     "%s", err.message);
        recount_expect_result(q.workload, q.cluster, result);
        expect_peaks(&q, result);
        split += result->sharded != NULL;
        sp_search_result_release(result);
        sp_arena_destroy(q.arena);
        build_release(&build);
    }
    cr_assert_gt(split, 3);
}
