/*
 * Local forms of attention with split keys: how parts of a softmax are joined, what masks compare, what is refused.
 * Which heads share which keys, scales and masks: ONNX's Attention-24 (Operators.md), and MultiHeadAttention in ONNX
 * Runtime's docs/ContribOperators.md.
 */
#include "build_lowering.h"
#include "expect_op.h"

TestSuite(lowering_attention, .fini = stop);

#define MICROSOFT "com.microsoft"

static void start_contrib(void)
{
    start(21);
    build_opset(&build, MICROSOFT, 1);
}

/* ---- split keys ------------------------------------------------------------------------------------------------- */

Test(lowering_attention, parts_of_the_keys_join_their_softmax)
{
    start(24);
    input("q", "2,4,5,16");
    input("k", "2,2,6,16");
    input("v", "2,2,6,3");
    struct sp_node *node = build_node(&build, "Attention", "q k v", "y pk pv s");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "t=1/2"), "%0 = part 0 [0:2,0:4,0:5,0:16] float32[2,4,5,16]\n"
                                                           "%1 = part 1 [0:2,0:2,3:6,0:16] float32[2,2,3,16]\n"
                                                           "%2 = part 2 [0:2,0:2,3:6,0:3] float32[2,2,3,3]\n"
                                                           "%3 = float32[] {0.25}\n"
                                                           "%4 = .Mul(%0, %3) float32[2,4,5,16]\n"
                                                           "%5 = int64[4] {0,2,-1,16}\n"
                                                           "%6 = .Reshape(%4, %5) float32[2,2,10,16]\n"
                                                           "%7 = .Transpose(%1) {perm=[0,1,3,2]} float32[2,2,16,3]\n"
                                                           "%8 = .MatMul(%6, %7) float32[2,2,10,3]\n"
                                                           "%9 = int64[4] {0,4,-1,3}\n"
                                                           "%10 = .Reshape(%8, %9) float32[2,4,5,3]\n"
                                                           "%11 = int64[1] {3}\n"
                                                           "%12 = .ReduceMax(%10, %11) {keepdims=1} float32[2,4,5,1]\n"
                                                           "%13 = all-reduce(%12), max over t float32[2,4,5,1]\n"
                                                           "%14 = float32[] {-3.40282347e+38}\n"
                                                           "%15 = .Max(%13, %14) float32[2,4,5,1]\n"
                                                           "%16 = .Sub(%10, %15) float32[2,4,5,3]\n"
                                                           "%17 = .Exp(%16) float32[2,4,5,3]\n"
                                                           "%18 = int64[1] {3}\n"
                                                           "%19 = .ReduceSum(%17, %18) {keepdims=1} float32[2,4,5,1]\n"
                                                           "%20 = all-reduce(%19), sum over t float32[2,4,5,1]\n"
                                                           "%21 = float32[] {1}\n"
                                                           "%22 = .Max(%20, %21) float32[2,4,5,1]\n"
                                                           "%23 = .Div(%17, %22) float32[2,4,5,3]\n"
                                                           "%24 = int64[4] {0,2,-1,3}\n"
                                                           "%25 = .Reshape(%23, %24) float32[2,2,10,3]\n"
                                                           "%26 = .MatMul(%25, %2) float32[2,2,10,3]\n"
                                                           "%27 = int64[4] {0,4,-1,3}\n"
                                                           "%28 = .Reshape(%26, %27) float32[2,4,5,3]\n"
                                                           "output 0 = %28, sum over t\n"
                                                           "output 1 = %1\n"
                                                           "output 2 = %2\n"
                                                           "output 3 = %10\n");
}

