#pragma once
/*
 * near_best - which of the plans that a search found is its answer.
 *
 * An estimate is some per cent off, so a plan that is better by less is not worth a device. With the tolerance t:
 *
 *   1. objective    interval or latency, at most 1 + t times that of the best plan. For the fewest devices these come
 *                   first, and the interval is what may be longer
 *   2. one route    of these plans those of one route, where there are any
 *   3. one copy     of these plans those without copies, where there are any
 *   4. devices      of these plans those that use the fewest
 *   5. free memory  of these the ones whose fullest device is the least full, or by no more than the share t of its
 *                   memory fuller
 *   6. messages     of these the ones that send the fewest for a request, or at most 1 + t times as many
 *   7. other figure of these the ones with the least latency, where the objective is another, or else the least
 *                   interval, or at most 1 + t times that
 *   8.              of these the best one (sp_front_better())
 *
 * So no figure decides by a difference that is below the tolerance. With t = 0 the answer is the best plan.
 *
 * joint->near has plans that were evaluated and fit, of all ways of searching, whether or not they are on the front. One
 * that another equals or excels in all of this is left out: it cannot be the answer. The search itself knows nothing of
 * the tolerance, and finds the best plan and its bound as it would without; only fewer_devices.c looks for more.
 */
#include "search/joint/candidate.h"

/* Its figures for people, all but is_chosen. False without memory. */
bool sp_near_describe(struct sp_arena *arena, struct sp_joint_candidate *candidate, struct sp_front_plan *ret_plan);

/* Whether the candidate, which joint->ranked knows, was taken in, and has to stay as it is. */
bool sp_near_add(struct sp_joint *joint, struct sp_joint_candidate *candidate);

/* Whether the plan is near the best one: rule 1. */
bool sp_near_is_near(const struct sp_joint *joint, const struct sp_joint_candidate *candidate,
                     const struct sp_joint_candidate *best);

/* Whether `seconds` of the objective are within the tolerance of those of the best plan. */
bool sp_near_is_within(const struct sp_joint *joint, double seconds, const struct sp_joint_candidate *best);

/* The answer, where `best` is the best plan. */
struct sp_joint_candidate *sp_near_choose(const struct sp_joint *joint, struct sp_joint_candidate *best);
