/* sp_routes_solve(): bounds, rounds of searches beside each other, and all choices of small problems. */
#include <string.h>

#include "solvers/routes/internal.h"

#define TASKS           8
#define ANNEALERS       2 /* of the tasks; the others try rows of groups */
#define STEPS           50000
#define EXACT_STEPS     20000 /* in front of the first round, and each time four times as many as the time before */
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
    uint64_t round;
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
        solver->groups[i].stop = solver->options->stop;
    }
    for (uint32_t i = 0; i < ANNEALERS && status == SP_OK; i++) {
        status = sp_routes_anneal_create(solver->arena, &solver->table, &solver->anneals[i], err);
        solver->anneals[i].stop = solver->options->stop;
    }
    return status;
}

static void run_groups(struct solver *solver, uint32_t index, uint64_t seed)
{
    struct sp_routes_groups *groups = &solver->groups[index];
    groups->seed = seed;
    groups->steps = STEPS;
    if (groups->wanted < solver->value)
        groups->wanted = solver->value * (1 + 1e-6);
    sp_routes_groups_run(groups);
}

static void run_anneal(struct solver *solver, uint32_t index, uint64_t seed)
{
    struct sp_routes_anneal *anneal = &solver->anneals[index];
    const struct sp_routes_problem *problem = solver->table.problem;
    anneal->seed = seed;
    anneal->steps = STEPS;
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
    sp_routes_anneal_run(anneal);
}

static void run_task(void *argument, uint32_t index)
{
    struct solver *solver = argument;
    const uint64_t seed = sp_scramble(solver->options->seed ^ sp_scramble(solver->round * TASKS + index));
    if (index < TASKS - ANNEALERS)
        run_groups(solver, index, seed);
    else
        run_anneal(solver, index - (TASKS - ANNEALERS), seed);
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
    if ((solver->options->stop != NULL && *solver->options->stop) ||
        !sp_watch_tick(solver->options->watch, "routes", 0, solver->value, solver->bound))
        solver->is_stopped = true;
}

static void search(struct solver *solver)
{
    sp_executor_run(solver->options->executor, TASKS, run_task, solver);
    for (uint32_t i = 0; i < TASKS - ANNEALERS; i++)
        take(solver, solver->groups[i].value, solver->groups[i].best);
    for (uint32_t i = 0; i < ANNEALERS; i++)
        take(solver, solver->anneals[i].value, solver->anneals[i].best);
}

static enum sp_status prove(struct solver *solver, uint64_t limit, struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(solver->arena);
    struct sp_routes_exact exact = {.table = &solver->table,
                                    .limit = limit,
                                    .stop = solver->options->stop,
                                    .value = solver->value,
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
    result->bound = solver->is_optimal ? result->value : solver->bound;
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
    *solver = (struct solver){.arena = arena, .options = options};
    enum sp_status status = sp_routes_table_create(arena, problem, &solver->table, err);
    if (status != SP_OK)
        return status;
    solver->best = SP_NEW_ARRAY(arena, problem->node_count, struct sp_routes_interval);
    if (solver->best == NULL)
        return sp_fail_memory(err);
    solver->bound = sp_routes_bound(&solver->table);
    status = begin(solver, err);
    const uint64_t rounds = options->rounds == 0 ? SP_ROUTES_ROUNDS : options->rounds;
    uint64_t exact_steps = EXACT_STEPS;
    look(solver);
    if (status == SP_OK && !solver->is_optimal && !solver->is_stopped)
        status = prove(solver, exact_steps, err);
    for (; status == SP_OK && solver->round < rounds && !solver->is_optimal && !solver->is_stopped; solver->round++) {
        search(solver);
        look(solver);
        exact_steps *= exact_steps < MAX_EXACT_STEPS ? 4 : 1;
        if (!solver->is_optimal && !solver->is_stopped)
            status = prove(solver, exact_steps, err);
        look(solver);
    }
    return status == SP_OK ? write_result(solver, ret_result, err) : status;
}
