/* Compress, Unique, NonMaxSuppression, CenterCropPad. Values follow the examples in ONNX' Operators.md. */
#include <stdio.h>

#include "expect_op.h"

TestSuite(op_dynamic, .fini = stop);

/* Constant elements in a shape of `rank` axes. */
static void shaped(const char *name, int rank, const int64_t *dims, const int64_t *values)
{
    char flat[16], shape[16];
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    (void)snprintf(flat, sizeof(flat), "%s_flat", name);
    (void)snprintf(shape, sizeof(shape), "%s_dims", name);
    build_ints(&build, flat, (int)count, values);
    build_ints(&build, shape, rank, dims);
    char inputs[40];
    (void)snprintf(inputs, sizeof(inputs), "%s %s", flat, shape);
    build_node(&build, "Reshape", inputs, name);
}

/* A boolean vector whose elements are known. */
static void mask(const char *name, int count, const int64_t *values)
{
    char whole[16];
    (void)snprintf(whole, sizeof(whole), "%s_ints", name);
    build_ints(&build, whole, count, values);
    build_attr_int(&build, build_node(&build, "Cast", whole, name), "to", SP_DTYPE_BOOL);
}

/* ---- Compress ---- */

Test(op_dynamic, compress_keeps_what_the_condition_says)
{
    start(11);
    shaped("x", 2, (int64_t[]){3, 2}, (int64_t[]){1, 2, 3, 4, 5, 6});
    mask("rows", 3, (int64_t[]){0, 1, 1});
    mask("some", 5, (int64_t[]){0, 1, 0, 0, 1});
    mask("columns", 2, (int64_t[]){0, 1});
    build_attr_int(&build, build_node(&build, "Compress", "x rows", "a"), "axis", 0);
    build_attr_int(&build, build_node(&build, "Compress", "x columns", "b"), "axis", -1);
    build_node(&build, "Compress", "x some", "c");
    infer();
    EXPECT_TYPE("a", "int64[2,2]");
    EXPECT_DATA("a", "3,4,5,6");
    EXPECT_TYPE("b", "int64[3,1]");
    EXPECT_DATA("b", "2,4,6");
    EXPECT_TYPE("c", "int64[2]");
    EXPECT_DATA("c", "2,5");
}

Test(op_dynamic, compress_by_data_has_a_symbol)
{
    start(11);
    input("x", "n,4,5");
    build_input(&build, "c", SP_DTYPE_BOOL, "4");
    struct sp_node *node = build_node(&build, "Compress", "x c", "y");
    build_attr_int(&build, node, "axis", 1);
    struct sp_node *flat = build_node(&build, "Compress", "x c", "z");
    infer();
    EXPECT_TYPE("y", "float32[n,Compress_0,5]");
    EXPECT_TYPE("z", "float32[Compress_1]");
    EXPECT_RULE(node, "[d0,i1,d2] [c0] -> [d0,o1,d2]  i1: replicate; o1: replicate; c0: replicate");
    EXPECT_RULE(flat, "[i0,i1,i2] [c0] -> [o0]  i0: replicate; i1: replicate; i2: replicate; o0: replicate; "
                      "c0: replicate");
    stop();
    start(11);
    input("x", "2,3");
    build_input(&build, "c", SP_DTYPE_BOOL, "2,3");
    build_node(&build, "Compress", "x c", "y");
    refused("OPERAND_SHAPE");
    start(11);
}

/* ---- Unique ---- */

Test(op_dynamic, unique_elements_sorted_and_in_order)
{
    start(11);
    build_ints(&build, "x", 6, (int64_t[]){2, 1, 1, 3, 4, 3});
    build_attr_int(&build, build_node(&build, "Unique", "x", "y i v c"), "sorted", 0);
    build_node(&build, "Unique", "x", "y1 i1 v1 c1");
    infer();
    EXPECT_TYPE("y", "int64[4]");
    EXPECT_DATA("y", "2,1,3,4");
    EXPECT_DATA("i", "0,1,3,4");
    EXPECT_DATA("v", "0,1,1,2,3,2");
    EXPECT_DATA("c", "1,2,2,1");
    EXPECT_DATA("y1", "1,2,3,4");
    EXPECT_DATA("i1", "1,0,3,4");
    EXPECT_DATA("v1", "1,0,0,2,3,2");
    EXPECT_DATA("c1", "2,1,2,1");
}

