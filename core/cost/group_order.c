#include "cost/group_order.h"

#include <string.h>

#include "base/components.h"

/* A graph of vertices; each group is one, and so is each node without a group. */
struct merged {
    uint32_t count, edge_count;
    uint32_t *of; /* node -> vertex */
    uint32_t *from, *to;
    struct sp_rows after; /* per vertex: where its edges lead to */
    uint32_t *part;       /* vertex -> strongly connected part */
    uint32_t part_count;
};

static bool merge_groups(struct sp_arena *scratch, const struct sp_cost_graph *graph, struct merged *merged)
{
    merged->edge_count = graph->edge_count;
    merged->of = SP_NEW_ARRAY(scratch, graph->node_count, uint32_t);
    merged->from = SP_NEW_ARRAY(scratch, graph->edge_count, uint32_t);
    merged->to = SP_NEW_ARRAY(scratch, graph->edge_count, uint32_t);
    if (merged->of == NULL || merged->from == NULL || merged->to == NULL)
        return false;
    merged->count = graph->group_count;
    for (uint32_t i = 0; i < graph->node_count; i++)
        merged->of[i] = graph->nodes[i].group != SP_COST_NONE ? graph->nodes[i].group : merged->count++;
    merged->part = SP_NEW_ARRAY(scratch, merged->count, uint32_t);
    if (merged->part == NULL)
        return false;
    for (uint32_t e = 0; e < graph->edge_count; e++) {
        merged->from[e] = merged->of[graph->edges[e].from];
        merged->to[e] = merged->of[graph->edges[e].to];
    }
    if (!sp_rows_sort(scratch, merged->from, graph->edge_count, merged->count, &merged->after))
        return false;
    for (uint32_t i = 0; i < graph->edge_count; i++)
        merged->after.items[i] = merged->to[merged->after.items[i]];
    return true;
}

/* Orders the parts, and in each the nodes as they stand in `order`, which is replaced. */
static bool order_parts(struct sp_arena *scratch, const struct sp_cost_graph *graph, const struct merged *merged,
                        uint32_t *order, uint32_t *together)
{
    const uint32_t nodes = graph->node_count, parts = merged->part_count;
    uint32_t *from = SP_NEW_ARRAY(scratch, graph->edge_count, uint32_t);
    uint32_t *to = SP_NEW_ARRAY(scratch, graph->edge_count, uint32_t);
    uint32_t *rank = SP_NEW_ARRAY(scratch, parts, uint32_t), *sorted = SP_NEW_ARRAY(scratch, parts, uint32_t);
    uint32_t *size = SP_NEW_ARRAY(scratch, parts, uint32_t), *begin = SP_NEW_ARRAY(scratch, parts, uint32_t);
    uint32_t *plain = SP_NEW_ARRAY(scratch, nodes, uint32_t), at = 0;
    if (from == NULL || to == NULL || rank == NULL || sorted == NULL || size == NULL || begin == NULL || plain == NULL)
        return false;
    for (uint32_t i = nodes; i-- > 0;) {
        const uint32_t part = merged->part[merged->of[order[i]]];
        rank[part] = i; /* of its first node, in the end */
        size[part]++;
        plain[i] = order[i];
    }
    for (uint32_t e = 0; e < graph->edge_count; e++) {
        from[e] = merged->part[merged->from[e]];
        to[e] = merged->part[merged->to[e]];
    }
    if (sp_order_vertices(scratch, parts, graph->edge_count, from, to, rank, sorted) != parts)
        return false;
    for (uint32_t p = 0; p < parts; p++) {
        begin[sorted[p]] = at;
        at += size[sorted[p]];
    }
    for (uint32_t i = 0; i < nodes; i++) {
        const uint32_t part = merged->part[merged->of[plain[i]]];
        order[begin[part]++] = plain[i];
        together[plain[i]] = size[part] > 1 ? part + 1 : 0;
    }
    return true;
}

enum sp_status sp_together_order(struct sp_arena *arena, struct sp_arena *scratch, const struct sp_cost_graph *graph,
                                 uint32_t **ret_order, uint32_t **ret_together, struct sp_error *err)
{
    uint32_t *order = SP_NEW_ARRAY(arena, graph->node_count, uint32_t);
    uint32_t *together = SP_NEW_ARRAY(scratch, graph->node_count, uint32_t), *plain, *cycle, length;
    struct merged merged = {0};
    if (order == NULL || together == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_cost_graph_order(scratch, graph, &plain, &cycle, &length, err);
    if (status != SP_OK)
        return status;
    if (cycle != NULL)
        return sp_fail(err, SP_ERR_INTERNAL, "CYCLE", "A graph of costs has a cycle of %u nodes.", length);
    if (graph->node_count > 0)
        memcpy(order, plain, graph->node_count * sizeof *order);
    if (graph->group_count > 0 &&
        (!merge_groups(scratch, graph, &merged) ||
         !sp_components(scratch, &merged.after, merged.count, merged.part, &merged.part_count) ||
         !order_parts(scratch, graph, &merged, order, together)))
        return sp_fail_memory(err);
    *ret_order = order;
    *ret_together = together;
    return SP_OK;
}
