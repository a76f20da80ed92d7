/*
 * Reductions, normalisations, pools and selections on one device of several: which elements it takes, what it combines
 * with others, and that its numbers count for the whole. What comes out is compared with the whole in ONNX Runtime
 * (tests/conformance/simulate_cases.mjs); expected texts here follow from the operators' definitions.
 */
#include <stdio.h>
#include <string.h>

#include "build_lowering.h"
#include "expect_op.h"

TestSuite(lowering_reduction, .fini = stop);

#define EXPECT_PART(text, want)                                                                                        \
    do {                                                                                                               \
        const char *text_ = (text);                                                                                    \
        cr_expect(strstr(text_, want) != NULL, "no '%s' in %s", want, text_);                                          \
    } while (0)

static struct sp_node *unary(const char *op_type, int64_t opset, const char *dims)
{
    start(opset);
    input("x", dims);
    return build_node(&build, op_type, "x", "y");
}

static struct sp_node *pool(const char *op_type, const char *dims, int64_t kernel, int64_t stride, const char *outputs)
{
    start(12);
    input("x", dims);
    struct sp_node *node = build_node(&build, op_type, "x", outputs);
    build_attr_ints(&build, node, "kernel_shape", 2, (const int64_t[]){kernel, kernel});
    build_attr_ints(&build, node, "strides", 2, (const int64_t[]){stride, stride});
    return node;
}

/* ---- reductions ------------------------------------------------------------------------------------------------- */

/* Shards of 4 and 3 elements: each mean counts as much as it has elements. */
Test(lowering_reduction, means_of_uneven_shards_have_weights)
{
    struct sp_node *node = unary("ReduceMean", 13, "4,7");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d1=1/2"),
                    "%0 = part 0 [0:4,4:7] float32[4,3]\n"
                    "%1 = .ReduceMean(%0) {keepdims=1, axes=[0,1]} float32[1,1]\n"
                    "%2 = float32[] {0.428571433}\n"
                    "%3 = .Mul(%1, %2) float32[1,1]\n"
                    "output 0 = %3, sum over d1\n");
}

/* Quotients are cut off: 1/2 and 1/2 make 0, but (1 + 1)/2 is 1. */
Test(lowering_reduction, integers_are_divided_once)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_INT32, "4,8");
    struct sp_node *node = build_node(&build, "ReduceMean", "x", "y");
    build_attr_ints(&build, node, "axes", 1, (const int64_t[]){1});
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d1=0/2"), "%0 = part 0 [0:4,0:4] int32[4,4]\n"
                                                            "%1 = int64[1] {1}\n"
                                                            "%2 = .ReduceSum(%0, %1) {keepdims=1} int32[4,1]\n"
                                                            "%3 = all-reduce(%2), sum over d1 int32[4,1]\n"
                                                            "%4 = int32[] {8}\n"
                                                            "%5 = .Div(%3, %4) int32[4,1]\n"
                                                            "output 0 = %5\n");
}

Test(lowering_reduction, a_root_follows_the_sum_of_all)
{
    struct sp_node *node = unary("ReduceL2", 18, "4,8");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d0=0/2 d1=0/2"),
                    "%0 = part 0 [0:2,0:4] float32[2,4]\n"
                    "%1 = int64[2] {0,1}\n"
                    "%2 = .ReduceSumSquare(%0, %1) {keepdims=1} float32[1,1]\n"
                    "%3 = all-reduce(%2), sum over d0 d1 float32[1,1]\n"
                    "%4 = .Sqrt(%3) float32[1,1]\n"
                    "output 0 = %4\n");
}

