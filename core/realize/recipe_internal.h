#pragma once
/*
 * recipe_internal - what a recipe is made of; private to recipe*.c.
 *
 * A box is kept as nested axes, the innermost first, in bytes: axis 0 selects bytes of a row, axis 1 rows at a distance
 * of `stride`, and so on. Axes of which everything is taken, and those of which one index is taken, are folded into
 * their neighbours, so a box that is one run of bytes is a RANGE, and most others have two axes.
 *
 *   w[4096, 4096] of float16, columns 512..1023
 *     axis 0: dim 8192, range 1024..2047          axis 1: dim 4096, stride 8192, range 0..4095
 */
#include "base/array.h"
#include "base/buf.h"
#include "base/intern.h"
#include "base/limits.h"
#include "realize/recipe.h"

#define SP_BOX_MAX_AXES SP_MAX_RANK

enum sp_segment_kind { SP_SEGMENT_LITERAL, SP_SEGMENT_RANGE, SP_SEGMENT_BOX };

struct sp_segment {
    uint64_t at, size; /* in the result */
    uint64_t offset;   /* in the literals or the source */
    uint32_t source;
    uint32_t axis; /* BOX: the first of its axes */
    uint16_t axis_count;
    uint16_t kind; /* enum sp_segment_kind */
};

struct sp_box_axis {
    uint64_t dim, selected, stride; /* indices there are, indices that are taken, bytes between two */
    uint32_t first_range, range_count;
};

struct sp_box_range {
    uint64_t start, limit;
    uint64_t before; /* indices taken in the ranges before */
};

struct sp_recipe {
    uint64_t size;
    struct sp_segment *segments;
    struct sp_box_axis *axes;
    struct sp_box_range *ranges;
    struct sp_arena *arena;      /* NULL until there is a location, */
    struct sp_intern *locations; /* of sources 1.. */
    uint32_t segment_count, segment_capacity, axis_count, axis_capacity, range_count, range_capacity;
    struct sp_buf literals;
    enum sp_status failed;
    const char *limit; /* of base/limits.h, where one was passed */
    int64_t limit_value;
};

/* Records the failure; returns false. */
bool sp_recipe_failed(struct sp_recipe *recipe, enum sp_status status, const char *limit, int64_t limit_value);

/* Room for one more item below SP_MAX_RECIPE_SEGMENTS; false and a recorded failure otherwise. */
#define SP_RECIPE_ROOM(recipe, items, count, capacity)                                                                 \
    ((count) < SP_MAX_RECIPE_SEGMENTS                                                                                  \
         ? SP_MAKE_ROOM(NULL, (items), (count), (capacity), 1) || sp_recipe_failed((recipe), SP_ERR_MEMORY, NULL, 0)   \
         : sp_recipe_failed((recipe), SP_ERR_LIMIT, "SP_MAX_RECIPE_SEGMENTS", SP_MAX_RECIPE_SEGMENTS))

/* A new segment behind the others, merged with the last where they touch. */
bool sp_recipe_push(struct sp_recipe *recipe, struct sp_segment segment);

/* recipe_box.c: bytes [skip, skip + size) of what a BOX segment selects. */
struct sp_window;
bool sp_recipe_read_box(const struct sp_recipe *recipe, const struct sp_segment *segment,
                        const struct sp_recipe_reader *reader, uint64_t skip, unsigned char *bytes, size_t size);
