/*
 * A reshape reads both shapes from the major end and matches extents. What is left of an axis on either side waits to
 * be matched next, so an axis can be made of what others left over. Mesh axes are handed out in the order of the
 * source, so that a piece of the result is the same elements as before wherever the extents fit.
 *
 *  equal extents       the axis takes over all shards, uneven ones too
 *  extent 1            comes and goes freely; the shards of one that goes are replicated
 *  whole source axes   are multiplied up and divide whole target axes
 *  otherwise           of an even split, the shards that the target axis can hold evenly move over, major ones first
 */
#include <inttypes.h>

#include "sharding/transform_internal.h"

/* What is left to match of a source axis. */
struct left_over {
    int64_t extent;
    struct sp_axis_list axes;
};

struct walk {
    struct sp_arena *arena;
    struct sp_error *err;
    uint32_t source_count, target_count; /* on the stacks, the major axis on top */
    struct left_over source[SP_MAX_RANK];
    int64_t target[SP_MAX_RANK];
    struct sp_sharding *result;
    uint32_t placed; /* axes of the result that have been begun */
    bool is_begun;   /* the last of them is still to be completed: target's top is its remainder */
    bool is_impossible;
};

static int64_t shards_of(const struct left_over *source)
{
    return sp_axes_size(&source->axes);
}

static bool is_split_left(const struct walk *walk)
{
    for (uint32_t i = 0; i < walk->source_count; i++)
        if (shards_of(&walk->source[i]) != 1)
            return true;
    return false;
}

/* Adds mesh axes to the result's current tensor axis, or begins the next one with them. */
static enum sp_status place(struct walk *walk, const struct sp_axis_list *axes)
{
    if (!walk->is_begun)
        walk->placed++;
    walk->is_begun = false;
    struct sp_axis_list *target = &walk->result->dims[walk->placed - 1].axes, both;
    enum sp_status status = sp_axes_append(walk->arena, target, axes, &both, walk->err);
    if (status == SP_OK)
        *target = both;
    return status;
}

static enum sp_status place_nothing(struct walk *walk)
{
    return place(walk, &(struct sp_axis_list){0});
}

