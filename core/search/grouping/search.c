#include <string.h>

#include "search/grouping/internal.h"

/* Evaluations of moves when the caller sets no number: so many that all of them together stay linear in the model. */
#define MOVE_WORK    ((uint64_t)4 << 20)
#define FEWEST_MOVES 16
#define MOST_MOVES   4096

static const double default_steps[] = {0.90, 0.95, 1.00};

void sp_grouping_options_init(struct sp_grouping_options *options)
{
    memset(options, 0, sizeof *options);
    options->objective = SP_OBJECTIVE_THROUGHPUT;
    options->optimal = true;
    options->memory_step_count = sizeof default_steps / sizeof default_steps[0];
    memcpy(options->memory_steps, default_steps, sizeof default_steps);
}

static bool has_same_devices(const struct sp_workload *workload, const struct sp_cluster *cluster)
{
    for (uint32_t i = 1; i < cluster->device_count; i++)
        if (workload->kind_of[i] != workload->kind_of[0] || sp_cluster_room(cluster, i) != sp_cluster_room(cluster, 0))
            return false;
    return true;
}

enum sp_status sp_search_init(struct sp_grouping_search *search, struct sp_arena *arena,
                              const struct sp_workload *workload, const struct sp_cluster *cluster,
                              const struct sp_grouping_options *options, struct sp_error *err)
{
    *search = (struct sp_grouping_search){.arena = arena,
                                          .workload = workload,
                                          .cluster = cluster,
                                          .objective = options->objective,
                                          .optimal = options->optimal,
                                          .watch = options->watch,
                                          .err = err,
                                          .share = 1,
                                          .next_tick = SP_SEARCH_TICK};
    search->devices = SP_NEW_ARRAY(arena, cluster->device_count, uint32_t);
    search->live = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    if (search->devices == NULL || search->live == NULL)
        return sp_fail_memory(err);
    uint64_t size = 1;
    for (uint32_t id = 0; id < workload->node_count; id++) {
        if (workload->nodes[id].folded)
            continue;
        search->live[search->live_count++] = id;
        size += 1 + workload->nodes[id].input_count + workload->nodes[id].output_count;
    }
    for (uint32_t i = 0; i < cluster->device_count; i++)
        search->devices[i] = i;
    search->same_devices = has_same_devices(workload, cluster);
    search->stage_room = cluster->device_count < search->live_count ? cluster->device_count : search->live_count;
    if (search->stage_room == 0)
        search->stage_room = 1;
    search->stage_limit = search->stage_room;
    search->evaluator = sp_evaluator_create(arena, workload, cluster);
    if (search->evaluator == NULL)
        return sp_fail_memory(err);
    search->evaluations_left = options->max_moves;
    if (options->max_moves == 0) {
        uint64_t moves = MOVE_WORK / size;
        search->evaluations_left = moves < FEWEST_MOVES ? FEWEST_MOVES : moves > MOST_MOVES ? MOST_MOVES : moves;
    }

    struct sp_lower_bounds bounds;
    struct sp_arena_mark mark = sp_arena_mark(arena);
    enum sp_status status = sp_lower_bounds(arena, workload, cluster, &bounds, err);
    sp_arena_rewind(arena, mark);
    if (status == SP_OK)
        search->bound_seconds =
            options->objective == SP_OBJECTIVE_LATENCY ? bounds.latency_seconds : bounds.interval_seconds;
    return status;
}
