#include <string.h>

#include "base/array.h"
#include "onnx/read.h"

/* Field numbers of NodeProto. */
enum {
    INPUT = SP_NODE_INPUT,
    OUTPUT = SP_NODE_OUTPUT,
    NAME = 3,
    OP_TYPE = 4,
    ATTRIBUTE = 5,
    DOC_STRING = 6,
    DOMAIN = 7,
    OVERLOAD = 8,
    METADATA_PROPS = 9,
    DEVICE_CONFIGURATIONS = 10
};

/* Remembers where a part of the node is, so that the node is walked once. */
static enum sp_status note_field(struct sp_reader *r, const struct sp_wire_field *field)
{
    enum sp_status status = sp_wire_expect(field, SP_WIRE_LEN, r->err);
    if (status != SP_OK)
        return status;
    if (!SP_MAKE_ROOM(NULL, r->fields, r->field_count, r->field_capacity, 1))
        return sp_fail_memory(r->err);
    r->fields[r->field_count++] = (struct sp_node_field){field->number, field->payload, 0};
    return SP_OK;
}

/* Names are looked up when all of the node's are known to be underway from memory. */
static enum sp_status note_name(struct sp_reader *r, const struct sp_wire_field *field)
{
    enum sp_status status = note_field(r, field);
    if (status == SP_OK && field->payload.size <= SP_MAX_NAME_BYTES) {
        const char *bytes = (const char *)r->bytes + field->payload.offset;
        const uint64_t hash = sp_intern_hash(r->model->names, bytes, field->payload.size);
        r->fields[r->field_count - 1].hash = hash;
        sp_intern_fetch(r->model->names, hash);
    }
    return status == SP_OK && field->payload.size > SP_MAX_NAME_BYTES ? sp_reader_check_text(r, field) : status;
}

static enum sp_status count_field(struct sp_reader *r, struct sp_node *node, const struct sp_wire_field *field)
{
    enum sp_status status;
    switch (field->number) {
    case INPUT:
        status = sp_reader_count_one(r, &node->input_count, SP_MAX_NODE_OPERANDS, "SP_MAX_NODE_OPERANDS",
                                     "inputs of one node");
        return status == SP_OK ? note_name(r, field) : status;
    case OUTPUT:
        status = sp_reader_count_one(r, &node->output_count, SP_MAX_NODE_OPERANDS, "SP_MAX_NODE_OPERANDS",
                                     "outputs of one node");
        return status == SP_OK ? note_name(r, field) : status;
    case NAME:
        return sp_reader_copy(r, field, &node->name);
    case OP_TYPE:
        return sp_reader_text(r, field, &node->op_type);
    case DOMAIN:
        return sp_reader_domain(r, field, &node->domain);
    case OVERLOAD:
        return sp_reader_text(r, field, &node->overload);
    case ATTRIBUTE:
        status = sp_reader_message(r, field);
        if (status == SP_OK && r->counting)
            r->model->counts.attributes++;
        if (status == SP_OK)
            status = sp_reader_count_one(r, &node->attribute_count, SP_MAX_NODE_ATTRIBUTES, "SP_MAX_NODE_ATTRIBUTES",
                                         "attributes of one node");
        return status == SP_OK ? note_field(r, field) : status;
    case DEVICE_CONFIGURATIONS:
        status = sp_reader_message(r, field);
        if (status == SP_OK)
            status = sp_reader_count_one(r, &node->configuration_count, SP_MAX_METADATA, "SP_MAX_METADATA",
                                         "device configurations of one node");
        return status == SP_OK ? note_field(r, field) : status;
    case METADATA_PROPS:
        return sp_read_metadata_entry(r, field, (struct sp_metadata_list **)&node->metadata);
    case DOC_STRING:
        return SP_OK;
    default:
        return sp_reader_unknown(r, field);
    }
}

