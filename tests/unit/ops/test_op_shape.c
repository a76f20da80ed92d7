/* Shape, Size, Constant, ConstantOfShape, Range, Expand, Reshape, Squeeze, Unsqueeze, Flatten, Identity, Cast. Expected
   values follow the operators' descriptions in ONNX' Operators.md. */
#include <criterion/criterion.h>

#include "expect_op.h"

#define EXPECT_TYPE(name, text) cr_expect_str_eq(build_type(&build, name), text, "%s", build_type(&build, name))
#define EXPECT_DATA(name, text) cr_expect_str_eq(build_data(&build, name), text, "%s", build_data(&build, name))
#define EXPECT_RULE(node, text) cr_expect_str_eq(build_rule(&build, node), text, "%s", build_rule(&build, node))

TestSuite(op_shape, .fini = stop);

Test(op_shape, shape_and_size_give_symbols)
{
    start(15);
    build_input(&build, "x", SP_DTYPE_FLOAT, "batch,seq,64,?");
    struct sp_node *shape = build_node(&build, "Shape", "x", "s");
    struct sp_node *part = build_node(&build, "Shape", "x", "p"), *none = build_node(&build, "Shape", "x", "e");
    build_attr_int(&build, part, "start", -3);
    build_attr_int(&build, part, "end", 100);
    build_attr_int(&build, none, "start", 3);
    build_attr_int(&build, none, "end", -4);
    build_input(&build, "y", SP_DTYPE_FLOAT, "batch,seq,64");
    build_node(&build, "Size", "y", "n");
    infer();
    EXPECT_TYPE("s", "int64[4]");
    EXPECT_DATA("s", "batch,seq,64,?");
    EXPECT_DATA("p", "seq,64,?");
    EXPECT_TYPE("e", "int64[0]");
    EXPECT_DATA("n", "64*batch*seq");
    EXPECT_RULE(shape, "[d0,d1,d2,d3] -> [_]");
}

/* `start` came with opset 15: before it the attribute means nothing. */
Test(op_shape, shape_before_15_is_whole)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,3");
    build_attr_int(&build, build_node(&build, "Shape", "x", "s"), "start", 1);
    infer();
    EXPECT_DATA("s", "2,3");
}

Test(op_shape, constant_has_every_value_attribute)
{
    start(13);
    build_attr_float(&build, build_node(&build, "Constant", "", "f"), "value_float", 0.5);
    build_attr_floats(&build, build_node(&build, "Constant", "", "fs"), "value_floats", 2, (double[]){0.5, 1});
    build_attr_int(&build, build_node(&build, "Constant", "", "i"), "value_int", -7);
    build_attr_ints(&build, build_node(&build, "Constant", "", "is"), "value_ints", 3, (int64_t[]){1, 2, 3});
    build_attr_string(&build, build_node(&build, "Constant", "", "t"), "value_string", "text");
    infer();
    EXPECT_TYPE("f", "float32[]");
    EXPECT_DATA("f", "0.5");
    EXPECT_TYPE("fs", "float32[2]");
    EXPECT_DATA("fs", "0.5,1");
    EXPECT_TYPE("i", "int64[]");
    EXPECT_DATA("i", "-7");
    EXPECT_TYPE("is", "int64[3]");
    EXPECT_DATA("is", "1,2,3");
    EXPECT_TYPE("t", "string[]");
}

Test(op_shape, constant_needs_exactly_one_value)
{
    start(13);
    build_node(&build, "Constant", "", "c");
    refused("CONSTANT_WITHOUT_VALUE");
    stop();
    start(13);
    struct sp_node *node = build_node(&build, "Constant", "", "c");
    build_attr_int(&build, node, "value_int", 1);
    build_attr_float(&build, node, "value_float", 1);
    refused("CONSTANT_WITH_TWO_VALUES");
}

