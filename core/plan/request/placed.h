#pragma once
/*
 * placed - a file of another tool that says where nodes run (import/import.h), as constraints of a plan.
 */
#include "plan/job.h"

/*
 * Adds to `constraints`, an object in the form of plan/request/constraints.h, the pins and specs that keep nodes and
 * tensors where the file says. The model is read at the sizes of the plan, so that nodes that run at load are left out.
 * SP_ERR_REQUEST "PLACEMENT_FILE" says what is wrong with the file, or what no constraint can say.
 */
enum sp_status sp_placed_constraints(const struct sp_job_options *job_options, const struct sp_cluster *cluster,
                                     const struct sp_plan_options *options, const char *text, size_t size,
                                     json_t *constraints, struct sp_error *err);
