#pragma once
/*
 * places - what lowerings share that deal with places along an axis: indices into a part of it, lists of
 * extents of which some change, parts that are several ranges.
 *
 * Like all of ops/lowering/lowering.h these take NULL after an error and return NULL then.
 */
#include "ops/lowering/lowering.h"

/* sp_lower_whole() of the first factor that is split, for what does not depend on one factor. */
__attribute__((format(printf, 2, 3))) void sp_lower_any_whole(struct sp_lowering *lower, const char *format, ...);

/* The extents of an operand's part, -1 where not known, in the memory of the node; `rank` of them. */
int64_t *sp_lower_sizes(struct sp_lowering *lower, const struct sp_lower_operand *operand);

/* The `count` integers of an input (extents, repeats, bounds), with values[i] in place of those with is_set[i]: a
   constant where all are known, and computed where not. int64. */
struct sp_piece *sp_lower_patched(struct sp_lowering *lower, uint32_t input, uint32_t count, const bool *is_set,
                                  const int64_t *values);

/* The indices of a split factor that this device has, in order: int64 [size]. */
struct sp_piece *sp_lower_indices(struct sp_lowering *lower, uint8_t factor, const struct sp_axis_ranges *ranges);

/*
 * Indices along the whole of a split factor, of any integer type and negative where they count from the back, as
 * indices into this device's part (int64). *ret_is_here (bool) says which of them are in it; the others may be
 * anything.
 */
struct sp_piece *sp_lower_locate(struct sp_lowering *lower, uint8_t factor, struct sp_piece *indices,
                                 struct sp_piece **ret_is_here);

/*
 * The indices of an axis (of `extent`) that a list names, as ranges to ask for, and where each of the list is in these:
 * `ret_places` has `count` entries. Entries of the list that are negative name nothing and get place 0; where all are,
 * index 0 is asked for. False, and the factor whole, where the axis is too long for lists.
 */
bool sp_lower_needed(struct sp_lowering *lower, uint8_t factor, int64_t extent, int64_t count, const int64_t *list,
                     struct sp_axis_ranges *ret_ranges, int64_t *ret_places);

/* Whether a list of so many indices may be made; if not the factor is made whole. */
bool sp_lower_may_list(struct sp_lowering *lower, uint8_t factor, int64_t count);

/* x where the mask is true, else 0 (false, ..): a summand that leaves what others have. */
struct sp_piece *sp_lower_masked(struct sp_lowering *lower, struct sp_piece *mask, struct sp_piece *x);

/* `count` new axes of 1 behind the last one of a piece of this rank. */
struct sp_piece *sp_lower_widen(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, uint32_t count);
