/*
 * Plans whose stages split their operators: their JSON, annotations, text and exports.
 *
 * What is expected of figures are sums over what the plan was made of (strategies, the evaluation), not other numbers.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_sharded.h"
#include "data_files.h"
#include "export/files.h"
#include "plan/check.h"
#include "plan/internal.h"
#include "realize_files.h"

#define EXPECT_NEAR(value, want)                                                                                       \
    cr_expect(fabs((value) - (want)) <= 1e-9 * fabs((double)(want)) + 1e-18, "%s is %.17g, not %.17g", #value,         \
              (double)(value), (double)(want))

static const struct onnx_mlp wide = {.layers = 4, .width = 8192, .batch = "4096"};

static struct sp_buf mlp_file(const struct onnx_mlp *mlp)
{
    struct sp_buf file;
    onnx_mlp(&file, mlp);
    return file;
}

/* A model of the test data; false where it is not here. */
static bool data_file(const char *name, struct sp_buf *ret_file)
{
    char path[1024];
    size_t size;
    (void)snprintf(path, sizeof path, "%s/models/%s", data_folder(), name);
    unsigned char *bytes = data_read(path, &size);
    if (bytes == NULL)
        return false;
    sp_buf_init(ret_file, (size_t)1 << 24);
    sp_buf_append(ret_file, bytes, size);
    free(bytes);
    return true;
}

/* The strategy that splits this factor over all axes of the mesh, and reduces it whole; else nothing is split. */
static uint32_t choose_factor(const void *context, uint32_t node, const struct sp_strategies *strategies)
{
    (void)node;
    for (uint32_t i = 0; strategies->rule != NULL && i < strategies->count; i++) {
        const struct sp_strategy *strategy = &strategies->items[i];
        if (strategy->factor_of[0] != SP_STRATEGY_NO_FACTOR && strategy->scatter_of[0] == SP_STRATEGY_NO_FACTOR &&
            strcmp(strategies->rule->factors[strategy->factor_of[0]].name, context) == 0)
            return i;
    }
    return 0;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    cr_assert_not_null(text, "%s is missing", name);
    return text;
}

static double number_of(const json_t *object, const char *name)
{
    const json_t *number = json_object_get(object, name);
    cr_assert(json_is_number(number), "%s is no number", name);
    return json_number_value(number);
}

static json_t *find(const json_t *array, const char *name)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (strcmp(text_of(json_array_get(array, i), "name"), name) == 0)
            return json_array_get(array, i);
    }
    cr_assert_fail("there is no '%s'", name);
    return NULL;
}

static void expect_json(const json_t *value, const char *want)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    cr_expect_str_eq(text, want, "%s", text);
    free(text);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

/* Each product is split along its columns, each Relu runs whole: so what a product makes is gathered. */
Test(plan_sharded, layouts_and_collectives_are_written)
{
    struct sharded_model model;
    sharded_make(&model, mlp_file(&wide),
                 &(struct sharded_options){.axis_count = 1, .sizes = {4}, .choose = choose_factor, .context = "n"});
    json_t *json = planned_json(&model.planned);
    const json_t *stage = json_array_get(json_object_get(json, "stages"), 0),
                 *tensors = json_object_get(json, "tensors");
    const json_t *collectives = json_object_get(json, "collectives");
    expect_json(json_object_get(stage, "devices"), "[0,1,2,3]");
    expect_json(json_object_get(stage, "replicas"), "1");
    expect_json(json_object_get(stage, "mesh"),
                "[{\"name\":\"x\",\"size\":4,\"splits\":[{\"operator\":\"MatMul\",\"factor\":\"n\",\"nodes\":4}]}]");
    expect_json(json_object_get(find(tensors, "w0"), "spec"),
                "{\"onnx\":{\"tensor_name\":\"w0\",\"device\":[0,1,2,3],\"sharded_dim\":[{\"axis\":1,"
                "\"simple_sharding\":[{\"num_shards\":4}]}]},\"text\":\"RS[0]\"}");
    expect_json(json_object_get(find(tensors, "x"), "spec"),
                "{\"onnx\":{\"tensor_name\":\"x\",\"device\":[0,1,2,3]},\"text\":\"RR\"}");
    expect_json(json_object_get(find(tensors, "h0"), "uses"),
                "[{\"stage\":0,\"node\":\"relu0\",\"nodes\":[\"relu0\"],\"spec\":{\"onnx\":{\"tensor_name\":\"h0\","
                "\"device\":[0,1,2,3]},"
                "\"text\":\"RR\"}}]");
    cr_expect_eq(number_of(find(tensors, "w0"), "bytes_per_device"), 8192.0 * 8192);
    cr_assert_eq(json_array_size(collectives), 4);
    const json_t *gather = json_array_get(collectives, 0);
    cr_expect_str_eq(text_of(gather, "kind"), "all-gather");
    cr_expect_str_eq(text_of(gather, "tensor"), "h0");
    cr_expect_str_eq(text_of(gather, "after_node"), "mm0");
    cr_expect_str_eq(text_of(gather, "before_node"), "relu0");
    cr_expect_eq(number_of(gather, "group_size"), 4);
    cr_expect_eq(number_of(gather, "bytes_per_device"), 3.0 / 4 * 4096 * 8192 * 4);
    cr_expect_eq(number_of(gather, "bytes"), 3.0 * 4096 * 8192 * 4);
    json_decref(json);
    sharded_release(&model);
}

