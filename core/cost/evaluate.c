/*
 * Whole placements: every stage on its own (evaluate_stage.c), what is sent between them, and the way of one request.
 */
#include "cost/evaluate_internal.h"

#include <stdlib.h>
#include <string.h>

/* Whether requests carry this tensor from its producer's stage to others. */
static bool is_sent(const struct sp_workload *workload, const struct sp_work_tensor *tensor)
{
    return tensor->kind == SP_WORK_ACTIVATION && tensor->producer != SP_NO_WORK &&
           !workload->nodes[tensor->producer].folded;
}

static enum sp_status check_placement(const struct sp_workload *workload, const struct sp_cluster *cluster,
                                      const struct sp_placement *placement, struct sp_error *err)
{
    const uint32_t most = placement->shares_devices ? workload->node_count : cluster->device_count;
    if (placement->stage_count == 0 || placement->stage_count > most)
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

static int by_stage(const void *a, const void *b)
{
    uint32_t x = ((const struct sp_tensor_transfer *)a)->to_stage, y = ((const struct sp_tensor_transfer *)b)->to_stage;
    return (x > y) - (x < y);
}

/* An evaluation under way. */
struct run {
    struct sp_evaluator *evaluator;
    const struct sp_placement *placement;
    const struct sp_block_costs *blocks;
    struct sp_arena *arena;
    struct sp_evaluation *evaluation; /* NULL while transfers are only counted */
    uint32_t count;
    struct sp_error *err;
};

/* Notes one transfer; with blocks, what it costs at both ends, too. */
static enum sp_status note_transfer(struct run *run, uint32_t t, uint32_t user)
{
    const struct sp_work_tensor *tensor = &run->evaluator->workload->tensors[t];
    const uint32_t from = run->placement->stage_of[tensor->producer], to = run->placement->stage_of[user];
    struct sp_tensor_transfer *transfer = &run->evaluation->transfers[run->count];
    struct sp_stage_cost *stages = run->evaluation->stages;
    const double times = sp_work_times(run->evaluator->workload, tensor->phase);
    double sent_bytes = 0, received_bytes = 0;
    enum sp_status status = SP_OK;
    *transfer = (struct sp_tensor_transfer){.tensor = t, .from_stage = from, .to_stage = to, .bytes = tensor->bytes};
    transfer->seconds = sp_work_transfer_seconds(run->evaluator->cluster, tensor, run->placement->stage_device[from],
                                                 run->placement->stage_device[to]);
    if (run->blocks != NULL) {
        status = run->blocks->transfer(run->blocks->context, user, transfer, &sent_bytes, &received_bytes, run->err);
        if (status != SP_OK)
            return status;
    }
    transfer->seconds *= times;
    transfer->bytes *= times;
    if (run->blocks != NULL) {
        stages[from].send_seconds += transfer->seconds;
        stages[to].receive_seconds += transfer->seconds;
        stages[from].communication_bytes += 2 * sent_bytes;
        stages[to].communication_bytes += 2 * received_bytes;
    }
    run->evaluation->communication_bytes += transfer->bytes;
    return SP_OK;
}

/* The first stage of a device to use a tensor is the one that receives it. */
static void receive_earlier(struct run *run, uint32_t first, uint32_t stage)
{
    const uint32_t *device_of = run->placement->stage_device;
    for (uint32_t i = first; run->evaluation != NULL && i < run->count; i++) {
        uint32_t *to = &run->evaluation->transfers[i].to_stage;
        if (device_of[*to] == device_of[stage] && stage < *to)
            *to = stage;
    }
}

/* The transfers of one tensor; none may go back. */
static enum sp_status walk_tensor(struct run *run, uint32_t t)
{
    struct sp_evaluator *evaluator = run->evaluator;
    const struct sp_work_tensor *tensor = &evaluator->workload->tensors[t];
    const bool shares = run->placement->shares_devices;
    const uint32_t *device_of = run->placement->stage_device;
    const uint32_t from = run->placement->stage_of[tensor->producer], first = run->count;
    bool sorted = !shares;
    evaluator->send_epoch++;
    /* Consumers ascend, so the first one that is met in a stage is the first to use the tensor there. */
    for (uint32_t i = 0; i < tensor->consumer_count; i++) {
        const uint32_t to = run->placement->stage_of[tensor->consumers[i]];
        const uint32_t receiver = shares ? device_of[to] : to;
        if (to < from)
            return sp_fail(run->err, SP_ERR_INTERNAL, "PLACEMENT_ORDER",
                           "A placement sends tensor %u from stage %u back to stage %u.", t, from, to);
        if (to == from || (shares && device_of[to] == device_of[from]))
            continue;
        if (evaluator->sent[receiver] == evaluator->send_epoch) {
            receive_earlier(run, first, to);
            continue;
        }
        evaluator->sent[receiver] = evaluator->send_epoch;
        if (run->evaluation != NULL) {
            enum sp_status status = note_transfer(run, t, tensor->consumers[i]);
            if (status != SP_OK)
                return status;
            sorted = sorted && (run->count == first || run->evaluation->transfers[run->count - 1].to_stage < to);
        }
        if (run->count++ == UINT32_MAX)
            return sp_fail_memory(run->err);
    }
    if (!sorted && run->evaluation != NULL && run->count > first)
        qsort(&run->evaluation->transfers[first], run->count - first, sizeof *run->evaluation->transfers, by_stage);
    return SP_OK;
}

/* Counts what is sent, or notes it where there is an evaluation. */
static enum sp_status walk_transfers(struct run *run)
{
    const struct sp_workload *workload = run->evaluator->workload;
    enum sp_status status = SP_OK;
    run->count = 0;
    for (uint32_t t = 0; status == SP_OK && t < workload->tensor_count; t++) {
        if (is_sent(workload, &workload->tensors[t]))
            status = walk_tensor(run, t);
    }
    return status;
}

/* The stage's own figures; with blocks, without what crosses its border. */
static enum sp_status evaluate_stage(struct run *run, uint32_t s)
{
    struct sp_evaluator *evaluator = run->evaluator;
    struct sp_stage_cost *cost = &run->evaluation->stages[s];
    const uint32_t begin = evaluator->nodes.start[s], count = evaluator->nodes.start[s + 1] - begin;
    enum sp_status status = SP_OK;
    if (run->blocks == NULL || !run->blocks->is_split(run->blocks->context, s)) {
        sp_evaluator_stage(
            evaluator, &(struct sp_placed_stage){run->placement, s, count, evaluator->nodes.items + begin}, cost, NULL);
        if (run->blocks != NULL)
            cost->send_seconds = cost->receive_seconds = cost->communication_bytes = 0;
    } else {
        double inside_bytes = 0;
        *cost = (struct sp_stage_cost){.device = run->placement->stage_device[s], .node_count = count};
        status = run->blocks->stage(run->blocks->context, s, cost, &inside_bytes, run->err);
        if (cost->capacity_bytes == 0)
            cost->capacity_bytes = sp_cluster_memory(evaluator->cluster, cost->device);
        run->evaluation->communication_bytes += inside_bytes;
    }
    cost->device_count = sp_placement_size(run->placement, s) * sp_placement_replicas(run->placement, s);
    return status;
}

static void find_worst(struct sp_evaluation *evaluation)
{
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const struct sp_stage_cost *stage = &evaluation->stages[s];
        double excess = stage->total_bytes - stage->capacity_bytes;
        if (evaluation->devices == NULL && stage->interval_seconds > evaluation->interval_seconds) {
            evaluation->interval_seconds = stage->interval_seconds;
            evaluation->bottleneck_stage = s;
        }
        if (s == 0 || excess > evaluation->worst_excess_bytes) {
            evaluation->worst_excess_bytes = excess;
            evaluation->worst_stage = s;
        }
    }
}

