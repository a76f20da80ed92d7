/*
 * The order of the solving: reduce; then, in rounds, the bound beside searches for good choices; what the bound forbids
 * is taken out and the rest reduced again; branch and bound when that gives no more and little is left.
 */
#include "solvers/choice/choice.h"

#include "solvers/choice/bound.h"
#include "solvers/choice/dive.h"
#include "solvers/choice/exact.h"
#include "solvers/choice/improve.h"
#include "solvers/choice/problem.h"

#define MAX_LEVELS     32
#define MAX_SEARCHES   16
#define ROUND_SWEEPS   30      /* of the bound in a round, when it takes as long as the searches */
#define LEAST_WORK     1000000 /* of a round */
#define LEAST_SWEEPS   16      /* of each search in a round, whatever the limit of work */
#define BOUND_SWEEPS   31      /* what the bound does before it first tells anything */
#define FEW_ENTRIES    5000    /* branch and bound begins at once */
#define EXACT_ENTRIES  1000000 /* of all tables: branch and bound is for less */
#define EXACT_WORK     150000000
#define DIVE_ROUNDS    3 /* between dives, once the bound is cool */
#define VAIN_DIVES     4 /* in a row, until they may take twice as long */
#define DEFAULT_WORK   2000000000u
#define DEFAULT_SWEEPS 1000
/* Reducing again costs searches what they remember: only when this much goes, or less when the bound has converged. */
#define DEAD_SHARE           0.10
#define CONVERGED_DEAD_SHARE 0.02

struct level {
    struct sp_arena *arena, *work; /* of the reduction; of what works on it */
    struct sp_reduced *reduced;
};

struct searches {
    uint32_t count;
    struct sp_budget budgets[MAX_SEARCHES];
    struct sp_arena *arenas[MAX_SEARCHES];
    struct sp_improver *improvers[MAX_SEARCHES];
};

struct dives {
    uint32_t count, vain;
    uint64_t work;  /* of dives beside branch and bound */
    uint64_t since; /* what branch and bound took since the last one */
};

struct solver {
    const struct sp_choice_problem *problem;
    const struct sp_choice_options *options;
    struct sp_arena *arena, *scratch;
    struct level levels[MAX_LEVELS];
    uint32_t level_count;
    struct sp_bound_state *bound_state;
    struct searches searches;
    struct sp_exact *exact;
    uint32_t *best, *trial, *buffers[2]; /* choices of the original; of levels */
    bool has_choice, is_feasible;
    int64_t cost, peak, bound;
    int64_t ceiling; /* every choice that is not forbidden costs less */
    uint64_t work, round_work, entries;
    uint64_t task_work[MAX_SEARCHES + 1];
    uint32_t rounds;
    struct dives dives;
    bool is_unbounded;        /* the limit of work is less than a bound takes: searches only */
    bool is_stopped, is_over; /* by `stop`, the watch or the work limit; nothing is left to do */
    struct sp_error *err;
};

static bool is_told_to_stop(const struct solver *solver)
{
    return solver->options->stop != NULL && *solver->options->stop;
}

static struct level *top(struct solver *solver)
{
    return &solver->levels[solver->level_count - 1];
}

/* -- choices -- */

/* Takes a choice of the original, if it is better than what there is. Feasible ones go by cost, others by peak. */
static enum sp_status take_choice(struct solver *solver, const uint32_t *choice)
{
    int64_t cost, peak, moment;
    enum sp_status status =
        sp_choice_evaluate(solver->scratch, solver->problem, choice, &cost, &peak, &moment, solver->err);
    if (status != SP_OK)
        return status;
    bool is_feasible = cost < INT64_MAX && peak <= solver->problem->limit;
    bool is_better = !solver->has_choice || (is_feasible && !solver->is_feasible) ||
                     (is_feasible == solver->is_feasible &&
                      (is_feasible ? cost < solver->cost
                                   : (cost < INT64_MAX) > (solver->cost < INT64_MAX) ||
                                         ((cost < INT64_MAX) == (solver->cost < INT64_MAX) && peak < solver->peak)));
    if (!is_better)
        return SP_OK;
    memcpy(solver->best, choice, solver->problem->node_count * sizeof(uint32_t));
    solver->has_choice = true;
    solver->is_feasible = is_feasible;
    solver->cost = cost;
    solver->peak = peak;
    return SP_OK;
}