Test(lowering_attention, masks_count_from_the_start_of_the_keys)
{
    start(24);
    input("q", "2,2,3,4");
    input("k", "2,2,6,4");
    input("v", "2,2,6,4");
    (void)build_input(&build, "m", SP_DTYPE_BOOL, "3,6");
    (void)build_input(&build, "n", SP_DTYPE_INT64, "2");
    struct sp_node *node = build_node(&build, "Attention", "q k v m - - n", "y");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "t=1/2"), "%0 = part 0 [0:2,0:2,0:3,0:4] float32[2,2,3,4]\n"
                                                           "%1 = part 1 [0:2,0:2,3:6,0:4] float32[2,2,3,4]\n"
                                                           "%2 = part 2 [0:2,0:2,3:6,0:4] float32[2,2,3,4]\n"
                                                           "%3 = part 6 [0:2] int64[2]\n"
                                                           "%4 = int64[1] {1}\n"
                                                           "%5 = .Unsqueeze(%3, %4) int64[2,1]\n"
                                                           "%6 = int64[1] {2}\n"
                                                           "%7 = .Unsqueeze(%5, %6) int64[2,1,1]\n"
                                                           "%8 = int64[1] {3}\n"
                                                           "%9 = .Unsqueeze(%7, %8) int64[2,1,1,1]\n"
                                                           "%10 = int64[3] {3,4,5}\n"
                                                           "%11 = .Less(%10, %9) bool[2,1,1,3]\n"
                                                           "%12 = .Not(%11) bool[2,1,1,3]\n"
                                                           "%13 = part 3 [0:3,3:6] bool[3,3]\n"
                                                           "%14 = .Not(%13) bool[3,3]\n"
                                                           "%15 = .Or(%12, %14) bool[2,1,3,3]\n"
                                                           "%16 = float32[] {0.5}\n"
                                                           "%17 = .Mul(%0, %16) float32[2,2,3,4]\n"
                                                           "%18 = .Transpose(%1) {perm=[0,1,3,2]} float32[2,2,4,3]\n"
                                                           "%19 = .MatMul(%17, %18) float32[2,2,3,3]\n"
                                                           "%20 = float32[] {-inf}\n"
                                                           "%21 = .Where(%15, %20, %19) float32[2,2,3,3]\n"
                                                           "%22 = int64[1] {3}\n"
                                                           "%23 = .ReduceMax(%21, %22) {keepdims=1} float32[2,2,3,1]\n"
                                                           "%24 = all-reduce(%23), max over t float32[2,2,3,1]\n"
                                                           "%25 = float32[] {-3.40282347e+38}\n"
                                                           "%26 = .Max(%24, %25) float32[2,2,3,1]\n"
                                                           "%27 = .Sub(%21, %26) float32[2,2,3,3]\n"
                                                           "%28 = .Exp(%27) float32[2,2,3,3]\n"
                                                           "%29 = int64[1] {3}\n"
                                                           "%30 = .ReduceSum(%28, %29) {keepdims=1} float32[2,2,3,1]\n"
                                                           "%31 = all-reduce(%30), sum over t float32[2,2,3,1]\n"
                                                           "%32 = float32[] {1}\n"
                                                           "%33 = .Max(%31, %32) float32[2,2,3,1]\n"
                                                           "%34 = .Div(%28, %33) float32[2,2,3,3]\n"
                                                           "%35 = .MatMul(%34, %2) float32[2,2,3,4]\n"
                                                           "output 0 = %35, sum over t\n");
}

Test(lowering_attention, a_causal_mask_compares_places)
{
    start(24);
    input("q", "2,2,3,4");
    input("k", "2,2,6,4");
    input("v", "2,2,6,4");
    struct sp_node *node = build_node(&build, "Attention", "q k v", "y");
    build_attr_int(&build, node, "is_causal", 1);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "t=1/2"), "%0 = part 0 [0:2,0:2,0:3,0:4] float32[2,2,3,4]\n"
                                                           "%1 = part 1 [0:2,0:2,3:6,0:4] float32[2,2,3,4]\n"
                                                           "%2 = part 2 [0:2,0:2,3:6,0:4] float32[2,2,3,4]\n"
                                                           "%3 = int64[3] {3,4,5}\n"
                                                           "%4 = int64[3] {0,1,2}\n"
                                                           "%5 = int64[1] {1}\n"
                                                           "%6 = .Unsqueeze(%4, %5) int64[3,1]\n"
                                                           "%7 = .Greater(%3, %6) bool[3,3]\n"
                                                           "%8 = float32[] {0.5}\n"
                                                           "%9 = .Mul(%0, %8) float32[2,2,3,4]\n"
                                                           "%10 = .Transpose(%1) {perm=[0,1,3,2]} float32[2,2,4,3]\n"
                                                           "%11 = .MatMul(%9, %10) float32[2,2,3,3]\n"
                                                           "%12 = float32[] {-inf}\n"
                                                           "%13 = .Where(%7, %12, %11) float32[2,2,3,3]\n"
                                                           "%14 = int64[1] {3}\n"
                                                           "%15 = .ReduceMax(%13, %14) {keepdims=1} float32[2,2,3,1]\n"
                                                           "%16 = all-reduce(%15), max over t float32[2,2,3,1]\n"
                                                           "%17 = float32[] {-3.40282347e+38}\n"
                                                           "%18 = .Max(%16, %17) float32[2,2,3,1]\n"
                                                           "%19 = .Sub(%13, %18) float32[2,2,3,3]\n"
                                                           "%20 = .Exp(%19) float32[2,2,3,3]\n"
                                                           "%21 = int64[1] {3}\n"
                                                           "%22 = .ReduceSum(%20, %21) {keepdims=1} float32[2,2,3,1]\n"
                                                           "%23 = all-reduce(%22), sum over t float32[2,2,3,1]\n"
                                                           "%24 = float32[] {1}\n"
                                                           "%25 = .Max(%23, %24) float32[2,2,3,1]\n"
                                                           "%26 = .Div(%20, %25) float32[2,2,3,3]\n"
                                                           "%27 = .MatMul(%26, %2) float32[2,2,3,4]\n"
                                                           "output 0 = %27, sum over t\n");
}

