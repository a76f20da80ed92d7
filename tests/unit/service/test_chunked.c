/* Chunked prefill: steps with chunks, their events against a second simulation, and the mean field against the events. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "service/chunked.h"
#include "service/requests.h"
#include "service/simulation.h"

static const struct sp_prompt_time prompts[] = {{1, 0.01, 0.01}};
static const struct sp_step_time steps[] = {{1, 100, 0.01, 1e-7}, {64, 100, 0.016, 2e-6}};

/* A roofline: 10 ms for the weights, or 0.05 ms for each position; attention beside it. */
static const struct sp_chunk_time chunks[] = {{1, 0.01, 0.01, 1e-8}, {200, 0.01, 0.01, 2e-6}, {2000, 0.1, 0.1, 2e-5}};

static struct sp_step_times times_with(double chunk)
{
    return (struct sp_step_times){1, 2, prompts, steps, chunk, 3, chunks};
}

/* ---- steps -------------------------------------------------------------------------------------------------------- */

Test(mixed_step, shares_the_weights_and_nothing_else)
{
    const struct sp_step_times times = times_with(512);
    /* 8 sequences and 100 positions read the weights once: what is left of the sequences is what their caches cost. */
    struct sp_mixed_step step = {8, 100, 100, 0};
    const double decode = sp_step_seconds(&times, 8, 100);
    cr_expect_float_eq(sp_mixed_seconds(&times, &step), decode, 1e-12);
    /* Behind 1000 others the chunk's attention comes to that. */
    step.chunk_past = 1000;
    const double slope = 1e-8 + (2e-6 - 1e-8) * 99 / 199;
    cr_expect_float_eq(sp_mixed_seconds(&times, &step), decode + 1000 * slope, 1e-12);
    /* Where products are bound by arithmetic, sequences take as long as so many positions, and their caches. */
    step = (struct sp_mixed_step){8, 100, 1000, 0};
    cr_expect_float_eq(sp_mixed_seconds(&times, &step), 1008 * 5e-5 + decode - 0.01, 1e-12);
    /* A chunk alone; and half of the steps with a sequence. */
    step.sequences = 0;
    const double alone = sp_mixed_seconds(&times, &step);
    cr_expect_float_eq(alone, 0.05, 1e-12);
    step.sequences = 1;
    const double one = sp_mixed_seconds(&times, &step);
    step.sequences = 0.5;
    cr_expect_float_eq(sp_mixed_seconds(&times, &step), (alone + one) / 2, 1e-12);
}

Test(mixed_step, is_between_the_longer_part_and_both)
{
    const struct sp_step_times times = times_with(512);
    for (double n = 1; n < 300; n *= 1.7) {
        for (double c = 1; c < 4000; c *= 1.9) {
            for (double k = 0; k < 9000; k += 3000) {
                struct sp_mixed_step step = {0, 500, c, k};
                const double chunk = sp_mixed_seconds(&times, &step), decode = sp_step_seconds(&times, n, 500);
                step.sequences = n;
                const double both = sp_mixed_seconds(&times, &step);
                cr_expect_geq(both, fmax(chunk, decode) - 1e-12, "%g %g %g", n, c, k);
                cr_expect_leq(both, chunk + decode + 1e-12, "%g %g %g", n, c, k);
            }
        }
    }
}

/* ---- a second simulation, of one copy, step by step ---------------------------------------------------------------- */

enum { MOST = 400 };

struct slow {
    const struct sp_simulation *of;
    double done[MOST];     /* positions of the prompt */
    uint32_t tokens[MOST]; /* that are there */
    bool is_in[MOST], has_come[MOST], has_ended[MOST];
    double came[MOST], prompt[MOST], first[MOST], end[MOST];
    uint32_t come;
};

static void slow_come(struct slow *s, double at)
{
    s->has_come[s->come] = true;
    s->came[s->come++] = at;
}

static bool is_next_prompt(const struct slow *s, uint32_t i)
{
    return s->has_come[i] && s->tokens[i] == 0 && s->done[i] < s->of->requests[i].positions;
}

