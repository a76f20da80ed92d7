/*
 * DynamicQuantizeLinear on shards (rule in quantization.c): the least and the greatest of all elements. Quantising
 * these two alone gives the scale and the zero point of the whole, with the roundings of whatever runs it.
 *
 * DynamicQuantizeMatMul of ONNX Runtime does the same to its first operand, and multiplies as MatMulIntegerToFloat does.
 * That leaves sums, to which the bias is added once.
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

/* ---- products ----------------------------------------------------------------------------------------------------- */

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
