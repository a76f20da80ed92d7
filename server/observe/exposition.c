/* The metrics as text, in the format of Prometheus. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "jobs/jobs.h"
#include "net/connections.h"
#include "observe/metrics.h"
#include "observe/series.h"
#include "server.h"
#include "server_limits.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/folder.h"
#include "store/integrity/scrub.h"
#include "store/store.h"
#include "version.h"

/* ---- lines ---- */

static void head(struct sp_buf *buf, const char *name, const char *type, const char *help)
{
    sp_buf_printf(buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void gauge(struct sp_buf *buf, const char *name, const char *help, double value)
{
    head(buf, name, "gauge", help);
    sp_buf_printf(buf, "%s %.17g\n", name, value);
}

static void counter(struct sp_buf *buf, const char *name, const char *help, double value)
{
    head(buf, name, "counter", help);
    sp_buf_printf(buf, "%s %.17g\n", name, value);
}

/* The value of a label: a code of a worker may hold anything. */
static void label(struct sp_buf *buf, const char *name, const char *value)
{
    sp_buf_printf(buf, "%s=\"", name);
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '\\' || *c == '"')
            sp_buf_printf(buf, "\\%c", *c);
        else if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
            sp_buf_text(buf, "?");
        else
            sp_buf_append(buf, c, 1);
    }
    sp_buf_text(buf, "\"");
}

/* What the labels of a table are called; NULL where there is none. */
struct labels {
    const char *first, *second;
    bool status;
};

static void write_labels(struct sp_buf *buf, const struct labels *names, const struct series *series)
{
    label(buf, names->first, series->first);
    if (names->second != NULL) {
        sp_buf_text(buf, ",");
        label(buf, names->second, series->second);
    }
    if (names->status)
        sp_buf_printf(buf, ",code=\"%d\"", series->status);
}

enum member { MEMBER_COUNT, MEMBER_FAILED, MEMBER_NOW };

static void write_numbers(struct sp_buf *buf, const char *name, const struct labels *names, const struct table *table,
                          enum member member)
{
    for (unsigned i = 0; i < table->count; i++) {
        const struct series *series = &table->series[i];
        int64_t value =
            member == MEMBER_NOW ? series->now : (int64_t)(member == MEMBER_FAILED ? series->failed : series->count);
        sp_buf_printf(buf, "%s{", name);
        write_labels(buf, names, series);
        sp_buf_printf(buf, "} %" PRId64 "\n", value);
    }
}

static void write_histogram(struct sp_buf *buf, const char *name, const struct labels *names,
                            const struct series *series, const struct histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= METRICS_BOUNDS; i++) {
        count += histogram->counts[i];
        sp_buf_printf(buf, "%s_bucket{", name);
        write_labels(buf, names, series);
        if (i < METRICS_BOUNDS)
            sp_buf_printf(buf, ",le=\"%g\"} %" PRIu64 "\n", metrics_bounds[i], count);
        else
            sp_buf_printf(buf, ",le=\"+Inf\"} %" PRIu64 "\n", histogram->total);
    }
    sp_buf_printf(buf, "%s_sum{", name);
    write_labels(buf, names, series);
    sp_buf_printf(buf, "} %.6f\n%s_count{", histogram->sum, name);
    write_labels(buf, names, series);
    sp_buf_printf(buf, "} %" PRIu64 "\n", histogram->total);
}

static void write_histograms(struct sp_buf *buf, const char *name, const char *help, const struct labels *names,
                             const struct table *table, bool waits)
{
    head(buf, name, "histogram", help);
    for (unsigned i = 0; i < table->count; i++) {
        const struct series *series = &table->series[i];
        write_histogram(buf, name, names, series, waits ? &series->wait : &series->seconds);
    }
}

static void write_counters(struct sp_buf *buf, const char *name, const char *help, const struct labels *names,
                           const struct table *table, enum member member)
{
    head(buf, name, "counter", help);
    write_numbers(buf, name, names, table, member);
}

/* ---- groups ---- */

static void write_requests(const struct metrics *metrics, struct sp_buf *buf)
{
    static const struct labels answered = {"method", "route", true}, running = {"method", "route", false};
    static const struct labels outcome = {"outcome", NULL, false};
    static const struct labels code = {"code", NULL, false}, reason = {"reason", NULL, false};
    write_counters(buf, "shardplan_http_requests_total", "Requests that have ended, by route and status.", &answered,
                   &metrics->requests, MEMBER_COUNT);
    write_counters(buf, "shardplan_http_connections_total", "Connections that came, accepted or refused and why.",
                   &outcome, &metrics->connections, MEMBER_COUNT);
    write_histograms(buf, "shardplan_http_request_duration_seconds", "From the header to the last byte of the answer.",
                     &answered, &metrics->requests, false);
    head(buf, "shardplan_http_requests_in_flight", "gauge", "Requests that are not answered completely.");
    write_numbers(buf, "shardplan_http_requests_in_flight", &running, &metrics->in_flight, MEMBER_NOW);
    counter(buf, "shardplan_uploads_total", "Models received completely.", (double)metrics->uploads);
    counter(buf, "shardplan_upload_bytes_total", "Bytes of models received completely.", (double)metrics->upload_bytes);
    write_counters(buf, "shardplan_uploads_refused_total", "Models that were refused, by the code of the problem.",
                   &code, &metrics->refused_uploads, MEMBER_COUNT);
    write_counters(buf, "shardplan_auth_failures_total", "Requests that were not let in.", &reason,
                   &metrics->auth_failures, MEMBER_COUNT);
}

