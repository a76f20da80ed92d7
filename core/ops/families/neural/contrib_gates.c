/*
 * Gates, recurrent states and embeddings of n-grams in newer language models (com.microsoft).
 *
 *     GatedAdd                    [i.., c] [i.., c] [i.., 1] -> [i.., c]
 *     GatedRMSNorm                [i.., h*c] [c] [i.., h*c] -> [i.., h*c]                    c whole
 *     LinearAttentionGate         [b, t, h] [h] [h] [b, t, h] -> [b, t, h] [b, t, h]
 *     GatedDeltaNet               [t, h, d] [t, h, d] [t, h*g, e] .. -> [t, h*g, e] ..       t sequential
 *     VarlenCausalConvWithState   [n, c] [c, 1, k] [_] [c] [b, c, p] -> [n, c] [b, c, p]     n whole
 *     MRotaryEmbedding            [b, s, h*d] [3, b, s] [p, r] [p, r] -> [b, s, h*d]         d whole
 *
 * FLOPs: 1 for each element and step of a gate, 2 for each multiply-add.
 */
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/rule_text.h"
#include "ops/table/shape_helpers.h"
#include "ops/table/traffic.h"

#define DOMAIN "com.microsoft"

static uint32_t rank_of(const struct sp_op_context *context, uint32_t input)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    return shape == NULL ? 0 : shape->rank;
}

/* ---- GatedDeltaNet ---------------------------------------------------------------------------------------------- */

enum { DELTA_QUERY, DELTA_OFFSETS = 3, DELTA_DECAY = 4 };

/* Tokens have one axis, or two; the decay has one number for each head, or for each of its rows. */
static const char *form_delta(struct sp_op_context *context)
{
    const char *tokens = rank_of(context, DELTA_QUERY) == 4 ? "b, t" : "t";
    bool has_rows = rank_of(context, DELTA_DECAY) == (rank_of(context, DELTA_QUERY) == 4 ? 4u : 3u);
    return sp_form_text(
        context,
        "[%s, h, d] [%s, h, d] [%s, h*g, e] [_] [%s, h*g%s] [%s, h*g] [b, h*g, e, d] [h*g] [h*g] [b] [_] "
        "-> [%s, h*g, e] [b, h*g, e, d] [b, _]; t sequential; d, b whole",
        tokens, tokens, tokens, tokens, has_rows ? ", d" : "", tokens, tokens);
}

/* ---- MRotaryEmbedding ------------------------------------------------------------------------------------------- */

/* Heads that are packed are told by the width of the caches, or by an attribute where only a part of each is turned. */
static const char *form_rotary(struct sp_op_context *context)
{
    if (rank_of(context, 0) == 4)
        return "[b, h, s, d] [3, b, s] [p, r] [p, r] -> [b, h, s, d]; d, p, r whole";
    if (sp_node_int(context->node, "is_packed_batching", 0) != 0)
        return "[b, s, k] [3, b, s] [p, r] [p, r] -> [b, s, k]; all whole";
    if (sp_node_int(context->node, "rotary_embedding_dim", 0) != 0)
        return "[b, s, h*d] [3, b, s] [p, r] [p, r] -> [b, s, h*d]; h = num_heads; d, p, r whole";
    return "[b, s, h*d] [3, b, s] [p, r] [p, r] -> [b, s, h*d]; d = 2 * r; d, p, r whole";
}

/* Three rows for each token: of time, height and width. */
static void traffic_rotary(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *table = sp_in_shape(context, 2);
    struct sp_factor_list tokens = {0};
    sp_factor_list_add(&tokens, sp_rule_named(rule, "b"));
    sp_factor_list_add(&tokens, sp_rule_named(rule, "s"));
    for (uint32_t input = 2; table != NULL && table->rank > 0 && input < 4; input++)
        sp_rule_use_input(rule, input, 3 * sp_dim_share(sp_dim_known(1), table->dims[0]), &tokens);
}

