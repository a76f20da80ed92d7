/*
 * Attention, FlexAttention, RotaryEmbedding, LinearAttention and CausalConvWithState of ONNX.
 *
 * Shapes are those of the operators' node tests in ONNX v1.22.0 (onnx/backend/test/case/node), named at each test.
 * FLOPs of Attention are 2 * b * heads * q * t * (d + e) + 5 * b * heads * q * t.
 */
#include "expect_op.h"

TestSuite(attention, .fini = stop);

static void qkv(int64_t opset, const char *q, const char *k, const char *v)
{
    start(opset);
    input("q", q);
    input("k", k);
    input("v", v);
}

static void packed(struct sp_node *node, int64_t q_heads, int64_t kv_heads)
{
    build_attr_int(&build, node, "q_num_heads", q_heads);
    build_attr_int(&build, node, "kv_num_heads", kv_heads);
}

/* ---- Attention ------------------------------------------------------------------------------------------------ */

/* test_attention_4d_diff_heads_sizes: V has heads of another size than Q and K. */
Test(attention, heads_apart)
{
    qkv(23, "2,3,4,8", "2,3,6,8", "2,3,6,10");
    struct sp_node *node = build_node(&build, "Attention", "q k v", "y");
    infer();
    EXPECT_TYPE("y", "float32[2,3,4,10]");
    EXPECT_RULE(node, "[b,kv,q,d] [b,kv,t,d] [b,kv,t,e] -> [b,kv,q,e]  t: softmax reduction; d: replicate");
    EXPECT_FLOPS(node, 2.0 * 2 * 3 * 4 * 6 * (8 + 10) + 5.0 * 2 * 3 * 4 * 6);
}

/* test_attention_3d_gqa: nine query heads share three heads of keys and values. */
Test(attention, packed_heads_that_share_keys)
{
    qkv(23, "2,4,72", "2,6,24", "2,6,24");
    struct sp_node *node = build_node(&build, "Attention", "q k v", "y");
    packed(node, 9, 3);
    infer();
    EXPECT_TYPE("y", "float32[2,4,72]");
    EXPECT_RULE(node, "[b,q,kv*g*d] [b,t,kv*d] [b,t,kv*e] -> [b,q,kv*g*e]  t: softmax reduction; d: replicate");
    EXPECT_FLOPS(node, 2.0 * 2 * 9 * 4 * 6 * (8 + 8) + 5.0 * 2 * 9 * 4 * 6);
}

/* test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask */
Test(attention, a_past_and_everything_that_can_come_out)
{
    qkv(23, "2,3,4,8", "2,3,6,8", "2,3,6,8");
    input("mask", "2,3,4,18");
    input("pk", "2,3,12,8");
    input("pv", "2,3,12,8");
    struct sp_node *node = build_node(&build, "Attention", "q k v mask pk pv", "y ok ov scores");
    infer();
    EXPECT_TYPE("y", "float32[2,3,4,8]");
    EXPECT_TYPE("ok", "float32[2,3,18,8]");
    EXPECT_TYPE("ov", "float32[2,3,18,8]");
    EXPECT_TYPE("scores", "float32[2,3,4,18]");
    EXPECT_RULE(node, "[b,kv,q,d] [b,kv,s,d] [b,kv,s,e] [b,kv,q,t] [b,kv,p,d] [b,kv,p,e] -> [b,kv,q,e] [b,kv,t,d] "
                      "[b,kv,t,e] [b,kv,q,t]  p: replicate; s: replicate; t: replicate; d: replicate");
    EXPECT_FLOPS(node, 2.0 * 2 * 3 * 4 * 18 * (8 + 8) + 5.0 * 2 * 3 * 4 * 18);
}

/* test_attention_3d_with_past_and_present: the caches hold their heads apart. */
Test(attention, packed_operands_with_caches_apart)
{
    qkv(23, "2,4,24", "2,6,24", "2,6,24");
    input("pk", "2,3,12,8");
    input("pv", "2,3,12,8");
    struct sp_node *node = build_node(&build, "Attention", "q k v - pk pv", "y ok ov");
    packed(node, 3, 3);
    infer();
    EXPECT_TYPE("y", "float32[2,4,24]");
    EXPECT_TYPE("ok", "float32[2,3,18,8]");
    EXPECT_RULE(node, "[b,q,kv*d] [b,s,kv*d] [b,s,kv*e] [] [b,kv,p,d] [b,kv,p,e] -> [b,q,kv*e] [b,kv,t,d] [b,kv,t,e]  "
                      "p: replicate; s: replicate; t: replicate; d: replicate");
}

