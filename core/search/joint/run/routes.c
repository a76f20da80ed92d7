/* Plans of routes: found beside those of one route, and the answer where they are better. */
#include <math.h>

#include "search/joint/run/run.h"

#define BETTER 1e-9

/* One route is a plan like any other: where no search found one, it is there to be the answer. */
static enum sp_status take_first_route(struct sp_search_run *search, const struct sp_routed *routed)
{
    const struct sp_route *route = &routed->routes[0];
    struct sp_joint_candidate *candidate = SP_NEW(search->joint.arena, struct sp_joint_candidate);
    if (candidate == NULL)
        return sp_fail_memory(search->err);
    *candidate = (struct sp_joint_candidate){.placement = route->placement,
                                             .evaluation = route->evaluation,
                                             .fits = route->evaluation->worst_excess_bytes <= 0,
                                             .devices_used = route->count};
    for (uint32_t s = 0; s < route->count; s++)
        candidate->memory_bytes = fmax(candidate->memory_bytes, route->evaluation->stages[s].total_bytes);
    return sp_run_take(search, candidate, SP_STRATEGY_PIPELINE);
}

enum sp_status sp_run_try_routes(struct sp_search_run *search)
{
    const struct sp_joint *joint = &search->joint;
    const struct sp_routed_request request = {.workload = joint->workload,
                                              .cluster = joint->cluster,
                                              .seed = joint->options->seed,
                                              .executor = joint->options->executor,
                                              .watch = joint->options->watch};
    struct sp_routed *routed = NULL;
    if (!search->finds_routes || !sp_run_goes_on(search, 0.98))
        return SP_OK;
    enum sp_status status = sp_routed_search(joint->arena, &request, &routed, search->err);
    if (status != SP_OK || routed == NULL)
        return status;
    search->joint.explored += routed->route_count;
    if (search->front.count == 0)
        status = take_first_route(search, routed);
    if (status == SP_OK && routed->route_count > 1 && search->front.count > 0 &&
        routed->interval_seconds < search->front.plans[0]->evaluation->interval_seconds * (1 - BETTER)) {
        search->routed = routed;
        search->is_proved = false; /* of plans of one route */
    }
    return status;
}

static bool describe(struct sp_arena *arena, const struct sp_routed *routed, struct sp_front_plan *ret_plan)
{
    *ret_plan = (struct sp_front_plan){.description = sp_arena_printf(arena, "%u routes through %u devices",
                                                                      routed->route_count, routed->holder_count),
                                       .strategy = SP_STRATEGY_ROUTES,
                                       .stage_count = routed->routes[0].count,
                                       .devices_used = routed->holder_count,
                                       .latency_seconds = routed->latency_seconds,
                                       .interval_seconds = routed->interval_seconds,
                                       .is_chosen = true};
    for (uint32_t h = 0; h < routed->holder_count; h++) {
        const struct sp_stage_cost *cost = routed->holders[h].cost;
        ret_plan->memory_bytes = fmax(ret_plan->memory_bytes, cost->total_bytes);
        ret_plan->used_share = fmax(ret_plan->used_share, cost->total_bytes / cost->capacity_bytes);
    }
    for (uint32_t r = 0; r < routed->route_count; r++)
        if (routed->routes[r].evaluation->transfer_count > ret_plan->messages)
            ret_plan->messages = routed->routes[r].evaluation->transfer_count;
    return ret_plan->description != NULL;
}

enum sp_status sp_run_answer_routes(struct sp_search_run *search, struct sp_search_result *result)
{
    const struct sp_joint *joint = &search->joint;
    struct sp_front_plan *front = SP_NEW_ARRAY(joint->arena, (size_t)result->front_count + 1, struct sp_front_plan);
    struct sp_front_plan *second = SP_NEW(joint->arena, struct sp_front_plan);
    if (front == NULL || second == NULL || !describe(joint->arena, search->routed, &front[0]))
        return sp_fail_memory(search->err);
    for (uint32_t i = 0; i < result->front_count; i++) {
        front[i + 1] = result->front[i];
        front[i + 1].is_chosen = false;
    }
    *second = front[1];
    result->front = front;
    result->front_count++;
    result->best = NULL;
    result->second = second;
    result->beyond = NULL;
    result->is_proved = false;
    result->routes = search->routed;
    result->placement = search->routed->routes[0].placement;
    result->evaluation = search->routed->evaluation;
    result->sharded = NULL;
    result->strategy = SP_STRATEGY_ROUTES;
    /* Bounds on whole operators that one device works on do not hold where several take turns. */
    return sp_work_bound(joint->arena, joint->workload, joint->cluster, &result->bounds.interval_seconds, search->err);
}
