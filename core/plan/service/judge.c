/* What a copy gives as a service, and whether it is the best so far. */
#include "base/array.h"
#include "plan/service/choosing.h"

static enum sp_status add_candidate(struct sp_choosing *c, const struct sp_trial *trial,
                                    const struct sp_trial_figures *figures, struct sp_error *err)
{
    struct sp_serving *serving = &c->serving;
    const struct sp_plan *plan = sp_copy_plan_of(trial->copy);
    const struct sp_service *service = &figures->service;
    if (!SP_MAKE_ROOM(serving->arena, serving->candidates, serving->candidate_count, serving->candidate_capacity, 1))
        return sp_fail_memory(err);
    struct sp_service_candidate *candidate = &serving->candidates[serving->candidate_count++];
    *candidate = (struct sp_service_candidate){
        .copies = trial->copies,
        .devices = sp_plan_devices_used(plan),
        .description = sp_trial_description(trial),
        .planned = trial->planned.name,
        .planned_batch = trial->planned.batch,
        .is_for_all = trial->is_for_all,
        .concurrency = service->concurrency,
        .chunk = service->chunk,
        .ttft_seconds = service->ttft_seconds.value,
        .tpot_seconds = service->tpot_seconds.value,
        .request_seconds = service->request_seconds.value,
        .requests_per_second = service->requests_per_second.value,
        .limit_ratio = figures->limit_ratio,
        .fits = figures->fits,
    };
    return candidate->description != NULL ? SP_OK : sp_fail_memory(err);
}

/* Whether the phase at whose sizes the copy is planned runs at these, and not at another batch. */
static bool is_as_planned(const struct sp_trial *trial, const struct sp_trial_figures *figures)
{
    return trial->planned.batch == 0 || figures->batches[trial->planned.index] == trial->planned.batch;
}

/* Whether it is the answer before the best one so far: of equal ones that which is planned as it runs. */
static bool is_next(const struct sp_choosing *c, const struct sp_trial *trial, const struct sp_trial_figures *figures)
{
    const struct sp_service *now = &figures->service, *best = &c->figures.service;
    if (c->best.copy == NULL || sp_service_is_better(&c->serving, now, best))
        return true;
    return is_as_planned(trial, figures) && !is_as_planned(&c->best, &c->figures) && now->devices == best->devices &&
           !sp_service_is_better(&c->serving, best, now);
}

/* Takes over the copy: it becomes the best one, or is destroyed. */
static enum sp_status judge(struct sp_choosing *c, const struct sp_trial *trial, struct sp_trial_figures *ret_figures,
                            struct sp_error *err)
{
    struct sp_trial_figures figures;
    enum sp_status status =
        c->serving.traffic->is_llm ? sp_serve_llm(trial, &figures, err) : sp_serve_phases(trial, &figures, err);
    if (status == SP_OK)
        status = add_candidate(c, trial, &figures, err);
    if (status == SP_OK && c->serving.traffic->is_llm && c->serving.traffic->rate_per_second <= 0)
        status = sp_serve_llm_points(trial, &figures, c->serving.candidates[c->serving.candidate_count - 1].description,
                                     err);
    if (status != SP_OK) {
        sp_copy_destroy(trial->copy);
        return status;
    }
    const uint32_t devices = trial->copies * sp_plan_devices_used(sp_copy_plan_of(trial->copy));
    const bool keeps = figures.limit_ratio <= 1;
    if ((c->serving.by_price || c->serving.traffic->budget_per_hour > 0) && trial->price_per_hour <= 0) {
        sp_copy_destroy(trial->copy);
        (void)sp_fail(err, SP_ERR_REQUEST, "PRICE_UNKNOWN",
                      "A device has no price: give price_per_hour of each group of the cluster.");
        return sp_error_at(err, "/cluster");
    }
    figures.service.devices = devices;
    *ret_figures = figures;
    if (figures.fits && !keeps && c->best.copy == NULL && (c->closest <= 0 || figures.limit_ratio < c->closest)) {
        c->closest = figures.limit_ratio;
        c->nearest = figures.service;
        sp_copy_destroy(c->near.copy);
        c->near = *trial;
        return SP_OK;
    }
    if (!figures.fits || !keeps || !is_next(c, trial, &figures)) {
        sp_copy_destroy(trial->copy);
        return SP_OK;
    }
    sp_copy_destroy(c->best.copy);
    sp_copy_destroy(c->near.copy);
    c->near.copy = NULL;
    c->best = *trial;
    c->figures = figures;
    c->devices = devices;
    c->best_candidate = c->serving.candidate_count - 1;
    return SP_OK;
}

enum sp_status sp_choosing_take(struct sp_choosing *c, struct sp_trial *trial, enum sp_status planned,
                                const struct sp_error *why, struct sp_trial_figures *ret_figures, struct sp_error *err)
{
    *ret_figures = (struct sp_trial_figures){0};
    if (planned == SP_ERR_NOFIT) {
        if (c->nofit.status == SP_OK)
            c->nofit = *why;
        return SP_OK;
    }
    if (planned == SP_OK) {
        sp_trial_find_price(trial);
        return judge(c, trial, ret_figures, err);
    }
    if (err != NULL)
        *err = *why;
    return planned;
}
