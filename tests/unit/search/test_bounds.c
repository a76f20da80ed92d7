#include <criterion/criterion.h>
#include <math.h>

#include "random_workload.h"
#include "search/joint/bounds.h"

#define DEVICES_3 3
#define TWO_KINDS                                                                                                      \
    "{\"groups\": [{\"name\": \"fast\", \"count\": 1, \"device\": {\"name\": \"f\", \"memory_bytes\": 100,"            \
    " \"memory_bandwidth\": 100, \"flops\": {\"float32\": 200}}}, {\"name\": \"slow\", \"count\": 2, \"device\":"      \
    " {\"name\": \"s\", \"memory_bytes\": 100, \"memory_bandwidth\": 100, \"flops\": {\"float32\": 100}}}],"           \
    " \"mesh\": [{\"size\": 3, \"bandwidth\": 1e9, \"latency\": 0}]}"
#define ONE_KIND                                                                                                       \
    "{\"groups\": [{\"count\": 3, \"device\": {\"name\": \"f\", \"memory_bytes\": 100, \"memory_bandwidth\": 100,"     \
    " \"flops\": {\"float32\": 200}}}], \"mesh\": [{\"size\": 3, \"bandwidth\": 1e9, \"latency\": 0}]}"

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

TestSuite(bounds, .init = setup, .fini = teardown);

static struct sp_lower_bounds bounds_of(const struct sp_workload *work, const struct sp_cluster *cluster)
{
    struct sp_lower_bounds bounds = {0, 0};
    cr_assert_eq(sp_lower_bounds(arena, work, cluster, &bounds, &err), SP_OK, "%s", err.message);
    return bounds;
}

static struct sp_workload *independent_nodes(const struct sp_cluster *cluster, uint32_t count, double seconds)
{
    struct sp_workload *work = workload_new(arena, cluster);
    uint32_t x = workload_input(work, 1);
    for (uint32_t i = 0; i < count; i++)
        (void)workload_result(work, workload_node(work, seconds, 1, &x), 1);
    workload_finish(work);
    return work;
}

/* Six nodes of 2 s on three equal devices: 12 / 3 = 4. */
Test(bounds, equal_devices_share_the_work)
{
    struct sp_cluster *cluster = cluster_from(arena, ONE_KIND);
    struct sp_lower_bounds bounds = bounds_of(independent_nodes(cluster, 6, 2), cluster);
    cr_assert_float_eq(bounds.interval_seconds, 4, 1e-9);
    cr_assert_float_eq(bounds.latency_seconds, 4, 1e-9);
}

/* Four nodes of 2 s on one device: exactly the sum, and exactly what the evaluation says. */
Test(bounds, one_device_is_exact)
{
    struct sp_cluster *cluster = sp_cluster_prefix(arena, cluster_from(arena, ONE_KIND), 1);
    struct sp_workload *work = independent_nodes(cluster, 4, 0.1);
    struct sp_placement placement = {1, (uint32_t[]){0, 0, 0, 0}, (uint32_t[]){0}};
    struct sp_evaluation *evaluation;
    struct sp_lower_bounds bounds = bounds_of(work, cluster);
    cr_assert_eq(sp_evaluate(arena, work, cluster, &placement, &evaluation, &err), SP_OK);
    cr_assert_eq(bounds.interval_seconds, evaluation->interval_seconds);
    cr_assert_eq(bounds.latency_seconds, evaluation->latency_seconds);
}

/* A kind that is twice as fast for every node: 12 nodes, 1 s on it and 2 s on the two others. Speeds 1 + 2 * 1/2 = 2
   nodes per second in all: 6 s. Equal weights would only prove 12 * 1 / 3 = 4. */
Test(bounds, uniformly_faster_kind)
{
    struct sp_cluster *cluster = cluster_from(arena, TWO_KINDS);
    struct sp_workload *work = independent_nodes(cluster, 12, 1);
    for (uint32_t i = 0; i < 12; i++)
        work->nodes[i].seconds[1] = 2;
    cr_assert_float_eq(bounds_of(work, cluster).interval_seconds, 6, 1e-9);
}

/*
 * Kinds good at different nodes: six A nodes take 1 s on the fast device and 100 s on a slow one, six B nodes 100 s and
 * 1 s. With a share f of A on the slow devices the fast one takes 6 - f and the slow ones 3 + 50 f each; they meet at
 * f = 3/51, 5.941 s. In proportion to total speed (606 s each) only 12 / 3 = 4 would be proved.
 */
Test(bounds, search_finds_better_weights)
{
    struct sp_cluster *cluster = cluster_from(arena, TWO_KINDS);
    struct sp_workload *work = independent_nodes(cluster, 12, 1);
    for (uint32_t i = 0; i < 12; i++)
        work->nodes[i].seconds[i % 2] = 100;
    double bound = bounds_of(work, cluster).interval_seconds;
    cr_assert(bound > 5.9 && bound <= 6 - 3 / 51.0 + 1e-9, "%g", bound);
}

/* One heavy node: nothing can be faster than it on its fastest device. */
Test(bounds, slowest_node)
{
    struct sp_cluster *cluster = cluster_from(arena, TWO_KINDS);
    struct sp_workload *work = independent_nodes(cluster, 3, 1);
    work->nodes[1].seconds[0] = 40;
    work->nodes[1].seconds[1] = 30;
    cr_assert_float_eq(bounds_of(work, cluster).interval_seconds, 30, 1e-9);
}

