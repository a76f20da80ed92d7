#include <criterion/criterion.h>

#include "build_export.h"
#include "data_files.h"
#include "onnx_files.h"

static const struct onnx_mlp deep = {.layers = 8, .width = 4096, .batch = "512"};

/* Node by node and operand by operand. */
static void expect_equal(const struct sp_subject *a, const struct sp_subject *b)
{
    cr_assert_eq(a->device_count, b->device_count);
    cr_assert_eq(a->stage_count, b->stage_count);
    cr_assert_eq(a->dataflow->node_count, b->dataflow->node_count);
    for (int64_t d = 0; d < a->device_count; d++)
        cr_expect_str_eq(a->device_names[d], b->device_names[d]);
    for (uint32_t n = 0; n < a->dataflow->node_count; n++) {
        const struct sp_node *node = a->dataflow->nodes[n];
        const struct sp_node_specs *x = &a->assignment->nodes[n], *y = &b->assignment->nodes[n];
        cr_assert_str_eq(node->name, b->dataflow->nodes[n]->name);
        cr_expect_eq(x->has_stage, y->has_stage);
        cr_expect_eq(x->stage, y->stage);
        for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
            char one[SP_SPEC_TEXT_SIZE], other[SP_SPEC_TEXT_SIZE];
            cr_assert_eq(x->operands[i].sharding == NULL, y->operands[i].sharding == NULL, "%s %u", node->name, i);
            cr_expect_eq(x->operands[i].origin, y->operands[i].origin);
            if (x->operands[i].sharding != NULL)
                cr_expect_str_eq(sp_spec_text(x->operands[i].sharding, one, sizeof one),
                                 sp_spec_text(y->operands[i].sharding, other, sizeof other));
        }
    }
    for (uint32_t n = 0; n < a->model->graph->node_count; n++) {
        cr_assert_eq(a->nodes[n].device_count, b->nodes[n].device_count);
        for (int64_t d = 0; d < a->nodes[n].device_count; d++)
            cr_expect_eq(a->nodes[n].devices[d], b->nodes[n].devices[d]);
    }
}

Test(export_subject, a_plan_and_the_model_annotated_with_it_are_one)
{
    struct planned_model model;
    planned_mlp(&model, &deep, 3);
    struct sp_buf file = planned_annotated(&model);
    struct sp_subject *read = subject_of(&file);
    expect_equal(model.subject, read);
    cr_expect_null(read->plan);
    cr_expect_eq(model.subject->plan, model.plan);
    sp_subject_destroy(read);
    sp_buf_release(&file);
    planned_release(&model);
}

Test(export_subject, nodes_run_where_the_plan_puts_them)
{
    struct planned_model model;
    planned_mlp(&model, &deep, 2);
    const struct sp_placement *placement = &model.plan->result->placement;
    cr_assert_eq(placement->stage_count, 2);
    for (uint32_t n = 0; n < model.subject->model->graph->node_count; n++) {
        const struct sp_subject_node *node = &model.subject->nodes[n];
        cr_expect(node->has_stage);
        cr_expect_eq(node->stage, (int32_t)placement->stage_of[n]);
        cr_assert_eq(node->device_count, 1);
        cr_expect_eq(model.subject->cluster_devices[node->devices[0]], placement->stage_device[placement->stage_of[n]]);
    }
    planned_release(&model);
}

/* A model with subgraphs and functions: what is inside them has no annotation in the file and is inferred. */
Test(export_subject, the_same_for_real_models)
{
    static const char *const names[] = {"/tests/data/transformer_tiny.onnx", "/tests/data/resnet50.onnx"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct planned_model model;
        struct sp_buf file;
        size_t size;
        char path[512];
        (void)snprintf(path, sizeof path, SOURCE_ROOT "%s", names[i]);
        unsigned char *bytes = data_read(path, &size);
        if (bytes == NULL)
            continue;
        sp_buf_init(&file, size + 1);
        sp_buf_append(&file, bytes, size);
        free(bytes);
        planned_make(&model, file, 2);
        struct sp_buf annotated = planned_annotated(&model);
        struct sp_subject *read = subject_of(&annotated);
        expect_equal(model.subject, read);
        sp_subject_destroy(read);
        sp_buf_release(&annotated);
        planned_release(&model);
    }
}