Test(lowering_attention, a_mask_of_other_keys_keeps_the_keys_whole)
{
    start(24);
    input("q", "2,2,3,4");
    input("k", "2,2,6,4");
    input("v", "2,2,6,4");
    input("m", "3,4");
    struct sp_node *node = build_node(&build, "Attention", "q k v m", "y");
    infer();
    EXPECT_LOWERING(
        build_lowering(&build, node, "t=1/2"),
        "again t: Node 0 (Attention) has no form for a split of factor t: its mask does not have as many keys "
        "as it has. It is computed with the factor whole on every device.");
}

Test(lowering_attention, a_bias_and_a_padding_mask_are_added)
{
    start_contrib();
    input("q", "2,3,8");
    input("k", "2,6,8");
    input("v", "2,6,8");
    input("bias", "24");
    (void)build_input(&build, "mask", SP_DTYPE_INT32, "2,6");
    struct sp_node *node = build_node_in(&build, MICROSOFT, "MultiHeadAttention", "q k v bias mask", "y");
    build_attr_int(&build, node, "num_heads", 2);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "t=1/2 kv=1/2"),
                    "%0 = part 1 [0:2,3:6,4:8] float32[2,3,4]\n"
                    "%1 = part 0 [0:2,0:3,4:8] float32[2,3,4]\n"
                    "%2 = int64[4] {0,0,1,-1}\n"
                    "%3 = .Reshape(%1, %2) float32[2,3,1,4]\n"
                    "%4 = .Transpose(%3) {perm=[0,2,1,3]} float32[2,1,3,4]\n"
                    "%5 = part 2 [0:2,3:6,4:8] float32[2,3,4]\n"
                    "%6 = int64[4] {0,0,1,-1}\n"
                    "%7 = .Reshape(%0, %6) float32[2,3,1,4]\n"
                    "%8 = .Transpose(%7) {perm=[0,2,1,3]} float32[2,1,3,4]\n"
                    "%9 = int64[4] {0,0,1,-1}\n"
                    "%10 = .Reshape(%5, %9) float32[2,3,1,4]\n"
                    "%11 = .Transpose(%10) {perm=[0,2,1,3]} float32[2,1,3,4]\n"
                    "%12 = part 3 [4:8+12:16+20:24] float32[12]\n"
                    "%13 = int64[1] {0}\n"
                    "%14 = int64[1] {4}\n"
                    "%15 = int64[1] {0}\n"
                    "%16 = .Slice(%12, %13, %14, %15) float32[4]\n"
                    "%17 = int64[4] {1,1,1,4}\n"
                    "%18 = .Reshape(%16, %17) float32[1,1,1,4]\n"
                    "%19 = .Add(%4, %18) float32[2,1,3,4]\n"
                    "%20 = int64[1] {4}\n"
                    "%21 = int64[1] {8}\n"
                    "%22 = int64[1] {0}\n"
                    "%23 = .Slice(%12, %20, %21, %22) float32[4]\n"
                    "%24 = int64[4] {1,1,1,4}\n"
                    "%25 = .Reshape(%23, %24) float32[1,1,1,4]\n"
                    "%26 = .Add(%8, %25) float32[2,1,3,4]\n"
                    "%27 = int64[1] {8}\n"
                    "%28 = int64[1] {12}\n"
                    "%29 = int64[1] {0}\n"
                    "%30 = .Slice(%12, %27, %28, %29) float32[4]\n"
                    "%31 = int64[4] {1,1,1,4}\n"
                    "%32 = .Reshape(%30, %31) float32[1,1,1,4]\n"
                    "%33 = .Add(%11, %32) float32[2,1,3,4]\n"
                    "%34 = part 4 [0:2,3:6] int32[2,3]\n"
                    "%35 = int32[] {0}\n"
                    "%36 = .Greater(%34, %35) bool[2,3]\n"
                    "%37 = int64[1] {1}\n"
                    "%38 = .Unsqueeze(%36, %37) bool[2,1,3]\n"
                    "%39 = int64[1] {1}\n"
                    "%40 = .Unsqueeze(%38, %39) bool[2,1,1,3]\n"
                    "%41 = float32[] {-10000}\n"
                    "%42 = float32[] {0}\n"
                    "%43 = .Where(%40, %42, %41) float32[2,1,1,3]\n"
                    "%44 = float32[] {0.5}\n"
                    "%45 = .Mul(%19, %44) float32[2,1,3,4]\n"
                    "%46 = .Transpose(%26) {perm=[0,1,3,2]} float32[2,1,4,3]\n"
                    "%47 = .MatMul(%45, %46) float32[2,1,3,3]\n"
                    "%48 = .Add(%47, %43) float32[2,1,3,3]\n"
                    "%49 = int64[1] {3}\n"
                    "%50 = .ReduceMax(%48, %49) {keepdims=1} float32[2,1,3,1]\n"
                    "%51 = all-reduce(%50), max over t float32[2,1,3,1]\n"
                    "%52 = float32[] {-3.40282347e+38}\n"
                    "%53 = .Max(%51, %52) float32[2,1,3,1]\n"
                    "%54 = .Sub(%48, %53) float32[2,1,3,3]\n"
                    "%55 = .Exp(%54) float32[2,1,3,3]\n"
                    "%56 = int64[1] {3}\n"
                    "%57 = .ReduceSum(%55, %56) {keepdims=1} float32[2,1,3,1]\n"
                    "%58 = all-reduce(%57), sum over t float32[2,1,3,1]\n"
                    "%59 = float32[] {1}\n"
                    "%60 = .Max(%58, %59) float32[2,1,3,1]\n"
                    "%61 = .Div(%55, %60) float32[2,1,3,3]\n"
                    "%62 = .MatMul(%61, %33) float32[2,1,3,4]\n"
                    "%63 = .Transpose(%62) {perm=[0,2,1,3]} float32[2,3,1,4]\n"
                    "%64 = int64[3] {0,0,-1}\n"
                    "%65 = .Reshape(%63, %64) float32[2,3,4]\n"
                    "output 0 = %65, sum over t\n");
}

