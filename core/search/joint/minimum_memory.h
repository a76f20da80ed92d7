#pragma once
/*
 * minimum_memory - nothing fits: with how much memory a plan would be found.
 *
 * "With M bytes" means: each device on which a plan may use less than M (of its own memory, or the cluster's
 * memory_limit_bytes where that is less) has M for plans; the others stay as they are. On equal devices that have as
 * much that is memory_limit_bytes = M.
 *
 * Found by asking the search itself, so that the numbers are those of a request that comes back with more memory:
 *
 *   err->least_memory_bytes       with so many bytes the search finds a plan; 0: with no number that was tried
 *   err->too_little_memory_bytes  with so many it finds none; never more than the above
 *
 * The two are closed in on by bisection until they differ by at most SP_LEAST_SHARE of the larger one (or by one byte),
 * or until SP_LEAST_SEARCHES searches were made, fewer for large models (SP_LEAST_WORK), or until the watch says stop;
 * then the sentence says that what lies between was not tried. A search that ends at the first plan and one that looks
 * for the best ask for the same memory, so the answer holds for both.
 *
 * The search is no proof where it does not try everything: that it finds nothing with some memory does not mean that
 * there is nothing, and it may find something with a little less again.
 *
 * Where not even the memory for the whole model on each device helps, memory is not what lacks: both stay 0, and the
 * sentence says so.
 */
#include "search/joint/joint.h"

#define SP_LEAST_SHARE    0.001
#define SP_LEAST_SEARCHES 40
#define SP_LEAST_WORK     60000 /* nodes times sizes of blocks, of all searches together; but at least: */
#define SP_LEAST_FEWEST   4

/*
 * `err` holds the SP_ERR_NOFIT of a search with these very arguments; err->least_memory_bytes may have a first guess.
 * Its numbers are set and a sentence is added to its message, where there is room for it; the plan that the message
 * describes as the closest is the one that was found with the least memory. Where memory for more searches is missing,
 * the answer is what is known by then.
 */
void sp_joint_minimum_memory(struct sp_arena *arena, const struct sp_workload *workload,
                             const struct sp_dataflow *dataflow, const struct sp_cluster *cluster,
                             const struct sp_joint_options *options, struct sp_error *err);