/* test_attention_4d_gqa_causal, and the same in windows: what a device's queries may look at is a mask. */
Test(attention, queries_are_split_where_their_place_counts)
{
    static const char *const attributes[] = {"is_causal", "left_window_size", "right_window_size"};
    for (int i = 0; i < 3; i++) {
        qkv(25, "2,9,4,8", "2,3,6,8", "2,3,6,8");
        struct sp_node *node = build_node(&build, "Attention", "q k v", "y");
        build_attr_int(&build, node, attributes[i], 1);
        infer();
        EXPECT_RULE(node, "[b,kv*g,q,d] [b,kv,t,d] [b,kv,t,e] -> [b,kv*g,q,e]  t: softmax reduction; d: replicate");
        stop();
    }
    start(25);
}

Test(attention, queries_and_keys_are_whole_where_versions_differ_in_their_place)
{
    qkv(25, "2,9,4,8", "2,3,6,8", "2,3,6,8");
    build_input(&build, "n", SP_DTYPE_INT64, "2");
    struct sp_node *node = build_node(&build, "Attention", "q k v - - - n", "y");
    build_attr_int(&build, node, "is_causal", 1);
    infer();
    EXPECT_RULE(node, "[b,kv*g,q,d] [b,kv,t,d] [b,kv,t,e] [] [] [] [b] -> [b,kv*g,q,e]  q: replicate; t: "
                      "replicate; d: replicate");
}

/* test_attention_4d_attn_mask [4, 6], _mask_3d [1, 4, 6], _mask_4d [2, 1, 4, 6]; since 24 the mask may be shorter, and
   follows no split of the keys then. */
Test(attention, masks_broadcast_to_the_scores)
{
    static const char *const masks[][2] = {{"4,6", "[q,t]"},
                                           {"1,4,6", "[_,q,t]"},
                                           {"2,1,4,6", "[b,_,q,t]"},
                                           {"2,9,1,6", "[b,kv*g,_,t]"},
                                           {"2,9,4,5", "[b,kv*g,q,_]"}};
    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        char text[256];
        qkv(24, "2,9,4,8", "2,3,6,8", "2,3,6,8");
        input("mask", masks[i][0]);
        build_input(&build, "valid", SP_DTYPE_INT64, "2");
        struct sp_node *node = build_node(&build, "Attention", "q k v mask - - valid", "y");
        infer();
        (void)snprintf(text, sizeof(text),
                       "[b,kv*g,q,d] [b,kv,t,d] [b,kv,t,e] %s [] [] [b] -> [b,kv*g,q,e]  t: %s; d: replicate",
                       masks[i][1], i == 4 ? "replicate" : "softmax reduction");
        EXPECT_RULE(node, text);
        stop();
    }
    start(24);
}

Test(attention, extents_may_be_symbols)
{
    qkv(23, "batch,q,4096", "batch,s,1024", "batch,s,1024");
    input("pk", "batch,8,past,128");
    input("pv", "batch,8,past,128");
    struct sp_node *node = build_node(&build, "Attention", "q k v - pk pv", "y ok ov scores");
    packed(node, 32, 8);
    infer();
    EXPECT_TYPE("y", "float32[batch,q,4096]");
    EXPECT_TYPE("ok", "float32[batch,8,s + past,128]");
    EXPECT_TYPE("scores", "float32[batch,32,q,s + past]");
}

/* One head of keys for all queries: a split of the query heads is one of g. */
Test(attention, all_queries_share_one_head_of_keys)
{
    qkv(23, "2,8,4,16", "2,1,6,16", "2,1,6,16");
    struct sp_node *node = build_node(&build, "Attention", "q k v", "y");
    infer();
    EXPECT_TYPE("y", "float32[2,8,4,16]");
    EXPECT_RULE(node, "[b,kv*g,q,d] [b,kv,t,d] [b,kv,t,e] -> [b,kv*g,q,e]  t: softmax reduction; d: replicate");
}

