#pragma once
/*
 * bounder - what the parts of bound*.c share; private to them.
 *
 * The dual. Each edge e = (u, v) has two messages, vectors over the states of u and of v. They move cost between the
 * edge and its ends without changing what any choice costs:
 *     node:  own(s) = cost[s] + prices * usage[s] + sum of its messages(s)
 *     edge:  cost[s][x] - message to u (s) - message to v (x)
 * so that the sum of the least of every node and every edge, less price * limit of each moment, is a lower bound for
 * every prices >= 0 and every messages. Sweeps change the messages of one node at a time so that it grows.
 *
 * Soft sweeps take, in place of the minimum, -temperature * log(sum of exp(-cost / temperature)): that function is
 * smooth, so that going up along one node at a time does not get stuck, and what the nodes would take on average is the
 * gradient by which prices follow. The temperature goes down until the difference to the minimum is small.
 */
#include "solvers/choice/bound.h"

#define SP_BOUND_FORBIDDEN ((double)SP_CHOICE_INFINITE)

/* Prices of moments. */
struct sp_bound_prices {
    double *now, *best; /* per moment */
    double *sums;       /* per moment and one: sums of prices before it */
    double *mean;       /* per moment: what is used on average */
    double *step, *last_over;
    bool *is_priced; /* per moment */
    uint32_t count;  /* of moments that have a price */
};

/* So many more numbers may be read behind tables and written behind `gather`. */
#define SP_BOUND_LANES 8

struct sp_bound_scratch {
    double *gather, *total, *row, *weights; /* messages to one node; their sum; one row; its probabilities */
};

struct sp_bound_state {
    struct sp_arena *arena;
    const struct sp_reduced *reduced;
    uint32_t largest;      /* most states of a variable */
    uint32_t most_links;   /* of a variable */
    const double **tables; /* per edge: [state of u][state of v] */
    const double **turned; /* per edge: [state of v][state of u] */
    size_t *first_message; /* per edge: to u, behind it to v */
    size_t message_count;
    double *messages, *best_messages;
    double *own; /* per state: cost and priced usage */
    struct sp_bound_prices prices;
    struct sp_bound_scratch scratch;
    double *shares;   /* per state: of the last soft sweep, how much of the variable takes it */
    const bool *dead; /* per state, or NULL: may not be taken */
    const volatile bool *stop;
    double *reduced_costs, *above, *edge_floors;
    double temperature, hottest;
    double best; /* of what is above the fixed cost */
    bool has_best, has_started;
    uint32_t sweeps_here, sweeps_each, passes;
    uint64_t work;
};

/* Another state of the same problem: its own messages, the tables shared. NULL without memory. */
struct sp_bound_state *sp_bound_fork(struct sp_arena *arena, const struct sp_bound_state *from);
/* The bound of messages and prices as they are, without the fixed cost; the best one is kept. */
double sp_bound_evaluate(struct sp_bound_state *state);
int64_t sp_bound_rounded(double bound);

/* Messages (bound_sweep.c). `temperature` 0: minima. Returns the soft bound without prices' limits. */
double sp_bound_soft_sweep(struct sp_bound_state *state, bool is_backward, double temperature);
void sp_bound_hard_sweep(struct sp_bound_state *state, bool is_backward);

/* From below (bound_fix.c): sums of doubles less what they may be off, one rounding for each term and twice that. */
#define SP_BOUND_ROUNDING (4.5e-16)
double sp_bound_node_floor(const struct sp_bound_state *state, const double *messages, uint32_t v, double *ret_floors);
double sp_bound_edge_floor(const struct sp_bound_state *state, const double *messages, uint32_t e);

/* Columns (bound_columns.c): a table, [row][column], and the message to its rows. */
struct sp_bound_columns {
    const double *table, *message;
    uint32_t rows, columns;
};
/* The soft least of each column of table - message, and SP_BOUND_LANES - 1 numbers behind them. */
void sp_bound_soft_leasts(const struct sp_bound_columns *of, double temperature, double *ret_leasts);
/* The two ways to it, which give the same bits: in plain C, and with AVX2; false, and nothing written, where the processor
   does not have that. */
void sp_bound_soft_leasts_plain(const struct sp_bound_columns *of, double temperature, double *ret_leasts);
bool sp_bound_soft_leasts_wide(const struct sp_bound_columns *of, double temperature, double *ret_leasts);
/* e^x of SP_BOUND_LANES numbers <= 0. */
void sp_bound_exponentials(float *x);

/* Prices (bound_prices.c). */
void sp_bound_swap_prices(struct sp_bound_state *state); /* with the best ones */
void sp_bound_count_priced(struct sp_bound_state *state);
void sp_bound_apply_prices(struct sp_bound_state *state);
void sp_bound_add_means(struct sp_bound_state *state, uint32_t v, const double *weights);
void sp_bound_move_prices(struct sp_bound_state *state, double temperature);
double sp_bound_price_of_limits(const struct sp_bound_state *state); /* from above */

static inline bool sp_bound_is_stopped(const struct sp_bound_state *state)
{
    return state->stop != NULL && *state->stop;
}

static inline uint32_t sp_states_of(const struct sp_reduced *reduced, uint32_t v)
{
    return reduced->first[v + 1] - reduced->first[v];
}
