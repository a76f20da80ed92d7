/*
 * Shape inference over whole models: handmade graphs for the driver's own duties, then, where they are at hand, real
 * exports and ONNX' own inferred types (onnx-light-shapes.tsv). The data live outside of the project:
 * $SHARDPLAN_TEST_DATA, else ../shared/data.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "build_model.h"
#include "data_files.h"
#include "onnx.pb-c.h"
#include "onnx/reader.h"
#include "ops/shapes/shapes.h"

#define MAX_PATH 1024

static struct build build;
static struct sp_shape_summary summary;

static void start(int64_t opset)
{
    build_init(&build, opset);
}

static void stop(void)
{
    build_release(&build);
}

static enum sp_status run(void)
{
    return sp_infer_shapes(build.model, NULL, &summary, &build.err);
}

static void infer(void)
{
    cr_assert_eq(run(), SP_OK, "%s", build.err.message);
}

static void refused(const char *code)
{
    cr_assert_eq(run(), SP_ERR_MODEL);
    cr_assert_str_eq(build.err.code, code, "%s: %s", build.err.code, build.err.message);
    cr_expect_neq(build.err.where[0], '\0');
    stop();
}

/* What the file would declare about a value: "n,3", NULL for no rank. */
static void declare(const char *name, enum sp_dtype dtype, const char *dims)
{
    char other[64];
    (void)snprintf(other, sizeof(other), "declares %s", name);
    struct sp_value *model = build_input(&build, other, dtype, dims);
    build_value(&build, name)->declared = model->declared.kind != SP_TYPE_NONE ? model->declared : model->type;
    build.graph->input_count--;
}

#define EXPECT_TYPE(name, text) cr_expect_str_eq(build_type(&build, name), text, "%s", build_type(&build, name))
#define EXPECT_DATA(name, text) cr_expect_str_eq(build_data(&build, name), text, "%s", build_data(&build, name))

TestSuite(shapes, .fini = stop);

/* ---- declarations -------------------------------------------------------------------------------------------- */

Test(shapes, declarations_fill_what_is_not_known)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,6");
    build_input(&build, "s", SP_DTYPE_INT64, "2");
    build_node(&build, "Reshape", "x s", "y");
    declare("y", SP_DTYPE_FLOAT, "rows,4");
    build_node(&build, "Relu", "y", "z");
    infer();
    EXPECT_TYPE("y", "float32[rows,4]");
    EXPECT_TYPE("z", "float32[rows,4]");
    cr_expect_eq(summary.values, summary.full_values);
}

Test(shapes, a_symbol_for_what_is_known_better_is_dropped)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "batch,6");
    build_node(&build, "Relu", "x", "y");
    declare("y", SP_DTYPE_FLOAT, "Reluy_dim_0,Reluy_dim_1");
    infer();
    EXPECT_TYPE("y", "float32[batch,6]");
}

/* A symbol made for an extent that depends on data says nothing that the file's own name would not. */
Test(shapes, a_declaration_replaces_a_new_symbol)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_INT64, "");
    build_node(&build, "Range", "x x x", "y");
    declare("y", SP_DTYPE_INT64, "length");
    build_node(&build, "Range", "x x x", "z");
    declare("z", SP_DTYPE_INT64, "5");
    infer();
    EXPECT_TYPE("y", "int64[length]");
    EXPECT_TYPE("z", "int64[5]");
}

struct accepted {
    unsigned count;
    char code[64], message[256];
};

static enum sp_status accept(void *context, const struct sp_node *node, const struct sp_error *error)
{
    struct accepted *accepted = context;
    (void)node;
    accepted->count++;
    (void)snprintf(accepted->code, sizeof accepted->code, "%s", error->code);
    (void)snprintf(accepted->message, sizeof accepted->message, "%.255s", error->message);
    return SP_OK;
}

