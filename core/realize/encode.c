#include "realize/encode.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "onnx/reader.h"
#include "onnx/wire.h"
#include "realize/protobuf_fields.h"

/* Field numbers of AttributeProto. */
enum {
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_S = 4,
    ATTRIBUTE_T = 5,
    ATTRIBUTE_G = 6,
    ATTRIBUTE_FLOATS = 7,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_STRINGS = 9,
    ATTRIBUTE_TENSORS = 10,
    ATTRIBUTE_GRAPHS = 11,
    ATTRIBUTE_TP = 14,
    ATTRIBUTE_TYPE_PROTOS = 15,
    ATTRIBUTE_TYPE = 20,
    ATTRIBUTE_SPARSE_TENSOR = 22,
    ATTRIBUTE_SPARSE_TENSORS = 23
};

/*
 * An open graph, its open node, and that node's open attribute. Frame 0 has no graph, only the operator that is being
 * written.
 */
struct sp_encode_frame {
    const struct sp_graph *graph;
    const struct sp_node *node;
    uint32_t next_node, attribute, item;
    struct sp_recipe *graph_message, *node_message, *attribute_message; /* made when first needed, then kept */
};

enum sp_status sp_encoder_init(struct sp_encoder *encoder, const struct sp_model *model, struct sp_weights *weights,
                               struct sp_error *err)
{
    memset(encoder, 0, sizeof *encoder);
    encoder->model = model;
    encoder->weights = weights;
    encoder->inner_suffix = "";
    encoder->node_field = SP_PUT_GRAPH_NODE;
    encoder->frames = calloc(SP_MAX_NESTING + 2, sizeof *encoder->frames);
    encoder->tensor = sp_recipe_create();
    return encoder->frames == NULL || encoder->tensor == NULL ? sp_fail_memory(err) : SP_OK;
}

void sp_encoder_release(struct sp_encoder *encoder)
{
    for (uint32_t i = 0; encoder->frames != NULL && i < SP_MAX_NESTING + 2; i++) {
        sp_recipe_destroy(encoder->frames[i].graph_message);
        sp_recipe_destroy(encoder->frames[i].node_message);
        sp_recipe_destroy(encoder->frames[i].attribute_message);
    }
    free(encoder->frames);
    sp_recipe_destroy(encoder->tensor);
    memset(encoder, 0, sizeof *encoder);
}

/* An empty message in its place. */
static bool open_message(struct sp_recipe **message)
{
    if (*message == NULL)
        *message = sp_recipe_create();
    else
        sp_recipe_clear(*message);
    return *message != NULL;
}

/* ---- attributes ------------------------------------------------------------------------------------------------- */

static enum sp_status put_tensors(struct sp_encoder *encoder, struct sp_recipe *out, uint32_t field,
                                  const struct sp_attribute *attribute, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    bool done;
    for (uint32_t i = 0; status == SP_OK && i < attribute->count; i++) {
        const struct sp_tensor *tensor = attribute->tensors[i];
        sp_recipe_clear(encoder->tensor);
        status = sp_weight_put(encoder->weights, encoder->tensor, tensor->name, tensor, NULL, &done, err);
        if (status == SP_OK)
            sp_put_message(out, field, encoder->tensor);
    }
    return status;
}

static enum sp_status put_sparse_tensors(struct sp_encoder *encoder, struct sp_recipe *out, uint32_t field,
                                         const struct sp_attribute *attribute, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && attribute->sparse_tensors != NULL && i < attribute->count; i++) {
        const struct sp_sparse_tensor *sparse = attribute->sparse_tensors[i];
        sp_recipe_clear(encoder->tensor);
        status = sp_weight_put_sparse(encoder->weights, encoder->tensor,
                                      sparse->values == NULL ? "" : sparse->values->name, sparse, err);
        if (status == SP_OK)
            sp_put_message(out, field, encoder->tensor);
    }
    return status;
}

static enum sp_status put_types(struct sp_recipe *out, uint32_t field, const struct sp_attribute *attribute,
                                struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < attribute->count; i++)
        status = sp_put_type(out, field, &attribute->types[i], err);
    return status;
}

