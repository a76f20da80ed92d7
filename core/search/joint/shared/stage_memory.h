#pragma once
/*
 * stage_memory - how much memory stages of units need, as the search for stages asks (solvers/stages/stages.h).
 *
 * That search mostly asks about neighbouring units, and about the same ones many times: each limit of a bisection, each
 * objective and each size of a fleet cuts the same order again. The answers depend on the units and on the profile
 * only, so they are kept beside the profile, for neighbouring units: *known bytes*. A set of units is brought up to
 * date only where it is asked about what is not known.
 *
 * Invariants
 *  - Known bytes are exactly those that the set counts: they are kept only where all figures are whole numbers whose
 *    sums are exact, so that it does not matter in which order units came and went.
 *  - Sets of one memory may be used by several threads at a time; who comes first writes what all would write.
 *  - All known bytes of one search take at most SP_KNOWN_BYTES.
 */
#include "search/joint/candidate.h"

#define SP_KNOWN_BYTES ((size_t)64 << 20)

/* The memory of stages under the proposal's profiles; `parts` are the units, with a block for each profile. In the
   arena of `joint`; NULL without memory. */
const struct sp_stages_memory *sp_joint_stage_memory(struct sp_joint *joint, const struct sp_proposal *proposal,
                                                     const struct sp_stage_parts *parts);
