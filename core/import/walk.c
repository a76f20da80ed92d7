/* The nodes behind a value or node, towards the inputs, that nothing has taken yet. */
#include "import/internal.h"

enum sp_status sp_import_walk(struct sp_import_reader *reader, struct sp_import_walk *walk, const struct sp_node *node,
                              uint32_t place)
{
    const struct sp_graph *graph = reader->model->graph;
    if (walk->stack == NULL && (walk->stack = SP_NEW_ARRAY(reader->arena, graph->node_count, uint32_t)) == NULL)
        return sp_fail_memory(reader->err);
    uint32_t depth = 0;
    if (reader->place_of[node->index] != SP_NOT_PLACED)
        return SP_OK;
    reader->place_of[node->index] = place;
    walk->stack[depth++] = node->index;
    while (depth > 0) {
        const struct sp_node *at = &graph->nodes[walk->stack[--depth]];
        for (uint32_t i = 0; i < at->input_count; i++) {
            const struct sp_value *value = at->inputs[i];
            const struct sp_node *from = value != NULL ? value->producer : NULL;
            if (from == NULL || from->graph != graph || reader->place_of[from->index] != SP_NOT_PLACED ||
                (walk->is_border != NULL && walk->is_border[value->id] == walk->border))
                continue;
            reader->place_of[from->index] = place; /* marked as it is put there: each node is in the stack once */
            walk->stack[depth++] = from->index;
        }
    }
    return SP_OK;
}
