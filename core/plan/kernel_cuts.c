/* Which nodes take more because the plan cuts their kernels: what the evaluation counts of stages, node by node. */
#include "plan/internal.h"
#include "plan/stage_strategies.h"

static const struct sp_work_tensor *tensor_at(const struct sp_plan *plan, uint32_t tensor)
{
    return &plan->workload->tensors[tensor];
}

static double cut_at(const struct sp_plan *plan, uint32_t device, uint32_t tensor, bool is_behind)
{
    const enum sp_kernel_class class = sp_work_cut_class(plan->workload, plan->workload->kind_of[device], tensor);
    return sp_roofline_cut_seconds(sp_cluster_device(plan->cluster, device), plan->cluster, class,
                                   tensor_at(plan, tensor)->bytes, is_behind);
}

static uint32_t stage_of(const struct sp_plan *plan, uint32_t node)
{
    return plan->result->placement.stage_of[node];
}

/* Of the users in a stage the first one starts a kernel and reads what comes. */
static bool is_first_user(const struct sp_plan *plan, uint32_t tensor, uint32_t node)
{
    const struct sp_work_tensor *work = tensor_at(plan, tensor);
    uint32_t i = 0;
    while (i < work->consumer_count && stage_of(plan, work->consumers[i]) != stage_of(plan, node))
        i++;
    return i < work->consumer_count && work->consumers[i] == node;
}

/* Whether the node's kernel goes on in another stage with what it makes. */
static bool goes_on_elsewhere(const struct sp_plan *plan, uint32_t tensor, uint32_t node, uint32_t kind)
{
    const struct sp_work_tensor *work = tensor_at(plan, tensor);
    for (uint32_t i = 0; i < work->consumer_count; i++)
        if (stage_of(plan, work->consumers[i]) != stage_of(plan, node) &&
            sp_work_is_inside(plan->workload, kind, tensor, work->consumers[i]))
            return true;
    return false;
}

/* As sp_evaluator_stage() has it: a node of a stage of one device. */
static double whole_seconds(const struct sp_plan *plan, uint32_t n)
{
    const struct sp_work_node *node = &plan->workload->nodes[n];
    const uint32_t device = plan->result->placement.stage_device[stage_of(plan, n)];
    const uint32_t kind = plan->workload->kind_of[device];
    double seconds = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const uint32_t tensor = node->inputs[i], producer = tensor_at(plan, tensor)->producer;
        if (sp_work_is_inside(plan->workload, kind, tensor, n) && stage_of(plan, producer) != stage_of(plan, n) &&
            is_first_user(plan, tensor, n))
            seconds += cut_at(plan, device, tensor, true);
    }
    for (uint32_t o = 0; o < node->output_count; o++)
        if (goes_on_elsewhere(plan, node->outputs[o], n, kind))
            seconds += cut_at(plan, device, node->outputs[o], false);
    return seconds;
}

enum sp_status sp_plan_find_cuts(struct sp_plan *plan, struct sp_error *err)
{
    const uint32_t count = plan->workload->node_count;
    double *seconds = SP_NEW_ARRAY(plan->arena, count, double), *of_stage = SP_NEW_ARRAY(plan->arena, count, double);
    enum sp_status status = SP_OK;
    if (seconds == NULL || of_stage == NULL)
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < count; n++) {
        const bool is_whole = sp_plan_sharded(plan, stage_of(plan, n)) == NULL;
        seconds[n] = is_whole && !plan->workload->nodes[n].folded ? whole_seconds(plan, n) : 0;
    }
    for (uint32_t s = 0; s < plan->result->placement.stage_count && status == SP_OK; s++) {
        const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, s);
        if (sharded == NULL)
            continue;
        status = sp_intra_cuts(plan->arena, sharded->table, sharded->node_count, sharded->nodes, sharded->strategy_of,
                               of_stage, err);
        for (uint32_t i = 0; i < sharded->node_count && status == SP_OK; i++)
            seconds[sharded->nodes[i]] = of_stage[i];
    }
    plan->cut_seconds = seconds;
    return status;
}
