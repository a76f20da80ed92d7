#include <math.h>
#include <string.h>

#include "plan/service/service.h"
#include "plan/service/traffic.h"
#include "plan/variants/internal.h"

#define READING_SHARE 0.1 /* of a variant's progress: what comes before its search */

/* The watch of a variant's job: its progress is a part of the whole. */
static bool tick(void *context, const char *phase, double fraction, double best_seconds, double lower_bound_seconds)
{
    struct sp_variants_run *run = context;
    const bool searches = strcmp(phase, "search") == 0;
    const double within = searches ? READING_SHARE + (1 - READING_SHARE) * fraction : READING_SHARE * fraction;
    /* The bound is of this cluster alone. */
    if (run->is_over)
        return sp_watch_tick(run->job_options.watch, phase, fraction, best_seconds, lower_bound_seconds);
    run->within = fmax(run->within, within); /* a model may be read again */
    if (!run->stopped)
        run->stopped = !sp_watch_tick(run->job_options.watch, run->phase, (run->done + run->within) / run->total,
                                      run->best_seconds > 0 ? run->best_seconds : best_seconds, 0);
    return !run->stopped;
}

/* Of all copies. */
static enum sp_status take_service(struct sp_arena *arena, const struct sp_service *service, struct sp_variant *row,
                                   struct sp_error *err)
{
    row->latency_seconds = service->request_seconds.value;
    row->interval_seconds = 1 / service->requests_per_second.value;
    row->devices_used = service->devices;
    row->memory_bytes = service->memory_bytes;
    row->price_per_hour = service->price_per_hour;
    row->description = sp_arena_printf(arena, "%u x %s", service->copies, row->description);
    return row->description != NULL ? SP_OK : sp_fail_memory(err);
}

enum sp_status sp_variants_take_figures(struct sp_arena *arena, const struct sp_plan *plan, struct sp_variant *row,
                                        struct sp_error *err)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    row->state = SP_VARIANT_FITS;
    row->latency_seconds = evaluation->latency_seconds;
    row->interval_seconds = sp_evaluation_interval(evaluation);
    row->devices_used = sp_plan_devices_used(plan);
    row->stage_count = evaluation->stage_count;
    row->memory_bytes = 0;
    for (uint32_t s = 0; s < evaluation->stage_count; s++)
        row->memory_bytes = fmax(row->memory_bytes, evaluation->stages[s].total_bytes);
    const char *description = "";
    for (uint32_t i = 0; i < plan->result->front_count; i++) {
        if (plan->result->front[i].is_chosen)
            description = plan->result->front[i].description;
    }
    row->description = sp_arena_string(arena, description, strlen(description));
    if (row->description == NULL)
        return sp_fail_memory(err);
    return plan->service != NULL ? take_service(arena, plan->service, row, err) : SP_OK;
}

/* What a job may take beside the plan that is held, and beside a base; false: nothing. */
static bool budget_left(const struct sp_variants_run *run, size_t *ret_bytes)
{
    const size_t limit = run->job_options.memory_budget != 0 ? run->job_options.memory_budget : SP_DEFAULT_JOB_BYTES;
    const struct sp_job *base = run->base != NULL ? run->base : run->held != NULL ? run->held->base : NULL;
    size_t held = base != NULL ? base->budget.used : 0;
    for (const struct sp_job *job = run->held; job != NULL; job = job->next)
        held += job->budget.used;
    *ret_bytes = limit > held ? limit - held : 0;
    return limit > held;
}

#define STORE_PART 4 /* of the memory that is left, a base may take one part of so many while a plan is made */

/* Opens the model where that was not tried yet. What is wrong with it, each plan will say. */
static void open_base(struct sp_variants_run *run, const struct sp_job_options *job_options)
{
    struct sp_error ignored = {0};
    if (run->base == NULL && !run->is_alone)
        (void)sp_job_open_base(job_options, run->options, &run->base, &ignored);
    run->is_alone = run->base == NULL;
}

enum sp_status sp_variants_plan(struct sp_variants_run *run, const struct sp_job_options *job_options,
                                const struct sp_cluster *cluster, struct sp_job **ret_job, struct sp_plan **ret_plan,
                                struct sp_error *err)
{
    struct sp_job_options own = *job_options;
    size_t left;
    if (run->options->traffic == NULL)
        open_base(run, job_options);
    if (!budget_left(run, &left))
        return sp_fail_memory(err);
    if (run->options->traffic != NULL) {
        own.memory_budget = left;
        return sp_service_plan(run->arena, &own, cluster, run->options, ret_job, ret_plan, err);
    }
    if (run->base != NULL) {
        run->base->budget.limit = run->base->budget.used + left / STORE_PART;
        own.memory_budget = left - left / STORE_PART;
        const enum sp_status status =
            own.memory_budget == 0
                ? SP_ERR_MEMORY
                : sp_job_plan_on_base(run->base, &own, cluster, run->options, ret_job, ret_plan, err);
        if (status != SP_ERR_MEMORY)
            return status;
        sp_variants_drop_base(run);
        sp_error_clear(err);
        if (!budget_left(run, &left))
            return sp_fail_memory(err);
    }
    own.memory_budget = left;
    return sp_job_plan(&own, cluster, run->options, ret_job, ret_plan, err);
}

