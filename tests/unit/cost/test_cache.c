/*
 * Keys and values that attention nodes keep: how much by hand, what devices hold of them, and that plans count them.
 *
 * Llama 3 8B has 32 layers with 32 query heads and 8 heads of keys and values of size 128 (Meta: "The Llama 3 Herd of
 * Models", 2024, table 3): 8 * 128 * 2 * 2 bytes * 32 = 131072 bytes of float16 for each position.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cost/cache.h"
#include "plan/job.h"
#include "recount.h"
#include "search/joint/joint.h"
#include "strategy_models.h"

static struct strategy_model subject;

static void end(void)
{
    if (subject.arena)
        strategy_model_close(&subject);
    if (build.arena)
        stop();
}

TestSuite(cache, .fini = end);

/* Applies a demand; how many nodes keep something. */
static uint32_t apply(const struct sp_cache_demand *demand)
{
    uint32_t nodes = 0;
    cr_assert_eq(sp_workload_cache(subject.workload, subject.model, subject.cluster, demand, &nodes, &subject.err),
                 SP_OK, "%s", subject.err.message);
    return nodes;
}

static double resident_bytes(void)
{
    double sum = 0;
    for (uint32_t n = 0; n < subject.workload->node_count; n++)
        sum += subject.workload->nodes[n].resident_bytes;
    return sum;
}

/* ---- how much ---------------------------------------------------------------------------------------------------- */

/* One step of `layers` layers of attention alone: each attends with what the one before made. */
static void grouped_layers(uint32_t layers, const char *query, const char *key, int64_t heads, int64_t kv_heads)
{
    start(21);
    build_opset(&build, "com.microsoft", 1);
    build_input(&build, "x0", SP_DTYPE_FLOAT16, query);
    build_input(&build, "k", SP_DTYPE_FLOAT16, key);
    build_ints(&build, "lengths", 1, (int64_t[]){1});
    build_ints(&build, "total", 1, (int64_t[]){1});
    for (uint32_t i = 0; i < layers; i++) {
        char inputs[64], output[16];
        (void)snprintf(inputs, sizeof inputs, "x%u k k - - lengths total", i);
        (void)snprintf(output, sizeof output, "x%u", i + 1);
        struct sp_node *node = build_node_in(&build, "com.microsoft", "GroupQueryAttention", inputs, output);
        build_attr_int(&build, node, "num_heads", heads);
        build_attr_int(&build, node, "kv_num_heads", kv_heads);
        if (i + 1 == layers)
            build_outputs(&build, output);
    }
}

Test(cache, llama_3_8b_keeps_131072_bytes_of_a_position)
{
    grouped_layers(32, "1,1,4096", "1,1,1024", 32, 8);
    strategy_model_built(&subject, "a100-sxm4-80gb", 1);
    cr_expect_eq(apply(&(struct sp_cache_demand){.sequences = 1, .positions = 1}), 32);
    EXPECT_NEAR(resident_bytes(), 131072);
    EXPECT_NEAR(subject.workload->nodes[7].resident_bytes, 4096);
    cr_expect_eq(apply(&(struct sp_cache_demand){.sequences = 16, .positions = 8192}), 32);
    EXPECT_NEAR(resident_bytes(), 16.0 * 8192 * 131072);
    cr_expect_eq(apply(&(struct sp_cache_demand){.sequences = 16, .positions = 8192, .dtype = SP_DTYPE_INT4}), 32);
    EXPECT_NEAR(resident_bytes(), 16.0 * 8192 * 131072 / 4);
    cr_expect_eq(apply(&(struct sp_cache_demand){.total_bytes = 3.2e9}), 32);
    EXPECT_NEAR(subject.workload->nodes[0].resident_bytes, 1e8);
}

