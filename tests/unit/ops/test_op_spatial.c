/* DepthToSpace, SpaceToDepth, Col2Im. Shapes and values are those of the examples in ONNX' Operators.md. */
#include "expect_op.h"

TestSuite(op_spatial, .fini = stop);

static struct sp_node *blocks(const char *type, const char *dims, int64_t size)
{
    start(13);
    input("x", dims);
    struct sp_node *node = build_node(&build, type, "x", "y");
    build_attr_int(&build, node, "blocksize", size);
    return node;
}

Test(op_spatial, depth_becomes_space_in_two_orders)
{
    struct sp_node *node = blocks("DepthToSpace", "1,8,2,3", 2);
    infer();
    EXPECT_TYPE("y", "float32[1,2,4,6]");
    EXPECT_RULE(node, "[n,b1*b2*c,h,w] -> [n,c,h*b1,w*b2]");
    EXPECT_FLOPS(node, 0.0);
    stop();
    node = blocks("DepthToSpace", "n,8,h,3", 2);
    build_attr_string(&build, node, "mode", "CRD");
    infer();
    EXPECT_TYPE("y", "float32[n,2,2*h,6]");
    EXPECT_RULE(node, "[n,c*b1*b2,h,w] -> [n,c,h*b1,w*b2]");
}

Test(op_spatial, space_becomes_depth)
{
    struct sp_node *node = blocks("SpaceToDepth", "1,1,4,6", 2);
    infer();
    EXPECT_TYPE("y", "float32[1,4,2,3]");
    EXPECT_RULE(node, "[n,c,h*b1,w*b2] -> [n,b1*b2*c,h,w]");
    stop();
    node = blocks("SpaceToDepth", "n,3,4,6", 2);
    build_attr_string(&build, node, "mode", "CRD"); /* since operator set 28 */
    infer();
    EXPECT_TYPE("y", "float32[n,12,2,3]");
    EXPECT_RULE(node, "[n,c,h*b1,w*b2] -> [n,c*b1*b2,h,w]");
}

Test(op_spatial, blocks_that_do_not_divide_are_refused)
{
    (void)blocks("DepthToSpace", "1,6,2,3", 2);
    refused("OPERAND_SHAPE");
    (void)blocks("SpaceToDepth", "1,1,4,5", 2);
    refused("OPERAND_SHAPE");
    (void)blocks("SpaceToDepth", "1,1,4", 2);
    refused("OPERAND_SHAPE");
    (void)blocks("DepthToSpace", "1,8,2,3", 0);
    refused("ATTRIBUTE_VALUE");
    start(13);
}

static struct sp_node *columns(const char *dims, int64_t image, int64_t high, int64_t wide)
{
    start(18);
    input("x", dims);
    build_ints(&build, "image", 2, (int64_t[]){image, image});
    build_ints(&build, "block", 2, (int64_t[]){high, wide});
    return build_node(&build, "Col2Im", "x image block", "y");
}

Test(op_spatial, columns_are_added_into_the_image)
{
    struct sp_node *node = columns("1,5,5", 5, 1, 5);
    infer();
    EXPECT_TYPE("y", "float32[1,1,5,5]");
    EXPECT_RULE(node, "[n,c*kh*kw,l] [_] [_] -> [n,c,o2,o3]  kh: sum reduction; kw: sum reduction; l: sum reduction");
    EXPECT_FLOPS(node, 25.0);
    stop();
    node = columns("2,18,4", 5, 3, 3);
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){2, 2});
    infer();
    EXPECT_TYPE("y", "float32[2,2,5,5]");
    EXPECT_FLOPS(node, 2.0 * 18 * 4);
}

Test(op_spatial, columns_that_tile_the_image_only_move)
{
    struct sp_node *node = columns("n,12,9", 6, 2, 2);
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){2, 2});
    infer();
    EXPECT_TYPE("y", "float32[n,3,6,6]");
    EXPECT_RULE(node, "[n,c*kh*kw,h*w] [_] [_] -> [n,c,h*kh,w*kw]");
}

Test(op_spatial, malformed_columns_are_refused)
{
    (void)columns("1,7,5", 5, 1, 5);
    refused("OPERAND_SHAPE");
    (void)columns("1,7", 5, 1, 5);
    refused("OPERAND_SHAPE");
    (void)columns("1,5,5", 5, 0, 5);
    refused("OPERAND_VALUE");
    start(18);
}
