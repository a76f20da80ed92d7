#include "graph/model.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"

const struct sp_attribute *sp_node_attribute(const struct sp_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        const char *own = node->attributes[i].name;
        if (own[0] == name[0] && strcmp(own, name) == 0)
            return &node->attributes[i];
    }
    return NULL;
}

int64_t sp_node_int(const struct sp_node *node, const char *name, int64_t otherwise)
{
    const struct sp_attribute *attribute = sp_node_attribute(node, name);
    return attribute != NULL && attribute->type == SP_ATTR_INT ? attribute->i : otherwise;
}

double sp_node_float(const struct sp_node *node, const char *name, double otherwise)
{
    const struct sp_attribute *attribute = sp_node_attribute(node, name);
    return attribute != NULL && attribute->type == SP_ATTR_FLOAT ? attribute->f : otherwise;
}

const char *sp_node_string(const struct sp_node *node, const char *name, const char *otherwise)
{
    const struct sp_attribute *attribute = sp_node_attribute(node, name);
    return attribute != NULL && attribute->type == SP_ATTR_STRING ? attribute->s.bytes : otherwise;
}

const int64_t *sp_node_ints(const struct sp_node *node, const char *name, uint32_t *ret_count)
{
    const struct sp_attribute *attribute = sp_node_attribute(node, name);
    if (attribute == NULL || attribute->type != SP_ATTR_INTS) {
        *ret_count = 0;
        return NULL;
    }
    *ret_count = attribute->count;
    return attribute->ints;
}

static const char *canonical_domain(const char *domain)
{
    return strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

#define NEWEST_OPSET 26 /* of ai.onnx, of those that are released */
#define NEWEST_ML    5

int64_t sp_graph_import(const struct sp_graph *graph, const char *domain)
{
    for (uint32_t i = 0; i < graph->opset_count; i++) {
        if (strcmp(canonical_domain(graph->opsets[i].domain), canonical_domain(domain)) == 0)
            return graph->opsets[i].version;
    }
    return 0;
}

int64_t sp_graph_opset(const struct sp_graph *graph, const char *domain)
{
    const int64_t version = sp_graph_import(graph, domain);
    if (version != 0)
        return version;
    if (graph->model->ir_version < SP_FIRST_IR_WITH_OPSETS)
        return 1;
    return canonical_domain(domain)[0] == '\0' ? NEWEST_OPSET : strcmp(domain, "ai.onnx.ml") == 0 ? NEWEST_ML : 1;
}

struct sp_value *sp_graph_value(const struct sp_graph *graph, const char *name)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        if (strcmp(graph->values[i]->name, name) == 0)
            return graph->values[i];
    }
    return NULL;
}

const struct sp_value *sp_node_early_input(const struct sp_node *node)
{
    for (uint32_t i = 0; node->graph->model->is_sorted && i < node->input_count; i++) {
        const struct sp_value *value = node->inputs[i];
        if (value != NULL && value->producer != NULL && value->producer->span.offset > node->span.offset)
            return value;
    }
    return NULL;
}

const char *sp_node_label(const struct sp_node *node, char *text, size_t size)
{
    if (node->name[0] != '\0')
        (void)snprintf(text, size, "'%.120s' (%.80s)", node->name, node->op_type);
    else
        (void)snprintf(text, size, "node %u (%.80s)", node->index, node->op_type);
    return text;
}

/* Of the extents that are numbers, or of all that have an estimate. */
static int64_t count_elements(const struct sp_shape *shape, bool estimates)
{
    int64_t elements = 1;
    bool empty = false;
    if (!shape->has_rank)
        return -1;
    for (uint32_t i = 0; i < shape->rank; i++) {
        const int64_t extent = estimates || sp_dim_is_known(shape->dims[i]) ? sp_dim_estimate(shape->dims[i]) : -1;
        if (extent < 0)
            return -1;
        if (extent == 0)
            empty = true; /* decides the product, whatever the others multiply to */
        else if (!sp_mul_i64(elements, extent, &elements))
            return -1;
    }
    return empty ? 0 : elements;
}

int64_t sp_shape_elements(const struct sp_shape *shape)
{
    return count_elements(shape, false);
}

int64_t sp_shape_estimate(const struct sp_shape *shape)
{
    return count_elements(shape, true);
}

int64_t sp_value_bytes(const struct sp_value *value)
{
    if (value->type.kind != SP_TYPE_TENSOR)
        return -1;
    int64_t elements = sp_shape_estimate(&value->type.shape);
    return elements < 0 ? -1 : sp_dtype_bytes(value->type.dtype, elements);
}

int64_t sp_value_stored_bytes(const struct sp_value *value)
{
    const int64_t bytes = sp_value_bytes(value);
    if (bytes < 0 || value->stored_bits <= 0)
        return bytes;
    return (int64_t)(value->stored_bits / 8 * (double)sp_shape_elements(&value->type.shape) + 0.5);
}

bool sp_shape_extents(const struct sp_shape *shape, int64_t *ret_extents)
{
    if (!shape->has_rank || shape->rank > SP_MAX_RANK)
        return false;
    for (uint32_t a = 0; a < shape->rank; a++) {
        if (!sp_dim_is_known(shape->dims[a]))
            return false;
        ret_extents[a] = shape->dims[a].value;
    }
    return true;
}

bool sp_type_is_full(const struct sp_type *type)
{
    if (type->kind != SP_TYPE_TENSOR || type->dtype == SP_DTYPE_UNDEFINED || !type->shape.has_rank)
        return false;
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        if (type->shape.dims[i].kind == SP_DIM_UNKNOWN)
            return false;
    }
    return true;
}
