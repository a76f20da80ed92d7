#pragma once
/*
 * evaluate - what a placement costs: time, memory and traffic of every device.
 *
 * A placement gives each work node a stage; stage s runs on device stage_device[s]. A tensor made in one stage and used
 * in another is sent once to each stage that uses it.
 *
 * Model of execution (forward only, one request at a time in each stage, requests in a pipeline):
 *  - A stage computes its nodes one after another; sends and receives overlap with computing (double buffers), so a
 *    stage's interval is max(compute, sum of sends, sum of receives). Throughput is 1 / the largest interval.
 *  - Where the cluster states switches, stages share them: the interval is at least what all transfers over a switch
 *    take together at its bandwidth, and so is the latency (cluster/ways.h).
 *  - Latency of one request is the longest path over stages, compute plus transfers: a stage starts a request when all
 *    it receives has arrived, and sends when it has finished. What goes from one stage to one other goes one after the
 *    other; sends to different stages overlap, and so do parallel stages.
 *  - Where a request is cut in micro-batches, everything is of one of them but the latency, which is of the whole request
 *    (micro_batches.h).
 *  - Of several phases (phases/phase_join.h) a stage computes and sends what all their runs take, and the latency is the sum of
 *    the phases' latencies.
 *  - Memory of a device: its weights once; the keys and values that its nodes keep (cache.h); the largest sum of live
 *    activations over its nodes in order; and two buffers for each tensor that crosses its border (planners: 2 * (in +
 *    out)).
 *  - Where that is too little, weights stay in the memory of the device's host and are copied for each request
 *    (streaming.h): a stage then computes for at least as long as its copies take.
 *  - A kernel of several nodes that is cut by a border is two: what is sent is written, and the stage behind starts and
 *    reads (cost/kernels/kernels.h). Both compute for longer.
 *  - Copies of the whole placement take requests in turn: intervals are divided by their number, and all else is of one
 *    copy, which the others equal. What they share, hosts and switches, counts for all of them.
 *  - Weights, also those that folded nodes make, are on every device that uses them and are never sent. Requests bring
 *    model inputs and take results without a cost.
 *
 * Liveness within a stage
 *    a tensor made here   from its producer to its last use here; to the end when it is sent or a result of the model
 *    a received tensor    from its first use here (before that it waits in its buffer) to the last
 *    a model input        from the start to the end, where a node here takes it (sp_work_is_held())
 *    an alias             is its root: the root lives as long as any alias that is used here; it is held once
 *    inside a node        its workspace, while it runs
 * Outputs are made while inputs are still there: nothing runs in place.
 *
 * Shared devices. With `shares_devices` several stages may name one device, which then holds any set of nodes, not only
 * one that is convex (pieces.h cuts such sets into stages). Stages keep their order, and:
 *  - A device's interval is max(compute, sends, receives) of all its stages together; the largest is the plan's. A
 *    tensor is sent once to each device that uses it, to the first of its stages that does.
 *  - Latency of one request: a device runs one stage at a time, in their order.
 *  - The interval is kept by a schedule of periods of that length: in each, a device runs all its stages once, in
 *    order, for different requests. What is sent in one period was made in the one before, and is used in the next one
 *    at the earliest. So a stage is `p` periods behind the arrival of its request:
 *        p(stage) = max over what it receives of p(sender) + 2, and p of the device's stage before it
 *    What arrives early waits in its buffers, as everywhere.
 *  - A device holds weights once and buffers for all that crosses its border all the time. A tensor that stage i makes
 *    or receives and stage j of the same device uses last is there in p(j) - p(i) requests beside the one that runs;
 *    that one has it from i to its last use in j. A stage's memory counts all of that while it runs, exactly for this
 *    schedule.
 * Only workloads without aliases share devices: graphs of costs.
 *
 * Sources: Huang et al., GPipe, 2019; Narayanan et al., PipeDream, 2019; Tarnawski et al., 2020 (max-load objective).
 */
#include "cost/live_bytes.h"
#include "cost/micro_batches.h"
#include "cost/workload.h"

struct sp_tensor_transfer {
    uint32_t tensor;
    uint32_t from_stage, to_stage;
    double bytes, seconds;
};

struct sp_stage_cost {
    uint32_t device;       /* the first of its block; all figures are of one device */
    uint32_t device_count; /* of all replicas, in one copy of the placement */
    uint32_t node_count;
    uint32_t waits_for; /* the stage whose transfers are the last to arrive, at start_seconds; SP_NO_WORK: for none */
    double flops;
    double compute_seconds, send_seconds, receive_seconds;
    double waiting_bytes;      /* shared devices: of activations_peak_bytes, what other requests and stages hold */
    double collective_seconds; /* of compute_seconds: spent in collectives between the stage's devices */
    double stall_seconds;      /* of compute_seconds: spent waiting for weights from the host */
    double interval_seconds;   /* max of the three, divided by replicas and copies; at least shared_seconds */
    double start_seconds;      /* when one request enters, counted from its arrival */
    /* Shared devices: the activations of this stage, all else of the device; its memory is the largest total. */
    double weights_bytes, cache_bytes, activations_peak_bytes, communication_bytes, total_bytes, capacity_bytes;
    /* Weights that one device copies from its host for each request, and how long that takes it; of weights_bytes,
       which are those on the device, the buffers for them. */
    double streamed_bytes, stream_buffer_bytes, stream_seconds;
    double shared_seconds; /* of each request on the link of a host, or a switch, that stages share: of all of them */
    uint32_t streamed_count;
    const uint32_t *streamed_nodes; /* whose weights they are, ascending */
};

