/* Reduction keeps the optimum, checked by trying everything before and after. */
#include <criterion/criterion.h>

#include "random_choice.h"
#include "solvers/choice/reduce.h"

#define PROBLEMS 2000

/* The least cost over the states of what is left, within its rows, and that the figures are those of the expansion. */
static int64_t try_states(struct sp_arena *arena, const struct sp_reduced *reduced)
{
    uint32_t states[RANDOM_CHOICE_NODES] = {0}, choice[RANDOM_CHOICE_NODES], back[RANDOM_CHOICE_NODES], v;
    int64_t best = INT64_MAX;
    do {
        int64_t cost = reduced->fixed_cost;
        bool is_forbidden = false, fits = true;
        for (v = 0; v < reduced->variable_count; v++)
            cost += reduced->cost[reduced->first[v] + states[v]];
        for (uint32_t e = 0; e < reduced->edge_count; e++) {
            const struct sp_reduced_edge *edge = &reduced->edges[e];
            uint32_t rows = reduced->first[edge->u + 1] - reduced->first[edge->u];
            uint32_t columns = reduced->first[edge->v + 1] - reduced->first[edge->v];
            int64_t here = edge->cost[states[edge->u] * columns + states[edge->v]];
            cr_assert_lt(edge->u, edge->v);
            cr_assert_eq(here, edge->turned[states[edge->v] * rows + states[edge->u]]);
            is_forbidden |= here >= SP_CHOICE_INFINITE;
            cost += here;
        }
        for (uint32_t m = 0; m < reduced->moment_count; m++) {
            int64_t usage = 0;
            for (v = 0; v < reduced->variable_count; v++) {
                uint32_t first = reduced->first_range[v], count = reduced->first_range[v + 1] - first;
                for (uint32_t r = 0; r < count; r++)
                    if (reduced->ranges[first + r].from <= m && m < reduced->ranges[first + r].to)
                        usage += reduced->usage[reduced->first_usage[v] + (uint64_t)states[v] * count + r];
            }
            fits &= usage <= reduced->limit[m];
        }
        if (!is_forbidden) {
            int64_t real, peak, moment;
            sp_reduced_expand(reduced, states, choice);
            cr_assert_eq(sp_choice_evaluate(arena, reduced->problem, choice, &real, &peak, &moment, NULL), SP_OK);
            cr_assert_eq(real, cost);
            cr_assert_eq(peak <= reduced->problem->limit, fits, "rows that went are implied by those that stayed");
            cr_assert(sp_reduced_project(reduced, choice, back));
            cr_assert_eq(memcmp(back, states, reduced->variable_count * sizeof(*back)), 0);
            if (fits && cost < best)
                best = cost;
        }
        for (v = 0; v < reduced->variable_count; v++) {
            if (++states[v] < reduced->first[v + 1] - reduced->first[v])
                break;
            states[v] = 0;
        }
    } while (v < reduced->variable_count);
    return best;
}

Test(choice_reduce, keeps_the_optimum)
{
    uint32_t smaller = 0, infeasible = 0, left = 0;
    uint64_t seed = 1;
    for (uint32_t i = 0; i < PROBLEMS; i++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        struct sp_choice_problem *problem = choice_random(arena, 9, &seed);
        struct sp_reduced *reduced = NULL;
        int64_t least_peak, best = choice_try_all(problem, &least_peak);
        cr_assert_eq(sp_reduce(arena, problem, NULL, &reduced, NULL), SP_OK);
        cr_assert_leq(reduced->minimum_limit, least_peak, "problem %u", i);
        if (reduced->is_infeasible)
            cr_assert_eq(best, INT64_MAX, "problem %u", i);
        else
            cr_assert_eq(try_states(arena, reduced), best, "problem %u", i);
        infeasible += reduced->is_infeasible;
        smaller += reduced->variable_count < problem->node_count;
        left += reduced->variable_count > 2;
        sp_arena_destroy(arena);
    }
    /* The problems are neither all trivial nor all beyond it. */
    cr_assert_gt(infeasible, PROBLEMS / 50);
    cr_assert_gt(smaller, PROBLEMS / 2);
    cr_assert_gt(left, PROBLEMS / 25, "%u", left);
}

/* When it is told to stop at once it leaves nearly everything, and that is right, too. */
Test(choice_reduce, stops)
{
    uint64_t seed = 7;
    volatile bool stop = true;
    for (uint32_t i = 0; i < PROBLEMS / 10; i++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        struct sp_choice_problem *problem = choice_random(arena, 7, &seed);
        struct sp_reduced *reduced = NULL;
        int64_t least_peak, best = choice_try_all(problem, &least_peak);
        cr_assert_eq(sp_reduce(arena, problem, &stop, &reduced, NULL), SP_OK);
        if (!reduced->is_infeasible)
            cr_assert_eq(try_states(arena, reduced), best, "problem %u", i);
        else
            cr_assert_eq(best, INT64_MAX);
        sp_arena_destroy(arena);
    }
}
