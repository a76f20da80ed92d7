#include "search/joint/bounds.h"

#include <float.h>
#include <math.h>

/* What a node takes on a device of a kind, however many share it. What costs were given for is never cut; a launch is
   less than any of them. */
static double start_seconds(const struct sp_work_node *node, uint32_t kind)
{
    return node->start_seconds != NULL ? node->start_seconds[kind] : SP_DEFAULT_LAUNCH_SECONDS;
}

/* The longest path of what each node takes at least. */
static double longest_path(const struct sp_workload *workload, const struct sp_cluster *cluster, double *finish)
{
    double longest = 0;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        double fastest = INFINITY, start = INFINITY;
        if (node->folded)
            continue;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[i]];
            if (tensor->kind == SP_WORK_ACTIVATION && tensor->producer != SP_NO_WORK)
                finish[n] = fmax(finish[n], finish[tensor->producer]);
        }
        for (uint32_t d = 0; d < cluster->device_count; d++) {
            const uint32_t kind = workload->kind_of[d];
            fastest = fmin(fastest, node->seconds[kind]);
            if (isfinite(node->seconds[kind]))
                start = fmin(start, start_seconds(node, kind));
        }
        if (fastest > 0 && isfinite(fastest))
            finish[n] += fmax(fmin(start, fastest), fastest / cluster->device_count);
        longest = fmax(longest, finish[n]);
    }
    return longest;
}

enum sp_status sp_joint_bounds(struct sp_arena *scratch, const struct sp_workload *workload,
                               const struct sp_cluster *cluster, struct sp_lower_bounds *ret_bounds,
                               struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    double *finish = SP_NEW_ARRAY(scratch, workload->node_count, double), work;
    enum sp_status status = finish == NULL ? sp_fail_memory(err) : SP_OK;
    if (status == SP_OK)
        status = sp_work_bound(scratch, workload, cluster, &work, err);
    if (status == SP_OK) {
        const double slack = 1 - 4 * DBL_EPSILON * workload->node_count;
        ret_bounds->interval_seconds = work;
        ret_bounds->latency_seconds = fmax(work, longest_path(workload, cluster, finish) * slack);
    }
    sp_arena_rewind(scratch, mark);
    return status;
}