Test(op_shape, constant_of_shape_takes_symbols_and_lengths)
{
    start(9);
    build_shape_vector(&build, "s", "batch,3,?");
    build_node(&build, "ConstantOfShape", "s", "y");
    build_input(&build, "t", SP_DTYPE_INT64, "2");
    build_node(&build, "ConstantOfShape", "t", "z");
    build_ints(&build, "u", 2, (int64_t[]){2, 2});
    struct sp_node *node = build_node(&build, "ConstantOfShape", "u", "w");
    infer();
    EXPECT_TYPE("y", "float32[batch,3,?]");
    EXPECT_TYPE("z", "float32[?,?]");
    EXPECT_DATA("w", "0,0,0,0");
    EXPECT_RULE(node, "[_] -> [d0,d1]");
}

Test(op_shape, constant_of_shape_refuses_negative_extents)
{
    start(9);
    build_ints(&build, "s", 2, (int64_t[]){2, -2});
    build_node(&build, "ConstantOfShape", "s", "y");
    refused("NEGATIVE_DIMENSION");
}

Test(op_shape, range_counts_in_numbers_and_symbols)
{
    start(11);
    build_ints(&build, "0", -1, (int64_t[]){0});
    build_ints(&build, "2", -1, (int64_t[]){2});
    build_ints(&build, "-3", -1, (int64_t[]){-3});
    build_ints(&build, "10", -1, (int64_t[]){10});
    build_input(&build, "x", SP_DTYPE_FLOAT, "n");
    build_node(&build, "Size", "x", "n");
    build_input(&build, "m", SP_DTYPE_INT64, "");
    build_node(&build, "Range", "2 10 2", "up");
    build_node(&build, "Range", "10 0 -3", "down");
    build_node(&build, "Range", "10 0 2", "empty");
    build_node(&build, "Range", "0 n 2", "half");
    build_node(&build, "Range", "0 m 2", "open");
    build_floats(&build, "f0", -1, (float[]){0});
    build_floats(&build, "f1", -1, (float[]){1});
    build_floats(&build, "f3", -1, (float[]){0.3F});
    build_node(&build, "Range", "f0 f1 f3", "reals");
    infer();
    EXPECT_DATA("up", "2,4,6,8");
    EXPECT_DATA("down", "10,7,4,1");
    EXPECT_TYPE("empty", "int64[0]");
    EXPECT_TYPE("half", "int64[ceildiv(n, 2)]");
    EXPECT_TYPE("open", "int64[Range_4]");
    EXPECT_TYPE("reals", "float32[4]");
}

Test(op_shape, range_refuses_a_zero_step)
{
    start(11);
    build_ints(&build, "0", -1, (int64_t[]){0});
    build_node(&build, "Range", "0 0 0", "r");
    refused("ZERO_STEP");
}

Test(op_shape, expand_broadcasts_both_ways)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "3,1");
    build_shape_vector(&build, "s", "batch,1,n");
    struct sp_node *node = build_node(&build, "Expand", "x s", "y");
    build_ints(&build, "c", 2, (int64_t[]){1, 2});
    build_ints(&build, "t", 2, (int64_t[]){2, 2});
    build_node(&build, "Expand", "c t", "d");
    infer();
    EXPECT_TYPE("y", "float32[batch,3,n]");
    EXPECT_DATA("d", "1,2,1,2");
    EXPECT_RULE(node, "[d1,_] [_] -> [d0,d1,d2]");
}

Test(op_shape, expand_refuses_what_does_not_broadcast)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "3");
    build_ints(&build, "s", 1, (int64_t[]){4});
    build_node(&build, "Expand", "x s", "y");
    refused("CANNOT_BROADCAST");
}

/* ---- Reshape ---- */

