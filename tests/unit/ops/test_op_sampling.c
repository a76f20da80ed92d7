/* AffineGrid, GridSample, RoiAlign, MaxRoiPool, ImageDecoder, DeformConv. Shapes are those of ONNX' Operators.md and of
   its node tests. */
#include <string.h>

#include "expect_op.h"

TestSuite(op_sampling, .fini = stop);

Test(op_sampling, affine_grid_has_the_extents_of_its_size)
{
    start(20);
    input("theta", "2,2,3");
    input("deep", "n,3,4");
    build_ints(&build, "size", 4, (int64_t[]){2, 3, 5, 6});
    build_shape_vector(&build, "volume", "n,3,4,5,w");
    struct sp_node *flat = build_node(&build, "AffineGrid", "theta size", "y");
    build_node(&build, "AffineGrid", "deep volume", "z");
    infer();
    EXPECT_TYPE("y", "float32[2,5,6,2]");
    EXPECT_TYPE("z", "float32[n,4,5,w,3]");
    EXPECT_RULE(flat, "[n,r,k] [_] -> [n,d1,d2,r]  k: sum reduction");
    EXPECT_FLOPS(flat, 2.0 * 2 * 5 * 6 * 2 * 3);
    stop();
    start(20);
    input("theta", "2,3,3");
    build_ints(&build, "size", 4, (int64_t[]){2, 3, 5, 6});
    build_node(&build, "AffineGrid", "theta size", "y");
    refused("OPERAND_SHAPE");
    start(20);
}

Test(op_sampling, grid_sample_takes_the_places_of_the_grid)
{
    start(20);
    input("x", "n,2,4,4");
    input("grid", "n,6,w,2");
    struct sp_node *node = build_node(&build, "GridSample", "x grid", "y");
    infer();
    EXPECT_TYPE("y", "float32[n,2,6,w]");
    EXPECT_RULE(node, "[n,c,s0,s1] [n,d2,d3,r] -> [n,c,d2,d3]  s0: replicate; s1: replicate; r: replicate");
    EXPECT_FLOPS(node, 2.0 * 4 * 2 * 6); /* symbols count as 1 */
    stop();
    start(20);
    input("x", "1,2,4,4");
    input("grid", "1,6,6,3");
    build_node(&build, "GridSample", "x grid", "y");
    refused("OPERAND_SHAPE");
    start(20);
}

Test(op_sampling, regions_are_the_first_axis)
{
    start(16);
    input("x", "2,c,10,10");
    input("rois", "r,4");
    build_input(&build, "batch", SP_DTYPE_INT64, "r");
    struct sp_node *align = build_node(&build, "RoiAlign", "x rois batch", "y");
    build_attr_int(&build, align, "output_height", 5);
    build_attr_int(&build, align, "output_width", 6);
    build_attr_int(&build, align, "sampling_ratio", 2);
    input("boxes", "3,5");
    struct sp_node *pool = build_node(&build, "MaxRoiPool", "x boxes", "z");
    build_attr_ints(&build, pool, "pooled_shape", 2, (int64_t[]){2, 3});
    infer();
    EXPECT_TYPE("y", "float32[r,c,5,6]");
    EXPECT_RULE(align, "[b,c,y,x] [n,r] [n] -> [n,c,h,w]  b: replicate; y: replicate; x: replicate; r: replicate");
    EXPECT_FLOPS(align, 8.0 * 4 * 5 * 6);
    EXPECT_TYPE("z", "float32[3,c,2,3]");
    EXPECT_FLOPS(pool, 3.0 * 100);
}

Test(op_sampling, malformed_regions_are_refused)
{
    start(16);
    input("x", "2,3,10,10");
    input("rois", "4,5");
    build_input(&build, "batch", SP_DTYPE_INT64, "4");
    build_node(&build, "RoiAlign", "x rois batch", "y");
    refused("OPERAND_SHAPE");
    start(16);
    input("x", "2,3,10,10");
    input("rois", "4,4");
    build_input(&build, "batch", SP_DTYPE_INT64, "3");
    build_node(&build, "RoiAlign", "x rois batch", "y");
    refused("SHAPES_DISAGREE");
    start(16);
    input("x", "2,3,10,10");
    input("rois", "4,5");
    build_node(&build, "MaxRoiPool", "x rois", "y");
    refused("ATTRIBUTE_MISSING");
    start(16);
}

