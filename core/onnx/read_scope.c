#include <string.h>

#include "onnx/read.h"

struct sp_scope_slot *sp_scope_find(struct sp_reader *r, struct sp_name name)
{
    struct sp_scope_slot *slot = &r->slots[name.id];
    return slot->value == NULL ? NULL : slot;
}

enum sp_status sp_scope_define(struct sp_reader *r, struct sp_name name, struct sp_value *value)
{
    if (!sp_grow((void **)&r->undo, &r->undo_capacity, r->undo_count, sizeof *r->undo))
        return sp_fail_memory(r->err);
    r->undo[r->undo_count++] = (struct sp_scope_undo){name.id, r->slots[name.id]};
    r->slots[name.id] = (struct sp_scope_slot){.value = value};
    return SP_OK;
}

enum sp_status sp_scope_use(struct sp_reader *r, struct sp_graph *graph, struct sp_scope_slot *slot)
{
    struct sp_value *value = slot->value;
    if (value->graph == graph)
        return SP_OK; /* a plain use: counted when the graph is complete */
    /* The node of value->graph below which we are. Every graph on the way has an owner: the value was visible. */
    while (graph->parent != value->graph)
        graph = graph->parent;
    struct sp_node *node = graph->owner;
    if (slot->captured_by == node)
        return SP_OK;
    if (!sp_grow((void **)&r->captures, &r->capture_capacity, r->capture_count, sizeof *r->captures))
        return sp_fail_memory(r->err);
    r->captures[r->capture_count++] = (struct sp_capture){value, node};
    slot->captured_by = node;
    return SP_OK;
}

void sp_scope_leave(struct sp_reader *r, const struct sp_frame *frame)
{
    while (r->undo_count > frame->undo_start) {
        const struct sp_scope_undo *undo = &r->undo[--r->undo_count];
        r->slots[undo->id] = undo->slot;
    }
}

/* Calls use(value, node, input) for every use of the graph's own values, in the order of nodes and positions. */
static void visit_uses(struct sp_reader *r, const struct sp_frame *frame,
                       void (*use)(struct sp_value *value, struct sp_node *node, uint32_t input))
{
    struct sp_graph *graph = frame->graph;
    uint32_t capture = frame->capture_start;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        struct sp_node *node = &graph->nodes[i];
        for (uint32_t k = 0; k < node->input_count; k++) {
            if (node->inputs[k] != NULL && node->inputs[k]->graph == graph)
                use(node->inputs[k], node, k);
        }
        /* Captures were recorded node by node, so those of this graph come in its order; others are for outer graphs.
         */
        for (; capture < r->capture_count; capture++) {
            const struct sp_capture *found = &r->captures[capture];
            if (found->value->graph == graph && found->node != node)
                break;
            if (found->value->graph == graph)
                use(found->value, node, UINT32_MAX);
        }
    }
}

static void count_use(struct sp_value *value, struct sp_node *node, uint32_t input)
{
    (void)node;
    (void)input;
    value->use_count++;
}

static void add_use(struct sp_value *value, struct sp_node *node, uint32_t input)
{
    value->uses[value->use_count++] = (struct sp_use){node, input};
}

enum sp_status sp_scope_uses(struct sp_reader *r, const struct sp_frame *frame)
{
    struct sp_graph *graph = frame->graph;
    uint32_t kept = frame->capture_start;
    visit_uses(r, frame, count_use);
    for (uint32_t i = 0; i < graph->value_count; i++) {
        struct sp_value *value = graph->values[i];
        value->uses = value->use_count == 0 ? NULL : SP_NEW_ARRAY(r->arena, value->use_count, struct sp_use);
        if (value->use_count > 0 && value->uses == NULL)
            return sp_fail_memory(r->err);
        value->use_count = 0;
    }
    visit_uses(r, frame, add_use);
    for (uint32_t i = kept; i < r->capture_count; i++) {
        if (r->captures[i].value->graph != graph)
            r->captures[kept++] = r->captures[i];
    }
    r->capture_count = kept;
    return SP_OK;
}
