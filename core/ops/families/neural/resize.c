#include "ops/families/neural/resize.h"

#include <math.h>
#include <string.h>

#include "ops/table/shape_helpers.h"

/* Which input holds the scales; UINT32_MAX when they are attributes. */
static uint32_t scales_input(const struct sp_op_context *context)
{
    if (strcmp(context->node->op_type, "Upsample") == 0)
        return context->version < 9 ? UINT32_MAX : 1;
    return context->version < 11 ? 1 : 2;
}

/* The axes that scales and sizes are about, in their order; all without the attribute. */
static enum sp_status read_axes(struct sp_op_context *context, struct sp_resize *resize, uint32_t *axes,
                                uint32_t *ret_count)
{
    uint32_t count;
    const int64_t *given = sp_node_ints(context->node, "axes", &count);
    if (context->version < 18 || given == NULL) {
        for (uint32_t i = 0; i < resize->rank; i++) {
            axes[i] = i;
            resize->is_named[i] = true;
        }
        *ret_count = resize->rank;
        return SP_OK;
    }
    if (count > resize->rank)
        return sp_op_fail(context, "ATTRIBUTE_RANK", "attribute 'axes' has more items than its input has axes");
    for (uint32_t i = 0; i < count; i++) {
        enum sp_status status = sp_normalize_axis(context, given[i], resize->rank, &axes[i]);
        if (status != SP_OK)
            return status;
        if (resize->is_named[axes[i]])
            return sp_op_fail(context, "AXIS_TWICE", "attribute 'axes' names axis %u twice", axes[i]);
        resize->is_named[axes[i]] = true;
    }
    *ret_count = count;
    return SP_OK;
}

static enum sp_status set_scales(struct sp_op_context *context, struct sp_resize *resize, const uint32_t *axes,
                                 uint32_t axis_count, const double *scales, uint32_t count)
{
    if (count != axis_count)
        return sp_op_fail(context, "OPERAND_SHAPE", "it has %u scales for %u axes", count, axis_count);
    resize->scales = SP_NEW_ARRAY(context->arena, resize->rank, double);
    if (resize->scales == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t axis = 0; axis < resize->rank; axis++)
        resize->scales[axis] = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (!(scales[i] > 0) || isinf(scales[i]))
            return sp_op_fail(context, "OPERAND_VALUE", "scale %u is not a positive number", i);
        resize->scales[axes[i]] = scales[i];
    }
    return SP_OK;
}

/* Scales that are attributes: `scales` (Upsample 7), or those of height and width (Upsample 1). */
static enum sp_status read_scale_attributes(struct sp_op_context *context, struct sp_resize *resize,
                                            const uint32_t *axes, uint32_t axis_count)
{
    const struct sp_attribute *scales = sp_node_attribute(context->node, "scales");
    if (context->version >= 7) {
        if (scales == NULL || scales->type != SP_ATTR_FLOATS)
            return sp_op_fail(context, "ATTRIBUTE_MISSING", "attribute 'scales' is required");
        return set_scales(context, resize, axes, axis_count, scales->floats, scales->count);
    }
    const double two[] = {1, 1, sp_node_float(context->node, "height_scale", 0),
                          sp_node_float(context->node, "width_scale", 0)};
    return set_scales(context, resize, axes, axis_count, two, 4);
}

static enum sp_status set_sizes(struct sp_op_context *context, struct sp_resize *resize, const uint32_t *axes,
                                uint32_t axis_count, const struct sp_data *sizes)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    if (sizes->count != axis_count)
        return sp_op_fail(context, "OPERAND_SHAPE", "it has %u sizes for %u axes", sizes->count, axis_count);
    resize->sizes = sp_new_dims(context, resize->rank);
    if (resize->sizes == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t axis = 0; axis < resize->rank; axis++)
        resize->sizes[axis] = x->dims[axis];
    for (uint32_t i = 0; i < sizes->count; i++)
        resize->sizes[axes[i]] = sizes->ints[i];
    return SP_OK;
}

/* Which axes a crop may leave something of: all but those whose region is known to be from 0 to 1. */
static void read_region(struct sp_op_context *context, struct sp_resize *resize)
{
    const struct sp_data *region = resize->is_crop && context->version >= 11 ? sp_in_data(context, 1) : NULL;
    for (uint32_t axis = 0; axis < resize->rank; axis++)
        resize->is_cropped[axis] = resize->is_crop && resize->is_named[axis];
    if (region == NULL || region->reals == NULL || region->count != 2 * (uint64_t)resize->axis_count)
        return;
    for (uint32_t i = 0; i < resize->axis_count; i++)
        if (region->reals[i] == 0 && region->reals[resize->axis_count + i] == 1)
            resize->is_cropped[resize->axes[i]] = false;
}

enum sp_status sp_resize_read(struct sp_op_context *context, struct sp_resize *ret_resize)
{
    const char *mode = sp_node_string(context->node, "coordinate_transformation_mode", "half_pixel");
    struct sp_resize resize = {.rank = sp_in_shape(context, 0)->rank};
    uint32_t axis_count = 0, input = scales_input(context);
    const char *policy = sp_node_string(context->node, "keep_aspect_ratio_policy", "stretch");
    uint32_t *axes = SP_NEW_ARRAY(context->arena, resize.rank, uint32_t);
    resize.is_named = SP_NEW_ARRAY(context->arena, resize.rank, bool);
    resize.is_cropped = SP_NEW_ARRAY(context->arena, resize.rank, bool);
    if (axes == NULL || resize.is_named == NULL || resize.is_cropped == NULL)
        return sp_fail_memory(context->err);
    resize.is_crop = strcmp(mode, "tf_crop_and_resize") == 0;
    enum sp_status status = read_axes(context, &resize, axes, &axis_count);
    if (status != SP_OK)
        return status;
    if (input == UINT32_MAX) {
        status = read_scale_attributes(context, &resize, axes, axis_count);
    } else {
        /* Before 13 both inputs had to be there, and the one not meant was an empty tensor. */
        const struct sp_data *scales = sp_in_data(context, input);
        const struct sp_data *sizes = input == 2 ? sp_in_data(context, 3) : NULL;
        if (scales != NULL && scales->reals != NULL && scales->count > 0)
            status = set_scales(context, &resize, axes, axis_count, scales->reals, scales->count);
        else if (sizes != NULL && sizes->ints != NULL && sizes->count > 0)
            status = set_sizes(context, &resize, axes, axis_count, sizes);
    }
    resize.scales_input = input;
    resize.axes = axes;
    resize.axis_count = axis_count;
    read_region(context, &resize);
    resize.is_sized = resize.scales == NULL && input == 2 && !sp_has_input(context, 2) && sp_has_input(context, 3);
    resize.is_sized = resize.is_sized || resize.sizes != NULL;
    resize.keeps_aspect = context->version >= 18 && resize.is_sized && strcmp(policy, "stretch") != 0;
    if (status == SP_OK)
        *ret_resize = resize;
    return status;
}
