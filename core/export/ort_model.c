/*
 * A rank's model with ONNX Runtime's Distributed operators: the model's graph, with the rank's pieces of tensors.
 * Shapes of all tensors are stated, since the Distributed operators have no shape inference.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export/ort_model.h"
#include "onnx/writer.h"

#define DOMAIN            "com.microsoft"
#define MIN_IR_VERSION    4 /* weights need not be inputs */
#define MAX_MESSAGE_BYTES 2147483647
#define GRAPH_VALUE_INFO  13

/* A ValueInfoProto with the rank's extents. */
static enum sp_status put_info(struct sp_ort_model *all, uint32_t field, const struct sp_value *value,
                               const struct sp_sharding *sharding, struct sp_error *err)
{
    const struct sp_axis_ranges *axes;
    enum sp_status status = sp_ort_box(all, sharding, &value->type, &axes, err);
    if (status != SP_OK)
        return status;
    if (axes == NULL)
        return sp_put_value_info(all->interface, field, value->name, "", &value->type, err);
    int64_t *dims = sp_ort_shape(all->out->scratch, &value->type);
    if (dims == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < value->type.shape.rank; i++)
        dims[i] = dims[i] < 0 ? -1 : sp_ort_axis_extent(&axes[i]);
    return sp_put_tensor_info(all->interface, field, value->name, value->type.dtype, value->type.shape.rank, dims, err);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

static const char *ints_text(struct sp_arena *arena, int64_t count, const int64_t *items, struct sp_buf *buf)
{
    sp_buf_clear(buf);
    sp_buf_text(buf, "[");
    for (int64_t i = 0; i < count; i++)
        sp_buf_printf(buf, "%s%" PRId64, i > 0 ? "," : "", items[i]);
    sp_buf_text(buf, "]");
    return sp_buf_failed(buf) ? NULL : sp_arena_string(arena, buf->data, buf->size);
}

static const char *spec_text(struct sp_arena *arena, const struct sp_ort_spec *spec, struct sp_buf *buf)
{
    sp_buf_clear(buf);
    sp_buf_text(buf, "");
    for (uint32_t i = 0; i < spec->rank; i++) {
        if (spec->mesh_axes[i] < 0)
            sp_buf_text(buf, "R");
        else
            sp_buf_printf(buf, "S[%" PRId64 "]", spec->mesh_axes[i]);
    }
    return sp_buf_failed(buf) ? NULL : sp_arena_string(arena, buf->size > 0 ? buf->data : "", buf->size);
}

/* Three lists of texts, one for each tensor. */
struct lists {
    uint32_t count;
    const char **shapes, **elements, **specs;
};

static bool new_lists(struct sp_arena *arena, uint32_t count, struct lists *lists)
{
    *lists = (struct lists){0, SP_NEW_ARRAY(arena, count, const char *), SP_NEW_ARRAY(arena, count, const char *),
                            SP_NEW_ARRAY(arena, count, const char *)};
    return lists->shapes != NULL && lists->elements != NULL && lists->specs != NULL;
}

static enum sp_status add_tensor(struct sp_ort_model *all, const struct sp_sharding *sharding,
                                 const struct sp_value *value, struct lists *lists, struct sp_error *err)
{
    struct sp_arena *arena = all->out->scratch;
    struct sp_ort_spec spec;
    struct sp_buf buf;
    const uint32_t i = lists->count++;
    enum sp_status status =
        sp_ort_plan_spec(arena, sharding, &value->type, all->out->subject->device_count, &spec, err);
    if (status != SP_OK)
        return status;
    sp_buf_init(&buf, SP_MAX_ANSWER_BYTES);
    lists->shapes[i] = ints_text(arena, spec.mesh_rank, spec.mesh_shape, &buf);
    lists->elements[i] = ints_text(arena, spec.element_count, spec.mesh_elements, &buf);
    lists->specs[i] = spec_text(arena, &spec, &buf);
    sp_buf_release(&buf);
    return lists->shapes[i] != NULL && lists->elements[i] != NULL && lists->specs[i] != NULL ? SP_OK
                                                                                             : sp_fail_memory(err);
}

static struct sp_lower_attribute texts(const char *name, uint32_t count, const char *const *items)
{
    return (struct sp_lower_attribute){.name = name, .type = SP_ATTR_STRINGS, .count = count, .strings = items};
}

/* The six attributes, and one of reductions that their Distributed forms do not have. */
#define ATTRIBUTES 7
static enum sp_status write_attributes(struct sp_ort_model *all, const struct sp_node *node,
                                       struct sp_lower_attribute *attributes, struct sp_error *err)
{
    struct lists in, out;
    enum sp_status status = SP_OK;
    if (!new_lists(all->out->scratch, node->input_count, &in) ||
        !new_lists(all->out->scratch, node->output_count, &out))
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < node->input_count; i++) {
        if (node->inputs[i] != NULL)
            status = add_tensor(all, sp_ort_input(&all->plan, node, i), node->inputs[i], &in, err);
    }
    for (uint32_t i = 0; status == SP_OK && i < node->output_count; i++) {
        if (node->outputs[i] != NULL)
            status = add_tensor(all, sp_ort_output(&all->plan, node, i), node->outputs[i], &out, err);
    }
    attributes[0] = texts("input_device_mesh_shapes", in.count, in.shapes);
    attributes[1] = texts("input_device_mesh_elements", in.count, in.elements);
    attributes[2] = texts("input_shard_specs", in.count, in.specs);
    attributes[3] = texts("output_device_mesh_shapes", out.count, out.shapes);
    attributes[4] = texts("output_device_mesh_elements", out.count, out.elements);
    attributes[5] = texts("output_shard_specs", out.count, out.specs);
    attributes[6] = (struct sp_lower_attribute){.name = "noop_with_empty_axes", .type = SP_ATTR_UNDEFINED};
    return status;
}

