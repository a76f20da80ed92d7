#pragma once
/*
 * write - the members of a plan's JSON that say what its moves are, of a plan that follows another one:
 *
 *   "moved_bytes", "moved_bytes_bound", "moves": [{"tensor", "box", "from", "to", "bytes"}], and "replan": {..}
 *
 * Devices are those of the plan. "from" is "store" where no device has what is moved, "box" null where it is all of the
 * tensor. Nothing is written for other plans.
 */
#include "plan/plan.h"

void sp_replan_write_json(const struct sp_plan *plan, struct sp_json *json);

/* The same for people: what each device keeps, gets and frees, and what else could be done. */
void sp_replan_write_text(const struct sp_plan *plan, struct sp_buf *buf);
