#pragma once
/*
 * scan - the text of a plan's JSON, read once while it goes by.
 *
 * It finds where the entries of "tensors", "collectives" and "diagnostics" stand, and keeps what does not grow with the
 * model: all other members as they stand there, except "outline" and "moves", and of stages and devices the number of their nodes
 * ("node_count") in place of their names ("nodes").
 *
 * It reads the form that plans have, not any JSON: what it cannot make sense of shows in sp_index_scan_is_whole(), or
 * in a number of entries that is not that of the plan. Memory is that of what it keeps.
 */
#include <stdbool.h>

#include "base/arena.h"
#include "index/index.h"

struct sp_index_scan;

enum sp_index_list { SP_INDEX_LIST_TENSORS, SP_INDEX_LIST_COLLECTIVES, SP_INDEX_LIST_DIAGNOSTICS, SP_INDEX_LISTS };

/* Lives in `arena`, as all that it keeps; NULL without memory. */
struct sp_index_scan *sp_index_scan_create(struct sp_arena *arena);

/* The next bytes of the text. Want of memory is remembered. */
void sp_index_scan_take(struct sp_index_scan *scan, const char *bytes, size_t size);

/* Whether one whole object went by, and there was memory for what it has. */
bool sp_index_scan_is_whole(const struct sp_index_scan *scan);
bool sp_index_scan_lacks_memory(const struct sp_index_scan *scan);

/* The bytes that went by. */
uint64_t sp_index_scan_size(const struct sp_index_scan *scan);

/* The entries of a list, in order; gone with the arena. */
const struct sp_index_row *sp_index_scan_rows(const struct sp_index_scan *scan, enum sp_index_list list,
                                              uint32_t *ret_count);

/* The members that are kept, with commas between them and no braces; and those of the member "estimate" among them,
   size 0 where there is none. */
const char *sp_index_scan_members(const struct sp_index_scan *scan, size_t *ret_size);
const char *sp_index_scan_estimate(const struct sp_index_scan *scan, size_t *ret_size);
