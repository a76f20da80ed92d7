#pragma once
/*
 * choosing - what the sources that choose a service share: what was found so far, and the steps from a placement to the
 * answer.
 */
#include "plan/service/internal.h"

/* What was found so far. */
struct sp_choosing {
    struct sp_serving serving;
    struct sp_trial best; /* copy NULL: none */
    struct sp_trial_figures figures;
    uint32_t best_candidate, devices;
    struct sp_pools_choice pools; /* found, and best: these are the answer */
    bool pools_are_best;
    double closest;            /* of those that fit memory and break a limit: the smallest ratio */
    struct sp_service nearest; /* this one */
    struct sp_trial near;      /* and its copy, while there is no best one; else NULL */
    struct sp_error nofit;     /* of the first copy that does not fit, or SP_OK */
    struct sp_error uneven; /* of a phase whose batch the options' number of micro-batches does not divide, or SP_OK */
};

/* ---- judge.c ---- */

/* Judges a copy that was planned, or not, with `planned` and `why` of that; one that does not fit is none. Takes over the copy:
   it becomes the best one, or is destroyed. Figures are zero where there is none. */
enum sp_status sp_choosing_take(struct sp_choosing *c, struct sp_trial *trial, enum sp_status planned,
                                const struct sp_error *why, struct sp_trial_figures *ret_figures, struct sp_error *err);

/* ---- placements.c ---- */

/* Looks at all placements of so many copies, each on a part of the cluster. */
enum sp_status sp_choosing_try_copies(struct sp_choosing *c, const struct sp_cluster *part, uint32_t copies,
                                      struct sp_error *err);

/* ---- refusal.c ---- */

/* Nothing keeps the limits, or fits. */
enum sp_status sp_choosing_refuse(const struct sp_choosing *c, struct sp_error *err);
