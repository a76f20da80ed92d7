/*
 * DynamicQuantizeLinear on shards (rule in quantization.c): the least and the greatest of all elements. Quantising
 * these two alone gives the scale and the zero point of the whole, with the roundings of whatever runs it.
 *
 * QuantizeLinear and DequantizeLinear run as they are on their pieces, and on those of scales and zero points.
 */
#include "ops/lowering/functions.h"
#include "ops/lowering/statistics.h"

enum sp_status sp_lower_dynamic_quantize(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_lower_input(lower, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_lower_status(lower) : sp_lower_default(lower);
    struct sp_piece *extremes[] = {
        sp_lower_reduce_all(lower, "ReduceMin", SP_COMBINE_MIN, x, &span, false),
        sp_lower_reduce_all(lower, "ReduceMax", SP_COMBINE_MAX, x, &span, false),
    };
    for (uint32_t i = 0; i < 2; i++)
        extremes[i] = sp_lower_unsqueeze(lower, extremes[i], 0);
    struct sp_piece *both = sp_lower_concat(lower, 0, 2, extremes), *grid[3];
    const enum sp_dtype dtypes[] = {SP_DTYPE_UINT8, SP_DTYPE_FLOAT, SP_DTYPE_UINT8};
    sp_lower_op_many(lower, &(struct sp_lower_call){"", "DynamicQuantizeLinear", 1, &both, 0, NULL, 3}, dtypes, grid);
    struct sp_piece *const inputs[] = {x, grid[1], grid[2]};
    if (lower->outputs[0].value != NULL)
        sp_lower_output(lower, 0, sp_lower_op(lower, "QuantizeLinear", SP_DTYPE_UINT8, 3, inputs, 0, NULL));
    for (uint32_t i = 1; i < lower->output_count; i++) {
        if (lower->outputs[i].value != NULL)
            sp_lower_output(lower, i, grid[i]);
    }
    return sp_lower_status(lower);
}
