#include "plan/replan/from_plan.h"

#include "plan/subject.h"

enum sp_status sp_plan_follow(struct sp_arena *within, const struct sp_job_options *job_options,
                              const struct sp_replan_question *question, struct sp_job **ret_job,
                              struct sp_plan **ret_plan, struct sp_error *err)
{
    struct sp_job *before = NULL;
    struct sp_plan *old = NULL;
    struct sp_plan_options options;
    struct sp_replan_terms *terms = SP_NEW(within, struct sp_replan_terms);
    const char *id = json_string_value(json_object_get(question->plan, "id"));
    if (terms == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_plan_from_json(job_options, question->plan, within, &before, &old, err);
    if (status == SP_OK && question->asked == NULL)
        status = sp_plan_options_parse(within, json_object_get(question->plan, "objective"),
                                       json_object_get(question->plan, "options"), &options, err);
    if (status == SP_OK) {
        const struct sp_past past = {.placed = {old->workload, &old->result->placement, old->result->sharded},
                                     .cluster = old->cluster};
        options = question->asked != NULL ? *question->asked : options;
        *terms = *question->terms;
        terms->from = id;
        options.replan = terms;
        options.past = &past;
        options.what_if = false;
        options.time_limit_seconds = question->time_limit_seconds;
        status = sp_job_plan(job_options, question->cluster, &options, ret_job, ret_plan, err);
    }
    sp_job_destroy(before);
    return status;
}