void sp_variants_drop_base(struct sp_variants_run *run)
{
    sp_job_destroy(run->base);
    run->base = NULL;
    run->is_alone = true;
}

static enum sp_status close_row(struct sp_variants_run *run, const struct sp_error *why, struct sp_variant *row,
                                struct sp_error *err)
{
    const char *message = why->message;
    row->state = SP_VARIANT_NOFIT;
    if (why->status == SP_ERR_CANCELLED) {
        row->state = SP_VARIANT_OPEN;
        message = "The search was stopped before this was looked at.";
    } else if (why->status == SP_ERR_MEMORY) {
        row->state = SP_VARIANT_OPEN;
        message = "The memory of one job does not suffice to look at this beside the plan.";
    }
    row->message = sp_arena_string(run->arena, message, strlen(message));
    return row->message != NULL ? SP_OK : sp_fail_memory(err);
}

enum sp_status sp_variants_look(struct sp_variants_run *run, const struct sp_cluster *cluster, struct sp_variant *row,
                                struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *ret_why)
{
    struct sp_job_options job_options = run->job_options;
    struct sp_job *job = NULL;
    struct sp_plan *plan = NULL;
    struct sp_error failed = {0};
    row->devices_available = cluster->device_count;
    run->within = 0;
    run->watch = (struct sp_watch){.tick = tick, .context = run, .stop = sp_watch_stop(run->job_options.watch)};
    job_options.watch = &run->watch;
    job_options.skip_minimum_memory = ret_job == NULL; /* of changed clusters only figures are wanted */
    if (!sp_watch_tick(&run->watch, "read", 0, 0, 0))
        (void)sp_fail(ret_why, SP_ERR_CANCELLED, "CANCELLED", "The search was cancelled.");
    else
        (void)sp_variants_plan(run, &job_options, cluster, &job, &plan, ret_why);
    run->done++;
    if (plan == NULL)
        return close_row(run, ret_why, row, ret_why);
    enum sp_status status = sp_variants_take_figures(run->arena, plan, row, &failed);
    if (status == SP_OK && plan->result->stopped)
        row->message = "The search was stopped before its end: this is the best plan found until then.";
    if (status != SP_OK || ret_job == NULL) {
        sp_job_destroy(job);
        if (status != SP_OK)
            *ret_why = failed;
        return status;
    }
    *ret_job = job;
    *ret_plan = plan;
    return SP_OK;
}

/* Differences in the last bits of a sum are none. */
int sp_variants_compare_values(double a, double b)
{
    const double slack = 1e-9 * fmax(a, b);
    return a < b - slack ? -1 : a > b + slack;
}

enum sp_objective sp_variants_objective(const struct sp_plan_options *options)
{
    const bool has_rate = options->traffic != NULL && options->traffic->rate_per_second > 0;
    return has_rate && options->objective == SP_OBJECTIVE_THROUGHPUT ? SP_OBJECTIVE_LATENCY : options->objective;
}

int sp_variants_compare(const struct sp_plan_options *options, const struct sp_variant *a, const struct sp_variant *b)
{
    const int interval = sp_variants_compare_values(a->interval_seconds, b->interval_seconds);
    const int latency = sp_variants_compare_values(a->latency_seconds, b->latency_seconds);
    const int devices = sp_variants_compare_values(a->devices_used, b->devices_used);
    const int memory = sp_variants_compare_values(a->memory_bytes, b->memory_bytes);
    const int orders[][4] = {
        [SP_OBJECTIVE_THROUGHPUT] = {interval, latency, devices, memory},
        [SP_OBJECTIVE_LATENCY] = {latency, devices, interval, memory},
        [SP_OBJECTIVE_DEVICES] = {devices, interval, latency, memory},
    };
    const int price = options->by_price ? sp_variants_compare_values(a->price_per_hour, b->price_per_hour) : 0;
    for (size_t i = 0; price == 0 && i < 4; i++) {
        const int order = orders[sp_variants_objective(options)][i];
        if (order != 0)
            return order;
    }
    return price;
}
