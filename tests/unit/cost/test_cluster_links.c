/* Links and switches as they are: what an all-gather reaches on them, and the levels that are found. */
#include <criterion/criterion.h>
#include <math.h>

#include "base/random.h"
#include "cost/cluster/change.h"
#include "cost/cluster/gather.h"
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

TestSuite(cluster_links, .init = setup, .fini = teardown);

static enum sp_status parse(const char *text, struct sp_cluster **ret_cluster, struct sp_error *err)
{
    json_error_t problem;
    json_t *json = json_loads(text, 0, &problem);
    cr_assert_not_null(json, "%s: %s", problem.text, text);
    *err = (struct sp_error){0};
    const enum sp_status status = sp_cluster_parse(arena, json, "", ret_cluster, err);
    json_decref(json);
    return status;
}

static struct sp_cluster *cluster_of(const char *text)
{
    struct sp_cluster *cluster = NULL;
    struct sp_error err;
    cr_assert_eq(parse(text, &cluster, &err), SP_OK, "%s: %s", text, err.message);
    return cluster;
}

/* The link between two devices by their numbers. */
static const struct sp_mesh_level *link_of(const struct sp_cluster *cluster, uint32_t a, uint32_t b)
{
    return sp_cluster_link(cluster, sp_cluster_numbered(cluster, a), sp_cluster_numbered(cluster, b));
}

/* ---- all-gathers ------------------------------------------------------------------------------------------------- */

/* Zhao et al. 2024, theorem 1: all cuts, one by one. */
static double narrowest_cut(uint32_t parts, uint32_t vertices, uint32_t count, const struct sp_gather_edge *edges)
{
    double rate = INFINITY;
    for (uint32_t set = 1; set < 1u << vertices; set++) {
        const uint32_t inside = (uint32_t)__builtin_popcount(set & ((1u << parts) - 1));
        double width = 0;
        if (inside == 0 || inside == parts)
            continue;
        for (uint32_t e = 0; e < count; e++)
            width += (set >> edges[e].ends[0] & 1) != (set >> edges[e].ends[1] & 1) ? edges[e].bandwidth : 0;
        rate = fmin(rate, width / inside);
    }
    return (parts - 1) * rate;
}

Test(cluster_links, gathering_is_as_quick_as_the_narrowest_cut)
{
    uint64_t state = 7;
    for (uint32_t round = 0; round < 2000; round++) {
        const uint32_t parts = 2 + sp_random_below(&state, 5), vertices = parts + sp_random_below(&state, 3);
        struct sp_gather_edge edges[16];
        const uint32_t count = 1 + sp_random_below(&state, 16);
        for (uint32_t e = 0; e < count; e++) {
            edges[e].ends[0] = sp_random_below(&state, vertices);
            edges[e].ends[1] = (edges[e].ends[0] + 1 + sp_random_below(&state, vertices - 1)) % vertices;
            edges[e].bandwidth = 1 + sp_random_below(&state, 20);
        }
        const double expected = narrowest_cut(parts, vertices, count, edges);
        cr_assert_float_eq(sp_gather_bandwidth(arena, parts, vertices, count, edges), expected, 1e-9 * expected,
                           "round %u", round);
    }
}

/* ---- machines ---------------------------------------------------------------------------------------------------- */

#define PAIR(a, b, gb) "{\"between\": [" #a ", " #b "], \"bandwidth\": " #gb "e9}"

Test(cluster_links, pairs_are_found_without_renumbering)
{
    const struct sp_cluster *cluster = cluster_of(
        "{\"device\": \"rtx-3090-24gb\", \"count\": 4, \"links\": [" PAIR(0, 2, 56) ", " PAIR(1, 3, 56) "]}");
    cluster_expect_numbers(cluster, 4, (uint32_t[]){0, 2, 1, 3});
    cr_assert_eq(cluster->level_count, 2);
    cr_expect_eq(link_of(cluster, 0, 2)->bandwidth, 56e9);
    cr_expect_eq(link_of(cluster, 3, 1)->bandwidth, 56e9);
    cr_expect_eq(link_of(cluster, 0, 1)->bandwidth, 32e9, "the host's");
    cr_expect_str_eq(link_of(cluster, 0, 1)->name, "host");
    cr_expect(cluster->links_assumed);
    cr_expect_str_eq(cluster_written(arena, cluster),
                     cluster_written(arena, cluster_of(cluster_written(arena, cluster))));
}

