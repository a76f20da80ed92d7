#pragma once
/*
 * same_weights - the placement of a plan on the same model at other sizes: a prefill beside decode steps, a batch of one
 * beside one of thirty-two.
 *
 * Stages have the same nodes and devices, so that weights lie where they are. Inside a stage each operator keeps its
 * weights, and the states of loops that it takes or makes, in the parts in which the plan has them. What this leaves
 * open, the layouts of activations and the collectives between them, is chosen best under the memory of the devices: a
 * batch that the plan splits may have one element here, or a sequence one position.
 *
 * Where an operator has no such strategy at these sizes its weights stay in their parts as far as some strategy has
 * them, and `moved_bytes` says of how many bytes that is not so.
 */
#include "search/joint/placement_record.h"

/* What is placed already. */
struct sp_placed_model {
    const struct sp_workload *workload;
    const struct sp_search_result *result; /* of one route */
};

/*
 * Nodes of both workloads correspond by their numbers. *ret_result is as sp_joint_from_record()'s: it may not fit
 * (evaluation->worst_excess_bytes). Errors: SP_ERR_REQUEST "PHASES_DIFFER" where the workloads are not of one model.
 */
enum sp_status sp_search_same_weights(struct sp_arena *arena, const struct sp_recorded_problem *problem,
                                      const struct sp_placed_model *placed, const struct sp_watch *watch,
                                      struct sp_search_result **ret_result, double *ret_moved_bytes,
                                      struct sp_error *err);
