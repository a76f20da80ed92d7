/* The arithmetic of services against simulations of them, event by event, with random arrivals and lengths. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "service/generation.h"
#include "service/lengths.h"
#include "service/phases.h"

#define REQUESTS 20000
#define MOST     4096 /* sequences in flight, and requests that wait */

static double exponential(uint64_t *state, double mean)
{
    return -mean * log1p(-sp_random_fraction(state));
}

/* ---- continuous batching ------------------------------------------------------------------------------------------ */

struct sequence {
    double first; /* when its first token came */
    uint32_t steps, left;
};

struct server {
    double step, prompt, output, rate; /* seconds, tokens, requests a second */
    bool are_equal;                    /* lengths of outputs; else they are geometric */
};

struct seen {
    double ttft, tpot;
};

struct simulation {
    const struct server *server;
    uint64_t state;
    double now, next; /* arrival */
    uint32_t waiting, live, first, done;
    double arrivals[MOST];
    struct sequence sequences[MOST];
    double ttft, tpot, tokens;
};

static void arrive(struct simulation *s)
{
    while (s->next <= s->now) {
        cr_assert_lt(s->waiting, MOST);
        s->arrivals[s->waiting++] = s->next;
        s->next += exponential(&s->state, 1 / s->server->rate);
    }
}

/* The prompt of the request that has waited longest, and its first token. */
static void prefill(struct simulation *s)
{
    const double mean = s->server->output - 1;
    const double drawn = s->server->are_equal ? mean : fmax(1, floor(exponential(&s->state, mean)) + 1);
    s->now += s->server->prompt;
    s->ttft += s->now - s->arrivals[0];
    s->first++;
    s->waiting--;
    memmove(s->arrivals, s->arrivals + 1, s->waiting * sizeof *s->arrivals);
    cr_assert_lt(s->live, MOST);
    s->sequences[s->live++] = (struct sequence){s->now, (uint32_t)drawn, (uint32_t)drawn};
}

static void decode(struct simulation *s)
{
    uint32_t kept = 0;
    s->now += s->server->step;
    for (uint32_t i = 0; i < s->live; i++) {
        struct sequence *sequence = &s->sequences[i];
        if (--sequence->left > 0) {
            s->sequences[kept++] = *sequence;
            continue;
        }
        s->tpot += s->now - sequence->first;
        s->tokens += sequence->steps;
        s->done++;
    }
    s->live = kept;
}

static struct seen simulate(const struct server *server, uint64_t seed)
{
    struct simulation *s = calloc(1, sizeof *s);
    cr_assert_not_null(s);
    s->server = server;
    s->state = seed;
    s->next = exponential(&s->state, 1 / server->rate);
    while (s->done < REQUESTS) {
        arrive(s);
        if (s->waiting > 0)
            prefill(s);
        else if (s->live > 0)
            decode(s);
        else
            s->now = s->next;
    }
    const struct seen seen = {s->ttft / s->first, s->tpot / s->tokens};
    free(s);
    return seen;
}

static struct sp_generation_figures formula(const struct server *server)
{
    struct sp_generation_figures figures;
    const struct sp_generation of = {.step_seconds = server->step,
                                     .prompt_seconds = server->prompt,
                                     .prefill_seconds = server->prompt,
                                     .concurrency = 1,
                                     .output = server->output,
                                     .rate = server->rate};
    sp_generation_figures(&of, &figures);
    return figures;
}

Test(generation, is_that_of_a_simulation_up_to_a_load_of_four_fifths)
{
    static const double loads[] = {0.05, 0.2, 0.4, 0.6, 0.8}, outputs[] = {20, 100};
    for (size_t i = 0; i < 2 * 2 * sizeof loads / sizeof *loads; i++) {
        const double load = loads[i / 4];
        struct server server = {.step = 0.01, .prompt = 0.05, .output = outputs[i % 2], .are_equal = (i / 2) % 2 == 0};
        server.rate = load / server.prompt;
        const struct seen seen = simulate(&server, i + 1);
        const struct sp_generation_figures figures = formula(&server);
        cr_expect_float_eq(figures.tpot_seconds / seen.tpot, 1, 0.1, "load %g: TPOT %g, simulated %g", load,
                           figures.tpot_seconds, seen.tpot);
        cr_expect_float_eq(figures.ttft_seconds / seen.ttft, 1, 0.1, "load %g: TTFT %g, simulated %g", load,
                           figures.ttft_seconds, seen.ttft);
    }
}

Test(generation, of_one_sequence_waits_for_nobody)
{
    struct sp_generation_figures figures;
    const struct sp_generation of = {.step_seconds = 0.01,
                                     .prompt_seconds = 0.05,
                                     .prefill_seconds = 0.08,
                                     .request_seconds = 0.04,
                                     .concurrency = 1,
                                     .output = 11};
    sp_generation_figures(&of, &figures);
    cr_expect_float_eq(figures.ttft_seconds, 0.12, 1e-12);
    cr_expect_float_eq(figures.tpot_seconds, 0.01, 1e-12);
    cr_expect_float_eq(figures.request_seconds, 0.22, 1e-12);
    cr_expect_float_eq(figures.requests_per_second, 1 / 0.22, 1e-12);
}

