/*
 * Quantised operators of ONNX Runtime (com.microsoft) but convolutions and pools.
 *
 *     QLinearAdd               [i..] [] [] [i..] [] [] [] []             -> [i..]
 *     QGemm                    [m, k] [] [] [k, n] [n] [n] [m, n] [] []  -> [m, n]      k sum
 *     MatMulIntegerToFloat     [b.., m, k] [b.., k, n] [] [n] [] [n] [n] -> [b.., m, n] k sum
 *     DynamicQuantizeMatMul    [b.., m, k] [b.., k, n] [n] [n] [n]       -> [b.., m, n] b.., m, k max, k sum
 *
 * Most are an operator of ai.onnx between scales and zero points (ops/table/like.h). A result that is rounded to 8 bits
 * cannot be summed behind that, so what the operator reduces is whole. Products are sums: of integers, before what comes
 * of them is rounded.
 *
 * DynamicQuantizeMatMul first finds the least and the greatest element of A, of all devices: whatever splits A leaves
 * partial extremes. QOrdered.. and ..WithOrder lay elements out as cublasLt wants them, and are whole.
 *
 * FLOPs: those of the operator that is quantised.
 */
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/like.h"
#include "ops/table/shape_helpers.h"

#define DOMAIN "com.microsoft"
#define LIKE(...)                                                                                                      \
    .like = &(const struct sp_op_like){__VA_ARGS__}, .shapes = sp_shapes_like, .rule = sp_rule_like,                   \
    .lower = sp_lower_like
#define INPUTS(count, ...) .input_count = count, .inputs = {__VA_ARGS__}

/* ---- products --------------------------------------------------------------------------------------------------- */

enum { GEMM_Y_ZERO = 8 };

/* Without a zero point for it the result is not quantised. */
static enum sp_status shapes_qgemm(struct sp_op_context *context)
{
    enum sp_status status = sp_shapes_like(context);
    if (status == SP_OK && !sp_has_input(context, GEMM_Y_ZERO) && context->node->outputs[0] != NULL)
        context->node->outputs[0]->type.dtype = SP_DTYPE_FLOAT;
    return status;
}

/* The axes of A but the contracted one, which is a sum, too, are reduced to extremes and stay in the result. */
static enum sp_status rule_dynamic_matmul(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status = sp_rule_like(context, rule);
    for (uint32_t axis = 0; status == SP_OK && axis + 1 < rule->inputs[0].rank; axis++) {
        for (uint8_t i = 0; i < rule->inputs[0].axes[axis].count; i++) {
            struct sp_factor *factor = &rule->factors[rule->inputs[0].axes[axis].factors[i]];
            factor->kind = SP_FACTOR_REDUCTION;
            factor->combiner = SP_COMBINE_MAX;
        }
    }
    return status;
}

/* float32 unless the attribute says otherwise. */
static enum sp_status shapes_from_order(struct sp_op_context *context)
{
    enum sp_dtype dtype = SP_DTYPE_FLOAT;
    enum sp_status status = sp_get_dtype(context, "to", SP_DTYPE_FLOAT, &dtype);
    return status != SP_OK ? status : sp_set_output_shape(context, 0, dtype, sp_in_shape(context, 0));
}

/* uint8 adds up to uint32, int8 to int32. */
static enum sp_status shapes_sum_integer(struct sp_op_context *context)
{
    enum sp_status status = sp_shapes_like(context);
    if (status == SP_OK && context->node->outputs[0] != NULL)
        context->node->outputs[0]->type.dtype =
            sp_in_dtype(context, 0) == SP_DTYPE_UINT8 ? SP_DTYPE_UINT32 : SP_DTYPE_INT32;
    return status;
}

/* ---- layouts of cublasLt, blocks of floating point ---------------------------------------------------------------- */

/* The tiles of a layout lie across all axes. */
static enum sp_status rule_ordered(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status = sp_rule_like(context, rule);
    sp_rule_make_whole(rule);
    return status;
}

static enum sp_status shapes_quantize_bfp(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    const struct sp_dim open = sp_dim_unknown(), rank = x != NULL ? sp_dim_known(x->rank) : open;
    enum sp_status status = sp_set_output(context, 0, SP_DTYPE_UINT8, 1, &open);
    for (uint32_t output = 1; status == SP_OK && output < 3; output++)
        status = sp_set_output(context, output, SP_DTYPE_INT64, 1, &rank);
    return status != SP_OK || x == NULL ? status : sp_set_data_ints(context, 1, x->rank, x->dims);
}

