/*
 * How the grouping search grows with the model: time and memory for 1,000, 10,000 and 100,000 nodes of transformer-like
 * blocks on 8 devices, per node, and as ratios to the smallest. Linear growth shows as ratios near 1.
 */
#include <assert.h>
#include <inttypes.h>
#include <time.h>

#include "../unit/support/build_workload.h"
#include "search/grouping/grouping.h"

#define DEVICES 8
#define WIDTH   1024

struct outcome {
    double seconds, bytes, interval, bound;
    uint32_t nodes, stages;
    uint64_t explored;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool plan(uint32_t nodes, struct outcome *ret_outcome)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_cluster *cluster = build_cluster(arena, DEVICES, 1e15, 1e11, 2e-6);
    struct sp_workload *workload = build_transformer(arena, cluster, nodes / TRANSFORMER_LAYER_NODES, WIDTH);
    struct sp_budget budget = {0};
    struct sp_arena *job = sp_arena_create(&budget);
    struct sp_grouping_options options;
    struct sp_grouping_result *result = NULL;
    struct sp_lower_bounds bounds = {0};
    struct sp_error err = {0};
    sp_grouping_options_init(&options);
    double start = now();
    enum sp_status status = sp_group(job, workload, cluster, &options, &result, &err);
    double end = now();
    bool done = status == SP_OK && sp_lower_bounds(arena, workload, cluster, &bounds, &err) == SP_OK;
    if (!done)
        (void)fprintf(stderr, "%s\n", err.message);
    else
        *ret_outcome = (struct outcome){end - start,
                                        (double)budget.peak,
                                        result->evaluation->interval_seconds,
                                        bounds.interval_seconds,
                                        workload->node_count,
                                        result->placement.stage_count,
                                        result->explored};
    sp_arena_destroy(job);
    sp_arena_destroy(arena);
    return done;
}

int main(void)
{
    static const uint32_t sizes[] = {1000, 10000, 100000};
    struct outcome first = {0};
    printf("%8s %9s %10s %10s %9s %9s %7s %9s %10s\n", "nodes", "seconds", "us/node", "bytes/node", "time x",
           "memory x", "stages", "to bound", "explored");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct outcome outcome;
        if (!plan(sizes[i], &outcome))
            return 1;
        if (i == 0)
            first = outcome;
        double time = outcome.seconds / outcome.nodes, bytes = outcome.bytes / outcome.nodes;
        printf("%8u %9.3f %10.2f %10.0f %9.2f %9.2f %7u %9.4f %10" PRIu64 "\n", outcome.nodes, outcome.seconds,
               1e6 * time, bytes, time / (first.seconds / first.nodes), bytes / (first.bytes / first.nodes),
               outcome.stages, outcome.interval / outcome.bound, outcome.explored);
    }
    return 0;
}
