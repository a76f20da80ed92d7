#include <criterion/criterion.h>
#include <math.h>

#include "build_workload.h"
#include "how_many.h"
#include "recount.h"
#include "search/joint/joint.h"

static struct sp_arena *arena;

static void setup(void)
{
    arena = sp_arena_create(NULL);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(grouping, .init = setup, .fini = teardown);

static struct sp_error error;

static enum sp_status group(const struct sp_workload *workload, const struct sp_cluster *cluster,
                            enum sp_objective objective, struct sp_search_result **ret_result)
{
    struct sp_joint_options options;
    sp_joint_options_init(&options);
    options.objective = objective;
    options.strategy = SP_STRATEGY_GROUPING;
    options.skip_minimum_memory = true;
    sp_error_clear(&error);
    *ret_result = NULL;
    enum sp_status status = sp_joint_search(arena, workload, NULL, cluster, &options, ret_result, &error);
    if (status == SP_OK)
        recount_expect(workload, cluster, &(*ret_result)->placement, NULL, (*ret_result)->evaluation, true);
    sp_search_result_release(*ret_result); /* what is read of it is in the arena */
    return status;
}

static struct sp_search_result *must_group(const struct sp_workload *workload, const struct sp_cluster *cluster,
                                           enum sp_objective objective)
{
    struct sp_search_result *result;
    cr_assert_eq(group(workload, cluster, objective, &result), SP_OK, "%s", error.message);
    return result;
}

/* What every result must be: monotone stages (sp_evaluate() refuses others) on distinct devices, none empty, within
   memory. */
static void expect_sound(const struct sp_workload *workload, const struct sp_cluster *cluster,
                         const struct sp_search_result *result)
{
    const struct sp_placement *placement = &result->placement;
    cr_assert_gt(placement->stage_count, 0);
    cr_assert_leq(placement->stage_count, cluster->device_count);
    for (uint32_t i = 0; i < placement->stage_count; i++) {
        const struct sp_stage_cost *stage = &result->evaluation->stages[i];
        uint32_t nodes = 0;
        cr_assert_leq(stage->total_bytes, sp_cluster_memory(cluster, stage->device) * result->memory_share);
        for (uint32_t j = 0; j < i; j++)
            cr_assert_neq(placement->stage_device[i], placement->stage_device[j]);
        for (uint32_t id = 0; id < workload->node_count; id++)
            nodes += placement->stage_of[id] == i && !workload->nodes[id].folded;
        cr_assert_gt(nodes, 0, "stage %u is empty", i);
    }
    for (uint32_t id = 0; id < workload->node_count; id++) {
        const struct sp_work_node *node = &workload->nodes[id];
        for (uint32_t i = 0; i < node->input_count; i++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[i]];
            if (tensor->kind == SP_WORK_ACTIVATION)
                cr_assert_leq(placement->stage_of[tensor->producer], placement->stage_of[id]);
        }
    }
    cr_assert_gt(result->explored, 0);
}

/* ---- random DAGs and the optimum by brute force ---- */

static uint32_t random_below(uint64_t *state, uint32_t bound)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % bound;
}

static struct sp_workload *random_workload(uint64_t *state, uint32_t count, bool chain,
                                           const struct sp_cluster *cluster)
{
    struct work_builder b;
    uint32_t made[2048], used = 0;
    work_init(&b, arena, count, 4 * count + 1, 1);
    made[used++] = work_input(&b, 1 + random_below(state, 20));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t inputs[5], n = 0, picks = chain ? 1 : 1 + random_below(state, 3);
        for (uint32_t j = 0; j < picks; j++) {
            uint32_t pick = made[used - 1 - (chain ? 0 : random_below(state, used < 5 ? used : 5))];
            if (n == 0 || (inputs[n - 1] != pick && inputs[0] != pick))
                inputs[n++] = pick;
        }
        if (random_below(state, 3) > 0)
            inputs[n++] = work_weight(&b, 1 + random_below(state, 100));
        inputs[n] = SP_NO_WORK;
        made[used++] = work_node(&b, random_below(state, 10), 1 + random_below(state, 20), inputs);
        if (!chain && random_below(state, 8) == 0)
            work_alias(&b, made[used - 1], inputs[0]);
    }
    /* Chains of views lead to their root, as the contract says. */
    for (uint32_t i = 0; i < b.workload->tensor_count; i++) {
        uint32_t of = b.workload->tensors[i].alias_of;
        if (of != SP_NO_WORK && b.workload->tensors[of].alias_of != SP_NO_WORK)
            b.workload->tensors[i].alias_of = b.workload->tensors[of].alias_of;
    }
    return work_finish(&b, cluster);
}

