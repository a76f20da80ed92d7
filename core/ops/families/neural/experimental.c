/*
 * Operators that ai.onnx had as experiments up to version 9, and that files of WinML's converters and runtimes still
 * have.
 *
 *     Affine, Scale, ScaledTanh, ParametricSoftplus    [i..] -> [i..]
 *     ImageScaler                                      [n, c, h..] -> [n, c, h..]         c whole: the bias is a list
 *     Crop                                             [n, c, h, w] -> [n, c, h', w']     h, w whole
 *     DynamicSlice                                     as Slice
 *     MeanVarianceNormalization                        [n, c, h..] -> [n, c, h..]         n, h.. whole, c too across channels
 *
 * FLOPs: 1 for each element, 2 with a bias, 5 for a normalisation.
 */
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/like.h"
#include "ops/table/shape_helpers.h"

static enum sp_status shapes_same(struct sp_op_context *context)
{
    return sp_set_output_shape(context, 0, sp_in_dtype(context, 0), sp_in_shape(context, 0));
}

/* `border` is what is cut off at the left, the top, the right and the bottom; `scale` is the height and the width that
   are kept from there. */
static enum sp_status shapes_crop(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    uint32_t borders, scales;
    const int64_t *border = sp_node_ints(context->node, "border", &borders);
    const int64_t *scale = sp_node_ints(context->node, "scale", &scales);
    if (x == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    if (x->rank != 4 || border == NULL || borders != 4)
        return sp_op_fail(context, "OPERAND_SHAPE", "it crops images of rank 4 by an attribute 'border' of 4 items");
    struct sp_dim dims[] = {x->dims[0], x->dims[1], x->dims[2], x->dims[3]};
    for (uint32_t i = 0; i < 2; i++) {
        if (scale != NULL && scales == 2) {
            dims[2 + i] = sp_dim_known(scale[i]);
            continue;
        }
        dims[2 + i] = sp_dim_sub(context->dims, dims[2 + i], sp_dim_known(border[1 - i]));
        dims[2 + i] = sp_dim_sub(context->dims, dims[2 + i], sp_dim_known(border[3 - i]));
        if (sp_dim_is_known(dims[2 + i]) && dims[2 + i].value < 0)
            return sp_op_fail(context, "OPERAND_SHAPE", "its border is larger than the image");
    }
    return sp_set_output(context, 0, sp_in_dtype(context, 0), 4, dims);
}

static enum sp_status rule_mean_variance(struct sp_op_context *context, struct sp_rule *rule)
{
    bool is_across = sp_node_int(context->node, "across_channels", 0) != 0;
    enum sp_status status = sp_rule_from_text(
        context, rule, is_across ? "[n, c, h..] -> [n, c, h..]; all whole" : "[n, c, h..] -> [n, c, h..]; n, h.. whole",
        0, NULL);
    sp_rule_term_output(rule, 5);
    return status;
}

#define EXPERIMENT(name_, text_, flops_, flags_, shapes_, signature_)                                                  \
    SP_ENTRY("", name_, 1, 0, 1, 1, 1, 1, text_, "ONNX Runtime, experimental operator " name_ " of ai.onnx 1",         \
             .flags = flags_, .shapes = shapes_, .flops = flops_, .signature = signature_)

const struct sp_op sp_ops_experimental[] = {
    EXPERIMENT("Affine", "[i..] -> [i..]", 2, 0, shapes_same, "(X) -> (Y) {alpha:float=1.0,beta:float=0.0}"),
    EXPERIMENT("Scale", "[i..] -> [i..]", 1, 0, shapes_same, "(input) -> (output) {scale:float=1.0}"),
    EXPERIMENT("ScaledTanh", "[i..] -> [i..]", 1, SP_OP_FUNCTION, shapes_same,
               "(input) -> (output) {alpha!:float,beta!:float}"),
    EXPERIMENT("ParametricSoftplus", "[i..] -> [i..]", 1, SP_OP_FUNCTION, shapes_same,
               "(X) -> (Y) {alpha!:float,beta!:float}"),
    EXPERIMENT("ImageScaler", "[n, c, h..] -> [n, c, h..]; c whole", 2, 0, shapes_same,
               "(input) -> (output) {bias!:floats,scale:float=1.0}"),
    EXPERIMENT("Crop", "[n, c, y, x] -> [n, c, h, w]; y, x, h, w whole", 0, 0, shapes_crop,
               "(input) -> (output) {border!:ints,scale:ints}"),
    SP_ENTRY("", "DynamicSlice", 1, 9, 3, 4, 1, 1,
             "[d.., i] [_] [_] [_] -> [d.., i]; i moves, or is whole where its bounds are not known",
             "ONNX Runtime, experimental operator DynamicSlice of ai.onnx 1",
             .like = &(const struct sp_op_like){"", "Slice", 10, .keeps_values = true}, .shapes = sp_shapes_like,
             .rule = sp_rule_like, .lower = sp_lower_like, .signature = "(data,starts,ends,axes?) -> (output) {}"),
    SP_ENTRY("", "ThresholdedRelu", 1, 9, 1, 1, 1, 1, "[i..] -> [i..]",
             "ONNX Runtime, experimental operator ThresholdedRelu of ai.onnx 1", .shapes = shapes_same, .flops = 1,
             .signature = "(X) -> (Y) {alpha:float=1.0}"),
    SP_ENTRY("", "MeanVarianceNormalization", 1, 8, 1, 1, 1, 1,
             "[n, c, h..] -> [n, c, h..]; n, h.. whole, c too across channels",
             "ONNX Runtime, experimental operator MeanVarianceNormalization of ai.onnx 1", .shapes = shapes_same,
             .rule = rule_mean_variance,
             .signature = "(input) -> (output) {across_channels:int=0,normalize_variance:int=1}"),
    {.name = NULL},
};
