/* A rank's model with Distributed operators: nodes, attributes, local shapes, pieces of weights. */
#include <criterion/criterion.h>

#include "build_export.h"
#include "onnx.pb-c.h"
#include "onnx_files.h"
#include "plan/check.h"

#define SHAPE(a, b) "2{1{1:1 2{1{1:" #a "} 1{1:" #b "}}}}"
#define ON(name)    "2{1'" name "' 2:-1 3{1:-1 2:0 2:1}}"  /* whole on devices 0 and 1 */
#define ROWS(name)  "2{1'" name "' 2:0 2:1 4{1:0 2{3:2}}}" /* axis 0 in two */
#define COLS(name)  "2{1'" name "' 2:0 2:1 4{1:1 2{3:2}}}" /* axis 1 in two */
#define HEAD        "1:11 8{2:17} 26{1'a' 2:2} "

/* Megatron's two products: columns of w0, Relu on the pieces, rows of w1, an all-reduce. w0 = [2, 4], w1 = [4, 2]. */
static const char megatron[] = HEAD "7{ 2'g' 1{1'x' 1'w0' 2'h' 3'up' 4'MatMul' 10{1'a' " ON("x") COLS("w0")
    COLS("h") "}}"
              " 1{1'h' 2'r' 3'act' 4'Relu' 10{1'a' " COLS("h")
                  COLS("r") "}}"
                            " 1{1'r' 1'w1' 2'y' 3'down' 4'MatMul' 10{1'a' " COLS("r") ROWS("w1")
                                ON("y") "}}"
                                        " 5{1:2 1:4 2:1 8'w0' "
                                        "9h0000000001000000020000000300000004000000050000000600000007000000}"
                                        " 5{1:4 1:2 2:1 8'w1' "
                                        "9h0000000001000000020000000300000004000000050000000600000007000000}"
                                        " 11{1'x' " SHAPE(3, 2) "} 12{1'y' " SHAPE(3, 2) "} }";

static struct exported export_rank(const struct sp_buf *file, int64_t device, Onnx__ModelProto **ret_model)
{
    struct sp_subject *subject = subject_of(file);
    struct exported exported = export_for(subject, "ort", device);
    *ret_model = NULL;
    if (exported.status == SP_OK) {
        *ret_model = onnx__model_proto__unpack(NULL, exported.bytes.size, (const uint8_t *)exported.bytes.data);
        cr_assert_not_null(*ret_model);
    }
    sp_subject_destroy(subject);
    return exported;
}

static const Onnx__AttributeProto *attribute(const Onnx__NodeProto *node, const char *name)
{
    for (size_t i = 0; i < node->n_attribute; i++) {
        if (strcmp(node->attribute[i]->name, name) == 0)
            return node->attribute[i];
    }
    cr_assert_fail("no attribute %s", name);
    return NULL;
}

/* The texts of an attribute, each followed by a blank. */
static const char *texts(const Onnx__NodeProto *node, const char *name)
{
    static char buffer[512];
    const Onnx__AttributeProto *list = attribute(node, name);
    size_t used = 0;
    cr_assert_eq(list->type, SP_ATTR_STRINGS);
    for (size_t i = 0; i < list->n_strings; i++) {
        cr_assert_lt(used + list->strings[i].len + 2, sizeof buffer);
        memcpy(buffer + used, list->strings[i].data, list->strings[i].len);
        used += list->strings[i].len;
        buffer[used++] = ' ';
    }
    buffer[used] = '\0';
    return buffer;
}

static const Onnx__TensorProto *initializer(const Onnx__ModelProto *model, const char *name)
{
    for (size_t i = 0; i < model->graph->n_initializer; i++) {
        if (strcmp(model->graph->initializer[i]->name, name) == 0)
            return model->graph->initializer[i];
    }
    cr_assert_fail("no initializer %s", name);
    return NULL;
}

static void expect_info(const Onnx__ValueInfoProto *info, const char *name, int64_t rows, int64_t columns)
{
    const Onnx__TensorShapeProto *shape = info->type->tensor_type->shape;
    cr_expect_str_eq(info->name, name);
    cr_assert_eq(shape->n_dim, 2);
    cr_expect_eq(shape->dim[0]->dim_value, rows);
    cr_expect_eq(shape->dim[1]->dim_value, columns);
}