Test(plan_sharded, reasons_say_what_is_split_and_what_it_gives)
{
    struct sharded_model model;
    sharded_make(&model, mlp_file(&wide),
                 &(struct sharded_options){.axis_count = 1, .sizes = {4}, .choose = choose_factor, .context = "k"});
    json_t *json = planned_json(&model.planned);
    const json_t *tensors = json_object_get(json, "tensors");
    const json_t *stage = json_array_get(json_object_get(json, "stages"), 0);
    cr_expect_str_eq(text_of(find(tensors, "w0"), "because"),
                     "weight used only by stage 0; axis 0 in 4 parts, 67.1 MB instead of 268.4 MB on each device: "
                     "'mm0' is split along k and takes 2.22 ms instead of 4.67 ms");
    cr_expect_str_eq(text_of(find(tensors, "h0"), "because"),
                     "produced and used on devices 0-3; whole on each after a reduction: 'mm0' is split along k and "
                     "takes 2.22 ms instead of 4.67 ms");
    cr_expect_str_eq(text_of(find(tensors, "a0"), "because"),
                     "produced and used on devices 0-3; whole on each: 'relu0' runs whole on each device; 'mm1' takes "
                     "it as RS[0]");
    cr_expect_str_eq(text_of(stage, "because"),
                     "its operators are split over 4 devices and take 9.43 ms instead of 19.3 ms");
    cr_expect_str_eq(text_of(json_array_get(json_object_get(json, "collectives"), 0), "kind"), "all-reduce");
    cr_expect_not_null(strstr(text_of(json_object_get(json, "estimate"), "bottleneck"),
                              "ms are collectives between the devices of the stage."));
    json_decref(json);
    sharded_release(&model);
}

static void expect_sums(const struct sharded_model *model, const json_t *json)
{
    const json_t *collectives = json_object_get(json, "collectives"), *stages = json_object_get(json, "stages");
    double bytes = 0;
    for (size_t s = 0; s < json_array_size(stages); s++) {
        double seconds = 0;
        for (size_t i = 0; i < json_array_size(collectives); i++) {
            const json_t *item = json_array_get(collectives, i), *stage = json_object_get(item, "stage");
            seconds += stage != NULL && json_integer_value(stage) == (json_int_t)s ? number_of(item, "seconds") : 0;
        }
        EXPECT_NEAR(seconds, model->plan->result->evaluation->stages[s].collective_seconds);
    }
    for (size_t i = 0; i < json_array_size(collectives); i++)
        bytes += number_of(json_array_get(collectives, i), "bytes");
    EXPECT_NEAR(bytes, number_of(json_object_get(json, "estimate"), "communication_bytes"));
}

/* A spec's pieces times their number are the tensor. */
static void expect_pieces(const json_t *json)
{
    const json_t *tensors = json_object_get(json, "tensors");
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *tensor = json_array_get(tensors, i), *spec = json_object_get(tensor, "spec");
        const json_t *dims = json_object_get(json_object_get(spec, "onnx"), "sharded_dim");
        double pieces = 1;
        size_t axes = 0;
        for (size_t d = 0; d < json_array_size(dims); d++) {
            const json_t *parts = json_object_get(json_array_get(dims, d), "simple_sharding");
            for (size_t p = 0; p < json_array_size(parts); p++)
                pieces *= number_of(json_array_get(parts, p), "num_shards");
        }
        for (const char *at = text_of(spec, "text"); (at = strchr(at, 'S')) != NULL; at++)
            axes++;
        cr_expect_eq(axes, json_array_size(dims), "%s", text_of(tensor, "name"));
        if (json_object_get(tensor, "bytes_per_device") != NULL)
            EXPECT_NEAR(number_of(tensor, "bytes_per_device") * pieces, number_of(tensor, "bytes"));
        else
            cr_expect_eq(pieces, 1, "%s", text_of(tensor, "name"));
    }
}

