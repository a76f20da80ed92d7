/*
 * Operators that are another one on operands that lie elsewhere (ops/table/like.h): what devices run of them. Boxes and
 * padding are those of Conv in test_lowering_windows.c, with the axes in the order of channels last.
 */
#include "build_lowering.h"
#include "expect_op.h"

TestSuite(lowering_like, .fini = stop);

static struct sp_node *other(const char *domain, const char *op, const char *inputs)
{
    build_opset(&build, domain, 11);
    return build_node_in(&build, domain, op, inputs, "y");
}

Test(lowering_like, channels_stay_last_where_the_node_itself_runs)
{
    start(21);
    input("x", "1,9,7,2");
    input("w", "4,2,3,3");
    struct sp_node *node = other("com.ms.internal.nhwc", "Conv", "x w");
    build_attr_ints(&build, node, "pads", 4, (int64_t[]){1, 1, 1, 1});
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){2, 1});
    infer();
    EXPECT_TYPE("y", "float32[1,5,7,4]");
    EXPECT_LOWERING(
        build_lowering(&build, node, "h=0/2"),
        "%0 = box 0 [0:1,0:6,0:7,0:2] float32[1,6,7,2]\n"
        "%2 = part 1 [0:4,0:2,0:3,0:3] float32[4,2,3,3]\n"
        "%3 = Conv(%0, %2) {kernel_shape=[3,3], strides=[2,1], pads=[1,1,0,1], auto_pad=none} float32[1,3,7,4]\n"
        "output 0 = %3\n");
}

Test(lowering_like, what_is_computed_between_sees_channels_first)
{
    start(21);
    input("x", "2,4,6,3");
    struct sp_node *node = other("com.ms.internal.nhwc", "GlobalAveragePool", "x");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "h=1/2"), "%0 = part 0 [0:2,2:4,0:6,0:3] float32[2,2,6,3]\n"
                                                           "%1 = GlobalAveragePool(%0) float32[2,1,1,3]\n"
                                                           "%3 = float32[] {0.5}\n"
                                                           "%2 = .Transpose(%1) {perm=[0,3,1,2]} float32[2,3,1,1]\n"
                                                           "%4 = .Mul(%2, %3) float32[2,3,1,1]\n"
                                                           "%5 = .Transpose(%4) {perm=[0,2,3,1]} float32[2,1,1,3]\n"
                                                           "output 0 = %5, sum over h\n");
}

Test(lowering_like, scales_come_with_what_the_other_operator_reads)
{
    start(21);
    build_input(&build, "a", SP_DTYPE_UINT8, "4,6");
    build_input(&build, "b", SP_DTYPE_UINT8, "6");
    build_input(&build, "z", SP_DTYPE_UINT8, "");
    input("s", "");
    struct sp_node *node = other("com.microsoft", "QLinearAdd", "a s z b s z s z");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d1=1/2"),
                    "%0 = part 0 [0:4,3:6] uint8[4,3]\n"
                    "%1 = part 1 [] float32[]\n"
                    "%2 = part 2 [] uint8[]\n"
                    "%3 = part 3 [3:6] uint8[3]\n"
                    "%4 = part 4 [] float32[]\n"
                    "%5 = part 5 [] uint8[]\n"
                    "%6 = part 6 [] float32[]\n"
                    "%7 = part 7 [] uint8[]\n"
                    "%8 = QLinearAdd(%0, %1, %2, %3, %4, %5, %6, %7) uint8[4,3]\n"
                    "output 0 = %8\n");
}

Test(lowering_like, a_dynamic_scale_is_that_of_all_devices)
{
    start(21);
    input("a", "4,8");
    build_input(&build, "b", SP_DTYPE_INT8, "8,6");
    input("s", "6");
    input("c", "6");
    struct sp_node *node = other("com.microsoft", "DynamicQuantizeMatMul", "a b s - c");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "k=1/2"),
                    "%0 = part 0 [0:4,4:8] float32[4,4]\n"
                    "%1 = int64[2] {0,1}\n"
                    "%2 = .ReduceMin(%0, %1) {keepdims=0} float32[]\n"
                    "%3 = all-reduce(%2), min over k float32[]\n"
                    "%4 = int64[2] {0,1}\n"
                    "%5 = .ReduceMax(%0, %4) {keepdims=0} float32[]\n"
                    "%6 = all-reduce(%5), max over k float32[]\n"
                    "%7 = int64[1] {0}\n"
                    "%8 = .Unsqueeze(%3, %7) float32[1]\n"
                    "%9 = int64[1] {0}\n"
                    "%10 = .Unsqueeze(%6, %9) float32[1]\n"
                    "%11 = .Concat(%8, %10) {axis=0} float32[2]\n"
                    "%12, %13, %14 = .DynamicQuantizeLinear(%11) uint8 float32 uint8\n"
                    "%15 = .QuantizeLinear(%0, %13, %14) uint8\n"
                    "%16 = part 1 [4:8,0:6] int8[4,6]\n"
                    "%17 = part 2 [0:6] float32[6]\n"
                    "%18 = part 4 [0:6] float32[6]\n"
                    "%19 = filled float32[6] {0}\n"
                    "%20 = com.microsoft.MatMulIntegerToFloat(%15, %16, %13, %17, %14, -, %19) float32[4,6]\n"
                    "output 0 = %20, sum over k\n");
}

Test(lowering_like, operands_that_are_missing_are_refused)
{
    start(21);
    build_input(&build, "a", SP_DTYPE_UINT8, "4,6");
    input("s", "");
    (void)other("com.microsoft", "QLinearAdd", "a s");
    refused("MISSING_INPUT");
    start(21);
}