struct optimum {
    bool feasible;
    double interval, latency;
    uint32_t stages;      /* fewest that fit */
    double least_lacking; /* smallest worst excess over all placements, when nothing fits */
    double least_sum;     /* smallest sum of excesses */
};

struct brute {
    const struct sp_workload *workload;
    const struct sp_cluster *cluster;
    double share;
    uint32_t stage_of[16], stages;
    struct optimum optimum;
};

static void take(struct brute *b)
{
    uint32_t device[16], used = 0;
    for (uint32_t i = 0; i < b->workload->node_count; i++)
        used |= 1u << b->stage_of[i];
    if ((used & (used + 1)) != 0)
        return; /* a gap: the same placement exists without it */
    struct sp_placement placement = {(uint32_t)__builtin_popcount(used), b->stage_of, device};
    for (uint32_t i = 0; i < placement.stage_count; i++)
        device[i] = i;
    struct sp_arena_mark mark = sp_arena_mark(arena);
    struct sp_evaluation *evaluation;
    cr_assert_eq(sp_evaluate(arena, b->workload, b->cluster, &placement, &evaluation, &error), SP_OK);
    double excess = -HUGE_VAL, sum = 0;
    for (uint32_t i = 0; i < placement.stage_count; i++) {
        double lacking = evaluation->stages[i].total_bytes - b->share * evaluation->stages[i].capacity_bytes;
        excess = fmax(excess, lacking);
        sum += fmax(lacking, 0);
    }
    struct optimum *best = &b->optimum;
    best->least_sum = fmin(best->least_sum, sum);
    best->least_lacking = fmin(best->least_lacking, excess);
    if (excess <= 0) {
        best->feasible = true;
        best->interval = fmin(best->interval, evaluation->interval_seconds);
        best->latency = fmin(best->latency, evaluation->latency_seconds);
        if (placement.stage_count < best->stages)
            best->stages = placement.stage_count;
    }
    sp_arena_rewind(arena, mark);
}

/* Recursion is bounded by the test's own node count. */
static void place(struct brute *b, uint32_t id)
{
    if (id == b->workload->node_count) {
        take(b);
        return;
    }
    const struct sp_work_node *node = &b->workload->nodes[id];
    uint32_t first = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t producer = b->workload->tensors[node->inputs[i]].producer;
        if (producer != SP_NO_WORK && b->stage_of[producer] > first)
            first = b->stage_of[producer];
    }
    for (b->stage_of[id] = first; b->stage_of[id] < b->stages; b->stage_of[id]++)
        place(b, id + 1);
}

static struct optimum brute_force(const struct sp_workload *workload, const struct sp_cluster *cluster, double share)
{
    struct brute brute = {.workload = workload, .cluster = cluster, .share = share, .stages = cluster->device_count};
    brute.optimum = (struct optimum){false, HUGE_VAL, HUGE_VAL, UINT32_MAX, HUGE_VAL, HUGE_VAL};
    cr_assert(workload->node_count <= 16);
    place(&brute, 0);
    return brute.optimum;
}

static double largest_need(const struct sp_workload *workload)
{
    double bytes = workload->weight_bytes;
    for (uint32_t i = 0; i < workload->tensor_count; i++)
        if (workload->tensors[i].kind != SP_WORK_WEIGHT)
            bytes += workload->tensors[i].bytes;
    return bytes;
}

/* A cluster whose memory is a random part of what the model holds altogether. */
static struct sp_cluster *random_cluster(uint64_t *state, struct sp_workload **ret_workload, uint32_t nodes, bool chain)
{
    uint32_t count = 1 + random_below(state, 3);
    struct sp_cluster *cluster = build_cluster(arena, count, 1e9, 10, 0.01);
    *ret_workload = random_workload(state, nodes, chain, cluster);
    if (random_below(state, 3) > 0)
        cluster->groups[0].device.memory_bytes =
            ceil(largest_need(*ret_workload) * (0.2 + 0.1 * random_below(state, 9)));
    return cluster;
}

/* Small models: a placement is found whenever there is one, and it is the best one up to the tolerance of 0.5 % that
   polishing may spend on less communication. */
