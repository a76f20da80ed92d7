#pragma once
/*
 * indexes - the indexes of plans (core/index/index.h) that slices are answered from, kept in memory while they are
 * asked for.
 *
 * Who looks at a plan asks for one slice after the other. An index is read and checked once, then any number of threads
 * read it at once. It never changes: a plan's attempt has one index, whatever is made of it. Each is counted; who got
 * one gives it back. SPD_SHEETS_BYTES bounds all of them together, those in use included, so it is known before one is
 * read whether there is room; of those that nobody uses what was not asked for longest goes first. One that is larger
 * than all may be is read when nobody uses another, and not kept.
 *
 * Any thread may call.
 */
#include <stdint.h>

#include "index/index.h"
#include "util/problem.h"

struct indexes;
struct stream;

struct indexes *indexes_create(void);          /* NULL without memory */
void indexes_destroy(struct indexes *indexes); /* NULL is allowed; nobody may have an index any more */

/* Which index. */
struct index_of {
    const char *plan; /* its id */
    int64_t attempt;
    uint64_t plan_size; /* of its plan.json: the index of another file is not this one's */
};

enum index_found {
    INDEX_OPEN,
    INDEX_MISSING, /* there is none, or it is damaged, of another version or of another plan: it can be made again */
    INDEX_REFUSED, /* `problem` says why */
};

/* The kept index of a plan, to be given back with indexes_release(); NULL: none is. */
const struct sp_index *indexes_find(struct indexes *indexes, const struct index_of *of);

/* Reads an index from a file; one that is wrong (EBADMSG) is missing. What is there is *ret_index's, to be given back with
   indexes_release(). */
enum index_found indexes_read(struct indexes *indexes, const struct index_of *of, const struct stream *file,
                              const struct sp_index **ret_index, struct problem *problem);
void indexes_release(struct indexes *indexes, const struct sp_index *index); /* NULL is allowed */

/* The plan is gone, or has another attempt. NULL: any may; then nothing is dropped, since no index is wrong. */
void indexes_forget(struct indexes *indexes, const char *plan);
