/*
 * Meshes of blocks that end an axis inside a level of links, or span one and part of the next; and a model that is
 * quickest on one.
 */
#include <criterion/criterion.h>

#include "build_model.h"
#include "infer/dataflow.h"
#include "random_workload.h"
#include "recount.h"
#include "search/joint/joint.h"
#include "search/joint/stage_options.h"

static const char *const eight_by_eight =
    "{\"groups\": [{\"name\": \"a\", \"count\": 64, \"device\": \"a100-sxm4-80gb\"}],"
    " \"mesh\": [{\"name\": \"node\", \"size\": 8, \"bandwidth\": 25e9, \"latency\": 4e-6},"
    "            {\"name\": \"gpu\", \"size\": 8, \"bandwidth\": 300e9, \"latency\": 1.9e-6}]}";
static const char *const twelve =
    "{\"groups\": [{\"name\": \"a\", \"count\": 12, \"device\": \"a100-sxm4-80gb\"}],"
    " \"mesh\": [{\"name\": \"gpu\", \"size\": 12, \"bandwidth\": 300e9, \"latency\": 1.9e-6}]}";
static const char *const two_by_twelve =
    "{\"groups\": [{\"name\": \"a\", \"count\": 24, \"device\": \"a100-sxm4-80gb\"}],"
    " \"mesh\": [{\"name\": \"node\", \"size\": 2, \"bandwidth\": 25e9, \"latency\": 4e-6},"
    "            {\"name\": \"gpu\", \"size\": 12, \"bandwidth\": 300e9, \"latency\": 1.9e-6}]}";

static struct build build;
static struct sp_arena *arena;
static struct sp_cluster *cluster;
static struct sp_workload *workload;

/* The products of [6, 1021, 8191] with [8191, 2 * 8191]: apart from 6 and 2 only primes, which no mesh here divides. */
static void begin(const char *devices)
{
    struct sp_error err = {0};
    arena = sp_arena_create(NULL);
    cluster = cluster_from(arena, devices);
    build_init(&build, 21);
    build_input(&build, "x", SP_DTYPE_FLOAT, "6,1021,8191");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "8191,16382");
    build_node(&build, "MatMul", "x w", "y");
    build_node(&build, "Relu", "y", "z");
    cr_assert_eq(build_infer(&build), SP_OK, "%s", build.err.message);
    cr_assert_eq(sp_workload_from_model(arena, build.model, cluster, NULL, &workload, &err), SP_OK, "%s", err.message);
}

static void end(void)
{
    sp_arena_destroy(arena);
    build_release(&build);
}

TestSuite(meshes, .fini = end);

static struct sp_space *make_space(void)
{
    struct sp_space *space;
    cr_assert_eq(sp_space_create(arena, workload, cluster, cluster->device_count, &space, NULL), SP_OK);
    return space;
}

static const struct sp_space_option *option_of(const struct sp_space *space, uint32_t size)
{
    for (uint32_t i = 0; i < space->option_count; i++) {
        if (space->options[i].size == size)
            return &space->options[i];
    }
    cr_assert_fail("there are no blocks of %u devices", size);
    return NULL;
}

static void expect_cuts(const struct sp_space *space, uint32_t size, uint32_t count, const uint32_t *wanted)
{
    uint32_t cuts[SP_SPACE_CUTS];
    cr_assert_eq(sp_space_cuts(option_of(space, size), cuts), count, "blocks of %u", size);
    for (uint32_t i = 0; i < count; i++)
        cr_expect_eq(cuts[i], wanted[i], "blocks of %u: %u, not %u", size, cuts[i], wanted[i]);
}

/* Blocks of 64 have the mesh 8 x 2 x 4, of 16 the mesh 2 x 2 x 4: these end axes at 4 and 8 devices. */
Test(meshes, cuts_where_the_own_mesh_has_none)
{
    begin(eight_by_eight);
    const struct sp_space *space = make_space();
    expect_cuts(space, 1, 0, NULL);
    expect_cuts(space, 2, 0, NULL);
    expect_cuts(space, 4, 1, (uint32_t[]){2});
    expect_cuts(space, 8, 1, (uint32_t[]){2});
    expect_cuts(space, 16, 1, (uint32_t[]){2});
    expect_cuts(space, 32, 2, (uint32_t[]){2, 16});
    expect_cuts(space, 64, 3, (uint32_t[]){2, 16, 32});
}

