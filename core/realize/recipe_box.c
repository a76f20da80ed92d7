#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "realize/recipe_internal.h"

/* ---- making a box ----------------------------------------------------------------------------------------------- */

/* The axis that is being folded: its ranges are the last of the recipe's. */
struct fold {
    struct sp_recipe *recipe;
    uint64_t dim;
    uint32_t first;
};

static bool is_whole(const struct fold *fold)
{
    const struct sp_box_range *range = &fold->recipe->ranges[fold->first];
    return fold->recipe->range_count == fold->first + 1 && range->start == 0 && range->limit == fold->dim;
}

static bool add_range(struct fold *fold, uint64_t start, uint64_t limit)
{
    struct sp_recipe *recipe = fold->recipe;
    if (recipe->range_count > fold->first && recipe->ranges[recipe->range_count - 1].limit == start) {
        recipe->ranges[recipe->range_count - 1].limit = limit;
        return true;
    }
    if (!SP_RECIPE_ROOM(recipe, recipe->ranges, recipe->range_count, recipe->range_capacity))
        return false;
    recipe->ranges[recipe->range_count++] = (struct sp_box_range){start, limit, 0};
    return true;
}

/* The current axis is done: what follows is outside of it. */
static bool finish_axis(struct fold *fold)
{
    struct sp_recipe *recipe = fold->recipe;
    struct sp_box_axis axis = {
        .dim = fold->dim, .first_range = fold->first, .range_count = recipe->range_count - fold->first};
    for (uint32_t i = fold->first; i < recipe->range_count; i++) {
        recipe->ranges[i].before = axis.selected;
        axis.selected += recipe->ranges[i].limit - recipe->ranges[i].start;
    }
    if (!SP_RECIPE_ROOM(recipe, recipe->axes, recipe->axis_count, recipe->axis_capacity))
        return false;
    recipe->axes[recipe->axis_count++] = axis;
    fold->first = recipe->range_count;
    return true;
}

/* Takes one more axis, outside of what is there. The product of all dims was checked. */
static bool fold_axis(struct fold *fold, uint64_t dim, const struct sp_axis_ranges *axis)
{
    struct sp_recipe *recipe = fold->recipe;
    const struct sp_range *ranges = axis->ranges;
    if (!is_whole(fold) && axis->count == 1 && ranges[0].limit - ranges[0].start == 1) {
        for (uint32_t i = fold->first; i < recipe->range_count; i++) {
            recipe->ranges[i].start += (uint64_t)ranges[0].start * fold->dim;
            recipe->ranges[i].limit += (uint64_t)ranges[0].start * fold->dim;
        }
        fold->dim *= dim;
        return true;
    }
    uint64_t unit = 1;
    if (is_whole(fold)) {
        unit = fold->dim;
        recipe->range_count = fold->first;
    } else if (!finish_axis(fold)) {
        return false;
    }
    fold->dim = dim * unit;
    for (uint32_t i = 0; i < axis->count; i++) {
        if (!add_range(fold, (uint64_t)ranges[i].start * unit, (uint64_t)ranges[i].limit * unit))
            return false;
    }
    return true;
}

/* The innermost axis was folded in bits; strides follow from the dims. */
static bool fold_bytes(struct sp_recipe *recipe, uint32_t first_axis)
{
    struct sp_box_axis *inner = &recipe->axes[first_axis];
    const bool is_only = recipe->axis_count == first_axis + 1;
    uint64_t selected = 0;
    if (inner->dim % 8 != 0 && !is_only)
        return false;
    for (uint32_t i = 0; i < inner->range_count; i++) {
        struct sp_box_range *range = &recipe->ranges[inner->first_range + i];
        if (range->start % 8 != 0 || (range->limit % 8 != 0 && range->limit != inner->dim))
            return false;
        range->start /= 8;
        range->limit = (range->limit + 7) / 8;
        range->before = selected;
        selected += range->limit - range->start;
    }
    inner->dim = (inner->dim + 7) / 8;
    inner->selected = selected;
    inner->stride = 1;
    for (uint32_t i = first_axis + 1; i < recipe->axis_count; i++)
        recipe->axes[i].stride = recipe->axes[i - 1].stride * recipe->axes[i - 1].dim;
    return true;
}

/* Ranges ascending and inside, dims whose product (in bits) is small enough. *ret_empty: nothing is taken. */
static bool is_sound(uint32_t rank, const int64_t *dims, uint32_t element_bits, const struct sp_axis_ranges *axes,
                     bool *ret_empty)
{
    uint64_t bits = element_bits;
    *ret_empty = false;
    if (rank > SP_MAX_RANK || element_bits == 0)
        return false;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t at = 0;
        for (uint32_t k = 0; k < axes[i].count; k++) {
            const struct sp_range *range = &axes[i].ranges[k];
            if (range->start < at || range->limit <= range->start || range->limit > dims[i])
                return false;
            at = range->limit;
        }
        *ret_empty = *ret_empty || axes[i].count == 0;
        if (dims[i] < 0 || (dims[i] > 0 && bits > (uint64_t)INT64_MAX / (uint64_t)dims[i]))
            return false;
        bits *= dims[i] > 0 ? (uint64_t)dims[i] : 1;
    }
    return true;
}

