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

/* By hand: start + (p - 1) rank + f (n + sqrt(n half)) / bandwidth, of the library that is faster. */
Test(collective, a_level_with_forms)
{
    static const struct sp_link_form items[] = {{SP_ALL_REDUCE, 2, 0.5, 4, {10, 20, 40}},
                                                {SP_ALL_REDUCE, 0.1, 0, 0, {1, 1, 1}},
                                                {SP_ALL_GATHER, 3, 1, 0, {0, 0, 50}},
                                                {SP_ALL_TO_ALL, 4, 0.5, 0, {30, 30, 30}}};
    static const struct sp_link_forms forms = {4, items};
    struct sp_mesh_level level = {.name = "link", .size = 8, .bandwidth = 100, .latency = 1};
    sp_level_take_forms(&level, &forms);
    const struct sp_links one = {1, &level};
    const uint32_t two = 2, eight = 8;
    cr_expect_float_eq(sp_collective_seconds(&one, SP_ALL_REDUCE, &two, 16), 2 + 0.5 + (16 + 8) / 10., 1e-12);
    cr_expect_float_eq(sp_collective_seconds(&one, SP_ALL_REDUCE, &two, 1), 0.1 + 1, 1e-12);
    cr_expect_float_eq(sp_collective_seconds(&one, SP_ALL_REDUCE, &eight, 16), 2 + 3.5 + 2 * 7 / 8. * 24 / 40, 1e-12);
    cr_expect_float_eq(sp_collective_seconds(&one, SP_ALL_GATHER, &eight, 400), 3 + 7 + 7 / 8. * 400 / 50, 1e-12);
    cr_expect_float_eq(sp_collective_seconds(&one, SP_ALL_TO_ALL, &eight, 800), 4 + 3.5 + 7 / 8. * 100 / 30, 1e-12);
    /* Groups of two in a level of eight together get what all eight get; alone (a level of two) they get more. */
    static const struct sp_link_form narrow[] = {{SP_ALL_REDUCE, 1, 0, 0, {50, 20, 5}}};
    const struct sp_link_forms shared = {1, narrow};
    struct sp_mesh_level bus = {.name = "bus", .size = 8, .bandwidth = 100, .latency = 1, .forms = &shared};
    cr_expect_float_eq(sp_collective_seconds(&(struct sp_links){1, &bus}, SP_ALL_REDUCE, &two, 100), 1 + 20, 1e-12);
    bus.size = 2;
    cr_expect_float_eq(sp_collective_seconds(&(struct sp_links){1, &bus}, SP_ALL_REDUCE, &two, 100), 1 + 2, 1e-12);
    /* Messages reach what an all-gather of all devices does in its 3 rounds; what was stated is not forgotten. */
    cr_expect_eq(level.bandwidth, 50);
    cr_expect_float_eq(level.latency, 10 / 3., 1e-12);
    cr_expect_eq(sp_level_bandwidth(&level), 100);
    sp_level_resize(&level, 2);
    cr_expect_float_eq(level.latency, 4, 1e-12);
    cr_expect_eq(level.stated_latency, 1);
}

/* The host starts a collective once, over however many levels it goes; a level of messages stays what it is. No group
   across nodes is quicker than as many devices within one, though the outer link promises it. */
Test(collective, what_the_host_adds)
{
    static const struct sp_link_form items[] = {{SP_ALL_GATHER, 6, 2, 0, {50, 50, 50}},
                                                {SP_ALL_REDUCE, 20, 0, 0, {50, 50, 50}}};
    static const struct sp_link_forms forms = {2, items};
    struct sp_mesh_level nodes[] = {{.name = "node", .size = 2, .bandwidth = 100, .latency = 4},
                                    {.name = "gpu", .size = 2, .bandwidth = 100, .latency = 1}};
    const struct sp_links two = {2, nodes};
    const uint32_t inner[] = {1, 2}, outer[] = {2, 1}, both[] = {2, 2}, alone[] = {1, 1};
    struct sp_collective_line lines[SP_COLLECTIVE_LINES];
    double without[3];

    sp_level_take_forms(&nodes[1], &forms);
    cr_expect_eq(nodes[1].latency, 8);
    expect(sp_collective_seconds(&two, SP_ALL_GATHER, outer, 100), 6 + 2 + 1, "no less than inside, 4 + 0.5");
    expect(sp_collective_seconds(&two, SP_ALL_REDUCE, outer, 100), 20 + 2, "no less than inside, 2 (4 + 0.5)");
    without[0] = sp_collective_seconds(&two, SP_ALL_GATHER, inner, 100);
    without[1] = sp_collective_seconds(&two, SP_ALL_GATHER, outer, 100);
    without[2] = sp_collective_seconds(&two, SP_ALL_REDUCE, both, 100);
    cr_expect(sp_collective_is_lines(&(struct sp_links){1, nodes}) && !sp_collective_is_lines(&two));
    nodes[0].host_seconds = nodes[1].host_seconds = 30;
    cr_expect_not(sp_collective_is_lines(&(struct sp_links){1, nodes}));
    expect(sp_collective_seconds(&two, SP_ALL_GATHER, inner, 100), without[0] + 30, "within a node");
    expect(sp_collective_seconds(&two, SP_ALL_GATHER, outer, 100), without[1] + 30, "across");
    expect(sp_collective_seconds(&two, SP_ALL_REDUCE, both, 100), without[2] + 30, "both");
    cr_expect_eq(sp_collective_seconds(&two, SP_ALL_REDUCE, alone, 100), 0.0);
    cr_assert_eq(sp_collective_lines(&(struct sp_links){1, nodes}, SP_ALL_REDUCE, outer, lines), 3);
    expect(lines[0].fixed, 30 + 2 * 4, "once for both halves of an all-reduce");
    sp_level_resize(&nodes[1], 2);
    cr_expect_eq(nodes[1].latency, 8, "a send has no part of the host's");
}

/* Two devices alone reach no less than each pair does while eight talk; over one bus eight reach less. */
Test(collective, messages_of_few_devices)
{
    static const struct sp_link_form items[] = {{SP_ALL_GATHER, 1, 0, 0, {50, 60, 80}}},
                                     bus[] = {{SP_ALL_GATHER, 1, 0, 0, {50, 20, 5}}};
    static const struct sp_link_forms forms = {1, items}, shared = {1, bus};
    struct sp_mesh_level level = {.name = "link", .size = 2, .bandwidth = 100, .latency = 1}, narrow = level;

    sp_level_take_forms(&level, &forms);
    sp_level_take_forms(&narrow, &shared);
    cr_expect_eq(level.bandwidth, 80);
    cr_expect_eq(narrow.bandwidth, 50);
    sp_level_resize(&narrow, 8);
    cr_expect_eq(narrow.bandwidth, 5);
}
