#pragma once
/*
 * reducer - what the steps of sp_reduce() work on; private to reduce*.c.
 *
 * Nodes stay what they are: a variable is the node that others were merged into, its states are that node's strategies,
 * and the tables of its edges keep rows for dead ones. Only what is handed out at the end is packed.
 *
 * Glossary
 *  alive    strategies that are still possible, ascending
 *  merge    a node whose strategy follows from another's becomes part of that one
 *  fix      a node with one strategy left is a constant
 *  moment   a row of usage; numbered densely, and anew whenever some are dropped
 */
#include "base/hash_map.h"
#include "solvers/choice/reduce.h"

#define SP_NO_NODE UINT32_MAX

struct sp_reducer_node {
    uint32_t states; /* of its tables */
    uint32_t alive_count, degree;
    uint32_t *alive;
    int64_t *cost;   /* per state */
    uint32_t *links; /* edges; some are no longer its own: sp_reducer_next_link() skips them */
    uint32_t link_count, link_room;
    uint32_t parent;        /* merged into; SP_NO_NODE: none */
    const uint32_t *map;    /* parent's state -> own */
    bool is_fixed, is_gone; /* constant (alive[0]); eliminated, or merged */
    bool is_dirty;          /* something at it changed since it was tested for dominance */
    uint32_t range_count;   /* its profile: what all merged into it use together, less what every state uses */
    struct sp_reduced_range *ranges;
    int64_t *usage; /* [state][range] */
};

struct sp_reducer_edge {
    uint32_t u, v;
    const int64_t *cost; /* [state of u][state of v] */
    bool is_own;         /* the table may be written */
    bool is_dead, is_queued;
};

/* How one node's strategy follows from others': of `u` (and `w`), or fixed. In the order of elimination. */
struct sp_reduce_step {
    uint32_t node, u, w; /* SP_NO_NODE where there is none */
    uint32_t columns;    /* states of w, 1 without */
    const uint32_t *map; /* [state of u][state of w] */
};

struct sp_expansion {
    uint32_t step_count;
    const struct sp_reduce_step *steps;
    uint32_t *node_of;     /* per variable */
    uint32_t *strategy_of; /* per state */
};

struct sp_reducer {
    struct sp_arena *arena, *scratch; /* what stays; what goes */
    const struct sp_choice_problem *problem;
    const volatile bool *stop;
    struct sp_reducer_node *nodes;
    struct sp_reducer_edge *edges;
    uint32_t *queue, queue_head, queue_count; /* ring of edge_count */
    struct sp_hash_map edge_of;               /* (u, v) -> edge + 1; it may have died or moved since */
    struct sp_reduce_step *steps;
    uint32_t step_count;
    int64_t *room_of_pairs; /* of elimination: grows */
    size_t pairs;
    uint32_t moment_count, use_count;
    struct sp_reducer_use *uses;
    int64_t *limit, *room, *moment_of; /* per moment; room is the limit less what all states use */
    int64_t minimum_limit;
    int64_t fixed_cost;
    bool is_infeasible, is_out_of_memory, has_changed, is_again;
};

/* What a node's strategies use over some moments. */
struct sp_reducer_use {
    uint32_t node;
    struct sp_reduced_range live; /* empty where that does not matter any more */
    const int64_t *usage;         /* of strategy s: usage[s * stride] */
    size_t stride;
};

struct sp_reducer_view { /* an edge's table as one of its ends sees it */
    const int64_t *cost;
    size_t row, column; /* strides */
    uint32_t other;
};

static inline bool sp_reducer_is_done(const struct sp_reducer *reducer)
{
    return reducer->is_infeasible || reducer->is_out_of_memory;
}

static inline bool sp_reducer_is_stopped(const struct sp_reducer *reducer)
{
    return sp_reducer_is_done(reducer) || (reducer->stop != NULL && *reducer->stop);
}

/* Saturates at SP_CHOICE_INFINITE: a sum that large is forbidden. */
static inline int64_t sp_choice_add(int64_t a, int64_t b)
{
    return a >= SP_CHOICE_INFINITE || b >= SP_CHOICE_INFINITE || a + b >= SP_CHOICE_INFINITE ? SP_CHOICE_INFINITE
                                                                                             : a + b;
}

static inline bool sp_reducer_is_variable(const struct sp_reducer *reducer, uint32_t v)
{
    return !reducer->nodes[v].is_gone && !reducer->nodes[v].is_fixed;
}

static inline struct sp_reducer_view sp_reducer_view(const struct sp_reducer *reducer, uint32_t e, uint32_t v)
{
    const struct sp_reducer_edge *edge = &reducer->edges[e];
    if (edge->u == v)
        return (struct sp_reducer_view){edge->cost, reducer->nodes[edge->v].states, 1, edge->v};
    return (struct sp_reducer_view){edge->cost, 1, reducer->nodes[edge->v].states, edge->u};
}

static inline int64_t sp_reducer_cost(const struct sp_reducer_view *view, uint32_t state, uint32_t other)
{
    return view->cost[state * view->row + other * view->column];
}

/* Graph (reduce_graph.c). Failures of memory are remembered in the reducer. */
void sp_reducer_build(struct sp_reducer *reducer);
uint32_t sp_reducer_next_link(const struct sp_reducer *reducer, uint32_t v, uint32_t *index); /* UINT32_MAX: no more */
void sp_reducer_enqueue(struct sp_reducer *reducer, uint32_t e);
void sp_reducer_kill_state(struct sp_reducer *reducer, uint32_t v, uint32_t state); /* queues all its edges */
int64_t *sp_reducer_own_table(struct sp_reducer *reducer, uint32_t e);              /* to be written */
void sp_reducer_drop_edge(struct sp_reducer *reducer, uint32_t e);
/* `map`: for each alive state of u the state of v that goes with it. In the arena. */
void sp_reducer_merge(struct sp_reducer *reducer, uint32_t u, uint32_t v, uint32_t e, const uint32_t *map);
void sp_reducer_fix(struct sp_reducer *reducer, uint32_t v);
/* v, at most two edges, without usage, is chosen best for whatever its neighbours are. */
void sp_reducer_eliminate(struct sp_reducer *reducer, uint32_t v);
void sp_reducer_add_table(struct sp_reducer *reducer, uint32_t u, uint32_t w, const int64_t *cost, uint32_t spare);

/* Arc consistency, constants and merging, until nothing changes (reduce_propagate.c). */
void sp_reducer_propagate(struct sp_reducer *reducer);

/* Rows of usage (reduce_usage.c): numbers the moments; profiles of all variables and room, dropping rows that cannot
   be exceeded. */
void sp_reducer_find_moments(struct sp_reducer *reducer);
void sp_reducer_take_moments(struct sp_reducer *reducer, const struct sp_reduced *reduced); /* those of a reduction */
void sp_reducer_renumber(struct sp_reducer *reducer, const uint32_t *number, uint32_t kept);
void sp_reducer_profile(struct sp_reducer *reducer);

/* Drops rows that others imply (reduce_rows.c); returns whether any, and profiles are out of date then. */
bool sp_reducer_drop_implied(struct sp_reducer *reducer);

/* Drops dominated states, and pairs of states at leaves (reduce_dominate.c). */
void sp_reducer_dominate(struct sp_reducer *reducer);

/* What is left, packed (reduce_pack.c). */
enum sp_status sp_reducer_pack(struct sp_reducer *reducer, struct sp_reduced *reduced);
