/* The order of the reductions, and the way back from states to strategies. */
#include "solvers/choice/reduce.h"
#include "solvers/choice/reducer.h"

/* Rounds of dominance: each makes room for merging, which makes room for dominance; what comes later is little. */
#define MAX_ROUNDS 12

static void reduce_all(struct sp_reducer *reducer, const struct sp_reduced *from)
{
    sp_reducer_build(reducer);
    if (sp_reducer_is_done(reducer))
        return;
    for (uint32_t e = 0; e < reducer->problem->edge_count; e++)
        sp_reducer_enqueue(reducer, e);
    sp_reducer_propagate(reducer);
    if (!sp_reducer_is_done(reducer) && from == NULL)
        sp_reducer_find_moments(reducer);
    else if (!sp_reducer_is_done(reducer))
        sp_reducer_take_moments(reducer, from);
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

static enum sp_status reduce(struct sp_arena *arena, const struct sp_choice_problem *problem,
                             const struct sp_reduced *from, const volatile bool *stop, struct sp_reduced **ret_reduced,
                             struct sp_error *err)
{
    struct sp_reduced *reduced = SP_NEW(arena, struct sp_reduced);
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(arena));
    struct sp_reducer reducer = {
        .arena = arena, .scratch = scratch, .problem = problem, .stop = stop, .is_again = from != NULL};
    enum sp_status status = SP_ERR_MEMORY;
    if (reduced == NULL || scratch == NULL)
        goto done;
    if (from != NULL) {
        reducer.fixed_cost = from->fixed_cost;
        reducer.minimum_limit = from->minimum_limit;
    }
    reduce_all(&reducer, from);
    if (reducer.is_out_of_memory)
        goto done;
    reduced->arena = arena;
    reduced->problem = problem;
    reduced->is_infeasible = reducer.is_infeasible;
    reduced->fixed_cost = reducer.fixed_cost;
    reduced->minimum_limit = reducer.minimum_limit;
    status = reducer.is_infeasible ? SP_OK : sp_reducer_pack(&reducer, reduced);
done:
    sp_arena_destroy(scratch);
    if (status != SP_OK)
        return sp_fail_memory(err);
    *ret_reduced = reduced;
    return SP_OK;
}

enum sp_status sp_reduce(struct sp_arena *arena, const struct sp_choice_problem *problem, const volatile bool *stop,
                         struct sp_reduced **ret_reduced, struct sp_error *err)
{
    return reduce(arena, problem, NULL, stop, ret_reduced, err);
}

enum sp_status sp_reduce_again(struct sp_arena *arena, const struct sp_reduced *reduced, const bool *is_dead,
                               const volatile bool *stop, struct sp_reduced **ret_reduced, struct sp_error *err)
{
    uint32_t variables = reduced->variable_count, states = variables > 0 ? reduced->first[variables] : 0;
    struct sp_choice_problem *problem = SP_NEW(arena, struct sp_choice_problem);
    int64_t *cost = SP_NEW_ARRAY(arena, states, int64_t);
    struct sp_choice_edge *edges = SP_NEW_ARRAY(arena, reduced->edge_count, struct sp_choice_edge);
    if (problem == NULL || cost == NULL || edges == NULL)
        return sp_fail_memory(err);
    for (uint32_t s = 0; s < states; s++)
        cost[s] = is_dead[s] ? SP_CHOICE_INFINITE : reduced->cost[s];
    for (uint32_t e = 0; e < reduced->edge_count; e++)
        edges[e] = (struct sp_choice_edge){reduced->edges[e].u, reduced->edges[e].v, reduced->edges[e].cost};
    *problem = (struct sp_choice_problem){.node_count = variables,
                                          .edge_count = reduced->edge_count,
                                          .first = reduced->first,
                                          .cost = cost,
                                          .edges = edges,
                                          .limit = reduced->problem->limit};
    return reduce(arena, problem, reduced, stop, ret_reduced, err);
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
