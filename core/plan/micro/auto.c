/* How many micro-batches are best: one plan for each number. */
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "plan/internal.h"
#include "plan/micro/micro.h"
#include "plan/variants/internal.h"

#define ENOUGH 2 /* numbers in a row that are no better than smaller ones, until no larger ones are tried */

struct choosing {
    const struct sp_job_options *job_options;
    const struct sp_cluster *cluster;
    const struct sp_plan_options *options;
    struct sp_arena *arena;        /* of what is said of the trials */
    struct sp_micro_batches micro; /* of the whole model: the batch, and what is cut */
    struct sp_error mixed;         /* why it is not cut; status SP_OK: it may be */
    uint32_t trial_count, trial_capacity, disappointed;
    struct sp_micro_trial *trials;
    uint32_t best; /* of the trials */
    uint32_t held; /* the trial whose job is held */
    struct sp_job *job;
    struct sp_plan *plan;
    bool stopped;
    struct sp_watch watch;
    double share; /* of the progress: of one trial */
};

/* The progress of one trial is a part of the whole. */
static bool tick(void *context, const char *phase, double fraction, double best_seconds, double lower_bound_seconds)
{
    struct choosing *c = context;
    (void)lower_bound_seconds; /* of one number alone */
    return sp_watch_tick(c->job_options->watch, phase, fmin(1, c->share * (c->trial_count + fraction)), best_seconds,
                         0);
}

static double value_of(const struct choosing *c, const struct sp_micro_trial *trial)
{
    return c->options->objective == SP_OBJECTIVE_LATENCY ? trial->latency_seconds : trial->interval_seconds;
}

/* Below 0: `a` is better by the objective. */
static int compare(const struct choosing *c, const struct sp_micro_trial *a, const struct sp_micro_trial *b)
{
    if (a->fits != b->fits)
        return a->fits ? -1 : 1;
    if (c->options->objective == SP_OBJECTIVE_DEVICES && a->devices_used != b->devices_used)
        return a->devices_used < b->devices_used ? -1 : 1;
    return value_of(c, a) < value_of(c, b) ? -1 : value_of(c, a) > value_of(c, b);
}

static bool is_near(const struct choosing *c, const struct sp_micro_trial *trial)
{
    const struct sp_micro_trial *best = &c->trials[c->best];
    return trial->fits &&
           (c->options->objective != SP_OBJECTIVE_DEVICES || trial->devices_used <= best->devices_used) &&
           value_of(c, trial) <= value_of(c, best) * (1 + c->options->tolerance);
}

static enum sp_status plan_with(struct choosing *c, uint32_t count, bool skips_minimum, struct sp_job **ret_job,
                                struct sp_plan **ret_plan, struct sp_error *err)
{
    struct sp_job_options own = *c->job_options;
    const struct sp_found_placement found = {.micro_batches = count};
    const size_t limit = own.memory_budget != 0 ? own.memory_budget : SP_DEFAULT_JOB_BYTES;
    const size_t used = c->job != NULL ? c->job->budget.used : 0;
    own.memory_budget = limit > used ? limit - used : 1;
    own.skip_minimum_memory = skips_minimum;
    own.watch = c->job_options->watch != NULL ? &c->watch : NULL;
    return sp_job_plan_from(&own, c->cluster, c->options, &found, ret_job, ret_plan, err);
}

static enum sp_status note_trial(struct choosing *c, const struct sp_plan *plan, const struct sp_error *why,
                                 struct sp_micro_trial *trial, struct sp_error *err)
{
    struct sp_variant row = {0};
    if (plan == NULL) {
        trial->message = sp_arena_string(c->arena, why->message, strlen(why->message));
        return trial->message != NULL ? SP_OK : sp_fail_memory(err);
    }
    enum sp_status status = sp_variants_take_figures(c->arena, plan, &row, err);
    trial->fits = true;
    trial->latency_seconds = row.latency_seconds;
    trial->interval_seconds = row.interval_seconds;
    trial->memory_bytes = row.memory_bytes;
    trial->devices_used = row.devices_used;
    trial->description = row.description;
    return status;
}

/* One number; its job is held while it is the best. */
static enum sp_status try_count(struct choosing *c, uint32_t count, struct sp_error *err)
{
    struct sp_error why = {0};
    struct sp_job *job = NULL;
    struct sp_plan *plan = NULL;
    if (!SP_MAKE_ROOM(c->arena, c->trials, c->trial_count, c->trial_capacity, 1))
        return sp_fail_memory(err);
    enum sp_status status = plan_with(c, count, true, &job, &plan, &why);
    if (status != SP_OK && status != SP_ERR_NOFIT) {
        if (status == SP_ERR_CANCELLED && c->job != NULL) {
            c->stopped = true;
            return SP_OK;
        }
        if (err != NULL)
            *err = why;
        return status;
    }
    struct sp_micro_trial *trial = &c->trials[c->trial_count];
    *trial = (struct sp_micro_trial){.count = count};
    status = note_trial(c, plan, &why, trial, err);
    c->stopped = plan != NULL && plan->result->stopped;
    const bool is_better = plan != NULL && (c->job == NULL || compare(c, trial, &c->trials[c->best]) < 0);
    if (plan != NULL)
        c->disappointed = is_better ? 0 : c->disappointed + 1;
    if (status == SP_OK && is_better) {
        sp_job_destroy(c->job);
        c->job = job;
        c->plan = plan;
        c->best = c->held = c->trial_count;
    } else {
        sp_job_destroy(job);
    }
    c->trial_count++;
    return status;
}

