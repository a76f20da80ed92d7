/*
 * Operators of ONNX Runtime (com.microsoft). Shapes follow its documentation, docs/ContribOperators.md, which gives
 * them for every operand; sizes are those of published models where one is named.
 */
#include "expect_op.h"

TestSuite(contrib, .fini = stop);

static void contrib(void)
{
    start(17);
    build_opset(&build, "com.microsoft", 1);
}

static struct sp_node *add(const char *op_type, const char *inputs, const char *outputs)
{
    return build_node_in(&build, "com.microsoft", op_type, inputs, outputs);
}

/* ---- Attention ------------------------------------------------------------------------------------------------ */

/* BERT base: 12 heads of 64. */
Test(contrib, attention_projects_its_input)
{
    contrib();
    input("x", "b,128,768");
    input("w", "768,2304");
    input("bias", "2304");
    build_input(&build, "mask", SP_DTYPE_INT32, "b,128");
    struct sp_node *node = add("Attention", "x w bias mask", "y present");
    build_attr_int(&build, node, "num_heads", 12);
    infer();
    EXPECT_TYPE("y", "float32[b,128,768]");
    EXPECT_TYPE("present", "float32[2,b,12,128,64]");
    EXPECT_RULE(node, "[b,q,i] [i,three*kv*d] [three*kv*d] [b,t] -> [b,q,kv*d] [two,b,kv,t,d]  q: replicate; t: "
                      "replicate; d: replicate; i: replicate; three: replicate; two: replicate");
    EXPECT_FLOPS(node, 2.0 * 12 * 128 * 128 * (64 + 64) + 5.0 * 12 * 128 * 128 + 2.0 * 128 * 768 * 2304);
}

Test(contrib, attention_with_a_past_and_a_bias_of_scores)
{
    contrib();
    input("x", "2,4,768");
    input("w", "768,2304");
    input("past", "2,2,12,10,64");
    input("scores", "1,12,4,14");
    build_input(&build, "mask", SP_DTYPE_INT32, "4"); /* ends, then starts */
    struct sp_node *node = add("Attention", "x w - mask past scores", "y present");
    build_attr_int(&build, node, "num_heads", 12);
    infer();
    EXPECT_TYPE("present", "float32[2,2,12,14,64]");
    EXPECT_RULE(node, "[b,q,i] [i,three*kv*d] [] [ends*b] [two,b,kv,p,d] [_,kv,q,t] -> [b,q,kv*d] [two,b,kv,t,d]  q: "
                      "replicate; p: replicate; s: replicate; t: replicate; d: replicate; i: replicate; three: "
                      "replicate; ends: replicate; two: replicate");
}

/* Values of another size: no split of the packed axis is one of heads. */
Test(contrib, attention_with_uneven_sizes_keeps_heads_whole)
{
    contrib();
    input("x", "2,4,64");
    input("w", "64,160");
    struct sp_node *node = add("Attention", "x w", "y");
    build_attr_int(&build, node, "num_heads", 4);
    build_attr_ints(&build, node, "qkv_hidden_sizes", 3, (int64_t[]){64, 64, 32});
    infer();
    EXPECT_TYPE("y", "float32[2,4,32]");
    EXPECT_RULE(node, "[b,q,i] [i,qkv] -> [b,q,kv*e]  kv: replicate; q: replicate; t: replicate; d: replicate; e: "
                      "replicate; i: replicate; qkv: replicate");
    EXPECT_FLOPS(node, 2.0 * 2 * 4 * 4 * 4 * (16 + 8) + 5.0 * 2 * 4 * 4 * 4 + 2.0 * 2 * 4 * 64 * 160);
    stop();
    contrib();
    input("x", "2,4,64");
    input("w", "64,161");
    build_attr_int(&build, add("Attention", "x w", "y"), "num_heads", 4);
    refused("OPERAND_SHAPE");
    contrib();
}

/* ---- MultiHeadAttention --------------------------------------------------------------------------------------- */

Test(contrib, multi_head_attention_of_three_inputs)
{
    contrib();
    input("q", "b,s,512");
    input("k", "b,t,512");
    input("v", "b,t,256");
    input("bias", "1280");
    build_input(&build, "mask", SP_DTYPE_INT32, "b,t");
    struct sp_node *node = add("MultiHeadAttention", "q k v - mask", "y ok ov");
    build_attr_int(&build, node, "num_heads", 8);
    infer();
    EXPECT_TYPE("y", "float32[b,s,256]");
    EXPECT_TYPE("ok", "float32[b,8,t,64]");
    EXPECT_TYPE("ov", "float32[b,8,t,32]");
    EXPECT_RULE(node, "[b,q,kv*d] [b,t,kv*d] [b,t,kv*e] [] [b,t] -> [b,q,kv*e] [b,kv,t,d] [b,kv,t,e]  t: softmax "
                      "reduction; d: replicate");
    /* A bias of queries, keys and values holds heads of two sizes. */
    node = add("MultiHeadAttention", "q k v bias", "y2");
    build_attr_int(&build, node, "num_heads", 8);
    infer();
    EXPECT_RULE(node, "[b,q,kv*d] [b,t,kv*d] [b,t,kv*e] [_] -> [b,q,kv*e]  kv: replicate; t: softmax reduction; d: "
                      "replicate; e: replicate");
}

