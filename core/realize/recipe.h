#pragma once
/*
 * recipe - a file that is made when it is read: new bytes, ranges of other files, and strided parts of tensors in them.
 *
 *   graph bytes | weight: rows 0..4095, bytes 2048..4095 of each | new bytes | range of weights.bin | ..
 *
 * It is a splice (onnx/splice.h) over several files that can also pick a box out of a tensor: `runs` of equal length at
 * equal distances, nested. A column of a matrix is one segment, whatever its number of rows. Source 0 is the model's
 * own file; others are external data, by their location.
 *
 * Invariants: segments are in order and not empty; ranges lie inside their source as far as its size is known.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/ranges.h"
#include "onnx/splice.h"

struct sp_recipe;

/* Where bytes come from. `read` fills exactly `size` bytes of source `source` or returns false. */
struct sp_recipe_reader {
    bool (*read)(void *context, uint32_t source, uint64_t offset, void *bytes, size_t size);
    void *context;
};

struct sp_recipe *sp_recipe_create(void);         /* from malloc; NULL without memory */
void sp_recipe_destroy(struct sp_recipe *recipe); /* NULL is allowed */
void sp_recipe_clear(struct sp_recipe *recipe);   /* empties it, its failure included; keeps the memory and sources */

/* The number of an external file of this location (the same for the same text); 0 is the model's file. */
bool sp_recipe_source(struct sp_recipe *recipe, const char *location, uint32_t *ret_source);
uint32_t sp_recipe_source_count(const struct sp_recipe *recipe);                 /* source 0 included */
const char *sp_recipe_location(const struct sp_recipe *recipe, uint32_t source); /* "" for source 0 */

/* Append. False without memory, over a ceiling (SP_SPLICE_MAX_LITERAL, SP_MAX_RECIPE_SEGMENTS) or when sizes overflow;
   a recipe that has failed once stays failed, so that many appends can be checked once, with sp_recipe_status(). */
bool sp_recipe_add(struct sp_recipe *recipe, const void *bytes, size_t size);
bool sp_recipe_keep(struct sp_recipe *recipe, uint32_t source, uint64_t offset, uint64_t size);
/* The box of a row-major tensor at `offset` whose elements have `element_bits`, packed without gaps: rank axes of
   `dims`, of each the given ranges. Where elements are parts of bytes the runs must begin and end between bytes (the
   last byte of the tensor may be partly used): sp_recipe_box_fits(). */
bool sp_recipe_box(struct sp_recipe *recipe, uint32_t source, uint64_t offset, uint32_t rank, const int64_t *dims,
                   uint32_t element_bits, const struct sp_axis_ranges *axes);
bool sp_recipe_box_fits(uint32_t rank, const int64_t *dims, uint32_t element_bits, const struct sp_axis_ranges *axes);
/* All of another recipe, which has not failed. */
bool sp_recipe_append(struct sp_recipe *recipe, const struct sp_recipe *part);

/* SP_OK, or why an append failed: SP_ERR_MEMORY, SP_ERR_LIMIT. */
enum sp_status sp_recipe_status(const struct sp_recipe *recipe, struct sp_error *err);

uint64_t sp_recipe_size(const struct sp_recipe *recipe);

/* Sends the whole file in order, in reads and writes of at most SP_RECIPE_BUFFER bytes. SP_ERR_IO names the source
   that could not be read. */
enum sp_status sp_recipe_stream(const struct sp_recipe *recipe, const struct sp_recipe_reader *reader,
                                const struct sp_sink *sink, struct sp_error *err);

/* Up to `size` bytes at `offset`; *ret_size is 0 at the end. Quick at any offset. */
enum sp_status sp_recipe_read(const struct sp_recipe *recipe, const struct sp_recipe_reader *reader, uint64_t offset,
                              void *bytes, size_t size, size_t *ret_size, struct sp_error *err);

/* As bytes for keeping, and back; loading checks everything: a damaged one is SP_ERR_MALFORMED. */
enum sp_status sp_recipe_save(const struct sp_recipe *recipe, const struct sp_sink *sink, struct sp_error *err);
enum sp_status sp_recipe_load(const void *bytes, size_t size, struct sp_recipe **ret_recipe, struct sp_error *err);
