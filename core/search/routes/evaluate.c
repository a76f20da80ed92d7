/* Routes as the placements that they are, and what devices do for all of them together. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/routes/routed.h"

#define SHARES_ROUNDING 1e-6

static enum sp_status misfit(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_REQUEST, "OTHER_PLAN",
                   "The plan's routes do not fit its model and cluster: the file was edited, or another version of "
                   "Shardplan made it. Plan again.");
}

/* Devices are distinct, intervals follow one another and have a node each, and a device has the same one on all routes. */
static bool is_sound(const struct sp_route *route, uint32_t devices, uint32_t nodes, uint32_t *first, uint32_t *end)
{
    uint32_t begin = 0;
    bool ok = route->share > 0 && route->count > 0 && route->count <= devices;
    for (uint32_t s = 0; ok && s < route->count; s++) {
        const uint32_t d = route->devices[s];
        ok = d < devices && route->ends[s] > begin && route->ends[s] <= nodes &&
             (end[d] == 0 || (first[d] == begin && end[d] == route->ends[s]));
        if (!ok)
            break;
        first[d] = begin;
        end[d] = begin = route->ends[s];
    }
    return ok && begin == nodes;
}

static enum sp_status check(struct sp_arena *arena, uint32_t devices, uint32_t nodes, uint32_t route_count,
                            const struct sp_route *routes, struct sp_error *err)
{
    uint32_t *first = SP_NEW_ARRAY(arena, devices, uint32_t), *end = SP_NEW_ARRAY(arena, devices, uint32_t);
    double sum = 0;
    bool ok = route_count > 0 && route_count <= SP_ROUTED_ROUTES;
    if (first == NULL || end == NULL)
        return sp_fail_memory(err);
    for (uint32_t r = 0; ok && r < route_count; r++) {
        ok = is_sound(&routes[r], devices, nodes, first, end);
        sum += routes[r].share;
    }
    return ok && fabs(sum - 1) < SHARES_ROUNDING ? SP_OK : misfit(err);
}

static enum sp_status evaluate_route(struct sp_arena *arena, const struct sp_workload *workload,
                                     const struct sp_cluster *cluster, struct sp_route *route, struct sp_error *err)
{
    uint32_t *stage_of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    uint32_t *devices = SP_NEW_ARRAY(arena, route->count, uint32_t);
    if (stage_of == NULL || devices == NULL)
        return sp_fail_memory(err);
    for (uint32_t s = 0, n = 0; s < route->count; s++) {
        devices[s] = route->devices[s];
        for (; n < route->ends[s]; n++)
            stage_of[n] = s;
    }
    route->placement =
        (struct sp_placement){.stage_count = route->count, .stage_of = stage_of, .stage_device = devices};
    struct sp_cluster alone = *cluster; /* several routes of one holder would stream the same weights */
    alone.host_of = NULL;
    return sp_evaluate(arena, workload, &alone, &route->placement, &route->evaluation, err);
}

double sp_route_holder_interval(const struct sp_route_holder *holder)
{
    return fmax(holder->busy_seconds, fmax(holder->send_seconds, holder->receive_seconds));
}

const struct sp_route_holder *sp_routed_holder(const struct sp_routed *routed, uint32_t device)
{
    for (uint32_t h = 0; routed != NULL && h < routed->holder_count; h++)
        if (routed->holders[h].device == device)
            return &routed->holders[h];
    return NULL;
}

/* What stage `s` of a route adds to its device. */
static void add_stage(struct sp_route_holder *holder, const struct sp_route *route, uint32_t s)
{
    const struct sp_stage_cost *cost = &route->evaluation->stages[s];
    holder->device = route->devices[s];
    holder->first = s == 0 ? 0 : route->ends[s - 1];
    holder->end = route->ends[s];
    holder->share += route->share;
    holder->compute_seconds = fmax(holder->compute_seconds, cost->compute_seconds);
    holder->busy_seconds += route->share * cost->compute_seconds;
    holder->send_seconds += route->share * cost->send_seconds;
    holder->receive_seconds += route->share * cost->receive_seconds;
    if (holder->cost == NULL || cost->total_bytes > holder->cost->total_bytes)
        holder->cost = cost;
}