Test(contrib, multi_head_attention_with_caches)
{
    contrib();
    input("q", "2,1,512");
    input("bias", "1536");
    input("pk", "2,8,100,64");
    build_input(&build, "filled", SP_DTYPE_INT32, "1");
    build_input(&build, "beams", SP_DTYPE_INT32, "2,4,100");
    struct sp_node *node = add("MultiHeadAttention", "q q q bias - - pk pk", "y ok ov qk");
    build_attr_int(&build, node, "num_heads", 8);
    struct sp_node *shared = add("MultiHeadAttention", "q q q - - - pk pk filled beams", "y2 ok2 ov2");
    build_attr_int(&build, shared, "num_heads", 8);
    infer();
    EXPECT_TYPE("ok", "float32[2,8,101,64]");
    EXPECT_TYPE("qk", "float32[2,8,1,101]");
    EXPECT_TYPE("ok2", "float32[2,8,100,64]");
    EXPECT_RULE(node,
                "[b,q,kv*d] [b,s,kv*d] [b,s,kv*d] [parts*kv*d] [] [] [b,kv,p,d] [b,kv,p,d] -> [b,q,kv*d] "
                "[b,kv,t,d] [b,kv,t,d] [b,kv,_,t]  p: replicate; s: replicate; t: replicate; d: replicate; parts: "
                "replicate");
    EXPECT_RULE(shared, "[b,q,kv*d] [b,s,kv*d] [b,s,kv*e] [] [] [] [b,kv,p,d] [b,kv,p,e] [_] [b,_,_] -> [b,q,kv*e] "
                        "[b,kv,p,d] [b,kv,p,e]  p: replicate; s: replicate; t: replicate; d: replicate; e: replicate");
}

Test(contrib, multi_head_attention_of_packed_inputs)
{
    contrib();
    input("qkv", "2,77,8,3,40");
    input("q", "2,4096,320");
    input("kv", "2,77,8,2,40");
    input("cache", "2,8,77,40");
    struct sp_node *self = add("MultiHeadAttention", "qkv", "y1");
    struct sp_node *cross = add("MultiHeadAttention", "q kv", "y2");
    struct sp_node *cached = add("MultiHeadAttention", "q cache cache", "y3");
    build_attr_int(&build, self, "num_heads", 8);
    build_attr_int(&build, cross, "num_heads", 8);
    build_attr_int(&build, cached, "num_heads", 8);
    infer();
    EXPECT_TYPE("y1", "float32[2,77,320]");
    EXPECT_TYPE("y2", "float32[2,4096,320]");
    EXPECT_TYPE("y3", "float32[2,4096,320]");
    EXPECT_RULE(self, "[b,q,kv,three,d] -> [b,q,kv*d]  q: replicate; t: replicate; d: replicate; three: replicate");
    EXPECT_RULE(cross, "[b,q,kv*d] [b,t,kv,two,d] -> [b,q,kv*d]  t: softmax reduction; d: replicate; two: replicate");
    EXPECT_RULE(cached,
                "[b,q,kv*d] [b,kv,t,d] [b,kv,t,e] -> [b,q,kv*e]  t: softmax reduction; d: replicate; e: replicate");
    EXPECT_FLOPS(cross, 2.0 * 2 * 8 * 4096 * 77 * (40 + 40) + 5.0 * 2 * 8 * 4096 * 77);
}

/* A mask of 3 * batch + 2 numbers follows no split of the batch, and says of keys what only kernels know. */
Test(contrib, multi_head_attention_with_cumulated_lengths)
{
    contrib();
    input("q", "2,4,64");
    build_input(&build, "mask", SP_DTYPE_INT32, "8");
    struct sp_node *node = add("MultiHeadAttention", "q q q - mask", "y");
    build_attr_int(&build, node, "num_heads", 4);
    build_attr_int(&build, node, "unidirectional", 1);
    infer();
    EXPECT_RULE(node, "[b,q,kv*d] [b,t,kv*d] [b,t,kv*e] [] [_] -> [b,q,kv*e]  b: replicate; t: replicate; d: "
                      "replicate");
}

/* ---- GroupQueryAttention -------------------------------------------------------------------------------------- */

static struct sp_node *grouped(const char *inputs, int64_t heads, int64_t kv_heads)
{
    struct sp_node *node = add("GroupQueryAttention", inputs, "y ok ov");
    build_attr_int(&build, node, "num_heads", heads);
    build_attr_int(&build, node, "kv_num_heads", kv_heads);
    return node;
}