/* What a model with such a declaration of y gives: the shape of its operators, and one thing that was accepted. */
static struct accepted accept_declaration(const char *input, const char *declared)
{
    struct accepted accepted = {0};
    const struct sp_shape_options options = {.accept = accept, .report_context = &accepted};
    char type[64];
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, input);
    build_node(&build, "Relu", "x", "y");
    build_node(&build, "Relu", "y", "z");
    declare("y", SP_DTYPE_FLOAT, declared);
    cr_assert_eq(sp_infer_shapes_with(build.model, &options, &summary, &build.err), SP_OK, "%s", build.err.message);
    (void)snprintf(type, sizeof type, "float32[%s]", input);
    EXPECT_TYPE("y", type);
    EXPECT_TYPE("z", type);
    cr_expect_eq(accepted.count, 1);
    stop();
    return accepted;
}

static void refuse_declaration(enum sp_dtype dtype, const char *dims, const char *code)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "batch,6");
    build_node(&build, "Relu", "x", "y");
    declare("y", dtype, dims);
    refused(code);
}

/* As in ONNX Runtime, which warns of the shape and refuses the type. */
Test(shapes, what_operators_give_counts_where_a_declaration_contradicts)
{
    cr_expect_str_eq(accept_declaration("batch,6", "batch,7").code, "SHAPE_CONTRADICTS_DECLARATION");
    cr_expect_str_eq(accept_declaration("batch,6", "6").code, "RANK_CONTRADICTS_DECLARATION");
    cr_expect_str_eq(accept_declaration("2,6", "").code, "RANK_CONTRADICTS_DECLARATION");
    /* Also where one axis is the declaration's alone: of a shape that is wrong nothing counts. */
    const struct accepted accepted = accept_declaration("batch,6", "2,7");
    cr_expect_str_eq(accepted.message, "Axis 1 of 'y' is declared to have 7 elements, but its operators give it 6.");
    refuse_declaration(SP_DTYPE_INT64, "batch,6", "TYPE_CONTRADICTS_DECLARATION");
}

/* A joined with B along the first axis; how often its declaration was set aside. */
static unsigned join_declared(const char *a, const char *b, const char *declared)
{
    struct accepted accepted = {0};
    const struct sp_shape_options options = {.accept = accept, .report_context = &accepted};
    start(13);
    build_input(&build, "a", SP_DTYPE_FLOAT, a);
    build_input(&build, "b", SP_DTYPE_FLOAT, b);
    build_attr_int(&build, build_node(&build, "Concat", "a b", "y"), "axis", 0);
    declare("y", SP_DTYPE_FLOAT, declared);
    cr_assert_eq(sp_infer_shapes_with(build.model, &options, &summary, &build.err), SP_OK, "%s", build.err.message);
    stop();
    cr_expect(accepted.count == 0 || strcmp(accepted.code, "SHAPE_CONTRADICTS_DECLARATION") == 0);
    return accepted.count;
}

/* A symbol that is declared holds for no size, or for none but 0; where it holds for others, nothing is wrong. */
Test(shapes, symbols_that_cannot_be_what_they_are_declared_as)
{
    cr_expect_eq(join_declared("n,6", "n,6", "n,6"), 1);
    cr_expect_eq(join_declared("n,6", "1,6", "n,6"), 1);
    cr_expect_eq(join_declared("past,6", "n,6", "n,6"), 0, "the past may be empty");
    cr_expect_eq(join_declared("past,6", "n,6", "past,6"), 0);
    cr_expect_eq(join_declared("past,6", "n,6", "total,6"), 0);
    cr_expect_eq(join_declared("n,6", "0,6", "n,6"), 0);
}

Test(shapes, an_unnamed_input_axis_gets_a_symbol)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "?,6");
    declare("x", SP_DTYPE_FLOAT, "?,6");
    build_node(&build, "Relu", "x", "y");
    infer();
    EXPECT_TYPE("y", "float32[x:0,6]");
    cr_expect(sp_dim_equal(build_value(&build, "x")->type.shape.dims[0], build_value(&build, "y")->type.shape.dims[0]));
}

/* ---- constants ----------------------------------------------------------------------------------------------- */

