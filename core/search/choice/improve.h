#pragma once
/*
 * improve - better and better feasible choices of a reduced problem.
 *
 * Begins with any states (of prices, of the caller, random), makes them fit, and improves: single and double moves with
 * the usage kept per moment; parts of the graph (trees, windows in time, neighbourhoods of what is expensive) whose
 * states are all chosen anew, exactly, with everything else as it is, under prices or under the limits themselves
 * (large-neighbourhood search: Shaw 1998; tree blocks: Hamze, de Freitas 2004). Deterministic for a seed and a work
 * limit.
 */
#include "search/choice/reduce.h"

struct sp_improver; /* one search, with random numbers of its own */

/* `lane` and `seed` choose the random numbers. NULL without memory. */
struct sp_improver *sp_improver_create(struct sp_arena *arena, const struct sp_reduced *reduced, uint64_t seed,
                                       uint32_t lane);

/* Prices (per moment) and reduced costs (per state) of a bound, for guidance; copied. Either may be NULL. */
void sp_improver_guide(struct sp_improver *improver, const double *prices, const double *reduced_costs);

/* States to go on from, if they are better than its own. */
void sp_improver_offer(struct sp_improver *improver, const uint32_t *states);

/* Searches for about `work` steps, or until `stop`, or until the cost is `bound` (of the whole problem). */
void sp_improver_run(struct sp_improver *improver, uint64_t work, int64_t bound, const volatile bool *stop,
                     uint64_t *ret_work);

/* The best so far: feasible ones by cost, others by how much they are over. `*ret_cost` includes the fixed cost. */
const uint32_t *sp_improver_best(const struct sp_improver *improver, bool *ret_feasible, int64_t *ret_cost);