static enum sp_status shapes_dequantize_bfp(struct sp_op_context *context)
{
    const struct sp_data *shape = sp_in_data(context, 1);
    enum sp_dtype dtype = SP_DTYPE_FLOAT;
    enum sp_status status = sp_get_dtype(context, "dtype", SP_DTYPE_FLOAT, &dtype);
    if (status != SP_OK || shape == NULL || shape->ints == NULL)
        return status != SP_OK ? status : sp_set_output_unranked(context, 0, dtype);
    return sp_set_output(context, 0, dtype, shape->count, shape->ints);
}

/* ---- DynamicQuantizeLSTM ---------------------------------------------------------------------------------------- */

enum { LSTM_X, LSTM_W, LSTM_R };

static struct sp_dim hidden_of(struct sp_op_context *context)
{
    const struct sp_shape *r = sp_in_shape(context, LSTM_R);
    int64_t size = sp_node_int(context->node, "hidden_size", 0);
    return size > 0 ? sp_dim_known(size) : r != NULL ? r->dims[1] : sp_dim_unknown();
}

static enum sp_status shapes_dynamic_lstm(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, LSTM_X);
    for (uint32_t input = LSTM_X; input <= LSTM_R; input++) {
        enum sp_status status = sp_check_rank(context, input, 3);
        if (status != SP_OK)
            return status;
    }
    const struct sp_shape *w = sp_in_shape(context, LSTM_W);
    struct sp_dim steps = x != NULL ? x->dims[0] : sp_dim_unknown(), batch = x != NULL ? x->dims[1] : sp_dim_unknown();
    struct sp_dim directions = w != NULL ? w->dims[0] : sp_dim_unknown();
    const struct sp_dim all[] = {steps, directions, batch, hidden_of(context)};
    enum sp_status status = sp_set_output(context, 0, sp_in_dtype(context, LSTM_X), 4, all);
    for (uint32_t output = 1; status == SP_OK && output < 3; output++)
        status = sp_set_output(context, output, sp_in_dtype(context, LSTM_X), 3, all + 1);
    return status;
}

/* What the gates take is quantised anew in each step, by the extremes of the whole batch. */
static enum sp_status rule_dynamic_lstm(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_text_size sizes[] = {{"h", hidden_of(context)}};
    enum sp_status status = sp_rule_from_text(context, rule, context->node->op->text, 1, sizes);
    sp_rule_term_named(rule, 2, "t b d i gates");
    sp_rule_term_named(rule, 2, "t b d h gates");
    return status;
}

#define MATH_SIGNATURE  "(A,A_scale,A_zero_point?,B,B_scale,B_zero_point?,C_scale,C_zero_point?) -> (C) {}"
#define UNARY_SIGNATURE "(X,X_scale,X_zero_point?,Y_scale,Y_zero_point?) -> (Y) "
#define LINEAR_TEXT     "[d..] [] [] -> [d..]; on one axis [a] [a] or blocks of it [d.., b*w] [d.., b] [d.., b]; w whole"
#define ENTRY(name_, least, most, outputs, text, ...)                                                                  \
    SP_ENTRY(DOMAIN, name_, 1, 0, least, most, 1, outputs, text, "ONNX Runtime contrib operator " name_, __VA_ARGS__)

