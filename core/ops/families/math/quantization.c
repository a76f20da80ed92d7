/*
 * Quantisation.
 *
 *     one scale             [d..] [] []                      -> [d..]
 *     along an axis         [d.., a] [a] [a]                 -> [d.., a]
 *     in blocks             [d.., b*w] [d.., b] [d.., b]     -> [d.., b*w]      w whole
 *     DynamicQuantizeLinear [d..]                            -> [d..] [] []     d.. max, of the negated elements too
 *
 * The elements of an axis, or of a block of it, have a scale and a zero point of their own, so these are split as the
 * data are. An axis in blocks is the compound of its blocks and the elements within one: blocks may be split, and the
 * split carries to the scale's axis; what is within a block stays together. Where the last block is shorter than the
 * others no even split falls between blocks, and the axis is whole.
 *
 * A dynamic scale is made from the least and the greatest of all elements, and goes back to all of them: splitting any
 * axis leaves partial extremes to combine, the two together, and nothing else.
 *
 * FLOPs: 1 per element as other elementwise operators; 2 more for the extremes.
 */
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

/* ---- which elements share a scale ----------------------------------------------------------------------------- */

enum layout { LAYOUT_TENSOR, LAYOUT_AXIS, LAYOUT_BLOCKS };

struct grid {
    enum layout layout;
    uint32_t axis; /* of AXIS and BLOCKS */
    int64_t block; /* of BLOCKS: elements */
};

static enum sp_status check_blocks(struct sp_op_context *context, const struct sp_shape *x,
                                   const struct sp_shape *scale, const struct grid *grid)
{
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        struct sp_dim want = x->dims[axis], own = scale->dims[axis];
        if (axis == grid->axis)
            want = sp_dim_ceildiv(context->dims, want, sp_dim_known(grid->block));
        if (sp_dim_is_known(want) && sp_dim_is_known(own) && want.value != own.value)
            return sp_op_fail(context, "SHAPES_DISAGREE",
                              "axis %u of its scale has %lld elements where its input in blocks of %lld makes it %lld",
                              axis, (long long)own.value, (long long)grid->block, (long long)want.value);
    }
    return SP_OK;
}

/* A vector of one element is one scale for all, whatever the axis. */
static enum sp_status read_vector(struct sp_op_context *context, const struct sp_shape *x, struct sp_dim count,
                                  struct grid *grid)
{
    int64_t axis = sp_node_int(context->node, "axis", 1);
    if (sp_dim_is(count, 1))
        return SP_OK;
    if (context->version < 13)
        return sp_op_fail(context, "OPERAND_SHAPE", "before opset 13 it takes one scale for all elements");
    if (!sp_dim_is_known(count) && (axis >= (int64_t)x->rank || axis < -(int64_t)x->rank))
        return SP_OK; /* the default axis of a vector: the count has to be 1 */
    enum sp_status status = sp_normalize_axis(context, axis, x->rank, &grid->axis);
    if (status != SP_OK)
        return status;
    if (sp_dim_differs(context->dims, x->dims[grid->axis], count))
        return sp_op_fail(context, "SHAPES_DISAGREE",
                          "its scale does not have one element for each of the input's on axis %u", grid->axis);
    grid->layout = LAYOUT_AXIS;
    return SP_OK;
}

static enum sp_status read_grid(struct sp_op_context *context, struct grid *ret_grid)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *scale = sp_in_shape(context, 1);
    struct grid grid = {LAYOUT_TENSOR, 0, context->version >= 21 ? sp_node_int(context->node, "block_size", 0) : 0};
    enum sp_status status = SP_OK;
    if (grid.block < 0)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'block_size' is %lld", (long long)grid.block);
    if (x == NULL || scale == NULL || scale->rank == 0) {
        *ret_grid = grid;
        return SP_OK;
    }
    if (grid.block > 0 && scale->rank == x->rank) {
        grid.layout = LAYOUT_BLOCKS;
        status = sp_normalize_axis(context, sp_node_int(context->node, "axis", 1), x->rank, &grid.axis);
        if (status == SP_OK)
            status = check_blocks(context, x, scale, &grid);
    } else if (scale->rank == 1)
        status = read_vector(context, x, scale->dims[0], &grid);
    else
        return sp_op_fail(
            context, "OPERAND_SHAPE",
            "its scale has %u axes; it must be a scalar, a vector, or with block_size have as many as the "
            "input",
            scale->rank);
    *ret_grid = grid;
    return status;
}