/* The second shard's winner counts from 4; of devices whose winner is beaten none counts. */
Test(lowering_reduction, the_lowest_of_the_greatest_wins)
{
    struct sp_node *node = unary("ArgMax", 13, "4,7");
    build_attr_int(&build, node, "axis", 1);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d1=1/2"), "%0 = part 0 [0:4,4:7] float32[4,3]\n"
                                                            "%1 = ArgMax(%0) int64[4,1]\n"
                                                            "%2 = int64[] {4}\n"
                                                            "%3 = .Add(%1, %2) int64[4,1]\n"
                                                            "%4 = .ReduceMax(%0) {keepdims=1, axes=[1]} float32[4,1]\n"
                                                            "%5 = all-reduce(%4), max over d1 float32[4,1]\n"
                                                            "%6 = .Less(%4, %5) bool[4,1]\n"
                                                            "%7 = int64[] {7}\n"
                                                            "%8 = .Where(%6, %7, %3) int64[4,1]\n"
                                                            "%9 = all-reduce(%8), min over d1 int64[4,1]\n"
                                                            "output 0 = %9\n");
}

/* ---- normalisations --------------------------------------------------------------------------------------------- */

Test(lowering_reduction, softmax_takes_the_maximum_and_the_sum_of_all)
{
    struct sp_node *node = unary("Softmax", 11, "4,6");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d1=1/2"), "%0 = part 0 [0:4,3:6] float32[4,3]\n"
                                                            "%1 = .ReduceMax(%0) {keepdims=1, axes=[1]} float32[4,1]\n"
                                                            "%2 = all-reduce(%1), max over d1 float32[4,1]\n"
                                                            "%3 = .Sub(%0, %2) float32[4,3]\n"
                                                            "%4 = .Exp(%3) float32[4,3]\n"
                                                            "%5 = .ReduceSum(%4) {keepdims=1, axes=[1]} float32[4,1]\n"
                                                            "%6 = all-reduce(%5), sum over d1 float32[4,1]\n"
                                                            "%7 = .Div(%4, %6) float32[4,3]\n"
                                                            "output 0 = %7\n");
}

/* Rows that are whole need nobody. */
Test(lowering_reduction, softmax_of_rows_runs_as_it_is)
{
    struct sp_node *node = unary("Softmax", 13, "4,6");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d0=1/2"), "%0 = part 0 [2:4,0:6] float32[2,6]\n"
                                                            "%1 = Softmax(%0) float32[2,6]\n"
                                                            "output 0 = %1\n");
}

/* Before opset 7 operands do not broadcast from an axis of 1. */
Test(lowering_reduction, old_operator_sets_repeat_statistics)
{
    struct sp_node *node = unary("Softmax", 6, "4,6");
    infer();
    EXPECT_PART(build_lowering(&build, node, "d1=1/2"), "%4 = .Tile(%2, %3) float32[4,3]\n"
                                                        "%5 = .Sub(%0, %4) float32[4,3]\n");
}

/* Statistics of float16 are taken in float32. */
Test(lowering_reduction, narrow_types_have_wide_statistics)
{
    start(17);
    build_input(&build, "x", SP_DTYPE_FLOAT16, "4,6");
    build_input(&build, "s", SP_DTYPE_FLOAT16, "6");
    struct sp_node *node = build_node(&build, "LayerNormalization", "x s", "y m v");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d1=0/2"), "%0 = part 0 [0:4,0:3] float16[4,3]\n"
                                                            "%1 = .Cast(%0) {to=1} float32[4,3]\n"
                                                            "%2 = .ReduceMean(%1) {keepdims=1, axes=[1]} float32[4,1]\n"
                                                            "%3 = float32[] {0.5}\n"
                                                            "%4 = .Mul(%2, %3) float32[4,1]\n"
                                                            "%5 = all-reduce(%4), sum over d1 float32[4,1]\n"
                                                            "%6 = .Sub(%1, %5) float32[4,3]\n"
                                                            "%7 = .Mul(%6, %6) float32[4,3]\n"
                                                            "%8 = .ReduceMean(%7) {keepdims=1, axes=[1]} float32[4,1]\n"
                                                            "%9 = float32[] {0.5}\n"
                                                            "%10 = .Mul(%8, %9) float32[4,1]\n"
                                                            "%11 = all-reduce(%10), sum over d1 float32[4,1]\n"
                                                            "%12 = float32[] {9.99999975e-06}\n"
                                                            "%13 = .Add(%11, %12) float32[4,1]\n"
                                                            "%14 = .Sqrt(%13) float32[4,1]\n"
                                                            "%15 = .Reciprocal(%14) float32[4,1]\n"
                                                            "%16 = .Mul(%6, %15) float32[4,3]\n"
                                                            "%17 = part 1 [0:3] float16[3]\n"
                                                            "%18 = .Cast(%17) {to=1} float32[3]\n"
                                                            "%19 = .Mul(%16, %18) float32[4,3]\n"
                                                            "%20 = .Cast(%19) {to=10} float16[4,3]\n"
                                                            "output 0 = %20\n"
                                                            "output 1 = %5\n"
                                                            "output 2 = %15\n");
}

