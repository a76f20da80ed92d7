/* Conv, ConvTranspose and their quantised forms. Shapes follow the formulas of ONNX' Operators.md; the numbers of known
   layers are those of the networks' papers. */
#include "expect_op.h"

TestSuite(op_convolution, .fini = stop);

static struct sp_node *conv(const char *x, const char *w, const char *b)
{
    start(16);
    input("x", x);
    input("w", w);
    if (b != NULL)
        input("b", b);
    return build_node(&build, "Conv", b != NULL ? "x w b" : "x w", "y");
}

static void ints(struct sp_node *node, const char *name, uint32_t count, int64_t a, int64_t b, int64_t c, int64_t d)
{
    build_attr_ints(&build, node, name, count, (int64_t[]){a, b, c, d});
}

Test(op_convolution, the_first_layer_of_resnet)
{
    struct sp_node *node = conv("1,3,224,224", "64,3,7,7", NULL);
    ints(node, "strides", 2, 2, 2, 0, 0);
    ints(node, "pads", 4, 3, 3, 3, 3);
    infer();
    EXPECT_TYPE("y", "float32[1,64,112,112]");
    EXPECT_FLOPS(node, 2.0 * 118013952); /* 118 million multiply-adds */
    EXPECT_RULE(node, "[n,c,h,w] [m,c,kh,kw] -> [n,m,h,w]  c: sum reduction; h: halo 3+2; kh: replicate; w: halo 3+2; "
                      "kw: replicate");
}

Test(op_convolution, one_by_one_needs_no_neighbours)
{
    struct sp_node *node = conv("n,64,56,56", "256,64,1,1", "256");
    infer();
    EXPECT_TYPE("y", "float32[n,256,56,56]");
    EXPECT_RULE(node, "[n,c,h,w] [m,c,_,_] [m] -> [n,m,h,w]  c: sum reduction");
}

Test(op_convolution, patches_are_compound_axes)
{
    struct sp_node *node = conv("2,3,224,224", "768,3,16,16", "768");
    ints(node, "strides", 2, 16, 16, 0, 0);
    infer();
    EXPECT_TYPE("y", "float32[2,768,14,14]");
    EXPECT_RULE(node, "[n,c,h*kh,w*kw] [m,c,kh,kw] [m] -> [n,m,h,w]  c: sum reduction; kh: sum reduction; kw: sum "
                      "reduction");
    EXPECT_FLOPS(node, 2.0 * 2 * 768 * 14 * 14 * 3 * 256 + 2 * 768 * 14 * 14);
}

Test(op_convolution, groups_are_a_factor_of_their_own)
{
    struct sp_node *node = conv("8,192,28,28", "256,12,3,3", "256");
    build_attr_int(&build, node, "group", 16);
    ints(node, "pads", 4, 1, 1, 1, 1);
    infer();
    EXPECT_TYPE("y", "float32[8,256,28,28]");
    EXPECT_RULE(node, "[n,g*c,h,w] [g*m,c,kh,kw] [g*m] -> [n,g*m,h,w]  c: sum reduction; h: halo 1+1; kh: replicate; "
                      "w: halo 1+1; kw: replicate");
    EXPECT_FLOPS(node, 2.0 * 8 * 256 * 28 * 28 * 12 * 9 + 8 * 256 * 28 * 28);
}

Test(op_convolution, symbolic_extents_are_carried)
{
    struct sp_node *node = conv("n,3,h,w", "8,3,3,3", NULL);
    ints(node, "strides", 2, 2, 1, 0, 0);
    ints(node, "pads", 4, 1, 1, 1, 1);
    infer();
    EXPECT_TYPE("y", "float32[n,8,floordiv(h + 1, 2),w]");
}

Test(op_convolution, same_padding_depends_on_the_stride_alone)
{
    struct sp_node *node = conv("1,1,7,w", "1,1,3,4", NULL);
    build_attr_string(&build, node, "auto_pad", "SAME_UPPER");
    ints(node, "strides", 2, 2, 3, 0, 0);
    infer();
    EXPECT_TYPE("y", "float32[1,1,4,ceildiv(w, 3)]");
    stop();
    node = conv("1,1,7", "1,1,4", NULL);
    build_attr_string(&build, node, "auto_pad", "SAME_LOWER");
    infer();
    EXPECT_TYPE("y", "float32[1,1,7]");
    EXPECT_RULE(node, "[n,c,w] [m,c,kw] -> [n,m,w]  c: sum reduction; w: halo 2+1; kw: replicate");
    stop();
    node = conv("1,1,7", "1,1,4", NULL);
    build_attr_string(&build, node, "auto_pad", "VALID");
    ints(node, "pads", 2, 5, 5, 0, 0); /* of no effect */
    infer();
    EXPECT_TYPE("y", "float32[1,1,4]");
}

