#include <inttypes.h>
#include <string.h>

#include "onnx/read.h"

/* Field numbers of GraphProto, and of FunctionProto where a body differs. */
enum {
    NODE = 1,
    NAME = 2,
    INITIALIZER = 5,
    DOC_STRING = 10,
    INPUT = 11,
    OUTPUT = 12,
    VALUE_INFO = 13,
    QUANTIZATION = 14,
    SPARSE_INITIALIZER = 15,
    METADATA_PROPS = 16,

    FUNCTION_INPUT = 4,
    FUNCTION_OUTPUT = 5,
    FUNCTION_NODE = 7,
    FUNCTION_VALUE_INFO = 12
};

/* A node needs an operator type (3 bytes) and an input or output (2 bytes). */
#define SMALLEST_NODE 5

static struct sp_frame *top(struct sp_reader *r)
{
    return &r->frames[r->depth - 1];
}

static bool is_body(const struct sp_reader *r)
{
    return r->function != NULL && r->depth == 1;
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static enum sp_status count_node(struct sp_reader *r, const struct sp_wire_field *field, struct sp_graph *graph)
{
    enum sp_status status = sp_reader_message(r, field);
    if (status != SP_OK)
        return status;
    graph->node_count++;
    if (r->counting)
        status = sp_reader_count(r, &r->model->counts.nodes, 1, "SP_MAX_NODES", SP_MAX_NODES, "nodes");
    if (status == SP_OK && field->payload.size > 0 && field->payload.size < SMALLEST_NODE) {
        status = sp_fail(r->err, SP_ERR_MODEL, "INCOMPLETE_NODE",
                         "Node %u lacks an operator type, or has neither inputs nor outputs.", graph->node_count - 1);
        sp_error_at(r->err, "byte %" PRIu64, field->at);
    }
    return status;
}

static enum sp_status count_fields(struct sp_reader *r, struct sp_graph *graph)
{
    struct sp_wire wire = sp_wire_of(r->bytes, graph->span);
    struct sp_wire_field field;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        switch (field.number) {
        case NODE:
            status = count_node(r, &field, graph);
            break;
        case NAME:
            status = sp_reader_text(r, &field, &graph->name);
            break;
        case INITIALIZER:
        case SPARSE_INITIALIZER:
            status = sp_reader_message(r, &field);
            graph->initializer_count++;
            break;
        case INPUT:
            status = sp_reader_message(r, &field);
            graph->input_count++;
            break;
        case OUTPUT:
            status = sp_reader_message(r, &field);
            graph->output_count++;
            break;
        case VALUE_INFO:
            status = sp_reader_message(r, &field);
            break;
        case DOC_STRING:
        case QUANTIZATION:
        case METADATA_PROPS:
            break;
        default:
            status = sp_reader_unknown(r, &field);
            break;
        }
        if (status != SP_OK)
            return status;
    }
    return status;
}

static enum sp_status count_body_fields(struct sp_reader *r, struct sp_graph *graph)
{
    struct sp_wire wire = sp_wire_of(r->bytes, graph->span);
    struct sp_wire_field field;
    enum sp_status status;
    graph->name = r->function->name;
    graph->input_count = r->function->input_count;
    graph->output_count = r->function->output_count;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == FUNCTION_NODE)
            status = count_node(r, &field, graph);
        else if (field.number == FUNCTION_VALUE_INFO)
            status = sp_reader_message(r, &field);
        if (status != SP_OK)
            return status;
    }
    return status;
}

static enum sp_status allocate(struct sp_reader *r, struct sp_graph *graph)
{
    graph->nodes = SP_NEW_ARRAY(r->arena, graph->node_count, struct sp_node);
    graph->inputs = SP_NEW_ARRAY(r->arena, graph->input_count, struct sp_value *);
    graph->outputs = SP_NEW_ARRAY(r->arena, graph->output_count, struct sp_value *);
    graph->initializers = SP_NEW_ARRAY(r->arena, graph->initializer_count, struct sp_value *);
    if (graph->nodes == NULL || graph->inputs == NULL || graph->outputs == NULL || graph->initializers == NULL)
        return sp_fail_memory(r->err);
    return SP_OK;
}