/* One step from `now` on; its end, or `now` where there is nothing to do. */
static double slow_step(struct slow *s, double now)
{
    const struct sp_simulation *of = s->of;
    double part[MOST] = {0}, left = of->times->chunk, past = 0, cached = 0;
    bool steps_now[MOST] = {false};
    uint32_t inside = 0, live = 0;
    for (uint32_t i = 0; i < of->request_count; i++) {
        inside += s->is_in[i];
        steps_now[i] = s->tokens[i] > 0 && !s->has_ended[i];
        live += steps_now[i];
        cached += steps_now[i] ? of->requests[i].input + s->tokens[i] - 1 : 0;
    }
    for (uint32_t i = 0; i < of->request_count && left > 0; i++) {
        if (!is_next_prompt(s, i) || (!s->is_in[i] && inside == of->places))
            continue;
        if (!s->is_in[i]) {
            inside++;
            s->prompt[i] = now - s->came[i];
        }
        s->is_in[i] = true;
        part[i] = fmin(left, of->requests[i].positions - s->done[i]);
        past += part[i] * (of->requests[i].input - of->requests[i].positions + s->done[i]);
        left -= part[i];
    }
    const double positions = of->times->chunk - left;
    if (live == 0 && positions <= 0)
        return now;
    const struct sp_mixed_step step = {live, live > 0 ? cached / live : 0, positions,
                                       positions > 0 ? past / positions : 0};
    const double end =
        now + (positions > 0 ? sp_mixed_seconds(of->times, &step) : sp_step_seconds(of->times, live, step.past));
    for (uint32_t i = 0; i < of->request_count; i++) {
        s->done[i] += part[i];
        const bool is_first = part[i] > 0 && s->done[i] >= of->requests[i].positions;
        if (is_first)
            s->first[i] = end - s->came[i];
        s->tokens[i] += steps_now[i] || is_first;
        if ((steps_now[i] || is_first) && s->tokens[i] == of->requests[i].output) {
            s->has_ended[i] = true;
            s->is_in[i] = false;
            s->end[i] = end - s->came[i];
        }
    }
    return end;
}

static uint32_t count_ended(const struct slow *s)
{
    uint32_t ended = 0;
    for (uint32_t i = 0; i < s->of->request_count; i++)
        ended += s->has_ended[i];
    return ended;
}

static void slow_simulate(struct slow *s)
{
    const struct sp_simulation *of = s->of;
    double now = 0;
    while (count_ended(s) < of->request_count) {
        if (of->closed_loop > 0) {
            while (s->come < of->request_count && s->come - count_ended(s) < of->closed_loop)
                slow_come(s, now);
        } else {
            while (s->come < of->request_count && of->requests[s->come].arrival <= now)
                slow_come(s, of->requests[s->come].arrival);
        }
        const double end = slow_step(s, now);
        now = end > now ? end : of->requests[s->come].arrival;
    }
}

Test(chunked_simulation, is_what_looking_at_every_request_in_every_step_says)
{
    static struct sp_trace_request drawn[MOST];
    static struct sp_simulated_request requests[MOST];
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t random = seed;
        const double prefix = seed % 3 == 0 ? 40 : 0;
        const struct sp_step_times times = times_with(1 + sp_random_below(&random, 600));
        const struct sp_request_source source = {
            .rate = 1 + 40 * sp_random_fraction(&random),
            .input = {.mean = 60 + 800 * sp_random_fraction(&random), .variation = sp_random_fraction(&random)},
            .output = {.mean = 1 + 30 * sp_random_fraction(&random), .variation = sp_random_fraction(&random)},
            .seed = seed};
        sp_draw_requests(&source, MOST, drawn);
        for (uint32_t i = 0; i < MOST; i++)
            requests[i] = (struct sp_simulated_request){.arrival = drawn[i].seconds,
                                                        .input = drawn[i].input,
                                                        .output = drawn[i].output,
                                                        .positions = fmax(drawn[i].input - prefix, 1)};
        const struct sp_simulation simulation = {.times = &times,
                                                 .copies = 1,
                                                 .places = 1 + sp_random_below(&random, 20),
                                                 .closed_loop = seed % 2 == 0 ? 1 + sp_random_below(&random, 30) : 0,
                                                 .request_count = MOST,
                                                 .requests = requests,
                                                 .count = MOST};
        struct sp_arena *arena = sp_arena_create(NULL);
        struct slow *slow = calloc(1, sizeof *slow);
        struct sp_simulated seen;
        cr_assert(arena != NULL && slow != NULL);
        slow->of = &simulation;
        cr_assert_eq(sp_simulate(arena, &simulation, &seen, NULL), SP_OK);
        slow_simulate(slow);
        for (uint32_t i = 0; i < MOST; i++) {
            const struct sp_simulated_times *at = &seen.times[i];
            cr_assert_float_eq(at->prompt, slow->prompt[i], 1e-7, "seed %lu: request %u waits %g, %g", seed, i,
                               at->prompt, slow->prompt[i]);
            cr_assert_float_eq(at->first, slow->first[i], 1e-7, "seed %lu: request %u: first after %g, %g", seed, i,
                               at->first, slow->first[i]);
            cr_assert_float_eq(at->end, slow->end[i], 1e-7, "seed %lu: request %u ends after %g, %g", seed, i, at->end,
                               slow->end[i]);
        }
        free(slow);
        sp_arena_destroy(arena);
    }
}

