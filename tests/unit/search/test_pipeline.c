/* Stages of whole operators where memory is short: what is alive in a stage decides which cuts fit. */
#include <criterion/criterion.h>

#include "build_workload.h"
#include "recount.h"
#include "search/joint/run/run.h"

static struct sp_arena *arena;

static void setup(void)
{
    arena = sp_arena_create(NULL);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(pipeline, .init = setup, .fini = teardown);

static struct sp_search_result *search(const struct sp_workload *workload, const struct sp_cluster *cluster,
                                       enum sp_objective objective, enum sp_search_strategy strategy)
{
    struct sp_joint_options options;
    struct sp_search_result *result = NULL;
    struct sp_error error = {0};
    sp_joint_options_init(&options);
    options.objective = objective;
    options.strategy = strategy;
    cr_assert_eq(sp_joint_search(arena, workload, NULL, cluster, &options, &result, &error), SP_OK, "%s",
                 error.message);
    recount_expect_result(workload, cluster, result);
    sp_search_result_release(result); /* what is read of it is in the arena */
    return result;
}

/* A stem, inverted residuals that widen what they get sixfold, and a head, as in MobileNet: much is alive at first, and
   the weights come last. Sizes are kilobytes. */
static struct sp_workload *build_mobile(const struct sp_cluster *cluster)
{
    static const struct {
        uint32_t blocks;
        double wide, narrow, weights;
    } groups[] = {{1, 6400, 3200, 2},  {2, 9600, 1200, 30},  {3, 3600, 400, 90},
                  {4, 1200, 200, 400}, {3, 1800, 300, 1000}, {4, 500, 100, 2500}};
    struct work_builder b;
    work_init(&b, arena, 100, 300, 1);
    uint32_t at = WORK_NODE(&b, 0.9, 6400, work_input(&b, 9600), work_weight(&b, 4));
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (uint32_t i = 0; i < groups[g].blocks; i++) {
            uint32_t wide = WORK_NODE(&b, 0.6, groups[g].wide, at, work_weight(&b, groups[g].weights / 2));
            uint32_t deep = WORK_NODE(&b, 0.5, groups[g].wide / (i == 0 && g > 0 ? 2 : 1), wide, work_weight(&b, 1));
            uint32_t narrow = WORK_NODE(&b, 0.4, groups[g].narrow, deep, work_weight(&b, groups[g].weights / 2));
            at = i == 0 ? narrow : WORK_NODE(&b, 0.1, groups[g].narrow, narrow, at);
        }
    }
    WORK_NODE(&b, 0.5, 10, at, work_weight(&b, 5000));
    return work_finish(&b, cluster);
}

/* What fits with stages of grouping fits with those of the search for stages, and for each objective as well. The first
   stage has the input to its end. It needs least where it ends behind the first block of the second group: 9600 of the
   input, 9600 and 4800 at the widest node, 2 * 1200 to send, and weights of 38: 26438. */
Test(pipeline, stages_of_a_mobile_network_fit_where_grouping_fits)
{
    for (uint32_t limit = 26438; limit < 45000; limit += 1500) {
        struct sp_cluster *cluster = build_cluster(arena, 4, limit, 1e5, 1e-6);
        struct sp_workload *workload = build_mobile(cluster);
        struct sp_search_result *grouping = search(workload, cluster, SP_OBJECTIVE_THROUGHPUT, SP_STRATEGY_GROUPING);
        struct sp_search_result *pipeline = search(workload, cluster, SP_OBJECTIVE_THROUGHPUT, SP_STRATEGY_PIPELINE);
        cr_expect_leq(pipeline->evaluation->interval_seconds, grouping->evaluation->interval_seconds * (1 + 1e-9),
                      "at %u", limit);
        (void)search(workload, cluster, SP_OBJECTIVE_LATENCY, SP_STRATEGY_PIPELINE);
        (void)search(workload, cluster, SP_OBJECTIVE_DEVICES, SP_STRATEGY_PIPELINE);
    }
}

