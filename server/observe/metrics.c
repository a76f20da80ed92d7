#include "observe/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/series.h"

const double metrics_bounds[METRICS_BOUNDS] = {0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800};

struct metrics *metrics_create(void)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    struct timespec now = {0};
    if (metrics == NULL)
        return NULL;
    (void)pthread_mutex_init(&metrics->mutex, NULL);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    metrics->started = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    return metrics;
}

void metrics_destroy(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    (void)pthread_mutex_destroy(&metrics->mutex);
    free(metrics);
}

/* The series of these labels; the last one of a full table takes what does not fit. */
static struct series *find(struct table *table, const char *first, const char *second, int status)
{
    for (unsigned i = 0; i < table->count; i++) {
        struct series *series = &table->series[i];
        if (series->status == status && strcmp(series->first, first) == 0 && strcmp(series->second, second) == 0)
            return series;
    }
    if (table->count == METRICS_MAX_SERIES)
        return &table->series[METRICS_MAX_SERIES - 1];
    if (table->count == METRICS_MAX_SERIES - 1) {
        first = second = "other";
        status = 0;
    }
    struct series *series = &table->series[table->count++];
    *series = (struct series){.status = status};
    (void)snprintf(series->first, sizeof series->first, "%s", first);
    (void)snprintf(series->second, sizeof series->second, "%s", second);
    return series;
}

static void observe(struct histogram *histogram, double seconds)
{
    size_t bucket = 0;
    if (!(seconds > 0))
        seconds = 0; /* times of different clocks may disagree */
    while (bucket < METRICS_BOUNDS && seconds > metrics_bounds[bucket])
        bucket++;
    histogram->counts[bucket]++;
    histogram->total++;
    histogram->sum += seconds;
}

static void count(struct metrics *metrics, struct table *table, const char *label)
{
    (void)pthread_mutex_lock(&metrics->mutex);
    find(table, label, "", 0)->count++;
    (void)pthread_mutex_unlock(&metrics->mutex);
}

void metrics_connection(struct metrics *metrics, const char *outcome)
{
    count(metrics, &metrics->connections, outcome);
}

static void add_in_flight(struct metrics *metrics, const char *method, const char *route, int by)
{
    (void)pthread_mutex_lock(&metrics->mutex);
    find(&metrics->in_flight, method, route, 0)->now += by;
    (void)pthread_mutex_unlock(&metrics->mutex);
}

void metrics_request_began(struct metrics *metrics, const char *method, const char *route)
{
    add_in_flight(metrics, method, route, 1);
}

void metrics_request_ended(struct metrics *metrics, const char *method, const char *route)
{
    add_in_flight(metrics, method, route, -1);
}

void metrics_request(struct metrics *metrics, const char *method, const char *route, int status, double seconds)
{
    (void)pthread_mutex_lock(&metrics->mutex);
    struct series *series = find(&metrics->requests, method, route, status);
    series->count++;
    observe(&series->seconds, seconds);
    (void)pthread_mutex_unlock(&metrics->mutex);
}

void metrics_upload(struct metrics *metrics, uint64_t bytes)
{
    (void)pthread_mutex_lock(&metrics->mutex);
    metrics->uploads++;
    metrics->upload_bytes += bytes;
    (void)pthread_mutex_unlock(&metrics->mutex);
}

void metrics_upload_refused(struct metrics *metrics, const char *code)
{
    count(metrics, &metrics->refused_uploads, code);
}

void metrics_auth_failed(struct metrics *metrics, const char *reason)
{
    count(metrics, &metrics->auth_failures, reason);
}

void metrics_job_started(struct metrics *metrics, const char *kind)
{
    count(metrics, &metrics->attempts, kind);
}

void metrics_job(struct metrics *metrics, const char *kind, const char *outcome, double wait_seconds, double seconds)
{
    (void)pthread_mutex_lock(&metrics->mutex);
    struct series *series = find(&metrics->jobs, kind, outcome, 0);
    series->count++;
    observe(&series->seconds, seconds);
    observe(&series->wait, wait_seconds);
    (void)pthread_mutex_unlock(&metrics->mutex);
}

void metrics_phase(struct metrics *metrics, const char *phase, double seconds)
{
    (void)pthread_mutex_lock(&metrics->mutex);
    observe(&find(&metrics->phases, phase, "", 0)->seconds, seconds);
    (void)pthread_mutex_unlock(&metrics->mutex);
}

void metrics_worker_ended(struct metrics *metrics, const char *reason)
{
    count(metrics, &metrics->workers, reason);
}

void metrics_stored_wrong(struct metrics *metrics, const char *what, const char *how)
{
    (void)pthread_mutex_lock(&metrics->mutex);
    find(&metrics->wrong, what, how, 0)->count++;
    (void)pthread_mutex_unlock(&metrics->mutex);
}

void metrics_store_call(void *context, const char *name, bool ok, double seconds)
{
    struct metrics *metrics = context;
    (void)pthread_mutex_lock(&metrics->mutex);
    struct series *series = find(&metrics->store, name, "", 0);
    series->count++;
    series->failed += !ok;
    observe(&series->seconds, seconds);
    (void)pthread_mutex_unlock(&metrics->mutex);
}
