#include <criterion/criterion.h>

#include "cost/cluster/change.h"

static struct sp_cluster *cluster_of(struct sp_arena *arena, const char *text)
{
    struct sp_cluster *cluster;
    struct sp_error err = {0};
    json_t *json = json_loads(text, 0, NULL);
    cr_assert_eq(sp_cluster_parse(arena, json, "", &cluster, &err), SP_OK, "%s", err.message);
    json_decref(json);
    return cluster;
}

#define LEVELS(outer, inner)                                                                                           \
    "\"mesh\": [{\"name\": \"node\", \"size\": " #outer ", \"bandwidth\": 1e9}, {\"name\": \"gpu\", \"size\": " #inner \
    ", \"bandwidth\": 1e11}]"

/* Whether old devices have the links that they had. */
static void expect_same_links(const struct sp_cluster *before, const struct sp_cluster *after, uint32_t count)
{
    for (uint32_t a = 0; a < count; a++) {
        cr_expect_str_eq(sp_cluster_device(before, a)->name, sp_cluster_device(after, a)->name);
        for (uint32_t b = 0; b < count; b++) {
            if (a != b)
                cr_expect_str_eq(sp_cluster_link(before, a, b)->name, sp_cluster_link(after, a, b)->name);
        }
    }
}

Test(cluster_change, one_more_leaves_the_others_where_they_are)
{
    static const struct {
        const char *text;
        uint32_t outer, inner, count; /* afterwards */
    } cases[] = {
        {"{\"device\": \"l4-24gb\", \"count\": 8, " LEVELS(2, 4) "}", 3, 4, 9},
        {"{\"device\": \"l4-24gb\", \"count\": 4, " LEVELS(1, 4) "}", 1, 5, 5},
        {"{\"device\": \"l4-24gb\", \"count\": 1, " LEVELS(1, 1) "}", 1, 2, 2},
        {"{\"device\": \"l4-24gb\", \"count\": 3, " LEVELS(3, 1) "}", 4, 1, 4},
        {"{\"groups\": [{\"device\": \"l4-24gb\", \"count\": 8}], \"device_count\": 6, " LEVELS(2, 4) "}", 2, 4, 7},
    };
    struct sp_arena *arena = sp_arena_create(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct sp_cluster *before = cluster_of(arena, cases[i].text);
        cr_assert(sp_cluster_can_grow(before, 0));
        const struct sp_cluster *after = sp_cluster_one_more(arena, before, 0);
        cr_expect_eq(after->levels[0].size, cases[i].outer, "%s", cases[i].text);
        cr_expect_eq(after->levels[1].size, cases[i].inner, "%s", cases[i].text);
        cr_expect_eq(after->device_count, cases[i].count, "%s", cases[i].text);
        cr_expect_eq(after->groups[0].count, cases[i].count);
        expect_same_links(before, after, before->device_count);
    }
    sp_arena_destroy(arena);
}

Test(cluster_change, one_more_of_a_group_in_the_middle_comes_last)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    const struct sp_cluster *before = cluster_of(arena, "{\"groups\": [{\"device\": \"a100-sxm4-80gb\", \"count\": 2}, "
                                                        "{\"device\": \"l4-24gb\", \"count\": 2}], " LEVELS(2, 2) "}");
    const struct sp_cluster *after = sp_cluster_one_more(arena, before, 0);
    cr_expect_eq(after->group_count, 3);
    cr_expect_eq(after->device_count, 5);
    cr_expect_str_eq(sp_cluster_device(after, 4)->name, "a100-sxm4-80gb");
    cr_expect_str_eq(sp_cluster_link(after, 3, 4)->name, "node");
    expect_same_links(before, after, 4);
    cr_expect_eq(before->group_count, 2, "the given one is as it was");
    cr_expect_eq(before->levels[0].size, 2);
    sp_arena_destroy(arena);
}

