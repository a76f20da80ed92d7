/* The bound: safe values of it, and the order of sweeps. */
#include "solvers/choice/bound.h"

#include <math.h>

#include "base/hash_map.h"
#include "solvers/choice/bounder.h"

static double *table_of(struct sp_bound_state *state, const int64_t *cost, size_t count)
{
    double *table = SP_NEW_ARRAY(state->arena, count + SP_BOUND_LANES, double);
    for (size_t i = 0; i < count && table != NULL; i++)
        table[i] = cost[i] >= SP_CHOICE_INFINITE ? SP_BOUND_FORBIDDEN : (double)cost[i];
    return table;
}

static bool make_tables(struct sp_bound_state *state)
{
    const struct sp_reduced *reduced = state->reduced;
    struct sp_hash_map edge_of = {.arena = state->arena}; /* by the address of its table: the first edge + 1 */
    for (uint32_t e = 0; e < reduced->edge_count; e++) {
        const struct sp_reduced_edge *edge = &reduced->edges[e];
        size_t count = (size_t)sp_states_of(reduced, edge->u) * sp_states_of(reduced, edge->v);
        struct sp_hash_slot *slot = sp_hash_map_put(&edge_of, (uintptr_t)edge->cost);
        if (slot == NULL)
            return false;
        if (slot->number == 0) {
            slot->number = (uint64_t)e + 1;
            state->tables[e] = table_of(state, edge->cost, count);
            state->turned[e] = table_of(state, edge->turned, count);
        } else {
            state->tables[e] = state->tables[slot->number - 1];
            state->turned[e] = state->turned[slot->number - 1];
        }
        if (state->tables[e] == NULL || state->turned[e] == NULL)
            return false;
        state->first_message[e] = state->message_count;
        state->message_count += sp_states_of(reduced, edge->u) + sp_states_of(reduced, edge->v);
    }
    return true;
}

static bool make_arrays(struct sp_bound_state *state)
{
    const struct sp_reduced *reduced = state->reduced;
    struct sp_arena *arena = state->arena;
    size_t states = reduced->variable_count > 0 ? reduced->first[reduced->variable_count] : 0;
    size_t moments = (size_t)reduced->moment_count + 1;
    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        uint32_t count = sp_states_of(reduced, v), links = reduced->first_link[v + 1] - reduced->first_link[v];
        state->largest = count > state->largest ? count : state->largest;
        state->most_links = links > state->most_links ? links : state->most_links;
    }
    state->messages = SP_NEW_ARRAY(arena, state->message_count, double);
    state->best_messages = SP_NEW_ARRAY(arena, state->message_count, double);
    state->own = SP_NEW_ARRAY(arena, states, double);
    state->reduced_costs = SP_NEW_ARRAY(arena, states, double);
    state->above = SP_NEW_ARRAY(arena, states, double);
    state->edge_floors = SP_NEW_ARRAY(arena, reduced->edge_count, double);
    state->shares = SP_NEW_ARRAY(arena, states, double);
    state->prices.now = SP_NEW_ARRAY(arena, moments, double);
    state->prices.best = SP_NEW_ARRAY(arena, moments, double);
    state->prices.sums = SP_NEW_ARRAY(arena, moments, double);
    state->prices.mean = SP_NEW_ARRAY(arena, moments, double);
    state->prices.step = SP_NEW_ARRAY(arena, moments, double);
    state->prices.last_over = SP_NEW_ARRAY(arena, moments, double);
    state->prices.is_priced = SP_NEW_ARRAY(arena, moments, bool);
    state->scratch.gather =
        SP_NEW_ARRAY(arena, (size_t)state->largest * (state->most_links + 1) + SP_BOUND_LANES, double);
    state->scratch.total = SP_NEW_ARRAY(arena, (size_t)state->largest + 1, double);
    state->scratch.row = SP_NEW_ARRAY(arena, (size_t)state->largest + 1, double);
    state->scratch.weights = SP_NEW_ARRAY(arena, (size_t)state->largest + 1, double);
    return state->messages != NULL && state->best_messages != NULL && state->own != NULL &&
           state->reduced_costs != NULL && state->above != NULL && state->shares != NULL &&
           state->edge_floors != NULL && state->prices.step != NULL && state->prices.last_over != NULL &&
           state->prices.now != NULL && state->prices.best != NULL && state->prices.sums != NULL &&
           state->prices.mean != NULL && state->prices.is_priced != NULL && state->scratch.gather != NULL &&
           state->scratch.total != NULL && state->scratch.row != NULL && state->scratch.weights != NULL;
}

struct sp_bound_state *sp_bound_create(struct sp_arena *arena, const struct sp_reduced *reduced)
{
    struct sp_bound_state *state = SP_NEW(arena, struct sp_bound_state);
    if (state == NULL)
        return NULL;
    state->arena = arena;
    state->reduced = reduced;
    state->tables = SP_NEW_ARRAY(arena, reduced->edge_count, const double *);
    state->turned = SP_NEW_ARRAY(arena, reduced->edge_count, const double *);
    state->first_message = SP_NEW_ARRAY(arena, reduced->edge_count, size_t);
    if (state->tables == NULL || state->turned == NULL || state->first_message == NULL || !make_tables(state) ||
        !make_arrays(state))
        return NULL;
    sp_bound_apply_prices(state);
    return state;
}

