/*
 * What a plan says of itself: what binds it, on models for which that is certain, and the second best plan, against all
 * plans of chains.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "onnx_bytes.h"
#include "plan/explain/why.h"
#include "plan/job.h"
#include "random_workload.h"
#include "recount.h"

struct planned {
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_why why;
    struct sp_error err;
};

static enum sp_status plan_bytes(struct planned *p, const void *bytes, size_t size, const char *cluster,
                                 const struct sp_plan_options *options)
{
    const struct sp_job_options job_options = {.bytes = bytes, .size = size, .name = "graph"};
    *p = (struct planned){.arena = sp_arena_create(NULL)};
    p->cluster = cluster_from(p->arena, cluster);
    const enum sp_status status = sp_job_plan(&job_options, p->cluster, options, &p->job, &p->plan, &p->err);
    if (status != SP_OK)
        return status;
    recount_expect_result(p->plan->workload, p->plan->cluster, p->plan->result);
    cr_assert(sp_plan_why(p->plan, &p->why));
    return status;
}

/* The best plan, and none that is nearly as good. */
static void make_plan(struct planned *p, const char *graph, const char *cluster, enum sp_objective objective)
{
    struct sp_plan_options options;
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    options.objective = objective;
    options.tolerance = 0;
    cr_assert_eq(plan_bytes(p, graph, strlen(graph), cluster, &options), SP_OK, "%s", p->err.message);
}

static void release(struct planned *p)
{
    sp_job_destroy(p->job);
    sp_arena_destroy(p->arena);
}

/* `count` devices X of `memory` bytes; links of 1e9 bytes per second. */
static const char *devices(uint32_t count, double memory)
{
    static char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"count\":%u,\"device\":{\"name\":\"X\",\"memory_bytes\":%.17g,\"memory_bandwidth\":1e12,"
                   "\"flops\":{\"float32\":1e12},\"link_bandwidth\":1e9,\"link_latency\":0}}",
                   count, memory);
    return text;
}

struct chain {
    uint32_t count;
    double seconds[16], memory[16], edge_seconds[16]; /* the edge behind the node */
};

static const char *graph_of(const struct chain *chain)
{
    static char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "{\"nodes\":[");
    for (uint32_t i = 0; i < chain->count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"id\":\"n%u\",\"seconds\":%.17g,\"memory_bytes\":%.17g,\"output_bytes\":0}",
                                 i == 0 ? "" : ",", i, chain->seconds[i], chain->memory[i]);
    used += (size_t)snprintf(text + used, sizeof text - used, "],\"edges\":[");
    for (uint32_t i = 0; i + 1 < chain->count; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s{\"from\":\"n%u\",\"to\":\"n%u\",\"seconds\":%.17g}",
                             i == 0 ? "" : ",", i, i + 1, chain->edge_seconds[i]);
    (void)snprintf(text + used, sizeof text - used, "]}");
    return text;
}

/* ---- what binds ------------------------------------------------------------------------------------------------- */

/* 3 s and 2 s + 2 s on two devices: all plans of so few nodes are tried. One device alone takes 7 s. */
Test(why, bound_and_second_best_of_three_nodes)
{
    const struct chain chain = {3, {3, 2, 2}, {100, 100, 100}, {0}};
    struct planned p;
    make_plan(&p, graph_of(&chain), devices(2, 1e9), SP_OBJECTIVE_THROUGHPUT);
    cr_expect_eq(p.why.kind, SP_BINDING_BOUND, "%s", p.why.sentence);
    cr_expect_eq(p.why.stage, 1);
    cr_expect_eq(p.why.first_device, p.plan->result->placement.stage_device[1]);
    cr_expect_float_eq(p.why.seconds, 4, 1e-9);
    cr_expect_float_eq(p.why.share, 1, 1e-9);
    cr_expect_not_null(strstr(p.why.sentence, "No better plan exists"), "%s", p.why.sentence);
    cr_assert_not_null(p.why.second, "%s", p.why.second_sentence);
    cr_expect_eq(p.why.second->stage_count, 1);
    cr_expect_float_eq(p.why.second->interval_seconds, 7, 1e-9);
    cr_expect_float_eq(p.why.worse_by, 3, 1e-9);
    cr_expect_float_eq(p.why.worse_share, 0.75, 1e-9);
    cr_expect(p.why.fewer_devices && !p.why.less_memory && !p.why.less_interval && !p.why.less_latency);
    release(&p);
}

