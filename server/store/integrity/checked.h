#pragma once
/*
 * checked - a file whose bytes are checked as they are read: a chunk is hashed before any of it is handed out.
 *
 * Whoever has it reads from one thread at a time. It holds the file open, its sums, and at most one chunk.
 */
#include "store/integrity/sums.h"

struct checked;

/* Of an open file and its entry in `sums`, both of which it takes, also when it is NULL (errno). A file of another size is
   EBADMSG. */
struct checked *checked_create(int fd, uint64_t size, struct sums *sums, const char *name);
void checked_destroy(struct checked *checked); /* NULL is allowed */

/* Exactly `size` bytes. False with errno: EBADMSG when what is on the disk is wrong, ENODATA when the file ends before. */
bool checked_read(struct checked *checked, uint64_t offset, void *bytes, size_t size);

uint64_t checked_size(const struct checked *checked);

/* Reads all of it, some bytes at a time; `pace` (NULL: at once) is told how many come next, and ends it with ECANCELED. */
bool checked_read_all(struct checked *checked, bool (*pace)(void *context, size_t bytes), void *context);
