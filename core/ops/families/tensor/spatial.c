/*
 * Operators that move elements between channels and space.
 *
 *     DepthToSpace DCR   [n, b1*b2*c, h, w] -> [n, c, h*b1, w*b2]
 *     DepthToSpace CRD   [n, c*b1*b2, h, w] -> [n, c, h*b1, w*b2]
 *     SpaceToDepth DCR   [n, c, h*b1, w*b2] -> [n, b1*b2*c, h, w]
 *     SpaceToDepth CRD   [n, c, h*b1, w*b2] -> [n, c*b1*b2, h, w]     since operator set 28
 *     Col2Im             [n, c*kh*kw, l]    -> [n, c, h, w]          l, kh and kw sum
 *
 * The compound axes say which cuts line up: a cut of h goes with one of h*b1, and one of the channels with a channel
 * axis only where c is its major factor (CRD).
 *
 * Col2Im adds the columns of all windows into the image. Where the windows tile it (no padding, strides and kernel the
 * same) nothing is added, and the axes are compounds: [n, c*kh*kw, h*w] -> [n, c, h*kh, w*kw].
 *
 * FLOPs: none for what moves only; Col2Im adds each input element once.
 */
#include <string.h>

#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

/* ---- DepthToSpace, SpaceToDepth ------------------------------------------------------------------------------- */

static enum sp_status read_block(struct sp_op_context *context, const struct sp_shape *x, int64_t *ret_block)
{
    int64_t block = sp_node_int(context->node, "blocksize", 0);
    if (block < 1 || block > INT32_MAX)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'blocksize' must be given and positive");
    if (x != NULL && x->rank != 4)
        return sp_op_fail(context, "OPERAND_SHAPE", "the input has rank %u instead of 4", x->rank);
    *ret_block = block;
    return SP_OK;
}

/* extent / divisor; SP_ERR_MODEL for numbers that do not divide. */
static enum sp_status divide(struct sp_op_context *context, uint32_t axis, struct sp_dim extent, int64_t divisor,
                             struct sp_dim *ret_dim)
{
    if (sp_dim_is_known(extent) && extent.value % divisor != 0)
        return sp_op_fail(context, "OPERAND_SHAPE", "the %lld elements of axis %u do not divide by %lld",
                          (long long)extent.value, axis, (long long)divisor);
    struct sp_dim exact = sp_dim_exact_div(context->dims, extent, sp_dim_known(divisor));
    *ret_dim = exact.kind != SP_DIM_UNKNOWN ? exact : sp_dim_floordiv(context->dims, extent, sp_dim_known(divisor));
    return SP_OK;
}

static enum sp_status shapes_depth_to_space(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_dim dims[4] = {{0}};
    int64_t block = 1;
    enum sp_status status = read_block(context, x, &block);
    if (status == SP_OK && x != NULL) {
        struct sp_dim step = sp_dim_known(block);
        dims[0] = x->dims[0];
        status = divide(context, 1, x->dims[1], block * block, &dims[1]);
        dims[2] = sp_dim_mul(context->dims, x->dims[2], step);
        dims[3] = sp_dim_mul(context->dims, x->dims[3], step);
    }
    return status != SP_OK ? status : sp_set_output(context, 0, sp_in_dtype(context, 0), 4, dims);
}

static enum sp_status shapes_space_to_depth(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_dim dims[4] = {{0}};
    int64_t block = 1;
    enum sp_status status = read_block(context, x, &block);
    if (status == SP_OK && x != NULL) {
        dims[0] = x->dims[0];
        dims[1] = sp_dim_mul(context->dims, x->dims[1], sp_dim_known(block * block));
        status = divide(context, 2, x->dims[2], block, &dims[2]);
        if (status == SP_OK)
            status = divide(context, 3, x->dims[3], block, &dims[3]);
    }
    return status != SP_OK ? status : sp_set_output(context, 0, sp_in_dtype(context, 0), 4, dims);
}

/* Rows and columns of blocks are cut apart from the blocks' own. */
static enum sp_status rule_blocks(struct sp_op_context *context, struct sp_rule *rule, const char *text)
{
    struct sp_dim open = sp_dim_unknown(), block = sp_dim_known(sp_node_int(context->node, "blocksize", 1));
    const struct sp_text_size sizes[] = {{"n", open}, {"c", open}, {"b1", block}, {"b2", block}};
    return sp_rule_from_text(context, rule, text, sizeof sizes / sizeof sizes[0], sizes);
}

