#pragma once
/*
 * answers - finished plans as they are sent, kept in memory.
 *
 * Dashboards ask for the same plans again and again, and a plan that is finished never changes: until it is deleted,
 * its answer is the same bytes. What is kept is dropped as soon as the store says that the plan changed
 * (answers_forget()); an answer that was being made meanwhile is not cached, which the generation tells.
 * SPD_ANSWERS_BYTES bounds all of them; what was not asked for longest goes first.
 *
 * Any thread may call. An answer is counted: who got one gives it back with answers_release(), also after it was
 * dropped.
 */
#include <stdint.h>

#include "base/buf.h"
#include "store/store.h"

struct answers;

#define ANSWERS_ETAG_SIZE 80

struct cached_answer {
    const char *bytes;
    size_t size;
    char etag[ANSWERS_ETAG_SIZE];
    int64_t modified; /* milliseconds since 1970 */
};

struct answers *answers_create(void);          /* NULL without memory */
void answers_destroy(struct answers *answers); /* NULL is allowed; nobody may have an answer any more */

/* The kept answer about this plan, when the tenant (NULL: any) may see it; NULL when there is none. */
const struct cached_answer *answers_get(struct answers *answers, const char *tenant, const char *plan);
void answers_release(struct answers *answers, const struct cached_answer *answer);

/* To be taken before the store is asked what the plan is. */
uint64_t answers_generation(struct answers *answers);

/* Takes the bytes of `body` (which is empty then) when they may be cached, and returns them as an answer with this
   ETag; NULL, with the body as it was, when they are too large, memory is short, or something was forgotten since the
   generation. */
const struct cached_answer *answers_keep(struct answers *answers, const struct plan_row *row, const char *etag,
                                         struct sp_buf *body, uint64_t generation);

/* The plan changed; NULL: anything may have. */
void answers_forget(struct answers *answers, const char *plan);
