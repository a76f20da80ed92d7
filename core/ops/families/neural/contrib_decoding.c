/*
 * Attention operators of ONNX Runtime (com.microsoft) for decoding, packed batches and quantized models: the letters of
 * attention.h. Their rules are texts; which one depends on how the operands are given.
 *
 *     DecoderMaskedMultiHeadAttention  [b, s, h*d] [b, s, h*d] [b, s, h*d] .. -> [b, s, h*d] [b, h, c, d] [b, h, c, d]
 *     PagedAttention                   [n, kv*g*d] [n, kv*d] [n, kv*d] [p, q, kv, dc] .. -> [n, kv*g*d] ..
 *
 * Heads are split, as attributes say how many there are; a device that has some of them gets its own number. Positions
 * are whole: caches, offsets and masks count them. Packed tokens of several sequences (n) are whole for the same reason.
 *
 * FLOPs: 2 for each multiply-add of the projections, 4 for each score and head element (scores and values).
 */
#include <stdio.h>

#include "ops/families/neural/contrib_decoding.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

#define DOMAIN "com.microsoft"
#define THREE  "; three = 3; three whole"

static uint32_t rank_of(const struct sp_op_context *context, uint32_t input)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    return shape == NULL ? 0 : shape->rank;
}

static bool is_one(const struct sp_op_context *context, uint32_t input, uint32_t axis)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    return shape != NULL && axis < shape->rank && sp_dim_is(shape->dims[axis], 1);
}

/* ---- decoders --------------------------------------------------------------------------------------------------- */

/* The cache that goes out is the one that came in, or has one more position for each new key. */
#define CACHE "; c = p + s * (1 - past_present_share_buffer:0); h = num_heads; d, s, t, p, c whole"

enum { DECODER_KEY = 1, DECODER_VALUE = 2, DECODER_BEAMS = 9 };

/* Keys and values are a cache of heads (cross attention), or packed beside the queries, or operands of their own. */
static const char *form_decoder(struct sp_op_context *context)
{
    bool has_beams = sp_has_input(context, DECODER_BEAMS); /* the batch is one of beams that look at each other */
    if (rank_of(context, DECODER_KEY) == 4)
        return has_beams ? "[b, s, h*d] [b, h, t, d] [b, h, t, d] [b, t] [b, h, s, t] [_..] [_..] [_..] [_..] [_..] "
                           "[three*h*d] -> [b, s, h*d] [b, h, t, d] [b, h, t, d] [b, h, s, t]; h = num_heads; b, d, s, "
                           "t whole" THREE
                         : "[b, s, h*d] [b, h, t, d] [b, h, t, d] [b, t] [b, h, s, t] [_..] [_..] [_..] [_..] [_..] "
                           "[three*h*d] -> [b, s, h*d] [b, h, t, d] [b, h, t, d] [b, h, s, t]; h = num_heads; d, s, t "
                           "whole" THREE;
    if (!sp_has_input(context, DECODER_KEY))
        return "[b, s, three*h*d] [_..] [_..] [b, t] [b, h, s, t] [b, h, p, d] [b, h, p, d] [_..] [_..] [_..] "
               "[three*h*d] -> [b, s, h*d] [b, h, c, d] [b, h, c, d] [b, h, s, t]; b whole" CACHE THREE;
    return has_beams ? "[b, s, h*d] [b, s, h*d] [b, s, h*d] [b, t] [b, h, s, t] [b, h, p, d] [b, h, p, d] [_..] [_..] "
                       "[_..] [three*h*d] -> [b, s, h*d] [b, h, c, d] [b, h, c, d] [b, h, s, t]; b whole" CACHE THREE
                     : "[b, s, h*d] [b, s, h*d] [b, s, h*d] [b, t] [b, h, s, t] [b, h, p, d] [b, h, p, d] [_..] [_..] "
                       "[_..] [three*h*d] -> [b, s, h*d] [b, h, c, d] [b, h, c, d] [b, h, s, t]" CACHE THREE;
}

