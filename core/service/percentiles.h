#pragma once
/*
 * percentiles - figures of many requests in a few numbers.
 */
#include <stdint.h>

/* Of figures of requests: the least that so many percent of them are not above (nearest rank). */
struct sp_percentiles {
    double mean, p50, p90, p95, p99, most;
};

/* Sorts the values. All are 0 where there are none. */
struct sp_percentiles sp_percentiles_of(uint32_t count, double *values);
