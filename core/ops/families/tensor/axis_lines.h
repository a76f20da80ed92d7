#pragma once
/*
 * axis_lines - the known elements of a tensor as lines along one axis. Sorting, selecting and accumulating work on one
 * line at a time.
 *
 * Line l holds elements (l / inner * extent + i) * inner + l % inner for i below `extent`.
 */
#include "ops/table/known_values.h"

struct sp_axis_lines {
    uint32_t count, extent, inner;
};

/* The lines of a shape with known extents and few elements (see sp_data_room()). */
static inline struct sp_axis_lines sp_axis_lines_of(const struct sp_shape *shape, uint32_t axis)
{
    struct sp_shape head = {true, axis, shape->dims}, tail = {true, shape->rank - axis - 1, shape->dims + axis + 1};
    struct sp_axis_lines lines = {.extent = (uint32_t)shape->dims[axis].value};
    lines.inner = (uint32_t)sp_shape_elements(&tail);
    lines.count = (uint32_t)sp_shape_elements(&head) * lines.inner;
    return lines;
}

static inline uint32_t sp_axis_line_element(const struct sp_axis_lines *lines, uint32_t line, uint32_t i)
{
    return (line / lines->inner * lines->extent + i) * lines->inner + line % lines->inner;
}

/* Whether every element is a number, and none a NaN. */
static inline bool sp_data_has_numbers(const struct sp_data *data)
{
    for (uint32_t i = 0; i < data->count; i++) {
        if (data->reals != NULL ? data->reals[i] != data->reals[i] : !sp_dim_is_known(data->ints[i]))
            return false;
    }
    return true;
}

/* -1, 0 or 1 as element a is less than, equal to or greater than element b; both are numbers. */
static inline int sp_data_order(const struct sp_data *data, uint32_t a, uint32_t b)
{
    if (data->reals != NULL)
        return (data->reals[a] > data->reals[b]) - (data->reals[a] < data->reals[b]);
    return (data->ints[a].value > data->ints[b].value) - (data->ints[a].value < data->ints[b].value);
}

/* The elements of an input, all numbers, in the shape that is known of it; NULL where that is not so. */
static inline const struct sp_data *sp_in_numbers(struct sp_op_context *context, uint32_t input)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    if (shape == NULL || sp_shape_elements(shape) < 0 || !sp_data_available(context, input))
        return NULL;
    const struct sp_data *data = sp_in_data(context, input);
    bool is_whole = data != NULL && data->count == (uint64_t)sp_shape_elements(shape);
    return is_whole && sp_data_has_numbers(data) ? data : NULL;
}
