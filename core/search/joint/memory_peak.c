#include "search/joint/memory_peak.h"

#include <stdlib.h>

/* The nodes of a stage that run, ascending, and how many operands they have. NULL without memory. */
static const uint32_t *running_nodes(struct sp_arena *arena, const struct sp_workload *workload,
                                     const struct sp_placement *placement, uint32_t stage, uint32_t *ret_count,
                                     size_t *ret_operands)
{
    uint32_t *nodes = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    *ret_count = 0;
    *ret_operands = 0;
    for (uint32_t n = 0; nodes != NULL && n < workload->node_count; n++) {
        if (workload->nodes[n].folded || placement->stage_of[n] != stage)
            continue;
        nodes[(*ret_count)++] = n;
        *ret_operands += workload->nodes[n].input_count + workload->nodes[n].output_count;
    }
    return nodes;
}

static enum sp_status whole_operators(struct sp_arena *arena, const struct sp_workload *workload,
                                      const struct sp_cluster *cluster, const struct sp_placement *placement,
                                      struct sp_memory_peak *peak, struct sp_error *err)
{
    struct sp_evaluator *evaluator = sp_evaluator_create(arena, workload, cluster);
    struct sp_stage_cost cost;
    uint32_t node_count, fullest = 0;
    size_t operands;
    const uint32_t *nodes = running_nodes(arena, workload, placement, peak->stage, &node_count, &operands);
    struct sp_live_bytes *live = SP_NEW_ARRAY(arena, node_count, struct sp_live_bytes);
    uint32_t *alive = SP_NEW_ARRAY(arena, operands, uint32_t);
    peak->tensors = SP_NEW_ARRAY(arena, operands, struct sp_memory_peak_tensor);
    if (evaluator == NULL || nodes == NULL || live == NULL || alive == NULL || peak->tensors == NULL)
        return sp_fail_memory(err);
    if (node_count == 0)
        return SP_OK;
    sp_evaluator_stage(evaluator, placement, peak->stage, nodes, node_count, &cost, live);
    for (uint32_t i = 1; i < node_count; i++)
        fullest = live[i].during > live[fullest].during ? i : fullest;
    peak->node = nodes[fullest];
    peak->workspace_bytes = workload->nodes[peak->node].workspace_bytes;
    const uint32_t count = sp_evaluator_alive(evaluator, placement, peak->stage, nodes, node_count, fullest, alive);
    for (uint32_t i = 0; i < count; i++) {
        if (workload->tensors[alive[i]].bytes > 0)
            peak->tensors[peak->tensor_count++] =
                (struct sp_memory_peak_tensor){alive[i], workload->tensors[alive[i]].bytes};
    }
    return SP_OK;
}

static int by_tensor(const void *a, const void *b)
{
    const struct sp_intra_alive *x = a, *y = b;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static enum sp_status split_operators(struct sp_arena *arena, const struct sp_sharded_stage *sharded,
                                      struct sp_memory_peak *peak, struct sp_error *err)
{
    struct sp_intra_peak fullest;
    enum sp_status status =
        sp_intra_peak(arena, sharded->table, sharded->node_count, sharded->nodes, sharded->strategy_of, &fullest, err);
    if (status != SP_OK)
        return status;
    peak->node = fullest.node;
    peak->workspace_bytes = fullest.workspace_bytes;
    peak->tensors = SP_NEW_ARRAY(arena, fullest.count, struct sp_memory_peak_tensor);
    if (peak->tensors == NULL)
        return sp_fail_memory(err);
    if (fullest.count > 1)
        qsort(fullest.alive, fullest.count, sizeof *fullest.alive, by_tensor);
    for (uint32_t i = 0; i < fullest.count; i++) {
        const struct sp_intra_alive *alive = &fullest.alive[i];
        if (alive->bytes <= 0)
            continue;
        if (peak->tensor_count == 0 || peak->tensors[peak->tensor_count - 1].tensor != alive->tensor)
            peak->tensors[peak->tensor_count++] = (struct sp_memory_peak_tensor){alive->tensor, 0};
        peak->tensors[peak->tensor_count - 1].bytes += alive->bytes;
    }
    return SP_OK;
}

static int by_bytes(const void *a, const void *b)
{
    const struct sp_memory_peak_tensor *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

enum sp_status sp_memory_peak_of_stage(struct sp_arena *arena, const struct sp_workload *workload,
                                       const struct sp_cluster *cluster, const struct sp_evaluated_plan *plan,
                                       uint32_t stage, struct sp_memory_peak *ret_peak, struct sp_error *err)
{
    *ret_peak = (struct sp_memory_peak){.stage = stage, .node = SP_NO_WORK};
    enum sp_status status = plan->sharded == NULL || plan->sharded[stage].table == NULL
                                ? whole_operators(arena, workload, cluster, plan->placement, ret_peak, err)
                                : split_operators(arena, &plan->sharded[stage], ret_peak, err);
    if (status != SP_OK)
        return status;
    if (ret_peak->tensor_count > 1)
        qsort(ret_peak->tensors, ret_peak->tensor_count, sizeof *ret_peak->tensors, by_bytes);
    for (uint32_t i = 0; i < ret_peak->tensor_count; i++)
        ret_peak->alive_bytes += ret_peak->tensors[i].bytes;
    return SP_OK;
}
