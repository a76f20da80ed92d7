/* Trilu, EyeLike, Det. Values follow the examples in ONNX' Operators.md. */
#include "expect_op.h"

TestSuite(op_matrix, .fini = stop);

/* Elements 1.. in a shape of two axes. */
static void counted(const char *name, int64_t rows, int64_t columns)
{
    int64_t values[32];
    for (int64_t i = 0; i < rows * columns; i++)
        values[i] = i + 1;
    build_ints(&build, "flat", (int)(rows * columns), values);
    build_ints(&build, "shape", 2, (int64_t[]){rows, columns});
    build_node(&build, "Reshape", "flat shape", name);
}

Test(op_matrix, triangles_keep_one_side_of_a_diagonal)
{
    start(14);
    counted("x", 3, 4);
    build_ints(&build, "minus", -1, (int64_t[]){-1});
    build_ints(&build, "two", -1, (int64_t[]){2});
    input("scores", "b,h,s,t");
    struct sp_node *node = build_node(&build, "Trilu", "scores", "kept");
    build_node(&build, "Trilu", "x", "upper");
    build_node(&build, "Trilu", "x two", "far");
    build_attr_int(&build, build_node(&build, "Trilu", "x minus", "lower"), "upper", 0);
    infer();
    EXPECT_TYPE("kept", "float32[b,h,s,t]");
    EXPECT_RULE(node, "[d0,d1,d2,d3] -> [d0,d1,d2,d3]");
    EXPECT_DATA("upper", "1,2,3,4,0,6,7,8,0,0,11,12");
    EXPECT_DATA("far", "0,0,3,4,0,0,0,8,0,0,0,0");
    EXPECT_DATA("lower", "0,0,0,0,5,0,0,0,9,10,0,0");
    stop();
    start(14);
    input("x", "4");
    build_node(&build, "Trilu", "x", "y");
    refused("OPERAND_SHAPE");
    start(14);
}

Test(op_matrix, eyes_have_the_shape_of_their_input)
{
    start(9);
    build_input(&build, "x", SP_DTYPE_INT32, "2,3");
    struct sp_node *node = build_node(&build, "EyeLike", "x", "y");
    struct sp_node *up = build_node(&build, "EyeLike", "x", "z");
    build_attr_int(&build, up, "k", 1);
    build_attr_int(&build, up, "dtype", SP_DTYPE_DOUBLE);
    infer();
    EXPECT_TYPE("y", "int32[2,3]");
    EXPECT_DATA("y", "1,0,0,0,1,0");
    EXPECT_TYPE("z", "float64[2,3]");
    EXPECT_DATA("z", "0,1,0,0,0,1");
    EXPECT_RULE(node, "[i0,i1] -> [d0,d1]");
    stop();
    start(9);
    input("x", "2");
    build_node(&build, "EyeLike", "x", "y");
    refused("OPERAND_SHAPE");
    start(9);
}

Test(op_matrix, determinants_drop_the_matrix)
{
    start(11);
    input("x", "b,3,6,6");
    struct sp_node *node = build_node(&build, "Det", "x", "y");
    infer();
    EXPECT_TYPE("y", "float32[b,3]");
    EXPECT_RULE(node, "[b0,b1,m,n] -> [b0,b1]  m: replicate; n: replicate");
    EXPECT_FLOPS(node, 2.0 / 3.0 * 3 * 216);
    stop();
    start(11);
    input("x", "2,3");
    build_node(&build, "Det", "x", "y");
    refused("SHAPES_DISAGREE");
    start(11);
}
