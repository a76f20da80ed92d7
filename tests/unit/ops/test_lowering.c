/*
 * The builder of one device's part of a node: what is recorded, in which form, in every version of the operator set.
 * Expected texts follow from the signatures of the operators (core/ops/signatures) and the contracts of ops/lowering/lowering.h.
 */
#include <math.h>
#include <string.h>

#include "build_lowering.h"
#include "expect_op.h"
#include "onnx/float_bits.h"
#include "ops/lowering/recorder.h"

TestSuite(lower, .fini = stop);

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

Test(lower, a_split_reduction_leaves_partial_results)
{
    struct sp_node *node = matmul(13);
    EXPECT_LOWERING(build_lowering_with(&build, node, "k=1/2", sp_lower_default), "%0 = part 0 [0:4,3:6] float32[4,3]\n"
                                                                                  "%1 = part 1 [3:6,0:5] float32[3,5]\n"
                                                                                  "%2 = MatMul(%0, %1) float32[4,5]\n"
                                                                                  "output 0 = %2, sum over k\n");
}

Test(lower, what_is_not_split_runs_as_it_is)
{
    struct sp_node *node = matmul(13);
    EXPECT_LOWERING(build_lowering_with(&build, node, "m=1/4 n=0/2", sp_lower_default),
                    "%0 = part 0 [1:2,0:6] float32[1,6]\n"
                    "%1 = part 1 [0:6,0:3] float32[6,3]\n"
                    "%2 = MatMul(%0, %1) float32[1,3]\n"
                    "output 0 = %2\n");
}

/* Softmax is split by its default only where rows stay whole. */
Test(lower, the_default_refuses_what_it_cannot_do)
{
    start(13);
    input("x", "4,6");
    struct sp_node *softmax = build_node(&build, "Softmax", "x", "y");
    struct sp_node *reverse = build_node(&build, "ArgMax", "x", "z");
    build_attr_int(&build, reverse, "axis", 1);
    infer();
    EXPECT_LOWERING(build_lowering_with(&build, softmax, "d0=0/2", sp_lower_default),
                    "%0 = part 0 [0:2,0:6] float32[2,6]\n"
                    "%1 = Softmax(%0) float32[2,6]\n"
                    "output 0 = %1\n");
    EXPECT_LOWERING(
        build_lowering_with(&build, softmax, "d1=0/2", sp_lower_default),
        "again d1: Node 0 (Softmax) has no form for a split of factor d1, a reduction that stays in the result, "
        "so it is computed whole on every device.");
    EXPECT_LOWERING(
        build_lowering_with(&build, reverse, "d1=0/2", sp_lower_default),
        "again d1: Node 1 (ArgMax) has no form for a split of factor d1, along which elements are positions in the "
        "whole tensor, so it is computed whole on every device.");
}

