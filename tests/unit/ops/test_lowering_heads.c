/*
 * Local forms of operators with heads in their attributes, of mixtures of experts and of causal convolutions. What the
 * attributes are: ONNX's Attention-24, LinearAttention-27, RotaryEmbedding-23 and CausalConvWithState-27
 * (Operators.md), and ONNX Runtime's docs/ContribOperators.md for com.microsoft.
 */
#include "build_lowering.h"
#include "expect_op.h"

TestSuite(lowering_heads, .fini = stop);

#define MICROSOFT "com.microsoft"

static void start_contrib(void)
{
    start(21);
    build_opset(&build, MICROSOFT, 1);
}

/* ---- heads in attributes ---------------------------------------------------------------------------------------- */

/* 6 query heads of 2, 3 heads of keys: a group of 2. */
static struct sp_node *packed(void)
{
    start(24);
    input("q", "2,5,12");
    input("k", "2,8,6");
    input("v", "2,8,9");
    struct sp_node *node = build_node(&build, "Attention", "q k v", "y");
    build_attr_int(&build, node, "q_num_heads", 6);
    build_attr_int(&build, node, "kv_num_heads", 3);
    infer();
    return node;
}

Test(lowering_heads, packed_heads_are_those_that_are_here)
{
    EXPECT_LOWERING(build_lowering(&build, packed(), "kv=1/2"),
                    "%0 = part 0 [0:2,0:5,8:12] float32[2,5,4]\n"
                    "%1 = part 1 [0:2,0:8,4:6] float32[2,8,2]\n"
                    "%2 = part 2 [0:2,0:8,6:9] float32[2,8,3]\n"
                    "%3 = Attention(%0, %1, %2) {q_num_heads=2, kv_num_heads=1} float32[2,5,6]\n"
                    "output 0 = %3\n");
}

Test(lowering_heads, query_heads_of_a_group_are_split_too)
{
    EXPECT_LOWERING(build_lowering(&build, packed(), "g=1/2"),
                    "%0 = part 0 [0:2,0:5,2:4+6:8+10:12] float32[2,5,6]\n"
                    "%1 = part 1 [0:2,0:8,0:6] float32[2,8,6]\n"
                    "%2 = part 2 [0:2,0:8,0:9] float32[2,8,9]\n"
                    "%3 = Attention(%0, %1, %2) {q_num_heads=3, kv_num_heads=3} float32[2,5,9]\n"
                    "output 0 = %3\n");
}

Test(lowering_heads, heads_apart_need_no_attributes)
{
    start(24);
    input("q", "2,4,5,8");
    input("k", "2,4,6,8");
    input("v", "2,4,6,8");
    struct sp_node *node = build_node(&build, "Attention", "q k v", "y");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "kv=0/2 q=1/2"), "%0 = part 0 [0:2,0:2,3:5,0:8] float32[2,2,2,8]\n"
                                                                  "%1 = part 1 [0:2,0:2,0:6,0:8] float32[2,2,6,8]\n"
                                                                  "%2 = part 2 [0:2,0:2,0:6,0:8] float32[2,2,6,8]\n"
                                                                  "%3 = Attention(%0, %1, %2) float32[2,2,2,8]\n"
                                                                  "output 0 = %3\n");
}

Test(lowering_heads, a_linear_attention_keeps_the_scale_of_whole_heads)
{
    start(27);
    input("q", "2,5,16");
    input("k", "2,5,8");
    input("v", "2,5,6");
    struct sp_node *node = build_node(&build, "LinearAttention", "q k v", "y s");
    build_attr_int(&build, node, "q_num_heads", 4);
    build_attr_int(&build, node, "kv_num_heads", 2);
    build_attr_string(&build, node, "update_rule", "linear");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "kv=0/2 d=1/2"),
                    "%0 = part 0 [0:2,0:5,2:4+6:8] float32[2,5,4]\n"
                    "%1 = part 1 [0:2,0:5,2:4] float32[2,5,2]\n"
                    "%2 = part 2 [0:2,0:5,0:3] float32[2,5,3]\n"
                    "%3, %4 = LinearAttention(%0, %1, %2) {q_num_heads=2, kv_num_heads=1, scale=0.5} float32[2,5,6] "
                    "float32[2,1,2,3]\n"
                    "output 0 = %3, sum over d\n"
                    "output 1 = %4\n");
}

