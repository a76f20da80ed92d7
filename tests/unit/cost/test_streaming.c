/* Weights in the memory of hosts: which, how many, what that costs; against trying every choice. */
#include <criterion/criterion.h>
#include <math.h>

#include "cost/streaming.h"
#include "random_workload.h"
#include "recount.h"
#include "search/joint/joint.h"

#define ITEMS 10

/* Two devices of 1000 bytes, 100 bytes per second between them, beside a host. */
#define DEVICES(count, host)                                                                                           \
    "{\"groups\": [{\"count\": " #count ", \"device\": {\"name\": \"d\", \"memory_bytes\": 1000,"                      \
    " \"memory_bandwidth\": 1000, \"flops\": {\"float32\": 1000}}}], \"mesh\": [{\"size\": " #count                    \
    ", \"bandwidth\": 100, \"latency\": 0}], \"host\": " host "}"
#define HOST "{\"memory_bytes\": 5000, \"bandwidth\": 50}"

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

TestSuite(streaming, .init = setup, .fini = teardown);

/* ---- which weights ----------------------------------------------------------------------------------------------- */

/* The fewest bytes of any choice that frees enough; INFINITY: none does. */
static double least_of_all(uint32_t count, const double *bytes, double lacking)
{
    double least = INFINITY;
    for (uint32_t set = 1; set < 1u << count; set++) {
        double sum = 0, largest = 0;
        for (uint32_t i = 0; i < count; i++) {
            sum += set >> i & 1 ? bytes[i] : 0;
            largest = set >> i & 1 ? fmax(largest, bytes[i]) : largest;
        }
        if (sum >= lacking + 2 * largest)
            least = fmin(least, sum);
    }
    return least;
}

Test(streaming, as_few_bytes_as_any_choice_up_to_one_weight)
{
    uint64_t seed = 1;
    uint32_t possible = 0;
    for (uint32_t round = 0; round < 3000; round++) {
        const uint32_t count = 1 + pick(&seed, ITEMS), sizes = 1 + pick(&seed, 8);
        struct sp_streamable items[ITEMS];
        struct sp_stream_size of_size[ITEMS];
        double bytes[ITEMS], sum = 0, largest = 0, total = 0;
        for (uint32_t i = 0; i < count; i++) {
            bytes[i] = 1 + 7.0 * pick(&seed, sizes);
            total += bytes[i];
            items[i] = (struct sp_streamable){i, bytes[i], true};
        }
        const double lacking = 1 + pick(&seed, (uint32_t)total);
        const double least = least_of_all(count, bytes, lacking);
        struct sp_streamed_weights streamed = {0};
        const bool chosen = sp_stream_choose(count, items, of_size, lacking, &streamed);
        cr_assert_eq(chosen, isfinite(least), "round %u", round);
        if (!chosen)
            continue;
        possible++;
        uint32_t found = 0;
        for (uint32_t i = 0; i < count; i++) {
            found += items[i].is_streamed;
            sum += items[i].is_streamed ? items[i].bytes : 0;
            largest = items[i].is_streamed ? fmax(largest, items[i].bytes) : largest;
        }
        cr_assert_eq(found, streamed.count);
        cr_assert_float_eq(sum, streamed.bytes, 1e-9);
        cr_assert_float_eq(largest, streamed.largest_bytes, 1e-9);
        cr_assert(sum >= lacking + 2 * largest, "round %u: %g of %g", round, sum, lacking);
        cr_assert(sum <= least + 3 * fmax(largest, 1), "round %u: %g, and %g would do", round, sum, least);
    }
    cr_assert_gt(possible, 500);
}

/* Of twelve equal weights three are enough: they stand four apart. */
Test(streaming, equal_weights_stand_apart)
{
    struct sp_streamable items[12];
    struct sp_stream_size sizes[12];
    struct sp_streamed_weights streamed;
    for (uint32_t i = 0; i < 12; i++)
        items[i] = (struct sp_streamable){i, 100, false};
    cr_assert(sp_stream_choose(12, items, sizes, 100, &streamed));
    cr_assert_eq(streamed.count, 3);
    for (uint32_t i = 0; i < 12; i++)
        cr_assert_eq(items[i].is_streamed, i % 4 == 2, "%u", i);
}

