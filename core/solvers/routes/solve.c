/* sp_routes_solve(): bounds, rounds of searches beside each other, and all choices of small problems. */
#include <math.h>
#include <string.h>

#include "solvers/routes/internal.h"

#define TASKS           8
#define ANNEALERS       2 /* of the tasks; the others try rows of groups */
#define STEPS           50000
#define SLICE_CELLS     1000000 /* nodes times nodes and layers: milliseconds of a task */
#define EXACT_STEPS     20000   /* in front of the first round, and each time four times as many as the time before */
#define MAX_EXACT_STEPS 100000000
#define HOT             0.02 /* of annealing, as parts of the bound */
#define COLD            0.0005
#define ROUNDING        1e-9

struct solver {
    struct sp_arena *arena;
    struct sp_routes_table table;
    const struct sp_routes_options *options;
    struct sp_routes_groups groups[TASKS - ANNEALERS];
    struct sp_routes_anneal anneals[ANNEALERS];
    uint64_t round, slice; /* steps of each task at a time */
    double value, bound;
    struct sp_routes_interval *best;
    bool is_optimal, is_stopped;
    uint64_t work;
};

/* Each task begins with rows of its own: groups of neighbours, more of them from task to task. */
static void begin_row(struct solver *solver, struct sp_routes_row *row, uint32_t task)
{
    const uint32_t nodes = solver->table.nodes, size = 1 + task % 3;
    uint64_t seed = sp_scramble(solver->options->seed + task);
    for (uint32_t i = 0; i < nodes; i++) {
        const uint32_t other = sp_random_below(&seed, i + 1);
        row->order[i] = row->order[other];
        row->order[other] = i;
    }
    for (uint32_t done = 0; done < nodes; done += row->size[row->count++])
        row->size[row->count] = nodes - done < size ? nodes - done : size;
}

static enum sp_status begin(struct solver *solver, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < TASKS - ANNEALERS && status == SP_OK; i++) {
        status = sp_routes_groups_create(solver->arena, &solver->table, &solver->groups[i], err);
        if (status != SP_OK)
            break;
        begin_row(solver, &solver->groups[i].row, i);
        solver->groups[i].wanted = solver->bound / 16;
    }
    for (uint32_t i = 0; i < ANNEALERS && status == SP_OK; i++)
        status = sp_routes_anneal_create(solver->arena, &solver->table, &solver->anneals[i], err);
    return status;
}

static void begin_groups(struct solver *solver, struct sp_routes_groups *groups, uint64_t seed)
{
    groups->seed = seed;
    groups->done = 0;
    if (groups->wanted < solver->value)
        groups->wanted = solver->value * (1 + 1e-6);
}

static void begin_anneal(struct solver *solver, struct sp_routes_anneal *anneal, uint64_t seed)
{
    const struct sp_routes_problem *problem = solver->table.problem;
    anneal->seed = seed;
    anneal->steps = STEPS;
    anneal->done = 0;
    anneal->bound = solver->bound;
    anneal->hot = HOT * solver->bound;
    anneal->cold = COLD * solver->bound;
    anneal->value = solver->value;
    /* Nodes that hold nothing in the best choice begin anywhere. */
    for (uint32_t i = 0; i < solver->table.nodes; i++) {
        anneal->now[i] = solver->best[i];
        if (anneal->now[i].count == 0) {
            const uint32_t count = 1 + sp_random_below(&anneal->seed, problem->nodes[i].most);
            anneal->now[i] =
                (struct sp_routes_interval){sp_random_below(&anneal->seed, problem->layer_count - count + 1), count};
        }
    }
}

static void run_task(void *argument, uint32_t index)
{
    struct solver *solver = argument;
    if (index < TASKS - ANNEALERS)
        sp_routes_groups_run(&solver->groups[index], solver->slice);
    else
        sp_routes_anneal_run(&solver->anneals[index - (TASKS - ANNEALERS)], solver->slice);
}

static void take(struct solver *solver, double value, const struct sp_routes_interval *intervals)
{
    if (value <= solver->value)
        return;
    solver->value = value;
    memcpy(solver->best, intervals, solver->table.nodes * sizeof *intervals);
}

static void look(struct solver *solver)
{
    solver->is_optimal = solver->is_optimal || solver->value >= solver->bound * (1 - ROUNDING);
    solver->is_stopped = solver->is_stopped || !sp_routes_goes_on(solver->options, solver->value, solver->bound);
}