/* Llama 3 8B: 32 query heads of 128, 8 heads of keys and values. */
Test(contrib, group_query_attention)
{
    contrib();
    input("q", "b,s,4096");
    input("k", "b,s,1024");
    input("past", "b,8,past,128");
    build_input(&build, "lens", SP_DTYPE_INT32, "b");
    build_input(&build, "total", SP_DTYPE_INT32, "");
    input("cos", "8192,64");
    struct sp_node *node = grouped("q k k past past lens total cos cos", 32, 8);
    build_attr_int(&build, node, "do_rotary", 1);
    infer();
    EXPECT_TYPE("y", "float32[b,s,4096]");
    EXPECT_TYPE("ok", "float32[b,8,?,128]");
    EXPECT_RULE(node, "[b,q,kv*g*d] [b,s,kv*d] [b,s,kv*d] [b,kv,p,d] [b,kv,p,d] [b] [] [_,_] [_,_] -> [b,q,kv*g*d] "
                      "[b,kv,c,d] [b,kv,c,d]  q: replicate; p: replicate; s: replicate; t: replicate; d: replicate; c: "
                      "replicate");
}

Test(contrib, group_query_attention_reads_how_many_positions_there_are)
{
    contrib();
    input("q", "2,1,4096");
    input("k", "2,1,1024");
    input("past", "2,8,20,128");
    build_input(&build, "lens", SP_DTYPE_INT32, "2");
    (void)build_ints(&build, "total", -1, (int64_t[]){21});
    struct sp_node *node = grouped("q k k past past lens total", 32, 8);
    infer();
    EXPECT_TYPE("ok", "float32[2,8,21,128]");
    EXPECT_FLOPS(node, 2.0 * 2 * 32 * 21 * (128 + 128) + 5.0 * 2 * 32 * 21);
    stop();
    contrib(); /* a buffer for all positions stays as it is */
    input("q", "2,1,4096");
    input("k", "2,1,1024");
    input("past", "2,8,2048,128");
    build_input(&build, "lens", SP_DTYPE_INT32, "2");
    (void)build_ints(&build, "total", -1, (int64_t[]){21});
    (void)grouped("q k k past past lens total", 32, 8);
    infer();
    EXPECT_TYPE("ok", "float32[2,8,2048,128]");
}

Test(contrib, group_query_attention_of_packed_queries)
{
    contrib();
    input("q", "2,4,6144"); /* 32 + 2 * 8 heads of 128 */
    input("p", "2,4,3072"); /* 8 + 2 * 8 heads of 128 */
    build_input(&build, "lens", SP_DTYPE_INT32, "2");
    (void)build_ints(&build, "total", -1, (int64_t[]){4});
    struct sp_node *node = grouped("q - - - - lens total", 32, 8);
    infer();
    EXPECT_TYPE("y", "float32[2,4,4096]");
    EXPECT_TYPE("ov", "float32[2,8,4,128]");
    EXPECT_RULE(node,
                "[b,q,qkv] [] [] [] [] [b] [] -> [b,q,kv*g*d] [b,kv,c,d] [b,kv,c,d]  kv: replicate; g: replicate; "
                "q: replicate; t: replicate; d: replicate; qkv: replicate; c: replicate");
    struct sp_node *even = add("GroupQueryAttention", "p - - - - lens total", "y2");
    build_attr_int(&build, even, "num_heads", 8);
    build_attr_int(&build, even, "kv_num_heads", 8);
    infer();
    EXPECT_RULE(even, "[b,q,three*kv*d] [] [] [] [] [b] [] -> [b,q,kv*d]  q: replicate; t: replicate; d: replicate; "
                      "three: replicate");
}

