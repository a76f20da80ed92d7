/*
 * com.microsoft.nchwc: convolutions and pools of pictures whose channels lie in blocks, as ONNX Runtime writes them
 * into the models that it optimises for x86.
 *
 *     Conv            [n, c, s..] [m*b, c, k..] [m*b] [n, m*b, o..] -> [n, m*b, o..]      all but n, m whole
 *     MaxPool         [n, m*b, s..] -> [n, m*b, o..]
 *     ReorderInput    [n, m*b, s..] -> [n, m*b, s..], from channels first or last
 *
 * A tensor is called [N, C, H, W] and lies in memory as [N, C/b, H, W, b]: a part of it is one of whole pictures or of
 * whole blocks of channels, which lie together under both names. Weights lie in blocks of both their channels, so that
 * a part has whole blocks of those that come out. b is 8 or 16, as the processor has it; blocks of 16 are right for
 * both.
 *
 * ReorderInput fills the last block, and nothing says to how many channels unless they fill it.
 *
 * FLOPs: those of the operators of ai.onnx; of pools one for each element that comes in.
 */
#include <string.h>

#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/like.h"
#include "ops/table/shape_helpers.h"

#define DOMAIN "com.microsoft.nchwc"
#define BLOCK  16

static bool has_blocks(struct sp_op_context *context, uint32_t input, uint32_t axis)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    return shape != NULL && axis < shape->rank && sp_dim_is_known(shape->dims[axis]) &&
           shape->dims[axis].value % BLOCK == 0;
}

/* ---- Conv ------------------------------------------------------------------------------------------------------- */

static const char *form_conv(struct sp_op_context *context)
{
    const struct sp_shape *w = sp_in_shape(context, 1);
    const int64_t group = sp_node_int(context->node, "group", 1);
    const bool is_depthwise = w != NULL && w->rank > 0 && sp_dim_is_known(w->dims[0]) && w->dims[0].value == group;
    if (!has_blocks(context, 1, 0) || (group > 1 && !is_depthwise))
        return "[n, x, s..] [m, c, k..] [m] [n, m, o..] -> [n, m, o..]; x, m, c, s.., k.., o.. whole";
    if (group > 1)
        return "[n, m*b, s..] [m*b, c, k..] [m*b] [n, m*b, o..] -> [n, m*b, o..]; c, s.., k.., o.., b whole; b = 16";
    return context->node->op->text;
}

/* ---- pools, Upsample -------------------------------------------------------------------------------------------- */

static const char *form_windows(struct sp_op_context *context)
{
    return has_blocks(context, 0, 1) ? context->node->op->text : "[n, m, s..] -> [n, m, o..]; m, s.., o.. whole";
}

static const char *form_global(struct sp_op_context *context)
{
    return has_blocks(context, 0, 1) ? context->node->op->text : "[n, m, s..] -> [n, m, 1..]; m, s.. whole";
}

static enum sp_status shapes_upsample(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_dim dims[SP_MAX_RANK];
    uint32_t count = 0;
    const int64_t *scales = sp_node_ints(context->node, "scales", &count);
    if (x == NULL || scales == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    if (count != x->rank)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "it has %u scales for an input of rank %u", count, x->rank);
    for (uint32_t axis = 0; axis < count; axis++) {
        if (scales[axis] < 1)
            return sp_op_fail(context, "ATTRIBUTE_VALUE", "its scales must be positive");
        dims[axis] = sp_dim_mul(context->dims, x->dims[axis], sp_dim_known(scales[axis]));
    }
    return sp_set_output(context, 0, sp_in_dtype(context, 0), count, dims);
}

/* ---- ReorderInput, ReorderOutput -------------------------------------------------------------------------------- */

static const char *form_reorder_input(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    const bool is_last = sp_node_int(context->node, "channels_last", 0) != 0;
    if (!has_blocks(context, 0, is_last && x != NULL ? x->rank - 1 : 1))
        return is_last ? "[n, s.., c] -> [n, _, s..]; c, s.. whole" : "[n, c, s..] -> [n, _, s..]; c, s.. whole";
    return is_last ? "[n, s.., m*b] -> [n, m*b, s..]; s.., b whole; b = 16" : context->node->op->text;
}

