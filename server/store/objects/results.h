#pragma once
/*
 * results - what plans leave, where it is kept in an object store (blobs.h).
 *
 *   DATA/plans/ID/N/NAME   what the worker wrote in the Nth attempt, or a copy
 *   plans/ID/N/NAME        the object, below the prefix
 *
 * The objects are there before the row says that the plan has a result, and the row has their hashes (`files`), so any
 * daemon reads them, whatever its data folder. They go after the row, as files do. A plan's id and the number of an
 * attempt are never used again, so what nobody needs once is needed by nobody later: to remove it there is no lock. What
 * a crash leaves is swept.
 *
 * A row without `files` belongs to a plan whose result is in the data folder only.
 */
#include "store/blobs.h"
#include "store/store.h"

/* Network: stores the files of an attempt that lie in the data folder. *ret_files is for the row, and the caller's to
   free(). 500 IO_ERROR when one cannot be read. */
bool results_store(struct blobs *blobs, const char *data, const char *plan, int64_t attempt, char **ret_files,
                   struct problem *problem);

/* A file of the result; *ret_size unless NULL is its size. False where the row names none of this name. */
bool results_file(const struct plan_row *row, const char *name, struct blob_file *ret_file, uint64_t *ret_size);

/* The objects of the plan's attempts before this one go soon. Quick. In a folder nothing happens. */
void results_remove(struct blobs *blobs, const char *plan, int64_t before);

/* Network: removes objects that no row has. Ends early when *stop becomes true. False when the object store failed. */
bool results_sweep(struct blobs *blobs, struct store *store, const atomic_bool *stop);
