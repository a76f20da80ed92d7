/*
 * Experts that are not chosen alike: the chances of a token against their sum and their bounds, what shards are sent and
 * read against a simulation that routes tokens, and orders against all ways to deal the experts.
 */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

#include "base/random.h"
#include "ops/table/load.h"

#define MOST 64

static struct sp_arena *arena;

static void start(void)
{
    arena = sp_arena_create(NULL);
    cr_assert_not_null(arena);
}

static void stop(void)
{
    sp_arena_destroy(arena);
}

TestSuite(load, .init = start, .fini = stop);

static void expect_near(double value, double want)
{
    cr_expect(fabs(value - want) <= 1e-12 + 1e-9 * fabs(want), "%.17g is not %.17g", value, want);
}

static void random_shares(uint64_t *random, uint32_t count, double *shares)
{
    for (uint32_t e = 0; e < count; e++)
        shares[e] = exp(4 * sp_random_fraction(random)) * (sp_random_below(random, 8) > 0 ? 1 : 20);
}

/* ---- chances ---------------------------------------------------------------------------------------------------- */

Test(load, chances_are_shares_of_what_a_token_takes)
{
    const double shares[] = {4, 3, 2, 1}, want[] = {0.8, 0.6, 0.4, 0.2};
    double chances[4];
    sp_load_chances(4, shares, 2, chances);
    for (uint32_t e = 0; e < 4; e++)
        expect_near(chances[e], want[e]);
}

/* 2 of [100, 1, 1, 1]: the first always, and one of the others; [1, 0, 0, 0] leaves these alike. */
Test(load, no_expert_is_taken_twice)
{
    const double cases[][4] = {{100, 1, 1, 1}, {1, 0, 0, 0}}, third = 1 / 3.0;
    for (uint32_t c = 0; c < 2; c++) {
        double chances[4];
        sp_load_chances(4, cases[c], 2, chances);
        expect_near(chances[0], 1);
        for (uint32_t e = 1; e < 4; e++)
            expect_near(chances[e], third);
    }
}

Test(load, chances_sum_up_to_what_a_token_takes)
{
    uint64_t random = 1;
    for (uint32_t i = 0; i < 1000; i++) {
        double shares[MOST], chances[MOST], sum = 0;
        const uint32_t count = 1 + sp_random_below(&random, MOST), each = 1 + sp_random_below(&random, count);
        random_shares(&random, count, shares);
        sp_load_chances(count, shares, each, chances);
        for (uint32_t e = 0; e < count; e++) {
            sum += chances[e];
            cr_expect(chances[e] > 0 && chances[e] <= 1);
            for (uint32_t other = 0; other < e; other++) /* those below 1 are in proportion */
                if (chances[e] < 1 && chances[other] < 1)
                    expect_near(chances[e] * shares[other], chances[other] * shares[e]);
        }
        expect_near(sum, each);
    }
}

/* ---- what shards are sent and read ------------------------------------------------------------------------------ */

/*
 * One token's k different experts, expert e with the chance p_e (Madow 1949): experts stand in a random order on a line,
 * each as long as its chance, and are taken where one of k points falls that are 1 apart.
 */
static void route(uint64_t *random, uint32_t count, const double *chances, uint32_t each, bool *taken)
{
    uint32_t order[MOST], left = each;
    double at = 0, point = sp_random_fraction(random);
    for (uint32_t e = 0; e < count; e++) {
        const uint32_t other = sp_random_below(random, e + 1);
        order[e] = order[other];
        order[other] = e;
        taken[e] = false;
    }
    for (uint32_t i = 0; i < count && left > 0; i++) {
        at += chances[order[i]];
        if (point < at) {
            taken[order[i]] = true;
            point += 1;
            left--;
        }
    }
}

struct simulated {
    double sent[MOST], hit[MOST]; /* per shard, means */
};

static void simulate(uint32_t count, const double *chances, uint32_t each, uint32_t shards, uint32_t tokens,
                     struct simulated *ret)
{
    enum { TRIALS = 4000 };
    uint64_t random = 7 + tokens;
    *ret = (struct simulated){0};
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        bool is_hit[MOST] = {false}, taken[MOST];
        for (uint32_t t = 0; t < tokens; t++) {
            route(&random, count, chances, each, taken);
            for (uint32_t e = 0; e < count; e++) {
                is_hit[e] = is_hit[e] || taken[e];
                ret->sent[e / (count / shards)] += taken[e] ? 1.0 / TRIALS : 0;
            }
        }
        for (uint32_t e = 0; e < count; e++)
            ret->hit[e / (count / shards)] += is_hit[e] ? 1.0 / TRIALS : 0;
    }
}

static double largest(const double *values, uint32_t count)
{
    double most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = fmax(most, values[i]);
    return most;
}

