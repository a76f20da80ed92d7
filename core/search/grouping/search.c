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
        if (workload->kind_of[i] != workload->kind_of[0] ||
            sp_cluster_memory(cluster, i) != sp_cluster_memory(cluster, 0))
            return false;
    return true;
}

static bool allocate_tables(struct sp_grouping_search *search)
{
    struct sp_arena *arena = search->arena;
    uint32_t nodes = search->workload->node_count, tensors = search->workload->tensor_count;
    search->devices = SP_NEW_ARRAY(arena, search->cluster->device_count, uint32_t);
    search->live = SP_NEW_ARRAY(arena, nodes, uint32_t);
    search->line.position = SP_NEW_ARRAY(arena, nodes, uint32_t);
    search->line.last_use = SP_NEW_ARRAY(arena, tensors, uint32_t);
    search->line.last_memory = SP_NEW_ARRAY(arena, tensors, uint32_t);
    search->line.outside = SP_NEW_ARRAY(arena, tensors, uint32_t);
    search->line.stays = SP_NEW_ARRAY(arena, tensors, bool);
    search->line.death_first = SP_NEW_ARRAY(arena, nodes, uint32_t);
    search->line.death_next = SP_NEW_ARRAY(arena, tensors, uint32_t);
    search->line.outside_left = SP_NEW_ARRAY(arena, tensors, double);
    search->line.outside_right = SP_NEW_ARRAY(arena, tensors, double);
    search->line.seen = SP_NEW_ARRAY(arena, tensors, uint32_t);
    search->line.born = SP_NEW_ARRAY(arena, tensors, uint32_t);
    search->line.loaded = SP_NEW_ARRAY(arena, tensors, uint32_t);
    return search->devices != NULL && search->live != NULL && search->line.position != NULL &&
           search->line.last_use != NULL && search->line.last_memory != NULL && search->line.outside != NULL &&
           search->line.stays != NULL && search->line.death_first != NULL && search->line.death_next != NULL &&
           search->line.outside_left != NULL && search->line.outside_right != NULL && search->line.seen != NULL &&
           search->line.born != NULL && search->line.loaded != NULL;
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
                                          .is_trial = options->is_trial,
                                          .watch = options->watch,
                                          .err = err,
                                          .share = 1,
                                          .next_tick = SP_SEARCH_TICK};
    if (!allocate_tables(search))
        return sp_fail_memory(err);
    uint64_t size = 1;
    for (uint32_t id = 0; id < workload->node_count; id++) {
        search->line.position[id] = SP_NO_POSITION;
        if (workload->nodes[id].folded)
            continue;
        search->live[search->live_count++] = id;
        size += 1 + workload->nodes[id].input_count + workload->nodes[id].output_count;
    }
    for (uint32_t i = 0; i < cluster->device_count; i++)
        search->devices[i] = i;
    search->same_devices = has_same_devices(workload, cluster);
    search->uniform = search->same_devices && cluster->level_count == 1;
    search->stage_room = cluster->device_count < search->live_count ? cluster->device_count : search->live_count;
    if (search->stage_room == 0)
        search->stage_room = 1;
    search->stage_limit = search->stage_room;
    search->stage_seen = SP_NEW_ARRAY(arena, search->stage_room, uint32_t);
    search->evaluator = sp_evaluator_create(arena, workload, cluster);
    if (search->stage_seen == NULL || search->evaluator == NULL)
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
    if (status != SP_OK)
        return status;
    search->interval_bound = bounds.interval_seconds;
    search->bound_seconds =
        options->objective == SP_OBJECTIVE_LATENCY ? bounds.latency_seconds : bounds.interval_seconds;
    return sp_lines_init(search);
}