const struct sp_op sp_ops_contrib_gates[] = {
    SP_ENTRY(DOMAIN, "GatedAdd", 1, 0, 3, 3, 1, 1, "[i.., c] [i.., c] [i.., 1] -> [i.., c]",
             "ONNX Runtime contrib operator GatedAdd", .shapes = sp_shapes_from_text, .flops = 2,
             .signature = "(X,Y,gate) -> (output) {}"),
    SP_ENTRY(DOMAIN, "GatedRMSNorm", 1, 0, 3, 3, 1, 1, "[i.., h*c] [c] [i.., h*c] -> [i.., h*c]; c whole",
             "ONNX Runtime contrib operator GatedRMSNorm", .flags = SP_OP_FUNCTION, .shapes = sp_shapes_from_text,
             .flops = 8, .signature = "(X,scale,gate) -> (Y) {epsilon:float=1e-05}"),
    SP_ENTRY(DOMAIN, "LinearAttentionGate", 1, 0, 3, 4, 1, 2, "[b, t, h] [h] [h] [b, t, h] -> [b, t, h] [b, t, h]",
             "ONNX Runtime contrib operator LinearAttentionGate", .flags = SP_OP_FUNCTION,
             .shapes = sp_shapes_from_text, .flops = 4, .signature = "(a,dt_bias,decay_scale,b?) -> (decay,beta?) {}"),
    SP_ENTRY(
        DOMAIN, "GatedDeltaNet", 1, 0, 3, 11, 1, 3,
        "[t, h, d] [t, h, d] [t, h*g, e] [_] [t, h*g] [t, h*g] [b, h*g, e, d] [h*g] [h*g] [b] [_] -> [t, h*g, e] [b, "
        "h*g, e, d] [b, _]; t sequential; d, b whole; tokens may be [b, t]",
        "ONNX Runtime contrib operator GatedDeltaNet", .form = form_delta, .shapes = sp_shapes_from_text,
        .types = "0 float32 float32", .work = "9*t*h*g*d*e",
        .signature = "(query,key,value,cu_seqlens?,decay?,beta?,initial_state?,a_log?,dt_bias?,capture_count?,"
                     "state_update_active?) -> (output,final_state?,state_update?) {beta_activation:string=none,"
                     "chunk_size:int=64,gate_activation:string=none,qk_l2_norm:int=0,scale:float=0.0,"
                     "state_update_capacity:int=0,update_rule:string=gated_delta}"),
    SP_ENTRY(
        DOMAIN, "VarlenCausalConvWithState", 1, 0, 3, 6, 2, 3,
        "[n, c] [c, 1, k] [_] [c] [b, c, p] [b] -> [n, c] [b, c, p] [b, u, c]; u = state_update_capacity:0; n, k, b, "
        "p, u whole",
        "ONNX Runtime contrib operator VarlenCausalConvWithState", .shapes = sp_shapes_from_text,
        .work = "2*n*c*k + 2*n*c",
        .signature = "(input,weight,cumulative_sequence_length,bias?,initial_state,capture_count?) -> (output,"
                     "final_state,state_update?) {activation:string=none,dilation:int=1,"
                     "state_update_capacity:int=0}"),
    SP_ENTRY(DOMAIN, "EngramGate", 1, 0, 5, 6, 1, 2,
             "[b, s, c, h] [b, s, c, h] [b, s, h] [c, h] [c, h] [c, h] -> [b, s, c, h] [b, s, c, h]; h whole",
             "ONNX Runtime contrib operator EngramGate", .flags = SP_OP_FUNCTION, .shapes = sp_shapes_from_text,
             .flops = 12,
             .signature = "(key,query,value,key_norm_scale,query_norm_scale,conv_norm_scale?) -> (output,"
                          "gated_value_normed?) {epsilon:float=1e-05}"),
    SP_ENTRY(
        DOMAIN, "NGramHashMapping", 1, 0, 3, 7, 1, 2,
        "[b, s] [_] [k] [b, p] [k] [_..] [b, s] -> [b, s, k] [b, p]; p = max_ngram_size - 1; k = (max_ngram_size - 1) "
        "* n_head_per_ngram; s, k, p whole",
        "ONNX Runtime contrib operator NGramHashMapping", .shapes = sp_shapes_from_text, .work = "4*b*s*k",
        .signature = "(input_ids,multipliers,vocab_sizes,past_ids?,head_offsets?,eos_token_id?,segment_ids?) -> "
                     "(hash_ids,present_ids?) {max_ngram_size!:int,n_head_per_ngram!:int,pad_id!:int,"
                     "reset_on_eos:int=0}"),
    SP_ENTRY(DOMAIN, "NGramRepeatBlock", 1, 0, 2, 2, 1, 1, "[b, s] [b, v] -> [b, v]; s, v whole",
             "ONNX Runtime contrib operator NGramRepeatBlock", .shapes = sp_shapes_from_text, .types = "1",
             .work = "1*b*s", .signature = "(input_ids,scores) -> (scores_out) {ngram_size!:int}"),
    SP_ENTRY(DOMAIN, "BifurcationDetector", 1, 0, 3, 4, 2, 2, "[s] [c] [] [p] -> [_] []; all whole",
             "ONNX Runtime contrib operator BifurcationDetector", .shapes = sp_shapes_from_text, .work = "1*s + 1*c",
             .signature = "(src_tokens,cur_tokens,prev_suffix_match_idx,pred_tokens?) -> (tokens,suffix_match_idx) "
                          "{max_ngram_size:int=3,min_ngram_size:int=1}"),
    SP_ENTRY(DOMAIN, "GemmaRotaryEmbedding", 1, 0, 5, 5, 2, 2,
             "[b, s, d] [b, h, s, d] [b, h, s, d] [b, h, s, d] [b, h, s, d] -> [b, h, s, d] [b, h, s, d]",
             "ONNX Runtime contrib operator GemmaRotaryEmbedding", .flags = SP_OP_FUNCTION,
             .shapes = sp_shapes_from_text, .types = "1", .flops = 6,
             .signature = "(emb,q,q_rot,k,k_rot) -> (output1,output2) {}"),
    SP_ENTRY(DOMAIN, "MRotaryEmbedding", 1, 0, 4, 4, 1, 1,
             "[b, s, h*d] [3, b, s] [p, r] [p, r] -> [b, s, h*d]; d, p, r whole; with packed batches all whole; heads "
             "may be apart, [b, h, s, d]",
             "ONNX Runtime contrib operator MRotaryEmbedding", .form = form_rotary, .shapes = sp_shapes_from_text,
             .traffic = traffic_rotary, .work = "3*b*s*h*d + 3*b*s*k", .lower = sp_lower_rotary,
             .signature = "(input,position_ids,cos_cache,sin_cache) -> (output) {interleaved:int=0,"
                          "is_packed_batching:int=0,mrope_layout:int=0,mrope_section!:ints,num_heads:int=0,"
                          "rotary_embedding_dim:int=0,scale:float=1.0}"),
    {.name = NULL},
};
