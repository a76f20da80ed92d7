#pragma once
/*
 * joint - the search that everything else is a part of: stages of devices, each stage's operators split over its
 * devices, replicas of stages, copies of all of them.
 *
 * A *placement* gives nodes to stages. A stage has a *block* of devices with neighbouring numbers, once for each of its
 * replicas: equal ones, aligned to the links' levels, or unequal ones with a share of what is split for each
 * (unequal/unequal.h, run/shares.c). Inside a block the operators run split along a mesh (strategy.h);
 * batch, heads, features, experts and sequence are factors like any other, so data, tensor, expert and sequence
 * parallelism are what the strategies make of them. Between blocks a pipeline runs as evaluate.h says. Replicas take
 * requests in turn, and so do copies of a whole plan (run/copies.h).
 *
 * Evaluation (sp_joint_evaluate), a stage being one block of one replica:
 *   compute       of one device, of all its nodes one after the other, with the collectives between them
 *   transfers     a tensor goes once from each stage to each stage that uses it, from the layout in which it is made to
 *                 the one in which it is used first there, by the steps that reshard.h finds between the two blocks
 *   interval      max(compute, sends, receives) / replicas
 *   latency       the longest path of one request
 *   memory        of one device: weights, peak of activations, two buffers for its part of each tensor that crosses
 * With blocks of one device and no replicas this is sp_evaluate(), to the last digit.
 *
 * Search. For each size of blocks the operators' strategies are chosen for the whole model under the memory that so
 * many stages have together (choice.h); with the seconds and bytes that follow the model is cut into stages of one
 * or several sizes of blocks and classes of devices (stages.h); each stage's strategies are then chosen again under
 * its own memory, borders move while that helps, and every candidate is evaluated exactly. What is not dominated in
 * latency, interval, memory per device and devices is kept as the front. The best plan of whole operators starts from
 * grouping.h or from the stages; single nodes of it move while that helps.
 *
 * A block's mesh has axes as the links have levels (stage_options.h). Where a stage may be all of a plan (for a
 * latency, or one stage is asked for) the blocks that promise most are tried with axes that end elsewhere, too
 * (mesh_variants.h).
 *
 * Equal questions get equal answers, whatever the number of threads.
 */
#include "base/executor.h"
#include "search/grouping/grouping.h"
#include "search/routes/routed.h"
#include "search/strategy/intra.h"

enum sp_search_strategy {
    SP_STRATEGY_AUTO = 0, /* all of these, routes for the throughput of unequal devices; the best plan */
    SP_STRATEGY_GROUPING, /* whole operators: stages of one device, as grouping.h and stages.h find them */
    SP_STRATEGY_PIPELINE, /* whole operators: stages of one device, with replicas */
    SP_STRATEGY_TENSOR,   /* one stage: all devices work on every operator */
    SP_STRATEGY_ROUTES    /* whole operators: devices hold intervals that overlap (search/routes/routed.h) */
};

/* How a stage's nodes are split over its devices. */
struct sp_sharded_stage {
    struct sp_strategy_table *table; /* of the stage's mesh; stages with equal meshes share it. NULL: one device */
    uint32_t node_count;
    const uint32_t *nodes;               /* that run, ascending */
    const uint32_t *strategy_of;         /* per entry of `nodes` */
    const struct sp_intra_result *intra; /* reshards and seconds inside the stage */
};

/* Another plan that was found and that no other beats in everything. */
struct sp_front_plan {
    const char *description; /* "4 stages of 2 devices", for people */
    enum sp_search_strategy strategy;
    uint32_t stage_count, devices_used, copies;             /* 1: no copies */
    double latency_seconds, interval_seconds, memory_bytes; /* of the fullest device */
    double used_share; /* of the memory of the device that has least left, 0 to 1 */
    uint32_t messages; /* of one request: transfers between stages, and what devices of a stage exchange */
    bool is_chosen;
};

/* A better plan than the one that was chosen, if only the devices had more memory. */
struct sp_short_of_memory_plan {
    struct sp_front_plan plan; /* memory_bytes: with so many on each device it would fit */
    uint32_t device;           /* which lacks most: the first of its block */
    const char *node;          /* at which that device is fullest; NULL: none of the stage runs */
    double needed_bytes, capacity_bytes;
};

struct sp_search_store; /* search/joint/shared/store.h */