/* 4 heads of 64 of keys and of 32 of values, floats: 4 * (64 + 32) * 4 bytes. */
Test(cache, multi_head_attention_keeps_two_sizes)
{
    start(21);
    build_opset(&build, "com.microsoft", 1);
    build_input(&build, "q", SP_DTYPE_FLOAT, "2,8,256");
    build_input(&build, "k", SP_DTYPE_FLOAT, "2,16,256");
    build_input(&build, "v", SP_DTYPE_FLOAT, "2,16,128");
    struct sp_node *node = build_node_in(&build, "com.microsoft", "MultiHeadAttention", "q k v", "y");
    build_attr_int(&build, node, "num_heads", 4);
    build_outputs(&build, "y");
    strategy_model_built(&subject, "a100-sxm4-80gb", 1);
    cr_expect_eq(apply(&(struct sp_cache_demand){.sequences = 3, .positions = 100}), 1);
    EXPECT_NEAR(subject.workload->nodes[0].resident_bytes, 300.0 * 4 * (64 + 32) * 4);
    EXPECT_NEAR(subject.workload->nodes[0].cache->key_bytes, 300.0 * 4 * 64 * 4);
}

/* 6 query heads on 2 of keys and values of 16: past [2, 2, 24, 16] floats goes in, present [2, 2, 32, 16] comes out. Of
   5 sequences of 64 positions the larger of the two, 2 * 2 * 32 * 16 * 4 bytes, is in the model's own tensors. */
Test(cache, what_the_model_holds_counts_once)
{
    start(23);
    build_input(&build, "q", SP_DTYPE_FLOAT, "2,6,8,16");
    build_input(&build, "k", SP_DTYPE_FLOAT, "2,2,8,16");
    build_input(&build, "v", SP_DTYPE_FLOAT, "2,2,8,16");
    build_input(&build, "pk", SP_DTYPE_FLOAT, "2,2,24,16");
    build_input(&build, "pv", SP_DTYPE_FLOAT, "2,2,24,16");
    build_node(&build, "Attention", "q k v - pk pv", "y nk nv");
    build_outputs(&build, "y nk nv");
    strategy_model_built(&subject, "a100-sxm4-80gb", 1);
    cr_expect_eq(apply(&(struct sp_cache_demand){.sequences = 5, .positions = 64}), 1);
    const struct sp_work_cache *cache = subject.workload->nodes[0].cache;
    EXPECT_NEAR(cache->demanded_bytes, 5.0 * 64 * 2 * 2 * 16 * 4);
    EXPECT_NEAR(cache->key_bytes, 5.0 * 64 * 2 * 16 * 4 - 2 * 2 * 32 * 16 * 4);
    EXPECT_NEAR(subject.workload->nodes[0].resident_bytes, 2 * cache->key_bytes);
    /* Two sequences of 32 positions are what it holds itself. */
    cr_expect_eq(apply(&(struct sp_cache_demand){.sequences = 2, .positions = 32}), 1);
    EXPECT_NEAR(subject.workload->nodes[0].resident_bytes, 0);
}

/* Keys [2, 2, 16, 8] are repeated for 8 heads: 2 heads of 8 floats are kept of each position, not 8. */
static void written_out(void)
{
    start(21);
    build_input(&build, "q", SP_DTYPE_FLOAT, "2,8,4,8");
    build_input(&build, "k", SP_DTYPE_FLOAT, "2,2,16,8");
    build_input(&build, "v", SP_DTYPE_FLOAT, "2,2,16,8");
    build_input(&build, "m", SP_DTYPE_FLOAT, "2,1,4,16");
    build_ints(&build, "two", 1, (int64_t[]){2});
    build_ints(&build, "five", 5, (int64_t[]){2, 2, 4, 16, 8});
    build_ints(&build, "four", 4, (int64_t[]){2, 8, 16, 8});
    build_floats(&build, "scale", -1, (float[]){0.5f});
    build_node(&build, "Tanh", "k", "kt");
    build_node(&build, "Tanh", "v", "vt");
    build_node(&build, "Unsqueeze", "kt two", "k1");
    build_node(&build, "Expand", "k1 five", "k2");
    build_node(&build, "Reshape", "k2 four", "k3");
    struct sp_node *turn = build_node(&build, "Transpose", "k3", "k4");
    build_attr_ints(&build, turn, "perm", 4, (int64_t[]){0, 1, 3, 2});
    build_node(&build, "Unsqueeze", "vt two", "v1");
    build_node(&build, "Expand", "v1 five", "v2");
    build_node(&build, "Reshape", "v2 four", "v3");
    build_node(&build, "MatMul", "q k4", "s");
    build_node(&build, "Mul", "s scale", "s1");
    build_node(&build, "Add", "s1 m", "s2");
    build_node(&build, "Softmax", "s2", "p");
    build_node(&build, "MatMul", "p v3", "y");
    build_outputs(&build, "y");
}

