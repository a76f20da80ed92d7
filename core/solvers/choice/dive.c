/* A search among the states that the bound's relaxation takes. */
#include "solvers/choice/dive.h"

#include "solvers/choice/bounder.h"
#include "solvers/choice/exact.h"

static void mark_left_out(const struct sp_bound_state *bound, const struct sp_dive *dive, bool *dead)
{
    const struct sp_reduced *reduced = bound->reduced;
    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        uint32_t first = reduced->first[v], best = 0;
        for (uint32_t s = 0; s < sp_states_of(reduced, v); s++) {
            best = bound->shares[first + s] > bound->shares[first + best] ? s : best;
            dead[first + s] = bound->shares[first + s] < dive->share;
        }
        dead[first + best] = false;
        if (dive->keep != NULL)
            dead[first + dive->keep[v]] = false;
    }
}

static double *carry_prices(struct sp_arena *arena, const struct sp_reduced *from, const double *prices,
                            const struct sp_reduced *to)
{
    double *carried = SP_NEW_ARRAY(arena, (size_t)to->moment_count + 1, double);
    for (uint32_t m = 0, old = 0; carried != NULL && m < to->moment_count; m++) {
        while (from->moment_of[old] != to->moment_of[m])
            old++;
        carried[m] = prices[old];
    }
    return carried;
}

static uint64_t entries_of(const struct sp_reduced *reduced)
{
    uint64_t entries = 0;
    for (uint32_t e = 0; e < reduced->edge_count; e++)
        entries += (uint64_t)sp_states_of(reduced, reduced->edges[e].u) * sp_states_of(reduced, reduced->edges[e].v);
    return entries;
}

struct descent {
    struct sp_arena *arena;
    const struct sp_dive *dive;
    uint64_t work; /* that was done */
    struct sp_error *err;
};

/* One step down: `from` without the dead states, and its bound until it has converged. `*ret_bound` is NULL when
   nothing better than the cost is there, or too much. */
static enum sp_status descend(struct descent *descent, const struct sp_reduced *from, const double *prices,
                              const bool *dead, struct sp_reduced **ret_reduced, struct sp_bound_state **ret_bound)
{
    struct sp_arena *arena = descent->arena;
    const struct sp_dive *dive = descent->dive;
    struct sp_reduced *reduced = NULL;
    *ret_bound = NULL;
    enum sp_status status = sp_reduce_again(arena, from, dead, dive->stop, &reduced, descent->err);
    if (status != SP_OK || reduced == NULL)
        return status;
    *ret_reduced = reduced;
    if (reduced->is_infeasible || reduced->variable_count == 0 || entries_of(reduced) > dive->most)
        return SP_OK;
    const double *carried = carry_prices(arena, from, prices, reduced);
    struct sp_bound_state *bound = sp_bound_create(arena, reduced);
    if (carried == NULL || bound == NULL)
        return sp_fail_memory(descent->err);
    sp_bound_warm(bound, carried);
    uint64_t used = 0;
    while (used < dive->work / 4 && !sp_bound_has_converged(bound) && sp_bound_best(bound) < dive->cost &&
           !sp_bound_is_stopped(bound))
        (void)sp_bound_improve(bound, dive->work / 64 + 1, dive->cost - reduced->fixed_cost, dive->stop, &used);
    descent->work += used;
    if (sp_bound_best(bound) < dive->cost)
        *ret_bound = bound;
    return SP_OK;
}

enum sp_status sp_dive(const struct sp_bound_state *bound, const struct sp_dive *dive, uint32_t *ret_states,
                       bool *ret_found, uint64_t *ret_work, struct sp_error *err)
{
    const struct sp_reduced *reduced = bound->reduced;
    struct sp_reduced *first = NULL, *second = NULL;
    struct sp_bound_state *of_first, *of_second;
    struct sp_exact *exact;
    int64_t cost;
    enum sp_status status = SP_OK;
    struct sp_arena *arena = sp_arena_create(dive->budget);
    struct descent descent = {.arena = arena, .dive = dive, .err = err};
    uint32_t *between = SP_NEW_ARRAY(arena, reduced->variable_count, uint32_t);
    bool *dead = SP_NEW_ARRAY(arena, reduced->first[reduced->variable_count], bool);
    *ret_found = false;
    if (between == NULL || dead == NULL) {
        status = sp_fail_memory(err);
        goto done;
    }
    mark_left_out(bound, dive, dead);
    status = descend(&descent, reduced, bound->prices.best, dead, &first, &of_first);
    if (status != SP_OK || first == NULL)
        goto done;
    if (!first->is_infeasible && first->variable_count == 0) {
        uint32_t none = 0;
        sp_reduced_expand(first, &none, ret_states);
        *ret_found = true;
        goto done;
    }
    if (of_first == NULL)
        goto done;
    memset(dead, 0, reduced->first[reduced->variable_count] * sizeof(bool));
    (void)sp_bound_mark_dead(of_first, dive->cost, dead);
    status = descend(&descent, first, sp_bound_prices(of_first), dead, &second, &of_second);
    if (status != SP_OK || of_second == NULL)
        goto done;
    exact = sp_exact_create(arena, of_second, dive->cost);
    if (exact == NULL) {
        status = sp_fail_memory(err);
        goto done;
    }
    if (descent.work < dive->work)
        sp_exact_run(exact, dive->work - descent.work, dive->executor, dive->stop);
    descent.work += sp_exact_work(exact);
    const uint32_t *states = sp_exact_best(exact, &cost);
    if (states != NULL) {
        sp_reduced_expand(second, states, between);
        sp_reduced_expand(first, between, ret_states);
        *ret_found = true;
    }
done:
    *ret_work += descent.work;
    sp_arena_destroy(arena);
    return status;
}
