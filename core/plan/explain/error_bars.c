#include "plan/explain/error_bars.h"

#include <math.h>

/* Which end of the intervals is looked for. */
enum side { SIDE_LOW, SIDE_HIGH };

struct bars {
    const struct sp_workload *workload;
    const struct sp_cluster *cluster;
    const struct sp_search_result *result;
    const double *cut_seconds;  /* per node, or NULL */
    double *compute, *transfer; /* seconds of the side under way: per stage, per transfer */
};

/* What an estimate has to be multiplied by. */
static double factor_of(struct sp_device_residual residual, enum side side)
{
    return side == SIDE_LOW ? 1 / residual.high : 1 / residual.low;
}

static struct sp_device_residual wider(struct sp_device_residual a, struct sp_device_residual b)
{
    return (struct sp_device_residual){fmin(a.low, b.low), fmax(a.high, b.high)};
}

struct sp_device_residual sp_error_of_links(const struct sp_cluster *cluster, uint32_t device, bool is_measured)
{
    static const struct sp_device unknown = {.kind = SP_DEVICE_OF_NO_KIND};
    const struct sp_device *own = sp_cluster_device(cluster, device);
    return is_measured ? sp_roofline_residual(own, cluster, sp_device_collective_class(own))
                       : sp_device_residual(&unknown, SP_DEVICE_CLASS_COLLECTIVES);
}

