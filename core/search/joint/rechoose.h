#pragma once
/*
 * rechoose - the last choice of strategies in each stage of a candidate, and its exact evaluation.
 */
#include "search/joint/candidate.h"

/* Completes a candidate whose placement and options are set: strategies of profiles[profile_of[s]] at first, then
   chosen for each stage under the memory that its borders leave. They stay where another choice gains next to nothing:
   where they fit, were chosen under no limit, and the stage is the whole model or has thousands of different nodes. So
   what choosing takes does not grow faster than the stages' number. */
enum sp_status sp_joint_rechoose(struct sp_joint *joint, struct sp_joint_candidate *candidate,
                                 const struct sp_model_choice *const *profiles, const uint32_t *profile_of,
                                 struct sp_error *err);

/* Evaluates a complete candidate: `evaluation` and what follows it. */
enum sp_status sp_joint_judge(struct sp_joint *joint, struct sp_joint_candidate *candidate, struct sp_error *err);

/* A copy of a candidate with strategies chosen again and more work put in, but for stages of thousands of different
   nodes that fit. It may be no better. */
enum sp_status sp_joint_polish(struct sp_joint *joint, const struct sp_joint_candidate *candidate,
                               struct sp_joint_candidate **ret_candidate, struct sp_error *err);
