#include <string.h>

#include "onnx/read.h"

/* Makes a value of this graph and brings its name into scope; NULL, with the status, when that fails. */
static struct sp_value *define(struct sp_reader *r, struct sp_name name, enum sp_value_kind kind,
                               enum sp_status *ret_status)
{
    struct sp_graph *graph = sp_reader_top(r)->graph;
    struct sp_value *value = SP_NEW(r->arena, struct sp_value);
    uint64_t local = 0;
    if (value == NULL) {
        *ret_status = sp_fail_memory(r->err);
        return NULL;
    }
    *ret_status = sp_reader_count(r, r->counting ? &r->model->counts.values : &local, 1, "SP_MAX_VALUES", SP_MAX_VALUES,
                                  "values");
    if (*ret_status != SP_OK)
        return NULL;
    value->name = name.text;
    value->id = graph->value_count++;
    value->kind = kind;
    value->graph = graph;
    *ret_status = sp_scope_define(r, name, value);
    return *ret_status == SP_OK ? value : NULL;
}

/* The parts of a ValueInfoProto; its documentation is passed over. */
static enum sp_status read_value_info(struct sp_reader *r, struct sp_span span, struct sp_name *ret_name,
                                      struct sp_span *ret_type, bool *ret_has_type,
                                      struct sp_metadata_list **ret_metadata)
{
    struct sp_wire wire = sp_wire_of(r->bytes, span);
    struct sp_wire_field field;
    enum sp_status status;
    *ret_name = (struct sp_name){"", NULL};
    *ret_has_type = false;
    *ret_metadata = NULL;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == 1)
            status = sp_reader_name(r, &field, ret_name);
        else if (field.number == 2 && (status = sp_reader_single(r, &field, ret_has_type)) == SP_OK)
            *ret_type = field.payload;
        else if (field.number == 4)
            status = sp_read_metadata_entry(r, &field, ret_metadata);
        else if (field.number > 4)
            status = sp_reader_unknown(r, &field);
        if (status != SP_OK)
            return status;
    }
    return status;
}

static enum sp_status read_input(struct sp_reader *r, struct sp_span span, uint32_t *count)
{
    struct sp_graph *graph = sp_reader_top(r)->graph;
    struct sp_span type = {0, 0};
    struct sp_name name = {"", NULL};
    bool has_type = false;
    struct sp_metadata_list *metadata = NULL;
    enum sp_status status = read_value_info(r, span, &name, &type, &has_type, &metadata);
    if (status != SP_OK)
        return status;
    if (name.scope == NULL)
        return sp_reader_fail(r, "UNNAMED_INPUT", "Input %u of graph '%.80s' has no name.", *count, graph->name);
    struct sp_value *value = sp_scope_find(name);
    if (value != NULL && value->graph == graph)
        return sp_reader_fail(r, "DUPLICATE_NAME", "Graph '%.80s' has two inputs named '%.120s'.", graph->name,
                              name.text);
    value = define(r, name, SP_VALUE_INPUT, &status);
    if (value == NULL)
        return status;
    if (has_type)
        status = sp_read_type(r, type, &value->declared);
    if (status != SP_OK)
        return status;
    value->type = value->declared;
    value->metadata = metadata;
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

/* Another initializer of the name of one. ONNX Runtime 1.30 loads them where both are alike; it takes the last, or the
   sparse one, of small tensors, and of large ones, which it keeps apart, others. */
static enum sp_status list_again(struct sp_reader *r, struct sp_value *value, struct sp_tensor *tensor,
                                 struct sp_sparse_tensor *sparse)
{
    const uint32_t rank = tensor != NULL ? tensor->rank : sparse->rank;
    const int64_t *dims = tensor != NULL ? tensor->dims : sparse->dims;
    const enum sp_dtype dtype = tensor != NULL ? tensor->dtype : sparse->values->dtype;
    bool is_alike = dtype == value->type.dtype && rank == value->type.shape.rank;
    for (uint32_t i = 0; is_alike && i < rank; i++)
        is_alike = value->type.shape.dims[i].value == dims[i];
    if (!is_alike || (sparse != NULL && value->sparse != NULL))
        return sp_reader_fail(r, "DUPLICATE_NAME",
                              "Graph '%.80s' has two initializers named '%.120s' that differ in type or shape, or are "
                              "both sparse.",
                              value->graph->name, value->name);
    value->is_listed_again = r->model->lists_again = true;
    if (value->sparse != NULL)
        return SP_OK;
    value->tensor = tensor;
    value->sparse = sparse;
    value->type.kind = sparse != NULL ? SP_TYPE_SPARSE_TENSOR : SP_TYPE_TENSOR;
    return SP_OK;
}

static enum sp_status read_initializer(struct sp_reader *r, const struct sp_wire_field *field, uint32_t *count)
{
    struct sp_graph *graph = sp_reader_top(r)->graph;
    struct sp_tensor *tensor = NULL;
    struct sp_sparse_tensor *sparse = NULL;
    struct sp_value *value = NULL;
    struct sp_name name = {"", NULL};
    enum sp_status status = field->number == SP_GRAPH_INITIALIZER ? sp_read_tensor(r, field->payload, &tensor)
                                                                  : sp_read_sparse(r, field->payload, &sparse);
    if (tensor == NULL && sparse == NULL)
        return sp_reader_where(r, status);
    name.text = tensor != NULL ? tensor->name : sparse->values->name;
    if (name.text[0] == '\0')
        return sp_reader_fail(r, "UNNAMED_INITIALIZER", "Initializer %u of graph '%.80s' has no name.", *count,
                              graph->name);
    status = sp_reader_scope(r, &name);
    if (status != SP_OK)
        return status;
    struct sp_value *known = sp_scope_find(name);
    if (known == NULL || known->graph != graph)
        value = define(r, name, SP_VALUE_INITIALIZER, &status);
    else if (known->kind == SP_VALUE_INPUT)
        value = known; /* an input with a default; all initializers are that before IR 4 */
    else
        return list_again(r, known, tensor, sparse);
    if (value == NULL)
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
enum sp_status sp_read_sources(struct sp_reader *r)
{
    struct sp_wire_field field;
    uint32_t inputs = 0, initializers = 0;
    enum sp_status status;
    struct sp_wire wire = sp_reader_top(r)->inputs;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == SP_GRAPH_INPUT && (status = read_input(r, field.payload, &inputs)) != SP_OK)
            return status;
    }
    wire = sp_reader_top(r)->initializers;
    while (status == SP_OK && (status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == SP_GRAPH_INITIALIZER || field.number == SP_GRAPH_SPARSE_INITIALIZER)
            status = read_initializer(r, &field, &initializers);
    }
    sp_reader_top(r)->graph->initializer_count = initializers;
    return status;
}