Test(shapes, constants_and_folded_nodes)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,6");
    build_input(&build, "n", SP_DTYPE_FLOAT, "batch,6");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "4,4");
    declare("x", SP_DTYPE_FLOAT, "2,6");
    declare("n", SP_DTYPE_FLOAT, "batch,6");
    struct sp_node *transpose = build_node(&build, "Transpose", "w", "wt");
    struct sp_node *known = build_node(&build, "Shape", "x", "sx"), *open = build_node(&build, "Shape", "n", "sn");
    build_ints(&build, "one", 1, (int64_t[]){1});
    struct sp_node *column = build_node(&build, "Gather", "sn one", "six"); /* depends on n, but is always 6 */
    struct sp_node *random = build_node(&build, "RandomNormalLike", "w", "r");
    struct sp_node *relu = build_node(&build, "Relu", "x", "y");
    infer();
    cr_expect(transpose->is_folded && build_value(&build, "wt")->is_constant);
    cr_expect(known->is_folded);
    cr_expect_not(open->is_folded);
    cr_expect(column->is_folded);
    EXPECT_DATA("six", "6");
    cr_expect_not(random->is_folded);
    cr_expect_not(relu->is_folded);
    cr_expect_not(build_value(&build, "x")->is_constant);
}

/* ---- arity, unknown operators, cancelling -------------------------------------------------------------------- */

static void refuse_node(const char *op, const char *inputs, const char *outputs, const char *code)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,6");
    build_node(&build, op, inputs, outputs);
    refused(code);
}

Test(shapes, arity_is_checked)
{
    refuse_node("Transpose", "", "y", "MISSING_INPUT");
    refuse_node("Transpose", "-", "y", "MISSING_INPUT");
    refuse_node("Transpose", "x x", "y", "TOO_MANY_INPUTS");
    refuse_node("Transpose", "x", "", "MISSING_OUTPUT");
    refuse_node("Transpose", "x", "y z", "TOO_MANY_OUTPUTS");
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,6");
    build_node(&build, "Transpose", "x -", "y -"); /* omitted ones at the end do not count */
    infer();
    EXPECT_TYPE("y", "float32[6,2]");
}

Test(shapes, unknown_operators_keep_declared_types)
{
    start(13);
    build_opset(&build, "com.example", 1);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,6");
    struct sp_node *first = build_node_in(&build, "com.example", "Mystery", "x", "y z");
    declare("y", SP_DTYPE_FLOAT, "2,3");
    struct sp_node *next = build_node(&build, "Transpose", "y", "t");
    build_node(&build, "Relu", "z", "u");
    infer();
    cr_expect_null(first->op);
    cr_expect_eq(summary.unknown_op_count, 1);
    cr_expect_eq(summary.first_unknown_op, first);
    cr_expect_not_null(next->op);
    cr_expect_not(first->is_folded);
    EXPECT_TYPE("t", "float32[3,2]");
    cr_expect_lt(summary.full_values, summary.values);
}

static bool never(void *context, const char *phase, double fraction, double best, double bound)
{
    (void)context, (void)fraction, (void)best, (void)bound;
    cr_expect_str_eq(phase, "shapes");
    return false;
}

Test(shapes, can_be_cancelled)
{
    struct sp_watch watch = {.tick = never, .context = NULL};
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,6");
    build_node(&build, "Relu", "x", "y");
    cr_expect_eq(sp_infer_shapes(build.model, &watch, &summary, &build.err), SP_ERR_CANCELLED);
}

/* ---- functions ----------------------------------------------------------------------------------------------- */

/* Where the protobuf model lives until it is packed. */
static struct sp_arena *scratch;

static char *text(const char *string)
{
    return sp_arena_string(scratch, string, strlen(string));
}

static Onnx__NodeProto *proto_node(const char *domain, const char *op, const char *input, const char *output)
{
    Onnx__NodeProto *node = sp_arena_array(scratch, 1, sizeof(*node));
    onnx__node_proto__init(node);
    node->domain = text(domain);
    node->op_type = text(op);
    node->n_input = node->n_output = 1;
    node->input = sp_arena_array(scratch, 1, sizeof(char *));
    node->output = sp_arena_array(scratch, 1, sizeof(char *));
    node->input[0] = text(input);
    node->output[0] = text(output);
    return node;
}

