/* TopK, CumSum, OneHot, NonZero, Resize, Upsample. Expected values follow ONNX' Operators.md and Changelog.md. */
#include "expect_op.h"

TestSuite(op_selection, .fini = stop);

Test(op_selection, topk_takes_k_from_where_its_version_has_it)
{
    start(9);
    input("x", "n,8");
    struct sp_node *node = build_node(&build, "TopK", "x", "v i");
    build_attr_int(&build, node, "k", 3);
    infer();
    EXPECT_TYPE("v", "float32[n,3]");
    EXPECT_TYPE("i", "int64[n,3]");
    stop();

    start(11);
    input("x", "n,8");
    build_ints(&build, "k", 1, (int64_t[]){2});
    build_shape_vector(&build, "s", "m");
    build_input(&build, "q", SP_DTYPE_INT64, "1");
    node = build_node(&build, "TopK", "x k", "v i");
    build_attr_int(&build, node, "axis", 0);
    build_node(&build, "TopK", "x s", "vs is");
    build_node(&build, "TopK", "x q", "vq iq");
    infer();
    EXPECT_TYPE("v", "float32[2,8]");
    EXPECT_TYPE("vs", "float32[n,m]");
    EXPECT_TYPE("vq", "float32[n,TopK_2]");
    EXPECT_RULE(node, "[d0,d1] [_] -> [k,d1] [k,d1]@d0  d0: select reduction; k: replicate");
}

Test(op_selection, topk_of_too_many_is_refused)
{
    start(11);
    input("x", "2,8");
    build_ints(&build, "k", 1, (int64_t[]){9});
    build_node(&build, "TopK", "x k", "v i");
    refused("OPERAND_VALUE");
    start(11);
    input("x", "2,8");
    build_ints(&build, "k", 1, (int64_t[]){-1});
    build_node(&build, "TopK", "x k", "v i");
    refused("OPERAND_VALUE");
    start(9);
    input("x", "2,8");
    build_node(&build, "TopK", "x", "v i");
    refused("OPERAND_SHAPE");
    start(9);
}

Test(op_selection, cumulative_sums_are_sequential)
{
    start(14);
    input("x", "2,8");
    build_ints(&build, "axis", -1, (int64_t[]){-1});
    build_input(&build, "any", SP_DTYPE_INT64, "");
    struct sp_node *node = build_node(&build, "CumSum", "x axis", "y");
    struct sp_node *open = build_node(&build, "CumSum", "x any", "z");
    infer();
    EXPECT_TYPE("y", "float32[2,8]");
    EXPECT_RULE(node, "[d0,d1] [] -> [d0,d1]  d1: sequential");
    EXPECT_RULE(open, "[d0,d1] [] -> [d0,d1]  d0: sequential; d1: sequential");
}

Test(op_selection, one_hot_adds_an_axis)
{
    start(11);
    build_input(&build, "x", SP_DTYPE_INT64, "n,4");
    build_ints(&build, "depth", -1, (int64_t[]){10});
    input("values", "2");
    struct sp_node *last = build_node(&build, "OneHot", "x depth values", "y");
    struct sp_node *middle = build_node(&build, "OneHot", "x depth values", "z");
    build_attr_int(&build, middle, "axis", -2);
    infer();
    EXPECT_TYPE("y", "float32[n,4,10]");
    EXPECT_TYPE("z", "float32[n,10,4]");
    EXPECT_RULE(last, "[d0,d1]@depth [] [_] -> [d0,d1,depth]");
    EXPECT_RULE(middle, "[d0,d2]@depth [] [_] -> [d0,depth,d2]");
}

Test(op_selection, nonzero_is_known_when_its_input_is)
{
    start(13);
    input("x", "4,5");
    build_ints(&build, "c", 4, (int64_t[]){0, 7, 0, -1});
    build_node(&build, "NonZero", "x", "y");
    build_node(&build, "NonZero", "c", "z");
    infer();
    EXPECT_TYPE("y", "int64[2,NonZero_0]");
    EXPECT_TYPE("z", "int64[1,2]");
    EXPECT_DATA("z", "1,3");
}

