#pragma once
/*
 * internal - what the parts of the stage search share.
 *
 *   prepare.c      a problem that was checked, its nodes joined to units, with the order of units and all sums
 *   frame.h        a set of units as a stage that grows and shrinks, its load and memory kept up to date
 *   ideals.c       all ideals of the units' order
 *   labels.c       the best chain of them
 *   linear.c       chains of few ideals where all are too many, and the search over orders
 *   bound.c        lower bounds that need no search
 *   assign.c       any sets of units as stages
 *   latency/       the LATENCY objective
 *   solve.c        which of these answers a problem
 *
 * A *unit* is what must be in one stage: the nodes of a colour, and what colours have joined into a cycle. Which edges
 * count for cycles depends on what is asked:
 *
 *   SP_STAGES_UNITS_CHAIN   contiguous stages in one order: an edge of forward nodes goes forward, one of backward
 *                           nodes back, one between a forward and a backward node either way
 *   SP_STAGES_UNITS_GRAPH   the stages' graph has no cycle, with all edges as they are (LATENCY)
 *   SP_STAGES_UNITS_FREE    colours only; order, predecessors and successors are empty
 */
#include <math.h>

#include "base/rows.h"
#include "solvers/stages/stages.h"

enum sp_stages_units { SP_STAGES_UNITS_CHAIN, SP_STAGES_UNITS_GRAPH, SP_STAGES_UNITS_FREE };

/* A tensor between units. Those used only where they are made are left out. */
struct sp_stages_link {
    uint32_t producer; /* unit */
    double bytes;
};

struct sp_stages_prepared {
    const struct sp_stages_problem *problem;
    enum sp_stages_units kind;
    bool is_turned; /* CHAIN: edges of backward nodes go the way of the forward ones (stages.h) */
    uint32_t unit_count, link_count;
    uint32_t *unit_of;     /* per node */
    struct sp_rows nodes;  /* of a unit, ascending */
    struct sp_rows before; /* units that must not be in a later stage: direct predecessors, distinct */
    struct sp_rows after;
    uint32_t *order; /* of units, topological; where several could follow, the one with the smallest node */
    uint32_t *place; /* of a unit in `order` */
    struct sp_stages_link *links;
    struct sp_rows users; /* of a link: units that use it, distinct, without its producer */
    struct sp_rows makes; /* of a unit: links that it produces */
    struct sp_rows takes; /* of a unit: links that it uses */
    double **seconds;     /* [option][unit]; INFINITY: not under this option */
    /* [option][unit], scaled: sum and largest of its nodes. Options with equal figures may have one array. */
    double **weight_bytes, **held_bytes;
    struct sp_rows shared; /* of a unit: weights (of the problem) that it and other units use, to be scaled;
                                      those that only one unit uses are in its weight_bytes */
};

/* The stage of each unit and how each runs: what the parts of the search hand each other. */
struct sp_stages_choice {
    uint32_t option, replicas;
    uint32_t place; /* where links have levels: of its first device among those of its class */
};

struct sp_stages_solution {
    bool is_feasible; /* else nothing else is set but `bound` */
    double value;     /* of the objective, as sp_stages_evaluate() gives it */
    double bound;     /* that this part of the search has proved, at least 0 */
    uint32_t stage_count;
    struct sp_stages_choice *choices; /* per stage; contiguous: in order */
    uint32_t *stage_of;               /* per unit */
    uint64_t ideals;
    uint64_t work;
    bool is_stopped;
};

/* The number of the level that two different places in the row of devices talk over; places may be beyond its end. */
static inline uint32_t sp_stages_level_of(const struct sp_stages_problem *problem, uint64_t a, uint64_t b)
{
    uint32_t level = 0;
    while (level + 1 < problem->level_count && a / problem->levels[level].group == b / problem->levels[level].group)
        level++;
    return level;
}