/* Makes a value of this graph and brings its name into scope. */
static enum sp_status define(struct sp_reader *r, struct sp_name name, enum sp_value_kind kind,
                             struct sp_value **ret_value)
{
    struct sp_graph *graph = top(r)->graph;
    struct sp_value *value = SP_NEW(r->arena, struct sp_value);
    uint64_t local = 0;
    if (value == NULL)
        return sp_fail_memory(r->err);
    enum sp_status status = sp_reader_count(r, r->counting ? &r->model->counts.values : &local, 1, "SP_MAX_VALUES",
                                            SP_MAX_VALUES, "values");
    if (status != SP_OK)
        return status;
    value->name = name.text;
    value->id = graph->value_count++;
    value->kind = kind;
    value->graph = graph;
    *ret_value = value;
    return sp_scope_define(r, name, value);
}

/* The parts of a ValueInfoProto; what else it says (documentation, metadata) is passed over. */
static enum sp_status read_value_info(struct sp_reader *r, struct sp_span span, struct sp_name *ret_name,
                                      struct sp_span *ret_type, bool *ret_has_type)
{
    struct sp_wire wire = sp_wire_of(r->bytes, span);
    struct sp_wire_field field;
    enum sp_status status;
    *ret_name = (struct sp_name){"", SP_NO_NAME};
    *ret_has_type = false;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == 1)
            status = sp_reader_name(r, &field, ret_name);
        else if (field.number == 2 && (status = sp_reader_single(r, &field, ret_has_type)) == SP_OK)
            *ret_type = field.payload;
        else if (field.number > 4)
            status = sp_reader_unknown(r, &field);
        if (status != SP_OK)
            return status;
    }
    return status;
}

static enum sp_status read_input(struct sp_reader *r, struct sp_span span, uint32_t *count)
{
    struct sp_graph *graph = top(r)->graph;
    struct sp_span type = {0, 0};
    struct sp_name name;
    struct sp_value *value;
    bool has_type;
    enum sp_status status = read_value_info(r, span, &name, &type, &has_type);
    if (status != SP_OK)
        return status;
    if (name.id == SP_NO_NAME)
        return sp_reader_fail(r, "UNNAMED_INPUT", "Input %u of graph '%.80s' has no name.", *count, graph->name);
    struct sp_scope_slot *slot = sp_scope_find(r, name);
    if (slot != NULL && slot->value->graph == graph)
        return sp_reader_fail(r, "DUPLICATE_NAME", "Graph '%.80s' has two inputs named '%.120s'.", graph->name,
                              name.text);
    status = define(r, name, SP_VALUE_INPUT, &value);
    if (status == SP_OK && has_type)
        status = sp_read_type(r, type, &value->declared);
    if (status != SP_OK)
        return status;
    value->type = value->declared;
    graph->inputs[(*count)++] = value;
    return SP_OK;
}

static enum sp_status tensor_type(struct sp_reader *r, enum sp_type_kind kind, enum sp_dtype dtype, uint32_t rank,
                                  const int64_t *dims, struct sp_type *type)
{
    memset(type, 0, sizeof *type);
    type->kind = kind;
    type->dtype = dtype;
    type->shape.has_rank = true;
    type->shape.rank = rank;
    type->shape.dims = SP_NEW_ARRAY(r->arena, rank, struct sp_dim);
    if (type->shape.dims == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t i = 0; i < rank; i++)
        type->shape.dims[i] = sp_dim_known(dims[i]);
    return SP_OK;
}

