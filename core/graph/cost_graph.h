#pragma once
/*
 * cost_graph - a graph of which only the costs are known: nodes that take time and memory, edges that carry bytes.
 *
 * It stands for a model that was profiled, or that has no operators this program knows. json/cost_graph.h reads one,
 * cost/workload.h makes of it what plans are made of.
 *
 * Glossary
 *  device  a name that seconds are said for: of the catalog, or what a cluster calls a device of its own
 *  tensor  what the edges of one node carry that are the same: it is sent once to each device that uses it
 *  group   nodes that stay on one device, because they share weights, say
 *
 * Invariants: the graph has no cycle and no edge from a node to itself; ids are distinct, names need not be; seconds
 * and bytes are finite and not negative, at most SP_MAX_COST_SECONDS and SP_MAX_COST_BYTES.
 */
#include "base/arena.h"
#include "base/error.h"

#define SP_COST_NONE        UINT32_MAX
#define SP_COST_UNSAID      (-1.0) /* a figure that nobody said */
#define SP_MAX_COST_SECONDS 1e6    /* of one node, and of one edge */
#define SP_MAX_COST_BYTES   1e18   /* of one node, and of one edge */

struct sp_cost_time {
    uint32_t device;
    double seconds;
};

struct sp_cost_node {
    const char *id, *name; /* without a name the id */
    double seconds;        /* the same on every device, or SP_COST_UNSAID: then times[first_time ..] say */
    uint32_t first_time, time_count;
    double memory_bytes, output_bytes; /* 0 when nobody said */
    uint32_t group;                    /* or SP_COST_NONE */
};

struct sp_cost_tensor {
    uint32_t from;
    const char *name; /* or NULL */
    double bytes;     /* the node's output_bytes where the edge does not say */
    double seconds;   /* to send it, over whatever link; SP_COST_UNSAID: its bytes take what the link takes */
};

struct sp_cost_edge {
    uint32_t from, to;
    uint32_t tensor;
};

struct sp_cost_graph {
    const char *name; /* "" without one */
    uint32_t node_count, edge_count, tensor_count, time_count, device_count, group_count;
    struct sp_cost_node *nodes;
    struct sp_cost_edge *edges;
    struct sp_cost_tensor *tensors;
    struct sp_cost_time *times; /* of all nodes */
    const char **devices;
    const char **groups;
};

/*
 * The order in which one device runs the nodes: producers first, what is free to choose as in the file. *ret_cycle is
 * NULL, or, where there is no such order, the edges of a cycle, one behind the other, and *ret_length their number.
 * Both lie in `arena`. SP_ERR_MEMORY.
 */
enum sp_status sp_cost_graph_order(struct sp_arena *arena, const struct sp_cost_graph *graph, uint32_t **ret_order,
                                   uint32_t **ret_cycle, uint32_t *ret_length, struct sp_error *err);

/*
 * The same for any graph of `count` vertices whose edges run from[i] -> to[i]; edges from a vertex to itself do not
 * count. The vertex with the smallest rank comes first where there is a choice. Returns how many vertices are in the
 * order: all, unless there are cycles. UINT32_MAX without memory.
 */
uint32_t sp_order_vertices(struct sp_arena *scratch, uint32_t count, uint32_t edge_count, const uint32_t *from,
                           const uint32_t *to, const uint32_t *rank, uint32_t *ret_order);
