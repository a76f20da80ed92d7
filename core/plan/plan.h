#pragma once
/*
 * plan - the answer: which device does what, what it costs, and why.
 *
 * A plan is made from a workload, a cluster and the search's result, and is immutable. It can be written as JSON (the
 * fixed form of the product's contract), as text for people, and realised as an annotated model.
 *
 * Every choice carries its reason: each tensor says `because`, the estimate names its bottleneck in one sentence, and
 * the bound that was proved stands beside the estimate.
 */
#include "base/json_writer.h"
#include "base/rows.h"
#include "cost/evaluate.h"
#include "onnx/writer.h"
#include "plan/explain/error_bars.h"
#include "plan/model_file.h"
#include "search/joint/joint.h"

#define SP_PLAN_CONFIGURATION                                                                                          \
    "shardplan" /* the DeviceConfiguration that the annotated model carries; a phase of a
                                             service that lays its tensors in another way has "shardplan.PHASE" */

struct sp_plan_note {
    const char *code;          /* stable, e.g. "DIMENSION_ASSUMED" */
    const char *severity;      /* "error", "warning", "note" */
    const char *message;       /* a full sentence */
    const char *node, *tensor; /* or NULL */
    const char *hint;          /* what to do, or NULL */
};

/* What the verification of its devices came to (plan/proof/proof.h). */
struct sp_plan_proof {
    const char *state; /* "proved" or "undecided": what is refuted is no plan */
    double seconds;    /* measured by the caller */
    uint64_t nodes;    /* of the devices, that were evaluated */
    uint64_t elements; /* of the outputs, that were compared */
    uint32_t reason_count;
    const char *const *reasons; /* full sentences: what could not be decided, and why */
};

struct sp_plan {
    struct sp_arena *arena;
    const char *configuration;        /* that the annotated model has for it */
    const struct sp_model *model;     /* NULL: the file is a graph of costs */
    const struct sp_model_file *file; /* what the model was read from; NULL: a file that the caller has as it is */
    const struct sp_workload *workload;
    const struct sp_cluster *cluster;
    const struct sp_search_result *result;
    enum sp_objective objective;
    double tolerance;           /* sp_joint_options.tolerance */
    double max_latency_seconds; /* that a constraint gives a request; 0: none does */
    const char *strategy;       /* "grouping" */
    uint64_t seed;
    const char *id; /* hex fingerprint of model, cluster and options: the same question has the same id everywhere */
    const char *model_name;
    char model_sha256[65];     /* "" when the caller did not know it: the id is then made of name and size */
    const char *options_json;  /* the options as they were understood, canonical JSON */
    const char *bottleneck;    /* one sentence */
    struct sp_error_bars bars; /* set by sp_plan_finish() */
    uint32_t note_count;
    const struct sp_plan_note *notes;
    const struct sp_variants *sweep, *what_if; /* plan/variants/variants.h; NULL: not asked for */
    const double *cut_seconds;  /* set by sp_plan_finish(): what each node takes more where its kernel is cut */
    struct sp_rows stage_nodes; /* set by sp_plan_finish(): the nodes of each stage, in order */
    double *arena_bytes;        /* per stage: cost/buffer_reuse.h, of one device */
    const struct sp_migration *migration; /* plan/replan/replan.h; NULL: it follows no other plan */
    const struct sp_micro_batches *micro; /* plan/micro/micro.h; NULL: nobody asked for micro-batches */
    const struct sp_service *service;     /* plan/service/service.h; NULL: it is one step */
    struct sp_plan_proof *proof; /* set by sp_plan_prove(); NULL: nobody asked for it, or there are no operators */
    uint32_t *node_strategy;     /* per work node: its strategy in its stage's table; NULL: no operator is split */
};

/*
 * The estimate of the objective and the bound that was proved for it: the interval between two results for throughput
 * and for the fewest devices, the latency of one request for latency. gap = (value - bound) / value, in [0, 1]. The best
 * that was found is the value itself, or less by no more than the tolerance (search/joint/run/near_best.h).
 */
