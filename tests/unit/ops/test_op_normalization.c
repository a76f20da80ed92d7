/* Normalisations and the softmax family. Expected values follow ONNX' Operators.md and, for old versions, Changelog.md;
   FLOPs are the conventions stated in core/ops/families/neural/normalization.c. */
#include "expect_op.h"

TestSuite(op_normalization, .fini = stop);

static struct sp_node *batch_norm(int64_t opset, const char *outputs)
{
    start(opset);
    input("x", "8,16,h,w");
    input("v", "16");
    return build_node(&build, "BatchNormalization", "x v v v v", outputs);
}

Test(op_normalization, batch_normalization_is_elementwise_in_inference)
{
    struct sp_node *node = batch_norm(9, "y");
    infer();
    EXPECT_TYPE("y", "float32[8,16,h,w]");
    EXPECT_RULE(node, "[n,c,s0,s1] [c] [c] [c] [c] -> [n,c,s0,s1]");
    stop();
    start(15);
    input("x", "2,3,4");
    input("v", "3");
    node = build_node(&build, "BatchNormalization", "x v v v v", "y");
    infer();
    EXPECT_FLOPS(node, 48);
}

Test(op_normalization, batch_normalization_takes_statistics_in_training)
{
    struct sp_node *node = batch_norm(15, "y m s");
    build_attr_int(&build, node, "training_mode", 1);
    infer();
    EXPECT_TYPE("m", "float32[16]");
    EXPECT_RULE(node,
                "[n,c,s0,s1] [c] [c] [c] [c] -> [n,c,s0,s1] [c] [c]  n: moments reduction; s0: moments reduction; "
                "s1: moments reduction");
    stop();
    node = batch_norm(9, "y m s sm ss"); /* the outputs say it before 14 */
    infer();
    EXPECT_TYPE("ss", "float32[16]");
    stop();
    start(8); /* statistics of every activation, before 9 */
    input("x", "8,16,5");
    input("v", "16,5");
    node = build_node(&build, "BatchNormalization", "x v v v v", "y");
    build_attr_int(&build, node, "spatial", 0);
    infer();
    EXPECT_RULE(node, "[n,c,s0] [c,s0] [c,s0] [c,s0] [c,s0] -> [n,c,s0]");
}

Test(op_normalization, vectors_must_fit_the_channels)
{
    start(15);
    input("x", "2,3,4");
    input("v", "4");
    build_node(&build, "BatchNormalization", "x v v v v", "y");
    refused("SHAPES_DISAGREE");
    start(15);
    input("x", "2,3,4");
    input("v", "4");
    build_node(&build, "InstanceNormalization", "x v v", "y");
    refused("SHAPES_DISAGREE");
    start(15);
    input("x", "2,3,4");
    input("v", "3,1");
    build_node(&build, "InstanceNormalization", "x v v", "y");
    refused("OPERAND_SHAPE");
    start(15);
}

Test(op_normalization, instance_normalization_reduces_space)
{
    start(16);
    input("x", "2,3,4,5");
    input("v", "3");
    struct sp_node *node = build_node(&build, "InstanceNormalization", "x v v", "y");
    infer();
    EXPECT_RULE(node, "[n,c,s0,s1] [c] [c] -> [n,c,s0,s1]  s0: moments reduction; s1: moments reduction");
    EXPECT_FLOPS(node, 5.0 * 120);
}

Test(op_normalization, group_normalization_reduces_within_groups)
{
    start(21);
    input("x", "2,6,4");
    input("v", "6");
    struct sp_node *node = build_node(&build, "GroupNormalization", "x v v", "y");
    build_attr_int(&build, node, "num_groups", 3);
    infer();
    EXPECT_RULE(node, "[n,g*c,s0] [g*c] [g*c] -> [n,g*c,s0]  c: moments reduction; s0: moments reduction");
    stop();
    start(18); /* one scale for a group */
    input("x", "2,6,4");
    input("v", "3");
    node = build_node(&build, "GroupNormalization", "x v v", "y");
    build_attr_int(&build, node, "num_groups", 3);
    infer();
    EXPECT_RULE(node, "[n,g*c,s0] [g] [g] -> [n,g*c,s0]  c: moments reduction; s0: moments reduction");
    stop();
    for (int64_t groups = -1; groups <= 4; groups += groups == 0 ? 4 : 1) {
        start(21);
        input("x", "2,6,4");
        input("v", "6");
        node = build_node(&build, "GroupNormalization", "x v v", "y");
        build_attr_int(&build, node, "num_groups", groups);
        refused(groups < 1 ? "ATTRIBUTE_VALUE" : "OPERAND_SHAPE");
    }
    start(21);
}

