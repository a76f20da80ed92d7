#pragma once
/*
 * placing - a model's files and its row, as one step for everybody else (see "numbers of files" in store.h).
 *
 * Calls wait for the disk, the store and, where blobs are remote, the network.
 */
#include "store/blobs.h"
#include "store/store.h"

struct stored;

struct placing {
    struct store *store;
    struct blobs *blobs;
    struct stored *stored;
    const char *upload, *inspection; /* files in tmp, which go to their places */
    struct stage *stage;             /* what has been sent of the upload, or NULL: blobs_publish() */

    bool was_moved; /* the upload is not where it was any more */
    bool existed;   /* the tenant had the model */
    int64_t left;   /* a number that is of no use, and the store could not be told: for jobs_unreserve(); 0: none */
};

/* Adds the model: store_add_model() of a row whose number is taken here. False with a problem: nothing was added, as far as
   one can know. */
bool placing_add(struct placing *placing, struct model_row *row, const struct store_quota *quota,
                 struct problem *problem);
