/* Elementwise operators of several tensors. Expected values follow ONNX' Broadcasting.md, Operators.md and, for opsets
   before 7, Changelog.md. */
#include "expect_op.h"

TestSuite(op_elementwise, .fini = stop);

/* The known elements of `op_type` over two shape vectors. */
static const char *of_shapes(const char *op_type, const char *a, const char *b)
{
    start(16);
    build_shape_vector(&build, "a", a);
    build_shape_vector(&build, "b", b);
    build_node(&build, op_type, "a b", "y");
    infer();
    const char *text = build_data(&build, "y");
    static char copy[256];
    (void)snprintf(copy, sizeof(copy), "%s", text);
    stop();
    return copy;
}

#define EXPECT_ELEMENTS(op_type, a, b, text)                                                                           \
    cr_expect_str_eq(of_shapes(op_type, a, b), text, "%s", of_shapes(op_type, a, b))

Test(op_elementwise, axes_broadcast_from_the_right)
{
    start(16);
    input("a", "8,1,6,n");
    input("b", "7,1,n");
    struct sp_node *node = build_node(&build, "Add", "a b", "y");
    infer();
    EXPECT_TYPE("y", "float32[8,7,6,n]");
    EXPECT_RULE(node, "[d0,_,d2,d3] [d1,_,d3] -> [d0,d1,d2,d3]");
}

Test(op_elementwise, a_scalar_has_no_factors)
{
    start(16);
    input("a", "2,3");
    input("b", "");
    struct sp_node *node = build_node(&build, "Mul", "a b", "y");
    infer();
    EXPECT_RULE(node, "[d0,d1] [] -> [d0,d1]");
    EXPECT_FLOPS(node, 6);
}

Test(op_elementwise, shapes_that_do_not_broadcast_are_refused)
{
    start(16);
    input("a", "2,3");
    input("b", "4");
    build_node(&build, "Sub", "a b", "y");
    refused("CANNOT_BROADCAST");
    start(16);
    input("a", "2,3");
    build_input(&build, "b", SP_DTYPE_INT64, "3");
    build_node(&build, "Sub", "a b", "y");
    refused("TYPES_DISAGREE");
}

Test(op_elementwise, since_12_an_exponent_may_have_another_type)
{
    start(13);
    input("a", "2,3");
    build_ints(&build, "b", -1, (int64_t[]){2});
    build_node(&build, "Pow", "a b", "y");
    infer();
    EXPECT_TYPE("y", "float32[2,3]");
}

Test(op_elementwise, comparisons_give_bool)
{
    start(16);
    input("a", "2,1");
    input("b", "3");
    build_node(&build, "GreaterOrEqual", "a b", "c");
    build_node(&build, "Less", "a b", "d");
    build_node(&build, "And", "c d", "e");
    input("x", "2,3");
    struct sp_node *where = build_node(&build, "Where", "e x b", "y");
    infer();
    EXPECT_TYPE("e", "bool[2,3]");
    EXPECT_TYPE("y", "float32[2,3]");
    EXPECT_RULE(where, "[d0,d1] [d0,d1] [d1] -> [d0,d1]");
}

Test(op_elementwise, sums_of_many)
{
    start(13);
    input("a", "2,3");
    input("b", "3");
    input("c", "2,1");
    struct sp_node *sum = build_node(&build, "Sum", "a b c", "y");
    struct sp_node *mean = build_node(&build, "Mean", "a b c", "z");
    struct sp_node *one = build_node(&build, "Max", "a", "m");
    infer();
    EXPECT_TYPE("y", "float32[2,3]");
    EXPECT_RULE(sum, "[d0,d1] [d1] [d0,_] -> [d0,d1]");
    EXPECT_FLOPS(sum, 12);
    EXPECT_FLOPS(mean, 18);
    EXPECT_FLOPS(one, 0);
}

Test(op_elementwise, before_7_the_axis_is_an_attribute)
{
    start(6);
    input("a", "2,3,4,5");
    input("b", "3,4");
    struct sp_node *node = build_node(&build, "Add", "a b", "y");
    build_attr_int(&build, node, "broadcast", 1);
    build_attr_int(&build, node, "axis", 1);
    infer();
    EXPECT_TYPE("y", "float32[2,3,4,5]");
    EXPECT_RULE(node, "[d0,d1,d2,d3] [d1,d2] -> [d0,d1,d2,d3]");
    stop();

    start(6);
    input("a", "2,3,4,5");
    input("b", "4,5");
    node = build_node(&build, "Mul", "a b", "y");
    build_attr_int(&build, node, "broadcast", 1);
    infer();
    EXPECT_RULE(node, "[d0,d1,d2,d3] [d2,d3] -> [d0,d1,d2,d3]");
    stop();

    start(6);
    input("a", "2,3,4,5");
    input("b", "3,4");
    node = build_node(&build, "Add", "a b", "y");
    build_attr_int(&build, node, "broadcast", 1);
    build_attr_int(&build, node, "axis", 3);
    refused("AXIS_OUT_OF_RANGE");
}

Test(op_elementwise, a_slope_does_not_widen)
{
    start(9);
    input("x", "2,3,4");
    input("s", "3,1");
    struct sp_node *node = build_node(&build, "PRelu", "x s", "y");
    infer();
    EXPECT_RULE(node, "[d0,d1,d2] [d1,_] -> [d0,d1,d2]");
    stop();
    start(9);
    input("x", "2,3,1");
    input("s", "5");
    build_node(&build, "PRelu", "x s", "y");
    refused("CANNOT_BROADCAST");
    start(6); /* one slope for each channel */
    input("x", "2,3,4");
    input("s", "3");
    node = build_node(&build, "PRelu", "x s", "y");
    infer();
    EXPECT_RULE(node, "[d0,d1,d2] [d1] -> [d0,d1,d2]");
}

