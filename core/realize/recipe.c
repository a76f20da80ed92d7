#include "realize/recipe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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
    sp_arena_destroy(recipe->arena);
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

uint32_t sp_recipe_source_count(const struct sp_recipe *recipe)
{
    return recipe->locations == NULL ? 1 : sp_intern_count(recipe->locations) + 1;
}

const char *sp_recipe_location(const struct sp_recipe *recipe, uint32_t source)
{
    assert(source < sp_recipe_source_count(recipe));
    return source == 0 ? "" : sp_intern_name(recipe->locations, source - 1);
}

bool sp_recipe_source(struct sp_recipe *recipe, const char *location, uint32_t *ret_source)
{
    if (recipe->arena == NULL)
        recipe->arena = sp_arena_create(NULL);
    if (recipe->arena != NULL && recipe->locations == NULL)
        recipe->locations = sp_intern_create(recipe->arena, 0);
    if (recipe->locations == NULL)
        return sp_recipe_failed(recipe, SP_ERR_MEMORY, NULL, 0);
    uint32_t id = sp_intern_find(recipe->locations, location, strlen(location));
    if (id == SP_NO_NAME && sp_recipe_source_count(recipe) > SP_MAX_RECIPE_SOURCES)
        return sp_recipe_failed(recipe, SP_ERR_LIMIT, "SP_MAX_RECIPE_SOURCES", SP_MAX_RECIPE_SOURCES);
    if (id == SP_NO_NAME)
        id = sp_intern_add(recipe->locations, location, strlen(location));
    if (id == SP_NO_NAME)
        return sp_recipe_failed(recipe, SP_ERR_MEMORY, NULL, 0);
    *ret_source = id + 1;
    return true;
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
    if (source >= sp_recipe_source_count(recipe) || offset > INT64_MAX || size > INT64_MAX - offset)
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
        if (segment.source != 0 && !sp_recipe_source(recipe, sp_recipe_location(part, segment.source), &segment.source))
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
