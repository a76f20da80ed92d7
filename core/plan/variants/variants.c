#include "plan/variants/variants.h"
#include "plan/micro/micro.h"

#include <math.h>
#include <string.h>

#include "plan/service/service.h"
#include "plan/variants/internal.h"

/* Whether no other row is at least as good in devices, latency and interval and better in one of them. */
static bool is_pareto(const struct sp_variants *rows, uint32_t index)
{
    const struct sp_variant *row = &rows->rows[index];
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct sp_variant *other = &rows->rows[i];
        if (i == index || other->state != SP_VARIANT_FITS)
            continue;
        const int devices = sp_variants_compare_values(other->devices_used, row->devices_used);
        const int latency = sp_variants_compare_values(other->latency_seconds, row->latency_seconds);
        const int interval = sp_variants_compare_values(other->interval_seconds, row->interval_seconds);
        if (devices <= 0 && latency <= 0 && interval <= 0 && devices + latency + interval < 0)
            return false;
    }
    return true;
}

/* ---- a sweep ---------------------------------------------------------------------------------------------------- */

/* What was found so far. */
struct sweeping {
    struct sp_variants_run *run;
    const struct sp_sweep *sweep;
    struct sp_variants *rows;
    uint32_t chosen; /* row, while job is there */
    uint32_t best;   /* row with the best figure of the objective, likewise */
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_error first;   /* that is no lack of memory of devices, or SP_OK */
    struct sp_error closest; /* of the cluster that lacks least, or SP_OK */
    uint32_t closest_row;
    double closest_lack;
};

/* Whether the row is within the tolerance of the best one (search/joint/run/near_best.h). */
static bool is_near_best(const struct sweeping *s, uint32_t index)
{
    const enum sp_objective objective = s->run->options->objective;
    const struct sp_variant *row = &s->rows->rows[index], *best = &s->rows->rows[s->best];
    const bool is_latency = objective == SP_OBJECTIVE_LATENCY;
    const double most =
        (is_latency ? best->latency_seconds : best->interval_seconds) * (1 + s->run->options->tolerance);
    return (objective != SP_OBJECTIVE_DEVICES || row->devices_used <= best->devices_used) &&
           sp_variants_compare_values(is_latency ? row->latency_seconds : row->interval_seconds, most) <= 0;
}

/* Of the best rows those with the fewest devices; a row `b` that a better one has left behind is not among them. */
static bool is_preferred_near_best(const struct sweeping *s, uint32_t a, uint32_t b)
{
    const struct sp_variant *x = &s->rows->rows[a], *y = &s->rows->rows[b];
    if (!is_near_best(s, a) || !is_near_best(s, b))
        return is_near_best(s, a);
    if (x->devices_available != y->devices_available)
        return x->devices_available < y->devices_available;
    return sp_variants_compare(s->run->options, x, y) < 0;
}

static bool is_preferred(const struct sweeping *s, uint32_t a, uint32_t b)
{
    if (s->sweep->choice == SP_SWEEP_BEST && s->run->options->tolerance > 0)
        return is_preferred_near_best(s, a, b);
    const struct sp_variant *x = &s->rows->rows[a], *y = &s->rows->rows[b];
    const int objective = sp_variants_compare(s->run->options, x, y);
    const int devices = sp_variants_compare_values(x->devices_available, y->devices_available);
    const bool smallest = s->sweep->choice == SP_SWEEP_SMALLEST;
    const int first = smallest ? devices : objective, second = smallest ? objective : devices;
    return first != 0 ? first < 0 : second < 0;
}

/* Bytes that each device is short of, as far as the error says it. Where it does not, so many that those come first
   that say it; the more memory there is in all, the fewer. */
static double lack(const struct sp_error *err, const struct sp_cluster *cluster)
{
    double all = 0, most = 0;
    for (uint32_t d = 0; d < cluster->device_count; d++) {
        all += sp_cluster_memory(cluster, d);
        most = fmax(most, sp_cluster_memory(cluster, d));
    }
    if (err->least_memory_bytes > 0)
        return (double)err->least_memory_bytes - most;
    return SP_MAX_FIGURE * (2 - all / (SP_MAX_FIGURE * SP_MAX_DEVICES));
}