/* The cut 3 | 2 + 2 needs 1100 bytes on the second device, which has 1000; 3 + 2 | 2 needs 600 on both. */
Test(why, memory_binds_where_a_better_plan_lacks_nothing_else)
{
    const struct chain chain = {3, {3, 2, 2}, {100, 500, 600}, {0}};
    struct planned p;
    make_plan(&p, graph_of(&chain), devices(2, 1000), SP_OBJECTIVE_THROUGHPUT);
    cr_expect_float_eq(p.plan->result->evaluation->interval_seconds, 5, 1e-9);
    cr_assert_eq(p.why.kind, SP_BINDING_MEMORY, "%s", p.why.sentence);
    cr_expect_float_eq(p.why.better_seconds, 4, 1e-9);
    cr_expect_eq(p.why.needed_bytes, 1100);
    cr_expect_eq(p.why.stage, SP_NO_STAGE);
    cr_expect_eq(p.why.device_count, 1);
    const double needed = p.why.needed_bytes;
    release(&p);
    make_plan(&p, graph_of(&chain), devices(2, needed), SP_OBJECTIVE_THROUGHPUT);
    cr_expect_float_eq(p.plan->result->evaluation->interval_seconds, 4, 1e-9);
    cr_expect_eq(p.why.kind, SP_BINDING_BOUND, "%s", p.why.sentence);
    release(&p);
    make_plan(&p, graph_of(&chain), devices(2, needed - 1), SP_OBJECTIVE_THROUGHPUT);
    cr_expect_float_eq(p.plan->result->evaluation->interval_seconds, 5, 1e-9);
    release(&p);
}

/* The same where not everything is tried: twelve nodes of 1 s, of which the last eight need 200 bytes each. Six on
   each of two devices would be best; only five of the large ones fit on one. */
Test(why, memory_binds_in_a_longer_chain)
{
    struct chain chain = {.count = 12};
    struct planned p;
    for (uint32_t i = 0; i < 12; i++) {
        chain.seconds[i] = 1;
        chain.memory[i] = i < 4 ? 10 : 200;
    }
    make_plan(&p, graph_of(&chain), devices(2, 1000), SP_OBJECTIVE_THROUGHPUT);
    cr_expect_float_eq(p.plan->result->evaluation->interval_seconds, 7, 1e-9);
    cr_assert_eq(p.why.kind, SP_BINDING_MEMORY, "%s", p.why.sentence);
    cr_expect_float_eq(p.why.better_seconds, 6, 1e-9);
    cr_expect_eq(p.why.needed_bytes, 1200);
    release(&p);
}

/* Ten nodes of 1 s that must be on two devices, and 20 s to send whatever crosses. */
Test(why, links_bind_where_what_is_apart_must_be_sent)
{
    struct chain chain = {.count = 10};
    struct planned p;
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_plan_options options;
    struct sp_error err = {0};
    json_t *json = json_loads("{\"pins\":[{\"nodes\":\"n0\",\"device\":0},{\"nodes\":\"n9\",\"device\":1}]}", 0, NULL);
    for (uint32_t i = 0; i < 10; i++) {
        chain.seconds[i] = 1;
        chain.edge_seconds[i] = 20;
    }
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    cr_assert_eq(sp_demands_parse(arena, json, "", &options.constraints, &err), SP_OK, "%s", err.message);
    const char *graph = graph_of(&chain);
    cr_assert_eq(plan_bytes(&p, graph, strlen(graph), devices(2, 1e9), &options), SP_OK, "%s", p.err.message);
    cr_expect_eq(p.why.kind, SP_BINDING_LINK, "%s", p.why.sentence);
    cr_expect_float_eq(p.why.seconds, 20, 1e-9);
    cr_expect_float_eq(p.why.share, 1, 1e-9);
    release(&p);
    json_decref(json);
    sp_arena_destroy(arena);
}

