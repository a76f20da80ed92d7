#pragma once
/*
 * bounds - what no plan can go below, whatever is split, staged and replicated; and what to say when nothing fits.
 *
 * Work bound. A node that one device of kind k computes in s(i,k) seconds takes at least that many device-seconds when
 * several devices share it: each shard has at least its share of the FLOPs and bytes, and a launch of its own. So each
 * request costs the cluster sum_i s(i,k(i)) device-seconds, and with interval T there are T of them on each device:
 * the bound of bounds.c on the total work holds, divided fractions or not.
 *
 * Latency. All devices together work on one request for no longer than its latency: the work bound again. And the
 * nodes of a path come one after another, each taking at least a launch and behind it what all devices together take for
 * the rest. What is cut off by two of them, as everything is that depends on the first and that the second one depends on
 * where nothing runs beside either, takes no less than all devices together need for it: the bounds of such parts add up.
 */
#include "search/joint/candidate.h"
#include "search/joint/memory_peak.h"

enum sp_status sp_joint_bounds(struct sp_arena *scratch, const struct sp_workload *workload,
                               const struct sp_cluster *cluster, struct sp_lower_bounds *ret_bounds,
                               struct sp_error *err);

/* Of a plan that does not fit; the capacities in its evaluation are not looked at. Makes `err`, which is not NULL, the SP_ERR_NOFIT that says where on the cluster's devices the plan lacks most memory,
   what of it are weights, the node at which it is fullest and the largest tensors that are alive then. Other errors
   are those of making that sentence. */
enum sp_status sp_joint_describe_lack(struct sp_arena *arena, const struct sp_workload *workload,
                                      const struct sp_cluster *cluster, const struct sp_evaluated_plan *plan,
                                      struct sp_error *err);

/*
 * Always an error: SP_ERR_NOFIT. `closest` is the plan that lacks least (NULL: none was made), which is described as
 * above; err->least_memory_bytes is what it needs on each device, until minimum_memory.h knows better. `whole` is the
 * plan of stages of one device each that lacks least (NULL: none was made, or one fits): it says how many devices would
 * do, in err->limit_value (0: none), and is described where operators may not be split. err->limit is then "devices",
 * err->actual the missing bytes.
 */
enum sp_status sp_joint_nofit(struct sp_joint *joint, const struct sp_joint_candidate *closest,
                              const struct sp_joint_candidate *whole, struct sp_error *err);
