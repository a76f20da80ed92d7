/* What the graphs of a node use of the graphs around it. */
#include "partition/node_internal.h"

#include "base/array.h"

bool sp_part_has_graphs(const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->attribute_count; i++)
        if (node->attributes[i].type == SP_ATTR_GRAPH || node->attributes[i].type == SP_ATTR_GRAPHS)
            return true;
    return false;
}

/* Graphs that are still to be looked at. */
struct pile {
    struct sp_arena *arena;
    uint32_t count, capacity;
    const struct sp_graph **graphs;
};

static bool push(struct pile *pile, const struct sp_graph *graph)
{
    if (!SP_MAKE_ROOM(pile->arena, pile->graphs, pile->count, pile->capacity, 1))
        return false;
    pile->graphs[pile->count++] = graph;
    return true;
}

static bool push_graphs(struct pile *pile, const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->attribute_count; i++)
        for (uint32_t g = 0; sp_part_has_graphs(node) && g < node->attributes[i].count; g++)
            if ((node->attributes[i].type == SP_ATTR_GRAPH || node->attributes[i].type == SP_ATTR_GRAPHS) &&
                !push(pile, node->attributes[i].graphs[g]))
                return false;
    return true;
}

enum sp_status sp_part_graphs_inside(struct sp_partitioner *part, const struct sp_node *node, uint32_t *ret_count,
                                     const struct sp_graph ***ret_graphs)
{
    struct pile pile = {.arena = part->scratch};
    bool is_ok = push_graphs(&pile, node);
    for (uint32_t at = 0; at < pile.count && is_ok; at++)
        for (uint32_t n = 0; n < pile.graphs[at]->node_count && is_ok; n++) {
            const struct sp_node *inner = &pile.graphs[at]->nodes[n];
            is_ok = inner->body != NULL ? push(&pile, inner->body) : push_graphs(&pile, inner);
        }
    if (!is_ok)
        return sp_fail_memory(part->err);
    *ret_count = pile.count;
    *ret_graphs = pile.graphs;
    return SP_OK;
}

/* Whether a graph is the node's, or around it. */
static bool is_outside(const struct sp_node *node, const struct sp_graph *graph)
{
    for (const struct sp_graph *at = node->graph; at != NULL; at = at->parent)
        if (at == graph)
            return true;
    return false;
}

struct found {
    struct sp_arena *arena;
    uint32_t count, capacity;
    const struct sp_value **values;
};

static bool add_value(struct found *found, const struct sp_node *node, const struct sp_value *value)
{
    if (value == NULL || !is_outside(node, value->graph))
        return true;
    for (uint32_t i = 0; i < found->count; i++)
        if (found->values[i] == value)
            return true;
    if (!SP_MAKE_ROOM(found->arena, found->values, found->count, found->capacity, 1))
        return false;
    found->values[found->count++] = value;
    return true;
}

enum sp_status sp_part_captured(struct sp_partitioner *part, const struct sp_node *node, uint32_t *ret_count,
                                const struct sp_value ***ret_values)
{
    struct pile pile = {.arena = part->scratch};
    struct found found = {.arena = part->scratch};
    bool is_ok = push_graphs(&pile, node);
    while (is_ok && pile.count > 0) {
        const struct sp_graph *graph = pile.graphs[--pile.count];
        for (uint32_t n = 0; n < graph->node_count && is_ok; n++) {
            for (uint32_t i = 0; i < graph->nodes[n].input_count && is_ok; i++)
                is_ok = add_value(&found, node, graph->nodes[n].inputs[i]);
            is_ok = is_ok && push_graphs(&pile, &graph->nodes[n]);
        }
        for (uint32_t i = 0; i < graph->output_count && is_ok; i++)
            is_ok = add_value(&found, node, graph->outputs[i]);
    }
    if (!is_ok)
        return sp_fail_memory(part->err);
    *ret_count = found.count;
    *ret_values = found.values;
    return SP_OK;
}
