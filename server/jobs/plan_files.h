#pragma once
/*
 * plan_files - the files of a plan's job, and how the daemon takes its result over from the worker.
 *
 * A plan's job ends with four files (struct result of handover.h): `file` is open for reading, `size` is its size, `name`
 * what it is called in the attempt's folder, and `path` where it is so far, in the daemon's folder of tmp. They are
 * sealed: nobody but the daemon can change them. plan_files_store() checks them against each other and the model, makes
 * them durable, and gives them their names; from there they may go on to an object store (store/objects/results.h).
 *
 * All calls wait for a disk.
 */
#include "jobs/handover.h"
#include "store/store.h"

/* Makes the files of the result. False with a problem. */
bool plan_files_prepare(const char *data, const char *owner, struct handover **ret_handover, struct problem *problem);

/* Opens the model, whose file is called `blob` (store.h), and the plan that this one follows, unless they are open. False
   with a problem: 500 or 404 when one is not there. */
bool plan_files_add_inputs(const char *data, const struct plan_row *plan, const char *blob, struct handover *handover,
                           struct problem *problem);

/* Checks, flushes and names the files of the plan's attempt. False with a problem; what was not named is removed with
   the handover. */
bool plan_files_store(const char *data, const struct plan_row *plan, struct handover *handover,
                      struct problem *problem);

/* Whether the worker is to blame for that problem. */
bool plan_files_refused(const struct problem *problem);