/* A network card for each of eight devices, and a switch that is as wide as all of its ports: the same as a mesh. */
Test(cluster_links, switches_as_wide_as_their_ports_are_a_mesh)
{
    const struct sp_cluster *wired = cluster_of(
        "{\"device\": \"h100-sxm-80gb\", \"count\": 16, \"switches\": [{\"name\": \"a\", \"members\": [0, 1, 2, 3, 4, "
        "5, "
        "6, 7], \"bandwidth\": 3.6e12, \"latency\": 2e-6}, {\"name\": \"b\", \"members\": [8, 9, 10, 11, 12, 13, 14, "
        "15], \"bandwidth\": 3.6e12, \"latency\": 2e-6}, {\"name\": \"ib\", \"members\": [0, 1, 2, 3, 4, 5, 6, 7, 8, "
        "9, "
        "10, 11, 12, 13, 14, 15], \"bandwidth\": 800e9, \"member_bandwidth\": 50e9}]}");
    const struct sp_cluster *mesh =
        cluster_of("{\"device\": \"h100-sxm-80gb\", \"count\": 16, \"mesh\": [{\"size\": 2, \"bandwidth\": 50e9}, "
                   "{\"size\": 8, \"bandwidth\": 450e9, \"latency\": 2e-6}]}");
    cr_assert_eq(wired->level_count, 2);
    cr_expect_null(wired->number);
    for (uint32_t l = 0; l < 2; l++) {
        cr_expect_eq(wired->levels[l].size, mesh->levels[l].size);
        cr_expect_float_eq(wired->levels[l].bandwidth, mesh->levels[l].bandwidth, 1);
        cr_expect_eq(wired->levels[l].latency, mesh->levels[l].latency);
        cr_expect_eq(wired->levels[l].forms != NULL, mesh->levels[l].forms != NULL);
    }
    cr_expect_eq(wired->levels[0].send_bandwidth, 0);
}

/* Random meshes whose devices are numbered anyhow, written as switches: every pair has its link back. */
Test(cluster_links, any_numbering_of_a_mesh)
{
    uint64_t state = 3;
    for (uint32_t round = 0; round < 100; round++) {
        const uint32_t sizes[3] = {2 + sp_random_below(&state, 2), 2 + sp_random_below(&state, 2),
                                   2 + sp_random_below(&state, 3)};
        const uint32_t count = sizes[0] * sizes[1] * sizes[2];
        uint32_t number[64];
        char text[16384];
        size_t at =
            (size_t)snprintf(text, sizeof text, "{\"device\": \"l4-24gb\", \"count\": %u, \"switches\": [", count);
        for (uint32_t d = 0; d < count; d++) {
            const uint32_t other = sp_random_below(&state, d + 1);
            number[d] = number[other];
            number[other] = d;
        }
        for (uint32_t l = 0, cells = 1; l < 3; cells *= sizes[l++]) {
            const uint32_t members = count / cells;
            for (uint32_t c = 0; c < cells; c++) {
                at += (size_t)snprintf(text + at, sizeof text - at,
                                       "%s{\"name\": \"s%u-%u\", \"bandwidth\": %g, \"latency\": %g, \"members\": [",
                                       l + c > 0 ? ", " : "", l, c, members * (l + 1) * (l + 1) * 1e9, (3 - l) * 1e-6);
                for (uint32_t m = 0; m < members; m++)
                    at += (size_t)snprintf(text + at, sizeof text - at, "%s%u", m > 0 ? ", " : "",
                                           number[c * members + m]);
                at += (size_t)snprintf(text + at, sizeof text - at, "]}");
            }
        }
        (void)snprintf(text + at, sizeof text - at, "]}");
        const struct sp_cluster *cluster = cluster_of(text);
        cr_assert_eq(cluster->level_count, 3);
        cr_assert_null(cluster->place);
        for (uint32_t a = 0; a < count; a++) {
            for (uint32_t b = 0; b < count; b++) {
                const uint32_t inner = sizes[2], outer = inner * sizes[1];
                const uint32_t level = a / outer != b / outer ? 0 : a / inner != b / inner ? 1 : 2;
                if (a == b)
                    continue;
                const struct sp_mesh_level *link = link_of(cluster, number[a], number[b]);
                cr_assert_float_eq(link->bandwidth, (level + 1) * (level + 1) * 1e9, 1, "%s: %u %u", text, a, b);
                cr_assert_eq(link->latency, (3 - level) * 1e-6);
                cr_assert_eq(link->size, sizes[level]);
            }
        }
    }
}

