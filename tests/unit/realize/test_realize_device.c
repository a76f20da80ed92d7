/* Models of devices and their manifest. The notation of files is that of onnx_files.h. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#include "infer/forward.h"
#include "ops/shapes/shapes.h"
#include "realize/realize.h"
#include "realize_files.h"

struct devices {
    struct sp_buf file;
    struct onnx_model original;
    struct sp_realize_request request;
    struct sp_device_plan *plan;
    json_t *manifest;
    uint32_t notes;
};

static enum sp_status count_note(void *context, const struct sp_part_note *note, struct sp_error *err)
{
    (void)err;
    cr_expect(strcmp(note->code, "COLLECTIVE_LOWERED") == 0 || strcmp(note->code, "COLLECTIVE_CUT") == 0 ||
                  strcmp(note->code, "NEEDS_COLLECTIVES") == 0 || strncmp(note->code, "NEEDS_TENSORRT", 14) == 0 ||
                  strcmp(note->code, "NEEDS_BFLOAT16") == 0 || strcmp(note->code, "COLLECTIVE_NOT_CAST") == 0,
              "%s", note->code);
    ++*(uint32_t *)context;
    return SP_OK;
}

/* The model's annotations "c", planned for a target in these forms. */
static void plan_in(struct devices *d, const char *notation, int64_t count, enum sp_realize_target target,
                    struct sp_realize_forms forms)
{
    struct sp_dataflow *dataflow;
    struct sp_assignment *assignment;
    struct sp_shape_summary summary;
    struct sp_error err = {0};
    struct sp_json json;
    struct sp_buf text;
    memset(d, 0, sizeof *d);
    d->file = onnx_encode(notation);
    struct onnx_model *m = &d->original;
    cr_assert_eq(onnx_read(m, d->file.data, d->file.size), SP_OK, "%s", m->err.message);
    cr_assert_eq(sp_infer_shapes(m->model, NULL, &summary, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_dataflow_create(m->arena, m->model, &dataflow, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_assignment_create(m->arena, dataflow, "c", count, NULL, &assignment, &err), SP_OK, "%s",
                 err.message);
    cr_assert_eq(sp_infer_forward(assignment, &err), SP_OK, "%s", err.message);
    d->request.partition = (struct sp_partition_request){.model = m->model, .assignment = assignment};
    d->request.forms = forms;
    d->request.note = count_note;
    d->request.note_context = &d->notes;
    cr_assert_eq(sp_device_plan_create(m->arena, &d->request, target, &d->plan, &err), SP_OK, "%s", err.message);
    sp_buf_init(&text, (size_t)1 << 20);
    sp_json_init_buf(&json, true, &text);
    sp_json_begin_object(&json);
    sp_device_plan_manifest(d->plan, &json);
    sp_json_end_object(&json);
    cr_assert_eq(sp_json_finish(&json, &err), SP_OK);
    d->manifest = json_loads(text.data, 0, NULL);
    cr_assert_not_null(d->manifest);
    sp_buf_release(&text);
}

static void plan(struct devices *d, const char *notation, int64_t count, enum sp_realize_target target)
{
    plan_in(d, notation, count, target, (struct sp_realize_forms){0});
}

static void expect_order(const struct devices *d, const char *expected)
{
    char *order = json_dumps(json_object_get(d->manifest, "order"), JSON_COMPACT);
    cr_expect_str_eq(order, expected);
    free(order);
}

static void expect_note(const struct devices *d, size_t index, const char *code, const char *message)
{
    const json_t *note = json_array_get(json_object_get(d->manifest, "notes"), index);
    cr_assert_not_null(note);
    cr_expect_str_eq(json_string_value(json_object_get(note, "code")), code);
    cr_expect_not_null(strstr(json_string_value(json_object_get(note, "message")), message), "%s",
                       json_string_value(json_object_get(note, "message")));
}

static void release(struct devices *d)
{
    json_decref(d->manifest);
    onnx_release(&d->original);
    sp_buf_release(&d->file);
}

struct model {
    struct sp_buf bytes;
    struct onnx_model m;
};

/* A part's model, read again; its inputs and outputs are those of the manifest. */
static struct model part_of(struct devices *d, int64_t device, uint32_t part)
{
    struct sp_recipe *recipes[8] = {NULL};
    struct sp_error err = {0};
    struct model model;
    struct realize_world world = {d->file.data, d->file.size};
    cr_assert_lt(part, sp_device_plan_parts(d->plan, device));
    cr_assert_leq(sp_device_plan_parts(d->plan, device), 8);
    cr_assert_eq(sp_realize_device(&d->request, d->plan, device, recipes, &err), SP_OK, "%s", err.message);
    model.bytes = realize_bytes(recipes[part], &world);
    for (size_t i = 0; i < 8; i++)
        sp_recipe_destroy(recipes[i]);
    cr_assert_eq(onnx_read(&model.m, model.bytes.data, model.bytes.size), SP_OK, "%s", model.m.err.message);
    const json_t *told = json_array_get(
        json_object_get(json_array_get(json_object_get(d->manifest, "devices"), (size_t)device), "parts"), part);
    const struct sp_graph *graph = model.m.model->graph;
    const json_t *inputs = json_object_get(told, "inputs"), *outputs = json_object_get(told, "outputs");
    cr_assert(json_array_size(inputs) == graph->input_count && json_array_size(outputs) == graph->output_count);
    for (uint32_t i = 0; i < graph->input_count; i++)
        cr_expect_str_eq(json_string_value(json_object_get(json_array_get(inputs, i), "name")), graph->inputs[i]->name);
    for (uint32_t i = 0; i < graph->output_count; i++)
        cr_expect_str_eq(json_string_value(json_object_get(json_array_get(outputs, i), "name")),
                         graph->outputs[i]->name);
    return model;
}

/* What the model's metadata say of its manifest, or NULL. */
static const char *manifest_of(const struct model *model)
{
    for (uint32_t i = 0; i < model->m.model->metadata_count; i++) {
        if (strcmp(model->m.model->metadata[i].key, SP_MANIFEST_KEY) == 0)
            return model->m.model->metadata[i].value;
    }
    return NULL;
}

static void close_model(struct model *model)
{
    onnx_release(&model->m);
    sp_buf_release(&model->bytes);
}

static const struct sp_node *find_op(const struct model *model, const char *op_type)
{
    const struct sp_graph *graph = model->m.model->graph;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (strcmp(graph->nodes[i].op_type, op_type) == 0)
            return &graph->nodes[i];
    }
    return NULL;
}

#define SPLIT(tensor, axis, extent) "2{1'" tensor "' 2:0 2:1 4{1:" axis " 2{1:" extent " 3:2}}}"
#define FLOATS(name, rows, columns) "11{1'" name "' 2{1{1:1 2{1{1:" rows "} 1{1:" columns "}}}}}"
#define GRAPH(parts)                "1:11 8{2:18} 26{1'c' 2:2} 7{2'g' " parts "}"
/* y = x w, the contracted axis split in two: x [3, 4], w [4, 2]. */
#define PRODUCT_PARTS                                                                                                  \
    FLOATS("x", "3", "4")                                                                                              \
    "12{1'y'} 5{1:4 1:2 2:1 8'w' 9h0000803f0000004000004040000080400000a0400000c0400000e04000000041}"                  \
    " 1{1'x' 1'w' 2'y' 3'product' 4'MatMul' 10{1'c' " SPLIT("x", "1", "4") SPLIT("w", "0", "4") "}}"
#define PRODUCT GRAPH(PRODUCT_PARTS)
/* v = u [3, columns], its rows split in two uneven parts and gathered again. */
#define GATHERED_PARTS(type, columns)                                                                                  \
    "11{1'u' 2{1{1:" type " 2{1{1:3} 1{" columns "}}}}} 12{1'v'}"                                                      \
    " 1{1'u' 2't' 4'Identity' 10{1'c' " SPLIT("u", "0",                                                                \
                                              "3") "}}"                                                                \
                                                   " 1{1't' 2'v' 4'Identity' 10{1'c' 2{1't' 2:-1 3{1:-1 2:0 2:1}}}}"

/* Both devices: their part of x comes in, their half of w is in the file, and the sum is a collective. */
Test(realize_device, writes_collectives_of_onnx_runtime)
{
    struct devices d;
    plan(&d, PRODUCT, 2, SP_TARGET_ORT);
    cr_expect(sp_device_plan_parts(d.plan, 0) == 1 && sp_device_plan_parts(d.plan, 1) == 1);
    cr_expect_eq(sp_device_plan_parts(d.plan, 2), 0);
    for (int64_t device = 0; device < 2; device++) {
        struct model model = part_of(&d, device, 0);
        const struct sp_graph *graph = model.m.model->graph;
        const struct sp_node *sum = find_op(&model, "AllReduce");
        cr_assert(sum != NULL && strcmp(sum->domain, "com.microsoft") == 0);
        cr_expect_eq(sp_graph_opset(graph, "com.microsoft"), 1);
        cr_assert(graph->initializer_count == 1 && graph->initializers[0]->tensor->dims[0] == 2);
        cr_expect_eq(memcmp(model.bytes.data + graph->initializers[0]->tensor->raw.offset,
                            d.file.data + d.original.model->graph->initializers[0]->tensor->raw.offset + device * 16,
                            16),
                     0);
        cr_assert_eq(graph->input_count, 1);
        cr_expect_str_eq(graph->inputs[0]->name, "x");
        cr_expect(sp_dim_is(graph->inputs[0]->declared.shape.dims[1], 2));
        cr_expect_str_eq(graph->outputs[0]->name, "y");
        close_model(&model);
    }
    const json_t *second = json_array_get(json_object_get(d.manifest, "devices"), 1);
    char *interface = json_dumps(json_object_get(d.manifest, "inputs"), JSON_COMPACT);
    cr_expect_str_eq(interface, "[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[3,4]}]");
    free(interface);
    cr_expect(json_integer_value(json_object_get(second, "rank")) == 1 &&
              json_integer_value(json_object_get(second, "world")) == 0);
    const json_t *input =
        json_array_get(json_object_get(json_array_get(json_object_get(second, "parts"), 0), "inputs"), 0);
    char *box = json_dumps(json_object_get(input, "box"), JSON_COMPACT);
    cr_expect_str_eq(box, "[[0,3],[2,4]]");
    free(box);
    expect_order(&d, "[[\"device-0.onnx\",\"device-1.onnx\"]]");
    release(&d);
}

/* What the one DistCollective of a device says: all six attributes, as "NAME=VALUE .." */
static void expect_collective(struct devices *d, int64_t device, const char *expected)
{
    static const char *const ints[] = {"root", "nb_rank", "group_size"};
    struct model model = part_of(d, device, 0);
    const struct sp_node *node = find_op(&model, "DistCollective");
    char text[256];
    uint32_t count = 0;
    cr_assert_not_null(node);
    cr_expect(node->attribute_count == 6 && node->input_count == 1 && node->output_count == 1);
    cr_expect_str_eq(node->domain, "");
    int size = snprintf(text, sizeof text, "%s %s", sp_node_string(node, "collective_operation", ""),
                        sp_node_string(node, "reduce_op", ""));
    for (size_t i = 0; i < 3; i++) {
        const struct sp_attribute *attribute = sp_node_attribute(node, ints[i]);
        cr_assert_not_null(attribute, "%s", ints[i]);
        cr_expect_eq(attribute->type, SP_ATTR_INT);
        size += snprintf(text + size, sizeof text - (size_t)size, " %s=%lld", ints[i],
                         (long long)sp_node_int(node, ints[i], -9));
    }
    const struct sp_attribute *groups = sp_node_attribute(node, "groups");
    cr_assert_not_null(groups);
    cr_expect_eq(groups->type, SP_ATTR_INTS);
    const int64_t *ranks = sp_node_ints(node, "groups", &count);
    size += snprintf(text + size, sizeof text - (size_t)size, " groups=");
    for (uint32_t i = 0; i < count; i++)
        size += snprintf(text + size, sizeof text - (size_t)size, "%s%lld", i > 0 ? "," : "", (long long)ranks[i]);
    cr_expect_str_eq(text, expected);
    close_model(&model);
}

/* y = u [4, 2], its rows split and gathered again. */
#define ROWS(type)                                                                                                     \
    "11{1'u' 2{1{1:" type " 2{1{1:4} 1{1:2}}}}} 12{1'v'}"                                                              \
    " 1{1'u' 2't' 4'Identity' 10{1'c' " SPLIT("u", "0",                                                                \
                                              "4") "}}"                                                                \
                                                   " 1{1't' 2'v' 4'Identity' 10{1'c' 2{1't' 2:-1 3{1:-1 2:0 2:1}}}}"
/* Split along rows, then along columns. */
#define TURNED(type)                                                                                                   \
    "11{1'u' 2{1{1:" type " 2{1{1:4} 1{1:2}}}}} 12{1'v'}"                                                              \
    " 1{1'u' 2't' 4'Identity' 10{1'c' " SPLIT("u", "0", "4") "}}"                                                      \
                                                             " 1{1't' 2'v' 4'Identity' 10{1'c' " SPLIT("t", "1",       \
                                                                                                       "2") "}}"

/* Lower case and six attributes, as NVIDIA's own writer has them; the world is an empty list, or all of it. */
Test(realize_device, writes_collectives_of_tensorrt)
{
    static const struct {
        const char *model;
        struct sp_realize_forms forms;
        const char *expected;
    } cases[] = {
        {PRODUCT, {0}, "all_reduce sum root=-1 nb_rank=2 group_size=0 groups="},
        {PRODUCT, {.lists_world = true}, "all_reduce sum root=-1 nb_rank=2 group_size=2 groups=0,1"},
        {PRODUCT, {.is_upper = true}, "ALL_REDUCE SUM root=-1 nb_rank=2 group_size=0 groups="},
        {GRAPH(ROWS("1")), {0}, "all_gather sum root=-1 nb_rank=2 group_size=0 groups="},
        {GRAPH(ROWS("1")), {.is_upper = true}, "ALL_GATHER NONE root=-1 nb_rank=2 group_size=0 groups="},
        {GRAPH(TURNED("1")), {0}, "all_to_all sum root=-1 nb_rank=2 group_size=0 groups="},
        {GRAPH(TURNED("1")),
         {.has_no_alltoall = true, .lists_world = true},
         "all_gather sum root=-1 nb_rank=2 group_size=2 groups=0,1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct devices d;
        plan_in(&d, cases[i].model, 2, SP_TARGET_TENSORRT, cases[i].forms);
        expect_collective(&d, 0, cases[i].expected);
        expect_collective(&d, 1, cases[i].expected);
        release(&d);
    }
    struct devices d;
    plan(&d, GRAPH(TURNED("1")), 2, SP_TARGET_TENSORRT);
    expect_note(&d, 0, "NEEDS_TENSORRT", "multiDeviceRuntime");
    expect_note(&d, 1, "NEEDS_TENSORRT_11", "no-all-to-all");
    release(&d);
}

/* Who reads and who makes what the collective has. */
static void expect_neighbours(struct devices *d, const char *op_type, bool has_casts)
{
    struct model model = part_of(d, 0, 0);
    const struct sp_node *node = find_op(&model, op_type);
    cr_assert_not_null(node);
    const struct sp_node *before = node->inputs[0]->producer, *after = node->outputs[0]->uses[0].node;
    cr_expect_eq(before != NULL && strcmp(before->op_type, "Cast") == 0 && sp_node_int(before, "to", 0) == 1,
                 has_casts);
    cr_expect_eq(strcmp(after->op_type, "Cast") == 0, has_casts);
    close_model(&model);
}

/* 10: float16, 16: bfloat16, 1: float32. */
Test(realize_device, writes_casts_around_collectives)
{
    struct devices d;
    plan_in(&d, GRAPH(ROWS("10")), 2, SP_TARGET_TENSORRT, (struct sp_realize_forms){.has_casts = true});
    expect_neighbours(&d, "DistCollective", true);
    release(&d);
    plan(&d, GRAPH(ROWS("10")), 2, SP_TARGET_TENSORRT);
    expect_neighbours(&d, "DistCollective", false);
    release(&d);
    plan_in(&d, GRAPH(ROWS("1")), 2, SP_TARGET_TENSORRT, (struct sp_realize_forms){.has_casts = true});
    expect_neighbours(&d, "DistCollective", false);
    expect_note(&d, 1, "COLLECTIVE_NOT_CAST", "no wider type");
    release(&d);
    plan(&d, GRAPH(ROWS("16")), 2, SP_TARGET_ORT);
    expect_neighbours(&d, "AllGather", false);
    expect_note(&d, 1, "NEEDS_BFLOAT16", "1.30");
    release(&d);
    plan_in(&d, GRAPH(ROWS("16")), 2, SP_TARGET_ORT, (struct sp_realize_forms){.has_no_bfloat16 = true});
    expect_neighbours(&d, "AllGather", true);
    cr_expect_eq(json_array_size(json_object_get(d.manifest, "notes")), 1);
    release(&d);
}

/* ONNX Runtime's ranks are told by variables; each world has its own port. */
Test(realize_device, says_how_ranks_are_started)
{
    struct devices d;
    plan(&d, PRODUCT, 2, SP_TARGET_ORT);
    char *text = json_dumps(json_object_get(json_array_get(json_object_get(d.manifest, "devices"), 1), "environment"),
                            JSON_COMPACT);
    cr_expect_str_eq(text, "{\"LOCAL_RANK\":\"1\",\"LOCAL_WORLD_SIZE\":\"2\",\"RANK0_PORT\":\"18888\"}");
    free(text);
    release(&d);
}

/* Annotated by somebody else, who left no record of the version that the model had: what its content needs. */
Test(realize_device, has_the_least_ir_version)
{
    static const struct {
        const char *model;
        int64_t version;
    } cases[] = {{PRODUCT, 4}, {GRAPH(ROWS("16")), 5}, {GRAPH(ROWS("17")), 9}, {GRAPH(ROWS("22")), 10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct devices d;
        plan(&d, cases[i].model, 2, SP_TARGET_SESSIONS);
        struct model model = part_of(&d, 0, 0);
        cr_expect_eq(model.m.model->ir_version, cases[i].version);
        close_model(&model);
        release(&d);
    }
}

/* Without collectives each device is cut in two: what it gives away, and what it does with what it gets. */
Test(realize_device, cuts_models_for_sessions)
{
    struct devices d;
    plan(&d, PRODUCT, 2, SP_TARGET_SESSIONS);
    cr_expect(sp_device_plan_parts(d.plan, 0) == 2 && sp_device_plan_parts(d.plan, 1) == 2);
    struct model first = part_of(&d, 0, 0), second = part_of(&d, 0, 1);
    cr_expect(find_op(&first, "MatMul") != NULL && find_op(&first, "Add") == NULL);
    cr_expect(find_op(&second, "MatMul") == NULL && find_op(&second, "Add") != NULL);
    cr_expect(second.m.model->graph->input_count == 2 && second.m.model->graph->initializer_count == 0);
    const json_t *inputs = json_object_get(
        json_array_get(json_object_get(json_array_get(json_object_get(d.manifest, "devices"), 0), "parts"), 1),
        "inputs");
    bool from[2] = {false, false};
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        cr_assert_str_eq(json_string_value(json_object_get(json_array_get(inputs, i), "from")), "device");
        from[json_integer_value(json_object_get(json_array_get(inputs, i), "device"))] = true;
    }
    cr_expect(from[0] && from[1]);
    expect_order(&d, "[[\"device-0.onnx\"],[\"device-1.onnx\"],[\"device-0.part-1.onnx\"],"
                     "[\"device-1.part-1.onnx\"]]");
    close_model(&first);
    close_model(&second);
    release(&d);
}

/* What is made of a weight alone is made again where it is needed, in place of going from part to part. */
Test(realize_device, makes_values_of_weights_in_each_part)
{
#define WHOLE(tensor) "2{1'" tensor "' 2:-1 3{1:-1 2:0 2:1}}"
    struct devices d;
    plan(&d,
         GRAPH(FLOATS("x", "2",
                      "4") "12{1'y'} 5{1:4 1:2 2:1 8'w' 9h0000803f0000004000004040000080400000a0400000c0400000e04"
                           "000000041}"
                           " 5{1:2 1:2 2:1 8'v' 9h0000803f000000400000404000008040}"
                           " 1{1'v' 2't' 3'turn' 4'Transpose' 10{1'c' " WHOLE("v") WHOLE(
                               "t") "}}"
                                    " 1{1't' 2'n' 3'less' 4'Neg' 10{1'c' " WHOLE("t") WHOLE(
                                        "n") "}}"
                                             " 1{1'x' 1'w' 2'h' 3'product' 4'MatMul' 10{1'c' " SPLIT("x", "1", "4")
                                                 SPLIT("w", "0", "4")
                                                     WHOLE("h") "}}"
                                                                " 1{1'h' 1'n' 2'y' 3'sum' 4'Add' 10{1'c' " WHOLE("h")
                                                                    WHOLE("n") WHOLE("y") "}}"),
         2, SP_TARGET_SESSIONS);
    cr_expect(sp_device_plan_parts(d.plan, 0) == 2);
    struct model first = part_of(&d, 0, 0), second = part_of(&d, 0, 1);
    cr_expect(find_op(&first, "Transpose") == NULL && find_op(&first, "Neg") == NULL);
    const struct sp_node *turn = find_op(&second, "Transpose"), *less = find_op(&second, "Neg");
    cr_assert(turn != NULL && less != NULL);
    cr_expect_lt(turn->index, less->index);
    cr_expect_eq(second.m.model->graph->initializer_count, 1);
    cr_expect_eq(second.m.model->graph->input_count, 2); /* its own part of h, and the other device's */
    close_model(&first);
    close_model(&second);
    release(&d);
}

/* Whole inputs and outputs: each device cuts what it needs, and one of them, or with TensorRT each, has all of y. */
Test(realize_device, has_whole_inputs_and_outputs)
{
    static const char rows[] = GRAPH("11{1'u' 2{1{1:1 2{1{1:4} 1{1:2}}}}} 12{1'v'}"
                                     " 1{1'u' 2'v' 4'Relu' 10{1'c' " SPLIT("u", "0", "4") SPLIT("v", "0", "4") "}}");
    for (int target = SP_TARGET_TENSORRT; target <= SP_TARGET_SESSIONS; target++) {
        struct devices d;
        const bool is_one_world = target == SP_TARGET_TENSORRT;
        plan_in(&d, rows, 2, (enum sp_realize_target)target, (struct sp_realize_forms){.is_whole = true});
        for (int64_t device = 0; device < 2; device++) {
            struct model model = part_of(&d, device, 0);
            const struct sp_graph *graph = model.m.model->graph;
            const struct sp_value *u =
                sp_graph_value(graph, "u"); /* beside it, without collectives, the other's part of v */
            cr_expect_eq(graph->input_count, is_one_world || device == 1 ? 1 : 2);
            cr_assert(u != NULL && u->kind == SP_VALUE_INPUT);
            cr_expect(sp_dim_is(u->declared.shape.dims[0], 4));
            cr_expect_not_null(find_op(&model, "Slice"));
            cr_expect_eq(find_op(&model, "DistCollective") != NULL, is_one_world);
            if (is_one_world) {
                cr_expect_str_eq(graph->outputs[0]->name, "v");
                cr_expect(sp_dim_is(graph->outputs[0]->declared.shape.dims[0], 4));
            }
            close_model(&model);
        }
        release(&d);
    }
}

/* One stage after the other is a session after the other, whatever the target. */
Test(realize_device, passes_stages_on)
{
    static const char stages[] =
        "1:11 8{2:18} 26{1'c' 2:2} 7{2'g' " FLOATS("x", "2", "4") "12{1'y'}"
                                                                  " 1{1'x' 2'h' 4'Relu' 10{1'c' 2{1'x' 2:0} 3:0}}"
                                                                  " 1{1'h' 2'y' 4'Tanh' 10{1'c' 2{1'h' 2:1} 3:1}}}";
    for (int target = SP_TARGET_ORT; target <= SP_TARGET_SESSIONS; target++) {
        struct devices d;
        plan(&d, stages, 2, (enum sp_realize_target)target);
        cr_expect(sp_device_plan_parts(d.plan, 0) == 1 && sp_device_plan_parts(d.plan, 1) == 1);
        struct model first = part_of(&d, 0, 0), second = part_of(&d, 1, 0);
        cr_expect(find_op(&first, "Relu") != NULL && find_op(&second, "Tanh") != NULL);
        cr_expect_str_eq(first.m.model->graph->outputs[0]->name, second.m.model->graph->inputs[0]->name);
        expect_order(&d, "[[\"device-0.onnx\"],[\"device-1.onnx\"]]");
        close_model(&first);
        close_model(&second);
        release(&d);
    }
}

/* Uneven parts have no AllGather of their own: all are filled up, gathered and cut again, and a note says so. */
Test(realize_device, fills_up_uneven_parts)
{
    static const char uneven[] = "1:11 8{2:18} 26{1'c' 2:2} 7{2'g' " FLOATS(
        "x", "3", "4") "12{1'y'}"
                       " 1{1'x' 2'h' 4'Relu' 10{1'c' " SPLIT(
                           "x", "0", "3") "}}"
                                          " 1{1'h' 2'y' 4'Tanh' 10{1'c' 2{1'h' 2:-1 3{1:-1 2:0 2:1}}}}}";
    struct devices d;
    plan(&d, uneven, 2, SP_TARGET_ORT);
    struct model model = part_of(&d, 1, 0);
    const struct sp_node *gather = find_op(&model, "AllGather");
    cr_assert_not_null(gather);
    cr_expect(sp_node_int(gather, "axis", -1) == 0 && sp_node_int(gather, "group_size", 0) == 2);
    cr_expect_eq(d.notes, 2);
    cr_expect_eq(json_array_size(json_object_get(d.manifest, "notes")), 2);
    expect_note(&d, 0, "COLLECTIVE_LOWERED", "has no form in the target");
    expect_note(&d, 1, "NEEDS_COLLECTIVES", "--enable_nccl");
    close_model(&model);
    release(&d);
}

/* Sizes that nobody knows and types that no collective carries go from model to model, as with sessions. */
Test(realize_device, cuts_models_where_there_is_no_collective)
{
    static const struct {
        const char *model, *why;
    } cases[] = {{GRAPH(GATHERED_PARTS("1", "2'n'")),
                  "exchange 't' as outputs and inputs of their models instead of by "
                  "a collective, because its size is not known."},
                 {GRAPH(GATHERED_PARTS("8", "1:2")), "because the target's collectives do not carry its type."}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int target = SP_TARGET_ORT; target <= SP_TARGET_SESSIONS; target++) {
            struct devices d;
            plan(&d, cases[i].model, 2, (enum sp_realize_target)target);
            expect_order(&d, "[[\"device-0.onnx\"],[\"device-1.onnx\"],[\"device-0.part-1.onnx\"],"
                             "[\"device-1.part-1.onnx\"]]");
            struct model last = part_of(&d, 1, 1);
            cr_expect(find_op(&last, "Concat") != NULL && last.m.model->graph->input_count == 2);
            close_model(&last);
            cr_expect_eq(json_array_size(json_object_get(d.manifest, "notes")), target != SP_TARGET_SESSIONS);
            if (target != SP_TARGET_SESSIONS)
                expect_note(&d, 0, "COLLECTIVE_CUT", cases[i].why);
            release(&d);
        }
    }
}

/* Devices that have collectives too are cut together, and stay one world. */
Test(realize_device, cuts_a_world_between_collectives)
{
    struct devices d;
    plan(&d, GRAPH(PRODUCT_PARTS GATHERED_PARTS("1", "2'n'")), 2, SP_TARGET_ORT);
    expect_order(&d, "[[\"device-0.onnx\",\"device-1.onnx\"],[\"device-0.part-1.onnx\",\"device-1.part-1.onnx\"]]");
    for (int64_t device = 0; device < 2; device++) {
        struct model first = part_of(&d, device, 0), second = part_of(&d, device, 1);
        cr_expect(find_op(&first, "AllReduce") != NULL && find_op(&first, "Concat") == NULL);
        cr_expect(find_op(&second, "AllReduce") == NULL && find_op(&second, "Concat") != NULL);
        cr_expect_null(find_op(&second, "AllGather"));
        close_model(&first);
        close_model(&second);
    }
    cr_expect_eq(d.notes, 2);
    expect_note(&d, 0, "COLLECTIVE_CUT", "'t'");
    expect_note(&d, 1, "NEEDS_COLLECTIVES", "--enable_nccl");
    release(&d);
}

/* The models of one plan have one fingerprint, and those of another plan another one. */
Test(realize_device, models_say_which_manifest_they_are_of)
{
    char seen[3][40];
    for (int target = SP_TARGET_ORT; target <= SP_TARGET_SESSIONS; target++) {
        struct devices d;
        plan(&d, PRODUCT, 2, target);
        const json_t *devices = json_object_get(d.manifest, "devices");
        for (int64_t device = 0; device < 2; device++) {
            struct model model = part_of(&d, device, 0);
            const char *told =
                json_string_value(json_object_get(json_array_get(devices, (size_t)device), "fingerprint"));
            cr_assert_not_null(told);
            cr_assert_eq(strlen(told), 32);
            cr_assert_not_null(manifest_of(&model));
            cr_expect_str_eq(manifest_of(&model), told);
            cr_expect(device == 0 || strcmp(seen[target], told) == 0);
            (void)snprintf(seen[target], sizeof seen[target], "%s", told);
            close_model(&model);
        }
        for (int other = 0; other < target; other++)
            cr_expect_str_neq(seen[other], seen[target]);
        release(&d);
    }
}