Test(grouping, small_models_are_planned_optimally)
{
    uint64_t state = 7;
    uint32_t feasible = 0;
    for (int round = 0; round < 100; round++) {
        struct sp_workload *workload;
        struct sp_cluster *cluster = random_cluster(&state, &workload, 1 + random_below(&state, 9), false);
        struct optimum optimum = brute_force(workload, cluster, 1.0);
        struct sp_search_result *result;
        for (int objective = SP_OBJECTIVE_THROUGHPUT; objective <= SP_OBJECTIVE_DEVICES; objective++) {
            enum sp_status status = group(workload, cluster, objective, &result);
            cr_assert_eq(status == SP_OK, optimum.feasible, "round %d: %s", round, error.message);
            if (status != SP_OK) {
                cr_assert_eq(status, SP_ERR_NOFIT);
                continue;
            }
            feasible++;
            expect_sound(workload, cluster, result);
            struct optimum at_share = brute_force(workload, cluster, result->memory_share);
            if (objective == SP_OBJECTIVE_THROUGHPUT)
                cr_assert_leq(result->evaluation->interval_seconds, at_share.interval * 1.005 + 1e-9, "round %d",
                              round);
            else if (objective == SP_OBJECTIVE_LATENCY)
                cr_assert_leq(result->evaluation->latency_seconds, at_share.latency * (1 + 1e-9), "round %d", round);
            else
                cr_assert_eq(result->placement.stage_count, optimum.stages, "round %d: %u", round, optimum.stages);
        }
    }
    cr_log_info("%u feasible searches\n", feasible);
    cr_assert_gt(feasible, 100);
}

/* Above the size that is enumerated the heuristics stand alone. */
static void expect_near_optimal(uint64_t seed, bool chain, double factor, double mean)
{
    uint32_t compared = 0, missed = 0, exact = 0;
    double worst = 1, sum = 0;
    for (int round = 0; round < 80; round++) {
        struct sp_workload *workload;
        struct sp_cluster *cluster = random_cluster(&seed, &workload, 11 + random_below(&seed, 2), chain);
        struct optimum optimum = brute_force(workload, cluster, 1.0);
        struct sp_search_result *result;
        enum sp_status status = group(workload, cluster, SP_OBJECTIVE_THROUGHPUT, &result);
        if (!optimum.feasible || status != SP_OK) {
            cr_assert(optimum.feasible || status == SP_ERR_NOFIT);
            missed += optimum.feasible;
            continue;
        }
        expect_sound(workload, cluster, result);
        double best = brute_force(workload, cluster, result->memory_share).interval;
        double ratio = best > 0 ? result->evaluation->interval_seconds / best : 1;
        compared++;
        sum += ratio;
        exact += ratio < 1.005 + 1e-9;
        worst = fmax(worst, ratio);
    }
    cr_log_info("chain %d: %u compared, %u optimal, mean %.4f, worst %.4f, missed %u\n", chain, compared, exact,
                sum / compared, worst, missed);
    cr_assert_gt(compared, 20);
    cr_assert_eq(missed, 0);
    cr_assert_leq(worst, factor + 1e-9);
    cr_assert_leq(sum / compared, mean);
}

Test(grouping, chains_are_cut_optimally)
{
    expect_near_optimal(11, true, 1.005, 1.005);
}

Test(grouping, larger_graphs_are_near_the_optimum)
{
    expect_near_optimal(13, false, 1.10, 1.005);
}

/* ---- published and expected results ---- */

/* PopRT's published cut of a 24-layer ViT on two devices: after the last Add of layer 11. */
Test(grouping, a_24_layer_transformer_is_cut_in_the_middle)
{
    struct sp_cluster *cluster = build_cluster(arena, 2, 1e12, 1e11, 2e-6);
    struct sp_workload *workload = build_transformer(arena, cluster, 24, 1024);
    struct sp_search_result *result = must_group(workload, cluster, SP_OBJECTIVE_THROUGHPUT);
    expect_sound(workload, cluster, result);
    cr_assert_eq(result->placement.stage_count, 2);
    uint32_t last_of_layer_11 = 12 * TRANSFORMER_LAYER_NODES;
    for (uint32_t id = 0; id < workload->node_count; id++)
        cr_assert_eq(result->placement.stage_of[id], id > last_of_layer_11, "node %u", id);
    cr_assert_eq(result->evaluation->transfer_count, 1);
}

