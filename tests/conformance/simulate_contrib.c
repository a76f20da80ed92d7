/*
 * Operators of language models: ONNX Runtime's own (com.microsoft), and Attention of ONNX in forms that no published
 * case has. Which forms there are: ONNX Runtime's docs/ContribOperators.md, ONNX's Operators.md; sizes are of our
 * choice, uneven where a kernel allows it.
 */
#include "simulate_own.h"

const struct simulate_own simulate_contrib_cases[] = {
    /* Attention: masks, lengths, groups, windows of places, which scores come out. */
    {"Attention", 24, "float32[2,4,5,8] float32[2,2,7,8] float32[2,2,7,6] bool[5,7]", "", "o"},
    {"Attention", 24, "float32[2,4,5,8] float32[2,2,7,8] float32[2,2,7,6] float32[2,4,5,7]", "softcap=2.0", "o"},
    {"Attention", 24, "float32[2,4,5,8] float32[2,4,7,8] float32[2,4,7,6] float32[4,5,7]", "is_causal=1", "o"},
    {"Attention", 24, "float32[2,4,5,8] float32[2,2,7,8] float32[2,2,7,6] - - - int64=7,3", "scale=0.3", "o"},
    {"Attention", 24, "float32[2,4,5,8] float32[2,2,7,8] float32[2,2,7,6] bool[2,1,5,7] - - int64=7,3", "", "o"},
    {"Attention", 24, "float32[2,5,24] float32[2,7,12] float32[2,7,9]", "q_num_heads=6 kv_num_heads=3", "o o o"},
    {"Attention", 24, "float32[2,5,24] float32[2,7,12] float32[2,7,9]",
     "q_num_heads=6 kv_num_heads=3 qk_matmul_output_mode=3", "o o o o"},
    {"Attention", 24, "float32[2,5,24] float32[2,7,12] float32[2,7,9]",
     "q_num_heads=6 kv_num_heads=3 qk_matmul_output_mode=0", "o o o o"},
    {"Attention", 24, "float16[2,4,5,8] float16[2,4,7,8] float16[2,4,7,8] float16[5,7]", "", "o"},
    {"Attention", 24, "float32[2,4,5,8] float32[2,2,7,8] float32[2,2,7,6] float32[5,7]",
     "softcap=2.0 qk_matmul_output_mode=1", "o - - o"},
    {"Attention", 24, "float32[2,4,5,8] float32[2,2,7,8] float32[2,2,7,6] float32[5,7]",
     "softcap=2.0 qk_matmul_output_mode=2", "o - - o"},
    {"Attention", 23, "float32[2,4,5,8] float32[2,4,6,8] float32[2,4,6,8] - float32[2,4,3,8] float32[2,4,3,8]",
     "is_causal=1", "o o o"},

    /* MultiHeadAttention: bias, the kinds of padding masks, attention bias, caches. */
    {"com.microsoft.MultiHeadAttention", 1, "float32[2,4,16] float32[2,6,16] float32[2,6,24]", "num_heads=4", "o"},
    {"com.microsoft.MultiHeadAttention", 1, "float32[2,4,12] float32[2,5,12] float32[2,5,12] float32[36]",
     "num_heads=3 scale=0.3", "o"},
    {"com.microsoft.MultiHeadAttention", 1, "float32[2,4,16] float32[2,6,16] float32[2,6,24] float32[56]",
     "num_heads=4", "o"},
    {"com.microsoft.MultiHeadAttention", 1, "float32[2,4,16] float32[2,6,16] float32[2,6,16] - int32[2,6]<2",
     "num_heads=4", "o"},
    {"com.microsoft.MultiHeadAttention", 1,
     "float32[2,4,16] float32[2,6,16] float32[2,6,16] float32[48] int32=6,3 float32[2,4,4,6]", "num_heads=4", "o"},
    {"com.microsoft.MultiHeadAttention", 1,
     "float32[2,4,16] float32[2,6,16] float32[2,6,16] - int32[2,4,6]<2 float32[1,4,4,6]",
     "num_heads=4 mask_filter_value=-3.0", "o"},
    {"com.microsoft.MultiHeadAttention", 1, "float32[2,4,16] float32[2,6,16] float32[2,6,16] - - float32[2,1,4,6]",
     "num_heads=4", "o o o"},
    {"com.microsoft.MultiHeadAttention", 1, "float32[2,6,16] float32[2,6,16] float32[2,6,16] float32[48]",
     "num_heads=4 unidirectional=1", "o o o"},
    {"com.microsoft.MultiHeadAttention", 1, "float32[2,4,16] float32[2,4,6,4] float32[2,4,6,4]", "num_heads=4", "o"},
    {"com.microsoft.MultiHeadAttention", 1,
     "float32[2,4,16] float32[2,4,16] float32[2,4,16] float32[48] - - float32[2,4,3,4] float32[2,4,3,4]", "num_heads=4",
     "o o o"},

    /* GroupQueryAttention: prompts, the next token, packed, rotary, windows; heads have a multiple of 8 elements. */
    {"com.microsoft.GroupQueryAttention", 1, "float32[2,4,64] float32[2,4,32] float32[2,4,32] - - int32=3,3 int32:=4",
     "num_heads=8 kv_num_heads=4", "o o o"},
    {"com.microsoft.GroupQueryAttention", 1,
     "float32[2,1,48] float32[2,1,24] float32[2,1,24] float32[2,3,8,8] float32[2,3,8,8] int32=5,3 int32:=6",
     "num_heads=6 kv_num_heads=3 softcap=2.0", "o o o"},
    {"com.microsoft.GroupQueryAttention", 1, "float32[2,4,96] - - - - int32=3,3 int32:=4",
     "num_heads=4 kv_num_heads=4 local_window_size=2", "o o o"},
    {"com.microsoft.GroupQueryAttention", 1,
     "float32[2,4,64] float32[2,4,32] float32[2,4,32] - - int32=3,3 int32:=4 float32[16,8] float32[16,8]",
     "num_heads=4 kv_num_heads=2 do_rotary=1", "o o o"},
    {"com.microsoft.GroupQueryAttention", 1,
     "float32[2,4,64] float32[2,4,32] float32[2,4,32] - - int32=3,3 int32:=4 - - - float32[2,8,4,4] float32[8]",
     "num_heads=8 kv_num_heads=4 scale=0.3", "o o o"},
    {"com.microsoft.GroupQueryAttention", 1, "float32[2,4,64] - - - - int32=3,3 int32:=4", "num_heads=4 kv_num_heads=2",
     "o o o"},

    /* Attention of ONNX Runtime: the projection, its masks, the past. */
    {"com.microsoft.Attention", 1, "float32[2,4,16] float32[16,48] float32[48]", "num_heads=4", "o"},
    {"com.microsoft.Attention", 1, "float32[2,4,16] float32[16,36] float32[36] int32[2,4]<2",
     "num_heads=3 unidirectional=1 qkv_hidden_sizes=[12,12,12]", "o"},
    {"com.microsoft.Attention", 1, "float32[2,4,16] float32[16,48] float32[48] int32=4,2", "num_heads=4", "o"},
    {"com.microsoft.Attention", 1, "float32[2,4,16] float32[16,48] float32[48] int32=4,2,1,0", "num_heads=4", "o"},
    {"com.microsoft.Attention", 1, "float32[2,4,16] float32[16,48] float32[48] - float32[2,2,4,3,4]", "num_heads=4",
     "o o"},
    {"com.microsoft.Attention", 1, "float32[2,4,16] float32[16,48] float32[48] - - float32[2,4,4,4]",
     "num_heads=4 scale=0.3", "o"},
    {"com.microsoft.Attention", 1, "float32[2,4,16] float32[16,64] float32[64]",
     "num_heads=4 qkv_hidden_sizes=[16,16,32]", "o"},

    /* RotaryEmbedding. */
    {"com.microsoft.RotaryEmbedding", 1, "float32[2,4,24] int64[2,4]<32 float32[32,4] float32[32,4]", "", "o"},
    {"com.microsoft.RotaryEmbedding", 1, "float32[2,4,24] int64[2,4]<32 float32[32,4] float32[32,4]",
     "num_heads=3 rotary_embedding_dim=8", "o"},
    {"com.microsoft.RotaryEmbedding", 1, "float32[2,3,4,8] int64[2,4]<32 float32[32,4] float32[32,4]", "interleaved=1",
     "o"},
    {"com.microsoft.RotaryEmbedding", 1, "float32[2,3,4,8] int64=5 float32[32,4] float32[32,4]", "", "o"},
    {"com.microsoft.RotaryEmbedding", 1, "float32[2,4,24] int64[2,4]<32 float32[32,2] float32[32,2]",
     "num_heads=3 rotary_embedding_dim=4", "o"},
    {"RotaryEmbedding", 23, "float32[2,4,24] float32[2,4,4] float32[2,4,4]", "num_heads=3", "o"},
    {"RotaryEmbedding", 23, "float32[2,3,4,8] float32[32,4] float32[32,4] int64[2,4]<32", "interleaved=1", "o"},
    {"RotaryEmbedding", 23, "float32[2,4,24] float32[32,4] float32[32,4] int64[2,4]<32",
     "num_heads=3 rotary_embedding_dim=8", "o"},

    /* LinearAttention: groups, gates, a state from before; CausalConvWithState, also shorter than its state. */
    {"LinearAttention", 27, "float32[2,5,24] float32[2,5,12] float32[2,5,9]",
     "q_num_heads=6 kv_num_heads=3 update_rule='linear'", "o o"},
    {"LinearAttention", 27, "float32[2,5,24] float32[2,5,12] float32[2,5,9] float32[2,3,4,3] float32[2,5,3]",
     "q_num_heads=6 kv_num_heads=3 update_rule='gated' scale=0.3", "o o"},
    {"LinearAttention", 27, "float32[2,5,16] float32[2,5,8] float32[2,5,6] - float32[2,5,8]",
     "q_num_heads=4 kv_num_heads=2 update_rule='gated'", "o o"},
    {"LinearAttention", 27, "float32[2,5,16] float32[2,5,8] float32[2,5,6] - float32[2,5,2] float32[2,5,1]",
     "q_num_heads=4 kv_num_heads=2", "o o"},
    {"CausalConvWithState", 27, "float32[2,3,10] float32[3,1,4] float32[3]", "activation='silu'", "o o"},
    {"CausalConvWithState", 27, "float32[2,4,3] float32[4,1,6]", "", "o o"},
    {"CausalConvWithState", 27, "float32[2,3,10] float32[3,1,4] - float32[2,3,3]", "", "o o"},
    {"CausalConvWithState", 27, "float32[2,3,4] float32[3,1,7] float32[3] float32[2,3,6]", "", "o o"},

    /* Mixtures of experts: more chosen than a device has, weights normalized or as they are, tokens in two axes. MoE
       has one token where they are not normalized: the kernel of ONNX Runtime 1.30 then writes over an input that
       nobody else uses, as parts of it are. */
    {"com.microsoft.MoE", 1, "float32[6,8] float32[6,5] float32[5,12,8] float32[5,12] float32[5,8,12] float32[5,8]",
     "k=2 activation_type='gelu' normalize_routing_weights=1", "o"},
    {"com.microsoft.MoE", 1, "float32[1,8] float32[1,5] float32[5,12,8] float32[5,12] float32[5,8,12] float32[5,8]",
     "k=2 activation_type='gelu'", "o"},
    {"com.microsoft.MoE", 1, "float32[6,8] float32[6,5] float32[5,12,8] - float32[5,8,12] float32[5,8]",
     "k=3 activation_type='relu' normalize_routing_weights=1", "o"},
    {"com.microsoft.MoE", 1, "float32[2,3,8] float32[6,4] float32[4,24,8] float32[4,24] float32[4,8,12] float32[4,8]",
     "k=2 activation_type='swiglu' swiglu_fusion=1 activation_alpha=1.7 activation_beta=1.0 "
     "normalize_routing_weights=1",
     "o"},
    {"com.microsoft.MoE", 1, "float32[1,8] float32[1,4] float32[4,12,8] - float32[4,8,12]", "activation_type='silu'",
     "o"},
    {"com.microsoft.MoE", 1, "float32[1,1,8] float32[1,6] float32[6,12,8] - float32[6,8,12]",
     "k=4 activation_type='identity'", "o"},
    {"com.microsoft.QMoE", 1,
     "float32[6,32] float32[6,4] uint8[4,32,16]<256 float32[4,32]>0 - uint8[4,32,8]<256 float32[4,32]>0",
     "k=2 activation_type='swiglu' swiglu_fusion=1 normalize_routing_weights=1", "o"},
    {"com.microsoft.QMoE", 1,
     "float32[6,64] float32[6,4] uint8[4,128,64]<256 float32[4,128,2]>0 float32[4,128] uint8[4,64,64]<256 "
     "float32[4,64,2]>0 float32[4,64]",
     "k=2 activation_type='swiglu' swiglu_fusion=1 expert_weight_bits=8 block_size=32 normalize_routing_weights=1",
     "o"},
    {"com.microsoft.QMoE", 1,
     "float32[6,32] float32[6,4] uint8[4,32,16]<256 float32[4,32]>0 - uint8[4,32,8]<256 float32[4,32]>0",
     "k=2 activation_type='swiglu' swiglu_fusion=1", "o"},
    {"com.microsoft.QMoE", 1,
     "float32[6,32] float32[6,4] uint8[4,32,16]<256 float32[4,32]>0 - uint8[4,32,8]<256 float32[4,32]>0 - - - - - - - "
     "float32[6,4]>0",
     "k=2 activation_type='swiglu' swiglu_fusion=1", "o"},
    {"com.microsoft.QMoE", 1,
     "float32[6,32] float32[6,4] uint8[4,32,16]<256 float32[4,32]>0 - uint8[4,32,8]<256 float32[4,32]>0 - - - - - - - "
     "float32[6,4]>0",
     "k=3 activation_type='swiglu' swiglu_fusion=1 normalize_routing_weights=1", "o"},

    /* Activations with what is fused to them. */
    {"com.microsoft.Gelu", 1, "float32[3,4]", "", "o"},
    {"com.microsoft.QuickGelu", 1, "float32[3,4]", "alpha=1.5", "o"},
    {"com.microsoft.FastGelu", 1, "float32[2,3,4] float32[4]", "", "o"},
    {"com.microsoft.FastGelu", 1, "float32[2,3,4]", "", "o"},
    {"com.microsoft.BiasGelu", 1, "float32[2,3,4] float32[4]", "", "o"},
    {NULL, 0, NULL, NULL, NULL},
};
