/*
 * Workloads: whatever is accepted is written out and read again as the same text. Then a small decoder is planned for
 * it: what comes out keeps the limits by its own figures, and what is refused is refused in words.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "plan/service/service.h"

#define MAX_TEXT ((size_t)64 << 20)
#define BUDGET   ((size_t)256 << 20)

static const char cluster_text[] =
    "{\"groups\":[{\"count\":2,\"price_per_hour\":2,\"device\":{\"name\":\"d\",\"memory_bytes\":1e6,"
    "\"memory_bandwidth\":1e9,\"flops\":{\"float32\":1e9},\"link_bandwidth\":1e9}}]}";

/* Keys are what comes in, and attention is a product with all of them. */
static const char model_text[] =
    "{\"opset\":23,\"inputs\":[{\"name\":\"input_embeds\",\"dtype\":\"float32\",\"shape\":[\"batch\",\"seq\",8]},"
    "{\"name\":\"past_key_values.0.key\",\"dtype\":\"float32\",\"shape\":[\"batch\",\"past\",8]}],"
    "\"initializers\":[{\"name\":\"w\",\"dtype\":\"float32\",\"shape\":[8,8]}],"
    "\"nodes\":[{\"name\":\"k\",\"op\":\"MatMul\",\"inputs\":[\"input_embeds\",\"w\"],\"outputs\":[\"k\"]},"
    "{\"name\":\"all\",\"op\":\"Concat\",\"inputs\":[\"past_key_values.0.key\",\"k\"],\"outputs\":[\"present.0.key\"],"
    "\"attributes\":{\"axis\":1}},"
    "{\"name\":\"t\",\"op\":\"Transpose\",\"inputs\":[\"present.0.key\"],\"outputs\":[\"kt\"],"
    "\"attributes\":{\"perm\":[0,2,1]}},"
    "{\"name\":\"s\",\"op\":\"MatMul\",\"inputs\":[\"k\",\"kt\"],\"outputs\":[\"y\"]}],"
    "\"outputs\":[\"y\",\"present.0.key\"]}";

static void check_error(const struct sp_error *err)
{
    if (err->message[0] == '\0' || err->code[0] == '\0')
        abort();
    if (err->status == SP_ERR_INTERNAL) {
        (void)fprintf(stderr, "an internal error: %s %s\n", err->code, err->message);
        abort();
    }
}

static void check_round_trip(struct sp_arena *arena, const struct sp_traffic *traffic)
{
    const struct sp_traffic *again;
    struct sp_error err = {0};
    json_t *json = json_loads(traffic->text, JSON_REJECT_DUPLICATES, NULL);
    if (json == NULL || sp_traffic_parse(arena, json, "", &again, &err) != SP_OK ||
        strcmp(again->text, traffic->text) != 0) {
        (void)fprintf(stderr, "refused its own text: %s\n%s\n", err.message, traffic->text);
        abort();
    }
    json_decref(json);
}

static void check_service(const struct sp_traffic *traffic, const struct sp_service *service)
{
    const struct sp_traffic_limits *limits = &traffic->limits;
    if ((limits->ttft_seconds > 0 && service->ttft_seconds.value > limits->ttft_seconds) ||
        (limits->tpot_seconds > 0 && service->tpot_seconds.value > limits->tpot_seconds) ||
        (limits->request_seconds > 0 && service->request_seconds.value > limits->request_seconds) ||
        !(service->request_seconds.value >= 0) || !(service->requests_per_second.value > 0) || service->devices > 2)
        abort();
}

static void make_plan(struct sp_arena *arena, const struct sp_cluster *cluster, const struct sp_traffic *traffic)
{
    const struct sp_job_options options = {
        .bytes = model_text, .size = strlen(model_text), .memory_budget = BUDGET, .name = "fuzz"};
    struct sp_plan_options asked;
    struct sp_error err = {0};
    struct sp_job *job;
    struct sp_plan *plan;
    sp_plan_options_init(&asked);
    asked.traffic = traffic;
    if (sp_service_plan(arena, &options, cluster, &asked, &job, &plan, &err) != SP_OK) {
        check_error(&err);
        return;
    }
    check_service(traffic, plan->service);
    sp_job_destroy(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = (size_t)64 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    json_t *json = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, NULL);
    if (arena != NULL && json != NULL) {
        const struct sp_traffic *traffic;
        struct sp_cluster *cluster;
        struct sp_error err = {0};
        json_t *devices = json_loads(cluster_text, 0, NULL);
        if (sp_cluster_parse(arena, devices, "", &cluster, NULL) != SP_OK)
            abort();
        if (sp_traffic_parse(arena, json, "", &traffic, &err) == SP_OK) {
            check_round_trip(arena, traffic);
            make_plan(arena, cluster, traffic);
        } else {
            check_error(&err);
        }
        json_decref(devices);
    }
    json_decref(json);
    sp_arena_destroy(arena);
    return 0;
}
