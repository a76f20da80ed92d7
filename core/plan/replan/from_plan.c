#include "plan/replan/from_plan.h"

#include "plan/internal.h"
#include "plan/subject.h"

/* What the new plan may take beside the one of before, which stays in memory meanwhile. */
static struct sp_job_options options_beside(const struct sp_job_options *job_options, const struct sp_job *before)
{
    struct sp_job_options rest = *job_options;
    const size_t limit = rest.memory_budget != 0 ? rest.memory_budget : SP_DEFAULT_JOB_BYTES;
    rest.memory_budget = limit > before->budget.used ? limit - before->budget.used : 1;
    return rest;
}

/* Options of the plan and of the question; strings stay owned by their JSON. */
static enum sp_status merge_options(struct sp_arena *within, const struct sp_replan_question *question,
                                    struct sp_plan_options *ret_options, struct sp_error *err)
{
    const json_t *of_plan = json_object_get(question->plan, "options");
    const json_t *objective =
        question->objective != NULL ? question->objective : json_object_get(question->plan, "objective");
    json_t *merged = of_plan != NULL ? json_copy((json_t *)(uintptr_t)of_plan) : json_object();
    if (merged == NULL)
        return sp_fail_memory(err);
    /* What is asked around a plan is asked of each plan anew. */
    (void)json_object_del(merged, "what_if");
    (void)json_object_del(merged, "time_limit_seconds");
    (void)json_object_del(merged, "replan");
    enum sp_status status = SP_OK;
    if (question->options != NULL && json_object_update(merged, (json_t *)(uintptr_t)question->options) != 0)
        status = sp_fail(err, SP_ERR_REQUEST, "INVALID_OPTION", "The options must be an object, like {\"seed\": 8}.");
    if (status == SP_OK)
        status = sp_plan_options_parse(within, objective, merged, ret_options, err);
    json_decref(merged);
    return status;
}

enum sp_status sp_plan_follow(struct sp_arena *within, const struct sp_job_options *job_options,
                              const struct sp_replan_question *question, struct sp_job **ret_job,
                              struct sp_plan **ret_plan, struct sp_error *err)
{
    struct sp_job *before = NULL;
    struct sp_plan *old = NULL;
    struct sp_plan_options options;
    struct sp_replan_terms *terms = SP_NEW(within, struct sp_replan_terms);
    if (terms == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_plan_from_json(job_options, question->plan, within, &before, &old, err);
    if (status == SP_OK)
        status = merge_options(within, question, &options, err);
    if (status == SP_OK) {
        const struct sp_past past = {
            .placed = {old->workload, &old->result->placement, old->result->sharded, old->result->routes},
            .cluster = old->cluster};
        *terms = *question->terms;
        terms->from = json_string_value(json_object_get(question->plan, "id"));
        options.replan = terms;
        options.past = &past;
        const struct sp_job_options rest = options_beside(job_options, before);
        status = sp_job_plan(&rest, question->cluster, &options, ret_job, ret_plan, err);
    }
    sp_job_destroy(before);
    return status;
}