Test(attention, operands_that_do_not_fit)
{
    qkv(23, "2,9,4,8", "2,4,6,8", "2,4,6,8");
    (void)build_node(&build, "Attention", "q k v", "y");
    refused("SHAPES_DISAGREE");
    qkv(23, "2,3,4,8", "2,3,6,9", "2,3,6,8");
    (void)build_node(&build, "Attention", "q k v", "y");
    refused("SHAPES_DISAGREE");
    qkv(23, "2,3,4,8", "2,3,6,8", "2,3,5,8");
    (void)build_node(&build, "Attention", "q k v", "y");
    refused("SHAPES_DISAGREE");
    qkv(23, "2,4,24", "2,6,24", "2,6,24"); /* packed, but nobody says how many */
    (void)build_node(&build, "Attention", "q k v", "y");
    refused("ATTRIBUTE_VALUE");
    qkv(23, "2,4,25", "2,6,24", "2,6,24");
    packed(build_node(&build, "Attention", "q k v", "y"), 3, 3);
    refused("OPERAND_SHAPE");
    start(23);
}

/* ---- FlexAttention -------------------------------------------------------------------------------------------- */

/* test_flexattention_diff_head_sizes */
Test(attention, flex)
{
    qkv(26, "2,3,4,8", "2,3,6,8", "2,3,6,10");
    build_opset(&build, "ai.onnx.preview", 1);
    struct sp_node *node = build_node_in(&build, "ai.onnx.preview", "FlexAttention", "q k v", "y");
    infer();
    EXPECT_TYPE("y", "float32[2,3,4,10]");
    EXPECT_RULE(node, "[b,kv,q,d] [b,kv,t,d] [b,kv,t,e] -> [b,kv,q,e]  t: softmax reduction; d: replicate");
}