/* ---- split queries ---------------------------------------------------------------------------------------------- */

/* Query 2 is behind 4 keys of the past and 2 of its own. */
Test(lowering_attention, later_queries_say_what_they_may_look_at)
{
    start(25);
    input("q", "2,2,4,8");
    input("k", "2,2,3,8");
    input("v", "2,2,3,8");
    input("pk", "2,2,4,8");
    input("pv", "2,2,4,8");
    struct sp_node *node = build_node(&build, "Attention", "q k v - pk pv", "y");
    build_attr_int(&build, node, "is_causal", 1);
    build_attr_int(&build, node, "left_window_size", 3);
    infer();
    EXPECT_LOWERING(
        build_lowering(&build, node, "q=1/2"),
        "%0 = part 0 [0:2,0:2,2:4,0:8] float32[2,2,2,8]\n"
        "%1 = part 1 [0:2,0:2,0:3,0:8] float32[2,2,3,8]\n"
        "%2 = part 2 [0:2,0:2,0:3,0:8] float32[2,2,3,8]\n"
        "%3 = part 4 [0:2,0:2,0:4,0:8] float32[2,2,4,8]\n"
        "%4 = part 5 [0:2,0:2,0:4,0:8] float32[2,2,4,8]\n"
        "%5 = int64[7] {0,1,2,3,4,5,6}\n"
        "%6 = int64[2] {2,3}\n"
        "%7 = int64[] {4}\n"
        "%8 = .Add(%6, %7) int64[2]\n"
        "%9 = int64[1] {1}\n"
        "%10 = .Unsqueeze(%8, %9) int64[2,1]\n"
        "%11 = .Greater(%5, %10) bool[2,7]\n"
        "%12 = int64[2] {2,3}\n"
        "%13 = int64[] {1}\n"
        "%14 = .Add(%12, %13) int64[2]\n"
        "%15 = int64[1] {1}\n"
        "%16 = .Unsqueeze(%14, %15) int64[2,1]\n"
        "%17 = .Less(%5, %16) bool[2,7]\n"
        "%18 = .Or(%11, %17) bool[2,7]\n"
        "%19 = .Not(%18) bool[2,7]\n"
        "%20 = Attention(%0, %1, %2, %19, %3, %4) {is_causal=none, left_window_size=none} float32[2,2,2,8]\n"
        "output 0 = %20\n");
}

