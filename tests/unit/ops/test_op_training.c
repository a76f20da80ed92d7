/* ai.onnx.preview.training. Expected values follow ONNX' Operators.md (Adagrad, Adam, Momentum, Gradient); FLOPs are
   the conventions stated in core/ops/families/math/training.c. */
#include <stdio.h>

#include "expect_op.h"

TestSuite(op_training, .fini = stop);

static void start_training(void)
{
    start(13);
    build_opset(&build, "ai.onnx.preview.training", 1);
    input("r", "");
    build_input(&build, "t", SP_DTYPE_INT64, "");
}

static struct sp_node *training(const char *op, const char *inputs, const char *outputs)
{
    return build_node_in(&build, "ai.onnx.preview.training", op, inputs, outputs);
}

Test(op_training, every_tensor_is_elementwise)
{
    start_training();
    input("x", "2,3");
    input("g", "2,3");
    input("h", "2,3");
    input("v", "2,3");
    struct sp_node *adagrad = training("Adagrad", "r t x g h", "a b");
    struct sp_node *adam = training("Adam", "r t x g v h", "c d e");
    struct sp_node *momentum = training("Momentum", "r t x g v", "k l");
    struct sp_node *nesterov = training("Momentum", "r t x g v", "m n");
    build_attr_string(&build, nesterov, "mode", "nesterov");
    infer();
    EXPECT_TYPE("a", "float32[2,3]");
    EXPECT_TYPE("e", "float32[2,3]");
    EXPECT_RULE(adagrad, "[] [] [x0d0,x0d1] [x0d0,x0d1] [x0d0,x0d1] -> [x0d0,x0d1] [x0d0,x0d1]");
    EXPECT_FLOPS(adagrad, 9 * 6);
    EXPECT_FLOPS(adam, 15 * 6);
    EXPECT_FLOPS(momentum, 7 * 6);
    EXPECT_FLOPS(nesterov, 9 * 6);
}

Test(op_training, groups_hold_several_tensors)
{
    start_training();
    input("x0", "n");
    build_input(&build, "x1", SP_DTYPE_DOUBLE, "2");
    input("g0", "n");
    build_input(&build, "g1", SP_DTYPE_DOUBLE, "2");
    input("v0", "n");
    build_input(&build, "v1", SP_DTYPE_DOUBLE, "2");
    struct sp_node *node = training("Momentum", "r t x0 x1 g0 g1 v0 v1", "a0 a1 b0 b1");
    infer();
    EXPECT_TYPE("a0", "float32[n]");
    EXPECT_TYPE("a1", "float64[2]");
    EXPECT_TYPE("b0", "float32[n]");
    EXPECT_TYPE("b1", "float64[2]");
    EXPECT_RULE(node, "[] [] [x0d0] [x1d0] [x0d0] [x1d0] [x0d0] [x1d0] -> [x0d0] [x1d0] [x0d0] [x1d0]");
}

/* Nine tensors of eleven axes: 96 factors are eight of them, 8 terms are fewer; the work is counted all the same. */
Test(op_training, more_tensors_than_a_rule_has_room_for)
{
    char inputs[256] = "r t", outputs[256] = "";
    start_training();
    for (int i = 0; i < 9; i++) {
        static char names[9][16];
        (void)snprintf(names[i], sizeof(names[i]), "x%d", i);
        input(names[i], "2,1,1,1,1,1,1,1,1,1,1");
    }
    for (int group = 0; group < 3; group++) {
        for (int i = 0; i < 9; i++) {
            size_t size = strlen(inputs);
            (void)snprintf(inputs + size, sizeof(inputs) - size, " x%d", i);
            size = strlen(outputs);
            if (group < 2)
                (void)snprintf(outputs + size, sizeof(outputs) - size, " y%d%d", group, i);
        }
    }
    struct sp_node *node = training("Adagrad", inputs, outputs);
    infer();
    EXPECT_FLOPS(node, 9.0 * 9 * 2);
    const char *rule = build_rule(&build, node);
    cr_expect_not_null(strstr(rule, "[x7d0,"), "%s", rule);
    cr_expect_null(strstr(rule, "x8d0"), "%s", rule);
    cr_expect_not_null(strstr(rule, "[_,_,_,_,_,_,_,_,_,_,_]"), "%s", rule);
}

Test(op_training, tensors_must_come_in_groups)
{
    start_training();
    input("x", "2");
    training("Adagrad", "r t x x x x", "a b");
    refused("OPERAND_COUNT");
    start_training();
    input("x", "2");
    training("Adam", "r t x x x x", "a b c d");
    refused("OPERAND_COUNT");
    start_training();
    input("x", "2");
    input("y", "3");
    struct sp_node *node = training("Adagrad", "r t x y x", "a b");
    infer();
    EXPECT_RULE(node, "SHAPES_DISAGREE");
    stop();
    start_training();
    input("x", "2");
    build_attr_string(&build, training("Momentum", "r t x x x", "a b"), "mode", "fast");
    refused("ATTRIBUTE_VALUE");
    start_training();
}

Test(op_training, gradient_has_the_types_of_what_it_differentiates_by)
{
    start_training();
    input("a", "2,n");
    build_input(&build, "b", SP_DTYPE_DOUBLE, "3");
    input("c", "");
    struct sp_node *node = training("Gradient", "a b c", "da db");
    build_attr_strings(&build, node, "xs", "a b");
    build_attr_strings(&build, node, "zs", "c");
    build_attr_string(&build, node, "y", "loss");
    infer();
    EXPECT_TYPE("da", "float32[2,n]");
    EXPECT_TYPE("db", "float64[3]");
    EXPECT_RULE(node, "[_,_] [_] [] -> [_,_] [_]");
    stop();
    start_training();
    build_attr_strings(&build, training("Gradient", "r t", "d e"), "xs", "r");
    refused("OPERAND_COUNT");
    start_training();
    training("Gradient", "r", "d");
    refused("MISSING_ATTRIBUTE");
    start_training();
}
