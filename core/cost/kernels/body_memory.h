#pragma once
/*
 * body_memory - memory inside a node: the values of one subgraph or function body while it runs.
 *
 * The same rules as in a stage (evaluate.h): a value lives from its producer to its last use, what the graph is given
 * and what it returns to the end, views are their roots, constants are weights. What belongs to the node itself is left
 * out, because the enclosing graph counts it: the operands of a called function and what a graph returns without a loop.
 * Loops hold their state beside that.
 */
#include "cost/live_bytes.h"
#include "graph/model.h"

struct sp_inner_memory {
    double weight_bytes; /* constants that some node uses */
    struct sp_live live; /* activations, by the index of the graph's node */
};

/* Looks at the graph's values; false without memory. The caller steps through the nodes. `loops`: the graph runs in a
   loop and keeps its inputs and outputs beside the node's. */
bool sp_inner_memory_init(struct sp_inner_memory *memory, struct sp_arena *scratch, const struct sp_graph *graph,
                          bool loops);

/* A node that runs at load time. */
bool sp_inner_is_folded(const struct sp_node *node);

/* A node whose first output is its first input's memory, with that of constants left out that are quantised: these have
   the memory of their quantised elements. */
bool sp_inner_is_view(const struct sp_node *node);
