/*
 * Convolutions, pools and normalisations of pictures: ONNX Runtime's fused, quantised and channels-last ones
 * (com.microsoft), its layout variants of ai.onnx (com.ms.internal.nhwc), and QONNX's (qonnx.custom_op.channels_last).
 *
 *     FusedConv       [n, g*c, h..] [g*m, c, kh..] [g*m] [n, g*m, h..] -> [n, g*m, h..]      c whole
 *     NhwcMaxPool     [n, h.., c] -> [n, h.., c]
 *     GroupNorm       [n, h.., c] [c] [c] -> [n, h.., c]                                     h.., c whole
 *
 * Nearly all are an operator of ai.onnx on operands that lie elsewhere (ops/table/like.h). An activation or a rounding
 * behind it does not pass through sums: the channels that a convolution contracts are whole, and where windows tile an
 * axis so are their taps.
 *
 * FLOPs: those of the operator of ai.onnx.
 */
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/like.h"
#include "ops/table/shape_helpers.h"

#define DOMAIN "com.microsoft"
#define NHWC   "com.ms.internal.nhwc"
#define QONNX  "qonnx.custom_op.channels_last"
#define LIKE(...)                                                                                                      \
    .like = &(const struct sp_op_like){__VA_ARGS__}, .shapes = sp_shapes_like, .rule = sp_rule_like,                   \
    .lower = sp_lower_like
#define INPUTS(count, ...) .input_count = count, .inputs = {__VA_ARGS__}

/* ---- GroupNorm -------------------------------------------------------------------------------------------------- */

/* SkipGroupNorm gives the sum that it normalises, too. */
static enum sp_status shapes_group_norm(struct sp_op_context *context)
{
    enum sp_status status = SP_OK;
    for (uint32_t output = 0; status == SP_OK && output < context->node->output_count; output++)
        status = sp_set_output_shape(context, output, sp_in_dtype(context, 0), sp_in_shape(context, 0));
    return status;
}

static enum sp_status rule_group_norm(struct sp_op_context *context, struct sp_rule *rule)
{
    bool is_first = sp_node_int(context->node, "channels_last", 1) == 0;
    enum sp_status status =
        sp_rule_from_text(context, rule,
                          is_first ? "[n, c, h..] [c] [c] [n, c, h..] [c] -> [n, c, h..]; c, h.. whole"
                                   : "[n, h.., c] [c] [c] [n, h.., c] [c] -> [n, h.., c]; h.., c whole",
                          0, NULL);
    sp_rule_term_output(rule, sp_has_input(context, 3) ? 6 : 5);
    return status;
}

/* ---- ConvTransposeWithDynamicPads, MaxpoolWithMask, CropAndResize ------------------------------------------------- */

/* The output's extents follow from the padding, which is an input, and are known where no padding is given. */
static enum sp_status shapes_dynamic_pads(struct sp_op_context *context)
{
    enum sp_status status = sp_shapes_like(context);
    struct sp_shape *y = &context->node->outputs[0]->type.shape;
    const struct sp_data *pads = sp_in_data(context, 2);
    for (uint32_t axis = 2; status == SP_OK && sp_has_input(context, 2) && y->has_rank && axis < y->rank; axis++) {
        uint32_t low = axis - 2, high = axis - 2 + y->rank - 2;
        if (pads == NULL || pads->ints == NULL || pads->count != 2 * (y->rank - 2)) {
            y->dims[axis] = sp_dim_unknown();
            continue;
        }
        y->dims[axis] = sp_dim_sub(context->dims, y->dims[axis], pads->ints[low]);
        y->dims[axis] = sp_dim_sub(context->dims, y->dims[axis], pads->ints[high]);
        if (sp_dim_is_known(y->dims[axis]) && y->dims[axis].value < 0)
            return sp_op_fail(context, "OPERAND_SHAPE", "its padding removes more than all of axis %u", axis);
    }
    return status;
}

