#pragma once
/*
 * evaluate - what a placement costs: time, memory and traffic of every device.
 *
 * A placement gives each work node a stage; stage s runs on device stage_device[s]. A tensor made in one stage and used
 * in another is sent once to each stage that uses it.
 *
 * Model of execution (forward only, one request at a time in each stage, requests in a pipeline):
 *  - A stage computes its nodes one after another; sends and receives overlap with computing (double buffers), so a
 *    stage's interval is max(compute, send, receive). Throughput is 1 / the largest interval.
 *  - Latency of one request is the longest path over stages, compute plus transfers: a stage starts a request when all
 * it receives has arrived; parallel stages overlap.
 *  - Memory of a device: its weights once; the largest sum of live activations over its nodes in order (a tensor lives
 *    from its producer to its last use in the stage, to the end when it leaves the stage or the model); and two buffers
 *    for each tensor that crosses its border (planners: 2 * (in + out)).
 *
 * Sources: Huang et al., GPipe, 2019; Narayanan et al., PipeDream, 2019; Tarnawski et al., 2020 (max-load objective).
 */
#include "cost/workload.h"

struct sp_transfer {
    uint32_t tensor;
    uint32_t from_stage, to_stage;
    double bytes, seconds;
};

struct sp_stage_cost {
    uint32_t device;
    uint32_t node_count;
    double flops;
    double compute_seconds, send_seconds, receive_seconds;
    double interval_seconds; /* max of the three */
    double start_seconds;    /* when one request enters, counted from its arrival */
    double weights_bytes, activations_peak_bytes, communication_bytes, total_bytes, capacity_bytes;
};

struct sp_evaluation {
    uint32_t stage_count, transfer_count;
    struct sp_stage_cost *stages;
    struct sp_transfer *transfers; /* by tensor, then by stage */
    double latency_seconds, interval_seconds, communication_bytes;
    uint32_t bottleneck_stage;
    double worst_excess_bytes; /* largest total - capacity over the stages; <= 0 when everything fits */
    uint32_t worst_stage;      /* where */
};

struct sp_placement {
    uint32_t stage_count;
    uint32_t *stage_of;     /* work node -> stage */
    uint32_t *stage_device; /* stage -> device, distinct */
};

/* Evaluates in time linear in nodes + operands. Results are allocated in `arena`. The placement must be monotone: no
   node in an earlier stage than a producer of one of its activations (SP_ERR_INTERNAL otherwise). */
enum sp_status sp_evaluate(struct sp_arena *arena, const struct sp_workload *workload, const struct sp_cluster *cluster,
                           const struct sp_placement *placement, struct sp_evaluation **ret_evaluation,
                           struct sp_error *err);

/*
 * Lower bounds that hold for every placement on this cluster, whatever the search:
 *  interval  max(total seconds on the fastest mix / devices, the slowest single node on its fastest device)
 *  latency   the longest path through the DAG with each node on its fastest device and free transfers
 */
struct sp_lower_bounds {
    double interval_seconds, latency_seconds;
};
enum sp_status sp_lower_bounds(struct sp_arena *scratch, const struct sp_workload *workload,
                               const struct sp_cluster *cluster, struct sp_lower_bounds *ret_bounds,
                               struct sp_error *err);
