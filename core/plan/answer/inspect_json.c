#include <string.h>

#include "plan/answer/readable_text.h"
#include "plan/cost_graph.h"

static const char *type_kind(enum sp_type_kind kind)
{
    switch (kind) {
    case SP_TYPE_NONE:
        return "unknown";
    case SP_TYPE_TENSOR:
        return "tensor";
    case SP_TYPE_SPARSE_TENSOR:
        return "sparse_tensor";
    case SP_TYPE_SEQUENCE:
        return "sequence";
    case SP_TYPE_OPTIONAL:
        return "optional";
    case SP_TYPE_MAP:
        return "map";
    case SP_TYPE_OPAQUE:
        return "opaque";
    }
    return "unknown";
}

/* "dtype" and "shape"; "type" only where it is no tensor. */
static void write_type(const struct sp_value *value, struct sp_json *json, struct sp_buf *scratch)
{
    const struct sp_type *type = &value->type;
    bool has_shape = type->kind == SP_TYPE_TENSOR || type->kind == SP_TYPE_SPARSE_TENSOR;
    if (type->kind != SP_TYPE_TENSOR && type->kind != SP_TYPE_NONE)
        sp_json_member_string(json, "type", type_kind(type->kind));
    sp_json_member_string(json, "dtype",
                          has_shape && type->dtype != SP_DTYPE_UNDEFINED ? sp_dtype_name(type->dtype) : NULL);
    sp_json_key(json, "shape");
    if (!has_shape || !type->shape.has_rank) {
        sp_json_null(json);
        return;
    }
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < type->shape.rank; i++)
        sp_json_dim(json, type->shape.dims[i], scratch);
    sp_json_end_array(json);
}

static void write_value_list(const char *key, struct sp_value *const *values, uint32_t count, bool only_requests,
                             struct sp_json *json, struct sp_buf *scratch)
{
    sp_json_key(json, key);
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++) {
        if (only_requests && !sp_is_request_input(values[i]))
            continue;
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", values[i]->name);
        write_type(values[i], json, scratch);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_head(const struct sp_job *job, struct sp_json *json)
{
    const struct sp_model *model = job->model;
    sp_json_member_string(json, "name", job->name[0] != '\0' ? job->name : model->graph->name);
    if (job->sha256[0] != '\0')
        sp_json_member_string(json, "sha256", job->sha256);
    sp_json_member_int(json, "size_bytes", (int64_t)job->file.given_size);
    sp_json_member_string(json, "graph", model->graph->name);
    if (model->has_ir_version)
        sp_json_member_int(json, "ir_version", model->ir_version);
    else
        sp_json_member_string(json, "ir_version", NULL);
    sp_json_member_string(json, "producer", model->producer_name);
    sp_json_member_string(json, "producer_version", model->producer_version);
    sp_json_key(json, "opsets");
    sp_json_begin_object(json);
    for (uint32_t i = 0; i < model->opset_count; i++)
        sp_json_member_int(json, model->opsets[i].domain[0] == '\0' ? "ai.onnx" : model->opsets[i].domain,
                           model->opsets[i].version);
    sp_json_end_object(json);
}

static void write_operators(const struct sp_job *job, const struct sp_inspection *inspection, struct sp_json *json)
{
    sp_json_member_int(json, "node_count", job->model->graph->node_count);
    sp_json_member_int(json, "nodes_in_all_graphs", (int64_t)job->model->counts.nodes);
    sp_json_member_int(json, "functions", job->model->function_count);
    sp_json_key(json, "operators");
    sp_json_begin_object(json);
    for (uint32_t i = 0; i < inspection->operator_count; i++)
        sp_json_member_int(json, inspection->operators[i].name, (int64_t)inspection->operators[i].count);
    sp_json_end_object(json);
    sp_json_key(json, "unknown_operators");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < inspection->operator_count; i++) {
        if (!inspection->operators[i].is_known)
            sp_json_string(json, inspection->operators[i].name);
    }
    sp_json_end_array(json);
}

static void write_work(const struct sp_inspection *inspection, struct sp_json *json)
{
    sp_json_member_int(json, "parameters", (int64_t)inspection->parameters);
    sp_json_member_double(json, "parameter_bytes", inspection->parameter_bytes);
    sp_json_key(json, "flops");
    if (inspection->has_flops)
        sp_json_double(json, inspection->flops);
    else
        sp_json_null(json);
    sp_json_key(json, "symbols");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < inspection->symbol_count; i++)
        sp_json_string(json, inspection->symbols[i]);
    sp_json_end_array(json);
}