/* ---- packed batches --------------------------------------------------------------------------------------------- */

/* Queries, keys and values of sizes that differ lie in one axis that no split of the heads follows. */
static const char *form_packed(struct sp_op_context *context)
{
    uint32_t count = 0;
    const int64_t *sizes = sp_node_ints(context->node, "qkv_hidden_sizes", &count);
    if (sizes != NULL && count == 3)
        return "[n, i] [i, k] [k] [b, s] [_] [_..] -> [n, e]; e = qkv_hidden_sizes[2]; n, i, k, b, s, e whole";
    return "[n, i] [i, three*h*d] [three*h*d] [b, s] [_] [b, h, s, t] -> [n, h*d]; h = num_heads; n, i, d, b, s, t "
           "whole" THREE;
}

static const char *form_packed_heads(struct sp_op_context *context)
{
    if (rank_of(context, 0) == 4)
        return "[n, h, 3, d] [_..] [_..] [_..] [b, s] [_] [b, h, s, t] -> [n, h*d]; h = num_heads; n, d, b, s, t whole";
    return "[n, h*d] [n, h*d] [n, h*e] [k] [b, s] [_] [b, h, s, t] -> [n, h*e]; h = num_heads; n, d, e, b, s, t, k "
           "whole";
}

#define PAGED                                                                                                          \
    " [p, q, kv, dc] [p, q, kv, dc] [_] [b] [b, m] [_..] [_..] [n] [kv*g] [_] [_] [kv, 1, d] [kv, 1, d] [_] -> "

/* One cache for keys and values (LATENT) holds one head that all queries share. */
static const char *form_paged(struct sp_op_context *context)
{
    if (sp_node_int(context->node, "v_head_size", 0) != 0)
        return "[n, h*d] [n, d] [_..] [p, q, 1, dc] [_..] [_] [b] [b, m] [_..] -> [n, h*e] [p, q, 1, dc]; h = "
               "num_heads; e = v_head_size; n, d, e, p, q, dc, b, m whole";
    if (!sp_has_input(context, 1))
        return "[n, k] [_..] [_..]" PAGED
               "[n, o] [p, q, kv, dc] [p, q, kv, dc]; kv = kv_num_heads; kv*g = num_heads; o "
               "= k / (num_heads + 2 * kv_num_heads) * num_heads; n, k, o, kv, g, d, p, q, dc, b, m whole";
    return "[n, kv*g*d] [n, kv*d] [n, kv*d]" PAGED "[n, kv*g*d] [p, q, kv, dc] [p, q, kv, dc]; kv = kv_num_heads; kv*g "
           "= num_heads; n, d, p, q, dc, b, m whole";
}

/* ---- SparseAttention -------------------------------------------------------------------------------------------- */

enum { SPARSE_KEY = 1, SPARSE_LAYOUT = 5 };

#define SPARSE_CACHES " [b, kv, c, d] [b, kv, c, d] [l, r] [l, z] [] [b] [_..] [_..] -> "

/* Layouts of blocks follow one another with the heads, so only one layout for all lets these be split. */
static const char *form_sparse(struct sp_op_context *context)
{
    if (!sp_has_input(context, SPARSE_KEY))
        return "[b, s, k] [_..] [_..]" SPARSE_CACHES "[b, s, o] [b, kv, c, d] [b, kv, c, d]; o = k / (num_heads + 2 * "
               "kv_num_heads) * num_heads; kv, k, o, s, c, d, l, r, z whole";
    if (!is_one(context, SPARSE_LAYOUT, 0))
        return "[b, s, kv*g*d] [b, s, kv*d] [b, s, kv*d]" SPARSE_CACHES
               "[b, s, kv*g*d] [b, kv, c, d] [b, kv, c, d]; kv "
               "= kv_num_heads; kv*g = num_heads; kv, g, s, c, d, l, r, z whole";
    return "[b, s, kv*g*d] [b, s, kv*d] [b, s, kv*d]" SPARSE_CACHES "[b, s, kv*g*d] [b, kv, c, d] [b, kv, c, d]; kv = "
           "kv_num_heads; kv*g = num_heads; s, c, d, l, r, z whole";
}