/* test_flexattention_relative_positional: the subgraph sees all scores; a string stands for it here. */
Test(attention, flex_with_a_subgraph)
{
    qkv(26, "2,3,4,8", "2,3,6,8", "2,3,6,8");
    build_opset(&build, "ai.onnx.preview", 1);
    struct sp_node *node = build_node_in(&build, "ai.onnx.preview", "FlexAttention", "q k v", "y");
    build_attr_string(&build, node, "score_mod", "");
    infer();
    EXPECT_RULE(node, "[b,kv,q,d] [b,kv,t,d] [b,kv,t,e] -> [b,kv,q,e]  b: replicate; kv: replicate; q: replicate; t: "
                      "replicate; d: replicate");
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------------------------ */

static struct sp_node *rotary(const char *x, const char *cache, const char *positions)
{
    start(23);
    input("x", x);
    input("cos", cache);
    input("sin", cache);
    if (positions != NULL)
        build_input(&build, "positions", SP_DTYPE_INT64, positions);
    return build_node(&build, "RotaryEmbedding", positions != NULL ? "x cos sin positions" : "x cos sin", "y");
}

/* test_rotary_embedding, test_rotary_embedding_interleaved */
Test(attention, rotary_pairs_halves_or_neighbours)
{
    struct sp_node *node = rotary("2,4,3,8", "50,4", "2,3");
    infer();
    EXPECT_TYPE("y", "float32[2,4,3,8]");
    EXPECT_RULE(node, "[b,h,s,two*r] [p,r] [p,r] [b,s] -> [b,h,s,two*r]  two: replicate; p: replicate");
    EXPECT_FLOPS(node, 3.0 * 2 * 4 * 3 * 8);
    stop();
    node = rotary("2,4,3,8", "50,4", "2,3");
    build_attr_int(&build, node, "interleaved", 1);
    infer();
    EXPECT_RULE(node, "[b,h,s,r*two] [p,r] [p,r] [b,s] -> [b,h,s,r*two]  two: replicate; p: replicate");
}

/* test_rotary_embedding_3d_input */
Test(attention, rotary_of_packed_heads)
{
    struct sp_node *node = rotary("2,3,32", "50,4", "2,3");
    build_attr_int(&build, node, "num_heads", 4);
    infer();
    EXPECT_TYPE("y", "float32[2,3,32]");
    EXPECT_RULE(node, "[b,s,h*two*r] [p,r] [p,r] [b,s] -> [b,s,h*two*r]  two: replicate; p: replicate");
}

/* test_rotary_embedding_no_position_ids_rotary_dim: half of each head is turned. */
Test(attention, rotary_of_a_part_of_each_head)
{
    struct sp_node *node = rotary("2,4,3,8", "2,3,2", NULL);
    build_attr_int(&build, node, "rotary_embedding_dim", 4);
    infer();
    EXPECT_RULE(node, "[b,h,s,d] [b,s,r] [b,s,r] -> [b,h,s,d]  r: replicate; d: replicate");
}

Test(attention, rotary_operands_that_do_not_fit)
{
    (void)rotary("2,4,3,8", "2,3,4", "2,3");
    refused("OPERAND_SHAPE");
    (void)rotary("2,3,32", "50,4", "2,3");
    refused("ATTRIBUTE_VALUE");
    struct sp_node *node = rotary("2,4,3,8", "50,8", "2,3");
    build_attr_int(&build, node, "rotary_embedding_dim", 16);
    refused("ATTRIBUTE_VALUE");
    start(23);
}

/* ---- LinearAttention ------------------------------------------------------------------------------------------ */

static struct sp_node *linear(const char *rule, int64_t q_heads, const char *decay, const char *beta)
{
    start(27);
    input("q", q_heads == 4 ? "2,5,32" : "2,5,64");
    input("k", "2,5,32");
    input("v", "2,5,40");
    input("state", "2,4,8,10");
    input("decay", decay);
    input("beta", beta);
    struct sp_node *node = build_node(&build, "LinearAttention", "q k v state decay beta", "y present");
    packed(node, q_heads, 4);
    build_attr_string(&build, node, "update_rule", rule);
    return node;
}

/* test_linear_attention_prefill_with_past, with values of another size */
Test(attention, linear_attention_with_a_delta)
{
    struct sp_node *node = linear("gated_delta", 4, "2,5,32", "2,5,4");
    infer();
    EXPECT_TYPE("y", "float32[2,5,40]");
    EXPECT_TYPE("present", "float32[2,4,8,10]");
    EXPECT_RULE(node, "[b,t,kv*d] [b,t,kv*d] [b,t,kv*e] [b,kv,d,e] [b,t,kv*d] [b,t,kv] -> [b,t,kv*e] [b,kv,d,e]  t: "
                      "sequential; d: replicate");
    EXPECT_FLOPS(node, (7.0 + 2) * 2 * 5 * 4 * 8 * 10);
}

/* test_linear_attention_gated_delta_gqa, gated only: then the output is a sum over d. */
Test(attention, linear_attention_sums_over_the_rows_of_its_state)
{
    struct sp_node *node = linear("gated", 8, "2,5,4", "2,5,1");
    infer();
    EXPECT_TYPE("y", "float32[2,5,80]");
    EXPECT_RULE(node, "[b,t,kv*g*d] [b,t,kv*d] [b,t,kv*e] [b,kv,d,e] [b,t,kv] [b,t,_] -> [b,t,kv*g*e] [b,kv,d,e]  t: "
                      "sequential; d: sum reduction");
    EXPECT_FLOPS(node, (3.0 + 2 * 2) * 2 * 5 * 4 * 8 * 10);
}

Test(attention, linear_attention_with_wrong_attributes)
{
    (void)linear("quadratic", 4, "2,5,4", "2,5,1");
    refused("ATTRIBUTE_VALUE");
    (void)linear("linear", 6, "2,5,4", "2,5,1");
    refused("ATTRIBUTE_VALUE");
    start(27);
}

/* ---- CausalConvWithState -------------------------------------------------------------------------------------- */

/* test_causal_conv_with_state_with_bias_and_past_state */
Test(attention, a_causal_convolution_leaves_a_state)
{
    start(27);
    input("x", "2,4,8");
    input("w", "4,1,4");
    input("b", "4");
    input("past", "2,4,3");
    struct sp_node *node = build_node(&build, "CausalConvWithState", "x w b past", "y present");
    infer();
    EXPECT_TYPE("y", "float32[2,4,8]");
    EXPECT_TYPE("present", "float32[2,4,3]");
    EXPECT_RULE(node, "[b,c,l] [c,_,k] [c] [b,c,_] -> [b,c,l] [b,c,_]  k: replicate; l: halo 3+0");
    EXPECT_FLOPS(node, 2.0 * 2 * 4 * 8 * 4 + 2 * 4 * 8);
}

Test(attention, a_causal_convolution_without_states_needs_its_neighbours)
{
    start(27);
    input("x", "n,4,l");
    input("w", "4,1,4");
    struct sp_node *node = build_node(&build, "CausalConvWithState", "x w", "y -");
    infer();
    EXPECT_RULE(node, "[b,c,l] [c,_,k] -> [b,c,l] []  k: replicate; l: halo 3+0");
    stop();
    start(27);
    input("x", "2,4,8");
    input("w", "5,1,4");
    (void)build_node(&build, "CausalConvWithState", "x w", "y present");
    refused("SHAPES_DISAGREE");
    start(27);
}
