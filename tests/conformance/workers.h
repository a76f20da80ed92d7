#pragma once
/*
 * workers - thousands of independent cases on two processors.
 *
 * Case numbers are dealt out to forked processes, each of which counts in a table of its own; the tables are added up.
 * Failed cases print "not ok" lines themselves, up to a few per process.
 */
#include <stdbool.h>
#include <stdint.h>

#define WORKERS_MAX_COUNTERS 512

/* Adds to counters[]; returns false when the case failed. */
typedef bool (*worker_case)(uint64_t number, uint64_t *counters);

/* Runs the cases first .. first + count - 1. *ret_failed: cases that failed, all of a process that died. */
void workers_run(uint64_t first, uint64_t count, worker_case run, uint64_t counters[WORKERS_MAX_COUNTERS],
                 uint64_t *ret_failed);

/* argument `index` as a number, or `otherwise` when it is not given; ends the program when it is none. */
uint64_t workers_argument(int argc, char **argv, int index, uint64_t otherwise);