enum sp_status sp_read_formals(struct sp_reader *r, struct sp_graph *graph)
{
    struct sp_wire wire = sp_reader_top(r)->inputs;
    struct sp_wire_field field;
    uint32_t count = 0;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        struct sp_name name;
        if (field.number != SP_FUNCTION_INPUT)
            continue;
        if ((status = sp_reader_name(r, &field, &name)) != SP_OK)
            return status;
        if (name.scope == NULL || sp_scope_find(name) != NULL)
            return sp_reader_fail(r, "DUPLICATE_NAME", "Input %u of function '%.80s' has no name of its own.", count,
                                  graph->name);
        if ((graph->inputs[count] = define(r, name, SP_VALUE_INPUT, &status)) == NULL)
            return status;
        /* The call's types are not copied here: whoever infers the body does that. */
        graph->inputs[count]->is_absent =
            r->call != NULL && (count >= r->call->input_count || r->call->inputs[count] == NULL);
        count++;
    }
    return status;
}

enum sp_status sp_define_output(struct sp_reader *r, struct sp_node *node, struct sp_name name, uint32_t position)
{
    const struct sp_value *known = sp_scope_find(name);
    if (known != NULL)
        return sp_reader_fail(r, known->graph == node->graph ? "DUPLICATE_NAME" : "SHADOWED_NAME",
                              "Output %u is named '%.120s', but that name is already defined%s.", position, name.text,
                              known->graph == node->graph ? "" : " in an enclosing graph");
    enum sp_status status;
    struct sp_value *value = define(r, name, SP_VALUE_NODE_OUTPUT, &status);
    if (value == NULL)
        return status;
    value->producer = node;
    value->producer_output = position;
    node->outputs[position] = value;
    return SP_OK;
}

static enum sp_status add_output(struct sp_reader *r, struct sp_name name, uint32_t *count, struct sp_value **ret_value)
{
    struct sp_graph *graph = sp_reader_top(r)->graph;
    struct sp_value *value = name.scope == NULL ? NULL : sp_scope_find(name);
    if (value == NULL)
        return sp_reader_fail(r, "UNDEFINED_OUTPUT", "Output %u of graph '%.80s' is '%.120s', which nothing defines.",
                              *count, graph->name, name.text);
    graph->outputs[(*count)++] = value;
    *ret_value = value;
    if (value->graph == graph)
        value->is_graph_output = true;
    return sp_scope_use(r, graph, value);
}

/* An output (is_output) or value_info entry of a graph or function. */
static enum sp_status read_declaration(struct sp_reader *r, struct sp_span span, bool is_output, uint32_t *count)
{
    struct sp_graph *graph = sp_reader_top(r)->graph;
    struct sp_value *value = NULL;
    struct sp_span type = {0, 0};
    struct sp_name name;
    bool has_type;
    struct sp_metadata_list *metadata;
    enum sp_status status = read_value_info(r, span, &name, &type, &has_type, &metadata);
    if (status == SP_OK && is_output) {
        status = add_output(r, name, count, &value);
    } else if (status == SP_OK && name.scope != NULL) {
        value = sp_scope_find(name); /* NULL: entries about nothing do no harm */
    }
    if (status != SP_OK || value == NULL || value->graph != graph)
        return status;
    if (value->metadata == NULL)
        value->metadata = metadata;
    if (!has_type)
        return SP_OK;
    /* The graph's signature outranks value_info; the first entry of a kind counts. */
    if (value->declared.kind != SP_TYPE_NONE && (!is_output || value->kind == SP_VALUE_INPUT))
        return SP_OK;
    return sp_read_type(r, type, &value->declared);
}

enum sp_status sp_read_declarations(struct sp_reader *r)
{
    const bool body = sp_reader_in_body(r);
    const uint32_t output = body ? SP_FUNCTION_OUTPUT : SP_GRAPH_OUTPUT,
                   info = body ? SP_FUNCTION_VALUE_INFO : SP_GRAPH_VALUE_INFO;
    struct sp_wire wire = sp_reader_top(r)->declarations;
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