/* Extents of Shape are those of the whole; those of a random tensor come from an attribute. */
Test(lower, the_default_refuses_factors_of_one_side)
{
    start(15);
    input("x", "4,6");
    struct sp_node *shape = build_node(&build, "Shape", "x", "s");
    struct sp_node *random = build_node(&build, "RandomNormal", "", "r");
    build_attr_ints(&build, random, "shape", 1, (const int64_t[]){8});
    infer();
    const char *text = build_lowering_with(&build, shape, "d0=0/2", sp_lower_default);
    cr_expect(strstr(text, "which only inputs have") != NULL, "%s", text);
    text = build_lowering_with(&build, random, "d0=0/2", sp_lower_default);
    cr_expect(strstr(text, "which the result has and no input") != NULL, "%s", text);
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

static enum sp_status fail_first(struct sp_lowering *lower)
{
    struct sp_piece *x = sp_lower_input(lower, 0);
    sp_lower_fail(lower, SP_ERR_UNSUPPORTED, "FIRST", "The %s.", "first");
    sp_lower_fail(lower, SP_ERR_MODEL, "SECOND", "The second.");
    sp_lower_whole(lower, 0, "Not taken.");
    cr_expect_null(sp_lower_input(lower, 1));
    cr_expect_null(sp_lower_unary(lower, "Abs", x));
    cr_expect_null(sp_lower_int(lower, SP_DTYPE_INT64, 1));
    cr_expect_null(sp_lower_concat(lower, 0, 1, &x));
    cr_expect_null(sp_lower_all_reduce(lower, x, SP_COMBINE_SUM, 0, NULL));
    sp_lower_output(lower, 0, x);
    return sp_lower_status(lower);
}

static enum sp_status whole_first(struct sp_lowering *lower)
{
    sp_lower_whole(lower, sp_lower_split_named(lower, "k"), "Node %d is whole.", 7);
    sp_lower_whole(lower, sp_lower_split_named(lower, "m"), "Too late.");
    sp_lower_fail(lower, SP_ERR_MODEL, "SECOND", "Too late.");
    cr_expect_null(sp_lower_input(lower, 0));
    return sp_lower_status(lower);
}

static enum sp_status twice(struct sp_lowering *lower)
{
    sp_lower_output(lower, 0, sp_lower_same(lower, 0, NULL, 0, NULL));
    sp_lower_output_whole(lower, 0, sp_lower_input(lower, 0));
    return sp_lower_status(lower);
}

static enum sp_status no_piece(struct sp_lowering *lower)
{
    sp_lower_output(lower, 0, NULL);
    return sp_lower_status(lower);
}

Test(lower, the_first_error_stays)
{
    struct sp_node *node = matmul(13);
    EXPECT_LOWERING(build_lowering_with(&build, node, "k=0/2", fail_first), "FIRST: The first.");
    EXPECT_LOWERING(build_lowering_with(&build, node, "k=0/2 m=0/2", whole_first), "again k: Node 7 is whole.");
    EXPECT_LOWERING(build_lowering_with(&build, node, "k=0/2", twice),
                    "LOCAL_PROGRAM: Node 0 (MatMul): its local form gives output 0 twice.");
    EXPECT_LOWERING(build_lowering_with(&build, node, "k=0/2", no_piece),
                    "LOCAL_PROGRAM: Node 0 (MatMul): its local form gives output 0, which is not there.");
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

static enum sp_status ask_again(struct sp_lowering *lower)
{
    struct sp_piece *part = sp_lower_input(lower, 0), *whole = sp_lower_input_whole(lower, 0);
    END_AFTER_ERROR(lower);
    cr_expect_eq(sp_lower_input(lower, 0), part);
    cr_expect_eq(sp_lower_input_whole(lower, 0), whole);
    cr_expect_neq(part, whole);
    /* Nothing of b is cut along n: its whole is its part. */
    cr_expect_eq(sp_lower_input_whole(lower, 1), sp_lower_input(lower, 1));
    cr_expect_null(sp_lower_input(lower, 2));
    sp_lower_input_range(lower, 0, 1, 2, 5);
    sp_lower_input_box(lower, 0, (const struct sp_range[]){{-1, -1}, {0, 6}});
    sp_lower_input_box(lower, 0, (const struct sp_range[]){{0, 4}, {0, -1}});
    struct sp_range ranges[] = {{0, 1}, {2, 4}}, row = {3, 4};
    sp_lower_input_axes(lower, 0, (const struct sp_axis_ranges[]){{1, &row}, {2, ranges}});
    return sp_lower_status(lower);
}

Test(lower, inputs_are_parts_wholes_and_boxes)
{
    struct sp_node *node = matmul(13);
    EXPECT_LOWERING(build_lowering_with(&build, node, "m=1/2", ask_again), "%0 = part 0 [2:4,0:6] float32[2,6]\n"
                                                                           "%1 = whole 0 [0:4,0:6] float32[4,6]\n"
                                                                           "%2 = part 1 [0:6,0:5] float32[6,5]\n"
                                                                           "%3 = box 0 [2:4,2:5] float32[2,3]\n"
                                                                           "%4 = box 0 [2:4,0:6] float32[2,6]\n"
                                                                           "%5 = box 0 [0:4,0:6] float32[4,6]\n"
                                                                           "%6 = box 0 [3:4,0:1+2:4] float32[1,3]\n");
}

static enum sp_status ask_outside(struct sp_lowering *lower)
{
    sp_lower_input_range(lower, 0, 1, 2, 7);
    return sp_lower_status(lower);
}

static enum sp_status ask_nothing(struct sp_lowering *lower)
{
    sp_lower_input_range(lower, 0, 1, 2, 2);
    return sp_lower_status(lower);
}

static enum sp_status ask_disorder(struct sp_lowering *lower)
{
    struct sp_range ranges[] = {{2, 4}, {4, 5}}, row = {3, 4};
    sp_lower_input_axes(lower, 0, (const struct sp_axis_ranges[]){{1, &row}, {2, ranges}});
    return sp_lower_status(lower);
}

Test(lower, boxes_lie_inside)
{
    struct sp_node *node = matmul(13);
    const char *const text = "LOCAL_PROGRAM: Node 0 (MatMul): its local form asks for ";
    cr_expect_eq(strncmp(build_lowering_with(&build, node, "", ask_outside), text, strlen(text)), 0);
    cr_expect_eq(strncmp(build_lowering_with(&build, node, "", ask_nothing), text, strlen(text)), 0);
    cr_expect_eq(strncmp(build_lowering_with(&build, node, "", ask_disorder), text, strlen(text)), 0);
}

static enum sp_status name_pieces(struct sp_lowering *lower)
{
    const struct sp_piece *x = sp_lower_input(lower, 0), *y = sp_lower_same(lower, 0, NULL, 0, NULL);
    const struct sp_piece *z = sp_lower_unary(lower, "Exp", sp_lower_input(lower, 0));
    END_AFTER_ERROR(lower);
    cr_expect_str_eq(z->name, "Exp@0.2", "%s", z->name);
    cr_expect_str_eq(y->name, "y@0.1", "%s", y->name);
    /* 199 bytes and a letter of two: it is not cut through. */
    cr_expect_eq(strlen(x->name), 199 + strlen("@0.0"));
    return sp_lower_status(lower);
}

Test(lower, names_are_the_models_and_a_number)
{
    char name[256];
    start(13);
    memset(name, 'a', sizeof name);
    memcpy(name + 199, "\xc3\xa9zz", 5);
    input("x", "4");
    struct sp_node *node = build_node(&build, "Abs", "x", "y");
    infer();
    build_value(&build, "x")->name = name;
    build_lowering_with(&build, node, "", name_pieces);
}

/* Unknown extents stay unknown; a value without a rank has no brackets. */
Test(lower, what_is_not_known)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_FLOAT, "n,4");
    build_input(&build, "u", SP_DTYPE_FLOAT, NULL);
    struct sp_node *a = build_node(&build, "Abs", "x", "a");
    struct sp_node *b = build_node(&build, "Abs", "u", "b");
    infer();
    EXPECT_LOWERING(build_lowering_with(&build, a, "d1=1/2", sp_lower_default), "%0 = part 0 [0:?,2:4] float32[?,2]\n"
                                                                                "%1 = Abs(%0) float32[?,2]\n"
                                                                                "output 0 = %1\n");
    EXPECT_LOWERING(build_lowering_with(&build, b, "", sp_lower_default), "%0 = part 0 [] float32\n"
                                                                          "%1 = Abs(%0) float32\n"
                                                                          "output 0 = %1\n");
}

