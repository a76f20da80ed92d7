#pragma once
/*
 * internal - what the files of the search share. Nothing outside core/search includes this.
 *
 * Glossary
 *  live node  a node that is not folded; only these are placed, folded ones follow them
 *  line       a topological order of some live nodes, loaded into the search's tables
 *  window     consecutive positions of a line, costed as one stage while it grows to the right
 *  outside    stages that are not part of the line (there are none when the line holds the whole model)
 *  candidate  a placement of all live nodes with its score
 *
 * A placement whose stages never fall along an edge is the same thing as a line of the whole model with cuts in it
 * (sort by stage, then by id). So everything here cuts lines; monotone stages, and with them convex ones, come for
 * free.
 *
 * Windows and sweeps follow the model of execution of cost/evaluate.h, with simplifications that keep them linear. A
 * tensor that crosses a cut of a whole-model line is sent once, to the neighbour. Memory errs on the safe side:
 * model inputs and what is received count until their last use in the line, even if that is in a later stage. Whatever
 * windows and sweeps propose is evaluated by sp_evaluate() before it counts.
 */
#include "cost/contract.h"
#include "search/grouping/grouping.h"

#define SP_NO_POSITION UINT32_MAX

/* The share by which two intervals may differ and still be called equal when communication is compared: a cost model
   is not better than this. */
#define SP_SEARCH_TOLERANCE 0.005

/* More than any memory lacks. */
#define SP_UNABLE_BYTES 1e27

/* Live nodes from which on the search takes the short way: one placement is improved, along one order. */
#define SP_LARGE_MODEL 30000

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

/* A link between two fixed devices. */
struct sp_search_link {
    double latency, seconds_per_byte;
};

/* The line at hand, as windows and sweeps see it. */
struct sp_loaded_line {
    const uint32_t *nodes;
    uint32_t length;
    uint32_t *position;    /* work node -> position, SP_NO_POSITION when outside the line */
    uint32_t *last_use;    /* tensor -> last position in the line that uses it (its producer's without users) */
    uint32_t *last_memory; /* tensor with memory of its own -> last position at which it is alive */
    uint32_t *outside;     /* tensor -> number of stages outside the line that use it */
    bool *stays;           /* tensor with memory of its own -> alive to the end of its stage wherever the cut is */
    uint32_t *death_first, *death_next;   /* position -> list of tensors that die after it */
    double *outside_left, *outside_right; /* tensor -> seconds to send it outside from the left and right stage */
    uint32_t *seen, *born, stamp; /* tensor -> stamp of the last window that received it, that holds its memory */
    uint32_t *loaded, load;       /* tensor made outside the line -> stamp of the last load that set its entries */
};

struct sp_grouping_search {
    struct sp_arena *arena;
    const struct sp_workload *workload;
    const struct sp_cluster *cluster;
    enum sp_objective objective;
    bool optimal, is_trial;
    bool same_devices; /* all devices of one kind and one memory */
    bool uniform;      /* that, and one link level */
    bool cancelled;
    const struct sp_watch *watch;
    struct sp_error *err;

    double share;         /* of each device's memory that may be used now */
    uint32_t stage_limit; /* most stages allowed now */
    uint32_t stage_room;  /* most stages ever: min(devices, live nodes), at least 1 */
    uint32_t *devices;    /* the order in which devices become stages now */

    uint32_t live_count;
    uint32_t *live;     /* live nodes in id order */
    uint32_t *lines[3]; /* whole-model lines: by id, depth first, depth first from the end */
    uint32_t line_count;

    struct sp_loaded_line line;

    struct sp_evaluator *evaluator;
    uint32_t *stage_seen, stage_stamp; /* stage -> stamp of the last tensor that was found to go there */

    /* Counts and progress. */
    uint64_t explored, accepted, evaluations_left, steps, next_tick;
    struct sp_candidate incumbent; /* the best that fits so far: the answer when the watch ends the search */
    double fraction, best_seconds, bound_seconds; /* bound_seconds: of the objective */
    double interval_bound;
};

