#pragma once
/*
 * uploads - models, and files beside them, that come by parts: over many requests, broken connections and restarts.
 *
 *   created --parts (part.h)--> all bytes are there --compared with the digest--> complete --> a model
 *      \-- expired or deleted                 \-- another digest: gone
 *
 * A row of the store says what an upload is to be; DATA/uploads/ID has what has come. The row is first and goes first,
 * so files without one are orphans, which files_sweep() removes. An upload counts in its tenant's quotas with all the
 * bytes that it is to have. It has SPD_UPLOAD_KEEP_MS, and the time that its bytes take at SPD_UPLOAD_RATE. Daemons that
 * share a data folder take parts of one upload in turn. Where each has a folder of its own (store/blobs.h), the id of an
 * upload ends with the first digits of the name of the folder that it began in (store/identity.h), and only who has that
 * folder goes on with it.
 *
 * Reading gigabytes to hash them is done by a thread of this module. Any thread may call.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/objects/transfers.h"
#include "store/store.h"
#include "util/problem.h"

struct part;
struct server;
struct uploads;

struct uploads *uploads_create(struct server *server, struct problem *problem); /* NULL with a problem */
void uploads_stop(struct uploads *uploads);                                     /* checks end with 503 STOPPING */
bool uploads_quiet(struct uploads *uploads);                                    /* no check waits or runs */
void uploads_destroy(struct uploads *uploads);                                  /* NULL is allowed */

/* Main thread: now and then removes what has expired. */
void uploads_tick(struct uploads *uploads, uint64_t now_ms);

/* An id for a new one; false without random numbers. */
bool uploads_name(const struct uploads *uploads, char ret_id[STORE_ID_SIZE]);

/* Whether what has come of an upload is in this folder, or would be; 409 UPLOAD_ELSEWHERE. */
bool uploads_are_here(const struct uploads *uploads, const char *id, struct problem *problem);

/* How many bytes have come; 0 before the first. */
uint64_t uploads_offset(const struct uploads *uploads, const char *id);

/* Removes row and file. False when the store is away. */
bool uploads_remove(struct uploads *uploads, const char *id);

/* Removes the file only, whose row is gone. */
void uploads_remove_file(const struct uploads *uploads, const char *id);

/* The check at the end: makes the file durable and compares its SHA-256 with what the row has, or takes it over. Done in
   another thread, which calls `done` with `problem` set when it failed; an upload with another digest is removed. The
   part is locked meanwhile and stays the caller's. */
struct upload_check {
    struct transfer transfer;
    struct uploads *uploads;
    const struct part *part;
    const struct upload_row *row;
    char digest[65];
    struct problem problem;
    void (*done)(struct upload_check *check);
    void *context;
};
void uploads_check(struct uploads *uploads, struct upload_check *check);
