#pragma once
/*
 * blocking_constraint - which constraint it is that leaves no plan.
 */
#include "search/joint/joint.h"

/* sp_joint_search() without looking for the reason where constraints leave nothing. */
enum sp_status sp_joint_search_once(struct sp_arena *arena, const struct sp_workload *workload,
                                    const struct sp_dataflow *dataflow, const struct sp_cluster *cluster,
                                    const struct sp_joint_options *options, struct sp_search_result **ret_result,
                                    struct sp_error *err);
