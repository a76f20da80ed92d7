/* A topological order of a graph's nodes, where the file has them in none. */
#include "base/array.h"
#include "onnx/read.h"

/* Graph, node and attribute for each nesting: what is deeper is refused when it is read. */
#define MAX_OPEN (3 * (SP_MAX_NESTING + 1))

enum kind { GRAPH, NODE, ATTRIBUTE, VALUE };

enum { NODE_ATTRIBUTE = 5, ATTRIBUTE_GRAPH = 6, ATTRIBUTE_GRAPHS = 11, VALUE_NAME = 1 };

static const struct {
    enum kind from;
    uint32_t field;
    enum kind to;
} steps[] = {
    {GRAPH, SP_GRAPH_NODE, NODE},        {GRAPH, SP_GRAPH_OUTPUT, VALUE},      {NODE, NODE_ATTRIBUTE, ATTRIBUTE},
    {ATTRIBUTE, ATTRIBUTE_GRAPH, GRAPH}, {ATTRIBUTE, ATTRIBUTE_GRAPHS, GRAPH},
};

struct order {
    struct sp_reader *r;
    struct sp_arena *arena;
    struct sp_intern *names; /* of the nodes' results, marked with 1 + the node */
    uint32_t count;
    struct sp_span *nodes;    /* as the file has them */
    uint32_t *first;          /* count + 1: a node's in `needs` */
    SP_ARRAY(uint32_t) needs; /* the nodes whose results a node uses, also in graphs inside it */
    struct sp_span *sorted;   /* in the reader's scratch arena */
    uint32_t sorted_count;
};

static enum sp_status find_nodes(struct order *order)
{
    const struct sp_reader *r = order->r;
    const uint32_t number = sp_reader_in_body(r) ? SP_FUNCTION_NODE : SP_GRAPH_NODE;
    struct sp_wire wire = r->frames[r->depth - 1].cursor;
    struct sp_wire_field field;
    enum sp_status status;
    uint32_t count = 0;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == number && count < order->count)
            order->nodes[count++] = field.payload;
    }
    return status;
}

static enum sp_status name_results(struct order *order)
{
    const struct sp_reader *r = order->r;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < order->count; i++) {
        struct sp_wire wire = sp_wire_of(r->bytes, order->nodes[i]);
        struct sp_wire_field field;
        while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
            if (field.number != SP_NODE_OUTPUT || field.type != SP_WIRE_LEN || field.payload.size == 0)
                continue;
            const char *bytes = (const char *)r->bytes + field.payload.offset;
            const char *name = sp_intern_text(order->names, bytes, field.payload.size);
            if (name == NULL)
                return sp_fail_memory(r->err);
            *sp_intern_mark(name) = (void *)(uintptr_t)(i + 1);
        }
    }
    return status;
}

static enum sp_status use(struct order *order, struct sp_span text)
{
    const struct sp_reader *r = order->r;
    const uint32_t id = sp_intern_find(order->names, (const char *)r->bytes + text.offset, text.size);
    if (id == SP_NO_NAME)
        return SP_OK;
    const uintptr_t node = (uintptr_t)*sp_intern_mark(sp_intern_name(order->names, id));
    return SP_PUSH(order->arena, &order->needs, (uint32_t)(node - 1)) ? SP_OK : sp_fail_memory(r->err);
}

/* Whatever stands in a node by name. A name of a result of this graph is no other's: it would be defined twice. */
static enum sp_status find_needs(struct order *order, struct sp_span node)
{
    const struct sp_reader *r = order->r;
    struct {
        enum kind kind;
        struct sp_wire wire;
    } open[MAX_OPEN];
    uint32_t depth = 1;
    enum sp_status status = SP_OK;
    open[0].kind = NODE;
    open[0].wire = sp_wire_of(r->bytes, node);
    while (status == SP_OK && depth > 0) {
        const enum kind kind = open[depth - 1].kind;
        struct sp_wire_field field;
        status = sp_wire_next(&open[depth - 1].wire, &field, r->err);
        if (status != SP_OK || field.number == 0) {
            depth--;
            continue;
        }
        if (field.type != SP_WIRE_LEN)
            continue;
        if ((kind == NODE && field.number == SP_NODE_INPUT) || (kind == VALUE && field.number == VALUE_NAME))
            status = use(order, field.payload);
        for (size_t i = 0; i < sizeof steps / sizeof steps[0] && depth < MAX_OPEN; i++) {
            if (steps[i].from != kind || steps[i].field != field.number)
                continue;
            open[depth].kind = steps[i].to;
            open[depth++].wire = sp_wire_of(r->bytes, field.payload);
            break;
        }
    }
    return status;
}

/* Each node follows what it needs, and stays where it is in the file where that comes before it anyway. Of a cycle some
   node comes before what it needs; reading it fails. */
static enum sp_status sort(struct order *order)
{
    enum { NEW, OPEN, DONE };
    unsigned char *state = SP_NEW_ARRAY(order->arena, order->count, unsigned char);
    uint32_t *stack = SP_NEW_ARRAY(order->arena, order->count, uint32_t);
    uint32_t *next = SP_NEW_ARRAY(order->arena, order->count, uint32_t);
    if (state == NULL || stack == NULL || next == NULL)
        return sp_fail_memory(order->r->err);
    for (uint32_t root = 0; root < order->count; root++) {
        uint32_t depth = 0;
        if (state[root] == NEW) {
            state[root] = OPEN;
            stack[depth++] = root;
        }
        while (depth > 0) {
            const uint32_t node = stack[depth - 1];
            const uint32_t at = order->first[node] + next[node];
            if (order->needs.items == NULL || at == order->first[node + 1]) {
                state[node] = DONE;
                order->sorted[order->sorted_count++] = order->nodes[node];
                depth--;
                continue;
            }
            next[node]++;
            if (state[order->needs.items[at]] == NEW) {
                state[order->needs.items[at]] = OPEN;
                stack[depth++] = order->needs.items[at];
            }
        }
    }
    return SP_OK;
}

static enum sp_status make(struct order *order)
{
    struct sp_reader *r = order->r;
    order->names = sp_intern_create(order->arena, r->model->hash_seed);
    order->nodes = SP_NEW_ARRAY(order->arena, order->count, struct sp_span);
    order->first = SP_NEW_ARRAY(order->arena, (size_t)order->count + 1, uint32_t);
    order->sorted = SP_NEW_ARRAY(r->scratch, order->count, struct sp_span);
    if (order->names == NULL || order->nodes == NULL || order->first == NULL || order->sorted == NULL)
        return sp_fail_memory(r->err);
    enum sp_status status = find_nodes(order);
    if (status == SP_OK)
        status = name_results(order);
    for (uint32_t i = 0; status == SP_OK && i < order->count; i++) {
        status = find_needs(order, order->nodes[i]);
        order->first[i + 1] = order->needs.count;
    }
    return status == SP_OK ? sort(order) : status;
}

enum sp_status sp_read_order(struct sp_reader *r, const struct sp_span **ret_order)
{
    struct order order = {.r = r, .count = sp_reader_top(r)->graph->node_count};
    order.arena = sp_arena_create(sp_arena_budget(r->arena));
    enum sp_status status = order.arena == NULL ? sp_fail_memory(r->err) : make(&order);
    bool is_same = true;
    for (uint32_t i = 1; status == SP_OK && order.sorted != NULL && i < order.count; i++)
        is_same = is_same && order.sorted[i - 1].offset < order.sorted[i].offset;
    if (status == SP_OK)
        *ret_order = is_same ? NULL : order.sorted;
    sp_arena_destroy(order.arena);
    return status;
}
