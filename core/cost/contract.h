#pragma once
/*
 * contract - a workload as a search takes it: what must be on one device is one node, and every time is finite.
 *
 * A search that knows only how to place single nodes then keeps all such conditions. Nothing is lost, since stages are
 * numbered along the edges: a placement of the one is a placement of the other, with the same times.
 *
 *  - Nodes with the same `together` become one node. Its time, FLOPs and weights are their sums; what they make and use
 *    among themselves is its workspace. Its memory is never too low: its operands are there as long as it runs.
 *  - Where a kind of device cannot run a node, its time is workload->unable_seconds: more than any placement that can
 *    run takes in all, so that no such placement is better than one that can run. A stage that computes for longer is
 *    one that cannot run; sp_unable_nodes() counts.
 */
#include "cost/evaluate.h"

struct sp_contraction {
    const struct sp_workload *workload; /* to search; the given one itself where there is nothing to do */
    const uint32_t *node_of;            /* node of the given workload -> its node in that; NULL: the same */
};

/* Everything lies in `arena`. SP_ERR_MEMORY. */
enum sp_status sp_workload_contract(struct sp_arena *arena, const struct sp_workload *workload,
                                    const struct sp_cluster *cluster, struct sp_contraction *ret_contraction,
                                    struct sp_error *err);

/* The placement of the given workload: each node is where its node is. In `arena`; NULL without memory. */
struct sp_placement *sp_contraction_expand(struct sp_arena *arena, const struct sp_contraction *contraction,
                                           const struct sp_workload *given, const struct sp_placement *placement);

/* The other way round. *ret_placement is NULL where nodes that are one there are in several stages. SP_ERR_MEMORY. */
enum sp_status sp_contraction_reduce(struct sp_arena *arena, const struct sp_contraction *contraction,
                                     const struct sp_workload *given, const struct sp_placement *placement,
                                     struct sp_placement **ret_placement);

/* How many nodes a stage computes that its device cannot run. */
static inline double sp_unable_nodes(const struct sp_workload *workload, double compute_seconds)
{
    if (workload->unable_seconds <= 0 || compute_seconds < workload->unable_seconds)
        return 0;
    return (double)(uint64_t)(compute_seconds / workload->unable_seconds);
}
