#include <string.h>

#include "onnx/read.h"

/* Field numbers of FunctionProto. */
enum {
    NAME = 1,
    INPUT = 4,
    OUTPUT = 5,
    ATTRIBUTE = 6,
    NODE = 7,
    DOC_STRING = 8,
    OPSET_IMPORT = 9,
    DOMAIN = 10,
    ATTRIBUTE_PROTO = 11,
    VALUE_INFO = 12,
    OVERLOAD = 13,
    METADATA_PROPS = 14
};

/* ---- signatures ------------------------------------------------------------------------------------------------ */

static enum sp_status count_field(struct sp_reader *r, const struct sp_wire_field *field, struct sp_function *function)
{
    switch (field->number) {
    case NAME:
        return sp_reader_text(r, field, &function->name);
    case DOMAIN:
        return sp_reader_domain(r, field, &function->domain);
    case OVERLOAD:
        return sp_reader_text(r, field, &function->overload);
    case INPUT:
        return sp_reader_count_one(r, &function->input_count, SP_MAX_NODE_OPERANDS, "SP_MAX_NODE_OPERANDS",
                                   "inputs of one function");
    case OUTPUT:
        return sp_reader_count_one(r, &function->output_count, SP_MAX_NODE_OPERANDS, "SP_MAX_NODE_OPERANDS",
                                   "outputs of one function");
    case ATTRIBUTE:
        return sp_reader_count_one(r, &function->attribute_count, SP_MAX_NODE_ATTRIBUTES, "SP_MAX_NODE_ATTRIBUTES",
                                   "attributes of one function");
    case ATTRIBUTE_PROTO:
        return sp_reader_count_one(r, &function->default_count, SP_MAX_NODE_ATTRIBUTES, "SP_MAX_NODE_ATTRIBUTES",
                                   "attributes of one function");
    case OPSET_IMPORT:
        return sp_reader_count_one(r, &function->opset_count, SP_MAX_METADATA, "SP_MAX_METADATA", "operator sets");
    case NODE:
    case VALUE_INFO: /* of the body, read later */
    case DOC_STRING:
    case METADATA_PROPS:
        return SP_OK;
    default:
        return sp_reader_unknown(r, field);
    }
}

static enum sp_status allocate(struct sp_reader *r, struct sp_function *function)
{
    function->inputs = SP_NEW_ARRAY(r->arena, function->input_count, const char *);
    function->outputs = SP_NEW_ARRAY(r->arena, function->output_count, const char *);
    function->attributes = SP_NEW_ARRAY(r->arena, function->attribute_count, const char *);
    function->defaults = SP_NEW_ARRAY(r->arena, function->default_count, struct sp_attribute);
    function->opsets = SP_NEW_ARRAY(r->arena, function->opset_count, struct sp_opset);
    if (function->inputs == NULL || function->outputs == NULL || function->attributes == NULL ||
        function->defaults == NULL || function->opsets == NULL)
        return sp_fail_memory(r->err);
    return SP_OK;
}

static enum sp_status fill_fields(struct sp_reader *r, struct sp_function *function)
{
    struct sp_wire wire = sp_wire_of(r->bytes, function->span);
    struct sp_wire_field field;
    uint32_t inputs = 0, outputs = 0, attributes = 0, defaults = 0, opsets = 0;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == INPUT)
            status = sp_reader_text(r, &field, &function->inputs[inputs++]);
        else if (field.number == OUTPUT)
            status = sp_reader_text(r, &field, &function->outputs[outputs++]);
        else if (field.number == ATTRIBUTE)
            status = sp_reader_text(r, &field, &function->attributes[attributes++]);
        else if (field.number == ATTRIBUTE_PROTO && (status = sp_reader_message(r, &field)) == SP_OK)
            status = sp_read_attribute(r, field.payload, NULL, &function->defaults[defaults++]);
        else if (field.number == OPSET_IMPORT && (status = sp_reader_message(r, &field)) == SP_OK)
            status = sp_read_opset(r, field.payload, &function->opsets[opsets++]);
        if (status != SP_OK)
            return status;
    }
    return status;
}

static enum sp_status check_attributes(struct sp_reader *r, const struct sp_function *function)
{
    bool is_new = true;
    sp_reader_new_list(r);
    for (uint32_t i = 0; i < function->attribute_count + function->default_count; i++) {
        const char *name = i < function->attribute_count ? function->attributes[i]
                                                         : function->defaults[i - function->attribute_count].name;
        enum sp_status status = sp_reader_mark(r, name, &is_new);
        if (status != SP_OK)
            return status;
        if (!is_new)
            return sp_fail(r->err, SP_ERR_MODEL, "DUPLICATE_ATTRIBUTE",
                           "Function '%.80s' has two attributes named '%.80s'.", function->name, name);
    }
    return SP_OK;
}

enum sp_status sp_read_function(struct sp_reader *r, struct sp_span span, struct sp_function *function)
{
    struct sp_wire wire = sp_wire_of(r->bytes, span);
    struct sp_wire_field field;
    enum sp_status status = SP_OK;
    function->name = function->domain = function->overload = "";
    function->span = span;
    while (status == SP_OK && (status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0)
        status = count_field(r, &field, function);
    if (status == SP_OK && function->name[0] == '\0')
        status = sp_fail(r->err, SP_ERR_MODEL, "UNNAMED_FUNCTION", "A function has no name.");
    if (status == SP_OK)
        status = allocate(r, function);
    if (status == SP_OK)
        status = fill_fields(r, function);
    if (status == SP_OK)
        status = check_attributes(r, function);
    if (status != SP_OK)
        sp_error_at(r->err, "function %.120s", function->name);
    return status;
}

/* ---- the set of functions -------------------------------------------------------------------------------------- */

/* Reads one body into memory that is dropped again: calls are noted, names and nesting checked. */
static enum sp_status check_body(struct sp_reader *r, const struct sp_function *function, uint64_t *ret_nodes)
{
    const uint64_t before = r->model->counts.nodes;
    struct sp_arena_mark mark = sp_arena_mark(r->arena);
    struct sp_graph *graph = SP_NEW(r->arena, struct sp_graph);
    if (graph == NULL)
        return sp_fail_memory(r->err);
    graph->span = function->span;
    r->function = function;
    r->caller = (uint32_t)(function - r->model->functions);
    enum sp_status status = sp_read_graph(r, graph);
    *ret_nodes = r->model->counts.nodes - before;
    sp_arena_rewind(r->arena, mark);
    return status;
}

enum sp_status sp_check_functions(struct sp_reader *r)
{
    struct sp_model *model = r->model;
    const uint64_t main_nodes = model->counts.nodes;
    if (model->function_count == 0)
        return SP_OK;
    struct sp_arena *bodies = sp_arena_create(sp_arena_budget(model->arena));
    uint64_t *nodes = calloc(model->function_count, sizeof *nodes);
    enum sp_status status = SP_OK;
    if (bodies == NULL || nodes == NULL) {
        status = sp_fail_memory(r->err);
        goto done;
    }
    r->arena = bodies;
    sp_scope_clear(model);
    for (uint32_t i = 0; status == SP_OK && i < model->function_count; i++)
        status = check_body(r, &model->functions[i], &nodes[i]);
    if (status == SP_OK)
        status = sp_check_calls(model, r->edges, r->edge_count, nodes, main_nodes, r->err);
    r->arena = model->arena;
    r->function = NULL;
done:
    free(nodes);
    sp_arena_destroy(bodies);
    return status;
}
