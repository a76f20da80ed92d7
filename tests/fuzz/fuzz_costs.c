/*
 * Graphs of costs: whatever is planned keeps its groups together, its stages along the edges, its nodes where they run
 * and its devices within their memory, and is the same a second time.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "plan/job.h"

#define BUDGET     ((size_t)256 << 20)
#define MAX_OUTPUT ((size_t)256 << 20)

static const char cluster_text[] =
    "{\"groups\":[{\"count\":1,\"device\":\"cpu-core\"},{\"count\":2,\"device\":\"a100-sxm4-80gb\"}],"
    "\"mesh\":[{\"name\":\"link\",\"size\":3,\"bandwidth\":25e9,\"latency\":5e-6}]}";

static void check_error(const struct sp_error *err)
{
    if (err->status == SP_OK || err->message[0] == '\0' || err->code[0] == '\0')
        abort();
}

static void check_plan(const struct sp_plan *plan)
{
    const struct sp_workload *workload = plan->workload;
    const struct sp_placement *placement = &plan->result->placement;
    for (uint32_t i = 0; i < workload->node_count; i++) {
        const struct sp_work_node *node = &workload->nodes[i];
        const uint32_t stage = placement->stage_of[i];
        if (stage >= placement->stage_count ||
            !isfinite(node->seconds[workload->kind_of[placement->stage_device[stage]]]))
            abort();
        if (i > 0 && node->together != 0 && node->together == workload->nodes[i - 1].together &&
            stage != placement->stage_of[i - 1])
            abort();
        for (uint32_t j = 0; j < node->input_count; j++) {
            if (placement->stage_of[workload->tensors[node->inputs[j]].producer] > stage)
                abort();
        }
    }
    if (plan->result->evaluation->worst_excess_bytes > 0 || !isfinite(plan->result->evaluation->latency_seconds))
        abort();
}

/* The plan as JSON, or nothing where it is refused. */
static void make_plan(const uint8_t *bytes, size_t size, const struct sp_cluster *cluster, struct sp_buf *text)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = BUDGET, .name = "fuzz"};
    struct sp_plan_options asked;
    struct sp_error err = {0};
    struct sp_json json;
    struct sp_job *job;
    struct sp_plan *plan;
    sp_plan_options_init(&asked);
    sp_buf_init(text, MAX_OUTPUT);
    if (sp_job_plan(&options, cluster, &asked, &job, &plan, &err) != SP_OK) {
        check_error(&err);
        return;
    }
    if (plan->model == NULL)
        check_plan(plan);
    sp_json_init_buf(&json, false, text);
    sp_plan_write_json(plan, 0, &json);
    if (sp_json_finish(&json, NULL) != SP_OK)
        abort();
    struct sp_buf people;
    sp_buf_init(&people, MAX_OUTPUT);
    sp_plan_write_text(plan, &people);
    sp_buf_release(&people);
    sp_job_destroy(job);
}

static void inspect(const uint8_t *bytes, size_t size)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = BUDGET, .name = "fuzz"};
    struct sp_error err = {0};
    struct sp_buf text;
    struct sp_job *job;
    if (sp_job_open(&options, &job, &err) != SP_OK) {
        check_error(&err);
        return;
    }
    sp_buf_init(&text, MAX_OUTPUT);
    if (sp_job_inspect_text(job, true, &text, &err) != SP_OK)
        check_error(&err);
    sp_buf_release(&text);
    sp_job_destroy(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_buf first, second;
    struct sp_cluster *cluster;
    json_t *json = json_loads(cluster_text, 0, NULL);
    if (arena == NULL || sp_cluster_parse(arena, json, "", &cluster, NULL) != SP_OK)
        abort();
    inspect(bytes, size);
    make_plan(bytes, size, cluster, &first);
    make_plan(bytes, size, cluster, &second);
    if (first.size != second.size || (first.size > 0 && memcmp(first.data, second.data, first.size) != 0))
        abort();
    sp_buf_release(&first);
    sp_buf_release(&second);
    json_decref(json);
    sp_arena_destroy(arena);
    return 0;
}