static enum sp_status rule_dynamic_pads(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_text_size sizes[] = {{"g", sp_dim_known(sp_node_int(context->node, "group", 1))}};
    enum sp_status status = sp_rule_from_text(
        context, rule, "[n, g*c, s..] [g*c, m, k..] [_] [g*m] -> [n, g*m, o..]; g, c, s.., k.., o.. whole", 1, sizes);
    double taps = 1;
    const struct sp_shape *w = sp_in_shape(context, 1);
    for (uint32_t axis = 2; axis < w->rank; axis++)
        taps *= sp_dim_is_known(w->dims[axis]) ? (double)w->dims[axis].value : 1;
    if (status == SP_OK && sp_rule_named(rule, "m") != SP_RULE_NO_FACTOR && sizes[0].extent.value > 1)
        rule->factors[sp_rule_named(rule, "m")].kind = SP_FACTOR_REPLICATE; /* weights of a group lie together */
    sp_rule_term_output(rule, 2 * taps);
    return status;
}

static enum sp_status shapes_crop_and_resize(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *rois = sp_in_shape(context, 1);
    const struct sp_data *size = sp_in_data(context, 3);
    bool has_size = size != NULL && size->ints != NULL && size->count == 2;
    if (x != NULL && x->rank != 4)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u instead of 4", x->rank);
    const struct sp_dim dims[] = {
        rois != NULL && rois->rank > 0 ? rois->dims[0] : sp_dim_unknown(), x != NULL ? x->dims[1] : sp_dim_unknown(),
        has_size ? size->ints[0] : sp_dim_unknown(), has_size ? size->ints[1] : sp_dim_unknown()};
    return sp_set_output(context, 0, sp_in_dtype(context, 0), 4, dims);
}

/* ---- Resize ----------------------------------------------------------------------------------------------------- */

/* Its sizes and scales are for all axes in their order here, and parts would need others. */
static enum sp_status rule_resize(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status = sp_rule_like(context, rule);
    sp_rule_make_whole(rule);
    for (uint32_t i = 0; i < rule->factor_count; i++)
        rule->factors[i].is_resized = true;
    return status;
}

/* ---- the entries ------------------------------------------------------------------------------------------------ */

#define ENTRY(domain_, name_, least, most, outputs, text, ...)                                                         \
    SP_ENTRY(domain_, name_, 1, 0, least, most, 1, outputs, text, "ONNX Runtime contrib operator " name_, __VA_ARGS__)
/* An operator of ai.onnx whose axis 1 is last, in a domain whose versions are those of ai.onnx. */
#define LAST(domain_, name_, least, most, outputs, text, signature_)                                                   \
    SP_ENTRY(domain_, name_, 1, 0, least, most, 1, outputs, text, "ONNX operator " name_ ", with its channels last",   \
             LIKE("", name_, .layout = SP_LIKE_CHANNELS_LAST), .signature = signature_)
#define CONV_TEXT                                                                                                      \
    "[n, h.., g*c] [g*m, c, kh..] [g*m] -> [n, h.., g*m]; h.. halo and kh.. whole, or kh.. sum where they tile, c sum"
#define POOL_TEXT  "[n, h.., c] -> [n, h.., c]; h.. halo and taps whole, or taps sum where they tile"
#define SAME_TEXT  "[n, h.., c] -> [n, h.., c]"
#define CONV_ATTRS "auto_pad:string='NOTSET',dilations:ints,group:int=1,kernel_shape:ints,pads:ints,strides:ints"
#define ACTIVATION "activation:string,activation_params:floats,"
#define POOL_ATTRS                                                                                                     \
    "auto_pad:string='NOTSET',ceil_mode:int=0,dilations:ints,kernel_shape!:ints,pads:ints,storage_order:int=0,"        \
    "strides:ints"
#define QUANTISED_CONV "(x,x_scale,x_zero_point,w,w_scale,w_zero_point,y_scale,y_zero_point,B?) -> (y) "
#define QUANTISED_CONV_TEXT                                                                                            \
    "[n, h.., g*c] [] [] [g*m, c, kh..] [g*m] [g*m] [] [] [g*m] -> [n, h.., g*m]; h.. halo, kh.. whole, or sum where " \
    "they tile, c "                                                                                                    \
    "sum"