Test(lowering_attention, later_queries_keep_their_mask)
{
    start(24);
    input("q", "2,2,4,8");
    input("k", "2,2,6,8");
    input("v", "2,2,6,8");
    input("m", "4,6");
    struct sp_node *node = build_node(&build, "Attention", "q k v m", "y - - s");
    build_attr_int(&build, node, "is_causal", 1);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "q=1/2"),
                    "%0 = part 0 [0:2,0:2,2:4,0:8] float32[2,2,2,8]\n"
                    "%1 = part 1 [0:2,0:2,0:6,0:8] float32[2,2,6,8]\n"
                    "%2 = part 2 [0:2,0:2,0:6,0:8] float32[2,2,6,8]\n"
                    "%3 = part 3 [2:4,0:6] float32[2,6]\n"
                    "%4 = int64[6] {0,1,2,3,4,5}\n"
                    "%5 = int64[2] {2,3}\n"
                    "%6 = int64[1] {1}\n"
                    "%7 = .Unsqueeze(%5, %6) int64[2,1]\n"
                    "%8 = .Greater(%4, %7) bool[2,6]\n"
                    "%9 = float32[] {-inf}\n"
                    "%10 = .Where(%8, %9, %3) float32[2,6]\n"
                    "%11, -, -, %12 = Attention(%0, %1, %2, %10) {is_causal=none} float32[2,2,2,8] float32[2,2,2,6]\n"
                    "output 0 = %11\n"
                    "output 3 = %12\n");
}

Test(lowering_attention, later_queries_of_multi_head_attention_are_biased)
{
    start_contrib();
    input("q", "2,4,8");
    input("k", "2,6,8");
    struct sp_node *node = build_node_in(&build, MICROSOFT, "MultiHeadAttention", "q k k", "y");
    build_attr_int(&build, node, "num_heads", 2);
    build_attr_int(&build, node, "unidirectional", 1);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "q=1/2"),
                    "%0 = part 0 [0:2,2:4,0:8] float32[2,2,8]\n"
                    "%1 = part 1 [0:2,0:6,0:8] float32[2,6,8]\n"
                    "%2 = part 2 [0:2,0:6,0:8] float32[2,6,8]\n"
                    "%3 = int64[6] {0,1,2,3,4,5}\n"
                    "%4 = int64[2] {2,3}\n"
                    "%5 = int64[1] {1}\n"
                    "%6 = .Unsqueeze(%4, %5) int64[2,1]\n"
                    "%7 = .Greater(%3, %6) bool[2,6]\n"
                    "%8 = int64[1] {0}\n"
                    "%9 = .Unsqueeze(%7, %8) bool[1,2,6]\n"
                    "%10 = int64[1] {0}\n"
                    "%11 = .Unsqueeze(%9, %10) bool[1,1,2,6]\n"
                    "%12 = float32[] {0}\n"
                    "%13 = float32[] {-3.40282347e+38}\n"
                    "%14 = .Where(%11, %13, %12) float32[1,1,2,6]\n"
                    "%15 = MultiHeadAttention(%0, %1, %2, -, -, %14) {num_heads=2, unidirectional=0} float32[2,2,8]\n"
                    "output 0 = %15\n");
}

/* ---- extents that are not known --------------------------------------------------------------------------------- */

