#pragma once
/*
 * pareto_front - the plans that a search found and that no other beats in everything: latency, interval, memory of the
 * fullest device, devices used.
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

/*
 * Runner-up. Two plans have the same *form* when they have as many stages of each kind of device, size and number of
 * replicas: what differs then are borders, strategies and which of equal devices is which. joint->ranked has the best
 * plan of all that were evaluated and fit, dominated ones among them, and the best one of another form.
 *
 * Whether the candidate was taken in, and has to stay as it is. sp_front_add() does that, too.
 */
bool sp_front_rank(struct sp_joint *joint, struct sp_joint_candidate *candidate);

/* The one of joint->ranked that has another form than the plan; NULL: there is none. */
struct sp_joint_candidate *sp_front_second(const struct sp_joint *joint, const struct sp_joint_candidate *plan);

/* Keeps a copy of the candidate in joint->beyond where memory is all that it lacks, and it is the best of those, or for
   SP_OBJECTIVE_DEVICES lacks least of those with fewer devices. Not under constraints, which it may break. False
   without memory. */
bool sp_front_note_short_of_memory(struct sp_joint *joint, const struct sp_joint_candidate *candidate);

/* "2 stages of 4 devices, 1 of 8", "4 copies of 1 stage of 2 devices", or of several routes "3 routes through 5 devices"; in `arena`, NULL without memory.
   `routed` may be NULL. */
const char *sp_front_describe(struct sp_arena *arena, const struct sp_placement *placement,
                              const struct sp_routed *routed);
