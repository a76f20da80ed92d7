#pragma once
/*
 * group_order - the order of a graph of costs in which what must be on one device stands in one row.
 *
 * Stages are numbered along the edges. So whatever lies on a path between two nodes of a group has to be with them, and
 * so do groups that lie between each other: with every group as one vertex, the strongly connected parts of the graph.
 */
#include "cost/workload.h"

/*
 * *ret_order (in `arena`): nodes of the graph, producers first, what is together in one row; as in the file where that
 * leaves a choice. *ret_together (in `scratch`): for each node of the graph 0, or a number from 1 that those share.
 */
enum sp_status sp_together_order(struct sp_arena *arena, struct sp_arena *scratch, const struct sp_cost_graph *graph,
                                 uint32_t **ret_order, uint32_t **ret_together, struct sp_error *err);

/* Where the row ends that begins with work node `first`: the node behind it. */
static inline uint32_t sp_together_end(const struct sp_workload *workload, uint32_t first)
{
    uint32_t end = first + 1;
    while (workload->nodes[first].together != 0 && end < workload->node_count &&
           workload->nodes[end].together == workload->nodes[first].together)
        end++;
    return end;
}
