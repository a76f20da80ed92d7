/* One search for good states: see improve.h for the plan, improve_internal.h for the words. */
#include <string.h>

#include "solvers/choice/improve_internal.h"

static void link_rows(struct sp_improver *improver)
{
    const struct sp_reduced *reduced = improver->reduced;

    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        for (uint32_t l = reduced->first_link[v]; l < reduced->first_link[v + 1]; l++) {
            const struct sp_reduced_edge *edge = &reduced->edges[reduced->links[l]];

            improver->rows[l] = edge->u == v ? edge->turned : edge->cost;
            improver->other[l] = edge->u == v ? edge->v : edge->u;
        }
    }
}

static bool allocate(struct sp_improver *improver)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_arena *arena = improver->arena;
    size_t variables = reduced->variable_count, moments = reduced->moment_count,
           links = 2 * (size_t)reduced->edge_count;

    improver->states = SP_NEW_ARRAY(arena, variables, uint32_t);
    improver->best = SP_NEW_ARRAY(arena, variables, uint32_t);
    improver->place = SP_NEW_ARRAY(arena, variables, uint32_t);
    improver->region = SP_NEW_ARRAY(arena, variables, uint32_t);
    improver->mark = SP_NEW_ARRAY(arena, variables, uint32_t);
    improver->queue = SP_NEW_ARRAY(arena, links + variables, uint32_t);
    improver->rows = SP_NEW_ARRAY(arena, links, const int64_t *);
    improver->other = SP_NEW_ARRAY(arena, links, uint32_t);
    improver->dense = SP_NEW_ARRAY(arena, moments + 1, int64_t);
    improver->prices.now = SP_NEW_ARRAY(arena, moments + 1, double);
    improver->prices.before = SP_NEW_ARRAY(arena, moments + 1, double);
    improver->prices.penalty = SP_NEW_ARRAY(arena, moments + 1, double);
    improver->prices.penalty_before = SP_NEW_ARRAY(arena, moments + 1, double);
    improver->prices.mean = SP_NEW_ARRAY(arena, moments + 1, double);
    improver->guide = SP_NEW_ARRAY(arena, reduced->first[variables], int64_t);
    improver->prices.best = SP_NEW_ARRAY(arena, moments + 1, double);
    return improver->states != NULL && improver->best != NULL && improver->place != NULL && improver->region != NULL &&
           improver->mark != NULL && improver->queue != NULL && improver->rows != NULL && improver->other != NULL &&
           improver->dense != NULL && improver->prices.now != NULL && improver->prices.before != NULL &&
           improver->prices.penalty != NULL && improver->prices.penalty_before != NULL &&
           improver->prices.best != NULL && improver->prices.mean != NULL && improver->guide != NULL &&
           sp_slack_tree_init(&improver->slack, arena, reduced->moment_count) == SP_OK &&
           sp_window_init(&improver->window, improver) == SP_OK;
}

struct sp_improver *sp_improver_create(struct sp_arena *arena, const struct sp_reduced *reduced, uint64_t seed,
                                       uint32_t search)
{
    struct sp_improver *improver = SP_NEW(arena, struct sp_improver);

    if (improver == NULL)
        return NULL;
    improver->arena = arena;
    improver->reduced = reduced;
    improver->random = seed * UINT64_C(0x2545F4914F6CDD1D) + ((uint64_t)search << 32) + 1;
    if (!allocate(improver))
        return NULL;
    link_rows(improver);
    if (sp_messages_init(&improver->messages, improver) != SP_OK)
        return NULL;
    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        const int64_t *cost = reduced->cost + reduced->first[v];

        int64_t most = cost[0];

        improver->place[v] = SP_IMPROVE_NONE;
        for (uint32_t s = 1; s < reduced->first[v + 1] - reduced->first[v]; s++) {
            if (cost[s] < cost[improver->states[v]])
                improver->states[v] = s;
            most = cost[s] > most ? cost[s] : most;
        }
        improver->prices.spread += (double)(most - cost[improver->states[v]]);
    }
    improver->prices.spread += 1;
    improver->prices.part = 0.2;
    improver->best_cost = INT64_MAX;
    improver->best_over = INT64_MAX;
    improver->best_infinite = UINT32_MAX;
    sp_improver_refresh(improver);
    sp_improver_remember(improver);
    return improver;
}

void sp_improver_guide(struct sp_improver *improver, const double *prices, const double *reduced_costs)
{
    const struct sp_reduced *reduced = improver->reduced;

    if (prices != NULL) {
        memcpy(improver->prices.now, prices, reduced->moment_count * sizeof *prices);
        sp_improver_sum_prices(improver->prices.now, improver->prices.before, reduced->moment_count);
    }
    improver->has_guide = reduced_costs != NULL;
    for (uint32_t s = 0; reduced_costs != NULL && s < reduced->first[reduced->variable_count]; s++)
        improver->guide[s] = reduced_costs[s] < 1e17 ? (int64_t)reduced_costs[s] : SP_CHOICE_INFINITE;
}

void sp_improver_offer(struct sp_improver *improver, const uint32_t *states)
{
    uint32_t count = improver->reduced->variable_count, *kept = improver->mark;

    memcpy(kept, improver->states, count * sizeof *kept);
    memcpy(improver->states, states, count * sizeof *states);
    sp_improver_refresh(improver);
    if (sp_improver_remember(improver))
        return;
    memcpy(improver->states, kept, count * sizeof *kept);
    sp_improver_refresh(improver);
}

const uint32_t *sp_improver_best(const struct sp_improver *improver, bool *ret_feasible, int64_t *ret_cost)
{
    *ret_feasible = improver->best_infinite == 0 && improver->best_over == 0;
    *ret_cost = improver->best_cost + improver->reduced->fixed_cost;
    return improver->best;
}