Test(op_convolution, dilation_spreads_the_taps)
{
    struct sp_node *node = conv("1,1,20", "1,1,3", NULL);
    ints(node, "dilations", 1, 4, 0, 0, 0);
    infer();
    EXPECT_TYPE("y", "float32[1,1,12]");
    EXPECT_RULE(node, "[n,c,w] [m,c,kw] -> [n,m,w]  c: sum reduction; w: halo 0+8; kw: replicate");
}

Test(op_convolution, an_unknown_kernel_gives_an_unknown_extent)
{
    struct sp_node *node = conv("1,1,20", "4,1,?", NULL);
    infer();
    EXPECT_TYPE("y", "float32[1,4,?]");
    EXPECT_RULE(node, "[n,c,w] [m,c,kw] -> [n,m,w]  c: sum reduction; w: replicate; kw: replicate");
}

struct refusal {
    const char *x, *w, *attribute;
    uint32_t count;
    int64_t value;
    const char *code;
};

Test(op_convolution, malformed_convolutions_are_refused)
{
    static const struct refusal refusals[] = {
        {"1,3,8,8", "4,3,3,3", "strides", 2, 0, "ATTRIBUTE_VALUE"},
        {"1,3,8,8", "4,3,3,3", "strides", 2, INT64_MIN, "ATTRIBUTE_VALUE"},
        {"1,3,8,8", "4,3,3,3", "strides", 3, 1, "ATTRIBUTE_RANK"},
        {"1,3,8,8", "4,3,3,3", "dilations", 2, 0, "ATTRIBUTE_VALUE"},
        {"1,3,8,8", "4,3,3,3", "dilations", 2, INT64_MAX, "ATTRIBUTE_VALUE"},
        {"1,3,8,8", "4,3,3,3", "pads", 2, 1, "ATTRIBUTE_RANK"},
        {"1,3,8,8", "4,3,3,3", "pads", 4, -1, "ATTRIBUTE_VALUE"},
        {"1,3,8,8", "4,3,3,3", "kernel_shape", 2, 5, "OPERAND_SHAPE"},
        {"1,3,8,8", "4,3,3,3", "kernel_shape", 1, 3, "ATTRIBUTE_RANK"},
        {"1,3,8,8", "4,3,3,0", "strides", 2, 1, "OPERAND_SHAPE"},
        {"1,3,8,8", "4,3,9,9", "strides", 2, 1, "WINDOW_TOO_LARGE"},
        {"1,3,8,8", "4,2,3,3", "strides", 2, 1, "OPERAND_SHAPE"},
        {"1,3,8", "4,3,3,3", "strides", 2, 1, "OPERAND_SHAPE"},
        {"1,3", "4,3", "strides", 2, 1, "OPERAND_SHAPE"},
    };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *refusal = &refusals[i];
        struct sp_node *node = conv(refusal->x, refusal->w, NULL);
        const int64_t value = refusal->value;
        ints(node, refusal->attribute, refusal->count, value, value, value, value);
        refused(refusal->code);
    }
    struct sp_node *node = conv("1,3,8,8", "4,3,3,3", NULL);
    build_attr_string(&build, node, "auto_pad", "SAME");
    refused("ATTRIBUTE_VALUE");
    node = conv("1,3,8,8", "4,3,3,3", "5");
    refused("OPERAND_SHAPE");
}

Test(op_convolution, bad_groups_are_refused)
{
    static const int64_t groups[] = {0, -1, INT64_MIN, 3, INT64_MAX};
    static const char *const codes[] = {"ATTRIBUTE_VALUE", "ATTRIBUTE_VALUE", "ATTRIBUTE_VALUE", "OPERAND_SHAPE",
                                        "OPERAND_SHAPE"};
    for (size_t i = 0; i < 5; i++) {
        struct sp_node *node = conv("1,4,8,8", "4,2,3,3", NULL);
        build_attr_int(&build, node, "group", groups[i]);
        refused(codes[i]);
    }
    start(16);
}

