#pragma once
/*
 * parts - an object that is sent in parts, also while its file still grows.
 *
 * Several threads may send parts at the same time; each part that is whole is sent by one of them. A part that fails, after
 * the retries of retry.h, ends the upload: the others are not sent. Until it is completed the object is not there, and
 * what was sent takes room in the bucket until it is aborted.
 *
 * The server checks each part against the hash that is signed with it. Where nobody can change a part on its way (TLS, or a
 * server on this machine) it is not hashed: what is read is checked against the hash of the whole in any case.
 */
#include "store/s3/s3.h"

struct s3_parts;

/* Nothing is sent yet. `file` must outlive it. `size` is that of the file when it is known, else 0. NULL without memory. */
struct s3_parts *s3_parts_create(struct s3 *s3, const char *key, int file, uint64_t size);
void s3_parts_destroy(struct s3_parts *parts); /* NULL is allowed; no thread sends */

/* So many bytes of the file are there and stay as they are. Quick. */
void s3_parts_grow(struct s3_parts *parts, uint64_t size);

/* Parts that are whole, and that nobody sends or has sent; 0 after a failure. Quick. */
unsigned s3_parts_due(struct s3_parts *parts);

/* The file has its size. Quick. */
void s3_parts_end(struct s3_parts *parts, uint64_t size);

bool s3_parts_failed(struct s3_parts *parts);

/* Network: sends parts until none is due. */
void s3_parts_send(struct s3_parts *parts);

/* Network, behind s3_parts_end(): sends what is left, waits for other threads, and makes the object. False with a problem,
   also of a part that failed before. */
bool s3_parts_complete(struct s3_parts *parts, struct problem *problem);

/* No part is begun any more. Quick. */
void s3_parts_stop(struct s3_parts *parts);

/* Whether the bucket was asked to begin it. No thread sends. */
bool s3_parts_begun(const struct s3_parts *parts);

/* Network: frees what the bucket has of an upload that was not completed. No thread sends. */
void s3_parts_abort(struct s3_parts *parts);