bool sp_recipe_box(struct sp_recipe *recipe, uint32_t source, uint64_t offset, uint32_t rank, const int64_t *dims,
                   uint32_t element_bits, const struct sp_axis_ranges *axes)
{
    const uint32_t first_axis = recipe->axis_count, first_range = recipe->range_count;
    struct fold fold = {recipe, element_bits, first_range};
    bool is_empty;
    if (recipe->failed != SP_OK)
        return false;
    if (source >= sp_recipe_source_count(recipe) || offset > INT64_MAX ||
        !is_sound(rank, dims, element_bits, axes, &is_empty))
        return sp_recipe_failed(recipe, SP_ERR_MODEL, NULL, 0);
    if (is_empty)
        return true;
    bool ok = add_range(&fold, 0, element_bits);
    for (uint32_t i = rank; ok && i-- > 0;)
        ok = fold_axis(&fold, (uint64_t)dims[i], &axes[i]);
    if (!ok || !finish_axis(&fold))
        return false;
    if (!fold_bytes(recipe, first_axis))
        return sp_recipe_failed(recipe, SP_ERR_MODEL, NULL, 0);
    struct sp_segment segment = {.kind = SP_SEGMENT_BOX, .source = source, .offset = offset, .size = 1};
    segment.axis = first_axis;
    segment.axis_count = (uint16_t)(recipe->axis_count - first_axis);
    for (uint32_t i = first_axis; i < recipe->axis_count; i++)
        segment.size *= recipe->axes[i].selected;
    const struct sp_box_axis *outer = &recipe->axes[recipe->axis_count - 1];
    if (outer->dim * outer->stride > (uint64_t)INT64_MAX - offset)
        return sp_recipe_failed(recipe, SP_ERR_MODEL, NULL, 0);
    if (segment.axis_count == 1 && outer->range_count == 1) {
        segment.kind = SP_SEGMENT_RANGE;
        segment.offset += recipe->ranges[first_range].start;
        segment.axis = segment.axis_count = 0;
        recipe->axis_count = first_axis;
        recipe->range_count = first_range;
    }
    return sp_recipe_push(recipe, segment);
}

bool sp_recipe_box_fits(uint32_t rank, const int64_t *dims, uint32_t element_bits, const struct sp_axis_ranges *axes)
{
    uint64_t inner = element_bits;
    bool is_empty, is_first = true;
    if (!is_sound(rank, dims, element_bits, axes, &is_empty))
        return false;
    if (element_bits % 8 == 0 || is_empty)
        return true;
    uint32_t cut = rank; /* the innermost axis that is cut */
    while (cut > 0 && axes[cut - 1].count == 1 && axes[cut - 1].ranges[0].start == 0 &&
           axes[cut - 1].ranges[0].limit == dims[cut - 1])
        inner *= (uint64_t)dims[--cut];
    if (cut == 0)
        return true;
    const struct sp_axis_ranges *axis = &axes[cut - 1];
    for (uint32_t i = 0; i + 1 < cut; i++)
        is_first = is_first && dims[i] == 1;
    for (uint32_t k = 0; k < axis->count; k++) {
        const bool is_end = is_first && axis->ranges[k].limit == dims[cut - 1];
        if ((uint64_t)axis->ranges[k].start * inner % 8 != 0 ||
            (!is_end && (uint64_t)axis->ranges[k].limit * inner % 8 != 0))
            return false;
    }
    return is_first || (uint64_t)dims[cut - 1] * inner % 8 == 0;
}

/* ---- reading one ------------------------------------------------------------------------------------------------ */

/*
 * Runs of a few bytes that lie close together are not worth a read each: the stretch around them is read at once, and
 * they are picked out of it. Where runs are further apart than a page, reading what lies between costs more than it
 * saves.
 */
#define WINDOW_BYTES ((size_t)64 << 10)
#define SHORT_RUN    512
#define CLOSE_RUNS   4096

struct place {
    uint32_t range; /* of the axis */
    uint64_t index;
};

struct walk {
    const struct sp_recipe *recipe;
    const struct sp_segment *segment;
    const struct sp_box_axis *axes;
    const struct sp_recipe_reader *reader;
    struct place places[SP_BOX_MAX_AXES + 1];
    uint64_t base; /* of the row: the sum of the outer axes */
    /* The window; NULL where runs are read as they are. */
    unsigned char *window;
    uint32_t stretch; /* the axis whose ranges windows stay inside */
    uint64_t window_at;
    size_t window_size;
};

