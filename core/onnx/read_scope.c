
#include "base/array.h"
#include "onnx/read.h"

/* The names of the main graph are never taken out of scope: it is the last that is read with them
   (sp_scope_clear()). */
static bool is_kept(const struct sp_reader *r)
{
    return r->function == NULL && r->depth == 1;
}

enum sp_status sp_scope_define(struct sp_reader *r, struct sp_name name, struct sp_value *value)
{
    if (!is_kept(r)) {
        if (!SP_MAKE_ROOM(NULL, r->undo, r->undo_count, r->undo_capacity, 1))
            return sp_fail_memory(r->err);
        r->undo[r->undo_count++] = (struct sp_scope_undo){name.scope, *name.scope};
    }
    *name.scope = value;
    return SP_OK;
}

enum sp_status sp_scope_use(struct sp_reader *r, struct sp_graph *graph, struct sp_value *value)
{
    if (value->graph == graph)
        return SP_OK; /* a plain use: counted when the graph is complete */
    /* The node of value->graph below which we are. Every graph on the way has an owner: the value was visible. */
    while (graph->parent != value->graph)
        graph = graph->parent;
    struct sp_node *node = graph->owner;
    if (value->captured_by == node->index + 1)
        return SP_OK;
    if (!SP_MAKE_ROOM(NULL, r->captures, r->capture_count, r->capture_capacity, 1))
        return sp_fail_memory(r->err);
    r->captures[r->capture_count++] = (struct sp_capture){value, node};
    value->captured_by = node->index + 1;
    value->use_count++;
    return SP_OK;
}

void sp_scope_leave(struct sp_reader *r, const struct sp_frame *frame)
{
    while (r->undo_count > frame->undo_start) {
        const struct sp_scope_undo *undo = &r->undo[--r->undo_count];
        *undo->scope = undo->value;
    }
}

void sp_scope_clear(const struct sp_model *model)
{
    for (uint32_t i = 0; i < sp_intern_count(model->names); i++)
        *sp_intern_mark(sp_intern_name(model->names, i)) = NULL;
}

/* Uses were counted as they were read; here they are laid out in one array, in the order of nodes and positions. Filled
   from the back, so that `uses` ends up at each value's first. */
enum sp_status sp_scope_uses(struct sp_reader *r, const struct sp_frame *frame)
{
    struct sp_graph *graph = frame->graph;
    uint32_t kept = frame->capture_start, capture = r->capture_count;
    uint64_t total = 0;
    for (uint32_t i = 0; i < graph->value_count; i++)
        total += graph->values[i]->use_count;
    struct sp_use *uses = total == 0 ? NULL : SP_NEW_ARRAY(r->arena, total, struct sp_use);
    if (total > 0 && uses == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t i = 0; uses != NULL && i < graph->value_count; i++) {
        struct sp_value *value = graph->values[i];
        uses += value->use_count;
        value->uses = value->use_count == 0 ? NULL : uses;
    }
    for (uint32_t i = graph->node_count; i-- > 0;) {
        struct sp_node *node = &graph->nodes[i];
        /* Captures were recorded node by node, so those of this graph come in its order; others are for outer
           graphs. */
        for (; capture > frame->capture_start; capture--) {
            const struct sp_capture *found = &r->captures[capture - 1];
            if (found->value->graph == graph && found->node != node)
                break;
            if (found->value->graph == graph)
                *--found->value->uses = (struct sp_use){node, UINT32_MAX};
        }
        for (uint32_t k = node->input_count; k-- > 0;) {
            struct sp_value *value = node->inputs[k];
            if (value != NULL && value->graph == graph)
                *--value->uses = (struct sp_use){node, k};
        }
    }
    for (uint32_t i = kept; i < r->capture_count; i++) {
        if (r->captures[i].value->graph != graph)
            r->captures[kept++] = r->captures[i];
    }
    r->capture_count = kept;
    return SP_OK;
}
