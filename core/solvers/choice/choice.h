#pragma once
/*
 * choice - one strategy for each node: least cost of nodes and edges under a memory limit at every moment.
 *
 *   minimise   sum over nodes of cost[s(v)]  +  sum over edges (u, v) of cost[s(u)][s(v)]
 *   such that  at every moment t: sum over nodes with begin <= t < end of usage[s(v)]  <=  limit
 *
 * It is the problem of intra-operator parallelism as the 2025 contest states it (Moffitt, Fegade: "The ASPLOS 2025 /
 * EuroSys 2025 contest on intra-operator parallelism for distributed deep learning", 2025), and as Alpa and XLA's
 * automatic sharding solve it with integer programs. All figures are integers, so sums are exact and a bound may be
 * rounded up.
 *
 * How it is solved
 *  reduce   (reduce.h)  what is forced is taken out, exactly: strategies that cannot be or are dominated, nodes whose
 *           strategy follows from a neighbour's, nodes that nothing depends on; moments that others imply
 *  bound    (bound.h)   prices on moments (Lagrange) and messages along edges or elimination give a lower bound that
 *           holds for every choice
 *  improve  (improve.h) choices under prices, repaired, and improved on parts of the graph that are solved exactly
 *  exact    where what is left is small, branch and bound closes the gap
 *
 * Glossary
 *  infinite  a cost of SP_CHOICE_INFINITE or more forbids, and so does a sum of costs that is as large
 *  interval  half-open, [k, k) is empty: the node's usage never counts
 *  work      steps of the solver, counted the same on every machine
 */
#include "base/arena.h"
#include "base/cancel.h"
#include "base/executor.h"

#define SP_CHOICE_INFINITE ((int64_t)100000000000000000) /* 10^17; the contest writes 10^18 */

struct sp_choice_edge {
    uint32_t u, v;       /* different nodes; several edges between the same two add up */
    const int64_t *cost; /* [strategy of u][strategy of v], row-major; >= 0 */
};

struct sp_choice_problem {
    uint32_t node_count, edge_count;
    const uint32_t *first;       /* node v has strategies first[v] .. first[v + 1], at least one */
    const int64_t *cost, *usage; /* per strategy, >= 0 */
    const int64_t *begin, *end;  /* per node: its interval */
    const struct sp_choice_edge *edges;
    int64_t limit; /* at every moment; INT64_MAX: none */
};

struct sp_choice_options {
    uint64_t seed;
    uint64_t work_limit; /* 0: the default, which grows with the problem. Less than a bound takes: there is none but
                            what reducing gives, and searches do as much as they need to come round, which is more than
                            a small limit and grows with the problem */
    uint32_t searches;   /* side by side, each with random numbers of its own; 0: SP_CHOICE_SEARCHES. The result depends
                          on it, and not on how many threads the executor has. */
    const struct sp_executor *executor;
    const struct sp_watch *watch; /* ticks "search" with best and bound (as they are, not seconds) from the calling
                                     thread; false ends the search with the best so far */
    const volatile bool *stop;    /* set by somebody else (a timer thread): the tasks look at it often and end with what
                                     they have; may be NULL. A result that was stopped so is not repeatable. */
    struct sp_budget *budget;     /* of the solver's own memory; may be NULL */
    const uint32_t *start;        /* a choice to begin with, feasible or not, or NULL */
};
#define SP_CHOICE_SEARCHES 2

/* A moment at which memory binds: what is used there, of the limit; its price in cost per byte (0: not bounding). */
struct sp_choice_moment {
    int64_t moment, usage;
    double price;
};

struct sp_choice_result {
    bool is_feasible;            /* false: none was found; `choice` is then the one that is over by least */
    bool is_optimal;             /* cost == bound */
    bool is_stopped;             /* the watch, `stop` or the work limit ended it before it was proved */
    bool is_proved_infeasible;   /* no choice can be within the limit, or every choice is forbidden */
    const uint32_t *choice;      /* per node, a strategy from 0 */
    int64_t cost, bound;         /* bound <= cost of every feasible choice; 0 where nothing is known */
    double gap;                  /* (cost - bound) / cost; 0 when cost is 0 */
    int64_t peak, minimum_limit; /* the choice's largest usage; a lower bound for the limit that any choice needs */
    uint32_t tight_count;        /* moments, the dearest first, at most SP_CHOICE_TIGHT */
    struct sp_choice_moment *tight;
    uint32_t variables, variable_edges; /* what was left to choose after reducing */
    uint64_t work;
};
#define SP_CHOICE_TIGHT 16

/* Solves; the result in `arena`. Errors: SP_ERR_MEMORY, SP_ERR_REQUEST for a problem that is not well formed (the
   message names the node or edge). Nothing feasible is no error. Equal problems, seeds, searches and work limits give
   equal results. */
enum sp_status sp_choice_solve(struct sp_arena *arena, const struct sp_choice_problem *problem,
                               const struct sp_choice_options *options, struct sp_choice_result **ret_result,
                               struct sp_error *err);

/* What a choice costs and uses, by the definition above; nothing of the solver is used. `*ret_cost` is INT64_MAX where
   an infinite term is in it or the sum is infinite. `*ret_peak` is the largest usage, `*ret_moment` the first moment
   with it. */
enum sp_status sp_choice_evaluate(struct sp_arena *scratch, const struct sp_choice_problem *problem,
                                  const uint32_t *choice, int64_t *ret_cost, int64_t *ret_peak, int64_t *ret_moment,
                                  struct sp_error *err);
