#pragma once
/*
 * improve - better and better feasible choices of a reduced problem.
 *
 * The limits at moments are first moved into the cost by prices, and what is left is relaxed by messages along edges;
 * states that follow the messages are the first trials, and say how prices are to change. From then on windows are
 * solved, parts of the graph of which all states are chosen anew with everything else as it is (large-neighbourhood
 * search: Shaw 1998): a window has few variables with all their states or many with their most promising ones, is
 * eliminated exactly under prices of its own, and then enumerated within the gap to what its variables cost now, under
 * the limits themselves. Where windows no longer help, a region of the best states is disturbed, and repaired.
 *
 * Invariants
 *  - Equal problems, guides, offers, seeds, numbers and work limits give equal states, however the work is cut into
 *    runs that all ended by their limit.
 *  - Memory is taken when the search is created only. A search may run in any thread, if no other uses its arena then.
 */
#include "solvers/choice/reduce.h"

struct sp_improver; /* one search, with random numbers of its own */

/* The number `search` and the seed choose the random numbers. NULL without memory. */
struct sp_improver *sp_improver_create(struct sp_arena *arena, const struct sp_reduced *reduced, uint64_t seed,
                                       uint32_t search);

/* Prices (per moment) and reduced costs (per state) of a bound, for guidance; copied. Either may be NULL. */
void sp_improver_guide(struct sp_improver *improver, const double *prices, const double *reduced_costs);

/* States to go on from, if they are better than its best; they may be over, or forbidden. */
void sp_improver_offer(struct sp_improver *improver, const uint32_t *states);

/* Searches for about `work` steps, or until `stop`, or until the cost is `bound` (of the whole problem). */
void sp_improver_run(struct sp_improver *improver, uint64_t work, int64_t bound, const volatile bool *stop,
                     uint64_t *ret_work);

/* The best so far: feasible ones by cost, others by how much they are over. `*ret_cost` includes the fixed cost. */
const uint32_t *sp_improver_best(const struct sp_improver *improver, bool *ret_feasible, int64_t *ret_cost);