static const struct {
    const char *what;
    struct onnx_mlp model;
    enum sp_binding kind;
} products[] = {
    /* 512 rows per weight read: 256 FLOPs for each byte; the device does 9.75 for each byte it reads. */
    {"many rows", {.layers = 8, .width = 4096, .batch = "512"}, SP_BINDING_COMPUTE},
    /* One row: half a FLOP for each byte. */
    {"one row", {.layers = 8, .width = 8192, .batch = "1"}, SP_BINDING_MEMORY_BANDWIDTH},
    /* 16 x 16 products take nanoseconds; an operator's launch takes 7 us. */
    {"tiny", {.layers = 8, .width = 16, .batch = "4"}, SP_BINDING_LAUNCH},
};

/* On one device, where nothing is sent; the figures are those of the catalog: 19.5e12 FLOP/s, 2.0e12 bytes/s. */
Test(why, arithmetic_bandwidth_and_launches)
{
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        struct planned p;
        struct sp_buf file;
        struct sp_plan_options options;
        sp_plan_options_init(&options);
        options.max_replicas = 1; /* one plan, no copies */
        options.objective = i % 2 == 0 ? SP_OBJECTIVE_THROUGHPUT : SP_OBJECTIVE_LATENCY;
        onnx_mlp(&file, &products[i].model);
        cr_assert_eq(plan_bytes(&p, file.data, file.size, "{\"device\":\"a100-sxm4-80gb\",\"count\":1}", &options),
                     SP_OK, "%s", p.err.message);
        /* One device: the bound says that nothing is better, and the sentence what the time goes to. */
        static const char *const words[] = {"arithmetic", "memory bandwidth", "launching operators"};
        cr_expect_eq(p.why.kind, SP_BINDING_BOUND, "%s: %s", products[i].what, p.why.sentence);
        cr_expect_not_null(strstr(p.why.sentence, words[products[i].kind]), "%s: %s", products[i].what, p.why.sentence);
        cr_expect_gt(p.why.share, 0.5, "%s: %s", products[i].what, p.why.sentence);
        cr_expect_null(p.why.second);
        cr_expect_not_null(strstr(p.why.second_sentence, "no second best"), "%s", p.why.second_sentence);
        release(&p);
        sp_buf_release(&file);
    }
}

/* Two layers of 3 s and 3.1 s of arithmetic cannot be halved exactly by whole operators, nor by their bound. */
Test(why, arithmetic_binds_where_the_bound_is_not_reached)
{
    struct chain chain = {.count = 9};
    struct planned p;
    for (uint32_t i = 0; i < 9; i++)
        chain.seconds[i] = 1 + (i % 2 == 0 ? 0.3 : 0);
    make_plan(&p, graph_of(&chain), devices(2, 1e9), SP_OBJECTIVE_THROUGHPUT);
    cr_expect_eq(p.why.kind, SP_BINDING_COMPUTE, "%s", p.why.sentence);
    cr_expect_eq(p.why.stage, p.plan->result->evaluation->bottleneck_stage);
    cr_expect_float_eq(p.why.seconds, p.plan->result->evaluation->interval_seconds, 1e-9);
    cr_expect_not_null(p.why.node);
    release(&p);
}

