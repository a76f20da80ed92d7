/*
 * What a placement on blocks of devices costs. Stages of one device are evaluated as evaluate.h does; what operators
 * split over a block cost comes from intra.h; transfers between blocks from the reshard planner.
 */
#include "search/joint/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "base/rows.h"

struct sp_joint_evaluator {
    struct sp_arena *arena;
    const struct sp_workload *workload;
    const struct sp_cluster *cluster;
    struct sp_evaluator *whole; /* stages of one device */
    uint32_t *seen;             /* per stage: tensor + 1 */
    struct sp_rows nodes;       /* by stage */
    uint32_t *strategy_at;      /* per node: in its stage's table */
};

static bool is_sent(const struct sp_workload *workload, const struct sp_work_tensor *tensor)
{
    return tensor->kind == SP_WORK_ACTIVATION && tensor->producer != SP_NO_WORK &&
           !workload->nodes[tensor->producer].folded;
}

struct sp_joint_evaluator *sp_joint_evaluator_create(struct sp_arena *arena, const struct sp_workload *workload,
                                                     const struct sp_cluster *cluster)
{
    struct sp_joint_evaluator *evaluator = SP_NEW(arena, struct sp_joint_evaluator);
    if (evaluator == NULL)
        return NULL;
    evaluator->arena = arena;
    evaluator->workload = workload;
    evaluator->cluster = cluster;
    evaluator->whole = sp_evaluator_create(arena, workload, cluster);
    evaluator->seen = SP_NEW_ARRAY(arena, cluster->device_count, uint32_t);
    evaluator->nodes.items = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    evaluator->nodes.start = SP_NEW_ARRAY(arena, (size_t)cluster->device_count + 2, uint32_t);
    evaluator->strategy_at = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    if (evaluator->whole == NULL || evaluator->seen == NULL || evaluator->nodes.items == NULL ||
        evaluator->nodes.start == NULL || evaluator->strategy_at == NULL)
        return NULL;
    return evaluator;
}

/* ---- what is where ---------------------------------------------------------------------------------------------- */

static void note_strategies(struct sp_joint_evaluator *evaluator, const struct sp_placement *placement,
                            const struct sp_sharded_stage *sharded)
{
    memset(evaluator->strategy_at, 0, evaluator->workload->node_count * sizeof *evaluator->strategy_at);
    for (uint32_t s = 0; sharded != NULL && s < placement->stage_count; s++) {
        for (uint32_t i = 0; sharded[s].table != NULL && i < sharded[s].node_count; i++)
            evaluator->strategy_at[sharded[s].nodes[i]] = sharded[s].strategy_of[i];
    }
}

uint32_t sp_joint_layout(const struct sp_strategy_table *table, uint32_t node, uint32_t strategy, uint32_t tensor)
{
    const struct sp_strategies *strategies = table == NULL ? NULL : sp_strategy_of(table, node);
    const uint32_t operand = strategies == NULL ? UINT32_MAX : sp_strategy_operand(table, node, tensor);
    return operand == UINT32_MAX ? 0 : strategies->items[strategy].layouts[operand];
}

/* One stage's side of a transfer: where, in which layout, how much of it one device has. */
struct side {
    struct sp_strategy_table *table; /* NULL: one device */
    uint32_t first_device, layout;
    double bytes;
};

static struct side side_of(const struct sp_joint_evaluator *evaluator, const struct sp_placement *placement,
                           const struct sp_sharded_stage *sharded, uint32_t node, uint32_t tensor)
{
    const uint32_t stage = placement->stage_of[node];
    struct side side = {.first_device = placement->stage_device[stage],
                        .bytes = evaluator->workload->tensors[tensor].bytes};
    if (sharded == NULL || sharded[stage].table == NULL)
        return side;
    side.table = sharded[stage].table;
    side.layout = sp_joint_layout(side.table, node, evaluator->strategy_at[node], tensor);
    side.bytes = sp_strategy_local_bytes(side.table, tensor, side.layout);
    return side;
}

/* ---- transfers -------------------------------------------------------------------------------------------------- */

static enum sp_status sharding_of(struct sp_arena *arena, const struct side *side, uint32_t rank,
                                  const struct sp_sharding **ret_sharding, struct sp_error *err)
{
    if (side->table != NULL)
        return sp_strategy_sharding(side->table, arena, rank, side->layout, side->first_device, ret_sharding, err);
    struct sp_sharding *single = SP_NEW(arena, struct sp_sharding);
    if (single == NULL)
        return sp_fail_memory(err);
    single->kind = SP_SHARDING_SINGLE;
    single->device = side->first_device;
    *ret_sharding = single;
    return SP_OK;
}

static bool known_shape(const struct sp_value *value, int64_t *ret_shape)
{
    if (value == NULL || !value->type.shape.has_rank || value->type.shape.rank > SP_MAX_RANK)
        return false;
    for (uint32_t a = 0; a < value->type.shape.rank; a++) {
        if (value->type.shape.dims[a].kind != SP_DIM_KNOWN)
            return false;
        ret_shape[a] = value->type.shape.dims[a].value;
    }
    return true;
}

