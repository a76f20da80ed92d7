/*
 * One stage of unequal devices: what the search finds against every division in up to eight blocks, each with strategies
 * chosen for it and evaluated on its own.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "build_model.h"
#include "expect_op.h"
#include "search/joint/evaluate.h"
#include "search/joint/joint.h"
#include "search/joint/model_choice.h"
#include "search/joint/stage_options.h"

#define PROBLEMS    40
#define LAYERS      6
#define TINY_LAYERS 3 /* few enough nodes for every other plan to be tried */
#define MOST_BLOCKS 8

struct problem {
    struct build build;
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_workload *workload;
    struct sp_dataflow *dataflow;
    double best; /* of every division */
};

static uint64_t state;

static uint32_t below(uint32_t bound)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % bound;
}

/* Products with weights of 48 x 48, which most numbers of blocks divide. */
static void make_model(struct problem *problem, uint32_t layers)
{
    char inputs[64], output[16], weight[16];
    build_init(&problem->build, 21);
    build_input(&problem->build, "t0", SP_DTYPE_FLOAT, "7,48");
    for (uint32_t i = 0; i < layers; i++) {
        (void)snprintf(weight, sizeof weight, "w%u", i);
        build_weight(&problem->build, weight, SP_DTYPE_FLOAT, "48,48");
        (void)snprintf(inputs, sizeof inputs, "t%u w%u", i, i);
        (void)snprintf(output, sizeof output, "p%u", i);
        build_node(&problem->build, "MatMul", inputs, output);
        (void)snprintf(inputs, sizeof inputs, "p%u", i);
        (void)snprintf(output, sizeof output, "t%u", i + 1);
        build_node(&problem->build, "Tanh", inputs, output);
    }
    build_outputs(&problem->build, output);
    cr_assert_eq(build_infer(&problem->build), SP_OK, "%s", problem->build.err.message);
}

/* Devices of different speed, and now and then of little memory: the weights are 9 kB a layer. */
static void make_cluster(struct problem *problem, uint32_t devices, uint32_t layers)
{
    json_t *groups = json_array();
    for (uint32_t d = 0; d < devices; d++) {
        const double speed = 1 + below(4), memory = below(3) == 0 ? layers * (5000.0 + below(6667)) : 1e9;
        char name[16];
        (void)snprintf(name, sizeof name, "d%u", d);
        json_t *device = json_pack("{s:s, s:f, s:f, s:{s:f}}", "name", name, "memory_bytes", memory, "memory_bandwidth",
                                   speed * 1e7, "flops", "float32", speed * 1e8);
        (void)json_array_append_new(groups, json_pack("{s:i, s:o}", "count", 1, "device", device));
    }
    json_t *json =
        json_pack("{s:o, s:[{s:s, s:i, s:f, s:f}], s:f, s:s}", "groups", groups, "mesh", "name", "in", "size",
                  (int)devices, "bandwidth", 1e9, "latency", 1e-7, "launch_seconds", 1e-7, "runtime", "generic");
    struct sp_error err = {0};
    cr_assert_eq(sp_cluster_parse(problem->arena, json, "", &problem->cluster, &err), SP_OK, "%s", err.message);
    json_decref(json);
}

static void open_problem(struct problem *problem, uint32_t devices, uint32_t layers)
{
    struct sp_error err = {0};
    *problem = (struct problem){.arena = sp_arena_create(NULL), .best = INFINITY};
    make_model(problem, layers);
    make_cluster(problem, devices, layers);
    cr_assert_eq(
        sp_workload_from_model(problem->arena, problem->build.model, problem->cluster, NULL, &problem->workload, &err),
        SP_OK, "%s", err.message);
    cr_assert_eq(sp_dataflow_create(problem->arena, problem->build.model, &problem->dataflow, &err), SP_OK);
}

static void close_problem(struct problem *problem)
{
    sp_arena_destroy(problem->arena);
    build_release(&problem->build);
}

