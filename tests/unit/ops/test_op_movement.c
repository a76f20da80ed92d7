/* Concat, Split, Slice, Gather, GatherElements, GatherND, Scatter*, Pad, Transpose, Tile. Expected values follow the
   operators' descriptions in ONNX' Operators.md; factors follow the sharding column of each operator's semantics. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "cost/kernel_work.h"
#include "expect_op.h"

#define EXPECT_TYPE(name, text) cr_expect_str_eq(build_type(&build, name), text, "%s", build_type(&build, name))
#define EXPECT_DATA(name, text) cr_expect_str_eq(build_data(&build, name), text, "%s", build_data(&build, name))
#define EXPECT_RULE(node, text) cr_expect_str_eq(build_rule(&build, node), text, "%s", build_rule(&build, node))

static double bytes_of(struct sp_node *node)
{
    struct sp_rule *rule = NULL;
    cr_assert_eq(sp_op_rule(build.model, node, build.arena, &rule, &build.err), SP_OK, "%s", build.err.message);
    cr_expect_eq(sp_rule_flops(rule, NULL), 0);
    return sp_kernel_work_of(&(struct sp_kernel_part){.node = node, .rule = rule}).bytes;
}

TestSuite(op_movement, .fini = stop);

/* ---- Concat ---- */

Test(op_movement, concat_adds_one_axis)
{
    start(13);
    build_input(&build, "a", SP_DTYPE_FLOAT, "n,3,4");
    build_input(&build, "b", SP_DTYPE_FLOAT, "2,p,4");
    build_input(&build, "c", SP_DTYPE_FLOAT, "?,5,4");
    struct sp_node *node = build_node(&build, "Concat", "a b c", "y");
    build_attr_int(&build, node, "axis", -2);
    infer();
    EXPECT_TYPE("y", "float32[2,p + 8,4]");
    EXPECT_RULE(node, "[d0,j,d2] [d0,j,d2] [d0,j,d2] -> [d0,j,d2]  j: replicate, resized");
}

Test(op_movement, concat_joins_elements)
{
    start(13);
    build_shape_vector(&build, "a", "n,2");
    build_input(&build, "b", SP_DTYPE_INT64, "1");
    build_ints(&build, "c", 1, (int64_t[]){7});
    build_attr_int(&build, build_node(&build, "Concat", "a b c", "y"), "axis", 0);
    infer();
    EXPECT_DATA("y", "n,2,?,7"); /* what is not known leaves a hole, not nothing */
}

Test(op_movement, concat_refuses_contradictions)
{
    start(13);
    build_input(&build, "a", SP_DTYPE_FLOAT, "2,3");
    build_input(&build, "b", SP_DTYPE_FLOAT, "3,3");
    build_attr_int(&build, build_node(&build, "Concat", "a b", "y"), "axis", 1);
    refused("SHAPES_DISAGREE");
    start(13);
    build_input(&build, "a", SP_DTYPE_FLOAT, "2,3");
    build_input(&build, "b", SP_DTYPE_FLOAT, "3");
    build_attr_int(&build, build_node(&build, "Concat", "a b", "y"), "axis", 0);
    refused("SHAPES_DISAGREE");
    start(13);
    build_input(&build, "a", SP_DTYPE_FLOAT, "2,3");
    build_node(&build, "Concat", "a", "y");
    refused("MISSING_ATTRIBUTE");
    start(13);
    build_input(&build, "a", SP_DTYPE_FLOAT, "2,3");
    build_attr_int(&build, build_node(&build, "Concat", "a", "y"), "axis", 2);
    refused("AXIS_OUT_OF_RANGE");
}

/* ---- Split ---- */

Test(op_movement, split_by_attribute_input_and_count)
{
    start(11);
    build_input(&build, "x", SP_DTYPE_FLOAT, "n,6");
    struct sp_node *node = build_node(&build, "Split", "x", "a b");
    build_attr_int(&build, node, "axis", 1);
    build_attr_ints(&build, node, "split", 2, (int64_t[]){2, 4});
    infer();
    EXPECT_TYPE("a", "float32[n,2]");
    EXPECT_TYPE("b", "float32[n,4]");
    EXPECT_RULE(node, "[d0,j1] -> [d0,_] [d0,_]  j1: replicate");
    stop();

    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "6,2");
    build_ints(&build, "s", 3, (int64_t[]){1, 2, 3});
    build_node(&build, "Split", "x s", "a b c");
    build_node(&build, "Split", "x", "d e");
    build_ints(&build, "v", 4, (int64_t[]){1, 2, 3, 4});
    build_node(&build, "Split", "v", "f g");
    infer();
    EXPECT_TYPE("b", "float32[2,2]");
    EXPECT_TYPE("e", "float32[3,2]");
    EXPECT_DATA("f", "1,2");
    EXPECT_DATA("g", "3,4");
    stop();

    start(18);
    build_input(&build, "x", SP_DTYPE_FLOAT, "7");
    build_attr_int(&build, build_node(&build, "Split", "x", "a b c"), "num_outputs", 3);
    build_input(&build, "y", SP_DTYPE_FLOAT, "6*n");
    infer();
    EXPECT_TYPE("a", "float32[3]");
    EXPECT_TYPE("c", "float32[1]"); /* the last is smaller */
}

