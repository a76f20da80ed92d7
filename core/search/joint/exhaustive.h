#pragma once
/*
 * exhaustive - tiny models on tiny clusters: every plan there is, but for some shares of unequal devices.
 *
 * All ways to put the nodes that run in stages, all blocks and replicas for each stage, each also in as many copies as there
 * is room for, wherever they may stand (with
 * SP_STRATEGY_GROUPING on equal devices and links in one place), with each mesh that they may have, and all strategies of
 * the operators. Of the strategies of one stage only those are combined that no others with the same layouts at the
 * stage's border beat in both time and memory; what cannot be better than the best so far is left out.
 *
 * Rows of unequal neighbours are blocks, too, in all shares of up to SP_EXHAUST_BLOCKS_OF_TWO blocks where there are two
 * devices and SP_EXHAUST_BLOCKS where there are more, if some operator can be cut in so many. Their number grows with
 * each block and each device; finer shares are those of run/shares.c, which follow the devices' speed and memory.
 *
 * Of several phases nodes are counted in the first one, and strategies in each: those of a phase that others with the
 * same layouts of weights beat are not combined with those of another phase.
 */
#include "search/joint/candidate.h"

#define SP_EXHAUST_NODES   10 /* with SP_STRATEGY_GROUPING models of more nodes that run are not tried */
#define SP_EXHAUST_OTHERS  6  /* the same with other strategies, which have more plans */
#define SP_EXHAUST_LIVE    32 /* nodes of all phases */
#define SP_EXHAUST_DEVICES 4
#define SP_EXHAUST_PLACES  (1u << 15) /* ways to put nodes in stages, in any order: more are not tried */
#define SP_EXHAUST_WAYS    (1u << 16) /* strategies of all nodes of a phase multiplied: blocks with more are left out */

#define SP_EXHAUST_BLOCKS        4
#define SP_EXHAUST_BLOCKS_OF_TWO 8
#define SP_EXHAUST_SHARED_PLACES (1u << 8) /* as SP_EXHAUST_PLACES, where devices have shares */

#define SP_EXHAUST_HEARD (1u << 10) /* up to so many of them a listener hears all plans, and none is left out */

#define SP_EXHAUST_BEST                                                                                                \
    3 /* by the objective of the search; of latency and of throughput, of those that were looked at */

/* With `shares` unequal devices have shares, too. ret_best has the best plans that fit and keep the constraints, which
   must say nothing about strategies; NULL where none does or the model is not tiny. *ret_tried: every plan was tried.
   Otherwise blocks with too many ways were left out, or the watch ended it. */
enum sp_status sp_joint_exhaust(struct sp_joint *joint, bool shares,
                                struct sp_joint_candidate *ret_best[SP_EXHAUST_BEST], bool *ret_tried,
                                struct sp_error *err);
