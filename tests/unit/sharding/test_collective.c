#include "sharding/reshard/collective_cost.h"

#include <criterion/criterion.h>
#include <math.h>

#include "base/limits.h"

/* Two nodes of four devices; figures chosen so that each algorithm is the best somewhere. */
static const struct sp_mesh_level levels[] = {{"node", 2, 1e9, 1e-5}, {"gpu", 4, 1e10, 1e-6}};
static const struct sp_links links = {2, levels};

static void expect(double actual, double expected, const char *what)
{
    cr_expect(fabs(actual - expected) <= 1e-12 * fabs(expected), "%s: %.15g, expected %.15g", what, actual, expected);
}

Test(collective, names)
{
    cr_expect_str_eq(sp_collective_name(SP_ALL_SLICE), "all-slice");
    cr_expect_str_eq(sp_collective_name(SP_TO_PARTIAL), "to-partial");
    cr_expect_str_eq(sp_collective_name(SP_COLLECTIVE_COUNT), "unknown");
}

/* Formulas of Thakur, Rabenseifner, Gropp 2005 with p = 4: logarithmic, 2 rounds and 3/4 of the bytes. */
Test(collective, one_level)
{
    const uint32_t span[] = {1, 4};

    expect(sp_collective_seconds(&links, SP_ALL_GATHER, span, 8e6), 2e-6 + 0.75 * 8e6 / 1e10, "all-gather");
    expect(sp_collective_seconds(&links, SP_REDUCE_SCATTER, span, 8e6), 2e-6 + 0.75 * 8e6 / 1e10, "reduce-scatter");
    expect(sp_collective_seconds(&links, SP_ALL_REDUCE, span, 8e6), 4e-6 + 1.5 * 8e6 / 1e10, "all-reduce");
    expect(sp_collective_seconds(&links, SP_ALL_TO_ALL, span, 8e6), 3e-6 + 3.0 / 16 * 8e6 / 1e10, "all-to-all");
}

/* Three devices need two rounds, as four do. */
Test(collective, rounds_of_no_power_of_two)
{
    const uint32_t span[] = {1, 3};

    expect(sp_collective_seconds(&links, SP_ALL_GATHER, span, 0), 2e-6, "all-gather");
    expect(sp_collective_seconds(&links, SP_ALL_TO_ALL, span, 0), 2e-6, "all-to-all");
}

/* Level by level: outermost first 1 round and half of a quarter of the bytes, then 2 rounds and 3/4 of all. */
Test(collective, two_levels)
{
    const uint32_t span[] = {2, 4};
    double n = 8e6, by_levels = 1e-5 + n / 4 / 2 / 1e9 + 2e-6 + 0.75 * n / 1e10;

    expect(sp_collective_seconds(&links, SP_ALL_GATHER, span, n), by_levels, "all-gather");
    expect(sp_collective_seconds(&links, SP_REDUCE_SCATTER, span, n), by_levels, "reduce-scatter");
    expect(sp_collective_seconds(&links, SP_ALL_REDUCE, span, n), 2 * by_levels, "all-reduce");
    /* Direct, at the slowest level. */
    expect(sp_collective_seconds(&links, SP_ALL_TO_ALL, span, n), 7e-5 + 7.0 / 64 * n / 1e9, "all-to-all");
}

/* Of a slow level inside a fast one: latency and bandwidth of the worse of both for algorithms over all. */
Test(collective, lines_are_the_algorithms)
{
    const uint32_t span[] = {2, 4}, alone[] = {1, 1};
    struct sp_collective_line lines[SP_COLLECTIVE_LINES];

    cr_assert_eq(sp_collective_lines(&links, SP_ALL_GATHER, span, lines), 3);
    expect(lines[0].fixed, 7e-5, "ring");
    expect(lines[1].fixed, 3e-5, "tree");
    expect(lines[2].fixed, 1.2e-5, "levels");
    expect(lines[0].slope, 7.0 / 8 / 1e9, "ring");
    expect(lines[2].slope, 1.0 / 8 / 1e9 + 0.75 / 1e10, "levels");
    cr_expect_eq(sp_collective_lines(&links, SP_ALL_TO_ALL, span, lines), 1);
    cr_expect_eq(sp_collective_lines(&links, SP_ALL_GATHER, alone, lines), 0);
    cr_expect_eq(sp_collective_lines(&links, SP_ALL_SLICE, span, lines), 0);
    cr_expect_eq(sp_collective_seconds(&links, SP_ALL_REDUCE, alone, 1e9), 0.0);
}

Test(collective, bytes)
{
    expect(sp_collective_bytes(SP_ALL_GATHER, 4, 16), 12, "all-gather");
    expect(sp_collective_bytes(SP_ALL_REDUCE, 4, 16), 24, "all-reduce");
    expect(sp_collective_bytes(SP_ALL_TO_ALL, 4, 16), 3, "all-to-all");
    cr_expect_eq(sp_collective_bytes(SP_ALL_GATHER, 1, 16), 0.0);
    cr_expect_eq(sp_collective_bytes(SP_ALL_SLICE, 4, 16), 0.0);
}

Test(collective, between)
{
    cr_expect_eq(sp_links_between(&links, 5, 5), 2);
    cr_expect_eq(sp_links_between(&links, 5, 6), 1);
    cr_expect_eq(sp_links_between(&links, 1, 5), 0);
    cr_expect_eq(sp_links_between(&links, 0, 8), 0, "device 8 is beyond the levels");
    cr_expect_eq(sp_links_between(&links, 9, 9), 2);
}
