/* Plans of routes, beside those of one route. */
#include <math.h>

#include "search/joint/run/run.h"

#define ROUNDING 1e-9

/* One route is a plan like any other. */
static enum sp_status take(struct sp_search_run *search, const struct sp_routed *routed)
{
    struct sp_joint_candidate *candidate = SP_NEW(search->joint.arena, struct sp_joint_candidate);
    if (candidate == NULL)
        return sp_fail_memory(search->err);
    *candidate = (struct sp_joint_candidate){.placement = routed->routes[0].placement,
                                             .routed = routed->route_count > 1 ? routed : NULL,
                                             .evaluation = routed->evaluation,
                                             .fits = routed->worst_excess_bytes <= 0,
                                             .devices_used = routed->holder_count};
    for (uint32_t h = 0; h < routed->holder_count; h++)
        candidate->memory_bytes = fmax(candidate->memory_bytes, routed->holders[h].cost->total_bytes);
    search->joint.explored += routed->route_count;
    return sp_run_take_late(search, candidate, routed->route_count > 1 ? SP_STRATEGY_ROUTES : SP_STRATEGY_PIPELINE);
}

/* Seconds between requests below which routes are worth their trouble: those that are asked for in any case, others
   where they are better by more than the tolerance. */
static double most_seconds(const struct sp_search_run *search)
{
    if (search->front.count == 0)
        return INFINITY;
    const double seconds = search->front.plans[0]->evaluation->interval_seconds;
    return search->asks_routes ? seconds : seconds / (1 + search->joint.options->tolerance);
}

/* Searches for routes that are worth their trouble with fewer seconds between requests than `most`. */
static enum sp_status find(struct sp_search_run *search, double most, bool is_first, struct sp_routed **ret_routed,
                           double *ret_bound)
{
    const struct sp_joint *joint = &search->joint;
    const struct sp_routed_request request = {.workload = joint->workload,
                                              .cluster = joint->cluster,
                                              .most_seconds = most,
                                              .is_first = is_first,
                                              .seed = joint->options->seed,
                                              .executor = joint->options->executor,
                                              .watch = joint->options->watch};
    *ret_routed = NULL;
    *ret_bound = 0;
    return sp_routed_search(joint->arena, &request, ret_routed, ret_bound, search->err);
}

enum sp_status sp_run_find_first_routes(struct sp_search_run *search)
{
    double bound;
    if (!search->finds_routes || search->front.count == 0 || !sp_run_goes_on(search, 0.1))
        return SP_OK;
    return find(search, INFINITY, true, &search->first_routes, &bound);
}

static bool is_best(const struct sp_search_run *search, const struct sp_routed *routed)
{
    return search->front.count > 0 &&
           routed->interval_seconds < search->front.plans[0]->evaluation->interval_seconds * (1 - ROUNDING);
}

enum sp_status sp_run_take_first_routes(struct sp_search_run *search)
{
    const struct sp_routed *first = search->first_routes;
    return first != NULL && is_best(search, first) ? take(search, first) : SP_OK;
}

enum sp_status sp_run_try_routes(struct sp_search_run *search)
{
    struct sp_routed *routed;
    double bound;
    /* Where nothing fits in one row of devices, routes are not what is missing. */
    if (!search->finds_routes || (search->front.count == 0 && !search->asks_routes) || !sp_run_goes_on(search, 0.98))
        return SP_OK;
    enum sp_status status = find(search, most_seconds(search), false, &routed, &bound);
    if (status == SP_OK && routed != NULL)
        status = take(search, routed);
    (void)sp_run_goes_on(search, 0.99); /* it may have ended early */
    /* What was proved is said of plans of one route. */
    if (status == SP_OK && search->front.count > 0 &&
        search->front.plans[0]->evaluation->interval_seconds > bound * (1 + ROUNDING))
        search->is_proved = false;
    return status;
}
