#pragma once
/*
 * states - whether a plan keeps what a loop hands from step to step where it is, and what phases share (cost/workload.h).
 *
 * Of several phases a node is in one stage, and takes its weights in one layout, in all of them; activations may be
 * split in other ways. What follows of states holds of that as well.
 *
 * The choice of strategies ties a state's output to its input (strategy/intra.h), and the cuts into stages keep the
 * nodes that make and take it together; moves of single nodes, and plans that are enumerated, know nothing of it. So
 * each plan is looked at here before it counts.
 */
#include "search/joint/joint.h"

/* `sharded` may be NULL: no operator is split. */
bool sp_states_are_kept(const struct sp_workload *workload, const struct sp_placement *placement,
                        const struct sp_sharded_stage *sharded);

/* Joins the sets (base/union_find.h) of the nodes that make and take each state, and of each node in all phases; set_of
   says of which set a node is,
   SP_NO_WORK: none. */
void sp_states_join(const struct sp_workload *workload, const uint32_t *set_of, uint32_t *sets);

/* Whether the node makes or takes a state that another node takes or makes, or is in other phases: alone it may not go to
   another stage. */
bool sp_states_hold(const struct sp_workload *workload, uint32_t node);

/* Whether different nodes make and take one: then it may be that no plan keeps it. */
bool sp_states_join_nodes(const struct sp_workload *workload);
