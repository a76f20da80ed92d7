#include <criterion/criterion.h>
#include <math.h>

#include "build_model.h"
#include "cost/workload.h"

/* Figures of the A100-SXM4-80GB (NVIDIA data sheet) and the defaults of cluster.h, written out for the arithmetic. */
#define A100_FLOAT32   19.5e12
#define A100_FLOAT16   312e12
#define A100_INT8      624e12
#define A100_BANDWIDTH 2039e9
#define EFFICIENCY     0.7
#define LAUNCH         7e-6

#define SUBGRAPH_NODES  8
#define SUBGRAPH_VALUES 16
#define MAX_RANK        8

static struct build build;
static struct sp_cluster *cluster;
static struct sp_arena *arena; /* of the workload */

static void setup(void)
{
    build_init(&build, 21);
    arena = sp_arena_create(NULL);
    cr_assert_eq(sp_cluster_uniform(arena, "a100-sxm4-80gb", 2, &cluster, &build.err), SP_OK);
    cluster->efficiency = EFFICIENCY;
    cluster->launch_seconds = LAUNCH;
    cluster->groups[0].device.runtime = SP_RUNTIME_GENERIC; /* each operator is a kernel of its own */
}

static void teardown(void)
{
    sp_arena_destroy(arena);
    build_release(&build);
}

TestSuite(workload, .init = setup, .fini = teardown);

/* ---- operators of these tests: what costs need of them and nothing else ---------------------------------------- */

static enum sp_status matmul_rule(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_dim *a = context->node->inputs[0]->type.shape.dims, *b = context->node->inputs[1]->type.shape.dims;
    uint8_t m = sp_rule_factor(rule, "m", SP_FACTOR_PARALLEL, a[0]);
    uint8_t k = sp_rule_factor(rule, "k", SP_FACTOR_REDUCTION, a[1]);
    uint8_t n = sp_rule_factor(rule, "n", SP_FACTOR_PARALLEL, b[1]);
    rule->factors[k].combiner = SP_COMBINE_SUM;
    sp_rule_map_input(rule, 0, 0, m);
    sp_rule_map_input(rule, 0, 1, k);
    sp_rule_map_input(rule, 1, 0, k);
    sp_rule_map_input(rule, 1, 1, n);
    sp_rule_map_output(rule, 0, 0, m);
    sp_rule_map_output(rule, 0, 1, n);
    sp_rule_term(rule, 2, 3, (uint8_t[]){m, k, n});
    return SP_OK;
}

static enum sp_status elementwise_rule(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *shape = &context->node->outputs[0]->type.shape;
    for (uint32_t i = 0; i < shape->rank; i++) {
        uint8_t factor = sp_rule_factor(rule, "a", SP_FACTOR_PARALLEL, shape->dims[i]);
        sp_rule_map_output(rule, 0, i, factor);
    }
    sp_rule_term_output(rule, 1);
    return SP_OK;
}

static enum sp_status gather_rule(struct sp_op_context *context, struct sp_rule *rule)
{
    (void)context;
    rule->bytes = 96;
    return SP_OK;
}

static const struct sp_op matmul = {.name = "MatMul", .since = 1, .rule = matmul_rule};
static const struct sp_op relu = {.name = "Relu", .since = 1, .rule = elementwise_rule};
static const struct sp_op gather = {.name = "Gather", .since = 1, .rule = gather_rule};
static const struct sp_op reshape = {.name = "Reshape", .since = 1, .flags = SP_OP_VIEW};
static const struct sp_op shape_of = {.name = "Shape", .since = 1, .flags = SP_OP_METADATA};
static const struct sp_op constant = {.name = "Constant", .since = 1, .flags = SP_OP_CONSTANT};
static const struct sp_op control = {.name = "control", .since = 1, .flags = SP_OP_CONTROL};

/* A type from "8,n,?". */
static void set_type(struct sp_value *value, enum sp_dtype dtype, const char *text)
{
    value->type = (struct sp_type){.kind = SP_TYPE_TENSOR, .dtype = dtype, .shape = {.has_rank = true}};
    value->type.shape.dims = SP_NEW_ARRAY(build.arena, MAX_RANK, struct sp_dim);
    while (*text != '\0') {
        size_t size = strcspn(text, ",");
        char *part = sp_arena_string(build.arena, text, size), *end;
        long long number = strtoll(part, &end, 10);
        struct sp_dim dim = *end == '\0' ? sp_dim_known(number) : sp_dim_symbol(build.model->dims, part);
        value->type.shape.dims[value->type.shape.rank++] = *part == '?' ? sp_dim_unknown() : dim;
        text += size + (text[size] == ',');
    }
}

/* A node with one output of this type. */
static struct sp_node *node(const struct sp_op *op, const char *op_type, const char *inputs, const char *output,
                            enum sp_dtype dtype, const char *dims)
{
    struct sp_node *made = build_node(&build, op_type, inputs, output);
    made->op = op;
    made->version = 21;
    if (dims != NULL)
        set_type(build_value(&build, output), dtype, dims);
    return made;
}

static void fold(struct sp_node *folded)
{
    folded->is_folded = true;
    for (uint32_t i = 0; i < folded->output_count; i++)
        folded->outputs[i]->is_constant = true;
}