Test(op_movement, split_refuses_contradictions)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "5");
    build_node(&build, "Split", "x", "a b");
    refused("CANNOT_SPLIT");
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "5");
    build_ints(&build, "s", 2, (int64_t[]){2, 2});
    build_node(&build, "Split", "x s", "a b");
    refused("CANNOT_SPLIT");
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "5");
    build_ints(&build, "s", 2, (int64_t[]){6, -1});
    build_node(&build, "Split", "x s", "a b");
    refused("CANNOT_SPLIT");
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "4");
    build_ints(&build, "s", 3, (int64_t[]){2, 1, 1});
    build_node(&build, "Split", "x s", "a b");
    refused("CANNOT_SPLIT");
    start(18);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2");
    build_attr_int(&build, build_node(&build, "Split", "x", "a b c d"), "num_outputs", 4);
    refused("NEGATIVE_DIMENSION");
    start(18);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2");
    build_attr_int(&build, build_node(&build, "Split", "x", "a b"), "num_outputs", 0);
    refused("CANNOT_SPLIT");
}

/* ---- Slice ---- */

/* One axis of `extent`, sliced by numbers; the expected extent. */
static void expect_slice(const char *extent, int64_t from, int64_t to, int64_t step, const char *expected)
{
    char text[128];
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, extent);
    build_ints(&build, "from", 1, &from);
    build_ints(&build, "to", 1, &to);
    build_ints(&build, "axes", 1, (int64_t[]){0});
    build_ints(&build, "step", 1, &step);
    build_node(&build, "Slice", "x from to axes step", "y");
    infer();
    (void)snprintf(text, sizeof(text), "float32[%s]", expected);
    cr_expect_str_eq(build_type(&build, "y"), text, "[%s][%ld:%ld:%ld] gave %s", extent, (long)from, (long)to,
                     (long)step, build_type(&build, "y"));
    stop();
}

/* Expected: len(range(extent)[from:to:step]) in Python, with None where the number is a limit. */
Test(op_movement, slice_extents)
{
    expect_slice("10", 2, 5, 1, "3");
    expect_slice("10", 2, 9, 3, "3");
    expect_slice("10", 2, INT64_MAX, 1, "8");
    expect_slice("10", -3, INT64_MAX, 1, "3");
    expect_slice("10", -30, -8, 1, "2");
    expect_slice("10", 5, 2, 1, "0");
    expect_slice("10", 30, 40, 1, "0");
    expect_slice("10", -1, INT64_MIN, -1, "10");
    expect_slice("10", INT64_MAX, INT64_MIN, -3, "4");
    expect_slice("10", 8, 2, -2, "3");
    expect_slice("10", 2, 8, -1, "0");
    expect_slice("10", INT64_MAX, INT64_MIN, INT64_MIN, "1");
    expect_slice("10", 0, INT64_MAX, INT64_MAX, "1");
    expect_slice("10", INT64_MIN, INT64_MAX, 1, "10");
    expect_slice("0", 0, INT64_MAX, 1, "0");
    expect_slice("0", -1, INT64_MIN, -1, "0");
    expect_slice("n", 0, INT64_MAX, 1, "n");
    expect_slice("n", 0, INT32_MAX, 1, "n");
    expect_slice("n", -1, INT64_MAX, 1, "min(n, 1)");
    expect_slice("n", 0, INT64_MAX, 2, "ceildiv(n, 2)");
    expect_slice("n", -1, INT64_MIN, -1, "n");
    expect_slice("n", 0, 0, 1, "0");
    expect_slice("?", 0, INT64_MAX, 1, "?");
}

Test(op_movement, slice_to_a_symbol)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "64,n");
    build_shape_vector(&build, "to", "n,n");
    build_ints(&build, "from", 2, (int64_t[]){0, 0});
    build_node(&build, "Slice", "x from to", "y");
    infer();
    EXPECT_TYPE("y", "float32[min(n, 64),n]");
}

