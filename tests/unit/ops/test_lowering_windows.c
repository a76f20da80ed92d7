/*
 * Local forms of convolutions and of what resamples images: which part of the input a part of the output reads, with
 * which padding, and what is refused. The arithmetic is that of ONNX's Operators.md (Conv-22, ConvTranspose-22,
 * Resize-19, Col2Im-18, AffineGrid-20, DeformConv-22), done by hand in the comments.
 */
#include "build_lowering.h"
#include "expect_op.h"

TestSuite(lowering_windows, .fini = stop);

/* ---- Conv ------------------------------------------------------------------------------------------------------- */

static struct sp_node *conv(const char *x, const char *w, const char *b)
{
    start(22);
    input("x", x);
    input("w", w);
    if (b != NULL)
        input("b", b);
    return build_node(&build, "Conv", b != NULL ? "x w b" : "x w", "y");
}

Test(lowering_windows, a_part_reads_its_neighbours_and_pads_true_borders_only)
{
    struct sp_node *node = conv("1,2,9,7", "4,2,3,3", NULL);
    build_attr_ints(&build, node, "pads", 4, (int64_t[]){1, 1, 1, 1});
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){2, 1});
    infer();
    /* 5 places along h: shard 0 has 3, which read [-1, 6); shard 1 has 2, which read [5, 10). */
    EXPECT_LOWERING(
        build_lowering(&build, node, "h=0/2"),
        "%0 = box 0 [0:1,0:2,0:6,0:7] float32[1,2,6,7]\n"
        "%1 = part 1 [0:4,0:2,0:3,0:3] float32[4,2,3,3]\n"
        "%2 = Conv(%0, %1) {kernel_shape=[3,3], strides=[2,1], pads=[1,1,0,1], auto_pad=none} float32[1,4,3,7]\n"
        "output 0 = %2\n");
    EXPECT_LOWERING(
        build_lowering(&build, node, "h=1/2"),
        "%0 = box 0 [0:1,0:2,5:9,0:7] float32[1,2,4,7]\n"
        "%1 = part 1 [0:4,0:2,0:3,0:3] float32[4,2,3,3]\n"
        "%2 = Conv(%0, %1) {kernel_shape=[3,3], strides=[2,1], pads=[0,1,1,1], auto_pad=none} float32[1,4,2,7]\n"
        "output 0 = %2\n");
}

Test(lowering_windows, same_padding_is_that_of_the_whole)
{
    struct sp_node *node = conv("1,1,8,8", "1,1,3,3", NULL);
    build_attr_string(&build, node, "auto_pad", "SAME_LOWER");
    build_attr_ints(&build, node, "dilations", 2, (int64_t[]){2, 1});
    infer();
    /* span 5 along h: 4 of padding, 2 before; span 3 along w: 2, 1 before. */
    EXPECT_LOWERING(
        build_lowering(&build, node, "h=1/2 w=0/2"),
        "%0 = box 0 [0:1,0:1,2:8,0:5] float32[1,1,6,5]\n"
        "%1 = part 1 [0:1,0:1,0:3,0:3] float32[1,1,3,3]\n"
        "%2 = Conv(%0, %1) {kernel_shape=[3,3], strides=[1,1], pads=[0,1,2,0], auto_pad=none} float32[1,1,4,4]\n"
        "output 0 = %2\n");
}

Test(lowering_windows, a_bias_is_added_once)
{
    struct sp_node *node = conv("2,6,5,5", "4,3,1,1", "4");
    build_attr_int(&build, node, "group", 2);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "c=1/2"), "%0 = part 0 [0:2,2:3+5:6,0:5,0:5] float32[2,2,5,5]\n"
                                                           "%1 = part 1 [0:4,2:3,0:1,0:1] float32[4,1,1,1]\n"
                                                           "%2 = part 2 [0:4] float32[4]\n"
                                                           "%3 = filled float32[4] {0}\n"
                                                           "%4 = Conv(%0, %1, %3) float32[2,4,5,5]\n"
                                                           "output 0 = %4, sum over c\n");
    EXPECT_LOWERING(build_lowering(&build, node, "g=1/2 m=0/2"), "%0 = part 0 [0:2,3:6,0:5,0:5] float32[2,3,5,5]\n"
                                                                 "%1 = part 1 [2:3,0:3,0:1,0:1] float32[1,3,1,1]\n"
                                                                 "%2 = part 2 [2:3] float32[1]\n"
                                                                 "%3 = Conv(%0, %1, %2) {group=1} float32[2,1,5,5]\n"
                                                                 "output 0 = %3\n");
}