/* A chain of 1 + 2 + 3 s beside one of 4: 6 s; folded nodes take no time and no part in paths. */
Test(bounds, longest_path)
{
    struct sp_cluster *cluster = cluster_from(arena, ONE_KIND);
    struct sp_workload *work = workload_new(arena, cluster);
    uint32_t x = workload_input(work, 1), t = x, w = workload_weight(work, 1);
    uint32_t folded = workload_node(work, 9, 1, &w);
    work->nodes[folded].folded = true;
    w = workload_result(work, folded, 1);
    for (int i = 1; i <= 3; i++)
        t = workload_result(work, workload_node(work, i, 2, (uint32_t[]){t, w}), 1);
    (void)workload_result(work, workload_node(work, 4, 1, &x), 1);
    workload_finish(work);
    struct sp_lower_bounds bounds = bounds_of(work, cluster);
    cr_assert_float_eq(bounds.latency_seconds, 6, 1e-9);
    cr_assert_float_eq(bounds.interval_seconds, 4, 1e-9);
}

/* Three nodes between two others, each 1 s to start and 1 s of work that three devices share: what is before and behind
   takes 1 + 1/3, and the three 3 * 2 / 3 between them. A path of three nodes takes 4, and all the work 10 / 3. */
Test(bounds, parts_of_a_path_add_up)
{
    struct sp_cluster *cluster = cluster_from(arena, ONE_KIND);
    struct sp_workload *work = workload_new(arena, cluster);
    struct sp_lower_bounds bounds;
    double start = 1;
    uint32_t x = workload_input(work, 1), between[3];
    const uint32_t first = workload_result(work, workload_node(work, 2, 1, &x), 1);
    for (uint32_t i = 0; i < 3; i++)
        between[i] = workload_result(work, workload_node(work, 2, 1, &first), 1);
    (void)workload_result(work, workload_node(work, 2, 3, between), 1);
    workload_finish(work);
    for (uint32_t n = 0; n < work->node_count; n++)
        work->nodes[n].start_seconds = &start;
    cr_assert_eq(sp_joint_bounds(arena, work, cluster, &bounds, &err), SP_OK, "%s", err.message);
    cr_assert_float_eq(bounds.latency_seconds, 4.0 / 3 + 2 + 4.0 / 3, 1e-9);
}

Test(bounds, nothing_to_do)
{
    struct sp_cluster *cluster = cluster_from(arena, TWO_KINDS);
    struct sp_lower_bounds bounds = bounds_of(independent_nodes(cluster, 2, 0), cluster);
    cr_assert_eq(bounds.interval_seconds, 0);
    cr_assert_eq(bounds.latency_seconds, 0);
}

/* ---- every placement of small graphs --------------------------------------------------------------------------- */

static bool is_monotone(const struct sp_workload *work, const uint32_t *stage_of)
{
    for (uint32_t n = 0; n < work->node_count; n++) {
        for (uint32_t i = 0; !work->nodes[n].folded && i < work->nodes[n].input_count; i++) {
            const struct sp_work_tensor *tensor = &work->tensors[work->nodes[n].inputs[i]];
            if (tensor->kind == SP_WORK_ACTIVATION && stage_of[tensor->producer] > stage_of[n])
                return false;
        }
    }
    return true;
}

static void best_placement(const struct sp_workload *work, const struct sp_cluster *cluster, double *ret_interval,
                           double *ret_latency)
{
    static uint32_t orders[6][DEVICES_3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    uint32_t stage_of[WORKLOAD_NODES] = {0}, n = 0;
    *ret_interval = *ret_latency = INFINITY;
    while (n < work->node_count) {
        for (int order = 0; order < 6 && is_monotone(work, stage_of); order++) {
            struct sp_arena_mark mark = sp_arena_mark(arena);
            struct sp_placement placement = {DEVICES_3, stage_of, orders[order]};
            struct sp_evaluation *evaluation;
            cr_assert_eq(sp_evaluate(arena, work, cluster, &placement, &evaluation, &err), SP_OK);
            *ret_interval = fmin(*ret_interval, evaluation->interval_seconds);
            *ret_latency = fmin(*ret_latency, evaluation->latency_seconds);
            sp_arena_rewind(arena, mark);
        }
        for (n = 0; n < work->node_count && ++stage_of[n] == DEVICES_3; n++)
            stage_of[n] = 0;
    }
}

static void no_placement_is_better(const char *json, uint64_t seed)
{
    struct sp_cluster *cluster = cluster_from(arena, json);
    int tight = 0;
    for (int round = 0; round < 60; round++) {
        struct sp_workload *work = workload_random(arena, cluster, 2 + pick(&seed, 4), &seed);
        struct sp_lower_bounds bounds = bounds_of(work, cluster);
        double interval, latency;
        best_placement(work, cluster, &interval, &latency);
        cr_assert_leq(bounds.interval_seconds, interval);
        cr_assert_leq(bounds.latency_seconds, latency);
        tight += bounds.interval_seconds > 0.999 * interval;
    }
    cr_assert_gt(tight, 5, "bounds that are never reached prove nothing; %d were", tight);
}

Test(bounds, hold_for_every_placement_on_one_kind)
{
    no_placement_is_better(ONE_KIND, 11);
}

Test(bounds, hold_for_every_placement_on_two_kinds)
{
    no_placement_is_better(TWO_KINDS, 12);
}