Test(op_sampling, images_have_extents_of_their_own)
{
    start(20);
    build_input(&build, "bytes", SP_DTYPE_UINT8, "?");
    struct sp_node *gray = build_node(&build, "ImageDecoder", "bytes", "y");
    build_attr_string(&build, gray, "pixel_format", "Grayscale");
    build_node(&build, "ImageDecoder", "bytes", "z");
    infer();
    EXPECT_TYPE("y", "uint8[ImageDecoder_0,ImageDecoder_0_1,1]");
    EXPECT_TYPE("z", "uint8[ImageDecoder_1,ImageDecoder_1_1,3]");
}

/* ---- DeformConv ---- */

static struct sp_node *deform(const char *x, const char *w, const char *offset, int64_t group, int64_t offset_group)
{
    start(19);
    input("x", x);
    input("w", w);
    input("o", offset);
    struct sp_node *node = build_node(&build, "DeformConv", "x w o", "y");
    build_attr_int(&build, node, "group", group);
    build_attr_int(&build, node, "offset_group", offset_group);
    return node;
}

Test(op_sampling, deformed_windows_move_as_a_convolution)
{
    struct sp_node *node = deform("1,1,3,3", "1,1,2,2", "1,8,4,4", 1, 1);
    build_attr_ints(&build, node, "pads", 4, (int64_t[]){1, 1, 1, 1});
    infer();
    EXPECT_TYPE("y", "float32[1,1,4,4]");
    EXPECT_RULE(node, "[n,c,i2,i3] [m,c,kh,kw] [n,kh*kw*xy,h,w] -> [n,m,h,w]  c: sum reduction; i2: replicate; "
                      "kh: sum reduction; i3: replicate; kw: sum reduction; xy: replicate");
    EXPECT_FLOPS(node, 2.0 * 16 * 4 + 8.0 * 16 * 4);
}

Test(op_sampling, offset_groups_divide_the_channels)
{
    struct sp_node *node = deform("n,4,5,5", "6,4,3,3", "n,36,3,3", 1, 2);
    infer();
    EXPECT_TYPE("y", "float32[n,6,3,3]");
    EXPECT_RULE(node, "[n,o*c,i2,i3] [m,o*c,kh,kw] [n,o*kh*kw*xy,h,w] -> [n,m,h,w]  o: sum reduction; "
                      "c: sum reduction; i2: replicate; kh: sum reduction; i3: replicate; kw: sum reduction; "
                      "xy: replicate");
    stop();
    node = deform("n,8,5,5", "8,2,3,3", "n,36,3,3", 4, 2); /* two groups share offsets */
    infer();
    cr_expect_eq(
        strncmp(build_rule(&build, node), "[n,o*g*c,i2,i3] [o*g*m,c,kh,kw] [n,o*kh*kw*xy,h,w] -> [n,o*g*m,h,w]", 66), 0,
        "%s", build_rule(&build, node));
    stop();
    node = deform("n,8,5,5", "4,4,3,3", "n,72,3,3", 2, 4); /* a group has two offset groups */
    infer();
    cr_expect_eq(
        strncmp(build_rule(&build, node), "[n,g*o*c,i2,i3] [g*m,o*c,kh,kw] [n,g*o*kh*kw*xy,h,w] -> [n,g*m,h,w]", 66), 0,
        "%s", build_rule(&build, node));
    stop();
    node = deform("n,6,5,5", "4,3,3,3", "n,54,3,3", 2, 3); /* neither divides the other */
    infer();
    cr_expect_eq(strncmp(build_rule(&build, node), "[n,x1,i2,i3] [m,c,kh,kw] [n,o*kh*kw*xy,h,w] -> [n,m,h,w]", 55), 0,
                 "%s", build_rule(&build, node));
    stop();
    (void)deform("n,6,5,5", "4,2,3,3", "n,54,3,3", 2, 3);
    refused("SHAPES_DISAGREE");
    (void)deform("n,6,5,5", "4,3,3,3", "n,54,3,4", 2, 3);
    refused("SHAPES_DISAGREE");
    start(19);
}