Test(why, the_fewest_devices_are_bound_by_memory_or_are_one)
{
    const struct chain chain = {3, {3, 2, 2}, {100, 500, 600}, {0}};
    struct planned p;
    make_plan(&p, graph_of(&chain), devices(3, 1000), SP_OBJECTIVE_DEVICES);
    cr_expect_eq(p.plan->result->evaluation->stage_count, 2);
    cr_assert_eq(p.why.kind, SP_BINDING_MEMORY, "%s", p.why.sentence);
    cr_expect_eq(p.why.needed_bytes, 1200);
    cr_assert_not_null(p.why.second, "%s", p.why.second_sentence);
    cr_expect_eq(p.why.second->devices_used, 3);
    cr_expect_eq(p.why.worse_by, 1);
    release(&p);
    make_plan(&p, graph_of(&chain), devices(3, 1200), SP_OBJECTIVE_DEVICES);
    cr_expect_eq(p.why.kind, SP_BINDING_BOUND, "%s", p.why.sentence);
    cr_expect_eq(p.why.second->devices_used, 2);
    release(&p);
}

/* ---- the second best -------------------------------------------------------------------------------------------- */

/* The shortest interval of a chain in exactly `stages` stages of one device, or infinity: all cuts, as bits between
   neighbours. A stage's interval is the longest of its computing, what it sends and what it receives. */
static double shortest(const struct chain *chain, uint32_t stages, double memory)
{
    double best = INFINITY;
    for (uint32_t cuts = 0; cuts < 1u << (chain->count - 1); cuts++) {
        double interval = 0, compute = 0, held = 0;
        bool fits = true;
        if ((uint32_t)__builtin_popcount(cuts) + 1 != stages)
            continue;
        for (uint32_t i = 0; i < chain->count; i++) {
            compute += chain->seconds[i];
            held += chain->memory[i];
            fits = fits && held <= memory;
            interval = fmax(interval, compute);
            if (i + 1 == chain->count || (cuts >> i & 1) == 0)
                continue;
            interval = fmax(interval, chain->edge_seconds[i]);
            compute = held = 0;
        }
        best = fits ? fmin(best, interval) : best;
    }
    return best;
}

/* All plans were tried: memory is named if, and only if, a better plan is found with more; and it does what is said of
   it with as much as is said. */
static void expect_memory(const struct planned *p, const char *graph, uint32_t count, double best)
{
    struct planned more;
    make_plan(&more, graph, devices(count, 1e9), SP_OBJECTIVE_THROUGHPUT);
    const double least = more.plan->result->evaluation->interval_seconds;
    release(&more);
    cr_assert_eq(p->why.kind == SP_BINDING_MEMORY, least < best * (1 - 1e-9), "%s; %g with all memory", p->why.sentence,
                 least);
    if (p->why.kind != SP_BINDING_MEMORY)
        return;
    make_plan(&more, graph, devices(count, p->why.needed_bytes), SP_OBJECTIVE_THROUGHPUT);
    cr_assert_float_eq(more.plan->result->evaluation->interval_seconds, p->why.better_seconds, 1e-9, "%s",
                       p->why.sentence);
    release(&more);
}