/* The zero point has the shape of the scale; a scalar and a vector of one are the same. */
static enum sp_status check_zero_point(struct sp_op_context *context)
{
    const struct sp_shape *scale = sp_in_shape(context, 1), *zero = sp_in_shape(context, 2);
    if (scale == NULL || zero == NULL || (sp_shape_elements(scale) == 1 && sp_shape_elements(zero) == 1))
        return SP_OK;
    bool differs = scale->rank != zero->rank;
    for (uint32_t axis = 0; !differs && axis < scale->rank; axis++)
        differs = sp_dim_differs(context->dims, scale->dims[axis], zero->dims[axis]);
    if (differs)
        return sp_op_fail(context, "SHAPES_DISAGREE", "its scale and its zero point differ in shape");
    return SP_OK;
}

/* ---- QuantizeLinear, DequantizeLinear ------------------------------------------------------------------------- */

static enum sp_status shapes_linear(struct sp_op_context *context, enum sp_dtype dtype)
{
    struct grid grid;
    enum sp_status status = read_grid(context, &grid);
    if (status == SP_OK)
        status = check_zero_point(context);
    return status != SP_OK ? status : sp_set_output_shape(context, 0, dtype, sp_in_shape(context, 0));
}

/* The zero point has the type of the result; without one it is output_dtype, and uint8 where nothing is said. */
static enum sp_status shapes_quantize(struct sp_op_context *context)
{
    enum sp_dtype dtype = SP_DTYPE_UINT8, zero = sp_in_dtype(context, 2), asked = SP_DTYPE_UNDEFINED;
    enum sp_status status = SP_OK;
    if (context->version >= 21)
        status = sp_get_dtype(context, "output_dtype", SP_DTYPE_UNDEFINED, &asked);
    if (status != SP_OK)
        return status;
    if (asked != SP_DTYPE_UNDEFINED && zero != SP_DTYPE_UNDEFINED && asked != zero)
        return sp_op_fail(context, "WRONG_DATA_TYPE", "its zero point is %s and its attribute 'output_dtype' says %s",
                          sp_dtype_name(zero), sp_dtype_name(asked));
    if (sp_has_input(context, 2))
        dtype = zero;
    if (asked != SP_DTYPE_UNDEFINED)
        dtype = asked;
    return shapes_linear(context, dtype);
}

/* float32 before opset 19, then the type of the scale; since 23 output_dtype may ask for another. */
static enum sp_status shapes_dequantize(struct sp_op_context *context)
{
    enum sp_dtype dtype = context->version < 19 ? SP_DTYPE_FLOAT : sp_in_dtype(context, 1);
    enum sp_status status = SP_OK;
    if (context->version >= 23)
        status = sp_get_dtype(context, "output_dtype", dtype, &dtype);
    return status != SP_OK ? status : shapes_linear(context, dtype);
}

/* Scale and zero point, where they have this axis. */
static void map_scales(struct sp_rule *rule, const struct grid *grid, uint32_t axis, uint8_t factor)
{
    uint32_t own = grid->layout == LAYOUT_AXIS ? 0 : axis;
    for (uint32_t input = 1; input < rule->input_count; input++) {
        if (own < rule->inputs[input].rank)
            sp_rule_map_input(rule, input, own, factor);
    }
}

