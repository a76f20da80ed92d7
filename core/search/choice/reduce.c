/* The order of the reductions, and the way back from states to strategies. */
#include "search/choice/reduce.h"
#include "search/choice/reducer.h"

/* Rounds of dominance: each makes room for merging, which makes room for dominance; what comes later is little. */
#define MAX_ROUNDS 12

static void reduce_all(struct sp_reducer *reducer)
{
    sp_reducer_build(reducer);
    if (sp_reducer_is_done(reducer))
        return;
    for (uint32_t e = 0; e < reducer->problem->edge_count; e++)
        sp_reducer_enqueue(reducer, e);
    sp_reducer_propagate(reducer);
    if (!sp_reducer_is_done(reducer))
        sp_reducer_find_moments(reducer);
    if (!sp_reducer_is_done(reducer))
        sp_reducer_profile(reducer);
    for (uint32_t round = 0; round < MAX_ROUNDS && !sp_reducer_is_stopped(reducer); round++) {
        if (sp_reducer_drop_implied(reducer))
            sp_reducer_profile(reducer);
        if (sp_reducer_is_stopped(reducer))
            break;
        reducer->has_changed = false;
        sp_reducer_dominate(reducer);
        if (!sp_reducer_is_done(reducer))
            sp_reducer_propagate(reducer);
        if (!sp_reducer_is_done(reducer))
            sp_reducer_profile(reducer);
        if (!reducer->has_changed)
            break;
    }
}

enum sp_status sp_reduce(struct sp_arena *arena, const struct sp_choice_problem *problem, const volatile bool *stop,
                         struct sp_reduced **ret_reduced, struct sp_error *err)
{
    struct sp_reduced *reduced = SP_NEW(arena, struct sp_reduced);
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(arena));
    struct sp_reducer reducer = {.arena = arena, .scratch = scratch, .problem = problem, .stop = stop};
    enum sp_status status = SP_ERR_MEMORY;
    if (reduced == NULL || scratch == NULL)
        goto done;
    reduce_all(&reducer);
    if (reducer.is_out_of_memory)
        goto done;
    reduced->arena = arena;
    reduced->problem = problem;
    reduced->is_infeasible = reducer.is_infeasible;
    reduced->fixed_cost = reducer.fixed_cost;
    reduced->least_limit = reducer.least_limit;
    status = reducer.is_infeasible ? SP_OK : sp_reducer_pack(&reducer, reduced);
done:
    sp_arena_destroy(scratch);
    if (status != SP_OK)
        return sp_fail_memory(err);
    *ret_reduced = reduced;
    return SP_OK;
}

void sp_reduced_expand(const struct sp_reduced *reduced, const uint32_t *states, uint32_t *ret_choice)
{
    const struct sp_expansion *expansion = reduced->expansion;
    for (uint32_t v = 0; v < reduced->variable_count; v++)
        ret_choice[expansion->node_of[v]] = expansion->strategy_of[reduced->first[v] + states[v]];
    for (uint32_t i = expansion->step_count; i-- > 0;) {
        const struct sp_reduce_step *step = &expansion->steps[i];
        size_t row = step->u == SP_NO_NODE ? 0 : ret_choice[step->u];
        size_t column = step->w == SP_NO_NODE ? 0 : ret_choice[step->w];
        ret_choice[step->node] = step->map[row * step->columns + column];
    }
}

bool sp_reduced_project(const struct sp_reduced *reduced, const uint32_t *choice, uint32_t *ret_states)
{
    const struct sp_expansion *expansion = reduced->expansion;
    bool is_exact = true;
    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        uint32_t count = reduced->first[v + 1] - reduced->first[v], s = 0;
        while (s < count && expansion->strategy_of[reduced->first[v] + s] != choice[expansion->node_of[v]])
            s++;
        is_exact = is_exact && s < count;
        ret_states[v] = s < count ? s : 0;
    }
    return is_exact;
}