static enum sp_status read_initializer(struct sp_reader *r, const struct sp_wire_field *field, uint32_t *count)
{
    struct sp_graph *graph = top(r)->graph;
    struct sp_tensor *tensor = NULL;
    struct sp_sparse_tensor *sparse = NULL;
    struct sp_value *value;
    struct sp_name name;
    enum sp_status status = field->number == INITIALIZER ? sp_read_tensor(r, field->payload, &tensor)
                                                         : sp_read_sparse(r, field->payload, &sparse);
    if (status != SP_OK)
        return sp_reader_where(r, status);
    name.text = tensor != NULL ? tensor->name : sparse->values->name;
    if (name.text[0] == '\0')
        return sp_reader_fail(r, "UNNAMED_INITIALIZER", "Initializer %u of graph '%.80s' has no name.", *count,
                              graph->name);
    status = sp_reader_id(r, &name);
    if (status != SP_OK)
        return status;
    struct sp_scope_slot *slot = sp_scope_find(r, name);
    if (slot == NULL || slot->value->graph != graph)
        status = define(r, name, SP_VALUE_INITIALIZER, &value);
    else if (slot->value->kind == SP_VALUE_INPUT)
        value = slot->value; /* an input with a default; all initializers are that before IR 4 */
    else
        return sp_reader_fail(r, "DUPLICATE_NAME", "Graph '%.80s' has two initializers named '%.120s'.", graph->name,
                              name.text);
    if (status != SP_OK)
        return status;
    value->kind = SP_VALUE_INITIALIZER;
    value->tensor = tensor;
    value->sparse = sparse;
    graph->initializers[(*count)++] = value;
    if (tensor != NULL)
        return tensor_type(r, SP_TYPE_TENSOR, tensor->dtype, tensor->rank, tensor->dims, &value->type);
    return tensor_type(r, SP_TYPE_SPARSE_TENSOR, sparse->values->dtype, sparse->rank, sparse->dims, &value->type);
}

/* Inputs first, wherever they stand: an initializer of the same name is the input's default. */
static enum sp_status read_sources(struct sp_reader *r, struct sp_graph *graph)
{
    struct sp_wire_field field;
    uint32_t inputs = 0, initializers = 0;
    enum sp_status status;
    struct sp_wire wire = sp_wire_of(r->bytes, graph->span);
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == INPUT && (status = read_input(r, field.payload, &inputs)) != SP_OK)
            return status;
    }
    wire = sp_wire_of(r->bytes, graph->span);
    while (status == SP_OK && (status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == INITIALIZER || field.number == SPARSE_INITIALIZER)
            status = read_initializer(r, &field, &initializers);
    }
    return status;
}

static enum sp_status read_formals(struct sp_reader *r, struct sp_graph *graph)
{
    struct sp_wire wire = sp_wire_of(r->bytes, graph->span);
    struct sp_wire_field field;
    uint32_t count = 0;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        struct sp_name name;
        if (field.number != FUNCTION_INPUT)
            continue;
        if ((status = sp_reader_name(r, &field, &name)) != SP_OK)
            return status;
        if (name.id == SP_NO_NAME || sp_scope_find(r, name) != NULL)
            return sp_reader_fail(r, "DUPLICATE_NAME", "Input %u of function '%.80s' has no name of its own.", count,
                                  graph->name);
        if ((status = define(r, name, SP_VALUE_INPUT, &graph->inputs[count])) != SP_OK)
            return status;
        /* The call's types are not copied here: whoever infers the body does that. */
        r->slots[name.id].is_absent =
            r->call != NULL && (count >= r->call->input_count || r->call->inputs[count] == NULL);
        count++;
    }
    return status;
}