/* ---- QAttention ------------------------------------------------------------------------------------------------- */

enum { Q_INPUT, Q_MASK = 5 };

#define Q_REST(mask)                                                                                                   \
    "[b, s, i] [i, three*h*d] [three*h*d] [] [three*h*d] " mask " [] [three*h*d] [two, b, h, p, d] -> [b, s, h*d] "    \
    "[two, b, h, c, d]; h = num_heads; two = 2; c = p + s * (1 - past_present_share_buffer:0); s, i, d, p, c, two "    \
    "whole" THREE

/* Lengths of sequences, ends and then starts, or a mask for each key. */
static const char *form_quantized(struct sp_op_context *context)
{
    const struct sp_shape *mask = sp_in_shape(context, Q_MASK), *x = sp_in_shape(context, Q_INPUT);
    if (mask == NULL)
        return Q_REST("[_..]");
    if (mask->rank == 1 && x != NULL && x->rank == 3 && sp_dim_equal(mask->dims[0], x->dims[0]))
        return Q_REST("[b]");
    return mask->rank == 2   ? Q_REST("[b, t]") "; t whole"
           : mask->rank == 3 ? Q_REST("[b, s, t]") "; t whole"
                             : Q_REST("[_..]") "; b whole";
}

/* ---- positions -------------------------------------------------------------------------------------------------- */

/* Tokens may come packed, without the paddings, and with the offset of each. */
static const char *form_gated_positions(struct sp_op_context *context)
{
    if (rank_of(context, 0) == 2)
        return "[n, h*d] [h*d] [1, h, s, t] [d, e] [e] [1, h, 1, 1] [b, s] -> [b, h, s, t]; h = num_heads; n, d, e, b, "
               "s, "
               "t whole";
    return "[b, s, h*d] [h*d] [1, h, s, t] [d, e] [e] [1, h, 1, 1] [b, s] -> [b, h, s, t]; h = num_heads; d, e whole";
}

/* The extents are in the inputs. */
static const char *form_positions(struct sp_op_context *context)
{
    const struct sp_data *queries = sp_in_known_ints(context, 1), *keys = sp_in_known_ints(context, 2);
    if (queries == NULL || keys == NULL || queries->count != 1 || keys->count != 1 || queries->ints[0].value < 0 ||
        keys->ints[0].value < 0 || queries->ints[0].value > INT32_MAX || keys->ints[0].value > INT32_MAX)
        return "[k, h] [_..] [_..] -> [1, h, _, _]; k, h whole";
    return sp_form_text(context, "[k, h] [_..] [_..] -> [1, h, s, t]; s = %lld; t = %lld; k, h, s, t whole",
                        (long long)queries->ints[0].value, (long long)keys->ints[0].value);
}

#define MASK_VALUE "mask_filter_value:float=-10000.0,num_heads!:int,scale:float"

