/* What each phase would take on a plan for it alone, and what the others would then take. */
#include "plan/internal.h"
#include "plan/service/internal.h"

#define MOST_PHASES 8 /* that are looked at: each is a search of its own */

struct looking {
    struct sp_arena *arena;
    struct sp_copy_question question;
    const struct sp_plan *plan;
    const struct sp_service *service;
};

/* The plan is for this phase alone already. */
static bool is_for(const struct sp_service *service, const struct sp_service_phase *phase)
{
    bool is_for_all = false;
    for (uint32_t i = 0; i < service->candidate_count; i++)
        is_for_all = is_for_all || (service->candidates[i].is_chosen && service->candidates[i].is_for_all);
    return phase->is_planned && !is_for_all;
}

static enum sp_status look_at(const struct looking *l, struct sp_copy *copy, struct sp_service_alone *times,
                              struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < l->service->phase_count; i++) {
        const struct sp_phase_figures *figures;
        status = sp_copy_evaluate(
            copy, &(struct sp_cut_sizes){l->service->phases[i].sizes, l->service->phases[i].micro_batches}, &figures,
            err);
        if (status == SP_OK)
            times[i] = (struct sp_service_alone){figures->latency_seconds.value, figures->interval_seconds.value,
                                                 figures->excess_bytes <= 0};
    }
    return status;
}

/* One that cannot be planned beside the plan, or in time, has no figures. */
static enum sp_status plan_alone(const struct looking *l, struct sp_service_phase *phase, struct sp_error *err)
{
    struct sp_service_alone *times = SP_NEW_ARRAY(l->arena, l->service->phase_count, struct sp_service_alone);
    struct sp_copy *copy = NULL;
    struct sp_error why = {0};
    if (times == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_copy_plan(&l->question, l->plan->cluster,
                                         &(struct sp_cut_sizes){phase->sizes, phase->micro_batches}, &copy, &why);
    if (status == SP_OK)
        status = look_at(l, copy, times, &why);
    sp_copy_destroy(copy);
    if (status == SP_OK)
        phase->alone = times;
    if (status == SP_OK || status == SP_ERR_MEMORY || status == SP_ERR_NOFIT || status == SP_ERR_CANCELLED)
        return SP_OK;
    if (err != NULL)
        *err = why;
    return status;
}

static enum sp_status take_own(const struct looking *l, struct sp_service_phase *phase, struct sp_error *err)
{
    struct sp_service_alone *times = SP_NEW_ARRAY(l->arena, l->service->phase_count, struct sp_service_alone);
    if (times == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < l->service->phase_count; i++)
        times[i] = (struct sp_service_alone){l->service->phases[i].latency_seconds.value,
                                             l->service->phases[i].interval_seconds.value, true};
    phase->alone = times;
    return SP_OK;
}

enum sp_status sp_service_look_alone(struct sp_arena *arena, const struct sp_job_options *job_options,
                                     const struct sp_plan_options *options, const struct sp_job *job,
                                     const struct sp_plan *plan, struct sp_error *err)
{
    const struct sp_plan_options own = sp_service_copy_options(options);
    struct sp_job_options rest = *job_options;
    struct looking l = {arena, {arena, &rest, &own}, plan, plan->service};
    enum sp_status status = SP_OK;
    size_t limit = rest.memory_budget != 0 ? rest.memory_budget : SP_DEFAULT_JOB_BYTES;
    for (; job != NULL && limit > 0; job = job->next)
        limit -= job->budget.used < limit ? job->budget.used : limit;
    rest.memory_budget = limit;
    if (limit == 0 || l.service->phase_count < 2 || l.service->phase_count > MOST_PHASES || l.service->pools != NULL ||
        plan->cluster->device_count < 2)
        return SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < l.service->phase_count; i++) {
        struct sp_service_phase *phase = (struct sp_service_phase *)(uintptr_t)&l.service->phases[i];
        status = is_for(l.service, phase) ? take_own(&l, phase, err) : plan_alone(&l, phase, err);
    }
    return status;
}