Test(lowering_heads, a_rotary_embedding_turns_the_pairs_that_are_here)
{
    start(23);
    input("x", "2,5,24");
    input("c", "2,5,4");
    input("s", "2,5,4");
    struct sp_node *node = build_node(&build, "RotaryEmbedding", "x c s", "y");
    build_attr_int(&build, node, "num_heads", 3);
    build_attr_int(&build, node, "rotary_embedding_dim", 8);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "h=1/2 r=0/2"),
                    "%0 = part 0 [0:2,0:5,16:18+20:22] float32[2,5,4]\n"
                    "%1 = part 1 [0:2,0:5,0:2] float32[2,5,2]\n"
                    "%2 = part 2 [0:2,0:5,0:2] float32[2,5,2]\n"
                    "%3 = RotaryEmbedding(%0, %1, %2) {num_heads=1, rotary_embedding_dim=4} float32[2,5,4]\n"
                    "output 0 = %3\n");
}

Test(lowering_heads, projections_are_those_of_the_heads)
{
    start_contrib();
    input("x", "2,4,16");
    input("w", "16,48");
    struct sp_node *node = build_node_in(&build, MICROSOFT, "Attention", "x w", "y");
    build_attr_int(&build, node, "num_heads", 4);
    build_attr_ints(&build, node, "qkv_hidden_sizes", 3, (int64_t[]){16, 16, 16});
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "kv=1/2"),
                    "%0 = part 0 [0:2,0:4,0:16] float32[2,4,16]\n"
                    "%1 = part 1 [0:16,8:16+24:32+40:48] float32[16,24]\n"
                    "%2 = Attention(%0, %1) {num_heads=2, qkv_hidden_sizes=[8,8,8]} float32[2,4,8]\n"
                    "output 0 = %2\n");
}

/* ---- mixtures of experts ---------------------------------------------------------------------------------------- */

static struct sp_node *mixture(void)
{
    start_contrib();
    input("x", "6,4");
    input("r", "6,3");
    input("w1", "3,8,4");
    input("w2", "3,4,8");
    input("b2", "3,4");
    struct sp_node *node = build_node_in(&build, MICROSOFT, "MoE", "x r w1 - w2 b2", "y");
    build_attr_int(&build, node, "k", 2);
    infer();
    return node;
}

Test(lowering_heads, experts_are_chosen_among_all)
{
    EXPECT_LOWERING(build_lowering(&build, mixture(), "x=1/2"), "%0 = part 0 [0:6,0:4] float32[6,4]\n"
                                                                "%1 = part 1 [0:6,0:3] float32[6,3]\n"
                                                                "%2 = part 2 [2:3,0:8,0:4] float32[1,8,4]\n"
                                                                "%3 = part 4 [2:3,0:4,0:8] float32[1,4,8]\n"
                                                                "%4 = part 5 [2:3,0:4] float32[1,4]\n"
                                                                "%5 = int64[1] {2}\n"
                                                                "%6, %7 = .TopK(%1, %5) float32 int64[6,2]\n"
                                                                "%8 = int64[1] {2}\n"
                                                                "%9 = int64[1] {2}\n"
                                                                "%10 = .Unsqueeze(%7, %9) int64[6,2,1]\n"
                                                                "%11 = .Equal(%10, %8) bool[6,2,1]\n"
                                                                "%12 = .Cast(%11) {to=1} float32[6,2,1]\n"
                                                                "%13 = int64[1] {1}\n"
                                                                "%14 = .ReduceMax(%12, %13) {keepdims=0} float32[6,1]\n"
                                                                "%15 = int64[1] {2}\n"
                                                                "%16 = .ReduceMax(%12, %15) {keepdims=0} float32[6,2]\n"
                                                                "%17 = .Gather(%1, %8) {axis=1} float32[6,1]\n"
                                                                "%18 = float32[] {0.5}\n"
                                                                "%19 = .Greater(%14, %18) bool[6,1]\n"
                                                                "%20 = float32[] {-3.40282347e+38}\n"
                                                                "%21 = .Where(%19, %17, %20) float32[6,1]\n"
                                                                "%22 = .Softmax(%1) {axis=-1} float32\n"
                                                                "%23 = .GatherElements(%22, %7) {axis=1} float32[6,2]\n"
                                                                "%24 = .Mul(%23, %16) float32[6,2]\n"
                                                                "%25 = int64[1] {1}\n"
                                                                "%26 = .ReduceSum(%24, %25) {keepdims=1} float32[6,1]\n"
                                                                "%27 = MoE(%0, %21, %2, -, %3, %4) {k=1} float32[6,4]\n"
                                                                "%28 = .Mul(%27, %26) float32[6,4]\n"
                                                                "output 0 = %28, sum over x\n");
}