/* Further nodes go into a new subgraph of `owner`, or into the body of the function that it calls. */
static struct sp_graph *enter(struct sp_node *owner, bool body)
{
    struct sp_graph *outer = build.graph, *graph = SP_NEW(build.arena, struct sp_graph);
    graph->model = build.model;
    graph->parent = body ? NULL : outer;
    graph->owner = owner;
    graph->nodes = SP_NEW_ARRAY(build.arena, SUBGRAPH_NODES, struct sp_node);
    graph->values = SP_NEW_ARRAY(build.arena, SUBGRAPH_VALUES, struct sp_value *);
    graph->inputs = SP_NEW_ARRAY(build.arena, SUBGRAPH_VALUES, struct sp_value *);
    graph->outputs = SP_NEW_ARRAY(build.arena, SUBGRAPH_VALUES, struct sp_value *);
    graph->initializers = SP_NEW_ARRAY(build.arena, SUBGRAPH_VALUES, struct sp_value *);
    if (body) {
        owner->body = graph;
    } else {
        struct sp_attribute *attribute = &owner->attributes[owner->attribute_count++];
        attribute->name = "body";
        attribute->type = SP_ATTR_GRAPH;
        attribute->count = 1;
        attribute->graphs = SP_NEW_ARRAY(build.arena, 1, struct sp_graph *);
        attribute->graphs[0] = graph;
    }
    build.graph = graph;
    return outer;
}

static struct sp_workload *made(void)
{
    struct sp_workload *work = NULL;
    cr_assert_eq(sp_workload_from_model(arena, build.model, cluster, NULL, &work, &build.err), SP_OK, "%s",
                 build.err.message);
    return work;
}

static enum sp_status refused(void)
{
    struct sp_workload *work = NULL;
    enum sp_status status = sp_workload_from_model(arena, build.model, cluster, NULL, &work, &build.err);
    cr_assert_null(work);
    return status;
}

static void assert_near(double actual, double expected, const char *what)
{
    cr_assert(fabs(actual - expected) <= 1e-12 * fabs(expected), "%s is %.17g, expected %.17g", what, actual, expected);
}

