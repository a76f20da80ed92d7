#include <math.h>
#include <string.h>

#include "solvers/stages/chain.h"

/* Which part of the search answers a problem, and what its answer says. */

#define NOFIT_WORK   ((uint64_t)20000000)  /* for saying how much memory lacks, after all work was used up */
#define FIRST_TRY    ((uint64_t)20000000)  /* of the search over all ideals */
#define FIRST_ORDERS ((uint64_t)200000000) /* for better orders before the second */
/* Some ten seconds; a search ends sooner where all is proved or nothing better comes. */
#define DEFAULT_WORK  ((uint64_t)3000000000)
#define WORK_PER_NODE ((uint64_t)10000)

static bool is_proved(double value, double bound)
{
    return value <= bound + 1e-9 * fabs(value);
}

static void report(struct sp_stages_run *run, const struct sp_stages_solution *solution)
{
    run->best = solution->is_feasible ? solution->value : 0;
    run->bound = solution->bound;
}

/* What all searches for contiguous stages share. */
struct chain_solver {
    struct sp_stages_run *run;
    const struct sp_stages_prepared *prepared;
    struct sp_stages_rates rates;
    struct sp_stages_solution *solution;
};

/* The best chain of all ideals with at most so much work; it replaces a worse solution. */
static enum sp_status search_ideals(struct chain_solver *solver, const struct sp_stages_lattice *lattice, uint64_t most)
{
    struct sp_stages_run *run = solver->run;
    struct sp_stages_solution *solution = solver->solution, found = {0};
    double bound = solution->bound, limit = solution->is_feasible ? solution->value * (1 - 1e-12) : INFINITY;
    bool is_complete = false;
    uint64_t later = run->work_left > most ? run->work_left - most : 0;
    run->work_left -= later;
    enum sp_status status =
        sp_stages_chain_best(run, solver->prepared, lattice, &solver->rates, limit, &found, &is_complete);
    run->work_left += later;
    if (status == SP_OK && found.is_feasible)
        *solution = found;
    solution->ideals = lattice->count;
    solution->bound = bound;
    if (status == SP_OK && is_complete)
        solution->bound = solution->is_feasible ? solution->value : INFINITY;
    return status;
}

/* Better orders, with at most so much work. */
static enum sp_status search_orders(struct chain_solver *solver, uint64_t most)
{
    struct sp_stages_run *run = solver->run;
    struct sp_stages_solution better = *solver->solution;
    uint64_t later = run->work_left > most ? run->work_left - most : 0;
    if (!better.is_feasible || is_proved(better.value, better.bound))
        return SP_OK;
    run->work_left -= later;
    enum sp_status status = sp_stages_better_orders(run, solver->prepared, &solver->rates, better.bound, &better);
    run->work_left += later;
    better.bound = solver->solution->bound;
    better.ideals = solver->solution->ideals;
    *solver->solution = better;
    report(run, &better);
    return status;
}

static bool is_done(const struct chain_solver *solver)
{
    const struct sp_stages_solution *solution = solver->solution;
    return !sp_stages_goes_on(solver->run) || solution->bound == INFINITY ||
           (solution->is_feasible && is_proved(solution->value, solution->bound));
}

/* Few ideals are searched at once. Where that takes long, better orders come first: the closer the solution is to the
   best, the less there is to search. */
static enum sp_status search_exactly(struct chain_solver *solver)
{
    struct sp_stages_run *run = solver->run;
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(run->scratch));
    struct sp_stages_lattice *lattice;
    uint64_t most = run->options->max_ideals != 0 ? run->options->max_ideals : SP_STAGES_IDEALS;
    if (arena == NULL)
        return sp_fail_memory(run->err);
    enum sp_status status = sp_stages_ideals(run, arena, solver->prepared, most, &lattice);
    if (status == SP_OK && lattice != NULL) {
        status = search_ideals(solver, lattice, FIRST_TRY);
        if (status == SP_OK && !is_done(solver))
            status = search_orders(solver, FIRST_ORDERS < run->work_left / 8 ? FIRST_ORDERS : run->work_left / 8);
        if (status == SP_OK && !is_done(solver))
            status = search_ideals(solver, lattice, run->work_left / 8 * 7);
    }
    sp_arena_destroy(arena);
    return status;
}