Test(op_convolution, huge_padding_overflows_into_the_unknown)
{
    struct sp_node *node = conv("1,1,8", "1,1,3", NULL);
    ints(node, "pads", 2, INT64_MAX, INT64_MAX, 0, 0);
    infer();
    EXPECT_TYPE("y", "float32[1,1,?]");
}

/* ---- ConvTranspose, quantised ---- */

static struct sp_node *transpose(const char *x, const char *w)
{
    start(16);
    input("x", x);
    input("w", w);
    return build_node(&build, "ConvTranspose", "x w", "y");
}

Test(op_convolution, transposed_extents)
{
    struct sp_node *node = transpose("1,4,5,h", "4,6,3,3");
    ints(node, "strides", 2, 2, 2, 0, 0);
    ints(node, "pads", 4, 1, 1, 1, 1);
    ints(node, "output_padding", 2, 1, 0, 0, 0);
    infer();
    EXPECT_TYPE("y", "float32[1,6,10,2*h - 1]");
    stop();

    node = transpose("1,4,5,5", "4,3,3,3"); /* groups: 2 * 3 output channels */
    build_attr_int(&build, node, "group", 2);
    ints(node, "output_shape", 2, 9, 8, 0, 0);
    infer();
    EXPECT_TYPE("y", "float32[1,6,9,8]");
    EXPECT_RULE(node, "[n,g*c,h,w] [g*c,m,kh,kw] -> [n,g*m,h,w]  c: sum reduction; h: halo 2+0; kh: replicate; w: halo "
                      "2+0; kw: replicate");
    cr_expect_float_eq(build_flops(&build, node), 2.0 * 4 * 25 * 3 * 9, 1e-6);
}

Test(op_convolution, windows_that_do_not_overlap_make_compound_outputs)
{
    struct sp_node *node = transpose("1,4,5", "4,6,2");
    ints(node, "strides", 1, 2, 0, 0, 0);
    infer();
    EXPECT_TYPE("y", "float32[1,6,10]");
    EXPECT_RULE(node, "[n,c,w] [c,m,kw] -> [n,m,w*kw]  c: sum reduction");
    EXPECT_FLOPS(node, 2.0 * 4 * 5 * 6 * 2);
}

Test(op_convolution, malformed_transposed_convolutions_are_refused)
{
    struct sp_node *node = transpose("1,4,5", "3,6,2");
    refused("OPERAND_SHAPE");
    node = transpose("1,4,5", "4,6,2");
    ints(node, "output_shape", 3, 1, 6, 10, 0); /* all axes, as opset 1 had it: accepted */
    infer();
    EXPECT_TYPE("y", "float32[1,6,10]");
    stop();
    node = transpose("1,4,5", "4,6,2");
    ints(node, "output_shape", 2, 1, 6, 0, 0);
    refused("ATTRIBUTE_RANK");
    node = transpose("1,4,1", "4,6,2");
    ints(node, "pads", 2, 4, 4, 0, 0);
    refused("OPERAND_SHAPE");
    start(16);
}

Test(op_convolution, quantised_convolutions_sum_their_channels)
{
    start(10);
    build_input(&build, "x", SP_DTYPE_UINT8, "1,4,8");
    build_input(&build, "w", SP_DTYPE_INT8, "6,4,3");
    build_input(&build, "s", SP_DTYPE_FLOAT, "");
    build_input(&build, "z", SP_DTYPE_UINT8, "");
    build_input(&build, "ws", SP_DTYPE_FLOAT, "6");
    build_input(&build, "wz", SP_DTYPE_INT8, "6");
    struct sp_node *linear = build_node(&build, "QLinearConv", "x s z w ws wz s z", "y");
    struct sp_node *integer = build_node(&build, "ConvInteger", "x w z", "i");
    struct sp_node *rows = build_node(&build, "ConvInteger", "x w z wz", "r");
    infer();
    EXPECT_TYPE("y", "uint8[1,6,6]");
    EXPECT_TYPE("i", "int32[1,6,6]");
    EXPECT_RULE(linear,
                "[n,c,w] [] [] [m,c,kw] [m] [m] [] [] -> [n,m,w]  c: sum reduction; w: halo 0+2; kw: replicate");
    EXPECT_RULE(integer, "[n,c,w] [m,c,kw] [] -> [n,m,w]  c: sum reduction; w: halo 0+2; kw: replicate");
    EXPECT_RULE(rows, "[n,c,w] [m,c,kw] [] [m] -> [n,m,w]  c: sum reduction; w: halo 0+2; kw: replicate");
}
