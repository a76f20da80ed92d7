/* The answer of a search: its plan, the front, the runner-up, and what memory is in the way of. */
#include <math.h>

#include "search/joint/bounds.h"
#include "search/joint/memory_peak.h"
#include "search/joint/run/near_best.h"
#include "search/joint/run/run.h"

enum sp_status sp_run_find_bounds(struct sp_search_run *search)
{
    const struct sp_joint *joint = &search->joint;
    const bool whole = joint->options->strategy == SP_STRATEGY_GROUPING ||
                       (joint->options->max_replicas == 1 && joint->options->max_copies == 1 &&
                        joint->space->option_count == joint->space->class_count && !sp_run_tries_shares(search) &&
                        !search->finds_routes);
    if (search->has_bounds)
        return SP_OK;
    search->has_bounds = true;
    return whole ? sp_lower_bounds(joint->arena, joint->workload, joint->cluster, &search->bounds, search->err)
                 : sp_joint_bounds(joint->arena, joint->workload, joint->cluster, &search->bounds, search->err);
}

static bool splits_operators(const struct sp_joint_candidate *candidate)
{
    for (uint32_t s = 0; candidate->sharded != NULL && s < candidate->placement.stage_count; s++) {
        if (candidate->sharded[s].table != NULL)
            return true;
    }
    return false;
}

/* The runner-up of the answer, and what memory is in the way of. */
static enum sp_status list_others(struct sp_search_run *search, const struct sp_joint_candidate *chosen,
                                  struct sp_search_result *result)
{
    struct sp_joint *joint = &search->joint;
    const struct sp_joint_candidate *best = search->front.plans[0];
    struct sp_joint_candidate *beyond = joint->beyond;
    struct sp_front_plan *second = SP_NEW(joint->arena, struct sp_front_plan);
    struct sp_short_of_memory_plan *other = SP_NEW(joint->arena, struct sp_short_of_memory_plan);
    struct sp_memory_peak peak;
    if (second == NULL || other == NULL)
        return sp_fail_memory(search->err);
    struct sp_joint_candidate *runner_up = sp_front_second(joint, chosen);
    if (runner_up != NULL && !sp_near_describe(joint->arena, runner_up, second))
        return sp_fail_memory(search->err);
    result->second = runner_up != NULL ? second : NULL;
    result->is_proved = search->is_proved;
    if (beyond == NULL || !sp_front_better(joint->options->objective, beyond, best))
        return SP_OK;
    const struct sp_evaluated_plan plan = {&beyond->placement, beyond->sharded, beyond->evaluation};
    enum sp_status status = sp_memory_peak_of_stage(joint->arena, joint->workload, joint->cluster, &plan,
                                                    beyond->evaluation->worst_stage, &peak, search->err);
    if (status != SP_OK)
        return status;
    const struct sp_stage_cost *cost = &beyond->evaluation->stages[peak.stage];
    if (!sp_near_describe(joint->arena, beyond, &other->plan))
        return sp_fail_memory(search->err);
    other->device = cost->device;
    other->node = peak.node == SP_NO_WORK ? NULL : joint->workload->nodes[peak.node].name;
    other->needed_bytes = cost->total_bytes;
    other->capacity_bytes = cost->capacity_bytes;
    result->beyond = other;
    return SP_OK;
}

/* The front, with the answer in its place where that is not on it, and the best plan where the answer is another. */
static enum sp_status list_front(struct sp_search_run *search, struct sp_joint_candidate *chosen,
                                 struct sp_search_result *result)
{
    const struct sp_front *front = &search->front;
    const enum sp_objective objective = search->joint.options->objective;
    struct sp_joint_candidate *listed[SP_FRONT_PLANS];
    uint32_t count = 0, at = 0;
    for (; count < SP_FRONT_PLANS && count < front->count; count++)
        listed[count] = front->plans[count];
    while (at < count && listed[at] != chosen)
        at++;
    if (at == count) {
        count = count < SP_FRONT_PLANS ? count + 1 : count;
        for (at = count - 1; at > 0 && sp_front_better(objective, chosen, listed[at - 1]); at--)
            listed[at] = listed[at - 1];
        listed[at] = chosen;
    }
    struct sp_front_plan *plans = SP_NEW_ARRAY(search->joint.arena, count, struct sp_front_plan);
    if (plans == NULL)
        return sp_fail_memory(search->err);
    for (uint32_t i = 0; i < count; i++) {
        if (!sp_near_describe(search->joint.arena, listed[i], &plans[i]))
            return sp_fail_memory(search->err);
        plans[i].is_chosen = i == at;
    }
    result->front_count = count;
    result->front = plans;
    result->best = at > 0 ? &plans[0] : NULL;
    return SP_OK;
}

enum sp_status sp_run_answer(struct sp_search_run *search, struct sp_search_result **ret_result)
{
    struct sp_joint *joint = &search->joint;
    struct sp_joint_candidate *best = search->front.plans[0];
    struct sp_joint_candidate *chosen =
        search->asks_routes && best->routed != NULL ? best : sp_near_choose(joint, best);
    struct sp_search_result *result = SP_NEW(joint->arena, struct sp_search_result);
    struct sp_error *failure = SP_NEW(joint->arena, struct sp_error);
    if (result == NULL || failure == NULL)
        return sp_fail_memory(search->err);
    *failure = search->failure;
    *result = (struct sp_search_result){.placement = chosen->placement,
                                        .evaluation = chosen->evaluation,
                                        .sharded = splits_operators(chosen) ? chosen->sharded : NULL,
                                        .routes = chosen->routed,
                                        .strategy = chosen->strategy,
                                        .explored = joint->explored,
                                        .accepted = joint->accepted,
                                        .memory_share = 1,
                                        .stopped = joint->stopped,
                                        .failure = failure->status != SP_OK ? failure : NULL,
                                        .table_count = joint->space->option_count,
                                        .tables = joint->own_tables};
    if (search->grouping != NULL) {
        result->candidates = search->grouping->candidates;
        result->subgraphs = search->grouping->subgraphs;
        result->memory_share = chosen == search->grouped ? search->grouping->memory_share : 1;
    }
    enum sp_status status = sp_run_find_bounds(search);
    result->bounds = search->bounds;
    if (isfinite(search->any_bound))
        result->bounds.interval_seconds = fmax(result->bounds.interval_seconds, search->any_bound);
    if (status == SP_OK && search->is_proved) {
        if (joint->options->objective == SP_OBJECTIVE_LATENCY)
            result->bounds.latency_seconds = best->evaluation->latency_seconds;
        else if (joint->options->objective == SP_OBJECTIVE_THROUGHPUT)
            result->bounds.interval_seconds = best->evaluation->interval_seconds;
    }
    if (status == SP_OK)
        status = list_front(search, chosen, result);
    if (status == SP_OK)
        status = list_others(search, chosen, result);
    if (status == SP_OK)
        *ret_result = result;
    return status;
}