/* ---- what it costs ----------------------------------------------------------------------------------------------- */

/* A chain of `count` nodes of 1 s with a weight of 200 bytes each, and 10 bytes between them. */
static struct sp_workload *chain(const struct sp_cluster *cluster, uint32_t count)
{
    struct sp_workload *work = workload_new(arena, cluster);
    uint32_t x = workload_input(work, 10);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t w = workload_weight(work, 200);
        x = workload_result(work, workload_node(work, 1, 2, (uint32_t[]){x, w}), 10);
    }
    work->tensors[x].is_output = true;
    workload_finish(work);
    return work;
}

static struct sp_evaluation *evaluate(const struct sp_workload *work, const struct sp_cluster *cluster,
                                      uint32_t stage_count, uint32_t *stage_of)
{
    uint32_t devices[] = {0, 1};
    struct sp_placement placement = {stage_count, stage_of, devices};
    struct sp_evaluation *evaluation = NULL;
    cr_assert_eq(sp_evaluate(arena, work, cluster, &placement, &evaluation, &err), SP_OK, "%s", err.message);
    recount_expect(work, cluster, &placement, NULL, evaluation, evaluation->worst_excess_bytes <= 0);
    return evaluation;
}

/* 8 weights and 30 bytes alive: 630 lack, and two buffers of 200: six weights come, 1200 bytes at 50 a second. */
Test(streaming, one_stage)
{
    struct sp_cluster *cluster = cluster_from(arena, DEVICES(1, HOST));
    const struct sp_stage_cost *cost = &evaluate(chain(cluster, 8), cluster, 1, (uint32_t[8]){0})->stages[0];
    cr_assert_float_eq(cost->streamed_bytes, 1200, 1e-9);
    cr_assert_float_eq(cost->stream_buffer_bytes, 400, 1e-9);
    cr_assert_float_eq(cost->weights_bytes, 400 + 400, 1e-9);
    cr_assert_leq(cost->total_bytes, cost->capacity_bytes);
    cr_assert_float_eq(cost->stream_seconds, 24, 1e-9);
    cr_assert_float_eq(cost->stall_seconds, 16, 1e-9);
    cr_assert_float_eq(cost->compute_seconds, 24, 1e-9);
    cr_assert_float_eq(cost->interval_seconds, 24, 1e-9);
    cr_assert_eq(cost->streamed_count, 6);
}

/* Copies hide behind computing where that takes longer. */
Test(streaming, a_fast_host_costs_nothing)
{
    struct sp_cluster *cluster = cluster_from(arena, DEVICES(1, "{\"memory_bytes\": 5000, \"bandwidth\": 1000}"));
    const struct sp_stage_cost *cost = &evaluate(chain(cluster, 8), cluster, 1, (uint32_t[8]){0})->stages[0];
    cr_assert_float_eq(cost->streamed_bytes, 1200, 1e-9);
    cr_assert_float_eq(cost->stall_seconds, 0, 1e-9);
    cr_assert_float_eq(cost->compute_seconds, 8, 1e-9);
}

/* Two stages of 8 nodes: each copies for 24 s when it is alone, and over one link both take 48 for each request. */
Test(streaming, stages_share_the_link_of_their_host)
{
    uint32_t stage_of[16];
    for (uint32_t i = 0; i < 16; i++)
        stage_of[i] = i / 8;
    struct sp_cluster *cluster = cluster_from(arena, DEVICES(2, HOST));
    const struct sp_evaluation *both = evaluate(chain(cluster, 16), cluster, 2, stage_of);
    const double bytes = both->stages[0].streamed_bytes + both->stages[1].streamed_bytes;
    cr_assert_float_eq(both->stages[0].compute_seconds, both->stages[0].streamed_bytes / 50, 1e-9);
    cr_assert_float_eq(both->interval_seconds, bytes / 50, 1e-9);
    cr_assert_float_eq(both->stages[1].shared_seconds, bytes / 50, 1e-9);
    cr_assert_geq(both->latency_seconds, bytes / 50);
    cluster = cluster_from(arena, DEVICES(2, "{\"memory_bytes\": 5000, \"bandwidth\": 50, \"devices\": 1}"));
    const struct sp_evaluation *apart = evaluate(chain(cluster, 16), cluster, 2, stage_of);
    cr_assert_float_eq(apart->interval_seconds, apart->stages[1].streamed_bytes / 50, 1e-9);
    cr_assert_leq(apart->worst_excess_bytes, 0);
}

