#include "service/open_loop.h"

#include <math.h>

#define LARGE      1e200 /* sums are scaled down beyond it */
#define NEGLIGIBLE 1e-15 /* of what was added up, once chances become less */

/* Sums over the chances of so many requests in flight, up to a common factor. */
struct sums {
    double all, none; /* of q(n); of q(0) */
    double requests;  /* n q(n) */
    double steps;     /* s(n) q(n), of n of 1 or more */
    double beyond;    /* (n - K) q(n) */
};

static double served(const struct sp_generation *of, double step, double sequences)
{
    return 1 / (of->prompt_seconds + (of->output - 1) * step / sequences);
}

static void scale(struct sums *sums, double by)
{
    sums->all *= by;
    sums->none *= by;
    sums->requests *= by;
    sums->steps *= by;
}

static struct sums add_up(const struct sp_generation *of, const struct sp_step_times *times, double past,
                          uint32_t places)
{
    struct sums sums = {.all = 1, .none = 1};
    double chance = 1, load = 0, step = 0;
    for (uint32_t n = 1; n <= places; n++) {
        step = sp_step_seconds(times, n, past);
        load = of->rate / served(of, step, n);
        chance *= load;
        sums.all += chance;
        sums.requests += n * chance;
        sums.steps += step * chance;
        if (load < 1 && chance < NEGLIGIBLE * sums.all)
            return sums;
        if (chance > LARGE) {
            scale(&sums, 1 / LARGE);
            chance /= LARGE;
        }
    }
    /* Behind the last place chances are a geometric series. */
    const double behind = chance * load / (1 - load);
    sums.beyond = behind / (1 - load);
    sums.all += behind;
    sums.requests += places * behind + sums.beyond;
    sums.steps += step * behind;
    return sums;
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
    const struct sums sums = add_up(of, times, past, places);
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
