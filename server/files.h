#pragma once
/*
 * files - the data folder, and how files become durable in it.
 *
 *   DATA/lock                 held by the one daemon that uses the folder
 *   DATA/shardplan.db         models and plans (store.h)
 *   DATA/tmp/                 uploads and inspections under way; emptied at start
 *   DATA/blobs/ab/cdef..      model files by SHA-256; cdef...json beside it is the inspection
 *   DATA/plans/ID/            what the worker wrote: plan.json, plan.txt, annotated.splice
 *
 * A row of the store is the truth: files come before their row and go after it, so a crash leaves only orphans, which
 * files_sweep() removes at the next start. Functions that can fail fill a problem (507 when the disk is full).
 */
#include <stdbool.h>
#include <stdint.h>

#include "problem.h"

struct store;

/* Creates the folders (mode 0700) and takes the lock; *ret_lock is a descriptor that keeps it. A folder in use by
   another daemon is a problem. */
bool files_open(const char *data, int *ret_lock, struct problem *problem);

/* Removes what no row of the store refers to, and everything in tmp. Before the first request only. */
void files_sweep(const char *data, struct store *store);

/* Paths, malloc'ed; NULL without memory. `id` must be checked to be hexadecimal. */
char *files_blob(const char *data, const char *id);
char *files_inspection(const char *data, const char *id);
char *files_plan_folder(const char *data, const char *id);
char *files_plan_file(const char *data, const char *id, const char *name);
char *files_temporary(const char *data); /* a new unique path in tmp */

/* Moves an uploaded file and its inspection to their places and makes both durable. */
bool files_publish(const char *data, const char *id, const char *upload, const char *inspection,
                   struct problem *problem);

/* Removes blob and inspection. */
void files_remove_blob(const char *data, const char *id);

/* Removes a folder of plain files and the folder; what is not there is fine. */
void files_remove_folder(const char *path);

/* Makes the entries of a folder durable. False with errno. */
bool files_sync_folder(const char *path);

/* Opens for reading, never following a link at the end; *ret_size is its size. -1 with errno. */
int files_open_read(const char *path, uint64_t *ret_size);

/* Reads exactly `size` bytes at an offset. */
bool files_read_at(int fd, uint64_t offset, void *bytes, size_t size);

/* Bytes that an ordinary process may still write; UINT64_MAX when unknown. */
uint64_t files_free_bytes(const char *data);
