#pragma once
/* series - what the files of the metrics share: tables of counters and histograms by their labels. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define METRICS_MAX_SERIES 256 /* of one table: routes times the statuses that occur, with room */
#define METRICS_LABEL_SIZE 64
#define METRICS_BOUNDS     10

extern const double metrics_bounds[METRICS_BOUNDS]; /* upper ones of the buckets, in seconds */

struct histogram {
    uint64_t counts[METRICS_BOUNDS + 1]; /* the last one: beyond */
    uint64_t total;
    double sum;
};

/* One set of labels. */
struct series {
    char first[METRICS_LABEL_SIZE], second[METRICS_LABEL_SIZE];
    int status;
    uint64_t count, failed;
    int64_t now; /* of a gauge */
    struct histogram seconds, wait;
};

struct table {
    struct series series[METRICS_MAX_SERIES];
    unsigned count;
};

struct metrics {
    pthread_mutex_t mutex;
    struct table requests, in_flight, connections, refused_uploads, auth_failures, jobs, attempts, phases, workers,
        store, wrong;
    uint64_t upload_bytes, uploads;
    double started; /* seconds since 1970 */
};
