#pragma once
/*
 * index_sets - the indices of each axis at which a large model is evaluated.
 *
 * The set depends on the extent alone, so that axes of one extent, which operators tie to each other, have the same
 * indices. What a model makes of axes is kept in mind: where it takes an axis of 4096 apart into 32 x 128, the set of
 * 4096 is the product of the other two; where it joins or cuts axes, it is the sets of the parts one behind the other.
 * Any other extent has the first index of each of some equal parts, and the last one; behind the first of several factors
 * few indices do. Small extents have all. Of places that windows slide over, those around the borders of parts are
 * looked at, and the anchors (verify/window_steps.h) of what is looked at behind the windows: so each convolution of a
 * deep net is looked at around the borders, and none needs more places than its successor.
 *
 * A proof at some indices is one for operators that treat indices alike, but for the borders that shapes and constants
 * give; constants and integers are always whole.
 */
#include "base/array.h"
#include "base/hash_map.h"
#include "graph/model.h"
#include "verify/numbers.h"

struct sp_index_sets {
    struct sp_arena *arena;
    bool is_used;    /* else all axes have all indices */
    int64_t whole;   /* extents up to this one have all */
    uint32_t parts;  /* equal parts of an extent of which nothing is known */
    bool knows_cuts; /* what is not said to be cut is not */
    uint32_t inner;  /* indices of a factor behind the first one */
    struct sp_hash_map sets, splits;
};

/* Into how many parts axes of an extent are cut at most. */
struct sp_index_cut {
    int64_t extent;
    uint32_t parts;
};
struct sp_index_cuts {
    uint32_t count;
    const struct sp_index_cut *items;
};

/* Learns from a model whose shapes are inferred. Each of `parts` equal parts of an axis has an index at least, where they
   are not too many; where `cuts` are given, each of the parts that they say. A brief look takes few others. */
enum sp_status sp_index_sets_learn(struct sp_index_sets *sets, struct sp_model *model, uint32_t parts,
                                   const struct sp_index_cuts *cuts, bool is_brief, struct sp_error *err);

/* The set of an extent. */
enum sp_status sp_index_sets_axis(struct sp_index_sets *sets, int64_t extent, struct sp_index_axis *ret,
                                  struct sp_error *err);
