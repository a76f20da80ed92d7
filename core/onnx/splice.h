#pragma once
/*
 * splice - a file described as pieces of another file and a few new bytes.
 *
 * An annotated model is the uploaded bytes with small insertions. A splice says so: a list of segments, each either a
 * range of the original or a range of its own literal bytes. It is small whatever the model's size, so it can be kept
 * instead of the file, and read at any offset: that is how a 2 GB model is returned without ever being in memory or
 * twice on disk.
 *
 *   result:   | original 0..120 | literal | original 121..900 | literal | ...
 *
 * Invariants: segments are in result order, not empty, and merged where they touch; ranges lie inside the original.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

#define SP_SPLICE_MAX_LITERAL ((size_t)1 << 30) /* bytes of literals of one splice */

struct sp_splice;

/* Where bytes go. `write` returns false on failure, which ends the stream with SP_ERR_IO. */
struct sp_sink {
    bool (*write)(void *context, const void *bytes, size_t size);
    /* Copies a range of the original (which the sink knows); NULL when the sink wants the bytes through `write`. */
    bool (*copy)(void *context, uint64_t offset, uint64_t size);
    void *context;
};

/* Where original bytes come from when the sink does not copy: fills exactly `size` bytes or returns false. */
struct sp_source {
    bool (*read)(void *context, uint64_t offset, void *bytes, size_t size);
    void *context;
};

/* An empty splice over an original of `original_size` bytes, from malloc; NULL without memory. */
struct sp_splice *sp_splice_create(uint64_t original_size);
void sp_splice_destroy(struct sp_splice *splice); /* NULL is allowed */

/* Append to the result. False without memory, over the ceiling, or outside the original. */
bool sp_splice_keep(struct sp_splice *splice, uint64_t offset, uint64_t size);
bool sp_splice_add(struct sp_splice *splice, const void *bytes, size_t size);

uint64_t sp_splice_size(const struct sp_splice *splice);          /* bytes of the result */
uint64_t sp_splice_original_size(const struct sp_splice *splice); /* bytes of the original */

/* Sends the whole result, in order. */
enum sp_status sp_splice_stream(const struct sp_splice *splice, const struct sp_source *source,
                                const struct sp_sink *sink, struct sp_error *err);

/* Reads up to `size` bytes of the result at `offset`; *ret_size is 0 at the end. Quick at any offset. */
enum sp_status sp_splice_read(const struct sp_splice *splice, const struct sp_source *source, uint64_t offset,
                              void *bytes, size_t size, size_t *ret_size, struct sp_error *err);

/* The splice as bytes for keeping ("SPSPLIC1", little-endian), and back. Loading checks everything: a damaged file is
   SP_ERR_MALFORMED, never a wrong result. */
enum sp_status sp_splice_save(const struct sp_splice *splice, const struct sp_sink *sink, struct sp_error *err);
enum sp_status sp_splice_load(const void *bytes, size_t size, struct sp_splice **ret_splice, struct sp_error *err);

/* Whether bytes that begin with these are those of a splice over an original of this size; the rest is not looked at. */
#define SP_SPLICE_HEAD_BYTES 32
bool sp_splice_is_over(const void *head, uint64_t original_size);
