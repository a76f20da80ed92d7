#include "realize/recipe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "realize/recipe_internal.h"

struct sp_recipe *sp_recipe_create(void)
{
    struct sp_recipe *recipe = calloc(1, sizeof *recipe);
    if (recipe != NULL)
        sp_buf_init(&recipe->literals, SP_SPLICE_MAX_LITERAL);
    return recipe;
}

void sp_recipe_destroy(struct sp_recipe *recipe)
{
    if (recipe == NULL)
        return;
    for (uint32_t i = 0; i < recipe->location_count; i++)
        free(recipe->locations[i]);
    free((void *)recipe->locations);
    free(recipe->slots);
    free(recipe->segments);
    free(recipe->axes);
    free(recipe->ranges);
    sp_buf_release(&recipe->literals);
    free(recipe);
}

void sp_recipe_clear(struct sp_recipe *recipe)
{
    recipe->size = 0;
    recipe->segment_count = recipe->axis_count = recipe->range_count = 0;
    sp_buf_clear(&recipe->literals);
    recipe->failed = SP_OK;
}

/* ---- failures --------------------------------------------------------------------------------------------------- */

bool sp_recipe_failed(struct sp_recipe *recipe, enum sp_status status, const char *limit, int64_t limit_value)
{
    if (recipe->failed == SP_OK) {
        recipe->failed = status;
        recipe->limit = limit;
        recipe->limit_value = limit_value;
    }
    return false;
}

enum sp_status sp_recipe_status(const struct sp_recipe *recipe, struct sp_error *err)
{
    if (recipe->failed == SP_OK)
        return SP_OK;
    if (recipe->failed == SP_ERR_MEMORY)
        return sp_fail_memory(err);
    if (recipe->failed == SP_ERR_LIMIT)
        return sp_fail_limit(err, "FILE_TOO_COMPLEX", recipe->limit, recipe->limit_value, recipe->limit_value,
                             "The written file would have more parts than are allowed (limit %s).", recipe->limit);
    return sp_fail(err, recipe->failed, "BAD_RANGE", "A part of a tensor does not lie inside it.");
}

/* ---- sources ---------------------------------------------------------------------------------------------------- */

/* The slot of this location, or the free one where it would be. */
static uint32_t find_slot(const struct sp_recipe *recipe, const char *location)
{
    uint32_t at = (uint32_t)XXH3_64bits(location, strlen(location)) & (recipe->slot_count - 1);
    while (recipe->slots[at] != 0 && strcmp(recipe->locations[recipe->slots[at] - 1], location) != 0)
        at = (at + 1) & (recipe->slot_count - 1);
    return at;
}

static bool grow_slots(struct sp_recipe *recipe)
{
    if (recipe->location_count * 2 < recipe->slot_count)
        return true;
    const uint32_t count = recipe->slot_count == 0 ? 16 : recipe->slot_count * 2;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (slots == NULL)
        return sp_recipe_failed(recipe, SP_ERR_MEMORY, NULL, 0);
    free(recipe->slots);
    recipe->slots = slots;
    recipe->slot_count = count;
    for (uint32_t i = 0; i < recipe->location_count; i++)
        slots[find_slot(recipe, recipe->locations[i])] = i + 1;
    return true;
}

bool sp_recipe_source(struct sp_recipe *recipe, const char *location, uint32_t *ret_source)
{
    if (!grow_slots(recipe))
        return false;
    const uint32_t slot = find_slot(recipe, location);
    if (recipe->slots[slot] != 0) {
        *ret_source = recipe->slots[slot];
        return true;
    }
    if (recipe->location_count >= SP_MAX_RECIPE_SOURCES)
        return sp_recipe_failed(recipe, SP_ERR_LIMIT, "SP_MAX_RECIPE_SOURCES", SP_MAX_RECIPE_SOURCES);
    if (!SP_RECIPE_ROOM(recipe, recipe->locations, recipe->location_count, recipe->location_capacity))
        return false;
    const size_t size = strlen(location) + 1;
    char *copy = malloc(size);
    if (copy == NULL)
        return sp_recipe_failed(recipe, SP_ERR_MEMORY, NULL, 0);
    memcpy(copy, location, size);
    recipe->locations[recipe->location_count++] = copy;
    *ret_source = recipe->slots[slot] = recipe->location_count;
    return true;
}

uint32_t sp_recipe_source_count(const struct sp_recipe *recipe)
{
    return recipe->location_count + 1;
}

const char *sp_recipe_location(const struct sp_recipe *recipe, uint32_t source)
{
    assert(source <= recipe->location_count);
    return source == 0 ? "" : recipe->locations[source - 1];
}

