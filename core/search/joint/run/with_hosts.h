#pragma once
/*
 * with_hosts - the search where weights may stay in the memory of hosts (cost/streaming.h).
 *
 * Every plan is evaluated with what it streams, and stages are cut with what they would copy (propose.c). But the
 * strategies of operators are chosen within a limit of memory, and what is beyond it takes no time there. How much more
 * than their own devices should have for that, nobody knows beforehand: weights that are held once per device are
 * quicker to compute with, and slower to copy. So devices are first given what they lack on average, then room for 2, 4,
 * .. copies of each weight, as long as the plans become better. Nothing is streamed where a plan fits without, unless
 * that is better.
 *
 * Where no plan is found, it may be that what stages have in one host is too much for it together. Then no device may
 * have more than its part of its host.
 */
#include "search/joint/joint.h"

/* sp_joint_search_once(), and where that finds no plan that streams nothing, with room for weights in hosts. */
enum sp_status sp_joint_search_with_hosts(struct sp_arena *arena, const struct sp_workload *workload,
                                          const struct sp_dataflow *dataflow, const struct sp_cluster *cluster,
                                          const struct sp_joint_options *options, struct sp_search_result **ret_result,
                                          struct sp_error *err);