#define BATCH_NORM                                                                                                     \
    "(X,scale,B,mean,var) -> (Y,mean?,var?,saved_mean?,saved_var?) {epsilon:float=1e-05,momentum:float=0.9,"           \
    "spatial:int=1,training_mode:int=0}"

const struct sp_op sp_ops_contrib_convolution[] = {
    ENTRY(DOMAIN, "FusedConv", 2, 4, 1,
          "[n, g*c, h..] [g*m, c, kh..] [g*m] [n, g*m, h..] -> [n, g*m, h..]; h.. halo, kh.., c whole",
          LIKE("", "Conv", 11, NULL, INPUTS(3, 0, 1, 2), .is_rounded = true, .broadcast = 1 << 3),
          .signature = "(X,W,B?,Z?) -> (Y) {" ACTIVATION CONV_ATTRS "}"),
    ENTRY(DOMAIN, "NhwcConv", 2, 3, 1, CONV_TEXT,
          LIKE("", "Conv", 11, .layout = SP_LIKE_CHANNELS_LAST, .has_weights_last = true),
          .signature = "(X,W,B?) -> (Y) {" CONV_ATTRS "}"),
    ENTRY(DOMAIN, "NhwcFusedConv", 2, 4, 1,
          "[n, h.., g*c] [g*m, c, kh..] [g*m] [n, h.., g*m] -> [n, h.., g*m]; h.. halo, kh.., c whole",
          LIKE("", "Conv", 11, NULL, INPUTS(3, 0, 1, 2), .layout = SP_LIKE_CHANNELS_LAST, .has_weights_last = true,
               .is_rounded = true, .broadcast = 1 << 3),
          .signature = "(X,W,B?,Z?) -> (Y) {" ACTIVATION CONV_ATTRS "}"),
    ENTRY(DOMAIN, "NhwcMaxPool", 1, 1, 1,
          "[n, h.., c] -> [n, h.., c]; h.. halo and taps whole, or taps max where they tile",
          LIKE("", "MaxPool", 12, .layout = SP_LIKE_CHANNELS_LAST), .signature = "(x) -> (y) {" POOL_ATTRS "}"),
    ENTRY(DOMAIN, "QLinearConv", 8, 9, 1, QUANTISED_CONV_TEXT ", or channels first",
          LIKE("", "QLinearConv", 10, .layout = SP_LIKE_BY_ATTRIBUTE),
          .signature = QUANTISED_CONV "{channels_last:int=0," CONV_ATTRS "}"),
    ENTRY(DOMAIN, "QLinearAveragePool", 2, 5, 1,
          "[n, c, h..] [] [] [] [] -> [n, c, h..], or channels last; h.. halo, taps whole",
          LIKE("", "AveragePool", 11, NULL, INPUTS(1, 0), .layout = SP_LIKE_BY_ATTRIBUTE, .is_rounded = true),
          .signature = "(X,x_scale,x_zero_point?,y_scale,y_zero_point?) -> (Y) {channels_last:int=0,"
                       "count_include_pad:int=0," POOL_ATTRS "}"),
    ENTRY(DOMAIN, "QLinearGlobalAveragePool", 5, 5, 1,
          "[n, c, h..] [] [] [] [] -> [n, c, 1..], or channels last; h.. whole",
          LIKE("", "GlobalAveragePool", 1, NULL, INPUTS(1, 0), .layout = SP_LIKE_BY_ATTRIBUTE, .is_rounded = true),
          .signature = "(X,x_scale,x_zero_point,y_scale,y_zero_point) -> (Y) {channels_last:int=0}"),
    ENTRY(DOMAIN, "GroupNorm", 3, 3, 1, "[n, h.., c] [c] [c] -> [n, h.., c], or channels first; h.., c whole",
          .shapes = shapes_group_norm, .rule = rule_group_norm,
          .signature = "(X,gamma,beta) -> (Y) {activation!:int,channels_last:int=1,epsilon:float=1e-05,groups!:int}"),
    ENTRY(DOMAIN, "SkipGroupNorm", 4, 5, 2,
          "[n, h.., c] [c] [c] [n, h.., c] [c] -> [n, h.., c], or channels first; h.., c whole",
          .shapes = shapes_group_norm, .rule = rule_group_norm,
          .signature = "(X,gamma,beta,skip,bias?) -> (Y,S?) {activation!:int,channels_last:int=1,epsilon:float=1e-05,"
                       "groups!:int}"),
    ENTRY(DOMAIN, "ConvTransposeWithDynamicPads", 2, 4, 1,
          "[n, g*c, s..] [g*c, m, k..] [_] [g*m] -> [n, g*m, o..]; g, c, s.., k.., o.. whole, of groups m too",
          .like = &(const struct sp_op_like){"", "ConvTranspose", 11, NULL, INPUTS(3, 0, 1, 3)},
          .shapes = shapes_dynamic_pads, .rule = rule_dynamic_pads,
          .signature = "(X,W,Pads?,B?) -> (Y) {auto_pad:string='NOTSET',dilations:ints,group:int=1,kernel_shape:ints,"
                       "output_padding:ints,strides:ints}"),
    ENTRY(DOMAIN, "MaxpoolWithMask", 2, 2, 1, "[n, c, h..] [n, c, h..] -> [n, c, o..]; h.., o.. whole",
          .like = &(const struct sp_op_like){"", "MaxPool", 8, NULL, INPUTS(1, 0)}, .shapes = sp_shapes_like,
          .flops = 1,
          .signature = "(X,M) -> (Y) {auto_pad:string='NOTSET',kernel_shape:ints,pads:ints,storage_order:int=0,"
                       "strides:ints}"),
    ENTRY(DOMAIN, "CropAndResize", 4, 4, 1, "[b, c, y, x] [n, r] [n] [_] -> [n, c, h, w]; b, y, x, r, h, w whole",
          .shapes = shapes_crop_and_resize, .flops = 8,
          .signature = "(X,rois,batch_indices,crop_size) -> (Y) {extrapolation_value:float=0.0,"
                       "mode:string='bilinear'}"),
    ENTRY(DOMAIN, "GridSample", 2, 2, 1, "[n, c, s..] [n, d.., r] -> [n, c, d..]; s.., r whole",
          LIKE("", "GridSample", 16),
          .signature = "(X,Grid) -> (Y) {align_corners:int=0,mode:string='bilinear',padding_mode:string='zeros'}"),

    LAST(NHWC, "Conv", 2, 3, 1, CONV_TEXT, "(X,W,B?) -> (Y) {" ACTIVATION CONV_ATTRS "}"),
    LAST(NHWC, "ConvTranspose", 2, 3, 1,
         "[n, h.., g*c] [g*c, m, kh..] [g*m] -> [n, h.., g*m]; h.. halo, kh.. whole, or kh.. moves where they tile, c "
         "sum",
         "(X,W,B?) -> (Y) {" ACTIVATION CONV_ATTRS ",output_padding:ints,output_shape:ints}"),
    LAST(NHWC, "QLinearConv", 8, 9, 1, QUANTISED_CONV_TEXT, QUANTISED_CONV "{" CONV_ATTRS "}"),
    LAST(NHWC, "MaxPool", 1, 1, 1, "[n, h.., c] -> [n, h.., c]; h.. halo and taps whole, or taps max where they tile",
         "(X) -> (Y) {" ACTIVATION POOL_ATTRS "}"),
    LAST(NHWC, "AveragePool", 1, 1, 1, POOL_TEXT, "(X) -> (Y) {count_include_pad:int=0," ACTIVATION POOL_ATTRS "}"),
    LAST(NHWC, "LpPool", 1, 1, 1, POOL_TEXT, "(X) -> (Y) {p:int=2," POOL_ATTRS "}"),
    LAST(NHWC, "GlobalAveragePool", 1, 1, 1, "[n, h.., c] -> [n, 1.., c]; h.. sum", "(X) -> (Y) {" ACTIVATION "}"),
    LAST(NHWC, "GlobalMaxPool", 1, 1, 1, "[n, h.., c] -> [n, 1.., c]; h.. max", "(X) -> (Y) {" ACTIVATION "}"),
    LAST(NHWC, "GlobalLpPool", 1, 1, 1, "[n, h.., c] -> [n, 1.., c]; h.. sum", "(X) -> (Y) {p:int=2}"),
    LAST(NHWC, "LRN", 1, 1, 1, SAME_TEXT "; c halo",
         "(X) -> (Y) {alpha:float=0.0001,beta:float=0.75,bias:float=1.0,size!:int}"),
    LAST(NHWC, "InstanceNormalization", 3, 3, 1, "[n, s.., c] [c] [c] -> [n, s.., c]; s.. moments",
         "(input,scale,B) -> (output) {epsilon:float=1e-05}"),
    LAST(NHWC, "BatchNormalization", 5, 5, 5,
         "[n, h.., c] [c] [c] [c] [c] -> [n, h.., c] [c]..; n, h.. moments when training", BATCH_NORM),
    LAST(NHWC, "DepthToSpace", 1, 1, 1, "[n, h, w, s*t*c] -> [n, h*s, w*t, c]",
         "(input) -> (output) {blocksize!:int,mode:string='DCR'}"),
    LAST(NHWC, "SpaceToDepth", 1, 1, 1, "[n, h*s, w*t, c] -> [n, h, w, s*t*c]",
         "(input) -> (output) {blocksize!:int,mode:string='DCR'}"),
    LAST(NHWC, "GridSample", 2, 2, 1, "[n, s.., c] [n, d.., r] -> [n, d.., c]; s.., r whole",
         "(X,grid) -> (Y) {align_corners:int=0,mode:string='linear',padding_mode:string='zeros'}"),
    SP_ENTRY(NHWC, "Resize", 10, 0, 1, 4, 1, 1, SAME_TEXT "; all whole", "ONNX operator Resize, with its channels last",
             .like = &(const struct sp_op_like){"", "Resize", .layout = SP_LIKE_CHANNELS_LAST, .lists = 7 << 1},
             .shapes = sp_shapes_like, .rule = rule_resize,
             .signature = "(X,roi?,scales?,sizes?) -> (Y) {antialias:int=0,axes:ints,"
                          "coordinate_transformation_mode:string='half_pixel',cubic_coeff_a:float=-0.75,"
                          "exclude_outside:int=0,extrapolation_value:float=0.0,"
                          "keep_aspect_ratio_policy:string='stretch',mode:string='nearest',"
                          "nearest_mode:string='round_prefer_floor'}"),
    SP_ENTRY(NHWC, "QLinearAveragePool", 1, 0, 2, 5, 1, 1,
             "[n, h.., c] [] [] [] [] -> [n, h.., c]; h.. halo, taps whole",
             "ONNX Runtime contrib operator QLinearAveragePool, with its channels last",
             LIKE("", "AveragePool", 11, NULL, INPUTS(1, 0), .layout = SP_LIKE_CHANNELS_LAST, .is_rounded = true),
             .signature = "(X,x_scale,x_zero_point?,y_scale,y_zero_point?) -> (Y) {channels_last:int=0,"
                          "count_include_pad:int=0," POOL_ATTRS "}"),

    SP_ENTRY(QONNX, "Conv", 1, 0, 2, 3, 1, 1, CONV_TEXT, "QONNX channels_last.Conv",
             LIKE("", "Conv", 11, .layout = SP_LIKE_CHANNELS_LAST), .signature = "(X,W,B?) -> (Y) {" CONV_ATTRS "}"),
    SP_ENTRY(QONNX, "MaxPool", 1, 0, 1, 1, 1, 1,
             "[n, h.., c] -> [n, h.., c]; h.. halo and taps whole, or taps max where they tile",
             "QONNX channels_last.MaxPool", LIKE("", "MaxPool", 12, .layout = SP_LIKE_CHANNELS_LAST),
             .signature = "(X) -> (Y) {" POOL_ATTRS "}"),
    SP_ENTRY(QONNX, "BatchNormalization", 1, 0, 5, 5, 1, 5,
             "[n, h.., c] [c] [c] [c] [c] -> [n, h.., c] [c]..; n, h.. moments when training",
             "QONNX channels_last.BatchNormalization",
             LIKE("", "BatchNormalization", 14, .layout = SP_LIKE_CHANNELS_LAST), .signature = BATCH_NORM),
    {.name = NULL},
};