static const struct sp_work_tensor *tensor(const struct sp_workload *work, const char *name)
{
    return &work->tensors[build_value(&build, name)->id];
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

/* x[8,64] w[64,32] in float16: 2 * 8 * 64 * 32 FLOPs; (512 + 2048 + 256) * 2 bytes, which take longer. */
Test(workload, roofline_of_a_small_product)
{
    build_input(&build, "x", SP_DTYPE_FLOAT16, "8,64");
    build_weight(&build, "w", SP_DTYPE_FLOAT16, "64,32");
    node(&matmul, "MatMul", "x w", "y", SP_DTYPE_FLOAT16, "8,32");
    build_outputs(&build, "y");
    struct sp_workload *work = made();
    assert_near(work->nodes[0].flops, 32768, "flops");
    assert_near(work->nodes[0].bytes, 5632, "bytes");
    assert_near(work->nodes[0].seconds[0], 5632 / (EFFICIENCY * A100_BANDWIDTH) + LAUNCH, "seconds");
    assert_near(work->flops, 32768, "total flops");
    assert_near(work->weight_bytes, 4096, "weights");
    cr_assert_eq(work->kind_count, 1);
    cr_assert_eq(work->kind_of[1], 0);
    cr_assert_eq(tensor(work, "x")->kind, SP_WORK_INPUT);
    cr_assert_eq(tensor(work, "w")->kind, SP_WORK_WEIGHT);
    cr_assert_eq(tensor(work, "y")->kind, SP_WORK_ACTIVATION);
    cr_assert(tensor(work, "y")->is_output);
    cr_assert_eq(tensor(work, "y")->producer, 0);
    cr_assert_eq(tensor(work, "x")->producer, SP_NO_WORK);
}

/* [4096,4096]^2: 2 * 4096^3 FLOPs dominate; each type at its own peak. */
Test(workload, roofline_of_a_large_product)
{
    const double flops = 2.0 * 4096 * 4096 * 4096;
    build_input(&build, "x", SP_DTYPE_FLOAT16, "4096,4096");
    build_input(&build, "z", SP_DTYPE_FLOAT, "4096,4096");
    build_input(&build, "q", SP_DTYPE_INT8, "4096,4096");
    node(&matmul, "MatMul", "x x", "y", SP_DTYPE_FLOAT16, "4096,4096");
    node(&matmul, "MatMul", "z z", "v", SP_DTYPE_FLOAT, "4096,4096");
    node(&matmul, "MatMulInteger", "q q", "u", SP_DTYPE_INT32, "4096,4096");
    struct sp_workload *work = made();
    assert_near(work->nodes[0].seconds[0], flops / (EFFICIENCY * A100_FLOAT16) + LAUNCH, "float16");
    assert_near(work->nodes[1].seconds[0], flops / (EFFICIENCY * A100_FLOAT32) + LAUNCH, "float32");
    assert_near(work->nodes[2].seconds[0], flops / (EFFICIENCY * A100_INT8) + LAUNCH, "int8");
    cr_assert_eq(work->nodes[0].input_count, 1, "operands are distinct");
    cr_assert_eq(tensor(work, "x")->consumer_count, 1);
}

static double roofline(double flops, double bytes, double functions, bool permutes, double unhidden)
{
    struct sp_device device = {
        .memory_bandwidth = 100, .permuted_bandwidth = 50, .functions_per_second = 10, .unhidden = unhidden};
    struct sp_cluster one = {.efficiency = 0.5, .launch_seconds = 3};
    device.flops[SP_DTYPE_FLOAT] = 1000;
    return sp_roofline_seconds(&device, &one, SP_DTYPE_FLOAT,
                               &(struct sp_kernel_work){flops, bytes, functions, permutes});
}

/* By hand: each ceiling where it is the lowest, at half of its peak, and 3 s of launch. */
Test(workload, the_lowest_ceiling_of_the_roofline_counts)
{
    assert_near(roofline(0, 0, 0, false, 0), 0, "nothing to do");
    assert_near(roofline(4000, 200, 20, false, 0), 4000 / 500. + 3, "multiply-adds");
    assert_near(roofline(400, 500, 20, false, 0), 500 / 50. + 3, "memory");
    assert_near(roofline(400, 500, 20, true, 0), 500 / 25. + 3, "memory, permuted");
    assert_near(roofline(400, 500, 70, false, 0), 70 / 5. + 3, "functions");
    assert_near(roofline(400, 500, 70, false, 1), 70 / 5. + 400 / 500. + 500 / 50. + 3, "one after the other");
    assert_near(roofline(400, 500, 70, false, 0.25), 70 / 5. + (400 / 500. + 500 / 50.) / 4 + 3, "a quarter unhidden");
}

static double class_seconds(const struct sp_kernel_work *work)
{
    struct sp_device device = {.kind = SP_DEVICE_GPU,
                               .memory_bandwidth = 100,
                               .units = 4,
                               .prefill = {3, 0.5, 0.25, 64},
                               .decode = {5, 0.5, 8},
                               .other = {1, 0.2},
                               .runtime = SP_RUNTIME_VLLM};
    const struct sp_cluster one = {.launch_seconds = SP_LAUNCH_NOT_STATED};
    device.flops[SP_DTYPE_FLOAT] = 1000;
    device.products[SP_DTYPE_FLOAT] = (struct sp_device_product){2, 0.5, 0.25};
    return sp_roofline_seconds(&device, &one, SP_DTYPE_FLOAT, work);
}

/* By hand: the start of the class, and the larger of both times at its shares. */
Test(workload, kernels_take_the_figures_of_their_class)
{
    struct sp_kernel_work work = {.flops = 4000, .bytes = 10, .kind = SP_KERNEL_PRODUCT};
    assert_near(class_seconds(&work), 2 + 4000 / 500., "product, multiply-adds");
    work.pays_no_start = true;
    assert_near(class_seconds(&work), 4000 / 500., "another node has the start");
    work = (struct sp_kernel_work){.flops = 100, .bytes = 500, .kind = SP_KERNEL_PRODUCT};
    assert_near(class_seconds(&work), 2 + 500 / 25., "product, memory");
    work = (struct sp_kernel_work){.bytes = 100};
    assert_near(class_seconds(&work), 1 + 100 / 20., "other");
    /* 64 queries of one head are one block, which keeps one of 4 units busy; half of the share is reached. */
    work = (struct sp_kernel_work){
        .flops = 1000, .bytes = 1, .kind = SP_KERNEL_PREFILL, .attention = {1, 1, 1, 64, 64, 8}};
    assert_near(class_seconds(&work), 3 + 1000 / 500. * 2 * 4, "prefill of one block");
    work.attention = (struct sp_attention_shape){1, 8, 8, 256, 256, 8};
    assert_near(class_seconds(&work), 3 + 1000 / 500. * 1.25, "prefill of 16 blocks");
    /* 2 heads of keys with 4 positions count as 8 each: 2 x 4 more of K and of V, of 2 floats. */
    work = (struct sp_kernel_work){.bytes = 200, .kind = SP_KERNEL_DECODE, .attention = {2, 1, 1, 1, 4, 2}};
    assert_near(class_seconds(&work), 5 + (200 + 2 * 2 * 4 * 2 * 4) / 50., "decode");
}

/* 512 elements of float16: an exponential of each, or their bytes in another order. */
Test(workload, functions_and_permutations_have_ceilings_of_their_own)
{
    static const struct sp_op erf = {.name = "Erf", .since = 1, .rule = elementwise_rule, .flags = SP_OP_FUNCTION};
    static const struct sp_op turn = {
        .name = "Transpose", .since = 1, .rule = elementwise_rule, .flags = SP_OP_PERMUTES};
    build_input(&build, "x", SP_DTYPE_FLOAT16, "8,64");
    node(&relu, "Relu", "x", "a", SP_DTYPE_FLOAT16, "8,64");
    node(&erf, "Erf", "a", "b", SP_DTYPE_FLOAT16, "8,64");
    node(&turn, "Transpose", "b", "y", SP_DTYPE_FLOAT16, "8,64");
    build_outputs(&build, "y");
    cluster->groups[0].device.functions_per_second = 1e9;
    cluster->groups[0].device.permuted_bandwidth = 1e10;
    struct sp_workload *work = made();
    assert_near(work->nodes[0].seconds[0], 2048 / (EFFICIENCY * A100_BANDWIDTH) + LAUNCH, "Relu");
    assert_near(work->nodes[1].seconds[0], 512 / (EFFICIENCY * 1e9) + LAUNCH, "Erf");
    assert_near(work->nodes[2].seconds[0], 2048 / (EFFICIENCY * 1e10) + LAUNCH, "Transpose");
    assert_near(work->nodes[1].flops, 512, "FLOPs of a function are counted as before");
}

Test(workload, a_rule_may_say_how_many_bytes)
{
    build_input(&build, "table", SP_DTYPE_FLOAT, "1000,8");
    build_input(&build, "i", SP_DTYPE_INT64, "2");
    node(&gather, "Gather", "table i", "y", SP_DTYPE_FLOAT, "2,8");
    assert_near(made()->nodes[0].bytes, 96, "bytes");
}

/* Mixed operands: the largest floating one decides, a scale does not. */
Test(workload, element_type)
{
    build_input(&build, "h", SP_DTYPE_FLOAT16, "64,64");
    build_input(&build, "s", SP_DTYPE_FLOAT, "64");
    build_input(&build, "q", SP_DTYPE_UINT8, "64,64");
    cr_assert_eq(sp_node_dtype(&cluster->groups[0].device, node(&relu, "Norm", "s h", "a", SP_DTYPE_FLOAT, "64,64")),
                 SP_DTYPE_FLOAT16);
    cr_assert_eq(
        sp_node_dtype(&cluster->groups[0].device, node(&relu, "QLinearConv", "q s", "b", SP_DTYPE_UINT8, "64,64")),
        SP_DTYPE_UINT8);
    cr_assert_eq(sp_node_dtype(&cluster->groups[0].device, node(&relu, "Greater", "h h", "c", SP_DTYPE_BOOL, "64,64")),
                 SP_DTYPE_FLOAT16);
    cr_assert_eq(sp_node_dtype(&cluster->groups[0].device, node(&relu, "Cast", "q", "d", SP_DTYPE_BFLOAT16, "64,64")),
                 SP_DTYPE_BFLOAT16);
    cr_assert_eq(sp_node_dtype(&cluster->groups[0].device, node(&constant, "Constant", "", "e", SP_DTYPE_INT64, "1")),
                 SP_DTYPE_INT64);
}

/* Two groups with the same figures are one kind, whatever their names and memory. */
Test(workload, kinds)
{
    json_t *json = json_loads("{\"groups\": [{\"count\": 2, \"device\": \"v100-sxm2-16gb\"}, {\"count\": 1, \"device\":"
                              " \"t4-16gb\"}, {\"count\": 3, \"device\": \"v100-sxm2-32gb\"}],"
                              " \"efficiency\": 0.7, \"launch_seconds\": 7e-6}",
                              0, NULL);
    cr_assert_eq(sp_cluster_parse(arena, json, "", &cluster, &build.err), SP_OK);
    json_decref(json);
    build_input(&build, "x", SP_DTYPE_FLOAT, "1000,1000");
    node(&relu, "Relu", "x", "y", SP_DTYPE_FLOAT, "1000,1000");
    struct sp_workload *work = made();
    const uint32_t expected[] = {0, 0, 1, 0, 0, 0};
    cr_assert_eq(work->kind_count, 2);
    cr_assert_arr_eq(work->kind_of, expected, sizeof expected);
    assert_near(work->nodes[0].seconds[0], 8e6 / (0.7 * 900e9) + LAUNCH, "V100");
    assert_near(work->nodes[0].seconds[1], 8e6 / (0.7 * 320e9) + LAUNCH, "T4");
}

/* ---- weights, views, folding ----------------------------------------------------------------------------------- */

/*
 * raw[100] -> folded -> w[50]; c[7] -> folded only; x -> Relu(x, w) -> y. The 50 floats of w occupy devices, raw and c
 * do not: they are gone before the first request.
 */
Test(workload, only_what_works_uses_is_a_weight)
{
    build_weight(&build, "raw", SP_DTYPE_FLOAT, "100");
    build_weight(&build, "c", SP_DTYPE_FLOAT, "7");
    build_input(&build, "x", SP_DTYPE_FLOAT, "50");
    fold(node(&relu, "Slice", "raw c", "w", SP_DTYPE_FLOAT, "50"));
    node(&relu, "Add", "x w", "y", SP_DTYPE_FLOAT, "50");
    struct sp_workload *work = made();
    assert_near(work->weight_bytes, 200, "weights");
    cr_assert(work->nodes[0].folded);
    assert_near(work->nodes[0].seconds[0] + work->nodes[0].flops + work->nodes[0].bytes, 0, "work of a folded node");
    cr_assert_eq(tensor(work, "w")->kind, SP_WORK_WEIGHT);
    cr_assert_eq(tensor(work, "raw")->consumer_count, 0);
    cr_assert_eq(work->nodes[0].input_count, 2, "a folded node still shows its inputs");
    cr_assert_eq(tensor(work, "w")->consumer_count, 1);
    cr_assert_eq(tensor(work, "w")->consumers[0], 1);
}

/* Constant nodes are folded even where nobody marked them. */
Test(workload, constants_are_weights)
{
    build_input(&build, "x", SP_DTYPE_FLOAT, "50");
    node(&constant, "Constant", "", "c", SP_DTYPE_FLOAT, "50");
    node(&relu, "Add", "x c", "y", SP_DTYPE_FLOAT, "50");
    struct sp_workload *work = made();
    cr_assert(work->nodes[0].folded);
    assert_near(work->weight_bytes, 200, "weights");
}

/* x -> Relu -> t -> Reshape -> v -> Reshape -> u; w -> Reshape -> z, with a shape that is computed. */
Test(workload, views_are_aliases)
{
    build_input(&build, "x", SP_DTYPE_FLOAT, "6");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "6");
    node(&relu, "Relu", "x", "t", SP_DTYPE_FLOAT, "6");
    node(&reshape, "Reshape", "t", "v", SP_DTYPE_FLOAT, "2,3");
    node(&reshape, "Reshape", "v", "u", SP_DTYPE_FLOAT, "3,2");
    node(&reshape, "Reshape", "w", "z", SP_DTYPE_FLOAT, "3,2");
    fold(node(&reshape, "Reshape", "w", "f", SP_DTYPE_FLOAT, "2,3"));
    node(&relu, "Add", "u z f", "y", SP_DTYPE_FLOAT, "3,2");
    struct sp_workload *work = made();
    uint32_t t = build_value(&build, "t")->id, w = build_value(&build, "w")->id;
    cr_assert_eq(tensor(work, "v")->alias_of, t);
    cr_assert_eq(tensor(work, "u")->alias_of, t);
    cr_assert_eq(tensor(work, "t")->alias_of, SP_NO_WORK);
    cr_assert_eq(tensor(work, "z")->alias_of, w);
    cr_assert_eq(tensor(work, "z")->kind, SP_WORK_WEIGHT);
    cr_assert_eq(tensor(work, "f")->alias_of, w);
    cr_assert_eq(tensor(work, "u")->kind, SP_WORK_ACTIVATION);
    assert_near(work->weight_bytes, 24, "one copy of w");
    assert_near(work->nodes[1].seconds[0] + work->nodes[3].seconds[0], 0, "views take no time");
}

