/*
 * Constraints of a request: what is wrong with them is refused with its place, they are written back as they were read,
 * and plans of random small models under random constraints keep them, which is checked here from the placement and
 * the shardings alone.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "build_model.h"
#include "expect_op.h"
#include "infer/dataflow.h"
#include "plan/request/constraints.h"
#include "recount.h"
#include "search/joint/joint.h"

#define PROBLEMS    120
#define LAYERS      3
#define TEXT_BYTES  1024
#define ALL_DEVICES 4

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static enum sp_status read_text(struct sp_arena *arena, const char *text, const struct sp_demands **ret_demands,
                                struct sp_error *err)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    cr_assert_not_null(json, "%s", text);
    enum sp_status status = sp_demands_parse(arena, json, "/constraints", ret_demands, err);
    json_decref(json);
    return status;
}

Test(constraints, what_is_wrong_is_refused_with_its_place)
{
    static const struct {
        const char *text, *where;
    } cases[] = {
        {"3", "/constraints"},
        {"{\"colour\": 1}", "/constraints/colour"},
        {"{\"max_stages\": 0}", "/constraints/max_stages"},
        {"{\"max_stages\": 1.5}", "/constraints/max_stages"},
        {"{\"reserved_bytes\": -1}", "/constraints/reserved_bytes"},
        {"{\"reserved_bytes\": \"1\"}", "/constraints/reserved_bytes"},
        {"{\"kv_cache\": 3}", "/constraints/kv_cache"},
        {"{\"kv_cache\": {\"sequences\": 2}}", "/constraints/kv_cache"},
        {"{\"kv_cache\": {\"sequences\": 0, \"positions\": 1}}", "/constraints/kv_cache/sequences"},
        {"{\"kv_cache\": {\"sequences\": 1, \"positions\": 1, \"heads\": 1}}", "/constraints/kv_cache/heads"},
        {"{\"kv_cache\": {\"sequences\": 1, \"positions\": 1, \"dtype\": \"string\"}}", "/constraints/kv_cache/dtype"},
        {"{\"kv_cache_bytes\": 0}", "/constraints/kv_cache_bytes"},
        {"{\"kv_cache_bytes\": 1, \"kv_cache\": {\"sequences\": 1, \"positions\": 1}}", "/constraints/kv_cache_bytes"},
        {"{\"pins\": {}}", "/constraints/pins"},
        {"{\"pins\": [3]}", "/constraints/pins/0"},
        {"{\"pins\": [{\"nodes\": \"a\"}]}", "/constraints/pins/0"},
        {"{\"pins\": [{\"nodes\": \"a\", \"stage\": 0, \"device\": 0}]}", "/constraints/pins/0"},
        {"{\"pins\": [{\"stage\": 0}]}", "/constraints/pins/0"},
        {"{\"pins\": [{\"nodes\": \"a\", \"stage\": -1}]}", "/constraints/pins/0/stage"},
        {"{\"pins\": [{\"nodes\": \"a\", \"device\": true}]}", "/constraints/pins/0/device"},
        {"{\"pins\": [{\"nodes\": [], \"stage\": 0}]}", "/constraints/pins/0/nodes"},
        {"{\"pins\": [{\"nodes\": [\"a\", 3], \"stage\": 0}]}", "/constraints/pins/0/nodes/1"},
        {"{\"pins\": [{\"nodes\": \"\", \"stage\": 0}]}", "/constraints/pins/0/nodes"},
        {"{\"together\": [\"a\"]}", "/constraints/together/0"},
        {"{\"together\": [[\"a\", null]]}", "/constraints/together/0/1"},
        {"{\"specs\": [{\"shards\": [1]}]}", "/constraints/specs/0"},
        {"{\"specs\": [{\"tensor\": \"a\"}]}", "/constraints/specs/0/shards"},
        {"{\"specs\": [{\"tensor\": \"a\", \"shards\": [1, 0]}]}", "/constraints/specs/0/shards/1"},
        {"{\"specs\": [{\"tensor\": 1, \"shards\": [1]}]}", "/constraints/specs/0/tensor"},
        {"{\"forbid\": [{}]}", "/constraints/forbid/0"},
        {"{\"forbid\": [{\"tensor\": \"a\"}]}", "/constraints/forbid/0"},
        {"{\"forbid\": [{\"axis\": 1}]}", "/constraints/forbid/0"},
        {"{\"forbid\": [{\"level\": \"a\", \"nodes\": \"b\"}]}", "/constraints/forbid/0"},
        {"{\"forbid\": [{\"tensor\": \"a\", \"axis\": 64}]}", "/constraints/forbid/0/axis"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        const struct sp_demands *demands = NULL;
        struct sp_error err = {0};
        cr_expect_eq(read_text(arena, cases[i].text, &demands, &err), SP_ERR_REQUEST, "%s", cases[i].text);
        cr_expect_str_eq(err.where, cases[i].where, "%s is at %s", cases[i].text, err.where);
        sp_arena_destroy(arena);
    }
}

Test(constraints, there_is_a_limit)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    const struct sp_demands *demands = NULL;
    struct sp_error err = {0};
    json_t *names = json_array(), *json;
    for (uint32_t i = 0; i < SP_MAX_CONSTRAINTS; i++)
        json_array_append_new(names, json_string("a*"));
    for (uint32_t i = 0; i < SP_MAX_CONSTRAINTS; i++) /* names are not counted with patterns */
        json_array_append_new(names, json_string("b"));
    json = json_pack("{s:[o]}", "together", names);
    cr_expect_eq(sp_demands_parse(arena, json, "", &demands, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_CONSTRAINTS");
    json_array_remove(names, 0);
    cr_expect_eq(sp_demands_parse(arena, json, "", &demands, &err), SP_OK);
    json_decref(json);
    sp_arena_destroy(arena);
}

/* Demands that are read, as they are written. */
static void write_again(const char *text, struct sp_buf *ret_buf)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    const struct sp_demands *demands = NULL;
    struct sp_error err = {0};
    struct sp_json json;
    cr_assert_eq(read_text(arena, text, &demands, &err), SP_OK, "%s", err.message);
    sp_buf_init(ret_buf, 4096);
    sp_json_init_buf(&json, false, ret_buf);
    sp_demands_write(demands, &json);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    sp_arena_destroy(arena);
}

