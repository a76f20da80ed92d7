/*
 * The builder of one device's part of a node: what is recorded, in which form, in every version of the operator set.
 * Expected texts follow from the signatures of the operators (core/ops/signatures) and the contracts of ops/local.h.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_local.h"
#include "expect_op.h"
#include "onnx/float_bits.h"
#include "ops/local_recorder.h"

TestSuite(local, .fini = stop);

/* Expectations about pieces hold where there was memory for them. */
#define END_AFTER_ERROR(local)                                                                                         \
    do {                                                                                                               \
        if (sp_local_status(local) != SP_OK)                                                                           \
            return sp_local_status(local);                                                                             \
    } while (0)

#define EXPECT_LOCAL(text, want)                                                                                       \
    do {                                                                                                               \
        const char *text_ = (text);                                                                                    \
        cr_expect_str_eq(text_, want, "%s", text_);                                                                    \
    } while (0)

static struct sp_node *matmul(int64_t opset)
{
    start(opset);
    input("a", "4,6");
    input("b", "6,5");
    struct sp_node *node = build_node(&build, "MatMul", "a b", "y");
    infer();
    return node;
}

/* ---- the default ------------------------------------------------------------------------------------------------ */

Test(local, a_split_reduction_leaves_partial_results)
{
    struct sp_node *node = matmul(13);
    EXPECT_LOCAL(build_local_with(&build, node, "k=1/2", sp_local_default), "%0 = part 0 [0:4,3:6] float32[4,3]\n"
                                                                            "%1 = part 1 [3:6,0:5] float32[3,5]\n"
                                                                            "%2 = MatMul(%0, %1) float32[4,5]\n"
                                                                            "output 0 = %2, sum over k\n");
}

Test(local, what_is_not_split_runs_as_it_is)
{
    struct sp_node *node = matmul(13);
    EXPECT_LOCAL(build_local_with(&build, node, "m=1/4 n=0/2", sp_local_default), "%0 = part 0 [1:2,0:6] float32[1,6]\n"
                                                                                  "%1 = part 1 [0:6,0:3] float32[6,3]\n"
                                                                                  "%2 = MatMul(%0, %1) float32[1,3]\n"
                                                                                  "output 0 = %2\n");
}

/* Softmax is split by its default only where rows stay whole. */
Test(local, the_default_refuses_what_it_cannot_do)
{
    start(13);
    input("x", "4,6");
    struct sp_node *softmax = build_node(&build, "Softmax", "x", "y");
    struct sp_node *reverse = build_node(&build, "ArgMax", "x", "z");
    build_attr_int(&build, reverse, "axis", 1);
    infer();
    EXPECT_LOCAL(build_local_with(&build, softmax, "d0=0/2", sp_local_default), "%0 = part 0 [0:2,0:6] float32[2,6]\n"
                                                                                "%1 = Softmax(%0) float32[2,6]\n"
                                                                                "output 0 = %1\n");
    EXPECT_LOCAL(
        build_local_with(&build, softmax, "d1=0/2", sp_local_default),
        "again d1: Node 0 (Softmax) has no form for a split of factor d1, a reduction that stays in the result, "
        "so it is computed whole on every device.");
    EXPECT_LOCAL(
        build_local_with(&build, reverse, "d1=0/2", sp_local_default),
        "again d1: Node 1 (ArgMax) has no form for a split of factor d1, along which elements are positions in the "
        "whole tensor, so it is computed whole on every device.");
}