/* A host of 2000 bytes has room for what one of the two streams. */
Test(streaming, a_full_host_takes_no_more)
{
    uint32_t stage_of[16];
    for (uint32_t i = 0; i < 16; i++)
        stage_of[i] = i / 8;
    struct sp_cluster *cluster = cluster_from(arena, DEVICES(2, "{\"memory_bytes\": 2000, \"bandwidth\": 50}"));
    const struct sp_evaluation *evaluation = evaluate(chain(cluster, 16), cluster, 2, stage_of);
    cr_assert_eq(evaluation->stages[0].streamed_count, 6);
    cr_assert_eq(evaluation->stages[1].streamed_count, 0);
    cr_assert_gt(evaluation->worst_excess_bytes, 600);
    cr_assert_eq(evaluation->worst_stage, 1);
}

/* Weights of several nodes stay on the device, whatever lacks. */
Test(streaming, what_several_nodes_use_stays)
{
    struct sp_cluster *cluster = cluster_from(arena, DEVICES(1, HOST));
    struct sp_workload *work = workload_new(arena, cluster);
    uint32_t x = workload_input(work, 10), w = workload_weight(work, 1200);
    for (uint32_t i = 0; i < 2; i++)
        x = workload_result(work, workload_node(work, 1, 2, (uint32_t[]){x, w}), 10);
    work->tensors[x].is_output = true;
    workload_finish(work);
    const struct sp_evaluation *evaluation = evaluate(work, cluster, 1, (uint32_t[]){0, 0});
    cr_assert_eq(evaluation->stages[0].streamed_count, 0);
    cr_assert_gt(evaluation->worst_excess_bytes, 200);
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

static enum sp_status search(const struct sp_workload *work, const struct sp_cluster *cluster,
                             enum sp_objective objective, struct sp_search_result **ret_result)
{
    struct sp_joint_options options;
    sp_joint_options_init(&options);
    options.objective = objective;
    options.skip_minimum_memory = true;
    return sp_joint_search(arena, work, NULL, cluster, &options, ret_result, &err);
}

/* A random one in which weights of single nodes take most of the memory. */
static struct sp_workload *heavy(const struct sp_cluster *cluster, uint32_t nodes, uint64_t *seed)
{
    struct sp_workload *work = workload_random(arena, cluster, nodes, seed);
    for (uint32_t n = 0; n < work->node_count; n++) {
        const double bytes = work->nodes[n].folded ? 0 : 1000.0 * (1 + pick(seed, 3));
        work->nodes[n].inner_weight_bytes += bytes;
        work->weight_bytes += bytes;
    }
    return work;
}

/* The best of all placements of the nodes on one or two devices, with what they stream; INFINITY: none fits. */
static double best_of_all(const struct sp_workload *work, const struct sp_cluster *cluster, bool is_latency)
{
    double best = INFINITY;
    for (uint32_t set = 0; set < 1u << work->node_count; set++) {
        uint32_t stage_of[WORKLOAD_NODES], devices[] = {0, 1};
        const bool has_two = set != 0 && set + 1 != 1u << work->node_count;
        bool is_monotone = true;
        for (uint32_t n = 0; n < work->node_count; n++)
            stage_of[n] = has_two ? set >> n & 1 : 0;
        for (uint32_t t = 0; t < work->tensor_count; t++) {
            const struct sp_work_tensor *tensor = &work->tensors[t];
            for (uint32_t i = 0; tensor->kind == SP_WORK_ACTIVATION && i < tensor->consumer_count; i++)
                is_monotone = is_monotone && (tensor->producer == SP_NO_WORK ||
                                              stage_of[tensor->producer] <= stage_of[tensor->consumers[i]]);
        }
        if (!is_monotone)
            continue;
        struct sp_placement placement = {has_two ? 2 : 1, stage_of, devices};
        struct sp_evaluation *evaluation = NULL;
        cr_assert_eq(sp_evaluate(arena, work, cluster, &placement, &evaluation, &err), SP_OK, "%s", err.message);
        if (evaluation->worst_excess_bytes <= 0)
            best = fmin(best, is_latency ? evaluation->latency_seconds : evaluation->interval_seconds);
    }
    return best;
}

/* Models that are small enough to try everything, on two devices with too little memory: whatever fits with a host is
   found, at its best, and no bound is above it. */
Test(streaming, search_finds_the_best_there_is)
{
    uint64_t seed = 3;
    uint32_t streamed = 0;
    for (uint32_t round = 0; round < 250; round++) {
        struct sp_cluster *cluster =
            cluster_from(arena, round % 2 == 0 ? DEVICES(2, "{\"memory_bytes\": 200000, \"bandwidth\": 500}")
                                               : DEVICES(2, "{\"memory_bytes\": 20000, \"bandwidth\": 2000}"));
        struct sp_workload *work = heavy(cluster, 4 + pick(&seed, 3), &seed);
        const bool is_latency = pick(&seed, 2) == 0;
        const double memory = 2000 + work->weight_bytes * (20 + pick(&seed, 80)) / 100;
        cluster->groups[0].device.memory_bytes = memory;
        const double best = best_of_all(work, cluster, is_latency);
        struct sp_search_result *result = NULL;
        const enum sp_status status =
            search(work, cluster, is_latency ? SP_OBJECTIVE_LATENCY : SP_OBJECTIVE_THROUGHPUT, &result);
        cr_assert_eq(status, isfinite(best) ? SP_OK : SP_ERR_NOFIT, "round %u: %s", round, err.message);
        if (status != SP_OK)
            continue;
        const struct sp_evaluation *evaluation = result->evaluation;
        const double found = is_latency ? evaluation->latency_seconds : evaluation->interval_seconds;
        const double bound = is_latency ? result->bounds.latency_seconds : result->bounds.interval_seconds;
        recount_expect(work, cluster, &result->placement, NULL, evaluation, true);
        cr_assert(found <= best * (1 + 1e-9), "round %u: %g, and there is one of %g", round, found, best);
        cr_assert(bound <= best * (1 + 1e-9), "round %u: no plan below %g, and there is one of %g", round, bound, best);
        for (uint32_t s = 0; s < evaluation->stage_count; s++)
            streamed += evaluation->stages[s].streamed_count > 0;
        sp_search_result_release(result);
    }
    cr_assert_gt(streamed, 20, "%u", streamed);
}

/* 32 weights of 200 on two devices of 1000: without a host nothing fits; with one the bound says what has to come. */
Test(streaming, a_model_of_three_times_the_memory)
{
    struct sp_cluster *cluster = cluster_from(arena, DEVICES(2, "{\"memory_bytes\": 8000, \"bandwidth\": 50}"));
    struct sp_workload *work = chain(cluster, 32);
    struct sp_search_result *result = NULL;
    cr_assert_eq(search(work, cluster, SP_OBJECTIVE_THROUGHPUT, &result), SP_OK, "%s", err.message);
    cr_assert_float_eq(result->bounds.interval_seconds, (32 * 200 - 2000) / 50.0, 1e-6);
    cr_assert_geq(result->evaluation->interval_seconds, result->bounds.interval_seconds);
    cr_assert_leq(result->evaluation->interval_seconds, 1.3 * result->bounds.interval_seconds);
    sp_search_result_release(result);
    cluster->host_of = NULL;
    cr_assert_eq(search(work, cluster, SP_OBJECTIVE_THROUGHPUT, &result), SP_ERR_NOFIT);
}
