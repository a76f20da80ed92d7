/*
 * The path of one request through the stages, by what these compute and send.
 */
#include "cost/evaluate_internal.h"

#include <string.h>

/*
 * Starts of the stages and the latency. Transfers go from lower to higher stages, so one pass in stage order follows
 * every path. What one stage sends to one other adds up; different senders overlap. `before` has the stage before each
 * on its device, or is NULL.
 */
bool sp_follow_request(struct sp_arena *arena, struct sp_evaluation *evaluation, const uint32_t *before)
{
    uint32_t stage_count = evaluation->stage_count;
    struct sp_rows incoming;
    uint32_t *seen = SP_NEW_ARRAY(arena, stage_count, uint32_t);
    double *arrival = SP_NEW_ARRAY(arena, stage_count, double); /* of what each sender sends to the current stage */

    if (seen == NULL || arrival == NULL || !sp_evaluation_incoming(arena, evaluation, &incoming))
        return false;
    for (uint32_t s = 0; s < stage_count; s++) {
        struct sp_stage_cost *stage = &evaluation->stages[s];
        stage->waits_for = before == NULL ? SP_NO_WORK : before[s];
        if (stage->waits_for != SP_NO_WORK)
            stage->start_seconds =
                evaluation->stages[before[s]].start_seconds + evaluation->stages[before[s]].compute_seconds;
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
        if (stage->shared_seconds > evaluation->latency_seconds)
            evaluation->latency_seconds = stage->shared_seconds;
    }
    return true;
}

/* ---- other times ------------------------------------------------------------------------------------------------- */

/* The stage before each on its device; NULL without memory. */
static uint32_t *stages_before(struct sp_arena *arena, const struct sp_placement *placement)
{
    const uint32_t count = placement->stage_count;
    uint32_t device_count = 0;
    uint32_t *before = SP_NEW_ARRAY(arena, count, uint32_t);
    for (uint32_t s = 0; s < count; s++)
        device_count = placement->stage_device[s] >= device_count ? placement->stage_device[s] + 1 : device_count;
    uint32_t *latest = SP_NEW_ARRAY(arena, device_count, uint32_t); /* 1 + it */
    if (before == NULL || latest == NULL)
        return NULL;
    for (uint32_t s = 0; s < count; s++) {
        uint32_t *last = &latest[placement->stage_device[s]];
        before[s] = *last == 0 ? SP_NO_WORK : *last - 1;
        *last = s + 1;
    }
    return before;
}

/* The largest interval; of stages that share a device the last one has the sums of all. */
static double longest_interval(const struct sp_evaluation *evaluation, const struct sp_placement *placement,
                               const uint32_t *before)
{
    double longest = 0;
    struct sp_stage_cost *sums = evaluation->stages;
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        if (before != NULL && before[s] != SP_NO_WORK) {
            sums[s].compute_seconds += sums[before[s]].compute_seconds;
            sums[s].send_seconds += sums[before[s]].send_seconds;
            sums[s].receive_seconds += sums[before[s]].receive_seconds;
        }
        sp_stage_cost_sum(&sums[s], sp_placement_turns(placement, s));
        longest = sums[s].interval_seconds > longest ? sums[s].interval_seconds : longest;
    }
    return longest;
}

bool sp_evaluation_retime(struct sp_arena *arena, const struct sp_evaluation *evaluation,
                          const struct sp_placement *placement, const struct sp_other_times *times,
                          double *ret_latency_seconds, double *ret_interval_seconds)
{
    const struct sp_arena_mark mark = sp_arena_mark(arena);
    struct sp_evaluation other = *evaluation;
    uint32_t *before = placement->shares_devices ? stages_before(arena, placement) : NULL;
    bool done = before != NULL || !placement->shares_devices;
    other.latency_seconds = 0;
    other.stages = SP_NEW_ARRAY(arena, other.stage_count, struct sp_stage_cost);
    other.transfers = SP_NEW_ARRAY(arena, other.transfer_count, struct sp_tensor_transfer);
    done = done && other.stages != NULL && other.transfers != NULL;
    for (uint32_t s = 0; done && s < other.stage_count; s++) {
        const double copies = evaluation->stages[s].stream_seconds, computing = times->compute_seconds[s];
        other.stages[s].compute_seconds = computing > copies ? computing : copies;
        other.stages[s].shared_seconds = evaluation->stages[s].shared_seconds;
    }
    for (uint32_t t = 0; done && t < other.transfer_count; t++) {
        other.transfers[t] = evaluation->transfers[t];
        other.transfers[t].seconds = times->transfer_seconds[t];
        other.stages[other.transfers[t].from_stage].send_seconds += times->transfer_seconds[t];
        other.stages[other.transfers[t].to_stage].receive_seconds += times->transfer_seconds[t];
    }
    done = done && sp_follow_request(arena, &other, before);
    if (done) {
        const double interval = longest_interval(&other, placement, before);
        *ret_latency_seconds = sp_micro_latency(evaluation->micro_batches, other.latency_seconds,
                                                interval * sp_placement_copies(placement));
        *ret_interval_seconds = interval;
    }
    sp_arena_rewind(arena, mark);
    return done;
}
