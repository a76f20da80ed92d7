#pragma once
/*
 * What the parts of the search for routes share.
 *
 *   table.c    a problem checked, links as a matrix, bounds on rates
 *   flow.c     the largest flow of a choice of intervals
 *   anneal.c   annealing over moves of intervals and of their borders
 *   bound.c    upper bounds
 *   exact.c    all choices that matter, from the first layer to the last, for small problems
 *   solve.c    sp_routes_solve(): rounds of tasks
 */
#include "base/random.h"
#include "solvers/routes/routes.h"

/* A problem as the search reads it. */
struct sp_routes_table {
    const struct sp_routes_problem *problem;
    uint32_t layers, nodes, side; /* side: nodes + 1 */
    /* The number of the link, by from * side + to, or UINT32_MAX; the last row is the source's, the last column the
       sink's. */
    uint32_t *link;
    double most;       /* the largest finite rate or capacity: what rounding is measured by */
    bool is_ample;     /* all have one that carries all that can be */
    uint32_t *kind_of; /* per node: the lowest node that it may change places with */
};

/* Whether to go on, as the caller's watch and flag say. */
static inline bool sp_routes_goes_on(const struct sp_routes_options *options, double value, double bound)
{
    return (options->stop == NULL || !*options->stop) && sp_watch_tick(options->watch, "routes", 0, value, bound);
}

enum sp_status sp_routes_table_create(struct sp_arena *arena, const struct sp_routes_problem *problem,
                                      struct sp_routes_table *ret_table, struct sp_error *err);

static inline double sp_routes_rate(const struct sp_routes_table *table, uint32_t node, uint32_t first, uint32_t count)
{
    const struct sp_routes_node *n = &table->problem->nodes[node];
    return count == 0 || count > n->most ? 0 : n->rates[(size_t)first * n->stride + count - 1];
}

/* What the link from `from` to `to` (the source and the sink are number `nodes`) carries in front of layer `next`; 0
   where there is none. */
static inline double sp_routes_capacity(const struct sp_routes_table *table, uint32_t from, uint32_t to, uint32_t next)
{
    const uint32_t number = table->link[(size_t)from * table->side + to];
    if (number == UINT32_MAX)
        return 0;
    const struct sp_routes_link *link = &table->problem->links[number];
    return link->by_layer != NULL ? link->by_layer[next] : link->capacity;
}

/* Scratch for flows: the graph of the intervals at hand, of which only what the source reaches is built. Vertices 2 i
   and 2 i + 1 are where requests come into node i and leave it. */
struct sp_routes_arc {
    uint32_t to, next;
    double left; /* capacity that is not used; arc ^ 1 goes back */
};

struct sp_routes_flow {
    const struct sp_routes_table *table;
    uint32_t arc_count, arc_capacity;
    struct sp_routes_arc *arcs;
    uint32_t *arc_link;    /* per pair of arcs: the link's number, or UINT32_MAX for a node */
    uint32_t *first;       /* per vertex: its arcs */
    uint32_t *at;          /* per vertex: the arc that is tried next */
    uint32_t *seen, stamp; /* per vertex */
    uint32_t *path, *queue;
    uint32_t *begins, *next_begin; /* per layer: nodes whose interval begins there */
    double smallest;               /* less is nothing */
    uint32_t horizon;              /* what comes to this layer is at the sink; UINT32_MAX: all layers count */
    uint64_t count;                /* flows computed */
};

enum sp_status sp_routes_flow_create(struct sp_arena *arena, const struct sp_routes_table *table,
                                     struct sp_routes_flow *ret_flow, struct sp_error *err);

/* The largest flow, 0 or more. What each link carries can then be read of `flow`. */
double sp_routes_flow_value(struct sp_routes_flow *flow, const struct sp_routes_interval *intervals);

/* One run of annealing, which allocates nothing, so that several may run side by side. It goes on where it was. */
struct sp_routes_anneal {
    const struct sp_routes_table *table;
    struct sp_routes_flow flow;
    uint64_t seed, steps, done;                     /* of `steps` in all; 0: it begins */
    double hot, cold;                               /* temperatures, in requests a second */
    double bound;                                   /* no choice does more */
    struct sp_routes_interval *now, *best, *before; /* per node; `now` is where it begins */
    double value;                                   /* of `best`, which is written where it is beaten */
    /* Scratch. */
    double now_value, temperature;
    double *cover;     /* per layer: sum of the rates of its holders */
    uint32_t *changed; /* nodes of a move */
    uint32_t changed_count;
    uint32_t *stamp_of, stamp;
    uint32_t *borders; /* layers at which something begins or ends */
};

enum sp_status sp_routes_anneal_create(struct sp_arena *arena, const struct sp_routes_table *table,
                                       struct sp_routes_anneal *ret_anneal, struct sp_error *err);
void sp_routes_anneal_run(struct sp_routes_anneal *anneal, uint64_t steps);

/*
 * Weights of rates in covers. Nodes whose rates add up to `wanted` or more have weights that add up to 1 or more, in
 * each of several ways:
 *   way 0       rate / wanted, at most 1
 *   way m > 0   (m + 2 - n) / (m + 1), at least 1 / (m + 1), where n of such a rate are needed: the largest of a cover
 *               says how many it has
 */
#define SP_ROUTES_WAYS 5

double sp_routes_weight(double rate, double wanted, uint32_t way);

/* Of each node the largest weight summed over the layers of an interval, into ret_powers unless that is NULL; returns
   the sum of all. Neighbours that share their rates are looked at once. */
double sp_routes_power(const struct sp_routes_table *table, double wanted, uint32_t way, double *ret_powers);

/* Requests a second that no choice passes. */
double sp_routes_bound(const struct sp_routes_table *table);

/* Goes over all choices that may do more than *value, which is then raised, with the choice in `best`. Returns true in
   *ret_is_proved where all were seen within `limit` steps. */
struct sp_routes_exact {
    const struct sp_routes_table *table;
    const struct sp_routes_options *options; /* which may say that it ends */
    uint64_t limit;
    double value, bound;
    struct sp_routes_interval *best; /* per node */
    bool is_proved;
    uint64_t flows;
};

enum sp_status sp_routes_exact_run(struct sp_arena *arena, struct sp_routes_exact *exact, struct sp_error *err);

/* Nodes in a row, cut into groups; those behind the last one hold nothing. */
struct sp_routes_row {
    uint32_t count; /* groups */
    uint32_t *order, *size;
};

/* One run over rows of groups, which allocates nothing. It goes on where it was. */
struct sp_routes_groups {
    const struct sp_routes_table *table;
    struct sp_routes_flow flow;
    uint64_t seed, done;             /* steps; 0: it begins */
    struct sp_routes_row row, other; /* where it begins; the one before */
    double wanted;                   /* requests a second at which groups are as long as they can be; raised */
    double value;
    struct sp_routes_interval *best, *intervals;
    double now, temperature;
    double *sums, *in;
};

enum sp_status sp_routes_groups_create(struct sp_arena *arena, const struct sp_routes_table *table,
                                       struct sp_routes_groups *ret_groups, struct sp_error *err);
void sp_routes_groups_run(struct sp_routes_groups *groups, uint64_t steps);