static enum sp_status open_graph(struct sp_reader *r, struct sp_graph *graph)
{
    if (r->depth > SP_MAX_NESTING) {
        sp_fail_limit(r->err, "NESTING_TOO_DEEP", "SP_MAX_NESTING", SP_MAX_NESTING, r->depth,
                      "Graphs are nested more than %d deep (limit SP_MAX_NESTING).", SP_MAX_NESTING);
        sp_error_at(r->err, "byte %" PRIu64, graph->span.offset);
        return SP_ERR_LIMIT;
    }
    struct sp_frame *frame = &r->frames[r->depth++];
    *frame = (struct sp_frame){.graph = graph,
                               .cursor = sp_wire_of(r->bytes, graph->span),
                               .undo_start = r->undo_count,
                               .capture_start = r->capture_count};
    graph->model = r->model;
    graph->name = "";
    graph->depth = graph->parent == NULL ? 0 : graph->parent->depth + 1;
    graph->opset_count = graph->parent != NULL ? graph->parent->opset_count : r->model->opset_count;
    graph->opsets = graph->parent != NULL ? graph->parent->opsets : r->model->opsets;
    if (is_body(r) && r->function->opset_count > 0) {
        graph->opset_count = r->function->opset_count;
        graph->opsets = r->function->opsets;
    }
    enum sp_status status = is_body(r) ? count_body_fields(r, graph) : count_fields(r, graph);
    if (status == SP_OK)
        status = allocate(r, graph);
    if (status == SP_OK)
        status = is_body(r) ? read_formals(r, graph) : read_sources(r, graph);
    return status;
}

/* ---- closing --------------------------------------------------------------------------------------------------- */

static enum sp_status add_output(struct sp_reader *r, struct sp_name name, uint32_t *count, struct sp_value **ret_value)
{
    struct sp_graph *graph = top(r)->graph;
    struct sp_scope_slot *slot = name.id == SP_NO_NAME ? NULL : sp_scope_find(r, name);
    if (slot == NULL)
        return sp_reader_fail(r, "UNDEFINED_OUTPUT", "Output %u of graph '%.80s' is '%.120s', which nothing defines.",
                              *count, graph->name, name.text);
    graph->outputs[(*count)++] = slot->value;
    *ret_value = slot->value;
    if (slot->value->graph == graph)
        slot->value->is_graph_output = true;
    return sp_scope_use(r, graph, slot);
}

/* An output (is_output) or value_info entry of a graph or function. */
static enum sp_status read_declaration(struct sp_reader *r, struct sp_span span, bool is_output, uint32_t *count)
{
    struct sp_graph *graph = top(r)->graph;
    struct sp_value *value = NULL;
    struct sp_span type = {0, 0};
    struct sp_name name;
    bool has_type;
    enum sp_status status = read_value_info(r, span, &name, &type, &has_type);
    if (status == SP_OK && is_output) {
        status = add_output(r, name, count, &value);
    } else if (status == SP_OK && name.id != SP_NO_NAME) {
        struct sp_scope_slot *slot = sp_scope_find(r, name);
        value = slot == NULL ? NULL : slot->value; /* entries about nothing do no harm */
    }
    if (status != SP_OK || value == NULL || value->graph != graph || !has_type)
        return status;
    /* The graph's signature outranks value_info; the first entry of a kind counts. */
    if (value->declared.kind != SP_TYPE_NONE && (!is_output || value->kind == SP_VALUE_INPUT))
        return SP_OK;
    return sp_read_type(r, type, &value->declared);
}

static enum sp_status read_declarations(struct sp_reader *r, struct sp_graph *graph)
{
    const bool body = is_body(r);
    const uint32_t output = body ? FUNCTION_OUTPUT : OUTPUT, info = body ? FUNCTION_VALUE_INFO : VALUE_INFO;
    struct sp_wire wire = sp_wire_of(r->bytes, graph->span);
    struct sp_wire_field field;
    struct sp_value *value;
    struct sp_name name;
    uint32_t count = 0;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == output && body) {
            if ((status = sp_reader_name(r, &field, &name)) == SP_OK)
                status = add_output(r, name, &count, &value);
        } else if (field.number == output || field.number == info) {
            status = read_declaration(r, field.payload, field.number == output, &count);
        }
        if (status != SP_OK)
            return status;
    }
    return status;
}

static enum sp_status lay_out_values(struct sp_reader *r, struct sp_graph *graph)
{
    graph->values = SP_NEW_ARRAY(r->arena, graph->value_count, struct sp_value *);
    if (graph->values == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t i = 0; i < graph->input_count; i++)
        graph->values[graph->inputs[i]->id] = graph->inputs[i];
    for (uint32_t i = 0; i < graph->initializer_count; i++)
        graph->values[graph->initializers[i]->id] = graph->initializers[i];
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct sp_node *node = &graph->nodes[i];
        for (uint32_t k = 0; k < node->output_count; k++) {
            if (node->outputs[k] != NULL)
                graph->values[node->outputs[k]->id] = node->outputs[k];
        }
    }
    return SP_OK;
}