/* ---- appending -------------------------------------------------------------------------------------------------- */

bool sp_recipe_push(struct sp_recipe *recipe, struct sp_segment segment)
{
    struct sp_segment *last = recipe->segment_count == 0 ? NULL : &recipe->segments[recipe->segment_count - 1];
    if (recipe->failed != SP_OK)
        return false;
    if (segment.size > (uint64_t)INT64_MAX - recipe->size)
        return sp_recipe_failed(recipe, SP_ERR_MODEL, NULL, 0);
    if (last != NULL && segment.kind != SP_SEGMENT_BOX && last->kind == segment.kind &&
        last->source == segment.source && last->offset + last->size == segment.offset) {
        last->size += segment.size;
    } else {
        if (!SP_RECIPE_ROOM(recipe, recipe->segments, recipe->segment_count, recipe->segment_capacity))
            return false;
        segment.at = recipe->size;
        assert(recipe->segments != NULL);
        recipe->segments[recipe->segment_count++] = segment;
    }
    recipe->size += segment.size;
    return true;
}

bool sp_recipe_add(struct sp_recipe *recipe, const void *bytes, size_t size)
{
    const uint64_t offset = recipe->literals.size;
    if (recipe->failed != SP_OK)
        return false;
    if (size == 0)
        return true;
    if (size > SP_SPLICE_MAX_LITERAL - offset)
        return sp_recipe_failed(recipe, SP_ERR_LIMIT, "SP_SPLICE_MAX_LITERAL", (int64_t)SP_SPLICE_MAX_LITERAL);
    sp_buf_append(&recipe->literals, bytes, size);
    if (sp_buf_failed(&recipe->literals))
        return sp_recipe_failed(recipe, SP_ERR_MEMORY, NULL, 0);
    return sp_recipe_push(recipe, (struct sp_segment){.kind = SP_SEGMENT_LITERAL, .offset = offset, .size = size});
}

bool sp_recipe_keep(struct sp_recipe *recipe, uint32_t source, uint64_t offset, uint64_t size)
{
    if (recipe->failed != SP_OK)
        return false;
    if (source > recipe->location_count || offset > INT64_MAX || size > INT64_MAX - offset)
        return sp_recipe_failed(recipe, SP_ERR_MODEL, NULL, 0);
    if (size == 0)
        return true;
    return sp_recipe_push(
        recipe, (struct sp_segment){.kind = SP_SEGMENT_RANGE, .source = source, .offset = offset, .size = size});
}

/* The axes and ranges of a box of another recipe. */
static bool copy_box(struct sp_recipe *recipe, const struct sp_recipe *part, const struct sp_segment *segment)
{
    for (uint32_t i = 0; i < segment->axis_count; i++) {
        struct sp_box_axis axis = part->axes[segment->axis + i];
        const struct sp_box_range *ranges = &part->ranges[axis.first_range];
        axis.first_range = recipe->range_count;
        for (uint32_t k = 0; k < axis.range_count; k++) {
            if (!SP_RECIPE_ROOM(recipe, recipe->ranges, recipe->range_count, recipe->range_capacity))
                return false;
            recipe->ranges[recipe->range_count++] = ranges[k];
        }
        if (!SP_RECIPE_ROOM(recipe, recipe->axes, recipe->axis_count, recipe->axis_capacity))
            return false;
        recipe->axes[recipe->axis_count++] = axis;
    }
    return true;
}

bool sp_recipe_append(struct sp_recipe *recipe, const struct sp_recipe *part)
{
    if (part->failed != SP_OK)
        return sp_recipe_failed(recipe, part->failed, part->limit, part->limit_value);
    for (uint32_t i = 0; i < part->segment_count; i++) {
        struct sp_segment segment = part->segments[i];
        if (segment.kind == SP_SEGMENT_LITERAL) {
            if (!sp_recipe_add(recipe, part->literals.data + segment.offset, (size_t)segment.size))
                return false;
            continue;
        }
        if (segment.source != 0 && !sp_recipe_source(recipe, part->locations[segment.source - 1], &segment.source))
            return false;
        if (segment.kind == SP_SEGMENT_BOX) {
            const uint32_t axis = recipe->axis_count;
            if (!copy_box(recipe, part, &segment))
                return false;
            segment.axis = axis;
        }
        if (!sp_recipe_push(recipe, segment))
            return false;
    }
    return true;
}

uint64_t sp_recipe_size(const struct sp_recipe *recipe)
{
    return recipe->size;
}
