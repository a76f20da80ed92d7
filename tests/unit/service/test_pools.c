/* Services on pools of their own: the formula against events, and events against queues whose waits are known. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "service/pools.h"
#include "service/requests.h"
#include "service/simulate_pools.h"

enum { COUNT = 40000 };

static const struct sp_step_time steps[] = {{1, 100, 0.01, 0}, {16, 100, 0.015, 0}, {64, 100, 0.03, 0}};
static const struct sp_step_times table = {0, 3, NULL, steps};
static const struct sp_pools pools = {.output = 50,
                                      .prompt_seconds = 0.05,
                                      .prefill_seconds = 0.08,
                                      .transfer_seconds = 0.02,
                                      .prompt_copies = 2,
                                      .step_copies = 2,
                                      .steps = &table,
                                      .past = 100,
                                      .places = 64};

struct seen {
    double ttft, tpot, prompt;
};

static struct seen simulate(const struct sp_pools *of, double rate)
{
    struct sp_trace_request *drawn = calloc(COUNT, sizeof *drawn);
    struct sp_simulated_request *requests = calloc(COUNT, sizeof *requests);
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_simulated simulated;
    struct seen seen = {0};
    const struct sp_request_source source = {rate, {.mean = 100}, {.mean = of->output}, 5};
    cr_assert(drawn != NULL && requests != NULL && arena != NULL);
    sp_draw_requests(&source, COUNT, drawn);
    for (uint32_t i = 0; i < COUNT; i++)
        requests[i] = (struct sp_simulated_request){drawn[i].seconds, 100, drawn[i].output, of->prefill_seconds,
                                                    of->prompt_seconds};
    const struct sp_pools_simulation simulation = {.of = {.times = of->steps,
                                                          .copies = of->step_copies,
                                                          .places = of->places,
                                                          .balance = SP_BALANCE_RANDOM,
                                                          .request_count = COUNT,
                                                          .requests = requests,
                                                          .first = COUNT / 10,
                                                          .count = COUNT / 10 * 8},
                                                   .prompt_copies = of->prompt_copies,
                                                   .transfer_seconds = of->transfer_seconds,
                                                   .transfer_input = 100};
    cr_assert_eq(sp_simulate_pools(arena, &simulation, &simulated, NULL), SP_OK);
    for (uint32_t i = 0; i < simulation.of.count; i++) {
        const struct sp_simulated_times *times = &simulated.times[i];
        cr_assert_geq(times->first, times->prompt + of->prefill_seconds + of->transfer_seconds - 1e-9);
        cr_assert_geq(times->end, times->first);
        seen.prompt += times->prompt / simulation.of.count;
        seen.ttft += times->first / simulation.of.count;
        if (of->output > 1)
            seen.tpot += (times->end - times->first) / (of->output - 1) / simulation.of.count;
    }
    free(drawn);
    free(requests);
    sp_arena_destroy(arena);
    return seen;
}

Test(pools, are_near_events_below_a_load_of_four_fifths)
{
    for (double load = 0.1; load < 0.8; load += 0.2) {
        const double rate = load * sp_pools_capacity(&pools);
        const struct seen seen = simulate(&pools, rate);
        struct sp_pools_figures figures;
        sp_pools_figures(&pools, rate, &figures);
        cr_expect_float_eq(figures.all.ttft_seconds / seen.ttft, 1, 0.1, "load %g: TTFT %g, simulated %g", load,
                           figures.all.ttft_seconds, seen.ttft);
        cr_expect_float_eq(figures.all.tpot_seconds / seen.tpot, 1, 0.1, "load %g: TPOT %g, simulated %g", load,
                           figures.all.tpot_seconds, seen.tpot);
    }
}

/* One token: the queue of one server at each of the copies for prompts. */
Test(pools, of_prompts_alone_are_queues_of_one_server)
{
    struct sp_pools alone = pools;
    alone.output = 1;
    alone.transfer_seconds = 0;
    cr_expect_float_eq(sp_pools_capacity(&alone), 40, 1e-9);
    const struct seen seen = simulate(&alone, 28);
    cr_expect_float_eq(seen.prompt / (0.7 * 0.05 / (2 * 0.3)), 1, 0.1, "%g", seen.prompt);
}

Test(pools, serve_what_the_slowest_part_does)
{
    struct sp_pools of = pools;
    const double by_steps = 2 * 64 / (49 * 0.03);
    cr_expect_float_eq(sp_pools_capacity(&of), 40, 1e-9);
    of.prompt_copies = 10;
    cr_expect_float_eq(sp_pools_capacity(&of), by_steps, 1e-9);
    of.transfer_seconds = 0.1;
    cr_expect_float_eq(sp_pools_capacity(&of), 20, 1e-9);
    struct sp_pools_figures figures;
    sp_pools_figures(&of, 20, &figures);
    cr_expect(isinf(figures.all.ttft_seconds));
    const double rate = sp_pools_closed_rate(&of, 12);
    sp_pools_figures(&of, rate, &figures);
    cr_expect_float_eq(figures.all.in_flight, 12, 1e-6);
}