/* Name and type; graphs follow by themselves. */
static void put_attribute_head(struct sp_recipe *out, const char *name, enum sp_attr_type type)
{
    sp_put_text(out, ATTRIBUTE_NAME, name);
    sp_put_int(out, ATTRIBUTE_TYPE, type);
}

static enum sp_status put_attribute_value(struct sp_encoder *encoder, struct sp_recipe *out,
                                          const struct sp_attribute *attribute, struct sp_error *err)
{
    switch (attribute->type) {
    case SP_ATTR_FLOAT:
        sp_put_float(out, ATTRIBUTE_F, attribute->f);
        break;
    case SP_ATTR_INT:
        sp_put_int(out, ATTRIBUTE_I, attribute->i);
        break;
    case SP_ATTR_STRING:
        sp_put_bytes(out, ATTRIBUTE_S, attribute->s.bytes, attribute->s.size);
        break;
    case SP_ATTR_FLOATS:
        for (uint32_t i = 0; i < attribute->count; i++)
            sp_put_float(out, ATTRIBUTE_FLOATS, attribute->floats[i]);
        break;
    case SP_ATTR_INTS:
        for (uint32_t i = 0; i < attribute->count; i++)
            sp_put_int(out, ATTRIBUTE_INTS, attribute->ints[i]);
        break;
    case SP_ATTR_STRINGS:
        for (uint32_t i = 0; i < attribute->count; i++)
            sp_put_bytes(out, ATTRIBUTE_STRINGS, attribute->strings[i].bytes, attribute->strings[i].size);
        break;
    case SP_ATTR_TENSOR:
        return put_tensors(encoder, out, ATTRIBUTE_T, attribute, err);
    case SP_ATTR_TENSORS:
        return put_tensors(encoder, out, ATTRIBUTE_TENSORS, attribute, err);
    case SP_ATTR_SPARSE_TENSOR:
        return put_sparse_tensors(encoder, out, ATTRIBUTE_SPARSE_TENSOR, attribute, err);
    case SP_ATTR_SPARSE_TENSORS:
        return put_sparse_tensors(encoder, out, ATTRIBUTE_SPARSE_TENSORS, attribute, err);
    case SP_ATTR_TYPE_PROTO:
        return put_types(out, ATTRIBUTE_TP, attribute, err);
    case SP_ATTR_TYPE_PROTOS:
        return put_types(out, ATTRIBUTE_TYPE_PROTOS, attribute, err);
    default: /* graphs, and attributes without a value */
        break;
    }
    return SP_OK;
}

/* The reader leaves texts of other programs out (reader.h); they are still in the file. False where it is not that. */
static bool put_left_out(struct sp_encoder *encoder, struct sp_recipe *node_message, const struct sp_node *node,
                         const struct sp_attribute *attribute)
{
    struct sp_wire wire = sp_wire_of(encoder->model->bytes, node->span);
    struct sp_wire_field field, inner;
    const size_t size = strlen(attribute->name);
    if (attribute->type != SP_ATTR_STRING || attribute->s.size != 0)
        return false;
    while (sp_wire_next(&wire, &field, NULL) == SP_OK && field.number != 0) {
        if (field.number != SP_PUT_NODE_ATTRIBUTE || field.payload.size <= SP_MAX_RECORD_BYTES)
            continue;
        struct sp_wire inside = sp_wire_of(encoder->model->bytes, field.payload);
        while (sp_wire_next(&inside, &inner, NULL) == SP_OK && inner.number != 0) {
            if (inner.number == ATTRIBUTE_NAME && inner.payload.size == size &&
                memcmp(encoder->model->bytes + inner.payload.offset, attribute->name, size) == 0) {
                sp_put_head(node_message, SP_PUT_NODE_ATTRIBUTE, field.payload.size);
                sp_put_original(node_message, encoder->model, field.payload);
                return true;
            }
        }
    }
    return false;
}