static void write_jobs(const struct metrics *metrics, struct sp_buf *buf)
{
    static const struct labels ended = {"kind", "outcome", false}, kind = {"kind", NULL, false};
    static const struct labels phase = {"phase", NULL, false}, reason = {"reason", NULL, false};
    write_counters(buf, "shardplan_jobs_total", "Jobs that have ended, by kind and outcome.", &ended, &metrics->jobs,
                   MEMBER_COUNT);
    write_counters(buf, "shardplan_job_attempts_total",
                   "Jobs given to a worker; more than jobs that ended: some again.", &kind, &metrics->attempts,
                   MEMBER_COUNT);
    write_histograms(buf, "shardplan_job_duration_seconds", "Time in a worker.", &ended, &metrics->jobs, false);
    write_histograms(buf, "shardplan_job_wait_seconds", "Time between acceptance and a worker.", &ended, &metrics->jobs,
                     true);
    write_histograms(buf, "shardplan_plan_phase_duration_seconds", "Time of the parts of planning.", &phase,
                     &metrics->phases, false);
    write_counters(buf, "shardplan_workers_ended_total", "Worker processes that ended, by reason.", &reason,
                   &metrics->workers, MEMBER_COUNT);
}

static void write_wrong(const struct metrics *metrics, struct sp_buf *buf)
{
    static const struct labels wrong = {"what", "how", false};
    write_counters(buf, "shardplan_stored_wrong_total", "Stored files that were found changed or missing.", &wrong,
                   &metrics->wrong, MEMBER_COUNT);
}

static void write_store_calls(const struct metrics *metrics, struct sp_buf *buf)
{
    static const struct labels call = {"call", NULL, false};
    write_counters(buf, "shardplan_store_calls_total", "Calls of the store.", &call, &metrics->store, MEMBER_COUNT);
    write_counters(buf, "shardplan_store_errors_total", "Calls of the store that failed.", &call, &metrics->store,
                   MEMBER_FAILED);
    write_histograms(buf, "shardplan_store_call_duration_seconds", "Time of the calls of the store.", &call,
                     &metrics->store, false);
}

static void write_memory(struct sp_buf *buf)
{
    char line[128] = "", *end;
    double page = (double)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return;
    if (fgets(line, sizeof line, file) == NULL)
        line[0] = '\0';
    (void)fclose(file);
    double pages = (double)strtoull(line, &end, 10); /* the first number, then the resident ones */
    gauge(buf, "process_virtual_memory_bytes", "Address space of the daemon.", pages * page);
    gauge(buf, "process_resident_memory_bytes", "Resident memory of the daemon.",
          (double)strtoull(end, NULL, 10) * page);
}