static uint32_t node_making(const char *name)
{
    for (uint32_t n = 0; n < subject.workload->node_count; n++) {
        if (strcmp(subject.workload->tensors[subject.workload->nodes[n].outputs[0]].name, name) == 0)
            return n;
    }
    cr_assert_fail("nothing makes %s", name);
    return 0;
}

Test(cache, attention_that_is_written_out_is_found)
{
    written_out();
    strategy_model_built(&subject, "a100-sxm4-80gb", 1);
    cr_expect_eq(apply(&(struct sp_cache_demand){.sequences = 3, .positions = 10}), 2);
    EXPECT_NEAR(subject.workload->nodes[node_making("s")].resident_bytes, 30.0 * 2 * 8 * 4);
    EXPECT_NEAR(subject.workload->nodes[node_making("y")].resident_bytes, 30.0 * 2 * 8 * 4);
}

/* A classifier's Softmax is none. */
Test(cache, a_model_without_attention_keeps_nothing)
{
    start(21);
    build_input(&build, "x", SP_DTYPE_FLOAT, "4,8");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "8,8");
    build_node(&build, "MatMul", "x w", "y");
    build_node(&build, "Softmax", "y", "p");
    build_node(&build, "MatMul", "p w", "z");
    build_outputs(&build, "z");
    strategy_model_built(&subject, "a100-sxm4-80gb", 1);
    cr_expect_eq(apply(&(struct sp_cache_demand){.sequences = 3, .positions = 10}), 0);
    cr_expect_eq(resident_bytes(), 0);
}

/* ---- exports ----------------------------------------------------------------------------------------------------- */

/* Every layer of an export is found: twice as many MatMuls as Softmaxes, equal ones in each layer. */
static void expect_layers(const char *name, uint32_t layers, double bytes_of_position)
{
    if (!strategy_model_open(&subject, name, "a100-sxm4-80gb", 1))
        cr_skip("the test data is not here");
    cr_expect_eq(apply(&(struct sp_cache_demand){.sequences = 1, .positions = 1}), 2 * layers);
    EXPECT_NEAR(resident_bytes(), bytes_of_position);
}

/* 2 layers, 2 heads of keys and values of 16, each repeated for 2 heads of queries. */
Test(cache, llama_tiny)
{
    expect_layers("llama_tiny.onnx", 2, 2.0 * (2 * 16 * 2) * 4);
}

/* 12 layers of width 768 (Devlin et al., 2019). */
Test(cache, bert_base)
{
    expect_layers("bert_base.onnx", 12, 12.0 * (768 * 2) * 4);
}

/* ---- shards ------------------------------------------------------------------------------------------------------ */