Test(op_elementwise, arithmetic_of_shapes)
{
    EXPECT_ELEMENTS("Add", "2,n,?", "3,1,1", "5,n + 1,?");
    EXPECT_ELEMENTS("Sub", "2,n", "3,n", "-1,0");
    EXPECT_ELEMENTS("Mul", "2,n", "3,4", "6,4*n");
    EXPECT_ELEMENTS("Mul", "n,2", "3", "3*n,6");
    EXPECT_ELEMENTS("Div", "7,-7,6", "2", "3,-3,3"); /* towards zero */
    EXPECT_ELEMENTS("Div", "7", "0", "?");
    EXPECT_ELEMENTS("Mod", "7,-7", "3", "1,2"); /* the sign of the divisor */
    EXPECT_ELEMENTS("Min", "7,3", "4", "4,3");
    EXPECT_ELEMENTS("Max", "7,3", "4", "7,4");
    EXPECT_ELEMENTS("Pow", "2,3,n", "10,0,2", "1024,1,n*n");
    EXPECT_ELEMENTS("Pow", "10", "20", "?"); /* more than an int64 holds */
}

Test(op_elementwise, comparison_of_shapes)
{
    EXPECT_ELEMENTS("Equal", "2,n,n,n,?", "2,n,m,-1,1", "1,1,?,0,?");
    EXPECT_ELEMENTS("Greater", "2,n", "1,-1", "1,1");
    EXPECT_ELEMENTS("Greater", "n,n", "n,0", "0,?");
    EXPECT_ELEMENTS("LessOrEqual", "2,0,3", "2,n,2", "1,1,0");
    EXPECT_ELEMENTS("Less", "2,3", "3", "1,0");
}

Test(op_elementwise, where_takes_what_is_decided)
{
    start(16);
    build_shape_vector(&build, "s", "-1,n,4");
    build_ints(&build, "minus_one", -1, (int64_t[]){-1});
    build_shape_vector(&build, "x", "batch,seq,9");
    build_node(&build, "Equal", "s minus_one", "c");
    build_node(&build, "Where", "c x s", "y");
    infer();
    EXPECT_DATA("y", "batch,n,4");
}

Test(op_elementwise, fmod_has_the_sign_of_the_dividend)
{
    start(13);
    build_ints(&build, "a", 2, (int64_t[]){-7, 7});
    build_ints(&build, "b", 2, (int64_t[]){3, -3});
    struct sp_node *node = build_node(&build, "Mod", "a b", "y");
    build_attr_int(&build, node, "fmod", 1);
    build_node(&build, "Mod", "a b", "z");
    infer();
    EXPECT_DATA("y", "-1,1");
    EXPECT_DATA("z", "2,-2");
}

Test(op_elementwise, narrow_integers_do_not_wrap_into_wrong_numbers)
{
    start(16);
    struct sp_value *a = build_shape_vector(&build, "a", "2147483647,5");
    a->type.dtype = SP_DTYPE_INT32;
    build_node(&build, "Add", "a a", "y");
    infer();
    EXPECT_DATA("y", "?,10");
}

Test(op_elementwise, reals_are_rounded_to_float32)
{
    start(16);
    build_floats(&build, "a", -1, (float[]){16777216});
    build_floats(&build, "b", -1, (float[]){1});
    build_node(&build, "Add", "a b", "y");
    infer();
    cr_expect_eq(build_value(&build, "y")->data->reals[0], 16777216.0);
}

/* Exports of opset 6 compute shapes with broadcast = 1; only an axis in front aligns elements otherwise. */
Test(op_elementwise, elements_before_numpy_broadcasting)
{
    start(6);
    build_shape_vector(&build, "s", "n,3");
    build_ints(&build, "two", -1, (int64_t[]){2});
    build_ints(&build, "flat", 4, (int64_t[]){1, 2, 3, 4});
    build_ints(&build, "square", 2, (int64_t[]){2, 2});
    build_node(&build, "Reshape", "flat square", "x");
    build_ints(&build, "v", 2, (int64_t[]){10, 20});
    build_attr_int(&build, build_node(&build, "Mul", "s two", "a"), "broadcast", 1);
    build_attr_int(&build, build_node(&build, "Add", "x v", "rows"), "broadcast", 1);
    struct sp_node *front = build_node(&build, "Add", "x v", "columns");
    build_attr_int(&build, front, "broadcast", 1);
    build_attr_int(&build, front, "axis", 0);
    infer();
    EXPECT_DATA("a", "2*n,6");
    EXPECT_DATA("rows", "11,22,13,24");
    EXPECT_DATA("columns", "none");
}

Test(op_elementwise, bits_of_known_elements)
{
    start(18);
    build_ints(&build, "a", 2, (int64_t[]){12, 10});
    build_ints(&build, "b", 2, (int64_t[]){10, 3});
    build_node(&build, "BitwiseAnd", "a b", "x");
    build_node(&build, "BitwiseOr", "a b", "y");
    build_node(&build, "BitwiseXor", "a b", "z");
    build_node(&build, "BitShift", "a b", "left");
    build_attr_string(&build, build_node(&build, "BitShift", "a b", "right"), "direction", "RIGHT");
    infer();
    EXPECT_DATA("x", "8,2");
    EXPECT_DATA("y", "14,11");
    EXPECT_DATA("z", "6,9");
    EXPECT_DATA("left", "12288,80");
    EXPECT_DATA("right", "0,1");
}
