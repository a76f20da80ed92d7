/*
 * Activations of ONNX Runtime (com.microsoft) with what is fused to them.
 *
 *     Gelu, QuickGelu      [i..] -> [i..]
 *     FastGelu, BiasGelu   [i.., j] [j] -> [i.., j]
 *     BiasAdd              [i.., j] [j] [i.., j] -> [i.., j]
 *     BiasSplitGelu        [i.., two*j] [two*j] -> [i.., j]      the first half times Gelu of the second; two whole
 *
 *     BiasSoftmax          [i.., j..] [i.., j..] -> [i.., j..]   j.. whole
 *     BiasDropout          [i.., j] [j] [i.., j] [] [] -> [i.., j] [i.., j]
 *     BitmaskDropout       [i..] [] [] -> [i..] [bits]           all whole: 32 elements share an element of the mask
 *
 * FLOPs: 1 for each element that comes out and for each bias or product on the way, as for elementwise operators.
 */
#include "ops/families/math/broadcast.h"
#include "ops/families/neural/heads.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

#define DOMAIN "com.microsoft"

static enum sp_status shapes_same(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_status status = SP_OK;
    for (uint32_t input = 1; x != NULL && status == SP_OK && input < context->node->input_count; input++)
        status = sp_check_broadcasts_to(context, input, x);
    return status != SP_OK ? status : sp_set_output_shape(context, 0, sp_in_dtype(context, 0), x);
}

static enum sp_status shapes_split(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    if (x == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    if (x->rank == 0)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input is a scalar");
    struct sp_dim last = x->dims[x->rank - 1];
    if (sp_dim_is_known(last) && last.value % 2 != 0)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has %lld elements, which are not two halves",
                          (long long)last.value);
    enum sp_status status = sp_check_broadcasts_to(context, 1, x);
    struct sp_dim *dims = sp_new_dims(context, x->rank);
    if (status != SP_OK || dims == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    for (uint32_t axis = 0; axis < x->rank; axis++)
        dims[axis] = x->dims[axis];
    dims[x->rank - 1] = sp_dim_exact_div(context->dims, last, sp_dim_known(2));
    return sp_set_output(context, 0, sp_in_dtype(context, 0), x->rank, dims);
}

static enum sp_status bias_axes(struct sp_op_context *context, uint32_t rank, struct sp_op_axes *ret_axes)
{
    uint32_t first = 0;
    enum sp_status status = sp_normalize_axis(context, sp_node_int(context->node, "axis", 1), rank, &first);
    for (uint32_t axis = first; status == SP_OK && axis < rank; axis++)
        ret_axes->mask |= (uint64_t)1 << axis;
    return status;
}

static enum sp_status shapes_first(struct sp_op_context *context)
{
    return sp_set_output_shape(context, 0, sp_in_dtype(context, 0), sp_in_shape(context, 0));
}

static enum sp_status shapes_bias_dropout(struct sp_op_context *context)
{
    enum sp_status status = shapes_first(context);
    return status != SP_OK ? status : sp_set_output_shape(context, 1, SP_DTYPE_BOOL, sp_in_shape(context, 0));
}

/* A bit for each element, in words of 32. */
static enum sp_status shapes_bitmask(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_dim words = sp_dim_unknown();
    if (x != NULL)
        words = sp_dim_ceildiv(context->dims, sp_product(context, x->dims, 0, x->rank), sp_dim_known(32));
    enum sp_status status = shapes_first(context);
    return status != SP_OK ? status : sp_set_output(context, 1, SP_DTYPE_UINT32, 1, &words);
}

const struct sp_op sp_ops_contrib_activation[] = {
    SP_ENTRY(DOMAIN, "BiasSoftmax", 1, 0, 2, 2, 1, 1, "[i.., j..] [i.., j..] -> [i.., j..]; j.. whole",
             "ONNX Runtime contrib operator BiasSoftmax", .flags = SP_OP_FUNCTION, .shapes = shapes_first,
             .axes = bias_axes, .flops = 6,
             .signature = "(data,bias) -> (output) {axis:int=1,is_inner_broadcast!:int}"),
    SP_ENTRY(DOMAIN, "BiasDropout", 1, 0, 2, 5, 1, 2, "[i..] [i..] [i..] [] [] -> [i..] [i..]",
             "ONNX Runtime contrib operator BiasDropout", .flags = SP_OP_RANDOM, .shapes = shapes_bias_dropout,
             .flops = 3, .signature = "(data,bias,residual?,ratio?,training_mode?) -> (output,mask?) {seed:int}"),
    SP_ENTRY(DOMAIN, "BitmaskDropout", 1, 0, 1, 3, 1, 2, "[i..] [] [] -> [i..] [w]; all whole",
             "ONNX Runtime contrib operator BitmaskDropout", .flags = SP_OP_RANDOM, .shapes = shapes_bitmask,
             .flops = 1, .signature = "(data,ratio?,training_mode?) -> (output,mask?) {seed:int}"),
    SP_ENTRY(DOMAIN, "BitmaskBiasDropout", 1, 0, 2, 5, 1, 2, "[i..] [i..] [i..] [] [] -> [i..] [w]; all whole",
             "ONNX Runtime contrib operator BitmaskBiasDropout", .flags = SP_OP_RANDOM, .shapes = shapes_bitmask,
             .flops = 3, .signature = "(data,bias,residual?,ratio?,training_mode?) -> (output,mask?) {seed:int}"),
    SP_ENTRY(DOMAIN, "Gelu", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX Runtime contrib operator Gelu",
             .flags = SP_OP_FUNCTION, .shapes = shapes_same, .flops_each = 1, .signature = "(X) -> (Y) {}"),
    SP_ENTRY(DOMAIN, "QuickGelu", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX Runtime contrib operator QuickGelu",
             .flags = SP_OP_FUNCTION, .shapes = shapes_same, .flops_each = 1,
             .signature = "(X) -> (Y) {alpha:float=1.702}"),
    SP_ENTRY(DOMAIN, "FastGelu", 1, 0, 1, 2, 1, 1, "[i.., j] [j] -> [i.., j]", "ONNX Runtime contrib operator FastGelu",
             .flags = SP_OP_FUNCTION, .shapes = shapes_same, .flops_each = 1, .signature = "(X,bias?) -> (Y) {}"),
    SP_ENTRY(DOMAIN, "BiasGelu", 1, 0, 2, 2, 1, 1, "[i.., j] [j] -> [i.., j]", "ONNX Runtime contrib operator BiasGelu",
             .flags = SP_OP_FUNCTION, .shapes = shapes_same, .flops_each = 1, .signature = "(A,B) -> (C) {}"),
    SP_ENTRY(DOMAIN, "BiasAdd", 1, 0, 3, 3, 1, 1, "[i.., j] [j] [i.., j] -> [i.., j]",
             "ONNX Runtime contrib operator BiasAdd", .shapes = shapes_same, .flops = 2,
             .signature = "(X,bias,skip) -> (Y) {}"),
    SP_ENTRY(DOMAIN, "BiasSplitGelu", 1, 0, 2, 2, 1, 1, "[i.., two*j] [two*j] -> [i.., j]; two whole",
             "ONNX Runtime contrib operator BiasSplitGelu", .flags = SP_OP_FUNCTION, .shapes = shapes_split, .flops = 2,
             .signature = "(X,bias) -> (Y) {}"),
    {.name = NULL},
};