/* Of a strategy that lays the mesh's axes on these factors ("-": none). */
static double kept_by(const struct sp_strategy_table *table, uint32_t node, const char *first, const char *second)
{
    const struct sp_strategies *strategies = sp_strategy_of(table, node);
    const char *const wanted[] = {first, second};
    for (uint32_t i = 0; i < strategies->count; i++) {
        bool is_it = true;
        for (uint32_t a = 0; a < sp_strategy_table_mesh(table)->axis_count; a++) {
            const uint8_t factor = strategies->items[i].factor_of[a];
            is_it =
                is_it &&
                strcmp(wanted[a], factor == SP_STRATEGY_NO_FACTOR ? "-" : strategies->rule->factors[factor].name) == 0;
        }
        if (is_it)
            return strategies->items[i].resident_bytes;
    }
    cr_assert_fail("there is no strategy %s, %s", first, second);
    return 0;
}

/* Heads of keys and values and sequences cut what is kept; heads of queries that share one of them do not. */
Test(cache, devices_hold_the_shards_of_heads)
{
    grouped_layers(1, "4,1,4096", "4,1,1024", 32, 8);
    strategy_model_built(&subject, "a100-sxm4-80gb", 32);
    cr_assert_eq(apply(&(struct sp_cache_demand){.sequences = 16, .positions = 1024}), 1);
    struct sp_strategy_table *table = strategy_table_of(&subject, 2, (uint32_t[]){8, 4});
    const double all = 16.0 * 1024 * 4096;
    EXPECT_NEAR(kept_by(table, 0, "-", "-"), all);
    EXPECT_NEAR(kept_by(table, 0, "-", "kv"), all / 4);
    EXPECT_NEAR(kept_by(table, 0, "kv", "-"), all / 8);
    EXPECT_NEAR(kept_by(table, 0, "-", "b"), all / 4);
    EXPECT_NEAR(kept_by(table, 0, "kv", "b"), all / 32);
    EXPECT_NEAR(kept_by(table, 0, "kv", "g"), all / 8);
    sp_strategy_table_destroy(table);
}

/* A step reads all that is kept: its bytes at the measured share of 2039 GB/s (NVIDIA's data sheet), of the whole
   node and of its shards. Attention takes no time but for its bytes. */
Test(cache, a_step_reads_what_is_kept)
{
    grouped_layers(1, "4,1,4096", "4,1,1024", 32, 8);
    strategy_model_built(&subject, "a100-sxm4-80gb", 32);
    const struct sp_work_node *node = &subject.workload->nodes[0];
    const struct sp_device_decode decode = sp_device_decode(sp_device_find("a100-sxm4-80gb"));
    const double seconds = node->seconds[0], bytes = node->bytes, speed = decode.memory_share * 2039e9;
    const double all = 64.0 * 8192 * 4096;
    for (uint32_t times = 1; times <= 2; times++) { /* a demand takes the place of the one before */
        cr_assert_eq(apply(&(struct sp_cache_demand){.sequences = 64 * times, .positions = 8192}), 1);
        EXPECT_NEAR(node->bytes - bytes, times * all);
        cr_expect_lt(fabs(node->seconds[0] - seconds - times * all / speed), 1e-6 * all / speed);
    }
    struct sp_strategy_table *table = strategy_table_of(&subject, 1, (uint32_t[]){8});
    const struct sp_strategies *ways = sp_strategy_of(table, 0);
    bool is_found = false;
    for (uint32_t i = 0; i < ways->count; i++) {
        const uint8_t factor = ways->items[i].factor_of[0];
        if (factor == SP_STRATEGY_NO_FACTOR || strcmp(ways->rule->factors[factor].name, "kv") != 0)
            continue;
        is_found = true;
        cr_expect_lt(fabs(ways->items[i].compute_seconds - decode.start_seconds - 2 * all / 8 / speed),
                     1e-3 * all / speed);
    }
    cr_expect(is_found);
    sp_strategy_table_destroy(table);
}