static enum sp_status write_node(struct sp_ort_model *all, const struct sp_node *node, struct sp_error *err)
{
    struct sp_lower_attribute attributes[ATTRIBUTES] = {0};
    const char **inputs = SP_NEW_ARRAY(all->out->scratch, node->input_count, const char *);
    const char **outputs = SP_NEW_ARRAY(all->out->scratch, node->output_count, const char *);
    const char *type = node->op_type;
    const bool is_distributed = all->plan.forms[node->index] == SP_ORT_DISTRIBUTED;
    enum sp_status status = inputs != NULL && outputs != NULL ? SP_OK : sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < node->input_count; i++) {
        const struct sp_value *value = node->inputs[i];
        inputs[i] = value != NULL ? value->name : "";
        if (value != NULL && sp_ort_is_weight(value) && value->kind == SP_VALUE_INITIALIZER)
            status = sp_ort_weight(all, value, sp_ort_input(&all->plan, node, i), &inputs[i], err);
    }
    for (uint32_t i = 0; status == SP_OK && i < node->output_count; i++)
        outputs[i] = node->outputs[i] != NULL ? node->outputs[i]->name : "";
    if (status == SP_OK && is_distributed) {
        status = write_attributes(all, node, attributes, err);
        type = sp_arena_printf(all->out->scratch, "Distributed%s", node->op_type);
        if (type == NULL)
            status = sp_fail_memory(err);
    }
    if (status != SP_OK)
        return status;
    const struct sp_encode_operator op = {.domain = is_distributed ? DOMAIN : node->domain,
                                          .op_type = type,
                                          .overload = node->overload,
                                          .name = node->name,
                                          .input_count = node->input_count,
                                          .output_count = node->output_count,
                                          .inputs = inputs,
                                          .outputs = outputs,
                                          .node = node,
                                          .attribute_count = is_distributed ? ATTRIBUTES : 0,
                                          .attributes = attributes};
    return sp_encode_operator(&all->encoder, all->nodes, &op, err);
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static const struct sp_sharding *held(const struct sp_ort_model *all, const struct sp_value *value)
{
    return value->graph == all->out->subject->model->graph ? all->plan.held[value->id] : NULL;
}

/* Weights that subgraphs use by name, or that are results, are there under their own names. */
static enum sp_status put_named_weights(struct sp_ort_model *all, struct sp_error *err)
{
    const struct sp_graph *graph = all->out->subject->model->graph;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < graph->value_count; i++) {
        const struct sp_value *value = graph->values[i];
        bool is_named = value->is_graph_output;
        const char *name;
        for (uint32_t u = 0; u < value->use_count; u++)
            is_named = is_named || value->uses[u].input == UINT32_MAX;
        if (sp_ort_is_weight(value) && is_named)
            status = sp_ort_whole_weight(all, value, &name, err);
    }
    return status;
}

