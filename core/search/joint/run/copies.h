#pragma once
/*
 * copies - the same plan on other devices, too, so that requests take one of them in turn.
 *
 * A copy has the devices of each stage shifted within their classes: equal devices, over the same links inside of
 * blocks and between stages. A class of unequal blocks (unequal/unequal.h) has no copies.
 *
 *     2 nodes of 4, a stage of 2 devices: 0-1    copies: 2-3, 4-5, 6-7
 *     2 nodes of 4, stages on 0, 1, 2            copies: 4, 5, 6; on 3, 4, 5 links would be others
 *
 * Nothing is searched for it: a copy costs what the plan costs (cost/evaluate.h).
 */
#include "search/joint/candidate.h"

/*
 * The candidate with as many copies as there is room for, at most joint->options->max_copies; *ret_copied is NULL where
 * there is no room for a second one, or nodes are pinned to devices. Judged; it shares with the candidate all but its
 * stages' figures.
 */
enum sp_status sp_joint_copy(struct sp_joint *joint, const struct sp_joint_candidate *candidate,
                             struct sp_joint_candidate **ret_copied, struct sp_error *err);
