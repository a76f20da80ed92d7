#pragma once
/*
 * stages - which devices run which nodes: a graph of costs cut into stages on classes of devices.
 *
 * The problem knows nothing of ONNX. Nodes take seconds and bytes that depend on the *option* a stage runs under: a
 * class of devices and how many of them (a submesh, a tensor-parallel degree, a data-parallel one). A *stage* is a set
 * of nodes under one option; it may have replicas that take turns, which divide its load.
 *
 *   load of a stage    combine(max(sum of seconds of its nodes, copies), sum of receives, sum of sends) / replicas
 *   copies             of what a stage takes beyond option.own_bytes, which lies elsewhere and is copied to its devices
 *                      for each sample while they compute: option.copy_per_byte * bytes; none without copy_per_byte,
 *                      none of any sets as stages
 *   receive            for each tensor made outside and used inside, once: option.transfer_fixed + per_byte * bytes
 *   send               for each tensor made inside and used outside, once: the same. With `sends_to_each`, once for
 *                      each stage that uses it
 *   combine            SUM (a device that cannot overlap) or MAX (double buffers; evaluate.h). SUM is the definition of
 *                      Tarnawski et al. 2020: with it this solver is held to their published results, also for any
 *                      sets (tests/bench/placement). Plans are made with MAX.
 *   memory             weight bytes of its nodes, shared ones once per stage, + the largest `held` bytes of its nodes,
 *                      within option.memory_bytes
 *
 * Objectives
 *   THROUGHPUT  the smallest largest load
 *   LATENCY     the earliest end of one sample. A stage starts when all it receives is there and ends after receives +
 *               nodes + sends; under an option with `is_free` (processors that cost nothing and are as many as nodes)
 *               nodes run one by one, each when its inputs are there, without transfers. The stages' graph has no
 *               cycle.
 *   DEVICES     the fewest devices, with loads of at most load_limit
 *
 * Contiguous: the stages of forward nodes can be put in an order in which no edge goes back, so each is convex
 * (a difference of two ideals); the stages of backward nodes in the reverse order, or in the same one where then fewer
 * nodes must be together (some published graphs have the edges of backward nodes turned). Edges between forward and
 * backward nodes may go either way. Nodes of one colour are in one stage (shared weights; a backward node with its
 * forward node).
 *
 * Every result has a lower bound that holds for all solutions of its kind, and says whether it was proved.
 *
 * Sources: Tarnawski, Phanishayee, Devanur, Mahajan, Nina Paravecino: "Efficient Algorithms for Device Placement of DNN
 * Graph Operators", NeurIPS 2020 (ideals, max-load, latency); Tarnawski, Narayanan, Phanishayee: "Piper", NeurIPS 2021;
 * Zheng et al.: "Alpa", OSDI 2022; Archer et al.: "Practical Performance Guarantees for Pipelined DNN Inference", ICML
 * 2024 (linearisations and their slices).
 */
#include "base/arena.h"
#include "base/cancel.h"
#include "base/executor.h"

#define SP_NO_STAGE_GROUP UINT32_MAX

/* Memory is kept up to rounding: as a fraction of the limit. */
#define SP_STAGES_SLACK 1e-9

struct sp_stages_node {
    double weight_bytes; /* of weights that only this node has */
    double held_bytes;   /* in use while it runs, activations that are alive included */
    uint32_t color;      /* nodes of one colour are in one stage; SP_NO_STAGE_GROUP: none */
    bool is_backward;
};

/* What one node makes for others. */
struct sp_stages_tensor {
    uint32_t producer;
    double bytes;
    uint32_t consumer_count;
    const uint32_t *consumers; /* distinct */
};

/* Weights that several nodes use. */
struct sp_stages_weight {
    double bytes;
    uint32_t user_count;
    const uint32_t *users;
};

struct sp_stages_option {
    uint32_t device_class;
    uint32_t devices;      /* of the class, for one replica; 1 or more */
    uint32_t max_replicas; /* 1 or more; 0: as many as there are */
    double memory_bytes;   /* that one stage may take under this option (all figures per device) */
    double own_bytes;      /* of these, what the devices have themselves; looked at only with copy_per_byte */
    double copy_per_byte;  /* seconds; 0: all of memory_bytes is the devices' own */
    double copied_most;    /* bytes that one stage may have copied; looked at only with copy_per_byte */
    double memory_scale;   /* of the nodes' bytes under this option: 1 / devices where everything is split */
    const double *seconds; /* per node; INFINITY: not under this option */
    /* Per node, or NULL: the node's own figure times memory_scale. Shards differ from node to node. */
    const double *weight_bytes, *held_bytes;
    double transfer_fixed, transfer_per_byte;
    double transfer_share; /* with levels and sends_to_each: of a tensor's bytes, what one device has */
    bool is_free;          /* LATENCY: see above */
};

/* Links of one level: devices in different groups of so many neighbours talk over it. */
struct sp_stages_level {
    uint32_t group;
    double fixed, per_byte;
};

