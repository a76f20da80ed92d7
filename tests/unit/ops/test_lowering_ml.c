/*
 * Parts of losses, models of ai.onnx.ml, signals and caches. Numbers follow from the operators' specifications; that
 * whole programs compute what the runtime computes for the whole is what the conformance tests show.
 */
#include <string.h>

#include "build_lowering.h"
#include "expect_op.h"

TestSuite(lowering_ml, .fini = stop);

/* The text has all of these in this order. */
static void expect_lines(const char *text, uint32_t count, const char *const *lines)
{
    const char *at = text;
    for (uint32_t i = 0; i < count; i++) {
        const char *found = strstr(at, lines[i]);
        cr_expect(found != NULL, "no '%s' behind the others in\n%s", lines[i], text);
        if (found == NULL)
            return;
        at = found + strlen(lines[i]);
    }
}
#define EXPECT_LINES(text, ...)                                                                                        \
    expect_lines(text, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

/* ---- losses ----------------------------------------------------------------------------------------------------- */

static struct sp_node *loss(const char *op_type, const char *inputs, const char *outputs)
{
    start(13);
    input("x", "5,6,4");
    build_input(&build, "t", SP_DTYPE_INT64, "5,4");
    input("w", "6");
    return build_node(&build, op_type, inputs, outputs);
}

/* 3 of 5 rows count 3/5 of the mean. */
Test(lowering_ml, a_mean_of_equal_targets_is_a_sum_of_shares)
{
    struct sp_node *node = loss("NegativeLogLikelihoodLoss", "x t", "y");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d0=0/2"),
                    "%0 = part 0 [0:3,0:6,0:4] float32[3,6,4]\n"
                    "%1 = part 1 [0:3,0:4] int64[3,4]\n"
                    "%2 = NegativeLogLikelihoodLoss(%0, %1) {reduction='mean'} float32[]\n"
                    "%3 = float32[] {0.600000024}\n"
                    "%4 = .Mul(%2, %3) float32[]\n"
                    "output 0 = %4, sum over d0\n");
}

/* Sums and weights are combined apart. */
Test(lowering_ml, a_weighted_mean_is_a_quotient_of_sums)
{
    struct sp_node *node = loss("NegativeLogLikelihoodLoss", "x t w", "y");
    build_attr_int(&build, node, "ignore_index", 2);
    infer();
    EXPECT_LINES(build_lowering(&build, node, "d2=1/2"), "NegativeLogLikelihoodLoss(%0, %1, %2) {reduction='sum'}",
                 "all-reduce(%3), sum over d2 float32[]", ".Equal(%1, ", ".Gather(%2, ", ".Where(", ".ReduceSum(",
                 "sum over d2 float32[]\n", ".Div(%4, ", "output 0 = ");
}

Test(lowering_ml, losses_of_their_own_need_nobody)
{
    struct sp_node *node = loss("SoftmaxCrossEntropyLoss", "x t w", "y p");
    build_attr_string(&build, node, "reduction", "none");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d2=0/2"),
                    "%0 = part 0 [0:5,0:6,0:2] float32[5,6,2]\n"
                    "%1 = part 1 [0:5,0:2] int64[5,2]\n"
                    "%2 = part 2 [0:6] float32[6]\n"
                    "%3, %4 = SoftmaxCrossEntropyLoss(%0, %1, %2) {reduction='none'} float32[5,2] float32[5,6,2]\n"
                    "output 1 = %4\n"
                    "output 0 = %3\n");
}

/* The softmax of all classes first, and then the targets that are classes from 3 on. */
Test(lowering_ml, split_classes_are_picked_where_they_are)
{
    struct sp_node *node = loss("SoftmaxCrossEntropyLoss", "x t", "y p");
    build_attr_string(&build, node, "reduction", "sum");
    infer();
    EXPECT_LINES(build_lowering(&build, node, "c1=1/2"), "part 0 [0:5,3:6,0:4]", ".ReduceMax(",
                 "max over c1 float32[5,1,4]", ".Exp(", "sum over c1 float32[5,1,4]", "output 1 = ", "int64[] {3}",
                 ".Sub(", ".GatherElements(", "float32[5,1,4]", "float32[5,4]", ".Where(", ".Neg(",
                 "sum over c1 float32[]", "output 0 = ");
}