Test(grouping, regular_models_scale)
{
    for (uint32_t devices = 2; devices <= 8; devices *= 2) {
        struct sp_cluster *cluster = build_cluster(arena, devices, 1e12, 1e11, 2e-6);
        struct sp_workload *workload = build_transformer(arena, cluster, 12, 1024);
        struct sp_search_result *result = must_group(workload, cluster, SP_OBJECTIVE_THROUGHPUT);
        struct sp_lower_bounds bounds;
        cr_assert_eq(sp_lower_bounds(arena, workload, cluster, &bounds, &error), SP_OK);
        cr_assert_leq(result->evaluation->interval_seconds, bounds.interval_seconds * 1.1, "%u devices", devices);
    }
}

/* When memory allows one device, sending things around cannot shorten one request through a chain. */
Test(grouping, latency_uses_one_device_for_a_chain)
{
    struct sp_cluster *cluster = build_cluster(arena, 4, 1e12, 1e11, 2e-6);
    struct sp_workload *workload = build_transformer(arena, cluster, 4, 256);
    struct sp_search_result *result = must_group(workload, cluster, SP_OBJECTIVE_LATENCY);
    cr_expect_eq(result->placement.stage_count, 1);
    cr_expect_eq(result->evaluation->communication_bytes, 0);
}

/* Two towers of eight nodes that meet: side by side, one request takes half as long (plus 0.2 s of transfers). */
Test(grouping, latency_runs_towers_side_by_side)
{
    struct sp_cluster *cluster = build_cluster(arena, 4, 1e9, 100, 0);
    struct work_builder b;
    work_init(&b, arena, 17, 40, 1);
    uint32_t tower[2] = {work_input(&b, 8), work_input(&b, 8)};
    for (int i = 0; i < 16; i++)
        tower[i % 2] = WORK_NODE(&b, 1, 10, tower[i % 2], work_weight(&b, 10));
    WORK_NODE(&b, 1, 10, tower[0], tower[1]);
    struct sp_workload *workload = work_finish(&b, cluster);
    struct sp_search_result *result = must_group(workload, cluster, SP_OBJECTIVE_LATENCY);
    expect_sound(workload, cluster, result);
    cr_expect_eq(result->placement.stage_count, 3);
    cr_expect_float_eq(result->evaluation->latency_seconds, 8 + 0.1 + 1, 1e-9);
}

Test(grouping, devices_objective_takes_the_fewest)
{
    struct sp_cluster *cluster = build_cluster(arena, 8, 450, 1e9, 0);
    struct work_builder b;
    work_init(&b, arena, 12, 40, 1);
    uint32_t x = work_input(&b, 1);
    for (int i = 0; i < 12; i++)
        x = WORK_NODE(&b, 1, 1, x, work_weight(&b, 100));
    struct sp_workload *workload = work_finish(&b, cluster);
    struct sp_search_result *result = must_group(workload, cluster, SP_OBJECTIVE_DEVICES);
    expect_sound(workload, cluster, result);
    cr_expect_eq(result->placement.stage_count, 3); /* four layers each: 400 bytes and a few */
    cr_expect_float_eq(result->evaluation->interval_seconds, 4, 1e-9);
}

/* ---- memory ---- */

Test(grouping, the_share_of_memory_is_raised_only_when_needed)
{
    struct work_builder b;
    const double memory[] = {1000, 110, 107, 104};
    const double shares[] = {0.90, 0.95, 1.00, 1.00};
    for (int i = 0; i < 4; i++) {
        struct sp_cluster *cluster = build_cluster(arena, 1, memory[i], 1e9, 0);
        work_init(&b, arena, 2, 10, 1);
        WORK_NODE(&b, 1, 2, work_input(&b, 2), work_weight(&b, 100));
        struct sp_workload *workload = work_finish(&b, cluster); /* 100 + 2 + 2 = 104 bytes */
        struct sp_grouping_options options;
        struct sp_grouping_result *result;
        sp_grouping_options_init(&options);
        cr_assert_eq(sp_group(arena, workload, cluster, &options, &result, &error), SP_OK);
        cr_expect_eq(result->memory_share, shares[i], "%g", memory[i]);
    }
}