static void map_blocks(struct sp_op_context *context, struct sp_rule *rule, const struct grid *grid)
{
    uint32_t axis = grid->axis;
    struct sp_dim extent = sp_in_shape(context, 0)->dims[axis], count = sp_in_shape(context, 1)->dims[axis];
    struct sp_dim within = sp_dim_known(grid->block);
    uint8_t factor;
    if (sp_dim_is(count, 1)) { /* one block: one scale along the axis */
        factor = sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_PARALLEL);
        sp_rule_map_output(rule, 0, axis, factor);
        return;
    }
    if (sp_dim_is_known(extent) && extent.value % grid->block != 0) {
        factor = sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_REPLICATE);
        sp_rule_map_output(rule, 0, axis, factor);
        map_scales(rule, grid, axis, sp_rule_factor(rule, "b", SP_FACTOR_REPLICATE, count));
        return;
    }
    struct sp_dim blocks = sp_dim_exact_div(context->dims, extent, within);
    factor = sp_rule_factor(rule, "b", SP_FACTOR_PARALLEL, blocks.kind == SP_DIM_UNKNOWN ? count : blocks);
    sp_rule_map_input(rule, 0, axis, factor);
    sp_rule_map_output(rule, 0, axis, factor);
    map_scales(rule, grid, axis, factor);
    factor = sp_rule_factor(rule, "w", SP_FACTOR_REPLICATE, within);
    sp_rule_map_input(rule, 0, axis, factor);
    sp_rule_map_output(rule, 0, axis, factor);
}

static enum sp_status rule_linear(struct sp_op_context *context, struct sp_rule *rule)
{
    struct grid grid = {0};
    enum sp_status status = read_grid(context, &grid);
    for (uint32_t axis = 0; status == SP_OK && axis < rule->inputs[0].rank; axis++) {
        if (grid.layout == LAYOUT_BLOCKS && axis == grid.axis) {
            map_blocks(context, rule, &grid);
            continue;
        }
        uint8_t factor = sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_PARALLEL);
        sp_rule_map_output(rule, 0, axis, factor);
        if (grid.layout == LAYOUT_BLOCKS || (grid.layout == LAYOUT_AXIS && axis == grid.axis))
            map_scales(rule, &grid, axis, factor);
    }
    sp_rule_term_output(rule, 1);
    return status;
}

/* ---- DynamicQuantizeLinear ------------------------------------------------------------------------------------ */

static enum sp_status shapes_dynamic(struct sp_op_context *context)
{
    enum sp_status status = sp_set_output_shape(context, 0, SP_DTYPE_UINT8, sp_in_shape(context, 0));
    if (status == SP_OK)
        status = sp_set_output(context, 1, SP_DTYPE_FLOAT, 0, NULL);
    return status != SP_OK ? status : sp_set_output(context, 2, SP_DTYPE_UINT8, 0, NULL);
}

#define LINEAR_TEXT "[d..] [] [] -> [d..]; on one axis [a] [a] or blocks of it [d.., b*w] [d.., b] [d.., b]; w whole"
const struct sp_op sp_ops_quantization[] = {
    SP_ENTRY("", "QuantizeLinear", 10, 0, 2, 3, 1, 1, LINEAR_TEXT,
             "ONNX operator QuantizeLinear (10, 13, 19, 21, 23, 24, 25)", .flags = SP_OP_QUANTIZES,
             .shapes = shapes_quantize, .rule = rule_linear),
    SP_ENTRY("", "DequantizeLinear", 10, 0, 2, 3, 1, 1, LINEAR_TEXT,
             "ONNX operator DequantizeLinear (10, 13, 19, 21, 23, 24, 25)", .flags = SP_OP_DEQUANTIZES,
             .shapes = shapes_dequantize, .rule = rule_linear),
    SP_ENTRY("", "DynamicQuantizeLinear", 11, 0, 1, 1, 3, 3,
             "[d..] -> [d..] [] []; d.. max, of the negated elements too", "ONNX operator DynamicQuantizeLinear (11)",
             .shapes = shapes_dynamic, .flops = 3, .lower = sp_lower_dynamic_quantize),
    {.name = NULL},
};
