/*
 * Demands on a plan: whatever is accepted is written out and read again as the same text. Then a small model and a
 * graph of costs are planned under them: what comes out keeps the counts and the bytes that were demanded, and what is
 * refused is refused in words.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "plan/job.h"

#define MAX_TEXT ((size_t)64 << 20)
#define BUDGET   ((size_t)256 << 20)

static const char cluster_text[] =
    "{\"groups\":[{\"count\":4,\"device\":{\"name\":\"d\",\"memory_bytes\":1e6,\"memory_bandwidth\":1e9,"
    "\"flops\":{\"float32\":1e9}}}],\"mesh\":[{\"name\":\"far\",\"size\":2,\"bandwidth\":1e8,\"latency\":1e-5},"
    "{\"name\":\"near\",\"size\":2,\"bandwidth\":1e9,\"latency\":1e-6}]}";

static const char model_text[] =
    "{\"opset\":23,\"inputs\":[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[4,8,16]}],"
    "\"initializers\":[{\"name\":\"w\",\"dtype\":\"float32\",\"shape\":[16,16]},"
    "{\"name\":\"v\",\"dtype\":\"float32\",\"shape\":[16,16]}],"
    "\"nodes\":[{\"name\":\"first\",\"op\":\"MatMul\",\"inputs\":[\"x\",\"w\"],\"outputs\":[\"a\"]},"
    "{\"name\":\"relu\",\"op\":\"Relu\",\"inputs\":[\"a\"],\"outputs\":[\"b\"]},"
    "{\"name\":\"attention\",\"op\":\"Attention\",\"inputs\":[\"b\",\"b\",\"b\"],\"outputs\":[\"c\"],"
    "\"attributes\":{\"q_num_heads\":4,\"kv_num_heads\":4}},"
    "{\"name\":\"second\",\"op\":\"MatMul\",\"inputs\":[\"c\",\"v\"],\"outputs\":[\"d\"]},"
    "{\"name\":\"sum\",\"op\":\"Add\",\"inputs\":[\"d\",\"b\"],\"outputs\":[\"y\"]}],\"outputs\":[\"y\"]}";

static const char costs_text[] =
    "{\"nodes\":[{\"id\":\"first\",\"seconds\":1,\"memory_bytes\":1000},{\"id\":\"relu\",\"seconds\":2},"
    "{\"id\":\"second\",\"seconds\":1,\"memory_bytes\":5000,\"output_bytes\":10},{\"id\":\"sum\",\"seconds\":1}],"
    "\"edges\":[{\"from\":\"first\",\"to\":\"relu\",\"bytes\":100},{\"from\":\"relu\",\"to\":\"sum\",\"bytes\":1},"
    "{\"from\":\"relu\",\"to\":\"second\"},{\"from\":\"second\",\"to\":\"sum\"}]}";

static void check_error(const struct sp_error *err)
{
    if (err->message[0] == '\0' || err->code[0] == '\0')
        abort();
    if (err->status == SP_ERR_INTERNAL) {
        (void)fprintf(stderr, "an internal error: %s %s\n", err->code, err->message);
        abort();
    }
}

/* ---- the text --------------------------------------------------------------------------------------------------- */

static void write_demands(const struct sp_demands *demands, struct sp_buf *buf)
{
    struct sp_json json;
    sp_buf_init(buf, MAX_TEXT);
    sp_json_init_buf(&json, false, buf);
    sp_demands_write(demands, &json);
    if (sp_json_finish(&json, NULL) != SP_OK)
        abort();
}

static void check_round_trip(struct sp_arena *arena, const struct sp_demands *demands)
{
    struct sp_buf first, second;
    const struct sp_demands *again;
    struct sp_error err = {0};
    write_demands(demands, &first);
    json_t *json = json_loadb(first.data, first.size, JSON_REJECT_DUPLICATES, NULL);
    if (json == NULL || sp_demands_parse(arena, json, "", &again, &err) != SP_OK) {
        (void)fprintf(stderr, "refused its own text: %s\n%s\n", err.message, first.data);
        abort();
    }
    write_demands(again, &second);
    if (first.size != second.size || memcmp(first.data, second.data, first.size) != 0) {
        (void)fprintf(stderr, "written as\n%s\nand then as\n%s\n", first.data, second.data);
        abort();
    }
    json_decref(json);
    sp_buf_release(&first);
    sp_buf_release(&second);
}

/* ---- plans ------------------------------------------------------------------------------------------------------ */

static double number_of(const json_t *json, const char *name, double none)
{
    const json_t *number = json_object_get(json, name);
    return json_is_number(number) ? json_number_value(number) : none;
}

static void check_plan(const struct sp_plan *plan, const json_t *json, const struct sp_cluster *cluster)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    if (evaluation->stage_count > number_of(json, "max_stages", INFINITY) || evaluation->worst_excess_bytes > 0)
        abort();
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const struct sp_stage_cost *stage = &evaluation->stages[s];
        if (stage->total_bytes + number_of(json, "reserved_bytes", 0) > sp_cluster_memory(cluster, stage->device))
            abort();
    }
}

static void make_plan(const char *model, const struct sp_cluster *cluster, const json_t *json,
                      const struct sp_demands *demands)
{
    const struct sp_job_options options = {
        .bytes = model, .size = strlen(model), .memory_budget = BUDGET, .name = "fuzz"};
    struct sp_plan_options asked;
    struct sp_error err = {0};
    struct sp_job *job;
    struct sp_plan *plan;
    sp_plan_options_init(&asked);
    asked.constraints = demands;
    asked.max_replicas = 2;
    if (sp_job_plan(&options, cluster, &asked, &job, &plan, &err) != SP_OK) {
        check_error(&err);
        return;
    }
    check_plan(plan, json, cluster);
    sp_job_destroy(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = (size_t)64 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    json_t *json = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, NULL);
    if (arena != NULL && json != NULL) {
        const struct sp_demands *demands;
        struct sp_cluster *cluster;
        struct sp_error err = {0};
        json_t *devices = json_loads(cluster_text, 0, NULL);
        if (sp_cluster_parse(arena, devices, "", &cluster, NULL) != SP_OK)
            abort();
        if (sp_demands_parse(arena, json, "", &demands, &err) == SP_OK) {
            check_round_trip(arena, demands);
            make_plan(model_text, cluster, json, demands);
            make_plan(costs_text, cluster, json, demands);
        } else {
            check_error(&err);
        }
        json_decref(devices);
    }
    json_decref(json);
    sp_arena_destroy(arena);
    return 0;
}