/* ---- Resize ---- */

Test(op_selection, resize_by_scales_and_by_sizes)
{
    start(13);
    input("x", "n,3,5,h");
    build_floats(&build, "scales", 4, (float[]){1, 1, 0.7F, 1.5F});
    build_shape_vector(&build, "sizes", "n,3,7,m");
    struct sp_node *scaled = build_node(&build, "Resize", "x - scales", "y");
    struct sp_node *sized = build_node(&build, "Resize", "x - - sizes", "z");
    build_attr_string(&build, sized, "mode", "cubic");
    infer();
    EXPECT_TYPE("y", "float32[n,3,3,floordiv(3*h, 2)]");
    EXPECT_TYPE("z", "float32[n,3,7,m]");
    EXPECT_RULE(scaled, "[d0,d1,d2,d3] [] [_] -> [d0,d1,d2,d3]  d2: halo 1+1; d3: halo 1+1");
    EXPECT_RULE(sized, "[d0,d1,d2,d3] [] [] [_] -> [d0,d1,d2,d3]  d2: halo 3+3; d3: halo 3+3");
}

Test(op_selection, extents_are_computed_in_float32)
{
    start(13);
    input("x", "10");
    build_floats(&build, "scales", 1, (float[]){0.1F}); /* 10 * 0.1 is 1 in float32 and more in float64 */
    build_node(&build, "Resize", "x - scales", "y");
    infer();
    EXPECT_TYPE("y", "float32[1]");
}

Test(op_selection, resize_counts_its_taps)
{
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const double flops[] = {1, 8, 32};
    for (int i = 0; i < 3; i++) {
        start(13);
        input("x", "1,2,4,4");
        build_floats(&build, "scales", 4, (float[]){1, 1, 2, 2});
        struct sp_node *node = build_node(&build, "Resize", "x - scales", "y");
        build_attr_string(&build, node, "mode", modes[i]);
        infer();
        EXPECT_FLOPS(node, flops[i] * 128);
        stop();
    }
    start(13);
}

Test(op_selection, since_18_some_axes_may_be_named)
{
    start(18);
    input("x", "1,2,8,4");
    build_ints(&build, "sizes", 2, (int64_t[]){7, 4});
    struct sp_node *node = build_node(&build, "Resize", "x - - sizes", "y");
    build_attr_ints(&build, node, "axes", 2, (int64_t[]){-1, 2});
    struct sp_node *less = build_node(&build, "Resize", "x - - sizes", "z");
    build_attr_ints(&build, less, "axes", 2, (int64_t[]){2, 3});
    build_attr_string(&build, less, "keep_aspect_ratio_policy", "not_larger");
    infer();
    EXPECT_TYPE("y", "float32[1,2,4,7]");
    EXPECT_TYPE("z", "float32[1,2,7,4]"); /* 7/8 for both: 7 and round(3.5) */
}

Test(op_selection, upsample_before_it_was_resize)
{
    start(9);
    input("x", "1,2,4,h");
    build_floats(&build, "scales", 4, (float[]){1, 1, 2, 3});
    build_node(&build, "Upsample", "x scales", "y");
    infer();
    EXPECT_TYPE("y", "float32[1,2,8,3*h]");
    stop();
    start(7);
    input("x", "1,2,4,h");
    build_attr_floats(&build, build_node(&build, "Upsample", "x", "y"), "scales", 4, (double[]){1, 1, 2, 3});
    infer();
    EXPECT_TYPE("y", "float32[1,2,8,3*h]");
}

Test(op_selection, malformed_resizes_are_refused)
{
    static const float bad[][4] = {{1, 1, 0, 1}, {1, 1, -1, 1}, {1, 1, 1e30F, 1e30F}};
    for (int i = 0; i < 3; i++) {
        start(13);
        input("x", "1,2,4,4");
        build_floats(&build, "scales", 4, bad[i]);
        build_node(&build, "Resize", "x - scales", "y");
        refused("OPERAND_VALUE");
    }
    start(13);
    input("x", "1,2,4,4");
    build_floats(&build, "scales", 3, (float[]){1, 1, 1});
    build_node(&build, "Resize", "x - scales", "y");
    refused("OPERAND_SHAPE");
    start(18);
    input("x", "1,2,4,4");
    build_ints(&build, "sizes", 2, (int64_t[]){7, 4});
    build_attr_ints(&build, build_node(&build, "Resize", "x - - sizes", "y"), "axes", 2, (int64_t[]){2, -2});
    refused("AXIS_TWICE");
    start(13);
}

