#include "search/joint/run/with_hosts.h"

#include <math.h>
#include <string.h>

#include "cost/streaming.h"
#include "search/joint/blocking_constraint.h"

#define SPARE 1.05 /* more than what lacks, for buffers and borders */
#define AMPLE 1.3
#define ROOMY 1.2 /* of what is held, since a search leaves a part of the memory for activations */
#define LEAST_SHARE                                                                                                    \
    0.02                /* of a device's memory: what is lacking at least where activations or borders are in the way */
#define WORTHWHILE 0.99 /* more is tried while the last step made the plan better by so much */
#define ALWAYS     4    /* but the first ones always */
#define MOST_STEPS 32   /* 2, and one for each doubling of copies */

struct spilling {
    struct sp_arena *arena;
    const struct sp_workload *workload;
    const struct sp_dataflow *dataflow;
    struct sp_cluster cluster;
    struct sp_joint_options options;
    struct sp_search_result *best; /* NULL: none, yet */
    double fraction;               /* that was told last: it does not go back from one search to the next */
    const struct sp_watch *outer;
    struct sp_watch watch;
};

static bool tick(void *context, const char *phase, double fraction, double best_seconds, double bound_seconds)
{
    struct spilling *spilling = context;
    spilling->fraction = fmax(spilling->fraction, fraction);
    return sp_watch_tick(spilling->outer, phase, spilling->fraction, best_seconds, bound_seconds);
}

static double value_of(enum sp_objective objective, const struct sp_search_result *result)
{
    const struct sp_evaluation *evaluation = result->evaluation;
    return objective == SP_OBJECTIVE_LATENCY   ? evaluation->latency_seconds
           : objective == SP_OBJECTIVE_DEVICES ? evaluation->device_count
                                               : evaluation->interval_seconds;
}

static bool streams(const struct sp_search_result *result)
{
    for (uint32_t s = 0; s < result->evaluation->stage_count; s++)
        if (result->evaluation->stages[s].streamed_count > 0)
            return true;
    return false;
}

/* Searches with so many bytes more; *ret_gain: how many times less the objective is than before, 0 where no plan is. */
static enum sp_status try_bytes(struct spilling *s, double bytes, double *ret_gain, struct sp_error *err)
{
    struct sp_search_result *result = NULL;
    struct sp_cluster *cluster = SP_NEW(s->arena, struct sp_cluster);
    if (cluster == NULL)
        return sp_fail_memory(err);
    *cluster = s->cluster;
    cluster->spilled_bytes = bytes;
    const enum sp_status status =
        sp_joint_search_once(s->arena, s->workload, s->dataflow, cluster, &s->options, &result, err);
    *ret_gain = 0;
    if (status != SP_OK)
        return status;
    const double value = value_of(s->options.objective, result);
    const double before = s->best == NULL ? INFINITY : value_of(s->options.objective, s->best);
    *ret_gain = value > 0 ? before / value : 1;
    if (value < before) {
        sp_search_result_release(s->best);
        s->best = result;
    } else {
        sp_search_result_release(result);
    }
    return SP_OK;
}

static bool is_no_plan(enum sp_status status, const struct sp_error *err)
{
    return status == SP_ERR_NOFIT ||
           (status == SP_ERR_REQUEST && err != NULL && strcmp(err->code, "CONSTRAINT_UNSUPPORTED") == 0);
}

/* What devices are given beside their memory, ascending: what they lack on average, where each weight is there once, or
   on 2, 4, .. of those that have hosts. */
static uint32_t list_steps(const struct spilling *s, double *ret_bytes)
{
    const struct sp_cluster *cluster = &s->cluster;
    double least = INFINITY, most = 0, memory = 0, devices = 0;
    uint32_t count = 0;
    for (uint32_t d = 0; d < cluster->device_count; d++) {
        if (sp_cluster_host(cluster, d) == NULL)
            continue;
        devices++;
        memory += sp_cluster_memory(cluster, d);
        least = fmin(least, sp_cluster_memory(cluster, d));
        most = fmax(most, sp_cluster_host(cluster, d)->memory_bytes);
    }
    const double lacking = fmax(sp_stream_lacking_bytes(s->workload, cluster) / devices, LEAST_SHARE * least);
    ret_bytes[count++] = fmin(SPARE * lacking, most);
    ret_bytes[count++] = fmin(AMPLE * lacking, most);
    for (double copies = 1; copies < 2 * devices && count < MOST_STEPS; copies *= 2) {
        const double held = s->workload->weight_bytes * fmin(copies, devices) / devices;
        const double bytes = fmin(ROOMY * held - memory / devices, most);
        if (bytes > SPARE * ret_bytes[count - 1])
            ret_bytes[count++] = bytes;
    }
    return count;
}

/* From the least that may be enough up to all that hosts have. */
static enum sp_status search_steps(struct spilling *s, struct sp_error *err)
{
    double bytes[MOST_STEPS], gain = INFINITY;
    const uint32_t count = list_steps(s, bytes);
    enum sp_status status = SP_ERR_NOFIT;
    for (uint32_t i = 0; i < count && (i < ALWAYS || s->best == NULL || gain * WORTHWHILE > 1); i++) {
        if (s->best != NULL && (s->best->stopped || s->options.any_plan))
            break;
        sp_error_clear(err);
        status = try_bytes(s, bytes[i], &gain, err);
        if (status != SP_OK && !is_no_plan(status, err))
            break;
    }
    /* Of stages whose weights do not go into a host together each was found to be good alone. */
    if (s->best == NULL && is_no_plan(status, err)) {
        sp_error_clear(err);
        s->cluster.divides_hosts = true;
        status = try_bytes(s, bytes[count - 1], &gain, err);
    }
    if (s->best == NULL || status == SP_ERR_MEMORY)
        return status;
    sp_error_clear(err);
    return SP_OK;
}

enum sp_status sp_joint_search_with_hosts(struct sp_arena *arena, const struct sp_workload *workload,
                                          const struct sp_dataflow *dataflow, const struct sp_cluster *cluster,
                                          const struct sp_joint_options *options, struct sp_search_result **ret_result,
                                          struct sp_error *err)
{
    struct spilling s = {.arena = arena,
                         .workload = workload,
                         .dataflow = dataflow,
                         .cluster = *cluster,
                         .options = *options,
                         .outer = options->watch};
    enum sp_status status = SP_ERR_NOFIT;
    if (cluster->host_of == NULL)
        return sp_joint_search_once(arena, workload, dataflow, cluster, options, ret_result, err);
    s.watch = (struct sp_watch){.tick = tick, .context = &s, .stop = sp_watch_stop(options->watch)};
    if (options->watch != NULL)
        s.options.watch = &s.watch;
    if (sp_stream_lacking_bytes(workload, cluster) == 0) {
        status = sp_joint_search_once(arena, workload, dataflow, cluster, &s.options, &s.best, err);
        if (status == SP_OK && s.best != NULL && (!streams(s.best) || s.best->stopped || options->any_plan)) {
            *ret_result = s.best;
            return SP_OK;
        }
        if (status != SP_OK && !is_no_plan(status, err))
            return status;
    }
    status = search_steps(&s, err);
    if (status == SP_OK)
        *ret_result = s.best;
    else
        sp_search_result_release(s.best);
    return status;
}
