/* Values of the dual from below, and what each state is above the bound. */
#include <float.h>
#include <math.h>

#include "solvers/choice/bounder.h"

/* What v costs at least in each state, from below: sums of doubles less what they may be off. */
double sp_bound_node_floor(const struct sp_bound_state *state, const double *messages, uint32_t v, double *ret_floors)
{
    const struct sp_reduced *reduced = state->reduced;
    uint32_t count = sp_states_of(reduced, v);
    uint32_t links = reduced->first_link[v + 1] - reduced->first_link[v];
    uint32_t terms = 2 + links + 2 * (reduced->first_range[v + 1] - reduced->first_range[v]) + reduced->moment_count;
    double least = DBL_MAX;
    for (uint32_t s = 0; s < count; s++) {
        double sum = state->own[reduced->first[v] + s], size = sum;
        for (uint32_t i = reduced->first_link[v]; i < reduced->first_link[v + 1]; i++) {
            uint32_t e = reduced->links[i];
            const struct sp_reduced_edge *edge = &reduced->edges[e];
            const double *message =
                &messages[state->first_message[e] + (edge->u == v ? 0 : sp_states_of(reduced, edge->u))];
            sum += message[s];
            size += fabs(message[s]);
        }
        ret_floors[s] = sum - size * SP_BOUND_ROUNDING * terms;
        if (state->dead != NULL && state->dead[reduced->first[v] + s])
            ret_floors[s] = SP_BOUND_FORBIDDEN;
        least = ret_floors[s] < least ? ret_floors[s] : least;
    }
    return least;
}

double sp_bound_edge_floor(const struct sp_bound_state *state, const double *messages, uint32_t e)
{
    const struct sp_reduced *reduced = state->reduced;
    uint32_t rows = sp_states_of(reduced, reduced->edges[e].u), columns = sp_states_of(reduced, reduced->edges[e].v);
    const double *to_u = &messages[state->first_message[e]], *to_v = to_u + rows;
    double least = DBL_MAX;
    for (uint32_t x = 0; x < columns; x++)
        state->scratch.row[x] = to_v[x] + fabs(to_v[x]) * 4 * SP_BOUND_ROUNDING;
    for (uint32_t s = 0; s < rows; s++) {
        const double *table = &state->tables[e][(size_t)s * columns];
        double here = table[0] - state->scratch.row[0];
        for (uint32_t x = 1; x < columns; x++) {
            double value = table[x] - state->scratch.row[x];
            here = value < here ? value : here;
        }
        here -= to_u[s] + (fabs(to_u[s]) + fabs(here)) * 4 * SP_BOUND_ROUNDING;
        least = here < least ? here : least;
    }
    return least;
}

/* The least that the edge e and its other end add when v is in state s, over what they add at least. */
static double above_across(const struct sp_bound_state *state, uint32_t e, uint32_t v, uint32_t s, const double *above,
                           double least)
{
    const struct sp_reduced *reduced = state->reduced;
    const struct sp_reduced_edge *edge = &reduced->edges[e];
    const double *to_u = &state->best_messages[state->first_message[e]], *to_v = to_u + sp_states_of(reduced, edge->u);
    bool is_first = edge->u == v;
    uint32_t other = is_first ? edge->v : edge->u, count = sp_states_of(reduced, other);
    const double *table = (is_first ? state->tables[e] : state->turned[e]) + (size_t)s * count;
    const double *to_other = is_first ? to_v : to_u;
    const double *others = &above[reduced->first[other]];
    double here = DBL_MAX;
    for (uint32_t x = 0; x < count; x++) {
        double value = table[x] - to_other[x] + others[x];
        here = value < here ? value : here;
    }
    double own = is_first ? to_u[s] : to_v[s];
    return here - own - least - (fabs(own) + fabs(here) + fabs(least)) * 8 * SP_BOUND_ROUNDING;
}

const double *sp_bound_reduced_costs(struct sp_bound_state *state)
{
    const struct sp_reduced *reduced = state->reduced;
    double *above = state->above;
    for (uint32_t e = 0; e < reduced->edge_count; e++)
        state->edge_floors[e] = sp_bound_edge_floor(state, state->best_messages, e);
    sp_bound_swap_prices(state); /* `own` of the best prices */
    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        double least = sp_bound_node_floor(state, state->best_messages, v, state->scratch.total);
        for (uint32_t s = 0; s < sp_states_of(reduced, v); s++)
            above[reduced->first[v] + s] = state->scratch.total[s] - least;
    }
    sp_bound_swap_prices(state);
    for (uint32_t v = 0; v < reduced->variable_count; v++)
        for (uint32_t s = 0; s < sp_states_of(reduced, v); s++) {
            double sum = above[reduced->first[v] + s];
            for (uint32_t i = reduced->first_link[v]; i < reduced->first_link[v + 1]; i++) {
                uint32_t e = reduced->links[i];
                sum += above_across(state, e, v, s, above, state->edge_floors[e]);
                state->work +=
                    sp_states_of(reduced, reduced->edges[e].u == v ? reduced->edges[e].v : reduced->edges[e].u);
            }
            state->reduced_costs[reduced->first[v] + s] = sum > 0 ? sum : 0;
        }
    return state->reduced_costs;
}

uint32_t sp_bound_mark_dead(struct sp_bound_state *state, int64_t cost, bool *dead)
{
    const struct sp_reduced *reduced = state->reduced;
    if (!state->has_best || reduced->variable_count == 0)
        return 0;
    const double *above = sp_bound_reduced_costs(state);
    /* A better choice costs at most 1 less; sums of this size are off by far less than the margin. */
    double target = (double)(cost - reduced->fixed_cost) - 1,
           margin = 1e-11 * fabs(state->best) + 1e-11 * target + 1e-4;
    uint32_t count = 0;
    for (uint32_t s = 0; s < reduced->first[reduced->variable_count]; s++)
        if (!dead[s] && state->best + above[s] * (1 - 1e-12) > target + margin) {
            dead[s] = true;
            count++;
        }
    return count;
}