Test(op_movement, slice_elements_and_attributes)
{
    start(9);
    build_ints(&build, "x", 5, (int64_t[]){10, 11, 12, 13, 14});
    struct sp_node *node = build_node(&build, "Slice", "x", "y");
    build_attr_ints(&build, node, "starts", 1, (int64_t[]){1});
    build_attr_ints(&build, node, "ends", 1, (int64_t[]){-1});
    infer();
    EXPECT_DATA("y", "11,12,13");
    EXPECT_RULE(node, "[d0] -> [d0]  d0: permutation, resized");
    cr_expect_eq(bytes_of(node), 2 * 3 * 8);
    stop();

    start(13);
    build_ints(&build, "x", 5, (int64_t[]){10, 11, 12, 13, 14});
    build_ints(&build, "from", 1, (int64_t[]){-1});
    build_ints(&build, "to", 1, (int64_t[]){INT64_MIN});
    build_ints(&build, "step", 1, (int64_t[]){-2});
    build_node(&build, "Slice", "x from to - step", "y");
    infer();
    EXPECT_DATA("y", "14,12,10");
}

Test(op_movement, slice_factors)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "4,6,8");
    build_ints(&build, "from", 2, (int64_t[]){0, -1});
    build_ints(&build, "to", 2, (int64_t[]){3, INT64_MIN});
    build_ints(&build, "axes", 2, (int64_t[]){1, 2});
    build_ints(&build, "step", 2, (int64_t[]){1, -1});
    struct sp_node *node = build_node(&build, "Slice", "x from to axes step", "y");
    infer();
    EXPECT_TYPE("y", "float32[4,3,8]");
    EXPECT_RULE(node, "[d0,piece*d1,d2] [_] [_] [_] [_] -> [d0,d1,d2]  piece: replicate; d2: permutation");
}

/* A slice is a piece as those of Split where it is as long as they are and begins where one begins. */
static void expect_sliced_rule(int64_t from, int64_t to, int64_t step, const char *expected)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "12");
    build_ints(&build, "from", 1, &from);
    build_ints(&build, "to", 1, &to);
    build_ints(&build, "axes", 1, (int64_t[]){0});
    build_ints(&build, "step", 1, &step);
    struct sp_node *node = build_node(&build, "Slice", "x from to axes step", "y");
    infer();
    EXPECT_RULE(node, expected);
    stop();
}

Test(op_movement, slice_of_a_piece)
{
    expect_sliced_rule(0, 4, 1, "[piece*d0] [_] [_] [_] [_] -> [d0]  piece: replicate");
    expect_sliced_rule(4, 8, 1, "[piece*d0] [_] [_] [_] [_] -> [d0]  piece: replicate");
    expect_sliced_rule(-4, INT64_MAX, 1, "[piece*d0] [_] [_] [_] [_] -> [d0]  piece: replicate");
    expect_sliced_rule(2, 6, 1, "[d0] [_] [_] [_] [_] -> [d0]  d0: permutation, resized");
    expect_sliced_rule(0, 5, 1, "[d0] [_] [_] [_] [_] -> [d0]  d0: permutation, resized");
    expect_sliced_rule(0, 8, 2, "[d0] [_] [_] [_] [_] -> [d0]  d0: permutation, resized");
    expect_sliced_rule(3, -13, -1, "[d0] [_] [_] [_] [_] -> [d0]  d0: permutation, resized");
}

Test(op_movement, slice_with_unknown_operands)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "4,6");
    build_input(&build, "from", SP_DTYPE_INT64, "1");
    build_ints(&build, "to", 1, (int64_t[]){3});
    build_ints(&build, "axes", 1, (int64_t[]){1});
    struct sp_node *node = build_node(&build, "Slice", "x from to axes", "y");
    build_node(&build, "Slice", "x from to from", "z");
    infer();
    EXPECT_TYPE("y", "float32[4,?]");
    EXPECT_TYPE("z", "float32[?,?]");
    EXPECT_RULE(node, "[d0,i1] [_] [_] [_] -> [d0,o1]  i1: replicate; o1: replicate");
}

static void refuse_slice(int64_t axis, int64_t other_axis, int64_t step, const char *code)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "4,6");
    build_ints(&build, "from", 2, (int64_t[]){0, 0});
    build_ints(&build, "to", 2, (int64_t[]){2, 2});
    build_ints(&build, "axes", 2, (int64_t[]){axis, other_axis});
    build_ints(&build, "step", 2, (int64_t[]){1, step});
    build_node(&build, "Slice", "x from to axes step", "y");
    refused(code);
}

