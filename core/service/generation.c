#include "service/generation.h"

#include <math.h>

/* What other requests do to one. */
struct others {
    double tpot, prompts, wait; /* TPOT, u, W */
};

/* W, with the shares of the time that prefills of others and decode steps take. */
static double wait_of(const struct sp_generation *of, double prompts, double decodes)
{
    const double running = prompts * of->prompt_seconds * (1 + of->prompt_variation) + decodes * of->step_seconds;
    return running / (2 * (1 - prompts));
}

static struct others closed_loop(const struct sp_generation *of)
{
    const double others = of->concurrency - 1, steps = of->output - 1;
    const double tpot = steps > 0 ? of->step_seconds + others * of->prompt_seconds / steps : 0;
    const double cycle = of->prompt_seconds + steps * tpot;
    /* With nothing but prompts the others are all ahead, or run. */
    const double prompts = cycle > 0 ? fmin(others * of->prompt_seconds / cycle, others / (others + 1)) : 0;
    return (struct others){tpot, prompts, wait_of(of, prompts, others > 0 && steps > 0 ? 1 - prompts : 0)};
}

static struct others open_loop(const struct sp_generation *of)
{
    const double steps = of->output - 1, prompts = of->rate * of->prompt_seconds;
    if (prompts >= 1)
        return (struct others){INFINITY, 1, INFINITY};
    const double step = of->step_seconds / (1 - prompts);
    const double wait = wait_of(of, prompts, (1 - prompts) * -expm1(-of->rate * steps * step));
    const double behind = steps > 0 ? prompts * (wait + of->prompt_seconds) / ((1 - prompts) * steps) : 0;
    return (struct others){steps > 0 ? step + behind : 0, prompts, wait};
}

void sp_generation_figures(const struct sp_generation *of, struct sp_generation_figures *ret_figures)
{
    const double steps = of->output - 1;
    const struct others others = of->rate > 0 ? open_loop(of) : closed_loop(of);
    const double burst = of->rounds > 0 ? (of->concurrency - 1) * of->prompt_seconds / (2 * of->rounds) : 0;
    const double ttft = of->request_seconds + of->prefill_seconds + others.wait + burst;
    const double request = ttft + (steps > 0 ? steps * others.tpot : 0);
    const double busy = of->prompt_seconds + steps * of->step_seconds / of->concurrency;
    const double served = of->rate > 0 ? of->rate : fmin(of->concurrency / request, 1 / busy);
    *ret_figures = (struct sp_generation_figures){.ttft_seconds = ttft,
                                                  .tpot_seconds = others.tpot,
                                                  .request_seconds = request,
                                                  .wait_seconds = others.wait,
                                                  .requests_per_second = served,
                                                  .in_flight = of->rate > 0 ? of->rate * request : of->concurrency,
                                                  .prompt_share = served * of->prompt_seconds};
}

/* Chances below it, of numbers that become less likely still, add nothing. */
#define NEGLIGIBLE 1e-15

double sp_generation_place_seconds(double rate, double capacity, double in_flight, double places)
{
    const double load = rate / capacity;
    if (!(load < 1))
        return INFINITY;
    const double power = in_flight < places ? fmin(fmax(log(load) / log(in_flight / places), 0), 1) : 1;
    double chance = 1, sum = 1 / (1 - load); /* over that of all places taken, and no request waiting */
    for (double n = places; n >= 1 && isfinite(sum); n--) {
        const double ratio = pow(n / places, power) / load;
        chance *= ratio;
        sum += chance;
        if (ratio < 1 && chance < NEGLIGIBLE * sum)
            break;
    }
    return load / ((1 - load) * (1 - load)) / sum / (2 * rate);
}