/* Equal devices: plans differ in form where they differ in the number of stages. */
Test(why, second_best_of_chains_is_that_of_all_cuts)
{
    uint64_t seed = 5;
    uint32_t none = 0, some = 0, told = 0;
    for (uint32_t round = 0; round < 200; round++) {
        struct chain chain = {.count = 2 + pick(&seed, 5)};
        const uint32_t count = 1 + pick(&seed, 4);
        const double memory = 100 * (3 + pick(&seed, 6));
        double best = INFINITY, second = INFINITY;
        struct planned p;
        struct sp_plan_options options;
        for (uint32_t i = 0; i < chain.count; i++) {
            chain.seconds[i] = 1 + pick(&seed, 50) / 10.0;
            chain.memory[i] = 100 * pick(&seed, 4);
            chain.edge_seconds[i] = pick(&seed, 40) / 10.0;
        }
        for (uint32_t k = 1; k <= count && k <= chain.count; k++) {
            const double interval = shortest(&chain, k, memory);
            if (interval < best - 1e-9) {
                second = best;
                best = interval;
            } else {
                second = fmin(second, interval);
            }
        }
        sp_plan_options_init(&options);
        options.max_replicas = 1; /* one plan, no copies */
        options.tolerance = 0;
        const char *graph = graph_of(&chain);
        const enum sp_status status = plan_bytes(&p, graph, strlen(graph), devices(count, memory), &options);
        cr_assert_eq(status == SP_OK, isfinite(best), "round %u: %s", round, p.err.message);
        if (status == SP_OK) {
            cr_assert_float_eq(p.plan->result->evaluation->interval_seconds, best, 1e-9, "round %u", round);
            cr_assert_eq(p.why.second != NULL, isfinite(second), "round %u: %s", round, p.why.second_sentence);
        }
        if (status == SP_OK && p.why.second != NULL) {
            cr_assert_float_eq(p.why.second->interval_seconds, second, 1e-9, "round %u: %g, brute force %g", round,
                               p.why.second->interval_seconds, second);
            cr_assert_float_eq(p.why.worse_by, second - best, 1e-9);
            cr_assert_neq(p.why.second->stage_count, p.plan->result->evaluation->stage_count);
        }
        if (status == SP_OK) {
            told += p.why.kind == SP_BINDING_MEMORY;
            expect_memory(&p, graph, count, best);
        }
        none += status == SP_OK && p.why.second == NULL;
        some += status == SP_OK && p.why.second != NULL;
        release(&p);
    }
    cr_assert_gt(none, 5);
    cr_assert_gt(some, 30);
    cr_assert_gt(told, 5);
}

/* ---- as JSON and text ------------------------------------------------------------------------------------------- */

static json_t *json_of(const struct sp_plan *plan)
{
    struct sp_buf text;
    struct sp_json json;
    sp_buf_init(&text, (size_t)1 << 24);
    sp_json_init_buf(&json, false, &text);
    sp_plan_write_json(plan, 0, &json);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    json_t *parsed = json_loadb(text.data, text.size, 0, NULL);
    cr_assert_not_null(parsed);
    sp_buf_release(&text);
    return parsed;
}

Test(why, json_and_text_say_the_same)
{
    const struct chain chain = {3, {3, 2, 2}, {100, 500, 600}, {0}};
    struct planned p;
    struct sp_buf text;
    make_plan(&p, graph_of(&chain), devices(2, 1000), SP_OBJECTIVE_THROUGHPUT);
    json_t *json = json_of(p.plan), *why = json_object_get(json, "why");
    const json_t *binding = json_object_get(why, "binding"), *second = json_object_get(why, "second_best");
    cr_expect_str_eq(json_string_value(json_object_get(binding, "kind")), "memory");
    cr_expect(json_is_null(json_object_get(binding, "stage")));
    cr_expect_eq(json_array_size(json_object_get(binding, "devices")), 1);
    cr_expect_str_eq(json_string_value(json_object_get(binding, "sentence")), p.why.sentence);
    cr_expect_eq(json_number_value(json_object_get(binding, "needed_bytes")), 1100);
    cr_expect(json_is_null(second)); /* on one device all would need 1200 bytes */
    cr_expect_str_eq(json_string_value(json_object_get(why, "no_second_best")), p.why.second_sentence);
    sp_buf_init(&text, (size_t)1 << 20);
    sp_plan_write_text(p.plan, &text);
    cr_expect_not_null(strstr(text.data, "Why         Memory: "), "%s", text.data);
    cr_expect_not_null(strstr(text.data, "no second best"), "%s", text.data);
    sp_buf_release(&text);
    json_decref(json);
    release(&p);
}

/* ---- near the best ----------------------------------------------------------------------------------------------- */

static void plan_chain(struct planned *p, const struct chain *chain, uint32_t device_count, double tolerance)
{
    struct sp_plan_options options;
    const char *graph = graph_of(chain);
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    options.tolerance = tolerance;
    cr_assert_eq(plan_bytes(p, graph, strlen(graph), devices(device_count, 1e9), &options), SP_OK, "%s",
                 p->err.message);
}