/* Members in a fixed order, a lone pattern as a list, what demands nothing left out; and that reads as itself. */
Test(constraints, are_written_in_one_form)
{
    static const char wanted[] =
        "{\"max_stages\":3,\"reserved_bytes\":1000,\"pins\":[{\"nodes\":[\"a*\"],\"stage\":0},{\"nodes\":[\"b\",\"c\"],"
        "\"device\":2}],\"together\":[[\"d\",\"e?\"]],\"specs\":[{\"tensor\":\"x\",\"shards\":[4,1]}],"
        "\"forbid\":[{\"level\":\"node\"},{\"tensor\":\"y\",\"axis\":1},{\"nodes\":[\"f\"]}]}";
    static const char *const texts[] = {
        "{\"forbid\": [{\"level\": \"node\"}, {\"axis\": 1, \"tensor\": \"y\"}, {\"nodes\": \"f\"}],"
        " \"specs\": [{\"shards\": [4, 1], \"tensor\": \"x\"}], \"together\": [[\"d\", \"e?\"]],"
        " \"pins\": [{\"stage\": 0, \"nodes\": \"a*\"}, {\"device\": 2, \"nodes\": [\"b\", \"c\"]}],"
        " \"reserved_bytes\": 1e3, \"max_stages\": 3}",
        wanted,
    };
    for (size_t i = 0; i < 2; i++) {
        struct sp_buf buf;
        write_again(texts[i], &buf);
        json_t *got = json_loads(buf.data, 0, NULL), *want = json_loads(wanted, 0, NULL);
        cr_expect_eq(strcspn(buf.data, "m"), strcspn(wanted, "m"));
        json_object_set_new(want, "reserved_bytes",
                            json_object_get(got, "reserved_bytes") == NULL
                                ? json_null()
                                : json_incref(json_object_get(got, "reserved_bytes")));
        cr_expect_eq(json_number_value(json_object_get(got, "reserved_bytes")), 1000);
        cr_expect(json_equal(got, want), "%s", buf.data);
        json_decref(got);
        json_decref(want);
        sp_buf_release(&buf);
    }
}