/* ---- ai.onnx.ml ------------------------------------------------------------------------------------------------- */

static void start_ml(void)
{
    start(13);
    build_opset(&build, "ai.onnx.ml", 3);
}

Test(lowering_ml, lists_are_cut_as_the_features)
{
    start_ml();
    input("x", "4,6");
    struct sp_node *scaler = build_node_in(&build, "ai.onnx.ml", "Scaler", "x", "y");
    struct sp_node *imputer = build_node_in(&build, "ai.onnx.ml", "Imputer", "x", "z");
    build_attr_floats(&build, scaler, "offset", 6, (const double[]){1, 2, 3, 4, 5, 6});
    build_attr_floats(&build, scaler, "scale", 6, (const double[]){7, 8, 9, 10, 11, 12});
    build_attr_floats(&build, imputer, "imputed_value_floats", 1, (const double[]){0.5});
    infer();
    EXPECT_LOWERING(build_lowering(&build, scaler, "d1=1/2"),
                    "%0 = part 0 [0:4,3:6] float32[4,3]\n"
                    "%1 = Scaler(%0) {offset=[4,5,6], scale=[10,11,12]} float32[4,3]\n"
                    "output 0 = %1\n");
    /* Indices 0, 1, 3 and 4: the first two of each three. */
    EXPECT_LINES(build_lowering(&build, scaler, "d1=0/2:3"), "{offset=[1,2,4,5], scale=[7,8,10,11]}");
    EXPECT_LINES(build_lowering(&build, scaler, "d0=1/2"), "= Scaler(%0) float32[2,6]");
    EXPECT_LINES(build_lowering(&build, imputer, "d1=1/2"), "= Imputer(%0) float32[4,3]");
}

Test(lowering_ml, features_of_more_than_a_matrix_stay_whole)
{
    start_ml();
    input("x", "4,6,5");
    struct sp_node *scaler = build_node_in(&build, "ai.onnx.ml", "Scaler", "x", "y");
    infer();
    EXPECT_LINES(build_lowering(&build, scaler, "d2=0/2"), "again d2: ", "its features are those of a matrix");
}

Test(lowering_ml, rows_of_zeros_stay)
{
    start_ml();
    input("x", "4,6");
    struct sp_node *node = build_node_in(&build, "ai.onnx.ml", "Normalizer", "x", "y");
    build_attr_string(&build, node, "norm", "L2");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d1=0/2"), "%0 = part 0 [0:4,0:3] float32[4,3]\n"
                                                            "%1 = .Mul(%0, %0) float32[4,3]\n"
                                                            "%2 = int64[1] {1}\n"
                                                            "%3 = .ReduceSum(%1, %2) {keepdims=1} float32[4,1]\n"
                                                            "%4 = all-reduce(%3), sum over d1 float32[4,1]\n"
                                                            "%5 = .Sqrt(%4) float32[4,1]\n"
                                                            "%6 = float32[] {0}\n"
                                                            "%7 = .Equal(%5, %6) bool[4,1]\n"
                                                            "%8 = float32[] {1}\n"
                                                            "%9 = .Where(%7, %8, %5) float32[4,1]\n"
                                                            "%10 = .Div(%0, %9) float32[4,3]\n"
                                                            "output 0 = %10\n");
}

static struct sp_node *linear(const char *op_type, const char *outputs)
{
    start_ml();
    input("x", "4,2");
    struct sp_node *node = build_node_in(&build, "ai.onnx.ml", op_type, "x", outputs);
    build_attr_floats(&build, node, "coefficients", 4, (const double[]){1, 2, 3, 4}); /* a row for each score */
    build_attr_floats(&build, node, "intercepts", 2, (const double[]){5, 6});
    return node;
}