Test(lowering_windows, taps_of_windows_that_tile_are_summed)
{
    struct sp_node *node = conv("1,2,12,8", "4,2,4,4", NULL);
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){4, 4});
    infer();
    EXPECT_LOWERING(
        build_lowering(&build, node, "kh=1/2 h=2/3"),
        "%0 = part 0 [0:1,0:2,10:12,0:8] float32[1,2,2,8]\n"
        "%1 = part 1 [0:4,0:2,2:4,0:4] float32[4,2,2,4]\n"
        "%2 = Conv(%0, %1) {kernel_shape=[2,4], strides=[2,4], pads=[0,0,0,0], auto_pad=none} float32[1,4,1,2]\n"
        "output 0 = %2, sum over kh\n");
}

Test(lowering_windows, a_part_in_the_padding_is_refused)
{
    struct sp_node *node = conv("1,1,2,4", "1,1,1,1", NULL);
    build_attr_ints(&build, node, "pads", 4, (int64_t[]){3, 0, 3, 0});
    infer();
    EXPECT_LOWERING(
        build_lowering(&build, node, "h=1/2"),
        "%0 = box 0 [0:1,0:1,1:2,0:4] float32[1,1,1,4]\n"
        "%1 = part 1 [0:1,0:1,0:1,0:1] float32[1,1,1,1]\n"
        "%2 = Conv(%0, %1) {kernel_shape=[1,1], strides=[1,1], pads=[0,0,3,0], auto_pad=none} float32[1,1,4,4]\n"
        "output 0 = %2\n");
    EXPECT_LOWERING(
        build_lowering(&build, node, "h=1/4"),
        "again h: Node 0 (Conv) has no form for a split of factor h: the windows of a device would lie in the "
        "padding altogether. It is computed with the factor whole on every device.");
}

/* ---- ConvTranspose ---------------------------------------------------------------------------------------------- */

static struct sp_node *transposed(const char *x, const char *w)
{
    start(22);
    input("x", x);
    input("w", w);
    return build_node(&build, "ConvTranspose", "x w", "y");
}

Test(lowering_windows, a_transposed_part_takes_the_inputs_that_reach_it)
{
    struct sp_node *node = transposed("1,2,5,5", "2,3,3,3");
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){2, 1});
    build_attr_ints(&build, node, "pads", 4, (int64_t[]){1, 0, 1, 0});
    infer();
    /* 2*4 + 3 - 2 = 9 rows. Shard 1 of 2 has [5, 9), which is [6, 10) before the cut: inputs 2, 3, 4 make [4, 11). */
    EXPECT_LOWERING(build_lowering(&build, node, "h=1/2"),
                    "%0 = box 0 [0:1,0:2,2:5,0:5] float32[1,2,3,5]\n"
                    "%1 = part 1 [0:2,0:3,0:3,0:3] float32[2,3,3,3]\n"
                    "%2 = ConvTranspose(%0, %1) {kernel_shape=[3,3], strides=[2,1], pads=[2,0,1,0], auto_pad=none, "
                    "output_padding=[0,0], output_shape=none} float32[1,3,4,7]\n"
                    "output 0 = %2\n");
    EXPECT_LOWERING(build_lowering(&build, node, "h=0/2"),
                    "%0 = box 0 [0:1,0:2,0:3,0:5] float32[1,2,3,5]\n"
                    "%1 = part 1 [0:2,0:3,0:3,0:3] float32[2,3,3,3]\n"
                    "%2 = ConvTranspose(%0, %1) {kernel_shape=[3,3], strides=[2,1], pads=[1,0,1,0], auto_pad=none, "
                    "output_padding=[0,0], output_shape=none} float32[1,3,5,7]\n"
                    "output 0 = %2\n");
}