Test(export_ort, nodes_have_the_six_attributes_and_ranks_their_pieces)
{
    struct sp_buf file = onnx_encode(megatron);
    for (int64_t rank = 0; rank < 2; rank++) {
        Onnx__ModelProto *model;
        struct exported exported = export_rank(&file, rank, &model);
        cr_assert_eq(exported.status, SP_OK, "%s", exported.err.message);
        const Onnx__GraphProto *graph = model->graph;
        cr_assert_eq(graph->n_node, 3);
        const Onnx__NodeProto *up = graph->node[0], *act = graph->node[1], *down = graph->node[2];
        cr_expect_str_eq(up->op_type, "DistributedMatMul");
        cr_expect_str_eq(up->domain, "com.microsoft");
        cr_expect_str_eq(act->op_type, "Relu");
        cr_expect_eq(act->n_attribute, 0);
        cr_expect_str_eq(texts(up, "input_shard_specs"), "RR RS[0] ");
        cr_expect_str_eq(texts(up, "input_device_mesh_shapes"), "[2] [2] ");
        cr_expect_str_eq(texts(up, "input_device_mesh_elements"), "[0,1] [0,1] ");
        cr_expect_str_eq(texts(up, "output_shard_specs"), "RS[0] ");
        cr_expect_str_eq(texts(down, "input_shard_specs"), "RS[0] S[0]R ");
        cr_expect_str_eq(texts(down, "output_shard_specs"), "RR ");
        cr_expect_str_eq(texts(down, "output_device_mesh_shapes"), "[2] ");
        cr_expect_str_eq(texts(down, "output_device_mesh_elements"), "[0,1] ");
        cr_expect_eq(up->n_device_configurations, 0);
        cr_expect_eq(model->n_configuration, 0);

        /* w0 = 0 1 2 3 | 4 5 6 7 by rows: columns 2r, 2r + 1; w1's rows 2r, 2r + 1. The numbers are the raw ones. */
        const Onnx__TensorProto *w0 = initializer(model, "w0"), *w1 = initializer(model, "w1");
        const int32_t columns[4] = {0 + 2 * (int32_t)rank, 1 + 2 * (int32_t)rank, 4 + 2 * (int32_t)rank,
                                    5 + 2 * (int32_t)rank};
        const int32_t rows[4] = {4 * (int32_t)rank, 4 * (int32_t)rank + 1, 4 * (int32_t)rank + 2,
                                 4 * (int32_t)rank + 3};
        cr_assert_eq(w0->raw_data.len, sizeof columns);
        cr_expect_arr_eq(w0->raw_data.data, columns, sizeof columns);
        cr_assert_eq(w1->raw_data.len, sizeof rows);
        cr_expect_arr_eq(w1->raw_data.data, rows, sizeof rows);
        cr_expect_eq(w0->dims[0], 2);
        cr_expect_eq(w0->dims[1], 2);

        expect_info(graph->input[0], "x", 3, 2);
        expect_info(graph->output[0], "y", 3, 2);
        cr_assert_eq(graph->n_value_info, 2);
        expect_info(graph->value_info[0], "h", 3, 2); /* of 4 columns */
        expect_info(graph->value_info[1], "r", 3, 2);
        cr_assert_eq(model->n_opset_import, 2);
        cr_expect_str_eq(model->opset_import[1]->domain, "com.microsoft");
        cr_expect_str_eq(exported.notes.data, "ORT_BUILD ");
        onnx__model_proto__free_unpacked(model, NULL);
        exported_release(&exported);
    }
    sp_buf_release(&file);
}

/* The check reads Distributed operators by themselves: it finds the same all-reduce, and nothing wrong. */
Test(export_ort, what_is_written_is_sound)
{
    struct sp_buf file = onnx_encode(megatron), text;
    Onnx__ModelProto *model;
    struct exported exported = export_rank(&file, 0, &model);
    struct sp_error err = {0};
    struct sp_check_answer *answer;
    struct sp_json json;
    cr_assert_eq(
        sp_check_answer_create(&(struct sp_job_options){.bytes = exported.bytes.data, .size = exported.bytes.size, 0},
                               NULL, &answer, &err),
        SP_OK, "%s", err.message);
    sp_buf_init(&text, (size_t)1 << 20);
    sp_json_init_buf(&json, false, &text);
    sp_check_answer_json(answer, &json);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    cr_expect(sp_check_answer_is_valid(answer), "%s", text.data);
    cr_expect_not_null(strstr(text.data, "all-reduce of 'y' among 2 devices"), "%s", text.data);
    cr_expect_null(strstr(text.data, "\"warning\""), "%s", text.data);
    sp_check_answer_destroy(answer);
    sp_buf_release(&text);
    onnx__model_proto__free_unpacked(model, NULL);
    exported_release(&exported);
    sp_buf_release(&file);
}