/* Seconds and bytes of bringing a tensor from one block to another. */
static enum sp_status cost_transfer(struct sp_joint_evaluator *evaluator, uint32_t tensor, const struct side *from,
                                    const struct side *to, struct sp_tensor_transfer *transfer, struct sp_error *err)
{
    const struct sp_work_tensor *t = &evaluator->workload->tensors[tensor];
    const struct sp_links links = sp_cluster_links(evaluator->cluster);
    struct sp_arena_mark mark = sp_arena_mark(evaluator->arena);
    int64_t shape[SP_MAX_RANK];
    transfer->bytes = t->bytes;
    transfer->seconds = sp_work_transfer_seconds(evaluator->cluster, t, from->first_device, to->first_device);
    if ((from->table == NULL && to->table == NULL) || !known_shape(t->value, shape))
        return SP_OK;
    const uint32_t rank = t->value->type.shape.rank;
    struct sp_reshard_request request = {.links = &links,
                                         .rank = rank,
                                         .shape = shape,
                                         .dtype = t->value->type.dtype,
                                         .device_count = evaluator->cluster->device_count,
                                         .counts_transfers = true};
    struct sp_reshard *reshard = NULL;
    enum sp_status status = sharding_of(evaluator->arena, from, rank, &request.from, err);
    if (status == SP_OK)
        status = sharding_of(evaluator->arena, to, rank, &request.to, err);
    if (status == SP_OK)
        status = sp_reshard_plan(evaluator->arena, &request, &reshard, err);
    if (status == SP_OK) {
        transfer->bytes = reshard->total_bytes;
        transfer->seconds = reshard->seconds;
    }
    sp_arena_rewind(evaluator->arena, mark);
    return status;
}

/* Counts what is sent, and with `evaluation` notes it and what it costs at both ends. */
static enum sp_status walk_transfers(struct sp_joint_evaluator *evaluator, const struct sp_placement *placement,
                                     const struct sp_sharded_stage *sharded, struct sp_evaluation *evaluation,
                                     uint32_t *ret_count, struct sp_error *err)
{
    const struct sp_workload *workload = evaluator->workload;
    uint32_t count = 0;
    memset(evaluator->seen, 0, placement->stage_count * sizeof *evaluator->seen);
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        if (!is_sent(workload, tensor))
            continue;
        const uint32_t from = placement->stage_of[tensor->producer];
        /* Consumers ascend, so the first one that is met in a stage is the first to use the tensor there. */
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            const uint32_t to = placement->stage_of[tensor->consumers[i]];
            if (to == from || evaluator->seen[to] == t + 1)
                continue;
            if (to < from)
                return sp_fail(err, SP_ERR_INTERNAL, "PLACEMENT_ORDER",
                               "A placement sends tensor %u from stage %u back to stage %u.", t, from, to);
            evaluator->seen[to] = t + 1;
            if (evaluation != NULL) {
                const struct side source = side_of(evaluator, placement, sharded, tensor->producer, t);
                const struct side target = side_of(evaluator, placement, sharded, tensor->consumers[i], t);
                struct sp_tensor_transfer *transfer = &evaluation->transfers[count];
                *transfer = (struct sp_tensor_transfer){.tensor = t, .from_stage = from, .to_stage = to};
                enum sp_status status = cost_transfer(evaluator, t, &source, &target, transfer, err);
                if (status != SP_OK)
                    return status;
                evaluation->communication_bytes += transfer->bytes;
                evaluation->stages[from].send_seconds += transfer->seconds;
                evaluation->stages[to].receive_seconds += transfer->seconds;
                evaluation->stages[from].communication_bytes += 2 * source.bytes;
                evaluation->stages[to].communication_bytes += 2 * target.bytes;
            }
            count++;
        }
    }
    *ret_count = count;
    return SP_OK;
}

static int by_tensor_and_stage(const void *a, const void *b)
{
    const struct sp_tensor_transfer *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    return (x->to_stage > y->to_stage) - (x->to_stage < y->to_stage);
}

/* ---- stages ----------------------------------------------------------------------------------------------------- */

/* A block's own figures; what crosses its border is added by the transfers. */
static enum sp_status evaluate_block(struct sp_joint_evaluator *evaluator, struct sp_sharded_stage *sharded,
                                     struct sp_stage_cost *cost, struct sp_error *err)
{
    if (sharded->intra == NULL) {
        struct sp_intra_result *intra;
        enum sp_status status = sp_intra_evaluate(evaluator->arena, sharded->table, sharded->node_count, sharded->nodes,
                                                  sharded->strategy_of, &intra, err);
        if (status != SP_OK)
            return status;
        sharded->intra = intra;
    }
    const struct sp_intra_result *intra = sharded->intra;
    for (uint32_t i = 0; i < sharded->node_count; i++)
        cost->flops += sp_strategy_of(sharded->table, sharded->nodes[i])->items[sharded->strategy_of[i]].flops;
    cost->compute_seconds = intra->compute_seconds + intra->communication_seconds;
    cost->collective_seconds = intra->communication_seconds;
    cost->weights_bytes = intra->weight_bytes;
    cost->cache_bytes = intra->resident_bytes;
    cost->activations_peak_bytes = intra->activation_peak_bytes;
    return SP_OK;
}