static const struct sp_box_range *ranges_of(const struct walk *walk, uint32_t axis)
{
    return &walk->recipe->ranges[walk->axes[axis].first_range];
}

/* The place of the `number`th index that the axis takes. */
static struct place find_place(const struct walk *walk, uint32_t axis, uint64_t number)
{
    const struct sp_box_range *ranges = ranges_of(walk, axis);
    uint32_t after;
    SP_LOWER_BOUND(after, walk->axes[axis].range_count, ranges[after].before <= number);
    const struct sp_box_range *range = &ranges[after - 1];
    return (struct place){after - 1, range->start + (number - range->before)};
}

static void start_walk(struct walk *walk, uint64_t skip)
{
    for (uint32_t i = 0; i < walk->segment->axis_count; i++) {
        walk->places[i] = find_place(walk, i, skip % walk->axes[i].selected);
        skip /= walk->axes[i].selected;
        if (i > 0)
            walk->base += walk->places[i].index * walk->axes[i].stride;
    }
}

/* Behind the end of a row: the first byte of the next. */
static void next_row(struct walk *walk)
{
    walk->places[0] = (struct place){0, ranges_of(walk, 0)->start};
    for (uint32_t i = 1; i < walk->segment->axis_count; i++) {
        struct place *place = &walk->places[i];
        const struct sp_box_range *ranges = ranges_of(walk, i);
        const uint64_t before = place->index;
        bool is_over = false;
        if (place->index + 1 < ranges[place->range].limit) {
            place->index++;
        } else {
            is_over = place->range + 1 == walk->axes[i].range_count;
            place->range = is_over ? 0 : place->range + 1;
            place->index = ranges[place->range].start;
        }
        walk->base = walk->base - before * walk->axes[i].stride + place->index * walk->axes[i].stride;
        if (!is_over)
            return;
    }
}

/* Where what the stretch's axis takes in one go ends. */
static uint64_t stretch_end(const struct walk *walk)
{
    const uint32_t axis = walk->stretch;
    uint64_t end = walk->segment->offset;
    for (uint32_t i = axis + 1; i < walk->segment->axis_count; i++)
        end += walk->places[i].index * walk->axes[i].stride;
    return end + ranges_of(walk, axis)[walk->places[axis].range].limit * walk->axes[axis].stride;
}

static bool fetch(struct walk *walk, uint64_t at, unsigned char *bytes, size_t size)
{
    const uint32_t source = walk->segment->source;
    if (walk->window == NULL || size >= WINDOW_BYTES)
        return walk->reader->read(walk->reader->context, source, at, bytes, size);
    if (at < walk->window_at || at + size > walk->window_at + walk->window_size) {
        const uint64_t end = stretch_end(walk);
        const size_t stretch = end - at < WINDOW_BYTES ? (size_t)(end - at) : WINDOW_BYTES;
        walk->window_size = 0;
        if (!walk->reader->read(walk->reader->context, source, at, walk->window, stretch))
            return false;
        walk->window_at = at;
        walk->window_size = stretch;
    }
    memcpy(bytes, walk->window + (at - walk->window_at), size);
    return true;
}

static bool wants_window(const struct walk *walk, size_t size)
{
    const struct sp_box_axis *row = &walk->axes[0];
    return size > row->selected / row->range_count && row->selected / row->range_count < SHORT_RUN &&
           row->dim / row->range_count <= CLOSE_RUNS;
}

bool sp_recipe_read_box(const struct sp_recipe *recipe, const struct sp_segment *segment,
                        const struct sp_recipe_reader *reader, uint64_t skip, unsigned char *bytes, size_t size)
{
    struct walk walk = {recipe, segment, &recipe->axes[segment->axis], reader, .window = NULL};
    bool ok = true;
    start_walk(&walk, skip);
    if (wants_window(&walk, size)) {
        walk.window = malloc(WINDOW_BYTES); /* without memory runs are read one by one */
        while (walk.stretch + 1U < segment->axis_count &&
               walk.axes[walk.stretch].dim * walk.axes[walk.stretch].stride < WINDOW_BYTES)
            walk.stretch++;
    }
    while (ok && size > 0) {
        struct place *place = &walk.places[0];
        const struct sp_box_range *ranges = ranges_of(&walk, 0);
        const uint64_t left = ranges[place->range].limit - place->index;
        const size_t run = left < size ? (size_t)left : size;
        ok = fetch(&walk, segment->offset + walk.base + place->index, bytes, run);
        bytes += run;
        size -= run;
        if (size == 0)
            break;
        if (place->range + 1 < walk.axes[0].range_count) {
            place->range++;
            place->index = ranges[place->range].start;
        } else {
            next_row(&walk);
        }
    }
    free(walk.window);
    return ok;
}