static enum sp_status put_attribute(struct sp_encoder *encoder, struct sp_encode_frame *frame,
                                    const struct sp_attribute *attribute, struct sp_error *err)
{
    if (!open_message(&frame->attribute_message))
        return sp_fail_memory(err);
    if (put_left_out(encoder, frame->node_message, frame->node, attribute))
        return SP_OK;
    put_attribute_head(frame->attribute_message, attribute->name, attribute->type);
    enum sp_status status = put_attribute_value(encoder, frame->attribute_message, attribute, err);
    if (status == SP_OK)
        sp_put_message(frame->node_message, SP_PUT_NODE_ATTRIBUTE, frame->attribute_message);
    return status;
}

/* An attribute that the partition gives. */
static enum sp_status put_local_attribute(struct sp_encoder *encoder, struct sp_encode_frame *frame,
                                          const struct sp_lower_attribute *local, struct sp_error *err)
{
    struct sp_tensor *tensor = (struct sp_tensor *)local->tensor;
    struct sp_attribute attribute = {.name = local->name, .type = local->type, .f = local->f, .i = local->i};
    attribute.s.bytes = local->s == NULL ? "" : local->s;
    attribute.s.size = strlen(attribute.s.bytes);
    attribute.count = local->type == SP_ATTR_TENSOR ? 1 : local->count;
    attribute.ints = (int64_t *)local->ints;
    attribute.floats = (double *)local->floats;
    attribute.tensors = &tensor;
    if (!open_message(&frame->attribute_message))
        return sp_fail_memory(err);
    put_attribute_head(frame->attribute_message, local->name, local->type);
    for (uint32_t i = 0; local->type == SP_ATTR_STRINGS && i < local->count; i++)
        sp_put_bytes(frame->attribute_message, ATTRIBUTE_STRINGS, local->strings[i], strlen(local->strings[i]));
    if (local->type == SP_ATTR_STRINGS)
        attribute.count = 0; /* they are written */
    enum sp_status status = put_attribute_value(encoder, frame->attribute_message, &attribute, err);
    if (status == SP_OK)
        sp_put_message(frame->node_message, SP_PUT_NODE_ATTRIBUTE, frame->attribute_message);
    return status;
}

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

/* Whether the value is defined in a graph that is being written. */
static bool is_inner(const struct sp_encoder *encoder, uint32_t depth, const struct sp_value *value)
{
    for (uint32_t i = depth; i > 0; i--) {
        if (encoder->frames[i].graph == value->graph)
            return true;
    }
    return false;
}

static void put_value_name(const struct sp_encoder *encoder, uint32_t depth, struct sp_recipe *out, uint32_t field,
                           const struct sp_value *value)
{
    if (value == NULL || value->is_absent)
        sp_put_text(out, field, "");
    else if (is_inner(encoder, depth, value))
        sp_put_text_pair(out, field, value->name, encoder->inner_suffix);
    else
        sp_put_text(out, field, encoder->outer_name(encoder->context, value));
}

static void put_operator_head(struct sp_recipe *out, const char *name, const char *op_type, const char *domain,
                              const char *overload)
{
    if (name != NULL && name[0] != '\0')
        sp_put_text(out, SP_PUT_NODE_NAME, name);
    sp_put_text(out, SP_PUT_NODE_OP_TYPE, op_type);
    if (domain != NULL && domain[0] != '\0')
        sp_put_text(out, SP_PUT_NODE_DOMAIN, domain);
    if (overload != NULL && overload[0] != '\0')
        sp_put_text(out, SP_PUT_NODE_OVERLOAD, overload);
}

static enum sp_status open_node(struct sp_encoder *encoder, uint32_t depth, struct sp_error *err)
{
    struct sp_encode_frame *frame = &encoder->frames[depth];
    assert(frame->graph->nodes != NULL);
    const struct sp_node *node = &frame->graph->nodes[frame->next_node++];
    frame->node = node;
    frame->attribute = frame->item = 0;
    if (!open_message(&frame->node_message))
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < node->input_count; i++)
        put_value_name(encoder, depth, frame->node_message, SP_PUT_NODE_INPUT, node->inputs[i]);
    for (uint32_t i = 0; i < node->output_count; i++)
        put_value_name(encoder, depth, frame->node_message, SP_PUT_NODE_OUTPUT, node->outputs[i]);
    put_operator_head(frame->node_message, node->name, node->op_type, node->domain, node->overload);
    return encoder->check == NULL ? SP_OK : encoder->check(encoder->context, node, err);
}