static enum sp_status count_fields(struct sp_reader *r, struct sp_node *node)
{
    struct sp_wire wire = sp_wire_of(r->bytes, node->span);
    struct sp_wire_field field;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if ((status = count_field(r, node, &field)) != SP_OK)
            return status;
    }
    if (status == SP_OK && node->op_type[0] == '\0')
        return sp_reader_fail(r, "NO_OPERATOR_TYPE", "Node %u names no operator type.", node->index);
    if (status == SP_OK && node->input_count == 0 && node->output_count == 0)
        return sp_reader_fail(r, "INCOMPLETE_NODE", "Node %u (%.80s) has neither inputs nor outputs.", node->index,
                              node->op_type);
    return status;
}

static enum sp_status allocate(struct sp_reader *r, struct sp_node *node)
{
    node->inputs = SP_NEW_ARRAY(r->arena, (size_t)node->input_count + node->output_count, struct sp_value *);
    if (node->attribute_count > 0)
        node->attributes = SP_NEW_ARRAY(r->arena, node->attribute_count, struct sp_attribute);
    if (node->configuration_count > 0)
        node->configurations = SP_NEW_ARRAY(r->arena, node->configuration_count, struct sp_node_configuration);
    if (node->inputs == NULL || (node->attribute_count > 0 && node->attributes == NULL) ||
        (node->configuration_count > 0 && node->configurations == NULL))
        return sp_fail_memory(r->err);
    node->outputs = node->inputs + node->input_count;
    return SP_OK;
}

static bool defines(const struct sp_reader *r, struct sp_span node, const char *name)
{
    struct sp_wire wire = sp_wire_of(r->bytes, node);
    struct sp_wire_field field;
    const size_t size = strlen(name);
    while (sp_wire_next(&wire, &field, NULL) == SP_OK && field.number != 0) {
        if (field.number == OUTPUT && field.type == SP_WIRE_LEN && field.payload.size == size &&
            memcmp(r->bytes + field.payload.offset, name, size) == 0)
            return true;
    }
    return false;
}

/* Only on the way to an error: whether a node of the graph or of one around it defines the name, which is not there yet.
   What a node that holds the graph defines is never visible in it. */
static bool is_defined_later(const struct sp_reader *r, const struct sp_node *node, const char *name)
{
    for (const struct sp_graph *graph = node->graph; graph != NULL; graph = graph->parent) {
        const uint32_t number = r->function != NULL && graph->parent == NULL ? SP_FUNCTION_NODE : SP_GRAPH_NODE;
        struct sp_wire wire = sp_wire_of(r->bytes, graph->span);
        struct sp_wire_field field;
        while (sp_wire_next(&wire, &field, NULL) == SP_OK && field.number != 0) {
            const bool is_around = graph != node->graph && field.payload.offset < node->span.offset &&
                                   node->span.offset < field.payload.offset + field.payload.size;
            if (field.number == number && field.type == SP_WIRE_LEN && !is_around && defines(r, field.payload, name))
                return true;
        }
    }
    return false;
}

/* A noted field as the wire's, which it was checked to be. */
static struct sp_wire_field noted(const struct sp_node_field *field)
{
    return (struct sp_wire_field){.number = field->number, .type = SP_WIRE_LEN, .payload = field->payload};
}

static enum sp_status read_name(struct sp_reader *r, const struct sp_node_field *field, struct sp_name *name)
{
    const struct sp_wire_field wire = noted(field);
    enum sp_status status = sp_reader_hashed(r, &wire, field->hash, &name->text);
    return status == SP_OK ? sp_reader_scope(r, name) : status;
}