/* What is inside branches has no annotation in the file: it follows. */
static const char *const branches =
    "1:10 8{2:17} 7{ 2'g' 1{1'x' 1'w' 2'h' 3'mm' 4'MatMul'} 1{1'c' 2'y' 3'if' 4'If'"
    " 5{1'then_branch' 20:5 6{ 2't' 1{1'h' 2'a' 3'r' 4'Relu'} 12{1'a'} }}"
    " 5{1'else_branch' 20:5 6{ 2'e' 1{1'h' 2'b' 3'n' 4'Neg'} 12{1'b'} }} }"
    " 1{1'y' 1'w' 2'z' 3'mm2' 4'MatMul'}"
    " 11{1'x' 2{1{1:1 2{1{1:512} 1{1:512}}}}} 11{1'w' 2{1{1:1 2{1{1:512} 1{1:512}}}}} 11{1'c' 2{1{1:9 2{}}}}"
    " 12{1'z' 2{1{1:1 2{1{1:512} 1{1:512}}}}} }";

Test(export_subject, the_same_for_branches)
{
    struct planned_model model;
    planned_make(&model, onnx_encode(branches), 2);
    struct sp_buf annotated = planned_annotated(&model);
    struct sp_subject *read = subject_of(&annotated);
    cr_assert_eq(read->dataflow->node_count, 5);
    expect_equal(model.subject, read);
    const struct sp_node_specs *inner = &read->assignment->nodes[3];
    cr_expect_not_null(inner->operands[1].sharding);
    struct exported text = export_of(read, "csv-tensors");
    cr_expect_str_eq(text.notes.data, "SUBGRAPHS_LEFT_OUT ");
    exported_release(&text);
    sp_subject_destroy(read);
    sp_buf_release(&annotated);
    planned_release(&model);
}

/* ---- from JSON -------------------------------------------------------------------------------------------------- */

static enum sp_status again(const struct planned_model *model, const json_t *json, const char *sha256,
                            struct sp_subject **ret_subject, struct sp_error *err)
{
    const struct sp_job_options options = {
        .bytes = model->file.data, .size = model->file.size, .name = "renamed.onnx", .sha256 = sha256};
    return sp_subject_from_json(&options, json, ret_subject, err);
}