Test(lowering_windows, output_padding_lies_behind_the_last_part)
{
    struct sp_node *node = transposed("1,1,3,3", "1,1,2,2");
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){3, 3});
    build_attr_ints(&build, node, "output_padding", 2, (int64_t[]){2, 0});
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "h=1/2"),
                    "%0 = box 0 [0:1,0:1,1:3,0:3] float32[1,1,2,3]\n"
                    "%1 = part 1 [0:1,0:1,0:2,0:2] float32[1,1,2,2]\n"
                    "%2 = ConvTranspose(%0, %1) {kernel_shape=[2,2], strides=[3,3], pads=[2,0,0,0], auto_pad=none, "
                    "output_padding=[2,0], output_shape=none} float32[1,1,5,8]\n"
                    "output 0 = %2\n");
}

Test(lowering_windows, an_output_shape_is_replaced_by_padding)
{
    struct sp_node *node = transposed("1,1,4,4", "1,1,3,3");
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){2, 2});
    build_attr_ints(&build, node, "output_shape", 2, (int64_t[]){8, 8});
    infer();
    /* 9 rows would be made: one is cut off, at the beginning. */
    EXPECT_LOWERING(build_lowering(&build, node, "h=1/2"),
                    "%0 = box 0 [0:1,0:1,2:4,0:4] float32[1,1,2,4]\n"
                    "%1 = part 1 [0:1,0:1,0:3,0:3] float32[1,1,3,3]\n"
                    "%2 = ConvTranspose(%0, %1) {kernel_shape=[3,3], strides=[2,2], pads=[1,1,0,0], auto_pad=none, "
                    "output_padding=[0,0], output_shape=none} float32[1,1,4,8]\n"
                    "output 0 = %2\n");
}

Test(lowering_windows, padding_moves_transposed_tiles)
{
    struct sp_node *node = transposed("1,1,4,4", "1,1,2,2");
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){2, 2});
    build_attr_ints(&build, node, "pads", 4, (int64_t[]){1, 0, 0, 0});
    build_attr_ints(&build, node, "output_padding", 2, (int64_t[]){1, 0});
    infer();
    EXPECT_RULE(node, "[n,c,h,w] [c,m,kh,kw] -> [n,m,h,w*kw]  c: sum reduction; h: halo 0+1; kh: replicate");
    EXPECT_LOWERING(build_lowering(&build, node, "kw=1/2"),
                    "%0 = part 0 [0:1,0:1,0:4,0:4] float32[1,1,4,4]\n"
                    "%1 = part 1 [0:1,0:1,0:2,1:2] float32[1,1,2,1]\n"
                    "%2 = ConvTranspose(%0, %1) {kernel_shape=[2,1], strides=[2,1], pads=[1,0,0,0], auto_pad=none, "
                    "output_padding=[1,0], output_shape=none} float32[1,1,8,4]\n"
                    "output 0 = %2\n");
}

/* 4 inputs 3 apart, windows of 2: 3*3 + 2 elements, and nothing is there that SAME could cut off. */
Test(lowering_windows, gaps_between_transposed_windows_are_not_filled)
{
    struct sp_node *node = transposed("1,1,4,4", "1,1,2,3");
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){3, 2});
    build_attr_string(&build, node, "auto_pad", "SAME_UPPER");
    infer();
    EXPECT_TYPE("y", "float32[1,1,11,8]");
    EXPECT_LOWERING(build_lowering(&build, node, "h=1/2"),
                    "%0 = box 0 [0:1,0:1,2:4,0:4] float32[1,1,2,4]\n"
                    "%1 = part 1 [0:1,0:1,0:2,0:3] float32[1,1,2,3]\n"
                    "%2 = ConvTranspose(%0, %1) {kernel_shape=[2,3], strides=[3,2], pads=[0,0,0,1], auto_pad=none, "
                    "output_padding=[0,0], output_shape=none} float32[1,1,5,8]\n"
                    "output 0 = %2\n");
}

/* ---- DeformConv ------------------------------------------------------------------------------------------------- */

