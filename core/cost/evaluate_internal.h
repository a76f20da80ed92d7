#pragma once
/*
 * evaluate_internal - what evaluate.c, which evaluates whole placements, and evaluate_stage.c, which evaluates one of
 * their stages, share.
 */
#include "base/rows.h"
#include "cost/cluster/ways.h"
#include "cost/evaluate.h"
#include "cost/streaming.h"

/* What is known of a tensor in the stage at hand. It holds while `epoch` is the evaluator's: no table is ever cleared.
 */
struct sp_resident {
    uint32_t epoch;          /* of the first and last use, which matter for roots only */
    uint32_t received_epoch; /* counted as received; of this tensor itself, alias or not */
    uint32_t first, last;    /* positions at which it is alive */
};

struct sp_evaluator {
    const struct sp_workload *workload;
    const struct sp_cluster *cluster;
    uint32_t epoch;                /* one per stage evaluated */
    struct sp_resident *residents; /* per tensor */
    uint32_t root_count, *roots;   /* of the stage at hand: whose memory is not a weight, in the order of first uses */
    struct sp_live live;           /* of the stage at hand */
    uint32_t fullest;              /* position of the first node with the most alive; SP_ENTRY_FULLEST: there is none */
    uint64_t send_epoch;           /* one per tensor that is made, or sent */
    uint64_t *sent;                /* per stage, or device: the send epoch in which it was last a receiver */
    struct sp_rows nodes;          /* by stage */
    /* Where devices have hosts, else NULL. */
    uint32_t *users;                  /* per root: users of all its names */
    struct sp_streamable *streamable; /* of the stage at hand */
    struct sp_stream_size *stream_sizes;
    double *host_figures;        /* two of each host */
    uint32_t *host_devices;      /* of each host, those at hand */
    struct sp_cluster_ways ways; /* where the cluster states switches */
    double *switch_seconds;      /* per switch */
};

/* Total bytes and the interval, from what makes them up. */
static inline void sp_stage_cost_sum(struct sp_stage_cost *cost, uint32_t turns)
{
    const double transfer = cost->send_seconds > cost->receive_seconds ? cost->send_seconds : cost->receive_seconds;
    cost->total_bytes =
        cost->weights_bytes + cost->cache_bytes + cost->activations_peak_bytes + cost->communication_bytes;
    cost->interval_seconds = (cost->compute_seconds > transfer ? cost->compute_seconds : transfer) / turns;
    if (cost->shared_seconds > cost->interval_seconds)
        cost->interval_seconds = cost->shared_seconds;
}

/* ---- shared_switches.c ---- */

/* Has intervals be no shorter than what switches take for the transfers of all stages, all else being known. */
void sp_share_switches(struct sp_evaluator *evaluator, const struct sp_placement *placement,
                       struct sp_evaluation *evaluation);

/* ---- streaming.c ---- */

/* Has stages that lack memory stream weights, all else being known of them; those that still lack it stay as they are.
   What stages say of it is in `arena`. False without memory. */
bool sp_stream_weights(struct sp_evaluator *evaluator, struct sp_arena *arena, const struct sp_placement *placement,
                       const struct sp_block_costs *blocks, struct sp_evaluation *evaluation);

/* ---- shared_devices.c ---- */

/* The transfers of an evaluation by the stage that they go to; in `arena`. False without memory. */
bool sp_evaluation_incoming(struct sp_arena *arena, const struct sp_evaluation *evaluation,
                            struct sp_rows *ret_incoming);

/*
 * What stages have of devices that they share: seconds of transfers, memory, the interval and its
 * bottleneck. Stages' own figures and transfers are there, and the interval is 0. *ret_before: for each stage the one
 * before it on its device, or SP_NO_WORK. Takes memory of `arena` beside that.
 */
enum sp_status sp_share_devices(struct sp_evaluator *evaluator, struct sp_arena *arena,
                                const struct sp_placement *placement, struct sp_evaluation *evaluation,
                                uint32_t **ret_before, struct sp_error *err);

/* ---- request_path.c ---- */

/* Sets starts of the stages and the latency, and what each stage waits for. `before` has the stage before each on its
   device, or is NULL. Takes memory of the arena; false without it. */
bool sp_follow_request(struct sp_arena *arena, struct sp_evaluation *evaluation, const uint32_t *before);

/* ---- phases/phase_latency.c ---- */

/* The latency of a workload of several phases, when all else of the evaluation is known. Takes memory of
   the arena. */
enum sp_status sp_phase_latencies(struct sp_evaluator *evaluator, struct sp_arena *arena,
                                  const struct sp_placement *placement, const struct sp_block_costs *blocks,
                                  struct sp_evaluation *evaluation, struct sp_error *err);
