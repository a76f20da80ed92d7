#pragma once
/*
 * overdue - which of the stored files were read whole longest ago.
 *
 * A file is known by its key, its path below DATA:
 *
 *   blobs/ab/cdef...N    a model, or a file beside models; or a copy of either
 *   plans/ID/N           a result in the folder
 *   plans/ID/N/NAME      a copy of one file of a result in an object store
 *
 * The time of its sums says when all of it was read last, by whichever daemon and before whichever restart; without sums it
 * never was. So this order needs no other memory of how far somebody came.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

#define OVERDUE_KEY_SIZE 128

struct overdue {
    int64_t read_at; /* nanoseconds since 1970; 0: never */
    char key[OVERDUE_KEY_SIZE];
};

struct overdue_list {
    struct overdue *files; /* oldest first, SPD_SCRUB_BATCH at most; the caller's to free() */
    size_t count;
    bool has_more;
};

/* The first ones that were read last at `until` (nanoseconds since 1970) or before, and come behind `after` in this order
   (NULL: all). False, with nothing in the list, when they are not known: without memory, folder or store. May take
   seconds. */
bool overdue_find(const char *data, struct store *store, int64_t until, const struct overdue *after,
                  struct overdue_list *ret);

/* The path of the sums of a file, malloc'ed; NULL without memory. */
char *overdue_sums(const char *data, const char *key);

/* When it was read last. */
int64_t overdue_read_at(const char *data, const char *key);