static enum sp_status evaluate_all(struct run *run)
{
    const struct sp_placement *placement = run->placement;
    enum sp_status status = SP_OK;
    for (uint32_t s = 0; status == SP_OK && s < placement->stage_count; s++)
        status = evaluate_stage(run, s);
    if (status == SP_OK)
        status = walk_transfers(run);
    for (uint32_t s = 0; status == SP_OK && s < placement->stage_count; s++) {
        sp_stage_cost_sum(&run->evaluation->stages[s], sp_placement_turns(placement, s));
        run->evaluation->device_count += run->evaluation->stages[s].device_count * sp_placement_copies(placement);
    }
    if (status == SP_OK && !sp_stream_weights(run->evaluator, run->arena, placement, run->blocks, run->evaluation))
        status = sp_fail_memory(run->err);
    if (status == SP_OK)
        sp_share_switches(run->evaluator, placement, run->evaluation);
    return status;
}

enum sp_status sp_evaluator_run(struct sp_evaluator *evaluator, struct sp_arena *arena,
                                const struct sp_placement *placement, const struct sp_block_costs *blocks,
                                struct sp_evaluation **ret_evaluation, struct sp_error *err)
{
    struct run run = {.evaluator = evaluator, .placement = placement, .blocks = blocks, .arena = arena, .err = err};
    const struct sp_arena_mark start = sp_arena_mark(arena);
    enum sp_status status = check_placement(evaluator->workload, evaluator->cluster, placement, err);
    if (status == SP_OK)
        status = walk_transfers(&run); /* counted first */
    if (status != SP_OK)
        return status;
    sp_rows_fill(placement->stage_of, evaluator->workload->node_count, placement->stage_count, &evaluator->nodes);
    struct sp_evaluation *evaluation = run.evaluation = SP_NEW(arena, struct sp_evaluation);
    if (evaluation == NULL)
        return sp_fail_memory(err);
    evaluation->stage_count = placement->stage_count;
    evaluation->transfer_count = run.count;
    evaluation->stages = SP_NEW_ARRAY(arena, placement->stage_count, struct sp_stage_cost);
    evaluation->transfers = SP_NEW_ARRAY(arena, run.count, struct sp_tensor_transfer);
    if (placement->shares_devices)
        evaluation->devices = SP_NEW_ARRAY(arena, evaluator->cluster->device_count, struct sp_stage_cost);
    if (evaluation->stages == NULL || evaluation->transfers == NULL ||
        (placement->shares_devices && evaluation->devices == NULL))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = evaluate_all(&run);
    const struct sp_arena_mark temporary = sp_arena_mark(arena); /* what blocks have made there stays */
    uint32_t *before = NULL;
    if (status == SP_OK && placement->shares_devices)
        status = sp_share_devices(evaluator, arena, placement, evaluation, &before, err);
    if (status == SP_OK && !sp_follow_request(arena, evaluation, before))
        status = sp_fail_memory(err);
    if (status == SP_OK && evaluator->workload->phase_count > 1 && placement->stage_count > 1)
        status = sp_phase_latencies(evaluator, arena, placement, blocks, evaluation, err);
    if (status != SP_OK) {
        sp_arena_rewind(arena, blocks == NULL ? start : temporary);
        return status;
    }
    sp_arena_rewind(arena, temporary);
    find_worst(evaluation);
    evaluation->micro_batches = evaluator->workload->micro_batches;
    evaluation->run_seconds = evaluation->latency_seconds;
    evaluation->latency_seconds = sp_micro_latency(evaluation->micro_batches, evaluation->run_seconds,
                                                   evaluation->interval_seconds * sp_placement_copies(placement));
    *ret_evaluation = evaluation;
    return SP_OK;
}

enum sp_status sp_evaluate(struct sp_arena *arena, const struct sp_workload *workload, const struct sp_cluster *cluster,
                           const struct sp_placement *placement, struct sp_evaluation **ret_evaluation,
                           struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(arena));
    struct sp_evaluator *evaluator = scratch == NULL ? NULL : sp_evaluator_create(scratch, workload, cluster);
    enum sp_status status = evaluator == NULL
                                ? sp_fail_memory(err)
                                : sp_evaluator_run(evaluator, arena, placement, NULL, ret_evaluation, err);
    sp_arena_destroy(scratch);
    return status;
}
