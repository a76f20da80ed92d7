#pragma once
/*
 * recount - the memory of a plan's devices, counted once more by code that shares nothing with core's evaluators: each
 * copy of a tensor as an interval of the stage's nodes, tensor by tensor. Of core it asks only what part of a tensor a
 * layout gives a device.
 *
 * What is counted is what cost/evaluate.h, search/joint/joint.h and search/strategy/intra.h state.
 */
#include "search/joint/joint.h"

/*
 * Whether the memory figures of an evaluation are those of the placement, no device is in two stages (unless devices are shared:
 * recount_shared.h), and, with `fits`,
 * every device of every stage has that much memory. False: `ret_why` says in a sentence what is wrong.
 * `sharded` as in sp_joint_evaluate(); NULL: no operator is split.
 */
bool recount_holds(const struct sp_workload *workload, const struct sp_cluster *cluster,
                   const struct sp_placement *placement, const struct sp_sharded_stage *sharded,
                   const struct sp_evaluation *evaluation, bool fits, char ret_why[256]);

/* Asserts that. */
void recount_expect(const struct sp_workload *workload, const struct sp_cluster *cluster,
                    const struct sp_placement *placement, const struct sp_sharded_stage *sharded,
                    const struct sp_evaluation *evaluation, bool fits);

/* The same of what a search found, which has to fit. */
void recount_expect_result(const struct sp_workload *workload, const struct sp_cluster *cluster,
                           const struct sp_search_result *result);
