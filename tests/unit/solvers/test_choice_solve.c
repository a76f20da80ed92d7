/* Choices against trying everything: the optimum, its proof, and what cannot be; and the same with any threads. */
#include <criterion/criterion.h>

#include "how_many.h"
#include "random_choice.h"
#include "solvers/choice/bound.h"
#include "solvers/choice/reduce.h"
#include "threads/executor.h"

#define PROBLEMS         500 /* usually, and */
#define MANY_PROBLEMS    2000
#define STOPPED_PROBLEMS 200

static struct sp_choice_result *solve(struct sp_arena *arena, const struct sp_choice_problem *problem,
                                      const struct sp_executor *executor, uint64_t seed)
{
    struct sp_choice_options options = {.seed = seed, .executor = executor};
    struct sp_choice_result *result = NULL;
    struct sp_error err = {0};
    cr_assert_eq(sp_choice_solve(arena, problem, &options, &result, &err), SP_OK, "%s", err.message);
    return result;
}

/* What the result says of its choice, by the definition. */
static void check_choice(struct sp_arena *arena, const struct sp_choice_problem *problem,
                         const struct sp_choice_result *result)
{
    int64_t cost, peak, moment;
    cr_assert_eq(sp_choice_evaluate(arena, problem, result->choice, &cost, &peak, &moment, NULL), SP_OK);
    cr_assert_eq(peak, result->peak);
    cr_assert_eq(cost, result->cost);
    cr_assert_eq(result->is_feasible, cost < INT64_MAX && peak <= problem->limit);
    for (uint32_t i = 0; i < result->tight_count; i++) {
        cr_assert_leq(result->tight[i].usage, peak);
        cr_assert_gt(result->tight[i].price, 0);
    }
}

Test(choice_solve, finds_and_proves_the_optimum)
{
    uint32_t infeasible = 0, tight = 0, branched = 0;
    uint64_t seed = 11;
    const uint32_t problems = how_many(PROBLEMS, MANY_PROBLEMS);
    for (uint32_t i = 0; i < problems; i++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        struct sp_choice_problem *problem = choice_random(arena, RANDOM_CHOICE_NODES, &seed);
        struct sp_choice_result *result = solve(arena, problem, NULL, i);
        int64_t least_peak, best = choice_try_all(problem, &least_peak);
        check_choice(arena, problem, result);
        cr_assert_not(result->is_stopped, "problem %u", i);
        cr_assert_eq(result->is_feasible, best < INT64_MAX, "problem %u", i);
        cr_assert_eq(result->is_proved_infeasible, best == INT64_MAX, "problem %u", i);
        cr_assert_leq(result->minimum_limit, least_peak, "problem %u", i);
        if (best < INT64_MAX) {
            cr_assert_eq(result->cost, best, "problem %u: %ld, not %ld", i, (long)result->cost, (long)best);
            cr_assert_eq(result->bound, best, "problem %u", i);
            cr_assert(result->is_optimal, "problem %u", i);
        }
        infeasible += best == INT64_MAX;
        tight += result->tight_count > 0;
        branched += result->variables > 2;
        sp_arena_destroy(arena);
    }
    cr_assert_gt(infeasible, problems / 50);
    cr_assert_gt(tight, problems / 100, "%u", tight);
    cr_assert_gt(branched, problems / 20, "%u", branched);
}

/* Stopped at once, at a limit of work or by the watch, what comes is right as far as it goes. */
static bool never(void *context, const char *phase, double fraction, double best, double bound)
{
    (void)context;
    (void)phase;
    (void)fraction;
    (void)best;
    (void)bound;
    return false;
}

Test(choice_solve, stops)
{
    struct sp_watch watch = {.tick = never, .context = NULL};
    volatile bool stop = true;
    uint64_t seed = 3;
    for (uint32_t i = 0; i < STOPPED_PROBLEMS; i++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        struct sp_choice_problem *problem = choice_random(arena, 9, &seed);
        struct sp_choice_options options = {.seed = i, .work_limit = 1 + i};
        if (i % 3 == 1)
            options.stop = &stop;
        if (i % 3 == 2)
            options.watch = &watch;
        struct sp_choice_result *result = NULL;
        int64_t least_peak, best = choice_try_all(problem, &least_peak);
        cr_assert_eq(sp_choice_solve(arena, problem, &options, &result, NULL), SP_OK);
        check_choice(arena, problem, result);
        if (result->is_feasible)
            cr_assert_leq(result->bound, best);
        if (result->is_optimal)
            cr_assert_eq(result->cost, best);
        if (result->is_proved_infeasible)
            cr_assert_eq(best, INT64_MAX);
        sp_arena_destroy(arena);
    }
}