Test(op_movement, slice_refuses_contradictions)
{
    refuse_slice(0, 2, 1, "AXIS_OUT_OF_RANGE");
    refuse_slice(0, -2, 1, "AXIS_TWICE");
    refuse_slice(0, 1, 0, "ZERO_STEP");
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "4,6");
    build_ints(&build, "from", 1, (int64_t[]){0});
    build_ints(&build, "to", 2, (int64_t[]){2, 2});
    build_node(&build, "Slice", "x from to", "y");
    refused("SHAPES_DISAGREE");
}

/* ---- Gather and relatives ---- */

Test(op_movement, gather_replaces_the_axis_by_the_indices)
{
    start(13);
    build_weight(&build, "table", SP_DTYPE_FLOAT, "1000,64");
    build_input(&build, "ids", SP_DTYPE_INT64, "b,s");
    struct sp_node *node = build_node(&build, "Gather", "table ids", "y");
    build_shape_vector(&build, "shape", "n,3,m");
    build_ints(&build, "last", -1, (int64_t[]){-1});
    build_ints(&build, "two", 2, (int64_t[]){2, 0});
    build_node(&build, "Gather", "shape last", "scalar");
    build_node(&build, "Gather", "shape two", "pair");
    infer();
    EXPECT_TYPE("y", "float32[b,s,64]");
    EXPECT_TYPE("scalar", "int64[]");
    EXPECT_DATA("scalar", "m");
    EXPECT_DATA("pair", "m,n");
    EXPECT_RULE(node, "[v0,d1] [i0,i1]@v0 -> [i0,i1,d1]  v0: sum reduction");
}

Test(op_movement, gather_reads_what_it_gathers)
{
    start(13);
    build_weight(&build, "table", SP_DTYPE_FLOAT, "1000,64");
    build_input(&build, "ids", SP_DTYPE_INT64, "2,5");
    struct sp_node *node = build_node(&build, "Gather", "table ids", "y");
    infer();
    cr_expect_eq(bytes_of(node), 2 * 10 * 64 * 4 + 10 * 8);
}

Test(op_movement, gather_refuses_an_index_out_of_range)
{
    start(13);
    build_ints(&build, "x", 3, (int64_t[]){1, 2, 3});
    build_ints(&build, "i", 1, (int64_t[]){3});
    build_node(&build, "Gather", "x i", "y");
    refused("INDEX_OUT_OF_RANGE");
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "3");
    build_input(&build, "i", SP_DTYPE_INT64, "1");
    build_attr_int(&build, build_node(&build, "Gather", "x i", "y"), "axis", -2);
    refused("AXIS_OUT_OF_RANGE");
}

Test(op_movement, gather_elements_and_nd)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "b,10,8");
    build_input(&build, "i", SP_DTYPE_INT64, "b,3,4");
    struct sp_node *elements = build_node(&build, "GatherElements", "x i", "y");
    build_attr_int(&build, elements, "axis", 1);
    build_input(&build, "t", SP_DTYPE_INT64, "b,5,1");
    struct sp_node *nd = build_node(&build, "GatherND", "x t", "z");
    build_attr_int(&build, nd, "batch_dims", 1);
    infer();
    EXPECT_TYPE("y", "float32[b,3,4]");
    EXPECT_RULE(elements, "[i0,v1,d2] [i0,i1,i2]@v1 -> [i0,i1,i2]  v1: sum reduction; i2: replicate; d2: replicate");
    EXPECT_TYPE("z", "float32[b,5,8]");
    EXPECT_RULE(nd, "[b0,v1,d2] [b0,i1,t2]@v1 -> [b0,i1,d2]  t2: replicate; v1: sum reduction");
}

Test(op_movement, gather_nd_refuses_tuples_that_do_not_fit)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "4,5");
    build_input(&build, "t", SP_DTYPE_INT64, "2,3");
    build_node(&build, "GatherND", "x t", "z");
    refused("SHAPES_DISAGREE");
}

/* ---- Scatter ---- */

Test(op_movement, scatter_writes_elements)
{
    start(16);
    build_ints(&build, "x", 4, (int64_t[]){1, 2, 3, 4});
    build_ints(&build, "i", 2, (int64_t[]){1, -1});
    build_ints(&build, "u", 2, (int64_t[]){8, 9});
    build_node(&build, "ScatterElements", "x i u", "y");
    build_attr_string(&build, build_node(&build, "ScatterElements", "x i u", "sum"), "reduction", "add");
    build_ints(&build, "axes", 1, (int64_t[]){1});
    build_node(&build, "Unsqueeze", "i axes", "tuples");
    build_node(&build, "ScatterND", "x tuples u", "z");
    infer();
    EXPECT_DATA("y", "1,8,3,9");
    EXPECT_DATA("z", "1,8,3,9");
    EXPECT_TYPE("sum", "int64[4]");
    EXPECT_DATA("sum", "1,10,3,13");
}

