/*
 * Operators that read an image at computed places, and the ones that make the places.
 *
 *     AffineGrid    theta [n, r, k]                        -> grid [n, d.., r]        k sum; d.. are new
 *     GridSample    x [n, c, s..]  grid [n, d.., r]        -> [n, c, d..]             s.., r whole
 *     RoiAlign      x [b, c, y, x]  rois [n, r]  batch [n] -> [n, c, h, w]            b, y, x, r whole; h and w are new
 *     MaxRoiPool    x [b, c, y, x]  rois [n, r]            -> [n, c, h, w]            b, y, x, r whole; h and w are new
 *     ImageDecoder  bytes [b]                              -> [h, w, c]               all whole
 *
 * Where an image is read is in the data, so its spatial axes are whole on every device; regions of interest also choose
 * the image of the batch. What is made may be cut in any way.
 *
 * FLOPs for each output element: GridSample 2 for each of the 2^r corners (linear) or 4^r points (cubic), 1 for
 * nearest; RoiAlign 8 (four corners) for each sampled point, one where the number of points depends on the region;
 * AffineGrid 2 for each k. A region that MaxRoiPool looks at is not known: the whole image once for each region.
 */
#include <math.h>
#include <string.h>

#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

/* Axis `axis` of an input has `extent` elements, as far as both are numbers. */
static enum sp_status check_extent(struct sp_op_context *context, uint32_t input, uint32_t axis, int64_t extent)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    if (shape != NULL && sp_dim_is_known(shape->dims[axis]) && shape->dims[axis].value != extent)
        return sp_op_fail(context, "OPERAND_SHAPE", "axis %u of its input %u has %lld elements instead of %lld", axis,
                          input, (long long)shape->dims[axis].value, (long long)extent);
    return SP_OK;
}

/* ---- AffineGrid ----------------------------------------------------------------------------------------------- */

static enum sp_status shapes_affine_grid(struct sp_op_context *context)
{
    const struct sp_shape *theta = sp_in_shape(context, 0);
    struct sp_dim dims[5] = {{0}};
    struct sp_list size = {0};
    enum sp_status status = sp_check_rank(context, 0, 3);
    if (status == SP_OK)
        status = sp_get_list(context, "size", 1, 1, &size);
    if (status != SP_OK)
        return status;
    uint32_t count = size.has_count ? size.count : 0;
    if (size.has_count && count != 4 && count != 5)
        return sp_op_fail(context, "OPERAND_SHAPE", "its size has %u items, and 4 or 5 are allowed", count);
    if (count == 0 && theta != NULL && sp_dim_is_known(theta->dims[1])) /* theta is [n, 2, 3] or [n, 3, 4] */
        count = theta->dims[1].value == 2 ? 4 : 5;
    if (count == 0)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    status = check_extent(context, 0, 1, count - 2);
    if (status == SP_OK)
        status = check_extent(context, 0, 2, count - 1);
    if (status == SP_OK)
        status = sp_join_dims(context, theta != NULL ? theta->dims[0] : sp_dim_unknown(),
                              size.has_values ? size.values[0] : sp_dim_unknown(), &dims[0]);
    for (uint32_t i = 2; size.has_values && i < count; i++)
        dims[i - 1] = size.values[i];
    dims[count - 1] = sp_dim_known(count - 2);
    return status != SP_OK ? status : sp_set_output(context, 0, sp_in_dtype(context, 0), count, dims);
}

/* ---- GridSample ----------------------------------------------------------------------------------------------- */

