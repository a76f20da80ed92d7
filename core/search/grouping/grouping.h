#pragma once
/*
 * grouping - a placement by grouping subgraphs of the model onto devices, then moving them until no move helps.
 *
 * The method of PopRT's auto-sharding as published, with its defects corrected, and the cost model in place of a
 * compiler:
 *
 *  1 candidates   nodes where activations meet (more than one input that is not a weight); all nodes if there are none
 *  2 subgraphs    for each candidate in order, what is reachable backwards and not taken yet; one that reaches the
 *                 average neither in weight bytes nor in work waits for the next candidate that reaches it; leftovers
 *                 are cut up the same way, light ones follow their producers
 *  3 division     subgraphs in order are cut into one group per device: by memory, by work, by number
 *  4 moves        a group over its memory gives subgraphs to the next, previous or a parallel group; when all fit, the
 *                 slowest group gives, as long as the objective improves; single nodes of the best move the same way
 *  5 schedule     if nothing fits into the preferred share of memory, the share is raised (available_memory)
 *
 * That is a start for the search that plans are made by (search/joint/joint.h), which cuts the model into stages in
 * other ways, too, and moves nodes between the best of all of them (sp_group_improve()).
 *
 * Groups are stages: stage numbers never fall along an edge, so every stage is convex. Folded nodes are in the first
 * stage that needs their result.
 *
 * Deterministic: ties are broken by the smaller id. Memory is linear in nodes + operands, and so is the time of each
 * evaluation, of which there is a bounded number.
 */
#include "base/cancel.h"
#include "cost/evaluate.h"

enum sp_objective { SP_OBJECTIVE_THROUGHPUT = 0, SP_OBJECTIVE_LATENCY, SP_OBJECTIVE_DEVICES };

#define SP_MAX_MEMORY_STEPS 8

struct sp_grouping_options {
    enum sp_objective objective;
    bool optimal;               /* move until no move helps; false: stop at the first placement that fits */
    uint64_t max_moves;         /* evaluations of moves; 0 = the default, fewer for larger models (linear in sum) */
    uint32_t memory_step_count; /* shares of a device's memory to try in turn; 0 = the default 0.90, 0.95, 1.00 */
    double memory_steps[SP_MAX_MEMORY_STEPS];
    bool saves_bytes; /* sp_group_improve(): then moves that send fewer bytes at an interval at most 0.1 % longer */
    const struct sp_watch *watch;
};

/* Fills in the defaults: throughput, optimal. */
void sp_grouping_options_init(struct sp_grouping_options *options);

/* ---- the parts, separately testable ---- */

struct sp_subgraphs {
    uint32_t count;
    uint32_t *of;  /* work node -> subgraph; numbered in topological order of the contracted graph */
    double *bytes; /* weight bytes, a weight counted in the first subgraph that uses it */
    double *flops;
    double *seconds; /* on device kind 0 */
    uint32_t candidate_count;
};

enum sp_status sp_find_subgraphs(struct sp_arena *arena, const struct sp_workload *workload,
                                 struct sp_subgraphs **ret_subgraphs, struct sp_error *err);

/*
 * Initial division: cuts a sequence of `count` weights into exactly min(groups, count) non-empty groups of consecutive
 * items; ret_group[i] is the group of item i, from 0. A group ends after the item with which it reaches the average of
 * what is left over the groups that are left, and early enough that every later group gets an item.
 *
 *   [4 x8], 4 -> 01 23 45 67      [10,1,1,1,1], 2 -> 0 | 1..4      [1,1,1,9], 3 -> 0 1 | 2 | 3 (no group is empty)
 */
void sp_initial_division(uint32_t count, const double *bytes, uint32_t groups, uint32_t *ret_group);

/* ---- the search ---- */

struct sp_grouping_result {
    struct sp_placement placement;
    struct sp_evaluation *evaluation;
    uint32_t candidates, subgraphs;
    uint64_t explored;   /* placements evaluated, moves included */
    uint64_t accepted;   /* moves taken */
    double memory_share; /* the step of the schedule that fitted */
    bool stopped;        /* the watch ended the search: this is the best placement that fitted until then */
};

/*
 * Searches. With SP_OBJECTIVE_DEVICES the fewest devices that fit are used; otherwise up to cluster->device_count,
 * fewer when more would not help the objective.
 *
 * SP_ERR_NOFIT when nothing fits; the result is then the placement that lacks least.
 *
 * A watch that says stop ends the search with the best placement so far (result->stopped), or with SP_ERR_CANCELLED
 * when none has fitted yet.
 *
 * A model without work (no nodes, or all folded) is one stage on device 0.
 */
enum sp_status sp_group(struct sp_arena *arena, const struct sp_workload *workload, const struct sp_cluster *cluster,
                        const struct sp_grouping_options *options, struct sp_grouping_result **ret_result,
                        struct sp_error *err);

/*
 * Moves single nodes of a placement whose stages are one device each, as long as that helps; it need not fit. Changes
 * the placement, of which stages may become empty and go, and adds to *explored the placements that were evaluated.
 */
enum sp_status sp_group_improve(struct sp_arena *arena, const struct sp_workload *workload,
                                const struct sp_cluster *cluster, const struct sp_grouping_options *options,
                                struct sp_placement *placement, uint64_t *explored, struct sp_error *err);
