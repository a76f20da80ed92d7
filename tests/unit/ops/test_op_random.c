/* Random tensors. Expected values follow ONNX' Operators.md; FLOPs are the conventions stated in core/ops/families/tensor/random.c. */
#include "expect_op.h"

TestSuite(op_random, .fini = stop);

Test(op_random, shape_and_type_are_attributes)
{
    start(22);
    struct sp_node *normal = build_node(&build, "RandomNormal", "", "a");
    struct sp_node *uniform = build_node(&build, "RandomUniform", "", "b");
    build_attr_ints(&build, normal, "shape", 2, (int64_t[]){3, 4});
    build_attr_ints(&build, uniform, "shape", 0, NULL);
    build_attr_int(&build, uniform, "dtype", SP_DTYPE_FLOAT16);
    infer();
    EXPECT_TYPE("a", "float32[3,4]");
    EXPECT_TYPE("b", "float16[]");
    EXPECT_RULE(normal, "-> [d0,d1]");
    EXPECT_FLOPS(normal, 12);
}

Test(op_random, refuses_no_shape_and_no_type)
{
    start(1);
    build_node(&build, "RandomNormal", "", "a");
    refused("MISSING_ATTRIBUTE");
    start(1);
    struct sp_node *node = build_node(&build, "RandomUniform", "", "a");
    build_attr_ints(&build, node, "shape", 1, (int64_t[]){-1});
    refused("NEGATIVE_DIMENSION");
    start(1);
    node = build_node(&build, "RandomUniform", "", "a");
    build_attr_ints(&build, node, "shape", 1, (int64_t[]){1});
    build_attr_int(&build, node, "dtype", 99);
    refused("UNKNOWN_DATA_TYPE");
    start(1);
}

Test(op_random, like_another_tensor)
{
    start(22);
    build_input(&build, "x", SP_DTYPE_DOUBLE, "n,4");
    build_input(&build, "f", SP_DTYPE_DOUBLE, "2,4");
    struct sp_node *node = build_node(&build, "RandomNormalLike", "x", "a");
    struct sp_node *other = build_node(&build, "RandomUniformLike", "f", "b");
    struct sp_node *coin = build_node(&build, "Bernoulli", "x", "c");
    build_attr_int(&build, other, "dtype", SP_DTYPE_FLOAT);
    build_attr_int(&build, coin, "dtype", SP_DTYPE_BOOL);
    infer();
    EXPECT_TYPE("a", "float64[n,4]");
    EXPECT_TYPE("b", "float32[2,4]");
    EXPECT_TYPE("c", "bool[n,4]");
    EXPECT_RULE(node, "[d0,d1] -> [d0,d1]");
    EXPECT_RULE(coin, "[d0,d1] -> [d0,d1]");
    struct sp_rule *rule = NULL;
    cr_assert_eq(sp_op_rule(build.model, other, build.arena, &rule, &build.err), SP_OK);
    cr_expect_eq(rule->bytes, 8 * 4); /* the shape alone is read */
}

Test(op_random, multinomial_needs_all_classes)
{
    start(7);
    input("x", "8,10");
    struct sp_node *node = build_node(&build, "Multinomial", "x", "y");
    build_attr_int(&build, node, "sample_size", 3);
    infer();
    EXPECT_TYPE("y", "int32[8,3]");
    EXPECT_RULE(node, "[b,c] -> [b,s]  c: replicate");
    EXPECT_FLOPS(node, 5 * 80 + 24);
    stop();
    start(22);
    input("x", "n,10");
    node = build_node(&build, "Multinomial", "x", "y");
    build_attr_int(&build, node, "dtype", SP_DTYPE_INT64);
    infer();
    EXPECT_TYPE("y", "int64[n,1]");
    stop();
    start(22);
    input("x", "10");
    build_node(&build, "Multinomial", "x", "y");
    refused("OPERAND_SHAPE");
    start(22);
}

Test(op_random, is_never_a_constant)
{
    static const char *const names[] = {"RandomNormal",      "RandomUniform", "RandomNormalLike",
                                        "RandomUniformLike", "Bernoulli",     "Multinomial"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct sp_op *op = sp_op_find("", names[i], 22);
        cr_assert_not_null(op, "%s", names[i]);
        cr_expect(op->flags & SP_OP_RANDOM, "%s", names[i]);
    }
    start(22);
}
