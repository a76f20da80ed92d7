#include "graph/cost_graph.h"

#include <string.h>

/* ---- a heap of vertices, the smallest rank on top ---------------------------------------------------------------- */

struct heap {
    uint32_t count;
    uint32_t *vertices;
    const uint32_t *rank;
};

static void push(struct heap *heap, uint32_t vertex)
{
    uint32_t at = heap->count++;
    while (at > 0 && heap->rank[vertex] < heap->rank[heap->vertices[(at - 1) / 2]]) {
        heap->vertices[at] = heap->vertices[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->vertices[at] = vertex;
}

static uint32_t pop(struct heap *heap)
{
    const uint32_t top = heap->vertices[0], last = heap->vertices[--heap->count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->rank[heap->vertices[child + 1]] < heap->rank[heap->vertices[child]])
            child++;
        if (heap->rank[last] <= heap->rank[heap->vertices[child]])
            break;
        heap->vertices[at] = heap->vertices[child];
        at = child;
    }
    heap->vertices[at] = last;
    return top;
}

/* ---- the order --------------------------------------------------------------------------------------------------- */

/* Lists by vertex: those of v are items[first[v]] .. items[first[v + 1] - 1]. */
struct lists {
    uint32_t *first, *items;
};

/* The edges that begin at each vertex; false without memory. */
static bool list_edges(struct sp_arena *arena, uint32_t count, uint32_t edge_count, const uint32_t *from,
                       struct lists *lists)
{
    lists->first = SP_NEW_ARRAY(arena, (size_t)count + 2, uint32_t);
    lists->items = SP_NEW_ARRAY(arena, edge_count, uint32_t);
    if (lists->first == NULL || lists->items == NULL)
        return false;
    for (uint32_t i = 0; i < edge_count; i++)
        lists->first[from[i] + 2]++;
    for (uint32_t v = 2; v < count + 2; v++)
        lists->first[v] += lists->first[v - 1];
    for (uint32_t i = 0; i < edge_count; i++)
        lists->items[lists->first[from[i] + 1]++] = i;
    return true;
}

uint32_t sp_order_vertices(struct sp_arena *scratch, uint32_t count, uint32_t edge_count, const uint32_t *from,
                           const uint32_t *to, const uint32_t *rank, uint32_t *ret_order)
{
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    struct heap heap = {.vertices = SP_NEW_ARRAY(scratch, count, uint32_t), .rank = rank};
    uint32_t *waiting = SP_NEW_ARRAY(scratch, count, uint32_t), done = 0; /* edges that have not come yet */
    struct lists out;
    if (heap.vertices == NULL || waiting == NULL || !list_edges(scratch, count, edge_count, from, &out)) {
        sp_arena_rewind(scratch, mark);
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < edge_count; i++)
        waiting[to[i]] += from[i] != to[i];
    for (uint32_t v = 0; v < count; v++) {
        if (waiting[v] == 0)
            push(&heap, v);
    }
    while (heap.count > 0) {
        const uint32_t v = pop(&heap);
        ret_order[done++] = v;
        for (uint32_t i = out.first[v]; i < out.first[v + 1]; i++) {
            const uint32_t next = to[out.items[i]];
            if (next != v && --waiting[next] == 0)
                push(&heap, next);
        }
    }
    sp_arena_rewind(scratch, mark);
    return done;
}

/* Every vertex that is not in the order has a producer that is not in it either: going back from one, some vertex comes
   a second time, and what lies between is a cycle. */
static enum sp_status find_cycle(struct sp_arena *arena, const struct sp_cost_graph *graph, const bool *is_ordered,
                                 uint32_t **ret_cycle, uint32_t *ret_length, struct sp_error *err)
{
    uint32_t *edge_to = SP_NEW_ARRAY(arena, graph->node_count, uint32_t); /* from a node that is not ordered, + 1 */
    uint32_t *step = SP_NEW_ARRAY(arena, graph->node_count, uint32_t);    /* of the walk back, from 1 */
    uint32_t *cycle = SP_NEW_ARRAY(arena, graph->node_count, uint32_t), length = 0, at = 0, steps = 0;
    if (edge_to == NULL || step == NULL || cycle == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        const struct sp_cost_edge *edge = &graph->edges[i];
        if (!is_ordered[edge->from] && !is_ordered[edge->to] && edge_to[edge->to] == 0)
            edge_to[edge->to] = i + 1;
    }
    while (is_ordered[at])
        at++;
    for (; step[at] == 0; at = graph->edges[edge_to[at] - 1].from)
        step[at] = ++steps;
    /* `at` is on the cycle; the edges were found from the last to the first. */
    const uint32_t end = at;
    do {
        cycle[length++] = edge_to[at] - 1;
        at = graph->edges[edge_to[at] - 1].from;
    } while (at != end);
    for (uint32_t i = 0; i < length / 2; i++) {
        const uint32_t other = cycle[i];
        cycle[i] = cycle[length - 1 - i];
        cycle[length - 1 - i] = other;
    }
    *ret_cycle = cycle;
    *ret_length = length;
    return SP_OK;
}

enum sp_status sp_cost_graph_order(struct sp_arena *arena, const struct sp_cost_graph *graph, uint32_t **ret_order,
                                   uint32_t **ret_cycle, uint32_t *ret_length, struct sp_error *err)
{
    uint32_t *order = SP_NEW_ARRAY(arena, graph->node_count, uint32_t);
    bool *is_ordered = SP_NEW_ARRAY(arena, graph->node_count, bool);
    uint32_t *rank = SP_NEW_ARRAY(arena, graph->node_count, uint32_t);
    uint32_t *from = SP_NEW_ARRAY(arena, graph->edge_count, uint32_t);
    uint32_t *to = SP_NEW_ARRAY(arena, graph->edge_count, uint32_t);
    if (order == NULL || is_ordered == NULL || rank == NULL || from == NULL || to == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < graph->node_count; i++)
        rank[i] = i;
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        from[i] = graph->edges[i].from;
        to[i] = graph->edges[i].to;
    }
    const uint32_t done = sp_order_vertices(arena, graph->node_count, graph->edge_count, from, to, rank, order);
    if (done == UINT32_MAX)
        return sp_fail_memory(err);
    *ret_order = order;
    *ret_cycle = NULL;
    *ret_length = 0;
    if (done == graph->node_count)
        return SP_OK;
    for (uint32_t i = 0; i < done; i++)
        is_ordered[order[i]] = true;
    return find_cycle(arena, graph, is_ordered, ret_cycle, ret_length, err);
}