static void expect_reshape(const char *from, const char *shape, const char *expected, const char *rule)
{
    char text[256];
    start(14);
    build_input(&build, "x", SP_DTYPE_FLOAT, from);
    build_shape_vector(&build, "s", shape);
    struct sp_node *node = build_node(&build, "Reshape", "x s", "y");
    infer();
    (void)snprintf(text, sizeof(text), "float32[%s]", expected);
    cr_expect_str_eq(build_type(&build, "y"), text, "%s -> %s gave %s", from, shape, build_type(&build, "y"));
    if (rule != NULL)
        cr_expect_str_eq(build_rule(&build, node), rule, "%s -> %s gave %s", from, shape, build_rule(&build, node));
    stop();
}

Test(op_shape, reshape_extents)
{
    expect_reshape("2,3,4", "4,-1", "4,6", NULL);
    expect_reshape("2,3,4", "0,-1", "2,12", NULL);
    expect_reshape("2,3,4", "0,0,2,-1", "2,3,2,2", NULL);
    expect_reshape("batch,seq,64", "0,0,4,16", "batch,seq,4,16", NULL);
    expect_reshape("batch,seq,64", "-1,64", "batch*seq,64", NULL);
    expect_reshape("batch,seq,64", "batch,seq,4,-1", "batch,seq,4,16", NULL);
    expect_reshape("?,12,64", "0,-1", "?,768", NULL);          /* the unknown axis is copied, so it cancels */
    expect_reshape("batch,12,64", "?,768", "batch,768", NULL); /* one unknown element follows from the rest */
    expect_reshape("h,6", "-1,4", "floordiv(6*h, 4),4", NULL); /* a valid run has h even */
    expect_reshape("0,3", "-1,3", "0,3", NULL);
    expect_reshape("1", "", "", NULL);
}

/* Source of the factors: reshape cases of Shardy's op_sharding_rule_registry test ("[6,4] -> [4,6]" is
   ([ij, mn])->([ik, ln])), whose need for replication in the middle is made explicit here. */
Test(op_shape, reshape_factors)
{
    expect_reshape("8,4,5", "2,16,5", "2,16,5", "[r0*r1,r2,r3] [_] -> [r0,r1*r2,r3]");
    expect_reshape("2,16,5", "8,4,5", "8,4,5", "[r0,r1*r2,r3] [_] -> [r0*r1,r2,r3]");
    expect_reshape("6,4", "4,6", "4,6",
                   "[r0*r2,r3*r1] [_] -> [r0*r4,r5*r1]  r2: replicate; r3: replicate; r4: replicate; r5: replicate");
    expect_reshape("2,3,8", "3,4,4", "3,4,4",
                   "[r2,r3,r1*r0] [_] -> [r4,r5*r1,r0]  r2: replicate; r3: replicate; r4: replicate; r5: replicate");
    expect_reshape("batch,seq,64", "batch,seq,4,16", "batch,seq,4,16", "[r0,r1,r2*r3] [_] -> [r0,r1,r2,r3]");
    expect_reshape("batch,seq,64", "-1,64", "batch*seq,64", "[r0,r1,r2] [_] -> [r0*r1,r2]");
    expect_reshape("2,1,3", "1,6", "1,6", "[r0,_,r1] [_] -> [_,r0*r1]");
    /* Behind axes whose places differ, both sides are in step again. */
    expect_reshape("2,3,5,7,11", "3,2,55,7", "3,2,55,7",
                   "[r0,r1,r4,r5,r6] [_] -> [r2,r3,r4*r7,r8]  r0: replicate; r1: replicate; r2: replicate; "
                   "r3: replicate; r5: replicate; r6: replicate; r7: replicate; r8: replicate");
    expect_reshape("2,3,n,4", "3,2,n,2,2", "3,2,n,2,2",
                   "[r3,r4,r2,r1*r0] [_] -> [r5,r6,r2,r1,r0]  r3: replicate; r4: replicate; r5: replicate; "
                   "r6: replicate");
}

static void refuse_reshape(const char *from, const char *shape, int64_t allow_zero)
{
    start(14);
    build_input(&build, "x", SP_DTYPE_FLOAT, from);
    build_shape_vector(&build, "s", shape);
    build_attr_int(&build, build_node(&build, "Reshape", "x s", "y"), "allowzero", allow_zero);
    refused("CANNOT_RESHAPE");
    stop();
}

