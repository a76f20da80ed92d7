#pragma once
/*
 * index_sets - the indices of each axis at which a large model is evaluated.
 *
 * The set depends on the extent alone, so that axes of one extent, which operators tie to each other, have the same
 * indices. What a model makes of axes is kept in mind: where it takes an axis of 4096 apart into 32 x 128, the set of
 * 4096 is the product of the other two; where it joins or cuts axes, it is the sets of the parts one behind the other.
 * Any other extent has the first index of each of some equal parts, and the last one; behind the first of several factors
 * three indices do. Small extents, and places that
 * windows slide over, have all.
 *
 * A proof at some indices is one for operators that treat indices alike, but for the borders that shapes and constants
 * give; constants and integers are always whole.
 */
#include "base/array.h"
#include "base/hash_map.h"
#include "graph/model.h"
#include "verify/numbers.h"

#define SP_WHOLE_EXTENT 16 /* evaluated at all indices */

struct sp_index_sets {
    struct sp_arena *arena;
    bool is_used;   /* else all axes have all indices */
    uint32_t parts; /* equal parts of an extent of which nothing is known */
    struct sp_hash_map sets, splits;
};

/* Learns from a model whose shapes are inferred; `ranks` have at least an index each, where there are few of them. */
enum sp_status sp_index_sets_learn(struct sp_index_sets *sets, const struct sp_model *model, uint32_t ranks,
                                   struct sp_error *err);

/* The set of an extent. */
enum sp_status sp_index_sets_axis(struct sp_index_sets *sets, int64_t extent, struct sp_index_axis *ret,
                                  struct sp_error *err);