Test(contrib, group_query_attention_with_wrong_heads)
{
    contrib();
    input("q", "2,4,96");
    input("k", "2,4,32");
    build_input(&build, "lens", SP_DTYPE_INT32, "2");
    (void)build_ints(&build, "total", -1, (int64_t[]){4});
    (void)grouped("q k k - - lens total", 6, 4);
    refused("ATTRIBUTE_VALUE");
    contrib();
    input("q", "2,4,96");
    (void)grouped("q q q", 6, 6);
    refused("MISSING_INPUT");
    contrib();
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------------------------ */

Test(contrib, rotary_takes_the_size_of_heads_from_its_caches)
{
    contrib();
    input("x", "b,s,4096");
    build_input(&build, "positions", SP_DTYPE_INT64, "b,s");
    build_input(&build, "first", SP_DTYPE_INT64, "1");
    input("cache", "2048,64");
    struct sp_node *node = add("RotaryEmbedding", "x positions cache cache", "y");
    struct sp_node *placed = add("RotaryEmbedding", "x first cache cache", "y2");
    infer();
    EXPECT_TYPE("y", "float32[b,s,4096]");
    EXPECT_RULE(node, "[b,s,h*two*r] [b,s] [p,r] [p,r] -> [b,s,h*two*r]  two: replicate; p: replicate");
    EXPECT_RULE(placed, "[b,s,h*two*r] [_] [p,r] [p,r] -> [b,s,h*two*r]  s: replicate; two: replicate; p: replicate");
}

/* ---- normalisations ------------------------------------------------------------------------------------------- */

Test(contrib, skip_layer_normalization)
{
    contrib();
    input("x", "b,s,768");
    input("skip", "1,s,768");
    input("g", "768");
    struct sp_node *node = add("SkipLayerNormalization", "x skip g g g", "y mean dev sum");
    struct sp_node *simple = add("SkipSimplifiedLayerNormalization", "x x g", "y2 - - sum2");
    infer();
    EXPECT_TYPE("y", "float32[b,s,768]");
    EXPECT_TYPE("mean", "float32[b,s,1]");
    EXPECT_TYPE("sum", "float32[b,s,768]");
    EXPECT_TYPE("sum2", "float32[b,s,768]");
    EXPECT_RULE(node, "[d0,d1,d2] [_,d1,d2] [d2] [d2] [d2] -> [d0,d1,d2] [d0,d1,_] [d0,d1,_] [d0,d1,d2]  d2: moments "
                      "reduction");
    EXPECT_RULE(simple, "[d0,d1,d2] [d0,d1,d2] [d2] -> [d0,d1,d2] [] [] [d0,d1,d2]  d2: moments reduction");
    EXPECT_FLOPS(node, 7.0 * 768);
    EXPECT_FLOPS(simple, 5.0 * 768);
}

/* ONNX Runtime's exporters write it into the domain ai.onnx. */
Test(contrib, simplified_layer_normalization_of_both_domains)
{
    contrib();
    input("x", "2,3,768");
    input("g", "768");
    struct sp_node *standard = build_node(&build, "SimplifiedLayerNormalization", "x g", "y dev");
    struct sp_node *own = add("SimplifiedLayerNormalization", "x g", "y2");
    infer();
    EXPECT_TYPE("y", "float32[2,3,768]");
    EXPECT_TYPE("dev", "float32[2,3,1]");
    EXPECT_RULE(standard, "[d0,d1,d2] [d2] -> [d0,d1,d2] [d0,d1,_]  d2: moments reduction");
    EXPECT_RULE(own, "[d0,d1,d2] [d2] -> [d0,d1,d2]  d2: moments reduction");
    EXPECT_FLOPS(own, 4.0 * 2 * 3 * 768);
    stop();
    start(12); /* LayerNormalization was ONNX Runtime's before opset 17 */
    input("x", "2,3,768");
    input("g", "768");
    struct sp_node *layer = build_node(&build, "LayerNormalization", "x g g", "y");
    infer();
    EXPECT_RULE(layer, "[d0,d1,d2] [d2] [d2] -> [d0,d1,d2]  d2: moments reduction");
}

/* BERT base */
Test(contrib, embed_layer_normalization)
{
    contrib();
    build_input(&build, "ids", SP_DTYPE_INT32, "2,128");
    input("words", "30522,768");
    input("rows", "512,768");
    input("segments", "2,768");
    input("g", "768");
    struct sp_node *node = add("EmbedLayerNormalization", "ids ids words rows segments g g ids", "y valid sum");
    struct sp_node *placed = add("EmbedLayerNormalization", "ids - words rows - g g - ids", "y2");
    infer();
    EXPECT_TYPE("y", "float32[2,128,768]");
    EXPECT_TYPE("valid", "int32[2]");
    EXPECT_TYPE("sum", "float32[2,128,768]");
    EXPECT_RULE(node, "[b,s] [b,s] [v,h] [p,h] [u,h] [h] [h] [b,s] -> [b,s,h] [b] [b,s,h]  s: replicate; h: moments "
                      "reduction; v: replicate; p: replicate; u: replicate");
    EXPECT_RULE(placed, "[b,s] [] [v,h] [p,h] [] [h] [h] [] [b,s] -> [b,s,h]  h: moments reduction; v: replicate; p: "
                        "replicate");
    EXPECT_FLOPS(placed, 6.0 * 2 * 128 * 768);
    stop();
    contrib();
    build_input(&build, "ids", SP_DTYPE_INT32, "2,128");
    input("words", "30522,768");
    (void)add("EmbedLayerNormalization", "ids - words", "y");
    refused("MISSING_INPUT");
    contrib();
}

/* ---- activations ---------------------------------------------------------------------------------------------- */

Test(contrib, activations)
{
    contrib();
    input("x", "b,4,3072");
    input("bias", "3072");
    struct sp_node *gelu = add("Gelu", "x", "y0"), *quick = add("QuickGelu", "x", "y1");
    struct sp_node *fast = add("FastGelu", "x bias", "y2"), *bias = add("BiasGelu", "x bias", "y3");
    struct sp_node *split = add("BiasSplitGelu", "x bias", "y4");
    infer();
    EXPECT_TYPE("y2", "float32[b,4,3072]");
    EXPECT_TYPE("y4", "float32[b,4,1536]");
    EXPECT_RULE(gelu, "[d0,d1,d2] -> [d0,d1,d2]");
    EXPECT_RULE(fast, "[d0,d1,d2] [d2] -> [d0,d1,d2]");
    EXPECT_RULE(split, "[d0,d1,two*d2] [two*d2] -> [d0,d1,d2]  two: replicate");
    EXPECT_FLOPS(quick, 4.0 * 3072);
    EXPECT_FLOPS(bias, 2.0 * 4 * 3072);
    stop();
    contrib();
    input("x", "b,4,3072");
    input("bias", "3071");
    (void)add("BiasGelu", "x bias", "y");
    refused("CANNOT_BROADCAST");
    contrib();
}

/* ---- products ------------------------------------------------------------------------------------------------- */

Test(contrib, fused_products_of_transposed_operands)
{
    contrib();
    input("a", "5,7,3,4");
    input("b", "7,6,4");
    struct sp_node *plain = add("FusedMatMul", "a b", "y0");
    build_attr_int(&build, plain, "transB", 1);
    infer();
    EXPECT_TYPE("y0", "float32[5,7,3,6]");
    EXPECT_RULE(plain, "[b0,b1,m,k] [b1,n,k] -> [b0,b1,m,n]  k: sum reduction");
    EXPECT_FLOPS(plain, 2.0 * 5 * 7 * 3 * 6 * 4);
    stop();
    contrib();
    input("a", "3,5,7,4"); /* rows first, then the batch */
    input("b", "5,7,4,6");
    struct sp_node *moved = add("FusedMatMul", "a b", "y1");
    build_attr_int(&build, moved, "transBatchA", 1);
    infer();
    EXPECT_TYPE("y1", "float32[5,7,3,6]");
    EXPECT_RULE(moved, "[m,b0,b1,k] [b0,b1,k,n] -> [b0,b1,m,n]  k: sum reduction");
    stop();
    contrib();
    input("a", "4,5,7,3"); /* both: columns first, rows last */
    input("b", "4");
    struct sp_node *both = add("FusedMatMul", "a b", "y2");
    build_attr_int(&build, both, "transBatchA", 1);
    build_attr_int(&build, both, "transA", 1);
    infer();
    EXPECT_TYPE("y2", "float32[5,7,3]");
    EXPECT_RULE(both, "[k,b0,b1,m] [k] -> [b0,b1,m]  k: sum reduction");
    stop();
    contrib();
    input("a", "3,4");
    input("b", "3,4");
    (void)add("FusedMatMul", "a b", "y");
    refused("SHAPES_DISAGREE");
    contrib();
}

static struct sp_node *few_bits(int64_t k, int64_t block, const char *inputs)
{
    struct sp_node *node = add("MatMulNBits", inputs, "y");
    build_attr_int(&build, node, "K", k);
    build_attr_int(&build, node, "N", 11008);
    build_attr_int(&build, node, "bits", 4);
    build_attr_int(&build, node, "block_size", block);
    return node;
}

/* A layer of Llama 2 7B with 4 bits in blocks of 32: K = 4096 has 128 blocks of 16 bytes. */
Test(contrib, products_of_few_bits_are_split_in_blocks)
{
    contrib();
    input("a", "b,s,4096");
    build_input(&build, "w", SP_DTYPE_UINT8, "11008,128,16");
    input("scales", "11008,128");
    input("flat", "1409024");
    build_input(&build, "zeros", SP_DTYPE_UINT8, "11008,64");
    input("bias", "11008");
    struct sp_node *node = few_bits(4096, 32, "a w scales");
    infer();
    EXPECT_TYPE("y", "float32[b,s,11008]");
    EXPECT_RULE(node, "[b0,b1,k*kb] [n,k,_] [n,k] -> [b0,b1,n]  k: sum reduction; kb: replicate");
    EXPECT_FLOPS(node, 2.0 * 4096 * 11008);
    stop();
    contrib();
    input("a", "b,s,4096");
    build_input(&build, "w", SP_DTYPE_UINT8, "11008,128,16");
    input("flat", "1409024");
    build_input(&build, "zeros", SP_DTYPE_UINT8, "11008,64"); /* two to a byte */
    input("bias", "11008");
    node = few_bits(4096, 32, "a w flat zeros - bias");
    infer();
    EXPECT_RULE(node, "[b0,b1,k*kz*kb] [n,k*kz,_] [n*k*kz] [n,k] [] [n] -> [b0,b1,n]  k: sum reduction; kz: replicate; "
                      "kb: replicate");
    EXPECT_FLOPS(node, 2.0 * 4096 * 11008 + 11008);
}

Test(contrib, products_of_few_bits_that_no_split_follows)
{
    contrib();
    input("a", "s,4100");
    build_input(&build, "w", SP_DTYPE_UINT8, "11008,129,16");
    input("scales", "11008,129");
    build_input(&build, "zeros", SP_DTYPE_UINT8, "11008,65");
    struct sp_node *node = few_bits(4100, 32, "a w scales zeros");
    infer();
    EXPECT_RULE(node, "[b0,k] [n,kc,_] [n,kc] [n,kz] -> [b0,n]  k: replicate; kc: replicate; kz: replicate");
    EXPECT_FLOPS(node, 2.0 * 4100 * 11008);
    stop();
    contrib();
    input("a", "s,4100");
    build_input(&build, "w", SP_DTYPE_UINT8, "11008,128,16");
    input("scales", "11008,128");
    (void)few_bits(4096, 32, "a w scales");
    refused("SHAPES_DISAGREE");
    contrib();
}

/* ---- experts -------------------------------------------------------------------------------------------------- */

/* Mixtral 8x7B: 8 experts of which 2 are asked, three products of 4096 by 14336. */
Test(contrib, experts)
{
    contrib();
    input("x", "b,s,4096");
    input("router", "t,8");
    input("fc1", "8,14336,4096");
    input("fc2", "8,4096,14336");
    input("fc2b", "8,4096");
    struct sp_node *node = add("MoE", "x router fc1 - fc2 fc2b fc1", "y");
    build_attr_int(&build, node, "k", 2);
    infer();
    EXPECT_TYPE("y", "float32[b,s,4096]");
    EXPECT_RULE(node, "[n0,n1,h] [n0*n1,experts] [x,i,h] [] [x,h,i] [x,h] [x,i,h] -> [n0,n1,h]  experts: replicate; x: "
                      "sum reduction; h: replicate; i: sum reduction; k: replicate");
    EXPECT_FLOPS(node, 2.0 * 3 * 2 * 4096 * 14336 + 5 * 8);
}

Test(contrib, experts_with_two_products_in_one)
{
    contrib();
    input("x", "16,64");
    input("router", "16,4");
    input("fc1", "4,256,64");
    input("fc1b", "4,256");
    input("fc2", "4,64,128");
    for (int64_t fusion = 1; fusion <= 2; fusion++) {
        struct sp_node *node = add("MoE", "x router fc1 fc1b fc2", fusion == 1 ? "y1" : "y2");
        build_attr_int(&build, node, "swiglu_fusion", fusion);
        infer();
        EXPECT_RULE(node, fusion == 1
                              ? "[n0,h] [n0,experts] [x,i*two,h] [x,i*two] [x,h,i] -> [n0,h]  experts: replicate; x: "
                                "sum reduction; h: replicate; i: sum reduction; two: replicate; k: replicate"
                              : "[n0,h] [n0,experts] [x,two*i,h] [x,two*i] [x,h,i] -> [n0,h]  experts: replicate; x: "
                                "sum reduction; h: replicate; i: sum reduction; two: replicate; k: replicate");
        EXPECT_FLOPS(node, 16 * (2.0 * 3 * 64 * 128 + 5 * 4));
    }
}

/* Weights from before ONNX Runtime 1.23 lie the other way round. */
Test(contrib, experts_of_older_models)
{
    contrib();
    input("x", "16,64");
    input("router", "16,4");
    input("fc1", "4,64,128");
    input("fc2", "4,128,64");
    struct sp_node *node = add("MoE", "x router fc1 - fc2", "y");
    struct sp_node *sharded = add("ShardedMoE", "x router fc1 - fc2", "y2");
    infer();
    EXPECT_RULE(node, "[n0,h] [n0,experts] [x,h,i] [] [x,i,h] -> [n0,h]  experts: replicate; x: sum reduction; h: "
                      "replicate; i: replicate; k: replicate");
    EXPECT_TYPE("y2", "float32[16,64]");
    EXPECT_FLOPS(sharded, 16 * (2.0 * 2 * 64 * 128 + 5 * 4));
    (void)add("MoE", "x router fc1", "y3");
    refused("MISSING_INPUT");
    contrib();
}

/* ShardedMoE has the weights of one device's experts, and the router speaks of all: of the two experts of a token, a
   device with two of eight has half of one on average. */
Test(contrib, a_device_has_some_of_the_experts)
{
    contrib();
    input("x", "16,64");
    input("router", "16,8");
    input("fc1", "2,128,64");
    input("fc2", "2,64,128");
    struct sp_node *node = add("ShardedMoE", "x router fc1 - fc2", "y");
    build_attr_int(&build, node, "k", 2);
    infer();
    EXPECT_TYPE("y", "float32[16,64]");
    EXPECT_RULE(node, "[n0,h] [n0,experts] [x,i,h] [] [x,h,i] -> [n0,h]  experts: replicate; x: sum reduction; h: "
                      "replicate; i: sum reduction; k: replicate");
    EXPECT_FLOPS(node, 16 * (2.0 * 2 * 64 * 128 * 2 / 4 + 5 * 8));
    struct sp_node *whole = add("MoE", "x router fc1 - fc2", "y2");
    infer();
    EXPECT_RULE(whole, "SHAPES_DISAGREE");
}

/* 4 bits, two to a byte, in blocks of 32. */
Test(contrib, quantized_experts_are_split_in_blocks)
{
    contrib();
    input("x", "16,64");
    input("router", "16,4");
    build_input(&build, "fc1", SP_DTYPE_UINT8, "4,256,32");
    input("fc1s", "4,256,2");
    build_input(&build, "fc2", SP_DTYPE_UINT8, "4,64,64");
    input("fc2s", "4,64,4");
    struct sp_node *node = add("QMoE", "x router fc1 fc1s - fc2 fc2s", "y");
    build_attr_int(&build, node, "block_size", 32);
    build_attr_int(&build, node, "swiglu_fusion", 2);
    build_attr_int(&build, node, "normalize_routing_weights", 1);
    infer();
    EXPECT_TYPE("y", "float32[16,64]");
    EXPECT_RULE(node, "[n0,h] [n0,experts] [x,two*i*ib,_] [x,two*i*ib,_] [] [x,h,i*ie] [x,h,i] -> [n0,h]  experts: "
                      "replicate; x: sum reduction; h: replicate; i: sum reduction; ib: replicate; two: replicate; ie: "
                      "replicate; k: replicate");
    EXPECT_FLOPS(node, 16 * (2.0 * 3 * 64 * 128 + 5 * 4));
}

/* Runtimes take the softmax of all experts, or of those that were chosen; a sparse mixer has a choice of its own;
   packed weights are for one kernel. */
Test(contrib, experts_are_whole_where_their_weights_are_not_known)
{
    contrib();
    input("x", "16,64");
    input("router", "16,4");
    build_input(&build, "fc1", SP_DTYPE_UINT8, "4,128,64");
    input("fc1s", "4,128");
    build_input(&build, "fc2", SP_DTYPE_UINT8, "4,64,128");
    input("fc2s", "4,64");
    input("w1", "4,128,64");
    input("w2", "4,64,128");
    struct sp_node *node = add("QMoE", "x router fc1 fc1s - fc2 fc2s", "y");
    build_attr_int(&build, node, "expert_weight_bits", 8);
    build_attr_int(&build, node, "weights_prepacked", 1);
    struct sp_node *mixer = add("MoE", "x router w1 - w2", "y2");
    build_attr_int(&build, mixer, "k", 2);
    build_attr_int(&build, mixer, "use_sparse_mixer", 1);
    infer();
    EXPECT_RULE(node, "[n0,h] [n0,experts] [x,i,h] [x,i] [] [x,h,i] [x,h] -> [n0,h]  experts: replicate; x: replicate; "
                      "h: replicate; i: replicate; k: replicate");
    EXPECT_RULE(mixer, "[n0,h] [n0,experts] [x,i,h] [] [x,h,i] -> [n0,h]  experts: replicate; x: replicate; h: "
                       "replicate; i: sum reduction; k: replicate");
}

/* ---- devices themselves --------------------------------------------------------------------------------------- */

Test(contrib, collectives)
{
    contrib();
    input("x", "8,6");
    struct sp_node *reduce = add("AllReduce", "x", "y0");
    struct sp_node *gather = add("AllGather", "x", "y1"), *exchange = add("AllToAll", "x", "y2");
    build_attr_int(&build, gather, "axis", 1);
    build_attr_int(&build, gather, "group_size", 4);
    build_attr_int(&build, exchange, "group_size", 4);
    infer();
    EXPECT_TYPE("y0", "float32[8,6]");
    EXPECT_TYPE("y1", "float32[8,24]");
    EXPECT_TYPE("y2", "float32[8,6]");
    EXPECT_RULE(reduce, "[d0,d1] -> [d0,d1]");
    EXPECT_RULE(gather, "[d0,d1] -> [d0,group*d1]  group: replicate; d1: replicate");
    EXPECT_RULE(exchange, "[a,d1] -> [a,d1]  a: replicate");
    stop();
    contrib();
    input("x", "8,6");
    build_attr_int(&build, add("AllToAll", "x", "y"), "group_size", 3);
    refused("OPERAND_SHAPE");
    contrib();
}

/* Shapes of ONNX Runtime's own tests of these operators (onnxruntime_test_distributed.py). */
Test(contrib, distributed_operators_are_those_that_they_distribute)
{
    contrib();
    input("a", "2,4");
    input("b", "4,6");
    (void)build_ints(&build, "shape", 2, (int64_t[]){4, 2});
    (void)build_ints(&build, "ones", 2, (int64_t[]){1, 1});
    (void)build_ints(&build, "ends", 2, (int64_t[]){2, 3});
    (void)build_ints(&build, "axes", 2, (int64_t[]){0, 1});
    (void)build_ints(&build, "last", 1, (int64_t[]){1});
    (void)build_ints(&build, "wide", 3, (int64_t[]){3, 2, 4});
    struct sp_node *product = add("DistributedMatMul", "a b", "y0");
    (void)add("DistributedSlice", "a ones ends axes", "y1");
    (void)add("DistributedReshape", "a shape", "y2");
    (void)add("DistributedExpand", "a wide", "y3");
    struct sp_node *sum = add("DistributedReduceSum", "a last", "y4");
    (void)add("DistributedUnsqueeze", "a last", "y5");
    (void)add("DistributedSqueeze", "y5 last", "y6");
    struct sp_node *most = add("DistributedReduceMax", "a last", "y7");
    struct sp_node *mean = add("DistributedReduceMean", "a last", "y8");
    infer();
    EXPECT_TYPE("y0", "float32[2,6]");
    EXPECT_TYPE("y1", "float32[1,2]");
    EXPECT_TYPE("y2", "float32[4,2]");
    EXPECT_TYPE("y3", "float32[3,2,4]");
    EXPECT_TYPE("y4", "float32[2,1]");
    EXPECT_TYPE("y5", "float32[2,1,4]");
    EXPECT_TYPE("y6", "float32[2,4]");
    EXPECT_RULE(product, "[m,k] [k,n] -> [m,n]  k: sum reduction");
    EXPECT_FLOPS(product, 2.0 * 2 * 4 * 6);
    EXPECT_RULE(sum, "[d0,d1] [_] -> [d0,_]  d1: sum reduction");
    EXPECT_RULE(most, "[d0,d1] [_] -> [d0,_]  d1: max reduction");
    EXPECT_RULE(mean, "[d0,d1] [_] -> [d0,_]  d1: sum reduction");
}

/* ---- files from strangers ------------------------------------------------------------------------------------- */

/* Operands that fit, for one head of size 2, K = N = 2 and blocks of 2. */
static const struct {
    const char *name, *shapes;
} fitting[] = {
    {"Attention", "2,2,2;2,6;6;2,2;2,2,1,2,2;2,1,2,4;1"},
    {"MultiHeadAttention", "2,2,2;2,2,2;2,2,2;6;2,2;1,1,2,4;2,1,2,2;2,1,2,2;1;2,2,2"},
    {"GroupQueryAttention", "2,2,2;2,2,2;2,2,2;2,1,2,2;2,1,2,2;2;1;4,1;4,1;2,2;1,1,2,4;1;1,1,1,2;1,1,1,2;2;2"},
    {"RotaryEmbedding", "2,1,2,2;2,2;4,1;4,1"},
    {"SkipLayerNormalization", "2,2,2;2,2,2;2;2;2"},
    {"SkipSimplifiedLayerNormalization", "2,2,2;2,2,2;2;2"},
    {"EmbedLayerNormalization", "2,2;2,2;4,2;4,2;2,2;2;2;2,2;2,2"},
    {"FastGelu", "2,2;2"},
    {"BiasSplitGelu", "2,2;2"},
    {"FusedMatMul", "2,2,2;2,2,2"},
    {"MatMulNBits", "2,2;2,1,1;2,1;2,1;2;2"},
    {"MoE", "2,2;2,3;3,2,2;3,2;3,2,2;3,2;3,2,2;3,2"},
    {"QMoE", "2,2;2,3;3,4,1;3,4,1;3,4;3,2,2;3,2,2;3,2;3,4,1;3,4,1;3,4;3,4,1;3,2,1;3,4,1;2,3;3;3;3;1;1;1"},
    {"AllGather", "2,2"},
    {"AllToAll", "2,2"},
};

/* The operator on its fitting operands, but for input `odd`, which has `rank` axes of 2. Returns the count of inputs.
 */
static int strange(size_t op, int odd, int rank, struct sp_node **ret_node)
{
    static const char *const ints[] = {"num_heads", "kv_num_heads", "K", "N", "block_size"};
    char inputs[256] = "", shapes[256], *rest = shapes;
    int count = 0, used = 0;
    (void)snprintf(shapes, sizeof(shapes), "%s", fitting[op].shapes);
    contrib();
    for (char *shape = strtok_r(rest, ";", &rest); shape != NULL; shape = strtok_r(NULL, ";", &rest), count++) {
        char name[16], other[16] = "2,2,2,2,2,2";
        other[rank == 0 ? 0 : 2 * rank - 1] = '\0';
        (void)snprintf(name, sizeof(name), "i%d", count);
        input(name, count == odd ? other : shape);
        used += snprintf(inputs + used, sizeof(inputs) - (size_t)used, " %s", name);
    }
    *ret_node = add(fitting[op].name, inputs + 1, "o0 o1 o2 o3");
    for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++)
        build_attr_int(&build, *ret_node, ints[i], i < 2 ? 1 : 2);
    return count;
}

/* Whatever the rank of an operand is, the answer is a fault of the model or a rule, never a broken rule. */
Test(contrib, no_rank_breaks_a_rule)
{
    for (size_t op = 0; op < sizeof(fitting) / sizeof(fitting[0]); op++) {
        struct sp_node *node;
        int count = strange(op, -1, 0, &node);
        infer();
        cr_expect_neq(strchr(build_rule(&build, node), '>'), NULL, "%s: %s", fitting[op].name,
                      build_rule(&build, node));
        stop();
        for (int odd = 0; odd < count; odd++) {
            for (int rank = 0; rank <= 6; rank++) {
                (void)strange(op, odd, rank, &node);
                if (build_infer(&build) == SP_OK)
                    cr_expect_str_neq(build_rule(&build, node), "BROKEN_RULE", "%s with input %d of rank %d",
                                      fitting[op].name, odd, rank);
                else
                    cr_expect_eq(build.err.status, SP_ERR_MODEL, "%s", build.err.message);
                stop();
            }
        }
    }
    contrib();
}
