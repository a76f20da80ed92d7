#pragma once
/*
 * blocks - repeated parts of a workload, identical up to names, found by hashing.
 *
 * A run is a sequence of blocks, one after the other in the workload's order, whose nodes correspond one to one: equal
 * operators (types, attributes, rule), equal shapes of operands, and inputs that come from the same place: the
 * corresponding node of the same block, the corresponding one of the block before, the same node outside of the run, or
 * a weight of the same shape.
 *
 * Found in O(n log n) expected: nodes are numbered by equality of what they are and what they read (hash, then
 * compared), and repeats are looked for in the sequence of these numbers.
 */
#include "cost/workload.h"

struct sp_block_run {
    uint32_t first_node; /* position in the order of nodes that are not folded */
    uint32_t length;     /* nodes of one block */
    uint32_t count;      /* blocks, 2 or more */
};

struct sp_blocks {
    uint32_t order_count;
    const uint32_t *order; /* nodes that are not folded, ascending */
    uint32_t run_count;
    const struct sp_block_run *runs; /* ascending, disjoint */
    const uint32_t *same_as;  /* per work node: the corresponding node of the first block of its run, or itself */
    const uint32_t *class_of; /* per work node: equal for nodes that are equal operators on equal operands (whatever
                                 they read from) */
    uint32_t class_count;
};

enum sp_status sp_blocks_find(struct sp_arena *arena, const struct sp_workload *workload, struct sp_blocks **ret_blocks,
                              struct sp_error *err);