/* What a strategy of a product does to the axes of its input 1 [batch, heads, ..]. */
static double product_kept(const struct sp_strategy_table *table, uint32_t node, uint32_t axis)
{
    const struct sp_strategies *strategies = sp_strategy_of(table, node);
    const struct sp_axis_factors *factors = &strategies->rule->inputs[1].axes[axis];
    for (uint32_t i = 0; i < strategies->count; i++) {
        if (strategies->items[i].factor_of[0] == factors->factors[0])
            return strategies->items[i].resident_bytes;
    }
    cr_assert_fail("axis %u is not cut", axis);
    return 0;
}

/* 8 heads of which 2 are different: cut in 4, each device holds one of these 2. */
Test(cache, repeated_heads_are_cut_as_far_as_they_differ)
{
    written_out();
    strategy_model_built(&subject, "a100-sxm4-80gb", 4);
    cr_assert_eq(apply(&(struct sp_cache_demand){.sequences = 1, .positions = 1000}), 2);
    struct sp_strategy_table *table = strategy_table_of(&subject, 1, (uint32_t[]){4});
    const double all = 1000.0 * 2 * 8 * 4;
    EXPECT_NEAR(product_kept(table, node_making("s"), 1), all / 2);
    EXPECT_NEAR(product_kept(table, node_making("s"), 2), all / 4); /* the size of a head */
    EXPECT_NEAR(product_kept(table, node_making("s"), 3), all / 4); /* positions */
    EXPECT_NEAR(product_kept(table, node_making("y"), 1), all / 2);
    EXPECT_NEAR(product_kept(table, node_making("y"), 2), all / 4); /* positions */
    sp_strategy_table_destroy(table);
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static enum sp_status plan(enum sp_search_strategy strategy, struct sp_search_result **ret_result)
{
    struct sp_joint_options options;
    sp_joint_options_init(&options);
    options.strategy = strategy;
    memset(&subject.err, 0, sizeof subject.err);
    enum sp_status status = sp_joint_search(subject.arena, subject.workload, subject.dataflow, subject.cluster,
                                            &options, ret_result, &subject.err);
    if (status == SP_OK)
        recount_expect_result(subject.workload, subject.cluster, *ret_result);
    return status;
}

/* Each stage holds what its nodes do, once on each of its devices. */
static void expect_held(const struct sp_search_result *result)
{
    for (uint32_t s = 0; s < result->placement.stage_count; s++) {
        const struct sp_stage_cost *cost = &result->evaluation->stages[s];
        double kept = 0;
        for (uint32_t n = 0; n < subject.workload->node_count; n++)
            kept += result->placement.stage_of[n] == s && (result->sharded == NULL || result->sharded[s].table == NULL)
                        ? subject.workload->nodes[n].resident_bytes
                        : 0;
        for (uint32_t i = 0;
             result->sharded != NULL && result->sharded[s].table != NULL && i < result->sharded[s].node_count; i++)
            kept += sp_strategy_of(result->sharded[s].table, result->sharded[s].nodes[i])
                        ->items[result->sharded[s].strategy_of[i]]
                        .resident_bytes;
        EXPECT_NEAR(cost->cache_bytes, kept);
        EXPECT_NEAR(cost->total_bytes,
                    cost->weights_bytes + cost->cache_bytes + cost->activations_peak_bytes + cost->communication_bytes);
        cr_expect_leq(cost->total_bytes, cost->capacity_bytes);
    }
}

/* 8 layers keep 8 * 4096 bytes of a position: 8 * 10 GiB with 2.5 * 2^20 positions. One A100 has 80 GB: too little for
   that and anything else, two are enough for each way to plan, and one is for half of it. */
Test(cache, plans_have_room_for_it)
{
    static const enum sp_search_strategy strategies[] = {SP_STRATEGY_AUTO, SP_STRATEGY_GROUPING, SP_STRATEGY_PIPELINE,
                                                         SP_STRATEGY_TENSOR};
    const double positions = 2.5 * (1 << 20);
    grouped_layers(8, "4,1,4096", "4,1,1024", 32, 8);
    strategy_model_built(&subject, "a100-sxm4-80gb", 2);
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        struct sp_search_result *result;
        (void)apply(&(struct sp_cache_demand){.sequences = 1, .positions = positions});
        cr_assert_eq(plan(strategies[i], &result), SP_OK, "%s", subject.err.message);
        cr_expect_gt(result->placement.stage_count * sp_placement_size(&result->placement, 0), 1);
        expect_held(result);
        sp_search_result_release(result);
        (void)apply(&(struct sp_cache_demand){.sequences = 1, .positions = 2 * positions});
        cr_expect_eq(plan(strategies[i], &result), SP_ERR_NOFIT);
    }
    struct sp_search_result *result;
    (void)apply(&(struct sp_cache_demand){.sequences = 1, .positions = positions / 2});
    cr_assert_eq(plan(SP_STRATEGY_GROUPING, &result), SP_OK, "%s", subject.err.message);
    expect_held(result);
    sp_search_result_release(result);
}