Test(workload, shape_nodes_cost_nothing)
{
    build_input(&build, "x", SP_DTYPE_FLOAT, "6");
    node(&shape_of, "Shape", "x", "s", SP_DTYPE_INT64, "1");
    assert_near(made()->nodes[0].seconds[0], 0, "seconds");
}

/* ---- names ----------------------------------------------------------------------------------------------------- */

Test(workload, names_are_unique)
{
    static const char *const names[] = {"conv", "", "conv", "Relu_1", "", "conv_2"};
    build_input(&build, "x", SP_DTYPE_FLOAT, "6");
    for (uint32_t i = 0; i < 6; i++) {
        char output[8];
        (void)snprintf(output, sizeof output, "y%u", i);
        uint32_t id = sp_intern_add(build.model->names, names[i], strlen(names[i]));
        node(&relu, "Relu", "x", output, SP_DTYPE_FLOAT, "6")->name = sp_intern_name(build.model->names, id);
    }
    struct sp_workload *work = made();
    cr_assert_str_eq(work->nodes[0].name, "conv");
    cr_assert_str_eq(work->nodes[3].name, "Relu_1");
    cr_assert_str_eq(work->nodes[4].name, "Relu_4");
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t j = 0; j < i; j++)
            cr_assert_str_neq(work->nodes[i].name, work->nodes[j].name);
    }
}