/* How many replicas of a stage under the option so many devices of its class are enough for. */
static inline uint64_t sp_stages_room(const struct sp_stages_option *option, uint64_t devices)
{
    const uint64_t most = option->devices == 0 ? UINT32_MAX : devices / option->devices;
    return option->max_replicas != 0 && option->max_replicas < most ? option->max_replicas : most;
}

/* What copies take of a stage of so many bytes, INFINITY where it cannot have so much copied; `set` is the problem's own count of it, or NULL where there is none or it
   is not at hand: then the least that they may take. */
static inline double sp_stages_copies(const struct sp_stages_problem *problem, uint32_t option, void *set, double bytes)
{
    const struct sp_stages_option *by = &problem->options[option];
    const double lacking = bytes - by->own_bytes;
    if (by->copy_per_byte == 0 || lacking <= 0)
        return 0;
    const bool is_counted = set != NULL && problem->memory->copied != NULL;
    const double copied = is_counted ? problem->memory->copied(set, option, lacking) : lacking;
    return copied > by->copied_most * (1 + SP_STAGES_SLACK) ? INFINITY : by->copy_per_byte * copied;
}

/* What a part of the search may use: `scratch` ends with the call of sp_stages_solve(), `work` counts down. */
struct sp_stages_run {
    struct sp_arena *scratch;
    const struct sp_stages_options *options;
    uint64_t work_left; /* elementary steps, some nanoseconds each */
    bool is_stopped;
    double best, bound; /* for the watch */
    struct sp_error *err;
};

/* Counts `steps` of work; false when the search should end: no work is left, or the watch or `stop` says so. Looks at
   the watch only now and then. */
bool sp_stages_spend(struct sp_stages_run *run, uint64_t steps);

/* Whether there is anything left to spend. */
static inline bool sp_stages_goes_on(const struct sp_stages_run *run)
{
    return !run->is_stopped && run->work_left > 0;
}

/* Joins nodes to units and gathers sums; the problem has been checked (sp_stages_check()). */
enum sp_status sp_stages_prepare(struct sp_arena *arena, const struct sp_stages_problem *problem,
                                 enum sp_stages_units kind, struct sp_stages_prepared **ret_prepared,
                                 struct sp_error *err);

/* SP_ERR_REQUEST with a sentence where a problem is not well formed. */
enum sp_status sp_stages_check(struct sp_arena *scratch, const struct sp_stages_problem *problem, struct sp_error *err);

/* A lower bound of the objective for all solutions, contiguous or not: each unit somewhere, the devices' time and memory
   shared out as if units were divisible. INFINITY where surely nothing fits. */
double sp_stages_bound(struct sp_stages_run *run, const struct sp_stages_prepared *prepared);

/* The stages of a solution over units, with their nodes, in `arena`. NULL without memory. */
struct sp_stage *sp_stages_list(struct sp_arena *arena, const struct sp_stages_prepared *prepared,
                                const struct sp_stages_solution *solution);

/* Loads, memory and value of a solution over units. The solution's value and is_feasible are set; `*ret_fault` as of
   sp_stages_evaluate(). */
enum sp_status sp_stages_measure(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                 struct sp_stages_solution *solution, const char **ret_fault);

/*
 * assign.c: THROUGHPUT with any sets of units as stages. `prepared` has units of kind FREE; `start` is a solution over
 * those units (the contiguous one carried over) or infeasible. Writes the best found (never worse than `start`) and the
 * bound that holds for any sets; `*ret_solution` has memory of run->scratch.
 */
enum sp_status sp_stages_assign(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                const struct sp_stages_solution *start, struct sp_stages_solution *ret_solution);

/*
 * latency/: LATENCY. `prepared` has units of kind FREE: what lies between nodes of a unit need not be with them where
 * they run freely. Stages of the result need not be in an order of their own: a
 * stage is a set of units under an option, and start and end follow from sp_stages_evaluate(). Nodes under an option
 * with is_free are one stage of it each, or together: it makes no difference to the value.
 */
enum sp_status sp_stages_latency(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                 struct sp_stages_solution *ret_solution);