static void expect_refused(const char *notation, const char *code, const char *notes)
{
    struct sp_buf file = onnx_encode(notation);
    Onnx__ModelProto *model;
    struct exported exported = export_rank(&file, 0, &model);
    cr_expect_eq(exported.status, SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(exported.err.code, code, "%s: %s", exported.err.code, exported.err.message);
    cr_expect_str_eq(exported.notes.data, notes);
    exported_release(&exported);
    sp_buf_release(&file);
}

Test(export_ort, what_its_kernels_cannot_do_is_told)
{
    /* A split sum that is scattered: case 3-2 has a whole result only. */
    expect_refused(HEAD "7{ 2'g' 1{1'x' 1'w' 2'y' 3'n' 4'MatMul' 10{1'a' " COLS("x") ROWS("w")
                       COLS("y") "}}"
                                 " 11{1'x' " SHAPE(4, 4) "} 11{1'w' " SHAPE(4, 4) "} 12{1'y' " SHAPE(4, 4) "} }",
                   "ORT_REFUSED", "ORT_REFUSED ");
    /* Rows of both: the kernel forgets the all-reduce. */
    expect_refused(HEAD "7{ 2'g' 1{1'x' 1'w' 2'y' 3'n' 4'ReduceSum' 10{1'a' " COLS("x")
                       ON("y") "}}"
                               " 5{1:1 2:7 8'w' 7:1} 11{1'x' " SHAPE(4, 4) "} 12{1'y' " SHAPE(4, 1) "} }",
                   "ORT_REFUSED", "ORT_REFUSED ");
    /* A softmax over the split axis. */
    expect_refused(HEAD "7{ 2'g' 1{1'x' 2'y' 3'n' 4'Softmax' 10{1'a' " COLS("x")
                       COLS("y") "}}"
                                 " 11{1'x' " SHAPE(4, 4) "} 12{1'y' " SHAPE(4, 4) "} }",
                   "ORT_REFUSED", "ORT_REFUSED ");
    /* A reshard between two nodes: rows become columns. */
    expect_refused(HEAD "7{ 2'g' 1{1'x' 2'h' 3'n' 4'Relu' 10{1'a' " ROWS("x")
                       ROWS("h") "}}"
                                 " 1{1'h' 2'y' 3'm' 4'Relu' 10{1'a' " COLS("h")
                                     COLS("y") "}}"
                                               " 11{1'x' " SHAPE(4, 4) "} 12{1'y' " SHAPE(4, 4) "} }",
                   "ORT_REFUSED", "ORT_REFUSED ");
}

Test(export_ort, stages_are_no_such_model)
{
    struct planned_model model;
    planned_mlp(&model, &(struct onnx_mlp){.layers = 4, .width = 4096, .batch = "512"}, 2);
    struct exported exported = export_any(model.subject, "ort");
    cr_expect_eq(exported.status, SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(exported.err.code, "PART_OF_THE_DEVICES");
    exported_release(&exported);
    planned_release(&model);
}

/* By rows a product needs nothing from others: a plain operator, where the Distributed one is not tested. */
Test(export_ort, plain_operators_do_what_needs_no_communication)
{
    struct sp_buf file = onnx_encode(
        HEAD "7{ 2'g' 1{1'x' 1'w' 2'h' 3'n' 4'MatMul' 10{1'a' " ROWS("x") ON("w")
            ROWS("h") "}}"
                      " 1{1'h' 2'y' 3's' 4'Softmax' 10{1'a' " ROWS("h")
                          ROWS("y") "}}"
                                    " 11{1'x' " SHAPE(4, 4) "} 11{1'w' " SHAPE(4, 4) "} 12{1'y' " SHAPE(4, 4) "} }");
    Onnx__ModelProto *model;
    struct exported exported = export_rank(&file, 1, &model);
    cr_assert_eq(exported.status, SP_OK, "%s", exported.err.message);
    cr_expect_str_eq(model->graph->node[0]->op_type, "MatMul");
    cr_expect_str_eq(model->graph->node[1]->op_type, "Softmax");
    expect_info(model->graph->input[0], "x", 2, 4);
    expect_info(model->graph->input[1], "w", 4, 4);
    expect_info(model->graph->output[0], "y", 2, 4);
    onnx__model_proto__free_unpacked(model, NULL);
    exported_release(&exported);

    exported = export_rank(&file, 2, &model);
    cr_expect_str_eq(exported.err.code, "NO_DEVICE");
    exported_release(&exported);
    sp_buf_release(&file);
}

/* A symbolic batch stays one, split or not. */
Test(export_ort, symbols)
{
    struct sp_buf file = onnx_encode(
        HEAD "7{ 2'g' 1{1'x' 2'h' 3'n' 4'Relu' 10{1'a' " COLS("x")
            COLS("h") "}}"
                      " 1{1'h' 2'y' 3's' 4'Neg' 10{1'a' " COLS("h")
                          COLS("y") "}}"
                                    " 11{1'x' 2{1{1:1 2{1{2'n'} 1{1:6}}}}} 12{1'y' 2{1{1:1 2{1{2'n'} 1{1:6}}}}} }");
    Onnx__ModelProto *model;
    struct exported exported = export_rank(&file, 1, &model);
    cr_assert_eq(exported.status, SP_OK, "%s", exported.err.message);
    const Onnx__TensorShapeProto *shape = model->graph->input[0]->type->tensor_type->shape;
    cr_assert_eq(shape->n_dim, 2);
    cr_expect_neq(shape->dim[0]->value_case, ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE);
    cr_expect_eq(shape->dim[1]->dim_value, 3);
    onnx__model_proto__free_unpacked(model, NULL);
    exported_release(&exported);
    sp_buf_release(&file);
}

/* w is in another file: its rows are one run of bytes there, its columns are cut out at load. */
Test(export_ort, parts_of_external_weights)
{
    struct sp_buf file = onnx_encode(HEAD "7{ 2'g' 1{1'x' 1'w' 2'h' 3'up' 4'MatMul' 10{1'a' " ON("x") COLS("w") COLS(
        "h") "}}"
             " 1{1'h' 1'v' 2'y' 3'down' 4'MatMul' 10{1'a' " COLS("h") ROWS("v") ON(
                 "y") "}}"
                      " 5{1:4 1:4 2:1 8'w' 13{1'location' 2'w.bin'} 13{1'offset' 2'4096'} 13{1'length' 2'64'} 14:1}"
                      " 5{1:4 1:4 2:1 8'v' 13{1'location' 2'w.bin'} 13{1'offset' 2'8192'} 13{1'length' 2'64'} 14:1}"
                      " 11{1'x' " SHAPE(4, 4) "} 12{1'y' " SHAPE(4, 4) "} }");
    Onnx__ModelProto *model;
    struct exported exported = export_rank(&file, 1, &model);
    cr_assert_eq(exported.status, SP_OK, "%s", exported.err.message);
    cr_assert_eq(model->graph->n_node, 3);
    const Onnx__NodeProto *slice = model->graph->node[0], *up = model->graph->node[1];
    cr_expect_str_eq(slice->op_type, "Slice");
    cr_expect_str_eq(slice->output[0], up->input[1]);
    const Onnx__TensorProto *whole = initializer(model, slice->input[0]), *v = initializer(model, "v");
    cr_expect_eq(whole->dims[1], 4);
    static const int64_t numbers[3] = {2, 4, 1}; /* starts, ends, axes */
    for (size_t i = 0; i < 3; i++)
        cr_expect_arr_eq(initializer(model, slice->input[1 + i])->raw_data.data, &numbers[i], 8);
    cr_expect_eq(v->dims[0], 2);
    for (size_t i = 0; i < v->n_external_data; i++) {
        if (strcmp(v->external_data[i]->key, "offset") == 0)
            cr_expect_str_eq(v->external_data[i]->value, "8224"); /* behind two rows of 16 bytes */
        if (strcmp(v->external_data[i]->key, "length") == 0)
            cr_expect_str_eq(v->external_data[i]->value, "32");
    }
    onnx__model_proto__free_unpacked(model, NULL);
    exported_release(&exported);
    sp_buf_release(&file);
}