/* Strategies for these shares, evaluated; the best that fits is kept. */
static void try_shares(struct problem *problem, uint32_t devices, const uint32_t *shares)
{
    struct sp_arena *scratch = sp_arena_create(NULL);
    struct sp_space *space;
    struct sp_error err = {0};
    struct sp_model_choice *choice = NULL;
    struct sp_evaluation *evaluation;
    uint32_t *nodes = SP_NEW_ARRAY(scratch, problem->workload->node_count, uint32_t), count = 0;
    uint32_t *stage_of = SP_NEW_ARRAY(scratch, problem->workload->node_count, uint32_t);
    uint32_t *strategies = SP_NEW_ARRAY(scratch, problem->workload->node_count, uint32_t);
    uint32_t device = 0, size = devices, replicas = 1;
    cr_assert_eq(sp_space_create(scratch, problem->workload, problem->cluster, devices, &space, &err), SP_OK);
    struct sp_profile_request request = {.workload = problem->workload,
                                         .option = sp_space_add_shares(space, problem->workload, 0, devices, shares),
                                         .memory_limit = INFINITY,
                                         .choice_work = 1000000};
    cr_assert_eq(sp_strategy_table_create(scratch, problem->workload, problem->dataflow, &request.option->mesh, NULL,
                                          &request.table, &err),
                 SP_OK, "%s", err.message);
    cr_assert_eq(sp_profile_create(scratch, &request, &choice, &err), SP_OK, "%s", err.message);
    for (uint32_t n = 0; n < problem->workload->node_count; n++)
        if (!problem->workload->nodes[n].folded) {
            strategies[count] = choice->strategy_of[n];
            nodes[count++] = n;
        }
    struct sp_sharded_stage sharded = {
        .table = request.table, .nodes = nodes, .node_count = count, .strategy_of = strategies};
    struct sp_placement placement = {.stage_count = 1,
                                     .stage_of = stage_of,
                                     .stage_device = &device,
                                     .stage_size = &size,
                                     .stage_replicas = &replicas};
    cr_assert_eq(
        sp_joint_evaluate(scratch, problem->workload, problem->cluster, &placement, &sharded, &evaluation, &err), SP_OK,
        "%s", err.message);
    if (evaluation->worst_excess_bytes <= 0)
        problem->best = fmin(problem->best, evaluation->latency_seconds);
    sp_strategy_table_destroy(request.table);
    sp_arena_destroy(scratch);
}

/* All divisions of up to MOST_BLOCKS blocks. */
static void try_all(struct problem *problem, uint32_t devices)
{
    uint32_t shares[4] = {1, 1, 1, 1};
    for (;;) {
        uint32_t sum = 0, d = 0;
        for (uint32_t i = 0; i < devices; i++)
            sum += shares[i];
        if (sum <= MOST_BLOCKS)
            try_shares(problem, devices, shares);
        while (d < devices && ++shares[d] > MOST_BLOCKS)
            shares[d++] = 1;
        if (d == devices)
            return;
    }
}

/* Each device's own memory, and the shares of the devices, whose sum is the mesh. */
static void expect_sound(const struct problem *problem, const struct sp_search_result *result)
{
    const struct sp_evaluation *evaluation = result->evaluation;
    const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(result->sharded[0].table);
    uint32_t blocks = 0;
    double weights = 0;
    for (uint32_t d = 0; d < mesh->member_count; d++) {
        const struct sp_stage_cost *own = &evaluation->members[d];
        cr_expect_leq(own->total_bytes, sp_cluster_memory(problem->cluster, d));
        cr_expect_float_eq(own->capacity_bytes, sp_cluster_memory(problem->cluster, d), 1);
        weights += own->weights_bytes;
        blocks += mesh->members[d].share;
    }
    cr_expect_eq(blocks, mesh->size[0]);
    cr_expect_geq(weights, problem->workload->weight_bytes * (1 - 1e-9));
}

static bool go_on(void *context, const char *phase, double fraction, double best_seconds, double lower_bound_seconds)
{
    (void)context, (void)phase, (void)fraction, (void)best_seconds, (void)lower_bound_seconds;
    return true;
}

static void expect_near(uint32_t layers)
{
    const struct sp_watch watch = {.tick = go_on}; /* the bound is found before there are shares */
    unsigned with_shares = 0;
    for (unsigned i = 0; i < PROBLEMS; i++) {
        struct problem problem;
        struct sp_joint_options options;
        struct sp_search_result *result = NULL;
        struct sp_error err = {0};
        state = i;
        const uint32_t devices = 2 + i % 3;
        open_problem(&problem, devices, layers);
        try_all(&problem, devices);
        sp_joint_options_init(&options);
        options.objective = SP_OBJECTIVE_LATENCY;
        options.strategy = SP_STRATEGY_AUTO;
        options.tolerance = 0;
        options.watch = &watch;
        const enum sp_status status = sp_joint_search(problem.arena, problem.workload, problem.dataflow,
                                                      problem.cluster, &options, &result, &err);
        if (isfinite(problem.best)) {
            cr_assert_eq(status, SP_OK, "%u: %s", i, err.message);
            cr_expect_leq(result->evaluation->latency_seconds, problem.best * 1.03, "%u: %g, not %g", i,
                          result->evaluation->latency_seconds, problem.best);
        }
        if (status == SP_OK) {
            cr_expect_geq(result->evaluation->latency_seconds, result->bounds.latency_seconds * (1 - 1e-9));
            if (result->evaluation->members != NULL) {
                with_shares++;
                expect_sound(&problem, result);
            }
        }
        sp_search_result_release(result);
        close_problem(&problem);
    }
    cr_expect_geq(with_shares, PROBLEMS / 2);
}

Test(shares, near_every_division)
{
    expect_near(LAYERS);
}

Test(shares, near_every_division_of_tiny_models)
{
    expect_near(TINY_LAYERS);
}