Test(choice_solve, is_the_same_with_any_threads)
{
    struct sp_threads *pools[2] = {sp_threads_create(2), sp_threads_create(8)};
    uint64_t seed = 5;
    for (uint32_t i = 0; i < 100; i++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        struct sp_choice_problem *problem = choice_random(arena, RANDOM_CHOICE_NODES, &seed);
        struct sp_choice_result *alone = solve(arena, problem, NULL, i);
        for (uint32_t p = 0; p < 2; p++) {
            struct sp_choice_result *result = solve(arena, problem, sp_threads_executor(pools[p]), i);
            cr_assert_eq(result->work, alone->work, "problem %u", i);
            cr_assert_eq(result->bound, alone->bound);
            cr_assert_eq(memcmp(result->choice, alone->choice, problem->node_count * sizeof(uint32_t)), 0);
        }
        sp_arena_destroy(arena);
    }
    sp_threads_destroy(pools[0]);
    sp_threads_destroy(pools[1]);
}

Test(choice_solve, begins_with_a_given_choice)
{
    uint64_t seed = 17;
    volatile bool stop = true;
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_choice_problem *problem = choice_random(arena, 6, &seed);
    struct sp_choice_result *best = solve(arena, problem, NULL, 0), *again = NULL;
    cr_assert(best->is_feasible);
    struct sp_choice_options options = {.start = best->choice, .stop = &stop};
    cr_assert_eq(sp_choice_solve(arena, problem, &options, &again, NULL), SP_OK);
    cr_assert_eq(again->cost, best->cost);
    sp_arena_destroy(arena);
}

static const int64_t figures[] = {3, 1, 2, 5};
static const int64_t times[] = {0, 0, 2, 2};

Test(choice_solve, refuses_what_is_not_well_formed)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_choice_result *result = NULL;
    struct sp_choice_options options = {0};
    struct sp_error err = {0};
    const uint32_t first[] = {0, 2, 4}, empty[] = {0, 0, 4};
    const int64_t negative[] = {3, -1, 2, 5}, huge[] = {SP_CHOICE_INFINITE - 1, 1, 2, INT64_MAX};
    struct sp_choice_edge edge = {0, 1, figures};
    const struct sp_choice_problem good = {.node_count = 2,
                                           .edge_count = 1,
                                           .first = first,
                                           .cost = figures,
                                           .usage = figures,
                                           .begin = times,
                                           .end = &times[2],
                                           .edges = &edge,
                                           .limit = 7};
    struct sp_choice_problem bad = good;
    cr_assert_eq(sp_choice_solve(arena, &good, &options, &result, &err), SP_OK);
    cr_assert_eq(result->cost, 1 + 2 + 2); /* the second and the first: usage 1 + 2 */
    bad.first = empty;
    cr_assert_eq(sp_choice_solve(arena, &bad, &options, &result, &err), SP_ERR_REQUEST);
    cr_assert_str_eq(err.code, "CHOICE_STRATEGIES");
    sp_error_clear(&err);
    bad = good;
    bad.usage = negative;
    cr_assert_eq(sp_choice_solve(arena, &bad, &options, &result, &err), SP_ERR_REQUEST);
    cr_assert_str_eq(err.code, "CHOICE_NEGATIVE");
    sp_error_clear(&err);
    bad = good;
    bad.usage = huge;
    cr_assert_eq(sp_choice_solve(arena, &bad, &options, &result, &err), SP_ERR_REQUEST);
    cr_assert_str_eq(err.code, "CHOICE_TOO_DEAR");
    sp_error_clear(&err);
    bad = good;
    edge.v = 0;
    cr_assert_eq(sp_choice_solve(arena, &bad, &options, &result, &err), SP_ERR_REQUEST);
    cr_assert_str_eq(err.code, "CHOICE_EDGE");
    sp_arena_destroy(arena);
}

/* Where nothing is left to choose the bound is what it costs, however much more a search may hope for. */
Test(choice_solve, bounds_what_is_no_choice)
{
    static const uint32_t first[] = {0, 1, 2};
    static const int64_t cost[] = {3, 4}, usage[] = {1, 1}, begin[] = {0, 0}, last[] = {1, 1}, between[] = {5};
    const struct sp_choice_edge edge = {0, 1, between};
    const struct sp_choice_problem problem = {2, 1, first, cost, usage, begin, last, &edge, 2};
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_reduced *reduced = NULL;
    uint64_t work = 0;
    cr_assert_eq(sp_reduce(arena, &problem, NULL, &reduced, NULL), SP_OK);
    cr_assert_eq(reduced->variable_count, 0);
    struct sp_bound_state *bound = sp_bound_create(arena, reduced);
    cr_assert_not_null(bound);
    cr_expect_eq(sp_bound_improve(bound, 1000, INT64_MAX, NULL, &work), 12);
    cr_expect_eq(work, 0);
    sp_arena_destroy(arena);
}