/* Contiguous stages: orders first, which give the exact search something to be better than. */
static enum sp_status solve_chain(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                  struct sp_stages_solution *solution)
{
    const struct sp_stages_problem *problem = prepared->problem;
    struct chain_solver solver = {.run = run, .prepared = prepared, .solution = solution};
    enum sp_status status = sp_stages_rates_make(run->scratch, prepared, &solver.rates, run->err);
    *solution = (struct sp_stages_solution){0};
    if (status != SP_OK)
        return status;
    double bound = sp_stages_rates_bound(problem, &solver.rates);
    solution->bound = bound;
    if (bound == INFINITY)
        return SP_OK;
    bool is_complete, is_start = problem->objective == SP_STAGES_THROUGHPUT && problem->non_contiguous;
    uint64_t later = is_start ? run->work_left / 2 : 0; /* for any sets */
    run->work_left -= later;
    status = sp_stages_linear(run, prepared, &solver.rates, solution, &is_complete);
    solution->bound = !is_complete ? bound : solution->is_feasible ? solution->value : INFINITY;
    report(run, solution);
    if (status == SP_OK && !is_done(&solver))
        status = search_exactly(&solver);
    if (status == SP_OK && !is_done(&solver))
        status = search_orders(&solver, run->work_left);
    /* Labels are compared as if what they send, and over which links, did not depend on the stages behind them. */
    if (problem->levels != NULL || problem->sends_to_each)
        solution->bound = bound;
    run->work_left += later;
    return status;
}

/* A contiguous solution over units that colours alone make. */
static enum sp_status solve_any_sets(struct sp_stages_run *run, const struct sp_stages_prepared *chain,
                                     const struct sp_stages_solution *contiguous, struct sp_stages_prepared **ret_units,
                                     struct sp_stages_solution *solution)
{
    struct sp_stages_solution start = *contiguous;
    struct sp_stages_prepared *units;
    enum sp_status status = sp_stages_prepare(run->scratch, chain->problem, SP_STAGES_UNITS_FREE, &units, run->err);
    if (status != SP_OK)
        return status;
    start.bound = sp_stages_bound(run, units);
    *ret_units = units;
    if (start.is_feasible) {
        start.stage_of = SP_NEW_ARRAY(run->scratch, units->unit_count, uint32_t);
        if (start.stage_of == NULL)
            return sp_fail_memory(run->err);
        for (uint32_t node = 0; node < chain->problem->node_count; node++)
            start.stage_of[units->unit_of[node]] = contiguous->stage_of[chain->unit_of[node]];
    }
    status = sp_stages_assign(run, units, &start, solution);
    if (status == SP_OK) {
        solution->ideals = contiguous->ideals;
        solution->bound = fmax(solution->bound, start.bound);
    }
    return status;
}

static enum sp_status write_stages(struct sp_arena *arena, struct sp_stages_run *run,
                                   const struct sp_stages_prepared *prepared, const struct sp_stages_solution *solution,
                                   struct sp_stages_result *result)
{
    uint32_t *stage_of = SP_NEW_ARRAY(arena, prepared->problem->node_count, uint32_t);
    result->stages = sp_stages_list(arena, prepared, solution);
    if (stage_of == NULL || result->stages == NULL)
        return sp_fail_memory(run->err);
    for (uint32_t node = 0; node < prepared->problem->node_count; node++)
        stage_of[node] = solution->stage_of[prepared->unit_of[node]];
    result->stage_of = stage_of;
    result->stage_count = solution->stage_count;
    return SP_OK;
}

