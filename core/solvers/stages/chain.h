#pragma once
/*
 * chain - the best chain of ideals: contiguous stages, one after the other.
 *
 * An *ideal* is a set of units that holds all predecessors of its units. Stages in order are the differences of a
 * chain of ideals, from none to all units. A *lattice* is some ideals, with the steps between them: a step takes a
 * *block* away, units that here always come together. Either all ideals are there (ideals.c), or those of an order of
 * the units (linear.c): then the best chain of that order is found.
 *
 * The search goes from all units down (labels.c). A *label* is one way to cut what is above an ideal: the devices that
 * this took, and its value. Labels that another one at the same ideal is as good as in everything are dropped, and so
 * are those that cannot end below `limit`, since the units left need more time than the devices left have.
 */
#include "base/limits.h"
#include "solvers/stages/frame.h"

/* Ideals are numbered so that one with fewer units has a smaller number: 0 has none, count - 1 all. */
struct sp_stages_lattice {
    uint32_t count, block_count;
    uint32_t *start, *block, *target; /* of an ideal: the steps down, by block descending, and where they lead */
    const uint32_t *first, *units;    /* of block i: units[first[i]] up to before units[first[i + 1]], topological */
    uint32_t words;                   /* of one ideal in `bits`, by block; 0: ideal i has the first i blocks */
    uint64_t *bits;
};

/* All ideals of the units' order: SP_OK, and `ret_lattice` is NULL where there are more than `limit` or their table
   would take more than SP_STAGES_IDEAL_BYTES, or the work is used up. */
enum sp_status sp_stages_ideals(struct sp_stages_run *run, struct sp_arena *arena,
                                const struct sp_stages_prepared *prepared, uint64_t limit,
                                struct sp_stages_lattice **ret_lattice);
#define SP_STAGES_IDEAL_BYTES ((size_t)1 << 28)

/* The ideals of an order that is cut into blocks: block i is order[start[i]] up to before order[start[i + 1]]. The
   arrays stay the caller's and must live as long. */
enum sp_status sp_stages_line(struct sp_arena *arena, const uint32_t *order, const uint32_t *start, uint32_t blocks,
                              struct sp_stages_lattice **ret_lattice, struct sp_error *err);

/* What is looked for. */
enum sp_stages_aim {
    SP_STAGES_AIM_LOAD,    /* the smallest largest load */
    SP_STAGES_AIM_DEVICES, /* the fewest devices, with loads within load_limit */
    SP_STAGES_AIM_SUM,     /* the smallest sum of loads: of a latency, where stages run one after the other */
    SP_STAGES_AIM_MEMORY   /* the smallest largest part of the memory, which may be more than there is; load_limit */
};

struct sp_stages_chain {
    const struct sp_stages_prepared *prepared;
    const struct sp_stages_lattice *lattice;
    const struct sp_stages_rates *rates;
    enum sp_stages_aim aim;
    double load_limit; /* for all but the first and the sum */
    double limit;      /* only what is smaller is of interest; INFINITY: anything */
    bool is_any;       /* the first chain found will do */
};

/*
 * Finds the best chain below chain->limit. `solution` gets it (in run->scratch; value as the search sees it), or
 * is_feasible false where there is none or the work was used up first. `ret_is_complete` says that all was searched:
 * the solution is then the best of the lattice, and without one nothing below the limit is in it. Uses run->work_left.
 */
enum sp_status sp_stages_chain_search(struct sp_stages_run *run, const struct sp_stages_chain *chain,
                                      struct sp_stages_solution *solution, bool *ret_is_complete);

/*
 * The best chain of a lattice for the problem's objective, below `limit`: one search where devices are few, else a
 * bisection over loads, each of which asks for the fewest devices. `ret_complete`: nothing below max(limit, what was
 * found) is in the lattice, up to rounding. The solution's value is the evaluation's.
 */
enum sp_status sp_stages_chain_best(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                    const struct sp_stages_lattice *lattice, const struct sp_stages_rates *rates,
                                    double limit, struct sp_stages_solution *solution, bool *ret_complete);

/* The best of some orders of the units, each cut as well as it can be. `*ret_complete`: the units have but one order,
   and nothing below the solution is in it. */
enum sp_status sp_stages_linear(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                const struct sp_stages_rates *rates, struct sp_stages_solution *solution,
                                bool *ret_complete);

/* Looks for orders with better cuts than `solution`, which is feasible, until the work is used up, nothing better comes
   or the bound is reached. */
enum sp_status sp_stages_better_orders(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                       const struct sp_stages_rates *rates, double bound,
                                       struct sp_stages_solution *solution);

/* An order of the units as a lattice, in blocks where it is long: 0 is their own one, 1 follows chains to their end, 2
   does so from the end backwards. */
#define SP_STAGES_LINES 3
enum sp_status sp_stages_order_line(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                    const struct sp_stages_rates *rates, uint32_t which,
                                    struct sp_stages_lattice **ret_lattice);

/* The contiguous stages that need the smallest factor of all memory, as far as found (memory.c): its value, INFINITY
   where there are none with any memory. Writes them also where the work ended the search before its end. */
enum sp_status sp_stages_minimum_memory(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                        struct sp_stages_solution *closest);

/*
 * Bounds that add up over units (bound.c). Any solution needs, of each class, time and memory for each unit;
 * with a price for each class's time, the least that a unit can need is a number, and sums of these are bounds for sets
 * of units.
 */
struct sp_stages_rates {
    double time_price[SP_MAX_STAGE_CLASSES]; /* per class; all devices' prices together are 1 */
    double *time;   /* per unit: least priced seconds. Sum of all: a bound of the largest load */
    double *least;  /* per unit, of what adds up: DEVICES: those that its memory needs at least; LATENCY: seconds */
    double largest; /* what one unit alone needs, at least, of load */
    double memory_price[SP_MAX_STAGE_CLASSES];
    double *memory; /* per unit: least priced share of a device's memory; more than 1 in all: nothing fits */
    double time_sum, least_sum, memory_sum;
    double copies; /* a bound of the largest load: of what no devices' own memory has room for */
};

enum sp_status sp_stages_rates_make(struct sp_arena *arena, const struct sp_stages_prepared *prepared,
                                    struct sp_stages_rates *rates, struct sp_error *err);

/* The objective's bound that follows; INFINITY: surely nothing fits. */
double sp_stages_rates_bound(const struct sp_stages_problem *problem, const struct sp_stages_rates *rates);
