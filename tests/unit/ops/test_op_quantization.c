/* Quantisation. Expected values follow ONNX' Operators.md (QuantizeLinear, DequantizeLinear and their versions in
   Changelog.md); FLOPs are the conventions stated in core/ops/families/math/quantization.c. */
#include "expect_op.h"

TestSuite(op_quantization, .fini = stop);

/* x, scale s of float32 and zero point z of `zero` (UNDEFINED: none) through `op` to y. */
static struct sp_node *linear(const char *op, int64_t opset, const char *x, const char *scale, enum sp_dtype zero)
{
    start(opset);
    bool is_quantize = op[0] == 'Q';
    build_input(&build, "x", is_quantize ? SP_DTYPE_FLOAT : zero, x);
    build_input(&build, "s", SP_DTYPE_FLOAT, scale);
    if (is_quantize && zero == SP_DTYPE_UNDEFINED)
        return build_node(&build, op, "x s", "y");
    build_input(&build, "z", zero, scale);
    return build_node(&build, op, "x s z", "y");
}

Test(op_quantization, result_has_the_type_of_the_zero_point)
{
    linear("QuantizeLinear", 10, "2,3", "", SP_DTYPE_UNDEFINED);
    infer();
    EXPECT_TYPE("y", "uint8[2,3]");
    stop();
    linear("QuantizeLinear", 13, "2,3", "", SP_DTYPE_INT8);
    infer();
    EXPECT_TYPE("y", "int8[2,3]");
    stop();
    linear("QuantizeLinear", 25, "n,3", "", SP_DTYPE_INT2);
    infer();
    EXPECT_TYPE("y", "int2[n,3]");
    stop();
    linear("QuantizeLinear", 28, "n,3", "", SP_DTYPE_FLOAT6E3M2);
    infer();
    EXPECT_TYPE("y", "float6e3m2[n,3]");
}

Test(op_quantization, output_dtype_says_it_where_no_zero_point_does)
{
    struct sp_node *node = linear("QuantizeLinear", 21, "2,3", "", SP_DTYPE_UNDEFINED);
    build_attr_int(&build, node, "output_dtype", SP_DTYPE_INT16);
    infer();
    EXPECT_TYPE("y", "int16[2,3]");
    stop();
    node = linear("QuantizeLinear", 19, "2,3", "", SP_DTYPE_UNDEFINED);
    build_attr_int(&build, node, "output_dtype", SP_DTYPE_INT16); /* no attribute of version 19 */
    infer();
    EXPECT_TYPE("y", "uint8[2,3]");
    stop();
    node = linear("QuantizeLinear", 21, "2,3", "", SP_DTYPE_INT8);
    build_attr_int(&build, node, "output_dtype", SP_DTYPE_INT16);
    refused("WRONG_DATA_TYPE");
    node = linear("QuantizeLinear", 21, "2,3", "", SP_DTYPE_UNDEFINED);
    build_attr_int(&build, node, "output_dtype", 1000);
    refused("UNKNOWN_DATA_TYPE");
    start(21);
}