/* Numbers of the message against brute force, over shrinking memory. */
Test(grouping, no_fit_says_how_many_devices_would_do)
{
    uint64_t state = 5;
    uint32_t told = 0, hopeless = 0;
    for (int round = 0; round < 120; round++) {
        struct sp_cluster *two = build_cluster(arena, 2, 1e9, 10, 0.01);
        struct sp_workload *workload = random_workload(&state, 4 + random_below(&state, 4), false, two);
        double memory = ceil(largest_need(workload) * (0.15 + 0.05 * random_below(&state, 7)));
        two->groups[0].device.memory_bytes = memory;
        struct sp_search_result *result;
        enum sp_status status = group(workload, two, SP_OBJECTIVE_THROUGHPUT, &result);
        struct optimum optimum = brute_force(workload, two, 1.0);
        cr_assert_eq(status == SP_OK, optimum.feasible);
        if (status == SP_OK)
            continue;
        cr_assert_eq(status, SP_ERR_NOFIT);
        struct sp_error got = error;
        cr_assert_str_eq(got.limit, "devices");
        cr_assert_gt(got.actual, 0);
        struct sp_workload wide_work = *workload;
        struct sp_cluster *wide = build_cluster(arena, workload->node_count, memory, 10, 0.01);
        wide_work.kind_of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
        struct optimum most = brute_force(&wide_work, wide, 1.0);
        cr_assert_eq(got.limit_value, most.feasible ? most.stages : 0, "round %d: %s (brute force: %u)", round,
                     got.message, most.stages);
        if (strcmp(got.code, "NO_FIT") == 0)
            /* Of the placement that lacks least in sum over the devices, what its worst device lacks. */
            cr_assert(got.actual >= ceil(optimum.least_lacking) && got.actual <= ceil(optimum.least_sum),
                      "round %d: %s", round, got.message);
        else
            cr_assert(!most.feasible);
        told += most.feasible;
        hopeless += !most.feasible;
    }
    cr_log_info("%u told, %u hopeless\n", told, hopeless);
    cr_assert_gt(told, 10);
    cr_assert_gt(hopeless, 10);
}

Test(grouping, a_node_that_fits_nowhere_is_named)
{
    struct sp_cluster *cluster = build_cluster(arena, 3, 1000, 1e9, 0);
    struct work_builder b;
    work_init(&b, arena, 3, 10, 1);
    uint32_t x = WORK_NODE(&b, 1, 10, work_input(&b, 10), work_weight(&b, 100));
    x = WORK_NODE(&b, 1, 10, x, work_weight(&b, 2000));
    WORK_NODE(&b, 1, 10, x);
    struct sp_workload *workload = work_finish(&b, cluster);
    struct sp_search_result *result;
    cr_assert_eq(group(workload, cluster, SP_OBJECTIVE_THROUGHPUT, &result), SP_ERR_NOFIT);
    cr_expect_str_eq(error.code, "NODE_TOO_LARGE");
    cr_expect_eq(error.limit_value, 0);
    cr_expect_eq(error.actual, 1020); /* 2000 + 10 + 10 - 1000 */
    cr_expect_not_null(strstr(error.message, "\"n1\""), "%s", error.message);
}

Test(grouping, no_fit_of_a_large_model)
{
    struct sp_cluster *cluster = build_cluster(arena, 2, 1, 1e11, 0);
    struct sp_workload *workload = build_transformer(arena, cluster, 24, 64);
    cluster->groups[0].device.memory_bytes = workload->weight_bytes / 5; /* so more than five are needed */
    struct sp_search_result *result;
    cr_assert_eq(group(workload, cluster, SP_OBJECTIVE_THROUGHPUT, &result), SP_ERR_NOFIT);
    cr_assert_geq(error.limit_value, 6);
    cr_assert_leq(error.limit_value, 7);
    /* That many do fit. */
    struct sp_cluster *enough = build_cluster(arena, (uint32_t)error.limit_value, workload->weight_bytes / 5, 1e11, 0);
    workload = build_transformer(arena, enough, 24, 64);
    expect_sound(workload, enough, must_group(workload, enough, SP_OBJECTIVE_THROUGHPUT));
}

/* ---- heterogeneous clusters ---- */