/* Extents of Shape are those of the whole; those of a random tensor come from an attribute. */
Test(local, the_default_refuses_factors_of_one_side)
{
    start(15);
    input("x", "4,6");
    struct sp_node *shape = build_node(&build, "Shape", "x", "s");
    struct sp_node *random = build_node(&build, "RandomNormal", "", "r");
    build_attr_ints(&build, random, "shape", 1, (const int64_t[]){8});
    infer();
    const char *text = build_local_with(&build, shape, "d0=0/2", sp_local_default);
    cr_expect(strstr(text, "which only inputs have") != NULL, "%s", text);
    text = build_local_with(&build, random, "d0=0/2", sp_local_default);
    cr_expect(strstr(text, "which the result has and no input") != NULL, "%s", text);
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

static enum sp_status fail_first(struct sp_local *local)
{
    struct sp_piece *x = sp_local_input(local, 0);
    sp_local_fail(local, SP_ERR_UNSUPPORTED, "FIRST", "The %s.", "first");
    sp_local_fail(local, SP_ERR_MODEL, "SECOND", "The second.");
    sp_local_whole(local, 0, "Not taken.");
    cr_expect_null(sp_local_input(local, 1));
    cr_expect_null(sp_local_unary(local, "Abs", x));
    cr_expect_null(sp_local_int(local, SP_DTYPE_INT64, 1));
    cr_expect_null(sp_local_concat(local, 0, 1, &x));
    cr_expect_null(sp_local_all_reduce(local, x, SP_COMBINE_SUM, 0, NULL));
    sp_local_output(local, 0, x);
    return sp_local_status(local);
}

static enum sp_status whole_first(struct sp_local *local)
{
    sp_local_whole(local, sp_local_split_named(local, "k"), "Node %d is whole.", 7);
    sp_local_whole(local, sp_local_split_named(local, "m"), "Too late.");
    sp_local_fail(local, SP_ERR_MODEL, "SECOND", "Too late.");
    cr_expect_null(sp_local_input(local, 0));
    return sp_local_status(local);
}

static enum sp_status twice(struct sp_local *local)
{
    sp_local_output(local, 0, sp_local_same(local, 0, NULL, 0, NULL));
    sp_local_output_whole(local, 0, sp_local_input(local, 0));
    return sp_local_status(local);
}

static enum sp_status no_piece(struct sp_local *local)
{
    sp_local_output(local, 0, NULL);
    return sp_local_status(local);
}

Test(local, the_first_error_stays)
{
    struct sp_node *node = matmul(13);
    EXPECT_LOCAL(build_local_with(&build, node, "k=0/2", fail_first), "FIRST: The first.");
    EXPECT_LOCAL(build_local_with(&build, node, "k=0/2 m=0/2", whole_first), "again k: Node 7 is whole.");
    EXPECT_LOCAL(build_local_with(&build, node, "k=0/2", twice),
                 "LOCAL_PROGRAM: Node 0 (MatMul): its local form gives output 0 twice.");
    EXPECT_LOCAL(build_local_with(&build, node, "k=0/2", no_piece),
                 "LOCAL_PROGRAM: Node 0 (MatMul): its local form gives output 0, which is not there.");
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

static enum sp_status ask_again(struct sp_local *local)
{
    struct sp_piece *part = sp_local_input(local, 0), *whole = sp_local_input_whole(local, 0);
    END_AFTER_ERROR(local);
    cr_expect_eq(sp_local_input(local, 0), part);
    cr_expect_eq(sp_local_input_whole(local, 0), whole);
    cr_expect_neq(part, whole);
    /* Nothing of b is cut along n: its whole is its part. */
    cr_expect_eq(sp_local_input_whole(local, 1), sp_local_input(local, 1));
    cr_expect_null(sp_local_input(local, 2));
    sp_local_input_range(local, 0, 1, 2, 5);
    sp_local_input_box(local, 0, (const struct sp_range[]){{-1, -1}, {0, 6}});
    sp_local_input_box(local, 0, (const struct sp_range[]){{0, 4}, {0, -1}});
    struct sp_range ranges[] = {{0, 1}, {2, 4}}, row = {3, 4};
    sp_local_input_axes(local, 0, (const struct sp_axis_ranges[]){{1, &row}, {2, ranges}});
    return sp_local_status(local);
}

Test(local, inputs_are_parts_wholes_and_boxes)
{
    struct sp_node *node = matmul(13);
    EXPECT_LOCAL(build_local_with(&build, node, "m=1/2", ask_again), "%0 = part 0 [2:4,0:6] float32[2,6]\n"
                                                                     "%1 = whole 0 [0:4,0:6] float32[4,6]\n"
                                                                     "%2 = part 1 [0:6,0:5] float32[6,5]\n"
                                                                     "%3 = box 0 [2:4,2:5] float32[2,3]\n"
                                                                     "%4 = box 0 [2:4,0:6] float32[2,6]\n"
                                                                     "%5 = box 0 [0:4,0:6] float32[4,6]\n"
                                                                     "%6 = box 0 [3:4,0:1+2:4] float32[1,3]\n");
}

static enum sp_status ask_outside(struct sp_local *local)
{
    sp_local_input_range(local, 0, 1, 2, 7);
    return sp_local_status(local);
}

static enum sp_status ask_nothing(struct sp_local *local)
{
    sp_local_input_range(local, 0, 1, 2, 2);
    return sp_local_status(local);
}

static enum sp_status ask_disorder(struct sp_local *local)
{
    struct sp_range ranges[] = {{2, 4}, {4, 5}}, row = {3, 4};
    sp_local_input_axes(local, 0, (const struct sp_axis_ranges[]){{1, &row}, {2, ranges}});
    return sp_local_status(local);
}

Test(local, boxes_lie_inside)
{
    struct sp_node *node = matmul(13);
    const char *const text = "LOCAL_PROGRAM: Node 0 (MatMul): its local form asks for ";
    cr_expect_eq(strncmp(build_local_with(&build, node, "", ask_outside), text, strlen(text)), 0);
    cr_expect_eq(strncmp(build_local_with(&build, node, "", ask_nothing), text, strlen(text)), 0);
    cr_expect_eq(strncmp(build_local_with(&build, node, "", ask_disorder), text, strlen(text)), 0);
}

static enum sp_status name_pieces(struct sp_local *local)
{
    const struct sp_piece *x = sp_local_input(local, 0), *y = sp_local_same(local, 0, NULL, 0, NULL);
    const struct sp_piece *z = sp_local_unary(local, "Exp", sp_local_input(local, 0));
    END_AFTER_ERROR(local);
    cr_expect_str_eq(z->name, "Exp@0.2", "%s", z->name);
    cr_expect_str_eq(y->name, "y@0.1", "%s", y->name);
    /* 199 bytes and a letter of two: it is not cut through. */
    cr_expect_eq(strlen(x->name), 199 + strlen("@0.0"));
    return sp_local_status(local);
}

Test(local, names_are_the_models_and_a_number)
{
    char name[256];
    start(13);
    memset(name, 'a', sizeof name);
    memcpy(name + 199, "\xc3\xa9zz", 5);
    input("x", "4");
    struct sp_node *node = build_node(&build, "Abs", "x", "y");
    infer();
    build_value(&build, "x")->name = name;
    build_local_with(&build, node, "", name_pieces);
}

/* Unknown extents stay unknown; a value without a rank has no brackets. */
Test(local, what_is_not_known)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "n,4");
    build_input(&build, "u", SP_DTYPE_FLOAT, NULL);
    struct sp_node *a = build_node(&build, "Abs", "x", "a");
    struct sp_node *b = build_node(&build, "Abs", "u", "b");
    infer();
    EXPECT_LOCAL(build_local_with(&build, a, "d1=1/2", sp_local_default), "%0 = part 0 [0:?,2:4] float32[?,2]\n"
                                                                          "%1 = Abs(%0) float32[?,2]\n"
                                                                          "output 0 = %1\n");
    EXPECT_LOCAL(build_local_with(&build, b, "", sp_local_default), "%0 = part 0 [] float32\n"
                                                                    "%1 = Abs(%0) float32\n"
                                                                    "output 0 = %1\n");
}

/* ---- constants -------------------------------------------------------------------------------------------------- */

static enum sp_status make_constants(struct sp_local *local)
{
    sp_local_ints(local, 2, (const int64_t[]){-1, INT64_MAX});
    sp_local_scalar(local, SP_DTYPE_FLOAT, 0.5);
    sp_local_scalar(local, SP_DTYPE_DOUBLE, -INFINITY);
    sp_local_scalar(local, SP_DTYPE_FLOAT16, -65504);
    sp_local_scalar(local, SP_DTYPE_FLOAT16, 2049); /* between 2048 and 2050: the even one */
    sp_local_scalar(local, SP_DTYPE_BFLOAT16, INFINITY);
    sp_local_scalar(local, SP_DTYPE_FLOAT8E4M3FN, 1000); /* the largest is 448 */
    sp_local_scalar(local, SP_DTYPE_FLOAT8E5M2FNUZ, -0.0);
    sp_local_scalar(local, SP_DTYPE_UINT64, 0x1p63);
    sp_local_scalar(local, SP_DTYPE_BOOL, 3);
    sp_local_int(local, SP_DTYPE_INT8, -1);
    sp_local_int(local, SP_DTYPE_INT4, -1);
    sp_local_int(local, SP_DTYPE_FLOAT, 3);
    sp_local_full(local, SP_DTYPE_INT32, 2, (const int64_t[]){1000000, 1000000}, -7);
    sp_local_iota(local, 5, 8);
    sp_local_iota(local, 5, 5);
    sp_local_iota(local, 0, 1000000);
    sp_local_tensor(local, SP_DTYPE_FLOAT, 2, (const int64_t[]){1, 2}, (const float[]){1.5F, -2}, 8);
    return sp_local_status(local);
}