Test(constraints, caches_are_written_as_they_were_read)
{
    static const char *const texts[] = {
        "{\"kv_cache\":{\"sequences\":16,\"positions\":8192}}",
        "{\"kv_cache\":{\"sequences\":1,\"positions\":1,\"dtype\":\"float16\"},\"pins\":[{\"nodes\":[\"a\"],"
        "\"stage\":0}]}",
        "{\"kv_cache_bytes\":3.0}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct sp_buf buf;
        write_again(texts[i], &buf);
        json_t *got = json_loads(buf.data, 0, NULL);
        if (json_object_get(got, "kv_cache_bytes") != NULL)
            cr_expect_eq(json_number_value(json_object_get(got, "kv_cache_bytes")), 3);
        else
            cr_expect_str_eq(buf.data, texts[i]);
        json_decref(got);
        sp_buf_release(&buf);
    }
}

/* ---- a model ----------------------------------------------------------------------------------------------------- */

struct problem {
    struct build build;
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_workload *workload;
    struct sp_dataflow *dataflow;
    struct sp_contraction contraction;
    struct sp_error err;
};

/* Layers of a product with its own weight, a ReLU and a sum with what the layer began with. Products take 2 * 64 * 64 *
   64 FLOPs of 1e9 per second, links move 1e10 bytes: splitting and stages both are worth their while. */
static void open_problem(struct problem *problem, double memory)
{
    char text[512], inputs[64], names[3][16], weight[16];
    *problem = (struct problem){.arena = sp_arena_create(NULL)};
    build_init(&problem->build, 21);
    build_input(&problem->build, "x0", SP_DTYPE_FLOAT, "64,64");
    for (uint32_t i = 0; i < LAYERS; i++) {
        (void)snprintf(weight, sizeof weight, "w%u", i);
        (void)snprintf(names[0], sizeof names[0], "m%u", i);
        (void)snprintf(names[1], sizeof names[1], "r%u", i);
        (void)snprintf(names[2], sizeof names[2], "x%u", i + 1);
        build_weight(&problem->build, weight, SP_DTYPE_FLOAT, "64,64");
        (void)snprintf(inputs, sizeof inputs, "x%u w%u", i, i);
        build_node(&problem->build, "MatMul", inputs, names[0]);
        build_node(&problem->build, "Relu", names[0], names[1]);
        (void)snprintf(inputs, sizeof inputs, "r%u x%u", i, i);
        build_node(&problem->build, "Add", inputs, names[2]);
    }
    build_outputs(&problem->build, names[2]);
    cr_assert_eq(build_infer(&problem->build), SP_OK, "%s", problem->build.err.message);
    (void)snprintf(text, sizeof text,
                   "{\"device\":{\"name\":\"a\",\"memory_bytes\":%g,\"memory_bandwidth\":1e10,"
                   "\"flops\":{\"float32\":1e9}},\"count\":4,\"launch_seconds\":1e-6,"
                   "\"mesh\":[{\"name\":\"node\",\"size\":2,\"bandwidth\":1e9,\"latency\":1e-6},"
                   "{\"name\":\"gpu\",\"size\":2,\"bandwidth\":1e10,\"latency\":1e-6}]}",
                   memory);
    json_t *json = json_loads(text, 0, NULL);
    cr_assert_eq(sp_cluster_parse(problem->arena, json, "", &problem->cluster, &problem->err), SP_OK, "%s",
                 problem->err.message);
    json_decref(json);
    cr_assert_eq(sp_workload_from_model(problem->arena, problem->build.model, problem->cluster, NULL,
                                        &problem->workload, &problem->err),
                 SP_OK, "%s", problem->err.message);
    problem->contraction.workload = problem->workload;
    cr_assert_eq(sp_dataflow_create(problem->arena, problem->build.model, &problem->dataflow, &problem->err), SP_OK);
}

