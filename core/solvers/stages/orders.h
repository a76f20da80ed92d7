#pragma once
/* orders - orders of the units that are cut into stages: what the parts of that search share (linear.c, improve.c). */
#include "base/heap.h"
#include "solvers/stages/chain.h"

struct sp_stages_orders {
    struct sp_stages_run *run;
    const struct sp_stages_prepared *prepared;
    const struct sp_stages_rates *rates;
    struct sp_stages_solution *best;
    uint32_t *order, *start; /* of the order under way, its blocks */
    uint32_t *waits, *ready; /* of units while an order is made */
    double *cut;             /* per place: bytes of links over the cut behind it */
};

#define SP_STAGES_MOST_BLOCKS 1024 /* cuts that are looked at in one order */

/* Cuts orders->order in at most so many blocks of about equal time, each where the least is sent; returns how many. */
uint32_t sp_stages_blocks(struct sp_stages_orders *orders, uint32_t most);

/* The best cut of orders->order, in at most so many blocks, that is below `limit`; `solution` is infeasible without
   one. `*ret_complete` as of sp_stages_chain_best(). */
enum sp_status sp_stages_slice(struct sp_stages_orders *orders, uint32_t most, double limit,
                               struct sp_stages_solution *solution, bool *ret_complete);

/* Looks for better orders than that of orders->best, which is feasible, until the work is used up or nothing better
   comes (improve.c). */
enum sp_status sp_stages_improve(struct sp_stages_orders *orders, double bound);

/* Heaps of numbers, the one with the smallest key first, and of equals the smallest. */
static inline bool sp_stages_is_before(const double *key, uint32_t a, uint32_t b)
{
    return key[a] < key[b] || (key[a] == key[b] && a < b);
}

SP_HEAP(sp_stages_heap, uint32_t, const double *, sp_stages_is_before)
