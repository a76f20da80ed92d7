#include "service/open_loop.h"

#include <math.h>

#include "service/birth_death.h"

static double served(const struct sp_generation *of, double step, double sequences)
{
    return 1 / (of->prompt_seconds + (of->output - 1) * step / sequences);
}

struct stepping {
    const struct sp_generation *of;
    const struct sp_step_times *times;
    double past;
};

static struct sp_in_flight flow_of(const void *context, uint32_t sequences)
{
    const struct stepping *at = context;
    const double step = sp_step_seconds(at->times, sequences, at->past);
    return (struct sp_in_flight){served(at->of, step, sequences), step};
}

void sp_open_loop_figures(const struct sp_generation *of, const struct sp_step_times *times, double past,
                          uint32_t places, struct sp_generation_figures *ret_figures)
{
    const double most = served(of, sp_step_seconds(times, places, past), places);
    const double prompts = of->rate * of->prompt_seconds, steps = of->output - 1;
    if (!(of->rate < most)) {
        *ret_figures = (struct sp_generation_figures){INFINITY, INFINITY, INFINITY, INFINITY, most, INFINITY, prompts};
        return;
    }
    const struct stepping stepping = {of, times, past};
    const struct sp_in_flight_sums sums = sp_birth_death_sums(of->rate, places, flow_of, &stepping);
    const double some = sums.all - sums.none;
    const double decodes = steps > 0 ? fmax(1 - prompts - sums.none / sums.all, 0) : 0;
    const double step = some > 0 ? sums.steps / some : 0;
    const double place = sums.beyond / sums.all / of->rate;
    const double running =
        (prompts * of->prompt_seconds * (1 + of->prompt_variation) + decodes * step) / (2 * (1 - prompts));
    const double whole = sums.requests / sums.all / of->rate;
    const double tpot = steps > 0 ? fmax(whole - of->prompt_seconds - running - place, 0) / steps : 0;
    const double ttft = of->request_seconds + of->prefill_seconds + running + place;
    *ret_figures = (struct sp_generation_figures){.ttft_seconds = ttft,
                                                  .tpot_seconds = tpot,
                                                  .request_seconds = ttft + steps * tpot,
                                                  .wait_seconds = running + place,
                                                  .requests_per_second = of->rate,
                                                  .in_flight = of->rate * (ttft + steps * tpot),
                                                  .prompt_share = prompts};
}
