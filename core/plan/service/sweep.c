/* The services of several clusters. */
#include <math.h>
#include <string.h>

#include "plan/service/internal.h"

#define ROUNDING 1e-9

struct sweeping {
    struct sp_arena *arena;
    const struct sp_sweep *sweep;
    const struct sp_plan_options *options;
    struct sp_service_cluster *rows;
    uint32_t chosen; /* while job is there */
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_error first; /* why the first one has none, or SP_OK */
};

/* Below 0 where `a` is less, 0 within the tolerance. */
static int compare(double a, double b, double tolerance)
{
    if (fmax(a, b) <= fmin(a, b) * (1 + tolerance + ROUNDING))
        return 0;
    return a < b ? -1 : 1;
}

/* Whether row `a` is the answer before row `b`. */
static bool is_better(const struct sweeping *s, uint32_t a, uint32_t b)
{
    const struct sp_service_cluster *x = &s->rows[a], *y = &s->rows[b];
    const enum sp_objective objective = s->options->objective;
    const double tolerance = s->options->tolerance;
    const bool is_smallest = s->sweep->choice == SP_SWEEP_SMALLEST && !s->options->by_price;
    const bool has_rate = s->options->traffic->rate_per_second > 0;
    const int size = compare(x->devices_available, y->devices_available, 0);
    const int devices = compare(x->devices, y->devices, 0);
    const int price = compare(x->price_per_hour, y->price_per_hour, tolerance);
    const int request = compare(x->request_seconds, y->request_seconds, tolerance);
    const int rate = compare(y->requests_per_second, x->requests_per_second, tolerance);
    const int cheapest[] = {price, request, devices, rate},
              orders[][4] = {
                  [SP_OBJECTIVE_THROUGHPUT] = {has_rate ? request : rate, devices, price, request},
                  [SP_OBJECTIVE_LATENCY] = {request, devices, price, rate},
                  [SP_OBJECTIVE_DEVICES] = {devices, price, request, rate},
              };
    if (is_smallest && size != 0)
        return size < 0;
    for (size_t i = 0; i < 4; i++) {
        const int order = s->options->by_price ? cheapest[i] : orders[objective][i];
        if (order != 0)
            return order < 0;
    }
    return false;
}

/* What the row says of its service, or of why there is none. */
static bool take(struct sweeping *s, uint32_t i, const struct sp_service *service, const struct sp_error *why)
{
    struct sp_service_cluster *row = &s->rows[i];
    if (service == NULL) {
        row->message = sp_arena_string(s->arena, why->message, strlen(why->message));
        return row->message != NULL;
    }
    row->fits = true;
    row->copies = service->copies;
    row->devices = service->devices;
    row->concurrency = service->concurrency;
    row->request_seconds = service->request_seconds.value;
    row->requests_per_second = service->requests_per_second.value;
    row->price_per_hour = service->price_per_hour;
    return true;
}

/* An earlier row of fewer such devices with a service, where the fewest or the cheapest ones are looked for: the answer
   for more of them is the same. NULL: there is none. */
static const struct sp_service_cluster *find_same(const struct sweeping *s, uint32_t i)
{
    const bool is_least = s->options->objective == SP_OBJECTIVE_DEVICES;
    for (uint32_t j = 0; is_least && s->sweep->clusters[i]->group_count == 1 && j < i; j++) {
        if (s->rows[j].fits && s->rows[j].devices_available <= s->sweep->clusters[i]->device_count &&
            s->sweep->clusters[j]->group_count == 1 && strcmp(s->rows[j].device, s->sweep->devices[i]) == 0)
            return &s->rows[j];
    }
    return NULL;
}

static enum sp_status look(struct sweeping *s, uint32_t i, const struct sp_job_options *job_options,
                           struct sp_error *err)
{
    struct sp_error why = {0};
    struct sp_job *job = NULL;
    struct sp_plan *plan = NULL;
    const struct sp_service_cluster *same = find_same(s, i);
    if (same != NULL)
        s->rows[i] = *same;
    s->rows[i].device = s->sweep->devices[i];
    s->rows[i].devices_available = s->sweep->clusters[i]->device_count;
    if (same != NULL)
        return SP_OK;
    const enum sp_status status =
        sp_service_plan(s->arena, job_options, s->sweep->clusters[i], s->options, &job, &plan, &why);
    if (status != SP_OK && status != SP_ERR_NOFIT) {
        if (err != NULL)
            *err = why;
        return status;
    }
    if (status != SP_OK && s->first.status == SP_OK)
        s->first = why;
    if (!take(s, i, plan != NULL ? plan->service : NULL, &why)) {
        sp_job_destroy(job);
        return sp_fail_memory(err);
    }
    if (plan == NULL)
        return SP_OK;
    if (s->job != NULL && !is_better(s, i, s->chosen)) {
        sp_job_destroy(job);
        return SP_OK;
    }
    sp_job_destroy(s->job);
    s->job = job;
    s->plan = plan;
    s->chosen = i;
    return SP_OK;
}

enum sp_status sp_service_sweep(struct sp_arena *arena, const struct sp_job_options *job_options,
                                const struct sp_sweep *sweep, const struct sp_plan_options *options,
                                struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err)
{
    struct sweeping s = {.arena = arena, .sweep = sweep, .options = options};
    enum sp_status status = SP_OK;
    s.rows = SP_NEW_ARRAY(arena, sweep->count, struct sp_service_cluster);
    if (s.rows == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < sweep->count; i++)
        status = look(&s, i, job_options, err);
    if (status == SP_OK && s.plan == NULL) {
        status = s.first.status;
        if (err != NULL)
            *err = s.first;
    }
    if (status != SP_OK || s.plan == NULL) {
        sp_job_destroy(s.job);
        return status;
    }
    struct sp_service *service = SP_NEW(arena, struct sp_service);
    if (service == NULL) {
        sp_job_destroy(s.job);
        return sp_fail_memory(err);
    }
    *service = *s.plan->service;
    s.rows[s.chosen].is_chosen = true;
    service->cluster_count = sweep->count;
    service->clusters = s.rows;
    s.plan->service = service;
    *ret_job = s.job;
    *ret_plan = s.plan;
    return SP_OK;
}
