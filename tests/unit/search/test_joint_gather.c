/*
 * Plans whose weights lie in shards and are gathered: the search against every plan there is (every_plan.h), and what a
 * way that gathers is beside the same one that does not.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "every_plan.h"
#include "how_many.h"
#include "recount.h"

#define PROBLEMS      60 /* usually, and */
#define MANY_PROBLEMS 2000

/* Devices that compute slowly beside their links, so that few bytes of weights come while many rows are computed; their
   memory holds the weights of all products, or of some. */
static void fast_links(struct problem *problem, uint32_t devices)
{
    static const double flops[] = {1e8, 1e9, 1e10}, links[] = {1e8, 1e9, 1e11}, latencies[] = {0, 1e-7};
    static const double memories[] = {40e3, 47e3, 50e3, 53e3, 60e3, 1e6};
    char text[512];
    (void)snprintf(
        text, sizeof text,
        "{\"groups\":[{\"count\":%u,\"device\":{\"name\":\"a\",\"memory_bytes\":%g,\"memory_bandwidth\":1e11,"
        "\"flops\":{\"float32\":%g}}}],\"mesh\":[{\"name\":\"in\",\"size\":%u,\"bandwidth\":%g,"
        "\"latency\":%g}],\"launch_seconds\":0}",
        devices, memories[below(6)], flops[below(3)], devices, links[below(3)], latencies[below(2)]);
    json_t *json = json_loads(text, 0, NULL);
    struct sp_error err = {0};
    cr_assert_eq(sp_cluster_parse(problem->arena, json, "", &problem->cluster, &err), SP_OK, "%s: %s", text,
                 err.message);
    json_decref(json);
}

/* Products by weights of 9 kB each, one behind the other, now and then something else between them. */
static void chain(struct problem *problem, uint32_t nodes)
{
    char inputs[64], output[16], weight[16];
    build_init(&problem->build, 21);
    build_input(&problem->build, "t0", SP_DTYPE_FLOAT, "96,48");
    for (uint32_t i = 0; i < nodes; i++) {
        (void)snprintf(output, sizeof output, "t%u", i + 1);
        if (below(10) == 0) {
            (void)snprintf(inputs, sizeof inputs, "t%u", i);
            build_node(&problem->build, below(2) == 0 ? "Relu" : "Softmax", inputs, output);
            continue;
        }
        (void)snprintf(weight, sizeof weight, "w%u", i);
        (void)snprintf(inputs, sizeof inputs, "t%u %s", i, weight);
        build_weight(&problem->build, weight, SP_DTYPE_FLOAT, "48,48");
        build_node(&problem->build, "MatMul", inputs, output);
    }
    (void)snprintf(output, sizeof output, "t%u", nodes);
    build_outputs(&problem->build, output);
    cr_assert_eq(build_infer(&problem->build), SP_OK, "%s", problem->build.err.message);
}

static void open_problem(struct problem *problem)
{
    const uint32_t devices = below(4) == 0 ? 2 : 3, nodes = 4 + (below(3) == 0);
    *problem = (struct problem){.arena = sp_arena_create(NULL)};
    chain(problem, nodes);
    fast_links(problem, devices);
    prepare_problem(problem, devices);
    problem->options.skip_minimum_memory = true;
    problem->options.max_copies = 1;
}

/* How many of a plan's nodes gather, and what of them is not beside computing. */
static uint32_t count_gathered(const struct problem *problem, const struct sp_search_result *result)
{
    uint32_t count = 0;
    for (uint32_t s = 0; result->sharded != NULL && s < result->placement.stage_count; s++) {
        const struct sp_sharded_stage *stage = &result->sharded[s];
        for (uint32_t i = 0; stage->table != NULL && i < stage->node_count; i++) {
            const struct sp_strategies *strategies = sp_strategy_of(stage->table, stage->nodes[i]);
            count += strategies->items[stage->strategy_of[i]].gathered != SP_STRATEGY_NO_FACTOR;
        }
    }
    cr_expect(count == 0 || 2 * problem->workload->weight_bytes > sp_cluster_memory(problem->cluster, 0));
    return count;
}

/* The best of all plans has this value; *ret_gathered counts the nodes of ours that gather. */
static void compare(const struct problem *problem, const struct every *every, uint32_t number, uint32_t *ret_gathered)
{
    struct sp_search_result *result;
    struct sp_error err = {0};
    const bool is_latency = problem->options.objective == SP_OBJECTIVE_LATENCY;
    enum sp_status status = sp_joint_search(problem->arena, problem->workload, problem->dataflow, problem->cluster,
                                            &problem->options, &result, &err);
    *ret_gathered = 0;
    if (every->best == INFINITY) {
        cr_expect_eq(status, SP_ERR_NOFIT, "problem %u: nothing fits, but %s", number, err.message);
        return;
    }
    cr_assert_eq(status, SP_OK, "problem %u: %s", number, err.message);
    const struct sp_evaluation *evaluation = result->evaluation;
    const double value = is_latency ? evaluation->latency_seconds : evaluation->interval_seconds;
    cr_expect(is_near(value, every->best), "problem %u: %.17g, the best of %llu plans is %.17g", number, value,
              (unsigned long long)every->plans, every->best);
    cr_expect(evaluation->worst_excess_bytes <= 0, "problem %u: it does not fit", number);
    recount_expect_result(problem->workload, problem->cluster, result);
    cr_expect_geq(value * (1 + 1e-9), is_latency ? result->bounds.latency_seconds : result->bounds.interval_seconds);
    *ret_gathered = count_gathered(problem, result);
    sp_search_result_release(result);
}