Test(op_shape, reshape_refuses_contradictions)
{
    refuse_reshape("2,3", "-1,-1", 0);
    refuse_reshape("2,3", "4,-1", 0);
    refuse_reshape("2,3", "7", 0);
    refuse_reshape("2,3", "-2,3", 0);
    refuse_reshape("2,3", "2,3,0", 0);
    refuse_reshape("2,3", "0,3", 1); /* a literal zero */
    refuse_reshape("2,3", "9223372036854775807,-1", 0);
}

Test(op_shape, reshape_before_5_has_an_attribute)
{
    start(1);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,6");
    build_attr_ints(&build, build_node(&build, "Reshape", "x", "y"), "shape", 2, (int64_t[]){0, -1});
    infer();
    EXPECT_TYPE("y", "float32[2,6]");
}

Test(op_shape, reshape_by_a_shape_of_known_length_only)
{
    start(14);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,6");
    build_input(&build, "s", SP_DTYPE_INT64, "3");
    struct sp_node *node = build_node(&build, "Reshape", "x s", "y");
    infer();
    EXPECT_TYPE("y", "float32[?,?,?]");
    cr_expect_neq(strcmp(build_rule(&build, node), ""), 0);
}

/* ---- Squeeze, Unsqueeze, Flatten, Identity, Cast ---- */

Test(op_shape, squeeze_and_unsqueeze_as_attributes_and_inputs)
{
    start(11);
    build_input(&build, "x", SP_DTYPE_FLOAT, "1,n,1,4");
    struct sp_node *squeeze = build_node(&build, "Squeeze", "x", "y");
    build_attr_ints(&build, squeeze, "axes", 2, (int64_t[]){0, -2});
    struct sp_node *unsqueeze = build_node(&build, "Unsqueeze", "y", "z");
    build_attr_ints(&build, unsqueeze, "axes", 2, (int64_t[]){0, -1});
    infer();
    EXPECT_TYPE("y", "float32[n,4]");
    EXPECT_TYPE("z", "float32[1,n,4,1]");
    EXPECT_RULE(squeeze, "[_,r0,_,r1] -> [r0,r1]");
    EXPECT_RULE(unsqueeze, "[r0,r1] -> [_,r0,r1,_]");
    stop();

    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "1,3,1,4");
    build_node(&build, "Squeeze", "x", "all");
    build_ints(&build, "axes", 1, (int64_t[]){2});
    build_node(&build, "Squeeze", "x axes", "one");
    build_node(&build, "Unsqueeze", "x axes", "more");
    build_input(&build, "open", SP_DTYPE_INT64, "1");
    build_node(&build, "Squeeze", "x open", "some");
    infer();
    EXPECT_TYPE("all", "float32[3,4]");
    EXPECT_TYPE("one", "float32[1,3,4]");
    EXPECT_TYPE("more", "float32[1,3,1,1,4]");
    EXPECT_TYPE("some", "float32[?,?,?]");
}

/* Whether n is 1 decides the rank. */
Test(op_shape, squeeze_all_of_a_symbol_has_no_rank)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "1,n");
    build_node(&build, "Squeeze", "x", "y");
    infer();
    EXPECT_TYPE("y", "float32[*]");
}

static void refuse_axes(const char *op, const char *dims, uint32_t count, const int64_t *axes, const char *code)
{
    start(11);
    build_input(&build, "x", SP_DTYPE_FLOAT, dims);
    build_attr_ints(&build, build_node(&build, op, "x", "y"), "axes", count, axes);
    refused(code);
    stop();
}