const struct sp_op sp_ops_contrib_decoding[] = {
    SP_ENTRY(
        DOMAIN, "DecoderAttention", 1, 0, 5, 12, 1, 3,
        "[s, b, i] [t, b, i] [i, o] [i, two*o] [three*o] [b, t] [b, h, p, d] [b, h, p, d] [_..] -> [s, b, o] [b, h, "
        "c, d] [b, h, c, d]; h = num_heads; two = 2; three = 3; h*d = o; s, t, i, o, p, c, h, d, two, three whole",
        "ONNX Runtime contrib operator DecoderAttention", .shapes = sp_shapes_from_text,
        .work = "8*b*s*i*o + 4*b*s*t*o", .traffic = sp_traffic_decoder_attention,
        .signature = "(query,key,q_weight,kv_weight,bias,key_padding_mask?,key_cache?,value_cache?,static_kv,"
                     "use_past,has_layer_state,has_key_padding_mask) -> (output,new_key_cache?,new_value_cache?) "
                     "{mask_filter_value:float=-10000.0,num_heads!:int}"),
    SP_ENTRY(DOMAIN, "DecoderMaskedSelfAttention", 1, 0, 3, 9, 2, 2,
             "[b, s, i] [i, three*h*d] [three*h*d] [b, t] [two, b, h, p, d] [b, h, s, t] [_..] [_..] [_..] -> [b, s, "
             "h*d] [two, b, h, c, d]; two = 2; b, i, two whole" CACHE THREE,
             "ONNX Runtime contrib operator DecoderMaskedSelfAttention", .shapes = sp_shapes_from_text,
             .work = "2*b*s*i*three*h*d", .traffic = sp_traffic_masked_self,
             .signature = "(input,weights,bias,mask_index?,past,attention_bias?,past_sequence_length,beam_width?,"
                          "cache_indirection?) -> (output,present) {do_rotary:int=0,past_present_share_buffer:int,"
                          "qkv_hidden_sizes:ints,unidirectional:int=0," MASK_VALUE "}"),
    SP_ENTRY(DOMAIN, "DecoderMaskedMultiHeadAttention", 1, 0, 1, 11, 1, 4,
             "[b, s, h*d] [b, s, h*d] [b, s, h*d] [b, t] [b, h, s, t] [b, h, p, d] [b, h, p, d] [_..] [_..] [_..] "
             "[three*h*d] -> [b, s, h*d] [b, h, c, d] [b, h, c, d] [b, h, s, t]; with beams, or packed queries, b "
             "whole" CACHE THREE,
             "ONNX Runtime contrib operator DecoderMaskedMultiHeadAttention", .form = form_decoder,
             .shapes = sp_shapes_from_text, .flags = SP_OP_ATTENDS, .traffic = sp_traffic_masked_heads,
             .signature = "(query,key?,value?,mask_index?,attention_bias?,past_key?,past_value?,past_sequence_length?,"
                          "beam_width?,cache_indirection?,bias?) -> (output,present_key?,present_value?,qk?) "
                          "{output_qk:int=0,past_present_share_buffer:int," MASK_VALUE "}"),
    SP_ENTRY(DOMAIN, "PackedAttention", 1, 0, 5, 6, 1, 1,
             "[n, i] [i, three*h*d] [three*h*d] [b, s] [_] [b, h, s, t] -> [n, h*d]; h = num_heads; n, i, d, b, s, t "
             "whole; with sizes that differ all whole" THREE,
             "ONNX Runtime contrib operator PackedAttention", .form = form_packed, .shapes = sp_shapes_from_text,
             .work = "2*n*i*three*h*d + 2*n*i*k", .traffic = sp_traffic_packed,
             .signature = "(input,weights,bias,token_offset,cumulative_sequence_length,attention_bias?) -> (output) "
                          "{num_heads!:int,qkv_hidden_sizes:ints,scale:float}"),
    SP_ENTRY(
        DOMAIN, "PackedMultiHeadAttention", 1, 0, 1, 7, 1, 1,
        "[n, h*d] [n, h*d] [n, h*e] [_] [b, s] [_] [b, h, s, t] -> [n, h*e]; h = num_heads; n, d, e, b, s, t whole; "
        "packed queries [n, h, 3, d]",
        "ONNX Runtime contrib operator PackedMultiHeadAttention", .form = form_packed_heads,
        .shapes = sp_shapes_from_text, .traffic = sp_traffic_packed,
        .signature = "(query,key?,value?,bias?,token_offset,cumulative_sequence_length,attention_bias?) -> "
                     "(output) {" MASK_VALUE "}"),
    SP_ENTRY(DOMAIN, "PagedAttention", 1, 0, 1, 17, 1, 3,
             "[n, kv*g*d] [n, kv*d] [n, kv*d]" PAGED
             "[n, kv*g*d] [p, q, kv, dc] [p, q, kv, dc]; kv = kv_num_heads; kv*g = num_heads; n, d, p, q, dc, b, m "
             "whole; packed queries all whole",
             "ONNX Runtime contrib operator PagedAttention", .form = form_paged, .shapes = sp_shapes_from_text,
             .types = "0 3 3", .traffic = sp_traffic_paged,
             .signature =
                 "(query,key?,value?,key_cache,value_cache?,cumulative_sequence_length,past_seqlens,block_table,"
                 "cos_cache?,sin_cache?,slot_mapping?,head_sink?,q_norm_weight?,k_norm_weight?,k_scale?,"
                 "v_scale?,attention_metadata?) -> (output,key_cache_out?,value_cache_out?) {do_rotary:int=0,"
                 "is_causal:int=1,k_cache_dtype:string,k_quant_type:string=NONE,kv_cache_layout:string=SEPARATE,"
                 "kv_num_heads!:int,local_window_size:int=-1,num_heads!:int,qk_norm_epsilon:float,"
                 "rotary_interleaved:int=0,rotary_offset:int=0,scale:float,softcap:float=0.0,"
                 "v_cache_dtype:string,v_head_size:int=0,v_quant_type:string=NONE}"),
    SP_ENTRY(DOMAIN, "SparseAttention", 1, 0, 1, 11, 1, 3,
             "[b, s, kv*g*d] [b, s, kv*d] [b, s, kv*d]" SPARSE_CACHES
             "[b, s, kv*g*d] [b, kv, c, d] [b, kv, c, d]; kv = kv_num_heads; kv*g = num_heads; s, c, d, l, r, z whole; "
             "with several layouts or packed queries kv, g whole",
             "ONNX Runtime contrib operator SparseAttention", .form = form_sparse, .shapes = sp_shapes_from_text,
             .types = "0 3 4", .traffic = sp_traffic_sparse,
             .signature = "(query,key?,value?,past_key,past_value,block_row_indices,block_col_indices,"
                          "total_sequence_length,key_total_sequence_lengths,cos_cache?,sin_cache?) -> (output,"
                          "present_key,present_value) {do_rotary:int=0,kv_num_heads!:int,num_heads!:int,"
                          "rotary_interleaved:int=0,scale:float,sparse_block_size!:int}"),
    SP_ENTRY(DOMAIN, "QAttention", 1, 0, 5, 9, 1, 2, Q_REST("[b, t]") "; t whole",
             "ONNX Runtime contrib operator QAttention", .form = form_quantized, .shapes = sp_shapes_from_text,
             .types = "2", .work = "2*b*s*i*three*h*d", .traffic = sp_traffic_quantized,
             .signature = "(input,weight,bias,input_scale,weight_scale,mask_index?,input_zero_point?,"
                          "weight_zero_point?,past?) -> (output,present?) {do_rotary:int=0,mask_filter_value:float="
                          "-10000.0,num_heads!:int,past_present_share_buffer:int,scale:float,unidirectional:int=0}"),
    SP_ENTRY(DOMAIN, "QOrderedAttention", 1, 0, 14, 20, 1, 1,
             "[b, s, i] [_..] [_..] [_..] [_..] [_..] [_..] [_..] [_..] [_..] [_..] [k] [_..] -> [b, s, k]; all whole",
             "ONNX Runtime contrib operator QOrderedAttention", .shapes = sp_shapes_from_text,
             .work = "6*b*s*i*k + 4*b*s*s*k", .traffic = sp_traffic_ordered,
             .signature = "(input,scale_input,scale_Q_gemm,scale_K_gemm,scale_V_gemm,Q_weight,K_weight,V_weight,"
                          "scale_Q_weight,scale_K_weight,scale_V_weight,Q_bias,K_bias,V_bias,scale_QKT_gemm?,"
                          "scale_QKT_softmax?,scale_values_gemm,mask_index?,past?,attention_bias?) -> (output) "
                          "{num_heads!:int,order_input!:int,order_output!:int,order_weight!:int,qkv_hidden_sizes:ints,"
                          "unidirectional:int=0}"),
    SP_ENTRY(DOMAIN, "LongformerAttention", 1, 0, 7, 7, 1, 1,
             "[b, s, i] [i, k] [k] [b, s] [i, k] [k] [b, s] -> [b, s, i]; s, i, k whole",
             "ONNX Runtime contrib operator LongformerAttention", .shapes = sp_shapes_from_text, .work = "4*b*s*i*k",
             .traffic = sp_traffic_longformer,
             .signature = "(input,weight,bias,mask,global_weight,global_bias,global) -> (output) {num_heads!:int,"
                          "window!:int}"),
    SP_ENTRY(
        DOMAIN, "QOrderedLongformerAttention", 1, 0, 14, 14, 1, 1,
        "[b, s, i] [_..] [_..] [_..] [_..] [_..] [_..] [b, s] [_..] [_..] [_..] [_..] [b, s] [_..] -> [b, s, i]; s, "
        "i whole",
        "ONNX Runtime contrib operator QOrderedLongformerAttention", .shapes = sp_shapes_from_text,
        .work = "12*b*s*i*i", .traffic = sp_traffic_longformer,
        .signature = "(input,scale_input,weight,scale_weight,bias,scale_bias,scale_qkv_gemm,mask,global_weight,"
                     "scale_global_weight,global_bias,scale_global_gemm,global,scale_output) -> (output) "
                     "{num_heads!:int,order_global_weight!:int,order_input!:int,order_output!:int,"
                     "order_weight!:int,window!:int}"),
    SP_ENTRY(
        DOMAIN, "GatedRelativePositionBias", 1, 0, 6, 7, 1, 1,
        "[b, s, h*d] [h*d] [1, h, s, t] [d, e] [e] [1, h, 1, 1] [b, s] -> [b, h, s, t]; h = num_heads; d, e whole; "
        "packed tokens [n, h*d] whole",
        "ONNX Runtime contrib operator GatedRelativePositionBias", .form = form_gated_positions,
        .shapes = sp_shapes_from_text, .work = "2*b*s*h*d*e + 2*b*h*s*t",
        .signature = "(query_layer,query_bias,rel_pos,weight,bias,eco_a,token_offset?) -> (output) "
                     "{num_heads!:int}"),
    SP_ENTRY(DOMAIN, "RelativePositionBias", 1, 0, 3, 3, 1, 1, "[k, h] [] [] -> [1, h, s, t]; k, h, s, t whole",
             "ONNX Runtime contrib operator RelativePositionBias", .form = form_positions,
             .shapes = sp_shapes_from_text, .work = "1*h*s*t",
             .signature =
                 "(bias_table,query_length,key_length) -> (output) {is_bidirectional:int=0,max_distance!:int}"),
    SP_ENTRY(DOMAIN, "RemovePadding", 1, 0, 2, 2, 4, 4,
             "[b, s, h] [b] -> [_, h] [b, s] [c] [1]; c = b + 1; b, s, c whole",
             "ONNX Runtime contrib operator RemovePadding", .shapes = sp_shapes_from_text, .types = "0 1 1 1",
             .signature = "(input,sequence_token_count) -> (output,token_offset,cumulated_seq_len,max_seq_len) {}"),
    SP_ENTRY(DOMAIN, "RestorePadding", 1, 0, 2, 2, 1, 1, "[_, h] [b, s] -> [b, s, h]; b, s whole",
             "ONNX Runtime contrib operator RestorePadding", .shapes = sp_shapes_from_text,
             .signature = "(input,token_offset) -> (output) {}"),
    {.name = NULL},
};