struct sp_bound_state *sp_bound_fork(struct sp_arena *arena, const struct sp_bound_state *from)
{
    struct sp_bound_state *state = SP_NEW(arena, struct sp_bound_state);
    if (state == NULL)
        return NULL;
    state->arena = arena;
    state->reduced = from->reduced;
    state->tables = from->tables;
    state->turned = from->turned;
    state->first_message = from->first_message;
    state->message_count = from->message_count;
    return make_arrays(state) ? state : NULL;
}

void sp_bound_warm(struct sp_bound_state *state, const double *prices)
{
    for (uint32_t m = 0; m < state->reduced->moment_count; m++) {
        state->prices.now[m] = prices[m];
        state->prices.is_priced[m] = prices[m] > 0;
    }
    sp_bound_count_priced(state);
    sp_bound_apply_prices(state);
}

/* The bound of the messages and prices as they are, from below, without the fixed cost. */
double sp_bound_evaluate(struct sp_bound_state *state)
{
    const struct sp_reduced *reduced = state->reduced;
    double sum = 0, size = sp_bound_price_of_limits(state);
    sum = -size;
    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        double least = sp_bound_node_floor(state, state->messages, v, state->scratch.total);
        sum += least;
        size += fabs(least);
    }
    for (uint32_t e = 0; e < reduced->edge_count; e++) {
        double least = sp_bound_edge_floor(state, state->messages, e);
        sum += least;
        size += fabs(least);
        state->work +=
            (uint64_t)sp_states_of(reduced, reduced->edges[e].u) * sp_states_of(reduced, reduced->edges[e].v);
    }
    sum -= size * SP_BOUND_ROUNDING * (double)(reduced->variable_count + reduced->edge_count + reduced->moment_count);
    if (!state->has_best || sum > state->best) {
        state->best = sum;
        state->has_best = true;
        memcpy(state->best_messages, state->messages, state->message_count * sizeof(double));
        memcpy(state->prices.best, state->prices.now, (size_t)reduced->moment_count * sizeof(double));
    }
    return sum;
}

int64_t sp_bound_rounded(double bound)
{
    if (bound >= SP_BOUND_FORBIDDEN)
        return SP_CHOICE_INFINITE;
    return bound <= 0 ? 0 : (int64_t)ceil(bound - 1e-6);
}

/* Sweeps at one temperature, and how it falls. A pass ends when it is so low that the soft bound is the hard one; the
   next begins warmer and takes twice as long. */
#define SWEEPS       10
#define FIRST_SWEEPS 10
#define COOLING      0.7
#define COOL         1e-3
#define COLDEST      1e-7

static void begin(struct sp_bound_state *state, int64_t target)
{
    for (uint32_t i = 0; i < 10; i++)
        sp_bound_hard_sweep(state, i % 2 == 1);
    double first = sp_bound_evaluate(state), scale = first;
    if (state->prices.count > 0 && target < INT64_MAX) /* warm already */
        scale = (double)target - first;
    state->hottest = (scale > 1 ? scale : 1) / (state->reduced->variable_count + 1) / 2;
    state->temperature = state->hottest;
    state->sweeps_each = FIRST_SWEEPS;
    state->has_started = true;
}

static void cool(struct sp_bound_state *state, int64_t target)
{
    state->sweeps_here += SWEEPS;
    if (state->sweeps_here < state->sweeps_each)
        return;
    state->sweeps_here = 0;
    state->temperature *= COOLING;
    if (state->temperature > COLDEST * state->hottest)
        return;
    double gap = target == INT64_MAX ? 0.01 * state->best : (double)target - state->best;
    state->passes++;
    state->sweeps_each *= 2;
    state->temperature = 0.1 * (gap > 1 ? gap : 1) / (state->reduced->variable_count + 1);
    if (state->temperature > state->hottest)
        state->temperature = state->hottest;
    /* from the best found so far */
    memcpy(state->messages, state->best_messages, state->message_count * sizeof(double));
    memcpy(state->prices.now, state->prices.best, (size_t)state->reduced->moment_count * sizeof(double));
    sp_bound_apply_prices(state);
}

int64_t sp_bound_improve(struct sp_bound_state *state, uint64_t work, int64_t target, const volatile bool *stop,
                         uint64_t *ret_work)
{
    uint64_t start = state->work;
    state->stop = stop;
    if (state->reduced->variable_count == 0)
        return sp_bound_best(state); /* sweeps would do no work, and so never end */
    if (!state->has_started)
        begin(state, target);
    while (state->work - start < work && (stop == NULL || !*stop) && sp_bound_rounded(state->best) < target) {
        for (uint32_t i = 0; i < SWEEPS && (stop == NULL || !*stop); i++) {
            sp_bound_soft_sweep(state, i % 2 == 1, state->temperature);
            sp_bound_move_prices(state, state->temperature);
        }
        (void)sp_bound_evaluate(state);
        cool(state, target);
    }
    if (ret_work != NULL)
        *ret_work += state->work - start;
    return sp_bound_best(state);
}

int64_t sp_bound_best(const struct sp_bound_state *state)
{
    if (!state->has_best)
        return state->reduced->fixed_cost;
    int64_t bound = sp_bound_rounded(state->best);
    return bound >= SP_CHOICE_INFINITE ? SP_CHOICE_INFINITE : bound + state->reduced->fixed_cost;
}

bool sp_bound_is_cool(const struct sp_bound_state *state)
{
    return state->passes > 0 || (state->has_started && state->temperature < COOL * state->hottest);
}

bool sp_bound_has_converged(const struct sp_bound_state *state)
{
    return state->passes > 0;
}
