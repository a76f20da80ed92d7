#include "service/generation.h"

#include <math.h>

void sp_generation_figures(const struct sp_generation *of, struct sp_generation_figures *ret_figures)
{
    const double others = of->concurrency - 1, steps = of->output - 1;
    const double tpot = steps > 0 ? of->step_seconds + others * of->prompt_seconds / steps : 0;
    const double cycle = of->prompt_seconds + steps * tpot;
    /* With nothing but prompts the others are all ahead, or run. */
    const double prompts = cycle > 0 ? fmin(others * of->prompt_seconds / cycle, others / (others + 1)) : 0;
    const double decodes = others > 0 && steps > 0 ? 1 - prompts : 0;
    const double wait =
        (prompts * of->prompt_seconds * (1 + of->prompt_variation) + decodes * of->step_seconds) / (2 * (1 - prompts));
    const double burst = of->rounds > 0 ? others * of->prompt_seconds / (2 * of->rounds) : 0;
    const double ttft = of->request_seconds + of->prefill_seconds + wait + burst, request = ttft + steps * tpot;
    const double busy = of->prompt_seconds + steps * of->step_seconds / of->concurrency;
    const double rate = fmin(of->concurrency / request, 1 / busy);
    *ret_figures = (struct sp_generation_figures){.ttft_seconds = ttft,
                                                  .tpot_seconds = tpot,
                                                  .request_seconds = request,
                                                  .wait_seconds = wait,
                                                  .requests_per_second = rate,
                                                  .prompt_share = rate * of->prompt_seconds};
}

double sp_generation_place_seconds(double rate, double capacity)
{
    return rate < capacity ? rate / (2 * capacity * (capacity - rate)) : INFINITY;
}
