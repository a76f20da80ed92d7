/* Clusters with devices left out, and with groups in any order: devices keep their numbers and their links. */
#include <criterion/criterion.h>

#include "base/random.h"
#include "cost/cluster/change.h"
#include "support/cluster_text.h"

static struct sp_arena *arena;

static void setup(void)
{
    arena = sp_arena_create(NULL);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(cluster_arranged, .init = setup, .fini = teardown);

static struct sp_cluster *cluster_of(const char *text)
{
    struct sp_cluster *cluster = NULL;
    struct sp_error err = {0};
    json_t *json = json_loads(text, 0, NULL);
    cr_assert_not_null(json, "%s", text);
    cr_assert_eq(sp_cluster_parse(arena, json, "", &cluster, &err), SP_OK, "%s: %s", text, err.message);
    json_decref(json);
    return cluster;
}

/* The examples of cluster.h. */
Test(cluster_arranged, examples)
{
    cluster_expect_numbers(cluster_of("{\"device\": \"l4-24gb\", \"count\": 3, \"exclude\": [1]}"), 2,
                           (uint32_t[]){0, 2});
    cluster_expect_numbers(
        cluster_of("{\"groups\": [{\"device\": \"l4-24gb\", \"count\": 2}, {\"device\": \"t4-16gb\", "
                   "\"count\": 1}, {\"device\": \"l4-24gb\", \"count\": 2}]}"),
        5, (uint32_t[]){0, 1, 3, 4, 2});
    const struct sp_cluster *mesh = cluster_of(
        "{\"device\": \"l4-24gb\", \"count\": 6, \"exclude\": [1], \"mesh\": [{\"name\": \"node\", \"size\": "
        "2, \"bandwidth\": 1e9}, {\"name\": \"gpu\", \"size\": 3, \"bandwidth\": 1e11}]}");
    cluster_expect_numbers(mesh, 5, (uint32_t[]){3, 4, 5, 0, 2});
    cr_expect_null(mesh->place);
    cr_expect_eq(sp_cluster_numbered(mesh, 1), UINT32_MAX);
    cr_expect_eq(sp_cluster_numbered(mesh, 6), UINT32_MAX);
}

Test(cluster_arranged, patterns_leave_groups_out)
{
    const struct sp_cluster *cluster =
        cluster_of("{\"groups\": [{\"name\": \"old-1\", \"device\": \"t4-16gb\", \"count\": 2}, {\"name\": \"new\", "
                   "\"device\": \"l4-24gb\", \"count\": 2}, {\"name\": \"old-2\", \"device\": \"t4-16gb\", \"count\": "
                   "1}], \"exclude\": [\"old-?\"]}");
    cluster_expect_numbers(cluster, 2, (uint32_t[]){2, 3});
    cr_expect_eq(cluster->levels[0].size, 2);
    cr_expect_eq(sp_level_bandwidth(&cluster->levels[0]), 32e9, "the T4's slower link does not count");
}

Test(cluster_arranged, device_count_takes_the_lowest_numbers)
{
    const struct sp_cluster *cluster =
        cluster_of("{\"groups\": [{\"device\": \"l4-24gb\", \"count\": 6}], \"device_count\": 4, \"exclude\": [0, 5]}");
    cluster_expect_numbers(cluster, 3, (uint32_t[]){1, 2, 3});
}

/* Links as those of the whole cluster, whatever is left out; what is written is the same cluster. */
Test(cluster_arranged, links_stay)
{
    uint64_t state = 1;
    for (uint32_t round = 0; round < 300; round++) {
        const uint32_t sizes[3] = {1 + sp_random_below(&state, 3), 1 + sp_random_below(&state, 4),
                                   1 + sp_random_below(&state, 4)};
        const uint32_t count = sizes[0] * sizes[1] * sizes[2], first = 1 + sp_random_below(&state, count);
        char whole[1024], text[2048];
        size_t at = (size_t)snprintf(
            whole, sizeof whole,
            "{\"groups\": [{\"name\": \"x\", \"device\": \"l4-24gb\", \"count\": %u}%s%s%s], \"mesh\": [{\"name\": "
            "\"a\", \"size\": %u, \"bandwidth\": 1e9}, {\"name\": \"b\", \"size\": %u, \"bandwidth\": 1e10}, "
            "{\"name\": "
            "\"c\", \"size\": %u, \"bandwidth\": 1e11}]",
            first, first < count ? ", {\"name\": \"y\", \"device\": \"t4-16gb\", \"count\": " : "",
            first < count ? sp_arena_printf(arena, "%u", count - first) : "", first < count ? "}" : "", sizes[0],
            sizes[1], sizes[2]);
        at = (size_t)snprintf(text, sizeof text, "%s, \"exclude\": [%u", whole, sp_random_below(&state, count));
        for (uint32_t i = sp_random_below(&state, count); i-- > 1;)
            at += (size_t)snprintf(text + at, sizeof text - at, ", %u", sp_random_below(&state, count));
        (void)snprintf(text + at, sizeof text - at, "]}");
        (void)snprintf(whole + strlen(whole), sizeof whole - strlen(whole), "}");
        if (count == 1)
            continue;
        const struct sp_cluster *all = cluster_of(whole), *some = cluster_of(text),
                                *again = cluster_of(cluster_written(arena, some));
        cr_assert_str_eq(cluster_written(arena, some), cluster_written(arena, again));
        cr_assert_eq(again->device_count, some->device_count);
        struct sp_links links;
        cr_assert(sp_cluster_numbered_links(arena, some, &links));
        for (uint32_t a = 0; a < some->device_count; a++) {
            const uint32_t x = sp_cluster_number(some, a);
            cr_assert_eq(sp_cluster_number(again, a), x);
            cr_assert_str_eq(sp_cluster_device(some, a)->name, sp_cluster_device(all, x)->name);
            for (uint32_t b = 0; b < some->device_count; b++) {
                const uint32_t y = sp_cluster_number(some, b);
                if (a == b)
                    continue;
                cr_assert_str_eq(sp_cluster_link(some, a, b)->name, sp_cluster_link(all, x, y)->name, "%s: %u %u", text,
                                 x, y);
                cr_assert_eq(sp_links_between(&links, x, y), (uint32_t)(sp_cluster_link(some, a, b) - some->levels),
                             "%s: %u %u", text, x, y);
            }
        }
    }
}

Test(cluster_arranged, a_prefix_is_written_by_its_numbers)
{
    const struct sp_cluster *cluster =
        cluster_of("{\"device\": \"l4-24gb\", \"count\": 8, \"exclude\": [2], \"mesh\": [{\"size\": 2, \"bandwidth\": "
                   "1e9}, {\"size\": 4, \"bandwidth\": 1e11}]}");
    for (uint32_t count = 1; count <= cluster->device_count; count++) {
        const struct sp_cluster *prefix = sp_cluster_prefix(arena, cluster, count),
                                *again = cluster_of(cluster_written(arena, prefix));
        cr_assert_eq(again->device_count, count);
        for (uint32_t d = 0; d < count; d++)
            cr_assert_eq(sp_cluster_number(prefix, d), sp_cluster_number(again, d));
        for (uint32_t l = 0; l < 2; l++)
            cr_assert_eq(prefix->levels[l].size, again->levels[l].size);
    }
}

Test(cluster_arranged, reserved_bytes_by_group)
{
    const struct sp_cluster *cluster =
        cluster_of("{\"groups\": [{\"device\": \"l4-24gb\", \"count\": 1}, {\"device\": \"l4-24gb\", \"count\": 1, "
                   "\"reserved_bytes\": 3e9, \"price_per_hour\": 0.75}, {\"device\": \"l4-24gb\", \"count\": 1, "
                   "\"reserved_bytes\": 1e12}], \"memory_limit_bytes\": 20e9}");
    cr_expect_eq(sp_cluster_memory(cluster, 0), 20e9);
    cr_expect_eq(sp_cluster_memory(cluster, 1), 17e9);
    cr_expect_eq(sp_cluster_memory(cluster, 2), 0);
    cr_expect_eq(sp_cluster_price(cluster, 0), 0);
    cr_expect_eq(sp_cluster_price(cluster, 1), 0.75);
    cr_expect_str_eq(cluster_written(arena, cluster),
                     cluster_written(arena, cluster_of(cluster_written(arena, cluster))));
}

Test(cluster_arranged, changes_keep_the_numbers)
{
    const struct sp_cluster *cluster =
        cluster_of("{\"groups\": [{\"name\": \"a\", \"device\": \"l4-24gb\", \"count\": 3}, {\"name\": \"b\", "
                   "\"device\": \"t4-16gb\", \"count\": 2}], \"exclude\": [1]}");
    cluster_expect_numbers(cluster, 4, (uint32_t[]){0, 2, 3, 4});
    cr_assert(sp_cluster_can_grow(cluster, 0));
    const struct sp_cluster *more = sp_cluster_one_more(arena, cluster, 0);
    cluster_expect_numbers(more, 5, (uint32_t[]){0, 2, 3, 4, 5});
    cr_expect_str_eq(sp_cluster_device(more, 4)->name, "l4-24gb");
    const struct sp_cluster *again = cluster_of(cluster_written(arena, more));
    cr_expect_eq(again->device_count, 5);
    cr_expect_eq(sp_cluster_number(again, 2), 5, "the L4s are together");
    cr_assert(sp_cluster_can_shrink(cluster, 0));
    cluster_expect_numbers(sp_cluster_one_fewer(arena, cluster, 0), 3, (uint32_t[]){0, 3, 4});
    cluster_expect_numbers(sp_cluster_one_fewer(arena, cluster, 1), 3, (uint32_t[]){0, 2, 3});
    const struct sp_cluster_scale twice = {2, 1, 1};
    const struct sp_cluster *scaled = cluster_of(cluster_written(arena, sp_cluster_scale(arena, cluster, &twice)));
    cr_expect_eq(sp_cluster_device(scaled, 3)->memory_bytes, 2 * sp_cluster_device(cluster, 3)->memory_bytes);
    const struct sp_cluster *wide = cluster_of(cluster_written(arena, sp_cluster_scale_link(arena, cluster, 0, 2)));
    cr_expect_eq(sp_level_bandwidth(&wide->levels[0]), 2 * sp_level_bandwidth(&cluster->levels[0]));
}

Test(cluster_arranged, refusals)
{
    static const struct {
        const char *exclude, *where, *mentions;
    } cases[] = {
        {"3", "/exclude", "array"},        {"[3]", "/exclude/0", "0 to 2"},  {"[0, -1]", "/exclude/1", "0 to 2"},
        {"[1.5]", "/exclude/0", "0 to 2"}, {"[\"x\"]", "/exclude/0", "'x'"}, {"[[]]", "/exclude/0", "pattern"},
        {"[0, 1, 2]", "/exclude", "keep"}, {"[\"*\"]", "/exclude", "keep"},  {"[\"\"]", "/exclude/0", "name like"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_cluster *cluster = NULL;
        struct sp_error err = {0};
        char text[256];
        (void)snprintf(text, sizeof text, "{\"device\": \"l4-24gb\", \"count\": 3, \"exclude\": %s}", cases[i].exclude);
        json_t *json = json_loads(text, 0, NULL);
        cr_expect_eq(sp_cluster_parse(arena, json, "", &cluster, &err), SP_ERR_REQUEST, "%s", text);
        cr_expect_str_eq(err.code, "CLUSTER_EXCLUDE");
        cr_expect_str_eq(err.where, cases[i].where, "%s", text);
        cr_expect_not_null(strstr(err.message, cases[i].mentions), "%s: %s", text, err.message);
        json_decref(json);
    }
}
