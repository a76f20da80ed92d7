#include "plan/request/placed.h"

#include "import/import.h"
#include "plan/internal.h"

/* Lists of both are one behind the other. */
static enum sp_status merge(json_t *into, const json_t *from, struct sp_error *err)
{
    const char *member;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)from, member, value)
    {
        json_t *own = json_object_get(into, member);
        const int failed = json_is_array(own) ? json_array_extend(own, value) : json_object_set(into, member, value);
        if (failed != 0)
            return sp_fail_memory(err);
    }
    return SP_OK;
}

enum sp_status sp_placed_constraints(const struct sp_job_options *job_options, const struct sp_cluster *cluster,
                                     const struct sp_plan_options *options, const char *text, size_t size,
                                     json_t *constraints, struct sp_error *err)
{
    struct sp_ready_job ready = {0};
    json_t *placed = NULL;
    enum sp_status status = sp_job_ready(job_options, cluster, options, &ready, err);
    if (status != SP_OK)
        return status;
    if (ready.job->model == NULL)
        status = sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_FILE",
                         "A graph of costs is not what a file of another tool places: give the model.");
    if (status == SP_OK)
        status = sp_import_constraints(ready.job->model, text, size, cluster->device_count, &placed, err);
    if (status == SP_OK)
        status = merge(constraints, placed, err);
    json_decref(placed);
    sp_job_destroy(ready.job);
    return status;
}
