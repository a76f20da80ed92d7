#pragma once
/*
 * blobs_owner - whose prefix of a bucket it is.
 *
 * A database and the prefix with its files belong together, as it does with a data folder where there is no object store
 * (identity.h). The database has the prefix's name (setting "blobs"), the prefix has the object owner/NAME. Where the
 * object is missing, or that of another name is there, a sweep would take for orphans what others need. The name is that
 * of the data folder of the daemon that came first; once it is in the prefix, the setting "blobs_used" says so, so that
 * another prefix, which has no name, is not taken for a new one.
 * Nothing is read or written below a prefix before it is known to be this database's.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "store/identity.h"
#include "store/s3/s3.h"
#include "store/store.h"
#include "util/problem.h"

struct blobs_owner {
    struct s3 *s3;
    const char *data;
    struct store *store;
    pthread_mutex_t asking;       /* one thread at a time */
    char name[IDENTITY_SIZE + 8]; /* the object; it stays once the prefix is owned */
    atomic_bool is_own;
};

void blobs_owner_init(struct blobs_owner *owner, struct s3 *s3, const char *data, struct store *store);

/* Network, once: for the first one that begins to own it, the others wait. False with a problem, also when the prefix is
   another one's (503 BLOBS_IN_USE) or the store has its files in another prefix (500 OTHER_BLOBS). Any thread. */
bool blobs_own(struct blobs_owner *owner, struct problem *problem);

/* Network: whether the prefix still has the name that blobs_own() found there. One that was emptied, or another one in its
   place, looks like lost objects: then it is false with 503 BLOBS_UNAVAILABLE. */
bool blobs_still_own(struct blobs_owner *owner, struct problem *problem);

/* Network, at the daemon's start. A store that does not answer may come: then it is true, and *ret_seen says that. What
   does not get right by itself is false with a problem. */
bool blobs_owner_start(struct blobs_owner *owner, struct problem *ret_seen, struct problem *problem);

/* Whether the store has no files in a prefix, as it should be where there is no --blobs. Else 500 OTHER_BLOBS. */
bool blobs_are_in_folder(struct store *store, struct problem *problem);