struct sp_plan_gap {
    double value_seconds, bound_seconds, gap, best_seconds;
};
struct sp_plan_gap sp_plan_gap(const struct sp_plan *plan);

/* Completes `plan` (stages' nodes and arenas, with a note where they are too large; error bars, bottleneck, id) once the members
   from `model` to `options_json` and the notes are set. */
enum sp_status sp_plan_finish(struct sp_plan *plan, struct sp_error *err);

/*
 * The contract's JSON, streamed; memory is that of one tensor's entry. `search_seconds` is measured by the caller; it and
 * the proof's seconds are the only members that differ between runs.
 *
 *  estimate     Of whole requests; with micro-batches, too. `latency_range` and its like have the figure and the ends of the interval in which 90 % of what is
 *               measured lies (explain/error_bars.h); both are the figure where all times were stated.
 *  devices      Every device of the cluster; `stage` is null for one that the plan leaves free. idle_seconds is the
 *               interval of the plan less the device's own: sends and receives overlap with computing, so compute,
 *               communication and idle need not add up to the interval. memory.arena_bytes is what a runtime's arena
 *               takes for activations at its peak (cost/buffer_reuse.h). Whether a plan fits depends on total_bytes,
 *               the least that is needed; the diagnostic ARENA_OVER_CAPACITY says where the arena would not fit.
 *               Where devices are shared (cost/evaluate.h), `stages` lists all of a device, and its figures are of them
 *               together; `stage` is the first.
 *  stages       `devices` are those of all replicas: the first replica's block, then the next one's. `mesh` has the
 *               axes of one block, major to minor, with what they split; none where a block is one device. All seconds
 *               are of one request, of all its micro-batches together; `seconds` is divided by the replicas. Only
 *               start_seconds is of the first micro-batch.
 *  tensors      All values that occupy a device: inputs, weights that running nodes use, activations. A spec without
 *               "sharded_dim" is the whole tensor on each listed device (ONNX proposal 0006). Its text has S[i] for a
 *               tensor axis that axis i of the stage's mesh cuts, and R for one that is whole. A tensor that is cut has
 *               the spec of the node that makes it, or uses it first; `uses` are the others: of each stage and layout
 *               the first node, and all nodes.
 *  collectives  Transfers between stages, kind "send", from the devices of one block to those of the next; then, stage
 *               by stage, what the devices of one block exchange. `bytes` are those of all of these devices together
 *               for one request, so they add up to the estimate's.
 *  routes       where requests take several (search/routes/routed.h): the members of the estimate are of all of them;
 *               stages, tensors, collectives, caches and the annotated model are those of the first one, and `stage` is
 *               null for a device that is on others only. `seconds` of a stage are what its device is busy for.
 *  search       `alternatives` are the Pareto-optimal plans in latency, interval, memory and devices, and this one.
 *
 *  micro_batches  Where requests are cut: latency_seconds and interval_seconds are of one micro-batch alone.
 *  proof        whether the devices compute what the model computes; no member where that was not looked at.
 *
 *  replan, moves  Of a plan that follows another one, what has to be moved (replan/write.h).
 *
 * Device numbers in JSON are the cluster's; those of the annotated model number the used ones from 0.
 */
void sp_plan_write_json(const struct sp_plan *plan, double search_seconds, struct sp_json *json);

/* What people read: a header, a line per stage, transfers, the estimate. Appended to `buf`. */
void sp_plan_write_text(const struct sp_plan *plan, struct sp_buf *buf);

/*
 * The model with the plan's configuration, stages and placement specs; see onnx/writer.h. The configuration names the
 * devices that are used ("a100-sxm4-80gb:2" is device 2 of the cluster), numbered in the cluster's order. Each node of
 * the main graph gets its stage and, for each of its inputs and outputs, the device that holds the whole tensor for it.
 * The plan of a service has a configuration more for each phase whose tensors lie in another way (plan/service/service.h).
 * *ret_splice is the caller's to destroy.
 */
enum sp_status sp_plan_annotate(const struct sp_plan *plan, struct sp_splice **ret_splice, struct sp_error *err);