Test(lowering_heads, one_part_of_the_inner_size_adds_the_bias)
{
    EXPECT_LOWERING(build_lowering(&build, mixture(), "i=1/2"), "%0 = part 0 [0:6,0:4] float32[6,4]\n"
                                                                "%1 = part 1 [0:6,0:3] float32[6,3]\n"
                                                                "%2 = part 2 [0:3,4:8,0:4] float32[3,4,4]\n"
                                                                "%3 = part 4 [0:3,0:4,4:8] float32[3,4,4]\n"
                                                                "%4 = part 5 [0:3,0:4] float32[3,4]\n"
                                                                "%5 = float32[] {0}\n"
                                                                "%6 = .Mul(%4, %5) float32[3,4]\n"
                                                                "%7 = MoE(%0, %1, %2, -, %3, %6) float32[6,4]\n"
                                                                "output 0 = %7, sum over i\n");
}

/* ---- the halo of a causal convolution --------------------------------------------------------------------------- */

static struct sp_node *causal(const char *x)
{
    start(27);
    input("x", x);
    input("w", "3,1,4");
    input("past", "2,3,3");
    struct sp_node *node = build_node(&build, "CausalConvWithState", "x w - past", "y present");
    infer();
    return node;
}

Test(lowering_heads, a_causal_convolution_brings_what_is_in_front)
{
    EXPECT_LOWERING(build_lowering(&build, causal("2,3,10"), "l=1/2"),
                    "%0 = part 3 [0:2,0:3,0:3] float32[2,3,3]\n"
                    "%1 = box 0 [0:2,0:3,2:10] float32[2,3,8]\n"
                    "%2 = part 1 [0:3,0:1,0:4] float32[3,1,4]\n"
                    "%3, %4 = CausalConvWithState(%1, %2, -, -) float32[2,3,8] float32[2,3,3]\n"
                    "%5 = int64[1] {3}\n"
                    "%6 = int64[1] {8}\n"
                    "%7 = int64[1] {2}\n"
                    "%8 = .Slice(%3, %5, %6, %7) float32[2,3,5]\n"
                    "output 0 = %8\n"
                    "%9 = box 0 [0:2,0:3,7:10] float32[2,3,3]\n"
                    "output 1 = %9\n");
}

Test(lowering_heads, the_first_part_of_a_causal_convolution_takes_the_state)
{
    EXPECT_LOWERING(build_lowering(&build, causal("2,3,10"), "l=0/2"),
                    "%0 = part 3 [0:2,0:3,0:3] float32[2,3,3]\n"
                    "%1 = box 0 [0:2,0:3,0:5] float32[2,3,5]\n"
                    "%2 = part 1 [0:3,0:1,0:4] float32[3,1,4]\n"
                    "%3, %4 = CausalConvWithState(%1, %2, -, %0) float32[2,3,5] float32[2,3,3]\n"
                    "output 0 = %3\n"
                    "%5 = box 0 [0:2,0:3,7:10] float32[2,3,3]\n"
                    "output 1 = %5\n");
}

Test(lowering_heads, a_short_sequence_leaves_some_of_its_state)
{
    EXPECT_LOWERING(build_lowering(&build, causal("2,3,2"), "l=1/2"),
                    "%0 = part 3 [0:2,0:3,0:3] float32[2,3,3]\n"
                    "%1 = box 0 [0:2,0:3,0:2] float32[2,3,2]\n"
                    "%2 = part 1 [0:3,0:1,0:4] float32[3,1,4]\n"
                    "%3, %4 = CausalConvWithState(%1, %2, -, %0) float32[2,3,2] float32[2,3,3]\n"
                    "%5 = int64[1] {1}\n"
                    "%6 = int64[1] {2}\n"
                    "%7 = int64[1] {2}\n"
                    "%8 = .Slice(%3, %5, %6, %7) float32[2,3,1]\n"
                    "output 0 = %8\n"
                    "%9 = box 0 [0:2,0:3,0:2] float32[2,3,2]\n"
                    "%10 = int64[1] {2}\n"
                    "%11 = int64[1] {3}\n"
                    "%12 = int64[1] {2}\n"
                    "%13 = .Slice(%0, %10, %11, %12) float32[2,3,1]\n"
                    "%14 = .Concat(%13, %9) {axis=2} float32[2,3,3]\n"
                    "output 1 = %14\n");
}

/* ---- operators that run on several devices already -------------------------------------------------------------- */

Test(lowering_heads, what_a_collective_is_given_is_not_split)
{
    start_contrib();
    input("x", "4,6");
    struct sp_node *node = build_node_in(&build, MICROSOFT, "AllReduce", "x", "y");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d0=1/2"),
                    "again d0: Node 0 (AllReduce) has no form for a split of factor d0: it is one device's part of an "
                    "operator that runs on several already. It is computed with the factor whole on every device.");
}