static void write_configurations(const struct sp_model *model, struct sp_json *json)
{
    sp_json_key(json, "configurations");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < model->configuration_count; i++) {
        const struct sp_device_configuration *configuration = &model->configurations[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", configuration->name);
        sp_json_key(json, "num_devices");
        if (configuration->has_num_devices)
            sp_json_int(json, configuration->num_devices);
        else
            sp_json_null(json);
        sp_json_key(json, "devices");
        sp_json_begin_array(json);
        for (uint32_t d = 0; d < configuration->device_count; d++)
            sp_json_string(json, configuration->devices[d]);
        sp_json_end_array(json);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_values(const struct sp_graph *graph, struct sp_json *json, struct sp_buf *scratch)
{
    sp_json_key(json, "values");
    sp_json_begin_object(json);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        sp_json_key(json, graph->values[v]->name);
        sp_json_begin_object(json);
        write_type(graph->values[v], json, scratch);
        sp_json_end_object(json);
    }
    sp_json_end_object(json);
}

/* Of the files in which weights lie, each once, in the order of the initializers. */
static enum sp_status write_locations(struct sp_job *job, struct sp_json *json, struct sp_error *err)
{
    const struct sp_graph *graph = job->model->graph;
    struct sp_intern *files = sp_intern_create(job->arena, job->hash_seed);
    if (files == NULL)
        return sp_fail_memory(err);
    sp_json_key(json, "locations");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < graph->initializer_count; i++) {
        const struct sp_tensor *tensor = graph->initializers[i]->tensor;
        const bool lies_there = tensor != NULL && tensor->storage == SP_STORAGE_EXTERNAL;
        const char *location = lies_there ? tensor->external.location : NULL;
        const uint32_t before = sp_intern_count(files);
        if (location != NULL && sp_intern_add(files, location, strlen(location)) == SP_NO_NAME)
            return sp_fail_memory(err);
        if (sp_intern_count(files) > before)
            sp_json_string(json, location);
    }
    sp_json_end_array(json);
    return SP_OK;
}

static void write_states(const struct sp_states *states, struct sp_json *json)
{
    sp_json_key(json, "states");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < states->count; i++) {
        sp_json_begin_object(json);
        sp_json_member_string(json, "past", states->items[i].past->name);
        sp_json_member_string(json, "present", states->items[i].present->name);
        if (states->items[i].axis != SP_STATE_FIXED)
            sp_json_member_int(json, "grows", states->items[i].axis);
        sp_json_member_string(json, "from", states->items[i].origin == SP_STATE_GIVEN ? "given" : "names");
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

enum sp_status sp_job_inspect_json(struct sp_job *job, bool values, struct sp_json *json, struct sp_error *err)
{
    if (job->model == NULL)
        return sp_costs_inspect_json(job, values, json, err);
    const struct sp_graph *graph = job->model->graph;
    struct sp_arena_mark mark = sp_arena_mark(job->arena);
    struct sp_inspection inspection;
    struct sp_buf scratch;
    enum sp_status status = sp_inspect(job, &inspection, err);
    if (status != SP_OK)
        return status;
    sp_buf_init(&scratch, SP_DIM_TEXT_BYTES);
    sp_json_begin_object(json);
    write_head(job, json);
    write_operators(job, &inspection, json);
    write_work(&inspection, json);
    write_value_list("inputs", graph->inputs, graph->input_count, true, json, &scratch);
    write_value_list("outputs", graph->outputs, graph->output_count, false, json, &scratch);
    write_states(&inspection.states, json);
    write_configurations(job->model, json);
    if (inspection.external_files > 0) {
        sp_json_key(json, "external_data");
        sp_json_begin_object(json);
        sp_json_member_int(json, "files", (int64_t)inspection.external_files);
        sp_json_member_double(json, "bytes", inspection.external_bytes);
        status = write_locations(job, json, err);
        sp_json_end_object(json);
    }
    if (values)
        write_values(graph, json, &scratch);
    sp_json_end_object(json);
    sp_buf_release(&scratch);
    sp_arena_rewind(job->arena, mark);
    return status;
}
