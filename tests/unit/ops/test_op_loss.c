/* Losses. Expected values follow ONNX' Operators.md (NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss); FLOPs are the
   conventions stated in core/ops/families/math/loss.c. */
#include "expect_op.h"

TestSuite(op_loss, .fini = stop);

static struct sp_node *loss(const char *op, const char *reduction, const char *scores, const char *target,
                            const char *outputs)
{
    start(13);
    input("x", scores);
    build_input(&build, "t", SP_DTYPE_INT64, target);
    struct sp_node *node = build_node(&build, op, "x t", outputs);
    if (reduction != NULL)
        build_attr_string(&build, node, "reduction", reduction);
    return node;
}

Test(op_loss, likelihood_of_each_target)
{
    struct sp_node *node = loss("NegativeLogLikelihoodLoss", "none", "3,5,6,7", "3,6,7", "l");
    infer();
    EXPECT_TYPE("l", "float32[3,6,7]");
    EXPECT_RULE(node, "[d0,c1,d2,d3] [d0,d2,d3]@c1 -> [d0,d2,d3]  c1: sum reduction");
    EXPECT_FLOPS(node, 126);
}

Test(op_loss, mean_is_the_default_and_a_scalar)
{
    struct sp_node *node = loss("NegativeLogLikelihoodLoss", NULL, "n,5", "n", "l");
    infer();
    EXPECT_TYPE("l", "float32[]");
    EXPECT_RULE(node, "[d0,c1] [d0]@c1 -> []  d0: sum reduction; c1: sum reduction");
    stop();
    node = loss("NegativeLogLikelihoodLoss", "sum", "3,5", "3", "l");
    infer();
    EXPECT_TYPE("l", "float32[]");
    EXPECT_FLOPS(node, 6);
}

Test(op_loss, reads_only_the_scores_of_the_targets)
{
    struct sp_node *node = loss("NegativeLogLikelihoodLoss", "none", "3,50000", "3", "l");
    infer();
    struct sp_rule *rule = NULL;
    cr_assert_eq(sp_op_rule(build.model, node, build.arena, &rule, &build.err), SP_OK);
    cr_expect_eq(rule->bytes, 3 * 4 + 3 * 8 + 3 * 4); /* scores, targets, losses */
}

Test(op_loss, weights_go_with_the_classes)
{
    start(12);
    input("x", "3,5");
    build_input(&build, "t", SP_DTYPE_INT32, "3");
    input("w", "5");
    struct sp_node *node = build_node(&build, "NegativeLogLikelihoodLoss", "x t w", "l");
    infer();
    EXPECT_RULE(node, "[d0,c1] [d0]@c1 [c1] -> []  d0: sum reduction; c1: sum reduction");
    stop();
    start(12);
    input("x", "3,5");
    input("w", "4");
    build_input(&build, "t", SP_DTYPE_INT32, "3");
    build_node(&build, "NegativeLogLikelihoodLoss", "x t w", "l");
    refused("SHAPES_DISAGREE");
    start(12);
}

Test(op_loss, cross_entropy_normalises_the_classes)
{
    struct sp_node *node = loss("SoftmaxCrossEntropyLoss", "none", "3,5,2", "3,2", "l p");
    infer();
    EXPECT_TYPE("l", "float32[3,2]");
    EXPECT_TYPE("p", "float32[3,5,2]");
    EXPECT_RULE(node, "[d0,c1,d2] [d0,d2]@c1 -> [d0,d2] [d0,c1,d2]  c1: softmax reduction");
    EXPECT_FLOPS(node, 6 + 5 * 30);
    stop();
    node = loss("SoftmaxCrossEntropyLoss", "mean", "3,5,2", "3,2", "l p");
    infer();
    EXPECT_TYPE("l", "float32[]");
    EXPECT_RULE(node, "[d0,c1,d2] [d0,d2]@c1 -> [] [d0,c1,d2]  d0: sum reduction; c1: softmax reduction; d2: sum "
                      "reduction");
    EXPECT_FLOPS(node, 12 + 5 * 30);
}

Test(op_loss, extents_come_from_either_operand)
{
    struct sp_node *node = loss("NegativeLogLikelihoodLoss", "none", "?,5", "3", "l");
    infer();
    EXPECT_TYPE("l", "float32[3]");
    EXPECT_FLOPS(node, 3);
    stop();
    loss("NegativeLogLikelihoodLoss", "none", NULL, "3,4", "l");
    infer();
    EXPECT_TYPE("l", "float32[3,4]");
    stop();
    loss("NegativeLogLikelihoodLoss", "none", NULL, NULL, "l");
    infer();
    EXPECT_TYPE("l", "float32[*]");
    stop();
    loss("SoftmaxCrossEntropyLoss", "sum", NULL, NULL, "l p");
    infer();
    EXPECT_TYPE("l", "float32[]");
    EXPECT_TYPE("p", "float32[*]");
}

Test(op_loss, refuses_what_does_not_fit)
{
    loss("NegativeLogLikelihoodLoss", "none", "3", "3", "l");
    refused("OPERAND_SHAPE");
    loss("NegativeLogLikelihoodLoss", "none", "3,5", "3,1", "l");
    refused("SHAPES_DISAGREE");
    loss("SoftmaxCrossEntropyLoss", "none", "3,5,2", "3,4", "l");
    refused("SHAPES_DISAGREE");
    loss("SoftmaxCrossEntropyLoss", "average", "3,5", "3", "l");
    refused("ATTRIBUTE_VALUE");
    start(13);
}
