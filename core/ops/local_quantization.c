/*
 * DynamicQuantizeLinear on shards (rule in quantization.c): the least and the greatest of all elements. Quantising
 * these two alone gives the scale and the zero point of the whole, with the roundings of whatever runs it.
 *
 * QuantizeLinear and DequantizeLinear run as they are on their pieces, and on those of scales and zero points.
 */
#include "ops/local_functions.h"
#include "ops/local_statistics.h"

enum sp_status sp_local_dynamic_quantize(struct sp_local *local)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_local_input(local, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_local_status(local) : sp_local_default(local);
    struct sp_piece *extremes[] = {
        sp_local_reduce_all(local, "ReduceMin", SP_COMBINE_MIN, x, &span, false),
        sp_local_reduce_all(local, "ReduceMax", SP_COMBINE_MAX, x, &span, false),
    };
    for (uint32_t i = 0; i < 2; i++)
        extremes[i] = sp_local_unsqueeze(local, extremes[i], 0);
    struct sp_piece *both = sp_local_concat(local, 0, 2, extremes), *grid[3];
    const enum sp_dtype dtypes[] = {SP_DTYPE_UINT8, SP_DTYPE_FLOAT, SP_DTYPE_UINT8};
    sp_local_op_many(local, "", "DynamicQuantizeLinear", 1, &both, 0, NULL, 3, dtypes, grid);
    struct sp_piece *const inputs[] = {x, grid[1], grid[2]};
    if (local->outputs[0].value != NULL)
        sp_local_output(local, 0, sp_local_op(local, "QuantizeLinear", SP_DTYPE_UINT8, 3, inputs, 0, NULL));
    for (uint32_t i = 1; i < local->output_count; i++) {
        if (local->outputs[i].value != NULL)
            sp_local_output(local, i, grid[i]);
    }
    return sp_local_status(local);
}
