/* Choices for the phases of a service: those that are picked beside all combinations of them. */
#include <criterion/criterion.h>
#include <math.h>

#include "base/random.h"
#include "plan/service/choices.h"

#define MOST_PHASES  4
#define MOST_CHOICES 6

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

TestSuite(service_choices, .init = setup, .fini = teardown);

/* Seconds of the devices and of a request. */
struct seconds {
    double busy, request;
};

static void add(const struct sp_phase_choices *phase, const struct sp_phase_choice *choice, struct seconds *sum)
{
    sum->busy += choice->runs * choice->figures->interval_seconds.value;
    sum->request += phase->waits * (choice->fill_seconds + choice->figures->latency_seconds.value);
}

static struct seconds of_picks(uint32_t count, const struct sp_phase_choices *phases,
                               const struct sp_phase_choice *const *picks)
{
    struct seconds sum = {0};
    for (uint32_t i = 0; i < count; i++)
        add(&phases[i], picks[i], &sum);
    return sum;
}

/* Numbers of a few values, so that several are equal now and then. */
static double any_seconds(uint64_t *random)
{
    return 1 + sp_random_below(random, 12);
}

static uint32_t make_phases(uint64_t *random, struct sp_phase_choices *phases)
{
    const uint32_t count = 1 + sp_random_below(random, MOST_PHASES);
    for (uint32_t i = 0; i < count; i++) {
        phases[i] = (struct sp_phase_choices){.waits = 0.5 + sp_random_below(random, 3)};
        const uint32_t choices = 1 + sp_random_below(random, MOST_CHOICES);
        for (uint32_t k = 0; k < choices; k++) {
            struct sp_phase_figures *figures = SP_NEW(arena, struct sp_phase_figures);
            figures->latency_seconds.value = any_seconds(random);
            figures->interval_seconds.value = any_seconds(random);
            const double batch = 1 + sp_random_below(random, 4);
            const struct sp_phase_choice choice = {(int64_t)batch, 1u << k, 0.25 + sp_random_below(random, 4) / batch,
                                                   sp_random_below(random, 3), figures};
            cr_assert(sp_phase_choices_add(arena, &phases[i], &choice));
        }
    }
    return count;
}

/* The least of busy + weight * request of all combinations. */
static double least_of_all(uint32_t count, const struct sp_phase_choices *phases, double weight)
{
    uint32_t combinations = 1;
    double least = INFINITY;
    for (uint32_t i = 0; i < count; i++)
        combinations *= phases[i].count;
    for (uint32_t c = 0; c < combinations; c++) {
        struct seconds sum = {0};
        uint32_t rest = c;
        for (uint32_t i = 0; i < count; i++) {
            add(&phases[i], &phases[i].items[rest % phases[i].count], &sum);
            rest /= phases[i].count;
        }
        least = fmin(least, sum.busy + weight * sum.request);
    }
    return least;
}

/* Whatever the seconds of a request count beside those of devices, the best combination is among those of the weights. */
Test(service_choices, the_hull_of_all_combinations_is_looked_at)
{
    uint64_t random = 11;
    uint32_t changes = 0;
    for (uint32_t round = 0; round < 500; round++) {
        struct sp_phase_choices phases[MOST_PHASES];
        const struct sp_phase_choice *picks[MOST_PHASES];
        const uint32_t count = make_phases(&random, phases);
        const double *weights;
        uint32_t weight_count;
        cr_assert_eq(sp_phase_choices_weights(arena, count, phases, &weight_count, &weights, &err), SP_OK);
        changes += weight_count > 0;
        for (double of_request = 0; of_request < 1e4; of_request = 3 * of_request + 0.01) {
            double least = INFINITY;
            for (uint32_t w = 0; w <= weight_count; w++) {
                sp_phase_choices_pick(count, phases, w == 0 ? 0 : weights[w - 1], picks);
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
Test(service_choices, equal_ones_are_the_fewest)
{
    struct sp_phase_figures figures = {.latency_seconds.value = 2, .interval_seconds.value = 1}, shorter = figures;
    const struct sp_phase_choice *pick;
    shorter.latency_seconds.value = 1;
    struct sp_phase_choice items[] = {{0, 1, 1, 0, &figures}, {0, 2, 1, 0, &shorter}, {0, 4, 1, 0, &shorter}};
    const struct sp_phase_choices phase = {1, 3, 3, items};
    sp_phase_choices_pick(1, &phase, 0, &pick);
    cr_assert_eq(pick->micro_batches, 1);
    sp_phase_choices_pick(1, &phase, 0.5, &pick);
    cr_assert_eq(pick->micro_batches, 2);
}

/* Without the useless ones the best combination is as good, whatever the seconds count. */
Test(service_choices, useless_ones_are_not_missed)
{
    uint64_t random = 5;
    uint32_t dropped = 0;
    for (uint32_t round = 0; round < 500; round++) {
        struct sp_phase_choices phases[MOST_PHASES], useful[MOST_PHASES];
        const uint32_t count = make_phases(&random, phases);
        for (uint32_t i = 0; i < count; i++) {
            cr_assert_eq(sp_phase_choices_useful(arena, &phases[i], &useful[i], &err), SP_OK);
            dropped += phases[i].count - useful[i].count;
            for (uint32_t k = 1; k < useful[i].count; k++)
                cr_assert(useful[i].items[k - 1].batch <= useful[i].items[k].batch);
        }
        for (double of_request = 0; of_request < 1e4; of_request = 3 * of_request + 0.01) {
            const double all = least_of_all(count, phases, of_request), rest = least_of_all(count, useful, of_request);
            cr_assert(fabs(all - rest) <= 1e-9 * all);
        }
    }
    cr_assert_gt(dropped, 500);
}

/* Where none fits the one that lacks least is left; where some do, these. */
Test(service_choices, those_that_fit)
{
    struct sp_phase_figures lacks = {.excess_bytes = 5}, lacks_more = {.excess_bytes = 9}, fits = {.excess_bytes = 0};
    struct sp_phase_choice items[] = {{1, 1, 1, 0, &lacks_more}, {2, 1, 1, 0, &lacks}, {4, 1, 1, 0, &fits}};
    struct sp_phase_choices phase = {1, 2, 3, items}, useful;
    cr_assert_eq(sp_phase_choices_useful(arena, &phase, &useful, &err), SP_OK);
    cr_assert_eq(useful.count, 1);
    cr_assert_eq(useful.items[0].batch, 2);
    phase.count = 3;
    cr_assert_eq(sp_phase_choices_useful(arena, &phase, &useful, &err), SP_OK);
    cr_assert_eq(useful.count, 1);
    cr_assert_eq(useful.items[0].batch, 4);
}
