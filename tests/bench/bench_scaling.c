/*
 * How the time of a plan grows with the model: processor seconds of reading, of costing and of searching, and the
 * seconds that pass meanwhile, for each objective that is asked for. As many threads are lent to the search as this
 * process may run at a time, or as are said.
 *
 *   bench_scaling CLUSTER [--latency] [--threads N] MODEL...
 *
 * "ns / (n log n)": of all three together, n being the nodes that run and the logarithm binary. It stays the same where
 * the time grows as n log n does.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan_subject.h"
#include "threads/executor.h"

static double wall_seconds(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) == 0 ? (double)now.tv_sec + 1e-9 * (double)now.tv_nsec : 0;
}

static bool measure(const char *model, const char *cluster, enum sp_objective objective,
                    const struct sp_threads *threads)
{
    struct plan_subject subject;
    struct sp_joint_options options;
    struct sp_search_result *result = NULL;
    struct sp_error err = {0};
    char name[64];
    const double before = wall_seconds();
    (void)snprintf(name, sizeof name, "%s", plan_short_name(model));
    if (!plan_subject_open(&subject, model, cluster))
        return false;
    sp_joint_options_init(&options);
    options.objective = objective;
    options.executor = sp_threads_executor(threads);
    const double start = plan_user_seconds();
    enum sp_status status =
        sp_joint_search(subject.arena, subject.workload, subject.dataflow, subject.cluster, &options, &result, &err);
    const double seconds = plan_user_seconds() - start, n = subject.live_count;
    const double all = subject.read_seconds + subject.workload_seconds + seconds;
    printf("| %-22s | %-13s | %-10s | %7u | %7.2f | %7.2f | %7.2f | %7.2f | %8.0f | %6.0f | ", name,
           plan_short_name(cluster), objective == SP_OBJECTIVE_LATENCY ? "latency" : "throughput", subject.live_count,
           subject.read_seconds, subject.workload_seconds, seconds, wall_seconds() - before,
           1e9 * all / (n * log2(n + 1)), plan_peak_megabytes());
    if (status == SP_OK)
        printf("%.6g s, %s |\n",
               objective == SP_OBJECTIVE_LATENCY ? result->evaluation->latency_seconds
                                                 : result->evaluation->interval_seconds,
               result->front[0].description);
    else
        printf("%s |\n", err.message);
    sp_search_result_release(result);
    plan_subject_close(&subject);
    return status == SP_OK;
}

int main(int argc, char **argv)
{
    enum sp_objective objective = SP_OBJECTIVE_THROUGHPUT;
    bool all = true;
    uint32_t thread_count = 0;
    int first = 2;
    for (; first < argc && argv[first][0] == '-'; first++) {
        if (strcmp(argv[first], "--latency") == 0)
            objective = SP_OBJECTIVE_LATENCY;
        else if (strcmp(argv[first], "--threads") == 0 && first + 1 < argc)
            thread_count = (uint32_t)strtoul(argv[++first], NULL, 10);
        else
            break;
    }
    if (first >= argc || argv[first][0] == '-') {
        (void)fputs("usage: bench_scaling CLUSTER [--latency] [--threads N] MODEL...\n", stderr);
        return 2;
    }
    struct sp_threads *threads = sp_threads_create(thread_count);
    for (int i = first; i < argc && threads != NULL; i++) {
        all = measure(argv[i], argv[1], objective, threads) && all;
        (void)fflush(stdout);
    }
    all = all && threads != NULL;
    sp_threads_destroy(threads);
    return all ? 0 : 1;
}