static enum sp_status make_infinite_int(struct sp_local *local)
{
    sp_local_scalar(local, SP_DTYPE_INT32, INFINITY);
    return sp_local_status(local);
}

static enum sp_status make_string(struct sp_local *local)
{
    sp_local_int(local, SP_DTYPE_STRING, 1);
    return sp_local_status(local);
}

static enum sp_status make_long_list(struct sp_local *local)
{
    sp_local_iota(local, 0, 1000000);
    return sp_local_status(local);
}

Test(local, constants)
{
    struct sp_node *node = matmul(13);
    EXPECT_LOCAL(build_local_with(&build, node, "", make_constants), "%0 = int64[2] {-1,9223372036854775807}\n"
                                                                     "%1 = float32[] {0.5}\n"
                                                                     "%2 = float64[] {-inf}\n"
                                                                     "%3 = float16[] {-65504}\n"
                                                                     "%4 = float16[] {2048}\n"
                                                                     "%5 = bfloat16[] {inf}\n"
                                                                     "%6 = float8e4m3fn[] {448}\n"
                                                                     "%7 = float8e5m2fnuz[] {0}\n"
                                                                     "%8 = uint64[] {9223372036854775808}\n"
                                                                     "%9 = bool[] {1}\n"
                                                                     "%10 = int8[] {255}\n"
                                                                     "%11 = int4[] {15}\n"
                                                                     "%12 = float32[] {3}\n"
                                                                     "%13 = filled int32[1000000,1000000] {-7}\n"
                                                                     "%14 = int64[3] {5,6,7}\n"
                                                                     "%15 = int64[0] {}\n"
                                                                     "%16 = int64[] {0}\n"
                                                                     "%17 = int64[] {1000000}\n"
                                                                     "%18 = int64[] {1}\n"
                                                                     "%19 = .Range(%16, %17, %18) int64[1000000]\n"
                                                                     "%20 = float32[1,2] {1.5,-2}\n");
    EXPECT_LOCAL(build_local_with(&build, node, "", make_infinite_int),
                 "LOCAL_PROGRAM: Node 0 (MatMul): its local form has a constant of type int32.");
    EXPECT_LOCAL(build_local_with(&build, node, "", make_string),
                 "LOCAL_PROGRAM: Node 0 (MatMul): its local form has a constant of type string.");
}

Test(local, long_lists_need_range)
{
    struct sp_node *node = matmul(10);
    const char *text = build_local_with(&build, node, "k=0/2", make_long_list);
    cr_expect(strncmp(text, "again k: ", 9) == 0 && strstr(text, "'Range' as it is since version 11") != NULL, "%s",
              text);
}

/* Every number of a narrow format is that number again, and what lies between two goes to the nearer. */
static enum sp_status encode_all(struct sp_local *local)
{
    for (uint32_t bits = 0; bits <= 0x7bff; bits += 13) {
        const double value = sp_float_from_bits(SP_DTYPE_FLOAT16, bits);
        const double next = sp_float_from_bits(SP_DTYPE_FLOAT16, bits + 1);
        sp_local_scalar(local, SP_DTYPE_FLOAT16, -value);
        sp_local_scalar(local, SP_DTYPE_FLOAT16, value + (next - value) * 0.75);
    }
    for (uint32_t i = 0; i < local->recorder->count; i++) {
        const unsigned char *bytes = local->recorder->events[i].constant.bytes;
        const uint32_t want = i % 2 == 0 ? (i / 2 * 13) | 0x8000 : i / 2 * 13 + 1;
        cr_assert_eq((uint32_t)bytes[0] + 256U * bytes[1], want, "%u", i);
    }
    local->recorder->count = 0;
    return sp_local_status(local);
}

Test(local, narrow_floats_are_rounded_to_the_nearest)
{
    struct sp_node *node = matmul(13);
    build_local_with(&build, node, "", encode_all);
}

static enum sp_status know(struct sp_local *local)
{
    uint32_t count;
    const int64_t *ints = sp_local_known(local, 1, &count);
    END_AFTER_ERROR(local);
    cr_assert_eq(count, 2);
    cr_expect_eq(ints[0], 6);
    cr_expect_eq(ints[1], 4);
    cr_expect_null(sp_local_known(local, 0, &count));
    cr_expect_eq(count, 0);
    return sp_local_status(local);
}

Test(local, known_integers_of_an_input)
{
    start(13);
    input("x", "4,6");
    build_ints(&build, "shape", 2, (const int64_t[]){6, 4});
    struct sp_node *node = build_node(&build, "Reshape", "x shape", "y");
    infer();
    build_local_with(&build, node, "", know);
}

/* ---- operators and attributes ----------------------------------------------------------------------------------- */

static enum sp_status write_operators(struct sp_local *local)
{
    char name[] = "value";
    int64_t ints[] = {1, 2};
    const struct sp_local_attribute attributes[] = {
        SP_INT_ATTR("i", 3),
        SP_INTS_ATTR("list", 2, ints),
        SP_NO_ATTR("gone"),
        {.name = name, .type = SP_ATTR_FLOAT, .f = 0.25},
        {.name = "reals", .type = SP_ATTR_FLOATS, .count = 2, .floats = (const double[]){0.5, 1.5}},
        {.name = "mode", .type = SP_ATTR_STRING, .s = "edge"}};
    struct sp_piece *inputs[] = {sp_local_input(local, 0), NULL}, *outputs[2];
    sp_local_output(local, 0, sp_local_same(local, 2, inputs, 6, attributes));
    sp_local_op_many(local, "com.microsoft", "Two", 1, inputs, 0, NULL, 2,
                     (const enum sp_dtype[]){SP_DTYPE_FLOAT, SP_DTYPE_INT64}, outputs);
    sp_piece_set_dims(local, outputs[1], 2, (const int64_t[]){2, -1});
    /* Copies are kept, not what was given. */
    name[0] = '?';
    ints[0] = 9;
    inputs[0] = NULL;
    return sp_local_status(local);
}

