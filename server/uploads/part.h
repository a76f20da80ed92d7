#pragma once
/*
 * part - a piece of an upload on its way from the socket to the disk.
 *
 * The file of an upload grows at its end only, and its size is how far the upload has come, whatever ended the request
 * that brought the bytes. One part is taken at a time: the file is locked while it is open (flock), which other daemons
 * of the same folder see.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/problem.h"

struct part;

/* Opens the file of upload `id`, which is to have `bytes`, to append at `offset`; *ret_offset is how many are there. NULL
   with a problem: 409 UPLOAD_BUSY or OFFSET_MISMATCH, no memory, or what the disk says. */
struct part *part_open(const char *data, const char *id, uint64_t bytes, uint64_t offset, uint64_t *ret_offset,
                       struct problem *problem);

/* Appends. False with a problem: 413 over what the upload is to have, 507 when the disk is full. What was written before
   stays. */
bool part_write(struct part *part, const void *bytes, size_t size, struct problem *problem);

/* The bytes of this part are not what they should be: they go again. */
void part_undo(struct part *part);

uint64_t part_offset(const struct part *part); /* how many bytes the file has now */
int part_file(const struct part *part);        /* its descriptor; stays the part's */

void part_close(struct part *part); /* NULL is allowed */
