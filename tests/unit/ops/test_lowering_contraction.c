/*
 * Local forms of contractions and recurrent layers: what is added once, and which attributes a part has. The semantics
 * are those of ONNX's Operators.md (Gemm-13, LSTM-22, GRU-22, RNN-22) and of ONNX Runtime's docs/ContribOperators.md.
 */
#include "build_lowering.h"
#include "expect_op.h"

TestSuite(lowering_contraction, .fini = stop);

/* ---- matrices --------------------------------------------------------------------------------------------------- */

Test(lowering_contraction, c_counts_on_one_device)
{
    start(13);
    input("a", "4,6");
    input("b", "6,5");
    input("c", "5");
    struct sp_node *node = build_node(&build, "Gemm", "a b c", "y");
    build_attr_float(&build, node, "beta", 0.5);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "k=0/2"), "%0 = part 0 [0:4,0:3] float32[4,3]\n"
                                                           "%1 = part 1 [0:3,0:5] float32[3,5]\n"
                                                           "%2 = part 2 [0:5] float32[5]\n"
                                                           "%3 = Gemm(%0, %1, %2) {beta=0.5} float32[4,5]\n"
                                                           "output 0 = %3, sum over k\n");
    EXPECT_LOWERING(build_lowering(&build, node, "k=1/2 n=1/2"), "%0 = part 0 [0:4,3:6] float32[4,3]\n"
                                                                 "%1 = part 1 [3:6,3:5] float32[3,2]\n"
                                                                 "%2 = part 2 [3:5] float32[2]\n"
                                                                 "%3 = Gemm(%0, %1, %2) {beta=0} float32[4,2]\n"
                                                                 "output 0 = %3, sum over k\n");
    EXPECT_LOWERING(build_lowering(&build, node, "n=1/2"), "%0 = part 0 [0:4,0:6] float32[4,6]\n"
                                                           "%1 = part 1 [0:6,3:5] float32[6,2]\n"
                                                           "%2 = part 2 [3:5] float32[2]\n"
                                                           "%3 = Gemm(%0, %1, %2) float32[4,2]\n"
                                                           "output 0 = %3\n");
}

/* Sums of integers are joined, and rounded then. */
Test(lowering_contraction, what_is_rounded_is_summed_before)
{
    start(13);
    build_input(&build, "a", SP_DTYPE_UINT8, "4,6");
    build_input(&build, "b", SP_DTYPE_INT8, "6,5");
    build_input(&build, "za", SP_DTYPE_UINT8, "");
    build_input(&build, "zb", SP_DTYPE_INT8, "5");
    build_input(&build, "zy", SP_DTYPE_UINT8, "");
    input("sa", "");
    input("sb", "5");
    input("sy", "");
    struct sp_node *node = build_node(&build, "QLinearMatMul", "a sa za b sb zb sy zy", "y");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "k=1/2"), "%0 = part 0 [0:4,3:6] uint8[4,3]\n"
                                                           "%1 = part 3 [3:6,0:5] int8[3,5]\n"
                                                           "%2 = part 2 [] uint8[]\n"
                                                           "%3 = part 5 [0:5] int8[5]\n"
                                                           "%4 = .MatMulInteger(%0, %1, %2, %3) int32[4,5]\n"
                                                           "%5 = all-reduce(%4), sum over k int32[4,5]\n"
                                                           "%6 = part 1 [] float32[]\n"
                                                           "%7 = part 4 [0:5] float32[5]\n"
                                                           "%8 = .Mul(%6, %7) float32[5]\n"
                                                           "%9 = part 6 [] float32[]\n"
                                                           "%10 = .Div(%8, %9) float32[5]\n"
                                                           "%11 = .Cast(%5) {to=1} float32[4,5]\n"
                                                           "%12 = .Mul(%11, %10) float32[4,5]\n"
                                                           "%13 = float32[] {1}\n"
                                                           "%14 = part 7 [] uint8[]\n"
                                                           "%15 = .QuantizeLinear(%12, %13, %14) uint8[4,5]\n"
                                                           "output 0 = %15\n");
}

Test(lowering_contraction, blocks_of_weights_go_with_their_rows)
{
    start(21);
    build_opset(&build, "com.microsoft", 1);
    input("a", "3,64");
    build_input(&build, "b", SP_DTYPE_UINT8, "8,4,8");
    input("scales", "8,4");
    build_input(&build, "zeros", SP_DTYPE_UINT8, "8,2");
    input("bias", "8");
    struct sp_node *node = build_node_in(&build, "com.microsoft", "MatMulNBits", "a b scales zeros - bias", "y");
    build_attr_int(&build, node, "K", 64);
    build_attr_int(&build, node, "N", 8);
    build_attr_int(&build, node, "bits", 4);
    build_attr_int(&build, node, "block_size", 16);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "k=1/2 n=0/2"),
                    "%0 = part 0 [0:3,32:64] float32[3,32]\n"
                    "%1 = part 1 [0:4,2:4,0:8] uint8[4,2,8]\n"
                    "%2 = part 2 [0:4,2:4] float32[4,2]\n"
                    "%3 = part 3 [0:4,1:2] uint8[4,1]\n"
                    "%4 = part 5 [0:4] float32[4]\n"
                    "%5 = filled float32[4] {0}\n"
                    "%6 = MatMulNBits(%0, %1, %2, %3, -, %5) {K=32, N=4} float32[3,4]\n"
                    "output 0 = %6, sum over k\n");
}