Test(lowering_windows, offsets_say_where_the_places_of_a_part_are)
{
    start(22);
    input("x", "1,4,6,6");
    input("w", "2,4,2,2");
    input("offset", "1,8,5,5");
    struct sp_node *node = build_node(&build, "DeformConv", "x w offset", "y");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "h=1/2"),
                    "%0 = part 0 [0:1,0:4,0:6,0:6] float32[1,4,6,6]\n"
                    "%1 = part 1 [0:2,0:4,0:2,0:2] float32[2,4,2,2]\n"
                    "%2 = part 2 [0:1,0:8,3:5,0:5] float32[1,8,2,5]\n"
                    "%3 = float32[1,1,2,1] {3,0}\n"
                    "%4 = float32[1,8,1,1] {1,0,1,0,1,0,1,0}\n"
                    "%5 = .Mul(%4, %3) float32[1,8,2,1]\n"
                    "%6 = .Add(%2, %5) float32[1,8,2,5]\n"
                    "%7 = DeformConv(%0, %1, %6) {group=1, offset_group=1, kernel_shape=[2,2], strides=[4,1], "
                    "pads=[0,0,0,0]} float32[1,2,2,5]\n"
                    "output 0 = %7\n");
    EXPECT_LOWERING(build_lowering(&build, node, "kw=1/2 c=0/2"),
                    "%0 = part 0 [0:1,0:2,0:6,0:6] float32[1,2,6,6]\n"
                    "%1 = part 1 [0:2,0:2,0:2,1:2] float32[2,2,2,1]\n"
                    "%2 = part 2 [0:1,2:4+6:8,0:5,0:5] float32[1,4,5,5]\n"
                    "%3 = float32[1,1,1,5] {1,0,-1,-2,-3}\n"
                    "%4 = float32[1,4,1,1] {0,1,0,1}\n"
                    "%5 = .Mul(%4, %3) float32[1,4,1,5]\n"
                    "%6 = .Add(%2, %5) float32[1,4,5,5]\n"
                    "%7 = DeformConv(%0, %1, %6) {group=1, offset_group=1, kernel_shape=[2,1], strides=[1,2], "
                    "pads=[0,0,0,3]} float32[1,2,5,5]\n"
                    "output 0 = %7, sum over c kw\n");
}

/* ---- Resize ----------------------------------------------------------------------------------------------------- */

static struct sp_node *resize(const char *x, const float *scales, const char *mode)
{
    start(19);
    input("x", x);
    build_floats(&build, "scales", 4, scales);
    struct sp_node *node = build_node(&build, "Resize", "x - scales", "y");
    build_attr_string(&build, node, "mode", mode);
    return node;
}

Test(lowering_windows, nearest_elements_are_gathered)
{
    struct sp_node *node = resize("1,2,4,4", (const float[]){1, 1, 2, 1}, "nearest");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d2=1/2"), "%0 = box 0 [0:1,0:2,2:4,0:4] float32[1,2,2,4]\n"
                                                            "%1 = int64[4] {0,0,1,1}\n"
                                                            "%2 = .Gather(%0, %1) {axis=2} float32[1,2,4,4]\n"
                                                            "output 0 = %2\n");
    EXPECT_LOWERING(build_lowering(&build, node, "d1=1/2"), "%0 = part 0 [0:1,1:2,0:4,0:4] float32[1,1,4,4]\n"
                                                            "%1 = part 2 [0:4] float32[4]\n"
                                                            "%2 = float32[4] {1,1,2,1}\n"
                                                            "%3 = Resize(%0, -, %2) float32[1,1,8,4]\n"
                                                            "output 0 = %3\n");
}

Test(lowering_windows, the_other_axes_are_resized_as_they_were)
{
    struct sp_node *node = resize("1,2,4,4", (const float[]){1, 1, 2, 0.5F}, "linear");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d2=0/2"), "%0 = box 0 [0:1,0:2,0:3,0:4] float32[1,2,3,4]\n"
                                                            "%1 = int64[4] {0,0,0,1}\n"
                                                            "%2 = .Gather(%0, %1) {axis=2} float32[1,2,4,4]\n"
                                                            "%3 = float32[1,1,4,1] {1,0.75,0.25,0.75}\n"
                                                            "%4 = .Mul(%2, %3) float32[1,2,4,4]\n"
                                                            "%5 = int64[4] {1,1,1,2}\n"
                                                            "%6 = .Gather(%0, %5) {axis=2} float32[1,2,4,4]\n"
                                                            "%7 = float32[1,1,4,1] {0,0.25,0.75,0.25}\n"
                                                            "%8 = .Mul(%6, %7) float32[1,2,4,4]\n"
                                                            "%9 = .Add(%4, %8) float32[1,2,4,4]\n"
                                                            "%10 = part 2 [0:4] float32[4]\n"
                                                            "%11 = float32[4] {1,1,1,0.5}\n"
                                                            "%12 = Resize(%9, -, %11) float32[1,2,4,2]\n"
                                                            "output 0 = %12\n");
}

