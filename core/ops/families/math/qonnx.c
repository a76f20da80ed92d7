/*
 * Quantisers of QONNX and Brevitas: values stay reals, and are rounded to what few bits can hold.
 *
 *     Quant, BipolarQuant, Trunc, FloatQuant    [i..] [i..] -> [i..]; scale and zero point broadcast
 *     MultiThreshold                            [n, c, h..] [c, t] -> [n, c, h..]     t whole
 *
 * FLOPs: 3 for each element (a scale, a rounding and a scale back), MultiThreshold 1 for each threshold.
 */
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

static enum sp_status shapes_same(struct sp_op_context *context)
{
    return sp_set_output_shape(context, 0, sp_in_dtype(context, 0), sp_in_shape(context, 0));
}

#define QUANTISER(domain, name, least, most, text, signature_)                                                         \
    SP_ENTRY(domain, name, 1, 0, least, most, 1, 1, text, "QONNX operator " name, .shapes = shapes_same, .flops = 3,   \
             .signature = signature_)
#define QUANT_SIGNATURE "(X,scale,zeropt,bitwidth) -> (Y) {narrow:int=0,rounding_mode:string='ROUND',signed:int=1}"
#define FLOAT_SIGNATURE                                                                                                \
    "(X,scale,exponent_bitwidth,mantissa_bitwidth,exponent_bias,max_val?) -> (Y) {has_inf:int=0,has_nan:int=0,"        \
    "has_subnormal:int=1,rounding_mode:string='ROUND',saturation:int=1}"
#define TRUNC_SIGNATURE                                                                                                \
    "(X,scale,zeropt,in_bitwidth,out_scale,out_bitwidth?) -> (Y) {narrow:int=0,rounding_mode:string='FLOOR',"          \
    "signed:int=1}"
#define QUANTISERS(domain)                                                                                             \
    QUANTISER(domain, "Quant", 4, 4, "[i..] [i..] [i..] [_..] -> [i..]", QUANT_SIGNATURE),                             \
        QUANTISER(domain, "IntQuant", 4, 4, "[i..] [i..] [i..] [_..] -> [i..]", QUANT_SIGNATURE),                      \
        QUANTISER(domain, "BipolarQuant", 2, 2, "[i..] [i..] -> [i..]", "(X,scale) -> (Y) {}"),                        \
        QUANTISER(domain, "Trunc", 5, 6, "[i..] [i..] [i..] [_..] -> [i..]", TRUNC_SIGNATURE),                         \
        QUANTISER(domain, "FloatQuant", 5, 6, "[i..] [i..] [_..] -> [i..]", FLOAT_SIGNATURE)

const struct sp_op sp_ops_qonnx[] = {
    QUANTISERS("qonnx.custom_op.general"),
    QUANTISERS("onnx.brevitas"),
    QUANTISERS("finn.custom_op.general"),
    SP_ENTRY("qonnx.custom_op.general", "MultiThreshold", 1, 0, 2, 2, 1, 1,
             "[n, c, h..] [c, t] -> [n, c, h..]; t whole", "QONNX operator MultiThreshold", .shapes = shapes_same,
             .flops = 1,
             .signature = "(X,thresholds) -> (Y) {data_layout:string='NCHW',out_bias:float=0.0,out_dtype:string,"
                          "out_scale:float=1.0}"),
    {.name = NULL},
};