Test(lowering_attention, batches_and_queries_need_not_be_known)
{
    start(24);
    input("q", "n,s,32");
    input("k", "n,6,16");
    input("v", "n,6,8");
    struct sp_node *node = build_node(&build, "Attention", "q k v", "y pk");
    build_attr_int(&build, node, "q_num_heads", 4);
    build_attr_int(&build, node, "kv_num_heads", 2);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "t=0/2"), "%0 = part 0 [0:?,0:?,0:32] float32[?,?,32]\n"
                                                           "%1 = int64[4] {0,0,4,-1}\n"
                                                           "%2 = .Reshape(%0, %1) float32[?,?,4,?]\n"
                                                           "%3 = .Transpose(%2) {perm=[0,2,1,3]} float32[?,4,?,?]\n"
                                                           "%4 = part 1 [0:?,0:3,0:16] float32[?,3,16]\n"
                                                           "%5 = int64[4] {0,0,2,-1}\n"
                                                           "%6 = .Reshape(%4, %5) float32[?,3,2,?]\n"
                                                           "%7 = .Transpose(%6) {perm=[0,2,1,3]} float32[?,2,3,?]\n"
                                                           "%8 = part 2 [0:?,0:3,0:8] float32[?,3,8]\n"
                                                           "%9 = int64[4] {0,0,2,-1}\n"
                                                           "%10 = .Reshape(%8, %9) float32[?,3,2,?]\n"
                                                           "%11 = .Transpose(%10) {perm=[0,2,1,3]} float32[?,2,3,?]\n"
                                                           "%12 = float32[] {0.353553385}\n"
                                                           "%13 = .Mul(%3, %12) float32[?,4,?,?]\n"
                                                           "%14 = int64[4] {0,2,-1,8}\n"
                                                           "%15 = .Reshape(%13, %14) float32[?,2,?,8]\n"
                                                           "%16 = .Transpose(%7) {perm=[0,1,3,2]} float32[?,2,?,3]\n"
                                                           "%17 = .MatMul(%15, %16) float32[?,2,?,3]\n"
                                                           "%18 = int64[4] {0,4,-1,3}\n"
                                                           "%19 = .Reshape(%17, %18) float32[?,4,?,3]\n"
                                                           "%20 = int64[1] {3}\n"
                                                           "%21 = .ReduceMax(%19, %20) {keepdims=1} float32[?,4,?,1]\n"
                                                           "%22 = all-reduce(%21), max over t float32[?,4,?,1]\n"
                                                           "%23 = float32[] {-3.40282347e+38}\n"
                                                           "%24 = .Max(%22, %23) float32[?,4,?,1]\n"
                                                           "%25 = .Sub(%19, %24) float32[?,4,?,3]\n"
                                                           "%26 = .Exp(%25) float32[?,4,?,3]\n"
                                                           "%27 = int64[1] {3}\n"
                                                           "%28 = .ReduceSum(%26, %27) {keepdims=1} float32[?,4,?,1]\n"
                                                           "%29 = all-reduce(%28), sum over t float32[?,4,?,1]\n"
                                                           "%30 = float32[] {1}\n"
                                                           "%31 = .Max(%29, %30) float32[?,4,?,1]\n"
                                                           "%32 = .Div(%26, %31) float32[?,4,?,3]\n"
                                                           "%33 = int64[4] {0,2,-1,3}\n"
                                                           "%34 = .Reshape(%32, %33) float32[?,2,?,3]\n"
                                                           "%35 = .MatMul(%34, %11) float32[?,2,?,?]\n"
                                                           "%36 = int64[4] {0,4,-1,4}\n"
                                                           "%37 = .Reshape(%35, %36) float32[?,4,?,4]\n"
                                                           "%38 = .Transpose(%37) {perm=[0,2,1,3]} float32[?,?,4,4]\n"
                                                           "%39 = int64[3] {0,0,-1}\n"
                                                           "%40 = .Reshape(%38, %39) float32[?,?,?]\n"
                                                           "output 0 = %40, sum over t\n"
                                                           "output 1 = %7\n");
}

Test(lowering_attention, causal_queries_need_to_be_known)
{
    start(24);
    input("q", "2,2,s,4");
    input("k", "2,2,6,4");
    input("v", "2,2,6,4");
    struct sp_node *node = build_node(&build, "Attention", "q k v", "y");
    build_attr_int(&build, node, "is_causal", 1);
    infer();
    EXPECT_LOWERING(
        build_lowering(&build, node, "t=1/2"),
        "again t: Node 0 (Attention) has no form for a split of factor t: what a query may look at depends on "
        "its place, and the number of queries or of keys is not known. It is computed with the factor whole "
        "on every device.");
}