static unsigned open_files(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return 0;
    while (readdir(folder) != NULL)
        count++;
    (void)closedir(folder);
    return count > 3 ? count - 3 : 0; /* without ".", ".." and the folder itself */
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void write_process(const struct metrics *metrics, struct sp_buf *buf)
{
    struct rusage usage = {0};
    struct rlimit limit = {0};
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    counter(buf, "process_cpu_seconds_total", "Processor time of the daemon, without its workers.",
            seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
    write_memory(buf);
    gauge(buf, "process_open_fds", "Open files of the daemon.", (double)open_files());
    gauge(buf, "process_max_fds", "How many it may have.", (double)limit.rlim_cur);
    gauge(buf, "process_start_time_seconds", "Start of the daemon, seconds since 1970.", metrics->started);
    head(buf, "shardplan_build_info", "gauge", "The version that runs.");
    sp_buf_text(buf, "shardplan_build_info{version=\"" SPD_VERSION "\",compiler=\"" __VERSION__ "\"} 1\n");
}

static void write_blobs(struct server *server, struct sp_buf *buf)
{
    struct blobs_counts counts;
    struct problem problem = {0};
    if (!blobs_count(server->blobs, &counts))
        return;
    gauge(buf, "shardplan_object_store_usable", "1 while the object store answers.",
          blobs_usable(server->blobs, &problem));
    gauge(buf, "shardplan_blob_cache_bytes", "Copies of files out of the object store.", (double)counts.cached_bytes);
    counter(buf, "shardplan_blob_cache_hits_total", "Files that were needed and had a copy.", (double)counts.hits);
    counter(buf, "shardplan_blob_cache_misses_total", "Files that were fetched first.", (double)counts.misses);
    counter(buf, "shardplan_object_store_requests_total", "Requests to the object store.",
            (double)counts.calls.requests);
    counter(buf, "shardplan_object_store_retries_total", "Those that were sent again.", (double)counts.calls.retries);
    counter(buf, "shardplan_object_store_failures_total", "Calls that failed at last.", (double)counts.calls.failures);
}

static void write_scrub(struct server *server, struct sp_buf *buf)
{
    struct scrub_counts counts;
    if (!scrub_count(server->scrub, &counts))
        return;
    counter(buf, "shardplan_scrub_bytes_total", "Bytes of stored files that were read to find damage.",
            (double)counts.bytes);
    counter(buf, "shardplan_scrub_wrong_total", "Stored files that were found wrong so.", (double)counts.wrong);
    gauge(buf, "shardplan_scrub_round_time_seconds",
          "When all of them had been read last, seconds since 1970; 0: not yet by this daemon.", counts.round);
}

static void write_store(struct server *server, struct sp_buf *buf)
{
    struct store_counts counts;
    struct problem problem = {0};
    uint64_t free_bytes = files_free_bytes(server->config->data);
    if (free_bytes != UINT64_MAX)
        gauge(buf, "shardplan_disk_free_bytes", "Free space of the data folder.", (double)free_bytes);
    gauge(buf, "shardplan_data_folder_usable", "1 while files can be put into the data folder.",
          folder_look(server->folder, &problem));
    write_blobs(server, buf);
    write_scrub(server, buf);
    if (!store_count(server->store, &counts))
        return;
    head(buf, "shardplan_plans", "gauge", "Stored plans by state.");
    for (int i = 0; i < PLAN_STATE_COUNT; i++)
        sp_buf_printf(buf, "shardplan_plans{state=\"%s\"} %" PRId64 "\n", store_state_name((enum plan_state)i),
                      counts.plans[i]);
    gauge(buf, "shardplan_queue_oldest_seconds", "Age of the oldest queued plan.", counts.oldest_seconds);
    gauge(buf, "shardplan_models", "Stored models, of each tenant that has it.", (double)counts.models);
    gauge(buf, "shardplan_store_objects", "Different files of models.", (double)counts.blobs);
    gauge(buf, "shardplan_store_bytes", "Their bytes.", (double)counts.blob_bytes);
}

static void write_walls(const struct sandbox_walls *walls, struct sp_buf *buf)
{
    head(buf, "shardplan_sandbox_walls", "gauge",
         "1 for each wall that workers are locked up behind, 0: missing here.");
    for (int i = 0; i < SANDBOX_WALLS; i++)
        sp_buf_printf(buf, "shardplan_sandbox_walls{wall=\"%s\"} %d\n", sandbox_wall_name((enum sandbox_wall)i),
                      walls->up[i]);
}

static void write_waiting(struct sp_buf *buf, const struct job_stats *stats)
{
    static const char *const classes[] = {"short", "long"}; /* plans wait in the store */
    head(buf, "shardplan_requests_waiting", "gauge", "Requests that wait for a worker, by class.");
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        sp_buf_printf(buf, "shardplan_requests_waiting{class=\"%s\"} %u\n", classes[i], stats->waiting[i].count);
    head(buf, "shardplan_requests_oldest_seconds", "gauge", "How long the one that waits longest has waited.");
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        sp_buf_printf(buf, "shardplan_requests_oldest_seconds{class=\"%s\"} %.6f\n", classes[i],
                      (double)stats->waiting[i].longest_us / 1e6);
}

static void write_gauges(struct server *server, struct sp_buf *buf)
{
    struct job_stats stats;
    jobs_stats(server->jobs, &stats);
    gauge(buf, "shardplan_workers", "Worker processes that run.", stats.workers);
    gauge(buf, "shardplan_workers_wanted", "Worker processes that should run.",
          server->config->workers + SPD_SPARE_WORKERS);
    gauge(buf, "shardplan_workers_busy", "Worker processes that have a job.", stats.busy);
    write_walls(&server->walls, buf);
    write_waiting(buf, &stats);
    gauge(buf, "shardplan_http_connections", "Open connections.", connections_count(server->connections));
    gauge(buf, "shardplan_http_connections_max", "How many may be open.", connections_allowed(server->connections));
    gauge(buf, "shardplan_stopping", "1 from SIGTERM on.", atomic_load(&server->leaving));
    write_store(server, buf);
}

void metrics_write(struct metrics *metrics, struct server *server, struct sp_buf *buf)
{
    write_gauges(server, buf);
    (void)pthread_mutex_lock(&metrics->mutex);
    write_requests(metrics, buf);
    write_jobs(metrics, buf);
    write_wrong(metrics, buf);
    write_store_calls(metrics, buf);
    write_process(metrics, buf);
    (void)pthread_mutex_unlock(&metrics->mutex);
}