static bool is_crd(const struct sp_node *node)
{
    return strcmp(sp_node_string(node, "mode", "DCR"), "CRD") == 0;
}

static enum sp_status rule_depth_to_space(struct sp_op_context *context, struct sp_rule *rule)
{
    return rule_blocks(context, rule,
                       is_crd(context->node) ? "[n, c*b1*b2, h, w] -> [n, c, h*b1, w*b2]"
                                             : "[n, b1*b2*c, h, w] -> [n, c, h*b1, w*b2]");
}

static enum sp_status rule_space_to_depth(struct sp_op_context *context, struct sp_rule *rule)
{
    return rule_blocks(context, rule,
                       is_crd(context->node) ? "[n, c, h*b1, w*b2] -> [n, c*b1*b2, h, w]"
                                             : "[n, c, h*b1, w*b2] -> [n, b1*b2*c, h, w]");
}

/* ---- Col2Im --------------------------------------------------------------------------------------------------- */

/* The image and the block are inputs; only their extents are read. */
struct columns {
    uint32_t rank; /* spatial axes; 0 when not known */
    struct sp_list image, block;
};

static enum sp_status read_columns(struct sp_op_context *context, struct columns *ret_columns)
{
    struct columns columns = {0};
    const struct sp_shape *x = sp_in_shape(context, 0);
    if (x != NULL && x->rank != 3)
        return sp_op_fail(context, "OPERAND_SHAPE", "the input has rank %u instead of 3", x->rank);
    enum sp_status status = sp_get_list(context, "image_shape", 1, 1, &columns.image);
    if (status == SP_OK)
        status = sp_get_list(context, "block_shape", 1, 2, &columns.block);
    if (status != SP_OK)
        return status;
    if (columns.image.has_count && columns.block.has_count && columns.image.count != columns.block.count)
        return sp_op_fail(context, "SHAPES_DISAGREE", "its image has %u axes and its blocks have %u",
                          columns.image.count, columns.block.count);
    if (columns.image.has_count)
        columns.rank = columns.image.count;
    else if (columns.block.has_count)
        columns.rank = columns.block.count;
    if (columns.rank + 2 > SP_MAX_RANK)
        columns.rank = 0;
    *ret_columns = columns;
    return SP_OK;
}

static struct sp_dim list_item(const struct sp_list *list, uint32_t i)
{
    return list->has_values && i < list->count ? list->values[i] : sp_dim_unknown();
}

static enum sp_status shapes_col2im(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_dim dims[SP_MAX_RANK] = {{0}}, taps = sp_dim_known(1);
    struct columns columns = {0};
    enum sp_status status = read_columns(context, &columns);
    if (status != SP_OK)
        return status;
    if (columns.rank == 0)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    for (uint32_t i = 0; i < columns.rank; i++) {
        taps = sp_dim_mul(context->dims, taps, list_item(&columns.block, i));
        dims[2 + i] = list_item(&columns.image, i);
    }
    if (x != NULL) {
        dims[0] = x->dims[0];
        if (sp_dim_is_known(taps) && taps.value < 1)
            return sp_op_fail(context, "OPERAND_VALUE", "its blocks have no elements");
        if (sp_dim_is_known(taps))
            status = divide(context, 1, x->dims[1], taps.value, &dims[1]);
    }
    return status != SP_OK ? status : sp_set_output(context, 0, sp_in_dtype(context, 0), columns.rank + 2, dims);
}

/* Whether the windows tile the image, so that each element of it comes from one column. */
static bool is_tiled(const struct sp_op_context *context, const struct columns *columns)
{
    const struct sp_dim *image = context->node->outputs[0]->type.shape.dims + 2;
    uint32_t pad_count, stride_count, dilation_count;
    const int64_t *pads = sp_node_ints(context->node, "pads", &pad_count);
    const int64_t *strides = sp_node_ints(context->node, "strides", &stride_count);
    const int64_t *dilations = sp_node_ints(context->node, "dilations", &dilation_count);
    for (uint32_t i = 0; pads != NULL && i < pad_count; i++) {
        if (pads[i] != 0)
            return false;
    }
    for (uint32_t i = 0; i < columns->rank; i++) {
        struct sp_dim kernel = list_item(&columns->block, i);
        int64_t stride = strides != NULL && i < stride_count ? strides[i] : 1;
        int64_t dilation = dilations != NULL && i < dilation_count ? dilations[i] : 1;
        bool fits = sp_dim_is(kernel, stride) && (dilation == 1 || stride == 1) && sp_dim_is_known(image[i]) &&
                    image[i].value % kernel.value == 0;
        if (!fits)
            return false;
    }
    return true;
}

