/* Searches of reduced choice problems against trying everything; what they say they found is counted anew. */
#include <criterion/criterion.h>

#include "random_choice.h"
#include "solvers/choice/improve.h"

#define PROBLEMS 400
#define WORK     2000000

struct found {
    bool is_feasible;
    int64_t cost;
    uint32_t states[RANDOM_CHOICE_NODES];
};

static struct sp_reduced *reduce(struct sp_arena *arena, const struct sp_choice_problem *problem)
{
    struct sp_reduced *reduced = NULL;

    cr_assert_eq(sp_reduce(arena, problem, NULL, &reduced, NULL), SP_OK);
    return reduced;
}

/* Runs a search in `runs` parts, and counts anew what it found. */
static struct found search(struct sp_arena *arena, const struct sp_reduced *reduced, uint64_t seed, uint32_t runs)
{
    struct sp_improver *improver = sp_improver_create(arena, reduced, seed, 0);
    struct found found = {0};
    uint32_t choice[RANDOM_CHOICE_NODES];
    int64_t cost, peak, moment;

    cr_assert_not_null(improver);
    for (uint32_t run = 0; run < runs; run++) {
        uint64_t work;

        sp_improver_run(improver, WORK / runs, 0, NULL, &work);
    }
    const uint32_t *best = sp_improver_best(improver, &found.is_feasible, &found.cost);

    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        found.states[v] = best[v];
        cr_assert_lt(best[v], reduced->first[v + 1] - reduced->first[v]);
    }
    sp_reduced_expand(reduced, best, choice);
    cr_assert_eq(sp_choice_evaluate(arena, reduced->problem, choice, &cost, &peak, &moment, NULL), SP_OK);
    cr_assert_eq(found.is_feasible, cost != INT64_MAX && peak <= reduced->problem->limit);
    if (found.is_feasible)
        cr_assert_eq(found.cost, cost);
    return found;
}

Test(choice_improve, finds_the_optimum_of_small_problems)
{
    uint64_t seed = 7;
    uint32_t feasible = 0, optimal = 0;

    for (uint32_t i = 0; i < PROBLEMS; i++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        struct sp_choice_problem *problem = choice_random(arena, 11, &seed);
        struct sp_reduced *reduced = reduce(arena, problem);
        int64_t peak, best = choice_try_all(problem, &peak);

        if (!reduced->is_infeasible) {
            struct found found = search(arena, reduced, i, 1);

            feasible += best != INT64_MAX;
            optimal += found.is_feasible && found.cost == best;
            cr_assert(!found.is_feasible || found.cost >= best);
        }
        sp_arena_destroy(arena);
    }
    cr_assert_gt(feasible, PROBLEMS / 3);
    cr_assert_eq(optimal, feasible, "%u of %u", optimal, feasible);
}

Test(choice_improve, depends_on_the_seed_and_the_work_only)
{
    uint64_t seed = 3;

    for (uint32_t i = 0; i < 40; i++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        struct sp_reduced *reduced = reduce(arena, choice_random(arena, 12, &seed));

        if (!reduced->is_infeasible) {
            struct found a = search(arena, reduced, 5, 1), b = search(arena, reduced, 5, 1);

            cr_assert_eq(memcmp(a.states, b.states, sizeof a.states), 0);
            cr_assert_eq(a.cost, b.cost);
            cr_assert_eq(search(arena, reduced, 5, 3).cost, a.cost, "this much work is enough in parts, too");
        }
        sp_arena_destroy(arena);
    }
}

/* 40 nodes in a row, which cost less when they are equal, of two strategies each: large and free, small and dear. At a
   moment of all of them half of the large ones fit. */
static struct sp_choice_problem *row(struct sp_arena *arena)
{
    enum { NODES = 40 };
    static uint32_t first[NODES + 1];
    static int64_t cost[2 * NODES], usage[2 * NODES], begin[NODES], end[NODES];
    static struct sp_choice_edge edges[NODES - 1];
    static const int64_t table[4] = {0, 3, 3, 0};
    struct sp_choice_problem *problem = SP_NEW(arena, struct sp_choice_problem);

    for (uint32_t v = 0; v < NODES; v++) {
        first[v + 1] = 2 * (v + 1);
        cost[2 * v + 1] = 10 + v % 7;
        usage[2 * v] = 100;
        usage[2 * v + 1] = 50;
        end[v] = 1;
        if (v + 1 < NODES)
            edges[v] = (struct sp_choice_edge){v, v + 1, table};
    }
    *problem = (struct sp_choice_problem){NODES, NODES - 1, first, cost, usage, begin, end, edges, 75 * NODES};
    return problem;
}

/* 150 leaves around a hub that forbids each of them the strategy it has itself: with forbidden sums of all of them. A
   leaf is large and free, of medium size for 5, or nothing for 9; the limit is their medium size. With the hub at
   medium half of them are free: 9 / 2 each; else all are medium. */