static void note_error(struct sweeping *s, uint32_t row, const struct sp_error *why)
{
    if (why->status != SP_ERR_NOFIT) {
        if (s->first.status == SP_OK)
            s->first = *why;
        return;
    }
    const double lacks = lack(why, s->sweep->clusters[row]);
    if (s->closest.status != SP_OK && lacks >= s->closest_lack)
        return;
    s->closest = *why;
    s->closest_row = row;
    s->closest_lack = lacks;
}

static enum sp_status sweep_one(struct sweeping *s, uint32_t i, struct sp_error *err)
{
    struct sp_variant *row = &s->rows->rows[i];
    struct sp_error why = {0};
    struct sp_job *job = NULL;
    struct sp_plan *plan = NULL;
    row->device = s->sweep->devices[i];
    row->is_mixed = s->sweep->clusters[i]->group_count > 1;
    s->run->held = s->job;
    enum sp_status status = sp_variants_look(s->run, s->sweep->clusters[i], row, &job, &plan, &why);
    if (status != SP_OK || plan == NULL) {
        note_error(s, i, &why);
        if (status != SP_OK && err != NULL)
            *err = why;
        return status;
    }
    if (s->job == NULL || sp_variants_compare(s->run->options, row, &s->rows->rows[s->best]) < 0)
        s->best = i;
    if (s->job != NULL && !is_preferred(s, i, s->chosen)) {
        sp_job_destroy(job);
        return SP_OK;
    }
    sp_job_destroy(s->job);
    s->job = job;
    s->plan = plan;
    s->chosen = i;
    s->run->best_seconds = sp_plan_gap(plan).best_seconds;
    return SP_OK;
}

/* No cluster has a plan: why not. What is wrong with the model or the request is wrong everywhere. */
static enum sp_status none_fits(const struct sweeping *s, struct sp_error *err)
{
    struct sp_error why = s->closest;
    if (s->closest.status == SP_OK || s->run->stopped) {
        why = s->first;
    } else if (s->sweep->count > 1) {
        char message[SP_ERROR_MESSAGE_SIZE];
        (void)snprintf(message, sizeof message,
                       "None of the %u clusters fits. The closest has %u devices (%.200s): ", s->sweep->count,
                       s->sweep->clusters[s->closest_row]->device_count, s->sweep->devices[s->closest_row]);
        const size_t used = strlen(message);
        (void)snprintf(message + used, sizeof message - used, "%s", s->closest.message);
        memcpy(why.message, message, sizeof message);
        sp_make_printable(why.message, sizeof why.message); /* cutting may have split a character */
    }
    if (err != NULL)
        *err = why;
    return why.status;
}

static enum sp_status plan_sweep(struct sp_variants_run *run, const struct sp_sweep *sweep, struct sp_job **ret_job,
                                 struct sp_plan **ret_plan, const struct sp_cluster **ret_cluster, struct sp_error *err)
{
    struct sweeping s = {.run = run, .sweep = sweep, .rows = SP_NEW(run->arena, struct sp_variants)};
    enum sp_status status = SP_OK;
    if (s.rows == NULL)
        return sp_fail_memory(err);
    s.rows->count = sweep->count;
    s.rows->rows = SP_NEW_ARRAY(run->arena, sweep->count, struct sp_variant);
    if (s.rows->rows == NULL)
        return sp_fail_memory(err);
    run->phase = "sweep";
    run->total = sweep->count;
    for (uint32_t i = 0; status == SP_OK && i < sweep->count; i++)
        status = sweep_one(&s, i, err);
    if (status == SP_OK && s.plan == NULL)
        status = none_fits(&s, err);
    if (status != SP_OK || s.plan == NULL) {
        sp_job_destroy(s.job);
        return status;
    }
    s.rows->rows[s.chosen].is_chosen = true;
    for (uint32_t i = 0; i < sweep->count; i++)
        s.rows->rows[i].is_pareto = s.rows->rows[i].state == SP_VARIANT_FITS && is_pareto(s.rows, i);
    s.plan->sweep = s.rows;
    *ret_job = s.job;
    *ret_plan = s.plan;
    *ret_cluster = sweep->clusters[s.chosen];
    return SP_OK;
}