/* The batch, and whether it may be cut. */
static enum sp_status look_at_model(struct choosing *c, struct sp_error *err)
{
    struct sp_job *base = NULL;
    struct sp_plan_options whole = *c->options;
    whole.micro_batches = 0;
    enum sp_status status = sp_micro_check_options(c->options, false, err);
    if (status == SP_OK)
        status = sp_job_open_base(c->job_options, &whole, &base, err);
    if (status == SP_OK && base == NULL)
        status = sp_micro_check_options(c->options, true, err);
    if (status != SP_OK)
        return status;
    struct sp_micro_request request = {&base->file, base->hash_seed, base->watch, base->model, 1};
    c->mixed.status = sp_micro_find(c->arena, &request, &c->micro, &c->mixed);
    for (int64_t d = 2; c->mixed.status == SP_OK && d <= c->micro.batch; d++) {
        if (c->micro.batch % d != 0)
            continue;
        request.count = d <= SP_MAX_MICRO_BATCHES ? (uint32_t)d : 1;
        c->mixed.status = sp_micro_find(c->arena, &request, &c->micro, &c->mixed);
        break;
    }
    sp_job_destroy(base);
    status = c->mixed.status;
    if (status == SP_OK || status == SP_ERR_REQUEST)
        return SP_OK;
    if (err != NULL)
        *err = c->mixed;
    return status;
}

static enum sp_status try_all(struct choosing *c, struct sp_error *err)
{
    const int64_t batch = c->mixed.status == SP_OK ? c->micro.batch : 1;
    const uint32_t most = batch < SP_MAX_MICRO_BATCHES ? (uint32_t)batch : SP_MAX_MICRO_BATCHES;
    uint32_t divisors = 0;
    enum sp_status status = SP_OK;
    for (uint32_t m = 1; m <= most; m++)
        divisors += batch % m == 0;
    c->share = 1.0 / divisors;
    for (uint32_t m = 1; status == SP_OK && m <= most && !c->stopped && c->disappointed < ENOUGH; m++) {
        if (batch % m == 0)
            status = try_count(c, m, err);
    }
    return status;
}

/* The fewest within the tolerance; where that is not the one that is held, it is planned again. */
static enum sp_status choose(struct choosing *c, struct sp_error *err)
{
    uint32_t chosen = 0;
    while (!is_near(c, &c->trials[chosen]))
        chosen++;
    c->trials[chosen].is_chosen = true;
    if (chosen == c->held)
        return SP_OK;
    sp_job_destroy(c->job);
    c->job = NULL;
    c->plan = NULL;
    return plan_with(c, c->trials[chosen].count, false, &c->job, &c->plan, err);
}

static bool copy_trials(struct choosing *c, struct sp_micro_batches *micro)
{
    struct sp_arena *arena = c->plan->arena;
    struct sp_micro_trial *trials = SP_NEW_ARRAY(arena, c->trial_count, struct sp_micro_trial);
    if (trials == NULL)
        return false;
    for (uint32_t i = 0; i < c->trial_count; i++) {
        const char *description = c->trials[i].description, *message = c->trials[i].message;
        trials[i] = c->trials[i];
        trials[i].description = description != NULL ? sp_arena_string(arena, description, strlen(description)) : NULL;
        trials[i].message = message != NULL ? sp_arena_string(arena, message, strlen(message)) : NULL;
        if ((description != NULL && trials[i].description == NULL) || (message != NULL && trials[i].message == NULL))
            return false;
    }
    micro->trial_count = c->trial_count;
    micro->trials = trials;
    return true;
}

/* What the plan says of it. */
static enum sp_status deliver(struct choosing *c, struct sp_error *err)
{
    struct sp_plan *plan = c->plan;
    if (c->mixed.status != SP_OK) {
        const struct sp_plan_note note = {
            .code = "MICRO_BATCHES_ONE",
            .severity = "note",
            .message = sp_arena_printf(plan->arena, "Requests are not cut in micro-batches. %s", c->mixed.message)};
        return note.message != NULL && sp_plan_add_note(plan, &note) ? SP_OK : sp_fail_memory(err);
    }
    struct sp_micro_batches *micro = sp_micro_copy(plan->arena, plan->micro != NULL ? plan->micro : &c->micro);
    if (micro == NULL)
        return sp_fail_memory(err);
    micro->cuts.count = plan->micro != NULL ? plan->micro->cuts.count : 1;
    plan->micro = micro;
    return copy_trials(c, micro) ? SP_OK : sp_fail_memory(err);
}

enum sp_status sp_micro_plan(const struct sp_job_options *job_options, const struct sp_cluster *cluster,
                             const struct sp_plan_options *options, struct sp_job **ret_job, struct sp_plan **ret_plan,
                             struct sp_error *err)
{
    struct choosing c = {
        .job_options = job_options, .cluster = cluster, .options = options, .arena = sp_arena_create(NULL)};
    c.watch = (struct sp_watch){.tick = tick, .context = &c, .stop = sp_watch_stop(job_options->watch)};
    if (c.arena == NULL)
        return sp_fail_memory(err);
    enum sp_status status = look_at_model(&c, err);
    if (status == SP_OK)
        status = try_all(&c, err);
    if (status == SP_OK && c.job == NULL) /* none fits: what the last one, whose parts are smallest, lacks */
        status =
            plan_with(&c, c.trials[c.trial_count - 1].count, job_options->skip_minimum_memory, &c.job, &c.plan, err);
    else if (status == SP_OK)
        status = choose(&c, err);
    if (status == SP_OK)
        status = deliver(&c, err);
    if (status == SP_OK) {
        c.job->watch = job_options->watch;
        *ret_job = c.job;
        *ret_plan = c.plan;
    } else {
        sp_job_destroy(c.job);
    }
    sp_arena_destroy(c.arena);
    return status;
}