/* States of the top level as a choice of the original. */
static enum sp_status take_states(struct solver *solver, const uint32_t *states)
{
    const uint32_t *from = states;
    for (uint32_t i = solver->level_count; i-- > 0;) {
        uint32_t *to = i == 0 ? solver->trial : solver->buffers[i % 2];
        sp_reduced_expand(solver->levels[i].reduced, from, to);
        from = to;
    }
    return take_choice(solver, solver->trial);
}

/* The best choice as states of the top level, as near as there are. */
static const uint32_t *project_best(struct solver *solver)
{
    const uint32_t *from = solver->best;
    for (uint32_t i = 0; i < solver->level_count; i++) {
        (void)sp_reduced_project(solver->levels[i].reduced, from, solver->buffers[i % 2]);
        from = solver->buffers[i % 2];
    }
    return from;
}

/* -- levels -- */

static uint64_t count_entries(const struct sp_reduced *reduced)
{
    uint64_t entries = 0;
    for (uint32_t e = 0; e < reduced->edge_count; e++)
        entries += (uint64_t)(reduced->first[reduced->edges[e].u + 1] - reduced->first[reduced->edges[e].u]) *
                   (reduced->first[reduced->edges[e].v + 1] - reduced->first[reduced->edges[e].v]);
    return entries + reduced->first[reduced->variable_count] + 1;
}

/* One more than what the dearest choice could cost. */
static int64_t find_ceiling(const struct sp_reduced *reduced)
{
    __int128 sum = (__int128)reduced->fixed_cost + 1;
    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        int64_t most = 0;
        for (uint32_t s = reduced->first[v]; s < reduced->first[v + 1]; s++)
            most = reduced->cost[s] > most ? reduced->cost[s] : most;
        sum += most;
    }
    for (uint32_t e = 0; e < reduced->edge_count; e++) {
        const struct sp_reduced_edge *edge = &reduced->edges[e];
        size_t count = (size_t)(reduced->first[edge->u + 1] - reduced->first[edge->u]) *
                       (reduced->first[edge->v + 1] - reduced->first[edge->v]);
        int64_t most = 0;
        for (size_t i = 0; i < count; i++)
            most = edge->cost[i] < SP_CHOICE_INFINITE && edge->cost[i] > most ? edge->cost[i] : most;
        sum += most;
    }
    return sum < SP_CHOICE_INFINITE ? (int64_t)sum : SP_CHOICE_INFINITE;
}

/* Only choices of less than this are looked for. */
static int64_t target_of(const struct solver *solver)
{
    return solver->is_feasible ? solver->cost : solver->ceiling;
}

static void leave_level(struct solver *solver)
{
    if (solver->level_count > 0) {
        sp_arena_destroy(top(solver)->work);
        top(solver)->work = NULL;
    }
    for (uint32_t i = 0; i < MAX_SEARCHES; i++) {
        sp_arena_destroy(solver->searches.arenas[i]);
        solver->searches.arenas[i] = NULL;
        solver->searches.improvers[i] = NULL;
    }
    solver->bound_state = NULL;
    solver->exact = NULL;
}

/* Lanes have arenas and budgets of their own: they run side by side. */
static bool make_searches(struct solver *solver)
{
    const struct sp_budget *budget = solver->options->budget;
    for (uint32_t i = 0; i < solver->searches.count; i++) {
        solver->searches.budgets[i] =
            (struct sp_budget){.limit = budget == NULL || budget->limit == 0
                                            ? 0
                                            : (budget->limit - budget->used) / (2 * solver->searches.count) + 1};
        solver->searches.arenas[i] = sp_arena_create(&solver->searches.budgets[i]);
        if (solver->searches.arenas[i] == NULL)
            return false;
        solver->searches.improvers[i] =
            sp_improver_create(solver->searches.arenas[i], top(solver)->reduced, solver->options->seed, i);
        if (solver->searches.improvers[i] == NULL)
            return false;
        if (solver->has_choice)
            sp_improver_offer(solver->searches.improvers[i], project_best(solver));
    }
    return true;
}

/* As much as the bound and the searches gain from, or, where a given limit is less than that, as much as it allows: but
   enough for the searches to come round. */