static void map_tiles(struct sp_op_context *context, struct sp_rule *rule, const struct columns *columns)
{
    const struct sp_shape *y = &context->node->outputs[0]->type.shape;
    char name[SP_FACTOR_NAME_SIZE];
    for (uint32_t i = 0; i < columns->rank; i++) {
        int64_t kernel = columns->block.values[i].value;
        sp_window_axis_name(name, "", columns->rank, i);
        uint8_t place = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, sp_dim_known(y->dims[2 + i].value / kernel));
        sp_window_axis_name(name, "k", columns->rank, i);
        uint8_t tap = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, columns->block.values[i]);
        sp_rule_map_input(rule, 0, 1, tap);
        sp_rule_map_input(rule, 0, 2, place);
        sp_rule_map_output(rule, 0, 2 + i, place);
        sp_rule_map_output(rule, 0, 2 + i, tap);
    }
}

/* Windows overlap: a device that has some of the columns has a partial image; one that makes a part of the image needs
   all columns. */
static void map_sums(struct sp_op_context *context, struct sp_rule *rule, const struct columns *columns,
                     struct sp_factor_list *work)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    char name[SP_FACTOR_NAME_SIZE];
    for (uint32_t i = 0; i < columns->rank; i++) {
        sp_window_axis_name(name, "k", columns->rank, i);
        uint8_t tap = sp_factor_reduction(rule, name, list_item(&columns->block, i), SP_COMBINE_SUM);
        sp_rule_map_input(rule, 0, 1, tap);
        sp_factor_list_add(work, tap);
        sp_window_axis_name(name, "", columns->rank, i);
        (void)sp_rule_output_axis(context, rule, 'o', 0, 2 + i, SP_FACTOR_PARALLEL);
    }
    uint8_t places = sp_factor_reduction(rule, "l", x->dims[2], SP_COMBINE_SUM);
    sp_rule_map_input(rule, 0, 2, places);
    sp_factor_list_add(work, places);
}

static enum sp_status rule_col2im(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *y = &context->node->outputs[0]->type.shape;
    struct sp_factor_list work = {0};
    struct columns columns = {0};
    enum sp_status status = read_columns(context, &columns);
    if (status != SP_OK || columns.rank == 0)
        return status;
    uint8_t n = sp_rule_factor(rule, "n", SP_FACTOR_PARALLEL, y->dims[0]);
    uint8_t c = sp_rule_factor(rule, "c", SP_FACTOR_PARALLEL, y->dims[1]);
    sp_rule_map_input(rule, 0, 0, n);
    sp_rule_map_input(rule, 0, 1, c);
    sp_rule_map_output(rule, 0, 0, n);
    sp_rule_map_output(rule, 0, 1, c);
    if (is_tiled(context, &columns)) {
        map_tiles(context, rule, &columns);
        sp_rule_term_output(rule, 1);
        return SP_OK;
    }
    sp_factor_list_add(&work, n);
    sp_factor_list_add(&work, c);
    map_sums(context, rule, &columns, &work);
    sp_rule_term_list(rule, 1, &work);
    return SP_OK;
}

const struct sp_op sp_ops_spatial[] = {
    SP_ENTRY("", "DepthToSpace", 1, 0, 1, 1, 1, 1,
             "[n, b1*b2*c, h, w] -> [n, c, h*b1, w*b2]; with mode CRD [n, c*b1*b2, h, w]", "ONNX operator DepthToSpace",
             .flags = SP_OP_PERMUTES, .shapes = shapes_depth_to_space, .rule = rule_depth_to_space,
             .lower = sp_lower_node_depth_to_space),
    SP_ENTRY("", "SpaceToDepth", 1, 0, 1, 1, 1, 1,
             "[n, c, h*b1, w*b2] -> [n, b1*b2*c, h, w]; with mode CRD [n, c*b1*b2, h, w]", "ONNX operator SpaceToDepth",
             .flags = SP_OP_PERMUTES, .shapes = shapes_space_to_depth, .rule = rule_space_to_depth,
             .lower = sp_lower_node_space_to_depth),
    SP_ENTRY("", "Col2Im", 18, 0, 3, 3, 1, 1, "[n, c*kh.., l] [_] [_] -> [n, c, h..]; l, kh.. sum",
             "ONNX operator Col2Im", .shapes = shapes_col2im, .rule = rule_col2im, .lower = sp_lower_col2im),
    {.name = NULL},
};