/* Two sockets of four: what all share is the less the more of them send. */
Test(cluster_links, members_share_a_switch)
{
    const struct sp_cluster *cluster = cluster_of(
        "{\"device\": \"l40s-48gb\", \"count\": 8, \"switches\": [{\"name\": \"pcie0\", \"members\": [0, 1, 2, 3], "
        "\"bandwidth\": 64e9, \"member_bandwidth\": 32e9}, {\"name\": \"pcie1\", \"members\": [4, 5, 6, 7], "
        "\"bandwidth\": 64e9, \"member_bandwidth\": 32e9}, {\"name\": \"sockets\", \"members\": [\"pcie0\", "
        "\"pcie1\"], "
        "\"bandwidth\": 40e9}]}");
    cr_assert_eq(cluster->level_count, 2);
    cr_expect_float_eq(link_of(cluster, 0, 3)->bandwidth, 16e9, 1);
    cr_expect_eq(link_of(cluster, 0, 3)->send_bandwidth, 32e9);
    cr_expect_float_eq(link_of(cluster, 0, 7)->bandwidth, 5e9, 1);
    cr_expect_eq(link_of(cluster, 0, 7)->send_bandwidth, 32e9, "alone, it is its own port that is narrow");
    cr_expect_float_eq(sp_cluster_transfer_seconds(cluster, 0, 7, 32e9), 1 + SP_HOST_LATENCY, 1e-9);
    const struct sp_cluster *alone =
        cluster_of("{\"device\": \"l4-24gb\", \"count\": 2, \"links\": [" PAIR(0, 1, 50) "], \"exclude\": [0]}");
    cluster_expect_numbers(alone, 1, (uint32_t[]){1});
    const struct sp_cluster *half = cluster_of(
        "{\"device\": \"l40s-48gb\", \"count\": 4, \"switches\": [{\"name\": \"pcie\", \"members\": [0, 1, 2, 3], "
        "\"bandwidth\": 64e9}], \"exclude\": [1, 2]}");
    cr_expect_float_eq(sp_level_bandwidth(link_of(half, 0, 3)), 32e9, 1, "those that are left out take nothing");
}