/* ---- what cannot be told --------------------------------------------------------------------------------------- */

Test(workload, an_operator_without_a_rule_is_bound_by_memory)
{
    build_input(&build, "x", SP_DTYPE_FLOAT, "1000");
    node(NULL, "Mystery", "x", "y", SP_DTYPE_FLOAT, "500");
    struct sp_workload *work = made();
    assert_near(work->nodes[0].flops, 0, "flops");
    assert_near(work->nodes[0].bytes, 6000, "bytes");
    assert_near(work->nodes[0].seconds[0], 6000 / (EFFICIENCY * A100_BANDWIDTH) + LAUNCH, "seconds");
}

Test(workload, what_an_operator_without_rule_and_shape_gives_is_as_large_as_what_it_takes)
{
    build_input(&build, "x", SP_DTYPE_FLOAT, "1000");
    build_input(&build, "v", SP_DTYPE_FLOAT, "10");
    node(NULL, "Mystery", "v x", "y", SP_DTYPE_FLOAT, NULL);
    node(&relu, "Relu", "y", "z", SP_DTYPE_FLOAT, NULL);
    build_outputs(&build, "z");
    struct sp_workload *work = made();
    cr_assert_eq(tensor(work, "y")->bytes, 4000);
    cr_assert_eq(tensor(work, "z")->bytes, 4000);
}

Test(workload, a_size_that_no_operator_without_rule_hides_is_refused)
{
    build_input(&build, "x", SP_DTYPE_FLOAT, "1000");
    node(&relu, "Relu", "x", "y", SP_DTYPE_FLOAT, NULL);
    build_outputs(&build, "y");
    cr_assert_eq(refused(), SP_ERR_MODEL);
    cr_assert(strstr(build.err.message, "--shape 'y=") != NULL, "%s", build.err.message);
}

Test(workload, unused_outputs_need_no_size)
{
    build_input(&build, "x", SP_DTYPE_FLOAT, "1000");
    node(&relu, "Dropout", "x", "y", SP_DTYPE_FLOAT, "1000");
    node(NULL, "Mystery", "x", "nobody", SP_DTYPE_FLOAT, NULL);
    cr_assert_eq(tensor(made(), "nobody")->bytes, 0);
}

Test(workload, a_symbol_is_named_with_the_option_that_binds_it)
{
    struct sp_dims *dims = build.model->dims;
    build_input(&build, "x", SP_DTYPE_FLOAT, "8,seq");
    struct sp_value *y = node(&relu, "Relu", "x", "y", SP_DTYPE_FLOAT, "8,1")->outputs[0];
    y->type.shape.dims[1] = sp_dim_mul(dims, sp_dim_known(2), sp_dim_symbol(dims, "seq"));
    cr_assert_eq(refused(), SP_ERR_MODEL);
    cr_assert_str_eq(build.err.code, "DIMENSION_UNBOUND");
    cr_assert(strstr(build.err.message, "'x'") != NULL, "%s", build.err.message);
    cr_assert(strstr(build.err.message, "--dim seq=N") != NULL, "%s", build.err.message);
}