/* 100 s and 1 s on one device are 1 % more than the 100 s of two. */
Test(why, a_second_device_is_not_worth_one_per_cent)
{
    const struct chain chain = {.count = 2, .seconds = {100, 1}, .memory = {1, 1}};
    struct planned p;
    plan_chain(&p, &chain, 2, SP_PLAN_TOLERANCE);
    cr_expect_eq(sp_plan_devices_used(p.plan), 1);
    cr_assert_not_null(p.why.best_sentence);
    cr_expect_str_eq(p.why.best_sentence,
                     "2 devices would be 1 % faster: 2 stages of 1 device has an interval of 100.0 s. "
                     "That is within the tolerance of 2 %, and takes 1 device more.");
    cr_expect_float_eq(p.why.better_by, 1, 1e-9);
    cr_expect_float_eq(p.why.better_share, 0.01, 1e-9);
    cr_expect_float_eq(sp_plan_gap(p.plan).best_seconds, 100, 1e-9);
    cr_expect_float_eq(sp_plan_gap(p.plan).value_seconds, 101, 1e-9);
    cr_expect_neq(p.why.kind, SP_BINDING_BOUND, "%s", p.why.sentence);
    release(&p);
    plan_chain(&p, &chain, 2, 0.0099);
    cr_expect_eq(sp_plan_devices_used(p.plan), 2);
    cr_expect_null(p.why.best_sentence);
    cr_expect_float_eq(sp_plan_gap(p.plan).best_seconds, 100, 1e-9);
    release(&p);
}

/* Of two devices one is the fuller by the same in both cuts, 10 | 40 + 50 and 10 + 40 | 50, and one message is sent. The
   second cut takes 1 % longer for a request, but there is one every 50 s instead of every 90. */
Test(why, the_other_figure_decides_where_nothing_else_does)
{
    const struct chain chain = {.count = 3, .seconds = {10, 40, 50}, .memory = {400, 200, 400}, .edge_seconds = {0, 1}};
    for (int exact = 0; exact < 2; exact++) {
        struct sp_plan_options options;
        struct planned p;
        const char *graph = graph_of(&chain);
        sp_plan_options_init(&options);
        options.max_replicas = 1; /* one plan, no copies */
        options.objective = SP_OBJECTIVE_LATENCY;
        options.tolerance = exact ? 0 : SP_PLAN_TOLERANCE;
        cr_assert_eq(plan_bytes(&p, graph, strlen(graph), devices(2, 800), &options), SP_OK, "%s", p.err.message);
        const struct sp_evaluation *evaluation = p.plan->result->evaluation;
        cr_expect_float_eq(evaluation->latency_seconds, exact ? 100 : 101, 1e-9, "%g", evaluation->latency_seconds);
        cr_expect_float_eq(evaluation->interval_seconds, exact ? 90 : 50, 1e-9, "%g", evaluation->interval_seconds);
        cr_expect_eq(p.why.best_sentence == NULL, exact);
        if (!exact)
            cr_expect_str_eq(p.why.best_sentence,
                             "Another plan would be 1 % faster: 2 stages of 1 device has a latency of 100.0 s. That is "
                             "within the tolerance of 2 %, and has an interval of 90.0 s instead of 50.0 s.");
        release(&p);
    }
}

/* Stages of a chain whose edges cost nothing: how few keep a limit follows from filling one after the other. */
static uint32_t fewest_stages(const struct chain *chain, double limit)
{
    uint32_t stages = 1;
    double sum = 0;
    for (uint32_t i = 0; i < chain->count; i++) {
        if (sum + chain->seconds[i] > limit * (1 + 1e-9)) {
            stages++;
            sum = 0;
        }
        sum += chain->seconds[i];
    }
    return stages;
}

