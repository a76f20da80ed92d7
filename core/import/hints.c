/*
 * Polygraphy's hints. All devices run all nodes: of inputs and outputs that are listed each has its part along one axis,
 * and what attention (MatMul, Softmax, MatMul) takes is gathered as its layer says.
 */
#include <string.h>

#include "base/limits.h"
#include "import/internal.h"

#define MOST_BETWEEN 8 /* nodes between a product and its softmax: a scale, a mask, a change of type */

static enum sp_status add_split(struct sp_import_reader *reader, struct sp_import_split split)
{
    if (SP_PUSH(reader->arena, &reader->splits, split))
        return SP_OK;
    (void)sp_fail_memory(reader->err);
    return SP_ERR_MEMORY;
}

static enum sp_status unknown(struct sp_import_reader *reader, const char *name, const char *pointer)
{
    return sp_import_find(reader, "PLACED_NAME_UNKNOWN", NULL, "The model has no tensor '%.200s' (at %.40s).", name,
                          pointer);
}

/* {"name", "seq_len_idx", "rank"} */
static enum sp_status read_tensor(struct sp_import_reader *reader, const json_t *json, const char *pointer)
{
    const char *name = NULL;
    int64_t axis = 0, rank = 0;
    enum sp_status status = sp_import_text(reader, json, pointer, "name", &name);
    if (status == SP_OK)
        status = sp_import_integer(reader, json, pointer, "seq_len_idx", SP_MAX_RANK - 1, -1, &axis);
    if (status == SP_OK)
        status = sp_import_integer(reader, json, pointer, "rank", SP_MAX_RANK, SP_MAX_RANK, &rank);
    if (status != SP_OK)
        return status;
    const struct sp_value *value = sp_graph_value(reader->model->graph, name);
    if (value == NULL)
        return unknown(reader, name, pointer);
    const struct sp_shape *shape = &value->type.shape;
    if (shape->has_rank && (axis >= shape->rank || (rank != SP_MAX_RANK && rank != shape->rank)))
        return sp_import_find(reader, "PLACED_AXIS_UNKNOWN", value->producer,
                              "'%.200s' has %u axes, and the hints split axis %d of %d.", name, shape->rank, (int)axis,
                              (int)rank);
    return add_split(reader, (struct sp_import_split){.value = value, .axis = (int32_t)axis});
}

static enum sp_status read_tensors(struct sp_import_reader *reader, const json_t *json, const char *member,
                                   const char *pointer)
{
    const json_t *list = json_object_get(json, member);
    enum sp_status status = SP_OK;
    if (list != NULL && (!json_is_array(list) || json_array_size(list) > SP_MAX_IMPORT_NAMES))
        return sp_import_refuse(reader, pointer, "\"%s\" must be a list of at most %d tensors.", member,
                                SP_MAX_IMPORT_NAMES);
    for (size_t i = 0; status == SP_OK && i < json_array_size(list); i++)
        status = read_tensor(reader, json_array_get(list, i), sp_members_item(&reader->json, pointer, i));
    return status;
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

static const struct sp_node *used_by(const struct sp_value *value, const char *op_type, uint32_t input)
{
    for (uint32_t i = 0; value != NULL && i < value->use_count; i++) {
        const struct sp_use *use = &value->uses[i];
        if (use->input == input && strcmp(use->node->op_type, op_type) == 0)
            return use->node;
    }
    return NULL;
}

/* The softmax of a product, behind what changes single elements. */
static const struct sp_node *softmax_of(const struct sp_node *product)
{
    const struct sp_value *value = product->output_count > 0 ? product->outputs[0] : NULL;
    for (int i = 0; value != NULL && i <= MOST_BETWEEN; i++) {
        const struct sp_node *softmax = used_by(value, "Softmax", 0);
        if (softmax != NULL)
            return softmax;
        const struct sp_node *next = value->use_count == 1 ? value->uses[0].node : NULL;
        value = next != NULL && next->output_count == 1 ? next->outputs[0] : NULL;
    }
    return NULL;
}

static enum sp_status read_layer(struct sp_import_reader *reader, const json_t *json, const char *pointer)
{
    const char *name = NULL;
    enum sp_status status = sp_import_text(reader, json, pointer, "q", &name);
    if (status != SP_OK)
        return status;
    const struct sp_value *q = sp_graph_value(reader->model->graph, name);
    if (q == NULL)
        return unknown(reader, name, pointer);
    const struct sp_node *first = used_by(q, "MatMul", 0);
    const struct sp_node *softmax = first != NULL ? softmax_of(first) : NULL;
    const struct sp_node *second =
        softmax != NULL && softmax->output_count > 0 ? used_by(softmax->outputs[0], "MatMul", 0) : NULL;
    if (second == NULL)
        return sp_import_find(reader, "PLACED_NO_ATTENTION", q->producer,
                              "'%.200s' is not what an attention of MatMul, Softmax and MatMul takes first.", name);
    if (json_is_true(json_object_get(json, "gather_q")))
        status = add_split(reader, (struct sp_import_split){.value = q, .axis = -1, .at = first});
    if (status != SP_OK || !json_is_true(json_object_get(json, "gather_kv")))
        return status;
    if (first->inputs[1] != NULL)
        status = add_split(reader, (struct sp_import_split){.value = first->inputs[1], .axis = -1, .at = first});
    if (status == SP_OK && second->inputs[1] != NULL)
        status = add_split(reader, (struct sp_import_split){.value = second->inputs[1], .axis = -1, .at = second});
    return status;
}

enum sp_status sp_import_hints(struct sp_import_reader *reader, const json_t *json)
{
    const json_t *layers = json_object_get(json, "attention_layers");
    const char *kind = NULL;
    reader->tool = "Polygraphy's hints";
    reader->place_of = NULL; /* all nodes on all devices */
    enum sp_status status = sp_import_text(reader, json, "", "parallelism", &kind);
    if (status == SP_OK && strcmp(kind, "CP") != 0)
        status =
            sp_import_refuse(reader, "/parallelism", "The only parallelism of the hints is \"CP\", not '%.40s'.", kind);
    if (status == SP_OK)
        status = sp_import_integer(reader, json, "", "group_size", SP_MAX_DEVICES, 0, &reader->device_count);
    if (status == SP_OK && json_array_size(json_object_get(json, "groups")) > 0)
        reader->device_count = (int64_t)json_array_size(json_object_get(json, "groups"));
    if (status == SP_OK && reader->device_count > SP_MAX_DEVICES)
        status = sp_import_refuse(reader, "/groups", "\"groups\" lists more than %d devices.", SP_MAX_DEVICES);
    if (status == SP_OK)
        status = read_tensors(reader, json, "inputs", "/inputs");
    if (status == SP_OK)
        status = read_tensors(reader, json, "outputs", "/outputs");
    if (status == SP_OK && json_array_size(layers) > SP_MAX_IMPORT_NAMES)
        status = sp_import_refuse(reader, "/attention_layers", "There are more than %d layers.", SP_MAX_IMPORT_NAMES);
    for (size_t i = 0; status == SP_OK && i < json_array_size(layers); i++)
        status = read_layer(reader, json_array_get(layers, i), sp_members_item(&reader->json, "/attention_layers", i));
    return status;
}
