#pragma once
/*
 * sums - digests of the chunks of files, so that a part of a file can be checked without reading all of it.
 *
 * Sums are of one file or of several that belong together. They lie in a file beside these, which is made of them again
 * where it is missing or wrong: what a file has to be is said elsewhere (a model's name is its SHA-256, the row of a plan
 * has the digest of its result's sums). The file is
 *
 *   "SPSUMS1\n"  of (64 bytes)  chunk bytes (4)  files (4)  {name (32), size (8)}..  digests (16 each)..  SHA-256 (32)
 *
 * with numbers in little endian, the 128-bit XXH3 of each SUMS_CHUNK bytes (the last chunk of a file is shorter), file
 * after file, and the SHA-256 of all that stands before it: sums.digest. XXH3 finds what disks, memory and mistakes do;
 * it is no defence against somebody who may write into the folder.
 *
 * Sums are made by one thread; complete ones may be read by any number.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUMS_CHUNK       (256u * 1024)
#define SUMS_MAX_FILES   8u
#define SUMS_NAME_SIZE   32           /* with a NUL */
#define SUMS_MAX_BYTES   (256u << 20) /* of a file of sums: of files of 4 TiB */
#define SUMS_DIGEST_SIZE 65           /* SHA-256 in hexadecimal digits and a NUL */

struct sums_file {
    char name[SUMS_NAME_SIZE];
    uint64_t size;
    uint64_t first; /* chunk, among those of all files */
};

struct sums;

struct sums *sums_create(void);       /* empty ones; NULL without memory */
void sums_destroy(struct sums *sums); /* NULL is allowed */

/* Adds a file, and then its bytes in order. False without memory, or with too many files or bytes. */
bool sums_begin(struct sums *sums, const char *name);
bool sums_take(struct sums *sums, const void *bytes, size_t size);

/* Nothing is added any more; `of` says whose they are, in at most 64 bytes. ret_digest, unless NULL, is the SHA-256 at the
   end of the file. */
bool sums_end(struct sums *sums, const char *of, char ret_digest[SUMS_DIGEST_SIZE]);

/* Writes complete sums to a new file. False with errno. It need not be durable. */
bool sums_save(const struct sums *sums, const char *path);

/* Reads sums of `of` whose digest is the given one (NULL: any). NULL with errno: ENOENT, EBADMSG when what is there is
   not that, or what the system said. */
struct sums *sums_load(const char *path, const char *of, const char *digest);

const struct sums_file *sums_find(const struct sums *sums, const char *name); /* NULL: not there */

/* Whether these are the bytes of the file's chunk `chunk`. */
bool sums_fit(const struct sums *sums, const struct sums_file *file, uint64_t chunk, const void *bytes, size_t size);
