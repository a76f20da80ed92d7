/* The simulation of services against a second one that looks at every request at every moment, and against queues whose
   waits are known. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "service/open_loop.h"
#include "service/requests.h"
#include "service/simulation.h"

static const struct sp_prompt_time prompts[] = {{1, 0.01, 0.01}, {100, 0.04, 0.03}, {200, 0.1, 0.08}};
static const struct sp_step_time steps[] = {{1, 100, 0.01, 1e-5}, {4, 100, 0.012, 2e-5}, {16, 100, 0.02, 5e-5}};
static const struct sp_step_times times = {3, 3, prompts, steps};

/* ---- tables ------------------------------------------------------------------------------------------------------ */

Test(step_times, are_linear_between_rows_and_beyond_the_last)
{
    double latency, interval;
    const double cases[][3] = {
        {0, 0.01, 0.01}, {1, 0.01, 0.01}, {100, 0.04, 0.03}, {150, 0.07, 0.055}, {300, 0.16, 0.13}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sp_prompt_seconds(&times, cases[i][0], &latency, &interval);
        cr_expect_float_eq(latency, cases[i][1], 1e-12, "%g: %g", cases[i][0], latency);
        cr_expect_float_eq(interval, cases[i][2], 1e-12, "%g: %g", cases[i][0], interval);
    }
    cr_expect_float_eq(sp_step_seconds(&times, 1, 100), 0.01, 1e-12);
    cr_expect_float_eq(sp_step_seconds(&times, 1, 200), 0.011, 1e-12);
    cr_expect_float_eq(sp_step_seconds(&times, 10, 100), 0.016, 1e-12);
    cr_expect_float_eq(sp_step_seconds(&times, 10, 300), 0.016 + 200 * 3.5e-5, 1e-12);
    cr_expect_float_eq(sp_step_seconds(&times, 28, 100), 0.028, 1e-12);
    cr_expect_gt(sp_step_seconds(&times, 16, 0), 0);
}

/* ---- a second simulation ----------------------------------------------------------------------------------------- */

enum { MOST_REQUESTS = 400, MOST_COPIES = 3 };

enum place { NOT_THERE, WAITS, HAS_PROMPT, DECODES, ENDED };

struct slow {
    const struct sp_simulation *of;
    double now, free_at[MOST_COPIES]; /* until when it is busy */
    double wake_at[MOST_COPIES];      /* where it is not: when a token is there, or INFINITY */
    bool steps[MOST_COPIES];          /* what it is busy with */
    enum place place[MOST_REQUESTS];
    uint32_t copy[MOST_REQUESTS], made[MOST_REQUESTS];
    double came[MOST_REQUESTS], ready[MOST_REQUESTS];
    bool takes_part[MOST_REQUESTS]; /* in the step that runs */
    struct sp_simulated_times seen[MOST_REQUESTS];
    uint32_t arrived, ended;
};

static uint32_t count_on(const struct slow *s, uint32_t copy, enum place from, enum place to)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->of->request_count; i++)
        count += s->copy[i] == copy && s->place[i] >= from && s->place[i] <= to;
    return count;
}

static void slow_arrive(struct slow *s, double at)
{
    const uint32_t request = s->arrived++;
    uint32_t best = 0;
    for (uint32_t c = 1; c < s->of->copies; c++)
        best = count_on(s, c, WAITS, DECODES) < count_on(s, best, WAITS, DECODES) ? c : best;
    s->copy[request] = best;
    s->came[request] = at;
    s->place[request] = WAITS;
}

static void slow_end(struct slow *s, uint32_t request, double at)
{
    s->place[request] = ENDED;
    s->seen[request].end = at - s->came[request];
    s->ended++;
    if (s->of->closed_loop > 0 && s->arrived < s->of->request_count)
        slow_arrive(s, at);
}

/* Those that get a token of the step that ends on this copy, the one that would have ended first in front. */
static void slow_step(struct slow *s, uint32_t copy)
{
    s->steps[copy] = false;
    for (uint32_t i = 0; i < s->of->request_count; i++) {
        if (s->copy[i] != copy || !s->takes_part[i])
            continue;
        s->takes_part[i] = false;
        if (++s->made[i] == s->of->requests[i].output)
            slow_end(s, i, s->now);
    }
}

