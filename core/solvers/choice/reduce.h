#pragma once
/*
 * reduce - a choice problem with everything taken out that is forced, exactly.
 *
 * What is left are variables with states. A variable stands for one or more nodes of which each state fixes all
 * strategies; its usage is then not one number over one interval but a profile over moments. Moments are numbered
 * densely: only those at which the set of live variables is largest are kept, since others are implied.
 *
 *  - Strategies with infinite cost, or without a partner across an edge (arc consistency), are dropped.
 *  - A node whose strategy is determined by a neighbour's is merged into it; parallel edges are added up.
 *  - States with the same rows are merged, dominated ones dropped (dearer and larger everywhere: Goldstein's
 *    criterion of dead-end elimination, with usage).
 *  - Isolated variables without usage, and leaves whose usage never matters, are eliminated.
 *  - Usage that all states have is taken off the limits; moments whose rows cannot be exceeded are dropped.
 *
 * A sum of costs of SP_CHOICE_INFINITE or more is forbidden, as such a cost is.
 *
 * Every choice of states expands to a choice of strategies with cost fixed_cost + what the states cost, and some
 * optimal feasible choice of the original is the expansion of one, if any is feasible.
 */
#include "solvers/choice/choice.h"

struct sp_reduced_range {
    uint32_t from, to; /* moments, half-open */
};

struct sp_reduced_edge {
    uint32_t u, v;         /* u < v; at most one edge between two variables */
    const int64_t *cost;   /* [state of u][state of v]; SP_CHOICE_INFINITE: forbidden. Equal tables are one pointer. */
    const int64_t *turned; /* [state of v][state of u] */
};

struct sp_reduced {
    struct sp_arena *arena;
    const struct sp_choice_problem *problem;
    uint32_t variable_count, edge_count, moment_count;
    uint32_t *first; /* variable v has states first[v] .. first[v + 1] */
    int64_t *cost;   /* per state, finite */
    /* Variable v has ranges first_range[v] .. first_range[v + 1], ascending and disjoint; state s of v uses
       usage[first_usage[v] + s * (number of its ranges) + r] in its range r. */
    uint32_t *first_range;
    struct sp_reduced_range *ranges;
    uint64_t *first_usage;
    int64_t *usage; /* >= 0; at least one state of a variable uses 0 in each of its ranges */
    struct sp_reduced_edge *edges;
    uint32_t *first_link; /* variable v has links first_link[v] .. first_link[v + 1] into `links`: numbers of edges */
    uint32_t *links;
    int64_t *limit;     /* per moment: what the variables may use there */
    int64_t *moment_of; /* per moment: an original moment that it stands for */
    int64_t fixed_cost;
    int64_t minimum_limit; /* what every possible choice uses at some moment */
    bool is_infeasible;    /* proved while reducing; there are no variables then */
    void *expansion;       /* how states become strategies; private to reduce.c */
};

/* When `stop` (may be NULL) is set, less is taken out; what comes is as exact. The problem must be well formed, and
   stay: tables of the result may be its own. */
enum sp_status sp_reduce(struct sp_arena *arena, const struct sp_choice_problem *problem, const volatile bool *stop,
                         struct sp_reduced **ret_reduced, struct sp_error *err);

/* A reduction once more, without the states that are `is_dead`. Its "strategies" are the states of `reduced`, which
   must stay; its moments stand for the same original moments. */
enum sp_status sp_reduce_again(struct sp_arena *arena, const struct sp_reduced *reduced, const bool *is_dead,
                               const volatile bool *stop, struct sp_reduced **ret_reduced, struct sp_error *err);

/* The strategies of all original nodes for a state of each variable. */
void sp_reduced_expand(const struct sp_reduced *reduced, const uint32_t *states, uint32_t *ret_choice);

/* The states that have the strategies of `choice`; false (and the first state there) where a variable has no such state
   any more. */
bool sp_reduced_project(const struct sp_reduced *reduced, const uint32_t *choice, uint32_t *ret_states);