Test(op_normalization, layer_normalization_reduces_the_last_axes)
{
    start(17);
    input("x", "n,5,8");
    input("s", "8");
    input("b", "5,8");
    struct sp_node *one = build_node(&build, "LayerNormalization", "x s s", "y m d");
    struct sp_node *two = build_node(&build, "LayerNormalization", "x b", "z");
    build_attr_int(&build, two, "axis", 1);
    infer();
    EXPECT_TYPE("y", "float32[n,5,8]");
    EXPECT_TYPE("m", "float32[n,5,1]");
    EXPECT_RULE(one, "[d0,d1,d2] [d2] [d2] -> [d0,d1,d2] [d0,d1,_] [d0,d1,_]  d2: moments reduction");
    EXPECT_RULE(two, "[d0,d1,d2] [d1,d2] -> [d0,d1,d2]  d1: moments reduction; d2: moments reduction");
    stop();
    start(17);
    input("x", "n,5,8");
    input("s", "7");
    build_node(&build, "LayerNormalization", "x s", "y");
    refused("CANNOT_BROADCAST");
    start(23);
    input("x", "2,5,8");
    input("s", "8");
    struct sp_node *rms = build_node(&build, "RMSNormalization", "x s", "y");
    infer();
    EXPECT_RULE(rms, "[d0,d1,d2] [d2] -> [d0,d1,d2]  d2: moments reduction");
    EXPECT_FLOPS(rms, 4.0 * 80);
}

Test(op_normalization, softmax_flattens_before_13)
{
    start(13);
    input("x", "2,3,4");
    struct sp_node *node = build_node(&build, "Softmax", "x", "y");
    infer();
    EXPECT_RULE(node, "[d0,d1,d2] -> [d0,d1,d2]  d2: softmax reduction");
    EXPECT_FLOPS(node, 120);
    stop();
    start(9);
    input("x", "2,3,4");
    node = build_node(&build, "Softmax", "x", "y");
    infer();
    EXPECT_RULE(node, "[d0,d1,d2] -> [d0,d1,d2]  d1: softmax reduction; d2: softmax reduction");
    stop();
    start(13);
    input("x", "2,3,4");
    node = build_node(&build, "LogSoftmax", "x", "y");
    build_attr_int(&build, node, "axis", 1);
    struct sp_node *hard = build_node(&build, "Hardmax", "x", "z");
    infer();
    EXPECT_RULE(node, "[d0,d1,d2] -> [d0,d1,d2]  d1: softmax reduction");
    EXPECT_RULE(hard, "[d0,d1,d2] -> [d0,d1,d2]  d2: select reduction");
    stop();
    start(13);
    input("x", "2,3,4");
    node = build_node(&build, "Softmax", "x", "y");
    build_attr_int(&build, node, "axis", 3);
    refused("AXIS_OUT_OF_RANGE");
    start(13);
}

Test(op_normalization, local_response_looks_at_neighbour_channels)
{
    start(9);
    input("x", "1,96,2,2");
    struct sp_node *node = build_node(&build, "LRN", "x", "y");
    build_attr_int(&build, node, "size", 5);
    infer();
    EXPECT_RULE(node, "[n,c,s0,s1] -> [n,c,s0,s1]  c: halo 2+2");
    EXPECT_FLOPS(node, 13.0 * 96 * 4);
    stop();
    start(9);
    input("x", "1,96,2,2");
    node = build_node(&build, "LRN", "x", "y");
    build_attr_int(&build, node, "size", 0);
    refused("ATTRIBUTE_VALUE");
    start(9);
}

Test(op_normalization, other_normalisations)
{
    start(13);
    input("x", "2,3,4,5");
    struct sp_node *mvn = build_node(&build, "MeanVarianceNormalization", "x", "y");
    struct sp_node *lp = build_node(&build, "LpNormalization", "x", "z");
    build_attr_int(&build, lp, "axis", 1);
    infer();
    EXPECT_RULE(mvn, "[d0,d1,d2,d3] -> [d0,d1,d2,d3]  d0: moments reduction; d2: moments reduction; d3: moments "
                     "reduction");
    EXPECT_RULE(lp, "[d0,d1,d2,d3] -> [d0,d1,d2,d3]  d1: sum reduction");
}
