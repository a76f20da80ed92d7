#include "service/pools.h"

#include <math.h>

#define HALVINGS 40

static double smaller_pool(const struct sp_pools *pools)
{
    return fmin(pools->prompt_copies, pools->step_copies);
}

double sp_pools_capacity(const struct sp_pools *pools)
{
    const double steps = pools->output - 1;
    double most = pools->prompt_copies / pools->prompt_seconds;
    if (pools->transfer_seconds > 0)
        most = fmin(most, smaller_pool(pools) / pools->transfer_seconds);
    if (steps > 0)
        most = fmin(most, pools->step_copies * (double)pools->places /
                              (steps * sp_step_seconds(pools->steps, pools->places, pools->past)));
    return most;
}

/* The mean wait for one server at `rate`, whose services take so long with this variation. */
static double wait_for_one(double rate, double seconds, double variation)
{
    const double load = rate * seconds;
    return load < 1 ? load * seconds * (1 + variation) / (2 * (1 - load)) : INFINITY;
}

void sp_pools_figures(const struct sp_pools *pools, double rate, struct sp_pools_figures *ret_figures)
{
    const double steps = pools->output - 1, capacity = sp_pools_capacity(pools);
    const struct sp_generation of_steps = {.output = pools->output, .rate = rate / pools->step_copies};
    struct sp_generation_figures decode = {0};
    if (!(rate < capacity)) {
        *ret_figures = (struct sp_pools_figures){
            .all = {INFINITY, INFINITY, INFINITY, INFINITY, capacity, INFINITY, 1}, .link_share = 1, .place_share = 1};
        return;
    }
    if (steps > 0)
        sp_open_loop_figures(&of_steps, pools->steps, pools->past, pools->places, &decode);
    const double of_links = rate / smaller_pool(pools);
    const double wait = wait_for_one(rate / pools->prompt_copies, pools->prompt_seconds, pools->prompt_variation) +
                        wait_for_one(of_links, pools->transfer_seconds, 0);
    const double ttft = pools->request_seconds + wait + pools->prefill_seconds + pools->transfer_seconds;
    const double request = ttft + decode.request_seconds;
    *ret_figures =
        (struct sp_pools_figures){.all = {.ttft_seconds = ttft,
                                          .tpot_seconds = steps > 0 ? decode.request_seconds / steps : 0,
                                          .request_seconds = request,
                                          .wait_seconds = wait,
                                          .requests_per_second = rate,
                                          .in_flight = rate * request,
                                          .prompt_share = rate * pools->prompt_seconds / pools->prompt_copies},
                                  .link_share = of_links * pools->transfer_seconds,
                                  .place_share = of_steps.rate * decode.request_seconds / pools->places};
}

double sp_pools_closed_rate(const struct sp_pools *pools, double in_flight)
{
    double low = 0, high = sp_pools_capacity(pools);
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        struct sp_pools_figures figures;
        sp_pools_figures(pools, middle, &figures);
        if (figures.all.in_flight > in_flight)
            high = middle;
        else
            low = middle;
    }
    return low;
}