/* ---- constants -------------------------------------------------------------------------------------------------- */

static enum sp_status make_constants(struct sp_lowering *lower)
{
    sp_lower_ints(lower, 2, (const int64_t[]){-1, INT64_MAX});
    sp_lower_scalar(lower, SP_DTYPE_FLOAT, 0.5);
    sp_lower_scalar(lower, SP_DTYPE_DOUBLE, -INFINITY);
    sp_lower_scalar(lower, SP_DTYPE_FLOAT16, -65504);
    sp_lower_scalar(lower, SP_DTYPE_FLOAT16, 2049); /* between 2048 and 2050: the even one */
    sp_lower_scalar(lower, SP_DTYPE_BFLOAT16, INFINITY);
    sp_lower_scalar(lower, SP_DTYPE_FLOAT8E4M3FN, 1000); /* the largest is 448 */
    sp_lower_scalar(lower, SP_DTYPE_FLOAT8E5M2FNUZ, -0.0);
    sp_lower_scalar(lower, SP_DTYPE_UINT64, 0x1p63);
    sp_lower_scalar(lower, SP_DTYPE_BOOL, 3);
    sp_lower_int(lower, SP_DTYPE_INT8, -1);
    sp_lower_int(lower, SP_DTYPE_INT4, -1);
    sp_lower_int(lower, SP_DTYPE_FLOAT, 3);
    sp_lower_full(lower, SP_DTYPE_INT32, 2, (const int64_t[]){1000000, 1000000}, -7);
    sp_lower_iota(lower, 5, 8);
    sp_lower_iota(lower, 5, 5);
    sp_lower_iota(lower, 0, 1000000);
    sp_lower_tensor(lower, SP_DTYPE_FLOAT, 2, (const int64_t[]){1, 2}, (const float[]){1.5F, -2}, 8);
    return sp_lower_status(lower);
}