Test(op_shape, axes_are_checked)
{
    refuse_axes("Squeeze", "1,1", 1, (int64_t[]){2}, "AXIS_OUT_OF_RANGE");
    refuse_axes("Squeeze", "1,1", 1, (int64_t[]){INT64_MIN}, "AXIS_OUT_OF_RANGE");
    refuse_axes("Squeeze", "1,1", 2, (int64_t[]){1, -1}, "AXIS_TWICE");
    refuse_axes("Squeeze", "1,2", 1, (int64_t[]){1}, "CANNOT_SQUEEZE");
    refuse_axes("Unsqueeze", "2", 1, (int64_t[]){2}, "AXIS_OUT_OF_RANGE");
    refuse_axes("Unsqueeze", "2", 2, (int64_t[]){0, -3}, "AXIS_TWICE");
}

Test(op_shape, flatten_joins_two_groups)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,n,4,5");
    struct sp_node *node = build_node(&build, "Flatten", "x", "y"), *back = build_node(&build, "Flatten", "x", "z");
    build_attr_int(&build, back, "axis", -2);
    build_attr_int(&build, build_node(&build, "Flatten", "x", "w"), "axis", 0);
    build_attr_int(&build, build_node(&build, "Flatten", "x", "v"), "axis", 4);
    infer();
    EXPECT_TYPE("y", "float32[2,20*n]");
    EXPECT_TYPE("z", "float32[2*n,20]");
    EXPECT_TYPE("w", "float32[1,40*n]");
    EXPECT_TYPE("v", "float32[40*n,1]");
    EXPECT_RULE(node, "[r0,r1,r2,r3] -> [r0,r1*r2*r3]");
    stop();
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,3");
    build_attr_int(&build, build_node(&build, "Flatten", "x", "y"), "axis", 3);
    refused("AXIS_OUT_OF_RANGE");
}

Test(op_shape, views_move_no_bytes)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,3");
    struct sp_node *node = build_node(&build, "Identity", "x", "y");
    infer();
    EXPECT_TYPE("y", "float32[2,3]");
    EXPECT_RULE(node, "[d0,d1] -> [d0,d1]");
    struct sp_rule *rule = NULL;
    cr_assert_eq(sp_op_rule(build.model, node, build.arena, &rule, &build.err), SP_OK);
    cr_expect_eq(rule->bytes, 0);
    cr_expect_eq(sp_rule_flops(rule, NULL), 0);
}

Test(op_shape, cast_converts_elements)
{
    start(13);
    build_floats(&build, "f", 4, (float[]){-1.5F, 0, 2.9F, 300});
    build_attr_int(&build, build_node(&build, "Cast", "f", "i"), "to", SP_DTYPE_INT64);
    build_attr_int(&build, build_node(&build, "Cast", "f", "b"), "to", SP_DTYPE_BOOL);
    build_attr_int(&build, build_node(&build, "Cast", "f", "u"), "to", SP_DTYPE_UINT8);
    build_attr_int(&build, build_node(&build, "Cast", "f", "h"), "to", SP_DTYPE_FLOAT16);
    build_shape_vector(&build, "s", "n,3");
    build_attr_int(&build, build_node(&build, "Cast", "s", "n"), "to", SP_DTYPE_INT32);
    infer();
    EXPECT_DATA("i", "-1,0,2,300");
    EXPECT_DATA("b", "1,0,1,1");
    EXPECT_DATA("u", "?,0,2,?"); /* out of range: what a runtime gives is not defined */
    EXPECT_TYPE("h", "float16[4]");
    EXPECT_DATA("h", "none");
    EXPECT_DATA("n", "n,3");
}

Test(op_shape, cast_1_names_its_type)
{
    start(1);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2");
    build_attr_string(&build, build_node(&build, "Cast", "x", "y"), "to", "INT64");
    infer();
    EXPECT_TYPE("y", "int64[2]");
    stop();
    start(1);
    build_input(&build, "x", SP_DTYPE_FLOAT, "2");
    build_attr_string(&build, build_node(&build, "Cast", "x", "y"), "to", "NOTHING");
    refused("UNKNOWN_DATA_TYPE");
}
