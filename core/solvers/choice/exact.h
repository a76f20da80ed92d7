#pragma once
/*
 * exact - branch and bound on what reduction and the bound left.
 *
 * A node forbids states. It takes over its parent's messages and prices, improves them for a moment, forbids what then
 * cannot be in a better choice, and is done when nothing better is left; else the states of one variable are divided in
 * two: those that use more and less, or the likeliest and the rest. Nodes are taken from a stack, several at a time
 * side by side; what comes out does not depend on how many threads do so.
 */
#include "solvers/choice/bound.h"

struct sp_exact;

/* `bound`: with its messages and prices. `cost`: of the best known choice, of the whole problem; only better ones are
   looked for. NULL without memory. */
struct sp_exact *sp_exact_create(struct sp_arena *arena, const struct sp_bound_state *bound, int64_t cost);

/* Goes on for about `work` steps. */
void sp_exact_run(struct sp_exact *exact, uint64_t work, const struct sp_executor *executor, const volatile bool *stop);

/* A better choice is known now. */
void sp_exact_offer(struct sp_exact *exact, int64_t cost);

bool sp_exact_is_done(const struct sp_exact *exact);  /* nothing better than the best known is left */
int64_t sp_exact_bound(const struct sp_exact *exact); /* of the whole problem */
const uint32_t *sp_exact_best(const struct sp_exact *exact,
                              int64_t *ret_cost); /* states; NULL: none better was found */
uint64_t sp_exact_work(const struct sp_exact *exact);
