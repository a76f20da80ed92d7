/* What all stages send over switches that they share: for each request, so no interval is shorter. */
#include "cost/evaluate_internal.h"

/* Devices that send and receive the parts of a transfer. */
static uint32_t pairs_of(const struct sp_placement *placement, const struct sp_tensor_transfer *transfer)
{
    const uint32_t from = sp_placement_size(placement, transfer->from_stage);
    const uint32_t to = sp_placement_size(placement, transfer->to_stage);
    return from > to ? from : to;
}

/* The switches between the devices of one pair, in ways->switches. */
static uint32_t way_of(const struct sp_evaluator *evaluator, const struct sp_placement *placement,
                       const struct sp_tensor_transfer *transfer, uint32_t pair)
{
    struct sp_cluster_ways ways = evaluator->ways;
    const uint32_t pairs = pairs_of(placement, transfer), from = transfer->from_stage, to = transfer->to_stage;
    const uint32_t a =
        placement->stage_device[from] + (uint32_t)((uint64_t)pair * sp_placement_size(placement, from) / pairs);
    const uint32_t b =
        placement->stage_device[to] + (uint32_t)((uint64_t)pair * sp_placement_size(placement, to) / pairs);
    return sp_cluster_way(evaluator->cluster, a, b, &ways);
}

void sp_share_switches(struct sp_evaluator *evaluator, const struct sp_placement *placement,
                       struct sp_evaluation *evaluation)
{
    const struct sp_cluster *cluster = evaluator->cluster;
    const uint32_t count = sp_cluster_switch_count(cluster);
    double *load = evaluator->switch_seconds;
    if (count == 0 || placement->shares_devices)
        return;
    memset(load, 0, count * sizeof *load);
    for (uint32_t round = 0; round < 2; round++) { /* what switches carry; then who uses them */
        for (uint32_t t = 0; t < evaluation->transfer_count; t++) {
            const struct sp_tensor_transfer *transfer = &evaluation->transfers[t];
            const struct sp_work_tensor *tensor = &evaluator->workload->tensors[transfer->tensor];
            const uint32_t pairs = pairs_of(placement, transfer);
            /* Once at least; devices of the block behind may pass on what they got. */
            const double whole = tensor->bytes * sp_work_times(evaluator->workload, tensor->phase);
            const double bytes = transfer->bytes < whole ? transfer->bytes : whole;
            for (uint32_t p = 0; p < pairs && !tensor->has_transfer_seconds; p++) {
                const uint32_t passed = way_of(evaluator, placement, transfer, p);
                for (uint32_t i = 0; i < passed; i++) {
                    const uint32_t at = evaluator->ways.switches[i];
                    struct sp_stage_cost *ends[] = {&evaluation->stages[transfer->from_stage],
                                                    &evaluation->stages[transfer->to_stage]};
                    if (round == 0)
                        load[at] += bytes / pairs / sp_cluster_switch_bandwidth(cluster, at);
                    for (uint32_t e = 0; round == 1 && e < 2; e++)
                        ends[e]->shared_seconds =
                            load[at] > ends[e]->shared_seconds ? load[at] : ends[e]->shared_seconds;
                }
            }
        }
    }
    for (uint32_t s = 0; s < evaluation->stage_count; s++)
        sp_stage_cost_sum(&evaluation->stages[s], sp_placement_turns(placement, s));
}
