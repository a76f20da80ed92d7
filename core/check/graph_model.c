/* The model's own fields, and the types of the main graph's inputs and outputs. */
#include <stdlib.h>
#include <string.h>

#include "check/graph_internal.h"
#include "onnx/wire.h"

#define NEWEST_IR_VERSION 14
#define NEWEST_OPSET      28 /* of ai.onnx, in ops/signatures */

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

const char *sp_first_duplicate(const char **texts, uint32_t count)
{
    if (count > 1)
        qsort(texts, count, sizeof *texts, by_text);
    for (uint32_t i = 1; i < count; i++) {
        if (strcmp(texts[i - 1], texts[i]) == 0)
            return texts[i];
    }
    return NULL;
}

static enum sp_status check_ir_version(struct sp_graph_check *check)
{
    const struct sp_model *model = check->model;
    if (!model->has_ir_version || model->ir_version == 0) {
        struct sp_finding finding = {.code = "NO_IR_VERSION"};
        return sp_diagnose(check->list, &finding, check->err, "The model has no ir_version.");
    }
    if (model->ir_version > NEWEST_IR_VERSION) {
        struct sp_finding finding = {.code = "IR_VERSION_TOO_NEW"};
        return sp_diagnose(check->list, &finding, check->err,
                           "The model has ir_version %lld; the newest that ONNX defines is %d.",
                           (long long)model->ir_version, NEWEST_IR_VERSION);
    }
    return SP_OK;
}

static enum sp_status check_metadata(struct sp_graph_check *check)
{
    const struct sp_model *model = check->model;
    struct sp_arena_mark mark = sp_arena_mark(check->scratch);
    const char **keys = SP_NEW_ARRAY(check->scratch, model->metadata_count, const char *);
    enum sp_status status = keys == NULL ? sp_fail_memory(check->err) : SP_OK;
    for (uint32_t i = 0; keys != NULL && i < model->metadata_count; i++)
        keys[i] = model->metadata[i].key;
    const char *twice = keys == NULL ? NULL : sp_first_duplicate(keys, model->metadata_count);
    if (twice != NULL) {
        struct sp_finding finding = {.code = "DUPLICATE_METADATA"};
        status =
            sp_diagnose(check->list, &finding, check->err, "The model has several metadata entries '%.200s'.", twice);
    }
    sp_arena_rewind(check->scratch, mark);
    return status;
}

static enum sp_status check_opsets(struct sp_graph_check *check)
{
    const struct sp_model *model = check->model;
    const bool has_opsets = model->ir_version >= 3;
    enum sp_status status = SP_OK;
    if (has_opsets && model->opset_count == 0) {
        struct sp_finding finding = {.code = "NO_OPSET"};
        return sp_diagnose(check->list, &finding, check->err, "The model imports no operator set.");
    }
    if (model->has_ir_version && !has_opsets && model->opset_count > 0) {
        struct sp_finding finding = {.code = "OPSET_BEFORE_IR_3"};
        status =
            sp_diagnose(check->list, &finding, check->err,
                        "The model imports operator sets, but its ir_version is %lld.", (long long)model->ir_version);
    }
    for (uint32_t i = 0; status == SP_OK && i < model->opset_count; i++) {
        const struct sp_opset *opset = &model->opsets[i];
        if (opset->domain[0] != '\0' || opset->version <= NEWEST_OPSET)
            continue;
        struct sp_finding finding = {.code = "OPSET_TOO_NEW"};
        status = sp_diagnose(check->list, &finding, check->err,
                             "The model imports ai.onnx %lld; its operators are checked as of version %d.",
                             (long long)opset->version, NEWEST_OPSET);
    }
    return status;
}

enum sp_status sp_check_model_fields(struct sp_graph_check *check)
{
    enum sp_status status = check_ir_version(check);
    if (status == SP_OK)
        status = check_metadata(check);
    return status == SP_OK ? check_opsets(check) : status;
}

/* ---- the interface -------------------------------------------------------------------------------------------- */

/* The innermost type must be of something; a tensor on the outside also has a shape. */
static enum sp_status check_type(struct sp_graph_check *check, const char *side, const char *name,
                                 const struct sp_type *type)
{
    struct sp_finding finding = {.code = NULL, .graph = check->model->graph, .tensor = name};
    const struct sp_type *inner = type;
    while (inner->elem != NULL)
        inner = inner->elem;
    const bool has_elements = inner->kind == SP_TYPE_TENSOR || inner->kind == SP_TYPE_SPARSE_TENSOR;
    if (type->kind == SP_TYPE_NONE) {
        finding.code = "NO_VALUE_TYPE";
        return sp_diagnose(check->list, &finding, check->err, "%s '%.120s' of the main graph has no type.", side, name);
    }
    if (inner->kind == SP_TYPE_NONE || (has_elements && inner->dtype == SP_DTYPE_UNDEFINED)) {
        finding.code = "NO_ELEMENT_TYPE";
        return sp_diagnose(check->list, &finding, check->err, "%s '%.120s' of the main graph has no element type.",
                           side, name);
    }
    if ((type->kind == SP_TYPE_TENSOR || type->kind == SP_TYPE_SPARSE_TENSOR) && !type->shape.has_rank) {
        finding.code = "NO_VALUE_SHAPE";
        return sp_diagnose(check->list, &finding, check->err, "%s '%.120s' of the main graph has no shape.", side,
                           name);
    }
    return SP_OK;
}

/* Whether the ValueInfoProto of an output has a type of its own. The model keeps one declaration of a value, which may
   come from value_info, so this is looked up in the file. */
static bool states_type(const struct sp_model *model, struct sp_span span)
{
    struct sp_wire wire = sp_wire_of(model->bytes, span);
    struct sp_wire_field field;
    while (sp_wire_next(&wire, &field, NULL) == SP_OK && field.number != 0) {
        if (field.number == 2)
            return true;
    }
    return false;
}

static enum sp_status check_outputs(struct sp_graph_check *check)
{
    const struct sp_model *model = check->model;
    const struct sp_graph *graph = model->graph;
    struct sp_wire wire = sp_wire_of(model->bytes, graph->span);
    struct sp_wire_field field;
    const struct sp_type none = {.kind = SP_TYPE_NONE};
    enum sp_status status = SP_OK;
    uint32_t i = 0;
    while (status == SP_OK && i < graph->output_count && sp_wire_next(&wire, &field, NULL) == SP_OK &&
           field.number != 0) {
        if (field.number != 12)
            continue;
        const struct sp_value *value = graph->outputs[i++];
        const bool is_typed = states_type(model, field.payload);
        status = check_type(check, "Output", value->name, is_typed ? &value->declared : &none);
    }
    return status;
}

enum sp_status sp_check_interface(struct sp_graph_check *check)
{
    const struct sp_graph *graph = check->model->graph;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < graph->input_count; i++)
        status = check_type(check, "Input", graph->inputs[i]->name, &graph->inputs[i]->declared);
    /* A model that was put together in memory has no file to look into, and declares nothing. */
    return status == SP_OK && graph->span.size > 0 ? check_outputs(check) : status;
}
