#include <string.h>

#include "plan/internal.h"

struct sp_plan_gap sp_plan_gap(const struct sp_plan *plan)
{
    bool latency = plan->objective == SP_OBJECTIVE_LATENCY;
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    struct sp_plan_gap gap = {
        .value_seconds = latency ? evaluation->latency_seconds : sp_evaluation_interval(evaluation),
        .bound_seconds = latency ? plan->result->bounds.latency_seconds
                                 : sp_micro_interval(evaluation->micro_batches, plan->result->bounds.interval_seconds),
    };
    /* Value and bound add the same numbers in another order, so the bound may come out a rounding error higher. */
    if (gap.value_seconds > gap.bound_seconds)
        gap.gap = (gap.value_seconds - gap.bound_seconds) / gap.value_seconds;
    const struct sp_front_plan *best = plan->result->best;
    gap.best_seconds = best == NULL ? gap.value_seconds : latency ? best->latency_seconds : best->interval_seconds;
    return gap;
}

uint32_t *sp_plan_device_stages(const struct sp_plan *plan)
{
    const struct sp_placement *placement = &plan->result->placement;
    uint32_t *stages = SP_NEW_ARRAY(plan->arena, plan->cluster->device_count, uint32_t);
    if (stages == NULL)
        return NULL;
    for (uint32_t d = 0; d < plan->cluster->device_count; d++)
        stages[d] = SP_NO_STAGE;
    for (uint32_t s = placement->stage_count; s-- > 0;) {
        for (uint32_t i = 0; i < sp_plan_stage_devices(plan, s); i++)
            stages[placement->stage_device[s] + i] = s;
    }
    return stages;
}

uint32_t *sp_plan_all_device_stages(const struct sp_plan *plan)
{
    const struct sp_placement *placement = &plan->result->placement;
    uint32_t *stages = sp_plan_device_stages(plan);
    for (uint32_t copy = 1; stages != NULL && copy < sp_placement_copies(placement); copy++) {
        for (uint32_t s = 0; s < placement->stage_count; s++) {
            for (uint32_t i = 0; i < sp_plan_stage_devices(plan, s); i++)
                stages[sp_placement_device(placement, s, copy) + i] = s;
        }
    }
    return stages;
}

double sp_plan_sent_bytes(const struct sp_plan *plan)
{
    return sp_plan_runs(plan) * plan->result->evaluation->communication_bytes;
}

double sp_plan_price(const struct sp_plan *plan)
{
    const uint32_t *stages = sp_plan_all_device_stages(plan);
    double price = 0;
    for (uint32_t d = 0; stages != NULL && d < plan->cluster->device_count; d++) {
        const double of_device = sp_cluster_price(plan->cluster, d);
        const bool is_used = stages[d] != SP_NO_STAGE || sp_routed_holder(plan->result->routes, d) != NULL;
        if (is_used && of_device <= 0)
            return 0;
        price += is_used ? of_device : 0;
    }
    return price;
}

const struct sp_stage_cost *sp_plan_device_cost(const struct sp_plan *plan, uint32_t device, uint32_t stage,
                                                double *ret_busy_seconds)
{
    static const struct sp_stage_cost unused;
    const struct sp_route_holder *holder = sp_routed_holder(plan->result->routes, device);
    if (holder == NULL && stage == SP_NO_STAGE) {
        *ret_busy_seconds = 0;
        return &unused;
    }
    const struct sp_stage_cost *cost =
        holder != NULL ? holder->cost : sp_evaluation_on(plan->result->evaluation, stage, device);
    *ret_busy_seconds = holder != NULL ? sp_route_holder_interval(holder) : cost->interval_seconds;
    return cost;
}

uint32_t sp_plan_origin(const struct sp_plan *plan, uint32_t tensor)
{
    const struct sp_work_tensor *t = &plan->workload->tensors[tensor];
    if (t->kind != SP_WORK_ACTIVATION || t->producer == SP_NO_WORK)
        return SP_NO_STAGE;
    return plan->result->placement.stage_of[t->producer];
}

uint32_t sp_plan_last_stage(const struct sp_plan *plan)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    uint32_t last = 0;
    for (uint32_t s = 1; s < evaluation->stage_count; s++) {
        const struct sp_stage_cost *a = &evaluation->stages[s], *b = &evaluation->stages[last];
        if (a->start_seconds + a->compute_seconds > b->start_seconds + b->compute_seconds)
            last = s;
    }
    return last;
}

bool sp_borders_init(const struct sp_plan *plan, struct sp_borders *borders)
{
    uint32_t count = plan->result->placement.stage_count;
    borders->first = SP_NEW_ARRAY(plan->arena, count, uint32_t);
    borders->last = SP_NEW_ARRAY(plan->arena, count, uint32_t);
    if (borders->first == NULL || borders->last == NULL)
        return false;
    for (uint32_t s = 0; s < count; s++)
        borders->first[s] = borders->last[s] = SP_NO_WORK;
    for (uint32_t n = 0; n < plan->workload->node_count; n++) {
        uint32_t s = plan->result->placement.stage_of[n];
        if (plan->workload->nodes[n].folded)
            continue;
        if (borders->first[s] == SP_NO_WORK)
            borders->first[s] = n;
        borders->last[s] = n;
    }
    return true;
}

const struct sp_sharded_stage *sp_plan_sharded(const struct sp_plan *plan, uint32_t stage)
{
    const struct sp_sharded_stage *sharded = plan->result->sharded;
    return sharded != NULL && sharded[stage].table != NULL ? &sharded[stage] : NULL;
}

uint32_t sp_plan_stage_devices(const struct sp_plan *plan, uint32_t stage)
{
    const struct sp_placement *placement = &plan->result->placement;
    return sp_placement_size(placement, stage) * sp_placement_replicas(placement, stage);
}