Test(op_quantization, dequantized_type_changes_with_the_version)
{
    static const struct {
        int64_t opset;
        int asked;
        const char *type;
    } cases[] = {{10, 0, "float32[6]"}, {13, 0, "float32[6]"},
                 {19, 0, "float16[6]"}, {21, 0, "float16[6]"},
                 {23, 0, "float16[6]"}, {23, SP_DTYPE_BFLOAT16, "bfloat16[6]"},
                 {25, 0, "float16[6]"}, {25, SP_DTYPE_FLOAT, "float32[6]"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start(cases[i].opset);
        build_input(&build, "x", SP_DTYPE_INT8, "6");
        build_input(&build, "s", SP_DTYPE_FLOAT16, "");
        struct sp_node *node = build_node(&build, "DequantizeLinear", "x s", "y");
        if (cases[i].asked != 0)
            build_attr_int(&build, node, "output_dtype", cases[i].asked);
        infer();
        EXPECT_TYPE("y", cases[i].type);
        stop();
    }
    start(13);
}

Test(op_quantization, one_scale_leaves_all_axes_parallel)
{
    struct sp_node *node = linear("QuantizeLinear", 13, "2,3,4", "", SP_DTYPE_INT8);
    infer();
    EXPECT_RULE(node, "[d0,d1,d2] [] [] -> [d0,d1,d2]");
    EXPECT_FLOPS(node, 24);
    stop();
    node = linear("DequantizeLinear", 13, "7", "1", SP_DTYPE_INT8); /* the default axis 1 does not matter */
    infer();
    EXPECT_RULE(node, "[d0] [_] [_] -> [d0]");
}

Test(op_quantization, scales_along_an_axis_are_split_with_it)
{
    struct sp_node *node = linear("DequantizeLinear", 13, "1,3,3,2", "3", SP_DTYPE_UINT8);
    infer();
    EXPECT_RULE(node, "[d0,d1,d2,d3] [d1] [d1] -> [d0,d1,d2,d3]");
    stop();
    node = linear("QuantizeLinear", 19, "4,8", "8", SP_DTYPE_UINT8);
    build_attr_int(&build, node, "axis", -1);
    infer();
    EXPECT_RULE(node, "[d0,d1] [d1] [d1] -> [d0,d1]");
}

Test(op_quantization, blocks_carry_to_the_axis_of_the_scale)
{
    /* the shapes of the specification's blocked cases: (3, 4) in blocks of 2 along axis 1 */
    struct sp_node *node = linear("QuantizeLinear", 21, "3,4", "3,2", SP_DTYPE_INT16);
    build_attr_int(&build, node, "block_size", 2);
    infer();
    EXPECT_TYPE("y", "int16[3,4]");
    EXPECT_RULE(node, "[d0,b*w] [d0,b] [d0,b] -> [d0,b*w]  w: replicate");
    EXPECT_FLOPS(node, 12);
    stop();
    node = linear("DequantizeLinear", 23, "4096,n", "32,n", SP_DTYPE_INT4); /* a weight in blocks of 128 along k */
    build_attr_int(&build, node, "axis", -2);
    build_attr_int(&build, node, "block_size", 128);
    infer();
    EXPECT_RULE(node, "[b*w,d1] [b,d1] [b,d1] -> [b*w,d1]  w: replicate");
}

Test(op_quantization, a_short_last_block_keeps_the_axis_whole)
{
    struct sp_node *node = linear("QuantizeLinear", 21, "2,5", "2,3", SP_DTYPE_INT8);
    build_attr_int(&build, node, "block_size", 2);
    infer();
    EXPECT_RULE(node, "[d0,d1] [d0,b] [d0,b] -> [d0,d1]  d1: replicate; b: replicate");
    EXPECT_FLOPS(node, 10);
    stop();
    node = linear("QuantizeLinear", 21, "2,5", "2,1", SP_DTYPE_INT8); /* one block: nothing to keep together */
    build_attr_int(&build, node, "block_size", 8);
    infer();
    EXPECT_RULE(node, "[d0,d1] [d0,_] [d0,_] -> [d0,d1]");
}

Test(op_quantization, blocks_of_a_symbolic_axis)
{
    struct sp_node *node = linear("QuantizeLinear", 21, "2,n", "2,m", SP_DTYPE_INT8);
    build_attr_int(&build, node, "block_size", 16);
    infer();
    EXPECT_RULE(node, "[d0,b*w] [d0,b] [d0,b] -> [d0,b*w]  w: replicate");
}

static void refused_linear(int64_t opset, const char *x, const char *scale, int64_t axis, int64_t block,
                           const char *code)
{
    struct sp_node *node = linear("QuantizeLinear", opset, x, scale, SP_DTYPE_INT8);
    build_attr_int(&build, node, "axis", axis);
    if (block != 0)
        build_attr_int(&build, node, "block_size", block);
    refused(code);
}

Test(op_quantization, refuses_scales_that_do_not_fit)
{
    refused_linear(10, "2,3", "3", 1, 0, "OPERAND_SHAPE"); /* one scale only */
    refused_linear(13, "2,3", "2", 1, 0, "SHAPES_DISAGREE");
    refused_linear(13, "2,3", "3", 2, 0, "AXIS_OUT_OF_RANGE");
    refused_linear(13, "2,3", "2,3", 1, 0, "OPERAND_SHAPE");
    refused_linear(21, "2,6", "2,2", 1, 2, "SHAPES_DISAGREE"); /* 6 in blocks of 2 are 3 */
    refused_linear(21, "2,6", "1,3", 1, 2, "SHAPES_DISAGREE");
    refused_linear(21, "2,6", "2,3", 2, 2, "AXIS_OUT_OF_RANGE");
    refused_linear(21, "2,6", "2,3", 1, -2, "ATTRIBUTE_VALUE");
    start(13);
    input("x", "2,3");
    input("s", "3");
    build_input(&build, "z", SP_DTYPE_INT8, "2");
    build_node(&build, "QuantizeLinear", "x s z", "y");
    refused("SHAPES_DISAGREE");
    start(13);
}

Test(op_quantization, dynamic_scale_comes_from_all_elements)
{
    start(11);
    input("x", "n,4");
    input("v", "2,3");
    struct sp_node *node = build_node(&build, "DynamicQuantizeLinear", "x", "y s z");
    struct sp_node *fixed = build_node(&build, "DynamicQuantizeLinear", "v", "w t u");
    infer();
    EXPECT_TYPE("y", "uint8[n,4]");
    EXPECT_TYPE("s", "float32[]");
    EXPECT_TYPE("z", "uint8[]");
    EXPECT_RULE(node, "[d0,d1] -> [d0,d1] [] []  d0: max reduction; d1: max reduction");
    EXPECT_FLOPS(fixed, 18);
}
