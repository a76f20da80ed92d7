#include "cost/evaluate.h"

#include "base/rows.h"

/* Whether requests carry this tensor from its producer's stage to others. */
static bool is_sent(const struct sp_workload *workload, const struct sp_work_tensor *tensor)
{
    return tensor->kind == SP_WORK_ACTIVATION && tensor->producer != SP_NO_WORK &&
           !workload->nodes[tensor->producer].folded;
}

static enum sp_status check_placement(const struct sp_workload *workload, const struct sp_cluster *cluster,
                                      const struct sp_placement *placement, struct sp_error *err)
{
    if (placement->stage_count == 0 || placement->stage_count > cluster->device_count)
        return sp_fail(err, SP_ERR_INTERNAL, "PLACEMENT_STAGES", "A placement has %u stages on %u devices.",
                       placement->stage_count, cluster->device_count);
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        if (placement->stage_device[s] >= cluster->device_count)
            return sp_fail(err, SP_ERR_INTERNAL, "PLACEMENT_DEVICE", "Stage %u is on device %u of %u.", s,
                           placement->stage_device[s], cluster->device_count);
    }
    for (uint32_t i = 0; i < workload->node_count; i++) {
        if (placement->stage_of[i] >= placement->stage_count)
            return sp_fail(err, SP_ERR_INTERNAL, "PLACEMENT_STAGE", "Node %u is in stage %u of %u.", i,
                           placement->stage_of[i], placement->stage_count);
    }
    return SP_OK;
}

/* Counts transfers and checks that none goes back. `seen` has a zeroed entry per stage. */
static enum sp_status count_transfers(const struct sp_workload *workload, const struct sp_placement *placement,
                                      uint32_t *seen, uint32_t *ret_count, struct sp_error *err)
{
    uint64_t count = 0;

    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        if (!is_sent(workload, tensor))
            continue;
        uint32_t from = placement->stage_of[tensor->producer];
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            uint32_t to = placement->stage_of[tensor->consumers[i]];
            if (to < from)
                return sp_fail(err, SP_ERR_INTERNAL, "PLACEMENT_ORDER",
                               "A placement sends tensor %u from stage %u back to stage %u.", t, from, to);
            if (to != from && seen[to] != t + 1) {
                seen[to] = t + 1;
                count++;
            }
        }
    }
    if (count > UINT32_MAX)
        return sp_fail_memory(err);
    *ret_count = (uint32_t)count;
    return SP_OK;
}

static int by_stage(const void *a, const void *b)
{
    uint32_t x = ((const struct sp_tensor_transfer *)a)->to_stage, y = ((const struct sp_tensor_transfer *)b)->to_stage;
    return (x > y) - (x < y);
}

static void fill_transfers(const struct sp_workload *workload, const struct sp_cluster *cluster,
                           const struct sp_placement *placement, uint32_t *seen, struct sp_evaluation *evaluation)
{
    uint32_t count = 0;

    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        uint32_t first = count;
        bool sorted = true;
        if (!is_sent(workload, tensor))
            continue;
        uint32_t from = placement->stage_of[tensor->producer];
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            uint32_t to = placement->stage_of[tensor->consumers[i]];
            if (to == from || seen[to] == t + 1)
                continue;
            seen[to] = t + 1;
            sorted = sorted && (count == first || evaluation->transfers[count - 1].to_stage < to);
            evaluation->transfers[count++] = (struct sp_tensor_transfer){
                .tensor = t,
                .from_stage = from,
                .to_stage = to,
                .bytes = tensor->bytes,
                .seconds = sp_work_transfer_seconds(cluster, tensor, placement->stage_device[from],
                                                    placement->stage_device[to])};
            evaluation->communication_bytes += tensor->bytes;
        }
        if (!sorted)
            qsort(&evaluation->transfers[first], count - first, sizeof *evaluation->transfers, by_stage);
    }
}

/*
 * Starts of the stages and the latency. Transfers go from lower to higher stages, so one pass in stage order follows
 * every path. What one stage sends to one other adds up; different senders overlap.
 */
