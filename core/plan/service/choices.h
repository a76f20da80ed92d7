#pragma once
/*
 * choices - of each phase of a service one of the ways in which its runs may go: a batch, and in how many micro-batches
 * it is cut.
 *
 * A choice has n runs for a request in the mean, of latency L and interval I, and f seconds until as many requests as a run
 * serves are there; c runs in a row are what such a request waits for. What the whole service takes grows with each of
 *
 *   n I          busy seconds of the devices
 *   c (f + L)    seconds of a request
 *   n I^2        how long others wait behind a run (service/phases.h)
 *
 * so that a choice that is above another one of its phase in none of them makes the other one useless.
 *
 * Where all combinations are too many, those are looked at that for some weight w, which all phases have in common, have the
 * least n I + w c (f + L): every weight at which a choice changes is tried, which are all services on the lower convex
 * hull of the devices' seconds and a request's.
 */
#include "plan/service/copy.h"

struct sp_phase_choice {
    int64_t batch; /* 0: as the phase's dims say */
    uint32_t micro_batches;
    double runs, fill_seconds;              /* n, f */
    const struct sp_phase_figures *figures; /* of whole runs */
};

/* In order of the batch, then of the parts. */
struct sp_phase_choices {
    double waits; /* c */
    uint32_t count, capacity;
    struct sp_phase_choice *items;
};

/* Adds it where it belongs. False without memory. */
bool sp_phase_choices_add(struct sp_arena *arena, struct sp_phase_choices *choices,
                          const struct sp_phase_choice *choice);

/* Those that fit, without the useless ones; where none fits, the one that lacks least. Of equal ones the first stays. */
enum sp_status sp_phase_choices_useful(struct sp_arena *arena, const struct sp_phase_choices *choices,
                                       struct sp_phase_choices *ret_useful, struct sp_error *err);

/* Of each phase what is best at this weight; of equal ones the first. */
void sp_phase_choices_pick(uint32_t count, const struct sp_phase_choices *phases, double weight,
                           const struct sp_phase_choice **picks);

/* The weights at which a pick changes, ascending; at each the pick of less seconds is best. With the picks at weight 0 these
   are all of the hull. */
enum sp_status sp_phase_choices_weights(struct sp_arena *arena, uint32_t count, const struct sp_phase_choices *phases,
                                        uint32_t *ret_count, const double **ret_weights, struct sp_error *err);
