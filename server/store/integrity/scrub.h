#pragma once
/*
 * scrub - a thread that reads what is stored when nobody asks for it, so that what has gone wrong is found, told and put away
 * (stored.h) while it can still be sent again.
 *
 * Of a folder it reads the files of models, those beside them, and results; of an object store the copies that the folder has,
 * and never an object. What was read longest ago comes first (overdue.h), at most so many bytes in a second. A round has
 * read everything that was not read, by whichever daemon, for SPD_SCRUB_AGE_SECONDS; a round begins with the daemon, and then each
 * SPD_SCRUB_ROUND_SECONDS. Of the daemons that share a folder one does it at a time.
 */
#include <stdbool.h>
#include <stdint.h>

struct scrub;
struct stored;

/* NULL without memory or a thread. `rate` is in bytes per second, not 0. Uses `stored` and its store until it is
   destroyed. */
struct scrub *scrub_start(struct stored *stored, uint64_t rate);
void scrub_stop(struct scrub *scrub);    /* what it reads ends soon; NULL is allowed */
void scrub_destroy(struct scrub *scrub); /* stops, and waits for that; NULL is allowed */

struct scrub_counts {
    uint64_t bytes, files, wrong;
    double round; /* when the last round ended, in seconds since 1970; 0: none has */
};

/* Any thread. False where there is no scrub (NULL). */
bool scrub_count(struct scrub *scrub, struct scrub_counts *ret_counts);
