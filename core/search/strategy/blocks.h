#pragma once
/*
 * blocks - repeated parts of a workload, identical up to names, found by hashing.
 *
 * A run is a sequence of blocks, one after the other in the workload's order, whose nodes correspond one to one:
 *
 *   - operators are equal: type, version, attributes, rule, what is inside of them; shapes and types of operands; FLOPs
 *     and bytes. Where elements of operands are known (a ReduceSum's axes), they make no difference to the rule.
 *   - an activation is read from the corresponding node of the same block; or from the corresponding one of the block
 *     before, where the first block reads anything outside, the same for all that the others read from one; or it is
 *     one and the same tensor from before the run.
 *   - a weight or an input of the model stands in the place of one of the same shape, one to one: what two nodes of a
 *     block share is shared in every block. Known integers and single elements are not compared: exporters share
 *     them as they like.
 *   - what is read from a block is not looked at: a block may have results for others (a cache, a branch, an output).
 *
 * A run saves `length * (count - 1)` nodes; of runs that overlap the one that saves most counts, the other is cut.
 * Small savings are left out (SP_BLOCKS_LEAST_SAVED): three products side by side need not be split alike. Where a run
 * could as well begin some nodes later, its borders are where the fewest bytes cross them.
 *
 * How: nodes get numbers, equal for equal operators on equal operands (described, hashed, compared). In the sequence of
 * numbers all maximal repetitions are found by their Lyndon roots ("the runs theorem": Bannai, I, Inenaga, Nakashima,
 * Takeda, Tsuruta, SIAM J. Comput. 46(5), 2017), with hashes of prefixes to compare. What each node reads then says at
 * which nodes a block may begin, as intervals. O(n log n) expected, n nodes and operands.
 */
#include "cost/workload.h"

#define SP_BLOCKS_LEAST_SAVED 8

/* Blocks that look alike may differ in what they read: every second one another mask. So up to so many periods of a
   repetition are tried as one block. */
#define SP_BLOCKS_MOST_PERIODS 8

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
                                 they read from); SP_NO_WORK for folded ones */
    uint32_t class_count;
    uint64_t steps; /* what was looked at: for tests of growth */
};

/* In `arena`. Memory is the only error. Results do not depend on the model's hash seed. */
enum sp_status sp_blocks_find(struct sp_arena *arena, const struct sp_workload *workload, struct sp_blocks **ret_blocks,
                              struct sp_error *err);
