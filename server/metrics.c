#include "metrics.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "connections.h"
#include "jobs.h"
#include "server.h"
#include "store.h"
#include "version.h"

#define MAX_SERIES 256 /* the route table times the statuses that occur, with room */

static const double bounds[] = {0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300};
#define BOUND_COUNT (sizeof bounds / sizeof bounds[0])

struct histogram {
    uint64_t counts[BOUND_COUNT + 1]; /* the last one: beyond */
    uint64_t total;
    double sum;
};

/* One label set; labels are static strings, compared by address or text. */
struct series {
    const char *first, *second;
    int status;
    uint64_t count;
    struct histogram seconds, wait;
};

struct table {
    struct series series[MAX_SERIES];
    unsigned count;
};

struct metrics {
    pthread_mutex_t mutex;
    struct table requests, jobs, workers;
    uint64_t upload_bytes, uploads;
    time_t started;
};

struct metrics *metrics_create(void)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (metrics == NULL)
        return NULL;
    (void)pthread_mutex_init(&metrics->mutex, NULL);
    metrics->started = time(NULL);
    return metrics;
}

void metrics_destroy(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    (void)pthread_mutex_destroy(&metrics->mutex);
    free(metrics);
}

/* The series of these labels; the last one takes what does not fit. */
static struct series *find(struct table *table, const char *first, const char *second, int status)
{
    for (unsigned i = 0; i < table->count; i++) {
        struct series *series = &table->series[i];
        if (series->status == status && strcmp(series->first, first) == 0 && strcmp(series->second, second) == 0)
            return series;
    }
    if (table->count == MAX_SERIES)
        return &table->series[MAX_SERIES - 1];
    struct series *series = &table->series[table->count++];
    *series = (struct series){.first = first, .second = second, .status = status};
    return series;
}