static Onnx__OperatorSetIdProto *proto_opset(const char *domain, int64_t version)
{
    Onnx__OperatorSetIdProto *opset = sp_arena_array(scratch, 1, sizeof(*opset));
    onnx__operator_set_id_proto__init(opset);
    opset->domain = text(domain);
    opset->has_version = 1;
    opset->version = version;
    return opset;
}

static Onnx__ValueInfoProto *proto_value(const char *name, int64_t rows)
{
    Onnx__ValueInfoProto *value = sp_arena_array(scratch, 1, sizeof(*value));
    Onnx__TypeProto *type = sp_arena_array(scratch, 1, sizeof(*type));
    Onnx__TypeProto__Tensor *tensor = sp_arena_array(scratch, 1, sizeof(*tensor));
    Onnx__TensorShapeProto *shape = sp_arena_array(scratch, 1, sizeof(*shape));
    onnx__value_info_proto__init(value);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(shape);
    value->name = text(name);
    value->type = type;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    tensor->has_elem_type = 1;
    tensor->elem_type = SP_DTYPE_FLOAT;
    if (rows == 0)
        return value;
    tensor->shape = shape;
    shape->n_dim = 2;
    shape->dim = sp_arena_array(scratch, 2, sizeof(*shape->dim));
    for (int i = 0; i < 2; i++) {
        shape->dim[i] = sp_arena_array(scratch, 1, sizeof(**shape->dim));
        onnx__tensor_shape_proto__dimension__init(shape->dim[i]);
        shape->dim[i]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        shape->dim[i]->dim_value = rows + i;
    }
    return value;
}

static Onnx__FunctionProto *proto_function(const char *name, Onnx__NodeProto *first, Onnx__NodeProto *second)
{
    Onnx__FunctionProto *function = sp_arena_array(scratch, 1, sizeof(*function));
    onnx__function_proto__init(function);
    function->name = text(name);
    function->domain = text("f");
    function->n_input = function->n_output = 1;
    function->input = sp_arena_array(scratch, 1, sizeof(char *));
    function->output = sp_arena_array(scratch, 1, sizeof(char *));
    function->input[0] = text("a");
    function->output[0] = text("c");
    function->n_node = 2;
    function->node = sp_arena_array(scratch, 2, sizeof(*function->node));
    function->node[0] = first;
    function->node[1] = second;
    function->n_opset_import = 2;
    function->opset_import = sp_arena_array(scratch, 2, sizeof(*function->opset_import));
    function->opset_import[0] = proto_opset("", 13);
    function->opset_import[1] = proto_opset("f", 1);
    return function;
}

/* Functions L1 .. Ln, where each transposes and then calls the one below; L0 transposes and applies Relu. */
static struct sp_model *chain_of_functions(struct sp_arena *arena, int levels, unsigned char **ret_bytes)
{
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    scratch = sp_arena_create(NULL);
    onnx__model_proto__init(&model);
    onnx__graph_proto__init(&graph);
    model.has_ir_version = 1;
    model.ir_version = 8;
    model.graph = &graph;
    model.n_opset_import = 2;
    model.opset_import = (Onnx__OperatorSetIdProto *[]){proto_opset("", 13), proto_opset("f", 1)};
    graph.name = text("g");
    graph.n_input = graph.n_output = 1;
    graph.input = (Onnx__ValueInfoProto *[]){proto_value("x", 2)};
    graph.output = (Onnx__ValueInfoProto *[]){proto_value("y", 0)};
    model.n_functions = (size_t)levels + 1;
    model.functions = sp_arena_array(scratch, model.n_functions, sizeof(*model.functions));
    const char *below = "Relu";
    for (int i = 0; i <= levels; i++) {
        char *name = sp_arena_array(scratch, 1, 16);
        (void)snprintf(name, 16, "L%d", i);
        model.functions[i] =
            proto_function(name, proto_node("", "Transpose", "a", "b"), proto_node(i == 0 ? "" : "f", below, "b", "c"));
        below = name;
    }
    graph.n_node = 1;
    graph.node = (Onnx__NodeProto *[]){proto_node("f", below, "x", "y")};
    size_t size = onnx__model_proto__get_packed_size(&model);
    *ret_bytes = malloc(size);
    (void)onnx__model_proto__pack(&model, *ret_bytes);
    sp_arena_destroy(scratch);
    struct sp_model *result = NULL;
    struct sp_error err;
    sp_error_clear(&err);
    enum sp_status status = sp_onnx_read(arena, *ret_bytes, size, NULL, &result, &err);
    cr_assert_eq(status, SP_OK, "%s", err.message);
    return result;
}