static double largest(double a, double b, double c)
{
    const double larger = a > b ? a : b;
    return larger > c ? larger : c;
}

static enum sp_status evaluate_stages(struct sp_joint_evaluator *evaluator, const struct sp_placement *placement,
                                      struct sp_sharded_stage *sharded, struct sp_evaluation *evaluation,
                                      struct sp_error *err)
{
    const uint32_t *first = evaluator->nodes.start;
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        struct sp_stage_cost *cost = &evaluation->stages[s];
        const uint32_t count = first[s + 1] - first[s];
        if (sharded == NULL || sharded[s].table == NULL) {
            sp_evaluator_stage(evaluator->whole, placement, s, evaluator->nodes.items + first[s], count, cost);
            cost->send_seconds = cost->receive_seconds = cost->communication_bytes = 0;
        } else {
            *cost = (struct sp_stage_cost){.device = placement->stage_device[s], .node_count = count};
            enum sp_status status = evaluate_block(evaluator, &sharded[s], cost, err);
            if (status != SP_OK)
                return status;
            cost->capacity_bytes = sp_cluster_memory(evaluator->cluster, cost->device);
        }
        cost->device_count = sp_placement_size(placement, s) * sp_placement_replicas(placement, s);
        evaluation->communication_bytes += sharded != NULL && sharded[s].table != NULL
                                               ? sharded[s].intra->communication_bytes * sp_placement_size(placement, s)
                                               : 0;
    }
    return SP_OK;
}

enum sp_status sp_joint_evaluator_run(struct sp_joint_evaluator *evaluator, struct sp_arena *arena,
                                      const struct sp_placement *placement, struct sp_sharded_stage *sharded,
                                      struct sp_evaluation **ret_evaluation, struct sp_error *err)
{
    uint32_t count = 0;
    if (sharded == NULL && placement->stage_size == NULL && placement->stage_replicas == NULL)
        return sp_evaluate(arena, evaluator->workload, evaluator->cluster, placement, ret_evaluation, err);
    sp_rows_fill(placement->stage_of, evaluator->workload->node_count, placement->stage_count, &evaluator->nodes);
    note_strategies(evaluator, placement, sharded);
    enum sp_status status = walk_transfers(evaluator, placement, sharded, NULL, &count, err);
    if (status != SP_OK)
        return status;
    struct sp_evaluation *evaluation = SP_NEW(arena, struct sp_evaluation);
    if (evaluation == NULL)
        return sp_fail_memory(err);
    evaluation->stage_count = placement->stage_count;
    evaluation->transfer_count = count;
    evaluation->stages = SP_NEW_ARRAY(arena, placement->stage_count, struct sp_stage_cost);
    evaluation->transfers = SP_NEW_ARRAY(arena, count, struct sp_tensor_transfer);
    if (evaluation->stages == NULL || evaluation->transfers == NULL)
        return sp_fail_memory(err);
    status = evaluate_stages(evaluator, placement, sharded, evaluation, err);
    if (status == SP_OK)
        status = walk_transfers(evaluator, placement, sharded, evaluation, &count, err);
    if (status != SP_OK)
        return status;
    if (count > 1)
        qsort(evaluation->transfers, count, sizeof *evaluation->transfers, by_tensor_and_stage);
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        struct sp_stage_cost *cost = &evaluation->stages[s];
        cost->total_bytes =
            cost->weights_bytes + cost->cache_bytes + cost->activations_peak_bytes + cost->communication_bytes;
        cost->interval_seconds = largest(cost->compute_seconds, cost->send_seconds, cost->receive_seconds) /
                                 sp_placement_replicas(placement, s);
    }
    status = sp_evaluation_finish(evaluator->arena, evaluation, err);
    if (status == SP_OK)
        *ret_evaluation = evaluation;
    return status;
}

enum sp_status sp_joint_evaluate(struct sp_arena *arena, const struct sp_workload *workload,
                                 const struct sp_cluster *cluster, const struct sp_placement *placement,
                                 struct sp_sharded_stage *sharded, struct sp_evaluation **ret_evaluation,
                                 struct sp_error *err)
{
    struct sp_joint_evaluator *evaluator = sp_joint_evaluator_create(arena, workload, cluster);
    if (evaluator == NULL)
        return sp_fail_memory(err);
    return sp_joint_evaluator_run(evaluator, arena, placement, sharded, ret_evaluation, err);
}