/* A part of 8 would be one node's devices and none, or part of another's, in turn. */
Test(meshes, cuts_no_level_unevenly)
{
    begin(two_by_twelve);
    const struct sp_space *space = make_space();
    expect_cuts(space, 12, 3, (uint32_t[]){2, 3, 6});
    expect_cuts(space, 24, 3, (uint32_t[]){2, 3, 6});
}

Test(meshes, adds_options_behind_the_others)
{
    begin(eight_by_eight);
    struct sp_space *space = make_space();
    const struct sp_space_option *option = option_of(space, 64);
    const uint32_t before = space->option_count;
    const struct sp_space_option *further = sp_space_add_mesh(space, option, 16);
    cr_assert_not_null(further);
    cr_expect_eq(space->option_count, before + 1);
    cr_expect_eq(further, &space->options[before]);
    cr_expect(further->is_further && !option->is_further);
    cr_expect_eq(further->size, 64);
    cr_expect_eq(further->mesh.axis_count, 2);
    cr_expect_eq(further->mesh.size[0], 4);
    cr_expect_eq(further->mesh.size[1], 16);
    cr_expect_eq(further->mesh.links.levels, further->levels);
    cr_expect_eq(further->mesh.links.level_count, 2);
    cr_expect_eq(option->mesh.axis_count, 3);
    cr_expect_eq(sp_space_place(space, further, 1, 0), 0);
    for (uint32_t i = 1; i < SP_SPACE_MAX_MESHES; i++)
        cr_assert_not_null(sp_space_add_mesh(space, option, 2));
    uint32_t most = 0;
    while (sp_space_add_mesh(space, option, 2) != NULL)
        most++;
    cr_expect_eq(space->option_count, SP_SPACE_MAX_OPTIONS + SP_SPACE_MAX_MESHES, "%u more", most);
}

/* The block of 12 devices has the mesh 3 x 4, on which three of them can share the work; 6 devices have an axis of 6.
   Only an axis of 6 and one of 2 give all twelve a part. */
static void expect_all_twelve(enum sp_objective objective, enum sp_search_strategy strategy)
{
    struct sp_joint_options options;
    struct sp_search_result *result;
    struct sp_error err = {0};
    struct sp_dataflow *dataflow;
    begin(twelve);
    cr_assert_eq(sp_dataflow_create(arena, build.model, &dataflow, &err), SP_OK, "%s", err.message);
    sp_joint_options_init(&options);
    options.objective = objective;
    options.strategy = strategy;
    cr_assert_eq(sp_joint_search(arena, workload, dataflow, cluster, &options, &result, &err), SP_OK, "%s",
                 err.message);
    recount_expect_result(workload, cluster, result);
    double whole = 0;
    for (uint32_t n = 0; n < workload->node_count; n++)
        whole += workload->nodes[n].folded ? 0 : workload->nodes[n].seconds[0];
    cr_assert_eq(result->placement.stage_count, 1);
    cr_assert_not_null(result->sharded);
    const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(result->sharded[0].table);
    cr_expect_eq(mesh->axis_count, 2);
    cr_expect_eq(mesh->size[0] * mesh->size[1], 12);
    cr_expect(mesh->size[0] == 2 || mesh->size[0] == 6, "%u x %u", mesh->size[0], mesh->size[1]);
    cr_expect_leq(result->evaluation->latency_seconds, 1.05 * whole / 12);
    sp_search_result_release(result);
}

Test(meshes, is_quickest_on_another_mesh)
{
    expect_all_twelve(SP_OBJECTIVE_LATENCY, SP_STRATEGY_AUTO);
}

Test(meshes, is_quickest_in_one_stage)
{
    expect_all_twelve(SP_OBJECTIVE_THROUGHPUT, SP_STRATEGY_TENSOR);
}
