/* Solutions over units as stages, what they cost, and the work that a search has left. */
#include "solvers/stages/internal.h"

#define TICK_STEPS ((uint64_t)1 << 16)

bool sp_stages_spend(struct sp_stages_run *run, uint64_t steps)
{
    if (run->is_stopped)
        return false;
    if (steps >= run->work_left) {
        run->work_left = 0;
        return false;
    }
    uint64_t before = run->work_left / TICK_STEPS;
    run->work_left -= steps;
    if (run->work_left / TICK_STEPS == before)
        return true;
    if ((run->options->stop != NULL && *run->options->stop) ||
        !sp_watch_tick(run->options->watch, "stages", 0, run->best, run->bound))
        run->is_stopped = true;
    return !run->is_stopped;
}

/* The stages of a solution over units, with their nodes. NULL without memory. */
struct sp_stage *sp_stages_list(struct sp_arena *arena, const struct sp_stages_prepared *prepared,
                                const struct sp_stages_solution *solution)
{
    uint32_t nodes = prepared->problem->node_count, count = solution->stage_count;
    struct sp_stage *stages = SP_NEW_ARRAY(arena, count, struct sp_stage);
    uint32_t *list = SP_NEW_ARRAY(arena, nodes, uint32_t);
    uint32_t *next = SP_NEW_ARRAY(arena, (size_t)count + 1, uint32_t);
    if (stages == NULL || list == NULL || next == NULL)
        return NULL;
    for (uint32_t node = 0; node < nodes; node++)
        stages[solution->stage_of[prepared->unit_of[node]]].node_count++;
    for (uint32_t i = 0; i < count; i++) {
        stages[i].option = solution->choices[i].option;
        stages[i].replicas = solution->choices[i].replicas;
        stages[i].place = solution->choices[i].place;
        stages[i].nodes = list + next[i];
        next[i + 1] = next[i] + stages[i].node_count;
    }
    for (uint32_t node = 0; node < nodes; node++)
        list[next[solution->stage_of[prepared->unit_of[node]]]++] = node;
    return stages;
}

enum sp_status sp_stages_measure(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                 struct sp_stages_solution *solution, const char **ret_fault)
{
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(run->scratch));
    const char *fault = NULL;
    enum sp_status status = SP_OK;
    struct sp_stage *stages = arena == NULL ? NULL : sp_stages_list(arena, prepared, solution);
    if (stages == NULL)
        status = sp_fail_memory(run->err);
    else
        status = sp_stages_evaluate(arena, prepared->problem, solution->stage_count, stages, &solution->value, &fault,
                                    run->err);
    if (status == SP_OK) {
        solution->is_feasible = fault == NULL;
        *ret_fault = fault == NULL ? NULL : sp_arena_printf(run->scratch, "%s", fault);
    }
    sp_arena_destroy(arena);
    return status;
}
