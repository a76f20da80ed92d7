/* Reduce..., ArgMax, ArgMin. Expected values follow ONNX' Operators.md and Changelog.md. */
#include "expect_op.h"

TestSuite(op_reduction, .fini = stop);

Test(op_reduction, axes_are_an_attribute_and_later_an_input)
{
    start(13);
    input("x", "n,3,4");
    build_ints(&build, "axes", 1, (int64_t[]){-1});
    struct sp_node *mean = build_node(&build, "ReduceMean", "x", "y");
    build_attr_ints(&build, mean, "axes", 2, (int64_t[]){0, 2});
    struct sp_node *sum = build_node(&build, "ReduceSum", "x axes", "z");
    build_attr_int(&build, sum, "keepdims", 0);
    infer();
    EXPECT_TYPE("y", "float32[1,3,1]");
    EXPECT_TYPE("z", "float32[n,3]");
    EXPECT_RULE(mean, "[d0,d1,d2] -> [_,d1,_]  d0: sum reduction; d2: sum reduction");
    EXPECT_RULE(sum, "[d0,d1,d2] [_] -> [d0,d1]  d2: sum reduction");
    stop();
    start(18);
    input("x", "n,3,4");
    build_ints(&build, "axes", 1, (int64_t[]){1});
    struct sp_node *max = build_node(&build, "ReduceMax", "x axes", "y");
    infer();
    EXPECT_TYPE("y", "float32[n,1,4]");
    EXPECT_RULE(max, "[d0,d1,d2] [_] -> [d0,_,d2]  d1: max reduction");
}

Test(op_reduction, no_axes_mean_all_or_none)
{
    start(18);
    input("x", "2,3");
    struct sp_node *all = build_node(&build, "ReduceProd", "x", "y");
    build_attr_int(&build, all, "keepdims", 0);
    build_ints(&build, "none", 0, NULL);
    struct sp_node *noop = build_node(&build, "ReduceSum", "x none", "z");
    build_attr_int(&build, noop, "noop_with_empty_axes", 1);
    infer();
    EXPECT_TYPE("y", "float32[]");
    EXPECT_TYPE("z", "float32[2,3]");
    EXPECT_RULE(all, "[d0,d1] -> []  d0: product reduction; d1: product reduction");
    EXPECT_FLOPS(all, 6);
}

Test(op_reduction, axes_of_the_run_leave_the_rank_at_best)
{
    start(18);
    input("x", "2,3,4");
    build_input(&build, "axes", SP_DTYPE_INT64, "1");
    build_input(&build, "some", SP_DTYPE_INT64, "k");
    struct sp_node *keep = build_node(&build, "ReduceMin", "x axes", "a");
    struct sp_node *drop = build_node(&build, "ReduceMin", "x axes", "b");
    build_attr_int(&build, drop, "keepdims", 0);
    struct sp_node *some = build_node(&build, "ReduceMin", "x some", "c");
    build_attr_int(&build, some, "keepdims", 0);
    infer();
    EXPECT_TYPE("a", "float32[?,?,?]");
    EXPECT_TYPE("b", "float32[?,?]");
    EXPECT_TYPE("c", "float32[*]");
    EXPECT_RULE(keep, "[d0,d1,d2] [_] -> [_,_,_]  d0: replicate; d1: replicate; d2: replicate");
}

Test(op_reduction, bad_axes_are_refused)
{
    static const int64_t axes[][2] = {{0, 3}, {0, -4}, {1, -2}, {INT64_MIN, 0}};
    static const char *const codes[] = {"AXIS_OUT_OF_RANGE", "AXIS_OUT_OF_RANGE", "AXIS_TWICE", "AXIS_OUT_OF_RANGE"};
    for (size_t i = 0; i < 4; i++) {
        start(11);
        input("x", "2,3,4");
        build_attr_ints(&build, build_node(&build, "ReduceL2", "x", "y"), "axes", 2, axes[i]);
        refused(codes[i]);
    }
    start(11);
}

Test(op_reduction, combiners)
{
    static const char *const names[] = {"ReduceL1",        "ReduceL2",  "ReduceLogSum", "ReduceSumSquare",
                                        "ReduceLogSumExp", "ReduceMin", "ReduceMean"};
    static const char *const combiners[] = {"sum", "sum", "sum", "sum", "softmax", "min", "sum"};
    char want[64];
    for (size_t i = 0; i < 7; i++) {
        start(11);
        input("x", "2,3");
        struct sp_node *node = build_node(&build, names[i], "x", "y");
        build_attr_ints(&build, node, "axes", 1, (int64_t[]){1});
        infer();
        (void)snprintf(want, sizeof(want), "[d0,d1] -> [d0,_]  d1: %s reduction", combiners[i]);
        EXPECT_RULE(node, want);
        stop();
    }
    start(11);
}

Test(op_reduction, elements_of_shapes_are_reduced)
{
    start(13);
    build_shape_vector(&build, "s", "2,n,5");
    build_shape_vector(&build, "t", "7,3,5");
    build_node(&build, "ReduceProd", "s", "product");
    build_node(&build, "ReduceSum", "s", "sum");
    build_node(&build, "ReduceMax", "t", "max");
    build_node(&build, "ReduceMin", "t", "min");
    build_node(&build, "ReduceMean", "t", "mean");
    infer();
    EXPECT_DATA("product", "10*n");
    EXPECT_DATA("sum", "n + 7");
    EXPECT_DATA("max", "7");
    EXPECT_DATA("min", "3");
    EXPECT_DATA("mean", "5");
}

Test(op_reduction, elements_are_reduced_along_their_axes)
{
    start(13);
    struct sp_value *x = build_shape_vector(&build, "x", "1,2,3,4,5,6");
    struct sp_dim dims[] = {sp_dim_known(2), sp_dim_known(3)};
    x->type.shape = (struct sp_shape){.has_rank = true, .rank = 2, .dims = dims};
    build_ints(&build, "first", 1, (int64_t[]){0});
    build_ints(&build, "last", 1, (int64_t[]){1});
    build_node(&build, "ReduceSum", "x first", "columns");
    build_node(&build, "ReduceSum", "x last", "rows");
    infer();
    EXPECT_DATA("columns", "5,7,9");
    EXPECT_DATA("rows", "6,15");
}

Test(op_reduction, positions_of_extremes)
{
    start(13);
    input("x", "2,n,4");
    struct sp_node *keep = build_node(&build, "ArgMax", "x", "a");
    struct sp_node *drop = build_node(&build, "ArgMin", "x", "b");
    build_attr_int(&build, drop, "axis", -2);
    build_attr_int(&build, drop, "keepdims", 0);
    infer();
    EXPECT_TYPE("a", "int64[1,n,4]");
    EXPECT_TYPE("b", "int64[2,4]");
    EXPECT_RULE(keep, "[d0,d1,d2] -> [_,d1,d2]@d0  d0: select reduction");
    EXPECT_RULE(drop, "[d0,d1,d2] -> [d0,d2]@d1  d1: select reduction");
}

Test(op_reduction, positions_of_known_extremes)
{
    start(13);
    build_ints(&build, "x", 5, (int64_t[]){2, 7, 7, 1, 1});
    build_node(&build, "ArgMax", "x", "first");
    build_attr_int(&build, build_node(&build, "ArgMax", "x", "last"), "select_last_index", 1);
    build_attr_int(&build, build_node(&build, "ArgMin", "x", "least"), "keepdims", 0);
    infer();
    EXPECT_DATA("first", "1");
    EXPECT_DATA("last", "2");
    EXPECT_DATA("least", "3");
    EXPECT_TYPE("least", "int64[]");
}
