#pragma once
/*
 * workers - thousands of independent cases on two processors.
 *
 * Case numbers are dealt out to forked processes, each of which counts under names in a table of its own; the tables
 * are added up. Failed cases print "not ok" lines themselves, a few per process.
 */
#include <stdbool.h>
#include <stdint.h>

#define COUNTS_MAX 2048 /* names, and slots of the table */
struct counts {
    struct count {
        char name[80]; /* "" is free */
        uint64_t number;
    } items[COUNTS_MAX];
};

/* Adds to the count of this name; formatted. */
__attribute__((format(printf, 3, 4))) void counts_add(struct counts *counts, uint64_t number, const char *format, ...);
uint64_t counts_get(const struct counts *counts, const char *name);

/* Returns false when the case failed. */
typedef bool (*worker_case)(uint64_t number, struct counts *counts);

/* Runs the cases first .. first + count - 1. *ret_failed: cases that failed, all of a process that died. */
void workers_run(uint64_t first, uint64_t count, worker_case run, struct counts *ret_counts, uint64_t *ret_failed);

/* Argument `index` as a number, or `otherwise` when it is not given; ends the program when it is none. */
uint64_t workers_argument(int argc, char **argv, int index, uint64_t otherwise);
