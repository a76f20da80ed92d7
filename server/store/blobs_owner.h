#pragma once
/*
 * blobs_owner - whose prefix of a bucket it is.
 *
 * The prefix that a data folder uses has the object owner/NAME with that folder's name (identity.h). Where another name is
 * there, the prefix belongs to another folder, whose models a sweep would take for orphans.
 * Nothing is read or written below a prefix before it is known to be this folder's.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "store/s3/s3.h"
#include "util/problem.h"

struct blobs_owner {
    struct s3 *s3;
    const char *data;
    pthread_mutex_t asking; /* one thread at a time */
    atomic_bool is_own;
};

void blobs_owner_init(struct blobs_owner *owner, struct s3 *s3, const char *data);

/* Network, once: for the first one that begins to own it, the others wait. False with a problem, also when the prefix is
   another one's (BLOBS_IN_USE). Any thread. */
bool blobs_own(struct blobs_owner *owner, struct problem *problem);

/* Network, at the daemon's start. A store that does not answer may come: then it is true, and *ret_seen says that. What
   does not get right by itself is false with a problem. */
bool blobs_owner_start(struct blobs_owner *owner, struct problem *ret_seen, struct problem *problem);