static enum sp_status open_graph(struct sp_encoder *encoder, uint32_t depth, const struct sp_graph *graph,
                                 struct sp_error *err)
{
    if (depth > SP_MAX_NESTING)
        return sp_fail_limit(err, "NESTING_TOO_DEEP", "SP_MAX_NESTING", SP_MAX_NESTING, depth,
                             "Graphs are nested more than %d deep (limit SP_MAX_NESTING).", SP_MAX_NESTING);
    struct sp_encode_frame *frame = &encoder->frames[depth];
    frame->graph = graph;
    frame->node = NULL;
    frame->next_node = 0;
    encoder->has_calls = true;
    return open_message(&frame->graph_message) ? SP_OK : sp_fail_memory(err);
}

static enum sp_status put_initializers(struct sp_encoder *encoder, const struct sp_graph *graph, struct sp_recipe *out,
                                       struct sp_error *err)
{
    enum sp_status status = SP_OK;
    bool done;
    for (uint32_t i = 0; status == SP_OK && i < graph->initializer_count; i++) {
        const struct sp_value *value = graph->initializers[i];
        struct sp_buf name;
        sp_buf_init(&name, SP_MAX_RECORD_BYTES);
        sp_buf_printf(&name, "%s%s", value->name, encoder->inner_suffix);
        sp_recipe_clear(encoder->tensor);
        if (sp_buf_failed(&name))
            status = sp_fail_memory(err);
        else if (value->sparse != NULL)
            status = sp_weight_put_sparse(encoder->weights, encoder->tensor, name.data, value->sparse, err);
        else if (value->tensor != NULL)
            status = sp_weight_put(encoder->weights, encoder->tensor, name.data, value->tensor, NULL, &done, err);
        if (status == SP_OK)
            sp_put_message(out, value->sparse != NULL ? SP_PUT_GRAPH_SPARSE_INITIALIZER : SP_PUT_GRAPH_INITIALIZER,
                           encoder->tensor);
        sp_buf_release(&name);
    }
    return status;
}

/* All nodes are written: what remains, and the graph into the attribute that it belongs to. */
static enum sp_status close_graph(struct sp_encoder *encoder, uint32_t depth, struct sp_error *err)
{
    struct sp_encode_frame *frame = &encoder->frames[depth], *outer = &encoder->frames[depth - 1];
    const struct sp_graph *graph = frame->graph;
    struct sp_recipe *out = frame->graph_message;
    const struct sp_type none = {.kind = SP_TYPE_NONE};
    sp_put_text(out, SP_PUT_GRAPH_NAME, graph->name);
    enum sp_status status = put_initializers(encoder, graph, out, err);
    for (uint32_t i = 0; status == SP_OK && i < graph->input_count; i++)
        status = sp_put_value_info(out, SP_PUT_GRAPH_INPUT, graph->inputs[i]->name, encoder->inner_suffix,
                                   &graph->inputs[i]->declared, err);
    for (uint32_t i = 0; status == SP_OK && i < graph->output_count; i++) {
        const struct sp_value *value = graph->outputs[i];
        const bool inner = is_inner(encoder, depth, value);
        status = sp_put_value_info(
            out, SP_PUT_GRAPH_OUTPUT, inner ? value->name : encoder->outer_name(encoder->context, value),
            inner ? encoder->inner_suffix : "", value->graph == graph ? &value->declared : &none, err);
    }
    if (status == SP_OK)
        sp_put_message(outer->attribute_message,
                       outer->node->attributes[outer->attribute].type == SP_ATTR_GRAPH ? ATTRIBUTE_G : ATTRIBUTE_GRAPHS,
                       out);
    frame->graph = NULL;
    return status;
}

/* ---- walking ---------------------------------------------------------------------------------------------------- */