static struct sp_choice_problem *star(struct sp_arena *arena)
{
    enum { LEAVES = 150 };
    static uint32_t first[LEAVES + 2];
    static int64_t cost[3 * LEAVES + 3], usage[3 * LEAVES + 3], begin[LEAVES + 1], end[LEAVES + 1];
    static struct sp_choice_edge edges[LEAVES];
    static const int64_t prices[3] = {0, 5, 9}, sizes[3] = {2, 1, 0};
    static const int64_t table[9] = {[0] = SP_CHOICE_INFINITE, [4] = SP_CHOICE_INFINITE, [8] = SP_CHOICE_INFINITE};
    struct sp_choice_problem *problem = SP_NEW(arena, struct sp_choice_problem);

    for (uint32_t v = 0; v <= LEAVES; v++) {
        first[v + 1] = 3 * (v + 1);
        end[v] = 1;
        for (uint32_t s = 0; v > 0 && s < 3; s++) {
            cost[3 * v + s] = prices[s];
            usage[3 * v + s] = sizes[s];
        }
        if (v > 0)
            edges[v - 1] = (struct sp_choice_edge){0, v, table};
    }
    *problem = (struct sp_choice_problem){LEAVES + 1, LEAVES, first, cost, usage, begin, end, edges, LEAVES};
    return problem;
}

Test(choice_improve, counts_what_is_forbidden)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_reduced *reduced = reduce(arena, star(arena));
    struct sp_improver *improver = sp_improver_create(arena, reduced, 1, 0);
    uint32_t *forbidden = SP_NEW_ARRAY(arena, reduced->variable_count, uint32_t);
    uint64_t work;
    int64_t cost;
    bool is_feasible;

    cr_assert_gt(reduced->variable_count, 100, "nothing of it is forced");
    sp_improver_offer(improver, forbidden);
    sp_improver_run(improver, 30 * WORK, 150 * 9 / 2, NULL, &work);
    sp_improver_best(improver, &is_feasible, &cost);
    cr_assert(is_feasible);
    cr_assert_eq(cost, 150 * 9 / 2);
    sp_arena_destroy(arena);
}

Test(choice_improve, takes_offers_and_guides)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_reduced *reduced = reduce(arena, row(arena));
    struct sp_improver *one = sp_improver_create(arena, reduced, 1, 0), *two = sp_improver_create(arena, reduced, 1, 1);
    double *prices = SP_NEW_ARRAY(arena, reduced->moment_count, double);
    double *rates = SP_NEW_ARRAY(arena, reduced->first[reduced->variable_count], double);
    uint64_t work;
    int64_t cost, other;
    bool is_feasible;

    cr_assert_gt(reduced->variable_count, 10, "nothing of it is forced");
    sp_improver_run(one, WORK, 0, NULL, &work);
    const uint32_t *best = sp_improver_best(one, &is_feasible, &cost);
    cr_assert(is_feasible);
    sp_improver_offer(two, best);
    sp_improver_best(two, &is_feasible, &other);
    cr_assert(is_feasible);
    cr_assert_eq(other, cost);

    uint32_t *worse = SP_NEW_ARRAY(arena, reduced->variable_count, uint32_t);
    for (uint32_t v = 0; v < reduced->variable_count; v++)
        worse[v] = reduced->first[v + 1] - reduced->first[v] - 1;
    sp_improver_offer(two, worse);
    sp_improver_best(two, &is_feasible, &other);
    cr_assert_eq(other, cost);

    for (uint32_t t = 0; t < reduced->moment_count; t++)
        prices[t] = 0.25;
    sp_improver_guide(two, prices, rates);
    sp_improver_run(two, WORK, 0, NULL, &work);
    sp_improver_best(two, &is_feasible, &other);
    cr_assert(is_feasible);
    cr_assert_leq(other, cost);
    sp_arena_destroy(arena);
}

Test(choice_improve, ends_at_its_bound_its_limit_and_when_stopped)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_reduced *reduced = reduce(arena, row(arena));
    struct sp_improver *improver = sp_improver_create(arena, reduced, 1, 0);
    volatile bool stop = true;
    uint64_t work;
    int64_t cost;
    bool is_feasible;

    sp_improver_run(improver, WORK, 0, &stop, &work);
    cr_assert_eq(work, 0);
    stop = false;
    sp_improver_run(improver, WORK, 0, &stop, &work);
    cr_assert_geq(work, WORK);
    cr_assert_lt(work, 2 * WORK);
    sp_improver_best(improver, &is_feasible, &cost);
    sp_improver_run(improver, WORK, cost, &stop, &work);
    cr_assert_eq(work, 0, "it has reached that");
    sp_arena_destroy(arena);
}
