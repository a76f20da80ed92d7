/*
 * The answer of grouping.h as one of the joint search: stages of one device, no operator split, an alternative to
 * itself.
 */
#include <math.h>
#include <stdio.h>

#include "search/joint/joint.h"

#define DESCRIPTION_SIZE 64

static enum sp_status describe(struct sp_arena *arena, const struct sp_grouping_result *grouping,
                               struct sp_search_result *result, struct sp_error *err)
{
    const struct sp_evaluation *evaluation = grouping->evaluation;
    struct sp_front_plan *front = SP_NEW(arena, struct sp_front_plan);
    char text[DESCRIPTION_SIZE];
    const int length = evaluation->stage_count == 1
                           ? snprintf(text, sizeof text, "1 stage of 1 device")
                           : snprintf(text, sizeof text, "%u stages of 1 device", evaluation->stage_count);
    const char *description = sp_arena_string(arena, text, (size_t)length);
    if (front == NULL || description == NULL)
        return sp_fail_memory(err);
    *front = (struct sp_front_plan){
        .description = description,
        .strategy = result->strategy,
        .stage_count = evaluation->stage_count,
        .devices_used = evaluation->stage_count,
        .latency_seconds = evaluation->latency_seconds,
        .interval_seconds = evaluation->interval_seconds,
        .is_chosen = true,
    };
    for (uint32_t s = 0; s < evaluation->stage_count; s++)
        front->memory_bytes = fmax(front->memory_bytes, evaluation->stages[s].total_bytes);
    result->front_count = 1;
    result->front = front;
    return SP_OK;
}

enum sp_status sp_search_result_from_grouping(struct sp_arena *arena, const struct sp_workload *workload,
                                              const struct sp_cluster *cluster,
                                              const struct sp_grouping_result *grouping,
                                              struct sp_search_result **ret_result, struct sp_error *err)
{
    struct sp_search_result *result = SP_NEW(arena, struct sp_search_result);
    if (result == NULL)
        return sp_fail_memory(err);
    *result = (struct sp_search_result){
        .placement = grouping->placement,
        .evaluation = grouping->evaluation,
        .strategy = SP_STRATEGY_GROUPING,
        .explored = grouping->explored,
        .accepted = grouping->accepted,
        .candidates = grouping->candidates,
        .subgraphs = grouping->subgraphs,
        .memory_share = grouping->memory_share,
        .stopped = grouping->stopped,
    };
    enum sp_status status = sp_lower_bounds(arena, workload, cluster, &result->bounds, err);
    if (status == SP_OK)
        status = describe(arena, grouping, result, err);
    if (status == SP_OK)
        *ret_result = result;
    return status;
}