/* Whole groups: fewer of them, and nothing to combine. */
Test(lowering_reduction, a_device_with_whole_groups_says_how_many)
{
    start(21);
    input("x", "2,8,5");
    input("s", "8");
    input("b", "8");
    struct sp_node *node = build_node(&build, "GroupNormalization", "x s b", "y");
    build_attr_int(&build, node, "num_groups", 4);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "g=1/2"), "%0 = part 0 [0:2,4:8,0:5] float32[2,4,5]\n"
                                                           "%1 = part 1 [4:8] float32[4]\n"
                                                           "%2 = part 2 [4:8] float32[4]\n"
                                                           "%3 = GroupNormalization(%0, %1, %2) {num_groups=2} "
                                                           "float32[2,4,5]\n"
                                                           "output 0 = %3\n");
}

/* Channels 4 to 7 with windows of 3 reach channel 3 and nothing behind the last. */
Test(lowering_reduction, neighbours_channels_are_normalised_and_left)
{
    struct sp_node *node = unary("LRN", 13, "2,8,7,2");
    build_attr_int(&build, node, "size", 3);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "c=1/2"), "%0 = box 0 [0:2,3:8,0:7,0:2] float32[2,5,7,2]\n"
                                                           "%1 = LRN(%0) float32[2,5,7,2]\n"
                                                           "%2 = int64[1] {1}\n"
                                                           "%3 = int64[1] {5}\n"
                                                           "%4 = int64[1] {1}\n"
                                                           "%5 = .Slice(%1, %2, %3, %4) float32[2,4,7,2]\n"
                                                           "output 0 = %5\n");
}

/* ---- pools ------------------------------------------------------------------------------------------------------ */

/* 5 places by 3 devices: places 2 and 3 read elements 3 to 7 of 9, far from any border. */
Test(lowering_reduction, padding_is_at_the_borders_of_the_whole)
{
    struct sp_node *node = pool("MaxPool", "2,4,9,8", 3, 2, "y");
    build_attr_ints(&build, node, "pads", 4, (const int64_t[]){1, 1, 1, 1});
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "h=1/3"),
                    "%0 = box 0 [0:2,0:4,3:8,0:8] float32[2,4,5,8]\n"
                    "%1 = MaxPool(%0) {kernel_shape=[3,3], strides=[2,2], pads=[0,1,0,1], auto_pad=none} "
                    "float32[2,4,2,4]\n"
                    "output 0 = %1\n");
}

/* 9 elements by windows of 3 and stride 2 are 5 places and need (5 - 1) * 2 + 3 - 9 = 2 of padding, 8 need one. */
Test(lowering_reduction, same_padding_is_that_of_the_whole)
{
    struct sp_node *node = pool("AveragePool", "2,4,9,8", 3, 2, "y");
    build_attr_string(&build, node, "auto_pad", "SAME_UPPER");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "h=1/2"),
                    "%0 = box 0 [0:2,0:4,5:9,0:8] float32[2,4,4,8]\n"
                    "%1 = AveragePool(%0) {kernel_shape=[3,3], strides=[2,2], pads=[0,0,1,1], auto_pad=none} "
                    "float32[2,4,2,4]\n"
                    "output 0 = %1\n");
}

