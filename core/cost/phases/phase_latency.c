/*
 * The latency of a request that runs several phases: the sum of theirs, since one begins where the one before has ended.
 */
#include "cost/evaluate_internal.h"

/* What a stage computes of one phase. */
static enum sp_status compute_seconds(struct sp_evaluator *evaluator, const struct sp_placement *placement,
                                      const struct sp_block_costs *blocks, uint32_t stage, uint32_t phase,
                                      double *ret_seconds, struct sp_error *err)
{
    const uint32_t begin = evaluator->nodes.start[stage], count = evaluator->nodes.start[stage + 1] - begin;
    const uint32_t *nodes = evaluator->nodes.items + begin;
    if (blocks != NULL && blocks->is_split(blocks->context, stage))
        return blocks->phase_seconds(blocks->context, stage, phase, ret_seconds, err);
    const struct sp_work_stretch stretch = sp_work_phase_stretch(evaluator->workload, count, nodes, phase);
    struct sp_stage_cost cost;
    sp_evaluator_stage(evaluator,
                       &(struct sp_placed_stage){placement, stage, stretch.to - stretch.from, nodes + stretch.from},
                       &cost, NULL);
    *ret_seconds = cost.compute_seconds;
    return SP_OK;
}

enum sp_status sp_phase_latencies(struct sp_evaluator *evaluator, struct sp_arena *arena,
                                  const struct sp_placement *placement, const struct sp_block_costs *blocks,
                                  struct sp_evaluation *evaluation, struct sp_error *err)
{
    const struct sp_workload *workload = evaluator->workload;
    double *stages = SP_NEW_ARRAY(arena, evaluation->stage_count, double);
    double *transfers = SP_NEW_ARRAY(arena, evaluation->transfer_count, double);
    double sum = 0;
    enum sp_status status = stages == NULL || transfers == NULL ? sp_fail_memory(err) : SP_OK;
    for (uint32_t p = 0; status == SP_OK && p < workload->phase_count; p++) {
        double latency = 0, interval;
        for (uint32_t s = 0; status == SP_OK && s < evaluation->stage_count; s++)
            status = compute_seconds(evaluator, placement, blocks, s, p, &stages[s], err);
        for (uint32_t t = 0; t < evaluation->transfer_count; t++) {
            const struct sp_tensor_transfer *transfer = &evaluation->transfers[t];
            transfers[t] = workload->tensors[transfer->tensor].phase == p ? transfer->seconds : 0;
        }
        const struct sp_other_times times = {stages, transfers};
        if (status == SP_OK && !sp_evaluation_retime(arena, evaluation, placement, &times, &latency, &interval))
            status = sp_fail_memory(err);
        sum += latency;
    }
    evaluation->latency_seconds = sum;
    return status;
}