static void size_rounds(struct solver *solver)
{
    const uint64_t limit = solver->options->work_limit, least = 2 * LEAST_SWEEPS * solver->entries;
    solver->round_work = 2 * ROUND_SWEEPS * solver->entries;
    solver->is_unbounded = limit > 0 && BOUND_SWEEPS * solver->entries > limit;
    if (limit > 0 && solver->round_work > limit)
        solver->round_work = limit > least ? limit : least;
    if (solver->round_work < LEAST_WORK)
        solver->round_work = LEAST_WORK;
}

static bool enter_level(struct solver *solver, const double *prices)
{
    struct level *level = top(solver);
    level->work = sp_arena_create(solver->options->budget);
    if (level->work == NULL)
        return false;
    solver->entries = count_entries(level->reduced);
    solver->ceiling = find_ceiling(level->reduced);
    size_rounds(solver);
    solver->bound_state = sp_bound_create(level->work, level->reduced);
    if (solver->bound_state == NULL)
        return false;
    if (prices != NULL)
        sp_bound_warm(solver->bound_state, prices);
    return make_searches(solver);
}

/* The prices of a level, at the moments that are left of it. */
static double *carry_prices(struct solver *solver, const struct sp_reduced *from, const struct sp_reduced *to)
{
    double *prices = SP_NEW_ARRAY(top(solver)->arena, (size_t)to->moment_count + 1, double);
    const double *known = sp_bound_prices(solver->bound_state);
    for (uint32_t m = 0, old = 0; prices != NULL && m < to->moment_count; m++) {
        while (from->moment_of[old] != to->moment_of[m])
            old++;
        prices[m] = known[old];
    }
    return prices;
}

/* Takes out what can be in no choice that is as good as the best, when that is enough to be worth it. */
static enum sp_status shrink(struct solver *solver)
{
    const struct sp_reduced *reduced = top(solver)->reduced;
    uint32_t states = reduced->first[reduced->variable_count];
    struct sp_arena_mark mark = sp_arena_mark(solver->scratch);
    bool *dead = SP_NEW_ARRAY(solver->scratch, states, bool);
    if (dead == NULL)
        return sp_fail_memory(solver->err);
    uint32_t count = sp_bound_mark_dead(solver->bound_state, target_of(solver) + 1, dead);
    double least = sp_bound_has_converged(solver->bound_state) ? CONVERGED_DEAD_SHARE : DEAD_SHARE;
    if (count <= least * states || solver->level_count == MAX_LEVELS) {
        sp_arena_rewind(solver->scratch, mark);
        return SP_OK;
    }
    struct sp_arena *arena = sp_arena_create(solver->options->budget);
    struct sp_reduced *again = NULL;
    enum sp_status status = arena == NULL
                                ? sp_fail_memory(solver->err)
                                : sp_reduce_again(arena, reduced, dead, solver->options->stop, &again, solver->err);
    sp_arena_rewind(solver->scratch, mark);
    if (status != SP_OK || again == NULL || again->is_infeasible) {
        solver->is_over = status == SP_OK; /* nothing else is as good */
        sp_arena_destroy(arena);
        return status;
    }
    double *prices = carry_prices(solver, reduced, again);
    if (prices == NULL) {
        sp_arena_destroy(arena);
        return sp_fail_memory(solver->err);
    }
    leave_level(solver);
    solver->levels[solver->level_count++] = (struct level){arena, NULL, again};
    if (again->variable_count == 0) { /* one choice is left, the only one that may be better */
        uint32_t none = 0;
        solver->is_over = true;
        return take_states(solver, &none);
    }
    return enter_level(solver, prices) ? SP_OK : sp_fail_memory(solver->err);
}

/* -- rounds -- */

/* Task 0 is the bound, the others are searches; together these take as long as the bound. */
static void run_task(void *argument, uint32_t index)
{
    struct solver *solver = argument;
    const volatile bool *stop = solver->options->stop;
    solver->task_work[index] = 0;
    if (index == 0 && solver->is_unbounded)
        return;
    if (index == 0)
        (void)sp_bound_improve(solver->bound_state, solver->round_work,
                               target_of(solver) - top(solver)->reduced->fixed_cost, stop, &solver->task_work[0]);
    else
        sp_improver_run(solver->searches.improvers[index - 1], solver->round_work / solver->searches.count,
                        solver->bound, stop, &solver->task_work[index]);
}

static void run_search(void *argument, uint32_t index)
{
    run_task(argument, index + 1);
}