Test(local, operators_keep_what_they_are_given)
{
    struct sp_node *node = matmul(13);
    EXPECT_LOCAL(build_local_with(&build, node, "m=0/2", write_operators),
                 "%0 = part 0 [0:2,0:6] float32[2,6]\n"
                 "%1 = MatMul(%0, -) {i=3, list=[1,2], gone=none, value=0.25, reals=[0.5,1.5], mode='edge'} "
                 "float32[2,5]\n"
                 "output 0 = %1\n"
                 "%2, %3 = com.microsoft.Two(%0) float32 int64[2,?]\n");
}

TestSuite(local_forms);

/* ---- forms of the versions -------------------------------------------------------------------------------------- */

/* By a function, over x[4,6] of a type, with axis 0 cut in two; the first line, which is the input's, is left out. */
static const char *form(int64_t opset, enum sp_dtype dtype, build_local_function function)
{
    build_init(&build, opset);
    build_input(&build, "x", dtype, "4,6");
    struct sp_node *node = build_node(&build, "Transpose", "x", "y");
    infer();
    const char *text = build_local_with(&build, node, "d0=0/2", function);
    const char *line = strstr(text, "]\n");
    return strncmp(text, "%0 = part", 9) == 0 && line != NULL ? line + 2 : text;
}

static char *kept; /* of form(): the model is gone before the text is compared */

static const char *form_once(int64_t opset, enum sp_dtype dtype, build_local_function function)
{
    free(kept);
    kept = strdup(form(opset, dtype, function));
    stop();
    return kept;
}

static enum sp_status slices(struct sp_local *local)
{
    struct sp_piece *x = sp_local_input(local, 0);
    sp_local_slice(local, x, 1, 2, 5);
    return sp_local_status(local);
}

static enum sp_status steps(struct sp_local *local)
{
    struct sp_piece *x = sp_local_input(local, 0);
    sp_local_slice_step(local, x, 1, 5, INT64_MIN, -2);
    return sp_local_status(local);
}

static enum sp_status squeezes(struct sp_local *local)
{
    struct sp_piece *x = sp_local_unsqueeze(local, sp_local_input(local, 0), 1);
    sp_local_squeeze(local, x, 1);
    return sp_local_status(local);
}

static enum sp_status sums(struct sp_local *local)
{
    sp_local_reduce(local, "ReduceSum", sp_local_input(local, 0), 2, true);
    return sp_local_status(local);
}

static enum sp_status maxima(struct sp_local *local)
{
    sp_local_reduce(local, "ReduceMax", sp_local_input(local, 0), 3, false);
    return sp_local_status(local);
}

static enum sp_status pads(struct sp_local *local)
{
    sp_local_pad(local, sp_local_input(local, 0), 2, (const int64_t[]){0, 1}, (const int64_t[]){0, 2}, -1);
    return sp_local_status(local);
}

static enum sp_status reshapes(struct sp_local *local)
{
    sp_local_reshape(local, sp_local_input(local, 0), 2, (const int64_t[]){3, -1});
    return sp_local_status(local);
}

static enum sp_status expands(struct sp_local *local)
{
    sp_local_expand(local, sp_local_input(local, 0), 3, (const int64_t[]){5, -1, 6});
    return sp_local_status(local);
}

static enum sp_status casts(struct sp_local *local)
{
    sp_local_cast(local, sp_local_input(local, 0), SP_DTYPE_FLOAT16);
    return sp_local_status(local);
}

Test(local_forms, shape_helpers_follow_the_version)
{
    EXPECT_LOCAL(form_once(9, SP_DTYPE_FLOAT, slices),
                 "%1 = .Slice(%0) {axes=[1], starts=[2], ends=[5]} float32[2,3]\n");
    EXPECT_LOCAL(form_once(10, SP_DTYPE_FLOAT, slices), "%1 = int64[1] {2}\n"
                                                        "%2 = int64[1] {5}\n"
                                                        "%3 = int64[1] {1}\n"
                                                        "%4 = .Slice(%0, %1, %2, %3) float32[2,3]\n");
    EXPECT_LOCAL(form_once(9, SP_DTYPE_FLOAT, steps), "%1 = int64[3] {5,3,1}\n"
                                                      "%2 = .Gather(%0, %1) {axis=1} float32[2,3]\n");
    EXPECT_LOCAL(form_once(13, SP_DTYPE_FLOAT, steps), "%1 = int64[1] {5}\n"
                                                       "%2 = int64[1] {-9223372036854775808}\n"
                                                       "%3 = int64[1] {1}\n"
                                                       "%4 = int64[1] {-2}\n"
                                                       "%5 = .Slice(%0, %1, %2, %3, %4) float32[2,3]\n");
    EXPECT_LOCAL(form_once(12, SP_DTYPE_FLOAT, squeezes), "%1 = .Unsqueeze(%0) {axes=[1]} float32[2,1,6]\n"
                                                          "%2 = .Squeeze(%1) {axes=[1]} float32[2,6]\n");
    EXPECT_LOCAL(form_once(13, SP_DTYPE_FLOAT, squeezes), "%1 = int64[1] {1}\n"
                                                          "%2 = .Unsqueeze(%0, %1) float32[2,1,6]\n"
                                                          "%3 = int64[1] {1}\n"
                                                          "%4 = .Squeeze(%2, %3) float32[2,6]\n");
    EXPECT_LOCAL(form_once(4, SP_DTYPE_FLOAT, reshapes), "%1 = .Reshape(%0) {shape=[3,4]} float32[3,4]\n");
    EXPECT_LOCAL(form_once(5, SP_DTYPE_FLOAT, reshapes), "%1 = int64[2] {3,4}\n"
                                                         "%2 = .Reshape(%0, %1) float32[3,4]\n");
    EXPECT_LOCAL(form_once(7, SP_DTYPE_FLOAT, expands), "again d0: Node 0 (Transpose) is computed with factor d0 whole "
                                                        "on every device: with version 7 of the operator set its parts "
                                                        "would need operator 'Expand' as it is since version 8, so "
                                                        "convert the model to that.");
    EXPECT_LOCAL(form_once(8, SP_DTYPE_FLOAT, expands), "%1 = int64[3] {5,1,6}\n"
                                                        "%2 = .Expand(%0, %1) float32[5,2,6]\n");
    EXPECT_LOCAL(form_once(5, SP_DTYPE_FLOAT, casts), "%1 = .Cast(%0) {to='FLOAT16'} float16[2,6]\n");
    EXPECT_LOCAL(form_once(6, SP_DTYPE_FLOAT, casts), "%1 = .Cast(%0) {to=10} float16[2,6]\n");
}

