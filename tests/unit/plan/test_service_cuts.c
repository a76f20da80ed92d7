/* Micro-batches of the phases of a service: the numbers that are picked beside all combinations of them. */
#include <criterion/criterion.h>
#include <math.h>

#include "base/random.h"
#include "plan/service/cuts.h"

#define MOST_PHASES 4

static struct sp_arena *arena;
static struct sp_error err;

static void setup(void)
{
    arena = sp_arena_create(NULL);
    sp_error_clear(&err);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(service_cuts, .init = setup, .fini = teardown);

/* Seconds of the devices and of a request. */
struct seconds {
    double busy, request;
};

static void add(const struct sp_phase_cuts *phase, const struct sp_phase_figures *figures, struct seconds *sum)
{
    sum->busy += phase->runs * figures->interval_seconds.value;
    sum->request += phase->waits * figures->latency_seconds.value;
}

static struct seconds of_picks(uint32_t count, const struct sp_phase_cuts *phases,
                               const struct sp_phase_cut *const *picks)
{
    struct seconds sum = {0};
    for (uint32_t i = 0; i < count; i++)
        add(&phases[i], picks[i]->figures, &sum);
    return sum;
}

/* Numbers of a few values, so that several are equal now and then. */
static double any_seconds(uint64_t *random)
{
    return 1 + sp_random_below(random, 12);
}

static uint32_t make_phases(uint64_t *random, struct sp_phase_cuts *phases)
{
    const uint32_t count = 1 + sp_random_below(random, MOST_PHASES);
    for (uint32_t i = 0; i < count; i++) {
        phases[i] = (struct sp_phase_cuts){.runs = 0.25 + sp_random_below(random, 4),
                                           .waits = 0.5 + sp_random_below(random, 3),
                                           .count = 1 + sp_random_below(random, SP_MOST_CUTS)};
        for (uint32_t k = 0; k < phases[i].count; k++) {
            struct sp_phase_figures *figures = SP_NEW(arena, struct sp_phase_figures);
            figures->latency_seconds.value = any_seconds(random);
            figures->interval_seconds.value = any_seconds(random);
            phases[i].items[k] = (struct sp_phase_cut){1u << k, figures};
        }
    }
    return count;
}

/* The least of busy + weight * request of all combinations. */
static double least_of_all(uint32_t count, const struct sp_phase_cuts *phases, double weight)
{
    uint32_t combinations = 1;
    double least = INFINITY;
    for (uint32_t i = 0; i < count; i++)
        combinations *= phases[i].count;
    for (uint32_t c = 0; c < combinations; c++) {
        struct seconds sum = {0};
        uint32_t rest = c;
        for (uint32_t i = 0; i < count; i++) {
            add(&phases[i], phases[i].items[rest % phases[i].count].figures, &sum);
            rest /= phases[i].count;
        }
        least = fmin(least, sum.busy + weight * sum.request);
    }
    return least;
}

/* Whatever the seconds of a request count beside those of devices, the best combination is among those of the weights. */
Test(service_cuts, the_hull_of_all_combinations_is_looked_at)
{
    uint64_t random = 11;
    uint32_t changes = 0;
    for (uint32_t round = 0; round < 500; round++) {
        struct sp_phase_cuts phases[MOST_PHASES];
        const struct sp_phase_cut *picks[MOST_PHASES];
        const uint32_t count = make_phases(&random, phases);
        const double *weights;
        uint32_t weight_count;
        cr_assert_eq(sp_phase_cuts_weights(arena, count, phases, &weight_count, &weights, &err), SP_OK);
        changes += weight_count > 0;
        for (double of_request = 0; of_request < 1e4; of_request = 3 * of_request + 0.01) {
            double least = INFINITY;
            for (uint32_t w = 0; w <= weight_count; w++) {
                sp_phase_cuts_pick(count, phases, w == 0 ? 0 : weights[w - 1], picks);
                const struct seconds sum = of_picks(count, phases, picks);
                least = fmin(least, sum.busy + of_request * sum.request);
            }
            const double expected = least_of_all(count, phases, of_request);
            cr_assert(fabs(least - expected) <= 1e-9 * expected, "round %u, weight %g: %.12g, not %.12g", round,
                      of_request, least, expected);
        }
    }
    cr_assert_gt(changes, 400);
}

/* Of numbers that are equal in all that counts the fewest parts are taken. */
Test(service_cuts, equal_ones_are_the_fewest)
{
    struct sp_phase_figures figures = {.latency_seconds.value = 2, .interval_seconds.value = 1}, shorter = figures;
    const struct sp_phase_cut *pick;
    shorter.latency_seconds.value = 1;
    const struct sp_phase_cuts phase = {1, 1, 3, {{1, &figures}, {2, &shorter}, {4, &shorter}}};
    sp_phase_cuts_pick(1, &phase, 0, &pick);
    cr_assert_eq(pick->micro_batches, 1);
    sp_phase_cuts_pick(1, &phase, 0.5, &pick);
    cr_assert_eq(pick->micro_batches, 2);
}