/* The symbol inside an expression, and not one whose name is a part of it. */
Test(workload, a_symbol_in_an_expression_is_found)
{
    struct sp_dims *dims = build.model->dims;
    struct sp_dim seq = sp_dim_symbol(dims, "seq"), past = sp_dim_symbol(dims, "past_seq");
    (void)seq;
    build_input(&build, "x", SP_DTYPE_FLOAT, "8");
    struct sp_value *y = node(&relu, "Relu", "x", "y", SP_DTYPE_FLOAT, "8")->outputs[0];
    y->type.shape.dims[0] = sp_dim_add(dims, sp_dim_mul(dims, sp_dim_known(3), past), sp_dim_known(1));
    build_outputs(&build, "y");
    cr_assert_eq(refused(), SP_ERR_MODEL);
    cr_assert(strstr(build.err.message, "--dim past_seq=N") != NULL, "%s", build.err.message);
}

Test(workload, data_decides_some_sizes)
{
    build_input(&build, "x", SP_DTYPE_FLOAT, "8");
    struct sp_value *y = node(&relu, "NonZero", "x", "y", SP_DTYPE_INT64, "1,1")->outputs[0];
    y->type.shape.dims[1] = sp_dim_fresh(build.model->dims, "NonZero", sp_dim_unknown());
    build_outputs(&build, "y");
    cr_assert_eq(refused(), SP_ERR_MODEL);
    cr_assert_str_eq(build.err.code, "DIMENSION_DEPENDS_ON_DATA");
}

Test(workload, a_sequence_is_as_large_as_what_goes_into_it)
{
    build_input(&build, "x", SP_DTYPE_FLOAT, "8");
    build_input(&build, "v", SP_DTYPE_FLOAT, "2");
    struct sp_value *y = node(&relu, "SequenceConstruct", "x v", "y", SP_DTYPE_FLOAT, "8")->outputs[0];
    y->type = (struct sp_type){.kind = SP_TYPE_SEQUENCE};
    build_outputs(&build, "y");
    cr_assert_eq(tensor(made(), "y")->bytes, 40);
}

/* One tensor of the type, also inside an optional sequence; what is taken out and has no shape is as large. */
Test(workload, inputs_that_are_no_tensors_count_as_one)
{
    struct sp_value *x = build_input(&build, "x", SP_DTYPE_FLOAT, "8");
    struct sp_value *y = node(&relu, "SequenceAt", "x", "y", SP_DTYPE_FLOAT, "8")->outputs[0];
    const struct sp_type tensor_type = x->type, sequence = {.kind = SP_TYPE_SEQUENCE, .elem = &tensor_type};
    build_outputs(&build, "y");
    y->type.shape.has_rank = false;
    x->type = sequence;
    cr_assert_eq(tensor(made(), "x")->bytes, 32);
    cr_assert_eq(tensor(made(), "y")->bytes, 32);
    x->type = (struct sp_type){.kind = SP_TYPE_OPTIONAL, .elem = &sequence};
    cr_assert_eq(tensor(made(), "x")->bytes, 32);
    x->type = (struct sp_type){.kind = SP_TYPE_SEQUENCE};
    cr_assert_eq(tensor(made(), "x")->bytes, 0);
    x->type = (struct sp_type){.kind = SP_TYPE_MAP, .dtype = SP_DTYPE_STRING, .elem = &tensor_type};
    cr_assert_eq(tensor(made(), "x")->bytes, 0);
}

static bool stop(void *context, const char *phase, double fraction, double best, double bound)
{
    (void)phase, (void)fraction, (void)best, (void)bound;
    ++*(int *)context;
    return false;
}

Test(workload, can_be_cancelled)
{
    int calls = 0;
    const struct sp_watch watch = {.tick = stop, .context = &calls};
    struct sp_workload *work = NULL;
    build_input(&build, "x", SP_DTYPE_FLOAT, "8");
    node(&relu, "Relu", "x", "y", SP_DTYPE_FLOAT, "8");
    cr_assert_eq(sp_workload_from_model(arena, build.model, cluster, &watch, &work, &build.err), SP_ERR_CANCELLED);
    cr_assert_eq(calls, 1);
}

Test(workload, missing_memory_is_an_error)
{
    build_input(&build, "x", SP_DTYPE_FLOAT, "8");
    node(&relu, "Relu", "x", "y", SP_DTYPE_FLOAT, "8");
    for (size_t limit = 1; limit < 4096; limit += 64) {
        struct sp_budget budget = {.limit = limit};
        struct sp_arena *small = sp_arena_create(&budget);
        struct sp_workload *work = NULL;
        struct sp_error err = {0};
        if (small == NULL)
            continue;
        enum sp_status status = sp_workload_from_model(small, build.model, cluster, NULL, &work, &err);
        cr_assert(status == SP_OK || status == SP_ERR_MEMORY);
        sp_arena_destroy(small);
    }
}

/* ---- inside nodes ---------------------------------------------------------------------------------------------- */

#define RELU_SECONDS(bytes) ((bytes) / (EFFICIENCY * A100_BANDWIDTH) + LAUNCH)

/*
 * A function whose body is x[100] -> Relu -> a[1000] -> view v -> Relu -> b[500] -> Relu -> y[100], plus an inner
 * weight of 10 floats. Three kernels. While it runs: a (4000), then a and b (6000), then b; y is the node's own.
 */
