#pragma once
/*
 * improve_internal - what the files of improve share: one search, its usage tree, and windows.
 *
 * Glossary
 *  slack    limit less usage, of a moment; negative where the states are over
 *  window   a set of variables that is a forest in the graph; all its states are chosen anew while all others stay as
 *           they are
 *  segment  neighbouring moments at which the same ranges of a window's variables are live: one limit holds for all,
 *           that of the moment with least slack
 *  price    cost per byte of a moment or segment
 *  priced   of a cost: with price * usage added
 *  regret   how much more the best with a given state costs than the best, when only prices hold
 */
#include "base/random.h"
#include "solvers/choice/improve.h"

#define SP_IMPROVE_NONE UINT32_MAX

/* Range additions and minima over the slack of all moments in logarithmic time; marks are never pushed down. */
struct sp_slack_tree {
    uint32_t size; /* a power of two, at least two more than there are moments */
    int64_t *least, *mark;
};

enum sp_status sp_slack_tree_init(struct sp_slack_tree *tree, struct sp_arena *arena, uint32_t moments);
void sp_slack_tree_set(struct sp_slack_tree *tree, uint32_t moments, const int64_t *slack);
void sp_slack_tree_add(struct sp_slack_tree *tree, uint32_t from, uint32_t to, int64_t amount);
/* A moment with the least slack of all. */
uint32_t sp_slack_tree_worst(const struct sp_slack_tree *tree);
int64_t sp_slack_tree_minimum(const struct sp_slack_tree *tree, uint32_t from, uint32_t to);

static inline int64_t sp_slack_tree_root(const struct sp_slack_tree *tree)
{
    return tree->least[1];
}

#define SP_IMPROVE_TERMS 32 /* infinite terms, and a sum that was clamped, fit into 64 bits together */

/* Keeps sums far from the largest number of 64 bits. A sum that is cut is still infinite many times over. */
static inline void sp_improve_clamp(int64_t *value, uint32_t count)
{
    for (uint32_t s = 0; s < count; s++)
        value[s] = value[s] > SP_IMPROVE_TERMS * SP_CHOICE_INFINITE ? SP_IMPROVE_TERMS * SP_CHOICE_INFINITE : value[s];
}

static inline int64_t sp_improve_narrow(__int128 sum)
{
    return sum < 40 * SP_CHOICE_INFINITE ? (int64_t)sum : 40 * SP_CHOICE_INFINITE;
}

/* A payment, rounded down; at most infinite. */
static inline int64_t sp_improve_whole(double sum)
{
    return sum < (double)SP_CHOICE_INFINITE ? (int64_t)sum : SP_CHOICE_INFINITE;
}

#define SP_WINDOW_PLACES 1024                /* variables of a window, at most */
#define SP_WINDOW_WIDTH  24                  /* earlier places that a place depends on */
#define SP_WINDOW_TERMS  16384               /* edges of a window */
#define SP_WINDOW_CELLS  ((uint32_t)1 << 20) /* of all tables of elimination, of all copies of edges' tables */

/* Elimination: place i has a table over its scope, the least that it and all places which depend on it cost. It is the
   least over its candidates of the sum of its terms: rows of edges' tables, and of tables of later places. */
struct sp_window_tables {
    uint32_t *scope, *widths; /* place i: scope[i * WIDTH ..], ascending places */
    int64_t **of;             /* per place */
    uint32_t *first_term;     /* per place */
    const int64_t **term;     /* where its row for all zeros is */
    uint32_t *stride;         /* per term: WIDTH steps, one for each of the scope */
    int64_t *cells, *copies;  /* what tables are made of */
    int64_t *value;           /* per candidate of one place */
};

struct sp_window_segments {
    uint32_t count;
    uint32_t *first_part;       /* place i has parts first_part[i] .. first_part[i + 1], one for each range */
    uint32_t *from, *to;        /* per part: segments */
    int64_t *cap, *used;        /* per segment */
    double *price, *best_price; /* per segment */
    double *price_before;       /* prices of all segments before one, count + 1 of them */
    uint64_t *edges;            /* scratch: where ranges begin or end */
};

