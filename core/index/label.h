#pragma once
/*
 * label - names as they are shown: no longer than can be read.
 *
 * Names come from strangers, and one may have thousands of bytes. A name that a client hands back or looks up stays as
 * it is; one that is only read is cut, so that an answer of so many boxes or slices has a size that is known.
 */
#include "base/arena.h"
#include "base/json_writer.h"
#include "index/index.h"

#define SP_INDEX_MOST_LABEL 120 /* characters of what is only read */

/* Room for a label of so many characters. */
#define SP_INDEX_LABEL_SIZE(characters) (4 * (characters) + 1)

/* Writes `size` bytes of UTF-8 as a text of at most `most` characters, the last of which is an ellipsis where some are
   left out; `ret` has SP_INDEX_LABEL_SIZE(most) bytes. Returns `ret`. */
const char *sp_index_label(const char *text, size_t size, uint32_t most, char *ret);

/* The same in `arena`, `most` at most SP_INDEX_MOST_LABEL; NULL without memory. */
const char *sp_index_label_new(struct sp_arena *arena, const char *text, size_t size, uint32_t most);

/* Writes the member "device_list": so many devices from `first` on as people number them, "0-3, 8". */
void sp_index_list_devices(const struct sp_index *index, uint32_t first, uint32_t count, struct sp_json *json);