static enum sp_status close_graph(struct sp_reader *r)
{
    struct sp_frame *frame = top(r);
    frame->node = NULL;
    enum sp_status status = read_declarations(r, frame->graph);
    if (status == SP_OK)
        status = lay_out_values(r, frame->graph);
    if (status == SP_OK)
        status = sp_scope_uses(r, frame);
    sp_scope_leave(r, frame);
    r->depth--;
    return status;
}

/* ---- walking --------------------------------------------------------------------------------------------------- */

/* The next subgraph of the frame's node, or NULL after the last. */
static struct sp_graph *next_subgraph(struct sp_frame *frame)
{
    const struct sp_node *node = frame->node;
    for (; frame->attribute < node->attribute_count; frame->attribute++, frame->item = 0) {
        const struct sp_attribute *attribute = &node->attributes[frame->attribute];
        while (attribute->graphs != NULL && frame->item < attribute->count) {
            struct sp_graph *graph = attribute->graphs[frame->item++];
            /* A graph that an expanded call passed in by reference was read where it stands. */
            if (graph->owner == node && graph->model == NULL)
                return graph;
        }
    }
    return NULL;
}

enum sp_status sp_define_output(struct sp_reader *r, struct sp_node *node, struct sp_name name, uint32_t position)
{
    struct sp_value *value;
    struct sp_scope_slot *slot = sp_scope_find(r, name);
    if (slot != NULL)
        return sp_reader_fail(r, slot->value->graph == node->graph ? "DUPLICATE_NAME" : "SHADOWED_NAME",
                              "Output %u is named '%.120s', but that name is already defined%s.", position, name.text,
                              slot->value->graph == node->graph ? "" : " in an enclosing graph");
    enum sp_status status = define(r, name, SP_VALUE_NODE_OUTPUT, &value);
    if (status != SP_OK)
        return status;
    value->producer = node;
    value->producer_output = position;
    node->outputs[position] = value;
    return SP_OK;
}

/* Finds the frame's next node and reads it up to its subgraphs; *ret_more is false at the end of the graph. */
static enum sp_status start_node(struct sp_reader *r, bool *ret_more)
{
    struct sp_frame *frame = top(r);
    const uint32_t number = is_body(r) ? FUNCTION_NODE : NODE;
    struct sp_wire_field field;
    enum sp_status status;
    do {
        status = sp_wire_next(&frame->cursor, &field, r->err);
        if (status != SP_OK)
            return status;
    } while (field.number != number && field.number != 0);
    *ret_more = field.number != 0;
    if (field.number == 0)
        return SP_OK;
    struct sp_node *node = &frame->graph->nodes[frame->next_node];
    node->index = frame->next_node++;
    node->graph = frame->graph;
    node->span = field.payload;
    node->name = node->op_type = node->domain = node->overload = "";
    frame->node = node;
    frame->attribute = frame->item = 0;
    status = sp_reader_tick(r, field.at);
    return status != SP_OK ? status : sp_reader_where(r, sp_read_node(r, node));
}

enum sp_status sp_read_graph(struct sp_reader *r, struct sp_graph *root)
{
    enum sp_status status = open_graph(r, root);
    while (status == SP_OK && r->depth > 0) {
        struct sp_frame *frame = top(r);
        struct sp_graph *subgraph = frame->node == NULL ? NULL : next_subgraph(frame);
        bool more = true;
        if (subgraph != NULL) {
            status = open_graph(r, subgraph);
            continue;
        }
        if (frame->node != NULL)
            status = sp_reader_where(r, sp_read_node_outputs(r, frame->node));
        if (status == SP_OK)
            status = start_node(r, &more);
        if (status == SP_OK && !more)
            status = close_graph(r);
    }
    return status;
}