/* ---- the mean field ------------------------------------------------------------------------------------------------ */

enum { COUNT = 40000 };

struct service {
    double positions, output, variation, chunk; /* variation: of prompts; outputs vary */
};

static const struct service services[] = {
    {400, 40, 0, 512},  {2000, 100, 0, 512}, {2000, 100, 0, 2048}, {1000, 200, 0.6, 512},
    {150, 60, 0, 1024}, {300, 8, 0, 256},    {4000, 50, 0, 1024},
};

/* Means of events: TTFT, TPOT, of requests that come at this rate, or so many at any time. */
static void simulate(const struct service *service, double rate, uint32_t closed, double means[2])
{
    static struct sp_trace_request drawn[COUNT];
    static struct sp_simulated_request requests[COUNT];
    const struct sp_step_times times = times_with(service->chunk);
    const struct sp_request_source source = {rate,
                                             {.mean = service->positions, .variation = service->variation},
                                             {.mean = service->output, .variation = 0.5},
                                             7};
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_simulated seen;
    double count[2] = {0};
    sp_draw_requests(&source, COUNT, drawn);
    for (uint32_t i = 0; i < COUNT; i++)
        requests[i] = (struct sp_simulated_request){.arrival = drawn[i].seconds,
                                                    .input = drawn[i].input,
                                                    .output = drawn[i].output,
                                                    .positions = drawn[i].input};
    const struct sp_simulation simulation = {.times = &times,
                                             .copies = 1,
                                             .places = closed > 0 ? closed : 64,
                                             .closed_loop = closed,
                                             .request_count = COUNT,
                                             .requests = requests,
                                             .first = COUNT / 10,
                                             .count = COUNT / 10 * 8};
    cr_assert_eq(sp_simulate(arena, &simulation, &seen, NULL), SP_OK);
    means[0] = means[1] = 0;
    for (uint32_t i = 0; i < simulation.count; i++) {
        const uint32_t output = requests[simulation.first + i].output;
        means[0] += seen.times[i].first;
        count[0]++;
        if (output > 1) {
            means[1] += (seen.times[i].end - seen.times[i].first) / (output - 1);
            count[1]++;
        }
    }
    means[0] /= count[0];
    means[1] /= count[1];
    sp_arena_destroy(arena);
}

static struct sp_generation generation_of(const struct service *service)
{
    return (struct sp_generation){.concurrency = 64, .output = service->output, .prompt_variation = service->variation};
}

Test(chunked, is_near_the_events_below_a_load_of_four_fifths)
{
    for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
        const struct service *service = &services[i];
        const struct sp_step_times times = times_with(service->chunk);
        const struct sp_chunked chunked = {&times, service->positions, 0, service->positions + 0.75 * service->output};
        struct sp_generation of = generation_of(service);
        struct sp_generation_figures most, formula;
        sp_chunked_figures(&of, &chunked, &most);
        for (double load = 0.1; load < 0.8; load += 0.3) {
            double means[2];
            of.rate = load * most.requests_per_second;
            sp_chunked_open_loop_figures(&of, &chunked, 64, &formula);
            simulate(service, of.rate, 0, means);
            cr_expect_float_eq(formula.ttft_seconds / means[0], 1, 0.1, "service %zu, load %g: TTFT %g, %g", i, load,
                               formula.ttft_seconds, means[0]);
            cr_expect_float_eq(formula.tpot_seconds / means[1], 1, 0.1, "service %zu, load %g: TPOT %g, %g", i, load,
                               formula.tpot_seconds, means[1]);
        }
    }
}

Test(chunked, of_a_closed_loop_is_near_the_events)
{
    for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
        const struct service *service = &services[i];
        const struct sp_step_times times = times_with(service->chunk);
        const struct sp_chunked chunked = {&times, service->positions, 0, service->positions + 0.75 * service->output};
        struct sp_generation of = generation_of(service);
        struct sp_generation_figures formula;
        for (uint32_t sequences = 1; sequences <= 64; sequences *= 4) {
            double means[2];
            of.concurrency = sequences;
            sp_chunked_figures(&of, &chunked, &formula);
            simulate(service, 0, sequences, means);
            cr_expect_float_eq(formula.ttft_seconds / means[0], 1, 0.16, "service %zu, %u sequences: TTFT %g, %g", i,
                               sequences, formula.ttft_seconds, means[0]);
            cr_expect_float_eq(formula.tpot_seconds / means[1], 1, 0.1, "service %zu, %u sequences: TPOT %g, %g", i,
                               sequences, formula.tpot_seconds, means[1]);
        }
    }
}