static void close_problem(struct problem *problem)
{
    sp_arena_destroy(problem->arena);
    build_release(&problem->build);
}

static enum sp_status resolve(struct problem *problem, const char *text, const struct sp_constraints **ret_constraints)
{
    const struct sp_demands *demands = NULL;
    memset(&problem->err, 0, sizeof problem->err);
    cr_assert_eq(read_text(problem->arena, text, &demands, &problem->err), SP_OK, "%s: %s", text, problem->err.message);
    const struct sp_demanded of = {problem->workload, &problem->contraction, problem->cluster, .can_split = true};
    return sp_demands_resolve(problem->arena, demands, &of, ret_constraints, &problem->err);
}

/* Nodes are called MatMul_0, Relu_1, Add_2, MatMul_3, ..; what is not there, or excludes something, is named. */
Test(constraints, what_cannot_be_is_named)
{
    static const struct {
        const char *text, *code, *where, *says;
    } cases[] = {
        {"{\"pins\": [{\"nodes\": [\"Relu*\", \"Gelu?\"], \"stage\": 0}]}", "CONSTRAINT_NO_NODE",
         "/constraints/pins/0/nodes/1", "Gelu?"},
        {"{\"specs\": [{\"tensor\": \"zz\", \"shards\": [1]}]}", "CONSTRAINT_NO_TENSOR", "/constraints/specs/0", "zz"},
        {"{\"specs\": [{\"tensor\": \"m1\", \"shards\": [1]}]}", "CONSTRAINT_SHARDS", "/constraints/specs/0", "2 axes"},
        {"{\"specs\": [{\"tensor\": \"m1\", \"shards\": [3, 1]}]}", "CONSTRAINT_SHARDS", "/constraints/specs/0",
         "3 shards"},
        {"{\"forbid\": [{\"tensor\": \"m1\", \"axis\": 2}]}", "CONSTRAINT_NO_AXIS", "/constraints/forbid/0", "axis 2"},
        {"{\"forbid\": [{\"level\": \"rack\"}]}", "CONSTRAINT_NO_LEVEL", "/constraints/forbid/0", "rack"},
        {"{\"reserved_bytes\": 1e12}", "CONSTRAINT_CONFLICT", "/constraints", "reserved_bytes"},
        {"{\"pins\": [{\"nodes\": \"*1\", \"stage\": 0}, {\"nodes\": \"Relu_1\", \"stage\": 1}]}",
         "CONSTRAINT_CONFLICT", "/constraints/pins/1", "/constraints/pins/0"},
        {"{\"pins\": [{\"nodes\": \"Relu_1\", \"stage\": 1}, {\"nodes\": \"Relu_4\", \"stage\": 0}]}",
         "CONSTRAINT_CONFLICT", "/constraints/pins/1", "/constraints/pins/0"},
        {"{\"pins\": [{\"nodes\": \"Relu_1\", \"stage\": 4}]}", "CONSTRAINT_CONFLICT", "/constraints/pins/0",
         "no more than 4"},
        {"{\"pins\": [{\"nodes\": \"Relu_1\", \"device\": 4}]}", "CONSTRAINT_CONFLICT", "/constraints/pins/0",
         "device 4"},
        {"{\"max_stages\": 2, \"pins\": [{\"nodes\": \"Relu_7\", \"stage\": 2}]}", "CONSTRAINT_CONFLICT",
         "/constraints/pins/0", "no more than 2"},
        {"{\"together\": [[\"Relu_1\", \"Add_8\"]], \"pins\": [{\"nodes\": \"Relu_1\", \"stage\": 0}, {\"nodes\": "
         "\"Add_8\", \"stage\": 1}]}",
         "CONSTRAINT_CONFLICT", "/constraints/pins/1", "together"},
        {"{\"specs\": [{\"tensor\": \"m1\", \"shards\": [2, 1]}], \"forbid\": [{\"tensor\": \"m1\", \"axis\": 0}]}",
         "CONSTRAINT_CONFLICT", "/constraints/forbid/0", "/constraints/specs/0"},
    };
    struct problem problem;
    open_problem(&problem, 1e9);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct sp_constraints *constraints = NULL;
        cr_expect_eq(resolve(&problem, cases[i].text, &constraints), SP_ERR_REQUEST, "%s", cases[i].text);
        cr_expect_str_eq(problem.err.code, cases[i].code, "%s: %s", cases[i].text, problem.err.message);
        cr_expect_str_eq(problem.err.where, cases[i].where, "%s: %s", cases[i].text, problem.err.where);
        cr_expect_not_null(strstr(problem.err.message, cases[i].says), "%s: %s", cases[i].text, problem.err.message);
    }
    close_problem(&problem);
}

