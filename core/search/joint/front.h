#pragma once
/*
 * front - the plans that a search found and that no other beats in everything: latency, interval, memory of the fullest
 * device, devices used.
 */
#include "search/joint/candidate.h"

#define SP_FRONT_PLANS 8 /* kept at most: the first ones by the objective */

struct sp_front {
    uint32_t count;
    struct sp_joint_candidate **plans; /* that fit, the best by the objective first */
    uint32_t capacity;
};

/* Whether `a` is the better plan for the objective: ties are broken by the other figures, then a comes first. */
bool sp_front_better(enum sp_objective objective, const struct sp_joint_candidate *a,
                     const struct sp_joint_candidate *b);

/* Adds a candidate that fits, unless another beats it; drops those that it beats. False without memory. */
bool sp_front_add(struct sp_joint *joint, struct sp_front *front, struct sp_joint_candidate *candidate);

/* "2 stages of 4 devices, 1 of 8"; in `arena`, NULL without memory. */
const char *sp_front_describe(struct sp_arena *arena, const struct sp_placement *placement);