static enum sp_status gather(struct solver *solver)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < solver->searches.count && status == SP_OK; i++) {
        bool is_feasible;
        int64_t cost;
        const uint32_t *states = sp_improver_best(solver->searches.improvers[i], &is_feasible, &cost);
        if (!solver->has_choice || is_feasible >= solver->is_feasible)
            status = take_states(solver, states);
    }
    return status;
}

static void spread_best(struct solver *solver)
{
    const uint32_t *states = project_best(solver);
    for (uint32_t i = 0; i < solver->searches.count; i++)
        sp_improver_offer(solver->searches.improvers[i], states);
}

/* Beside branch and bound, which takes as long as they do, dives that find nothing soon have more time. */
static void note_dive(struct solver *solver, uint64_t work, bool is_better)
{
    solver->dives.vain = is_better || solver->exact == NULL ? 0 : solver->dives.vain + 1;
    if (solver->dives.vain < VAIN_DIVES)
        return;
    solver->dives.vain = 0;
    solver->dives.work = 2 * work;
}

/* Searches where the bound's relaxation is, with more states now and fewer then; every other time with the best choice
   among them, and always once branch and bound has begun, which looks for the others itself. */
static enum sp_status dive(struct solver *solver)
{
    static const double shares[] = {0.02, 0.1, 0.005, 0.05, 0.001, 0.2}, near[] = {0.1, 0.05, 0.2, 0.02};
    const struct sp_reduced *reduced = top(solver)->reduced;
    struct sp_arena_mark mark = sp_arena_mark(solver->scratch);
    uint32_t *states = SP_NEW_ARRAY(solver->scratch, reduced->variable_count, uint32_t);
    if (states == NULL)
        return sp_fail_memory(solver->err);
    struct sp_dive options = {.share = shares[solver->dives.count % (sizeof shares / sizeof shares[0])],
                              .cost = target_of(solver),
                              .work = 2 * solver->round_work,
                              .most = EXACT_ENTRIES,
                              .executor = solver->options->executor,
                              .stop = solver->options->stop,
                              .budget = solver->options->budget};
    const bool was_feasible = solver->is_feasible;
    const int64_t was = solver->cost;
    if (was_feasible && (solver->exact != NULL || solver->dives.count % 2 == 1))
        options.keep = project_best(solver);
    if (solver->exact != NULL && solver->dives.work > options.work)
        options.work = solver->dives.work;
    if (was_feasible && solver->exact != NULL)
        options.share = near[solver->dives.count % (sizeof near / sizeof near[0])];
    solver->dives.count++;
    bool is_found = false;
    enum sp_status status = sp_dive(solver->bound_state, &options, states, &is_found, &solver->work, solver->err);
    if (status == SP_OK && is_found)
        status = take_states(solver, states);
    note_dive(solver, options.work, solver->is_feasible && (!was_feasible || solver->cost < was));
    sp_arena_rewind(solver->scratch, mark);
    return status;
}

static enum sp_status bound_round(struct solver *solver)
{
    sp_executor_run(solver->options->executor, 1 + solver->searches.count, run_task, solver);
    for (uint32_t i = 0; i <= solver->searches.count; i++)
        solver->work += solver->task_work[i];
    int64_t bound = sp_bound_best(solver->bound_state);
    solver->bound = bound > solver->bound ? bound : solver->bound;
    enum sp_status status = gather(solver);
    solver->rounds++;
    if (status == SP_OK && sp_bound_is_cool(solver->bound_state) && solver->rounds % DIVE_ROUNDS == 0 &&
        solver->entries > FEW_ENTRIES && !is_told_to_stop(solver))
        status = dive(solver);
    if (status != SP_OK || is_told_to_stop(solver))
        return status;
    spread_best(solver);
    if (solver->is_unbounded)
        return SP_OK;
    const double *above = sp_bound_reduced_costs(solver->bound_state);
    for (uint32_t i = 0; i < solver->searches.count; i++)
        sp_improver_guide(solver->searches.improvers[i], sp_bound_prices(solver->bound_state), above);
    return SP_OK;
}

