#pragma once
/*
 * from_plan - a plan's JSON, the model it was made for, and a new cluster: the plan that follows it.
 */
#include "plan/job.h"

/*
 * Plans as sp_job_plan() does, with what moving costs. `plan` is what sp_plan_write_json() wrote of the plan that runs:
 * it is made again (sp_plan_from_json(), with its errors), its devices hold what it says, and its objective and options
 * are those of the new one, but for `terms`, and what `asked` has where that is not NULL. terms->from is set from it.
 *
 * `within` gets the cluster of before and the options, and must stay as long as the job, as `cluster` must.
 */
struct sp_replan_question {
    const json_t *plan;
    const struct sp_cluster *cluster;
    const struct sp_replan_terms *terms;
    const struct sp_plan_options *asked; /* or NULL: as it was asked before */
    double time_limit_seconds;           /* 0: none */
};
enum sp_status sp_plan_follow(struct sp_arena *within, const struct sp_job_options *job_options,
                              const struct sp_replan_question *question, struct sp_job **ret_job,
                              struct sp_plan **ret_plan, struct sp_error *err);