Test(workload, function_bodies)
{
    build_input(&build, "x", SP_DTYPE_FLOAT, "100");
    struct sp_node *call = node(NULL, "MyFunction", "x", "y", SP_DTYPE_FLOAT, "100");
    struct sp_graph *outer = enter(call, true);
    build_input(&build, "x", SP_DTYPE_FLOAT, "100");
    build_weight(&build, "unused", SP_DTYPE_FLOAT, "99");
    build_weight(&build, "c", SP_DTYPE_FLOAT, "10");
    node(&relu, "Relu", "x c", "a", SP_DTYPE_FLOAT, "1000");
    node(&reshape, "Reshape", "a", "v", SP_DTYPE_FLOAT, "10,100");
    node(&relu, "Relu", "v", "b", SP_DTYPE_FLOAT, "500");
    node(&relu, "Relu", "b", "y", SP_DTYPE_FLOAT, "100");
    build_outputs(&build, "y");
    build.graph = outer;
    struct sp_workload *work = made();
    assert_near(work->nodes[0].flops, 1600, "flops");
    assert_near(work->nodes[0].bytes, 4.0 * (1110 + 1500 + 600), "bytes");
    assert_near(work->nodes[0].seconds[0], RELU_SECONDS(4440) + RELU_SECONDS(6000) + RELU_SECONDS(2400), "seconds");
    assert_near(work->nodes[0].inner_weight_bytes, 40, "inner weights");
    assert_near(work->nodes[0].workspace_bytes, 6000, "workspace");
    assert_near(work->weight_bytes, 40, "weights");
}

/* If with branches of one and of two kernels: the second is dearer in everything. Its subgraph uses t by name. */
Test(workload, branches)
{
    build_input(&build, "c", SP_DTYPE_BOOL, "");
    build_input(&build, "x", SP_DTYPE_FLOAT, "100");
    struct sp_value *t = node(&relu, "Relu", "x", "t", SP_DTYPE_FLOAT, "100")->outputs[0];
    struct sp_node *branch = node(&control, "If", "c", "y", SP_DTYPE_FLOAT, "100");
    t->uses[t->use_count++] = (struct sp_use){.node = branch, .input = UINT32_MAX};
    t->uses[t->use_count++] = (struct sp_use){.node = branch, .input = UINT32_MAX};
    struct sp_graph *outer = enter(branch, false);
    build_input(&build, "p", SP_DTYPE_FLOAT, "100");
    node(&relu, "Relu", "p", "q", SP_DTYPE_FLOAT, "100");
    build_outputs(&build, "q");
    build.graph = outer;
    (void)enter(branch, false);
    build_input(&build, "p", SP_DTYPE_FLOAT, "100");
    node(&relu, "Relu", "p", "q", SP_DTYPE_FLOAT, "300");
    node(&relu, "Relu", "q", "r", SP_DTYPE_FLOAT, "100");
    build_outputs(&build, "r");
    build.graph = outer;
    struct sp_workload *work = made();
    assert_near(work->nodes[1].flops, 400, "flops");
    assert_near(work->nodes[1].seconds[0], 2 * RELU_SECONDS(1600), "seconds");
    assert_near(work->nodes[1].workspace_bytes, 1200, "workspace");
    cr_assert_eq(work->nodes[1].input_count, 2);
    cr_assert_eq(work->nodes[1].inputs[1], t->id);
    cr_assert_eq(tensor(work, "t")->consumer_count, 1);
    cr_assert_eq(tensor(work, "t")->consumers[0], 1);
}

/* A loop of 5 trips around one kernel of 100 elements; unknown and absurd trip counts count once. */
static double loop_flops(int64_t trips, bool known)
{
    build_release(&build);
    build_init(&build, 21);
    if (known)
        build_ints(&build, "trips", -1, &trips);
    else
        build_input(&build, "trips", SP_DTYPE_INT64, "");
    build_input(&build, "x", SP_DTYPE_FLOAT, "100");
    struct sp_graph *outer = enter(node(&control, "Loop", "trips - x", "y", SP_DTYPE_FLOAT, "100"), false);
    build_input(&build, "state", SP_DTYPE_FLOAT, "100");
    node(&relu, "Relu", "state", "next", SP_DTYPE_FLOAT, "100");
    build_outputs(&build, "next");
    build.graph = outer;
    struct sp_workload *work = made();
    assert_near(work->nodes[0].workspace_bytes, 800, "a loop holds its state twice beside the node's");
    return work->nodes[0].flops;
}

Test(workload, loops)
{
    assert_near(loop_flops(5, true), 500, "5 trips");
    assert_near(loop_flops(0, true), 0, "no trip");
    assert_near(loop_flops(0, false), 100, "unknown");
    assert_near(loop_flops(INT64_MAX, true), 100, "until the condition fails");
    assert_near(loop_flops(-1, true), 100, "nonsense");
}

/* Scan over axis 1 of the last input: 7 trips. */
Test(workload, scans)
{
    build_input(&build, "state", SP_DTYPE_FLOAT, "100");
    build_input(&build, "seq", SP_DTYPE_FLOAT, "2,7");
    struct sp_node *scan = node(&control, "Scan", "state seq", "y", SP_DTYPE_FLOAT, "100");
    build_attr_int(&build, scan, "num_scan_inputs", 1);
    build_attr_ints(&build, scan, "scan_input_axes", 1, (int64_t[]){-1});
    struct sp_graph *outer = enter(scan, false);
    build_input(&build, "s", SP_DTYPE_FLOAT, "100");
    node(&relu, "Relu", "s", "next", SP_DTYPE_FLOAT, "100");
    build_outputs(&build, "next");
    build.graph = outer;
    assert_near(made()->nodes[0].flops, 700, "flops");
}

/* Far deeper than any reader lets through: the walk has no recursion. 4,000 loops of one trip around one kernel. */
Test(workload, deep_nesting)
{
    build_input(&build, "x", SP_DTYPE_FLOAT, "100");
    struct sp_graph *main_graph = build.graph;
    for (int depth = 0; depth < 4000; depth++) {
        if (depth > 0)
            build_input(&build, "x", SP_DTYPE_FLOAT, "100");
        (void)enter(node(&control, "Loop", "x", "y", SP_DTYPE_FLOAT, "100"), false);
    }
    build_input(&build, "x", SP_DTYPE_FLOAT, "100");
    node(&relu, "Relu", "x", "y", SP_DTYPE_FLOAT, "100");
    build.graph = main_graph;
    assert_near(made()->nodes[0].flops, 100, "flops");
}