Test(local_forms, reductions_follow_the_version_and_the_type)
{
    EXPECT_LOCAL(form_once(12, SP_DTYPE_FLOAT, sums), "%1 = .ReduceSum(%0) {keepdims=1, axes=[1]} float32[2,1]\n");
    EXPECT_LOCAL(form_once(13, SP_DTYPE_FLOAT, sums), "%1 = int64[1] {1}\n"
                                                      "%2 = .ReduceSum(%0, %1) {keepdims=1} float32[2,1]\n");
    EXPECT_LOCAL(form_once(17, SP_DTYPE_FLOAT, maxima), "%1 = .ReduceMax(%0) {keepdims=0, axes=[0,1]} float32[]\n");
    EXPECT_LOCAL(form_once(18, SP_DTYPE_FLOAT, maxima), "%1 = int64[2] {0,1}\n"
                                                        "%2 = .ReduceMax(%0, %1) {keepdims=0} float32[]\n");
    /* ReduceSum has integers of 32 and 64 bits. */
    EXPECT_LOCAL(form_once(12, SP_DTYPE_UINT8, sums), "%1 = .Cast(%0) {to=6} int32[2,6]\n"
                                                      "%2 = .ReduceSum(%1) {keepdims=1, axes=[1]} int32[2,1]\n"
                                                      "%3 = .Cast(%2) {to=2} uint8[2,1]\n");
    EXPECT_LOCAL(form_once(13, SP_DTYPE_UINT8, maxima), "%1 = .ReduceMax(%0) {keepdims=0, axes=[0,1]} uint8[]\n");
    EXPECT_LOCAL(form_once(13, SP_DTYPE_BOOL, maxima), "%1 = .Cast(%0) {to=6} int32[2,6]\n"
                                                       "%2 = .ReduceMax(%1) {keepdims=0, axes=[0,1]} int32[]\n"
                                                       "%3 = .Cast(%2) {to=9} bool[]\n");
}

Test(local_forms, pads_follow_the_version_and_the_type)
{
    EXPECT_LOCAL(form_once(1, SP_DTYPE_FLOAT, pads), "%1 = .Pad(%0) {paddings=[0,1,0,2], value=-1} float32[2,9]\n");
    EXPECT_LOCAL(form_once(10, SP_DTYPE_FLOAT, pads), "%1 = .Pad(%0) {pads=[0,1,0,2], value=-1} float32[2,9]\n");
    EXPECT_LOCAL(form_once(11, SP_DTYPE_FLOAT, pads), "%1 = int64[4] {0,1,0,2}\n"
                                                      "%2 = float32[] {-1}\n"
                                                      "%3 = .Pad(%0, %1, %2) float32[2,9]\n");
    EXPECT_LOCAL(form_once(10, SP_DTYPE_INT64, pads), "%1 = filled int64[2,1] {-1}\n"
                                                      "%2 = filled int64[2,2] {-1}\n"
                                                      "%3 = .Concat(%1, %0, %2) {axis=1} int64[2,9]\n");
    EXPECT_LOCAL(form_once(13, SP_DTYPE_INT16, pads), "%1 = .Cast(%0) {to=6} int32[2,6]\n"
                                                      "%2 = int64[4] {0,1,0,2}\n"
                                                      "%3 = int32[] {-1}\n"
                                                      "%4 = .Pad(%1, %2, %3) int32[2,9]\n"
                                                      "%5 = .Cast(%4) {to=5} int16[2,9]\n");
}

static enum sp_status adds_a_number(struct sp_local *local)
{
    struct sp_piece *x = sp_local_input(local, 0);
    END_AFTER_ERROR(local);
    sp_local_binary(local, "Add", sp_local_int(local, x->dtype, 2), x);
    return sp_local_status(local);
}

static enum sp_status subtracts_from_a_number(struct sp_local *local)
{
    struct sp_piece *x = sp_local_input(local, 0);
    END_AFTER_ERROR(local);
    sp_local_binary(local, "Sub", sp_local_int(local, x->dtype, 2), x);
    return sp_local_status(local);
}

static enum sp_status bounds_from_below(struct sp_local *local)
{
    struct sp_piece *x = sp_local_input(local, 0);
    END_AFTER_ERROR(local);
    sp_local_binary(local, "Max", x, sp_local_int(local, x->dtype, 0));
    return sp_local_status(local);
}

static enum sp_status compares(struct sp_local *local)
{
    struct sp_piece *x = sp_local_input(local, 0);
    END_AFTER_ERROR(local);
    sp_local_compare(local, "GreaterOrEqual", x, sp_local_int(local, x->dtype, 0));
    return sp_local_status(local);
}

static enum sp_status equals(struct sp_local *local)
{
    struct sp_piece *x = sp_local_input(local, 0);
    sp_local_compare(local, "Equal", x, x);
    return sp_local_status(local);
}

static enum sp_status chooses(struct sp_local *local)
{
    struct sp_piece *x = sp_local_input(local, 0);
    struct sp_piece *yes = sp_local_tensor(local, SP_DTYPE_BOOL, 1, (const int64_t[]){1}, "\1", 1);
    END_AFTER_ERROR(local);
    sp_local_where(local, yes, x, sp_local_int(local, x->dtype, 0));
    return sp_local_status(local);
}

