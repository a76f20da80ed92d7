/* Solving a window: prices on its segments until they bound well, then all states within the bound, best first. */
#include <string.h>

#include "solvers/choice/improve_internal.h"

static void accept(struct sp_improve_window *window, int64_t value)
{
    memcpy(window->best, window->chosen, window->count * sizeof *window->best);
    window->best_cost = value;
    window->is_improved = true;
}

/* How far the usage is outside the caps, squared, as far as prices can answer it. */
static double overshoot(const struct sp_improve_window *window, bool *ret_fits)
{
    double sum = 0;

    *ret_fits = true;
    for (uint32_t k = 0; k < window->segments.count; k++) {
        double by = (double)(window->segments.used[k] - window->segments.cap[k]);

        if (by > 0)
            *ret_fits = false;
        if (by > 0 || window->segments.price[k] > 0)
            sum += by * by;
    }
    return sum;
}

/* What all caps are worth at the prices. */
static double worth(const struct sp_improve_window *window)
{
    double sum = 0;

    for (uint32_t k = 0; k < window->segments.count; k++)
        sum += window->segments.price[k] * (double)window->segments.cap[k];
    return sum;
}

static void move_prices(struct sp_improve_window *window, double step)
{
    for (uint32_t k = 0; k < window->segments.count; k++) {
        double price = window->segments.price[k] + step * (double)(window->segments.used[k] - window->segments.cap[k]);

        window->segments.price[k] = price > 0 ? price : 0;
    }
}

/* Subgradient steps; every round's states are a trial. Leaves the best prices in `best_price`, the bound in `bound`.
   True when nothing can be below the target. */
static bool price_window(struct sp_improver *improver, int64_t *target, uint32_t rounds, const volatile bool *stop)
{
    struct sp_improve_window *window = &improver->window;
    double best = -1e300, scale = 1.0;

    for (uint32_t round = 0; round < rounds && !(stop != NULL && *stop); round++) {
        bool fits;

        sp_window_price(improver, window->segments.price, window->own, window->priced);
        double bound = (double)sp_window_minimum(improver) - worth(window);

        if (bound > best) {
            best = bound;
            memcpy(window->segments.best_price, window->segments.price,
                   window->segments.count * sizeof *window->segments.price);
        } else {
            scale *= 0.7;
        }
        sp_window_usage(improver, window->chosen);
        double norm = overshoot(window, &fits);

        if (fits) {
            int64_t value = sp_window_cost(improver, window->chosen);

            if (value < *target) {
                accept(window, value);
                *target = value;
            }
        }
        if (best >= (double)*target || norm == 0)
            break;
        double gap = *target >= SP_CHOICE_INFINITE ? 1e-3 * (bound > 1 ? bound : 1) : (double)*target - bound;

        move_prices(window, scale * gap / norm);
    }
    window->bound = best > -1e18 ? (int64_t)best : INT64_MIN / 4;
    return best >= (double)*target;
}

/* The candidates of place i that are within what is left of the gap. */
static void rank(struct sp_improver *improver, uint32_t i, int64_t left)
{
    struct sp_improve_window *window = &improver->window;
    uint32_t first = window->first[i], size = window->size[i], count = 0;
    int64_t least = INT64_MAX;

    sp_window_values(improver, i);
    for (uint32_t s = 0; s < size; s++)
        least = window->tables.value[s] < least ? window->tables.value[s] : least;
    for (uint32_t s = 0; s < size; s++) {
        int64_t regret = window->tables.value[s] - least;

        if (regret <= left) {
            window->enumeration.ranked[first + count] = s;
            window->enumeration.regret[first + count++] = regret;
        }
    }
    window->enumeration.candidates[i] = count;
    window->enumeration.tried[i] = 0;
    improver->work += size;
}

/* Brings the candidate with least regret of those not tried to the front, and returns its index. */
static uint32_t next_candidate(struct sp_improve_window *window, uint32_t i)
{
    uint32_t first = window->first[i], at = first + window->enumeration.tried[i]++, least = at;

    for (uint32_t c = at + 1; c < first + window->enumeration.candidates[i]; c++) {
        if (window->enumeration.regret[c] < window->enumeration.regret[least])
            least = c;
    }
    int64_t regret = window->enumeration.regret[at];
    uint32_t candidate = window->enumeration.ranked[at];

    window->enumeration.regret[at] = window->enumeration.regret[least];
    window->enumeration.ranked[at] = window->enumeration.ranked[least];
    window->enumeration.regret[least] = regret;
    window->enumeration.ranked[least] = candidate;
    return at;
}