Test(workload, node_work)
{
    double flops = -1, bytes = -1;
    build_input(&build, "x", SP_DTYPE_FLOAT16, "8,64");
    build_weight(&build, "w", SP_DTYPE_FLOAT16, "64,32");
    struct sp_node *product = node(&matmul, "MatMul", "x w", "y", SP_DTYPE_FLOAT16, "8,32");
    cr_assert_eq(sp_node_work(build.model, product, arena, &flops, &bytes, &build.err), SP_OK);
    assert_near(flops, 32768, "flops");
    assert_near(bytes, 5632, "bytes");
    fold(product);
    cr_assert_eq(sp_node_work(build.model, product, arena, &flops, &bytes, &build.err), SP_OK);
    assert_near(flops + bytes, 0, "a folded node's work");
}

/* A rule that fails names its node; the workload passes that on. */
static enum sp_status failing_rule(struct sp_op_context *context, struct sp_rule *rule)
{
    (void)rule;
    return sp_fail(context->err, SP_ERR_MODEL, "TEST_RULE", "The rule refused.");
}

Test(workload, errors_of_rules_are_passed_on)
{
    static const struct sp_op failing = {.name = "Bad", .since = 1, .rule = failing_rule};
    build_input(&build, "x", SP_DTYPE_FLOAT, "8");
    node(&failing, "Bad", "x", "y", SP_DTYPE_FLOAT, "8");
    cr_assert_eq(refused(), SP_ERR_MODEL);
    cr_assert_str_eq(build.err.code, "TEST_RULE");
}

/* ---- size ------------------------------------------------------------------------------------------------------ */

/* A chain of `count` Relus in its own arena, and the bytes that its workload takes. */
static size_t chain_bytes(uint32_t count)
{
    struct sp_graph *graph = build.graph;
    graph->node_count = count;
    graph->value_count = count + 1;
    graph->nodes = SP_NEW_ARRAY(build.arena, count, struct sp_node);
    graph->values = SP_NEW_ARRAY(build.arena, (size_t)count + 1, struct sp_value *);
    for (uint32_t i = 0; i <= count; i++) {
        struct sp_value *value = SP_NEW(build.arena, struct sp_value);
        *value = (struct sp_value){.name = "v", .id = i, .kind = SP_VALUE_NODE_OUTPUT, .graph = graph};
        value->producer = i == 0 ? NULL : &graph->nodes[i - 1];
        value->uses = SP_NEW(build.arena, struct sp_use);
        value->use_count = i < count;
        set_type(value, SP_DTYPE_FLOAT, "8");
        graph->values[i] = value;
        if (i < count)
            value->uses[0].node = &graph->nodes[i];
    }
    for (uint32_t i = 0; i < count; i++)
        graph->nodes[i] = (struct sp_node){.name = "",
                                           .op_type = "Relu",
                                           .domain = "",
                                           .index = i,
                                           .graph = graph,
                                           .input_count = 1,
                                           .output_count = 1,
                                           .inputs = &graph->values[i],
                                           .outputs = &graph->values[i + 1],
                                           .op = &relu,
                                           .version = 21};
    struct sp_arena *own = sp_arena_create(NULL);
    struct sp_workload *work = NULL;
    cr_assert_eq(sp_workload_from_model(own, build.model, cluster, NULL, &work, &build.err), SP_OK, "%s",
                 build.err.message);
    cr_assert_str_eq(work->nodes[count - 1].name, sp_arena_printf(own, "Relu_%u", count - 1));
    size_t bytes = sp_arena_bytes(own);
    sp_arena_destroy(own);
    return bytes;
}

/* Rules are costed in memory that is given back: what stays is the workload, about 400 bytes per node and tensor. */
Test(workload, memory_is_linear)
{
    size_t small = chain_bytes(2000), large = chain_bytes(100000);
    cr_assert_lt(large, 100000 * 1024u, "%zu bytes for 100000 nodes", large);
    cr_assert_lt(large, 100 * small, "%zu bytes for 2000 nodes, %zu for 100000", small, large);
}

/* 31 positions are there and 16 come: where both are one buffer, it has room for 47, and is there once. */
Test(workload, a_buffer_of_a_cache_has_room_for_what_continues_it)
{
    build_input(&build, "past", SP_DTYPE_FLOAT16, "1,2,31,8");
    build_input(&build, "new", SP_DTYPE_FLOAT16, "1,2,16,8");
    build_attr_int(&build, build_node(&build, "Concat", "past new", "present"), "axis", 2);
    build_outputs(&build, "present");
    cr_assert_eq(build_infer(&build), SP_OK, "%s", build.err.message);
    cluster->groups[0].device.runtime = SP_RUNTIME_VLLM;
    struct sp_workload *work = made();
    const uint32_t present = work->nodes[0].outputs[0], past = work->nodes[0].inputs[0];
    cr_assert_eq(work->tensors[present].alias_of, past);
    assert_near(work->tensors[past].bytes, 2 * 47 * 8 * 2, "the buffer");
    cluster->groups[0].device.runtime = SP_RUNTIME_ONNXRUNTIME;
    work = made();
    cr_assert_eq(work->tensors[present].alias_of, SP_NO_WORK);
    assert_near(work->tensors[past].bytes, 2 * 31 * 8 * 2, "what is there");
}