/* Rings of four along the rows, one link in each column. */
Test(cluster_links, torus)
{
    char text[2048];
    size_t at = (size_t)snprintf(text, sizeof text, "{\"device\": \"tpu-v5e\", \"count\": 8, \"links\": [");
    for (uint32_t i = 0; i < 4; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "{\"between\": [%u, %u], \"bandwidth\": 5e10}, {\"between\": [%u, %u], \"bandwidth\": "
                               "5e10}, {\"between\": [%u, %u], \"bandwidth\": 5e10}%s",
                               i, (i + 1) % 4, 4 + i, 4 + (i + 1) % 4, i, 4 + i, i < 3 ? ", " : "]}");
    const struct sp_cluster *cluster = cluster_of(text);
    cr_assert_eq(cluster->level_count, 2);
    cr_expect_eq(cluster->levels[1].size, 4);
    cr_expect_float_eq(cluster->levels[1].bandwidth, 1e11, 1, "both ways around the ring");
    cr_expect_eq(cluster->levels[1].send_bandwidth, 5e10, "over one link");
    cr_expect_float_eq(cluster->levels[1].bandwidth_of_size[2], 5e10, 1);
    cr_expect_float_eq(cluster->levels[0].bandwidth, 5e10, 1);
    cr_expect_str_eq(cluster_written(arena, cluster),
                     cluster_written(arena, cluster_of(cluster_written(arena, cluster))));
}

