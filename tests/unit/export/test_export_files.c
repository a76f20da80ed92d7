/* Files of a plan and of an annotated model, as recipes: every format, its type and name, and what there is not. */
#include <criterion/criterion.h>
#include <string.h>

#include "build_export.h"
#include "export/files.h"
#include "realize_files.h"

/* Device 0 gives to device 2 and gets its result back for a product that it has with device 1. */
#define VALUE(field, name) #field "{1'" name "' 2{1{1:1 2{1{1:4}1{1:8}}}}} "
#define ON(tensor, more)   " 2{1'" tensor "' " more "}"
static const char parts_notation[] = "1:11 8{2:21} 26{1'c' 2:3} 7{2'g' " VALUE(11, "x")
    VALUE(12, "y") "5{1:8 1:8 2:1 8'w' 9{1:0*128}}"
                   " 1{1'x' 2'a' 3'first' 4'Relu' 10{1'c'" ON("x", "2h00")
                       ON("a", "2h00") "}}"
                                       " 1{1'a' 2'b' 3'second' 4'Relu' 10{1'c'" ON("a", "2h02")
                                           ON("b", "2h02") "}}"
                                                           " 1{1'b' 1'w' 2'y' 3'third' 4'MatMul' 10{1'c'" ON(
                                                               "b", "2h0001 4{1:1 2{3:2}}")
                                                               ON("w", "2h0001 4{1:0 2{3:2}}") ON("y", "2h0001") "}}}";

static enum sp_status create(const struct sp_subject *subject, const char *format, int64_t device, uint32_t part,
                             struct sp_recipe **ret_recipe, struct sp_error *err)
{
    const struct sp_file_request request = {
        .subject = subject, .format = format, .device = device, .part = part, .external = SP_EXTERNAL_REFER};
    *ret_recipe = NULL;
    return sp_file_create(&request, ret_recipe, err);
}

static void refused(const struct sp_subject *subject, const char *format, int64_t device, uint32_t part,
                    const char *code)
{
    struct sp_recipe *recipe;
    struct sp_error err = {0};
    cr_expect_eq(create(subject, format, device, part, &recipe, &err), SP_ERR_REQUEST, "%s %ld %u", format,
                 (long)device, part);
    cr_expect_str_eq(err.code, code, "%s", err.message);
    cr_expect_null(recipe);
}

/* The bytes of a file that there is; the caller releases them. */
static struct sp_buf made(const struct sp_subject *subject, const struct sp_buf *model, const char *format,
                          int64_t device, uint32_t part)
{
    struct sp_recipe *recipe;
    struct sp_error err = {0};
    struct realize_world world = {.model = model->data, .model_size = model->size};
    cr_assert_eq(create(subject, format, device, part, &recipe, &err), SP_OK, "%s: %s", format, err.message);
    struct sp_buf bytes = realize_bytes(recipe, &world);
    sp_recipe_destroy(recipe);
    cr_assert_gt(bytes.size, 0, "%s", format);
    return bytes;
}

static bool is_of_devices(const char *format)
{
    enum sp_realize_target target;
    return sp_file_is_of_devices(format, &target);
}

/* Formats that not every plan has, and what they say of a perceptron of two stages. */
static const char *const refusals[][2] = {
    {"ort", "PART_OF_THE_DEVICES"},         {"genai", "NOT_A_DECODER"},        {"triton-tensorrt", "SEVERAL_WORLDS"},
    {"vllm-args", "LAYERS_UNKNOWN"},        {"sglang-args", "LAYERS_UNKNOWN"}, {"trtllm-args", "LAYERS_UNKNOWN"},
    {"llamacpp-args", "LAYERS_UNKNOWN"},    {"mlx", "LAYERS_UNKNOWN"},         {"exo", "LAYERS_UNKNOWN"},
    {"polygraphy-hints", "NOT_BY_SEQUENCE"}};