Test(lowering_windows, extents_that_stay_do_not_make_a_copy)
{
    struct sp_node *node = resize("1,2,10,4", (const float[]){1, 1, 1.05F, 1}, "nearest");
    infer();
    EXPECT_RULE(node, "[d0,d1,d2,d3] [] [_] -> [d0,d1,d2,d3]  d2: halo 1+1");
}

Test(lowering_windows, scales_of_two_axes_are_attributes_in_the_oldest_operator)
{
    start(1);
    input("x", "1,2,4,4");
    struct sp_node *node = build_node(&build, "Upsample", "x", "y");
    build_attr_float(&build, node, "height_scale", 2);
    build_attr_float(&build, node, "width_scale", 1.5);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d2=1/2"),
                    "%0 = box 0 [0:1,0:2,2:4,0:4] float32[1,2,2,4]\n"
                    "%1 = int64[4] {0,0,1,1}\n"
                    "%2 = .Gather(%0, %1) {axis=2} float32[1,2,4,4]\n"
                    "%3 = Upsample(%2) {height_scale=1, width_scale=1.5} float32[1,2,4,6]\n"
                    "output 0 = %3\n");
}

/* 3 rows times 1.3 are 3 rows: positions 0.5 / 1.3 - 0.5 < 0, 0.65 and 1.42. */
Test(lowering_windows, kept_extents_are_not_left_to_the_runtime)
{
    struct sp_node *node = resize("1,1,3,4", (const float[]){1, 1, 1.3F, 0.5F}, "nearest");
    build_attr_string(&build, node, "nearest_mode", "floor");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d3=1/2"), "%0 = box 0 [0:1,0:1,0:2,2:3] float32[1,1,2,1]\n"
                                                            "%1 = int64[3] {0,0,1}\n"
                                                            "%2 = .Gather(%0, %1) {axis=2} float32[1,1,3,1]\n"
                                                            "%3 = int64[1] {0}\n"
                                                            "%4 = .Gather(%2, %3) {axis=3} float32[1,1,3,1]\n"
                                                            "output 0 = %4\n");
}

Test(lowering_windows, sizes_are_those_of_the_part)
{
    start(19);
    input("x", "2,2,4,4");
    build_ints(&build, "sizes", 4, (const int64_t[]){2, 2, 8, 4});
    struct sp_node *node = build_node(&build, "Resize", "x - - sizes", "y");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d0=1/2"), "%0 = part 0 [1:2,0:2,0:4,0:4] float32[1,2,4,4]\n"
                                                            "%1 = part 3 [0:4] int64[4]\n"
                                                            "%2 = int64[4] {1,2,8,4}\n"
                                                            "%3 = Resize(%0, -, -, %2) float32[1,2,8,4]\n"
                                                            "output 0 = %3\n");
}

/* The region is [0, 0, 0.1, 0.2] to [1, 1, 0.9, 0.8]. */
Test(lowering_windows, axes_that_a_crop_leaves_are_copied)
{
    start(13);
    input("x", "4,3,6,8");
    build_floats(&build, "region", 8, (const float[]){0, 0, 0.1F, 0.2F, 1, 1, 0.9F, 0.8F});
    build_ints(&build, "sizes", 4, (const int64_t[]){4, 3, 4, 5});
    struct sp_node *node = build_node(&build, "Resize", "x region - sizes", "y");
    build_attr_string(&build, node, "coordinate_transformation_mode", "tf_crop_and_resize");
    infer();
    EXPECT_RULE(node, "[d0,d1,i2,i3] [_] [] [_] -> [d0,d1,d2,d3]  i2: replicate; i3: replicate");
    EXPECT_LOWERING(build_lowering(&build, node, "d0=1/2 d2=1/2"), "%0 = part 0 [2:4,0:3,0:6,0:8] float32[2,3,6,8]\n"
                                                                   "%1 = part 1 [0:8] float32[8]\n"
                                                                   "%2 = part 3 [0:4] int64[4]\n"
                                                                   "%3 = int64[4] {2,3,4,5}\n"
                                                                   "%4 = Resize(%0, %1, -, %3) float32[2,3,4,5]\n"
                                                                   "%5 = int64[1] {2}\n"
                                                                   "%6 = int64[1] {4}\n"
                                                                   "%7 = int64[1] {2}\n"
                                                                   "%8 = .Slice(%4, %5, %6, %7) float32[2,3,2,5]\n"
                                                                   "output 0 = %8\n");
}

