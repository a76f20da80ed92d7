/*
 * Products with weights of few bits in forms of their own (com.microsoft); MatMulNBits itself is in contrib_matmul.c.
 *
 *     MatMulBnb4        [b.., kc*kb] [n*kc*kh] [n*kc] -> [b.., n]                   rows of blocks, all in one axis
 *     MatMulFpQ4        [b.., k] [_] [_] -> [b.., n]                                a blob for one kernel: n, k whole
 *     MatMulNBitsMlp    [b.., k] [b.., k] [k] [n, kc, _] [n, kc] [n] .. -> [b.., n] [b.., k]
 *     MatMulNBitsQkv    the same with three products
 *     MatMulBlockQuantizedFp8Weight  [b.., k*kb] [n, k*kb] [n, k] -> [b.., n]       k sum, where blocks divide it
 *     MatMulBlockQuantizedFp4Weight  [b.., k*kh*two] [n, k*kh] [n, k] -> [b.., n]
 *
 * What normalizes its input first has it whole. A bias would be added by each summand, so with one k is whole.
 *
 * FLOPs: 2 for each multiply-add, 1 for each output element of a bias.
 */
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

#define DOMAIN "com.microsoft"

static uint32_t rank_of(const struct sp_op_context *context, uint32_t input)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    return shape == NULL ? 0 : shape->rank;
}

/* ---- MatMulBnb4 ------------------------------------------------------------------------------------------------- */

static const char *form_bnb4(struct sp_op_context *context)
{
    int64_t k = sp_node_int(context->node, "K", 0), block = sp_node_int(context->node, "block_size", 0);
    if (sp_node_int(context->node, "transB", 1) == 0)
        return "[b.., n] [_] [_] -> [b.., k]; n = N; k = K; n, k whole";
    if (block < 2 || k < 1 || k % block != 0 || block % 2 != 0)
        return "[b.., k] [_] [_] -> [b.., n]; k = K; n = N; n, k whole";
    return "[b.., kc*kb] [n*kc*kh] [n*kc] -> [b.., n]; kc = K / block_size; kb = block_size; kh = block_size / 2; n = "
           "N; "
           "kc, kb, kh whole";
}

/* ---- MatMulFpQ4 ------------------------------------------------------------------------------------------------- */

/* The blob does not tell how many columns it has; an input does. */
static const char *form_fpq4(struct sp_op_context *context)
{
    const struct sp_data *shape = sp_in_known_ints(context, 2);
    if (shape == NULL || shape->count != 2 || shape->ints[0].value < 0 || shape->ints[1].value < 0 ||
        shape->ints[0].value > INT32_MAX || shape->ints[1].value > INT32_MAX)
        return "[b.., k] [_] [_] -> [b.., _]; k whole";
    return sp_form_text(context, "[b.., k] [_] [_] -> [b.., n]; k = %lld; n = %lld; n, k whole",
                        (long long)shape->ints[0].value, (long long)shape->ints[1].value);
}

/* ---- fused projections ------------------------------------------------------------------------------------------ */

/* Scales are given for each row, or flat. */
static const char *form_mlp(struct sp_op_context *context)
{
    if (rank_of(context, 4) == 1)
        return "[b.., k] [b.., k] [k] [n, kc, kb] [n*kc] [n] [n, kc, kb] [n*kc] [n] -> [b.., n] [b.., k]; k = K; n = "
               "N; k, "
               "kc, kb whole";
    return "[b.., k] [b.., k] [k] [n, kc, kb] [n, kc] [n] [n, kc, kb] [n, kc] [n] -> [b.., n] [b.., k]; k = K; n = N; "
           "k, "
           "kc, kb whole";
}

static const char *form_qkv(struct sp_op_context *context)
{
    if (rank_of(context, 4) == 1)
        return "[b.., k] [b.., k] [k] [n, kc, kb] [n*kc] [n] [m, kc, kb] [m*kc] [m] [m, kc, kb] [m*kc] [m] -> [b.., n] "
               "[b.., m] [b.., m] [b.., k]; k = K; n = Nq; m = Nkv; k, kc, kb whole";
    return "[b.., k] [b.., k] [k] [n, kc, kb] [n, kc] [n] [m, kc, kb] [m, kc] [m] [m, kc, kb] [m, kc] [m] -> [b.., n] "
           "[b.., m] [b.., m] [b.., k]; k = K; n = Nq; m = Nkv; k, kc, kb whole";
}

/* ---- block-scaled floats ---------------------------------------------------------------------------------------- */

static bool divides(struct sp_op_context *context, int64_t block)
{
    const struct sp_shape *a = sp_in_shape(context, 0);
    struct sp_dim k = a != NULL && a->rank > 0 ? a->dims[a->rank - 1] : sp_dim_unknown();
    return block > 0 && sp_dim_is_known(k) && k.value % block == 0;
}

static const char *form_fp8(struct sp_op_context *context)
{
    if (!divides(context, sp_node_int(context->node, "block_size", 128)))
        return "[b.., k] [n, k] [n, kc] [_..] [n] -> [b.., n]; k, kc whole";
    if (sp_has_input(context, 4))
        return "[b.., k*kb] [n, k*kb] [n, k] [_..] [n] -> [b.., n]; kb = block_size:128; k, kb whole";
    return "[b.., k*kb] [n, k*kb] [n, k] [_..] [n] -> [b.., n]; kb = block_size:128; k sum; kb whole";
}

