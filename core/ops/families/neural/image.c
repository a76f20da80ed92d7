/*
 * Resizing: Resize, and Upsample before opset 10.
 *
 *     [n, c, h, w] -> [n, c, h', w']      axes of the same extent are parallel, resized ones halo factors
 *
 * The output extent of an axis is floor(extent * scale), in float32 as runtimes compute it, or what `sizes` says. A
 * symbolic extent is carried through scales that are small fractions.
 *
 * An output place reads input places around its own, so an even split of both needs only neighbours: one for the
 * rounding of positions, one more for linear and two more for cubic interpolation, and with `antialias` as many times
 * more as the image shrinks. The positions depend on the extents of the whole.
 *
 * FLOPs for each output element: 1 for nearest, 2 for each tap of the others (2 or 4 along each resized axis).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/families/neural/resize.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

/* ---- reading -------------------------------------------------------------------------------------------------- */

/* ---- extents -------------------------------------------------------------------------------------------------- */

/* floor(extent * scale) of a symbol: exact for scales that are fractions with a small denominator. */
static struct sp_dim scaled_symbol(struct sp_dims *dims, struct sp_dim extent, double scale)
{
    for (int64_t denominator = 1; denominator <= 64; denominator++) {
        double numerator = scale * (double)denominator;
        if (numerator == floor(numerator) && numerator < 1e6)
            return sp_dim_floordiv(dims, sp_dim_mul(dims, extent, sp_dim_known((int64_t)numerator)),
                                   sp_dim_known(denominator));
    }
    return sp_dim_unknown();
}

static enum sp_status scaled(struct sp_op_context *context, struct sp_dim extent, double scale, struct sp_dim *ret_dim)
{
    if (!sp_dim_is_known(extent)) {
        *ret_dim = scaled_symbol(context->dims, extent, scale);
        return SP_OK;
    }
    float result = floorf((float)extent.value * (float)scale);
    if (!(result < 9.0e18f)) /* an int64 holds it */
        return sp_op_fail(context, "OPERAND_VALUE", "an axis would be too long to count");
    *ret_dim = sp_dim_known((int64_t)result);
    return SP_OK;
}

/* Sizes under keep_aspect_ratio_policy: one scale for all named axes, the least or the greatest that they ask for. */
static void keep_aspect(struct sp_op_context *context, const struct sp_resize *resize, struct sp_dim *dims)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    const char *policy = sp_node_string(context->node, "keep_aspect_ratio_policy", "stretch");
    bool is_least = strcmp(policy, "not_larger") == 0, is_known = true;
    double scale = -1;
    if (context->version < 18 || (!is_least && strcmp(policy, "not_smaller") != 0))
        return;
    for (uint32_t axis = 0; axis < resize->rank; axis++) {
        if (!resize->is_named[axis])
            continue;
        if (!sp_dim_is_known(x->dims[axis]) || !sp_dim_is_known(dims[axis]) || x->dims[axis].value == 0) {
            is_known = false;
            continue;
        }
        double own = (double)dims[axis].value / (double)x->dims[axis].value;
        if (scale < 0 || (is_least ? own < scale : own > scale))
            scale = own;
    }
    for (uint32_t axis = 0; axis < resize->rank; axis++) {
        if (!resize->is_named[axis])
            continue;
        double extent = is_known ? floor(scale * (double)x->dims[axis].value + 0.5) : -1;
        dims[axis] = extent >= 0 && extent < 9.0e18 ? sp_dim_known((int64_t)extent) : sp_dim_unknown();
    }
}

