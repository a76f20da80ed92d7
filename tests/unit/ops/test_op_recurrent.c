/* LSTM, GRU, RNN. Shapes follow ONNX' Operators.md; FLOPs are 2 * t * b * d * gates * h * (i + h). */
#include "expect_op.h"

TestSuite(op_recurrent, .fini = stop);

static struct sp_node *layer(int64_t opset, const char *op_type, const char *x, const char *w, const char *r)
{
    start(opset);
    input("x", x);
    input("w", w);
    input("r", r);
    return build_node(&build, op_type, "x w r", "y yh");
}

Test(op_recurrent, an_lstm_in_both_directions)
{
    start(14);
    input("x", "t,n,10");
    input("w", "2,80,10");
    input("r", "2,80,20");
    input("b", "2,160");
    input("h", "2,n,20");
    input("p", "2,60");
    struct sp_node *node = build_node(&build, "LSTM", "x w r b - h h p", "y yh yc");
    build_attr_string(&build, node, "direction", "bidirectional");
    build_attr_int(&build, node, "hidden_size", 20);
    infer();
    EXPECT_TYPE("y", "float32[t,2,n,20]");
    EXPECT_TYPE("yh", "float32[2,n,20]");
    EXPECT_TYPE("yc", "float32[2,n,20]");
    EXPECT_RULE(node, "[t,b,i] [d,gate*h,i] [d,gate*h,k] [d,wr*gate*h] [] [d,b,h] [d,b,h] [d,p*h] -> [t,d,b,h] [d,b,h] "
                      "[d,b,h]  t: sequential; i: sum reduction; gate: replicate; h: replicate; k: replicate; wr: "
                      "replicate; p: replicate");
}

Test(op_recurrent, work_grows_with_gates)
{
    static const char *const names[] = {"LSTM", "GRU", "RNN"};
    static const int gates[] = {4, 3, 1};
    for (int i = 0; i < 3; i++) {
        char w[32], r[32];
        (void)snprintf(w, sizeof(w), "1,%d,10", 20 * gates[i]);
        (void)snprintf(r, sizeof(r), "1,%d,20", 20 * gates[i]);
        struct sp_node *node = layer(7, names[i], "5,3,10", w, r);
        infer();
        EXPECT_TYPE("y", "float32[5,1,3,20]");
        EXPECT_FLOPS(node, 2.0 * 5 * 3 * gates[i] * 20 * (10 + 20));
        stop();
    }
    start(7);
}

Test(op_recurrent, since_14_the_batch_may_come_first)
{
    struct sp_node *node = layer(14, "GRU", "n,t,10", "1,60,10", "1,60,20");
    build_attr_int(&build, node, "layout", 1);
    infer();
    EXPECT_TYPE("y", "float32[n,t,1,20]");
    EXPECT_TYPE("yh", "float32[n,1,20]");
    EXPECT_RULE(node, "[b,t,i] [d,gate*h,i] [d,gate*h,k] -> [b,t,d,h] [b,d,h]  t: sequential; i: sum reduction; gate: "
                      "replicate; h: replicate; k: replicate");
}

Test(op_recurrent, outputs_may_be_left_out)
{
    start(7);
    input("x", "5,3,10");
    input("w", "1,20,10");
    input("r", "1,20,20");
    struct sp_node *node = build_node(&build, "RNN", "x w r", "- yh");
    infer();
    EXPECT_TYPE("yh", "float32[1,3,20]");
    EXPECT_FLOPS(node, 2.0 * 5 * 3 * 20 * 30);
}

Test(op_recurrent, malformed_layers_are_refused)
{
    (void)layer(7, "LSTM", "5,3,10", "1,81,10", "1,80,20");
    refused("SHAPES_DISAGREE");
    (void)layer(7, "LSTM", "5,3,10", "1,80,11", "1,80,20");
    refused("SHAPES_DISAGREE");
    (void)layer(7, "LSTM", "5,3,10", "2,80,10", "1,80,20"); /* two directions in one only */
    refused("SHAPES_DISAGREE");
    (void)layer(7, "LSTM", "5,3", "1,80,10", "1,80,20");
    refused("OPERAND_SHAPE");
    build_attr_int(&build, layer(7, "LSTM", "5,3,10", "1,80,10", "1,80,20"), "hidden_size", 0);
    refused("ATTRIBUTE_VALUE");
    build_attr_int(&build, layer(7, "LSTM", "5,3,10", "1,80,10", "1,80,20"), "hidden_size", INT64_MAX);
    refused("SHAPES_DISAGREE");
    build_attr_string(&build, layer(7, "LSTM", "5,3,10", "1,80,10", "1,80,20"), "direction", "sideways");
    refused("ATTRIBUTE_VALUE");
    start(7);
}