Test(local_forms, elementwise_helpers_follow_the_version_and_the_type)
{
    EXPECT_LOCAL(form_once(7, SP_DTYPE_FLOAT, adds_a_number), "%1 = float32[] {2}\n"
                                                              "%2 = .Add(%1, %0) float32[2,6]\n");
    /* The second operand is the one that is repeated. */
    EXPECT_LOCAL(form_once(6, SP_DTYPE_FLOAT, adds_a_number), "%1 = float32[] {2}\n"
                                                              "%2 = .Add(%0, %1) {broadcast=1} float32[2,6]\n");
    cr_expect(strncmp(form_once(6, SP_DTYPE_FLOAT, subtracts_from_a_number), "again d0: ", 10) == 0, "%s", kept);
    EXPECT_LOCAL(form_once(14, SP_DTYPE_INT8, adds_a_number), "%1 = int8[] {2}\n"
                                                              "%2 = .Cast(%1) {to=6} int32[]\n"
                                                              "%3 = .Cast(%0) {to=6} int32[2,6]\n"
                                                              "%4 = .Add(%2, %3) int32[2,6]\n"
                                                              "%5 = .Cast(%4) {to=3} int8[2,6]\n");
    EXPECT_LOCAL(form_once(12, SP_DTYPE_INT64, bounds_from_below), "%1 = int64[] {0}\n"
                                                                   "%2 = .Max(%0, %1) int64[2,6]\n");
    EXPECT_LOCAL(form_once(11, SP_DTYPE_INT64, bounds_from_below), "%1 = int64[] {0}\n"
                                                                   "%2 = .Greater(%0, %1) bool[2,6]\n"
                                                                   "%3 = .Where(%2, %0, %1) int64[2,6]\n");
    EXPECT_LOCAL(form_once(11, SP_DTYPE_INT32, bounds_from_below), "%1 = int32[] {0}\n"
                                                                   "%2 = .Cast(%0) {to=11} float64[2,6]\n"
                                                                   "%3 = .Cast(%1) {to=11} float64[]\n"
                                                                   "%4 = .Max(%2, %3) float64[2,6]\n"
                                                                   "%5 = .Cast(%4) {to=6} int32[2,6]\n");
    EXPECT_LOCAL(form_once(12, SP_DTYPE_INT64, compares), "%1 = int64[] {0}\n"
                                                          "%2 = .GreaterOrEqual(%0, %1) bool[2,6]\n");
    EXPECT_LOCAL(form_once(11, SP_DTYPE_INT64, compares), "%1 = int64[] {0}\n"
                                                          "%2 = .Less(%0, %1) bool[2,6]\n"
                                                          "%3 = .Not(%2) bool[2,6]\n");
    EXPECT_LOCAL(form_once(11, SP_DTYPE_FLOAT, compares), "%1 = float32[] {0}\n"
                                                          "%2 = .Greater(%0, %1) bool[2,6]\n"
                                                          "%3 = .Equal(%0, %1) bool[2,6]\n"
                                                          "%4 = .Or(%2, %3) bool[2,6]\n");
    EXPECT_LOCAL(form_once(11, SP_DTYPE_FLOAT, equals), "%1 = .Equal(%0, %0) bool[2,6]\n");
    EXPECT_LOCAL(form_once(10, SP_DTYPE_FLOAT, equals), "%1 = .Less(%0, %0) bool[2,6]\n"
                                                        "%2 = .Greater(%0, %0) bool[2,6]\n"
                                                        "%3 = .Or(%1, %2) bool[2,6]\n"
                                                        "%4 = .IsNaN(%0) bool[2,6]\n"
                                                        "%5 = .IsNaN(%0) bool[2,6]\n"
                                                        "%6 = .Or(%4, %5) bool[2,6]\n"
                                                        "%7 = .Or(%3, %6) bool[2,6]\n"
                                                        "%8 = .Not(%7) bool[2,6]\n");
    EXPECT_LOCAL(form_once(9, SP_DTYPE_FLOAT, chooses), "%1 = bool[1] {1}\n"
                                                        "%2 = float32[] {0}\n"
                                                        "%3 = .Where(%1, %0, %2) float32[2,6]\n");
    EXPECT_LOCAL(form_once(13, SP_DTYPE_UINT16, chooses), "%1 = bool[1] {1}\n"
                                                          "%2 = uint16[] {0}\n"
                                                          "%3 = .Cast(%0) {to=6} int32[2,6]\n"
                                                          "%4 = .Cast(%2) {to=6} int32[]\n"
                                                          "%5 = .Where(%1, %3, %4) int32[2,6]\n"
                                                          "%6 = .Cast(%5) {to=4} uint16[2,6]\n");
    cr_expect(strncmp(form_once(8, SP_DTYPE_FLOAT, chooses), "again d0: ", 10) == 0, "%s", kept);
}

/* ---- nothing to do, and nothing that contradicts ---------------------------------------------------------------- */

static enum sp_status do_nothing(struct sp_local *local)
{
    struct sp_piece *x = sp_local_input(local, 0), *y = x;
    y = sp_local_slice(local, y, 1, 0, 6);
    y = sp_local_slice(local, y, 1, 0, INT64_MAX);
    y = sp_local_cast(local, y, SP_DTYPE_FLOAT);
    y = sp_local_reshape(local, y, 2, (const int64_t[]){2, -1});
    y = sp_local_transpose(local, y, 2, (const int64_t[]){0, 1});
    y = sp_local_expand(local, y, 2, (const int64_t[]){-1, 6});
    y = sp_local_concat(local, 1, 1, &y);
    y = sp_local_pad(local, y, 2, (const int64_t[]){0, 0}, (const int64_t[]){0, 0}, 3);
    y = sp_local_reduce(local, "ReduceSum", y, 0, true);
    /* Nothing along axis 1 is split: nobody differs in it. */
    y = sp_local_all_reduce(local, y, SP_COMBINE_SUM, 1, (const uint8_t[]){1});
    y = sp_local_all_gather(local, y, 1, 1);
    END_AFTER_ERROR(local);
    cr_expect_eq(x, y);
    return sp_local_status(local);
}

Test(local_forms, nothing_is_written_where_nothing_is_to_be_done)
{
    EXPECT_LOCAL(form_once(13, SP_DTYPE_FLOAT, do_nothing), "");
}

