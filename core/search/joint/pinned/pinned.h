#pragma once
/*
 * pinned - the user's constraints while the model is cut into stages.
 *
 * Nodes that have to be together are units of one colour (stages.h), and options whose devices or strategies a node may
 * not have take forever. Which stage is the third one is nothing that stages.h can say: for pins there is a cut of its
 * own. The nodes are brought into a line that has those of earlier pins first: by the latest pin that each comes after,
 * then by the earliest that it comes before. Along it stages of one option are cut, for each number of stages with the
 * least largest time: by bisection, each stage as long as the time, the memory and the pins allow.
 *
 * Where stages are of different blocks, classes or replicas, or devices are pinned, the line is cut at fewer places
 * (cuts.h), and the best stages are found by the number of stages, the place and the devices that are taken:
 * exactly for small models and clusters (all cuts, all places of blocks), else with as many states as
 * SP_PINNED_WORK allows. Figures are the profiles'. A plan whose stages do not fit after all is not tried again: these
 * stages are forbidden, and the search is made once more.
 */
#include "search/joint/candidate.h"

/* Per work node the profile's seconds, INFINITY where the constraints leave it nothing under this option. */
enum sp_status sp_joint_able_seconds(const struct sp_joint *joint, const struct sp_model_choice *profile,
                                     const double **ret_seconds, struct sp_error *err);

/* Gives units with nodes that must be together, are one kernel, or make and take one state, one colour; false without
   memory. */
bool sp_joint_color_units(const struct sp_joint *joint, struct sp_stages_node *nodes);

/* Per work node the earliest and the latest stage that pins of others and its own leave it, UINT32_MAX where they leave
   any; false without memory. */
bool sp_joint_pin_bounds(const struct sp_joint *joint, uint32_t **ret_earliest, uint32_t **ret_latest);

/* Stages of the proposal's first profile that keep all pins: the candidate with the least time between requests, by the
   profile's figures. *ret_candidate is NULL where there are none. */
enum sp_status sp_joint_propose_pinned(struct sp_joint *joint, const struct sp_proposal *proposal,
                                       struct sp_joint_candidate **ret_candidate, struct sp_error *err);

#define SP_PINNED_WORK       4e7 /* stages that one search for stages of any profiles looks at */
#define SP_PINNED_CANDIDATES 8

/* Stages of any of the proposal's profiles that keep all pins, with replicas: up to SP_PINNED_CANDIDATES plans that fit,
   or one that does not. */
enum sp_status sp_joint_propose_mixed(struct sp_joint *joint, const struct sp_proposal *proposal,
                                      struct sp_joint_candidate **ret_candidates, uint32_t *ret_count,
                                      struct sp_error *err);
