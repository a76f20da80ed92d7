/* Pools. Shapes follow the formulas of ONNX' Operators.md, also for the last window of ceil_mode. */
#include <string.h>

#include "expect_op.h"

TestSuite(op_pooling, .fini = stop);

static struct sp_node *pool(const char *op_type, const char *x, int64_t kernel, int64_t stride, int64_t pad,
                            int64_t ceil_mode)
{
    start(16);
    input("x", x);
    struct sp_node *node = build_node(&build, op_type, "x", "y");
    build_attr_ints(&build, node, "kernel_shape", 2, (int64_t[]){kernel, kernel});
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){stride, stride});
    build_attr_ints(&build, node, "pads", 4, (int64_t[]){pad, pad, pad, pad});
    build_attr_int(&build, node, "ceil_mode", ceil_mode);
    return node;
}

Test(op_pooling, windows_overlap)
{
    struct sp_node *node = pool("MaxPool", "n,64,112,112", 3, 2, 1, 0);
    infer();
    EXPECT_TYPE("y", "float32[n,64,56,56]");
    EXPECT_RULE(node, "[n,c,h,w] -> [n,c,h,w]  h: halo 1+0; kh: replicate; w: halo 1+0; kw: replicate");
}

Test(op_pooling, windows_tile)
{
    struct sp_node *node = pool("MaxPool", "2,3,8,8", 2, 2, 0, 0);
    infer();
    EXPECT_TYPE("y", "float32[2,3,4,4]");
    EXPECT_RULE(node, "[n,c,h*kh,w*kw] -> [n,c,h,w]  kh: max reduction; kw: max reduction");
    EXPECT_FLOPS(node, 2.0 * 3 * 16 * 4);
    stop();
    node = pool("AveragePool", "2,3,8,8", 2, 2, 0, 0);
    infer();
    EXPECT_RULE(node, "[n,c,h*kh,w*kw] -> [n,c,h,w]  kh: sum reduction; kw: sum reduction");
}

Test(op_pooling, ceil_mode_adds_a_window_that_starts_in_the_data)
{
    (void)pool("MaxPool", "1,1,6,6", 3, 2, 0, 1);
    infer();
    EXPECT_TYPE("y", "float32[1,1,3,3]");
    stop();
    (void)pool("MaxPool", "1,1,6,6", 3, 2, 0, 0);
    infer();
    EXPECT_TYPE("y", "float32[1,1,2,2]");
    stop();
    /* ceil((2 + 2 - 1) / 2) + 1 = 3 windows, of which the last would start at 4, behind the data. */
    (void)pool("AveragePool", "1,1,2,2", 1, 2, 1, 1);
    infer();
    EXPECT_TYPE("y", "float32[1,1,2,2]");
    stop();
    (void)pool("MaxPool", "1,1,h,6", 3, 2, 0, 1);
    infer();
    EXPECT_TYPE("y", "float32[1,1,min(ceildiv(h + 1, 2) - 1, ceildiv(h, 2)),3]");
}

Test(op_pooling, indices_have_the_shape_of_the_values)
{
    start(12);
    input("x", "2,3,8");
    struct sp_node *node = build_node(&build, "MaxPool", "x", "y i");
    build_attr_ints(&build, node, "kernel_shape", 1, (int64_t[]){3});
    infer();
    EXPECT_TYPE("y", "float32[2,3,6]");
    EXPECT_TYPE("i", "int64[2,3,6]");
    EXPECT_RULE(node, "[n,c,w] -> [n,c,w] [n,c,w]@n*c*w  w: halo 0+2; kw: replicate");
}

Test(op_pooling, global_pools_reduce)
{
    start(16);
    input("x", "2,3,7,7");
    struct sp_node *mean = build_node(&build, "GlobalAveragePool", "x", "y");
    struct sp_node *max = build_node(&build, "GlobalMaxPool", "x", "z");
    infer();
    EXPECT_TYPE("y", "float32[2,3,1,1]");
    EXPECT_RULE(mean, "[n,c,h,w] -> [n,c,_,_]  h: sum reduction; w: sum reduction");
    EXPECT_RULE(max, "[n,c,h,w] -> [n,c,_,_]  h: max reduction; w: max reduction");
    EXPECT_FLOPS(mean, 2.0 * 3 * 49);
}

Test(op_pooling, unpooling_restores_the_extent)
{
    start(11);
    input("x", "1,1,2,h");
    build_input(&build, "i", SP_DTYPE_INT64, "1,1,2,h");
    struct sp_node *node = build_node(&build, "MaxUnpool", "x i", "y");
    build_attr_ints(&build, node, "kernel_shape", 2, (int64_t[]){2, 2});
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){2, 2});
    infer();
    EXPECT_TYPE("y", "float32[1,1,4,2*h]");
    EXPECT_RULE(node, "[i0,i1,i2,i3] [i0,i1,i2,i3]@o0*o1*o2*o3 -> [o0,o1,o2,o3]  i0: sum reduction; i1: sum reduction; "
                      "i2: sum reduction; i3: sum reduction");
}

Test(op_pooling, malformed_pools_are_refused)
{
    (void)pool("MaxPool", "1,1,6,6", 0, 1, 0, 0);
    refused("ATTRIBUTE_VALUE");
    (void)pool("MaxPool", "1,1,6,6", 3, 0, 0, 0);
    refused("ATTRIBUTE_VALUE");
    (void)pool("MaxPool", "1,1,6,6", 7, 1, 0, 0);
    refused("WINDOW_TOO_LARGE");
    (void)pool("MaxPool", "1,1,6", 3, 1, 0, 0);
    refused("ATTRIBUTE_RANK");
    (void)pool("MaxPool", "1,6", 3, 1, 0, 0);
    refused("OPERAND_SHAPE");
    start(16);
    input("x", "1,1,6");
    build_node(&build, "AveragePool", "x", "y");
    refused("ATTRIBUTE_MISSING");
    start(16);
}

/* MaxPool of ONNX' Operators.md: storage_order 1 counts the spatial axes column by column. */
Test(op_pooling, indices_count_through_the_input)
{
    start(12);
    input("x", "1,1,5,4");
    struct sp_node *node = build_node(&build, "MaxPool", "x", "y i");
    build_attr_ints(&build, node, "kernel_shape", 2, (int64_t[]){3, 2});
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){1, 2});
    build_attr_int(&build, node, "storage_order", 1);
    infer();
    EXPECT_RULE(node, "[n,c,h,w*kw] -> [n,c,h,w] [n,c,h,w]@n*c*w*kw*h  h: halo 0+2; kh: replicate; kw: max reduction");
}
