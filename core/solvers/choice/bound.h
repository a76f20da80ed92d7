#pragma once
/*
 * bound - a lower bound for every choice, and prices and messages that lead to good ones.
 *
 * Prices on moments (one for each, >= 0) move the memory limits into the cost: what is left is a sum over variables and
 * edges, of which a minimum from below is found by messages (tree-reweighted or max-product linear programming, block
 * coordinate ascent on spanning trees), or exactly where the graph has small width. The prices follow subgradients.
 * The bound is
 *     min over states of (cost + price * usage)  -  sum over moments of price * limit      (Geoffrion 1974)
 * and is rounded up to an integer, with a margin for what floating-point sums may be off.
 */
#include "solvers/choice/reduce.h"

struct sp_bound_state; /* prices, messages: kept between calls */

/* All 0 at first: a bound without prices. NULL without memory. */
struct sp_bound_state *sp_bound_create(struct sp_arena *arena, const struct sp_reduced *reduced);

/* Begins with these prices, per moment, of a similar problem. To be called before the first sp_bound_improve(). */
void sp_bound_warm(struct sp_bound_state *state, const double *prices);

/* Goes on for about `work` steps (deterministic), or until `stop`, or until the bound reaches `target` (the cost of a
   known choice less the fixed cost; INT64_MAX: none). Returns the best bound so far, of the whole problem
   (reduced->fixed_cost included). */
int64_t sp_bound_improve(struct sp_bound_state *state, uint64_t work, int64_t target, const volatile bool *stop,
                         uint64_t *ret_work);

/* Per moment, at the best bound: cost per byte. */
const double *sp_bound_prices(const struct sp_bound_state *state);

/* Per state: its reduced cost, a lower bound of how much a choice that takes it is above the bound; a state whose
   reduced cost is more than (cost of a known choice - bound) is in no better choice. */
const double *sp_bound_reduced_costs(struct sp_bound_state *state);

/* Marks in `dead`, per state, those that are in no choice of less than `cost` (of the whole problem). Returns how many
   became dead. */
uint32_t sp_bound_mark_dead(struct sp_bound_state *state, int64_t cost, bool *dead);

/* The best bound so far, of the whole problem; 0 when nothing is known. */
int64_t sp_bound_best(const struct sp_bound_state *state);

/* Whether sweeps are so cold that what the relaxation takes tells where good choices are. */
bool sp_bound_is_cool(const struct sp_bound_state *state);

/* Whether sweeps have cooled down once: more work improves little. */
bool sp_bound_has_converged(const struct sp_bound_state *state);
