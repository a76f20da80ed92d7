#pragma once
/*
 * batches - which batches of a phase are looked at, where the workload leaves it to the planner ("batch": "best").
 *
 * The batch is a symbol of the model's inputs (plan/micro/micro.h), or the one that the workload names. A run serves as many
 * requests as its batch has elements. Looked at on a copy are
 *
 *   1, 2, 4 .. SP_MOST_BATCH, and the number of the copy's devices times these where it is no power of two: until one does
 *   not fit, takes longer than a request may, or two in a row bring nothing
 *
 * and then, around the one that is best for the whole service, halfway to the next ones that were looked at on either side,
 * again and again until these are its neighbours, and the next multiples of the number of devices, which divide evenly. So
 * the largest batch that memory or a limit allows is found, which no power of two need be.
 */
#include "plan/service/choices.h"
#include "plan/service/internal.h"

#define SP_MOST_BATCH   1024 /* that is looked at */
#define SP_MOST_BATCHES 96   /* of a phase on one copy */

/* What was looked at of a phase on one copy, ascending; also what does not fit or cannot be computed. */
struct sp_phase_batches {
    uint32_t count;
    int64_t batches[SP_MOST_BATCHES]; /* 0: that of the phase's dims */
    struct sp_phase_choices choices;
};

/* The sizes of all phases, and which symbol the batch of those is that leave it open. SP_ERR_REQUEST "WORKLOAD_SYMBOLS": the
   model has none; "WORKLOAD_BATCH": dims of the phase bind it. */
enum sp_status sp_phases_open(struct sp_serving *serving, struct sp_error *err);

/* The sizes of a phase at this batch; 0: its own. */
enum sp_status sp_phase_sizes(const struct sp_serving *serving, uint32_t phase, int64_t batch,
                              struct sp_sizes *ret_sizes, struct sp_error *err);

/* Runs of a phase that a request needs in the mean, at this batch. */
double sp_phase_runs(const struct sp_serving *serving, uint32_t phase, int64_t batch);

/* What to begin with. */
enum sp_status sp_phase_batches_begin(const struct sp_trial *trial, uint32_t phase,
                                      struct sp_phase_batches *ret_batches, struct sp_error *err);

/* Looks at what is next to `best`. *ret_grown: something is new. */
enum sp_status sp_phase_batches_near(const struct sp_trial *trial, uint32_t phase, int64_t best,
                                     struct sp_phase_batches *batches, bool *ret_grown, struct sp_error *err);