/* ---- recurrent layers ---------------------------------------------------------------------------------------------
 */

static struct sp_node *layer(const char *op_type, const char *w, const char *r)
{
    start(22);
    input("x", "5,2,6");
    input("w", w);
    input("r", r);
    struct sp_node *node = build_node(&build, op_type, "x w r", "y last");
    build_attr_int(&build, node, "hidden_size", 3);
    return node;
}

Test(lowering_contraction, each_device_has_a_direction)
{
    struct sp_node *node = layer("GRU", "2,9,6", "2,9,3");
    build_attr_string(&build, node, "direction", "bidirectional");
    build_attr_strings(&build, node, "activations", "HardSigmoid LeakyRelu Sigmoid Affine");
    build_attr_floats(&build, node, "activation_alpha", 3, (const double[]){0.25, 0.5, 2});
    build_attr_floats(&build, node, "activation_beta", 2, (const double[]){0.75, 1});
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d=0/2"),
                    "%0 = part 0 [0:5,0:2,0:6] float32[5,2,6]\n"
                    "%1 = part 1 [0:1,0:9,0:6] float32[1,9,6]\n"
                    "%2 = part 2 [0:1,0:9,0:3] float32[1,9,3]\n"
                    "%3, %4 = GRU(%0, %1, %2) {direction='forward', activations=['HardSigmoid','LeakyRelu'], "
                    "activation_alpha=[0.25,0.5], activation_beta=[0.75]} float32[5,1,2,3] float32[1,2,3]\n"
                    "output 0 = %3\n"
                    "output 1 = %4\n");
    EXPECT_LOWERING(build_lowering(&build, node, "d=1/2"),
                    "%0 = part 0 [0:5,0:2,0:6] float32[5,2,6]\n"
                    "%1 = part 1 [1:2,0:9,0:6] float32[1,9,6]\n"
                    "%2 = part 2 [1:2,0:9,0:3] float32[1,9,3]\n"
                    "%3, %4 = GRU(%0, %1, %2) {direction='reverse', activations=['Sigmoid','Affine'], "
                    "activation_alpha=[2], activation_beta=[1]} float32[5,1,2,3] float32[1,2,3]\n"
                    "output 0 = %3\n"
                    "output 1 = %4\n");
}

Test(lowering_contraction, inputs_are_reduced_before_the_first_step)
{
    struct sp_node *node = layer("RNN", "2,3,6", "2,3,3");
    build_attr_string(&build, node, "direction", "bidirectional");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "i=1/2"),
                    "%0 = part 0 [0:5,0:2,3:6] float32[5,2,3]\n"
                    "%1 = part 1 [0:2,0:3,3:6] float32[2,3,3]\n"
                    "%2 = part 2 [0:2,0:3,0:3] float32[2,3,3]\n"
                    "%3 = int64[2] {6,3}\n"
                    "%4 = .Reshape(%1, %3) float32[6,3]\n"
                    "%5 = .Transpose(%4) {perm=[1,0]} float32[3,6]\n"
                    "%6 = .MatMul(%0, %5) float32[5,2,6]\n"
                    "%7 = all-reduce(%6), sum over i float32[5,2,6]\n"
                    "%8 = int64[6] {0,1,2,3,4,5}\n"
                    "%9 = int64[1] {1}\n"
                    "%10 = .Unsqueeze(%8, %9) int64[6,1]\n"
                    "%11 = int64[1] {0}\n"
                    "%12 = .Unsqueeze(%8, %11) int64[1,6]\n"
                    "%13 = .Equal(%10, %12) bool[6,6]\n"
                    "%14 = .Cast(%13) {to=1} float32[6,6]\n"
                    "%15 = int64[3] {2,3,6}\n"
                    "%16 = .Reshape(%14, %15) float32[2,3,6]\n"
                    "%17, %18 = RNN(%7, %16, %2) float32[5,2,2,3] float32[2,2,3]\n"
                    "output 0 = %17\n"
                    "output 1 = %18\n");
}

Test(lowering_contraction, a_batch_needs_nothing)
{
    struct sp_node *node = layer("LSTM", "1,12,6", "1,12,3");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "b=1/2"), "%0 = part 0 [0:5,1:2,0:6] float32[5,1,6]\n"
                                                           "%1 = part 1 [0:1,0:12,0:6] float32[1,12,6]\n"
                                                           "%2 = part 2 [0:1,0:12,0:3] float32[1,12,3]\n"
                                                           "%3, %4 = LSTM(%0, %1, %2) float32[5,1,1,3] float32[1,1,3]\n"
                                                           "output 0 = %3\n"
                                                           "output 1 = %4\n");
}