Test(lowering_ml, features_of_a_linear_model_are_summed_before_its_intercepts)
{
    struct sp_node *node = linear("LinearRegressor", "y");
    build_attr_int(&build, node, "targets", 2);
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "f1=1/2"),
                    "%0 = part 0 [0:4,1:2] float32[4,1]\n"
                    "%1 = ai.onnx.ml.LinearRegressor(%0) {coefficients=[2,4], targets=2} float32[4,2]\n"
                    "%2 = all-reduce(%1), sum over f1 float32[4,2]\n"
                    "%3 = LinearRegressor(%2) {coefficients=[1,0,0,1], intercepts=[5,6]} float32[4,2]\n"
                    "output 0 = %3\n");
}

Test(lowering_ml, scores_of_a_linear_model_are_gathered_for_the_label)
{
    struct sp_node *node = linear("LinearClassifier", "l s");
    build_attr_ints(&build, node, "classlabels_ints", 2, (const int64_t[]){7, 9});
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "e=1/2"),
                    "%0 = part 0 [0:4,0:2] float32[4,2]\n"
                    "%1 = ai.onnx.ml.LinearRegressor(%0) {coefficients=[3,4], targets=1} float32[4,1]\n"
                    "%2 = all-gather(%1) on axis 1 over e float32[4,2]\n"
                    "%3, %4 = LinearClassifier(%2) {coefficients=[1,0,0,1], intercepts=[5,6]} int64[4] float32[4,2]\n"
                    "output 0 = %3\n"
                    "%5 = int64[1] {1}\n"
                    "%6 = int64[1] {2}\n"
                    "%7 = int64[1] {1}\n"
                    "%8 = .Slice(%4, %5, %6, %7) float32[4,1]\n"
                    "output 1 = %8\n");
}

/* One row of coefficients for two labels. */
Test(lowering_ml, a_score_for_two_labels_is_not_cut)
{
    start_ml();
    input("x", "4,2");
    struct sp_node *node = build_node_in(&build, "ai.onnx.ml", "LinearClassifier", "x", "l s");
    build_attr_floats(&build, node, "coefficients", 2, (const double[]){1, 2});
    build_attr_floats(&build, node, "intercepts", 1, (const double[]){5});
    build_attr_ints(&build, node, "classlabels_ints", 2, (const int64_t[]){7, 9});
    infer();
    EXPECT_LINES(build_lowering(&build, node, "e=0/2"), "again e: ", "one row of coefficients for each score");
    EXPECT_LINES(build_lowering(&build, node, "f1=0/2"), "{coefficients=[1], targets=1} float32[4,1]",
                 "LinearClassifier(%2) {coefficients=[1], intercepts=[5]} int64[4] float32[4,2]", "output 1 = %4");
}

Test(lowering_ml, coefficients_must_be_those_of_the_input)
{
    struct sp_node *node = linear("LinearRegressor", "y");
    build_attr_int(&build, node, "targets", 3);
    build_attr_floats(&build, node, "unused", 1, (const double[]){0});
    infer();
    node->attributes[0].count = 3; /* of two features */
    EXPECT_LINES(build_lowering(&build, node, "f1=0/2"), "again f1: ", "one for each feature");
}

Test(lowering_ml, features_are_extracted_where_they_are)
{
    start_ml();
    input("x", "4,6");
    build_input(&build, "i", SP_DTYPE_INT64, "3");
    struct sp_node *node = build_node_in(&build, "ai.onnx.ml", "ArrayFeatureExtractor", "x i", "y");
    infer();
    EXPECT_LINES(build_lowering(&build, node, "v1=1/2"), "part 0 [0:4,3:6]", "part 1 [0:3]", "int64[] {3}", ".Sub(",
                 ".Where(", "ArrayFeatureExtractor(%0, ", "float32[4,3]", ".Where(", "sum over v1");
}