static void observe(struct histogram *histogram, double seconds)
{
    size_t bucket = 0;
    while (bucket < BOUND_COUNT && seconds > bounds[bucket])
        bucket++;
    histogram->counts[bucket]++;
    histogram->total++;
    histogram->sum += seconds > 0 ? seconds : 0;
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

void metrics_job(struct metrics *metrics, const char *kind, const char *outcome, double wait_seconds, double seconds)
{
    (void)pthread_mutex_lock(&metrics->mutex);
    struct series *series = find(&metrics->jobs, kind, outcome, 0);
    series->count++;
    observe(&series->seconds, seconds);
    observe(&series->wait, wait_seconds);
    (void)pthread_mutex_unlock(&metrics->mutex);
}

void metrics_worker_ended(struct metrics *metrics, const char *reason)
{
    (void)pthread_mutex_lock(&metrics->mutex);
    find(&metrics->workers, reason, "", 0)->count++;
    (void)pthread_mutex_unlock(&metrics->mutex);
}

/* ---- writing ---- */

static void head(struct sp_buf *buf, const char *name, const char *type, const char *help)
{
    sp_buf_printf(buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void gauge(struct sp_buf *buf, const char *name, const char *help, double value)
{
    head(buf, name, "gauge", help);
    sp_buf_printf(buf, "%s %.17g\n", name, value);
}

static void write_histogram(struct sp_buf *buf, const char *name, const char *labels, const struct histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i < BOUND_COUNT; i++) {
        count += histogram->counts[i];
        sp_buf_printf(buf, "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n", name, labels, bounds[i], count);
    }
    sp_buf_printf(buf, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n%s_sum{%s} %.6f\n%s_count{%s} %" PRIu64 "\n", name,
                  labels, histogram->total, name, labels, histogram->sum, name, labels, histogram->total);
}

static void write_requests(const struct metrics *metrics, struct sp_buf *buf)
{
    char labels[256];
    head(buf, "shardplan_http_requests_total", "counter", "Requests that have ended, by route and status.");
    for (unsigned i = 0; i < metrics->requests.count; i++) {
        const struct series *series = &metrics->requests.series[i];
        sp_buf_printf(buf, "shardplan_http_requests_total{method=\"%s\",route=\"%s\",code=\"%d\"} %" PRIu64 "\n",
                      series->first, series->second, series->status, series->count);
    }
    head(buf, "shardplan_http_request_duration_seconds", "histogram",
         "From the header to the last byte of the answer.");
    for (unsigned i = 0; i < metrics->requests.count; i++) {
        const struct series *series = &metrics->requests.series[i];
        (void)snprintf(labels, sizeof labels, "method=\"%s\",route=\"%s\",code=\"%d\"", series->first, series->second,
                       series->status);
        write_histogram(buf, "shardplan_http_request_duration_seconds", labels, &series->seconds);
    }
    head(buf, "shardplan_uploads_total", "counter", "Models received completely.");
    sp_buf_printf(buf, "shardplan_uploads_total %" PRIu64 "\n", metrics->uploads);
    head(buf, "shardplan_upload_bytes_total", "counter", "Bytes of models received completely.");
    sp_buf_printf(buf, "shardplan_upload_bytes_total %" PRIu64 "\n", metrics->upload_bytes);
}

static void write_jobs(const struct metrics *metrics, struct sp_buf *buf)
{
    char labels[128];
    head(buf, "shardplan_jobs_total", "counter", "Jobs that have ended, by kind and outcome.");
    for (unsigned i = 0; i < metrics->jobs.count; i++) {
        const struct series *series = &metrics->jobs.series[i];
        sp_buf_printf(buf, "shardplan_jobs_total{kind=\"%s\",outcome=\"%s\"} %" PRIu64 "\n", series->first,
                      series->second, series->count);
    }
    for (int which = 0; which < 2; which++) {
        const char *name = which == 0 ? "shardplan_job_duration_seconds" : "shardplan_job_wait_seconds";
        head(buf, name, "histogram", which == 0 ? "Time in a worker." : "Time between acceptance and a worker.");
        for (unsigned i = 0; i < metrics->jobs.count; i++) {
            const struct series *series = &metrics->jobs.series[i];
            (void)snprintf(labels, sizeof labels, "kind=\"%s\",outcome=\"%s\"", series->first, series->second);
            write_histogram(buf, name, labels, which == 0 ? &series->seconds : &series->wait);
        }
    }
    head(buf, "shardplan_workers_ended_total", "counter", "Worker processes that ended over a job, by reason.");
    for (unsigned i = 0; i < metrics->workers.count; i++)
        sp_buf_printf(buf, "shardplan_workers_ended_total{reason=\"%s\"} %" PRIu64 "\n",
                      metrics->workers.series[i].first, metrics->workers.series[i].count);
}

static void write_process(const struct metrics *metrics, struct sp_buf *buf)
{
    double resident = 0; /* pages: the second number of the file */
    char line[128];
    FILE *file = fopen("/proc/self/statm", "re");
    if (file != NULL) {
        if (fgets(line, sizeof line, file) != NULL)
            resident = (double)strtoull(line + strcspn(line, " "), NULL, 10);
        (void)fclose(file);
    }
    gauge(buf, "process_resident_memory_bytes", "Resident memory of the daemon.",
          resident * (double)sysconf(_SC_PAGESIZE));
    gauge(buf, "process_start_time_seconds", "Start of the daemon, seconds since 1970.", (double)metrics->started);
    head(buf, "shardplan_build_info", "gauge", "The version that runs.");
    sp_buf_text(buf, "shardplan_build_info{version=\"" SPD_VERSION "\"} 1\n");
}

static void write_gauges(struct server *server, struct sp_buf *buf)
{
    int64_t counts[PLAN_STATE_COUNT], models = 0;
    double oldest = 0;
    struct job_stats stats;
    jobs_stats(server->jobs, &stats);
    gauge(buf, "shardplan_workers", "Worker processes that run.", stats.workers);
    gauge(buf, "shardplan_workers_wanted", "Worker processes that should run.", server->config->workers + 1);
    gauge(buf, "shardplan_workers_busy", "Worker processes that have a job.", stats.busy);
    gauge(buf, "shardplan_requests_waiting", "Requests that wait for a worker.", stats.waiting);
    gauge(buf, "shardplan_http_connections", "Open connections.", connections_count(server->connections));
    if (!store_counts(server->store, counts, &oldest, &models))
        return;
    head(buf, "shardplan_plans", "gauge", "Stored plans by state.");
    for (int i = 0; i < PLAN_STATE_COUNT; i++)
        sp_buf_printf(buf, "shardplan_plans{state=\"%s\"} %" PRId64 "\n", store_state_name((enum plan_state)i),
                      counts[i]);
    gauge(buf, "shardplan_queue_oldest_seconds", "Age of the oldest queued plan.", oldest);
    gauge(buf, "shardplan_models", "Stored models.", (double)models);
}

void metrics_write(struct metrics *metrics, struct server *server, struct sp_buf *buf)
{
    write_gauges(server, buf);
    (void)pthread_mutex_lock(&metrics->mutex);
    write_requests(metrics, buf);
    write_jobs(metrics, buf);
    write_process(metrics, buf);
    (void)pthread_mutex_unlock(&metrics->mutex);
}
