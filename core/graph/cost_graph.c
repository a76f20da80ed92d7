#include "graph/cost_graph.h"

#include <string.h>

#include "base/heap.h"
#include "base/rows.h"

/* ---- the order --------------------------------------------------------------------------------------------------- */

static bool is_before(const uint32_t *rank, uint32_t a, uint32_t b)
{
    return rank[a] < rank[b];
}

SP_HEAP(ready, uint32_t, const uint32_t *, is_before)

uint32_t sp_order_vertices(struct sp_arena *scratch, uint32_t count, uint32_t edge_count, const uint32_t *from,
                           const uint32_t *to, const uint32_t *rank, uint32_t *ret_order)
{
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    uint32_t *heap = SP_NEW_ARRAY(scratch, count, uint32_t), ready = 0;
    uint32_t *waiting = SP_NEW_ARRAY(scratch, count, uint32_t), done = 0; /* edges that have not come yet */
    struct sp_rows out;
    if (heap == NULL || waiting == NULL || !sp_rows_sort(scratch, from, edge_count, count, &out)) {
        sp_arena_rewind(scratch, mark);
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < edge_count; i++)
        waiting[to[i]] += from[i] != to[i];
    for (uint32_t v = 0; v < count; v++) {
        if (waiting[v] == 0)
            ready_push(heap, ready++, v, rank);
    }
    while (ready > 0) {
        const uint32_t v = ready_pop(heap, ready--, rank);
        ret_order[done++] = v;
        for (uint32_t i = out.start[v]; i < out.start[v + 1]; i++) {
            const uint32_t next = to[out.items[i]];
            if (next != v && --waiting[next] == 0)
                ready_push(heap, ready++, next, rank);
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