struct sp_evaluation {
    uint32_t stage_count, transfer_count;
    uint32_t device_count; /* in use, in all copies */
    struct sp_stage_cost *stages;
    struct sp_stage_cost *devices;        /* per device of the cluster, where devices are shared; else NULL */
    struct sp_stage_cost *members;        /* per device, where some stage has unequal devices: its own; else NULL */
    struct sp_tensor_transfer *transfers; /* by tensor, then by stage */
    double latency_seconds, interval_seconds, communication_bytes;
    uint32_t micro_batches; /* of a request; 0 or 1: all is of a whole one */
    double run_seconds;     /* the latency of one micro-batch alone, or of the request */
    uint32_t bottleneck_stage;
    double worst_excess_bytes; /* largest total - capacity over the stages; <= 0 when everything fits */
    uint32_t worst_stage;      /* where */
};

/* Seconds between whole requests. */
static inline double sp_evaluation_interval(const struct sp_evaluation *evaluation)
{
    return sp_micro_interval(evaluation->micro_batches, evaluation->interval_seconds);
}

struct sp_placement {
    uint32_t stage_count;
    uint32_t *stage_of;     /* work node -> stage */
    uint32_t *stage_device; /* stage -> device, the first one of its block; distinct, unless devices are shared */
    bool shares_devices;    /* stages of one device each may name the same */
    /* Stages of several devices (search/joint/joint.h); NULL: one each. Replica r of stage s has the devices
       stage_device[s] + r * stage_size[s] .. + stage_size[s] - 1. */
    uint32_t *stage_size, *stage_replicas;
    /* Copies of all of it take requests in turn, beside the devices above: copy k > 0 of stage s has as many devices, over
       the same links, from copy_device[(k - 1) * stage_count + s] on. 0 or 1: there is the placement itself only. */
    uint32_t copies;
    uint32_t *copy_device;
};

/* Devices of one replica of a stage, and its replicas. */
static inline uint32_t sp_placement_size(const struct sp_placement *placement, uint32_t stage)
{
    return placement->stage_size == NULL ? 1 : placement->stage_size[stage];
}
static inline uint32_t sp_placement_replicas(const struct sp_placement *placement, uint32_t stage)
{
    return placement->stage_replicas == NULL ? 1 : placement->stage_replicas[stage];
}

/* The placement and its copies, and the first device of a stage in one of them; 0 is the placement itself. */
static inline uint32_t sp_placement_copies(const struct sp_placement *placement)
{
    return placement->copies > 1 ? placement->copies : 1;
}
static inline uint32_t sp_placement_device(const struct sp_placement *placement, uint32_t stage, uint32_t copy)
{
    return copy == 0 ? placement->stage_device[stage]
                     : placement->copy_device[(size_t)(copy - 1) * placement->stage_count + stage];
}
/* Replicas of a stage in all copies: a request takes one of so many turns. */
static inline uint32_t sp_placement_turns(const struct sp_placement *placement, uint32_t stage)
{
    return sp_placement_replicas(placement, stage) * sp_placement_copies(placement);
}

/* A stage of a placement, and its nodes: all of them that run, ascending, with folded ones among them or not. */
struct sp_placed_stage {
    const struct sp_placement *placement;
    uint32_t stage, count;
    const uint32_t *nodes;
};

/*
 * Stages of several devices whose operators are split: what only a search that splits them knows. With no such stage,
 * stages have one device for each replica.
 */
struct sp_block_costs {
    void *context;
    bool (*is_split)(void *context, uint32_t stage);
    /* Adds to a split stage's own figures: flops, compute and collective seconds, weights, caches, the peak of
       activations, and the capacity where its devices have not the same. *ret_inside_bytes: what its devices send each
       other. */
    enum sp_status (*stage)(void *context, uint32_t stage, struct sp_stage_cost *cost, double *ret_inside_bytes,
                            struct sp_error *err);
    /* Seconds that a split stage computes, collectives included, of one of several phases. */
    enum sp_status (*phase_seconds)(void *context, uint32_t stage, uint32_t phase, double *ret_seconds,
                                    struct sp_error *err);
    /* Whether the stage's devices may stream weights, and the bytes of those that one of its nodes alone uses. */
    bool (*streams)(void *context, uint32_t stage);
    double (*weight)(void *context, uint32_t stage, uint32_t node);
    /* Bytes and seconds of a transfer to a stage where `user` is the first to use the tensor, and how much of it one
       device has at either end. Asked for all transfers. */
    enum sp_status (*transfer)(void *context, uint32_t user, struct sp_tensor_transfer *transfer,
                               double *ret_sent_bytes, double *ret_received_bytes, struct sp_error *err);
};