static enum sp_status follow_dims(struct sp_local *local)
{
    struct sp_piece *x = sp_local_input(local, 0);
    struct sp_piece *column = sp_local_slice(local, x, 1, 2, 3), *row = sp_local_slice(local, x, 0, 0, 1);
    struct sp_piece *indices =
        sp_local_tensor(local, SP_DTYPE_INT64, 2, (const int64_t[]){1, 2}, (int64_t[]){0, 1}, 16);
    const struct sp_piece *both = sp_local_binary(local, "Mul", column, row);
    const struct sp_piece *taken = sp_local_gather(local, x, indices, 1);
    END_AFTER_ERROR(local);
    cr_expect_eq(both->dims[1], 6);
    cr_expect(taken->rank == 3 && taken->dims[0] == 2 && taken->dims[1] == 1 && taken->dims[2] == 2);
    const struct sp_piece *turned = sp_local_transpose(local, x, 2, (const int64_t[]){1, 0});
    struct sp_piece *batch = sp_local_reshape(local, x, 4, (const int64_t[]){1, 2, 2, 3});
    struct sp_piece *other = sp_local_reshape(local, x, 3, (const int64_t[]){1, 3, 4});
    const struct sp_piece *product = sp_local_matmul(local, batch, other);
    struct sp_piece *vector = sp_local_reshape(local, other, 1, (const int64_t[]){12});
    const struct sp_piece *number = sp_local_matmul(local, vector, vector);
    struct sp_piece *unknown = sp_local_op(local, "Any", SP_DTYPE_FLOAT, 1, &x, 0, NULL);
    const struct sp_piece *sum = sp_local_binary(local, "Add", unknown, x);
    const struct sp_piece *open = sp_local_concat(local, 0, 2, (struct sp_piece *const[]){x, unknown});
    const struct sp_piece *longer = sp_local_concat(local, 0, 2, (struct sp_piece *const[]){x, row});
    END_AFTER_ERROR(local);
    cr_expect(turned->dims[0] == 6 && turned->dims[1] == 2);
    cr_expect(product->rank == 4 && product->dims[1] == 2 && product->dims[2] == 2 && product->dims[3] == 4);
    cr_expect(number->rank == 0 && number->dims != NULL);
    cr_expect_null(sum->dims);
    cr_expect_null(open->dims);
    cr_expect_eq(longer->dims[0], 3);
    return sp_local_status(local);
}

Test(local_forms, extents_follow_where_they_are_known)
{
    cr_expect(strstr(form_once(13, SP_DTYPE_FLOAT, follow_dims), "LOCAL_PROGRAM") == NULL, "%s", kept);
}

#define WRONG(name, call)                                                                                              \
    static enum sp_status name(struct sp_local *local)                                                                 \
    {                                                                                                                  \
        struct sp_piece *x = sp_local_input(local, 0);                                                                 \
        (void)x;                                                                                                       \
        (void)(call);                                                                                                  \
        return sp_local_status(local);                                                                                 \
    }
WRONG(wrong_slice, sp_local_slice(local, x, 1, 2, 7))
WRONG(wrong_step, sp_local_slice_step(local, x, 1, 6, 0, -1))
WRONG(wrong_axis, sp_local_slice(local, x, 2, 0, 1))
WRONG(wrong_types, sp_local_binary(local, "Add", x, sp_local_int(local, SP_DTYPE_INT64, 1)))
WRONG(wrong_shapes, sp_local_binary(local, "Add", x, sp_local_transpose(local, x, 2, (const int64_t[]){1, 0})))
WRONG(wrong_perm, sp_local_transpose(local, x, 2, (const int64_t[]){1, 1}))
WRONG(wrong_count, sp_local_reshape(local, x, 1, (const int64_t[]){13}))
WRONG(wrong_rest, sp_local_reshape(local, x, 2, (const int64_t[]){5, -1}))
WRONG(wrong_squeeze, sp_local_squeeze(local, x, 1))
WRONG(wrong_expand, sp_local_expand(local, x, 2, (const int64_t[]){2, 12}))
WRONG(wrong_pad, sp_local_pad(local, x, 2, (const int64_t[]){0, -1}, (const int64_t[]){0, 0}, 0))
WRONG(wrong_condition, sp_local_where(local, x, x, x))
WRONG(wrong_product, sp_local_matmul(local, x, x))
WRONG(wrong_combiner, sp_local_all_reduce(local, x, SP_COMBINE_SOFTMAX, 1, (const uint8_t[]){0}))
WRONG(wrong_factor, sp_local_all_reduce(local, x, SP_COMBINE_SUM, 1, (const uint8_t[]){9}))
WRONG(wrong_size, sp_local_tensor(local, SP_DTYPE_FLOAT, 1, (const int64_t[]){2}, "1234", 4))

Test(local_forms, what_contradicts_is_our_fault)
{
    static const build_local_function wrong[] = {wrong_slice,   wrong_step,     wrong_axis,   wrong_types,
                                                 wrong_shapes,  wrong_perm,     wrong_count,  wrong_rest,
                                                 wrong_squeeze, wrong_expand,   wrong_pad,    wrong_condition,
                                                 wrong_product, wrong_combiner, wrong_factor, wrong_size};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(strncmp(form_once(13, SP_DTYPE_FLOAT, wrong[i]), "LOCAL_PROGRAM: ", 15) == 0, "%zu: %s", i, kept);
}

/* ---- collectives and outputs ------------------------------------------------------------------------------------ */

static enum sp_status reduce_largest(struct sp_local *local)
{
    struct sp_piece *x = sp_local_input(local, 0);
    sp_local_all_reduce(local, x, SP_COMBINE_MAX, 2, (const uint8_t[]){1, 0});
    return sp_local_status(local);
}

static enum sp_status add_up(struct sp_local *local)
{
    struct sp_piece *x = sp_local_input(local, 0);
    sp_local_all_reduce(local, x, SP_COMBINE_SUM, 1, (const uint8_t[]){0});
    return sp_local_status(local);
}