struct sp_device_residual sp_error_of_node(const struct sp_workload *workload, const struct sp_cluster *cluster,
                                           uint32_t node, uint32_t device)
{
    const uint8_t *classes = workload->nodes[node].classes;
    if (classes == NULL)
        return (struct sp_device_residual){1, 1};
    return sp_roofline_residual(sp_cluster_device(cluster, device), cluster,
                                (enum sp_device_class)classes[workload->kind_of[device]]);
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

/* Whether all links inside a block are such that a library was measured on. */
static bool has_measured_links(const struct sp_strategy_mesh *mesh)
{
    bool all = true;
    for (uint32_t l = 0; l < mesh->links.level_count; l++)
        all = all && (mesh->links.levels[l].size < 2 || mesh->links.levels[l].forms != NULL);
    return all;
}

static double node_factor(const struct bars *bars, uint32_t node, uint32_t stage, enum side side)
{
    const uint32_t device = bars->result->placement.stage_device[stage];
    return factor_of(sp_error_of_node(bars->workload, bars->cluster, node, device), side);
}

static double cut_of(const struct bars *bars, uint32_t node)
{
    return bars->cut_seconds != NULL ? bars->cut_seconds[node] : 0;
}

/* The nodes of stages of one device, then what devices of a block do together. */
static void time_stages(struct bars *bars, enum side side)
{
    const struct sp_placement *placement = &bars->result->placement;
    const struct sp_sharded_stage *sharded = bars->result->sharded;
    for (uint32_t s = 0; s < placement->stage_count; s++)
        bars->compute[s] = 0;
    for (uint32_t n = 0; n < bars->workload->node_count; n++) {
        const struct sp_work_node *work = &bars->workload->nodes[n];
        const uint32_t stage = placement->stage_of[n];
        if (!work->folded && (sharded == NULL || sharded[stage].table == NULL))
            bars->compute[stage] +=
                (work->seconds[bars->workload->kind_of[placement->stage_device[stage]]] + cut_of(bars, n)) *
                node_factor(bars, n, stage, side);
    }
    for (uint32_t s = 0; s < placement->stage_count && sharded != NULL; s++) {
        const struct sp_sharded_stage *stage = &sharded[s];
        if (stage->table == NULL)
            continue;
        for (uint32_t i = 0; i < stage->node_count; i++) {
            const struct sp_strategy *strategy =
                &sp_strategy_of(stage->table, stage->nodes[i])->items[stage->strategy_of[i]];
            bars->compute[s] += (strategy->compute_seconds + cut_of(bars, stage->nodes[i])) *
                                node_factor(bars, stage->nodes[i], s, side);
        }
        const bool is_measured = has_measured_links(sp_strategy_table_mesh(stage->table));
        bars->compute[s] += bars->result->evaluation->stages[s].collective_seconds *
                            factor_of(sp_error_of_links(bars->cluster, placement->stage_device[s], is_measured), side);
    }
}

static void time_transfers(struct bars *bars, enum side side)
{
    const struct sp_evaluation *evaluation = bars->result->evaluation;
    for (uint32_t t = 0; t < evaluation->transfer_count; t++) {
        const struct sp_tensor_transfer *transfer = &evaluation->transfers[t];
        const uint32_t from = evaluation->stages[transfer->from_stage].device,
                       to = evaluation->stages[transfer->to_stage].device;
        const bool is_measured = from != to && sp_cluster_link(bars->cluster, from, to)->forms != NULL;
        const struct sp_device_residual residual = wider(sp_error_of_links(bars->cluster, from, is_measured),
                                                         sp_error_of_links(bars->cluster, to, is_measured));
        const bool is_stated = bars->workload->tensors[transfer->tensor].has_transfer_seconds;
        bars->transfer[t] = transfer->seconds * (is_stated ? 1 : factor_of(residual, side));
    }
}

static bool retime(struct bars *bars, struct sp_arena *arena, enum side side, double *ret_latency, double *ret_interval)
{
    const struct sp_other_times times = {bars->compute, bars->transfer};
    time_stages(bars, side);
    time_transfers(bars, side);
    return sp_evaluation_retime(arena, bars->result->evaluation, &bars->result->placement, &times, ret_latency,
                                ret_interval);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Of the fullest device. */
static void memory_bars(const struct bars *bars, struct sp_error_bar *ret_memory, struct sp_error_bar *ret_process)
{
    const bool is_stated = bars->workload->node_count > 0 && bars->workload->nodes[0].node == NULL;
    const struct sp_evaluation *evaluation = bars->result->evaluation;
    const struct sp_stage_cost *fullest = &evaluation->stages[0];
    const struct sp_routed *routed = bars->result->routes;
    for (uint32_t s = 1; s < evaluation->stage_count; s++)
        fullest = evaluation->stages[s].total_bytes > fullest->total_bytes ? &evaluation->stages[s] : fullest;
    for (uint32_t h = 0; routed != NULL && h < routed->holder_count; h++)
        fullest = routed->holders[h].cost->total_bytes > fullest->total_bytes ? routed->holders[h].cost : fullest;
    const struct sp_device *device = sp_cluster_device(bars->cluster, fullest->device);
    const struct sp_device_residual residual =
        is_stated ? (struct sp_device_residual){1, 1} : sp_device_residual(device, SP_DEVICE_CLASS_MEMORY);
    const double known = fullest->weights_bytes + fullest->cache_bytes;
    const struct sp_error_bar rest = sp_error_bar_of(fullest->total_bytes - known, residual);
    *ret_memory = (struct sp_error_bar){fullest->total_bytes, known + rest.low, known + rest.high};
    *ret_process = sp_error_bar_of(sp_device_context_bytes(device), residual);
}

bool sp_error_bars(struct sp_arena *arena, const struct sp_workload *workload, const struct sp_cluster *cluster,
                   const struct sp_search_result *result, const double *cut_seconds, struct sp_error_bars *ret_bars)
{
    const struct sp_arena_mark mark = sp_arena_mark(arena);
    const struct sp_evaluation *evaluation = result->evaluation;
    struct bars bars = {workload,
                        cluster,
                        result,
                        cut_seconds,
                        SP_NEW_ARRAY(arena, evaluation->stage_count, double),
                        SP_NEW_ARRAY(arena, evaluation->transfer_count, double)};
    struct sp_error_bar latency = {.value = evaluation->latency_seconds},
                        interval = {.value = evaluation->interval_seconds};
    const bool done = bars.compute != NULL && bars.transfer != NULL &&
                      retime(&bars, arena, SIDE_LOW, &latency.low, &interval.low) &&
                      retime(&bars, arena, SIDE_HIGH, &latency.high, &interval.high);
    if (done && result->routes != NULL) { /* of all routes as of the first one */
        const struct sp_evaluation *route = result->routes->routes[0].evaluation;
        latency.low *= latency.value / route->latency_seconds;
        latency.high *= latency.value / route->latency_seconds;
        interval.low *= interval.value / route->interval_seconds;
        interval.high *= interval.value / route->interval_seconds;
    }
    if (done) {
        const double runs = evaluation->micro_batches > 1 ? evaluation->micro_batches : 1;
        interval = (struct sp_error_bar){runs * interval.value, runs * interval.low, runs * interval.high};
        *ret_bars =
            (struct sp_error_bars){.latency_seconds = latency,
                                   .interval_seconds = interval,
                                   .throughput_per_second = {1 / interval.value, 1 / interval.high, 1 / interval.low}};
        memory_bars(&bars, &ret_bars->memory_bytes, &ret_bars->process_bytes);
    }
    sp_arena_rewind(arena, mark);
    return done;
}