static enum sp_status read_input(struct sp_reader *r, struct sp_node *node, const struct sp_node_field *field,
                                 uint32_t position)
{
    struct sp_name name;
    enum sp_status status = read_name(r, field, &name);
    if (status != SP_OK || name.scope == NULL)
        return status;
    struct sp_value *value = sp_scope_find(name);
    if (value == NULL && is_defined_later(r, node, name.text))
        return sp_reader_fail(r, "NOT_TOPOLOGICAL",
                              "Input %u ('%.120s') depends on the node's own results: the nodes form a cycle.",
                              position, name.text);
    if (value == NULL)
        return sp_reader_fail(r, "UNDEFINED_INPUT", "Input %u is '%.120s', which nothing defines.", position,
                              name.text);
    if (value->is_absent)
        return SP_OK;
    node->inputs[position] = value;
    value->use_count += value->graph == node->graph;
    return sp_scope_use(r, node->graph, value);
}

/* Notes a call of a model-local function, for the checks of functions. */
static enum sp_status note_call(struct sp_reader *r, const struct sp_node *node)
{
    if (!r->counting || r->model->function_count == 0)
        return SP_OK;
    const struct sp_function *callee = sp_onnx_function(r->model, node);
    if (callee == NULL)
        return SP_OK;
    if (!SP_MAKE_ROOM(NULL, r->edges, r->edge_count, r->edge_capacity, 1))
        return sp_fail_memory(r->err);
    r->edges[r->edge_count++] = (struct sp_call_edge){r->caller, (uint32_t)(callee - r->model->functions)};
    return SP_OK;
}

/* Interned names are equal when they are the same pointer: few are compared in pairs, many are marked. */
#define FEW_ATTRIBUTES 8

static enum sp_status check_attribute_names(struct sp_reader *r, const struct sp_node *node)
{
    bool is_new = true, is_repeated = node->attribute_count > FEW_ATTRIBUTES;
    for (uint32_t i = 1; !is_repeated && i < node->attribute_count; i++) {
        for (uint32_t k = 0; k < i; k++)
            is_repeated = is_repeated || node->attributes[i].name == node->attributes[k].name;
    }
    if (!is_repeated)
        return SP_OK;
    sp_reader_new_list(r);
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        enum sp_status status = sp_reader_mark(r, node->attributes[i].name, &is_new);
        if (status != SP_OK)
            return status;
        if (!is_new)
            return sp_reader_fail(r, "DUPLICATE_ATTRIBUTE", "The node has two attributes named '%.120s'.",
                                  node->attributes[i].name);
    }
    return SP_OK;
}

enum sp_status sp_read_node(struct sp_reader *r, struct sp_node *node)
{
    uint32_t inputs = 0, attributes = 0, configurations = 0, first = r->field_count;
    sp_reader_top(r)->fields_start = first;
    enum sp_status status = count_fields(r, node);
    if (status == SP_OK)
        status = allocate(r, node);
    const uint32_t end = r->field_count;
    for (uint32_t i = first; status == SP_OK && i < end; i++) {
        const struct sp_wire_field field = noted(&r->fields[i]);
        if (field.number == INPUT)
            status = read_input(r, node, &r->fields[i], inputs++);
        else if (field.number == ATTRIBUTE)
            status = sp_read_attribute(r, field.payload, node, &node->attributes[attributes++]);
        else if (field.number == DEVICE_CONFIGURATIONS)
            status = sp_read_node_configuration(r, field.payload, &node->configurations[configurations++]);
    }
    if (status == SP_OK && r->call != NULL)
        status = sp_resolve_references(r, node);
    if (status == SP_OK)
        status = check_attribute_names(r, node);
    return status == SP_OK ? note_call(r, node) : status;
}

enum sp_status sp_read_node_outputs(struct sp_reader *r, struct sp_node *node)
{
    const uint32_t first = sp_reader_top(r)->fields_start, end = r->field_count;
    uint32_t position = 0;
    enum sp_status status = SP_OK;
    for (uint32_t i = first; status == SP_OK && i < end; i++) {
        struct sp_name name;
        if (r->fields[i].number != OUTPUT)
            continue;
        status = read_name(r, &r->fields[i], &name);
        if (status == SP_OK && name.scope != NULL)
            status = sp_define_output(r, node, name, position);
        position++;
    }
    r->field_count = first; /* what was inside is gone by now */
    return status;
}