static const int64_t *usage_of(const struct sp_improver *improver, uint32_t i, uint32_t candidate)
{
    const struct sp_reduced *reduced = improver->reduced;
    const struct sp_improve_window *window = &improver->window;
    uint32_t count = window->segments.first_part[i + 1] - window->segments.first_part[i];

    return reduced->usage + reduced->first_usage[window->variable[i]] +
           (uint64_t)window->state[window->first[i] + candidate] * count;
}

/* Puts a candidate in its place when the caps allow it. */
static bool put(struct sp_improver *improver, uint32_t i, uint32_t candidate)
{
    struct sp_improve_window *window = &improver->window;
    uint32_t begin = window->segments.first_part[i], count = window->segments.first_part[i + 1] - begin;
    const int64_t *usage = usage_of(improver, i, candidate);

    for (uint32_t r = 0; r < count; r++) {
        for (uint32_t k = window->segments.from[begin + r]; usage[r] > 0 && k < window->segments.to[begin + r]; k++) {
            if (window->segments.used[k] + usage[r] > window->segments.cap[k])
                return false;
        }
        improver->work += window->segments.to[begin + r] - window->segments.from[begin + r];
    }
    for (uint32_t r = 0; r < count; r++) {
        for (uint32_t k = window->segments.from[begin + r]; usage[r] > 0 && k < window->segments.to[begin + r]; k++)
            window->segments.used[k] += usage[r];
    }
    window->chosen[i] = candidate;
    return true;
}

static void take_back(struct sp_improver *improver, uint32_t i)
{
    struct sp_improve_window *window = &improver->window;
    uint32_t begin = window->segments.first_part[i], count = window->segments.first_part[i + 1] - begin;
    const int64_t *usage = usage_of(improver, i, window->chosen[i]);

    for (uint32_t r = 0; r < count; r++) {
        for (uint32_t k = window->segments.from[begin + r]; usage[r] > 0 && k < window->segments.to[begin + r]; k++)
            window->segments.used[k] -= usage[r];
    }
}

/* Depth first, least regret first, as long as the regrets of all places are within the gap. */
static void enumerate(struct sp_improver *improver, int64_t *target, uint64_t steps)
{
    struct sp_improve_window *window = &improver->window;
    int64_t *spent = window->enumeration.spent;
    uint32_t i = 0;

    memset(window->segments.used, 0, ((size_t)window->segments.count + 1) * sizeof *window->segments.used);
    spent[0] = 0;
    rank(improver, 0, *target - 1 - window->bound);
    for (uint64_t step = 0; step < steps; step++) {
        if (window->enumeration.tried[i] == window->enumeration.candidates[i]) {
            if (i == 0)
                return;
            take_back(improver, --i);
            continue;
        }
        uint32_t at = next_candidate(window, i);

        if (spent[i] + window->enumeration.regret[at] > *target - 1 - window->bound) {
            window->enumeration.tried[i] = window->enumeration.candidates[i]; /* all others have more */
            continue;
        }
        if (!put(improver, i, window->enumeration.ranked[at]))
            continue;
        if (i + 1 == window->count) {
            int64_t value = sp_window_cost(improver, window->chosen);

            if (value < *target) {
                accept(window, value);
                *target = value;
            }
            take_back(improver, i);
            continue;
        }
        spent[i + 1] = spent[i] + window->enumeration.regret[at];
        i++;
        rank(improver, i, *target - 1 - window->bound - spent[i]);
    }
}

bool sp_window_solve(struct sp_improver *improver, int64_t target, uint32_t rounds, uint64_t steps,
                     const volatile bool *stop)
{
    struct sp_improve_window *window = &improver->window;

    window->is_improved = false;
    if (window->count == 0 || price_window(improver, &target, rounds, stop) || steps == 0 || (stop != NULL && *stop))
        return window->is_improved;
    sp_window_price(improver, window->segments.best_price, window->own, window->priced);
    (void)sp_window_minimum(improver);
    enumerate(improver, &target, steps);
    return window->is_improved;
}