static enum sp_status shapes_resize(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    struct sp_resize resize = {0};
    if (x == NULL)
        return sp_set_output_unranked(context, 0, dtype);
    enum sp_status status = sp_resize_read(context, &resize);
    struct sp_dim *dims = sp_new_dims(context, x->rank);
    if (status != SP_OK || dims == NULL || resize.is_named == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    for (uint32_t axis = 0; status == SP_OK && axis < x->rank; axis++) {
        if (!resize.is_named[axis])
            dims[axis] = x->dims[axis];
        else if (resize.sizes != NULL)
            dims[axis] = resize.sizes[axis];
        else if (resize.scales != NULL && !resize.is_crop) /* a crop's extent depends on the region too */
            status = scaled(context, x->dims[axis], resize.scales[axis], &dims[axis]);
    }
    if (status == SP_OK && resize.sizes != NULL)
        keep_aspect(context, &resize, dims);
    return status != SP_OK ? status : sp_set_output(context, 0, dtype, x->rank, dims);
}

/* ---- the rule ------------------------------------------------------------------------------------------------- */

/* Neighbours that an output place needs, in input elements; -1 when that is not known. */
static int64_t halo(struct sp_op_context *context, struct sp_dim in, struct sp_dim out)
{
    const char *mode = sp_node_string(context->node, "mode", "nearest");
    int64_t reach = strcmp(mode, "cubic") == 0 ? 2 : strcmp(mode, "nearest") == 0 ? 0 : 1;
    if (context->version < 18 || sp_node_int(context->node, "antialias", 0) == 0 || reach == 0)
        return reach + 1;
    if (!sp_dim_is_known(in) || !sp_dim_is_known(out) || out.value <= 0)
        return -1;
    int64_t shrink = in.value / out.value + (in.value % out.value != 0); /* times, rounded up */
    return shrink > INT32_MAX ? -1 : reach * (shrink > 1 ? shrink : 1) + 1;
}

/* Whether each element of an axis is that of the input. Extents that are the same are not enough: 10 elements
   times 1.05 are 10, and none of them is where it was. */
static bool is_copied(struct sp_op_context *context, const struct sp_resize *resize, uint32_t axis)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *y = &context->node->outputs[0]->type.shape;
    bool is_whole = resize->is_cropped != NULL && !resize->is_cropped[axis];
    bool is_copied = is_whole && sp_dim_equal(x->dims[axis], y->dims[axis]);
    if (resize->scales != NULL)
        is_copied = is_copied && resize->scales[axis] == 1;
    for (uint32_t i = 0; resize->keeps_aspect && resize->is_named[axis] && i < resize->rank; i++)
        is_copied = is_copied && (!resize->is_named[i] || sp_dim_equal(x->dims[i], y->dims[i]));
    return is_copied;
}

static enum sp_status rule_resize(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *y = &context->node->outputs[0]->type.shape;
    const char *mode = sp_node_string(context->node, "mode", "nearest");
    double taps = strcmp(mode, "cubic") == 0 ? 4 : 2, flops = 2;
    struct sp_resize resize = {0};
    enum sp_status status = sp_resize_read(context, &resize);
    for (uint32_t axis = 0; status == SP_OK && axis < x->rank; axis++) {
        int64_t width = halo(context, x->dims[axis], y->dims[axis]);
        uint8_t factor;
        char name[SP_FACTOR_NAME_SIZE];
        (void)snprintf(name, sizeof name, "d%u", axis);
        if (is_copied(context, &resize, axis)) {
            factor = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, y->dims[axis]);
            sp_rule_map_input(rule, 0, axis, factor);
            sp_rule_map_output(rule, 0, axis, factor);
            continue;
        }
        flops *= taps;
        if (resize.is_crop || width < 0) { /* anything of the input may be needed anywhere */
            (void)sp_rule_input_axis(context, rule, 'i', 0, axis, SP_FACTOR_REPLICATE);
            factor = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, y->dims[axis]);
        } else {
            factor = sp_factor_halo(rule, name, y->dims[axis], width, width);
            sp_rule_map_input(rule, 0, axis, factor);
        }
        sp_rule_map_output(rule, 0, axis, factor);
    }
    sp_rule_term_output(rule, strcmp(mode, "nearest") == 0 ? 1 : flops);
    return status;
}

const struct sp_op sp_ops_image[] = {
    SP_ENTRY("", "Resize", 10, 10, 2, 2, 1, 1, "[n, c, h..] -> [n, c, h..]; h.. halo", "ONNX operator Resize",
             .shapes = shapes_resize, .rule = rule_resize, .lower = sp_lower_resize),
    SP_ENTRY("", "Resize", 11, 0, 1, 4, 1, 1,
             "[n, c, h..] -> [n, c, h..]; h.. halo, or whole where it may reach anywhere", "ONNX operator Resize",
             .shapes = shapes_resize, .rule = rule_resize, .lower = sp_lower_resize),
    SP_ENTRY("", "Upsample", 1, 8, 1, 1, 1, 1, "[n, c, h..] -> [n, c, h..]; h.. halo", "ONNX operator Upsample",
             .shapes = shapes_resize, .rule = rule_resize, .lower = sp_lower_resize),
    SP_ENTRY("", "Upsample", 9, 9, 2, 2, 1, 1, "[n, c, h..] -> [n, c, h..]; h.. halo", "ONNX operator Upsample",
             .shapes = shapes_resize, .rule = rule_resize, .lower = sp_lower_resize),
    {.name = NULL},
};
