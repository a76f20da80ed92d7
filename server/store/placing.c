#include "store/placing.h"

#include <string.h>

#include "store/integrity/stored.h"

/* Whether the rows of the model name a blob that is not there, or not right. */
static bool look_at_blob(const struct placing *placing, const struct model_row *row, bool *ret_replaces,
                         struct problem *problem)
{
    char blob[STORE_BLOB_SIZE];
    bool have = false;
    const enum store_found found = store_find_blob(placing->store, NULL, row->id, blob);
    if (found == STORE_ERROR)
        return problem_set(problem, 503, "STORE_UNAVAILABLE",
                           "The store does not answer at the moment; try again later.");
    *ret_replaces = false;
    if (found != STORE_DONE)
        return true;
    const bool ok = blobs_have(placing->blobs, blob, (uint64_t)row->bytes, &have, problem);
    /* An object that was found wrong is there no more. */
    *ret_replaces = !have || (!blobs_are_remote(placing->blobs) && !stored_is_right(placing->stored, blob));
    return ok;
}

/* *ret_leaves: some files are not of use, these or older ones. */
static bool add_files(struct placing *placing, struct model_row *row, const struct store_quota *quota, bool *ret_leaves,
                      struct problem *problem)
{
    char name[STORE_BLOB_SIZE];
    bool replaces = false;
    store_blob_name(row->id, row->number, name);
    stored_seal_file(placing->inspection, row->id);
    if (!look_at_blob(placing, row, &replaces, problem) ||
        !blobs_publish(placing->blobs, name, placing->upload, placing->stage, placing->inspection,
                       row->inspection_sha256, problem))
        return false;
    placing->was_moved = true;
    const enum store_added added = store_add_model(placing->store, row, replaces, quota, problem);
    placing->existed = added == STORE_EXISTS;
    *ret_leaves = added != STORE_ADDED || replaces || strcmp(row->blob, name) != 0;
    return added == STORE_ADDED || added == STORE_EXISTS;
}

bool placing_add(struct placing *placing, struct model_row *row, const struct store_quota *quota,
                 struct problem *problem)
{
    bool leaves = true;
    if (!store_reserve(placing->store, row->id, &row->number, problem))
        return false;
    const bool ok = add_files(placing, row, quota, &leaves, problem);
    /* Whether it was added may not be known: the store says it when it is asked for the files. */
    if (!ok && !store_unreserve(placing->store, row->number))
        placing->left = row->number;
    if (leaves)
        blobs_tidy(placing->blobs, row->id);
    return ok;
}