static enum sp_status exact_round(struct solver *solver)
{
    uint64_t before = sp_exact_work(solver->exact);
    int64_t cost, bound;
    sp_exact_run(solver->exact, EXACT_WORK, solver->options->executor, solver->options->stop);
    solver->work += sp_exact_work(solver->exact) - before;
    solver->dives.since += sp_exact_work(solver->exact) - before;
    const uint32_t *states = sp_exact_best(solver->exact, &cost);
    enum sp_status status = states == NULL ? SP_OK : take_states(solver, states);
    bound = sp_exact_bound(solver->exact);
    solver->bound = bound > solver->bound ? bound : solver->bound;
    solver->is_over |= sp_exact_is_done(solver->exact);
    if (status != SP_OK || solver->is_over || is_told_to_stop(solver))
        return status;
    spread_best(solver);
    sp_executor_run(solver->options->executor, solver->searches.count, run_search, solver);
    for (uint32_t i = 1; i <= solver->searches.count; i++)
        solver->work += solver->task_work[i];
    status = gather(solver);
    if (status == SP_OK && solver->entries > FEW_ENTRIES && solver->dives.since >= solver->dives.work) {
        solver->dives.since = 0;
        status = dive(solver);
    }
    sp_exact_offer(solver->exact, target_of(solver));
    return status;
}

/* Whether nothing better can be. */
static bool is_closed(const struct solver *solver)
{
    return solver->bound >= target_of(solver);
}

/* Whether to go on; asks the watch. */
static bool goes_on(struct solver *solver)
{
    const struct sp_choice_options *options = solver->options;
    if (solver->is_over || is_closed(solver))
        return false;
    uint64_t limit = options->work_limit;
    if (limit == 0)
        limit = DEFAULT_WORK + 2 * DEFAULT_SWEEPS * count_entries(solver->levels[0].reduced);
    double fraction = (double)solver->work / (double)limit;
    solver->is_stopped = is_told_to_stop(solver) || solver->work >= limit ||
                         !sp_watch_tick(options->watch, "search", fraction < 1 ? fraction : 1,
                                        solver->is_feasible ? (double)solver->cost : 0, (double)solver->bound);
    return !solver->is_stopped;
}

static enum sp_status search(struct solver *solver)
{
    enum sp_status status = SP_OK;
    while (status == SP_OK && goes_on(solver)) {
        status = solver->exact != NULL ? exact_round(solver) : bound_round(solver);
        if (status != SP_OK || is_closed(solver) || is_told_to_stop(solver) || solver->is_over)
            continue;
        uint32_t level = solver->level_count;
        status = shrink(solver);
        if (status != SP_OK || solver->is_over || level != solver->level_count || solver->exact != NULL)
            continue;
        bool is_small = solver->entries <= FEW_ENTRIES ||
                        (solver->entries <= EXACT_ENTRIES && sp_bound_has_converged(solver->bound_state));
        if (!is_small)
            continue;
        solver->exact = sp_exact_create(top(solver)->work, solver->bound_state, target_of(solver));
        if (solver->exact == NULL)
            status = sp_fail_memory(solver->err);
    }
    return status;
}

/* Where nothing is left to choose the only choice is the answer. */
static enum sp_status solve_reduced(struct solver *solver)
{
    const struct sp_reduced *reduced = top(solver)->reduced;
    if (reduced == NULL)
        return sp_fail_memory(solver->err);
    if (reduced->is_infeasible) {
        solver->is_over = true;
        return SP_OK;
    }
    solver->bound = reduced->fixed_cost;
    solver->ceiling = SP_CHOICE_INFINITE;
    if (reduced->variable_count == 0) {
        uint32_t none = 0;
        solver->is_over = true;
        return take_states(solver, &none);
    }
    if (!enter_level(solver, NULL))
        return sp_fail_memory(solver->err);
    enum sp_status status = gather(solver); /* what searches begin with: so that there is a choice, whatever happens */
    return status == SP_OK ? search(solver) : status;
}

/* -- results -- */

static int64_t usage_at(const struct sp_choice_problem *problem, const uint32_t *choice, int64_t moment)
{
    int64_t sum = 0;
    for (uint32_t v = 0; v < problem->node_count; v++)
        if (problem->begin[v] <= moment && moment < problem->end[v])
            sum += problem->usage[problem->first[v] + choice[v]];
    return sum;
}