static void slow_decide(struct slow *s, uint32_t copy)
{
    uint32_t live = 0;
    double past = 0, wake = INFINITY;
    for (uint32_t i = 0; i < s->of->request_count; i++) {
        if (s->copy[i] != copy || s->place[i] != HAS_PROMPT || s->ready[i] > s->now)
            continue;
        s->place[i] = DECODES;
        if (s->of->requests[i].output == 1)
            slow_end(s, i, s->ready[i]);
    }
    for (uint32_t i = 0; i < s->of->request_count; i++) {
        const struct sp_simulated_request *request = &s->of->requests[i];
        if (s->copy[i] != copy || s->place[i] != WAITS || count_on(s, copy, HAS_PROMPT, DECODES) >= s->of->places)
            continue;
        s->place[i] = HAS_PROMPT;
        s->made[i] = 1;
        s->ready[i] = s->now + request->latency_seconds;
        s->seen[i].prompt = s->now - s->came[i];
        s->seen[i].first = s->ready[i] - s->came[i];
        s->free_at[copy] = s->now + request->interval_seconds;
        return;
    }
    for (uint32_t i = 0; i < s->of->request_count; i++) {
        if (s->copy[i] != copy)
            continue;
        if (s->place[i] == DECODES) {
            live++;
            past += s->of->requests[i].input + s->made[i] - 1;
            s->takes_part[i] = true;
        }
        if (s->place[i] == HAS_PROMPT)
            wake = fmin(wake, s->ready[i]);
    }
    s->steps[copy] = live > 0;
    s->wake_at[copy] = live > 0 ? INFINITY : wake;
    s->free_at[copy] = live > 0 ? s->now + sp_step_seconds(s->of->times, live, past / live) : s->now;
}

/* From one moment at which something happens to the next. */
static void slow_simulate(struct slow *s)
{
    for (uint32_t i = 0; i < s->of->closed_loop && i < s->of->request_count; i++)
        slow_arrive(s, 0);
    for (uint32_t c = 0; c < s->of->copies; c++)
        s->wake_at[c] = s->of->closed_loop > 0 ? 0 : INFINITY;
    while (s->ended < s->of->request_count) {
        const bool is_open = s->of->closed_loop == 0 && s->arrived < s->of->request_count;
        double next = is_open ? s->of->requests[s->arrived].arrival : INFINITY;
        for (uint32_t c = 0; c < s->of->copies; c++)
            next = fmin(next, s->free_at[c] > s->now ? s->free_at[c] : s->wake_at[c]);
        cr_assert(isfinite(next));
        s->now = next;
        while (s->of->closed_loop == 0 && s->arrived < s->of->request_count &&
               s->of->requests[s->arrived].arrival <= s->now)
            slow_arrive(s, s->of->requests[s->arrived].arrival);
        for (uint32_t c = 0; c < s->of->copies; c++) {
            if (s->free_at[c] > s->now)
                continue;
            if (s->steps[c])
                slow_step(s, c);
            slow_decide(s, c);
        }
    }
}

struct made_case {
    struct sp_simulation simulation;
    struct sp_trace_request drawn[MOST_REQUESTS];
    struct sp_simulated_request requests[MOST_REQUESTS];
};

/* A random service; latencies are the intervals where `is_pipelined` is not set. */
static void make_case(uint64_t seed, bool is_closed, bool is_pipelined, struct made_case *made)
{
    uint64_t random = seed;
    const struct sp_request_source source = {
        .rate = 2 + 30 * sp_random_fraction(&random),
        .input = {.mean = 1 + 150 * sp_random_fraction(&random), .variation = sp_random_fraction(&random)},
        .output = {.mean = 1 + 30 * sp_random_fraction(&random), .variation = sp_random_fraction(&random)},
        .seed = seed};
    const uint32_t count = 20 + sp_random_below(&random, MOST_REQUESTS - 20);
    sp_draw_requests(&source, count, made->drawn);
    for (uint32_t i = 0; i < count; i++) {
        struct sp_simulated_request *to = &made->requests[i];
        *to = (struct sp_simulated_request){
            .arrival = made->drawn[i].seconds, .input = made->drawn[i].input, .output = made->drawn[i].output};
        sp_prompt_seconds(&times, to->input, &to->latency_seconds, &to->interval_seconds);
        if (!is_pipelined)
            to->latency_seconds = to->interval_seconds;
    }
    made->simulation = (struct sp_simulation){.times = &times,
                                              .copies = is_closed ? 1 : 1 + sp_random_below(&random, MOST_COPIES),
                                              .places = 1 + sp_random_below(&random, 12),
                                              .closed_loop = is_closed ? 1 + sp_random_below(&random, 20) : 0,
                                              .request_count = count,
                                              .requests = made->requests,
                                              .count = count};
}

