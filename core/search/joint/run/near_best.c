#include "search/joint/run/near_best.h"

#include <math.h>
#include <string.h>

#include "search/joint/pareto_front.h"

#define ROUNDING 1e-9 /* share by which sums that are equal may differ */

static double used_share(const struct sp_stage_cost *cost)
{
    return cost->capacity_bytes > 0 ? cost->total_bytes / cost->capacity_bytes : 0;
}

/* Of all routes: the fullest holder, the route that sends most. */
static struct sp_near_plan measure_routes(struct sp_joint_candidate *candidate)
{
    const struct sp_routed *routed = candidate->routed;
    struct sp_near_plan plan = {.candidate = candidate};
    for (uint32_t h = 0; h < routed->holder_count; h++)
        plan.used_share = fmax(plan.used_share, used_share(routed->holders[h].cost));
    for (uint32_t r = 0; r < routed->route_count; r++)
        if (routed->routes[r].evaluation->transfer_count > plan.messages)
            plan.messages = routed->routes[r].evaluation->transfer_count;
    return plan;
}

/* Messages and memory of a plan that was evaluated. */
static struct sp_near_plan measure(struct sp_joint_candidate *candidate)
{
    const struct sp_evaluation *evaluation = candidate->evaluation;
    struct sp_near_plan plan = {.candidate = candidate, .messages = evaluation->transfer_count};
    if (candidate->routed != NULL)
        return measure_routes(candidate);
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const struct sp_sharded_stage *sharded = candidate->sharded == NULL ? NULL : &candidate->sharded[s];
        plan.used_share = fmax(plan.used_share, used_share(sp_evaluation_device(evaluation, s)));
        if (sharded == NULL || sharded->table == NULL || sharded->intra == NULL)
            continue;
        for (uint32_t i = 0; i < sharded->intra->use_count; i++)
            plan.messages += sharded->intra->uses[i].seconds > 0;
        for (uint32_t i = 0; i < sharded->node_count; i++) {
            const struct sp_strategies *strategies = sp_strategy_of(sharded->table, sharded->nodes[i]);
            plan.messages += strategies->items[sharded->strategy_of[i]].communication_seconds > 0;
        }
    }
    return plan;
}

bool sp_near_describe(struct sp_arena *arena, struct sp_joint_candidate *candidate, struct sp_front_plan *ret_plan)
{
    const struct sp_near_plan measured = measure(candidate);
    *ret_plan =
        (struct sp_front_plan){.description = sp_front_describe(arena, &candidate->placement, candidate->routed),
                               .strategy = candidate->strategy,
                               .stage_count = candidate->placement.stage_count,
                               .devices_used = candidate->devices_used,
                               .copies = sp_placement_copies(&candidate->placement),
                               .latency_seconds = candidate->evaluation->latency_seconds,
                               .interval_seconds = sp_evaluation_interval(candidate->evaluation),
                               .memory_bytes = candidate->memory_bytes,
                               .used_share = measured.used_share,
                               .messages = measured.messages};
    return ret_plan->description != NULL;
}

static double seconds_of(const struct sp_joint *joint, const struct sp_joint_candidate *candidate)
{
    return joint->options->objective == SP_OBJECTIVE_LATENCY ? candidate->evaluation->latency_seconds
                                                             : candidate->evaluation->interval_seconds;
}

/* The figure that the objective is not. */
static double other_seconds(const struct sp_joint *joint, const struct sp_joint_candidate *candidate)
{
    return joint->options->objective == SP_OBJECTIVE_LATENCY ? candidate->evaluation->interval_seconds
                                                             : candidate->evaluation->latency_seconds;
}

bool sp_near_is_within(const struct sp_joint *joint, double seconds, const struct sp_joint_candidate *best)
{
    return seconds <= seconds_of(joint, best) * (1 + joint->options->tolerance + ROUNDING);
}

bool sp_near_is_near(const struct sp_joint *joint, const struct sp_joint_candidate *candidate,
                     const struct sp_joint_candidate *best)
{
    if (joint->options->objective == SP_OBJECTIVE_DEVICES && candidate->devices_used > best->devices_used)
        return false;
    return sp_near_is_within(joint, seconds_of(joint, candidate), best);
}

/* Whether requests take several routes. */
static double routes_of(const struct sp_joint *joint, const struct sp_near_plan *plan)
{
    (void)joint;
    return plan->candidate->routed != NULL;
}

/* Whether copies of the plan take requests in turn. */
static double copies_of(const struct sp_joint *joint, const struct sp_near_plan *plan)
{
    (void)joint;
    return sp_placement_copies(&plan->candidate->placement) > 1;
}