/* ---- the annotated model ---------------------------------------------------------------------------------------- */

static void expect_clean(const struct sharded_model *model, const struct sp_buf *annotated)
{
    const struct sp_job_options options = {.bytes = annotated->data, .size = annotated->size, .name = "annotated.onnx"};
    struct sp_check_answer *answer = NULL;
    struct sp_error err = {0};
    struct sp_buf text;
    (void)model;
    cr_assert_eq(sp_check_answer_create(&options, NULL, &answer, &err), SP_OK, "%s", err.message);
    sp_buf_init(&text, (size_t)1 << 24);
    sp_check_answer_text(answer, &text);
    cr_expect(sp_check_answer_is_valid(answer), "%.3000s", text.data);
    sp_buf_release(&text);
    sp_check_answer_destroy(answer);
}

/* The plan's own subject and that of the annotated file are the same, and both are what the strategies say. */
static void expect_same_subject(const struct sharded_model *model, const struct sp_buf *annotated)
{
    const struct sp_subject *own = model->planned.subject;
    struct sp_subject *read = subject_of(annotated);
    cr_assert_eq(read->device_count, own->device_count);
    cr_assert_eq(read->stage_count, (int32_t)model->plan->result->placement.stage_count);
    for (uint32_t n = 0; n < own->model->graph->node_count; n++) {
        const struct sp_subject_node *a = &own->nodes[n], *b = &read->nodes[n];
        const uint32_t stage = model->plan->result->placement.stage_of[n];
        cr_expect_eq(a->stage, (int32_t)stage, "node %u", n);
        const uint32_t own_devices = sp_plan_stage_devices(model->plan, stage);
        /* What runs at load is on the devices of every stage that uses it. */
        cr_expect(model->plan->workload->nodes[n].folded ? a->device_count >= own_devices
                                                         : a->device_count == own_devices,
                  "node %u on %ld", n, (long)a->device_count);
        cr_assert_eq(a->device_count, b->device_count, "node %u", n);
        cr_expect_eq(memcmp(a->devices, b->devices, (size_t)a->device_count * sizeof *a->devices), 0, "node %u", n);
    }
    sp_subject_destroy(read);
}

static const struct sp_sharding *said_of(const struct sp_subject *subject, const struct sp_node *node, uint32_t operand)
{
    return sp_spec_of(subject->assignment, sp_dataflow_node(subject->dataflow, node), operand)->sharding;
}

/* What a node makes that runs at load is whole, or as one of its users has it. */
static void expect_folded(const struct sharded_model *model, const struct sp_node *node)
{
    const struct sp_subject *subject = model->planned.subject;
    const struct sp_value *value = node->outputs[0];
    const struct sp_sharding *said = said_of(subject, node, node->input_count);
    bool is_whole = true, is_equal = false;
    struct sp_error err = {0};
    cr_assert_not_null(said, "node %u", node->index);
    for (uint32_t axis = 0; axis < value->type.shape.rank; axis++)
        is_whole = is_whole && sp_sharding_shards(said, axis) == 1;
    for (uint32_t i = 0; i < value->use_count && !is_whole && !is_equal; i++)
        cr_assert_eq(sp_sharding_equal(model->planned.arena, said,
                                       said_of(subject, value->uses[i].node, value->uses[i].input),
                                       value->type.shape.rank, NULL, &is_equal, &err),
                     SP_OK, "%s", err.message);
    cr_expect(is_whole || is_equal, "node %u (%s)", node->index, node->op_type);
}