/* Scratch of the order: per variable added. */
struct sp_window_order {
    uint64_t *links; /* SP_WINDOW_PLACES bits each */
    double *weight, *around;
    uint32_t *variable, *first, *size, *eliminated, *place_of;
};

struct sp_window_enumeration {
    uint32_t *ranked, *candidates, *tried; /* per candidate; per place: how many and how many were tried */
    int64_t *regret;                       /* of the ranked candidates */
    int64_t *spent;                        /* per place */
};

/* A window and everything that solving it needs. Variables are added in any order; then they get places, so that each
   depends on few earlier ones when later ones are eliminated. */
struct sp_improve_window {
    uint32_t most_places, most_listed, most_inner, most_cells,
        most_copies;         /* what there is room for: a small problem needs little */
    uint32_t count;          /* places, after sp_window_prepare(); before, variables added */
    uint32_t added;          /* variables added: of which some are left as they are */
    uint32_t listed;         /* candidates of all of them */
    uint32_t inner;          /* edges between variables added */
    uint32_t copied;         /* cells that copies of edges' tables take */
    uint32_t *variable;      /* per place */
    uint32_t *first, *size;  /* per place: its candidates are first[i] .. first[i] + size[i] of the arrays below */
    uint32_t *state;         /* per candidate: the state */
    int64_t *own, *priced;   /* per candidate: with what is outside; with prices */
    uint32_t *chosen, *best; /* per place: a candidate from 0 */
    int64_t current;         /* what the states at the beginning cost */
    int64_t bound;           /* nothing within the caps costs less */
    int64_t best_cost;       /* of `best` */
    bool is_improved;        /* `best` is set */
    struct sp_window_tables tables;
    struct sp_window_segments segments;
    struct sp_window_order order;
    struct sp_window_enumeration enumeration;
};

struct sp_messages {
    uint64_t *first; /* per link of v: where the message to v along it begins, one value per state of v */
    uint32_t *twin;  /* per link: the link of the other variable for the same edge */
    int64_t *value, *priced;
    int64_t *belief, *scratch; /* per state of one variable */
    uint32_t *states;          /* per variable: as decided in the last pass */
};

#define SP_IMPROVE_KINDS 8 /* of windows, at most */

/* Prices of moments, and the bound that they give. */
struct sp_improve_prices {
    double *now, *best, *before;      /* per moment: of the last pass; with the best bound; of all moments before one */
    double *mean;                     /* per moment: slack, averaged over passes */
    double *penalty, *penalty_before; /* prices of being over, while the states do not fit */
    double penalty_scale;
    double spread;              /* sum over variables: by how much the states' own costs differ, and 1 */
    double bound, bound_before; /* the best bound; a number of passes ago */
    double part;                /* of the gap that a step of prices aims at */
    uint32_t passes;
};

struct sp_improver {
    struct sp_arena *arena;
    const struct sp_reduced *reduced;
    uint64_t random;
    uint64_t work;
    uint32_t *states, *best; /* now; the best ever */
    int64_t cost, best_cost; /* without the fixed cost, and without infinite terms */
    uint32_t infinite, best_infinite;
    int64_t over, best_over; /* how much the worst moment is over, or 0 */
    struct sp_slack_tree slack;
    int64_t *dense; /* per moment: the slack when it was last computed as a whole */
    struct sp_improve_prices prices;
    bool is_begun, has_guide;
    int64_t *guide;  /* per state: reduced costs of somebody else's bound */
    uint32_t *place; /* per variable: its place in the window (before there are places: when it was added), or none */
    uint32_t *queue; /* variables that may come next */
    uint32_t *region, region_count, *mark; /* variables of the round; per variable: scratch */
    const int64_t **rows;                  /* per link: the table, [state of the other][own state] */
    uint32_t *other;                       /* per link: the variable at the other end */
    struct sp_improve_window window;
    struct sp_messages messages;
    double kind_gain[SP_IMPROVE_KINDS], kind_work[SP_IMPROVE_KINDS]; /* lately */
    int64_t cost_before, over_before;                                /* some windows ago */
    uint32_t rounds, windows, idle, patience; /* windows of this round; those in a row without success; allowed */
};

