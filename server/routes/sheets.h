#pragma once
/*
 * sheets - the sheets of plans (core/index/index.h) that slices are answered from, kept in memory while they are asked
 * for.
 *
 * Who looks at a plan asks for one slice after the other. A sheet is read and checked once, then any number of threads
 * read it at once. It never changes: a plan's attempt has one sheet, whatever is made of it. Each is counted; who got
 * one gives it back. SPD_SHEETS_BYTES bounds all of them together, those in use included, so it is known before one is
 * read whether there is room; of those that nobody uses what was not asked for longest goes first. One that is larger
 * than all may be is read when nobody uses another, and not kept.
 *
 * Any thread may call.
 */
#include <stdint.h>

#include "index/index.h"
#include "util/problem.h"

struct sheets;

struct sheets *sheets_create(void);         /* NULL without memory */
void sheets_destroy(struct sheets *sheets); /* NULL is allowed; nobody may have a sheet any more */

/* Which sheet. */
struct sheet_of {
    const char *plan; /* its id */
    int64_t attempt;
    uint64_t plan_size; /* of its plan.json: the sheet of another file is not this one's */
};

enum sheet_found {
    SHEET_OPEN,
    SHEET_MISSING, /* there is none, or it is damaged, of another version or of another plan: it can be made again */
    SHEET_REFUSED, /* `problem` says why */
};

/* The kept sheet of a plan, or the one in the file `path` (NULL: out of memory). What is there is *ret_sheet's, to be
   given back with sheets_release(). */
enum sheet_found sheets_open(struct sheets *sheets, const struct sheet_of *of, const char *path,
                             const struct sp_index **ret_sheet, struct problem *problem);
void sheets_release(struct sheets *sheets, const struct sp_index *sheet); /* NULL is allowed */

/* The plan is gone, or has another attempt. NULL: any may; then nothing is dropped, since no sheet is wrong. */
void sheets_forget(struct sheets *sheets, const char *plan);