static enum sp_status put_interface(struct sp_ort_model *all, struct sp_error *err)
{
    const struct sp_graph *graph = all->out->subject->model->graph;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < graph->input_count; i++) {
        if (!sp_ort_is_weight(graph->inputs[i]))
            status = put_info(all, SP_PUT_GRAPH_INPUT, graph->inputs[i], held(all, graph->inputs[i]), err);
    }
    for (uint32_t i = 0; status == SP_OK && i < graph->output_count; i++)
        status = put_info(all, SP_PUT_GRAPH_OUTPUT, graph->outputs[i], held(all, graph->outputs[i]), err);
    for (uint32_t i = 0; status == SP_OK && i < graph->value_count; i++) {
        const struct sp_value *value = graph->values[i];
        struct sp_arena_mark mark = sp_arena_mark(all->out->scratch);
        if (value->producer != NULL && !value->is_graph_output && value->type.kind == SP_TYPE_TENSOR)
            status = put_info(all, GRAPH_VALUE_INFO, value, held(all, value), err);
        sp_arena_rewind(all->out->scratch, mark);
    }
    return status;
}

static void put_opset(struct sp_ort_model *all, struct sp_recipe *out, const char *domain, int64_t version)
{
    sp_recipe_clear(all->message);
    if (domain[0] != '\0')
        sp_put_text(all->message, 1, domain);
    sp_put_int(all->message, 2, version);
    sp_put_message(out, SP_MODEL_OPSET_IMPORT, all->message);
}

static void put_imports(struct sp_ort_model *all, struct sp_recipe *out)
{
    const struct sp_model *model = all->out->subject->model;
    bool has_domain = false;
    for (uint32_t i = 0; i < model->opset_count; i++) {
        has_domain = has_domain || strcmp(model->opsets[i].domain, DOMAIN) == 0;
        put_opset(all, out, model->opsets[i].domain, model->opsets[i].version);
    }
    if (!has_domain)
        put_opset(all, out, DOMAIN, 1);
    for (uint32_t i = 0; i < model->metadata_count; i++) {
        if (strcmp(model->metadata[i].key, SP_WRITER_METADATA_KEY) != 0)
            sp_put_entry(out, SP_MODEL_METADATA_PROPS, model->metadata[i].key, model->metadata[i].value);
    }
}

static enum sp_status put_model(struct sp_ort_model *all, struct sp_recipe *out, struct sp_error *err)
{
    const struct sp_model *model = all->out->subject->model;
    const char *name = model->graph->name != NULL && model->graph->name[0] != '\0' ? model->graph->name : "graph";
    const struct sp_recipe *const parts[] = {all->nodes, all->message, all->initializers, all->interface};
    uint64_t size = 0;
    enum sp_status status = SP_OK;
    const int64_t ir_version = sp_onnx_original_ir_version(model);
    sp_put_int(out, SP_MODEL_IR_VERSION, ir_version > MIN_IR_VERSION ? ir_version : MIN_IR_VERSION);
    sp_put_text(out, SP_MODEL_PRODUCER_NAME, "shardplan");
    sp_recipe_clear(all->message);
    sp_put_text(all->message, SP_PUT_GRAPH_NAME, name);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        size += sp_recipe_size(parts[i]);
    sp_put_head(out, SP_MODEL_GRAPH, size);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        (void)sp_recipe_append(out, parts[i]);
    put_imports(all, out);
    for (uint32_t i = 0; status == SP_OK && all->encoder.has_calls && i < model->function_count; i++)
        status = sp_encode_function(model, out, &model->functions[i], err);
    if (status == SP_OK)
        status = sp_recipe_status(out, err);
    if (status == SP_OK && sp_recipe_size(out) > MAX_MESSAGE_BYTES)
        status =
            sp_fail(err, SP_ERR_UNSUPPORTED, "MODEL_TOO_LARGE",
                    "The device's model would be larger than 2 GiB, which an ONNX file cannot be; move the weights "
                    "to external data.");
    return status;
}

/* ---- all -----------------------------------------------------------------------------------------------------------
 */

static const char *outer_name(void *context, const struct sp_value *value)
{
    (void)context;
    return value->name;
}

static bool read_model(void *context, uint32_t source, uint64_t offset, void *bytes, size_t size)
{
    const struct sp_model *model = context;
    if (source != 0 || offset > model->size || size > model->size - offset)
        return false;
    memcpy(bytes, model->bytes + offset, size);
    return true;
}