/* -- improve_window.c -- */
enum sp_status sp_window_init(struct sp_improve_window *window, struct sp_improver *improver);

/* Makes an empty window. */
void sp_window_clear(struct sp_improver *improver);

/* Adds a variable with the candidates that were put at window->state[window->listed ..]: `size` of them, ascending, its
   state among them. False where there is no room. */
bool sp_window_add(struct sp_improver *improver, uint32_t variable, uint32_t size);

/* Fills in order, costs, segments and prices for the variables that were added. Tables are at most 2^`width` cells. */
void sp_window_prepare(struct sp_improver *improver, double width);

/* For candidates given, the usage of each segment, into window->segments.used. */
void sp_window_usage(struct sp_improver *improver, const uint32_t *chosen);

/* target = source + price * usage, for all candidates. */
void sp_window_price(struct sp_improver *improver, const double *price, const int64_t *source, int64_t *target);

/* -- improve_order.c -- */
/* Gives places to the variables added, and their scopes; leaves out those that would make tables too large. */
void sp_window_order(struct sp_improver *improver, double width);

/* -- improve_eliminate.c -- */
/* The terms of all places. */
void sp_window_terms(struct sp_improver *improver);

/* The best candidates under the window's prices, into `chosen`; returns their priced cost. */
int64_t sp_window_minimum(struct sp_improver *improver);

/* Into window->tables.value: what each candidate of place i costs with the best of all later places, earlier ones
   chosen. */
void sp_window_values(struct sp_improver *improver, uint32_t i);

/* What `chosen` costs, without prices. */
int64_t sp_window_cost(const struct sp_improver *improver, const uint32_t *chosen);

/* -- improve_solve.c -- */
/* Looks for candidates that are within the caps and cost less than `target`; true when `best` has them. `rounds` of
   prices, `steps` of enumeration at most. */
bool sp_window_solve(struct sp_improver *improver, int64_t target, uint32_t rounds, uint64_t steps,
                     const volatile bool *stop);

/* -- improve_state.c -- */
/* Recomputes cost and usage from the states. */
void sp_improver_refresh(struct sp_improver *improver);
/* Sets the window's variables to `chosen`, and updates cost and usage. */
void sp_improver_take(struct sp_improver *improver, const uint32_t *chosen);
/* Remembers the states when they are the best. */
bool sp_improver_remember(struct sp_improver *improver);

/* -- improve_messages.c -- */
enum sp_status sp_messages_init(struct sp_messages *messages, struct sp_improver *improver);

/* Costs of all states with prices, into messages->priced. */
void sp_messages_price(struct sp_improver *improver);

/* One pass over all variables, forward or backward; messages->states are what it decides. The sum of all minima, which
   after a backward pass is a lower bound of the priced cost. */
double sp_messages_pass(struct sp_improver *improver, bool is_forward, const volatile bool *stop);

/* How good each state of a variable is by the messages or the guide, the less the better, into messages->belief. */
void sp_messages_rate(struct sp_improver *improver, uint32_t variable);

/* -- improve_relax.c -- */
void sp_improver_sum_prices(const double *price, double *before, uint32_t moments);
void sp_improver_relax(struct sp_improver *improver, const volatile bool *stop);
void sp_improver_disturb(struct sp_improver *improver, uint32_t passes, const volatile bool *stop);

/* -- improve_grow.c -- */
void sp_window_grow(struct sp_improver *improver, uint32_t size, uint32_t most);
void sp_window_between(struct sp_improver *improver, const uint32_t *others);
void sp_improver_choose_region(struct sp_improver *improver, uint32_t size);