static const char *form_reorder_output(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    const bool is_last = sp_node_int(context->node, "channels_last", 0) != 0;
    if (!has_blocks(context, 0, 1) || x->dims[1].value != sp_node_int(context->node, "channels", 0))
        return is_last ? "[n, c, s..] -> [n, s.., m]; c, s.., m whole; m = channels"
                       : "[n, c, s..] -> [n, m, s..]; c, s.., m whole; m = channels";
    return is_last ? "[n, m*b, s..] -> [n, s.., m*b]; s.., b whole; b = 16" : context->node->op->text;
}

/* ---- the entries ------------------------------------------------------------------------------------------------ */

#define ENTRY(name_, most, text, ...)                                                                                  \
    SP_ENTRY(DOMAIN, name_, 1, 0, 1, most, 1, 1, text, "ONNX Runtime " DOMAIN "." name_, __VA_ARGS__)
#define SHAPES_LIKE(...) .like = &(const struct sp_op_like){__VA_ARGS__}, .shapes = sp_shapes_like
#define WINDOW_ATTRS     "auto_pad:string='NOTSET',dilations:ints,pads:ints,strides:ints,"
#define POOL(name_, version, more)                                                                                     \
    ENTRY(name_, 1, "[n, m*b, s..] -> [n, m*b, o..]; s.., o.., b whole; b = 16", SHAPES_LIKE("", name_, version),      \
          .form = form_windows, .work = "n*m*b*s..",                                                                   \
          .signature = "(X) -> (Y) {" WINDOW_ATTRS "kernel_shape!:ints,ceil_mode:int=0," more "}")
#define GLOBAL_POOL(name_)                                                                                             \
    ENTRY(name_, 1, "[n, m*b, s..] -> [n, m*b, 1..]; s.., b whole; b = 16", SHAPES_LIKE("", name_, 1),                 \
          .form = form_global, .work = "n*m*b*s..", .signature = "(X) -> (Y) {}")

const struct sp_op sp_ops_nchwc[] = {
    SP_ENTRY(DOMAIN, "Conv", 1, 0, 2, 4, 1, 1,
             "[n, x, s..] [m*b, c, k..] [m*b] [n, m*b, o..] -> [n, m*b, o..]; x, c, s.., k.., o.., b whole; b = 16",
             "ONNX Runtime " DOMAIN ".Conv", SHAPES_LIKE("", "Conv", 11, NULL, .input_count = 3, .inputs = {0, 1, 2}),
             .form = form_conv, .work = "2*n*m*b*o..*c*k..", .lower = sp_lower_nchwc,
             .signature = "(X,W,B?,Sum?) -> (Y) {" WINDOW_ATTRS
                          "activation:string,activation_params:floats,group:int=1,kernel_shape:ints}"),
    POOL("MaxPool", 12, "storage_order:int=0"),
    POOL("AveragePool", 11, "count_include_pad:int=0"),
    GLOBAL_POOL("GlobalMaxPool"),
    GLOBAL_POOL("GlobalAveragePool"),
    ENTRY("Upsample", 1, "[n, m*b, s..] -> [n, m*b, o..]; s.., o.., b whole; b = 16", .shapes = shapes_upsample,
          .form = form_windows, .work = "4*n*m*b*o..",
          .signature = "(X) -> (Y) {coordinate_transformation_mode:string='asymmetric',mode:string='nearest',"
                       "scales:ints}"),
    ENTRY("ReorderInput", 1, "[n, m*b, s..] -> [n, m*b, s..]; s.., b whole; b = 16", .shapes = sp_shapes_from_text,
          .form = form_reorder_input, .signature = "(X) -> (Y) {channels_last:int=0}"),
    ENTRY("ReorderOutput", 1, "[n, m*b, s..] -> [n, m*b, s..]; s.., b whole; b = 16", .shapes = sp_shapes_from_text,
          .form = form_reorder_output, .lower = sp_lower_nchwc,
          .signature = "(X) -> (Y) {channels:int=0,channels_last:int=0}"),
    {.name = NULL},
};
