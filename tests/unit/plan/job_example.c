#include <stdio.h>

#include "plan/job.h"

static bool write_bytes(void *context, const char *bytes, size_t size)
{
    return fwrite(bytes, 1, size, context) == size;
}

static bool write_plan(const void *bytes, uint64_t size, FILE *out)
{
    const struct sp_job_options model = {.bytes = bytes, .size = size, .name = "model.onnx"};
    struct sp_plan_options options;
    struct sp_cluster *cluster;
    struct sp_job *job = NULL;
    struct sp_plan *plan;
    struct sp_json json;
    struct sp_error err = {0};
    struct sp_arena *arena = sp_arena_create(NULL);
    enum sp_status status = arena != NULL ? SP_OK : sp_fail_memory(&err);

    sp_plan_options_init(&options);
    options.objective = SP_OBJECTIVE_LATENCY;
    if (status == SP_OK)
        status = sp_cluster_uniform(arena, "a100-sxm4-80gb", 4, &cluster, &err);
    if (status == SP_OK)
        status = sp_job_plan(&model, cluster, &options, &job, &plan, &err);
    if (status == SP_OK) {
        sp_json_init(&json, true, write_bytes, out);
        sp_plan_write_json(plan, 0, &json);
        status = sp_json_finish(&json, &err);
    }
    if (status != SP_OK)
        (void)fprintf(stderr, "%s: %s\n", err.code, err.message);
    sp_job_destroy(job);
    sp_arena_destroy(arena);
    return status == SP_OK;
}