static const char *refusal_of(const char *format)
{
    for (uint32_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (strcmp(refusals[i][0], format) == 0)
            return refusals[i][1];
    return NULL;
}

static void expect_refusal(const struct sp_subject *subject, const char *format, const char *code)
{
    struct sp_recipe *recipe;
    struct sp_error err = {0};
    cr_expect_neq(create(subject, format, SP_FILE_NO_DEVICE, 0, &recipe, &err), SP_OK, "%s", format);
    cr_expect_str_eq(err.code, code, "%s: %s", format, err.message);
    cr_expect_null(recipe);
}

Test(export_files, every_format_of_a_plan)
{
    struct planned_model model;
    planned_mlp(&model, &(struct onnx_mlp){.layers = 4, .width = 512, .batch = "512"}, 2);
    for (uint32_t i = 0; i < sp_file_format_count(); i++) {
        const char *format = sp_file_format_name(i);
        cr_expect(sp_file_format_text(format) != NULL);
        cr_assert_not_null(sp_file_media_type(format, SP_FILE_NO_DEVICE));
        for (uint32_t k = 0; k < i; k++)
            cr_expect_str_neq(sp_file_format_name(k), format);
        const char *refusal = refusal_of(format);
        if (refusal != NULL) {
            expect_refusal(model.subject, format, refusal);
            continue;
        }
        struct sp_buf bytes = made(model.subject, &model.file, format, SP_FILE_NO_DEVICE, 0);
        const bool is_json = strcmp(sp_file_media_type(format, SP_FILE_NO_DEVICE), "application/json") == 0;
        json_t *json = is_json ? json_loadb(bytes.data, bytes.size, 0, NULL) : NULL;
        cr_expect_eq(json != NULL, is_json, "%s", format);
        cr_expect_eq(json_object_get(json, "order") != NULL, is_of_devices(format), "%s", format);
        json_decref(json);
        sp_buf_release(&bytes);
    }
    planned_release(&model);
}

Test(export_files, models_of_devices_are_models)
{
    struct planned_model planned;
    planned_mlp(&planned, &(struct onnx_mlp){.layers = 4, .width = 512, .batch = "512"}, 2);
    for (uint32_t i = 0; i < sp_file_format_count(); i++) {
        const char *format = sp_file_format_name(i);
        if (!is_of_devices(format) || refusal_of(format) != NULL)
            continue;
        cr_expect_str_eq(sp_file_media_type(format, 0), "application/octet-stream");
        uint32_t nodes = 0;
        for (int64_t device = 0; device < 2; device++) {
            struct onnx_model model;
            struct sp_buf bytes = made(planned.subject, &planned.file, format, device, 0);
            cr_assert_eq(onnx_read(&model, bytes.data, bytes.size), SP_OK, "%s", model.err.message);
            nodes += model.model->graph->node_count;
            onnx_release(&model);
            sp_buf_release(&bytes);
        }
        cr_expect_geq(nodes, planned.subject->model->graph->node_count);
        refused(planned.subject, format, 2, 0, "NO_SUCH_DEVICE");
        refused(planned.subject, format, -2, 0, "NO_SUCH_DEVICE");
        refused(planned.subject, format, INT64_MAX, 0, "NO_SUCH_DEVICE");
        refused(planned.subject, format, 0, 1, "NO_SUCH_PART");
        refused(planned.subject, format, 1, UINT32_MAX, "NO_SUCH_PART");
    }
    planned_release(&planned);
}

Test(export_files, a_part_that_nobody_needs_has_no_model)
{
    struct sp_buf file = onnx_encode(parts_notation);
    struct sp_subject *subject = subject_of(&file);
    refused(subject, "ort-collectives", 1, 0, "NO_SUCH_PART");
    for (int64_t device = 0; device < 2; device++) {
        struct sp_buf bytes = made(subject, &file, "ort-collectives", device, 1);
        struct onnx_model model;
        cr_assert_eq(onnx_read(&model, bytes.data, bytes.size), SP_OK, "%s", model.err.message);
        cr_expect_str_eq(model.model->graph->outputs[0]->name, "y");
        onnx_release(&model);
        sp_buf_release(&bytes);
    }
    struct sp_buf manifest = made(subject, &file, "ort-collectives", SP_FILE_NO_DEVICE, 0);
    json_t *json = json_loadb(manifest.data, manifest.size, 0, NULL);
    char *order = json_dumps(json_object_get(json, "order"), JSON_COMPACT);
    cr_expect_str_eq(order,
                     "[[\"device-0.onnx\"],[\"device-2.onnx\"],[\"device-0.part-1.onnx\",\"device-1.part-1.onnx\"]]");
    free(order);
    json_decref(json);
    sp_buf_release(&manifest);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}

Test(export_files, what_there_is_not)
{
    struct sp_buf file = onnx_encode(parts_notation);
    struct sp_subject *subject = subject_of(&file);
    static const char *const wrong[] = {"", "word", "SIMULATION", "ort-"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        refused(subject, wrong[i], SP_FILE_NO_DEVICE, 0, "UNKNOWN_FORMAT");
        cr_expect_null(sp_file_format_text(wrong[i]));
        cr_expect_null(sp_file_media_type(wrong[i], SP_FILE_NO_DEVICE));
        cr_expect_not(is_of_devices(wrong[i]));
    }
    refused(subject, "perfetto", SP_FILE_NO_DEVICE, 0, "NEEDS_PLAN");
    refused(subject, "ort-collectives", 3, 0, "NO_SUCH_DEVICE");
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}