/* A window in padding alone has no elements: ONNX Runtime refuses such padding, and nobody is asked for none. */
Test(lowering_reduction, windows_in_padding_alone_are_whole)
{
    struct sp_node *node = pool("AveragePool", "2,4,9,8", 2, 2, "y");
    build_attr_ints(&build, node, "pads", 4, (const int64_t[]){2, 0, 0, 0});
    infer();
    EXPECT_PART(build_lowering(&build, node, "h=1/2"), "again h: ");
}

/* One tap of three: a third of the mean. */
Test(lowering_reduction, taps_of_tiles_are_summands)
{
    struct sp_node *node = pool("AveragePool", "2,4,9,6", 3, 3, "y");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "kh=1/2"),
                    "%0 = part 0 [0:2,0:4,2:3+5:6+8:9,0:6] float32[2,4,3,6]\n"
                    "%1 = AveragePool(%0) {kernel_shape=[1,3], strides=[1,3], pads=[0,0,0,0], auto_pad=none} "
                    "float32[2,4,3,2]\n"
                    "%2 = float32[] {0.333333343}\n"
                    "%3 = .Mul(%1, %2) float32[2,4,3,2]\n"
                    "output 0 = %3, sum over kh\n");
}

/* A position in the part [n, 2, 4, 8] of [n, 4, 8, 8], which has rows 1, 3, 5, 7 of channels 2 and 3. */
Test(lowering_reduction, positions_count_through_the_whole)
{
    struct sp_node *node = pool("MaxPool", "2,4,8,8", 2, 2, "y i");
    infer();
    const char *text = build_lowering(&build, node, "kh=1/2 c=1/2");
    EXPECT_PART(text, "%0 = part 0 [0:2,2:4,1:2+3:4+5:6+7:8,0:8] float32[2,2,4,8]\n");
    EXPECT_PART(text, "%15 = int64[] {2}\n"
                      "%16 = .Add(%14, %15) int64[2,2,4,4]\n"
                      "%17 = int64[4] {1,3,5,7}\n"
                      "%18 = .Gather(%17, %10) {axis=0} int64[2,2,4,4]\n");
    EXPECT_PART(text, "all-reduce(%31), min over kh int64[2,2,4,4]\n");
}

/* ---- selections ------------------------------------------------------------------------------------------------- */

/* Two of the best three can be in a shard of two. */
Test(lowering_reduction, the_best_of_the_best_are_chosen)
{
    start(11);
    input("x", "2,8");
    build_ints(&build, "k", 1, (const int64_t[]){3});
    struct sp_node *node = build_node(&build, "TopK", "x k", "y z");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d1=1/4"),
                    "%0 = part 0 [0:2,2:4] float32[2,2]\n"
                    "%1 = int64[1] {2}\n"
                    "%2, %3 = .TopK(%0, %1) {axis=1, largest=1, sorted=1} float32[2,2] int64\n"
                    "%4 = int64[] {2}\n"
                    "%5 = .Add(%3, %4) int64[2,2]\n"
                    "%6 = all-gather(%2) on axis 1 over d1 float32[2,?]\n"
                    "%7 = all-gather(%5) on axis 1 over d1 int64[2,?]\n"
                    "%8 = int64[1] {3}\n"
                    "%9, %10 = .TopK(%6, %8) {axis=1, largest=1, sorted=1} float32 int64\n"
                    "output 0 = %9\n"
                    "%11 = .GatherElements(%7, %10) {axis=1} int64\n"
                    "output 1 = %11\n");
}

Test(lowering_reduction, how_many_are_chosen_must_be_known)
{
    start(11);
    input("x", "2,8");
    build_input(&build, "k", SP_DTYPE_INT64, "1");
    struct sp_node *node = build_node(&build, "TopK", "x k", "y z");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d1=1/4"),
                    "again d1: How many elements TopK selects is not known before "
                    "the run, so it is computed whole on every device.");
}

