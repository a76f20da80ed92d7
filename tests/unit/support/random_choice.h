#pragma once
/*
 * random_choice - small choice problems with everything that may come, and their optimum by trying everything.
 *
 * Chains, cliques and random graphs; edges that are functions, permutations, equalities or partly forbidden, parallel
 * ones; empty intervals, usages of 0, ties; limits that are none, loose, tight or too small.
 */
#include "solvers/choice/choice.h"

#define RANDOM_CHOICE_NODES 12

/* The next number of a sequence, below `bound`; the same for the same seed. */
uint32_t choice_pick(uint64_t *seed, uint32_t bound);

/* At most `nodes` nodes, RANDOM_CHOICE_NODES at most, and at most some 100,000 choices. */
struct sp_choice_problem *choice_random(struct sp_arena *arena, uint32_t nodes, uint64_t *seed);

/* The least cost of all feasible choices, INT64_MAX when there is none; the least peak of those that are not forbidden
   (INT64_MAX when all are). */
int64_t choice_try_all(const struct sp_choice_problem *problem, int64_t *ret_least_peak);