Test(shapes, function_bodies_are_inferred_for_each_call)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_error err;
    unsigned char *bytes = NULL;
    sp_error_clear(&err);
    struct sp_model *model = chain_of_functions(arena, 2, &bytes);
    cr_assert_eq(sp_infer_shapes(model, NULL, &summary, &err), SP_OK, "%s", err.message);
    const struct sp_node *call = &model->graph->nodes[0];
    cr_assert_not_null(call->body);
    cr_expect_null(call->op);
    cr_expect_eq(summary.unknown_op_count, 0);
    cr_expect_eq(summary.full_values, summary.values);
    const struct sp_shape *shape = &model->graph->outputs[0]->type.shape;
    cr_expect(shape->rank == 2 && sp_dim_is(shape->dims[0], 3) &&
              sp_dim_is(shape->dims[1], 2)); /* three times turned */
    cr_expect_not_null(call->body->nodes[1].body);
    cr_expect_str_eq(call->body->nodes[1].body->nodes[1].op_type, "L0");
    sp_arena_destroy(arena);
    free(bytes);
}

/* ---- size ---------------------------------------------------------------------------------------------------- */

/* A chain of `count` nodes: what inference takes beyond the graph. */
static size_t bytes_for_chain(uint32_t count)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    start(13);
    struct sp_value *x = build_input(&build, "x", SP_DTYPE_FLOAT, "batch,6");
    struct sp_graph *graph = build.graph;
    struct sp_value *values = SP_NEW_ARRAY(arena, count, struct sp_value);
    graph->nodes = SP_NEW_ARRAY(arena, count, struct sp_node);
    graph->values = SP_NEW_ARRAY(arena, count + 1, struct sp_value *);
    graph->values[0] = x;
    for (uint32_t i = 0; i < count; i++) {
        struct sp_node *node = &graph->nodes[i];
        struct sp_value **operands = SP_NEW_ARRAY(arena, 2, struct sp_value *);
        operands[0] = graph->values[i];
        operands[1] = graph->values[i + 1] = &values[i];
        *node = (struct sp_node){.name = "",
                                 .op_type = i % 2 == 0 ? "Transpose" : "Relu",
                                 .domain = "",
                                 .index = i,
                                 .graph = graph,
                                 .input_count = 1,
                                 .output_count = 1,
                                 .inputs = &operands[0],
                                 .outputs = &operands[1]};
        values[i] =
            (struct sp_value){.name = "v", .id = i + 1, .kind = SP_VALUE_NODE_OUTPUT, .graph = graph, .producer = node};
    }
    graph->node_count = count;
    graph->value_count = count + 1;
    size_t before = sp_arena_bytes(build.arena);
    infer();
    cr_expect_eq(summary.full_values, summary.values);
    size_t taken = sp_arena_bytes(build.arena) - before;
    stop();
    sp_arena_destroy(arena);
    return taken;
}

/* Chunks of an arena grow geometrically, so "linear" allows a factor of two. */
Test(shapes, memory_is_linear_in_the_nodes)
{
    size_t small = bytes_for_chain(10000), large = bytes_for_chain(100000);
    cr_expect_lt(large, 20 * small + 1000000, "%zu and %zu bytes", small, large);
    cr_expect_lt(large, 100000 * (size_t)400);
}

/* ---- real models --------------------------------------------------------------------------------------------- */