/* Places 3 to 5 of a new axis of 6; -1 is place 5. */
Test(lowering_reduction, new_axes_are_compared_with_their_own_places)
{
    start(11);
    build_input(&build, "i", SP_DTYPE_INT64, "4");
    build_ints(&build, "d", -1, (const int64_t[]){6});
    input("v", "2");
    struct sp_node *node = build_node(&build, "OneHot", "i d v", "y");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "depth=1/2"), "%0 = int64[] {0}\n"
                                                               "%1 = int64[] {6}\n"
                                                               "%2 = part 0 [0:4] int64[4]\n"
                                                               "%3 = .Add(%2, %1) int64[4]\n"
                                                               "%4 = .Less(%2, %0) bool[4]\n"
                                                               "%5 = .Where(%4, %3, %2) int64[4]\n"
                                                               "%6 = .Unsqueeze(%5) {axes=[1]} int64[4,1]\n"
                                                               "%7 = int64[3] {3,4,5}\n"
                                                               "%8 = .Equal(%6, %7) bool[4,3]\n"
                                                               "%9 = .Cast(%8) {to=7} int64[4,3]\n"
                                                               "%10 = part 2 [0:2] float32[2]\n"
                                                               "%11 = .Gather(%10, %9) {axis=0} float32[4,3]\n"
                                                               "output 0 = %11\n");
}

/* Different parts are drawn with different seeds, and the extents are those of the part. */
Test(lowering_reduction, random_parts_have_seeds_of_their_own)
{
    start(13);
    struct sp_node *node = build_node(&build, "RandomNormal", "", "y");
    build_attr_ints(&build, node, "shape", 2, (const int64_t[]){4, 6});
    build_attr_float(&build, node, "seed", 7);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d0=1/2 d1=1/3"),
                    "%0 = RandomNormal() {shape=[2,2], seed=11} float32[2,2]\n"
                    "output 0 = %0\n");
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

/* One node: operands are "name:dims" separated by blanks, floats all, "-" an omitted one. */
static struct sp_node *node_of(const char *domain, const char *op_type, const char *operands, const char *outputs)
{
    char text[200], names[200] = "";
    char *rest = text;
    (void)snprintf(text, sizeof(text), "%s", operands);
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *colon = strchr(word, ':');
        if (colon != NULL) {
            *colon = '\0';
            input(word, colon + 1);
        }
        (void)snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s ", word);
    }
    return build_node_in(&build, domain, op_type, names, outputs);
}