/* The second kind is four times as fast: it gets four times the work. */
Test(grouping, faster_devices_get_more_work)
{
    struct sp_cluster *cluster = build_mixed_cluster(arena, 1, 1e9, 1, 1e9, 1e9);
    struct work_builder b;
    work_init(&b, arena, 20, 60, 2);
    uint32_t x = work_input(&b, 1);
    for (int i = 0; i < 20; i++) {
        x = WORK_NODE(&b, 1, 1, x);
        b.workload->nodes[i].seconds[1] = 0.25;
    }
    struct sp_workload *workload = work_finish(&b, cluster);
    struct sp_search_result *result = must_group(workload, cluster, SP_OBJECTIVE_THROUGHPUT);
    expect_sound(workload, cluster, result);
    cr_expect_float_eq(result->evaluation->interval_seconds, 4, 1e-9); /* 4 nodes of 1 s, 16 of 0.25 s */
    result = must_group(workload, cluster, SP_OBJECTIVE_LATENCY);
    cr_expect_float_eq(result->evaluation->latency_seconds, 5, 1e-9); /* all on the fast one */
    cr_expect_eq(result->placement.stage_count, 1);
    cr_expect_eq(result->placement.stage_device[0], 1);
}

/* The first layers need the large device, which comes second in the cluster. */
Test(grouping, devices_may_change_places)
{
    struct sp_cluster *cluster = build_mixed_cluster(arena, 1, 300, 1, 3000, 1e9);
    struct work_builder b;
    work_init(&b, arena, 14, 60, 2);
    uint32_t x = work_input(&b, 1);
    for (int i = 0; i < 14; i++)
        x = WORK_NODE(&b, 1, 1, x, work_weight(&b, i < 5 ? 500 : 10));
    struct sp_workload *workload = work_finish(&b, cluster);
    struct sp_search_result *result = must_group(workload, cluster, SP_OBJECTIVE_THROUGHPUT);
    expect_sound(workload, cluster, result);
    cr_expect_eq(result->placement.stage_count, 2);
    cr_expect_eq(result->placement.stage_device[0], 1);
    cr_expect_float_eq(result->evaluation->interval_seconds, 7, 1e-9);
}

/* ---- corner cases ---- */

Test(grouping, fewer_nodes_than_devices)
{
    struct sp_cluster *cluster = build_cluster(arena, 8, 1e9, 1e9, 0);
    struct work_builder b;
    work_init(&b, arena, 2, 10, 1);
    uint32_t x = WORK_NODE(&b, 1, 1, work_input(&b, 1));
    WORK_NODE(&b, 1, 1, x);
    struct sp_workload *workload = work_finish(&b, cluster);
    struct sp_search_result *result = must_group(workload, cluster, SP_OBJECTIVE_THROUGHPUT);
    expect_sound(workload, cluster, result);
    cr_expect_eq(result->placement.stage_count, 2);
}

/* A slow link: the second device does not help, so it is not used. */
Test(grouping, devices_that_do_not_help_are_left_out)
{
    struct sp_cluster *cluster = build_cluster(arena, 4, 1e9, 1, 0);
    struct work_builder b;
    work_init(&b, arena, 12, 40, 1);
    uint32_t x = work_input(&b, 1);
    for (int i = 0; i < 12; i++)
        x = WORK_NODE(&b, 1, 100, x);
    struct sp_workload *workload = work_finish(&b, cluster);
    cr_expect_eq(must_group(workload, cluster, SP_OBJECTIVE_THROUGHPUT)->placement.stage_count, 1);
}

Test(grouping, models_without_work)
{
    struct sp_cluster *cluster = build_cluster(arena, 4, 1e9, 1e9, 0);
    struct work_builder b;
    work_init(&b, arena, 1, 4, 1);
    struct sp_workload *workload = work_finish(&b, cluster);
    cr_expect_eq(must_group(workload, cluster, SP_OBJECTIVE_THROUGHPUT)->placement.stage_count, 1);

    work_init(&b, arena, 3, 8, 1); /* everything folded */
    uint32_t w = work_weight(&b, 4);
    for (int i = 0; i < 3; i++)
        w = work_folded(&b, 4, (uint32_t[]){w, SP_NO_WORK});
    workload = work_finish(&b, cluster);
    cr_expect_eq(must_group(workload, cluster, SP_OBJECTIVE_DEVICES)->placement.stage_count, 1);

    work_init(&b, arena, 20, 30, 1); /* nothing but views */
    uint32_t input = work_input(&b, 4), x = input;
    for (int i = 0; i < 20; i++) {
        x = WORK_NODE(&b, 0, 4, x);
        work_alias(&b, x, input);
    }
    workload = work_finish(&b, cluster);
    struct sp_search_result *result = must_group(workload, cluster, SP_OBJECTIVE_THROUGHPUT);
    expect_sound(workload, cluster, result);
    cr_expect_eq(result->placement.stage_count, 1);
}

