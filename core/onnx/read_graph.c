#include <inttypes.h>
#include <string.h>

#include "onnx/read.h"

/* A node needs an operator type (3 bytes) and an input or output (2 bytes). */
#define SMALLEST_NODE 5

/* ---- opening --------------------------------------------------------------------------------------------------- */

/* Later walks over fields of one kind begin at the first of them and end behind the last. */
static void extend(struct sp_wire *range, const struct sp_wire *wire, const struct sp_wire_field *field)
{
    if (range->bytes == NULL)
        *range = (struct sp_wire){wire->bytes, field->at, wire->at};
    range->end = wire->at;
}

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
    struct sp_frame *frame = sp_reader_top(r);
    struct sp_wire wire = sp_wire_of(r->bytes, graph->span);
    struct sp_wire_field field;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        switch (field.number) {
        case SP_GRAPH_NODE:
            extend(&frame->cursor, &wire, &field);
            status = count_node(r, &field, graph);
            break;
        case SP_GRAPH_NAME:
            status = sp_reader_text(r, &field, &graph->name);
            break;
        case SP_GRAPH_INITIALIZER:
        case SP_GRAPH_SPARSE_INITIALIZER:
            extend(&frame->initializers, &wire, &field);
            status = sp_reader_message(r, &field);
            graph->initializer_count++;
            break;
        case SP_GRAPH_INPUT:
            extend(&frame->inputs, &wire, &field);
            status = sp_reader_message(r, &field);
            graph->input_count++;
            break;
        case SP_GRAPH_OUTPUT:
            extend(&frame->declarations, &wire, &field);
            status = sp_reader_message(r, &field);
            graph->output_count++;
            break;
        case SP_GRAPH_VALUE_INFO:
            extend(&frame->declarations, &wire, &field);
            status = sp_reader_message(r, &field);
            break;
        case SP_GRAPH_DOC_STRING:
        case SP_GRAPH_QUANTIZATION:
        case SP_GRAPH_METADATA_PROPS:
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
    struct sp_frame *frame = sp_reader_top(r);
    struct sp_wire wire = sp_wire_of(r->bytes, graph->span);
    struct sp_wire_field field;
    enum sp_status status;
    frame->cursor = frame->inputs = frame->declarations = wire;
    graph->name = r->function->name;
    graph->input_count = r->function->input_count;
    graph->output_count = r->function->output_count;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == SP_FUNCTION_NODE)
            status = count_node(r, &field, graph);
        else if (field.number == SP_FUNCTION_VALUE_INFO)
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

/* Nodes, initializers and inputs name about one value each. Where they are smaller than those of exporters, somebody
   made them for their number, and gets no room in advance. */
#define USUAL_NODE 32

static void reserve_names(struct sp_reader *r, const struct sp_graph *graph)
{
    const uint64_t names = (uint64_t)graph->node_count + graph->initializer_count + graph->input_count;
    const uint64_t most = graph->span.size / USUAL_NODE;
    sp_intern_reserve(r->model->names, (uint32_t)(names < most ? names : most));
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
    *frame = (struct sp_frame){.graph = graph, .undo_start = r->undo_count, .capture_start = r->capture_count};
    graph->model = r->model;
    graph->name = "";
    graph->depth = graph->parent == NULL ? 0 : graph->parent->depth + 1;
    graph->opset_count = graph->parent != NULL ? graph->parent->opset_count : r->model->opset_count;
    graph->opsets = graph->parent != NULL ? graph->parent->opsets : r->model->opsets;
    if (sp_reader_in_body(r) && r->function->opset_count > 0) {
        graph->opset_count = r->function->opset_count;
        graph->opsets = r->function->opsets;
    }
    enum sp_status status = sp_reader_in_body(r) ? count_body_fields(r, graph) : count_fields(r, graph);
    if (status == SP_OK)
        status = allocate(r, graph);
    if (status == SP_OK && r->function == NULL && graph->parent == NULL)
        reserve_names(r, graph);
    if (status == SP_OK && r->model->is_sorted)
        status = sp_read_order(r, &frame->sorted);
    if (status == SP_OK)
        status = sp_reader_in_body(r) ? sp_read_formals(r, graph) : sp_read_sources(r);
    return status;
}

/* ---- closing --------------------------------------------------------------------------------------------------- */

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
    struct sp_frame *frame = sp_reader_top(r);
    frame->node = NULL;
    enum sp_status status = sp_read_declarations(r);
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

#define MANY_NAMES  8192 /* fewer are in a cache anyway */
#define AHEAD_NAMES 8

/* While this node is read, the places of the next one's names come from memory: in a large model most of the time goes
   into waiting for them. */
static void fetch_ahead(struct sp_reader *r, struct sp_wire next)
{
    struct sp_wire_field field;
    if (sp_intern_count(r->model->names) < MANY_NAMES || sp_wire_next(&next, &field, NULL) != SP_OK ||
        field.number == 0 || field.type != SP_WIRE_LEN)
        return;
    struct sp_wire wire = sp_wire_of(r->bytes, field.payload);
    for (int i = 0; i < AHEAD_NAMES && sp_wire_next(&wire, &field, NULL) == SP_OK; i++) {
        const bool is_operand = field.number == SP_NODE_INPUT || field.number == SP_NODE_OUTPUT;
        if (!is_operand || field.type != SP_WIRE_LEN || field.payload.size > SP_MAX_NAME_BYTES)
            return;
        (void)sp_intern_hash(r->model->names, (const char *)r->bytes + field.payload.offset, field.payload.size);
    }
}

/* Where the frame's next node lies; an offset of 0 at the end of the graph. */
static enum sp_status next_node(struct sp_reader *r, struct sp_frame *frame, struct sp_span *ret_payload)
{
    const uint32_t number = sp_reader_in_body(r) ? SP_FUNCTION_NODE : SP_GRAPH_NODE;
    struct sp_wire_field field;
    enum sp_status status;
    *ret_payload = (struct sp_span){0, 0};
    if (frame->sorted != NULL) {
        if (frame->next_node < frame->graph->node_count)
            *ret_payload = frame->sorted[frame->next_node];
        return SP_OK;
    }
    do {
        status = sp_wire_next(&frame->cursor, &field, r->err);
        if (status != SP_OK)
            return status;
    } while (field.number != number && field.number != 0);
    if (field.number != 0)
        *ret_payload = field.payload;
    return SP_OK;
}

/* Finds the frame's next node and reads it up to its subgraphs; *ret_more is false at the end of the graph. */
static enum sp_status start_node(struct sp_reader *r, bool *ret_more)
{
    struct sp_frame *frame = sp_reader_top(r);
    struct sp_span payload;
    enum sp_status status = next_node(r, frame, &payload);
    if (status != SP_OK)
        return status;
    *ret_more = payload.offset != 0;
    if (!*ret_more)
        return SP_OK;
    struct sp_node *node = &frame->graph->nodes[frame->next_node];
    node->index = frame->next_node++;
    if (frame->sorted == NULL)
        fetch_ahead(r, frame->cursor);
    node->graph = frame->graph;
    node->span = payload;
    node->name = node->op_type = node->domain = node->overload = "";
    frame->node = node;
    frame->attribute = frame->item = 0;
    status = sp_reader_tick(r, payload.offset);
    return status != SP_OK ? status : sp_reader_where(r, sp_read_node(r, node));
}

enum sp_status sp_read_graph(struct sp_reader *r, struct sp_graph *root)
{
    enum sp_status status = open_graph(r, root);
    while (status == SP_OK && r->depth > 0) {
        struct sp_frame *frame = sp_reader_top(r);
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
