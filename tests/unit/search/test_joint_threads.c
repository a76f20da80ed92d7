/*
 * The same question has the same plan, byte for byte, on any number of threads and every time.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "data_files.h"
#include "onnx_bytes.h"
#include "plan/job.h"
#include "recount.h"
#include "recurrent_text.h"
#include "threads/executor.h"

#define RUNS 10

static const uint32_t thread_counts[] = {0, 2, 8}; /* 0: no executor, one thread */
#define POOLS (sizeof thread_counts / sizeof thread_counts[0])

struct question {
    const void *bytes;
    size_t size;
    enum sp_objective objective;
    enum sp_search_strategy strategy;
    uint32_t replicas;
};

/* The plan's JSON; the caller releases it. */
static void plan_text(const struct question *question, const struct sp_executor *executor, struct sp_buf *ret_text)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_cluster *cluster;
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_json json;
    struct sp_error err = {0};
    struct sp_plan_options options;
    const struct sp_job_options job_options = {
        .bytes = question->bytes, .size = question->size, .name = "model.onnx", .executor = executor};
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    options.objective = question->objective;
    options.strategy = question->strategy;
    options.max_replicas = question->replicas;
    cr_assert_eq(sp_cluster_uniform(arena, "a100-sxm4-80gb", 4, &cluster, &err), SP_OK);
    cr_assert_eq(sp_job_plan(&job_options, cluster, &options, &job, &plan, &err), SP_OK, "%s", err.message);
    recount_expect_result(plan->workload, plan->cluster, plan->result);
    sp_buf_init(ret_text, (size_t)1 << 26);
    sp_json_init_buf(&json, false, ret_text);
    sp_plan_write_json(plan, 0.25, &json);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    sp_job_destroy(job);
    sp_arena_destroy(arena);
}

static void same_plans(const struct question *question, uint32_t runs)
{
    struct sp_threads *pools[POOLS] = {NULL};
    struct sp_buf first;
    plan_text(question, NULL, &first);
    for (size_t p = 0; p < POOLS; p++) {
        if (thread_counts[p] != 0)
            pools[p] = sp_threads_create(thread_counts[p]);
        for (uint32_t run = 0; run < runs; run++) {
            struct sp_buf text;
            plan_text(question, sp_threads_executor(pools[p]), &text);
            cr_assert_eq(text.size, first.size);
            cr_expect(memcmp(text.data, first.data, first.size) == 0, "run %u on %u threads", run, thread_counts[p]);
            sp_buf_release(&text);
        }
        sp_threads_destroy(pools[p]);
    }
    sp_buf_release(&first);
}

Test(joint_threads, same_plan_of_layers)
{
    struct sp_buf file;
    onnx_mlp(&file, &(struct onnx_mlp){.layers = 3, .width = 1024, .batch = "64"});
    same_plans(&(struct question){file.data, file.size, SP_OBJECTIVE_LATENCY, SP_STRATEGY_AUTO, 1}, RUNS);
    same_plans(&(struct question){file.data, file.size, SP_OBJECTIVE_THROUGHPUT, SP_STRATEGY_AUTO, 2}, RUNS);
    sp_buf_release(&file);
}

Test(joint_threads, same_plan_of_a_loop)
{
    struct sp_buf file;
    recurrent_text(&file, 4, 3, 2048);
    same_plans(&(struct question){file.data, file.size, SP_OBJECTIVE_LATENCY, SP_STRATEGY_AUTO, 1}, 2);
    same_plans(&(struct question){file.data, file.size, SP_OBJECTIVE_THROUGHPUT, SP_STRATEGY_AUTO, 1}, 2);
    sp_buf_release(&file);
}

Test(joint_threads, same_plan_of_a_model)
{
    char path[1024];
    size_t size;
    (void)snprintf(path, sizeof path, "%s/models/llama_tiny.onnx", data_folder());
    unsigned char *bytes = data_read(path, &size);
    if (bytes == NULL)
        cr_skip("no test data");
    same_plans(&(struct question){bytes, size, SP_OBJECTIVE_LATENCY, SP_STRATEGY_TENSOR, 1}, RUNS);
    free(bytes);
}