/* A measurement that begins with all requests at once: those of the first round wait for each other. */
Test(generation, of_a_measurement_has_the_wait_of_its_first_round)
{
    struct sp_generation_figures all, begun;
    struct sp_generation of = {
        .step_seconds = 0.01, .prompt_seconds = 0.05, .prefill_seconds = 0.05, .concurrency = 9, .output = 100};
    sp_generation_figures(&of, &all);
    of.rounds = 10;
    sp_generation_figures(&of, &begun);
    double waits = 0;
    for (int i = 0; i < 9; i++)
        waits += i * of.prompt_seconds;
    cr_expect_float_eq(begun.ttft_seconds - all.ttft_seconds, waits / (9 * of.rounds), 1e-12);
}

/* ---- queues of one server ------------------------------------------------------------------------------------------ */

/* The mean wait of requests that come at random and each take what `draw` says (Lindley's recursion). */
static double queue(uint64_t seed, double rate, double (*draw)(uint64_t *state))
{
    double wait = 0, sum = 0;
    for (uint32_t i = 0; i < 20 * REQUESTS; i++) {
        sum += wait;
        wait = fmax(0, wait + draw(&seed) - exponential(&seed, 1 / rate));
    }
    return sum / (20 * REQUESTS);
}

static double draw_constant(uint64_t *state)
{
    (void)state;
    return 0.5;
}

/* All need a run of 0.1 s, and a fifth of them one of 1 s. */
static double draw_phases(uint64_t *state)
{
    return 0.1 + (sp_random_fraction(state) < 0.2 ? 1 : 0);
}

Test(phases, wait_as_in_a_simulated_queue)
{
    const struct sp_phase_load loads[] = {{0.1, 1}, {1, 0.2}}; /* 0.3 s of each request */
    cr_expect_float_eq(sp_phases_busy_seconds(2, loads), 0.3, 1e-12);
    for (double rate = 0.5; rate < 2.7; rate += 0.7)
        cr_expect_float_eq(sp_phases_wait_seconds(2, loads, rate) / queue(7, rate, draw_phases), 1, 0.05, "%g", rate);
    for (double rate = 0.4; rate < 1.7; rate += 0.4)
        cr_expect_float_eq(sp_generation_place_seconds(rate, 2, rate / 2, 1) / queue(9, rate, draw_constant), 1, 0.05,
                           "%g", rate);
    cr_expect(isinf(sp_phases_wait_seconds(2, loads, 4)));
    cr_expect(isinf(sp_generation_place_seconds(2, 2, 1, 1)));
}

/* ---- lengths ------------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Drawn lengths have the mean and the percentile that the distribution was made of, and the variation that it says. */
Test(lengths, of_a_percentile_are_those_of_drawn_ones)
{
    enum { COUNT = 400000 };
    static double drawn[COUNT];
    struct sp_lengths lengths;
    uint64_t state = 5;
    cr_assert(sp_lengths_of_percentile(800, 90, 1700, &lengths));
    const double deviation = sqrt(log1p(lengths.variation)), center = log(800) - deviation * deviation / 2;
    for (uint32_t i = 0; i < COUNT; i++) {
        const double normal =
            sqrt(-2 * log1p(-sp_random_fraction(&state))) * cos(6.283185307179586 * sp_random_fraction(&state));
        drawn[i] = exp(center + deviation * normal);
    }
    const struct sp_lengths seen = sp_lengths_of_list(COUNT, drawn);
    qsort(drawn, COUNT, sizeof *drawn, by_size);
    cr_expect_float_eq(drawn[COUNT / 10 * 9] / 1700, 1, 0.01);
    cr_expect_float_eq(seen.mean / 800, 1, 0.01);
    cr_expect_float_eq(seen.variation / lengths.variation, 1, 0.05);
    cr_expect_not(sp_lengths_of_percentile(800, 90, 700, &lengths));
    cr_expect_not(sp_lengths_of_percentile(800, 90, 80000, &lengths));
}

/* Looks at random moments at sequences that follow each other. */
Test(lengths, in_flight_are_what_a_visitor_sees)
{
    const double outputs[] = {10, 20, 300};
    const struct sp_lengths lengths = sp_lengths_of_list(3, outputs);
    uint64_t state = 3;
    double sum = 0;
    for (uint32_t i = 0; i < 10 * REQUESTS; i++) {
        double at = sp_random_fraction(&state) * 330; /* in a period of all three */
        for (uint32_t k = 0; k < 3 && at >= outputs[k]; k++)
            at -= outputs[k];
        sum += at;
    }
    cr_expect_float_eq(sp_lengths_in_flight(&lengths) / (sum / (10 * REQUESTS)), 1, 0.02);
}