Test(op_movement, scatter_factors)
{
    start(16);
    build_input(&build, "x", SP_DTYPE_FLOAT, "b,10,8");
    build_input(&build, "i", SP_DTYPE_INT64, "b,3,8");
    build_input(&build, "u", SP_DTYPE_FLOAT, "b,3,8");
    struct sp_node *elements = build_node(&build, "ScatterElements", "x i u", "y");
    build_attr_int(&build, elements, "axis", 1);
    build_input(&build, "t", SP_DTYPE_INT64, "5,2");
    build_input(&build, "v", SP_DTYPE_FLOAT, "5,8");
    struct sp_node *nd = build_node(&build, "ScatterND", "x t v", "z");
    infer();
    EXPECT_RULE(elements, "[d0,v1,d2] [d0,i1,d2]@v1 [d0,i1,d2] -> [d0,v1,d2]  i1: replicate");
    EXPECT_TYPE("z", "float32[b,10,8]");
    EXPECT_RULE(nd, "[v0,v1,d2] [i0,i1]@v0&v1 [i0,d2] -> [v0,v1,d2]  i0: replicate; i1: replicate");
}

Test(op_movement, scatter_refuses_contradictions)
{
    start(16);
    build_ints(&build, "x", 4, (int64_t[]){1, 2, 3, 4});
    build_ints(&build, "i", 1, (int64_t[]){4});
    build_ints(&build, "u", 1, (int64_t[]){8});
    build_node(&build, "ScatterElements", "x i u", "y");
    refused("INDEX_OUT_OF_RANGE");
    start(16);
    build_input(&build, "x", SP_DTYPE_FLOAT, "4,5");
    build_input(&build, "t", SP_DTYPE_INT64, "2,1");
    build_input(&build, "u", SP_DTYPE_FLOAT, "2");
    build_node(&build, "ScatterND", "x t u", "y");
    refused("SHAPES_DISAGREE");
}

/* ---- Pad ---- */

Test(op_movement, pad_in_every_version)
{
    start(1);
    build_input(&build, "x", SP_DTYPE_FLOAT, "n,4");
    build_attr_ints(&build, build_node(&build, "Pad", "x", "y"), "paddings", 4, (int64_t[]){0, 1, 0, 2});
    infer();
    EXPECT_TYPE("y", "float32[n,7]");
    stop();

    start(10);
    build_input(&build, "x", SP_DTYPE_FLOAT, "n,4");
    build_attr_ints(&build, build_node(&build, "Pad", "x", "y"), "pads", 4, (int64_t[]){1, 0, 1, -2});
    infer();
    EXPECT_TYPE("y", "float32[n + 2,2]");
    stop();

    start(18);
    build_input(&build, "x", SP_DTYPE_FLOAT, "n,4,5");
    build_ints(&build, "pads", 2, (int64_t[]){1, 2});
    build_ints(&build, "axes", 1, (int64_t[]){-2});
    struct sp_node *node = build_node(&build, "Pad", "x pads - axes", "y");
    build_ints(&build, "v", 2, (int64_t[]){5, 6});
    build_ints(&build, "nine", -1, (int64_t[]){9});
    build_ints(&build, "crop", 2, (int64_t[]){2, -1});
    build_node(&build, "Pad", "v pads", "zeros");
    build_node(&build, "Pad", "v crop nine", "nines");
    infer();
    EXPECT_TYPE("y", "float32[n,7,5]");
    EXPECT_DATA("zeros", "0,5,6,0,0");
    EXPECT_DATA("nines", "9,9,5");
    EXPECT_RULE(node, "[d0,d1,d2] [_] [] [_] -> [d0,d1,d2]  d1: permutation, resized");
}

Test(op_movement, pad_refuses_contradictions)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,3");
    build_ints(&build, "pads", 3, (int64_t[]){1, 2, 3});
    build_node(&build, "Pad", "x pads", "y");
    refused("WRONG_PADS");
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2");
    build_ints(&build, "pads", 2, (int64_t[]){-2, -1});
    build_node(&build, "Pad", "x pads", "y");
    refused("NEGATIVE_DIMENSION");
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2");
    build_ints(&build, "pads", 2, (int64_t[]){INT64_MAX, INT64_MAX});
    build_node(&build, "Pad", "x pads", "y");
    infer(); /* no number, and no overflow */
    EXPECT_TYPE("y", "float32[?]");
    stop();
    start(18);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,3");
    build_ints(&build, "pads", 4, (int64_t[]){1, 1, 1, 1});
    build_ints(&build, "axes", 2, (int64_t[]){0, 0});
    build_node(&build, "Pad", "x pads - axes", "y");
    refused("AXIS_TWICE");
}