/* A hybrid cube mesh: two quads, each of which is a block. */
Test(cluster_links, cube_mesh)
{
    static const uint32_t links[16][3] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
                                          {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
                                          {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
    char text[2048];
    size_t at = (size_t)snprintf(text, sizeof text, "{\"device\": \"v100-sxm2-32gb\", \"count\": 8, \"links\": [");
    for (uint32_t i = 0; i < 16; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s{\"between\": [%u, %u], \"bandwidth\": %u}",
                               i > 0 ? ", " : "", links[i][0], links[i][1], links[i][2] * 25000000);
    (void)snprintf(text + at, sizeof text - at, "]}");
    const struct sp_cluster *cluster = cluster_of(text);
    cr_assert_eq(cluster->level_count, 2);
    for (uint32_t d = 0; d < 8; d++)
        cr_expect_eq(sp_cluster_number(cluster, d) / 4, d / 4);
    cr_expect_float_eq(cluster->levels[1].bandwidth, 1e8, 1);
    cr_expect_float_eq(cluster->levels[0].bandwidth, 3.75e7, 1, "six links between the quads, for four devices");
}

Test(cluster_links, nodes_of_unequal_size)
{
    const struct sp_cluster *cluster = cluster_of(
        "{\"device\": \"a100-sxm4-80gb\", \"count\": 9, \"switches\": [{\"name\": \"x\", \"members\": [0, 8], "
        "\"bandwidth\": 6e11}, {\"name\": \"y\", \"members\": [1, 2, 3, 4], \"bandwidth\": 1.2e12}, {\"name\": \"z\", "
        "\"members\": [5, 6, 7], \"bandwidth\": 9e11}, {\"name\": \"net\", \"members\": [\"x\", \"y\", \"z\"], "
        "\"bandwidth\": 9e10}]}");
    cluster_expect_numbers(cluster, 9, (uint32_t[]){1, 2, 3, 4, 5, 6, 7, 0, 8});
    cr_assert_not_null(cluster->place);
    cr_expect_eq(cluster->levels[0].size, 3);
    cr_expect_eq(cluster->levels[1].size, 4);
    for (uint32_t a = 0; a < 9; a++) {
        for (uint32_t b = 0; b < 9; b++) {
            static const char node[] = "xyyyyzzzx";
            if (a != b)
                cr_expect_eq(link_of(cluster, a, b)->bandwidth > 2e11, node[a] == node[b], "%u %u", a, b);
        }
    }
    cr_expect_str_eq(cluster_written(arena, cluster),
                     cluster_written(arena, cluster_of(cluster_written(arena, cluster))));
    cr_expect_not(sp_cluster_can_grow(cluster, 0));
    cr_expect_not(sp_cluster_can_shrink(cluster, cluster->group_count - 1));
}

Test(cluster_links, beside_a_mesh)
{
    const struct sp_cluster *cluster = cluster_of(
        "{\"device\": \"l4-24gb\", \"count\": 4, \"mesh\": [{\"name\": \"pcie\", \"size\": 4, \"bandwidth\": 2e10}], "
        "\"links\": [" PAIR(0, 3, 50) "]}");
    cr_expect_eq(link_of(cluster, 0, 3)->bandwidth, 50e9);
    cr_expect_eq(link_of(cluster, 0, 1)->send_bandwidth > 0 ? link_of(cluster, 0, 1)->send_bandwidth
                                                            : link_of(cluster, 0, 1)->bandwidth,
                 2e10);
    cr_expect_not(cluster->links_assumed);
    cr_expect_str_eq(cluster_written(arena, cluster),
                     cluster_written(arena, cluster_of(cluster_written(arena, cluster))));
}

Test(cluster_links, refusals)
{
#define SWITCH(members) "\"switches\": [{\"name\": \"s\", \"bandwidth\": 1e9, \"members\": " members "}]"
    static const struct {
        const char *members, *where, *mentions;
    } cases[] = {
        {"\"links\": []", "/links", "1 to"},
        {"\"links\": {}", "/links", "1 to"},
        {"\"links\": [3]", "/links/0", "object"},
        {"\"links\": [{\"between\": [0, 1]}]", "/links/0", "'bandwidth'"},
        {"\"links\": [{\"between\": [0], \"bandwidth\": 1e9}]", "/links/0/between", "two ends"},
        {"\"links\": [{\"between\": [0, 0], \"bandwidth\": 1e9}]", "/links/0/between/1", "twice"},
        {"\"links\": [{\"between\": [0, 4], \"bandwidth\": 1e9}]", "/links/0/between/1", "0 to 3"},
        {"\"links\": [{\"between\": [0, \"x\"], \"bandwidth\": 1e9}]", "/links/0/between/1", "no switch 'x'"},
        {"\"links\": [{\"between\": [0, 1], \"bandwidth\": 0}]", "/links/0/bandwidth", "bytes per second"},
        {"\"links\": [{\"between\": [0, 1], \"bandwidth\": 1e9, \"width\": 2}]", "/links/0/width", "unknown"},
        {SWITCH("[]"), "/switches/0/members", "one at least"},
        {SWITCH("[0, \"s\"]"), "/switches/0/members/1", "before this one"},
        {SWITCH("[0, 1, 1]"), "/switches/0/members/2", "twice"},
        {"\"switches\": [{\"name\": \"s\", \"members\": [0, 1]}]", "/switches/0", "'bandwidth'"},
        {"\"switches\": [{\"name\": \"s\", \"bandwidth\": 1, \"members\": [0]}, {\"name\": \"s\", \"bandwidth\": 1, "
         "\"members\": [2]}]",
         "/switches/1", "same name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_cluster *cluster = NULL;
        struct sp_error err;
        char text[512];
        (void)snprintf(text, sizeof text, "{\"device\": \"l4-24gb\", \"count\": 4, %s}", cases[i].members);
        cr_expect_eq(parse(text, &cluster, &err), SP_ERR_REQUEST, "%s", text);
        cr_expect_str_eq(err.where, cases[i].where, "%s: %s", text, err.message);
        cr_expect_not_null(strstr(err.message, cases[i].mentions), "%s: %s", text, err.message);
    }
    struct sp_cluster *cluster = NULL;
    struct sp_error err;
    cr_expect_eq(parse("{\"count\": 3, \"device\": {\"name\": \"d\", \"memory_bytes\": 1e9, \"memory_bandwidth\": 1e9, "
                       "\"flops\": {\"int8\": 1}}, \"links\": [" PAIR(0, 1, 1) "]}",
                       &cluster, &err),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "CLUSTER_LINK");
    cr_expect_str_eq(err.where, "/links");
    cr_expect_not_null(strstr(err.message, "devices 0 and 2"), "%s", err.message);
    cr_expect_eq(parse("{\"device\": \"l4-24gb\", \"count\": 200, \"links\": [" PAIR(0, 1, 1) "]}", &cluster, &err),
                 SP_ERR_REQUEST);
    cr_expect_not_null(strstr(err.message, "at most 128"), "%s", err.message);
}