static enum sp_status make_infinite_int(struct sp_lowering *lower)
{
    sp_lower_scalar(lower, SP_DTYPE_INT32, INFINITY);
    return sp_lower_status(lower);
}

static enum sp_status make_string(struct sp_lowering *lower)
{
    sp_lower_int(lower, SP_DTYPE_STRING, 1);
    return sp_lower_status(lower);
}

static enum sp_status make_long_list(struct sp_lowering *lower)
{
    sp_lower_iota(lower, 0, 1000000);
    return sp_lower_status(lower);
}

Test(lower, constants)
{
    struct sp_node *node = matmul(13);
    EXPECT_LOWERING(build_lowering_with(&build, node, "", make_constants),
                    "%0 = int64[2] {-1,9223372036854775807}\n"
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
    EXPECT_LOWERING(build_lowering_with(&build, node, "", make_infinite_int),
                    "LOCAL_PROGRAM: Node 0 (MatMul): its local form has a constant of type int32.");
    EXPECT_LOWERING(build_lowering_with(&build, node, "", make_string),
                    "LOCAL_PROGRAM: Node 0 (MatMul): its local form has a constant of type string.");
}

Test(lower, long_lists_need_range)
{
    struct sp_node *node = matmul(10);
    const char *text = build_lowering_with(&build, node, "k=0/2", make_long_list);
    cr_expect(strncmp(text, "again k: ", 9) == 0 && strstr(text, "'Range' as it is since version 11") != NULL, "%s",
              text);
}

/* Every number of a narrow format is that number again, and what lies between two goes to the nearer. */
static enum sp_status encode_all(struct sp_lowering *lower)
{
    for (uint32_t bits = 0; bits <= 0x7bff; bits += 13) {
        const double value = sp_float_from_bits(SP_DTYPE_FLOAT16, bits);
        const double next = sp_float_from_bits(SP_DTYPE_FLOAT16, bits + 1);
        sp_lower_scalar(lower, SP_DTYPE_FLOAT16, -value);
        sp_lower_scalar(lower, SP_DTYPE_FLOAT16, value + (next - value) * 0.75);
    }
    for (uint32_t i = 0; i < lower->recorder->count; i++) {
        const unsigned char *bytes = lower->recorder->events[i].constant.bytes;
        const uint32_t want = i % 2 == 0 ? (i / 2 * 13) | 0x8000 : i / 2 * 13 + 1;
        cr_assert_eq((uint32_t)bytes[0] + 256U * bytes[1], want, "%u", i);
    }
    lower->recorder->count = 0;
    return sp_lower_status(lower);
}

Test(lower, narrow_floats_are_rounded_to_the_nearest)
{
    struct sp_node *node = matmul(13);
    build_lowering_with(&build, node, "", encode_all);
}

static enum sp_status know(struct sp_lowering *lower)
{
    uint32_t count;
    const int64_t *ints = sp_lower_known(lower, 1, &count);
    END_AFTER_ERROR(lower);
    cr_assert_eq(count, 2);
    cr_expect_eq(ints[0], 6);
    cr_expect_eq(ints[1], 4);
    cr_expect_null(sp_lower_known(lower, 0, &count));
    cr_expect_eq(count, 0);
    return sp_lower_status(lower);
}

Test(lower, known_integers_of_an_input)
{
    start(13);
    input("x", "4,6");
    build_ints(&build, "shape", 2, (const int64_t[]){6, 4});
    struct sp_node *node = build_node(&build, "Reshape", "x shape", "y");
    infer();
    build_lowering_with(&build, node, "", know);
}

/* ---- operators and attributes ----------------------------------------------------------------------------------- */

static enum sp_status write_operators(struct sp_lowering *lower)
{
    char name[] = "value";
    int64_t ints[] = {1, 2};
    const struct sp_lower_attribute attributes[] = {
        SP_INT_ATTR("i", 3),
        SP_INTS_ATTR("list", 2, ints),
        SP_NO_ATTR("gone"),
        {.name = name, .type = SP_ATTR_FLOAT, .f = 0.25},
        {.name = "reals", .type = SP_ATTR_FLOATS, .count = 2, .floats = (const double[]){0.5, 1.5}},
        {.name = "mode", .type = SP_ATTR_STRING, .s = "edge"}};
    struct sp_piece *inputs[] = {sp_lower_input(lower, 0), NULL}, *outputs[2];
    sp_lower_output(lower, 0, sp_lower_same(lower, 2, inputs, 6, attributes));
    sp_lower_op_many(lower, &(struct sp_lower_call){"com.microsoft", "Two", 1, inputs, 0, NULL, 2},
                     (const enum sp_dtype[]){SP_DTYPE_FLOAT, SP_DTYPE_INT64}, outputs);
    sp_piece_set_dims(lower, outputs[1], 2, (const int64_t[]){2, -1});
    /* Copies are kept, not what was given. */
    name[0] = '?';
    ints[0] = 9;
    inputs[0] = NULL;
    return sp_lower_status(lower);
}

Test(lower, operators_keep_what_they_are_given)
{
    struct sp_node *node = matmul(13);
    EXPECT_LOWERING(build_lowering_with(&build, node, "m=0/2", write_operators),
                    "%0 = part 0 [0:2,0:6] float32[2,6]\n"
                    "%1 = MatMul(%0, -) {i=3, list=[1,2], gone=none, value=0.25, reals=[0.5,1.5], mode='edge'} "
                    "float32[2,5]\n"
                    "output 0 = %1\n"
                    "%2, %3 = com.microsoft.Two(%0) float32 int64[2,?]\n");
}

/* ---- queries ---------------------------------------------------------------------------------------------------- */

static enum sp_status look(struct sp_lowering *lower)
{
    uint32_t count;
    const uint8_t k = sp_lower_split_named(lower, "k"), *partial = sp_lower_partial_factors(lower, 0, &count);
    END_AFTER_ERROR(lower);
    cr_assert_eq(count, 1);
    cr_expect_eq(partial[0], k);
    cr_expect_eq(sp_lower_input_factor(lower, 0, 1), k);
    cr_expect_eq(sp_lower_input_factor(lower, 1, 0), k);
    cr_expect_eq(sp_lower_output_factor(lower, 0, 2), SP_RULE_NO_FACTOR);
    cr_expect_eq(sp_lower_split_named(lower, "n"), SP_RULE_NO_FACTOR);
    cr_expect(sp_lower_is_cut(&lower->inputs[0], 1) && !sp_lower_is_cut(&lower->inputs[1], 1));
    const int64_t *dims = sp_lower_part_dims(lower, &lower->inputs[0]);
    END_AFTER_ERROR(lower);
    cr_expect(dims[0] == 4 && dims[1] == 3);
    return sp_lower_status(lower);
}

Test(lower, queries)
{
    struct sp_node *node = matmul(13);
    build_lowering_with(&build, node, "k=1/2", look);
}
