/* Prices of moments: which have one, and how they follow what is used. */
#include <float.h>
#include <math.h>

#include "solvers/choice/bounder.h"

#define NEW_PRICES 16 /* moments that get a price at a time, at most */
#define PRICE_WORK 4  /* steps for each moment when prices move */

/* Writes `own` from the prices. */
void sp_bound_apply_prices(struct sp_bound_state *state)
{
    const struct sp_reduced *reduced = state->reduced;
    state->prices.sums[0] = 0;
    for (uint32_t m = 0; m < reduced->moment_count; m++)
        state->prices.sums[m + 1] = state->prices.sums[m] + state->prices.now[m];
    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        uint32_t first = reduced->first_range[v], ranges = reduced->first_range[v + 1] - first;
        uint32_t states = sp_states_of(reduced, v);
        double *own = &state->own[reduced->first[v]];
        for (uint32_t s = 0; s < states; s++)
            own[s] = state->dead != NULL && state->dead[reduced->first[v] + s]
                         ? SP_BOUND_FORBIDDEN
                         : (double)reduced->cost[reduced->first[v] + s];
        for (uint32_t r = 0; r < ranges; r++) {
            const struct sp_reduced_range *range = &reduced->ranges[first + r];
            double price = state->prices.sums[range->to] - state->prices.sums[range->from];
            if (price <= 0)
                continue;
            const int64_t *usage = &reduced->usage[reduced->first_usage[v] + r];
            for (uint32_t s = 0; s < states; s++)
                own[s] += price * (double)usage[(size_t)s * ranges];
        }
    }
}

/* Adds what v uses on average to `mean`: differences until sp_bound_move_prices() sums them up. */
void sp_bound_add_means(struct sp_bound_state *state, uint32_t v, const double *weights)
{
    const struct sp_reduced *reduced = state->reduced;
    uint32_t first = reduced->first_range[v], ranges = reduced->first_range[v + 1] - first;
    uint32_t states = sp_states_of(reduced, v);
    const int64_t *usage = &reduced->usage[reduced->first_usage[v]];
    for (uint32_t r = 0; r < ranges; r++) {
        double mean = 0;
        for (uint32_t s = 0; s < states; s++)
            mean += weights[s] * (double)usage[(size_t)s * ranges + r];
        state->prices.mean[reduced->ranges[first + r].from] += mean;
        state->prices.mean[reduced->ranges[first + r].to] -= mean;
    }
    state->work += (uint64_t)ranges * states;
}

void sp_bound_count_priced(struct sp_bound_state *state)
{
    state->prices.count = 0;
    for (uint32_t m = 0; m < state->reduced->moment_count; m++)
        state->prices.count += state->prices.is_priced[m];
}

/* The most exceeded moments, one of each stretch of exceeded ones, get prices. */
static void add_prices(struct sp_bound_state *state)
{
    const struct sp_reduced *reduced = state->reduced;
    uint32_t chosen[NEW_PRICES], count = 0;
    double over[NEW_PRICES];
    for (uint32_t m = 0; m < reduced->moment_count;) {
        uint32_t worst = m;
        double most = 0;
        bool has_price = false;
        for (; m < reduced->moment_count && state->prices.mean[m] > (double)reduced->limit[m]; m++) {
            double here = (state->prices.mean[m] - (double)reduced->limit[m]) / ((double)reduced->limit[m] + 1);
            if (here > most) {
                most = here;
                worst = m;
            }
        }
        has_price = state->prices.is_priced[worst];
        m++;
        if (has_price || most < 1e-6 || (count == NEW_PRICES && over[count - 1] >= most))
            continue;
        uint32_t at = count == NEW_PRICES ? count - 1 : count++;
        for (; at > 0 && over[at - 1] < most; at--) {
            over[at] = over[at - 1];
            chosen[at] = chosen[at - 1];
        }
        over[at] = most;
        chosen[at] = worst;
    }
    for (uint32_t i = 0; i < count; i++)
        state->prices.is_priced[chosen[i]] = true;
    if (count > 0)
        sp_bound_count_priced(state);
}

/* The largest usage of one variable at a moment decides how far a price may go at a time. */
void sp_bound_move_prices(struct sp_bound_state *state, double temperature)
{
    const struct sp_reduced *reduced = state->reduced;
    for (uint32_t m = 1; m < reduced->moment_count; m++)
        state->prices.mean[m] += state->prices.mean[m - 1];
    state->work += PRICE_WORK * (uint64_t)reduced->moment_count;
    for (uint32_t m = 0; m < reduced->moment_count; m++) {
        if (!state->prices.is_priced[m])
            continue;
        double over = state->prices.mean[m] - (double)reduced->limit[m];
        double least = temperature / (0.02 * ((double)reduced->limit[m] + 1));
        if (state->prices.step[m] <= 0)
            state->prices.step[m] = least;
        else if (over * state->prices.last_over[m] > 0)
            state->prices.step[m] *= 1.2;
        else
            state->prices.step[m] *= 0.5;
        double most = 0.2 * state->prices.now[m] + least;
        state->prices.step[m] = state->prices.step[m] > most           ? most
                                : state->prices.step[m] < 1e-3 * least ? 1e-3 * least
                                                                       : state->prices.step[m];
        state->prices.last_over[m] = over;
        double moved = state->prices.now[m] + (over > 0 ? state->prices.step[m] : -state->prices.step[m]);
        state->prices.now[m] = moved > 0 ? moved : 0;
    }
    add_prices(state);
    sp_bound_apply_prices(state);
}

double sp_bound_price_of_limits(const struct sp_bound_state *state)
{
    double sum = 0;
    for (uint32_t m = 0; m < state->reduced->moment_count; m++)
        if (state->prices.now[m] > 0)
            sum += state->prices.now[m] * (double)state->reduced->limit[m] * (1 + 4 * DBL_EPSILON);
    return sum;
}

void sp_bound_swap_prices(struct sp_bound_state *state)
{
    double *prices = state->prices.now;
    state->prices.now = state->prices.best;
    state->prices.best = prices;
    sp_bound_apply_prices(state);
}

const double *sp_bound_prices(const struct sp_bound_state *state)
{
    return state->prices.best;
}