/* ---- Transpose, Tile ---- */

Test(op_movement, transpose_permutes)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "b,s,4,16");
    struct sp_node *node = build_node(&build, "Transpose", "x", "y");
    build_attr_ints(&build, node, "perm", 4, (int64_t[]){0, 2, 1, 3});
    build_node(&build, "Transpose", "x", "z");
    build_ints(&build, "v", 6, (int64_t[]){1, 2, 3, 4, 5, 6});
    build_ints(&build, "two", 2, (int64_t[]){2, 3});
    build_node(&build, "Reshape", "v two", "m");
    build_node(&build, "Transpose", "m", "t");
    infer();
    EXPECT_TYPE("y", "float32[b,4,s,16]");
    EXPECT_TYPE("z", "float32[16,4,s,b]");
    EXPECT_DATA("t", "1,4,2,5,3,6");
    EXPECT_RULE(node, "[d0,d1,d2,d3] -> [d0,d2,d1,d3]");
}

static void refuse_perm(uint32_t count, const int64_t *perm)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,3");
    build_attr_ints(&build, build_node(&build, "Transpose", "x", "y"), "perm", count, perm);
    refused("WRONG_PERMUTATION");
}

Test(op_movement, transpose_refuses_what_is_no_permutation)
{
    refuse_perm(1, (int64_t[]){0});
    refuse_perm(2, (int64_t[]){0, 0});
    refuse_perm(2, (int64_t[]){0, 2});
    refuse_perm(2, (int64_t[]){0, -1});
}

Test(op_movement, tile_repeats)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,n");
    build_shape_vector(&build, "r", "k,1");
    struct sp_node *node = build_node(&build, "Tile", "x r", "y");
    build_ints(&build, "v", 2, (int64_t[]){1, 2});
    build_ints(&build, "three", 1, (int64_t[]){3});
    build_node(&build, "Tile", "v three", "w");
    infer();
    EXPECT_TYPE("y", "float32[2*k,n]");
    EXPECT_DATA("w", "1,2,1,2,1,2");
    EXPECT_RULE(node, "[d0,d1] [_] -> [r0*d0,d1]");
    stop();

    start(5);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,3");
    build_ints(&build, "tiles", -1, (int64_t[]){4});
    build_ints(&build, "axis", -1, (int64_t[]){1});
    build_node(&build, "Tile", "x tiles axis", "y");
    infer();
    EXPECT_TYPE("y", "float32[2,12]");
    stop();

    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,3");
    build_ints(&build, "r", 1, (int64_t[]){2});
    build_node(&build, "Tile", "x r", "y");
    refused("SHAPES_DISAGREE");
}

/* ---- whatever a file may hold ---- */

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*state >> 33) % below;
}

static const int64_t numbers[] = {0,  1,    -1,        2,         -2,        3,         5,
                                  -7, 4096, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, INT64_MAX - 1};

static int64_t draw_number(uint64_t *state)
{
    return numbers[draw(state, draw(state, 3) == 0 ? sizeof(numbers) / sizeof(numbers[0]) : 8)];
}

static void draw_dims(uint64_t *state, char *text, size_t size)
{
    static const char *const pool[] = {"0", "1", "2", "3", "7", "n", "m", "?", "4611686018427387904", "4097"};
    text[0] = '\0';
    for (uint32_t axis = 0, rank = draw(state, 5); axis < rank; axis++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, size - used, "%s%s", axis == 0 ? "" : ",",
                       pool[draw(state, draw(state, 4) == 0 ? 10 : 7)]);
    }
}

static void draw_input(uint64_t *state, const char *name)
{
    char dims[128];
    int64_t values[8];
    int count = (int)draw(state, 5);
    for (int i = 0; i < 8; i++)
        values[i] = draw_number(state);
    draw_dims(state, dims, sizeof(dims));
    switch (draw(state, 6)) {
    case 0:
        build_input(&build, name, SP_DTYPE_FLOAT, dims);
        break;
    case 1:
        build_input(&build, name, SP_DTYPE_INT64, NULL);
        break;
    case 2:
        build_shape_vector(&build, name, dims);
        break;
    default:
        build_ints(&build, name, count == 0 ? -1 : count, values);
        break;
    }
}

/* Any operands give a type or an error that says what is wrong: no crash, no undefined behaviour (sanitizers watch), no
   rule that contradicts itself. */