static struct sp_model *infer_file(struct sp_arena *arena, const char *path, unsigned char **ret_bytes)
{
    size_t size = 0;
    struct sp_model *model = NULL;
    struct sp_error err;
    sp_error_clear(&err);
    *ret_bytes = data_read(path, &size);
    cr_assert_not_null(*ret_bytes, "%s", path);
    cr_assert_eq(sp_onnx_read(arena, *ret_bytes, size, NULL, &model, &err), SP_OK, "%s: %s", path, err.message);
    cr_assert_eq(sp_infer_shapes(model, NULL, &summary, &err), SP_OK, "%s: %s", path, err.message);
    return model;
}

Test(shapes, every_value_of_real_models_has_its_shape)
{
    char folder[MAX_PATH / 2];
    (void)snprintf(folder, sizeof(folder), "%s/models", data_folder());
    DIR *handle = opendir(folder);
    if (handle == NULL)
        cr_skip_test("the models are not there");
    unsigned files = 0;
    for (struct dirent *entry = readdir(handle); entry != NULL; entry = readdir(handle)) {
        char path[MAX_PATH];
        unsigned char *bytes = NULL;
        if (strstr(entry->d_name, ".onnx") == NULL)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%.200s", folder, entry->d_name);
        struct sp_arena *arena = sp_arena_create(NULL);
        struct sp_model *model = infer_file(arena, path, &bytes);
        cr_expect_eq(summary.unknown_op_count, 0, "%s", path);
        cr_expect_eq(summary.full_values, summary.values, "%s: %lu of %lu", path, (unsigned long)summary.full_values,
                     (unsigned long)summary.values);
        for (uint32_t i = 0; i < model->graph->node_count; i++) {
            struct sp_rule *rule = NULL;
            struct sp_error err;
            sp_error_clear(&err);
            cr_expect_eq(sp_op_rule(model, &model->graph->nodes[i], arena, &rule, &err), SP_OK, "%s: %s", path,
                         err.message);
        }
        sp_arena_destroy(arena);
        free(bytes);
        files++;
    }
    (void)closedir(handle);
    cr_expect_gt(files, 0);
}

/* One line "V<tab>name<tab>type<tab>1,2,3" (or O: a graph output) against the model. */
static void compare_line(const char *file, const struct sp_model *model, const char *line)
{
    char name[256], dims[256] = "", text[256] = "";
    int dtype = 0;
    cr_assert_geq(sscanf(line, "%*c\t%255[^\t]\t%d\t%255[0-9,]", name, &dtype, dims), 2, "%s", line);
    const struct sp_value *value = sp_graph_value(model->graph, name);
    cr_assert_not_null(value, "%s: %s", file, name);
    for (uint32_t i = 0; i < value->type.shape.rank; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof(text) - used, "%s%lld", i == 0 ? "" : ",",
                       (long long)value->type.shape.dims[i].value);
    }
    cr_expect_eq((int)value->type.dtype, dtype, "%s: %s", file, name);
    cr_expect(sp_type_is_full(&value->type), "%s: %s", file, name);
    cr_expect_str_eq(text, dims, "%s: '%s' is %s instead of %s", file, name, text, dims);
}

Test(shapes, the_onnx_light_models_agree_with_onnx)
{
    char path[MAX_PATH], line[1024], model_file[256] = "";
    (void)snprintf(path, sizeof(path), "%s/onnx-light-shapes.tsv", data_folder());
    FILE *file = fopen(path, "r");
    if (file == NULL)
        cr_skip_test("the table is not there");
    struct sp_arena *arena = NULL;
    struct sp_model *model = NULL;
    unsigned char *bytes = NULL;
    unsigned lines = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "MODEL\t%255[^\n]", model_file) == 1) {
            sp_arena_destroy(arena);
            free(bytes);
            (void)snprintf(path, sizeof(path), "%s/onnx-light/%s", data_folder(), model_file);
            arena = sp_arena_create(NULL);
            model = infer_file(arena, path, &bytes);
            cr_expect_eq(summary.full_values, summary.values, "%s", path);
        } else if (model != NULL) {
            compare_line(model_file, model, line);
            lines++;
        }
    }
    (void)fclose(file);
    sp_arena_destroy(arena);
    free(bytes);
    cr_expect_gt(lines, 2000);
}