/* What an answer says of a solution. */
static enum sp_status write_result(struct sp_arena *arena, struct sp_stages_run *run,
                                   const struct sp_stages_prepared *prepared, const struct sp_stages_solution *solution,
                                   struct sp_stages_result *result)
{
    const struct sp_stages_problem *problem = prepared->problem;
    const char *fault;
    result->bound = solution->bound;
    result->ideals = solution->ideals;
    result->is_stopped = run->is_stopped || solution->is_stopped;
    result->is_feasible = solution->is_feasible;
    result->is_optimal = !solution->is_feasible && solution->bound == INFINITY;
    result->value = solution->is_feasible ? solution->value : INFINITY;
    if (!solution->is_feasible)
        return SP_OK;
    enum sp_status status = write_stages(arena, run, prepared, solution, result);
    if (status == SP_OK)
        status =
            sp_stages_evaluate(arena, problem, solution->stage_count, result->stages, &result->value, &fault, run->err);
    if (status == SP_OK && fault != NULL)
        return sp_fail(run->err, SP_ERR_INTERNAL, "STAGES_WRONG", "The stages found break a constraint: %s", fault);
    result->is_optimal = is_proved(result->value, result->bound);
    return status;
}

/* Nothing fits: how much memory would do, and with which stages. */
static enum sp_status find_closest(struct sp_arena *arena, struct sp_stages_run *run,
                                   const struct sp_stages_problem *problem, struct sp_stages_result *result)
{
    struct sp_stages_prepared *prepared;
    struct sp_stages_solution closest;
    run->work_left = run->work_left > NOFIT_WORK ? run->work_left : NOFIT_WORK;
    enum sp_status status = sp_stages_prepare(run->scratch, problem, SP_STAGES_UNITS_CHAIN, &prepared, run->err);
    if (status == SP_OK)
        status = sp_stages_minimum_memory(run, prepared, &closest);
    if (status != SP_OK)
        return status;
    result->minimum_memory_factor = closest.value;
    return closest.value == INFINITY ? SP_OK : write_stages(arena, run, prepared, &closest, result);
}

static enum sp_status solve(struct sp_arena *arena, struct sp_stages_run *run, const struct sp_stages_problem *problem,
                            struct sp_stages_result *result)
{
    bool is_latency = problem->objective == SP_STAGES_LATENCY;
    struct sp_stages_prepared *prepared;
    struct sp_stages_solution solution = {0};
    enum sp_status status = sp_stages_check(run->scratch, problem, run->err);
    if (status == SP_OK)
        status = sp_stages_prepare(run->scratch, problem, is_latency ? SP_STAGES_UNITS_FREE : SP_STAGES_UNITS_CHAIN,
                                   &prepared, run->err);
    if (status != SP_OK)
        return status;
    if (problem->node_count == 0) {
        result->is_feasible = result->is_optimal = true;
        return SP_OK;
    }
    status = is_latency ? sp_stages_latency(run, prepared, &solution) : solve_chain(run, prepared, &solution);
    if (status == SP_OK && problem->objective == SP_STAGES_THROUGHPUT && problem->non_contiguous) {
        struct sp_stages_solution contiguous = solution;
        status = solve_any_sets(run, prepared, &contiguous, &prepared, &solution);
    }
    if (status == SP_OK)
        status = write_result(arena, run, prepared, &solution, result);
    return status == SP_OK && !result->is_feasible && !run->options->skips_minimum_memory
               ? find_closest(arena, run, problem, result)
               : status;
}

enum sp_status sp_stages_solve(struct sp_arena *arena, const struct sp_stages_problem *problem,
                               const struct sp_stages_options *options, struct sp_stages_result **ret_result,
                               struct sp_error *err)
{
    uint64_t work = options->work_limit != 0 ? options->work_limit : DEFAULT_WORK + WORK_PER_NODE * problem->node_count;
    struct sp_stages_run run = {.options = options, .work_left = work, .err = err};
    struct sp_stages_result *result = SP_NEW(arena, struct sp_stages_result);
    run.scratch = sp_arena_create(options->budget != NULL ? options->budget : sp_arena_budget(arena));
    enum sp_status status = SP_OK;
    if (result == NULL || run.scratch == NULL)
        status = sp_fail_memory(err);
    else
        status = solve(arena, &run, problem, result);
    if (status == SP_OK) {
        result->work = work - run.work_left;
        *ret_result = result;
    }
    sp_arena_destroy(run.scratch);
    return status;
}