Test(op_dynamic, unique_slices)
{
    start(11);
    shaped("x", 2, (int64_t[]){3, 3}, (int64_t[]){1, 0, 0, 1, 0, 0, 2, 3, 4});
    build_attr_int(&build, build_node(&build, "Unique", "x", "y i v c"), "axis", 0);
    shaped("z", 3, (int64_t[]){2, 4, 2}, (int64_t[]){1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1});
    build_attr_int(&build, build_node(&build, "Unique", "z", "y1 i1 v1 c1"), "axis", 1);
    infer();
    EXPECT_TYPE("y", "int64[2,3]");
    EXPECT_DATA("y", "1,0,0,2,3,4");
    EXPECT_DATA("i", "0,2");
    EXPECT_DATA("v", "0,0,1");
    EXPECT_DATA("c", "2,1");
    EXPECT_TYPE("y1", "int64[2,3,2]");
    EXPECT_DATA("y1", "0,1,1,1,2,1,0,1,1,1,2,1");
    EXPECT_DATA("i1", "1,0,2");
    EXPECT_DATA("v1", "1,0,2,0");
    EXPECT_DATA("c1", "2,1,1");
}

Test(op_dynamic, unique_of_data_has_a_symbol)
{
    start(11);
    input("x", "n,4");
    struct sp_node *node = build_node(&build, "Unique", "x", "y i v c");
    build_attr_int(&build, build_node(&build, "Unique", "x", "z j"), "axis", 1);
    infer();
    EXPECT_TYPE("y", "float32[Unique_0]");
    EXPECT_TYPE("i", "int64[Unique_0]");
    EXPECT_TYPE("v", "int64[4*n]");
    EXPECT_TYPE("c", "int64[Unique_0]");
    EXPECT_TYPE("z", "float32[n,Unique_1]");
    EXPECT_RULE(node, "[i0,i1] -> [o0] [o0] [o0] [o0]  i0: replicate; i1: replicate; o0: replicate; o0: replicate; "
                      "o0: replicate; o0: replicate");
}

/* ---- NonMaxSuppression ---- */

Test(op_dynamic, suppression_selects_triples)
{
    start(11);
    input("boxes", "b,100,4");
    input("scores", "b,7,100");
    build_ints(&build, "most", 1, (int64_t[]){3});
    struct sp_node *node = build_node(&build, "NonMaxSuppression", "boxes scores most", "y");
    build_node(&build, "NonMaxSuppression", "boxes scores", "none");
    infer();
    EXPECT_TYPE("y", "int64[NonMaxSuppression_0,3]");
    EXPECT_TYPE("none", "int64[0,3]"); /* max_output_boxes_per_class is 0 unless given */
    EXPECT_RULE(node, "[b0,s1,x2] [b0,c1,s1] [_] -> [o0,o1]  b0: replicate; s1: replicate; x2: replicate; "
                      "c1: replicate; o0: replicate; o1: replicate");
    stop();
    start(11);
    input("boxes", "1,100,4");
    input("scores", "1,7,90");
    build_node(&build, "NonMaxSuppression", "boxes scores", "y");
    refused("SHAPES_DISAGREE");
    start(11);
}

/* ---- CenterCropPad ---- */

Test(op_dynamic, center_crops_and_pads)
{
    start(18);
    input("x", "20,8,n");
    build_ints(&build, "whole", 3, (int64_t[]){10, 10, 9});
    build_ints(&build, "two", 2, (int64_t[]){9, 10});
    struct sp_node *node = build_node(&build, "CenterCropPad", "x whole", "y");
    build_attr_ints(&build, build_node(&build, "CenterCropPad", "x two", "z"), "axes", 2, (int64_t[]){-1, 0});
    build_ints(&build, "v", 5, (int64_t[]){1, 2, 3, 4, 5});
    build_ints(&build, "less", 1, (int64_t[]){2});
    build_ints(&build, "more", 1, (int64_t[]){8});
    build_node(&build, "CenterCropPad", "v less", "cropped");
    build_node(&build, "CenterCropPad", "v more", "padded");
    infer();
    EXPECT_TYPE("y", "float32[10,10,9]");
    EXPECT_TYPE("z", "float32[10,8,9]");
    EXPECT_RULE(node, "[d0,d1,i2] [_] -> [d0,d1,o2]  d0: permutation, resized; d1: permutation, resized; "
                      "i2: replicate; o2: replicate");
    EXPECT_DATA("cropped", "2,3");
    EXPECT_DATA("padded", "0,1,2,3,4,5,0,0");
    stop();
    start(18);
    input("x", "20,8");
    build_ints(&build, "s", 1, (int64_t[]){10});
    build_node(&build, "CenterCropPad", "x s", "y");
    refused("SHAPES_DISAGREE");
    start(18);
}