static int by_share(const void *a, const void *b)
{
    const struct sp_route *x = a, *y = b;
    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    for (uint32_t s = 0; s < x->count && s < y->count; s++)
        if (x->devices[s] != y->devices[s])
            return x->devices[s] < y->devices[s] ? -1 : 1;
    return 0;
}

static void sum_up(const struct sp_cluster *cluster, struct sp_routed *routed, struct sp_route_holder *by_device)
{
    routed->worst_excess_bytes = -INFINITY;
    for (uint32_t r = 0; r < routed->route_count; r++) {
        const struct sp_route *route = &routed->routes[r];
        routed->latency_seconds += route->share * route->evaluation->latency_seconds;
        routed->communication_bytes += route->share * route->evaluation->communication_bytes;
        for (uint32_t s = 0; s < route->count; s++)
            add_stage(&by_device[route->devices[s]], route, s);
    }
    for (uint32_t d = 0; d < cluster->device_count; d++) {
        if (by_device[d].cost == NULL)
            continue;
        const uint32_t place = routed->holder_count++;
        by_device[place] = by_device[d];
        const struct sp_route_holder *holder = &by_device[place];
        if (sp_route_holder_interval(holder) > routed->interval_seconds) {
            routed->interval_seconds = sp_route_holder_interval(holder);
            routed->bottleneck = place;
        }
        routed->worst_excess_bytes =
            fmax(routed->worst_excess_bytes, holder->cost->total_bytes - holder->cost->capacity_bytes);
    }
    routed->holders = by_device;
}

/* The evaluation of the first route, in which what is of the plan is that of all routes. */
static bool evaluate_all(struct sp_arena *arena, struct sp_routed *routed)
{
    const struct sp_route *route = &routed->routes[0];
    struct sp_evaluation *all = SP_NEW(arena, struct sp_evaluation);
    struct sp_stage_cost *stages = SP_NEW_ARRAY(arena, route->count, struct sp_stage_cost);
    if (all == NULL || stages == NULL)
        return false;
    *all = *route->evaluation;
    memcpy(stages, all->stages, route->count * sizeof *stages);
    all->stages = stages;
    all->device_count = routed->holder_count;
    all->latency_seconds = routed->latency_seconds;
    all->interval_seconds = routed->interval_seconds;
    all->communication_bytes = routed->communication_bytes;
    all->worst_excess_bytes = routed->worst_excess_bytes;
    for (uint32_t s = 0; s < route->count; s++)
        stages[s].interval_seconds = sp_route_holder_interval(sp_routed_holder(routed, stages[s].device));
    all->bottleneck_stage = 0;
    for (uint32_t s = 1; s < route->count; s++)
        if (stages[s].interval_seconds > stages[all->bottleneck_stage].interval_seconds)
            all->bottleneck_stage = s;
    routed->evaluation = all;
    return true;
}

enum sp_status sp_routed_evaluate(struct sp_arena *arena, const struct sp_workload *workload,
                                  const struct sp_cluster *cluster, uint32_t route_count, struct sp_route *routes,
                                  struct sp_routed **ret_routed, struct sp_error *err)
{
    struct sp_routed *routed = SP_NEW(arena, struct sp_routed);
    struct sp_route_holder *holders = SP_NEW_ARRAY(arena, cluster->device_count, struct sp_route_holder);
    if (routed == NULL || holders == NULL)
        return sp_fail_memory(err);
    enum sp_status status = check(arena, cluster->device_count, workload->node_count, route_count, routes, err);
    for (uint32_t r = 0; r < route_count && status == SP_OK; r++)
        status = evaluate_route(arena, workload, cluster, &routes[r], err);
    if (status != SP_OK)
        return status;
    qsort(routes, route_count, sizeof *routes, by_share);
    routed->route_count = route_count;
    routed->routes = routes;
    sum_up(cluster, routed, holders);
    if (!evaluate_all(arena, routed))
        return sp_fail_memory(err);
    *ret_routed = routed;
    return SP_OK;
}
