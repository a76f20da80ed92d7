/* DFT, STFT, windows, MelWeightMatrix. Shapes are those of ONNX' node tests; FLOPs of a transform 5 * n * log2(n). */
#include "expect_op.h"

TestSuite(op_signal, .fini = stop);

Test(op_signal, transforms_take_their_axis_from_where_their_version_has_it)
{
    start(17);
    input("x", "1,8,10,1");
    struct sp_node *node = build_node(&build, "DFT", "x", "y");
    build_attr_int(&build, node, "axis", 2);
    struct sp_node *half = build_node(&build, "DFT", "x", "z");
    build_attr_int(&build, half, "onesided", 1); /* axis 1 */
    infer();
    EXPECT_TYPE("y", "float32[1,8,10,2]");
    EXPECT_TYPE("z", "float32[1,5,10,2]");
    EXPECT_RULE(node, "[d0,d1,d2,d3] -> [d0,d1,d2,o3]  d2: replicate; d3: replicate; o3: replicate");
    EXPECT_FLOPS(half, 80.0 * 5 * 3);
    stop();
    start(20);
    input("x", "b,16,n,2");
    build_ints(&build, "axis", -1, (int64_t[]){1});
    build_ints(&build, "length", -1, (int64_t[]){9});
    build_input(&build, "any", SP_DTYPE_INT64, "");
    node = build_node(&build, "DFT", "x", "y"); /* axis -2 */
    build_node(&build, "DFT", "x length axis", "z");
    build_node(&build, "DFT", "x - any", "open");
    infer();
    EXPECT_TYPE("y", "float32[b,16,n,2]");
    EXPECT_TYPE("z", "float32[b,9,n,2]");
    EXPECT_TYPE("open", "float32[?,?,?,2]");
    EXPECT_RULE(node, "[d0,d1,d2,d3] -> [d0,d1,d2,d3]  d2: replicate; d3: replicate");
}

Test(op_signal, one_sided_inverse_gives_real_numbers)
{
    start(20);
    input("x", "1,6,2");
    struct sp_node *node = build_node(&build, "DFT", "x", "y");
    build_attr_int(&build, node, "onesided", 1);
    build_attr_int(&build, node, "inverse", 1);
    infer();
    EXPECT_TYPE("y", "float32[1,10,1]");
}

Test(op_signal, malformed_transforms_are_refused)
{
    start(20);
    input("x", "1,6,3");
    build_node(&build, "DFT", "x", "y");
    refused("OPERAND_SHAPE");
    start(17);
    input("x", "1,6,2");
    build_attr_int(&build, build_node(&build, "DFT", "x", "y"), "axis", 2);
    refused("AXIS_OUT_OF_RANGE");
    start(17);
}

Test(op_signal, frames_overlap)
{
    start(17);
    input("x", "b,128,1");
    input("window", "16");
    build_ints(&build, "step", -1, (int64_t[]){8});
    build_ints(&build, "length", -1, (int64_t[]){16});
    struct sp_node *node = build_node(&build, "STFT", "x step window", "y");
    build_node(&build, "STFT", "x step - length", "z");
    struct sp_node *both = build_node(&build, "STFT", "x step window length", "w");
    build_attr_int(&build, both, "onesided", 0);
    infer();
    EXPECT_TYPE("y", "float32[b,15,9,2]");
    EXPECT_TYPE("z", "float32[b,15,9,2]");
    EXPECT_TYPE("w", "float32[b,15,16,2]");
    EXPECT_RULE(node, "[b0,f,p2] [] [k0] -> [b0,f,m2,p3]  f: halo 0+8; p2: replicate; k0: replicate; m2: replicate; "
                      "p3: replicate");
    EXPECT_FLOPS(both, 15.0 * 16 * 5 * 4);
    stop();
    /* As torch.onnx writes it, without the axis of parts. */
    start(17);
    input("x", "b,128");
    input("window", "16");
    build_ints(&build, "step", -1, (int64_t[]){8});
    node = build_node(&build, "STFT", "x step window", "y");
    infer();
    EXPECT_TYPE("y", "float32[b,15,9,2]");
    EXPECT_RULE(node, "[b0,f] [] [k0] -> [b0,f,m2,p3]  f: halo 0+8; k0: replicate; m2: replicate; p3: replicate");
    stop();
    start(17);
    input("x", "1,8,1");
    input("window", "16");
    build_ints(&build, "step", -1, (int64_t[]){8});
    build_node(&build, "STFT", "x step window", "y");
    refused("WINDOW_TOO_LARGE");
    start(17);
}

Test(op_signal, windows_and_mel_weights_have_given_extents)
{
    start(17);
    build_ints(&build, "size", -1, (int64_t[]){10});
    build_ints(&build, "mels", -1, (int64_t[]){8});
    build_ints(&build, "dft", -1, (int64_t[]){16});
    build_ints(&build, "rate", -1, (int64_t[]){8192});
    build_floats(&build, "low", -1, (float[]){0});
    build_floats(&build, "high", -1, (float[]){4096});
    build_shape_vector(&build, "symbol", "n");
    static const char *const names[] = {"HannWindow", "HammingWindow", "BlackmanWindow"};
    static const char *const outputs[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        struct sp_node *node = build_node(&build, names[i], i == 2 ? "symbol" : "size", outputs[i]);
        if (i == 1)
            build_attr_int(&build, node, "output_datatype", SP_DTYPE_DOUBLE);
    }
    struct sp_node *mel = build_node(&build, "MelWeightMatrix", "mels dft rate low high", "m");
    infer();
    EXPECT_TYPE("a", "float32[10]");
    EXPECT_TYPE("b", "float64[10]");
    EXPECT_TYPE("c", "float32[n]");
    EXPECT_TYPE("m", "float32[9,8]");
    EXPECT_RULE(mel, "[] [] [] [] [] -> [d0,d1]");
}
