#pragma once
/*
 * intra - the operators of one stage as a choice problem, and what a choice means.
 *
 * The problem's nodes are the stage's operators (their strategies; seconds as node costs) and, for each activation that
 * several operators of the stage use, a *hub*: the layout in which it is kept for them, so that what one of them has
 * gathered the others need not gather again. Edges cost the resharding between producer, hub and user. Model inputs and
 * weights come in any layout at no cost in time. A weight that several operators use has a hub without resharding: its
 * users take it as it is stored, or slices of that.
 *
 * Memory: usage of a strategy over the interval in which it is alive, in the stage's order of nodes: outputs from the
 * producer to the last use, weights always, workspace while the node runs. A node that has several of these is several
 * nodes of the problem that are tied by edges.
 *
 * Equal operators of repeated blocks are one node of the problem that counts as often as there are blocks (blocks.h);
 * edges between neighbouring blocks become edges of the one to itself, counted as often as there are borders.
 *
 * Seconds are integers of SP_INTRA_SECOND parts; bytes are rounded up to whole ones.
 */
#include "cost/evaluate.h"
#include "search/strategy/blocks.h"
#include "search/strategy/strategy.h"
#include "solvers/choice/choice.h"

#define SP_INTRA_SECOND 1e13 /* cost units per second: the largest cost (SP_CHOICE_INFINITE) is 10^4 s */

struct sp_intra_options {
    uint32_t node_count;
    const uint32_t *nodes;          /* of the stage, ascending, folded ones left out */
    const struct sp_blocks *blocks; /* ties; NULL: none */
    double memory_limit;            /* bytes of one device; INFINITY: none */
    double reserved_bytes;          /* taken off the limit */
    /* Per mesh axis a restriction of the user: nodes may not be split along it. NULL: none. `allowed` may be NULL; else
       it is asked for each strategy of a node (pinned specs). */
    bool (*allowed)(const void *context, uint32_t node, const struct sp_strategies *strategies, uint32_t strategy);
    const void *context;
    const struct sp_watch *watch; /* looked at while the problem is made; false: SP_ERR_CANCELLED */
};

struct sp_intra; /* the problem, and which of its nodes stand for what */

enum sp_status sp_intra_create(struct sp_arena *arena, struct sp_strategy_table *table,
                               const struct sp_intra_options *options, struct sp_intra **ret_intra,
                               struct sp_error *err);
const struct sp_choice_problem *sp_intra_problem(const struct sp_intra *intra);

/* Chooses (sp_choice_solve()). `is_plain`: nothing but weights is cut behind the major part of an axis. Otherwise such
   cuts are more to look through: where nothing is proved best, a choice without them that is better is taken. */
enum sp_status sp_intra_solve(struct sp_arena *arena, const struct sp_intra *intra, bool is_plain,
                              const struct sp_choice_options *options, struct sp_choice_result **ret_result,
                              struct sp_error *err);

/* What one device of the stage does with a choice: exactly, whatever was simplified in the problem. */
struct sp_intra_use {
    uint32_t tensor, node; /* a user of a tensor */
    uint32_t from, to;     /* layouts */
    double seconds, bytes; /* 0 where somebody has brought it so before */
};
struct sp_intra_result {
    uint32_t node_count;
    const uint32_t *strategy_of;                   /* per entry of options->nodes */
    double compute_seconds, communication_seconds; /* of all nodes in order; reshards and reductions */
    double weight_bytes, activation_peak_bytes;    /* one device */
    double resident_bytes;                         /* one device: keys and values that its nodes keep */
    uint32_t peak_node;                            /* work node at which the peak is */
    double communication_bytes;                    /* sent by one device */
    uint32_t use_count;
    const struct sp_intra_use *uses; /* reshards that cost something, in order */
};

/* What one device holds at most. */
static inline double sp_intra_held_bytes(const struct sp_intra_result *result)
{
    return result->weight_bytes + result->resident_bytes + result->activation_peak_bytes;
}

/* A choice of the problem as strategies of the nodes, with everything recounted from the strategies: a tensor that is
   brought in a layout once stays for later users of the same layout, as partition/ does it. */
enum sp_status sp_intra_result(struct sp_arena *arena, const struct sp_intra *intra, const uint32_t *choice,
                               struct sp_intra_result **ret_result, struct sp_error *err);

/* The same for any strategies of the nodes (a plan written by hand). */
enum sp_status sp_intra_evaluate(struct sp_arena *arena, struct sp_strategy_table *table, uint32_t node_count,
                                 const uint32_t *nodes, const uint32_t *strategy_of,
                                 struct sp_intra_result **ret_result, struct sp_error *err);

/* The live activations of one device of such a stage, per node; what a node is brought counts while it runs. The
   largest `during` is activation_peak_bytes. */
enum sp_status sp_intra_live(struct sp_arena *scratch, struct sp_strategy_table *table, uint32_t node_count,
                             const uint32_t *nodes, const uint32_t *strategy_of, struct sp_live_bytes *ret_live,
                             struct sp_error *err);

/* What nodes of such a stage take more, per node, where their kernels are cut (cost/kernels/kernels.h): by the stage's
   border, or by a reshard between its nodes. It is a part of compute_seconds, and none of the strategies'. */
enum sp_status sp_intra_cuts(struct sp_arena *scratch, struct sp_strategy_table *table, uint32_t node_count,
                             const uint32_t *nodes, const uint32_t *strategy_of, double *ret_seconds,
                             struct sp_error *err);

/* What one device of such a stage holds of activations during the first node with the most: a tensor may be there in
   several layouts. The list is in `arena`, in the order in which they come into being. */
enum sp_status sp_intra_peak(struct sp_arena *arena, struct sp_strategy_table *table, uint32_t node_count,
                             const uint32_t *nodes, const uint32_t *strategy_of, struct sp_alive_list *ret_list,
                             struct sp_error *err);

/* The choice of the problem that has these strategies, for a start; hubs are chosen best. */
enum sp_status sp_intra_choice(struct sp_arena *arena, const struct sp_intra *intra, const uint32_t *strategy_of,
                               uint32_t **ret_choice, struct sp_error *err);
