#pragma once
/*
 * blocks - blocks of devices for the stages of a candidate.
 */
#include "search/joint/candidate.h"

/* Sets stage_device of a candidate whose stages, sizes, replicas and options are set: in the pipeline's order, or,
   where alignment leaves holes, the largest first. Stages with nodes that are pinned to devices come before all others,
   where these devices are. The devices that no stage has are the last ones of a class. *ret_allotted is false where
   there is no room. */
enum sp_status sp_joint_allot(const struct sp_joint *joint, struct sp_joint_candidate *candidate, bool *ret_allotted,
                              struct sp_error *err);