/* ---- packed keys and values ------------------------------------------------------------------------------------- */

Test(lowering_attention, keys_and_values_are_taken_apart)
{
    start_contrib();
    input("q", "2,3,8");
    input("kv", "2,6,2,2,4");
    struct sp_node *node = build_node_in(&build, MICROSOFT, "MultiHeadAttention", "q kv", "y");
    build_attr_int(&build, node, "num_heads", 2);
    build_attr_int(&build, node, "unidirectional", 1);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "t=1/2"), "%0 = part 1 [0:2,3:6,0:2,0:2,0:4] float32[2,3,2,2,4]\n"
                                                           "%1 = part 0 [0:2,0:3,0:8] float32[2,3,8]\n"
                                                           "%2 = int64[4] {0,0,2,-1}\n"
                                                           "%3 = .Reshape(%1, %2) float32[2,3,2,4]\n"
                                                           "%4 = .Transpose(%3) {perm=[0,2,1,3]} float32[2,2,3,4]\n"
                                                           "%5 = int64[1] {0}\n"
                                                           "%6 = int64[1] {1}\n"
                                                           "%7 = int64[1] {3}\n"
                                                           "%8 = .Slice(%0, %5, %6, %7) float32[2,3,2,1,4]\n"
                                                           "%9 = int64[1] {3}\n"
                                                           "%10 = .Squeeze(%8, %9) float32[2,3,2,4]\n"
                                                           "%11 = .Transpose(%10) {perm=[0,2,1,3]} float32[2,2,3,4]\n"
                                                           "%12 = int64[1] {1}\n"
                                                           "%13 = int64[1] {2}\n"
                                                           "%14 = int64[1] {3}\n"
                                                           "%15 = .Slice(%0, %12, %13, %14) float32[2,3,2,1,4]\n"
                                                           "%16 = int64[1] {3}\n"
                                                           "%17 = .Squeeze(%15, %16) float32[2,3,2,4]\n"
                                                           "%18 = .Transpose(%17) {perm=[0,2,1,3]} float32[2,2,3,4]\n"
                                                           "%19 = int64[3] {3,4,5}\n"
                                                           "%20 = int64[3] {0,1,2}\n"
                                                           "%21 = int64[1] {1}\n"
                                                           "%22 = .Unsqueeze(%20, %21) int64[3,1]\n"
                                                           "%23 = .Greater(%19, %22) bool[3,3]\n"
                                                           "%24 = float32[] {0.5}\n"
                                                           "%25 = .Mul(%4, %24) float32[2,2,3,4]\n"
                                                           "%26 = .Transpose(%11) {perm=[0,1,3,2]} float32[2,2,4,3]\n"
                                                           "%27 = .MatMul(%25, %26) float32[2,2,3,3]\n"
                                                           "%28 = float32[] {-inf}\n"
                                                           "%29 = .Where(%23, %28, %27) float32[2,2,3,3]\n"
                                                           "%30 = int64[1] {3}\n"
                                                           "%31 = .ReduceMax(%29, %30) {keepdims=1} float32[2,2,3,1]\n"
                                                           "%32 = all-reduce(%31), max over t float32[2,2,3,1]\n"
                                                           "%33 = float32[] {-3.40282347e+38}\n"
                                                           "%34 = .Max(%32, %33) float32[2,2,3,1]\n"
                                                           "%35 = .Sub(%29, %34) float32[2,2,3,3]\n"
                                                           "%36 = .Exp(%35) float32[2,2,3,3]\n"
                                                           "%37 = int64[1] {3}\n"
                                                           "%38 = .ReduceSum(%36, %37) {keepdims=1} float32[2,2,3,1]\n"
                                                           "%39 = all-reduce(%38), sum over t float32[2,2,3,1]\n"
                                                           "%40 = float32[] {1}\n"
                                                           "%41 = .Max(%39, %40) float32[2,2,3,1]\n"
                                                           "%42 = .Div(%36, %41) float32[2,2,3,3]\n"
                                                           "%43 = .MatMul(%42, %18) float32[2,2,3,4]\n"
                                                           "%44 = .Transpose(%43) {perm=[0,2,1,3]} float32[2,3,2,4]\n"
                                                           "%45 = int64[3] {0,0,-1}\n"
                                                           "%46 = .Reshape(%44, %45) float32[2,3,8]\n"
                                                           "output 0 = %46, sum over t\n");
}
