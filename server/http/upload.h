#pragma once
/*
 * upload - a model on its way from the socket to the disk.
 *
 * Bytes go to a file in tmp while SHA-256 runs along; memory stays flat. Until upload_keep() is called, destroying the
 * upload (the client left, the model is invalid) removes the file, so nothing half-stored remains. The file is made
 * durable by the worker that inspects it, not here, so that no HTTP thread waits for a disk.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/problem.h"

struct blobs;
struct config;
struct stage;
struct upload;

/* A new empty file of this daemon in tmp; at most --max-upload bytes will be taken, and what the tenant may have under
   way (staging.h). NULL with a problem. `config` must outlive it. */
struct upload *upload_create(const struct config *config, const char *owner, const char *tenant,
                             struct problem *problem);

/* An upload by parts that is complete, `id` with this SHA-256: a second name of its file in tmp, so that it is still there
   when the model is refused. It counts where it is stored. NULL with a problem. */
struct upload *upload_adopt(const struct config *config, const char *owner, const char *id, const char *digest,
                            struct problem *problem);

/* The upload by parts that it was, or NULL. */
const char *upload_source(const struct upload *upload);

/* The model is to be stored: where there is an object store, a large one is sent there while it comes. */
void upload_send_early(struct upload *upload, struct blobs *blobs);
struct stage *upload_stage(const struct upload *upload); /* what has been sent, NULL when nothing has */

/* Appends. False with a problem: 413 over the maximum, 429 over the tenant's quota, 507 when the disk is full. */
bool upload_write(struct upload *upload, const void *bytes, size_t size, struct problem *problem);

/* Ends the file. The id is the SHA-256 in hexadecimal digits. */
bool upload_finish(struct upload *upload, char ret_id[65], struct problem *problem);

const char *upload_path(const struct upload *upload);
uint64_t upload_size(const struct upload *upload);

/* The file has found its place: destroying the upload leaves it alone. */
void upload_keep(struct upload *upload);

void upload_destroy(struct upload *upload); /* NULL is allowed */