static bool is_replaced(const struct sp_encode_operator *op, const char *name)
{
    for (uint32_t i = 0; i < op->attribute_count; i++) {
        if (strcmp(op->attributes[i].name, name) == 0)
            return true;
    }
    return false;
}

/* The next attribute of the frame's node, or its next graph, in a frame of its own. */
static enum sp_status step_attribute(struct sp_encoder *encoder, uint32_t *depth, struct sp_error *err)
{
    struct sp_encode_frame *frame = &encoder->frames[*depth];
    const struct sp_attribute *attribute = &frame->node->attributes[frame->attribute];
    if (attribute->type != SP_ATTR_GRAPH && attribute->type != SP_ATTR_GRAPHS) {
        frame->attribute++;
        return put_attribute(encoder, frame, attribute, err);
    }
    if (frame->item == 0) {
        if (!open_message(&frame->attribute_message))
            return sp_fail_memory(err);
        put_attribute_head(frame->attribute_message, attribute->name, attribute->type);
    }
    if (frame->item < attribute->count) {
        enum sp_status status = open_graph(encoder, *depth + 1, attribute->graphs[frame->item++], err);
        *depth += status == SP_OK;
        return status;
    }
    sp_put_message(frame->node_message, SP_PUT_NODE_ATTRIBUTE, frame->attribute_message);
    frame->attribute++;
    frame->item = 0;
    return SP_OK;
}

/* The attributes of the operator's node, with all the graphs in them. */
static enum sp_status put_node_attributes(struct sp_encoder *encoder, const struct sp_encode_operator *op,
                                          struct sp_error *err)
{
    enum sp_status status = SP_OK;
    uint32_t depth = 0;
    while (status == SP_OK) {
        struct sp_encode_frame *frame = &encoder->frames[depth];
        if (frame->node == NULL && frame->next_node < frame->graph->node_count) {
            status = open_node(encoder, depth, err);
        } else if (frame->node == NULL) {
            status = close_graph(encoder, depth--, err);
        } else if (frame->attribute < frame->node->attribute_count) {
            if (depth == 0 && is_replaced(op, frame->node->attributes[frame->attribute].name))
                frame->attribute++;
            else
                status = step_attribute(encoder, &depth, err);
        } else if (depth > 0) {
            sp_put_message(frame->graph_message, SP_PUT_GRAPH_NODE, frame->node_message);
            frame->node = NULL;
        } else {
            break;
        }
    }
    return status;
}

enum sp_status sp_encode_operator(struct sp_encoder *encoder, struct sp_recipe *graph,
                                  const struct sp_encode_operator *op, struct sp_error *err)
{
    struct sp_encode_frame *frame = &encoder->frames[0];
    enum sp_status status = SP_OK;
    frame->node = op->node;
    frame->attribute = frame->item = 0;
    if (!open_message(&frame->node_message))
        return sp_fail_memory(err);
    uint32_t input_count = op->input_count;
    while (input_count > 0 && op->inputs[input_count - 1][0] == '\0')
        input_count--;
    for (uint32_t i = 0; i < input_count; i++)
        sp_put_text(frame->node_message, SP_PUT_NODE_INPUT, op->inputs[i]);
    for (uint32_t i = 0; i < op->output_count; i++)
        sp_put_text(frame->node_message, SP_PUT_NODE_OUTPUT, op->outputs[i]);
    put_operator_head(frame->node_message, op->name, op->op_type, op->domain, op->overload);
    if (op->node != NULL) {
        status = put_node_attributes(encoder, op, err);
        encoder->has_calls = encoder->has_calls || sp_onnx_function(encoder->model, op->node) != NULL;
    }
    for (uint32_t i = 0; status == SP_OK && i < op->attribute_count; i++) {
        if (op->attributes[i].type != SP_ATTR_UNDEFINED)
            status = put_local_attribute(encoder, frame, &op->attributes[i], err);
    }
    if (status == SP_OK)
        sp_put_message(graph, encoder->node_field, frame->node_message);
    return status == SP_OK ? sp_recipe_status(graph, err) : status;
}