/* A growing stage. memory = weights + peak + 2 * (in + out). */
struct sp_node_window {
    uint32_t begin, device, kind;
    struct sp_search_link before, after;
    double compute, receive, send;
    double weights, live, peak, in, out;
    const struct sp_candidate *around; /* where outside producers are, NULL for a whole-model line */
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

/* ---- lines.c ---- */

/* Fills search->lines. */
enum sp_status sp_lines_init(struct sp_grouping_search *search);
/* Writes another topological order of the live nodes, a fixed one for each seed above 0. */
enum sp_status sp_line_scrambled(struct sp_grouping_search *search, uint32_t seed, uint32_t *line);
/* The tensor whose memory this one is: itself unless it is an alias. */
static inline uint32_t sp_memory_of(const struct sp_workload *workload, uint32_t tensor)
{
    uint32_t alias = workload->tensors[tensor].alias_of;
    return alias == SP_NO_WORK ? tensor : alias;
}
/* Loads a line; `around` says in which stages the nodes outside it are (NULL: there are none). left and right are the
   devices that the line's nodes may be sent from (used only with `around`). */
void sp_line_load(struct sp_grouping_search *search, const uint32_t *nodes, uint32_t count,
                  const struct sp_candidate *around, uint32_t left, uint32_t right);
void sp_line_unload(struct sp_grouping_search *search);

/* ---- window.c ---- */

struct sp_search_link sp_search_link(const struct sp_cluster *cluster, uint32_t from, uint32_t to);
/* An empty window at position `begin` on devices[stage]; its neighbours are devices[stage - 1] and devices[stage + 1].
 */
void sp_window_start(struct sp_grouping_search *search, struct sp_node_window *window, uint32_t begin, uint32_t stage);
/* An empty window at the begin of a line whose nodes are divided between two stages, on the left one's device. */
void sp_window_start_left(struct sp_grouping_search *search, struct sp_node_window *window,
                          const struct sp_candidate *around, uint32_t left, uint32_t right);
void sp_window_extend(struct sp_grouping_search *search, struct sp_node_window *window, uint32_t position);

static inline double sp_link_seconds(struct sp_search_link link, const struct sp_work_tensor *tensor)
{
    if (tensor->has_transfer_seconds)
        return link.seconds_per_byte > 0 ? tensor->transfer_seconds : 0; /* no link: from a device to itself */
    return link.latency + tensor->bytes * link.seconds_per_byte;
}

static inline double sp_window_interval(const struct sp_node_window *window)
{
    double transfer = window->send > window->receive ? window->send : window->receive;
    return window->compute > transfer ? window->compute : transfer;
}

static inline double sp_window_memory(const struct sp_node_window *window)
{
    return window->weights + window->peak + 2 * (window->in + window->out);
}

/* What no longer window from the same begin can get below. */
static inline double sp_window_least_memory(const struct sp_node_window *window)
{
    return window->weights + window->peak + 2 * window->in;
}

/* ---- packing.c ---- */

/* Cuts the whole-model line into as few windows as fit the memory and `interval`, each as long as it can be; writes
   the placement. *ret_packed is false when some node fits nowhere or the stages run out; *ret_stuck is then where. */
enum sp_status sp_pack(struct sp_grouping_search *search, const uint32_t *line, double interval,
                       struct sp_candidate *candidate, bool *ret_packed, double *ret_interval, uint32_t *ret_stuck);
/* The smallest interval for which sp_pack() succeeds, by bisection. */
enum sp_status sp_pack_best(struct sp_grouping_search *search, const uint32_t *line, struct sp_candidate *candidate,
                            bool *ret_packed);
/* The best cuts of the line for the objective by dynamic programming, on clusters of equal devices and while the number
   of windows is affordable; otherwise *ret_packed is false. Windows of a longer interval than `ceiling` are left out.
 */
enum sp_status sp_pack_exact(struct sp_grouping_search *search, const uint32_t *line, double ceiling,
                             struct sp_candidate *candidate, bool *ret_packed);

/* ---- moves.c, sweep.c, branches.c, nodes.c, exhaustive.c, nofit.c ---- */

/* Moves whole subgraphs between groups while that helps. group_of is changed; candidate is the result. */
enum sp_status sp_move_subgraphs(struct sp_grouping_search *search, const struct sp_subgraphs *subgraphs,
                                 uint32_t *group_of, struct sp_candidate *candidate);
/* Sweeps the borders of neighbouring stages until no cut helps. */
enum sp_status sp_sweep(struct sp_grouping_search *search, struct sp_candidate *candidate);
/* Prefers cuts that move fewer bytes among those whose interval is equal within SP_SEARCH_TOLERANCE. */
enum sp_status sp_sweep_polish(struct sp_grouping_search *search, struct sp_candidate *candidate);
/* For latency: what comes before the widest parallel part, its branches and what comes after, as stages of their own.
 *ret_made is false when there is none. */
enum sp_status sp_branches(struct sp_grouping_search *search, bool behind_all_sources, struct sp_candidate *candidate,
                           bool *ret_made);
/* Moves single nodes to any stage that their neighbours allow, while that helps and the budget of evaluations lasts. */
enum sp_status sp_move_nodes(struct sp_grouping_search *search, struct sp_candidate *candidate);
/* Tries every placement of a model of at most SP_EXHAUSTIVE_NODES live nodes; does nothing for larger ones. */
#define SP_EXHAUSTIVE_NODES  10
#define SP_EXHAUSTIVE_LEAVES 65536
enum sp_status sp_exhaust(struct sp_grouping_search *search, struct sp_candidate *best);
/* Composes the error for a model that fits nowhere; `closest` is the placement that lacked least. */
enum sp_status sp_search_nofit(struct sp_grouping_search *search, const struct sp_candidate *closest);
/* All starts and improvements at the search's share; the best placement, which may not fit. */
enum sp_status sp_search_at_share(struct sp_grouping_search *search, const struct sp_subgraphs *subgraphs,
                                  struct sp_candidate *best);