/* The layers have no attention, and a device that has no seconds for a node cannot have it. */
Test(constraints, what_the_model_or_a_device_cannot_do_is_named)
{
    const struct sp_demands *demands = NULL;
    const struct sp_constraints *constraints = NULL;
    struct problem problem;
    open_problem(&problem, 1e9);
    cr_assert_eq(read_text(problem.arena, "{\"kv_cache_bytes\": 1000}", &demands, &problem.err), SP_OK);
    cr_expect_eq(sp_demands_apply(demands, problem.build.model, problem.cluster, problem.workload, &problem.err),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(problem.err.code, "CONSTRAINT_NO_ATTENTION");
    cr_expect_str_eq(problem.err.where, "/constraints/kv_cache_bytes");
    problem.workload->nodes[1].seconds[0] = INFINITY;
    cr_expect_eq(resolve(&problem, "{\"pins\": [{\"nodes\": \"Relu_1\", \"device\": 2}]}", &constraints),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(problem.err.code, "CONSTRAINT_CONFLICT");
    cr_expect_str_eq(problem.err.where, "/constraints/pins/0");
    cr_expect_not_null(strstr(problem.err.message, "cannot run it"), "%s", problem.err.message);
    close_problem(&problem);
}

/* Attention keeps 2 * 4 * 16 floats of a position: of 1e9 positions 5.12e11 bytes, and the 4 devices have 4e9. */
Test(constraints, more_than_all_memory_is_a_conflict)
{
    const struct sp_demands *demands = NULL;
    struct problem problem;
    open_problem(&problem, 1e9);
    struct sp_workload *workload = NULL;
    struct build attention;
    build_init(&attention, 23);
    build_input(&attention, "q", SP_DTYPE_FLOAT, "1,4,8,16");
    build_node(&attention, "Attention", "q q q", "y");
    build_outputs(&attention, "y");
    cr_assert_eq(build_infer(&attention), SP_OK, "%s", attention.err.message);
    cr_assert_eq(sp_workload_from_model(problem.arena, attention.model, problem.cluster, NULL, &workload, &problem.err),
                 SP_OK);
    cr_assert_eq(read_text(problem.arena, "{\"kv_cache\": {\"sequences\": 1000, \"positions\": 1000000}}", &demands,
                           &problem.err),
                 SP_OK);
    cr_expect_eq(sp_demands_apply(demands, attention.model, problem.cluster, workload, &problem.err), SP_ERR_REQUEST);
    cr_expect_str_eq(problem.err.code, "CONSTRAINT_CONFLICT");
    cr_expect_not_null(strstr(problem.err.message, "512000000000"), "%s", problem.err.message);
    cr_expect_not_null(strstr(problem.err.message, "4000000000"), "%s", problem.err.message);
    build_release(&attention);
    close_problem(&problem);
}

Test(constraints, patterns_fit_names)
{
    static const struct {
        const char *pattern;
        uint32_t count;
    } cases[] = {{"*", 9},     {"Relu*", 3},    {"?elu_?", 3},   {"*_4", 1},   {"*a*", 3},
                 {"M*l_*", 3}, {"MatMul_3", 1}, {"**d**8**", 1}, {"*u*_*", 6}, {"Add_????", 0}};
    struct problem problem;
    open_problem(&problem, 1e9);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct sp_constraints *constraints = NULL;
        char text[128];
        uint32_t count = 0;
        (void)snprintf(text, sizeof text, "{\"pins\": [{\"nodes\": \"%s\", \"stage\": 0}]}", cases[i].pattern);
        const enum sp_status status = resolve(&problem, text, &constraints);
        cr_expect_eq(status, cases[i].count == 0 ? SP_ERR_REQUEST : SP_OK, "%s", cases[i].pattern);
        for (uint32_t n = 0; status == SP_OK && n < problem.workload->node_count; n++)
            count += constraints->stage_of[n] == 0;
        cr_expect_eq(count, cases[i].count, "%s fits %u", cases[i].pattern, count);
    }
    close_problem(&problem);
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static uint64_t state;

static uint32_t below(uint32_t bound)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % bound;
}

/* What is demanded, drawn at random, beside its JSON. */
struct demanded {
    char text[TEXT_BYTES];
    uint32_t max_stages, pinned_node, pinned_stage, pinned_node_2, pinned_device, first, second, whole;
    bool has_stage, has_device, has_group, has_whole, has_spec, has_axis, has_level;
    uint32_t layer, shards[2], axis_layer, axis;
    double reserved;
};

static const char *name_of(const struct problem *problem, uint32_t node)
{
    return problem->workload->nodes[node].name;
}

static void draw(const struct problem *problem, struct demanded *d)
{
    const uint32_t nodes = problem->workload->node_count;
    static const char *const levels[] = {"node", "gpu"};
    char *at = d->text, *end = d->text + sizeof d->text;
    const char *comma = "";
    *d = (struct demanded){.pinned_node = below(nodes), .pinned_stage = below(ALL_DEVICES)};
    d->max_stages = below(2) == 0 ? 1 + below(ALL_DEVICES) : 0;
    d->has_stage = below(3) == 0;
    d->has_device = below(3) == 0;
    d->has_group = below(3) == 0;
    d->has_whole = below(4) == 0;
    d->has_spec = below(4) == 0;
    d->has_axis = below(3) == 0;
    d->has_level = below(4) == 0;
    d->reserved = below(3) == 0 ? 30000 : 0;
    at += snprintf(at, (size_t)(end - at), "{\"reserved_bytes\": %g", d->reserved);
    if (d->max_stages > 0)
        at += snprintf(at, (size_t)(end - at), ", \"max_stages\": %u", d->max_stages);
    at += snprintf(at, (size_t)(end - at), ", \"pins\": [");
    if (d->has_stage) {
        at += snprintf(at, (size_t)(end - at), "{\"nodes\": \"%s\", \"stage\": %u}", name_of(problem, d->pinned_node),
                       d->pinned_stage);
        comma = ", ";
    }
    d->pinned_node_2 = below(nodes);
    d->pinned_device = below(ALL_DEVICES);
    if (d->has_device)
        at += snprintf(at, (size_t)(end - at), "%s{\"nodes\": \"%s\", \"device\": %u}", comma,
                       name_of(problem, d->pinned_node_2), d->pinned_device);
    d->first = below(nodes);
    d->second = below(nodes);
    at += snprintf(at, (size_t)(end - at), "], \"together\": [");
    if (d->has_group)
        at += snprintf(at, (size_t)(end - at), "[\"%s\", \"%s\"]", name_of(problem, d->first),
                       name_of(problem, d->second));
    d->layer = below(LAYERS);
    d->shards[0] = 1u << below(3);
    d->shards[1] = d->shards[0] == 1 ? 1u << below(3) : 1;
    at += snprintf(at, (size_t)(end - at), "], \"specs\": [");
    if (d->has_spec)
        at += snprintf(at, (size_t)(end - at), "{\"tensor\": \"m%u\", \"shards\": [%u, %u]}", d->layer, d->shards[0],
                       d->shards[1]);
    at += snprintf(at, (size_t)(end - at), "], \"forbid\": [");
    d->axis_layer = (d->layer + 1) % LAYERS;
    d->axis = below(2);
    comma = "";
    if (d->has_axis) {
        at += snprintf(at, (size_t)(end - at), "{\"tensor\": \"x%u\", \"axis\": %u}", d->axis_layer + 1, d->axis);
        comma = ", ";
    }
    d->whole = below(nodes);
    if (d->has_whole) {
        at += snprintf(at, (size_t)(end - at), "%s{\"nodes\": \"%s\"}", comma, name_of(problem, d->whole));
        comma = ", ";
    }
    if (d->has_level)
        at += snprintf(at, (size_t)(end - at), "%s{\"level\": \"%s\"}", comma, levels[below(2)]);
    (void)snprintf(at, (size_t)(end - at), "]}");
}

/* In how many pieces a running node has axis `axis` of its operand `tensor`. */
static int64_t shards_of(const struct problem *problem, const struct sp_search_result *result, uint32_t node,
                         uint32_t tensor, uint32_t axis)
{
    const uint32_t stage = result->placement.stage_of[node];
    const struct sp_sharding *sharding = NULL;
    struct sp_error err = {0};
    if (result->sharded == NULL || result->sharded[stage].table == NULL)
        return 1;
    const struct sp_sharded_stage *sharded = &result->sharded[stage];
    uint32_t i = 0;
    while (sharded->nodes[i] != node)
        i++;
    const uint32_t operand = sp_strategy_operand(sharded->table, node, tensor);
    const uint32_t layout = sp_strategy_of(sharded->table, node)->items[sharded->strategy_of[i]].layouts[operand];
    cr_assert_eq(sp_strategy_sharding(sharded->table, problem->arena, 2, layout, 0, &sharding, &err), SP_OK);
    return sp_sharding_shards(sharding, axis);
}

static uint32_t tensor_called(const struct problem *problem, const char *prefix, uint32_t number)
{
    char name[16];
    (void)snprintf(name, sizeof name, "%s%u", prefix, number);
    uint32_t t = 0;
    while (t < problem->workload->tensor_count && strcmp(problem->workload->tensors[t].name, name) != 0)
        t++;
    cr_assert_lt(t, problem->workload->tensor_count, "there is no tensor %s", name);
    return t;
}

/* Calls it kept where all who make and use the tensor have it in so many pieces. */
static void expect_shards(const struct problem *problem, const struct demanded *d,
                          const struct sp_search_result *result, uint32_t tensor, uint32_t axis, int64_t shards)
{
    const struct sp_work_tensor *t = &problem->workload->tensors[tensor];
    cr_expect_eq(shards_of(problem, result, t->producer, tensor, axis), shards, "%s", d->text);
    for (uint32_t i = 0; i < t->consumer_count; i++)
        cr_expect_eq(shards_of(problem, result, t->consumers[i], tensor, axis), shards, "%s", d->text);
}

static void expect_kept(const struct problem *problem, const struct demanded *d, const struct sp_search_result *result)
{
    const struct sp_placement *placement = &result->placement;
    cr_expect(d->max_stages == 0 || placement->stage_count <= d->max_stages, "%s", d->text);
    cr_expect(!d->has_stage || placement->stage_of[d->pinned_node] == d->pinned_stage, "%s", d->text);
    if (d->has_device) {
        const uint32_t stage = placement->stage_of[d->pinned_node_2], first = placement->stage_device[stage];
        const uint32_t count = sp_placement_size(placement, stage) * sp_placement_replicas(placement, stage);
        cr_expect(d->pinned_device >= first && d->pinned_device < first + count, "%s", d->text);
    }
    cr_expect(!d->has_group || placement->stage_of[d->first] == placement->stage_of[d->second], "%s", d->text);
    if (d->has_spec) {
        expect_shards(problem, d, result, tensor_called(problem, "m", d->layer), 0, d->shards[0]);
        expect_shards(problem, d, result, tensor_called(problem, "m", d->layer), 1, d->shards[1]);
    }
    if (d->has_axis)
        expect_shards(problem, d, result, tensor_called(problem, "x", d->axis_layer + 1), d->axis, 1);
    if (d->has_whole) {
        const struct sp_work_node *node = &problem->workload->nodes[d->whole];
        for (uint32_t axis = 0; axis < 2; axis++)
            cr_expect_eq(shards_of(problem, result, d->whole, node->outputs[0], axis), 1, "%s", d->text);
    }
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        const uint32_t size = sp_placement_size(placement, s);
        const bool is_node = strstr(d->text, "\"node\"") != NULL, is_gpu = strstr(d->text, "\"gpu\"") != NULL;
        cr_expect(!is_node || size <= 2, "%s", d->text);
        cr_expect(!is_gpu || size == 1, "%s", d->text);
        cr_expect_leq(result->evaluation->stages[s].total_bytes, 150000 - d->reserved, "%s", d->text);
    }
}