static enum sp_status begin(struct sp_ort_model *all, struct sp_error *err)
{
    struct sp_model *model = all->out->subject->model;
    const struct sp_realize_request request = {.partition = {.model = model}, .external = SP_EXTERNAL_REFER};
    all->nodes = sp_recipe_create();
    all->initializers = sp_recipe_create();
    all->interface = sp_recipe_create();
    all->message = sp_recipe_create();
    all->pieces = SP_NEW_ARRAY(all->arena, model->graph->value_count, struct sp_ort_piece *);
    if (all->nodes == NULL || all->initializers == NULL || all->interface == NULL || all->message == NULL ||
        all->pieces == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_weights_init(&all->weights, &request, err);
    if (status == SP_OK)
        status = sp_encoder_init(&all->encoder, model, &all->weights, err);
    all->encoder.outer_name = outer_name;
    return status;
}

static enum sp_status write_model(struct sp_ort_model *all, struct sp_error *err)
{
    const struct sp_model *model = all->out->subject->model;
    const struct sp_recipe_reader reader = {read_model, (void *)(uintptr_t)model};
    /* A converted file is not the file that the caller has. */
    const bool has_recipe = all->out->request->recipe != NULL && !all->out->subject->file->is_converted;
    struct sp_recipe *out = sp_recipe_create();
    enum sp_status status = out != NULL ? begin(all, err) : sp_fail_memory(err);
    if (status == SP_OK)
        status = put_named_weights(all, err);
    for (uint32_t i = 0; status == SP_OK && i < model->graph->node_count; i++) {
        struct sp_arena_mark mark = sp_arena_mark(all->out->scratch);
        status = write_node(all, &model->graph->nodes[i], err);
        sp_arena_rewind(all->out->scratch, mark);
    }
    if (status == SP_OK)
        status = put_interface(all, err);
    if (status == SP_OK)
        status = put_model(all, out, err);
    if (status == SP_OK && has_recipe) {
        (void)sp_recipe_append(all->out->request->recipe, out);
        status = sp_recipe_status(all->out->request->recipe, err);
    } else if (status == SP_OK) {
        status = sp_recipe_stream(out, &reader, &all->out->request->sink, err);
    }
    sp_recipe_destroy(out);
    return status;
}

static enum sp_status check_problems(const struct sp_ort_plan *plan, struct sp_error *err)
{
    if (plan->problem_count == 0)
        return SP_OK;
    return sp_fail(err, SP_ERR_UNSUPPORTED, plan->first.code,
                   "%" PRIu32
                   " nodes cannot run as this plan has them with ONNX Runtime's Distributed operators. %.700s",
                   plan->problem_count, plan->first.message);
}

enum sp_status sp_export_ort(struct sp_export *out, struct sp_error *err)
{
    struct sp_ort_model all = {.out = out, .arena = sp_arena_create(sp_arena_budget(out->scratch))};
    const int64_t count = out->subject->device_count;
    enum sp_status status = all.arena != NULL ? SP_OK : sp_fail_memory(err);
    if (status == SP_OK && (out->request->device < 0 || out->request->device >= count))
        status = sp_fail(err, SP_ERR_REQUEST, "NO_DEVICE", "There is no device %" PRId64 "; they are 0 to %" PRId64 ".",
                         out->request->device, count - 1);
    if (status == SP_OK && count > SP_MAX_ORT_RANKS)
        status = sp_fail_limit(err, "TOO_MANY_RANKS", "SP_MAX_ORT_RANKS", SP_MAX_ORT_RANKS, count,
                               "A model of Distributed operators is for at most %d devices.", SP_MAX_ORT_RANKS);
    if (status == SP_OK)
        status = sp_ort_plan_make(out, all.arena, &all.plan, err);
    if (status == SP_OK)
        status = check_problems(&all.plan, err);
    if (status == SP_OK)
        status =
            sp_export_note(out, "ORT_BUILD", NULL, err,
                           "Distributed operators are in builds of ONNX Runtime with --enable_nccl only; each rank "
                           "loads a model of its own, and this one is of rank %" PRId64 " of %" PRId64 ".",
                           out->request->device, count);
    if (status == SP_OK)
        status = write_model(&all, err);
    if (all.encoder.frames != NULL)
        sp_encoder_release(&all.encoder);
    sp_weights_release(&all.weights);
    sp_recipe_destroy(all.nodes);
    sp_recipe_destroy(all.initializers);
    sp_recipe_destroy(all.interface);
    sp_recipe_destroy(all.message);
    sp_arena_destroy(all.arena);
    return status;
}