Test(cluster_change, one_more_needs_a_link)
{
    static const char alone[] = "{\"count\": %d, \"device\": {\"name\": \"x\", \"memory_bytes\": 1e9, "
                                "\"memory_bandwidth\": 1e12, %s\"flops\": {\"float32\": 1e13}}}";
    char text[512];
    struct sp_arena *arena = sp_arena_create(NULL);
    (void)snprintf(text, sizeof text, alone, 1, "");
    cr_expect_not(sp_cluster_can_grow(cluster_of(arena, text), 0), "nothing is known of a link between two of them");
    (void)snprintf(text, sizeof text, alone, 1, "\"host_bandwidth\": 1e10, ");
    cr_expect(sp_cluster_can_grow(cluster_of(arena, text), 0));
    (void)snprintf(text, sizeof text, alone, SP_MAX_DEVICES, "\"host_bandwidth\": 1e10, ");
    cr_expect_not(sp_cluster_can_grow(cluster_of(arena, text), 0));
    sp_arena_destroy(arena);
}

Test(cluster_change, one_fewer_moves_nobody_in_the_links)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    const struct sp_cluster *before = cluster_of(arena, "{\"groups\": [{\"device\": \"a100-sxm4-80gb\", \"count\": 2}, "
                                                        "{\"device\": \"l4-24gb\", \"count\": 2}], " LEVELS(2, 2) "}");
    cr_expect_not(sp_cluster_can_shrink(before, 0));
    cr_assert(sp_cluster_can_shrink(before, 1));
    const struct sp_cluster *after = sp_cluster_one_fewer(arena, before, 1);
    cr_expect_eq(after->device_count, 3);
    expect_same_links(before, after, 3);

    /* One level: any group; its devices move up. */
    before = cluster_of(arena, "{\"groups\": [{\"device\": \"a100-sxm4-80gb\", \"count\": 1}, "
                               "{\"device\": \"l4-24gb\", \"count\": 2}]}");
    cr_assert(sp_cluster_can_shrink(before, 0));
    cr_expect_eq(sp_cluster_last_device(before, 0), 0);
    cr_expect_eq(sp_cluster_last_device(before, 1), 2);
    after = sp_cluster_one_fewer(arena, before, 0);
    cr_expect_eq(after->group_count, 1);
    cr_expect_eq(after->device_count, 2);
    cr_expect_eq(after->levels[0].size, 2);
    cr_expect_eq(after->levels[0].bandwidth, before->levels[0].bandwidth);
    cr_expect_str_eq(sp_cluster_device(after, 0)->name, "l4-24gb");
    cr_expect_not(sp_cluster_can_shrink(sp_cluster_one_fewer(arena, after, 0), 0), "one stays");
    sp_arena_destroy(arena);
}

Test(cluster_change, figures_are_scaled)
{
    static const struct sp_cluster_scale scale = {0.5, 2, 4};
    struct sp_arena *arena = sp_arena_create(NULL);
    const struct sp_cluster *before =
        cluster_of(arena, "{\"device\": \"cpu-core\", \"count\": 4, \"memory_limit_bytes\": 1e9, " LEVELS(2, 2) "}");
    const struct sp_cluster *after = sp_cluster_scale(arena, before, &scale);
    const struct sp_device *a = sp_cluster_device(before, 3), *b = sp_cluster_device(after, 3);
    cr_expect_eq(b->memory_bytes, a->memory_bytes / 2);
    cr_expect_eq(b->memory_bandwidth, a->memory_bandwidth * 4);
    cr_expect_eq(b->permuted_bandwidth, a->permuted_bandwidth * 4);
    cr_expect_eq(b->functions_per_second, a->functions_per_second * 2);
    cr_expect_eq(b->flops[SP_DTYPE_FLOAT], a->flops[SP_DTYPE_FLOAT] * 2);
    cr_expect_eq(sp_cluster_memory(after, 0), sp_cluster_memory(before, 0) / 2);
    after = sp_cluster_scale_link(arena, before, 1, 2);
    cr_expect_eq(after->levels[1].bandwidth, 2e11);
    cr_expect_eq(after->levels[0].bandwidth, 1e9);
    cr_expect_eq(before->levels[1].bandwidth, 1e11);
    sp_arena_destroy(arena);
}