/* 32 rows to 16: 2 make 1, and a window reaches no further than 8. Of rows 16 to 31 and 8 before, 12 are made, 4 too
 * many. */
Test(lowering_windows, antialiased_periods_are_left_to_the_operator)
{
    struct sp_node *node = resize("1,1,32,8", (const float[]){1, 1, 0.5F, 0.375F}, "linear");
    build_attr_int(&build, node, "antialias", 1);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d2=1/2"), "%0 = box 0 [0:1,0:1,8:32,0:8] float32[1,1,24,8]\n"
                                                            "%1 = part 2 [0:4] float32[4]\n"
                                                            "%2 = float32[4] {1,1,0.5,0.375}\n"
                                                            "%3 = Resize(%0, -, %2) float32[1,1,12,3]\n"
                                                            "%4 = int64[1] {4}\n"
                                                            "%5 = int64[1] {12}\n"
                                                            "%6 = int64[1] {2}\n"
                                                            "%7 = .Slice(%3, %4, %5, %6) float32[1,1,8,3]\n"
                                                            "output 0 = %7\n");
    EXPECT_LOWERING(build_lowering(&build, node, "d3=1/2"),
                    "again d3: Node 0 (Resize) has no form for a split of factor d3: runtimes round or weigh what is "
                    "between elements in ways of their own. It is computed with the factor whole on every device.");
}

/* ---- sampling -----------------------------------------------------------------------------------------------------
 */

Test(lowering_windows, a_part_of_a_grid_is_written_out)
{
    start(20);
    input("theta", "4,2,3");
    build_ints(&build, "size", 4, (const int64_t[]){4, 1, 2, 4});
    struct sp_node *node = build_node(&build, "AffineGrid", "theta size", "grid");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "n=1/2"), "%0 = int64[1] {2}\n"
                                                           "%1 = part 1 [0:4] int64[4]\n"
                                                           "%2 = int64[1] {1}\n"
                                                           "%3 = int64[1] {4}\n"
                                                           "%4 = int64[1] {0}\n"
                                                           "%5 = .Slice(%1, %2, %3, %4) int64[3]\n"
                                                           "%6 = part 0 [2:4,0:2,0:3] float32[2,2,3]\n"
                                                           "%7 = .Concat(%0, %5) {axis=0} int64[4]\n"
                                                           "%8 = AffineGrid(%6, %7) float32[2,2,4,2]\n"
                                                           "output 0 = %8\n");
    EXPECT_LOWERING(build_lowering(&build, node, "d2=1/2 k=1/3"), "%0 = part 0 [0:4,0:2,1:2] float32[4,2,1]\n"
                                                                  "%1 = float32[1,2,1] {0.25,0.75}\n"
                                                                  "%2 = int64[3] {2,2,1}\n"
                                                                  "%3 = .Expand(%1, %2) float32[2,2,1]\n"
                                                                  "%4 = float32[2,1,1] {-0.5,0.5}\n"
                                                                  "%5 = int64[3] {2,2,1}\n"
                                                                  "%6 = .Expand(%4, %5) float32[2,2,1]\n"
                                                                  "%7 = filled float32[2,2,1] {1}\n"
                                                                  "%8 = .Concat(%3, %6, %7) {axis=2} float32[2,2,3]\n"
                                                                  "%9 = int64[1] {1}\n"
                                                                  "%10 = int64[1] {2}\n"
                                                                  "%11 = int64[1] {2}\n"
                                                                  "%12 = .Slice(%8, %9, %10, %11) float32[2,2,1]\n"
                                                                  "%13 = int64[1] {0}\n"
                                                                  "%14 = .Unsqueeze(%12, %13) float32[1,2,2,1]\n"
                                                                  "%15 = .Transpose(%0) {perm=[0,2,1]} float32[4,1,2]\n"
                                                                  "%16 = int64[1] {1}\n"
                                                                  "%17 = .Unsqueeze(%15, %16) float32[4,1,1,2]\n"
                                                                  "%18 = .MatMul(%14, %17) float32[4,2,2,2]\n"
                                                                  "output 0 = %18, sum over k\n");
}