static const char *form_fp4(struct sp_op_context *context)
{
    int64_t block = sp_node_int(context->node, "block_size", 16);
    if (block % 2 != 0 || !divides(context, block))
        return "[b.., k] [n, kh] [n, kc] [_..] [_..] [n] -> [b.., n]; k, kh, kc whole";
    if (sp_has_input(context, 5))
        return "[b.., k*kh*two] [n, k*kh] [n, k] [_..] [_..] [n] -> [b.., n]; two = 2; kh = block_size:16 / 2; k, kh, "
               "two "
               "whole";
    return "[b.., k*kh*two] [n, k*kh] [n, k] [_..] [_..] [n] -> [b.., n]; two = 2; kh = block_size:16 / 2; k sum; kh, "
           "two "
           "whole";
}

#define NBITS "accuracy_level:int=0,bits:int=4,block_size!:int,epsilon:float=1e-05"

const struct sp_op sp_ops_contrib_quantized_matmul[] = {
    SP_ENTRY(
        DOMAIN, "MatMulBnb4", 1, 0, 3, 3, 1, 1,
        "[b.., kc*kb] [n*kc*kh] [n*kc] -> [b.., n]; n = N; kc, kb, kh whole; without transB, or where blocks do not "
        "divide K, n whole",
        "ONNX Runtime contrib operator MatMulBnb4", .form = form_bnb4, .shapes = sp_shapes_from_text,
        .work = "2*b..*n*k*kc*kb",
        .signature = "(A,B,absmax) -> (Y) {K!:int,N!:int,block_size!:int,quant_type!:int,training_mode:int=0,"
                     "transB:int=1}"),
    SP_ENTRY(DOMAIN, "MatMulFpQ4", 1, 0, 3, 3, 1, 1, "[b.., k] [_] [_] -> [b.., n]; n, k whole",
             "ONNX Runtime contrib operator MatMulFpQ4", .form = form_fpq4, .shapes = sp_shapes_from_text,
             .work = "2*b..*n*k", .signature = "(A,B,B_shape) -> (Y) {blk_quant_type:int=1}"),
    SP_ENTRY(
        DOMAIN, "MatMulNBitsMlp", 1, 0, 1, 9, 1, 2,
        "[b.., k] [b.., k] [k] [n, kc, _] [n, kc] [n] [n, kc, _] [n, kc] [n] -> [b.., n] [b.., k]; k = K; n = N; k, "
        "kc whole",
        "ONNX Runtime contrib operator MatMulNBitsMlp", .form = form_mlp, .shapes = sp_shapes_from_text,
        .work = "4*b..*n*k + 6*b..*k + 4*b..*n",
        .signature = "(A,skip?,norm_scale?,gate_B,gate_scales,gate_bias?,up_B,up_scales,up_bias?) -> (Y,"
                     "input_skip_bias_sum?) {K!:int,N!:int,activation!:string," NBITS "}"),
    SP_ENTRY(DOMAIN, "MatMulNBitsQkv", 1, 0, 1, 12, 3, 4,
             "[b.., k] [b.., k] [k] [n, kc, _] [n, kc] [n] [m, kc, _] [m, kc] [m] [m, kc, _] [m, kc] [m] -> [b.., n] "
             "[b.., m] [b.., m] [b.., k]; k = K; n = Nq; m = Nkv; k, kc whole",
             "ONNX Runtime contrib operator MatMulNBitsQkv", .form = form_qkv, .shapes = sp_shapes_from_text,
             .work = "2*b..*n*k + 4*b..*m*k + 6*b..*k",
             .signature =
                 "(A,skip?,norm_scale,q_B,q_scales,q_bias?,k_B,k_scales,k_bias?,v_B,v_scales,v_bias?) -> (Q,K,V,"
                 "input_skip_bias_sum?) {K!:int,Nkv!:int,Nq!:int," NBITS "}"),
    SP_ENTRY(
        DOMAIN, "MatMulBlockQuantizedFp8Weight", 1, 0, 3, 5, 1, 1,
        "[b.., k*kb] [n, k*kb] [n, k] [] [n] -> [b.., n]; k sum, kb whole; with a bias, or where blocks do not divide "
        "it, k whole",
        "ONNX Runtime contrib operator MatMulBlockQuantizedFp8Weight", .form = form_fp8, .shapes = sp_shapes_from_text,
        .work = "2*b..*n*k*kb", .signature = "(A,B,b_scale,a_scale?,bias?) -> (Y) {block_size:int=128}"),
    SP_ENTRY(
        DOMAIN, "MatMulBlockQuantizedFp4Weight", 1, 0, 4, 6, 1, 1,
        "[b.., k*kh*two] [n, k*kh] [n, k] [] [] [n] -> [b.., n]; k sum, kh, two whole; with a bias, or where blocks do "
        "not divide it, k whole",
        "ONNX Runtime contrib operator MatMulBlockQuantizedFp4Weight", .form = form_fp4, .shapes = sp_shapes_from_text,
        .work = "2*b..*n*k*kh*two",
        .signature = "(A,B,weight_scale,weight_scale_2,input_scale?,bias?) -> (Y) {block_size:int=16}"),
    {.name = NULL},
};
