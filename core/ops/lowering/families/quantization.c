/*
 * DynamicQuantizeLinear on shards (rule in quantization.c): the least and the greatest of all elements. Quantising
 * these two alone gives the scale and the zero point of the whole, with the roundings of whatever runs it.
 *
 * DynamicQuantizeMatMul of ONNX Runtime does the same to its first operand, and multiplies as MatMulIntegerToFloat
 * does. That leaves sums, to which the bias is added once.
 *
 * QLinearMatMul, QLinearConv and QGemm round their sums to 8 bits. Parts of a sum are added as 32-bit integers first,
 * and rounded by QuantizeLinear when all are there: the sum is exact, and its scale is the same product and quotient of
 * scales that runtimes compute.
 *
 * QuantizeLinear and DequantizeLinear run as they are on their pieces, and on those of scales and zero points.
 */
#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/statistics.h"

/* This device's part, quantised by the extremes of all, with the scale and the zero point of that. */
static void quantize_by_all(struct sp_lowering *lower, struct sp_piece *x, const struct sp_lower_span *span,
                            struct sp_piece **ret_grid)
{
    struct sp_piece *extremes[] = {
        sp_lower_reduce_all(lower, "ReduceMin", SP_COMBINE_MIN, x, span, false),
        sp_lower_reduce_all(lower, "ReduceMax", SP_COMBINE_MAX, x, span, false),
    };
    for (uint32_t i = 0; i < 2; i++)
        extremes[i] = sp_lower_unsqueeze(lower, extremes[i], 0);
    struct sp_piece *both = sp_lower_concat(lower, 0, 2, extremes);
    const enum sp_dtype dtypes[] = {SP_DTYPE_UINT8, SP_DTYPE_FLOAT, SP_DTYPE_UINT8};
    sp_lower_op_many(lower, &(struct sp_lower_call){"", "DynamicQuantizeLinear", 1, &both, 0, NULL, 3}, dtypes,
                     ret_grid);
    struct sp_piece *const inputs[] = {x, ret_grid[1], ret_grid[2]};
    ret_grid[0] = sp_lower_op(lower, "QuantizeLinear", SP_DTYPE_UINT8, 3, inputs, 0, NULL);
}

enum sp_status sp_lower_dynamic_quantize(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_lower_input(lower, 0) : NULL, *grid[3];
    if (x == NULL)
        return span.factor_count > 0 ? sp_lower_status(lower) : sp_lower_default(lower);
    quantize_by_all(lower, x, &span, grid);
    if (lower->outputs[0].value != NULL)
        sp_lower_output(lower, 0, grid[0]);
    for (uint32_t i = 1; i < lower->output_count; i++) {
        if (lower->outputs[i].value != NULL)
            sp_lower_output(lower, i, grid[i]);
    }
    return sp_lower_status(lower);
}

/* ---- products --------------------------------------------------------------------------------------------------- */

enum { TO_FLOAT_A, TO_FLOAT_B, TO_FLOAT_A_SCALE, TO_FLOAT_B_SCALE, TO_FLOAT_A_ZERO, TO_FLOAT_B_ZERO, TO_FLOAT_BIAS };
enum { DYNAMIC_A, DYNAMIC_B, DYNAMIC_B_SCALE, DYNAMIC_B_ZERO, DYNAMIC_BIAS };

enum sp_status sp_lower_matmul_to_float(struct sp_lowering *lower)
{
    struct sp_piece *pieces[TO_FLOAT_BIAS + 1] = {NULL};
    for (uint32_t i = 0; i < lower->input_count && i <= TO_FLOAT_BIAS; i++)
        pieces[i] = i == TO_FLOAT_BIAS ? sp_lower_input_once(lower, i) : sp_lower_input(lower, i);
    return sp_lower_give_sum(lower, sp_lower_same(lower, lower->input_count, pieces, 0, NULL));
}

enum sp_status sp_lower_dynamic_matmul(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, DYNAMIC_A);
    if (span.factor_count == 0)
        return sp_lower_default(lower);
    struct sp_piece *a = sp_lower_input(lower, DYNAMIC_A), *grid[3], *y;
    quantize_by_all(lower, a, &span, grid);
    struct sp_piece *b = sp_lower_input(lower, DYNAMIC_B), *b_scale = sp_lower_input(lower, DYNAMIC_B_SCALE);
    struct sp_piece *b_zero = sp_lower_input(lower, DYNAMIC_B_ZERO), *bias = sp_lower_input_once(lower, DYNAMIC_BIAS);
    struct sp_piece *const inputs[] = {grid[0], b, grid[1], b_scale, grid[2], b_zero, bias};
    const enum sp_dtype dtype = SP_DTYPE_FLOAT;
    sp_lower_op_many(
        lower,
        &(struct sp_lower_call){lower->node->domain, "MatMulIntegerToFloat", TO_FLOAT_BIAS + 1, inputs, 0, NULL, 1},
        &dtype, &y);
    const int64_t *dims = sp_lower_part_dims(lower, &lower->outputs[0]);
    if (y != NULL && dims != NULL)
        sp_piece_set_dims(lower, y, lower->outputs[0].rank, dims);
    return sp_lower_give_sum(lower, y);
}

/* ---- rounded sums ----------------------------------------------------------------------------------------------- */

static bool is_given(const struct sp_lowering *lower, uint32_t input)
{
    return input < lower->input_count && lower->inputs[input].value != NULL;
}

static bool is_byte(const struct sp_lowering *lower, uint32_t input)
{
    const enum sp_dtype dtype = is_given(lower, input) ? lower->inputs[input].value->type.dtype : SP_DTYPE_UINT8;
    return dtype == SP_DTYPE_INT8 || dtype == SP_DTYPE_UINT8;
}

