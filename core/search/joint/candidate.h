#pragma once
/*
 * candidate - from profiles to plans that are evaluated exactly.
 *
 *  propose    the units are cut into stages, each under one of the given profiles (stages.h); what is alive in a stage
 *             is counted exactly, with the profiles' strategies (stage_set.h)
 *  allot      stages get their blocks of devices, in the order of the pipeline
 *  rechoose   each stage's strategies are chosen again under its own memory; what still does not fit is chosen under
 *             less
 */
#include "cost/stage_set.h"
#include "search/joint/cut_units.h"
#include "search/joint/evaluate.h"
#include "search/joint/model_choice.h"
#include "search/joint/shared/store.h"
#include "solvers/stages/stages.h"

struct sp_joint_candidate {
    struct sp_placement placement;
    struct sp_sharded_stage *sharded;       /* per stage; NULL: no operator is split */
    const struct sp_space_option **options; /* per stage */
    const struct sp_routed *routed; /* several routes; placement and evaluation then as in sp_search_result. Or NULL */
    struct sp_evaluation *evaluation;
    enum sp_search_strategy strategy;
    bool fits;
    bool is_draft;       /* of a proposal without limits: evaluated as it is, without choosing again */
    bool is_hopeful;     /* of such a proposal: worth choosing again only where it is better than what is known */
    double memory_bytes; /* of the fullest device */
    uint32_t devices_used;
};

/* A plan that may be the answer, and what of it decides where others are as good (run/near_best.h). */
struct sp_near_plan {
    struct sp_joint_candidate *candidate;
    double used_share; /* of the memory of its fullest device, 0 to 1 */
    uint32_t messages; /* of one request: transfers between stages, and what devices of a stage exchange */
};
#define SP_NEAR_PLANS 64 /* kept at most */

/* Work of one choice of strategies. A plan makes dozens of choices; what they lose beyond that is thousandths. */
#define SP_JOINT_CHOICE_WORK ((uint64_t)10000000)

/* What all candidates of one search share. */
struct sp_joint {
    struct sp_arena *arena;
    const struct sp_workload *workload;
    const struct sp_dataflow *dataflow; /* NULL: operators cannot be split */
    const struct sp_cluster *cluster;
    const struct sp_joint_options *options;
    struct sp_space *space;
    struct sp_search_store *store;
    const struct sp_blocks *blocks;        /* NULL without a dataflow */
    struct sp_strategy_table **tables;     /* per option of the space, when somebody needed it */
    struct sp_strategy_table **own_tables; /* of these, those that are not the store's */
    struct sp_units *units;
    struct sp_joint_evaluator *evaluator;
    struct sp_joint_candidate
        *ranked[2];                    /* the best of all that fit, and the best one of another form: pareto_front.h */
    struct sp_joint_candidate *beyond; /* the best of those that lack memory, and nothing else */
    uint32_t near_count;
    struct sp_near_plan near[SP_NEAR_PLANS]; /* within the tolerance of the best: run/near_best.h */
    uint64_t explored, accepted;
    size_t known_bytes; /* of all profiles' known bytes: stage_memory.h */
    bool stopped;
    bool memory_binds; /* the last proposal was made under a limit of memory that some stages do not keep */
};

/* Tells a candidate that fits to the listener, if there is one. */
enum sp_status sp_joint_tell(const struct sp_joint *joint, const struct sp_joint_candidate *candidate, bool *ret_keep,
                             struct sp_error *err);

/* The table of an option's mesh; NULL for blocks of one device. */
enum sp_status sp_joint_table(struct sp_joint *joint, const struct sp_space_option *option,
                              struct sp_strategy_table **ret_table, struct sp_error *err);

/* An empty candidate in the search's arena, or NULL without memory. */
struct sp_joint_candidate *sp_joint_candidate_create(struct sp_joint *joint, uint32_t stage_count);

struct sp_proposal {
    uint32_t profile_count;
    const struct sp_model_choice *const *profiles; /* that stages may have */
    enum sp_objective objective;
    uint32_t max_stages, max_replicas; /* 0: any number */
    double load_limit;                 /* SP_OBJECTIVE_DEVICES: seconds between requests, at most; 0: any */
    bool is_draft;                     /* as if there were memory enough; strategies stay those of the profiles */
    bool is_hopeful; /* stages may need less than with the profiles' strategies: only what is sure counts as memory */
};

/* Parts of the model for sets of them (stage_set.h), with a block for each profile of the proposal: `part_of` per work
   node. NULL without memory. */
struct sp_stage_parts *sp_joint_parts(const struct sp_joint *joint, const struct sp_proposal *proposal,
                                      uint32_t part_count, const uint32_t *part_of);

/* Whether all stages are single devices: those that do not fit may then be mended by moving nodes. */
bool sp_joint_is_of_devices(const struct sp_proposal *proposal);

/* *ret_candidate is NULL where the stages' search finds nothing that fits its estimate, or its blocks cannot be
   allotted; of stages of single devices it is then what lacks least. Otherwise its strategies are chosen and it is
   evaluated, and may or may not fit. */
enum sp_status sp_joint_propose(struct sp_joint *joint, const struct sp_proposal *proposal,
                                struct sp_joint_candidate **ret_candidate, struct sp_error *err);

/* Everything on one block of the last profile, once: strategies are chosen within the block's memory, so it may fit
   where the profiles' estimates do not. */
enum sp_status sp_joint_propose_whole(struct sp_joint *joint, const struct sp_proposal *proposal,
                                      struct sp_joint_candidate **ret_candidate, struct sp_error *err);

/* What sp_group() finds with at most `most_stages` (0: any number), as a candidate, which may not fit. */
enum sp_status sp_joint_group(struct sp_joint *joint, uint32_t most_stages,
                              const struct sp_grouping_result **ret_grouping, struct sp_joint_candidate **ret_candidate,
                              struct sp_error *err);

/* A candidate in which single nodes of `whole` have moved as long as that helped; it may be the same plan. With
   SP_STRATEGY_GROUPING an interval may be 0.1 % longer where fewer bytes are sent. */
enum sp_status sp_joint_move_nodes(struct sp_joint *joint, const struct sp_joint_candidate *whole,
                                   struct sp_joint_candidate **ret_moved, struct sp_error *err);