/* ---- a service -------------------------------------------------------------------------------------------------- */

static enum sp_status plan_service(struct sp_variants_run *run, const struct sp_plan_target *target,
                                   struct sp_job **ret_job, struct sp_plan **ret_plan,
                                   const struct sp_cluster **ret_cluster, struct sp_error *err)
{
    const struct sp_sweep *sweep = target->sweep;
    const struct sp_plan_options *options = run->options;
    struct sp_job *job = NULL;
    struct sp_plan *plan = NULL;
    enum sp_status status =
        sweep != NULL ? sp_service_sweep(run->arena, &run->job_options, sweep, options, &job, &plan, err)
                      : sp_service_plan(run->arena, &run->job_options, target->cluster, options, &job, &plan, err);
    if (status == SP_OK)
        status = sp_service_look_alone(run->arena, &run->job_options, options, job, plan, err);
    if (status != SP_OK || plan == NULL) {
        sp_job_destroy(job);
        return status;
    }
    for (uint32_t i = 0; sweep != NULL && i < sweep->count; i++)
        if (plan->service->clusters[i].is_chosen)
            *ret_cluster = sweep->clusters[i];
    *ret_job = job;
    *ret_plan = plan;
    return SP_OK;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

enum sp_status sp_plan_answer(struct sp_arena *arena, const struct sp_job_options *job_options,
                              const struct sp_plan_target *target, const struct sp_plan_options *options,
                              struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err)
{
    struct sp_variants_run *run = SP_NEW(arena, struct sp_variants_run);
    const struct sp_cluster *cluster = target->cluster;
    struct sp_job *job = NULL;
    struct sp_plan *plan = NULL;
    enum sp_status status;
    if (run == NULL)
        return sp_fail_memory(err);
    if (options->micro_batches > 1 && options->traffic == NULL && target->sweep != NULL) {
        (void)sp_fail(err, SP_ERR_REQUEST, "MICRO_BATCHES_UNSUPPORTED",
                      "Micro-batches are not for sweeps of one step: leave them out, or name one cluster.");
        return sp_error_at(err, "/options/micro_batches");
    }
    if (options->micro_batches > 1 && options->traffic == NULL && options->what_if)
        return sp_micro_check_options(options, false, err);
    *run = (struct sp_variants_run){.arena = arena, .job_options = *job_options, .options = options};
    if (options->traffic != NULL)
        status = plan_service(run, target, &job, &plan, &cluster, err);
    else if (target->sweep != NULL)
        status = plan_sweep(run, target->sweep, &job, &plan, &cluster, err);
    else if (options->what_if)
        status = sp_variants_plan(run, job_options, cluster, &job, &plan, err);
    else if (options->micro_batches == SP_MICRO_BATCHES_AUTO)
        status = sp_micro_plan(job_options, cluster, options, &job, &plan, err);
    else
        status = sp_job_plan(job_options, cluster, options, &job, &plan, err);
    if (status == SP_ERR_NOFIT && target->sweep == NULL && options->what_if)
        sp_variants_explain_nofit(run, cluster, err);
    if (plan != NULL && options->what_if) {
        run->held = job;
        run->stopped = run->stopped || plan->result->stopped;
        status = sp_variants_what_if(run, cluster, plan, err);
    }
    run->is_over = true;
    sp_variants_drop_base(run);
    if (plan == NULL)
        return status;
    if (status != SP_OK) {
        sp_job_destroy(job);
        return status;
    }
    *ret_job = job;
    *ret_plan = plan;
    return SP_OK;
}
