#include "search/joint/memory_peak.h"

#include <stdlib.h>

#include "base/sorted.h"

static enum sp_status whole_operators(struct sp_arena *arena, const struct sp_workload *workload,
                                      const struct sp_cluster *cluster, const struct sp_placement *placement,
                                      uint32_t stage, struct sp_alive_list *ret_list, struct sp_error *err)
{
    struct sp_evaluator *evaluator = sp_evaluator_create(arena, workload, cluster);
    uint32_t *nodes = SP_NEW_ARRAY(arena, workload->node_count, uint32_t), count = 0;
    for (uint32_t n = 0; nodes != NULL && n < workload->node_count; n++) {
        if (!workload->nodes[n].folded && placement->stage_of[n] == stage)
            nodes[count++] = n;
    }
    const struct sp_placed_stage placed = {placement, stage, count, nodes};
    return evaluator != NULL && nodes != NULL &&
                   sp_evaluator_alive(evaluator, arena, &placed, SP_ENTRY_FULLEST, ret_list)
               ? SP_OK
               : sp_fail_memory(err);
}

SP_ASCENDING(by_tensor, struct sp_alive, tensor)

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
    const struct sp_sharded_stage *sharded = plan->sharded == NULL ? NULL : &plan->sharded[stage];
    struct sp_alive_list list = {0};
    enum sp_status status = sharded == NULL || sharded->table == NULL
                                ? whole_operators(arena, workload, cluster, plan->placement, stage, &list, err)
                                : sp_intra_peak(arena, sharded->table, sharded->node_count, sharded->nodes,
                                                sharded->strategy_of, &list, err);
    if (status != SP_OK)
        return status;
    *ret_peak = (struct sp_memory_peak){.stage = stage,
                                        .node = list.node,
                                        .workspace_bytes = list.workspace_bytes,
                                        .tensors = SP_NEW_ARRAY(arena, list.count, struct sp_memory_peak_tensor)};
    if (ret_peak->tensors == NULL)
        return sp_fail_memory(err);
    if (list.count > 1)
        qsort(list.items, list.count, sizeof *list.items, by_tensor);
    for (uint32_t i = 0; i < list.count; i++) {
        const struct sp_alive *alive = &list.items[i];
        if (alive->bytes <= 0)
            continue;
        if (ret_peak->tensor_count == 0 || ret_peak->tensors[ret_peak->tensor_count - 1].tensor != alive->tensor)
            ret_peak->tensors[ret_peak->tensor_count++] = (struct sp_memory_peak_tensor){alive->tensor, 0};
        ret_peak->tensors[ret_peak->tensor_count - 1].bytes += alive->bytes;
    }
    if (ret_peak->tensor_count > 1)
        qsort(ret_peak->tensors, ret_peak->tensor_count, sizeof *ret_peak->tensors, by_bytes);
    for (uint32_t i = 0; i < ret_peak->tensor_count; i++)
        ret_peak->alive_bytes += ret_peak->tensors[i].bytes;
    return SP_OK;
}
