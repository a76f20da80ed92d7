#pragma once
/*
 * stored - files of models and results as they are read: each byte is checked before somebody gets it.
 *
 *   what          is right when                               where it is not
 *   model         its SHA-256 is its name                     MODEL_DAMAGED, until the same model is sent again
 *   object        it has the SHA-256 in its name, or its row  it is removed: MODEL_DAMAGED or PLAN_DAMAGED, as below
 *   copy          it has the SHA-256 of the object            fetched again, and COPY_DAMAGED (503) until it is
 *   inspection    it is what was stored (its own sums)        MODEL_DAMAGED, until the same model is sent again
 *   result        its sums have the digest in the plan's row  the plan has failed with PLAN_DAMAGED: it is to be made again
 *   sheet         it is what was stored (its own sums)        it is made again from the result
 *
 * Sums (sums.h) lie beside the file, NAME.sums, or in the folder of a result, `sums`. Where they are missing or wrong the
 * whole file is read once and they are made again; those of what nothing else vouches for (an inspection, a sheet, what was
 * stored before there were sums) are then believed. The time of a model's sums is when all of it was read last.
 *
 * What is read in pieces is checked chunk by chunk. A worker reads a model by itself: before it gets one, all of it is
 * read when it is small (SPD_CHECK_WHOLE_BYTES), and a larger one when it was changed since its sums were made.
 *
 * What is wrong goes to the quarantine, is logged and counted; of an object that had other bytes twice, what was fetched.
 * Nothing is condemned while the data folder, or the prefix of the object store, is not there.
 * Any thread that may wait for a disk and the store may call.
 */
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"
#include "util/problem.h"

struct blob_file;
struct blob_hold;
struct blobs;
struct folder;
struct stored;

struct stored_options {
    const char *data, *owner;
    struct folder *folder;
    struct store *store;
    struct blobs *blobs;
    uint64_t quarantine_bytes;
    void (*found)(void *context, const char *what, const char *how); /* something was wrong */
    void *context;
};

struct stored *stored_create(const struct stored_options *options); /* NULL without memory */
void stored_destroy(struct stored *stored);                         /* NULL is allowed */

/* ---- reading in pieces ---- */

struct stored_file;

/* NULL with a problem. `blob` is what a row says. */
struct stored_file *stored_open_model(struct stored *stored, const char *blob, struct problem *problem);
struct stored_file *stored_open_inspection(struct stored *stored, const struct model_row *row, struct problem *problem);
struct stored_file *stored_open_result(struct stored *stored, const struct plan_row *row, const char *name,
                                       struct problem *problem);
/* NULL without a problem: there is none, or it was wrong, and it can be made again from the result. */
struct stored_file *stored_open_sheet(struct stored *stored, const struct plan_row *row, struct problem *problem);

uint64_t stored_size(const struct stored_file *file);

/* Exactly `size` bytes. False with errno: EBADMSG when they are wrong, which is dealt with already. */
bool stored_read(struct stored_file *file, uint64_t offset, void *bytes, size_t size);
void stored_close(struct stored_file *file); /* NULL is allowed */

/* ---- reading whole ---- */

/* Network: makes the file be there and be right, by the rule above, and holds it (blobs.h). */
bool stored_hold(struct stored *stored, const struct blob_file *file, struct blob_hold *ret_hold,
                 struct problem *problem);

/* Quick: whether there are sums that are newer than the file, not as old. */
bool stored_has_sums(const struct stored *stored, const struct blob_file *file);

/* Reads all of a model. False when it is wrong, or cannot be read. */
bool stored_is_right(struct stored *stored, const char *blob);

/* Whether all of the plan's result in the folder is right; true where an object store has it. */
bool stored_check_result(struct stored *stored, const struct plan_row *row, struct problem *problem);

/* Whether what a tenant has of a model is right, all of it: the file, which is small, and its inspection. False when that
   is not known. */
bool stored_is_whole(struct stored *stored, const struct model_row *row);

/* ---- writing ---- */

/* Makes the sums of a result that has been written to the folder. What the plan's row keeps (plan_row.files), the
   caller's to free(): "" where the files cannot be read now, NULL without memory. */
char *stored_seal_result(struct stored *stored, const char *plan, int64_t attempt);

/* Makes NAME.sums of an inspection that has been written, of the model `id`, whatever path it has yet. Without it they
   are made later. */
void stored_seal_file(const char *path, const char *id);
