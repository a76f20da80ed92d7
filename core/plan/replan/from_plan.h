#pragma once
/*
 * from_plan - a plan's JSON, the model it was made for, and a new cluster: the plan that follows it.
 */
#include "plan/job.h"

struct sp_replan_question {
    const json_t *plan; /* what sp_plan_write_json() wrote of the plan that runs */
    const struct sp_cluster *cluster;
    const struct sp_replan_terms *terms; /* `from` is taken from the plan */
    const json_t *objective, *options;   /* or NULL. The plan's, but for those that are given here */
};

/*
 * Plans as sp_job_plan() does, with what moving costs. The plan that runs is made again (sp_plan_from_json(), with its
 * errors), and its devices hold what it says.
 *
 * `within` gets the cluster of before and the options, and must stay as long as the job, as `cluster` and the JSON
 * must.
 */
enum sp_status sp_plan_follow(struct sp_arena *within, const struct sp_job_options *job_options,
                              const struct sp_replan_question *question, struct sp_job **ret_job,
                              struct sp_plan **ret_plan, struct sp_error *err);