Test(load, shards_are_sent_and_read_what_a_simulation_says)
{
    static const uint32_t cases[][4] = {/* experts, of a token, shards, tokens */
                                        {8, 2, 1, 1},  {8, 2, 4, 3},  {8, 2, 2, 16}, {16, 1, 4, 9},
                                        {64, 6, 8, 1}, {64, 6, 8, 8}, {64, 6, 4, 40}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const uint32_t count = cases[c][0], each = cases[c][1], shards = cases[c][2], tokens = cases[c][3];
        double shares[MOST], chances[MOST];
        struct simulated simulated;
        for (uint32_t e = 0; e < count; e++)
            shares[e] = pow(e + 1.0, -1.2);
        sp_load_chances(count, shares, each, chances);
        simulate(count, chances, each, shards, tokens, &simulated);
        const struct sp_load load = {.count = count, .each = each, .chances = chances};
        const double sent = sp_load_most(&load, shards) * tokens * each / shards;
        const double hit = sp_load_read(&load, shards, tokens) * count / shards;
        const double want_sent = largest(simulated.sent, shards), want_hit = largest(simulated.hit, shards);
        cr_expect(fabs(sent - want_sent) <= 0.02 * want_sent, "case %zu: sent %g, simulated %g", c, sent, want_sent);
        cr_expect(fabs(hit - want_hit) <= 0.02 * want_hit, "case %zu: hit %g, simulated %g", c, hit, want_hit);
        /* Draws with replacement would hit fewer. */
        double again = 0;
        for (uint32_t e = 0; e < count / shards; e++)
            again += 1 - pow(1 - chances[e] / each, tokens * each);
        cr_expect(again < hit + 1e-9);
    }
}

Test(load, equal_chances_are_the_formula_of_equal_chances)
{
    double shares[MOST], chances[MOST];
    for (uint32_t e = 0; e < MOST; e++)
        shares[e] = 3;
    sp_load_chances(MOST, shares, 8, chances);
    const struct sp_load load = {.count = MOST, .each = 8, .chances = chances};
    for (uint32_t shards = 1; shards <= MOST; shards *= 2) {
        expect_near(sp_load_most(&load, shards), 1);
        expect_near(sp_load_read(&load, shards, 20), 1 - pow(1 - 8.0 / MOST, 20));
    }
}

/* ---- orders ----------------------------------------------------------------------------------------------------- */

struct dealing {
    uint32_t count, shards;
    const double *chances;
    double sums[MOST], best;
    uint32_t rooms[MOST];
};

/* The least largest sum of all ways to deal the experts from `e` on. */
static void deal_all(struct dealing *d, uint32_t e)
{
    if (e == d->count) {
        d->best = fmin(d->best, largest(d->sums, d->shards));
        return;
    }
    for (uint32_t s = 0; s < d->shards; s++) {
        if (d->rooms[s] == 0)
            continue;
        d->rooms[s]--;
        d->sums[s] += d->chances[e];
        deal_all(d, e + 1);
        d->sums[s] -= d->chances[e];
        d->rooms[s]++;
    }
}

static double best_of(uint32_t count, const double *chances, uint32_t shards)
{
    struct dealing d = {.count = count, .shards = shards, .chances = chances, .best = DBL_MAX};
    const uint32_t block = (count + shards - 1) / shards;
    for (uint32_t s = 0; s < shards; s++)
        d.rooms[s] = s * block >= count ? 0 : count - s * block < block ? count - s * block : block;
    deal_all(&d, 0);
    return d.best;
}

static void expect_order(uint32_t count, uint32_t shards, const uint32_t *order)
{
    bool is_there[MOST] = {false};
    const uint32_t block = (count + shards - 1) / shards;
    for (uint32_t i = 0; i < count; i++) {
        cr_assert(order[i] < count && !is_there[order[i]]);
        is_there[order[i]] = true;
        cr_expect(i % block == 0 || order[i - 1] < order[i]);
    }
}

Test(load, orders_are_near_the_best_of_all)
{
    static const uint32_t sizes[][2] = {{4, 2}, {6, 2},  {6, 3}, {8, 2},  {8, 4},
                                        {9, 3}, {10, 5}, {7, 3}, {10, 2}, {5, 4}};
    uint64_t random = 3;
    uint32_t equal = 0, all = 0;
    for (uint32_t i = 0; i < 300; i++) {
        const uint32_t count = sizes[i % 10][0], shards = sizes[i % 10][1];
        double shares[MOST], chances[MOST];
        uint32_t order[MOST];
        random_shares(&random, count, shares);
        sp_load_chances(count, shares, 1, chances);
        cr_assert(sp_load_balance(arena, count, chances, shards, order));
        expect_order(count, shards, order);
        const struct sp_load load = {.count = count, .each = 1, .chances = chances};
        const double found = sp_load_most_in(&load, shards, order) / shards, best = best_of(count, chances, shards);
        cr_expect(found >= best - 1e-9 && found <= 1.08 * best, "%u in %u: %g, the best is %g", count, shards, found,
                  best);
        cr_expect(found <= sp_load_most_in(&load, shards, NULL) / shards + 1e-9);
        equal += found <= best * (1 + 1e-9);
        all++;
    }
    cr_expect(equal >= 0.9 * all, "%u of %u are the best", equal, all);
}

/* Equal experts stay where they are, and an order that a load has is the one that counts. */
Test(load, orders_are_those_that_the_load_has)
{
    const double chances[] = {0.5, 0.3, 0.1, 0.1}, same[] = {0.25, 0.25, 0.25, 0.25};
    uint32_t order[4];
    cr_assert(sp_load_balance(arena, 4, same, 2, order));
    for (uint32_t e = 0; e < 4; e++)
        cr_expect_eq(order[e], e);
    cr_assert(sp_load_balance(arena, 4, chances, 2, order));
    const struct sp_load_order orders[] = {{2, order}};
    struct sp_load load = {.count = 4, .each = 1, .chances = chances};
    expect_near(sp_load_most(&load, 2), 1.6);
    load.order_count = 1;
    load.orders = orders;
    expect_near(sp_load_most(&load, 2), 1.2);
    expect_near(sp_load_most(&load, 4), 2);
    expect_near(sp_load_read(&load, 2, 1), 0.3);
}
