/* Elementwise operators of one tensor, Clip and Dropout. Expected values follow ONNX' Operators.md and Changelog.md. */
#include "expect_op.h"

TestSuite(op_unary, .fini = stop);

/* A shape vector through an operator. */
static const char *of_shape(const char *op_type, const char *elements)
{
    start(18);
    build_shape_vector(&build, "s", elements);
    build_node(&build, op_type, "s", "y");
    infer();
    return build_data(&build, "y");
}

Test(op_unary, every_axis_is_parallel)
{
    start(16);
    input("x", "n,3,1,?");
    struct sp_node *node = build_node(&build, "Relu", "x", "y");
    infer();
    EXPECT_TYPE("y", "float32[n,3,1,?]");
    EXPECT_RULE(node, "[d0,d1,d2,d3] -> [d0,d1,d2,d3]");
}

Test(op_unary, one_flop_for_each_element)
{
    static const char *const names[] = {"Erf", "Sigmoid", "Tanh", "Sqrt", "Exp", "HardSwish", "Elu", "Softplus"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        start(16);
        input("x", "2,3,4");
        struct sp_node *node = build_node(&build, names[i], "x", "y");
        infer();
        EXPECT_FLOPS(node, 24);
        stop();
    }
    start(16); /* for .fini */
}

Test(op_unary, tests_give_bool)
{
    start(16);
    input("x", "n");
    build_node(&build, "IsNaN", "x", "a");
    build_node(&build, "Not", "a", "b");
    infer();
    EXPECT_TYPE("a", "bool[n]");
    EXPECT_TYPE("b", "bool[n]");
}

Test(op_unary, an_unknown_rank_stays_unknown)
{
    start(16);
    input("x", NULL);
    build_node(&build, "Neg", "x", "y");
    infer();
    EXPECT_TYPE("y", "float32[*]");
}

Test(op_unary, integers_are_computed)
{
    cr_expect_str_eq(of_shape("Neg", "3,-2,0,?"), "-3,2,0,?");
    stop();
    cr_expect_str_eq(of_shape("Abs", "3,-2,n"), "3,2,n");
    stop();
    cr_expect_str_eq(of_shape("Relu", "3,-2,n"), "3,0,n");
    stop();
    cr_expect_str_eq(of_shape("Sign", "3,-2,0,n"), "1,-1,0,?"); /* n may be 0 */
}

Test(op_unary, reals_are_computed)
{
    start(13);
    build_floats(&build, "x", 4, (float[]){2.5F, -2.5F, 0.25F, 9});
    build_node(&build, "Floor", "x", "floor");
    build_node(&build, "Ceil", "x", "ceil");
    build_node(&build, "Round", "x", "round"); /* halves to even */
    build_node(&build, "Abs", "x", "abs");
    build_node(&build, "Sqrt", "abs", "sqrt");
    build_node(&build, "Reciprocal", "x", "one_over");
    infer();
    EXPECT_DATA("floor", "2,-3,0,9");
    EXPECT_DATA("ceil", "3,-2,1,9");
    EXPECT_DATA("round", "2,-2,0,9");
    EXPECT_DATA("sqrt", "1.58114,1.58114,0.5,3");
    EXPECT_DATA("one_over", "0.4,-0.4,4,0.111111");
}

Test(op_unary, clip_has_attributes_and_later_inputs)
{
    start(10);
    input("x", "2,3");
    struct sp_node *node = build_node(&build, "Clip", "x", "y");
    build_attr_float(&build, node, "min", 0);
    infer();
    EXPECT_TYPE("y", "float32[2,3]");
    stop();

    start(13);
    build_shape_vector(&build, "s", "5,-5,n");
    build_ints(&build, "low", -1, (int64_t[]){1});
    build_ints(&build, "high", -1, (int64_t[]){4});
    node = build_node(&build, "Clip", "s low high", "y");
    build_node(&build, "Clip", "s - high", "z");
    infer();
    EXPECT_DATA("z", "4,-5,min(n, 4)");
    EXPECT_RULE(node, "[d0] [] [] -> [d0]");
    cr_expect_eq(build_value(&build, "y")->data->ints[0].value, 4);
    cr_expect_eq(build_value(&build, "y")->data->ints[1].value, 1);
}

Test(op_unary, dropout_is_the_identity_unless_it_trains)
{
    start(13);
    input("x", "4,8");
    build_floats(&build, "ratio", -1, (float[]){0.5F});
    build_input(&build, "mode", SP_DTYPE_BOOL, "");
    struct sp_node *plain = build_node(&build, "Dropout", "x ratio", "y");
    struct sp_node *masked = build_node(&build, "Dropout", "x", "z mask");
    struct sp_node *training = build_node(&build, "Dropout", "x ratio mode", "t");
    build_floats(&build, "nothing", -1, (float[]){0});
    struct sp_node *dropping_nothing = build_node(&build, "Dropout", "x nothing mode", "u");
    struct sp_node *unread = build_node(&build, "Dropout", "x", "v unread");
    build_outputs(&build, "mask");
    infer();
    EXPECT_TYPE("mask", "bool[4,8]");
    EXPECT_FLOPS(plain, 0);
    EXPECT_FLOPS(training, 32);
    EXPECT_FLOPS(dropping_nothing, 0);
    EXPECT_RULE(masked, "[d0,d1] -> [d0,d1] [d0,d1]");
    struct sp_rule *rule = NULL;
    cr_assert_eq(sp_op_rule(build.model, plain, build.arena, &rule, &build.err), SP_OK);
    cr_expect_eq(rule->bytes, 0);
    cr_assert_eq(sp_op_rule(build.model, masked, build.arena, &rule, &build.err), SP_OK);
    cr_expect_eq(rule->bytes, 32); /* the mask is written */
    cr_assert_eq(sp_op_rule(build.model, unread, build.arena, &rule, &build.err), SP_OK);
    cr_expect_eq(rule->bytes, 0);
}

Test(op_unary, the_mask_of_old_dropouts_has_the_type_of_the_data)
{
    start(9);
    input("x", "4");
    build_node(&build, "Dropout", "x", "y mask");
    infer();
    EXPECT_TYPE("mask", "float32[4]");
}

Test(op_unary, clip_of_known_reals)
{
    start(13);
    build_floats(&build, "x", 3, (float[]){-2, 0.5F, 9});
    build_floats(&build, "low", -1, (float[]){-1});
    build_floats(&build, "high", -1, (float[]){2});
    build_node(&build, "Clip", "x low high", "y");
    build_node(&build, "Clip", "x high low", "crossed"); /* the greatest wins */
    build_node(&build, "Clip", "x - high", "upper");
    infer();
    EXPECT_DATA("y", "-1,0.5,2");
    EXPECT_DATA("crossed", "-1,-1,-1");
    EXPECT_DATA("upper", "-2,0.5,2");
    stop();
    start(6);
    build_floats(&build, "x", 2, (float[]){-2, 9});
    struct sp_node *node = build_node(&build, "Clip", "x", "y");
    build_attr_float(&build, node, "max", 4);
    infer();
    EXPECT_DATA("y", "-2,4");
}