static void expect_same(const struct made_case *made, uint64_t seed)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct slow *slow = calloc(1, sizeof *slow);
    struct sp_simulated seen;
    cr_assert(arena != NULL && slow != NULL);
    slow->of = &made->simulation;
    cr_assert_eq(sp_simulate(arena, &made->simulation, &seen, NULL), SP_OK);
    slow_simulate(slow);
    double area = 0, last = 0;
    for (uint32_t i = 0; i < made->simulation.count; i++) {
        const struct sp_simulated_times *a = &seen.times[i], *b = &slow->seen[i];
        cr_assert_float_eq(a->prompt, b->prompt, 1e-9, "seed %lu: request %u waits %g, %g", seed, i, a->prompt,
                           b->prompt);
        cr_assert_float_eq(a->first, b->first, 1e-9, "seed %lu: request %u", seed, i);
        cr_assert_float_eq(a->end, b->end, 1e-9, "seed %lu: request %u ends after %g, %g", seed, i, a->end, b->end);
        area += a->end - a->prompt;
        last = fmax(last, slow->came[i] + b->end);
    }
    /* Little's law, of all requests from the first to the last. */
    cr_expect_float_eq(seen.window_seconds, last - slow->came[0], 1e-9);
    cr_expect_float_eq(seen.in_flight.mean * seen.window_seconds / area, 1, 1e-9);
    cr_expect_eq(seen.ended, made->simulation.count);
    free(slow);
    sp_arena_destroy(arena);
}

Test(simulation, of_an_open_loop_is_what_looking_at_every_request_says)
{
    static struct made_case made;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        make_case(seed, false, seed % 2 == 0, &made);
        expect_same(&made, seed);
    }
}