Test(lowering_windows, a_part_of_pooled_regions_is_cut_out)
{
    start(16);
    input("x", "1,3,8,8");
    input("rois", "5,4");
    build_input(&build, "batch", SP_DTYPE_INT64, "5");
    struct sp_node *node = build_node(&build, "RoiAlign", "x rois batch", "y");
    build_attr_int(&build, node, "output_height", 4);
    build_attr_int(&build, node, "output_width", 4);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "n=1/2 h=1/2"), "%0 = part 0 [0:1,0:3,0:8,0:8] float32[1,3,8,8]\n"
                                                                 "%1 = part 1 [3:5,0:4] float32[2,4]\n"
                                                                 "%2 = part 2 [3:5] int64[2]\n"
                                                                 "%3 = RoiAlign(%0, %1, %2) float32[2,3,4,4]\n"
                                                                 "%4 = int64[1] {2}\n"
                                                                 "%5 = int64[1] {4}\n"
                                                                 "%6 = int64[1] {2}\n"
                                                                 "%7 = .Slice(%3, %4, %5, %6) float32[2,3,2,4]\n"
                                                                 "output 0 = %7\n");
}

/* ---- Col2Im -------------------------------------------------------------------------------------------------------
 */

static struct sp_node *columns(const char *x, const int64_t *image, const int64_t *block)
{
    start(18);
    input("x", x);
    build_ints(&build, "image", 2, image);
    build_ints(&build, "block", 2, block);
    return build_node(&build, "Col2Im", "x image block", "y");
}

Test(lowering_windows, some_columns_make_an_image_of_their_own)
{
    struct sp_node *node = columns("1,8,12", (const int64_t[]){4, 5}, (const int64_t[]){2, 2});
    infer();
    /* 3 x 4 windows: columns [6, 12) are half of row 1 and row 2. */
    EXPECT_LOWERING(build_lowering(&build, node, "l=1/2"),
                    "%0 = part 0 [0:1,0:8,6:12] float32[1,8,6]\n"
                    "%1 = int64[6] {0,0,2,0,0,0}\n"
                    "%2 = float32[] {0}\n"
                    "%3 = .Pad(%0, %1, %2) float32[1,8,8]\n"
                    "%4 = int64[2] {3,5}\n"
                    "%5 = int64[2] {2,2}\n"
                    "%6 = Col2Im(%3, %4, %5) {strides=[1,1], pads=none} float32[1,2,3,5]\n"
                    "%7 = int64[8] {0,0,1,0,0,0,0,0}\n"
                    "%8 = float32[] {0}\n"
                    "%9 = .Pad(%6, %7, %8) float32[1,2,4,5]\n"
                    "output 0 = %9, sum over l\n");
    EXPECT_LOWERING(build_lowering(&build, node, "kh=1/2 o3=1/2"),
                    "%0 = part 0 [0:1,2:4+6:8,0:12] float32[1,4,12]\n"
                    "%1 = int64[2] {3,5}\n"
                    "%2 = int64[2] {1,2}\n"
                    "%3 = Col2Im(%0, %1, %2) {strides=[1,1], pads=none} float32[1,2,3,5]\n"
                    "%4 = int64[8] {0,0,1,0,0,0,0,0}\n"
                    "%5 = float32[] {0}\n"
                    "%6 = .Pad(%3, %4, %5) float32[1,2,4,5]\n"
                    "%7 = int64[1] {3}\n"
                    "%8 = int64[1] {5}\n"
                    "%9 = int64[1] {3}\n"
                    "%10 = .Slice(%6, %7, %8, %9) float32[1,2,4,2]\n"
                    "output 0 = %10, sum over kh\n");
}

Test(lowering_windows, tiles_are_those_of_the_part)
{
    struct sp_node *node = columns("1,8,6", (const int64_t[]){4, 6}, (const int64_t[]){2, 2});
    build_attr_ints(&build, node, "strides", 2, (int64_t[]){2, 2});
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "h=1/2 kw=1/2"),
                    "%0 = part 0 [0:1,1:2+3:4+5:6+7:8,3:6] float32[1,4,3]\n"
                    "%1 = int64[2] {2,3}\n"
                    "%2 = int64[2] {2,1}\n"
                    "%3 = Col2Im(%0, %1, %2) {strides=[2,1], pads=none} float32[1,2,2,3]\n"
                    "output 0 = %3\n");
}