/* Type, version, and the type that is carried; UNDEFINED: the factor is made whole. */
static const struct {
    enum sp_dtype dtype;
    int64_t opset;
    enum sp_dtype sum, max;
} carriers[] = {
    {SP_DTYPE_FLOAT, 7, SP_DTYPE_FLOAT, SP_DTYPE_FLOAT},
    {SP_DTYPE_FLOAT16, 13, SP_DTYPE_FLOAT16, SP_DTYPE_FLOAT16},
    {SP_DTYPE_BFLOAT16, 13, SP_DTYPE_BFLOAT16, SP_DTYPE_BFLOAT16},
    {SP_DTYPE_DOUBLE, 9, SP_DTYPE_DOUBLE, SP_DTYPE_DOUBLE},
    {SP_DTYPE_INT8, 14, SP_DTYPE_INT32, SP_DTYPE_INT32},
    {SP_DTYPE_UINT16, 9, SP_DTYPE_INT32, SP_DTYPE_DOUBLE},
    {SP_DTYPE_INT32, 13, SP_DTYPE_INT32, SP_DTYPE_INT32},
    {SP_DTYPE_INT32, 11, SP_DTYPE_INT32, SP_DTYPE_DOUBLE},
    {SP_DTYPE_INT64, 12, SP_DTYPE_INT64, SP_DTYPE_INT64},
    {SP_DTYPE_INT64, 11, SP_DTYPE_INT64, SP_DTYPE_UNDEFINED},
    {SP_DTYPE_UINT32, 13, SP_DTYPE_INT64, SP_DTYPE_INT64},
    {SP_DTYPE_UINT64, 13, SP_DTYPE_INT64, SP_DTYPE_UINT64},
    {SP_DTYPE_BOOL, 13, SP_DTYPE_INT32, SP_DTYPE_INT32},
    {SP_DTYPE_BOOL, 9, SP_DTYPE_DOUBLE, SP_DTYPE_DOUBLE},
    {SP_DTYPE_FLOAT8E4M3FN, 19, SP_DTYPE_FLOAT, SP_DTYPE_FLOAT},
    {SP_DTYPE_STRING, 13, SP_DTYPE_UNDEFINED, SP_DTYPE_UNDEFINED},
};

static void expect_carried(size_t i, enum sp_dtype carrier, const char *text, const char *combiner)
{
    char want[120];
    if (carrier == SP_DTYPE_UNDEFINED)
        (void)snprintf(want, sizeof want, "again d0: ");
    else
        (void)snprintf(want, sizeof want, "%%%d = all-reduce(%%%d), %s over d0 %s[2,6]\n",
                       1 + (carrier != carriers[i].dtype), carrier != carriers[i].dtype, combiner,
                       sp_dtype_name(carrier));
    cr_expect(strstr(text, want) != NULL, "case %zu, %s: %s", i, want, text);
    const bool is_back = strstr(text, "Cast") == NULL || strstr(strrchr(text, '='), sp_dtype_name(carriers[i].dtype));
    cr_expect(carrier == SP_DTYPE_UNDEFINED || is_back || strstr(text, "{to="), "%s", text);
}

Test(local_forms, collectives_have_types_that_can_be_combined)
{
    for (size_t i = 0; i < sizeof carriers / sizeof *carriers; i++) {
        const bool is_bool = carriers[i].dtype == SP_DTYPE_BOOL;
        expect_carried(i, carriers[i].max, form_once(carriers[i].opset, carriers[i].dtype, reduce_largest), "max");
        expect_carried(i, carriers[i].sum, form_once(carriers[i].opset, carriers[i].dtype, add_up),
                       is_bool ? "max" : "sum");
    }
    EXPECT_LOCAL(form_once(13, SP_DTYPE_BOOL, reduce_largest), "%1 = .Cast(%0) {to=6} int32[2,6]\n"
                                                               "%2 = all-reduce(%1), max over d0 int32[2,6]\n"
                                                               "%3 = .Cast(%2) {to=9} bool[2,6]\n");
}

static enum sp_status gather_all(struct sp_local *local)
{
    struct sp_piece *x = sp_local_all_gather(local, sp_local_input(local, 0), 0, 0);
    END_AFTER_ERROR(local);
    cr_expect_eq(x->dims[0], -1);
    sp_local_output_whole(local, 0, sp_local_transpose(local, x, 2, (const int64_t[]){1, 0}));
    return sp_local_status(local);
}

static enum sp_status output_sum(struct sp_local *local)
{
    sp_local_output_partial(local, 0, sp_local_input(local, 0), SP_COMBINE_SUM, 2, (const uint8_t[]){1, 0});
    return sp_local_status(local);
}

static enum sp_status output_unsplit(struct sp_local *local)
{
    sp_local_output_partial(local, 0, sp_local_input(local, 0), SP_COMBINE_SUM, 1, (const uint8_t[]){1});
    return sp_local_status(local);
}

Test(local_forms, outputs_are_parts_wholes_and_partial)
{
    EXPECT_LOCAL(form_once(13, SP_DTYPE_FLOAT, gather_all), "%1 = all-gather(%0) on axis 0 over d0 float32[?,6]\n"
                                                            "%2 = .Transpose(%1) {perm=[1,0]} float32[6,?]\n"
                                                            "output 0 = %2, whole\n");
    EXPECT_LOCAL(form_once(13, SP_DTYPE_FLOAT, output_sum), "output 0 = %0, sum over d0\n");
    EXPECT_LOCAL(form_once(13, SP_DTYPE_FLOAT, output_unsplit), "output 0 = %0\n");
    /* An output of 8 bits cannot be added up as it is: it is combined before. */
    EXPECT_LOCAL(form_once(13, SP_DTYPE_INT8, output_sum), "%1 = .Cast(%0) {to=6} int32[2,6]\n"
                                                           "%2 = all-reduce(%1), sum over d0 int32[2,6]\n"
                                                           "%3 = .Cast(%2) {to=3} int8[2,6]\n"
                                                           "output 0 = %3\n");
}

/* ---- queries ---------------------------------------------------------------------------------------------------- */

static enum sp_status look(struct sp_local *local)
{
    uint32_t count;
    const uint8_t k = sp_local_split_named(local, "k"), *partial = sp_local_partial_factors(local, 0, &count);
    END_AFTER_ERROR(local);
    cr_assert_eq(count, 1);
    cr_expect_eq(partial[0], k);
    cr_expect_eq(sp_local_input_factor(local, 0, 1), k);
    cr_expect_eq(sp_local_input_factor(local, 1, 0), k);
    cr_expect_eq(sp_local_output_factor(local, 0, 2), SP_RULE_NO_FACTOR);
    cr_expect_eq(sp_local_split_named(local, "n"), SP_RULE_NO_FACTOR);
    cr_expect(sp_local_is_cut(&local->inputs[0], 1) && !sp_local_is_cut(&local->inputs[1], 1));
    const int64_t *dims = sp_local_part_dims(local, &local->inputs[0]);
    END_AFTER_ERROR(local);
    cr_expect(dims[0] == 4 && dims[1] == 3);
    return sp_local_status(local);
}

Test(local, queries)
{
    struct sp_node *node = matmul(13);
    build_local_with(&build, node, "k=1/2", look);
}