Test(simulation, of_a_closed_loop_is_what_looking_at_every_request_says)
{
    static struct made_case made;
    for (uint64_t seed = 100; seed <= 130; seed++) {
        make_case(seed, true, false, &made);
        expect_same(&made, seed);
    }
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

/* Prompts alone, of one length: the wait of M/D/1; at random on two copies: of each with half of the rate. */
Test(simulation, of_prompts_alone_is_a_known_queue)
{
    enum { COUNT = 200000 };
    struct sp_trace_request *drawn = calloc(COUNT, sizeof *drawn);
    struct sp_simulated_request *requests = calloc(COUNT, sizeof *requests);
    double *waits = calloc(COUNT, sizeof *waits);
    cr_assert(drawn != NULL && requests != NULL && waits != NULL);
    for (uint32_t copies = 1; copies <= 2; copies++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        struct sp_simulated seen;
        const double service = 0.1, load = 0.7;
        const struct sp_request_source source = {copies * load / service, {.mean = 5}, {.mean = 1}, 3};
        sp_draw_requests(&source, COUNT, drawn);
        for (uint32_t i = 0; i < COUNT; i++)
            requests[i] = (struct sp_simulated_request){drawn[i].seconds, 5, 1, service, service};
        const struct sp_simulation simulation = {.times = &times,
                                                 .copies = copies,
                                                 .places = 10,
                                                 .balance = SP_BALANCE_RANDOM,
                                                 .request_count = COUNT,
                                                 .requests = requests,
                                                 .count = COUNT};
        cr_assert_eq(sp_simulate(arena, &simulation, &seen, NULL), SP_OK);
        for (uint32_t i = 0; i < COUNT; i++)
            waits[i] = seen.times[i].prompt;
        const struct sp_percentiles wait = sp_percentiles_of(COUNT, waits);
        cr_expect_float_eq(wait.mean / (load * service / (2 * (1 - load))), 1, 0.05, "%g", wait.mean);
        cr_expect_eq(wait.p50, waits[COUNT / 2 - 1]);
        sp_arena_destroy(arena);
    }
    free(drawn);
    free(requests);
    free(waits);
}

Test(percentiles, are_the_nearest_ranks)
{
    double values[] = {5, 1, 4, 2, 3};
    const struct sp_percentiles five = sp_percentiles_of(5, values);
    cr_expect_eq(five.mean, 3);
    cr_expect_eq(five.p50, 3);
    cr_expect_eq(five.p90, 5);
    cr_expect_eq(five.most, 5);
    cr_expect_eq(sp_percentiles_of(1, values).p99, 1);
    cr_expect_eq(sp_percentiles_of(0, NULL).p99, 0);
}

/* The mean field at the rate, against events, with steps that take longer the more sequences there are. */
Test(simulation, is_near_the_mean_field_below_a_load_of_four_fifths)
{
    enum { COUNT = 30000 };
    static struct sp_trace_request drawn[COUNT];
    static struct sp_simulated_request requests[COUNT];
    static double values[COUNT];
    static const struct sp_step_time of_steps[] = {{1, 100, 0.01, 0}, {16, 100, 0.02, 0}, {32, 100, 0.03, 0}};
    const struct sp_step_times table = {3, 3, prompts, of_steps};
    const struct sp_generation full = {
        .prompt_seconds = 0.03, .prefill_seconds = 0.03, .step_seconds = 0.03, .concurrency = 32, .output = 40};
    struct sp_generation_figures most, formula;
    sp_generation_figures(&full, &most);
    for (double load = 0.1; load < 0.75; load += 0.3) {
        struct sp_arena *arena = sp_arena_create(NULL);
        struct sp_simulated seen;
        struct sp_generation of = full;
        of.rate = load * most.requests_per_second;
        const struct sp_request_source source = {of.rate, {.mean = 100}, {.mean = 40}, 7};
        sp_draw_requests(&source, COUNT, drawn);
        for (uint32_t i = 0; i < COUNT; i++)
            requests[i] = (struct sp_simulated_request){drawn[i].seconds, 100, drawn[i].output, 0.03, 0.03};
        const struct sp_simulation simulation = {.times = &table,
                                                 .copies = 1,
                                                 .places = 32,
                                                 .request_count = COUNT,
                                                 .requests = requests,
                                                 .first = COUNT / 10,
                                                 .count = COUNT / 10 * 8};
        cr_assert_eq(sp_simulate(arena, &simulation, &seen, NULL), SP_OK);
        sp_open_loop_figures(&of, &table, 100, 32, &formula);
        for (uint32_t i = 0; i < simulation.count; i++)
            values[i] = seen.times[i].first;
        cr_expect_float_eq(formula.ttft_seconds / sp_percentiles_of(simulation.count, values).mean, 1, 0.1,
                           "load %g: TTFT %g, %g", load, formula.ttft_seconds,
                           sp_percentiles_of(simulation.count, values).mean);
        for (uint32_t i = 0; i < simulation.count; i++)
            values[i] = (seen.times[i].end - seen.times[i].first) / 39;
        cr_expect_float_eq(formula.tpot_seconds / sp_percentiles_of(simulation.count, values).mean, 1, 0.1,
                           "load %g: TPOT %g, %g", load, formula.tpot_seconds,
                           sp_percentiles_of(simulation.count, values).mean);
        sp_arena_destroy(arena);
    }
}

static bool stop(void *context, const char *phase, double fraction, double best, double bound)
{
    (void)context, (void)phase, (void)fraction, (void)best, (void)bound;
    return false;
}

Test(simulation, can_be_cancelled)
{
    static struct made_case made;
    const struct sp_watch watch = {.tick = stop};
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_simulated seen;
    make_case(1, false, false, &made);
    made.simulation.watch = &watch;
    cr_expect_eq(sp_simulate(arena, &made.simulation, &seen, NULL), SP_ERR_CANCELLED);
    sp_arena_destroy(arena);
}