static bool follow_request(struct sp_arena *arena, struct sp_evaluation *evaluation)
{
    uint32_t stage_count = evaluation->stage_count, transfer_count = evaluation->transfer_count;
    struct sp_rows incoming; /* transfers, by the stage that they go to */
    uint32_t *to_stage = SP_NEW_ARRAY(arena, transfer_count, uint32_t);
    uint32_t *seen = SP_NEW_ARRAY(arena, stage_count, uint32_t);
    double *arrival = SP_NEW_ARRAY(arena, stage_count, double); /* of what each sender sends to the current stage */

    if (to_stage == NULL || seen == NULL || arrival == NULL)
        return false;
    for (uint32_t i = 0; i < transfer_count; i++)
        to_stage[i] = evaluation->transfers[i].to_stage;
    if (!sp_rows_sort(arena, to_stage, transfer_count, stage_count, &incoming))
        return false;

    for (uint32_t s = 0; s < stage_count; s++) {
        struct sp_stage_cost *stage = &evaluation->stages[s];
        stage->waits_for = SP_NO_WORK;
        for (uint32_t i = incoming.start[s]; i < incoming.start[s + 1]; i++) {
            const struct sp_tensor_transfer *transfer = &evaluation->transfers[incoming.items[i]];
            const struct sp_stage_cost *sender = &evaluation->stages[transfer->from_stage];
            if (seen[transfer->from_stage] != s + 1) {
                seen[transfer->from_stage] = s + 1;
                arrival[transfer->from_stage] = sender->start_seconds + sender->compute_seconds;
            }
            arrival[transfer->from_stage] += transfer->seconds;
            if (arrival[transfer->from_stage] > stage->start_seconds) {
                stage->start_seconds = arrival[transfer->from_stage];
                stage->waits_for = transfer->from_stage;
            }
        }
        if (stage->start_seconds + stage->compute_seconds > evaluation->latency_seconds)
            evaluation->latency_seconds = stage->start_seconds + stage->compute_seconds;
    }
    return true;
}

static void find_worst(struct sp_evaluation *evaluation)
{
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const struct sp_stage_cost *stage = &evaluation->stages[s];
        double excess = stage->total_bytes - stage->capacity_bytes;
        if (stage->interval_seconds > evaluation->interval_seconds) {
            evaluation->interval_seconds = stage->interval_seconds;
            evaluation->bottleneck_stage = s;
        }
        if (s == 0 || excess > evaluation->worst_excess_bytes) {
            evaluation->worst_excess_bytes = excess;
            evaluation->worst_stage = s;
        }
    }
}

enum sp_status sp_evaluation_finish(struct sp_arena *arena, struct sp_evaluation *evaluation, struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(arena);
    const bool followed = follow_request(arena, evaluation);
    sp_arena_rewind(arena, mark);
    if (!followed)
        return sp_fail_memory(err);
    find_worst(evaluation);
    return SP_OK;
}

enum sp_status sp_evaluate(struct sp_arena *arena, const struct sp_workload *workload, const struct sp_cluster *cluster,
                           const struct sp_placement *placement, struct sp_evaluation **ret_evaluation,
                           struct sp_error *err)
{
    struct sp_arena_mark start = sp_arena_mark(arena), temporary;
    struct sp_evaluation *evaluation;
    struct sp_evaluator *evaluator;
    struct sp_rows nodes;
    uint32_t *seen, transfer_count = 0;
    enum sp_status status = check_placement(workload, cluster, placement, err);

    if (status != SP_OK)
        return status;
    /* Counted first, so that results lie together and everything behind them can be given back. */
    seen = SP_NEW_ARRAY(arena, placement->stage_count, uint32_t);
    status = seen == NULL ? sp_fail_memory(err) : count_transfers(workload, placement, seen, &transfer_count, err);
    sp_arena_rewind(arena, start);
    if (status != SP_OK)
        return status;

    evaluation = SP_NEW(arena, struct sp_evaluation);
    if (evaluation == NULL)
        goto out_of_memory;
    evaluation->stage_count = placement->stage_count;
    evaluation->transfer_count = transfer_count;
    evaluation->stages = SP_NEW_ARRAY(arena, placement->stage_count, struct sp_stage_cost);
    evaluation->transfers = SP_NEW_ARRAY(arena, transfer_count, struct sp_tensor_transfer);
    temporary = sp_arena_mark(arena);
    seen = SP_NEW_ARRAY(arena, placement->stage_count, uint32_t);
    evaluator = sp_evaluator_create(arena, workload, cluster);
    if (evaluation->stages == NULL || evaluation->transfers == NULL || seen == NULL || evaluator == NULL ||
        !sp_rows_sort(arena, placement->stage_of, workload->node_count, placement->stage_count, &nodes))
        goto out_of_memory;
    for (uint32_t s = 0; s < placement->stage_count; s++)
        sp_evaluator_stage(evaluator, placement, s, nodes.items + nodes.start[s], nodes.start[s + 1] - nodes.start[s],
                           &evaluation->stages[s]);
    fill_transfers(workload, cluster, placement, seen, evaluation);
    if (sp_evaluation_finish(arena, evaluation, err) != SP_OK)
        goto out_of_memory;
    sp_arena_rewind(arena, temporary);
    *ret_evaluation = evaluation;
    return SP_OK;

out_of_memory:
    sp_arena_rewind(arena, start);
    return sp_fail_memory(err);
}