/* build_lowering() calls each function again without memory for each of its steps in turn. */
Test(lowering_reduction, every_form_ends_with_its_results)
{
    static const struct {
        const char *domain, *op_type, *operands, *outputs, *cuts, *last;
        const char *attribute;
        int64_t value;
    } forms[] = {
        {"", "ReduceLogSum", "x:4,7", "y", "d1=1/2", "output 0 = ", "keepdims", 0},
        {"", "ReduceLogSumExp", "x:4,7", "y", "d0=1/2 d1=1/2", "output 0 = ", "keepdims", 0},
        {"", "ArgMin", "x:4,7", "y", "d0=1/2", "output 0 = ", "select_last_index", 1},
        {"", "LogSoftmax", "x:4,7", "y", "d1=1/2", "output 0 = ", NULL, 0},
        {"", "Hardmax", "x:4,7", "y", "d1=1/2", "output 0 = ", NULL, 0},
        {"", "BatchNormalization", "x:4,6,5 s:6 b:6 m:6 v:6", "y o p", "n=1/2 c=0/2", "output 2 = ", "training_mode",
         1},
        {"", "InstanceNormalization", "x:4,6,5 s:6 b:6", "y", "s0=1/2 c=0/2", "output 0 = ", NULL, 0},
        {"", "GroupNormalization", "x:4,6,5 s:6 b:6", "y", "s0=1/2 g=0/2", "output 0 = ", "num_groups", 2},
        {"", "GroupNormalization", "x:4,6,5 s:6 b:6", "y", "c=1/2", "output 0 = ", "num_groups", 2},
        {"", "RMSNormalization", "x:4,6,5 s:6,5", "y", "d1=1/2 d2=1/2", "output 0 = ", "axis", 1},
        {"", "MeanVarianceNormalization", "x:4,6,5,2", "y", "d0=1/2 d2=1/2", "output 0 = ", NULL, 0},
        {"", "LpNormalization", "x:4,6", "y", "d1=1/2", "output 0 = ", "p", 1},
        {"", "LRN", "x:4,6,3", "y", "c=1/2", "output 0 = ", "size", 5},
        {"", "GlobalAveragePool", "x:4,6,5", "y", "w=1/2", "output 0 = ", NULL, 0},
        {"", "GlobalLpPool", "x:4,6,5", "y", "w=1/2", "output 0 = ", "p", 3},
        {"", "DynamicQuantizeLinear", "x:4,6", "y s z", "d0=1/2 d1=0/2", "output 2 = ", NULL, 0},
        {"", "RandomUniformLike", "x:4,6", "y", "d0=1/2", "output 0 = ", NULL, 0},
        {"", "Multinomial", "x:4,6", "y", "b=1/2 s=1/3", "output 0 = ", "sample_size", 6},
        {"", "Dropout", "x:4,6", "y m", "d0=1/2", "output 1 = ", NULL, 0},
        {"com.microsoft", "SkipLayerNormalization", "x:2,4,6 s:2,4,6 g:6 b:6 c:6", "y m v t", "d2=1/2",
         "output 3 = ", NULL, 0},
        {"com.microsoft", "SkipSimplifiedLayerNormalization", "x:2,4,6 s:2,4,6 g:6 c:6", "y m v t", "d2=1/2",
         "output 3 = ", NULL, 0},
        {"", "SimplifiedLayerNormalization", "x:2,4,6 g:6", "y v", "d2=1/2", "output 1 = ", NULL, 0},
    };
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        start(23);
        build_opset(&build, "com.microsoft", 1);
        struct sp_node *node = node_of(forms[i].domain, forms[i].op_type, forms[i].operands, forms[i].outputs);
        if (forms[i].attribute != NULL)
            build_attr_int(&build, node, forms[i].attribute, forms[i].value);
        infer();
        const char *text = build_lowering(&build, node, forms[i].cuts);
        cr_expect(strstr(text, forms[i].last) != NULL, "%s: %s", forms[i].op_type, text);
        stop();
    }
    start(13); /* a test's end stops once more */
}

/* Elements of devices that have parts of the input with one position: the last one stays. */
Test(lowering_reduction, unpooled_elements_fall_into_parts)
{
    start(13);
    input("x", "1,2,3");
    build_input(&build, "i", SP_DTYPE_INT64, "1,2,3");
    struct sp_node *node = build_node(&build, "MaxUnpool", "x i", "y");
    build_attr_ints(&build, node, "kernel_shape", 1, (const int64_t[]){2});
    build_attr_ints(&build, node, "strides", 1, (const int64_t[]){2});
    infer();
    const char *text = build_lowering(&build, node, "i1=1/2 o2=1/2");
    EXPECT_PART(text, "%1 = part 1 [0:1,1:2,0:3] int64[1,1,3]\n");
    EXPECT_PART(text, ", max over i1 int64[6]\n");
    EXPECT_PART(text, ", sum over i1\n");
}

/* The operator itself adds the rows; of what it normalises nothing is used. */
Test(lowering_reduction, embeddings_are_normalised_over_all)
{
    start(17);
    build_opset(&build, "com.microsoft", 1);
    build_input(&build, "ids", SP_DTYPE_INT32, "2,5");
    input("w", "30,8");
    input("p", "16,8");
    input("g", "8");
    input("b", "8");
    struct sp_node *node = build_node_in(&build, "com.microsoft", "EmbedLayerNormalization", "ids - w p - g b", "y");
    infer();
    const char *text = build_lowering(&build, node, "h=1/2");
    EXPECT_PART(text, "%6, %7 = com.microsoft.EmbedLayerNormalization(");
    EXPECT_PART(text, "sum over h float32[2,5,1]\n");
    EXPECT_PART(text, "output 0 = ");
}