static enum sp_status shapes_grid_sample(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *grid = sp_in_shape(context, 1);
    const struct sp_shape *ranked = x != NULL ? x : grid;
    if (ranked == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    if (ranked->rank < 3)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u, and at least 3 is needed", ranked->rank);
    enum sp_status status = sp_check_rank(context, 1, ranked->rank);
    if (status == SP_OK)
        status = check_extent(context, 1, ranked->rank - 1, (int64_t)ranked->rank - 2);
    struct sp_dim *dims = sp_new_dims(context, ranked->rank);
    if (status != SP_OK || dims == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    status = sp_join_dims(context, x != NULL ? x->dims[0] : sp_dim_unknown(),
                          grid != NULL ? grid->dims[0] : sp_dim_unknown(), &dims[0]);
    if (x != NULL)
        dims[1] = x->dims[1];
    for (uint32_t axis = 2; grid != NULL && axis < ranked->rank; axis++)
        dims[axis] = grid->dims[axis - 1];
    return status != SP_OK ? status : sp_set_output(context, 0, sp_in_dtype(context, 0), ranked->rank, dims);
}

/* The names of the modes before 20 were those of PyTorch. */
static double points_of(const struct sp_node *node, uint32_t spatial)
{
    const char *mode = sp_node_string(node, "mode", "linear");
    if (strcmp(mode, "nearest") == 0)
        return 0.5; /* one element is taken and nothing multiplied */
    bool is_cubic = strcmp(mode, "cubic") == 0 || strcmp(mode, "bicubic") == 0;
    return pow(is_cubic ? 4 : 2, (double)spatial);
}

static enum sp_status rule_grid_sample(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status = sp_rule_from_entry(context, rule, context->node->op);
    sp_rule_term_output(rule, 2 * points_of(context->node, rule->inputs[0].rank - 2));
    return status;
}

/* ---- RoiAlign, MaxRoiPool ------------------------------------------------------------------------------------- */

static enum sp_status shapes_regions(struct sp_op_context *context, uint32_t coordinates, const int64_t pooled[2])
{
    const struct sp_shape *x = sp_in_shape(context, 0), *rois = sp_in_shape(context, 1);
    struct sp_dim dims[4] = {{0}};
    enum sp_status status = sp_check_rank(context, 0, 4);
    if (status == SP_OK)
        status = sp_check_rank(context, 1, 2);
    if (status == SP_OK)
        status = check_extent(context, 1, 1, coordinates);
    for (uint32_t i = 0; status == SP_OK && i < 2; i++) {
        if (pooled[i] < 1)
            return sp_op_fail(context, "ATTRIBUTE_VALUE", "a region would be pooled to %lld elements",
                              (long long)pooled[i]);
        dims[2 + i] = sp_dim_known(pooled[i]);
    }
    if (rois != NULL)
        dims[0] = rois->dims[0];
    if (x != NULL)
        dims[1] = x->dims[1];
    return status != SP_OK ? status : sp_set_output(context, 0, sp_in_dtype(context, 0), 4, dims);
}

static enum sp_status shapes_roi_align(struct sp_op_context *context)
{
    const struct sp_shape *rois = sp_in_shape(context, 1), *batch = sp_in_shape(context, 2);
    const int64_t pooled[2] = {sp_node_int(context->node, "output_height", 1),
                               sp_node_int(context->node, "output_width", 1)};
    struct sp_dim ignored;
    enum sp_status status = sp_check_rank(context, 2, 1);
    if (status == SP_OK && rois != NULL && rois->rank == 2 && batch != NULL)
        status = sp_join_dims(context, rois->dims[0], batch->dims[0], &ignored);
    return status != SP_OK ? status : shapes_regions(context, 4, pooled);
}

static enum sp_status shapes_max_roi_pool(struct sp_op_context *context)
{
    uint32_t count;
    const int64_t *pooled = sp_node_ints(context->node, "pooled_shape", &count);
    if (pooled == NULL || count != 2)
        return sp_op_fail(context, "ATTRIBUTE_MISSING", "attribute 'pooled_shape' must give two extents");
    return shapes_regions(context, 5, pooled);
}

static enum sp_status rule_roi_align(struct sp_op_context *context, struct sp_rule *rule)
{
    int64_t points = sp_node_int(context->node, "sampling_ratio", 0);
    enum sp_status status = sp_rule_from_entry(context, rule, context->node->op);
    sp_rule_term_output(rule, 8 * (points > 0 ? (double)points * (double)points : 1));
    return status;
}

static enum sp_status rule_max_roi_pool(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status = sp_rule_from_entry(context, rule, context->node->op);
    sp_rule_term_named(rule, 1, "n c y x");
    return status;
}

/* ---- ImageDecoder --------------------------------------------------------------------------------------------- */

static enum sp_status shapes_image_decoder(struct sp_op_context *context)
{
    const char *format = sp_node_string(context->node, "pixel_format", "RGB");
    enum sp_status status = sp_check_rank(context, 0, 1);
    if (status != SP_OK)
        return status;
    bool is_gray = strcmp(format, "Grayscale") == 0;
    if (!is_gray && strcmp(format, "RGB") != 0 && strcmp(format, "BGR") != 0)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'pixel_format' is '%.40s'", format);
    struct sp_dim dims[3] = {sp_dim_fresh(context->dims, "ImageDecoder", sp_dim_unknown()),
                             sp_dim_fresh(context->dims, "ImageDecoder", sp_dim_unknown()),
                             sp_dim_known(is_gray ? 1 : 3)};
    return sp_set_output(context, 0, SP_DTYPE_UINT8, 3, dims);
}

static enum sp_status rule_image_decoder(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status = sp_rule_from_entry(context, rule, context->node->op);
    sp_rule_term_output(rule, 1);
    return status;
}

const struct sp_op sp_ops_sampling[] = {
    SP_ENTRY("", "AffineGrid", 20, 0, 2, 2, 1, 1, "[n, r, k] [_] -> [n, d.., r]; k sum", "ONNX operator AffineGrid",
             .shapes = shapes_affine_grid, .flops = 2, .lower = sp_lower_affine_grid),
    SP_ENTRY("", "GridSample", 16, 0, 2, 2, 1, 1, "[n, c, s..] [n, d.., r] -> [n, c, d..]; s.., r whole",
             "ONNX operator GridSample", .shapes = shapes_grid_sample, .rule = rule_grid_sample),
    SP_ENTRY("", "RoiAlign", 10, 0, 3, 3, 1, 1, "[b, c, y, x] [n, r] [n] -> [n, c, h, w]; b, y, x, r whole",
             "ONNX operator RoiAlign", .shapes = shapes_roi_align, .rule = rule_roi_align, .lower = sp_lower_regions),
    SP_ENTRY("", "MaxRoiPool", 1, 0, 2, 2, 1, 1, "[b, c, y, x] [n, r] -> [n, c, h, w]; b, y, x, r whole",
             "ONNX operator MaxRoiPool", .shapes = shapes_max_roi_pool, .rule = rule_max_roi_pool,
             .lower = sp_lower_regions),
    SP_ENTRY("", "ImageDecoder", 20, 0, 1, 1, 1, 1, "[b] -> [h, w, c]; all whole", "ONNX operator ImageDecoder",
             .shapes = shapes_image_decoder, .rule = rule_image_decoder),
    {.name = NULL},
};
