#pragma once
/*
 * latency - what the parts of the search for one sample's latency share.
 *
 *   graph.c      nodes, edges and units; what must be with a unit; how long a solution takes
 *   chain.c      the best chain of stages, as if they ran one after the other
 *   anneal.c     annealing over moves of units and chunks
 *   bound.c      lower bounds from paths and memory
 *   path.c       the least time along one path, of all ways to cut it into stages
 *   branches.h   what branches beside a path add to that
 *   exact.c      all solutions of a small problem
 *   latency.c    sp_stages_latency()
 *
 * Slots of an sp_assign_state are the stages, or closed; each option that is free has one slot more for all its units,
 * whose nodes run one by one. Units are those that colours make: nodes of a colour that are not free are in one stage,
 * and then all that lies between them, too.
 */
#include "solvers/stages/assign.h"

struct sp_latency_graph {
    struct sp_arena *arena; /* of the run */
    const struct sp_stages_problem *problem;
    const struct sp_assign_model *model;
    uint32_t node_count;
    const uint32_t *unit_of;      /* per node */
    struct sp_rows nodes;         /* of a unit */
    struct sp_rows before, after; /* of a node: distinct */
    struct sp_rows makes, takes;  /* tensors of a node, of any users */
    uint32_t *order;              /* nodes, topological */
    uint32_t *units;              /* units by their first node in `order` */
    uint32_t *place;              /* per unit: where in `units` */
    double *alone;                /* per node: least seconds anywhere it may be */
    bool **allowed;               /* [option][unit] */
    uint32_t *sure_user;          /* per tensor: a user in another unit, for which alone it counts; UINT32_MAX: none */
    bool **is_sure; /* [option][tensor]: a stage with its maker sends it, one with that user receives it */
    uint32_t slot_count, free_count;
    struct sp_stages_choice *choices; /* of all slots, those of free options last */
};

/* A chain of stages. */
struct sp_latency_chain {
    bool is_found; /* else nothing but the last two is set */
    uint32_t count;
    struct sp_stages_choice *choices; /* of its stages but the free ones, in order */
    uint32_t *slot_of;                /* per unit: its stage, or SP_LATENCY_FREE + a free option */
    bool is_all;                      /* the units have one order, and nothing better is in it */
    bool is_best;                     /* nothing is better than this chain; without one nothing fits */
};
#define SP_LATENCY_FREE (UINT32_MAX / 2)

/* The clock works out when everything ends. */
struct sp_latency_clock {
    const struct sp_latency_graph *graph;
    uint32_t *part_of, *waits, *ready; /* per node; per part: a slot, or a node of a free slot */
    double *start;
    uint64_t work;
};

enum sp_status sp_latency_graph_create(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                       struct sp_latency_graph **ret_graph);

enum sp_status sp_latency_clock_create(struct sp_arena *arena, const struct sp_latency_graph *graph,
                                       struct sp_latency_clock *ret_clock, struct sp_error *err);

/* When the last part ends; INFINITY where stages wait for each other. `is_exact` is that of sp_assign_compute(). */
double sp_latency_time(struct sp_latency_clock *clock, const struct sp_assign_state *state, bool is_exact);

/* What a stage under the option takes to send or receive the tensor. */
static inline double sp_latency_transfer(const struct sp_stages_option *option, const struct sp_stages_tensor *tensor)
{
    return option->transfer_fixed + option->transfer_per_byte * tensor->bytes;
}

static inline bool sp_latency_is_free_slot(const struct sp_latency_graph *graph, uint32_t slot)
{
    return slot >= graph->slot_count - graph->free_count;
}

/* The best chain of stages that half of the work finds: a place to begin. */
enum sp_status sp_latency_chain_find(struct sp_stages_run *run, const struct sp_latency_graph *graph,
                                     struct sp_latency_chain *ret_chain);

/* Slots, as many as the graph has, for a chain that was found: for its stages, for the devices that it leaves, and
   closed ones. False without memory. */
bool sp_latency_chain_slots(struct sp_arena *arena, const struct sp_latency_graph *graph,
                            const struct sp_latency_chain *chain, struct sp_stages_choice *ret_choices);

/* One run of annealing; see struct sp_assign_anneal. */
struct sp_latency_anneal {
    const struct sp_latency_graph *graph;
    struct sp_assign_state *state;
    struct sp_latency_clock clock;
    uint64_t seed, steps;
    double hot, cold; /* as parts of `scale` */
    double scale;     /* a time that all are compared with */
    const volatile bool *stop;
    double value;
    bool is_better;
    uint32_t *slot_of;
    struct sp_stages_choice *choices; /* per slot */
    double time, energy;              /* of the state */
};

void sp_latency_anneal_run(struct sp_latency_anneal *anneal);

/* Lower bound for all solutions. */
enum sp_status sp_latency_bound(struct sp_stages_run *run, const struct sp_latency_graph *graph, double best_value,
                                double *ret_bound);

/* The least time that the nodes of a path take one after the other, in at most as many stages as there are slots, each
   a part of the path; 0 where that is too much work. Holds for all solutions. */
enum sp_status sp_latency_path(struct sp_stages_run *run, struct sp_arena *arena, const struct sp_latency_graph *graph,
                               uint32_t count, const uint32_t *path, double *ret_seconds);

/* All solutions of a small problem; see sp_assign_exact(). `best` has a value to be better than and no arrays yet;
   where something is, they are filled. */
enum sp_status sp_latency_exact(struct sp_stages_run *run, const struct sp_latency_graph *graph,
                                struct sp_assign_best *best, uint64_t limit, double *ret_bound);