/*
 * Memory of stages that is no sum over nodes: whoever states the problem counts it. What options and nodes say of memory
 * are then lower bounds, of each set that has the node. A set is a stage that grows and shrinks, and may count what it needs
 * when it is asked; sets of one context may be used side by side.
 */
struct sp_stages_memory {
    const void *context;
    void *(*create)(const void *context, struct sp_arena *arena); /* an empty set; NULL without memory */
    void (*put)(void *set, uint32_t node);
    void (*take)(void *set, uint32_t node);
    double (*bytes)(void *set, uint32_t option);
    /* What a set has copied for each sample that takes `lacking` bytes more than its devices have: as much or more;
       INFINITY: it has not enough that can be copied. NULL: as much. */
    double (*copied)(void *set, uint32_t option, double lacking);
};

enum sp_stages_objective { SP_STAGES_THROUGHPUT = 0, SP_STAGES_LATENCY, SP_STAGES_DEVICES };
enum sp_stages_combine { SP_STAGES_SUM = 0, SP_STAGES_MAX };

struct sp_stages_problem {
    uint32_t node_count, tensor_count, weight_count, option_count, class_count;
    const struct sp_stages_node *nodes; /* in any order; the graph has no cycle */
    const struct sp_stages_tensor *tensors;
    const struct sp_stages_weight *weights;
    const struct sp_stages_option *options;
    const uint32_t *class_size; /* devices of each class */
    enum sp_stages_objective objective;
    enum sp_stages_combine combine;
    const struct sp_stages_memory *memory; /* or NULL: as above. Not for training, nor for any sets as stages */
    /* Contiguous stages; NULL: options say what transfers take. All devices stand in a row, those of a class from
       class_first on, and stages have neighbouring ones of their class in order. Two devices talk over the first level (the
       outermost, which knows no groups of all devices) whose groups tell them apart. */
    const struct sp_stages_level *levels;
    uint32_t level_count;
    const uint32_t *class_first;
    bool sends_to_each;  /* to each stage that uses a tensor, with two buffers more for each but one; not for LATENCY */
    bool non_contiguous; /* THROUGHPUT: any sets of nodes may be stages (search/joint/any_sets.h) */
    uint32_t max_stages; /* 0: as many as there are devices */
    double load_limit;   /* DEVICES: of each stage; 0: none */
};

struct sp_stages_options {
    uint64_t seed;
    uint64_t work_limit; /* 0: the default, which grows with the problem */
    uint64_t max_ideals; /* beyond these the exact search over ideals is not tried; 0: SP_STAGES_IDEALS */
    const struct sp_executor *executor;
    const struct sp_watch *watch; /* false ends with the best so far */
    const volatile bool *stop;    /* the same, seen by all tasks; may be NULL */
    struct sp_budget *budget;     /* of the solver's own memory; may be NULL */
    bool skips_minimum_memory;    /* where nothing fits, minimum_memory_factor and its stages are not looked for */
};
#define SP_STAGES_IDEALS ((uint64_t)200000)

struct sp_stage {
    uint32_t option, replicas;
    uint32_t place; /* where links have levels: of its first device among those of its class */
    uint32_t node_count;
    const uint32_t *nodes;                                                             /* ascending */
    double load_seconds, compute_seconds, receive_seconds, send_seconds, memory_bytes; /* compute: with its copies */
    double start_seconds, end_seconds;                                                 /* LATENCY */
};

struct sp_stages_result {
    bool is_feasible;
    bool is_optimal; /* value == bound, up to rounding of sums */
    bool is_stopped;
    double value, bound; /* of the objective */
    uint32_t stage_count;
    struct sp_stage *stages;  /* contiguous: in an order in which no forward edge goes back; so for LATENCY, unless an
                                 option is free */
    const uint32_t *stage_of; /* per node */
    uint64_t ideals;          /* counted, 0 where it was not exact */
    uint64_t work;
    /* Where nothing fits: the smallest factor of all memory_bytes with which something would, as far as known, whatever
       is copied. The stages are then those that would fit; what they cost is not set. Without any (a factor of INFINITY,
       or it is not looked for) there is no stage. */
    double minimum_memory_factor;
};

/* Searches; the result in `arena`. Errors: SP_ERR_MEMORY, SP_ERR_REQUEST for a problem that is not well formed (a
   cycle, an index out of range). Nothing feasible is no error. Equal problems, seeds and work limits give equal
   results. */
enum sp_status sp_stages_solve(struct sp_arena *arena, const struct sp_stages_problem *problem,
                               const struct sp_stages_options *options, struct sp_stages_result **ret_result,
                               struct sp_error *err);

/*
 * What given stages cost, by the definitions above: fills loads, memory, start and end of each and the objective's
 * value. `*ret_fault` is NULL, or a sentence (in `arena`) that says which constraint is broken.
 */
enum sp_status sp_stages_evaluate(struct sp_arena *arena, const struct sp_stages_problem *problem, uint32_t stage_count,
                                  struct sp_stage *stages, double *ret_value, const char **ret_fault,
                                  struct sp_error *err);
