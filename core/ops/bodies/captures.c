#include "ops/bodies/captures.h"

#include "base/array.h"
#include "base/hash_map.h"
#include "ops/bodies/control.h"

static bool holds_graphs(const struct sp_attribute *attribute)
{
    return attribute->type == SP_ATTR_GRAPH || attribute->type == SP_ATTR_GRAPHS;
}

bool sp_has_graphs(const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->attribute_count; i++)
        if (holds_graphs(&node->attributes[i]))
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
        for (uint32_t g = 0; holds_graphs(&node->attributes[i]) && g < node->attributes[i].count; g++)
            if (!push(pile, node->attributes[i].graphs[g]))
                return false;
    return true;
}

/* The graphs that may run. */
static bool push_first(struct pile *pile, const struct sp_node *node)
{
    const struct sp_graph *branch = sp_control_branch(node);
    return branch != NULL ? push(pile, branch) : push_graphs(pile, node);
}

bool sp_graphs_inside(struct sp_arena *arena, const struct sp_node *node, uint32_t *ret_count,
                      const struct sp_graph ***ret_graphs)
{
    struct pile pile = {.arena = arena};
    bool is_ok = push_first(&pile, node);
    for (uint32_t at = 0; at < pile.count && is_ok; at++)
        for (uint32_t n = 0; n < pile.graphs[at]->node_count && is_ok; n++) {
            const struct sp_node *inner = &pile.graphs[at]->nodes[n];
            is_ok = inner->body != NULL ? push(&pile, inner->body) : push_graphs(&pile, inner);
        }
    *ret_count = pile.count;
    *ret_graphs = pile.graphs;
    return is_ok;
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
    struct sp_hash_map known; /* by address */
    uint32_t count, capacity;
    const struct sp_value **values;
};

static bool add_value(struct found *found, const struct sp_node *node, const struct sp_value *value)
{
    if (value == NULL || !is_outside(node, value->graph))
        return true;
    struct sp_hash_slot *slot = sp_hash_map_put(&found->known, (uintptr_t)value);
    if (slot == NULL)
        return false;
    if (slot->number != 0)
        return true;
    slot->number = 1;
    if (!SP_MAKE_ROOM(found->known.arena, found->values, found->count, found->capacity, 1))
        return false;
    found->values[found->count++] = value;
    return true;
}

bool sp_captured(struct sp_arena *arena, const struct sp_node *node, uint32_t *ret_count,
                 const struct sp_value ***ret_values)
{
    struct pile pile = {.arena = arena};
    struct found found = {.known.arena = arena};
    bool is_ok = push_first(&pile, node);
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
    *ret_count = found.count;
    *ret_values = found.values;
    return is_ok;
}