/* One round of all tasks, in slices between which the watch is looked at. */
static void search(struct solver *solver)
{
    const uint64_t cells = (uint64_t)solver->table.nodes * (solver->table.nodes + solver->table.layers);
    const uint64_t most = SLICE_CELLS / cells + 1;
    for (uint32_t i = 0; i < TASKS; i++) {
        const uint64_t seed = sp_scramble(solver->options->seed ^ sp_scramble(solver->round * TASKS + i));
        if (i < TASKS - ANNEALERS)
            begin_groups(solver, &solver->groups[i], seed);
        else
            begin_anneal(solver, &solver->anneals[i - (TASKS - ANNEALERS)], seed);
    }
    for (uint64_t done = 0; done < STEPS && !solver->is_stopped; done += solver->slice) {
        solver->slice = STEPS - done < most ? STEPS - done : most;
        sp_executor_run(solver->options->executor, TASKS, run_task, solver);
        look(solver);
    }
    for (uint32_t i = 0; i < TASKS - ANNEALERS; i++)
        take(solver, solver->groups[i].value, solver->groups[i].best);
    for (uint32_t i = 0; i < ANNEALERS; i++)
        take(solver, solver->anneals[i].value, solver->anneals[i].best);
    look(solver);
}

static enum sp_status prove(struct solver *solver, uint64_t limit, struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(solver->arena);
    struct sp_routes_exact exact = {.table = &solver->table,
                                    .options = solver->options,
                                    .limit = limit,
                                    .value = solver->value,
                                    .bound = solver->bound,
                                    .best =
                                        SP_NEW_ARRAY(solver->arena, solver->table.nodes, struct sp_routes_interval)};
    if (exact.best == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_routes_exact_run(solver->arena, &exact, err);
    if (status == SP_OK) {
        take(solver, exact.value, exact.best);
        solver->work += exact.flows;
        solver->is_optimal = exact.is_proved;
    }
    sp_arena_rewind(solver->arena, mark);
    return status;
}

static enum sp_status write_result(struct solver *solver, struct sp_routes_result **ret_result, struct sp_error *err)
{
    struct sp_routes_flow flow;
    struct sp_routes_result *result = SP_NEW(solver->arena, struct sp_routes_result);
    enum sp_status status = sp_routes_flow_create(solver->arena, &solver->table, &flow, err);
    if (result == NULL || status != SP_OK)
        return result == NULL ? sp_fail_memory(err) : status;
    *result = (struct sp_routes_result){.is_optimal = solver->is_optimal, .is_stopped = solver->is_stopped};
    result->value = sp_routes_flow_value(&flow, solver->best);
    result->bound = solver->bound;
    if (solver->is_optimal)
        result->bound = fmin(solver->bound, fmax(result->value, solver->options->least));
    result->intervals = solver->best;
    struct sp_routes_use *uses = SP_NEW_ARRAY(solver->arena, flow.arc_count / 2 + 1, struct sp_routes_use);
    if (uses == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < solver->table.nodes; i++)
        if (solver->value <= 0)
            solver->best[i].count = 0;
    for (uint32_t arc = 0; arc < flow.arc_count; arc += 2)
        if (flow.arc_link[arc / 2] != UINT32_MAX && flow.arcs[arc + 1].left > flow.smallest)
            uses[result->use_count++] = (struct sp_routes_use){flow.arc_link[arc / 2], flow.arcs[arc + 1].left};
    result->uses = uses;
    for (uint32_t i = 0; i < TASKS - ANNEALERS; i++)
        solver->work += solver->groups[i].flow.count;
    for (uint32_t i = 0; i < ANNEALERS; i++)
        solver->work += solver->anneals[i].flow.count;
    result->work = solver->work;
    *ret_result = result;
    return SP_OK;
}

enum sp_status sp_routes_solve(struct sp_arena *arena, const struct sp_routes_problem *problem,
                               const struct sp_routes_options *options, struct sp_routes_result **ret_result,
                               struct sp_error *err)
{
    struct solver *solver = SP_NEW(arena, struct solver);
    if (solver == NULL)
        return sp_fail_memory(err);
    *solver = (struct solver){.arena = arena, .options = options, .value = options->least};
    enum sp_status status = sp_routes_table_create(arena, problem, &solver->table, err);
    if (status != SP_OK)
        return status;
    solver->best = SP_NEW_ARRAY(arena, problem->node_count, struct sp_routes_interval);
    if (solver->best == NULL)
        return sp_fail_memory(err);
    solver->bound = sp_routes_bound(&solver->table);
    status = begin(solver, err);
    const uint64_t rounds = options->is_first ? 0 : options->rounds == 0 ? SP_ROUTES_ROUNDS : options->rounds;
    uint64_t exact_steps = EXACT_STEPS;
    look(solver);
    if (status == SP_OK && !solver->is_optimal && !solver->is_stopped)
        status = prove(solver, exact_steps, err);
    for (; status == SP_OK && solver->round < rounds && !solver->is_optimal && !solver->is_stopped; solver->round++) {
        search(solver);
        if (solver->options->least > 0 && solver->value <= solver->options->least)
            break; /* more rounds would find nothing of use either, mostly */
        exact_steps *= exact_steps < MAX_EXACT_STEPS ? 4 : 1;
        if (!solver->is_optimal && !solver->is_stopped)
            status = prove(solver, exact_steps, err);
        look(solver);
    }
    return status == SP_OK ? write_result(solver, ret_result, err) : status;
}