/* Too many nodes for trying all plans: the largest of them bounds the interval, and leaves devices free. */
Test(why, chains_use_as_few_devices_as_keep_the_tolerance)
{
    static const double tolerances[] = {0.01, 0.02, 0.1, 0.3};
    uint32_t fewer = 0;
    uint64_t seed = 7;
    for (uint32_t number = 0; number < 60; number++) {
        struct chain chain = {.count = 12};
        struct planned best, p;
        for (uint32_t i = 0; i < chain.count; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            chain.seconds[i] = 1 + (double)((seed >> 33) % 30) + (i == number % 12 ? 60 : 0);
            chain.memory[i] = 1;
        }
        const double tolerance = tolerances[number % 4];
        plan_chain(&best, &chain, 6, 0);
        plan_chain(&p, &chain, 6, tolerance);
        const double value = sp_plan_gap(best.plan).value_seconds, limit = value * (1 + tolerance);
        cr_expect_leq(sp_plan_gap(p.plan).value_seconds, limit * (1 + 1e-6), "chain %u", number);
        cr_expect_float_eq(sp_plan_gap(p.plan).best_seconds, value, 1e-9 * value, "chain %u", number);
        cr_expect_leq(sp_plan_devices_used(p.plan), fewest_stages(&chain, limit),
                      "chain %u, tolerance %g: %u devices do", number, tolerance, fewest_stages(&chain, limit));
        fewer += sp_plan_devices_used(p.plan) < sp_plan_devices_used(best.plan);
        release(&best);
        release(&p);
    }
    cr_expect_gt(fewer, 10, "%u", fewer);
}

/* Between the first node and the last one two branches of 50 s and a short one of 1 s. A stage sends when it has
   finished, so each of the five has a device of its own for 52 s; with the short one in another one's stage a request
   takes 1 s longer, which is 1.9 %. */
Test(why, a_short_branch_is_not_worth_a_device)
{
    char graph[8192];
    size_t used = (size_t)snprintf(graph, sizeof graph,
                                   "{\"nodes\":[{\"id\":\"first\",\"seconds\":1},{\"id\":\"last\",\"seconds\":1}");
    for (uint32_t i = 0; i < 30; i++)
        used += (size_t)snprintf(graph + used, sizeof graph - used, ",{\"id\":\"n%u\",\"seconds\":%g}", i,
                                 i < 20 ? 5 : 0.1);
    used += (size_t)snprintf(graph + used, sizeof graph - used, "],\"edges\":[");
    for (uint32_t i = 0; i < 30; i++) {
        char from[16] = "first";
        if (i % 10 != 0)
            (void)snprintf(from, sizeof from, "n%u", i - 1);
        used += (size_t)snprintf(graph + used, sizeof graph - used, "%s{\"from\":\"%s\",\"to\":\"n%u\"}",
                                 i == 0 ? "" : ",", from, i);
        if (i % 10 == 9)
            used += (size_t)snprintf(graph + used, sizeof graph - used, ",{\"from\":\"n%u\",\"to\":\"last\"}", i);
    }
    used += (size_t)snprintf(graph + used, sizeof graph - used, "]}");
    for (int exact = 0; exact < 2; exact++) {
        struct sp_plan_options options;
        struct planned p;
        sp_plan_options_init(&options);
        options.max_replicas = 1; /* one plan, no copies */
        options.objective = SP_OBJECTIVE_LATENCY;
        options.tolerance = exact ? 0 : SP_PLAN_TOLERANCE;
        cr_assert_eq(plan_bytes(&p, graph, used, devices(5, 1e9), &options), SP_OK, "%s", p.err.message);
        const double latency = p.plan->result->evaluation->latency_seconds;
        cr_expect_float_eq(latency, exact ? 52 : 53, 1e-6, "%g", latency);
        cr_expect_eq(sp_plan_devices_used(p.plan), exact ? 5 : 4, "%u", sp_plan_devices_used(p.plan));
        release(&p);
    }
}