/* ---- known elements ---- */

/* Examples of TopK in ONNX' Operators.md: largest and smallest, equal ones in the order of their positions. */
Test(op_selection, topk_of_known_elements)
{
    start(11);
    build_ints(&build, "flat", 12, (int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 11, 10, 9, 8});
    build_ints(&build, "shape", 2, (int64_t[]){3, 4});
    build_node(&build, "Reshape", "flat shape", "x");
    build_ints(&build, "k", 1, (int64_t[]){3});
    build_ints(&build, "same", 4, (int64_t[]){1, 1, 0, 1});
    build_node(&build, "TopK", "x k", "v i");
    struct sp_node *least = build_node(&build, "TopK", "x k", "lv li");
    build_attr_int(&build, least, "largest", 0);
    build_attr_int(&build, least, "axis", 0);
    build_node(&build, "TopK", "same k", "sv si");
    build_attr_int(&build, build_node(&build, "TopK", "x k", "uv ui"), "sorted", 0);
    infer();
    EXPECT_DATA("v", "3,2,1,7,6,5,11,10,9");
    EXPECT_DATA("i", "3,2,1,3,2,1,0,1,2");
    EXPECT_DATA("lv", "0,1,2,3,4,5,6,7,11,10,9,8");
    EXPECT_DATA("li", "0,0,0,0,1,1,1,1,2,2,2,2");
    EXPECT_DATA("sv", "1,1,1");
    EXPECT_DATA("si", "0,1,3");
    EXPECT_DATA("uv", "none");
}

/* Examples of CumSum and CumProd in ONNX' Operators.md, and sums of symbols. */
Test(op_selection, cumulative_sums_and_products_of_known_elements)
{
    start(26);
    build_ints(&build, "x", 3, (int64_t[]){1, 2, 3});
    build_ints(&build, "axis", -1, (int64_t[]){0});
    build_shape_vector(&build, "s", "n,2,m");
    build_node(&build, "CumSum", "x axis", "a");
    build_attr_int(&build, build_node(&build, "CumSum", "x axis", "b"), "exclusive", 1);
    build_attr_int(&build, build_node(&build, "CumSum", "x axis", "c"), "reverse", 1);
    struct sp_node *both = build_node(&build, "CumSum", "x axis", "d");
    build_attr_int(&build, both, "reverse", 1);
    build_attr_int(&build, both, "exclusive", 1);
    build_node(&build, "CumProd", "x axis", "p");
    build_attr_int(&build, build_node(&build, "CumProd", "x axis", "q"), "exclusive", 1);
    build_node(&build, "CumSum", "s axis", "e");
    infer();
    EXPECT_DATA("a", "1,3,6");
    EXPECT_DATA("b", "0,1,3");
    EXPECT_DATA("c", "6,5,3");
    EXPECT_DATA("d", "5,3,0");
    EXPECT_DATA("p", "1,2,6");
    EXPECT_DATA("q", "1,1,2");
    EXPECT_DATA("e", "n,n + 2,n + m + 2");
}

Test(op_selection, one_hot_of_known_indices)
{
    start(11);
    build_ints(&build, "x", 3, (int64_t[]){0, -1, 7}); /* the last is outside of the axis */
    build_ints(&build, "depth", -1, (int64_t[]){3});
    build_ints(&build, "values", 2, (int64_t[]){5, 9});
    build_node(&build, "OneHot", "x depth values", "y");
    build_attr_int(&build, build_node(&build, "OneHot", "x depth values", "z"), "axis", 0);
    infer();
    EXPECT_DATA("y", "9,5,5,5,5,9,5,5,5");
    EXPECT_DATA("z", "9,5,5,5,5,5,5,9,5");
}
