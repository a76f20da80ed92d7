#pragma once
/*
 * files - the data folder, and how files become durable in it.
 *
 *   DATA/lock                 held by the one daemon that uses the folder, or shared by all daemons of one PostgreSQL
 *   DATA/shardplan.db         models and plans (store.h), unless PostgreSQL has them
 *   DATA/tmp/OWNER/           uploads and inspections under way of one daemon; removed when it is dead
 *   DATA/uploads/ID           what has come of an upload by parts (uploads/uploads.h)
 *   DATA/blobs/ab/cdef...N    model files by SHA-256 and number, or copies of those in an object store (blobs.h);
 *                             with .json behind its name an inspection; with .sums behind that the sums of either
 *                             (integrity/sums.h). Files from before there were numbers have none
 *   DATA/plans/ID/N/          what a worker wrote in the Nth attempt: plan.json, plan.txt, annotated.splice,
 *                             plan.sheet (core/index), which older plans get when it is asked for; or copies of those
 *                             in an object store (results.h); and their sums
 *   DATA/quarantine/          files that were not what they have to be (integrity/quarantine.h)
 *
 * A row of the store is the truth: files come before their row and go after it, so a crash leaves only orphans, which
 * files_sweep() removes. No name ever means another file than before: a model's file has a number that is given once
 * (store.h), a plan's its id and attempt. So whoever found that the store does not name a file may remove it at any time
 * after that, however long it slept: that hits nothing that lives. Functions that can fail fill a problem (507 when the disk is full).
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"
#include "util/problem.h"

/* Creates the folders (mode 0700) and takes the lock; *ret_lock is a descriptor that keeps it. A folder in use by
   another daemon is a problem, unless both share it. */
bool files_open(const char *data, bool is_shared, int *ret_lock, struct problem *problem);

/* Makes the folder of this daemon's temporary files. When the store knows that the daemon lives, and not before: a
   sweep of another one would remove it. */
bool files_make_temporary(const char *data, const char *owner, struct problem *problem);

/* Removes what no row of the store refers to, and what dead daemons left in tmp. At start, or of a shared folder at any
   time. What the store does not tell at the moment stays. Ends early when *stop becomes true; NULL: never. */
void files_sweep(const char *data, struct store *store, const atomic_bool *stop);

/* Paths, malloc'ed; NULL without memory. `blob` and `inspection` are what a row of the store says (store_blob_name());
   an `id` must be checked to be hexadecimal. */
char *files_at(const char *data, const char *name);
char *files_blob(const char *data, const char *blob);
char *files_inspection(const char *data, const char *tenant, const char *inspection);
char *files_upload(const char *data, const char *id);
char *files_plan_folder(const char *data, const char *id);
char *files_attempt_folder(const char *data, const char *id, int64_t attempt);
char *files_plan_file(const char *data, const char *id, int64_t attempt, const char *name);
char *files_sums(const char *path);                         /* PATH.sums, of a file that stands alone */
char *files_temporary(const char *data, const char *owner); /* a new unique path in tmp */

/* Moves an uploaded file and its inspection (NULL: it is one beside models) to the places of this name, a store_blob_name(), and makes both durable. */
bool files_publish(const char *data, const char *name, const char *upload, const char *inspection,
                   struct problem *problem);

/* Moves a file to DATA/NAME, where it need not become durable; the folders of that name are made. False with errno. */
bool files_place(const char *data, const char *name, const char *path);

/* Removes the files of a model that the store does not name. */
void files_tidy_model(const char *data, struct store *store, const char *id);

/* What the name of a file below blobs/PREFIX means; false when it is none of these. */
struct files_name {
    char id[65];
    int64_t number;
    enum store_file file;
    bool is_sums; /* of that file */
};
bool files_read_blob_name(const char *prefix, const char *name, struct files_name *ret);

/* Removes a folder with what is in it, two levels deep; what is not there is fine. */
void files_remove_folder(const char *path);

/* Removes the plan's attempts before this one. */
void files_remove_attempts(const char *data, const char *id, int64_t before);

/* rename(2) of the file that `file` is open on. ESTALE when another one had its name, as where a copy of the data folder has
   taken its place: nothing has the new name then. False with errno. */
bool files_rename(const char *path, const char *to, int file);

/* Makes the entries of a folder durable. False with errno. */
bool files_sync_folder(const char *path);

/* Opens for reading, never following a link at the end; *ret_size is its size. -1 with errno; without a path (as the
   functions above return it), ENOMEM. */
int files_open_read(const char *path, uint64_t *ret_size);

/* Reads exactly `size` bytes at an offset. False with errno, ENODATA when the file ends before. */
bool files_read_at(int fd, uint64_t offset, void *bytes, size_t size);

/* The SHA-256 of the first `size` bytes, in hexadecimal digits. False with errno. */
bool files_hash(int fd, uint64_t size, char ret_sha256[65]);

/* Bytes that an ordinary process may still write; UINT64_MAX when unknown. */
uint64_t files_free_bytes(const char *data);