static bool has_one(const struct sp_lowering *lower, uint32_t input)
{
    const struct sp_lower_operand *operand = &lower->inputs[input];
    return !is_given(lower, input) || operand->rank == 0 || (operand->rank == 1 && operand->axes[0].extent == 1);
}

bool sp_lower_is_scaled(const struct sp_lowering *lower, const struct sp_lower_scales *scales)
{
    return is_byte(lower, scales->a) && is_byte(lower, scales->b) && is_byte(lower, scales->y_zero) &&
           has_one(lower, scales->a_scale) && has_one(lower, scales->a_zero) && has_one(lower, scales->y_scale) &&
           has_one(lower, scales->y_zero);
}

struct sp_piece *sp_lower_with_axes(struct sp_lowering *lower, struct sp_piece *x, uint32_t axes)
{
    for (uint32_t i = 0; x != NULL && x->rank > 0 && i < axes; i++)
        x = sp_lower_unsqueeze(lower, x, x->rank);
    return x;
}

static struct sp_piece *scale_of(struct sp_lowering *lower, uint32_t input)
{
    return sp_lower_cast(lower, sp_lower_input(lower, input), SP_DTYPE_FLOAT);
}

static struct sp_piece *with_part_dims(struct sp_lowering *lower, struct sp_piece *y)
{
    const int64_t *dims = sp_lower_part_dims(lower, &lower->outputs[0]);
    if (y != NULL && dims != NULL)
        sp_piece_set_dims(lower, y, lower->outputs[0].rank, dims);
    return y;
}

struct sp_piece *sp_lower_scaled(struct sp_lowering *lower, struct sp_piece *sum, const struct sp_lower_scales *scales,
                                 double factor, uint32_t axes)
{
    struct sp_piece *scale = scale_of(lower, scales->a_scale), *b_scale = scale_of(lower, scales->b_scale);
    if (factor != 1)
        scale = sp_lower_binary(lower, "Mul", scale, sp_lower_scalar(lower, SP_DTYPE_FLOAT, factor));
    scale = sp_lower_binary(lower, "Mul", scale, b_scale);
    if (is_given(lower, scales->y_scale))
        scale = sp_lower_binary(lower, "Div", scale, scale_of(lower, scales->y_scale));
    scale = sp_lower_with_axes(lower, scale, axes);
    struct sp_piece *y = sp_lower_binary(lower, "Mul", sp_lower_cast(lower, sum, SP_DTYPE_FLOAT), scale);
    if (is_given(lower, scales->y_zero)) {
        struct sp_piece *inputs[] = {y, sp_lower_scalar(lower, SP_DTYPE_FLOAT, 1), NULL};
        inputs[2] = sp_lower_reshape(lower, sp_lower_input(lower, scales->y_zero), 0, NULL);
        y = sp_lower_op(lower, "QuantizeLinear", lower->outputs[0].value->type.dtype, 3, inputs, 0, NULL);
    }
    return with_part_dims(lower, y);
}

/* The part of an operand as a matrix that is not transposed. */
static struct sp_piece *matrix_of(struct sp_lowering *lower, uint32_t input, const char *attribute)
{
    static const int64_t other[] = {1, 0};
    struct sp_piece *x = sp_lower_input(lower, input);
    return sp_node_int(lower->node, attribute, 0) != 0 ? sp_lower_transpose(lower, x, 2, other) : x;
}

/* A product of matrices; input `addend` is added to its sum, 0: nothing is. */
static enum sp_status lower_product(struct sp_lowering *lower, const struct sp_lower_scales *scales, uint32_t addend)
{
    uint32_t count;
    const uint8_t *factors = sp_lower_partial_factors(lower, 0, &count);
    struct sp_piece *inputs[4];
    if (count > 0 && !sp_lower_is_scaled(lower, scales))
        sp_lower_refuse(lower, sp_lower_split_named(lower, "k"), SP_LOWER_NOT_SCALED);
    if (count == 0 || sp_lower_status(lower) != SP_OK)
        return sp_lower_status(lower) != SP_OK ? sp_lower_status(lower) : sp_lower_default(lower);
    inputs[0] = matrix_of(lower, scales->a, "transA");
    inputs[1] = matrix_of(lower, scales->b, "transB");
    inputs[2] = sp_lower_input(lower, scales->a_zero);
    inputs[3] = sp_lower_input(lower, scales->b_zero);
    struct sp_piece *sum = sp_lower_op(lower, "MatMulInteger", SP_DTYPE_INT32, 4, inputs, 0, NULL);
    sum = sp_lower_all_reduce(lower, with_part_dims(lower, sum), SP_COMBINE_SUM, count, factors);
    if (addend != 0 && is_given(lower, addend))
        sum = sp_lower_binary(lower, "Add", sum, sp_lower_input(lower, addend));
    sp_lower_output(lower, 0, sp_lower_scaled(lower, sum, scales, sp_node_float(lower->node, "alpha", 1), 0));
    return sp_lower_status(lower);
}

enum sp_status sp_lower_qlinear_matmul(struct sp_lowering *lower)
{
    static const struct sp_lower_scales scales = {0, 1, 2, 3, 4, 5, 6, 7};
    return lower_product(lower, &scales, 0);
}

enum sp_status sp_lower_qgemm(struct sp_lowering *lower)
{
    static const struct sp_lower_scales scales = {0, 1, 2, 3, 4, 5, 7, 8};
    return lower_product(lower, &scales, 6);
}