Test(grouping, folded_nodes_go_to_their_first_user)
{
    struct sp_cluster *cluster = build_cluster(arena, 2, 1e9, 1e9, 0);
    struct work_builder b;
    work_init(&b, arena, 14, 60, 1);
    uint32_t w = work_folded(&b, 8, (uint32_t[]){work_weight(&b, 8), SP_NO_WORK});
    w = work_folded(&b, 8, (uint32_t[]){w, SP_NO_WORK});
    uint32_t x = work_input(&b, 1);
    for (int i = 0; i < 12; i++)
        x = i >= 8 ? WORK_NODE(&b, 1, 1, x, w) : WORK_NODE(&b, 1, 1, x);
    struct sp_workload *workload = work_finish(&b, cluster);
    struct sp_search_result *result = must_group(workload, cluster, SP_OBJECTIVE_THROUGHPUT);
    cr_assert_eq(result->placement.stage_count, 2);
    cr_expect_eq(result->placement.stage_of[0], 1);
    cr_expect_eq(result->placement.stage_of[1], 1);
}

Test(grouping, unconnected_parts_share_devices)
{
    struct sp_cluster *cluster = build_cluster(arena, 3, 1e9, 1e9, 0);
    struct work_builder b;
    work_init(&b, arena, 18, 60, 1);
    for (int part = 0; part < 3; part++) {
        uint32_t x = work_input(&b, 1);
        for (int i = 0; i < 6; i++)
            x = WORK_NODE(&b, 1, 1, x, work_weight(&b, 5));
    }
    struct sp_workload *workload = work_finish(&b, cluster);
    struct sp_search_result *result = must_group(workload, cluster, SP_OBJECTIVE_THROUGHPUT);
    expect_sound(workload, cluster, result);
    cr_expect_float_eq(result->evaluation->interval_seconds, 6, 1e-9);
    cr_expect_eq(result->evaluation->communication_bytes, 0);
    result = must_group(workload, cluster, SP_OBJECTIVE_LATENCY);
    cr_expect_float_eq(result->evaluation->latency_seconds, 6, 1e-9);
}

Test(grouping, the_same_question_has_the_same_answer)
{
    uint64_t state = 3;
    for (uint32_t round = 0; round < how_many(5, 10); round++) {
        struct sp_cluster *cluster = build_cluster(arena, 4, 1e9, 100, 0.01);
        struct sp_workload *workload = random_workload(&state, 60, false, cluster);
        struct sp_search_result *a = must_group(workload, cluster, SP_OBJECTIVE_THROUGHPUT);
        struct sp_search_result *b = must_group(workload, cluster, SP_OBJECTIVE_THROUGHPUT);
        expect_sound(workload, cluster, a);
        cr_assert_eq(a->placement.stage_count, b->placement.stage_count);
        cr_assert_eq(a->explored, b->explored);
        cr_assert_eq(a->accepted, b->accepted);
        for (uint32_t id = 0; id < workload->node_count; id++)
            cr_assert_eq(a->placement.stage_of[id], b->placement.stage_of[id]);
    }
}

Test(grouping, first_fit_explores_less)
{
    struct sp_cluster *cluster = build_cluster(arena, 4, 1e12, 1e11, 2e-6);
    uint64_t state = 3;
    struct sp_workload *workload = random_workload(&state, 200, false, cluster);
    struct sp_grouping_result *best, *first;
    struct sp_grouping_options options;
    sp_grouping_options_init(&options);
    cr_assert_eq(sp_group(arena, workload, cluster, &options, &best, &error), SP_OK);
    options.optimal = false;
    cr_assert_eq(sp_group(arena, workload, cluster, &options, &first, &error), SP_OK);
    recount_expect(workload, cluster, &first->placement, NULL, first->evaluation, true);
    cr_expect_lt(first->explored, best->explored / 10);
    cr_expect_leq(best->evaluation->interval_seconds, first->evaluation->interval_seconds);
}

struct countdown {
    uint32_t ticks, stop_after;
};

static bool count_tick(void *context, const char *phase, double fraction, double best, double bound)
{
    struct countdown *countdown = context;
    cr_assert_str_eq(phase, "search");
    cr_assert(fraction >= 0 && fraction <= 1);
    cr_assert(best == 0 || best >= bound * (1 - 1e-9));
    return ++countdown->ticks < countdown->stop_after;
}