const struct sp_op sp_ops_contrib_quantization[] = {
    ENTRY("QuantizeLinear", 2, 3, 1, LINEAR_TEXT, LIKE("", "QuantizeLinear", 21), .flags = SP_OP_QUANTIZES,
          .signature = "(x,y_scale,y_zero_point?) -> (y) {axis:int,block_size:int=0}"),
    ENTRY("DequantizeLinear", 2, 3, 1, LINEAR_TEXT, LIKE("", "DequantizeLinear", 21), .flags = SP_OP_DEQUANTIZES,
          .signature = "(x,x_scale,x_zero_point?) -> (y) {axis:int,block_size:int=0}"),
    ENTRY("QLinearAdd", 2, 8, 1, "[i..] [] [] [i..] [] [] [] [] -> [i..]", LIKE("", "Add", 14, NULL, INPUTS(2, 0, 3)),
          .signature = MATH_SIGNATURE),
    ENTRY("QLinearMul", 2, 8, 1, "[i..] [] [] [i..] [] [] [] [] -> [i..]", LIKE("", "Mul", 14, NULL, INPUTS(2, 0, 3)),
          .signature = MATH_SIGNATURE),
    ENTRY("MulInteger", 1, 4, 1, "[i..] [] [i..] [] -> [i..]",
          LIKE("", "Mul", 14, NULL, INPUTS(2, 0, 2), .dtype = SP_DTYPE_INT32),
          .signature = "(A,A_zero_point?,B,B_zero_point?) -> (C) {}"),
    ENTRY("QLinearWhere", 9, 9, 1, "[i..] [i..] [] [] [i..] [] [] [] [] -> [i..]",
          LIKE("", "Where", 16, NULL, INPUTS(3, 0, 1, 4)),
          .signature = "(condition,X,x_scale,x_zero_point,Y,y_scale,y_zero_point,z_scale,z_zero_point) -> (Z) {}"),
    ENTRY("QLinearLeakyRelu", 2, 5, 1, "[i..] [] [] [] [] -> [i..]", LIKE("", "LeakyRelu", 16, NULL, INPUTS(1, 0)),
          .signature = UNARY_SIGNATURE "{alpha:float=0.01}"),
    ENTRY("QLinearSigmoid", 2, 5, 1, "[i..] [] [] [] [] -> [i..]", LIKE("", "Sigmoid", 13, NULL, INPUTS(1, 0)),
          .flags = SP_OP_FUNCTION, .signature = UNARY_SIGNATURE "{}"),
    ENTRY("QLinearSoftmax", 2, 5, 1, "[i.., j..] [] [] [] [] -> [i.., j..]; j.. whole",
          LIKE("", "Softmax", 13, "opset", INPUTS(1, 0), .is_rounded = true), .flags = SP_OP_FUNCTION,
          .signature = "(X,X_scale,x_zero_point?,y_scale,y_zero_point) -> (Y) {axis:int=-1,opset!:int}"),
    ENTRY("QLinearReduceMean", 2, 5, 1, "[i.., j..] [] [] [] [] -> [i..]; j.. whole",
          LIKE("", "ReduceMean", 13, NULL, INPUTS(1, 0), .is_rounded = true),
          .signature = "(data,data_scale,data_zero_point?,reduced_scale,reduced_zero_point?) -> (reduced) "
                       "{axes!:ints,keepdims!:int}"),
    ENTRY("ReduceSumInteger", 1, 1, 1, "[i.., j..] -> [i..]; j.. sum",
          .like = &(const struct sp_op_like){"", "ReduceSum", 11}, .shapes = shapes_sum_integer, .rule = sp_rule_like,
          .signature = "(data) -> (reduced) {axes!:ints,keepdims!:int}"),
    ENTRY("QLinearConcat", 5, UINT32_MAX, 1,
          "[] [] [d.., i] [] [] .. -> [d.., piece*i]; pieces whole, of other extents i too",
          LIKE("", "Concat", 13, NULL, .inputs = {2}, .step = 3),
          .signature = "(Y_scale,Y_zero_point,*inputs) -> (Y) {axis!:int}"),
    ENTRY("QGemm", 6, 9, 1, "[m, k] [] [] [k, n] [n] [n] [m, n] [] [] -> [m, n], either transposed; k sum",
          .like = &(const struct sp_op_like){"", "Gemm", 13, NULL, INPUTS(3, 0, 3, 6), .typed_by = GEMM_Y_ZERO,
                                             .broadcast = 1 << 4 | 1 << 5},
          .shapes = shapes_qgemm, .rule = sp_rule_like, .lower = sp_lower_qgemm,
          .signature = "(A,a_scale,a_zero_point,B,b_scale,b_zero_point,C?,y_scale?,y_zero_point?) -> (Y) "
                       "{alpha:float=1.0,transA:int=0,transB:int=0}"),
    ENTRY("MatMulInteger16", 2, 2, 1, "[b.., m, k] [b.., k, n] -> [b.., m, n]; k sum",
          LIKE("", "MatMul", 13, NULL, .dtype = SP_DTYPE_INT32), .signature = "(A,B) -> (Y) {}"),
    ENTRY("MatMulIntegerToFloat", 4, 7, 1, "[b.., m, k] [b.., k, n] [] [n] [] [n] [n] -> [b.., m, n]; k sum",
          .like = &(const struct sp_op_like){"", "MatMul", 13, NULL, INPUTS(2, 0, 1), .typed_by = 2,
                                             .broadcast = 1 << 3 | 1 << 5 | 1 << 6},
          .shapes = sp_shapes_like, .rule = sp_rule_like, .lower = sp_lower_matmul_to_float,
          .signature = "(A,B,a_scale,b_scale,a_zero_point?,b_zero_point?,bias?) -> (Y) {}"),
    ENTRY("DynamicQuantizeMatMul", 3, 5, 1,
          "[b.., m, k] [b.., k, n] [n] [n] [n] -> [b.., m, n]; k sum, b.., m, k max, of the negated elements too",
          .like = &(const struct sp_op_like){"", "MatMul", 13, NULL, INPUTS(2, 0, 1),
                                             .broadcast = 1 << 2 | 1 << 3 | 1 << 4},
          .shapes = sp_shapes_like, .rule = rule_dynamic_matmul, .lower = sp_lower_dynamic_matmul,
          .signature = "(A,B,b_scale,b_zero_point?,bias?) -> (Y) {}"),
    ENTRY("DynamicQuantizeLSTM", 3, 12, 3,
          "[t, b, i] [d, i, gates] [d, h, gates] [d, biases] [b] [d, b, h] [d, b, h] [d, peepholes] [_..] [_..] [_..] "
          "[_..] -> [t, d, b, h] [d, b, h]; all whole",
          .shapes = shapes_dynamic_lstm, .rule = rule_dynamic_lstm,
          .signature = "(X,W,R,B?,sequence_lens?,initial_h?,initial_c?,P?,W_scale,W_zero_point,R_scale,R_zero_point) "
                       "-> (Y?,Y_h?,Y_c?) {activation_alpha:floats,activation_beta:floats,activations:strings,"
                       "clip:float,direction:string='forward',hidden_size:int,input_forget:int=0}"),
    ENTRY("QEmbedLayerNormalization", 1, 18, 2,
          "[b, s] [b, s] [v, h] [p, h] [u, h] [h] [h] [b, s] [].. -> [b, s, h] [b]; h, v, p, u, s whole",
          LIKE(DOMAIN, "EmbedLayerNormalization", 1, NULL, INPUTS(8, 0, 1, 2, 3, 4, 5, 6, 7), .is_rounded = true,
               .typed_by = 8),
          .signature =
              "(input_ids,segment_ids?,word_embedding_quant,position_embedding_quant,segment_embedding?,gamma_quant,"
              "beta_quant,mask?,word_embedding_scale,position_embedding_scale,segment_embedding_scale?,gamma_scale,"
              "beta_scale,word_embedding_zero_point,position_embedding_zero_point,segment_embedding_zero_point?,"
              "gamma_zero_point,beta_zero_point) -> (layernorm_out,mask_index_out) {epsilon:float=1e-12}"),
    ENTRY("QuantizeBFP", 1, 1, 3, "[_..] -> [_] [_] [_]; all whole", .shapes = shapes_quantize_bfp,
          .signature = "(x) -> (y,shape,strides) {bfp_type!:int,block_dim:int=-1}"),
    ENTRY("DequantizeBFP", 3, 3, 1, "[_] [_] [_] -> [_..]; all whole", .shapes = shapes_dequantize_bfp,
          .signature = "(x,shape,strides) -> (y) {bfp_type!:int,block_dim:int=-1,dtype:int=1}"),
    ENTRY("QuantizeWithOrder", 2, 2, 1, "[i..] [] -> [i..]; all whole",
          .like = &(const struct sp_op_like){"", "Abs", 13, NULL, INPUTS(1, 0), .dtype = SP_DTYPE_INT8},
          .shapes = sp_shapes_like, .rule = rule_ordered,
          .signature = "(input,scale_input) -> (output) {order_input!:int,order_output!:int}"),
    ENTRY("DequantizeWithOrder", 2, 2, 1, "[i..] [] -> [i..]; all whole", .shapes = shapes_from_order, .flops = 1,
          .signature = "(input,scale_input) -> (output) {order_input!:int,order_output!:int,to!:int}"),
    ENTRY("QOrderedMatMul", 5, 8, 1, "[b.., m, k] [] [b.., k, n] [] [] -> [b.., m, n]; all whole",
          .like = &(const struct sp_op_like){"", "MatMul", 13, NULL, INPUTS(2, 0, 2)}, .shapes = sp_shapes_like,
          .rule = rule_ordered,
          .signature = "(A,scale_A,B,scale_B,scale_Y,bias?,C?,scale_C?) -> (Y) {order_A!:int,order_B!:int,"
                       "order_Y!:int}"),
    ENTRY("QOrderedGelu", 3, 3, 1, "[i..] [] [] -> [i..]; all whole",
          .like = &(const struct sp_op_like){"", "Gelu", 20, NULL, INPUTS(1, 0)}, .flags = SP_OP_FUNCTION,
          .shapes = sp_shapes_like, .rule = rule_ordered,
          .signature = "(X,scale_X,scale_Y) -> (Y) {order_X:int,order_Y:int}"),
    ENTRY("QOrderedLayerNormalization", 3, 5, 1, "[i.., j..] [] [j..] [j..] [] -> [i.., j..]; all whole",
          .like = &(const struct sp_op_like){"", "LayerNormalization", 17, NULL, INPUTS(3, 0, 2, 3)},
          .shapes = sp_shapes_like, .rule = rule_ordered,
          .signature = "(X,scale_X,scale,B?,scale_Y) -> (Y) {axis:int=-1,epsilon:float=1e-05,order_X:int,"
                       "order_Y:int}"),
    {.name = NULL},
};
