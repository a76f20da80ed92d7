#pragma once
/*
 * cuts - in how many micro-batches the runs of each phase are cut, on the placement of a copy.
 *
 * Looked at are 1, 2, 4 .. SP_MOST_MICRO_BATCHES, each that divides the batch of the phase, where the copy has stages that
 * parts can follow each other through, or where a whole run does not fit. More parts make a run shorter, until what each
 * part takes anew (weights that are read, kernels that start) outweighs it, and leave less time for others; which one is
 * taken is a choice of the whole service (plan/service/choices.h). A model that cannot be cut (plan/micro/micro.h) runs
 * whole.
 *
 * Where the options ask for a number, it is taken for all phases whose batch it divides, and others run whole.
 */
#include "plan/service/copy.h"

#define SP_MOST_MICRO_BATCHES 16
#define SP_MOST_CUTS          5 /* 1, 2, 4, 8, 16 */

struct sp_phase_cut {
    uint32_t micro_batches;
    const struct sp_phase_figures *figures; /* of whole runs */
};

/* What was looked at of a phase, ascending; where some fit, these alone. */
struct sp_phase_cuts {
    uint32_t count;
    struct sp_phase_cut items[SP_MOST_CUTS];
};

/* `asked` as in the options: 0, a number or SP_MICRO_BATCHES_AUTO. `is_shorter_better`: the seconds
   of a run matter; else runs are cut only where they do not fit whole. */
enum sp_status sp_phase_cuts_find(struct sp_copy *copy, const struct sp_sizes *sizes, uint32_t asked,
                                  bool is_shorter_better, struct sp_phase_cuts *ret_cuts, struct sp_error *err);

/* Whether this says that a model cannot be cut like that ("MICRO_BATCHES_.."); that the number does not divide the batch. */
bool sp_cannot_be_cut(enum sp_status status, const struct sp_error *err);
bool sp_is_uneven_cut(enum sp_status status, const struct sp_error *err);
