/*
 * How the time of a plan grows with the model: processor seconds of reading, of costing and of searching, for each
 * objective that is asked for.
 *
 *   bench_scaling CLUSTER [--latency] MODEL...
 *
 * "ns / (n log n)": of all three together, n being the nodes that run and the logarithm binary. It stays the same where
 * the time grows as n log n does.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan_subject.h"

static bool measure(const char *model, const char *cluster, enum sp_objective objective)
{
    struct plan_subject subject;
    struct sp_joint_options options;
    struct sp_search_result *result = NULL;
    struct sp_error err = {0};
    char name[64];
    (void)snprintf(name, sizeof name, "%s", plan_short_name(model));
    if (!plan_subject_open(&subject, model, cluster))
        return false;
    sp_joint_options_init(&options);
    options.objective = objective;
    const double start = plan_user_seconds();
    enum sp_status status =
        sp_joint_search(subject.arena, subject.workload, subject.net, subject.cluster, &options, &result, &err);
    const double seconds = plan_user_seconds() - start, n = subject.live_count;
    const double all = subject.read_seconds + subject.workload_seconds + seconds;
    printf("| %-22s | %-13s | %-10s | %7u | %7.2f | %7.2f | %7.2f | %8.0f | %6.0f | ", name, plan_short_name(cluster),
           objective == SP_OBJECTIVE_LATENCY ? "latency" : "throughput", subject.live_count, subject.read_seconds,
           subject.workload_seconds, seconds, 1e9 * all / (n * log2(n + 1)), plan_peak_megabytes());
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
    if (argc < 3) {
        (void)fputs("usage: bench_scaling CLUSTER [--latency] MODEL...\n", stderr);
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--latency") == 0)
            objective = SP_OBJECTIVE_LATENCY;
        else
            all = measure(argv[i], argv[1], objective) && all;
        (void)fflush(stdout);
    }
    return all ? 0 : 1;
}