/* What a stage's device does for one request in all its stages: sums of seconds and FLOPs, the memory of the fullest;
   the stage's own figures where devices are not shared. */
static inline const struct sp_stage_cost *sp_evaluation_device(const struct sp_evaluation *evaluation, uint32_t stage)
{
    const struct sp_stage_cost *cost = &evaluation->stages[stage];
    return evaluation->devices != NULL ? &evaluation->devices[cost->device] : cost;
}

/* The same of one of the stage's devices, which hold different amounts where they are unequal. */
static inline const struct sp_stage_cost *sp_evaluation_on(const struct sp_evaluation *evaluation, uint32_t stage,
                                                           uint32_t device)
{
    return evaluation->members != NULL ? &evaluation->members[device] : sp_evaluation_device(evaluation, stage);
}

/*
 * Evaluates in time linear in nodes + operands. Results are allocated in `arena`, and nothing else stays there.
 *
 * The placement must be monotone: no node in an earlier stage than a producer of one of its activations. That, and
 * stages or devices out of range, are SP_ERR_INTERNAL. Stages without nodes are allowed.
 */
enum sp_status sp_evaluate(struct sp_arena *arena, const struct sp_workload *workload, const struct sp_cluster *cluster,
                           const struct sp_placement *placement, struct sp_evaluation **ret_evaluation,
                           struct sp_error *err);

/*
 * Latency and interval of an evaluated placement, were all times others: compute_seconds of each stage, and those of
 * each transfer. Everything else of the evaluation is as it was. Takes memory of `arena` that it gives back; false
 * without memory.
 */
struct sp_other_times {
    const double *compute_seconds;  /* per stage */
    const double *transfer_seconds; /* per transfer */
};
bool sp_evaluation_retime(struct sp_arena *arena, const struct sp_evaluation *evaluation,
                          const struct sp_placement *placement, const struct sp_other_times *times,
                          double *ret_latency_seconds, double *ret_interval_seconds);

/* An evaluator holds scratch tables (of the size of the workload, made once), for searches that evaluate many
   placements; its memory is in `arena`. NULL without memory. */
struct sp_evaluator;
struct sp_evaluator *sp_evaluator_create(struct sp_arena *arena, const struct sp_workload *workload,
                                         const struct sp_cluster *cluster);

/* As sp_evaluate(); `blocks` is NULL where no stage is split. */
enum sp_status sp_evaluator_run(struct sp_evaluator *evaluator, struct sp_arena *arena,
                                const struct sp_placement *placement, const struct sp_block_costs *blocks,
                                struct sp_evaluation **ret_evaluation, struct sp_error *err);

/*
 * One stage: all of `ret_cost` but start_seconds, which is 0, and waits_for. `ret_live`, unless NULL, gets the live
 * activations of one request per node; the largest `during` is the peak. Time is linear in the nodes, their operands
 * and the consumers of what they make. The placement must be in range and monotone where these nodes are concerned;
 * nothing is checked.
 */
void sp_evaluator_stage(struct sp_evaluator *evaluator, const struct sp_placed_stage *stage,
                        struct sp_stage_cost *ret_cost, struct sp_live_bytes *ret_live);

/* What one device holds of activations while a node runs. */
struct sp_alive {
    uint32_t tensor; /* no alias */
    uint32_t layout; /* where operators are split (search/strategy); else 0 */
    double bytes;
};
struct sp_alive_list {
    uint32_t node;          /* that runs; SP_NO_WORK: none of the stage does */
    double workspace_bytes; /* with it, the items are the live bytes during the node */
    uint32_t count;
    struct sp_alive *items;
};

/* The list for nodes[entry] of the same stage, or for the first one with the most during it, in the order in which the
   nodes first name the tensors; in `arena`. False without memory. */
#define SP_ENTRY_FULLEST UINT32_MAX
bool sp_evaluator_alive(struct sp_evaluator *evaluator, struct sp_arena *arena, const struct sp_placed_stage *stage,
                        uint32_t entry, struct sp_alive_list *ret_list);

/*
 * Lower bounds that hold for every placement on this cluster, whatever the search:
 *  interval  the largest of: the slowest single node on its fastest device; a bound on the total work (bounds.c); what
 *            has to come from hosts (streaming.h)
 *  latency   the largest of: the longest path through the DAG with each node on its fastest device and free transfers;
 *            the interval bound, since no stage computes longer than the request takes
 */
struct sp_lower_bounds {
    double interval_seconds, latency_seconds;
};
enum sp_status sp_lower_bounds(struct sp_arena *scratch, const struct sp_workload *workload,
                               const struct sp_cluster *cluster, struct sp_lower_bounds *ret_bounds,
                               struct sp_error *err);

/* Of these, without that of a single node: seconds between requests, even if nodes could be cut into fractions. */
enum sp_status sp_work_bound(struct sp_arena *scratch, const struct sp_workload *workload,
                             const struct sp_cluster *cluster, double *ret_seconds, struct sp_error *err);