/* What is found keeps everything; most of what is demanded can be had, and what cannot is refused with a reason. */
Test(constraints, plans_keep_random_constraints)
{
    uint32_t planned = 0, refused = 0;
    for (uint32_t p = 0; p < PROBLEMS; p++) {
        const struct sp_constraints *constraints = NULL;
        struct sp_search_result *result = NULL;
        struct sp_joint_options options;
        struct demanded demanded;
        struct problem problem;
        state = p;
        (void)below(2);
        open_problem(&problem, 150000);
        draw(&problem, &demanded);
        enum sp_status status = resolve(&problem, demanded.text, &constraints);
        sp_joint_options_init(&options);
        options.constraints = constraints;
        options.max_replicas = 1 + below(2);
        options.objective = below(2) == 0 ? SP_OBJECTIVE_LATENCY : SP_OBJECTIVE_THROUGHPUT;
        problem.cluster->reserved_bytes = demanded.reserved;
        if (status == SP_OK)
            status = sp_joint_search(problem.arena, problem.workload, problem.dataflow, problem.cluster, &options,
                                     &result, &problem.err);
        if (status == SP_OK) {
            planned++;
            expect_kept(&problem, &demanded, result);
            recount_expect_result(problem.workload, problem.cluster, result);
            sp_search_result_release(result);
        } else {
            refused++;
            cr_expect(status == SP_ERR_REQUEST || status == SP_ERR_NOFIT, "%s: %s", demanded.text, problem.err.message);
            cr_expect(strlen(problem.err.message) > 0);
        }
        close_problem(&problem);
    }
    cr_log_info("%u planned, %u refused", planned, refused);
    cr_expect_geq(planned, 2 * PROBLEMS / 3, "%u planned, %u refused", planned, refused);
}

/* A product and its weights are 3 tensors of 64 x 64 floats, 49152 bytes, a quarter of that on four devices: more than
   is left of 150000 bytes when 140000 are reserved. */
Test(constraints, the_one_that_is_too_much_is_named)
{
    const struct sp_constraints *constraints = NULL;
    struct sp_search_result *result = NULL;
    struct sp_joint_options options;
    struct problem problem;
    open_problem(&problem, 150000);
    cr_assert_eq(resolve(&problem, "{\"max_stages\": 4, \"reserved_bytes\": 140000}", &constraints), SP_OK);
    sp_joint_options_init(&options);
    options.constraints = constraints;
    options.strategy = SP_STRATEGY_GROUPING; /* it says so as all do, and sooner */
    problem.cluster->reserved_bytes = 140000;
    cr_assert_eq(sp_joint_search(problem.arena, problem.workload, problem.dataflow, problem.cluster, &options, &result,
                                 &problem.err),
                 SP_ERR_NOFIT);
    cr_expect_not_null(strstr(problem.err.message, "Without the constraint \"reserved_bytes\""), "%s",
                       problem.err.message);
    cr_expect_str_eq(problem.err.where, "/constraints/reserved_bytes");
    close_problem(&problem);
}