struct sp_search_result {
    struct sp_placement placement;
    struct sp_evaluation *evaluation;
    const struct sp_sharded_stage *sharded; /* per stage; NULL: no operator is split */
    struct sp_lower_bounds bounds;          /* that hold for every plan of the strategies that were allowed */
    /* Requests take several routes, and `placement` is the one that most take. Of `evaluation` latency, interval and
       bytes are of all routes, and a stage's interval is what its device is busy for on average; NULL: one route. */
    const struct sp_routed *routes;
    enum sp_search_strategy strategy; /* that made it */
    uint64_t explored;                /* placements evaluated */
    uint64_t accepted;                /* moves taken */
    uint32_t candidates, subgraphs;   /* of grouping */
    double memory_share;              /* of grouping: the step of its schedule that fitted; else 1 */
    bool stopped;                     /* the watch ended the search */
    const struct sp_error *failure;   /* why a way of searching ended before its time; NULL: none did */
    uint32_t front_count;             /* ascending by the objective; the answer is among them */
    const struct sp_front_plan *front;
    const struct sp_front_plan *best; /* what was found that is better by no more than the tolerance; NULL: nothing */
    const struct sp_front_plan
        *second; /* the best plan of another form (pareto_front.h) that was found; NULL: none was */
    const struct sp_short_of_memory_plan *beyond; /* the best that was seen; NULL: none was better */
    bool is_proved;                               /* every plan was tried */
    struct sp_search_store *store; /* of the tables of meshes, where it is this search's own; NULL: the caller's */
    uint32_t table_count;          /* other tables that belong to the result; entries may be NULL */
    struct sp_strategy_table **tables;
};

struct sp_constraints; /* search/constraints.h */

/* A plan that was evaluated, fits and keeps the constraints, while the search goes on. */
struct sp_seen_plan {
    const struct sp_placement *placement;
    const struct sp_sharded_stage *sharded; /* per stage, or NULL */
    const struct sp_routed *routes;         /* several, as in sp_search_result; or NULL */
    const struct sp_evaluation *evaluation;
    enum sp_search_strategy strategy;
    uint32_t devices_used;
};

/* Who judges plans by more than the search knows: it is told every plan that might be the answer, of tiny models every
   plan that fits. It says in *ret_keep whether what the plan points to has to stay as long as the search's arena. */
struct sp_plan_listener {
    void *context;
    enum sp_status (*hear)(void *context, const struct sp_seen_plan *plan, bool *ret_keep, struct sp_error *err);
};

struct sp_joint_options {
    enum sp_objective objective;
    enum sp_search_strategy strategy;
    bool optimal;
    bool skip_minimum_memory; /* where nothing fits, do not look for memory that would do: minimum_memory.h */
    double tolerance;   /* plans whose figures differ by no more than this share count as equal, and fewer devices, more
                         free memory and so on decide (run/near_best.h); 0: the best plan is the answer */
    bool any_plan;      /* the first plan that fits ends the search: only whether there is one is asked */
    bool any_sets;      /* devices may hold any sets of nodes: any_sets.h. For throughput, without a dataflow,
                                 replicas or constraints */
    bool skips_routes;  /* requests take one route, whatever the strategy */
    bool skips_gathers; /* no weight is gathered: other phases read the weights as they lie */
    uint32_t max_replicas; /* of one stage, that take requests in turn; 1: none, 0: as many as there are devices */
    uint32_t max_copies;   /* of the whole plan, likewise (run/copies.h); not with any_sets */
    uint64_t seed;
    const struct sp_executor *executor;
    const struct sp_watch *watch;
    const struct sp_constraints *constraints; /* of the user, or NULL: a plan keeps all of them */
    const struct sp_plan_listener *listener;  /* or NULL */
    /* What searches have in common; NULL, or one of another workload: this one's own. The caller's, and it has to outlive
       the result. */
    struct sp_search_store *store;
};

void sp_joint_options_init(struct sp_joint_options *options);

/*
 * Searches. `dataflow` is of the workload's model; NULL (a graph of costs): no operator can be split. Errors:
 * SP_ERR_NOFIT (bounds.h), and SP_ERR_REQUEST "CONSTRAINT_UNSUPPORTED" where no plan was found that keeps the
 * constraints: the message names the kind of constraint without which there is one. The result lives in `arena`;
 * sp_search_result_release() gives back what it holds beside.
 */
enum sp_status sp_joint_search(struct sp_arena *arena, const struct sp_workload *workload,
                               const struct sp_dataflow *dataflow, const struct sp_cluster *cluster,
                               const struct sp_joint_options *options, struct sp_search_result **ret_result,
                               struct sp_error *err);
void sp_search_result_release(struct sp_search_result *result); /* tables and the store; NULL is allowed */

/*
 * Evaluates a placement whose stages are blocks. `sharded` has the table, nodes and strategies of each stage whose
 * block has more than one device; `intra` is filled in. Placement as sp_evaluate() wants it.
 */
enum sp_status sp_joint_evaluate(struct sp_arena *arena, const struct sp_workload *workload,
                                 const struct sp_cluster *cluster, const struct sp_placement *placement,
                                 struct sp_sharded_stage *sharded, struct sp_evaluation **ret_evaluation,
                                 struct sp_error *err);

/* The name of a strategy as requests give it: "auto", "grouping", "pipeline", "tensor", "routes"; static. */
const char *sp_search_strategy_name(enum sp_search_strategy strategy);
bool sp_search_strategy_parse(const char *name, enum sp_search_strategy *ret_strategy);