Test(op_movement, random_operands_are_survived)
{
    static const char *const ops[] = {
        "Concat",    "Split",  "Slice",     "Gather", "GatherElements",  "GatherND", "ScatterElements",
        "ScatterND", "Pad",    "Transpose", "Tile",   "Reshape",         "Squeeze",  "Unsqueeze",
        "Flatten",   "Expand", "Range",     "Shape",  "ConstantOfShape", "Size",     "Identity",
    };
    static const char *const attributes[] = {"axis", "batch_dims", "allowzero", "num_outputs", "start"};
    static const char *const lists[] = {"axes", "perm", "split", "pads", "starts", "ends", "shape", "paddings"};
    static const int64_t versions[] = {1, 5, 9, 10, 11, 13, 18, 25};
    uint64_t state = 1;
    unsigned inferred = 0;
    for (int round = 0; round < 4000; round++) {
        int64_t values[4] = {draw_number(&state), draw_number(&state), draw_number(&state), draw_number(&state)};
        start(versions[draw(&state, 8)]);
        for (int i = 0; i < 4; i++)
            draw_input(&state, (const char *[]){"a", "b", "c", "d"}[i]);
        const char *op = ops[draw(&state, sizeof(ops) / sizeof(ops[0]))];
        const struct sp_op *entry = sp_op_find("", op, build.model->opsets[0].version);
        if (entry == NULL || entry->min_inputs > 4) {
            stop();
            continue;
        }
        uint32_t most = entry->max_inputs < 4 ? entry->max_inputs : 4;
        uint32_t inputs = entry->min_inputs + draw(&state, most - entry->min_inputs + 1);
        struct sp_node *node = build_node(&build, op, (const char *[]){"", "a", "a b", "a b c", "a b c d"}[inputs],
                                          entry->max_outputs > 1 ? "y z" : "y");
        build_attr_int(&build, node, attributes[draw(&state, 5)], values[0]);
        if (draw(&state, 2) == 0)
            build_attr_int(&build, node, "axis", draw(&state, 4));
        for (int i = 0; i < 3; i++)
            build_attr_ints(&build, node, lists[draw(&state, 8)], draw(&state, 5), values);
        enum sp_status status = build_infer(&build);
        cr_assert(status == SP_OK || status == SP_ERR_MODEL || status == SP_ERR_LIMIT, "%s: %s", op, build.err.message);
        struct sp_rule *rule = NULL;
        if (status == SP_OK) {
            inferred++;
            status = sp_op_rule(build.model, node, build.arena, &rule, &build.err);
            cr_assert_eq(status, SP_OK, "%s-%ld: %s", op, (long)node->version, build.err.message);
        }
        stop();
    }
    cr_expect_gt(inferred, 800);
}

/* ---- factors against elements ---- */

/* The place on `factor` of element `index` of an operand, or -1 when the operand does not hold the factor. */
static int64_t place_on(const struct sp_rule *rule, const struct sp_operand_rule *operand, const struct sp_shape *shape,
                        uint8_t factor, int64_t index)
{
    for (uint32_t axis = operand->rank; axis-- > 0;) {
        int64_t at = index % shape->dims[axis].value;
        index /= shape->dims[axis].value;
        for (uint32_t i = operand->axes[axis].count; i-- > 0;) {
            int64_t extent = rule->factors[operand->axes[axis].factors[i]].extent.value;
            if (operand->axes[axis].factors[i] == factor)
                return at % extent;
            at /= extent;
        }
    }
    return -1;
}

/* Elements of input 0 are numbered from 1, so the output's elements say where they come from. Along a parallel factor
   that both hold, an element may not change its place: else a device would need what another one has. */
static unsigned check_factors(struct sp_node *node, const char *what)
{
    struct sp_rule *rule = NULL;
    unsigned checked = 0;
    cr_assert_eq(sp_op_rule(build.model, node, build.arena, &rule, &build.err), SP_OK, "%s", build.err.message);
    const struct sp_value *from = node->inputs[0];
    for (uint32_t output = 0; output < node->output_count; output++) {
        const struct sp_value *to = node->outputs[output];
        cr_assert(to->data != NULL && to->data->ints != NULL, "%s", what);
        for (uint8_t factor = 0; factor < rule->factor_count; factor++) {
            if (rule->factors[factor].kind != SP_FACTOR_PARALLEL)
                continue;
            for (uint32_t i = 0; i < to->data->count; i++) {
                int64_t source = to->data->ints[i].value - 1;
                if (source < 0 || source >= from->data->count)
                    continue; /* padding, or from another input */
                int64_t before = place_on(rule, &rule->inputs[0], &from->type.shape, factor, source);
                int64_t after = place_on(rule, &rule->outputs[output], &to->type.shape, factor, i);
                cr_assert(before < 0 || after < 0 || before == after, "%s: %s moves along %s", what,
                          build_rule(&build, node), rule->factors[factor].name);
                checked += before >= 0 && after >= 0;
            }
        }
    }
    return checked;
}