/* Codes are made for all categories: an unknown one is an error as before. */
Test(lowering_ml, codes_are_made_whole_and_cut)
{
    start_ml();
    build_input(&build, "x", SP_DTYPE_INT64, "4");
    struct sp_node *node = build_node_in(&build, "ai.onnx.ml", "OneHotEncoder", "x", "y");
    build_attr_ints(&build, node, "cats_int64s", 3, (const int64_t[]){0, 1, 2});
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "d0=0/2 k=1/2"), "%0 = part 0 [0:2] int64[2]\n"
                                                                  "%1 = OneHotEncoder(%0) float32[2,3]\n"
                                                                  "%2 = int64[1] {2}\n"
                                                                  "%3 = int64[1] {3}\n"
                                                                  "%4 = int64[1] {1}\n"
                                                                  "%5 = .Slice(%1, %2, %3, %4) float32[2,1]\n"
                                                                  "output 0 = %5\n");
}

/* ---- signals and caches ----------------------------------------------------------------------------------------- */

/* 7 frames of 8 elements, one every 4: frames 4 to 6 read [16, 32). */
Test(lowering_ml, frames_read_what_they_reach_over)
{
    start(17);
    input("x", "2,32,1");
    build_ints(&build, "step", -1, (const int64_t[]){4});
    build_weight(&build, "window", SP_DTYPE_FLOAT, "8");
    struct sp_node *node = build_node(&build, "STFT", "x step window", "y");
    infer();
    EXPECT_LOWERING(build_lowering(&build, node, "f=1/2"), "%0 = box 0 [0:2,16:32,0:1] float32[2,16,1]\n"
                                                           "%1 = part 1 [] int64[]\n"
                                                           "%2 = part 2 [0:8] float32[8]\n"
                                                           "%3 = STFT(%0, %1, %2) float32[2,3,5,2]\n"
                                                           "output 0 = %3\n");
    EXPECT_LINES(build_lowering(&build, node, "b0=1/2"), "part 0 [1:2,0:32,0:1]", "STFT(%0, %1, %2) float32[1,7,5,2]");
}

static struct sp_node *cache(const char *dims, const char *inputs, const char *mode)
{
    start(24);
    input("cache", dims);
    input("update", "2,3,4,5");
    build_input(&build, "first", SP_DTYPE_INT64, "2");
    struct sp_node *node = build_node(&build, "TensorScatter", inputs, "y");
    build_attr_string(&build, node, "mode", mode);
    infer();
    return node;
}

/* Place p takes update p - first, of 4. */
Test(lowering_ml, updates_come_to_the_places_of_a_part)
{
    struct sp_node *node = cache("2,3,8,5", "cache update first", "linear");
    EXPECT_LINES(build_lowering(&build, node, "s2=1/2"), "int64[4] {4,5,6,7}", ".Unsqueeze(", "int64[4,1]",
                 "part 2 [0:2]", "int64[2,1,1,1]", ".Sub(", "int64[2,1,4,1]", "int64[] {0}", "int64[] {4}",
                 ".GreaterOrEqual(", ".Less(", ".And(", ".Where(", ".Expand(", "int64[2,3,4,5]",
                 "part 1 [0:2,0:3,0:4,0:5]", ".GatherElements(", "{axis=2} float32[2,3,4,5]",
                 "part 0 [0:2,0:3,4:8,0:5]", ".Where(", "output 0 = ");
}

Test(lowering_ml, a_circular_cache_goes_round)
{
    struct sp_node *node = cache("2,3,8,5", "cache update first", "circular");
    EXPECT_LINES(build_lowering(&build, node, "s2=0/2"), ".Sub(", "int64[] {8}", ".Mod(", ".GatherElements(");
}

Test(lowering_ml, caches_of_open_extents_stay_whole)
{
    struct sp_node *node = cache("2,h,8,5", "cache update first", "linear");
    EXPECT_LINES(build_lowering(&build, node, "s2=0/2"), "again s2: ", "the extents of its operands are not known");
}
