/* ReverseSequence, TensorScatter. Values follow the examples in ONNX' Operators.md. */
#include "expect_op.h"

TestSuite(op_time, .fini = stop);

static void reversed(const int64_t *values, int64_t lengths[4], int64_t time, int64_t batch)
{
    start(10);
    build_ints(&build, "flat", 16, values);
    build_ints(&build, "shape", 2, (int64_t[]){4, 4});
    build_ints(&build, "lengths", 4, lengths);
    build_node(&build, "Reshape", "flat shape", "x");
    struct sp_node *node = build_node(&build, "ReverseSequence", "x lengths", "y");
    build_attr_int(&build, node, "time_axis", time);
    build_attr_int(&build, node, "batch_axis", batch);
}

Test(op_time, sequences_turn_up_to_their_length)
{
    reversed((int64_t[]){0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}, (int64_t[]){4, 3, 2, 1}, 0, 1);
    infer();
    EXPECT_DATA("y", "3,6,9,12,2,5,8,13,1,4,10,14,0,7,11,15");
    stop();
    reversed((int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, (int64_t[]){1, 2, 3, 4}, 1, 0);
    infer();
    EXPECT_DATA("y", "0,1,2,3,5,4,6,7,10,9,8,11,15,14,13,12");
    stop();
    reversed((int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, (int64_t[]){1, 5, 3, 4}, 1, 0);
    refused("OPERAND_VALUE");
    reversed((int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, (int64_t[]){1, 2, 3, 4}, 1, 1);
    refused("ATTRIBUTE_VALUE");
    start(10);
}

Test(op_time, the_batch_is_split_with_its_lengths)
{
    start(10);
    input("x", "t,b,64");
    build_input(&build, "n", SP_DTYPE_INT64, "b");
    struct sp_node *node = build_node(&build, "ReverseSequence", "x n", "y");
    infer();
    EXPECT_TYPE("y", "float32[t,b,64]");
    EXPECT_RULE(node, "[t0,d1,d2] [d1] -> [t0,d1,d2]  t0: replicate");
}

Test(op_time, caches_take_the_updates_that_fall_into_a_part)
{
    start(24);
    input("cache", "b,8,4096,128");
    input("update", "b,8,s,128");
    build_input(&build, "at", SP_DTYPE_INT64, "b");
    struct sp_node *node = build_node(&build, "TensorScatter", "cache update at", "y");
    struct sp_node *front = build_node(&build, "TensorScatter", "cache update", "z");
    infer();
    EXPECT_TYPE("y", "float32[b,8,4096,128]");
    EXPECT_RULE(node, "[d0,d1,s2,d3] [d0,d1,u2,d3] [d0]@s2 -> [d0,d1,s2,d3]  u2: replicate");
    EXPECT_RULE(front, "[d0,d1,s2,d3] [d0,d1,u2,d3] -> [d0,d1,s2,d3]  u2: replicate");
}

Test(op_time, malformed_caches_are_refused)
{
    start(24);
    input("cache", "2,8,16");
    input("update", "2,17,16");
    build_node(&build, "TensorScatter", "cache update", "y");
    refused("SHAPES_DISAGREE");
    start(24);
    input("cache", "2,8,16");
    input("update", "2,4,15");
    build_node(&build, "TensorScatter", "cache update", "y");
    refused("SHAPES_DISAGREE");
    start(24);
    input("cache", "2,8,16");
    input("update", "2,4,16");
    build_attr_int(&build, build_node(&build, "TensorScatter", "cache update", "y"), "axis", 0);
    refused("AXIS_OUT_OF_RANGE");
    start(24);
}