/* The plan of a file says what each device keeps, and of which node; its four devices together keep what is demanded:
   2 layers * 2 heads * 16 * 2 * 2 bytes of float16 for each of 64 * 4096 positions. */
Test(cache, the_plan_says_it)
{
    static const char text[] = "{\"kv_cache\": {\"sequences\": 64, \"positions\": 4096, \"dtype\": \"float16\"}}";
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_plan_options options;
    struct sp_cluster *cluster;
    struct sp_error err = {0};
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_json json;
    struct sp_buf buf;
    char path[1024];
    size_t size;
    (void)snprintf(path, sizeof path, "%s/models/llama_tiny.onnx", data_folder());
    unsigned char *bytes = data_read(path, &size);
    if (bytes == NULL)
        cr_skip("the test data is not here");
    json_t *demanded = json_loads(text, 0, NULL);
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    cr_assert_eq(sp_demands_parse(arena, demanded, "/constraints", &options.constraints, &err), SP_OK);
    cr_assert_eq(sp_cluster_uniform(arena, "a100-sxm4-80gb", 4, &cluster, &err), SP_OK);
    cr_assert_eq(
        sp_job_plan(&(struct sp_job_options){.bytes = bytes, .size = size}, cluster, &options, &job, &plan, &err),
        SP_OK, "%s", err.message);
    recount_expect_result(plan->workload, plan->cluster, plan->result);
    sp_buf_init(&buf, (size_t)1 << 24);
    sp_json_init_buf(&json, false, &buf);
    sp_plan_write_json(plan, 0, &json);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    json_t *read = json_loads(buf.data, 0, NULL), *devices = json_object_get(read, "devices");
    const json_t *caches = json_object_get(read, "caches");
    double demanded_bytes = 0, kept = 0;
    for (size_t i = 0; i < json_array_size(caches); i++)
        demanded_bytes += json_number_value(json_object_get(json_array_get(caches, i), "demanded_bytes"));
    EXPECT_NEAR(demanded_bytes, 64.0 * 4096 * 2 * 2 * 16 * 2 * 2);
    for (size_t d = 0; d < json_array_size(devices); d++) {
        const json_t *device = json_array_get(devices, d), *memory = json_object_get(device, "memory");
        double of_stage = 0;
        for (size_t i = 0; i < json_array_size(caches); i++) {
            const json_t *cache = json_array_get(caches, i);
            if (json_equal(json_object_get(cache, "stage"), json_object_get(device, "stage")))
                of_stage += json_number_value(json_object_get(cache, "device_bytes"));
        }
        EXPECT_NEAR(json_number_value(json_object_get(memory, "cache_bytes")), of_stage);
        kept += of_stage;
    }
    cr_expect_geq(kept, demanded_bytes);
    json_decref(read);
    json_decref(demanded);
    sp_buf_release(&buf);
    sp_job_destroy(job);
    sp_arena_destroy(arena);
    free(bytes);
}
