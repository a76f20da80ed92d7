/*
 * Prices: usage above the limits is paid for, and the problem with payments is relaxed by messages. Prices follow the
 * averaged slack from the best prices so far (the volume algorithm: Barahona, Anbil 2000); a pass of messages stands
 * for solving the priced problem.
 */
#include <string.h>

#include "solvers/choice/improve_internal.h"

#define AVERAGE   0.2  /* share of the last pass in the averaged slack */
#define GROWTH    1.1  /* of the step, after a better bound */
#define SHRINKING 0.93 /* of the step, after a worse one */
#define LEAST     1e-4 /* step, as a part of the gap */

void sp_improver_sum_prices(const double *price, double *before, uint32_t moments)
{
    before[0] = 0;
    for (uint32_t t = 0; t < moments; t++)
        before[t + 1] = before[t] + price[t];
}

/* Steps from the best prices along the averaged slack; `gap` is how much the bound would rise if it were linear. */
static void move_prices(struct sp_improver *improver, double gap, double share)
{
    uint32_t moments = improver->reduced->moment_count;
    double norm = 0;

    for (uint32_t t = 0; t < moments; t++) {
        improver->prices.mean[t] = share * (double)improver->dense[t] + (1 - share) * improver->prices.mean[t];
        if (improver->prices.mean[t] < 0 || improver->prices.now[t] > 0)
            norm += improver->prices.mean[t] * improver->prices.mean[t];
    }
    double step = norm > 0 ? gap / norm : 0;

    for (uint32_t t = 0; t < moments; t++) {
        double price = improver->prices.best[t] - step * improver->prices.mean[t];

        improver->prices.now[t] = price > 0 ? price : 0;
    }
    sp_improver_sum_prices(improver->prices.now, improver->prices.before, moments);
}

/* What all limits are worth at the prices. */
static double worth(const struct sp_improver *improver)
{
    double sum = 0;

    for (uint32_t t = 0; t < improver->reduced->moment_count; t++)
        sum += improver->prices.now[t] * (double)improver->reduced->limit[t];
    return sum;
}

void sp_improver_relax(struct sp_improver *improver, const volatile bool *stop)
{
    const struct sp_reduced *reduced = improver->reduced;

    sp_messages_price(improver);
    sp_messages_pass(improver, true, stop);
    memcpy(improver->states, improver->messages.states, reduced->variable_count * sizeof *improver->states);
    sp_improver_refresh(improver);
    sp_improver_remember(improver);
    double bound = sp_messages_pass(improver, false, stop) - worth(improver);

    if (stop != NULL && *stop) /* not a whole pass: no bound */
        return;
    if (improver->prices.passes == 0 || bound > improver->prices.bound) {
        improver->prices.bound = bound;
        memcpy(improver->prices.best, improver->prices.now, reduced->moment_count * sizeof *improver->prices.now);
        improver->prices.part = improver->prices.part < 1 ? improver->prices.part * GROWTH : improver->prices.part;
    } else {
        improver->prices.part = improver->prices.part * SHRINKING > LEAST ? improver->prices.part * SHRINKING : LEAST;
    }
    /* Towards the best that is known, but not by more than a twentieth: a poor one would mean wild steps. */
    double most = 0.05 * (improver->prices.bound > 0 ? improver->prices.bound : -improver->prices.bound) +
                  1e-4 * improver->prices.spread;
    double gap = (double)improver->best_cost - improver->prices.bound;

    if (improver->best_over > 0 || improver->best_infinite > 0 || gap > most)
        gap = most;
    move_prices(improver, improver->prices.part * gap, improver->prices.passes == 0 ? 1 : AVERAGE);
    improver->prices.passes++;
    improver->work += 4 * (uint64_t)reduced->moment_count;
}

/* States for prices that are off on a random stretch of time, and of messages that have just seen them. */
void sp_improver_disturb(struct sp_improver *improver, uint32_t passes, const volatile bool *stop)
{
    uint32_t moments = improver->reduced->moment_count;

    memcpy(improver->prices.now, improver->prices.best, moments * sizeof *improver->prices.now);
    if (moments > 0) {
        uint32_t a = sp_random_below(&improver->random, moments), b = sp_random_below(&improver->random, moments);
        double factor = 0.5 + (double)sp_random_below(&improver->random, 1001) / 667.0;

        for (uint32_t t = a < b ? a : b; t <= (a < b ? b : a); t++)
            improver->prices.now[t] *= factor;
    }
    sp_improver_sum_prices(improver->prices.now, improver->prices.before, moments);
    sp_messages_price(improver);
    for (uint32_t pass = 0; pass < passes; pass++) {
        sp_messages_pass(improver, false, stop);
        sp_messages_pass(improver, true, stop);
    }
    memcpy(improver->prices.now, improver->prices.best, moments * sizeof *improver->prices.now);
    sp_improver_sum_prices(improver->prices.now, improver->prices.before, moments);
}