static void expect_refused(const struct planned_model *model, const json_t *json, const char *sha256, const char *code)
{
    struct sp_error err = {0};
    struct sp_subject *subject = NULL;
    cr_expect_eq(again(model, json, sha256, &subject, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, code);
    cr_expect_null(subject);
    sp_subject_destroy(subject);
}

Test(export_subject, a_plan_is_made_again_from_its_json)
{
    struct planned_model model;
    struct sp_error err = {0};
    struct sp_subject *subject;
    planned_mlp(&model, &deep, 3);
    json_t *json = planned_json(&model);
    cr_assert_eq(again(&model, json, PLANNED_SHA256, &subject, &err), SP_OK, "%s", err.message);
    expect_equal(model.subject, subject);
    cr_expect_str_eq(subject->plan->id, model.plan->id);
    sp_subject_destroy(subject);
    json_decref(json);
    planned_release(&model);
}

Test(export_subject, what_is_not_the_same_plan_is_refused)
{
    struct planned_model model;
    planned_mlp(&model, &deep, 3);
    json_t *json = planned_json(&model);
    char other[65] = PLANNED_SHA256;
    other[0] = 'f';
    expect_refused(&model, json, other, "OTHER_MODEL");
    json_t *changed = json_deep_copy(json);
    json_object_set_new(changed, "id", json_string("00"));
    expect_refused(&model, changed, PLANNED_SHA256, "OTHER_PLAN");
    json_decref(changed);

    changed = json_deep_copy(json);
    json_object_set_new(json_object_get(changed, "options"), "seed", json_integer(7));
    expect_refused(&model, changed, PLANNED_SHA256, "OTHER_PLAN");
    json_decref(changed);

    changed = json_deep_copy(json); /* a node is moved by hand */
    json_t *nodes = json_object_get(json_array_get(json_object_get(changed, "stages"), 0), "nodes");
    json_array_remove(nodes, json_array_size(nodes) - 1);
    expect_refused(&model, changed, PLANNED_SHA256, "OTHER_PLAN");
    json_decref(changed);

    changed = json_deep_copy(json);
    json_object_del(changed, "outline"); /* as an older version wrote them */
    json_array_append_new(json_object_get(changed, "diagnostics"), json_pack("{s:s}", "code", "SEARCH_STOPPED"));
    expect_refused(&model, changed, PLANNED_SHA256, "PLAN_STOPPED");
    json_decref(changed);

    static const char *const needed[] = {"plan", "model", "cluster"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        changed = json_deep_copy(json);
        json_object_del(changed, needed[i]);
        expect_refused(&model, changed, PLANNED_SHA256, "NO_PLAN");
        json_decref(changed);
    }
    json_decref(json);
    planned_release(&model);
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

static const char *const two_configurations =
    "1:11 8{2:17} 26{1'a' 2:2} 26{1'b' 2:1} 7{ 2'g' 1{1'x' 2'y' 3'n' 4'Relu' 10{1'a' 2{1'x' 2:1}}}"
    " 11{1'x' 2{1{1:1 2{1{1:8}}}}} 12{1'y' 2{1{1:1 2{1{1:8}}}}} }";

Test(export_subject, the_configuration_is_the_named_one)
{
    struct sp_buf file = onnx_encode(two_configurations);
    struct sp_error err = {0};
    struct sp_subject *subject = NULL;
    cr_expect_eq(
        sp_subject_from_model(&(struct sp_job_options){.bytes = file.data, .size = file.size}, NULL, &subject, &err),
        SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "WHICH_CONFIGURATION");
    sp_error_clear(&err);
    cr_expect_eq(
        sp_subject_from_model(&(struct sp_job_options){.bytes = file.data, .size = file.size}, "c", &subject, &err),
        SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "NO_CONFIGURATION");
    sp_error_clear(&err);
    cr_assert_eq(
        sp_subject_from_model(&(struct sp_job_options){.bytes = file.data, .size = file.size}, "a", &subject, &err),
        SP_OK, "%s", err.message);
    cr_expect_eq(subject->device_count, 2);
    cr_expect_null(subject->device_names);
    cr_expect_eq(subject->nodes[0].device_count, 1); /* y follows x */
    cr_expect_eq(subject->nodes[0].devices[0], 1);
    sp_subject_destroy(subject);
    sp_buf_release(&file);

    file = onnx_encode("1:8 8{2:17} 7{ 2'g' 1{1'x' 2'y' 4'Relu'} 11{1'x'} 12{1'y'} }");
    cr_expect_eq(
        sp_subject_from_model(&(struct sp_job_options){.bytes = file.data, .size = file.size}, NULL, &subject, &err),
        SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "NO_CONFIGURATION");
    sp_buf_release(&file);
}

Test(export_subject, unsound_annotations_are_refused)
{
    struct sp_buf file = onnx_encode("1:11 8{2:17} 26{1'a' 2:2} 7{ 2'g' 1{1'x' 2'y' 3'n' 4'Relu' 10{1'a' 2{1'x' 2:5}}}"
                                     " 11{1'x' 2{1{1:1 2{1{1:8}}}}} 12{1'y' 2{1{1:1 2{1{1:8}}}}} }");
    struct sp_error err = {0};
    struct sp_subject *subject = NULL;
    cr_expect_eq(
        sp_subject_from_model(&(struct sp_job_options){.bytes = file.data, .size = file.size}, NULL, &subject, &err),
        SP_ERR_MODEL);
    cr_expect_null(subject);
    sp_buf_release(&file);
}