/* Whether `a` stays wherever `b` does, and is no worse in the end. */
static bool covers(const struct sp_joint *joint, const struct sp_near_plan *a, const struct sp_near_plan *b)
{
    return routes_of(joint, a) <= routes_of(joint, b) && copies_of(joint, a) <= copies_of(joint, b) &&
           seconds_of(joint, a->candidate) <= seconds_of(joint, b->candidate) &&
           a->candidate->devices_used <= b->candidate->devices_used && a->used_share <= b->used_share &&
           a->messages <= b->messages && other_seconds(joint, a->candidate) <= other_seconds(joint, b->candidate) &&
           !sp_front_better(joint->options->objective, b->candidate, a->candidate);
}

/* Of more plans than there is room for, which one goes: with the most devices, then the fullest. */
static bool goes_first(const struct sp_near_plan *a, const struct sp_near_plan *b)
{
    if (a->candidate->devices_used != b->candidate->devices_used)
        return a->candidate->devices_used > b->candidate->devices_used;
    return a->used_share > b->used_share;
}

bool sp_near_add(struct sp_joint *joint, struct sp_joint_candidate *candidate)
{
    const struct sp_joint_candidate *best = joint->ranked[0];
    uint32_t kept = 0;
    if (joint->options->tolerance <= 0 || !candidate->fits || best == NULL || !sp_near_is_near(joint, candidate, best))
        return false;
    const struct sp_near_plan plan = measure(candidate);
    for (uint32_t i = 0; i < joint->near_count; i++) {
        if (covers(joint, &joint->near[i], &plan))
            return false;
    }
    for (uint32_t i = 0; i < joint->near_count; i++) {
        if (sp_near_is_near(joint, joint->near[i].candidate, best) && !covers(joint, &plan, &joint->near[i]))
            joint->near[kept++] = joint->near[i];
    }
    joint->near_count = kept;
    if (kept < SP_NEAR_PLANS) {
        joint->near[joint->near_count++] = plan;
        return true;
    }
    uint32_t last = 0;
    for (uint32_t i = 1; i < kept; i++)
        last = goes_first(&joint->near[i], &joint->near[last]) ? i : last;
    if (!goes_first(&joint->near[last], &plan))
        return false;
    joint->near[last] = plan;
    return true;
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

typedef double figure_of(const struct sp_joint *joint, const struct sp_near_plan *plan);

static double devices_of(const struct sp_joint *joint, const struct sp_near_plan *plan)
{
    (void)joint;
    return plan->candidate->devices_used;
}

static double used_share_of(const struct sp_joint *joint, const struct sp_near_plan *plan)
{
    (void)joint;
    return plan->used_share;
}

static double messages_of(const struct sp_joint *joint, const struct sp_near_plan *plan)
{
    (void)joint;
    return plan->messages;
}

static double other_of(const struct sp_joint *joint, const struct sp_near_plan *plan)
{
    return other_seconds(joint, plan->candidate);
}

struct list {
    uint32_t count;
    struct sp_near_plan plans[SP_NEAR_PLANS + 1];
};

/* Leaves the plans whose figure is at most (1 + share) times the least one, and so much more. */
static void keep_least(const struct sp_joint *joint, struct list *list, figure_of *figure, double share, double more)
{
    double least = INFINITY;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++)
        least = fmin(least, figure(joint, &list->plans[i]));
    for (uint32_t i = 0; i < list->count; i++) {
        if (figure(joint, &list->plans[i]) <= least * (1 + share) + more)
            list->plans[kept++] = list->plans[i];
    }
    list->count = kept;
}

struct sp_joint_candidate *sp_near_choose(const struct sp_joint *joint, struct sp_joint_candidate *best)
{
    const double tolerance = joint->options->tolerance;
    struct list list;
    if (tolerance <= 0)
        return best;
    list.count = 1;
    list.plans[0] = measure(best);
    for (uint32_t i = 0; i < joint->near_count; i++) {
        if (joint->near[i].candidate != best && sp_near_is_near(joint, joint->near[i].candidate, best))
            list.plans[list.count++] = joint->near[i];
    }
    keep_least(joint, &list, routes_of, 0, 0);
    keep_least(joint, &list, copies_of, 0, 0);
    keep_least(joint, &list, devices_of, 0, 0);
    keep_least(joint, &list, used_share_of, 0, tolerance);
    keep_least(joint, &list, messages_of, tolerance, 0);
    keep_least(joint, &list, other_of, tolerance, 0);
    struct sp_joint_candidate *chosen = list.plans[0].candidate;
    for (uint32_t i = 1; i < list.count; i++) {
        if (sp_front_better(joint->options->objective, list.plans[i].candidate, chosen))
            chosen = list.plans[i].candidate;
    }
    return chosen;
}