Test(joint_gather, equals_the_best_of_all_plans, .timeout = 3600)
{
    const uint32_t problems = how_many(PROBLEMS, MANY_PROBLEMS);
    uint32_t gathering = 0, fitting = 0;
    problem_state = 20261127;
    for (uint32_t number = 0, done = 0; done < problems; number++) {
        struct problem problem;
        uint32_t gathered;
        open_problem(&problem);
        struct every every = {.problem = &problem, .most = MOST_PLANS};
        if (try_every(&every)) {
            compare(&problem, &every, number, &gathered);
            gathering += gathered > 0;
            fitting += isfinite(every.best);
            done++;
        }
        close_problem(&problem);
    }
    cr_log_info("of %u, %u fit and %u gather", problems, fitting, gathering);
    cr_expect_gt(fitting, problems / 2, "%u", fitting);
    cr_expect_gt(gathering, problems / 12, "%u", gathering);
}

/* ---- ways that gather -------------------------------------------------------------------------------------------- */

/* The way before, of the same cuts, that gathers nothing. */
static const struct sp_strategy *plain(const struct sp_strategies *strategies, uint32_t gathering)
{
    struct sp_strategy wanted = strategies->items[gathering];
    wanted.gathered = SP_STRATEGY_NO_FACTOR;
    wanted.gathered_axis = 0;
    for (uint32_t s = 0; s < gathering; s++)
        if (strategies->items[s].gathered == SP_STRATEGY_NO_FACTOR &&
            memcmp(strategies->items[s].factor_of, wanted.factor_of, sizeof wanted.factor_of) == 0 &&
            memcmp(strategies->items[s].scatter_of, wanted.scatter_of, sizeof wanted.scatter_of) == 0)
            return &strategies->items[s];
    return NULL;
}

/* It has a part of the weight, two buffers for what the plain one has, and sends what it gathers: each of p devices in a
   ring sends its part on to p - 1 others. Only what takes longer than computing is counted. */
static void expect_gathers(const struct problem *problem, const struct sp_strategies *strategies, uint32_t s,
                           const struct sp_strategy_table *table)
{
    const struct sp_strategy *way = &strategies->items[s], *same = plain(strategies, s);
    const struct sp_mesh_level *link = &problem->cluster->levels[0];
    cr_assert_not_null(same, "a way that gathers has no other beside it");
    const double parts = sp_strategy_joins(table, way), had = same->weight_bytes, part = had / parts;
    cr_expect_eq(parts, sp_strategy_table_mesh(table)->size[0]);
    cr_expect_float_eq(way->weight_bytes, part, 1e-9 * had);
    cr_expect_float_eq(way->workspace_bytes, same->workspace_bytes + 2 * had, 1e-9 * had);
    cr_expect_eq(memcmp(way->layouts, same->layouts, strategies->operand_count * sizeof *way->layouts), 0);
    cr_expect_neq(way->stored, way->layouts[way->gathered]);
    cr_expect_float_eq(way->gather_bytes, (parts - 1) * part, 1e-9 * had);
    cr_expect_geq(way->gather_seconds * (1 + 1e-9), (parts - 1) * part / link->bandwidth);
    cr_expect_leq(way->gather_seconds, 2 * way->compute_seconds);
    cr_expect_float_eq(way->compute_seconds, same->compute_seconds, 0);
    cr_expect_float_eq(way->communication_seconds,
                       same->communication_seconds + fmax(0, way->gather_seconds - way->compute_seconds),
                       1e-9 * way->gather_seconds);
    cr_expect_float_eq(way->communication_bytes, same->communication_bytes + way->gather_bytes, 1e-9 * had);
}

Test(joint_gather, a_way_that_gathers_is_another_one_with_less_of_a_weight)
{
    uint32_t seen = 0, without = 0;
    problem_state = 20261128;
    for (uint32_t number = 0; number < 60; number++) {
        struct problem problem;
        open_problem(&problem);
        for (uint32_t o = 0; o < problem.space->option_count; o++) {
            const struct sp_strategy_mesh *mesh = &problem.space->options[o].mesh;
            uint32_t here = 0;
            for (uint32_t i = 0; problem.tables[o] != NULL && mesh->axis_count == 1 && i < problem.live_count; i++) {
                const struct sp_strategies *strategies = sp_strategy_of(problem.tables[o], problem.live[i]);
                for (uint32_t s = 0; s < strategies->count; s++) {
                    if (strategies->items[s].gathered == SP_STRATEGY_NO_FACTOR)
                        continue;
                    expect_gathers(&problem, strategies, s, problem.tables[o]);
                    here++;
                }
            }
            cr_expect(here == 0 || mesh->gathers);
            cr_expect_eq(mesh->gathers, 2 * problem.workload->weight_bytes > sp_cluster_memory(problem.cluster, 0));
            seen += here;
            without += !mesh->gathers;
        }
        close_problem(&problem);
    }
    cr_expect_gt(seen, 50, "%u", seen);
    cr_expect_gt(without, 5, "%u", without);
}