/* An int64 tensor 1, 2, 3.. of a drawn shape; its elements. */
static int64_t draw_numbered(uint64_t *state, const char *name, uint32_t rank, int64_t *dims)
{
    char text[128] = "";
    int64_t count = 1;
    for (uint32_t axis = 0; axis < rank; axis++) {
        size_t used = strlen(text);
        dims[axis] = (int64_t)draw(state, 6) + 1;
        count *= dims[axis];
        (void)snprintf(text + used, sizeof(text) - used, "%s%d", axis == 0 ? "" : ",", (int)dims[axis]);
    }
    struct sp_value *value = build_input(&build, name, SP_DTYPE_INT64, text);
    value->data = SP_NEW(build.arena, struct sp_data);
    value->data->count = (uint32_t)count;
    value->data->ints = SP_NEW_ARRAY(build.arena, (size_t)count, struct sp_dim);
    for (int64_t i = 0; i < count; i++)
        value->data->ints[i] = sp_dim_known(i + 1);
    return count;
}

/* `count` as a product of `parts` drawn numbers. */
static void draw_product(uint64_t *state, int64_t count, int parts, int64_t *ret_dims)
{
    for (int i = 0; i < parts; i++) {
        int64_t divisor = i == parts - 1 ? count : (int64_t)draw(state, 12) + 1;
        while (count % divisor != 0)
            divisor--;
        ret_dims[i] = divisor;
        count /= divisor;
    }
}

static struct sp_node *draw_movement(uint64_t *state, int64_t *dims, int64_t count)
{
    int64_t list[4], axis = draw(state, 3), other[] = {0, 0, 0, 0, 0, 0}, drawn[3];
    struct sp_node *node = NULL;
    switch (draw(state, 8)) {
    case 0:
        draw_product(state, count, 4, list);
        build_ints(&build, "s", 4, list);
        return build_node(&build, "Reshape", "x s", "y");
    case 1:
        list[0] = draw(state, 3);
        list[1] = (list[0] + 1 + draw(state, 2)) % 3;
        list[2] = 3 - list[0] - list[1];
        node = build_node(&build, "Transpose", "x", "y");
        build_attr_ints(&build, node, "perm", 3, list);
        return node;
    case 2:
        build_ints(&build, "from", 1, (int64_t[]){draw(state, 3)});
        build_ints(&build, "to", 1, (int64_t[]){4});
        build_ints(&build, "axes", 1, &axis);
        return build_node(&build, "Slice", "x from to axes", "y");
    case 3:
        build_ints(&build, "i", 2, (int64_t[]){draw(state, (uint32_t)dims[axis]), 0});
        node = build_node(&build, "Gather", "x i", "y");
        build_attr_int(&build, node, "axis", axis);
        return node;
    case 4:
        other[axis] = draw(state, 3);
        other[axis + 3] = 1;
        build_ints(&build, "pads", 6, other);
        return build_node(&build, "Pad", "x pads", "y");
    case 5:
        for (int i = 0; i < 3; i++)
            list[i] = (int64_t)draw(state, 2) + 1;
        build_ints(&build, "r", 3, list);
        return build_node(&build, "Tile", "x r", "y");
    case 6:
        build_ints(&build, "s", 4, (int64_t[]){2, 1, dims[1], 1});
        return build_node(&build, "Expand", "x s", "y");
    default:
        memcpy(drawn, dims, sizeof(drawn));
        build_ints(&build, "s", 2, (int64_t[]){1, drawn[axis] - 1});
        node = build_node(&build, "Split", "x s", "y z");
        build_attr_int(&build, node, "axis", axis);
        return node;
    }
}

Test(op_movement, parallel_factors_keep_elements_in_place)
{
    uint64_t state = 3;
    unsigned checked = 0;
    for (int round = 0; round < 1500; round++) {
        int64_t dims[3];
        start(13);
        int64_t count = draw_numbered(&state, "x", 3, dims);
        struct sp_node *node = draw_movement(&state, dims, count);
        if (build_infer(&build) == SP_OK) {
            checked += check_factors(node, node->op_type);
        } else {
            cr_assert_eq(build.err.status, SP_ERR_MODEL, "%s",
                         build.err.message); /* a split of 1 into 1 and 0 - 1 .. */
        }
        stop();
    }
    cr_expect_gt(checked, 50000);
}