/* A way of searching that fails is no reason for no plan; where nothing comes of the others, it is the answer. */
Test(pipeline, a_way_that_fails_ends_no_search)
{
    struct sp_error error = {0};
    struct sp_search_run search = {.err = &error};
    cr_expect_eq(sp_run_go_on_after(&search, SP_OK), SP_OK);
    cr_expect_eq(search.failure.status, SP_OK);
    enum sp_status status = sp_fail(&error, SP_ERR_INTERNAL, "FIRST", "The first one.");
    cr_expect_eq(sp_run_go_on_after(&search, status), SP_OK);
    cr_expect_eq(error.status, SP_OK);
    status = sp_fail(&error, SP_ERR_LIMIT, "SECOND", "The second one.");
    cr_expect_eq(sp_run_go_on_after(&search, status), SP_OK);
    cr_expect_str_eq(search.failure.code, "FIRST");
    cr_expect_eq(search.failure.status, SP_ERR_INTERNAL);
    static const enum sp_status ends[] = {SP_ERR_MEMORY, SP_ERR_CANCELLED, SP_ERR_REQUEST};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        cr_expect_eq(sp_run_go_on_after(&search, ends[i]), ends[i]);

    struct sp_cluster *cluster = build_cluster(arena, 4, 1e12, 1e12, 1e-9);
    struct sp_workload *workload = build_transformer(arena, cluster, 4, 64);
    struct sp_joint_options options;
    struct sp_search_result *result = NULL;
    workload->tensors[workload->nodes[2].outputs[0]].producer = workload->node_count - 1; /* no order is right */
    sp_joint_options_init(&options);
    cr_expect_neq(sp_joint_search(arena, workload, NULL, cluster, &options, &result, &error), SP_OK);
    cr_expect_neq(error.code[0], '\0');
}

/* A decoder with a cache that comes in and goes out: each layer gets past keys and values, and nobody uses the ones
   that it makes. They are alive in its stage alone, and all of them to its end: in one of two layers 2 * (100 + 101),
   beside 101 that are being copied, weights of 10, the 3 that go from node to node, and two buffers for what leaves. */
Test(pipeline, caches_that_come_in_and_go_out_are_alive_in_their_own_stage)
{
    struct sp_cluster *cluster = build_cluster(arena, 2, 518, 1e5, 1e-6);
    struct work_builder b;
    work_init(&b, arena, 40, 100, 1);
    uint32_t at = work_input(&b, 1);
    for (uint32_t layer = 0; layer < 4; layer++) {
        uint32_t past = work_input(&b, 100);
        uint32_t query = WORK_NODE(&b, 1, 1, at, work_weight(&b, 5));
        uint32_t present = WORK_NODE(&b, 1, 101, query, past);
        uint32_t mixed = WORK_NODE(&b, 1, 1, query, present);
        WORK_NODE(&b, 0.1, 101, present);
        at = WORK_NODE(&b, 1, 1, mixed, at);
    }
    struct sp_workload *workload = work_finish(&b, cluster);
    for (enum sp_objective objective = SP_OBJECTIVE_THROUGHPUT; objective <= SP_OBJECTIVE_DEVICES; objective++) {
        struct sp_search_result *result = search(workload, cluster, objective, SP_STRATEGY_PIPELINE);
        cr_expect_eq(result->placement.stage_count, 2);
    }
}

/* Two nodes of two devices: links between them are slow, so that three stages are worse than two in one node. */
Test(pipeline, stages_stay_where_links_are_fast)
{
    struct sp_cluster *cluster = build_cluster(arena, 4, 1e9, 1e5, 1e-6);
    struct sp_mesh_level levels[2] = {{.name = "out", .size = 2, .bandwidth = 1, .latency = 1},
                                      {.name = "in", .size = 2, .bandwidth = 1e5, .latency = 1e-6}};
    cluster->levels = levels;
    cluster->level_count = 2;
    struct work_builder b;
    work_init(&b, arena, 12, 30, 1);
    uint32_t at = work_input(&b, 100);
    for (uint32_t i = 0; i < 12; i++)
        at = WORK_NODE(&b, 1, 100, at);
    struct sp_search_result *result =
        search(work_finish(&b, cluster), cluster, SP_OBJECTIVE_THROUGHPUT, SP_STRATEGY_PIPELINE);
    cr_expect_eq(result->placement.stage_count, 2);
    cr_expect_float_eq(result->evaluation->interval_seconds, 6, 1e-9);
}