Test(grouping, a_stopped_search_gives_the_best_so_far)
{
    struct sp_cluster *cluster = build_cluster(arena, 4, 1e12, 100, 0.01);
    uint64_t state = 3;
    struct sp_workload *workload = random_workload(&state, 2000, false, cluster);
    struct sp_grouping_options options;
    struct sp_grouping_result *result;
    struct countdown countdown = {0, UINT32_MAX};
    struct sp_watch watch = {.tick = count_tick, .context = &countdown};
    sp_grouping_options_init(&options);
    options.watch = &watch;
    cr_assert_eq(sp_group(arena, workload, cluster, &options, &result, &error), SP_OK, "%s", error.message);
    cr_assert_not(result->stopped);
    recount_expect(workload, cluster, &result->placement, NULL, result->evaluation, true);
    const double full = result->evaluation->interval_seconds * 0.99;
    double interval = 0;
    uint32_t total = countdown.ticks;
    cr_assert_gt(total, 20);
    for (uint32_t stop = 1; stop < total; stop += total / 8) {
        countdown = (struct countdown){0, stop};
        sp_error_clear(&error);
        enum sp_status status = sp_group(arena, workload, cluster, &options, &result, &error);
        cr_assert_eq(countdown.ticks, stop, "it went on after tick %u", stop);
        cr_assert_eq(error.status, status);
        if (status == SP_ERR_CANCELLED) {
            cr_assert_eq(interval, 0, "what was found once is not lost later");
            continue;
        }
        cr_assert_eq(status, SP_OK);
        cr_assert(result->stopped);
        recount_expect(workload, cluster, &result->placement, NULL, result->evaluation, true);
        cr_assert(interval == 0 || result->evaluation->interval_seconds <= interval, "more time, no worse a plan");
        interval = result->evaluation->interval_seconds;
    }
    cr_assert_gt(interval, 0);
    cr_assert_geq(interval, full, "the whole search is the best, but for what it gives for fewer bytes");

    /* Where nothing fits there is nothing to return. */
    cluster->memory_limit_bytes = 1;
    countdown = (struct countdown){0, 1};
    sp_error_clear(&error);
    cr_assert_eq(sp_group(arena, workload, cluster, &options, &result, &error), SP_ERR_CANCELLED);
}

/* A budget that runs out anywhere is an error, not a crash, and nothing of the scratch memory stays. */
Test(grouping, memory_may_run_out)
{
    struct sp_cluster *cluster = build_cluster(arena, 4, 1e12, 1e11, 2e-6);
    struct sp_workload *workload = build_transformer(arena, cluster, 10, 64);
    struct sp_grouping_options options;
    struct sp_grouping_result *result;
    sp_grouping_options_init(&options);
    uint32_t failed = 0;
    bool fitted = false;
    for (size_t limit = 4096; !fitted; limit = limit * 5 / 4) {
        struct sp_budget budget = {.limit = limit};
        struct sp_arena *job = sp_arena_create(&budget);
        sp_error_clear(&error);
        enum sp_status status = sp_group(job, workload, cluster, &options, &result, &error);
        cr_assert(status == SP_OK || status == SP_ERR_MEMORY, "%s", error.message);
        failed += status == SP_ERR_MEMORY;
        fitted = status == SP_OK;
        if (fitted)
            recount_expect(workload, cluster, &result->placement, NULL, result->evaluation, true);
        cr_assert_eq(budget.used, sp_arena_bytes(job));
        sp_arena_destroy(job);
    }
    cr_assert_gt(failed, 5);
}

Test(grouping, options_are_checked)
{
    struct sp_cluster *cluster = build_cluster(arena, 1, 1e9, 1e9, 0);
    struct work_builder b;
    work_init(&b, arena, 1, 4, 1);
    WORK_NODE(&b, 1, 1, work_input(&b, 1));
    struct sp_workload *workload = work_finish(&b, cluster);
    struct sp_grouping_options options;
    struct sp_grouping_result *result;
    sp_grouping_options_init(&options);
    options.memory_steps[1] = 1.5;
    cr_expect_eq(sp_group(arena, workload, cluster, &options, &result, NULL), SP_ERR_REQUEST);
    options.memory_step_count = SP_MAX_MEMORY_STEPS + 1;
    cr_expect_eq(sp_group(arena, workload, cluster, &options, &result, NULL), SP_ERR_LIMIT);
}
