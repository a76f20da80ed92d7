/*
 * The operators of com.microsoft that language models are made of, in the forms that exporters write. Shapes follow
 * ONNX Runtime's docs/ContribOperators.md: b batch, s sequence, p past, t = p + s, n heads, d head size.
 */
#include "own_cases.h"

const struct own_case own_cases_language[] = {
    /* Attention: projects and attends; present [2, b, n, t, d]. */
    {"com.microsoft.Attention", 1, "float32[2,4,16] float32[16,48] float32[48]", "num_heads=4", "float32[2,4,16]",
     "[b,q,i] [i,three*kv*d] [three*kv*d] -> [b,q,kv*d]  q: replicate; t: replicate; d: replicate; i: replicate; "
     "three: replicate"},
    {"com.microsoft.Attention", 1, "float32[2,4,16] float32[16,48] float32[48] int32[2,7] float32[2,2,4,3,4]",
     "num_heads=4 unidirectional=1", "float32[2,4,16] float32[2,2,4,7,4]",
     "[b,q,i] [i,three*kv*d] [three*kv*d] [b,t] [two,b,kv,p,d] -> [b,q,kv*d] [two,b,kv,t,d]  q: replicate; p: "
     "replicate; s: replicate; t: replicate; d: replicate; i: replicate; three: replicate; two: replicate"},
    {"com.microsoft.Attention", 1, "float32[2,4,16] float32[16,64] float32[64]",
     "num_heads=4 qkv_hidden_sizes=[16,16,32]", "float32[2,4,32]",
     "[b,q,i] [i,qkv] [qkv] -> [b,q,kv*e]  kv: replicate; q: replicate; t: replicate; d: replicate; e: replicate; i: "
     "replicate; qkv: replicate"},

    /* MultiHeadAttention: Q K V apart; with the past; K and V as [b, n, t, d]; K and V packed; all packed. */
    {"com.microsoft.MultiHeadAttention", 1, "float32[2,4,16] float32[2,6,16] float32[2,6,24]", "num_heads=4",
     "float32[2,4,24]", "[b,q,kv*d] [b,t,kv*d] [b,t,kv*e] -> [b,q,kv*e]  t: softmax reduction; d: replicate"},
    {"com.microsoft.MultiHeadAttention", 1,
     "float32[2,4,16] float32[2,4,16] float32[2,4,16] float32[48] - - float32[2,4,3,4] float32[2,4,3,4]",
     "num_heads=4 unidirectional=1", "float32[2,4,16] float32[2,4,7,4] float32[2,4,7,4]",
     "[b,q,kv*d] [b,s,kv*d] [b,s,kv*d] [parts*kv*d] [] [] [b,kv,p,d] [b,kv,p,d] -> [b,q,kv*d] [b,kv,t,d] [b,kv,t,d]  "
     "p: replicate; s: replicate; t: replicate; d: replicate; parts: replicate"},
    {"com.microsoft.MultiHeadAttention", 1, "float32[2,4,16] float32[2,4,6,4] float32[2,4,6,4]", "num_heads=4",
     "float32[2,4,16]",
     "[b,q,kv*d] [b,kv,t,d] [b,kv,t,e] -> [b,q,kv*e]  t: softmax reduction; d: replicate; e: replicate"},
    {"com.microsoft.MultiHeadAttention", 1, "float32[2,4,16] float32[2,6,4,2,4]", "num_heads=4", "float32[2,4,16]",
     "[b,q,kv*d] [b,t,kv,two,d] -> [b,q,kv*d]  t: softmax reduction; d: replicate; two: replicate"},
    {"com.microsoft.MultiHeadAttention", 1, "float32[2,4,4,3,4]", "num_heads=4", "float32[2,4,16]",
     "[b,q,kv,three,d] -> [b,q,kv*d]  q: replicate; t: replicate; d: replicate; three: replicate"},

    /* GroupQueryAttention: a head of K and V serves n / kv heads of Q. The cache that is returned has room for the
       larger of the one that was given and total_sequence_length, which is data. */
    {"com.microsoft.GroupQueryAttention", 1,
     "float16[2,4,32] float16[2,4,16] float16[2,4,16] float16[2,2,8,8] float16[2,2,8,8] int32[2] int32[]",
     "num_heads=4 kv_num_heads=2", "float16[2,4,32] float16[2,2,o1:2,8] float16[2,2,o2:2,8]",
     "[b,q,kv*g*d] [b,s,kv*d] [b,s,kv*d] [b,kv,p,d] [b,kv,p,d] [b] [] -> [b,q,kv*g*d] [b,kv,c,d] [b,kv,c,d]  q: "
     "replicate; p: replicate; s: replicate; t: replicate; d: replicate; c: replicate"},
    {"com.microsoft.GroupQueryAttention", 1,
     "float16[2,4,64] - - float16[2,2,8,8] float16[2,2,8,8] int32[2] int32[] float16[16,4] float16[16,4]",
     "num_heads=4 kv_num_heads=2 do_rotary=1", "float16[2,4,32] float16[2,2,o1:2,8] float16[2,2,o2:2,8]",
     "[b,q,qkv] [] [] [b,kv,p,d] [b,kv,p,d] [b] [] [_,_] [_,_] -> [b,q,kv*g*d] [b,kv,c,d] [b,kv,c,d]  kv: replicate; "
     "g: replicate; q: replicate; p: replicate; s: replicate; t: replicate; d: replicate; qkv: replicate; c: "
     "replicate"},
    {"com.microsoft.GroupQueryAttention", 1, "float16[2,4,96] - - - - int32[2] int32[]", "num_heads=4 kv_num_heads=4",
     "float16[2,4,32] float16[2,4,4,8] float16[2,4,4,8]",
     "[b,q,three*kv*d] [] [] [] [] [b] [] -> [b,q,kv*d] [b,kv,c,d] [b,kv,c,d]  q: replicate; t: replicate; d: "
     "replicate; three: replicate; c: replicate"},
    {"com.microsoft.GroupQueryAttention", 1,
     "float16[b,s,32] float16[b,s,16] float16[b,s,16] float16[b,2,p,8] float16[b,2,p,8] int32[b] int32[]",
     "num_heads=4 kv_num_heads=2 local_window_size=128", "float16[b,s,32] float16[b,2,o1:2,8] float16[b,2,o2:2,8]",
     "[b,q,kv*g*d] [b,s,kv*d] [b,s,kv*d] [b,kv,p,d] [b,kv,p,d] [b] [] -> [b,q,kv*g*d] [b,kv,c,d] [b,kv,c,d]  q: "
     "replicate; p: replicate; s: replicate; t: replicate; d: replicate; c: replicate"},

    /* MatMulNBits: B [N, blocks of K, block_size * bits / 8], a scale for each block. */
    {"com.microsoft.MatMulNBits", 1, "float32[2,3,64] uint8[32,2,16] float32[64]", "K=64 N=32 bits=4 block_size=32",
     "float32[2,3,32]", "[b0,b1,k*kb] [n,k,_] [n*k] -> [b0,b1,n]  k: sum reduction; kb: replicate"},
    {"com.microsoft.MatMulNBits", 1, "float16[3,64] uint8[32,2,32] float16[32,2] uint8[32,2] - float16[32]",
     "K=64 N=32 bits=8 block_size=32", "float16[3,32]",
     "[b0,k*kb] [n,k,_] [n,k] [n,k] [] [n] -> [b0,n]  k: sum reduction; kb: replicate"},
    {"com.microsoft.MatMulNBits", 1, "float32[3,64] uint8[32,2,16] float32[32,2] uint8[32,1] int32[64]",
     "K=64 N=32 bits=4 block_size=32", "float32[3,32]",
     "[b0,k] [n,kc,_] [n,kc] [n,kz] [_] -> [b0,n]  k: replicate; kc: replicate; kz: replicate"},

    /* Mixtures of experts: fc1 [x, i, h], fc2 [x, h, i]; swiglu doubles the rows of fc1. */
    {"com.microsoft.MoE", 1, "float32[8,16] float32[8,4] float32[4,32,16] float32[4,32] float32[4,16,32] float32[4,16]",
     "k=2 activation_type='gelu'", "float32[8,16]",
     "[n0,h] [n0,experts] [x,i,h] [x,i] [x,h,i] [x,h] -> [n0,h]  experts: replicate; x: sum reduction; h: replicate; "
     "i: sum reduction; k: replicate"},
    {"com.microsoft.MoE", 1, "float32[2,4,16] float32[8,4] float32[4,64,16] - float32[4,16,32]",
     "k=2 activation_type='swiglu' swiglu_fusion=1", "float32[2,4,16]",
     "[n0,n1,h] [n0*n1,experts] [x,i*two,h] [] [x,h,i] -> [n0,n1,h]  experts: replicate; x: sum reduction; h: "
     "replicate; i: sum reduction; two: replicate; k: replicate"},
    {"com.microsoft.MoE", 1, "float32[8,16] float32[8,4] float32[4,32,16] - float32[4,16,32] - float32[4,32,16]",
     "activation_type='silu'", "float32[8,16]",
     "[n0,h] [n0,experts] [x,i,h] [] [x,h,i] [] [x,i,h] -> [n0,h]  experts: replicate; x: sum reduction; h: replicate; "
     "i: sum reduction; k: replicate"},
    {"com.microsoft.QMoE", 1, "float16[8,16] float16[8,4] uint8[4,32,8] float16[4,32] - uint8[4,16,16] float16[4,16]",
     "k=2 activation_type='relu' expert_weight_bits=4 normalize_routing_weights=1", "float16[8,16]",
     "[n0,h] [n0,experts] [x,i*ib,_] [x,i*ib] [] [x,h,i] [x,h] -> [n0,h]  experts: replicate; x: sum reduction; h: "
     "replicate; i: sum reduction; ib: replicate; k: replicate"},
    {"com.microsoft.QMoE", 1,
     "float16[8,64] float16[8,4] uint8[4,32,64] float16[4,32,2] - uint8[4,64,32] float16[4,64,1]",
     "activation_type='relu' expert_weight_bits=8 block_size=32", "float16[8,64]",
     "[n0,h] [n0,experts] [x,i*ib,h] [x,i*ib,_] [] [x,h,i*ib] [x,h,i] -> [n0,h]  experts: replicate; x: replicate; "
     "h: replicate; i: sum reduction; ib: replicate; k: replicate"},
    {"com.microsoft.ShardedMoE", 1, "float32[8,16] float32[8,4] float32[2,32,16] - float32[2,16,32]",
     "k=1 activation_type='relu' local_experts_start_index=2", "float32[8,16]",
     "[n0,h] [n0,experts] [x,i,h] [] [x,h,i] -> [n0,h]  experts: replicate; x: sum reduction; h: replicate; i: sum "
     "reduction; k: replicate"},

    /* RotaryEmbedding: the halves of a head turn together. */
    {"com.microsoft.RotaryEmbedding", 1, "float32[2,4,16] int64[2,4] float32[32,4] float32[32,4]", "",
     "float32[2,4,16]", "[b,s,h*two*r] [b,s] [p,r] [p,r] -> [b,s,h*two*r]  two: replicate; p: replicate"},
    {"com.microsoft.RotaryEmbedding", 1, "float32[2,2,4,8] int64[1] float32[32,4] float32[32,4]", "interleaved=1",
     "float32[2,2,4,8]", "[b,h,s,r*two] [_] [p,r] [p,r] -> [b,h,s,r*two]  s: replicate; two: replicate; p: replicate"},
    {.op = NULL},
};