/* What the subject's assignment says of each operand that a strategy speaks of is its layout, on the used devices. */
static void expect_layouts(const struct sharded_model *model)
{
    const struct sp_subject *subject = model->planned.subject;
    const struct sp_placement *placement = &model->plan->result->placement;
    for (uint32_t n = 0; n < subject->model->graph->node_count; n++) {
        const struct sp_node *node = &subject->model->graph->nodes[n];
        const uint32_t stage = placement->stage_of[n];
        int64_t first = 0;
        if (model->plan->workload->nodes[n].folded) {
            expect_folded(model, node);
            continue;
        }
        while (subject->cluster_devices[first] != placement->stage_device[stage])
            first++;
        for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
            const struct sp_value *value =
                i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
            if (value == NULL || !value->type.shape.has_rank)
                continue;
            const struct sp_sharding *said = said_of(subject, node, i);
            const struct sp_sharding *want = NULL;
            struct sp_error err = {0};
            bool is_equal = false;
            const uint32_t rank = value->type.shape.rank, layout = sp_plan_layout(model->plan, n, value->id);
            struct sp_arena_mark mark = sp_arena_mark(model->planned.arena);
            cr_assert_not_null(said, "node %u, operand %u", n, i);
            cr_assert_eq(sp_plan_sharding(model->plan, stage, layout, rank, first, &want, &err), SP_OK, "%s",
                         err.message);
            cr_assert_eq(sp_sharding_equal(model->planned.arena, said, want, rank, NULL, &is_equal, &err), SP_OK, "%s",
                         err.message);
            cr_expect(is_equal, "node %u (%s), operand %u, layout %u", n, node->op_type, i, layout);
            sp_arena_rewind(model->planned.arena, mark);
        }
    }
}

static void expect_simulation(const struct sharded_model *model, const struct sp_buf *annotated, const char *format)
{
    const struct sp_file_request request = {.subject = model->planned.subject,
                                            .format = format,
                                            .device = SP_FILE_NO_DEVICE,
                                            .external = SP_EXTERNAL_REFER};
    struct realize_world world = {.model = model->planned.file.data, .model_size = model->planned.file.size};
    struct sp_recipe *recipe = NULL;
    struct sp_error err = {0};
    (void)annotated;
    cr_assert_eq(sp_file_create(&request, &recipe, &err), SP_OK, "%s: %s", format, err.message);
    struct sp_buf bytes = realize_bytes(recipe, &world);
    cr_expect_gt(bytes.size, 0);
    sp_buf_release(&bytes);
    sp_recipe_destroy(recipe);
}

static void expect_all(const struct sharded_model *model)
{
    struct sp_buf annotated = planned_annotated(&model->planned), text;
    json_t *json = planned_json(&model->planned);
    expect_clean(model, &annotated);
    expect_same_subject(model, &annotated);
    expect_layouts(model);
    expect_sums(model, json);
    expect_pieces(json);
    expect_simulation(model, &annotated, "simulation");
    expect_simulation(model, &annotated, "sessions");
    sp_buf_init(&text, (size_t)1 << 24);
    sp_plan_write_text(model->plan, &text);
    cr_expect_not(sp_buf_failed(&text));
    sp_buf_release(&text);
    json_decref(json);
    sp_buf_release(&annotated);
}

static const struct sharded_options shapes[] = {
    {.axis_count = 1, .sizes = {2}},
    {.axis_count = 2, .sizes = {2, 2}},
    {.axis_count = 1, .sizes = {4}, .stages = 3},
    {.axis_count = 1, .sizes = {2}, .stages = 2, .replicas = 2},
    {.axis_count = 2, .sizes = {2, 2}, .stages = 2, .is_first_whole = true},
    {.axis_count = 1, .sizes = {2}, .replicas = 3},
};
#define SHAPE_COUNT (sizeof shapes / sizeof shapes[0])

Test(plan_sharded, any_strategies_of_a_chain_of_products)
{
    for (uint64_t seed = 0; seed < 4 * SHAPE_COUNT; seed++) {
        struct sharded_model model;
        struct sharded_options options = shapes[seed % SHAPE_COUNT];
        options.choose = sharded_choose_any;
        options.context = &seed;
        sharded_make(&model, mlp_file(&wide), &options);
        expect_all(&model);
        sharded_release(&model);
    }
}

static void expect_any(const char *name)
{
    for (uint64_t seed = 0; seed < SHAPE_COUNT; seed++) {
        struct sharded_model model;
        struct sharded_options options = shapes[seed];
        struct sp_buf file;
        if (!data_file(name, &file))
            cr_skip_test("there is no %s", name);
        options.choose = sharded_choose_any;
        options.context = &seed;
        sharded_make(&model, file, &options);
        expect_all(&model);
        sharded_release(&model);
    }
}

Test(plan_sharded, any_strategies_of_llama)
{
    expect_any("llama_tiny.onnx");
}

Test(plan_sharded, any_strategies_of_experts)
{
    expect_any("moe_tiny.onnx");
}

Test(plan_sharded, any_strategies_of_convolutions)
{
    expect_any("unet_tiny.onnx");
}
