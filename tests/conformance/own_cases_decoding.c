/*
 * The rest of ONNX Runtime's operators for language models (com.microsoft). Shapes follow its docs/ContribOperators.md.
 * Most have no kernel for a CPU; those that have one are computed on pieces, too (simulate_contrib.c).
 */
#include "own_cases.h"

const struct own_case own_cases_decoding[] = {
    /* Attention of decoders: past and present apart or in one buffer, with beams, across to an encoder. */
    {"com.microsoft.DecoderMaskedMultiHeadAttention", 1,
     "float32[2,1,16] float32[2,1,16] float32[2,1,16] int32[2,4] float32[2,4,1,4] float32[2,4,3,4] float32[2,4,3,4] "
     "int32[1]",
     "num_heads=4", "float32[2,1,16] float32[2,4,4,4] float32[2,4,4,4] float32[2,4,1,4]",
     "[b,s,h*d] [b,s,h*d] [b,s,h*d] [b,t] [b,h,s,t] [b,h,p,d] [b,h,p,d] [_] -> [b,s,h*d] [b,h,c,d] [b,h,c,d] [b,h,s,t] "
     " s: replicate; d: replicate; t: replicate; p: replicate; c: replicate"},
    {"com.microsoft.DecoderMaskedMultiHeadAttention", 1,
     "float16[2,1,16] float16[2,1,16] float16[2,1,16] - - float16[2,4,8,4] float16[2,4,8,4] int32[1] int32[1] "
     "int32[1,2,8] float16[48]",
     "num_heads=4 past_present_share_buffer=1", "float16[2,1,16] float16[2,4,8,4] float16[2,4,8,4]",
     "[b,s,h*d] [b,s,h*d] [b,s,h*d] [] [] [b,h,p,d] [b,h,p,d] [_] [_] [_,_,_] [three*h*d] -> [b,s,h*d] [b,h,c,d] "
     "[b,h,c,d]  b: replicate; s: replicate; d: replicate; p: replicate; three: replicate; c: replicate"},
    {"com.microsoft.DecoderMaskedMultiHeadAttention", 1, "float32[2,1,16] float32[2,4,5,4] float32[2,4,5,4]",
     "num_heads=4", "float32[2,1,16]",
     "[b,s,h*d] [b,h,t,d] [b,h,t,d] -> [b,s,h*d]  s: replicate; d: replicate; t: replicate"},
    {"com.microsoft.DecoderMaskedMultiHeadAttention", 1, "float32[2,1,48] - - - - float32[2,4,3,4] float32[2,4,3,4]",
     "num_heads=4", "float32[2,1,16] float32[2,4,4,4] float32[2,4,4,4]",
     "[b,s,three*h*d] [] [] [] [] [b,h,p,d] [b,h,p,d] -> [b,s,h*d] [b,h,c,d] [b,h,c,d]  b: replicate; s: replicate; "
     "three: replicate; d: replicate; p: replicate; c: replicate"},
    {"com.microsoft.DecoderMaskedMultiHeadAttention", 1,
     "float32[2,1,16] float32[2,4,5,4] float32[2,4,5,4] - - - - - int32[1] int32[1,2,8]", "num_heads=4",
     "float32[2,1,16]",
     "[b,s,h*d] [b,h,t,d] [b,h,t,d] [] [] [] [] [] [_] [_,_,_] -> [b,s,h*d]  b: replicate; s: replicate; d: replicate; "
     "t: replicate"},
    {"com.microsoft.DecoderMaskedSelfAttention", 1,
     "float32[2,1,16] float32[16,48] float32[48] int32[2,8] float32[2,2,4,8,4] - int32[1]",
     "num_heads=4 past_present_share_buffer=1", "float32[2,1,16] float32[2,2,4,8,4]",
     "[b,s,i] [i,three*h*d] [three*h*d] [b,t] [two,b,h,p,d] [] [_] -> [b,s,h*d] [two,b,h,c,d]  b: replicate; s: "
     "replicate; i: replicate; three: replicate; d: replicate; t: replicate; two: replicate; p: replicate; c: "
     "replicate"},
    {"com.microsoft.DecoderAttention", 1,
     "float32[5,2,16] float32[7,2,16] float32[16,16] float32[16,32] float32[48] bool[2,7] float32[2,4,3,4] "
     "float32[2,4,3,4] bool[] bool[] bool[] bool[]",
     "num_heads=4", "float32[5,2,16] float32[2,4,DecoderAttention_0,4] float32[2,4,DecoderAttention_0,4]",
     "[s,b,i] [t,b,i] [i,o] [i,two*o] [three*o] [b,t] [b,h,p,d] [b,h,p,d] [] [] [] [] -> [s,b,o] [b,h,c,d] [b,h,c,d]  "
     "s: replicate; i: replicate; t: replicate; o: replicate; two: replicate; three: replicate; h: replicate; p: "
     "replicate; d: replicate; c: replicate"},

    /* Packed batches, pages of caches, layouts of blocks. */
    {"com.microsoft.PackedAttention", 1,
     "float32[7,16] float32[16,48] float32[48] int32[2,4] int32[3] float32[1,4,4,4]", "num_heads=4", "float32[7,16]",
     "[n,i] [i,three*h*d] [three*h*d] [b,s] [_] [_,h,s,t] -> [n,h*d]  n: replicate; i: replicate; three: replicate; d: "
     "replicate; b: replicate; s: replicate; t: replicate"},
    {"com.microsoft.PackedAttention", 1, "float32[7,16] float32[16,64] float32[64] int32[2,4] int32[3]",
     "num_heads=4 qkv_hidden_sizes=[16,16,32]", "float32[7,32]",
     "[n,i] [i,k] [k] [b,s] [_] -> [n,e]  n: replicate; i: replicate; k: replicate; b: replicate; s: replicate; e: "
     "replicate"},
    {"com.microsoft.PackedMultiHeadAttention", 1, "float16[7,16] float16[7,16] float16[7,24] - int32[2,4] int32[3]",
     "num_heads=4", "float16[7,24]",
     "[n,h*d] [n,h*d] [n,h*e] [] [b,s] [_] -> [n,h*e]  n: replicate; d: replicate; e: replicate; b: replicate; s: "
     "replicate"},
    {"com.microsoft.PackedMultiHeadAttention", 1, "float16[7,4,3,4] - - - int32[2,4] int32[3]", "num_heads=4",
     "float16[7,16]",
     "[n,h,_,d] [] [] [] [b,s] [_] -> [n,h*d]  n: replicate; d: replicate; b: replicate; s: replicate"},
    {"com.microsoft.PagedAttention", 1,
     "float16[7,64] float16[7,32] float16[7,32] float16[10,16,4,8] float16[10,16,4,8] int32[3] int32[2] int32[2,5] "
     "float16[32,4] float16[32,4]",
     "num_heads=8 kv_num_heads=4 do_rotary=1", "float16[7,64] float16[10,16,4,8] float16[10,16,4,8]",
     "[n,kv*g*d] [n,kv*d] [n,kv*d] [p,q,kv,dc] [p,q,kv,dc] [_] [b] [b,m] [_,_] [_,_] -> [n,kv*g*d] [p,q,kv,dc] "
     "[p,q,kv,dc]  n: replicate; d: replicate; p: replicate; q: replicate; dc: replicate; b: replicate; m: replicate"},
    {"com.microsoft.PagedAttention", 1,
     "float16[7,128] - - float16[10,16,4,8] float16[10,16,4,8] int32[3] int32[2] int32[2,5]",
     "num_heads=8 kv_num_heads=4", "float16[7,64] float16[10,16,4,8] float16[10,16,4,8]",
     "[n,k] [] [] [p,q,kv,dc] [p,q,kv,dc] [_] [b] [b,m] -> [n,o] [p,q,kv,dc] [p,q,kv,dc]  n: replicate; k: replicate; "
     "p: replicate; q: replicate; kv: replicate; dc: replicate; b: replicate; m: replicate; o: replicate"},
    {"com.microsoft.PagedAttention", 1,
     "float16[7,64] float16[7,16] - float16[10,16,1,16] - int32[3] int32[2] int32[2,5]",
     "num_heads=4 kv_num_heads=1 kv_cache_layout='LATENT' v_head_size=12", "float16[7,48] float16[10,16,1,16]",
     "[n,h*d] [n,d] [] [p,q,_,dc] [] [_] [b] [b,m] -> [n,h*e] [p,q,_,dc]  n: replicate; d: replicate; p: replicate; q: "
     "replicate; dc: replicate; b: replicate; m: replicate; e: replicate"},
    {"com.microsoft.SparseAttention", 1,
     "float32[2,4,64] float32[2,4,32] float32[2,4,32] float32[2,4,32,8] float32[2,4,32,8] int32[1,3] int32[1,2] "
     "int32[] int32[2]",
     "num_heads=8 kv_num_heads=4 sparse_block_size=16", "float32[2,4,64] float32[2,4,32,8] float32[2,4,32,8]",
     "[b,s,kv*g*d] [b,s,kv*d] [b,s,kv*d] [b,kv,c,d] [b,kv,c,d] [l,r] [l,z] [] [b] -> [b,s,kv*g*d] [b,kv,c,d] "
     "[b,kv,c,d]  s: replicate; d: replicate; c: replicate; l: replicate; r: replicate; z: replicate"},
    {"com.microsoft.SparseAttention", 1,
     "float32[2,4,64] float32[2,4,32] float32[2,4,32] float32[2,4,32,8] float32[2,4,32,8] int32[2,3] int32[2,2] "
     "int32[] int32[2]",
     "num_heads=8 kv_num_heads=4 sparse_block_size=16", "float32[2,4,64] float32[2,4,32,8] float32[2,4,32,8]",
     "[b,s,kv*g*d] [b,s,kv*d] [b,s,kv*d] [b,kv,c,d] [b,kv,c,d] [l,r] [l,z] [] [b] -> [b,s,kv*g*d] [b,kv,c,d] "
     "[b,kv,c,d]  s: replicate; kv: replicate; g: replicate; d: replicate; c: replicate; l: replicate; r: replicate; "
     "z: replicate"},
    {"com.microsoft.SparseAttention", 1,
     "float32[2,4,128] - - float32[2,4,32,8] float32[2,4,32,8] int32[1,3] int32[1,2] int32[] int32[2]",
     "num_heads=8 kv_num_heads=4 sparse_block_size=16", "float32[2,4,64] float32[2,4,32,8] float32[2,4,32,8]",
     "[b,s,k] [] [] [b,kv,c,d] [b,kv,c,d] [l,r] [l,z] [] [b] -> [b,s,o] [b,kv,c,d] [b,kv,c,d]  s: replicate; k: "
     "replicate; kv: replicate; c: replicate; d: replicate; l: replicate; r: replicate; z: replicate; o: replicate"},

    /* Quantized attention, windows, positions, paddings. */
    {"com.microsoft.QAttention", 1,
     "uint8[2,4,16] int8[16,48] float32[48] float32[] float32[48] int32[2,7] uint8[] int8[48] float32[2,2,4,3,4]",
     "num_heads=4", "float32[2,4,16] float32[2,2,4,7,4]",
     "[b,s,i] [i,three*h*d] [three*h*d] [] [three*h*d] [b,t] [] [three*h*d] [two,b,h,p,d] -> [b,s,h*d] [two,b,h,c,d]  "
     "s: replicate; i: replicate; three: replicate; d: replicate; t: replicate; two: replicate; p: replicate; c: "
     "replicate"},
    {"com.microsoft.QAttention", 1, "uint8[2,4,16] int8[16,48] float32[48] float32[] float32[1] int32[2]",
     "num_heads=4", "float32[2,4,16]",
     "[b,s,i] [i,three*h*d] [three*h*d] [] [_] [b] -> [b,s,h*d]  s: replicate; i: replicate; three: replicate; d: "
     "replicate; two: replicate"},
    {"com.microsoft.QAttention", 1, "uint8[2,4,16] int8[16,48] float32[48] float32[] float32[]", "num_heads=4",
     "float32[2,4,16]",
     "[b,s,i] [i,three*h*d] [three*h*d] [] [] -> [b,s,h*d]  s: replicate; i: replicate; three: replicate; d: "
     "replicate; two: replicate"},
    {"com.microsoft.QAttention", 1, "uint8[2,4,16] int8[16,48] float32[48] float32[] float32[] int32[2,4,4]",
     "num_heads=4", "float32[2,4,16]",
     "[b,s,i] [i,three*h*d] [three*h*d] [] [] [b,s,t] -> [b,s,h*d]  s: replicate; i: replicate; three: replicate; d: "
     "replicate; t: replicate; two: replicate"},
    {"com.microsoft.QAttention", 1, "uint8[2,4,16] int8[16,48] float32[48] float32[] float32[] int32[4]", "num_heads=4",
     "float32[2,4,16]",
     "[b,s,i] [i,three*h*d] [three*h*d] [] [] [_] -> [b,s,h*d]  b: replicate; s: replicate; i: replicate; three: "
     "replicate; d: replicate; two: replicate"},
    {"com.microsoft.QOrderedAttention", 1,
     "int8[2,4,16] float32[] float32[] float32[] float32[] int8[16,16] int8[16,16] int8[16,16] float32[] float32[] "
     "float32[] float32[16] float32[16] float32[16] - - float32[]",
     "num_heads=4 order_input=1 order_output=1 order_weight=0", "int8[2,4,16]",
     "[b,s,i] [] [] [] [] [_,_] [_,_] [_,_] [] [] [] [k] [_] [_] [] [] [] -> [b,s,k]  b: replicate; s: replicate; k: "
     "replicate; i: replicate"},
    {"com.microsoft.LongformerAttention", 1,
     "float32[2,8,16] float32[16,48] float32[48] float32[2,8] float32[16,48] float32[48] int32[2,8]",
     "num_heads=4 window=2", "float32[2,8,16]",
     "[b,s,i] [i,k] [k] [b,s] [i,k] [k] [b,s] -> [b,s,i]  s: replicate; i: replicate; k: replicate"},
    {"com.microsoft.QOrderedLongformerAttention", 1,
     "int8[2,8,16] float32[] int8[16,48] float32[] float32[48] float32[] float32[] float16[2,8] int8[16,48] float32[] "
     "float32[48] float32[] int32[2,8] float32[]",
     "num_heads=4 window=2 order_global_weight=0 order_input=1 order_output=1 order_weight=0", "int8[2,8,16]",
     "[b,s,i] [] [_,_] [] [_] [] [] [b,s] [_,_] [] [_] [] [b,s] [] -> [b,s,i]  s: replicate; i: replicate"},
    {"com.microsoft.GatedRelativePositionBias", 1,
     "float32[2,5,16] float32[16] float32[1,4,5,5] float32[4,8] float32[8] float32[1,4,1,1]", "num_heads=4",
     "float32[2,4,5,5]", "[b,s,h*d] [h*d] [_,h,s,t] [d,e] [e] [_,h,_,_] -> [b,h,s,t]  d: replicate; e: replicate"},
    {"com.microsoft.GatedRelativePositionBias", 1,
     "float32[7,16] float32[16] float32[1,4,5,5] float32[4,8] float32[8] float32[1,4,1,1] int32[2,5]", "num_heads=4",
     "float32[2,4,5,5]",
     "[n,h*d] [h*d] [_,h,s,t] [d,e] [e] [_,h,_,_] [b,s] -> [b,h,s,t]  n: replicate; d: replicate; s: replicate; t: "
     "replicate; e: replicate; b: replicate"},
    {"com.microsoft.RelativePositionBias", 1, "float32[32,4] int64:=5 int64:=7", "max_distance=128", "float32[1,4,5,7]",
     "[k,h] [] [] -> [_,h,s,t]  k: replicate; h: replicate; s: replicate; t: replicate"},
    {"com.microsoft.RelativePositionBias", 1, "float32[32,4] int64[1] int64[1]", "max_distance=128",
     "float32[1,4,RelativePositionBias_0,RelativePositionBias_0_1]",
     "[k,h] [_] [_] -> [_,h,_,_]  h: replicate; k: replicate"},
    {"com.microsoft.RemovePadding", 1, "float32[2,5,16] int32[2]", "",
     "float32[RemovePadding_0,16] int32[2,5] int32[3] int32[1]",
     "[b,s,h] [b] -> [_,h] [b,s] [c] [_]  b: replicate; s: replicate; c: replicate"},
    {"com.microsoft.RestorePadding", 1, "float32[7,16] int32[2,5]", "", "float32[2,5,16]",
     "[_,h] [b,s] -> [b,s,h]  b: replicate; s: replicate"},

    /* Gates and states. */
    {"com.microsoft.GatedAdd", 1, "float32[2,3,8] float32[2,3,8] float32[2,3,1]", "", "float32[2,3,8]",
     "[d0,d1,c] [d0,d1,c] [d0,d1,_] -> [d0,d1,c]"},
    {"com.microsoft.GatedRMSNorm", 1, "float16[2,3,24] float16[8] float16[2,3,24]", "", "float16[2,3,24]",
     "[d0,d1,h*c] [c] [d0,d1,h*c] -> [d0,d1,h*c]  c: replicate"},
    {"com.microsoft.LinearAttentionGate", 1, "float16[2,3,8] float32[8] float32[8] float16[2,3,8]", "",
     "float16[2,3,8] float16[2,3,8]", "[b,t,h] [h] [h] [b,t,h] -> [b,t,h] [b,t,h]"},
    {"com.microsoft.GatedDeltaNet", 1,
     "float16[7,2,8] float16[7,2,8] float16[7,4,6] int32[3] float32[7,4] float32[7,4] float32[2,4,6,8]", "",
     "float16[7,4,6] float32[2,4,6,8]",
     "[t,h,d] [t,h,d] [t,h*g,e] [_] [t,h*g] [t,h*g] [b,h*g,e,d] -> [t,h*g,e] [b,h*g,e,d]  t: sequential; b: replicate; "
     "d: replicate"},
    {"com.microsoft.GatedDeltaNet", 1,
     "float32[2,7,2,8] float32[2,7,2,8] float32[2,7,4,6] - float32[2,7,4,8] float32[2,7,4] float32[2,4,6,8]", "",
     "float32[2,7,4,6] float32[2,4,6,8]",
     "[b,t,h,d] [b,t,h,d] [b,t,h*g,e] [] [b,t,h*g,d] [b,t,h*g] [b,h*g,e,d] -> [b,t,h*g,e] [b,h*g,e,d]  b: replicate; "
     "t: sequential; d: replicate"},
    {"com.microsoft.VarlenCausalConvWithState", 1, "float32[7,6] float32[6,1,4] int32[3] - float32[2,6,3] int32[2]",
     "state_update_capacity=2", "float32[7,6] float32[2,6,3] float32[2,2,6]",
     "[n,c] [c,_,k] [_] [] [b,c,p] [b] -> [n,c] [b,c,p] [b,u,c]  n: replicate; k: replicate; b: replicate; p: "
     "replicate; u: replicate"},
    {"com.microsoft.LinearAttention", 1, "float32[2,5,24] float32[2,5,12] float32[2,5,9]",
     "q_num_heads=6 kv_num_heads=3 update_rule='linear'", "float32[2,5,18] float32[2,3,4,3]",
     "[b,t,kv*g*d] [b,t,kv*d] [b,t,kv*e] -> [b,t,kv*g*e] [b,kv,d,e]  t: sequential; d: sum reduction"},
    {"com.microsoft.LinearAttention", 1,
     "float32[2,5,8] float32[2,5,16] float32[2,5,12] float32[2,4,4,3] float32[2,5,4] float32[2,5,1]",
     "q_num_heads=2 kv_num_heads=4", "float32[2,5,12] float32[2,4,4,3]",
     "[b,t,h*d] [b,t,kv*d] [b,t,kv*e] [b,kv,d,e] [b,t,kv] [b,t,_] -> [b,t,kv*e] [b,kv,d,e]  t: sequential; h: "
     "replicate; d: replicate; kv: replicate"},
    {"com.microsoft.LinearAttention", 1,
     "float32[2,5,8] float32[2,5,8] float32[2,5,6] float32[3,2,2,4,3] float32[2,5,8] float32[2,5,2]",
     "q_num_heads=2 kv_num_heads=2 state_window=3", "float32[2,5,6] float32[3,2,2,4,3]",
     "[b,t,h*d] [b,t,kv*d] [b,t,kv*e] [w,b,kv,d,e] [b,t,kv*d] [b,t,kv] -> [b,t,kv*e] [w,b,kv,d,e]  t: sequential; h: "
     "replicate; d: replicate; kv: replicate; w: replicate"},
    {"com.microsoft.CausalConvWithState", 1, "float32[2,3,10] float32[3,1,4] float32[3]", "",
     "float32[2,3,10] float32[2,3,3]", "[b,c,l] [c,_,k] [c] -> [b,c,l] [b,c,_]  k: replicate; l: halo 3+0"},
    {"com.microsoft.CausalConvWithState", 1, "float32[2,3,6,10] float32[3,1,2,4] float32[3] float32[2,3,6,6]",
     "ndim=2 dilation=2", "float32[2,3,6,10] float32[2,3,6,6]",
     "[b,c,y,l] [c,_,ky,k] [c] [b,c,y,p] -> [b,c,y,l] [b,c,y,p]  y: replicate; l: replicate; ky: replicate; k: "
     "replicate; p: replicate"},
    {"com.microsoft.CausalConvWithState", 1, "float32[2,10,3] float32[3,1,4]", "channels_last=1",
     "float32[2,10,3] float32[*]", "[_,_,_] [_,_,_] -> [_,_,_] []"},
    {"com.microsoft.EngramGate", 1,
     "float16[2,3,4,8] float16[2,3,4,8] float16[2,3,8] float16[4,8] float16[4,8] float16[4,8]", "",
     "float16[2,3,4,8] float16[2,3,4,8]",
     "[b,s,c,h] [b,s,c,h] [b,s,h] [c,h] [c,h] [c,h] -> [b,s,c,h] [b,s,c,h]  h: replicate"},
    {"com.microsoft.NGramHashMapping", 1, "int64[2,5] int64[3] int64[4] int64[2,2] int64[4]",
     "max_ngram_size=3 n_head_per_ngram=2 pad_id=0", "int64[2,5,4] int64[2,2]",
     "[b,s] [_] [k] [b,p] [k] -> [b,s,k] [b,p]  s: replicate; k: replicate; p: replicate"},
    {"com.microsoft.NGramRepeatBlock", 1, "int64[4,6] float32[4,8]", "ngram_size=2", "float32[4,8]",
     "[b,s] [b,v] -> [b,v]  v: replicate; s: replicate"},
    {"com.microsoft.BifurcationDetector", 1, "int64[6] int64[2] int64[] int64[7]", "",
     "int64[BifurcationDetector_0] int64[]", "[s] [c] [] [p] -> [_] []  s: replicate; c: replicate; p: replicate"},
    {"com.microsoft.GemmaRotaryEmbedding", 1,
     "float32[2,5,8] float16[2,3,5,8] float16[2,3,5,8] float16[2,3,5,8] float16[2,3,5,8]", "",
     "float16[2,3,5,8] float16[2,3,5,8]", "[b,s,d] [b,h,s,d] [b,h,s,d] [b,h,s,d] [b,h,s,d] -> [b,h,s,d] [b,h,s,d]"},
    {"com.microsoft.MRotaryEmbedding", 1, "float32[2,5,24] int64[3,2,5] float32[32,4] float32[32,4]",
     "mrope_section=[2,1,1]", "float32[2,5,24]",
     "[b,s,h*d] [_,b,s] [p,r] [p,r] -> [b,s,h*d]  d: replicate; p: replicate; r: replicate"},
    {"com.microsoft.MRotaryEmbedding", 1, "float32[2,3,5,8] int64[3,2,5] float32[32,4] float32[32,4]",
     "mrope_section=[2,1,1]", "float32[2,3,5,8]",
     "[b,h,s,d] [_,b,s] [p,r] [p,r] -> [b,h,s,d]  d: replicate; p: replicate; r: replicate"},
    {"com.microsoft.MRotaryEmbedding", 1, "float32[2,5,24] int64[3,2,5] float32[32,2] float32[32,2]",
     "mrope_section=[1,1,0] num_heads=3 rotary_embedding_dim=4", "float32[2,5,24]",
     "[b,s,h*d] [_,b,s] [p,r] [p,r] -> [b,s,h*d]  d: replicate; p: replicate; r: replicate"},
    {"com.microsoft.MRotaryEmbedding", 1, "float32[1,5,24] int64[3,1,5] float32[32,4] float32[32,4]",
     "mrope_section=[2,1,1] is_packed_batching=1", "float32[1,5,24]",
     "[b,s,k] [_,b,s] [p,r] [p,r] -> [b,s,k]  b: replicate; s: replicate; k: replicate; p: replicate; r: replicate"},

    /* Weights of few bits. */
    {"com.microsoft.MatMulBnb4", 1, "float16[2,3,64] uint8[384] float16[24]", "K=64 N=12 block_size=32 quant_type=1",
     "float16[2,3,12]", "[b0,b1,kc*kb] [n*kc*kh] [n*kc] -> [b0,b1,n]  kc: replicate; kb: replicate; kh: replicate"},
    {"com.microsoft.MatMulBnb4", 1, "float32[3,40] uint8[240] float32[15]", "K=40 N=12 block_size=32 quant_type=1",
     "float32[3,12]", "[b0,k] [_] [_] -> [b0,n]  k: replicate; n: replicate"},
    {"com.microsoft.MatMulBnb4", 1, "float32[3,12] uint8[384] float32[24]",
     "K=64 N=12 block_size=32 quant_type=1 transB=0", "float32[3,64]",
     "[b0,n] [_] [_] -> [b0,k]  n: replicate; k: replicate"},
    {"com.microsoft.MatMulFpQ4", 1, "float32[3,64] uint8[400] int64=64,12", "", "float32[3,12]",
     "[b0,k] [_] [_] -> [b0,n]  k: replicate; n: replicate"},
    {"com.microsoft.MatMulFpQ4", 1, "float32[3,64] uint8[400] int64[2]", "", "float32[3,MatMulFpQ4_0]",
     "[b0,k] [_] [_] -> [b0,_]  k: replicate"},
    {"com.microsoft.MatMulNBitsMlp", 1,
     "float16[2,3,64] float16[2,3,64] float16[64] uint8[24,2,16] float16[24,2] float16[24] uint8[24,2,16] "
     "float16[24,2]",
     "K=64 N=24 block_size=32 activation='silu'", "float16[2,3,24] float16[2,3,64]",
     "[b0,b1,k] [b0,b1,k] [k] [n,kc,kb] [n,kc] [n] [n,kc,kb] [n,kc] -> [b0,b1,n] [b0,b1,k]  k: replicate; kc: "
     "replicate; kb: replicate"},
    {"com.microsoft.MatMulNBitsMlp", 1, "float16[3,64] - - uint8[24,2,16] float16[48] - uint8[24,2,16] float16[48]",
     "K=64 N=24 block_size=32 activation='silu'", "float16[3,24]",
     "[b0,k] [] [] [n,kc,kb] [n*kc] [] [n,kc,kb] [n*kc] -> [b0,n]  k: replicate; kc: replicate; kb: replicate"},
    {"com.microsoft.MatMulNBitsQkv", 1,
     "float16[3,64] - float16[64] uint8[24,2,16] float16[24,2] - uint8[12,2,16] float16[12,2] - uint8[12,2,16] "
     "float16[12,2]",
     "K=64 Nq=24 Nkv=12 block_size=32", "float16[3,24] float16[3,12] float16[3,12]",
     "[b0,k] [] [k] [n,kc,kb] [n,kc] [] [m,kc,kb] [m,kc] [] [m,kc,kb] [m,kc] -> [b0,n] [b0,m] [b0,m]  k: replicate; "
     "kc: replicate; kb: replicate"},
    {"com.microsoft.MatMulNBitsQkv", 1,
     "float16[3,64] - float16[64] uint8[24,2,16] float16[48] - uint8[12,2,16] float16[24] - uint8[12,2,16] float16[24]",
     "K=64 Nq=24 Nkv=12 block_size=32", "float16[3,24] float16[3,12] float16[3,12]",
     "[b0,k] [] [k] [n,kc,kb] [n*kc] [] [m,kc,kb] [m*kc] [] [m,kc,kb] [m*kc] -> [b0,n] [b0,m] [b0,m]  k: replicate; "
     "kc: replicate; kb: replicate"},
    {"com.microsoft.MatMulBlockQuantizedFp8Weight", 1, "float16[3,256] float8e4m3fn[12,256] float32[12,2]", "",
     "float16[3,12]", "[b0,k*kb] [n,k*kb] [n,k] -> [b0,n]  k: sum reduction; kb: replicate"},
    {"com.microsoft.MatMulBlockQuantizedFp8Weight", 1,
     "float16[3,256] float8e4m3fn[12,256] float32[12,2] float32[] float16[12]", "", "float16[3,12]",
     "[b0,k*kb] [n,k*kb] [n,k] [] [n] -> [b0,n]  k: replicate; kb: replicate"},
    {"com.microsoft.MatMulBlockQuantizedFp8Weight", 1, "float16[3,200] float8e4m3fn[12,200] float32[12,2]", "",
     "float16[3,12]", "[b0,k] [n,k] [n,kc] -> [b0,n]  k: replicate; kc: replicate"},
    {"com.microsoft.MatMulBlockQuantizedFp4Weight", 1, "float16[3,64] uint8[12,32] uint8[12,4] float32[]", "",
     "float16[3,12]", "[b0,k*kh*two] [n,k*kh] [n,k] [] -> [b0,n]  k: sum reduction; kh: replicate; two: replicate"},
    {"com.microsoft.MatMulBlockQuantizedFp4Weight", 1, "float16[3,64] uint8[12,32] uint8[12,4] float32[] - float16[12]",
     "", "float16[3,12]",
     "[b0,k*kh*two] [n,k*kh] [n,k] [] [] [n] -> [b0,n]  k: replicate; kh: replicate; two: replicate"},
    {"com.microsoft.MatMulBlockQuantizedFp4Weight", 1, "float16[3,40] uint8[12,20] uint8[12,3] float32[]", "",
     "float16[3,12]", "[b0,k] [n,kh] [n,kc] [] -> [b0,n]  k: replicate; kh: replicate; kc: replicate"},
    {"com.microsoft.GatherBlockQuantized", 1, "uint8[100,32] int64[2,5] float32[100,4] uint8[100,2]",
     "bits=4 block_size=16", "float32[2,5,64]",
     "[v0,k*kz*kb] [i0,i1]@v0 [v0,k*kz] [v0,k] -> [i0,i1,k*kz*ke]  v0: sum reduction; kz: replicate; kb: replicate; "
     "ke: replicate"},
    {"com.microsoft.GatherBlockQuantized", 1, "uint8[100,32] int64[5] float16[100,2]", "bits=8 block_size=16",
     "float16[5,32]", "[v0,k*kb] [i0]@v0 [v0,k] -> [i0,k*kb]  v0: sum reduction; kb: replicate"},
    {"com.microsoft.GatherBlockQuantized", 1, "int4[100,40] int32[5] float16[100,3] int4[100,3]", "block_size=16",
     "float16[5,40]", "[v0,k] [i0]@v0 [v0,_] [v0,_] -> [i0,_]  v0: sum reduction; k: replicate"},

    /* Text. */
    {"com.microsoft.Tokenizer", 1, "string[2,3]", "mark=0 mincharnum=1 pad_value='#' separators=['x']",
     "string[2,3,Tokenizer_0]", "[b0,b1] -> [b0,b1,_]  b0: replicate; b1: replicate"},
    {"com.microsoft.WordConvEmbedding", 1, "int32[4,6] float32[8,1,3,4] float32[8] float32[7,4]", "", "float32[4,8]",
     "[n,w] [f,_,k,c] [f] [v,c] -> [n,f]  f: replicate; w: replicate; k: replicate; c: replicate; v: replicate"},
    {"com.microsoft.AttnLSTM", 1,
     "float32[5,2,6] float32[1,16,8] float32[1,16,4] float32[1,32] - - - - float32[1,4,3] float32[1,2,3] float32[1,3] "
     "float32[2,7,2] int32[2] float32[1,6,2]",
     "hidden_size=4", "float32[5,1,2,4] float32[1,2,4] float32[1,2,4]",
     "[t,b,i] [n,g,w] [n,g,_] [n,_] [] [] [] [] [n,_,_] [n,_,_] [n,_] [b,_,_] [b] [n,_,_] -> [t,n,b,h] [n,b,h] [n,b,h] "
     " t: sequential; b: replicate; i: replicate; n: replicate; g: replicate; w: replicate; "
     "h: replicate"},

    /* Searches: the subgraphs say nothing of shapes. */
    {"com.microsoft.BeamSearch", 1, "int32[2,5] int64=20 - int64=4 int64=2 float32[1]",
     "eos_token_id=1 pad_token_id=0 vocab_size=96", "int32[2,2,20] float32[2,2] float32[BeamSearch_0,2,4,96]",
     "[b,_] [_] [] [_] [_] [_] -> [b,r,l] [b,r] [_,b,m,v]  b: replicate; r: replicate; l: replicate; m: replicate; v: "
     "replicate"},
    {"com.microsoft.BeamSearch", 1, "int32[2,5] int32[1] - int32[1] int32[1]", "eos_token_id=1 pad_token_id=0",
     "int32[2,BeamSearch_0,BeamSearch_0_1] float32[2,BeamSearch_0]",
     "[b,_] [_] [] [_] [_] -> [b,r,l] [b,r]  b: replicate; r: replicate; l: replicate"},
    {"com.microsoft.WhisperBeamSearch", 1, "float32[2,80,3000] int64=20 - int64=4 int64=1",
     "eos_token_id=1 pad_token_id=0 model_type=2", "int32[2,1,20]",
     "[b,_,_] [_] [] [_] [_] -> [b,r,l]  b: replicate; r: replicate; l: replicate; m: replicate"},
    {"com.microsoft.GreedySearch", 1, "int32[2,5] int64=20", "eos_token_id=1 pad_token_id=0", "int32[2,20]",
     "[b,_] [_] -> [b,l]  b: replicate; l: replicate"},
    {"com.microsoft.Sampling", 1, "int32[2,5] int64=20", "eos_token_id=1 pad_token_id=0 vocab_size=96",
     "int32[2,20] float32[2,96]", "[b,_] [_] -> [b,l] [b,v]  b: replicate; l: replicate; v: replicate"},
    {.op = NULL},
};
