#pragma once
/*
 * internal - what the files of the search share. Nothing outside core/search includes this.
 *
 * Glossary
 *  live node  a node that is not folded; only these are placed, folded ones follow them
 *  candidate  a placement of all live nodes with its score
 *
 * Stages never fall along an edge, so they are convex. Every candidate is evaluated by cost/evaluate.h: nothing here
 * counts memory or seconds on its own.
 */
#include "cost/contract.h"
#include "search/grouping/grouping.h"

#define SP_NO_POSITION UINT32_MAX

/* The share by which two intervals may differ and still be called equal when communication is compared: a cost model
   is not better than this. */
#define SP_SEARCH_TOLERANCE 0.005
#define SP_SAVING_TOLERANCE 0.001 /* the same where fewer bytes are looked for */

/* More than any memory lacks. */
#define SP_UNABLE_BYTES 1e27

struct sp_score {
    bool valid;
    double excess_bytes;  /* summed over the stages, against the share of memory in force; 0 = fits; and
                             SP_UNABLE_BYTES for each node that its device cannot run */
    double worst_excess;  /* largest over the stages, against that share; may be negative */
    uint32_t worst_stage; /* where */
    double interval, latency, communication;
    uint32_t stage_count, bottleneck;
};

struct sp_candidate {
    uint32_t stage_count;
    uint32_t *stage_of;     /* work node -> stage; folded nodes: undefined until the end */
    uint32_t *stage_device; /* room for search.stage_room stages */
    struct sp_score score;
};

/* What the evaluation said of one stage, for the moves. */
struct sp_stage_figures {
    double excess_bytes, total_bytes, compute_seconds, interval_seconds;
};

struct sp_grouping_search {
    struct sp_arena *arena;
    const struct sp_workload *workload;
    const struct sp_cluster *cluster;
    enum sp_objective objective;
    bool optimal;
    bool same_devices; /* all devices of one kind and one memory */
    bool cancelled;
    const struct sp_watch *watch;
    struct sp_error *err;

    double share;         /* of each device's memory that may be used now */
    uint32_t stage_limit; /* most stages allowed now */
    uint32_t stage_room;  /* most stages ever: min(devices, live nodes), at least 1 */
    uint32_t *devices;    /* the order in which devices become stages now */

    uint32_t live_count;
    uint32_t *live; /* live nodes in id order */
    struct sp_evaluator *evaluator;

    /* Counts and progress. */
    uint64_t explored, accepted, evaluations_left, steps, next_tick;
    double ceiling;                /* interval up to which fewer bytes are better; 0: the objective decides */
    struct sp_candidate incumbent; /* the best that fits so far: the answer when the watch ends the search */
    double fraction, best_seconds, bound_seconds; /* bound_seconds: of the objective */
};

/* ---- search.c: context ---- */

enum sp_status sp_search_init(struct sp_grouping_search *search, struct sp_arena *arena,
                              const struct sp_workload *workload, const struct sp_cluster *cluster,
                              const struct sp_grouping_options *options, struct sp_error *err);

/* ---- candidates.c: ticks, candidates ---- */

/* Work steps (about an operand each) between two looks at the watch: well under a millisecond. */
#define SP_SEARCH_TICK 32768

/* Counts work and lets the watch look; SP_ERR_CANCELLED when it says so. */
enum sp_status sp_search_step(struct sp_grouping_search *search, uint64_t steps);
enum sp_status sp_candidate_init(struct sp_grouping_search *search, struct sp_candidate *candidate);
void sp_candidate_copy(const struct sp_grouping_search *search, struct sp_candidate *to,
                       const struct sp_candidate *from);
/* Gives every folded node the smallest number among the nodes that need its result, 0 when none does. */
void sp_place_folded(const struct sp_workload *workload, uint32_t *of);
/* Renumbers the stages so that none is empty, then evaluates. `figures` (stage_room of them) may be NULL. */
enum sp_status sp_candidate_score(struct sp_grouping_search *search, struct sp_candidate *candidate,
                                  struct sp_stage_figures *figures);
/* Whether `a` is strictly better for the objective; what does not fit compares by its excess. */
bool sp_score_better(const struct sp_grouping_search *search, const struct sp_score *a, const struct sp_score *b);
double sp_search_capacity(const struct sp_grouping_search *search, uint32_t device);

/* ---- moves.c, nodes.c ---- */

/* Moves whole subgraphs between groups while that helps. group_of is changed; candidate is the result. */
enum sp_status sp_move_subgraphs(struct sp_grouping_search *search, const struct sp_subgraphs *subgraphs,
                                 uint32_t *group_of, struct sp_candidate *candidate);
/* Moves single nodes to any stage that their neighbours allow, while that helps and the budget of evaluations lasts. */
enum sp_status sp_move_nodes(struct sp_grouping_search *search, struct sp_candidate *candidate);