static bool list_tight(struct solver *solver, struct sp_choice_result *result)
{
    const struct sp_reduced *reduced = top(solver)->reduced;
    result->tight = SP_NEW_ARRAY(solver->arena, SP_CHOICE_TIGHT, struct sp_choice_moment);
    if (result->tight == NULL)
        return false;
    if (solver->bound_state == NULL)
        return true;
    const double *prices = sp_bound_prices(solver->bound_state);
    for (uint32_t m = 0; m < reduced->moment_count; m++) {
        if (prices[m] <= 0)
            continue;
        uint32_t at = result->tight_count;
        if (at == SP_CHOICE_TIGHT && prices[m] <= result->tight[at - 1].price)
            continue;
        if (at == SP_CHOICE_TIGHT)
            at--;
        else
            result->tight_count++;
        for (; at > 0 && result->tight[at - 1].price < prices[m]; at--)
            result->tight[at] = result->tight[at - 1];
        result->tight[at] = (struct sp_choice_moment){.moment = reduced->moment_of[m], .price = prices[m]};
    }
    for (uint32_t i = 0; i < result->tight_count; i++)
        result->tight[i].usage = usage_at(solver->problem, solver->best, result->tight[i].moment);
    return true;
}

static struct sp_choice_result *report(struct solver *solver)
{
    struct sp_choice_result *result = SP_NEW(solver->arena, struct sp_choice_result);
    const struct sp_reduced *reduced = solver->levels[0].reduced;
    if (result == NULL || reduced == NULL)
        return NULL;
    result->choice = solver->best;
    result->is_feasible = solver->is_feasible;
    result->cost = solver->cost;
    result->peak = solver->peak;
    result->is_optimal = solver->is_feasible && (solver->is_over || solver->bound >= solver->cost);
    result->is_proved_infeasible = !solver->is_feasible && (solver->is_over || is_closed(solver));
    result->bound = result->is_optimal ? solver->cost : result->is_proved_infeasible ? 0 : solver->bound;
    result->gap = solver->is_feasible && solver->cost > 0
                      ? ((double)solver->cost - (double)result->bound) / (double)solver->cost
                      : 0;
    result->is_stopped = solver->is_stopped;
    result->minimum_limit = reduced->minimum_limit;
    result->variables = reduced->variable_count;
    result->variable_edges = reduced->edge_count;
    result->work = solver->work;
    return list_tight(solver, result) ? result : NULL;
}

static enum sp_status prepare(struct solver *solver)
{
    uint32_t nodes = solver->problem->node_count;
    solver->scratch = sp_arena_create(solver->options->budget);
    solver->searches.count = solver->options->searches == 0             ? SP_CHOICE_SEARCHES
                             : solver->options->searches < MAX_SEARCHES ? solver->options->searches
                                                                        : MAX_SEARCHES;
    solver->best = SP_NEW_ARRAY(solver->arena, nodes, uint32_t);
    if (solver->scratch == NULL || solver->best == NULL)
        return sp_fail_memory(solver->err);
    solver->trial = SP_NEW_ARRAY(solver->scratch, nodes, uint32_t);
    solver->buffers[0] = SP_NEW_ARRAY(solver->scratch, nodes, uint32_t);
    solver->buffers[1] = SP_NEW_ARRAY(solver->scratch, nodes, uint32_t);
    if (solver->trial == NULL || solver->buffers[0] == NULL || solver->buffers[1] == NULL)
        return sp_fail_memory(solver->err);
    enum sp_status status = take_choice(solver, solver->options->start != NULL ? solver->options->start : solver->best);
    if (status != SP_OK)
        return status;
    struct level *level = &solver->levels[0];
    level->arena = sp_arena_create(solver->options->budget);
    if (level->arena == NULL)
        return sp_fail_memory(solver->err);
    solver->level_count = 1;
    return sp_reduce(level->arena, solver->problem, solver->options->stop, &level->reduced, solver->err);
}

enum sp_status sp_choice_solve(struct sp_arena *arena, const struct sp_choice_problem *problem,
                               const struct sp_choice_options *options, struct sp_choice_result **ret_result,
                               struct sp_error *err)
{
    struct solver solver = {.problem = problem, .options = options, .arena = arena, .err = err};
    struct sp_choice_result *result = NULL;
    enum sp_status status = sp_choice_check(problem, err);
    if (status == SP_OK)
        status = prepare(&solver);
    if (status == SP_OK)
        status = solve_reduced(&solver);
    if (status == SP_OK) {
        result = report(&solver);
        status = result == NULL ? sp_fail_memory(err) : SP_OK;
    }
    leave_level(&solver);
    for (uint32_t i = 0; i < solver.level_count; i++)
        sp_arena_destroy(solver.levels[i].arena);
    sp_arena_destroy(solver.scratch);
    if (status == SP_OK)
        *ret_result = result;
    return status;
}