/* Multiplies up the whole axes on top of the source and lets them make whole axes of the target. */
static enum sp_status match_whole_axes(struct walk *walk)
{
    int64_t product = 1;
    while (walk->source_count > 0 && shards_of(&walk->source[walk->source_count - 1]) == 1)
        product *= walk->source[--walk->source_count].extent;
    enum sp_status status = SP_OK;
    while (status == SP_OK && walk->target_count > 0 && walk->target[walk->target_count - 1] > 1 &&
           product % walk->target[walk->target_count - 1] == 0) {
        product /= walk->target[--walk->target_count];
        status = place_nothing(walk);
    }
    if (status == SP_OK && product != 1)
        walk->source[walk->source_count++] = (struct left_over){.extent = product};
    return status;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The most shards that divide `limit` and can be cut off the major end of the list. */
static int64_t major_shards(const struct sp_axis_list *axes, int64_t limit)
{
    int64_t shards = 1;
    for (uint32_t i = 0; i < axes->count; i++) {
        int64_t part = gcd(axes->refs[i].size, limit / shards);
        shards *= part;
        if (part != axes->refs[i].size)
            break;
    }
    return shards;
}

/* Moves shards that both sides can hold evenly; *ret_done is true when there are none. */
static enum sp_status move_common(struct walk *walk, struct left_over source, int64_t target, bool *ret_done)
{
    int64_t shards = major_shards(&source.axes, gcd(shards_of(&source), target));
    if (shards == 1) {
        *ret_done = true;
        return SP_OK;
    }
    bool ok;
    struct sp_axis_list major, rest;
    enum sp_status status = sp_axes_slice(walk->arena, &source.axes, shards, &ok, &major, &rest, walk->err);
    if (status == SP_OK)
        status = place(walk, &major);
    if (status != SP_OK)
        return status;
    walk->is_begun = true;
    walk->source[walk->source_count++] = (struct left_over){.extent = source.extent / shards, .axes = rest};
    walk->target[walk->target_count++] = target / shards;
    return SP_OK;
}

/* Matches the tops of the two stacks; *ret_done is true when nothing more can be matched. */
static enum sp_status match_one(struct walk *walk, bool *ret_done)
{
    struct left_over source = walk->source[--walk->source_count];
    int64_t target = walk->target[--walk->target_count], shards = shards_of(&source);
    if (source.extent == target) {
        /* Uneven shards may only take over an axis as it is, not what is left of one. */
        if (!walk->is_begun || target % shards == 0)
            return place(walk, &source.axes);
        bool ok;
        struct sp_axis_list major, rest;
        enum sp_status status = sp_axes_slice(
            walk->arena, &source.axes, major_shards(&source.axes, gcd(shards, target)), &ok, &major, &rest, walk->err);
        return status == SP_OK ? place(walk, &major) : status;
    }
    if (target == 1) {
        walk->source[walk->source_count++] = source;
        return place_nothing(walk);
    }
    if (source.extent == 1) {
        walk->target[walk->target_count++] = target;
        return SP_OK;
    }
    if (shards == 1) {
        if (walk->source_count > 0 && shards_of(&walk->source[walk->source_count - 1]) == 1)
            walk->source[walk->source_count - 1].extent *= source.extent;
        else
            *ret_done = true;
        return SP_OK;
    }
    if (source.extent % shards != 0) {
        walk->is_impossible = *ret_done = true;
        return SP_OK;
    }
    return move_common(walk, source, target, ret_done);
}

/* The strict form: *ret is NULL when an uneven split would have to be cut, or when no split survives. */
static enum sp_status reshape_strictly(struct sp_arena *arena, const struct sp_sharding *sharding,
                                       const int64_t *from_shape, uint32_t to_rank, const int64_t *to_shape,
                                       struct sp_sharding **ret, struct sp_error *err)
{
    struct walk walk = {.arena = arena, .err = err, .source_count = sharding->rank, .target_count = to_rank};
    enum sp_status status = sp_transform_frame(arena, sharding, to_rank, &walk.result, err);
    for (uint32_t i = 0; i < sharding->rank; i++)
        walk.source[sharding->rank - 1 - i] =
            (struct left_over){.extent = from_shape[i], .axes = sharding->dims[i].axes};
    for (uint32_t i = 0; i < to_rank; i++)
        walk.target[to_rank - 1 - i] = to_shape[i];
    bool done = false;
    while (status == SP_OK && !done && walk.target_count > 0 && is_split_left(&walk)) {
        status = match_whole_axes(&walk);
        if (status == SP_OK && walk.source_count > 0 && walk.target_count > 0)
            status = match_one(&walk, &done);
    }
    if (status != SP_OK)
        return status;
    bool is_split = false;
    for (uint32_t i = 0; i < to_rank; i++)
        is_split = is_split || sp_axes_size(&walk.result->dims[i].axes) != 1;
    *ret = is_split && !walk.is_impossible ? walk.result : NULL;
    return SP_OK;
}

/* Takes over what a run of source axes gave; false when it splits an axis that another run has split. */
static bool take_over(struct sp_sharding *result, const struct sp_sharding *part)
{
    for (uint32_t i = 0; i < result->rank; i++)
        if (result->dims[i].axes.count > 0 && part->dims[i].axes.count > 0)
            return false;
    for (uint32_t i = 0; i < result->rank; i++)
        if (part->dims[i].axes.count > 0)
            result->dims[i].axes = part->dims[i].axes;
    return true;
}

/* The longest runs of source axes that can be reshaped each on its own, from the major end on. */
static enum sp_status reshape_in_runs(struct sp_arena *arena, const struct sp_sharding *sharding,
                                      const int64_t *from_shape, uint32_t to_rank, const int64_t *to_shape,
                                      struct sp_sharding **ret, struct sp_error *err)
{
    struct sp_sharding *result, *run, *part;
    enum sp_status status = sp_transform_frame(arena, sharding, to_rank, &result, err);
    for (uint32_t start = 0; status == SP_OK && start < sharding->rank;) {
        uint32_t end = sharding->rank;
        for (; status == SP_OK && end > start; end--) {
            if ((status = sp_transform_frame(arena, sharding, sharding->rank, &run, err)) != SP_OK)
                break;
            for (uint32_t i = start; i < end; i++)
                run->dims[i].axes = sharding->dims[i].axes;
            status = reshape_strictly(arena, run, from_shape, to_rank, to_shape, &part, err);
            if (status == SP_OK && part && take_over(result, part))
                break;
        }
        start = end > start ? end : start + 1;
    }
    if (status == SP_OK)
        *ret = result;
    return status;
}

/* Extents are known and not negative, their product is a number; *ret_elements is it. */
static enum sp_status check_shape(uint32_t rank, const int64_t *shape, int64_t *ret_elements, struct sp_error *err)
{
    int64_t elements = 1, without_zeroes = 1;
    if (rank > SP_MAX_RANK)
        return sp_fail_limit(err, "TOO_MANY_AXES", "SP_MAX_RANK", SP_MAX_RANK, rank,
                             "A shape of %" PRIu32 " axes is given, and at most %d are allowed.", rank, SP_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return sp_fail(err, SP_ERR_REQUEST, "EXTENT_UNKNOWN",
                           "The extent of axis %" PRIu32 " must be known to reshape a sharding.", i);
        if (!sp_mul_i64(without_zeroes, shape[i] == 0 ? 1 : shape[i], &without_zeroes))
            return sp_fail(err, SP_ERR_REQUEST, "SHAPE_TOO_LARGE",
                           "A shape has more elements than a 64-bit integer can count.");
        elements = shape[i] == 0 ? 0 : elements;
    }
    *ret_elements = elements * without_zeroes;
    return SP_OK;
}

enum sp_status sp_sharding_reshape(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t from_rank,
                                   const int64_t *from_shape, uint32_t to_rank, const int64_t *to_shape,
                                   bool best_effort, struct sp_sharding **ret, struct sp_error *err)
{
    bool done;
    int64_t before = 0, after = 0;
    enum sp_status status = check_shape(from_rank, from_shape, &before, err);
    if (status == SP_OK)
        status = check_shape(to_rank, to_shape, &after, err);
    if (status != SP_OK)
        return status;
    if (before != after)
        return sp_fail(err, SP_ERR_REQUEST, "RESHAPE_SIZE",
                       "A tensor of %" PRId64 " elements cannot be reshaped to one of %" PRId64 ".", before, after);
    status = sp_transform_begin(arena, sharding, &done, ret, err);
    if (status != SP_OK || done)
        return status;
    if ((status = sp_sharding_check_rank(sharding, from_rank, err)) != SP_OK)
        return status;
    bool is_split = false;
    for (uint32_t i = 0; i < from_rank; i++)
        is_split = is_split || sp_axes_size(&sharding->dims[i].axes) != 1;
    if (!is_split)
        return sp_transform_frame(arena, sharding, to_rank, ret, err);
    return best_effort ? reshape_in_runs(arena, sharding, from_shape, to_rank, to_shape, ret, err)
                       : reshape_strictly(arena, sharding, from_shape, to_rank, to_shape, ret, err);
}
