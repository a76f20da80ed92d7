#pragma once
/*
 * blobs - where the files of models are kept: in the data folder, or in an object store.
 *
 *   folder          DATA/blobs (files.h) is all there is
 *   object store    (--blobs) it has every model, under blobs/ab/cdef...N below the prefix, and what is made of plans
 *                   (results.h). The data folder has copies under the same names of what was used last,
 *                   --blob-cache-bytes of it. Workers and answers read the copies
 *
 * Rows of the store stay the truth: an object comes before its row and goes after it. What a crash leaves is swept. Files
 * and objects have names that are given once (store_reserve()): a `blob` below is what a row says. A prefix belongs to one
 * database (blobs_owner.h): the sweep of another one's daemon would take its files for orphans. Where the object store is
 * away when the daemon starts, that is found out by the first call that reaches it; before that no call touches an object.
 *
 * A copy stays while somebody holds it: a hold is a lock on the file (flock), which other daemons of the same folder see.
 * Calls marked with "network" may take minutes, and are made in threads of blobs_send(); the others are quick. Any
 * thread may call.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server_limits.h"
#include "store/objects/transfers.h"
#include "store/s3/s3.h"
#include "util/problem.h"

struct blobs;
struct config;
struct stage;
struct store;

/* As the configuration says. False with a problem, also when the prefix is another folder's, or the object store
   refuses; where it only does not answer, blobs_usable() says so. */
bool blobs_open(const struct config *config, const char *owner, struct store *store, struct blobs **ret_blobs,
                struct problem *problem);
void blobs_stop(struct blobs *blobs);  /* calls over the network end with 503 STOPPING */
bool blobs_quiet(struct blobs *blobs); /* no transfer waits or runs */
void blobs_close(struct blobs *blobs); /* NULL is allowed */

/* Whether they are in an object store. NULL is a folder. */
bool blobs_are_remote(const struct blobs *blobs);

/* Runs the transfer in a thread that may wait for the network, or read a large file. */
void blobs_send(struct blobs *blobs, struct transfer *transfer);

/* A file of an object store. Its copy is DATA/KEY. */
struct blob_file {
    char key[SPD_MAX_OBJECT_KEY + 1], sha256[65];
    uint64_t size; /* a copy of another size is none; BLOB_ANY_SIZE where it is not known */
};

#define BLOB_ANY_SIZE UINT64_MAX

struct blob_file blobs_model(const char *blob, uint64_t size); /* of a row */
struct blob_file blobs_inspection(const char *inspection, const char *sha256);

/* Whether the copy is kept. {0} holds nothing. */
struct blob_hold {
    bool is_held;
    int file;
};

enum blob_held {
    BLOB_HELD,
    BLOB_MISSING, /* the object store does not have it, */
    BLOB_CHANGED, /* or has other bytes, which were fetched twice */
    BLOB_FAILED,  /* with a problem */
};

/* Network: makes the copy be there, and holds it. In a folder the file is there or not; nothing is held. *ret_wrong, NULL
   but where the object has other bytes: the path of a temporary file with them, as far as they were read; the caller's to
   remove and to free(). */
enum blob_held blobs_hold(struct blobs *blobs, const struct blob_file *file, struct blob_hold *ret_hold,
                          char **ret_wrong, struct problem *problem);
bool blobs_hold_copy(const struct blobs *blobs, const struct blob_file *file,
                     struct blob_hold *ret_hold); /* when it is there */
void blobs_release(struct blob_hold *hold);

/* Whether a file of this size is where files_blob() says it is: one that is gone or cut off is not. Quick. */
bool blobs_have_copy(const struct blobs *blobs, const char *blob, uint64_t size);

/* Network: whether the blob is in the folder, with this size, or where they are remote in the object store. */
bool blobs_have(struct blobs *blobs, const char *blob, uint64_t size, bool *ret_have, struct problem *problem);

/* Begins to send a large file that still grows, see objects/stage.h. NULL where there is no object store, or no memory. */
struct stage *blobs_stage(struct blobs *blobs, int file);

/* Network: files_publish(), after the files have become objects of this name when they are remote: then ret_sha256 is of
   the inspection, else "". A stage (or NULL) has what was sent of the upload. */
bool blobs_publish(struct blobs *blobs, const char *name, const char *upload, struct stage *stage,
                   const char *inspection, char ret_sha256[65], struct problem *problem);

/* Removes what the store does not name of a model's files: the files now, the objects soon. */
void blobs_tidy(struct blobs *blobs, const char *id);

/* Network: removes objects that no row has. Ends early when *stop becomes true. False when the object store failed. */
bool blobs_sweep(struct blobs *blobs, const atomic_bool *stop);

/* Network, and only where they are in an object store: whether the prefix is still there (blobs_still_own()); stores a file whose copy is there already; removes an object;
   calls `each` with the keys below a folder, in order, until it returns false. */
bool blobs_look(struct blobs *blobs, struct problem *problem);
bool blobs_put(struct blobs *blobs, const struct blob_file *file, struct problem *problem);
bool blobs_delete(struct blobs *blobs, const char *key, struct problem *problem);
bool blobs_list(struct blobs *blobs, const char *folder, bool (*each)(void *context, const char *key), void *context,
                struct problem *problem);

/* What the object store answered last when it was asked whether it is there, which is some seconds ago; it is asked again
   meanwhile. True without one. */
bool blobs_usable(struct blobs *blobs, struct problem *problem);

struct blobs_counts {
    struct s3_counts calls;
    uint64_t cached_bytes, hits, misses;
};

/* False where there is no object store. */
bool blobs_count(const struct blobs *blobs, struct blobs_counts *ret_counts);
