#pragma once
/*
 * body_memory - memory inside a node: the values of one subgraph or function body while it runs.
 *
 * The same rules as in a stage (evaluate.h): a value lives from its producer to its last use, views are their roots,
 * constants are weights. What belongs to the node itself is left out, because the enclosing graph counts it: the
 * operands of a called function and what a graph returns without a loop. Loops hold their state beside that.
 */
#include "graph/model.h"

struct sp_inner_memory {
    double weight_bytes; /* constants that some node uses */
    double live, peak;   /* activations now, and at most so far */
    double *births;      /* bytes made by a node */
    double *deaths;      /* bytes last used by a node */
};

/* Looks at the graph's values; false without memory. `loops`: the graph runs in a loop and keeps its inputs and outputs
   beside the node's. */
bool sp_inner_memory_init(struct sp_inner_memory *memory, struct sp_arena *scratch, const struct sp_graph *graph,
                          bool loops);

/* Runs node `index`, which needs `workspace` bytes inside. Nodes come in order; folded ones may be left out. */
void sp_inner_memory_step(struct sp_inner_memory *memory, uint32_t index, double workspace);

/* A node that runs at load time. */
bool sp_inner_is_folded(const struct sp_node *node);

/* A node whose first output is its first input's memory. */
bool sp_inner_is_view(const struct sp_node *node);
