#pragma once
/*
 * evaluate - placements on blocks, one after the other, for a search: joint.h says what is computed.
 */
#include "base/rows.h"
#include "search/joint/joint.h"

struct sp_joint_evaluator;

/* Tables of the size of the workload; in `arena`, which is also its scratch. NULL without memory. */
struct sp_joint_evaluator *sp_joint_evaluator_create(struct sp_arena *arena, const struct sp_workload *workload,
                                                     const struct sp_cluster *cluster);

/* As sp_joint_evaluate(). `sharded[s].intra` is taken where it is set and made in the evaluator's arena where not. The
   evaluation is in `arena`. */
enum sp_status sp_joint_evaluator_run(struct sp_joint_evaluator *evaluator, struct sp_arena *arena,
                                      const struct sp_placement *placement, struct sp_sharded_stage *sharded,
                                      struct sp_evaluation **ret_evaluation, struct sp_error *err);

/* The layout in which an operand of a node lies under a strategy (sp_strategy_lies()): 0, whole, where nothing is known of
   it. */
uint32_t sp_joint_layout(const struct sp_strategy_table *table, uint32_t node, uint32_t strategy, uint32_t tensor);
